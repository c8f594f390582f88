"""`python -m summarily`, and `accelerate launch -m summarily`."""

import sys

from summarily.cli import main

if __name__ == "__main__":
    sys.exit(main())
