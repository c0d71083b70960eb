"""Options of the command line: YAML values, the plug-in's own checks, and all faults at once."""

from pathlib import Path
from typing import get_args

import pytest

from raxalign.cli import _options
from raxalign.errors import RaxalignError
from raxalign.grid import specs
from raxalign.grid.options import read_options
from raxalign.options import run as run_config
from raxalign.options.sources import PathMarker

MAPPING = "codes: '{nl nld' is not a YAML .*mappings {name: value}"
CODES = r"codes: 'nl' is not permitted \(permitted: a mapping, flores, ntrex\)"
SPLIT = r"split: '\[train' is not a YAML value .*put text that begins like this in quotes"


def test_values_are_those_of_a_grid_file(tmp_path):
    options = ["lambda=1e-3", "batch_size=1_0", "direction=to-other", "layers=9", "reduction="]
    params = read_options("methods", "finetune", options, tmp_path)
    found = (
        params.reg_weight,
        params.batch_size,
        params.direction,
        params.layers,
        params.reduction,
    )
    assert found == (0.001, 10, "to-other", "9", None)


@pytest.mark.parametrize(
    ("kind", "option", "found"),
    [
        ("moses", "path={lang}/a=b", "{lang}/a=b"),
        ("moses", "path=dev/{side}.dev", "dev/{side}.dev"),
        ("transformer", "name=mine", "mine"),
        ("transformer", "name=owner/other", None),
    ],
)
def test_paths_are_texts_relative_to_a_folder(tmp_path, kind, option, found):
    """An encoder's folder is found, and a hub name is kept."""
    (tmp_path / "mine").mkdir()
    folder, field = ("corpora", "path") if kind == "moses" else ("encoders", "name")
    options = read_options(folder, kind, [option], tmp_path)
    assert getattr(options, field) == ("owner/other" if found is None else str(tmp_path / found))


def test_all_faults_are_told_at_once(tmp_path):
    options = ["lamda=1", "batch_size=-1", "epochs", "warmup=0.1", "warmup=0.2", "layers=[9"]
    with pytest.raises(RaxalignError) as caught:
        read_options("methods", "finetune", options, tmp_path)
    wrong = ("5 faults", "lamda: unknown key (did you mean lambda?)", "batch_size: -1")
    wrong += ("epochs: is not an option", "warmup: given twice", "'[9' is not a YAML")
    for told in wrong:
        assert told in str(caught.value)


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
def test_text_that_is_not_yaml_is_taken_as_it_stands(tmp_path, kind, option, field, value):
    needed = {"tsv": "path=x", "hub": "dataset=owner/name", "opus": "corpus=Europarl"}[kind]
    assert getattr(read_options("corpora", kind, [needed, option], tmp_path), field) == value


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        ("moses", "path=x;codes={nl nld", MAPPING),
        ("moses", "path=x;codes=nl", CODES),
        ("moses", "path=x;pretokenized=,", "pretokenized: ',' is not a YAML value"),
        ("hub", "dataset=owner/name;split=[train", SPLIT),
        ("tsv", "path={side}.tsv", r"path: unknown placeholder in '\{side\}\.tsv'"),
        ("moses", "", "path: "),
        ("mosses", "", "did you mean moses"),
    ],
)
def test_what_takes_no_text_is_refused_with_how_it_is_written(tmp_path, kind, options, told):
    with pytest.raises(RaxalignError, match=told):
        read_options("corpora", kind, [part for part in options.split(";") if part], tmp_path)


@pytest.mark.parametrize(
    ("marker", "known"),
    [
        (PathMarker(), "{lang} and {pivot}; {LANG} and {PIVOT}"),
        (PathMarker(is_prefix=True), "{lang} and {pivot} and {side}; {LANG} and {PIVOT}"),
        (
            PathMarker(of_task=True),
            "{lang} and {pivot} and {source}; {LANG} and {PIVOT} and {SOURCE}",
        ),
    ],
)
def test_a_placeholder_that_a_path_does_not_take_is_refused_with_all_that_it_takes(
    tmp_path: Path, marker: PathMarker, known: str
) -> None:
    for wrong in ("{foo}", "{SIDE}"):
        with pytest.raises(ValueError, match="unknown placeholder") as error:
            marker.resolve(f"{known}.{wrong}", tmp_path)
        assert error.value.args[1] == f"paths may hold {known} are in capitals"
    assert marker.resolve(known, tmp_path) == str(tmp_path / known)


def test_the_words_of_options_are_those_of_grid_files() -> None:
    for flag, known in (
        (_options.Keep, run_config.Keep),
        (_options.Precision, run_config.Precision),
        (_options.Symmetrization, specs.Symmetrization),
    ):
        assert get_args(flag) == get_args(known)
