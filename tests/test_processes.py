"""Work in several processes: its order, what is under way at once, and what is said when none starts."""

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT

from wordlelib import processes, runs


def doubled(n: int) -> int:
    if n < 0:
        os._exit(1)
    return 2 * n


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_items_are_asked_for_as_they_are_needed(workers, tmp_path, monkeypatch):
    """Of an endless source, which would fill memory and disk, only a few items wait."""
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    asked = []
    endless = (asked.append(n) or n for n in iter(lambda: len(asked), -1))
    done = processes.each_done(doubled, endless, workers, "double", "each_done")
    assert [next(done) for _ in range(20)] == list(range(0, 40, 2))
    assert len(asked) <= 20 + processes.AHEAD * workers
    assert len(list(tmp_path.glob("*/*"))) <= 1 + processes.AHEAD * workers
    done.close()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to processors")
def test_only_processors_that_a_process_may_use_are_counted():
    """A scheduler or container that binds to two of a machine's 64 means two."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        assert processes.processors() == 1
        assert runs.environment()["cpus"] == 1
    finally:
        os.sched_setaffinity(0, mine)


@pytest.mark.parametrize("way", ["to the end", "closed early", "an error", "a process ended", "not pickled"])
def test_the_file_of_the_work_is_gone_whatever_the_end(way, tmp_path, monkeypatch):
    """Even while the error is at hand, as in a notebook."""
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    work = {"an error": float, "not pickled": lambda item: item}.get(way, doubled)
    items = {"an error": ["a"] * 9, "a process ended": [-1] * 9}.get(way, range(9))
    done = processes.each_done(work, items, 2, "double", "each_done")
    try:
        next(done)
        assert len(list(tmp_path.iterdir())) == 1
        done.close() if way == "closed early" else list(done)
    except Exception as error:
        assert way not in ("to the end", "closed early") and error.__traceback__
        assert not list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_ended_is_one_sentence():
    with pytest.raises(MemoryError, match="one of 2 processes that double rows was ended") as told:
        list(processes.each_done(doubled, [1, 2, -1, 3], 2, "double", "each_done"))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("work, item", [(1_000_000, 1), (1, 1_000_000)], ids=["work", "items"])
def test_a_script_without_a_guard_is_told_so_however_large_its_work_is(work, item, tmp_path):
    """What a pipe does not hold is not given to a process that never reads it."""
    (tmp_path / "script.py").write_text(
        "from functools import partial\n"
        "from wordlelib.processes import each_done\n"
        f"list(each_done(partial(max, 'a' * {work}), ['b' * {item}] * 8, 2, 'compare', 'this'))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode and "RuntimeError: no process that compares rows could start" in done.stderr


def interrupted(tmp_path, seconds, times):
    """What a script of two processes says at last that is interrupted as a terminal does it, with them.

    seconds: of the work on an item, and then of the script itself.
    """
    (tmp_path / "script.py").write_text(
        "import signal, time\n"
        "from wordlelib.processes import each_done\n"
        "if __name__ == '__main__':\n"
        # A shell that starts the tests in the background has them ignore interrupts.
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"    for _ in each_done(time.sleep, [{seconds[0]}] * 100, 2, 'sleep', 'this'):\n"
        "        print('working', flush=True)\n"
        f"        time.sleep({seconds[1]})\n"
    )
    with subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as script:
        try:
            assert script.stdout.readline() == "working\n"
            time.sleep(0.3)
            for _ in range(times):
                os.killpg(script.pid, signal.SIGINT)
                time.sleep(0.3)
            # Its processes hold the pipe too: it is at its end when all of them are gone.
            return script.communicate(timeout=30)[1]
        finally:
            script.kill()


@pytest.mark.parametrize("times", [1, 2])
def test_a_script_that_is_interrupted_ends_however_often_it_is(times, tmp_path):
    """Impatience must not leave it and its processes waiting for each other."""
    assert interrupted(tmp_path, (1, 0), times).splitlines()[-1] == "KeyboardInterrupt"


def test_processes_without_work_say_nothing_of_an_interrupt(tmp_path):
    said = interrupted(tmp_path, (0, 5), 1)
    assert said.count("Traceback") == 1 and "Process-" not in said
