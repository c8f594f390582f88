"""Random Starts (Gaskell 2020, Algorithm 1)."""

from __future__ import annotations

from collections import Counter

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from summarily.modeling.training.random_starts import (
    StartTokenizer,
    random_start,
    special_tokens_around,
)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    """`<s> 0 1 2 ... </s>`: the word n is token n + 3; "a" is unknown."""
    words = {"<s>": 0, "<pad>": 1, "</s>": 2} | {str(n): n + 3 for n in range(100)} | {"<unk>": 103}
    tokens = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokens.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", unk_token="<unk>")


DOCUMENT = " ".join(map(str, range(50)))


def test_every_start_from_zero_to_the_last_is_equally_likely():
    """N - L + 1 starts; 4 sigma of a binomial around the mean."""
    counts = Counter(random_start(12, 8, example_id=number) for number in range(5000))
    assert sorted(counts) == [0, 1, 2, 3, 4]
    assert all(abs(count - 1000) < 4 * (5000 * 0.2 * 0.8) ** 0.5 for count in counts.values())


def test_the_start_depends_on_seed_id_and_epoch_only():
    start = random_start(10_000, 100, example_id="paper")
    assert start == random_start(10_000, 100, example_id="paper")
    others = [
        random_start(10_000, 100, example_id="other"),
        random_start(10_000, 100, example_id="paper", seed=1),
        random_start(10_000, 100, example_id="paper", epoch=1),
    ]
    assert start not in others and len(set(others)) == 3


def test_a_document_that_fits_starts_at_its_beginning():
    assert random_start(8, 8, example_id=0) == 0
    with pytest.raises(ValueError, match="room for 0 tokens"):
        random_start(8, 0, example_id=0)


@pytest.mark.parametrize("starts", ["beginning", "random"])
def test_special_tokens_are_added_to_what_is_left(tokenizer, starts):
    cut = StartTokenizer(tokenizer, max_length=12, starts=starts, seed=3)
    sources = [cut(DOCUMENT, example_id=number) for number in range(20)]
    for source in sources:
        assert source.input_ids[0] == 0 and source.input_ids[-1] == 2
        assert source.input_ids[1:-1] == [3 + source.start + i for i in range(10)]
        assert source.length == 50
    different = len({source.start for source in sources})
    assert different == 1 if starts == "beginning" else different > 10


def test_a_short_document_is_left_whole(tokenizer):
    cut = StartTokenizer(tokenizer, max_length=12, starts="random")
    assert cut("1 2 3", example_id="x") == ([0, 4, 5, 6, 2], 0, 3)


def test_special_tokens_are_found(tokenizer):
    assert special_tokens_around(tokenizer) == ([0], [2])


def test_mistakes_are_named(tokenizer):
    with pytest.raises(ValueError, match="starts='middle' is unknown; choose one of beginning, random"):
        StartTokenizer(tokenizer, max_length=12, starts="middle")
