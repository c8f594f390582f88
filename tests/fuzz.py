"""Does anything that others write make us fail? `make fuzz` tries, for a while and from a seed.

A target takes what hypothesis draws: bytes of damaged files, tables, texts, options, clicks. It may answer or refuse
with one of our errors, which are sentences; anything else it raises, or a score that is no number, is a finding. The
targets take turns until the time is up; a finding is shrunk and printed with the seed that leads to it.

    python -m tests.fuzz --seconds 120                      # as make fuzz
    python -m tests.fuzz --seed 7 --only tables             # one target, other cases
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import io
import json
import math
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from summarily.support.errors import SummarilyError

EXAMPLES = 20
"""Cases of a target before it is the next one's turn."""
SECONDS = 120

TARGETS: dict[str, Callable[[st.DataObject], None]] = {}


def target(function: Callable[[st.DataObject], None]) -> Callable[[st.DataObject], None]:
    TARGETS[function.__name__.replace("_", "-")] = function
    return function


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Inside, our own errors are an answer, if they are sentences."""
    try:
        yield
    except SummarilyError as error:
        assert str(error).strip(), "an error without words"
        assert "weights_only=False" not in str(error), "an advice to run a pickle"


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="summarily-fuzz-"))


def written(name: str, content: bytes) -> str:
    path = folder() / name
    path.write_bytes(content)
    return str(path)


# --- what others write ------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8"), max_size=30)
odd_words = st.sampled_from(
    [
        "",
        " ",
        "\n",
        "[MASK]",
        "@placeholder",
        "@entity0",
        "<pad>",
        "</s>",
        "\x00",
        "\u200b",
        "İ",
        "=1+1",
        "<b>",
        "NaN",
    ]
)
texts = st.lists(
    st.one_of(words, odd_words, st.sampled_from(["Snow", "fell", "in", "Oslo", "Ann Berg", "."])), max_size=12
).map(" ".join)
names = st.sampled_from(
    ["prediction", "reference", "references", "source", "summary", "human", "outputs", "A", "B", "id"]
)
cells: st.SearchStrategy[Any] = st.recursive(
    st.one_of(texts, st.none(), st.booleans(), st.integers(), st.floats(), st.just("0.5")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=5,
)
tables = st.lists(st.dictionaries(st.one_of(names, words), cells, max_size=4), min_size=1, max_size=6)


@st.composite
def damaged(draw: Callable[..., Any], whole: bytes) -> bytes:
    """A file with some bytes changed, cut out, doubled or cut off."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        what = draw(st.sampled_from(["change", "cut", "double", "end"]))
        length = draw(st.integers(1, 64))
        if what == "change" and data:
            data[place] = draw(st.integers(0, 255))
        elif what == "cut":
            del data[place : place + length]
        elif what == "double":
            data[place:place] = data[place : place + length]
        else:
            del data[place:]
    return bytes(data)


def _jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@functools.cache
def _sample_tables() -> dict[str, bytes]:
    import pandas

    rows = [{"prediction": f'a "cat" {i}', "reference": f"the cat, {i}", "human": i} for i in range(4)]
    frame = pandas.DataFrame(rows)
    stream = io.BytesIO()
    frame.to_parquet(stream)
    return {
        "t.jsonl": _jsonl(rows),
        "t.jsonl.gz": gzip.compress(_jsonl(rows), mtime=0),
        "t.csv": frame.to_csv(index=False).encode(),
        "t.tsv": frame.to_csv(index=False, sep="\t").encode(),
        "t.parquet": stream.getvalue(),
    }


# --- readers of files -------------------------------------------------------------------------------------


@target
def tables_of_every_kind(data: st.DataObject) -> None:
    from summarily.support.streams import stream_table
    from summarily.support.tables import read_lines, read_table

    name, whole = data.draw(st.sampled_from(sorted(_sample_tables().items())))
    path = written(name, data.draw(st.one_of(damaged(whole), st.binary(max_size=200))))
    with refused():
        table = read_table(path)
        assert len({len(table[column]) for column in table}) <= 1
    with refused():
        read_lines(path)
    with refused():
        for row in stream_table(path, ["prediction", "reference"]):
            assert isinstance(row, (dict, SummarilyError))


@target
def judgements_systems_and_pairs(data: st.DataObject) -> None:
    from summarily.metrics.meta_evaluation.benchmark import read_systems
    from summarily.metrics.meta_evaluation.corruption import read_outputs
    from summarily.metrics.meta_evaluation.human import read_judgements
    from summarily.metrics.meta_evaluation.paraphrase import read_pairs

    path = written("rows.jsonl", _jsonl(data.draw(tables)))
    question = data.draw(st.one_of(st.none(), names))
    with refused():
        assert all(math.isfinite(value) for value in read_judgements(path, question).human)
    with refused():
        read_systems(path, systems=data.draw(st.sampled_from([[], ["A", "B"]])))
    with refused():
        read_pairs(path, columns=("A", "B", "human"))
    with refused():
        read_outputs(path)


@target
def word_vectors(data: st.DataObject) -> None:
    from summarily.support.vectors import load

    rows = [("snow", [1.0, 2.0]), ("fell", [0.5, math.nan])]
    text = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("v.txt", text)
    matrix = io.BytesIO()
    np.save(matrix, np.array([row for _, row in rows]))
    kinds = {
        "v.txt": text,
        "v.vec": b"2 2\n" + text,
        "v.bin": b"2 2\n"
        + b"".join(word.encode() + b" " + np.array(row, "<f4").tobytes() for word, row in rows),
        "v.zip": packed.getvalue(),
        "v.txt.gz": gzip.compress(text, mtime=0),
        "m.npy": matrix.getvalue(),
    }
    name, whole = data.draw(st.sampled_from(sorted(kinds.items())))
    written("m.txt", data.draw(st.sampled_from([b"snow\nfell\n", b"\xff", b"a\nb\nc\n"])))
    path = written(name, data.draw(damaged(whole)))
    with refused():
        found = load(path)
        assert np.isfinite(found.take(np.arange(len(found)))).all()


@target
def stored_results_and_scores(data: st.DataObject) -> None:
    from summarily.metrics import load
    from summarily.metrics.base import make_examples
    from summarily.metrics.meta_evaluation.scores import ScoreStore, load_results

    results = folder() / "results"
    results.mkdir(exist_ok=True)
    value = json.dumps({"name": "a", "columns": {"b": [1, None]}, "human": {}}).encode()
    packed = st.one_of(
        damaged(gzip.compress(value, mtime=0)), damaged(value).map(functools.partial(gzip.compress, mtime=0))
    )
    (results / "human.a.json.gz").write_bytes(data.draw(packed))
    with refused():
        load_results(results)
    examples = make_examples(["a cat"], ["the cat"])
    path = folder() / "scores.sqlite"
    path.unlink(missing_ok=True)
    store = ScoreStore(path)
    store.score({"rouge": load("rouge")}, examples)
    store.connection.close()
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    with refused():
        again = ScoreStore(path)
        try:
            again.score({"rouge": load("rouge")}, examples)
        finally:
            again.connection.close()


@target
def json_and_options(data: st.DataObject) -> None:
    from summarily.support.inputs import literal, parse_json

    with refused():
        parse_json("it", data.draw(st.one_of(words, st.just("[" * 100_000), st.just("9" * 5000))))
    literal(
        data.draw(st.one_of(words, st.just("[" * 100_000), st.just("9" * 5000), st.just("-" * 10_000 + "1")))
    )


@target
def recipes(data: st.DataObject) -> None:
    from summarily.modeling.training.recipe import RECIPES, load_recipe

    whole = data.draw(st.sampled_from(sorted(RECIPES.glob("*.toml")))).read_bytes()
    path = written("recipe.toml", data.draw(damaged(whole)))
    section = data.draw(
        st.sampled_from(["model", "data", "batch", "optimizer", "schedule", "training", "evaluation"])
    )
    key = data.draw(
        st.sampled_from(
            ["learning_rate", "epsilon", "steps", "seed", "name", "tokens", "accumulate", "limit"]
        )
    )
    value = data.draw(st.one_of(words, st.integers(), st.floats(), st.just("[1, 2]")))
    with refused():
        load_recipe(path)
    with refused():
        load_recipe(path, [f"{section}.{key}={value}"])


@target
def questions(data: st.DataObject) -> None:
    from summarily.metrics import load

    question = "-\n\n@entity0 won\n\n@placeholder beat @entity1\n\n@entity0\n\n@entity0:Ann\n@entity1:Bob"
    text = data.draw(damaged(question.encode())).decode("utf-8", "replace")
    with refused():
        score = load("apes", reader="most-frequent").compute([data.draw(texts)], questions=[[text]])
        assert 0 <= score.mean["apes"] <= 100


# --- metrics ----------------------------------------------------------------------------------------------


@target
def metrics(data: st.DataObject) -> None:
    from summarily.metrics import METRICS

    name = data.draw(st.sampled_from(list(METRICS)))
    rows = data.draw(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=3))
    predictions, references, sources = (list(column) for column in zip(*rows, strict=True))
    with refused():
        score = _metric(name).compute(predictions, references, sources)
        for key, values in score.per_example.items():
            assert all(math.isfinite(value) for value in values), f"{name}: {key} is {values}"


@functools.cache
def _metric(name: str) -> Any:
    from summarily.metrics import load

    return load(name)


@target
def options_of_metrics(data: st.DataObject) -> None:
    import inspect

    from summarily.metrics import METRICS, load, metric_class

    name = data.draw(st.sampled_from(list(METRICS)))
    known = [option for option in inspect.signature(metric_class(name)).parameters if option != "preset"]
    values = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), words, st.lists(words, max_size=2)
    )
    with refused():
        load(name, **{data.draw(st.sampled_from(known)): data.draw(values)})


# --- configs and checkpoints ------------------------------------------------------------------------------


@functools.cache
def _tiny_summarizer() -> Path:
    from tests.metrics.tiny import checkpoint

    return Path(checkpoint("bart"))


@target
def checkpoints_and_configs(data: st.DataObject) -> None:
    from summarily.modeling.generation.summarizer import Summarizer

    place = folder() / "summarizer"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(_tiny_summarizer(), place)
    file = place / data.draw(
        st.sampled_from(["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
    )
    if file.name == "config.json" and data.draw(st.booleans()):
        config = json.loads(file.read_text())
        config[data.draw(st.sampled_from(sorted(config)))] = data.draw(cells)
        file.write_text(json.dumps(config))
    else:
        file.write_bytes(data.draw(damaged(file.read_bytes())))
    with refused():
        Summarizer(str(place))


@target
def states_of_runs(data: st.DataObject) -> None:
    import torch

    from summarily.support.weights import load_tensors

    stream = io.BytesIO()
    torch.save({"step": 3, "weights": torch.ones(4)}, stream)
    path = written("state.pt", data.draw(damaged(stream.getvalue())))
    with refused():
        load_tensors(path)


# --- Spaces -----------------------------------------------------------------------------------------------


def _click(function: Callable[..., Any], *inputs: Any) -> Any:
    """What a visitor sees: an answer, or a sentence that does not blame us."""
    import gradio

    from summarily.spaces.serving import guarded

    try:
        return guarded(function)(*inputs)
    except gradio.Error as error:
        error.message.encode("utf-8")
        assert "on our side" not in error.message, "the Space failed"
        assert "<" not in error.message, "HTML in a toast"
        return None


@target
def clicks_on_the_scorecard(data: st.DataObject) -> None:
    from summarily.spaces import texts as space_texts
    from summarily.spaces.scorecard import scoring

    any_text = st.one_of(texts, st.just("a \ud800"))

    def pasted(source: str, reference: str, *summaries: str) -> str:
        result = scoring.score_texts(space_texts.pasted(source, reference, summaries), ["rouge"])
        return (
            scoring.to_csv(result)
            + scoring.to_json(result)
            + scoring.explain(result, "rouge", next(iter(result.cards)), 0)
        )

    _click(pasted, *data.draw(st.lists(any_text, min_size=4, max_size=6)))

    def uploaded(path: str) -> str:
        return scoring.to_csv(scoring.score_texts(space_texts.uploaded(path), ["rouge"]))

    rows = data.draw(tables)
    _click(
        uploaded, written("upload.jsonl", data.draw(st.one_of(st.just(_jsonl(rows)), st.binary(max_size=99))))
    )


@target
def clicks_on_the_judge(data: st.DataObject) -> None:
    from summarily.spaces.judge import judging
    from summarily.spaces.texts import Texts

    def judge(systems: list[str], way: str, count: int, *answers: Any) -> str:
        given = Texts({"A": ["=1", "b"], "<b>": ["c", "d"]}, [["r"], ["s"]], names=["1", "2"])
        session = judging.start(given, systems, way, count)
        chosen = dict(zip(judging.QUESTIONS, answers, strict=False))
        scores = judging.compared(chosen) if way == "compare" else judging.rated(chosen, chosen)
        session = judging.record(session, scores)
        return judging.results_html(session) + judging.to_csv(session) + judging.item_html(session)

    answer = st.sampled_from([*judging.SHARES, *judging.SCALE, None, "x", [], 9])
    _click(
        judge,
        data.draw(st.lists(st.one_of(st.sampled_from(["A", "<b>"]), words), max_size=3)),
        data.draw(st.sampled_from([*judging.WAYS, "x"])),
        data.draw(st.integers(-3, 300)),
        *data.draw(st.lists(answer, max_size=4)),
    )


@functools.cache
def _app(name: str) -> Any:
    from summarily.spaces import build

    return build(name)


@target
def clicks_on_every_page(data: st.DataObject) -> None:
    from summarily.spaces import SPACES

    handlers = [fn for name in SPACES for fn in _app(name).fns.values() if hasattr(fn.fn, "__wrapped__")]
    handler = handlers[data.draw(st.integers(0, len(handlers) - 1))]
    _click(handler.fn.__wrapped__, *[data.draw(_value_of(component)) for component in handler.inputs])


def _value_of(component: Any) -> st.SearchStrategy[Any]:
    """What a visitor's program may send for a component."""
    kind = type(component).__name__
    if kind == "Textbox":
        return st.one_of(st.none(), texts, st.just("a \ud800"))
    if kind == "Slider":
        return st.one_of(st.none(), st.integers(int(component.minimum), int(component.maximum)))
    if kind == "File":
        rows = st.one_of(tables.map(_jsonl), st.binary(max_size=99))
        return st.one_of(st.none(), rows.map(functools.partial(written, "upload.jsonl")))
    choices = [value for _, value in getattr(component, "choices", None) or []]
    if kind == "CheckboxGroup" or getattr(component, "multiselect", False):
        return st.lists(st.sampled_from(choices) if choices else words, max_size=2)
    if choices:
        return st.one_of(st.none(), st.sampled_from([choice for choice in choices if choice != "news"]))
    return st.none()


# --- the clock --------------------------------------------------------------------------------------------


def run(name: str, seed: int, examples: int = EXAMPLES) -> None:
    """Some cases of a target; raises what it raises for the smallest case found."""
    settings = hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hypothesis.seed(seed)(settings(hypothesis.given(st.data())(TARGETS[name])))()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the first round (default: %(default)s)")
    parser.add_argument("--only", choices=sorted(TARGETS), help="one target")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.seconds
    rounds = dict.fromkeys([options.only] if options.only else TARGETS, 0)
    findings: list[str] = []
    while time.monotonic() < end and rounds.keys() - set(findings):
        for name in [name for name in rounds if name not in findings]:
            if time.monotonic() > end:
                break
            seed = options.seed + rounds[name]
            try:
                run(name, seed)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                findings.append(name)
                traceback.print_exception(error)
                print(f"\nagain: python -m tests.fuzz --only {name} --seed {seed}\n", flush=True)
            rounds[name] += 1
    shutil.rmtree(folder(), ignore_errors=True)
    folder.cache_clear()
    cases = {name: number * EXAMPLES for name, number in rounds.items()}
    print("\n".join(f"{name:36} {number:6} cases" for name, number in cases.items()))
    print(f"findings: {', '.join(findings) or 'none'}")
    return 1 if findings else 0


if __name__ == "__main__":
    # Nothing outside is asked, and nothing of the user's is written.
    os.environ.update(HF_HUB_OFFLINE="1", SUMMARILY_CACHE=str(folder() / "cache"))
    sys.exit(main())
