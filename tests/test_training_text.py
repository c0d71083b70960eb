"""Training text through the plan's own stages: what is held out for one language is not trained on in another."""

from raxalign.config.grid import load
from raxalign.corpora._dataset import read_table
from raxalign.plan.expand import expand
from raxalign.stages import Workshop
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.train.runtime import Runtime

GRID = """
name: overlap
encoder: {kind: scratch}
languages: {together: [de, fr]}
corpus: {source: moses, path: "{lang}-{pivot}", split: {test: 1, dev: 1}, shortage: use-all}
sentences: 10
methods: {mlm: {}}
tasks: {sentence_retrieval: {}}
"""
TEXT = {
    "de": [("Ja.", "Yes."), ("Hallo!", "Hello!"), ("Nein.", "No."), ("Danke.", "Thanks."), ("Bitte.", "Please.")],
    "fr": [("Bien.", "Good."), ("Merci !", "Thanks!"), ("Oui.", "Yes."), ("Salut.", "Hi."), ("Non.", "no")],
}


def sentences(folder, column):
    return [" ".join(words) for words in read_table(folder / "data").column(column).to_pylist()]


def test_what_is_tested_in_one_language_is_not_trained_on_in_another(tmp_path):
    (tmp_path / "grid.yaml").write_text(GRID, encoding="utf-8")
    for lang, pairs in TEXT.items():
        for side, code in enumerate((lang, "en")):
            (tmp_path / f"{lang}-en.{code}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    plan, root = expand(load(tmp_path / "grid.yaml")), str(tmp_path / "storage")
    workshop = Workshop(plan, ArtifactStore(root), Ledger(root), Runtime(), tmp_path / "storage")
    training = {stage.params["lang"]: key for key, stage in plan.stages.items() if stage.params.get("part") == "training"}
    text = {stage.params["lang"]: key for key, stage in plan.stages.items() if stage.kind == "text"}
    assert sentences(workshop.ensure(training["de"]), "tgt") == ["Hello !", "Yes ."]  # "No." is French test text
    assert sentences(workshop.ensure(training["fr"]), "tgt") == ["Yes .", "Good ."]  # "Thanks!" is German dev text
    assert sentences(workshop.ensure(text["en"]), "words") == ["Hello !", "Yes .", "Good ."]
    counts = workshop.store.manifest("bitext", training["de"]).notes["counts"]["training"]
    assert (counts["overlapping"], counts["overlapping_elsewhere"]) == (0, 1)
