"""The studies, on the bundled sample and on made-up scores."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from summarily.metrics import load
from summarily.metrics.base import Example, Score, Signature, make_examples
from summarily.metrics.engine import score_examples
from summarily.metrics.meta_evaluation import (
    benchmark,
    corruption,
    everything,
    holdout,
    paraphrase,
    profiling,
    sweep,
)
from summarily.metrics.meta_evaluation.agreement import analyse, remarks, score_judgements, tied_pairs
from summarily.metrics.meta_evaluation.correlation import correlate
from summarily.metrics.meta_evaluation.disagreement import Reading, disagreements, places
from summarily.metrics.meta_evaluation.human import Judgements
from summarily.metrics.meta_evaluation.recommendation import rank_by_people, recommend
from summarily.metrics.meta_evaluation.scores import (
    FirstReferences,
    Scored,
    ScoreStore,
    choose_metrics,
    load_results,
    merged,
    reported,
    save_result,
    significant,
)
from summarily.metrics.meta_evaluation.thesis import thesis_tables
from summarily.support.errors import InputError
from summarily.support.keys import Key
from summarily.support.sample import SYSTEMS, load_sample
from tests.metrics import tiny

ROUGE = {"rouge": load("rouge")}


def judged_sample(rows=8) -> Judgements:
    """Three systems of the sample; people are sure of the broken one and not of the others."""
    result = Judgements("sample", "overall")
    for i, row in enumerate(load_sample()[:rows]):
        for system, human in zip(SYSTEMS, (3 - i % 2, 2, 1), strict=True):
            result.add(row[system], row["references"], human, str(i), system, row["source"])
    return result


def scored(columns, human, inputs=None, systems=None) -> Scored:
    n = len(human)
    systems = systems or [0] * n
    names = [f"s{i}" for i in range(max(systems) + 1)]
    return Scored("made up", {"overall": human}, columns, inputs or list(range(n)), systems, names, {})


# --- scores that are kept -------------------------------------------------------------------------------------


class TestScoreStore:
    examples = make_examples(["a cat sat", "a dog", "a cat sat"], ["the cat sat", "the dog", "the cat sat"])

    def test_scores_are_found_again_and_equal_those_computed(self, tmp_path):
        metrics = {"rouge": load("rouge"), "mover": load("moverscore", model=tiny.checkpoint("bert"))}
        expected = score_examples(metrics, self.examples)
        first = ScoreStore(tmp_path / "scores").score(metrics, self.examples)
        again = ScoreStore(tmp_path / "scores")
        second = again.score(metrics, self.examples)
        for label in metrics:
            for key, values in expected[label].per_example.items():
                assert first[label].per_example[key] == pytest.approx(values, abs=1e-5)
            assert second[label].per_example == first[label].per_example
            assert second[label].signature == expected[label].signature
        assert again.computed == {}

    def test_equal_contents_are_computed_once(self):
        store = ScoreStore()
        store.score(ROUGE, self.examples)
        assert store.computed == {"rouge": 2}

    def test_another_text_reference_source_or_option_is_another_score(self):
        store = ScoreStore()
        store.score(ROUGE, self.examples)
        for example in (
            Example("a cat sit", ("the cat sat",)),
            Example("a cat sat", ("the cat sat", "a cat")),
            Example("a cat sat", ("the cat sat",), "source"),
        ):
            store.score(ROUGE, [example])
        assert store.computed["rouge"] == 2 + 3
        stemmed = store.score({"rouge": load("rouge", stemmer=True)}, self.examples)
        assert store.computed["rouge"] == 2 + 3 + 2
        assert "stemmer:yes" in str(stemmed["rouge"].signature)

    def test_another_corpus_statistic_is_another_score(self):
        metric = {"m": load("moverscore", model=tiny.checkpoint("bert"), idf=True)}
        store = ScoreStore()
        store.score(metric, self.examples)
        more = [*self.examples, *make_examples(["snow fell today"], ["snow fell"])]
        found = store.score(metric, more)["m"]
        assert store.computed == {"m": 2 + 3}, "idf of more texts changes every score"
        assert found.per_example["moverscore"] == pytest.approx(
            score_examples(metric, more)["m"].per_example["moverscore"], abs=1e-5
        )

    def test_only_what_is_missing_is_computed(self):
        store = ScoreStore()
        store.score(ROUGE, self.examples[:1])
        found = store.score({"rouge": ROUGE["rouge"], "again": load("rouge", stemmer=True)}, self.examples)
        assert store.computed == {"rouge": 1 + 1, "again": 2}
        assert (
            found["rouge"].per_example["rouge1"]
            == score_examples(ROUGE, self.examples)["rouge"].per_example["rouge1"]
        )

    def test_another_file_is_refused(self, tmp_path):
        file = tmp_path / "text.txt"
        file.write_text("this is not a database, but it is long enough to be looked at " * 20)
        with pytest.raises(InputError, match="not a file of scores"):
            ScoreStore(file)


def test_examples_without_weight_have_no_score():
    score = Score("apes", {"apes": [50.0, 0.0]}, Signature("apes"), weights=[2.0, 0.0])
    column = reported({"apes": score})["apes"]
    assert column[0] == 50 and math.isnan(column[1])


def test_of_every_reported_column_more_is_better():
    key = Key("errors", higher_is_better=False)
    column = reported({"errors": Score("errors", {key: [3.0, 1.0]}, Signature("errors"))})
    assert list(column) == ["-errors"] and column["-errors"].tolist() == [-3.0, -1.0]


def test_metrics_are_chosen_with_options():
    metrics, skipped = choose_metrics("rouge(stemmer=true), wms(embeddings=contextual, multi_reference=mean)")
    assert not skipped and "stemmer:yes" in str(metrics["rouge(stemmer=true)"].signature())
    with pytest.raises(InputError, match=r"expected NAME\(OPTION=VALUE\)"):
        choose_metrics("rouge(stemmer)")
    with pytest.raises(InputError, match="not closed"):
        choose_metrics("rouge(stemmer=1")
    with pytest.raises(InputError, match="no metric 'rogue'"):
        choose_metrics("rogue")


def test_kept_results_come_back_with_their_gaps(tmp_path):
    kept = scored({"a": [1.0, math.nan, 3.0]}, [1.0, 2.0, 3.0])
    first = save_result(tmp_path, "human", "x", kept).read_bytes()
    assert save_result(tmp_path, "human", "x", kept).read_bytes() == first
    back = load_results(tmp_path)["human"]["x"]
    assert back.columns["a"][2] == 3 and math.isnan(back.columns["a"][1]) and back.human == kept.human
    with pytest.raises(InputError, match="no stored results"):
        load_results(tmp_path / "empty")


# --- agreement ----------------------------------------------------------------------------------------------


def test_agreement_is_the_correlation_with_people_at_every_level():
    judgements = judged_sample()
    found = score_judgements([judgements], ROUGE)
    study = analyse(found, resamples=50, permutations=50)
    values = score_examples(ROUGE, make_examples(judgements.summaries, judgements.references))["rouge"]
    row = next(row for row in study.rows if row.label == "rouge2")
    for level in ("pooled", "input", "system"):
        expected = correlate(
            significant(values.per_example["rouge2"]),  # what is kept; near ties become ties
            judgements.human,
            level,
            "spearman",
            judgements.inputs,
            judgements.systems,
        ).value
        assert row.values[level]["spearman"] == pytest.approx(expected, abs=1e-9)
    low, high, _ = row.bounds["pooled"]
    assert low <= row.values["pooled"]["spearman"] <= high
    assert study.baseline == "rougeL" and study.resample == "inputs"
    assert math.isnan(next(row for row in study.rows if row.label == "rougeL").p_williams)


def test_p_values_are_corrected_for_the_number_of_metrics():
    generator = np.random.default_rng(0)
    human = generator.normal(size=60)
    columns = {name: list(human + generator.normal(size=60)) for name in "abcd"}
    study = analyse(
        scored(columns, list(human), [i // 4 for i in range(60)], [0, 1, 2, 3] * 15), resamples=20
    )
    for row in study.rows[1:]:
        assert row.p_williams_holm >= row.p_williams and row.p_permutation_holm >= row.p_permutation
    smallest = min(row.p_williams for row in study.rows[1:])
    assert min(row.p_williams_holm for row in study.rows[1:]) == pytest.approx(min(1, 3 * smallest))


def with_lengths(rows=240, seed=0) -> Scored:
    """People reward length and content alike; one metric counts words, another sees the content."""
    generator = np.random.default_rng(seed)
    length, content = generator.integers(5, 60, rows).astype(float), generator.normal(size=rows)
    human = length / 16 + content + 0.3 * generator.normal(size=rows)
    columns = {"counts": list(length + generator.normal(size=rows)), "sees": list(content)}
    kept = scored(columns, list(human), [i // 6 for i in range(rows)], list(range(6)) * (rows // 6))
    kept.controls = {"length alone": list(length), "repetition alone": [1.0] * rows}
    return kept


def test_what_a_metric_owes_to_length_is_told():
    kept = with_lengths()
    counts, sees, length, repetition = analyse(kept, resamples=100, permutations=9).rows
    value, bounds = counts.beyond_length["input"]
    assert counts.values["input"]["spearman"] > 0.5 and bounds.low < value < bounds.high
    assert bounds.low < 0 < bounds.high, "with length held fixed nothing is left of it"
    value, bounds = sees.beyond_length["input"]
    assert bounds.low > sees.values["input"]["spearman"], "the noise that length is to it has gone"
    by_hand = [
        correlate(a, b, "input", "spearman", list(map(str, kept.inputs))).value
        for a, b in (
            (kept.columns["sees"], kept.human["overall"]),
            (kept.columns["sees"], kept.controls["length alone"]),
            (kept.human["overall"], kept.controls["length alone"]),
        )
    ]
    xy, xz, yz = by_hand
    assert value == pytest.approx((xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2)), abs=1e-12)
    assert length.label == "length alone" and not length.beyond_length
    assert length.values["pooled"]["spearman"] == pytest.approx(
        correlate(kept.controls["length alone"], kept.human["overall"]).value
    )
    assert math.isnan(repetition.values["input"]["spearman"]), "a constant correlates with nothing"
    assert math.isnan(length.p_williams_holm), "what is no metric is not tested as one"


def test_lengths_are_of_the_summaries_and_stay_in_what_is_kept(tmp_path):
    judgements = judged_sample()
    found = score_judgements([judgements], ROUGE)
    assert found.controls["length alone"] == [float(len(text.split())) for text in judgements.summaries]
    save_result(tmp_path, "human", "x", found)
    assert load_results(tmp_path)["human"]["x"].controls == found.controls


def test_the_recommendation_names_the_best_beyond_length():
    kept = with_lengths()
    people = rank_by_people([(kept, "overall")], "input", "To choose:")
    assert people.best == "counts" and people.beyond_length.best == "sees"
    sentence = people.sentence({})
    assert "`sees` is first" in sentence and "`counts` has" in sentence and "told apart from it" in sentence
    kept.controls = {}
    assert rank_by_people([(kept, "overall")], "input", "To choose:").beyond_length is None


def test_missing_scores_are_left_out_of_that_metric_alone():
    human = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    columns = {"whole": [1.0, 2.0, 3.0, 4.0, 6.0, 5.0], "holes": [9.0, math.nan, 3.0, math.nan, 5.0, 6.0]}
    whole, holes = analyse(scored(columns, human), resamples=20, permutations=20).rows
    assert (whole.n, whole.missing, holes.n, holes.missing) == (6, 0, 4, 2)
    assert holes.values["pooled"]["spearman"] == pytest.approx(correlate([9, 3, 5, 6], [1, 3, 5, 6]).value)


def test_constant_scores_are_undefined_and_said_so():
    kept = scored(
        {"same": [1.0] * 6, "other": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]}, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    )
    same, _ = analyse(kept, baseline="other", resamples=20, permutations=20).rows
    assert math.isnan(same.values["pooled"]["pearson"]) and math.isnan(same.p_williams)
    assert any("All scores of same are the same" in text for text in remarks(kept))
    constant = scored({"other": kept.columns["other"]}, [2.0] * 6)
    assert math.isnan(analyse(constant, resamples=20).rows[0].values["pooled"]["kendall"])
    assert any("All human scores for overall are 2" in text for text in remarks(constant))


def test_one_system_has_no_system_level_and_is_told_which_to_read():
    kept = scored({"a": [1.0, 2.0, 3.0, 5.0]}, [1.0, 3.0, 2.0, 4.0])
    row = analyse(kept, resamples=20).rows[0]
    assert math.isnan(row.values["system"]["spearman"]) and math.isnan(row.values["input"]["spearman"])
    assert row.values["pooled"]["spearman"] == pytest.approx(0.8)
    assert "one system only" in remarks(kept)[0] and "one summary" in remarks(kept)[1]


def test_ties_within_an_input_are_counted():
    x = np.array([1.0, 1.0, 1.0, 2.0, 2.0])
    assert tied_pairs(x, ["a", "a", "a", "b", "c"], list("xyzxx")) == 3


def test_a_wrong_baseline_or_question_is_named():
    kept = scored({"a": [1.0, 2.0, 3.0]}, [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="baseline 'b' is not among the values: a"):
        analyse(kept, baseline="b")
    with pytest.raises(InputError, match="no question 'style'; there are: overall"):
        analyse(kept, "style")


# --- paraphrase ---------------------------------------------------------------------------------------------


def test_the_boundary_is_the_most_accurate_one():
    generator = np.random.default_rng(1)
    for _ in range(30):
        scores = np.round(generator.random(25), 1)  # with ties
        labels = (scores + 0.3 * generator.normal(size=25) > 0.5).astype(float)
        cut = paraphrase.boundary(scores, labels)
        best = max(((scores >= t) == labels).mean() for t in [*scores, math.inf])
        assert ((scores >= cut) == labels).mean() == best


def test_paraphrases_are_classified_on_the_half_that_was_not_learnt_from():
    generator = np.random.default_rng(2)
    labels = (np.arange(400) % 3 == 0).astype(float)
    perfect, noise = labels * 0.5 + 0.1, generator.random(400)
    first, second = paraphrase.analyse_pairs(
        scored_pairs({"perfect": perfect, "noise": noise}, labels), resamples=50
    )
    assert (first.accuracy, first.f1) == (1.0, 1.0) and first.correlations["pearson"] == pytest.approx(1)
    assert 0.1 < first.boundary < 0.6
    assert 0.5 < second.accuracy < 0.75 and abs(second.correlations["spearman"]) < 0.15
    assert second.bounds.low < 0 < second.bounds.high


def scored_pairs(columns, labels) -> Scored:
    n = len(labels)
    columns = {name: [float(v) for v in column] for name, column in columns.items()}
    return Scored(
        "pairs", {"label": [float(v) for v in labels]}, columns, list(range(n)), [0] * n, ["pairs"], {}
    )


def test_graded_labels_have_correlations_but_no_accuracy():
    (row,) = paraphrase.analyse_pairs(
        scored_pairs({"a": range(20)}, [i / 4 for i in range(20)]), resamples=20
    )
    assert row.correlations["spearman"] == pytest.approx(1) and math.isnan(row.accuracy)


def test_pairs_need_both_texts_and_a_label(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("question1,question2,is_duplicate\n" + "a,b,1\nc,d,\n" * 10)
    pairs = paraphrase.read_pairs(str(file), limit=9)
    assert len(pairs.labels) == 9 and pairs.dropped == 8
    file.write_text("question1,question2,is_duplicate\na,b,1\n")
    with pytest.raises(InputError, match="1 labelled pairs; at least 8"):
        paraphrase.read_pairs(str(file))


# --- corruption ---------------------------------------------------------------------------------------------

LONG = " ".join(f"word{i}" if i % 4 else "The end," for i in range(35))


def tiny_masked_language_model() -> str:
    import tempfile

    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.checkpoint("bert"))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=512,
    )  # fmt: skip
    folder = tempfile.mkdtemp(prefix="tiny-masked-")
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    return folder


class TestCorruption:
    def test_one_word_is_dropped_of_every_chunk_of_ten(self):
        tokens = LONG.split()
        (damaged,) = corruption.corrupt([LONG], "drop", seed=3)
        gone = len(tokens) - len(damaged.split())
        assert gone == math.ceil(len(tokens) / 10)
        remaining = iter(damaged.split())
        token = next(remaining)
        places = []
        for place, word in enumerate(tokens):
            if word == token:
                token = next(remaining, None)
            else:
                places.append(place)
        assert [place // 10 for place in places] == list(range(gone)), "one in each chunk"

    def test_a_swap_keeps_every_word(self):
        (damaged,) = corruption.corrupt([LONG], "swap", seed=1)
        before, after = LONG.split(), damaged.split()
        assert sorted(before) == sorted(after) and before != after
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 2 * math.ceil(len(before) / 10)

    def test_the_seed_decides(self):
        for kind in ("drop", "swap"):
            assert corruption.corrupt([LONG], kind, 0) == corruption.corrupt([LONG], kind, 0)
            assert corruption.corrupt([LONG], kind, 0) != corruption.corrupt([LONG], kind, 1)

    def test_damage_to_a_text_does_not_depend_on_those_after_it(self):
        assert corruption.corrupt([LONG, "a b c"], "drop")[0] == corruption.corrupt([LONG], "drop")[0]

    def test_what_cannot_be_damaged_stays(self):
        assert corruption.corrupt(["one", ""], "drop") == ["one", ""]
        assert corruption.corrupt(["a a a", "one"], "swap") == ["a a a", "one"]
        assert corruption.corrupt(["1 2 3"], "refill") == ["1 2 3"]

    def test_a_refilled_word_keeps_its_place_capital_and_punctuation(self):
        def refill(texts, places, seeds):
            pairs = zip(texts, places, strict=True)
            return [{place: corruption._put(tokens[place], "snow") for place in own} for tokens, own in pairs]

        (damaged,) = corruption.corrupt(['"Rain," (fell)'], "refill", 0, refill)
        assert damaged in ('"Snow," (fell)', '"Rain," (snow)')

    def test_the_dictionary_refills_with_a_near_word(self):
        text = "The president said that the economy would grow next year"
        (damaged,) = corruption.corrupt([text], "refill", 0)
        changed = [(a, b) for a, b in zip(text.split(), damaged.split(), strict=True) if a != b]
        assert len(changed) == 1 and changed[0][1].isalpha()
        assert corruption.corrupt([text], "refill", 0) == [damaged]

    def test_any_masked_language_model_refills(self):
        refill = corruption.masked_language_model(tiny_masked_language_model())
        texts = [row["source"] for row in load_sample()[:3]]
        damaged = corruption.corrupt(texts, "refill", 0, refill)
        for text, after in zip(texts, damaged, strict=True):
            before, after = text.split(), after.split()
            assert len(before) == len(after)
            changed = [place for place, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
            assert changed, "the word that was there is not an answer"
            assert len({place // 10 for place in changed}) == len(changed)
        assert corruption.corrupt(texts, "refill", 0, refill) == damaged

    def test_a_model_without_a_mask_is_refused(self):
        with pytest.raises(InputError, match="no mask token"):
            corruption.corrupt(
                ["a few words"], "refill", 0, corruption.masked_language_model(tiny.checkpoint("t5"))
            )

    def test_rouge_1_never_notices_a_swap(self):
        rows = load_sample()
        result = corruption.corruption_study(
            "sample",
            [row["good"] for row in rows],
            [row["references"][0] for row in rows],
            ROUGE,
            kinds=("drop", "swap"),
        )
        found = result["metrics"]
        for run in found["rouge1"]["swap"]:
            assert run == {"wins": 0, "ties": len(rows), "n": len(rows)}
        assert corruption.summary_of(found["rouge1"]["swap"])["accuracy"] == 0
        assert corruption.summary_of(found["rouge2"]["swap"])["accuracy"] > 30
        assert corruption.summary_of(found["rouge1"]["drop"])["accuracy"] > 30
        table = corruption.corruption_table(result)
        assert table.rows[0] == ["rouge1", *table.rows[0][1:4], "0.0", "0.0", "100.0"]

    def test_ties_lose(self):
        assert corruption.summary_of([{"wins": 3, "ties": 5, "n": 10}])["accuracy"] == 30

    def test_a_text_against_its_own_corruption_is_refused(self):
        with pytest.raises(InputError, match="row 1: the summary is its own reference"):
            corruption.corruption_study("x", ["a b", "c d"], ["e f", "c d"], ROUGE)

    def test_an_unknown_kind_is_named(self):
        with pytest.raises(InputError, match="no corruption 'shuffle'"):
            corruption.corrupt(["a"], "shuffle")


# --- systems, cost, encoders, disagreement ------------------------------------------------------------------


def test_systems_are_described_and_told_apart():
    rows = load_sample()
    outputs = benchmark.Outputs(
        "sample", [row["references"] for row in rows], {name: [row[name] for row in rows] for name in SYSTEMS}
    )
    result = benchmark.benchmark(outputs, ROUGE)
    expected = score_examples(ROUGE, make_examples(outputs.systems["good"], outputs.references))["rouge"]
    good = result["metrics"]["rouge1"]["systems"]["good"]
    assert good["mean"] == pytest.approx(expected.mean["rouge1"], rel=1e-5)
    assert good["deviation"] == pytest.approx(np.std(expected.per_example["rouge1"]), rel=1e-5)
    assert good["low"] < good["mean"] < good["high"]
    pair = next(
        p for p in result["metrics"]["rouge1"]["pairs"] if (p["first"], p["second"]) == ("good", "broken")
    )
    assert pair["difference"] > 0 and pair["p"] <= pair["p_holm"] < 0.05
    assert benchmark.benchmark_table(result).rows[0][1].endswith("*")


def test_one_system_is_no_benchmark(tmp_path):
    file = tmp_path / "outputs.csv"
    file.write_text("reference,A\nr,a\n")
    with pytest.raises(InputError, match=r"at least two systems.*reference, A"):
        benchmark.read_systems(str(file), systems=["A"])


def test_a_profile_is_measured_once_and_kept():
    store = ScoreStore()
    examples = make_examples(["a cat sat"] * 20, ["the cat sat"] * 20)
    first = profiling.profile(ROUGE, examples, store)
    cost = first["metrics"]["rouge"]
    assert (
        cost["seconds_per_1000"] > 0
        and cost["cpu_seconds_per_1000"] > 0
        and cost["peak_memory"] >= 0
        and first["n"] == 20
    )
    assert profiling.profile(ROUGE, examples, store) == first
    row = profiling.profile_table(first).rows[0]
    assert row[0] == "rouge" and float(row[1]) >= 0


def test_a_sweep_is_the_metric_at_every_layer():
    model = tiny.checkpoint("bert")
    judgements = judged_sample(5)
    found = sweep.sweep(judgements, "bertscore", [model], [2, -1])
    name = Path(model).name  # a folder elsewhere is nobody's business
    assert list(found.columns) == [
        f"{name} layer 2", f"{name} layer 2 bertscore",
        f"{name} layer -1", f"{name} layer -1 bertscore",
    ]  # fmt: skip
    expected = load("bertscore", model=model, layer=2).compute(judgements.summaries, judgements.references)
    for label, key in (("", "bertscore_recall"), (" bertscore", "bertscore")):
        column = found.columns[f"{name} layer 2{label}"]
        assert column == pytest.approx(expected.per_example[key], abs=1e-5)
    table = sweep.sweep_table(found, resamples=20)
    assert len(table.rows) == 4 and sum(row[0].endswith(" *") for row in table.rows) == 1
    with pytest.raises(InputError, match="layers 1 to 6, not 9"):
        sweep.variants("bertscore", [model], [9])
    with pytest.raises(InputError, match="rouge has no model to choose"):
        sweep.variants("rouge", [model])


def test_disagreement_is_of_ranks_not_of_scores():
    columns = {"a": [0.1, 0.2, 0.3, 0.4, 0.5], "b": [500.0, 100.0, 300.0, 400.0, 200.0]}
    groups = {group.title: group.rows for group in disagreements(columns, "a", "b", 0.2)}
    assert groups == {
        "high by a and b": [3],
        "low by a and b": [1],
        "high by a, low by b": [4],
        "low by a, high by b": [0],
    }
    assert len(disagreements(columns, "a", "b", 0.4)[0].rows) == 2


def test_examples_are_shown_with_the_quarter_of_each_score():
    columns = {"people": [0.0, 1.0, 2.0, 3.0], "sms": [3.0, 2.0, 1.0, math.nan]}
    reading = Reading(
        "t", disagreements({**columns, "sms": [3.0, 2.0, 1.0, 0.0]}, "people", "sms", 0.25), columns,
        [["<ref>"]] * 4, ["sum"] * 4, ["a", "b", "c", "d"],
    )  # fmt: skip
    assert reading.scores(0) == [("people", 0.0, "low"), ("sms", 3.0, "high")]
    assert reading.scores(3) == [("people", 3.0, "high")], "a score that is not there is not shown"
    assert "people 3.000 (high)" in reading.text()
    assert "&lt;ref&gt;" in reading.html() and "<span class='high'>people 3.000</span>" in reading.html()


def test_what_cannot_be_compared_is_named():
    columns = {"a": [1.0, 2.0, 3.0, 4.0], "b": [1.0, 2.0, math.nan, 4.0]}
    with pytest.raises(InputError, match="no scores of 'c'; there are: a, b"):
        disagreements(columns, "a", "c")
    with pytest.raises(InputError, match="share is 2"):
        disagreements(columns, "a", "a", 2)
    with pytest.raises(InputError, match="3 examples have both scores"):
        disagreements(columns, "a", "b")


def test_places_share_the_middle_of_a_tie():
    assert places([5.0, 5.0, 1.0, math.nan, 9.0]).tolist()[:3] == pytest.approx([0.5, 0.5, 0.0])


# --- the thesis' tables and the recommendation ------------------------------------------------------------------


def made_up_results():
    """Results in which one metric is plainly better than another."""
    generator = np.random.default_rng(0)
    human = generator.normal(size=160)
    columns = {
        "bertscore": human + 0.3 * generator.normal(size=160),
        "rouge1": human + 5 * generator.normal(size=160),
    }
    columns = {label: list(map(float, column)) for label, column in columns.items()}
    inputs, systems = [i // 10 for i in range(160)], [i % 10 for i in range(160)]
    kept = Scored(
        "chaganty_dev", {"overall": list(map(float, human))}, columns, inputs, systems, list("abcdefghij"), {}
    )
    runs = {
        label: [{"wins": wins, "ties": 0, "n": 100}] * 3
        for label, wins in (("bertscore", 95), ("rouge1", 50))
    }
    return {
        "human": {"chaganty_dev": kept},
        "paraphrase": {"quora_dev": scored_pairs(columns, human > 0)},
        "corruption": {
            "simcls": {"name": "simcls", "n": 100, "seeds": [0, 1, 2], "refill": "x", "unchanged": {},
                       "metrics": {label: dict.fromkeys(("drop", "swap", "refill"), own) for label, own in runs.items()}}
        },
        "profile": {
            "chaganty_dev": {"n": 10, "words": 5, "threads": 1, "metrics": {
                "bertscore": {"cpu_seconds_per_1000": 40.0, "load_seconds": 1.0, "peak_memory": 2**30},
                "rouge": {"cpu_seconds_per_1000": 0.5, "load_seconds": 0.1, "peak_memory": 2**20}}}
        },
    }  # fmt: skip


def test_the_recommendation_names_the_better_metric_its_interval_and_its_cost():
    text = recommend(made_up_results())
    lines = text.splitlines()
    assert lines[0].startswith("- **To choose between summaries of one article:** `bertscore`")
    assert "better than every other at 5%" in lines[0] and "40.0 CPU seconds" in lines[0]
    assert any("2 CPU seconds per 1,000 summaries at most:** `rouge1`" in line for line in lines)
    assert any("say the same:** `bertscore`" in line for line in lines)
    assert any("damaged text:** `bertscore`" in line and "0.950" in line for line in lines)
    assert text == recommend(made_up_results())


def test_metrics_that_cannot_be_told_apart_are_named_together():
    results = made_up_results()
    human = results["human"]["chaganty_dev"]
    noise = np.random.default_rng(1).normal(size=160)
    human.columns["twin"] = list(np.array(human.columns["bertscore"]) + 0.02 * noise)
    line = recommend({"human": results["human"]}).splitlines()[0]
    assert "not told apart from it at 5%: `" in line and "`rouge1`" not in line


def test_nothing_to_recommend_from_is_said():
    with pytest.raises(InputError, match="no results"):
        recommend({})


def test_our_numbers_stand_next_to_the_thesis():
    found = thesis_tables(made_up_results())
    assert found[0].title.endswith("pooled level") and found[0].header == ["metric", "chaganty_dev overall"]
    tables = {table.title[:9]: table for table in found[3:]}
    assert set(tables) == {"Table 6.3", "Table 6.4", "Table 6.5", "Table 7.1"}
    assert tables["Table 6.3"].rows[0][0] == "bertscore" and tables["Table 6.3"].rows[0][-3:] == [
        "0.298",
        "0.337",
        "0.263",
    ]
    assert tables["Table 6.5"].rows[0] == [
        "bertscore",
        "95.0 (0.0)",
        "95.0 (0.0)",
        "95.0 (0.0)",
        "92.9",
        "95.4",
        "97.8",
    ]
    assert tables["Table 7.1"].rows[1] == ["rouge", "0.5", "0.00", "12", "-"]


def test_every_study_runs_on_a_folder_of_the_published_sets(folder):
    kept = []
    plan = everything.Plan(
        ROUGE, ScoreStore(), {**everything.LIMITS, "profile": 2}, sweep_models=[tiny.checkpoint("bert")],
        keep=lambda kind, name, result: kept.append((kind, name)),
    )  # fmt: skip
    results = everything.run_on_folder(folder, plan)
    assert kept == [
        ("human", "chaganty_dev"),
        ("sweep", "bertscore.chaganty_dev"),
        ("profile", "chaganty_dev"),
        ("human", "summeval"),
        ("human", "realsumm"),
        ("paraphrase", "quora_dev"),
        ("benchmark", "xsum_outputs"),
        ("corruption", "cnndm_simcls_outputs"),
    ]
    assert list(results["human"]["chaganty_dev"].columns) == [
        "rouge1", "rouge1_recall", "rouge2", "rouge2_recall", "rougeL", "rougeL_recall", "rougeLsum", "rougeLsum_recall",
    ]  # fmt: skip
    assert results["benchmark"]["xsum_outputs"]["metrics"]["rouge1"]["systems"]["lead"]["mean"] == 1
    titles = [section.title for section in everything.sections(results)]
    assert "Encoders: bertscore on chaganty_dev" in titles and titles[-1] == "Signatures"
    with pytest.raises(InputError, match="none of the sets"):
        everything.run_on_folder(folder / "news", plan)


def test_first_references_are_named_where_they_make_a_difference():
    store, metric = ScoreStore(), {"rouge": FirstReferences(load("rouge"), 1)}
    one = store.score(metric, [Example("a cat", ("a dog",))])["rouge"]
    two = store.score(metric, [Example("a cat", ("a dog", "a cat"))])["rouge"]
    assert one.mean["rouge1"] == two.mean["rouge1"] == 0.5
    assert "max_references" not in str(one.signature) and "max_references:1" in str(two.signature)
    assert one.signature == load("rouge").signature()


def test_metrics_that_are_computed_again_replace_themselves_and_nothing_else(folder, tmp_path):
    kept = tmp_path / "kept"
    limits = {**everything.LIMITS, "profile": 2}

    def run(metrics, order=None):
        plan = everything.Plan(
            metrics, ScoreStore(), limits, encoders=False, keep=everything.keeper(str(kept), order)
        )
        everything.run_on_folder(folder, plan)
        return load_results(kept)

    both = {"rouge": load("rouge"), "wms": load("wms")}
    first = run(both)
    second = run({"rouge": load("rouge", stemmer=True)}, order=["wms", "rouge"])
    assert set(first) == set(second) == {"human", "profile", "paraphrase", "benchmark", "corruption"}
    for kind, by_name in second.items():
        for name, result in by_name.items():
            old = first[kind][name]
            numbers = [one.columns if isinstance(one, Scored) else one["metrics"] for one in (old, result)]
            signatures = [
                one.signatures if isinstance(one, Scored) else one["signatures"] for one in (old, result)
            ]
            assert list(numbers[0])[-1] == "wms" and next(iter(numbers[1])) == "wms", "in the order asked for"
            assert numbers[1]["wms"] == numbers[0]["wms"] and set(numbers[1]) == set(numbers[0])
            assert "stemmer:yes" in signatures[1]["rouge"] and signatures[1]["wms"] == signatures[0]["wms"]
    other = replace(first["human"]["summeval"], inputs=[0, 1, 2, 3])
    with pytest.raises(InputError, match="other texts"):
        merged(first["human"]["summeval"], other, ["rouge"])


def test_some_of_all_metrics_are_chosen_by_their_labels():
    metrics, skipped = choose_metrics("all", only="rouge, sms contextual")
    assert list(metrics) == ["rouge", "sms contextual"] and not skipped
    assert metrics["rouge"].split_sentences, "as among all of them"
    with pytest.raises(InputError, match=r"--only smss: it is none of bertscore, rouge"):
        choose_metrics("all", only="smss")


def test_each_reference_is_held_out_against_the_others_and_systems_see_as_many():
    judged = Judgements("mine", "human")
    references = ["a cat sat", "a cat ran", "one dog"]
    for system, summary in enumerate(["a cat sat", "no", "one dog"]):
        judged.add(summary, references, 1.0, "article", str(system))
    judged.add("alone", ["a cat"], 1.0, "another", "0")
    table = holdout.holdout(judged, {"rouge": load("rouge", types=("rouge1",), multi_reference="mean")})
    row = table.rows[0]
    # People: (2/3 + 0) / 2, (2/3 + 0) / 2, 0. Systems: without the first 2/3 and 0; nothing; without the last 0 and 0.
    assert float(row[1]) == pytest.approx(2 / 9, abs=1e-3) and float(row[3]) == pytest.approx(1 / 9, abs=1e-3)
    assert row[-1] == "0%" and "3 summaries by people of 1 texts" in table.note
    with pytest.raises(InputError, match="two references"):
        holdout.holdout(
            Judgements("one", "human", ["a"], [["b"]], [1.0], ["0"], ["x"]), {"rouge": load("rouge")}
        )
