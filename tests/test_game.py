"""The game: feedback of repeated letters, three separate checks of a guess, wins from the moves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordlelib.game import (
    Game,
    Turn,
    Violations,
    decode_history,
    encode_history,
    hard_mode_violation,
    is_consistent,
    is_win,
    judge,
    knowledge,
    score,
    take_turn,
    violations,
)
from wordlelib.rules import rules_for
from wordlelib.words import Words


def words_of(length: int) -> st.SearchStrategy[str]:
    """Words over few letters, so that repeated letters are common."""
    return st.text("abcd", min_size=length, max_size=length)


@st.composite
def positions(draw: st.DrawFn) -> tuple[str, str, tuple[Turn, ...]]:
    """A secret, another word, and a history with true feedback and some invalid turns."""
    length = draw(st.integers(1, 7))
    secret, word = draw(words_of(length)), draw(words_of(length))
    invalid = st.sampled_from([Turn(None, None, "no_tag", None), Turn("zzzzz", None, "ok", "not_a_word")])
    valid = words_of(length).map(lambda guess: Turn(guess, score(guess, secret)))
    return secret, word, tuple(draw(st.lists(valid | invalid, max_size=5)))


def feedback_by_definition(guess: str, secret: str) -> str:
    """Another way to say it: a letter that is not green is yellow when fewer copies of it stand before
    it in the guess, greens not counted, than the secret has outside the greens."""
    greens = [g == s for g, s in zip(guess, secret, strict=True)]
    marks = ""
    for place, letter in enumerate(guess):
        hidden = sum(s == letter and not green for s, green in zip(secret, greens, strict=True))
        before = sum(guess[i] == letter and not greens[i] for i in range(place))
        marks += "G" if greens[place] else "Y" if before < hidden else "B"
    return marks


@pytest.mark.parametrize(
    "guess, secret, feedback",
    [("geese", "those", "BBBGG"), ("added", "dread", "YYBYG"), ("eerie", "steep", "YYBBB")],
)
def test_case_01_yellows_use_up_the_copies_of_the_secret(guess, secret, feedback):
    assert score(guess, secret) == feedback


@pytest.mark.parametrize(
    "guess, secret, feedback", [("seven", "surer", "GBBGB"), ("error", "froze", "YGBYB")]
)
def test_case_02_green_later_in_the_word_beats_yellow_earlier_in_it(guess, secret, feedback):
    assert score(guess, secret) == feedback


@pytest.mark.parametrize(
    "guess, secret, feedback",
    [
        ("error", "heron", "YBGGB"),
        ("sense", "shine", "GBYBG"),
        ("speed", "abide", "BBYBY"),
        ("cecum", "cynic", "GBYBB"),
        ("allay", "label", "YYYBB"),
        ("mamma", "magma", "GGBGG"),
        ("llama", "label", "GYYBB"),
        ("a", "a", "G"),
        ("aab", "bba", "YBY"),
    ],
)
def test_score_of_repeated_letters(guess, secret, feedback):
    assert score(guess, secret) == feedback


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(words_of(n), words_of(n))))
def test_score_agrees_with_another_definition(pair):
    guess, secret = pair
    feedback = score(guess, secret)
    assert feedback == feedback_by_definition(guess, secret)
    assert (feedback == "G" * len(guess)) == (guess == secret)
    assert [mark == "G" for mark in feedback] == [g == s for g, s in zip(guess, secret, strict=True)]
    told = Counter(letter for letter, mark in zip(guess, feedback, strict=True) if mark != "B")
    assert told == Counter(guess) & Counter(secret)


def test_score_refuses_words_of_different_length():
    with pytest.raises(ValueError, match="cannot score 'slates' against 'slate': lengths differ"):
        score("slates", "slate")


@given(positions())
def test_secret_is_consistent_with_its_own_feedback(position):
    secret, _, history = position
    assert is_consistent(secret, history)
    assert hard_mode_violation(secret, history) is None


@given(positions())
def test_consistent_means_no_violation_of_any_colour(position):
    _, word, history = position
    assert is_consistent(word, history) == (violations(word, history) == Violations(0, 0, 0))


@given(positions())
def test_consistent_guess_never_breaks_official_hard_mode(position):
    _, word, history = position
    if is_consistent(word, history):
        assert hard_mode_violation(word, history) is None


@given(positions())
def test_knowledge_holds_for_every_consistent_word(position):
    secret, word, history = position
    known = knowledge(history, len(secret))
    for fits in {secret, word}:
        if not is_consistent(fits, history):
            continue
        assert all(p in ("_", letter) for p, letter in zip(known.pattern, fits, strict=True))
        assert not set(known.absent) & set(fits)
        for letter, places in known.present.items():
            assert letter in fits and not any(fits[place - 1] == letter for place in places)
        assert all(fits.count(letter) >= copies for letter, copies in known.least.items())
        assert all(fits.count(letter) <= copies for letter, copies in known.most.items())


@given(positions())
def test_every_green_is_in_the_pattern_and_every_letter_told_is_shown(position):
    _, _, history = position
    known = knowledge(history, len(position[0]))
    for turn in history:
        for place, (letter, mark) in enumerate(zip(turn.guess or "", turn.feedback or "", strict=False), 1):
            if mark == "G":
                assert known.pattern[place - 1] == letter
            elif mark == "Y":
                assert letter in known.pattern or place in known.present[letter]
                assert letter not in known.absent
            else:
                assert letter in known.absent or letter in known.least


def test_knowledge_of_a_doubled_letter():
    """EERIE against STEEP: two copies of E, in none of the places 1, 2 and 5; R and I absent."""
    known = knowledge([Turn("eerie", score("eerie", "steep"))], 5)
    assert known.pattern == "_____"
    assert known.present == {"e": (1, 2, 5)}
    assert known.absent == ("i", "r")
    assert known.least == {"e": 2} and known.most == {"e": 2, "r": 0, "i": 0}


def test_grey_copy_of_a_placed_letter_is_not_absent():
    """The help text's meaning of grey: no further copy, not none."""
    known = knowledge([Turn("geese", score("geese", "those"))], 5)
    assert known.pattern == "___se" and known.absent == ("g",)
    assert known.most["e"] == 1


def test_case_04_dropping_one_of_two_revealed_copies_ignores_a_hint():
    history = (Turn("cecum", "GBYBB"),)
    assert score("cecum", "cynic") == "GBYBB"
    assert hard_mode_violation("candy", history) == "guess must contain C 2 times"
    assert hard_mode_violation("cynic", history) is None


def test_case_05_three_checks_of_a_yellow_put_back_in_its_place(shipped):
    """Legal and fine in official hard mode, yet not consistent: three checks, three answers."""
    history = (Turn("crane", score("crane", "eject")),)
    assert history[0].feedback == "YBBBY"
    rules = rules_for(shipped, hard_mode=True)
    assert judge("cadge", history, shipped, rules) == "ok"
    assert hard_mode_violation("cadge", history) is None
    assert not is_consistent("cadge", history)
    assert violations("cadge", history).yellow > 0


def test_case_05_grey_letter_may_return_in_official_hard_mode():
    history = (Turn("crane", score("crane", "eject")),)
    assert hard_mode_violation("react", history) is None
    assert violations("react", history).grey > 0


def test_hard_mode_names_the_first_green_that_moved():
    history = (Turn("slate", score("slate", "shine")),)
    assert hard_mode_violation("crane", history) == "letter 1 must be S"


def test_judge_says_hard_mode_only_when_the_rules_ask_for_it(shipped):
    history = (Turn("slate", score("slate", "shine")),)
    assert judge("crane", history, shipped, rules_for(shipped)) == "ok"
    assert judge("crane", history, shipped, rules_for(shipped, hard_mode=True)) == "hard_mode"
    assert judge("zzzzz", history, shipped, rules_for(shipped, hard_mode=True)) == "not_a_word"


def test_turns_get_feedback_only_for_a_legal_guess(shipped):
    rules = rules_for(shipped, hard_mode=True)
    history = (Turn("slate", score("slate", "shine")),)

    def turn(guess, reason):
        return take_turn(guess, reason, "text", "shine", history, shipped, rules)

    assert turn("shine", "ok") == Turn("shine", "GGGGG", "ok", "ok", "text")
    assert turn(None, "unclosed") == Turn(None, None, "unclosed", None, "text")
    assert turn("zzzzz", "ok") == Turn("zzzzz", None, "ok", "not_a_word", "text")
    assert turn("crane", "ok") == Turn("crane", None, "ok", "hard_mode", "text")


@pytest.mark.parametrize("guess", ["", "s", "slates", "slat", " slate", "SLATE", None])
def test_case_19_only_the_whole_word_wins(shipped, guess):
    game = Game(shipped, rules_for(shipped), "slate")
    turn = game.play(guess, "ok" if guess else "empty")
    assert turn.feedback is None
    assert not is_win(turn, "slate") and not game.won


def test_case_19_equal_words_win_only_as_a_legal_guess():
    assert is_win(Turn("slate", "GGGGG"), "slate")
    assert not is_win(Turn("slate", None, "ok", "hard_mode"), "slate")
    assert not is_win(Turn("", None), "") and not is_win(Turn("s", None), "slate")


def test_case_20_game_ended_by_illegal_moves_is_not_won(shipped):
    """A win is decided from the moves: illegal moves use turns, end the game, and win nothing."""
    game = Game(shipped, rules_for(shipped, turns=3), "slate")
    for guess in ("zzzzz", None, "xxxxx"):
        assert not game.done
        game.play(guess, "ok" if guess else "no_tag")
    assert game.done and not game.won
    assert [turn.feedback for turn in game.history] == [None, None, None]


def test_case_22_last_guess_of_a_game_counts(shipped):
    """A game that uses all turns: the state holds every guess, the winning sixth included."""
    guesses = ["crane", "zzzzz", "moist", "crane", "plate", "slate"]
    game = Game(shipped, rules_for(shipped), "slate")
    for guess in guesses:
        assert not game.done
        game.play(guess)
    assert [turn.guess for turn in game.history] == guesses
    assert game.history[-1].feedback == "GGGGG"
    assert game.won and game.done


def test_case_22_loss_with_all_turns_used_is_over(shipped):
    game = Game(shipped, rules_for(shipped), "slate")
    for _ in range(6):
        game.play("crane")
    assert game.done and not game.won and len(game.history) == 6
    with pytest.raises(ValueError, match="the game of 'slate' is over after 6 turns"):
        game.play("slate")


def test_no_guess_after_a_win(shipped):
    game = Game(shipped, rules_for(shipped), "slate")
    game.play("slate")
    with pytest.raises(ValueError, match="over after 1 turns"):
        game.play("slate")


def test_repeated_word_is_legal_and_gets_its_feedback(shipped):
    game = Game(shipped, rules_for(shipped), "slate")
    assert game.play("crane") == game.play("crane")
    assert game.history[1].rule == "ok"


def test_pre_played_turns_count(shipped):
    history = tuple(Turn("crane", score("crane", "slate")) for _ in range(5))
    game = Game(shipped, rules_for(shipped), "slate", history)
    game.play("moist")
    assert game.done and not game.won


@pytest.mark.parametrize(
    "secret, guess, feedback", [("word", "draw", "YYBY"), ("letter", "settle", "BGGGYY")]
)
def test_other_word_lengths(secret, guess, feedback):
    words = Words((secret, guess), (secret, guess))
    game = Game(words, rules_for(words), secret)
    assert game.play(guess).feedback == feedback
    assert game.play(secret).feedback == "G" * len(secret) and game.won


def test_other_alphabet():
    words = Words(("слово", "весло"), ("слово", "весло"))
    game = Game(words, rules_for(words, alphabet="а-я"), "слово")
    assert game.play("весло").feedback == "YBYYG"


@given(positions())
def test_encoded_history_comes_back_equal(position):
    _, _, history = position
    assert decode_history(encode_history(history)) == history


def test_encoded_history_leaves_the_raw_text_out():
    text = encode_history((Turn("crane", "BBGBG", text="a long completion"),))
    assert text == '[["crane","BBGBG","ok","ok"]]'
