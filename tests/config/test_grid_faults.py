"""Faults of a grid file: all at once, each with its line and what would be right."""

import pytest

from raxalign.errors import GridError
from raxalign.grid.file import KEYS
from tests.config.small import PARTS, SMALL, cases, change


def test_five_faults_are_told_at_once_with_their_lines_and_what_is_right(faults):
    text = change("pivot: en", "pivott: en")
    text = change("[de, no]", "[de, norsk]", text)
    pairs = "pairs: {symmetrization: intersect}\nsentences: [0]"
    text = change("sentences: [1_000, 10_000]", pairs, text)
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


def test_of_very_many_faults_the_first_hundred_are_printed_and_the_others_counted(read):
    with pytest.raises(GridError) as caught:
        read(f"{SMALL}seeds: [{', '.join(['a'] * 1_200)}]\n")
    first, *lines, last = str(caught.value).splitlines()
    assert first.endswith(f": {len(caught.value.faults):,} faults")
    assert len(caught.value.faults) >= 1_200
    assert (len(lines), last) == (100, f"  and {len(caught.value.faults) - 100:,} more")


def test_faults_hidden_behind_a_duplicate_key_are_told_too(faults):
    told = faults(change("pivot: en", "name: twice\nseed: 1"))
    assert told == [
        "line 2: name: given twice (it is also on line 1; keep one)",
        "line 3: seed: unknown key (did you mean seeds?)",
    ]


def test_every_missing_or_empty_section_is_told(faults):
    told = faults("pivot: en\ncorpus:\n")
    missing = ["encoder", "languages", "methods", "name", "sentences", "tasks", "corpus"]
    assert [line.split(":")[1].strip() for line in told] == missing


def test_a_fault_in_a_product_is_told_once(faults):
    told = faults(change("center: [", "poling: [a, b], pooling: [first, lst], center: ["))
    assert told == [
        "line 11: methods.rotation.poling: unknown key (did you mean pooling?)",
        "line 11: methods.rotation.pooling[1]: 'lst' is not permitted (did you mean last?"
        " permitted: first, last, mean, sum)",
    ]


RANGES = "a range such as 9-12 or 0.5-1.0"
FORMS = f"write `last`, one number, a fraction of the depth such as 0.5, or {RANGES}"
LAYERS = {
    "banana": FORMS,
    "-1": FORMS,
    "12-9": "a range begins with its smaller number",
    "1.0-0.5": "a range begins with its smaller number",
    "0.5-9": "a range has two numbers, or two fractions of the depth",
    "1.5": "a number with a point is a fraction of the depth, at most 1.0 (the last layer); write a"
    " layer's number without a point",
}


@pytest.mark.parametrize("layers", LAYERS)
def test_layers_of_another_form_are_faults_of_the_file(layers, faults):
    text = change("layers: [9, 9-12]", f"layers: [9, {layers}]")
    given = f"layers: {layers}"
    space = f"  retrieval: {{{given}}}\n  space: {{kind: representation, {given}}}"
    said = f"layers {layers!r}: {LAYERS[layers]}"
    assert faults(change("  retrieval: {}", space, text)) == [
        f"line 11: methods.rotation.layers[1]: {said}",
        f"line 13: tasks.retrieval.layers: {said}",
        f"line 14: tasks.space.layers: {said}",
    ]


def test_a_tagger_s_features_and_one_layer_alone_have_faults_of_their_own(faults):
    tasks = "  ner: {layers: last-five}\n  slots: {data: hub, dataset: x, layers: last-four}"
    methods = "  sentence_margin: {layers: 1-3}\n  distillation: {layers: 2-2}"
    assert faults(change("  none: {}", methods, change("  retrieval: {}", tasks))) == [
        "line 10: methods.sentence_margin.layers: layers '1-3' names several layers; choose one",
        f"line 14: tasks.ner.layers: layers 'last-five': {FORMS} (or `last-four`)",
    ]


FAULTS = cases(
    r"""
name: small => name: a/b => line 1: name: 'a/b' is not a valid name
bert-base-multilingual-cased => {kind: scrach}
=> line 3: encoder.kind: unknown encoder 'scrach' (did you mean scratch?)
bert-base-multilingual-cased => {name: x} => line 3: encoder: an encoder needs a `kind`
bert-base-multilingual-cased => [a, a] => line 3: encoder[1]: the same encoder is given twice
{each: [de, no]} => [de, no]
=> line 4: languages: a list does not say how the languages are grouped
{each: [de, no]} => {each: [de], together: [no]} => line 4: languages: both `together` and `each`
{each: [de, no]} => {eech: [de]} => line 4: languages.eech: unknown key (did you mean each?)
[de, no] => [de, en] => line 4: languages.each[1]: 'en' is the pivot
[de, no] => [de, de] => line 4: languages.each[1]: 'de' is given twice
[de, no] => [de, eng_Latn]
=> line 4: languages.each[1]: 'eng_Latn' is the pivot 'en' (name the other languages
[de, no] => [de, deu]
=> line 4: languages.each[1]: 'deu' and 'de' are the same language (keep one)
[de, no] => [German] => did you mean de?
source: moses => source: mosses
=> line 6: corpus.source: unknown corpus 'mosses' (did you mean moses?)
source: moses => split: {test: 1} => line 5: corpus: `source` is missing
path: data => pth: data => line 7: corpus.pth: unknown key (did you mean path?)
path: data/{lang} => path: data/{language} => line 7: corpus.path: unknown placeholder
|  path:| => |  split: {tset: 1}\n  path:|
=> line 7: corpus.split.tset: unknown key (did you mean test?)
|  path:| => |  by_language: {dr: {path: x}}\n  path:|
=> line 7: corpus.by_language.dr: 'dr' is not one of the grid's languages
|  path:| => |  by_language: {de: {split: {test: 1}}}\n  path:| => is the same for all languages
|  path:| => |  overlap: keeep\n  path:| => did you mean keep?
[1_000, 10_000] => [1_000, 1000] => line 8: sentences[1]: 1000 is given twice
[1_000, 10_000] => [10,000] => |line 8: sentences[1]: 000 is too small (at least 1; a |
[1_000, 10_000] => 1.5 => line 8: sentences: 1.5 is not a whole number
pivot: en => seeds: [0, -1] => line 2: seeds[1]: -1 is too small
pivot: en => seeds: [] => line 2: seeds: is empty
pivot: en => seeds: [true] => line 2: seeds[0]: true is not a whole number
pivot: en => pairs: {aligner: fastalign} => did you mean fast_align?
pivot: en => pairs: {one_to_on: true}
=> line 2: pairs.one_to_on: unknown key (did you mean one_to_one?)
pivot: en => text: {source: wiki} => line 2: text.source: unknown text source 'wiki'
pivot: en => run: {worker: 1} => line 2: run.worker: unknown key (did you mean workers?)
pivot: en => run: {shard_weights: false}
=> line 2: run.shard_weights: was removed (leave it out; where a model is too large for a GPU,
.. train adapters (`lora`), and hold their base in bfloat16: `base_precision: bf16`)
pivot: en => run: {gpus_per_worker: 0, precision: tf32} => line 2: run: precision: tf32 requires
pivot: en => run: {gpus_per_worker: -1}
=> line 2: run.gpus_per_worker: -1 is too small (at least 0)
pivot: en => run: {gpus_per_worker: auto}
=> line 2: run.gpus_per_worker: 'auto' was removed (leave the key out, which gives each worker
.. a GPU where there are any, or write a number such as 0.25; `raxalign plan` prints the memory
.. that was measured)
pivot: en => published: [[a]] => line 2: published[0]: a list is not the name of a table
center: [false, true] => center: [] => line 11: methods.rotation.center: an empty list
center: [false, true] => center: [true, true]
=> line 11: methods.rotation.center[1]: true is given twice
center: [false, true] => center: [[true]]
=> line 11: methods.rotation.center[0]: a list within a list
center: [false, true] => min_count: {log_uniform: [1, 2]} => log_uniform without `search`
|  none: {}| => |  ?!: {kind: none}| => line 10: methods.?!: '?!' is not a valid name
|  none: {}| => |  none: {x: 1}| => line 10: methods.none.x: unknown key
|  none: {}| => |  none: 3| => line 10: methods.none: 3 is not a mapping
retrieval: {} => retreival: {}
=> line 13: tasks.retreival: unknown task 'retreival' (did you mean retrieval?)
retrieval: {} => retrieval: {k: true} => line 13: tasks.retrieval.k: true is not a number
retrieval: {} => retrieval: {languages: [deutsch]}
=> line 13: tasks.retrieval.languages[0]: 'deutsch' is not the code of a language
"""
)


@pytest.mark.parametrize(("old", "new", "said"), FAULTS)
def test_a_fault_has_its_line_and_says_what_is_right(faults, old, new, said):
    assert any(said in line for line in faults(change(old, new))), faults(change(old, new))


def test_the_nearest_of_the_sections_is_named_for_each(faults):
    told = faults(SMALL + "".join(f"{key}_: 1\n" for key in KEYS))
    assert told == [
        f"line {14 + number}: {key}_: unknown key (did you mean {key}?)"
        for number, key in enumerate(KEYS)
    ]


_FILES = f"{PARTS}\n  split: files\n"
PARTS_AND_SPLIT = {
    PARTS: "line 7: corpus.path: training, dev and test are separate files (that requires `split:",
    "  path: x\n  split: files": "line 7: corpus.path: `split: files` requires a path for each of"
    " training, dev and test (write {train: ",
    "  path: x\n  split: fils": "line 8: corpus.split: 'fils' is not permitted (did you mean fi",
    "  path: {trian: x, test: y}\n  split: files": "line 7: corpus.path.trian: unknown key (did you"
    " mean train?)",
    "  path: {train: x}\n  split: files": "line 7: corpus.path.test: is missing",
    "  path: {train: '{lnag}', test: y}\n  split: files": "line 7: corpus.path.train: unknown"
    " placeholder in '{lnag}'",
    _FILES + "  by_language: {no: {path: x}}": "line 9: corpus.by_language.no.path: `split: files`"
    " requires a path",
    _FILES
    + "  by_language: {no: {source: opus, corpus: Europarl}}": "opus has no such files; moses"
    " and tsv may have",
    _FILES + "text: {source: moses, path: {train: x, test: y}}": "line 9: text.path: training, dev"
    " and test are separate files",
}


@pytest.mark.parametrize("lines", PARTS_AND_SPLIT)
def test_parts_and_split_go_together(faults, lines):
    told = faults(change("  path: data/{lang}-{pivot}", lines))
    assert any(PARTS_AND_SPLIT[lines] in line for line in told)


def test_codes_are_bcp_47_tags_and_stay_as_they_were_written(read):
    languages = ["de", "hau", "zh-Hant", "zh_Hans", "pt-BR", "swh_Latn", "xyz"]
    grid = read(change("[de, no]", f"[{', '.join(languages)}]"))
    assert list(grid.languages) == languages


def test_words_of_a_language_without_a_segmenter_are_a_fault_unless_its_text_is_divided(
    read, faults
):
    text = change("[de, no]", "[de, ja, th]")
    text = change("{lang}-{pivot}\n", "{lang}-{pivot}\n  segmentation: words\n", text)
    assert faults(text) == [
        "line 8: corpus.segmentation: there is no segmenter for ja (only for zh, th) (divide its"
        " text into words yourself and set `pretokenized: true` for it under `corpus.by_language`,"
        " or set `segmentation: characters`)"
    ]
    divided = "segmentation: words\n  by_language: {ja: {pretokenized: true}}\n"
    assert read(change("segmentation: words\n", divided, text)).corpus.segmentation == "words"
    assert read(change("words\n", "characters\n", text)).corpus.segmentation == "characters"


def test_adapters_of_a_method_without_training_are_a_fault_and_so_are_bad_ones(faults):
    text = change("  rotation: {center", "  rotation: {lora: {rank: 4}, center")
    text = change("  none: {}", "  finetune: {lora: {rank: [4, 0], alpa: 2}}", text)
    told = faults(text)
    assert [line.split(" (")[0] for line in told] == [
        "line 10: methods.finetune.lora.alpa: unknown key",
        "line 10: methods.finetune.lora.rank[1]: 0 is too small",
        "line 11: methods.rotation.lora: unknown key",
    ]


REMEDIES = cases(
    r"""
[1_000, 10_000] => 10k => '10k' is not a whole number (write 10_000)
[1_000, 10_000] => '200' => '200' is not a whole number (leave out the quotes: 200)
[1_000, 10_000] => all
=> 'all' is not a whole number (write one number, or a list: [1_000, 10_000]; `corpus: {shortage:
.. use-all}` takes what there is)
[1_000, 10_000] => 1\nseeds: 2-4 => '2-4' is not a whole number (write [2, 3, 4])
[1_000, 10_000] => 1\nseeds: few
=> 'few' is not a whole number (write one number, or a list: [0, 1, 2])
center: [false, true], layers: [9, 9-12] => layer: 9 => unknown key (did you mean layers?)
rotation: {center: [false, true], layers: [9, 9-12]} => finetune: {lr: 1e-4}
=> unknown key (did you mean learning_rate?)
rotation: {center: [false, true], layers: [9, 9-12]} => rotation: true
=> true is not a mapping (write rotation: {}, or its options in place of {})
tasks:\n  retrieval: {} => tasks: [retrieval, xnli]
=> a list is not a mapping (write {retrieval: {}, xnli: {}})
sentences: => pairs: {aligner: [eflomal, links]}\nsentences:
=> a list is not the name of a word aligner (name one of: awesome_align, eflomal, fast_align, links, simalign, thot)
|  path:| => |  split: {test: 0.1}\n  path:| => 0.1 is not a whole number (number of lines)
"""  # noqa: E501
)


@pytest.mark.parametrize(("old", "new", "said"), REMEDIES)
def test_a_fault_says_what_to_write_instead(old, new, said, faults):
    (told,) = faults(change(old, new))
    assert told.split(": ", 2)[2] == said


def test_a_long_value_is_quoted_in_part(faults):
    (told,) = faults(change("tasks:\n  retrieval: {}", f"tasks: {'long ' * 40}"))
    assert len(told) < 250
    assert "long lo...' is not a mapping" in told


def test_more_points_than_can_be_planned_are_a_fault(faults):
    many = list(range(1, 501))
    (told,) = faults(change("[1_000, 10_000]", f"{many}\nseeds: {many}"))
    refused = "methods: the grid has 2,500,000 configurations (a grid may have 1,000,000; shorten"
    assert refused in told


def test_a_value_that_was_removed_says_what_to_write_instead(faults):
    (told,) = faults(f"{SMALL}run: {{keep: best}}\n")
    assert told.endswith(
        "run.keep: 'best' was removed (write `all`, and delete by `raxalign gc` what no"
        " grid needs, or `none`)"
    )
