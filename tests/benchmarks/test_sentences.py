"""The sentence pairs that benchmarks read."""

from benchmarks.sentences import PHRASEBOOK, TATOEBA, sources, tatoeba_pairs
from raxalign.pairing.schema import read_pairs


def test_real_sentences_are_a_source_where_the_data_is_there(monkeypatch):
    monkeypatch.delenv("RAXALIGN_TEST_DATA", raising=False)
    assert sources() == (PHRASEBOOK,)
    monkeypatch.setenv("RAXALIGN_TEST_DATA", "somewhere")
    assert sources() == (PHRASEBOOK, TATOEBA)


def test_real_pairs_are_words_with_links_along_the_diagonal(tmp_path, monkeypatch):
    (tmp_path / "tatoeba").mkdir()
    for lang, lines in {
        "de": ["Wie geht's?", "", "Ja"],
        "en": ["How are you", "no", "Yes"],
    }.items():
        (tmp_path / "tatoeba" / f"de-en.{lang}").write_text("\n".join(lines) + "\n", "utf-8")
    monkeypatch.setenv("RAXALIGN_TEST_DATA", str(tmp_path))
    table = read_pairs(tatoeba_pairs(tmp_path / "pairs", 5))
    assert table.to_pylist() == [
        {
            "id": 0,
            "src": ["Wie", "geht'", "s", "?"],
            "tgt": ["How", "are", "you"],
            "src_links": [0, 1, 2],
            "tgt_links": [0, 1, 2],
        },
        {"id": 1, "src": ["Ja"], "tgt": ["Yes"], "src_links": [0], "tgt_links": [0]},
    ]
