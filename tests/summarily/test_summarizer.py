"""One call summarizes; the pipeline and the command say the same."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

import summarily
from summarily.cli import main
from summarily.modeling.generation.summarizer import LONG, Summarizer
from summarily.support.errors import FileError, InputError, InputTypeError

STORY = "Norsk Papir AS said its board approved a two-for-one stock split and raised its quarterly dividend."
OTHER = "Crude oil prices rose after the ministers of four producers met in Vienna, traders said."


@pytest.fixture(scope="module")
def headlines():
    return Summarizer("headlines")


@pytest.fixture
def tiny(tiny_summarizer):
    return Summarizer.of(tiny_summarizer["model"], tiny_summarizer["tokenizer"])


def test_one_text_and_a_list_in_any_order_and_batch(headlines):
    texts = [STORY, OTHER, STORY + " It rained in Oslo.", "", OTHER]
    one_by_one = [headlines(text) for text in texts]
    assert isinstance(one_by_one[0], str) and one_by_one[0] != one_by_one[1]
    assert one_by_one[3] == ""
    for batch_size in (1, 2, 5):
        assert headlines(texts, batch_size=batch_size) == one_by_one
    assert headlines(texts[::-1]) == one_by_one[::-1]
    assert headlines([]) == []


def test_generation_options_reach_the_model(headlines):
    short, whole = headlines(STORY, max_length=3, num_beams=1), headlines(STORY, num_beams=1)
    assert whole.startswith(short) and len(short) < len(whole)
    assert headlines(STORY, num_beams=4) != headlines(OTHER, num_beams=4)
    with pytest.raises(ValueError, match="not used by the model"):
        headlines(STORY, beams=4)


def test_the_pipeline_gives_the_same_text(headlines):
    from transformers import pipeline

    from summarily.hub_cards import folder

    pipe = pipeline("summarization", model=folder("headlines"), device="cpu")
    assert pipe.model.dtype == torch.float32
    texts = [STORY, OTHER, STORY + " It rained in Oslo."]
    expected = [{"summary_text": summary} for summary in headlines(texts)]
    assert pipe(STORY) == expected[:1]
    assert pipe(texts) == expected
    assert pipe(texts, batch_size=2) == expected
    assert list(pipe(text for text in texts)) == expected
    assert pipe(STORY, num_beams=3, max_length=9)[0]["summary_text"] == headlines(
        STORY, num_beams=3, max_length=9
    )
    ten_thousand_words = " ".join([STORY, OTHER] * 340)
    assert len(ten_thousand_words.split()) > 10_000
    [long] = pipe(ten_thousand_words, long="chunk", max_length=4)
    assert long["summary_text"] == headlines(ten_thousand_words, long="chunk", max_length=4)


def test_the_pipeline_takes_the_options_of_transformers_4(tiny_summarizer):
    """What programs written for its pipeline pass, with the results they got."""
    from transformers import pipeline

    tokenizer = tiny_summarizer["tokenizer"]
    pipe = pipeline("summarization", model=tiny_summarizer["model"], tokenizer=tokenizer, device="cpu")
    texts = ["the cat sat on a mat", "snow fell"]
    plain = pipe(texts)
    assert pipe(texts, truncation=True, return_text=True) == plain
    assert pipe(texts, clean_up_tokenization_spaces=True) == plain
    [tokens] = pipe(texts[0], return_tensors=True)
    assert (
        tokenizer.decode(tokens["summary_token_ids"], skip_special_tokens=True).strip()
        == plain[0]["summary_text"]
    )
    several = pipe(texts, num_beams=3, num_return_sequences=2)
    assert [len(drafts) for drafts in several] == [2, 2] and several[0][0] != several[0][1]
    assert pipe(texts[1], num_beams=3, num_return_sequences=2) == several[1]
    of_list = Summarizer.of(tiny_summarizer["model"], tokenizer)(texts, num_beams=3, num_return_sequences=2)
    assert of_list == [[draft["summary_text"] for draft in drafts] for drafts in several]


def test_the_pipeline_says_what_cannot_be_had(tiny_summarizer):
    from transformers import pipeline

    pipe = pipeline(
        "summarization", tiny_summarizer["model"], tokenizer=tiny_summarizer["tokenizer"], device="cpu"
    )
    long = "the cat sat on a mat " * 12
    with pytest.raises(InputError, match="longer than the 32 tokens"):
        pipe(long, truncation=False)
    with pytest.warns(UserWarning, match="longer than the 32 tokens"):
        pipe(long, truncation="longest_first")
    for options, message in (
        ({"truncation": "only_second"}, "truncation='only_second'"),
        ({"truncation": True, "long": "chunk"}, "give one of them"),
        ({"return_tensors": True, "return_text": True}, "exclude each other"),
        ({"long": "chunk", "return_tensors": True}, "tokens of one pass"),
        (
            {"long": "chunk", "num_beams": 2, "num_return_sequences": 2},
            "needs texts that the model takes at once",
        ),
    ):
        with pytest.raises(InputError, match=message):
            pipe(long, **options)


def test_a_pipeline_without_a_model_is_the_default_summarizer(monkeypatch, tiny_summarizer, tmp_path):
    from transformers import pipeline

    from summarily.modeling.generation import summarizer as module

    for part in ("model", "tokenizer"):
        tiny_summarizer[part].save_pretrained(tmp_path)
    asked = []
    monkeypatch.setattr(module, "checkpoint", lambda name: asked.append(name) or str(tmp_path))
    pipe = pipeline("summarization", device="cpu")
    assert asked == ["news"] and pipe("snow fell") == [
        {"summary_text": Summarizer(str(tmp_path))("snow fell")}
    ]


def test_importing_the_package_is_enough_for_the_pipeline():
    """Whichever of the two is imported first, and without loading pipelines for those who do not use them."""
    check = "assert 'summarization' in transformers.pipelines.get_supported_tasks()"
    for program in (
        f"import summarily, sys; assert 'transformers' not in sys.modules; import transformers.pipelines; {check}",
        f"import transformers.pipelines, summarily; {check}",
    ):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=900)


def test_importing_leaves_garbage_collection_as_it_was(monkeypatch):
    import gc

    from summarily.modeling.generation import summarizer as module

    def check(collects):
        module._import_libraries()
        assert gc.isenabled() == collects

    assert gc.isenabled()
    try:
        check(True)
        gc.disable()
        check(False)
        gc.enable()
        seen = []

        def broken(name):
            seen.append(gc.isenabled())
            raise ImportError(name)

        monkeypatch.setattr(module.importlib, "import_module", broken)
        with pytest.raises(ImportError, match="torch"):
            module._import_libraries()
        assert seen == [False] and gc.isenabled()
    finally:
        gc.enable()


def test_ten_thousand_words_in_one_pass_of_led(tiny_summarizer):
    from summarily.modeling import LedForConditionalGeneration

    model = LedForConditionalGeneration.from_bart(
        tiny_summarizer["model"], max_encoder_position_embeddings=12_000, attention_window=32
    )
    led = Summarizer.of(model, tiny_summarizer["tokenizer"])
    words = ["the", "cat", "sat", "on", "a", "mat", "today", "snow", "fell"]
    text = " ".join(words[i * i % 9] for i in range(10_000))
    assert led.source_limit == 12_000
    whole = led(text, long="error", num_beams=1)
    assert whole
    # It has read the end as well: the state it writes from changes with the last word.
    with torch.inference_mode():
        ids = led.tokenizer([text, text + " barked"], return_tensors="pt", padding=True)
        states = model.get_encoder()(**ids).last_hidden_state
    assert not torch.allclose(states[0, 0], states[1, 0], atol=1e-7)


def test_a_text_that_is_too_long_is_never_cut_silently(tiny):
    text = "the cat sat on a mat " * 12
    assert tiny.source_limit == 32
    with pytest.warns(UserWarning, match=r"1 of 2 texts \(the first is texts\[1\]\) are longer than the 32"):
        cut = tiny(["snow fell", text])
    kept = tiny.tokenizer.decode(tiny.tokenizer(text)["input_ids"][:32], skip_special_tokens=True)
    assert cut[1] == tiny(kept)
    with pytest.raises(InputError, match=r"texts\[1\] is longer than the 32 tokens"):
        tiny(["snow fell", text], long="error")


def test_chunks_hold_every_word_in_whole_sentences(tiny):
    sentence = "the cat sat on a mat ."
    text = " ".join([sentence] * 9) + " " + "snow fell " * 40
    chunks = tiny._chunks(text, tiny._room(20))
    assert " ".join(chunks).split() == text.split()
    assert all(len(tiny.tokenizer(chunk)["input_ids"]) <= 20 for chunk in chunks)
    assert chunks[0] == f"{sentence} {sentence}"
    joined = tiny(text, long="chunk", max_source_length=20)
    assert joined == " ".join(tiny(chunk) for chunk in chunks)


def test_what_fills_the_room_exactly_is_neither_too_long_nor_cut(tiny):
    sentence = "the cat sat on a mat ."
    two = f"{sentence} {sentence}"
    assert tiny._length(two) == tiny._room(14) == 14
    assert tiny._longer_than(14, [two, f"{two} the", sentence]) == [1]
    assert tiny._chunks(f"{two} {two}", 14) == [two, two]
    assert tiny._chunks(f"{two} {two}", 13) == [sentence] * 4


def test_a_sentence_without_blanks_is_cut_too():
    """Nothing is dropped in silence, in languages without blanks either."""
    from summarily.modeling.training.recipe import TokenizerSection
    from summarily.modeling.training.tokenizers import train_tokenizer

    tokenizer = train_tokenizer(["雪"], TokenizerSection(kind="bpe", vocabulary_size=300))
    summarizer = Summarizer.__new__(Summarizer)
    summarizer.tokenizer = tokenizer
    text = "雪が降り空港が閉鎖された" * 9
    chunks = summarizer._chunks(text, 50)
    assert len(chunks) > 3 and "".join(chunks) == text
    assert all(len(tokenizer(chunk, add_special_tokens=False)["input_ids"]) <= 50 for chunk in chunks)


def test_a_checkpoint_says_how_it_summarizes():
    """T5 was trained with a prefix, and its config holds the lengths and beams for the task."""
    from tests.modeling.tiny_t5 import tiny_t5_summarizer

    t5 = tiny_t5_summarizer(max_length=7, min_length=7, num_beams=2)
    model, tokenizer = t5.model, t5.tokenizer
    seen = {}
    generate = model.generate

    def watched(inputs=None, **options):
        seen.update(options)
        return generate(**options)

    model.generate = watched
    t5("the cat sat")
    assert tokenizer.decode(seen["input_ids"][0]).startswith("summarize : the cat sat")
    assert (seen["max_length"], seen["num_beams"]) == (7, 2) and "prefix" not in seen
    seen.clear()
    t5("the cat sat", max_length=3, num_beams=1)
    assert seen["max_new_tokens"] == 3 and seen["num_beams"] == 1 and seen["max_length"] is None
    assert t5._room(20) == 20 - 1 - 2  # the end token and the prefix


def test_reduce_ends_with_one_summary(tiny):
    text = "the cat sat on a mat . " * 30
    reduced = tiny(text, long="reduce", batch_size=3)
    assert 0 < len(reduced.split()) <= 9
    with pytest.raises(InputError, match="no shorter than the text"):
        tiny(
            "the cat sat on a mat . " * 3,
            long="reduce",
            max_source_length=8,
            min_new_tokens=12,
            max_length=14,
        )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({"texts": None}, InputTypeError, "texts is a NoneType"),
        ({"texts": ["a", 3]}, InputTypeError, r"texts\[1\] is a int"),
        ({"texts": "a", "long": "cut"}, InputError, f"choose one of {', '.join(LONG)}"),
        ({"texts": "a", "batch_size": 0}, InputError, "batch_size=0"),
        ({"texts": "a", "max_length": 0}, InputError, "max_length=0"),
        ({"texts": "a", "max_source_length": 3}, InputError, "at least 8"),
        ({"texts": "a", "max_source_length": 99}, InputError, "at most 32"),
    ],
)
def test_bad_input_is_named(tiny, call, error, message):
    with pytest.raises(error, match=message):
        tiny(**call)


def test_an_unknown_checkpoint_names_the_shipped_ones(tmp_path):
    with pytest.raises(InputError, match=r"cannot load a summarizer from .*shipped models: .*headlines"):
        Summarizer(str(tmp_path))
    with pytest.raises(InputError, match="not a dtype"):
        Summarizer("headlines", dtype="float33")


def test_a_model_that_copies_writes_words_it_has_never_seen():
    from summarily.modeling import PointerGeneratorConfig, PointerGeneratorForConditionalGeneration
    from summarily.modeling.training.recipe import TokenizerSection
    from summarily.modeling.training.tokenizers import train_tokenizer

    tokenizer = train_tokenizer(["the goal by"], TokenizerSection(kind="copy", min_frequency=1))
    torch.manual_seed(0)
    config = PointerGeneratorConfig(
        vocab_size=len(tokenizer), hidden_size=8, embedding_size=8, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0
    )  # fmt: skip
    model = PointerGeneratorForConditionalGeneration(config)
    with torch.no_grad():  # always copy
        model.copy_switch.bias.fill_(50.0)
    copier = Summarizer.of(model, tokenizer)
    written = copier(["Wilshere Ramsey", "Carlos Ruiz the"], max_length=4, min_new_tokens=3)
    assert set(written[0].split()) <= {"Wilshere", "Ramsey"} and written[0]
    assert set(written[1].split()) <= {"Carlos", "Ruiz", "the"} and written[1]


def test_progress_is_shown_when_asked(tiny, capsys):
    tiny(["snow fell"] * 3, progress=True)
    assert "summarizing" in capsys.readouterr().err
    tiny(["snow fell"] * 3)
    assert capsys.readouterr().err == ""


def test_the_command(headlines, tmp_path, capsys, monkeypatch):
    story = tmp_path / "story.txt"
    story.write_text(STORY, encoding="utf-8")
    assert main(["summarize", str(story), "--model", "headlines"]) == 0
    assert capsys.readouterr().out.strip() == headlines(STORY)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{STORY}\n{OTHER}\n"))
    assert main(["summarize", "-", "--lines", "--beams", "2", "--model", "headlines"]) == 0
    assert capsys.readouterr().out.splitlines() == headlines([STORY, OTHER], num_beams=2)
    table, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    table.write_text(json.dumps({"source": STORY}) + "\n", encoding="utf-8")
    assert main(["summarize", str(table), "--model", "headlines", "--output", str(output)]) == 0
    assert json.loads(output.read_text()) == {"text": STORY, "summary": headlines(STORY)}
    story.write_text(" ".join([STORY] * 20), encoding="utf-8")
    assert main(["summarize", str(story), "--model", "headlines", "--long", "truncate"]) == 0
    captured = capsys.readouterr()
    assert "long='chunk' reads everything" in captured.err and "summarizer.py" not in captured.err
    story.write_text(" \n", encoding="utf-8")
    assert main(["summarize", str(story), "--model", "headlines"]) == 2
    assert "holds no text" in capsys.readouterr().err


def test_the_command_shows_a_bundled_article_and_its_summary(headlines, capsys):
    assert main(["summarize", "--sample", "--model", "headlines", "--long", "truncate"]) == 0
    article = summarily.load_sample()[0]["source"]
    shown = capsys.readouterr().out
    assert article in shown and shown.rstrip().endswith(headlines(article))
    assert main(["summarize", "--sample", "story.txt"]) == 2
    assert "leave out story.txt" in capsys.readouterr().err
    assert main(["summarize"]) == 2
    assert "name a file, a folder, - for standard input, or --sample" in capsys.readouterr().err


def test_the_public_name():
    assert summarily.Summarizer is Summarizer


def test_the_command_counts_what_the_model_does_not_read(tiny_summarizer, tmp_path, monkeypatch, capsys):
    for part in ("model", "tokenizer"):
        tiny_summarizer[part].save_pretrained(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("snow fell\n" + "the cat sat on a mat " * 12 + "\n"))
    assert main(["summarize", "-", "--lines", "--model", str(tmp_path), "--long", "truncate"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert "summarily: 1 of 2 texts (the first is texts[1]) are longer than the 32 tokens" in said.err


def test_without_the_base_the_default_summarizer_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    import importlib.metadata

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setenv("SUMMARILY_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    story = tmp_path / "story.txt"
    story.write_text(STORY)
    assert main(["summarize", str(story)]) != 0
    said = capsys.readouterr().err
    assert 'pip install "' in said and '[offline]"' in said and len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["num_beams", "num_return_sequences"])
def test_no_beams_are_refused(tiny, option):
    with pytest.raises(InputError, match=f"{option}=0 must be at least 1"):
        tiny("Snow fell.", **{option: 0})


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_weights_that_are_no_numbers_are_refused(tiny, tmp_path, kind):
    tiny.model.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    parameters = dict(tiny.model.named_parameters())
    name = next(
        name
        for name, value in state.items()
        if value.ndim == 2 and (name in parameters) == (kind == "parameter")
    )
    state[name] = state[name].clone()
    state[name][0, 0] = torch.nan
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FileError, match=r"its weight .* is not finite"):
        Summarizer(str(tmp_path))


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"[" * 100_000, b'{"model_type": 3}'])
def test_damaged_files_are_refused_in_a_sentence(tiny, tmp_path, file, content):
    tiny.model.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match="cannot load a summarizer from"):
        Summarizer(str(tmp_path))


def test_the_time_for_text_without_full_stops_grows_with_its_length(tiny, monkeypatch):
    read = 0
    length = Summarizer._length

    def counted(self, text):
        nonlocal read
        read += len(text)
        return length(self, text)

    monkeypatch.setattr(Summarizer, "_length", counted)
    costs = []
    for words in (500, 1000):
        read = 0
        text = "snow fell on the town " * words
        pieces = tiny._chunks(text, 16)
        assert " ".join(pieces).split() == text.split()
        assert all(length(tiny, piece) <= 16 for piece in pieces)
        costs.append(read)
    assert costs[1] < 2.2 * costs[0]
