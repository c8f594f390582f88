"""The command `summarily demo`."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    from summarily.metrics import METRICS
    from summarily.spaces import SPACES

    listing = "\n".join(f"  {name:<10} {text}" for name, text in SPACES.items())
    parser = commands.add_parser(
        "demo",
        help="open a Space in the browser",
        description=f"Serve one of the Spaces on this machine:\n{listing}\nor one metric: {', '.join(METRICS)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="scorecard", help="default: %(default)s")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, help="port to listen on (default: the first free one from 7860)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.set_defaults(run=run_demo)


def run_demo(options: argparse.Namespace) -> int:
    from summarily.support.errors import InputError
    from summarily.support.progress import say

    say(f"loading the Space {options.name}")
    from summarily.spaces import build
    from summarily.spaces.serving import serve

    if options.port is not None and not 0 <= options.port <= 65535:
        raise InputError(f"--port {options.port}: ports go from 0 to 65535.")
    app = build(options.name)
    try:
        serve(app, server_name=options.host, server_port=options.port, inbrowser=options.open)
    except OSError as error:
        raise InputError(f"the Space cannot listen on {options.host}:{options.port}: {error}") from None
    return 0
