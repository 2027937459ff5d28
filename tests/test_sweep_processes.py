"""Sweeps in several processes, locally and on Ray: what a kill of any of them leaves behind."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT, alive, took_a_card_each, wait_for, write_tiny_recipe

from wordlelib import runs, sweep_results, sweeps


def test_two_workers_take_a_card_each_and_no_more_workers_than_cards(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    used, busy = [], set()

    def apart(job, environment, stop):
        card = environment["CUDA_VISIBLE_DEVICES"]
        assert card not in busy
        busy.add(card)
        time.sleep(0.05)
        busy.discard(card)
        used.append(card)

    monkeypatch.setattr(sweeps, "apart", apart)
    jobs = [sweeps.Job(str(k), str(tmp_path), {}, {}) for k in range(6)]
    assert len(list(sweeps._workers(2)(jobs))) == 6 and set(used) == {"4", "6"}
    with pytest.raises(ValueError, match="--workers 3: a trial takes a whole GPU, and here are 2"):
        sweeps._executor(3, False)
    for workers, on_ray in ((0, False), (2, True)):
        with pytest.raises(ValueError, match="--"):
            sweeps._executor(workers, on_ray)


def test_a_card_that_is_named_several_times_takes_as_many_trials(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,4,4")
    three = threading.Barrier(3, timeout=30)  # passed by three at once alone
    monkeypatch.setattr(sweeps, "apart", lambda job, environment, stop: str(three.wait()))
    jobs = [sweeps.Job(str(k), str(tmp_path), {}, {}) for k in range(3)]
    assert {place for _, place in sweeps._workers(3)(jobs)} == {"0", "1", "2"}


@pytest.fixture
def apart(tmp_path, write_notebook):
    """A checkout of its own with a copy of the package; start(text, *options) begins a sweep in a process."""
    root = tmp_path / "checkout"
    (root / "notebooks" / "recipes").mkdir(parents=True)
    shutil.copytree(ROOT / "wordlelib", root / "wordlelib", ignore=shutil.ignore_patterns("__pycache__"))
    write_tiny_recipe(root, write_notebook)
    begun = []

    def start(text, *options, env=None, before=lambda: None):
        (root / "sweep.yaml").write_text(text)
        command = [sys.executable, "-m", "wordlelib", "sweep", "sweep.yaml", "--out", "out", *options]
        process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: (signal.signal(signal.SIGINT, signal.default_int_handler), before()),
        )
        begun.append(process)
        return process

    def work(source):
        """Put another cell in place of the one in which 02 works for `max_minutes`."""
        path = root / "notebooks" / "02_sft.ipynb"
        notebook = json.loads(path.read_text())
        notebook["cells"][-2]["source"] = source
        path.write_text(json.dumps(notebook))

    start.out, start.work = root / "out", work
    yield start
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()


SLOW = "recipe: tiny\nstages: [01_data_synthesis, 02_sft]\ngrid:\n  02_sft.max_minutes: [{}]\n"


# What a trial may do instead: wait for something, for two minutes at most.
WAIT = """
import time
out, end = stage.dir.parents[1], time.monotonic() + 120
while not {} and time.monotonic() < end:
    time.sleep(0.1)
"""


def kernels(out):
    return [int(path.read_text()) for path in out.glob("max*/02_sft/kernel.txt") if path.read_text()]


def statuses(out):
    return {
        path.parts[-3]: runs.status(path.parent)["status"] for path in out.glob("max*/02_sft/status.json")
    }


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc")


@needs_proc
def test_a_killed_trial_fails_alone_and_a_killed_runner_leaves_nothing_running(apart):
    """kill -9 of a trial's process, then of the runner; then the same command goes on."""
    process = apart(SLOW.format("0.001, 1.0, 2.0"), "--workers", "2")
    wait_for(lambda: "max_minutes=0.001" in statuses(apart.out) and len(kernels(apart.out)) > 1)
    slow = apart.out / "max_minutes=1.0" / "02_sft"
    pid = wait_for(lambda: (slow / "kernel.txt").is_file() and int((slow / "kernel.txt").read_text() or 0))
    os.kill(parent(pid), signal.SIGKILL)
    wait_for(lambda: runs.status(slow)["status"] == "failed")
    assert runs.status(slow)["error"] == "killed by signal 9"
    wait_for(lambda: not alive(pid), 20)
    wait_for(lambda: len(kernels(apart.out)) == 3)
    process.kill()
    process.wait()
    wait_for(lambda: not any(alive(pid) for pid in kernels(apart.out)), 20)
    assert statuses(apart.out) == {
        "max_minutes=0.001": "done",
        "max_minutes=1.0": "failed",
        "max_minutes=2.0": "failed",
    }
    first = runs.status(apart.out / "max_minutes=0.001" / "02_sft")
    again = apart(SLOW.format("0.001, 0.002"))
    shown, _ = again.communicate(timeout=150)
    assert again.returncode == 0, shown
    assert "max_minutes=0.001: finished, kept" in shown and "shared/" not in shown
    assert runs.status(apart.out / "max_minutes=0.001" / "02_sft") == first


@needs_proc
def test_a_runner_killed_in_the_middle_of_a_trial_that_it_makes_itself_leaves_nothing_running(apart):
    """kill -9 of a runner without workers: the trial goes on saying that it runs, and is made again."""
    process = apart(SLOW.format("0.001, 2.0"))
    wait_for(lambda: len(kernels(apart.out)) == 2)
    process.kill()
    process.wait()
    wait_for(lambda: not any(alive(pid) for pid in kernels(apart.out)), 20)
    assert statuses(apart.out) == {"max_minutes=0.001": "done", "max_minutes=2.0": "running"}
    again = apart(SLOW.format("0.001, 0.002"))
    shown, _ = again.communicate(timeout=150)
    assert again.returncode == 0 and "max_minutes=0.001: finished, kept" in shown, shown


@needs_proc
def test_of_two_runners_the_second_is_refused_and_the_first_goes_on(apart):
    apart.work(WAIT.format("(out.parent / 'go').exists()"))
    first = apart(SLOW.format("0.001, 0.002"))
    wait_for(lambda: statuses(apart.out))
    second = apart(SLOW.format("0.001, 0.002"))
    shown, _ = second.communicate(timeout=60)
    assert second.returncode == 2 and "another runner is at work in out: wait for its end" in shown
    (apart.out.parent / "go").touch()
    shown, _ = first.communicate(timeout=150)
    assert first.returncode == 0, shown
    assert set(statuses(apart.out).values()) == {"done"}


def test_two_workers_give_their_trials_a_card_each_at_the_same_time(apart):
    """As `test_gpu` has it with two real ones: what the kernels of two trials see, and when."""
    apart.work(WAIT.format("len(list(out.glob('max*/02_sft/status.json'))) == 2"))
    process = apart(SLOW.format("0.001, 0.002"), "--workers", "2", env={"CUDA_VISIBLE_DEVICES": "4,6"})
    shown, _ = process.communicate(timeout=150)
    assert process.returncode == 0, shown
    took_a_card_each(apart.out.glob("max*/02_sft"), ["4", "6"])


# Disks --------------------------------------------------------------------------------------------

BIG = "(stage.dir / 'weights').write_bytes(bytes(8_000_000 * (stage.config.max_minutes == 0.001)))"


def test_a_trial_that_the_system_lets_write_no_more_fails_alone(apart):
    """Real errors of the system: a file above the limit of the process, a device that is always full."""
    import resource

    apart.work(BIG)
    most = (4_000_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    process = apart(
        SLOW.format("0.001, 0.002"), before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, most)
    )
    shown, _ = process.communicate(timeout=150)
    assert process.returncode == 1 and "File too large" in shown, shown
    assert statuses(apart.out) == {"max_minutes=0.001": "failed", "max_minutes=0.002": "done"}
    apart.work("(stage.dir / 'log.jsonl').symlink_to('/dev/full')\nstage.log({'step': 1})")
    process = apart(SLOW.format("0.001, 0.002"))
    shown, _ = process.communicate(timeout=150)
    assert process.returncode == 1 and "max_minutes=0.001: notebook 02_sft stopped in" in shown, shown
    assert "No space left on device" in shown and "max_minutes=0.002: finished, kept" in shown
    apart.work("1")
    (apart.out / "max_minutes=0.001" / "02_sft" / "log.jsonl").unlink()
    process = apart(SLOW.format("0.001, 0.002"))
    shown, _ = process.communicate(timeout=150)
    assert process.returncode == 0, shown
    assert set(statuses(apart.out).values()) == {"done"}


def test_a_disk_that_is_full_loses_nothing_and_once_it_has_room_only_the_rest_is_made(apart):
    """A real file system of 3 MB, in a namespace of its own; skipped where the system allows none."""
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-ec"]
    mount = "mount -t tmpfs -o size=3m tmpfs "
    try:
        subprocess.run([*alone, f"{mount} /mnt"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here without privileges: {error}")
    apart.work(BIG)
    root = apart.out.parent
    (root / "out").mkdir()
    (root / "sweep.yaml").write_text(SLOW.format("0.002, 0.001, 0.003"))
    sweep = f"{shlex.quote(sys.executable)} -m wordlelib sweep sweep.yaml --out out"
    script = f"""{mount} out
        {sweep} > first.txt 2>&1 || echo "exit $?" >> first.txt
        cp -r out first
        mount -o remount,size=64m tmpfs out
        {sweep} > second.txt 2>&1; cp -r out second"""
    done = subprocess.run(
        [*alone, script], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, timeout=300
    )
    first, second = ((root / name).read_text() for name in ("first.txt", "second.txt"))
    assert done.returncode == 0, first + second
    assert "No space left on device" in first and "exit " in first and "Traceback" not in first
    assert statuses(root / "first")["max_minutes=0.002"] == "done"
    assert statuses(root / "first")["max_minutes=0.001"] in ("failed", "running")
    assert "max_minutes=0.002: finished, kept" in second and "shared/" not in second
    assert set(statuses(root / "second").values()) == {"done"} and len(statuses(root / "second")) == 3


def test_a_results_folder_that_may_not_be_written_is_one_sentence(apart):
    """Modes are real; root, whom they do not bind, gives up that privilege first (Linux)."""
    from ctypes import CDLL

    drop, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE: <linux/prctl.h>, <linux/capability.h>
    libc = CDLL(None)
    apart.out.mkdir()
    apart.out.chmod(0o555)
    try:
        process = apart(SLOW.format("0.001"), before=lambda: libc.prctl(drop, override, 0, 0, 0))
        shown, _ = process.communicate(timeout=60)
    finally:
        apart.out.chmod(0o755)
    assert process.returncode == 2 and shown.count("\n") == 1, shown
    assert "cannot write the folder out (Permission denied): choose another --out" in shown
    assert not list(apart.out.iterdir())


# Interrupts and kernels -----------------------------------------------------------------------------


@needs_proc
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_the_trials_and_their_kernels_and_says_so(apart, workers):
    process = apart(SLOW.format("1.0, 2.0"), "--workers", workers)
    wait_for(lambda: len(kernels(apart.out)) == int(workers))
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=20)
    assert process.returncode == 130, shown
    assert "interrupted: the same command goes on" in shown and "Traceback" not in shown
    wait_for(lambda: not any(alive(pid) for pid in kernels(apart.out)), 20)
    assert set(statuses(apart.out).values()) == {"failed"}
    assert "done" not in (apart.out / sweep_results.TABLE).read_text()


def test_a_notebook_whose_kernel_dies_fails_its_trial_alone(apart):
    apart.work("import os\nif stage.config.max_minutes == 0.001: os.kill(os.getpid(), 9)")
    process = apart(SLOW.format("0.001, 0.002"))
    shown, _ = process.communicate(timeout=150)
    assert process.returncode == 1, shown
    assert statuses(apart.out) == {"max_minutes=0.001": "failed", "max_minutes=0.002": "done"}


@needs_proc
def test_ray_places_trials_and_one_whose_worker_is_killed_fails_alone(apart):
    pytest.importorskip("ray", reason="needs the extra [sweep]")
    process = apart(SLOW.format("0.001, 1.0"), "--ray")
    slow = apart.out / "max_minutes=1.0" / "02_sft"
    pid = wait_for(lambda: (slow / "kernel.txt").is_file() and int((slow / "kernel.txt").read_text() or 0))
    wait_for(lambda: statuses(apart.out).get("max_minutes=0.001") == "done")
    os.kill(parent(parent(pid)), signal.SIGKILL)  # kernel, the trial's process, Ray's worker
    shown, _ = process.communicate(timeout=150)
    assert process.returncode == 1, shown
    assert "max_minutes=0.001: done" in shown and "max_minutes=1.0: " in shown
    wait_for(lambda: not alive(pid), 20)
    assert statuses(apart.out)["max_minutes=1.0"] != "done"
    assert statuses(apart.out)["max_minutes=0.001"] == "done"
