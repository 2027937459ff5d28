"""Ablations: the trials of a sweep against the row that its file names as the reference.

A row is a setting, named as the first of its trials, which differ in their seeds alone. Each trial is
compared with the reference of its seed on the secrets that both played, by the tests of `inference`.
Everything is read from `sweep.csv` and from the metrics, games and logs of the trials; a trial that failed
stays as a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from wordlelib import (
    analysis,
    findings,
    inference,
    plots,
    plots_analysis,
    recipes,
    report,
    runs,
    sweep_results,
)
from wordlelib.analysis import Games
from wordlelib.comparisons import comparison_row, corrected, with_interval
from wordlelib.evaluations import STAGE, read_run
from wordlelib.findings import Section
from wordlelib.params import PLAYERS
from wordlelib.report import UNTRAINED
from wordlelib.rules import require_same_rules
from wordlelib.runs import log_of, read_yaml, shown_path
from wordlelib.sweep_results import Row
from wordlelib.trials import WITHIN_A_ROW

REFERENCE = "reference"


class Measured(NamedTuple):
    """A player of a trial: which row of the table it belongs to, its seeds, its line of `sweep.csv`.

    games, metrics: None where the trial did not come so far. main: the trial is there for this player, the
    last that it trained; others, such as the SFT that it started from, stand in the table beside it.
    """

    row: str
    seeds: tuple[Any, ...]
    trial: Row
    player: str
    games: Games | None
    main: bool

    @property
    def label(self) -> str:
        seeds = "/".join(dict.fromkeys(map(str, self.seeds)))
        return self.row + (f", seed {seeds}" if seeds else "")


def section(folder: str | Path) -> Section | None:
    """The tables and the forest plot of a sweep; None unless its file names a reference.

    Raises ValueError for trials that played other games, naming the field; how the game is shown may differ.
    """
    folder = Path(folder)
    rows = sweep_results.read_table(folder)
    if not sweep_results.reference_rows(rows):
        return None
    changed = _changes(rows)
    found = list(_measured(folder, rows, changed))
    pairs = _compared(found)
    p_values = corrected(pairs)
    tables = {"What each row gave": [_gave(folder, own) for own in found]}
    if pairs:
        tables[f"Against the reference, p-values by Holm's method over {2 * len(pairs)} tests"] = [
            comparison_row((found[place].label, REFERENCE), pair, p_values[place])
            for place, pair in pairs.items()
        ]
    tables["Where, and how to repeat it"] = [_where(folder, row, changed[row["trial"]]) for row in rows]
    claims = _claims(found, pairs, p_values)
    text = "\n\n".join([_about(folder, rows, found), *claims])
    forest = {found[place].label: pair for place, pair in pairs.items()}
    figures = {"forest": plots_analysis.forest(forest)} if pairs else {}
    return Section(f"Against the reference: {folder.name}", text, tables, figures)


def save_figures(section: Section, folder: Path) -> list[Path]:
    """Draw the figures of a section into `<folder>/figures/`; the paths of the pages."""
    return [plots.save(figure, folder / "figures", name)[0] for name, figure in section.figures.items()]


def _measured(folder: Path, rows: Sequence[Row], changed: Mapping[str, str]) -> Iterator[Measured]:
    """Every player of every trial, the models first."""
    names = sweep_results.setting_names(rows)
    seeds = [name for name in names if name.endswith(".seed")]
    labels = {"": REFERENCE}
    first = None
    for row in rows:
        changes = changed[row["trial"]]
        # a trial without a name in its file is named after all of its settings, `=` and the seed among them
        unfit = "=" in row["trial"] or row["trial"] in PLAYERS
        label = labels.setdefault(changes, changes if unfit else row["trial"])
        own = tuple(row[name] for name in seeds)
        run = None
        if row["status"] == "done" and runs.status(folder / row["trial"] / STAGE)["status"] == "done":
            run = read_run(folder / row["trial"])
            first = first or run
            where = f"{shown_path(first.folder)} and {shown_path(run.folder)}"
            require_same_rules(first.rules, run.rules, where, shown=False)
        games = run.games if run else {}
        last = next((name for name in ("grpo", "sft") if name in games), "")
        yield Measured(label, own, row, last, games.get(last), True)
        for player in (name for name in PLAYERS if name in games and name != last):
            said = f"{player}, {label}" if label != REFERENCE else player
            yield Measured(said, own, row, player, games[player], False)


def _row_settings(rows: Sequence[Row]) -> list[str]:
    """The settings that tell the rows of the table apart."""
    return [name for name in sweep_results.settings_of(rows) if name.partition(".")[2] not in WITHIN_A_ROW]


def _listed(row: Row, names: Sequence[str]) -> str:
    return ", ".join(f"{name.partition('.')[2]} {row[name]}" for name in names)


def _changes(rows: Sequence[Row]) -> dict[str, str]:
    """Trial to what makes it another row than the reference; empty for the reference."""
    usual, names = sweep_results.reference_rows(rows)[0], _row_settings(rows)
    return {row["trial"]: _listed(row, [name for name in names if row[name] != usual[name]]) for row in rows}


def _compared(found: Sequence[Measured]) -> dict[int, inference.Comparison]:
    """Place of each trained player in `found` to its comparison with the reference of its seeds."""
    references = [own for own in found if own.main and own.trial.get("reference") and own.games is not None]
    pairs = {}
    for place, own in enumerate(found):
        usual = next((r for r in references if r.seeds == own.seeds), next(iter(references), None))
        if usual is None or own is usual or own.games is None or own.player in UNTRAINED:
            continue
        if own.main and own.trial.get("reference"):
            continue  # another seed of the reference
        # the rules may differ in how the game is shown, which `_measured` has seen
        games = own.games._replace(rules=usual.games.rules)
        if analysis.agree(games, usual.games) is None:
            pairs[place] = analysis.paired(games, usual.games)
    return pairs


def _about(folder: Path, rows: Sequence[Row], found: Sequence[Measured]) -> str:
    usual = sweep_results.reference_rows(rows)[0]
    settings = _listed(usual, _row_settings(rows))
    played = {len(own.games.secret) for own in found if own.games is not None}
    config = folder / usual["trial"] / STAGE / "config.yaml"
    of = read_yaml(config).get("secrets", "") if config.is_file() else ""
    secrets = (
        f"{report.SPLITS.get(of, 'secrets').lower()}, {' or '.join(f'{n:,}' for n in sorted(played)) or 0}"
    )
    return (
        f"The reference has {settings or 'the settings of all trials'}; *Where* says what another row "
        f"changes. A player before the name of a row is one beside it. Played: {secrets}. Wins with Wilson's "
        "95% interval; pairs on the same secrets by McNemar's test and sign flips, with paired bootstrap "
        "intervals. *Games needed* is the number of secrets at which a difference of this size would be seen "
        "four times in five. Zero spread is the share of groups of equal reward in the last quarter of GRPO. "
        "Minutes are those of the trial's own stages that load a model, its control included."
    )


def _gave(folder: Path, own: Measured) -> findings.Row:
    """One player of a trial as a row of texts."""
    row = {"row": own.label, "status": _status(folder, own.trial)}
    if own.games is None:
        played = dict.fromkeys(
            ("games", "wins", "guesses", "non-words", "most frequent guess", "its share"), "–"
        )
    else:
        values = analysis.describe(analysis.measure(own.games))
        word, share = analysis.most_frequent(own.games)
        wins = (values["win_rate_low"], values["win_rate_high"])
        loss7 = values["mean_guesses_loss7_interval"]
        played = {
            "games": f"{values['games']:,}",
            "wins": with_interval(values["win_rate"], wins, ".1%"),
            "guesses": with_interval(values["mean_guesses_loss7"], loss7, ".2f"),
            "non-words": f"{values['nonword_share']:.1%}",
            "most frequent guess": word or "(none)",
            "its share": f"{share:.1%}",
        }
    spread, minutes = own.trial.get("03_grpo/frac_reward_zero_std"), own.trial.get("model_minutes")
    return (
        row
        | played
        | {
            "zero spread": f"{spread:.1%}" if own.main and spread is not None else "–",
            "minutes": f"{minutes:.1f}" if own.main and minutes is not None else "–",
            "warnings (first step)": _warnings(folder / own.trial["trial"]) if own.main else "–",
        }
    )


def _status(folder: Path, trial: Row) -> str:
    """done, or failed with what its stage says."""
    if trial["status"] == "done":
        return "done"
    for stage in sorted((folder / trial["trial"]).glob("*/status.json")):
        with suppress(ValueError):
            if said := runs.read_json(stage).get("error"):
                return f"failed in {stage.parent.name}: {said}"
    return "failed"


def _warnings(trial: Path) -> str:
    """What the GRPO of a trial warned of: name, the first step, and in how many steps."""
    from wordlelib.training import warnings_of

    log = log_of(trial / "03_grpo")
    steps: dict[str, list[int]] = {}
    for row in log:
        for name in warnings_of(row):
            steps.setdefault(name, []).append(row["step"])
    logged = sum("reward" in row for row in log)
    said = [f"{name} (step {own[0]}; {len(own)} of {logged} steps)" for name, own in steps.items()]
    return ", ".join(said) or ("none" if log else "–")


def _where(folder: Path, row: Row, changes: str) -> findings.Row:
    trial = folder / row["trial"]
    whole = any(trial.glob("*/config.yaml"))
    return {
        "trial": row["trial"],
        "changes": changes or "–",
        "folder": shown_path(trial.resolve()),
        "command": recipes.command(trial) if whole else "–",
    }


def _claims(
    found: Sequence[Measured],
    pairs: dict[int, inference.Comparison],
    p_values: dict[int, tuple[float, float]],
) -> list[str]:
    """A sentence on the wins of each row, over all of its seeds."""
    rows: dict[str, list[tuple[inference.Comparison, float]]] = {}
    for place, pair in pairs.items():
        rows.setdefault(found[place].row, []).append((pair, p_values[place][0]))
    return ["\n".join(f"- {_claim(row, own)}" for row, own in rows.items())] if rows else []


def _claim(row: str, own: Sequence[tuple[inference.Comparison, float]]) -> str:
    pairs = [pair for pair, _ in own]
    said = "; ".join(
        f"{pair.wins:+.1%} ({pair.wins_interval[0]:+.1%} to {pair.wins_interval[1]:+.1%})" for pair in pairs
    )
    sure = all(inference.decides(pair.wins_interval) and p < 1 - inference.LEVEL for pair, p in own)
    if sure and len({pair.wins > 0 for pair in pairs}) == 1:
        more = "more" if pairs[0].wins > 0 else "fewer"
        seeds = (
            f"with each of {len(pairs)} seeds"
            if len(pairs) > 1
            else "with its one seed, which is no claim yet"
        )
        return f"{row} wins {more} games than the reference {seeds}: {said}."
    gained, lost, games = (sum(getattr(pair, name) for pair in pairs) for name in ("gained", "lost", "games"))
    needed = inference.games_needed(gained, lost, games)
    many = f" A difference of this size takes about {needed:,} games on each side." if needed else ""
    return f"{row} against the reference decides nothing: {said}.{many}"
