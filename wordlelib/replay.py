"""Boards to look at and to play on: safe static HTML, an SVG picture, and widgets made of the same.

Whatever comes from a model is text, never markup: it is escaped, cut and freed of invisible marks
before it is shown. Colours are blue, amber and grey, and every letter also carries a mark, so that
no board depends on seeing colour.

Widgets need a person in front of a notebook. `has_front_end` is true in kernels that JupyterLab,
Jupyter Notebook, VS Code or Colab started; elsewhere (papermill, nbconvert, nbval, plain Python)
`play_widget` and `replay_widget` return a static page instead. Nothing ever waits for input.
"""

import os
import random
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from wordlelib import evaluate, svg
from wordlelib.game import ABSENT, CORRECT, PRESENT, Game, History, hard_mode_violation, judge, score
from wordlelib.prompts import parse_guess
from wordlelib.rules import Rules
from wordlelib.solver import Solver
from wordlelib.words import Words

Record = Mapping[str, Any]

# mark: (symbol, name, background, ink)
LOOK = {
    CORRECT: ("✓", "right place", "#1b6ca8", "#ffffff"),
    PRESENT: ("~", "elsewhere", "#f2b134", "#24292f"),
    ABSENT: ("·", "no further copy", "#dfe3e8", "#24292f"),
    None: ("×", "no feedback", "#ffffff", "#57606a"),
}
PAPER, INK, FAINT, EDGE = "#ffffff", "#24292f", "#57606a", "#c4cbd3"
WHY_NO_GUESS = {
    "empty": "no guess: nothing there",
    "no_tag": "no guess: no <guess> tag",
    "unclosed": "no guess: a tag is not closed",
    "wrong_length": "no guess: too many or too few letters",
    "not_letters": "no guess: not only letters",
    "failed": "no guess: the request failed",
}
WHY_REFUSED = {"not_a_word": "not a word of this game", "hard_mode": "ignores a hint (hard mode)"}
LONGEST_TEXT = 2000  # characters of a model's text that are shown
FILTERS: dict[str, Callable[[Record], bool]] = {
    "all games": lambda record: True,
    "won": lambda record: record["won"],
    "lost": lambda record: not record["won"],
    "with a non-word": lambda record: any(turn["rule"] == "not_a_word" for turn in record["turns"]),
    "with no guess": lambda record: any(turn["guess"] is None for turn in record["turns"]),
}
HELP = (
    "Marks: ✓ right place (blue), ~ in the word at another place (amber), · no further copy in the word "
    "(grey). Letters in the right place are marked first, then the others from left to right, and each "
    "mark uses up one copy of its letter. So a grey letter that has ✓ or ~ elsewhere in the same guess is "
    "not missing: the word just has no more copies of it. GEESE for THOSE is · · · ✓ ✓, since the one E "
    "of THOSE is already placed."
)


def has_front_end() -> bool:
    """Whether a person's notebook (Jupyter server, VS Code, Colab) started this kernel.

    Kernels started by papermill, nbconvert or nbval run the same code without one.
    """
    started_by_notebook = {"JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"} & set(os.environ)
    return "IPython" in sys.modules and (bool(started_by_notebook) or "google.colab" in sys.modules)


# Text of a model ---------------------------------------------------------------------------------


def visible(text: str, longest: int = LONGEST_TEXT) -> str:
    """`text` cut to `longest` characters, with control and direction marks made visible (`\\u202e`)."""
    shown = "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c)[0] == "C" and c not in "\n\t" else c
        for c in text[:longest]
    )
    left = len(text) - longest
    return shown + (f" … ({left:,} more characters)" if left > 0 else "")


def text_html(text: str) -> str:
    """A model's text as it stands, escaped, in a box of bounded height that cannot run code."""
    style = (
        "margin:0;max-width:34em;max-height:11em;overflow:auto;white-space:pre-wrap;"
        "overflow-wrap:anywhere;direction:ltr;unicode-bidi:isolate;font-size:.85em"
    )
    return f'<pre style="{style}">{escape(visible(text))}</pre>'


# Boards ------------------------------------------------------------------------------------------


def why_invalid(turn: Record) -> str:
    """Why a turn without feedback is invalid, in words; empty for a valid turn."""
    if turn["feedback"] is not None:
        return ""
    reasons = WHY_NO_GUESS if turn["guess"] is None else WHY_REFUSED
    return reasons[turn["reason"] if turn["guess"] is None else turn["rule"]]


def _tile(letter: str, mark: str | None, edge: str) -> str:
    symbol, name, background, ink = LOOK[mark]
    style = (
        f"display:inline-block;width:2.2em;height:2.5em;margin:2px;border:{edge};"
        f"border-radius:6px;background-color:{background};color:{ink};text-align:center;"
        "font-weight:bold;line-height:1.45em;vertical-align:top"
    )
    below = f'<span style="display:block;font-size:.75em;line-height:1em">{symbol}</span>'
    shown = escape(letter.upper())
    return f'<span style="{style}" title="{shown} {name}">{shown or "&nbsp;"}{below}</span>'


def _row(tiles: Iterable[str]) -> str:
    return f'<div style="white-space:nowrap">{"".join(tiles)}</div>'


def tiles_html(guess: str | None, feedback: str | None, length: int) -> str:
    """One played row; without feedback every tile is dashed and marked `×`, without a guess empty."""
    letters = list(guess or "")[:length] + [""] * (length - len(guess or ""))
    if feedback is None:
        return _row(_tile(letter, None, f"2px dashed {EDGE}") for letter in letters)
    marks = zip(letters, feedback, strict=True)
    return _row(_tile(letter, mark, f"2px solid {LOOK[mark][2]}") for letter, mark in marks)


def _unused_row(length: int) -> str:
    style = (
        f"display:inline-block;width:2.2em;height:2.5em;margin:2px;border:2px solid {EDGE};"
        f"border-radius:6px;background-color:{PAPER};vertical-align:top"
    )
    return _row([f'<span style="{style}">&nbsp;</span>'] * length)


def board_html(record: Record, step: int | None = None, turns: int = 6) -> str:
    """The board of a game after `step` turns (all of them by default), unused rows empty.

    record: a game record, or anything with its `secret` and `turns`.
    """
    length = len(record["secret"])
    played = record["turns"][:step]
    rows = []
    for turn in played:
        note = why_invalid(turn)
        said = f'<div style="color:{FAINT};font-size:.8em">{escape(note)}</div>' if note else ""
        rows.append(tiles_html(turn["guess"], turn["feedback"], length) + said)
    rows += [_unused_row(length)] * (turns - len(played))
    return _box("".join(rows))


def _box(content: str) -> str:
    style = (
        f"display:inline-block;padding:10px;margin:4px;background-color:{PAPER};color:{INK};"
        f"border:1px solid {EDGE};border-radius:8px;vertical-align:top;text-align:left"
    )
    return f'<div style="{style}">{content}</div>'


def feedback_html(pairs: Iterable[tuple[str, str]]) -> str:
    """A table of guesses with the feedback that each gets for its secret: pairs (guess, secret)."""
    rows = "".join(
        f"<tr><td>{tiles_html(guess, score(guess, secret), len(secret))}</td>"
        f"<td>for the secret {escape(secret.upper())}</td></tr>"
        for guess, secret in pairs
    )
    return f"<table>{rows}</table>"


def outcome(record: Record) -> str:
    """`won in 4` or `lost after 6`, decided from the moves."""
    won = evaluate.won_in(record)
    return f"won in {won}" if won else f"lost after {len(record['turns'])}"


# What the solver says about a turn ---------------------------------------------------------------


def turn_facts(record: Record, index: int, solver: Solver) -> dict[str, Any]:
    """What the solver says about turn `index` (from 0): candidates `before` and `after` it, `best`
    guess and `best_bits` of the state, and `bits` of the guess made (None for an invalid turn)."""
    history = evaluate.history_of(record)
    turn, candidates = history[index], solver.candidates(history[:index])
    best, best_bits = solver.best_guess(history[:index])
    return {
        "before": len(candidates),
        "after": len(solver.candidates(history[: index + 1])),
        "best": best,
        "best_bits": best_bits,
        "bits": None if turn.feedback is None else solver.bits(turn.guess, candidates),
    }


def turn_html(record: Record, index: int, solver: Solver | None = None) -> str:
    """Turn `index` (from 0) in words: what was written (thinking and answer), the guess or why there is
    none, reward terms without their weights, and the solver's view."""
    turn = record["turns"][index]
    lines = [text_html(turn["text"])]
    guess = turn["guess"].upper() if turn["guess"] else "–"
    lines.append(f"guess <b>{escape(guess)}</b> {escape(why_invalid(turn))}")
    if turn["rewards"]:
        terms = ", ".join(f"{name} {value:+.2f}" for name, value in turn["rewards"].items())
        lines.append(f"reward terms: {escape(terms)}")
    if solver:
        facts = turn_facts(record, index, solver)
        bits = "" if facts["bits"] is None else f", worth {facts['bits']:.2f} bits before its feedback"
        lines.append(f"candidates {facts['before']:,} → {facts['after']:,}{bits}")
        lines.append(f"best guess {escape(facts['best'].upper())}, {facts['best_bits']:.2f} bits")
    return "".join(f"<div>{line}</div>" for line in [f"<b>Turn {index + 1}</b>", *lines])


def game_html(record: Record, solver: Solver | None = None) -> str:
    """A whole game as a static table, one row a turn."""
    length = len(record["secret"])
    rows = "".join(
        f'<tr><td style="vertical-align:top">{tiles_html(turn["guess"], turn["feedback"], length)}</td>'
        f'<td style="text-align:left">{turn_html(record, index, solver)}</td></tr>'
        for index, turn in enumerate(record["turns"])
    )
    return f"{_heading(record)}<table>{rows}</table>"


def _heading(record: Record) -> str:
    name, secret = escape(visible(record["player"])), escape(record["secret"].upper())
    return f"<div><b>{name}</b>: {secret}, {escape(outcome(record))}</div>"


def compare_html(
    records: Mapping[str, Record], step: int | None = None, solver: Solver | None = None, turns: int = 6
) -> str:
    """Games of several players side by side (name to record), with the last turn shown in words.

    step: turns to show, all by default; a game that ended before stays as it ended.
    """
    cards = []
    for name, record in records.items():
        shown = record["turns"][:step]
        inside = _heading({**record, "player": name}) + board_html(record, step, turns)
        if shown:
            inside += turn_html(record, len(shown) - 1, solver)
        cards.append(_box(inside))
    return f'<div style="display:flex;flex-wrap:wrap">{"".join(cards)}</div>'


# A picture for a page that allows no markup ------------------------------------------------------

TILE, GAP, HEAD, SIDE = 44, 6, 64, 28


def before_and_after(games: Mapping[str, Sequence[Record]]) -> tuple[Record, Record] | None:
    """A game of the first player beside one of the last trained player, on one secret.

    A secret that only the latter won, and in the middle of what it needed for those; None without one.
    """
    last = next((name for name in ("grpo", "sft") if name in games), None)
    if last is None:
        return None
    first = {record["secret"]: record for record in next(iter(games.values()))}
    gained = [
        (record["n_guesses"], record["secret"], record)
        for record in games[last]
        if record["won"] and not first[record["secret"]]["won"]
    ]
    if not gained:
        return None
    _, secret, after = sorted(gained, key=lambda game: game[:2])[len(gained) // 2]
    return first[secret], after


def board_svg(
    before: Record, after: Record, titles: tuple[str, str] = ("before", "after"), turns: int = 6
) -> str:
    """Two games side by side as SVG: marks under the letters, a light background of its own.

    Rows without feedback show why, and the beginning of what the model wrote.
    """
    length = len(before["secret"])
    titles = (visible(titles[0]), visible(titles[1]))
    board = max(length * (TILE + GAP) - GAP, 280)
    width = 2 * board + 3 * SIDE
    height = HEAD + turns * (TILE + GAP) + 46
    parts = []
    for number, (record, title) in enumerate(zip((before, after), titles, strict=True)):
        left = SIDE + number * (board + SIDE)
        parts.append(svg.label(left, 32, title, 17, font_weight=600))
        parts.append(svg.label(left, 52, f"secret {record['secret'].upper()}", 12, FAINT))
        for row in range(turns):
            turn = record["turns"][row] if row < len(record["turns"]) else None
            parts += _svg_row(turn, left, HEAD + row * (TILE + GAP), length, board)
        parts.append(svg.label(left, height - 18, outcome(record), 14, font_weight=600))
    return svg.document(width, height, f"{titles[0]} and {titles[1]}", parts)


def _svg_row(turn: Record | None, left: float, top: float, length: int, board: float) -> list[str]:
    if turn and turn["feedback"] is None:
        return _svg_invalid(turn, left, top, board)
    parts = []
    for place in range(length):
        x = left + place * (TILE + GAP)
        symbol, _, fill, ink = LOOK[turn["feedback"][place]] if turn else ("", "", PAPER, INK)
        box = {"x": x, "y": top, "width": TILE, "height": TILE, "rx": 6}
        parts.append(svg.element("rect", **box, fill=fill, stroke=fill if turn else EDGE))
        if turn:
            middle = {"text_anchor": "middle", "fill": ink}
            letter = turn["guess"][place].upper()
            parts.append(svg.label(x + TILE / 2, top + 25, letter, 20, font_weight=700, **middle))
            parts.append(svg.label(x + TILE / 2, top + 39, symbol, 13, **middle))
    return parts


def _svg_invalid(turn: Record, left: float, top: float, board: float) -> list[str]:
    """A dashed row with the reason and the beginning of the text, clipped to the row."""
    box = {"x": left, "y": top, "width": board, "height": TILE}
    written = " ".join(visible(turn["text"], 80).split()) or "(empty)"
    said = f"{turn['guess'].upper()}: {why_invalid(turn)}" if turn["guess"] else why_invalid(turn)
    lines = svg.label(10, 18, f"× {said}", 12) + svg.label(10, 35, written, 12, FAINT, font_style="italic")
    return [
        svg.element("rect", **box, rx=6, fill=PAPER, stroke=EDGE, stroke_dasharray="4 3"),
        svg.element("svg", lines, **{**box, "width": board - 8}),
    ]


# Stepping through saved games --------------------------------------------------------------------


def replay_widget(
    games: Sequence[Record], solver: Solver | None = None, secret: str = "", player: str = "", turns: int = 6
) -> Any:
    """Step through saved games: choose player, kind of game, secret and turn; or all players at once.

    secret, player: what is shown first; empty for the first secret and for all players side by side.
    Without a front end the same games stand in a static page (`replay_html`). Raises ValueError
    when there is no such game.
    """
    if not games:
        raise ValueError("no games to replay: run notebook 04_eval first")
    asked = [r for r in games if secret in ("", r["secret"]) and player in ("", r["player"])]
    if not asked:
        wanted = f" of {secret!r}" * bool(secret) + f" by {player!r}" * bool(player)
        first = f"{games[0]['secret']!r} by {games[0]['player']!r}"
        raise ValueError(f"no game{wanted} was saved; the first one is of {first}")
    secret = asked[0]["secret"]
    if has_front_end():
        return _replay_controls(evaluate.by_player(games), solver, secret, player, turns)
    from IPython.display import HTML

    return HTML(replay_html(games, solver, secret, player, turns))


def replay_html(
    games: Sequence[Record], solver: Solver | None, secret: str, player: str = "", turns: int = 6
) -> str:
    """The game of one player on `secret`, turn by turn; without a player all players side by side."""
    records = {r["player"]: r for r in games if r["secret"] == secret and player in ("", r["player"])}
    if player:
        return "".join(game_html(record, solver) for record in records.values())
    return compare_html(records, solver=solver, turns=turns)


def _replay_controls(
    players: Mapping[str, Sequence[Record]], solver: Solver | None, secret: str, player: str, turns: int
) -> Any:
    import ipywidgets

    everyone = "all side by side"
    who = ipywidgets.Dropdown(options=[everyone, *players], value=player or everyone, description="player")
    kind = ipywidgets.Dropdown(options=list(FILTERS), description="games")
    word = ipywidgets.Dropdown(description="secret")
    step = ipywidgets.IntSlider(min=0, max=turns, value=turns, description="turn")
    view = ipywidgets.HTML()

    def chosen() -> list[Record]:
        """Games of the chosen player (any player) of the chosen kind."""
        names = list(players) if who.value == everyone else [who.value]
        return [record for name in names for record in players[name] if FILTERS[kind.value](record)]

    def list_secrets(change: Any = None) -> None:
        secrets = list(dict.fromkeys(record["secret"] for record in chosen()))
        kept = word.value if word.value in secrets else next(iter(secrets), None)
        word.options, word.value = secrets, kept
        draw()

    def draw(change: Any = None) -> None:
        shown = {
            name: record
            for name, records in players.items()
            for record in records
            if record["secret"] == word.value and who.value in (everyone, name)
        }
        empty = "<p>No game of this kind.</p>"
        view.value = compare_html(shown, step.value, solver, turns) if shown else empty

    list_secrets()
    word.value = secret
    for control in (who, kind):
        control.observe(list_secrets, "value")
    for control in (word, step):
        control.observe(draw, "value")
    draw()
    return ipywidgets.VBox([ipywidgets.HBox([who, kind]), ipywidgets.HBox([word, step]), view])


# Playing -----------------------------------------------------------------------------------------


def refusal(text: str, game: Game) -> str:
    """Why a typed guess cannot be played, in one sentence; empty when it can. It uses no turn."""
    if game.done:
        return "The game is over: start a new one."
    rules = game.rules
    guess = typed_guess(text)
    if parse_guess(f"<guess>{guess}</guess>", rules.length, rules.alphabet).guess is None:
        return f"A guess has {rules.length} letters {rules.alphabet}."
    verdict = judge(guess, game.history, game.words, rules)
    if verdict == "not_a_word":
        return f"{guess.upper()} is not in the list of {len(game.words.allowed):,} words."
    if verdict == "hard_mode":
        return f"Hard mode: {hard_mode_violation(guess, game.history)}."
    return ""


def typed_guess(text: str) -> str:
    """What a person typed, as a guess."""
    return text.strip().lower()


def advice_html(solver: Solver, history: History, shown: int = 8) -> str:
    """The solver's advice: how many words fit, some of them, and the best guess with its bits."""
    words = solver.consistent_words(history)
    best, bits = solver.best_guess(history)
    some = ", ".join(word.upper() for word in words[:shown]) + (", …" if len(words) > shown else "")
    fit = f"{len(words):,} words fit" if len(words) != 1 else "1 word fits"
    return (
        f"<div>{fit} all feedback: {escape(some)}</div>"
        f"<div>Best guess: <b>{escape(best.upper())}</b>, {bits:.2f} bits on average.</div>"
    )


def play_widget(
    words: Words, rules: Rules, solver: Solver | None = None, secret: str = "", seed: int = 0
) -> Any:
    """A game for a person: type a guess, ask the solver, switch hard mode, start anew.

    A guess that is no word is refused with the reason and uses no turn, unlike in the evaluation of
    models. secret: of the first game, else drawn by `seed` like those that follow. Without a front
    end a static page shows the empty board, the help and the solver's advice. Raises ValueError for
    a secret that is no allowed guess.
    """
    if secret and secret not in words.dictionary:
        raise ValueError(f"secret {secret!r} is not among the {len(words.allowed):,} allowed guesses")
    rng = random.Random(seed)
    solver = solver or Solver(words, rules)
    game = Game(words, rules, secret or rng.choice(words.answers))
    if not has_front_end():
        from IPython.display import HTML

        start = {"secret": game.secret, "turns": []}
        note = "Open this notebook in JupyterLab or VS Code to play."
        return HTML(
            f"<p>{note}</p>{board_html(start, turns=rules.turns)}<p>{HELP}</p>{advice_html(solver, ())}"
        )
    return _play_controls(game, solver, rng)


def _play_controls(game: Game, solver: Solver, rng: random.Random) -> Any:
    import ipywidgets

    solvers = {solver.rules.hard_mode: solver}
    entry = ipywidgets.Text(placeholder="your guess", continuous_update=False)
    guess, advise, anew = (
        ipywidgets.Button(description=text) for text in ("Guess", "Ask solver", "New game")
    )
    hard = ipywidgets.Checkbox(value=game.rules.hard_mode, description="hard mode", indent=False)
    board, message = ipywidgets.HTML(), ipywidgets.HTML()
    hint = ipywidgets.HTML(f"<details><summary>What do the marks mean?</summary>{HELP}</details>")

    def draw(text: str = "") -> None:
        turns = [turn._asdict() for turn in game.history]
        board.value = board_html({"secret": game.secret, "turns": turns}, turns=game.rules.turns)
        message.value = text
        hard.disabled = bool(game.history) and not game.done

    def play(_: Any) -> None:
        if problem := refusal(entry.value, game):
            draw(escape(visible(problem, 200)))
            return
        game.play(typed_guess(entry.value))
        entry.value = ""
        if game.won:
            draw(f"Won in {len(game.history)}.")
        else:
            draw(f"Lost: the word was {game.secret.upper()}." if game.done else "")

    def ask(_: Any) -> None:
        if game.rules.hard_mode not in solvers:
            solvers[game.rules.hard_mode] = Solver(game.words, game.rules)
        draw(advice_html(solvers[game.rules.hard_mode], game.history))

    def new_game(_: Any) -> None:
        game.rules = replace(game.rules, hard_mode=hard.value)
        game.secret, game.history = rng.choice(game.words.answers), ()
        draw()

    def set_hard(_: Any) -> None:
        if not game.history:
            game.rules = replace(game.rules, hard_mode=hard.value)

    guess.on_click(play)
    with warnings.catch_warnings():  # deprecated, but the only event of the Enter key alone
        warnings.simplefilter("ignore", DeprecationWarning)
        entry.on_submit(play)
    advise.on_click(ask)
    anew.on_click(new_game)
    hard.observe(set_hard, "value")
    draw()
    controls = ipywidgets.HBox([entry, guess, advise, anew, hard])
    return ipywidgets.VBox([board, controls, message, hint])
