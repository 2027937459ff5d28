"""Tables of evaluated runs: on the terminal, as Markdown, and in the README between two markers.

A run is read from `<run>/04_eval/`: the rules in `config.yaml`, the digest and the flat metrics in
`metrics.json`, and `games.jsonl` where it is kept (its games must give the metrics again). Runs
played under different rules never share a table.
"""

import gzip
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from wordlelib import analysis, evaluate, inference, recipes, scoring, sweep_results
from wordlelib.comparisons import comparison_row, corrected, p_value, recipe_key, with_interval
from wordlelib.data import CARD, Data, iter_jsonl, played_in
from wordlelib.evaluate import COMPARISONS, games_file
from wordlelib.params import PLAYERS
from wordlelib.players import FAILED
from wordlelib.prompts import printable
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
from wordlelib.solver import POLICIES, solver_for

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

FAILURES = "Games of a server that failed, by the reason"
REASON = 120  # characters of a reason that are shown

UNTRAINED = {"untrained", *POLICIES, "optimal"}  # players that nobody trained

Row = list[str]


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
    return Evaluated(stage.parent, config, rules, metrics, games, _data(stage.parent))


def _data(folder: Path) -> Data | None:
    try:
        return played_in(folder)
    except (OSError, ValueError):
        if _has_card(folder):
            raise
        return None


def read_runs(folders: Iterable[str | Path]) -> list[Evaluated]:
    """Runs that may stand in one table. Raises ValueError as `read_run` does, without any run, when the rules
    of two differ, naming the fields, and when their data cards split the secrets differently."""
    runs = [read_run(folder) for folder in folders]
    if not runs:
        raise ValueError("no run folder is given: name at least one")
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


def terminal_table(paths: Iterable[str | Path], difference: float = inference.DIFFERENCE) -> str:
    """The tables of one or more run folders as aligned text. difference: of win rates that paired tests are
    asked about (a share).

    Raises ValueError as `read_run` does, and when the rules of two runs differ, naming the fields.
    """
    return _report(read_runs(paths), aligned, difference, secrets=True)


def markdown(paths: Iterable[str | Path], difference: float = inference.DIFFERENCE) -> str:
    """The tables of `terminal_table` as Markdown; same errors."""
    return _report(read_runs(paths), piped, difference, secrets=True)


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
    blocks += _paired(runs, ("all", "heldout"), inference.DIFFERENCE)
    return "\n\n".join([*blocks, "\n".join(remarks(runs))]).rstrip()


def _report(
    runs: Sequence[Evaluated],
    table: Callable[[list[Row]], str],
    difference: float = inference.DIFFERENCE,
    secrets: bool = False,
    commands: bool = False,
) -> str:
    """Rules, one table a split, paired tests. secrets: list them, show training secrets apart, and compare
    players of different runs. commands: add a column."""
    repeat = {run.folder: {"repeat with": f"`{recipes.command(run.folder)}`"} for run in runs if commands}
    forgone = {run.folder: _forgone(run) for run in runs}
    blocks = [rules_line(runs[0].rules)]
    for split, title in SPLITS.items():
        rows = [
            _row(run, player, split, forgone[run.folder]) | repeat.get(run.folder, {})
            for run in runs
            if secrets or split != "train"
            for player in players(run, split)
        ]
        if rows:
            blocks.append(f"{title}:\n\n{_table_of(rows, table)}")
    blocks.append(
        "Wins with Wilson's 95% interval. Malformed, non-words and inconsistent guesses (legal, but against "
        "the feedback) are shares of the turns taken. Above the best: guesses beyond best possible play, a "
        "game and in all. Bits forgone: what the best guess of the same state was expected to give beyond "
        f"the one made, in a sample of {analysis.SAMPLE} games at most."
    )
    blocks += _paired(runs, SPLITS, difference)
    if secrets and len(runs) > 1:
        blocks += _across(runs, difference, table)
    if commands and (other := [line for run in runs for line in _scoring_lines(run)]):
        blocks.append("\n".join(["The same recorded games under scoring rules of others:", "", *other]))
    if said := remarks(runs):
        blocks.append("\n".join(said))
    if failed := failures(runs):
        text = cell if table is piped else str
        shown = [{title: text(value) for title, value in row.items()} for row in failed]
        blocks.append(f"{FAILURES}:\n\n{_table_of(shown, table)}")
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


def _table_of(rows: Sequence[Mapping[str, str]], table: Callable[[list[Row]], str]) -> str:
    return table([list(rows[0]), *(list(row.values()) for row in rows)])


def cell(text: str) -> str:
    """Text of unknown origin as a cell of a Markdown table: no markup, one line."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("`", "&#96;")


def players(run: Evaluated, split: str) -> list[str]:
    """The players with games in `split`, in the order of the stages; best possible play comes last."""
    found = {key.split("/")[0] for key in run.metrics if key.endswith(f"/{split}/win_rate")}
    others = sorted(found - {*PLAYERS, "optimal"})
    return [name for name in (*PLAYERS, *others, "optimal") if name in found]


def _row(
    run: Evaluated, player: str, split: str, forgone: Mapping[str, analysis.Measured] | None = None
) -> dict[str, str]:
    """Title of a column to its cell. forgone: of the run, as `_forgone` gives it."""
    lost = _part(run, (forgone or {}).get(player), split)

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
        "above the best": above_the_best(run, player, split),
        "bits forgone a turn": _number(lost and analysis.mean_bits(lost), ".2f"),
        "malformed": _number(value("malformed_share"), ".1%"),
        "non-words": _number(value("nonword_share"), ".1%"),
        "inconsistent": _number(value("inconsistent_share"), ".1%"),
        "folder": shown_path(run.folder),
    }


def above_the_best(run: Evaluated, player: str, split: str) -> str:
    """Guesses of a player beyond best possible play, a game and in all; – where that is not known, or not all
    secrets were played."""
    own, best = (
        {name: run.metrics.get(f"{key}/{name}") for name in ("games", "mean_guesses_loss7")}
        for key in (f"{player}/{split}", "optimal/all")
    )
    if split != "all" or None in (own | best).values() or own["games"] != best["games"]:
        return "–"
    above = own["mean_guesses_loss7"] - best["mean_guesses_loss7"]
    return f"{above:+.2f} ({above * own['games']:,.0f})"


def _forgone(run: Evaluated) -> dict[str, analysis.Measured]:
    """Player to a sample of its games with the regret of each turn; empty without games or split."""
    if run.data is None:
        return {}
    solver = solver_for(run.data.words, run.data.rules)
    return {player: analysis.forgone(games, solver) for player, games in run.games.items()}


def _part(run: Evaluated, games: Any, split: str) -> Any:
    """Games of a run, measured or not, on a split; None where they or the split are not kept."""
    if games is None or split == "all":
        return games
    if run.data is None:
        return None
    secrets = {"train": run.data.split.train, "heldout": run.data.split.test}[split]
    return analysis.part_of(games, secrets)


def _loss_title(rules: Rules) -> str:
    return f"guesses (loss = {rules.turns + 1})"


def marks(easier: Mapping[str, float | None]) -> str:
    """What made a player's games easier than the strict rules (`evaluate.CONDITIONS`), as a remark."""
    said = [text for name, text in MARKS.items() if easier.get(name)]
    return f" ({', '.join(said)})" if said else ""


def _number(value: float | None, style: str) -> str:
    return "–" if value is None else format(value, style)


def _paired(runs: Sequence[Evaluated], splits: Iterable[str], difference: float) -> list[str]:
    """The paired tests of all runs below a line that says what they are; nothing where none was made."""
    lines = [line for run in runs for line in _paired_lines(run, splits, difference)]
    said = (
        "Paired on the same secrets, with bootstrap 95% intervals; p-values are corrected by Holm's method "
        "for the tests of a run on them. Asked is whether wins differ by "
        f"{inference.points(difference)} or more:"
    )
    return [said, "\n".join(lines)] if lines else []


def _paired_lines(run: Evaluated, splits: Iterable[str], difference: float) -> list[str]:
    """What GRPO changed against its comparisons on the same secrets, one line a pair and split.

    The p-values are corrected by Holm's method for the tests of their split.
    """
    lines = []
    for split in splits:
        tests = {names: test for names in COMPARISONS if (test := _paired_test(run, *names, split))}
        p_values = corrected(tests)
        for names, test in tests.items():
            wins_p, guesses_p = map(p_value, p_values[names])
            wins = with_interval(test.wins, test.wins_interval, "+.1%")
            guesses = with_interval(test.guesses, test.guesses_interval, "+.2f")
            lines.append(
                f"- {names[0]} against {names[1]} in {shown_path(run.folder)}, {SPLITS[split].lower()}: won "
                f"{test.gained} games that {names[1]} lost, lost {test.lost} it won: {wins} ({wins_p}, exact "
                f"McNemar); {guesses} guesses a game ({guesses_p}, exact sign flips)."
                + _doubt(test, p_values[names][0], difference)
            )
    return lines


def _paired_test(run: Evaluated, player: str, other: str, split: str) -> inference.Comparison | None:
    """One paired comparison as its metrics say it, None where it was not made; the interval of guesses needs
    the games."""
    prefix = f"{player}/{split}/vs_{other}_"
    test = {k.removeprefix(prefix): v for k, v in run.metrics.items() if k.startswith(prefix)}
    if not test:
        return None
    own, theirs = (_part(run, run.games.get(name), split) for name in (player, other))
    if own is not None and theirs is not None:
        interval = analysis.paired(own, theirs).guesses_interval
    else:
        interval = None
    gained, lost, games = test["wins_gained"], test["wins_lost"], run.metrics[f"{player}/{split}/games"]
    return inference.Comparison(
        games,
        gained,
        lost,
        (gained - lost) / games,
        inference.mean_interval([1] * gained + [-1] * lost + [0] * (games - gained - lost)),
        test["wins_p"],
        test["guesses_change"],
        interval,
        test["guesses_p"],
    )


def _doubt(test: inference.Comparison, wins_p: float, difference: float) -> str:
    """A sentence for wins that tell no player from the other."""
    said = inference.outcome(test, wins_p, difference)
    if said == "nothing":
        return f" The wins decide nothing: {inference.undecided(test, difference)}."
    return f" The wins differ by {said}." if said.startswith("less") else ""


def _across(runs: Sequence[Evaluated], difference: float, table: Callable[[list[Row]], str]) -> list[str]:
    """Trained players of different runs on the secrets that both played, a table a split; runs of one recipe
    are left out, since they are its seeds."""
    rivals = [(a, b) for a, b in combinations(runs, 2) if recipe_key(a.folder) != recipe_key(b.folder)]
    blocks = []
    for split in ("heldout", "all"):
        pairs = {}
        for other, run in rivals:
            own, theirs = (_trained(side, split) for side in (run, other))
            pairs |= {
                (a, b): analysis.paired(own[a], theirs[b])
                for a in own
                for b in theirs
                if analysis.agree(own[a], theirs[b]) is None
            }
        if pairs:
            p_values = corrected(pairs)
            rows = [comparison_row(key, pair, p_values[key], difference) for key, pair in pairs.items()]
            said = f"players of different runs, p-values by Holm's method over {2 * len(rows)} tests"
            blocks.append(f"{SPLITS[split]}, {said}:\n\n{_table_of(rows, table)}")
    return blocks


def _trained(run: Evaluated, split: str) -> dict[str, analysis.Games]:
    """Label to the games of each player that somebody trained."""
    parts = {player: _part(run, own, split) for player, own in run.games.items() if player not in UNTRAINED}
    return {
        f"{player} in {shown_path(run.folder)}": own
        for player, own in parts.items()
        if own is not None and len(own.secret)
    }


def _scoring_lines(run: Evaluated) -> list[str]:
    """What the rules of `scoring` make of each trained player's games, and a line on what that changes."""
    trained = [name for name in PLAYERS if name in run.games and name not in UNTRAINED]
    train = run.data.split.train if run.data else ()
    counted = {name: scoring.rates(run.games[name], train) for name in trained}
    if not counted:
        return []
    lines = []
    for name, rates in counted.items():
        shares = [f"*{rate.rule}* {rate.value:.1%}" for rate in rates if rate.value is not None]
        lines.append(f"- {name} in {shown_path(run.folder)}: {', '.join(shares)}.")
    return [*lines, f"- {scoring.farthest(counted)}"]


def remarks(runs: Sequence[Evaluated]) -> list[str]:
    """Lines on what tables of these runs hide: other temperatures, teachers that favour held-out words, and
    models that were not trained here."""
    warm = {shown_path(run.folder): run.config.get("temperature") for run in runs}
    lines = [
        line for run in runs for line in (*_usage_lines(run), *_stranger_lines(run), *_favoured_lines(run))
    ]
    if len({*warm.values()} - {None}) > 1:
        told = ", ".join(f"{_number(value, 'g')} in {folder}" for folder, value in warm.items())
        lines.insert(0, f"- Players were sampled at different temperatures: {told} (0 is greedy decoding).")
    return lines


def _stranger_lines(run: Evaluated) -> list[str]:
    """Which model the player `model` is, and what is known of its training."""
    if "model" not in run.games:
        return []
    known = "played the game of its data card or of a run"
    if run.config.get("data_from") == "shipped":
        known = (
            "was not trained here: which secrets it was trained on is unknown, and the split is that of the "
            "shipped lists"
        )
    return [f"- model in {shown_path(run.folder)} is {cell(str(run.config.get('model')))}, which {known}."]


def _favoured_lines(run: Evaluated) -> list[str]:
    """Said where the teacher preferred words that are no training secrets, as `ties: non_secrets` does."""
    if run.data is None or run.data.card.get("ties") != "non_secrets":
        return []
    return [
        f"- The teacher of {shown_path(run.folder)} preferred words that are no training secrets to others "
        "as good: its student finds held-out secrets sooner than others, so their figures are too good."
    ]


def _usage_lines(run: Evaluated) -> list[str]:
    """What a model behind an endpoint is, and what its games took."""
    used = {k.removeprefix("endpoint/"): v for k, v in run.metrics.items() if k.startswith("endpoint/")}
    if "model" not in used:
        return []
    return [
        f"- endpoint in {shown_path(run.folder)} is {cell(str(used['model']))}: a game took "
        f"{_number(used['prompt_tokens_per_game'], ',.0f')} prompt and "
        f"{_number(used['completion_tokens_per_game'], ',.0f')} completion tokens and "
        f"{used['seconds_per_game']:,.1f} s; {used['requests']:,} requests with {used['retries']:,} retries; "
        f"failed games, which count as lost: {used['failed_games']:,}."
    ]


def failures(runs: Sequence[Evaluated]) -> list[dict[str, str]]:
    """Why games of a server failed, a row a run and reason, the most frequent first; reasons are what the
    server said, shortened and without control characters, and must be escaped where they are shown."""
    rows = []
    for run in runs:
        path = games_file(run.folder / STAGE)
        if not (path and run.metrics.get("endpoint/failed_games")):
            continue
        texts = [
            next(turn["text"] for turn in record["turns"] if turn["reason"] == FAILED)
            for record in iter_jsonl(path)
            if record["turns"][-1]["reason"] == FAILED
        ]
        counted = Counter(textwrap.shorten(printable(text), REASON, placeholder=" …") for text in texts)
        rows += [
            {"run": shown_path(run.folder), "failed games": f"{count:,}", "reason": reason}
            for reason, count in counted.most_common()
        ]
    return rows


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
