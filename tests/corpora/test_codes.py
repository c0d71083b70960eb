"""What corpora and data sets call languages."""

from pathlib import Path

import pytest

from raxalign.config.sources import LocalFile, RemoteData
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.hub import Hub
from raxalign.corpora.moses import Moses
from raxalign.corpora.opus import Opus
from raxalign.corpora.readers import codes
from raxalign.corpora.readers.codes import FLORES, NTREX, hub_code, opus_code, own_code
from raxalign.errors import DataError
from raxalign.languages import is_code, language
from raxalign.tasks.ner import Ner
from raxalign.tasks.pos import Pos
from raxalign.tasks.xnli import Xnli


def test_every_language_of_the_large_sets_has_a_code():
    """Wikipedia's `simple` and `zh-classical` are not tags; `en-x-simple` and `lzh` are read."""
    wikiann, masakhaner = (
        list(codes._OF_DATASETS[name]) for name in ("unimelb-nlp/wikiann", "masakhane/masakhaner2")
    )
    assert [len(listed) for listed in (FLORES, NTREX, wikiann, masakhaner)] == [204, 128, 176, 20]
    refused = [code for code in (*FLORES, *NTREX, *wikiann, *masakhaner) if not is_code(code)]
    assert refused == ["simple", "zh-classical"]


@pytest.mark.parametrize("listed", [FLORES, NTREX])
def test_the_languages_of_a_list_are_different_known_ones(listed: tuple[str, ...]):
    assert len({language(code).tag for code in listed}) == len(listed)
    assert all(language(code).known for code in listed)


def test_a_list_has_its_own_code_for_every_spelling_of_a_language():
    asked = ("de", "deu", "zh-Hant", "zh", "ar", "fa", "en", "pt", "xyz")
    expected = "deu_Latn deu_Latn zho_Hant zho_Hans arb_Arab pes_Arab eng_Latn por_Latn xyz"
    assert [own_code(lang, "flores") for lang in asked] == expected.split()
    asked = ("zh-Hant", "zh", "sr-Latn", "pt-BR", "pt-PT", "en", "en-US", "eng-GB", "fa")
    expected = "zho-TW zho-CN srp-Latn por-BR por eng eng-US eng-GB fas"
    assert [own_code(lang, "ntrex") for lang in asked] == expected.split()


def test_given_codes_are_found_by_language():
    given = {"zh-Hant": "zh_tw", "en": "english"}
    asked = ("zh-Hant", "zho_Hant", "eng_Latn", "zh")
    assert [own_code(lang, given) for lang in asked] == ["zh_tw", "zh_tw", "english", "zh"]


def test_wikiann_is_asked_by_wikipedias_codes():
    wikiann, asked = "unimelb-nlp/wikiann", ("gsw", "lzh", "eng_Latn", "tl", "no", "als", "hau")
    expected = "als zh-classical en tl no als hau"
    assert [hub_code(wikiann, lang, {}) for lang in asked] == expected.split()
    assert hub_code(wikiann, "gsw", {"gsw": "own"}) == "own"
    assert hub_code("my/own", "eng_Latn", {}) == "eng_Latn"


def test_opus_is_asked_by_short_codes():
    asked = ("de", "deu_Latn", "hau", "pt-BR", "zh-CN", "zh-Hant", "tl", "zh_TW")
    expected = "de de ha pt_br zh_cn zh_tw tl zh_tw"
    assert [opus_code(lang, {}) for lang in asked] == expected.split()
    corpus = Opus(Opus.Params(corpus="Tatoeba"))
    (source,) = corpus.sources("hau", "eng_Latn").values()
    assert isinstance(source, RemoteData)
    assert source.name.endswith("/en-ha")


def test_files_are_named_by_a_list_of_codes():
    corpus = Moses(Moses.Params(path="/data/dev", codes="flores"))
    assert corpus.sources("zh-Hant", "en") == {
        "source": LocalFile(Path("/data/dev.zho_Hant")),
        "target": LocalFile(Path("/data/dev.eng_Latn")),
    }


def test_published_trees_have_the_code_of_a_side_inside_of_their_paths(tmp_path):
    names = ["ref.deu", "ref.eng-US", "src.eng", "ref.fra", "ref.fra-CA", "ref.zho-CN"]
    files = {name: tmp_path / f"newstest2019-{name}.txt" for name in names}
    for name, path in files.items():
        path.write_text(f"{name}\n", encoding="utf-8")
    ntrex = Moses(Moses.Params(path=f"{tmp_path}/newstest2019-*.{{side}}.txt", codes="ntrex"))
    for lang, name in (("de", "ref.deu"), ("fra", "ref.fra"), ("zh", "ref.zho-CN")):
        assert ntrex.sources(lang, "en") == {
            "source": LocalFile(files[name]),
            "target": LocalFile(files["src.eng"]),
        }
    places = {name: str(source.path) for name, source in ntrex.sources("de", "en").items()}
    pairs = list(ntrex.read("de", "en", CorpusInputs(places, tmp_path)))
    assert [(pair.source, pair.target) for pair in pairs] == [("ref.deu", "src.eng")]
    flores = Moses(Moses.Params(path="/data/dev/{side}.dev", codes="flores"))
    assert flores.sources("de", "en") == {
        "source": LocalFile(Path("/data/dev/deu_Latn.dev")),
        "target": LocalFile(Path("/data/dev/eng_Latn.dev")),
    }


def test_a_star_next_to_the_code_of_a_side_is_one_file(tmp_path):
    for name in ("a.de", "b.de", "a.en"):
        (tmp_path / f"[1]-{name}.txt").write_text("x\n", encoding="utf-8")
    corpus = Moses(Moses.Params(path=f"{tmp_path}/[1]-*.{{side}}.txt"))
    with pytest.raises(
        DataError, match=r"\*\.de\.txt: is several files: \[1\]-a\.de\.txt, \[1\]-b"
    ):
        corpus.sources("de", "en")
    (tmp_path / "[1]-b.de.txt").unlink()
    assert corpus.sources("de", "en")["source"] == LocalFile(tmp_path / "[1]-a.de.txt")


def test_a_dataset_of_the_hub_is_asked_by_its_codes():
    corpus = Hub(Hub.Params(dataset="some/{lang}", codes={"zh-Hant": "zh_tw"}))
    (source,) = corpus.sources("zh-Hant", "en").values()
    assert isinstance(source, RemoteData)
    assert source.name == "hub:some/zh_tw@main"
    plain = Hub(Hub.Params(dataset="some/{lang}"))
    (source,) = plain.sources("eng_Latn", "de").values()
    assert isinstance(source, RemoteData)
    assert source.name == "hub:some/eng_Latn@main"


def test_tasks_ask_the_hub_by_its_codes_and_files_by_codes_that_are_given():
    assert Ner(Ner.Params()).hub_sets("gsw", "en")["hub"].config == "als"
    assert Xnli(Xnli.Params()).hub_sets("swh_Latn", "en")["hub"].config == "sw"
    assert Pos(Pos.Params()).hub_sets("deu", "en")["hub"].config == "de_gsd"
    files = {"train": "/d/{pivot}/train.txt", "test": "/d/{lang}/test.txt"}
    task = Ner(Ner.Params.model_validate({"data": files, "codes": {"ha": "hau"}}))
    assert task.sources("ha", "en") == {"test": LocalFile(Path("/d/hau/test.txt"))}
