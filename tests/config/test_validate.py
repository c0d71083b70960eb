from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from raxalign.config._faults import Faults, Node, nearest
from raxalign.config._validate import validate
from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath
from raxalign.config.yaml_file import read


class Files(BaseParams):
    train: DataPath | None = None
    dev: DataPath


class Options(BaseParams):
    reg_weight: float = Field(1.0, alias="lambda", ge=0)
    epochs: int = Field(3, ge=1, le=100)
    layers: str = "last"
    wide: bool = False
    profile: Literal["paper", "released", "sane"] = "sane"
    data: Literal["hub", "phrasebook"] | Files = "hub"
    alpha: tuple[float, ...] = (1.0,)
    places: dict[str, DataPath] = Field(default_factory=dict)
    where: DataPath | None = None

    @model_validator(mode="after")
    def _enough(self) -> Options:
        if self.profile == "paper" and self.wide:
            raise ValueError("profile: paper is never wide")
        return self


def node_of(tmp_path: Path, text: str) -> Node:
    path = tmp_path / "options.yaml"
    path.write_text(text)
    return read(path, Faults())[0]


def faults_of(tmp_path: Path, text: str) -> list[str]:
    faults = Faults()
    built = validate(Options, node_of(tmp_path, text), faults)
    assert (built is None) == bool(faults) or all(
        fault.problem == "unknown key" for fault in faults.found
    )
    return [str(fault) for fault in faults.found]


def test_good_options_are_built(tmp_path: Path) -> None:
    faults = Faults()
    built = validate(
        Options, node_of(tmp_path, "lambda: 1e-1\nlayers: 9\nalpha: [1, 2]\ndata: {dev: x}"), faults
    )
    assert not faults
    assert built == Options(reg_weight=0.1, layers="9", alpha=(1.0, 2.0), data=Files(dev="x"))


def test_values_of_a_wrong_kind_are_told_in_plain_words(tmp_path: Path) -> None:
    text = "lambda: much\nepochs: 1.5\nlayers: [1]\nwide: perhaps\nalpha: 3"
    assert faults_of(tmp_path, text) == [
        "line 1: lambda: 'much' is not a number",
        "line 2: epochs: 1.5 is not a whole number",
        "line 3: layers: a list is not a text",
        "line 4: wide: 'perhaps' is not true or false",
        "line 5: alpha: 3 is not a list",
    ]


def test_bounds_are_told(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "lambda: -1\nepochs: 1_000") == [
        "line 1: lambda: -1 is too small (at least 0)",
        "line 2: epochs: 1_000 is too large (at most 100)",
    ]


def test_truth_is_no_number_even_beside_other_faults(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "epochs: true\nprofil: paper") == [
        "line 2: profil: unknown key (did you mean profile?)",
        "line 1: epochs: true is not a number",
    ]


def test_the_nearest_permitted_value_is_named(tmp_path: Path) -> None:
    said = (
        "line 1: profile: 'relased' is not permitted (did you mean released? permitted: paper,"
        " released, sane)"
    )
    assert faults_of(tmp_path, "profile: relased") == [said]


def test_a_name_of_the_code_leads_to_that_of_the_file(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "reg_weight: 1") == [
        "line 1: reg_weight: unknown key (did you mean lambda?)"
    ]


def test_a_value_that_suits_no_branch_of_a_union_is_one_fault(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "data: hubb") == [
        "line 1: data: 'hubb' is not permitted (did you mean hub? permitted: hub, phrasebook, a"
        " mapping)"
    ]


def test_a_mapping_is_meant_for_the_branch_that_takes_mappings(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "data:\n  trian: x\n  dev: 3.5.1") == [
        "line 2: data.trian: unknown key (did you mean train?)"
    ]
    assert faults_of(tmp_path, "\ndata: {train: x}") == [
        "line 2: data.dev: is missing (it has no default)"
    ]


def test_rules_of_the_options_themselves_keep_their_words(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "profile: paper\nwide: true") == [
        "line 1: grid: profile: paper is never wide"
    ]


def test_paths_are_made_absolute_wherever_they_are(tmp_path: Path) -> None:
    faults = Faults(Path("/grids/deep"))
    node = node_of(
        tmp_path,
        "where: ../a/{lang}.txt\ndata: {train: b, dev: /c}\nplaces: {x: s3://d/e, y:"
        " ./f}\nlayers: ./g",
    )
    built = validate(Options, node, faults)
    assert built is not None
    assert (built.where, built.layers) == ("/grids/a/{lang}.txt", "./g")
    assert built.data == Files(train="/grids/deep/b", dev="/c")
    assert built.places == {"x": "s3://d/e", "y": "/grids/deep/f"}


def test_unknown_placeholders_are_faults(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    validate(
        Options, node_of(tmp_path, "data: {train: 'a/{lang}-{other}', dev: '{pivot}'}"), faults
    )
    assert [str(fault) for fault in faults.found] == [
        "line 1: data.train: unknown placeholder in 'a/{lang}-{other}' (paths may hold {lang} and"
        " {pivot}; {LANG} and {PIVOT} are in capitals)"
    ]


def test_nearest_names_ignore_case_and_dashes() -> None:
    assert nearest("Fine-Tune", ["finetune", "none"]) == "finetune"
    assert nearest("to_pivot", ["to-other", "to-pivot"]) == "to-pivot"
    assert nearest("zzz", ["finetune"]) is None
