"""Rewards: one judgement a completion, named terms, presets whose ranking is checked, schedules.

A row is one guess in one state (`unit: turn`). The columns `history` (always), `secret` (terms in
`NEED_SECRET` only) and `best_bits` (term `regret` only) come with it, one value a completion, and where
some rows are clues `fits` (`judge_clue`); other columns and keywords are accepted and not read: candidates
are counted anew from the history.
Only a well-formed completion is judged further than its form, and only a legal guess further than
the dictionary and the words that its thinking rejects. So no malformed text earns anything by the word in it.
"""

import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, singledispatch, wraps
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from wordlelib import game, prompts
from wordlelib.game import History, Turn
from wordlelib.rules import Rules
from wordlelib.solver import Solver
from wordlelib.words import Words, alphabet_letters

Completion = str | list[dict[str, str]]
Reward = Callable[..., list[float]]


class Judgement(NamedTuple):
    """What is known of one completion; fields after `legal` are neutral unless the guess is legal.

    reason: what the parser said. well_formed: see `prompts.is_well_formed`. guess: None unless
    well-formed. misrejected: its thinking rejects a word that is still possible, or one word twice.
    legal: the game accepts the guess. greens, yellows, greys: share of the marks of
    that colour so far that the guess does not contradict (1 when there are none). bits: information
    over the `n_candidates` words still possible. possible: the guess is one of them (a consistent
    guess may be outside the solver's universe). best_bits: the best guess's bits, None if unknown.
    letters: share of the secret's letters that the guess has, half for one in another place.
    value: of a move in a board game, the mean result from there on (1 won, 0.5 drawn, 0 lost).
    """

    characters: int
    reason: str
    well_formed: bool
    turn: int
    turns: int
    best_bits: float | None
    guess: str | None = None
    misrejected: bool = False
    legal: bool = False
    repeated: bool = False
    greens: float = 0.0
    yellows: float = 0.0
    greys: float = 0.0
    consistent: bool = False
    bits: float = 0.0
    n_candidates: int = 0
    possible: bool = False
    won: bool = False
    letters: float = 0.0
    value: float = 0.0


def form_of(
    text: str, turns: History, rules: Rules, best_bits: float | None
) -> tuple[str | None, tuple[int, str, bool, int, int, float | None]]:
    """The guess of a well-formed completion, else None, and the first six fields of its judgement."""
    guess, reason = prompts.parse_guess(text, rules.length, rules.alphabet)
    well_formed = guess is not None and prompts.is_well_formed(text, rules.length, rules.alphabet)
    base = (len(text), reason, well_formed, len(turns) + 1, rules.turns, best_bits)
    return guess if well_formed else None, base


@singledispatch
def make_judge(
    solver: Solver, rules: Rules
) -> Callable[[str, History | str, str | None, float | None], Judgement]:
    """judge(text, history, secret, best_bits) -> Judgement; the last 16,384 are remembered.

    The history is a tuple of turns or an encoded one. Terms are called one after the other on the
    same batch, so the memory makes ten terms cost one judgement.
    """
    universe = frozenset(solver.universe)

    @lru_cache(maxsize=16_384)
    def judge(text: str, history: History | str, secret: str | None, best_bits: float | None) -> Judgement:
        turns = game.decode_history(history) if isinstance(history, str) else history
        guess, base = form_of(text, turns, rules, best_bits)
        if guess is None:
            return Judgement(*base)
        said = prompts.rejected_words(text)
        possible = [word for word in said if word in universe and game.is_consistent(word, turns)]
        misrejected = misrejects(said, possible)
        if game.judge(guess, turns, solver.words, rules) != "ok":
            return Judgement(*base, guess, misrejected)
        wrong = game.violations(guess, turns)
        candidates = solver.candidates(history)
        consistent = not any(wrong)
        greens, yellows, greys = _shares_kept(wrong, turns)
        return Judgement(
            *base,
            guess,
            misrejected,
            legal=True,
            repeated=_again(guess, turns, said, consistent),
            greens=greens,
            yellows=yellows,
            greys=greys,
            consistent=consistent,
            bits=solver.bits(guess, candidates),
            n_candidates=len(candidates),
            possible=consistent and guess in universe,
            won=guess == secret,
            letters=_letters(guess, secret),
        )

    return judge


def misrejects(rejected: Sequence[str], possible: Collection[str]) -> bool:
    """Whether thinking that rejects these words rejects one of the `possible` ones, or any word twice."""
    return len(set(rejected)) < len(rejected) or any(word in possible for word in rejected)


def _again(guess: str, turns: History, said: list[str], right: bool) -> bool:
    """Whether a guess was made before, or is one that its own thinking rejects, and rightly."""
    return any(turn.guess == guess for turn in turns) or (not right and guess in said)


def judge_clue(text: str, fits: str, words: Words, rules: Rules) -> Judgement:
    """The judgement of an answer to a clue; `fits`: all words that it fits, with spaces between.

    A clue is a game of one turn without a past, which each of these words wins.
    """
    guess, base = form_of(text, (), rules, None)
    if guess is None:
        return Judgement(*base)
    said, possible = prompts.rejected_words(text), frozenset(fits.split())
    misrejected = misrejects(said, possible)
    if guess not in words.dictionary:
        return Judgement(*base, guess, misrejected)
    right = guess in possible
    return Judgement(
        *base,
        guess,
        misrejected,
        legal=True,
        repeated=_again(guess, (), said, right),
        greens=float(right),
        yellows=float(right),
        greys=float(right),
        consistent=right,
        n_candidates=len(possible),
        possible=right,
        won=right,
        letters=float(right),
    )


def _shares_kept(wrong: game.Violations, turns: History) -> list[float]:
    marks = "".join(turn.feedback for turn in turns if turn.feedback is not None)
    totals = map(marks.count, (game.CORRECT, game.PRESENT, game.ABSENT))
    return [1 - n / total if total else 1.0 for n, total in zip(wrong, totals, strict=True)]


def _letters(guess: str, secret: str | None) -> float:
    marks = game.score(guess, secret) if secret else ""
    return (marks.count(game.CORRECT) + marks.count(game.PRESENT) / 2) / len(guess)


class Term(NamedTuple):
    """One named reward: its range, what it pays for, and its value for a judgement."""

    low: float
    high: float
    meaning: str
    value: Callable[[Judgement], float]


def _format(judgement: Judgement) -> float:
    if judgement.well_formed:
        return 1.0
    return {"ok": 0.2, "empty": 0.0}.get(judgement.reason, 0.1)


def _information(judgement: Judgement) -> float:
    if judgement.n_candidates < 2:
        return 0.0
    return min(1.0, judgement.bits / math.log2(judgement.n_candidates))


def _regret(judgement: Judgement) -> float:
    best = judgement.best_bits
    if best is None or math.isnan(best):
        return 0.0
    if not judgement.legal:
        return -1.0
    if judgement.n_candidates < 2:
        return 0.0
    return max(-1.0, min(0.0, judgement.bits - best) / math.log2(judgement.n_candidates))


def _early(judgement: Judgement) -> float:
    left = max(0, judgement.turns - judgement.turn + 1)
    return left / judgement.turns if judgement.won else 0.0


def _length(judgement: Judgement) -> float:
    # Short text pays only when it is well-formed: an empty completion must not be the best of all.
    return max(-1.0, -judgement.characters / 1000) if judgement.well_formed else -1.0


TERMS: dict[str, Term] = {
    "format": Term(0, 1, "1 well-formed; else 0.2 with a readable guess, 0.1 without, 0 empty", _format),
    "dictionary": Term(
        0, 1, "1 for a legal guess: a word, in hard mode also a permitted one", lambda j: float(j.legal)
    ),
    "repeat": Term(
        -1,
        0,
        "-1 for a legal guess made before or rightly rejected before it",
        lambda j: -1.0 if j.repeated else 0.0,
    ),
    "rejections": Term(
        -1,
        0,
        "-1 where the thinking of a well-formed answer rejects a possible word, or one word twice",
        lambda j: -1.0 if j.misrejected else 0.0,
    ),
    "greens": Term(0, 1, "share of the green marks so far that the guess keeps", lambda j: j.greens),
    "yellows": Term(0, 1, "the same of yellow marks", lambda j: j.yellows),
    "greys": Term(0, 1, "the same of grey marks", lambda j: j.greys),
    "consistent": Term(0, 1, "1 when the guess fits all feedback", lambda j: float(j.consistent)),
    "information": Term(0, 1, "bits gained by log2 of the candidates; 0 with less than two", _information),
    "chance": Term(
        0,
        1,
        "chance to win: 1 by the candidates when the guess is one of them",
        lambda j: 1 / j.n_candidates if j.possible else 0.0,
    ),
    "win": Term(0, 1, "1 when the guess is the secret", lambda j: float(j.won)),
    "early": Term(0, 1, "for a win, the share of turns left including this one", _early),
    "speed": Term(0, 1, "for a win, 1 by the turns used", lambda j: 1 / j.turn if j.won else 0.0),
    "letters": Term(0, 1, "share of letters in the right place, half for another place", lambda j: j.letters),
    "regret": Term(
        -1,
        0,
        "minus the bits missed against the best guess, by log2 of the candidates; "
        "-1 for no legal guess; 0 when the best guess's bits are unknown",
        _regret,
    ),
    "value": Term(0, 1, "of a move in a board game, the mean result from there on", lambda j: j.value),
    "length": Term(-1, 0, "minus the characters by 1,000; -1 unless well-formed", _length),
    "brevity": Term(
        -1,
        0,
        "minus the characters by 200 of any text, also of one without a guess",
        lambda j: -min(1.0, j.characters / 200),
    ),
}

NEED_SECRET = ("win", "early", "speed", "letters")  # terms that look at the secret

KINDS = ("ideal", "legal", "inconsistent", "repeated", "nonword", "malformed", "empty")

# A claim is a chain of KINDS with `>` (more by any amount) and `=` (the same reward).
#
# ours: for any two guesses in one state, not only on average, every step of the ladder holds.
# The least consistent guess gets 1 + 0.5 + 0.3 + 0.6 = 2.4, the best inconsistent one less than
# 1 + 0.5 + 0.3 + 0.5 = 2.3; a repeated one (0 bits) at most 1 + 0.5 + 0.3 - 0.4 = 1.4 and at
# least 1.1; a non-word 1; malformed 0.1 or 0.2. A wrong word that its own thinking rejects gets 0.4 less than
# it would otherwise, at least 1.1. It never looks at the secret: the chance to win is the expected win, with
# less noise. All this is said of answers whose thinking rejects neither a possible word nor one word twice:
# that costs 0.3 whatever is guessed, more than some steps of the ladder. Else a right guess pays as well
# after its own rejection, and a policy that is paid for looking again comes to reject what it names. Range 0
# to 3.4.
# predibase: after the public description of Predibase's Wordle rewards (format 1.0 with half of it
# for the dictionary, use of feedback 0.5, value as information gain 0.3), in this project's terms, so
# the values are not theirs. An inconsistent guess may win by its information.
# prime: after the Wordle example of prime-rl (win, 1/turns, 0.2 and 0.1 a letter in the right and in
# another place, format 0.2). Its letters are those of a game's last guess; here each guess is the last.
# wordle_solver: after the project of that name (win, 1/turns, format 0.2, constraints 0.5, length 0.1).
# outcome: for board games (`openspiel`), whose moves have an exact value and no letters.
# binary: nothing but the win.
#
# Three are faulty on purpose, and claim their faults: what does a reward teach that pays for the wrong thing?
# format_heavy: form and dictionary pay six times the win, and a guess made before as much as a new one.
# short_text: every character costs, with or without a guess, so writing nothing beats all but a win.
# no_floor: `ours` but for a repeat penalty beyond all that a guess earns, so writing nothing beats a repeated
# guess.
OURS = {
    "format": 1.0,
    "dictionary": 0.5,
    "repeat": 0.4,
    "rejections": 0.3,
    "greens": 0.1,
    "yellows": 0.1,
    "greys": 0.1,
    "consistent": 0.6,
    "information": 0.5,
    "chance": 0.5,
}
PRESETS: dict[str, dict[str, Any]] = {
    "ours": {
        "weights": OURS,
        "claim": ("ideal > legal > inconsistent > repeated > nonword > malformed > empty",),
    },
    "predibase": {
        "weights": {
            "format": 0.5,
            "dictionary": 0.5,
            "greens": 0.2,
            "yellows": 0.1,
            "greys": 0.2,
            "information": 0.3,
        },
        "claim": (
            "ideal > legal > repeated > nonword > malformed > empty",
            "inconsistent > nonword",
        ),
    },
    "prime": {
        "weights": {"win": 1.0, "speed": 1.0, "letters": 1.0, "format": 0.2},
        "claim": (
            "ideal > legal",
            "ideal > inconsistent",
            "ideal > repeated",
            "ideal > nonword > malformed > empty",
        ),
    },
    "wordle_solver": {
        "weights": {
            "win": 1.0,
            "speed": 1.0,
            "format": 0.2,
            "greens": 1 / 6,
            "yellows": 1 / 6,
            "greys": 1 / 6,
            "length": 0.1,
        },
        "claim": ("ideal > legal > inconsistent", "legal > repeated", "legal > nonword > malformed > empty"),
    },
    "outcome": {
        "weights": {"format": 0.5, "dictionary": 0.5, "value": 1.0},
        "claim": ("ideal > nonword > malformed > empty", "legal > nonword"),
    },
    "binary": {
        "weights": {"win": 1.0},
        "claim": ("ideal > legal = inconsistent = repeated = nonword = malformed = empty",),
    },
    "format_heavy": {
        "weights": {"format": 2.0, "dictionary": 1.0, "win": 0.5},
        "claim": ("ideal > legal = inconsistent = repeated > nonword > malformed > empty",),
    },
    "short_text": {
        "weights": {"win": 1.0, "format": 0.2, "brevity": 4.0},
        "claim": ("ideal > legal", "empty > malformed > legal = inconsistent = repeated = nonword"),
    },
    "no_floor": {
        "weights": {**OURS, "repeat": 4.0},
        "claim": ("ideal > legal > inconsistent > nonword > malformed > empty > repeated",),
    },
}


def default_preset(rules: Rules) -> str:
    """The preset whose terms are recorded with every game: `ours` for Wordle, `outcome` for a board game."""
    return "ours" if rules.game == Rules.game else "outcome"


def resolve_preset(preset: str | dict[str, Any]) -> dict[str, Any]:
    """A preset by name, or one's own {"weights": {term: weight}, "claim": chains}, checked.

    Raises ValueError for an unknown preset or term and for a weight that is no finite number.
    """
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise ValueError(f"unknown reward preset {preset!r}; use one of {', '.join(PRESETS)}")
        return PRESETS[preset]
    for name, weight in preset["weights"].items():
        if name not in TERMS:
            raise ValueError(f"unknown reward term {name!r}; known are {', '.join(TERMS)}")
        if not _is_finite(weight):
            raise ValueError(f"the weight of reward term {name!r} is {weight!r}; use a finite number")
    return preset


def total(weights: dict[str, float], judgement: Judgement) -> float:
    """The weighted sum of a judgement's terms: what the trainer adds up."""
    return sum(weight * TERMS[name].value(judgement) for name, weight in weights.items())


def make_reward_functions(
    preset: str | dict[str, Any], solver: Solver, rules: Rules
) -> tuple[list[Reward], list[float]]:
    """One TRL reward function a term (its `__name__` is the term's name), and their weights in order.

    Each takes `completions` (strings or lists of chat messages) and the columns by name, and gives
    one finite float a completion. Raises ValueError as `checked` does, and for a needed column that
    is missing or has another length.
    """
    weights = resolve_preset(preset)["weights"]
    judge_state = make_judge(solver, rules)

    @lru_cache(maxsize=16_384)  # as states are remembered
    def judge_answer(text: str, fits: str) -> Judgement:
        return judge_clue(text, fits, solver.words, rules)

    def judge(text: str, fits: str | None, *state: Any) -> Judgement:
        return judge_answer(text, fits) if fits else judge_state(text, *state)

    return [_reward_function(name, judge) for name in weights], list(weights.values())


def turn_rewards(
    preset: str | dict[str, Any], solver: Solver, rules: Rules
) -> Callable[[str, History, str], dict[str, float]]:
    """(text, history, secret) -> the preset's terms without their weights, for game records.

    A game has no look-ahead columns, so `regret` is 0.
    """
    names = resolve_preset(preset)["weights"]
    judge = make_judge(solver, rules)
    return lambda text, history, secret: {
        name: TERMS[name].value(judge(text, history, secret, None)) for name in names
    }


def _reward_function(name: str, judge: Callable[..., Judgement]) -> Reward:
    term = TERMS[name]
    needed = ("history", "secret") if name in NEED_SECRET else ("history",)

    def reward(completions: Sequence[Completion], **columns: Any) -> list[float]:
        rows = [
            _column(name, columns, key, len(completions), key in needed)
            for key in ("fits", "history", "secret", "best_bits")
        ]
        texts = map(text_of, completions)
        return [term.value(judge(*row)) for row in zip(texts, *rows, strict=True)]

    reward.__name__ = reward.__qualname__ = name
    reward.__doc__ = f"{term.meaning} (from {term.low} to {term.high})."
    return checked(reward)


def _column(name: str, columns: dict[str, Any], key: str, size: int, needed: bool) -> Sequence[Any]:
    values = columns.get(key)
    if values is None and not needed:
        return [None] * size
    if values is not None and (isinstance(values, str) or len(values) != size):
        raise ValueError(
            f"reward {name!r}: column {key!r} holds {len(values)} values for {size} completions; "
            "it needs one a completion"
        )
    if values is None or (needed and None in values):
        raise ValueError(f"reward {name!r} needs the column {key!r} with a value in every row")
    return values


def text_of(completion: Completion) -> str:
    """The text of a completion: itself, or the content of the last of its chat messages."""
    if isinstance(completion, str):
        return completion
    return (completion[-1].get("content") or "") if completion else ""


def checked(function: Reward) -> Reward:
    """The same TRL reward function, whose result is checked before anyone uses it.

    Raises ValueError with the function's name unless it gives one finite number a completion; a
    value that is not finite is shown with its row.
    """
    name = function.__name__

    @wraps(function)
    def reward(completions: Sequence[Completion], **columns: Any) -> list[float]:
        values = function(completions=completions, **columns)
        size = len(values) if hasattr(values, "__len__") else None
        if size != len(completions):
            got = f"the single value {values!r}" if size is None else f"{size} values"
            raise ValueError(
                f"reward {name!r} returned {got} for {len(completions)} completions; it must "
                "return one value a completion"
            )
        for row, value in enumerate(values):
            if not _is_finite(value):
                raise ValueError(
                    f"reward {name!r} returned {value!r} for row {row}, completion "
                    f"{text_of(completions[row])!r}; it must be a finite number"
                )
        return [float(value) for value in values]

    return reward


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except TypeError:
        return False


def game_reward(record: dict[str, Any], rules: Rules) -> float:
    """Total of a finished game record, from its moves alone; from -2 + 1/turns to 2 - 1/turns.

    A win: 1 and the share of turns not needed. A loss: minus, by the turns, the illegal turns, half
    of the repeated guesses and twice the turns never played. So any win beats any loss, an early win
    a late one, an honest loss a careless one, and giving up early is worst.
    """
    seen: set[str] = set()
    cost = 0.0
    for number, turn in enumerate(record["turns"], 1):
        legal = turn["feedback"] is not None
        if game.is_win(Turn(turn["guess"], turn["feedback"], rule=turn.get("rule")), record["secret"]):
            return 1 + (rules.turns - number) / rules.turns
        cost += 1.0 if not legal else 0.5 * (turn["guess"] in seen)
        seen.add(turn["guess"])
    cost += 2 * (rules.turns - len(record["turns"]))
    return -cost / rules.turns


SCHEDULES = ("fixed", "phase", "linear")


class Schedule(NamedTuple):
    """How weights change during training: from `start` to `end`, by `kind` (one of SCHEDULES)."""

    kind: str
    start: dict[str, float]
    end: dict[str, float]
    threshold: float


def make_schedule(kind: str, preset: str | dict[str, Any], threshold: float = 0.9) -> Schedule:
    """A schedule that ends with a preset's weights.

    fixed: those throughout. phase: only form and dictionary until format compliance reaches
    `threshold` (share of completions). linear: from form and dictionary in even steps. Raises
    ValueError for an unknown kind and a threshold outside 0 to 1.
    """
    if kind not in SCHEDULES:
        raise ValueError(f"unknown reward schedule {kind!r}; use one of {', '.join(SCHEDULES)}")
    if not 0 <= threshold <= 1:
        raise ValueError(f"the threshold of a reward schedule is {threshold!r}; use a share from 0 to 1")
    end = dict(resolve_preset(preset)["weights"])
    form = {name: w if name in ("format", "dictionary") else 0.0 for name, w in end.items()}
    return Schedule(kind, end if kind == "fixed" else form, end, threshold)


def weights_at(schedule: Schedule, step: int, max_steps: int, compliance: float) -> dict[str, float]:
    """The weight of every term before `step` (0 to max_steps), a pure function.

    compliance: measured share of well-formed completions. Pass the best so far and a phase, once
    switched, never goes back.
    """
    if schedule.kind == "phase":
        share = float(compliance >= schedule.threshold)
    else:
        share = min(1.0, step / max(1, max_steps))
    return {name: (1 - share) * schedule.start[name] + share * w for name, w in schedule.end.items()}


class CheckState(NamedTuple):
    """A state of the self-check: its history, the secret (the ideal guess), one text for each kind."""

    history: History
    secret: str
    texts: dict[str, str]


def self_check(preset: str | dict[str, Any], solver: Solver, rules: Rules) -> list[dict[str, Any]]:
    """Score hand-made completions of every kind in some states, and compare with the preset's claim.

    Returns one row a completion: state, kind, completion, total, and the value of each term. Raises
    ValueError, with the broken claims and the table, unless every claim holds in every state.
    """
    resolved = resolve_preset(preset)
    weights, judge = resolved["weights"], make_judge(solver, rules)
    table, broken = [], []
    for state in check_states(solver, rules):
        shown = " ".join(f"{turn.guess}:{turn.feedback}" for turn in state.history)
        best_bits = solver.lookahead(state.history)["best_bits"]
        totals = {}
        named = {kind for claim in resolved.get("claim", ()) for kind in claim.split()[::2]}
        if unknown := sorted(named - set(state.texts)):
            raise ValueError(
                f"the reward preset compares guesses that {rules.game} does not have ({', '.join(unknown)}): "
                f"use preset {default_preset(rules)}"
            )
        for kind, text in state.texts.items():
            judgement = judge(text, state.history, state.secret, best_bits)
            totals[kind] = total(weights, judgement)
            terms = {name: TERMS[name].value(judgement) for name in weights}
            table.append({"state": shown, "kind": kind, "completion": text, "total": totals[kind], **terms})
        broken += [f"{claim} in {shown}" for claim in _broken_claims(resolved.get("claim", ()), totals)]
    if broken:
        lines = [f"{row['state']}  {row['kind']:<12}  {row['total']:+.4f}" for row in table]
        raise ValueError(
            f"the reward preset does not rank as it claims: not {'; not '.join(broken)}\n" + "\n".join(lines)
        )
    return table


def _broken_claims(claim: Sequence[str], totals: dict[str, float]) -> Iterator[str]:
    for chain in claim:
        parts = chain.split()
        for left, sign, right in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
            lead = totals[left] - totals[right]
            if not (lead > 1e-9 if sign == ">" else abs(lead) <= 1e-9):
                yield f"{left} {sign} {right}"


@singledispatch
def check_states(solver: Solver, rules: Rules) -> list[CheckState]:
    """Up to three states, after one, two and three turns, in which every kind of guess exists.

    Always the same ones for the same lists. Raises ValueError when the lists are too small to hold
    any.
    """
    rng = random.Random(0)
    states = []
    for n_turns in (1, 2, 3):
        # Many a drawn state has too few candidates; a few hundred draws find a good one if any does.
        histories = (_draw_history(solver, n_turns, rng) for _ in range(300))
        found = (state for history in histories if (state := _check_state(solver, rules, history)))
        states += [state for state in [next(found, None)] if state]
    if not states:
        raise ValueError(
            f"{solver.words!r} are too few words to check a reward preset: no state has two possible "
            "words of different information and another word that does not fit"
        )
    return states


def _draw_history(solver: Solver, n_turns: int, rng: random.Random) -> History:
    secret, history = rng.choice(solver.universe), ()
    for _ in range(n_turns):
        guess = rng.choice(solver.consistent_words(history) if history else solver.guesses)
        history += (game.Turn(guess, game.score(guess, secret)),)
    return history


def _check_state(solver: Solver, rules: Rules, history: History) -> CheckState | None:
    candidates = solver.candidates(history)
    bits = {word: solver.bits(word, candidates) for word in solver.consistent_words(history)}
    most, least, last = max(bits, key=bits.get), min(bits, key=bits.get), history[-1].guess
    if bits[most] - bits[least] < 1e-6:
        return None
    # The hardest comparisons: the inconsistent word with most information, the best guess malformed.
    information = solver.information(np.arange(len(solver.guesses)), candidates)
    by_information = (solver.guesses[row] for row in np.argsort(-information, kind="stable"))
    past = {turn.guess for turn in history}
    inconsistent = (
        word
        for word in by_information
        if word not in past
        and not game.is_consistent(word, history)
        and game.judge(word, history, solver.words, rules) == "ok"
    )
    strings = map("".join, product(alphabet_letters(rules.alphabet), repeat=rules.length))
    nonwords = (text for text in strings if text not in solver.words.dictionary)
    guesses = (most, least, next(inconsistent, None), last, next(nonwords, None))
    if None in guesses:
        return None
    texts = [prompts.completion([word], word, rules.thinking) for word in guesses]
    texts += [f"{prompts.GUESS}{most}{prompts.END_GUESS}", ""]
    return CheckState(history, most, dict(zip(KINDS, texts, strict=True)))
