"""Run folders at an address: what is there is whole or does not say so, no making replaces another."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
from conftest import example

from wordlelib import recipes, runs, store, sweep_results, sweeps
from wordlelib.__main__ import main

STAGES = ("01_data_synthesis", "02_sft")
MEMORY = "memory://bucket/mine"


@pytest.fixture
def files():
    """The file system of memory://, empty."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    return system


def make(run, stage, **changes):
    made = runs.start(stage, example(stage, run=str(run), **changes))
    cell = {"cell_type": "code", "source": ["1"], "execution_count": 1, "outputs": [], "metadata": {}}
    runs.write_json(made.dir / f"{stage}.ipynb", {"cells": [cell]})
    (made.dir / "model").mkdir()
    (made.dir / "model" / "weights").write_bytes(b"\0\1" * 500)
    made.finish({"x": 1})
    return made.dir


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_sent_is_fetched_byte_by_byte_and_only_once(files, tmp_path, capsys):
    for stage in STAGES:
        make(tmp_path / "here", stage)
    (tmp_path / "here" / "06_replay.ipynb").write_text("{}")
    store.send(MEMORY, tmp_path / "here")
    store.fetch(MEMORY, tmp_path / "there")
    here, there = contents(tmp_path / "here"), contents(tmp_path / "there")
    assert here.pop(Path("06_replay.ipynb")) == files.cat_file("/bucket/mine/06_replay.ipynb")
    assert here == there and capsys.readouterr().out.count("copied") == 4
    store.send(MEMORY, tmp_path / "there")
    store.fetch(MEMORY, tmp_path / "here")
    assert "copied" not in capsys.readouterr().out


def test_what_is_not_finished_stays_here_and_is_not_taken_from_there(files, tmp_path):
    make(tmp_path / "here", STAGES[0])
    runs.start(STAGES[1], example(STAGES[1], run=str(tmp_path / "here")))
    store.send(MEMORY, tmp_path / "here")
    assert not [path for path in files.find("/bucket") if STAGES[1] in path]
    files.pipe_file(f"/bucket/mine/{STAGES[1]}/status.json", b'{"status": "running"}')
    files.pipe_file("/bucket/mine/03_grpo/status.json", b'{"status": "do')
    store.fetch(MEMORY, tmp_path / "there")
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == [STAGES[0]]


@pytest.mark.parametrize("file", ["config.yaml", "metrics.json", "model/weights", "status.json"])
def test_a_copy_that_stopped_at_any_file_is_no_stage_and_is_made_again(files, tmp_path, monkeypatch, file):
    make(tmp_path / "here", STAGES[0])
    put = type(files).put_file

    def stop(self, source, target, **options):
        if target.endswith(file):
            raise ConnectionError("lost")
        put(self, source, target, **options)

    monkeypatch.setattr(type(files), "put_file", stop)
    with pytest.raises(OSError, match="the store memory://bucket/mine: lost"):
        store.send(MEMORY, tmp_path / "here")
    store.offer(MEMORY, tmp_path / "here")  # says it and goes on
    monkeypatch.setattr(type(files), "put_file", put)
    store.fetch(MEMORY, tmp_path / "there")
    assert not (tmp_path / "there").exists()
    store.send(MEMORY, tmp_path / "here")
    store.fetch(MEMORY, tmp_path / "there")
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_a_stage_that_changes_while_it_is_fetched_is_no_stage(files, tmp_path, monkeypatch):
    make(tmp_path / "here", STAGES[0])
    store.send(MEMORY, tmp_path / "here")
    get = type(files).get_file

    def change(self, source, target, **options):
        get(self, source, target, **options)
        if source.endswith("status.json"):
            store.withdraw(MEMORY, STAGES)

    monkeypatch.setattr(type(files), "get_file", change)
    with pytest.raises(ValueError, match="01_data_synthesis was changed while it was copied"):
        store.fetch(MEMORY, tmp_path / "there")
    assert runs.state(tmp_path / "there" / STAGES[0]) != "done"


def test_a_torn_stage_is_taken_from_the_store(files, tmp_path):
    folder = make(tmp_path / "here", STAGES[0])
    store.send(MEMORY, tmp_path / "here")
    before = contents(folder)
    (folder / "metrics.json").write_text("{")
    store.fetch(MEMORY, tmp_path / "here")
    assert contents(folder) == before


def test_two_makings_of_a_stage_are_refused_and_neither_is_lost(files, tmp_path):
    make(tmp_path / "here", STAGES[0])
    store.send(MEMORY, tmp_path / "here")
    folder = make(tmp_path / "there", STAGES[0])
    before = contents(folder), dict(files.store)
    for copy in (store.fetch, store.send):
        with pytest.raises(ValueError, match="are not the same making: choose another --out or --store"):
            copy(MEMORY, tmp_path / "there")
    assert (contents(folder), dict(files.store)) == before


def test_a_stage_that_is_made_again_is_taken_back_and_leaves_no_file_of_the_old_one(files, tmp_path):
    folder = make(tmp_path / "here", STAGES[0])
    (folder / "old.txt").write_text("old")
    store.send(MEMORY, tmp_path / "here")
    store.withdraw(MEMORY, [STAGES[0]])
    store.fetch(MEMORY, tmp_path / "there")
    assert not (tmp_path / "there").exists()
    make(tmp_path / "here", STAGES[0], overwrite=True)
    store.send(MEMORY, tmp_path / "here")
    assert not files.exists(f"/bucket/mine/{STAGES[0]}/old.txt")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("results/mine", "--store results/mine: write an address such as s3://bucket/run"),
        ("nope://bucket/run", "Protocol not known: nope"),
        ("sftp://me:secret@host/run", "leave the password out of the address"),
        ("file:///proc/none", "the store file:///proc/none: "),
    ],
)
def test_an_address_that_cannot_be_written_is_one_sentence_before_anything_starts(
    made, out, capsys, address, sentence
):
    assert main(["run", "--recipe", "tiny", "--out", str(out), "--store", address]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err and shown.err.count("\n") == 1 and "secret" not in shown.err
    assert not made and not out.exists()


def test_a_run_goes_on_from_the_store_on_another_machine(made, out, tmp_path, capsys):
    """`made` fails at 03 here; there 01 and 02 are taken from the address."""
    command = ["run", "--recipe", "tiny", "--store", f"file://{tmp_path / 'bucket'}", "--resume", "--out"]

    def fault(stage, folder):
        if stage == "03_grpo":
            raise recipes.StageFailed("notebook 03_grpo stopped in In [3]: boom")

    made.fault = fault
    assert main([*command, str(out)]) == 1
    made.fault = lambda stage, folder: None
    shutil.rmtree(out)
    there = tmp_path / "there" / "sweep"
    assert main([*command, str(there)]) == 0
    stages = [Path(name).name for name in made]
    assert stages == ["01_data_synthesis", "02_sft", "03_grpo", "03_grpo"]
    assert runs.state(tmp_path / "bucket" / "03_grpo") == "done"
    overwrite = [word if word != "--resume" else "--overwrite" for word in command]
    assert main([*overwrite, str(there)]) == 0 and len(made) == 7
    ended = runs.status(there / "02_sft")["ended"]
    assert runs.status(tmp_path / "bucket" / "02_sft")["ended"] == ended


def test_a_sweep_goes_on_from_the_store_on_another_machine(made, file, out, tmp_path, capsys):
    """Finished trials and shared stages are taken from the address; no link is needed there."""
    address = f"file://{tmp_path / 'bucket'}"
    command = ["sweep", str(file), "--store", address, "--out"]
    first = "beta=0.0_temperature=1.0"

    def fault(stage, folder):
        if stage == "03_grpo" and folder.name == first:
            raise recipes.StageFailed("boom")

    made.fault = fault
    assert main([*command, str(out)]) == 1 and len(made) == 6
    made.fault = lambda stage, folder: None
    bucket = tmp_path / "bucket"
    assert not any(path.is_symlink() for path in bucket.rglob("*"))
    assert sweep_results.read_table(bucket) == sweep_results.read_table(out)
    shutil.rmtree(out)
    there = tmp_path / "there" / "sweep"
    assert main([*command, str(there)]) == 0
    assert made[6:] == [f"sweep/{first}/03_grpo"]
    assert [row["status"] for row in sweep_results.read_table(bucket)] == ["done"] * 4


def test_a_store_that_does_not_answer_does_not_stop_a_sweep(made, file, out, tmp_path, monkeypatch, capsys):
    real, answers = store.send, iter([False] * 4)

    def send(address, folder, stage=""):
        if not next(answers, True):
            raise OSError(f"the store {address}: lost")
        real(address, folder, stage)

    monkeypatch.setattr(store, "send", send)
    assert sweeps.run(file, out, address=f"file://{tmp_path / 'bucket'}") == 0
    assert capsys.readouterr().out.count("not copied yet: the store") == 4
    assert len([*(tmp_path / "bucket").glob("beta*/03_grpo/status.json")]) == 4


KILLED = """
import os, signal, sys
from pathlib import Path
import fsspec
from wordlelib import store
kind, left = type(fsspec.filesystem("file")), [int(sys.argv[3])]
put = kind.put_file
def put_file(self, source, target, **options):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    put(self, source, target, **options)
kind.put_file = put_file
store.send(sys.argv[1], Path(sys.argv[2]))
"""


def test_a_kill_between_any_two_files_leaves_no_half_stage_that_says_done(tmp_path):
    for stage in STAGES:
        make(tmp_path / "here", stage)
    count = len(contents(tmp_path / "here"))
    for kept in range(0, count, 3):
        address = f"file://{tmp_path / f'bucket{kept}'}"
        words = [sys.executable, "-c", KILLED, address, str(tmp_path / "here"), str(kept)]
        assert subprocess.run(words, capture_output=True).returncode == -signal.SIGKILL
        there = tmp_path / f"there{kept}"
        store.fetch(address, there)
        for stage in os.listdir(there) if there.exists() else ():
            assert contents(there / stage) == contents(tmp_path / "here" / stage)
        store.send(address, tmp_path / "here")
        store.fetch(address, there)
        assert contents(there) == contents(tmp_path / "here")
