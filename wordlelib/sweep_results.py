"""What a sweep gave: one table of its trials, and what it says of the settings.

`sweep.csv` has one row a trial that ended. It is made from the run folders alone, and all that reports and
figures say of a sweep is made from it alone.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from wordlelib import params, runs
from wordlelib.evaluate import wilson
from wordlelib.trials import Trial

TABLE = "sweep.csv"
# What the table says of a trial, where its stages measured it.
PLAYERS = ("sft", "sft_continued", "grpo")
PLAYED = ("games", "win_rate", "mean_guesses_loss7", "nonword_share")
TRAINED = {"02_sft": ("final_loss", "steps"), "03_grpo": ("final_reward", "steps", "tokens_per_s")}
WITH_MODEL = ("02_sft", "03_grpo", "04_eval")  # stages that load a model, on a GPU where there is one
DRAWS = 2000  # resamples of a bootstrap over trials
SIGNAL = ("frac_reward_zero_std", "top_guess_share")  # of a GRPO log: the mean of its last quarter

Row = dict[str, Any]


def finished(trial: Trial, out: Path) -> bool:
    """Whether every stage of a trial is there and those of its own are done.

    A shared stage that is torn later is made again for those that still need it only.
    """
    folders = [out / trial.name / stage for stage in trial.stages]
    return all(folder.is_symlink() or runs.state(folder) == "done" for folder in folders)


def write_table(trials: Sequence[Trial], out: Path, rows: dict[str, Row]) -> None:
    """Write `sweep.csv`: one row a trial that is done or failed, in the order of the file.

    rows: by trial, those of finished trials, which are read once; new ones are added.
    """
    failed = {}
    for trial in trials:
        if trial.name not in rows and (row := _row(trial, out)):
            (rows if row["status"] == "done" else failed)[trial.name] = row
    found = [row for trial in trials if (row := rows.get(trial.name) or failed.get(trial.name))]
    columns = ["trial", *trials[0].settings, "status", "minutes", "model_minutes"]
    columns += ["reference"] * any(trial.reference for trial in trials)
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
    row |= {"reference": "yes"} if trial.reference else {}
    folders = {stage: out / trial.name / stage for stage in trial.stages}
    if not finished(trial, out):
        failed = "failed" in map(runs.state, folders.values())
        return {**row, "status": "failed"} if failed else None
    seconds = {}
    for stage, folder in folders.items():
        if stage in (*TRAINED, "04_eval") and runs.state(folder) == "done":
            measured = runs.read_json(folder / "metrics.json")
            row |= measured if stage == "04_eval" else {f"{stage}/{k}": v for k, v in measured.items()}
        if stage == "03_grpo":
            row = _signal(folder) | row
        if not folder.is_symlink():
            with suppress(OSError, ValueError):  # evidence, but a trial is done without it
                seconds[stage] = runs.read_json(folder / "environment.json").get("seconds")
    row["minutes"] = _minutes(seconds.values())
    row["model_minutes"] = _minutes(own for stage, own in seconds.items() if stage in WITH_MODEL)
    return row


def _minutes(seconds: Iterable[float | None]) -> float | None:
    """Their sum in minutes; None when one is unknown or there is none."""
    seconds = list(seconds)
    known = seconds and all(isinstance(value, int | float) for value in seconds)
    return round(sum(seconds) / 60, 2) if known else None


def _signal(folder: Path) -> Row:
    """Whether GRPO still had a signal at its end: the mean of the last quarter of its log."""
    rows = runs.log_of(folder)
    means = {}
    for name in SIGNAL:
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        last = values[-math.ceil(len(values) / 4) :]
        means |= {f"03_grpo/{name}": sum(last) / len(last)} if last else {}
    return means


def read_table(folder: str | Path) -> list[Row]:
    """The rows of a sweep's table: numbers as numbers, empty cells as None."""
    with open(Path(folder) / TABLE, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # a folder's name is a text, even one of digits
    return [{key: text if key == "trial" else _cell(text) for key, text in row.items()} for row in rows]


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


def setting_names(rows: Sequence[Row]) -> list[str]:
    """All settings (`stage.name`) of a table."""
    return [name for name in rows[0] if name.partition(".")[0] in params.STAGES and "/" not in name]


def settings_of(rows: Sequence[Row]) -> list[str]:
    """The settings (`stage.name`) that differ between the rows of a table."""
    columns = setting_names(rows)
    return [name for name in columns if len({str(row[name]) for row in rows}) > 1]


def reference_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the trials that others are compared with, one a seed; none where the file names none."""
    return [row for row in rows if row.get("reference")]


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


def effects(rows: Sequence[Row], metric: str) -> list[Row]:
    """What each setting changes: the mean of the metric at each value less that at its first value.

    A number with more than four values is cut at its median: upper against lower half. The 95% interval is
    a bootstrap over trials where both sides have three or more; with fewer, win rates get Newcombe's
    interval over all their games (which does not see how much equal trials differ), others none.
    Keys: setting, value, against, difference, low, high, trials, interval (trials, games or empty). There are
    none for a sweep with a reference: its trials change one thing at a time (`ablations`).
    """
    rows = [] if reference_rows(rows) else measured(rows, metric)
    found = []
    for setting in settings_of(rows) if rows else []:
        (against, base), *others = _levels(rows, setting).items()
        for value, level in others:
            means = [sum(row[metric] for row in side) / len(side) for side in (level, base)]
            low, high, kind = _interval(level, base, metric)
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


def _interval(level: list[Row], base: list[Row], metric: str) -> tuple[float | None, float | None, str]:
    if min(len(level), len(base)) >= 3:
        rng = np.random.default_rng(0)
        means = [
            rng.choice([row[metric] for row in side], (DRAWS, len(side))).mean(axis=1)
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
