"""Salient tokens: whole names of the answers of cloze questions, and nothing else."""

from __future__ import annotations

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from summarily.modeling import ApesoConfig, ApesoForConditionalGeneration
from summarily.modeling.apeso.data_apeso import entity_scores, mark, salient_spans, salient_tokens
from summarily.modeling.generation.summary_beam_search import summary_beam_search
from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.support.cloze.recognition import Mention

SOURCE = "Jack Wilshere of the Bank of England met Pele. Wilshere, one of many, left for Oslo."
SUMMARY = "Jack Wilshere met Pele . He works at the Bank of England ."
KNOWN = {"Jack Wilshere": "PERSON", "Bank of England": "ORG", "Pele": "PERSON", "Oslo": "GPE"}


def recognise(texts):
    return [[Mention(name, kind) for name, kind in KNOWN.items() if name in text] for text in texts]


def marked(kind: str, max_length: int | None = None, summary: str | list[str] = SUMMARY) -> list[str]:
    tokenizer = train_tokenizer(["the of met left"], TokenizerSection(kind=kind, min_frequency=1))
    (labels,) = salient_tokens(tokenizer, [SOURCE], [summary], max_length, recognise)
    encoding = tokenizer(SOURCE, truncation=max_length is not None, max_length=max_length)
    assert len(labels) == len(encoding.input_ids)
    offsets = encoding.encodings[0].offsets
    return [SOURCE[a:b] for label, (a, b) in zip(labels, offsets, strict=True) if label]


@pytest.mark.parametrize("kind", ["word", "copy"])
def test_whole_names_are_marked_and_not_every_of(kind):
    assert marked(kind) == ["Jack", "Wilshere", "Bank", "of", "England", "Pele", "Wilshere"]


def test_only_what_the_summary_mentions_is_salient():
    assert marked("copy", summary="Pele left .") == ["Pele"]
    assert marked("copy", summary="Somebody left .") == []


def test_several_references_are_asked_together():
    assert marked("copy", summary=["Pele left .", "So did Oslo ."]) == ["Pele", "Oslo"]


def test_what_is_cut_off_is_not_searched():
    assert marked("copy", max_length=4) == ["Jack", "Wilshere"]


def test_given_names_need_no_recogniser():
    def fail(texts):
        raise AssertionError("the names are known")

    spans = salient_spans(SOURCE, SUMMARY, names=["Pele"], recognise=fail)
    assert [SOURCE[a:b] for a, b in spans] == ["Pele"]


def test_marks_are_zero_or_one_where_spans_overlap():
    assert mark([(0, 3), (3, 6), (7, 9)], [(0, 4), (2, 6)]) == [1, 1, 0]


def test_the_entities_of_a_layer_are_carried_to_the_tokens_of_another_model():
    """Words to byte pairs, behind a prefix: each piece of a word has the word's value, the prefix and the end have none
    of their own, and a stock T5 is searched with them."""
    torch.manual_seed(0)
    texts = ["Oslo froze today", "Bergen"]
    words = train_tokenizer(texts, TokenizerSection(kind="copy", min_frequency=1))
    pieces = train_tokenizer(["a b c d"], TokenizerSection(kind="bpe", vocabulary_size=270))
    config = ApesoConfig(vocab_size=len(words), embedding_size=4, hidden_size=8, init_range=1.0)
    apeso = ApesoForConditionalGeneration(config).eval()
    found = entity_scores(apeso, words, pieces, texts, prefix="tldr: ")
    inputs = pieces([f"tldr: {text}" for text in texts], padding=True, return_tensors="pt")
    assert found.shape == inputs.input_ids.shape
    with torch.no_grad():
        layer = (
            apeso.get_encoder()(words(texts[0], return_tensors="pt").input_ids).entity_attention[0].tolist()
        )
    spans = pieces(f"tldr: {texts[0]}", return_offsets_mapping=True)["offset_mapping"]
    for value, (start, end) in zip(found[0].tolist(), spans, strict=False):
        piece = f"tldr: {texts[0]}"[start:end]
        place = 0 if 6 <= start < 10 else 1 if 11 <= start < 16 else 2 if start >= 17 else None
        if piece.strip() and place is not None:
            assert value == pytest.approx(layer[place]), piece
        elif piece.strip():
            assert value == 0, piece
    assert (found[1][inputs.attention_mask[1] == 0] == 0).all()
    cut = entity_scores(apeso, words, pieces, texts[:1], prefix="tldr: ", max_length=9)
    assert cut.shape == (1, 9)
    t5 = T5ForConditionalGeneration(
        T5Config(
            vocab_size=len(pieces),
            d_model=8,
            d_kv=4,
            d_ff=8,
            num_layers=1,
            num_heads=2,
            decoder_start_token_id=0,
        )
    ).eval()
    options = {"num_beams": 3, "max_new_tokens": 5, "stepwise": ["entities"]}
    for gamma in (0.0, 5.0):
        ids = t5.generate(
            **inputs, custom_generate=summary_beam_search, entity_scores=found, gamma=gamma, **options
        )
        assert len(ids) == 2
