"""Do the tests notice faults? `make mutants` puts small ones into the code, one at a time, and runs the tests.

The faults are cosmic-ray's operators and three of our own (a call loses a keyword, two arguments change places, a
statement is dropped). A sample with a fixed seed is drawn evenly from the modules that decide numbers; each fault is
tried against the tests of its module in a process of its own, which loads the changed source instead of the file. No
file is ever changed.

    python -m tests.mutants                                   # as make mutants
    python -m tests.mutants --sample 30 --seed 1 metrics.transport
    python -m tests.mutants --results tried.jsonl             # goes on after a stop
    python -m tests.mutants --results tried.jsonl --again     # tries what was not noticed once more
"""

from __future__ import annotations

import argparse
import ast
import configparser
import difflib
import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parents[1]

MODULES = {
    "metrics.apes.readers": ("apes/test_readers.py",),
    "metrics.apes.scorer": ("apes/test_scorer.py",),
    "metrics.bartscore.likelihood": ("bartscore",),
    "metrics.bartscore.scorer": ("test_options.py", "bartscore"),
    "metrics.base": ("test_base.py", "test_scorecard.py", "test_hooks.py"),
    "metrics.bertscore.scorer": ("test_options.py", "bertscore"),
    "metrics.bleurt.scorer": ("bleurt",),
    "metrics.matching": ("test_matching.py", "bertscore"),
    "metrics.meta_evaluation.correlation": (
        "meta_evaluation/test_correlation.py",
        "meta_evaluation/test_significance.py",
    ),
    "metrics.meta_evaluation.significance": (
        "meta_evaluation/test_correlation.py",
        "meta_evaluation/test_significance.py",
    ),
    "metrics.movers.bags": ("wms", "s_wms", "sms"),
    "metrics.movers.contextual": ("wms", "s_wms", "sms"),
    "metrics.movers.metric": ("wms", "s_wms", "sms"),
    "metrics.movers.static": ("wms", "s_wms", "sms"),
    "metrics.moverscore.ngrams": ("moverscore",),
    "metrics.moverscore.scorer": ("test_options.py", "moverscore"),
    "metrics.options": ("test_options.py", "wms", "moverscore", "rouge/test_rouge.py"),
    "metrics.references": ("wms", "bartscore", "bertscore"),
    "metrics.resampling": ("test_resampling.py",),
    "metrics.rouge.lcs": ("rouge/test_lcs.py", "rouge/test_rouge.py"),
    "metrics.rouge.scorer": ("rouge/test_rouge.py", "rouge/test_against_rouge_score.py"),
    "metrics.comparison": ("test_scorecard.py",),
    "metrics.engine": ("test_scorecard.py",),
    "metrics.scorecard": ("test_scorecard.py",),
    "metrics.transport": ("test_transport.py", "wms/test_movers.py"),
    "metrics.vert.scorer": ("vert",),
    "modeling.attention.blocks": ("attention/test_blocks.py",),
    "modeling.attention.lsh": ("attention/test_lsh.py",),
    "modeling.attention.masks": ("attention/test_masks.py", "attention/test_blocks.py"),
    "modeling.attention.relative": ("attention/test_relative.py",),
    "modeling.attention.window": ("attention/test_window.py",),
    "modeling.attention.window_kernels": ("attention/test_window.py",),
    "modeling.attention.window_plan": ("attention/test_window.py",),
    "modeling.generation.shared_cross_attention": ("generation/test_shared_cross_attention.py",),
    "modeling.generation.summary_beam_search": ("generation/test_summary_beam_search.py",),
    "modeling.training.checkpoints": ("training/test_checkpoints.py",),
    "support.cloze.entities": ("support/cloze/test_questions.py",),
    "support.cloze.questions": ("support/cloze/test_questions.py",),
    "support.files": ("support/test_files.py",),
    "support.inputs": ("support/test_inputs.py",),
    "support.weights": ("support/test_weights.py",),
    "modeling.training.objective": ("training/test_objective.py",),
}
"""The modules that decide numbers, and the tests of each (in `tests/metrics` and so on), the quickest first."""


# --- faults -----------------------------------------------------------------------------------------------


class RemoveKeyword(Operator):
    """`f(x, private=True)` becomes `f(x)`."""

    def mutation_positions(self, node):
        for index in self._keywords(node):
            yield node.children[index].start_pos, node.children[index].end_pos

    def mutate(self, node, index):
        at = list(self._keywords(node))[index]
        del node.children[at - 1 : at + 1]  # the comma before it goes too
        return node

    @staticmethod
    def _keywords(node) -> Iterator[int]:
        """Keywords after the first argument, so that what is left is still a list of arguments."""
        for index, child in enumerate(getattr(node, "children", ())):
            named = child.type == "argument" and child.children[0].type == "name" and child.children[1] == "="
            if node.type == "arglist" and index and named:
                yield index

    @classmethod
    def examples(cls):
        return ()


class SwapArguments(Operator):
    """`f(a, b, c)` becomes `f(b, a, c)`; `max` and `min` give the same then."""

    def mutation_positions(self, node):
        if node.type == "arglist" and node.parent.children[0] == "(" and len(node.children) > 2:
            called = node.parent.parent.children[node.parent.parent.children.index(node.parent) - 1]
            first, second = node.children[0], node.children[2]
            named = any(child.type == "argument" for child in (first, second))
            if not named and getattr(called, "value", "") not in ("max", "min"):
                yield first.start_pos, second.end_pos

    def mutate(self, node, index):
        first, second = node.children[0], node.children[2]
        before, between = first.get_first_leaf().prefix, second.get_first_leaf().prefix
        first.get_first_leaf().prefix, second.get_first_leaf().prefix = between, before
        node.children[0], node.children[2] = second, first
        return node

    @classmethod
    def examples(cls):
        return ()


class RemoveStatement(Operator):
    """`values.sort()`, `total += 1` or `x = f(x)` inside a block becomes `pass`."""

    def mutation_positions(self, node):
        if node.type == "simple_stmt" and node.parent is not None and node.parent.type == "suite":
            what = node.children[0]
            assigned = what.type == "expr_stmt" and what.children[0].type == "name"
            again = assigned and what.children[0].value in {
                leaf.value for leaf in _leaves(what.children[-1]) if leaf.type == "name"
            }
            if (what.type in ("atom_expr", "power") or again) and what.type != "string":
                yield what.start_pos, what.end_pos

    def mutate(self, node, index):
        node.children[0] = parso.python.tree.Name("pass", node.start_pos, prefix=node.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls):
        return ()


def _leaves(node) -> Iterator:
    if hasattr(node, "children"):
        for child in node.children:
            yield from _leaves(child)
    else:
        yield node


OPERATORS: dict[str, type[Operator]] = {
    **{
        name: get_operator(f"core/{name}")
        for name in (
            "AddNot",
            "NumberReplacer",
            "ReplaceAndWithOr",
            "ReplaceOrWithAnd",
            "ReplaceTrueWithFalse",
            "ReplaceFalseWithTrue",
            "ReplaceBreakWithContinue",
            "ReplaceContinueWithBreak",
            "ReplaceComparisonOperator_Lt_LtE",
            "ReplaceComparisonOperator_LtE_Lt",
            "ReplaceComparisonOperator_Gt_GtE",
            "ReplaceComparisonOperator_GtE_Gt",
            "ReplaceComparisonOperator_Eq_NotEq",
            "ReplaceComparisonOperator_NotEq_Eq",
            "ReplaceComparisonOperator_Is_IsNot",
            "ReplaceComparisonOperator_IsNot_Is",
            "ReplaceBinaryOperator_Add_Sub",
            "ReplaceBinaryOperator_Sub_Add",
            "ReplaceBinaryOperator_Mul_Div",
            "ReplaceBinaryOperator_Div_Mul",
            "ReplaceBinaryOperator_FloorDiv_Mul",
            "ReplaceBinaryOperator_Mod_Add",
            "ReplaceBinaryOperator_Pow_Mul",
            "ReplaceBinaryOperator_BitOr_BitAnd",
            "ReplaceBinaryOperator_BitAnd_BitOr",
            "ReplaceUnaryOperator_Delete_USub",
            "ReplaceUnaryOperator_Delete_Not",
            "ReplaceUnaryOperator_Delete_Invert",
        )
    },
    "RemoveKeyword": RemoveKeyword,
    "SwapArguments": SwapArguments,
    "RemoveStatement": RemoveStatement,
}


@dataclass(frozen=True)
class Mutant:
    module: str
    operator: str
    source: str
    change: str
    """The lines that differ, as a diff without its header."""


class _Behaviour(ast.NodeTransformer):
    """What is left of a module without what only people and type checkers read."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """The words of an error; whether it is raised is decided elsewhere."""
        return ast.Raise()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Two keywords that no test could tell from their absence.

        `zip(..., strict=True)` holds of whatever does not raise there; on a CPU every tensor is on the same device.
        """
        zipped = isinstance(node.func, ast.Name) and node.func.id == "zip"
        same = {"device", "strict"} if zipped else {"device"}
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in same]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return ast.Pass()
        return self.generic_visit(node)


def _behaviour(source: str) -> str:
    return ast.dump(_Behaviour().visit(ast.parse(source)))


def places_of(module: str) -> list[tuple[str, int]]:
    """Where a module could be changed: an operator and which of its occurrences."""
    tree = get_ast(_file_of(module).read_text(encoding="utf-8"))
    nodes = list(ast_nodes(tree))
    counts = {
        name: sum(len(list(operator().mutation_positions(node))) for node in nodes)
        for name, operator in OPERATORS.items()
    }
    return [(name, occurrence) for name, count in counts.items() for occurrence in range(count)]


def mutant(module: str, operator: str, occurrence: int) -> Mutant | None:
    """The fault at a place, or None if it cannot be compiled or changes nothing."""
    source = _file_of(module).read_text(encoding="utf-8")
    changed = mutate_code(source, OPERATORS[operator](), occurrence)
    try:
        if changed is None or _behaviour(changed) == _behaviour(source):
            return None
    except SyntaxError:
        return None
    lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
    return Mutant(module, operator, changed, "\n".join(list(lines)[2:]))


def draw(modules: list[str], size: int, seed: int) -> list[Mutant]:
    """A sample of faults, as many from each module as from any other."""
    generator = random.Random(seed)
    order = generator.sample(modules, len(modules))
    chosen: list[Mutant] = []
    for index, module in enumerate(order):
        wanted = size * (index + 1) // len(order) - size * index // len(order)
        places = places_of(module)
        generator.shuffle(places)
        found = (fault for fault in (mutant(module, *place) for place in places) if fault)
        chosen += itertools.islice(found, wanted)
    return chosen


@functools.cache
def _folders() -> dict[str, str]:
    """Where packages lie, by setup.cfg: asking Python would import them, and a fault has to come before that."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options"]["package_dir"].strip().splitlines()
    return dict(tuple(part.strip() for part in line.split("=")) for line in lines)


def _file_of(module: str) -> Path:
    name = f"summarily.{module}"
    package = max((known for known in _folders() if name.startswith(f"{known}.")), key=len)
    path = ROOT / _folders()[package] / Path(*name.removeprefix(f"{package}.").split(".")).with_suffix(".py")
    if not path.is_file():
        raise SystemExit(f"{name} does not exist; put MODULES in tests/mutants.py right.")
    return path


def tests_of(module: str) -> list[str]:
    part = module.split(".")[0]
    folder = ROOT / "tests" / ("summarily" if part == "support" else part)
    for name in MODULES[module]:
        if not (folder / name).exists():
            raise SystemExit(f"{folder / name}, the tests of summarily.{module}, does not exist.")
    return [str(folder / name) for name in MODULES[module]]


# --- trials -----------------------------------------------------------------------------------------------


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Loads one module from a changed source; its file, and all others, stay what they are."""

    def __init__(self, module: str, source: str):
        super().__init__(f"summarily.{module}", str(_file_of(module)))
        self.source = source

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.name:
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)
        return None

    def get_code(self, fullname):
        return compile(self.source, self.path, "exec", dont_inherit=True)


def attempt(module: str, source: str | None, limit: int) -> tuple[str, float, str]:
    """Run a module's tests, with another source if one is given: how they ended, CPU seconds, and the output.

    They end as "passed", "failed", "hung" (the limit is one of CPU seconds, which a busy machine does not change), or
    "stopped" by the clock, which says nothing: they slept, or others had the machine.
    """
    assert not any(name.split(".")[0] == "summarily" for name in sys.modules), "the fault would come too late"
    until = time.monotonic() + 20 * limit
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                for stream in (1, 2):
                    os.dup2(output.fileno(), stream)
                if source is not None:
                    sys.meta_path.insert(0, _Changed(module, source))
                import pytest

                code = int(
                    pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests_of(module)])
                )
            finally:
                os._exit(code)
        done, word, used = os.wait4(child, os.WNOHANG)
        while not done and time.monotonic() < until:
            time.sleep(0.05)
            done, word, used = os.wait4(child, os.WNOHANG)
        if not done:
            os.killpg(child, signal.SIGKILL)
            _, word, used = os.wait4(child, 0)
        output.seek(0)
        text = output.read()
    code = os.waitstatus_to_exitcode(word)
    if not done:
        outcome = "stopped"
    elif code in (-signal.SIGXCPU, -signal.SIGKILL):
        outcome = "hung"
    else:
        outcome = "failed" if code else "passed"
    return outcome, used.ru_utime + used.ru_stime, text


class Results:
    """What was tried before: a line of JSON for each fault, by the source it makes of its module."""

    def __init__(self, path: Path | None):
        self.path, self.outcomes = path, dict[str, str]()
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.outcomes[row["fault"]] = row["outcome"]

    @staticmethod
    def key(fault: Mutant) -> str:
        return hashlib.sha256(f"{fault.module}\n{fault.source}".encode()).hexdigest()

    def of(self, fault: Mutant, again: bool = False) -> str | None:
        outcome = self.outcomes.get(self.key(fault))
        return None if again and outcome == "passed" else outcome

    def add(self, fault: Mutant, outcome: str) -> None:
        self.outcomes[self.key(fault)] = outcome
        if self.path is not None:
            row = {"fault": self.key(fault), "module": fault.module, "outcome": outcome}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row | {"change": fault.change}) + "\n")


def _import_what_does_not_change() -> None:
    """Libraries are imported once, before the processes part."""
    import evaluate  # noqa: F401
    import hypothesis  # noqa: F401
    import ot  # noqa: F401
    import pandas  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import spacy  # noqa: F401
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", help="only these, as metrics.transport (default: all)")
    parser.add_argument("--sample", type=int, default=96, help="number of faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--least", type=float, default=0.85, help="fail below this share (default: %(default)s)"
    )
    parser.add_argument("--results", type=Path, help="keep outcomes in this file, and do not try them twice")
    parser.add_argument("--again", action="store_true", help="try what was not noticed once more")
    options = parser.parse_args()
    if unknown := [name for name in options.modules if name not in MODULES]:
        parser.error(f"not among the modules: {', '.join(unknown)}")
    modules = options.modules or list(MODULES)
    for module in MODULES:  # all of them, so that a module that was moved is missed at once
        _file_of(module)
        tests_of(module)
    chosen = draw(modules, options.sample, options.seed)
    results = Results(options.results)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    _import_what_does_not_change()
    survivors: list[Mutant] = []
    known = 0
    limits: dict[str, int] = {}
    for number, fault in enumerate(chosen, 1):
        outcome, spent = results.of(fault, options.again), 0.0
        if outcome is None:
            if fault.module not in limits:
                outcome, spent, output = attempt(fault.module, None, limit=900)
                if outcome != "passed":
                    print(output)
                    raise SystemExit(f"the tests of summarily.{fault.module} fail without a fault.")
                limits[fault.module] = int(3 * spent + 20)
            outcome, spent, _ = attempt(fault.module, fault.source, limits[fault.module])
            if outcome != "stopped":
                results.add(fault, outcome)
        noticed = {
            "passed": "SURVIVED", "failed": "noticed", "hung": "noticed (hung)", "stopped": "not known",
        }[outcome]  # fmt: skip
        survivors += [fault] if outcome == "passed" else []
        known += outcome != "stopped"
        print(
            f"{number:3}/{len(chosen)} {noticed:9} {spent:5.1f} s  {fault.module}  {fault.operator};"
            f" {known - len(survivors)} of {known} so far",
            flush=True,
        )
        if outcome == "passed":
            print(fault.change, flush=True)
    share = 1 - len(survivors) / known if known else 0.0
    print(f"\n{known - len(survivors)} of {known} faults noticed: {100 * share:.0f}% (seed {options.seed})")
    if known < len(chosen):
        print(f"{len(chosen) - known} more were stopped by the clock; run it again on a quieter machine.")
    for fault in survivors:
        print(f"\nnot noticed: summarily.{fault.module} ({fault.operator})\n{fault.change}")
    return 0 if share >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
