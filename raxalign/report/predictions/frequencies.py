"""How often word forms stand in the training text, as far as the storage has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

MOST_SENTENCES = 200_000  # of the training text, from its beginning


def training_counts(
    plan: Plan, root: str, lang: str
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Return how often each word form stands in the largest training bitext of a language that the
    storage has (at most `MOST_SENTENCES` of it), on the language's side and on the pivot's; None
    where there is none.
    """
    import pyarrow.compute as pc

    from raxalign.corpora.text.dataset import read_table
    from raxalign.store.artifacts import ArtifactStore

    store = ArtifactStore(root)
    found = [
        (int(str(stage.params.get("sentences", 0))), key)
        for key, stage in plan.stages.items()
        if stage.kind == "bitext"
        and stage.params.get("part") == "training"
        and stage.params.get("lang") == lang
        and store.has("bitext", key)
    ]
    if not found:
        return None
    table = read_table(store.open("bitext", max(found)[1]) / "data").slice(0, MOST_SENTENCES)
    counted = [
        pc.value_counts(pc.list_flatten(table[side].combine_chunks())) for side in ("src", "tgt")
    ]
    src, tgt = (
        dict(zip(part.field("values").to_pylist(), part.field("counts").to_pylist(), strict=True))
        for part in counted
    )
    return src, tgt
