"""InferSent: parity with a plain LSTM, padding, conversion of published state dicts, tokens."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

from summarily.modeling.infersent.configuration_infersent import InferSentConfig
from summarily.modeling.infersent.convert_infersent import STATE_KEYS, convert_infersent, load_state, main
from summarily.modeling.infersent.modeling_infersent import InferSentModel
from summarily.modeling.infersent.tokenization_infersent import InferSentTokenizer
from summarily.support.errors import FileError

WORDS = ["", "<s>", "</s>", "snow", "fell", ".", "do", "n't", "don", "'t"]


@pytest.fixture
def model() -> InferSentModel:
    torch.manual_seed(0)
    return InferSentModel(InferSentConfig(vocab_size=20, embedding_size=6, hidden_size=5)).eval()


ROWS = [[1, 4, 9, 2], [1, 2], [1, 7, 7, 8, 11, 13, 2], [5]]


def padded(rows: list[list[int]], width: int = 0) -> torch.Tensor:
    width = max(width, *map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


def by_hand(model: InferSentModel, row: list[int]) -> torch.Tensor:
    """One sentence, one direction and one step at a time, with two plain LSTM cells."""
    size = model.config.hidden_size
    embedded = model.word_embeddings(torch.tensor(row))
    directions = []
    for suffix, steps in (("", range(len(row))), ("_reverse", reversed(range(len(row))))):
        cell = nn.LSTMCell(model.config.embedding_size, size)
        cell.load_state_dict(
            {
                name: getattr(model.enc_lstm, f"{name}_l0{suffix}")
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            }
        )
        state = torch.zeros(1, size), torch.zeros(1, size)
        hidden = {}
        for step in steps:
            state = cell(embedded[step : step + 1], state)
            hidden[step] = state[0][0]
        directions.append(torch.stack([hidden[step] for step in range(len(row))]))
    return torch.cat(directions, -1).amax(0)


@torch.no_grad()
def test_embedding_equals_a_loop_of_plain_cells(model):
    batch = model(padded(ROWS)).pooler_output
    for row, embedding in zip(ROWS, batch, strict=True):
        torch.testing.assert_close(embedding, by_hand(model, row))


@torch.no_grad()
def test_embedding_does_not_depend_on_padding_order_or_company(model):
    together = model(padded(ROWS)).pooler_output
    wider = model(padded(ROWS, width=12)).pooler_output
    backwards = model(padded(ROWS[::-1])).pooler_output.flip(0)
    alone = torch.cat([model(torch.tensor([row])).pooler_output for row in ROWS])
    by_vectors = model(
        inputs_embeds=model.word_embeddings(padded(ROWS)), attention_mask=padded(ROWS) != 0
    ).pooler_output
    for other in (wider, backwards, alone, by_vectors):
        torch.testing.assert_close(together, other)
    assert (together < 0).any(), "with zero padding there would be nothing below 0"


@torch.no_grad()
def test_zero_padding_is_an_option_that_clips_at_0(model):
    plain = model(padded(ROWS)).pooler_output
    model.config.v1_zero_padding = True
    clipped = model(padded(ROWS)).pooler_output
    longest = max(range(len(ROWS)), key=lambda row: len(ROWS[row]))
    for row in range(len(ROWS)):
        expected = plain[row] if row == longest else plain[row].clamp(min=0)
        torch.testing.assert_close(clipped[row], expected)


def test_rows_without_words_and_padding_on_the_left_are_refused(model):
    with pytest.raises(ValueError, match="row 1 has no words"):
        model(torch.tensor([[1, 2], [0, 0]]))
    with pytest.raises(ValueError, match="padded on the right"):
        model(torch.tensor([[0, 2]]))
    with pytest.raises(ValueError, match="either"):
        model()


@torch.no_grad()
def test_saved_model_loads_by_auto_class_and_computes_the_same(model, tmp_path):
    from transformers import AutoModel

    import summarily.modeling

    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path).eval()
    assert type(loaded) is summarily.modeling.InferSentModel
    torch.testing.assert_close(model(padded(ROWS)).pooler_output, loaded(padded(ROWS)).pooler_output)
    assert model(padded(ROWS), return_dict=False)[1].shape == (4, 10)


# --- conversion ---


def published(path, hidden: int = 5, size: int = 6) -> dict[str, torch.Tensor]:
    """A file like the published ones: a bare state dict with the LSTM's weights."""
    torch.manual_seed(1)
    lstm = nn.LSTM(size, hidden, bidirectional=True)
    state = {f"enc_lstm.{name}": value.detach() for name, value in lstm.state_dict().items()}
    torch.save(state, path)
    return state


def write_vectors(path, words, header=""):
    lines = [f"{word} {' '.join(str((i + j) / 10) for j in range(6))}" for i, word in enumerate(words)]
    path.write_text(header + "\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(("version", "header"), [(1, ""), (2, "4 6\n")])
def test_conversion_keeps_every_weight_and_vector(tmp_path, version, header):
    state = published(tmp_path / "infersent.pkl")
    end = "</s>" if version == 1 else "</p>"
    write_vectors(tmp_path / "vectors.txt", ["snow", ". . .", end, "fell"], header)
    arguments = [str(tmp_path / name) for name in ("infersent.pkl", "vectors.txt", "out")]
    main([*arguments, "--version", str(version)])
    model, tokenizer = (cls.from_pretrained(tmp_path / "out") for cls in (InferSentModel, InferSentTokenizer))
    for key in STATE_KEYS:
        assert torch.equal(model.state_dict()[key], state[key])
    assert tokenizer.words == ["", "snow", ". . .", end, "fell"]
    assert model.word_embeddings.weight[4].tolist() == pytest.approx([(3 + j) / 10 for j in range(6)])
    assert model.config.version == version and model.config.hidden_size == 5
    assert tokenizer.encode("snow xyz fell") == [1, 4, 3]


def test_conversion_keeps_as_many_words_as_asked(tmp_path):
    published(tmp_path / "infersent.pkl")
    write_vectors(tmp_path / "vectors.txt", ["</s>", "snow", "fell"])
    model = convert_infersent(tmp_path / "infersent.pkl", tmp_path / "vectors.txt", tmp_path / "out", words=2)
    assert model.config.vocab_size == 3


def test_a_file_that_holds_code_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(FileError, match="which is not run"):
        load_state(tmp_path / "evil.pkl")
    assert not (tmp_path / "ran").exists()


def test_other_state_dicts_and_vectors_are_refused(tmp_path):
    torch.save({"weight": torch.zeros(1)}, tmp_path / "other.pkl")
    with pytest.raises(ValueError, match=r"no enc_lstm\.weight_ih_l0"):
        load_state(tmp_path / "other.pkl")
    state = published(tmp_path / "infersent.pkl")
    torch.save({**state, "head": torch.zeros(1)}, tmp_path / "more.pkl")
    with pytest.raises(ValueError, match="does not: head"):
        load_state(tmp_path / "more.pkl")
    write_vectors(tmp_path / "vectors.txt", ["snow"])
    with pytest.raises(ValueError, match="</s>"):
        convert_infersent(tmp_path / "infersent.pkl", tmp_path / "vectors.txt", tmp_path / "out")
    (tmp_path / "short.txt").write_text("snow 1 2\n")
    with pytest.raises(ValueError, match="vector 1: expected 6 numbers"):
        convert_infersent(tmp_path / "infersent.pkl", tmp_path / "short.txt", tmp_path / "out")


# --- tokens ---


def test_version_1_splits_like_the_treebank_and_keeps_case():
    tokenizer = InferSentTokenizer(WORDS, InferSentConfig())
    assert tokenizer.tokenize("Don't go, snow fell.") == ["Do", "n't", "go", ",", "snow", "fell", "."]
    assert tokenizer.encode("snow don't Snow.") == [1, 3, 6, 7, 5, 2], "words without a vector are dropped"


def test_version_2_joins_negations_the_way_moses_does():
    tokenizer = InferSentTokenizer([*WORDS, "</p>"], InferSentConfig(version=2))
    assert tokenizer.tokenize("I don't go") == ["I", "don", "'t", "go"]


def test_sentences_given_apart_have_their_full_stops_apart():
    tokenizer = InferSentTokenizer(WORDS, InferSentConfig())
    assert tokenizer.tokenize("Snow fell. It melted.") == ["Snow", "fell.", "It", "melted", "."]
    assert tokenizer.tokenize(["Snow fell.", "It melted."]) == ["Snow", "fell", ".", "It", "melted", "."]


def test_a_text_without_known_words_is_the_end_alone():
    tokenizer = InferSentTokenizer(["", "</s>"], InferSentConfig())
    assert tokenizer.encode("") == tokenizer.encode("xyz") == [1]


def test_a_batch_is_padded_on_the_right():
    batch = InferSentTokenizer(WORDS, InferSentConfig())(["snow", "snow fell ."])
    assert batch["input_ids"].tolist() == [[1, 3, 2, 0, 0], [1, 3, 4, 5, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]


def test_only_two_versions_exist():
    with pytest.raises(ValueError, match="version=3"):
        InferSentConfig(version=3)
