"""Words to reject: near misses, the completions that refuse them, and what a training learns of those."""

import json
import random
from collections import Counter

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordlelib import clues, data, models, tasks, training
from wordlelib.clues import clue_rows
from wordlelib.game import Turn, decode_history, is_consistent, knowledge, score
from wordlelib.misses import MOST_AGAIN, MOST_LEFT, fitting, misses
from wordlelib.prompts import completion, is_well_formed, parse_guess, rejected_spans, rejected_words
from wordlelib.rules import rules_for
from wordlelib.solver import Solver, letter_table
from wordlelib.teachers import STUDENT_MIX, make_states
from wordlelib.thinking import stated_words
from wordlelib.words import load_words, sample_words, split_secrets

SHIPPED = load_words()
WORDS = sample_words(SHIPPED, 150, seed=3)
RULES = rules_for(WORDS, renderer="facts")
SPLIT = split_secrets(WORDS, test=40, val=10)
SOLVER = Solver(WORDS, RULES)


def rows(rejecting, n=300, candidates=1):
    rng, states = random.Random(0), make_states(SOLVER, SPLIT.train, n, 0, STUDENT_MIX)
    return [
        data.sft_row(SOLVER, *state, rng, candidates, None, "first", rejecting, SHIPPED.dictionary)
        for state in states
    ]


def histories(words):
    pairs = st.tuples(st.sampled_from(words.answers), st.lists(st.sampled_from(words.allowed), max_size=5))
    return pairs.map(lambda drawn: tuple(Turn(guess, score(guess, drawn[0])) for guess in drawn[1]))


@settings(max_examples=50)
@given(history=histories(SHIPPED))
def test_a_word_misfits_the_facts_exactly_when_it_contradicts_the_feedback(history):
    known = knowledge(history, 5)
    fits = set(fitting(letter_table(SHIPPED.answers, 5), known))
    assert fits == {n for n, word in enumerate(SHIPPED.answers) if is_consistent(word, history)}


@settings(max_examples=50)
@given(history=histories(WORDS), seed=st.integers(0, 999), guess=st.sampled_from(WORDS.answers))
def test_what_is_rejected_is_not_the_guess(history, seed, guess):
    """A word of the list, letters that fit and are no word, or a past guess; up to three, some again."""
    past = [turn.guess for turn in history if turn.guess != guess]
    of = (WORDS.answers, letter_table(WORDS.answers, 5), knowledge(history, 5))
    wrong, unjust = misses(*of, random.Random(seed), [guess], SHIPPED.dictionary, past)
    assert (wrong, unjust) == misses(*of, random.Random(seed), [guess], SHIPPED.dictionary, past)
    assert 1 <= len(set(wrong)) <= 3 and len(wrong) <= len(set(wrong)) + MOST_AGAIN and guess not in wrong
    for word in wrong:
        invented = word not in SHIPPED.dictionary and is_consistent(word, history)
        assert invented or word in WORDS.answers or word in past
        assert (word in unjust) == (word in WORDS.answers and is_consistent(word, history))
    assert len(set(unjust)) == len(unjust) and set(unjust) <= set(wrong)


def test_with_one_word_left_what_is_rejected_does_not_fit():
    """Near words, past guesses and no words; with more left others that fit are passed over too."""
    kinds, again = Counter(), 0
    for row in rows(1.0, 600):
        history, text = decode_history(row["history"]), row["completion"][0]["content"]
        left = [SOLVER.universe[n] for n in SOLVER.candidates(history)]
        wrong = rejected_words(text)
        again += len(wrong) > len(set(wrong))
        for word in wrong:
            kind = "past" if word in {turn.guess for turn in history} else "other" if word in left else "near"
            kinds[kind if word in SHIPPED.dictionary or kind == "past" else "invented"] += 1
            assert len(left) > 1 or word not in left
        assert set(row["unjust"].split()) == set(wrong) & set(left)
    assert min(kinds.values()) > 20 and set(kinds) == {"past", "other", "near", "invented"}
    assert again > 20


def test_no_word_is_named_that_was_rejected():
    for row in rows(1.0, candidates=3):
        text = row["completion"][0]["content"]
        assert set(rejected_words(text)).isdisjoint(stated_words(text))


def test_no_word_of_the_list_is_invented_where_no_others_are_known():
    """Nor is one that is named, though nothing fits: without other `real` words those of the list count."""
    for row in clue_rows(WORDS.answers, RULES, 400, 0, 1.0):
        text = row["completion"][0]["content"]
        assert set(rejected_words(text)).isdisjoint(stated_words(text))
    history = (Turn("crane", "BBBBB"), Turn(WORDS.answers[0], "BBBBB"), Turn("aeros", "GGGGG"))
    assert not len(SOLVER.candidates(history))
    for seed in range(100):
        text = data.sft_row(SOLVER, history, "", "", random.Random(seed), rejecting=1.0)["completion"]
        assert set(rejected_words(text[0]["content"])).isdisjoint(stated_words(text[0]["content"]))


def test_a_list_of_one_word_has_nothing_to_reject():
    history = (Turn("crane", "BBBBB"),)
    assert misses(
        ["solid"], letter_table(["solid"], 5), knowledge(history, 5), random.Random(0), ["solid"], ()
    ) == ([], [])


def test_rows_with_few_words_left_reject_some_and_then_guess_as_they_would():
    plain, checked = rows(0.0), rows(1.0)
    for row in checked:
        history, text = decode_history(row["history"]), row["completion"][0]["content"]
        guess = parse_guess(text).guess
        assert is_well_formed(text) and is_consistent(guess, history)
        assert bool(rejected_words(text)) == (len(SOLVER.candidates(history)) <= MOST_LEFT)
        assert stated_words(text) == [guess]  # rejected words are not stated
    assert [row["prompt"] for row in plain] == [row["prompt"] for row in checked]
    assert not any(rejected_words(row["completion"][0]["content"]) for row in plain)


def test_clues_reject_words_too(monkeypatch):
    asked, drawn = [], clues.drawn

    def recorded(*of):
        for known, fits in drawn(*of):
            asked.append(fits)
            yield known, fits

    monkeypatch.setattr(clues, "drawn", recorded)
    made = list(clue_rows(WORDS.answers, RULES, 200, 0, 0.5, SHIPPED.dictionary))
    texts = [row["completion"][0]["content"] for row in made]
    assert 40 < sum(bool(rejected_words(text)) for text in texts) < 160
    assert all(is_well_formed(text) for text in texts)
    assert any(row["unjust"] for row in made)
    for row, text, fits in zip(made, texts, asked, strict=True):
        assert set(row["unjust"].split()) == set(rejected_words(text)) & set(fits)


def test_rejected_words_are_read_as_they_are_written():
    text = completion(["beard"], "beard", "spelled", ["weard", "bears"])
    assert text == "<think>W E A R D no; B E A R S no; B E A R D</think><guess>beard</guess>"
    for read in (text, text.removeprefix("<think>")):  # which a prompt may end with
        assert rejected_words(read) == ["weard", "bears"] and stated_words(read) == ["beard"]


@pytest.mark.parametrize("thinking", ["a vowel; certainly no; oh no", "is it A B? no", "A no; B E A R D"])
def test_what_others_write_is_not_taken_for_rejected_words(thinking):
    assert not rejected_words(f"<think>{thinking}</think><guess>beard</guess>")


@given(text=st.text("no; <think></think>ABab", max_size=60))
def test_reading_rejected_words_is_total(text):
    assert all(text[stop : stop + 3] == " no" for _, stop in rejected_spans(text))
    stated_words(text), stated_words(text, "words")


def test_rejected_words_carry_no_loss():
    """They are to be refused, not named: the label of every token is kept but those of their letters."""
    tokenizer = models.nano_tokenizer(RULES)
    row = next(
        row
        for row in rows(1.0)
        if len(rejected_words(row["completion"][0]["content"])) == 3 and not row["unjust"]
    )
    [tokens] = training.tokenize([row], tokenizer, 400)
    text = row["completion"][0]["content"]
    shown = training.check_labels(row, tokens, tokenizer)
    for start, stop in reversed(rejected_spans(text)):
        text = text[:start] + text[stop:]
    assert shown.removesuffix(tokenizer.eos_token).replace(" ", "") == text.replace(" ", "")
    masked = [n for n, label in enumerate(tokens["labels"]) if label == training.IGNORED]
    assert (
        len(masked)
        == len(tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=False))
        + 3 * 5
    )
    with pytest.raises(ValueError, match="not the completion"):
        training.check_labels(row, tokens | {"labels": tokens["input_ids"]}, tokenizer)


def test_the_no_behind_a_word_that_fits_carries_no_loss():
    """What comes after it is learned, and so is every other *no*; without the column all are, as before."""
    tokenizer = models.nano_tokenizer(RULES)

    def trained(row):
        [tokens] = training.tokenize([row], tokenizer, 400)
        return training.check_labels(row, tokens, tokenizer)

    mixed = 0
    for row in rows(1.0):
        said = rejected_words(row["completion"][0]["content"])
        fitting_ones = sum(word in row["unjust"].split() for word in said)
        mixed += 0 < fitting_ones < len(said)
        before = {name: value for name, value in row.items() if name != "unjust"}
        assert trained(before).count(" no") == len(said)
        assert trained(row).count(" no") == len(said) - fitting_ones
        assert trained(row).replace(" no", "") == trained(before).replace(" no", "")
    assert mixed > 5


def test_any_other_label_of_a_row_that_rejects_words_stops_the_training():
    """With a loss where none belongs, or without one: letters and *no*s as much as all the rest."""
    tokenizer = models.nano_tokenizer(RULES)
    row = next(
        row
        for row in rows(1.0)
        if row["unjust"] and set(rejected_words(row["completion"][0]["content"])) > set(row["unjust"].split())
    )
    [tokens] = training.tokenize([row], tokenizer, 400)
    training.check_labels(row, tokens, tokenizer)
    for n, (label, token) in enumerate(zip(tokens["labels"], tokens["input_ids"], strict=True)):
        labels = list(tokens["labels"])
        labels[n] = token if label == training.IGNORED else training.IGNORED
        with pytest.raises(ValueError, match="the trained labels"):
            training.check_labels(row, tokens | {"labels": labels}, tokenizer)


def test_data_without_that_column_are_tokenized_as_before():
    tokenizer, made = models.nano_tokenizer(RULES), rows(1.0, 40)
    before = [{name: value for name, value in row.items() if name != "unjust"} for row in made]
    for of in (before, datasets.Dataset.from_list(before)):
        assert training.tokenized_dataset(of, tokenizer, 400).to_list() == training.tokenize(
            before, tokenizer, 400
        )
    masked = training.tokenized_dataset(made, tokenizer, 400).to_list()
    assert masked == training.tokenize(made, tokenizer, 400) != training.tokenize(before, tokenizer, 400)


@pytest.mark.parametrize("lexicon", ["full", "train"])
def test_no_word_that_may_not_be_named_is_rejected(tmp_path, lexicon):
    rules = rules_for(WORDS, lexicon=lexicon, renderer="facts")
    source = {"sample": 150, "sample_seed": 3}
    card = data.build(
        tmp_path, rules, SPLIT, source=source, rows=300, states=20, clues=100, rejecting=1.0, workers=1
    )
    made = data.load(tmp_path)
    texts = [row["completion"][0]["content"] for row in made.rows("sft")]
    named = {word for text in texts for word in rejected_words(text)}
    assert card["rejecting"] == 1.0 and named
    assert (lexicon == "train") == named.isdisjoint(SPLIT.test)
    task = tasks.make_row(number=1, **tasks._of(made, 0, made.sft_secrets))
    assert rejected_words(task["completion"][0]["content"]) or len(json.loads(task["history"])) < 2


def test_rejecting_needs_a_thinking_that_names_words(tmp_path):
    rules = rules_for(WORDS, thinking="none")
    with pytest.raises(ValueError, match="rejecting: words are rejected where the thinking"):
        data.build(
            tmp_path, rules, SPLIT, source={"sample": 150, "sample_seed": 3}, rows=9, states=9, rejecting=0.5
        )
