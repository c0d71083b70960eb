"""Reading the section `search`, and checking it against the methods and tasks of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, suggestion
from raxalign.config._specs import MethodSpec, TaskSpec
from raxalign.config._validate import validate
from raxalign.config.search import Search
from raxalign.config.yaml_file import Node

_MEANS = ("avg", "avg_zero_shot")
_EXAMPLE = "for example xnli/avg_zero_shot/accuracy"


def read_search(
    node: Node,
    methods: Sequence[MethodSpec],
    tasks: Sequence[TaskSpec],
    languages: Sequence[str],
    faults: Faults,
) -> Search | None:
    """Read the section.

    Args:
        node: The section.
        methods: The methods of the grid; at least one has to have a space.
        tasks: Its tasks, one of which the metric names.
        languages: Its languages and the pivot.
        faults: Receives the faults.
    """
    written = _written(node, faults)
    search = validate(Search, node, faults, values=written)
    if "metric" in written:
        _check_metrics(written["metric"], tasks, languages, faults)
    if search is not None and search.pruner.prunes and len(search.metric) > 1:
        faults.add(
            written["pruner"],
            "a search by two metrics cannot be pruned: a trial may be ahead by one of them",
            "leave `pruner` out, or name one metric",
        )
    if not faults and methods and not any(spec.searched for spec in methods):
        faults.add(
            node,
            "no param of a method has a space to search",
            "write for example lambda: {log_uniform: [0.01, 10]}, or leave `search` out",
        )
    return search


def _written(node: Node, faults: Faults) -> dict[str, Node]:
    """Return the entries of the section, without a split that is not permitted. A pruner that is
    only named is a mapping with that name.
    """
    written = dict(node.entries(faults))
    split = written.get("split")
    if split is not None and split.value != "dev":
        faults.add(
            split,
            f"{split.shown()} is not permitted",
            "what is chosen by test values is luck, and its test value means nothing: dev is the"
            " only split",
        )
        written = {name: entry for name, entry in written.items() if name != "split"}
    pruner = written.get("pruner")
    if pruner is not None and isinstance(pruner.value, str):
        written["pruner"] = replace(pruner, value={"name": pruner})
    return written


def _check_metrics(
    node: Node, tasks: Sequence[TaskSpec], languages: Sequence[str], faults: Faults
) -> None:
    """Check one metric or several, which have to differ."""
    metrics = node.items()
    for item in metrics:
        if isinstance(item.value, str):
            _check_metric(item, tasks, languages, faults)
    if len({item.value for item in metrics if isinstance(item.value, str)}) < len(metrics):
        faults.add(node, "the same metric twice", "give one, or two different ones")


def _check_metric(
    item: Node, tasks: Sequence[TaskSpec], languages: Sequence[str], faults: Faults
) -> None:
    """Check task/lang/metric against what the tasks of the grid declare."""
    parts = item.value.split("/")
    if len(parts) != 3 or not all(parts):
        faults.add(item, f"{item.shown()} is not task/lang/metric", _EXAMPLE)
        return
    name, lang, metric = parts
    spec = next((spec for spec in tasks if spec.name == name), None)
    if spec is None:
        if tasks:
            known = [spec.name for spec in tasks]
            faults.add(item, f"unknown task {name!r}", suggestion(name, known))
        return
    known = [*languages, "{lang}", "{pivot}"]
    spoken = [part for part in lang.split("-") if part not in known] if lang not in known else []
    if lang not in _MEANS and spoken and languages:
        faults.add(
            item, f"{lang!r} is not a language here", suggestion(lang, [*_MEANS, *known[:-2]])
        )
    declared = catalog("tasks")[spec.kind].metrics
    added = [entry.name for entry in spec.metrics]
    found = next((entry for entry in declared if entry.names(metric)), None)
    if metric in added:
        return
    if found is None:
        every = [*(entry.name for entry in declared if entry.role == "score"), *added]
        faults.add(item, f"{name} has no metric {metric!r}", suggestion(metric, every))
    elif found.better == "neither":
        faults.add(
            replace(item), f"{metric} has no better direction", "choose a metric that has one"
        )
