"""What recorded games say of their players, computed on arrays: a million games take seconds.

`read` and `from_records` turn game records into `Games`, one a player; every other function measures
them. The definitions are those of `game` and `evaluate`, which say them one game at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wordlelib.data import iter_jsonl
from wordlelib.evaluate import CONDITIONS, wilson
from wordlelib.game import Turn
from wordlelib.inference import Comparison, compare, mean_interval
from wordlelib.players import FAILED
from wordlelib.runs import unpacked
from wordlelib.solver import Solver, pattern_code, pattern_text

Record = Mapping[str, Any]
Flags = dict[str, np.ndarray]
NEEDED = ("secret", "turns", "won", "n_guesses", "player", "rules", "preplayed")
BLOCK = 1 << 24  # bytes of a games file that are parsed at a time
WALKED = 1 << 16  # games whose states are held at a time
CELLS = 1 << 18  # candidates that are compared with feedback at a time
SAMPLE = 500  # games whose states are searched for the best guess: tens of milliseconds a state


class Games(NamedTuple):
    """Games of one player under one set of rules: G games of up to T turns, over W words of L letters.

    words, letters [W, L]: every word named, and its letters as small numbers. secret [G], guess [G, T]:
    indices into them, -1 for no guess. code [G, T]: feedback as in `solver.pattern_matrix`, -1 without any.
    nonword, taken [G, T]: the guess is no word; the player took this turn (it is not pre-played,
    and no failed request). length [G]:
    turns of a game. conditions: name to [G].
    """

    player: str
    rules: str
    words: np.ndarray
    letters: np.ndarray
    secret: np.ndarray
    guess: np.ndarray
    code: np.ndarray
    nonword: np.ndarray
    taken: np.ndarray
    length: np.ndarray
    conditions: dict[str, np.ndarray]

    def secrets(self) -> list[str]:
        """The secret of each game."""
        return self.words[self.secret].tolist()

    def take(self, which: np.ndarray) -> "Games":
        """Some of the games: a mask or indices over them."""
        parts = {
            name: getattr(self, name)[which]
            for name in ("secret", "guess", "code", "nonword", "taken", "length")
        }
        return self._replace(
            **parts, conditions={name: values[which] for name, values in self.conditions.items()}
        )


# Reading ----------------------------------------------------------------------------------------


def read(path: str | Path, digest: str | None = None) -> dict[str, Games]:
    """Player to its games of a `games.jsonl` (or `.gz`), in order of first appearance.

    The file is parsed a block at a time, so that what is held of a game is its moves and not its text. Raises
    ValueError naming file and line for a missing field, another rules digest than `digest` (None: that
    of the first line), and a `won`, `n_guesses` or feedback that the moves contradict; naming the file
    for one that is damaged or half written.
    """
    parts: list[dict[str, Games]] = []
    read_so_far = 0
    for table in _tables(path):
        parts.append(_by_player(table, str(path), digest, read_so_far))
        digest = next(iter(parts[-1].values())).rules
        read_so_far += table.num_rows
    return _joined(parts, str(path))


def _tables(path: str | Path) -> Iterator[Any]:
    """The records of a file as tables of a block each."""
    import pyarrow as pa
    from pyarrow import json

    options = json.ParseOptions(explicit_schema=_schema(), unexpected_field_behavior="ignore")
    with unpacked(path) as file:
        while block := file.read(BLOCK):
            block += file.readline()
            try:
                table = json.read_json(
                    pa.BufferReader(block), json.ReadOptions(block_size=len(block)), options
                )
            except pa.ArrowInvalid as error:
                for _ in iter_jsonl(path):  # names the line that is at fault, if there is one
                    pass
                raise ValueError(f"{path}: not game records ({error})") from None
            if table.num_rows:
                yield table


def from_records(records: Iterable[Record]) -> dict[str, Games]:
    """Player to its games of records in memory; raises ValueError as `read` does."""
    import pyarrow as pa

    records = list(records)
    for number, record in enumerate(records, 1):
        if missing := [name for name in NEEDED if name not in record]:
            raise ValueError(f"record, line {number}: not a game record, {missing[0]!r} is missing")
    table = pa.Table.from_pylist(records, schema=_schema())
    return _by_player(table, "record", None, 0) if records else {}


def _schema() -> Any:
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    turn = pa.struct([(name, text) for name in ("guess", "feedback", "reason", "rule")])
    return pa.schema(
        [
            *((name, text) for name in ("secret", "player", "rules")),
            ("won", pa.bool_()),
            *((name, number) for name in ("n_guesses", *CONDITIONS)),
            ("turns", pa.list_(turn)),
        ]
    )


def _by_player(table: Any, where: str, digest: str | None, before: int) -> dict[str, Games]:
    """Player to its games of a table of one row at least, above which `before` lines were read."""
    import pyarrow.compute as pc

    for name in NEEDED:
        if table[name].null_count:
            line = before + int(np.argmax(table[name].is_null().to_numpy())) + 1
            raise ValueError(f"{where}, line {line}: not a game record, {name!r} is missing")
    digest = digest or table["rules"][0].as_py()
    other = pc.not_equal(table["rules"], digest).to_numpy()
    if other.any():
        row = int(np.argmax(other))
        found = table["rules"][row].as_py()
        raise ValueError(
            f"{where}, line {before + row + 1}: played under rules {found}, not {digest}; never mix the two"
        )
    players = table["player"].combine_chunks().dictionary_encode()
    games = _games(table, where, digest, before)
    indices = players.indices.to_numpy()
    return {
        name: games.take(indices == number)._replace(player=name)
        for number, name in enumerate(players.dictionary.to_pylist())
    }


def _joined(parts: Sequence[dict[str, Games]], where: str) -> dict[str, Games]:
    """Player to its games of all parts, over as many turns as the longest game of any player."""
    turns = max((games.guess.shape[1] for part in parts for games in part.values()), default=0)
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: _one([part[name] for part in parts if name in part], turns, where) for name in names}


def _one(parts: Sequence[Games], turns: int, where: str) -> Games:
    """The games of some parts of one player as one."""
    words = list(dict.fromkeys(word for part in parts for word in part.words))
    places = {word: place for place, word in enumerate(words)}
    # no guess, -1, is the last place
    moved = [np.array([*map(places.get, part.words), -1], dtype=np.int32) for part in parts]

    def padded(name: str, empty: Any) -> list[np.ndarray]:
        values = [getattr(part, name) for part in parts]
        return [np.pad(v, ((0, 0), (0, turns - v.shape[1])), constant_values=empty) for v in values]

    return parts[0]._replace(
        words=np.array(words, dtype=object),
        letters=_letter_numbers(words, where),
        secret=np.concatenate([table[part.secret] for table, part in zip(moved, parts, strict=True)]),
        guess=np.concatenate([t[own] for t, own in zip(moved, padded("guess", -1), strict=True)]),
        code=np.concatenate(padded("code", -1)),
        nonword=np.concatenate(padded("nonword", False)),
        taken=np.concatenate(padded("taken", False)),
        length=np.concatenate([part.length for part in parts]),
        conditions={
            name: np.concatenate([part.conditions[name] for part in parts]) for name in parts[0].conditions
        },
    )


def _games(table: Any, where: str, digest: str, before: int) -> Games:
    """All games of a table as if of one player, checked against their own moves."""
    turns = table["turns"].combine_chunks()
    flat = turns.flatten()
    length = np.diff(turns.offsets.to_numpy())
    game = np.repeat(np.arange(len(length)), length)
    number = np.arange(len(flat)) - np.repeat(
        turns.offsets.to_numpy()[:-1] - turns.offsets[0].as_py(), length
    )

    def encoded(array: Any) -> tuple[np.ndarray, list[str]]:
        coded = array.dictionary_encode()
        return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()

    guess, guesses = encoded(flat.field("guess"))
    secret, secrets = encoded(table["secret"].combine_chunks())
    feedback, marks = encoded(flat.field("feedback"))
    rule, rules = encoded(flat.field("rule"))
    reason, reasons = encoded(flat.field("reason"))
    words = list(dict.fromkeys([*guesses, *secrets]))
    places = {word: place for place, word in enumerate(words)}
    letters = _letter_numbers(words, where)
    try:
        codes = np.array([*map(pattern_code, marks), -1], dtype=np.int32)
    except ValueError as error:
        raise ValueError(f"{where}: not game records ({error})") from None

    def laid_out(values: np.ndarray, empty: Any) -> np.ndarray:
        out = np.full((len(length), max(length.max(initial=0), 1)), empty, dtype=values.dtype)
        out[game, number] = values
        return out

    conditions = {name: table[name].fill_null(0).to_numpy() for name in CONDITIONS}
    answered = laid_out(reason != (reasons.index(FAILED) if FAILED in reasons else -2), False)
    is_word = rules.index("not_a_word") if "not_a_word" in rules else -2
    games = Games(
        "",
        digest,
        np.array(words, dtype=object),
        letters,
        np.array([places[word] for word in secrets], dtype=np.int32)[secret],
        laid_out(guess.astype(np.int32), -1),  # the guesses come first among the words
        laid_out(codes[feedback], -1),
        laid_out(rule == is_word, False),
        answered & (np.arange(answered.shape[1]) >= conditions["preplayed"][:, None]),
        length,
        conditions,
    )
    _check_moves(games, table, where, before)
    return games


def _letter_numbers(words: Sequence[str], where: str) -> np.ndarray:
    if wrong := [word for word in words if len(word) != len(words[0])]:
        raise ValueError(f"{where}: not game records ({wrong[0]!r} is not as long as {words[0]!r})")
    points = np.array(words, dtype=f"U{max(len(words[0]), 1)}").view(np.uint32).reshape(len(words), -1)
    return np.unique(points, return_inverse=True)[1].reshape(points.shape).astype(np.uint16)


def _check_moves(games: Games, table: Any, where: str, before: int) -> None:
    legal = games.code >= 0
    own = np.broadcast_to(games.secret[:, None], games.guess.shape)[legal]
    wrong = np.zeros(legal.shape, bool)
    wrong[legal] = _codes(_marks(games.letters[games.guess[legal]], games.letters[own])) != games.code[legal]
    wrong[legal & (games.guess < 0)] = True
    n_guesses, won = table["n_guesses"].to_numpy(), table["won"].to_numpy()
    lying = wrong.any(axis=1) | (n_guesses != games.length) | (won != (won_in(games) > 0))
    if lying.any():
        row = int(np.argmax(lying))
        said = "feedback" if wrong[row].any() else "`won` or `n_guesses`"
        word = games.words[games.secret[row]]
        raise ValueError(f"{where}, line {before + row + 1}: {said} contradicts the moves of {word!r}")


def _marks(guess: np.ndarray, secret: np.ndarray) -> np.ndarray:
    """`game.score` for letters [N, L] and [N, L]: marks [N, L], B 0, Y 1, G 2."""
    green = guess == secret
    marks = 2 * green.astype(np.uint8)
    unused = ~green
    for i in range(guess.shape[1]):
        open_ = ~green[:, i]
        for j in range(guess.shape[1]):
            hit = open_ & unused[:, j] & (guess[:, i] == secret[:, j])
            marks[hit, i] = 1
            unused[:, j] &= ~hit
            open_ &= ~hit
    return marks


def _codes(marks: np.ndarray) -> np.ndarray:
    return marks @ (3 ** np.arange(marks.shape[1], dtype=np.int32))


# Turns and games --------------------------------------------------------------------------------


def won_in(games: Games) -> np.ndarray:
    """The number of the winning turn [G] from 1, 0 for a loss: decided from the moves (`evaluate.won_in`)."""
    wins = (games.guess == games.secret[:, None]) & (games.code >= 0)
    return np.where(wins.any(axis=1), wins.argmax(axis=1) + 1, 0)


def guesses_or_loss(games: Games) -> np.ndarray:
    """Guesses [G] of a won game; a lost one counts one more than its turns."""
    number = won_in(games)
    return np.where(number > 0, number, games.length + 1)


def turn_flags(games: Games) -> Flags:
    """What was wrong with each turn that the player took: name to [G, T].

    malformed: no guess. nonword. invalid: no feedback. repeated: a guess made before. And of legal guesses:
    green, yellow, grey: contradicts a mark of that colour (`game.violations`); inconsistent: any of
    them; hard: breaks the official hard-mode rule (`game.hard_mode_violation`), whether it was played or not.
    """
    legal, shape = games.code >= 0, games.guess.shape
    names = ("repeated", "green", "yellow", "grey", "hard")
    flags = {name: np.zeros(shape, bool) for name in names}
    for turn in range(1, shape[1]):
        for past in range(turn):
            same = (games.guess[:, turn] >= 0) & (games.guess[:, turn] == games.guess[:, past])
            flags["repeated"][:, turn] |= same
            both = np.flatnonzero(legal[:, turn] & legal[:, past])
            broken = _contradictions(games, both, past, turn)
            for name, found in zip(names[1:], broken, strict=True):
                flags[name][both, turn] |= found
    flags["inconsistent"] = flags["green"] | flags["yellow"] | flags["grey"]
    flags |= {"malformed": games.guess < 0, "nonword": games.nonword, "invalid": ~legal}
    return {name: flag & games.taken for name, flag in flags.items()}


def _contradictions(games: Games, which: np.ndarray, past: int, turn: int) -> list[np.ndarray]:
    """Of some games [N]: whether the guess of `turn` contradicts a green, a yellow, a grey mark of the guess
    of `past`, and whether it breaks hard mode by it."""
    before, after = games.letters[games.guess[which, past]], games.letters[games.guess[which, turn]]
    length = before.shape[1]
    marks = games.code[which, past][:, None] // 3 ** np.arange(length) % 3
    unlike = _marks(before, after) != marks
    hard = ((marks == 2) & (before != after)).any(axis=1)
    revealed = marks > 0
    for place in range(length):
        letter = before[:, place, None]
        copies = ((before == letter) & revealed).sum(axis=1)
        hard |= (after == letter).sum(axis=1) < copies
    return [*((unlike & (marks == mark)).any(axis=1) for mark in (2, 1, 0)), hard]


def hard_mode_wins(games: Games, flags: Flags) -> np.ndarray:
    """Games [G] won without a guess that breaks the official hard-mode rule."""
    return (won_in(games) > 0) & ~flags["hard"].any(axis=1)


class _Walk:
    """The distinct states that games pass through, turn by turn: their candidates and histories."""

    def __init__(self, games: Games, solver: Solver) -> None:
        self.games, self.solver = games, solver
        self.state = np.zeros(len(games.secret), np.int64)  # the state of each game
        self.candidates = solver.candidates(())  # of all states, one after the other
        self.sizes = np.array([len(self.candidates)])  # how many of them each state has
        self.steps: list[tuple[np.ndarray, ...]] = []  # of each turn: parent, guess and code of each state

    def step(self, turn: int) -> None:
        """Play one turn in all games. A turn without feedback leaves candidates and history as they are."""
        games, n_codes = self.games, 3 ** self.games.letters.shape[1]
        legal = games.code[:, turn] >= 0
        guess = np.where(legal, games.guess[:, turn], -1).astype(np.int64)
        asked = self.state * (len(games.words) + 1) + guess + 1
        moves, self.state = np.unique(
            asked * n_codes + np.where(legal, games.code[:, turn], 0), return_inverse=True
        )
        # a state and a guess that meets it: its candidates are parted once, by their feedback
        pairs, pair = np.unique(moves // n_codes, return_inverse=True)
        parent, guess = np.divmod(pairs, len(games.words) + 1)
        guess -= 1
        self.steps.append((parent[pair], guess[pair], moves % n_codes))
        wanted = pair * n_codes + moves % n_codes
        blocks = np.array_split(np.arange(len(pairs)), 1 + int(self.sizes[parent].sum()) // CELLS)
        found = [self._parted(parent[block], guess[block], block * n_codes, wanted) for block in blocks]
        self.candidates, move = map(np.concatenate, zip(*found, strict=True))
        self.sizes = np.bincount(move, minlength=len(moves))

    def _parted(
        self, parent: np.ndarray, guess: np.ndarray, key: np.ndarray, wanted: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The candidates of some states after a guess each, in the order of the `wanted` keys (a pair's own
        `key` and a feedback), with the place of its key beside each; those of other keys are left out."""
        sizes = self.sizes[parent]
        own = np.repeat(np.arange(len(parent)), sizes)
        first = np.cumsum(self.sizes)[parent] - sizes  # of each state, in the list of all candidates
        left = self.candidates[np.arange(len(own)) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)]
        code = np.zeros(len(own), np.int64)
        named = np.unique(guess[guess >= 0])
        if len(named):
            codes = np.stack([self.solver.codes(word) for word in self.games.words[named]])
            known = guess[own] >= 0
            code[known] = codes[np.searchsorted(named, guess)[own[known]], left[known]]
        cell = key[own] + code
        place = np.minimum(np.searchsorted(wanted, cell), len(wanted) - 1)
        hit = wanted[place] == cell
        order = np.argsort(place[hit], kind="stable")
        return left[hit][order], place[hit][order]

    def counts(self) -> np.ndarray:
        """Candidates left in each game [G]."""
        return self.sizes[self.state]

    def left(self, state: int) -> np.ndarray:
        """The candidates of a state."""
        end = int(self.sizes[: state + 1].sum())
        return self.candidates[end - self.sizes[state] : end]

    def history(self, state: int) -> tuple[Turn, ...]:
        """The history of a state, without its invalid turns."""
        turns, length = [], self.games.letters.shape[1]
        for parent, guess, code in reversed(self.steps):
            if guess[state] >= 0:
                turns.append(Turn(self.games.words[guess[state]], pattern_text(int(code[state]), length)))
            state = parent[state]
        return tuple(reversed(turns))


def bits_gained(games: Games, solver: Solver) -> np.ndarray:
    """Information [G, T] in bits that each turn gave: log2 of the words possible before it over those after.

    An invalid turn gives 0; NaN where the player took no turn, and where the secret is outside the
    solver's universe, so that no word is left.
    """
    gained = np.empty(games.guess.shape)
    # games of one opener stand together, so that blocks of them share states
    order = np.argsort(games.guess[:, 0], kind="stable")
    for start in range(0, len(order), WALKED):
        block = order[start : start + WALKED]
        gained[block] = _bits_gained(games.take(block), solver)
    return gained


def _bits_gained(games: Games, solver: Solver) -> np.ndarray:
    walk = _Walk(games, solver)
    left = [walk.counts()]
    for turn in range(games.guess.shape[1]):
        walk.step(turn)
        left.append(walk.counts())
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log2(np.stack(left, axis=1))
        gained = logs[:, :-1] - logs[:, 1:]
    gained[~games.taken | ~np.isfinite(gained)] = np.nan
    return gained


def sample(games: Games, n: int = SAMPLE) -> Games:
    """At most `n` of the games, always the same ones, in their order."""
    if len(games.secret) <= n:
        return games
    return games.take(np.sort(np.random.default_rng(0).choice(len(games.secret), n, replace=False)))


def regret(games: Games, solver: Solver) -> np.ndarray:
    """Bits [G, T] that the best guess of the state was expected to give beyond the guess made; NaN where
    the player took no turn.

    The best guess (`Solver.best_guess`) is searched over all that the rules allow, some milliseconds a state:
    hand a `sample` of many games. An invalid turn forgoes all of it.
    """
    walk, lost = _Walk(games, solver), np.full(games.guess.shape, np.nan)
    for turn in range(games.guess.shape[1]):
        legal = games.code[:, turn] >= 0
        keys = np.stack([walk.state, np.where(legal, games.guess[:, turn], -1)], axis=1)[games.taken[:, turn]]
        if len(keys):
            pairs, index = np.unique(keys, axis=0, return_inverse=True)
            found = [_regret(walk, solver, state, guess) for state, guess in pairs.tolist()]
            lost[games.taken[:, turn], turn] = np.array(found)[index.ravel()]
        walk.step(turn)
    return lost


def _regret(walk: _Walk, solver: Solver, state: int, guess: int) -> float:
    left = walk.left(state)
    if len(left) < 2:
        return 0.0
    own = solver.bits(walk.games.words[guess], left) if guess >= 0 else 0.0
    return max(0.0, solver.best_guess(walk.history(state))[1] - own)


# Summaries --------------------------------------------------------------------------------------


def summary(games: Games, flags: Flags | None = None) -> dict[str, float | int | None]:
    """The numbers of `evaluate.summarise`, exactly, from arrays."""
    flags = turn_flags(games) if flags is None else flags
    number, counted = won_in(games), guesses_or_loss(games)
    n, turns, won = len(number), int(games.taken.sum()), int((number > 0).sum())
    low, high = wilson(won, n) if n else (None, None)
    easier = {name: int(values.sum()) for name, values in games.conditions.items()}
    shares = {
        f"{name}_share": _ratio(flags[flag].sum(), turns)
        for name, flag in (
            ("malformed", "malformed"),
            ("nonword", "nonword"),
            ("invalid", "invalid"),
            ("repeat", "repeated"),
            ("inconsistent", "inconsistent"),
        )
    }
    return {
        **{"games": n, "win_rate": _ratio(won, n), "win_rate_low": low, "win_rate_high": high},
        "mean_guesses_won": _ratio(number.sum(), won),
        "mean_guesses_loss7": _ratio(counted.sum(), n),
        **shares,
        "preplayed": easier["preplayed"],
        **{name: easier[name] for name in CONDITIONS[1:] if easier[name]},
    }


def _ratio(part: Any, whole: int) -> float | None:
    return int(part) / whole if whole else None


class Measured(NamedTuple):
    """A player's games, what was wrong with their turns, the bits of each turn (None without a solver)."""

    games: Games
    flags: Flags
    bits: np.ndarray | None

    def take(self, which: np.ndarray) -> "Measured":
        """Some of the games, as `Games.take`."""
        flags = {name: flag[which] for name, flag in self.flags.items()}
        return Measured(self.games.take(which), flags, None if self.bits is None else self.bits[which])


def forgone(games: Games, solver: Solver) -> Measured:
    """A `sample` of the games, whose `bits` are not those gained but the `regret` of each turn."""
    drawn = sample(games)
    return Measured(drawn, {}, regret(drawn, solver))


def mean_bits(measured: Measured) -> float | None:
    """The mean of the bits of all turns; None where none is known."""
    known = measured.bits is not None and np.isfinite(measured.bits).any()
    return float(np.nanmean(measured.bits)) if known else None


def measure(games: Games, solver: Solver | None = None) -> Measured:
    """Everything that `describe` counts, measured once for all parts of the games."""
    return Measured(games, turn_flags(games), None if solver is None else bits_gained(games, solver))


def part_of(games: Games | Measured, secrets: Iterable[str]) -> Any:
    """The games, measured or not, on some secrets."""
    wanted = set(secrets)
    own = games.games if isinstance(games, Measured) else games
    inside = np.array([word in wanted for word in own.words], bool)
    return games.take(inside[own.secret])


def describe(measured: Measured) -> dict[str, Any]:
    """All that a table says of one player, flat; shares are of the turns the player took, None where
    undefined.

    Beyond `summary`: `mean_guesses_won_interval` and `mean_guesses_loss7_interval` (bootstrap 95%),
    `hard_mode_wins` (share of all games) with its Wilson interval,
    `green_share`, `yellow_share`, `grey_share`, `hard_share` (guesses that break that rule) and
    `bits_per_turn`.
    """
    games, flags = measured.games, measured.flags
    number, n, turns = won_in(games), len(games.secret), int(games.taken.sum())
    hard = int(hard_mode_wins(games, flags).sum())
    return {
        **summary(games, flags),
        "mean_guesses_won_interval": _interval(number[number > 0]),
        "mean_guesses_loss7_interval": _interval(guesses_or_loss(games)),
        "hard_mode_wins": _ratio(hard, n),
        "hard_mode_wins_interval": wilson(hard, n) if n else None,
        **{f"{name}_share": _ratio(flags[name].sum(), turns) for name in ("green", "yellow", "grey", "hard")},
        "bits_per_turn": mean_bits(measured),
    }


def _interval(values: np.ndarray) -> tuple[float, float] | None:
    """The bootstrap interval of the mean; None where all values are one, which no resample can vary."""
    return mean_interval(values) if len(np.unique(values)) > 1 else None


def histogram(games: Games, turns: int = 6) -> dict[str, int]:
    """Games won in 1 to `turns` guesses and lost ones under `X`, as `evaluate.guess_histogram`."""
    counts = np.bincount(won_in(games), minlength=turns + 1)
    return {str(k): int(counts[k]) for k in range(1, len(counts))} | {"X": int(counts[0])}


def survival(games: Games) -> list[float]:
    """Share of the games not yet won after 0, 1, 2, … turns."""
    number, n = won_in(games), max(len(games.secret), 1)
    turns = games.guess.shape[1]
    return [1.0] + [1 - int(((number > 0) & (number <= k)).sum()) / n for k in range(1, turns + 1)]


def mean_by_turn(values: np.ndarray) -> list[float | None]:
    """Mean of each column over the games that have a value there."""
    known = np.isfinite(values)
    return [
        float(np.mean(values[known[:, k], k])) if known[:, k].any() else None for k in range(values.shape[1])
    ]


def openers(games: Games) -> list[tuple[str | None, float]]:
    """The three most frequent first guesses of the player (None: no guess) with their shares of the games."""
    first = games.taken.argmax(axis=1)
    begun = games.taken.any(axis=1)
    words = Counter(games.guess[np.arange(len(first)), first][begun].tolist()).most_common(3)
    return [
        (None if word < 0 else games.words[word], count / max(int(begun.sum()), 1)) for word, count in words
    ]


def most_frequent(games: Games) -> tuple[str | None, float]:
    """The guess that a player made most often (None for no guess), and its share of the turns taken."""
    guesses, counts = np.unique(games.guess[games.taken], return_counts=True)
    if not len(guesses):
        return None, 0.0
    most = int(counts.argmax())
    return (None if guesses[most] < 0 else str(games.words[guesses[most]])), float(
        counts[most] / counts.sum()
    )


def agree(first: Games, second: Games) -> str | None:
    """The condition that keeps two players' games from being compared, None when nothing does."""
    if first.rules != second.rules:
        return "rules"
    for games in (first, second):
        if len(np.unique(games.secret)) < len(games.secret):
            return "secret"
    _, left, right = np.intersect1d(first.secrets(), second.secrets(), return_indices=True)
    if not len(left):
        return "secret"
    for name in CONDITIONS:
        if (first.conditions[name][left] != second.conditions[name][right]).any():
            return name
    return None


def paired(first: Games, second: Games) -> Comparison:
    """`inference.compare` on the secrets that both played.

    Raises ValueError that names the field in which they cannot be paired: `rules`, `secret` (none in common,
    or several games a secret), or one of CONDITIONS.
    """
    if field := agree(first, second):
        raise ValueError(
            f"{first.player} and {second.player} cannot be compared game by game: field {field!r} differs "
            "or repeats; play the same secrets once each under the same conditions"
        )
    _, left, right = np.intersect1d(first.secrets(), second.secrets(), return_indices=True)
    a, b = first.take(left), second.take(right)
    won = list(zip((won_in(a) > 0).tolist(), (won_in(b) > 0).tolist(), strict=True))
    return compare(won, list(zip(guesses_or_loss(a).tolist(), guesses_or_loss(b).tolist(), strict=True)))
