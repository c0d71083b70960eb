from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import digamma

from raxalign.pairing.aligners import fast_align
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.fast_align import DirectedModel, FastAlign, NumberedWords, make_cells
from raxalign.pairing.links import Links


def planted(n: int = 150, seed: int = 0):
    """Sentences over a dictionary of 40 words, in another word order: neighbours are swapped at
    random.
    """
    draw = random.Random(seed)
    src, tgt, gold = [], [], []
    for _ in range(n):
        words = draw.sample(range(40), draw.randint(2, 7))
        order = list(range(len(words)))
        k = draw.randrange(len(words) - 1)
        order[k], order[k + 1] = order[k + 1], order[k]
        src.append([f"s{w}" for w in words])
        tgt.append([f"T{words[i]}" for i in order])
        gold.append({(i, position) for position, i in enumerate(order)})
    return src, tgt, gold


def align(src, tgt, tmp_path, threads=1, **params):
    inputs = AlignerInputs(range(len(src)), None, {}, tmp_path, threads)
    return FastAlign(FastAlign.Params(**params)).align(src, tgt, inputs)


def test_a_planted_dictionary_is_recovered(tmp_path):
    src, tgt, gold = planted()
    forward, reverse = align(src, tgt, tmp_path)
    for links in (forward, reverse, Links.symmetrized(forward, reverse, "intersection")):
        assert [links.pair(i) for i in range(len(links))] == gold
    threads = align(src, tgt, tmp_path, threads=2)
    assert [links.digest() for links in threads] == [forward.digest(), reverse.digest()]
    order = np.random.default_rng(0).permutation(len(src))
    mixed, _ = align([src[i] for i in order], [tgt[i] for i in order], tmp_path)
    assert [mixed.pair(k) for k in range(len(src))] == [forward.pair(i) for i in order]
    assert [len(links) for links in align([], [], tmp_path)] == [0, 0]
    assert list(tmp_path.iterdir()) == [], "nothing is left in the scratch folder"


def test_a_word_without_a_counterpart_is_left_out(tmp_path):
    src, tgt, gold = planted(300)
    tgt = [[*words, "ja"] if i % 2 else words for i, words in enumerate(tgt)]
    forward, _ = align(src, tgt, tmp_path)
    linked = [any(t == len(gold[i]) for _, t in forward.pair(i)) for i in range(1, len(src), 2)]
    assert sum(linked) < len(src) / 20


PROGRAM = """
import json, sys, pathlib
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.fast_align import FastAlign
src, tgt = json.load(sys.stdin)
inputs = AlignerInputs(range(len(src)), None, {}, pathlib.Path(sys.argv[1]), 1)
print(*(links.digest() for links in FastAlign(FastAlign.Params()).align(src, tgt, inputs)))
"""


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_links(tmp_path):
    src, tgt, _ = planted(40)
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    command, sides = [sys.executable, "-c", PROGRAM, str(tmp_path)], json.dumps([src, tgt])
    pipes = {"input": sides, "capture_output": True, "text": True, "check": True}
    found = subprocess.run(command, env=environment, **pipes)
    assert found.stdout.split() == [links.digest() for links in align(src, tgt, tmp_path)]


def test_case_is_folded_unless_told_otherwise(tmp_path):
    src, tgt, _ = planted(60)
    shouted = [[word.upper() for word in words] if i % 2 else words for i, words in enumerate(src)]
    same = align(shouted, tgt, tmp_path)[0].digest() == align(src, tgt, tmp_path)[0].digest()
    cased = [align(side, tgt, tmp_path, lowercase=False)[0].digest() for side in (shouted, src)]
    assert same
    assert cased[0] != cased[1]


def test_the_released_profile_changes_links_and_keys(tmp_path):
    def made(**params):
        return [links.digest() for links in align(*planted(60, seed=3)[:2], tmp_path, **params)]

    def key(**params):
        return FastAlign.Params(**params).identity()

    assert made(profile="released") != made()
    assert key(profile="released") == {**key(), "profile": "released"}
    assert "profile" not in key()  # word pairs made before there was a choice keep their keys


def loop_em(src, tgt, iterations, null, tension, alpha, *, released=False):
    """The same model word by word, for sentences of numbers; returns forward links and the tension.

    `released`: as the authors' program estimates the tension, whose infinite series is cut after
    4,000 terms.
    """
    lexicon: dict[tuple[int, int], float] = {}
    for iteration in range(iterations):
        counts: dict[tuple[int, int], float] = {}
        feature, words, links = 0.0, 0, []
        for row, (s, t) in enumerate(zip(src, tgt, strict=True)):
            m, n = len(s), len(t)
            for j in range(n):
                shares = [np.exp(-tension * abs((i + 1) / m - (j + 1) / n)) for i in range(m)]
                lexical = [lexicon.get((word, t[j]), 1.0) for word in (-1, *s)]
                p = [null * lexical[0]]
                p += [(1 - null) * shares[i] / sum(shares) * lexical[i + 1] for i in range(m)]
                best = int(np.argmax(p))
                if best:
                    links.append((row, best - 1, j))
                for k, word in enumerate([-1, *s]):
                    counts[word, t[j]] = counts.get((word, t[j]), 0.0) + p[k] / sum(p)
                    if k:
                        feature -= abs(k / m - (j + (not released)) / n) * p[k] / sum(p)
                words += 1
        if iteration == iterations - 1:
            return sorted(links), tension
        if iteration > 0:
            for _ in range(8):
                expected = 0.0
                for s, t in zip(src, tgt, strict=True):
                    for j in range(len(t)):
                        h = [-abs((i + 1) / len(s) - (j + 1) / len(t)) for i in range(len(s))]
                        e = [np.exp(tension * x) for x in h]
                        total = sum(e)
                        if released:
                            terms = np.arange(1, (len(t) if j < len(s) else 4000) + 1)
                            total = np.exp(
                                -tension * np.abs(terms / len(t) - (j + 1) / len(s))
                            ).sum()
                        expected += sum(a * b for a, b in zip(h, e, strict=True)) / total
                tension = min(max(tension + 20 * (feature - expected) / words, 0.1), 14.0)
        totals, seen = dict[int, float](), counts.items()
        for (word, _), count in seen:
            totals[word] = totals.get(word, 0.0) + count + alpha
        lexicon = {k: np.exp(digamma(c + alpha) - digamma(totals[k[0]])) for k, c in seen}
    raise AssertionError


def side(sentences) -> NumberedWords:
    lengths = np.array([len(s) for s in sentences])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    words = np.concatenate(sentences).astype(np.int32)
    return NumberedWords(words, offsets[:-1], lengths, int(words.max()) + 1)


@pytest.mark.parametrize("released", [False, True])
def test_all_cells_at_once_equal_the_model_word_by_word(released, tmp_path):
    draw = random.Random(5)
    src = [[draw.randrange(9) for _ in range(draw.randint(1, 5))] for _ in range(25)]
    tgt = [[draw.randrange(9) for _ in range(draw.randint(1, 5))] for _ in range(25)]
    source, target = side(src), side(tgt)
    cells = make_cells(source, target, tmp_path)
    for axis, (one, other) in ((1, (src, tgt)), (2, (tgt, src))):
        direction = DirectedModel(cells, source, target, axis, released=released)
        rows, s, t = (array.tolist() for array in direction.links())
        explaining, explained = (s, t) if axis == 1 else (t, s)
        links, tension = loop_em(one, other, 5, 0.08, 4.0, 0.01, released=released)
        assert sorted(zip(rows, explaining, explained, strict=True)) == links
        assert direction.tension == pytest.approx(tension)


def test_large_bitexts_in_files_and_small_blocks_give_the_same_links(tmp_path, monkeypatch):
    src, tgt, _ = planted(100)
    whole = align(src, tgt, tmp_path)[0].digest()
    monkeypatch.setattr(fast_align, "_MAPPED_CELLS", 10)
    assert align(src, tgt, tmp_path)[0].digest() == whole
    monkeypatch.setattr(fast_align, "_BLOCK_CELLS", 50)
    monkeypatch.setattr(fast_align, "_CHUNK_CELLS", 200)
    monkeypatch.setattr(fast_align, "_PART", 7)
    assert align(src, tgt, tmp_path)[0].digest() == whole
