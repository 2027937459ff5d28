"""States for GRPO by choice: those of a report's lists, checked against the run's own game."""

import pytest
import yaml
from conftest import example

from wordlelib import data, evaluate, params, recipes, runs
from wordlelib.game import Turn, decode_history, encode_history
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.states import chosen_states
from wordlelib.words import split_secrets


def build(folder, words, **rules):
    rules = rules_for(words, **rules)
    split = split_secrets(words, test=16, val=8)
    lists = {"sample": len(words.answers)}
    data.build(folder, rules, split, source=lists, rows=30, states=60)
    source = data.load(folder)
    return source, Solver(source.training_words, rules)


@pytest.fixture(scope="module")
def made(small_words, tmp_path_factory):
    """Data of a game of 64 words, and its solver."""
    return build(tmp_path_factory.mktemp("data"), small_words, renderer="symbols")


@pytest.fixture
def lost(made, tmp_path):
    """A file of states as a report writes them, of a game that was lost."""
    source, solver = made
    secret = source.split.train[0]
    player = lambda histories, seeds: ["hm" if len(h) % 2 else "<guess>zzzzz</guess>" for h in histories]  # noqa: E731
    [record] = evaluate.play_games(player, [secret], source.words, source.rules, name="sft")
    history = evaluate.history_of(record)
    rows = [data.state_row(solver, history[:end], secret, "lost by sft") for end in range(len(history))]
    data.write_jsonl(tmp_path / "lost_states.jsonl", rows)
    return tmp_path / "lost_states.jsonl"


def test_without_a_file_they_are_those_of_the_data(made):
    assert chosen_states(*made) == made[0].rows("states")


def test_a_list_of_secrets_takes_their_states(made, tmp_path):
    source, solver = made
    secrets = source.split.train[:3]
    listed = tmp_path / "lost_by_all.txt"
    listed.write_text("\n".join([secrets[0].upper(), "", *secrets[1:]]) + "\r\n")
    rows = chosen_states(source, solver, str(listed))
    assert rows == [row for row in source.rows("states") if row["secret"] in secrets]


def test_states_of_lost_games_come_as_the_report_wrote_them_each_once(made, lost):
    rows = data.read_jsonl(lost)
    data.write_jsonl(lost, rows + rows[:2])
    assert chosen_states(*made, str(lost)) == rows and len(rows) == 6


def test_states_of_a_run_with_another_renderer_are_written_as_this_run_writes_them(
    small_words, lost, tmp_path
):
    source, solver = build(tmp_path / "words", small_words, renderer="words")
    theirs, ours = data.read_jsonl(lost), chosen_states(source, solver, str(lost))
    assert [row["history"] for row in ours] == [row["history"] for row in theirs]
    assert all(a["prompt"] != b["prompt"] for a, b in zip(ours[1:], theirs[1:], strict=True))


def changed(row, **fields):
    return {**row, **fields}


def with_turn(row, turn):
    return changed(row, history=encode_history((*decode_history(row["history"]), turn)))


def test_what_this_run_must_not_or_cannot_learn_from_is_named_by_its_line(made, lost, tmp_path):
    source, solver = made
    first = data.read_jsonl(lost)[0]
    other, held_out = source.split.train[1], source.split.test[0]
    for row, said in (
        (changed(first, secret=held_out), "no training secret of this run"),
        (changed(first, secret="zzzzz"), "no training secret of this run"),
        ({"secret": first["secret"]}, "a state has a `secret` and a `history`"),
        (changed(first, history="no"), "a state has a `secret` and a `history`"),
        (changed(first, history="[[1]]"), "a state has a `secret` and a `history`"),
        (with_turn(first, Turn(other, "GGGGG")), "no such state"),  # not the feedback of this secret
        (with_turn(first, Turn("zzzzz", "BBBBB")), "no such state"),  # no word of this game
        (with_turn(first, Turn(first["secret"], "GGGGG")), "no such state"),  # the game is over
        (with_turn(first, Turn("toolong", None, "ok", "not_a_word")), "no such state"),
    ):
        data.write_jsonl(lost, [first, row])
        with pytest.raises(ValueError, match=said) as refused:
            chosen_states(source, solver, str(lost))
        assert "line 2" in str(refused.value)
    listed = tmp_path / "own.txt"
    listed.write_text(f"{other}\n{held_out}\n")
    with pytest.raises(ValueError, match=r"own.txt, line 2.*no training secret"):
        chosen_states(source, solver, str(listed))


def test_an_absent_or_empty_file_is_one_sentence(made, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.jsonl: no such file"):
        chosen_states(*made, str(tmp_path / "nothing.jsonl"))
    for name in ("empty.jsonl", "empty.txt"):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match="names no state"):
            chosen_states(*made, str(tmp_path / name))


def test_chosen_states_that_nobody_would_learn_from_are_refused():
    asked = example("03_grpo", states_from="lost_states.jsonl", group_size=2)
    for values in ({"states": "refreshed"}, {"unit": "game"}):
        with pytest.raises(ValueError, match="set states to fixed or mixed"):
            params.resolve("03_grpo", asked | values)
    assert params.resolve("03_grpo", asked)["states_from"] == "lost_states.jsonl"


def test_a_stage_made_before_there_was_the_choice_is_still_kept(tmp_path):
    values = example("03_grpo", group_size=2)
    old = {name: value for name, value in values.items() if name != "states_from"}
    (tmp_path / "03_grpo").mkdir()
    runs.write_text(tmp_path / "03_grpo" / "config.yaml", yaml.safe_dump(old))
    assert runs.changed_parameter(tmp_path / "03_grpo", values, runs.NEVER_COMPARED) is None
    values["states_from"] = "lost_states.jsonl"
    assert "states_from=''" in runs.changed_parameter(tmp_path / "03_grpo", values, runs.NEVER_COMPARED)
    assert recipes.defaults("03_grpo")["states_from"] == ""
