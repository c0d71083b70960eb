"""Opening Hugging Face folders and hub names: safetensors only, no foreign code, and errors with a
remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raxalign.encoders.models.decoders import is_decoder
from raxalign.errors import DataError, RaxalignError, TransientError

NO_NAME = "is neither a folder nor a name on the Hugging Face Hub"
NAMES = "A folder exists or begins with ./, ../, / or ~; a hub name is `name` or `owner/name`"


def is_hub_name(name: str) -> bool:
    """Whether a name can be one on the hub: ``name`` or ``owner/name`` of letters, digits, ``-``,
    ``_`` and ``.``.
    """
    return (
        len(name) <= 96
        and re.fullmatch(r"(\w[\w.-]*/)?\w[\w.-]*", name, re.ASCII) is not None
        and ".." not in name
        and "--" not in name
    )


def looks_like_path(name: str) -> bool:
    """Whether an encoder's name is a folder rather than a hub name: it begins with ``/``, ``./``,
    ``../`` or ``~``, or exists.
    """
    return (
        name.startswith(("/", "./", "../", "~", "\\"))
        or Path(name).is_absolute()
        or Path(name).is_dir()
    )


def load_masked_lm(name: str, revision: str | None = None) -> tuple[Any, Any]:
    """(model, tokenizer) of a folder or hub name, float32, on the CPU, in eval mode. A decoder's
    model is its base model, without a head.

    Raises:
        DataError: the folder is not there or is not a whole masked LM with safetensors, or model
            and tokenizer do not fit.
        TransientError: the hub does not answer.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoTokenizer

    if looks_like_path(name):
        name = str(Path(name).expanduser())
        check_folder(Path(name))
    with _quiet(), _explained(name):
        import torch

        options = {"revision": revision, "trust_remote_code": False}
        decoder = is_decoder(AutoConfig.from_pretrained(name, **options))
        opener = AutoModel if decoder else AutoModelForMaskedLM
        model, info = opener.from_pretrained(
            name,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation=None if decoder else "sdpa",  # not every decoder has sdpa
            output_loading_info=True,
            **options,
        )
        tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, **options)
    _check_whole(name, info["missing_keys"])
    _check_fit(name, model, tokenizer)
    _own_weights(name, model)
    return model.eval(), tokenizer


def _check_whole(name: str, missing_keys: Iterable[str]) -> None:
    missing = sorted(missing_keys)
    if missing:
        raise DataError(
            name,
            f"is not a whole masked LM: {len(missing)} weights are missing"
            f" ({', '.join(missing[:3])})",
            remedy=_HEAD,
        )


def _own_weights(name: str, model: Any) -> None:
    """Copies the weights out of the mapped file. Raises `DataError` for values that are not
    finite.
    """
    import torch

    for label, parameter in model.named_parameters():
        if not torch.isfinite(parameter.detach().sum()):
            raise DataError(
                name,
                f"its weights hold NaN or infinite values ({label})",
                remedy="Its training diverged: take an earlier checkpoint",
            )
        # Loaded weights are views of the mapped file, at odd addresses. Their products are
        # slower, and not bit-equal to those of trained ones.
        parameter.data = parameter.data.clone()


_APART = "Tokenizer and model do not belong together"
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_SAVE = "Save the tokenizer next to the model: tokenizer.save_pretrained(folder)"
_HEAD = "An encoder has to be saved with its masked-LM head (AutoModelForMaskedLM)"


def hub_revision(name: str) -> str:
    """The commit of a hub name's main branch now. Raises `TransientError` where the hub cannot be
    reached, `DataError` where it has no such name.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        revision = HfApi().model_info(name, timeout=20).sha
    except RepositoryNotFoundError as error:
        raise DataError(
            name, "the hub has no such encoder", remedy="Is it a folder? Then write ./name"
        ) from error
    except HFValidationError as error:
        raise DataError(name, NO_NAME, remedy=NAMES) from error
    except Exception as error:
        if not _is_unreachable(error):
            raise
        text = (
            f"{name}: the hub cannot be reached to look up its revision ({first_line(error)}). Go"
            " online, give `revision`, or name a folder"
        )
        raise TransientError(text) from error
    if revision is None:
        raise TransientError(f"{name}: the hub gives no revision")
    return revision


def _is_unreachable(error: BaseException) -> bool:
    """Whether an error is the network's. The hub's client lets those of its HTTP library through,
    whose module has another name at times.
    """
    return isinstance(error, OSError) or any(
        kind.__name__ == "TransportError" for kind in type(error).__mro__
    )


def check_folder(folder: Path) -> None:
    """Raises `DataError` unless there is a config, safetensors weights and a tokenizer's
    vocabulary.
    """
    if not folder.is_dir():
        raise DataError(
            folder,
            "no such encoder folder",
            remedy="Name a folder that AutoModelForMaskedLM opens, or a hub name",
        )
    if not (folder / "config.json").is_file():
        raise DataError(folder, "has no config.json, so it is not an encoder")
    if not any(folder.glob("*.safetensors")):
        found = (
            ", ".join(sorted(p.name for p in [*folder.glob("*.bin"), *folder.glob("*.pt")]))
            or "no weights at all"
        )
        remedy = "raxalign unpickles nothing: load it in transformers and save_pretrained it again"
        raise DataError(folder, f"has no *.safetensors ({found})", remedy=remedy)
    if not any(path.is_file() for pattern in _TOKENIZERS for path in folder.glob(pattern)):
        # transformers would make a tokenizer of the special pieces alone, to which every word is
        # unknown.
        raise DataError(
            folder, f"has no tokenizer (none of {', '.join(_TOKENIZERS)})", remedy=_SAVE
        )


def _check_fit(name: str, model: Any, tokenizer: Any) -> None:
    """The tokenizer is a fast one, every piece of it has an embedding, and at least half of the
    embeddings (some are padding) have a piece.
    """
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise DataError(
            name,
            "its tokenizer has no fast form (tokenizer.json)",
            remedy="Words are mapped to pieces by it; convert the tokenizer",
        )
    rows, pieces = model.get_input_embeddings().num_embeddings, len(tokenizer)
    if pieces > rows:
        raise DataError(
            name,
            f"its tokenizer has {pieces} pieces, but the model only {rows} embeddings",
            remedy=_APART,
        )
    if 2 * pieces < rows:
        raise DataError(
            name,
            f"its tokenizer has {pieces} pieces, but the model {rows} embeddings",
            remedy=f"{_APART}. {_SAVE}",
        )


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns what transformers raises on a bad folder or an unreachable hub into the user's
    errors.
    """
    from safetensors import SafetensorError

    try:
        yield
    except RaxalignError:
        raise
    except (ConnectionError, TimeoutError) as error:
        raise TransientError(f"{name}: the hub does not answer ({first_line(error)})") from error
    except OSError as error:
        raise _of_os_error(name, error) from error
    except SafetensorError as error:
        raise DataError(
            name,
            f"its weights are damaged ({first_line(error)})",
            remedy="Copy or download the folder again",
        ) from error
    except (ValueError, KeyError, RuntimeError) as error:
        raise DataError(
            name, f"is not a masked LM that transformers can open ({first_line(error)})"
        ) from error
    except Exception as error:
        if looks_like_path(name) or not _is_unreachable(error):
            raise
        raise TransientError(
            f"{name}: the hub does not answer ({first_line(error)}). Go online, or name a folder"
        ) from error


def _of_os_error(name: str, error: OSError) -> RaxalignError:
    """The user's error for what transformers raises where files are missing or the hub does not
    answer.
    """
    if looks_like_path(name):
        return DataError(name, first_line(error))
    if any(sign in str(error) for sign in ("connect", "offline", "resolve", "timed out", "cached")):
        return TransientError(
            f"{name}: the hub cannot be reached, and its local cache does not have this encoder"
            f" ({first_line(error)}). Go online, or name a folder"
        )
    return DataError(
        name,
        first_line(error),
        remedy="Is it a folder? Then write ./name; else a hub name with safetensors weights",
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no reports of weights from transformers; what is wrong is raised."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def save_masked_lm(model: Any, tokenizer: Any, folder: Path) -> None:
    """A folder that `AutoModel`, `AutoModelForMaskedLM` and `AutoTokenizer` open."""
    with _quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
