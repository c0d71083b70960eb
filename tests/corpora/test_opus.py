from __future__ import annotations

import hashlib
import io
import zipfile

import pytest
from pydantic import ValidationError

from raxalign.config.sources import RemoteData
from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.opus import Opus
from raxalign.corpora.readers import lines
from raxalign.corpora.text.bitext import BitextOptions, SplitCorpus, write_training
from raxalign.corpora.text.dataset import read_table
from raxalign.errors import DataError, TransientError


def archive(
    corpus: str, pair: str, texts: dict[str, bytes], packed_by: int = zipfile.ZIP_STORED
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("README", "text")
        for code, text in texts.items():
            file.writestr(zipfile.ZipInfo(f"{corpus}.{pair}.{code}"), text, packed_by)
    return buffer.getvalue()


@pytest.fixture
def mirror(server):
    server.files["/OPUS-Europarl/v8/moses/de-en.txt.zip"] = archive(
        "Europarl", "de-en", {"de": b"eins\nzwei\n", "en": b"one\ntwo\n"}
    )
    server.files["/OPUS-EUbookshop/v2/moses/de-en.txt.zip"] = archive(
        "EUbookshop", "de-en", {"de": b"drei\n", "en": b"three\n"}
    )
    server.files["/OPUS-Europarl/v8/moses/en-fr.txt.zip"] = archive(
        "Europarl", "en-fr", {"fr": b"un\n", "en": b"one\n"}
    )
    return server


def opus(server, corpus="Europarl", **params):
    return Opus(Opus.Params(corpus=corpus, base_url=server.url, **params))


def read(corpus, folder, lang="de", digests=None):
    inputs = CorpusInputs({}, folder, digests or {})
    return list(corpus.read(lang, "en", inputs))


NO_NAME = "is not a name that OPUS can have"
EUROPARL = "/OPUS-Europarl/v8/moses/de-en.txt.zip"


def packed(server, source, target, corpus="Europarl"):
    """The corpus of a server whose one file has these sides."""
    server.files[EUROPARL] = archive(corpus, "de-en", {"de": source, "en": target})
    return opus(server)


def digest(server, path=EUROPARL):
    return hashlib.sha256(server.files[path]).hexdigest()


def test_a_corpus_is_downloaded_and_read(mirror, tmp_path):
    assert read(opus(mirror), tmp_path) == [
        SentencePair(0, "eins", "one"),
        SentencePair(1, "zwei", "two"),
    ]
    assert read(opus(mirror), tmp_path, "fr") == [SentencePair(0, "un", "one")]


def test_several_corpora_are_joined_in_order(mirror, tmp_path):
    found = read(opus(mirror, "Europarl+EUbookshop"), tmp_path)
    assert [(p.id, p.target) for p in found] == [(0, "one"), (1, "two"), (2, "three")]
    turned = read(opus(mirror, "EUbookshop+Europarl"), tmp_path)
    assert [p.target for p in turned] == ["three", "one", "two"]


def test_fetch_tells_digests_and_read_uses_what_was_fetched(mirror, tmp_path):
    corpus = opus(mirror, "Europarl+EUbookshop")
    fetched = corpus.fetch("de", "en", tmp_path)
    assert fetched == {
        "opus:Europarl/v8/de-en": digest(mirror),
        "opus:EUbookshop/v2/de-en": digest(mirror, "/OPUS-EUbookshop/v2/moses/de-en.txt.zip"),
    }
    mirror.files.clear()
    assert len(read(corpus, tmp_path)) == 3


def test_sources_are_named_by_corpus_version_and_pair(mirror):
    corpus = opus(mirror, "Europarl+EUbookshop", sha256={"Europarl": "AB" * 32})
    assert corpus.sources("de", "en") == {
        "Europarl": RemoteData("opus:Europarl/v8/de-en", "ab" * 32),
        "EUbookshop": RemoteData("opus:EUbookshop/v2/de-en", None),
    }
    assert opus(mirror).sources("zh", "en")["Europarl"].name == "opus:Europarl/v8/en-zh"
    coded = opus(mirror, "OpenSubtitles", codes={"zh": "zh_cn"}).sources("zh", "en")
    assert coded["OpenSubtitles"].name == "opus:OpenSubtitles/v2018/en-zh_cn"


def test_a_cut_connection_is_resumed(mirror, tmp_path):
    mirror.cuts = [100, 50]
    assert len(read(opus(mirror), tmp_path)) == 2
    assert [wanted for _, wanted in mirror.requests] == [None, "bytes=100-", "bytes=150-"]


def test_a_wrong_pin_is_refused(mirror, tmp_path):
    for _ in range(2):
        with pytest.raises(DataError, match="the SHA-256 is"):
            read(opus(mirror, sha256="0" * 64), tmp_path)
    assert len(read(opus(mirror, sha256=digest(mirror)), tmp_path)) == 2


def test_a_file_that_is_not_the_one_of_the_plan_is_refused(mirror, tmp_path):
    assert len(read(opus(mirror), tmp_path, digests={"Europarl": digest(mirror)})) == 2
    unresolved = {"Europarl": "unresolved:opus:Europarl/v8/de-en"}
    assert len(read(opus(mirror), tmp_path, digests=unresolved)) == 2
    with pytest.raises(DataError, match="the SHA-256 is"):
        read(opus(mirror), tmp_path, digests={"Europarl": "0" * 64})


def test_what_opus_does_not_have_is_told_with_its_url(mirror, tmp_path):
    told = rf"{mirror.url}/OPUS-Europarl/v8/moses/en-ur\.txt\.zip.*404"
    with pytest.raises(DataError, match=told):
        opus(mirror).fetch("ur", "en", tmp_path)


def test_no_network_is_a_transient_error(tmp_path, monkeypatch):
    monkeypatch.setenv("RAXALIGN_OPUS_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("raxalign.corpora.readers.download.time.sleep", lambda seconds: None)
    with pytest.raises(TransientError, match="127"):
        Opus(Opus.Params(corpus="Europarl")).fetch("de", "en", tmp_path)


def test_the_environment_names_a_mirror(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("RAXALIGN_OPUS_URL", mirror.url + "/")
    assert len(read(Opus(Opus.Params(corpus="Europarl")), tmp_path)) == 2


def test_a_mirror_may_be_a_folder(mirror, tmp_path):
    for path, content in mirror.files.items():
        local = tmp_path / "mirror" / path.lstrip("/")
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(content)
    corpus = Opus(Opus.Params(corpus="Europarl", base_url=str(tmp_path / "mirror")))
    assert corpus.fetch("de", "en", tmp_path / "downloads") == {
        "opus:Europarl/v8/de-en": digest(mirror)
    }
    assert len(read(corpus, tmp_path / "downloads")) == 2
    assert not (tmp_path / "downloads").exists()
    with pytest.raises(DataError, match="no such file in the local mirror"):
        read(corpus, tmp_path, "ur")


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        (b"a\nb\xff\n", b"x\ny\n", r"de-en\.txt\.zip/Europarl\.de-en\.de:2: invalid UTF-8"),
        (b"a\nb\n", b"x\n", r"2 lines.*1"),
    ],
)
def test_bad_lines_and_different_line_counts_are_told(server, tmp_path, source, target, told):
    with pytest.raises(DataError, match=told):
        read(packed(server, source, target), tmp_path)


def test_a_missing_member_is_told(server, tmp_path):
    server.files["/OPUS-OpenSubtitles/v2018/moses/en-zh.txt.zip"] = archive(
        "OpenSubtitles", "en-zh_cn", {"zh_cn": b"a\n", "en": b"x\n"}
    )
    told = r"has no OpenSubtitles\.en-zh\.zh; it has README, .*`codes`"
    with pytest.raises(DataError, match=told):
        read(opus(server, "OpenSubtitles"), tmp_path, "zh")


def changed_in_the_middle(content):
    return content[:2000] + b"\xff" * 50 + content[2050:]


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-30], changed_in_the_middle, lambda content: b"<html>"]
)
def test_a_damaged_zip_file_is_a_data_error(mirror, tmp_path, damage):
    text = b"".join(b"line %d\n" % i for i in range(3000))
    mirror.files[EUROPARL] = damage(archive("Europarl", "de-en", {"de": text, "en": text}))
    with pytest.raises(DataError, match="de-en"):
        read(opus(mirror), tmp_path)


def test_a_zip_file_that_grows_as_no_text_does_is_refused_before_it_is_read(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr(lines, "_LONGEST", 1 << 20)
    blank = dict.fromkeys(("de", "en"), b"\n" * 9000000)
    server.files[EUROPARL] = archive("Europarl", "de-en", blank, zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match=r"zip/Europarl.de-en.de: unpacks from 0.0 MB to 9 MB"):
        read(opus(server), tmp_path)


def test_where_it_comes_from_and_pins_are_no_part_of_the_identity(mirror):
    params = Opus.Params(corpus="Europarl")
    for other in (
        {"base_url": "http://x"},
        {"sha256": "0" * 64},
        {"version": "v8"},
        {"version": {"Europarl": "v8"}},
    ):
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
        ({"corpus": "Europarl", "base_url": "ftp://x"}, "neither http"),
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


def test_bitext_is_made_of_a_download(mirror, tmp_path):
    inputs = CorpusInputs({"Europarl": "opus:Europarl/v8/de-en"}, tmp_path / "downloads")
    source = SplitCorpus(opus(mirror), inputs, "de", "en", (1, 0))
    write_training(source, 1, BitextOptions(), tmp_path)
    (row,) = read_table(tmp_path / "data").to_pylist()
    assert (row["id"], row["src"], row["tgt"]) == (0, ["eins"], ["one"])
