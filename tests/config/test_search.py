"""The section `search` and the spaces of methods: what they mean, and what is refused."""

import pytest

from raxalign.errors import RaxalignError
from raxalign.grid.search import Space
from tests.config.small import SMALL, cases, change

FINETUNE = (
    "  finetune: {lambda: {log_uniform: [0.01, 10]}, epochs: {int: [1, 3]},"
    " layers: {choice: [last, 9, 9-12]}, batch_size: 8}\n"
)
SEARCH = 'search: {budget: 40 trials, metric: "retrieval/{lang}-en/contextual_accuracy"}\n'
SEARCHED = change("tasks:\n", FINETUNE + "tasks:\n") + SEARCH


@pytest.fixture
def grid(read):
    return read(SEARCHED)


def test_a_method_with_spaces_is_read_with_its_corners(grid):
    method = grid.methods[-1]
    assert method.searched.spaces == (
        Space("lambda", "log_uniform", 0.01, 10),
        Space("epochs", "int", 1, 3),
        Space("layers", "choice", choices=("last", 9, "9-12")),
    )
    dumps = [point.model_dump(by_alias=True) for point in method.points]
    corners = [(dump["lambda"], dump["epochs"], dump["layers"]) for dump in dumps]
    assert corners == [(0.01, 1, layers) for layers in ("last", "9", "9-12")]


def test_a_point_is_what_a_grid_with_these_values_has(grid, read):
    searched = grid.methods[-1].searched
    named = FINETUNE.replace("{log_uniform: [0.01, 10]}", "0.5").replace("{int: [1, 3]}", "2")
    named = named.replace("{choice: [last, 9, 9-12]}", "9")
    (point,) = read(change("tasks:\n", named + "tasks:\n")).methods[-1].points
    assert searched.point({"lambda": 0.5, "epochs": 2, "layers": 9}) == point
    with pytest.raises(RaxalignError, match=r"methods\.finetune\.lambda: -1 is too small"):
        searched.point({"lambda": -1.0, "epochs": 2, "layers": 9})


FAULTS = cases(
    r"""
{int: [1, 3]} => {uniform: [1, 3]}
=> line 12: methods.finetune.epochs: uniform gives real numbers, epochs is a whole number ({int:
.. [1, 4]})
{choice: [last, 9, 9-12]} => {int: [1, 9]}
=> line 12: methods.finetune.layers: layers does not take numbers (write {choice: [last, 9]})
{log_uniform: [0.01, 10]} => {uniform: [-1, 10]}
=> line 12: methods.finetune.lambda: -1 is too small (at least 0)
{log_uniform: [0.01, 10]} => {log_unifrom: [0.01, 10]}
=> line 12: methods.finetune.lambda: unknown space 'log_unifrom' (did you mean log_uniform?)
{log_uniform: [0.01, 10]} => {log_uniform: [0, 10]}
=> line 12: methods.finetune.lambda.log_uniform: log_uniform takes two positive numbers, the
.. smaller one first (for example {log_uniform: [0.01, 10]})
batch_size: 8 => batch_size: [8, 16]
=> line 12: methods.finetune.batch_size: a list in a method whose params are searched (write
.. {choice: [...]} to search it too, or make a method of each value)
[last, 9, 9-12] => [last, nine] => line 12: methods.finetune.layers: layers 'nine': write `last`
budget: 40 trials => budget: 40 trials, split: test
=> line 15: search.split: 'test' is not permitted (what is chosen by test values is luck, and its
.. test value means nothing: dev is the only split)
budget: 40 trials => budget: 40 apples
=> line 15: search.budget: '40 apples' is not an amount; write for example `40 trials`, `90 min`
.. or `6 h`
|budget: 40 trials, | => ||
=> line 15: search: says nothing about its end; add `budget: 40 trials`
budget: 40 trials => budget: 40 trials, trials: 50
=> line 15: search: `trials` and `budget` disagree; keep one of them
budget: 40 trials => budget: 40 trials, sampler: tpi
=> line 15: search.sampler: 'tpi' is not permitted (did you mean tpe?
budget: 40 trials => budget: 40 trials, pruner: ahsa
=> line 15: search.pruner: 'ahsa' is not permitted (did you mean asha? permitted: none,
.. median, asha)
budget: 40 trials => budget: 40 trials, pruner: {name: median, warmup: 1}
=> line 15: search.pruner: a mapping was removed (name it alone, `median` or `asha`: its options are
.. Optuna's defaults)
budget: 40 trials => budget: 40 trials, sampler: nsga2
=> line 15: search.sampler: 'nsga2' was removed (write `tpe`, and name one metric)
budget: 40 trials => budget: 40 trials, sampler: grid
=> line 15: search.sampler: 'grid' was removed (leave `search` out, and give each option a list of
.. values)
budget: 40 trials => budget: 40 trials, sampler: qmc
=> line 15: search.sampler: 'qmc' was removed (write `random`)
metric: "retrieval/{lang}-en/contextual_accuracy"
=> metric: [retrieval/de-en/contextual_accuracy, retrieval/de-en/noncontextual_accuracy]
=> line 15: search.metric: a list was removed (name one metric; a search by another one is a grid
.. file of its own)
retrieval/{lang}-en/contextual_accuracy => retrival/avg/x
=> line 15: search.metric: unknown task 'retrival' (did you mean retrieval?)
contextual_accuracy => contextual_acuracy
=> line 15: search.metric: retrieval has no metric 'contextual_acuracy' (did you mean
.. contextual_accuracy?)
retrieval/{lang}-en => retrieval/fr-en => line 15: search.metric: 'fr-en' is not a language here
"""
)


@pytest.mark.parametrize(("old", "new", "said"), FAULTS)
def test_a_fault_of_a_search_has_its_line_and_says_what_is_right(faults, old, new, said):
    told = faults(change(old, new, SEARCHED))
    assert any(line.startswith(said) for line in told), told


def test_a_space_without_search_and_a_search_without_spaces_are_refused(faults):
    assert faults(SEARCHED.removesuffix(SEARCH))[0] == (
        "line 12: methods.finetune.epochs: int without `search` (give a list of values, or add a"
        " section `search`)"
    )
    assert faults(SMALL + SEARCH) == [
        "line 14: search: no param of a method has a space to search (write for example lambda:"
        " {log_uniform: [0.01, 10]}, or leave `search` out)"
    ]


def test_a_space_inside_a_mapping_has_a_dotted_name(read):
    lora = "batch_size: 8, lora: {rank: {choice: [2, 4]}, alpha: {uniform: [1, 8]}}"
    searched = read(change("batch_size: 8", lora, SEARCHED)).methods[-1].searched
    assert [space.name for space in searched.spaces][-2:] == ["lora.rank", "lora.alpha"]
    values = {"lambda": 1.0, "epochs": 1, "layers": "last", "lora.rank": 4, "lora.alpha": 2.0}
    lora_point = searched.point(values).model_dump(by_alias=True)["lora"]
    assert (lora_point["rank"], lora_point["alpha"]) == (4, 2.0)


def test_suggested_numbers_have_three_digits_and_stay_inside():
    space = Space("learning_rate", "log_uniform", 1.2345e-5, 1e-3)
    assert space.tidy(0.000123456) == 0.000123
    assert space.tidy(1.2346e-5) == 1.2345e-5
    assert Space("epochs", "int", 1, 3).tidy(2) == 2
