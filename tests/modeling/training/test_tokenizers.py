import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import train_tokenizer

TEXTS = ["the cat sat on the mat .", "the dog didn't sit in the U.S. on 12/31 ..."] * 3


@pytest.fixture(scope="module")
def byte_pairs():
    return train_tokenizer(TEXTS, TokenizerSection(kind="bpe", vocabulary_size=300))


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_ids_are_those_of_tensor2tensor_and_survive_saving(tmp_path, kind):
    section = TokenizerSection(
        kind=kind, vocabulary_size=300, lowercase=True, digits_to_hash=True, unknown="UNK"
    )
    tokenizer = train_tokenizer(TEXTS, section, max_length=50)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (0, 1, 2)
    tokenizer.save_pretrained(tmp_path)
    reloaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("The Cat 99", "zebra UNK"):
        ids = tokenizer(text).input_ids
        assert reloaded(text).input_ids == ids and ids[-1] == 1
        assert reloaded.decode(ids, skip_special_tokens=True) == tokenizer.decode(
            ids, skip_special_tokens=True
        )
    assert reloaded.model_max_length == 50 and len(reloaded) == len(tokenizer)
    assert reloaded.pad_token_id == 0 and reloaded.eos_token == "</s>" and reloaded.padding_side == "right"
    padded = reloaded(["the cat", "the"], padding=True)
    assert padded["input_ids"][1][-1] == 0 and padded["attention_mask"][1][-1] == 0


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C", "M")), min_size=1), min_size=1
    )
)
def test_byte_pairs_give_back_any_text(byte_pairs, words):
    import unicodedata

    text = unicodedata.normalize("NFC", " ".join(words))
    if any(token in text for token in ("<pad>", "</s>", "<unk>")):
        return
    ids = byte_pairs(text).input_ids
    assert byte_pairs.decode(ids, skip_special_tokens=True) == text and 2 not in ids


def test_words_are_split_like_the_treebank_and_masked():
    section = TokenizerSection(kind="word", min_frequency=1, lowercase=True, digits_to_hash=True)
    tokenizer = train_tokenizer(["It's 3.5 pct, U.S. officials didn't say -- (well-known) ..."], section)
    tokens = tokenizer.convert_ids_to_tokens(
        tokenizer("It's 4.1 pct, U.S. officials didn't say -- (well-known) ...").input_ids
    )
    expected = [
        "it",
        "'s",
        "#.#",
        "pct",
        ",",
        "u.s.",
        "officials",
        "did",
        "n't",
        "say",
        "--",
        "(",
        "well-known",
        ")",
        "...",
        "</s>",
    ]
    assert tokens == expected


def test_text_that_is_tokenized_already_is_split_at_blanks():
    section = TokenizerSection(kind="word", split="whitespace", unknown="UNK")
    tokenizer = train_tokenizer(TEXTS, section)
    ids = tokenizer("the zebra didn't UNK").input_ids
    assert tokenizer.convert_ids_to_tokens(ids) == ["the", "UNK", "didn't", "UNK", "</s>"]
    assert tokenizer.decode(ids[:1] + ids[2:]) == "the didn't UNK </s>"


def test_the_vocabulary_is_no_larger_than_asked():
    words = [" ".join(f"w{i}" for i in range(100))] * 2
    assert len(train_tokenizer(words, TokenizerSection(kind="word", vocabulary_size=20))) == 20
    assert len(train_tokenizer(["once twice twice"], TokenizerSection(kind="word", min_frequency=2))) == 4
    with pytest.raises(ValueError, match="needs at least 256 bytes and 3 special tokens"):
        train_tokenizer(TEXTS, TokenizerSection(kind="bpe", vocabulary_size=100))
    with pytest.raises(ValueError, match="nothing to train"):
        train_tokenizer(TEXTS, TokenizerSection())


@pytest.mark.parametrize("kind", ["word", "copy", "bpe"])
def test_a_line_at_the_end_changes_nothing(kind):
    tokenizer = train_tokenizer(["Snow fell in Oslo"] * 3, TokenizerSection(kind=kind, vocabulary_size=300))
    plain = tokenizer("Snow fell").input_ids
    assert tokenizer("Snow fell\n").input_ids == tokenizer("\n Snow fell \n\n").input_ids == plain
    assert tokenizer("Snow\nfell\n").input_ids[-1] == tokenizer.eos_token_id
