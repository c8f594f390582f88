"""APES: pooled percentages, what has no entities, ready questions, explanations, sources, the paper's preset."""

from __future__ import annotations

import evaluate
import pytest

import summarily
from summarily.metrics import load
from summarily.metrics.apes.readers import load_reader
from summarily.metrics.apes.scorer import Apes
from summarily.metrics.base import make_examples
from summarily.metrics.resampling import mean_intervals
from summarily.support.cloze.entities import Entities
from summarily.support.cloze.marks import Answer, candidates
from summarily.support.cloze.recognition import recogniser
from summarily.support.errors import InputError
from summarily.support.sample import load_sample
from tests.metrics.apes.tiny_reader import attentive

REFERENCE = "Angela Merkel flew to Oslo. Merkel met Microsoft."


class Oracle:
    """Knows the sentences: answers right whenever the right entity is in the passage, else takes the first."""

    def __init__(self, answers: dict[str, str]):
        self.answers = answers
        self.calls: list[int] = []

    def answer(self, passages, questions, names):
        self.calls.append(len(passages))
        found = []
        for passage, texts, own in zip(passages, questions, names, strict=True):
            ids = candidates(passage)
            found.append([self._one(text, ids, own) for text in texts])
        return found

    def _one(self, text, ids, names):
        wanted = next(name for start, name in self.answers.items() if text.startswith(start))
        right = [id for id in ids if names[id] == wanted]
        return Answer((right or ids or [None])[0], 1.0 if ids else 0.0)

    def signature_fields(self):
        return {"reader": "oracle"}


ANSWERS = {
    "@placeholder flew": "Angela Merkel",
    "@entity0 flew": "Oslo",
    "@placeholder met": "Angela Merkel",
    "@entity0 met": "Microsoft",
}


def oracle() -> Apes:
    return Apes(reader=Oracle(ANSWERS))


def test_right_answers_are_pooled_over_the_questions_of_the_corpus():
    other = "Snow fell in Paris."
    metric = Apes(reader=Oracle({**ANSWERS, "Snow fell in @placeholder": "Paris"}))
    score = metric.compute(
        ["Merkel went to Oslo.", "Paris had snow.", "Nothing happened."],
        [REFERENCE, other, REFERENCE],
        confidence=0.95,
    )
    assert score.per_example["apes"] == [75.0, 100.0, 0.0]
    assert score.weights == [4.0, 1.0, 4.0]
    assert score.mean["apes"] == pytest.approx(100 * (3 + 1 + 0) / 9)
    assert score.mean["apes_entities"] == pytest.approx((2 + 1 + 0) / 3), (
        "averaged over summaries, not pooled"
    )
    assert score.per_example["apes_salient_entities"] == [2.0, 1.0, 0.0]
    assert score.counts["questions"] == 9 and score.counts["correct"] == 4
    for key, values, weights in (
        ("apes", [75.0, 100.0, 0.0], [4, 1, 4]),
        ("apes_entities", [2.0, 1.0, 0.0], None),
        ("apes_salient_entities", [2.0, 1.0, 0.0], None),
    ):
        expected = mean_intervals({key: values}, 0.95, weights)[key]
        assert (score.interval[key].low, score.interval[key].high) == pytest.approx(expected), key
    assert metric.reader.calls == [3], "all questions in one call"


def test_texts_without_entities():
    score = oracle().compute(["Snow fell.", "Angela Merkel spoke.", ""], [REFERENCE, "It rained.", REFERENCE])
    assert score.per_example["apes"] == [0.0, 0.0, 0.0]
    assert score.weights == [4.0, 0.0, 4.0], "a reference without entities weighs nothing"
    assert score.counts["references_without_entities"] == 1
    assert score.counts["predictions_without_entities"] == 2
    assert oracle().compute(["Snow fell."], ["It rained."]).mean["apes"] == 0.0


def test_questions_of_several_references_are_pooled():
    metric = Apes(reader=Oracle({**ANSWERS, "Snow fell in @placeholder": "Paris"}))
    score = metric.compute(["Merkel went to Paris."], [[REFERENCE, "Snow fell in Paris."]])
    assert score.weights == [5.0]
    assert score.per_example["apes"] == [60.0]


def test_entities_of_the_source_are_possible_answers():
    """A name that the recogniser misses in the summary is found by string if the source has it."""
    source = "Angela Merkel flew to Oslo. Wayne Rooney stayed."
    prediction = "It was rooney and merkel who flew."
    metric = Apes(reader="first")
    with_source = metric.compute([prediction], ["Angela Merkel flew to Oslo."], [source])
    without = metric.compute([prediction], ["Angela Merkel flew to Oslo."])
    assert with_source.per_example["apes_entities"] == [2.0]
    assert without.per_example["apes_entities"] == [1.0]
    assert (with_source.mean["apes"], without.mean["apes"]) == (0.0, 50.0), "the distractor stands first"


SOURCE = (
    "It was cold when Arsenal won at Burnley. The goal of Aaron Ramsey was enough, and Chelsea now lead the EPL by four "
    "points. Arsenal's manager was pleased, and so were fans of Chelsea in the EPL."
)


def test_what_the_card_shows_is_asked():
    """The card's example: the recogniser misses the first word of the reference, and the source has it."""
    reference = "Arsenal beat Burnley 1-0 in the EPL."
    score = Apes(reader="first").compute([reference], [reference], [SOURCE])
    assert [(asked.question, asked.answer) for asked in score.explain(0).questions] == [
        ("____ beat Burnley 1-0 in the EPL.", "Arsenal"),
        ("Arsenal beat ____ 1-0 in the EPL.", "Burnley"),
        ("Arsenal beat Burnley 1-0 in the ____.", "EPL"),
    ]


# Figure 1 of Eyal, Baumel and Elhadad 2019 (example 3083 of the CNN/DailyMail test set): See et al., baseline, theirs.
FIGURE_1 = [
    "bolton will offer new contracts to emile heskey, 37, eidur gudjohnsen, 36, and adam bogdan, 27. heskey and gudjohnsen "
    "joined on short-term deals in december. eidur gudjohnsen has scored five times in the championship .",
    "bolton will offer new contracts to emile heskey, 37, eidur gudjohnsen, 36, and goalkeeper adam bogdan, 27. heskey and "
    "gudjohnsen joined on short-term deals in december, and have helped neil lennon ’s side steer clear of relegation.",
    "bolton will offer new contracts to emile heskey, 37, eidur gudjohnsen, 36, and goalkeeper adam bogdan, 27. lennon has "
    "also fined midfielders barry bannan and neil danns two weeks wages this week.",
]
ASKED_1 = [
    {"question": "goalkeeper @placeholder also rewarded with new contract", "answer": "adam bogdan"},
    {
        "question": "@placeholder and neil danns both fined by club after drinking incident",
        "answer": "barry bannan",
        "names": ["neil danns"],
    },
    {
        "question": "barry bannan and @placeholder both fined by club after drinking incident",
        "answer": "neil danns",
        "names": ["barry bannan"],
    },
]


def test_figure_1_comes_out_with_a_reader_that_knows():
    """.33, .33 and 1.00: what the summaries mention decides, whoever reads."""
    knows = {"goalkeeper": "adam bogdan", "@placeholder and": "barry bannan", "@entity": "neil danns"}
    score = Apes(reader=Oracle(knows)).compute(FIGURE_1, questions=[ASKED_1] * 3)
    assert score.per_example["apes"] == [pytest.approx(100 / 3), pytest.approx(100 / 3), 100.0]


def test_entities_of_texts_without_capitals_are_looked_for_with_those_of_the_source(monkeypatch):
    metric = Apes(reader="first")
    read: list[str] = []
    recognise = metric._recogniser
    monkeypatch.setattr(metric, "_recogniser", lambda texts: read.extend(texts) or recognise(texts))
    source = "On Monday Angela Merkel flew to Oslo with Jens Stoltenberg."
    metric.read(make_examples(["jens stoltenberg flew ."], ["angela merkel flew to oslo ."], [source]))
    assert set(read) == {source, "Angela Merkel flew to Oslo .", "Jens Stoltenberg flew ."}
    read.clear()
    metric.read(make_examples(["merkel flew ."], ["On Monday Angela Merkel flew."]))
    assert set(read) == {"On Monday Angela Merkel flew.", "Merkel flew ."}, "or of the references"
    monkeypatch.undo()
    assert "|case:restored|" in str(metric.signature())


def test_naming_everybody_does_not_help_the_reader_that_takes_the_first():
    listed = "Microsoft, Oslo, Angela Merkel"
    # Right about whom Merkel met alone: elsewhere somebody who is not in the question stands before the answer.
    assert Apes(reader="first").compute([listed], [REFERENCE]).mean["apes"] == 25.0


def test_explanation_shows_questions_answers_and_probabilities():
    explained = oracle().compute(["Merkel went to Oslo."], [REFERENCE]).explain(0)
    assert explained.values["apes"] == 75.0
    assert explained.passage == "@entity0 went to @entity1."
    assert explained.to_dict()["questions"][0] == {
        "question": "____ flew to Oslo.",
        "answer": "Angela Merkel",
        "predicted": "Angela Merkel",
        "probability": 1.0,
        "correct": True,
    }
    last = explained.questions[-1]
    assert (last.answer, last.predicted, last.correct) == ("Microsoft", "Angela Merkel", False)
    assert oracle().compute(["Nothing."], [REFERENCE]).explain(0).questions[0].predicted is None


# --- ready questions ----------------------------------------------------------------------------------------

READY = [
    [{"question": "@placeholder beat Burnley", "answer": "Arsenal", "names": ["Burnley"]}],
    [
        {
            "question": "@placeholder beat @entity3",
            "answer": "@entity2",
            "names": {"@entity2": "Ann Lee", "@entity3": "Bob"},
        },
        "u\n\n-\n\n@entity1 lost to @placeholder\n\n@entity0\n\n@entity0:Ann Lee\n@entity1:Bob",
    ],
]


def test_ready_questions_take_the_place_of_references():
    metric = Apes(reader="first")
    score = metric.compute(["Arsenal won against Burnley.", "Ann Lee beat Bob"], questions=READY)
    assert score.weights == [1.0, 2.0]
    assert score.mean["apes"] == 100.0
    module = evaluate.load("apes")
    result = module.compute(
        predictions=["Arsenal won.", "Bob beat Ann Lee."], questions=READY, reader="first"
    )
    assert result["apes_per_example"] == [100.0, 100.0], "Bob is in the question"
    module.add_batch(predictions=["Nobody won."], questions=READY[:1])
    assert module.compute(reader="first")["apes"] == 0.0


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([["@placeholder won"]], r"questions\[0\]\[0\] is no .question file"),
        (
            [[{"question": "who won?", "answer": "Ann"}]],
            r"questions\[0\]\[0\]: the question .* has no @placeholder",
        ),
        ([[{"question": "@placeholder won"}]], r"questions\[0\]\[0\] is no question"),
        (
            [{"question": "@placeholder won", "answer": "Ann"}],
            r"questions\[0\] is a dict; expected a list of questions",
        ),
        ([[]], r"questions\[0\] is an empty list"),
        ("x", r"questions is a str; did you mean \[questions\]"),
    ],
)
def test_bad_questions_name_the_row_and_the_fix(questions, message):
    with pytest.raises(InputError, match=message):
        Apes(reader="first").compute(["Ann won."], questions=questions)


def test_either_references_or_questions():
    with pytest.raises(InputError, match="both references and questions"):
        Apes(reader="first").compute(["a"], ["b"], questions=READY[:1])
    with pytest.raises(InputError, match="neither references nor questions"):
        Apes(reader="first").compute(["a"])


# --- options ------------------------------------------------------------------------------------------------


def test_the_papers_preset_asks_as_the_authors_did():
    paper = load("apes", preset="paper", model=attentive())
    assert "reader:attentive|" in str(paper.signature()) and "relabel:training" in str(paper.signature())
    light = load("apes", reader="attentive", model=attentive())
    assert "relabel:always" in str(light.signature())
    assert "relabel" not in str(Apes(preset="paper", reader="first").signature())
    with pytest.raises(InputError, match="relabel"):
        Apes(relabel="sometimes")


@pytest.mark.parametrize(
    "options",
    [
        {"reader": "zero-shot", "relabel": "always"},
        {"reader": "cross", "relabel": "always"},
        {"reader": "first", "revision": "main"},
        {"reader": "first", "device": "cpu"},
        {"reader": "overlap", "model": "minilm"},
        {"reader": load_reader("first"), "device": "cpu"},
        {"reader": load_reader("first"), "relabel": "training"},
    ],
)
def test_an_option_that_a_reader_has_not_got_is_refused(options):
    name = list(options)[-1]
    with pytest.raises(InputError, match=f"leave {name}= out"):
        Apes(**options)


def test_a_single_pair_is_a_reward():
    from summarily.metrics.hooks import reward

    function = reward("apes", reader="overlap")
    # "Angela Merkel met ____" has "Angela Merkel" alone in common with what is around Oslo and Microsoft.
    assert function([REFERENCE], references=[REFERENCE]) == [75.0]
    assert function(["Microsoft met Merkel, who flew to Oslo."], references=[REFERENCE]) == [50.0]
    assert function(["Merkel flew to Oslo."], references=[REFERENCE]) == [75.0]
    assert function(["Nothing happened."], references=[REFERENCE]) == [0.0]


def test_entities_are_remembered_on_disk(tmp_path):
    Apes(reader="first", cache_folder=str(tmp_path)).compute(["Ann Lee won."], ["Ann Lee won."])
    assert list(tmp_path.glob("entities-*.sqlite"))


def test_a_prediction_cannot_write_ids_itself():
    apes = Apes(reader="most-frequent")
    honest = apes.compute(["Somebody met somebody."], ["Ann Lee flew to Oslo."])
    gamed = apes.compute(["@entity0 @entity1 met @placeholder."], ["Ann Lee flew to Oslo."])
    assert gamed.mean["apes"] == honest.mean["apes"] == 0
    assert apes.explain("@entity99 met Ann Lee.", "Ann Lee flew to Oslo.").names.keys() <= {
        "@entity0",
        "@entity1",
    }


@pytest.mark.parametrize("reader", ["cross", "attentive"])
def test_the_readers_we_ship_tell_good_summaries_from_bad_ones(reader):
    rows = load_sample()[:8]
    references, sources = [row["references"][0] for row in rows], [row["source"] for row in rows]
    metric = Apes(reader=reader)
    listed = [", ".join(n[0] for n in Entities(found).names.values()) for found in recogniser()(sources)]
    systems = {
        "gold": references,
        "list": listed,
        **{s: [row[s] for row in rows] for s in ("good", "broken")},
    }
    apes = {name: float(metric.compute(texts, references, sources)) for name, texts in systems.items()}
    assert apes["gold"] > 80
    assert apes["gold"] - 15 > max(apes["list"], apes["broken"])
    assert apes["good"] > apes["broken"] + 15


def test_the_light_preset_is_shipped_and_batches_do_not_change_it():
    light = load("apes")
    light.check()
    rows = load_sample()[:4]
    together = light.compute([row["good"] for row in rows], [row["references"][0] for row in rows])
    alone = [float(light.compute([row["good"]], [row["references"][0]])) for row in rows]
    assert together.per_example["apes"] == alone
    assert "reader:cross|model:cross-reader@" in str(together.signature)


def test_an_entity_is_shown_by_the_name_it_had_first():
    """In the reference, then in the prediction: ids are the reader's, names are for people."""
    explained = oracle().compute(["Merkel met Wayne Rooney. Rooney left."], [REFERENCE]).explain(0)
    assert explained.passage == "@entity0 met @entity3. @entity3 left."
    assert explained.names == {"@entity0": "Angela Merkel", "@entity3": "Wayne Rooney"}
    assert explained.values == {"apes": 50.0, "apes_entities": 3, "apes_salient_entities": 1}


def test_everything_is_counted():
    score = oracle().compute(
        ["Merkel met Merkel in Oslo.", " ", "Snow fell on Wayne Rooney."],
        [[REFERENCE, ""], REFERENCE, "It rained."],
    )
    assert score.counts == {
        "questions": 8,
        "questions_left_out": 0,
        "correct": 3,
        "entity_mentions": 4,
        "salient_entities": 2,
        "references_without_entities": 1,
        "predictions_without_entities": 1,
        "empty_predictions": 1,
        "empty_references": 1,
    }
    assert score.per_example["apes_entities"] == [3.0, 0.0, 1.0]
    # Words of the passages (5, 0 and 4) and of the questions (4 + 4 + 3 + 3 each time).
    assert score.cost["tokens"] == 5 + 0 + 4 + 2 * (4 + 4 + 3 + 3)


def test_questions_that_are_too_many_are_left_out_and_counted():
    """Else the time of a text grows with the square of its names: 12,000 characters of them took minutes."""
    names = [f"Ann {a.upper()}{b}{c}y" for a in "bcdfgh" for b in "aeiou" for c in "lmnprst"]
    card = summarily.score([names[0]], [", ".join(names * 5)], metrics={"apes": {"reader": "first"}})
    counts = card["apes"].counts
    assert counts["questions_left_out"] > counts["questions"] > 20
    assert f"questions_left_out {counts['questions_left_out']}" in card.table()


def test_a_metric_travels_without_its_reader():
    import pickle

    metric = Apes(reader="attentive", model=attentive(), relabel="training", device="cpu")
    assert metric._reader is metric._reader and metric._reader.device == "cpu" and not metric._reader.relabel
    again = pickle.loads(pickle.dumps(metric))
    assert "_reader" not in vars(again) and (again.relabel, again.device) == ("training", "cpu")
    assert Apes(preset="paper").reader == "attentive" and Apes(preset="paper").relabel == "training"
    assert Apes(preset="paper", relabel="always").relabel == "always"
    assert Apes(reader="attentive").relabel == "always" and Apes(reader="first").relabel is None
    signature = str(Apes(reader="first").signature())
    assert "|types:person+" in signature and "|aggregate:pooled|" in signature
