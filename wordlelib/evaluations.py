"""Evaluated runs: read from their folders, and checked against each other before they stand in one table.

A run is read from `<run>/04_eval/`: the rules in `config.yaml`, the digest and the flat metrics in
`metrics.json`, and `games.jsonl` where it is kept (its games must give the metrics again). Runs
played under different rules, or that hold out other secrets, are never compared.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wordlelib import analysis, evaluate
from wordlelib.data import CARD, Data, played_in
from wordlelib.evaluate import games_file
from wordlelib.rules import Rules, require_same_rules
from wordlelib.runs import finished_stage, read_json, read_yaml, shown_path

STAGE = "04_eval"


class Evaluated(NamedTuple):
    """One run: its folder, the parameters of its evaluation, rules, flat metrics, the games of each player
    (none without games.jsonl), and words and split (None without a data card)."""

    folder: Path
    config: dict[str, Any]
    rules: Rules
    metrics: dict[str, Any]
    games: dict[str, analysis.Games]
    data: Data | None

    @property
    def secrets(self) -> list[str]:
        """The secrets played, sorted."""
        return sorted({secret for games in self.games.values() for secret in games.secrets()})


def read_run(folder: str | Path) -> Evaluated:
    """Read the evaluation of a run folder.

    Raises ValueError with one sentence that names the file for an unfinished stage, a half-written
    or missing file, or files that do not belong together.
    """
    stage = finished_stage(Path(folder).resolve(), STAGE)
    for name in ("config.yaml", "metrics.json"):
        if not (stage / name).is_file():
            raise ValueError(f"{shown_path(stage / name)} is missing: run notebook {STAGE} again")
    config, metrics = read_yaml(stage / "config.yaml"), read_json(stage / "metrics.json")
    if not isinstance(metrics, dict):
        raise ValueError(f"{shown_path(stage)}/metrics.json holds no metrics: run notebook {STAGE} again")
    if wrong := [name for name, value in metrics.items() if not _may_be(name, value)]:
        raise ValueError(
            f"{shown_path(stage)}/metrics.json: {wrong[0]} is {metrics[wrong[0]]!r} and no number: run "
            f"notebook {STAGE} again"
        )
    if "rules" not in config:
        raise ValueError(f"{shown_path(stage)}/config.yaml names no rules: run notebook {STAGE} again")
    rules = Rules.from_dict(config["rules"])
    if metrics.get("rules") != rules.digest:
        raise ValueError(
            f"{shown_path(stage)}: metrics.json was made under rules {metrics.get('rules')}, but config.yaml "
            f"gives {rules.digest}: run notebook {STAGE} again"
        )
    path = games_file(stage)
    data = _data(stage.parent)
    games = _checked_games(path, rules, metrics, data) if path else {}
    return Evaluated(stage.parent, config, rules, metrics, games, data)


def _may_be(name: str, value: Any) -> bool:
    """Whether a metric is finite or unknown; names and digests have no player and split before them."""
    if isinstance(value, int | float):
        return math.isfinite(value)
    return value is None or name.count("/") < 2


def _data(folder: Path) -> Data | None:
    try:
        return played_in(folder)
    except (OSError, ValueError):
        if _has_card(folder):
            raise
        return None


def read_runs(folders: Iterable[str | Path]) -> list[Evaluated]:
    """Runs that may stand in one table. Raises ValueError as `read_run` does, without any run, for one given
    twice, when the rules of two differ, naming the fields, and when their data cards split the secrets
    differently."""
    runs = [read_run(folder) for folder in folders]
    if not runs:
        raise ValueError("no run folder is given: name at least one")
    if len({run.folder for run in runs}) < len(runs):
        raise ValueError("a run is given twice: name each run once")
    for run in runs[1:]:
        where = f"{shown_path(runs[0].folder)} and {shown_path(run.folder)}"
        require_same_rules(runs[0].rules, run.rules, where)
    require_same_split([run for run in runs if _has_card(run.folder)])
    return runs


def _has_card(folder: Path) -> bool:
    return (folder / "01_data_synthesis" / CARD).is_file()


def require_same_split(runs: Sequence[Evaluated]) -> None:
    """Raise ValueError when runs hold out other secrets: one's training secrets would test the other."""
    if len(runs) < 2:
        return
    splits = [played_in(run.folder).split for run in runs]
    for run, split in zip(runs, splits, strict=True):
        if any(set(own) != set(theirs) for own, theirs in zip(splits[0], split, strict=True)):
            raise ValueError(
                f"{shown_path(runs[0].folder)} and {shown_path(run.folder)} split the secrets differently: "
                "training secrets of one are held out in the other; compare runs on the same data card"
            )


def _checked_games(
    path: Path, rules: Rules, metrics: dict[str, Any], data: Data | None
) -> dict[str, analysis.Games]:
    """The games of games.jsonl, once they are seen to be whole and to give the same metrics, on each part of
    the split too; of other games than Wordle none, since they have no letters to analyse."""
    wordle = rules.game == Rules.game
    if wordle:
        groups, measure = analysis.read(path, rules.digest), analysis.summary
    else:
        groups, measure = evaluate.by_player(evaluate.read_games(path, rules)), evaluate.summarise
    named = {key.split("/")[0] for key in metrics if key.endswith("/all/games")} - {"optimal"}
    if lost := sorted(named - set(groups)):
        raise ValueError(f"{shown_path(path)} lacks the games of {lost[0]!r}: run notebook {STAGE} again")
    for player, games in groups.items():
        parts = {"all": games}
        if wordle:
            _require_whole(games, rules, path)
        if wordle and data is not None and data.rules.digest == rules.digest:
            split = {"train": data.split.train, "heldout": data.split.test}
            parts |= {name: analysis.part_of(games, secrets) for name, secrets in split.items()}
        for part, own in parts.items():
            for name, value in measure(own).items() if part == "all" or len(own.secret) else ():
                if metrics.get(key := f"{player}/{part}/{name}") != value:
                    raise ValueError(
                        f"{shown_path(path)} gives {key} = {value}, but metrics.json says "
                        f"{metrics.get(key)}: run notebook {STAGE} again"
                    )
    return groups if wordle else {}


def _require_whole(games: analysis.Games, rules: Rules, path: Path) -> None:
    """Raise ValueError for a game that goes on after it was won, or that ends lost with turns left: it would
    count fewer guesses than a loss has."""
    number = analysis.won_in(games)
    torn = games.length != np.where(number > 0, number, rules.turns)
    if torn.any():
        first = int(np.argmax(torn))
        raise ValueError(
            f"{shown_path(path)}: the game of {games.player!r} on {games.words[games.secret[first]]!r} has "
            f"{games.length[first]} turns, and {number[first] or rules.turns} would end it: run notebook "
            f"{STAGE} again"
        )
