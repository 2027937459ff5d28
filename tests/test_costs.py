"""What a run took: minutes of stages and of models, from the files of its stages."""

import json

import pytest
from conftest import ROOT

from wordlelib import costs, findings
from wordlelib.evaluations import read_run
from wordlelib.runs import read_json, write_json


def stage(run, name, start, end, rows=(), **metrics):
    """A finished stage that ran from minute `start` to minute `end` of an hour."""
    folder = run / name
    folder.mkdir(parents=True)
    write_json(folder / "environment.json", {"started": f"2026-01-01T00:{start:02}:00+00:00"})
    write_json(folder / "status.json", {"status": "done", "ended": f"2026-01-01T00:{end:02}:00+00:00"})
    write_json(folder / "metrics.json", metrics)
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(tmp_path):
    """Two minutes of data, ten of SFT (two of them loading), nine of GRPO with three of the control."""
    stage(tmp_path, "01_data_synthesis", 0, 2)
    sft = [{"minutes": 4, "val_win_rate": 0.5}, {"minutes": 8, "val_win_rate": 0.75}]
    stage(tmp_path, "02_sft", 5, 15, sft)
    stage(tmp_path, "03_grpo", 20, 29, [{"minutes": 5, "val_win_rate": 1.0}], control_minutes=3)
    return tmp_path


def test_minutes_of_stages_run_from_the_first_cell_to_the_last_whatever_passed_between_them(run):
    assert costs.stage_minutes(run) == {"01_data_synthesis": 2, "02_sft": 10, "03_grpo": 9}


def test_grpo_and_its_control_both_start_after_sft(run):
    assert costs.player_minutes(run) == {"untrained": 0, "sft": 12, "grpo": 18, "sft_continued": 15}


def test_validations_stand_where_their_training_was_with_loading_before_it(run):
    assert costs.validations(run) == [(8, 0.5), (12, 0.75), (18, 1.0)]


def test_rounds_of_corrections_come_after_the_validations_of_their_stage(tmp_path):
    stage(tmp_path, "01_data_synthesis", 0, 2)
    stage(tmp_path, "02_sft", 5, 20, [{"minutes": 8, "val_win_rate": 0.5}], correct_minutes=5)
    stage(tmp_path, "03_grpo", 30, 37, [{"minutes": 6, "val_win_rate": 1.0}])
    assert costs.validations(tmp_path) == [(12, 0.5), (24, 1.0)]


def test_a_resumed_stage_counts_what_is_known_of_its_starts_before(run):
    record = read_json(run / "03_grpo" / "environment.json")
    write_json(run / "03_grpo" / "environment.json", {**record, "earlier_seconds": 240})
    assert costs.stage_minutes(run)["03_grpo"] == 13
    assert costs.player_minutes(run)["grpo"] == 22


def test_a_resumed_training_counts_at_least_the_minutes_of_its_log(tmp_path):
    stage(tmp_path, "02_sft", 5, 6, [{"minutes": 30}])
    assert costs.stage_minutes(tmp_path) == {"02_sft": 30}


def test_a_run_without_times_has_no_minutes(tmp_path):
    (tmp_path / "02_sft").mkdir()
    assert costs.stage_minutes(tmp_path) == {} and costs.player_minutes(tmp_path) == {"untrained": 0}


def test_the_section_of_a_kept_run_says_what_each_stage_took_and_draws_wins_by_minutes():
    found = findings.Findings([ROOT / "results" / "reference" / "cpu-demo"])
    section = findings.minutes(found)
    [row] = section.tables["Minutes"]
    parts = [float(row[name]) for name in costs.STAGES]
    assert row["card"] == "no GPU" and float(row["all"]) == pytest.approx(sum(parts), abs=0.2)
    curves = {trace.name: trace for trace in section.figures["wins_by_minutes"].data}
    assert set(curves) == {*("all", "heldout", "all, SFT continued", "heldout, SFT continued", "validation")}
    won = read_run(found.runs[0].folder).metrics["grpo/all/win_rate"]
    assert curves["all"].y[-1] == pytest.approx(won, abs=1e-3) and curves["all"].x[0] == 0
