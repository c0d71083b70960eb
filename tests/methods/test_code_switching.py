import numpy as np
import pytest
import torch

from raxalign.errors import DataError, RaxalignError
from raxalign.methods.code_switching import read_switchable, switched_rows
from tests.methods.contract import train, weights
from tests.methods.toy import turned, write_text

TEXT = {
    "de": [["Haus", "hund", "zzz"], ["rothaus"]],
    "fr": [["baum", "alt"]],
    "en": [["Dog", "old", "red", "sees"], ["tree"] * 20, []],
}
ENTRIES = {"de": [("haus", "house"), ("hund", "dog"), ("Haus", "house"), ("haus", "redhouse")]}
ENTRIES["de"] += [("rothaus", "redhouse")]
ENTRIES["fr"] = [("katze", "dog"), ("baum", "tree"), ("malt", "dog")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("own")
    return {lang: write_text(root / lang, sentences) for lang, sentences in TEXT.items()}


@pytest.fixture(scope="module")
def text(folders, encoder):
    return read_switchable(encoder, folders, ENTRIES, "en", 16)


def mixed(text, rows, seed=0, share=1.0):
    return switched_rows(text, np.array(rows), share, np.random.default_rng(seed))


def surface(encoder, rows, r):
    """A row as text; pieces of a word stand together."""
    ids = rows.ids[rows.offsets[r] : rows.offsets[r + 1]].tolist()
    return " ".join(encoder.tokenizer.convert_ids_to_tokens(ids)).replace(" ##", "")


def languages(text, rows, r):
    """The language of each word of a row."""
    part = slice(rows.offsets[r], rows.offsets[r + 1])
    words, langs = rows.words[part], rows.langs[part]
    return [text.sentences.languages[langs[words == w][0]] for w in range(words.max() + 1)]


def test_entries_in_other_letters_have_the_same_words(folders, encoder, text):
    other = {lang: [(f"\ufeff{a}", f"{b}\u00ad") for a, b in ENTRIES[lang]] for lang in ENTRIES}
    found = read_switchable(encoder, folders, other, "en", 16)
    assert (found.type_W >= 0).tolist() == (text.type_W >= 0).tolist()


def test_words_are_changed_for_translations_whose_language_their_pieces_then_have(encoder, text):
    rows = mixed(text, [1, 2])
    assert surface(encoder, rows, 0) == "[CLS] redhouse [SEP]"
    assert surface(encoder, rows, 1) == "[CLS] tree alt [SEP]"
    assert (languages(text, rows, 0), languages(text, rows, 1)) == (["en"], ["en", "fr"])
    specials = rows.langs[[rows.offsets[0], rows.offsets[1] - 1]]
    assert specials.tolist() == [0, 0]


def test_both_sides_are_changed_each_translation_as_often_as_another(encoder, text):
    found = {}
    for seed in range(800):
        rows = mixed(text, [0, 3], seed)
        german, pivot = (surface(encoder, rows, r).split()[1] for r in (0, 1))
        found[german] = found.get(german, 0) + 1
        found[pivot] = found.get(pivot, 0) + 1
        assert languages(text, rows, 0)[0] == "en"
        assert languages(text, rows, 1)[0] == ("de" if pivot == "hund" else "fr")
    # "Haus" has two translations; "Dog" one in German, and two in French, between which that
    # language's half is divided.
    expected = {"house": 400, "redhouse": 400, "hund": 400, "katze": 200, "malt": 200}
    assert set(found) == set(expected)
    for word, count in expected.items():
        assert abs(found[word] - count) < 5 * np.sqrt(count * (1 - count / 800))


def test_a_share_is_of_words_that_have_translations(text):
    words = mixed(text, [4] * 2000, share=0.3)
    kept = words.kept_RK.sum()
    rate = (words.langs != 2).sum() / kept
    assert abs(rate - 0.3) < 5 * np.sqrt(0.21 / kept)


def test_a_row_that_translations_lengthen_is_cut_at_its_end(encoder, folders):
    entries = {"de": [("hund", "zzzzzzzz"), ("haus", "house")], "fr": [("baum", "tree")]}
    rows = mixed(read_switchable(encoder, folders, entries, "en", 8), [0, 4])
    assert rows.lengths.tolist() == [8, 8]
    assert surface(encoder, rows, 0) == "[CLS] house zzzzz [SEP]"
    assert rows.kept_RK.tolist() == [[6], [6]]
    assert rows.ids[rows.offsets[1:] - 1].tolist() == [3, 3]


def test_coverage_counts_words_that_have_translations(text):
    assert text.coverage() == {
        "de": {"sentences": 2, "words": 4, "with_translation": 3},
        "fr": {"sentences": 1, "words": 2, "with_translation": 1},
        "en": {"sentences": 2, "words": 24, "with_translation": 21},
    }


def trained(root, **params):
    options = {"epochs": 1, "batch_size": 16, **params}
    return train("code_switching", root, languages=("de", "fr"), **options)


def test_training_tells_the_coverage(root):
    coverage = trained(root).notes["de"]
    assert coverage["words"] == coverage["with_translation"] > 24
    assert (coverage["entries"], coverage["entries_in_text"]) == (10, 9)


def test_a_dictionary_with_the_pivot_first_is_refused_and_read_with_swap(root, tmp_path):
    other = {"dictionary": str(turned(root / "dictionary.txt", tmp_path / "turned.txt"))}
    with pytest.raises(DataError, match="set `swap: true`"):
        trained(root, **other)
    assert torch.equal(weights(trained(root, swap=True, **other)), weights(trained(root)))


def test_a_dictionary_of_other_languages_is_refused(root):
    (root / "foreign.txt").write_text("talo house\n", encoding="utf-8")
    with pytest.raises(RaxalignError, match="text of de is in the dictionary"):
        trained(root, dictionary=str(root / "foreign.txt"))
