"""Word-level and byte-pair tokenizers, trained on a corpus and saved as `PreTrainedTokenizerFast`.

Ids follow tensor2tensor: padding 0, end of sequence 1, then unknown 2, and every text ends with the end token; or
BART: <s> 0, <pad> 1, </s> 2, <unk> 3, <mask> 4, and every text stands between <s> and </s>.
Lower-casing and digit masking are part of the tokenizer, so that a published model reads raw text.

    >>> section = TokenizerSection(kind="word", lowercase=True, min_frequency=1)
    >>> tokenizer = train_tokenizer(["The U.S. didn't sell 3.5 mln tonnes."], section)
    >>> tokenizer.convert_ids_to_tokens(tokenizer("The U.S. didn't sell").input_ids)
    ['the', 'u.s.', 'did', "n't", 'sell', '</s>']
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from summarily.modeling.training.recipe import TokenizerSection
from summarily.support.cloze.marks import ENTITY, PLACEHOLDER
from summarily.support.errors import RecipeError

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer

PAD, EOS, BOS, MASK = "<pad>", "</s>", "<s>", "<mask>"

# Words close to those of the Penn Treebank, for text that is not yet separated by blanks.
_WORDS = Regex(
    "|".join(
        [
            r"(?:\p{L}\.){2,}",  # U.S.
            r"\p{L}+(?=n't\b)|n't\b",  # did n't
            r"'(?:s|re|ve|ll|d|m)\b",  # it 's
            r"[\p{N}#]+(?:[.,/:-][\p{N}#]+)*",  # 3.5, 1,000, #.#
            r"[\p{L}\p{M}\p{N}_#]+(?:[-@][\p{L}\p{M}\p{N}_#]+)*",  # well-known
            r"\.\.\.|--|``|''",
            r"[^\s]",
        ]
    )
)


def train_tokenizer(
    texts: Iterable[str], section: TokenizerSection, max_length: int | None = None
) -> PreTrainedTokenizerFast:
    """Train the tokenizer a recipe describes (`kind` "word", "copy" or "bpe").

    Example:
        >>> bpe = TokenizerSection(kind="bpe", vocabulary_size=300)
        >>> tokenizer = train_tokenizer(["low lower lowest"] * 3, bpe)
        >>> tokenizer.decode(tokenizer("lower").input_ids, skip_special_tokens=True)
        'lower'
    """
    if section.kind == "pretrained":
        raise RecipeError(
            "tokenizer.kind is 'pretrained': there is nothing to train; choose 'word', 'copy' or 'bpe'."
        )
    bart = section.special_tokens == "bart"
    special = [BOS, PAD, EOS, section.unknown, MASK] if bart else [PAD, EOS, section.unknown]
    tokenizer = _byte_pairs(section) if section.kind == "bpe" else _word_level(section)
    options: dict[str, Any] = {
        "vocab_size": section.vocabulary_size,
        "min_frequency": section.min_frequency,
        "special_tokens": [AddedToken(token, normalized=False, special=True) for token in special],
        "show_progress": False,
    }
    if section.kind != "bpe":
        trainer: Any = trainers.WordLevelTrainer(**options)
    else:
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        if section.vocabulary_size < len(alphabet) + len(special):
            raise RecipeError(
                f"tokenizer.vocabulary_size is {section.vocabulary_size}; a byte-pair vocabulary needs at least "
                f"{len(alphabet)} bytes and {len(special)} special tokens."
            )
        trainer = trainers.BpeTrainer(initial_alphabet=sorted(alphabet), **options)
    tokenizer.train_from_iterator(texts, trainer)
    first = f"{BOS} $A {EOS}" if bart else f"$A {EOS}"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=first,
        pair=f"{first} $B {EOS}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in special if token in (BOS, EOS)],
    )
    named = {"bos_token": BOS, "cls_token": BOS, "sep_token": EOS, "mask_token": MASK} if bart else {}
    limit = {} if max_length is None else {"model_max_length": max_length}
    return _tokenizer_class(section)(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=section.unknown,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        **named,
        **limit,
    )


def train_reader_tokenizer(
    texts: Iterable[str], size: int, max_entities: int, more_words: Iterable[str] = ()
) -> PreTrainedTokenizerFast:
    """The attentive reader's: word-level, lower case, whose last ids are `@placeholder` and the entities.

    Args:
        texts: what to count words in; those that occur once are left out.
        size: of the whole vocabulary at most.
        more_words: fill the vocabulary up, from the first, such as the words that have vectors.

    Example:
        >>> tokenizer = train_reader_tokenizer(["Snow fell. Snow fell."], size=50, max_entities=3, more_words=["rain"])
        >>> tokenizer.tokenize("Rain fell on @entity2's snow; @placeholder left")
        ['rain', 'fell', '<unk>', '@entity2', '<unk>', 'snow', '<unk>', '@placeholder', '<unk>']
    """
    words = size - max_entities - 1
    plain = (ENTITY.sub(" ", text).replace(PLACEHOLDER, " ") for text in texts)
    section = TokenizerSection(kind="word", vocabulary_size=words, min_frequency=2, lowercase=True)
    trained = train_tokenizer(plain, section)
    layout = json.loads(trained.backend_tokenizer.to_str())
    layout["post_processor"] = None  # passages and questions have no end token
    vocabulary = layout["model"]["vocab"]
    for word in more_words:
        if len(vocabulary) >= words:
            break
        vocabulary.setdefault(word, len(vocabulary))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(layout)),
        pad_token=PAD,
        unk_token=section.unknown,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
    entities = [f"@entity{number}" for number in range(max_entities)]
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in (PLACEHOLDER, *entities)])
    return tokenizer


def _tokenizer_class(section: TokenizerSection) -> type[PreTrainedTokenizerFast]:
    if section.kind != "copy":
        return PreTrainedTokenizerFast
    from summarily.modeling.pointer_generator.tokenization_pointer_generator import PointerGeneratorTokenizer

    return PointerGeneratorTokenizer


def _normalizer(section: TokenizerSection) -> Normalizer:
    # A text that ends with a line, as files do, is the same text.
    steps: list[Normalizer] = [normalizers.NFC(), normalizers.Strip()]
    if section.lowercase:
        steps.append(normalizers.Lowercase())
    if section.digits_to_hash:
        steps.append(normalizers.Replace(Regex(r"\p{Nd}"), "#"))
    return normalizers.Sequence(steps)


def _word_level(section: TokenizerSection) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token=section.unknown))
    tokenizer.normalizer = _normalizer(section)
    if section.split == "whitespace":
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    else:
        words = pre_tokenizers.Split(_WORDS, behavior="isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), words])
    return tokenizer


def _byte_pairs(section: TokenizerSection) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=section.unknown))
    tokenizer.normalizer = _normalizer(section)
    # A blank before the first word too: a word has one spelling wherever it stands.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer
