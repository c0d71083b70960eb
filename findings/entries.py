"""The dictionary entries over which encoders are compared: those that all of them have."""

from __future__ import annotations

from pathlib import Path

from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.grid.load import Opened


def write_entries(smallest: Opened, folder: Path) -> bool:
    """Write the entries whose two words the encoder of a grid has vectors for, one file per
    language pair; False where the grid has not run.

    Args:
        smallest: The grid `entries`, whose encoder has the fewest words.
        folder: Where the files are written.
    """
    (trial,) = smallest.plan.trials
    ((_, key),) = trial.evaluations.items()
    ledger = smallest.storage.ledger
    if not ledger.has(key):
        return False
    rows = ledger.predictions(key)
    assert rows is not None, "dictionary retrieval keeps predictions"
    columns = (rows[name].to_pylist() for name in ("lang", "direction", "query"))
    asked = set(zip(*columns, strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    for name, place in smallest.plan.stages[key].locations.items():
        label = f"{name.rpartition('/')[2]}-{smallest.plan.pivot}"
        read = ((src.lower(), tgt.lower()) for src, tgt in DictionaryFile.lines(Path(place)))
        kept = [
            f"{src} {tgt}\n"
            for src, tgt in dict.fromkeys(read)
            if {(label, "to_pivot", src), (label, "from_pivot", tgt)} <= asked
        ]
        (folder / f"{label}.txt").write_text("".join(kept), encoding="utf-8")
    return True


def common_entries(opened: Opened) -> dict[str, int]:
    """Return how many dictionary entries the encoders of a grid are compared over, by language
    pair; nothing for a grid without dictionaries. Raises ValueError where one has fewer than
    another.
    """
    plan = opened.plan
    found: dict[str, set[tuple[int, int]]] = {}
    keys = {key for trial in plan.trials for key in trial.evaluations.values()}
    for record in opened.storage.ledger.read_many(sorted(keys)).values():
        for label, note in record.get("notes", {}).items():
            if isinstance(note, dict) and "entries_covered" in note:
                both = note["entries"], note["entries_covered"]
                found.setdefault(label, set()).add(both)
    for label, counts in found.items():
        if len(counts) > 1 or any(entries != covered for entries, covered in counts):
            raise ValueError(f"{plan.name}, {label}: encoders have different entries: {counts}")
    return {label: next(iter(counts))[1] for label, counts in sorted(found.items())}
