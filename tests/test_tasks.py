"""Fixed tasks: functions of seed and number, for any lists and rules, and streams of them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import tasks
from wordlelib.data import game_words
from wordlelib.game import decode_history, is_consistent
from wordlelib.prompts import parse_guess
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.teachers import MIX, task
from wordlelib.words import load_words, split_secrets

WORDS = game_words(sample=90)
RULES = rules_for(WORDS)
SOLVER = Solver(WORDS, RULES)
SECRETS = split_secrets(WORDS, test=10, val=5).train


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_task_depends_on_seed_and_number_alone(seed, number):
    """Another solver, and other tasks before it, change nothing."""
    made = task(SOLVER, SECRETS, seed, number)
    task(SOLVER, SECRETS, seed, number + 1)
    assert task(Solver(WORDS, RULES), SECRETS, seed, number) == made
    history, secret, source = made
    assert secret in SECRETS and source in MIX and len(history) < RULES.turns
    assert is_consistent(secret, history) and all(turn.guess != secret for turn in history)


def test_tasks_differ_and_keep_the_shares_of_their_sources():
    made = [task(SOLVER, SECRETS, 0, number) for number in range(1500)]
    assert len(set(made)) > len(made) / 2  # in so small a game states after the teacher's opener recur
    sources = Counter(source for *_, source in made)
    barren = 0.06  # openers that leave no decoy, games that end at once
    assert all(abs(sources[kind] / len(made) - share) < barren for kind, share in MIX.items())
    assert made[:50] != [task(SOLVER, SECRETS, 1, number) for number in range(50)]


@pytest.mark.parametrize("past_turns", range(RULES.turns))
def test_the_number_of_past_turns_can_be_part_of_the_case(past_turns):
    made = [task(SOLVER, SECRETS, 3, number, past_turns) for number in range(20)]
    assert {len(history) for history, *_ in made} == {past_turns}


def test_a_case_without_states_is_refused():
    with pytest.raises(ValueError, match="had no state after 7 turns"):
        task(SOLVER, SECRETS, 0, 0, 7)
    with pytest.raises(ValueError, match="unknown source 'x'"):
        task(SOLVER, SECRETS, 0, 0, mix={"x": 1.0})
    with pytest.raises(ValueError, match="rows of kind 'x'; use one of sft, states"):
        tasks.stream(SOLVER, SECRETS, 0, 5, "x")


@pytest.mark.parametrize("hard_mode", [False, True])
def test_other_lengths_letters_and_hard_mode_make_tasks(tmp_path, hard_mode):
    """Spanish words of six letters with ñ."""
    spanish = [
        "añejos",
        "cabaña",
        "espuma",
        "gruñir",
        "huraño",
        "leñera",
        "mañana",
        "rebaño",
        "soñada",
        "tacaño",
    ]
    (tmp_path / "es.txt").write_text("\n".join(spanish), encoding="utf-8")
    words = load_words(tmp_path / "es.txt", alphabet="a-zñ")
    solver = Solver(words, rules_for(words, alphabet="a-zñ", hard_mode=hard_mode))
    rows = [tasks.make_row(solver, spanish, 0, number) for number in range(60)]
    guesses = [parse_guess(row["completion"][0]["content"], 6, "a-zñ").guess for row in rows]
    assert set(guesses) <= set(spanish) and any("ñ" in guess for guess in guesses)
    pairs = zip(guesses, rows, strict=True)
    assert all(is_consistent(guess, decode_history(row["history"])) for guess, row in pairs)


@pytest.mark.parametrize("kind", tasks.KINDS)
def test_a_stream_gives_each_row_once_and_goes_on_where_it_was(kind):
    n = 150
    expected = [tasks.make_row(SOLVER, SECRETS, 5, number, kind) for number in range(n)]
    stream = tasks.stream(SOLVER, SECRETS, 5, n, kind)
    rows = list(stream)
    assert list(rows[0]) == list(expected[0])
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
    reading, read = iter(stream), []
    for _ in range(40):
        read.append(next(reading))
    again = tasks.stream(SOLVER, SECRETS, 5, n, kind)
    again.load_state_dict(stream.state_dict())
    assert read + list(again) == rows


def test_readers_share_a_stream():
    stream = tasks.stream(SOLVER, SECRETS, 5, 100)
    parts = [list(stream.shard(num_shards=2, index=index)) for index in range(2)]
    assert min(map(len, parts)) > 30
    assert sorted(map(repr, parts[0] + parts[1])) == sorted(map(repr, stream))
