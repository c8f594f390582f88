"""The document of the study of APESO: its tables, and what the tests say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from summarily.studies.baselines import KEYS, NAMES
from summarily.studies.report import table, with_interval

PAPER = {
    # APES, ROUGE-1, 2 and L in Table 4
    "source": (61.1, None, None, None),
    "gold summaries": (85.5, 100, 100, 100),
    "shuffled gold summaries": (30.9, 100, 7.0, 58.3),
    "lead 3": (45.1, 40.1, 17.3, 36.3),
    "baseline": (39.8, 39.3, 17.3, 36.3),
    "APESO": (46.1, 40.2, 17.7, 37.0),
    "APESO, gold positions": (46.3, 40.4, 17.8, 37.3),
}


def document(study: Mapping[str, Any]) -> str:
    """STUDY.md: the tables in the shape of the paper's 3 and 4, and what the tests say."""
    runs = study["runs"]
    lines = [
        "# APESO beside its baseline",
        "",
        "Written by `summarily study apeso --data FOLDER`, which trains (or finds) the models and goes on where it was "
        "stopped.",
        "",
        *_setting(study),
        "",
        "## Answers and overlap (Table 4 of the paper)",
        "",
        f"APES is the percentage of right answers over {study['questions']} questions about {study['examples']} "
        "held-out articles, with its 95% interval.",
        "",
        *table(
            ["summaries", "APES", *NAMES, "words", "paper: APES, R-1, R-2, R-L"],
            [_score_cells(name, row) for name, row in study["rows"].items()],
        ),
        "",
        "## Entities (Table 3 of the paper)",
        "",
        *table(
            ["summaries", "APES", "entities", "salient entities"],
            [
                [
                    name,
                    f"{row['apes']:.1f}",
                    f"{row['apes_entities']:.2f}",
                    f"{row['apes_salient_entities']:.2f}",
                ]
                for name, row in study["rows"].items()
            ],
        ),
        "",
        "The paper counts 4.99 entities and 2.61 salient ones in its baseline's summaries, 6.00 and 4.90 in the gold ones.",
        "",
        "## Does it beat its baseline?",
        "",
        "Differences with 95% intervals of a paired bootstrap, and p of a paired permutation test. Longer summaries answer "
        "more questions: the longer baseline has a higher least length, so as to write more nearly as many words as APESO does.",
        "",
        *table(
            ["", "over", "APES", "p", "salient entities", "p", "ROUGE-1", "p"],
            [_test_cells(tests) for tests in study["tests"]],
        ),
        "",
        verdict(study),
        "",
        "## What was learned and chosen",
        "",
        _entity_line(study["entities"]),
        "",
        "Penalties, by APES and ROUGE-1 of validation articles:",
        "",
        *table(
            ["model", "beta", "gamma", "APES", "ROUGE-1", "words", ""],
            list(_penalty_cells(study["penalties"])),
        ),
        "",
        *_runs_table(runs),
        *(f"`{signature}`" for signature in study["signatures"]),
        "",
    ]
    return "\n".join(lines)


def _runs_table(runs: Mapping[str, Any]) -> list[str]:
    if not runs:  # the models were given
        return []
    head = ["run", "steps", "best step", "minutes"]
    rows = [
        [name, str(run["step"]), str(run["best_step"]), f"{run['minutes']:.1f}", f"{run['best_score']:.3f}"]
        for name, run in runs.items()
    ]
    last = "best on held-out rows: loss of a token, in the last four ROUGE-1"
    return ["## Runs", "", *table([*head, last], rows), ""]


def _setting(study: Mapping[str, Any]) -> list[str]:
    runs = study["runs"]
    if not runs:
        return [
            f"{study['parameters']:,} parameters (recipes `pointer_generator` and `apeso`), trained on 400 tokens of an article; "
            "sources of the test are whole. The search has the paper's beams (5), alpha (0.9), least length (35 words) and no "
            "trigram twice; beta and gamma were chosen on validation articles, by the sum of APES and ROUGE-1; the paper's "
            "gamma stands beside.",
        ]
    first, second = study["deltas"]
    return [
        f"{runs['apeso']['parameters']:,} parameters, sources cut at 200 tokens, 10,000 words; word vectors start from GloVe. "
        "Unlike the paper's, attention sees its coverage and is trained not to repeat itself (See et al. 2017). "
        f"The stages: {runs['sentences']['step']} steps of copying single sentences of CNN/DailyMail, BBC and Reuters, "
        f"{runs['passages']['step']} of copying the first one or two of a short passage, {runs['leads']['step']} of copying the "
        f"first of a passage of up to 165 words; then CNN/DailyMail articles with the entity layer (APESO) or without "
        f"(baseline) on the same batches: {runs['apeso']['step']} steps in which entities have nearly all the weight (delta "
        f"{first:g}), and {runs['apeso-settled']['step']} more with a smaller rate and delta {second:g}, of which the last step "
        "is kept. What they learn to write are as many of the first sentences as agree best with the highlights: highlights "
        "themselves, and sentences chosen from all over the article, taught this model to hedge, so that it no longer copied. "
        "The search has the paper's beams (5), alpha (0.9), least length (35 words) and no trigram twice; beta and gamma were "
        "chosen on validation articles, by the sum of APES and ROUGE-1; the paper's gamma stands beside. The paper trained on "
        "287,000 articles, 200 times as many.",
    ]


def _score_cells(name: str, row: Mapping[str, Any]) -> list[str]:
    rouge = ["" if name == "source" else f"{100 * row[key]:.1f}" for key in KEYS]
    paper = ", ".join("-" if value is None else f"{value:g}" for value in PAPER.get(name, ()))
    return [name, with_interval(row["apes"], row["apes_interval"]), *rouge, f"{row['words']:.0f}", paper]


def _entity_line(entities: Mapping[str, float]) -> str:
    return (
        f"Of the tokens of test articles {entities['share']:.1%} belong to salient entities. The entity layer gives them "
        f"{entities['salient']:.3f} on average and others {entities['others']:.3f}; a salient token gets more than another "
        f"with a probability of {entities['area']:.3f}."
    )


def _penalty_cells(penalties: Mapping[str, Any]) -> Iterator[list[str]]:
    for run, chosen in penalties.items():
        for point in chosen["points"]:
            best = (point["beta"], point["gamma"]) == (chosen["beta"], chosen["gamma"])
            place = [run.removesuffix("-settled"), f"{point['beta']:g}", f"{point['gamma']:g}"]
            numbers = [f"{point['apes']:.1f}", f"{100 * point['rouge1']:.1f}", f"{point['words']:.0f}"]
            yield [*place, *numbers, "chosen" if best else ""]


def _test_cells(tests: Mapping[str, Any]) -> list[str]:
    cells = [tests["system"], tests["other"]]
    for key, scale in (("apes", 1), ("apes_salient_entities", 1), ("rouge1", 100)):
        test = tests[key]
        ends = test["low"], test["high"]
        cells += [with_interval(test["difference"], ends, "+.2f", scale), f"{test['p_permutation']:.4f}"]
    return cells


def verdict(study: Mapping[str, Any]) -> str:
    """Whether the paper's claim holds here, and whether it does without more words."""
    found = {test["other"]: test["apes"] for test in study["tests"] if test["system"] == "APESO"}
    said = {"baseline": "its baseline", "baseline, longer": "the longer baseline"}
    return " ".join(_comparison(said[other], test) for other, test in found.items())


def _comparison(other: str, test: Mapping[str, Any]) -> str:
    by = f"by {test['difference']:+.1f} points (95% interval {test['low']:+.1f} to {test['high']:+.1f})"
    if test["low"] > 0:
        return f"APESO answers more questions than {other}, {by}: the paper's claim holds at this scale."
    if test["high"] < 0:
        return f"APESO answers fewer questions than {other}, {by}: the paper's claim does not hold at this scale."
    return (
        f"APESO differs from {other} {by}: at this scale the paper's claim is neither confirmed nor refuted."
    )
