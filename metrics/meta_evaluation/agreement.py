"""Agreement of metrics with people's judgements of summaries: `summarily meta human`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from summarily.metrics.base import Metric, make_examples
from summarily.metrics.meta_evaluation import reports
from summarily.metrics.meta_evaluation.correlation import (
    COEFFICIENTS,
    LEVELS,
    Layout,
    coefficient,
    correlate,
    partial,
)
from summarily.metrics.meta_evaluation.human import Judgements
from summarily.metrics.meta_evaluation.reports import Section, Table, bracket, number, p_value
from summarily.metrics.meta_evaluation.scores import Scored, ScoreStore, numbered, reported, significant
from summarily.metrics.meta_evaluation.significance import (
    Bounds,
    bootstrap,
    interval,
    permutation_test,
    resampling_for,
    williams,
)
from summarily.metrics.meta_evaluation.verdict import Verdict, judge
from summarily.metrics.resampling import holm
from summarily.support.errors import InputError

RESAMPLES = 1000
PERMUTATIONS = 999

LENGTH = "length alone"
REPETITION = "repetition alone"


def controls(summaries: Sequence[str]) -> dict[str, list[float]]:
    """What a judgement may follow that no metric is needed for: the words of a summary, and the share of its
    three-word runs that it has not had before.

    Example:
        >>> controls(["the cat sat", "the cat sat the cat sat"])
        {'length alone': [3.0, 6.0], 'repetition alone': [1.0, 0.75]}
    """
    words = [summary.lower().split() for summary in summaries]
    runs = [list(zip(own, own[1:], own[2:], strict=False)) for own in words]
    return {
        LENGTH: [float(len(own)) for own in words],
        REPETITION: significant([len(set(own)) / len(own) if own else 1.0 for own in runs]),
    }


def score_judgements(
    judgements: Sequence[Judgements],
    metrics: Mapping[str, Metric],
    store: ScoreStore | None = None,
    progress: bool | None = None,
) -> Scored:
    """Score the summaries of one set; several `judgements` are several questions about the same summaries."""
    first = judgements[0]
    for other in judgements[1:]:
        if other.summaries != first.summaries:
            raise InputError(
                f"{first.question} and {other.question} are not about the same summaries; read one at a time."
            )
    examples = make_examples(first.summaries, first.references, first.sources)
    scores = (store or ScoreStore()).score(metrics, examples, progress)
    inputs, _ = numbered(first.inputs)
    systems, system_names = numbered(first.systems)
    return Scored(
        first.name,
        {entry.question: significant(entry.human) for entry in judgements},
        {label: significant(column) for label, column in reported(scores).items()},
        inputs,
        systems,
        system_names,
        {label: str(score.signature) for label, score in scores.items()},
        {"read": first.describe()},
        controls(first.summaries),
    )


@dataclass(frozen=True)
class Agreement:
    """One value of one metric against people's answers to one question."""

    label: str
    values: dict[str, dict[str, float]]
    """By level and coefficient."""
    bounds: dict[str, Bounds]
    """By level, of the study's coefficient."""
    n: int
    missing: int
    """Summaries that the metric cannot score (APES without a question)."""
    ties: int
    """Pairs of summaries of one input that the metric scores the same."""
    inputs: int
    undefined: int
    """Inputs left out because they have one summary, or a constant."""
    p_williams: float
    p_williams_holm: float
    """Pooled, one-sided: is it higher than the baseline's?"""
    p_permutation: float
    p_permutation_holm: float
    """At input level with Kendall's tau, two-sided: does it differ from the baseline's?"""
    beyond_length: dict[str, tuple[float, Bounds]] = field(default_factory=dict)
    """By level: the partial correlation given the summary's length, in the study's coefficient."""


@dataclass(frozen=True)
class Study:
    """All metrics of one set against one question."""

    name: str
    question: str
    coefficient: str
    baseline: str
    resample: str
    rows: list[Agreement]


def analyse(
    scored: Scored,
    question: str | None = None,
    name: str = "spearman",
    baseline: str | None = None,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
) -> Study:
    """Correlations at every level with intervals, and tests of each metric against a baseline.

    p-values are corrected for the number of metrics by Holm's method.
    """
    question = question or next(iter(scored.human))
    if question not in scored.human:
        raise InputError(f"there is no question {question!r}; there are: {', '.join(scored.human)}.")
    labels = list(scored.columns)
    if baseline is None:
        baseline = "rougeL" if "rougeL" in labels else labels[0]
    if baseline not in labels:
        raise InputError(f"the baseline {baseline!r} is not among the values: {', '.join(labels)}.")
    resample = resampling_for(len(scored.system_names))
    raw = [_tests(scored, question, label, baseline, permutations) for label in labels]
    tested = [i for i, label in enumerate(labels) if label != baseline]
    corrected = [_holm([raw[i][which] for i in tested]) for which in (0, 1)]
    places = {i: place for place, i in enumerate(tested)}
    rows = []
    for i, label in enumerate(labels):
        holm_pair = [corrected[which][places[i]] if i in places else math.nan for which in (0, 1)]
        rows.append(_agreement(scored, question, label, name, resample, resamples, raw[i], holm_pair))
    untested = (math.nan, math.nan)
    rows += [
        _agreement(scored, question, label, name, resample, resamples, untested, untested)
        for label in scored.controls
    ]
    return Study(scored.name, question, name, baseline, resample, rows)


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of those that are defined."""
    defined = [i for i, p in enumerate(p_values) if not math.isnan(p)]
    found = [math.nan] * len(p_values)
    for i, p in zip(defined, holm([p_values[i] for i in defined]), strict=True):
        found[i] = p
    return found


def _tests(
    scored: Scored, question: str, label: str, baseline: str, permutations: int
) -> tuple[float, float]:
    """Williams' and the permutation test against the baseline, on the rows that both metrics score."""
    if label == baseline:
        return math.nan, math.nan
    x, y = np.array(scored.columns[label]), np.array(scored.columns[baseline])
    z = np.array(scored.human[question])
    rows = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))
    if len(rows) < 4:
        return math.nan, math.nan
    x, y, z = x[rows], y[rows], z[rows]
    pairs = [coefficient("spearman", *pair) for pair in ((x, z), (y, z), (x, y))]
    # Two metrics that rank alike are equally good, and have no test.
    p_williams = 0.5 if pairs[2] >= 1 - 1e-12 else williams(pairs[0], pairs[1], pairs[2], len(rows))
    inputs, systems = np.array(scored.inputs)[rows], np.array(scored.systems)[rows]
    if len(set(inputs)) == len(rows):  # one summary per input: there is nothing to rank within it
        return p_williams, math.nan
    test = permutation_test(x, y, z, list(inputs), list(systems), resamples=permutations)
    return p_williams, test.p


def _agreement(
    scored: Scored,
    question: str,
    label: str,
    name: str,
    resample: str,
    resamples: int,
    raw: tuple[float, float],
    corrected: Sequence[float],
) -> Agreement:
    column = np.array({**scored.columns, **scored.controls}[label])
    human = np.array(scored.human[question])
    rows = np.flatnonzero(~np.isnan(column))
    x, y = column[rows], human[rows]
    length = (
        np.array(scored.controls[LENGTH])[rows] if label != LENGTH and LENGTH in scored.controls else None
    )
    inputs = [str(scored.inputs[row]) for row in rows]
    systems = [str(scored.systems[row]) for row in rows]
    values, bounds, beyond = {}, {}, {}
    by_input = correlate(x, y, "input", name, inputs, systems) if len(rows) else None
    for level in LEVELS:
        found = {each: correlate(x, y, level, each, inputs, systems) for each in COEFFICIENTS}
        values[level] = {each: result.value for each, result in found.items()}
        if math.isnan(values[level][name]) or (level == "system" and found[name].n < 3):
            bounds[level] = Bounds(math.nan, math.nan, 0)
        else:
            draws = bootstrap([x], y, inputs, systems, level, name, resample, resamples)
            bounds[level] = interval(draws[0])
            if length is not None:
                others = [
                    (correlate(one, length, level, name, inputs, systems).value, drawn)
                    for one, drawn in zip(
                        (x, y),
                        bootstrap([x, y], length, inputs, systems, level, name, resample, resamples),
                        strict=True,
                    )
                ]
                beyond[level] = (
                    float(partial(values[level][name], others[0][0], others[1][0])),
                    interval(partial(draws[0], others[0][1], others[1][1])),
                )
    return Agreement(
        label,
        values,
        bounds,
        len(rows),
        len(column) - len(rows),
        tied_pairs(x, inputs, systems),
        by_input.n if by_input else 0,
        by_input.undefined if by_input else 0,
        raw[0],
        corrected[0],
        raw[1],
        corrected[1],
        beyond,
    )


def tied_pairs(x: np.ndarray, inputs: Sequence[str], systems: Sequence[str]) -> int:
    """Pairs of summaries of one input with the same score.

    Example:
        >>> tied_pairs(np.array([1.0, 1.0, 2.0, 2.0]), ["a", "a", "a", "b"], ["x", "y", "z", "x"])
        1
    """
    if len(x) == 0:
        return 0
    layout = Layout(inputs, systems)
    values, present = x[layout.grid], layout.present
    equal = (values[:, :, None] == values[:, None, :]) * present[:, :, None] * present[:, None, :]
    return int((equal.sum() - present.sum()) / 2)


# --- tables -------------------------------------------------------------------------------------------------


def agreement_table(study: Study) -> Table:
    """Every metric at every level: the study's coefficient with its interval, the tests, and what was counted."""
    header = ["metric"]
    for level in LEVELS:
        header += [level, "95%"]
    header += ["p Williams", "p permutation", "ties", "undefined", "missing"]
    rows = []
    for row in study.rows:
        cells = [row.label + (" (baseline)" if row.label == study.baseline else "")]
        for level in LEVELS:
            cells += [number(row.values[level][study.coefficient]), bracket(*row.bounds[level][:2])]
        cells += [p_value(row.p_williams_holm), p_value(row.p_permutation_holm)]
        rows.append([*cells, str(row.ties), str(row.undefined), str(row.missing)])
    note = (
        f"Intervals: bootstrap over {'inputs and systems' if study.resample == 'both' else study.resample}. Against "
        f"{study.baseline}, corrected by Holm: Williams' test of the pooled Spearman correlation (one-sided), and a "
        "permutation test of the input-level Kendall correlation (two-sided). Ties: pairs of summaries of one input "
        "with equal scores; undefined: inputs with one summary or a constant, left out; missing: summaries that the "
        "metric does not score."
    )
    return Table(f"{study.name}, {study.question}: {study.coefficient}", header, rows, note)


def beyond_length_table(study: Study) -> Table | None:
    """Every correlation beside the one that is left when the summary's length is held fixed."""
    if not any(row.beyond_length for row in study.rows):
        return None
    header = ["metric"]
    for level in LEVELS:
        header += [level, "given length", "95%"]
    rows = []
    for row in study.rows:
        cells = [row.label]
        for level in LEVELS:
            value, bounds = row.beyond_length.get(level, (math.nan, Bounds(math.nan, math.nan, 0)))
            cells += [number(row.values[level][study.coefficient]), number(value), bracket(*bounds[:2])]
        rows.append(cells)
    note = (
        "Given length: the partial correlation with the number of words of the summary held fixed, from the three "
        f"correlations of the level. {LENGTH} is that number itself; {REPETITION} the share of three-word runs that "
        "a summary has not had before. Neither reads a reference: a metric that is not above them may measure them."
    )
    return Table(f"{study.name}, {study.question}: {study.coefficient} beyond length", header, rows, note)


def coefficients_table(study: Study) -> Table:
    """All three coefficients at all three levels."""
    header = ["metric", *(f"{level} {sign}" for level in LEVELS for sign in ("r", "rho", "tau"))]
    rows = [
        [row.label, *(number(row.values[level][name]) for level in LEVELS for name in COEFFICIENTS)]
        for row in study.rows
    ]
    return Table(f"{study.name}, {study.question}: Pearson, Spearman, Kendall", header, rows)


def level_to_read(study: Study) -> str:
    """Summaries of one input are what people compare; where no input has several, all are pooled."""
    return "input" if any(row.inputs for row in study.rows) else "pooled"


def verdict(scored: Scored, study: Study, resamples: int = RESAMPLES) -> Verdict:
    """Which value to trust on these data."""
    level = level_to_read(study)
    rows = {row.label: row for row in study.rows}
    values = {label: row.values[level][study.coefficient] for label, row in rows.items()}
    return judge(
        level,
        scored.columns,
        values,
        {label: (row.bounds[level].low, row.bounds[level].high) for label, row in rows.items()},
        scored.human[study.question],
        [str(name) for name in scored.inputs],
        [str(name) for name in scored.systems],
        study.coefficient,
        study.resample,
        resamples,
        {label: values[label] for label in scored.controls},
    )


def section(scored: Scored, studies: Sequence[Study], plots: bool) -> Section:
    """The part of a report about one set: the verdict, the best metric against people, and all the numbers."""
    result = Section(f"Agreement with people: {scored.name}", [scored.notes.get("read", "")])
    found = verdict(scored, studies[0])
    result.first = [found.sentence(), *found.advice(studies[0].baseline)]
    result.text += remarks(scored)
    for study in studies:
        result.tables += [agreement_table(study), coefficients_table(study)]
        if (beyond := beyond_length_table(study)) is not None:
            result.tables.insert(-1, beyond)
    if plots:
        if found.best is not None:
            question = studies[0].question
            caption = f"{found.best} against people ({question}), a point for every summary"
            people = scored.human[question]
            points = reports.against(people, scored.columns[found.best], f"people: {question}", found.best)
            result.lead.append((caption, points))
        for study in studies:
            level = level_to_read(study)
            result.lead.append(
                (
                    f"{scored.name}, {study.question}: {study.coefficient} correlation, {level} level, 95% intervals",
                    reports.bars(
                        {row.label: row.values[level][study.coefficient] for row in study.rows},
                        {row.label: row.bounds[level][:2] for row in study.rows},
                        f"{study.coefficient} with people",
                    ),
                )
            )
        result.figures.append(("Distribution of each metric's scores", reports.distributions(scored.columns)))
        result.figures.append(
            (
                "Spearman correlation of the metrics with each other, all summaries pooled",
                reports.matrix(list(scored.columns), metric_matrix(scored.columns)),
            )
        )
    return result


def metric_matrix(columns: Mapping[str, Sequence[float]]) -> np.ndarray:
    """Pooled Spearman correlations of the metrics with each other, on the rows that both score."""
    arrays = [np.array(column) for column in columns.values()]
    found = np.ones((len(arrays), len(arrays)))
    for i, a in enumerate(arrays):
        for j, b in enumerate(arrays[:i]):
            rows = ~np.isnan(a) & ~np.isnan(b)
            found[i, j] = found[j, i] = coefficient("spearman", a[rows], b[rows])
    return found


def remarks(scored: Scored) -> list[str]:
    """What the shape of the data leaves undefined, in words."""
    found = []
    systems, inputs = len(scored.system_names), len(set(scored.inputs))
    if systems == 1:
        found.append(
            "There is one system only: the system level is undefined, and the pooled level is the one to read."
        )
    elif systems == 2:
        found.append(
            "There are two systems: a correlation of two points is always 1 or -1, so read another level."
        )
    if inputs == len(scored):
        found.append("Every input has one summary: the input level is undefined.")
    for question, human in scored.human.items():
        if len(set(human)) == 1:
            found.append(f"All human scores for {question} are {human[0]:g}: no correlation is defined.")
    for label, column in scored.columns.items():
        if len({value for value in column if not math.isnan(value)}) <= 1:
            found.append(f"All scores of {label} are the same: no correlation of it is defined.")
    return found
