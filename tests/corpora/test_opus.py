import hashlib
import io
import zipfile

import pytest
from pydantic import ValidationError

from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.opus import Opus
from raxalign.corpora.readers import lines
from raxalign.errors import DataError
from raxalign.options.sources import RemoteData, looked_up

NO_NAME = "is not a name that OPUS can have"
EUROPARL = "/OPUS-Europarl/v8/moses/de-en.txt.zip"


def archive(corpus, pair, texts, packed_by=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("README", "text")
        for code, text in texts.items():
            file.writestr(zipfile.ZipInfo(f"{corpus}.{pair}.{code}"), text, packed_by)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def named(server, monkeypatch):
    """The environment names the server as the mirror of OPUS."""
    monkeypatch.setenv("RAXALIGN_OPUS_URL", server.url + "/")


@pytest.fixture
def mirror(server):
    texts = {"de": b"eins\nzwei\n", "en": b"one\ntwo\n"}
    server.files[EUROPARL] = archive("Europarl", "de-en", texts)
    server.files["/OPUS-EUbookshop/v2/moses/de-en.txt.zip"] = archive(
        "EUbookshop", "de-en", {"de": b"drei\n", "en": b"three\n"}
    )
    server.files["/OPUS-Europarl/v8/moses/en-fr.txt.zip"] = archive(
        "Europarl", "en-fr", {"fr": b"un\n", "en": b"one\n"}
    )
    return server


def opus(corpus="Europarl", **params):
    return Opus(Opus.Params(corpus=corpus, **params))


def read(corpus, folder, lang="de", digests=None):
    inputs = CorpusInputs({}, folder, digests or {})
    return list(corpus.read(lang, "en", inputs))


def packed(server, source, target, corpus="Europarl"):
    """The corpus of a server whose one file has these sides."""
    server.files[EUROPARL] = archive(corpus, "de-en", {"de": source, "en": target})
    return opus()


def digest(server, path=EUROPARL):
    return hashlib.sha256(server.files[path]).hexdigest()


def test_a_corpus_is_downloaded_and_read(mirror, tmp_path):
    pairs = [SentencePair(0, "eins", "one"), SentencePair(1, "zwei", "two")]
    assert read(opus(), tmp_path) == pairs
    assert read(opus(), tmp_path, "fr") == [SentencePair(0, "un", "one")]


def test_several_corpora_are_joined_in_order(mirror, tmp_path):
    found = read(opus("Europarl+EUbookshop"), tmp_path)
    assert [(p.id, p.target) for p in found] == [(0, "one"), (1, "two"), (2, "three")]


def test_fetch_tells_digests_and_read_uses_what_was_fetched(mirror, tmp_path):
    corpus = opus("Europarl+EUbookshop")
    fetched = looked_up(corpus.sources("de", "en"), tmp_path)
    assert fetched == {
        "opus:Europarl/v8/de-en": digest(mirror),
        "opus:EUbookshop/v2/de-en": digest(mirror, "/OPUS-EUbookshop/v2/moses/de-en.txt.zip"),
    }
    mirror.files.clear()
    assert len(read(corpus, tmp_path)) == 3


def test_sources_are_named_by_corpus_version_and_pair(mirror):
    corpus = opus("Europarl+EUbookshop", sha256={"Europarl": "AB" * 32})
    assert corpus.sources("de", "en") == {
        "Europarl": RemoteData("opus:Europarl/v8/de-en", "ab" * 32),
        "EUbookshop": RemoteData("opus:EUbookshop/v2/de-en", None),
    }
    assert opus().sources("zh", "en")["Europarl"].name == "opus:Europarl/v8/en-zh"
    coded = opus("OpenSubtitles", codes={"zh": "zh_cn"}).sources("zh", "en")
    assert coded["OpenSubtitles"].name == "opus:OpenSubtitles/v2018/en-zh_cn"


def test_a_file_that_is_not_the_one_of_the_plan_or_of_the_pin_is_refused(mirror, tmp_path):
    def found(pin=None, digests=None):
        pinned = {"sha256": pin} if pin else {}
        return read(Opus(Opus.Params(corpus="Europarl", **pinned)), tmp_path, digests=digests)

    unresolved = {"Europarl": "unresolved:opus:Europarl/v8/de-en"}
    for wrong in ({"pin": "0" * 64}, {"digests": {"Europarl": "0" * 64}}):
        with pytest.raises(DataError, match="the SHA-256 is"):
            found(**wrong)
    for right in ({"Europarl": digest(mirror)}, unresolved):
        assert len(found(digests=right)) == 2
    assert len(found(digest(mirror))) == 2


def test_a_mirror_may_be_a_folder(mirror, tmp_path, monkeypatch):
    for path, content in mirror.files.items():
        local = tmp_path / "mirror" / path.lstrip("/")
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(content)
    monkeypatch.setenv("RAXALIGN_OPUS_URL", str(tmp_path / "mirror"))
    corpus = opus()
    fetched = looked_up(corpus.sources("de", "en"), tmp_path / "downloads")
    assert fetched == {"opus:Europarl/v8/de-en": digest(mirror)}
    assert len(read(corpus, tmp_path / "downloads")) == 2
    assert not (tmp_path / "downloads").exists()
    with pytest.raises(DataError, match="no such file in the local mirror"):
        read(corpus, tmp_path, "ur")


def test_bad_lines_missing_members_and_pairs_that_opus_does_not_have_are_told(server, tmp_path):
    bad = packed(server, b"a\nb\xff\n", b"x\ny\n")
    with pytest.raises(DataError, match=r"de-en\.txt\.zip/Europarl\.de-en\.de:2: invalid UTF-8"):
        read(bad, tmp_path)
    server.files["/OPUS-OpenSubtitles/v2018/moses/en-zh.txt.zip"] = archive(
        "OpenSubtitles", "en-zh_cn", {"zh_cn": b"a\n", "en": b"x\n"}
    )
    told = r"has no OpenSubtitles\.en-zh\.zh; it has README, .*`codes`"
    with pytest.raises(DataError, match=told):
        read(opus("OpenSubtitles"), tmp_path, "zh")
    told = rf"{server.url}/OPUS-Europarl/v8/moses/en-ur\.txt\.zip.*404"
    with pytest.raises(DataError, match=told):
        looked_up(opus().sources("ur", "en"), tmp_path)


def test_a_damaged_zip_file_is_a_data_error(mirror, tmp_path):
    text = b"".join(b"line %d\n" % i for i in range(3000))
    whole = archive("Europarl", "de-en", {"de": text, "en": text})
    damaged = (whole[:-30], whole[:2000] + b"\xff" * 50 + whole[2050:], b"<html>")
    for number, mirror.files[EUROPARL] in enumerate(damaged):
        with pytest.raises(DataError, match="de-en"):
            read(opus(), tmp_path / str(number))


def test_a_zip_file_that_grows_as_no_text_does_is_refused_before_it_is_read(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr(lines, "_SLACK", 1 << 20)
    blank = dict.fromkeys(("de", "en"), b"\n" * 9000000)
    server.files[EUROPARL] = archive("Europarl", "de-en", blank, zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match=r"zip/Europarl.de-en.de: unpacks from 0.0 MB to 9 MB"):
        read(opus(), tmp_path)


def test_pins_are_no_part_of_the_identity():
    params = Opus.Params(corpus="Europarl")
    pins = ({"sha256": "0" * 64}, {"version": "v8"}, {"version": {"Europarl": "v8"}})
    for other in pins:
        assert Opus.Params(corpus="Europarl", **other).identity() == params.identity()
    assert Opus.Params(corpus="Europarl", version="v7").identity() != params.identity()
    assert Opus.Params.model_validate_json(params.model_dump_json(by_alias=True)) == params


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"corpus": "Unheard"}, "give the `version` of Unheard"),
        ({"corpus": "Europarl+Unheard"}, "give the `version` of Unheard"),
        ({"corpus": "Europarl+QED", "version": "v1"}, "as a mapping by corpus"),
        ({"corpus": "Europarl", "sha256": {"QED": "0"}}, "which `corpus` does not name"),
        ({"corpus": "../..", "version": "v1"}, NO_NAME),
        ({"corpus": "Europarl", "version": "../v8"}, NO_NAME),
        ({"corpus": "/etc", "version": "v1"}, NO_NAME),
        ({"corpus": "Europarl", "codes": {"de": "de/.."}}, NO_NAME),
        ({"corpus": "Europarl\x1b[2J", "version": "v1"}, NO_NAME),
    ],
)
def test_faulty_params_are_refused(params, told):
    with pytest.raises(ValidationError, match=told):
        Opus.Params(**params)
