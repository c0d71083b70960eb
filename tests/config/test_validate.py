"""Options: what is read into them, what is refused, and what enters their identity."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from raxalign.catalog import catalog
from raxalign.grid._validate import validate
from raxalign.grid.yaml_file import Faults
from raxalign.options.params import LATER, BaseParams, Removed, removed_options
from raxalign.options.sources import DataPath

LOOP = {"schedule", "selection", "with_task"}
UNKNOWN = "line 2: profil: unknown key (did you mean profile?)"
PERMITTED = "is not permitted (did you mean {}? permitted: {})"
PROFILES = PERMITTED.format("released", "paper, released, sane")
HUB = PERMITTED.format("hub", "hub, phrasebook, a mapping")


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
    def _enough(self):
        if self.profile == "paper" and self.wide:
            raise ValueError("profile: paper is never wide")
        return self


def node_of(text):
    return Faults().parse("options.yaml", text)


def faults_of(text):
    faults = Faults(Path("/grids"))
    built = validate(Options, node_of(text), faults)
    assert (built is None) == bool(faults) or all(
        fault.problem == "unknown key" for fault in faults.found
    )
    return [str(fault) for fault in faults.found]


def test_good_options_are_built():
    faults, text = Faults(), "lambda: 1e-1\nlayers: 9\nalpha: [1, 2]\ndata: {dev: x}"
    built = validate(Options, node_of(text), faults)
    assert not faults
    assert built == Options(reg_weight=0.1, layers="9", alpha=(1.0, 2.0), data=Files(dev="x"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "lambda: much\nepochs: 1.5\nlayers: [1]\nwide: perhaps\nalpha: 3",
            [
                "line 1: lambda: 'much' is not a number",
                "line 2: epochs: 1.5 is not a whole number",
                "line 3: layers: a list is not a text",
                "line 4: wide: 'perhaps' is not true or false",
                "line 5: alpha: 3 is not a list",
            ],
        ),
        (
            "lambda: -1\nepochs: 1_000",
            [
                "line 1: lambda: -1 is too small (at least 0)",
                "line 2: epochs: 1_000 is too large (at most 100)",
            ],
        ),
        ("epochs: true\nprofil: paper", [UNKNOWN, "line 1: epochs: true is not a number"]),
        ("profile: relased", [f"line 1: profile: 'relased' {PROFILES}"]),
        ("reg_weight: 1", ["line 1: reg_weight: unknown key (did you mean lambda?)"]),
        ("data: hubb", [f"line 1: data: 'hubb' {HUB}"]),
        ("data:\n  trian: x\n  dev: 3", ["line 2: data.trian: unknown key (did you mean train?)"]),
        ("\ndata: {train: x}", ["line 2: data.dev: is missing (it has no default)"]),
        ("profile: paper\nwide: true", ["line 1: grid: profile: paper is never wide"]),
        (
            "data: {train: 'a/{lang}-{other}', dev: '{pivot}'}",
            [
                "line 1: data.train: unknown placeholder in 'a/{lang}-{other}' (paths may hold"
                " {lang} and {pivot}; {LANG} and {PIVOT} are in capitals)"
            ],
        ),
    ],
)
def test_values_of_a_wrong_kind_are_told_in_plain_words(text, told):
    assert faults_of(text) == told


def test_paths_are_made_absolute_wherever_they_are():
    text = "where: ../a/{lang}.txt\ndata: {train: b, dev: /c}\nlayers: ./g\n"
    text += "places: {x: s3://d/e, y: ./f}"
    built = validate(Options, node_of(text), Faults(Path("/grids/deep")))
    assert (built.where, built.layers) == ("/grids/a/{lang}.txt", "./g")
    assert built.data == Files(train="/grids/deep/b", dev="/c")
    assert built.places == {"x": "s3://d/e", "y": "/grids/deep/f"}


def test_nearest_names_ignore_case_and_dashes():
    assert Faults.nearest("Fine-Tune", ["finetune", "none"]) == "finetune"
    assert Faults.nearest("to_pivot", ["to-other", "to-pivot"]) == "to-pivot"
    assert Faults.nearest("zzz", ["finetune"]) is None


class Before(BaseParams):
    rate: float = 0.1


class After(BaseParams):
    rate: float = 0.1
    swap: Annotated[bool, LATER] = False
    codes: Annotated[dict[str, str], LATER] = Field(default_factory=dict)


def test_an_option_that_came_later_keeps_the_identity_of_results_made_without_it():
    assert After().identity() == Before().identity() == {"rate": 0.1}
    assert After(swap=False, codes={}).identity() == {"rate": 0.1}
    said = {"swap": True, "codes": {"nl": "nld"}}
    assert After(**said).identity() == {"rate": 0.1, **said}
    assert (Before.later(), After.later()) == ({}, {"swap": False, "codes": {}})


class Shorter(BaseParams):
    removed: ClassVar = {"rate": Removed("leave it out", 0.1), "swap": Removed("swap", default=0)}


def test_a_removed_option_stays_in_the_keys_of_results_made_with_it_at_its_default():
    assert Shorter().identity() == After().identity() == {"rate": 0.1}


class Again(Shorter):
    rate: float = 0.1


def test_a_subclass_that_declares_a_removed_option_again_has_it():
    assert Again(rate=0.2).identity() == {"rate": 0.2}
    assert Again.stored('{"rate": 0.1, "swap": 0}') == Again.stored('{"rate": 0.1}')
    assert set(removed_options(Again)) == {"swap"}


class Outer(BaseParams):
    inner: Shorter | None = None
    removed: ClassVar = {"every": Removed("leave it out", default=2)}


def test_a_plan_of_before_is_read_without_removed_options_that_nobody_had_set():
    made = Outer.stored('{"every": 2, "inner": {"rate": 0.1}}')
    assert made == Outer(inner=Shorter())
    for other in ('{"every": 3}', '{"inner": {"rate": 0.2}}', '{"never": 1}'):
        with pytest.raises(ValidationError, match="not permitted"):
            Outer.stored(other)


def test_a_removed_option_is_refused_with_what_to_do_instead():
    faults = Faults()
    validate(Shorter, node_of("rate: 0.1\nswap: true"), faults)
    told = [
        "line 1: rate: was removed (leave it out)",
        "line 2: swap: was removed (swap)",
    ]
    assert [str(fault) for fault in faults.found] == told


@pytest.mark.parametrize(
    ("folder", "kind", "names"),
    [
        ("methods", "rotation", {"max_pieces", "swap"}),
        ("methods", "strong_contrastive", {"lora", "negatives", *LOOP}),
        ("corpora", "moses", {"pretokenized", "codes"}),
        ("tasks", "dictionary_retrieval", {"swap"}),
    ],
)
def test_these_options_came_later(folder, kind, names):
    fields = catalog(folder)[kind].Params.model_fields
    assert {name for name, field in fields.items() if LATER in field.metadata} == names
