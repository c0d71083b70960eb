"""Encoders of the Hugging Face kind: a local folder or a hub name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, final

from raxalign.corpora.readers.repository import Remote
from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.encoders.models.folder import (
    Footprint,
    check_folder,
    config_depth,
    config_footprint,
    folder_has_head,
    has_head,
    is_causal,
    is_hub_name,
    read_config,
    read_paths,
)
from raxalign.encoders.models.hub import (
    NAMES,
    NO_NAME,
    HubEncoder,
    cached_config,
    fetched_config,
    hub_revision,
)
from raxalign.encoders.models.loading import TextForm
from raxalign.encoders.models.sentence_config import SentenceConfig, files_of
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError, TransientError
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import EncoderName, LocalFile, RemoteData, Source

_HUB = "encoder"
_NONE = "none"


@final
class Transformer(EncoderKind):
    """A multilingual encoder with safetensors weights: a masked LM (mBERT, XLM-R, mDeBERTa), an
    encoder without a masked-LM head (LaBSE, multilingual-e5, BGE-M3), the encoder half of a T5
    (mT5, umT5) or of a translation model (M2M-100, NLLB, mBART; SONAR's text encoder), or a decoder
    (Qwen, Llama, Gemma, Mistral). A folder's identity is the content of its files, a hub name's the
    revision.

    Methods and tasks that predict words require the head. Of a decoder the hidden states are read,
    and a sentence classifier reads its last subword token. Texts of a translation model have the
    token of their own language next to them; `pooling: own` is SONAR's, the mean over all subword
    tokens.

    Data: a folder or a name on the hub.

    Relations: The usual choice; `scratch` pre-trains one of a chosen shape, `static` has no
    context.

    Example:
        encoder:
          - bert-base-multilingual-cased
          - {kind: transformer, name: intfloat/multilingual-e5-small,
             prefix: "query:"}
          - {kind: transformer, name: Qwen/Qwen2.5-0.5B, bidirectional: true}
    """

    VERSION: ClassVar[int] = 2
    papers = (
        *("name=bert-base devlin2019", "name=xlm-r conneau2020", "name=LaBSE feng2022"),
        *("name=SONAR duquenne2023", "name=nllb nllb2022"),
    )
    family: ClassVar[str] = "transformer"
    by_name: ClassVar[bool] = True

    class Params(EncoderKind.Params):
        """A `name` that begins with ``/``, ``./``, ``../`` or ``~``, or that exists next to the
        grid file, is a folder.
        """

        name: EncoderName
        """Folder of the encoder in Hugging Face's form, or its name on the hub."""
        revision: str | None = None
        """Branch, tag or commit of a hub name (none: what the hub has now); a commit pins it, and
        what another one stands for is written into the lock.
        """
        bidirectional: Annotated[bool, LATER] = False
        """Whether each subword token of a decoder sees the whole row, in place of those before it.
        """
        removed: ClassVar = {
            "attention": Removed("leave it out: it is fused where it can be", default="auto")
        }
        normalize: Annotated[TextForm, LATER] = "none"
        """What is done to every text, of corpora and tasks alike, before the tokenizer's own steps:
        nothing, so that it is read as published (`none`), composition to Unicode's form C (`nfc`),
        or composition without joiners and other format characters (`clean`); of an exported encoder
        `AutoModel` does not do it.
        """
        prefix: Annotated[str, LATER] = ""
        """Text that is put, with a space after it, before every sentence whose vector is read with
        `pooling: own`: where the encoder's card asks for one that its folder does not keep as a
        prompt (`"query:"` for multilingual-e5).
        """

        def identity(self) -> dict[str, Any]:
            """Return all options but the revision, which the resolved one replaces."""
            return {name: value for name, value in super().identity().items() if name != "revision"}

    params: Params

    def sources(self) -> Mapping[str, Source]:
        """The files of the folder that are read, or the name. Raises `DataError` for a bad one."""
        if not self._is_folder():
            return {_HUB: self._remote()}
        folder = self._folder()
        check_folder(folder)
        files = [path for depth in ("*", "*/*") for path in folder.glob(depth) if path.is_file()]
        paths = read_paths(path.relative_to(folder).as_posix() for path in files)
        return {path: LocalFile(folder / path) for path in sorted(paths)}

    def fetch(self) -> Mapping[str, str]:
        """The commit that the hub name stands for now; nothing where that is given."""
        remote = self._remote()
        if self._is_folder() or remote.pin:
            return {}
        return {remote.name: hub_revision(self.params.name, self.params.revision)}

    def remotes(self) -> Iterable[Remote]:
        """Return the files of the hub name, if it is one."""
        name, revision = self.params.name, self.params.revision
        return () if self._is_folder() else (HubEncoder(self._remote().name, name, revision),)

    def depth(self, known: Callable[[str], str | None]) -> int | None:
        """The number in the ``config.json`` of the folder, the lock or the local cache."""
        found = self._locked("depth", known)
        if found and found.isdigit():
            return int(found)
        config = self._config(known)
        return None if config is None else config_depth(config)

    def has_head(self, known: Callable[[str], str | None]) -> bool | None:
        """Whether it has a masked-LM head, by the names of the folder's weights; of a hub name by
        the architecture in its config, where that was looked up or is in the hub's local cache.
        """
        if self._is_folder():
            return folder_has_head(self._folder())
        found = self._locked("head", known)
        if found is not None:
            return found != _NONE
        config = self._config(known)
        return None if config is None else has_head(config, None)

    def fetch_config(self, known: Callable[[str], str | None]) -> Mapping[str, str]:
        """What the hub's ``config.json`` has of head and blocks, and whether there is nothing of
        sentence-transformers, by revision; empty for folders.
        """
        name, revision = self.params.name, self._revision(known)
        if revision is None:
            return {}
        config = fetched_config(name, revision, "look up its layers and its head")
        words = {True: "masked-lm", False: _NONE, None: "not recorded"}
        found = {f"head:{name}@{revision}": words[has_head(config, None)]}
        with suppress(TransientError):  # no result depends on it
            if HubEncoder(f"hub:{name}", name, revision).lacks(SentenceConfig.FILE):
                found[f"sentences:{name}@{revision}"] = _NONE
        depth = config_depth(config)
        return found if depth is None else {**found, f"depth:{name}@{revision}": str(depth)}

    def unpooled(self, pooling: str, known: Callable[[str], str | None]) -> Sequence[str]:
        """By the files of the folder or the local cache, and what the lock has."""
        config, name = self._config(known) or {}, self.params.name
        hub = HubEncoder(f"hub:{name}", name, self._revision(known) or self.params.revision)
        file = files_of(self._folder()) if self._is_folder() else hub.cached
        own = SentenceConfig.read(file, config.get("architectures"))
        known_none = self._is_folder() or self._locked("sentences", known) == _NONE
        if self.params.prefix:
            own = own or SentenceConfig()
        elif own is None and pooling == "own" and not known_none:
            return ()
        causal = is_causal(config) and not self.params.bidirectional
        return SentenceConfig.lacking(self.label(), pooling, own, causal=causal)

    def footprint(self, known: Callable[[str], str | None]) -> Footprint | None:
        """By the folder's config and weights; for a hub name by the config in the local cache."""
        config, folder = self._config(known), self._folder() if self._is_folder() else None
        return None if config is None else config_footprint(config, folder)

    def _config(self, known: Callable[[str], str | None]) -> Mapping[str, Any] | None:
        """The config of the folder, or of the hub name in the local cache."""
        if not self._is_folder():
            revision = self._revision(known) or self.params.revision
            return cached_config(self.params.name, revision)
        path = self._folder() / "config.json"
        return read_config(path) if path.is_file() else None

    def _revision(self, known: Callable[[str], str | None]) -> str | None:
        """The revision of a hub name, None for a folder."""
        remote = self._remote()
        return None if self._is_folder() else remote.pin or known(remote.name)

    def _locked(self, what: str, known: Callable[[str], str | None]) -> str | None:
        revision = self._revision(known)
        return known(f"{what}:{self.params.name}@{revision}") if revision else None

    def _is_folder(self) -> bool:
        return Path(self.params.name).is_absolute()

    def _remote(self) -> RemoteData:
        """The hub name, at its branch, tag or commit."""
        return RemoteData(f"hub:{self.params.name}", self.params.revision)

    def check(self) -> list[str]:
        """Return a fault for what is neither a hub name nor an encoder's folder, and for an
        exported encoder with transforms: a grid starts from its weights alone. An encoder that was
        trained and has none is taken.
        """
        if not self._is_folder():
            known = is_hub_name(self.params.name)
            return [] if known else [f"{self.params.name} {NO_NAME}. {NAMES}"]
        record = self._folder() / "transforms.json"
        try:
            if record.exists() and read_config(record).get("transforms", True):
                return [
                    f"{self.params.name} was aligned and has transforms, which a grid would leave"
                    " out; `raxalign evaluate` reads them"
                ]
            check_folder(self._folder())
        except DataError as error:
            return [str(error)]
        return []

    def label(self) -> str:
        """The folder's own name, or the hub name without its owner."""
        return Path(self.params.name).name or self.params.name

    def load(self, inputs: EncoderInputs, device: str) -> TransformerEncoder:
        """The encoder; a hub name is opened at the revision in its key. Raises `RaxalignError`
        for `bidirectional` with what is not a decoder.
        """
        name, revision = str(self._folder()), None
        if not self._is_folder():
            name = self.params.name
            revision = inputs.revisions.get(_HUB) or self.params.revision
        encoder = TransformerEncoder.from_folder(name, revision, device, inputs.base_precision)
        if self.params.bidirectional:
            encoder.inputs.make_bidirectional()
        if self.params.normalize != "none":
            encoder.inputs.set_text_form(self.params.normalize)
        if self.params.prefix:
            own = encoder.sentences or SentenceConfig()
            encoder.sentences = replace(own, prompt=f"{self.params.prefix} ")
        return encoder

    def _folder(self) -> Path:
        return Path(self.params.name)
