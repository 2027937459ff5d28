"""Watching a training: torn lines, restarted runs, what is shown, and hostile samples."""

import gzip
import json
import os
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from conftest import ROOT, finish

from wordlelib import data, evaluate, models, runs, watch
from wordlelib.__main__ import main
from wordlelib.rules import rules_for
from wordlelib.words import split_secrets


@pytest.fixture
def stage(tmp_path):
    """A GRPO stage that is running, with a log of three rows."""
    folder = tmp_path / "run" / "03_grpo"
    folder.mkdir(parents=True)
    set_status(folder, "running")
    for step in (1, 2, 3):
        append(folder, row(step))
    return folder


def row(step, **more):
    shown = {"step": step, "minutes": step / 10, "reward": step / 4, "frac_reward_zero_std": 0.25}
    return {**shown, "memory_gib": 0.5, "samples": [f"<guess>w{step}</guess>"], **more}


def append(folder, content):
    with open(folder / "log.jsonl", "a") as file:
        file.write(content if isinstance(content, str) else json.dumps(content) + "\n")


def set_status(folder, status):
    (folder / "status.json").write_text(json.dumps({"status": status}))


def test_a_torn_last_line_waits_for_its_end(stage):
    follower = watch.Follower(stage / "log.jsonl")
    assert [r["step"] for r in follower.look()] == [1, 2, 3]
    whole = json.dumps(row(4)) + "\n"
    append(stage, whole[:30])
    assert len(follower.look()) == 3
    append(stage, whole[30:])
    assert [r["step"] for r in follower.look()] == [1, 2, 3, 4] and follower.damaged == 0


def test_a_run_that_is_kept_shows_its_packed_log(stage):
    before = watch.Watched(stage.parent).look()
    (stage / "log.jsonl.gz").write_bytes(gzip.compress((stage / "log.jsonl").read_bytes()))
    (stage / "log.jsonl").unlink()
    set_status(stage, "done")
    watched = watch.Watched(stage.parent)
    assert watched.look() == before and len(before) == 3 and watched.ended


def test_only_what_is_new_is_read(stage, monkeypatch):
    follower = watch.Follower(stage / "log.jsonl")
    follower.look()
    parsed = []
    loads = json.loads
    monkeypatch.setattr(watch.json, "loads", lambda line: parsed.append(line) or loads(line))
    append(stage, row(4))
    follower.look()
    assert len(parsed) == 1


def test_a_restarted_run_is_read_from_its_beginning(stage):
    """Both a resume, which writes the log anew with fewer rows, and a log that was emptied in place."""
    follower = watch.Follower(stage / "log.jsonl")
    follower.look()
    runs.write_text(stage / "log.jsonl", json.dumps(row(1)) + "\n")
    append(stage, row(2, reward=9.0))
    append(stage, row(3))
    assert [r["reward"] for r in follower.look()] == [0.25, 9.0, 0.75]
    os.truncate(stage / "log.jsonl", 0)
    append(stage, row(7))
    assert [r["step"] for r in follower.look()] == [7]
    (stage / "log.jsonl").unlink()
    assert follower.look() == []


def test_a_line_that_is_no_json_is_counted_and_passed_over(stage):
    append(stage, "\x00\x00\x00\n[1]\n")
    append(stage, row(4))
    watched = watch.Watched(stage.parent)
    assert len(watched.look()) == 4 and "2 unreadable lines" in watched.heading()


def test_the_stage_that_runs_is_watched_else_the_latest(stage):
    sft = stage.parent / "02_sft"
    sft.mkdir()
    set_status(sft, "running")
    set_status(stage, "done")
    append(sft, {"step": 5, "loss": 1.5})
    watched = watch.Watched(stage.parent)
    assert watched.look() == [{"step": 5, "loss": 1.5}] and watched.stage == "02_sft" and not watched.ended
    set_status(sft, "done")
    watched.look()
    assert watched.stage == "03_grpo" and watched.ended
    (stage / "status.json").unlink()
    watched.look()
    assert watched.stage == "02_sft" and not watched.ended  # GRPO may follow
    assert watch.Watched(stage.parent / "nothing").look() == []


def test_a_line_of_text_has_what_matters(stage):
    append(stage, row(4, games_win_rate=0.5, reward=None))
    rows = watch.Watched(stage.parent).look()
    assert watch.line(rows) == (
        "step 4, 0.4 min; reward 0.750; games won 50.0%; groups without spread 25.0%; memory, GiB 0.50"
    )
    assert watch.line([]) == "no step is logged yet"


def test_watch_prints_news_until_the_end(stage, capsys, monkeypatch):
    """Rows that come while it sleeps are printed once; then the end with samples."""
    todo = [lambda: append(stage, row(4)), lambda: None, lambda: set_status(stage, "failed")]
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: todo.pop(0)())
    assert main(["watch", str(stage.parent)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:15] for line in lines[:2]] == ["03_grpo step 3,", "03_grpo step 4,"]
    assert lines[2].endswith("03_grpo: failed") and lines[4:] == [
        "samples of completions:",
        "    <guess>w4</guess>",
    ]


def test_samples_are_shown_as_text(stage, headless):
    append(stage, row(4, samples=["<script>alert(1)</script>", "\u202ex\x00", "A" * 50_000]))
    page = watch.watch_widget(stage.parent).data
    assert "&lt;script&gt;" in page and "<script" not in page and "\\u202ex\\u0000" in page
    assert len(page) < 30_000 and page.count("<svg") == 3
    rows = watch.Watched(stage.parent).look()
    assert "\x00" not in watch.text(watch.Watched(stage.parent), rows)


def test_a_curve_goes_from_the_first_step_to_the_last_between_its_lowest_and_highest_value(stage, headless):
    append(stage, row(5, reward=0.0))
    page = watch.watch_widget(stage.parent).data
    assert '<path d="M0.0 58.0L80.0 32.0L160.0 6.0L320.0 84.0"/>' in page
    assert "0 to 0.75, steps 1 to 5" in page
    many = [{"step": n, "reward": n % 7} for n in range(5000)]
    assert watch.html(watch.Watched(stage.parent), many).count("L") < 2 * watch.POINTS


def test_the_widget_answers_with_the_present_state(stage, front_end):
    widget = watch.watch_widget(stage.parent)
    assert "step 3" in widget.data["html"] and "03_grpo: running" in widget.data["html"]
    append(stage, row(4))
    set_status(stage, "done")
    widget._handle_custom_msg({"news": True}, [])
    assert "step 4" in widget.data["html"] and "03_grpo: done" in widget.data["html"]


def test_an_empty_run_and_odd_rows_are_shown(tmp_path, headless):
    assert "no training has begun" in watch.watch_widget(tmp_path).data
    odd = [{"samples": "x"}, {"step": "a", "reward": True}, {"reward": 2.0}, {"step": 3, "reward": 1.0}]
    assert watch.samples(odd) == [] and watch.latest(odd) == {"reward": 1.0}


@pytest.fixture
def training(tmp_path):
    """Starts SFT of a nano model on a game of 40 words, in a process of its own; the run folder."""
    words = data.game_words(sample=40)
    rules = rules_for(words, renderer="symbols")
    run = tmp_path / "run"
    split = split_secrets(words, test=8, val=4)
    tokenizer = models.nano_tokenizer(rules)
    count = models.token_counter(tokenizer)
    own = {"source": {"sample": 40}, "rows": 100, "states": 10, "count_tokens": count}
    data.build(run / "01_data_synthesis", rules, split, **own)
    finish(run / "01_data_synthesis", {}, rules, [])
    (run / "02_sft").mkdir()
    started = []

    def start(**values):
        given = [word for name, value in values.items() for word in ("-p", name, str(value))]
        notebook, target = ROOT / "notebooks" / "02_sft.ipynb", run / "02_sft" / "02_sft.ipynb"
        command = [sys.executable, "-m", "papermill", notebook, target, "-p", "run", str(run), *given]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen(command, **quiet))
        return started[-1]

    start.run = run
    yield start
    for process in started:
        kill(process)


def kill(process):
    """End a process at once, and the kernel that it started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
    process.kill()
    process.wait()


def seen(watched, process, wanted):
    """Look, as the widget does, until what is seen is as wanted."""
    for _ in range(1200):
        rows = watched.look()
        if wanted(rows):
            return rows
        ended = process.poll() is not None
        time.sleep(0.1)
        if ended and not wanted(watched.look()):
            pytest.fail(f"the training ended with {process.returncode}: {watched.heading()}")
    pytest.fail(f"nothing was seen in two minutes: {watched.heading()}")


def test_a_training_that_runs_is_followed_is_killed_and_is_started_anew(training):
    """Rows are seen while it runs; a killed one stays on show, a new one is read from its beginning."""
    watched = watch.Watched(training.run)
    assert watched.look() == [] and not watched.ended
    first = training(max_steps=100_000, eval_every=5, batch_size=4)
    rows = seen(watched, first, lambda rows: len(watch.samples(rows)) and len(rows) > 3)
    assert watched.state == "running" and "step" in watch.line(rows) and "loss" in watch.latest(rows)
    last = rows[-1]["step"]
    more = seen(watched, first, lambda rows: rows[-1]["step"] > last)
    assert "games won" in watch.latest(more) and "samples of completions" in watch.text(watched, more)
    kill(first)
    assert watched.look() and watched.state == "running"  # a killed process cannot say so

    second = training(max_steps=20, eval_every=10, batch_size=4)
    rows = seen(watched, second, lambda rows: watched.state == "done")
    assert [row["step"] for row in rows if "eval_loss" in row] == [10, 20] and watched.follower.damaged == 0
    assert second.wait() == 0 and "02_sft: done" in watched.heading() and not watched.ended  # GRPO may follow


def test_validation_leaves_samples_in_the_log(small_words, small_rules):
    measure = evaluate.validation(
        lambda h, s: ["x" * 999] * len(h), small_words.answers[:6], small_words, small_rules, 0
    )
    assert measure(1)["samples"] == ["x" * evaluate.SAMPLE_LENGTH] * evaluate.SAMPLES
