"""VERT: the paper's numbers from its sub-scores, the sub-scores themselves, and both sentence encoders."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from summarily.metrics import load
from summarily.metrics.explanations import Plan
from summarily.metrics.vert.scorer import cosine, vert_from_parts
from summarily.modeling.infersent.configuration_infersent import InferSentConfig
from summarily.modeling.infersent.modeling_infersent import InferSentModel
from summarily.modeling.infersent.tokenization_infersent import InferSentTokenizer
from summarily.support.errors import InputError, MissingRequirement
from tests.metrics.tiny import checkpoint

# (VERT-S, VERT-D, VERT in percent): Tables 1 and 4 and the mean of human summaries in Krantz and Kalita 2018.
PAPER = {
    "Gen1": (0.979, 0.418, 94.77),
    "Gen2": (0.924, 0.512, 91.08),
    "Gen3": (1.000, 0.000, 100.00),
    "human summaries": (0.74875, 2.71700, 60.27),
    "s-dot-prod": (0.73523, 2.76307, 59.13),
    "rel-s-dot-prod": (0.73876, 2.73907, 59.55),
    "local": (0.02084, 5.00000, 1.04),
    "local-mask": (0.73361, 2.77857, 58.89),
    "local-blk-mask": (0.67226, 3.18881, 51.73),
    "dilated": (0.09509, 3.66543, 18.10),
    "dilated-mask": (0.68682, 3.04922, 53.85),
}


@pytest.mark.parametrize("row", PAPER)
def test_formula_gives_the_papers_numbers(row):
    similarity, distance, percent = PAPER[row]
    assert 100 * vert_from_parts(similarity, distance) == pytest.approx(percent, abs=0.01)


def test_distance_is_clipped_at_alpha():
    assert vert_from_parts(0.5, 7.0) == vert_from_parts(0.5, 5.0) == 0.25
    assert vert_from_parts(0.5, 1.0, alpha=2.0) == 0.5


def parts(prediction, reference, **options) -> tuple[float, float, float]:
    score = load("vert", **options).compute([prediction], [reference])
    assert list(score.per_example) == ["vert", "vert_similarity", "vert_distance"]
    return tuple(values[0] for values in score.per_example.values())


def test_word_order_is_seen_by_the_similarity_alone():
    vert, similarity, distance = parts("go left and then right", "go right and then left")
    assert distance == 0.0
    assert 0.9 < similarity < 1.0
    assert vert == (1 + similarity) / 2


def test_identity_is_exactly_1():
    assert parts("Snow fell in Oslo.", "Snow fell in Oslo.") == (1.0, 1.0, 0.0)


def test_the_wrong_word_costs_more_than_a_near_one():
    target = "Endeavour astronauts join two segments of International Space Station."
    near = parts("Endeavour astronauts join two sections of International Space Station.", target)
    wrong = parts("Endeavour astronauts remove two segments of International Space Station.", target)
    assert near[0] > wrong[0], "ROUGE cannot tell them apart (Table 1)"


@pytest.mark.parametrize("prediction", ["", "of the and", "qxwvv", "12 34"])
def test_a_side_without_vectors_is_alpha_away(prediction):
    vert, similarity, distance = parts(prediction, "Snow fell.")
    assert distance == 5.0
    assert vert == pytest.approx(similarity / 2)
    assert (similarity == 0.0) == (prediction == "")


def test_distance_is_of_raw_vectors():
    from summarily.support.vectors import load as load_vectors

    table = load_vectors()
    expected = np.linalg.norm(table["cat"].astype(float) - table["dog"].astype(float))
    assert parts("cat", "dog")[2] == pytest.approx(expected, abs=1e-9)


def test_similarity_is_the_cosine_of_normalised_means():
    from transformers import AutoModel, AutoTokenizer

    folder = checkpoint("bert")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    texts = ["Snow fell in Oslo.", "Trains stood still."]
    with torch.no_grad():
        means = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0) for text in texts]
    expected = torch.nn.functional.cosine_similarity(*means, dim=0).item()
    assert parts(*texts, model=folder)[1] == pytest.approx(expected, abs=1e-5)


def test_references_are_averaged_unless_asked_otherwise():
    references = ["Snow fell in Oslo.", "Stocks rose sharply."]
    each = [parts("Snow fell.", reference) for reference in references]
    assert parts("Snow fell.", references) == pytest.approx(np.mean(each, 0))
    assert parts("Snow fell.", references, multi_reference="max") == max(each)


def test_clipped_pairs_are_counted():
    score = load("vert", alpha=0.5).compute(["cat", "cat"], ["stocks", "cat"])
    assert score.counts["clipped"] == 1
    assert score.per_example["vert_distance"] == [0.5, 0.0]


def test_explanation_has_sub_scores_and_flows_for_each_reference():
    explanation = load("vert").explain("Snow fell.", ["Snow melted.", ""])
    first, second = explanation.plans
    assert explanation.values["vert"] == pytest.approx((first.values["vert"] + second.values["vert"]) / 2)
    assert sum(flow.cost for flow in first.flows) == pytest.approx(first.distance)
    assert {flow.start for flow in first.flows} == {"snow", "fell"}
    assert second == Plan(1, {"vert": 0.0, "vert_similarity": 0.0, "vert_distance": 5.0}, 5.0, [])


@pytest.mark.parametrize("alpha", [0, -1, math.inf, math.nan])
def test_alpha_must_be_a_positive_number(alpha):
    with pytest.raises(InputError, match="alpha="):
        load("vert", alpha=alpha)


def test_the_paper_preset_says_how_to_get_infersent():
    with pytest.raises(MissingRequirement, match="convert_infersent"):
        load("vert", preset="paper").check()


def test_the_best_reference_is_that_of_the_best_vert():
    metric = load("vert", multi_reference="max")
    assert metric._over_references([(0.2, 0.9, 4.0), (0.6, 0.5, 1.5), (0.5, 0.8, 1.0)]) == (0.6, 0.5, 1.5)
    assert load("vert")._over_references([(0.2, 0.9, 4.0), (0.6, 0.5, 1.0)]) == pytest.approx((0.4, 0.7, 2.5))


def test_everything_that_is_missing_is_counted():
    long = "Snow fell in Oslo. " * 60
    score = load("vert", model=checkpoint("bert")).compute(
        [long, "of the", "Qxwvv snow."], [["Snow.", "", long], "Snow.", "Zzyyxq vvkkqj."]
    )
    assert score.counts == {
        "out_of_vocabulary": 3,
        "empty_predictions": 1,
        "empty_references": 2,
        "truncated": 2,
        "clipped": 1 + 1 + 1,
    }
    # Words that are kept and have a vector: 180 and 1 and 180, and 1, and 1.
    assert score.cost["tokens"] == 180 + 1 + 180 + 1 + 1


def test_too_many_words_are_cut_and_counted(monkeypatch):
    from summarily.metrics.vert import scorer

    monkeypatch.setattr(scorer, "_MAX_POINTS", 1)
    score = load("vert").compute(["cat cat dog", "cat"], [["stocks stocks snow", "cat"], "cat"])
    assert score.counts["truncated"] == 2, "one of two points against two, and against one"
    plans = score.explain(0).plans
    monkeypatch.undo()
    assert plans[0].distance == parts("cat", "stocks")[2], "the heaviest are left"


def test_cosines_of_equal_and_empty_vectors():
    assert cosine(np.array([0.1, 0.2]), np.array([0.1, 0.2])) == 1.0
    assert cosine(np.zeros(2), np.ones(2)) == cosine(np.ones(2), np.zeros(2)) == 0.0
    assert cosine(np.array([1.0, 0.0]), np.array([-3.0, 0.0])) == -1.0
    assert cosine(np.array([3.0, 4.0]), np.array([4.0, 3.0])) == pytest.approx(0.96)
    assert parts("Snow fell.", " ")[1] == 0.0


def test_the_signature_names_every_option():
    text = str(load("vert", alpha=2, multi_reference="max", stop_words=False).signature())
    assert "|stop_words:none|alpha:2.0|refs:max|solver:exact|" in text
    assert "|pooling:mean|" in text and "|out_of_vocabulary:drop|" in text


# --- with InferSent ---


@pytest.fixture(scope="module")
def infersent(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("infersent")
    words = ["", "<s>", "</s>", "go", "left", "right", "and", "then", "Snow", "fell", "."]
    config = InferSentConfig(vocab_size=len(words), embedding_size=8, hidden_size=16)
    torch.manual_seed(0)
    InferSentModel(config).save_pretrained(folder)
    InferSentTokenizer(words, config).save_pretrained(folder)
    return str(folder)


def test_infersent_similarity_is_that_of_the_model(infersent):
    model, tokenizer = (
        InferSentModel.from_pretrained(infersent).eval(),
        InferSentTokenizer.from_pretrained(infersent),
    )
    texts = ["go left and then right", "go right and then left"]
    with torch.no_grad():
        embeddings = model(**tokenizer(texts)).pooler_output.double().numpy()
    _, similarity, distance = parts(*texts, model=infersent)
    assert similarity == pytest.approx(cosine(*embeddings), abs=1e-5)
    assert distance == 0.0 and similarity < 1.0
    assert "|pooling:max|tokenizer:infersent|" in str(load("vert", model=infersent).signature())


def test_infersent_scores_do_not_depend_on_the_batch(infersent):
    predictions = ["go", "Snow fell. Snow fell. go left and then right and then left.", "go left", ""]
    references = ["go left", "Snow fell.", "go and go and go right.", "Snow"]
    metric = load("vert", model=infersent)
    together = metric.compute(predictions, references).per_example["vert"]
    alone = [
        metric.compute([p], [r]).per_example["vert"][0] for p, r in zip(predictions, references, strict=True)
    ]
    assert together == pytest.approx(alone, abs=1e-5)
    assert together[3] == 0.0


def test_infersent_reads_many_texts_in_batches(infersent, monkeypatch):
    from summarily.metrics.vert import scorer

    texts = ["go", "Snow fell.", "go left and then right", "right", "left and left. go."]
    encoder = load("vert", model=infersent)._sentence_encoder
    whole = encoder.embed(texts)
    monkeypatch.setattr(scorer, "_INFERSENT_BATCH", 2)
    assert np.allclose(encoder.embed(texts), whole, atol=1e-6) and whole.shape == (5, 32)
    assert len({tuple(row.round(4)) for row in whole}) == 5
    assert encoder.truncated(texts) == [False] * 5 and encoder.requests(texts) == []


def test_an_encoder_in_bfloat16_is_signed_and_infersent_refuses_it(infersent):
    texts = ["Snow fell in Oslo."], ["Oslo had snow."]
    plain, half = (load("vert", model=checkpoint("bert"), **more) for more in ({}, {"dtype": "bfloat16"}))
    assert "|dtype:bfloat16|" in str(half.signature()) and "dtype" not in str(plain.signature())
    exact, near = (metric.compute(*texts).mean for metric in (plain, half))
    assert near["vert_distance"] == exact["vert_distance"], "words are not encoded"
    assert near["vert_similarity"] != exact["vert_similarity"]
    assert near["vert_similarity"] == pytest.approx(exact["vert_similarity"], abs=0.02)
    with pytest.raises(InputError, match="InferSent runs in float32"):
        load("vert", model=infersent, dtype="bfloat16").signature()
    with pytest.raises(InputError, match="dtype='int8'"):
        load("vert", dtype="int8")
