"""Steps that are recorded once for all whose inputs have the same shapes."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.vectors import Spans
from raxalign.tasks.base import TaskInputs
from raxalign.train import loop
from raxalign.train.devices import Recordings, on_device
from raxalign.train.loop import LossReader, fit
from raxalign.train.objective import HostSided
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime, TokenRate
from tests.methods.contract import LANGUAGES, losses_of, make, vectors
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.problems import dies_at

SETTINGS = TrainSettings(learning_rate=0.01, batch_size=8, epochs=4, clip=1.0, warmup=0.2)
REPLAYS = Runtime(seed=3, replays=True)


class Network(HostSided):
    """Squared error of a small network with dropout; steps of one size have one form."""

    replays = True

    def __init__(self, n=22):
        random = np.random.default_rng(3)
        self.x, self.y = (random.normal(size=(n, k)).astype(np.float32) for k in (5, 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            layers = torch.nn.Linear(5, 40), torch.nn.Dropout(0.3), torch.nn.Linear(40, 1)
            self.module = torch.nn.Sequential(*layers)

    def host_batch(self, step):
        return len(step.rows)

    def host_part(self, step, batch, positions):
        rows = step.rows[positions]
        return self.x[rows], self.y[rows], batch

    def device_loss(self, step, part):
        x, y, n = part
        return (self.module(on_device(x, "cpu")) - on_device(y, "cpu")).pow(2).sum() / n


def trained(objective, runtime):
    fitted = fit(objective, 22, SETTINGS, runtime)
    return fitted, torch.cat([p.detach().flatten() for p in objective.module.parameters()])


def test_replayed_steps_have_the_losses_and_weights_of_others_in_every_bit():
    plain, expected = trained(Network(), Runtime(seed=3))
    fitted, found = trained(Network(), REPLAYS)
    assert fitted.losses == plain.losses
    assert torch.equal(found, expected)
    assert len(fitted.losses) == 12  # batches of 8, 8 and 6 rows, each form taken once before
    assert (plain.replayed, fitted.replayed) == (0, 10)


def test_steps_that_are_divided_are_not_replayed():
    plain, expected = trained(Network(), Runtime(seed=3, shares=2))
    fitted, found = trained(Network(), Runtime(seed=3, shares=2, replays=True))
    assert (fitted.losses, fitted.replayed) == (plain.losses, 0)
    assert torch.equal(found, expected)


def test_a_training_that_is_resumed_replays_again_and_has_the_same_weights(tmp_path):
    _, expected = trained(Network(), REPLAYS)
    runtime = replace(REPLAYS, checkpoints=tmp_path, checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        trained(dies_at(6, Network()), runtime)
    fitted, found = trained(Network(), runtime)
    assert fitted.replayed == 4
    assert torch.equal(found, expected)


class RunsOut(Network):
    """A loss for which memory is too small at one of its calls."""

    def __init__(self, call):
        super().__init__()
        self.calls, self.fails = 0, call

    def device_loss(self, step, part):
        self.calls += 1
        if self.calls == self.fails:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        return super().device_loss(step, part)


# batches of 8, 8 and 6 rows: a plain step, one that is recorded, another plain one, replayed ones
@pytest.mark.parametrize(("call", "replayed"), [(1, 0), (2, 0), (3, 1), (6, 3)])
def test_where_memory_runs_out_recordings_are_given_up_and_batches_stay_whole(call, replayed):
    plain, expected = trained(Network(), Runtime(seed=3))
    fitted, found = trained(RunsOut(call), REPLAYS)
    assert (fitted.losses, fitted.replayed, fitted.micro) == (plain.losses, replayed, 8)
    assert torch.equal(found, expected)


class ReadsElsewhere(Network):
    """A loss that reads an array which its part does not have."""

    def device_loss(self, step, part):
        return super().device_loss(step, part) * on_device(np.float32([len(step.rows)]), "cpu")[0]


class ReadsTheStep(Network):
    """A loss that depends on the number of the step: no recording can serve for it."""

    def device_loss(self, step, part):
        return super().device_loss(step, part) * (1 + step.number)


def test_what_cannot_be_recorded_is_said_once_and_taken_as_ever():
    plain, expected = trained(ReadsElsewhere(), Runtime(seed=3))
    with pytest.warns(UserWarning, match="not in its part") as said:
        fitted, found = trained(ReadsElsewhere(), REPLAYS)
    assert len(said) == 1
    assert (fitted.losses, fitted.replayed) == (plain.losses, 0)
    assert torch.equal(found, expected)


def test_on_a_cpu_too_a_replayed_step_has_the_host_s_values_of_the_recorded_one():
    plain, _ = trained(ReadsTheStep(), Runtime(seed=3))
    fitted, _ = trained(ReadsTheStep(), REPLAYS)
    assert fitted.losses[:2] == plain.losses[:2]
    assert fitted.losses[4] != plain.losses[4]


class Graph:
    """A CUDA graph without a GPU: the operations between torch's own Python and its kernels, done
    again on the same tensors, without any Python of the training.
    """

    launches, works = 0, False

    def __init__(self):
        self.done, self.recorded_now = [], True

    def replay(self):
        Graph.launches += 1
        if self.recorded_now:  # a GPU records without computing; here it is computed already
            self.recorded_now = False
            return
        Graph.works = True
        with torch.no_grad():
            for function, args, kwargs, made in self.done:
                written = function(*args, **kwargs)
                for old, new in zip(tree_leaves(made), tree_leaves(written), strict=True):
                    if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)
        Graph.works = False


class Recorder(TorchDispatchMode):
    def __init__(self, graph):
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        self.graph.done.append((function, args, kwargs or {}, made))
        return made


@pytest.fixture
def graphs(monkeypatch):
    """Let recordings be graphs, as on a GPU."""

    @contextmanager
    def record(graph, pool, capture_error_mode):
        assert (pool, capture_error_mode, streams) == ("pool", "thread_local", ["stream"])
        with Recorder(graph):
            yield

    @contextmanager
    def stream(own):
        streams.append(own)
        try:
            yield
        finally:
            streams.remove(own)

    streams: list[str] = []

    class Graphs(Recordings):
        def __init__(self, device):
            super().__init__(device)
            self.graphs = True

    monkeypatch.setattr(loop, "Recordings", Graphs)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "stream")
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(Graph, "launches", 0)


def test_a_graph_of_a_step_needs_nothing_of_the_host_but_its_arrays_and_the_rate(graphs):
    plain, expected = trained(Network(), Runtime(seed=3))
    fitted, found = trained(Network(), REPLAYS)
    assert (Graph.launches, fitted.replayed) == (10, 10)
    assert fitted.losses == pytest.approx(plain.losses, rel=1e-6)  # the rate is in float32
    assert found.numpy() == pytest.approx(expected.numpy(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_graphs_of_fine_tuning_have_the_losses_of_plain_steps(graphs, tmp_path, pooling):
    toy_inputs(tmp_path, 40, LANGUAGES)
    method = make("finetune", tmp_path, steps=20, batch_size=8, pooling=pooling, dropout=False)
    expected, plain = losses_of(method, tmp_path, Runtime(seed=1))
    losses, replayed = losses_of(method, tmp_path, Runtime(seed=1, replays=True))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert vectors(replayed).numpy() == pytest.approx(vectors(plain).numpy(), abs=1e-4)
    assert Graph.launches >= 10
    assert not replayed.encoder.even


@pytest.mark.parametrize(
    "options",
    [{"lambda": 0.0}, {"norm": "plain"}, {"profile": "released"}, {"layers": "1-2"}],
    ids=lambda options: str(*options),
)
def test_fine_tuning_in_every_form_is_as_precise(graphs, tmp_path, options):
    toy_inputs(tmp_path, 40, LANGUAGES)
    method = make("finetune", tmp_path, steps=12, batch_size=8, dropout=False, **options)
    expected, _ = losses_of(method, tmp_path, Runtime(seed=1))
    losses, _ = losses_of(method, tmp_path, Runtime(seed=1, replays=True))
    assert losses == pytest.approx(expected, rel=1e-5)
    assert Graph.launches >= 4


def test_steps_whose_activations_are_computed_again_are_not_replayed(graphs, tmp_path):
    toy_inputs(tmp_path, 40, LANGUAGES)
    method = make("finetune", tmp_path, steps=6, batch_size=8, dropout=False)
    expected, _ = losses_of(method, tmp_path, Runtime(seed=1))
    again = Runtime(seed=1, replays=True, checkpointing="always")
    losses, _ = losses_of(method, tmp_path, again)
    assert losses == pytest.approx(expected, rel=1e-6)
    assert Graph.launches == 0


def test_an_encoder_that_reads_one_sentence_per_row_is_not_replayed(tmp_path):
    toy_inputs(tmp_path, 40, LANGUAGES)
    method = make("finetune", tmp_path, steps=6, batch_size=8, dropout=False)

    def losses(**how):
        encoder = toy_encoder(tmp_path / "encoder")
        encoder.packs = False
        return losses_of(method, tmp_path, Runtime(seed=1, **how), encoder)[0]

    assert losses(replays=True) == losses()


def test_a_curve_of_replayed_steps_counts_the_tokens_that_they_read(graphs, tmp_path, monkeypatch):
    toy_inputs(tmp_path, 40, LANGUAGES)
    method = make("finetune", tmp_path, steps=20, batch_size=8, dropout=False)
    counts, counted = [], LossReader.add

    def add(self, measured):
        counts.append(self.tokens.count)
        counted(self, measured)

    monkeypatch.setattr(LossReader, "add", add)
    monkeypatch.setattr(TokenRate, "take", lambda _: None)
    losses_of(method, tmp_path, REPLAYS)
    assert Graph.launches >= 10
    assert {*np.diff(counts).tolist()} == {288, 432}  # rows of 48


def test_a_replayed_step_starts_six_operations_and_a_plain_one_hundreds(
    graphs, tmp_path, monkeypatch
):
    class Started(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            counts[-1] += not Graph.works
            return function(*args, **(kwargs or {}))

    advance, counts = loop._Loop.advance, []

    def counted(self):
        counts.append(0)
        with Started():
            advance(self)

    monkeypatch.setattr(loop._Loop, "advance", counted)
    toy_inputs(tmp_path, 40, LANGUAGES)
    method = make("finetune", tmp_path, steps=20, batch_size=8, dropout=False)
    losses_of(method, tmp_path, REPLAYS)
    # the graph, the rate of matrices and that of vectors, the arrays, the loss and its gathering
    assert min(counts) + 1 <= 6
    assert counts.count(min(counts)) >= 10
    assert max(counts) > 400


def test_graphs_of_xnli_have_the_losses_of_plain_steps(graphs, tmp_path):
    kind = catalog("tasks")["xnli"]
    sizes = {"train": 96, "dev": 6, "test": 6}
    options = {"batch_size": 8, "epochs": 1, "selection": "last", "dropout": 0.0}
    task = kind(kind.Params(data="phrasebook", phrasebook=sizes, **options))

    def losses(**how):
        found, aligned = [], AlignedEncoder(toy_encoder(tmp_path / "encoder"))
        for part in aligned.encoder.model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        runtime = Runtime(seed=1, report=lambda values, _: found.append(values), **how)
        (folder := tmp_path / f"{how}").mkdir()
        task.train(aligned, ("en",), TaskInputs("en"), runtime, folder)
        return [v for values in found for name, v in values.items() if name.endswith("/loss")]

    expected = losses()
    assert losses(replays=True) == pytest.approx(expected, rel=1e-6)
    assert len(expected) == 12
    assert Graph.launches >= 8


LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=60)


@given(lengths=LENGTHS)
def test_rows_laid_out_evenly_hold_the_same_sentences_with_padding_besides(lengths):
    rows = Rows.of(np.arange(sum(lengths)) + 1, np.array(lengths))
    plain, even = Packed.of([rows], 0), Packed.of([rows], 0, even=True)
    assert plain.ids_BT.size <= even.ids_BT.size
    n, width = even.ids_BT.shape
    assert width % 48 == 0
    assert len(plain.ids_BT) <= n <= 1.125 * len(plain.ids_BT) + 1
    flat, ends = even.ids_BT.reshape(-1), np.cumsum(lengths)
    for start, length, end in zip(even.starts_S, lengths, ends, strict=True):
        assert flat[start : start + length].tolist() == list(range(end - length + 1, end + 1))
    assert (even.sentences_BT < 0).sum() == even.ids_BT.size - sum(lengths)


@given(lengths=LENGTHS, pooling=st.sampled_from(["first", "last", "mean", "sum"]))
def test_spans_that_are_evened_have_the_same_vectors_and_some_at_the_end(lengths, pooling):
    states = torch.randn(sum(lengths), 3, generator=torch.Generator().manual_seed(0))
    counts = np.array(lengths)
    plain = Spans.of(np.cumsum(counts) - counts, counts, pooling)
    even = plain.evened()
    assert torch.equal(even.pool([states])[: plain.n], plain.pool([states]))
    assert even.n.bit_count() == 1
    assert len(even.pieces_P).bit_count() == 1
    assert plain.n < even.n <= 2 * plain.n
