"""Figures of `analysis`, `inference`, `thinking` and `scoring`, drawn as those of `plots`."""

from collections.abc import Mapping, Sequence
from typing import Any

from wordlelib import plots
from wordlelib.difficulty import Kind
from wordlelib.inference import Comparison, Seeds
from wordlelib.scoring import Rate
from wordlelib.thinking import Calibration

# Shares of people's games by guesses: the mean over 359 secrets, each weighted alike, of the percentages of
# results shared on Twitter from 7 January to 31 December 2022, from the file Problem_C_Data_Wordle of COMAP's
# Mathematical Contest in Modeling 2023, problem C.
PEOPLE = dict(zip("123456X", (0.0047, 0.0584, 0.2273, 0.3293, 0.2364, 0.1156, 0.0281), strict=True))
SIZES = {"won by all": 4, "lost by some": 7, "lost by all": 10}
SHADES = ("#c8ccd1", "#E69F00", "#24292f")  # light, middle and dark, also in grey


def histogram(counts: Mapping[str, Mapping[str, int]], people: Mapping[str, float] | None = None) -> Any:
    """Share of each player's games by the guesses used, X for lost ones. counts: player to
    `analysis.histogram`. people: `PEOPLE` where the game is theirs."""
    caption = (
        "Mass towards the left is better; X is the share of lost games. Bars stand in the order of the "
        "legend; the greedy solver shows what the feedback allows."
    )
    if people:
        counts = {**counts, "people": people}
        caption += (
            " People: results shared on Twitter in 2022, mean over 359 secrets (data of COMAP's MCM 2023, "
            "problem C); who shares is no random sample, and some words are outside these lists."
        )
    return plots.histogram(counts, caption)


def survival(curves: Mapping[str, Sequence[float]]) -> Any:
    """Share of games not yet won by turn; player to `analysis.survival`."""
    traces = [
        plots.line_trace(name, list(range(len(shares))), shares, plots.player_colour(name, number), number)
        for number, (name, shares) in enumerate(curves.items())
    ]
    return plots.new_figure(
        traces,
        "Games not yet won",
        "turns taken",
        "share of games",
        "Each line falls by the games won in that turn; where it ends is the share of lost games. A line "
        "that is flat at the end means that more turns would not have helped.",
        x_axis={"range": [0, max((len(shares) for shares in curves.values()), default=2) - 1]},
        y_axis=plots.SHARES,
    )


def by_turn(curves: Mapping[str, Sequence[float | None]], title: str, unit: str, caption: str) -> Any:
    """A mean by turn of each player (None: no game came so far), in `unit`."""
    traces = []
    for number, (name, values) in enumerate(curves.items()):
        points = [(turn, value) for turn, value in enumerate(values, 1) if value is not None]
        colour = plots.player_colour(name, number)
        traces.append(plots.line_trace(name, [t for t, _ in points], [v for _, v in points], colour, number))
    highest = [value for trace in traces for value in trace["y"]]
    turns = max((len(values) for values in curves.values()), default=1)
    return plots.new_figure(
        traces,
        title,
        "turn",
        unit,
        caption,
        x_axis={"range": [0.8, turns + 0.2]},
        y_axis={"range": plots.axis_range(highest)},
    )


def wins_by_minutes(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Any:
    """Share of games won by the minutes that it took; label to points (minutes, share) in order."""
    traces = [
        plots.line_trace(
            label, [x for x, _ in points], [y for _, y in points], plots.PALETTE[k % len(plots.PALETTE)], k
        )
        for k, (label, points) in enumerate(curves.items())
    ]
    return plots.new_figure(
        traces,
        "What the minutes bought",
        "minutes since the start of the data",
        "games won",
        "Higher and further left is better. Dots of whole splits are the evaluated models: untrained, after "
        "SFT, after GRPO, or after more SFT instead. Validation games, few at once, are from the training.",
        x_axis={"range": [0, 1.05 * max((x for points in curves.values() for x, _ in points), default=1)]},
        y_axis=plots.SHARES,
    )


def regret(curves: Mapping[str, Sequence[float | None]]) -> Any:
    """Bits forgone by turn; player to `analysis.mean_by_turn` of `analysis.regret`."""
    return by_turn(
        curves,
        "Regret of each turn",
        "bits less than the best guess",
        "How much information the best guess of the same state was expected to give beyond the one made; 0 "
        "is perfect, one bit is half of the words that would have been ruled out. Late turns are those of "
        "hard games only.",
    )


def bits(curves: Mapping[str, Sequence[float | None]]) -> Any:
    """Bits gained by turn; player to `analysis.mean_by_turn` of `analysis.bits_gained`."""
    return by_turn(
        curves,
        "Information of each turn",
        "bits gained",
        "One bit halves the words that are still possible. It must fall, since fewer words are left to tell "
        "apart; a turn that is malformed or no word gains nothing.",
    )


def calibration(found: Mapping[str, Calibration]) -> Any:
    """Are the words that a model lists in its thinking words, possible, distinct, played and complete?"""
    names = ("words", "consistent", "distinct", "guessed", "complete")
    labels = ("are words", "fit the feedback", "named once", "guess is listed", "list is complete")
    shares = {
        player: {label: getattr(values, name) for name, label in zip(names, labels, strict=True)}
        for player, values in found.items()
    }
    return plots.new_figure(
        _known_bars(shares),
        "What the thinking states",
        "",
        "share",
        "Of the words spelled out in the thinking, the shares that are in the dictionary, fit all feedback "
        "and are not named twice in a turn; of the turns, those whose guess was listed, and those that "
        "list every word still possible where no more were left than the model lists at most. Bars stand in "
        "the order of the legend.",
        x_axis={"type": "category"},
        y_axis=plots.SHARES,
        missing="no words are spelled out in the thinking",
    )


def word_map(kinds: Mapping[str, Kind], losses: Mapping[str, float]) -> Any:
    """Secrets by the rarity of their letters and their neighbours. losses: secret to the share of players
    that lost it."""
    groups: dict[str, list[str]] = {name: [] for name in SIZES}
    for word, share in losses.items():
        groups["won by all" if not share else "lost by all" if share == 1 else "lost by some"].append(word)
    traces = []
    for (name, words), shade in zip(groups.items(), SHADES, strict=True):
        if words:
            dots = {"mode": "markers", "marker": {"size": SIZES[name], "color": shade}, "text": words}
            x, y = (
                [100 * kinds[word].letter_commonness for word in words],
                [kinds[word].neighbours for word in words],
            )
            traces.append({**plots.line_trace(name, x, y, shade, 0), **dots, "hoverinfo": "text"})
    shown = [kinds[word] for word in losses]
    commonness = [100 * kind.letter_commonness for kind in shown] or [0, 1]
    return plots.new_figure(
        traces,
        "Where the hard secrets lie",
        "rarity of letters: mean share of the answers that have them (%)",
        "neighbours: answers one letter apart",
        "Each dot is a secret, larger and darker the more players lost it. High up, a pattern such as "
        "_IGHT fits many words; on the left stand rare letters. It is about letters in the list, not about "
        "how rare a word is.",
        x_axis={"range": [min(commonness) - 1, max(commonness) + 1]},
        y_axis={"range": [-0.5, max((kind.neighbours for kind in shown), default=1) + 1]},
        height=420,
    )


def forest(found: Mapping[str, Comparison]) -> Any:
    """Differences of wins with their intervals; label (`first - second`) to the comparison."""
    rows = {
        name: ([100 * value.wins], *(100 * end for end in value.wins_interval))
        for name, value in found.items()
    }
    return _intervals(
        rows,
        "Differences between players",
        "difference of games won (percentage points)",
        "The dot is the share of games that the first player wins beyond the second on the same secrets, the "
        "line its 95% bootstrap interval. A line that touches zero tells neither from the other.",
        {"no difference": 0.0},
    )


def seeds(found: Mapping[str, Seeds]) -> Any:
    """Runs of one recipe that differ in their seeds: win rates as points, with a line over their range."""
    rows = {name: ([100 * v for v in s.values], 100 * s.low, 100 * s.high) for name, s in found.items()}
    return _intervals(
        rows,
        "The same recipe with other seeds",
        "games won (%)",
        "Each dot is a run, the line their range. Two recipes differ only if the gap between them is "
        "larger than what the seed alone changes.",
        {},
    )


def scoring(rates: Mapping[str, Sequence[Rate]]) -> Any:
    """What each scoring rule makes of the same games; player to its `scoring.rates`."""
    return plots.new_figure(
        _known_bars({player: {rate.rule: rate.value for rate in found} for player, found in rates.items()}),
        "The same games under other scoring rules",
        "",
        "share of games, or mean reward",
        "The first group is the strict win rate. All others are the same games, counted as other projects "
        "count them; the taller the bar beside the strict one, the more the rule flatters. Bars stand in the "
        "order of the legend.",
        x_axis={"type": "category"},
        y_axis=plots.SHARES,
    )


def _known_bars(shares: Mapping[str, Mapping[str, float | None]]) -> list[dict[str, Any]]:
    """A trace of bars for each player, of the values that are known."""
    traces = []
    for number, (player, own) in enumerate(shares.items()):
        known = {name: value for name, value in own.items() if value is not None}
        bars = plots.bar_trace(list(known), list(known.values()), plots.player_colour(player, number))
        traces.append({**bars, "name": player})
    return traces


def _intervals(
    rows: Mapping[str, tuple[Sequence[float], float, float]],
    title: str,
    unit: str,
    caption: str,
    lines: Mapping[str, float],
) -> Any:
    """Points of each row over a line from its low to its high end."""
    traces = []
    for name, (points, low, high) in rows.items():
        span = plots.line_trace("", [low, high], [0, 0], plots.svg.FAINT, 0)
        dots = plots.line_trace("", list(points), [0] * len(points), plots.svg.INK, 0)
        for trace, mode in ((span, "lines"), (dots, "markers")):
            traces.append({**trace, "mode": mode, "y": [name] * len(trace["x"]), "showlegend": False})
            traces[-1]["marker"] = {"size": 9, "color": plots.svg.INK}
    ends = [end for _, low, high in rows.values() for end in (low, high)] + list(lines.values())
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = (high - low) * 0.1 or 1.0
    return plots.new_figure(
        traces,
        title,
        unit,
        "",
        caption,
        x_axis={"range": [low - room, high + room]},
        y_axis=plots.NAMES_DOWN,
        height=130 + 34 * max(len(rows), 1),
        lines=lines,
        upright=True,
    )
