"""Every test process gets caches of its own and no Hub, whatever the machine has."""

import os
import tempfile

import hypothesis
import pytest

_HOME = tempfile.mkdtemp(prefix="summarily-tests-")
os.environ["HF_HOME"] = _HOME
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Each of these would go before HF_HOME.
for _name in list(os.environ):
    if _name.startswith(("HF_", "HUGGINGFACE_")) and _name.endswith("_CACHE"):
        del os.environ[_name]
os.environ.pop("SUMMARILY_REGISTER", None)


# The same texts are tried in every run and on every machine: what failed once fails again.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_sessionfinish(session, exitstatus):
    import shutil

    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny_summarizer():
    """A model, tokenizer and data set as small as they get, under the names that documents use."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

    words = [
        "<pad>",
        "<s>",
        "</s>",
        "<unk>",
        "the",
        "cat",
        "dog",
        "sat",
        "barked",
        "snow",
        "fell",
        "today",
        "a",
        "on",
        "mat",
    ]
    level = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    level.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=level, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    torch.manual_seed(0)
    model = BartForConditionalGeneration(
        BartConfig(
            vocab_size=len(words), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
            init_std=0.5,
        )
    )  # fmt: skip
    # Random weights would end at once or repeat a special token; words are what the tests score.
    model.generation_config.update(max_length=9, min_length=5, suppress_tokens=[0, 1, 3])
    texts = ["the cat sat", "a dog barked today", "snow fell on the mat", "the dog sat on a mat", "snow fell"]
    rows = []
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        rows.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [*ids, 2]})
    return {"model": model, "tokenizer": tokenizer, "dataset": rows, "texts": texts}
