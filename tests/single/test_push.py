"""Exports on the hub: pushed to one on this machine by the hub's own client, and downloaded."""

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError, TransientError
from raxalign.single.export import push, refuse_unready
from tests.single.loopback_hub import TOKEN, hub_in_use
from tests.tiny import tiny_bert


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub to which the user is logged in."""
    with hub_in_use(tmp_path / "cache", monkeypatch) as server:
        # large files by git-lfs, which the hub takes as well: Xet has servers of its own
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


@pytest.fixture
def folder(tmp_path):
    """An export with a transform."""
    files = tiny_bert(tmp_path / "tiny", ["ein", "Haus"], layers=1, hidden=8)
    encoder = TransformerEncoder.from_folder(files)
    transform = Transform("de", 1, steps=(Affine(shift=torch.full((8,), 1.0)),))
    AlignedEncoder(encoder, (transform,)).export(tmp_path / "export")
    card = tmp_path / "export" / "README.md"
    card.write_text("---\nlanguage: de\n---\n", encoding="utf-8")
    return tmp_path / "export"


def test_a_pushed_export_is_downloaded_with_its_transforms(folder, hub):
    from huggingface_hub import snapshot_download

    assert push(folder, "me/aligned") == f"{hub.url}/me/aligned"
    assert hub.large, "weights go as large files"
    assert hub.private == set()
    again = AlignedEncoder.from_export(snapshot_download("me/aligned"))
    here = AlignedEncoder.from_export(folder)
    found, expected = (one.words([["ein", "Haus"]], "de").vectors_NLH for one in (again, here))
    assert torch.equal(found, expected)


def test_a_repository_becomes_the_same_as_the_export(folder, hub):
    push(folder, "me/aligned", private=True)
    assert hub.private == {"me/aligned"}
    hub.repositories["me/aligned"]["of-an-earlier-export.json"] = b"{}"
    push(folder, "me/aligned")
    paths = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert hub.repositories["me/aligned"].keys() == {".gitattributes", *paths}


def test_a_repository_with_something_else_is_left_as_it_is(folder, hub):
    hub.repositories["me/other"] = {"weights.bin": b"of another"}
    with pytest.raises(RaxalignError, match=r"something else .*weights\.bin.*Give another name"):
        push(folder, "me/other")
    assert hub.repositories["me/other"] == {"weights.bin": b"of another"}


def test_who_is_not_logged_in_is_told_before_the_export(hub, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(RaxalignError, match=r"not logged in to the hub. Log in with `hf auth"):
        refuse_unready("me/aligned")
    with pytest.raises(RaxalignError, match=r"--push a/b/c: is not a name on the hub"):
        refuse_unready("a/b/c")


def test_a_token_that_may_not_write_is_refused_with_the_place_of_the_export(
    folder, hub, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    refuse_unready("me/aligned")
    with pytest.raises(RaxalignError, match=r"the hub refuses .* `hf upload me/aligned .*export`"):
        push(folder, "me/aligned")


def test_a_hub_that_cannot_be_reached_is_a_transient_error(folder, hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(TransientError, match=r"does not answer .* Try again; the export is in"):
        push(folder, "me/aligned")
