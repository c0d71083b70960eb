from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raxalign.config.grid import KEYS, Grid, load
from raxalign.errors import GridError
from tests.strategies import grids, to_yaml

SMALL = """\
name: small
pivot: en
encoder: bert-base-multilingual-cased
languages: {each: [de, no]}
corpus:
  source: moses
  path: data/{lang}-{pivot}
sentences: [1_000, 10_000]
methods:
  none: {}
  rotation: {center: [false, true], layers: [9, 9-12]}
tasks:
  retrieval: {}
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """A function that reads a grid file of a text."""

    def load_text(text: str) -> Grid:
        path = tmp_path / "grid.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path)

    return load_text


@pytest.fixture
def faults(read: Any) -> Any:
    """A function that gives the faults of a text, one a line."""

    def said(text: str) -> list[str]:
        with pytest.raises(GridError) as caught:
            read(text)
        return [str(fault) for fault in caught.value.faults]

    return said


def change(old: str, new: str, text: str = SMALL) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def test_a_small_grid_has_its_defaults_filled_in(read: Any, tmp_path: Path) -> None:
    grid = read(SMALL)
    assert (grid.name, grid.pivot, grid.together, grid.languages) == (
        "small",
        "en",
        False,
        ("de", "no"),
    )
    assert [(spec.kind, spec.label) for spec in grid.encoders] == [
        ("transformer", "bert-base-multilingual-cased")
    ]
    assert (grid.sentences, grid.seeds) == ((1_000, 10_000), (0,))
    assert (grid.split.test, grid.split.dev, grid.overlap, grid.shortage, grid.max_words) == (
        1024,
        1024,
        "drop",
        "refuse",
        128,
    )
    assert (
        grid.pairs.kind,
        grid.pairs.symmetrization,
        grid.pairs.one_to_one,
        grid.pairs.align_on,
    ) == ("eflomal", "intersection", True, "own")
    assert (grid.text.source, grid.exclude, grid.published) == ("parallel", (), ())
    assert grid.path == tmp_path / "grid.yaml"
    assert grid.text_of_file == SMALL


def test_a_list_is_an_axis_and_points_are_the_product(read: Any) -> None:
    none, rotation = read(SMALL).methods
    assert len(none.points) == 1
    assert [(point.center, point.layers) for point in rotation.points] == [
        (False, "9"),
        (False, "9-12"),
        (True, "9"),
        (True, "9-12"),
    ]


def test_norwegian_and_numbers_mean_what_they_say(read: Any) -> None:
    grid = read(change("layers: [9, 9-12]", "min_count: [1e1, 10_000]"))
    assert grid.languages[1] == "no"
    assert {point.min_count for point in grid.methods[1].points} == {10, 10_000}


def test_lists_under_a_task_are_values_and_one_kind_may_have_two_names(read: Any) -> None:
    grid = read(
        change(
            "  retrieval: {}", "  retrieval: {}\n  near: {kind: retrieval, k: 5, languages: [de]}"
        )
    )
    assert [(task.name, task.kind, task.params.k, task.languages) for task in grid.tasks] == [
        ("retrieval", "retrieval", 10, None),
        ("near", "retrieval", 5, ("de",)),
    ]


def test_five_faults_are_told_at_once_with_their_lines_and_what_is_right(faults: Any) -> None:
    text = change("pivot: en", "pivott: en")
    text = change("[de, no]", "[de, norsk]", text)
    text = change(
        "sentences: [1_000, 10_000]", "pairs: {symmetrization: intersect}\nsentences: [0]", text
    )
    text = change("  rotation: {center", "  rotatoin: {centre", text)
    told = faults(text)
    assert [line.split(" (")[0] for line in told] == [
        "line 2: pivott: unknown key",
        "line 4: languages.each[1]: unknown language 'norsk'",
        "line 8: pairs.symmetrization: 'intersect' is not permitted",
        "line 9: sentences[0]: 0 is too small",
        "line 12: methods.rotatoin: unknown method 'rotatoin'",
    ]
    assert "did you mean pivot?" in told[0]
    assert "did you mean intersection?" in told[2]
    assert "did you mean rotation?" in told[4]


def test_faults_hidden_behind_a_duplicate_key_are_told_too(faults: Any) -> None:
    told = faults(change("pivot: en", "name: twice\nseed: 1"))
    assert told == [
        "line 2: name: given twice (it is also on line 1; keep one)",
        "line 3: seed: unknown key (did you mean seeds?)",
    ]


def test_every_missing_or_empty_section_is_told(faults: Any) -> None:
    told = faults("pivot: en\ncorpus:\n")
    assert [line.split(":")[1].strip() for line in told] == [
        "encoder",
        "languages",
        "methods",
        "name",
        "sentences",
        "tasks",
        "corpus",
    ]


def test_a_fault_in_a_product_is_told_once(faults: Any) -> None:
    told = faults(
        change(
            "center: [false, true]", "center: [false, true], poling: [a, b], pooling: [first, lst]"
        )
    )
    assert told == [
        "line 11: methods.rotation.poling: unknown key (did you mean pooling?)",
        (
            "line 11: methods.rotation.pooling[1]: 'lst' is not permitted (did you mean last?"
            " permitted: first, last, mean, sum)"
        ),
    ]


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ("banana", "layers 'banana': write `last`, one number, or a range such as 9-12"),
        ("-1", "layers '-1': write `last`, one number, or a range such as 9-12"),
        ("12-9", "layers '12-9': a range begins with its smaller number"),
    ],
)
def test_layers_of_another_form_are_faults_of_the_file(layers: str, said: str, faults: Any) -> None:
    text = change("layers: [9, 9-12]", f"layers: [9, {layers}]")
    text = change(
        "  retrieval: {}",
        f"  retrieval: {{layers: {layers}}}\n  space: {{kind: representation, layers: {layers}}}",
        text,
    )
    assert faults(text) == [
        f"line 11: methods.rotation.layers[1]: {said}",
        f"line 13: tasks.retrieval.layers: {said}",
        f"line 14: tasks.space.layers: {said}",
    ]


def test_a_tagger_s_features_and_one_layer_alone_have_faults_of_their_own(faults: Any) -> None:
    text = change(
        "  retrieval: {}", "  ner: {layers: last-five}\n  pos: {dataset: x, layers: last-four}"
    )
    text = change(
        "  none: {}", "  sentence_margin: {layers: 1-3}\n  distillation: {layers: 2-2}", text
    )
    assert faults(text) == [
        "line 10: methods.sentence_margin.layers: layers '1-3' names several layers; choose one",
        (
            "line 14: tasks.ner.layers: layers 'last-five': write `last-four`, `last`, one number,"
            " or a range such as 9-12"
        ),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: small", "name: a/b", "line 1: name: 'a/b' is not a valid name"),
        (
            "bert-base-multilingual-cased",
            "{kind: scrach}",
            "line 3: encoder.kind: unknown encoder 'scrach' (did you mean scratch?)",
        ),
        ("bert-base-multilingual-cased", "{name: x}", "line 3: encoder: an encoder needs a `kind`"),
        (
            "bert-base-multilingual-cased",
            "[a, a]",
            "line 3: encoder[1]: the same encoder is given twice",
        ),
        (
            "{each: [de, no]}",
            "[de, no]",
            "line 4: languages: a list does not say how the languages are grouped",
        ),
        (
            "{each: [de, no]}",
            "{each: [de], together: [no]}",
            "line 4: languages: both `together` and `each`",
        ),
        (
            "{each: [de, no]}",
            "{eech: [de]}",
            "line 4: languages.eech: unknown key (did you mean each?)",
        ),
        ("[de, no]", "[de, en]", "line 4: languages.each[1]: 'en' is the pivot"),
        ("[de, no]", "[de, de]", "line 4: languages.each[1]: 'de' is given twice"),
        ("[de, no]", "[German]", "did you mean de?"),
        (
            "source: moses",
            "source: mosses",
            "line 6: corpus.source: unknown corpus 'mosses' (did you mean moses?)",
        ),
        ("source: moses", "split: {test: 1}", "line 5: corpus: `source` is missing"),
        ("path: data", "pth: data", "line 7: corpus.pth: unknown key (did you mean path?)"),
        ("path: data/{lang}", "path: data/{language}", "line 7: corpus.path: unknown placeholder"),
        (
            "  path:",
            "  split: {tset: 1}\n  path:",
            "line 7: corpus.split.tset: unknown key (did you mean test?)",
        ),
        (
            "  path:",
            "  by_language: {dr: {path: x}}\n  path:",
            "line 7: corpus.by_language.dr: 'dr' is not one of the grid's languages",
        ),
        (
            "  path:",
            "  by_language: {de: {split: {test: 1}}}\n  path:",
            "is the same for all languages",
        ),
        ("  path:", "  overlap: keeep\n  path:", "did you mean keep?"),
        ("[1_000, 10_000]", "[1_000, 1000]", "line 8: sentences[1]: 1000 is given twice"),
        ("[1_000, 10_000]", "1.5", "line 8: sentences: 1.5 is not a whole number"),
        ("pivot: en", "seeds: [0, -1]", "line 2: seeds[1]: -1 is too small"),
        ("pivot: en", "seeds: []", "line 2: seeds: is empty"),
        ("pivot: en", "seeds: [true]", "line 2: seeds[0]: true is not a whole number"),
        ("pivot: en", "pairs: {aligner: fastalign}", "did you mean fast_align?"),
        (
            "pivot: en",
            "pairs: {one_to_on: true}",
            "line 2: pairs.one_to_on: unknown key (did you mean one_to_one?)",
        ),
        ("pivot: en", "text: {source: wiki}", "line 2: text.source: unknown text source 'wiki'"),
        (
            "pivot: en",
            "run: {worker: 1}",
            "line 2: run.worker: unknown key (did you mean workers?)",
        ),
        (
            "pivot: en",
            "run: {gpus_per_worker: -1}",
            "line 2: run.gpus_per_worker: -1 is too small (at least 0)",
        ),
        (
            "pivot: en",
            "published: [[a]]",
            "line 2: published[0]: a list is not the name of a table",
        ),
        ("center: [false, true]", "center: []", "line 11: methods.rotation.center: an empty list"),
        (
            "center: [false, true]",
            "center: [true, true]",
            "line 11: methods.rotation.center[1]: true is given twice",
        ),
        (
            "center: [false, true]",
            "center: [[true]]",
            "line 11: methods.rotation.center[0]: a list within a list",
        ),
        (
            "center: [false, true]",
            "min_count: {log_uniform: [1, 2]}",
            "log_uniform without `search`",
        ),
        ("  none: {}", "  ?!: {kind: none}", "line 10: methods.?!: '?!' is not a valid name"),
        ("  none: {}", "  none: {x: 1}", "line 10: methods.none.x: unknown key"),
        ("  none: {}", "  none: 3", "line 10: methods.none: 3 is not a mapping"),
        (
            "retrieval: {}",
            "retreival: {}",
            "line 13: tasks.retreival: unknown task 'retreival' (did you mean retrieval?)",
        ),
        (
            "retrieval: {}",
            "retrieval: {k: true}",
            "line 13: tasks.retrieval.k: true is not a number",
        ),
        (
            "retrieval: {}",
            "retrieval: {languages: [fr]}",
            "line 13: tasks.retrieval.languages[0]: 'fr' is not one of the grid's languages",
        ),
    ],
)
def test_a_fault_has_its_line_and_says_what_is_right(
    faults: Any, old: str, new: str, said: str
) -> None:
    assert any(said in line for line in faults(change(old, new))), faults(change(old, new))


def test_a_misspelt_method_is_told_with_the_right_one(faults: Any) -> None:
    assert faults(change("  none: {}", "  fintune: {}")) == [
        "line 10: methods.fintune: unknown method 'fintune' (did you mean finetune?)"
    ]


def test_search_is_checked_and_refused(faults: Any) -> None:
    told = faults(
        change("layers: [9, 9-12]", "min_count: {log_uniform: [1, 2]}")
        + "search: {trials: 4, metric: retrival/avg/x, split: test}\n"
    )
    assert (
        told[0]
        == "line 14: search: this version has no search (leave `search` out and give each option a"
        " list of values)"
    )
    assert told[1:] == ["line 14: search.split: 'test' is not permitted (permitted: dev)"]
    told = faults(SMALL + "search: {trials: 4, metric: retrival/avg/x}\n")
    assert told[1] == "line 14: search.metric: unknown task 'retrival' (did you mean retrieval?)"


def test_excluded_points_are_those_of_the_grid(read: Any, faults: Any) -> None:
    grid = read(
        SMALL
        + "exclude: [{method: rotation, layers: 9, sentences: [1000]}, {language: no, encoder:"
        " bert-base-multilingual-cased}]\n"
    )
    assert grid.exclude == (
        {"method": "rotation", "layers": "9", "sentences": [1_000]},
        {"language": "no", "encoder": "bert-base-multilingual-cased"},
    )
    told = faults(
        SMALL + "exclude:\n- {method: rotate}\n- {sentence: 1}\n- {method: none, center: true}\n-"
        " {center: 2, seed: 7}\n- {}\n"
    )
    assert [line.split(" (")[0] for line in told] == [
        "line 15: exclude[0].method: 'rotate' is not a method of this grid",
        "line 16: exclude[1].sentence: unknown key",
        "line 17: exclude[2].center: unknown key",
        "line 18: exclude[3].center: 2 is not a value of center of this grid",
        "line 18: exclude[3].seed: 7 is not a seed of this grid",
        "line 19: exclude[4]: an entry without conditions would exclude everything",
    ]


def test_a_point_is_excluded_by_a_mapping_or_by_a_part_of_it(read: Any, faults: Any) -> None:
    text = change(
        "rotation: {",
        "weak_contrastive: {freeze: [lower, {blocks: 1-2}, {blocks: 1-2, embeddings: true}]}\n "
        " rotation: {",
        SMALL,
    )
    held = {"blocks": "1-2", "embeddings": True}
    assert (
        read(
            text
            + "exclude: [{method: weak_contrastive, freeze: {blocks: 1-2, embeddings: true}}]\n"
        ).exclude[0]["freeze"]
        == held
    )
    assert (
        read(text + "exclude: [{freeze: {embeddings: true}, method: weak_contrastive}]\n").exclude[
            0
        ]["freeze"]
        == held
    )
    assert (
        read(text + "exclude: [{method: weak_contrastive, freeze: lower}]\n").exclude[0]["freeze"]
        == "lower"
    )
    (told,) = faults(text + "exclude: [{method: weak_contrastive, freeze: {blocks: 3}}]\n")
    assert "exclude[0].freeze: a mapping is not a value of freeze of this grid" in told


def test_paths_are_relative_to_the_grid_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grids").mkdir()
    (tmp_path / "grids" / "beside").mkdir()
    text = change("data/{lang}", "../data/{lang}")
    text = change(
        "bert-base-multilingual-cased",
        "[beside, ../mini, ~/mine, {kind: transformer, name: ./other}, some/hub-name]",
        text,
    )
    text = change("center: [false, true]", 'dictionary: "dict/{lang}-{pivot}.txt"', text)
    (tmp_path / "grids" / "grid.yaml").write_text(text + "run: {storage: ../store}\n")
    monkeypatch.chdir(tmp_path)
    grid = load("grids/grid.yaml")
    names = [spec.params.name for spec in grid.encoders]  # type: ignore[attr-defined]
    assert names == [
        f"{tmp_path}/grids/beside",
        f"{tmp_path}/mini",
        str(Path.home() / "mine"),
        f"{tmp_path}/grids/other",
        "some/hub-name",
    ]
    assert grid.corpus_for("de").params.path == f"{tmp_path}/data/{{lang}}-{{pivot}}"  # type: ignore[attr-defined]
    assert grid.methods[1].points[0].dictionary == f"{tmp_path}/grids/dict/{{lang}}-{{pivot}}.txt"  # type: ignore[attr-defined]
    assert grid.run.storage == f"{tmp_path}/store"


def test_encoders_of_one_name_have_different_labels(read: Any) -> None:
    grid = read(
        change(
            "bert-base-multilingual-cased",
            "[{kind: scratch, layers: 2}, {kind: scratch, steps: 5}, scratch]",
        )
    )
    labels = [spec.label for spec in grid.encoders]
    assert len(set(labels)) == 3
    assert "layers=2" in labels[0]


def test_a_language_may_have_a_corpus_of_its_own(read: Any, tmp_path: Path) -> None:
    overrides = (
        "  by_language: {de: {path: other}, no: {source: tsv, path: no.tsv}}\n  split: {dev: 0}\n "
        " path:"
    )
    grid = read(change("  path:", overrides))
    german, norwegian = grid.corpus_for("de"), grid.corpus_for("no")
    assert (german.kind, german.params.path) == ("moses", str(tmp_path / "other"))
    assert (norwegian.kind, norwegian.params.path) == ("tsv", str(tmp_path / "no.tsv"))
    assert (grid.split.test, grid.split.dev) == (1024, 0)


def test_shared_options_may_be_incomplete_where_each_language_completes_them(
    read: Any, faults: Any
) -> None:
    text = change("  path: data/{lang}-{pivot}", "  by_language: {de: {path: a}, no: {path: b}}")
    assert read(text).corpus_for("no").params.path.endswith("/b")
    about = (
        "path that both files share up to their extension, the code of the language; it may hold"
        " `{lang}` and `{pivot}`"
    )
    assert faults(change(", no: {path: b}", "", text)) == [
        f"line 5: corpus.path: is missing ({about})"
    ]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(grids())
def test_valid_grids_load_and_the_order_of_keys_does_not_matter(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(to_yaml(data), encoding="utf-8")
    grid = load(path)
    path.write_text(to_yaml(_sorted(data)), encoding="utf-8")
    assert _facts(load(path)) == _facts(grid)
    path.write_text(json.dumps(data), encoding="utf-8")
    assert _facts(load(path)) == _facts(grid)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(grids(), st.data())
def test_any_one_unknown_key_is_named_with_its_line(
    tmp_path: Path, data: dict[str, Any], draw: st.DataObject
) -> None:
    data = json.loads(json.dumps(data))  # strategies share objects
    places = [
        data,
        data["corpus"],
        *data["methods"].values(),
        *data["tasks"].values(),
        *[data[name] for name in ("pairs", "run") if name in data],
    ]
    place = draw.draw(st.sampled_from(places))
    unknown = draw.draw(st.from_regex(r"[a-z]{3,8}_x", fullmatch=True))
    place[unknown] = 1
    path = tmp_path / "grid.yaml"
    path.write_text(to_yaml(data), encoding="utf-8")
    with pytest.raises(GridError) as caught:
        load(path)
    (fault,) = caught.value.faults
    lines = path.read_text().splitlines()
    assert fault.key.endswith(unknown)
    assert fault.line is not None
    assert lines[fault.line - 1].strip() == f"{unknown}: 1"


def test_the_nearest_of_the_sections_is_named_for_each(faults: Any) -> None:
    for key in KEYS:
        told = faults(SMALL + f"{key}_: 1\n")
        assert told == [f"line 14: {key}_: unknown key (did you mean {key}?)"]


def test_reading_a_grid_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(SMALL)
    heavy = [
        "torch._C",
        "transformers.models",
        "datasets.arrow_dataset",
        "ray._raylet",
        "mlflow.client",
    ]
    code = (
        "import sys; from raxalign.config.grid import load; load(sys.argv[1]); print([m for m in"
        f" {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "grid.yaml")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def _sorted(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _sorted(data[name]) for name in sorted(data)}
    return [_sorted(item) for item in data] if isinstance(data, list) else data


def _facts(grid: Grid) -> dict[str, Any]:
    """What a grid says, without the text and without order where order means nothing."""
    facts = {
        name: value
        for name, value in vars(grid).items()
        if name not in {"text_of_file", "methods", "tasks"}
    }
    facts["methods"] = {spec.name: (spec.kind, frozenset(spec.points)) for spec in grid.methods}
    facts["tasks"] = {spec.name: spec for spec in grid.tasks}
    return facts


PARTS = "  path: {train: 'data/{lang}-{pivot}.train', dev: data/dev, test: data/test}"


def test_parts_of_a_corpus_are_files_of_their_own(read: Any, tmp_path: Path) -> None:
    grid = read(change("  path: data/{lang}-{pivot}", f"{PARTS}\n  split: files"))
    assert (grid.split.files, grid.split.test, grid.split.dev) == (True, 0, 0)
    assert grid.corpora["de"].params.path.paths() == {
        "train": str(tmp_path / "data/{lang}-{pivot}.train"),
        "dev": str(tmp_path / "data/dev"),
        "test": str(tmp_path / "data/test"),
    }


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            PARTS,
            (
                "line 7: corpus.path: training, dev and test are separate files (that requires"
                " `split: files` under `corpus`"
            ),
        ),
        (
            "  path: x\n  split: files",
            (
                "line 7: corpus.path: `split: files` requires a path for each of training, dev and"
                " test (write {train: "
            ),
        ),
        (
            "  path: x\n  split: fils",
            "line 8: corpus.split: 'fils' is not permitted (did you mean files?",
        ),
        (
            "  path: {trian: x, test: y}\n  split: files",
            "line 7: corpus.path.trian: unknown key (did you mean train?)",
        ),
        ("  path: {train: x}\n  split: files", "line 7: corpus.path.test: is missing"),
        (
            "  path: {train: '{lnag}', test: y}\n  split: files",
            "line 7: corpus.path.train: unknown placeholder in '{lnag}'",
        ),
        (
            f"{PARTS}\n  split: files\n  by_language: {{no: {{path: x}}}}",
            "line 9: corpus.by_language.no.path: `split: files` requires a path",
        ),
        (
            f"{PARTS}\n  split: files\n  by_language: {{no: {{source: opus, corpus: Europarl}}}}",
            "opus has no such files; moses and tsv may have",
        ),
        (
            f"{PARTS}\n  split: files\ntext: {{source: moses, path: {{train: x, test: y}}}}",
            "line 9: text.path: training, dev and test are separate files",
        ),
    ],
)
def test_parts_and_split_go_together(faults: Any, lines: str, told: str) -> None:
    assert any(told in line for line in faults(change("  path: data/{lang}-{pivot}", lines)))


def test_codes_of_three_letters_lead_to_the_option_for_files_named_so(faults: Any) -> None:
    (told,) = faults(change("[de, no]", "[de, nld]"))
    assert "did you mean nl? " in told
    assert "files named nld are read with `codes: {nl: nld}` under `corpus`" in told


def test_words_of_a_language_without_a_segmenter_are_a_fault_unless_its_text_is_divided(
    read: Any, faults: Any
) -> None:
    text = change("[de, no]", "[de, ja, th]")
    text = change("{lang}-{pivot}\n", "{lang}-{pivot}\n  segmentation: words\n", text)
    assert faults(text) == [
        "line 8: corpus.segmentation: there is no segmenter for ja (only for zh, th) (divide its"
        " text into words yourself and set `pretokenized: true` for it under `corpus.by_language`,"
        " or set `segmentation: characters`)"
    ]
    divided = "segmentation: words\n  by_language: {ja: {pretokenized: true}}\n"
    assert read(change("segmentation: words\n", divided, text)).segmentation == "words"
    assert read(change("words\n", "characters\n", text)).segmentation == "characters"
