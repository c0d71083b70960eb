"""Whole grids of other kinds, from their plan to their report: with additions of every kind, over
encoders of four families with three kinds of tokenizers, and over languages of many scripts.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from raxalign.grid.estimates import Budget
from raxalign.grid.load import open_grid
from raxalign.values.claims import JudgedClaim
from tests.e2e.runs import Site, undisturbed, without_ray
from tests.families.catalogue import FAMILIES, build
from tests.grids import write_grid
from tests.toys.pages import write_page

pytestmark = pytest.mark.slow


def test_additions_of_every_kind_run_under_ray_and_are_tracked(tmp_path, ray_head):
    site = Site(write_page(tmp_path), tmp_path / "storage", ray_head)
    done = site.run()
    for strength in (0.5, 1.0):
        label = f"my_method strength={strength} de sentences 20"
        assert f"{label} | 20 sentence pairs of de" in done.stderr
    found = {
        (row["params"].get("strength"), row["metric"]): row["value"]  # type: ignore[attr-defined]
        for row in site.results()
    }
    wanted = {None: (1.0, 0.0), 0.5: (0.5, 1.0), 1.0: (0.0, 1.0)}
    assert found == pytest.approx(
        {
            (strength, metric): value
            for strength, values in wanted.items()
            for metric, value in zip(("distance", "close"), values, strict=True)
        }
    )
    (shown,) = (
        run["metrics"]
        for run in site.tracked()
        if run["tags"]["raxalign.kind"] == "cell" and run["params"].get("strength") == "0.5"
    )
    assert (shown["gap/de-en/distance"], shown["gap/de-en/distance_difference"]) == (0.5, -0.5)
    page = site.report("report.md")
    for text in ("gap: close", "Closest words", "Distances of linked words"):
        assert text in page


def test_a_grid_whose_budget_was_spent_has_with_a_larger_one_the_results_of_a_grid_without(
    tmp_path, ray_head
):
    """What the first look took and a moment more pays for a trial of one of the two claims."""
    more = "claims: [small > none in retrieval, large > none in retrieval]\n"
    more += "stop: {at_most: 3, looks: [2, 3]}\nrun: {concurrency: 1}\n"
    methods = ("none: {}", *(f"{n}: {{kind: finetune, lambda: {x}}}" for n, x in SIZES.items()))
    small = {"languages": "{together: [de, fr]}", "sentences": "100", "seeds": "", "size": 300}
    grid = write_grid(tmp_path, methods=methods, more=more, **small)
    whole = Site(grid, tmp_path / "storage", ray_head)
    whole.run()
    part = whole.copy(tmp_path / "part")
    part.forget_trials(trial for trial in part.plan.trials if (trial.seed or 0) >= 2)
    (second,) = part.storage.glob("looks/planned/*-2.json")
    second.unlink()
    opened = open_grid(grid, storage=part.root)
    spent = Budget.of("1 hour", opened.run).spent(opened.plan, opened.storage)
    told = part.run("--budget", f"{spent + 1e-6:.7f} hours").stderr
    assert told.count("is open after look 1 of 2; its next look would take about 0.00") == 1
    assert len(part.entries()) == len(whole.entries()) - 1
    spent_again = part.run("--budget", f"{spent:.7f} hours").stderr
    done = f"{len(part.plan.trials) - 1} trials are done; see"
    assert done in spent_again
    assert f"all {done}" not in spent_again, "further looks have trials of their own"
    assert "no look is left" in part.run("--budget", "1 hour").stderr
    assert part.results() == whole.results()
    first, again = (open_grid(grid, storage=site.root) for site in (whole, part))
    assert JudgedClaim.all_in(first) == JudgedClaim.all_in(again)


SIZES = {"small": 1, "large": 10}
ENCODERS = {
    "wordpiece": "mBERT",
    "unigram": "XLM-R",
    "bytes": "ModernBERT",
    "headless": "multilingual-e5",
}
TASKS = (
    "retrieval: {}",
    "xnli: {data: phrasebook, epochs: 1, phrasebook: {train: 9, dev: 6, test: 6}}",
)


def test_encoders_of_four_families_run_with_all_that_suits_them(tmp_path):
    for name, family in ENCODERS.items():
        build(FAMILIES[family], tmp_path / name)
    grid = write_grid(
        tmp_path,
        encoder=f"[{', '.join(f'./{name}' for name in ENCODERS)}]",
        languages="{each: [de]}",
        size=200,
        sentences="60",
        methods=("none: {}", "rotation: {}", "tlm: {steps: 2, batch_size: 8}"),
        tasks=TASKS,
    )
    site = undisturbed(Site(grid, tmp_path / "storage"))
    made = {(str(row["encoder"]), str(row["method"]), str(row["task"])) for row in site.results()}
    found = Counter((Path(encoder).name, method) for encoder, method, _ in made)
    wanted = {(name, method): 2 for name in ENCODERS for method in ("none", "rotation", "tlm")}
    del wanted["headless", "tlm"]
    assert found == wanted
    reason = "tlm requires a masked-LM head, which headless does not have"
    assert f"{reason}: 1 configuration" in site.look("plan")
    page = site.report("report.md")
    for name in ENCODERS:
        assert f"none ({name}, 1 seed)" in page
        assert f"rotation ({name}, 60 pairs, 1 seed)" in page
    assert "tlm (headless" not in page
    assert f"- left out: {reason}" in page
    assert "Of the grid's encoders only wordpiece is shown." in page


LETTERS = {
    "eng_Latn": "abdegimnorst",
    "ha": "ɓɗƙabcdefghi",
    "am": "ሀለሐመሠረሰቀበተነአ",
    "qaa": "ⴰⴱⴲⴳⴴⴵⴶⴷⴸⴹⴺⴻ",
    "zh-Hant": "龍鳳龜馬魚鳥門車東風雲電",
}
SCRIPTS = """
name: scripts
pivot: eng_Latn
encoder: {kind: scratch, layers: 2, hidden_size: 32, heads: 2, intermediate: 64, vocab_size: 400,
  steps: 20, batch_size: 16}
languages: {each: [ha, am, qaa, zh-Hant]}
corpus:
  source: moses
  path: text/{lang}-{pivot}
  codes: {zh-Hant: zh_tw}
  split: {test: 30, dev: 30}
pairs: {aligner: fast_align}
sentences: 150
methods:
  none: {}
  rotation: {}
  dictionary: {kind: rotation, supervision: dictionary, dictionary: "text/{lang}.txt"}
tasks: {retrieval: {}, sentence_retrieval: {}}
"""


def invented(lang: str, concept: int) -> str:
    """A word; Chinese has one character per concept."""
    if lang == "zh-Hant":
        return chr(ord("\u4e00") + 40 * concept)
    letters = LETTERS[lang]
    first, second = divmod(concept, len(letters))
    return f"{letters[first]}{letters[second]}{letters[first]}"


def write_text(folder: Path) -> None:
    """Write 300 sentence pairs per language, word for word, and a dictionary, of which the text of
    one language has nothing.
    """
    draw = random.Random(0)
    meant = [[draw.randrange(60) for _ in range(draw.randint(4, 8))] for _ in range(300)]
    folder.mkdir()
    for lang in LETTERS:
        own, gap = ("zh_tw", "") if lang == "zh-Hant" else (lang, " ")
        for code, space, spoken in ((own, gap, lang), ("eng_Latn", " ", "eng_Latn")):
            lines = [space.join(invented(spoken, number) for number in said) for said in meant]
            path = folder / f"{own}-eng_Latn.{code}"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        words = [f"{invented(lang, n)} {invented('eng_Latn', n)}\n" for n in range(60)]
        entries = "zzz qqq\n" if lang == "qaa" else "".join(words)
        (folder / f"{lang}.txt").write_text(entries, encoding="utf-8")


def test_a_grid_over_four_scripts_runs_and_a_useless_dictionary_fails_its_own_trials_alone(
    tmp_path,
):
    write_text(tmp_path / "text")
    (tmp_path / "grid.yaml").write_text(SCRIPTS, encoding="utf-8")
    site = Site(tmp_path / "grid.yaml", tmp_path / "storage")
    unknown = "nothing is known about the language qaa"
    assert unknown in site.look("plan")
    (failure,) = without_ray(site)
    assert "no word pairs for qaa-eng_Latn" in failure
    state = site.look("status")
    assert "1 failed" in state
    assert "no word pairs for qaa-eng_Latn" in state
    pairs = {"ha-eng_Latn", "am-eng_Latn", "qaa-eng_Latn", "zh-Hant-eng_Latn"}
    found = [row for row in site.results() if row["task"] == "retrieval"]
    assert {row["lang"] for row in found if row["method"] == "rotation"} == pairs
    dictionaries = {row["lang"] for row in found if row["method"] == "dictionary"}
    assert dictionaries == pairs - {"qaa-eng_Latn"}
    page = site.report("report.md").replace("\\_", "_")
    assert "ha (Hausa), am (Amharic), qaa, zh-Hant (Chinese (Traditional))" in page
    for text in ("pivot eng_Latn (English)", "zh-Hant-eng_Latn", unknown):
        assert text in page
