"""What counts as seen."""

from raxalign.pairing.schema import build_seen, types_schema, write_types
from raxalign.tasks.vectors.pairs import SeenTypes


def test_linked_types_count_as_written_and_dictionary_entries_in_any_case(tmp_path):
    linked = (
        types_schema()
        .empty_table()
        .from_pylist([{"src": "Hund", "tgt": "dog"}], schema=types_schema())
    )
    write_types(linked, tmp_path / "linked.arrow")
    build_seen([tmp_path / "linked.arrow"], [], [[("haus", "house")]], tmp_path / "seen")
    seen = SeenTypes(tmp_path / "seen")
    assert ("Hund", "dog") in seen
    assert ("hund", "dog") not in seen
    assert ("Haus", "House") in seen
    assert ("haus", "home") not in seen
