"""The benchmark's own arithmetic, and its checks that the fast paths give the right results."""

import re
import subprocess
import sys

import pytest

from wordlelib import bench
from wordlelib.rules import rules_for
from wordlelib.solver import Solver


@pytest.mark.parametrize(
    "measured, unit, mark, reference, ok, ratio",
    [
        (0.5, "s", 0.6, 50.0, True, 100.0),
        (0.7, "s", 0.6, 70.0, False, 100.0),
        (30_000, "completions/s", 20_000, 100, True, 300.0),
        (10_000, "completions/s", 20_000, 100, False, 100.0),
        (3.0, "s", None, None, True, None),
    ],
)
def test_times_stay_below_their_mark_and_speeds_above(measured, unit, mark, reference, ok, ratio):
    line = bench.row("name", measured, unit, mark, reference, "note")
    assert (line["ok"], line["ratio"]) == (ok, ratio)


def test_rewards_agree_with_plain_python_and_games_are_counted(shipped, monkeypatch):
    """Small sizes: the rewards row raises when the information term differs from its reference."""
    pytest.importorskip("psutil")
    monkeypatch.setattr(bench, "STATES", 16)
    monkeypatch.setattr(bench, "GAMES", 20)
    monkeypatch.setattr(bench, "EARLY", 10)
    solver = Solver(shipped, rules_for(shipped))
    lines = [bench._rewards(solver), *bench._games(solver), *bench._replay(solver)]
    assert [line["name"].split()[0] for line in lines] == ["rewards,", "20", "memory", "opening", "replay,"]
    assert lines[3]["name"] == "opening 120 games for replay" and lines[4]["measured"] > 0
    assert all(line["measured"] > 0 for line in lines[:2])
    assert lines[0]["note"].startswith("16 states of 1 to 4 turns, groups of 8")


def test_training_rows_are_made_counted_and_checked_as_those_of_others(shipped, monkeypatch):
    """The marks are those of a million rows: 240 seconds, 2 GiB."""
    pytest.importorskip("psutil")
    assert bench.ROWS == 1_000_000
    monkeypatch.setattr(bench, "ROWS", 300)
    line, memory, *checked = bench._synthesis(shipped)
    kept = int(line["note"].split("; ")[1].split()[0])
    assert line["name"] == "300 training rows with thinking" and 200 < kept <= 300
    assert line["measured"] > 0 and (line["unit"], line["mark"]) == ("s", 240)
    assert 0.03 < memory["measured"] < 4 and (memory["unit"], memory["mark"]) == ("GiB", 2)
    assert [row["name"].split()[:2] for row in checked] == [["1", "GB"]] * 2
    for row in checked:
        speed, size = map(float, re.findall(r"[\d.]+(?= MB)", row["note"]))
        assert row["unit"] == "s" and row["measured"] == pytest.approx(1000 / speed, rel=0.1)
        assert 0.1 < size < 1
        assert float(re.search(r"[\d.]+(?= GiB)", row["note"])[0]) > 0.03


def test_the_peak_of_memory_counts_the_processes_that_were_started_and_have_ended(monkeypatch):
    pytest.importorskip("psutil")
    monkeypatch.setattr(bench, "LOOK", 0.01)
    with bench.Peak() as alone:
        pass
    with bench.Peak() as peak:
        code = "import time; held = b'x' * 2**28; time.sleep(0.3)"
        subprocess.run([sys.executable, "-c", code], check=True)
    assert 0.25 < peak.gib - alone.gib < 0.5


def test_a_file_of_recorded_games_is_summarised_in_a_process_of_its_own(shipped, monkeypatch):
    """The row raises when the summary of the file differs from that of the games in memory."""
    monkeypatch.setattr(bench, "RECORDED", 400)
    monkeypatch.setattr(bench, "DISTINCT", 100)
    summary, memory = bench._recorded(Solver(shipped, rules_for(shipped)))
    assert summary["name"] == "summary of 400 recorded games" and summary["ratio"] > 0
    assert 0 < memory["measured"] < 2 and memory["ok"]


def test_case_43_import_that_loads_torch_is_refused():
    pytest.importorskip("torch")
    assert bench._import(["wordlelib"], "import wordlelib")["measured"] < 60
    with pytest.raises(ValueError, match="import of torch loads torch"):
        bench._import(["torch"], "import torch")
