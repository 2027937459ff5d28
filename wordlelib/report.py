"""Tables of evaluated runs: on the terminal and as Markdown."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

from wordlelib import analysis, inference, recipes, scoring, sweep_results
from wordlelib.comparisons import FAMILIES, comparison_row, corrected, p_value, recipe_key, with_interval
from wordlelib.data import iter_jsonl
from wordlelib.evaluate import COMPARISONS, games_file
from wordlelib.evaluations import STAGE, Evaluated, read_runs
from wordlelib.params import PLAYERS
from wordlelib.players import FAILED
from wordlelib.prompts import printable
from wordlelib.rules import Rules
from wordlelib.runs import read_yaml, shown_path
from wordlelib.solver import POLICIES, solver_for

SPLITS = {"all": "All secrets", "heldout": "Held-out secrets", "train": "Training secrets"}
SHORT_SPLITS = ("all", "heldout")  # the columns of a short table
SECRETS_SHOWN = 50
MARKS = {"preplayed": "pre-played turns", "retries": "retries", "discarded": "best of several games"}
SIGNALS = ("03_grpo/frac_reward_zero_std", "03_grpo/top_guess_share")
EFFECTS_NOTE = (
    "Mean at a value less the mean at the first, over all other settings. Intervals from trials are a "
    "bootstrap over three or more trials a side; those from games are Newcombe's, and do not see "
    "how much two runs of the same settings differ."
)

FAILURES = "Games of a server that failed, by the reason"
REASON = 120  # characters of a reason that are shown

OPTIMAL_SOURCE = (
    "best possible play over all {:,} answers of the shipped lists, from an exhaustive search that another "
    'published (A. Selby, "The best strategies for Wordle", 2022) and that is not proved again here'
)
BEST = "optimal"
UNTRAINED = {"untrained", *POLICIES, BEST}  # players that nobody trained

Row = list[str]


def terminal_table(paths: Iterable[str | Path], difference: float = inference.DIFFERENCE) -> str:
    """The tables of one or more run folders as aligned text. difference: of win rates that paired tests are
    asked about (a share).

    Raises ValueError as `read_run` does, and when the rules of two runs differ, naming the fields.
    """
    return tables(read_runs(paths), aligned, difference, secrets=True)


def markdown(paths: Iterable[str | Path], difference: float = inference.DIFFERENCE) -> str:
    """The tables of `terminal_table` as Markdown; same errors."""
    return tables(read_runs(paths), piped, difference, secrets=True)


def short(groups: Iterable[Sequence[Evaluated]]) -> str:
    """One table for the runs of each model under the same rules and on as many secrets, with its paired
    tests, largest game and best student first; what holds for all of them, and what those under the same
    rules hide, stands once at the end. groups: the runs under the same rules together."""
    blocks, told, tested = [], {}, False
    by_model: dict[tuple[str, str], list[Evaluated]] = {}
    for runs in groups:
        told |= dict.fromkeys(remarks(runs))
        for run in runs:
            by_model.setdefault((run.rules.digest, _title([run])), []).append(run)
    for own in sorted(by_model.values(), key=_place):
        tests = [test for run in own for test in _paired_lines(run, SHORT_SPLITS, inference.DIFFERENCE)]
        blocks += [f"**{_title(own)}**", rules_line(own[0].rules), _short_table(own), "\n".join(tests)]
        tested = tested or bool(tests)
    said = f"{_paired_said(inference.DIFFERENCE)}." if tested else ""
    return "\n\n".join(filter(None, [*blocks, said, "\n".join(told)]))


def _title(runs: Sequence[Evaluated]) -> str:
    """Which models were trained, on how many secrets, and whether texts may name those held out."""
    configs = [path for run in runs if (path := run.folder / "02_sft" / "config.yaml").is_file()]
    models = dict.fromkeys(Path(read_yaml(path)["model"]).name for path in configs)
    lexicon = "" if runs[0].rules.lexicon == "full" else f", `lexicon: {runs[0].rules.lexicon}`"
    return f"{', '.join([*models, ''])}{_secrets(runs):,} secrets{lexicon}"


def _place(runs: Sequence[Evaluated]) -> tuple[int, float]:
    """Where the table of these runs stands: by secrets, then by held-out games that a trained player won."""
    trained = [player for player in PLAYERS if player not in UNTRAINED]
    won = [run.metrics.get(f"{player}/heldout/win_rate") or 0 for run in runs for player in trained]
    return -_secrets(runs), -max(won)


def _secrets(runs: Sequence[Evaluated]) -> int:
    """How many secrets the largest evaluation of these runs played."""
    return max(value for run in runs for name, value in run.metrics.items() if name.endswith("/all/games"))


def _short_table(runs: Sequence[Evaluated]) -> str:
    """All and held-out secrets in one table, whose rows point to their folder and command; what several runs
    say alike of a player who is not trained stands once."""
    loss = _loss_title(runs[0].rules)
    header = ["player", "wins, all", "95% interval", loss, "non-words"]
    header += ["wins, held out", "95% interval", loss, "run"]
    rows = []
    for run, player in _lines(runs, "all"):
        everything, unseen = _row(run, player, "all"), _row(run, player, "heldout")
        shown = [everything[name] for name in ("player", "wins", "95% interval", loss, "non-words")]
        shown += [unseen[name] for name in ("wins", "95% interval", loss)]
        if player in UNTRAINED and shown in (row[:-1] for row in rows):
            continue
        rows.append([*shown, "–" if player == BEST else f"[{runs.index(run) + 1}]"])
    commands = [
        f"- [{number}] `{shown_path(run.folder)}`, repeated by `{recipes.command(run.folder)}`"
        for number, run in enumerate(runs, 1)
    ]
    return f"{piped([header, *rows])}\n\n" + "\n".join(commands)


def tables(
    runs: Sequence[Evaluated],
    table: Callable[[list[Row]], str],
    difference: float = inference.DIFFERENCE,
    secrets: bool = False,
    commands: bool = False,
) -> str:
    """Rules, one table a split, paired tests. secrets: list them, show training secrets apart, and compare
    players of different runs. commands: add a column."""
    repeat = {run.folder: f"`{recipes.command(run.folder)}`" for run in runs if commands}
    forgone = {run.folder: _forgone(run) for run in runs}
    blocks = [rules_line(runs[0].rules)]
    for split, title in SPLITS.items():
        rows = [
            _row(run, player, split, forgone[run.folder])
            | ({"repeat with": "–" if player == BEST else repeat[run.folder]} if commands else {})
            for run, player in _lines(runs, split)
            if secrets or split != "train"
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
    """The players with games in `split`, in the order of the stages."""
    found = {key.split("/")[0] for key in run.metrics if key.endswith(f"/{split}/win_rate")} - {BEST}
    return [name for name in (*PLAYERS, *sorted(found - {*PLAYERS})) if name in found]


def _lines(runs: Sequence[Evaluated], split: str) -> list[tuple[Evaluated, str]]:
    """The players of all runs; best possible play, which is the same for all of them, comes once and last."""
    best = [(run, BEST) for run in runs if f"{BEST}/{split}/win_rate" in run.metrics]
    return [*((run, player) for run in runs for player in players(run, split)), *best[:1]]


def _row(
    run: Evaluated, player: str, split: str, forgone: Mapping[str, analysis.Measured] | None = None
) -> dict[str, str]:
    """Title of a column to its cell. forgone: of the run, as `_forgone` gives it."""
    lost = _part(run, (forgone or {}).get(player), split)

    def value(name: str) -> float | None:
        return run.metrics.get(f"{player}/{split}/{name}")

    known = player == BEST  # a constant, which no games of a run gave
    low = None if known else value("win_rate_low")
    return {
        "player": player + marks({name: value(name) for name in MARKS}),
        "games": "–" if known else _number(value("games"), ","),
        "wins": _number(value("win_rate"), ".1%"),
        "95% interval": "–" if low is None else f"{low:.1%} to {value('win_rate_high'):.1%}",
        "guesses (won)": _number(value("mean_guesses_won"), ".2f"),
        _loss_title(run.rules): _number(value("mean_guesses_loss7"), ".2f"),
        "above the best": above_the_best(run, player, split),
        "bits forgone a turn": _number(lost and analysis.mean_bits(lost), ".2f"),
        "malformed": _number(value("malformed_share"), ".1%"),
        "non-words": _number(value("nonword_share"), ".1%"),
        "inconsistent": _number(value("inconsistent_share"), ".1%"),
        "folder": "–" if known else shown_path(run.folder),
    }


def above_the_best(run: Evaluated, player: str, split: str) -> str:
    """Guesses of a player beyond best possible play, a game and in all; – where that is not known, or not all
    secrets were played."""
    own, best = (
        {name: run.metrics.get(f"{key}/{name}") for name in ("games", "mean_guesses_loss7")}
        for key in (f"{player}/{split}", f"{BEST}/all")
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
    return [f"{_paired_said(difference)}:", "\n".join(lines)] if lines else []


def _paired_said(difference: float) -> str:
    return (
        f"Paired on the same secrets, with bootstrap 95% intervals; {FAMILIES} Asked is whether wins differ "
        f"by {inference.points(difference)} or more"
    )


def _paired_lines(run: Evaluated, splits: Iterable[str], difference: float) -> list[str]:
    """What GRPO changed against its comparisons on the same secrets, one line a pair and split.

    The p-values are corrected for their family (`comparisons.FAMILIES`): these tests on one split.
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
    """One paired comparison, None where it was not made: of the games, or where they are not kept as the
    metrics say it, without the interval of guesses."""
    prefix = f"{player}/{split}/vs_{other}_"
    if f"{prefix}wins_gained" not in run.metrics:
        return None
    own, theirs = (_part(run, run.games.get(name), split) for name in (player, other))
    if own is not None and theirs is not None:
        return analysis.paired(own, theirs)
    names = ("wins_gained", "wins_lost", "wins_p", "guesses_change", "guesses_p")
    gained, lost, wins_p, change, guesses_p = (run.metrics[prefix + name] for name in names)
    games = run.metrics[f"{player}/{split}/games"]
    return inference.Comparison(
        games,
        gained,
        lost,
        (gained - lost) / games,
        inference.mean_interval([1] * gained + [-1] * lost + [0] * (games - gained - lost)),
        wins_p,
        change,
        None,
        guesses_p,
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
    """Lines on what tables of these runs hide: sampling of models that differs, teachers that favour held-out
    words, models that were not trained here, and a known constant among the players."""
    lines = []
    if told := _unlike(runs, "temperature"):
        lines.append(f"- Players were sampled at different temperatures: {told} (0 is greedy decoding).")
    if told := _unlike(runs, "max_completion_length"):
        lines.append(
            f"- Answers of models were cut off at different lengths, in tokens: {told}. One that is cut off "
            "before its guess is a malformed turn, so a shorter limit may cost games."
        )
    for run in runs:
        lines += [*_usage_lines(run), *_stranger_lines(run), *_favoured_lines(run)]
    if best := next((n for run in runs if (n := run.metrics.get(f"{BEST}/all/games"))), None):
        lines.append(f"- optimal is a known constant and no sample: {OPTIMAL_SOURCE.format(best)}.")
    return lines


def _unlike(runs: Sequence[Evaluated], name: str) -> str:
    """The values of a parameter of the evaluation by run, where those of runs with models differ."""
    asked = [run for run in runs if any(player not in POLICIES for player in run.games)]
    values = {shown_path(run.folder): run.config.get(name) for run in asked}
    if len({*values.values()} - {None}) < 2:
        return ""
    return ", ".join(f"{_number(value, 'g')} in {folder}" for folder, value in values.items())


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
        f"{used['seconds_per_game']:,.1f} s of requests; {used['requests']:,} requests with "
        f"{used['retries']:,} retries; failed games, which count as lost: {used['failed_games']:,}."
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
    more = f" and {hidden:,} more in {shown_path(games_file(run.folder / STAGE))}" if hidden > 0 else ""
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
