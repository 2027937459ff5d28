"""What evaluated runs show: the tables and figures of an analysis, in sections.

Notebook 05 shows the same sections that `report --html` writes (`page`). They are built from files of the
runs alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wordlelib import (
    analysis,
    costs,
    difficulty,
    inference,
    plots,
    plots_analysis,
    recipes,
    report,
    scoring,
    sweep_results,
    thinking,
)
from wordlelib.analysis import Games, Measured
from wordlelib.comparisons import FAMILIES, PLANNED, comparison_row, corrected, recipe_key, with_interval
from wordlelib.data import Data, iter_jsonl, played_in
from wordlelib.evaluate import COMPARISONS, games_file, iter_games
from wordlelib.evaluations import STAGE, Evaluated, read_runs, require_same_split
from wordlelib.inference import Comparison
from wordlelib.params import PLAYERS
from wordlelib.players import solver_player
from wordlelib.prompts import rejected_words
from wordlelib.report import SPLITS, UNTRAINED
from wordlelib.rules import Rules, require_wordle
from wordlelib.runs import log_of, read_json, shown_path
from wordlelib.solver import POLICIES, Solver, solver_for
from wordlelib.words import load_words

Row = dict[str, str]
Pair = tuple[str, str]  # labels of two players that are compared


class Section(NamedTuple):
    """A title, sentences about it, tables (caption to rows of texts) and figures (name to figure)."""

    title: str
    text: str
    tables: dict[str, list[Row]]
    figures: dict[str, Any]


class Findings:
    """Runs under the same rules and what their games say, each measured once.

    runs: as `evaluations.read_run` gives them. data: words, rules and split of the first. games: label to the
    games of a player, `player`, or `player in <run>` where several runs are compared. The solver's policies
    are the same player everywhere, and are taken from the first run that has them.

    difference: of win rates that comparisons are asked about (a share).

    Raises ValueError as `read_run` does, when rules or splits differ, and for runs whose games are not kept.
    """

    def __init__(self, folders: Iterable[str | Path], difference: float = inference.DIFFERENCE) -> None:
        self.difference = difference
        self.runs = read_runs(folders)
        require_wordle(self.runs[0].rules, "the analysis")
        require_same_split(self.runs)
        self.data = played_in(self.runs[0].folder)
        self.solver = Solver(self.data.words, self.data.rules)
        self.games: dict[str, Games] = {}
        self.source: dict[str, tuple[Evaluated, str]] = {}
        self.names = _run_names(self.runs)
        for run in self.runs:
            if not run.games:
                raise ValueError(f"{shown_path(run.folder)} keeps no games: run notebook {STAGE} again")
            for player in report.players(run, "all"):
                shared = player in POLICIES or len(self.runs) == 1
                label = player if shared else f"{player} in {self.names[run.folder]}"
                if player in run.games and label not in self.games:
                    self.games[label] = run.games[player]._replace(player=label)
                    self.source[label] = run, player

    @cached_property
    def measured(self) -> dict[str, Measured]:
        """Label to its measured games."""
        return {label: analysis.measure(games, self.solver) for label, games in self.games.items()}

    @cached_property
    def forgone(self) -> dict[str, Measured]:
        """Label to a sample of its games with the regret of each turn."""
        return {label: analysis.forgone(games, self.solver) for label, games in self.games.items()}

    @cached_property
    def models(self) -> list[str]:
        """Labels of the trained models and of models behind endpoints, in the order of the stages."""
        return [label for label in self.games if self.source[label][1] not in UNTRAINED]

    @cached_property
    def shown(self) -> list[str]:
        """Labels for figures that would be crowded by all: the models, and the greedy solver."""
        return [*self.models, *(label for label in ("greedy",) if label in self.games)] or list(self.games)

    @cached_property
    def kinds(self) -> dict[str, difficulty.Kind]:
        """The kind of every answer."""
        return difficulty.kinds(self.data.words.answers)

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Split to its secrets."""
        split, words = self.data.split, self.data.words
        return {"all": words.allowed, "train": split.train, "heldout": split.test}

    def split_measured(self, split: str) -> dict[str, Measured]:
        """Label to its measured games on one split; labels without any are left out."""
        secrets = self.parts()[split]
        cut = {label: analysis.part_of(own, secrets) for label, own in self.measured.items()}
        return {label: own for label, own in cut.items() if len(own.games.secret)}

    def records(self, label: str) -> Iterable[dict[str, Any]]:
        """The records of a label with their texts, read again from the file."""
        run, player = self.source[label]
        path = games_file(run.folder / STAGE)
        return (record for record in iter_jsonl(path) if record["player"] == player)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Every model with each before it in its run, and with all in runs of other recipes."""
        return [(b, a) for a, b in combinations(self.models, 2) if self._comparable(a, b)]

    def _comparable(self, first: str, second: str) -> bool:
        run, other = self.source[first][0], self.source[second][0]
        # the seeds of one recipe are no rivals: `over_seeds` shows them as points
        return run is other or recipe_key(run.folder) != recipe_key(other.folder)

    def compared(self, split: str) -> dict[Pair, Comparison]:
        """The pairs, and every model with the random-consistent player, on the secrets that both played."""
        games = {label: own.games for label, own in self.split_measured(split).items()}
        references = [(label, "random_consistent") for label in self.models]
        return {
            (a, b): analysis.paired(games[a], games[b])
            for a, b in [*self.pairs, *references]
            if a in games and b in games and analysis.agree(games[a], games[b]) is None
        }

    def families(self, pairs: Mapping[Pair, Comparison]) -> dict[str, dict[Pair, Comparison]]:
        """The pairs by the family whose tests are corrected together (`comparisons.FAMILIES`)."""
        parted: dict[str, dict[Pair, Comparison]] = {}
        for names, pair in pairs.items():
            (run, first), (other, second) = (self.source[name] for name in names)
            if run is not other and second not in POLICIES:
                title = "players of different runs"
            else:
                planned = (first, second) in COMPARISONS
                title = PLANNED if planned else "other pairs"
                title += f" of {self.names[run.folder]}" if len(self.runs) > 1 else ""
            parted.setdefault(title, {})[names] = pair
        return dict(sorted(parted.items(), key=lambda item: not item[0].startswith(PLANNED)))


def _run_names(runs: Sequence[Evaluated]) -> dict[Path, str]:
    """The name of each run's folder, or its path where two have the same name."""
    names = [run.folder.name for run in runs]
    return {
        run.folder: name if names.count(name) == 1 else shown_path(run.folder)
        for run, name in zip(runs, names, strict=True)
    }


# Sections ---------------------------------------------------------------------------------------


def sections_of(
    folders: Sequence[str | Path], difference: float = inference.DIFFERENCE
) -> dict[str, Section]:
    """The sections of some runs, none without any run; arguments and errors as of `Findings`."""
    return sections(Findings(folders, difference)) if folders else {}


def sections(found: Findings) -> dict[str, Section]:
    """Every section by its name, in the order of a report; those without anything to show are left out."""
    made = {name: make(found) for name, make in SECTIONS.items()}
    return {name: section for name, section in made.items() if section is not None}


def sweep(folder: Path) -> Section:
    """What the table of a sweep says of its settings; raises ValueError as `report.sweep_parts` does."""
    tables, said = report.sweep_parts(folder)
    rows = {
        caption: [dict(zip(head, row, strict=True)) for row in body]
        for caption, (head, *body) in tables.items()
    }
    text = "What follows of runs, if anything, is of the best trial alone."
    figures = plots.sweep_figures(sweep_results.read_table(folder))
    named = {f"{folder.name}_{name}": figure for name, figure in figures.items()}
    return Section(f"The sweep {folder.name}", "\n\n".join([*said, text]), rows, named)


def protocol(found: Findings) -> Section:
    """What was played, which secrets were trained on, and what was made easier."""
    rules, split = found.data.rules, found.data.split
    runs = [
        {
            "run": shown_path(run.folder),
            "temperature": _text(run.config.get("temperature"), "g"),
            "longest answer (tokens)": _text(run.config.get("max_completion_length"), ",d"),
            "secrets played": f"{len(run.secrets):,}",
            "training secrets": f"{len(set(run.secrets) & set(split.train)):,}",
            "validation": f"{len(set(run.secrets) & set(split.val)):,}",
            "held out": f"{len(set(run.secrets) & set(split.test)):,}",
            "repeat with": recipes.command(run.folder),
        }
        for run in found.runs
    ]
    easier = [f"{label}{said}" for label in found.games if (said := _marks(found, label))]
    card = (
        "Training secrets are those of the data card (`card.json`), and are reported apart."
        if found.data.card
        else "The split is that of the shipped lists; which words a model that was not trained here has seen "
        "is unknown."
    )
    strict = "Nothing was pre-played, tried again or chosen from several games."
    said = f"Not the strict rules: {'; '.join(easier)}." if easier else strict
    used = [line.removeprefix("- ") for line in report.remarks(found.runs)]
    text = " ".join([report.rules_line(rules), card, said, *used])
    tables = {"Runs": _without_empty(runs), report.FAILURES: report.failures(found.runs)}
    return Section("What was played", text, {title: rows for title, rows in tables.items() if rows}, {})


def results(found: Findings) -> Section:
    """Wins, guesses, hard mode, information and regret of every player, one table a split."""
    tables = {}
    for split, title in SPLITS.items():
        rows = [_result_row(found, split, label, own) for label, own in found.split_measured(split).items()]
        if rows:
            tables[title] = _without_empty(rows)
    text = (
        "Wins with Wilson's 95% interval, means of guesses with a bootstrap 95% interval over games. "
        "*Hard-mode wins* are games won without one guess that breaks the official hard-mode rule, whether "
        "it was in force or not. *Bits* is the mean information of a turn. *Bits forgone* is its regret: "
        "what the best guess of the same state was expected to give beyond the one made, in "
        f"a sample of {analysis.SAMPLE} games at most. *Above the best* is the regret of games: guesses "
        f"(a loss as {found.data.rules.turns + 1}) beyond best possible play, a game and in all, known for "
        "whole shipped lists. *Wall seconds* are those in which all games of the player were played side by "
        "side, loading left out, over their number; *request seconds* are the times of a game's requests to "
        "a server, one after the other."
    )
    summaries = {label: analysis.summary(own.games, own.flags) for label, own in found.measured.items()}
    best = plots.summaries(found.runs[0].metrics).get("optimal")
    summaries |= {"optimal": best} if best else {}
    figures = {"win_rates": plots.win_rates(summaries), "mean_guesses": plots.mean_guesses(summaries)}
    return Section("Who wins how often?", text, tables, figures)


def _result_row(found: Findings, split: str, label: str, own: Measured) -> Row:
    values = analysis.describe(own)
    wins = (values["win_rate_low"], values["win_rate_high"])
    return {
        "player": label + _marks(found, label),
        "games": f"{values['games']:,}",
        "wins": with_interval(values["win_rate"], wins, ".1%"),
        "hard-mode wins": with_interval(values["hard_mode_wins"], values["hard_mode_wins_interval"], ".1%"),
        "guesses (won)": with_interval(
            values["mean_guesses_won"], values["mean_guesses_won_interval"], ".2f"
        ),
        f"guesses (loss = {found.data.rules.turns + 1})": with_interval(
            values["mean_guesses_loss7"], values["mean_guesses_loss7_interval"], ".2f"
        ),
        "above the best": report.above_the_best(*found.source[label], split),
        "bits a turn": _text(values["bits_per_turn"], ".2f"),
        "bits forgone a turn": _text(
            analysis.mean_bits(analysis.part_of(found.forgone[label], found.parts()[split])), ".2f"
        ),
        **_cost(found, label),
    }


def _without_empty(rows: list[Row]) -> list[Row]:
    """The rows without columns that say nothing in any of them."""
    told = [name for name in rows[0] if any(row[name] != "–" for row in rows)]
    return [{name: row[name] for name in told} for row in rows]


def _cost(found: Findings, label: str) -> Row:
    """Seconds and tokens of a game, where the run recorded them. Two clocks, never in one column: that of the
    wall while all games of a player were played side by side, over their number; and that of the requests
    to a server, one after the other, which does not stop for a resume and is the only one known of them."""
    run, player = found.source[label]
    tokens = [run.metrics.get(f"{player}/{name}_tokens_per_game") for name in ("prompt", "completion")]
    asked = run.metrics.get(f"{player}/seconds_per_game")
    wall = run.metrics.get(f"seconds/{player}") if asked is None else None
    known = all(value is not None for value in tokens)
    return {
        "wall seconds a game": _text(wall and wall / len(run.games[player].secret), ".2g"),
        "request seconds a game": _text(asked, ".2g"),
        "tokens a game (prompt + completion)": f"{tokens[0]:,.0f} + {tokens[1]:,.0f}" if known else "–",
    }


def _marks(found: Findings, label: str) -> str:
    return report.marks({name: int(v.sum()) for name, v in found.games[label].conditions.items()})


def comparisons(found: Findings) -> Section | None:
    """Paired tests of the models, corrected for their number, with a sentence on what each decides."""
    tables, sentences, figures = {}, [], {}
    for split in ("heldout", "all"):
        pairs = found.compared(split)
        if not pairs:
            continue
        p_values, asked = {}, found.difference
        for title, family in found.families(pairs).items():
            p_values |= corrected(family)
            tables[f"{SPLITS[split]}, {title}, p-values by Holm's method over {2 * len(family)} tests"] = [
                comparison_row(names, pair, p_values[names], asked) for names, pair in family.items()
            ]
        if not sentences:
            sentences = [
                f"{SPLITS[split]}: " + inference.verdict(*names, pair, p_values[names][0], asked)
                for names, pair in pairs.items()
            ]
            figures["forest"] = plots_analysis.forest({f"{a} - {b}": pair for (a, b), pair in pairs.items()})
    if not tables:
        return None
    text = (
        "Two players are compared on the secrets that both played: games that only one of them won (exact "
        "McNemar test), and the mean difference of guesses (exact sign flips), each with a paired "
        f"bootstrap 95% interval; {FAMILIES} Asked is whether their wins differ by "
        f"{inference.points(found.difference)} or more (`--difference`; unless given "
        f"{100 * inference.DIFFERENCE:g}, which 500 held-out secrets can tell when the two disagree on one "
        "game in six). *Games needed* is the number of secrets at which the test sees that much four times "
        "in five.\n\n" + "\n".join(f"- {line}" for line in sentences)
    )
    return Section("Is the difference real?", text, tables, figures)


def over_seeds(found: Findings) -> Section | None:
    """Runs of one recipe with other seeds, as points and a range; None without two such runs."""
    groups: dict[str, list[Evaluated]] = {}
    for run in found.runs:
        groups.setdefault(recipe_key(run.folder), []).append(run)
    rows, spans = [], {}
    for runs in (own for own in groups.values() if len(own) > 1):
        for player in [name for name in PLAYERS if name not in UNTRAINED]:
            for split in ("heldout", "all"):
                values = [run.metrics.get(f"{player}/{split}/win_rate") for run in runs]
                if None in values:
                    continue
                spread = inference.over_seeds(values)
                label = (
                    f"{player}, {SPLITS[split].lower()}, {len(runs)} runs like {found.names[runs[0].folder]}"
                )
                spans[label] = spread
                rows.append(
                    {
                        "player": label,
                        "mean": f"{spread.mean:.1%}",
                        "range": f"{spread.low:.1%} to {spread.high:.1%}",
                        "runs": ", ".join(f"{value:.1%}" for value in spread.values),
                    }
                )
    if not rows:
        return None
    text = (
        "These runs differ in their seeds alone. Intervals over games do not see what the seed of a training "
        "changes; the range of runs does."
    )
    return Section(
        "What does the seed change?", text, {"Win rates": rows}, {"seeds": plots_analysis.seeds(spans)}
    )


def endings(found: Findings) -> Section:
    """How many guesses games take, and when they are won."""
    counts = {label: analysis.histogram(own, found.data.rules.turns) for label, own in found.games.items()}
    drawn = {label: counts[label] for label in found.shown}
    # People play six turns on the shipped answers: a smaller game is another game.
    usual = found.data.rules.turns == Rules.turns and found.data.words.answers == load_words().answers
    rows = [
        {"player": label, **{guesses: f"{count:,}" for guesses, count in own.items()}}
        for label, own in counts.items()
    ]
    figures = {
        "guesses": plots_analysis.histogram(drawn, plots_analysis.PEOPLE if usual else {}),
        "survival": plots_analysis.survival({k: analysis.survival(found.games[k]) for k in found.shown}),
    }
    tables = {"Games": rows}
    text = "Games by the number of guesses; X are lost ones. The same number of wins can be quick or lucky."
    if lost := [_loss_row(found, label) for label in found.models]:
        tables["Lost games"] = _without_empty(lost)
        text += " Lost games are counted by the first of the causes that holds, read from left to right."
    return Section("How do the games end?", text, tables, figures)


def _loss_row(found: Findings, label: str) -> Row:
    """What lost a player's games: its server failed, its thinking rejected the secret, turns were faulty, or
    none of these."""
    own = found.measured[label]
    is_lost = analysis.won_in(own.games) == 0
    games, flags, _ = own.take(is_lost)
    rejected = np.array([_rejects_secret(record) for record in found.records(label)], bool)
    causes = {
        # once a request has failed, no later turn of that game is the player's
        "failed requests": ~games.taken[np.arange(len(games.length)), games.length - 1],
        "secret rejected": rejected[is_lost],
        "turns without a guess": flags["malformed"].any(axis=1),
        "non-words": flags["nonword"].any(axis=1),
        # hard mode gives no feedback to a guess that contradicts what is known
        "against feedback": (flags["inconsistent"] | flags["invalid"]).any(axis=1),
    }
    row, left = {"player": label, "lost": f"{len(games.length):,}"}, np.ones(len(games.length), bool)
    for title, holds in causes.items():
        row[title] = f"{(left & holds).sum():,}"
        left &= ~holds
    if not causes["failed requests"].any():  # of all models without a server
        row["failed requests"] = "–"
    return row | {"only guesses that fit": f"{left.sum():,}"}


def _rejects_secret(record: Mapping[str, Any]) -> bool:
    """Whether the thinking of a turn that the player took rejects the secret."""
    own = record["turns"][record["preplayed"] :]
    return any(record["secret"] in rejected_words(turn["text"]) for turn in own)


def turns(found: Findings) -> Section:
    """What was wrong with turns, what they gained, what the best guess would have gained more, and the
    openers."""
    faults = [_fault_row(label, analysis.describe(own)) for label, own in found.measured.items()]
    lost = {label: found.forgone[label].bits for label in found.shown}
    drawn = max(map(len, lost.values()), default=0)
    text = (
        "Shares of the turns that a player took. *Against green*, *yellow* and *grey*: legal guesses that "
        "contradict a mark of that colour; one guess may contradict several. *Breaks hard mode* is the "
        f"official rule: greens stay, revealed letters are used again. Regret is searched for {drawn:,} "
        "games of each player at most, drawn by a fixed seed."
    )
    figures = {
        "bits": plots_analysis.bits({k: analysis.mean_by_turn(found.measured[k].bits) for k in found.shown}),
        "regret": plots_analysis.regret({k: analysis.mean_by_turn(own) for k, own in lost.items()}),
    }
    tables = {"Faults": faults, "First guesses": _opener_rows(found)}
    return Section("Where do the turns go?", text, tables, figures)


def _fault_row(label: str, values: Mapping[str, Any]) -> Row:
    names = {
        **{"malformed": "malformed", "nonword": "non-words", "repeat": "repeated", "green": "against green"},
        **{"yellow": "against yellow", "grey": "against grey", "inconsistent": "against any"},
        "hard": "breaks hard mode",
    }
    return {"player": label} | {title: _text(values[f"{name}_share"], ".1%") for name, title in names.items()}


def _opener_rows(found: Findings) -> list[Row]:
    start = found.solver.candidates(())
    rows = []
    for label, games in found.games.items():
        for word, share in analysis.openers(games):
            rows.append(
                {
                    "player": label,
                    "first guess": word or "(none)",
                    "share of games": f"{share:.1%}",
                    "bits": "–" if word is None else f"{found.solver.bits(word, start):.3f}",
                    "possible answer": "–" if word is None else "yes" if word in found.kinds else "no",
                }
            )
    best, bits = found.solver.best_guess(())
    best_row = {
        "player": "most information",
        "first guess": best,
        "share of games": "–",
        "bits": f"{bits:.3f}",
    }
    return [*rows, {**best_row, "possible answer": "yes" if best in found.kinds else "no"}]


def statements(found: Findings) -> Section | None:
    """Are the words that the models list in their thinking words, possible, and all there are?"""
    checked = {label: thinking.calibration(found.records(label), found.solver) for label in found.models}
    if not any(own.longest for own in checked.values()):
        return None
    rows = [
        {
            "player": label,
            "turns": f"{own.turns:,}",
            "turns that list words": _text(own.stating, ".1%"),
            "longest list": str(own.longest),
            **{
                title: _text(getattr(own, name), ".1%")
                for name, title in (
                    ("words", "are words"),
                    ("consistent", "fit the feedback"),
                    ("distinct", "named once"),
                    ("guessed", "guess is listed"),
                    ("complete", "list is complete"),
                )
            },
        }
        for label, own in checked.items()
    ]
    text = (
        "A model that plans says so truly: the words it spells out in its thinking should be words, fit "
        "all feedback, hold its guess, and be all that is left when few are left."
    )
    figures = {"thinking": plots_analysis.calibration(checked)}
    return Section("Is the thinking true?", text, {"Statements": rows}, figures)


def secrets(found: Findings) -> Section:
    """Which secrets are hard: by their kind, on a map, and the lists of words won and lost."""
    groups = difficulty.kind_groups(found.kinds)
    rows = []
    for (question, group), words in groups.items():
        row = {"secrets": question, "which": group, "number": f"{len(words):,}"}
        for label in found.shown:
            own = analysis.summary(analysis.part_of(found.games[label], words))
            wins = (own["win_rate_low"], own["win_rate_high"])
            row[label] = with_interval(own["win_rate"], wins, ".0%")
        rows.append(row)
    by_word = found_results(found)
    counted = {name: _by_part(found, words) for name, words in lists(found).items()}
    list_rows = [{"list": name, **parts} for name, parts in counted.items()]
    losses = {
        word: sum(min(own[label]) == 0 for label in found.models if label in own) / len(found.models)
        for word, own in by_word.items()
        if word in found.kinds and found.models
    }
    text = (
        "Wins by kinds of secrets. *Rarity of letters* sorts the answers by how common their letters are "
        "among the answers (not by how common the word is in the language: no such frequencies are "
        "shipped); *neighbours* are answers that differ in one letter. The lists name secrets by who won "
        "them; as training states only their training secrets may be used, and only those are written."
    )
    figures = {"word_map": plots_analysis.word_map(found.kinds, losses)} if losses else {}
    return Section("Which secrets are hard?", text, {"Wins by kind": rows, "Lists": list_rows}, figures)


def found_results(found: Findings) -> dict[str, dict[str, list[int]]]:
    """Secret to label to guesses (0 for a loss), as `difficulty.results_by_word`."""
    return difficulty.results_by_word(found.games)


def lists(found: Findings) -> dict[str, list[str]]:
    """`difficulty.word_lists` for the trained models, or for all players where there are none."""
    return difficulty.word_lists(found_results(found), found.models or list(found.games), found.pairs)


def _by_part(found: Findings, words: Sequence[str]) -> Row:
    parts = difficulty.split_name(found.data.split)
    named = [parts.get(word) for word in words]
    titles = {"train": "training secrets", "val": "validation", "heldout": "held out"}
    return {"all": f"{len(words):,}"} | {title: f"{named.count(name):,}" for name, title in titles.items()}


def scoring_rules(found: Findings) -> Section:
    """The same games under the scoring rules of others."""
    train = found.data.split.train
    counted = {label: scoring.rates(found.games[label], train) for label in found.games}
    rows = [
        {"player": label, **{rate.rule: with_interval(rate.value, rate.interval, ".1%") for rate in rates}}
        for label, rates in counted.items()
    ]
    shown = {label: counted[label] for label in found.models or counted}
    meanings = [f"*{rate.rule}*: {rate.meaning}" for rate in next(iter(counted.values()))]
    text = (
        "Rules that others publish results by, written anew from their descriptions or code and run on "
        "these games; only *strict* is a win rate that a player of the real game would recognise. "
        f"{'; '.join(meanings)}. {scoring.farthest(shown)}"
    )
    figures = {"scoring_rules": plots_analysis.scoring(shown)}
    return Section("How would others count it?", text, {"The same games": rows}, figures)


def training(found: Findings) -> Section | None:
    """Training curves of the runs whose logs are kept, with the floor and the ceiling of play."""
    figures = {}
    for run in found.runs:
        lines = bounds(run)
        for stage, draw in (("02_sft", plots.validation_wins), ("03_grpo", plots.refreshed_wins)):
            if rows := log_of(run.folder / stage):
                figures[f"{found.names[run.folder]}_{stage}_wins"] = draw(rows, lines)
    text = (
        "Games won while training. The dashed lines are a player that draws any consistent word, the floor "
        "of whatever heeds its feedback, and best possible play or, where that is not known, the greedy "
        "solver. *Simulated* ones did not play in the run, and were played here, once on every answer."
    )
    return Section("How was it learned?", text, {}, figures) if figures else None


def bounds(run: Evaluated) -> dict[str, float]:
    """Reference lines for games won while training, label to share: the random-consistent player, and best
    possible play or, where that is not known, the greedy solver.

    What a run of Wordle did not play is played on every answer; without its word lists it is left out.
    """
    lines: dict[str, float] = {}
    best = run.metrics.get("optimal/all/win_rate")
    for player, title in (("random_consistent", plots.FLOOR), ("greedy", "greedy solver")):
        if player == "greedy" and best is not None:
            lines[plots.BOUNDS["optimal"]] = best
        elif (rate := run.metrics.get(f"{player}/all/win_rate")) is not None:
            lines[title] = rate
        elif run.data is not None and run.rules.game == Rules.game:
            lines[f"{title} (simulated)"] = _simulated(run.data, player)
    return lines


def _simulated(data: Data, player: str) -> float:
    """The share of all answers that a policy of the solver wins."""
    own = solver_player(solver_for(data.words, data.rules), player)
    games = iter_games(own, data.words.answers, data.words, data.rules, name=player)
    return sum(game["won"] for game in games) / len(data.words.answers)


def minutes(found: Findings) -> Section | None:
    """Minutes of the stages of each run whose files tell, and the games won by then."""
    rows, curves = [], {}
    for run in found.runs:
        stages = costs.stage_minutes(run.folder)
        if not stages:
            continue
        name = found.names[run.folder]
        total = {"all": sum(stages.values())}
        card = read_json(run.folder / max(stages) / "environment.json").get("gpu") or "no GPU"
        taken = {stage: _text((stages | total).get(stage), ".1f") for stage in [*costs.STAGES, *total]}
        rows.append({"run": name, "card": card, **taken})
        curves |= {_curve_name(found, name, what): points for what, points in _curves(found, run).items()}
    text = (
        "Minutes from the opening of a stage's folder, after its imports, to its end, loading and the "
        "control of GRPO included; of a stage that was resumed the last start, and the training of those "
        "before. The curve counts what each model needed, without the control."
    )
    figures = {"wins_by_minutes": plots_analysis.wins_by_minutes(curves)}
    return Section("What did it take?", text, {"Minutes": rows}, figures) if rows else None


def _curves(found: Findings, run: Evaluated) -> dict[str, list[tuple[float, float]]]:
    """What is won, over the minutes of the run: whole splits by model, and validation games."""
    needed, curves = costs.player_minutes(run.folder), {}
    for split in ("all", "heldout"):
        won = {player: run.metrics.get(f"{player}/{split}/win_rate") for player in needed}
        for what, players in (
            ("", ("untrained", "sft", "grpo")),
            (", SFT continued", ("sft", "sft_continued")),
        ):
            points = [(needed[p], won[p]) for p in players if won.get(p) is not None]
            if len(points) > 1:
                curves[f"{split}{what}"] = points
    if points := costs.validations(run.folder):
        curves["validation"] = points
    return curves


def _curve_name(found: Findings, run: str, what: str) -> str:
    return what if len(found.runs) == 1 else f"{what} in {run}"


SECTIONS: dict[str, Callable[[Findings], Section | None]] = {
    "protocol": protocol,
    "results": results,
    "comparisons": comparisons,
    "seeds": over_seeds,
    "endings": endings,
    "turns": turns,
    "statements": statements,
    "secrets": secrets,
    "scoring_rules": scoring_rules,
    "training": training,
    "minutes": minutes,
}


def _text(value: float | None, style: str) -> str:
    return "–" if value is None else format(value, style)
