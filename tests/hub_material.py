"""What a grid of a paper reads of the hub and of OPUS, in small, in the layouts of the originals: a
BERT, XNLI as parquet files per language, and zip files of Europarl. The texts are the phrasebook's.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from raxalign.corpora import phrasebook as rows
from tests.hub_server import HubServer
from tests.tiny import tiny_bert

LANGS = ("bg", "de", "el", "en", "es", "fr")
BERT, OLD_BERT = "google-bert/bert-base-multilingual-cased", "bert-base-multilingual-cased"
XNLI = "facebook/xnli"
LABELS = ("entailment", "neutral", "contradiction")
SPLITS = {"train": "train", "validation": "dev", "test": "test"}


def fill(server: HubServer, *, pairs: int = 600, examples: int = 24, layers: int = 12) -> None:
    """Put all of it on a server."""
    server.repo(BERT).push(bert_files(layers))
    server.moved[OLD_BERT] = BERT
    server.repo(XNLI, "dataset").push(xnli_files(examples))
    for lang in LANGS:
        if lang != "en":
            pair = "-".join(sorted((lang, "en")))
            path = f"OPUS-Europarl/v8/moses/{pair}.txt.zip"
            server.opus[path] = europarl_zip(lang, pairs)


def bert_files(layers: int = 12) -> dict[str, bytes]:
    """A BERT with a masked-LM head, its tokenizer, and the weights of another framework, which
    nobody needs.
    """
    words = dict.fromkeys(
        word for row in rows.sentences(LANGS, 300) for side in row for word in side.words
    )
    with tempfile.TemporaryDirectory() as made:
        folder = tiny_bert(made, words, layers=layers, hidden=16, heads=2, positions=128)
        found = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}
    return {**found, "README.md": b"---\nlicense: apache-2.0\n---\n", "tf_model.h5": b"h" * 200_000}


def xnli_files(examples: int) -> dict[str, bytes]:
    """A configuration per language, described in the README, after one with all languages, which no
    grid reads.
    """
    found, names = dict[str, bytes](), {str(i): name for i, name in enumerate(LABELS)}
    infos, configs = list[str](), list[str]()
    for config in ("all_languages", *LANGS):
        langs = LANGS if config == "all_languages" else (config,)
        sizes = {}
        for split, part in SPLITS.items():
            table = pa.Table.from_pylist(list(_examples(part, langs[0], examples)))
            found[f"{config}/{split}-00000-of-00001.parquet"] = _parquet(table)
            sizes[split] = (len(table), table.nbytes)
        infos.append(_info(config, names, sizes))
        configs.append(_config(config))
    head = (
        "---\nlanguage:\n- en\ndataset_info:\n" + "".join(infos) + "configs:\n" + "".join(configs)
    )
    return {**found, "README.md": f"{head}---\n\n# XNLI\n".encode(), ".gitattributes": b"\n"}


def _examples(part: str, lang: str, count: int) -> Iterable[dict[str, object]]:
    for ((premise, hypothesis, label),) in rows.read("xnli", part, (lang,), range(count)):
        yield {"premise": premise, "hypothesis": hypothesis, "label": LABELS.index(label)}


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _info(config: str, names: Mapping[str, str], sizes: Mapping[str, tuple[int, int]]) -> str:
    labels = "".join(f"          '{number}': {name}\n" for number, name in names.items())
    splits = "".join(
        f"  - name: {split}\n    num_bytes: {size}\n    num_examples: {count}\n"
        for split, (count, size) in sizes.items()
    )
    return (
        f"- config_name: {config}\n  features:\n  - name: premise\n    dtype: string\n"
        "  - name: hypothesis\n    dtype: string\n  - name: label\n    dtype:\n"
        f"      class_label:\n        names:\n{labels}  splits:\n{splits}"
    )


def _config(config: str) -> str:
    files = "".join(f"  - split: {split}\n    path: {config}/{split}-*\n" for split in SPLITS)
    return f"- config_name: {config}\n  data_files:\n{files}"


def europarl_zip(lang: str, pairs: int, corpus: str = "Europarl") -> bytes:
    """Both sides and a licence, as OPUS packs them. A language that the phrasebook lacks is written
    in Spanish.
    """
    pair, out = "-".join(sorted((lang, "en"))), io.BytesIO()
    found = list(rows.sentences((lang if lang in LANGS else "es", "en"), pairs))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README", f"{corpus}\n")
        for side, code in enumerate((lang, "en")):
            text = "".join(f"{rows.detokenized(row[side].words)}\n" for row in found)
            archive.writestr(zipfile.ZipInfo(f"{corpus}.{pair}.{code}"), text)
    return out.getvalue()
