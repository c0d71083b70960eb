"""Languages by their codes: BCP-47 tags, with ISO 639-1 or 639-3 codes, ``-`` or ``_`` between the
parts, and old codes.

A code stays as the user wrote it wherever it is a name: in keys, paths, metrics and tables. All
that depends on the language itself asks `language`, which reads the code as CLDR does. Two codes
are the same language where language, script and region are the same. A script that is not written
is the usual one of the language; a region that is not written is none. So ``en``, ``eng`` and
``eng_Latn`` are one language, and so are ``zh`` and ``zho_Hans``. ``zh-Hant`` is another language
than ``zh``, and so are ``pt-BR`` than ``pt`` and ``sr-Latn`` than ``sr``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    import langcodes

_UNSPACED = """Hans Hant Hani Hanb Bopo Jpan Hrkt Hira Kana Thai Laoo Khmr Mymr Tibt Java Bali Lana
Talu Tale Yiii"""
UNSPACED_SCRIPTS = frozenset(_UNSPACED.split())
"""Scripts that do not divide words by spaces, by ISO 15924."""
SEGMENTERS = {"zh": "jieba", "th": "pythainlp"}
"""The library that divides a language into words, where it is written without spaces."""
FORM = "codes are BCP-47 tags, for example de, ha, zh-Hant or eng_Latn"

_FORM = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")
_PRIVATE = re.compile("q[a-t][a-z]")
_NO_LANGUAGE = frozenset({"und", "mul", "mis", "zxx", "avg"})  # `avg` names a mean over languages
_APART = frozenset({"tw"})  # CLDR makes it `ak`; FLORES-200 has texts in both
_MEMBERS = {"pbt": "ps"}  # the usual member of a macrolanguage, where CLDR does not say so
_SCRIPTS = {"azb": "Arab", "bgn": "Arab", "bqi": "Arab", "lzh": "Hant"}
"""Scripts of languages for which CLDR has none, or one that texts are not in."""
_OTHER_CODES = {
    "simple": "en-x-simple",
    "zh-classical": "lzh",
    "zh_classical": "lzh",
    "sr@latin": "sr-Latn",
    "sr@latn": "sr-Latn",
}
"""Codes of corpora that are not well-formed -> the tag to write."""
_SHORT = """Latn aa af ak an ay az bi bm br bs ca ch co cs cy da de ee en eo es et eu ff fi fj fo fr
fy ga gd gl gn gv ha ho hr ht hu hz ia id ie ig ik io is it jv kg ki kj kl kr ku kw la lb lg li ln
lt lu lv mg mh mi ms mt na nb nd ng nl nn no nr nv ny oc oj om pi pl pt qu rm rn ro rw sc se sg sk
sl sm sn so sq ss st su sv sw tk tn to tr ts tw ty uz ve vi vo wa wo xh yo za zu|Arab ar fa ks ps sd
ug ur|Armn hy|Beng as bn|Cyrl ab av ba be bg ce cu cv kk kv ky mk mn os ru sr tg tt uk|Deva hi mr ne
sa|Ethi am ti|Geor ka|Grek el|Gujr gu|Guru pa|Hebr he yi|Knda kn|Kore ko|Mlym ml|Orya or|Sinh si|
Taml ta|Telu te"""
_SHORT_CODES = {
    code: script for script, *codes in map(str.split, _SHORT.split("|")) for code in codes
}
"""Codes of two letters that are their own tags -> the script that CLDR has for them. The library
that knows all codes takes longer to load than a plan takes.
"""


@dataclass(frozen=True)
class Language:
    """What is known about the language of a code.

    Args:
        code: the code as it was written.
        tag: its shortest BCP-47 tag, which is that of all codes of the language (``en`` for
            ``eng_Latn``, ``iw`` has ``he``).
        base: the language of the tag (``zh`` of ``zh-Hant``).
        script: ISO 15924; as written, or else the usual one.
        spaced: False where words are not divided by spaces.
        segmenter: the library that divides its words, where they are not.
        known: whether the registry of language tags has it; it has no private codes (``qaa`` to
            ``qtz``).
    """

    code: str
    tag: str
    base: str
    script: str
    spaced: bool
    segmenter: str | None
    known: bool

    @property
    def name(self) -> str:
        """Its name in English (``Chinese (Traditional)``), or its code where it has none."""
        import langcodes

        written = langcodes.Language.get(self.code, normalize=False)
        names = (
            tag.display_name()
            for tag in (_without_usual_script(written), langcodes.Language.get(self.tag))
        )  # as written first: `tl` is Tagalog, and its tag `fil` is Filipino
        return next((name for name in names if "Unknown language" not in name), self.code)


def no_segmenter(code: str) -> tuple[str, str]:
    """Return that a language has no segmenter, and which languages have one; and what to do."""
    return (
        f"there is no segmenter for {code} (only for {', '.join(SEGMENTERS)})",
        "divide its text into words yourself and set `pretokenized: true` for it under"
        " `corpus.by_language`, or set `segmentation: characters`",
    )


def remark(code: str) -> str | None:
    """Return what a reader must know about a language of which nothing is known, or None."""
    known = language(code)
    if known.known:
        return None
    return (
        f"nothing is known about the language {code}: its script is taken to be {known.script},"
        " with spaces between words, and its words are divided by Moses's general rules"
        if known.spaced
        else f"nothing is known about the language {code} but its script, {known.script}"
    )


@cache
def language(code: str) -> Language:
    """Return the language of a code. Raises `RaxalignError`, which names the nearest right code,
    where it is not a BCP-47 tag, or its two letters are not assigned.
    """
    if (usual := _SHORT_CODES.get(code)) is not None:
        return Language(code, code, code, usual, spaced=True, segmenter=None, known=True)
    tag = _parsed(code)
    if tag is None:
        near = nearest_code(code)
        hint = f"; did you mean {near}?" if near else ""
        raise RaxalignError(f"unknown language {code!r}{hint} ({FORM})")
    full = _likely(tag)
    base, script = str(full.language), str(full.script)
    spaced = script not in UNSPACED_SCRIPTS
    return Language(
        code=code,
        tag=tag.to_tag(),
        base=base,
        script=script,
        spaced=spaced,
        segmenter=None if spaced else SEGMENTERS.get(base),
        known=tag.is_valid() and _PRIVATE.fullmatch(base) is None,
    )


def is_code(code: str) -> bool:
    """Return whether a text is the code of a language."""
    return code in _SHORT_CODES or _parsed(code) is not None


def same_language(one: str, other: str) -> bool:
    """Return whether two codes are the same language. What is not a code is the same as itself
    alone.

    >>> same_language("eng_Latn", "en"), same_language("zh-Hant", "zh"), same_language("avg", "avg")
    (True, False, True)
    """
    return one == other or (
        is_code(one) and is_code(other) and language(one).tag == language(other).tag
    )


def spellings(code: str) -> list[str]:
    """Return usual codes of a language: its tag, and those of three letters and with the script
    that data sets of many languages use.

    >>> spellings("de")
    ['de', 'deu', 'de-Latn', 'deu-Latn']
    """
    import langcodes

    known = language(code)
    try:
        long = langcodes.Language.get(known.tag).to_alpha3()
    except LookupError:
        long = known.base
    names = (known.tag, long, f"{known.base}-{known.script}", f"{long}-{known.script}")
    return [name for name in dict.fromkeys(names) if same_language(name, code)]


def spelled(code: str, others: Iterable[str]) -> str | None:
    """Return how others spell a language: itself where they have it, else the first that is the
    same language, or None.
    """
    others = list(others)
    if code in others:
        return code
    return next((other for other in others if same_language(code, other)), None)


def pair_of(label: str, languages: Iterable[str]) -> tuple[str, str] | None:
    """Return the two languages of a label ``zh-Hant-en``, or None where it is not a pair of them.

    >>> pair_of("zh-Hant-en", ["en", "zh-Hant"]), pair_of("zh-Hant", ["en", "zh-Hant"])
    (('zh-Hant', 'en'), None)
    """
    languages = list(languages)
    if label in languages:
        return None
    return next(
        (
            (one, rest)
            for one in languages
            if label.startswith(f"{one}-") and (rest := label[len(one) + 1 :]) in languages
        ),
        None,
    )


def labels_with(some: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return the labels that `some` languages have: their own, and those of a pair with any.

    >>> sorted(labels_with(["sw"], ["de"]))
    ['de-sw', 'sw', 'sw-de', 'sw-sw']
    """
    some = list(some)
    pairs = product(some, dict.fromkeys([*some, *others]))
    return {*some, *(f"{a}-{b}" for pair in pairs for a, b in (pair, pair[::-1]))}


def respelled(label: str, languages: Iterable[str]) -> str:
    """Return a label of one language or of a pair as `languages` spell it; itself where they do not
    have it.

    >>> respelled("de-en", ["deu", "eng_Latn"]), respelled("avg", ["deu"])
    ('deu-eng_Latn', 'avg')
    """
    languages = list(languages)
    if (own := spelled(label, languages)) is not None:
        return own
    parts = label.split("-")
    for n in range(1, len(parts)):
        one, other = (spelled("-".join(side), languages) for side in (parts[:n], parts[n:]))
        if one is not None and other is not None:
            return f"{one}-{other}"
    return label


def meant(text: str) -> str:
    """Return what to write in place of what is not a code: the nearest one, and what codes are."""
    near = nearest_code(text)
    return f"did you mean {near}? {FORM}" if near else FORM


def nearest_code(text: str) -> str | None:
    """Return the code that was probably meant: by a name (`Turkish`), by the code of a country
    (`jp`), or the part of the text that is a code (`de_DE.UTF-8`).
    """
    import langcodes

    if (other := _OTHER_CODES.get(text.lower())) is not None:
        return other
    if re.fullmatch(r"[A-Za-z]{2}", text):
        likely = langcodes.Language.get(f"und-{text}").maximize().language
        return likely if likely not in ("und", "en") or text.lower() in ("uk", "us") else None
    try:
        return str(langcodes.find(text))
    except LookupError:
        start = _FORM.match(text)
        part = start.group() if start is not None else ""
        return part if part and part != text and _parsed(part) is not None else None


@cache
def _parsed(code: str) -> langcodes.Language | None:
    """Return the tag of a code, canonical; None where it is not one, names no language, or has two
    letters that ISO 639-1 has not assigned.
    """
    import langcodes

    if _FORM.fullmatch(code) is None:
        return None
    try:
        tag = langcodes.Language.get(code)
    except ValueError:
        return None
    if tag.language is None or tag.language in _NO_LANGUAGE:
        return None
    assigned = len(tag.language) > 2 or langcodes.Language.make(language=tag.language).is_valid()
    return _of_macrolanguage(tag) if assigned else None


def _of_macrolanguage(tag: langcodes.Language) -> langcodes.Language:
    """Return the tag with the macrolanguage in place of its usual member (``arb`` is ``ar``), and
    without a script that is the usual one.
    """
    import langcodes

    if tag.language in _MEMBERS:
        tag = tag.update_dict({"language": _MEMBERS[tag.language]})
    elif tag.language not in _APART:
        tag = langcodes.Language.get(langcodes.standardize_tag(tag, macro=True))
    return _without_usual_script(tag)


def _without_usual_script(tag: langcodes.Language) -> langcodes.Language:
    if (tag.language, tag.script) == ("ko", "Hang"):  # the script of FLORES; CLDR's has Hanja too
        tag = tag.update_dict({"script": "Kore"})
    bare = tag.update_dict({"script": None})
    return bare if _likely(bare).script == _likely(tag).script else tag


def _likely(tag: langcodes.Language) -> langcodes.Language:
    """Return a tag with its likely script and region filled in."""
    if tag.script is None and tag.language in _SCRIPTS:
        tag = tag.update_dict({"script": _SCRIPTS[tag.language]})
    return tag.maximize()
