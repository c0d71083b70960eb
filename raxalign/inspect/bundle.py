"""A bundle: a grid's results and what they were made from, in one archive, and its checks."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from raxalign.analysis.cells import MEANS
from raxalign.errors import RaxalignError
from raxalign.grid.estimates import volume
from raxalign.grid.expansion.expand import expand
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import Grid, load
from raxalign.grid.load import Opened
from raxalign.grid.lock import Lock
from raxalign.grid.plan import Plan
from raxalign.grid.yaml_file import Faults
from raxalign.inspect.diff import NEAR, ComparedSide, Differences
from raxalign.printing import counted, masked
from raxalign.provenance import versions
from raxalign.report.compose import ReportOptions, write_report
from raxalign.single.place import storage_of
from raxalign.store.artifacts import FileEntry, Inside, Manifest, Sha256
from raxalign.store.files import split_place
from raxalign.store.key import canonical_json, file_digest
from raxalign.store.sealed import parse, recorded
from raxalign.store.storage import Storage
from raxalign.values.claims import JudgedClaim
from raxalign.values.predictions import samples_of
from raxalign.values.results import metric_name, rows
from raxalign.version import VERSION

_MANIFEST = "MANIFEST.json"
_PACKAGE = f"{Path(__file__).parents[1]}/"
_DEEP = "a/b/c/d/e/f"  # so that `../` in a grid file leads to a place that is ours
_LARGEST = 100e9  # bytes of all files
_MOST = 10  # lines on one check
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_ABOUT = f"""The results of a grid of experiments: report/report.html, report/results.csv (every
value), report/comparisons.csv (the tests). They were made from grid/ (the grid file, its lock, its
plug-ins); ledger/ has scores (JSON) and predictions (Parquet, one row per example) per evaluation.
`raxalign verify ARCHIVE --sample 5%` of raxalign {VERSION} checks this, and runs a part again.
"""
_Check = tuple[int, list[str]]  # its exit code, and what it has found in lines


@recorded
class _Manifest:
    grid: Inside
    lacking: tuple[str, ...]  # the keys of results that are not there
    data: Mapping[str, Sha256]  # files that the grid reads, as seen from its own folder
    remote: Mapping[str, str]  # what it fetches, with its revision or digest
    versions: Mapping[str, str]  # of what wrote the report
    files: Mapping[Inside, FileEntry]


def _found(check: str, said: str, lines: Sequence[str] = (), near: int = 0) -> _Check:
    """Return the exit code of a check, and what it found in lines; `near` is a number of values."""
    verdict = "different" if lines else "equal within rounding" if near else "equal"
    more = [f"and {len(lines) - _MOST:,} more"] if len(lines) > _MOST else []
    return int(bool(lines)), [f"{check}: {verdict}; {said}", *lines[:_MOST], *more]


def pack(opened: Opened, out: Path) -> list[str]:
    """Write the bundle of a grid, whole or not at all, and return lines on what it holds, lacks and
    needs. Raises `RaxalignError` where the grid has no results, or another file is there.
    """
    with tempfile.TemporaryDirectory(prefix="raxalign-bundle-") as made:
        folder, archive = Path(made, "bundle"), Path(made, "bundle.zip")
        _copy_sources(opened.grid, folder / "grid")
        _copy_results(opened, folder)
        (folder / "README.txt").write_text(_ABOUT, encoding="utf-8")
        manifest = _described(opened, folder)
        (folder / _MANIFEST).write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")
        with zipfile.ZipFile(archive, "w") as file:
            for name in (_MANIFEST, *manifest.files):  # the same bytes each time: all are of 1980
                info = zipfile.ZipInfo(f"{opened.plan.name}/{name}")
                file.writestr(info, (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
        sha256, size = file_digest(archive), volume(archive.stat().st_size)
        if out.exists() and file_digest(out) != sha256:
            raise RaxalignError(f"{out}: is there already, with other content; name another file")
        split_place(str(out.absolute()))[0].write(out.name, archive)
    every, left = len(_evaluations(opened.plan)), len(manifest.lacking)
    of, there = counted(every, "result"), counted(every - left, "result")
    lines = [f"unfinished, as its {_MANIFEST} says: {left:,} of {of} missing"] if left else []
    lines += [f"{there} with predictions, and the report: {size}, SHA-256 {sha256}"]
    needs = [*manifest.data, *manifest.remote]
    return lines + [f"needs, and does not hold: {', '.join(needs)}"] * bool(needs)


def _copy_sources(grid: Grid, folder: Path) -> None:
    """Copy a grid file, with its lock and its plug-ins next to it, without secrets and home."""
    folder.mkdir(parents=True)
    text, path = grid.text_of_file, folder / grid.path.name
    node = Faults().parse(grid.path, text).entries(Faults()).get("plugins")
    for item, plugin in zip(node.items() if node else (), grid.plugins, strict=False):
        name = Path(plugin.path).name
        if (folder / name).exists():
            raise RaxalignError(f"{plugin.path}: another plug-in is a {name}, too; rename one")
        plugin.refuse_changed()
        shutil.copyfile(plugin.path, folder / name)
        text = text.replace(item.value.strip(), name)
    path.write_text(_public(text), encoding="utf-8")
    lock = replace(Lock.load(grid.path), path=path.with_suffix(".lock"))
    for kind in (spec.plugin() for spec in grid.every_encoder()):
        asked = dict[str, str | None]()
        kind.depth(lambda name: asked.setdefault(name, lock.get(name)))  # noqa: B023 called here
        if None in asked.values():  # the hub's config is in a cache here, and may not be elsewhere
            with suppress(RaxalignError):
                lock = replace(lock, entries={**kind.fetch_config(lock.get), **lock.entries})
    if lock.entries:
        lock.save()


def _public(text: str) -> str:
    return masked(re.sub(rf"(?<![\w:]){re.escape(str(Path.home()))}/(?=\w)", "~/", text))


def _evaluations(plan: Plan) -> dict[str, tuple[str, str]]:
    """Return the name of a trial, and the task, of each evaluation by its key."""
    named = ((plan.trial_name(trial), trial.evaluations) for trial in plan.trials)
    return {key: (name, task) for name, of in named for task, key in of.items()}


def _copy_results(opened: Opened, folder: Path) -> None:
    """Copy results, why trials failed and what searches tried, report on the copies, and copy the
    looks at them.
    """
    copy = replace(opened, run=opened.run.model_copy(update={"storage": str(folder)}))
    own, new, files = opened.storage.ledger, copy.storage.ledger, opened.storage.files
    there = sorted(_evaluations(opened.plan).keys() & own.keys())
    if not there:
        raise RaxalignError(f"{opened.grid.path}: has no results yet in {opened.storage}: run it")
    for key in there:
        new.write(key, own.read(key), own.predictions(key))
    for run, why in own.failures(trial.run for trial in opened.plan.trials).items():
        new.fail(run, {"message": _public(why["message"])})
    new.looks = own.looks

    def copied() -> None:
        others = [f"{study.folder}.json" for study in opened.plan.studies]
        others += [f"looks/{name}" for name in files.names("looks") if name.endswith(".json")]
        for name, data in files.read_many(others).items():
            copy.storage.files.write(name, data)

    copied()  # the report is about the looks that were planned, and may be one by itself
    _write_report(copy, folder / "grid", folder / "report")
    copied()


def _write_report(opened: Opened, sources: Path, folder: Path) -> None:
    ledger, claims = opened.storage.ledger, JudgedClaim.all_in(opened)
    paths = [path for path in sorted(sources.glob("*.*")) if not path.is_symlink()]  # to data
    texts = {path.name: path.read_text("utf-8", "replace") for path in paths}
    asked = ReportOptions(opened.grid.published, texts, None, claims)
    write_report(rows(opened.plan, ledger), opened.plan, folder, ledger=ledger, asked=asked)


def _described(opened: Opened, folder: Path) -> _Manifest:
    plan, base = opened.plan, opened.grid.path.parent.resolve()
    read: dict[str, str] = {}
    for stage in plan.stages.values():
        read |= {at: stage.digests[name] for name, at in stage.locations.items()}
    local = [at for at in read if at.startswith("/")]
    return _Manifest(
        f"grid/{opened.grid.path.name}",
        tuple(sorted(_evaluations(plan).keys() - Storage(str(folder)).ledger.keys())),
        {os.path.relpath(at, base): read[at] for at in local if not at.startswith(_PACKAGE)},
        {at: read[at] for at in read if not at.startswith("/")},
        versions(),
        Manifest.describe(folder, "bundle", plan.name, {}, 0.0).files,
    )


def verify(path: Path, sample: str | None = None, storage: str | None = None) -> Iterator[_Check]:
    """Yield the exit code of each check of a bundle, and what it finds in lines: files, keys,
    scores, report, and a `sample` (``5%``, or with a seed ``5%@17``) of trials that run again, in a
    storage without results (None: a temporary one). Other files or keys end it. Raises
    `RaxalignError` for what is not a whole bundle, is not trusted or cannot be planned.
    """
    percent, seed = _asked(sample) if sample is not None else (0.0, 0)
    with tempfile.TemporaryDirectory(prefix="raxalign-verify-") as made:
        place = Path(made).resolve()
        folder, manifest, faults = _unpacked(path, place / _DEEP)
        yield _found("files", f"{len(manifest.files):,} in its {_MANIFEST}", faults)
        if not faults:
            grid = folder / manifest.grid
            lacking = _lacking(manifest, path.absolute().parent, grid, place)
            opened = _planned(grid, manifest)
            faults = list(_key_faults(opened, manifest))
            said = f"{counted(len(opened.plan.trials), 'trial')} planned by raxalign {VERSION}"
            said += f", packed by {manifest.versions.get('raxalign')}"
            said += f"; unfinished: {len(manifest.lacking)} missing" if manifest.lacking else ""
            yield _found("keys", said, faults)
        if faults:
            return
        yield _of_scores(opened)
        yield _of_report(opened, folder / "report", place / "anew")
        if percent and lacking:
            yield 2, ["sample: not checked; the grid reads what is not here", *lacking]
        elif percent:
            fresh = storage_of(storage) if storage else Storage(str(place / "again"))
            yield _of_sample(opened, percent, seed, fresh)


def _asked(sample: str) -> tuple[float, int]:
    """Return the percentage of the trials and the seed that draws them, else one nobody knows."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%(?:@(\d{1,9}))?", sample)
    if found is None or not 0 < float(found[1]) <= 100:
        raise RaxalignError(f"--sample {sample}: write a share such as 5%, or 5%@17 with its seed")
    return float(found[1]), int(found[2]) if found[2] else random.SystemRandom().randrange(10**6)


def _unpacked(path: Path, place: Path) -> tuple[Path, _Manifest, list[str]]:
    """Return the folder of a bundle, unpacked below a place, its manifest, and what is wrong."""
    try:
        with zipfile.ZipFile(path) as archive:
            place.mkdir(parents=True)
            size = sum(info.file_size for info in archive.infolist())
            if size > min(_LARGEST, shutil.disk_usage(place).free):
                raise ValueError(f"it has {volume(size)}, for which there is no room")
            archive.extractall(place)  # no name leads out, no link is made
        (folder,) = place.iterdir()
        manifest = parse((folder / _MANIFEST).read_bytes(), _Manifest)
    except Exception as error:  # which, is up to who made the archive
        raise RaxalignError(f"{path}: is not a whole bundle ({error}); get it again") from error
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    odd = sorted(there - manifest.files.keys() - {_MANIFEST})
    found = ((name, entry.problem(folder / name)) for name, entry in manifest.files.items())
    faults = [f"{name}: {fault}" for name, fault in found if fault]
    return folder, manifest, [*faults, *(f"{name}: is not one of its files" for name in odd)]


def _lacking(manifest: _Manifest, base: Path, grid: Path, place: Path) -> list[str]:
    """Let a copy of the grid find its data from the bundle's folder; name what is not there."""
    for name in manifest.data:
        target = Path(os.path.normpath(grid.parent / name))
        if target.is_relative_to(place) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(base / name)
    absent = [name for name in manifest.data if not (base / name).is_file()]
    return [f"put {name} at {base / name} (SHA-256 {manifest.data[name]})" for name in absent]


def _planned(path: Path, manifest: _Manifest) -> Opened:
    """Return the grid of an unpacked bundle as a storage, planned by the digests of its data."""
    grid, storage = load(path), Storage(str(path.parent.parent))

    def digest(file: Path) -> str:
        return manifest.data.get(os.path.relpath(file, path.parent)) or file_digest(file)

    identity = Identity(digest, Lock.load(path).get)
    plan = expand(grid, identity, suggested=lambda study: study.record(storage).suggestions())
    own = {"storage": storage.root, "tracking_uri": None, "address": None}
    return Opened(grid, grid.run.model_copy(update=own), plan)


def _key_faults(opened: Opened, manifest: _Manifest) -> Iterator[str]:
    """Yield which results are not those that the grid plans."""
    plan, there = opened.plan, opened.storage.ledger.keys()
    planned, records = _evaluations(plan), opened.storage.ledger.read_many(sorted(there))
    for key in sorted(planned.keys() ^ there ^ {*manifest.lacking}):
        named = ", ".join(planned.get(key, ["a result that the grid does not plan"]))
        yield f"{key}: {named}, is {'there' if key in there else 'missing'}"
    for key in sorted(planned.keys() & there):
        record = records.get(key, {})
        of = (record.get(name, "") for name in ("task", "encoder"))  # as the first grid called them
        for name, value in plan.stages[key].evaluated(*of).items():
            if canonical_json(record.get(name)) != canonical_json(value):
                yield f"{key}: its {name} is not that of {', '.join(planned[key])}"


def _of_scores(opened: Opened) -> _Check:
    """Compute scores from predictions, and means over languages from scores."""
    plan, ledger, planned = opened.plan, opened.storage.ledger, _evaluations(opened.plan)
    lines, near, count, every = list[str](), 0, 0, 0
    for key, record in ledger.read_many(sorted(planned)).items():
        (name, task), every = planned[key], every + len(record["scores"])
        for at, own, again in _computed(plan, task, record, ledger.predictions(key)):
            count, near = count + 1, near + (own != again)
            if not abs(own - again) <= NEAR:
                told = f"{own:.6g} in its record, {again:.6g} by its predictions"
                lines.append(f"{name}, {metric_name(task, *at)}: {told}")
    said = f"{count:,} of {counted(every, 'value')} computed anew; counts and errors cannot be"
    return _found("scores", said, lines, near)


def _computed(
    plan: Plan, task: str, record: Mapping[str, Any], predictions: Any
) -> Iterator[tuple[tuple[str, str, str], float, float]]:
    """Yield scores (language, metric, split) and means: the recorded value, and a new one."""
    values = {(s["lang"], s["metric"], s["split"]): s["value"] for s in record["scores"]}
    single, kind = [at for at in values if at[0] not in MEANS], plan.task(task)
    samples = samples_of(kind.metrics, predictions, single) if predictions and kind else {}
    for (lang, *of), value in values.items():
        at, sample = (lang, of[0], of[1]), samples.get((lang, of[0], of[1]))
        over = [
            values[other]
            for other in single
            if [*other[1:]] == of and (lang != "avg_zero_shot" or other[0] != plan.home_of(task))
            if (other[0] in record.get("unseen", ())) == (lang == "avg_unseen")
        ]
        if lang in MEANS:
            yield at, value, math.fsum(over) / max(len(over), 1)
        elif sample is not None:
            yield at, value, sample.value


def _of_report(opened: Opened, own: Path, anew: Path) -> _Check:
    """Write the report anew, and compare its files; figures depend on matplotlib's version."""
    _write_report(opened, opened.grid.path.parent, anew)
    one, two = ({p.relative_to(of).as_posix() for p in of.rglob("*.*")} for of in (own, anew))
    lines, near = [f"report/{name}: is there on one side only" for name in sorted(one ^ two)], 0
    for name in sorted(name for name in one & two if not name.startswith("figures/")):
        texts = [_DRAWING.sub("", (of / name).read_text("utf-8", "replace")) for of in (own, anew)]
        if texts[0] != texts[1]:
            told, near = _difference(*(text.split("\n") for text in texts)), near + 1
            lines += [f"report/{name}: {told}"] if told else []
    return _found("report", f"{len(two)} files written anew from the results", lines, near)


def _difference(own: list[str], again: list[str]) -> str:
    """Return where lines first differ by more than the rounding of numbers, or nothing."""
    for number, (a, b) in enumerate(zip_longest(own, again, fillvalue=""), 1):
        pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=False)
        near = (x == y or abs(float(x) - float(y)) <= NEAR for x, y in pairs)
        if _NUMBER.split(a) != _NUMBER.split(b) or not all(near):
            start = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
            part = slice(max(start - 20, 0), start + 20)
            return f"line {number} has {a[part]!r} in the bundle, and {b[part]!r} by its results"
    return ""


def _of_sample(opened: Opened, percent: float, seed: int, storage: Storage) -> _Check:
    """Run some trials again, and compare their values and predictions."""
    from raxalign.sweep.grid import run_whole

    plan, own, new = opened.plan, opened.storage.ledger, storage.ledger
    there = own.keys()
    whole = [t for t in plan.trials if t.evaluations and there >= {*t.evaluations.values()}]
    count = math.ceil(len(whole) * percent / 100)
    part = plan.only(iter(random.Random(seed).sample(whole, count)))
    keys = _evaluations(part).keys()
    if new.keys() & keys:
        raise RaxalignError(f"--storage {storage}: has results of the sample; name an empty one")
    settings = opened.run.model_copy(update={"storage": storage.root})
    ended = run_whole(replace(opened, run=settings), part, ())
    lines = [f"{plan.trial_name(plan.by_key[key])}: {why}" for key, why in ended.failed.items()]
    sides = (("the bundle", opened.storage), ("this machine", storage))
    found = Differences.between(*(ComparedSide.of(name, [part], at) for name, at in sides))
    lines += found.text(None).split("\n") if found.any else []
    unlike = sum(own.predictions(key) != new.predictions(key) for key in new.keys() & keys)
    said = f"{count:,} of {counted(len(whole), 'trial')} run again (--sample {percent:g}%@{seed}),"
    said += f" with {counted(found.same, 'equal value')} and {unlike:,} unlike predictions:"
    said += f" {'; '.join(map(plan.trial_name, part.trials))}"
    return _found("sample", said, lines, found.near + unlike)
