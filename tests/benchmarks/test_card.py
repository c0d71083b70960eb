"""The benchmark of cards, at a tiny size on the CPU."""

from argparse import Namespace

import numpy as np
import pytest

from benchmarks.card import NO_CARD, random_pairs, run
from raxalign.pairing.build import WordPairs


def test_random_pairs_have_about_the_words_that_were_asked_for(tmp_path):
    rows = WordPairs.read(random_pairs(tmp_path / "pairs", 400, 25)).table.to_pylist()
    sizes = [len(row["src"]) for row in rows]
    assert 22 <= np.mean(sizes) <= 28
    assert len(set(sizes)) > 20
    assert all(len(row["src_links"]) == min(len(row["src"]), len(row["tgt"])) for row in rows)


@pytest.mark.slow
def test_without_a_card_it_runs_on_the_cpu_and_says_so(capsys):
    sizes = {"steps": 2, "batch": 3, "words": 8, "n": 300, "tiny": True}
    chosen = {"models": ["mbert", "modernbert"], "variants": ["plain"]}
    options = Namespace(**chosen, **sizes, device="cpu", precision="fp32")
    found = run(options)
    said = capsys.readouterr().out
    assert found["device"] == NO_CARD
    assert f"device: {NO_CARD}" in said
    for name, rows in (("mbert", "packed"), ("modernbert", "padded")):
        made = found[f"{name}, plain"]
        assert made["rows"] == rows
        assert made["tokens_per_second"] > 0
        assert "share_of_peak" not in made
    assert found["mbert, plain"]["waits_per_step"] == 0
    assert found["csls"]["fp32 seconds"] > 0
