"""BARTScore: both sides of the embedding and the likelihood, against computations by hand on a tiny BART."""

from __future__ import annotations

import pytest
import torch
import transformers

from summarily.metrics import InputError, MissingRequirement, load
from summarily.support import weights
from tests.metrics import tiny
from tests.metrics.bertscore.test_bertscore import (  # noqa: F401
    assert_equal,
    bert_score_runs_on_transformers_5,
    pairs,
    theirs,
)


@pytest.fixture(scope="module")
def bart():
    return tiny.checkpoint("bart")


def ids_of(bart, text):
    tokenizer = transformers.AutoTokenizer.from_pretrained(bart)
    return tokenizer(text.strip(), truncation=True, return_tensors="pt")["input_ids"]


def columns(score):
    return [score.per_example[key] for key in ("bartscore_precision", "bartscore_recall", "bartscore")]


def test_decoder_side_is_matching_by_hand_on_bart_model_output_0(bart):
    predictions, references = pairs()
    score = load("bartscore", model=bart).compute(predictions, references)
    model = transformers.BartModel.from_pretrained(bart).eval()
    expected = [[], [], []]
    with torch.no_grad():
        for prediction, reference in zip(predictions, references, strict=True):
            p, r = (model(ids_of(bart, text))[0][0] for text in (prediction, reference))
            similarity = torch.nn.functional.cosine_similarity(p[:, None], r[None, :], dim=-1)
            precision = similarity.max(dim=1)[0][1:-1].mean().item()
            recall = similarity.max(dim=0)[0][1:-1].mean().item()
            for column, value in zip(
                expected, (precision, recall, 2 * precision * recall / (precision + recall)), strict=True
            ):
                column.append(value)
    assert_equal(columns(score), expected)


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("layer", [3, 6])
def test_encoder_side_is_what_bert_score_does_with_bart(bart, layer, idf):
    predictions, references = pairs()
    score = load("bartscore", model=bart, side="encoder", layer=layer, idf=idf).compute(
        predictions, references
    )
    assert_equal(columns(score), theirs(bart, layer, predictions, references, idf))


def test_sides_differ(bart):
    predictions, references = pairs()
    decoder, encoder = (
        load("bartscore", model=bart, side=side).compute(predictions, references)
        for side in ("decoder", "encoder")
    )
    assert "side:decoder" in str(decoder.signature) and "layer:4" in str(decoder.signature)
    assert "side:encoder" in str(encoder.signature)
    assert max(abs(a - b) for a, b in zip(columns(decoder)[2], columns(encoder)[2], strict=True)) > 0.01


def by_hand(bart, source, target):
    """-loss of the model with the target as labels: the mean over all its tokens, <s> and </s> included."""
    model = transformers.BartForConditionalGeneration.from_pretrained(bart).eval()
    with torch.no_grad():
        return -model(ids_of(bart, source), labels=ids_of(bart, target)).loss.item()


def test_likelihood_is_minus_the_loss_in_every_direction(bart):
    predictions = ["Snow fell in Oslo.", "A dog barked all night long.", "Rain", "Snow fell in Oslo."]
    references = ["Oslo had snow on Monday.", "The dog slept.", "It rained.", "No trains ran."]
    sources = ["Snow fell in Oslo on Monday, and trains stood still.", "A dog barked.", "Rain fell.", "Snow"]
    rows = list(zip(predictions, references, sources, strict=True))
    forward = [by_hand(bart, r, p) for p, r, _ in rows]
    backward = [by_hand(bart, p, r) for p, r, _ in rows]
    expected = {
        "source->prediction": [by_hand(bart, s, p) for p, _, s in rows],
        "reference->prediction": forward,
        "prediction->reference": backward,
        "f": [(a + b) / 2 for a, b in zip(forward, backward, strict=True)],
    }
    for direction, values in expected.items():
        metric = load("bartscore", variant="likelihood", model=bart, direction=direction, token_budget=20)
        score = metric.compute(predictions, references, sources)
        assert score.per_example["bartscore"] == pytest.approx(values, abs=1e-5), direction
        assert f"direction:{direction}" in str(score.signature)
    assert score.per_example["bartscore_precision"] == pytest.approx(forward, abs=1e-5)
    assert score.per_example["bartscore_recall"] == pytest.approx(backward, abs=1e-5)


def test_likelihood_takes_the_best_reference(bart):
    references = ["Oslo had snow on Monday.", "The dog slept."]
    each = [by_hand(bart, reference, "Snow fell.") for reference in references]
    for rule, expected in (("max", max(each)), ("best", max(each)), ("mean", sum(each) / 2)):
        metric = load(
            "bartscore",
            variant="likelihood",
            model=bart,
            direction="reference->prediction",
            multi_reference=rule,
        )
        assert metric.compute(["Snow fell."], [references]).mean["bartscore"] == pytest.approx(
            expected, abs=1e-5
        )


def test_a_source_is_encoded_once_for_all_its_targets(bart, monkeypatch):
    from summarily.metrics.bartscore import likelihood

    made = []
    original = likelihood.LikelihoodModel.__init__

    def remember(self, *arguments, **options):
        original(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(likelihood.LikelihoodModel, "__init__", remember)
    source = "Snow fell in Oslo on Monday, and trains stood still."
    predictions = [" ".join(source.split()[:n]) for n in range(1, 9)]
    metric = load(
        "bartscore", variant="likelihood", model=bart, direction="source->prediction", token_budget=24
    )
    metric.compute(predictions, predictions, [source] * 8)
    assert sum(model.sources_encoded for model in made) == 1


def test_likelihood_without_sources_says_what_to_do(bart):
    metric = load("bartscore", variant="likelihood", model=bart, direction="source->prediction")
    with pytest.raises(InputError, match=r"pass sources=, or choose a direction"):
        metric.compute(["a"], ["b"])


@pytest.mark.parametrize(
    ("variant", "hub"), [("embedding", "bart-large-mnli"), ("likelihood", "bart-large-cnn")]
)
def test_the_paper_preset_names_the_hub_model_and_the_argument(variant, hub):
    with pytest.raises(MissingRequirement, match=rf"facebook/{hub}.*cannot be had from the Hub.*model="):
        load("bartscore", preset="paper", variant=variant).check()


def test_an_option_of_the_other_variant_is_refused(bart):
    with pytest.raises(InputError, match="direction is no option of variant='embedding'"):
        load("bartscore", model=bart, direction="f")
    with pytest.raises(InputError, match="side, layer is no option of variant='likelihood'"):
        load("bartscore", model=bart, variant="likelihood", side="encoder", layer=3)


def test_a_model_without_decoder_is_refused():
    with pytest.raises(InputError, match="no decoder"):
        load("bartscore", model=tiny.checkpoint("bert")).compute(["a"], ["b"])
    with pytest.raises(InputError, match="no encoder-decoder"):
        load("bartscore", model=tiny.checkpoint("bert"), variant="likelihood").compute(["a"], ["b"])


def test_explanations_add_up(bart):
    score = load("bartscore", model=bart).compute(["Snow fell."], [["Oslo had snow.", "Rain."]])
    aligned = score.explain(0).alignments
    totals = [sum(t.similarity * t.weight for t in one.precision) for one in aligned]
    assert max(totals) == pytest.approx(score.mean["bartscore_precision"], rel=1e-5)
    likely = load("bartscore", model=bart, variant="likelihood", direction="prediction->reference")
    score = likely.compute(["Snow fell."], ["Oslo had snow."])
    tokens = score.explain(0).texts[0].words
    assert tokens[0].word == "<s>" and tokens[-1].word == "</s>"
    assert sum(t.value for t in tokens) / len(tokens) == pytest.approx(float(score), rel=1e-5)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("max", (-2.5, -1.0, -3.0)), ("best", (-2.5, -2.0, -3.0)), ("mean", (-3.0, -5 / 3, -13 / 3))],
)
def test_likelihoods_of_several_references_by_rule(bart, rule, expected):
    metric = load("bartscore", variant="likelihood", model=bart, multi_reference=rule)
    both_ways = [(-1.0, -5.0), (-2.0, -3.0), (-2.0, -5.0)]  # F: -3, -2.5 and -3.5
    assert metric._over_references(both_ways) == pytest.approx(expected)


def test_likelihood_counts_texts_and_tokens(bart):
    long = "Snow fell in Oslo. " * 60
    metric = load("bartscore", variant="likelihood", model=bart)
    score = metric.compute(["Snow", "", long], [["Rain", long], " ", long])
    assert score.counts == {"truncated": 2, "empty_predictions": 1, "empty_references": 1}
    size = {text: len(ids_of(bart, text)[0]) for text in ("Snow", "Rain", "", long)}
    assert size[long] == 64
    # Both directions of every distinct pair; that of the long text with itself is one pair.
    pairs = [("Snow", "Rain"), ("Snow", long), ("", "")]
    expected = sum(2 * (size[a] + size[b]) for a, b in pairs) + 2 * size[long]
    assert score.cost["tokens"] == expected
    forward = load("bartscore", variant="likelihood", model=bart, direction="reference->prediction")
    assert forward.compute([long], [["Rain", "Snow"]]).counts["truncated"] == 1
    assert forward.keys == ("bartscore",)
    assert metric.keys == ("bartscore", "bartscore_precision", "bartscore_recall")


def test_likelihoods_are_the_same_in_any_batch_and_budgets_are_kept(bart, monkeypatch):
    from summarily.metrics.bartscore.likelihood import LikelihoodModel

    texts = tiny.texts()[:8]
    pairs = [(source, target) for source in texts[:4] for target in texts[4:]]
    predictions, sources = [target for _, target in pairs], [source for source, _ in pairs]
    shapes = []
    original = LikelihoodModel._pad

    def pad(self, given):
        shapes.append((len(given), max(len(text.ids) for text in given)))
        return original(self, given)

    monkeypatch.setattr(LikelihoodModel, "_pad", pad)
    found = {}
    for budget in (1, 40, 100_000):
        shapes.clear()
        options = {"variant": "likelihood", "model": bart, "direction": "source->prediction"}
        score = load("bartscore", **options, token_budget=budget).compute(predictions, predictions, sources)
        found[budget] = score.per_example["bartscore"]
        assert all(rows == 1 or rows * width <= budget for rows, width in shapes)
    assert shapes == [(4, shapes[0][1]), (16, shapes[1][1])], "all at once, if there is room"
    for budget in (1, 40):
        assert found[budget] == pytest.approx(found[100_000], abs=1e-5)
    assert found[1] == pytest.approx([by_hand(bart, *pair) for pair in pairs], abs=1e-5)


def test_the_signature_says_what_ran(bart):
    def text(**options):
        return str(load("bartscore", model=bart, **options).signature())

    assert "|variant:embedding|" in text() and "|idf:no|" in text() and "|refs:max|truncation:64|" in text()
    assert "|layer:2|" in text(layer=2) and "|side:encoder|layer:3|" in text(side="encoder", layer=3)
    likely = text(variant="likelihood", dtype="bfloat16", max_length=9, multi_reference="best")
    assert "|variant:likelihood|" in likely and "|direction:f|" in likely
    assert "|refs:best|truncation:9|dtype:bfloat16|" in likely and "dtype" not in text()


def test_an_explanation_takes_one_reference_or_several(bart):
    metric = load("bartscore", model=bart)
    one, several = metric.explain("Snow fell.", "Rain."), metric.explain("Snow fell.", ["Rain.", "Snow."])
    assert [part.reference for part in one.alignments] == [0] and one.references == ("Rain.",)
    assert [part.reference for part in several.alignments] == [0, 1] and one.prediction == "Snow fell."
    score = metric.compute(["Snow fell."], [["Rain.", "Snow."]])
    assert several.values["bartscore"] == pytest.approx(float(score), abs=1e-5)
    told = load("bartscore", model=bart, variant="likelihood").explain("Snow fell.", ["Rain.", "Snow."])
    directions = [(part.given, part.text) for part in told.texts]
    assert directions == [
        ("Rain.", "Snow fell."),
        ("Snow.", "Snow fell."),
        ("Snow fell.", "Rain."),
        ("Snow fell.", "Snow."),
    ]
    assert told.values["bartscore_precision"] == pytest.approx(
        max(by_hand(bart, text, "Snow fell.") for text in ("Rain.", "Snow.")), abs=1e-5
    )


# --- the light preset -----------------------------------------------------------------------------------------

# Invented: a reference, what a summary could say instead, and a summary of something else.
MEANINGS = [
    ("Snow closed the airport in Oslo.", "The airport in Oslo was closed by snow.", "Shares fell on Friday."),
    ("The company raised its dividend.", "The firm raised its dividend.", "A storm hit the coast on Monday."),
    ("Police arrested two men in London.", "Two men were arrested in London.", "The model has six layers."),
]


@pytest.fixture(scope="module", params=["embedding", "likelihood"])
def light(request):
    metric = load("bartscore", variant=request.param)
    metric.check()
    return metric


def test_the_light_preset_is_the_pinned_t5_and_its_signature_says_so(light):
    signature = str(light.signature())
    assert light.model == "flan-t5-small" and "truncation:512" in signature
    assert f"model:{weights.resolve('flan-t5-small').identity}|" in signature
    chosen = {
        "embedding": "side:encoder|layer:7|score:recall",
        "likelihood": "direction:prediction->reference",
    }
    assert chosen[light.variant] in signature


def test_a_model_of_your_own_gets_the_defaults_of_the_papers(bart):
    own = str(load("bartscore", model=bart).signature())
    assert "side:decoder|" in own and "score:f|" in own
    likely = load("bartscore", model=bart, variant="likelihood")
    assert "direction:f|" in str(likely.signature())


@pytest.mark.parametrize("score", ["f", "precision", "recall"])
def test_the_score_is_the_value_that_was_asked_for(bart, score):
    metric = load("bartscore", model=bart, score=score)
    values = metric.compute(["Snow fell in Oslo."], ["Oslo had snow on Monday."]).mean
    precision, recall = values["bartscore_precision"], values["bartscore_recall"]
    f = 2 * precision * recall / (precision + recall)
    assert values["bartscore"] == pytest.approx({"f": f, "precision": precision, "recall": recall}[score])
    assert len({f, precision, recall}) == 3


def test_both_papers_are_cited():
    assert "Gaskell" in load("bartscore").citation and "Yuan" in load("bartscore").citation


def test_the_light_preset_prefers_what_says_the_same(light):
    references, same, others = (list(column) for column in zip(*MEANINGS, strict=True))
    scores = light.compute([*references, *same, *others], references * 3).per_example["bartscore"]
    for copy, better, worse in zip(scores[:3], scores[3:6], scores[6:], strict=True):
        assert copy > better > worse


def test_the_light_preset_ranks_the_systems_of_the_sample(light):
    from summarily.support.sample import SYSTEMS, load_sample

    rows = load_sample()[:12]
    means = [
        light.compute([row[system] for row in rows], [row["references"] for row in rows]).mean["bartscore"]
        for system in SYSTEMS
    ]
    assert means == sorted(means, reverse=True)


def test_all_metrics_run():
    import summarily
    from summarily.metrics import METRICS

    card = summarily.score(["a cat"], ["the cat"], metrics="all")
    assert list(card) == list(METRICS) and not card.skipped
