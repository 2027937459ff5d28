"""Which players of which runs are compared, and what a comparison says as a row of texts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wordlelib import inference
from wordlelib.inference import Comparison
from wordlelib.runs import read_yaml

PLANNED = "GRPO against its comparisons"
# Which tests are corrected together, on every page alike: what else stands on it changes no p-value of a run.
FAMILIES = (
    "p-values are corrected by Holm's method for all tests, of wins and of guesses, of one family on one "
    f"split. A family is {PLANNED} (SFT, and SFT continued) in one run, all other pairs of one run, or all "
    "players of different runs."
)

# Parameters by which two runs of one recipe may differ: what is drawn, and where it is written.
SEED_ONLY = {"seed", "run", "runs", "overwrite", "resume"}


def recipe_key(folder: Path) -> str:
    """What a run was made with, its seeds left out: equal for runs of one recipe, which are points of a range
    and no rivals."""
    configs = {path.parent.name: read_yaml(path) for path in sorted(folder.glob("0[1-4]*/config.yaml"))}
    return json.dumps(
        {stage: {k: v for k, v in own.items() if k not in SEED_ONLY} for stage, own in configs.items()},
        sort_keys=True,
        default=str,
    )


def corrected(pairs: Mapping[Any, Comparison]) -> dict[Any, tuple[float, float]]:
    """The p-values of each comparison, of wins and of guesses, after Holm's method over all of them."""
    values = iter(inference.holm([p for pair in pairs.values() for p in (pair.wins_p, pair.guesses_p)]))
    return {key: (next(values), next(values)) for key in pairs}


def comparison_row(
    names: tuple[str, str], pair: Comparison, p_values: tuple[float, float], difference: float | None = None
) -> dict[str, str]:
    """One comparison as a row of texts. p_values: of wins and of guesses, after the correction. difference:
    of win rates that is asked about (a share), as for `inference.outcome`."""
    needed = inference.games_needed(pair.gained, pair.lost, pair.games, difference)
    return {
        "first": names[0],
        "second": names[1],
        "games": f"{pair.games:,}",
        "only first won": f"{pair.gained:,}",
        "only second won": f"{pair.lost:,}",
        "wins": with_interval(pair.wins, pair.wins_interval, "+.1%"),
        "p (wins)": p_value(p_values[0]),
        "guesses": with_interval(pair.guesses, pair.guesses_interval, "+.2f"),
        "p (guesses)": p_value(p_values[1]),
        "decides": inference.outcome(pair, p_values[0], difference),
        "games needed": "–" if needed is None else f"{needed:,}",
    }


def p_value(value: float) -> str:
    """A p-value as it is shown."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def with_interval(value: float | None, interval: tuple[float, float] | None, style: str) -> str:
    """A number with its interval; – where it is unknown."""
    shown = "–" if value is None else format(value, style)
    if value is None or interval is None or None in interval:
        return shown
    return f"{shown} ({interval[0]:{style}} to {interval[1]:{style}})"
