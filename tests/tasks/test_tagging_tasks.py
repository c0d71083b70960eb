"""Taggers end to end on a tiny BERT. Names are known by their words, and end where a plain word
begins; parts of speech are read from CoNLL-U, the phrasebook and the hub.
"""

import json

import datasets
import numpy as np
import pytest
import torch

from raxalign.caveats import Caveats
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError
from raxalign.options.sources import RemoteData
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.pos import Pos
from raxalign.tasks.taggers.reading import TaggedSentences
from raxalign.tasks.taggers.scheme import TagScheme
from raxalign.tasks.transfer.params import HubSet
from raxalign.train.runtime import Runtime
from tests.tasks import word_nli
from tests.tasks.outcomes import scores, trained, write_hub
from tests.tasks.word_ner import WORDS, task, write_all


@pytest.fixture
def encoder(tiny):
    return tiny(WORDS)


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


def test_a_crf_learns_names_and_leaves_the_encoder_alone(tmp_path, encoder, files):
    before = {name: p.clone() for name, p in encoder.model.named_parameters()}
    ner = task(files, "bilstm_crf", epochs=4)
    outcome, _ = trained(ner, AlignedEncoder(encoder), tmp_path / "tuned")
    found = scores(outcome, "f1")
    assert found["en", "test"] > 0.9
    assert {lang for lang, _ in found} == {"en", "de", "avg", "avg_zero_shot"}
    assert all(torch.equal(p, before[name]) for name, p in encoder.model.named_parameters())
    assert outcome.notes["tags_not_in_training"] == {"de/test": ["B-MISC"]}
    predicted = outcome.predictions["predicted"].to_pylist()
    assert not any("MISC" in tag for row in predicted for tag in row)


def test_a_frozen_encoder_may_be_read_at_any_layers(files):
    training = task(files, "bilstm_crf", layers="9-12").training()
    assert "leaves the encoder as it is" in training.alone[0]


def test_rows_that_are_left_out_are_counted_beside_the_results(tmp_path, encoder, files):
    """In MultiATIS++'s form: the first request of some files has a label too many."""
    for path in (tmp_path / "files").iterdir():
        sentences = path.read_text(encoding="utf-8").strip().split("\n\n")[1:]
        rows = [[line.split(" x ") for line in text.split("\n")] for text in sentences]
        cells = [[" ".join(column) for column in zip(*row, strict=True)] for row in rows]
        if path.name in ("train-en", "test-de"):
            cells[0][1] += " O"
        lines = ["utterance\tslot_labels", *("\t".join(row) for row in cells)]
        path.write_text("\n".join(lines), encoding="utf-8")
    ner = task(files, epochs=1, mismatched="drop")
    outcome, notes = trained(ner, AlignedEncoder(encoder), tmp_path / "tuned")
    said = "is left out: with other numbers of words and of tags"
    assert notes["sentences"] == 119
    assert Caveats.thin_support("ner", notes) == {"ner en/train": f"1 of 120 sentences {said}"}
    told = Caveats.thin_support("ner", outcome.notes)
    assert told == {"ner de/test": f"1 of 20 sentences {said}"}
    assert outcome.notes["sentences"]["de/test"] == 19


@pytest.mark.slow
def test_each_rule_takes_the_weights_that_it_says(tmp_path, encoder, files):
    for rule in ("pivot-dev", "mean-dev", "target-dev"):
        ner = task(files, "bilstm_crf", selection=rule, max_train=40, batch_size=8)
        ner.evaluate_every = 4
        outcome, notes = trained(ner, AlignedEncoder(encoder), tmp_path / rule)
        (record,), found = notes["models"], scores(outcome, "f1")
        curves, chosen = record["dev"], outcome.notes["steps"]["all"]
        # 2 epochs of 5 batches: every 4 steps, and at the end
        assert list(curves) == ["4", "8", "10"]
        assert set(curves["4"]) == ({"en"} if rule == "pivot-dev" else {"en", "de"})
        for lang in ("en", "de"):
            by = {"pivot-dev": ["en"], "mean-dev": ["en", "de"], "target-dev": [lang]}[rule]
            means = {int(n): np.mean([curve[name] for name in by]) for n, curve in curves.items()}
            assert chosen[lang] == max(means, key=means.get)
            if lang in curves["4"]:
                assert found[lang, "dev"] == pytest.approx(curves[str(chosen[lang])][lang])
        assert ("warning" in outcome.notes) is (rule == "target-dev")
        assert {int(step) for step in record["files"]} == set(record["chosen"].values())
        assert json.loads((tmp_path / rule / "training.json").read_text())["models"][0]["dev"]


def test_sentences_that_were_trained_on_are_marked(tmp_path, encoder, files):
    train, test = (word_nli.at(files[split], "en") for split in ("train", "test"))
    test.write_text(test.read_text() + train.read_text().split("\n\n")[1] + "\n", encoding="utf-8")
    ner = task(files, epochs=1, max_train=16)
    outcome, _ = trained(ner, AlignedEncoder(encoder), tmp_path / "tuned")
    assert outcome.notes["seen_in_training"] == {"en/test": 1}
    assert [row["id"] for row in outcome.predictions.to_pylist() if row["seen"]] == [20]


KINDS = {"DET": "the a", "NOUN": "cat dog hen", "VERB": "sees hears", "PUNCT": "."}
ORDER = ("DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT")


def sentence(rng, n=6):
    """The words and the kinds of a sentence of the grammar, or of its beginning."""
    return [str(rng.choice(KINDS[kind].split())) for kind in ORDER[:n]], list(ORDER[:n])


def write_words(path, n, seed, last="PUNCT"):
    rng, lines = np.random.default_rng(seed), ["# newdoc"]
    for _ in range(n):
        lines.append("1-2\tx" + "\t_" * 8)
        for i, (word, kind) in enumerate(zip(*sentence(rng), strict=True), 1):
            lines.append(f"{i}\t{word}\t_\t{last if kind == 'PUNCT' else kind}" + "\t_" * 6)
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def speech(tiny):
    return AlignedEncoder(tiny(" ".join(KINDS.values()).split(), positions=16))


@pytest.fixture(scope="module")
def parsed(tmp_path_factory, speech):
    """A folder with files and a tagger that was trained on them, its task, and the outcome."""
    folder = tmp_path_factory.mktemp("parsed")
    write_words(folder / "train", 48, 0)
    write_words(folder / "dev-en", 12, 1)
    write_words(folder / "dev-de", 12, 2, last="SYM")
    data = {"train": f"{folder}/train", "dev": f"{folder}/dev-{{lang}}"}
    # A small grammar says the same again: what is asked here is how words are counted.
    options = {"learning_rate": 5e-3, "batch_size": 8, "epochs": 3, "max_length": 8}
    task = Pos(Pos.Params(data=data, **options))
    return folder, task, trained(task, speech, folder / "tuned")[0]


def test_tags_that_training_lacks_are_wrong(parsed):
    *_, found = parsed
    shares = {"en": 1, "de": 5 / 6, "avg": 11 / 12, "avg_zero_shot": 5 / 6}
    values = {(s.lang, s.metric): s.value for s in found.scores}
    assert values == {(lang, "accuracy"): pytest.approx(v) for lang, v in shares.items()}
    assert found.notes["tags_not_in_training"] == {"de/dev": ["SYM"]}
    assert "f1" not in found.predictions.column_names


def test_words_beyond_the_length_are_wrong(parsed, speech):
    """Of [CLS], six words and [SEP], eight pieces, two words more than six pieces leave room for
    are left out.
    """
    folder, task, found = parsed
    assert {s.value for s in found.scores if s.lang == "en"} == {1.0}
    write_words(folder / "dev-en", 4, 5)
    rest = "\t_\tNOUN" + "\t_" * 6 + "\n"
    text = (folder / "dev-en").read_text()
    text = text.replace("6\t.\t", f"6\tcat{rest}7\tdog{rest}8\t.\t")
    (folder / "dev-en").write_text(text)
    again = task.evaluate(speech, ("en",), TaskInputs("en"), Runtime(), folder / "tuned")
    assert {s.value for s in again.scores if s.lang == "en"} == {6 / 8}
    assert all(row[6:] == ["_", "_"] for row in again.predictions["predicted"].to_pylist())


def test_the_hub_has_a_treebank_a_language():
    place = "universal-dependencies/universal_dependencies/de_gsd@refs/convert/parquet"
    assert Pos(Pos.Params()).sources("de", "en")["hub"] == RemoteData(f"hub:{place}")


UD = ["NOUN", "_", "ADP", "DET"]


def on_the_hub(folder, config, tokens, upos, names=None, split="test"):
    """A split of a treebank as the hub's branch of converted files has it."""
    text = datasets.Value("string")
    bare = text if isinstance(upos[0][0], str) else datasets.Value("int64")
    tag = datasets.Sequence(datasets.ClassLabel(names=names) if names else bare)
    types = {"tokens": datasets.Sequence(text), "upos": tag}
    write_hub(folder, config, split, {"tokens": tokens, "upos": upos}, types)


def of_hub(folder, config, split="test"):
    found = HubSet(str(folder), config, "main")
    return TaggedSentences.of_hub(found, split, Pos(Pos.Params()).scheme(), folder / "cache").rows


def test_of_the_hubs_words_ranges_alone_are_left_out(tmp_path):
    words = ["zum", "zu", "dem", "Haus"]
    on_the_hub(tmp_path, "de_gsd", [words, ["zur"]], [[1, 2, 3, 0], [1]], UD)
    on_the_hub(tmp_path, "de_text", [words], [["_", "ADP", "DET", "NOUN"]])
    expected = [(("zu", "dem", "Haus"), ("ADP", "DET", "NOUN"))]
    assert [(row.words, row.tags) for row in of_hub(tmp_path, "de_gsd")] == expected
    assert [(row.words, row.tags) for row in of_hub(tmp_path, "de_text")] == expected


def test_tags_of_the_hub_that_are_no_universal_ones_are_an_error_with_their_row(tmp_path):
    words = [["a"], ["b", "c"]]
    on_the_hub(tmp_path, "de_fine", words, [["NOUN"], ["NOUN", "NN"]])
    on_the_hub(tmp_path, "de_bare", words, [[0], [0, 2]])
    on_the_hub(tmp_path, "de_none", words, [[0], [2, -1]], UD)
    with pytest.raises(DataError, match="expected tokens and ner_tags or tags"):
        TaggedSentences.of_hub(
            HubSet(str(tmp_path), "de_fine", "main"), "test", TagScheme(), tmp_path / "cache"
        )
    with pytest.raises(DataError, match=r"de_fine:test:2: unknown part of speech 'NN'"):
        of_hub(tmp_path, "de_fine")
    with pytest.raises(DataError, match=r"de_bare:test:1: the tag 0 is not text and has no name"):
        of_hub(tmp_path, "de_bare")
    told = r"de_none:test:2: the tag (None|-1) is not text and has no name"
    with pytest.raises(DataError, match=told):
        of_hub(tmp_path, "de_none")


def test_a_treebank_of_the_hub_without_a_sentence_is_an_error(tmp_path):
    on_the_hub(tmp_path, "de_gsd", [["zum"], []], [[1], []], UD)
    with pytest.raises(DataError, match=r"de_gsd:test: has no sentences"):
        of_hub(tmp_path, "de_gsd")


def test_a_treebank_that_has_a_test_set_alone_is_scored_on_it(tmp_path, speech):
    rng, sizes = np.random.default_rng(0), {"train": 8, "validation": 3, "test": 3}
    for config, splits in (("en_ewt", sizes), ("th_pud", {"test": 3})):
        for split, n in splits.items():
            rows = zip(*(sentence(rng, 3 + i % 4) for i in range(n)), strict=True)
            on_the_hub(tmp_path / "ud", config, *map(list, rows), split=split)

    def run(name, **params):
        options = {"learning_rate": 5e-3, "batch_size": 8, "epochs": 1, **params}
        task = Pos(Pos.Params(dataset=str(tmp_path / "ud"), **options))
        return trained(task, speech, tmp_path / name, ("th",), downloads=tmp_path)[0]

    found = run("pivot-dev")
    tested = {(lang, "test") for lang in ("en", "th", "avg", "avg_zero_shot")}
    assert {(s.lang, s.split) for s in found.scores} == {("en", "dev"), *tested}
    assert found.notes["missing_splits"] == ["th/dev"]
    told = r"th_pud:validation: has no split validation; its splits are test.*`selection`"
    with pytest.raises(DataError, match=told):
        run("target-dev", selection="target-dev")
