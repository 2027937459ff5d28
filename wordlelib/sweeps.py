"""Sweeps: many runs of one recipe from one file, and one table of what they gave.

`<out>/` holds `sweep.yaml` (the file), a run folder for each trial, `shared/` with the stages that
trials have in common (made once, linked into each trial), and `sweep.csv`, one row a trial that ended.
The table is made from the run folders alone, so deleting it or stopping at any moment loses nothing.
"""

import csv
import hashlib
import io
import json
import math
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wordlelib import params, recipes, restart, runs
from wordlelib.evaluate import wilson

FILE, TABLE, LOG = "sweep.yaml", "sweep.csv", "output.log"
SEARCHES = ("grid", "trials", "random")
KEYS = ("recipe", "set", "stages", *SEARCHES, "n", "seed")
NEEDS = {
    "02_sft": ("01_data_synthesis",),
    "03_grpo": ("01_data_synthesis", "02_sft"),
    "04_eval": ("01_data_synthesis",),
    "05_analysis": ("04_eval",),
}
PLAYER_NEEDS = {"untrained": "02_sft", "sft": "02_sft", "sft_continued": "03_grpo", "grpo": "03_grpo"}
LONGEST_NAME = 80  # letters of a folder's name
TRIES = 100  # draws for each random trial: a few choices may give the same trial again

# What the table says of a trial, where its stages measured it.
PLAYERS = ("sft", "sft_continued", "grpo")
PLAYED = ("games", "win_rate", "mean_guesses_loss7", "nonword_share")
TRAINED = {"02_sft": ("final_loss", "steps"), "03_grpo": ("final_reward", "steps", "tokens_per_s")}
SIGNAL = ("frac_reward_zero_std", "top_guess_share")  # of a GRPO log: the mean of its last quarter

Settings = dict[str, Any]
Row = dict[str, Any]


class Trial(NamedTuple):
    """One run: the name of its folder, its own settings (`stage.name`), all parameters of its stages."""

    name: str
    settings: Settings
    stages: dict[str, dict[str, Any]]


class Job(NamedTuple):
    """What one process makes: stages of a run folder; `links` are finished stages that it takes over."""

    name: str
    out: str
    stages: dict[str, dict[str, Any]]
    links: dict[str, str]


Executor = Callable[[Sequence[Job]], Iterator[tuple[Job, str | None]]]


# The file ---------------------------------------------------------------------------------------


def read_sweep(path: str | Path) -> list[Trial]:
    """The trials of a sweep file, every parameter of every stage checked.

    Raises ValueError with one sentence that names the file for whatever is wrong in it.
    """
    try:
        return _trials(runs.read_yaml(path))
    except ValueError as error:
        where = runs.shown_path(Path(path).resolve())
        raise ValueError(str(error) if where in str(error) else f"{where}: {error}") from None


def _trials(file: Mapping[str, Any]) -> list[Trial]:
    search = _search(file)
    recipe = recipes.read_recipe(file.get("recipe", ""))
    stages = _chosen_stages(file, recipe)
    base = {stage: {**recipes.defaults(stage), **recipe[stage]} for stage in stages}
    base = _with(base, _mapping(file.get("set", {}), "set"))
    drawn = {"grid": _grid, "trials": _listed, "random": _random}[search](file, base)
    columns = list(dict.fromkeys(target for settings in drawn for target in settings))
    trials: dict[str, Trial] = {}
    for number, settings in enumerate(drawn, 1):
        try:
            trial = _trial(base, settings, columns)
        except ValueError as error:
            raise ValueError(f"trial {number} of {len(drawn)}: {error}") from None
        if trial.name in trials:
            twin = list(trials).index(trial.name) + 1
            raise ValueError(f"trials {twin} and {number} are the same, {trial.name}: leave one out")
        trials[trial.name] = trial
    return list(trials.values())


def _search(file: Mapping[str, Any]) -> str:
    """Which of the three kinds of search a file asks for, once its keys are known ones."""
    for key in file:
        if key not in KEYS:
            nearest = get_close_matches(str(key), KEYS, n=1, cutoff=0.0)[0]
            raise ValueError(f"unknown key {key!r}; did you mean {nearest!r}?")
    asked = [key for key in SEARCHES if key in file]
    if len(asked) != 1:
        raise ValueError(f"give one of grid, trials and random; it has {' and '.join(asked) or 'none'}")
    if asked != ["random"] and (extra := {"n", "seed"} & set(file)):
        raise ValueError(f"{min(extra)} goes with random only")
    return asked[0]


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {value!r}; write stage.name: value lines, such as 03_grpo.beta: 0.1")
    return value


def _chosen_stages(file: Mapping[str, Any], recipe: Mapping[str, Any]) -> list[str]:
    """The stages of every trial, in the order of the recipe."""
    chosen = file.get("stages", list(recipe))
    if not (isinstance(chosen, list) and chosen):
        raise ValueError(f"stages is {chosen!r}; use a list such as [01_data_synthesis, 02_sft]")
    for stage in chosen:
        if stage not in recipe:
            raise ValueError(f"recipe {file['recipe']} has no stage {stage!r}; it has {', '.join(recipe)}")
    for stage in chosen:
        if missing := [need for need in NEEDS.get(stage, ()) if need not in chosen]:
            raise ValueError(f"stages: {stage} needs {missing[0]}; name it too")
    return [stage for stage in recipe if stage in chosen]


def _target(target: Any, stages: Iterable[str]) -> tuple[str, str]:
    """The stage and the parameter that `stage.name` names; raises ValueError with the nearest one."""
    stage, dot, name = str(target).partition(".")
    if not dot:
        raise ValueError(f"{target!r}: write stage.name, such as 03_grpo.beta")
    if stage not in stages:
        raise ValueError(f"{target!r}: this sweep has no stage {stage!r}; it has {', '.join(stages)}")
    if name in recipes.OWN_OPTIONS:
        raise ValueError(f"{target!r}: a sweep sets it by itself; leave it out")
    params.check_names(stage, [name])
    return stage, name


def _with(stages: Mapping[str, dict[str, Any]], settings: Settings) -> dict[str, dict[str, Any]]:
    """A copy of the parameters of all stages with some of them changed."""
    changed = {stage: dict(values) for stage, values in stages.items()}
    for target, value in settings.items():
        stage, name = _target(target, stages)
        changed[stage][name] = value
    return changed


def _trial(base: Mapping[str, dict[str, Any]], settings: Settings, columns: list[str]) -> Trial:
    stages = {stage: params.resolve(stage, values) for stage, values in _with(base, settings).items()}
    params.check_stages(stages)
    _check_players(stages)
    own = {}
    for target in columns:
        stage, name = _target(target, stages)
        own[target] = stages[stage][name]
    return Trial(_trial_name(own), own, stages)


def _check_players(stages: Mapping[str, Mapping[str, Any]]) -> None:
    """Players of 04 whose model no stage makes would stop every trial at its end."""
    for player in stages.get("04_eval", {}).get("players", ()):
        need = PLAYER_NEEDS.get(player)
        if need and need not in stages:
            raise ValueError(f"04_eval: player {player} needs stage {need}; leave it out of players")
        if player == "sft_continued" and not stages["03_grpo"]["control"]:
            raise ValueError(
                "04_eval: player sft_continued needs 03_grpo.control true; leave it out of players"
            )


def _choices(values: Any, target: str) -> list[Any]:
    if not (isinstance(values, list) and values):
        raise ValueError(f"{target} is {values!r}; give a list of values")
    return values


def _grid(file: Mapping[str, Any], base: Mapping[str, Any]) -> list[Settings]:
    grid = _mapping(file["grid"], "grid")
    if not grid:
        raise ValueError("grid is empty; give stage.name: a list of values")
    lists = [_choices(values, target) for target, values in grid.items()]
    return [dict(zip(grid, values, strict=True)) for values in product(*lists)]


def _listed(file: Mapping[str, Any], base: Mapping[str, Any]) -> list[Settings]:
    if not (isinstance(file["trials"], list) and file["trials"]):
        raise ValueError("trials is no list; write one `- {stage.name: value}` line a trial")
    return [_mapping(settings, f"trial {number}") for number, settings in enumerate(file["trials"], 1)]


def _random(file: Mapping[str, Any], base: Mapping[str, Any]) -> list[Settings]:
    """`n` different trials, the same for the same seed; more of them begin with the same ones."""
    space, counts = _mapping(file["random"], "random"), {"n": 1, "seed": 0}
    for name, low in counts.items():
        if type(file.get(name)) is not int or file[name] < low:
            raise ValueError(f"random needs {name}, a whole number from {low}; it is {file.get(name)!r}")
    draws = {target: _distribution(target, values, base) for target, values in space.items()}
    rng, drawn = random.Random(file["seed"]), []
    for _ in range(file["n"] * TRIES):
        settings = {target: draw(rng) for target, draw in draws.items()}
        if settings not in drawn:
            drawn.append(settings)
        if len(drawn) == file["n"]:
            return drawn
    raise ValueError(f"random has only {len(drawn)} different trials; use n: {len(drawn)} or more choices")


def _distribution(target: str, values: Any, base: Mapping[str, Any]) -> Callable[[random.Random], Any]:
    """How one value is drawn: from a list, or between two ends; both ends are checked."""
    stage, name = _target(target, base)
    if not isinstance(values, dict):
        choices = _choices(values, target)
        return lambda rng: rng.choice(choices)
    param = params.declared(stage)[name]
    if param.kind not in (int, float) or not {"low", "high"} <= set(values) <= {"low", "high", "log"}:
        raise ValueError(
            f"{target} is {values!r}; give a list, or for a number {{low: 1, high: 9, log: true}}"
        )
    try:
        low, high = param.accept(values["low"]), param.accept(values["high"])
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{target} is {values!r}; low and high must be {param.range}") from None
    log = values.get("log", False)
    if type(log) is not bool or low >= high or (log and low <= 0):
        raise ValueError(f"{target} is {values!r}; low must be below high, and above 0 with log: true")

    def draw(rng: random.Random) -> Any:
        value = math.exp(rng.uniform(math.log(low), math.log(high))) if log else rng.uniform(low, high)
        # four digits: a name that can be read, and a value that can be typed again
        return round(value) if param.kind is int else min(max(float(f"{value:.4g}"), low), high)

    return draw


def _trial_name(settings: Settings) -> str:
    """A folder's name such as `beta=0.1_group_size=8`; what a name cannot hold is told by a digest."""
    names = Counter(target.partition(".")[2] for target in settings)
    parts = []
    for target, value in settings.items():
        stage, _, name = target.partition(".")
        text = "+".join(value) if isinstance(value, list) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        parts.append(f"{name if names[name] == 1 else f'{stage[:2]}.{name}'}={text}")
    whole = "_".join(parts) or "trial"
    name = re.sub(r"[^A-Za-z0-9.=+_-]+", "-", whole)
    if name == whole and len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


# Run folders ------------------------------------------------------------------------------------


def state(folder: Path) -> str:
    """What a stage folder is: absent, running, failed, done, or torn.

    Done needs whole metrics and a notebook whose cells all ran; torn is said to be done, or nothing
    that can be read, without being whole.
    """
    try:
        said = runs.status(folder)["status"]
        if said == "done":
            runs.require_complete_notebook(folder / f"{folder.name}.ipynb")
            if not isinstance(runs.read_json(folder / "metrics.json"), dict):
                return "torn"
    except (OSError, ValueError, KeyError, TypeError):
        return "torn"
    return said


def finished(trial: Trial, out: Path) -> bool:
    """Whether every stage of a trial is there and those of its own are done.

    A shared stage that is torn later is made again for those that still need it only.
    """
    folders = [out / trial.name / stage for stage in trial.stages]
    return all(folder.is_symlink() or state(folder) == "done" for folder in folders)


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
            if state(out / stage) == "done":
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
        begun_with = runs.status(folder).get("inputs", {})
        return any(runs.status(folder.parent / s).get("ended") != ended for s, ended in begun_with.items())
    except ValueError:
        return True


def _reopen(folder: Path) -> None:
    """Take back that a stage is done: it is torn, or an earlier one is about to be made again."""
    if state(folder) in ("done", "torn"):
        runs.write_json(folder / "status.json", {"status": "failed", "error": "torn, or made from what was"})


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
    if own or all(state(folder) == "done" for folder in here):
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
            if state(Path(folder)) != "done":
                nodes.setdefault(stage, {})[folder] = job
    return [*(list(jobs.values()) for _, jobs in sorted(nodes.items())), own]


def _check_unchanged(trials: Sequence[Trial], out: Path) -> None:
    """Raise ValueError for a stage in `out` that was made, or begun, with other settings."""
    for trial in trials:
        for stage, values in trial.stages.items():
            folder = out / trial.name / stage
            may_change = runs.NEVER_COMPARED
            if state(folder) != "done":
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


def run(path: str | Path, out: Path, workers: int = 1, on_ray: bool = False) -> int:
    """Make every trial of a sweep file that is not finished in `out`; return how many failed.

    workers: trials at once, each in a process of its own and, where there are GPUs, on a card of its own;
    1 runs in this process. on_ray: Ray places the trials instead, on this machine or its cluster.
    Everything is checked before anything starts: raises ValueError with one sentence for a wrong file, for
    a folder made with other settings or in use, PermissionError for one that cannot be written.
    """
    trials = read_sweep(path)
    executor = _executor(workers, on_ray)
    _check_unchanged(trials, out)
    with locked(out, wait=False):
        runs.write_text(out / FILE, Path(path).read_text(encoding="utf-8"))
        rows: dict[str, Row] = {}
        write_table(trials, out, rows)
        waves = _waves(trials, out)
        failed, ended, total = set(), 0, sum(map(len, waves))
        try:
            for jobs in waves:
                ready = [job for job in jobs if all(state(Path(f)) == "done" for f in job.links.values())]
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
        finally:
            write_table(trials, out, rows)
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
            f"{len(cards)}"
        )
    free: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for place in range(number):
        free.put(cards[place] if cards else None)
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // number))}

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
    """The NVIDIA GPUs that may be used here, as `CUDA_VISIBLE_DEVICES` names them."""
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


# The table --------------------------------------------------------------------------------------


def write_table(trials: Sequence[Trial], out: Path, rows: dict[str, Row]) -> None:
    """Write `sweep.csv`: one row a trial that is done or failed, in the order of the file.

    rows: by trial, those of finished trials, which are read once; new ones are added.
    """
    failed = {}
    for trial in trials:
        if trial.name not in rows and (row := _row(trial, out)):
            (rows if row["status"] == "done" else failed)[trial.name] = row
    found = [row for trial in trials if (row := rows.get(trial.name) or failed.get(trial.name))]
    columns = ["trial", *trials[0].settings, "status", "minutes"]
    metrics = [*_metric_names()]
    columns += [name for name in metrics if any(row.get(name) is not None for row in found)]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "+".join(v) if isinstance(v, list) else v for k, v in row.items()} for row in found)
    runs.write_text(out / TABLE, text.getvalue())


def _metric_names() -> Iterator[str]:
    for split in ("all", "heldout"):
        yield from (f"{player}/{split}/{name}" for player in PLAYERS for name in PLAYED)
    for stage, names in TRAINED.items():
        yield from (f"{stage}/{name}" for name in names)
    yield from (f"03_grpo/{name}" for name in SIGNAL)


def _row(trial: Trial, out: Path) -> Row | None:
    """What the run folder of a trial says; None while it is neither done nor failed."""
    row = {"trial": trial.name, **trial.settings, "status": "done", "minutes": None}
    folders = {stage: out / trial.name / stage for stage in trial.stages}
    if not finished(trial, out):
        failed = "failed" in map(state, folders.values())
        return {**row, "status": "failed"} if failed else None
    seconds = []
    for stage, folder in folders.items():
        if stage in (*TRAINED, "04_eval") and state(folder) == "done":
            measured = runs.read_json(folder / "metrics.json")
            row |= measured if stage == "04_eval" else {f"{stage}/{k}": v for k, v in measured.items()}
        if stage == "03_grpo":
            row = _signal(folder) | row
        if not folder.is_symlink():
            with suppress(OSError, ValueError):  # evidence, but a trial is done without it
                seconds.append(runs.read_json(folder / "environment.json").get("seconds"))
    if seconds and all(isinstance(value, int | float) for value in seconds):
        row["minutes"] = round(sum(seconds) / 60, 2)
    return row


def _signal(folder: Path) -> Row:
    """Whether GRPO still had a signal at its end: the mean of the last quarter of its log."""
    path = folder / "log.jsonl"
    rows = runs.read_log(path) if path.is_file() else []
    means = {}
    for name in SIGNAL:
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        last = values[-math.ceil(len(values) / 4) :]
        means |= {f"03_grpo/{name}": sum(last) / len(last)} if last else {}
    return means


def read_table(folder: str | Path) -> list[Row]:
    """The rows of a sweep's table: numbers as numbers, empty cells as None."""
    with open(Path(folder) / TABLE, encoding="utf-8", newline="") as file:
        return [{key: _cell(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _cell(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


# What the table says ----------------------------------------------------------------------------


def is_sweep(folder: str | Path) -> bool:
    """Whether a folder is a sweep's and not a run's."""
    return (Path(folder) / TABLE).is_file()


def settings_of(rows: Sequence[Row]) -> list[str]:
    """The settings (`stage.name`) that differ between the rows of a table."""
    columns = [name for name in rows[0] if name.partition(".")[0] in params.STAGES and "/" not in name]
    return [name for name in columns if len({str(row[name]) for row in rows}) > 1]


def objective(rows: Sequence[Row]) -> str:
    """The metric by which trials are compared: games that the last trained model won, else GRPO's reward.

    Raises ValueError when no trial is done or none of these was measured.
    """
    names = ("grpo/all/win_rate", "sft/all/win_rate", "03_grpo/final_reward")
    done = [row for row in rows if row["status"] == "done"]
    for name in names:
        if any(row.get(name) is not None for row in done):
            return name
    raise ValueError(f"no trial is done and has one of {', '.join(names)}")


def measured(rows: Sequence[Row], metric: str) -> list[Row]:
    """The rows of finished trials that have the metric."""
    return [row for row in rows if row["status"] == "done" and row.get(metric) is not None]


def best(rows: Sequence[Row], metric: str) -> Row:
    """The row with the highest metric; of equal ones that with fewer guesses, then the first."""
    guesses = metric.replace("win_rate", "mean_guesses_loss7")

    def rank(row: Row) -> tuple[float, float]:
        few = row.get(guesses) if guesses != metric else None
        return row[metric], -few if few is not None else 0.0

    return max(measured(rows, metric), key=rank)


def effects(rows: Sequence[Row], metric: str, draws: int = 2000) -> list[Row]:
    """What each setting changes: the mean of the metric at each value less that at its first value.

    A number with more than four values is cut at its median: upper against lower half. The 95% interval is
    a bootstrap over trials where both sides have three or more; with fewer, win rates get Newcombe's
    interval over all their games (which does not see how much equal trials differ), others none.
    Keys: setting, value, against, difference, low, high, trials, interval (trials, games or empty).
    """
    rows = measured(rows, metric)
    found = []
    for setting in settings_of(rows) if rows else []:
        (against, base), *others = _levels(rows, setting).items()
        for value, level in others:
            means = [sum(row[metric] for row in side) / len(side) for side in (level, base)]
            low, high, kind = _interval(level, base, metric, draws)
            row = {"setting": setting, "value": value, "against": against, "difference": means[0] - means[1]}
            row |= {"low": low, "high": high, "trials": len(level) + len(base), "interval": kind}
            found.append(row)
    return found


def _levels(rows: Sequence[Row], setting: str) -> dict[str, list[Row]]:
    """Rows by the value of a setting, in ascending order; halves for a number with many values."""
    values = {row[setting] for row in rows}
    numeric = all(isinstance(value, int | float) for value in values)
    if numeric and len(values) > 4:
        cut = sorted(values)[len(values) // 2]
        halves = {f"below {cut:g}": [], f"from {cut:g}": []}
        for row in rows:
            halves[f"below {cut:g}" if row[setting] < cut else f"from {cut:g}"].append(row)
        return halves
    ordered = sorted(values) if numeric else list(dict.fromkeys(row[setting] for row in rows))
    return {str(value): [row for row in rows if row[setting] == value] for value in ordered}


def _interval(
    level: list[Row], base: list[Row], metric: str, draws: int
) -> tuple[float | None, float | None, str]:
    if min(len(level), len(base)) >= 3:
        rng = np.random.default_rng(0)
        means = [
            rng.choice([row[metric] for row in side], (draws, len(side))).mean(axis=1)
            for side in (level, base)
        ]
        low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
        return float(low), float(high), "trials"
    games = metric.replace("win_rate", "games")
    if games == metric or any(row.get(games) is None for row in (*level, *base)):
        return None, None, ""
    (p, p_low, p_high), (q, q_low, q_high) = (_won(side, metric, games) for side in (level, base))
    low = p - q - math.hypot(p - p_low, q_high - q)
    return low, p - q + math.hypot(p_high - p, q - q_low), "games"


def _won(side: list[Row], metric: str, games: str) -> tuple[float, float, float]:
    """Share of all games of some trials that were won, with Wilson's interval."""
    played = sum(row[games] for row in side)
    won = round(sum(row[metric] * row[games] for row in side))
    return won / played, *wilson(won, played)


def expand(folders: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Run folders, each sweep among them replaced by its best trial; and the sweeps."""
    folders = list(folders)
    swept = [folder for folder in folders if is_sweep(folder)]
    return [best_trial(folder) if folder in swept else folder for folder in folders], swept


def best_trial(folder: Path) -> Path:
    """The run folder of the best trial of a sweep; ValueError names a sweep without one."""
    rows = read_table(folder)
    try:
        return folder / best(rows, objective(rows))["trial"]
    except ValueError as error:
        raise ValueError(f"{runs.shown_path(folder / TABLE)}: {error}") from None


if __name__ == "__main__":
    sys.exit(_work())
