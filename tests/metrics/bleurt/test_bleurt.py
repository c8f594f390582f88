"""BLEURT as a metric: the model's own scores, batches by length, references, cuts and explanations."""

from __future__ import annotations

import pytest
import torch

from summarily.metrics import load
from summarily.metrics.bleurt.scorer import PAPER_MODEL, Bleurt, Pair, PairModel, best_matches
from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring
from summarily.modeling.bleurt.tokenization_bleurt import PairTokenizer
from summarily.support.errors import InputError, MissingRequirement
from tests.metrics.bleurt.tiny_bleurt import tiny_bleurt
from tests.metrics.tiny import checkpoint, texts

PREDICTIONS = texts()[:24]
REFERENCES = [*texts()[5:24], *texts()[:5]]


def plain_scores(folder: str, references: list[str], predictions: list[str]) -> list[float]:
    """One pair at a time, by the model and its tokenizer alone."""
    model = BleurtForScoring.from_pretrained(folder).eval()
    tokenizer = PairTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return [
            float(model(**tokenizer([reference], [prediction])).logits[0, 0])
            for reference, prediction in zip(references, predictions, strict=True)
        ]


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "what differs"])
def test_scores_are_the_models_own(whole):
    folder = tiny_bleurt(whole)
    scores = load("bleurt", model=folder).compute(PREDICTIONS, REFERENCES).per_example["bleurt"]
    assert scores == pytest.approx(plain_scores(folder, REFERENCES, PREDICTIONS), abs=5e-6)
    assert len({round(score, 4) for score in scores}) > 10


@pytest.mark.parametrize("budget", [1, 100, 100_000])
def test_batches_do_not_move_a_score(budget):
    whole = load("bleurt", model=tiny_bleurt()).compute(PREDICTIONS, REFERENCES).per_example["bleurt"]
    cut = load("bleurt", model=tiny_bleurt(), token_budget=budget).compute(PREDICTIONS, REFERENCES)
    assert cut.per_example["bleurt"] == pytest.approx(whole, abs=1e-5)


def test_equal_pairs_are_read_once_and_long_ones_together(monkeypatch):
    seen: list[torch.Size] = []
    original = BleurtForScoring.forward

    def forward(self, input_ids, **inputs):
        seen.append(input_ids.shape)
        return original(self, input_ids, **inputs)

    monkeypatch.setattr(BleurtForScoring, "forward", forward)
    metric = load("bleurt", model=tiny_bleurt(), token_budget=120)
    metric.compute(PREDICTIONS * 3, REFERENCES * 3)
    assert sum(shape[0] for shape in seen) == len(set(zip(PREDICTIONS, REFERENCES, strict=True)))
    widths = [shape[1] for shape in seen]
    assert widths == sorted(widths, reverse=True)
    assert all(rows * width <= 120 or rows == 1 for rows, width in seen)


def test_the_best_reference_counts_or_the_mean():
    references = ["Snow fell in Oslo.", "Stocks fell.", "a"]
    folder = tiny_bleurt()
    single = plain_scores(folder, references, ["Snow fell."] * 3)
    assert load("bleurt", model=folder).compute(["Snow fell."], [references]).mean["bleurt"] == pytest.approx(
        max(single), abs=5e-6
    )
    mean = load("bleurt", model=folder, multi_reference="mean").compute(["Snow fell."], [references])
    assert mean.mean["bleurt"] == pytest.approx(sum(single) / 3, abs=5e-6)


def test_sentences_count_with_their_best_matches():
    metric = load("bleurt", model=tiny_bleurt(), unit="sentence")
    prediction, reference = "Snow fell. Trains stood still.", "It snowed in Oslo. Nobody left. Snow fell."
    ours, theirs = ["Snow fell.", "Trains stood still."], ["It snowed in Oslo.", "Nobody left.", "Snow fell."]
    plain = plain_scores(tiny_bleurt(), [r for r in theirs for _ in ours], ours * 3)
    table = torch.tensor(plain).view(3, 2)
    expected = float((table.amax(0).mean() + table.amax(1).mean()) / 2)
    score = metric.compute([prediction], [reference])
    assert score.mean["bleurt"] == pytest.approx(expected, abs=5e-6)
    assert "unit:sentence" in str(score.signature)
    whole = load("bleurt", model=tiny_bleurt())
    assert whole.compute([prediction], [reference]).mean["bleurt"] != pytest.approx(expected, abs=1e-4)
    for text in ("Snow fell.", ""):  # a single sentence, or none, is the whole text
        alone = metric.compute([text], ["It snowed in Oslo."]).mean["bleurt"]
        assert alone == pytest.approx(whole.compute([text], ["It snowed in Oslo."]).mean["bleurt"], abs=1e-5)


def test_only_as_many_references_are_read_as_asked_for():
    metric = load("bleurt", model=tiny_bleurt(), max_references=1)
    one = metric.compute(["Snow fell."], ["Stocks fell."]).mean["bleurt"]
    score = metric.compute(["Snow fell."], [["Stocks fell.", "Snow fell.", ""]])
    assert score.mean["bleurt"] == pytest.approx(one, abs=1e-5)
    assert score.counts["empty_references"] == 0
    assert "max_references:1" in str(score.signature)
    assert len(score.explain(0).texts) == len(score.explain(0).references) == 1


def test_reference_and_prediction_are_not_exchangeable():
    metric = load("bleurt", model=tiny_bleurt())
    there = metric.compute(["Snow fell in Oslo."], ["Stocks fell."]).mean["bleurt"]
    back = metric.compute(["Stocks fell."], ["Snow fell in Oslo."]).mean["bleurt"]
    assert there != pytest.approx(back, abs=1e-5)


def test_cut_and_empty_texts_are_counted():
    metric = load("bleurt", model=tiny_bleurt())
    long = "snow fell in oslo " * 40
    score = metric.compute([long, "", "Snow."], [long, "Snow.", ["", "Snow."]])
    assert score.counts == {"truncated": 1, "empty_predictions": 1, "empty_references": 1}
    assert all(value == value for value in score.per_example["bleurt"])
    short = load("bleurt", model=tiny_bleurt(), max_length=9).compute([long], [long])
    assert short.counts["truncated"] == 1 and short.cost["tokens"] == 9


def test_the_signature_names_what_changes_the_numbers():
    texts = [
        str(load("bleurt", model=tiny_bleurt(), **options).compute(["a"], ["a"]).signature)
        for options in ({}, {"max_length": 9}, {"multi_reference": "mean"}, {"dtype": "bfloat16"})
    ]
    assert len(set(texts)) == 4
    other = str(load("bleurt", model=tiny_bleurt(pooling="first")).compute(["a"], ["a"]).signature)
    assert other not in texts
    assert "refs:max" in texts[0] and "truncation:64" in texts[0]
    assert "truncation:9|" in texts[1] and "refs:mean" in texts[2] and "dtype:bfloat16" in texts[3]
    assert "dtype" not in texts[0] and "unit" not in texts[0] and "max_references" not in texts[0]


def test_counts_and_tokens_are_those_of_the_pairs():
    metric = load("bleurt", model=tiny_bleurt(), max_length=20)
    long = "snow fell in oslo " * 40
    score = metric.compute([long, long, "Snow."], [[long, "Snow."], long, "Snow."])
    assert score.counts == {"truncated": 3, "empty_predictions": 0, "empty_references": 0}
    tokenizer = PairTokenizer.from_pretrained(tiny_bleurt())
    short = tokenizer(["Snow."], ["Snow."])["input_ids"].shape[1]
    assert score.cost["tokens"] == 20 + 20 + short, "two of the pairs are the same"
    by_sentence = load("bleurt", model=tiny_bleurt(), max_length=20, unit="sentence")
    counts = by_sentence.compute([f"Snow. {long}.", "Snow."], ["Snow. Snow.", "Snow."]).counts
    assert counts["truncated"] == 1, "one pair, though two of its parts are cut"


def test_one_model_serves_all_metrics_of_its_kind():
    one, other = (
        load("bleurt", model=tiny_bleurt(), multi_reference=rule).loaded for rule in ("max", "mean")
    )
    assert one is other
    half = load("bleurt", model=tiny_bleurt(), dtype="bfloat16").loaded
    assert half is not one and next(half.model.parameters()).dtype == torch.bfloat16
    assert next(one.model.parameters()).dtype == torch.float32 and not one.model.training


def test_sentences_of_both_sides_count_alike():
    table = [
        ("a", "x", 0.9),
        ("a", "y", 0.1),
        ("b", "x", 0.2),
        ("b", "y", 0.3),
        ("c", "x", -0.4),
        ("c", "y", -0.6),
    ]
    assert best_matches(table) == pytest.approx(((0.9 + 0.3 - 0.4) / 3 + (0.9 + 0.3) / 2) / 2)
    assert best_matches([("a", "x", -2.0)]) == -2.0


def test_an_explanation_says_what_each_word_adds():
    metric = load("bleurt", model=tiny_bleurt())
    score = metric.compute(["Snow fell in Oslo."], [["Snow fell.", "Stocks fell."]])
    explained = score.explain(0)
    assert explained.values["bleurt"] == pytest.approx(score.mean["bleurt"], abs=1e-5)
    first = explained.texts[0]
    assert [entry.word for entry in first.words] == ["Snow", "fell", "in", "Oslo."]
    without = metric.compute(["Snow fell Oslo."], ["Snow fell."]).mean["bleurt"]
    assert first.words[2].value == pytest.approx(first.values["bleurt"] - without, abs=1e-5)
    second = explained.texts[1]
    stocks = plain_scores(tiny_bleurt(), ["Stocks fell."] * 2, ["Snow fell in Oslo.", "fell in Oslo."])
    assert second.values["bleurt"] == pytest.approx(stocks[0], abs=1e-5)
    assert second.words[0].value == pytest.approx(stocks[0] - stocks[1], abs=1e-5)
    mean = load("bleurt", model=tiny_bleurt(), multi_reference="mean")
    told = mean.explain("Snow fell in Oslo.", ["Snow fell.", "Stocks fell."])
    assert told.values["bleurt"] == pytest.approx(
        (first.values["bleurt"] + second.values["bleurt"]) / 2, abs=1e-5
    )
    assert told.prediction == "Snow fell in Oslo." and told.metric == "bleurt"


def test_a_port_is_scored_too():
    """A BERT classifier with one output, under its own names, is one of the published ports."""
    from transformers import AutoTokenizer, BertForSequenceClassification

    folder = checkpoint("bert") + "-port"
    torch.manual_seed(0)
    model = BertForSequenceClassification.from_pretrained(checkpoint("bert"), num_labels=1).eval()
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint("bert"))
    tokenizer.save_pretrained(folder)
    inputs = tokenizer(
        REFERENCES[0], PREDICTIONS[0], truncation=True, return_token_type_ids=True, return_tensors="pt"
    )
    with torch.no_grad():
        expected = float(model(**inputs).logits)
    score = load("bleurt", model=folder).compute(PREDICTIONS[:1], REFERENCES[:1])
    assert score.mean["bleurt"] == pytest.approx(expected, abs=1e-5)


def test_adapters_are_folded_in_for_scoring():
    from summarily.modeling.modeling_adapted_encoder import AdaptedLinear
    from summarily.support import weights

    model = PairModel(weights.resolve(tiny_bleurt(whole=False)), torch.device("cpu"), "float32")
    assert not any(isinstance(module, AdaptedLinear) for module in model.model.modules())
    pair = Pair("Snow fell.", "Snow fell in Oslo.")
    scores = model.score(model.encode([pair], None), 100)
    assert scores[pair] == pytest.approx(
        plain_scores(tiny_bleurt(whole=False), [pair.reference], [pair.prediction])[0], abs=5e-6
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "heavy"}, "preset"),
        ({"multi_reference": "best"}, "multi_reference='best'"),
        ({"unit": "word"}, "unit='word'"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"max_length": 4}, "max_length=4; expected a whole number, at least 5"),
        ({"token_budget": 0}, "token_budget=0"),
        ({"max_references": 0}, "max_references=0"),
    ],
)
def test_bad_options_are_named(options, message):
    assert load("bleurt", model=tiny_bleurt(), max_length=5, token_budget=1, max_references=1), (
        "the least there is"
    )
    with pytest.raises(InputError, match=message):
        Bleurt(**options)


def test_the_paper_preset_is_the_thesis_model(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    metric = load("bleurt", preset="paper")
    assert metric.model == PAPER_MODEL == "Elron/bleurt-large-512"
    with pytest.raises(MissingRequirement, match="Elron/bleurt-large-512"):
        metric.check()


def test_an_encoder_that_is_not_installed_is_named(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "summarily-bleurt", "encoder": "not here/at all/x"}'
    )
    with pytest.raises(MissingRequirement, match="not here/at all/x"):
        load("bleurt", model=tmp_path).check()


# --- the light preset -----------------------------------------------------------------------------------------

# Invented: a reference, a paraphrase in other words, and a text that shares more words but says something else.
PARAPHRASES = [
    ("A man is playing a guitar.", "Someone plays the guitar.", "A man is playing football."),
    (
        "The company raised its dividend.",
        "Shareholders get a higher payout.",
        "The company raised its prices.",
    ),
    ("A child is sleeping on the sofa.", "A kid naps on a couch.", "A child is jumping on the sofa."),
    (
        "The ship sank in the storm.",
        "The vessel went down in bad weather.",
        "The ship arrived after the storm.",
    ),
]


@pytest.fixture(scope="module")
def light() -> Bleurt:
    metric = load("bleurt")
    metric.check()
    return metric


def test_the_light_model_is_what_differs_from_minilm_and_small(light):
    from pathlib import Path

    assert sum(path.stat().st_size for path in Path(light.model).iterdir()) < 5 * 2**20
    assert "bleurt-light@" in str(light.signature())


def test_the_light_model_sees_through_half_of_what_always_misleads_rouge(light):
    references, paraphrases, others = (list(column) for column in zip(*PARAPHRASES, strict=True))

    def right(metric, key: str) -> list[bool]:
        said = metric.compute(paraphrases + others, references * 2).per_example[key]
        return [a > b for a, b in zip(said[: len(references)], said[len(references) :], strict=True)]

    assert not any(right(load("rouge"), "rouge1"))
    assert sum(right(light, "bleurt")) >= len(PARAPHRASES) / 2


def test_the_light_model_ranks_the_systems_of_the_sample(light):
    from summarily.support.sample import load_sample

    rows = load_sample()[:12]
    means = [
        light.compute([row[system] for row in rows], [row["references"] for row in rows]).mean["bleurt"]
        for system in ("good", "mediocre", "broken")
    ]
    assert means == sorted(means, reverse=True)
