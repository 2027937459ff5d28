"""A second game on Wordle's interface: a board game of OpenSpiel, played, taught, rewarded and evaluated."""

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspiel", reason="OpenSpiel is an optional extra: pip install -e .[games]")

from wordlelib import evaluate, openspiel, params, players, prompts, recipes, rewards, rollouts, tasks
from wordlelib.data import Rules, game_words
from wordlelib.game import reset
from wordlelib.rules import rules_for
from wordlelib.solver import legal, solver_for
from wordlelib.teachers import make_states, task
from wordlelib.words import split_secrets

WORDLE = game_words(sample=40)
BOARDS = {game: openspiel.board_tasks(game, 30) for game in ("tic_tac_toe", "nim")}
GAMES = {"wordle": (WORDLE, rules_for(WORDLE))} | {
    game: (words, openspiel.board_rules(game, words)) for game, words in BOARDS.items()
}
SOLVERS = {game: solver_for(*of) for game, of in GAMES.items()}
WORDS, RULES = GAMES["tic_tac_toe"]
SEARCH = SOLVERS["tic_tac_toe"]


def line(move):
    return prompts.completion([move], move)


@pytest.mark.parametrize("game", GAMES)
def test_one_loop_plays_every_game(game):
    """reset, legal, render, step and the terms of rewards, without a word about which game it is."""
    words, rules = GAMES[game]
    terms = rewards.turn_rewards(rewards.default_preset(rules), SOLVERS[game], rules)
    rng = random.Random(0)
    for secret in words.answers[:10]:
        play = reset(words, rules, secret)
        while not play.done:
            _, user = prompts.messages(play.history, rules)
            assert f"Turn {len(play.history) + 1} of {rules.turns}." in user["content"]
            moves = legal(SOLVERS[game], play.history)
            assert moves and set(moves) <= words.dictionary
            text = line(rng.choice(moves))
            assert terms(text, play.history, secret)["dictionary"] == 1
            assert terms("nothing", play.history, secret)["dictionary"] == 0
            assert evaluate.step(play, text).feedback is not None
        with pytest.raises(ValueError, match="is over"):
            evaluate.step(play, line(moves[0]))


@pytest.mark.parametrize("game", BOARDS)
@given(
    texts=st.lists(st.text() | st.integers(0, 40).map(lambda n: line(f"{n:02}"[-2:])), max_size=8),
    n=st.integers(0, 29),
)
def test_any_text_is_a_turn_and_illegal_ones_change_nothing(game, texts, n):
    words, rules = GAMES[game]
    play = reset(words, rules, words.answers[n])
    for text in texts:
        if play.done:
            break
        moves = legal(SOLVERS[game], play.history)
        turn = evaluate.step(play, text)
        assert (turn.feedback is None) == (turn.guess not in moves)
        if turn.feedback is None and not play.done:
            assert legal(SOLVERS[game], play.history) == moves
    assert len(play.history) <= rules.turns


@pytest.mark.parametrize("game", BOARDS)
@settings(max_examples=20)  # each searches through the game anew
@given(seed=st.integers(0, 10**9), number=st.integers(0, 10**9))
def test_a_task_depends_on_seed_and_number_alone(game, seed, number):
    words, rules = GAMES[game]
    made = task(SOLVERS[game], words.answers, seed, number)
    task(SOLVERS[game], words.answers, seed, number + 1)
    assert task(solver_for(words, rules), words.answers, seed, number) == made
    history, secret, _ = made
    play = reset(words, rules, secret)
    for turn in history:  # what the opponent replied is what it replies to this task
        assert play.play(turn.guess, turn.reason) == turn
    assert not play.done


def test_the_number_of_past_turns_is_part_of_the_case_and_sources_keep_their_shares():
    for past_turns in range(4):
        made = [task(SEARCH, WORDS.answers, 3, number, past_turns) for number in range(20)]
        assert {len(history) for history, *_ in made} == {past_turns}
    sources = [source for *_, source in make_states(SEARCH, WORDS.answers, 1000)]
    for source, share in openspiel.MIX.items():
        assert abs(sources.count(source) / 1000 - share) < 0.1
    with pytest.raises(ValueError, match="had no state after 9 turns"):
        task(SEARCH, WORDS.answers, 0, 0, 9)


def test_values_are_those_of_best_play_against_random_replies():
    """In this position the first player wins at once, or leaves the opponent one winning reply of three."""
    play = reset(WORDS, RULES, "0-0")
    history = play.history
    for mine, theirs in (("0", "4"), ("1", "3")):
        history += (play.turn(mine, "ok", "")._replace(feedback=theirs),)
    values = SEARCH.values(history)
    assert values["2"] == 1 and SEARCH.best_guess(history) == ("2", 1.0)
    after_8 = openspiel.position("tic_tac_toe", ("0", "4", "1", "3", "8"))
    replies = [after_8.child(reply) for reply in after_8.legal_actions()]
    assert values["8"] == pytest.approx(sum(map(SEARCH._value, replies)) / len(replies))
    assert SEARCH._value(after_8.child(5)) == 0  # their line 3, 4, 5


def test_a_win_a_draw_and_a_loss_are_told_by_the_board():
    records = evaluate.play_games(
        players.solver_player(SEARCH, "random_consistent"), WORDS.answers, WORDS, RULES, name="random"
    )
    rewarded = {}
    for record in records:
        said = record["turns"][-1]["rule"]
        assert record["won"] == (said == "won") and record["game"] == "tic_tac_toe"
        moves = openspiel.moves_of(evaluate.history_of(record), RULES)
        returns = openspiel.position("tic_tac_toe", moves).returns()[0]
        assert returns == {"won": 1, "lost": -1, "drawn": 0}[said]
        rewarded.setdefault(said, []).append(rewards.game_reward(record, RULES))
    assert min(rewarded["won"]) > max(rewarded["drawn"]) > max(rewarded["lost"])


def test_best_moves_beat_random_ones_and_the_summary_says_so(tmp_path):
    rates = {}
    for policy in ("greedy", "random_consistent"):
        player = players.solver_player(SEARCH, policy)
        records = evaluate.play_games(player, WORDS.answers, WORDS, RULES, name=policy, preplayed=1)
        evaluate.write_games(tmp_path / "games.jsonl", records)
        assert evaluate.read_games(tmp_path / "games.jsonl", RULES) == records
        summary = evaluate.summarise(records)
        assert summary["inconsistent_share"] is None and summary["preplayed"] == len(records)
        rates[policy] = summary["win_rate"]
    assert rates["greedy"] > rates["random_consistent"] + 0.2


def test_the_reward_ranks_moves_by_their_value():
    table = rewards.self_check("outcome", SEARCH, RULES)
    states = {row["state"] for row in table}
    assert len(states) == openspiel.CHECKED
    for state in states:
        totals = {row["kind"]: row["total"] for row in table if row["state"] == state}
        assert totals["ideal"] > totals["legal"] > totals["nonword"] > totals["malformed"] > totals["empty"]
    with pytest.raises(
        ValueError,
        match="guesses that tic_tac_toe does not have",
    ):
        rewards.self_check("ours", SEARCH, RULES)  # its terms are those of letters
    examples = [row["reward"] for row in rollouts.example_games(WORDS, RULES)]
    assert examples == sorted(examples, reverse=True)


def test_a_stream_of_tasks_needs_no_file():
    rows = list(tasks.stream(SEARCH, split_secrets(WORDS, test=5, val=5).train, 5, 70, "states"))
    assert len(rows) == 70
    for row in rows:
        best = line(row["best_guess"])
        functions, _ = rewards.make_reward_functions("outcome", SEARCH, RULES)
        values = [
            function(completions=[best], **{k: [v] for k, v in row.items()})[0] for function in functions
        ]
        assert values == [1, 1, pytest.approx(row["best_bits"])]


def test_rules_come_back_from_their_record_and_have_a_digest_of_their_own():
    assert Rules.from_dict(RULES.to_dict()) == RULES
    assert len({rules.digest for _, rules in GAMES.values()}) == len(GAMES)
    assert "game" not in GAMES["wordle"][1].to_dict()


@pytest.mark.parametrize(
    ("game", "sentence"),
    [
        ("no_such", "OpenSpiel has no game 'no_such'"),
        ("backgammon", "backgammon does not fit: use a game of two players in turns"),
        ("kuhn_poker", "kuhn_poker does not fit"),
    ],
)
def test_a_game_that_does_not_fit_is_refused(game, sentence):
    with pytest.raises(ValueError, match=sentence):
        openspiel.board_tasks(game, 5)


def test_a_game_too_large_to_search_is_refused(monkeypatch):
    monkeypatch.setattr(openspiel, "MOST_POSITIONS", 1000)
    with pytest.raises(ValueError, match="more than 1,000 positions"):
        solver_for(WORDS, RULES)


def test_a_missing_open_spiel_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    openspiel.load.cache_clear()
    with pytest.raises(RuntimeError, match=r"tic_tac_toe needs OpenSpiel: install the extra \[games\]"):
        openspiel.load("tic_tac_toe")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hard_mode": True}, "hard_mode is of Wordle, and the game is nim: use hard_mode False"),
        ({"history": "chat"}, "history is of Wordle"),
        ({"answers_file": "words.txt"}, "answers_file is of Wordle"),
        ({"sample_words": 0}, "nim needs a number of tasks"),
    ],
)
def test_parameters_of_wordle_are_refused_for_a_board_game(changes, sentence):
    values = recipes.defaults("01_data_synthesis") | {"game": "nim"}
    params.resolve("01_data_synthesis", values)
    with pytest.raises(ValueError, match=sentence):
        params.resolve("01_data_synthesis", values | changes)
