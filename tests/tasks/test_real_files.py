"""The readers of the tasks on real files, against counts that other programs made."""

import numpy as np
import pytest

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.answers.rows import Questions, WindowSizes
from raxalign.tasks.answers.task import best, exact_match, f1
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import ExampleFile
from raxalign.tasks.pos import Pos
from raxalign.tasks.slots import Slots
from raxalign.tasks.taggers.reading import TaggedSentences
from raxalign.tasks.xnli import Xnli
from tests.tiny import tiny_bert

pytestmark = pytest.mark.slow  # files of tens of thousands of rows


def test_tagged_files_have_the_rows_and_tags_that_cut_and_sort_count(real_data):
    rows = TaggedSentences.of_file(real_data / "slots-facebook" / "train.en.conll")
    assert len(rows) == 30521
    # one more entity begins with an I-
    assert sum(tag == "B-datetime" for row in rows.rows for tag in row.tags) == 21590 + 1
    assert len(TaggedSentences.of_file(real_data / "slots-snips" / "test.en.conll")) == 700
    for lang in ("en", "de", "es", "fr", "tr", "zh"):
        file = real_data / "ud-pud" / f"dev.{lang}.conllu"
        assert len(TaggedSentences.of_file(file, scheme=Pos(Pos.Params()).scheme())) == 500


def test_requests_come_again_and_only_a_training_file_is_refused(real_data):
    place = real_data / "slots-facebook"
    files = {"train": f"{place}/train.{{pivot}}.conll", "dev": f"{place}/dev.{{lang}}.conll"}
    head = Slots(Slots.Params.model_validate({"data": files})).head(TaskInputs("en"))
    train = head.data.rows("train", "en")
    seen = head.data.rows("dev", "en").seen_in(train.fingerprints(), head.allowed)
    assert int(seen.sum()) == 1374  # of 4181, counted with sort and uniq too
    with pytest.raises(DataError, match="training sentences too"):
        train.seen_in(np.sort(train.fingerprints()), head.allowed)


def test_xnli_has_its_rows_and_labels_and_shares_none_with_the_training_file(real_data):
    scheme = Xnli(Xnli.Params()).scheme()

    def read(name, lang):
        return ExampleFile(real_data / "xnli" / name, lang, "dev", scheme, alone=True).read()

    train = read("train-en.tsv", "en")
    assert len(train) == 6000
    for lang in ("de", "en", "th", "zh"):
        rows = read(f"dev-{lang}.tsv", lang)
        labels = [row.label for row in rows.rows]
        assert [labels.count(label) for label in scheme.labels] == [830] * 3
        rows.seen_in(train.fingerprints())


@pytest.mark.parametrize("lang", ["en", "de", "es", "zh", "ar", "el"])
def test_gold_answers_of_xquad_are_found_score_one_and_shifted_ones_less(real_data, lang, tmp_path):
    """What lies between an answer's pieces are its characters, except part of a word at its
    ends.
    """
    found = Questions.of_file(real_data / "xquad" / f"dev.{lang}.json")
    assert len(found) == 558
    for shift, full in ((0, True), (4, False)):
        said = [
            (row.context[a.start + shift :][: len(a.text)], row)
            for row in found.rows
            for a in row.answers[:1]
        ]
        exact, overlap = (
            np.mean([best(metric, text, [a.text for a in row.answers], lang) for text, row in said])
            for metric in (exact_match, f1)
        )
        assert bool(exact == overlap == 1) is full
        assert full or (exact < 0.2 and exact < overlap < 0.8)
    encoder = TransformerEncoder.from_folder(tiny_bert(tmp_path, ["der"], positions=128))
    some = Questions(found.source, found.rows[:120])
    made, answered = some.windows(encoder, (lang, lang), WindowSizes(8, 128, 30)), set()
    for (question, start, _, *target), begin in zip(
        made.windows.cuts_S5.tolist(), made.windows.begins().tolist(), strict=True
    ):
        if target != [0, 0]:
            first, last = (start + place - begin for place in target)
            gold = made.questions[question].placed().text.strip()
            text = made.text(question, first, last)
            assert gold in text
            assert lang != "zh" or text == gold
            answered.add(question)
    assert len(answered) > 100, "the others have more pieces than half a window"
