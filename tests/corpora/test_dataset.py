import pyarrow as pa
import pytest

from raxalign.corpora.text.dataset import (
    DatasetWriter,
    check_whole,
    read_metadata,
    read_table,
    word_counts,
)
from raxalign.errors import DataError

TYPES = {"id": pa.int64(), "src": pa.list_(pa.string()), "src_links": pa.list_(pa.int32())}
TYPES |= {"name": pa.string(), "score": pa.float64(), "weight": pa.float32()}
SCHEMA = pa.schema(TYPES | {"flag": pa.bool_(), "vector": pa.list_(pa.float32(), 2)})


def rows(start, n):
    own = {"id": [*range(start, start + n)], "src": [["ein", f"Haus{i}"] for i in range(n)]}
    same = {"src_links": [0, 1], "name": "ä", "score": 0.5, "weight": 0.25, "flag": True}
    return own | {name: [value] * n for name, value in {**same, "vector": [1.0, 2.0]}.items()}


def write(folder, batches=((0, 3), (3, 2)), metadata=None):
    with DatasetWriter(folder, SCHEMA, metadata or {"lang_pair": "de-en"}) as writer:
        for start, n in batches:
            writer.write(rows(start, n))
    return writer


def test_the_datasets_library_opens_what_is_written(tmp_path):
    datasets = pytest.importorskip("datasets")
    write(tmp_path / "data")
    loaded = datasets.load_from_disk(str(tmp_path / "data"))
    assert len(loaded) == 5
    assert loaded.column_names == SCHEMA.names
    assert loaded[3] == {name: column[0] for name, column in rows(3, 1).items()}
    assert loaded.features["src"] == datasets.List(datasets.Value("string"))
    assert loaded.features["vector"] == datasets.List(datasets.Value("float32"), length=2)
    assert loaded.features.arrow_schema.remove_metadata() == SCHEMA
    file = str(tmp_path / "data" / "data-00000-of-00001.arrow")
    assert loaded.cache_files == [{"filename": file}]
    assert loaded.filter(lambda row: row["id"] > 2)["id"][:] == [3, 4]
    write(tmp_path / "empty", batches=())
    assert len(datasets.load_from_disk(str(tmp_path / "empty"))) == 0
    assert read_table(tmp_path / "empty").schema.names == SCHEMA.names


def test_reading_gives_the_rows_back(tmp_path):
    assert write(tmp_path).n_rows == 5
    table = read_table(tmp_path)
    assert table.schema.remove_metadata() == SCHEMA
    assert table.column("id").to_pylist() == [0, 1, 2, 3, 4]
    fourth = {name: column[0] for name, column in rows(3, 1).items()}
    assert table.slice(3, 1).to_pylist() == [fourth]


def test_reading_is_memory_mapped(tmp_path):
    with DatasetWriter(tmp_path, pa.schema({"id": pa.int64()}), {}) as writer:
        writer.write({"id": list(range(50_000))})
    before = pa.total_allocated_bytes()
    table = read_table(tmp_path)
    assert table.num_rows == 50_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_a_dataset_saved_by_the_library_is_read_too(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"id": [1, 2, 3]}).save_to_disk(str(tmp_path), num_shards=2)
    assert read_table(tmp_path).column("id").to_pylist() == [1, 2, 3]
    assert read_metadata(tmp_path) == {}


def test_metadata_may_be_added_until_the_end(tmp_path):
    with DatasetWriter(tmp_path, SCHEMA, {"corpus": "Bücher"}) as writer:
        writer.write(rows(0, 2))
        writer.metadata["counts"] = {"kept": 2}
    assert read_metadata(tmp_path) == {"corpus": "Bücher", "counts": {"kept": 2}}
    assert read_table(tmp_path).num_rows == 2


def test_equal_rows_make_equal_bytes(tmp_path):
    write(tmp_path / "a", metadata={"x": 1, "y": 2})
    write(tmp_path / "b", metadata={"y": 2, "x": 1})
    for name in ("data-00000-of-00001.arrow", "state.json", "dataset_info.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(("before", "columns"), [(False, {"id": [1]}), (True, rows(0, 2))])
def test_a_failing_block_leaves_nothing_that_opens_and_takes_away_what_was_there(
    tmp_path, before, columns
):
    if before:
        write(tmp_path)

    def fail():
        with DatasetWriter(tmp_path, SCHEMA, {}) as writer:
            writer.write(columns)
            raise ValueError("columns on fire")

    with pytest.raises(ValueError, match="columns"):
        fail()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"no state\.json"):
        read_table(tmp_path)


@pytest.mark.parametrize("bad", ["one", [[1, 2]], [None, "a", 3], pa.array([1], pa.int32())])
def test_a_column_of_another_type_is_refused(tmp_path, bad):
    whole = isinstance(bad, pa.Array)
    with (
        pytest.raises((pa.ArrowException, TypeError, ValueError)),
        DatasetWriter(tmp_path, pa.schema({"id": pa.int64()}), {}) as writer,
    ):
        writer.write(pa.RecordBatch.from_pydict({"id": bad}) if whole else {"id": bad})


@pytest.mark.parametrize("file", ["data-00000-of-00001.arrow", "state.json"])
def test_a_truncated_file_is_a_data_error(tmp_path, file):
    write(tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=file):
        read_table(tmp_path)


def test_words_are_counted_in_lower_case_over_all_batches(tmp_path):
    schema = pa.schema({"src": pa.list_(pa.string())})
    with DatasetWriter(tmp_path / "data", schema, {}) as writer:
        for sentences in ([["Ja", "ja"], []], [["JA", "nein"]]):
            writer.write(pa.record_batch({"src": sentences}, schema=schema))
    assert word_counts(tmp_path / "data", "src", "de") == {"ja": 3, "nein": 1}


def test_bytes_from_elsewhere_that_do_not_fit_each_other_are_refused_before_they_are_used(tmp_path):
    write(tmp_path)
    check_whole(tmp_path)
    refused = 0
    file = tmp_path / "data-00000-of-00001.arrow"
    whole = file.read_bytes()
    for place in range(1200, len(whole), 8):
        file.write_bytes(whole[:place] + b"\xff\xff\xff\x7f" + whole[place + 4 :])
        try:
            check_whole(tmp_path)
        except DataError:
            refused += 1
        else:
            read_table(tmp_path).to_pylist()  # must not end the process
    assert refused > 10
