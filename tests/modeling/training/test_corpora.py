import dataclasses
import gzip
import json

import datasets
import pytest

from summarily.modeling.training import corpora
from summarily.modeling.training import recipe as recipe_module
from summarily.modeling.training.corpora import Corpus, column, load_corpus, prepare_row, read_duc, share
from summarily.modeling.training.recipe import (
    DataSection,
    ModelSection,
    Recipe,
    TrainingSection,
    data_section,
    load_recipe,
)
from summarily.support.errors import RecipeError

ALL = {"train": "all@0-60", "validation": "all@60-80", "test": "all@80-100"}


def rows_of(n):
    return [{"id": i, "text": f"Document {i} has words", "title": f"Title {i}"} for i in range(n)]


def write(path, rows):
    text = "\n".join(map(json.dumps, rows))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.csv", "x.tsv", "x.parquet"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name):
    frame = datasets.Dataset.from_list(rows_of(20))
    path = tmp_path / name
    if name.endswith((".csv", ".tsv")):
        frame.to_csv(path, sep="\t" if name.endswith("tsv") else ",")
    elif name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        write(path, rows_of(20))
    corpus = load_corpus(DataSection(files={"all": name}, source="text", target="title", **ALL), tmp_path)
    found = sorted((row["source"], row["target"]) for rows in corpus.splits.values() for row in rows)
    assert found == sorted((row["text"], row["title"]) for row in rows_of(20))


def test_columns_are_reached_by_paths_and_joined():
    row = {"sections": [{"heading": "A", "text": ["one .", "two ."]}, {"heading": "B", "text": ["three ."]}],
           "abstract": ["first", "second"], "title": "T"}  # fmt: skip
    section = DataSection(source=["title", "sections[].text"], target="abstract", joiner="\n")
    prepared = prepare_row(row, section)
    assert prepared["source"] == "T\none . two .\nthree ."
    assert prepared["target"] == "first\nsecond"
    with pytest.raises(RecipeError, match="there is no 'body'; the row has sections, abstract, title"):
        prepare_row(row, DataSection(source="body", target="abstract"))
    with pytest.raises(RecipeError, match=r"'title' is a str, not a list; drop the \[\]"):
        corpora.column(row, "title[].x")


def test_one_of_a_list_is_a_column():
    row = {"highlights": ["It snowed.", "It thawed."], "none": [], "text": "It"}
    assert column(row, "highlights[1]") == "It thawed."
    assert column(row, "none[0]") == "" == column(row, "highlights[2]")
    with pytest.raises(RecipeError, match=r"'text' is a str, not a list; drop the \[0\]"):
        column(row, "text[0]")


def test_first_paragraphs_become_headlines_in_true_case(tmp_path):
    section = load_recipe("headlines").data
    article = "By\nAnn Author\n\nPUBLISHED:\n\nOslo (CNN) -- Snow fell on the\nAirport of Oslo and closed it.\n\nMore."
    row = prepare_row(
        {"id": "1", "article": article, "highlights": ["Snow closes Oslo airport", "More"]}, section
    )
    assert row["source"] == "Snow fell on the Airport of Oslo and closed it."
    assert (row["target"], row["reason"], row["fault"]) == ("Snow closes Oslo airport", "", "")
    reuters = data_section("reuters_cased", section)
    raw = {
        "headline": "U.S. BANK, IBM RAISE RATES",
        "first_paragraph": "The U.S. bank said IBM may raise its rates.",
    }
    assert prepare_row(raw, reuters)["target"] == "U.S. bank, IBM raise rates"
    bbc = data_section("bbc_headlines", section)
    raw = {"headline": "Ad sales boost profit", "paragraphs": ["Profits of ad sales rose again.", "More."]}
    assert prepare_row(raw, bbc)["source"] == "Profits of ad sales rose again."


def test_other_data_sets_are_learned_from_and_not_tested_on(tmp_path, monkeypatch):
    for split, count in (("train", 4), ("validation", 2), ("test", 3), ("other", 5)):
        rows = [
            {"text": f"{split} text {i}", "title": f"title {i}", "body": f"body {i}"} for i in range(count)
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(recipe_module, "RECIPES", tmp_path / "recipes")
    (tmp_path / "recipes" / "data").mkdir(parents=True)
    text = '[data]\nsource = "body"\ntarget = "title"\nmax_source_tokens = 7\n[data.files]\ntrain = "other.jsonl"\n'
    (tmp_path / "recipes" / "data" / "other.toml").write_text(text)
    files = {split: f"{split}.jsonl" for split in ("train", "validation", "test")}
    section = DataSection(
        files=files, source="text", target="title", also=["other"], prefix="tldr: ", max_source_tokens=9
    )
    corpus = load_corpus(section, tmp_path)
    assert [len(corpus[split]) for split in ("train", "validation", "test")] == [9, 2, 3]
    assert corpus["train"]["source"][3:5] == ["tldr: train text 3", "tldr: body 0"]
    assert data_section("other", section).max_source_tokens == 9, "lengths belong to the model"
    with pytest.raises(RecipeError, match=r"no recipe file 'othr'; did you mean other\?"):
        Recipe.from_dict({"model": {"name": "bart"}, "training": {"max_steps": 1},
                          "data": {"files": files, "also": ["othr"]}})  # fmt: skip


def test_several_references_are_kept_and_the_first_is_the_target():
    prepared = prepare_row(
        {"d": "x y", "tldrs": ["One", "Two"]}, DataSection(source="d", references="tldrs", lowercase=True)
    )
    assert (prepared["target"], prepared["references"]) == ("one", ["one", "two"])


def test_another_column_can_be_learned_than_scores_are_against():
    row = {"d": "x y z", "gold": "z", "extract": "X Y"}
    section = DataSection(source="d", target="gold", learned="extract", lowercase=True)
    prepared = prepare_row(row, section)
    assert (prepared["target"], prepared["references"]) == ("x y", ["z"])


def test_splits_depend_on_the_content_and_the_seed_alone(tmp_path):
    write(tmp_path / "a.jsonl", rows_of(60))
    write(tmp_path / "b.jsonl", list(reversed(rows_of(60)))[:40])

    def splits(name, seed=0):
        section = DataSection(files={"all": name}, source="text", target="title", split_seed=seed, **ALL)
        return {key: set(rows["source"]) for key, rows in load_corpus(section, tmp_path).splits.items()}

    whole, part, other = splits("a.jsonl"), splits("b.jsonl"), splits("a.jsonl", seed=1)
    assert sum(map(len, whole.values())) == 60 and not whole["train"] & whole["test"]
    assert all(part[key] <= whole[key] for key in whole)
    assert other["train"] != whole["train"]
    shares = [share(str(i)) for i in range(2000)]
    assert abs(sum(value < 30 for value in shares) / 2000 - 0.3) < 0.03


def test_a_column_can_name_the_split(tmp_path):
    write(
        tmp_path / "a.jsonl",
        [{**row, "split": "dev" if row["id"] % 4 == 0 else "train"} for row in rows_of(40)],
    )
    section = DataSection(files={"all": "a.jsonl"}, source="text", target="title", split_column="split",
                          train="train@0-80", validation="train@80-100", test="dev", id="id")  # fmt: skip
    corpus = load_corpus(section, tmp_path)
    assert sorted(corpus["test"]["id"], key=int) == [str(i) for i in range(0, 40, 4)]
    assert len(corpus["train"]) + len(corpus["validation"]) == 30


def test_filters_count_what_they_drop_and_why(tmp_path):
    rows = [
        {"text": "oil rose on monday", "title": "oil rises on monday"},
        {"text": "Oil  rose on Monday", "title": "oil up"},  # the same source again
        {"text": "", "title": "nothing"},
        {"text": "oil", "title": "oil"},
        {"text": "oil rose on tuesday", "title": "oil"},
        {"text": "oil rose on friday", "title": "is oil too dear?"},
        {"text": "oil rose on sunday", "title": "by john smith oil"},
        {"text": "oil rose on the day", "title": "the gold on show"},
    ]
    write(tmp_path / "a.jsonl", rows)
    section = DataSection(files={"train": "a.jsonl"}, source="text", target="title", validation="train", test="train",
                          drop_duplicates=True, headline_filter=True, min_source_words=2, min_target_words=2)  # fmt: skip
    corpus = load_corpus(section, tmp_path)
    assert corpus["train"]["source"][:] == ["oil rose on monday"]
    assert corpus.dropped["train"] == {
        "duplicate source": 1,
        "empty source or target": 1,
        "source under 2 words": 1,
        "target under 2 words": 1,
        "question or colon in the headline": 1,
        "byline or editing mark in the headline": 1,
        "no content word in common": 1,
    }
    assert "train: 1 rows; dropped 1 " in corpus.report()
    assert len(corpus["test"]) == 4  # held-out headlines stay as they are


def test_headlines_are_prepared_as_by_rush(tmp_path):
    section = DataSection(source="t", target="h", ptb_tokens=True, lowercase=True, digits_to_hash=True)
    prepared = prepare_row({"t": "It isn't 3.5 pct, he said.", "h": "Up 10%"}, section)
    assert prepared["source"] == "it is n't #.# pct , he said ."
    assert prepared["target"] == "up ## %"


def test_rare_words_become_unk_but_references_stay(tmp_path):
    rows = [{"text": "oil rose", "title": "oil up"}] * 3 + [{"text": "oil plummeted", "title": "oil plunge"}]
    write(tmp_path / "a.jsonl", rows)
    section = DataSection(files={"train": "a.jsonl"}, source="text", target="title", validation="train", test="train",
                          rare_words_below=2)  # fmt: skip
    last = load_corpus(section, tmp_path)["test"][3]
    assert (last["source"], last["target"], last["references"]) == ("oil UNK", "oil UNK", ["oil plunge"])
    for minimum, kept in ((3, "oil rose"), (4, "oil UNK")):  # "rose" is there three times
        exact = dataclasses.replace(section, rare_words_below=minimum)
        assert load_corpus(exact, tmp_path)["test"][0]["source"] == kept


def test_long_documents_end_with_their_conclusion():
    sections = [("Summary", "a"), ("2 Methods", "b"), ("5. Concluding Remarks", "c"), ("Appendix", "d")]
    row = {"s": [{"h": heading, "t": text} for heading, text in sections], "a": "x"}
    cut = DataSection(source="s[].t", target="a", headings="s[].h", cut_after_conclusion=True)
    assert prepare_row(row, cut)["source"] == "a\nb\nc"
    kept = DataSection(source="s[].t", target="a", headings="s[].h", keep_headings=True)
    assert prepare_row(row, kept)["source"].startswith("Summary\na\n2 Methods\nb")
    with pytest.raises(RecipeError, match=r"data\.headings has 4 entries but the source has 1 parts"):
        prepare_row(row, DataSection(source="a", target="a", headings="s[].h", cut_after_conclusion=True))


@pytest.mark.parametrize(
    ("option", "text", "stripped"),
    [
        ("cnn_marker", "(CNN)James Best died.", "James Best died."),
        ("cnn_marker", "Moscow (CNN) -- A channel said (CNN) so.", "A channel said (CNN) so."),
        ("sentence_marks", "<S> we show . </S> < S > more . < /S >", "we show . more ."),
        ("math_marks", "let @xmath12 be as in @xcite .", "let be as in ."),
    ],
)
def test_marks_are_kept_unless_asked_to_be_stripped(option, text, stripped):
    assert corpora.clean(text, DataSection()) == text
    assert corpora.clean(text, DataSection(**{option: "strip"})) == stripped


def test_a_stream_gives_the_rows_of_a_file(tmp_path):
    write(tmp_path / "a.jsonl", rows_of(30))
    options = {"files": {"all": "a.jsonl"}, "source": "text", "target": "title", "limits": {"test": 2}, **ALL}
    stored = load_corpus(DataSection(**options), tmp_path)
    streamed = load_corpus(DataSection(streaming=True, **options), tmp_path)
    for split in corpora.SPLITS:
        assert list(streamed[split]) == list(stored[split])
    assert len(stored["test"]) == 2 and "train: a stream" in streamed.report()


def test_duc_is_read_with_its_four_references(tmp_path):
    folder = tmp_path / "duc2004"
    folder.mkdir()
    (folder / "input.txt").write_text("first sentence\nsecond sentence\n")
    for i in range(4):
        (folder / f"task1_ref{i}.txt").write_text(f"first {i}\nsecond {i}\n")
    assert read_duc(folder)[1]["references"] == [f"second {i}" for i in range(4)]
    write(tmp_path / "a.jsonl", rows_of(5))
    section = DataSection(
        files={"train": "a.jsonl", "test": "duc2004"}, source="text", target="title", validation="train"
    )
    test = load_corpus(section, tmp_path)["test"]
    assert test[0]["source"] == "first sentence" and len(test[0]["references"]) == 4
    (folder / "task1_ref3.txt").write_text("first 3\n")
    with pytest.raises(RecipeError, match=r"task1_ref3.txt has 1 lines but input.txt has 2"):
        read_duc(folder)
    (folder / "task1_ref3.txt").unlink()
    with pytest.raises(RecipeError, match="found 3 of them"):
        read_duc(folder)


def test_summaries_are_cut_in_whole_characters():
    assert corpora.cut_bytes("é" * 50, 75) == "é" * 37
    assert corpora.cut_words(" ".join("abcdefghijklmnopq"), 14).endswith("n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": {"all": "missing.jsonl"}}, "SUMMARILY_DATA"),
        ({"files": {"all": "a.doc"}}, "unknown kind of file"),
        ({"train": "other"}, "there is no split 'other': data.files has all"),
        ({"train": "all@90-10"}, "is not a split"),
        ({"min_source_words": 99}, "has no rows left"),
        ({"split_column": "title", "files": {"all": "a.jsonl", "more": "a.jsonl"}}, "divides one file"),
    ],
)
def test_mistakes_in_the_data_section_are_named(tmp_path, changes, message):
    write(tmp_path / "a.jsonl", rows_of(5))
    (tmp_path / "a.doc").write_text("")
    values = {"files": {"all": "a.jsonl"}, "source": "text", "target": "title", **ALL, **changes}
    with pytest.raises(RecipeError, match=message):
        load_corpus(DataSection(**values), tmp_path)


def test_the_data_folder_comes_from_the_environment(tmp_path, monkeypatch):
    write(tmp_path / "a.jsonl", rows_of(30))
    monkeypatch.setenv("SUMMARILY_DATA", str(tmp_path))
    corpus = load_corpus(DataSection(files={"all": "a.jsonl"}, source="text", target="title", **ALL))
    assert isinstance(corpus, Corpus) and len(corpus["train"]) > 10


def test_parts_without_a_heading_can_be_dropped():
    sections = [
        {"heading": None, "text": "The abstract."},
        {"heading": "1 Introduction", "text": "The body."},
    ]
    section = DataSection(
        files={"all": "a.jsonl"},
        source="sections[].text",
        headings="sections[].heading",
        target="abstract",
        drop_unheaded=True,
    )
    row = {"abstract": "The abstract.", "sections": sections}
    assert prepare_row(row, section)["source"] == "The body."
    row["sections"] = sections[:1]
    assert prepare_row(row, section)["source"] == "The abstract.", (
        "all of them are kept if none has a heading"
    )


def test_random_starts_are_encoded_as_the_start_tokenizer_cuts(tmp_path):
    from datasets import Dataset

    from summarily.modeling.training.corpora import encode
    from summarily.modeling.training.random_starts import StartTokenizer
    from summarily.modeling.training.recipe import TokenizerSection
    from summarily.modeling.training.tokenizers import train_tokenizer

    texts = [" ".join(f"word{n}" for n in range(50 * i, 50 * i + 50)) for i in range(4)]
    special = TokenizerSection(kind="word", min_frequency=1, special_tokens="bart")
    tokenizer = train_tokenizer(texts, special)
    rows = Dataset.from_dict({"id": list("abcd"), "source": texts, "target": ["word0"] * 4})
    options = {"files": {"all": "a.jsonl"}, "max_source_tokens": 10}
    random = encode(rows, tokenizer, DataSection(**options, starts="random", starts_seed=5))
    cut = StartTokenizer(tokenizer, 10, "random", seed=5)
    assert random["input_ids"][:] == [
        cut(text, example_id=name).input_ids for name, text in zip("abcd", texts, strict=True)
    ]
    # A prefix stays where it is, behind the start token, and takes its room.
    said = rows.map(lambda row: {"source": "word1 word2 " + row["source"]})
    prefixed = encode(
        said, tokenizer, DataSection(**options, starts="random", starts_seed=5, prefix="word1 word2 ")
    )
    shorter = StartTokenizer(tokenizer, 8, "random", seed=5)
    for ids, name, text in zip(prefixed["input_ids"], "abcd", texts, strict=True):
        first, *rest = shorter(text, example_id=name).input_ids
        assert ids == [first, *tokenizer.convert_tokens_to_ids(["word1", "word2"]), *rest]
    beginning = encode(rows, tokenizer, DataSection(**options))
    assert all(len(ids) == 10 and ids[0] == 0 and ids[-1] == 2 for ids in beginning["input_ids"])
    assert random["input_ids"][:] != beginning["input_ids"][:]


def test_a_target_that_stands_in_the_source_can_be_dropped():
    row = {"text": "We study windows of tokens. They are wide.", "title": "we study windows of tokens."}
    section = DataSection(files={"all": "a.jsonl"}, source="text", target="title", max_copied=0.5)
    assert prepare_row(row, section)["reason"] == "over 50% of the target in the source"
    assert not prepare_row({**row, "title": "Wide windows of many tokens"}, section)["reason"]
    assert not prepare_row(row, DataSection(files={"all": "a.jsonl"}, source="text", target="title"))[
        "reason"
    ]


def test_training_can_ask_for_targets_that_stand_in_what_is_read(tmp_path):
    rows = [
        {"text": "oil rose on monday and gold fell again", "title": "oil rose on monday"},  # both trigrams
        {
            "text": "gold fell again and oil rose on monday",
            "title": "oil rose on monday",
        },  # after the fifth word
        {
            "text": "oil rose on monday and gold fell again",
            "title": "oil rose on monday and then silver",
        },  # 3 of 5
        {"text": "oil rose on monday and gold fell again", "title": "crude went up"},
    ]
    write(tmp_path / "a.jsonl", rows)
    section = DataSection(files={"train": "a.jsonl"}, source="text", target="title", validation="train", test="train",
                          min_copied=0.6, copied_words=5)  # fmt: skip
    corpus = load_corpus(section, tmp_path)
    assert corpus["train"]["target"][:] == [rows[0]["title"], rows[2]["title"]]
    reason = "under 60% of the target in the first 5 words of the source"
    assert corpus.dropped["train"] == {reason: 2}
    assert len(corpus["test"]) == 4  # held-out articles stay as they are
    assert len(load_corpus(dataclasses.replace(section, copied_words=None), tmp_path)["train"]) == 3
    for wrong, sentence in [
        ({"min_copied": 1.5}, "min_copied is 1.5"),
        ({"min_copied": 0.0}, "copied_words says"),
    ]:
        with pytest.raises(RecipeError, match=sentence):
            Recipe(
                ModelSection("t5"),
                dataclasses.replace(section, **wrong),
                training=TrainingSection(max_steps=1),
            )


def test_an_article_loses_its_furniture_and_a_summary_keeps_its_sentences_apart():
    section = DataSection(
        source="article", target="highlights", news_furniture="strip", cnn_marker="strip", target_stops=True
    )
    row = {
        "article": "By\nAnn Author\n\nPUBLISHED:\n\n10:50 EST, 4 October 2012\n\nIt\nrained.\n\nScroll down for video\n\nThen it stopped.",
        "highlights": ["It rained", "Then it stopped ."],
    }
    prepared = prepare_row(row, section)
    assert prepared["source"] == "It rained.\nThen it stopped."
    assert prepared["target"] == "It rained.\nThen it stopped."
    assert prepared["references"] == ["It rained.\nThen it stopped."]


def test_what_other_code_prepared_is_not_taken_from_the_cache(tmp_path, monkeypatch):
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"text": "It rained all day.", "title": "Rain"}))
    section = DataSection(files={"train": "pairs.jsonl"}, source="text", target="title")
    section = dataclasses.replace(section, validation="train", test="train")
    assert load_corpus(section, tmp_path)["train"]["source"] == ["It rained all day."]
    monkeypatch.setattr(corpora, "clean", lambda text, section: text.upper())
    assert load_corpus(section, tmp_path)["train"]["source"] == ["It rained all day."], (
        "the same code: cached"
    )
    monkeypatch.setattr(corpora.inspect, "getsource", lambda module: "changed")
    assert load_corpus(section, tmp_path)["train"]["source"] == ["IT RAINED ALL DAY."]
