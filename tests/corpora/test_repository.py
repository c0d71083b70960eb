"""Encoders, data sets and corpora of a hub and of OPUS on this machine: what is asked for, what is
not asked again, and what a user sees of the faults of a server.
"""

import gzip
import hashlib

import pytest

from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.opus import Opus
from raxalign.corpora.readers.hub import HubRows, load_rows
from raxalign.corpora.readers.repository import Repository, patiently
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, TransientError
from raxalign.grid.load import open_grid, remotes
from raxalign.grid.lock import Lock
from tests.hub_material import BERT, OLD_BERT, XNLI, europarl_zip, fill
from tests.hub_server import Fault, serving

GRID = f"""
name: remote
pivot: en
encoder: {OLD_BERT}
languages: {{each: [de]}}
corpus: {{source: opus, corpus: Europarl, split: {{test: 8, dev: 8}}}}
pairs: {{aligner: fast_align}}
sentences: 20
methods: {{none: {{}}, rotation: {{}}}}
tasks: {{xnli: {{data: hub, epochs: 1}}}}
"""
QUOTED = 'src,tgt\r\n"""Ja"", sie",NA\r\n"a ""b","x\ny"\r\n'
TEXT = [('"Das ist', "open"), ("NA", "null"), ('das "eine"', '"x')]
OPENED = "src\ttgt\n" + "".join(f"{src}\t{tgt}\n" for src, tgt in TEXT)
DESCRIBED = """---
configs:
- {config_name: de, data_files: de/train.csv, sep: "\\t"}
---
"""
CORPUS = Opus(Opus.Params(corpus="Europarl"))
ZIP = "OPUS-Europarl/v8/moses/de-en.txt.zip"


@pytest.fixture(scope="module")
def filled():
    with serving() as server:
        fill(server, pairs=40, examples=6, layers=2)
        yield server


@pytest.fixture
def hub(filled, tmp_path, monkeypatch):
    """The server as it was filled, asked with an empty cache. `naps` are what clients wait."""
    filled.ask(tmp_path / "cache", monkeypatch)
    filled.naps = []
    monkeypatch.setattr("time.sleep", filled.naps.append)
    filled.faults.clear()
    filled.taken()
    return filled


@pytest.fixture
def offline(monkeypatch):
    """What HF_HUB_OFFLINE=1 does, from its call on."""
    return lambda: monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def commit(hub, name=XNLI, kind="dataset"):
    return hub.repos[kind, name].branches["main"]


def rows(hub, storage, lang="de"):
    return load_rows(XNLI, lang, "validation", commit(hub), storage)["premise"][:]


def encoder(hub):
    return Transformer(Transformer.Params(name=OLD_BERT, revision=commit(hub, BERT, "model")))


def test_a_file_that_comes_byte_by_byte_is_given_up_and_a_slow_one_is_not(hub, monkeypatch):
    made = hub.repo("me/slow").push({"model.bin": bytes(1_500_000)})
    repository = Repository("me/slow", made, "model")
    monkeypatch.setattr("raxalign.corpora.readers.repository._LIMIT", 1.0)
    hub.faults = [Fault("/lfs/", method="GET", cut=None, pace=1)]
    with pytest.raises(TimeoutError, match="fewer than 65,536 bytes"):
        repository.files(["model.bin"])
    hub.faults = [Fault("/lfs/", method="GET", cut=None, pace=100_000)]
    assert repository.files(["model.bin"])["model.bin"].stat().st_size == 1_500_000


def test_a_pinned_configuration_is_asked_for_once_and_another_one_only_for_its_files(hub, tmp_path):
    first = rows(hub, tmp_path)
    assert len(first) == 6
    read = {path.partition("?")[0] for method, path, _ in hub.taken() if method == "GET"}
    files = {path.split("/resolve/")[1].partition("/")[2] for path in read if "/resolve/" in path}
    split = "de/{}-00000-of-00001.parquet"
    assert files == {"README.md", *map(split.format, ("train", "validation", "test"))}
    assert rows(hub, tmp_path) == first
    assert hub.taken() == []
    assert rows(hub, tmp_path, "fr") != first
    assert all("/tree/" not in path and "README" not in path for _, path, _ in hub.taken())


def test_rows_are_made_again_from_the_hubs_cache_alone_and_kept_ones_need_not_even_that(
    hub, tmp_path, offline, monkeypatch
):
    first = rows(hub, tmp_path / "one")
    hub.taken()
    offline()
    assert rows(hub, tmp_path / "two") == first
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    assert rows(hub, tmp_path / "two") == first
    with pytest.raises(TransientError, match=r"hub:facebook/xnli.*cannot be reached"):
        rows(hub, tmp_path / "three")
    assert hub.taken() == []


@pytest.mark.parametrize(
    ("described", "name", "text"),
    [
        ("", "train.csv", QUOTED),
        ("", "train.tsv.gz", OPENED),
        (DESCRIBED, "de/train.csv", OPENED),
    ],
)
def test_columns_of_the_hub_lose_no_line_after_a_quotation_mark_and_no_word(
    hub, tmp_path, described, name, text
):
    """NA is a word. Rows that are made are read again as they are."""
    data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    files = {"README.md": described.encode()} if described else {}
    at = hub.repo(f"me/{name.replace('/', '-')}", "dataset").push({**files, name: data})
    read = (f"me/{name.replace('/', '-')}", "de" if described else None, "train", at, tmp_path)
    wanted = [('"Ja", sie', "NA"), ('a "b', "x\ny")] if text is QUOTED else TEXT
    for _ in range(2):
        assert [(row["src"], row["tgt"]) for row in load_rows(*read)] == wanted


def test_an_encoder_is_fetched_by_its_old_name_once_without_what_nobody_reads(
    hub, tmp_path, offline
):
    first = encoder(hub).load(EncoderInputs(), "cpu")
    read = {path for method, path, status in hub.taken() if method == "GET" and status < 300}
    assert not any("tf_model" in path for path in read)
    again = encoder(hub).load(EncoderInputs(), "cpu")
    assert hub.taken() == []
    offline()
    one, other = (
        loaded.words([["Haus"]], "de", layers=(1,), pooling="mean") for loaded in (first, again)
    )
    assert one.vectors_NLH.equal(other.vectors_NLH)
    assert encoder(hub).load(EncoderInputs(), "cpu").n_layers == first.n_layers == 2


@pytest.mark.parametrize(
    ("fault", "waited"),
    [
        (Fault("/tree/", 429, headers={"Retry-After": "7"}), 8),
        (Fault("/tree/", 503), 1),
        (Fault("de/train", cut=1000, method="GET"), 1),
    ],
)
def test_a_hub_that_is_busy_fails_or_cuts_is_asked_again_after_what_it_names(
    hub, tmp_path, fault, waited
):
    hub.faults.append(fault)
    assert len(rows(hub, tmp_path)) == 6
    assert fault.times == 0
    assert waited in hub.naps


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        (Fault("/revision/", 429, 99, {"Retry-After": "3"}), TransientError, "fails to answer"),
        (Fault("/revision/", 500, 99), TransientError, "fails to answer"),
        (Fault("/revision/", 403, 99), DataError, r"refuses access \(403\)\. Log in .*HF_TOKEN"),
    ],
)
def test_a_hub_that_stays_so_is_told_in_one_message_and_each_wait_for_it_in_a_line(
    hub, tmp_path, capsys, fault, kind, told
):
    hub.faults.append(fault)
    with pytest.raises(kind, match=told) as caught:
        load_rows(XNLI, "de", "test", None, tmp_path)
    assert "\n" not in str(caught.value)
    assert hub.naps == {429: [3.0, 3.0, 3.0], 500: [1.0, 2.0, 4.0], 403: []}[fault.status]
    assert capsys.readouterr().err.splitlines() == [
        f"hub:{XNLI}: the hub answers {fault.status}; asked again in {nap:g} s (try {number} of 4)"
        for number, nap in enumerate(hub.naps, 2)
    ]


def test_what_the_client_itself_asks_for_again_is_not_asked_for_24_times(hub, tmp_path):
    hub.faults.append(Fault("/tree/", 429, 99, {"Retry-After": "7"}))
    with pytest.raises(TransientError, match=r"fails to answer \(429\)"):
        rows(hub, tmp_path)
    assert len([path for _, path, _ in hub.taken() if "/tree/" in path]) == 6
    hub.faults[:] = [Fault("de/train", cut=1000, times=99, method="GET")]
    with pytest.raises(TransientError, match=r"the connection .* was cut \(peer closed .*later"):
        rows(hub, tmp_path)
    assert 99 - hub.faults[0].times == 6


def test_what_arrived_of_a_file_that_is_cut_each_time_is_not_read(hub, tmp_path, offline):
    fault = Fault("de/train", 500, 99, method="GET")
    hub.faults.append(fault)
    with pytest.raises(TransientError, match=r"hub:facebook/xnli/de:validation"):
        rows(hub, tmp_path)
    path = "de/train-00000-of-00001.parquet"
    assert Repository(XNLI, commit(hub), "dataset").held([path]) == {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(TransientError, match="cannot be reached"):
            rows(hub, tmp_path)
    fault.times = 0
    assert len(rows(hub, tmp_path)) == 6


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("gated", r"is a gated data set.* Accept its terms .* then log in with `hf auth login`"),
        ("private", r"the hub has no such data set\. .*Is it private\? Then log in"),
    ],
)
def test_a_repository_that_asks_for_a_login_says_so(hub, tmp_path, monkeypatch, field, told):
    remote = HubRows("hub:x", XNLI, "de", "main")
    repo = hub.repos["dataset", XNLI]
    monkeypatch.setattr(repo, field, True)
    with pytest.raises(DataError, match=told):
        remote.bring(commit(hub), tmp_path)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert remote.bring(commit(hub), tmp_path) == remote.size(commit(hub), tmp_path) > 5000


def write(folder, data="hub"):
    """Write the grid, whose task may read the phrasebook instead."""
    folder.mkdir(exist_ok=True)
    path = folder / "grid.yaml"
    path.write_text(GRID.replace("data: hub", f"data: {data}"), encoding="utf-8")
    return path


def test_a_fetched_grid_is_whole_without_a_network_and_says_its_size(hub, tmp_path, offline):
    opened = open_grid(write(tmp_path / "a"), storage=str(tmp_path / "s")).resolved(tmp_path / "d")
    lines = list(opened.fetched(tmp_path / "d"))
    names = [f"hub:{OLD_BERT}", "opus:Europarl/v8/de-en"]
    names += [f"hub:{XNLI}/{lang}@main" for lang in ("de", "en")]
    found = [str(remote) for remote in remotes(opened.grid)]
    assert found == [line.split()[2] for line in lines[:-1]] == names
    assert lines[-1].endswith("in all")
    hub.taken()
    assert list(opened.fetched(tmp_path / "d")) == lines
    offline()
    assert list(opened.fetched(tmp_path / "d")) == lines
    assert hub.taken() == []
    assert rows(hub, tmp_path / "d")


def test_each_configuration_of_a_corpus_of_the_hub_is_fetched_though_one_pin_is_for_all(tmp_path):
    path = write(tmp_path)
    corpus = "{source: hub, dataset: a/b, config: '{pivot}-{lang}', split: {test: 8, dev: 8}}"
    told = "{source: opus, corpus: Europarl, split: {test: 8, dev: 8}}"
    text = GRID.replace("{each: [de]}", "{each: [de, fr]}").replace(told, corpus)
    path.write_text(text, encoding="utf-8")
    found = remotes(open_grid(path, storage=str(tmp_path / "s")).grid)
    assert {(str(remote), remote.name) for remote in found if "a/b" in remote.name} == {
        (f"hub:a/b/en-{lang}@main", "hub:a/b@main") for lang in ("de", "fr")
    }


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ("", "bg de en"),
        (", languages: [de]", "de en"),
        (", languages: [de, fr]", "de en fr"),
        (", languages: [fr]", "en fr"),
        (", languages: [fr], setting: translate-train", "bg de en fr"),
    ],
)
def test_of_a_task_with_languages_of_its_own_these_alone_are_fetched(tmp_path, options, read):
    path = write(tmp_path)
    text = GRID.replace("{each: [de]}", "{each: [bg, de]}")
    path.write_text(text.replace("epochs: 1", f"epochs: 1{options}"), encoding="utf-8")
    found = {remote.name for remote in remotes(open_grid(path, storage=str(tmp_path / "s")).grid)}
    names = {f"hub:{OLD_BERT}", *(f"opus:Europarl/v8/{pair}" for pair in ("bg-en", "de-en"))}
    assert found == names | {f"hub:{XNLI}/{lang}@main" for lang in read.split()}


def test_a_branch_that_moves_changes_nothing_until_the_lock_is_updated(hub, tmp_path, monkeypatch):
    path, downloads = write(tmp_path / "a"), tmp_path / "d"
    first = open_grid(path, storage=str(tmp_path / "s")).resolved(downloads)
    repo = hub.repos["dataset", XNLI]
    monkeypatch.setattr(repo, "branches", dict(repo.branches))
    old = repo.branches["main"]
    new = repo.push({**repo.commits[old], "NEWS.md": b"corrected"})
    again = open_grid(path, storage=str(tmp_path / "s")).resolved(downloads)
    assert again.plan == first.plan
    moved, changes = again.updated(downloads)
    step = f"{old[:12]} -> {new[:12]}"
    assert changes == tuple(f"hub:{XNLI}/{lang}@main: {step}" for lang in ("de", "en"))
    assert Lock.load(path).get(f"hub:{XNLI}/de@main") == new
    before, after = (
        {key for trial in opened.plan.trials for key in trial.evaluations.values()}
        for opened in (first, moved)
    )
    assert before.isdisjoint(after)
    assert moved.updated(downloads)[1] == ()


@pytest.mark.parametrize(("pairs", "changed"), [(41, 0.0), (40, 1e10), (41, None)])
def test_a_corpus_that_changes_is_taken_when_the_lock_is_updated_and_other_locks_keep_the_old_one(
    hub, tmp_path, monkeypatch, pairs, changed
):
    """Of another size, of the same one but changed since, and of a server that tells no dates."""
    one, two = (write(tmp_path / name, "phrasebook") for name in "ab")
    downloads = tmp_path / "d"
    first = open_grid(one, storage=str(tmp_path / "s")).resolved(downloads)
    two.with_suffix(".lock").write_bytes(one.with_suffix(".lock").read_bytes())
    old = Lock.load(one).get("opus:Europarl/v8/de-en")
    zipped = europarl_zip("de", pairs)
    zipped = zipped.replace(b"README", b"readme") if pairs == 40 else zipped
    monkeypatch.setitem(hub.opus, ZIP, zipped)
    monkeypatch.setattr(hub, "changed", changed)
    assert open_grid(one, storage=str(tmp_path / "s")).resolved(downloads).plan == first.plan
    moved, changes = first.updated(downloads)
    new = hashlib.sha256(zipped).hexdigest()
    assert changes == (f"opus:Europarl/v8/de-en: {old[:12]} -> {new[:12]}",)
    same = moved.plan.by_key.keys() & first.plan.by_key.keys()
    assert {moved.plan.by_key[key].method for key in same} == {"none"}  # which reads no pairs
    hub.taken()
    inputs = [CorpusInputs({}, downloads, {"Europarl": pin}) for pin in (old, new)]
    assert [len(list(CORPUS.read("de", "en", given))) for given in inputs] == [40, pairs]
    other = open_grid(two, storage=str(tmp_path / "s"))
    assert list(other.fetched(downloads))[1].split()[-1] == old[:12]
    assert not any(path.startswith("/opus/") for _, path, _ in hub.taken())


def test_a_corpus_that_has_not_changed_is_not_fetched_again_when_the_lock_is_updated(hub, tmp_path):
    path = write(tmp_path, "phrasebook")
    opened = open_grid(path, storage=str(tmp_path / "s")).resolved(tmp_path / "d")
    hub.taken()
    assert opened.updated(tmp_path / "d")[1] == ()
    assert [method for method, path, _ in hub.taken() if path.startswith("/opus/")] == ["HEAD"]


def test_a_second_machine_with_the_lock_plans_the_same_and_refuses_other_bytes(
    hub, tmp_path, monkeypatch
):
    one = write(tmp_path / "a")
    first = open_grid(one, storage=str(tmp_path / "s1")).resolved(tmp_path / "d1")
    two = write(tmp_path / "b")
    two.with_suffix(".lock").write_bytes(one.with_suffix(".lock").read_bytes())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache2"))
    second = open_grid(two, storage=str(tmp_path / "s2")).resolved(tmp_path / "d2")
    assert second.plan.by_key.keys() == first.plan.by_key.keys()
    monkeypatch.setitem(hub.opus, ZIP, europarl_zip("de", 41))
    with pytest.raises(DataError, match=r"the SHA-256 is .*, not "):
        list(second.fetched(tmp_path / "d2"))


def test_the_doctor_asks_for_each_remote_name_and_fetches_none(hub, tmp_path, monkeypatch):
    opened = open_grid(write(tmp_path / "a"), storage=str(tmp_path / "s"))
    monkeypatch.setattr(hub.repos["dataset", XNLI], "gated", True)
    size = len(hub.opus[ZIP])
    told = list(opened.answers(tmp_path / "d"))
    assert [line.split()[0] for line in told] == ["ok", "ok", "broken", "broken"]
    assert told[0].startswith(f"ok       hub:{OLD_BERT}: ")
    assert f"opus:Europarl/v8/de-en: {size / 1000:.1f} kB, not pinned yet" in told[1]
    assert "is a gated data set" in told[2]
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert "gated, and you have access" in list(opened.answers(tmp_path / "d"))[3]
    fetched_files = [path for _, path, _ in hub.taken() if ".parquet" in path or "/lfs/" in path]
    assert fetched_files == []


def test_another_error_than_the_hubs_is_not_tried_again(monkeypatch):
    monkeypatch.setattr("time.sleep", pytest.fail)
    calls = []

    def broken():
        calls.append(1)
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        patiently(XNLI, broken)
    assert calls == [1]
