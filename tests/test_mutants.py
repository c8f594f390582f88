"""The list of modules in tests/mutants.py fits the tree, and a fault is what it says."""

import ast

import pytest

from tests import mutants


@pytest.mark.parametrize("module", mutants.MODULES)
def test_modules_and_their_tests_exist(module):
    assert mutants._file_of(module).is_file() and mutants.tests_of(module)
    assert len(mutants.places_of(module)) > 5


def test_a_module_that_was_moved_is_missed():
    with pytest.raises(SystemExit, match=r"summarily\.metrics\.gone does not exist"):
        mutants._file_of("metrics.gone")


def test_samples_repeat_with_the_seed_and_spread_over_the_modules():
    modules = ["metrics.resampling", "support.files", "metrics.transport"]
    first, again, other = (mutants.draw(modules, 7, seed) for seed in (0, 0, 1))
    assert first == again != other and len(set(first)) == 7
    assert sorted([fault.module for fault in first].count(module) for module in modules) == [2, 2, 3]
    for fault in first:
        source = mutants._file_of(fault.module).read_text()
        assert fault.source != source and fault.change.count("\n+") >= 1
        ast.parse(fault.source)


def changes(source, operator):
    found = []
    while (changed := mutants.mutate_code(source, mutants.OPERATORS[operator](), len(found))) is not None:
        found.append(changed)
    return found


def test_our_own_operators():
    assert changes("f(a, b=1, c=2)\n", "RemoveKeyword") == ["f(a, c=2)\n", "f(a, b=1)\n"]
    assert changes("f(b=1)\n", "RemoveKeyword") == []
    assert changes("f(a, g(b), c)\n", "SwapArguments") == ["f(g(b), a, c)\n"]
    assert changes("x.f(a, b).g(\n    1,\n    2,\n)\n", "SwapArguments") == [
        "x.f(b, a).g(\n    1,\n    2,\n)\n",
        "x.f(a, b).g(\n    2,\n    1,\n)\n",
    ]
    assert changes("max(a, b) + f(a) + g(a, b=1) + h(*a, b) + x[a, b]\n", "SwapArguments") == []
    block = "def f(x):\n    x.sort()\n    x = g(x)\n    y = x\n    return y\n"
    assert changes(block, "RemoveStatement") == [
        block.replace("x.sort()", "pass"),
        block.replace("x = g(x)", "pass"),
    ]


def test_what_only_people_and_type_checkers_read_is_no_fault():
    source = "def f(x: int | None = 1) -> int | None:\n    raise ValueError(x + 1)\n"
    for same in (source.replace("int | None", "int & None"), source.replace("x + 1", "x - 1")):
        assert mutants._behaviour(same) == mutants._behaviour(source)
    assert mutants._behaviour(source.replace("= 1", "= 2")) != mutants._behaviour(source)
    same, other = "f(zip(a, b{}), c.to(d{}))", "f(a, b{})"
    for change in (", strict=True", ", strict=False"):
        assert mutants._behaviour(same.format(change, "")) == mutants._behaviour(same.format("", ""))
        assert mutants._behaviour(other.format(change)) != mutants._behaviour(other.format(""))
    assert mutants._behaviour(same.format("", ", device=cpu")) == mutants._behaviour(same.format("", ""))


def test_outcomes_are_kept_and_what_was_not_noticed_may_be_tried_again(tmp_path):
    seen, missed, new = mutants.draw(["support.files"], 3, 0)
    results = mutants.Results(tmp_path / "tried.jsonl")
    results.add(seen, "failed")
    results.add(missed, "passed")
    after_a_stop = mutants.Results(tmp_path / "tried.jsonl")
    assert [after_a_stop.of(fault) for fault in (seen, missed, new)] == ["failed", "passed", None]
    assert [after_a_stop.of(fault, again=True) for fault in (seen, missed, new)] == ["failed", None, None]
    after_a_stop.add(missed, "hung")  # the last line counts
    assert mutants.Results(tmp_path / "tried.jsonl").of(missed, again=True) == "hung"
    assert mutants.Results(None).of(seen) is None
