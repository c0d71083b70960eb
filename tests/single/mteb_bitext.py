"""Every method through the export: what mteb's bitext task measures on the folder, next to what
`sentence_retrieval` measured in the grid.

    python -m tests.single.mteb_bitext make OUT [ENCODER]    with raxalign, RAXALIGN_TEST_DATA set
    python tests/single/mteb_bitext.py check OUT             with mteb, and without raxalign

`make` runs a grid of all methods on sentence pairs of Tatoeba and exports every trial; `check`
prints the table and exits with 1 where two values differ by more than 1e-6.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PIVOT, LANGUAGES = "en", ("de", "fr")
METRICS = ("accuracy_to_pivot", "accuracy_from_pivot")
SMALL = "batch_size: 16, steps: STEPS, learning_rate: 1e-4"
METHODS = {
    **dict.fromkeys(("finetune", "strong_contrastive", "weak_contrastive", "weam"), SMALL),
    **dict.fromkeys(("mlm", "tlm", "sentence_margin", "distillation"), SMALL),
    "ppa": f"{SMALL}, queue_size: 16",
    "code_switching": f"{SMALL}, dictionary: 'DICTIONARY'",
}
"""Options of the methods that train; the others have their defaults."""
LIMIT, MODULE = 1e-6, "aligned_sentences.py"
TRAINING, DEV, TEST = 1200, 20, 300


Lines = dict[str, list[tuple[str, str]]]
"""(other, pivot) sentences of each language."""


def make(
    out: Path, encoder: str, lines: Lines, dictionary: str, test: int = TEST, steps: int = 40
) -> None:
    """Run the grid on sentences, the last `test` of which are the test, and export its trials;
    ``measured.json`` has the accuracies and the test sentences.
    """
    from raxalign.catalog import catalog
    from raxalign.plan.load import open_grid
    from raxalign.plan.values.results import rows
    from raxalign.single.export import export_trial
    from raxalign.stages import Workshop, run_trial
    from raxalign.sweep.job import write_plan
    from raxalign.train.runtime import Runtime

    out.mkdir(parents=True)
    for lang, pairs in lines.items():
        for side, code in enumerate((lang, PIVOT)):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (out / f"{lang}-{PIVOT}.{code}").write_text(text, encoding="utf-8")
    kinds = sorted(catalog("methods"))
    methods = "".join(f"  {kind}: {{{METHODS.get(kind, '')}}}\n" for kind in kinds)
    methods = methods.replace("DICTIONARY", dictionary).replace("STEPS", str(steps))
    training = min(map(len, lines.values())) - test - DEV
    split = f"{{test: {test}, dev: {DEV}}}"
    (out / "grid.yaml").write_text(
        f"name: exports\npivot: {PIVOT}\nencoder: {encoder}\n"
        f"languages: {{together: [{', '.join(lines)}]}}\n"
        f"corpus: {{source: moses, path: '{{lang}}-{{pivot}}', split: {split}}}\n"
        f"pairs: {{aligner: fast_align}}\nsentences: {training}\nseeds: [0]\nmethods:\n{methods}"
        "tasks: {sentences: {kind: sentence_retrieval}}\n",
        encoding="utf-8",
    )
    opened = open_grid(out / "grid.yaml", storage=str(out / "storage"))
    write_plan(opened.plan, opened.storage)
    workshop = Workshop(opened.plan, opened.storage, Runtime())
    for trial in opened.plan.trials:
        run_trial(workshop, trial.key)
        export_trial(trial.key, out / trial.method, storage=opened.storage)
    measured: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    for row in rows(opened.plan, workshop.ledger):
        if row["split"] == "test" and row["metric"] in METRICS:
            measured[row["method"]][f"{row['lang']}/{row['metric']}"] = row["value"]
    record = {"measured": measured, "test": {lang: pairs[-test:] for lang, pairs in lines.items()}}
    (out / "measured.json").write_text(json.dumps(record), encoding="utf-8")


def tatoeba(folder: Path) -> Lines:
    """Sentence pairs of which no side is repeated; mteb counts a repeated sentence as wrong."""
    lines = {}
    for lang in LANGUAGES:
        sides = [
            (folder / "tatoeba" / f"{lang}-{PIVOT}.{code}").read_text("utf-8").splitlines()
            for code in (lang, PIVOT)
        ]
        seen: set[str] = set()
        pairs = []
        for pair in zip(*sides, strict=True):
            known = {side.casefold().strip(" .!?") for side in pair}
            if not known & seen and len(known) == 2:
                pairs.append(pair)
                seen |= known
        lines[lang] = pairs[: TRAINING + DEV + TEST]
    return lines


def task_of(lang: str, pairs: list[list[str]]) -> Any:
    """mteb's bitext task on the test sentences of one language."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskBitextMining
    from mteb.abstasks.task_metadata import TaskMetadata

    codes = {"de": "deu-Latn", "fr": "fra-Latn", "en": "eng-Latn"}
    columns = {code: codes[code].replace("-", "_") for code in (lang, PIVOT)}
    names = {
        f"{columns[a]}-{columns[b]}": [codes[a], codes[b]]
        for a, b in ((lang, PIVOT), (PIVOT, lang))
    }

    class Pairs(AbsTaskBitextMining):
        parallel_subsets = True
        metadata = TaskMetadata(
            name=f"Pairs{lang.title()}",
            description="test sentences",
            reference=None,
            dataset={"path": "local", "revision": "1"},
            type="BitextMining",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=names,
            main_score="accuracy",
        )

        def load_data(self, **_: Any) -> None:
            texts = {columns[lang]: [a for a, _ in pairs], columns[PIVOT]: [b for _, b in pairs]}
            self.dataset = DatasetDict({"test": Dataset.from_dict(texts)})
            self.data_loaded = True

    return Pairs()


def check(out: Path) -> int:
    """Print the table; returns the exit code."""
    import mteb

    record = json.loads((out / "measured.json").read_text(encoding="utf-8"))
    places = [f"{lang}-{PIVOT}/{metric}" for lang in record["test"] for metric in METRICS]
    worst = 0.0
    print(f"| method | {' | '.join(places)} | difference |")
    for kind, measured in record["measured"].items():
        found = dict(zip(places, in_mteb(out / kind, record["test"]), strict=True))
        difference = max(abs(found[place] - measured[place]) for place in places)
        worst = max(worst, difference)
        shown = " | ".join(f"{measured[place]:.4f} {found[place]:.4f}" for place in places)
        module = " (module)" if (out / kind / MODULE).is_file() else ""
        print(f"| {kind}{module} | {shown} | {difference:.1e} |", flush=True)
    print(f"of raxalign and of mteb {mteb.__version__}; the largest difference is {worst:.1e}")
    return int(worst > LIMIT)


def in_mteb(folder: Path, test: dict[str, list[list[str]]]) -> list[float]:
    """The accuracies of an exported folder, into the pivot and out of it for each language."""
    import mteb
    from mteb.models import SentenceTransformerEncoderWrapper
    from sentence_transformers import SentenceTransformer

    class Aligned(SentenceTransformerEncoderWrapper):
        def encode(self, inputs: Any, *, hf_subset: str, **kwargs: Any) -> Any:
            return super().encode(inputs, hf_subset=hf_subset, language=hf_subset, **kwargs)

    module = (folder / MODULE).is_file()
    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=module)
    wrapped = (Aligned if module else SentenceTransformerEncoderWrapper)(model)
    found = []
    for lang, pairs in test.items():
        done = mteb.evaluate(wrapped, [task_of(lang, pairs)], cache=None, show_progress_bar=False)
        values = {entry["hf_subset"]: entry["accuracy"] for entry in done[0].scores["test"]}
        found += [values[name] for name in sorted(values, key=lambda name: name[:3] == "eng")]
    return found


if __name__ == "__main__":
    command, place, *more = sys.argv[1:]
    if command == "check":
        sys.exit(check(Path(place)))
    data = Path(os.environ["RAXALIGN_TEST_DATA"])
    words = f"{data}/dictionaries/{{lang}}-{{pivot}}.train.txt"
    make(Path(place), more[0] if more else "{kind: phrasebook}", tatoeba(data), words)
