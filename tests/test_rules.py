"""The record of rules: any field changes its digest, and two records are never mixed silently."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from wordlelib.rules import CHOICES, Rules, require_same_rules, rules_for
from wordlelib.words import sample_words

RULES = Rules("a" * 64, "b" * 64)
OTHER = {"length": 6, "alphabet": "a-zäöü", "turns": 8, "hard_mode": True, "universe": "allowed"}
OTHER |= {"lexicon": "train", "renderer": "both", "history": "chat", "thinking": "words"}


def other_value(name: str) -> object:
    return OTHER.get(name, getattr(RULES, name) + "x" if isinstance(getattr(RULES, name), str) else None)


@pytest.mark.parametrize("name", [field.name for field in fields(Rules)])
def test_every_field_changes_the_digest_and_is_named_when_two_records_differ(name):
    changed = replace(RULES, **{name: other_value(name)})
    assert changed.digest != RULES.digest
    with pytest.raises(ValueError, match=rf"03_grpo: the rules differ in {name} \("):
        require_same_rules(RULES, changed, "03_grpo")


def test_equal_records_have_one_digest_and_pass():
    again = Rules("a" * 64, "b" * 64)
    assert again == RULES and again.digest == RULES.digest
    assert len(RULES.digest) == 16 and int(RULES.digest, 16) >= 0
    require_same_rules(RULES, again, "anywhere")


def test_dictionary_round_trip():
    rules = replace(RULES, **OTHER)
    assert Rules.from_dict(rules.to_dict()) == rules


def test_a_record_from_before_there_was_a_choice_of_thinking_keeps_its_digest():
    """That of all rules so far: committed results are read by it."""
    assert Rules("a" * 64, "b" * 64, thinking="spelled").digest == "5787a953714d277c"
    assert "thinking" not in RULES.to_dict()
    assert replace(RULES, thinking="none").to_dict()["thinking"] == "none"


def test_record_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        RULES.turns = 7


@pytest.mark.parametrize("name", CHOICES)
def test_unknown_choice_is_refused_with_the_choices(name):
    with pytest.raises(ValueError, match=f"{name} is 'neither'; use one of {', '.join(CHOICES[name])}"):
        replace(RULES, **{name: "neither"})


@pytest.mark.parametrize("name", ["length", "turns"])
@pytest.mark.parametrize("value", [0, -1, 5.0, "5", True, None])
def test_counts_are_whole_numbers_from_one(name, value):
    with pytest.raises(ValueError, match=f"{name} is .*; use a whole number from 1"):
        replace(RULES, **{name: value})


@pytest.mark.parametrize("text", ["{word} is no word", "{} is no word", "half a brace {"])
def test_shown_text_with_foreign_braces_is_refused(text):
    with pytest.raises(ValueError, match=r"not_a_word_text .* can hold \{guess\}"):
        replace(RULES, not_a_word_text=text)


@pytest.mark.parametrize("alphabet", ["", "z-a", "a-\\"])
def test_alphabet_that_is_no_character_class_is_refused(alphabet):
    with pytest.raises(ValueError, match="alphabet is"):
        replace(RULES, alphabet=alphabet)


def test_unknown_and_missing_fields_are_named():
    with pytest.raises(ValueError, match="unknown field 'colour'"):
        Rules.from_dict(RULES.to_dict() | {"colour": "red"})
    values = RULES.to_dict()
    del values["allowed_sha256"]
    with pytest.raises(ValueError, match="allowed_sha256"):
        Rules.from_dict(values)


def test_rules_for_takes_hashes_and_length_from_the_lists(shipped):
    small = sample_words(shipped, 8)
    rules = rules_for(small, turns=4)
    assert (rules.answers_sha256, rules.length, rules.turns) == (small.sha256["answers"], 5, 4)
    assert rules.digest != rules_for(shipped, turns=4).digest
