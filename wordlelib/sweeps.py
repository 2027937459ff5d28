"""Sweeps: many runs of one recipe from one file, in this process, in several, or placed by Ray.

`<out>/` holds `sweep.yaml` (the file), a run folder for each trial, `shared/` with the stages that
trials have in common (made once, linked into each trial), and `sweep.csv`, one row a trial that ended.
Stopping at any moment loses nothing that is finished.
"""

import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from wordlelib import restart, runs, store
from wordlelib.processes import processors
from wordlelib.sweep_results import TABLE, Row, finished, write_table
from wordlelib.trials import Changes, Trial, file_with, read_sweep

FILE, LOG = "sweep.yaml", "output.log"


class Job(NamedTuple):
    """What one process makes: stages of a run folder; `links` are finished stages that it takes over."""

    name: str
    out: str
    stages: dict[str, dict[str, Any]]
    links: dict[str, str]


Executor = Callable[[Sequence[Job]], Iterator[tuple[Job, str | None]]]


# Run folders ------------------------------------------------------------------------------------


def make(job: Job) -> None:
    """Execute the unfinished stages of a job in order, going on from checkpoints where there are some.

    Raises StageFailed as `recipes.execute` does, OSError for a folder that cannot be written. However it
    ends, a stage that is not finished does not say that it is done.
    """
    out, stages = Path(job.out), list(job.stages)
    with locked(out, wait=True):  # a killed runner's last process may need a moment to end
        for stage, source in job.links.items():
            _link(Path(source), out / stage)
        for place, stage in enumerate(stages):
            if runs.state(out / stage) == "done":
                continue
            resume = not _stale(out / stage)
            for later in stages[place:]:
                _reopen(out / later)
            values = {**job.stages[stage], "run": runs.shown_path(out), "overwrite": False}
            try:
                values |= {"resume": resume} if "resume" in values else {}
                restart.execute_all({stage: values}, out)
            except BaseException as error:  # also when interrupted: what is left must not say `running`
                _mark_stopped(job, str(error) or "interrupted")
                raise


def _stale(folder: Path) -> bool:
    """Whether an unfinished stage was begun with inputs other than those there now (or says nothing)."""
    try:
        begun_with = runs.status(folder)["inputs"]
        return any(runs.status(folder.parent / s).get("ended") != ended for s, ended in begun_with.items())
    except (KeyError, ValueError):
        return True


def _reopen(folder: Path) -> None:
    """Take back that a stage is done: it is torn, or an earlier one is about to be made again."""
    if runs.state(folder) in ("done", "torn"):
        status = {"status": "failed", "error": "torn, or made from what was"}
        with suppress(KeyError, ValueError):  # a torn one may not say what it was made from
            status["inputs"] = runs.status(folder)["inputs"]
        runs.write_json(folder / "status.json", status)


def _mark_stopped(job: Job, reason: str) -> None:
    """Mark the stage that a job was at as failed; on a full disk it goes on saying `running`."""
    for stage in job.stages:
        folder = Path(job.out) / stage
        with suppress(OSError, ValueError):
            if runs.status(folder)["status"] == "running":
                runs.mark_failed(folder, " ".join(reason.split()))


def _link(source: Path, target: Path) -> None:
    """Put a finished stage into another run folder: a relative link, or a copy where links do not work."""
    if target.is_symlink():
        target.unlink()
    elif target.is_dir():  # only the notebook of a stage that never opened it
        shutil.rmtree(target)
    try:
        target.symlink_to(os.path.relpath(source, target.parent), target_is_directory=True)
    except OSError:
        with runs.replacing_folder(target) as temporary:
            shutil.copytree(source, temporary, dirs_exist_ok=True)


@contextmanager
def locked(folder: Path, wait: bool) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process however that ends.

    Raises ValueError when another process holds it, unless told to wait; PermissionError when the
    folder cannot be written.
    """
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "a")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise PermissionError(
            f"cannot write the folder {runs.shown_path(folder)} ({error.strerror}): choose another --out"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ValueError(
                f"another runner is at work in {runs.shown_path(folder)}: wait for its end, or choose "
                "another --out"
            ) from None
        yield


# What is shared ---------------------------------------------------------------------------------


def _code() -> bytes:
    """A digest of the package and the notebooks: what was made by other code is not shared."""
    root = runs.project_root()
    paths = [*Path(__file__).parent.glob("*.py"), *(root / "notebooks").glob("*.ipynb")]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(paths))).digest()


def _shared(trials: Sequence[Trial], out: Path) -> dict[str, dict[str, Path]]:
    """Trial to its stages that another trial has too, with all earlier ones, and their folders."""
    code, keys = _code(), {}
    for trial in trials:
        digest, keys[trial.name] = hashlib.sha256(code), {}
        for stage, values in trial.stages.items():
            made_from = {k: runs.portable(v) for k, v in values.items() if k not in runs.NEVER_COMPARED}
            digest.update(json.dumps([stage, made_from], sort_keys=True).encode())
            keys[trial.name][stage] = f"{stage}-{digest.hexdigest()[:8]}"
    uses = Counter(key for own in keys.values() for key in own.values())
    return {
        name: {stage: out / "shared" / key / stage for stage, key in own.items() if uses[key] > 1}
        for name, own in keys.items()
    }


def _links(trial: Trial, out: Path, shared: Mapping[str, Path]) -> dict[str, str]:
    """The shared stages that a trial takes over: all or none, since each is made from the one before.

    None when it has them already, or has begun to make them by itself.
    """
    here = [out / trial.name / stage for stage in shared]
    own = any(not folder.is_symlink() and (folder / "status.json").exists() for folder in here)
    if own or all(runs.state(folder) == "done" for folder in here):
        return {}
    return {stage: str(folder) for stage, folder in shared.items()}


def _waves(trials: Sequence[Trial], out: Path) -> list[list[Job]]:
    """Jobs in the order of their needs: shared stages, first all of the first stage, then the trials."""
    shared = _shared(trials, out)
    nodes: dict[str, dict[str, Job]] = {}
    own = []
    for trial in trials:
        if finished(trial, out):
            print(f"{trial.name}: finished, kept")
            continue
        links = _links(trial, out, shared[trial.name])
        rest = {stage: values for stage, values in trial.stages.items() if stage not in links}
        own.append(Job(trial.name, str(out / trial.name), rest, links))
        for place, (stage, folder) in enumerate(links.items()):
            node = Path(folder).parent
            earlier = dict(list(links.items())[:place])
            job = Job(f"shared/{node.name}", str(node), {stage: trial.stages[stage]}, earlier)
            if runs.state(Path(folder)) != "done":
                nodes.setdefault(stage, {})[folder] = job
    return [*(list(jobs.values()) for _, jobs in sorted(nodes.items())), own]


def _check_unchanged(trials: Sequence[Trial], out: Path) -> None:
    """Raise ValueError for a stage in `out` that was made, or begun, with other settings."""
    for trial in trials:
        for stage, values in trial.stages.items():
            folder = out / trial.name / stage
            may_change = runs.NEVER_COMPARED
            if runs.state(folder) != "done":
                if "resume" not in values:
                    continue  # it starts anew
                may_change = runs.MAY_CHANGE_ON_RESUME
            if (folder / "config.yaml").is_file() and (
                change := runs.changed_parameter(folder, values, may_change)
            ):
                raise ValueError(
                    f"{runs.shown_path(folder)} was made with {change}: another --out keeps both"
                )


# Running ----------------------------------------------------------------------------------------


def run(
    path: str | Path,
    out: Path,
    workers: int = 1,
    on_ray: bool = False,
    address: str = "",
    changes: Changes | None = None,
) -> int:
    """Make every trial of a sweep file that is not finished in `out`; return how many failed.

    workers: trials at once, each in a process of its own and, where there are GPUs, on a card of its own;
    1 runs in this process. on_ray: Ray places the trials instead, on this machine or its cluster.
    address: where finished stages are taken from and copied to (`store`). changes: further parameters of all
    trials, which then stand in the copy of the file.
    Everything is checked before anything starts: raises ValueError with one sentence for a wrong file, for
    a folder made with other settings or in use, PermissionError for one that cannot be written.
    """
    trials = read_sweep(path, changes)
    executor = _executor(workers, on_ray)
    if address:
        store.check(address)
    with locked(out, wait=False):
        if address:
            store.fetch(address, out)
        _check_unchanged(trials, out)
        text = Path(path).read_text(encoding="utf-8")
        if changes:
            text = yaml.safe_dump(file_with(path, changes), sort_keys=False, allow_unicode=True)
        runs.write_text(out / FILE, text)
        rows: dict[str, Row] = {}
        write_table(trials, out, rows)
        waves = _waves(trials, out)
        failed, ended, total = set(), 0, sum(map(len, waves))
        try:
            for jobs in waves:
                ready = [
                    job for job in jobs if all(runs.state(Path(f)) == "done" for f in job.links.values())
                ]
                for job in jobs:
                    if job not in ready:
                        ended += 1
                        print(f"[{ended}/{total}] {job.name}: not started, a shared stage failed", flush=True)
                        failed.add(job.name)
                with closing(executor(ready)) as results:
                    for job, error in results:
                        ended += 1
                        print(f"[{ended}/{total}] {job.name}: {error or 'done'}", flush=True)
                        failed |= {job.name} if error else set()
                        try:
                            write_table(trials, out, rows)
                        except OSError as problem:  # said again at the end, if it lasts
                            print(f"{TABLE} could not be written: {problem}", file=sys.stderr, flush=True)
                        if address and not error:
                            store.offer(f"{address.rstrip('/')}/{job.name}", Path(job.out))
        finally:
            write_table(trials, out, rows)
        if address:
            store.send(address, out)
    return len([name for name in failed if not name.startswith("shared/")])


def _attempt(job: Job) -> str | None:
    """Make a job; what went wrong as one line, None when nothing did."""
    try:
        make(job)
    except Exception as error:  # a trial may fail in any way: the others go on
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _executor(workers: int, on_ray: bool) -> Executor:
    if workers < 1:
        raise ValueError(f"--workers {workers}: use a whole number from 1")
    if on_ray:
        if workers > 1:
            raise ValueError("--ray places the trials by itself: leave --workers out")
        return _ray()
    return _in_process if workers == 1 else _workers(workers)


def _in_process(jobs: Sequence[Job]) -> Iterator[tuple[Job, str | None]]:
    for job in jobs:
        print(f"{job.name}: {', '.join(job.stages)}", flush=True)
        yield job, _attempt(job)


def _workers(number: int) -> Executor:
    """`number` jobs at once, each in a process and on a card of its own."""
    cards = gpus()
    if cards and number > len(cards):
        raise ValueError(
            f"--workers {number}: a trial takes a whole GPU, and here are {len(cards)}; use --workers "
            f"{len(cards)}, or name a GPU several times in CUDA_VISIBLE_DEVICES for its trials to share it"
        )
    free: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for place in range(number):
        free.put(cards[place] if cards else None)
    threads = {"OMP_NUM_THREADS": str(max(1, processors() // number))}

    def execute(jobs: Sequence[Job]) -> Iterator[tuple[Job, str | None]]:
        stop = threading.Event()

        def one(job: Job) -> str | None:
            card = free.get()
            own = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": card} if card else {}
            try:
                return apart(job, {**threads, **os.environ, **own}, stop)
            finally:
                free.put(card)

        pool = ThreadPoolExecutor(number)
        try:
            futures = {pool.submit(one, job): job for job in jobs}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:  # also when interrupted: no process is left behind
            stop.set()
            pool.shutdown(cancel_futures=True)

    return execute


def gpus() -> list[str]:
    """The NVIDIA GPUs that may be used here, as `CUDA_VISIBLE_DEVICES` names them, one as often as there."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        visible = runs.output_of("nvidia-smi", "--query-gpu=index", "--format=csv,noheader") or ""
    return [card for card in re.split(r"[,\s]+", visible) if card not in ("", "-1")]


def apart(
    job: Job, environment: Mapping[str, str] | None = None, stop: threading.Event | None = None
) -> str | None:
    """Make a job in a process of its own, its output in `output.log`; same answer as `_attempt`.

    The process ends when this one does: it holds the other end of a pipe. `stop` ends it at once.
    """
    out, stop = Path(job.out), stop or threading.Event()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (
            open(out / LOG, "w", encoding="utf-8") as log,
            subprocess.Popen(
                [sys.executable, "-m", "wordlelib.sweeps"],
                cwd=runs.project_root(),
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,  # Ctrl-C reaches the runner alone, which passes it on
            ) as process,
        ):
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                while process.poll() is None and not stop.wait(0.2):
                    pass
                process.stdin.close()
            process.wait()
        lines = (out / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        return str(error)
    if process.returncode == 0:
        return None
    said = next((line for line in reversed(lines) if line.strip()), "its process ended")
    reason = f"killed by signal {-process.returncode}" if process.returncode < 0 else said
    reason = "interrupted" if stop.is_set() else reason
    _mark_stopped(job, reason)
    return reason


def _work() -> int:
    """The process of `apart`: read one job, make it, end with the process that asked for it."""
    job = Job(*json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, args=(job,), daemon=True).start()
    error = _attempt(job)
    if error:
        print(error, flush=True)
    return 1 if error else 0


def _end_with_parent(job: Job) -> None:
    sys.stdin.read()  # ends when the other end of the pipe is closed, by will or by a kill
    _mark_stopped(job, "interrupted")
    os._exit(1)  # the kernel sees that its parent is gone, and ends too


def _ray() -> Executor:
    """Jobs as Ray tasks: a GPU each where there are some, else a core each."""
    try:
        import ray
    except ModuleNotFoundError:
        raise ValueError("--ray needs the package ray: pip install -e '.[sweep]'") from None

    def execute(jobs: Sequence[Job]) -> Iterator[tuple[Job, str | None]]:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere without being asked
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        card = ray.cluster_resources().get("GPU", 0) >= 1
        # no retries by Ray: the same command goes on from what is there, and says so
        task = ray.remote(max_retries=0, **({"num_gpus": 1} if card else {"num_cpus": 1}))(apart)
        waiting = {task.remote(job): job for job in jobs}
        try:
            while waiting:
                [done], _ = ray.wait(list(waiting))
                try:
                    error = ray.get(done)
                except ray.exceptions.RayError as problem:
                    error = f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
                yield waiting.pop(done), error
        finally:
            for task_left in waiting:
                ray.cancel(task_left, force=True)

    return execute


if __name__ == "__main__":
    sys.exit(_work())
