"""The solver against its contract: the matrix, exact candidates, information, published totals."""

import hashlib
import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordlelib.game import Game, Turn, encode_history, hard_mode_violation, is_consistent, score
from wordlelib.rules import rules_for
from wordlelib.solver import (
    LOST,
    OPTIMAL_TOTALS,
    POLICIES,
    Solver,
    greedy,
    guess_counts,
    minimax,
    pattern_code,
    pattern_matrix,
    pattern_text,
    random_consistent,
)
from wordlelib.words import Words, load_words, sample_words

TINY_WORDS = sample_words(load_words(), 40)
TINY = Solver(TINY_WORDS, rules_for(TINY_WORDS))

MATRIX_SHA256 = "718b305dae9c30175e2fce137ba91c899455300c7fbd84d16a0c375c3ecfc585"


@pytest.fixture(scope="module")
def full(shipped):
    return Solver(shipped, rules_for(shipped))


@pytest.fixture(scope="module")
def small(shipped):
    words = sample_words(shipped, 64)
    return Solver(words, rules_for(words))


@st.composite
def games(draw: st.DrawFn) -> tuple[Words, tuple[Turn, ...]]:
    """A small word list with many repeated letters, and a history that need not fit any word of it."""
    length = draw(st.integers(2, 6))
    word = st.text("abc", min_size=length, max_size=length)
    allowed = draw(st.lists(word, min_size=1, max_size=60, unique=True))
    answers = allowed[: draw(st.integers(1, len(allowed)))]
    secret = draw(word)
    valid = (word | st.sampled_from(allowed)).map(lambda guess: Turn(guess, score(guess, secret)))
    history = draw(st.lists(valid | st.just(Turn(None, None, "empty", None)), max_size=3))
    return Words(tuple(answers), tuple(allowed)), tuple(history)


def entropy(guess: str, candidates: list[str]) -> float:
    """Bits by definition, from the game's own feedback."""
    parts = Counter(score(guess, word) for word in candidates).values()
    return sum(n / len(candidates) * math.log2(len(candidates) / n) for n in parts)


def test_matrix_of_the_shipped_lists_is_the_agreed_one(full):
    assert full.matrix.shape == (12972, 2315) and full.matrix.dtype == np.uint8
    assert hashlib.sha256(full.matrix.tobytes()).hexdigest() == MATRIX_SHA256


@given(games())
def test_matrix_holds_the_feedback_of_the_game(game):
    words, _ = game
    matrix = pattern_matrix(words.allowed, words.answers)
    for row, guess in zip(matrix, words.allowed, strict=True):
        for code, secret in zip(row, words.answers, strict=True):
            assert pattern_text(int(code), words.length) == score(guess, secret)
            assert pattern_code(score(guess, secret)) == code


@pytest.mark.parametrize("length, dtype", [(1, np.uint8), (5, np.uint8), (6, np.uint16), (10, np.uint16)])
def test_code_type_follows_the_word_length(length, dtype):
    matrix = pattern_matrix(["a" * length], ["a" * length, "b" * length])
    assert matrix.dtype == dtype
    assert matrix.tolist() == [[3**length - 1, 0]]


def test_code_weighs_the_first_place_least():
    assert pattern_code("GBBBB") == 2 and pattern_code("BBBBY") == 81
    assert pattern_matrix(["crane"], ["cloud"]).tolist() == [[2]]
    with pytest.raises(ValueError):
        pattern_code("GBXBB")


def test_matrix_refuses_what_its_codes_cannot_hold():
    with pytest.raises(ValueError, match="words of 11 letters; 1 to 10 fit"):
        pattern_matrix(["a" * 11], ["b" * 11])
    with pytest.raises(ValueError, match="'word' has 4 letters, not 5"):
        pattern_matrix(["crane"], ["slate", "word"])
    with pytest.raises(ValueError, match="at least one guess and one secret"):
        pattern_matrix([], ["crane"])


@given(games(), st.sampled_from(["answers", "allowed"]))
def test_candidates_are_the_consistent_words(game, universe):
    words, history = game
    solver = Solver(words, rules_for(words, universe=universe))
    expected = [word for word in solver.universe if is_consistent(word, history)]
    assert solver.universe == getattr(words, universe)
    assert solver.consistent_words(history) == expected
    assert solver.consistent_words(encode_history(history)) == expected


@given(games())
def test_information_is_the_entropy_of_the_feedback(game):
    words, history = game
    solver = Solver(words, rules_for(words))
    candidates = solver.candidates(history)
    left = solver.consistent_words(history)
    bits = solver.information(np.arange(len(words.allowed)), candidates)
    expected = [entropy(guess, left) if left else 0.0 for guess in words.allowed]
    assert bits == pytest.approx(expected, abs=1e-9)
    assert [solver.bits(guess, candidates) for guess in words.allowed] == pytest.approx(expected, abs=1e-9)


def test_information_over_few_and_over_many_candidates_is_the_same_measure(full, shipped):
    """The ways of counting (all pairs, bins by candidate, bins by code) meet at 48 and 121 candidates."""
    rows = np.arange(0, len(shipped.allowed), 1000)
    for n in (1, 2, 47, 48, 49, 121, 122, 300):
        candidates = np.sort(np.random.default_rng(n).choice(2315, n, replace=False))
        left = [shipped.answers[i] for i in candidates]
        expected = [entropy(shipped.allowed[row], left) for row in rows]
        assert full.information(rows, candidates) == pytest.approx(expected, abs=1e-9)
        worst = [max(Counter(score(shipped.allowed[row], word) for word in left).values()) for row in rows]
        assert full.largest_part(rows, candidates).tolist() == worst


@pytest.mark.parametrize("feedback", ["BBBBB", "BYBBB", "YBBBY", "BGBBG", "GBYBB"])
def test_best_guess_of_the_full_lists_has_the_most_information(full, feedback):
    """From 2 to 168 candidates; the tables that the search reads agree with those of single guesses."""
    history = (Turn("raise", feedback),)
    left, candidates = full.consistent_words(history), full.candidates(history)
    scores = {word: round(full.bits(word, candidates), 9) for word in full.guesses}
    expected = min(full.guesses, key=lambda word: (-scores[word], word not in left, word))
    assert full.best_guess(history) == (expected, full.bits(expected, candidates))
    assert full.bits(expected, candidates) == pytest.approx(entropy(expected, left))


@pytest.mark.parametrize("hard_mode", [False, True])
@given(games(), st.sampled_from(["allowed", "answers"]))
def test_best_guess_follows_the_stated_rule(hard_mode, game, pool):
    """Most bits, then a possible answer, then alphabetical; with one or two left, the first."""
    words, history = game
    solver = Solver(words, rules_for(words, hard_mode=hard_mode))
    left = solver.consistent_words(history)
    legal = [word for word in getattr(words, pool) if not (hard_mode and hard_mode_violation(word, history))]
    guess, bits = solver.best_guess(history, pool)
    if not left or not legal:
        assert (guess, bits) == (words.allowed[0], 0.0)
    elif len(left) <= 2:
        assert guess == left[0] and bits == len(left) - 1
    else:
        expected = min(legal, key=lambda word: (-round(entropy(word, left), 9), word not in left, word))
        assert guess == expected
        assert bits == pytest.approx(entropy(guess, left))
    assert solver.lookahead(history)["n_candidates"] == len(left)


@given(games())
def test_minimax_leaves_the_fewest_candidates_in_the_worst_case(game):
    words, history = game
    solver = Solver(words, rules_for(words))
    left = solver.consistent_words(history)

    def worst(word):
        return max(Counter(score(word, other) for other in left).values())

    if len(left) > 2:
        expected = min(words.allowed, key=lambda word: (worst(word), word not in left, word))
        assert solver.minimax_guess(history) == expected


def test_information_of_well_known_openers(full):
    everything = full.candidates(())
    bits = {word: round(full.bits(word, everything), 3) for word in ("soare", "raise", "slate", "salet")}
    assert bits == {"soare": 5.886, "raise": 5.878, "slate": 5.856, "salet": 5.835}
    assert full.lookahead(()) == {
        "n_candidates": 2315,
        "best_guess": "soare",
        "best_bits": full.bits("soare", everything),
    }


@pytest.mark.parametrize(
    "opener, total", [("crate", 7945), ("salet", 7946), ("slate", 7960), ("crane", 7960), ("raise", 8036)]
)
def test_greedy_totals_over_all_answers(full, opener, total):
    counts = guess_counts(full, greedy, opener)
    assert list(counts) == list(full.universe)
    assert sum(counts.values()) == total
    assert max(counts.values()) <= 6


def test_no_policy_beats_the_optimal_total(full, shipped):
    best = OPTIMAL_TOTALS[shipped.sha256["answers"], shipped.sha256["allowed"]]
    assert best == {"normal": 7920, "hard": 8122, "answers": 7973}
    answers_only = sum(guess_counts(full, POLICIES["greedy_answers"]).values())
    assert best["normal"] < best["answers"] < answers_only < sum(guess_counts(full, minimax).values())


def play(solver: Solver, policy, secret: str, rng: random.Random) -> int:
    game = Game(solver.words, solver.rules, secret)
    while not game.done:
        game.play(policy(solver, game.history, rng))
    return len(game.history) if game.won else solver.rules.turns + 1


def test_random_consistent_player_needs_about_4_1_guesses(full):
    """Over many seeds: mean 4.08 with a loss as 7, 98.2% won; one pass of 2,315 games varies by 0.02."""
    rng = random.Random(0)
    counts = [play(full, random_consistent, secret, rng) for _ in range(3) for secret in full.universe]
    assert 4.03 < sum(counts) / len(counts) < 4.13
    assert 0.97 < sum(n <= 6 for n in counts) / len(counts) < 0.99


@pytest.mark.parametrize("name", ["greedy", "greedy_answers", "minimax"])
@pytest.mark.parametrize("hard_mode", [False, True])
def test_tree_walk_equals_playing_every_game(small, name, hard_mode):
    solver = Solver(small.words, rules_for(small.words, hard_mode=hard_mode, turns=4))
    policy = POLICIES[name]
    played = {secret: play(solver, policy, secret, random.Random(0)) for secret in solver.universe}
    assert guess_counts(solver, policy) == played


def test_tree_walk_counts_a_loss_as_one_turn_more(small):
    counts = guess_counts(small, lambda solver, history, rng: solver.guesses[0])
    assert Counter(counts.values()) == {1: 1, 7: 63}


def test_hard_mode_play_is_legal_and_no_better_than_the_optimum(shipped):
    solver = Solver(shipped, rules_for(shipped, hard_mode=True))
    game = Game(shipped, solver.rules, "hatch")
    while not game.done:
        assert game.play(greedy(solver, game.history, random.Random(0))).rule == "ok"
    assert sum(guess_counts(solver, greedy, "salet").values()) > 8122


def test_held_out_secret_and_unknown_guess_leave_everything_total(small, shipped):
    """A secret outside the list leaves no candidate; a past guess outside the list still counts."""
    history = tuple(Turn(guess, score(guess, "fuzzy")) for guess in ("fuzzy", "xylyl"))
    assert "fuzzy" not in small.row and "xylyl" not in small.row
    assert small.consistent_words(history) == []
    rng = random.Random(0)
    assert {policy(small, history, rng) for policy in POLICIES.values()} == {small.guesses[0]}
    assert small.lookahead(history) == {"n_candidates": 0, "best_guess": small.guesses[0], "best_bits": 0.0}
    assert small.bits("crane", small.candidates(history)) == 0.0


def test_tables_and_candidates_cannot_be_changed(small):
    for array in (small.matrix, small.candidates(()), small.candidates((Turn("crane", "BBBBB"),))):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_other_alphabet_and_length():
    words = Words(("слово", "весло", "масло"), ("слово", "весло", "масло"))
    solver = Solver(words, rules_for(words, alphabet="а-я"))
    assert set(guess_counts(solver, greedy).values()) == {1, 2}
    words = Words(("letter", "settle", "better"), ("letter", "settle", "better"))
    assert sum(guess_counts(Solver(words, rules_for(words)), greedy).values()) == 5


def fewest_by_hand(words, left):
    """Guesses in all of the best consistent play, by trying everything; a lost game counts as LOST."""
    if left == 1:
        return 1 + LOST * (len(words) - 1)
    return min(
        len(words)
        + sum(
            fewest_by_hand([w for w in words if w != guess and score(guess, w) == feedback], left - 1)
            for feedback in {score(guess, word) for word in words if word != guess}
        )
        for guess in words
    )


@given(data=st.data(), left=st.integers(1, 4))
def test_few_candidates_are_played_to_the_end_with_the_fewest_guesses(data, left):
    places = data.draw(st.sets(st.integers(0, len(TINY.universe) - 1), min_size=1, max_size=6))
    candidates = np.array(sorted(places))
    fewest, best = TINY.fewest_guesses(candidates, left)
    assert fewest == fewest_by_hand([TINY.universe[place] for place in candidates], left)
    assert best and set(best) <= set(range(len(candidates)))


def test_consistent_play_that_looks_to_the_end_needs_fewer_guesses_than_the_most_telling_word(full):
    """On the whole list it opens with slate and loses 5 games, where the most telling word loses 11."""

    def patient(solver, history, rng):
        left = solver.candidates(history)
        return solver.universe[left[solver.fewest_guesses(left, solver.rules.turns - len(history))[1][0]]]

    def telling(solver, history, rng):
        left = solver.candidates(history)
        return solver.universe[left[np.argmax(solver.information(solver.universe_rows[left], left).round(9))]]

    found = {policy: list(guess_counts(full, policy).values()) for policy in (patient, telling)}
    assert [(sum(counts), counts.count(7)) for counts in found.values()] == [(8153, 5), (8330, 11)]
    assert patient(full, (), None) == "slate" and telling(full, (), None) == "raise"
