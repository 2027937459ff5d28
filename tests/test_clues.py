"""Clues: words by their pattern and letters, and the rows made of them."""

import random
import statistics
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import clues, data
from wordlelib.clues import clue, clue_rows, copies, fitting
from wordlelib.game import knowledge
from wordlelib.prompts import (
    completion,
    is_well_formed,
    messages,
    parse_guess,
    rejected_words,
    system_prompt,
)
from wordlelib.rules import rules_for
from wordlelib.solver import Solver, letter_table
from wordlelib.teachers import STUDENT_MIX, make_states
from wordlelib.words import Words, load_words, sample_words, split_secrets

WORDS = sample_words(load_words(), 150, seed=3)
RULES = rules_for(WORDS)
LETTERS = "".join(WORDS.answers)
UNJUST = ("itself", "another", "twice")  # what an answer rejects that is right but for that


def fits(word, known):
    """The meaning of a clue, letter by letter."""
    placed = all(k in ("_", letter) for k, letter in zip(known.pattern, word, strict=True))
    present = all(word.count(letter) > known.pattern.count(letter) for letter in known.present)
    elsewhere = not any(
        word[place - 1] == letter
        for letter, barred in (*known.present.items(), *known.barred.items())
        for place in barred
    )
    least = all(word.count(letter) >= least for letter, least in known.least.items())
    most = all(word.count(letter) <= most for letter, most in known.most.items())
    return placed and present and elsewhere and least and most and not set(known.absent) & set(word)


@given(word=st.sampled_from(WORDS.answers), seed=st.integers(), count=st.booleans())
def test_a_clue_is_true_and_fits_the_words_that_it_says(word, seed, count):
    rng = random.Random(seed)
    known = clue(word, rng, LETTERS)
    if count:
        known = copies(known, word, rng)
    assert fits(word, known)
    found = {WORDS.answers[i] for i in fitting(letter_table(WORDS.answers, RULES.length), known)}
    assert found == {other for other in WORDS.answers if fits(other, known)}


def test_rows_ask_for_a_word_without_a_game_and_name_one_that_fits():
    rows = list(clue_rows(WORDS.answers, RULES, 400, "seed"))
    assert (
        rows
        == list(clue_rows(WORDS.answers, RULES, 400, "seed"))
        != list(clue_rows(WORDS.answers, RULES, 400, "other"))
    )
    for row in rows:
        system, user = row["prompt"]
        assert system["content"] == system_prompt(RULES)
        assert user["content"].startswith("Pattern: ") and "uess" not in user["content"]
        text = row["completion"][0]["content"]
        assert is_well_formed(text) and parse_guess(text).guess in WORDS.answers
        assert (row["secret"], row["history"], row["source"]) == ("", "[]", "clue")


def test_clues_look_like_the_summary_of_their_renderer():
    """Open places, and where letters that are placed have no further copy, in `facts` alone."""
    shown = {}
    for renderer in ("words", "facts"):
        rows = clue_rows(WORDS.answers, rules_for(WORDS, renderer=renderer), 200, 0)
        shown[renderer] = "\n".join(row["prompt"][1]["content"] for row in rows)
    assert "(not " in shown["words"] and "(not " not in shown["facts"]
    for line in ("No further: ", "Not: "):
        assert line not in shown["words"] and line in shown["facts"]


def test_clues_tell_about_as_much_as_states_in_which_one_word_is_left():
    """Mean numbers of letters placed, present and absent, and of places open to a present letter; how often a
    place is barred to a letter that is placed, and a letter said to have no further copy."""
    words = load_words()
    rules, rng = rules_for(words, renderer="facts"), random.Random(0)
    solver, secrets = Solver(words, rules), rng.sample(words.answers, 300)
    met = (history for history, _, _ in make_states(solver, secrets, 1500, 0, STUDENT_MIX) if history)
    states = [knowledge(history, 5) for history in met if len(solver.candidates(history)) == 1]
    asked = [
        known for known, right in islice(clues.drawn(words.answers, rules, rng), 1500) if len(right) == 1
    ]

    def told(facts):
        parts = (
            (5 - k.pattern.count("_"), len(k.present), len(k.absent), bool(k.barred), any(k.most.values()))
            for k in facts
        )
        barred = [places for k in facts for places in k.present.values()]
        unknown = [k.pattern.count("_") for k in facts for _ in k.present]
        opened = statistics.mean(unknown) - statistics.mean(map(len, barred))
        return [*(statistics.mean(map(float, column)) for column in zip(*parts, strict=True)), opened]

    assert told(asked) == pytest.approx(told(states), rel=0.25)


def test_a_clue_can_say_that_a_letter_comes_twice_and_gives_seldom_all_letters_away():
    words = Words(("radar", "civic", "mamma"), ("radar", "civic", "mamma"))
    rules = rules_for(words, renderer="facts")
    shown = [row["prompt"][1]["content"] for row in clue_rows(words.answers, rules, 600, 0)]
    assert any("A A in" in text for text in shown) and any("R R in" in text for text in shown)

    def complete(known):
        return known.pattern.count("_") == sum(
            max(1, known.least.get(letter, 0) - known.pattern.count(letter)) for letter in known.present
        )

    asked = [known for known, _ in islice(clues.drawn(WORDS.answers, rules, random.Random(0)), 1000)]
    rng = random.Random(0)
    anyhow = [copies(clue(word, rng, LETTERS), word, rng) for word in WORDS.answers * 7]
    assert 0 < sum(map(complete, asked)) / 1000 < 0.5 * sum(map(complete, anyhow)) / len(anyhow)


def test_where_words_are_rejected_some_clues_show_what_was_tried():
    """Strings that fit and are no words, which the answer may reject and does not give."""
    rules, real = rules_for(WORDS, renderer="facts"), load_words().dictionary
    rows = list(clue_rows(WORDS.answers, rules, 600, 0, 0.5, real))
    shown = [row for row in rows if "Not words: " in row["prompt"][1]["content"]]
    assert 0.1 < len(shown) / len(rows) < 0.3
    again = 0
    for row in shown:
        lines = dict(line.split(": ") for line in row["prompt"][1]["content"].split("\n"))
        tried = [word.replace(" ", "").lower() for word in lines["Not words"].split("; ")]
        text = row["completion"][0]["content"]
        again += not set(tried).isdisjoint(rejected_words(text))
        assert 1 <= len(tried) == len(set(tried)) <= 3 and real.isdisjoint(tried)
        for word in tried:
            pattern = lines["Pattern"].replace(" ", "").lower()
            assert all(known in ("_", letter) for known, letter in zip(pattern, word, strict=True))
            assert set(lines.get("Absent", "").lower().split()).isdisjoint(word)
            assert parse_guess(text).guess != word
    assert again > 5
    assert not any("Not words" in str(row) for row in clue_rows(WORDS.answers, rules, 200, 0, 0.0, real))


def test_every_word_is_asked_for_about_as_often():
    rows = islice(clue_rows(WORDS.answers, RULES, 3000, 1), 3000)
    named = Counter(parse_guess(row["completion"][0]["content"]).guess for row in rows)
    assert set(named) == set(WORDS.answers) and max(named.values()) < 3 * min(named.values())


def test_other_lengths_and_alphabets_have_clues_too():
    words = Words(("größe", "äpfel", "übung", "straße"[:5]), ("größe", "äpfel", "übung", "straß"))
    rows = list(clue_rows(words.answers, rules_for(words, alphabet="a-zäöüß"), 20, 0))
    assert {parse_guess(row["completion"][0]["content"], 5, "a-zäöüß").guess for row in rows} == set(
        words.answers
    )


@pytest.mark.parametrize("universe", ["answers", "allowed"])
def test_clues_to_sample_answers_to_name_all_words_that_are_right(universe):
    """Those among which a player looks for the secret."""
    words = Words(WORDS.answers[::3], WORDS.answers)
    rules = rules_for(words, universe=universe)
    asked = [list(clues.questions(words, rules, 60, seed)) for seed in ("seed", "seed", "other")]
    assert asked[0] == asked[1] != asked[2]
    rows = [clues.state(clue, rules) for clue in asked[0]]
    right = [row["fits"].split() for row in rows]
    assert all(row["best_guess"] in fits for row, fits in zip(rows, right, strict=True))
    assert [row["n_candidates"] for row in rows] == list(map(len, right))
    strange = {word for fits in right for word in fits} - set(words.answers)
    assert bool(strange) == (universe == "allowed") and strange <= set(words.allowed)


@pytest.mark.parametrize("renderer", ["words", "both", "facts"])
def test_a_clue_is_asked_again_after_an_answer_that_is_no_word(renderer):
    """What was tried stands there as it does in a state; any other answer asks nothing more."""
    rules = rules_for(WORDS, renderer=renderer)
    clue = next(clues.questions(WORDS, rules, 1, 0))
    for text in ("", "crane", completion(["cranes"], "cranes"), completion([clue.word], clue.word)):
        assert clues.again(clue, text, WORDS, rules) is None
    assert clues.again(clue, completion(["zzzzz"], "zzzzz"), WORDS, rules, {"zzzzz"}) is None
    once = clues.again(clue, completion(["zzzzz"], "zzzzz"), WORDS, rules)
    assert clues.again(once, completion(["zzzzz"], "zzzzz"), WORDS, rules) is None
    twice = clues.again(once, completion(["qqqqq"], "qqqqq"), WORDS, rules)
    assert once.right == twice.right == clue.right
    assert [turn.guess for turn in twice.tries] == ["zzzzz", "qqqqq"]
    state = messages(twice.tries, rules)[1]["content"].split("\n")[1:]
    shown = [line for line in state if "Z Z Z Z Z" in line or "ZZZZZ" in line or "QQQQQ" in line]
    lines = clues.prompt(twice.known, rules, twice.tries)[1]["content"].split("\n")
    assert shown and set(shown) < set(lines)
    assert set(lines) - set(shown) == set(clues.prompt(clue.known, rules)[1]["content"].split("\n"))


@given(answered=st.lists(st.sampled_from(["right", "just", *UNJUST, "wrong", "no word", ""]), max_size=9))
def test_each_clue_is_missed_or_solved_and_a_missed_one_may_come_again(answered):
    """Missed is also one whose answer rejects what it then guesses, another word that fits, or one twice."""
    asked = [clue for clue in clues.questions(WORDS, RULES, 60, 1) if len(clue.right) > 1][: len(answered)]
    say = {"wrong": WORDS.answers[0], "no word": "zzzzz"}

    def text(how, clue):
        word, others = say.get(how, clue.word), [right for right in clue.right if right != clue.word]
        rejected = {"just": ["zzzzz"], "itself": [clue.word], "another": others[:1], "twice": ["zzzzz"] * 2}
        return how and completion([word], word, rejected=rejected.get(how, ()))

    missed, solved = clues.answered(asked, list(map(text, answered, asked)), WORDS, RULES)
    expected = []
    for given_clue, how in zip(asked, answered, strict=True):
        if how in ("right", "just") or (how == "wrong" and WORDS.answers[0] in given_clue.right):
            assert given_clue == solved.pop(0)
        else:
            expected += [given_clue] + [(given_clue.word, "zzzzz")] * (how == "no word")
    assert not solved
    assert expected == [(clue.word, clue.tries[0].guess) if clue.tries else clue for clue in missed]


@pytest.mark.parametrize("lexicon", ["full", "train"])
def test_training_data_have_clues_of_the_words_that_may_be_named(tmp_path, lexicon):
    """Of held-out words with the full lexicon alone; a clue is no turn and has no secret."""
    split = split_secrets(WORDS, test=40, val=10)
    rules = rules_for(WORDS, lexicon=lexicon, renderer="facts")
    source = {"sample": 150, "sample_seed": 3}
    how = {"rows": 200, "states": 20, "clues": 900, "rejecting": 0.5, "workers": 1}
    card = data.build(tmp_path, rules, split, source=source, **how)
    rows = [row for row in data.load(tmp_path).rows("sft") if row["source"] == "clue"]
    assert (
        card["files"]["sft"]["by_source"]["clue"] == card["files"]["sft"]["by_turn"]["0"] == len(rows) > 850
    )
    named = {parse_guess(row["completion"][0]["content"]).guess for row in rows}
    assert named == set(split.train if lexicon == "train" else WORDS.answers)
    assert "clue" not in card["files"]["states"]["by_source"]
    texts = [message["content"] for row in rows for message in row["prompt"][1:] + row["completion"]]
    assert any("Not words: " in text for text in texts)
    letters = ";".join(texts).replace(" ", "").lower()
    assert (lexicon == "full") == any(word in letters for word in split.test)


def test_clues_are_added_to_the_rows_of_another_teacher(tmp_path, monkeypatch):
    """Those of a stream, which is read once and written in pieces; all its early duplicates stay."""
    split, source = split_secrets(WORDS, test=40, val=10), {"sample": 150, "sample_seed": 3}
    text = {"role": "assistant", "content": completion([split.train[0]], split.train[0])}
    about = {"secret": split.train[0], "history": "[]", "source": "import", "unjust": ""}
    theirs = {"prompt": messages((), RULES), "completion": [text], **about}
    monkeypatch.setattr(data, "ONE_PIECE", 3)
    taught = data.Taught({"sft": (dict(theirs) for _ in range(7))}, [], {})
    options = {"rows": 1, "states": 1, "clues": 2, "duplicates": "early", "taught": taught}
    data.build(tmp_path, RULES, split, source=source, **options)
    rows = data.load(tmp_path).rows("sft")
    assert rows[:7] == [theirs] * 7 and [row["source"] for row in rows[7:]] == ["clue"] * 2


@pytest.mark.parametrize("shown", [{"renderer": "symbols"}, {"history": "chat"}])
def test_states_without_a_summary_have_no_clues(tmp_path, shown):
    rules, split = rules_for(WORDS, **shown), split_secrets(WORDS, test=40, val=10)
    source = {"sample": 150, "sample_seed": 3}
    with pytest.raises(ValueError, match="n_clues: clues look like the summary"):
        data.build(tmp_path, rules, split, source=source, rows=10, states=10, clues=1)
