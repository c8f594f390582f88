"""What WMS, SMS and S+WMS have in common, each test for all three."""

from __future__ import annotations

import math
import pickle
from types import SimpleNamespace

import numpy as np
import ot
import pytest

from summarily.metrics import load, transport
from summarily.metrics.movers import bags as bag_rules
from summarily.metrics.options import StopWords
from summarily.support.errors import InputError
from summarily.support.text import STOP_WORDS, sentences, word_texts
from summarily.support.vectors import load as load_vectors
from tests.metrics.tiny import checkpoint

METRICS = ("wms", "sms", "s_wms")
every_metric = pytest.mark.parametrize("name", METRICS)

PREDICTION = "A dog barked all night. The neighbours, who wanted to sleep, called the police! Dog, dog."
REFERENCE = "All night the dog was barking loudly. Neighbours phoned police officers. Nobody slept."


def score(name: str, prediction, reference, **options) -> float:
    return load(name, **options).compute([prediction], [reference]).per_example[name][0]


# --- against a plain implementation ---


def plain_bag(name: str, text: str, zero: bool) -> tuple[np.ndarray, np.ndarray]:
    """The bag of the paper's Eqs. 1, 4 and 5, one token at a time."""
    table = load_vectors()
    kept = []
    for sentence in sentences(text):
        words = [word for word in word_texts(sentence) if word not in STOP_WORDS]
        kept.append(
            [table[w] if w in table else np.zeros(table.dimensions) for w in words if zero or w in table]
        )
    kept = [np.array(words, dtype=np.float64) for words in kept if words]
    total = sum(map(len, kept))
    points, masses = [], []
    if name in ("wms", "s_wms"):
        points += [word for words in kept for word in words]
        masses += [1 / total] * total
    if name in ("sms", "s_wms"):
        points += [words.mean(0) for words in kept]
        masses += [len(words) / total for words in kept]
    masses = np.array(masses)
    return np.array(points), masses / masses.sum()


@every_metric
@pytest.mark.parametrize("unknown", ["zero", "drop"])
def test_score_equals_a_plain_implementation(name, unknown):
    prediction, reference = f"{PREDICTION} Xqzzt barked.", f"{REFERENCE} Qxwvv and zzyyxq slept."
    (a, a_mass), (b, b_mass) = (plain_bag(name, text, unknown == "zero") for text in (prediction, reference))
    costs = np.sqrt(((a[:, None] - b) ** 2).sum(-1))
    expected = math.exp(-ot.emd2(a_mass, b_mass, costs))
    assert score(name, prediction, reference, out_of_vocabulary=unknown) == pytest.approx(expected, abs=1e-9)


# --- properties ---


@every_metric
@pytest.mark.parametrize(
    "options", [{}, {"embeddings": "contextual", "model": "tiny"}], ids=["static", "contextual"]
)
def test_identity_is_exactly_1_and_similarity_is_symmetric(name, options):
    options = {**options, **({"model": checkpoint("bert")} if "model" in options else {})}
    assert score(name, PREDICTION, PREDICTION, **options) == 1.0
    there, back = score(name, PREDICTION, REFERENCE, **options), score(name, REFERENCE, PREDICTION, **options)
    assert 0 < there < 1
    assert there == pytest.approx(back, abs=1e-12)


REFERENCE_PASSAGE = (
    "the only thing crazier than a guy in snowbound massachusetts boxing up the powdery white stuff and offering "
    "it for sale online ? people are actually buying it . for $ 89 , self-styled entrepreneur kyle waring will "
    "ship you 6 pounds of boston-area snow in an insulated styrofoam box – enough for 10 to 15 snowballs , he says ."
)
HUMAN = (
    "a man in suburban boston is selling snow online to customers in warmer states . "
    "for $ 89 , he will ship 6 pounds of snow in an insulated styrofoam box ."
)
WORD_ORDER = (
    "in suburban boston , a man is selling snow online to customers in warmer states . "
    "he will ship 6 pounds of snow in an insulated styrofoam box for $ 89 ."
)
REPETITION = (
    "a man in suburban boston is selling snow is selling snow online to customers in warmer states in warmer "
    "states . for $ 89 , he will ship he will ship 6 pounds 6 pounds of snow in an insulated styrofoam box in a "
    "styrofoam box ."
)


@every_metric
def test_table_1_word_order_changes_nothing_and_repetition_lowers_the_score(name):
    human, order, repetition = (
        score(name, text, REFERENCE_PASSAGE) for text in (HUMAN, WORD_ORDER, REPETITION)
    )
    assert order == human
    assert repetition < human


@pytest.mark.parametrize("name", ["sms", "s_wms"])
def test_table_1_holds_for_words_in_the_context_of_their_sentence(name):
    def scores(**options) -> list[float]:
        texts = (HUMAN, WORD_ORDER, REPETITION)
        return [score(name, text, REFERENCE_PASSAGE, embeddings="contextual", **options) for text in texts]

    human, order, repetition = scores()
    assert repetition < human
    # Vectors know their neighbours, so another order is not quite the same text.
    assert order == pytest.approx(human, rel=0.03)
    # Why the whole text is not the default: there a repetition scores above the text it repeats.
    human, _, repetition = scores(context="text")
    assert repetition > human


def test_table_1_repetition_hurts_sentences_more_than_words():
    # The paper's drops: WMS 1%, SMS 11%, S+WMS 5%.
    drop = {
        name: 1 - score(name, REPETITION, REFERENCE_PASSAGE) / score(name, HUMAN, REFERENCE_PASSAGE)
        for name in METRICS
    }
    assert drop["wms"] < drop["s_wms"] < drop["sms"]


# --- rules ---


@every_metric
def test_references_are_combined_by_the_rule(name):
    references = [REFERENCE, "Stocks fell."]
    each = [score(name, PREDICTION, reference) for reference in references]
    assert each[0] != each[1]
    assert score(name, PREDICTION, references) == max(each)
    assert score(name, PREDICTION, references, multi_reference="mean") == pytest.approx(sum(each) / 2)


@every_metric
@pytest.mark.parametrize(
    ("prediction", "reference"), [("", "Snow fell."), ("Snow fell.", "of the"), ("", ""), ("...", "12 34")]
)
def test_nothing_to_compare_scores_on_empty(name, prediction, reference):
    assert score(name, prediction, reference) == 0.0
    assert score(name, prediction, reference, on_empty=0.25) == 0.25
    counts = load(name).compute([prediction], [reference]).counts
    assert counts["empty_predictions"] + counts["empty_references"] >= 1


@every_metric
def test_texts_without_any_known_word_are_not_taken_for_equal(name):
    assert score(name, "qxwvv zzyyxq", "vvkkqj") == 0.0, "both would be at the zero vector"
    assert score(name, "qxwvv zzyyxq", "Snow fell.") == 0.0
    assert score(name, "qxwvv zzyyxq", "zzyyxq qxwvv") == 1.0
    assert load(name).compute(["qxwvv zzyyxq"], ["Snow fell."]).counts["out_of_vocabulary"] == 2


@every_metric
def test_a_pair_with_too_many_points_is_cut_and_counted(name):
    whole = load(name).compute([PREDICTION], [REFERENCE])
    cut = load(name, max_points=2).compute([PREDICTION], [REFERENCE])
    assert (whole.counts["truncated"], cut.counts["truncated"]) == (0, 1)
    # Of the words and sentences of each text the heaviest are left.
    texts = (
        "Dog dog dog dog police police police. Night night snow. Rain.",
        "Cat cat cat cat officer officer officer. Sun sun moon. Wind.",
    )
    points = []
    for text in texts:
        merged: dict[tuple[float, ...], float] = {}
        for place, mass in zip(*plain_bag(name, text, zero=True), strict=True):
            merged[tuple(place)] = merged.get(tuple(place), 0.0) + mass
        heaviest = sorted(merged.items(), key=lambda item: -item[1])[:2]
        points.append((np.array([p for p, _ in heaviest]), np.array([m for _, m in heaviest])))
    (a, a_mass), (b, b_mass) = points
    expected = ot.emd2(a_mass / a_mass.sum(), b_mass / b_mass.sum(), np.sqrt(((a[:, None] - b) ** 2).sum(-1)))
    assert score(name, *texts, max_points=2) == pytest.approx(math.exp(-expected), abs=1e-9)
    assert load(name, max_points=4).compute(["Snow."], ["Snow fell."]).counts["truncated"] == 0


@every_metric
def test_stop_words_are_an_option_and_named(name):
    kept = load(name, stop_words=False)
    own = load(name, stop_words=["Dog", "night"])
    default = load(name)
    values = {
        metric.compute([PREDICTION], [REFERENCE]).per_example[name][0] for metric in (kept, own, default)
    }
    assert len(values) == 3
    assert "|stop_words:none|" in str(kept.signature())
    assert "|stop_words:custom-2-" in str(own.signature())
    assert "|stop_words:summarily-en-" in str(default.signature())


BAD_OPTIONS = {
    "embeddings": ({"embeddings": "glove"}, "embeddings='glove'"),
    "context": ({"context": "page"}, "context='page'"),
    "unknown words": ({"out_of_vocabulary": "random"}, "out_of_vocabulary='random'"),
    "references": ({"multi_reference": "min"}, "multi_reference='min'"),
    "a model for static vectors": ({"model": "minilm"}, "model= has no meaning"),
    "a dtype for static vectors": ({"dtype": "bfloat16"}, "dtype= has no meaning"),
    "vectors for an encoder": ({"embeddings": "contextual", "vectors": "x"}, "vectors= has no meaning"),
    "the paper's encoder": ({"preset": "paper", "embeddings": "contextual"}, "ELMo's.*model="),
    "points": ({"max_points": 0}, "max_points=0"),
    "empty": ({"on_empty": float("nan")}, "on_empty=nan"),
    "stop words": ({"stop_words": "the"}, "stop_words='the'"),
}


@every_metric
@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused_by_name(name, case):
    options, message = BAD_OPTIONS[case]
    with pytest.raises(InputError, match=message):
        load(name, **options)


# --- explanations ---


@every_metric
def test_explanation_is_a_plan_that_adds_up_to_the_score(name):
    explanation = load(name).explain(PREDICTION, ["Stocks fell.", REFERENCE])
    (plan,) = explanation.plans
    assert plan.reference == 1
    flows = plan.flows
    assert sum(flow.mass for flow in flows) == pytest.approx(1)
    assert sum(flow.cost for flow in flows) == pytest.approx(plan.distance)
    assert math.exp(-plan.distance) == pytest.approx(plan.values[name])
    assert plan.values == explanation.values == {name: score(name, PREDICTION, ["Stocks fell.", REFERENCE])}
    units = {flow.start_unit for flow in flows} | {flow.end_unit for flow in flows}
    assert units == {"wms": {"word"}, "sms": {"sentence"}, "s_wms": {"word", "sentence"}}[name]
    words = {flow.start for flow in flows if flow.start_unit == "word"}
    assert words == (set() if name == "sms" else set(word_texts(PREDICTION)) - STOP_WORDS)
    if name != "wms":
        told = {flow.start for flow in flows if flow.start_unit == "sentence"}
        assert told == set(sentences(PREDICTION))


@every_metric
def test_nothing_to_compare_has_an_explanation_without_flows(name):
    assert load(name).explain("", "Snow fell.").to_dict() == {
        "metric": name, name: 0.0, "prediction": "", "references": ["Snow fell."],
        "plans": [{"reference": 0, name: 0.0, "distance": None, "flows": []}],
    }  # fmt: skip


# --- contextual ---


def contextual(name: str, **options):
    return load(name, embeddings="contextual", model=checkpoint("bert"), **options)


@every_metric
@pytest.mark.parametrize("context", ["text", "sentence"])
def test_contextual_score_equals_a_plain_implementation(name, context):
    metric = contextual(name, context=context, layers=[1, 2])
    encoder = metric.embedder.reading.encoder
    bags = []
    for text in (PREDICTION, REFERENCE):
        points, masses = [], []
        means, sizes = [], []
        position = 0
        for sentence in sentences(text):
            start = text.index(sentence, position)
            position = start + len(sentence)
            part, offset = (text, start) if context == "text" else (sentence, 0)
            encoded = encoder.encode([part], [1, 2])[0]
            states = (encoded.states[1].double() + encoded.states[2].double()).numpy() / 2
            own = []
            for word in word_texts(sentence):
                begin = part.lower().index(word, offset)
                offset = begin + len(word)
                if word in STOP_WORDS:
                    continue
                pieces = [
                    i
                    for i, (a, b) in enumerate(encoded.offsets)
                    if not encoded.special[i] and begin <= a and b <= offset
                ]
                own.append(states[pieces].mean(0))
            points += own
            masses += [1] * len(own)
            means.append(np.mean(own, 0))
            sizes.append(len(own))
        points, masses = {
            "wms": (points, masses), "sms": (means, sizes), "s_wms": (points + means, masses + sizes)
        }[name]  # fmt: skip
        bags.append((np.array(points), np.array(masses) / sum(masses)))
    (a, a_mass), (b, b_mass) = bags
    expected = math.exp(-ot.emd2(a_mass, b_mass, np.sqrt(((a[:, None] - b) ** 2).sum(-1))))
    assert metric.compute([PREDICTION], [REFERENCE]).per_example[name][0] == pytest.approx(expected, abs=1e-5)


@every_metric
def test_contextual_texts_are_cut_at_the_limit_and_counted(name):
    long_text = f"{PREDICTION} " * 300
    for context in ("text", "sentence"):
        metric = contextual(name, context=context, max_points=50)
        counts = metric.compute([long_text], [REFERENCE]).counts
        assert counts["truncated"] >= 1, context
    assert contextual(name).compute([PREDICTION], [REFERENCE]).counts["truncated"] == 0


def test_contextual_metrics_ask_for_one_shared_pass():
    examples = contextual("sms").state([PREDICTION], [[REFERENCE, REFERENCE]]).examples
    (one,), (other,) = contextual("sms").requests(examples), contextual("wms").requests(examples)
    assert one.encoder is other.encoder
    assert list(one.texts) == list(other.texts) == [*sentences(PREDICTION), *sentences(REFERENCE)]
    assert load("sms").requests(examples) == []


@every_metric
def test_signature_names_what_ran(name):
    static = str(load(name).signature())
    assert static.startswith(f"{name}|embeddings:static|vectors:glove-6b-50d@")
    text = str(contextual(name, layers=[1]).signature())
    assert "|layers:1|context:sentence|" in text and "vectors" not in text


@every_metric
def test_a_metric_is_small_when_pickled(name):
    metric = load(name)
    metric.compute([PREDICTION], [REFERENCE])
    assert len(pickle.dumps(metric)) < 20_000, "the vectors must not travel with it"


@pytest.mark.parametrize(
    "sizes, expected",
    [
        ((4, 4), (4, 4)),  # both within the limit
        ((1, 16), (1, 16)),
        ((1, 17), (1, 16)),  # 4 ** 2 distances
        ((2, 9), (2, 8)),
        ((40, 1), (16, 1)),
        ((5, 5), (4, 4)),
        ((3, 6), (3, 5)),
    ],
)
def test_pairs_are_cut_to_the_square_of_the_limit(sizes, expected):
    def cloud(size):
        return transport.Cloud(np.arange(float(size))[:, None], np.arange(1, size + 1))

    clouds = [cloud(size) for size in sizes]
    cut = bag_rules.fit(*clouds, max_points=4)
    assert tuple(map(len, cut)) == expected
    assert bag_rules.most_points(*clouds, max_points=4) == min(16 // min(*sizes, 4), 32)
    for whole, part in zip(clouds, cut, strict=True):  # the heaviest, in their order
        assert part.masses.tolist() == whole.masses.tolist()[len(whole) - len(part) :]
    bags = [SimpleNamespace(cloud=cloud) for cloud in clouds]
    assert bag_rules.too_many(*bags, max_points=4) == (expected != sizes)
    assert not bag_rules.too_many(bags[0], SimpleNamespace(cloud=None), 4)


def test_the_larger_side_is_bounded_too():
    one, many = (transport.Cloud(np.arange(float(n))[:, None], np.ones(n, int)) for n in (1, 200))
    assert bag_rules.most_points(one, many, 10) == 80, "8 times the limit, though 100 distances would fit"
    assert tuple(map(len, bag_rules.fit(one, many, 10))) == (1, 80)


@every_metric
def test_words_and_empty_texts_are_counted(name):
    metric = load(name)
    predictions = ["Snow fell qxwvv.", "of the", "Snow fell qxwvv."]
    counted = metric.compute(predictions, [["Dog dog barked.", ""], "Zzyyxq vvkkqj slept.", "..."])
    assert counted.counts == {
        "out_of_vocabulary": 1 + 2 + 1,
        "empty_predictions": 1,
        "empty_references": 2,
        "truncated": 0,
    }
    assert counted.cost["tokens"] == 3 + 3 + 3 + 3, "stop words are none"


@every_metric
def test_unknown_words_are_the_same_only_if_they_are_as_often(name):
    assert score(name, "qxwvv zzyyxq zzyyxq", "qxwvv qxwvv zzyyxq") == 0.0
    assert score(name, "qxwvv qxwvv zzyyxq", "qxwvv zzyyxq qxwvv") == 1.0
    assert score(name, "qxwvv", "qxwvv zzyyxq", on_empty=0.5) == 0.5


@every_metric
def test_flows_stand_by_what_they_cost(name):
    metric = load(name, multi_reference="mean")
    told = metric.explain(PREDICTION, ["Stocks fell.", REFERENCE])
    (plan,) = told.plans
    costs = [flow.cost for flow in plan.flows]
    assert costs == sorted(costs, reverse=True) and costs[0] > 0
    assert all(flow.cost == flow.mass * flow.distance for flow in plan.flows)
    each = [score(name, PREDICTION, reference) for reference in ("Stocks fell.", REFERENCE)]
    assert told.values[name] == pytest.approx(sum(each) / 2) and plan.reference == 1
    assert math.exp(-plan.distance) == pytest.approx(each[1])
    assert {flow.end for flow in plan.flows if flow.end_unit == "word"} <= set(word_texts(REFERENCE))


def test_a_contextual_text_is_cut_after_the_sentence_that_reaches_the_limit():
    embedder = contextual("wms", context="sentence", max_points=3).embedder
    assert embedder._parts("Snow fell. Dogs bark. Rain.") == ([("Snow fell.", 2), ("Dogs bark.", 2)], True)
    assert embedder._parts("Snow fell. The dog. Rain.") == ([("Snow fell.", 2), ("The dog.", 1)], True)
    assert embedder._parts("Snow fell. Of the. Rain.") == ([("Snow fell.", 2), ("Rain.", 1)], False)
    assert contextual("wms", context="text").embedder._parts("Snow fell. Rain.") == (
        [("Snow fell. Rain.", 0)],
        False,
    )


def test_layers_are_named_once_and_in_order():
    assert contextual("wms", layers=[2, 1, 2, -1]).embedder.layers == [1, 2, 6]
    assert contextual("wms").embedder.layers == [4, 5, 6]
    assert "|refs:mean|on_empty:0.25|max_points:7|" in str(
        load("wms", multi_reference="mean", on_empty=0.25, max_points=7).signature()
    )


def test_stop_words_are_words_in_any_case_and_order():
    assert StopWords.of(["The", "a"]) == StopWords.of({"a", "THE"}) == StopWords(frozenset({"the", "a"}))
    assert StopWords.of({"a", "THE"}).named() == "custom-2-11a3ae8f"
    assert StopWords.of(False) == StopWords(frozenset()) and StopWords.of(()).named() == "none"
    for wrong in ("the", ["the", 1], 1):
        with pytest.raises(InputError, match="expected True, False, or a collection of words"):
            StopWords.of(wrong)
    for infinite in (math.inf, -math.inf):
        with pytest.raises(InputError, match="expected a finite number"):
            load("wms", on_empty=infinite)


def test_an_encoder_in_bfloat16_is_signed_and_scores_nearly_the_same():
    options = {"embeddings": "contextual", "model": checkpoint("bert")}
    texts = ["Snow fell in Oslo. Trains stood still."], ["Oslo had snow. No train ran."]
    plain, half = (load("sms", **options, **more) for more in ({}, {"dtype": "bfloat16"}))
    assert "|dtype:bfloat16|" in str(half.signature()) and "dtype" not in str(plain.signature())
    exact, near = plain.compute(*texts).mean["sms"], half.compute(*texts).mean["sms"]
    assert near != exact and near == pytest.approx(exact, rel=0.05)  # bfloat16 keeps 8 bits
