"""The solver: all feedback in one matrix, exact candidate sets, information, baseline policies."""

import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache, singledispatch

import numpy as np

from wordlelib.game import ABSENT, CORRECT, PRESENT, History, Turn, decode_history, knowledge
from wordlelib.rules import Rules
from wordlelib.words import Words

MARKS = ABSENT + PRESENT + CORRECT  # digits 0, 1, 2 of a pattern code
LONGEST = 10  # 3**10 codes fit uint16, 3**11 do not
PAIRWISE = 48  # up to so many candidates, and for more guesses, comparing all pairs beats counting
BLOCK = 1 << 18  # cells worked on at a time: small enough to stay in a processor's cache
Key = tuple[tuple[str, str], ...]  # guess and feedback of each valid turn

# Guesses that the best possible strategy needs over all answers, by the hashes of the two lists
# (answers, allowed): all guesses allowed, official hard mode, guesses from the answers only. Known from
# an exhaustive search (A. Selby, "The best strategies for Wordle", 2022); they are not proved again here.
OPTIMAL_TOTALS = {
    (
        "f40e47975cf360ff9febe7d49c8e285054d8fa3fb9644cea575922060951d6ee",
        "feacc549249b5dcb43e2799fbbcda14ebc33d55904fb15d043779104e60c1579",
    ): {"normal": 7920, "hard": 8122, "answers": 7973}
}


def letter_table(words: Sequence[str], length: int) -> np.ndarray:
    """The letters of words as code points [len(words), length]; ValueError for a word of another length."""
    if wrong := [word for word in words if len(word) != length]:
        raise ValueError(f"pattern matrix: {wrong[0]!r} has {len(wrong[0])} letters, not {length}")
    return np.array(list("".join(words)), dtype="U1").view(np.uint32).reshape(len(words), length)


def _letter_patterns(length: int, dtype: type) -> np.ndarray:
    """Share of one letter in a pattern code, by the places (bit masks) it has in guess and secret."""
    masks = np.arange(1 << length, dtype=np.uint32)
    guess, secret = masks[:, None], masks[None, :]
    unused = np.bitwise_count(secret & ~guess).astype(np.int8)
    shares = np.zeros((len(masks), len(masks)), dtype)
    for place in range(length):
        in_guess, in_secret = (guess >> place & 1).astype(bool), (secret >> place & 1).astype(bool)
        yellow = in_guess & ~in_secret & (unused > 0)
        unused -= yellow
        shares += (2 * (in_guess & in_secret) + yellow).astype(dtype) * dtype(3**place)
    return shares


def pattern_matrix(guesses: Sequence[str], secrets: Sequence[str]) -> np.ndarray:
    """Feedback codes [len(guesses), len(secrets)]: B 0, Y 1, G 2, place i (from 0) weighted 3**i.

    uint8 up to five letters, uint16 up to ten. Raises ValueError for longer words, for lengths that
    differ and for an empty list.
    """
    if not guesses or not secrets:
        raise ValueError("pattern matrix: needs at least one guess and one secret")
    length = len(guesses[0])
    if not 1 <= length <= LONGEST:
        raise ValueError(f"pattern matrix: words of {length} letters; 1 to {LONGEST} fit its codes")
    dtype = np.uint8 if 3**length <= 256 else np.uint16
    guess_letters, secret_letters = letter_table(guesses, length), letter_table(secrets, length)
    bits = 1 << np.arange(length)

    # A letter's marks depend only on where guess and secret have that letter. So each distinct pair
    # of a letter and its places in a guess gives one row, and a guess is the sum of its letters' rows.
    same = guess_letters[:, :, None] == guess_letters[:, None, :]
    repeated = same.argmax(axis=2) < np.arange(length)
    pairs = guess_letters.astype(np.int64) << length | same @ bits
    pairs[repeated] = 0  # counted at its first place; no places means no marks
    pairs, index = np.unique(pairs, return_inverse=True)
    index = index.reshape(guess_letters.shape)
    letters, letter = np.unique(pairs >> length, return_inverse=True)
    places = (secret_letters[None, :, :] == letters[:, None, None]) @ bits
    rows = _letter_patterns(length, dtype)[(pairs & (1 << length) - 1)[:, None], places[letter]]

    matrix = np.empty((len(guesses), len(secrets)), dtype)
    step = max(1, BLOCK // len(secrets))
    for start in range(0, len(guesses), step):
        block, out = index[start : start + step], matrix[start : start + step]
        np.take(rows, block[:, 0], axis=0, out=out)
        for place in range(1, length):
            out += rows[block[:, place]]
    return matrix


def pattern_code(feedback: str) -> int:
    """The code of a feedback string, e.g. `BYG` is 0 + 1*3 + 2*9. Raises ValueError on other marks."""
    return sum(MARKS.index(mark) * 3**place for place, mark in enumerate(feedback))


def pattern_text(code: int, length: int) -> str:
    """The feedback string of a code: the inverse of `pattern_code`."""
    return "".join(MARKS[code // 3**place % 3] for place in range(length))


def _by_candidate(n: int, n_codes: int) -> bool:
    """Whether sizes of parts are listed by candidate, not by code: whichever is shorter to go through."""
    return n <= max(PAIRWISE, n_codes // 2)


def _part_sizes(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """For codes [candidates, guesses]: the sizes of the parts that each guess makes.

    [candidates, guesses] with the part of each candidate or, beyond `_by_candidate`, [codes, guesses].
    """
    n, width = codes.shape
    if n > PAIRWISE or width <= PAIRWISE:
        keys = np.multiply(codes, width, dtype=np.intp) + np.arange(width)
        counts = np.bincount(keys.ravel(), minlength=n_codes * width)
        return counts[keys] if _by_candidate(n, n_codes) else counts.reshape(n_codes, width)
    sizes = np.ones(codes.shape, np.uint8)
    for i in range(n - 1):
        equal = codes[i] == codes[i + 1 :]
        sizes[i] += equal.sum(axis=0, dtype=np.uint8)
        sizes[i + 1 :] += equal
    return sizes


# How the candidates are searched for the fewest guesses to the end.
EXACT = 12  # candidates up to which every one of them is tried as the guess
BEAM = 5  # of more, as many of those with most information
LOST = 20  # guesses that a lost game counts for, so that a trap is worth a longer way round


def _guesses_of_few(n: int, left: int) -> int:
    """Guesses that one or two candidates take in all, or any number of them with one guess left."""
    return 1 + LOST * (n - 1) if left == 1 else 2 * n - 1


def _guesses_at_best(n: int, parts: int, left: int) -> int:
    """Guesses that n candidates in so many parts take at least: the sum of `_guesses_of_few` of the parts."""
    return parts + (n - parts) * (LOST if left == 1 else 2)


class Solver:
    """Frozen tables of one game, and what they say about a history.

    guesses: the allowed words. universe: the words a consistent player believes possible
    (`rules.universe`). matrix: their feedback codes [guesses, universe]. letters: `letter_table` of the
    guesses. row: word to row of both; universe_rows: that of each word of the universe. teacher: which
    consistent word a teacher guesses, the one with most information now (`information`) or with the fewest
    guesses to the end (`fewest`).
    Candidates are ascending indices into `universe`. Everything is total: a history that no word
    fits has no candidates and zero bits.
    """

    def __init__(self, words: Words, rules: Rules, teacher: str = "information") -> None:
        self.words, self.rules, self.teacher = words, rules, teacher
        self.guesses = words.allowed
        self.universe = words.answers if rules.universe == "answers" else words.allowed
        self.matrix = pattern_matrix(self.guesses, self.universe)
        self.matrix.flags.writeable = False
        # The same codes by secret: of all guesses, the codes of a few candidates are then a few whole rows.
        self._columns = np.ascontiguousarray(self.matrix.T)
        self.row = {word: row for row, word in enumerate(self.guesses)}
        self.letters = letter_table(self.guesses, words.length)
        self.universe_rows = np.array([self.row[word] for word in self.universe])
        self._pools = {
            "allowed": np.arange(len(self.guesses)),
            "answers": np.array([self.row[word] for word in words.answers]),
        }
        sizes = np.arange(len(self.universe) + 1)
        self._log2 = np.log2(np.maximum(sizes, 1))
        self._size_log2 = sizes * self._log2
        # Bounded, so that memory stays flat however many games are played.
        self._candidates = lru_cache(maxsize=8192)(self._find_candidates)
        self._best = lru_cache(maxsize=4096)(self._find_best)
        self._fewest = lru_cache(maxsize=1 << 17)(self._find_fewest)

    def codes(self, guess: str) -> np.ndarray:
        """Feedback codes [universe] of any word of the right length, also one not in the list."""
        row = self.row.get(guess)
        return pattern_matrix([guess], self.universe)[0] if row is None else self.matrix[row]

    def candidates(self, history: History | str) -> np.ndarray:
        """Universe words consistent with a history (or an encoded one), ascending and read-only."""
        return self._candidates(_key(history))

    def _find_candidates(self, key: Key) -> np.ndarray:
        if not key:
            found = np.arange(len(self.universe))
        else:
            guess, feedback = key[-1]
            before = self._candidates(key[:-1])
            found = before[self.codes(guess)[before] == pattern_code(feedback)]
        found.flags.writeable = False
        return found

    def consistent_words(self, history: History | str) -> list[str]:
        """The candidates as words."""
        return [self.universe[i] for i in self.candidates(history)]

    def bits(self, guess: str, candidates: np.ndarray) -> float:
        """Information of one guess over the candidates, in bits (a few microseconds)."""
        n = len(candidates)
        if n < 2:
            return 0.0
        sizes = np.bincount(self.codes(guess)[candidates])
        return max(0.0, float(self._log2[n] - self._size_log2[sizes].sum() / n))

    def information(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Bits [len(rows)] that each guess gives: the entropy of its partition of the candidates."""
        n = len(candidates)
        if not n:
            return np.zeros(len(rows))
        table = self._log2 if _by_candidate(n, 3**self.words.length) else self._size_log2
        spread = self._measure(rows, candidates, lambda sizes: table[sizes].sum(axis=0)) / n
        return np.maximum(self._log2[n] - spread, 0.0)

    def largest_part(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Candidates left [len(rows)] after each guess in the worst case."""
        return self._measure(rows, candidates, lambda sizes: sizes.max(axis=0))

    def _measure(
        self, rows: np.ndarray, candidates: np.ndarray, reduce: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        n, n_codes = len(candidates), 3**self.words.length
        step = max(1, BLOCK // (n if n <= PAIRWISE else max(n, n_codes)))
        parts = []
        for start in range(0, len(rows), step):
            codes = self._codes(rows, slice(start, start + step), candidates)
            parts.append(reduce(_part_sizes(codes, n_codes)))
        return np.concatenate(parts)

    def _codes(self, rows: np.ndarray, block: slice, candidates: np.ndarray) -> np.ndarray:
        """Feedback codes [candidates, guesses] of a block of the rows."""
        if rows is self._pools["allowed"]:
            return self._columns[candidates, block]
        return np.ascontiguousarray(self.matrix[rows[block]].take(candidates, axis=1).T)

    def _legal_rows(self, history: Key, pool: str) -> np.ndarray:
        """Matrix rows of the guesses that the rules allow now (`game.hard_mode_violation` in numpy)."""
        rows = self._pools[pool]
        if not self.rules.hard_mode:
            return rows
        known = knowledge((Turn(*turn) for turn in history), self.words.length)
        letters = self.letters[rows]
        legal = np.ones(len(rows), bool)
        for place, letter in enumerate(known.pattern):
            if letter != "_":
                legal &= letters[:, place] == ord(letter)
        for letter, copies in known.least.items():
            legal &= (letters == ord(letter)).sum(axis=1) >= copies
        return rows[legal]

    def best_guess(self, history: History | str, pool: str = "allowed") -> tuple[str, float]:
        """Greedy choice and its bits: most information, then a possible answer, then alphabetical.

        pool: `allowed`, or `answers` for guesses from the answer list only. With one or two
        candidates left it is the first of them; without any it is the first guess of the pool.
        """
        return self._best(_key(history), pool, "information")

    def minimax_guess(self, history: History | str) -> str:
        """The guess that leaves fewest candidates in the worst case, ties as in `best_guess`."""
        return self._best(_key(history), "allowed", "largest_part")[0]

    def _find_best(self, key: Key, pool: str, measure: str) -> tuple[str, float]:
        candidates = self._candidates(key)
        rows = self._legal_rows(key, pool)
        if not len(candidates) or not len(rows):
            return self.guesses[self._pools[pool][0]], 0.0
        if len(candidates) <= 2:
            guess = self.universe[candidates[0]]
        else:
            if measure == "information":
                # Equal partitions must tie exactly, whatever the order in which they are summed.
                scores = np.round(self.information(rows, candidates), 9)
            else:
                scores = -self.largest_part(rows, candidates).astype(np.int64)
            possible = {self.universe[i] for i in candidates}
            tied = (self.guesses[row] for row in rows[scores == scores.max()])
            guess = min(tied, key=lambda word: (word not in possible, word))
        return guess, self.bits(guess, candidates)

    def fewest_guesses(self, candidates: np.ndarray, left: int) -> tuple[int, tuple[int, ...]]:
        """Consistent play to the end, by which the candidates take the fewest guesses in all.

        Every guess is a candidate, and `left` guesses are left; a lost game counts as `LOST`. Returns that
        number and the places, among the candidates, of the equally good next guesses. Exact up to `EXACT`
        candidates; of more, the `BEAM` with most information are tried, and beyond them the one with most.
        """
        # Few candidates have no beam: asked for or met on the way, they are then one entry of the cache.
        beam = BEAM if len(candidates) > EXACT else 1
        return self._fewest(np.asarray(candidates, dtype=np.intp).tobytes(), left, beam)

    def _find_fewest(self, key: bytes, left: int, beam: int) -> tuple[int, tuple[int, ...]]:
        candidates = np.frombuffer(key, dtype=np.intp)
        n = len(candidates)
        if left == 1 or n <= 2:
            return _guesses_of_few(n, left), tuple(range(n))
        tried = np.arange(n)
        if n > EXACT:
            bits = self.information(self.universe_rows[candidates], candidates).round(9)
            tried = np.argsort(-bits, kind="stable")[:beam]
        codes = self.matrix[self.universe_rows[candidates[tried], None], candidates]
        in_order = np.sort(codes, axis=1)
        parts = (1 + (in_order[:, 1:] != in_order[:, :-1]).sum(axis=1)).tolist()
        fewest, best = math.inf, []
        for i in sorted(range(len(tried)), key=lambda i: -parts[i]):
            # every candidate takes this guess, and the guess itself no other
            total = n - 1 + _guesses_at_best(n, parts[i], left - 1)
            if total > fewest:
                break
            for code in np.flatnonzero(np.bincount(codes[i]) > 2) if n - parts[i] > 1 else ():
                part = candidates[codes[i] == code]
                total += self._fewest(part.tobytes(), left - 1, 1)[0] - _guesses_of_few(len(part), left - 1)
            if total < fewest:
                fewest, best = total, []
            if total == fewest:
                best.append(i)
        return fewest, tuple(tried[sorted(best)].tolist())

    def lookahead(self, history: History | str) -> dict[str, int | str | float]:
        """What a reward needs to know of a state besides its candidates, computed once a state."""
        guess, bits = self.best_guess(history)
        n_candidates = len(self.candidates(history))
        return {"n_candidates": n_candidates, "best_guess": guess, "best_bits": bits}


@singledispatch
def solver_for(words: Words, rules: Rules, teacher: str = "information") -> Solver:
    """What teachers, rewards and baseline players know of a game, by the type of its lists."""
    return Solver(words, rules, teacher)


@singledispatch
def legal(solver: Solver, history: History) -> list[str]:
    """The guesses that the game accepts now, in the order of the list."""
    return [solver.guesses[row] for row in solver._legal_rows(_key(history), "allowed")]


def _key(history: History | str) -> Key:
    """What the candidates of a history depend on: its valid guesses and their feedback."""
    turns = decode_history(history) if isinstance(history, str) else history
    return tuple((turn[0], turn[1]) for turn in turns if turn[1] is not None)


def greedy(solver: Solver, history: History, rng: random.Random) -> str:
    """Most information over all allowed guesses."""
    return solver.best_guess(history)[0]


def greedy_answers(solver: Solver, history: History, rng: random.Random) -> str:
    """Most information over the answer list only."""
    return solver.best_guess(history, "answers")[0]


def minimax(solver: Solver, history: History, rng: random.Random) -> str:
    """Fewest candidates left in the worst case."""
    return solver.minimax_guess(history)


def random_consistent(solver: Solver, history: History, rng: random.Random) -> str:
    """Any word that fits all feedback, each with the same chance."""
    candidates = solver.candidates(history)
    return solver.universe[rng.choice(candidates)] if len(candidates) else solver.guesses[0]


Policy = Callable[[Solver, History, random.Random], str]
POLICIES: dict[str, Policy] = {
    policy.__name__: policy for policy in (greedy, greedy_answers, minimax, random_consistent)
}


def guess_counts(solver: Solver, policy: Policy, opener: str | None = None) -> dict[str, int]:
    """Guesses that a policy needs for each universe word, in order; a loss counts as turns + 1.

    Walks the tree of all games at once: secrets with the same feedback so far share one choice. So
    it suits policies that do not draw; play those that do game by game.
    """
    counts = dict.fromkeys(solver.universe, solver.rules.turns + 1)
    games: list[History] = [()]
    while games:
        history = games.pop()
        candidates = solver.candidates(history)
        first = opener is not None and not history
        guess = opener if first else policy(solver, history, random.Random(0))
        codes = solver.codes(guess)[candidates]
        for code in np.unique(codes):
            feedback = pattern_text(int(code), solver.words.length)
            if feedback == CORRECT * solver.words.length:
                counts[guess] = len(history) + 1
            elif len(history) + 1 < solver.rules.turns:
                games.append((*history, Turn(guess, feedback)))
    return counts
