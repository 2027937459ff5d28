"""The harness: strict play, records, summaries, intervals and paired tests."""

import gzip
import json
import math
import random
import subprocess
import sys

import pytest
from conftest import LOSS, NAMES, RULES, WORDS, game
from hypothesis import given
from hypothesis import strategies as st

from wordlelib.data import draw_secrets
from wordlelib.evaluate import (
    by_player,
    flat_metrics,
    game_seed,
    games_before,
    guess_histogram,
    guesses_or_loss,
    history_of,
    inconsistent,
    iter_games,
    known_totals,
    mcnemar,
    paired_guesses,
    play_games,
    read_games,
    sign_flip_p,
    summarise,
    wilson,
    won_in,
    write_games,
)
from wordlelib.game import Turn, score
from wordlelib.prompts import completion
from wordlelib.rules import rules_for
from wordlelib.runs import Run, write_json
from wordlelib.words import Split, Words, split_secrets


def say(word):
    return completion([word], word)


def scripted(*texts):
    """A player that gives the same texts in every game, one a turn."""
    return lambda histories, seeds: [texts[len(history)] for history in histories]


def play(texts, secret="crane", words=WORDS, rules=RULES, name="scripted", **options):
    return play_games(scripted(*texts), [secret], words, rules, name=name, **options)[0]


def test_an_invalid_turn_uses_a_turn_and_is_never_tried_again():
    """A missing guess, a non-word and a legal guess each use one of six turns; texts are kept raw."""
    texts = ["nothing here", say("zzzzz"), say("slate"), "", say("<b>"), say("crane")]
    record = play(texts)
    assert [turn["text"] for turn in record["turns"]] == texts
    assert [turn["guess"] for turn in record["turns"]] == [None, "zzzzz", "slate", None, None, "crane"]
    assert [turn["feedback"] for turn in record["turns"]] == [None, None, "BBGBG", None, None, "GGGGG"]
    assert [turn["reason"] for turn in record["turns"]][:5] == ["no_tag", "ok", "ok", "empty", "not_letters"]
    assert [turn["rule"] for turn in record["turns"]][:3] == [None, "not_a_word", "ok"]
    assert record["won"] and record["n_guesses"] == 6 and record["preplayed"] == 0


def test_one_player_call_a_turn_for_all_unfinished_games():
    """Lock-step: each call holds every unfinished game of the block, histories equally long."""
    calls = []

    def player(histories, seeds):
        calls.append([len(history) for history in histories])
        assert len(seeds) == len(histories)
        return [say("crane") if not history else say("slate") for history in histories]

    records = play_games(player, ["crane", "slate", "geese"], WORDS, RULES, name="p")
    assert calls == [[0, 0, 0], [1, 1]] + [[n] for n in range(2, 6)]
    assert [record["n_guesses"] for record in records] == [1, 2, 6]
    calls.clear()
    play_games(player, ["crane", "slate", "geese"], WORDS, RULES, name="p", at_once=2)
    assert calls == [[0, 0], [1]] + [[n] for n in range(6)]


def test_a_game_does_not_depend_on_its_block():
    """Seeds come from the run seed and the game index, so the block size changes nothing."""

    def guesser(histories, seeds):
        return [
            say(random.Random(f"{s}{len(h)}").choice(NAMES)) for h, s in zip(histories, seeds, strict=True)
        ]

    whole = play_games(guesser, NAMES, WORDS, RULES, name="p", seed=5)
    assert whole == play_games(guesser, NAMES, WORDS, RULES, name="p", seed=5, at_once=5)
    assert whole != play_games(guesser, NAMES, WORDS, RULES, name="p", seed=6)
    assert [record["seed"] for record in whole] == [game_seed(5, i) for i in range(len(NAMES))]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (["<guess>slate</guess>"] * 2, "'p' returned 2 texts for 1 games"),
        ([], "'p' returned 0 texts for 1 games"),
        ([None], "'p' returned None for a game; every answer must be a text"),
        ("<guess>slate</guess>", "'p' returned str; it must return a list of texts"),
        (None, "'p' returned NoneType"),
    ],
)
def test_a_player_that_does_not_return_one_text_a_game_is_named(answer, message):
    with pytest.raises(ValueError, match=message):
        play_games(lambda histories, seeds: answer, ["crane"], WORDS, RULES, name="p")


def test_a_secret_that_cannot_be_guessed_is_refused():
    with pytest.raises(ValueError, match="secret 'zzzzz' is not an allowed guess"):
        play([say("crane")], secret="zzzzz")


def test_lists_that_are_not_those_of_the_rules_are_refused(shipped):
    with pytest.raises(ValueError, match="are not the word lists of the rules"):
        play([say("crane")], words=shipped)


def test_preplayed_turns_are_used_up_labelled_and_left_out_of_shares():
    """Two given turns leave four; the record says 2, and shares are over the player's turns."""
    given_turns = (Turn("geese", score("geese", "crane")), Turn(None, None, "no_tag", None))
    texts = ["", ""] + [say("zzzzz")] * 4
    record = play(texts, preplayed={"crane": given_turns})
    assert record["preplayed"] == 2 and record["n_guesses"] == 6 and history_of(record)[:2] == given_turns
    summary = summarise([record])
    assert (summary["nonword_share"], summary["malformed_share"], summary["preplayed"]) == (1.0, 0.0, 2)
    assert play([say("crane")], preplayed={"slate": given_turns})["preplayed"] == 0


def test_random_preplayed_turns_are_legal_and_repeatable():
    """A number asks for that many legal turns, never the secret, the same for the same seed."""
    texts = ["", "", ""] + [say("crane")] * 3
    record = play(texts, preplayed=3, seed=1)
    assert record == play(texts, preplayed=3, seed=1)
    assert record["turns"][:3] != play(texts, preplayed=3, seed=2)["turns"][:3]
    assert record["preplayed"] == 3 and won_in(record) == 4
    assert all(turn["rule"] == "ok" and turn["guess"] != "crane" for turn in record["turns"][:3])


def test_random_preplayed_turns_keep_hard_mode():
    """Under hard mode random turns use the hints, and stop early where no legal word is left."""
    hard = rules_for(WORDS, hard_mode=True)
    for secret in NAMES:
        record = play([say("zzzzz")] * 6, secret, rules=hard, preplayed=5)
        assert all(turn["rule"] == "ok" for turn in record["turns"][: record["preplayed"]])


@pytest.mark.parametrize(
    ("preplayed", "message"),
    [
        (6, "6 pre-played turns leave none of 6"),
        (-1, "-1 pre-played turns"),
        ({"crane": (Turn("crane", "GGGGG"),)}, "'crane' is already over"),
        ({"crane": (Turn("slate", "GGGBB"),)}, "feedback of 'crane' is not that of this secret"),
    ],
)
def test_preplayed_turns_that_do_not_fit_are_refused(preplayed, message):
    with pytest.raises(ValueError, match=message):
        play([say("crane")] * 6, preplayed=preplayed)


def test_rewards_are_kept_with_the_turn_they_judge():
    """The callable sees text, history before it and secret; its terms stand in the record."""
    record = play(
        [say("slate"), say("crane")],
        rewards=lambda text, history, secret: {"turn": len(history) + 0.5, "win": float(secret in text)},
    )
    assert [t["rewards"] for t in record["turns"]] == [{"turn": 0.5, "win": 0.0}, {"turn": 1.5, "win": 1.0}]
    assert play([say("crane")])["turns"][0]["rewards"] == {}


def test_a_stage_goes_on_with_whole_players_and_the_inputs_that_they_had(tmp_path):
    """Stopped anywhere: games without their row in the log do not count, nor a row that was cut short."""
    stage, sft = tmp_path / "04_eval", tmp_path / "02_sft"
    for folder in (stage, sft):
        folder.mkdir()
    run = Run("04_eval", None, stage, resumed=True, rules=RULES)
    write_json(stage / "status.json", {"status": "running", "inputs": {}})
    assert games_before(run) == ([], [])
    write_json(stage / "status.json", {"status": "running", "inputs": {"02_sft": "1"}})
    write_json(sft / "status.json", {"status": "done", "ended": "1"})
    first, second = (game(WORDS.answers[0], WORDS.answers[0], player=name) for name in "ab")
    write_games(stage / "games.jsonl", [first, second])
    assert games_before(run) == ([], [])
    run.log({"player": "a"})
    with open(stage / "log.jsonl", "a") as log:
        log.write('{"player": "b"')
    assert games_before(run) == ([first], [{"player": "a"}]) and run.inputs == {"02_sft": "1"}
    write_json(sft / "status.json", {"status": "done", "ended": "2"})
    with pytest.raises(ValueError, match="begun with an earlier 02_sft"):
        games_before(run)


def test_progress_is_told_after_each_turn():
    seen = []
    options = {"name": "p", "at_once": 2, "on_turn": lambda done, games: seen.append((done, games))}
    play_games(scripted(say("crane"), say("slate")), ["crane", "slate", "crane"], WORDS, RULES, **options)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_case_10_validation_games_have_different_secrets():
    """50 games drawn by seed 0 have 50 secrets and 50 seeds, the same on a rerun, all in the records."""
    names = tuple(f"{a}{b}{c}xx" for a in "abcde" for b in "abcde" for c in "abcd")
    words = Words(names, names)
    drawn = draw_secrets(names, 50, 0)
    assert drawn == draw_secrets(names, 50, 0) != draw_secrets(names, 50, 1)
    records = play_games(scripted(*[""] * 6), drawn, words, rules_for(words), name="p", seed=0)
    assert [record["secret"] for record in records] == drawn and len(set(drawn)) == 50
    assert len({record["seed"] for record in records}) == 50


def test_case_20_a_game_ended_by_illegal_moves_with_part_credit_is_no_win():
    """Part credit and a false flag win nothing; the invalid share stands beside the win rate."""
    record = play([say("zzzzz")] * 6, rewards=lambda *_: {"credit": 0.2})
    record["won"] = True
    summary = summarise([record])
    assert (summary["win_rate"], summary["invalid_share"], summary["nonword_share"]) == (0.0, 1.0, 1.0)
    assert guesses_or_loss(record) == 7
    # The secret in a broken or illegal turn is no win either.
    illegal = game("crane", *LOSS)
    illegal["turns"][0] |= {"guess": "crane", "feedback": None, "rule": "hard_mode"}
    assert won_in(illegal) is None


def test_case_22_the_last_guess_counts():
    """A win in the sixth turn is a win in six, and every text asked for stands in the record."""
    asked = []

    def player(histories, seeds):
        asked.append(len(histories))
        return [say((*LOSS[:5], "crane")[len(history)]) for history in histories]

    record = play_games(player, ["crane"], WORDS, RULES, name="p", rewards=lambda *_: {"x": 1.0})[0]
    assert record["won"] and won_in(record) == 6
    assert len(record["turns"]) == record["n_guesses"] == sum(asked) == 6
    assert all(turn["rewards"] for turn in record["turns"])
    assert summarise([record])["mean_guesses_loss7"] == 6


def test_case_28_part_credit_wins_and_guesses_are_separate_numbers():
    """Letters half right and no game won: win rate 0, no mean over wins, the loss mean at its ceiling."""
    records = [play([say(guess) for guess in LOSS], rewards=lambda *_: {"letters": 0.5}) for _ in range(3)]
    summary = summarise(records)
    assert summary["win_rate"] == 0 and summary["mean_guesses_won"] is None
    assert summary["mean_guesses_loss7"] == 7
    assert not any("reward" in name or "letters" in name for name in summary)


MEMORY = """
import psutil, sys
from wordlelib.evaluate import iter_games, write_games
from wordlelib.rules import rules_for
from wordlelib.words import load_words

words = load_words()
rules = rules_for(words)
calls = peak = 0

def player(histories, seeds):
    global calls, peak
    calls, peak = calls + 1, max(peak, psutil.Process().memory_info().rss)
    return [f"{calls} {seed} " * 200 + "<guess>crane</guess>" for seed in seeds]

for n in (500, 2000):
    write_games(sys.argv[1], iter_games(player, words.answers[:n], words, rules, name="p", at_once=250))
    print(peak)
"""


def test_case_44_memory_is_flat_over_2000_games(tmp_path):
    """The most memory used up to 2,000 games is within 6 MB of that up to 500: records are dropped.

    A process of its own, since memory that earlier tests freed would hide the growth.
    """
    pytest.importorskip("psutil")
    path = tmp_path / "games.jsonl"
    command = [sys.executable, "-c", MEMORY, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, last = map(int, done.stdout.split())
    assert path.stat().st_size > 20e6, "the games are large enough that keeping them would show"
    assert last - first < 6e6


def test_summary_of_hand_made_games():
    """Every metric against values counted by hand: 3 games, 1 + 3 + 6 turns."""
    records = [
        game("crane", "crane"),
        game("slate", "maple", "crane", "slate"),
        # a repeated word, a non-word twice, no guess, and a guess without the known S and E
        game("geese", "those", "those", "zzzzz", "zzzzz", None, "cynic"),
    ]
    summary = summarise(records)
    low, high = wilson(2, 3)
    assert summary == {
        "games": 3,
        "win_rate": 2 / 3,
        "win_rate_low": low,
        "win_rate_high": high,
        "mean_guesses_won": 2.0,
        "mean_guesses_loss7": 11 / 3,
        "malformed_share": 0.1,
        "nonword_share": 0.2,
        "invalid_share": 0.3,
        "repeat_share": 0.2,
        # crane drops the L that maple showed; the second those and cynic drop hints of the first
        "inconsistent_share": 0.3,
        "preplayed": 0,
    }
    assert guess_histogram(records) == {"1": 1, "2": 0, "3": 1, "4": 0, "5": 0, "6": 0, "X": 1}


def test_an_empty_summary_and_one_without_wins_hold_none_and_no_nan():
    assert summarise([])["win_rate"] is None and summarise([])["win_rate_low"] is None
    summary = summarise([game("crane", *LOSS)])
    assert summary["mean_guesses_won"] is None
    json.dumps([summary, summarise([])], allow_nan=False)


@pytest.mark.parametrize("field", ["player", "rules"])
def test_one_summary_does_not_mix_players_or_rules(field):
    with pytest.raises(ValueError, match=f"'{field}' differ: .*other"):
        summarise([game("crane", "crane"), game("slate", "slate", **{field: "other"})])


def test_inconsistent_is_a_legal_guess_against_the_feedback():
    """A non-word is not counted as inconsistent, a repeated wrong word is, the secret never."""
    history = history_of(game("crane", "slate"))
    assert inconsistent(Turn("slate", "BBGBG"), history)
    assert not inconsistent(Turn("zzzzz", None, rule="not_a_word"), history)
    assert not inconsistent(Turn("crane", "GGGGG"), history)


def test_splits_are_summed_apart_and_empty_ones_left_out():
    split = Split(train=("crane",), val=("slate",), test=("geese",))
    records = [game("crane", "crane"), game("slate", "slate"), game("geese", *["those"] * 6)]
    metrics = flat_metrics(records, split)
    games = {key.split("/")[1]: value for key, value in metrics.items() if key.endswith("/games")}
    assert games == {"all": 3, "train": 1, "heldout": 1}
    assert (metrics["sft/train/win_rate"], metrics["sft/heldout/win_rate"]) == (1.0, 0.0)
    assert {key.split("/")[1] for key in flat_metrics(records[:1], split)} == {"all", "train"}
    apart = flat_metrics(records, split, grpo_secrets=["crane"])
    assert apart["sft/grpo_secrets/games"] == apart["sft/train/games"] == 1


def test_flat_metrics_hold_every_player_split_and_paired_test():
    split = Split(train=("crane",), val=(), test=("geese",))
    lost, won = [game("crane", *LOSS), game("geese", *LOSS[:2], "geese")], ["crane", "geese"]
    records = lost + [game(secret, secret, player="grpo") for secret in won]
    metrics = flat_metrics(records, split, {"win_rate": 1.0})
    assert metrics["sft/all/win_rate"] == 0.5 and metrics["grpo/heldout/win_rate"] == 1.0
    assert metrics["optimal/all/win_rate"] == 1.0
    assert metrics["grpo/all/vs_sft_wins_gained"] == 1 and metrics["grpo/all/vs_sft_wins_lost"] == 0
    assert metrics["grpo/all/vs_sft_guesses_change"] == -4.0
    assert metrics["grpo/train/vs_sft_wins_p"] == 1.0
    assert not any("vs_sft_continued" in name or name.startswith("sft/all/vs") for name in metrics)
    assert list(by_player(records)) == ["sft", "grpo"]


def test_best_possible_play_is_known_for_the_shipped_lists_only(shipped):
    best = known_totals(shipped, rules_for(shipped))
    assert best["mean_guesses_won"] == 7920 / 2315 and best["win_rate"] == 1.0
    hard = known_totals(shipped, rules_for(shipped, hard_mode=True))
    assert hard["mean_guesses_loss7"] == 8122 / 2315 and hard["win_rate"] is None
    assert known_totals(WORDS, RULES) is None
    assert known_totals(shipped, rules_for(shipped, turns=4)) is None
    assert known_totals(shipped, rules_for(shipped, turns=7)) is None
    assert best["win_rate_low"] is best["win_rate_high"] is None, "a constant has no interval"
    assert set(best) == set(summarise([]))


def test_wilson_against_published_values():
    """81 of 263 (Newcombe, 1998): 0.2553 to 0.3662; 0 of 20: 0 to 0.1611; 1 of 29: 0.0061 to 0.1718."""
    for (k, n), expected in {
        (81, 263): (0.2553, 0.3662),
        (0, 20): (0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson(k, n) == pytest.approx(expected, abs=5e-5)


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_bounds_hold_the_share_and_rise_with_it(pair):
    k, n = pair
    low, high = wilson(k, n)
    assert 0 <= low <= k / n <= high <= 1 and low < high
    other_low, other_high = wilson(n - k, n)
    assert (1 - other_high, 1 - other_low) == pytest.approx((low, high))
    if k < n:
        more_low, more_high = wilson(k + 1, n)
        assert more_low > low and more_high > high
    wider_low, wider_high = wilson(k, n, z=2.58)
    assert wider_low <= low and high <= wider_high


@pytest.mark.parametrize(("k", "n"), [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(k, n):
    with pytest.raises(ValueError, match="no interval"):
        wilson(k, n)


def twins(*outcomes):
    """Two players' records over as many secrets: `outcomes` are pairs of won (True) and lost."""
    sides = []
    for side, player in enumerate(("grpo", "sft")):
        won = {secret: outcome[side] for secret, outcome in zip(NAMES, outcomes, strict=False)}
        sides.append([game(s, *((s,) if w else [None] * 6), player=player) for s, w in won.items()])
    return sides


def test_mcnemar_against_hand_values():
    """6 games only the first won, 1 only the second: p = 2 * (1 + 7) / 128 = 0.125; ties do not count."""
    first, second = twins(*[(True, False)] * 6, (False, True), (True, True), (False, False))
    assert mcnemar(first, second) == (6, 1, 0.125)
    assert mcnemar(second, first) == (1, 6, 0.125)
    assert mcnemar(first, first).p == 1.0
    assert mcnemar(*twins(*[(True, False)] * 8)).p == pytest.approx(2 / 256)


def test_paired_guesses_against_hand_values():
    """Three games one guess against a loss (7): difference -6, all signs alike: p = 2 / 8."""
    first, second = twins((True, False), (True, False), (True, False))
    assert paired_guesses(first, second) == (-6.0, 0.25)
    assert paired_guesses(second, first) == (6.0, 0.25)
    assert paired_guesses(first, first) == (0.0, 1.0)


@given(st.lists(st.integers(-6, 6), max_size=9))
def test_sign_flip_p_equals_the_count_over_all_sign_patterns(differences):
    """The convolved distribution is the one of all 2^n sign patterns."""
    sums = [0]
    for d in differences:
        sums = [s + sign * d for s in sums for sign in (-1, 1)]
    extreme = sum(abs(s) >= abs(sum(differences)) for s in sums) / len(sums)
    assert sign_flip_p(differences) == pytest.approx(extreme)
    assert sign_flip_p([-d for d in differences]) == sign_flip_p(differences)


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_p_is_the_exact_binomial_test(gained, lost):
    from scipy.stats import binomtest

    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert sign_flip_p([1] * gained + [-1] * lost) == pytest.approx(expected)


def test_sign_flip_p_of_a_whole_list_of_games_is_finite():
    """2,315 games: big binomials neither overflow nor drift above 1."""
    rng = random.Random(0)
    p = sign_flip_p([rng.randint(-6, 6) for _ in range(2315)])
    assert 0 < p <= 1 and math.isfinite(p)
    assert sign_flip_p([-1] * 2315) < 1e-300


@pytest.mark.parametrize("test", [mcnemar, paired_guesses])
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda records: records[:-1], "secret"),
        (lambda records: [*records, records[0]], "secret"),
        (lambda records: [{**records[0], "rules": "other"}, *records[1:]], "rules"),
        (lambda records: [{**records[0], "preplayed": 1}, *records[1:]], "preplayed"),
    ],
)
def test_paired_tests_refuse_games_that_do_not_match(test, change, field):
    """Different or repeated secrets, other rules, other pre-played turns: the field is named."""
    first, second = twins((True, False), (True, True))
    for sides in ((first, change(second)), (change(first), second)):
        with pytest.raises(ValueError, match=f"field '{field}'"):
            test(*sides)


def test_paired_tests_refuse_no_games():
    with pytest.raises(ValueError, match="field 'secret'"):
        mcnemar([], [])


def test_games_written_and_read_are_the_same(tmp_path):
    """Raw texts survive, whatever they hold; a generator can be written as it plays."""
    path, texts = tmp_path / "games.jsonl", ['<guess>\n"\u2028\x00é', *[say("slate")] * 4, say("crane")]
    write_games(path, iter_games(scripted(*texts), ["crane", "geese"], WORDS, RULES, name="p"))
    records = read_games(path, RULES)
    assert records == play_games(scripted(*texts), ["crane", "geese"], WORDS, RULES, name="p")
    assert read_games(path) == records
    assert [file.name for file in tmp_path.iterdir()] == ["games.jsonl"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "games.jsonl"
    write_games(path, [game("crane", "crane")])

    def broken():
        yield game("slate", "slate")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_games(path, broken())
    assert [record["secret"] for record in read_games(path)] == ["crane"]
    assert [file.name for file in tmp_path.iterdir()] == ["games.jsonl"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-20], "line 2: not JSON"),
        (lambda line: "[]\n", "line 2: list where an object"),
        (lambda line: line.replace('"reason"', '"raison"'), "line 2: not a game record, its `turns` lack"),
        (lambda line: line.replace('"secret"', '"sekret"'), "line 2: not a game record, 'secret' is missing"),
        (
            lambda line: line.replace(RULES.digest, "0" * 16),
            "line 2: played under rules 0000000000000000, not",
        ),
        (
            lambda line: line.replace('"won": true', '"won": false'),
            "line 2: `won` or `n_guesses` contradicts",
        ),
        (lambda line: line.replace('"n_guesses": 1', '"n_guesses": 3'), "line 2: `won` or `n_guesses`"),
    ],
)
def test_a_corrupt_games_file_is_refused_with_its_line(tmp_path, change, message):
    path = tmp_path / "games.jsonl"
    write_games(path, [game("crane", "crane"), game("slate", "slate")])
    first, second = path.read_text().splitlines(keepends=True)
    assert change(second) != second
    path.write_text(first + change(second))
    with pytest.raises(ValueError, match=f"games.jsonl, {message}"):
        read_games(path)


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: b"no gzip file"])
def test_a_damaged_archive_of_games_is_refused(tmp_path, damage):
    path = tmp_path / "games.jsonl"
    write_games(path, [game("crane", "crane"), game("slate", "slate")])
    packed = tmp_path / "games.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_games(packed) == read_games(path)
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(ValueError, match=r"games.jsonl.gz: not a whole gzip file"):
        read_games(packed)


def test_games_of_other_rules_are_refused(tmp_path):
    path = tmp_path / "games.jsonl"
    write_games(path, [game("crane", "crane")])
    with pytest.raises(ValueError, match="line 1: played under rules"):
        read_games(path, rules_for(WORDS, turns=5))


def test_other_word_lengths_and_turns_play_to_their_own_end():
    """Nothing counts on five letters or six turns: a loss in three turns counts four guesses."""
    names = ("abcd", "bcde", "cdef")
    words = Words(names, names)
    rules = rules_for(words, turns=3)
    record = play([say("bcde")] * 3, "abcd", words, rules)
    assert record["n_guesses"] == 3 and guesses_or_loss(record) == 4
    assert guess_histogram([record], rules.turns) == {"1": 0, "2": 0, "3": 0, "X": 1}


def test_shipped_split_metrics_use_the_held_out_part(shipped):
    """heldout is the 500-word test part, never validation."""
    split = split_secrets(shipped)
    rules = rules_for(shipped)
    secrets = [split.train[0], split.val[0], split.test[0]]
    records = play_games(scripted(*[""] * 6), secrets, shipped, rules, name="p")
    assert flat_metrics(records, split)["p/heldout/games"] == 1
