"""MoverScore equals a plain implementation of its definition, and numbers derived by hand."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
import transformers
from scipy.optimize import linprog

from summarily.metrics import InputError, MissingRequirement, load
from summarily.metrics.encoding import Encoded
from summarily.metrics.explanations import Plan
from summarily.metrics.moverscore import ngrams
from summarily.metrics.moverscore.ngrams import Keep, Kept, bags_of_ngrams, squared_distances
from summarily.metrics.moverscore.scorer import Moverscore
from summarily.metrics.options import EncoderOptions
from tests.metrics import tiny

# --- a plain implementation, one pair and one token at a time ---------------------------------------------


def exact_emd(source, target, costs):
    """The linear program itself, by another solver."""
    n, m = costs.shape
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    solution = linprog(
        costs.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([source, target]), method="highs"
    )
    assert solution.success
    return solution.fun


class Plain:
    def __init__(self, folder, variant, n_gram, distance=None, stop_words=(), subwords=False):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder).eval()
        self.variant, self.n_gram, self.stop_words, self.subwords = variant, n_gram, stop_words, subwords
        self.squared = (distance or {"v1": "squared", "v2": "euclidean"}[variant]) == "squared"

    def idf(self, texts):
        documents = [self.tokenizer(text, truncation=True)["input_ids"] for text in texts]
        frequency = Counter(token for ids in documents for token in set(ids))
        return lambda token: math.log((len(texts) + 1) / (frequency[token] + 1))

    def bag(self, text, idf: Callable[[int], float]):
        ids = self.tokenizer(text, truncation=True)["input_ids"]
        with torch.no_grad():
            layers = self.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        layers = [layer[0].double() for layer in (layers[-5:] if self.variant == "v1" else layers[-1:])]
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        vectors, masses = [], []
        for position, token in enumerate(tokens):
            if token in string.punctuation or token in self.stop_words:
                continue
            if "##" in token and not self.subwords:
                continue
            units = [layer[position] / layer[position].norm() for layer in layers]
            if self.variant == "v1":
                stack = torch.stack(units)
                units = [torch.cat([stack.min(0)[0], stack.mean(0), stack.max(0)[0]])]
            vectors.append(units[0])
            masses.append(idf(ids[position]))
        points, sums = [], []
        size = min(self.n_gram, len(vectors))
        for start in range(len(vectors) - size + 1):
            weights = masses[start : start + size]
            if sum(weights) > 0:
                mean = sum(w * v for w, v in zip(weights, vectors[start : start + size], strict=True)) / sum(
                    weights
                )
                points.append((mean / mean.norm()).numpy())
                sums.append(sum(weights))
        return np.array(points), np.array(sums) / sum(sums)

    def score(self, prediction, reference, prediction_idf, reference_idf):
        a, a_mass = self.bag(prediction, prediction_idf)
        b, b_mass = self.bag(reference, reference_idf)
        costs = ((a[:, None] - b[None]) ** 2).sum(-1)
        cost = exact_emd(a_mass, b_mass, costs if self.squared else np.sqrt(costs))
        return 1 - cost if self.variant == "v1" else 1 / (1 + cost)


def pairs():
    texts = [text for text in tiny.texts() if len(text.split()) > 1]
    return texts[:24], texts[5:24] + texts[:5]


def uniform(token):
    return 1.0


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("n_gram", [1, 2])
@pytest.mark.parametrize("variant", ["v1", "v2"])
def test_equals_the_plain_implementation(variant, n_gram, idf):
    folder = tiny.checkpoint("bert")
    predictions, references = pairs()
    plain = Plain(folder, variant, n_gram)
    weights = (plain.idf(predictions), plain.idf(references)) if idf else (uniform, uniform)
    expected = [plain.score(p, r, *weights) for p, r in zip(predictions, references, strict=True)]
    score = load("moverscore", model=folder, variant=variant, n_gram=n_gram, idf=idf).compute(
        predictions, references
    )
    assert score.per_example["moverscore"] == pytest.approx(expected, abs=1e-5, rel=0)
    assert max(expected) - min(expected) > 0.01


@pytest.mark.parametrize(
    "options",
    [
        {"distance": "euclidean"},
        {"subwords": True},
        {"stop_words": ["the", "in", "and", "of", "a"]},
        {"n_gram": 3},
    ],
    ids=str,
)
def test_options_equal_the_plain_implementation(options):
    folder = tiny.checkpoint("bert")
    predictions, references = pairs()
    plain = Plain(folder, "v1", **{"n_gram": 1, **options})
    expected = [plain.score(p, r, uniform, uniform) for p, r in zip(predictions, references, strict=True)]
    found = (
        load("moverscore", model=folder, **options).compute(predictions, references).per_example["moverscore"]
    )
    assert found == pytest.approx(expected, abs=1e-5, rel=0)
    default = load("moverscore", model=folder).compute(predictions, references).per_example["moverscore"]
    assert max(abs(a - b) for a, b in zip(found, default, strict=True)) > 1e-3, "the option does something"


# --- by hand ----------------------------------------------------------------------------------------------

EAST, NORTH = [1.0, 0.0], [0.0, 1.0]
WORDS = {"east": (1, EAST), "north": (2, NORTH)}


class TwoDirections:
    """Every word is a unit vector in the plane, in every layer, and there are no special tokens."""

    identity, tokenizer_name, max_length, unusual_dtype = "two-directions", "words", 9, None
    pieces_are_marked = True

    def last_layers(self, count):
        return list(range(1, count + 1))

    def tokenize(self, texts):
        return self.encode(texts, [])

    def prefetch(self, texts, layers):
        pass

    def encode(self, texts, layers):
        return [
            Encoded(
                ids=[WORDS[word][0] for word in text.split()],
                tokens=text.split(),
                offsets=None,
                special=[False] * len(text.split()),
                truncated=False,
                states={
                    layer: 3 * torch.tensor([WORDS[word][1] for word in text.split()]) for layer in layers
                },
            )
            for text in texts
        ]


@pytest.fixture
def by_hand(monkeypatch):
    monkeypatch.setattr(EncoderOptions, "encoder", TwoDirections())
    return lambda **options: float(Moverscore(**options).compute(["east north"], ["east"]))


def test_numbers_derived_by_hand(by_hand):
    # Power means of five equal unit vectors repeat them three times; made unit again they keep all angles.
    # Mover-1: half of the mass stays at "east" (0), half moves from "north", a right angle away:
    # squared distance 1 + 1 - 2 cos 90 = 2. EMD = 0.5 * 0 + 0.5 * 2 = 1, score 1 - 1 = 0.
    assert by_hand() == pytest.approx(0.0, abs=1e-6)
    # Euclidean: EMD = 0.5 * sqrt(2) = 0.70711; 1 - 0.70711 and 1 / 1.70711.
    assert by_hand(distance="euclidean") == pytest.approx(0.2928932, abs=1e-6)
    assert by_hand(variant="v2") == pytest.approx(0.5857864, abs=1e-6)
    # Mover-2: the one 2-gram lies at 45 degrees; "east" alone is shorter than 2 and stays one n-gram.
    # Squared distance 2 - 2 cos 45 = 0.5857864; score 0.4142136. Euclidean sqrt(0.5857864) = 0.7653669.
    assert by_hand(n_gram=2) == pytest.approx(0.4142136, abs=1e-6)
    assert by_hand(n_gram=2, variant="v2") == pytest.approx(0.5664544, abs=1e-6)  # 1 / 1.7653669


def test_numbers_derived_by_hand_with_idf(monkeypatch):
    monkeypatch.setattr(EncoderOptions, "encoder", TwoDirections())
    predictions, references = ["east north", "east", "east"], ["east", "north", "north"]
    # Predictions: N = 3, "east" in 3, "north" in 1: idf log(4/4) = 0 and log(4/2) = 0.6931. References: each
    # token has a positive idf. So the first prediction is all "north", a right angle from "east":
    # EMD = 2, v1 gives 1 - 2 = -1.
    score = Moverscore(idf=True).compute(predictions, references)
    assert score.per_example["moverscore"][0] == pytest.approx(-1.0, abs=1e-5)
    # The others are "east" only, which weighs 0: nothing is left to move.
    assert score.per_example["moverscore"][1:] == [0.0, 0.0]
    # Mover-2: the idf-weighted mean of (east, north) with weights (0, 0.6931) is "north" again.
    score = Moverscore(idf=True, n_gram=2).compute(predictions, references)
    assert score.per_example["moverscore"][0] == pytest.approx(-1.0, abs=1e-5)


# --- properties -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["v1", "v2"])
def test_mover_2_differs_from_mover_1(variant):
    predictions, references = pairs()
    one, two = (
        load("moverscore", variant=variant, n_gram=n).compute(predictions, references) for n in (1, 2)
    )
    assert one.signature != two.signature
    differences = [
        abs(a - b) for a, b in zip(one.per_example["moverscore"], two.per_example["moverscore"], strict=True)
    ]
    assert np.median(differences) > 0.005


@pytest.mark.parametrize(
    "options", [{}, {"n_gram": 2}, {"variant": "v2"}, {"distance": "euclidean"}], ids=str
)
def test_a_text_against_itself_is_exactly_1(options):
    texts = [row for row in tiny.texts() if len(row.split()) > 1]
    assert set(load("moverscore", **options).compute(texts, texts).per_example["moverscore"]) == {1.0}


def test_score_is_symmetric_without_idf():
    predictions, references = pairs()
    metric = load("moverscore")
    there = metric.compute(predictions, references).per_example["moverscore"]
    back = metric.compute(references, predictions).per_example["moverscore"]
    assert there == pytest.approx(back, abs=1e-5)


def test_idf_of_a_single_pair_is_refused_and_the_signature_says_so():
    metric = load("moverscore", idf=True)
    with pytest.raises(InputError, match=r"idf over 1 predictions weighs every token 0.*idf=False"):
        metric.compute(["Snow fell."], ["Oslo had snow."])
    assert "single_pair:refused" in str(metric.signature())


def test_idf_counts_predictions_and_references_apart():
    metric = load("moverscore", idf=True)
    base = metric.compute(["snow fell", "a dog barked"], ["rain fell", "the dog slept"])
    other = metric.compute(["snow fell", "snow fell slowly"], ["rain fell", "the dog slept"])
    mine, theirs = (str(score.signature).split("idf:apart@")[1].split("|")[0] for score in (base, other))
    assert mine.split("+")[0] != theirs.split("+")[0] and mine.split("+")[1] == theirs.split("+")[1]


def test_texts_with_nothing_to_move_score_0_and_are_counted():
    score = load("moverscore", stop_words=True).compute(
        ["", "of the", "!?", "Snow fell.", "Snow fell."], ["Snow fell."] * 4 + [""]
    )
    assert score.per_example["moverscore"] == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert score.counts["empty_predictions"] == 3 and score.counts["empty_references"] == 1


def test_several_references_take_the_maximum_or_the_mean():
    references = ["Oslo had snow.", "The dog slept."]
    each = [float(load("moverscore").compute(["Snow fell."], [reference])) for reference in references]
    assert float(load("moverscore").compute(["Snow fell."], [references])) == pytest.approx(
        max(each), abs=1e-5
    )
    mean = load("moverscore", multi_reference="mean").compute(["Snow fell."], [references])
    assert float(mean) == pytest.approx(sum(each) / 2, abs=1e-5)


def test_pieces_of_words_are_found_in_byte_level_tokens_too():
    folder = tiny.checkpoint("roberta")
    metric = load("moverscore", model=folder)
    plan = metric.explain("unbelievableness fell", ["unbelievableness fell"]).plans[0].flows
    moved = [move.start.lstrip("Ġ") for move in plan]
    assert len(moved) == 4, moved  # <s>, the beginning of each word, </s>
    more = load("moverscore", model=folder, subwords=True).explain(
        "unbelievableness fell", ["unbelievableness fell"]
    )
    assert len(more.plans[0].flows) > 4


def test_the_plan_adds_up_to_the_score():
    score = load("moverscore", n_gram=2).compute(["Snow fell in Oslo."], [["Oslo had snow.", "Rain."]])
    explanation = score.explain(0)
    for plan in explanation.plans:
        assert sum(move.mass for move in plan.flows) == pytest.approx(1)
        assert sum(move.cost for move in plan.flows) == pytest.approx(plan.distance)
        assert plan.values["moverscore"] == pytest.approx(1 - plan.distance)
    best = max(plan.values["moverscore"] for plan in explanation.plans)
    assert best == pytest.approx(float(score), abs=1e-5)
    assert explanation.plans[0].flows[0].start.count(" ") == 1


@pytest.mark.parametrize(
    ("variant", "hub"),
    [("v1", "textattack/bert-base-uncased-MNLI"), ("v2", "distilbert/distilbert-base-uncased")],
)
def test_paper_preset_names_its_model_and_uses_idf(variant, hub):
    metric = load("moverscore", preset="paper", variant=variant)
    assert metric.idf
    with pytest.raises(MissingRequirement, match=rf"{hub}.*model="):
        metric.check()


def test_options_are_checked():
    for option, value in (
        ("n_gram", 0), ("n_gram", "2"), ("variant", "v3"), ("distance", "cosine"), ("multi_reference", "best"),
        ("stop_words", "the"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=rf"{option}(=| is )"):
            load("moverscore", **{option: value})


# --- n-grams, one by one ----------------------------------------------------------------------------------


def text_of(tokens: str, special: str = "", offsets=None) -> Encoded:
    names = tokens.split()
    states = {1: torch.eye(len(names)) * 2} if names else {1: torch.zeros(0, 1)}
    return Encoded(
        [ord(t[0]) for t in names], names, offsets, [t in special.split() for t in names], False, states
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((frozenset(), False, True), "[CLS] The cat ▁sat ĠOn [SEP]"),
        ((frozenset({"the", "on", "ran"}), False, True), "[CLS] cat ▁sat [SEP]"),
        ((frozenset(), True, True), "[CLS] The cat ##s ▁sat ĠOn [SEP]"),
        ((frozenset(), True, False), "[CLS] The cat ##s ▁sat ĠOn [SEP]"),
    ],
)
def test_what_is_kept_of_a_text(options, expected):
    encoded = text_of("[CLS] The cat ##s ▁sat ĠOn ! Ġ. [SEP]", special="[CLS] [SEP]")
    kept = Keep(*options)(encoded, "")
    assert " ".join(encoded.tokens[i] for i in kept.positions) == expected and not kept.is_empty
    assert Keep(frozenset({"[cls]", "[sep]", "a"}), False, True)(
        text_of("[CLS] A [SEP]", "[CLS] [SEP]"), ""
    ).is_empty


def test_unmarked_pieces_are_those_that_touch_a_word():
    #       0  "snow" 4 "fall" 8 "." 9 "2" 10   12 "in"
    text = "snowfall.2  in"
    offsets = [(0, 0), (0, 4), (4, 8), (8, 9), (9, 10), (12, 14), (0, 0)]
    encoded = text_of("<s> snow fall . 2 in </s>", special="<s> </s>", offsets=offsets)
    kept = Keep(frozenset(), False, False)(encoded, text)
    assert [encoded.tokens[i] for i in kept.positions] == ["<s>", "snow", "2", "in", "</s>"]
    without = Encoded(encoded.ids, encoded.tokens, None, encoded.special, False)
    assert len(Keep(frozenset(), False, False)(without, text).positions) == 6, "all but the full stop"
    # The shortest word that a piece can continue has one letter.
    short = text_of("<s> a sh </s>", special="<s> </s>", offsets=[(0, 0), (0, 1), (1, 3), (0, 0)])
    assert Keep(frozenset(), False, False)(short, "ash").positions == [0, 1, 3]


def test_ngrams_have_the_weighted_mean_and_the_sum_of_weights():
    weight = {"a": 1.0, "b": 0.0, "c": 3.0, "d": 0.0, "e": 0.0}
    encoded = text_of("a b c d e")
    (bag,) = bags_of_ngrams([Kept(encoded, [0, 1, 2, 3, 4])], [1], 2, lambda token: weight[chr(token)])
    assert bag.names == ["a b", "b c", "c d"] and bag.masses.tolist() == [1.0, 3.0, 3.0]
    assert bag.vectors.tolist() == torch.eye(5)[[0, 2, 2]].tolist() and not bag.nothing_to_move
    (pair,) = bags_of_ngrams([Kept(encoded, [0, 2, 4])], [1], 2, lambda token: weight[chr(token)] + 1)
    assert pair.names == ["a c", "c e"] and pair.masses.tolist() == [6.0, 5.0]
    assert pair.vectors[0] == pytest.approx(np.array([1, 0, 2, 0, 0]) / math.sqrt(5), abs=1e-6)
    (nothing,) = bags_of_ngrams([Kept(encoded, [1, 3])], [1], 1, lambda token: weight[chr(token)])
    assert nothing.nothing_to_move and nothing.names == []


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("pooled", [1, 5, 1024])
def test_texts_taken_together_keep_their_ngrams_apart(size, pooled, monkeypatch):
    generator = torch.Generator().manual_seed(size)
    texts = []
    for length in (3, 1, 4, 2, 5, 1):
        tokens = [chr(97 + i) for i in range(length)]
        states = {layer: torch.randn(length, 4, generator=generator) for layer in (1, 2)}
        encoded = Encoded([ord(t) for t in tokens], tokens, None, [False] * length, False, states)
        texts.append(Kept(encoded, [i for i in range(length) if i != 1]))
    alone = [next(bags_of_ngrams([text], [1, 2], size, float)) for text in texts]
    monkeypatch.setattr(ngrams, "_POOLED_TOKENS", pooled)
    together = list(bags_of_ngrams(texts, [1, 2], size, float))
    for one, other, text in zip(together, alone, texts, strict=True):
        assert one.names == other.names and one.masses.tolist() == other.masses.tolist()
        assert np.allclose(one.vectors, other.vectors, atol=1e-6) and one.vectors.shape[1] == 12
        assert len(one.masses) == max(1, len(text.positions) - size + 1)


def test_close_vectors_keep_their_distance():
    a = np.array([[1.0, 0.0]])
    angles = np.array([0.0, 1e-9, 1e-3, 0.5, math.pi])
    found = squared_distances(a, np.stack([np.cos(angles), np.sin(angles)], 1))[0]
    assert found == pytest.approx(4 * np.sin(angles / 2) ** 2, rel=1e-9, abs=1e-30) and found[0] == 0


def test_texts_and_tokens_are_counted_once_or_as_often_as_they_stand():
    long = "snow fell in oslo " * 40
    score = load("moverscore", model=tiny.checkpoint("bert"), max_length=9).compute(
        [long, long, "."], [["snow", long], "", "snow"]
    )
    assert score.counts == {"truncated": 3, "empty_predictions": 1, "empty_references": 1}
    encoder = load("moverscore", model=tiny.checkpoint("bert"), max_length=9).reading.encoder
    assert score.cost["tokens"] == sum(len(text) for text in encoder.tokenize([long, "snow", "", "."]))


def test_the_dearest_move_stands_first_and_the_signature_names_the_words():
    metric = load("moverscore", stop_words=["On", "the"])
    moves = metric.explain("Snow fell in Oslo on Monday.", "Trains stood still.").plans[0].flows
    costs = [move.mass * move.distance for move in moves]
    assert costs == sorted(costs, reverse=True) and costs[0] > costs[-1]
    assert "on" not in {move.start for move in moves}
    assert metric.explain("", ["Snow.", "!"]).plans[1] == Plan(1, {"moverscore": 0.0}, None, [])
    signatures = [
        str(load("moverscore", stop_words=words).signature()) for words in (["a", "B"], ["b", "A"], True)
    ]
    assert signatures[0] == signatures[1] != signatures[2] and "|stop_words:custom@" in signatures[0]
    assert "|stop_words:no|subwords:no|refs:max|" in str(load("moverscore").signature())
    assert "single_pair" not in str(load("moverscore").signature()) and "|idf:no|" in str(
        load("moverscore").signature()
    )
