"""BERTScore equals the bert_score package, on tiny random checkpoints and on MiniLM."""

from __future__ import annotations

import gzip
import json
import math
import warnings
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import bert_score
import pytest
import torch
import transformers

from summarily.metrics import InputError, MissingRequirement, load
from summarily.metrics.bertscore.baseline import find_baseline, main, read_baseline
from summarily.metrics.bertscore.frequencies import find_frequencies
from summarily.metrics.bertscore.frequencies import main as count_frequencies
from summarily.metrics.encoding.layers import LAYERS, default_layer
from summarily.support import weights
from tests.metrics import tiny


def pairs():
    texts = tiny.texts()
    references = texts[7:] + texts[:7]
    return texts, references


def build_inputs_with_special_tokens(tokenizer, ids):
    """bert_score calls this for empty texts; transformers 5 has removed it."""
    around = tokenizer.encode("a")
    inside = tokenizer.encode("a", add_special_tokens=False)
    start = around.index(inside[0])
    return around[:start] + list(ids) + around[start + len(inside) :]


@pytest.fixture(autouse=True)
def bert_score_runs_on_transformers_5(monkeypatch):
    monkeypatch.setattr(
        transformers.PreTrainedTokenizerBase,
        "build_inputs_with_special_tokens",
        build_inputs_with_special_tokens,
        raising=False,
    )


def theirs(model, layer, predictions, references, idf=False, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scorer = bert_score.BERTScorer(
            model_type=model, num_layers=layer, idf=idf, idf_sents=references if idf else None,
            device="cpu", nthreads=0, batch_size=16, **options,
        )  # fmt: skip
        return [column.tolist() for column in scorer.score(predictions, references)]


def ours(model, layer, predictions, references, **options):
    score = load("bertscore", model=model, layer=layer, **options).compute(predictions, references)
    return [score.per_example[key] for key in ("bertscore_precision", "bertscore_recall", "bertscore")]


def assert_equal(mine, other):
    for a, b in zip(mine, other, strict=True):
        assert a == pytest.approx(b, abs=1e-5, rel=0)
    assert len(set(mine[2])) > len(mine[2]) // 2, "constant scores would compare nothing"


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("layer", [1, 5, 6])
@pytest.mark.parametrize("kind", ["bert", "roberta", "bart", "deberta", "distilbert"])
def test_equals_bert_score_on_tiny_checkpoints(kind, layer, idf):
    model = tiny.checkpoint(kind)
    predictions, references = pairs()
    assert_equal(
        ours(model, layer, predictions, references, idf=idf),
        theirs(model, layer, predictions, references, idf),
    )


def test_equals_bert_score_on_a_tiny_t5():
    # Without idf, bert_score leaves </s> its weight in a T5, because a T5 has no [CLS] and [SEP].
    model = tiny.checkpoint("t5")
    assert "t5" in model
    predictions, references = pairs()
    longer = [(p, r) for p, r in zip(predictions, references, strict=True) if len(p) > 1 and len(r) > 1]
    predictions, references = ([pair[side] for pair in longer] for side in (0, 1))
    for layer in (2, 6):
        assert_equal(
            ours(model, layer, predictions, references), theirs(model, layer, predictions, references)
        )


@pytest.mark.parametrize("idf", [False, True])
def test_equals_bert_score_with_minilm(idf):
    model = weights.resolve("minilm").path_or_id
    predictions, references = pairs()
    assert_equal(
        ours("minilm", 5, predictions, references, idf=idf), theirs(model, 5, predictions, references, idf)
    )


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("kind", ["bert", "roberta", "bart"])
def test_empty_texts_score_as_in_bert_score(kind, idf):
    model = tiny.checkpoint(kind)
    predictions = ["", "Snow fell.", "", "  ", "Snow fell in Oslo.", "A dog barked."]
    references = ["Snow fell.", "", "", "Rain.", "Snow fell.", "The dog slept."]
    mine = ours(model, 4, predictions, references, idf=idf)
    assert all(column[:4] == [0.0] * 4 for column in mine)
    for a, b in zip(mine, theirs(model, 4, predictions, references, idf), strict=True):
        assert a == pytest.approx(b, abs=1e-5, rel=0)


@pytest.mark.parametrize("idf", [False, True])
def test_several_references_give_the_maximum_of_each_value_as_in_bert_score(idf):
    model = tiny.checkpoint("bert")
    texts = tiny.texts()
    predictions = texts[:12]
    references = [texts[i + 3 : i + 4 + i % 3] for i in range(12)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = bert_score.score(
            predictions, references, model_type=model, num_layers=5, idf=idf, device="cpu", nthreads=0
        )
    assert_equal(ours(model, 5, predictions, references, idf=idf), [column.tolist() for column in other])


def test_best_takes_all_values_from_one_reference_and_mean_averages():
    def values(references, **options):
        return [column[0] for column in ours("minilm", 5, ["Snow fell"], [references], **options)]

    references = ["Snow fell in Oslo, and trains stood still for hours on Monday.", "Snow"]
    first, second = (values([reference]) for reference in references)
    assert first[0] > second[0] and first[1] < second[1], "P and R disagree, or the rules could not differ"
    best = max(first, second, key=lambda each: each[2])
    assert values(references, multi_reference="best") == pytest.approx(best, abs=1e-5)
    largest = [max(pair) for pair in zip(first, second, strict=True)]
    assert values(references, multi_reference="max") == pytest.approx(largest, abs=1e-5)
    mean = [sum(pair) / 2 for pair in zip(first, second, strict=True)]
    assert values(references, multi_reference="mean") == pytest.approx(mean, abs=1e-5)


def test_unsmoothed_idf_is_the_formula_of_the_thesis():
    # Eq. 2.27: idf(w) = -log(df / N). Three references, "snow" in two of them, "fell" in all.
    metric = load("bertscore", idf="unsmoothed")
    references = ["snow fell", "snow fell slowly", "rain fell"]
    idf = metric.statistics(metric.state(references, references).examples)
    tokenizer = metric.reading.encoder.tokenizer
    snow, fell, slowly, cls = tokenizer.convert_tokens_to_ids(["snow", "fell", "slowly", "[CLS]"])
    assert idf(snow) == pytest.approx(0.405465, abs=1e-6)  # log(3 / 2)
    assert idf(fell) == idf(cls) == 0
    assert idf(slowly) == pytest.approx(1.098612, abs=1e-6)  # log(3)
    (storm,) = tokenizer.convert_tokens_to_ids(["storm"])
    assert idf(storm) == pytest.approx(1.098612, abs=1e-6), "as if one reference had it"


def test_smoothed_idf_counts_a_token_that_no_reference_has():
    metric = load("bertscore", idf=True)
    references = ["snow fell", "snow fell slowly", "rain fell"]
    idf = metric.statistics(metric.state(references, references).examples)
    found = map(
        idf, metric.reading.encoder.tokenizer.convert_tokens_to_ids(["storm", "slowly", "snow", "fell"])
    )
    assert list(found) == pytest.approx([math.log(4 / 1), math.log(4 / 2), math.log(4 / 3), 0.0])


def test_idf_of_another_corpus_has_another_signature_and_the_numbers_follow():
    metric = load("bertscore", idf=True)
    first = metric.compute(["snow fell", "a dog barked"], ["snow fell down", "the dog slept"])
    second = metric.compute(["snow fell", "a dog barked"], ["snow fell down", "snow and a dog"])
    assert first.signature != second.signature
    assert first.per_example["bertscore"][0] != second.per_example["bertscore"][0]


def test_idf_of_one_reference_weighs_nothing_and_is_not_nan():
    score = load("bertscore", idf=True).compute(["snow fell"], ["snow fell"])
    assert score.mean == {"bertscore": 0.0, "bertscore_precision": 0.0, "bertscore_recall": 0.0}


def test_rescaling_reads_the_format_of_bert_score(tmp_path):
    model = tiny.checkpoint("bert")
    file = tmp_path / "baseline.tsv"
    file.write_text("LAYER,P,R,F\n" + "".join(f"{i},0.{i}1,0.{i}2,0.{i}3\n" for i in range(7)))
    predictions, references = pairs()
    mine = ours(model, 4, predictions, references, rescale=str(file))
    other = theirs(
        model, 4, predictions, references, rescale_with_baseline=True, baseline_path=str(file), lang="en"
    )
    for a, b in zip(mine, other, strict=True):
        assert a == pytest.approx(b, abs=2e-5, rel=0)


def test_the_baseline_command_writes_what_random_pairs_score(tmp_path):
    lines = [text for text in tiny.texts() if len(text.split()) > 3]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    model = tiny.checkpoint("bert")
    output = tmp_path / "out.tsv"
    main([model, "--texts", str(tmp_path / "texts.txt"), "--pairs", "30", "--output", str(output)])
    baseline = read_baseline(output)
    assert sorted(baseline.layers) == list(range(7))
    header = output.read_text()
    assert "# pairs: 30, seed 0" in header and "SHA-256" in header
    import random

    drawn = random.Random(0)
    chosen = [drawn.sample(sorted({line.strip() for line in lines}), 2) for _ in range(30)]
    raw = ours(model, 5, [a for a, _ in chosen], [b for _, b in chosen])
    assert list(baseline.at(5)) == pytest.approx([sum(column) / 30 for column in raw], abs=1e-5)
    rescaled = ours(model, 5, [a for a, _ in chosen], [b for _, b in chosen], rescale=str(output))
    assert [sum(column) / 30 for column in rescaled] == pytest.approx([0, 0, 0], abs=1e-5)


def test_the_shipped_baseline_is_of_the_pinned_weights():
    from summarily.metrics.bertscore import baseline

    text = (baseline._FOLDER / "baseline_minilm.tsv").read_text()
    assert f"# model: {weights.resolve('minilm').identity}\n" in text
    shipped = find_baseline("minilm", True)
    assert sorted(shipped.layers) == list(range(7))
    score = load("bertscore", rescale=True).compute(
        ["Snow fell in Oslo on Monday."], ["The bank raised its interest rates again."]
    )
    assert abs(score.mean["bertscore"]) < 0.25, "unrelated texts score about 0 after rescaling"
    same = load("bertscore", rescale=True).compute(["Snow fell."], ["Snow fell."])
    assert same.mean["bertscore"] == pytest.approx(1, abs=1e-5)


def test_a_model_without_baseline_says_how_to_compute_one():
    with pytest.raises(
        MissingRequirement, match=r"python -m summarily.metrics.bertscore.baseline .* --texts"
    ):
        load("bertscore", model=tiny.checkpoint("bert"), rescale=True).check()


def test_paper_preset_names_its_model_when_it_cannot_be_had():
    with pytest.raises(MissingRequirement, match=r"roberta-large-mnli.*model="):
        load("bertscore", preset="paper").check()


def test_a_model_of_ones_own_keeps_the_rest_of_the_preset():
    signature = str(load("bertscore", preset="paper", model="minilm").signature())
    assert "rescale:minilm@" in signature and "prefix-space" in signature
    with pytest.raises(MissingRequirement, match="rescale=False does without"):
        load("bertscore", preset="paper", model=tiny.checkpoint("bert")).check()
    load("bertscore", preset="paper", model=tiny.checkpoint("bert"), rescale=False).check()


def test_the_baselines_of_an_installed_bert_score_are_found(monkeypatch):
    table = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / "roberta-large-mnli.tsv"
    layer, *_, f = table.read_text().splitlines()[20].split(",")
    assert find_baseline("FacebookAI/roberta-large-mnli", True).at(int(layer)).f == float(f)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingRequirement, match="pip install bert-score"):
        find_baseline("FacebookAI/roberta-large-mnli", True)


@pytest.mark.parametrize("side", ["prediction", "reference"])
def test_long_texts_are_cut_where_bert_score_cuts_them_and_counted(side):
    model = tiny.checkpoint("bert")
    long_text = " ".join(tiny.texts() * 3)
    pair = ([long_text], ["Snow fell."]) if side == "prediction" else (["Snow fell."], [long_text])
    score = load("bertscore", model=model, layer=5).compute(*pair)
    assert score.counts["truncated"] == 1
    assert score.per_example["bertscore"] == pytest.approx(theirs(model, 5, *pair)[2], abs=1e-5)


def test_explanation_adds_up_to_the_score():
    score = load("bertscore", idf=True).compute(
        ["Snow fell in Oslo.", "A dog barked."], ["Oslo had snow.", "The dog slept all day."]
    )
    explanation = score.explain(1)
    assert explanation.values["bertscore"] == pytest.approx(score.per_example["bertscore"][1])
    for side in ("precision", "recall"):
        tokens = getattr(explanation.alignments[0], side)
        total = sum(token.similarity * token.weight for token in tokens)
        assert total == pytest.approx(score.per_example[f"bertscore_{side}"][1], abs=1e-5)
    matches = {token.token: token.match for token in explanation.alignments[0].precision}
    assert matches["dog"] == "dog"


def test_signature_tells_what_ran():
    signature = str(load("bertscore", prefix_space=True).signature())
    identity = weights.resolve("minilm").identity
    for part in (f"model:{identity}", "layer:5", "BertTokenizer-fast-prefix-space", "idf:fixed@", "refs:max"):
        assert part in signature


def test_options_are_checked():
    for option, value in (
        ("idf", "sources"), ("multi_reference", "min"), ("dtype", "int8"), ("layer", 9), ("max_length", 600),
    ):  # fmt: skip
        with pytest.raises(InputError, match=str(value)):
            load("bertscore", **{option: value}).compute(["a"], ["b"])


def test_half_precision_is_close_and_named():
    whole = load("bertscore").compute(["Snow fell in Oslo."], ["Oslo had snow."])
    half = load("bertscore", dtype="bfloat16").compute(["Snow fell in Oslo."], ["Oslo had snow."])
    assert "dtype:bfloat16" in str(half.signature)
    assert float(half) == pytest.approx(float(whole), abs=0.02)
    assert float(half) != float(whole)


def test_scores_are_those_of_matching_by_hand():
    """The definition, token by token, for one pair."""
    metric = load("bertscore", idf=False)
    p, r = metric.reading.encoder.encode(["Snow fell.", "Rain fell in Oslo."], [5])
    p_vectors = [v / v.norm() for v in p.states[5]]
    r_vectors = [v / v.norm() for v in r.states[5]]
    best_p = [max(float(torch.dot(v, w)) for w in r_vectors) for v in p_vectors][1:-1]
    best_r = [max(float(torch.dot(v, w)) for w in p_vectors) for v in r_vectors][1:-1]
    precision, recall = sum(best_p) / len(best_p), sum(best_r) / len(best_r)
    score = metric.compute(["Snow fell."], ["Rain fell in Oslo."])
    assert score.mean["bertscore_precision"] == pytest.approx(precision, abs=1e-5)
    assert score.mean["bertscore"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-5)


def test_layers_are_those_that_bert_score_has_tuned():
    from bert_score.utils import model2layers

    tuned = {name.rsplit("/", 1)[-1]: layer for name, layer in model2layers.items()}
    assert {name: tuned[name] for name in LAYERS if name != "minilm"} | {"minilm": 5} == LAYERS
    twelve = SimpleNamespace(num_layers=12)
    for model, layer in (
        ("facebook/bart-large-mnli", 11),
        ("minilm", 5),
        (Path("/weights/roberta-large"), 17),
    ):
        assert default_layer(model, twelve) == layer
    assert [default_layer("any", SimpleNamespace(num_layers=n)) for n in (1, 2, 6, 12, 24)] == [
        1,
        2,
        5,
        10,
        20,
    ]


def test_the_signature_has_every_option():
    signature = str(load("bertscore", multi_reference="best", max_length=40, dtype="bfloat16").signature())
    digest = load("bertscore").fixed.digest
    assert f"|idf:fixed@{digest}|rescale:no|refs:best|truncation:40|dtype:bfloat16|" in signature
    for other in ({"rescale": True}, {"model": tiny.checkpoint("bert")}, {"idf": False}):
        assert "|idf:no|" in str(load("bertscore", **other).signature()), "baselines are of unweighted tokens"
    plain = str(load("bertscore", idf=True).signature())
    assert "|idf:references|" in plain and "dtype" not in plain and "prefix-space" not in plain
    assert "|layer:3|" in str(load("bertscore", layer=3).signature())
    counted = str(load("bertscore", idf="unsmoothed").compute(["a", "b"], ["a", "c"]).signature)
    assert "|idf:unsmoothed@" in counted


def test_scripts_for_the_module_of_evaluate_run_unchanged():
    """evaluate's own module is bert_score behind these names."""
    from summarily.metrics.bertscore.bertscore import Bertscore as Module

    predictions, references = (column[:8] for column in pairs())
    model = tiny.checkpoint("roberta")
    result = Module().compute(
        predictions=predictions, references=references, model_type=model, num_layers=3, idf=True, lang="en",
        device="cpu", batch_size=4, verbose=False,
    )  # fmt: skip
    other = theirs(model, 3, predictions, references, idf=True)
    assert_equal([result["precision"], result["recall"], result["f1"]], other)
    assert result["hashcode"] == result["signature"]


def test_a_language_is_the_model_that_bert_score_takes_for_it():
    from summarily.metrics.bertscore.bertscore import Bertscore as Module

    for language in ("en", "zh", "tr", "en-sci", "no"):
        name = Module().translated({"lang": language})["model"]
        assert name.rsplit("/", 1)[-1] == bert_score.utils.lang2model[language].rsplit("/", 1)[-1]
    with pytest.raises(InputError, match="all_layers"):
        Module().translated({"all_layers": True})


# --- fixed idf ---


def test_fixed_idf_is_the_formula_on_counts_that_ship():
    kept = json.loads(gzip.decompress(find_frequencies("minilm").read_bytes()))
    metric = load("bertscore", idf="fixed")
    tokenizer = metric.reading.encoder.tokenizer
    snow, the, cls = tokenizer.convert_tokens_to_ids(["snow", "the", "[CLS]"])
    assert kept["counts"][cls] == kept["documents"] == 80_000 and len(kept["counts"]) == len(tokenizer)
    assert metric.fixed(snow) == math.log(80_001 / (kept["counts"][snow] + 1)) > 4
    assert 0 < metric.fixed(the) < 0.5 and metric.fixed(cls) == 0


def test_fixed_idf_scores_a_pair_alone_as_in_any_corpus_and_equals_bert_score_with_its_weights():
    predictions, references = pairs()
    metric = load("bertscore", idf="fixed")
    whole = metric.compute(predictions, references)
    alone = metric.compute(predictions[3:4], references[3:4])
    assert alone.mean["bertscore_recall"] == pytest.approx(whole.per_example["bertscore_recall"][3], abs=1e-6)
    assert alone.signature == whole.signature == metric.signature()
    assert f"|idf:fixed@{metric.fixed.digest}|" in str(alone.signature)
    assert not metric.counts_corpus and metric.explain("Snow fell.", "Snow fell.").values["bertscore"] > 0.99
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scorer = bert_score.BERTScorer(
            model_type=weights.resolve("minilm").path_or_id, num_layers=5, device="cpu", nthreads=0
        )
        scorer._idf, scorer._idf_dict = True, defaultdict(lambda: math.log(80_001))
        scorer._idf_dict |= {token: metric.fixed(token) for token in range(30_522)}
        other = [column.tolist() for column in scorer.score(predictions, references)]
    assert_equal([whole.per_example[f"bertscore{part}"] for part in ("_precision", "_recall", "")], other)


def test_a_table_of_frequencies_is_counted_from_files_and_is_of_one_tokenizer(tmp_path, capsys):
    texts, output = tmp_path / "texts.jsonl", tmp_path / "own.json.gz"
    rows = [{"text": ["snow", "fell"]}, {"text": ["snow melts"]}, {"text": ["rain fell"]}]
    texts.write_text("\n".join(map(json.dumps, rows)))
    count_frequencies(["minilm", "--texts", str(texts), "--column", "text", "--output", str(output)])
    assert "3 documents" in capsys.readouterr().out
    metric = load("bertscore", idf=str(output))
    snow, rain = metric.reading.encoder.tokenizer.convert_tokens_to_ids(["snow", "rain"])
    assert metric.fixed(snow) == math.log(4 / 3) and metric.fixed(rain) == math.log(4 / 2)
    with pytest.raises(InputError, match="another tokenizer"):
        load("bertscore", model=tiny.checkpoint("roberta"), idf=str(output)).compute(["a"], ["b"])
    with pytest.raises(MissingRequirement, match=r"frequencies .*--texts"):
        load("bertscore", model="FacebookAI/roberta-large", idf="fixed")
    with pytest.raises(InputError, match="is not a file; expected True"):
        load("bertscore", idf="rare")
    output.write_bytes(b"no table")
    with pytest.raises(InputError, match="is not a file of frequencies"):
        load("bertscore", idf=output).compute(["a"], ["b"])
