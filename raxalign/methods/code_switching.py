"""Masked language modelling on text whose words are in part changed for translations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, final

from pydantic import Field

from raxalign.arrays import end_to_end, offsets_of, ranges, word_pieces
from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.text.dataset import read_table, word_counts
from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.models.pieces import inner_pieces
from raxalign.encoders.models.rows import Rows, Sentences
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import read_texts
from raxalign.methods.families.trained import MaskedLMMethod
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import DataPath, LocalFile, Source, expand_path
from raxalign.train.chance import Stream
from raxalign.train.objective import Step

SHARE = 0.5
"""Probability that a word that has translations is changed for one."""


@final
class CodeSwitching(MaskedLMMethod["SwitchableText"]):
    """Train the encoder to predict masked tokens of sentences in which some words stand in another
    language, so that words and their translations have the same contexts.

    Formula: mean over masked places m of -log p(x_m | [CLS] c(a) [SEP] with masks), where c changes
    words for translations.

    Data: monolingual text of every language and the pivot, and a dictionary (two words per line,
    the pivot's last), read both ways: words of the pivot are changed for words of the other
    languages, and theirs for the pivot's. Words are looked up in lower case and put in as the
    dictionary writes them. With several languages one that knows the word is drawn first, then one
    of its translations, each as likely as another, in half of the cases; what is drawn is drawn
    anew in each epoch. The notes count the words that have translations, and the entries that are
    in the texts.

    Reference: Qin et al. (2020, CoSDA-ML), with masked language modelling in place of a task's
    training.

    Relations: `tlm` and `weam` need translated sentences; `rotation` with `supervision: dictionary`
    maps the same entries without a training run.

    Example:
        methods:
          none: {}
          code_switching: {dictionary: "dictionaries/{lang}-{pivot}.txt", epochs: 1}
    """

    VERSION = 2
    name = "code_switching"
    reads = "text"
    predicts = True
    reference = "Qin et al. 2020"
    papers = ("qin2020",)

    class Params(MaskedLMMethod.Params):
        """Training is by AdamW."""

        dictionary: DataPath
        """File of a dictionary, two words per line, the pivot's last; its path may hold `{lang}`
        and `{pivot}`.
        """
        swap: Annotated[bool, LATER] = Field(False, description=wording.SWAP)
        removed: ClassVar = {
            "sentence_share": Removed("leave it out: words of every sentence are changed", 1.0),
            "switch_share": Removed("leave it out: half of the words in it are changed", SHARE),
        }
        min_pieces: int = Field(1, ge=1, description=wording.MIN_PIECES)

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the dictionary."""
        return {
            "dictionary": LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))
        }

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> SwitchableText:
        """Return the text of all languages and the pivot, with its words looked up.

        Raises `RaxalignError` where the dictionary has no word of a language's text, or where its
        two sides are clearly in the other order.
        """
        entries = _coverage(inputs, swap=self.params.swap)
        text = replace(self._looked_up(encoder, inputs, folders), entries=entries)
        coverage = text.coverage()
        for lang in inputs.languages:
            if not coverage[lang]["with_translation"]:
                raise RaxalignError(
                    f"code_switching: no word of the text of {lang} is in the dictionary"
                    f" {inputs.files['dictionary'][lang]}; look at its languages and their order"
                    f" ({lang} first, then {inputs.pivot})"
                )
        return text

    def read_dev(self, encoder: TransformerEncoder, inputs: MethodInputs) -> SwitchableText:
        """Return the sentences of both sides of the dev part, whatever words they have."""
        with TemporaryDirectory(prefix="raxalign-") as work:
            return self._looked_up(encoder, inputs, _dev_text(inputs, Path(work)))

    def batch_of(self, rows: SwitchableText, step: Step) -> Rows:
        """Return rows of sentences with words in another language."""
        return switched_rows(rows, step.rows, SHARE, step.generator(Stream.MIXING))

    def counts(self, rows: SwitchableText) -> dict[str, object]:
        """Return the numbers of sentences, words, translated ones, and entries of each language."""
        return {**super().counts(rows), **rows.coverage()}

    def _looked_up(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> SwitchableText:
        pivot, params = inputs.pivot, self.params
        sizes = params.max_length, params.min_pieces
        return read_switchable(encoder, folders, self._dictionaries(inputs), pivot, *sizes)

    def _dictionaries(self, inputs: MethodInputs) -> Entries:
        return {
            lang: DictionaryFile.lines(inputs.files["dictionary"][lang], swap=self.params.swap)
            for lang in inputs.languages
        }


def _dev_text(inputs: MethodInputs, work: Path) -> dict[str, Path]:
    """The sentences of the dev part as text of each language and the pivot, written in `work`."""
    from raxalign.corpora.text.bitext import write_text

    for lang in inputs.languages:
        write_text([inputs.dev[lang]], "src", work / lang)
    write_text([inputs.dev[lang] for lang in inputs.languages], "tgt", work / inputs.pivot)
    return {lang: work / lang / "data" for lang in (*inputs.languages, inputs.pivot)}


def _coverage(inputs: MethodInputs, *, swap: bool) -> dict[str, dict[str, Any]]:
    """For each language what of its dictionary is in the texts."""
    pivot, found = word_counts(inputs.text[inputs.pivot], "words", inputs.pivot), {}
    for lang in inputs.languages:
        path, langs = inputs.files["dictionary"][lang], (lang, inputs.pivot)
        counts = word_counts(inputs.text[lang], "words", lang), pivot
        found[lang] = DictionaryFile.read(path, langs, swap=swap).coverage(counts)
    return found


_CHUNK = 8192


Entries = Mapping[str, Sequence[tuple[str, str]]]
"""The dictionaries: language -> (word of the language, word of the pivot)."""


@dataclass(frozen=True)
class Lexicon:
    """Translations of words. Word type t has the groups ``group_offsets[t]`` to ``group_offsets[t +
    1]``, one for each language that it can be translated to; group g the translations
    ``entry_offsets[g]`` to ``entry_offsets[g + 1]``, all of the language ``group_langs[g]``.

    Translation e has `count_E[e]` pieces, those of `ids` from `first_E[e]` on. `types` tells the
    word types of each language.
    """

    types: dict[str, dict[str, int]]
    group_offsets: np.ndarray
    group_langs: np.ndarray
    entry_offsets: np.ndarray
    first_E: np.ndarray
    count_E: np.ndarray
    ids: np.ndarray

    def draw(self, types_W: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (translation, its language) of each of some words, by their types: a language,
        then one of its translations, each as likely as another.
        """
        group = _pick(self.group_offsets, types_W, rng)
        return _pick(self.entry_offsets, group, rng), self.group_langs[group]


def _pick(offsets: np.ndarray, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One entry of each of some rows, by chance."""
    picked: np.ndarray = offsets[which] + rng.integers(np.diff(offsets)[which])
    return picked


def make_lexicon(
    encoder: TransformerEncoder, dictionaries: Entries, pivot: str, languages: tuple[str, ...]
) -> Lexicon:
    """Return the translations of `dictionaries`, both ways, by the word's form; `languages`
    numbers the languages.

    An entry that is repeated counts once; one whose translation has no piece is left out.
    """
    found = _translations(dictionaries, pivot)
    parts = (part for by_lang in found.values() for part in by_lang.values())
    words = list(dict.fromkeys(word for part in parts for word in part))
    pieces = inner_pieces(encoder.tokenizer, words)
    numbers = {word: i for i, word in enumerate(words) if len(pieces[i])}
    types: dict[str, dict[str, int]] = {lang: {} for lang in languages}
    groups, langs, sizes, entries = [list[int]() for _ in range(4)]
    for (lang, word), by_lang in found.items():
        read = {k: [numbers[t] for t in part if t in numbers] for k, part in by_lang.items()}
        read = {other: part for other, part in read.items() if part}
        if read:
            types[lang][word] = len(groups)
            groups.append(len(read))
            langs += [languages.index(other) for other in read]
            sizes += [len(part) for part in read.values()]
            entries += [entry for part in read.values() for entry in part]
    offsets, entries_E = offsets_of(list(map(len, pieces))), np.array(entries, np.int64)
    return Lexicon(
        types,
        offsets_of(groups),
        np.array(langs, np.int64),
        offsets_of(sizes),
        offsets[entries_E],
        np.diff(offsets)[entries_E],
        np.concatenate([np.zeros(0, np.int32), *pieces]),
    )


def _translations(
    dictionaries: Entries, pivot: str
) -> dict[tuple[str, str], dict[str, dict[str, None]]]:
    """(language, form of a word) -> language -> translations, in the dictionaries' order."""
    found: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for lang, entries in dictionaries.items():
        for word, translation in entries:
            forms = (lang, look_up_form(word, lang)), (pivot, look_up_form(translation, pivot))
            found.setdefault(forms[0], {}).setdefault(pivot, {})[translation] = None
            found.setdefault(forms[1], {}).setdefault(lang, {})[word] = None
    return found


@dataclass(frozen=True)
class SwitchableText:
    """Sentences whose words can be changed for translations: word w of sentence s is the entry
    ``word_offsets[s] + w`` of `first_W` and `count_W` (its pieces in ``sentences.ids``) and of
    `type_W`, its type in `lexicon` (-1: it has no translation, or shares a piece with a neighbour).

    Each piece is counted once: one that words share for the first of them, one of no word (a bare
    blank) for the word that follows, or for the last one.

    `numbers_R` are the sentences to train on. The pieces of the translations lie in
    ``sentences.ids``, too, from `lexicon_start` on. `entries` is the coverage of each dictionary.
    """

    sentences: Sentences
    numbers_R: np.ndarray
    word_offsets: np.ndarray
    first_W: np.ndarray
    count_W: np.ndarray
    type_W: np.ndarray
    lexicon: Lexicon
    lexicon_start: int
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers_R)

    def coverage(self) -> dict[str, dict[str, Any]]:
        """Return for each language the sentences that are trained on, their words, how many of
        these have a translation, and its entries.
        """
        words, owners = ranges(self.word_offsets, self.numbers_R)
        langs_R = self.sentences.langs_S[self.numbers_R]
        size, has = len(self.sentences.languages), self.type_W[words] >= 0
        counts = [
            np.bincount(part, minlength=size).tolist()
            for part in (langs_R, langs_R[owners], langs_R[owners][has])
        ]
        names = ("sentences", "words", "with_translation")
        return {
            lang: {
                **{name: part[k] for name, part in zip(names, counts, strict=True)},
                **self.entries.get(lang, {}),
            }
            for k, lang in enumerate(self.sentences.languages)
        }


def read_switchable(
    encoder: TransformerEncoder,
    folders: Mapping[str, Path],
    dictionaries: Entries,
    pivot: str,
    max_length: int,
    min_pieces: int = 1,
) -> SwitchableText:
    """Tokenise text, language -> folder, and look its words up; sentences of less than
    `min_pieces` pieces are not trained on.
    """
    texts = read_texts(encoder, folders, max_length, min_pieces=min_pieces)
    sentences = texts.sentences
    lexicon = make_lexicon(encoder, dictionaries, pivot, tuple(folders))
    sizes, types = zip(
        *(
            part
            for lang, folder in folders.items()
            for part in _look_up(folder, lexicon.types[lang], lang)
        ),
        strict=True,
    )
    word_offsets, type_W = offsets_of(np.concatenate(sizes)), np.concatenate(types)
    start = int(sentences.starts_S[0])
    owner_P, changeable_W = _owners(sentences, word_offsets)
    count_W = np.bincount(owner_P, minlength=len(type_W))
    first_W = start + np.cumsum(count_W) - count_W
    own = np.zeros(len(lexicon.ids), np.int32)  # their words are numbered where they are put in
    whole = replace(
        sentences,
        ids=end_to_end([sentences.ids, lexicon.ids]),
        words=end_to_end([sentences.words, own]),
        lasts=end_to_end([sentences.lasts, own]),
    )
    type_W = np.where(changeable_W, type_W, -1)
    return SwitchableText(
        whole, texts.numbers_R, word_offsets, first_W, count_W, type_W, lexicon, len(sentences.ids)
    )


def _owners(sentences: Sentences, word_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The word, numbered through all sentences, with which each piece of the text stays or goes;
    and whether each word has pieces, all of them to itself.
    """
    start = int(sentences.starts_S[0])
    words, lasts = sentences.words[start:].astype(np.int64), sentences.lasts[start:]
    before_P = np.repeat(word_offsets[:-1], sentences.lengths_S)
    pieces, every = word_pieces(words, lasts)
    n_words = int(word_offsets[-1])
    changeable_W = np.bincount(every + before_P[pieces], minlength=n_words) > 0
    shared = lasts[pieces] > words[pieces]
    changeable_W[(every + before_P[pieces])[shared]] = False
    placed, lost = np.flatnonzero(words >= 0), np.flatnonzero(words < 0)
    owner_P = words + before_P
    if len(placed):
        after = np.minimum(np.searchsorted(placed, lost), len(placed) - 1)
        owner_P[lost] = owner_P[placed[after]]
    ends_P = np.repeat(word_offsets[1:], sentences.lengths_S)
    return np.clip(owner_P, before_P, np.maximum(ends_P - 1, before_P)), changeable_W


def _look_up(
    folder: Path, types: Mapping[str, int], lang: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(words of each sentence, type of each word) of a text dataset, part by part."""
    column: Any = read_table(folder).column("words")
    for start in range(0, len(column), _CHUNK):
        sentences = column.slice(start, _CHUNK).to_pylist()
        found = [types.get(look_up_form(word, lang), -1) for words in sentences for word in words]
        yield np.array([len(words) for words in sentences], np.int64), np.array(found, np.int64)


def switched_rows(
    text: SwitchableText, rows: np.ndarray, share: float, rng: np.random.Generator
) -> Rows:
    """Return a row `[CLS] a [SEP]` for each of the sentences ``numbers_R[rows]``, with some words
    changed for translations.

    Each word that has translations is changed with the probability `share`. Its pieces then belong
    to the translation's language. The end of what is too long is cut off.
    """
    numbers = text.numbers_R[rows]
    words, owners = ranges(text.word_offsets, numbers)
    langs = text.sentences.langs_S[numbers][owners]
    first, count = text.first_W[words], text.count_W[words]
    rng.random(len(rows))  # once the choice of sentences: what follows is drawn as it was then
    changed = np.flatnonzero((rng.random(len(words)) < share) & (text.type_W[words] >= 0))
    entries, langs[changed] = text.lexicon.draw(text.type_W[words[changed]], rng)
    first[changed] = text.lexicon_start + text.lexicon.first_E[entries]
    count[changed] = text.lexicon.count_E[entries]
    n_words_R = np.diff(text.word_offsets)[numbers]
    return _laid_out(text, numbers, n_words_R, first, count, langs)


def _laid_out(
    text: SwitchableText,
    numbers: np.ndarray,
    n_words_R: np.ndarray,
    first: np.ndarray,
    count: np.ndarray,
    langs: np.ndarray,
) -> Rows:
    """Rows of words, given by their pieces, with special pieces around them."""
    sentences = text.sentences
    before, after = sentences.before, sentences.after_single
    pieces, room = offsets_of(count), sentences.max_length - before[1] - after[1]
    first_words = offsets_of(n_words_R)[:-1]
    kept = np.clip(room - (pieces[:-1] - np.repeat(pieces[first_words], n_words_R)), 0, count)
    parts = offsets_of(n_words_R + 2)  # the words of each row, between two special parts
    inner = np.ones(parts[-1], bool)
    inner[parts[:-1]] = inner[parts[1:] - 1] = False
    starts_P, lengths_P = np.empty(parts[-1], np.int64), np.empty(parts[-1], np.int64)
    words_P = np.full(parts[-1], -1)
    langs_P = np.repeat(sentences.langs_S[numbers], n_words_R + 2)
    starts_P[parts[:-1]], lengths_P[parts[:-1]] = before
    starts_P[parts[1:] - 1], lengths_P[parts[1:] - 1] = after
    starts_P[inner], lengths_P[inner], langs_P[inner] = first, kept, langs
    words_P[inner] = np.arange(len(first)) - np.repeat(first_words, n_words_R)
    piece_ends = np.cumsum(lengths_P)
    index = np.arange(piece_ends[-1]) + np.repeat(starts_P - (piece_ends - lengths_P), lengths_P)
    lengths_R = np.add.reduceat(lengths_P, parts[:-1])
    changed, words = index >= text.lexicon_start, np.repeat(words_P, lengths_P)
    return Rows(
        sentences.ids[index],
        np.where(changed, words, sentences.words[index]),
        np.where(changed, words, sentences.lasts[index]),
        np.repeat(langs_P, lengths_P),
        np.zeros(len(index), np.int64),
        offsets_of(lengths_R),
        np.full((len(numbers), 1), before[1]),
        lengths_R[:, None] - before[1] - after[1],
        sentences.languages,
    )
