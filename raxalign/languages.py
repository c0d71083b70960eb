"""Language codes (ISO 639-1, 639-3 where there is none), their scripts, and which need a
segmenter.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from raxalign.errors import RaxalignError


@dataclass(frozen=True)
class Language:
    """A language: `spaced` is False where words are not divided by spaces; `segmenter` names the
    library that divides them.
    """

    code: str
    name: str
    script: str = "Latn"
    spaced: bool = True
    segmenter: str | None = None


_LATIN = """af Afrikaans|an Aragonese|ast Asturian|az Azerbaijani|bar Bavarian|br Breton
bs Bosnian|ca Catalan|ceb Cebuano|cs Czech|cy Welsh|da Danish|de German|en English|eo Esperanto
es Spanish|et Estonian|eu Basque|fi Finnish|fr French|fy West Frisian|ga Irish|gl Galician
hr Croatian|ht Haitian|hu Hungarian|id Indonesian|io Ido|is Icelandic|it Italian|jv Javanese
la Latin|lb Luxembourgish|lmo Lombard|lt Lithuanian|lv Latvian|mg Malagasy|min Minangkabau
ms Malay|mt Maltese|nb Norwegian Bokmål|nds Low German|nl Dutch|nn Norwegian Nynorsk|no Norwegian
oc Occitan|pl Polish|pms Piedmontese|pt Portuguese|ro Romanian|scn Sicilian|sco Scots|sk Slovak
sl Slovenian|sq Albanian|su Sundanese|sv Swedish|sw Swahili|tl Tagalog|tr Turkish|uz Uzbek
vi Vietnamese|vo Volapük|war Waray|xh Xhosa|yo Yoruba|zu Zulu"""
_OTHER = """ar Arabic Arab|arz Egyptian-Arabic Arab|azb South-Azerbaijani Arab|ba Bashkir Cyrl
be Belarusian Cyrl|bg Bulgarian Cyrl|bn Bengali Beng|bpy Bishnupriya Beng|ce Chechen Cyrl
cv Chuvash Cyrl|el Greek Grek|fa Persian Arab|gu Gujarati Gujr|he Hebrew Hebr|hi Hindi Deva
hy Armenian Armn|ka Georgian Geor|kk Kazakh Cyrl|kn Kannada Knda|ko Korean Hang|ky Kyrgyz Cyrl
mk Macedonian Cyrl|ml Malayalam Mlym|mn Mongolian Cyrl|mr Marathi Deva|ne Nepali Deva
new Newar Deva|pa Punjabi Guru|pnb Western-Punjabi Arab|ps Pashto Arab|ru Russian Cyrl
sr Serbian Cyrl|ta Tamil Taml|te Telugu Telu|tg Tajik Cyrl|tt Tatar Cyrl|uk Ukrainian Cyrl
ur Urdu Arab"""


def _table() -> dict[str, Language]:
    table = {}
    for row in _LATIN.replace("\n", "|").split("|"):
        code, name = row.split(" ", 1)
        table[code] = Language(code, name)
    for row in _OTHER.replace("\n", "|").split("|"):
        code, name, script = row.split(" ")
        table[code] = Language(code, name.replace("-", " "), script)
    for unspaced in (
        Language("zh", "Chinese", "Hans", False, "jieba"),
        Language("ja", "Japanese", "Jpan", False),
        Language("th", "Thai", "Thai", False, "pythainlp"),
        Language("km", "Khmer", "Khmr", False),
        Language("lo", "Lao", "Laoo", False),
        Language("my", "Burmese", "Mymr", False),
    ):
        table[unspaced.code] = unspaced
    return table


LANGUAGES = _table()

WITHOUT_SEGMENTER = (
    "divide its text into words yourself and set `pretokenized: true` for it under"
    " `corpus.by_language`, or set `segmentation: characters`"
)
"""What to do about a language without a segmenter."""


def no_segmenter(code: str) -> str:
    """Return that a language has no segmenter, and which languages have one."""
    able = ", ".join(lang for lang, known in LANGUAGES.items() if known.segmenter)
    return f"there is no segmenter for {code} (only for {able})"


def language(code: str) -> Language:
    """Return the language of a code; raises `RaxalignError` with the nearest known code where there
    is none.
    """
    if code in LANGUAGES:
        return LANGUAGES[code]
    near = get_close_matches(code, LANGUAGES, n=1, cutoff=0.5) or [
        c for c, known in LANGUAGES.items() if known.name.lower() == code.lower()
    ]
    hint = f"; did you mean {near[0]}?" if near else ""
    raise RaxalignError(
        f"unknown language {code!r}{hint} (codes are ISO 639-1, for example de, tr, zh)"
    )
