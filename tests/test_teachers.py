"""The teacher's turns, the states it labels, and its whole games."""

import random
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import teachers
from wordlelib.game import Turn, is_consistent, score
from wordlelib.prompts import messages, parse_guess, render_state
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.teachers import FEW, MIX, STUDENT_MIX, make_states, non_word, solver_turn, traces
from wordlelib.words import Words, load_words, sample_words, split_secrets, without


def solver_for(words: Words, **rules) -> Solver:
    return Solver(words, rules_for(words, **rules))


WORDS = sample_words(load_words(), 120, seed=1)
SPLIT = split_secrets(WORDS, test=30, val=10)
SOLVER = solver_for(WORDS)
STATES = list(make_states(SOLVER, SPLIT.train, 2000, seed=5))
STUDENT_STATES = list(make_states(SOLVER, SPLIT.train, 2000, seed=5, mix=STUDENT_MIX))
BOTH_MIXES = pytest.mark.parametrize(("states", "mix"), [(STATES, MIX), (STUDENT_STATES, STUDENT_MIX)])


@given(
    state=st.sampled_from(STATES),
    seed=st.integers(),
    candidates=st.integers(1, 6),
    guess_place=st.sampled_from(["first", "last"]),
)
def test_thinking_is_distinct_consistent_words_with_the_guess_in_its_place(
    state, seed, candidates, guess_place
):
    """As many words as asked for and left, none twice, all consistent, the guess at the chosen end."""
    history, _, _ = state
    thinking, guess = solver_turn(SOLVER, history, random.Random(seed), candidates, guess_place=guess_place)
    left = [word for word in WORDS.answers if is_consistent(word, history)]
    assert len(thinking) == len(set(thinking)) == min(candidates, len(left))
    assert set(thinking) <= set(left)
    assert thinking[0 if guess_place == "first" else -1] == guess


@given(state=st.sampled_from(STATES), seed=st.integers())
def test_guess_tells_most_among_consistent_words(state, seed):
    """The best consistent word; the second best only while more than six are left."""
    history, _, _ = state
    _, guess = solver_turn(SOLVER, history, random.Random(seed))
    left = SOLVER.candidates(history)
    bits = sorted((SOLVER.bits(SOLVER.universe[i], left) for i in left), reverse=True)
    least = bits[1] if len(left) > 6 else bits[0]
    assert SOLVER.bits(guess, left) >= least - 1e-9


def test_both_of_the_two_best_guesses_are_taught():
    """While many words are left the teacher varies, so that its games differ."""
    guess = WORDS.answers[0]
    secret = max(WORDS.answers, key=lambda word: len(SOLVER.candidates((Turn(guess, score(guess, word)),))))
    history = (Turn(guess, score(guess, secret)),)
    left = SOLVER.candidates(history)
    ranked = sorted(SOLVER.consistent_words(history), key=lambda word: -SOLVER.bits(word, left))
    assert len(left) > teachers.SURE
    guesses = {solver_turn(SOLVER, history, random.Random(seed))[1] for seed in range(50)}
    assert guesses == set(ranked[:2])


def test_of_equally_good_guesses_the_rarest_is_taught():
    """With two words left both tell the same: the one guessed less often, else any of them."""
    history = next(h for h, _, _ in STATES if len(SOLVER.candidates(h)) == 2)
    first, second = SOLVER.consistent_words(history)

    def guesses(guessed: dict[str, int]) -> set[str]:
        return {solver_turn(SOLVER, history, random.Random(seed), 3, guessed)[1] for seed in range(20)}

    assert guesses({}) == guesses({first: 2, second: 2}) == {first, second}
    assert guesses({first: 1}) == {second} and guesses({second: 1}) == {first}


def test_thinking_varies_in_words_and_order():
    """The words before the guess are drawn, so one state gives many completions."""
    drawn = {tuple(solver_turn(SOLVER, (), random.Random(seed))[0][:2]) for seed in range(50)}
    assert len(drawn) > 40


def test_solver_turn_is_total_when_nothing_is_consistent():
    """A history that no word fits still gives a legal guess."""
    word = WORDS.answers[0]
    impossible = (Turn(word, "GGGGB"), Turn(word, "BGGGG"))
    thinking, guess = solver_turn(SOLVER, impossible, random.Random(0))
    assert thinking == [guess] and guess in WORDS.dictionary


def test_solver_turn_refuses_to_name_no_word():
    with pytest.raises(ValueError, match="candidates is 0"):
        solver_turn(SOLVER, (), random.Random(0), candidates=0)


def test_the_opener_on_the_shipped_lists_is_always_raise():
    """`raise` tells most of the 2,315 answers (5.878 bits)."""
    solver = solver_for(load_words())
    assert {solver_turn(solver, (), random.Random(seed))[1] for seed in range(20)} == {"raise"}


def test_same_arguments_give_the_same_states_and_another_seed_others():
    again = list(make_states(SOLVER, SPLIT.train, 2000, seed=5))
    other = list(make_states(SOLVER, SPLIT.train, 2000, seed=6))
    assert STATES == again != other


@BOTH_MIXES
def test_states_are_open_games_of_training_secrets(states, mix):
    """Every state can be played on, has feedback that its secret gives, and keeps that secret possible."""
    assert len(states) == 2000
    assert {secret for _, secret, _ in states} == set(SPLIT.train)
    for history, secret, _ in states:
        assert len(history) < SOLVER.rules.turns
        assert all(turn.guess != secret for turn in history)
        assert is_consistent(secret, history)
        assert SOLVER.universe.index(secret) in SOLVER.candidates(history)
        for turn in history:
            assert turn.feedback == (score(turn.guess, secret) if turn.rule == "ok" else None)


@BOTH_MIXES
def test_shares_of_sources_are_as_asked(states, mix):
    """They hold to the length of one game, also early on."""
    for n in (200, 2000):
        counts = Counter(source for _, _, source in islice(states, n))
        for source, share in mix.items():
            assert abs(counts[source] - share * n) <= SOLVER.rules.turns
    assert sum(mix.values()) == pytest.approx(1)


def test_a_mix_of_one_source_gives_only_that():
    states = make_states(SOLVER, SPLIT.train, 50, seed=0, mix={"consistent": 1, "random": 0})
    assert {source for _, _, source in states} == {"consistent"}


def test_consistent_play_uses_only_consistent_guesses_and_random_play_also_others():
    def consistent_turns(source: str) -> list[bool]:
        return [
            is_consistent(turn.guess, history[:place])
            for history, _, kind in STATES
            if kind == source
            for place, turn in enumerate(history)
        ]

    assert all(consistent_turns("consistent"))
    assert 0.02 < 1 - sum(consistent_turns("random")) / len(consistent_turns("random")) < 0.3


def test_teacher_games_open_with_the_best_word_and_opener_games_with_any_answer():
    def openers(source: str) -> set[str]:
        return {history[0].guess for history, _, kind in STATES if kind == source}

    assert openers("teacher") == openers("decoy") == {solver_turn(SOLVER, (), random.Random(0))[1]}
    assert len(openers("opener")) > 60


def test_decoy_games_keep_another_word_possible_next_to_the_secret():
    """To the last state, if the opener leaves any, and a word that is no secret if it leaves one of those."""
    last = 0
    for history, secret, source in STATES:
        if source != "decoy":
            continue
        others = [set(SOLVER.consistent_words(history[:n])) - {secret} for n in range(1, len(history) + 1)]
        assert others[-1] or not others[0]
        assert others[-1] - set(SPLIT.train) or not others[0] - set(SPLIT.train)
        last += len(history) == SOLVER.rules.turns - 1
    assert last > 50


def test_a_game_too_small_for_a_decoy_ends_early():
    """Each of three words tells the two others apart: only the opener's state is left."""
    solver = solver_for(Words(("ab", "ac", "bc"), ("ab", "ac", "bc")), alphabet="a-c")
    states = list(make_states(solver, ("bc",), 3, mix={"decoy": 1}))
    assert {len(history) for history, _, _ in states} == {1}


def test_preplayed_states_have_zero_to_all_but_one_turns_and_only_they_have_zero():
    lengths = Counter(len(history) for history, _, source in STATES if source == "preplayed")
    assert sorted(lengths) == [0, 1, 2, 3, 4, 5] and min(lengths.values()) > 15
    assert all(history for history, _, source in STATES if source != "preplayed")


def test_invalid_states_hold_both_kinds_of_invalid_turn_and_show_them():
    """Each has at least one; they are shown in the prompt as play shows them."""
    kinds = Counter()
    for history, _, source in STATES:
        invalid = [turn for turn in history if turn.feedback is None]
        assert bool(invalid) == (source == "invalid")
        shown = render_state(history, SOLVER.rules)
        for turn in invalid:
            kinds[turn.rule] += 1
            if turn.guess is None:
                assert turn.reason == "no_tag" and "no guess given" in shown
            else:
                assert turn.guess not in WORDS.dictionary and f"{turn.guess.upper()} is not a word" in shown
    assert set(kinds) == {None, "not_a_word"} and min(kinds.values()) > 20


@given(word=st.sampled_from(WORDS.answers), seed=st.integers())
def test_non_words_are_near_words_but_none(word, seed):
    """Same length and letters; most differ in one place."""
    found = non_word(word, random.Random(seed), WORDS.dictionary)
    assert len(found) == len(word) and found.isalpha() and found.islower()
    assert found not in WORDS.dictionary


def test_non_word_of_a_list_that_holds_every_string_is_an_error():
    with pytest.raises(ValueError, match="no non-word of 1 letters a-b"):
        non_word("a", random.Random(0), {"a", "b"}, "a-b")


def test_train_lexicon_states_never_name_a_held_out_word():
    """Not as a guess, not in the thinking, and not by an invented non-word."""
    heldout = set(SPLIT.val + SPLIT.test)
    solver = solver_for(without(WORDS, heldout), lexicon="train")
    rng, named = random.Random(0), set()
    for history, _, _ in make_states(solver, SPLIT.train, 2000, seed=1, known=WORDS.dictionary):
        named |= {turn.guess for turn in history} | set(solver_turn(solver, history, rng)[0])
    assert not named & heldout
    assert set(SPLIT.train) <= named


def test_most_invented_non_words_fit_all_feedback_and_give_no_word_away():
    """As those of a student do: such a string is to be dropped, and not mended by a letter."""
    states = make_states(SOLVER, SPLIT.train, 300, seed=5, mix={"invented": 1})
    invented = [
        (turn.guess, history[:place])
        for history, _, _ in states
        for place, turn in enumerate(history)
        if turn.rule == "not_a_word" and place
    ]
    assert len(invented) > 100
    assert sum(is_consistent(*guess) for guess in invented) > 0.8 * len(invented)


def test_slips_begin_when_few_words_are_left_and_contradict_as_little_as_can_be():
    """Before that the teacher plays; a slip is the last guess again, or has the fewest clues against it."""

    def against(word, history):
        return sum(score(turn.guess, word) != turn.feedback for turn in history)

    slips = again = 0
    for history, _, _ in make_states(SOLVER, SPLIT.train, 300, seed=5, mix={"slip": 1}):
        before, turn = history[:-1], history[-1]
        if is_consistent(turn.guess, before):
            continue
        slips, again = slips + 1, again + (turn.guess == before[-1].guess)
        assert len(SOLVER.candidates(before)) <= FEW
        fewest = min(n for word in SOLVER.universe if (n := against(word, before)))
        assert turn.guess == before[-1].guess or against(turn.guess, before) == fewest
    assert slips > 100 and slips / 10 < again < slips / 2


def test_slips_need_no_third_word():
    """With two words few are left from the start."""
    solver = solver_for(Words(("aa", "ab"), ("aa", "ab")), alphabet="a-c")
    states = list(make_states(solver, ("aa", "ab"), 20, mix={"slip": 1}))
    assert {secret for _, secret, _ in states} == {"ab"}  # the opener wins the games of the other


def test_invented_non_words_avoid_known_words():
    """Held-out words outside the solver's lists are passed as `known`; here all one-letter changes."""
    words = Words(("aa", "ab"), ("aa", "ab"))
    solver = solver_for(words, alphabet="a-c")
    known = {a + b for a in "abc" for b in "abc"} - {"cc"}
    states = list(make_states(solver, words.answers, 40, mix={"invalid": 1}, known=known))
    invented = {turn.guess for history, _, _ in states for turn in history if turn.rule == "not_a_word"}
    assert invented == {"cc"}


@pytest.mark.parametrize(
    ("secrets", "mix", "message"),
    [
        (SPLIT.train, {"lucky": 1}, "unknown source 'lucky'"),
        (SPLIT.train, {"teacher": 0}, "one above 0"),
        (SPLIT.train, {"teacher": 1, "random": -1}, "from 0 up"),
        ((), MIX, "no secrets"),
        (("zzzzz",), MIX, "'zzzzz' is not among the words"),
    ],
)
def test_wrong_arguments_are_refused_at_once(secrets, mix, message):
    """Before the first state is asked for."""
    with pytest.raises(ValueError, match=message):
        make_states(SOLVER, secrets, 5, mix=mix)


def test_a_source_that_cannot_give_states_is_an_error_not_an_endless_loop():
    """In a game of one turn no game has a second state."""
    solver = solver_for(WORDS, turns=1)
    with pytest.raises(ValueError, match="'teacher' gave no state; with 1 turns"):
        list(make_states(solver, SPLIT.train, 5, mix={"teacher": 1}))
    assert [h for h, _, _ in make_states(solver, SPLIT.train, 3, mix={"preplayed": 1})] == [()] * 3


def test_hard_mode_states_show_broken_hints_and_the_teacher_obeys():
    """Random play that ignores a hint is an invalid turn; the teacher's own guess is always legal."""
    solver = solver_for(WORDS, hard_mode=True)
    broken = 0
    for history, _, _ in make_states(solver, SPLIT.train, 300, seed=2, mix={"random": 1}):
        broken += any(turn.rule == "hard_mode" for turn in history)
        assert is_consistent(solver_turn(solver, history, random.Random(0))[1], history)
    assert broken > 10


def test_chat_states_carry_the_texts_of_past_turns():
    """A growing conversation shows what was answered; a fresh one does not, and keeps no texts."""
    solver = solver_for(WORDS, history="chat")
    for history, _, source in make_states(solver, SPLIT.train, 200, seed=3):
        for turn, message in zip(history, messages(history, solver.rules)[2::2], strict=True):
            assert message["content"] == turn.text
            assert parse_guess(turn.text) == (turn.guess, turn.reason)
            assert source != "teacher" or turn.text.startswith("<think>")
    assert not any(turn.text for history, _, _ in STATES for turn in history)


def test_word_length_and_universe_come_from_the_game():
    """Six-letter words, and a player who believes every allowed word possible."""
    answers = ("planet", "garden", "silver", "bronze", "stream", "forest")
    words = Words(answers, (*answers, "castle", "wonder", "basket"))
    solver = solver_for(words, universe="allowed")
    rng, named = random.Random(0), set()
    for history, secret, _ in make_states(solver, answers, 100, seed=0):
        thinking, _ = solver_turn(solver, history, rng)
        assert secret in answers and all(is_consistent(word, history) for word in thinking)
        named.update(thinking)
    assert named & {"castle", "wonder", "basket"}


def test_traces_are_whole_games_that_replay():
    """One won game for each secret, with the texts that were played; the same on a rerun."""
    games = list(traces(SOLVER, SPLIT.train, seed=4))
    assert games == list(traces(SOLVER, SPLIT.train, seed=4))
    assert games != list(traces(SOLVER, SPLIT.train, seed=5))
    assert [game["secret"] for game in games] == list(SPLIT.train)
    assert len({game["seed"] for game in games}) == len(games)
    for game in games:
        assert game["won"] and game["n_guesses"] == len(game["turns"]) <= SOLVER.rules.turns
        assert game["player"] == "teacher" and game["rules"] == SOLVER.rules.digest
        for turn in game["turns"]:
            assert parse_guess(turn["text"]) == (turn["guess"], "ok")
            assert turn["feedback"] == score(turn["guess"], game["secret"])
