"""Duel: refusals, hints, hard mode, opponents on the same secret, custom lists."""

import pytest

from wordlelib import boards, duel
from wordlelib.game import Game
from wordlelib.players import saved_player, solver_player
from wordlelib.rules import Rules
from wordlelib.words import load_words


@pytest.fixture
def game(small_words, small_rules) -> duel.Duel:
    return duel.Duel(
        small_words, small_rules, {"mute": lambda h, s: ["<b>hm</b>"] * len(h)}, small_words.answers[3]
    )


def test_a_guess_that_is_no_word_is_refused_and_uses_no_turn(game, small_words):
    """Neither does anybody else play on."""
    for text, said in (
        ("abc", "A guess has 5 letters a-z."),
        ("zzzzz", "ZZZZZ is not in the list of 64 words."),
        ("<script>alert(1)</script>", "A guess has 5 letters a-z."),
        ("\x00" * 50_000, "A guess has 5 letters a-z."),
    ):
        assert not game.guess(text) and game.message == said
    assert not any(g.history for g in game.games.values())


def test_everybody_plays_the_same_secret_and_is_hidden_until_the_person_is_done(game, small_words):
    secret = small_words.answers[3]
    assert {g.secret for g in game.games.values()} == {secret} and list(game.games) == [
        "you",
        "greedy solver",
        "mute",
    ]
    assert game.guess(f" {small_words.answers[0].upper()} ")
    assert [len(g.history) for g in game.games.values()] == [1, 1, 1]
    first = game.games["greedy solver"].history[0].guess
    mine, solver, mute = game.cards()
    assert f">{small_words.answers[0][0].upper()}<" in mine
    assert all(f'"{letter} ' not in solver for letter in first.upper()) and "<pre>" not in solver
    assert "no guess" in mute

    assert game.guess(secret) and game.message == "Won in 2."
    assert game.games["greedy solver"].won and len(game.games["mute"].history) == 6
    mine, solver, mute = game.cards()
    assert "won in" in solver and "lost after 6" in mute
    assert mute.count("<pre>&lt;b&gt;hm&lt;/b&gt;</pre>") == 6
    assert not game.guess(secret) and "game is over" in game.message


def test_a_lost_game_names_the_word(game, small_words):
    for word in small_words.answers[4:10]:
        assert game.guess(word)
    assert game.message == f"Lost: the word was {small_words.answers[3].upper()}."


def test_an_opponent_that_fails_stops_and_says_why(small_words, small_rules):
    """The person plays on."""

    def broken(histories, seeds):
        raise RuntimeError("<no> memory")

    game = duel.Duel(small_words, small_rules, {"model": broken}, small_words.answers[3])
    assert game.guess(small_words.answers[0]) and game.guess(small_words.answers[3])
    assert "failed: RuntimeError: &lt;no&gt; memory" in game.cards()[2] and game.message == "Won in 2."


def test_hard_mode_is_for_everybody_and_not_switched_while_a_game_is_on(small_words, small_rules):
    """Refusals name the hint; the solver keeps the hints too."""
    secret = small_words.answers[3]
    game = duel.Duel(small_words, small_rules, {}, secret)
    game.set_hard(True)
    first = next(w for w in small_words.answers if w != secret and set(w) & set(secret))
    state = Game(small_words, Rules(**{**small_rules.to_dict(), "hard_mode": True}), secret)
    state.play(first)
    breaking = next(w for w in small_words.answers if "Hard mode" in duel.refusal(w, state))
    assert game.guess(first) and not game.guess(breaking)
    assert game.message == duel.refusal(breaking, state)
    game.set_hard(False)
    assert game.rules.hard_mode and game.locked and game.solver.rules.hard_mode
    game.guess(secret)
    assert all(turn.rule == "ok" for turn in game.games["greedy solver"].history)
    game.set_hard(False)
    game.anew()
    assert not game.rules.hard_mode and not game.mine.rules.hard_mode and not game.mine.history


def test_a_secret_outside_the_list_is_refused(small_words, small_rules):
    """It could never be guessed."""
    with pytest.raises(ValueError, match="'zzzzz' is not among the 64 allowed guesses"):
        duel.duel_widget(small_words, small_rules, secret="zzzzz")


def test_without_a_front_end_a_static_page_stands_in(headless, small_words, small_rules):
    page = duel.duel_widget(small_words, small_rules).data
    assert "64 words fit all feedback" in page and "no more copies" in page and "greedy solver" in page


def test_the_widget_tells_refusals_hints_and_boards(front_end, small_words, small_rules):
    """Each answer is a new state, also the same refusal twice; only a guess that counts clears the entry."""
    secret = small_words.answers[3]
    widget = duel.duel_widget(small_words, small_rules, {}, secret)

    def ask(**message):
        before = dict(widget.data)
        widget._handle_custom_msg(message, [])
        assert widget.data != before
        return widget.data

    for _ in range(2):
        refused = ask(guess="zzzzz")
        assert (
            refused["refused"] and not refused["clear"] and "ZZZZZ is not in the list" in refused["message"]
        )
    hint = ask(hint=True)
    assert "64 words fit all feedback" in hint["hint"] and not hint["clear"]
    assert ask(hard=True)["hard"] and not ask(hard=False)["hard"]
    played = ask(guess=small_words.answers[0])
    assert played["clear"] and played["locked"] and not played["hint"]
    assert ask(guess=secret)["done"] and widget.data["message"] == "Won in 2."
    assert not ask(anew=True)["done"] and widget.data["cards"][0].count('class="G"') == 0


def test_a_duel_on_your_own_words(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("apfel\nbirne\ntraum\n")
    words, rules, opponents = duel.setting(answers_file=str(own), hard_mode=True)
    assert words.answers == ("apfel", "birne", "traum") and rules.hard_mode and not opponents
    game = duel.Duel(words, rules, opponents, "birne")
    assert not game.guess("crane") and game.guess("traum")
    assert duel.setting()[0] == load_words()
    with pytest.raises(ValueError, match="plays the words of its run"):
        duel.setting(model="somewhere", answers_file=str(own))


def test_a_saved_model_plays_against_a_person(tmp_path, small_words, small_rules, monkeypatch):
    """Its guesses are judged as in the evaluation; an untrained one gives none."""
    from wordlelib import models

    tokenizer = models.nano_tokenizer(small_rules)
    models.save(models.nano_model(tokenizer, 0), tokenizer, tmp_path / "model")
    monkeypatch.setattr(duel, "saved_game", lambda model: (small_words, small_rules))
    monkeypatch.setattr(models, "EMBEDDED_FOLDER", tmp_path / "none")  # a student would be there too
    words, rules, opponents = duel.setting(model=str(tmp_path / "model"))
    game = duel.Duel(words, rules, opponents, small_words.answers[3])
    assert game.guess(small_words.answers[3]) and not game.failed
    [name] = opponents
    texts = [turn.text for turn in game.games[name].history]
    again = saved_player(str(tmp_path / "model"), small_rules)([()], [0])
    assert len(texts) == 6 and texts[:1] == again
    assert boards.visible(name, 80)[:20] in game.cards()[2]


def test_the_greedy_solver_plays_as_in_the_evaluation(game, small_words, small_solver):
    for word in small_words.answers[4:6]:
        game.guess(word)
    history = game.games["greedy solver"].history
    assert history[0].text == solver_player(small_solver, "greedy")([()], [0])[0]
