"""Parts of speech end to end on a tiny BERT, from CoNLL-U and from the phrasebook."""

from __future__ import annotations

import datasets
import numpy as np
import pytest

from raxalign.config.sources import RemoteData
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.pos import Pos
from raxalign.tasks.tagging.reading import read_hub
from raxalign.tasks.tagging.scheme import ENTITIES
from raxalign.tasks.transfer.params import HubSet
from raxalign.train.runtime import Runtime
from tests.tasks.outcomes import trained, write_hub

KINDS = {
    "DET": ["the", "a"],
    "NOUN": ["cat", "dog", "hen"],
    "VERB": ["sees", "hears"],
    "PUNCT": ["."],
}
ORDER = ("DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT")


def write(path, n, seed, last="PUNCT"):
    rng, text = np.random.default_rng(seed), "# newdoc\n"
    for _ in range(n):
        words = [str(rng.choice(KINDS[kind])) for kind in ORDER]
        rows = [
            (word, last if kind == "PUNCT" else kind)
            for word, kind in zip(words, ORDER, strict=True)
        ]
        text += "1-2\tx\t" + "\t".join("_" * 8) + "\n"
        text += (
            "".join(
                "\t".join([str(i), word, "_", kind, *"______"]) + "\n"
                for i, (word, kind) in enumerate(rows, 1)
            )
            + "\n"
        )
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def encoder(tiny):
    return tiny([word for words in KINDS.values() for word in words], positions=16)


def pos(tmp_path, **params):
    data = {"train": f"{tmp_path}/train", "dev": f"{tmp_path}/dev-{{lang}}"}
    return Pos(Pos.Params(data=data, learning_rate=5e-3, batch_size=8, epochs=3, **params))


def outcome(tmp_path, encoder, **params):
    write(tmp_path / "train", 48, 0)
    write(tmp_path / "dev-en", 12, 1)
    write(tmp_path / "dev-de", 12, 2, last="SYM")
    # A small grammar says the same again: what is asked here is how words are counted.
    return trained(pos(tmp_path, **params), AlignedEncoder(encoder), tmp_path / "tuned")[0]


def test_tags_that_training_lacks_are_wrong(tmp_path, encoder):
    found = outcome(tmp_path, encoder)
    shares = {"en": 1, "de": 5 / 6, "avg": 11 / 12, "avg_zero_shot": 5 / 6}
    values = {(s.lang, s.metric): s.value for s in found.scores}
    assert values == {(lang, "accuracy"): pytest.approx(v) for lang, v in shares.items()}
    assert found.notes["tags_not_in_training"] == {"de/dev": ["SYM"]}
    assert "f1" not in found.predictions.column_names


def test_words_beyond_the_length_are_wrong(tmp_path, encoder):
    """Of [CLS], six words and [SEP], eight pieces, two words more than six pieces leave room for
    are left out.
    """
    found = outcome(tmp_path, encoder, max_length=8)
    assert {s.value for s in found.scores if s.lang == "en"} == {1.0}
    write(tmp_path / "dev-en", 4, 5)
    rest = "\t_\tNOUN" + "\t_" * 6 + "\n"
    text = (tmp_path / "dev-en").read_text()
    text = text.replace("6\t.\t", f"6\tcat{rest}7\tdog{rest}8\t.\t")
    (tmp_path / "dev-en").write_text(text)
    task, given = pos(tmp_path, max_length=8), TaskInputs("en")
    aligned = AlignedEncoder(encoder)
    again = task.evaluate(aligned, ("en",), given, Runtime(), tmp_path / "tuned")
    assert {s.value for s in again.scores if s.lang == "en"} == {6 / 8}
    assert all(row[6:] == ["_", "_"] for row in again.predictions["predicted"].to_pylist())


def test_the_hub_has_a_treebank_a_language():
    source = Pos(Pos.Params()).sources("de", "en")["hub"]
    assert source == RemoteData(
        "hub:universal-dependencies/universal_dependencies/de_gsd@refs/convert/parquet"
    )


UD = ["NOUN", "_", "ADP", "DET"]


def on_the_hub(folder, config, split, tokens, upos, names=None):
    """A split of a treebank as the hub's branch of converted files has it."""
    text = datasets.Value("string")
    bare = text if isinstance(upos[0][0], str) else datasets.Value("int64")
    tag = datasets.Sequence(datasets.ClassLabel(names=names) if names else bare)
    types = {"tokens": datasets.Sequence(text), "upos": tag}
    write_hub(folder, config, split, {"tokens": tokens, "upos": upos}, types)


def of_hub(folder, config, split="test"):
    found = HubSet(str(folder), config, "main")
    return read_hub(found, split, Pos(Pos.Params()).scheme(), folder / "cache").rows


def test_of_the_hubs_words_ranges_alone_are_left_out(tmp_path):
    on_the_hub(
        tmp_path, "de_gsd", "test", [["zum", "zu", "dem", "Haus"], ["zur"]], [[1, 2, 3, 0], [1]], UD
    )
    on_the_hub(
        tmp_path, "de_text", "test", [["zum", "zu", "dem", "Haus"]], [["_", "ADP", "DET", "NOUN"]]
    )
    expected = [(("zu", "dem", "Haus"), ("ADP", "DET", "NOUN"))]
    assert [(row.words, row.tags) for row in of_hub(tmp_path, "de_gsd")] == expected
    assert [(row.words, row.tags) for row in of_hub(tmp_path, "de_text")] == expected


def test_tags_of_the_hub_that_are_no_universal_ones_are_an_error_with_their_row(tmp_path):
    on_the_hub(tmp_path, "de_fine", "test", [["a"], ["b", "c"]], [["NOUN"], ["NOUN", "NN"]])
    on_the_hub(tmp_path, "de_bare", "test", [["a"], ["b", "c"]], [[0], [0, 2]])
    on_the_hub(tmp_path, "de_none", "test", [["a"], ["b", "c"]], [[0], [2, -1]], UD)
    with pytest.raises(DataError, match="expected tokens and ner_tags or tags"):
        read_hub(HubSet(str(tmp_path), "de_fine", "main"), "test", ENTITIES, tmp_path / "cache")
    with pytest.raises(DataError, match=r"de_fine:test:2: unknown part of speech 'NN'"):
        of_hub(tmp_path, "de_fine")
    with pytest.raises(DataError, match=r"de_bare:test:1: the tag 0 is not text and has no name"):
        of_hub(tmp_path, "de_bare")
    with pytest.raises(
        DataError, match=r"de_none:test:2: the tag (None|-1) is not text and has no name"
    ):
        of_hub(tmp_path, "de_none")


def test_a_treebank_of_the_hub_without_a_sentence_is_an_error(tmp_path):
    on_the_hub(tmp_path, "de_gsd", "test", [["zum"], []], [[1], []], UD)
    with pytest.raises(DataError, match=r"de_gsd:test: has no sentences"):
        of_hub(tmp_path, "de_gsd")


def test_a_treebank_that_has_a_test_set_alone_is_scored_on_it(tmp_path, encoder):
    rng = np.random.default_rng(0)
    for config, splits in (
        ("en_ewt", {"train": 8, "validation": 3, "test": 3}),
        ("th_pud", {"test": 3}),
    ):
        for split, n in splits.items():
            words = [
                [str(rng.choice(KINDS[kind])) for kind in ORDER[: 3 + i % 4]] for i in range(n)
            ]
            on_the_hub(
                tmp_path / "ud", config, split, words, [list(ORDER[: len(row)]) for row in words]
            )

    def run(name, **params):
        options = {"learning_rate": 5e-3, "batch_size": 8, "epochs": 1, **params}
        task = Pos(Pos.Params(dataset=str(tmp_path / "ud"), **options))
        aligned = AlignedEncoder(encoder)
        return trained(task, aligned, tmp_path / name, ("th",), downloads=tmp_path)[0]

    found = run("pivot-dev")
    assert {(s.lang, s.split) for s in found.scores} == {
        ("en", "dev"),
        *((lang, "test") for lang in ("en", "th", "avg", "avg_zero_shot")),
    }
    assert found.notes["missing_splits"] == ["th/dev"]
    with pytest.raises(
        DataError,
        match=r"th_pud:validation: has no split validation; its splits are test.*`selection`",
    ):
        run("target-dev", selection="target-dev")
