"""mteb's own tasks on aligned encoders: which languages texts are read in, what each example
scores, and what is reported before anything runs.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import DataError, GridError, RaxalignError
from raxalign.grid.load import open_grid
from raxalign.measured import Measured
from raxalign.options.sources import LocalFile, RemoteData
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.mteb import Mteb
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from raxalign.tasks.vectors.pairs import SentenceFiles
from raxalign.train.runtime import Runtime
from tests.grids import write_grid
from tests.tasks.outcomes import evaluated, values
from tests.tasks.own_mteb_texts import ENGLISH, GERMAN

OWN = str(Path(__file__).with_name("own_mteb_tasks.py"))
WORDS = sorted({word for text in (*GERMAN, *ENGLISH) for word in text.split()})


def made(*names, **options):
    return Mteb(Mteb.Params(tasks=names, **{"definitions": OWN, **options}))


@pytest.fixture(scope="module")
def encoder(tiny):
    return tiny(WORDS, layers=1, hidden=8)


def shifted(encoder):
    """German is turned, so that which side is read as German matters."""
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(1)))[0]
    shift = torch.arange(8.0) / 4
    return AlignedEncoder(encoder, (Transform("de", 1, steps=(Affine(weight=turn, shift=shift),)),))


def copy_of_ntrex(folder):
    """A local copy of the data set, in the layout of the hub, as `data` names it."""
    rows = Dataset.from_dict({"deu_Latn": GERMAN, "eng_Latn": ENGLISH})
    rows.to_parquet(folder / "ntrex" / "data" / "test-00000-of-00001.parquet")
    return {"NTREXBitextMining": str(folder / "ntrex")}


def retrieval(aligned, folder):
    """What sentence_retrieval finds for the same pairs."""
    for code, texts in (("de", GERMAN), ("en", ENGLISH)):
        (folder / f"test.{code}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    files = SentenceFiles(test=f"{folder}/test")
    task = SentenceRetrieval(SentenceRetrieval.Params(data=files))
    given = {name: {"de": s.path} for name, s in files.sources("de", "en").items()}
    return values(evaluated(task, aligned, files=given))


@pytest.mark.parametrize("turned", [False, True])
def test_a_pair_is_read_in_its_languages_whichever_column_comes_first(encoder, turned, tmp_path):
    aligned = shifted(encoder) if turned else AlignedEncoder(encoder)
    ours = retrieval(aligned, tmp_path)
    found = values(evaluated(made("OwnPairs"), aligned), "de")
    assert found["main_score"] == pytest.approx(ours["accuracy_to_pivot"], abs=1e-6)
    assert found["main_score"] == found["main_score_to_pivot"]
    both = evaluated(made("NTREXBitextMining", data=copy_of_ntrex(tmp_path)), aligned)
    reported = both.notes["de"]["NTREXBitextMining"]
    for pair, way in (("deu_Latn-eng_Latn", "to_pivot"), ("eng_Latn-deu_Latn", "from_pivot")):
        accuracy = reported[f"{pair} test"]["accuracy"]
        assert accuracy == pytest.approx(ours[f"accuracy_{way}"], abs=1e-6)
        assert reported[f"{pair} test"]["f1"] == values(both, "de")[f"main_score_{way}"]


def rows_of(outcome, **chosen):
    rows = outcome.predictions.to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in chosen.items())]


def test_tasks_weigh_the_same_whatever_the_number_of_their_subsets(encoder, tmp_path):
    task = made("NTREXBitextMining", "OwnTopics", data=copy_of_ntrex(tmp_path))
    outcome = evaluated(task, shifted(encoder))
    found = values(outcome, "de")
    parts = [found[f"main_score_of_{name}"] for name in ("NTREXBitextMining", "OwnTopics")]
    assert found["main_score"] == pytest.approx(np.mean(parts))
    sample = Measured.find(Mteb.metrics, "main_score").sample(outcome.predictions, "main_score")
    assert sample.value == pytest.approx(found["main_score"], abs=1e-9)
    assert len(sample.units) == 10  # five rows of each task, in whichever direction
    topics = rows_of(outcome, task="OwnTopics")
    assert {row["score"] for row in topics} <= {0.0, 0.5, 1.0}  # a mean over two classifiers
    assert {row["subset"] for row in topics} == {"de test"}


def test_f1_of_an_example_is_less_where_others_find_the_same_sentence(encoder, tmp_path):
    task = made("NTREXBitextMining", data=copy_of_ntrex(tmp_path))
    outcome = evaluated(task, AlignedEncoder(encoder))
    got = [row["score"] for row in rows_of(outcome, subset="deu_Latn-eng_Latn test")]
    german, english = vectors_of(encoder, GERMAN, "de"), vectors_of(encoder, ENGLISH, "en")
    nearest = (german @ english.T).argmax(1)
    expected = [
        2 / (1 + (nearest == place).sum()) if place == row else 0.0
        for row, place in enumerate(nearest)
    ]
    assert got == pytest.approx(expected)


def vectors_of(encoder, texts, code):
    """Means over all pieces of the last layer, of length 1."""
    means = []
    for text in texts:
        batch = encoder.collate(encoder.pieces([text.split()], code))
        mean = encoder.hidden(batch)[-1][0].mean(0).detach().numpy()
        means.append(mean / np.linalg.norm(mean))
    return np.array(means)


def test_a_task_without_scores_per_example_has_its_value_and_no_sample(encoder):
    task = made("OwnGroups", "OwnPairs")
    given = TaskInputs("en"), Runtime(), None
    outcome = Mteb.evaluate.__wrapped__(task, AlignedEncoder(encoder), ("de",), *given)
    assert 0 <= values(outcome, "de")["main_score_of_OwnGroups"] <= 1
    sampled = dict.fromkeys(("main_score", "main_score_of_OwnGroups", "main_score_of_OwnPairs"))
    for name in sampled:
        sampled[name] = Measured.find(Mteb.metrics, name).sample(outcome.predictions, name)
    assert [sample is not None for sample in sampled.values()] == [False, False, True]


def test_sides_with_the_same_texts_have_no_known_language(encoder):
    told = r"OwnMirror: both sides of de-en .*: leave the task out"
    with pytest.raises(RaxalignError, match=told):
        evaluated(made("OwnMirror"), AlignedEncoder(encoder))


def test_nothing_of_mteb_is_printed(encoder, capfd):
    evaluated(made("OwnPairs"), AlignedEncoder(encoder))
    assert capfd.readouterr() == ("", "")


def test_identity_has_the_version_of_mteb_and_what_is_read(tmp_path):
    ntrex = copy_of_ntrex(tmp_path)
    task = made("NTREXBitextMining", "OwnPairs", "Tatoeba", data=ntrex)
    assert str(task.canonical()["mteb"]).startswith("2.")
    assert "definitions" not in task.canonical()
    sources = task.sources("de", "en")
    assert sources["definitions"] == LocalFile(Path(OWN))
    (name,) = (key for key in sources if key.startswith("NTREXBitextMining/"))
    assert name.endswith("test-00000-of-00001.parquet")
    remote = sources["Tatoeba"]
    assert isinstance(remote, RemoteData)
    assert len(remote.pin) == 40


FAULTS = {
    "tasks: [NTREXBitexMining]": r"NTREXBitexMining: mteb 2\.\S+ has no task of this name; did you"
    " mean NTREXBitextMining",
    "tasks: [STS12]": "STS12 is of mteb's type STS; the types that are evaluated are BitextMining,",
    "tasks: [CIFAR10]": "CIFAR10 is of mteb's type ImageClassification; the types",
    "tasks: [AlloProfClusteringP2P.v2]": "has no subset of de; its subsets are default",
    "tasks: [BUCC.v2], languages: [ha]": "BUCC.v2 has no subset of ha with en; its subsets are"
    " de-en, fr-en, ru-en, zh-en",
    "tasks: [STS12, BUCC.v2], data: {BUCC: x}": "BUCC: is not among `tasks`",
}


@pytest.mark.parametrize("options", FAULTS)
def test_a_choice_of_tasks_that_cannot_be_is_told_with_its_line(options, tmp_path):
    path = write_grid(tmp_path, languages="{each: [de]}", tasks=(f"mteb: {{{options}}}",))
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "mteb:" in text)
    with pytest.raises(GridError, match=rf"line {line}: tasks.mteb: .*{FAULTS[options]}"):
        open_grid(path)


def test_a_file_without_tasks_and_one_that_does_not_run_are_told(tmp_path):
    (tmp_path / "none.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "bad.py").write_text("import no_such_module\n", encoding="utf-8")
    for name, told in (("none.py", "defines no task"), ("bad.py", "no_such_module")):
        with pytest.raises(DataError, match=rf"{name}(:1)?: .*{told}"):
            made("OwnPairs", definitions=str(tmp_path / name)).check(("de",), "en")


def test_without_mteb_the_message_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("raxalign.extras.find_spec", lambda name: None)
    lacks = "tasks: the library mteb is not installed. Run: pip install 'raxalign[mteb]'"
    assert made("OwnPairs").check(("de",), "en") == [lacks]
