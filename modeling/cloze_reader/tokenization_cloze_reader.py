"""The attentive reader's vocabulary: words of the training texts, then of the word vectors, then the entities."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import PAD, train_tokenizer
from summarily.support.cloze.marks import ENTITY, PLACEHOLDER


def build_tokenizer(
    texts: Iterable[str], size: int, max_entities: int, more_words: Iterable[str] = ()
) -> PreTrainedTokenizerFast:
    """A word-level tokenizer, lower case, whose last ids are `@placeholder` and the entities.

    Args:
        texts: what to count words in; those that occur once are left out.
        size: of the whole vocabulary at most.
        more_words: fill the vocabulary up, from the first, such as the words that have vectors.

    Example:
        >>> tokenizer = build_tokenizer(["Snow fell. Snow fell."], size=50, max_entities=3, more_words=["rain"])
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
