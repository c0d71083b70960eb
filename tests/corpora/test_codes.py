"""What corpora and data sets call languages."""

from pathlib import Path

import pytest

from raxalign.corpora.hub import Hub
from raxalign.corpora.moses import Moses
from raxalign.corpora.opus import Opus, opus_code
from raxalign.corpora.readers.codes import hub_code, lists, own_code
from raxalign.errors import DataError
from raxalign.languages import is_code, language
from raxalign.options.sources import LocalFile
from raxalign.tasks.ner import Ner
from raxalign.tasks.pos import Pos
from raxalign.tasks.xnli import Xnli
from tests.corpora.places import placed


def test_every_language_of_the_large_sets_has_a_code_and_is_a_different_known_one():
    """Wikipedia's `simple` and `zh-classical` are not tags; `en-x-simple` and `lzh` are read."""
    names = ("flores", "ntrex", "unimelb-nlp/wikiann", "masakhane/masakhaner2", "Davlan/sib200")
    large = [list(lists()[name]) for name in names]
    assert [len(listed) for listed in large] == [204, 128, 176, 20, 205]
    refused = [code for listed in large for code in listed if not is_code(code)]
    assert refused == ["simple", "zh-classical"]
    for listed in large[:2]:
        assert len({language(code).tag for code in listed}) == len(listed)
        assert all(language(code).known for code in listed)


def test_a_list_has_its_own_code_for_every_spelling_of_a_language():
    asked = ("de", "deu", "zh-Hant", "zh", "ar", "fa", "en", "pt", "xyz")
    expected = "deu_Latn deu_Latn zho_Hant zho_Hans arb_Arab pes_Arab eng_Latn por_Latn xyz"
    assert [own_code(lang, "flores") for lang in asked] == expected.split()
    asked = ("zh-Hant", "zh", "sr-Latn", "pt-BR", "pt-PT", "en", "en-US", "eng-GB", "fa")
    expected = "zho-TW zho-CN srp-Latn por-BR por eng eng-US eng-GB fas"
    assert [own_code(lang, "ntrex") for lang in asked] == expected.split()
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
    (source,) = Opus(Opus.Params(corpus="Tatoeba")).sources("hau", "eng_Latn").values()
    assert source.name.endswith("/en-ha")


def test_published_trees_have_the_code_of_a_side_inside_of_their_paths(tmp_path):
    names = ["ref.deu", "ref.eng-US", "src.eng", "ref.fra", "ref.fra-CA", "ref.zho-CN"]
    files = {name: tmp_path / f"newstest2019-{name}.txt" for name in names}
    for name, path in files.items():
        path.write_text(f"{name}\n", encoding="utf-8")
    ntrex = Moses(Moses.Params(path=f"{tmp_path}/newstest2019-*.{{side}}.txt", codes="ntrex"))
    for lang, name in (("de", "ref.deu"), ("fra", "ref.fra"), ("zh", "ref.zho-CN")):
        source, target = (LocalFile(files[part]) for part in (name, "src.eng"))
        assert ntrex.sources(lang, "en") == {"source": source, "target": target}
    (pair,) = ntrex.read("de", "en", placed(ntrex, tmp_path)[1])
    assert (pair.source, pair.target) == ("ref.deu", "src.eng")
    for path, own, english in (
        ("/data/dev/{side}.dev", "/data/dev/zho_Hant.dev", "/data/dev/eng_Latn.dev"),
        ("/data/dev", "/data/dev.zho_Hant", "/data/dev.eng_Latn"),
    ):
        flores = Moses(Moses.Params(path=path, codes="flores")).sources("zh-Hant", "en")
        assert [source.path for source in flores.values()] == [Path(own), Path(english)]


def test_a_star_next_to_the_code_of_a_side_is_one_file(tmp_path):
    for name in ("a.de", "b.de", "a.en"):
        (tmp_path / f"[1]-{name}.txt").write_text("x\n", encoding="utf-8")
    corpus = Moses(Moses.Params(path=f"{tmp_path}/[1]-*.{{side}}.txt"))
    told = r"\*\.de\.txt: is several files: \[1\]-a\.de\.txt, \[1\]-b"
    with pytest.raises(DataError, match=told):
        corpus.sources("de", "en")
    (tmp_path / "[1]-b.de.txt").unlink()
    assert corpus.sources("de", "en")["source"] == LocalFile(tmp_path / "[1]-a.de.txt")


def test_a_dataset_of_the_hub_is_asked_by_its_codes():
    for codes_, pair, name in (
        ({"zh-Hant": "zh_tw"}, ("zh-Hant", "en"), "hub:some/zh_tw@main"),
        ({}, ("eng_Latn", "de"), "hub:some/eng_Latn@main"),
    ):
        (source,) = Hub(Hub.Params(dataset="some/{lang}", codes=codes_)).sources(*pair).values()
        assert source.name == name


def test_tasks_ask_the_hub_by_its_codes_and_files_by_codes_that_are_given():
    assert Ner(Ner.Params()).hub_sets("gsw", "en")["hub"].config == "als"
    assert Xnli(Xnli.Params()).hub_sets("swh_Latn", "en")["hub"].config == "sw"
    assert Pos(Pos.Params()).hub_sets("deu", "en")["hub"].config == "de_gsd"
    files = {"train": "/d/{pivot}/train.txt", "test": "/d/{lang}/test.txt"}
    task = Ner(Ner.Params.model_validate({"data": files, "codes": {"ha": "hau"}}))
    assert task.sources("ha", "en") == {"test": LocalFile(Path("/d/hau/test.txt"))}
