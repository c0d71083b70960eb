from __future__ import annotations

from collections import Counter

import pytest

from raxalign.corpora.grammar import ENTITIES, LANGS, SLOTS, entailment, entities, questions, slots
from raxalign.errors import DataError


def bio_is_valid(tags: tuple[str, ...]) -> bool:
    return all(
        tag[0] != "I" or (k > 0 and tags[k - 1][2:] == tag[2:]) for k, tag in enumerate(tags)
    )


def spans(tags: tuple[str, ...]) -> Counter[str]:
    return Counter(tag[2:] for tag in tags if tag[0] == "B")


def test_entailment_is_balanced_in_every_prefix():
    for n in (30, 300):
        assert set(Counter(example.label for example in entailment(n, "en", "train")).values()) == {
            n // 3
        }


def test_entailment_is_parallel_by_id():
    for lang in LANGS:
        assert [(e.id, e.label) for e in entailment(60, lang, "dev")] == [
            (e.id, e.label) for e in entailment(60, "en", "dev")
        ]


def test_smaller_sets_are_prefixes():
    assert entailment(300, "el", "train", 5)[:45] == entailment(45, "el", "train", 5)
    assert slots(40, "fr", "test")[:15] == slots(15, "fr", "test")


def test_no_hypothesis_is_in_two_splits_whatever_the_seed():
    parts = {
        split: {e.hypothesis for seed in (0, 1) for e in entailment(200, "en", split, seed)}
        for split in ("train", "dev", "test")
    }
    assert not parts["train"] & parts["test"]
    assert not parts["train"] & parts["dev"]
    assert not parts["dev"] & parts["test"]


def test_the_hypothesis_alone_and_overlap_alone_do_not_tell_the_label():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    train, test = entailment(600, "en", "train"), entailment(450, "en", "test")
    vectors = CountVectorizer(token_pattern=r"\S+", ngram_range=(1, 2))
    model = LogisticRegression(max_iter=200).fit(
        vectors.fit_transform([" ".join(e.hypothesis) for e in train]), [e.label for e in train]
    )
    assert (
        model.score(
            vectors.transform([" ".join(e.hypothesis) for e in test]), [e.label for e in test]
        )
        < 0.42
    )

    def overlap(e):
        premise, hypothesis = set(e.premise), set(e.hypothesis)
        return [
            len(premise & hypothesis) / len(hypothesis),
            len(premise - hypothesis),
            len(hypothesis - premise),
        ]

    model = LogisticRegression(max_iter=200).fit(
        [overlap(e) for e in train], [e.label for e in train]
    )
    assert model.score([overlap(e) for e in test], [e.label for e in test]) < 0.75


@pytest.mark.parametrize(("make", "types"), [(slots, SLOTS), (entities, ENTITIES)])
def test_tags_are_valid_bio_and_the_same_spans_in_all_languages(make, types):
    for made in zip(*(make(150, lang, "train") for lang in LANGS), strict=True):
        for example in made:
            assert len(example.words) == len(example.tags)
            assert bio_is_valid(example.tags)
            assert set(spans(example.tags)) <= set(types)
            assert spans(example.tags) == spans(made[0].tags), (example, made[0])
    assert {
        tag[2:] for example in make(150, "en", "train") for tag in example.tags if tag != "O"
    } == set(types)


@pytest.mark.parametrize("make", [slots, entities])
def test_tagged_train_and_test_are_disjoint(make):
    assert not {e.words for e in make(400, "en", "train")} & {
        e.words for e in make(150, "en", "test")
    }


def test_answers_stand_in_their_contexts():
    for lang in LANGS:
        for question in questions(90, lang, "test"):
            assert question.answer
            assert (
                question.context[question.start : question.start + len(question.answer)]
                == question.answer
            )
    english = questions(3, "en", "test")
    assert [question.question.split()[0] for question in english] == ["Who", "Where", "What"]


def test_contexts_of_train_and_test_are_disjoint():
    assert not {q.context for q in questions(300, "en", "train")} & {
        q.context for q in questions(100, "en", "test")
    }


def test_an_unknown_split_is_refused():
    with pytest.raises(DataError, match="train, dev or test"):
        entailment(3, "en", "validation")  # type: ignore[arg-type]
