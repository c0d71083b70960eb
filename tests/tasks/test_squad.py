"""Questions from SQuAD's format, and answers compared by the rules of MLQA and of SQuAD, against
values worked out by hand.
"""

import pytest

from raxalign.errors import DataError
from raxalign.tasks.answers.rows import (
    Answer,
    Question,
    Questions,
)
from raxalign.tasks.answers.task import best, exact_match, f1, normalized
from raxalign.tasks.transfer.params import HubSet
from tests.tasks.outcomes import write_parquet
from tests.tasks.word_qa import questions as of
from tests.tasks.word_qa import squad


def write(path, *paragraphs):
    path.write_text(squad(*paragraphs), encoding="utf-8")
    return path


def test_every_question_comes_with_its_context_and_answers(tmp_path):
    path = write(
        tmp_path / "q.json",
        ("Rom ist alt.", ("a", "Was?", ("Rom", 0), ("Rom ist", 0))),
        ("Neu.", ("b", "Wie?", ("Neu", 0)), ("c", "Nie?")),
    )
    found = Questions.of_file(path)
    assert [(row.id, row.question, row.context, row.context_number) for row in found.rows] == [
        ("a", "Was?", "Rom ist alt.", 0),
        ("b", "Wie?", "Neu.", 1),
    ]
    assert [answer.text for answer in found.rows[0].answers] == ["Rom", "Rom ist"]
    assert found.remarks == ("1 of 3 questions is left out: without an answer",)
    assert len(found.first(1)) == 1


def test_questions_said_to_be_impossible_are_left_out(tmp_path):
    path = write(tmp_path / "v2.json", ("x", ("a", "?", ("x", 0)), ("b", "?", ("x", 0))))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"id": "a"', '"id": "a", "is_impossible": true'))
    found = Questions.of_file(path)
    assert ([row.id for row in found.rows], found.left_out.total()) == (["b"], 1)


LACKS = b'{"data": [{"paragraphs": [{"context": "x", "qas": [{"id": "a"}]}]}]}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"data":\n [}', r"q\.json:2: is not JSON"),
        (b"\xff", "is not UTF-8"),
        (b'{"version": 1}', r"data: is not in SQuAD's format \(there is no 'data'\)\. A file is"),
        (LACKS, r"data\[0\]\.paragraphs\[0\]\.qas\[0\]: is not"),
        (b"[]", r"is not in SQuAD's format \(of another shape\)"),
        (b'{"data": []}', "has no question with an answer"),
    ],
)
def test_what_is_no_squad_file_is_told_with_its_place(tmp_path, text, told):
    (tmp_path / "q.json").write_bytes(text)
    with pytest.raises(DataError, match=told):
        Questions.of_file(tmp_path / "q.json")


def test_a_missing_file_and_an_id_given_twice_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        Questions.of_file(tmp_path / "none.json")
    with pytest.raises(DataError, match="two questions have the id a"):
        Questions.of_file(
            write(tmp_path / "q.json", ("x", ("a", "?", ("x", 0)), ("a", "!", ("x", 0))))
        )


def test_questions_without_an_answer_that_can_be_right_are_not_evaluated(tmp_path):
    path = write(tmp_path / "q.json", ("x", ("a", "?", ("x", 0)), ("b", "?", ("", 0), (" ", 0))))
    with pytest.raises(DataError, match=r"q\.json: 1 of 2 questions have an empty answer, b the"):
        Questions.of_file(path).scored()
    assert len(Questions.of_file(path).first(1).scored()) == 1


def test_ids_that_name_no_question_say_nothing_of_what_was_trained_on(tmp_path):
    path = write(
        tmp_path / "q.json", ("Anna came.", ("1", "Who?", ("Anna", 0)), ("1", "When?", ("came", 5)))
    )
    trained = Questions.of_file(path, named=False)
    assert [row.question for row in trained.rows] == ["Who?", "When?"]
    of("dev", ("1", "Where?", "Rom.", "Rom")).seen_in(trained.first(1).fingerprints())
    with pytest.raises(DataError, match=r"\(the same text\)"):
        of("dev", ("2", "When?", "Anna came.", "came")).seen_in(trained.fingerprints())


def test_an_answer_is_placed_where_the_context_has_it():
    row = Question("a", "?", "ab ab", 0, (Answer("ab", 1), Answer("", 0), Answer("ab", 3)))
    assert row.placed() == Answer("ab", 3)
    assert Question("a", "?", "ab", 0, (Answer("b", 0),)).placed() is None


def test_crossing_takes_the_question_of_one_language_and_the_rest_of_the_other():
    german = of("de", ("1", "Wer?", "Anna kam.", "Anna"), ("2", "Wo?", "In Rom.", "Rom"))
    spanish = of("es", ("2", "¿Dónde?", "En Roma.", "Roma"), ("3", "¿Qué?", "Pan.", "Pan"))
    (row,) = german.crossed(spanish).rows
    assert (row.id, row.question, row.context) == ("2", "Wo?", "En Roma.")
    assert row.answers[0].text == "Roma"
    with pytest.raises(DataError, match="shares no question's id"):
        german.crossed(of("fr", ("9", "?", "x", "x")))


def test_a_question_that_was_trained_on_is_known_by_text_and_by_id():
    trained = of("train", ("1", "Who came?", "Anna came.", "Anna")).fingerprints()
    of("dev", ("2", "Who left?", "Anna came.", "Anna")).seen_in(trained)
    other = of("dev", ("7", "?", "x", "x"), ("8", "who  came?", "ANNA CAME.", "ANNA"))
    with pytest.raises(DataError, match=r"1 of 2 questions .* \(the same text\), 8 the first"):
        other.seen_in(trained)
    with pytest.raises(DataError, match=r"\(the same id\)"):
        of("de", ("1", "Wer kam?", "Anna kam.", "Anna")).seen_in(trained)


ON_THE_HUB = {"id": ["a"], "question": ["?"], "context": ["Rom."]}
LISTED = {**ON_THE_HUB, "answers": [[{"text": "Rom", "answer_start": 0}]]}


def of_hub(folder, config):
    return Questions.of_hub(HubSet(str(folder), config, "main"), "validation", folder)


def test_a_copy_of_a_hub_repository_is_read(tmp_path):
    answers = [{"text": ["Rom"], "answer_start": [0]}]
    write_parquet(tmp_path / "xquad.de" / "validation.parquet", **ON_THE_HUB, answers=answers)
    card = (
        "---\nconfigs:\n- config_name: xquad.de\n  data_files:\n  - split: validation\n    path:"
        " xquad.de/validation.parquet\n---\n"
    )
    (tmp_path / "README.md").write_text(card, encoding="utf-8")
    (found,) = of_hub(tmp_path, "xquad.de").rows
    assert (found.id, found.context, found.answers) == ("a", "Rom.", (Answer("Rom", 0),))
    with pytest.raises(DataError, match=r"xquad\.fr:validation: cannot be loaded"):
        of_hub(tmp_path, "xquad.fr")


def test_what_a_hub_set_lacks_of_squads_columns_is_named(tmp_path):
    write_parquet(tmp_path / "listed.de" / "validation" / "0000.parquet", **LISTED)
    bare = {name: column for name, column in LISTED.items() if name != "context"}
    write_parquet(tmp_path / "bare.de" / "validation" / "0000.parquet", **bare)
    told = r"/bare\.de:validation: has no column context; its columns are id, question, answers"
    with pytest.raises(DataError, match=told):
        of_hub(tmp_path, "bare.de")
    told = r"/listed\.de:validation:1: column answers has no lists `text` and `answer_start`"
    with pytest.raises(DataError, match=told):
        of_hub(tmp_path, "listed.de")


CHINESE = "《三国演义》的1494年 Liu Bei，the A"


@pytest.mark.parametrize(
    ("rules", "lang", "text", "tokens"),
    [
        ("mlqa", "en", "The  U.S. Army's an-swer, a “quote”!", "us armys answer quote"),
        ("mlqa", "en", "theatre another", "theatre another"),
        ("mlqa", "de", "Die Straße des 17. Juni", "straße 17 juni"),
        ("mlqa", "de", "the a el", "the a el"),
        ("mlqa", "es", "¿Los niños y una niña?", "niños y niña"),
        ("mlqa", "es", "del él", "del él"),
        ("mlqa", "vi", "những con mèo của tôi", "con mèo tôi"),
        ("mlqa", "hi", "एक घर।", "एक घर"),
        ("mlqa", "ar", "البيت الكبير، بيت", "بيت كبير بيت"),
        ("mlqa", "fr", "le $100 d'or", "le 100 dor"),
        ("mlqa", "el", "Το «σπίτι»", "το σπίτι"),
        ("mlqa", "zh", CHINESE, "三 国 演 义 的 1494 年 liu beithe a"),
        ("mlqa", "th", "ปี 2000", "ป ี 2000"),
        ("mlqa", "en", "the, a!", ""),
        ("squad", "en", "The  U.S. Army's an-swer, a $quote!", "us armys answer quote"),
        ("squad", "en", "a “quote” – the end…", "“quote” – end…"),  # ASCII's punctuation alone
        ("squad", "de", "Die Straße des 17. Juni", "die straße des 17 juni"),
        ("squad", "de", "An the a 1", "1"),  # English articles go in every language
        ("squad", "es", "¿Los niños y una niña?", "¿los niños y una niña"),
        ("squad", "ar", "البيت الكبير، بيت", "البيت الكبير، بيت"),
        # an article ends where a word does, at any comma
        ("squad", "zh", CHINESE, "《三国演义》的1494年 liu bei，"),
        ("squad", "th", "ปี 2000", "ปี 2000"),
        ("squad", "en", "the, a!", ""),
    ],
)
def test_tokens_of_an_answer(rules, lang, text, tokens):
    assert normalized(text, lang, rules) == tokens.split()


@pytest.mark.parametrize(
    ("prediction", "gold", "lang", "rules", "expected"),
    [
        ("der große Hund", "ein Hund", "de", "mlqa", 2 / 3),  # (große, Hund) and (Hund)
        ("der große Hund", "ein Hund", "de", "squad", 2 / 5),  # Hund, of three and of two words
        ("el perro el gato", "gato", "es", "mlqa", 2 / 3),
        ("三驾马车公司", "三驾马车设计集团", "zh", "mlqa", 2 * 4 / (6 + 8)),  # characters
        ("三驾马车公司", "三驾马车设计集团", "zh", "squad", 0),  # a word each, and others
        ("1494 年", "1494 年。", "zh", "squad", 1 / 2),
        ("the red house", "a house", "en", "squad", 2 / 3),
        ("x x y", "x y y", "en", "mlqa", 2 * 2 / 6),  # bags: one x and one y
        ("x", "y", "en", "mlqa", 0),
        ("the", "the", "en", "mlqa", 0),  # no token is left to share
    ],
)
def test_f1_by_hand(prediction, gold, lang, rules, expected):
    assert f1(prediction, gold, lang, rules) == pytest.approx(expected, abs=1e-12)


def test_exact_match_is_about_tokens_in_their_order():
    assert exact_match("The answer.", "answer", "en") == 1
    assert exact_match("b a", "a b", "fr") == 0
    assert exact_match("The answer", "answer", "de") == 0
    assert exact_match("2000 年", "2000年。", "zh") == 1
    assert exact_match("2000 年", "2000年", "zh", "squad") == 0
    assert exact_match("The U.S.", "us", "ru", "squad") == 1
    assert exact_match("el perro", "perro", "es", "squad") == 0


def test_of_several_gold_answers_each_metric_takes_its_best():
    golds = ["a red house", "red barn"]
    assert best(f1, "the red house", golds, "en") == 1
    assert best(f1, "red barn door", golds, "en") == pytest.approx(0.8, abs=1e-12)
    assert best(exact_match, "red barn door", golds, "en") == 0
    assert best(f1, "2000年", ["2000 年", "2000年，"], "zh", "squad") == 0
    assert best(exact_match, "«дом»", ["дом", "«дом»"], "ru", "squad") == 1


def test_answers_that_stand_at_bytes_are_read_so_and_others_are_counted(tmp_path):
    """*Brot* is at character 5, byte 6; after an emoji at character 2, byte 5, 16-bit unit 3."""
    path = write(
        tmp_path / "q.json",
        ("über Brot.", ("a", "?", ("Brot", 5)), ("b", "?", ("Brot", 6)), ("c", "?", ("Brot", 1))),
        ("\U0001f600 Brot", ("d", "?", ("Brot", 5)), ("e", "?", ("Brot", 3)), ("f", "?", ("", -1))),
    )
    found = Questions.of_file(path)
    assert [row.answers[0].start for row in found.rows] == [5, 5, 1, 2, 2, -1]
    said = "the answers to 3 questions stand at bytes, not characters, and are read so"
    assert found.remarks == (said,)
    left = "2 of 6 questions are left out: without an answer that stands at its `answer_start`"
    assert found.answered().remarks == (said, left)
