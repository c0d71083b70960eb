"""What a family of encoders is, and the files of a tiny random model of it, as its repository on
the hub has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.families.specials import Specials

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BERT_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "initializer_range": 0.2,
    "max_position_embeddings": 128,
}
"""Weights are wider than usual, so that contexts change vectors."""
FROM_PADDING = {"max_position_embeddings": 130, "pad_token_id": 1, "type_vocab_size": 1}
"""Positions that count on from the padding index, as RoBERTa's do."""
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
DECODER = {**BERT_SIZES, "num_key_value_heads": 1, "head_dim": 16}


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes:
        name: as it is called.
        hub: a repository whose files are imitated.
        architecture: with which the names of its classes in transformers begin.
        tokenizer: makes the tokenizer.
        specials: its special pieces.
        tokenizer_class: what `tokenizer_config.json` records.
        sizes: what the configuration has besides the vocabulary's size.
        head: whether the weights have a masked-LM head.
        pooling: of sentence-transformers modules, if the repository has them.
        decoder: whether it is a causal language model.
        base: the class that gives the reference's states, where it is not that of `AutoModel`.
        dropped: what the repository's `config.json` does not record.
        model: the class that the weights were saved from, where its name does not follow.
        adapters: the name of each language's adapter, in their order.
        spoken: the piece of each language that stands next to its texts. The reference is then the
            encoder of the whole model.
        cased: whether a WordPiece tokenizer keeps capital letters.
    """

    name: str
    hub: str
    architecture: str
    tokenizer: Callable[[Specials], Tokenizer]
    specials: Specials
    tokenizer_class: str
    sizes: Mapping[str, Any] = field(default_factory=lambda: BERT_SIZES)
    head: bool = True
    pooling: str | None = None
    decoder: bool = False
    base: str = "AutoModel"
    dropped: tuple[str, ...] = ()
    model: str = ""
    adapters: Mapping[str, str] = field(default_factory=dict)
    spoken: Mapping[str, str] = field(default_factory=dict)
    cased: bool = True

    @property
    def saved_from(self) -> str:
        """The name of the class that the repository's weights were saved from."""
        ending = "ForMaskedLM" if self.head else "ForCausalLM" if self.decoder else "Model"
        return self.model or f"{self.architecture}{ending}"


def build(family: Family, folder: Path, seed: int = 0) -> Path:
    """Write the files of a family's repository into a folder; returns it."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = family.tokenizer(family.specials)
    sizes = {"vocab_size": tokenizer.get_vocab_size(), **family.sizes}
    if family.architecture != "DistilBert":
        pad = family.specials.names.get("pad_token")
        sizes.setdefault("pad_token_id", tokenizer.token_to_id(pad) if pad else None)
    config = getattr(transformers, f"{family.architecture}Config")(**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, family.saved_from)(config)
    model.save_pretrained(folder)
    path = folder / "config.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(
        json.dumps({name: record[name] for name in record if name not in family.dropped}),
        encoding="utf-8",
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": family.tokenizer_class,
        "model_max_length": 131_072 if family.decoder else 128,
        **family.specials.names,
    }
    if family.tokenizer_class in ("BertTokenizer", "DistilBertTokenizer", "MPNetTokenizer"):
        settings["do_lower_case"] = not family.cased
    if family.tokenizer_class == "T5Tokenizer":
        settings["extra_ids"] = 0  # as mT5's, whose vocabulary has its own
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    if family.pooling:
        _write_modules(folder, family.pooling)
    return folder


def _write_modules(folder: Path, pooling: str) -> None:
    """The files by which sentence-transformers pools a sentence's vectors."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    settings = {
        "word_embedding_dimension": 32,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
