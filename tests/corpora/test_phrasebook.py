from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.grammar import LANGS, capacity, sentence
from raxalign.corpora.grammar.clauses import Clause
from raxalign.corpora.grammar.compose import Meaning, tokens
from raxalign.corpora.grammar.sentences import Sentence
from raxalign.corpora.grammar.sentences import links as links_between
from raxalign.corpora.grammar.terms import NP
from raxalign.corpora.phrasebook import Phrasebook
from raxalign.errors import DataError

CONTENT = {"NOUN", "PROPN", "VERB", "ADJ", "NUM", "ADV"}


def read(lang: str, pivot: str = "en", size: int = 200, seed: int = 0) -> list[SentencePair]:
    return list(
        Phrasebook(Phrasebook.Params(size=size, seed=seed)).read(
            lang, pivot, CorpusInputs({}, Path())
        )
    )


def said(kind: str, *clauses: Clause) -> dict[str, str]:
    made = Sentence(0, Meaning(kind, clauses))
    return {lang: made.realize(lang).text for lang in LANGS}


def links_of(clause: Clause, source: str, target: str) -> set[tuple[str, str]]:
    made = Sentence(0, Meaning("main", (clause,)))
    one, other = made.realize(source).words, made.realize(target).words
    return {(one[i], other[j]) for i, j in made.links(source, target)}


def test_the_same_id_is_the_same_sentence_in_all_languages():
    by_lang = {lang: read(lang) for lang in LANGS if lang != "en"}
    for pairs in by_lang.values():
        assert [pair.id for pair in pairs] == list(range(200))
        assert [pair.target for pair in pairs] == [pair.target for pair in by_lang["de"]]
    crossed = read("bg", "el")
    assert [pair.source for pair in crossed] == [pair.source for pair in by_lang["bg"]]
    assert [pair.target for pair in crossed] == [pair.source for pair in by_lang["el"]]


def test_smaller_sizes_are_prefixes_and_seeds_differ():
    assert read("fr", size=50) == read("fr", size=200)[:50]
    assert [p.target for p in read("fr", seed=1)] != [p.target for p in read("fr")]


def test_another_process_makes_the_same_sentences():
    code = (
        "from raxalign.corpora.grammar import sentence; print('|'.join(sentence(i,"
        " 3).realize('en').text for i in range(40)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77"},
    )
    assert out.stdout.strip().split("|") == [sentence(i, 3).realize("en").text for i in range(40)]


def test_twenty_thousand_sentences_are_different_in_english():
    assert len({sentence(i).realize("en").words for i in range(20_000)}) == 20_000
    assert capacity() > 50_000


def test_every_content_word_is_linked_and_links_are_in_range():
    for number in range(620):
        made = sentence(number)
        parts = {lang: made.realize(lang) for lang in LANGS}
        for source, target in permutations(LANGS, 2):
            links = links_between(parts[source].senses, parts[target].senses)
            linked = {i for i, _ in links}
            assert all(
                0 <= i < len(parts[source].words) and 0 <= j < len(parts[target].words)
                for i, j in links
            )
            missing = [
                w
                for i, w in enumerate(parts[source].words)
                if parts[source].tags[i] in CONTENT and i not in linked
            ]
            assert not missing, (source, target, parts[source].text, missing)


def test_tags_and_entities_are_as_many_as_words():
    for number in range(100):
        for lang in LANGS:
            made = sentence(number).realize(lang)
            assert len(made.words) == len(made.tags) == len(made.entities) == len(made.senses)


def test_an_unknown_language_names_the_six():
    with pytest.raises(DataError, match="en, de, es, fr, bg, el"):
        Phrasebook(Phrasebook.Params()).read("nl", "en", CorpusInputs({}, Path()))


def test_more_sentences_than_there_are_is_an_error():
    with pytest.raises(DataError, match="different sentences"):
        Phrasebook(Phrasebook.Params(size=10**9)).read("de", "en", CorpusInputs({}, Path()))


def test_german_puts_verbs_last_in_subordinate_clauses():
    inner = Clause(
        NP("noun", "girl"),
        "invite",
        "past",
        NP("noun", "student", adjective="young"),
        time="yesterday",
    )
    assert said("that", Clause(NP("female", "0"), "say", "past"), inner) == {
        "en": "Mary said that the girl invited the young student yesterday.",
        "de": "Maria hat gesagt, dass das Mädchen gestern den jungen Studenten eingeladen hat.",
        "es": "María dijo que la niña invitó al estudiante joven ayer.",
        "fr": "Marie a dit que la fille a invité le jeune étudiant hier.",
        "bg": "Мария каза, че момичето покани младия студент вчера.",
        "el": "Η Μαρία είπε ότι το κορίτσι προσκάλεσε τον νέο φοιτητή χθες.",
    }


def test_separable_verbs_split_in_main_clauses_and_join_in_subordinate_ones():
    clause = Clause(NP("noun", "boy"), "watch.look", "pres", NP("noun", "film", "this"))
    assert said("main", clause)["de"] == "Der Junge schaut diesen Film an."
    assert (
        said("because", clause, clause)["de"]
        == "Der Junge schaut diesen Film an, weil der Junge diesen Film anschaut."
    )
    assert ("watches", "schaut") in links_of(clause, "en", "de")
    assert ("watches", "an") in links_of(clause, "en", "de")


def test_numbers_possessives_and_enclitic_accents_agree():
    assert said(
        "main", Clause(NP("noun", "lawyer", "2", True), "lose", "fut", NP("noun", "car", "their"))
    ) == {
        "en": "Two lawyers will lose their car.",
        "de": "Zwei Anwälte werden ihr Auto verlieren.",
        "es": "Dos abogados van a perder su coche.",
        "fr": "Deux avocats vont perdre leur voiture.",
        "bg": "Двама адвокати ще загубят колата си.",
        "el": "Δύο δικηγόροι θα χάσουν το αυτοκίνητό τους.",
    }


def test_liking_turns_round_in_spanish_and_greek():
    clause = Clause(
        NP("noun", "queen"), "like.enjoy", "pres", NP("noun", "tulip", plural=True), negated=True
    )
    assert said("main", clause) == {
        "en": "The queen does not like the tulips.",
        "de": "Die Königin mag die Tulpen nicht.",
        "es": "A la reina no le gustan los tulipanes.",
        "fr": "La reine n'aime pas les tulipes.",
        "bg": "Кралицата не харесва лалетата.",
        "el": "Στη βασίλισσα δεν αρέσουν οι τουλίπες.",
    }


def test_french_participles_and_contractions():
    assert (
        said(
            "main",
            Clause(
                NP("noun", "friend", plural=True),
                "go",
                "past",
                place=NP("noun", "market"),
                place_as="to",
            ),
        )["fr"]
        == "Les amies sont allées au marché."
    )
    assert (
        said("main", Clause(NP("male", "0"), "see", "past", NP("pronoun", "she")))["fr"]
        == "Pierre l'a vue."
    )
    assert (
        said(
            "main",
            Clause(NP("noun", "man"), "buy", "past", NP("noun", "hat", "indef", adjective="old")),
        )["fr"]
        == "L'homme a acheté un vieux chapeau."
    )


def test_bulgarian_articles_and_greek_articles_link_as_parts():
    clause = Clause(NP("male", "0"), "see", "past", NP("noun", "house", adjective="big"))
    assert said("main", clause)["bg"] == "Петър видя голямата къща."
    assert {("the", "голямата"), ("big", "голямата"), ("house", "къща")} <= links_of(
        clause, "en", "bg"
    )
    assert {("Peter", "Ο"), ("Peter", "Πέτρος"), ("the", "το"), ("house", "σπίτι")} <= links_of(
        clause, "en", "el"
    )
    assert {("saw", "hat"), ("saw", "gesehen")} <= links_of(clause, "en", "de")
    assert {("hat", "a"), ("gesehen", "vu")} <= links_of(clause, "de", "fr")


def test_dropped_pronouns_link_to_the_verb():
    clause = Clause(NP("pronoun", "she"), "sleep", "past", place=NP("noun", "garden"))
    assert said("main", clause)["es"] == "Durmió en el jardín."
    assert {("She", "Durmió"), ("slept", "Durmió")} <= links_of(clause, "en", "es")
    assert {("in", "Im"), ("the", "Im")} <= {
        (a, b.capitalize()) for a, b in links_of(clause, "en", "de")
    }


@pytest.mark.parametrize(
    ("english", "one", "other"),
    [
        ("letter", NP("noun", "letter.mail"), NP("noun", "letter.sign")),
        ("bank", NP("noun", "bank.money"), NP("noun", "bank.river")),
        ("spring", NP("noun", "spring.coil"), NP("noun", "spring.water")),
        ("match", NP("noun", "match.game"), NP("noun", "match.fire")),
        ("plant", NP("noun", "plant.green"), NP("noun", "plant.factory")),
        ("order", NP("noun", "order.command"), NP("noun", "order.sequence")),
        (
            "hard",
            NP("noun", "chair", adjective="hard.solid"),
            NP("noun", "question", adjective="hard.difficult"),
        ),
        (
            "light",
            NP("noun", "room", adjective="light.bright"),
            NP("noun", "suitcase", adjective="light.weight"),
        ),
    ],
)
def test_words_with_several_senses_are_translated_apart(english, one, other):
    from raxalign.corpora.grammar.phrases import phrase

    for np in (one, other):
        assert english in [token[0] for token in phrase("en", np)]
    different = [
        lang
        for lang in LANGS
        if {t[0] for t in phrase(lang, one)[1:] or phrase(lang, one)}
        != {t[0] for t in phrase(lang, other)[1:] or phrase(lang, other)}
    ]
    assert {"de", "bg"} <= set(different)


def test_like_close_and_support_differ_by_use():
    enjoy = said("main", Clause(NP("noun", "man"), "like.enjoy", "pres", NP("noun", "dog")))
    compare = said(
        "main", Clause(NP("noun", "man"), "run", "pres", like=NP("noun", "dog", "indef"))
    )
    assert enjoy["de"] == "Der Mann mag den Hund."
    assert compare["de"] == "Der Mann läuft wie ein Hund."
    assert (compare["bg"], compare["el"]) == (
        "Мъжът тича като куче.",
        "Ο άντρας τρέχει σαν σκύλος.",
    )
    assert (
        said("main", Clause(NP("noun", "column"), "support.bear", "pres", NP("noun", "roof")))["es"]
        == "La columna sostiene el tejado."
    )
    assert (
        said(
            "main",
            Clause(
                NP("noun", "man"),
                "support.help",
                "pres",
                NP("noun", "friend", adjective="close.near"),
            ),
        )["es"]
        == "El hombre apoya a la amiga íntima."
    )


def test_questions_turn_the_verb():
    clause = Clause(NP("noun", "doctor"), "buy", "past", NP("noun", "book"))
    assert said("question", clause) == {
        "en": "Did the doctor buy the book?",
        "de": "Hat der Arzt das Buch gekauft?",
        "es": "¿Compró el médico el libro?",
        "fr": "Est-ce que le médecin a acheté le livre?",
        "bg": "Купи ли лекарят книгата?",
        "el": "Αγόρασε ο γιατρός το βιβλίο;",
    }


def test_sentences_have_four_to_twenty_words_or_so():
    lengths = [len(tokens("en", sentence(i).meaning)) for i in range(2000)]
    assert min(lengths) >= 4
    assert max(lengths) <= 24
