"""Boards as HTML and as a picture: games, turns, and what the solver says about them.

Whatever comes from a model is text, never markup: it is escaped, cut and freed of invisible marks
before it is shown. Colours are blue, amber and grey, and every letter also carries a mark, so that
no board depends on seeing colour. Notebooks, widgets (`widgets`) and static pages show the same
pieces of HTML, styled by `web/boards.css`.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from wordlelib import evaluate, svg
from wordlelib.game import ABSENT, CORRECT, PRESENT, score
from wordlelib.solver import Solver
from wordlelib.words import capitals

Record = Mapping[str, Any]

# mark: (symbol, name, background and ink of the picture)
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
HELP = (
    "Marks: ✓ right place (blue), ~ in the word at another place (amber), · no further copy in the word "
    "(grey). Letters in the right place are marked first, then the others from left to right, and each "
    "mark uses up one copy of its letter. So a grey letter that has ✓ or ~ elsewhere in the same guess is "
    "not missing: the word just has no more copies of it. GEESE for THOSE is · · · ✓ ✓, since the one E "
    "of THOSE is already placed."
)


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
    return f"<pre>{escape(visible(text))}</pre>"


# Boards ------------------------------------------------------------------------------------------


def why_invalid(turn: Record) -> str:
    """Why a turn without feedback is invalid, in words; empty for a valid turn."""
    if turn["feedback"] is not None:
        return ""
    reasons = WHY_NO_GUESS if turn["guess"] is None else WHY_REFUSED
    return reasons[turn["reason"] if turn["guess"] is None else turn["rule"]]


def tiles_html(guess: str | None, feedback: str | None, length: int) -> str:
    """One row of tiles: without a guess they are empty, without feedback dashed and marked `×`."""
    letters = list(guess or "")[:length] + [""] * (length - len(guess or ""))
    return _row(map(_tile, letters, feedback or [None] * length))


def _tile(letter: str, mark: str | None) -> str:
    symbol, name, *_ = LOOK[mark]
    shown = escape(capitals(letter))
    title = f"{shown} {name}".strip()
    return f'<b class="{mark or "N"}" title="{title}">{shown or "&nbsp;"}<i>{symbol}</i></b>'


def _row(tiles: Iterable[str]) -> str:
    return f'<div class="row">{"".join(tiles)}</div>'


def blank_row(length: int) -> str:
    """A row that is not played yet."""
    return _row(["<b>&nbsp;</b>"] * length)


def turn_row(turn: Record, length: int, hidden: bool = False) -> str:
    """The row of a turn, with the reason below it if it is invalid; `hidden` shows its marks only."""
    note = why_invalid(turn)
    said = f'<div class="note">{escape(note)}</div>' if note else ""
    return tiles_html(None if hidden else turn["guess"], turn["feedback"], length) + said


def board_html(record: Record, turns: int = 6, hidden: bool = False) -> str:
    """The board of a game with its turns so far, unused rows empty.

    record: a game record, or anything with its `secret` and `turns`. hidden: marks without letters.
    """
    length = len(record["secret"])
    rows = [turn_row(turn, length, hidden) for turn in record["turns"]]
    rows += [blank_row(length)] * (turns - len(rows))
    return f'<div class="board">{"".join(rows)}</div>'


def card_html(title: str, content: str) -> str:
    """A board in a frame, below a line of HTML."""
    return f'<div class="card">{title}{content}</div>'


def feedback_html(pairs: Iterable[tuple[str, str]]) -> str:
    """A table of guesses with the feedback that each gets for its secret: pairs (guess, secret)."""
    rows = "".join(
        f"<tr><td>{tiles_html(guess, score(guess, secret), len(secret))}</td>"
        f"<td>for the secret {escape(capitals(secret))}</td></tr>"
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
    guess and `best_bits` of the state, `bits` of the guess made (None for an invalid turn), and `regret`:
    the bits that it gave away, all of them when it is invalid."""
    history = evaluate.history_of(record)
    turn, candidates = history[index], solver.candidates(history[:index])
    best, best_bits = solver.best_guess(history[:index])
    bits = None if turn.feedback is None else solver.bits(turn.guess, candidates)
    return {
        "before": len(candidates),
        "after": len(solver.candidates(history[: index + 1])),
        "best": best,
        "best_bits": best_bits,
        "bits": bits,
        "regret": max(0.0, best_bits - (bits or 0.0)),
    }


def regrets(record: Record, solver: Solver) -> Iterator[float]:
    """Bits that each turn of a game gave away (`turn_facts`), pre-played ones left out; found one by one."""
    for index in range(record["preplayed"], len(record["turns"])):
        yield turn_facts(record, index, solver)["regret"]


def turn_html(record: Record, index: int, solver: Solver | None = None) -> str:
    """Turn `index` (from 0) in words: what was written (thinking and answer), the guess or why there is
    none, reward terms without their weights, and the solver's view."""
    turn = record["turns"][index]
    guess = capitals(turn["guess"]) if turn["guess"] else "–"
    lines = [f"guess <b>{escape(guess)}</b> {escape(why_invalid(turn))}"]
    if solver:
        facts = turn_facts(record, index, solver)
        lines.append(f"candidates {facts['before']:,} → {facts['after']:,}")
        best = f"best guess <b>{escape(capitals(facts['best']))}</b>, {facts['best_bits']:.2f} bits"
        own = "" if facts["bits"] is None else f"; this one {facts['bits']:.2f}"
        lines.append(f"{best}{own}; regret {facts['regret']:.2f}")
    said = "".join(f"<div>{line}</div>" for line in [f"<b>Turn {index + 1}</b>", *lines])
    return said + text_html(turn["text"]) + terms_html(turn["rewards"])


def terms_html(terms: Mapping[str, float]) -> str:
    """Reward terms as bars around zero, on one scale of at least 1 a side."""
    if not terms:
        return ""
    scale = max(1.0, *map(abs, terms.values()))
    bars = []
    for name, value in terms.items():
        width = 50 * abs(value) / scale
        kind, left = ("minus", 50 - width) if value < 0 else ("plus", 50)
        bar = f'<u class="{kind}" style="left:{left:.1f}%;width:{width:.1f}%"></u>'
        told = escape(visible(name, 40))
        bars.append(f'<div class="term"><span>{told}</span><div>{bar}</div><span>{value:+.2f}</span></div>')
    return f'<div class="note">Reward terms, without weights</div>{"".join(bars)}'


def game_html(record: Record, solver: Solver | None = None) -> str:
    """A whole game as a static table, one row a turn."""
    length = len(record["secret"])
    rows = "".join(
        f"<tr><td>{turn_row(turn, length)}</td><td>{turn_html(record, index, solver)}</td></tr>"
        for index, turn in enumerate(record["turns"])
    )
    return f"{heading(record)}<table>{rows}</table>"


def heading(record: Record) -> str:
    """Player, secret and how the game ended."""
    name, secret = escape(visible(record["player"], 80)), escape(capitals(record["secret"]))
    return f"<div><b>{name}</b>: {secret}, {escape(outcome(record))}</div>"


def compare_html(records: Mapping[str, Record], solver: Solver | None = None, turns: int = 6) -> str:
    """Games of several players side by side (name to record), with the last turn shown in words."""
    cards = []
    for name, record in records.items():
        inside = board_html(record, turns)
        if record["turns"]:
            inside += turn_html(record, len(record["turns"]) - 1, solver)
        cards.append(card_html(heading({**record, "player": name}), inside))
    return f'<div class="cards">{"".join(cards)}</div>'


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
        parts.append(svg.label(left, 52, f"secret {capitals(record['secret'])}", 12, FAINT))
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
            letter = capitals(turn["guess"][place])
            parts.append(svg.label(x + TILE / 2, top + 25, letter, 20, font_weight=700, **middle))
            parts.append(svg.label(x + TILE / 2, top + 39, symbol, 13, **middle))
    return parts


def _svg_invalid(turn: Record, left: float, top: float, board: float) -> list[str]:
    """A dashed row with the reason and the beginning of the text, clipped to the row."""
    box = {"x": left, "y": top, "width": board, "height": TILE}
    written = " ".join(visible(turn["text"], 80).split()) or "(empty)"
    said = f"{capitals(turn['guess'])}: {why_invalid(turn)}" if turn["guess"] else why_invalid(turn)
    lines = svg.label(10, 18, f"× {said}", 12) + svg.label(10, 35, written, 12, FAINT, font_style="italic")
    return [
        svg.element("rect", **box, rx=6, fill=PAPER, stroke=EDGE, stroke_dasharray="4 3"),
        svg.element("svg", lines, **{**box, "width": board - 8}),
    ]
