"""A stage: one cached computation, named by its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from raxalign.catalog import catalog
from raxalign.errors import DataError, RaxalignError
from raxalign.options.run import BasePrecision, Precision
from raxalign.store.key import Json, digest

_CATALOGUES = {
    "bitext": "corpora",
    "pairs": "aligners",
    "encoder": "encoders",
    "pieces": "tasks",
    "aligned": "methods",
    "tuned": "tasks",
    "evaluation": "tasks",
}
"""Stage kind -> the folder of the plug-ins that make it. The others are made without one."""
_SHA256 = 64  # hexadecimal digits


@dataclass(frozen=True)
class Stage:
    """One cached computation. Everything but `locations`, `inline`, `options` and `prepared` is
    hashed; what came later, from `precision` on, where it is not the default.

    `kind` is ``bitext``, ``text``, ``pairs``, ``seen``, ``encoder``, ``pieces``, ``aligned``,
    ``tuned`` or ``evaluation``. `prepared` are stages of pieces, by the name of an input or
    ``rows/de`` for training rows, and of readouts (``fit/de``). They are read for speed alone: the
    result is the same without. `compiled` changes rounding and the random numbers of dropout.
    `shares` are the parts of a training's global batches that each draw dropout of their own (0:
    nothing is drawn, and any number of workers may divide a batch). `task` is the training of a
    task that an aligned encoder's is one with; its model is in the folder `TASK` of the artifact.
    """

    TASK: ClassVar = "task"
    """The folder of a task's model in the artifact of an encoder that was trained with it."""
    FIT: ClassVar = "fit/"
    """What the names of prepared stages begin with whose readouts of one language are taken over.
    """
    EVERYTHING: ClassVar = 1_000_000_000  # sentences: more than any corpus has

    kind: str
    maker: str  # the plug-in
    version: int  # of what is computed; a higher one is another stage
    params: Mapping[str, Json]  # the maker's options, defaults filled in, paths left out
    inputs: Mapping[str, str] = field(default_factory=dict)  # ``pairs/de`` -> key that is read
    digests: Mapping[str, str] = field(default_factory=dict)  # ``src``, ``dictionary/de`` -> digest
    locations: Mapping[str, str] = field(default_factory=dict)  # these -> path or remote name
    inline: bool = False  # never stored: an encoder that is loaded from its own folder
    options: str = ""  # the maker's as JSON, with paths; a worker makes the plug-in from them
    prepared: Mapping[str, str] = field(default_factory=dict)
    precision: Precision = "fp32"  # how the products of a transformer are computed
    base_precision: BasePrecision = "fp32"  # how weights are held that nothing trains
    compiled: bool = False
    shares: int = 0
    task: Stage | None = None

    @cached_property
    def key(self) -> str:
        """SHA-256 of everything that is computed."""
        return digest(
            {
                "kind": self.kind,
                "maker": self.maker,
                "version": self.version,
                "params": self.params,
                "inputs": self.inputs,
                "digests": self.digests,
                **({} if self.precision == "fp32" else {"precision": self.precision}),
                **({"base_precision": base} if (base := self.base_precision) != "fp32" else {}),
                **({"compiled": True} if self.compiled else {}),
                **({"shares": self.shares} if self.shares > 1 else {}),
                **({"task": self.task.key} if self.task else {}),
            }
        )

    @property
    def reads_training(self) -> bool:
        """Whether what it takes depends on how many sentences are trained on."""
        return self.kind not in {"encoder", "tuned", "evaluation"}

    @property
    def languages(self) -> tuple[str, ...]:
        """Its languages, where it has several."""
        return tuple(str(lang) for lang in self.params["languages"])  # type: ignore[union-attr]

    @property
    def unseen(self) -> tuple[str, ...]:
        """Those languages of an evaluation that no method has aligned."""
        return tuple(str(lang) for lang in self.params.get("unseen", ()))  # type: ignore[union-attr]

    @property
    def trained(self) -> bool:
        """Whether it is trained for one trial. What several trials need is made before them."""
        return self.kind in {"aligned", "tuned"}

    @property
    def fitted(self) -> bool:
        """Whether it has checkpoints. Every worker of a trial takes part in making it."""
        return self.trained or self.kind == "encoder"

    @property
    def holds_worker(self) -> bool:
        """Whether torch is needed to make it, and a GPU where workers have one."""
        return self.fitted or self.kind == "evaluation" or "encoder" in self.inputs

    @property
    def places(self) -> dict[str, Path]:
        """Its local files by the names of their digests. Names of remote data have a colon. Raises
        `DataError` for a SHA-256 at a relative place: it is another file in each process.
        """
        found = dict[str, Path]()
        for name, place in self.locations.items():
            if Path(place).is_absolute():
                found[name] = Path(place)
            elif ":" not in place and len(self.digests.get(name, "")) == _SHA256:
                remedy = "Run the command again to plan with the place that it has"
                raise DataError(place, "was planned at a relative place", remedy=remedy)
        return found

    @property
    def files(self) -> dict[str, dict[str, Path]]:
        """Its local files: name -> language -> path."""
        files: dict[str, dict[str, Path]] = {}
        for entry, path in self.places.items():
            name, _, lang = entry.rpartition("/")
            files.setdefault(name, {})[lang] = path
        return files

    @property
    def catalogue(self) -> str | None:
        """The folder of the plug-ins (``methods``) that has the maker; None where none has it."""
        folder = _CATALOGUES.get(self.kind)
        return folder if folder is not None and self.maker in catalog(folder) else None

    def evaluated(self, task: str, encoder: str) -> dict[str, Any]:
        """Return what an evaluation is of, as its record says, with the names of a grid."""
        return {
            "key": self.key,
            "task": task,
            "kind": self.maker,
            "params": self.params["task"],
            "aligned": self.inputs["aligned"],
            "encoder": encoder,
            "languages": self.params["languages"],
            "seed": self.params.get("seed"),
        }

    def plugin(self) -> Any:
        """Make the plug-in of the stage, with its options.

        Raises `UnknownKind` where the catalogue does not have it, `RaxalignError` where the options
        are not those of its kind, and `ValueError` for a kind of stage that no plug-in makes.
        """
        if self.kind not in _CATALOGUES:
            raise ValueError(f"no plug-in makes a stage of the kind {self.kind}")
        kind = catalog(_CATALOGUES[self.kind])[self.maker]
        try:
            return kind(kind.Params.stored(self.options))
        except ValidationError as error:
            wrong = [".".join(map(str, one["loc"])) for one in error.errors()]
            raise RaxalignError(
                f"the options of the {self.kind} {self.key[:12]} are not those of {self.maker} in"
                f" this version ({', '.join(wrong)}): run its grid again with them changed, or use"
                " the version that it was made with"
            ) from error
