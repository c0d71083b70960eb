import json
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

from raxalign.grid.file import load
from raxalign.grid.specs import CorpusSettings, Split
from raxalign.grid.yaml_file import Faults, written
from tests.config.small import PARTS, SMALL, change

GRIDS = Path(__file__).parents[2] / "grids"


def test_a_small_grid_has_its_defaults_filled_in(read, tmp_path):
    grid = read(SMALL)
    assert (grid.name, grid.pivot, grid.languages) == ("small", "en", ("de", "no"))
    assert not grid.together
    (spec,) = grid.encoders
    assert (spec.kind, spec.name) == ("transformer", "bert-base-multilingual-cased")
    assert (grid.sentences, grid.seeds) == ((1_000, 10_000), (0,))
    assert grid.corpus == CorpusSettings()
    assert (grid.pairs.aligner.kind, grid.pairs.symmetrization) == ("thot", "intersection")
    assert (grid.pairs.one_to_one, grid.pairs.align_on) == (True, "own")
    assert (grid.text, grid.exclude, grid.published) == (None, (), ())
    assert grid.path == tmp_path / "grid.yaml"
    assert grid.text_of_file == SMALL


def test_a_list_is_an_axis_and_points_are_the_product(read):
    none, rotation = read(change("layers: [9, 9-12]", "layers: [9, 0.50]")).methods
    assert len(none.points) == 1
    found = [(point.center, point.layers) for point in rotation.points]
    assert found == [(False, "9"), (False, "0.50"), (True, "9"), (True, "0.50")]


def test_norwegian_and_numbers_mean_what_they_say(read):
    grid = read(change("layers: [9, 9-12]", "min_count: [1e1, 10_000]"))
    assert grid.languages[1] == "no"
    assert {point.min_count for point in grid.methods[1].points} == {10, 10_000}


def test_lists_under_a_task_are_values_and_one_kind_may_have_two_names(read):
    more = "  retrieval: {}\n  near: {kind: retrieval, k: 5, languages: [de]}"
    tasks = read(change("  retrieval: {}", more)).tasks
    found = [(task.name, task.kind, task.params.k, task.languages) for task in tasks]
    assert found == [("retrieval", "retrieval", 10, None), ("near", "retrieval", 5, ("de",))]


def test_excluded_points_are_those_of_the_grid(read, faults):
    entries = "{method: rotation, layers: 9, sentences: [1000]}, {language: no, encoder:"
    grid = read(f"{SMALL}exclude: [{entries} bert-base-multilingual-cased}}]\n")
    assert grid.exclude == (
        {"method": "rotation", "layers": "9", "sentences": [1_000]},
        {"language": "no", "encoder": "bert-base-multilingual-cased"},
    )
    wrong = "- {method: rotate}\n- {sentence: 1}\n- {method: none, center: true}\n"
    told = faults(f"{SMALL}exclude:\n{wrong}- {{center: 2, seed: 7}}\n- {{}}\n")
    assert [line.split(" (")[0] for line in told] == [
        "line 15: exclude[0].method: 'rotate' is not a method of this grid",
        "line 16: exclude[1].sentence: unknown key",
        "line 17: exclude[2].center: unknown key",
        "line 18: exclude[3].center: 2 is not a value of center of this grid",
        "line 18: exclude[3].seed: 7 is not a seed of this grid",
        "line 19: exclude[4]: an entry without conditions would exclude everything",
    ]


def test_a_point_is_excluded_by_a_mapping_or_by_a_part_of_it(read, faults):
    frozen = "freeze: [lower, {blocks: 1-2}, {blocks: 1-2, embeddings: true}]"
    text = change("  rotation: {", f"  weak_contrastive: {{{frozen}}}\n  rotation: {{")
    held = {"blocks": "1-2", "embeddings": True}
    for given, meant in (
        ("{blocks: 1-2, embeddings: true}", held),
        ("{embeddings: true}", held),
        ("lower", "lower"),
    ):
        excluded = f"exclude: [{{method: weak_contrastive, freeze: {given}}}]\n"
        assert read(text + excluded).exclude[0]["freeze"] == meant
    (told,) = faults(text + "exclude: [{method: weak_contrastive, freeze: {blocks: 3}}]\n")
    assert "exclude[0].freeze: a mapping is not a value of freeze of this grid" in told


def test_paths_are_relative_to_the_grid_file(tmp_path, monkeypatch):
    (tmp_path / "grids" / "beside").mkdir(parents=True)
    text = change("data/{lang}", "../data/{lang}")
    encoders = "[beside, ../mini, ~/mine, {kind: transformer, name: ./other}, some/hub-name]"
    text = change("bert-base-multilingual-cased", encoders, text)
    text = change("center: [false, true]", 'dictionary: "dict/{lang}-{pivot}.txt"', text)
    (tmp_path / "grids" / "grid.yaml").write_text(text + "run: {storage: ../store}\n")
    monkeypatch.chdir(tmp_path)
    grid = load("grids/grid.yaml")
    names = [getattr(spec.params, "name") for spec in grid.encoders]  # noqa: B009
    folders = [tmp_path / "grids/beside", tmp_path / "mini", Path.home() / "mine"]
    assert names == [*map(str, folders), f"{tmp_path}/grids/other", "some/hub-name"]
    assert grid.corpora["de"].params.path == f"{tmp_path}/data/{{lang}}-{{pivot}}"
    assert grid.methods[1].points[0].dictionary == f"{tmp_path}/grids/dict/{{lang}}-{{pivot}}.txt"
    assert grid.run.storage == f"{tmp_path}/store"


def test_encoders_of_one_name_have_different_labels(read):
    encoders = "[{kind: scratch, layers: 2}, {kind: scratch, steps: 5}, scratch]"
    grid = read(change("bert-base-multilingual-cased", encoders))
    labels = [spec.name for spec in grid.encoders]
    assert len(set(labels)) == 3
    assert "layers=2" in labels[0]


def test_a_language_may_have_a_corpus_of_its_own(read, tmp_path):
    own = "  by_language: {de: {path: other}, no: {source: tsv, path: no.tsv}}"
    grid = read(change("  path:", f"{own}\n  split: {{dev: 0}}\n  path:"))
    german, norwegian = grid.corpora["de"], grid.corpora["no"]
    assert (german.kind, german.params.path) == ("moses", str(tmp_path / "other"))
    assert (norwegian.kind, norwegian.params.path) == ("tsv", str(tmp_path / "no.tsv"))
    assert grid.corpus.split == Split(test=1024, dev=0)


def test_shared_options_may_be_incomplete_where_each_language_completes_them(read, faults):
    text = change("  path: data/{lang}-{pivot}", "  by_language: {de: {path: a}, no: {path: b}}")
    assert read(text).corpora["no"].params.path.endswith("/b")
    about = (
        "path that both files share up to their extension, the code of the language; or the whole"
        " path, with `{side}` in place of that code; either may hold `{lang}` and `{pivot}`"
    )
    (told,) = faults(change(", no: {path: b}", "", text))
    assert told == f"line 5: corpus.path: is missing ({about})"


@pytest.mark.parametrize("name", ["liu2020-static", "search", "weam2021"])
def test_the_order_of_keys_does_not_matter_nor_whether_they_are_json(name, read):
    text = (GRIDS / f"{name}.yaml").read_text(encoding="utf-8")
    data = Faults().parse(name, text).plain()
    facts = _facts(read(written(data)))
    for other in (written(_sorted(data)), json.dumps(data)):
        assert _facts(read(other)) == facts


def test_any_one_unknown_key_is_named_with_its_line(faults):
    text = SMALL + "pairs: {aligner: links}\nrun: {workers: 1}\n"
    text = change("bert-base-multilingual-cased", "{kind: scratch, layers: 2}", text)
    sections = ("corpus", "pairs", "run", "encoder", "languages")
    entries = [(part, name) for part in ("methods", "tasks") for name in parsed(text)[part]]
    for path in ((), *((section,) for section in sections), *entries):
        data = parsed(text)
        place = reduce(getitem, path, data)
        place["strange_x"] = 1
        lines = written(data).split("\n")
        (line,) = [n for n, row in enumerate(lines, 1) if row.strip() == "strange_x: 1"]
        (told,) = faults("\n".join(lines))
        assert told.startswith(f"line {line}: {'.'.join([*path, 'strange_x'])}: unknown key")


def parsed(text):
    return Faults().parse("grid.yaml", text).plain()


def _sorted(data):
    if isinstance(data, dict):
        return {name: _sorted(data[name]) for name in sorted(data)}
    return [_sorted(item) for item in data] if isinstance(data, list) else data


def _facts(grid):
    """What a grid says, without the text and without order where order means nothing."""
    facts = dict(vars(grid))
    for name in ("text_of_file", "lines"):
        del facts[name]
    facts["methods"] = {spec.name: (spec.kind, frozenset(spec.points)) for spec in grid.methods}
    facts["tasks"] = {spec.name: spec for spec in grid.tasks}
    return facts


def test_parts_of_a_corpus_are_files_of_their_own(read, tmp_path):
    grid = read(change("  path: data/{lang}-{pivot}", f"{PARTS}\n  split: files"))
    assert grid.corpus.split == "files"
    assert grid.corpora["de"].params.path.paths() == {
        "train": str(tmp_path / "data/{lang}-{pivot}.train"),
        "dev": str(tmp_path / "data/dev"),
        "test": str(tmp_path / "data/test"),
    }
    sides = "  path: {train: 'train/{side}', test: 'test/{side}'}\n  split: files"
    paths = read(change("  path: data/{lang}-{pivot}", sides)).corpora["de"].params.path.paths()
    assert paths["test"] == str(tmp_path / "test/{side}")


def points(read, lora):
    grid = read(change("  none: {}", f"  finetune: {{lora: {lora}}}"))
    return [point.lora for point in grid.methods[0].points]


def test_lists_in_a_mapping_are_axes_like_any_other(read):
    none, *found = points(read, "[none, {rank: [4, 8], alpha: [8, 16]}, {}]")
    product = [(4, 8.0), (4, 16.0), (8, 8.0), (8, 16.0), (8, 16.0)]
    assert none == "none"
    assert [(point.rank, point.alpha) for point in found] == product


def test_a_mapping_that_a_list_makes_twice_is_a_fault(faults):
    text = change("  none: {}", "  finetune: {lora: [{rank: [4, 8]}, {rank: 8}]}")
    (told,) = faults(text)
    assert told.startswith("line 10: methods.finetune.lora[1]: a mapping is given twice (")
