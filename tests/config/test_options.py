"""Options of the command line: YAML values, the plug-in's own checks, and all faults at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.catalog import UnknownKind
from raxalign.config.options import read_options
from raxalign.errors import RaxalignError


def test_values_are_those_of_a_grid_file(tmp_path: Path) -> None:
    params = read_options(
        "methods",
        "finetune",
        ["lambda=1e-3", "batch_size=1_0", "direction=to-other", "layers=9", "part="],
        tmp_path,
    )
    assert (params.reg_weight, params.batch_size, params.direction, params.layers, params.part) == (
        0.001,
        10,
        "to-other",
        "9",
        None,
    )


def test_paths_are_texts_relative_to_a_folder(tmp_path: Path) -> None:
    assert read_options("corpora", "moses", ["path={lang}/a=b"], tmp_path).path == str(
        tmp_path / "{lang}/a=b"
    )


def test_the_code_of_a_side_stands_in_paths_of_two_files_alone(tmp_path: Path) -> None:
    options = read_options("corpora", "moses", ["path=dev/{side}.dev", "codes=flores"], tmp_path)
    assert options.path == str(tmp_path / "dev/{side}.dev")
    with pytest.raises(RaxalignError, match=r"path: unknown placeholder in '\{side\}\.tsv'"):
        read_options("corpora", "tsv", ["path={side}.tsv"], tmp_path)


def test_an_encoder_folder_is_found_and_a_hub_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert read_options("encoders", "transformer", ["name=mine"], tmp_path).name == str(
        tmp_path / "mine"
    )
    assert (
        read_options("encoders", "transformer", ["name=owner/other"], tmp_path).name
        == "owner/other"
    )


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RaxalignError) as caught:
        read_options(
            "methods",
            "finetune",
            ["lamda=1", "batch_size=-1", "epochs", "warmup=0.1", "warmup=0.2", "layers=[9"],
            tmp_path,
        )
    for told in (
        "5 faults",
        "lamda: unknown key (did you mean lambda?)",
        "batch_size: -1",
        "epochs: is not an option",
        "warmup: given twice",
        "'[9' is not a YAML",
    ):
        assert told in str(caught.value)


def test_what_is_required_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(RaxalignError, match="path: "):
        read_options("corpora", "moses", [], tmp_path)
    with pytest.raises(UnknownKind, match="did you mean moses"):
        read_options("corpora", "mosses", [], tmp_path)


@pytest.mark.parametrize(
    ("kind", "option", "field", "value"),
    [
        ("tsv", "delimiter=,", "delimiter", ","),
        ("tsv", "delimiter=|||", "delimiter", "|||"),
        ("tsv", "delimiter=\t", "delimiter", "\t"),
        ("tsv", "delimiter=#", "delimiter", "#"),
        ("tsv", "delimiter=' # '", "delimiter", "#"),
        ("hub", "config={lang}-{pivot}", "config", "{lang}-{pivot}"),
        ("hub", "config=null", "config", None),
        ("hub", "source_field={lang}", "source_field", "{lang}"),
        ("hub", "source_field=a: b # c", "source_field", "a: b # c"),
        ("opus", "version={Europarl: v7}", "version", {"Europarl": "v7"}),
    ],
)
def test_text_that_is_not_yaml_is_taken_as_it_stands(
    tmp_path: Path, kind: str, option: str, field: str, value: object
) -> None:
    needed = {"tsv": "path=x", "hub": "dataset=owner/name", "opus": "corpus=Europarl"}[kind]
    assert getattr(read_options("corpora", kind, [needed, option], tmp_path), field) == value


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("codes={nl nld", "codes: '{nl nld' is not a YAML value .*mappings {name: value}"),
        ("codes=nl", r"codes: 'nl' is not permitted \(permitted: a mapping, flores, ntrex\)"),
        ("pretokenized=,", "pretokenized: ',' is not a YAML value"),
    ],
)
def test_what_takes_no_text_is_refused_with_how_it_is_written(
    tmp_path: Path, option: str, told: str
) -> None:
    with pytest.raises(RaxalignError, match=told):
        read_options("corpora", "moses", ["path=x", option], tmp_path)


def test_a_quoted_text_that_does_not_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RaxalignError,
        match=r"split: '\[train' is not a YAML value .*put text that begins like this in quotes",
    ):
        read_options("corpora", "hub", ["dataset=owner/name", "split=[train"], tmp_path)
