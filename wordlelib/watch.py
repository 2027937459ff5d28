"""Watching a training: what the log of a running stage says, as text, and as a widget that follows it."""

import json
import os
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from wordlelib import boards, runs, widgets
from wordlelib.svg import element

STAGES = ("03_grpo", "02_sft")  # the later one first
# shown name: columns of which a row has one, and how its value is written
SIGNALS: dict[str, tuple[tuple[str, ...], str]] = {
    "reward": (("reward",), "{:.3f}"),
    "loss": (("loss",), "{:.4f}"),
    "games won": (("val_win_rate", "games_win_rate"), "{:.1%}"),
    "groups without spread": (("frac_reward_zero_std",), "{:.1%}"),
    "memory, GiB": (("memory_gib",), "{:.2f}"),
}
LOOK = 2.0  # seconds between two looks at a log that is followed as text
POINTS = 400  # of a curve; more would not be seen
WIDTH, HEIGHT = 320, 90

Row = dict[str, Any]


class Follower:
    """The rows of a growing `log.jsonl`, read on from where the last look ended.

    A last line without its end is left for the next look. A log that was written anew (a restarted or
    resumed run makes the rows after its checkpoint again) is read from its beginning. A line that is no
    JSON is counted in `damaged` and passed over: what is watched is not judged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows: list[Row] = []
        self.file_id, self.place, self.damaged = None, 0, 0

    def look(self) -> list[Row]:
        """All rows so far; none while there is no file."""
        try:
            with open(self.path, "rb") as file:
                state = os.fstat(file.fileno())
                if (state.st_dev, state.st_ino) != self.file_id or state.st_size < self.place:
                    self._restart((state.st_dev, state.st_ino))
                file.seek(self.place)
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            self._restart(None)
            return self.rows
        self.place += len(whole) + len(end)
        for line in whole.splitlines():
            self._add(line)
        return self.rows

    def _restart(self, file_id: tuple[int, int] | None) -> None:
        self.rows, self.file_id, self.place, self.damaged = [], file_id, 0, 0

    def _add(self, line: bytes) -> None:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            self.rows.append(row)
        else:
            self.damaged += 1


class Watched:
    """A run whose training is watched: its stage on show (the one that runs, else the latest) and its log."""

    def __init__(self, run: str | Path) -> None:
        self.run = Path(run)
        self.stage, self.state = "", "absent"
        self.follower = Follower(self.run)

    def look(self) -> list[Row]:
        """Look at the run again: sets `stage` and `state`, returns the rows of its log."""
        states = {stage: _state(self.run / stage) for stage in STAGES}
        there = [stage for stage in STAGES if states[stage] != "absent"]
        self.stage = next((s for s in there if states[s] == "running"), next(iter(there), ""))
        self.state = states.get(self.stage, "absent")
        path = self.run / self.stage / "log.jsonl"
        if path.with_name(f"{path.name}.gz").is_file():  # of a run that is kept, and grows no more
            return runs.log_of(path.parent)
        if path != self.follower.path:
            self.follower = Follower(path)
        return self.follower.look() if self.stage else []

    @property
    def ended(self) -> bool:
        """Whether nothing more comes, as far as the run says: after SFT there may be GRPO."""
        return self.state == "failed" or (self.state == "done" and self.stage == STAGES[0])

    def heading(self) -> str:
        """Run, stage and state in words."""
        where = runs.shown_path(self.run)
        if not self.stage:
            return f"{where}: no training has begun"
        damaged = f", {self.follower.damaged} unreadable lines" if self.follower.damaged else ""
        return f"{where}/{self.stage}: {self.state}{damaged}"


def _state(folder: Path) -> str:
    try:
        return runs.status(folder)["status"]
    except ValueError:  # half a file, in a folder that another machine writes
        return "absent"


def latest(rows: Sequence[Row]) -> dict[str, float]:
    """The last value of each signal, by its shown name; signals that the log does not have are left out."""
    found = {}
    for name, (columns, _) in SIGNALS.items():
        if points := _points(rows, columns):
            found[name] = points[-1][1]
    return found


def _points(rows: Sequence[Row], columns: Sequence[str]) -> list[tuple[float, float]]:
    """(step, value) of the first of the columns that the log has."""
    for column in columns:
        points = [
            (row["step"], row[column])
            for row in rows
            if _is_number(row.get(column)) and _is_number(row.get("step"))
        ]
        if points:
            return points
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def samples(rows: Sequence[Row]) -> list[str]:
    """The texts of the last row that has some."""
    found = next((row["samples"] for row in reversed(rows) if row.get("samples")), [])
    return [str(text) for text in found] if isinstance(found, list) else []


def progress(rows: Sequence[Row]) -> str:
    """Step and minutes of the last row."""
    if not rows:
        return "no step is logged yet"
    row = rows[-1]
    minutes = f", {row['minutes']:.1f} min" if _is_number(row.get("minutes")) else ""
    return f"step {row.get('step', '?')}{minutes}"


def line(rows: Sequence[Row]) -> str:
    """The state of a training in one line of text."""
    values = [f"{name} {SIGNALS[name][1].format(value)}" for name, value in latest(rows).items()]
    return "; ".join([progress(rows), *values])


def text(watched: Watched, rows: Sequence[Row]) -> str:
    """The state of a training with samples of completions, as plain text."""
    shown = [f"    {' '.join(boards.visible(sample, 300).split())}" for sample in samples(rows)]
    return "\n".join([watched.heading(), line(rows), *(["samples of completions:", *shown] if shown else [])])


def follow(run: str | Path) -> None:
    """Print a line whenever the training of a run has logged something, until it ends; Ctrl-C stops."""
    watched = Watched(run)
    said = ""
    while True:
        rows = watched.look()
        now = f"{watched.stage or watched.heading()} {line(rows)}"
        if now != said:
            print(now, flush=True)
            said = now
        if watched.ended:
            print(text(watched, rows), flush=True)
            return
        time.sleep(LOOK)


def html(watched: Watched, rows: Sequence[Row]) -> str:
    """The same with a small curve for each signal."""
    values = latest(rows)
    curves = []
    for name, value in values.items():
        columns, written = SIGNALS[name]
        curves.append(_curve(name, written.format(value), _points(rows, columns)))
    shown = "".join(boards.text_html(sample) for sample in samples(rows))
    written = f"<div><b>Samples of completions</b></div>{shown}" if shown else ""
    return (
        f"<div><b>{escape(watched.heading())}</b></div><div>{escape(progress(rows))}</div>"
        f'<div class="cards">{"".join(curves)}</div>{written}'
    )


def _curve(name: str, value: str, points: Sequence[tuple[float, float]]) -> str:
    every = max(1, len(points) // POINTS)
    kept = [*points[:-1:every], points[-1]]
    steps, values = zip(*kept, strict=True)
    first, last, low, high = min(steps), max(steps), min(values), max(values)
    places = [
        (
            WIDTH * (x - first) / ((last - first) or 1),
            HEIGHT - 6 - (HEIGHT - 12) * (y - low) / ((high - low) or 1),
        )
        for x, y in kept
    ]
    drawn = element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places))
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">{drawn}</svg>'
    span = f'<div class="note">{low:.3g} to {high:.3g}, steps {first:g} to {last:g}</div>'
    return boards.card_html(f"<div>{escape(name)} <b>{escape(value)}</b></div>", picture + span)


def watch_widget(run: str | Path) -> Any:
    """Follow the training of a run folder in a notebook; without a front end its state as a static table.

    Use it in another notebook than the one that trains: a kernel answers nobody while a cell runs. It asks
    for news every two seconds while it is on show, also after the end: the next stage or a resume may come.
    """
    watched = Watched(runs.project_path(run))

    def state() -> dict[str, Any]:
        return {"html": html(watched, watched.look())}

    if not widgets.has_front_end():
        return widgets.show(state()["html"])

    def answer(board: Any, message: dict[str, Any]) -> None:
        board.data = state()

    return widgets.widget("watch", state(), answer)
