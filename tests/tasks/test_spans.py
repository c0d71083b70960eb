"""Windows over contexts, and answers decoded as the context's own characters."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.rows import Rows
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.tasks.answers.head import SpanModel, best_span, span_loss
from raxalign.tasks.answers.rows import WindowSizes, cuts
from tests.tasks.word_qa import questions

WORDS = [
    *("who", "came", "Anna", "Rom", "##a", "alt", "ist", ".", "?"),
    *("三", "驾", "马", "车", "公", "司", "在", "哪", "，", "2000", "年"),
]
SIZES = WindowSizes(question=64, stride=128, answer=4)


@pytest.fixture
def encoder(tiny):
    return tiny(WORDS)


def windows_of(encoder, *rows, langs=("en", "en"), sizes=SIZES):
    """The windows of (question, context, answer) each."""
    asked = questions("q", *((str(n), *row) for n, row in enumerate(rows)))
    return asked.windows(encoder, langs, sizes)


class Window(NamedTuple):
    """A row of a question with some of its context, and where these are."""

    row: Rows
    question: int
    begin: int
    first: int
    size: int
    target: tuple[int, int]


def each(made):
    """The windows, one by one."""
    cuts = zip(made.windows.cuts_S5.tolist(), made.windows.begins().tolist(), strict=True)
    for row, ((question, first, size, *target), begin) in zip(made.windows.rows, cuts, strict=True):
        yield Window(row, question, begin, first, size, tuple(target))


def model_of(aligned):
    return SpanModel(aligned, 2, dropout=0.0, max_length=32, seed=0).eval()


def pointing(encoder, *places):
    """A model whose logits are large at the (start, end) given for each row, as positions in the
    row.
    """
    model = model_of(AlignedEncoder(encoder))

    def forward(rows, chosen):
        logits = torch.zeros(len(chosen), int(rows.lengths[chosen].max()), 2)
        for number, (start, end) in enumerate(places):
            logits[number, start, 0] = logits[number, end, 1] = 9
        return logits

    model.forward = forward
    return model


@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_the_best_span_is_that_of_all_spans(longest, n, seed):
    starts, ends = np.random.default_rng(seed).integers(-3, 4, (2, n)).astype(float)
    spans = [(starts[i] + ends[j], i, j) for i in range(n) for j in range(i, min(n, i + longest))]
    top = max(spans, key=lambda span: span[0])  # the first of equals: by start, then by length
    assert best_span(starts, ends, longest) == top


def test_a_span_never_ends_before_it_starts_nor_is_longer_than_allowed():
    starts, ends = np.array([0.0, 0.0, 9.0, 0.0]), np.array([9.0, 0.0, 0.0, 1.0])
    assert best_span(starts, ends, 4) == (10.0, 2, 3)
    assert best_span(starts, ends, 1) == (9.0, 0, 0)
    starts, ends = np.array([5.0, 0.0, 4.0]), np.array([0.0, 0.0, 5.0])
    assert best_span(starts, ends, 2) == (9.0, 2, 2)  # (0, 2) would be 10


@given(st.integers(0, 60), st.integers(2, 20), st.integers(1, 30), st.integers(1, 12))
def test_every_answer_is_whole_in_some_window(length, room, stride, answer):
    found = list(cuts(length, room, WindowSizes(64, stride, answer)))
    assert all(0 <= size <= room for _, size in found)
    assert found[-1][0] + found[-1][1] == length
    longest = min(answer, room // 2 + 1, length)
    for start in range(length - longest + 1):
        assert any(first <= start and start + longest <= first + size for first, size in found)


def test_the_stride_is_what_is_asked_for_where_it_fits():
    assert [first for first, _ in cuts(500, 350, WindowSizes(64, 128, 30))] == [0, 128, 256]
    assert [first for first, _ in cuts(200, 110, WindowSizes(64, 128, 30))] == [0, 81, 162]


def test_a_row_is_question_then_context_with_the_answers_positions(encoder):
    asked = ("who came?", "Roma ist alt.", "ist alt")
    (window,) = each(windows_of(encoder, asked, langs=("en", "de")))
    pieces = encoder.tokenizer.convert_ids_to_tokens(window.row.ids.tolist())
    assert " ".join(pieces) == "[CLS] who came ? [SEP] Rom ##a ist alt . [SEP]"
    assert (window.begin, window.first, window.size, window.target) == (5, 0, 5, (7, 8))
    batch = encoder.collate(window.row)
    spoken = [batch.languages[i] for i in batch.langs_BT[0].tolist()]
    assert spoken == ["en"] * 5 + ["de"] * 6
    assert batch.segments_BT[0].tolist() == [0] * 5 + [1] * 6


def test_windows_without_the_whole_answer_point_at_the_first_piece(encoder):
    context = "Rom " * 40 + "ist alt " + "Rom " * 10
    made = windows_of(encoder, ("who ?", context, "ist alt"))
    for window in each(made):
        whole = window.first <= 40 and window.first + window.size >= 42
        begin = window.begin + 40 - window.first
        assert window.target == ((begin, begin + 1) if whole else (0, 0))
    assert sum(window.target != (0, 0) for window in each(made)) >= 1
    assert {len(window.row.ids) for window in [*each(made)][:-1]} == {32}


def test_a_long_question_leaves_half_of_the_room_to_the_context(encoder):
    made = windows_of(encoder, ("who " * 60, "Rom ist alt. " * 10, "Rom"))
    assert all(window.begin == 1 + 14 + 1 for window in each(made))
    assert max(window.size for window in each(made)) == 32 - 3 - 14
    asked = ("who " * 60, "Rom", "Rom")
    (window,) = each(windows_of(encoder, asked, sizes=WindowSizes(5, 9, 4)))
    assert window.begin == 1 + 5 + 1


def test_a_chinese_answer_comes_back_as_it_stands(encoder):
    context = "2000年， 三驾马车 公司 ，在哪"
    made = windows_of(encoder, ("在哪？", context, "三驾马车 公司"), langs=("zh", "zh"))
    (window,) = each(made)
    assert pointing(encoder, window.target).answers(made, 30) == ["三驾马车 公司"]
    first = window.begin + 1
    assert pointing(encoder, (first, first + 1)).answers(made, 30) == ["年，"]


def test_characters_that_the_tokenizer_changes_come_back_unchanged(encoder):
    context = "Anna\u00a0\t came [SEP] Rom\u200b alt"
    made = windows_of(encoder, ("who?", context, "Anna\u00a0\t came"))
    (window,) = each(made)
    assert pointing(encoder, window.target).answers(made, 30) == ["Anna\u00a0\t came"]
    assert encoder.tokenizer.sep_token_id not in window.row.ids[window.begin : -1]


def test_the_best_window_answers(encoder):
    context = "Rom " * 30 + "alt " + "ist " * 60
    made, words = windows_of(encoder, ("who ?", context, "alt")), context.split()
    model = model_of(AlignedEncoder(encoder))
    logits = model(made.windows.rows).detach().numpy()
    scores = []
    for window, of_row in zip(each(made), logits, strict=True):
        inside = of_row[window.begin : window.begin + window.size]
        score, first, last = best_span(inside[:, 0], inside[:, 1], 4)
        scores.append((score, " ".join(words[window.first :][first : last + 1])))
    assert len(scores) > 2
    assert model.answers(made, 4) == [max(scores)[1]]


def test_the_loss_is_the_mean_of_two_cross_entropies_summed_over_rows():
    logits = torch.tensor(
        [[[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0], [-torch.inf, -torch.inf]]],
        dtype=torch.float64,
    )
    e = np.exp
    first = np.log(e(0) + e(2) + e(0)) - 2 + np.log(e(1) + e(0) + e(0)) - 0
    second = np.log(e(1) + e(0)) - 1 + np.log(2)
    loss = float(span_loss(logits, torch.tensor([[1, 2], [0, 1]])))
    assert loss == pytest.approx((first + second) / 2, abs=1e-9)


def test_padding_has_no_share_and_transforms_reach_their_language_alone(encoder):
    both = ("who came?", "Anna came.", "Anna"), ("who?", "Anna.", "Anna")
    rows, second = windows_of(encoder, *both, langs=("en", "de")).windows.rows, np.array([1])
    plain = model_of(AlignedEncoder(encoder))
    shift = Transform("de", 2, steps=(Affine(shift=torch.ones(32)),))
    turned = model_of(AlignedEncoder(encoder, (shift,)))
    with torch.no_grad():
        together, alone, moved = plain(rows), plain(rows, second), turned(rows, second)
    width = len(rows[1].ids)
    assert torch.isinf(together[1, width:]).all()
    assert torch.allclose(together[1, :width], alone[0], atol=1e-5)
    difference = moved[0] - alone[0]
    begin = 4  # [CLS] who ? [SEP]
    assert torch.equal(difference[:begin], torch.zeros(begin, 2))
    assert torch.allclose(
        difference[begin:], plain.head.weight.sum(1).expand(width - begin, 2), atol=1e-5
    )
