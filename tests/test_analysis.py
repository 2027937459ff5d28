"""Recorded games on arrays: the same numbers as one game at a time; bits, faults and pairs beyond them."""

import json
import math

import numpy as np
import pytest
from conftest import LOSS, NAMES, RULES, WORDS, game, records
from hypothesis import given, settings

from wordlelib import analysis, evaluate
from wordlelib.evaluate import history_of
from wordlelib.game import Turn, hard_mode_violation, score, violations
from wordlelib.prompts import completion
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.words import Words

SOLVER = Solver(WORDS, RULES)


def only(games: dict[str, analysis.Games]) -> analysis.Games:
    [own] = games.values()
    return own


@given(records())
def test_a_summary_from_arrays_is_that_of_one_game_at_a_time(made):
    """Every metric is equal to the last digit, so kept metrics can be checked by either."""
    games = only(analysis.from_records(made))
    assert analysis.summary(games) == evaluate.summarise(made)
    assert analysis.histogram(games) == evaluate.guess_histogram(made)
    assert analysis.guesses_or_loss(games).tolist() == list(map(evaluate.guesses_or_loss, made))


@given(records())
def test_faults_are_those_of_the_game_one_turn_at_a_time(made):
    """Marks contradicted by colour as `violations` counts them; hard mode as `hard_mode_violation` says."""
    games = only(analysis.from_records(made))
    flags = analysis.turn_flags(games)
    for number, record in enumerate(made):
        history = history_of(record)
        for turn in range(record["preplayed"], len(history)):
            now, before = history[turn], history[:turn]
            found = {name: bool(flag[number, turn]) for name, flag in flags.items()}
            legal = now.feedback is not None
            wrong = violations(now.guess, before) if legal else (0, 0, 0)
            assert (found["green"], found["yellow"], found["grey"]) == tuple(map(bool, wrong))
            hard = legal and hard_mode_violation(now.guess, [t for t in before if t.feedback]) is not None
            assert found["hard"] == hard
            assert found["inconsistent"] == evaluate.inconsistent(now, before)
            assert (found["malformed"], found["nonword"]) == (now.guess is None, now.rule == "not_a_word")
    before_player = np.array([[k < r["preplayed"] for k in range(games.guess.shape[1])] for r in made])
    assert not any((flag & before_player).any() for flag in flags.values())


@given(records())
def test_bits_are_the_logarithm_of_the_words_ruled_out(made):
    games = only(analysis.from_records(made))
    bits = analysis.bits_gained(games, SOLVER)
    for number, record in enumerate(made):
        history = history_of(record)
        for turn in range(bits.shape[1]):
            if not record["preplayed"] <= turn < len(history):
                assert math.isnan(bits[number, turn])
                continue
            before, after = (len(SOLVER.candidates(history[:n])) for n in (turn, turn + 1))
            assert bits[number, turn] == pytest.approx(math.log2(before / after))


@settings(max_examples=30)
@given(records())
def test_regret_is_the_best_expected_information_less_that_of_the_guess(made):
    games = only(analysis.from_records(made))
    lost = analysis.regret(games, SOLVER)
    for number, record in enumerate(made):
        history = history_of(record)
        for turn in range(record["preplayed"], len(history)):
            left = SOLVER.candidates(history[:turn])
            guess = history[turn].guess if history[turn].feedback else None
            best = SOLVER.best_guess(history[:turn])[1] if len(left) > 1 else 0.0
            own = SOLVER.bits(guess, left) if guess and len(left) > 1 else 0.0
            assert lost[number, turn] == pytest.approx(max(0.0, best - own))


def test_the_most_frequent_guess_is_counted_over_all_turns():
    """SLATE three times in seven turns; then two turns without a guess."""
    made = [game("crane", "slate", "slate", "crane"), game("geese", "slate", "those", None, "geese")]
    games = only(analysis.from_records(made))
    assert analysis.most_frequent(games) == ("slate", 3 / 7)
    silent = only(analysis.from_records([game("crane", None, None, "crane", player="silent")]))
    assert analysis.most_frequent(silent) == (None, 2 / 3)


def test_the_greedy_solver_has_no_regret_and_its_bits_add_up_to_the_whole_list(shipped):
    """A game that ends with one word left gained log2 of 2,315 in all."""
    from wordlelib.players import solver_player

    rules = rules_for(shipped)
    solver = Solver(shipped, rules)
    made = evaluate.play_games(
        solver_player(solver, "greedy"), shipped.answers[::100], shipped, rules, name="greedy"
    )
    games = only(analysis.from_records(made))
    assert np.nanmax(analysis.regret(games, solver)) == 0
    assert np.nansum(analysis.bits_gained(games, solver), axis=1) == pytest.approx(math.log2(2315))
    assert analysis.openers(games) == [("soare", 1.0)]


def test_a_secret_outside_the_solvers_universe_has_no_bits_and_breaks_nothing():
    words = Words(NAMES[:6], NAMES)
    rules = rules_for(words)
    made = [game("those", "crane", "those", rules=rules.digest)]
    bits = analysis.bits_gained(only(analysis.from_records(made)), Solver(words, rules))
    assert not np.isfinite(bits[0, 1])


def test_case_04_a_guess_that_drops_one_of_two_revealed_copies_breaks_hard_mode():
    """CYNIC, CECUM shows two Cs; CANDY has one. So a win after it is no hard-mode win."""
    turns = [Turn(word, score(word, "cynic")) for word in ("cecum", "candy", "cynic")]
    record = game("cynic", "cynic")
    record |= {"turns": [{**turn._asdict(), "rewards": {}} for turn in turns], "n_guesses": 3}
    games = only(analysis.from_records([record]))
    flags = analysis.turn_flags(games)
    assert flags["hard"].tolist() == [[False, True, False]]
    assert analysis.hard_mode_wins(games, flags).tolist() == [False]


def test_case_05_a_yellow_put_back_in_its_place_keeps_hard_mode_and_is_inconsistent():
    """SERVE: the S of THOSE is yellow in place 4, and GEESE has it there again. Three checks, two answers."""
    flags = analysis.turn_flags(only(analysis.from_records([game("serve", "those", "geese")])))
    found = {name: bool(flag[0, 1]) for name, flag in flags.items()}
    assert found["yellow"] and found["inconsistent"]
    assert not (found["hard"] or found["invalid"] or found["green"])


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_read_gives_the_games_of_its_records(tmp_path, suffix):
    import gzip

    made = [game("crane", "slate", "crane"), game("slate", *LOSS[:0], "slate", player="grpo")]
    path = tmp_path / f"games.jsonl{suffix}"
    text = "".join(json.dumps(record) + "\n" for record in made).encode()
    path.write_bytes(gzip.compress(text) if suffix else text)
    read, built = analysis.read(path, RULES.digest), analysis.from_records(made)
    assert list(read) == list(built) == ["sft", "grpo"]
    for player in read:
        assert analysis.summary(read[player]) == analysis.summary(built[player])
        assert read[player].secrets() == built[player].secrets()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {**r, "won": False}, "line 2: `won` or `n_guesses` contradicts the moves of 'crane'"),
        (lambda r: {**r, "n_guesses": 5}, "line 2: `won` or `n_guesses` contradicts"),
        (lambda r: {**r, "rules": "0" * 16}, f"line 2: played under rules 0{{16}}, not {RULES.digest}"),
        (lambda r: {k: v for k, v in r.items() if k != "secret"}, "line 2: not a game record, 'secret'"),
        (
            lambda r: {**r, "turns": [{**r["turns"][0], "feedback": "GGGGB"}, r["turns"][1]]},
            "line 2: feedback contradicts",
        ),
        (
            lambda r: {**r, "turns": [{**r["turns"][0], "feedback": "12345"}, r["turns"][1]]},
            "not game records",
        ),
        (
            lambda r: {**r, "turns": [{**r["turns"][0], "guess": "toolong"}, r["turns"][1]]},
            "is not as long as",
        ),
        (lambda r: {**r, "turns": "none"}, "not game records"),
    ],
)
def test_games_that_contradict_themselves_are_refused_with_their_line(tmp_path, change, message):
    """Case 20: a win is decided from the moves, whatever a record says of itself."""
    record = game("crane", "slate", "crane")
    path = tmp_path / "games.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in (record, change(record))))
    with pytest.raises(ValueError, match=message):
        analysis.read(path)


def test_a_half_written_file_is_refused_with_its_line_and_an_empty_one_has_no_games(tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_text(json.dumps(game("crane", "crane")) + "\n" + '{"secret": "cra')
    with pytest.raises(ValueError, match=r"line 2: not JSON .* half written"):
        analysis.read(path)
    path.write_text("\n\n")
    assert analysis.read(path) == {}
    path.write_text("")
    assert analysis.read(path) == {} == analysis.from_records([])
    with pytest.raises(FileNotFoundError):
        analysis.read(tmp_path / "none.jsonl")


def moves(games: analysis.Games) -> list:
    """All that is held of a player's games, whatever numbers its words have."""
    guesses = [
        [word if k >= 0 else None for k, word in zip(row, games.words[row], strict=True)]
        for row in games.guess
    ]
    arrays = (games.code, games.nonword, games.taken, games.length, *games.conditions.values())
    return [games.secrets(), guesses, *(array.tolist() for array in arrays)]


@settings(max_examples=30)
@given(records(), records(player="grpo"))
def test_a_file_read_in_blocks_is_one_file(tmp_path_factory, first, second):
    """Blocks whose players, words and longest games differ give the games of the whole."""
    made = [*first, *second, *first]
    path = tmp_path_factory.mktemp("blocks") / "games.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in made))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "BLOCK", 1)  # and the rest of the line
        read = analysis.read(path, RULES.digest)
    built = analysis.from_records(made)
    assert list(read) == list(built)
    assert list(map(moves, read.values())) == list(map(moves, built.values()))


def test_a_fault_in_a_later_block_is_named_by_its_line_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(analysis, "BLOCK", 1)
    good = game("crane", "slate", "crane")
    path = tmp_path / "games.jsonl"
    for wrong, message in (
        ({**good, "won": False}, "line 3: `won` or `n_guesses`"),
        ({**good, "rules": "0" * 16}, f"line 3: played under rules 0{{16}}, not {RULES.digest}"),
        ({**good, "player": None}, "line 3: not a game record, 'player'"),
        ({**good, "secret": "cran", "turns": []}, "'cran.*is not as long as|contradicts"),
    ):
        path.write_text("".join(json.dumps(record) + "\n" for record in (good, good, wrong)))
        with pytest.raises(ValueError, match=message):
            analysis.read(path)


@given(records())
def test_bits_are_the_same_however_many_games_are_walked_at_a_time(made):
    games = only(analysis.from_records(made))
    whole = analysis.bits_gained(games, SOLVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "WALKED", 2)
        patch.setattr(analysis, "CELLS", 5)
        assert np.array_equal(analysis.bits_gained(games, SOLVER), whole, equal_nan=True)


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_torn_archive_is_refused_by_its_name(tmp_path, kept):
    import gzip

    made = [game(secret, *LOSS[:2], secret) for secret in NAMES[:3]] * 400
    whole = gzip.compress("".join(json.dumps(record) + "\n" for record in made).encode())
    path = tmp_path / "games.jsonl.gz"
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        analysis.read(path)


def test_other_word_lengths_and_letters_are_measured_as_well():
    """A game of seven letters with an umlaut: nothing is tied to five letters a-z."""
    words = Words(("größere", "kleiner", "schöner"), ("größere", "kleiner", "schöner"))
    rules = rules_for(words, alphabet="a-zäöüß")
    player = lambda histories, seeds: [completion(["kleiner"], "kleiner") for _ in histories]  # noqa: E731
    made = evaluate.play_games(player, words.answers, words, rules, name="p")
    games = only(analysis.from_records(made))
    assert analysis.summary(games) == evaluate.summarise(made)
    assert np.nansum(analysis.bits_gained(games, Solver(words, rules))[1]) == pytest.approx(math.log2(3))


def test_easier_games_are_counted_and_never_paired_with_strict_ones():
    """Retries and games chosen from several stand in the summary, and keep players apart."""
    strict = [game("crane", "crane"), game("slate", "geese", "slate")]
    easier = [{**record, "player": "other", "retries": 2, "discarded": 3} for record in strict]
    games = analysis.from_records([*strict, *easier])
    assert "retries" not in analysis.summary(games["sft"])
    summary = analysis.summary(games["other"])
    assert (summary["retries"], summary["discarded"], summary["preplayed"]) == (4, 6, 0)
    assert summary == evaluate.summarise(easier)
    assert analysis.agree(games["sft"], games["other"]) == "retries"
    with pytest.raises(ValueError, match="field 'retries' differs"):
        analysis.paired(games["sft"], games["other"])
    with pytest.raises(ValueError, match="field 'retries' differs: 0 and 2"):
        evaluate.mcnemar(strict, easier)


def test_players_are_paired_on_the_secrets_that_both_played():
    first = [game("crane", "crane"), game("slate", *LOSS[1:], "those"), game("geese", "geese")]
    second = [game("slate", "slate", player="b"), game("crane", "slate", "crane", player="b")]
    games = analysis.from_records([*first, *second])
    found = analysis.paired(games["sft"], games["b"])
    assert (found.games, found.gained, found.lost, found.guesses) == (2, 0, 1, (6 - 1) / 2)


@pytest.mark.parametrize(
    ("second", "field"),
    [
        ([game("label", "label", player="b")], "secret"),
        ([game("crane", "crane", player="b")] * 2, "secret"),
        ([game("crane", "slate", "crane", player="b", preplayed=1)], "preplayed"),
    ],
)
def test_players_that_cannot_be_paired_are_refused_by_field(second, field):
    games = analysis.from_records([game("crane", "crane"), *second])
    assert analysis.agree(games["sft"], games["b"]) == field


def test_games_under_other_rules_are_not_paired():
    games = only(analysis.from_records([game("crane", "crane")]))
    assert analysis.agree(games, games._replace(rules="0" * 16)) == "rules"


def test_survival_falls_by_the_games_won_in_each_turn():
    made = [
        game("crane", "crane"),
        game("slate", "geese", "slate"),
        game("geese", *LOSS[:2], *LOSS[3:], "label"),
    ]
    assert analysis.survival(only(analysis.from_records(made))) == pytest.approx([1, 2 / 3, *[1 / 3] * 5])


def test_a_description_carries_intervals_that_hold_their_values():
    made = [
        game("crane", "crane"),
        game("slate", "geese", "slate"),
        game("geese", *LOSS[3:], *LOSS[:2], None),
    ]
    found = analysis.describe(analysis.measure(only(analysis.from_records(made)), SOLVER))
    assert found["mean_guesses_won"] == 1.5 and found["mean_guesses_won_interval"] == (1.0, 2.0)
    low, high = found["mean_guesses_loss7_interval"]
    assert low <= found["mean_guesses_loss7"] <= high
    assert found["hard_mode_wins"] == pytest.approx(2 / 3)
    once = analysis.describe(analysis.measure(only(analysis.from_records(made[1:2])), SOLVER))
    assert once["mean_guesses_won"] == 2 and once["mean_guesses_won_interval"] is None, (
        "one game has no range"
    )
    assert found["bits_per_turn"] > 0
    none = analysis.describe(
        analysis.measure(only(analysis.from_records(made)).take(np.zeros(3, bool)), SOLVER)
    )
    assert none["games"] == 0 and none["win_rate"] is None and none["bits_per_turn"] is None


def test_a_sample_is_drawn_once_and_the_same_again():
    games = only(analysis.from_records([game(secret, secret) for secret in NAMES]))
    drawn = analysis.sample(games, 5)
    assert len(set(drawn.secrets())) == 5 and drawn.secrets() == analysis.sample(games, 5).secrets()
    assert analysis.sample(games, 100) is games
