"""Run folders: the only thing that passes between notebooks.

`<run>/<stage>/` holds `config.yaml` (first), `environment.json`, `status.json` (running, done or
failed), `log.jsonl`, `figures/`, whatever the stage makes, and `metrics.json` (last). Every file is
written under a temporary name and renamed, so what is there is whole. A stage left half-done, even
by `kill -9`, still says `running` and is never read as finished.
"""

import ast
import gzip
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from wordlelib import params
from wordlelib.processes import processors
from wordlelib.rules import Rules, require_same_rules

# Parameters that say nothing of what is made, and those that a resumed training may change
NEVER_COMPARED = ("run", "overwrite", "resume", *params.KEEPING)
# (how long to train, and how a step fits the device: its result is the same).
MAY_CHANGE_ON_RESUME = (
    *NEVER_COMPARED,
    *("max_steps", "max_minutes", "control", "micro_batch_size", "engine_memory", "eval_every"),
    *("concurrency", "timeout", "requests_per_minute"),
)
DRY_RUN = "dry run"  # status of a stage that only said what it would do
LONG_TRAINING = 1000  # steps of SFT from which compiling the model pays
STACK = (
    *("wordle-workbook", "numpy", "scipy", "pyarrow", "torch", "transformers", "accelerate", "trl"),
    *("peft", "datasets", "tokenizers", "plotly", "ipywidgets", "papermill", "openai", "open_spiel"),
    *("vllm", "unsloth", "bitsandbytes"),
)


class MemoryLimit(RuntimeError):
    """Training passed its memory limit, wrote a checkpoint and stopped; a new process goes on from there."""


def project_root() -> Path:
    """The checkout that holds `notebooks/`, else the current directory."""
    checkout = Path(__file__).resolve().parent.parent
    return checkout if (checkout / "notebooks").is_dir() else Path.cwd()


def project_path(text: str | Path) -> Path | None:
    """A path given as a parameter: relative ones start at the project root; empty text is None."""
    return project_root() / Path(text).expanduser() if str(text) else None


def secret_value(name: str) -> str:
    """A secret such as a key: `name` of the environment, else of the project's `.env`; empty without one."""
    path = project_path(".env")
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    written = re.search(rf"^\s*(?:export\s+)?{name}\s*=\s*[\"']?([^\s\"'#]+)", text, re.MULTILINE)
    return os.environ.get(name) or (written[1] if written else "")


def shown_path(path: str | Path) -> str:
    """`path` relative to the project root when inside it: results may be committed and moved."""
    path, root = Path(path), project_root()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def portable(value: Any) -> Any:
    """A parameter as it is written down: absolute paths inside the project become relative."""
    if isinstance(value, list):
        return [portable(item) for item in value]
    return shown_path(value) if isinstance(value, str) and os.path.isabs(value) else value


def changed_parameter(folder: str | Path, values: Mapping[str, Any], may_change: Iterable[str]) -> str | None:
    """The first parameter that differs from a stage's `config.yaml`, as `name=old, not new`."""
    before = params.BEFORE.get(Path(folder).name, {}) | read_yaml(Path(folder) / "config.yaml")
    for name, value in values.items():
        if name not in may_change and before.get(name) != portable(value):
            return f"{name}={before.get(name)!r}, not {portable(value)!r}"
    return None


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Errors of the system about `path` as one sentence, without the temporary name beside it."""
    try:
        yield
    except OSError as error:
        folder = shown_path(Path(path).absolute().parent)
        raise type(error)(f"cannot write {Path(path).name} in {folder} ({error.strerror or error})") from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; it becomes `path` if all goes well, else it goes.

    Raises OSError with one sentence that names `path` and its folder where nothing can be written.
    """
    temporary = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.tmp")
    with _named(path):
        temporary.touch()
    try:
        yield temporary
        with _named(path):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """As `replacing`, for a folder: an older one at `path` is kept unless all goes well."""
    temporary = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with _named(path):
            temporary.mkdir(parents=True)
        yield temporary
        shutil.rmtree(path, ignore_errors=True)
        with _named(path):
            os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a whole file or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: numpy values and paths become plain, NaN and infinity None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: str | Path, value: Any) -> None:
    """Write `plain(value)` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; ValueError names a half-written or corrupt one, with its line."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{shown_path(path)}: not a whole JSON file ({error})") from None


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping; an empty file is an empty one. ValueError names a file that is neither."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{shown_path(path)}: not a YAML file ({' '.join(str(error).split())})") from None
    if not isinstance(values, dict):
        raise ValueError(f"{shown_path(path)}: holds no `name: value` lines")
    return values


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def status(folder: str | Path) -> dict[str, Any]:
    """What `status.json` of a stage folder says: {"status": "absent"} when there is none."""
    path = Path(folder) / "status.json"
    found = read_json(path) if path.is_file() else {"status": "absent"}
    if not (isinstance(found, dict) and isinstance(found.get("status"), str)):
        raise ValueError(f"{shown_path(path)}: names no status; run the notebook again in another folder")
    return found


def state(folder: str | Path) -> str:
    """What a stage folder is: absent, running, failed, done, or torn.

    Done needs whole metrics and a notebook whose cells all ran; torn is said to be done, or nothing
    that can be read, without being whole.
    """
    folder = Path(folder)
    try:
        said = status(folder)["status"]
        if said == "done":
            require_complete_notebook(folder / f"{folder.name}.ipynb")
            if not isinstance(read_json(folder / "metrics.json"), dict):
                return "torn"
    except (OSError, ValueError, KeyError, TypeError):
        return "torn"
    return said


def mark_failed(folder: str | Path, error: str) -> None:
    """Say in the status of a stage that it failed and why."""
    write_json(Path(folder) / "status.json", {**status(folder), "status": "failed", "error": error})


def finished_stage(run: str | Path, stage: str) -> Path:
    """The folder of a finished stage of a run; ValueError says what to run first."""
    folder = Path(run) / stage
    state = status(folder)["status"]
    if state != "done":
        known = {"absent": "is not there", "running": "was left half-done", DRY_RUN: "was a dry run"}
        said = known.get(state, "failed")
        raise ValueError(
            f"{shown_path(folder)} {said}: run notebook {stage} first, with run={shown_path(run)!r}"
        )
    return folder


def finished_input(run: str | Path, stage: str) -> Path:
    """As `finished_stage`; ValueError also when it was made from an input that has been made again since."""
    folder = finished_stage(run, stage)
    for older, ended in status(folder).get("inputs", {}).items():
        now_there = status(Path(run) / older)
        if now_there["status"] != "absent" and now_there.get("ended") != ended:
            raise ValueError(
                f"{shown_path(folder)} was made from an earlier {older} than the one there now: "
                f"run notebook {stage} again"
            )
    return folder


def read_log(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a `log.jsonl`, gzipped or not; a last line cut short by a kill is left out."""
    path = Path(path)
    with unpacked(path) as file:
        text = file.read().decode("utf-8")
    rows = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            break
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{shown_path(path)}, line {number}: not JSON ({error.msg})") from None
    return rows


@contextmanager
def unpacked(path: str | Path) -> Iterator[BinaryIO]:
    """A file to read bytes from, of one that is gzipped (`.gz`) its content.

    Raises ValueError as `whole_archive` does.
    """
    with whole_archive(path), gzip.open(path) if str(path).endswith(".gz") else open(path, "rb") as file:
        yield file


@contextmanager
def whole_archive(path: str | Path) -> Iterator[None]:
    """Turn the errors of a damaged gzip file into a ValueError that names it."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error})") from None


def log_of(stage: str | Path) -> list[dict[str, Any]]:
    """The rows of a stage's `log.jsonl`, or of the gzipped one of a kept run; none where there is none."""
    paths = (Path(stage) / name for name in ("log.jsonl", "log.jsonl.gz"))
    return next((read_log(path) for path in paths if path.is_file()), [])


def environment_of(stage: str | Path) -> dict[str, Any]:
    """A stage's `environment.json`, empty where there is none."""
    path = Path(stage) / "environment.json"
    return read_json(path) if path.is_file() else {}


def output_of(*command: str) -> str | None:
    """Standard output of a command, None when it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def environment() -> dict[str, Any]:
    """Code, versions and machine of a run: no user name, host name or path; of its GPU the number."""
    import platform
    from importlib import metadata

    versions = {}
    for package in STACK:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    git = ("git", "-C", str(project_root()))
    commit = output_of(*git, "rev-parse", "HEAD")
    gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    name, _, driver = (gpu or "").partition("\n")[0].partition(", ")
    return {
        "git_commit": commit,
        "git_dirty": None if commit is None else bool(output_of(*git, "status", "--porcelain")),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": processors(),
        "gpu": name or None,
        "gpu_driver": driver or None,
        "gpu_visible": os.environ.get("CUDA_VISIBLE_DEVICES"),  # which card was a trial's own
        "packages": versions,
    }


@dataclass
class Run:
    """One stage of one run: its parameters (`config`), its folder (`dir`), and what it writes there.

    `resumed` is True when an unfinished folder was opened again and kept.
    """

    stage: str
    config: SimpleNamespace
    dir: Path
    resumed: bool
    rules: Rules | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def input(self, stage: str) -> Path:
        """The folder of a finished earlier stage of this run.

        Raises ValueError as `finished_input` does, and when this run is resumed and was begun with an
        earlier making of the stage: its checkpoints may have seen other secrets.
        """
        folder = finished_input(self.dir.parent, stage)
        own, ended = status(self.dir), status(folder)["ended"]
        begun_with = own.get("inputs", {})
        if begun_with.get(stage, ended) != ended:
            raise ValueError(
                f"{shown_path(self.dir)} was begun with an earlier {stage} than the one there now: start it "
                "anew with resume=False"
            )
        self.inputs[stage] = ended
        if own["status"] == "running":
            write_json(self.dir / "status.json", {**own, "inputs": begun_with | self.inputs})
        return folder

    def use_rules(self, rules: Rules) -> None:
        """Record the rules in `config.yaml` and `metrics.json`; inputs must have been made under them."""
        for stage in self.inputs:
            earlier = read_yaml(self.dir.parent / stage / "config.yaml").get("rules")
            if earlier is not None:
                require_same_rules(rules, Rules.from_dict(earlier), f"{self.stage} and {stage}")
        self.rules = rules
        self._write_config()

    def _write_config(self) -> None:
        import yaml

        values = {name: portable(value) for name, value in vars(self.config).items()}
        if self.rules is not None:
            values["rules"] = self.rules.to_dict()
        write_text(self.dir / "config.yaml", yaml.safe_dump(values, sort_keys=False, allow_unicode=True))

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one row to `log.jsonl`; it is on disk when this returns."""
        with open(self.dir / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(plain(row), allow_nan=False) + "\n")

    def rewind_log(self, step: float) -> None:
        """Drop log rows after `step`: those that a resumed training is about to make again.

        Also the trainer's summary of the part before, unless `step` is infinite: it is not the end now.
        """
        path = self.dir / "log.jsonl"
        if path.is_file():
            rows = [row for row in read_log(path) if row.get("step", 0) <= step]
            if math.isfinite(step):
                rows = [row for row in rows if "train_loss" not in row]  # that of the whole training
            write_text(path, "".join(json.dumps(row) + "\n" for row in rows))

    def figure(self, figure: Any, name: str) -> None:
        """Save a figure of `plots` under `figures/`, and show it with the line on how to read it.

        The pages of a run share one copy of the plotting library, `<run>/plotly.min.js`.
        """
        from wordlelib import plots

        plots.save(figure, self.dir / "figures", name, "../../plotly.min.js")
        plots.show(figure)

    def finish(self, metrics: Mapping[str, Any]) -> None:
        """Write `metrics.json` (flat: name to number, text or None), then the status `done`, or that it was a
        dry run, which no other stage takes for finished."""
        metrics = plain(metrics)
        if nested := [name for name, value in metrics.items() if isinstance(value, list | dict)]:
            raise ValueError(f"{self.stage}: metric {nested[0]!r} is not one number or text")
        if self.rules is not None:
            metrics["rules"] = self.rules.digest
        write_json(self.dir / "metrics.json", metrics)
        ended = now()
        record = read_json(self.dir / "environment.json")
        seconds = record.get("earlier_seconds", 0.0) + time.monotonic() - self.started  # clocks may jump
        took = {"ended": ended, "seconds": round(seconds, 3)}
        write_json(self.dir / "environment.json", {**record, **took})
        said = DRY_RUN if getattr(self.config, "dry_run", False) else "done"
        write_json(self.dir / "status.json", {"status": said, "ended": ended, "inputs": self.inputs})
        _watch_cells(None)
        print(f"{self.stage}: {said} in {time.monotonic() - self.started:.0f} s, {shown_path(self.dir)}")


def parameters(stage: str, namespace: Mapping[str, Any]) -> SimpleNamespace:
    """Check the parameters that a notebook's first cell set, print them, and return them.

    `namespace` is the notebook's `globals()`. Raises ValueError as `params.resolve` does, also for
    a name that papermill put in and the stage does not know (papermill itself only warns).
    """
    known = params.declared(stage)
    params.check_names(stage, _injected_names(namespace) - {"rules"})
    given = {name: namespace[name] for name in known if name in namespace}
    if isinstance(opened := given.get("run"), Run):  # `run = start(...)` is executed a second time
        given["run"] = opened.config.run
    values = params.resolve(stage, given)
    print(stage)
    for name, value in values.items():
        print(f"  {name} = {value!r} {known[name].unit}".rstrip())
    return SimpleNamespace(**values)


def _injected_names(namespace: Mapping[str, Any]) -> set[str]:
    """Names set by the cell that papermill injects, found in the notebook's record of its cells."""
    names = set()
    for source in namespace.get("In", []):
        if source.startswith("# Parameters\n"):
            for node in ast.parse(source).body:
                names |= {target.id for target in getattr(node, "targets", []) if hasattr(target, "id")}
    return names


def start(stage: str, namespace: Mapping[str, Any]) -> Run:
    """Check and print the parameters of a notebook, and open its folder `<run>/<stage>/`.

    Raises ValueError for wrong parameters, for an input that is missing or not finished, for a finished
    folder without `overwrite`, and for a folder that is not a stage's; PermissionError when the folder
    cannot be written; RuntimeError for a `backend` that this machine or this order of imports cannot serve.
    Works in Jupyter, under papermill and in a plain Python process.
    """
    config = parameters(stage, namespace)
    if not config.run:
        raise ValueError(f"{stage}: run is empty; name a run folder such as 'results/mine'")
    for earlier in params.inputs(stage, vars(config)):
        finished_input(project_path(config.run), earlier)  # before a finished stage is emptied
    return open_stage(stage, config)


def open_stage(stage: str, config: SimpleNamespace) -> Run:
    """As `start`, from checked parameters, and for inputs that are not in its run folder."""
    started = now()  # importing a backend takes a minute of the stage
    folder = project_path(config.run) / stage
    if (tracker := getattr(config, "tracker", "none")) != "none":
        from wordlelib.trackers import require

        require(tracker)
    if (backend := getattr(config, "backend", "transformers")) != "transformers":
        from wordlelib.models import use_backend

        long_training = stage == "02_sft" and not 0 < config.max_steps < LONG_TRAINING
        use_backend(backend, long_training)  # first of all imports
    resumed = _open_folder(folder, config)
    run = Run(stage, config, folder, resumed)
    run._write_config()
    run.rewind_log(math.inf)  # drops a last line that a kill cut short
    begun_with = status(folder).get("inputs", {})  # none unless resumed: a new folder is empty
    write_json(folder / "status.json", {"status": "running", "started": started, "inputs": begun_with})
    record = {**environment(), "seed": config.seed, "started": started}
    if resumed:
        record |= _earlier(folder)
    write_json(folder / "environment.json", record)
    _watch_cells(folder)
    return run


def _earlier(folder: Path) -> dict[str, Any]:
    """What the starts of a stage took that ended before it was done, at least the training in its logs, and
    their commits, each once: a part of the stage is theirs.

    When a process was killed, nobody wrote down; and times of files do not survive a copy.
    """
    before = environment_of(folder)
    logs = [folder, folder / "control", *folder.glob("corrections/*")]
    minutes = [max((row.get("minutes", 0.0) for row in log_of(log)), default=0.0) for log in logs]
    commits = [*before.get("earlier_commits", []), before.get("git_commit")]
    return {
        "earlier_seconds": max(before.get("earlier_seconds", 0.0), 60 * sum(minutes)),
        "earlier_commits": list(dict.fromkeys(commits)),
    }


def _open_folder(folder: Path, config: SimpleNamespace) -> bool:
    """Make `folder` ready to be written; True when an unfinished stage in it is kept and goes on."""
    state = status(folder)["status"]
    resume = getattr(config, "resume", False)
    if state == "done" and not config.overwrite:
        raise ValueError(
            f"{shown_path(folder)} is finished: set overwrite=True to replace it, or choose another run"
        )
    if state in ("running", "failed") and resume:
        if change := changed_parameter(folder, vars(config), MAY_CHANGE_ON_RESUME):
            raise ValueError(
                f"{shown_path(folder)} was started with {change}: resume it with the same value, or "
                "start anew with resume=False"
            )
        return True
    made_here = {"config.yaml", f"{folder.name}.ipynb"}
    if state == "absent" and folder.is_dir() and {path.name for path in folder.iterdir()} - made_here:
        raise ValueError(f"{shown_path(folder)} holds files that no run made: choose another run")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable.{os.getpid()}.tmp"
        probe.touch()
        probe.unlink()
        for path in folder.iterdir():
            # papermill writes the executed notebook here while the stage runs
            if path.name == f"{folder.name}.ipynb":
                continue
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    except OSError as error:
        raise PermissionError(
            f"cannot write the run folder {shown_path(folder)} ({error.strerror}): choose another run"
        ) from None
    return False


_watching: list[Any] = []


def _watch_cells(folder: Path | None) -> None:
    """From now on a failing notebook cell marks `folder` failed; None stops watching."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    while _watching:
        shell.events.unregister("post_run_cell", _watching.pop())
    if folder is None:
        return

    def after_cell(result: Any) -> None:
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            mark_failed(folder, f"{type(error).__name__}: {error}")

    shell.events.register("post_run_cell", after_cell)
    _watching.append(after_cell)


def require_complete_notebook(path: str | Path) -> None:
    """Raise ValueError naming the first cell that failed, or was not executed to its end.

    An executed notebook is evidence only when every code cell ran to its end.
    """
    for number, cell in enumerate(read_json(path)["cells"], 1):
        if cell["cell_type"] != "code" or not "".join(cell["source"]).strip():
            continue
        failed = any(output["output_type"] == "error" for output in cell["outputs"])
        state = cell["metadata"].get("papermill", {}).get("status", "completed")
        if failed or state == "failed":
            raise ValueError(f"{shown_path(path)}: {cell_name(number, cell)} failed")
        if cell["execution_count"] is None or state != "completed":
            raise ValueError(f"{shown_path(path)}: {cell_name(number, cell)} was not executed to its end")


def cell_name(number: int, cell: Mapping[str, Any]) -> str:
    """How a reader finds a cell: by its `In [n]`, or by its place when it has none."""
    return f"In [{cell['execution_count']}]" if cell["execution_count"] else f"cell {number}"
