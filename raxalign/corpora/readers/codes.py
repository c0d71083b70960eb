"""What corpora and data sets call languages, where it is not what a grid calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from raxalign.languages import language, spelled

ListName = Literal["flores", "ntrex"]
Codes = Mapping[str, str] | ListName
"""Language -> the data's own code, or the name of a list of such codes."""

_FLORES_CODES = """ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn als_Latn
amh_Ethi apc_Arab arb_Arab arb_Latn ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn
azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn
bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn
dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn
fao_Latn fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gaz_Latn gla_Latn gle_Latn glg_Latn
grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn
ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab
kas_Deva kat_Geor kaz_Cyrl kbp_Latn kea_Latn khk_Cyrl khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn
kmr_Latn knc_Arab knc_Latn kon_Latn kor_Hang lao_Laoo lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn
ltg_Latn ltz_Latn lua_Latn lug_Latn luo_Latn lus_Latn lvs_Latn mag_Deva mai_Deva mal_Mlym mar_Deva
min_Arab min_Latn mkd_Cyrl mlt_Latn mni_Beng mos_Latn mri_Latn mya_Mymr nld_Latn nno_Latn nob_Latn
npi_Deva nso_Latn nus_Latn nya_Latn oci_Latn ory_Orya pag_Latn pan_Guru pap_Latn pbt_Arab pes_Arab
plt_Latn pol_Latn por_Latn prs_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Olck
scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn
srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml taq_Latn taq_Tfng tat_Cyrl
tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi tpi_Latn tsn_Latn tso_Latn tuk_Latn tum_Latn tur_Latn
twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn
xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zsm_Latn zul_Latn"""
FLORES = tuple(_FLORES_CODES.split())
"""FLORES-200 (NLLB Team 2022)."""

_NTREX_CODES = """afr amh arb aze-Latn bak bel bem ben bod bos bul cat ces ckb-Arab cym dan deu div
dzo ell eng eng-GB eng-IN eng-US est eus ewe fao fas fij fil fin fra fra-CA fuc gle glg guj hau heb
hin hmn hrv hun hye ibo ind isl ita jpn kan kat kaz khm kin kir kmr kor lao lav lit ltz mal mar
mey mkd mlg mlt mon mri msa mya nde nep nld nno nob nso nya orm pan pol por por-BR prs pus ron rus
shi sin slk slv smo sna-Latn snd-Arab som spa spa-MX sqi srp-Cyrl srp-Latn ssw swa swe tah tam tat
tel tgk-Cyrl tha tir ton tsn tuk tur uig ukr urd uzb ven vie wol xho yor yue zho-CN zho-TW zul"""
NTREX = tuple(_NTREX_CODES.split())
"""NTREX-128 (Federmann et al. 2022); ``eng`` is its source text (``newstest2019-src.eng.txt``),
from which ``eng-US`` differs in 62 of 1,997 lines.
"""

_MASSIVE_CODES = """af am ar az bn cy da de el en es fa fi fr he hi hu hy id is it ja jv ka km kn
ko lv ml mn ms my nb nl pl pt ro ru sl sq sv sw ta te th tl tr ur vi"""
_MASSIVE = {code: code for code in _MASSIVE_CODES.split()} | {"zh-CN": "zh", "zh-TW": "zh-Hant"}
_LOCALE_CODES = """af-ZA am-ET ar-SA az-AZ bn-BD ca-ES cy-GB da-DK de-DE el-GR en-US es-ES fa-IR
fi-FI fr-FR he-IL hi-IN hu-HU hy-AM id-ID is-IS it-IT ja-JP jv-ID ka-GE km-KH kn-IN ko-KR lv-LV
ml-IN mn-MN ms-MY my-MM nb-NO nl-NL pl-PL pt-PT ro-RO ru-RU sl-SL sq-AL sv-SE sw-KE ta-IN te-IN
th-TH tl-PH tr-TR ur-PK vi-VN zh-CN zh-TW"""
_LOCALES = {**{code: code[:2] for code in _LOCALE_CODES.split()}, "zh-TW": "zh-Hant"}
_TYDIQA = {
    "arabic": "ar",
    "bengali": "bn",
    "english": "en",
    "finnish": "fi",
    "indonesian": "id",
    "korean": "ko",
    "russian": "ru",
    "swahili": "sw",
    "telugu": "te",
}
_MLQA = ("ar", "de", "en", "es", "hi", "vi", "zh")
_PAWSX = ("de", "en", "es", "fr", "ja", "ko", "zh")
_XNLI = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
_XQUAD = ("ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
_MASAKHANER_CODES = """bam bbj ewe fon hau ibo kin lug luo mos nya pcm sna swa tsn twi
wol xho yor zul"""
_MASAKHANER = tuple(_MASAKHANER_CODES.split())
_WIKIANN_CODES = """ace af als am an ang ar arc arz as ast ay az ba bar bat-smg be be-x-old bg bh
bn bo br bs ca cbk-zam cdo ce ceb ckb co crh cs csb cv cy da de diq dv el eml en eo es et eu ext
fa fi fiu-vro fo fr frr fur fy ga gan gd gl gn gu hak he hi hr hsb hu hy ia id ig ilo io is it
ja jbo jv ka kk km kn ko ksh ku ky la lb li lij lmo ln lt lv map-bms mg mhr mi min mk ml mn mr
ms mt mwl my mzn nap nds ne nl nn no nov oc or os pa pdc pl pms pnb ps pt qu rm ro ru rw sa sah
scn sco sd sh si simple sk sl so sq sr su sv sw szl ta te tg th tk tl tr tt ug uk ur uz vec vep
vi vls vo wa war wuu xmf yi yo zea zh zh-classical zh-min-nan zh-yue"""
_WIKIANN = tuple(_WIKIANN_CODES.split())

_BELEBELE_CODES = """acm_Arab afr_Latn als_Latn amh_Ethi apc_Arab arb_Arab arb_Latn ars_Arab
ary_Arab arz_Arab asm_Beng azj_Latn bam_Latn ben_Beng ben_Latn bod_Tibt bul_Cyrl cat_Latn ceb_Latn
ces_Latn ckb_Arab dan_Latn deu_Latn ell_Grek eng_Latn est_Latn eus_Latn fin_Latn fra_Latn fuv_Latn
gaz_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hin_Latn hrv_Latn hun_Latn hye_Armn
ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kac_Latn kan_Knda kat_Geor kaz_Cyrl
kea_Latn khk_Cyrl khm_Khmr kin_Latn kir_Cyrl kor_Hang lao_Laoo lin_Latn lit_Latn lug_Latn luo_Latn
lvs_Latn mal_Mlym mar_Deva mkd_Cyrl mlt_Latn mri_Latn mya_Mymr nld_Latn nob_Latn npi_Deva npi_Latn
nso_Latn nya_Latn ory_Orya pan_Guru pbt_Arab pes_Arab plt_Latn pol_Latn por_Latn ron_Latn rus_Cyrl
shn_Mymr sin_Latn sin_Sinh slk_Latn slv_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn srp_Cyrl
ssw_Latn sun_Latn swe_Latn swh_Latn tam_Taml tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi tsn_Latn
tso_Latn tur_Latn ukr_Cyrl urd_Arab urd_Latn uzn_Latn vie_Latn war_Latn wol_Latn xho_Latn yor_Latn
zho_Hans zho_Hant zsm_Latn zul_Latn"""
_BELEBELE = tuple(_BELEBELE_CODES.split())

_WIKIPEDIA = {
    "als": "gsw",
    "bat-smg": "sgs",
    "be-x-old": "be-tarask",
    "bh": "bho",
    "cbk-zam": "cbk",
    "eml": "egl",
    "fiu-vro": "vro",
    "hak": "hak-Latn",
    "map-bms": "jv-x-bms",
    "no": "nb",
    "simple": "en-x-simple",
    "zh-classical": "lzh",
    "zh-min-nan": "nan-Latn",
    "zh-yue": "yue",
}
_LISTS: Mapping[str, Mapping[str, str]] = {
    "flores": {code: code for code in FLORES},
    "ntrex": {
        **{code: code for code in NTREX},
        "por": "pt-PT",
        "por-BR": "pt-BR",
        "zho-CN": "zh",
        "zho-TW": "zh-Hant",
    },
}
"""Name of a list -> own code -> the tag that it means."""
_OF_DATASETS: Mapping[str, Mapping[str, str]] = {
    "unimelb-nlp/wikiann": {**{code: code for code in _WIKIANN}, **_WIKIPEDIA},
    "masakhane/masakhaner2": {code: code for code in _MASAKHANER},
    "facebook/xnli": {code: code for code in _XNLI},
    "google-research-datasets/paws-x": {code: code for code in _PAWSX},
    "facebook/mlqa": {code: code for code in _MLQA},
    "google/xquad": {code: code for code in _XQUAD},
    "facebook/flores": _LISTS["flores"],
    "Muennighoff/flores200": _LISTS["flores"],
    "Davlan/sib200": {**_LISTS["flores"], "nqo_Nkoo": "nqo_Nkoo"},
    "mteb/amazon_massive_intent": _MASSIVE,
    "AmazonScience/massive": _LOCALES,
    "facebook/belebele": {code: code for code in _BELEBELE},
    "google-research-datasets/tydiqa": _TYDIQA,
}
"""Data set of the hub -> the code in its configurations -> the tag that it means."""


def own_code(lang: str, codes: Codes) -> str:
    """Return what data calls a language: by its spelling in the grid, or else by the language; the
    grid's code where `codes` (a mapping, or the name of a list) does not have it.

    >>> own_code("de", {"de": "deu"}), own_code("zh-Hant", "ntrex"), own_code("en", "flores")
    ('deu', 'zho-TW', 'eng_Latn')
    """
    if isinstance(codes, str):
        return _of_list(lang, _LISTS[codes])
    known = spelled(lang, codes)
    return lang if known is None else codes[known]


def hub_code(dataset: str, lang: str, codes: Codes) -> str:
    """Return what a data set of the hub calls a language: by `codes`, or else by what is known
    about the data set.

    >>> hub_code("facebook/xnli", "eng_Latn", {}), hub_code("unimelb-nlp/wikiann", "gsw", {})
    ('en', 'als')
    """
    given = own_code(lang, codes)
    return given if given != lang else _of_list(lang, _OF_DATASETS.get(dataset, {}))


def lacking(dataset: str, languages: Iterable[str], codes: Codes) -> list[str]:
    """Return the languages that a data set of the hub lacks, as far as its list is known.

    >>> lacking("google/xquad", ["de", "sw", "fr"], {"fr": "french"}), lacking("x/y", ["de"], {})
    (['sw'], [])
    """
    known = _OF_DATASETS.get(dataset)
    return [
        lang
        for lang in languages
        if known is not None
        and own_code(lang, codes) == lang
        and lang not in known
        and spelled(lang, known.values()) is None
    ]


def names_in(dataset: str) -> Mapping[str, str]:
    """Return all languages of a data set of the hub whose list is known: tag -> its own code."""
    return {tag: own for own, tag in _OF_DATASETS[dataset].items()}


def opus_code(lang: str, codes: Mapping[str, str]) -> str:
    """Return what OPUS calls a language: by `codes`; else the grid's code where it is one part of
    two letters, or the shortest code with ``_`` (``de`` for ``deu_Latn``, ``pt_br``, ``zh_tw``).
    """
    given = own_code(lang, codes)
    if given != lang or len(lang) == 2:
        return given
    tag = language(lang).tag
    return {"zh-Hant": "zh_tw"}.get(tag, tag.lower().replace("-", "_"))


def _of_list(lang: str, listed: Mapping[str, str]) -> str:
    """Return the own code of a language in a list; itself where it is one, or is not there."""
    if lang in listed:
        return lang
    meant = {tag: own for own, tag in listed.items()}
    known = spelled(lang, meant)
    return lang if known is None else meant[known]
