"""perl mode. Values marked "script" were printed by ROUGE-1.5.5.pl itself; the others are counted by hand."""

from __future__ import annotations

import pytest

from summarily.metrics.rouge.scorer import Rouge
from summarily.metrics.rouge.stemmers import PerlPorterStemmer


def values(prediction, references, name, **options):
    """Recall, precision and F, in the order in which the script prints them."""
    score = Rouge(mode="perl", types=[name], **options).compute([prediction], [references]).mean
    return pytest.approx((score[f"{name}_recall"], score[f"{name}_precision"], score[name]), abs=1.2e-5)


PREDICTION = (
    "Officials said on Monday that an agreement was reached.\n"
    "The two women were negotiating in Geneva, and they said the talks went well.\n"
    "An experimental treaty follows."
)
REFERENCES = [
    "On Monday negotiators in Geneva reached agreements, officials say.\nTwo women led the talks.",
    "The women said they agreed on a treaty.\nThe talks in Geneva went well on Monday.",
]
# script: ROUGE-1.5.5.pl -n 4 -2 4 -u -a -d -z SPL, with these texts and the options named. It prints five
# digits and computes F from the rounded precision and recall, so the last digit may be one off.
SCRIPT = [
    ({}, "rouge1", (0.76667, 0.42593, 0.54762)),
    ({}, "rouge2", (0.28571, 0.15385, 0.2)),
    ({}, "rougeL", (0.66667, 0.37037, 0.47619)),
    ({}, "rougeLsum", (0.66667, 0.37037, 0.47619)),
    ({}, "rougeSU4", (0.27027, 0.13699, 0.18182)),
    # -b 75
    ({"limit_bytes": 75}, "rouge1", (0.37037, 0.35714, 0.36363)),
    ({"limit_bytes": 75}, "rouge2", (0.08, 0.07692, 0.07843)),
    ({"limit_bytes": 75}, "rougeL", (0.3, 0.32143, 0.31035)),
    ({"limit_bytes": 75}, "rougeSU4", (0.12308, 0.11765, 0.1203)),
    # -l 10
    ({"limit_words": 10}, "rouge1", (0.35, 0.35, 0.35)),
    ({"limit_words": 10}, "rougeL", (0.3, 0.3, 0.3)),
    ({"limit_words": 10}, "rougeSU4", (0.10227, 0.10227, 0.10227)),
]


@pytest.mark.parametrize(("options", "name", "expected"), SCRIPT)
def test_script(options, name, expected):
    assert expected == values(PREDICTION, REFERENCES, name, **options)


# script, with -m
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rouge1", (0.86667, 0.48148, 0.61905)),
        ("rouge2", (0.35714, 0.19231, 0.25)),
        ("rouge3", (0.03846, 0.02, 0.02632)),
        ("rougeL", (0.73333, 0.40741, 0.52381)),
        ("rougeSU4", (0.35811, 0.18151, 0.24091)),
    ],
)
def test_script_with_stems_and_irregular_forms(name, expected, tmp_path):
    # Of WordNet's lists, these are all the forms that occur in the texts.
    (tmp_path / "noun.exc").write_text("women woman\n")
    (tmp_path / "verb.exc").write_text("said say\nwent go\n\n")
    options = {"stemmer": True, "wordnet_exceptions": str(tmp_path)}
    assert expected == values(PREDICTION, REFERENCES, name, **options)
    if name == "rouge1":  # "say" and "said" meet only through the list
        assert expected != values(PREDICTION, REFERENCES, name, stemmer=True)


def test_stems_of_the_script():
    # script: its own `stem`. Other versions of Porter's algorithm leave "agreement" and "they" as they are.
    expected = {
        "agreement": "agreem",
        "experimental": "experi",
        "commissioner": "commiss",
        "technology": "technolog",
        "assembly": "assembl",
        "they": "thei",
        "dying": "dy",
        "news": "new",
        "syyed": "syi",
    }
    stemmer = PerlPorterStemmer()
    assert {word: stemmer.stem(word) for word in expected} == expected


def test_words_of_up_to_three_letters_are_not_stemmed():
    # "was" would become "wa", and "ties" becomes "ti", of which only the second happens.
    assert values("was", ["wa"], "rouge1", stemmer=True) == (0, 0, 0)
    assert values("ties", ["ti"], "rouge1", stemmer=True) == (1, 1, 1)


def test_su4_leaves_out_the_last_word_as_a_unigram():
    # "a b c" has a, b, ab, ac, bc; "a c b" has a, c, ac, ab, cb: a, ab and ac are in both.
    assert values("a b c", ["a c b"], "rougeSU4") == (3 / 5, 3 / 5, 3 / 5)
    # One word has no unigram that counts, so a text of one word scores 0 even against itself.
    assert values("a", ["a"], "rougeSU4") == (0, 0, 0)


def test_su4_pairs_have_at_most_four_words_between_them():
    # "a p q r s b" has 5 unigrams and all 15 pairs; of "a b" it has a and ab, which are all that "a b" has.
    assert values("a p q r s b", ["a b"], "rougeSU4") == (1, 2 / 20, 2 / 11)
    # With one more word between, the pair is gone: a alone is left of 6 + (6 + 5 + 4 + 3 + 2).
    assert values("a p q r s t b", ["a b"], "rougeSU4") == (1 / 2, 1 / 26, 1 / 14)


def test_references_are_pooled():
    # Hits 2 + 1, of 2 + 4 reference words and 3 + 3 prediction words.
    assert values("a b c", ["a b", "c d e f"], "rouge1") == (3 / 6, 3 / 6, 1 / 2)
    # Two references too short for a bigram do not take anything away from the totals.
    assert values("a b", ["a", "a b", ""], "rouge2") == (1, 1 / 3, 1 / 2)


def test_hits_are_clipped_for_each_reference_on_its_own():
    assert values("a a a", ["a b", "a a"], "rouge1") == (3 / 4, 3 / 6, 3 / 5)


def test_rouge_l_is_the_union_over_lines():
    # Lin (2004), section 3.2: w1 w2 from the first line and w1 w3 w5 from the second make four of five.
    prediction, reference = "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "w1 w2 w3 w4 w5"
    assert values(prediction, [reference], "rougeL") == (4 / 5, 4 / 10, 2 * 0.8 * 0.4 / 1.2)


def test_75_bytes_of_recall():
    # DUC 2004: 10 words of six letters and a space are 70 bytes, so five letters of the 11th are read.
    prediction = " ".join(f"word{i}" for i in range(10, 30))
    reference = " ".join(f"word{i}" for i in range(10, 20))
    assert values(prediction, [reference], "rouge1", limit_bytes=75) == (10 / 10, 10 / 11, 20 / 21)
    # The limit holds for references too.
    assert values(reference, [prediction], "rouge1", limit_bytes=75) == (10 / 11, 10 / 10, 20 / 21)


def test_byte_limit_does_not_add_up_lines_for_rouge_l():
    # Six bytes of "aa bb\ncc dd" are "aa bb" and "c". For ROUGE-L the script keeps each line that is shorter
    # than six bytes, but clips by the words of the former: aa and bb are left, of 4 and of 3 words.
    text = "aa bb\ncc dd"
    assert values(text, [text], "rouge1", limit_bytes=6) == (1, 1, 1)
    assert values(text, [text], "rougeL", limit_bytes=6) == (2 / 4, 2 / 3, 4 / 7)
    google = Rouge(types=["rougeLsum"], limit_bytes=6).compute([text], [text]).mean
    assert set(google.values()) == {1.0}


def test_a_line_that_starts_with_white_space_has_an_empty_first_word():
    assert values(" a b c", ["a"], "rouge1", limit_words=2) == (1, 1, 1)
    google = Rouge(types=["rouge1"], limit_words=2).compute([" a b c"], ["a"]).mean
    assert google["rouge1_precision"] == 1 / 2


def test_only_ascii_letters_are_lower_cased():
    # The Kelvin sign and the dotted capital I are not letters to a script that reads bytes.
    assert values("\u212a9 İ", ["k9 i"], "rouge1") == (0, 0, 0)
    assert values("K9 É", ["k9 e"], "rouge1") == (1 / 2, 1, 2 / 3)
