"""The published sets in miniature, as files."""

import gzip
import json

import pytest


def write_jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    """The published sets in miniature."""
    references = [{"cnndm_hash": f"h{i}", "reference": f"Reference {i} of 2015 ."} for i in range(3)]
    write_jsonl(tmp_path / "news/cnndm_test_references.jsonl.gz", references)
    chaganty = [
        {"id": f"a{i}", "cnndm_hash": f"h{i}", "system": system, "reference": f"Reference {i} of ####.",
         "summary": f"{system} wrote {i}", "human": {"overall": None if (i, system) == (0, "ml") else i / 3}}
        for i in range(3)
        for system in ("ml", "pointer", "reference")
    ]  # fmt: skip
    write_jsonl(tmp_path / "human/chaganty_dev.jsonl.gz", chaganty)
    for name, key, source, reference in (
        ("summeval", "doc_id", "source", "references"),
        ("realsumm", "doc_id", "source", "references"),
        ("frank_valid", "hash", "article", "reference"),
    ):
        texts = {i: [f"r{i}a", f"r{i}b"] if reference == "references" else f"r{i}" for i in range(2)}
        documents = [{key: str(i), source: f"article {i}", reference: texts[i]} for i in range(2)]
        write_jsonl(tmp_path / f"human/{name}_docs.jsonl.gz", documents)
        scores = {
            "relevance": 1.0,
            "coherence": 2.0,
            "consistency": 5.0,
            "fluency": 4.0,
            "litepyramid_recall": 0.5,
            "Factuality": 1.0,
        }
        summaries = [
            {key: str(i), "system": s, "summary": f"{s}{i}", "human": scores}
            for i in range(2)
            for s in ("x", "y")
        ]
        write_jsonl(tmp_path / f"human/{name}_summaries.jsonl.gz", summaries)
    pairs = [
        {"question1": f"a cat {i}", "question2": f"a cat {i % 3}", "is_duplicate": int(i < 3)}
        for i in range(12)
    ]
    write_jsonl(tmp_path / "paraphrase/quora_dev.jsonl.gz", pairs)
    outputs = [{"reference": f"ref {i}", "outputs": {"lead": f"ref {i}", "ptgen": "other"}} for i in range(3)]
    write_jsonl(tmp_path / "news/xsum_outputs.jsonl.gz", outputs)
    summaries = [
        {"cnndm_hash": f"h{i}", "reference": f"reference {i}", "simcls": f"reference {i} of 2015 was seen ."}
        for i in range(3)
    ]
    write_jsonl(tmp_path / "news/cnndm_simcls_outputs.jsonl.gz", summaries)
    return tmp_path
