"""What the contract tests of methods share: small params for every kind, the inputs that a method
asks for, and jobs for other processes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.base import Method, MethodInputs
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.every import EVERY
from tests.methods.toy import toy_encoder, toy_inputs, toy_places, toy_rows

LANGUAGES = ("de", "fr")
SIZE = 23  # with batches of 8 the last one has a single row of all languages, and workers none
SMALL: dict[str, Any] = {"batch_size": 8, "queue_size": 16, "max_length": 32}
SMALL |= {"learning_rate": 1e-3, "epochs": 1}
# after the queue is full there is a contrastive loss, too
PER_METHOD: dict[str, dict[str, Any]] = {"ppa": {"epochs": 2}}
POOLS = {
    "first": lambda v: v[0],
    "last": lambda v: v[-1],
    "mean": lambda v: v.mean(0),
    "sum": lambda v: v.sum(0),
}
TRANSFORMER_METHODS = [
    kind for kind in catalog("methods") if "transformer" in catalog("methods")[kind].accepts
]


def make(kind: str, root: Path, **options: Any) -> Method:
    """The method with its defaults; dictionaries are the toy's, other paths (of optional files) are
    left out, and what trains does so with few rows a batch.
    """
    method = catalog("methods")[kind]
    fields = method.Params.model_fields
    given = {"dictionary": str(root / "dictionary.txt"), **SMALL, **PER_METHOD.get(kind, {})}
    given |= options
    return method(method.Params.model_validate({k: v for k, v in given.items() if k in fields}))


def trained() -> list[str]:
    """The kinds that train."""
    methods = catalog("methods")
    return [k for k in TRANSFORMER_METHODS if "learning_rate" in methods[k].Params.model_fields]


def resolved(kind: str, **options: Any) -> dict[str, Any]:
    """The options of a method that trains, as its objective has them."""
    method = catalog("methods")[kind]
    return method(method.Params.model_validate(options)).resolved()


def asked_for(method: Method, root: Path, languages: tuple[str, ...] = LANGUAGES) -> MethodInputs:
    """The inputs that the method asks for, and no others."""
    whole, needs = toy_places(root, languages), method.needs()
    files: dict[str, dict[str, Path]] = {}
    for lang in languages:
        for name, source in method.sources(lang, "en").items():
            files.setdefault(name, {})[lang] = source.path
    return replace(
        whole,
        pairs=whole.pairs if needs.links else {},
        bitext=whole.bitext if needs.bitext else {},
        text=whole.text if needs.text else {},
        files=files,
        dev=(whole.pairs if needs.links else whole.bitext) if needs.dev else {},
    )


def train(
    kind: str, root: Path, *, languages: tuple[str, ...] = ("de",), seed: int = 0, **params: Any
) -> AlignedEncoder:
    """The toy encoder, trained on the toy's data, which is written where it is not there."""
    if not (root / f"pairs-{languages[-1]}").is_dir():
        toy_inputs(root, languages=languages)
    method = catalog("methods")[kind]
    given = {"learning_rate": 2e-3, **params}
    if "dictionary" in method.Params.model_fields:
        given.setdefault("dictionary", str(root / "dictionary.txt"))
    made = method(method.Params.model_validate(given))
    inputs = asked_for(made, root, languages)
    return made.align(toy_encoder(root / "encoder"), inputs, Runtime(seed=seed))


def weights(aligned: Any) -> torch.Tensor:
    """All weights of an aligned encoder, end to end."""
    return torch.cat([p.detach().flatten() for p in aligned.encoder.model.parameters()])


def in_micro_batches(objective: Any, rows: list[int], micro: int) -> tuple[float, torch.Tensor]:
    """The loss of a step over some rows, computed in micro-batches, and its gradient."""
    step, positions = Step(0, 0, np.array(rows), micro=micro), np.arange(len(rows))
    objective.module.zero_grad()
    objective.begin(step)
    parts = [objective.loss(step, positions[i : i + micro]) for i in range(0, len(rows), micro)]
    for part in parts:
        part.backward()
    gradients = [p.grad.flatten() for p in objective.module.parameters() if p.grad is not None]
    return sum(part.item() for part in parts), torch.cat(gradients)


def summed(objective: Any, step: Step) -> float:
    """The loss of a step over its micro-batches."""
    objective.begin(step)
    return sum(float(objective.loss(step, part).detach()) for part in step.micro_batches())


def of_ids(ids: Any, segments: Any) -> dict[str, torch.Tensor]:
    """What a model of Hugging Face's is given for a row."""
    given = {"input_ids": ids, "token_type_ids": segments}
    return {name: torch.from_numpy(np.array(v, np.int64))[None] for name, v in given.items()}


@torch.no_grad()
def masked_losses(model: Any, rows: Any, masks: Any) -> list[float]:
    """-log p of each masked piece, from Hugging Face's own forward of each row alone."""
    ids, found = masks.applied(rows).ids, list[float]()
    for r in range(len(rows)):
        part, mask = slice(rows.offsets[r], rows.offsets[r + 1]), masks.take(np.array([r]))
        logits = model(**of_ids(ids[part], rows.segments[part])).logits[0]
        found += (-logits.log_softmax(-1))[mask.places, mask.targets].tolist()
    return found


def vectors(aligned: AlignedEncoder) -> torch.Tensor:
    """Word vectors of all layers in each language and the pivot, (N, L, H)."""
    columns: Any = toy_rows(4, seed=9)
    found = []
    for lang in LANGUAGES:
        view = aligned.toward(lang)
        layers = f"0-{view.n_layers}"
        found += [
            view.words(columns[side], code, layers=layers).vectors_NLH
            for side, code in (("src", lang), ("tgt", "en"))
        ]
    return torch.cat(found)


SHARES = (0, 1, 3)
"""The parts of a batch that draw dropout of their own; 0: there is no dropout."""


def divided() -> list[tuple[str, int]]:
    """(kind, parts) of the trainings that two workers share: one kind, and under RAXALIGN_TEST_ALL
    each, with all `SHARES`, the others with one of them in turn.
    """
    if EVERY:
        return list(product(trained(), SHARES))
    first, *others = trained()
    return [*product([first], SHARES), *zip(others, cycle(SHARES), strict=False)]


def losses_of(
    method: Method, root: Path, runtime: Runtime, encoder: Any = None
) -> tuple[list[float], AlignedEncoder]:
    """The loss of every step, and what comes of them, of the toy encoder or another."""
    found: list[float] = []

    def report(metrics: Any, step: int) -> None:
        found.extend(value for name, value in metrics.items() if name.endswith("/loss"))

    encoder, runtime = encoder or toy_encoder(root / "encoder"), replace(runtime, report=report)
    return found, method.align(encoder, asked_for(method, root), runtime)


def losses(kind: str, root: Path, runtime: Runtime) -> tuple[list[float], torch.Tensor]:
    """The loss of every step, with dropout where it has shares, and the vectors afterwards."""
    found, aligned = losses_of(make(kind, root, dropout=runtime.shares > 0), root, runtime)
    return found, vectors(aligned)


def work(rank: int, folder: Path) -> None:
    """One of two workers: every method that trains, one after the other."""
    for kind, shares in divided():
        runtime = Runtime(seed=3, rank=rank, world_size=2, shares=shares)
        found, after = losses(kind, folder / "inputs", runtime)
        if rank == 0:
            (folder / f"{kind}-{shares}.json").write_text(
                json.dumps({"losses": found, "vectors": after.tolist()})
            )
