"""The trials of a sweep: what its file asks for, every parameter checked before anything starts.

A file names a recipe and how to search: `grid` (all combinations), `trials` (a list) or `random` (draws by
a seed). Settings are `stage.name` to a value; a trial of a list may have a `name`, others are named after
their settings. `reference` gives the settings of the row that others are compared with (`ablations`).
"""

import hashlib
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from wordlelib import params, recipes, runs

SEARCHES = ("grid", "trials", "random")
KEYS = ("recipe", "set", "stages", *SEARCHES, "n", "seed", "reference")
WITHIN_A_ROW = ("seed", "control", "players")  # parameters in which the trials of one row may differ
LONGEST_NAME = 80  # letters of a folder's name
UNFIT = re.compile(r"[^A-Za-z0-9.=+_-]+|^\.+$")  # what such a name cannot have
TAKEN = ("shared", "figures")  # folders of the sweep itself
TRIES = 100  # draws for each random trial: a few choices may give the same trial again

Settings = dict[str, Any]
Changes = Mapping[str, Mapping[str, Any]]


class Trial(NamedTuple):
    """One run: the name of its folder, its own settings (`stage.name`), all parameters of its stages, and
    whether it is one of the reference row."""

    name: str
    settings: Settings
    stages: dict[str, dict[str, Any]]
    reference: bool = False


def read_sweep(path: str | Path, changes: Changes | None = None) -> list[Trial]:
    """The trials of a sweep file, every parameter of every stage checked.

    changes: as for `file_with`. Raises ValueError with one sentence that names the file for whatever is wrong
    in it.
    """
    try:
        return _trials(file_with(path, changes))
    except ValueError as error:
        where = runs.shown_path(Path(path).resolve())
        raise ValueError(str(error) if where in str(error) else f"{where}: {error}") from None


def file_with(path: str | Path, changes: Changes | None = None) -> dict[str, Any]:
    """What a sweep file says, with further parameters of all trials (stage to name to value) in its `set`."""
    file = runs.read_yaml(path)
    if changes:
        more = {f"{stage}.{name}": value for stage, own in changes.items() for name, value in own.items()}
        file["set"] = _mapping(file.get("set", {}), "set") | more
    return file


def _trials(file: Mapping[str, Any]) -> list[Trial]:
    search = _search(file)
    recipe = recipes.read_recipe(file.get("recipe", ""))
    stages = _chosen_stages(file, recipe)
    base = {stage: {**recipes.defaults(stage), **recipe[stage]} for stage in stages}
    base = _with(base, _mapping(file.get("set", {}), "set"))
    drawn = {"grid": _grid, "trials": _listed, "random": _random}[search](file, base)
    names = [settings.pop("name", "") for settings in drawn]  # only a list has them
    columns = list(dict.fromkeys(target for settings in drawn for target in settings))
    trials: dict[str, Trial] = {}
    for number, (name, settings) in enumerate(zip(names, drawn, strict=True), 1):
        try:
            trial = _trial(base, settings, columns, name)
        except ValueError as error:
            raise ValueError(f"trial {number} of {len(drawn)}: {error}") from None
        if trial.name in trials:
            twin = list(trials).index(trial.name) + 1
            raise ValueError(f"trials {twin} and {number} are the same, {trial.name}: leave one out")
        trials[trial.name] = trial
    return _with_reference(list(trials.values()), file, base)


def _with_reference(
    trials: list[Trial], file: Mapping[str, Any], base: Mapping[str, dict[str, Any]]
) -> list[Trial]:
    """The trials, those of the reference row marked; what it leaves out is as in all trials."""
    if "reference" not in file:
        return trials
    wanted = _with(base, _mapping(file["reference"], "reference"))
    wanted = {stage: params.resolve(stage, values) for stage, values in wanted.items()}

    def refers(trial: Trial) -> bool:
        return all(
            trial.stages[stage][name] == value
            for stage, values in wanted.items()
            for name, value in values.items()
            if name not in WITHIN_A_ROW
        )

    marked = [trial._replace(reference=refers(trial)) for trial in trials]
    if not any(trial.reference for trial in marked):
        raise ValueError(f"no trial is the reference {file['reference']}: add one with these settings")
    return marked


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


def _trial(
    base: Mapping[str, dict[str, Any]], settings: Settings, columns: list[str], name: str = ""
) -> Trial:
    stages = {stage: params.resolve(stage, values) for stage, values in _with(base, settings).items()}
    params.check_stages(stages)
    _check_inputs(stages)
    own = {}
    for target in columns:
        stage, parameter = _target(target, stages)
        own[target] = stages[stage][parameter]
    return Trial(_checked_name(name) if name else _trial_name(own), own, stages)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or UNFIT.search(name) or len(name) > LONGEST_NAME or name in TAKEN:
        raise ValueError(
            f"name is {name!r}; use up to {LONGEST_NAME} letters, digits and any of . = + _ - (and none of "
            f"{', '.join(TAKEN)})"
        )
    return name


def _check_inputs(stages: Mapping[str, Mapping[str, Any]]) -> None:
    """A stage that reads what no stage makes would stop every trial, a player of 04 at its end."""
    for stage, values in stages.items():
        for earlier, reader in params.inputs(stage, values).items():
            if earlier not in stages:
                raise ValueError(f"{reader} needs {earlier}: name it among the stages, or leave {reader} out")
    if "sft_continued" in stages.get("04_eval", {}).get("players", ()) and not stages["03_grpo"]["control"]:
        raise ValueError(
            "player sft_continued of 04_eval needs 03_grpo.control true; leave it out of players"
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
    return [dict(_mapping(settings, f"trial {number}")) for number, settings in enumerate(file["trials"], 1)]


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
    name = UNFIT.sub("-", whole)
    if name == whole and len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
