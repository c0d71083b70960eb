"""The Unicode form in which an encoder reads text, where that is not the published one."""

from __future__ import annotations

from typing import Any, Literal

from raxalign.corpora.text.words import FORMAT_CHARACTERS

TextForm = Literal["none", "nfc", "clean"]
"""What is done to a text before the tokenizer's own steps: nothing, composition (Unicode's form C),
or composition without format characters.
"""
TEXT_FORMS: dict[TextForm, list[list[str]]] = {
    "none": [],
    "nfc": [[]],
    "clean": [[], ["\u200b", " "], [FORMAT_CHARACTERS, ""]],
}
"""The steps of each form: a pattern and what replaces it, or nothing for composition."""
_KEPT = "raxalign_normalize"
"""The entry of a model's ``config.json`` by which an encoder keeps its form on disk: transformers
makes some tokenizers anew and drops normalisers of theirs.
"""


def set_text_form(config: Any, tokenizer: Any, form: TextForm) -> None:
    """Put a form before the tokenizer's own steps from now on; `config` keeps it."""
    setattr(config, _KEPT, form)
    keep_text_form(config, tokenizer)


def text_form(config: Any) -> TextForm:
    """Return the form that a config keeps."""
    form: TextForm = getattr(config, _KEPT, "none")
    return form


def keep_text_form(config: Any, tokenizer: Any) -> None:
    """Put the form that a config keeps, if any, before the tokenizer's own steps."""
    from tokenizers import Regex, normalizers

    steps: list[Any] = [
        normalizers.Replace(Regex(step[0]), step[1]) if step else normalizers.NFC()
        for step in TEXT_FORMS[text_form(config)]
    ]
    backend = tokenizer.backend_tokenizer
    own = [] if backend.normalizer is None else [backend.normalizer]
    if steps:
        backend.normalizer = normalizers.Sequence([*steps, *own])
