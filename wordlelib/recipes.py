"""Recipes: the parameters of every stage of a run, one `<NN_stage>.yaml` each, run by papermill.

Everything that can be checked is checked before the first notebook starts.
"""

import ast
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from wordlelib import params, runs

# Parameters that the command line sets for all stages at once.
OWN_OPTIONS = {"run": "--out (or --run)", "overwrite": "--overwrite", "resume": "--resume"}


class StageFailed(RuntimeError):
    """A notebook stopped before its end; the text names the notebook and the cell."""


def notebook_path(stage: str) -> Path:
    """The notebook of a stage; FileNotFoundError when the package is installed without them."""
    path = runs.project_root() / "notebooks" / f"{stage}.ipynb"
    if not path.is_file():
        raise FileNotFoundError(f"{runs.shown_path(path)} is missing: run this in a checkout of the project")
    return path


def _recipe_folder() -> Path:
    return runs.project_root() / "notebooks" / "recipes"


def recipe_names() -> list[str]:
    """The names of all recipes, sorted; `sweeps` beside them holds sweep files."""
    folders = [path for path in _recipe_folder().glob("*") if path.name != "sweeps"]
    return sorted(path.name for path in folders if list(path.glob("*.yaml")))


def read_recipe(name: str) -> dict[str, dict[str, Any]]:
    """Stage to its parameters, in order. ValueError lists the recipes there are for another name."""
    folder, names = _recipe_folder(), recipe_names()
    if name not in names:
        raise ValueError(f"no recipe {name!r} in {runs.shown_path(folder)}; there are: {', '.join(names)}")
    return {path.stem: runs.read_yaml(path) for path in sorted((folder / name).glob("*.yaml"))}


def defaults(stage: str) -> dict[str, Any]:
    """The values in the parameter cell of a stage's notebook."""
    from papermill import inspect_notebook

    cell = inspect_notebook(str(notebook_path(stage)))
    return {name: ast.literal_eval(entry["default"]) for name, entry in cell.items()}


def command(run: Path) -> str:
    """The command that repeats a run: the recipe nearest to its configs, a `--set` for each difference."""
    paths = {path.parent.name: path for path in sorted(run.glob("*/config.yaml"))}
    configs = {stage: params.BEFORE.get(stage, {}) | runs.read_yaml(path) for stage, path in paths.items()}
    known = {stage: defaults(stage) for stage in configs}

    def changes(asked: Mapping[str, Mapping[str, Any]]) -> list[str]:
        return [
            f"{stage}.{key}={_as_text(config[key])}"
            for stage, config in configs.items()
            for key, value in (known[stage] | asked.get(stage, {})).items()
            if key not in runs.NEVER_COMPARED and config.get(key, value) != value
        ]

    candidates = {name: read_recipe(name) for name in recipe_names()}
    changed = {name: changes(recipe) for name, recipe in candidates.items()}
    nearest = min(changed, key=lambda name: len(changed[name]))
    words = ["python", "-m", "wordlelib", "run", "--recipe", nearest, "--out", f"results/{run.name}"]
    if list(configs) != list(candidates[nearest]):
        words += ["--stages", ",".join(configs)]
    return shlex.join(words + [word for change in changed[nearest] for word in ("--set", change)])


def _as_text(value: Any) -> str:
    """A parameter as `--set` reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def parse_settings(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """`02_sft.max_steps=5` texts as stage to name to text."""
    settings: dict[str, dict[str, str]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        stage, dot, name = target.partition(".")
        if not (equals and dot):
            raise ValueError(f"--set {text!r}: write stage.name=value, such as 02_sft.max_steps=5")
        if name in OWN_OPTIONS:
            raise ValueError(f"--set {text!r}: {name} is an option of its own: use {OWN_OPTIONS[name]}")
        settings.setdefault(stage, {})[name] = value
    return settings


def plan(
    recipe: Mapping[str, Mapping[str, Any]], out: Path, *, overwrite: bool = False, resume: bool = False
) -> dict[str, dict[str, Any]]:
    """The stages to execute, each with all its parameters checked, for a run folder `out`.

    Finished stages are left out with `resume`, refused without it, and made again with `overwrite`.
    Raises ValueError with one sentence for whatever does not fit.
    """
    stages = {}
    resolved = {stage: _resolved(stage, values, out, overwrite, resume) for stage, values in recipe.items()}
    params.check_stages(resolved)
    for stage, values in resolved.items():
        folder = out / stage
        state = runs.status(folder)["status"]
        if state != "done" or overwrite:
            for earlier in params.inputs(stage, values):
                if earlier not in stages:
                    runs.finished_input(out, earlier)
            stages[stage] = values
        elif not resume:
            raise ValueError(
                f"{runs.shown_path(folder)} is finished: --resume keeps it and goes on, --overwrite "
                "makes it again, another --out starts elsewhere"
            )
        elif change := runs.changed_parameter(folder, values, runs.NEVER_COMPARED):
            raise ValueError(
                f"{runs.shown_path(folder)} was made with {change}: --overwrite makes it again, "
                "another --out keeps both"
            )
        else:
            print(f"{stage}: finished {runs.status(folder)['ended']}, kept")
    return stages


def _resolved(
    stage: str, values: Mapping[str, Any], out: Path, overwrite: bool, resume: bool
) -> dict[str, Any]:
    """All parameters of a stage, checked."""
    known = defaults(stage) if stage in params.STAGES else {}
    values = {**known, **values, "run": runs.shown_path(out), "overwrite": overwrite}
    return params.resolve(stage, values | ({"resume": resume} if "resume" in known else {}))


def execute(stage: str, values: Mapping[str, Any], out: Path) -> None:
    """Execute the notebook of `stage` into `<out>/<stage>/<stage>.ipynb`, its output shown as it comes.

    Raises StageFailed naming the cell that failed or whose kernel died; a stage that had begun is marked
    failed.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    folder = out / stage
    target = folder / f"{stage}.ipynb"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PermissionError(
            f"cannot write the run folder {runs.shown_path(folder)} ({error.strerror}): choose another --out"
        ) from None
    try:
        _in_thread(
            papermill.execute_notebook,
            notebook_path(stage),
            target,
            dict(values),
            progress_bar=False,
            stdout_file=sys.stdout,
            extra_arguments=["--log-level=CRITICAL"],  # of the kernel, which warns of every local port
        )
    except PapermillExecutionError as error:
        reason = f"{error.ename}: {error.evalue}"
    except RuntimeError as error:  # the kernel died or did not start
        reason = str(error)
    else:
        reason = None
    cell = _tidy(target, stage, failed=reason is not None)
    if reason is not None:
        if runs.status(folder)["status"] != "absent":  # else the stage never opened the folder: not ours
            runs.mark_failed(folder, reason)
        raise StageFailed(f"notebook {stage} stopped in {cell}: {' '.join(reason.split())}")
    runs.require_complete_notebook(target)


def _in_thread(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Call a function in another thread and wait for it; what it raises is raised here.

    In the main thread nbclient takes Ctrl-C for itself and lets the notebook run to its end. Here Ctrl-C
    ends the wait, and the kernel ends with this process.
    """
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function(*args, **options)
        except BaseException as error:  # KeyboardInterrupt, too: of a cell that was interrupted
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _tidy(notebook: Path, stage: str, failed: bool) -> str:
    """Take machine paths out of an executed notebook; name its last started cell and mark it if `failed`.

    papermill marks every cell completed when a kernel dies, so the mark has to be made here.
    """
    text = notebook.read_text(encoding="utf-8")
    # libraries print where they and the project are in their messages, and JSON escapes it
    for folder in sorted({str(runs.project_root()), *filter(os.path.isabs, sys.path)}, key=len, reverse=True):
        text = text.replace(json.dumps(f"{folder}/", ensure_ascii=False)[1:-1], "")
    content = json.loads(text)
    record = content["metadata"]["papermill"]
    record["input_path"] = f"notebooks/{stage}.ipynb"
    record["output_path"] = notebook.name
    started = [
        (number, cell)
        for number, cell in enumerate(content["cells"], 1)
        if cell["cell_type"] == "code" and cell["metadata"].get("papermill", {}).get("start_time")
    ]
    name = runs.cell_name(*started[-1]) if started else "its start"
    if failed and started:
        started[-1][1]["metadata"]["papermill"]["status"] = "failed"
    runs.write_json(notebook, content)
    return name


def execute_all(
    stages: Mapping[str, Mapping[str, Any]], out: Path, after: Callable[[str], None] = lambda stage: None
) -> None:
    """Execute planned stages in order, with a line at the start and the end of each, then `after(stage)`.

    A dry run of a stage is the end: those after it would have nothing to read.
    """
    for number, (stage, values) in enumerate(stages.items(), 1):
        print(f"[{number}/{len(stages)}] {stage}", flush=True)
        begun = time.monotonic()
        execute(stage, values, out)
        print(f"[{number}/{len(stages)}] {stage}: {time.monotonic() - begun:.0f} s\n", flush=True)
        if runs.status(out / stage)["status"] == runs.DRY_RUN:
            return
        after(stage)


def prepare_replay(out: Path) -> Path:
    """Write the replay notebook with this run filled in, ready to open, and return its path."""
    import papermill

    target = out / "06_replay.ipynb"
    papermill.execute_notebook(
        notebook_path("06_replay"), target, {"run": runs.shown_path(out)}, prepare_only=True
    )
    _tidy(target, "06_replay", failed=False)
    return target
