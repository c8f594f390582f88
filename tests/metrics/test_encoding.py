"""The encoder gives the model's own states, each text once, in bounded memory, whatever the batch."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import random
import threading

import pytest
import torch
import transformers

from summarily.metrics import InputError, encoding, load
from summarily.metrics.encoding import TOKEN_BUDGET, Encoder, encoder
from summarily.metrics.encoding.batches import batches
from summarily.support.errors import FileError
from tests.metrics import tiny

TEXTS = ["Snow fell in Oslo.", "", "a", "Trains stood still for hours on Monday, (and more)."]


@pytest.fixture(autouse=True)
def nothing_remembered():
    encoding.forget()


def tokenized(folder, text, limit=None):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer(text.strip(), truncation=True, max_length=limit)["input_ids"]


def hidden_states(folder, ids, kind):
    model = transformers.AutoModel.from_pretrained(folder).eval()
    if kind in ("bart", "t5"):
        model = model.get_encoder()
    with torch.no_grad():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    if kind == "t5":
        # Layer k of a T5 is what a T5 of k layers would return: after the final normalisation.
        states = [model.final_layer_norm(state) for state in states[:-1]] + [states[-1]]
    return [state[0] for state in states]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_states_are_those_of_the_model_in_every_layer(kind):
    folder = tiny.checkpoint(kind)
    shared = encoder(folder)
    assert shared.num_layers == tiny.LAYERS and shared.hidden_size == 32
    every_layer = list(range(shared.num_layers + 1))
    for text, encoded in zip(TEXTS, shared.encode(TEXTS, every_layer), strict=True):
        assert encoded.ids == tokenized(folder, text)
        states = hidden_states(folder, encoded.ids, kind)
        for layer in every_layer:
            torch.testing.assert_close(encoded.states[layer], states[layer], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("layer", [0, 3, 6])
def test_one_layer_alone_is_the_same_as_among_others(kind, layer):
    shared = encoder(tiny.checkpoint(kind))
    among = [encoded.states[layer].clone() for encoded in shared.encode(TEXTS, range(7))]
    encoding.forget()
    for a, b in zip(among, shared.encode(TEXTS, [layer]), strict=True):
        assert set(b.states) == {layer}, "only what was asked for is kept"
        torch.testing.assert_close(a, b.states[layer])


def test_decoder_side_is_what_bart_returns_when_it_is_fed_the_text():
    folder = tiny.checkpoint("bart")
    shared = encoder(folder, side="decoder")
    model = transformers.BartModel.from_pretrained(folder).eval()
    assert shared.num_layers == tiny.LAYERS - 2
    for encoded in shared.encode(TEXTS, [-1, 2]):
        with torch.no_grad():
            output = model(torch.tensor([encoded.ids]), output_hidden_states=True)
        torch.testing.assert_close(encoded.states[4], output[0][0], atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(
            encoded.states[2], output.decoder_hidden_states[2][0], atol=2e-5, rtol=1e-5
        )


@pytest.mark.parametrize("kind", ["bert", "bart", "distilbert", "t5"])
def test_layers_above_the_highest_asked_for_are_not_computed(kind):
    shared = encoder(tiny.checkpoint(kind))
    shared.encode(["load the model"], [1])
    layers = shared._stack.layers
    ran = []
    handles = [
        layer.register_forward_hook(lambda *_, i=i: ran.append(i)) for i, layer in enumerate(layers, start=1)
    ]
    try:
        shared.encode(["Snow fell."], [2, 4])
        assert ran == [1, 2, 3, 4]
        ran.clear()
        shared.encode(["Rain fell."], [6])
        assert ran == [1, 2, 3, 4, 5, 6], "stopping early has left nothing behind"
    finally:
        for handle in handles:
            handle.remove()
    assert not any(layer._forward_pre_hooks for layer in layers)


def test_states_do_not_depend_on_the_batch():
    texts = tiny.texts()
    small = encoder("minilm", token_budget=1)
    large = encoder("minilm", token_budget=10**6)
    for a, b in zip(small.encode(texts, [5]), large.encode(texts, [5]), strict=True):
        assert a.ids == b.ids
        difference = (a.states[5] - b.states[5]).norm(dim=-1) / a.states[5].norm(dim=-1)
        assert difference.max() < 2e-6


def test_each_distinct_text_goes_through_the_model_once():
    shared = encoder(tiny.checkpoint("bert"), token_budget=512)
    before = shared.forward_passes
    first = shared.encode(["snow", "rain", "snow"], [2, 3])
    again = shared.encode(["rain", "snow"], [3])
    shared.prefetch(["snow"], [2])
    assert shared.forward_passes - before == 2
    assert first[0] is first[2] is again[1]
    shared.encode(["snow"], [5])
    assert shared.forward_passes - before == 3, "another layer needs another pass"
    assert set(shared.encode(["snow"], [2, 5])[0].states) == {2, 3, 5}
    assert shared.forward_passes - before == 3, "and the layers before it are still there"


def test_memory_of_states_is_bounded():
    limit = 200_000
    shared = encoder(tiny.checkpoint("bert"), cache_bytes=limit)
    texts = [f"{text} {number}" for number in range(12) for text in tiny.texts()]
    shared.encode(texts, [1, 2, 3])
    held = [encoded for encoded, _ in shared._memory._items.values()]
    kept = sum(state.nbytes for encoded in held for state in encoded.states.values())
    assert 0 < kept <= shared._memory.bytes <= limit
    assert len(held) < len(texts) // 4
    storages = {
        state.untyped_storage().data_ptr(): state.untyped_storage().nbytes()
        for encoded in held
        for state in encoded.states.values()
    }
    assert sum(storages.values()) == kept, "no padding is kept, and nothing of what was dropped"


def test_the_least_recently_used_go_first():
    shared = encoder(tiny.checkpoint("bert"), cache_bytes=4000, token_budget=1)
    shared.encode(["snow", "rain"], [1])
    for number in range(20):
        shared.encode([f"snow {number}"], [1])
        shared.encode(["snow"], [1])
    assert "snow" in shared._memory._items and "rain" not in shared._memory._items


def test_nothing_is_kept_that_does_not_fit():
    shared = encoder(tiny.checkpoint("bert"), cache_bytes=0)
    assert shared.encode(["snow"], [1])[0].states[1].shape[1] == 32
    assert not shared._memory._items and not shared._memory._blocks and shared._memory.bytes == 0


# --- batches ----------------------------------------------------------------------------------------------


def padded(cut):
    return sum(len(batch) * batch[0] for batch in cut)


def every_cut(lengths):
    """All ways to cut a list into parts."""
    for chosen in itertools.product([False, True], repeat=len(lengths) - 1):
        ends = [end for end, cut in enumerate(chosen, start=1) if cut]
        yield [lengths[start:end] for start, end in itertools.pairwise([0, *ends, len(lengths)])]


@pytest.mark.parametrize("seed", range(8))
def test_no_cut_has_fewer_padded_tokens_and_passes(seed):
    lengths = random.Random(seed).choices(range(1, 60), k=9)
    found = list(batches(lengths, int, 128))
    allowed = (
        cut
        for cut in every_cut(sorted(lengths, reverse=True))
        if all(len(batch) * batch[0] <= 128 for batch in cut)
    )
    best = min(padded(cut) + 128 / 64 * len(cut) for cut in allowed)
    assert padded(found) + 128 / 64 * len(found) == best
    assert [length for batch in found for length in batch] == sorted(lengths, reverse=True)


def test_a_text_that_is_longer_than_a_batch_goes_alone():
    assert list(batches([3, 500, 2, 3], int, 100)) == [[500], [3, 3, 2]]
    assert list(batches([], int, 100)) == []


def test_of_what_the_encoder_reads_less_than_a_twentieth_is_padding(monkeypatch):
    """Lengths as those of summaries: 256 pairs, of which no two are alike."""
    lengths = [max(3, round(random.Random(place).lognormvariate(3.8, 0.5))) for place in range(512)]
    shared = encoder(tiny.checkpoint("bert"), token_budget=TOKEN_BUDGET["cpu"])
    read = []
    stack = shared._stack

    def counted(ids, mask, layers):
        read.append(mask)
        return stack(ids, mask, layers)

    monkeypatch.setattr(Encoder, "_stack", property(lambda self: counted))
    shared.encode([f"{place} " + "a " * (length - 3) for place, length in enumerate(lengths)], [1])
    assert sum(len(mask) for mask in read) == 512
    cells, tokens = sum(mask.numel() for mask in read), sum(int(mask.sum()) for mask in read)
    assert 0 < cells - tokens < 0.05 * cells


# --- tokens -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "roberta", "bart", "t5"])
@pytest.mark.parametrize("prefix_space", [False, True])
def test_offsets_point_at_the_text(kind, prefix_space):
    text = "  Snow fell in Oslo, on Monday. "
    encoded = encoder(tiny.checkpoint(kind), prefix_space=prefix_space).tokenize([text])[0]
    for token, (start, end), special in zip(encoded.tokens, encoded.offsets, encoded.special, strict=True):
        if special:
            assert (start, end) == (0, 0)
        else:
            assert text[start:end].lower() == token.lstrip("Ġ#").lower()
    words = "".join(text[a:b] for a, b in encoded.offsets)
    assert words == "SnowfellinOslo,onMonday."


def test_prefix_space_makes_the_first_word_like_the_others():
    folder = tiny.checkpoint("roberta")
    plain, spaced = (encoder(folder, prefix_space=flag).tokenize(["the snow"])[0] for flag in (False, True))
    assert plain.tokens[1] != "Ġthe" and spaced.tokens[1] == "Ġthe"


def test_special_tokens_are_marked_and_an_empty_text_has_no_others():
    bert, t5 = encoder(tiny.checkpoint("bert")), encoder(tiny.checkpoint("t5"))
    assert [e.tokens for e in bert.tokenize(["", " \n"])] == [["[CLS]", "[SEP]"]] * 2
    assert bert.tokenize([""])[0].is_empty and t5.tokenize([""])[0].tokens == ["</s>"]
    snow = bert.tokenize(["snow fell"])[0]
    assert snow.special == [True] + [False] * (len(snow) - 2) + [True] and not snow.is_empty


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "bart", "t5"])
def test_long_texts_are_cut_at_the_limit_of_the_model_as_its_tokenizer_cuts_them(kind):
    folder = tiny.checkpoint(kind)
    shared = encoder(folder)
    assert shared.max_length == (512 if kind == "t5" else tiny.LIMIT)
    text = " ".join(tiny.texts()) * 5
    encoded = shared.encode([text], [2])[0]
    assert encoded.truncated and len(encoded) == shared.max_length
    assert encoded.ids == tokenized(folder, text, shared.max_length)
    room = 10 - sum(encoded.special)
    exact = encoder(folder, max_length=10).tokenize(["a" + " a" * room, "a" + " a" * (room - 1)])
    assert [(len(e), e.truncated) for e in exact] == [(10, True), (10, False)]


def test_a_limit_beyond_the_model_is_refused():
    with pytest.raises(InputError, match=r"max_length=65; .* takes 3 to 64 tokens"):
        encoder(tiny.checkpoint("roberta"), max_length=65).tokenize(["a"])
    with pytest.raises(InputError, match=r"layer 7 does not exist: .* has layers 0 to 6"):
        encoder(tiny.checkpoint("bert")).encode(["a"], [7])


ODD_LONG = {
    "words": "the quick brown fox jumps over the lazy dog " * 4000,
    "one long word": "ab" * 60_000,
    "long words": ("x" * 5000 + " ") * 40,
    "no spaces": "snow.fell,in-oslo" * 6000,
    "spaces first": " " * 50_000 + "snow " * 3000,
    "spaces within": ("snow" + " " * 400) * 800,
    "no spaces in the language": "雪が降った。" * 20_000,
    "long words after short ones": "snow fell " * 20 + "x" * 100_000 + " snow" * 1000,
}


@pytest.mark.parametrize("case", ODD_LONG)
@pytest.mark.parametrize("model", ["minilm", "roberta"])
def test_cutting_characters_first_does_not_change_the_tokens(model, case):
    shared = (
        encoder("minilm", max_length=40)
        if model == "minilm"
        else encoder(tiny.checkpoint("roberta"), max_length=40)
    )
    text = ODD_LONG[case]
    whole, offsets = shared._tokenization()._tokenize(text.strip())
    found = shared.tokenize([text])[0]
    room = 38
    assert found.ids[1:-1] == whole[:room]
    shift = len(text) - len(text.lstrip())
    assert found.offsets[1:-1] == [(a + shift, b + shift) for a, b in offsets[:room]]
    assert found.truncated == (len(whole) > room)


def test_five_megabytes_are_not_tokenized_whole(monkeypatch):
    shared = encoder("minilm")
    longest = []
    original = encoding.tokens.Tokens._tokenize
    monkeypatch.setattr(
        encoding.tokens.Tokens,
        "_tokenize",
        lambda self, text: longest.append(len(text)) or original(self, text),
    )
    assert shared.tokenize(["Snow fell in Oslo on Monday. " * 200_000])[0].truncated
    assert max(longest) < 50_000


# --- sharing ----------------------------------------------------------------------------------------------


def test_a_configuration_has_one_encoder_and_every_part_of_it_counts():
    folder = tiny.checkpoint("bart")
    base = encoder(folder)
    assert encoder(folder) is base
    others = [
        {"max_length": 20}, {"side": "decoder"}, {"prefix_space": True}, {"dtype": "bfloat16"}, {"token_budget": 99},
        {"cache_bytes": 99}, {"cache_folder": "somewhere"},
    ]  # fmt: skip
    assert len({id(encoder(folder, **options)) for options in others} | {id(base)}) == len(others) + 1


def test_a_changed_checkpoint_is_another_encoder(tmp_path):
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny.checkpoint("bert"), folder)
    before = encoder(folder)
    states = before.encode(["snow"], [3])[0].states[3]
    shutil.copy(f"{tiny.checkpoint('bert', seed=1)}/model.safetensors", folder / "model.safetensors")
    after = encoder(folder)
    assert after is not before and after.identity != before.identity
    assert not torch.allclose(after.encode(["snow"], [3])[0].states[3], states, atol=1e-3)


def test_a_head_is_no_news_and_a_missing_weight_is(tmp_path):
    import logging
    import shutil

    from safetensors.torch import load_file, save_file

    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addHandler(handler)
    try:
        for place, lost in enumerate((None, "model.encoder.layers.0.fc1.weight")):
            folder = tmp_path / str(place)
            shutil.copytree(tiny.checkpoint("bart"), folder)
            tensors = load_file(folder / "model.safetensors")
            assert "final_logits_bias" in tensors
            tensors.pop(lost, None)
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            encoder(folder).encode(["snow"], [1])
            assert [("MISSING" in text, "fc1" in text) for text in said] == [(True, True)] * place
    finally:
        logger.removeHandler(handler)


def test_an_encoder_travels_as_its_configuration():
    shared = encoder("minilm", max_length=33)
    assert pickle.loads(pickle.dumps(shared)) is shared
    assert len(pickle.dumps(shared)) < 1000


def test_threads_may_share_an_encoder():
    shared = encoder(tiny.checkpoint("bert"), cache_bytes=50_000)
    texts = tiny.texts()
    expected = [encoded.states[4].clone() for encoded in shared.encode(texts, [4])]
    wrong = []

    def work(number):
        for _ in range(3):
            layers = [4, number % 5]
            for a, b in zip(expected, shared.encode(texts, layers), strict=True):
                if not torch.allclose(a, b.states[4], atol=1e-5):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_no_gradient_and_no_dropout():
    shared = encoder(tiny.checkpoint("bert"))
    encoded = shared.encode(["snow"], [2])[0]
    assert not shared.model.training and not encoded.states[2].requires_grad
    assert not any(parameter.requires_grad for parameter in shared.model.parameters())
    encoded.states[2].clone().requires_grad_()  # a plain tensor, not an inference tensor


# --- on disk ----------------------------------------------------------------------------------------------


def test_vectors_on_disk_are_read_instead_of_computed(tmp_path):
    folder = tiny.checkpoint("bert")
    shared = encoder(folder, cache_folder=tmp_path)
    first = [encoded.states[3].clone() for encoded in shared.encode(TEXTS, [3])]
    encoding.forget()
    before = shared.forward_passes
    second = shared.encode(TEXTS, [3])
    assert shared.forward_passes == before
    assert all(torch.equal(a, b.states[3]) for a, b in zip(first, second, strict=True))
    shared.encode(TEXTS, [4])
    assert shared.forward_passes == before + len(TEXTS)


def test_disk_is_keyed_by_the_whole_configuration(tmp_path):
    bart = tiny.checkpoint("bart")
    text = "Snow fell in Oslo on Monday, and trains stood still."
    seen = []
    for model, options in (
        (bart, {}), (bart, {"side": "decoder"}), (bart, {"max_length": 9}), (bart, {"prefix_space": True}),
        (bart, {"dtype": "bfloat16"}), (tiny.checkpoint("bart", seed=1), {}),
    ):  # fmt: skip
        shared = encoder(model, cache_folder=tmp_path, **options)
        before = shared.forward_passes
        seen.append(shared.encode([text], [2])[0].states[2])
        assert shared.forward_passes == before + 1, options
    assert len({(tuple(state.shape), round(float(state.sum()), 4)) for state in seen}) == len(seen)


def test_a_broken_file_on_disk_is_computed_anew(tmp_path):
    shared = encoder(tiny.checkpoint("bert"), cache_folder=tmp_path)
    expected = shared.encode(["snow"], [3])[0].states[3].clone()
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(b"not a tensor")
    encoding.forget()
    assert torch.allclose(shared.encode(["snow"], [3])[0].states[3], expected)


def _encode_into(folder, model, texts, queue):
    torch.set_num_threads(1)
    shared = encoder(model, cache_folder=folder)
    queue.put([encoded.states[3].sum().item() for encoded in shared.encode(texts, [3])])


def test_processes_may_share_a_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    model = tiny.checkpoint("bert")
    workers = [
        context.Process(target=_encode_into, args=(str(tmp_path), model, tiny.texts()[:4], queue))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=900) for _ in workers]
    for worker in workers:
        worker.join()
    assert results[0] == pytest.approx(results[1], abs=1e-4)
    assert not list(tmp_path.rglob(".partial-*"))
    shared = encoder(model, cache_folder=str(tmp_path))
    before = shared.forward_passes
    shared.encode(tiny.texts()[:4], [3])
    assert shared.forward_passes == before


@pytest.mark.parametrize("damage", ["cut", "nan", "pickle", "config"])
def test_a_damaged_model_is_refused_in_a_sentence(tmp_path, damage):
    import shutil

    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(tiny.checkpoint("bert"), folder)
    weights = folder / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "nan":
        save_file(
            {name: value * torch.nan for name, value in load_file(weights).items()}, weights, {"format": "pt"}
        )
    elif damage == "pickle":
        weights.unlink()
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": threading.Event}))
    else:
        (folder / "config.json").write_text("[1]")
    with pytest.raises(FileError) as caught:
        bertscore = load("bertscore", model=str(folder), layer=1)
        bertscore.compute(["a cat"], ["the cat"])
    assert "\n" not in str(caught.value) and "weights_only" not in str(caught.value)
