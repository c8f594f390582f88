"""The tab key: the code for a shell, and the words that it asks us for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

_BASH = """\
_summarily() {
  local IFS=$'\\n'
  COMPREPLY=($(summarily complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _summarily summarily"""


def completion(options: argparse.Namespace) -> int:
    print(("autoload -U +X bashcompinit && bashcompinit\n" if options.shell == "zsh" else "") + _BASH)
    return 0


def complete(
    parser_of: Callable[[Sequence[str]], argparse.ArgumentParser], options: argparse.Namespace
) -> int:
    """Print the words that may stand where the last one begins; `parser_of` makes the parser for some words."""
    *before, last = options.words or [""]
    parser = parser_of(before)
    for word in before:
        inner = _commands_of(parser).get(word)
        parser = inner or parser
    found = [*_commands_of(parser), *(name for action in parser._actions for name in action.option_strings)]
    option = next((a for a in parser._actions if before and before[-1] in a.option_strings), None)
    if option is not None and option.choices:
        found = list(map(str, option.choices))
    elif before and before[-1] == "--metrics":
        from summarily.metrics import METRICS

        found = ["all", *METRICS]
    print("\n".join(word for word in found if word.startswith(last) and word != "complete"))
    return 0


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: inner
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, inner in action.choices.items()
    }
