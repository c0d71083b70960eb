import numpy as np

from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.thot import Thot
from raxalign.pairing.words import Words

SRC = [["das", "Haus"], ["Das", "Buch"], ["ein", "Buch"], ["ein", "Haus"]] * 10
TGT = [["the", "house"], ["The", "book"], ["a", "book"], ["a", "house"]] * 10


def align(src, tgt, tmp_path, threads=1, **params):
    inputs = AlignerInputs(range(len(src)), None, {}, tmp_path, threads)
    return Thot(Thot.Params(**params)).align(src, tgt, inputs)


def test_a_tiny_bitext_is_aligned_in_both_directions(tmp_path):
    for links in align(SRC, TGT, tmp_path):
        assert len(links) == len(SRC)
        assert sum((i, i) in links.pair(k) for k in range(len(SRC)) for i in (0, 1)) > 60
    assert [len(links) for links in align([], [], tmp_path)] == [0, 0]


def test_one_seed_gives_the_same_links_with_any_number_of_threads(tmp_path):
    draw = np.random.default_rng(0)
    src = [[f"s{w}" for w in draw.integers(0, 30, draw.integers(1, 9))] for _ in range(200)]
    tgt = [[f"t{w}" for w in draw.integers(0, 30, draw.integers(1, 9))] for _ in range(200)]

    def digests(**given):
        return [links.digest() for links in align(src, tgt, tmp_path, **given)]

    assert digests(seed=3) == digests(seed=3, threads=2) != digests(seed=4)
    forward, reverse = align(src, tgt, tmp_path)
    sizes = [np.array(list(map(len, side))) for side in (src, tgt)]
    assert forward.outside(*sizes) is reverse.outside(*sizes) is None
    # each direction explains every word of its side by one word at most
    explained = {0: forward.tgt, 1: reverse.src}
    for side, links in enumerate((forward, reverse)):
        pairs = list(zip(links.rows().tolist(), explained[side].tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)


def test_words_with_blanks_and_bars_stay_one_word_and_case_counts_where_told(tmp_path):
    odd = {"das": "d a\ts", "Haus": "|||", "ein": "\u2028", "Buch": "\n", "Das": ""}
    forward, reverse = align([[odd[w] for w in words] for words in SRC], TGT, tmp_path)
    assert len(forward) == len(reverse) == len(SRC)
    assert max(forward.src.max(), forward.tgt.max(), reverse.src.max(), reverse.tgt.max()) == 1
    thots = [Thot(Thot.Params(lowercase=lower)) for lower in (True, False)]
    numbers = [aligner._numbers(Words.of(SRC[:2])) for aligner in thots]
    assert numbers == [[["0", "1"], ["0", "2"]], [["0", "1"], ["2", "3"]]]
