"""Golden values, properties, options, counts and explanations."""

from __future__ import annotations

import doctest
import itertools
import json
import pickle
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import summarily.metrics.rouge.scorer as scorer_module
from summarily.metrics import InputError, load
from summarily.metrics.explanations import Token
from summarily.metrics.rouge.scorer import TYPES, Rouge, skip_grams, skip_total
from summarily.support.errors import SummarilyWarning

ALL = list(TYPES)


def mean(prediction, references, **options):
    return Rouge(**options).compute([prediction], [references]).mean


# --- golden values ----------------------------------------------------------------------------------------


def test_one_word_of_three():
    # The unit tests of rouge_score 0.1.2: "testing one two" against "testing".
    score = mean("testing one two", "testing")
    assert score["rouge1_precision"] == pytest.approx(1 / 3)
    assert score["rouge1_recall"] == 1
    assert score["rouge1"] == pytest.approx(1 / 2)
    assert score["rouge2"] == 0


def test_union_of_subsequences():
    # Lin (2004), section 3.2, and the unit tests of rouge_score 0.1.2.
    score = mean("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "w1 w2 w3 w4 w5")
    assert score["rougeLsum_precision"] == pytest.approx(0.4)
    assert score["rougeLsum_recall"] == pytest.approx(0.8)
    assert score["rougeLsum"] == pytest.approx(0.5333, abs=5e-5)
    # As one line: w1 w2 w3 w5 is a subsequence of both texts too.
    assert score["rougeL_recall"] == pytest.approx(0.8)


def test_rules_for_several_references():
    # Against "a b": P 2/3, R 1, F 4/5. Against "c d e f": P 1/3, R 1/4, F 2/7.
    references = ["c d e f", "a b"]
    expected = {
        "max": (2 / 3, 1, 4 / 5),
        "mean": (1 / 2, 5 / 8, (4 / 5 + 2 / 7) / 2),
        "pooled": (3 / 6, 3 / 6, 1 / 2),
    }
    for rule, (precision, recall, f) in expected.items():
        score = mean("a b c", references, multi_reference=rule)
        assert (score["rouge1_precision"], score["rouge1_recall"], score["rouge1"]) == pytest.approx(
            (precision, recall, f)
        )


# --- properties -------------------------------------------------------------------------------------------

texts = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", "d", "\n"]), max_size=20).map(" ".join),
    st.text(max_size=40),
)
options = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["google", "perl"]),
        "stemmer": st.booleans(),
        "tokenizer": st.sampled_from(["ascii", "unicode", "white_space"]),
        "multi_reference": st.sampled_from(["max", "mean", "pooled"]),
        "split_sentences": st.booleans(),
    }
).flatmap(
    lambda chosen: st.sampled_from([{}, {"limit_bytes": 7}, {"limit_words": 3}]).map(
        lambda limit: {**chosen, **limit}
    )
)


@settings(deadline=None)
@given(texts, st.lists(texts, min_size=1, max_size=3), options)
def test_every_value_is_between_0_and_1(prediction, references, chosen):
    score = mean(prediction, references, types=ALL, **chosen)
    assert list(score) == [*ALL, *(f"{name}_{part}" for name in ALL for part in ("precision", "recall"))]
    assert all(0 <= value <= 1 for value in score.values())


@settings(deadline=None)
@given(texts, options)
def test_a_text_against_itself_scores_1_where_it_has_anything_to_count(text, chosen):
    chosen = {**chosen, "limit_bytes": None}
    metric = Rouge(types=ALL, **chosen)
    n = len(metric.reader.read(text).tokens)
    needed = {name: 2 if name == "rougeSU4" else 1 for name in ALL}
    needed.update({f"rouge{k}": k for k in range(1, 10)})
    score = metric.compute([text], [text]).mean
    assert {name: score[name] for name in ALL} == {name: float(n >= needed[name]) for name in ALL}


@settings(deadline=None)
@given(texts, texts, options)
def test_precision_and_recall_change_places_with_the_texts(first, second, chosen):
    # Not for Lsum, where only the reference's lines are united.
    names = [name for name in ALL if not name.startswith("rougeL")]
    names += ["rougeL"] if chosen["mode"] == "google" else []
    there = mean(first, second, types=names, **chosen)
    back = mean(second, first, types=names, **chosen)
    for name in names:
        assert there[f"{name}_precision"] == back[f"{name}_recall"]


# --- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"preset": "heavy"}, "preset='heavy'; expected 'light' or 'paper'"),
        ({"mode": "java"}, "mode='java'; expected 'google' or 'perl'"),
        ({"types": "rouge1"}, r"types is a str; did you mean \['rouge1'\]"),
        ({"types": []}, "types is "),
        ({"types": ["rouge0"]}, "types has 'rouge0'; expected some of rouge1, "),
        ({"types": ["rouge1", "rouge1"]}, "types has 'rouge1' twice"),
        ({"stemmer": "no"}, "stemmer='no'; expected True or False"),
        ({"split_sentences": 1}, "split_sentences=1; expected True or False"),
        ({"multi_reference": "best"}, "multi_reference='best'"),
        ({"alpha": 1.5}, "alpha=1.5; expected a number from 0 to 1"),
        ({"beta": float("nan")}, "beta=nan; expected a number, at least 0"),
        ({"beta": 1.2, "types": ["rouge1"]}, "types has neither"),
        ({"tokenizer": "spacy"}, "tokenizer='spacy'; expected 'ascii', 'unicode' or 'white_space'"),
        ({"limit_bytes": 0}, "limit_bytes=0; expected a whole number, at least 1"),
        ({"limit_words": True}, "limit_words=True"),
        ({"limit_words": 2.5}, "limit_words=2.5"),
        ({"limit_words": 5, "limit_bytes": 5}, "exclude each other"),
        ({"wordnet_exceptions": "here"}, 'only read with mode="perl" and stemmer=True'),
        (
            {"wordnet_exceptions": "no-such-file", "mode": "perl", "stemmer": True},
            "there is no 'no-such-file'",
        ),
    ],
)
def test_bad_options_are_named(chosen, message):
    with pytest.raises(InputError, match=message):
        Rouge(**chosen)


def test_unknown_options_are_refused():
    with pytest.raises(InputError, match="use_stemmer"):
        load("rouge", use_stemmer=True)


def test_exception_lists_must_have_something_in_them(tmp_path):
    chosen = {"mode": "perl", "stemmer": True, "wordnet_exceptions": str(tmp_path)}
    with pytest.raises(InputError, match=r"has no \.exc files"):
        Rouge(**chosen)
    (tmp_path / "noun.exc").write_text("geese\n")
    with pytest.raises(InputError, match="no line of the form"):
        Rouge(**chosen)


def test_whatever_changes_a_number_is_in_the_signature(tmp_path):
    (tmp_path / "a.exc").write_text("geese goose\n")
    (tmp_path / "b.exc").write_text("geese ganders\n")
    stems = {"mode": "perl", "stemmer": True}
    signatures = [
        str(Rouge(**chosen).signature())
        for chosen in (
            {},
            {"mode": "perl"},
            {"types": ["rouge2", "rouge1"]},
            {"stemmer": True},
            {"multi_reference": "mean"},
            {"multi_reference": "pooled"},
            {"limit_bytes": 75},
            {"limit_words": 75},
            {"tokenizer": "unicode"},
            {"split_sentences": True},
            stems,
            {**stems, "wordnet_exceptions": str(tmp_path / "a.exc")},
            {**stems, "wordnet_exceptions": str(tmp_path / "b.exc")},
        )
    ]
    assert len(set(signatures)) == len(signatures)
    assert str(Rouge(preset="paper").signature()) == signatures[0]
    assert signatures[6].startswith(
        "rouge|mode:google|types:rouge1+rouge2+rougeL+rougeLsum|stemmer:no|refs:max|tokenizer:ascii|units:lines|"
        "limit:75bytes|version:"
    )


def test_first_type_is_the_main_score():
    score = Rouge(types=["rougeL", "rouge1"]).compute(["a b"], ["b a"])
    assert score.main == "rougeL"
    assert float(score) == 0.5


def test_split_sentences_makes_lsum_compare_sentences():
    prediction, reference = "The cat sat. It ran.", "It ran. The cat sat."
    lines = mean(prediction, reference)
    sentences = mean(prediction, reference, split_sentences=True)
    assert lines["rougeLsum"] == lines["rougeL"] == pytest.approx(3 / 5)
    assert sentences["rougeLsum"] == 1
    assert sentences["rougeL"] == lines["rougeL"]


def test_unicode_tokenizer():
    ascii_only = mean("Кошка спит", "кошка спит")
    assert ascii_only["rouge1"] == 0
    unicode = {"tokenizer": "unicode"}
    assert mean("Кошка спит", "кошка спит", **unicode)["rouge1"] == 1
    # Chinese and Japanese by character: two of three are shared.
    assert mean("我爱猫", "我爱狗", **unicode)["rouge1"] == pytest.approx(2 / 3)
    # Vowel signs belong to their words: one word each, not the same.
    assert mean("किताब", "कितब", **unicode)["rouge1"] == 0
    # Composed and decomposed letters are the same.
    assert mean("caf\u00e9", "cafe\u0301", **unicode)["rouge1"] == 1
    assert mean("snake_case 42", "snake case 42", **unicode)["rouge1"] == 1


@pytest.mark.parametrize("mode", ["google", "perl"])
def test_limits(mode):
    def tokens(text, **limit):
        return Rouge(mode=mode, **limit).reader.read(text).tokens

    # Words are what white space separates; tokens may be more.
    assert tokens("a-b c d e", limit_words=3) == ["a", "b", "c", "d"]
    assert tokens("a b\nc d e", limit_words=3) == ["a", "b", "c"]
    # Line breaks are not counted as bytes; a word may be cut.
    assert tokens("abc\ndef\nghi", limit_bytes=6) == ["abc", "def"]
    assert tokens("abc\ndef\nghi", limit_bytes=7) == ["abc", "def", "g"]
    # A line that ends exactly at the limit is whole, and the next one is not begun.
    assert (
        tokens("a b\nc d", limit_words=2)
        == tokens("a b\nc d", limit_words=2, split_sentences=True)
        == ["a", "b"]
    )
    assert tokens("A b. C d.", limit_words=2, split_sentences=True) == ["a", "b"]
    assert tokens("A b. C d.", limit_words=3, split_sentences=True) == ["a", "b", "c"]
    # A character of two bytes that is cut in two is dropped.
    assert tokens("né x", limit_bytes=2) == ["n"]


@pytest.mark.parametrize("limit", [{"limit_words": 2}, {"limit_bytes": 3}])
def test_a_text_that_ends_exactly_at_the_limit_is_not_cut(limit):
    def cut(text):
        return Rouge(**limit).compute([text], ["x"]).counts["truncated"]

    assert [cut(text) for text in ("a", "a b", "a b\n", "a b\nc", "a b c")] == [0, 0, 0, 1, 1]


def test_counts():
    score = Rouge(limit_words=2).compute(["a b c", "...", "a"], [["a b", ""], "a b", ["a b c", "?"]])
    assert score.counts == {"empty_predictions": 1, "empty_references": 2, "truncated": 2}
    assert score.cost["tokens"] == (2 + 0 + 1) + (2 + 0) + 2 + (2 + 0)


def test_a_metric_can_be_pickled():
    metric = Rouge(stemmer=True, mode="perl")
    metric.compute(["running"], ["runs"])
    again = pickle.loads(pickle.dumps(metric))
    assert again.compute(["running"], ["runs"]).mean == metric.compute(["running"], ["runs"]).mean


def test_stem_cache_is_bounded():
    metric = Rouge(stemmer=True)
    stems = metric.reader.stems
    stems.max_size = 10
    metric.compute([" ".join(f"word{i}" for i in range(100))], ["word5 " + "x" * 1000])
    assert len(stems) <= 10
    assert max(map(len, stems)) <= stems.longest


# --- very long texts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [" ", "\n"])
def test_five_megabytes_take_seconds(joint):
    long = joint.join(f"word{i % 5000} the cat sat" for i in range(250_000))
    assert len(long) > 5_000_000
    start = time.process_time()
    metric = Rouge()
    assert metric.compute([long], [long]).mean["rougeLsum"] == 1
    score = metric.compute([long], ["the cat sat\non the mat"]).mean
    assert score["rouge1_recall"] == pytest.approx(4 / 6)
    score = metric.compute(["the cat sat on the mat"], [long]).mean
    assert score["rougeL_precision"] == pytest.approx(4 / 6)
    assert time.process_time() - start < 60


# --- explanations -----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(texts, st.lists(texts, min_size=1, max_size=3), options)
def test_explanation_adds_up_to_the_score(prediction, references, chosen):
    metric = Rouge(types=ALL, **chosen)
    score = metric.compute([prediction], [references])
    why = json.loads(json.dumps(score.explain(0).to_dict()))
    for name in ALL:
        kind = why["types"][name]
        assert (kind["precision"], kind["recall"], kind["f"]) == (
            score.mean[f"{name}_precision"],
            score.mean[f"{name}_recall"],
            score.mean[name],
        )
        for row, reference in enumerate(kind["per_reference"]):
            if kind["reference"] in (None, row):
                matched = [match for match in kind["matches"] if match["reference"] == row]
                assert (
                    sum(match.get("count", match.get("counted", 0)) for match in matched) == reference["hits"]
                )


@settings(deadline=None, max_examples=60)
@given(st.one_of(texts, st.text("İK ab\né9")), options)
def test_places_are_those_of_the_tokens_that_are_scored(text, chosen):
    reader = Rouge(**chosen).reader
    read, places = reader.read(text), reader.places(text)
    assert [place.text for place in places] == read.tokens
    assert [place.text for place in reader.line_places(text)] == [
        word for line in read.lines for word in line
    ]
    assert all(0 <= place.start < place.end <= len(text) for place in places)
    assert all(a.end <= b.start for a, b in itertools.pairwise(places))


def test_explanation_shows_what_was_matched_where():
    why = Rouge(types=["rouge2", "rougeL"]).explain("A cat sat. Down!", ["no", "The cat sat down"])
    assert why.types["rouge2"].reference == 1
    assert why.to_dict()["types"]["rouge2"]["matches"] == [
        {
            "reference": 1,
            "gram": ["cat", "sat"],
            "count": 1,
            "prediction_positions": [[1, 2]],
            "reference_positions": [[1, 2]],
        },
        {
            "reference": 1,
            "gram": ["sat", "down"],
            "count": 1,
            "prediction_positions": [[2, 3]],
            "reference_positions": [[2, 3]],
        },
    ]
    last = why.types["rougeL"].matches[-1]
    assert (last.token, last.prediction_spans, last.reference_span) == ("down", [(11, 15)], (12, 16))
    assert why.prediction_tokens[3] == Token("down", 11, 15)


def test_explanation_of_lsum_marks_clipped_words():
    # Both reference lines find the one "a" of the prediction; it counts once.
    why = Rouge(types=["rougeLsum"]).explain("a b\nc", "a x\na y").types["rougeLsum"]
    assert [(match.token, match.counted) for match in why.matches] == [("a", True), ("a", False)]


# --- documentation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scorer", "texts", "lcs"])
def test_examples_in_the_code(name):
    import importlib

    module = importlib.import_module(f"summarily.metrics.rouge.{name}")
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_examples_in_the_card():
    card = Path(scorer_module.__file__).with_name("README.md")
    result = doctest.testfile(str(card), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_explained_skip_bigrams_are_those_that_were_counted():
    # At most four words stand between the two of a pair: "a f" is one, "a g" is none.
    why = Rouge(types=["rougeSU4"]).explain("a b c d e f g", "a b c d e f g").types["rougeSU4"]
    found = {match.gram: match.count for match in why.matches}
    assert found == dict(Counter(skip_grams(list("abcdefg"))))
    assert ("a", "f") in found and ("a", "g") not in found and ("g",) not in found
    assert sum(found.values()) == why.per_reference[0].hits == skip_total(7) == 6 + 6 + 5 + 4 + 3 + 2


@settings(deadline=None, max_examples=50)
@given(*[st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join)] * 2)
def test_explained_grams_add_up_to_the_hits(prediction, reference):
    types = Rouge(types=["rouge1", "rouge3", "rougeSU4"]).explain(prediction, reference).types
    for name, why in types.items():
        assert sum(match.count for match in why.matches) == why.per_reference[0].hits, name


# --- weighted F -------------------------------------------------------------------------------------------

# A made-up passage and its rewordings in the shape of the sentence mover's paper's Table 1.
PASSAGE = "for $ 5 , a baker in oslo will send you 3 loaves of bread in a paper bag , he says ."
PLAIN = "a baker in oslo sells bread . for $ 5 , he will send 3 loaves in a paper bag ."


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 0.8, 1.0])
def test_alpha_weighs_precision_as_the_script_does(alpha):
    score = Rouge(alpha=alpha, types=["rouge1", "rougeSU4"]).compute([PLAIN], [PASSAGE]).mean
    for name in ("rouge1", "rougeSU4"):
        precision, recall = score[f"{name}_precision"], score[f"{name}_recall"]
        assert precision != recall
        assert score[name] == pytest.approx(1 / (alpha / precision + (1 - alpha) / recall), abs=1e-12)


def test_beta_weighs_recall_of_subsequences_alone():
    plain = Rouge().compute([PLAIN], [PASSAGE]).mean
    score = Rouge(beta=1.2).compute([PLAIN], [PASSAGE])
    precision, recall = plain["rougeL_precision"], plain["rougeL_recall"]
    by_hand = (1 + 1.2**2) * recall * precision / (recall + 1.2**2 * precision)
    assert score.mean["rougeL"] == pytest.approx(by_hand, abs=1e-12) != plain["rougeL"]
    assert score.mean["rouge1"] == plain["rouge1"]
    assert "|beta:1.2|" in str(score.signature) and "alpha" not in str(score.signature)
    why = Rouge(beta=1.2).explain(PLAIN, [PASSAGE]).types["rougeL"]
    assert why.f == why.per_reference[0].f == score.mean["rougeL"]


def test_the_best_of_several_references_is_by_the_weighted_value():
    """Recall alone prefers the short reference, precision alone the long one."""
    prediction, references = "a b c d", ["a b", "a b c d e f g h"]
    recall = Rouge(types=["rouge1"], alpha=0.0).compute([prediction], [references])
    precision = Rouge(types=["rouge1"], alpha=1.0).compute([prediction], [references])
    assert recall.mean["rouge1"] == 1.0 and recall.mean["rouge1_precision"] == 0.5
    assert precision.mean["rouge1"] == 1.0 and precision.mean["rouge1_recall"] == 0.5


def test_white_space_tokens_keep_their_punctuation():
    spaced = Rouge(types=["rouge1"], tokenizer="white_space")
    assert spaced.compute(["It 's 5 ."], ["it 's 6 ."]).mean["rouge1"] == 0.75
    assert spaced.compute(["end."], ["end ."]).mean["rouge1"] == 0.0
    tokens = spaced.explain("It 's ok.", ["x"]).prediction_tokens
    assert [token.text for token in tokens] == ["it", "'s", "ok."]
    assert [token.start for token in tokens] == [0, 3, 6]


@pytest.mark.parametrize(
    ("options", "text", "warns"),
    [
        ({}, "One sentence. Another one.", 1),
        ({}, "One sentence.\nAnother one.", 0),
        ({}, "One sentence.", 0),
        ({"split_sentences": True}, "One sentence. Another one.", 0),
        ({"types": ["rouge1"]}, "One sentence. Another one.", 0),
    ],
)
def test_sentences_that_no_line_break_divides_are_worth_a_warning(options, text, warns):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Rouge(**options).compute([text] * 300, [text] * 300)  # two chunks, one warning
    assert len(caught) == warns and all("split_sentences=True" in str(found.message) for found in caught)
    # Of the user's line, not of one of ours or of evaluate's.
    assert all(found.filename == __file__ for found in caught)


def test_the_warning_stands_at_the_line_that_called_evaluate(tmp_path, monkeypatch):
    import evaluate

    text = "One sentence. Another one."
    with pytest.warns(SummarilyWarning, match="none of these 2 texts") as caught:
        evaluate.load("summarily/rouge").compute(predictions=[text], references=[text])
    assert [found.filename for found in caught] == [__file__]
