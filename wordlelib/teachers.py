"""The solver as a teacher: states that a student will meet, and what to think and guess there."""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, singledispatch
from types import MappingProxyType
from typing import Any

import numpy as np

from wordlelib.game import History, Turn, is_consistent, is_win, knowledge, take_turn
from wordlelib.prompts import completion, parse_guess, thought
from wordlelib.solver import Solver, pattern_code
from wordlelib.words import alphabet_letters

# Where states come from: the share of all states that each kind of game gives.
MIX = {
    "teacher": 0.20,  # the teacher from the first turn on
    "decoy": 0.30,  # the teacher's opener, then guesses that leave another word possible next to the secret
    "opener": 0.10,  # any answer as the opener, then the teacher
    "random": 0.15,  # any answer as the opener, then the teacher, consistent words and any answers
    "consistent": 0.05,  # any consistent word on every turn
    "invalid": 0.10,  # at least one turn was wasted on a missing guess or a non-word
    "preplayed": 0.10,  # none to all but one of the turns were used on any allowed guesses
    "invented": 0.0,  # as invalid, but the non-words fit all feedback
    "slip": 0.0,  # the teacher; then, with few words left, ones that nearly fit, or the last guess again
}
# The same with what students get wrong: `mix_with`.
STUDENT_MIX = MIX | {"teacher": 0.15, "opener": 0.05, "random": 0.10, "preplayed": 0.05}
STUDENT_MIX |= {"invalid": 0.0, "invented": 0.10, "slip": 0.20}
# What is played on a turn after the opener, by kind of game: weights of the moves.
MOVES = {
    "teacher": {"teacher": 1.0},
    "opener": {"teacher": 1.0},
    "random": {"teacher": 0.40, "consistent": 0.35, "answer": 0.25},
    "consistent": {"consistent": 1.0},
    "invalid": {"teacher": 0.40, "consistent": 0.25, "non-word": 0.25, "no guess": 0.10},
    "invented": {"teacher": 0.40, "consistent": 0.20, "invented": 0.20, "again": 0.10, "no guess": 0.10},
    "preplayed": {"word": 1.0},
    "slip": {"teacher": 0.30, "near": 0.50, "again": 0.20},
}
FEW = 2  # words left, from which on students slip: 99% of the turns that they lose have no more
WASTED = ("invalid", "invented")  # games whose states have at least one turn without feedback
OPENERS = {"opener": "answer", "random": "answer", "slip": "teacher"}
BLIND = 8  # guesses that a game with a decoy draws on each turn, to play the most telling one
TRIES = 200  # letters that are drawn to invent a word that fits all feedback
BARREN = 1000  # games without a state in a row that mean that a source gives none
OFTEN = 10**9  # guesses, more than any data set has rows
SURE = 6  # with at most this many candidates the teacher always takes the best one


@lru_cache(maxsize=1 << 14)
def _most_informative(solver: Solver, candidates: bytes) -> tuple[int, ...]:
    """Places, among the candidates, of those with most information. Cached: openers and splits recur."""
    indices = np.frombuffer(candidates, dtype=np.intp)
    # Equal partitions must tie exactly, whatever the order in which they are summed.
    bits = solver.information(solver.universe_rows[indices], indices).round(9)
    n_best = 2 if len(indices) > SURE else np.count_nonzero(bits == bits.max())
    return tuple(np.argsort(-bits, kind="stable")[:n_best].tolist())


@singledispatch
def solver_turn(
    solver: Solver,
    history: History,
    rng: random.Random,
    candidates: int = 3,
    guessed: Mapping[str, int] = MappingProxyType({}),
    guess_place: str = "last",
) -> tuple[list[str], str]:
    """What the teacher thinks, up to `candidates` distinct consistent words, and which of them it guesses.

    The guess is a consistent word, by `solver.teacher`: with the fewest guesses to the end, or with most
    information; of the latter, while more than six are left, one of the two best, so that games differ. Of
    equally good words it is the one `guessed` least often so far (word to count), or any of them: the first
    in the alphabet would leave others without practice.
    The opener is always the best one: a student that opens the same way every time meets few states,
    and learns them well. The other words are drawn from the consistent ones and stand before it
    (`guess_place` last) or after it (first) in random order. When nothing is consistent, it is the first
    allowed guess.
    """
    if candidates < 1:
        raise ValueError(f"the teacher must name at least its guess: candidates is {candidates}")
    left = np.asarray(solver.candidates(history), dtype=np.intp)
    if not len(left):
        return [solver.guesses[0]], solver.guesses[0]
    if solver.teacher == "fewest":
        best = solver.fewest_guesses(left, solver.rules.turns - len(history))[1]
    else:
        best = _most_informative(solver, left.tobytes())
    rarity = {place: (guessed.get(solver.universe[left[place]], 0), rng.random()) for place in best}
    chosen = min(best, key=rarity.get) if history else best[0]
    drawn = rng.sample(range(len(left)), min(candidates, len(left)))
    others = [place for place in drawn if place != chosen][: candidates - 1]
    places = (*others, chosen) if guess_place == "last" else (chosen, *others)
    return [solver.universe[left[place]] for place in places], solver.universe[left[chosen]]


def ties_from(secrets: Collection[str], ties: str) -> Counter[str]:
    """Where the counts of `guessed` start: at nothing (`rarest`), or as if all secrets had been guessed often
    (`non_secrets`).

    Secrets have the states with one word left to themselves, so a student learns to name one of them whenever
    little is left. With `non_secrets` the other words are named wherever one of them is as good; but this
    tells the student which words are held out, and it finds them sooner than others: reports say so.
    """
    return Counter(dict.fromkeys(secrets, OFTEN) if ties == "non_secrets" else ())


def mix_with(non_words: str) -> dict[str, float]:
    """`MIX`, whose non-words are `altered` (a consistent word with a letter changed), or `STUDENT_MIX`, whose
    non-words are `invented` and whose games have other slips of students too."""
    return MIX if non_words == "altered" else STUDENT_MIX


def non_word(word: str, rng: random.Random, known: Collection[str], alphabet: str = "a-z") -> str:
    """`word` with letters replaced until it is none of the `known` words.

    Raises ValueError when that takes more than 1,000 letters (a list that holds every string).
    """
    letters = alphabet_letters(alphabet)
    for _ in range(1000):
        place = rng.randrange(len(word))
        word = word[:place] + rng.choice(letters) + word[place + 1 :]
        if word not in known:
            return word
    raise ValueError(f"found no non-word of {len(word)} letters {alphabet}: the list seems to hold them all")


def _invented(solver: Solver, history: History, rng: random.Random, known: Collection[str]) -> str | None:
    """A string that fits all feedback and is none of the `known` words, as a student invents it.

    Letters that are not placed yet come from the same place of random words. None when the tries do not
    suffice, as when several letters are known but not their places.
    """
    pattern = knowledge(history, solver.rules.length).pattern
    for _ in range(TRIES):
        word = "".join(
            rng.choice(solver.universe)[place] if letter == "_" else letter
            for place, letter in enumerate(pattern)
        )
        if word not in known and is_consistent(word, history):
            return word
    return None


def _nearly_fitting(solver: Solver, history: History) -> np.ndarray:
    """The words of the universe that contradict the fewest turns of a history, at least one."""
    wrong = np.zeros(len(solver.universe), int)
    for turn in history:
        if turn.feedback is not None:
            wrong += solver.codes(turn.guess) != pattern_code(turn.feedback)
    return np.flatnonzero(wrong == wrong[wrong > 0].min())


def _move_text(
    solver: Solver, history: History, move: str, rng: random.Random, known: Collection[str]
) -> str:
    """The completion of one move. `known`: real words, which no non-word may equal."""
    if move == "teacher":
        return completion(*solver_turn(solver, history, rng), solver.rules.thinking)
    if move == "near":
        guess = solver.universe[rng.choice(_nearly_fitting(solver, history))]
    elif move == "again" and history and history[-1].guess:
        guess = history[-1].guess
    elif move == "answer":
        guess = rng.choice(solver.words.answers)
    elif move == "word":
        guess = rng.choice(solver.guesses)
    else:
        guess = solver.universe[rng.choice(solver.candidates(history))]
    if move == "no guess":
        return thought([guess], solver.rules.thinking)
    if move == "non-word":
        guess = non_word(guess, rng, known, solver.rules.alphabet)
    if move == "invented":
        guess = _invented(solver, history, rng, known) or non_word(guess, rng, known, solver.rules.alphabet)
    return completion([guess], guess, solver.rules.thinking)


def _play(solver: Solver, history: History, secret: str, text: str) -> Turn:
    """One turn, as in every game: parsed, judged, scored. Only a growing chat shows past texts."""
    parsed = parse_guess(text, solver.rules.length, solver.rules.alphabet)
    turn = take_turn(*parsed, text, secret, history, solver.words, solver.rules)
    return turn if solver.rules.history == "chat" else turn._replace(text="")


def _game_states(
    solver: Solver, secret: str, kind: str, rng: random.Random, known: Collection[str]
) -> Iterator[History]:
    """The states of one game that belong into the data: unfinished, and typical for its kind."""
    turns = solver.rules.turns
    used = rng.randrange(turns) if kind == "preplayed" else turns - 1
    moves, weights = MOVES[kind].keys(), MOVES[kind].values()
    history = ()
    while len(history) < used:
        move = rng.choices(tuple(moves), tuple(weights))[0]
        if not history:
            move = OPENERS.get(kind, move)
        elif kind == "slip" and len(solver.candidates(history)) > FEW:
            move = "teacher"
        turn = _play(solver, history, secret, _move_text(solver, history, move, rng, known))
        if is_win(turn, secret):
            return
        history += (turn,)
        if kind != "preplayed" and (kind not in WASTED or any(t.feedback is None for t in history)):
            yield history
    if kind == "preplayed":
        yield history


def _blind_guess(solver: Solver, history: History, pair: Sequence[int], rng: random.Random) -> str | None:
    """A guess whose feedback is the same for the two words of `pair` (universe indices), if there is one.

    A consistent one if there is any, and the most telling of a few: as a student would play.
    """
    left = solver.candidates(history)
    rows = solver.universe_rows
    for pool in (rows[left], rows):
        first, second = solver.matrix[np.ix_(pool, pair)].T
        if len(blind := pool[first == second]):
            break
    drawn = [solver.guesses[blind[i]] for i in rng.sample(range(len(blind)), min(BLIND, len(blind)))]
    return max(drawn, key=lambda word: solver.bits(word, left), default=None)


def _decoy_states(
    solver: Solver, secret: str, rng: random.Random, secrets: Collection[str]
) -> Iterator[History]:
    """The states of a game in which a second word, the decoy, stays possible from the opener to the end.

    In the last states of other games only the secret is left, so a word that is never a secret would
    never be the one to name there. The decoy is a word that is no secret, if the opener leaves one.
    """
    history, pair = (), ()
    guess = solver_turn(solver, history, rng)[1]
    while guess and len(history) < solver.rules.turns - 1:
        history += (_play(solver, history, secret, completion([guess], guess, solver.rules.thinking)),)
        if is_win(history[-1], secret):
            return
        yield history
        if not pair:
            place = solver.universe.index(secret)
            others = [i for i in solver.candidates(history).tolist() if i != place]
            if not others:
                return
            pair = place, rng.choice([i for i in others if solver.universe[i] not in secrets] or others)
        guess = _blind_guess(solver, history, pair, rng)


@singledispatch
def make_states(
    solver: Solver,
    secrets: Sequence[str],
    n: int,
    seed: int | str = 0,
    mix: dict[str, float] = MIX,
    known: Collection[str] = (),
) -> Iterator[tuple[History, str, str]]:
    """`n` states as (history, secret, source), the same for the same arguments.

    Secrets take turns in shuffled passes. `mix`: share of the states by source (keys of `MIX`);
    the games of each source are played in such an order that the shares hold all along. The empty
    history appears only among the `preplayed` states. No turn of any state names a word outside
    `solver.words`, except invented non-words; those also avoid the `known` words (words that
    the lists of `solver` leave out). Raises ValueError for an unknown source, shares that are not
    positive, no secrets, or a secret that is not in the solver's universe.
    """
    shares = _shares(solver, secrets, mix)
    return _states(
        solver, list(secrets), n, random.Random(seed), shares, solver.words.dictionary | set(known)
    )


@singledispatch
def task(
    solver: Solver,
    secrets: Sequence[str],
    seed: int | str,
    number: int,
    past_turns: int | None = None,
    mix: dict[str, float] = MIX,
    known: Collection[str] = (),
) -> tuple[History, str, str]:
    """Task `number` of an endless series, as (history, secret, source): a function of its arguments alone.

    The case is the solver's lists and rules, `secrets` and `past_turns` (None: any number of them). Sources
    are drawn by the shares of `mix`, so that these hold over many tasks. Raises ValueError as `make_states`
    does, and when no game has a state after so many turns.
    """
    shares = _shares(solver, secrets, mix)
    rng, known = random.Random(f"task {seed} {number}"), solver.words.dictionary | set(known)
    for _ in range(BARREN):
        secret, [kind] = rng.choice(secrets), rng.choices(tuple(shares), tuple(shares.values()))
        states = _game_of(solver, secret, kind, rng, known, frozenset(secrets))
        if fitting := [state for state in states if past_turns in (None, len(state))]:
            return rng.choice(fitting), secret, kind
    raise ValueError(
        f"task: {BARREN} games had no state after {past_turns} turns; with {solver.rules.turns} turns and "
        f"{len(solver.universe)} possible words use another number or mix"
    )


def _shares(solver: Solver, secrets: Sequence[str], mix: dict[str, float]) -> dict[str, float]:
    """The positive shares of `mix`, once it and the secrets are seen to fit."""
    if unknown := sorted(set(mix) - set(MIX)):
        raise ValueError(f"mix: unknown source {unknown[0]!r}; use some of {', '.join(MIX)}")
    shares = {kind: share for kind, share in mix.items() if share}
    if not shares or min(shares.values()) < 0:
        raise ValueError(f"mix: {mix} needs shares from 0 up, and one above 0")
    if not secrets:
        raise ValueError("make_states: there are no secrets to make states of")
    if strange := sorted(set(secrets) - set(solver.universe)):
        raise ValueError(f"make_states: secret {strange[0]!r} is not among the words that the solver knows")
    return shares


def _game_of(
    solver: Solver,
    secret: str,
    kind: str,
    rng: random.Random,
    known: Collection[str],
    secrets: Collection[str],
) -> Iterator[History]:
    if kind == "decoy":
        return _decoy_states(solver, secret, rng, secrets)
    return _game_states(solver, secret, kind, rng, known)


def _states(
    solver: Solver,
    deck: list[str],
    n: int,
    rng: random.Random,
    shares: dict[str, float],
    known: frozenset[str],
) -> Iterator[tuple[History, str, str]]:
    made, barren, secrets = Counter(), 0, frozenset(deck)
    while made.total() < n:
        rng.shuffle(deck)
        for secret in deck:
            kind = min(shares, key=lambda kind: made[kind] / shares[kind])
            barren += 1
            for history in _game_of(solver, secret, kind, rng, known, secrets):
                if made.total() == n:
                    return
                made[kind], barren = made[kind] + 1, 0
                yield history, secret, kind
            if barren > BARREN:
                raise ValueError(
                    f"mix: {BARREN} games of source {kind!r} gave no state; with {solver.rules.turns} turns "
                    f"and {len(solver.universe)} possible words use another source"
                )


def traces(
    solver: Solver, secrets: Sequence[str], seed: int = 0, candidates: int = 3, guess_place: str = "last"
) -> Iterator[dict[str, Any]]:
    """Whole games of the teacher as game records, one for each secret; same arguments, same games."""
    from wordlelib.evaluate import iter_games  # here, since it reads files through `data`, which needs us

    def player(histories: list[History], seeds: list[int]) -> list[str]:
        rngs = (random.Random(f"{s}/{len(h)}") for h, s in zip(histories, seeds, strict=True))
        turns = (
            solver_turn(solver, h, rng, candidates, guess_place=guess_place)
            for h, rng in zip(histories, rngs, strict=True)
        )
        return [completion(*turn, solver.rules.thinking) for turn in turns]

    return iter_games(player, secrets, solver.words, solver.rules, name="teacher", seed=seed)
