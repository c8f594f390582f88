"""Two processes as `accelerate launch` starts them, for the tests that compare them with one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# Without a GPU, --multi_gpu is how accelerate starts several CPU processes; --cpu starts one.
_LAUNCH = [
    sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
    "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
]  # fmt: skip


def launch(*commands: list[str]) -> str:
    """Run `summarily` with these arguments in two processes; returns what they print.

    Several commands run one after the other in the same processes, since it is the start that takes time.
    """
    what = ["-m", "summarily", *commands[0]] if len(commands) == 1 else [__file__, json.dumps(commands)]
    # A script finds its own folder first, and ours has tests of the same names as the packages.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run([*_LAUNCH, *what], capture_output=True, text=True, env=environment, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    from summarily import cli

    leave, cli.leave = cli.leave, lambda: None  # they part after the last command, not after each
    for arguments in json.loads(sys.argv[1]):
        if code := cli.main(arguments):
            sys.exit(code)
    leave()
