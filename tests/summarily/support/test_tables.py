"""Tables that somebody else has written: read as they are meant, or refused."""

import gzip
import json
import tracemalloc

import pytest

from summarily.support import tables
from summarily.support.errors import InputError
from summarily.support.streams import stream_table
from summarily.support.tables import column, read_table, some_names


@pytest.mark.parametrize(
    "text, message",
    [
        ('prediction,reference\n"a cat,the cat\nb,c\nd,e\n', "from line 2: unexpected end of data"),
        ('prediction,reference\na,b\n"a cat,the cat\nb,"c"\n', "from line 3: .* expected after"),
        ('prediction,reference\na,"b\n', "from line 2: unexpected end"),
        ("prediction,reference\na,b,c\n", "row 0: expected 2 fields, found 3"),
        ("prediction,reference\na,b\nc\n", "row 1: expected 2 fields, found 1"),
        ("prediction,reference,prediction\na,b,c\n", "has 2 columns 'prediction'"),
    ],
)
def test_a_csv_that_could_be_read_in_two_ways_is_refused(tmp_path, text, message):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_table(str(file))


def test_quotes_where_they_belong_are_read(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('a,b\n"x, y\nz ""w""","5"" tall"\n\n5" wide,it\'s "so"\n')
    table = read_table(str(file))
    assert table["a"] == ['x, y\nz "w"', '5" wide']
    assert table["b"] == ['5" tall', 'it\'s "so"']


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"a": 1, "a": 2}', "'a' stands in it twice"),
        ('{"a": ' + "9" * 5000 + "}", "line 1 is not JSON that can be read: .*digits"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"a": ', "line 1 is not JSON"),
    ],
)
def test_json_that_cannot_be_read_is_refused_in_a_sentence(tmp_path, line, message):
    file = tmp_path / "t.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        read_table(str(file))


def test_a_file_of_many_columns_takes_no_more_room_than_its_rows(tmp_path):
    rows = 3000
    file = tmp_path / "wide.jsonl"
    file.write_text("".join(json.dumps({"prediction": "a", f"column{i}": i}) + "\n" for i in range(rows)))
    tracemalloc.start()
    try:
        table = read_table(str(file))
        assert table["prediction"] == ["a"] * rows and len(table) == rows + 1
        with pytest.raises(InputError, match=r"and 2981 more\.$"):
            column(table, "reference")
        assert tracemalloc.get_traced_memory()[1] < 5e6  # every column of every row would be 72 MB
    finally:
        tracemalloc.stop()


def test_names_for_a_sentence_are_cut():
    assert some_names(["a" * 100]) == "a" * 57 + "..."


def test_damaged_parquet_is_refused_in_a_sentence(tmp_path):
    import pandas

    file = tmp_path / "t.parquet"
    pandas.DataFrame({"a": ["x", "y"] * 50, "b": [1, 2] * 50}).to_parquet(file)
    whole = file.read_bytes()
    refused = 0
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        file.write_bytes(damaged)
        try:
            table = read_table(str(file))
            for name in table:
                table[name]
        except InputError:
            refused += 1
    assert refused > 20


def test_parquet_with_a_name_twice_is_refused_and_its_index_left_out(tmp_path):
    import pandas
    import pyarrow
    import pyarrow.parquet

    file = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array(["x"])] * 2, ["a", "a"]), file)
    with pytest.raises(InputError, match="has 2 columns 'a'"):
        read_table(str(file))
    pandas.DataFrame({"a": ["x", None]}, index=["k", "l"]).to_parquet(file)
    assert dict(read_table(str(file))) == {"a": ["x", None]}


def test_gzipped_parquet_is_read(tmp_path):
    import pandas

    pandas.DataFrame({"a": ["x"]}).to_parquet(tmp_path / "t.parquet")
    file = tmp_path / "t.parquet.gz"
    file.write_bytes(gzip.compress((tmp_path / "t.parquet").read_bytes()))
    assert read_table(str(file))["a"] == ["x"]


def test_a_gzip_file_that_unpacks_to_a_memory_full_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "SMALL", 10_000)
    file = tmp_path / "bomb.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"a": "' + b"x" * 1_000_000 + b'"}\n'))
    with pytest.raises(InputError, match="unpacks to more than 100 times its size"):
        read_table(str(file))
    parquet = tmp_path / "bomb.parquet.gz"
    parquet.write_bytes(gzip.compress(b"x" * 1_000_000))
    with pytest.raises(InputError, match="unpacks to more than 100 times its size"):
        read_table(str(parquet))
    text = "\n".join(str(number) for number in range(5000))
    (tmp_path / "good.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert len(tables.read_lines(str(tmp_path / "good.txt.gz"))) == 5000


def test_parquet_that_holds_one_text_many_times_is_held_once(tmp_path):
    """A file of a few kB: 400 MB if each row had its own."""
    import pyarrow
    import pyarrow.parquet

    file = tmp_path / "t.parquet"
    texts = pyarrow.DictionaryArray.from_arrays([0, 1] * 4_000, ["x" * 100_000, "y"])
    pyarrow.parquet.write_table(pyarrow.table({"source": texts}), file, compression="zstd")
    assert file.stat().st_size < 200_000
    column = read_table(str(file))["source"]
    assert len(column) == 8_000 and column[0] is column[7_998] and column[1] == "y"
    assert sum(1 for _ in stream_table(str(file), ["source"])) == 8_000


def test_parquet_that_unpacks_to_a_great_many_times_its_size_is_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    file = tmp_path / "t.parquet"
    table = pyarrow.table({"source": ["x" * 1_000_000] * 20})
    pyarrow.parquet.write_table(table, file, compression="zstd", use_dictionary=False)
    for read in (read_table, lambda name: list(stream_table(name, ["source"]))):
        with pytest.raises(InputError, match="unpacks to more than 100 times its size"):
            read(str(file))


def test_streamed_parquet_with_a_name_twice_is_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    file = tmp_path / "t.parquet"
    twice = pyarrow.Table.from_arrays([pyarrow.array(["x"]), pyarrow.array(["y"])], ["a", "a"])
    pyarrow.parquet.write_table(twice, file)
    with pytest.raises(InputError, match="2 columns 'a'"):
        list(stream_table(str(file), ["a"]))
