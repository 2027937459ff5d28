"""Rows of others as records: what they say of a game, the checks by its rules, and what became of them."""

import hashlib
import marshal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import and_
from typing import NamedTuple

from wordlelib.containers import Bad
from wordlelib.data import Chat
from wordlelib.game import ABSENT, CORRECT, PRESENT, History, Turn, judge, score, take_turn
from wordlelib.notations import decomposed
from wordlelib.prompts import completion, parse_guess
from wordlelib.rules import Rules
from wordlelib.thinking import false_statements
from wordlelib.words import Words

REMEMBERED = 1_000_000  # different rows among which repeats are noticed: a bound on memory
EXAMPLES = 3  # disagreements, and false statements, that a report shows
SHOWN_ROWS = 10  # row numbers that it shows of each reason
NAMES = 1000  # columns that are not read whose rows are counted
IMPORTED = "import"  # the source of rows that name none


class Record(NamedTuple):
    """One row, whatever its form.

    number: of the row in its source, from 1, in a folder of files with the file's name. history: the turns
    before the completion, with their texts where the form has them; a whole game has all its turns there and
    no completion.
    secret, completion: None where the row does not say. prompt: the original text, as a chat or a
    string, None where the form has none. word_list: as named by predibase/wordle-grpo. source: where a row of
    training data comes from, as it says itself. unjust: words that the completion rejects though they fit.
    """

    number: int | str
    history: History
    secret: str | None = None
    completion: str | None = None
    prompt: Chat | str | None = None
    word_list: str = ""
    source: str = IMPORTED
    unjust: str = ""


class Checked(NamedTuple):
    """What was found out of one row by itself.

    why: the reason to leave it out, None where no check says anything against it. key: the same for rows
    that repeat each other, in any process. texts: how many it has; false: what is false in each of those that
    say anything false. record: None where no more is wanted than stands here, which costs far less.
    """

    number: int | str
    secret: str | None
    why: Bad | None
    key: int = 0
    texts: int = 0
    false: tuple[list[str], ...] = ()
    record: Record | None = None


@dataclass
class Played:
    """The games of one secret: finished ones, and those that a check left out. kept: those that are written,
    or would be. fewest: guesses of the shortest that was won. dropped: the others by reason."""

    games: int = 0
    won: int = 0
    kept: int = 0
    fewest: int | None = None
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass
class Report:
    """What was read and what became of it. `made`: rows written, or that would be without a target.

    left_out: rows by reason. first: what is said of the first row of each reason. numbers: the first rows
    of each. unread: rows with something in a column that no form reads, by its name. guesses_alone: turns of
    games without texts, of which the guess alone was written. turns: feedback compared with our scorer.
    disagreements: of these, other feedback than ours; `repeated` of them in a guess or secret that repeats a
    letter. texts: those read for statements about letters; false_texts of them have any that the feedback
    contradicts, false_statements in all. words: the games by secret.
    """

    source: str
    form: str = ""
    rows: int = 0
    made: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, list[int | str]] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    guesses_alone: int = 0
    turns: int = 0
    disagreements: int = 0
    repeated: int = 0
    examples: list[str] = field(default_factory=list)
    texts: int = 0
    false_texts: int = 0
    false_statements: int = 0
    false_examples: list[str] = field(default_factory=list)
    words: dict[str, Played] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Rows that nothing was said against."""
        return self.rows - self.left_out.total()

    def add(self, part: "Report") -> None:
        """Count what was counted in further rows, all but those left out."""
        self.rows += part.rows
        for name, rows in part.unread.items():
            self.lose(name, rows)
        self.turns += part.turns
        self.disagreements += part.disagreements
        self.repeated += part.repeated
        self.examples = (self.examples + part.examples)[:EXAMPLES]

    def lose(self, name: str, rows: int = 1) -> None:
        """Count rows with something in a column that is not read."""
        if name in self.unread or len(self.unread) < NAMES:
            self.unread[name] += rows

    def leave_out(self, number: int | str, why: Bad) -> None:
        """Count a row that is not kept."""
        self.left_out[why.kind] += 1
        self.first.setdefault(why.kind, f"row {number}: {why}")
        numbers = self.numbers.setdefault(why.kind, [])
        if len(numbers) < SHOWN_ROWS:
            numbers.append(number)

    def note_texts(self, checked: Checked) -> None:
        """Count the texts of a row, and what is false in them."""
        self.texts += checked.texts
        self.false_texts += len(checked.false)
        for false in checked.false:
            self.false_statements += len(false)
            if len(self.false_examples) < EXAMPLES:
                self.false_examples.append(f"row {checked.number}: {false[0][:80]!r}")

    def drop(self, secret: str, reason: str) -> None:
        """Count a game of a word that is not kept."""
        word = self.words.setdefault(secret, Played())
        word.games += 1
        word.dropped[reason] += 1

    def _left_out(self, kind: str) -> str:
        count, others = self.left_out[kind], self.numbers[kind][1:]
        more = ", …" if count > SHOWN_ROWS else ""
        also = f" (also row {', '.join(map(str, others))}{more})" if others else ""
        return f"  {count:,} left out, {self.first[kind]}{also}"

    def _games(self) -> str:
        played, n = self.words.values(), len(self.words)
        games, won = sum(word.games for word in played), sum(word.won for word in played)
        ever = sum(word.won > 0 for word in played)
        return (
            f"  {games:,} games of {n:,} words, {won:,} won; {ever:,} words won at least once, "
            f"{n - ever:,} never"
        )

    def _unread(self) -> str:
        names = [f"{name[:80]!r} ({n:,} rows)" for name, n in self.unread.most_common(SHOWN_ROWS)]
        more = f" and {len(self.unread) - len(names):,} more" if len(self.unread) > len(names) else ""
        return f"  columns that are not read, and lost: {', '.join(names)}{more}"

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.rows:,} rows of the form {self.form}, {self.kept:,} kept"]
        lines += [self._left_out(kind) for kind, _ in self.left_out.most_common()]
        if self.disagreements:
            lines.append(
                f"  feedback of {self.disagreements:,} of {self.turns:,} turns is not that of the secret "
                f"({self.repeated:,} with a repeated letter), such as {'; '.join(self.examples)}"
            )
        if self.false_statements:
            lines.append(
                f"  {self.false_statements:,} statements about letters in {self.false_texts:,} of "
                f"{self.texts:,} texts are false, such as {'; '.join(self.false_examples)}"
            )
        if self.words:
            lines.append(self._games())
        if self.guesses_alone:
            lines.append(f"  {self.guesses_alone:,} turns of games without texts, written as the guess alone")
        if self.unread:
            lines.append(self._unread())
        if self.kept > REMEMBERED:
            lines.append(f"  repeated rows were looked for among the first {REMEMBERED:,} different ones")
        return "\n".join(lines)


def fits(words: Sequence[str]) -> Callable[[str, str], int]:
    """A function from a guess and its feedback to the words that `score` so, as the bits of one number.

    Bits of several turns are joined by `&`. Some microseconds a turn, where scoring takes one a word.
    """
    everyone = (1 << len(words)) - 1
    at: Counter[tuple[str, int]] = Counter()  # words with a letter at a place
    copies: Counter[tuple[str, int]] = Counter()  # words with at least so many copies of a letter
    for number, word in enumerate(words):
        for place, letter in enumerate(word):
            at[letter, place] |= 1 << number
            copies[letter, word[: place + 1].count(letter)] |= 1 << number

    @lru_cache(maxsize=1 << 13)
    def of(letter: str, *marks: tuple[int, str]) -> int:
        """By the marks of one letter, each with its place."""
        left, told, used_up = everyone, 0, False
        for place, mark in marks:
            left &= at[letter, place] if mark == CORRECT else ~at[letter, place]
            if used_up and mark == PRESENT:
                return 0  # copies are marked from the left
            told, used_up = told + (mark != ABSENT), used_up or mark == ABSENT
        left &= copies[letter, told] if told else everyone
        return left & ~copies[letter, told + 1] if used_up else left

    def fitting(guess: str, feedback: str) -> int:
        left, turn = everyone, tuple(enumerate(feedback))
        for place, letter in enumerate(guess):
            if guess.count(letter) == 1:
                left &= of(letter, turn[place])
            elif letter not in guess[:place]:
                left &= of(letter, *(mark for own, mark in zip(guess, turn, strict=True) if own == letter))
        return left

    return fitting


def checker(words: Words, rules: Rules, held_out: Mapping[str, str]) -> Callable[[Record, Report], Record]:
    """A function that returns a record with all feedback known, or raises `Bad` with the reason.

    In its report it counts the turns whose feedback it compares. Feedback that the row gives is compared with
    that of its secret; without a secret some allowed word must fit it, and of the answers one that is not
    `held_out` (these with why they are), or none.
    """
    answers, others = (
        sum(1 << number for number, word in enumerate(words.allowed) if word in wanted)
        for wanted in (set(words.answers), set(words.answers) - held_out.keys())
    )
    green = "G" * rules.length
    scored = lru_cache(maxsize=1 << 16)(score)
    fitting = lru_cache(maxsize=1 << 14)(fits(words.allowed))

    def known(turn: Turn, record: Record, report: Report) -> Turn:
        """The turn with its feedback, compared with ours."""
        if not record.secret:
            if not turn.feedback:
                raise Bad("neither feedback nor a secret to score a guess", repr(turn.guess))
            return turn
        ours = scored(turn.guess, record.secret)
        if not turn.feedback:
            return turn._replace(feedback=ours)
        report.turns += 1
        if turn.feedback != ours:
            report.disagreements += 1
            report.repeated += min(len(set(turn.guess)), len(set(record.secret))) < rules.length
            if len(report.examples) < EXAMPLES:
                report.examples.append(
                    f"row {record.number}: {turn.guess} for {record.secret} is {ours}, not {turn.feedback}"
                )
        return turn

    def require_legal(guess: str, verdict: str, history: Iterable[Turn]) -> None:
        if (ours := judge(guess, history, words, rules)) != verdict:
            said = {"not_a_word": "guess is not a word of the lists", "hard_mode": "guess breaks hard mode"}
            raise Bad(said.get(ours, "a guess is marked invalid that the game takes"), repr(guess))

    def require_some_word(told: list[tuple[str, str]], guess: str | None) -> None:
        """Some word fits the feedback, and not only held-out answers: `guess`, or one of the lists."""
        if not held_out and guess in words.dictionary and all(scored(past, guess) == f for past, f in told):
            return  # what a good player writes, and seen faster
        if not (left := reduce(and_, (fitting(*turn) for turn in told), -1)):
            raise Bad("feedback fits no word of the lists", told)
        if left & answers and not left & others:
            raise Bad("feedback that only a secret fits which is held out or for validation", told)

    def check(record: Record, report: Report) -> Record:
        if not (record.history or record.secret or record.completion is not None):
            raise Bad("neither a guess nor a secret in the row")
        if reason := held_out.get(record.secret):
            raise Bad(reason, repr(record.secret))
        if record.secret and record.secret not in words.dictionary:
            raise Bad("secret is not a word of the lists", repr(record.secret))
        if len(record.history) + (record.completion is not None) > rules.turns:
            raise Bad(f"more turns than the {rules.turns} of the game", len(record.history))
        guess, reason = parse_guess(record.completion or "", rules.length, rules.alphabet)
        history: list[Turn] = []
        before = report.disagreements
        for turn in record.history:
            if history and history[-1].feedback == green:
                raise Bad("turns go on after a win", repr(history[-1].guess))
            if turn.guess:
                require_legal(turn.guess, turn.rule, history)
                turn = known(turn, record, report) if turn.rule == "ok" else turn
            history.append(turn)
        if record.secret and report.disagreements > before:
            raise Bad("feedback contradicts the secret", repr(record.secret))
        if not record.secret:
            told = [(turn.guess, turn.feedback) for turn in history if turn.feedback]
            require_some_word(told, guess)
        if record.completion is not None:
            if history and history[-1].feedback == green:
                raise Bad("turns go on after a win", repr(history[-1].guess))
            if guess is None:
                raise Bad("no guess in the completion", reason + decomposed(record.completion))
            require_legal(guess, "ok", history)
        # most rows say all feedback, and a new record takes a tenth of the check
        checked = tuple(history)
        return record if checked == record.history else record._replace(history=checked)

    return check


def over(history: History, rules: Rules) -> bool:
    """Whether the game is won or all turns are used."""
    return len(history) >= rules.turns or (bool(history) and history[-1].feedback == CORRECT * rules.length)


def finished(record: Record, words: Words, rules: Rules) -> History:
    """The turns of a record that ends a game of a known secret, its completion as the last one; else none."""
    if not record.secret:
        return ()
    early = record.completion is not None and len(record.history) + 1 < rules.turns
    if early and parse_guess(record.completion, rules.length, rules.alphabet).guess != record.secret:
        return ()  # most rows, and a turn costs a tenth of the check
    turns = game_turns(record, words, rules)
    return turns if over(turns, rules) else ()


def game_turns(record: Record, words: Words, rules: Rules) -> History:
    """The turns of a record with a secret, its completion as the last one."""
    if record.completion is None:
        return record.history
    parsed = parse_guess(record.completion, rules.length, rules.alphabet)
    last = take_turn(*parsed, record.completion, record.secret, record.history, words, rules)
    return (*record.history, last)


def told(record: Record, rules: Rules) -> Record:
    """A finished game with texts: where no turn has one, each guess as the teacher writes it.

    Any other record stays as it is. Raises `Bad` when a text names another guess than its turn.
    """
    if record.completion is not None or not over(record.history, rules):
        return record
    for turn in record.history:
        if turn.text and turn.guess != parse_guess(turn.text, rules.length, rules.alphabet).guess:
            raise Bad("the text of a turn does not end with its guess", repr(turn.guess))
    if any(turn.text for turn in record.history):
        return record
    texts = (
        completion([turn.guess], turn.guess, rules.thinking) if turn.guess else "" for turn in record.history
    )
    pairs = zip(record.history, texts, strict=True)
    return record._replace(history=tuple(turn._replace(text=text) for turn, text in pairs))


def row_key(record: Record) -> int:
    """64 bits, the same for two rows that say the same, and in any process."""
    turns = [tuple(turn) for turn in record.history]
    # In version 2 equal values are equal bytes; later ones refer back to what is the same object.
    said = marshal.dumps((record.secret, turns, record.completion, record.prompt), 2)
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest())


def read_thinking(record: Record) -> tuple[int, tuple[list[str], ...]]:
    """How many texts a record has, and the statements in each that its feedback contradicts, if any."""
    texts = [*(turn.text for turn in record.history), record.completion]
    read = [false_statements(text, record.history[:n]) for n, text in enumerate(texts) if text]
    return len(read), tuple(filter(None, read))
