"""The sentence pairs that benchmarks read."""

from benchmarks.sentences import PHRASEBOOK, TATOEBA, sources, tatoeba_pairs
from raxalign.pairing.build import WordPairs


def test_real_sentences_are_a_source_where_the_data_is_there(monkeypatch):
    monkeypatch.delenv("RAXALIGN_TEST_DATA", raising=False)
    assert sources() == (PHRASEBOOK,)
    monkeypatch.setenv("RAXALIGN_TEST_DATA", "somewhere")
    assert sources() == (PHRASEBOOK, TATOEBA)


def test_real_pairs_are_words_with_links_along_the_diagonal(tmp_path, monkeypatch):
    (tmp_path / "tatoeba").mkdir()
    for lang, text in {"de": "Wie geht's?\n\nJa\n", "en": "How are you\nno\nYes\n"}.items():
        (tmp_path / "tatoeba" / f"de-en.{lang}").write_text(text, "utf-8")
    monkeypatch.setenv("RAXALIGN_TEST_DATA", str(tmp_path))
    table = WordPairs.read(tatoeba_pairs(tmp_path / "pairs", 5)).table
    assert table.to_pydict() == {
        "id": [0, 1],
        "src": [["Wie", "geht'", "s", "?"], ["Ja"]],
        "tgt": [["How", "are", "you"], ["Yes"]],
        "src_links": [[0, 1, 2], [0]],
        "tgt_links": [[0, 1, 2], [0]],
    }
