"""Reading judgements: the published sets, and tables as people have them."""

import csv
import json

import pytest

from summarily.metrics.meta_evaluation import human
from summarily.metrics.meta_evaluation.human import Columns, read_judgements
from summarily.support.errors import InputError
from tests.metrics.meta_evaluation.conftest import write_jsonl


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)
    return str(path)


def test_chaganty_has_its_digits_back_and_counts_what_it_leaves_out(folder):
    read = read_judgements("chaganty", folder=folder)
    assert read.references[0] == ["Reference 0 of 2015 ."]
    assert len(read) == 5 and set(read.systems) == {"ml", "pointer"} and len(set(read.inputs)) == 3
    assert read.dropped == {"without a score for overall": 1, "reference rows": 3}
    assert read.sources is None


@pytest.mark.parametrize(
    ("name", "question", "references"),
    [("summeval", "relevance", 2), ("realsumm", "litepyramid_recall", 2), ("frank", "Factuality", 1)],
)
def test_sets_in_two_files_are_joined(folder, name, question, references):
    read = read_judgements(name, folder=folder)
    assert (read.question, len(read), len(read.references[0])) == (question, 4, references)
    assert read.sources == ["article 0", "article 0", "article 1", "article 1"]
    assert read.systems == ["x", "y", "x", "y"]


def test_a_question_that_nobody_was_asked_is_named_with_those_there_are(folder):
    with pytest.raises(InputError, match=r"'style'.*coherence.*relevance"):
        read_judgements("summeval", "style", folder)


def test_summeval_as_it_is_on_the_hub(tmp_path):
    rows = [
        {
            "machine_summaries": ["a", "b"],
            "human_summaries": ["r"] * 11,
            "relevance": [1.0, 2.0],
            "text": f"t{i}",
        }
        for i in range(2)
    ]
    write_jsonl(tmp_path / "summeval.jsonl.gz", rows)
    read = read_judgements(str(tmp_path / "summeval.jsonl.gz"))
    assert (read.human, read.systems) == ([1.0, 2.0] * 2, ["M0", "M1"] * 2)
    assert len(read.references[0]) == 11 and read.sources == ["t0", "t0", "t1", "t1"]


def test_realsumm_as_it_is_on_the_hub(tmp_path):
    header = ["doc_id", "model", "model_summary", "ref_summary", "litepyramid_recall", "source"]
    rows = [[d, m, f"{m} on {d}", f"ref {d}", 0.1 * d, "text"] for d in range(2) for m in ("bart", "t5")]
    read = read_judgements(write_csv(tmp_path / "realsumm.csv", header, rows))
    assert read.human == [0.0, 0.0, 0.1, 0.1] and read.inputs == ["0", "0", "1", "1"]
    assert read.systems == ["bart", "t5"] * 2


def test_essays_are_those_of_question_3_against_one_reference(tmp_path):
    five = "The road was hot. He had no water. The town was empty. He was tired. He went on."
    lines = ["essay_id\tessay_set\tessay\tdomain1_score"]
    lines += [f"{i}\t3\t{five} Café {i}.\t{i % 4}" for i in range(4)]
    lines += [f"8\t3\tToo short.\t1\n9\t1\t{five}\t2"]
    file = tmp_path / "training_set.tsv"
    file.write_bytes("\n".join(lines).encode("cp1252"))  # as published: not UTF-8
    read = read_judgements(str(file), reference_text="The best essay.")
    assert read.human == [0.0, 1.0, 2.0, 3.0] and read.references[3] == ["The best essay."]
    assert "Café" in read.summaries[0] and len(set(read.inputs)) == 1
    with pytest.raises(InputError, match="--reference-file"):
        read_judgements(str(file))


def test_wrong_column_names_are_named_with_the_right_ones(tmp_path):
    file = write_csv(tmp_path / "mine.csv", ["sumary", "gold", "stars"], [["a", "b", 1]] * 4)
    with pytest.raises(
        InputError,
        match=r"no column 'summary'.*sumary, gold, stars.*Did you mean 'sumary'\?.*--summary-column",
    ):
        read_judgements(file)
    with pytest.raises(InputError, match="no column 'system_name' for the system"):
        read_judgements(file, columns=Columns("sumary", "gold", "stars", system="system_name"))
    assert len(read_judgements(file, columns=Columns("sumary", "gold", "stars"))) == 4


def test_missing_scores_are_left_out_and_counted(tmp_path):
    rows = [
        ["a", "r", 1],
        ["b", "r", ""],
        ["c", "r", "NA"],
        ["d", "r", 2],
        ["e", "r", "nan"],
        ["f", "r", 3],
        ["g", "", 3],
    ]
    read = read_judgements(write_csv(tmp_path / "mine.csv", ["summary", "reference", "human"], rows))
    assert read.human == [1, 2, 3]
    assert read.dropped == {"without a score for human": 3, "without a summary or reference": 1}
    assert "3 without a score for human" in read.describe()


def test_a_score_that_is_no_number_is_named_with_its_row(tmp_path):
    file = write_csv(
        tmp_path / "mine.csv", ["summary", "reference", "human"], [["a", "r", 1], ["b", "r", "good"]]
    )
    with pytest.raises(InputError, match="row 1: the human score 'human' is 'good'"):
        read_judgements(file)


def test_two_rows_are_too_few_to_correlate(tmp_path):
    file = write_csv(tmp_path / "mine.csv", ["summary", "reference", "human"], [["a", "r", 1], ["b", "r", 2]])
    with pytest.raises(InputError, match="2 judged summaries; two points always correlate perfectly"):
        read_judgements(file)


def test_several_scores_in_one_column_need_a_question(tmp_path):
    rows = [{"summary": "s", "reference": "r", "human": {"style": i, "facts": 1}} for i in range(3)]
    write_jsonl(tmp_path / "mine.jsonl.gz", rows)
    with pytest.raises(InputError, match=r"several scores \(style, facts\); name one with --question"):
        read_judgements(str(tmp_path / "mine.jsonl.gz"))
    assert read_judgements(str(tmp_path / "mine.jsonl.gz"), "style").human == [0.0, 1.0, 2.0]


def test_a_question_names_the_column_of_a_plain_table(tmp_path):
    rows = [["s", "r", i, 9 - i] for i in range(3)]
    file = write_csv(tmp_path / "mine.csv", ["summary", "reference", "style", "facts"], rows)
    assert read_judgements(file, "facts").human == [9.0, 8.0, 7.0]


def test_rows_are_chosen_by_a_condition(tmp_path):
    rows = [["s", "r", i, "news" if i % 2 else "law"] for i in range(8)]
    file = write_csv(tmp_path / "mine.csv", ["summary", "reference", "human", "field"], rows)
    assert read_judgements(file, where={"field": "news"}).human == [1, 3, 5, 7]
    with pytest.raises(InputError, match="no row has field = 'sport'; there are: law, news"):
        read_judgements(file, where={"field": "sport"})


def test_without_an_input_column_equal_references_are_one_input(tmp_path):
    rows = [["s", f"r{i // 2}", i] for i in range(6)]
    read = read_judgements(write_csv(tmp_path / "mine.csv", ["summary", "reference", "human"], rows))
    assert len(set(read.inputs)) == 3 and set(read.systems) == {"the only system"}


def test_a_set_that_is_not_on_the_hub_asks_for_its_folder(monkeypatch):
    monkeypatch.delenv("SUMMARILY_DATA", raising=False)
    with pytest.raises(InputError, match="--data or SUMMARILY_DATA"):
        read_judgements("chaganty")


def test_a_set_by_its_name_on_the_hub(tmp_path, monkeypatch):
    """`datasets` takes a folder where it takes a name, which is as much of the Hub as there is here."""
    monkeypatch.delenv("SUMMARILY_DATA", raising=False)
    folder = tmp_path / "owner" / "set"
    folder.mkdir(parents=True)
    rows = [
        {"machine_summaries": ["a", "b"], "human_summaries": ["r", "q"], "relevance": [1.0, 2.0], "coherence": [3.0, 1.0], "text": "t"}
    ] * 2  # fmt: skip
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_judgements(str(folder)).human == [1.0, 2.0, 1.0, 2.0]
    reader, question, (_, split) = human.READERS["summeval"]
    monkeypatch.setitem(human.READERS, "summeval", (reader, question, (str(folder), split)))
    assert read_judgements("summeval", "coherence").human == [3.0, 1.0, 3.0, 1.0]
    monkeypatch.setitem(human.READERS, "summeval", (reader, question, (str(folder / "nothing"), split)))
    with pytest.raises(InputError, match=r"neither a file nor a data set.*--data or SUMMARILY_DATA"):
        read_judgements("summeval")


def test_what_named_sets_do_not_take_is_refused():
    with pytest.raises(InputError, match="where goes with a table of your own"):
        read_judgements("summeval", where={"system": "M1"})
    with pytest.raises(InputError, match="columns goes with a table"):
        read_judgements("chaganty", columns=Columns("a", "b", "c"))


def write_archive(folder, topics=("D1101-A", "D1101-B")):
    """An evaluation archive of TAC 2011, in miniature: two topics, two people, three systems."""
    for topic in topics:
        for kind, writers in (("models", "AB"), ("peers", "123")):
            for writer in writers:
                path = folder / f"ROUGE/{kind}/{topic}.M.100.A.{writer}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(f"caf\xe9 {topic} by {writer}\n".encode("latin-1"))
    (folder / "manual").mkdir()
    for group in "AB":
        lines = [f"D1101-{group} {i} 0.{i}00 4 0 8 0 0.{i}50 {i} {6 - i}" for i in (1, 2, 3, 9)]
        (folder / f"manual/manual.peer.{group}").write_text("\n".join(lines) + "\n")
        (folder / f"manual/manual.model.{group}").write_text(f"D1101-{group} A 9 0 8 0.8 5 5\n")
    return folder


def test_tac_is_read_as_nist_packs_it(tmp_path):
    read = read_judgements(str(write_archive(tmp_path / "GuidedSumm2011_eval")))
    assert (read.name, read.question) == ("GuidedSumm2011_eval", "responsiveness")
    assert read.human == [5.0, 4.0, 3.0] * 2 and read.systems == ["1", "2", "3"] * 2
    assert read.inputs == ["D1101-A"] * 3 + ["D1101-B"] * 3
    assert read.summaries[3] == "caf\N{REPLACEMENT CHARACTER} D1101-B by 1"
    assert [text[-4:] for text in read.references[0]] == ["by A", "by B"]
    assert read.dropped == {"without a summary or reference": 2}, "system 9 left no summary"
    pyramid = read_judgements(str(tmp_path / "GuidedSumm2011_eval"), "pyramid")
    assert pyramid.human == [0.1, 0.2, 0.3] * 2
    quality = read_judgements(str(tmp_path / "GuidedSumm2011_eval"), "linguistic_quality")
    assert quality.human == [1.0, 2.0, 3.0] * 2
    with pytest.raises(InputError, match=r"'style'; there are: responsiveness, linguistic_quality, pyramid"):
        read_judgements(str(tmp_path / "GuidedSumm2011_eval"), "style")


def test_duc_has_its_judgements_in_tables_with_words_above_them(tmp_path):
    folder = write_archive(tmp_path / "mainEval", ["D0701"])
    for file in folder.glob("manual/*"):
        file.unlink()
    lines = ["Responsiveness of content", "", "topic length assessor summarizer score", "-" * 20]
    lines += [f"D0701 250 A {writer} {score}" for writer, score in (("1", 2), ("2", 5), ("3", 1), ("A", 5))]
    (folder / "manual/content.table").write_text("\n".join(lines))
    read = read_judgements(str(folder))
    assert (read.question, read.human, read.dropped) == (
        "content_responsiveness",
        [2.0, 5.0, 1.0],
        {"written by people": 1},
    )
