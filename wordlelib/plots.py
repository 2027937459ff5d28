"""Figures of training, games and comparisons, each with one line on how to read it.

Every function takes plain lists and dictionaries (rows of `log.jsonl`, game records, summaries) and
returns a plotly figure; `show` puts it into a notebook, `save` into a folder. A column that a log
does not have is left out of the figure. Colours are those of Okabe and Ito, told apart by people
with any kind of colour vision; series also differ in dashes or stand under their names.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wordlelib import evaluate, svg, sweep_results
from wordlelib.runs import write_text

Row = Mapping[str, Any]
Record = Mapping[str, Any]
Games = Mapping[str, Sequence[Record]]
References = Mapping[str, float]

# The forms in which `show` puts a figure into a notebook, for front ends that draw it and for all others.
PLOTLY_FORM = "application/vnd.plotly.v1+json"
SVG_FORM = "image/svg+xml"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#000000")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
PLAYER_COLOURS = {
    "untrained": "#999999",
    "sft": "#56B4E9",
    "sft_continued": "#0072B2",
    "grpo": "#D55E00",
    "random_consistent": "#CC79A7",
    "greedy": "#009E73",
    "people": "#000000",
}
SHARES = {"range": [0, 1.08], "tickformat": ".0%"}
SMOOTH_FROM = 40  # a series with more points is drawn as its running mean over its faint points
NAMES_DOWN = {"type": "category", "autorange": "reversed"}
FLOOR = "random-consistent"
BOUNDS = {"random_consistent": FLOOR, "optimal": "best possible"}


# Training ---------------------------------------------------------------------------------------


def sft_loss(rows: Iterable[Row]) -> Any:
    """Training and validation loss of SFT by step (nats per completion token)."""
    return _curves(
        rows,
        {"loss": "training", "eval_loss": "validation"},
        "SFT loss",
        "loss",
        "Lower is better. Validation turning up while training goes on down means the model now learns "
        "its training rows by heart.",
    )


def validation_wins(rows: Iterable[Row], references: References | None = None) -> Any:
    """Share of validation games won in training by step (`val_win_rate`)."""
    return _curves(
        rows,
        {"val_win_rate": "validation games won"},
        "Games won on validation secrets",
        "games won",
        "Share of games that the model wins on secrets it was not trained on; more training no longer pays "
        "when this no longer rises. It counts won games, no part credit." + _without_floor(references),
        SHARES,
        references,
    )


def _without_floor(references: References | None) -> str:
    """Said where lines are drawn, and that of the random-consistent player is not among them."""
    missing = references is not None and not any(name.startswith(FLOOR) for name in references)
    return f" The floor, a {FLOOR} player, is not known for this run." if missing else ""


def reward(rows: Iterable[Row], references: References | None = None) -> Any:
    """Mean reward of GRPO and its spread inside a group by step."""
    return _curves(
        rows,
        {"reward": "mean reward", "reward_std": "spread"},
        "GRPO reward",
        "reward",
        "The reward is part credit in units of its own, never a win rate. Without spread between the "
        "completions of a state there is nothing left to learn from.",
        references=references,
    )


def reward_terms(rows: Iterable[Row]) -> Any:
    """Mean of every reward term (`rewards/<term>/mean`) by step."""
    rows = list(rows)
    columns = dict.fromkeys(name for row in rows for name in row)
    terms = {
        name: name.removeprefix("rewards/").removesuffix("/mean")
        for name in columns
        if name.startswith("rewards/") and name.endswith("/mean")
    }
    return _curves(
        rows,
        terms,
        "Reward by term",
        "mean of the term",
        "Shows what the reward is made of: a term that climbs alone while the others stand still is being "
        "gamed.",
    )


def group_signal(rows: Iterable[Row]) -> Any:
    """Shares by step: groups without any spread of rewards, distinct completions in a group, and the
    most frequent guess among all."""
    columns = {
        "frac_reward_zero_std": "groups without spread",
        "distinct_completions": "distinct in a group",
        "top_guess_share": "most frequent guess",
    }
    return _curves(
        rows,
        columns,
        "Is there a signal to learn from?",
        "share",
        "A group whose rewards are all equal teaches nothing: above 50% most of the work is wasted. One "
        "guess above 30% is the start of the classic collapse onto a favourite word.",
        SHARES,
    )


def completion_quality(rows: Iterable[Row]) -> Any:
    """Shares of completions by step: well formed, non-words, cut off, and right answers to clues."""
    columns = {
        "format_share": "well formed",
        "legal_share": "a legal word",
        "nonword_share": "not a word",
        "completions/clipped_ratio": "cut off",
        "clues_right": "fits its clue",
        "asked_clues_right": "fits the clues asked for mistakes",
    }
    return _curves(
        rows,
        columns,
        "What the completions look like",
        "share of completions",
        "Well formed should stay near 100%; non-words are the main way to lose a turn; completions that are "
        "cut off never reach their guess.",
        SHARES,
    )


def refreshed_wins(rows: Iterable[Row], references: References | None = None) -> Any:
    """Share of the policy's own games won while training (`games_win_rate`): those that make new states,
    or the rollouts of `unit: game`."""
    return _curves(
        rows,
        {"games_win_rate": "games won"},
        "Games won while training",
        "games won",
        "Games that the policy plays on training secrets while it trains. They are sampled at the "
        "training temperature, so do not compare them with an evaluation that plays greedily."
        + _without_floor(references),
        SHARES,
        references,
    )


def cumulative_wins(rows: Iterable[Row]) -> Any:
    """Wins of the policy's own games while it trains, summed up (`games_win_rate`, `games_played`).

    The dashed line goes on at the rate of the first round, which is played before the first step.
    """
    wins, played = [0.0], [0]
    for row in rows:
        if _is_number(row.get("games_win_rate")) and _is_number(row.get("games_played")):
            played.append(played[-1] + row["games_played"])
            wins.append(wins[-1] + row["games_win_rate"] * row["games_played"])
    traces = []
    if len(played) > 1:
        pace = [wins[1] / played[1] * n for n in (0, played[-1])]
        traces = [
            line_trace("games won", played, wins, PALETTE[0], 0),
            line_trace("pace of the first round", [0, played[-1]], pace, svg.FAINT, 1),
        ]
    return new_figure(
        traces,
        "Wins so far while training",
        "games played",
        "games won",
        "The slope is the win rate at that moment: above the dashed line the policy wins more games than it "
        "did before the first step.",
        x_axis={"range": [0, played[-1] or 1]},
        y_axis={"range": axis_range(wins)},
        missing="not in this log: games_win_rate, games_played",
    )


def memory(rows: Iterable[Row]) -> Any:
    """Resident memory of the training process by step (`resident_gib`)."""
    rows = list(rows)
    most = max((row["resident_gib"] for row in rows if _is_number(row.get("resident_gib"))), default=1.0)
    return _curves(
        rows,
        {"resident_gib": "resident memory"},
        "Memory while training",
        "GiB",
        "It rises while things are made and is flat from then on. A line that rises to the end of a long run "
        "is a leak: `max_memory_gb` restarts the training before it takes the machine.",
        {"range": [0, 1.1 * most]},
    )


# Games and players ------------------------------------------------------------------------------


def summaries(metrics: Row, split: str = "all") -> dict[str, dict[str, Any]]:
    """Player to its metrics on one split, from flat metrics `<player>/<split>/<metric>`."""
    players: dict[str, dict[str, Any]] = {}
    for key, value in metrics.items():
        player, _, rest = key.partition("/")
        if rest.startswith(f"{split}/"):
            players.setdefault(player, {})[rest.removeprefix(f"{split}/")] = value
    return players


def bounds(summaries: Mapping[str, Row], metric: str) -> dict[str, float]:
    """Reference lines for a metric: the random-consistent player (the floor of anything that heeds its
    feedback) and best possible play, each where it is known."""
    named = {BOUNDS[player]: summary.get(metric) for player, summary in summaries.items() if player in BOUNDS}
    return {name: value for name, value in named.items() if value is not None}


def win_rates(summaries: Mapping[str, Row]) -> Any:
    """Win rate of each player with its 95% Wilson interval, and the line of the random-consistent player.

    summaries: player to a dictionary with win_rate, win_rate_low, win_rate_high (shares); a player
    without a win rate is left out.
    """
    players = _players_with(summaries, "win_rate")
    rates, lows, highs = (
        [summaries[name][key] for name in players] for key in ("win_rate", "win_rate_low", "win_rate_high")
    )
    bars = _player_bars(players, rates)
    bars["error_x"] = _whiskers(rates, lows, highs)
    return new_figure(
        [bars],
        "Games won",
        "games won",
        "",
        "The whisker is the 95% Wilson interval; dashed lines are what merely consistent guesses and best "
        "possible play win, where known. "
        "Players on the same secrets are compared by the paired test, which sees differences that "
        "overlapping whiskers hide.",
        x_axis={**SHARES, "range": [0, 1.15]},
        y_axis=NAMES_DOWN,
        height=110 + 44 * max(len(players), 1),
        lines=bounds(summaries, "win_rate"),
        upright=True,
    )


def mean_guesses(summaries: Mapping[str, Row]) -> Any:
    """Mean guesses of each player (mean_guesses_loss7: a game lost in six counts seven), with the lines
    of the random-consistent player and of best possible play where it is known."""
    players = _players_with(summaries, "mean_guesses_loss7")
    means = [summaries[name]["mean_guesses_loss7"] for name in players]
    return new_figure(
        [
            {
                **_player_bars(players, means),
                "text": [f"{mean:.2f}" for mean in means],
                "textposition": "outside",
            }
        ],
        "Mean guesses (lost = 7)",
        "guesses",
        "",
        "Shorter is better, down to the line of best possible play where it is known (3.42 on the whole "
        "list). Unlike the mean over won games, this cannot be improved by losing the hard ones.",
        x_axis={"range": axis_range(means)},
        y_axis=NAMES_DOWN,
        height=110 + 44 * max(len(players), 1),
        lines=bounds(summaries, "mean_guesses_loss7"),
        upright=True,
    )


def guess_histogram(games: Games, turns: int = 6) -> Any:
    """Share of each player's games by the number of guesses used, X for lost games."""
    return histogram(
        {player: evaluate.guess_histogram(records, turns) for player, records in games.items()},
        "Mass towards the left is better; X is the share of lost games. The greedy solver shows what the "
        "feedback allows.",
    )


def histogram(counts: Mapping[str, Mapping[str, float]], caption: str) -> Any:
    """Bars of shares of games; counts: player to guesses (`1`, `2`, …, `X`) to games or their shares."""
    traces = []
    for number, (player, own) in enumerate(counts.items()):
        shares = [count / (sum(own.values()) or 1) for count in own.values()]
        traces.append({**bar_trace(list(own), shares, player_colour(player, number)), "name": player})
    return new_figure(
        traces,
        "Guesses that a game takes",
        "guesses (X: lost)",
        "share of games",
        caption,
        x_axis={"type": "category"},
        y_axis={"tickformat": ".0%", "range": axis_range([y for trace in traces for y in trace["y"]])},
    )


def frequent_guesses(records: Sequence[Record], player: str, n: int = 15) -> Any:
    """The `n` guesses that a player plays most, as first guess of a game and later: times per game."""
    first, later, legal = Counter(), Counter(), set()
    for record in records:
        for number, turn in enumerate(record["turns"]):
            if turn["guess"] is not None:
                (later if number else first)[turn["guess"]] += 1
                if turn["feedback"] is not None:
                    legal.add(turn["guess"])
    counts = first + later
    top = sorted(counts, key=lambda word: (-counts[word], word))[:n]
    names = [word if word in legal else f"{word} (not accepted)" for word in top]
    parts = {"first guess": (first, PALETTE[0]), "later guess": (later, PALETTE[4])}
    total = max(len(records), 1)
    traces = [
        {**bar_trace(names, [part[word] / total for word in top], colour, flat=True), "name": name}
        for name, (part, colour) in parts.items()
    ]
    return new_figure(
        traces,
        f"Most frequent guesses of {player}",
        "times per game",
        "",
        "A good player repeats its opener and little else. A long later part is a favourite word, played "
        "whatever the feedback says.",
        x_axis={"range": axis_range([counts[word] / total for word in top])},
        y_axis=NAMES_DOWN,
        height=120 + 22 * max(len(top), 1),
        barmode="stack",
    )


def hardest_words(games: Games, n: int = 20) -> Any:
    """The `n` secrets with most guesses over all players (a loss counts one more than its turns)."""
    guesses: dict[str, list[int]] = {}
    losses: Counter[str] = Counter()
    for records in games.values():
        for record in records:
            guesses.setdefault(record["secret"], []).append(evaluate.guesses_or_loss(record))
            losses[record["secret"]] += not record["won"]
    means = {secret: sum(counts) / len(counts) for secret, counts in guesses.items()}
    top = sorted(means, key=lambda secret: (-means[secret], secret))[:n]
    bars = bar_trace(top, [means[secret] for secret in top], PALETTE[1], flat=True)
    text = [f"lost {losses[secret]} of {len(guesses[secret])}" for secret in top]
    return new_figure(
        [{**bars, "text": text, "textposition": "outside"}],
        "Hardest secrets",
        "mean guesses over players, a loss as one more than its turns",
        "",
        "Words with many neighbours (one letter changed gives another word) and repeated letters are hard "
        "for every player.",
        x_axis={"range": [0, 1.2 * max(means.values(), default=1)]},
        y_axis=NAMES_DOWN,
        height=120 + 22 * max(len(top), 1),
    )


def information(bits: Mapping[str, float]) -> Any:
    """Expected information of some guesses (word to bits), in the given order."""
    bars = bar_trace(list(bits), list(bits.values()), PALETTE[0], flat=True)
    return new_figure(
        [{**bars, "text": [f"{value:.3f}" for value in bits.values()], "textposition": "outside"}],
        "Information of a guess",
        "bits",
        "",
        "One bit halves the words that are still possible: a guess of 5 bits leaves one in 32 on average "
        "(geometric mean).",
        x_axis={"range": axis_range(bits.values())},
        y_axis=NAMES_DOWN,
        height=110 + 26 * max(len(bits), 1),
    )


# Sweeps -----------------------------------------------------------------------------------------


def sweep_figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Name to figure for the rows of a `sweep.csv`; none when fewer than two trials can be compared."""
    try:
        metric = sweep_results.objective(rows)
    except ValueError:
        return {}
    if len(sweep_results.measured(rows, metric)) < 2:
        return {}
    figures = {"parallel_coordinates": parallel_coordinates(rows, metric)}
    if found := sweep_results.effects(rows, metric):
        figures["setting_effects"] = setting_effects(found, metric)
    return figures


def parallel_coordinates(rows: Sequence[Row], metric: str) -> Any:
    """One line a trial across an axis for each setting and, last, the metric.

    Every axis runs from its least value to its greatest; a setting of texts or of up to six values has them
    evenly spaced. The axes name both ends; a point names its trial and value on a pointer.
    """
    rows = sorted(sweep_results.measured(rows, metric), key=lambda row: row[metric])
    names = [*sweep_results.settings_of(rows), metric]
    places = {name: _axis_places([row[name] for row in rows], even=name != metric) for name in names}
    ends = {
        name: f"{name.rpartition('.')[2]}: {_end(min(at, key=at.get))} to {_end(max(at, key=at.get))}"
        for name, at in places.items()
    }
    traces = []
    for number, row in enumerate(rows):
        # from grey, the worst, to orange, the best
        share = number / max(len(rows) - 1, 1)
        best_one = number == len(rows) - 1
        line = line_trace(
            str(row["trial"]) if best_one else "",
            [ends[name] for name in names],
            [places[name][row[name]] for name in names],
            PALETTE[1] if best_one else _between("#c8ccd1", PALETTE[0], share),
            0,
        )
        text = [f"{row['trial']}<br>{name}: {row[name]}" for name in names]
        traces.append({**line, "text": text, "hoverinfo": "text", "showlegend": False})
    return new_figure(
        traces,
        "Trials by their settings",
        "",
        "from the lower end (0) to the upper (1)",
        "Each line is a trial: follow those that end high on the last axis back to their settings. Grey is "
        f"worst, blue better, orange the best ({rows[-1]['trial']}).",
        x_axis={"type": "category"},
        y_axis={"range": [-0.05, 1.05]},
        height=420,
    )


def _axis_places(values: Sequence[Any], even: bool) -> dict[Any, float]:
    """Where each value lies on an axis from 0 to 1."""
    numeric = all(_is_number(value) for value in values)
    different = sorted(set(values)) if numeric else list(dict.fromkeys(values))
    if len(different) == 1:
        return {different[0]: 0.5}
    if not numeric or (even and len(different) <= 6):
        return {value: number / (len(different) - 1) for number, value in enumerate(different)}
    low, high = different[0], different[-1]
    return {value: (value - low) / (high - low) for value in different}


def _end(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _between(first: str, second: str, share: float) -> str:
    """A colour between two."""
    parts = [(int(first[k : k + 2], 16), int(second[k : k + 2], 16)) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in parts)


def setting_effects(effects: Sequence[Row], metric: str) -> Any:
    """Bars of `sweep_results.effects`: what each value of each setting changes, with whiskers."""
    known = [row for row in effects if row["low"] is not None] or list(effects)
    names = [f"{row['setting'].partition('.')[2]} {row['value']} (not {row['against']})" for row in known]
    values = [row["difference"] for row in known]
    lows = [row["low"] if row["low"] is not None else row["difference"] for row in known]
    highs = [row["high"] if row["high"] is not None else row["difference"] for row in known]
    bars = bar_trace(names, values, PALETTE[0], flat=True)
    bars["error_x"] = _whiskers(values, lows, highs)
    ends = [0.0, *lows, *highs]
    room = (max(ends) - min(ends)) * 0.1 or 1.0
    return new_figure(
        [bars],
        "What each setting changes",
        f"change of {metric}",
        "",
        "The difference to the trials with the setting's first value; the whisker is its 95% interval. One "
        "that crosses zero is no evidence of an effect.",
        x_axis={"range": [_short(min(ends) - room), _short(max(ends) + room)]},
        y_axis=NAMES_DOWN,
        height=120 + 40 * max(len(names), 1),
        lines={"no change": 0.0},
        upright=True,
    )


# Showing and saving -----------------------------------------------------------------------------


def caption(fig: Any) -> str:
    """The line on how to read a figure of this module."""
    return fig.layout.meta["caption"]


def show(fig: Any) -> None:
    """Show a figure in a notebook with its caption, in a form that works everywhere without network.

    The output holds the figure for front ends that draw plotly themselves (JupyterLab, VS Code) and
    a static SVG for all others (converted HTML, code hosts), but not the plotly library: a notebook
    grows by some kilobytes a figure instead of five megabytes.
    """
    from IPython.display import Markdown, display

    bundle = {
        PLOTLY_FORM: {**_plain(fig), "config": {"displaylogo": False}},
        SVG_FORM: svg.figure_svg(fig),
        "text/plain": f"Figure: {fig.layout.title.text}",
    }
    display(bundle, raw=True)
    display(Markdown(f"*How to read it: {caption(fig)}*"))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="margin:1em;font-family:{font};color:{ink};background:#fff">
<div id="{name}">
{picture}</div>
<p><em>How to read it: {caption}</em></p>
<script charset="utf-8" src="{library}"></script>
<script>
if (window.Plotly) {{
  document.getElementById("{name}").replaceChildren();
  Plotly.newPlot("{name}", {{...{figure}, config: {{responsive: true, displaylogo: false}}}});
}}
</script></body></html>
"""


def save(fig: Any, folder: str | Path, name: str, library: str = "plotly.min.js") -> list[Path]:
    """Write `<name>.html` (interactive), `<name>.svg`, and `<name>.png` where an exporter works.

    All pages load one copy of the plotly library: `library`, a path relative to `folder`, is written
    when it is not there. Without it a page still shows the static picture. The same figure gives the
    same bytes. Returns the paths of the figure's files.
    """
    from html import escape

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _share_library(folder / library)
    picture = svg.figure_svg(fig)
    page = PAGE.format(
        title=escape(fig.layout.title.text),
        font=svg.FONT,
        ink=svg.INK,
        name=escape(name),
        picture=picture,
        caption=escape(caption(fig)),
        library=escape(library),
        # `<` is escaped so that no text of a figure can end the script
        figure=fig.to_json().replace("<", "\\u003c"),
    )
    paths = [folder / f"{name}.html", folder / f"{name}.svg"]
    for path, text in zip(paths, (page, picture), strict=True):
        write_text(path, text)
    return paths + save_png(fig, folder, name)


def save_png(fig: Any, folder: Path, name: str) -> list[Path]:
    """Write `<name>.png` where an exporter works; the path, or nothing, which is said once."""
    if not _png_works():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    fig.write_image(path, scale=2)
    return [path]


def _share_library(path: Path) -> None:
    from plotly.offline import get_plotlyjs

    if not path.is_file():
        write_text(path, get_plotlyjs())


@cache
def _png_works() -> bool:
    """Whether plotly can export pictures here (kaleido and a browser for it); says once if not."""
    import plotly.graph_objects as go

    try:
        go.Figure().to_image("png")
    except Exception:  # kaleido, the browser it needs, and plotly's own checks fail in many ways
        print("PNG pictures are skipped: kaleido, plotly's exporter, is not installed or does not work here")
        return False
    return True


# Building blocks --------------------------------------------------------------------------------


def _curves(
    rows: Iterable[Row],
    columns: Mapping[str, str],
    title: str,
    y_title: str,
    caption: str,
    y_axis: Mapping[str, Any] | None = None,
    references: References | None = None,
) -> Any:
    """One line a column (column to label) over the step; columns that no row has are left out."""
    rows = list(rows)
    traces = []
    for number, (column, name) in enumerate(columns.items()):
        points = [(row["step"], row[column]) for row in rows if _is_number(row.get(column))]
        if not points:
            continue
        steps, values = [step for step, _ in points], [value for _, value in points]
        line = line_trace(name, steps, values, PALETTE[number % len(PALETTE)], number)
        if len(points) > SMOOTH_FROM:
            faint = {**line, "mode": "markers", "opacity": 0.2, "showlegend": False}
            traces.append({**faint, "marker": {"size": 4, "color": line["line"]["color"]}})
            line["y"] = running_mean(values, max(3, len(values) // 20))
        traces.append(line)
    values = [y for trace in traces for y in trace["y"]] + list((references or {}).values())
    steps = [x for trace in traces for x in trace["x"]]
    if any(not trace.get("showlegend", True) for trace in traces):
        caption += " Dots are single steps, the line is their running mean."
    return new_figure(
        traces,
        title,
        "step",
        y_title,
        caption,
        x_axis={"range": [0, max(steps, default=1) or 1]},
        y_axis=y_axis or {"range": axis_range(values)},
        lines=references,
        missing=f"not in this log: {', '.join(columns) or 'reward terms'}",
    )


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Mean of each value and the `window - 1` before it (fewer at the start)."""
    means = []
    for end in range(1, len(values) + 1):
        part = values[max(0, end - window) : end]
        means.append(_short(sum(part) / len(part)))
    return means


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _whiskers(values: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> dict[str, Any]:
    """Plotly's error bars from `lows` to `highs` around `values`."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [_short(high - value) for high, value in zip(highs, values, strict=True)],
        "arrayminus": [_short(value - low) for low, value in zip(lows, values, strict=True)],
        "color": svg.INK,
        "width": 4,
    }


def _short(value: float) -> float:
    """Five significant digits: more only make files larger."""
    return float(f"{value:.5g}")


def axis_range(values: Iterable[float]) -> list[float]:
    """The range of an axis: from 0 (or a little below the least value) to a little above the greatest."""
    low, high = min([0.0, *values]), max([0.0, *values])
    room = (high - low) * 0.12 or 1.0
    return [_short(low - room if low < 0 else 0.0), _short(high + room)]


def _players_with(summaries: Mapping[str, Row], metric: str) -> list[str]:
    """Players whose metric is known; best possible play is a line, no bar."""
    return [
        name for name, summary in summaries.items() if name != "optimal" and summary.get(metric) is not None
    ]


def _player_bars(players: list[str], values: Sequence[float]) -> dict:
    return bar_trace(
        players, values, [player_colour(player, k) for k, player in enumerate(players)], flat=True
    )


def player_colour(player: str, number: int) -> str:
    """The colour of a known player, else that of its number."""
    return PLAYER_COLOURS.get(player, PALETTE[number % len(PALETTE)])


def line_trace(name: str, x: list, y: Sequence[float], colour: str, number: int) -> dict:
    """A line, with dots where points are few; `number` chooses its dashes."""
    mode = "lines+markers" if 1 <= len(x) <= SMOOTH_FROM else "lines"
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": x,
        "y": [_short(value) for value in y],
        "line": {"color": colour, "dash": DASHES[number % len(DASHES)], "width": 2.5},
        "marker": {"size": 6, "color": colour},
    }


def bar_trace(
    names: list[str], values: Sequence[float], colours: str | list[str], flat: bool = False
) -> dict:
    """Bars over their names, or `flat` beside them."""
    values = [_short(value) for value in values]
    x, y = (values, names) if flat else (names, values)
    bars = {"type": "bar", "x": x, "y": y, "marker": {"color": colours}}
    return {**bars, "orientation": "h"} if flat else bars


def new_figure(
    traces: list[dict],
    title: str,
    x_title: str,
    y_title: str,
    caption: str,
    x_axis: Mapping[str, Any],
    y_axis: Mapping[str, Any],
    height: int = 380,
    barmode: str = "group",
    lines: References | None = None,
    upright: bool = False,
    missing: str = "no data",
) -> Any:
    """A figure in the workbook's style. lines: label to the value of a reference line."""
    import plotly.graph_objects as go

    across, along = ("x", "y") if upright else ("y", "x")
    shapes = [
        {
            "type": "line",
            f"{across}ref": across,
            f"{across}0": value,
            f"{across}1": value,
            f"{along}ref": "paper",
            f"{along}0": 0,
            f"{along}1": 1,
            "line": {"color": svg.FAINT, "dash": "dash", "width": 1.5},
            "label": {"textangle": 0, "font": {"size": 11}, **_label(label, number, upright)},
        }
        for number, (label, value) in enumerate((lines or {}).items())
    ]
    style = {"showgrid": True, "gridcolor": svg.GRID, "zeroline": False, "linecolor": svg.FAINT}
    plain = {**style, "showgrid": False}
    note = {"text": missing, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    layout = {
        "template": {},
        "title": {"text": title, "x": 0.02, "font": {"size": 17, "weight": 600}},
        "meta": {"caption": caption},
        "font": {"family": svg.FONT, "size": 12, "color": svg.INK},
        "paper_bgcolor": svg.PAPER,
        "plot_bgcolor": svg.PAPER,
        "height": height,
        "margin": {"t": 56, "r": 24, "b": 52},
        "barmode": barmode,
        "bargap": 0.25,
        "legend": {"traceorder": "normal"},
        "showlegend": sum(bool(t.get("name")) and t.get("showlegend", True) for t in traces) > 1,
        "shapes": shapes,
        "annotations": [] if any(trace["x"] for trace in traces) else [note],
    }
    for side, text, axis in (("xaxis", x_title, x_axis), ("yaxis", y_title, y_axis)):
        grid = plain if axis.get("type") == "category" else style
        layout[side] = {"title": {"text": text}, "automargin": True, **grid, **axis}
    return go.Figure({"data": traces, "layout": layout})


def _label(text: str, number: int, upright: bool) -> dict[str, str]:
    """Text and place of a reference line's label, so that lines close together keep theirs apart: of upright
    lines each a row above the one before, of others in turn below at the right and above at the left."""
    if upright:
        return {"text": text + "<br>\u00a0" * number, "textposition": "end"}
    if number % 2:
        return {"text": text, "textposition": "start", "xanchor": "left", "yanchor": "bottom"}
    return {"text": text, "textposition": "end", "xanchor": "right", "yanchor": "top"}


def _plain(fig: Any) -> dict:
    """The figure as plain JSON values."""
    import json

    return json.loads(fig.to_json())
