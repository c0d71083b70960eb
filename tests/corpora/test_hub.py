import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.hub import Hub
from raxalign.corpora.readers.hub import MissingSplit, load_rows
from raxalign.errors import DataError, TransientError
from raxalign.options.sources import LocalFile, RemoteData, looked_up
from tests.corpora.places import placed

ROWS = [
    {"translation": {"de": "Hallo", "en": "Hello"}},
    {"translation": {"de": None, "en": 'No, "no"'}},
]
OTHERS = {"a.jsonl": json.dumps(ROWS[0]).encode()}
NO_FIELD = r"row 0 has no field 'translation.fr'; at 'fr' there is: de, en"
NUMBER = {"a.jsonl": b'{"s": "a"}\n', "b.jsonl": b'{"s": 5}\n'}
EXPECTED = [SentencePair(0, "Hallo", "Hello"), SentencePair(1, "", 'No, "no"')]
COMMIT = "0123456789" * 4


def read(path, downloads, **params):
    corpus, inputs = placed(Hub(Hub.Params(path=str(path), **params)), downloads)
    return list(corpus.read("de", "en", inputs))


@pytest.mark.parametrize("name", ["train.json", "train.jsonl", "train.csv", "train.tsv"])
def test_files_are_read_by_their_kind(tmp_path, name):
    separator = {"train.csv": ",", "train.tsv": "\t"}.get(name)
    if separator is None:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        assert read(tmp_path, tmp_path) == EXPECTED
    else:
        text = f'de{separator}en\nHallo{separator}Hello\n{separator}"No, ""no"""\n'
        (tmp_path / name).write_text(text)
        assert read(tmp_path, tmp_path, source_field="{lang}", target_field="{pivot}") == EXPECTED


def test_parquet_files_are_read_alone_or_in_a_folder(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    assert read(tmp_path, tmp_path) == EXPECTED
    assert read(tmp_path / "train.parquet", tmp_path) == EXPECTED


def test_rows_may_be_tokenised_already(tmp_path):
    (tmp_path / "train.jsonl").write_text(
        json.dumps({"translation": {"de": "Herr Dr. X", "en": "Mr X ."}}), encoding="utf-8"
    )
    (pair,) = read(tmp_path, tmp_path, pretokenized=True)
    assert (pair.source_words, pair.target_words) == (("Herr", "Dr.", "X"), ("Mr", "X", "."))
    assert "pretokenized" not in Hub.Params(path="a").identity()
    assert Hub.Params(path="a", pretokenized=True).identity()["pretokenized"] is True


def test_files_of_a_folder_are_joined_in_order_of_name(tmp_path):
    folder = tmp_path / "de-en"
    folder.mkdir()
    for number in (1, 0):
        row = json.dumps({"s": f"s{number}", "t": f"t{number}"})
        (folder / f"part-{number}.jsonl").write_text(row + "\n")
    (folder / "README.md").write_text("no data")
    fields = {"source_field": "s", "target_field": "t"}
    corpus = Hub(Hub.Params(path=f"{tmp_path}/{{lang}}-{{pivot}}", **fields))
    assert corpus.sources("de", "en") == {
        f"files/part-{n}.jsonl": LocalFile(folder / f"part-{n}.jsonl") for n in (0, 1)
    }
    assert looked_up(corpus.sources("de", "en"), tmp_path) == {}
    found = read(folder, tmp_path, **fields)
    assert [pair.source for pair in found] == ["s0", "s1"]


@pytest.mark.parametrize(
    ("files", "field", "told"),
    [
        (OTHERS, "translation.fr", NO_FIELD),
        (NUMBER, "s", "row 1: field 's' is not text but 5"),
        ({"a.parquet": b"PAR1xx"}, "s", "a.parquet"),
        ({"a.jsonl": b'{"s": "a"\n{{{'}, "s", "a.jsonl"),
        ({"a.jsonl": b'{"s": "\xff"}'}, "s", "a.jsonl"),
    ],
)
def test_fields_that_are_not_text_and_damaged_files_are_named(tmp_path, files, field, told):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=told):
        read(tmp_path, tmp_path, source_field=field, target_field=field)


def test_a_folder_without_data_or_a_missing_file_is_told(tmp_path):
    (tmp_path / "a.xml").write_text("")
    for place, told in (
        (tmp_path, "no data files"),
        (tmp_path / "no.parquet", "no such file"),
        (tmp_path / "a.xml", "unknown file type"),
    ):
        with pytest.raises(DataError, match=told):
            read(place, tmp_path)


def test_sources_are_pinned_by_a_commit_only(tmp_path):
    names = {"dataset": "Helsinki-NLP/opus-100", "config": "{lang}-{pivot}"}
    remote = "hub:Helsinki-NLP/opus-100@"
    plain = Hub(Hub.Params(**names))
    assert plain.sources("de", "en") == {"dataset": RemoteData(f"{remote}main")}
    pinned = Hub(Hub.Params(**names, revision=COMMIT))
    assert pinned.sources("de", "en") == {"dataset": RemoteData(f"{remote}{COMMIT}", COMMIT)}
    assert plain.params.identity() == pinned.params.identity()
    # and a pinned one needs no network
    assert looked_up(pinned.sources("de", "en"), tmp_path) == {f"{remote}{COMMIT}": COMMIT}
    for params in ({}, {"dataset": "a/b", "path": "c"}):
        with pytest.raises(ValidationError, match="one of them"):
            Hub.Params(**params)


def hub_at(url, monkeypatch):
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", url)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    return Hub(Hub.Params(dataset="a/b"))


def test_a_revision_is_resolved_to_a_commit_and_what_the_hub_does_not_say_is_told(
    tmp_path, monkeypatch, server
):
    with pytest.raises(DataError, match=r"hub:a/b: cannot be loaded .*`revision`"):
        looked_up(hub_at(server.url, monkeypatch).sources("de", "en"), tmp_path)
    answer = json.dumps({"id": "a/b", "sha": COMMIT}).encode()
    server.files["/api/datasets/a/b/revision/main"] = answer
    assert looked_up(hub_at(server.url, monkeypatch).sources("de", "en"), tmp_path) == {
        "hub:a/b@main": COMMIT
    }
    told = r"hub:a/b: the Hugging Face Hub cannot be reached .*Go online, or read files"
    with pytest.raises(TransientError, match=told):
        looked_up(hub_at("http://127.0.0.1:9", monkeypatch).sources("de", "en"), tmp_path)


def converted(folder, **configs):
    """A copy of a branch of converted files: one folder per configuration, in it one per split, and
    no README.
    """
    for config, splits in configs.items():
        for split, rows in splits.items():
            place = folder / config.replace("__", ".").replace("_to_", "-train.") / split
            place.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows), place / "0000.parquet")
    return str(folder)


def test_a_branch_of_converted_files_is_read_by_the_folders_of_its_configurations(tmp_path):
    splits = {split: [{"text": split}] for split in ("train", "validation", "test")}
    branch = converted(
        tmp_path / "set", set__de=splits, set_to_de=splits, th_pud={"test": [{"text": "th"}]}
    )
    for config in ("set.de", "set-train.de"):
        found = [load_rows(branch, config, split, None, tmp_path)["text"][:] for split in splits]
        assert found == [[split] for split in splits]
    thai = load_rows(branch, "th_pud", "test", "refs/convert/parquet", tmp_path)
    assert thai["text"][:] == ["th"]
    told = r"hub:.*/fr:test: cannot be loaded \(BuilderConfig 'fr' not found"
    with pytest.raises(DataError, match=told):
        load_rows(branch, "fr", "test", None, tmp_path)
    told = r"hub:.*/th_pud:validation: has no split validation; its splits are test"
    with pytest.raises(MissingSplit, match=told):
        load_rows(branch, "th_pud", "validation", None, tmp_path)
    with pytest.raises(MissingSplit, match="has no split train;"):
        load_rows(branch, "th_pud", "train[:10%]+test", None, tmp_path)
    (tmp_path / "set" / "th_pud" / "test" / "0000.parquet").write_bytes(b"PAR1xx")
    with pytest.raises(DataError, match=r"hub:.*/th_pud:test: cannot be loaded"):
        load_rows(branch, "th_pud", "test", None, tmp_path / "elsewhere")


def test_parts_of_splits_are_read_and_dev_is_a_name_of_validation(tmp_path):
    rows = {split: [{"text": f"{split}{i}"} for i in range(4)] for split in ("train", "dev")}
    branch = converted(tmp_path / "set", de=rows)
    head = (
        "---\nconfigs:\n- config_name: of\n  data_files:\n  - {split: train, path: de/train/*}\n  -"
        " {split: dev, path: de/dev/*}\n---\n"
    )
    parts = load_rows(branch, "de", "train[:1]+validation[3:]", None, tmp_path)
    assert parts["text"][:] == ["train0", "dev3"]
    (tmp_path / "set" / "README.md").write_text(head)
    whole = load_rows(branch, "of", "validation", None, tmp_path)
    assert whole["text"][:] == ["dev0", "dev1", "dev2", "dev3"]
    assert len(load_rows(branch, "of", "all", None, tmp_path)) == 8


def test_the_corpus_is_read_from_a_branch_of_converted_files(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    branch = converted(tmp_path / "set", de__en={"train": ROWS})
    named = {"config": "{lang}.{pivot}", "revision": "refs/convert/parquet"}
    corpus = Hub(Hub.Params(dataset=branch, **named))
    assert list(corpus.read("de", "en", CorpusInputs({}, tmp_path))) == EXPECTED
