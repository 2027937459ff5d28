"""Tables of evaluated runs: on the terminal, as Markdown, and in the README between two markers.

A run is read from `<run>/04_eval/`: the rules in `config.yaml`, the digest and the flat metrics in
`metrics.json`, and `games.jsonl` where it is kept (its games must give the metrics again). Runs
played under different rules never share a table.
"""

import gzip
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wordlelib import analysis, evaluate, inference, recipes, scoring, sweep_results
from wordlelib.data import CARD, played_in
from wordlelib.evaluate import COMPARISONS, games_file
from wordlelib.params import PLAYERS
from wordlelib.rules import Rules, require_same_rules
from wordlelib.runs import (
    finished_stage,
    read_json,
    read_yaml,
    replacing_folder,
    require_complete_notebook,
    shown_path,
    write_text,
)
from wordlelib.solver import POLICIES

STAGE = "04_eval"
START, END = "<!-- results:start -->", "<!-- results:end -->"
SPLITS = {"all": "All secrets", "heldout": "Held-out secrets", "train": "Training secrets"}
REFERENCE_TITLE = """# Results of the runs kept here

Every number is read from the files of its folder; `python -m wordlelib report --readme` writes this page,
and a test fails when the two disagree.
"""
SECRETS_SHOWN = 50
MARKS = {"preplayed": "pre-played turns", "retries": "retries", "discarded": "best of several games"}
KEPT = (
    *("*/*.ipynb", "*/*.yaml", "*/*.json", "*/*.csv", "*/log.jsonl", "*/games.jsonl*"),
    *("*/control/log.jsonl", "*/figures/*.svg"),
)
KEPT_OF_TRIALS = ("config.yaml", "environment.json", "metrics.json", "status.json")
KEPT_OF_COMPARED = ("card.json", "log.jsonl", "games.jsonl*")

SIGNALS = ("03_grpo/frac_reward_zero_std", "03_grpo/top_guess_share")
EFFECTS_NOTE = (
    "Mean at a value less the mean at the first, over all other settings. Intervals from trials are a "
    "bootstrap over three or more trials a side; those from games are Newcombe's, and do not see "
    "how much two runs of the same settings differ."
)

UNTRAINED = {"untrained", *POLICIES, "optimal"}  # players that nobody trained

Row = list[str]


class Evaluated(NamedTuple):
    """One run: its folder, rules, flat metrics, and the games of each player (none without games.jsonl)."""

    folder: Path
    rules: Rules
    metrics: dict[str, Any]
    games: dict[str, analysis.Games]

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
    if "rules" not in config:
        raise ValueError(f"{shown_path(stage)}/config.yaml names no rules: run notebook {STAGE} again")
    rules = Rules.from_dict(config["rules"])
    if metrics.get("rules") != rules.digest:
        raise ValueError(
            f"{shown_path(stage)}: metrics.json was made under rules {metrics.get('rules')}, but config.yaml "
            f"gives {rules.digest}: run notebook {STAGE} again"
        )
    path = games_file(stage)
    games = _checked_games(path, rules, metrics) if path else {}
    return Evaluated(Path(folder).resolve(), rules, metrics, games)


def read_runs(folders: Iterable[str | Path]) -> list[Evaluated]:
    """Runs that may stand in one table. Raises ValueError as `read_run` does, without any run, when the rules
    of two differ, naming the fields, and when their data cards split the secrets differently."""
    runs = [read_run(folder) for folder in folders]
    if not runs:
        raise ValueError("no run folder is given: name at least one")
    for run in runs[1:]:
        where = f"{shown_path(runs[0].folder)} and {shown_path(run.folder)}"
        require_same_rules(runs[0].rules, run.rules, where)
    require_same_split([run for run in runs if _has_card(run)])
    return runs


def _has_card(run: Evaluated) -> bool:
    return (run.folder / "01_data_synthesis" / CARD).is_file()


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


def _checked_games(path: Path, rules: Rules, metrics: dict[str, Any]) -> dict[str, analysis.Games]:
    """The games of games.jsonl, once they are seen to give the same metrics; of other games than Wordle none,
    since they have no letters to analyse."""
    wordle = rules.game == Rules.game
    if wordle:
        groups, measure = analysis.read(path, rules.digest), analysis.summary
    else:
        groups, measure = evaluate.by_player(evaluate.read_games(path, rules)), evaluate.summarise
    named = {key.split("/")[0] for key in metrics if key.endswith("/all/games")} - {"optimal"}
    if lost := sorted(named - set(groups)):
        raise ValueError(f"{shown_path(path)} lacks the games of {lost[0]!r}: run notebook {STAGE} again")
    for player, own in groups.items():
        for name, value in measure(own).items():
            if metrics.get(key := f"{player}/all/{name}") != value:
                raise ValueError(
                    f"{shown_path(path)} gives {key} = {value}, but metrics.json says {metrics.get(key)}: "
                    f"run notebook {STAGE} again"
                )
    return groups if wordle else {}


def terminal_table(paths: Iterable[str | Path]) -> str:
    """The tables of one or more run folders as aligned text.

    Raises ValueError as `read_run` does, and when the rules of two runs differ, naming the fields.
    """
    return _report(read_runs(paths), aligned, secrets=True)


def markdown(paths: Iterable[str | Path]) -> str:
    """The tables of `terminal_table` as Markdown; same errors."""
    return _report(read_runs(paths), piped, secrets=True)


def keep_run(run: str | Path, reference: str | Path) -> Path:
    """Copy what is evidence of a finished run to `<reference>/<its name>`, and return that folder.

    Kept: executed notebooks, configs, environments, metrics, logs, the data card and traces, games
    (gzipped), and figures as SVG. Left out: weights, checkpoints, training rows, and the plotting
    library. A kept run of the same name is replaced. Raises ValueError unless every notebook ran to its
    end.
    """
    source = read_run(run).folder
    for notebook in source.glob("*/*.ipynb"):
        require_complete_notebook(notebook)
    target = Path(reference) / source.name
    with replacing_folder(target) as temporary:
        _copy(source, KEPT, temporary)
        _pack_games(temporary / STAGE)
    return target


def _pack_games(stage: Path) -> None:
    """Compress the games of an evaluation: text of a model shrinks to a tenth."""
    games = games_file(stage)
    if games and games.suffix != ".gz":
        packed = gzip.compress(games.read_bytes(), mtime=0)  # no time in it: the same games, the same file
        games.with_name("games.jsonl.gz").write_bytes(packed)
        games.unlink()


def keep_sweep(sweep: str | Path, reference: str | Path) -> Path:
    """Copy what is evidence of a sweep to `<reference>/<its name>`, and return that folder.

    Kept: its file, table and figures (as SVG), and the configs, environments, metrics and statuses of its
    trials, failed ones included; and data cards, logs and games (gzipped) where a row is the reference of the
    others. Notebooks and all else of a trial are kept by `keep_run` on the trial.
    A kept sweep of the same name is replaced. Raises ValueError for one of which no trial is done.
    """
    source = Path(sweep).resolve()
    sweep_results.best_trial(source)
    rows = sweep_results.read_table(source)
    compared = KEPT_OF_COMPARED if sweep_results.reference_rows(rows) else ()
    patterns = [f"{row['trial']}/*/{name}" for row in rows for name in (*KEPT_OF_TRIALS, *compared)]
    target = Path(reference) / source.name
    with replacing_folder(target) as temporary:
        _copy(source, ("sweep.yaml", sweep_results.TABLE, "figures/*.svg", *patterns), temporary)
        for stage in temporary.glob(f"*/{STAGE}"):
            _pack_games(stage)
    return target


def _copy(source: Path, patterns: Iterable[str], target: Path) -> None:
    """Copy the files that match to the same places in another folder; links become what they point to."""
    for path in sorted(path for pattern in patterns for path in source.glob(pattern)):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def update_readme(readme: str | Path, reference: str | Path) -> None:
    """Put a short table of all runs under the folder `reference` between the two markers of a README, and
    the full ones into `<reference>/README.md`.

    Runs under the same rules share a table; each row names its folder and the command that repeats
    it. Raises ValueError as `read_run` does, and when a marker is missing.
    """
    for page, text in _pages(Path(readme), Path(reference)).items():
        write_text(page, text)


def check_readme(readme: str | Path, reference: str | Path) -> None:
    """Raise ValueError unless the README and the page of full tables say what the files say."""
    for page, text in _pages(Path(readme), Path(reference)).items():
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            raise ValueError(
                f"{shown_path(page)} and the files under {shown_path(reference)} disagree: "
                "update it with `python -m wordlelib report --readme`"
            )


def _pages(readme: Path, reference: Path) -> dict[Path, str]:
    """The README with its short table, and the page of full tables beside the runs."""
    groups = _reference_runs(reference)
    short = "\n\n".join(map(_summary, groups)) or "No reference run is kept yet."
    full = "\n\n".join(_report(runs, piped, commands=True) for runs in groups)
    pages = {readme: with_part(readme, START, END, short)}
    return pages | ({reference / "README.md": f"{REFERENCE_TITLE}\n{full}\n"} if groups else {})


def with_part(path: str | Path, start: str, end: str, body: str) -> str:
    """The text of a page with `body` between its markers; raises ValueError when one is missing."""
    text = Path(path).read_text(encoding="utf-8")
    before, started, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not (started and ended):
        raise ValueError(f"{shown_path(path)} lacks the markers {start} and {end}")
    return f"{before}{start}\n{body}\n{end}{after}"


def _reference_runs(reference: Path) -> list[list[Evaluated]]:
    """The kept runs, those under the same rules together."""
    groups: dict[str, list[Evaluated]] = {}
    for stage in sorted(reference.glob(f"**/{STAGE}")):
        if sweep_results.is_sweep(stage.parent.parent):
            continue  # its trials have a table of their own
        run = read_run(stage.parent)
        groups.setdefault(run.rules.digest, []).append(run)
    return list(groups.values())


def _summary(runs: Sequence[Evaluated]) -> str:
    """One table of all and held-out secrets, whose rows point to their folder and command; paired tests."""
    loss = _loss_title(runs[0].rules)
    header = ["player", "wins, all", "95% interval", loss, "non-words"]
    header += ["wins, held out", "95% interval", loss, "run"]
    rows = []
    for number, run in enumerate(runs, 1):
        for player in players(run, "all"):
            everything, unseen = _row(run, player, "all"), _row(run, player, "heldout")
            shown = [everything[name] for name in ("player", "wins", "95% interval", loss, "non-words")]
            shown += [unseen[name] for name in ("wins", "95% interval", loss)]
            rows.append([*shown, f"[{number}]"])
    commands = [
        f"- [{number}] `{shown_path(run.folder)}`, repeated by `{recipes.command(run.folder)}`"
        for number, run in enumerate(runs, 1)
    ]
    blocks = [rules_line(runs[0].rules), piped([header, *rows]), "\n".join(commands)]
    return "\n\n".join(blocks + _paired(runs, ("all", "heldout")))


def _report(
    runs: Sequence[Evaluated],
    table: Callable[[list[Row]], str],
    secrets: bool = False,
    commands: bool = False,
) -> str:
    """Rules, one table a split, paired tests. secrets: list them, and show training secrets apart. commands:
    add a column."""
    repeat = {run.folder: {"repeat with": f"`{recipes.command(run.folder)}`"} for run in runs if commands}
    blocks = [rules_line(runs[0].rules)]
    for split, title in SPLITS.items():
        rows = [
            _row(run, player, split) | repeat.get(run.folder, {})
            for run in runs
            for player in players(run, split)
        ]
        if rows and (secrets or split != "train"):
            blocks.append(f"{title}:\n\n{table([list(rows[0]), *(list(row.values()) for row in rows)])}")
    blocks.append(
        "Wins with Wilson's 95% interval. Malformed, non-words and inconsistent guesses (legal, but against "
        "the feedback) are shares of the turns taken."
    )
    blocks += _paired(runs)
    if commands and (other := [line for run in runs for line in _scoring_lines(run)]):
        blocks.append("\n".join(["The same recorded games under scoring rules of others:", "", *other]))
    if used := [line for run in runs for line in usage_lines(run)]:
        blocks.append("\n".join(used))
    if secrets:
        blocks += [_secrets_line(run) for run in runs if run.secrets]
    return "\n\n".join(blocks)


def rules_line(rules: Rules) -> str:
    """The rules and the word lists in one sentence."""
    if rules.game != Rules.game:
        return f"Rules {rules.digest}: {rules.game}, {rules.turns} turns; tasks {rules.answers_sha256[:8]}."
    return (
        f"Rules {rules.digest}: {rules.length} letters, {rules.turns} turns, hard mode "
        f"{'on' if rules.hard_mode else 'off'}; lists {rules.answers_sha256[:8]} (answers) and "
        f"{rules.allowed_sha256[:8]} (allowed)."
    )


def players(run: Evaluated, split: str) -> list[str]:
    """The players with games in `split`, in the order of the stages; best possible play comes last."""
    found = {key.split("/")[0] for key in run.metrics if key.endswith(f"/{split}/win_rate")}
    others = sorted(found - {*PLAYERS, "optimal"})
    return [name for name in (*PLAYERS, *others, "optimal") if name in found]


def _row(run: Evaluated, player: str, split: str) -> dict[str, str]:
    """Title of a column to its cell."""

    def value(name: str) -> float | None:
        return run.metrics.get(f"{player}/{split}/{name}")

    low = value("win_rate_low")
    return {
        "player": player + marks({name: value(name) for name in MARKS}),
        "games": _number(value("games"), ","),
        "wins": _number(value("win_rate"), ".1%"),
        "95% interval": "–" if low is None else f"{low:.1%} to {value('win_rate_high'):.1%}",
        "guesses (won)": _number(value("mean_guesses_won"), ".2f"),
        _loss_title(run.rules): _number(value("mean_guesses_loss7"), ".2f"),
        "malformed": _number(value("malformed_share"), ".1%"),
        "non-words": _number(value("nonword_share"), ".1%"),
        "inconsistent": _number(value("inconsistent_share"), ".1%"),
        "folder": shown_path(run.folder),
    }


def _loss_title(rules: Rules) -> str:
    return f"guesses (loss = {rules.turns + 1})"


def marks(easier: Mapping[str, float | None]) -> str:
    """What made a player's games easier than the strict rules (`evaluate.CONDITIONS`), as a remark."""
    said = [text for name, text in MARKS.items() if easier.get(name)]
    return f" ({', '.join(said)})" if said else ""


def _number(value: float | None, style: str) -> str:
    return "–" if value is None else format(value, style)


def _paired(runs: Sequence[Evaluated], splits: Iterable[str] = SPLITS) -> list[str]:
    """The paired tests of all runs below a line that says what they are; nothing where none was made."""
    lines = [line for run in runs for line in _paired_lines(run, splits)]
    said = (
        "Paired on the same secrets; p-values are corrected by Holm's method for the tests of a run on them:"
    )
    return [said, "\n".join(lines)] if lines else []


def _paired_lines(run: Evaluated, splits: Iterable[str]) -> list[str]:
    """What GRPO changed against its comparisons on the same secrets, one line a pair and split.

    The p-values are corrected by Holm's method for the tests of their split.
    """
    lines = []
    for split in splits:
        tests = {pair: test for pair in COMPARISONS if (test := _paired_test(run, *pair, split))}
        corrected = iter(
            inference.holm([test[p] for test in tests.values() for p in ("wins_p", "guesses_p")])
        )
        for (player, other), test in tests.items():
            test |= {"wins_p": next(corrected), "guesses_p": next(corrected)}
            lines.append(
                f"- {player} against {other} in {shown_path(run.folder)}, {SPLITS[split].lower()}: won "
                f"{test['wins_gained']} games that {other} lost, lost {test['wins_lost']} it won "
                f"({p_value(test['wins_p'])}, exact McNemar); {test['guesses_change']:+.2f} guesses a "
                f"game ({p_value(test['guesses_p'])}, exact sign flips)." + _doubt(run, player, split, test)
            )
    return lines


def _paired_test(run: Evaluated, player: str, other: str, split: str) -> dict[str, Any]:
    """The metrics of one paired comparison by their short names, empty where it was not made."""
    prefix = f"{player}/{split}/vs_{other}_"
    return {k.removeprefix(prefix): v for k, v in run.metrics.items() if k.startswith(prefix)}


def _doubt(run: Evaluated, player: str, split: str, test: Mapping[str, Any]) -> str:
    """A sentence for wins that decide nothing, with the number of games that would."""
    gained, lost, games = test["wins_gained"], test["wins_lost"], run.metrics[f"{player}/{split}/games"]
    interval = inference.mean_interval([1] * gained + [-1] * lost + [0] * (games - gained - lost))
    if inference.decides(interval) and test["wins_p"] < 1 - inference.LEVEL:
        return ""
    needed = inference.games_needed(gained, lost, games)
    return " The wins decide nothing" + (f"; about {needed:,} games would." if needed else ".")


def _scoring_lines(run: Evaluated) -> list[str]:
    """What the rules of `scoring` make of each trained player's games, and a line on what that changes."""
    trained = [name for name in PLAYERS if name in run.games and name not in UNTRAINED]
    train = played_in(run.folder).split.train if _has_card(run) else ()
    counted = {name: scoring.rates(run.games[name], train) for name in trained}
    if not counted:
        return []
    lines = []
    for name, rates in counted.items():
        shares = [f"*{rate.rule}* {rate.value:.1%}" for rate in rates if rate.value is not None]
        lines.append(f"- {name} in {shown_path(run.folder)}: {', '.join(shares)}.")
    return [*lines, f"- {scoring.farthest(counted)}"]


def usage_lines(run: Evaluated) -> list[str]:
    """What a model behind an endpoint is, and what its games took."""
    used = {k.removeprefix("endpoint/"): v for k, v in run.metrics.items() if k.count("/") == 1}
    if "model" not in used:
        return []
    return [
        f"- endpoint in {shown_path(run.folder)} is {used['model']}: a game took "
        f"{_number(used['prompt_tokens_per_game'], ',.0f')} prompt and "
        f"{_number(used['completion_tokens_per_game'], ',.0f')} completion tokens and "
        f"{used['seconds_per_game']:,.1f} s; {used['requests']:,} requests with {used['retries']:,} retries; "
        f"failed games, which count as lost: {used['failed_games']:,}."
    ]


def p_value(value: float) -> str:
    """A p-value as it is shown."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _secrets_line(run: Evaluated) -> str:
    secrets = run.secrets
    shown, hidden = secrets[:SECRETS_SHOWN], len(secrets) - SECRETS_SHOWN
    more = f" and {hidden:,} more in {shown_path(run.folder)}/{STAGE}/games.jsonl" if hidden > 0 else ""
    return f"Secrets of {shown_path(run.folder)} ({len(secrets):,}): {', '.join(shown)}{more}."


def aligned(rows: list[Row]) -> str:
    """Rows of texts as columns; the first is their header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)]
        # names stand left, numbers right
        cells[0], cells[-1] = f"{row[0]:<{widths[0]}}", row[-1]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def sweep_report(folder: str | Path, markdown: bool = False) -> str:
    """The tables and sentences of `sweep_parts` as one text; same errors."""
    tables, said = sweep_parts(folder)
    if markdown:
        blocks = [f"{caption}:\n\n{piped(rows)}" for caption, rows in tables.items()]
        return "\n\n".join(blocks + said)
    blocks = [f"{caption}:\n\n{aligned(rows)}" for caption, rows in tables.items()]
    return "\n\n".join(blocks + [line.replace("`", "") for line in said])


def sweep_parts(folder: str | Path) -> tuple[dict[str, list[Row]], list[str]]:
    """What the `sweep.csv` of a sweep says: tables of trials and of effects, each below its header, and
    sentences on the best trial.

    Raises ValueError naming a sweep of which no trial has ended.
    """
    folder = Path(folder)
    rows = sweep_results.read_table(folder)
    if not rows:
        raise ValueError(
            f"{shown_path(folder / sweep_results.TABLE)} has no row: no trial of this sweep has ended"
        )
    settings = sweep_results.settings_of(rows)
    metrics = [name for name in rows[0] if "/" in name and not name.startswith("0")]
    metrics = [name for name in metrics if name.split("/")[-1] != "games"]
    if "grpo" in {name.split("/")[0] for name in metrics}:
        metrics = [name for name in metrics if name.startswith("grpo/")]
    columns = [*settings, "status", "minutes", *metrics]
    columns += [name for name in rows[0] if name in ("03_grpo/final_reward", *SIGNALS)]
    short = [name.partition(".")[2] or name for name in columns]
    header = [name if short.count(own) > 1 else own for name, own in zip(columns, short, strict=True)]
    body = [[_cell(row[name]) for name in columns] + [row["trial"]] for row in rows]
    tables, sentences = {"Trials": [[*header, "trial"], *body]}, []
    try:
        metric = sweep_results.objective(rows)
    except ValueError as error:
        return tables, [f"Nothing to compare: {error}."]
    if found := sweep_results.effects(rows, metric):
        tables[f"Effect on {metric}"] = _effect_rows(found)
        sentences.append(EFFECTS_NOTE)
    winner = sweep_results.best(rows, metric)
    number = len(sweep_results.measured(rows, metric))
    said = f"Best of {number} by {metric}: {winner['trial']}, {_cell(winner[metric])}."
    if number > 1:
        said += " Being chosen flatters it: repeat it with other seeds before you report its number."
    sentences.append(said)
    if (trial := folder / winner["trial"]).is_dir():
        sentences.append(f"Repeat it with: `{recipes.command(trial)}`")
    return tables, sentences


def sweep_figures(folder: str | Path) -> list[Path]:
    """Draw the figures of a sweep from its `sweep.csv` into `figures/`; the paths of the pages.

    None while fewer than two trials can be compared.
    """
    from wordlelib import plots

    folder = Path(folder)
    figures = plots.sweep_figures(sweep_results.read_table(folder))
    return [plots.save(figure, folder / "figures", name)[0] for name, figure in figures.items()]


def _effect_rows(found: list[dict[str, Any]]) -> list[Row]:
    header = ["setting", "value", "against", "difference", "95% interval", "trials", "interval from"]
    rows = [
        [
            *(row["setting"], row["value"], row["against"], f"{row['difference']:+.3f}"),
            "–" if row["low"] is None else f"{row['low']:+.3f} to {row['high']:+.3f}",
            *(str(row["trials"]), row["interval"] or "–"),
        ]
        for row in found
    ]
    return [header, *rows]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def rows_table(rows: Sequence[dict[str, Any]]) -> str:
    """Dictionaries of the same keys as a Markdown table: numbers to two decimals, texts as code."""
    cells = [
        [f"{v:.2f}" if isinstance(v, float) else f"`{v}`" * bool(v) for v in row.values()] for row in rows
    ]
    return piped([list(rows[0]), *cells])


def piped(rows: list[Row]) -> str:
    """Rows of texts as a Markdown table; the first is its header."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"| {' | '.join(['---'] * len(rows[0]))} |")
    return "\n".join(lines)
