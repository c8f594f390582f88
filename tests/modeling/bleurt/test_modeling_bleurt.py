"""BLEURT's model: the published ports under their own names, padding, pairs, and what is trained."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForSequenceClassification

from summarily.modeling import BleurtConfig, BleurtForScoring
from summarily.modeling.bleurt.convert_bleurt import main as convert
from summarily.modeling.bleurt.convert_bleurt import port_config, port_state
from summarily.modeling.bleurt.modeling_bleurt import UNKNOWN
from summarily.modeling.bleurt.tokenization_bleurt import PairTokenizer
from tests.metrics.tiny import checkpoint
from tests.modeling.common import assert_loads_as_remote_code, logits_of

REFERENCES = ["a bird chirps by the window", "this is a random sentence", ""]
CANDIDATES = ["a bird chirps by the window", "this looks like a random sentence", "Snow fell."]

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "vocab_size": 60,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}


def random_state(narrow: int | None, prefix: str) -> dict[str, torch.Tensor]:
    """Random weights with the names that the ports have, written down from their published checkpoints."""
    generator = torch.Generator().manual_seed(3)
    width, inner, words = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["vocab_size"]
    small = narrow or width
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (words, small),
        "embeddings.position_embeddings.weight": (SIZES["max_position_embeddings"], small),
        "embeddings.token_type_embeddings.weight": (2, small),
        "embeddings.LayerNorm.weight": (small,),
        "embeddings.LayerNorm.bias": (small,),
        "pooler.dense.weight": (width, width),
        "pooler.dense.bias": (width,),
    }
    if narrow:
        shapes["encoder.embedding_projection.weight"] = (width, narrow)
        shapes["encoder.embedding_projection.bias"] = (width,)
    for layer in range(SIZES["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        for part in (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        ):
            shapes |= {f"{at}{part}.weight": (width, width), f"{at}{part}.bias": (width,)}
        shapes |= {f"{at}intermediate.dense.weight": (inner, width), f"{at}intermediate.dense.bias": (inner,)}
        shapes |= {f"{at}output.dense.weight": (width, inner), f"{at}output.dense.bias": (width,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}{part}.weight": (width,), f"{at}{part}.bias": (width,)}
    state = {
        f"{prefix}.{name}": torch.randn(shape, generator=generator) * 0.3 for name, shape in shapes.items()
    }
    head = {"classifier.weight": (1, width), "classifier.bias": (1,)}
    state |= {name: torch.randn(shape, generator=generator) for name, shape in head.items()}
    return state


def plain_bleurt(
    state: dict[str, torch.Tensor], ids: torch.Tensor, types: torch.Tensor, prefix: str
) -> torch.Tensor:
    """The score of one unpadded pair, written out from the paper: no class of transformers takes part."""
    own = {name.removeprefix(f"{prefix}."): tensor.double() for name, tensor in state.items()}

    def linear(x, name):
        return x @ own[f"{name}.weight"].T + own[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + SIZES["layer_norm_eps"])
        return scaled * own[f"{name}.weight"] + own[f"{name}.bias"]

    embedded = (
        own["embeddings.word_embeddings.weight"][ids]
        + own["embeddings.position_embeddings.weight"][torch.arange(len(ids))]
        + own["embeddings.token_type_embeddings.weight"][types]
    )
    x = norm(embedded, "embeddings.LayerNorm")
    if "encoder.embedding_projection.weight" in own:
        x = linear(x, "encoder.embedding_projection")
    heads, size = SIZES["num_attention_heads"], SIZES["hidden_size"] // SIZES["num_attention_heads"]
    for layer in range(SIZES["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        parts = [
            linear(x, f"{at}.attention.self.{name}").view(len(ids), heads, size).transpose(0, 1)
            for name in ("query", "key", "value")
        ]
        weights = torch.softmax(parts[0] @ parts[1].transpose(1, 2) / math.sqrt(size), -1)
        mixed = (weights @ parts[2]).transpose(0, 1).reshape(len(ids), heads * size)
        x = norm(x + linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        hidden = linear(x, f"{at}.intermediate.dense")
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
        x = norm(x + linear(hidden, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    pooled = torch.tanh(linear(x[0], "pooler.dense"))
    return pooled @ own["classifier.weight"][0] + own["classifier.bias"][0]


def save_port(folder: Path, narrow: int | None, prefix: str, pickled: bool) -> dict[str, torch.Tensor]:
    """A folder as the ports are published."""
    state = random_state(narrow, prefix)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        **SIZES,
        "model_type": prefix,
        "architectures": [f"{prefix.title()}ForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
        "use_cache": False,
    }
    if narrow:
        config |= {"embedding_size": narrow, "output_embedding_size": 2048, "embedding_dropout_prob": 0}
    (folder / "config.json").write_text(json.dumps(config))
    if pickled:
        buffers = {f"{prefix}.embeddings.position_ids": torch.arange(40)[None]}
        torch.save({**state, **buffers}, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return state


@pytest.fixture
def pairs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    lengths, seconds = torch.tensor([17, 9, 6]), torch.tensor([8, 4, 1])
    places = torch.arange(17)
    mask = (places < lengths[:, None]).long()
    ids = torch.randint(4, 60, (3, 17), generator=generator)
    return {
        "input_ids": ids * mask,
        "attention_mask": mask,
        "token_type_ids": (places >= (lengths - seconds)[:, None]).long() * mask,
    }


@pytest.mark.parametrize(
    ("narrow", "prefix", "pickled"),
    [(None, "bert", False), (None, "bleurt", True), (8, "bleurt", True), (8, "bleurt", False)],
    ids=["Elron", "lucadiliello, BERT", "lucadiliello, BLEURT-20", "BLEURT-20 as safetensors"],
)
def test_a_port_scores_as_the_paper_says(tmp_path, pairs, narrow, prefix, pickled):
    state = save_port(tmp_path, narrow, prefix, pickled)
    model = BleurtForScoring.from_pretrained(tmp_path)
    scores = logits_of(model, pairs)[:, 0]
    for row, length in enumerate(pairs["attention_mask"].sum(1).tolist()):
        ids, types = (pairs[name][row, :length] for name in ("input_ids", "token_type_ids"))
        expected = plain_bleurt(state, ids, types, prefix)
        torch.testing.assert_close(scores[row].double(), expected, rtol=0, atol=1e-5)


def test_a_bert_port_scores_as_transformers_own_classifier(tmp_path, pairs):
    save_port(tmp_path, None, "bert", pickled=False)
    expected = logits_of(BertForSequenceClassification.from_pretrained(tmp_path).eval(), pairs)
    torch.testing.assert_close(logits_of(BleurtForScoring.from_pretrained(tmp_path), pairs), expected)


def test_a_converted_port_is_one_of_our_folders(tmp_path, pairs):
    save_port(tmp_path / "port", 8, "bleurt", pickled=True)
    model = BleurtForScoring.from_pretrained(tmp_path / "port")
    model.save_pretrained(tmp_path / "ours")
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours").eval()
    assert type(again) is BleurtForScoring and again.config.encoder_config["model_type"] == "rembert"
    # Not bit for bit on every CPU: where weights lie in memory decides how some kernels add up.
    torch.testing.assert_close(logits_of(again, pairs), logits_of(model, pairs))


def test_what_is_no_port_is_refused():
    with pytest.raises(ValueError, match="classifier of 3 classes"):
        port_config({"model_type": "bert", "id2label": {"0": "a", "1": "b", "2": "c"}})
    with pytest.raises(ValueError, match=r"has cls\.predictions"):
        port_state({"cls.predictions.bias": torch.zeros(1)})
    with pytest.raises(ValueError, match="without BLEURT's head"):
        port_state({"bert.pooler.dense.bias": torch.zeros(1)})


def test_a_pickled_port_may_hold_tensors_only(tmp_path):
    save_port(tmp_path, None, "bert", pickled=True)
    torch.save({"bert.pooler.dense.bias": Path("/")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(Exception, match="Weights only"):
        BleurtForScoring.from_pretrained(tmp_path)


# --- our own head -------------------------------------------------------------------------------------------


@pytest.fixture
def model() -> BleurtForScoring:
    torch.manual_seed(0)
    config = BleurtConfig(
        encoder_config={"model_type": "bert", **SIZES}, pooling="pair", signals=["rouge1", "wms"]
    )
    return BleurtForScoring(config).eval()


def test_padding_and_company_do_not_move_a_score(model, pairs):
    together = logits_of(model, pairs)
    assert together.shape == (3, 3)
    for row, length in enumerate(pairs["attention_mask"].sum(1).tolist()):
        alone = {name: tensor[row : row + 1, :length] for name, tensor in pairs.items()}
        torch.testing.assert_close(logits_of(model, alone), together[row : row + 1])


def test_labels_that_are_unknown_cost_nothing(model, pairs):
    labels = torch.tensor([[0.5, UNKNOWN, UNKNOWN], [UNKNOWN, 1.0, -1.0], [UNKNOWN] * 3])
    with torch.no_grad():
        output = model(**pairs, labels=labels)
    scores = output.logits
    expected = ((scores[0, 0] - 0.5) ** 2 + (scores[1, 1] - 1) ** 2 + (scores[1, 2] + 1) ** 2) / 3
    torch.testing.assert_close(output.loss, expected)


def test_the_score_stays_when_the_signals_go(model, pairs, tmp_path):
    before = logits_of(model, pairs)
    model.keep_score_alone()
    assert model.config.outputs == 1
    torch.testing.assert_close(logits_of(model, pairs), before[:, :1])
    model.save_pretrained(tmp_path)
    again = BleurtForScoring.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits_of(again, pairs), before[:, :1])


def test_the_sides_of_a_pair_are_told_apart(model, pairs):
    with pytest.raises(ValueError, match="token_type_ids"):
        model(pairs["input_ids"])
    with pytest.raises(ValueError, match="pooling='mean'"):
        BleurtConfig(pooling="mean")
    other = {**pairs, "token_type_ids": 1 - pairs["token_type_ids"]}
    assert not torch.allclose(logits_of(model, other), logits_of(model, pairs), atol=1e-3)


def test_a_merged_model_loads_without_the_package(tmp_path, pairs):
    torch.manual_seed(0)
    adapted = BleurtForScoring.from_encoder(checkpoint("bert"), adapter_rank=2, pooling="pair").eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "adapter_up" in name:
                parameter.normal_(std=0.1)
    merged = adapted.merged()
    torch.testing.assert_close(logits_of(merged, pairs), logits_of(adapted, pairs))
    assert_loads_as_remote_code([merged], pairs, tmp_path, "AutoModelForSequenceClassification")


# --- pairs of texts -----------------------------------------------------------------------------------------


def test_pairs_are_what_transformers_makes_of_them():
    folder = checkpoint("bert")
    ours = PairTokenizer.from_pretrained(folder)(REFERENCES, CANDIDATES)
    theirs = AutoTokenizer.from_pretrained(folder)(
        REFERENCES, CANDIDATES, padding=True, return_token_type_ids=True, return_tensors="pt"
    )
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize(("first", "second"), [(30, 2), (2, 30), (30, 40), (8, 8), (9, 8), (8, 9), (40, 6)])
def test_the_longer_text_is_cut_first(first, second):
    tokenizer = PairTokenizer(lambda texts: [], 1, 2, 0, max_length=19)
    pair = tokenizer.pair([5] * first, [6] * second)
    assert len(pair.input_ids) == len(pair.token_type_ids) == min(19, first + second + 3)
    assert pair.truncated == (first + second > 16)
    # One token after another, from whichever side is longer, as the original does it.
    while first + second > 16:
        if first > second:
            first -= 1
        else:
            second -= 1
    assert (pair.input_ids.count(5), pair.input_ids.count(6)) == (first, second)


def test_sentence_pieces_are_those_of_the_library(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join([*REFERENCES, *CANDIDATES] * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=35,
        hard_vocab_limit=False,  # releases differ in how many pieces they find
        user_defined_symbols=["[CLS]", "[SEP]"],
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    save_port(tmp_path, 8, "bleurt", pickled=True)
    tokenizer = PairTokenizer.from_pretrained(tmp_path)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    # Short enough to be kept whole, however many pieces they have.
    references, candidates = (
        [" ".join(text.split()[:2]) for text in texts] for texts in (REFERENCES, CANDIDATES)
    )
    batch = tokenizer(references, candidates)
    first = [
        pieces.piece_to_id("[CLS]"),
        *pieces.encode(references[1]),
        pieces.piece_to_id("[SEP]"),
        *pieces.encode(candidates[1]),
        pieces.piece_to_id("[SEP]"),
    ]
    assert batch["input_ids"][1][batch["attention_mask"][1].bool()].tolist() == first
    convert([str(tmp_path), str(tmp_path / "ours")])
    assert torch.equal(
        PairTokenizer.from_pretrained(tmp_path / "ours")(references, candidates)["input_ids"],
        batch["input_ids"],
    )


@pytest.mark.slow
def test_the_published_scores_of_bleurt_20_d12():
    """Quoted from the port's own page; needs the Hub."""
    name = "lucadiliello/BLEURT-20-D12"
    try:
        model, tokenizer = BleurtForScoring.from_pretrained(name), PairTokenizer.from_pretrained(name)
    except OSError as error:
        pytest.skip(str(error).splitlines()[0])
    scores = logits_of(model, tokenizer(REFERENCES[:2], CANDIDATES[:2]))[:, 0]
    torch.testing.assert_close(scores, torch.tensor([0.96044, 0.80801]), rtol=0, atol=1e-4)
