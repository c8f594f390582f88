"""Every class of ours under every check of the harness."""

from __future__ import annotations

import pytest

from summarily.modeling import FAMILIES
from tests.modeling.harness import CANNOT_APPLY, CASES, CHECKS, SUBJECTS, applies, reason

# Seconds each: one of every kind; the others with `make slow`.
COMPILED = ("red", "relative", "pointer_generator", "cloze reader", "infersent")


def _all():
    for subject in SUBJECTS:
        for name in CHECKS:
            if applies(name, subject):
                why = reason(name, subject)
                # A check that comes to hold has to leave the table.
                marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
                if name in ("torch_export", "torch_compile") and subject.case.name not in COMPILED:
                    marks.append(pytest.mark.slow)
                yield pytest.param(
                    name, subject, id=f"{subject.case.name}-{subject.name}-{name}", marks=marks
                )


@pytest.mark.parametrize(("name", "subject"), _all())
def test_check(name, subject):
    CHECKS[name](subject)


def test_every_class_has_a_case():
    """A new model joins `FAMILIES` and, here, `CASES`."""
    known = {name for case in CASES for name in case.classes}
    assert {name for family in FAMILIES for name in family.auto_models.values()} == known


def test_the_table_names_what_there_is():
    places = {case.name for case in CASES} | {f"{s.case.name}/{s.name}" for s in SUBJECTS}
    assert CANNOT_APPLY.keys() <= CHECKS.keys()
    assert all(table.keys() <= places and all(table.values()) for table in CANNOT_APPLY.values())
