"""The losses of awesome-align beside their printed formulas in NumPy, on the model's own states."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from raxalign.errors import RaxalignError
from raxalign.methods import awesome_align
from raxalign.methods.awesome_align import AlignerLosses, between_words, link_losses
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.rows import Bitexts
from raxalign.pairing.aligners.awesome_align import entmax
from raxalign.train.objective import Step
from tests.methods.contract import in_micro_batches, masked_losses, of_ids, resolved
from tests.methods.planted import method
from tests.methods.toy import toy_encoder, toy_rows, write_bitext

NONE = {"so": 0, "co": 0, "mlm": 0, "tlm": 0, "psi": 0}
ROWS = np.array([5, 3, 23, 0, 11])
STEP = Step(0, 0, ROWS, seed=1, micro=5)


def objective(root, **options):
    encoder = toy_encoder(root / "encoder")
    bitexts = Bitexts.read(encoder, {"de": root / "bitext-de"}, "en", 32)
    given = resolved("awesome_align", **{**NONE, "layers": "1", **options})
    return AlignerLosses(encoder, bitexts, given, seed=2)


def loss_of(trained, step=STEP):
    trained.begin(step)
    with torch.no_grad():
        return float(trained.loss(step, np.arange(len(step.rows))))


def softmaxes(products_ST):
    """S_xy over the target's pieces and S_yx over the source's, (S, T) and (T, S)."""
    of_tgt, of_src = (np.exp(part - part.max()) for part in (products_ST, products_ST.T))
    return of_tgt / of_tgt.sum(1, keepdims=True), of_src / of_src.sum(1, keepdims=True)


def printed(of_tgt_ST, of_src_TS, links_ST):
    """L_SO and L_CO of one sentence pair, as the paper prints them, term by term."""
    n, m = of_tgt_ST.shape
    trained = sum(
        links_ST[i, j] * (of_tgt_ST[i, j] / n + of_src_TS[j, i] / m) / 2
        for i in range(n)
        for j in range(m)
    )
    return trained, np.trace(of_tgt_ST @ of_src_TS) / min(n, m)


@pytest.mark.parametrize("extraction", ["softmax", "entmax"])
def test_both_losses_of_links_are_as_printed_whatever_fills_shorter_sentences_up(extraction):
    chance, sizes = np.random.default_rng(0), [(3, 4), (5, 2), (1, 1)]
    similarities, links = np.full((3, 5, 4), -np.inf), np.ones((3, 5, 4), bool)
    expected = []
    for k, (n, m) in enumerate(sizes):
        similarities[k, :n, :m] = chance.normal(size=(n, m)) * 3
        links[k, :n, :m] = chance.random((n, m)) < 0.4
        inner = similarities[k, :n, :m]
        ways = softmaxes(inner)
        if extraction == "entmax":
            ways = [entmax(torch.from_numpy(part), 1).numpy() for part in (inner, inner.T)]
        expected.append(printed(*ways, links[k, :n, :m]))
    there = torch.from_numpy(np.isfinite(similarities))
    found = link_losses(torch.from_numpy(similarities), torch.from_numpy(links) & there, extraction)
    assert torch.allclose(torch.stack(found, 1), -torch.tensor(expected), atol=1e-12)


def test_entmax_has_the_gradient_of_finite_differences_and_none_outside_its_support():
    scores = torch.tensor([[3.0, 2.5, 2.0, -9.0], [0.0, 0.0, -30.0, -1e30]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: entmax(x, 1), scores[:1].requires_grad_())
    second = scores[1:].detach().requires_grad_()
    entmax(second, 1)[0, 0].backward()
    assert second.grad[0].tolist() == pytest.approx([8**-0.5, -(8**-0.5), 0, 0])


def test_all_pieces_of_two_words_are_linked_where_some_are():
    found = torch.zeros(1, 4, 3, dtype=torch.bool)
    found[0, 1, 0] = True
    words = torch.tensor([[0, 1, 1, -1]]), torch.tensor([[2, 2, 5]])
    expected = [[1, 0], [1, 1], [2, 0], [2, 1]]
    assert between_words(found, *words)[0].nonzero().tolist() == expected


def states(trained, ids, segments, layer):
    """States of a row, from Hugging Face's own forward."""
    model, text = trained.encoder.model, of_ids(ids, segments)
    with torch.no_grad():
        found = model.bert(**text, output_hidden_states=True).hidden_states[layer]
    return found[0].double().numpy()


def test_links_and_their_losses_are_those_of_the_models_states_and_only_of_words(root):
    """At the threshold 0.2 some pieces are linked, some are not; `rothaus` has two pieces."""
    columns, expected = toy_rows(24), []
    trained = objective(root, so=0.7, co=0.3, threshold=0.2)
    encoder = trained.encoder
    for number in ROWS:
        sides = [encoder.pieces([columns[name][number]], "de")[0] for name in ("src", "tgt")]
        x, y = (states(trained, side.ids, side.segments, 1)[1:-1] for side in sides)
        words = [np.array(side.words)[1:-1] for side in sides]
        of_tgt, of_src = softmaxes(x @ y.T)
        found = (of_tgt > 0.2) & (of_src.T > 0.2)
        linked = {(words[0][i], words[1][j]) for i, j in np.argwhere(found)}
        pieces = [[(a, b) in linked for b in words[1]] for a in words[0]]
        expected.append(printed(of_tgt, of_src, np.array(pieces)))
    so, co = np.mean(expected, axis=0)
    assert so > 0
    assert loss_of(trained) == pytest.approx(-(0.7 * so + 0.3 * co), rel=1e-5)


@pytest.mark.parametrize(("loss", "parts"), [("mlm", 2), ("tlm", 1)])
def test_masked_pieces_of_each_side_or_of_the_pair_are_predicted(loss, parts, root):
    trained = objective(root, **{loss: 0.5})
    found = loss_of(trained)
    masked = [part for part, _ in trained.host.masked]
    sides = [set(part.rows.langs.tolist()) for part in masked]
    assert sides == ([{0}, {1}] if loss == "mlm" else [{0, 1}])
    assert len(masked) == parts
    model = trained.encoder.model
    expected = sum(np.mean(masked_losses(model, part.rows, part.masks)) for part in masked)
    assert found == pytest.approx(0.5 * expected, rel=1e-5)


def test_translations_are_told_from_other_pairs_one_layer_above_the_links(root):
    trained = objective(root, psi=2.0)
    found, rows, expected = loss_of(trained), trained.host.identified, 0.0
    for r in range(2 * len(ROWS)):
        part = slice(rows.offsets[r], rows.offsets[r + 1])
        first = states(trained, rows.ids[part], rows.segments[part], 2)[0]
        with torch.no_grad():
            logit = float(trained.head(torch.from_numpy(first).float()))
        expected -= np.log(1 / (1 + np.exp(-logit if r < len(ROWS) else logit)))
    assert found == pytest.approx(2.0 * expected / (2 * len(ROWS)), rel=1e-5)


def test_the_other_half_has_the_pivots_sentence_of_any_other_pair_on_either_side(root):
    trained = objective(root, psi=1.0)
    columns, others, turned = toy_rows(24), set(), set()
    texts = [
        [tuple(row.ids[1:-1].tolist()) for row in trained.encoder.pieces(columns[side], "de")]
        for side in ("src", "tgt")
    ]
    for number in range(200):
        rows = trained.host_batch(Step(number, 0, ROWS, seed=4)).identified
        for r in range(len(rows)):
            own, read = ROWS[r % len(ROWS)], {}
            for first, kept in zip(rows.first_RK[r], rows.kept_RK[r], strict=True):
                place = rows.offsets[r] + first
                read[rows.langs[place]] = tuple(rows.ids[place : place + kept].tolist())
            assert read[0] == texts[0][own]
            assert (read[1] == texts[1][own]) is (r < len(ROWS))
            others |= {read[1]} if r == len(ROWS) else set()
            turned.add((r < len(ROWS), next(iter(read))))
    assert others == {*texts[1]} - {texts[1][ROWS[0]]}
    assert len(turned) == 4


def test_a_step_does_not_depend_on_how_it_is_divided(root):
    trained = objective(root, so=1, co=1, mlm=1, tlm=1, psi=1)
    (loss, gradient), (parted, of_parts) = (
        in_micro_batches(trained, ROWS.tolist(), micro) for micro in (5, 2)
    )
    assert loss == pytest.approx(parted, rel=1e-5)
    assert torch.allclose(gradient, of_parts, atol=1e-5)


def test_the_links_to_learn_are_found_without_dropout_and_get_no_gradient(root, monkeypatch):
    seen = []

    def noted(similarities, *options):
        seen.append(similarities)
        return linked(similarities, *options)

    linked = awesome_align.linked
    monkeypatch.setattr(awesome_align, "linked", noted)
    trained = objective(root, so=1.0)
    for training in (False, True):
        trained.module.train(training)
        trained.begin(STEP)
        trained.loss(STEP, np.arange(len(ROWS)))
    assert torch.allclose(*seen)
    assert not any(part.requires_grad for part in seen)
    assert trained.module.training


def test_what_trains_nothing_is_refused_and_options_of_losses_left_out_are_idle(root, tmp_path):
    with pytest.raises(ValidationError, match="all of so, co, mlm, tlm and psi are 0"):
        method("awesome_align", **NONE)
    one = MethodInputs(("de",), "en", bitext={"de": write_bitext(tmp_path / "one", toy_rows(1))})
    with pytest.raises(RaxalignError, match="there is one sentence pair; give more text, or psi"):
        method("awesome_align").read(toy_encoder(root / "encoder"), one, one.bitext)
    alone = method("awesome_align", **{**NONE, "tlm": 1})
    assert not {"layers", "extraction", "threshold"} & set(alone.canonical())
    assert alone.needs().head
    links = method("awesome_align", **{**NONE, "co": 1})
    assert {"layers", "extraction"} <= set(links.canonical())
    assert not {"threshold", "mask_share"} & set(links.canonical())
    assert not links.needs().head
