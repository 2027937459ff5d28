"""Games and training rows of others: each known form read, checked row by row, and written again.

A file is a container (JSON lines, Parquet, CSV, a `datasets` folder) of rows in one of the forms of
`FORMS`. Every row becomes one `Record`; a row that breaks a rule of the game is left out and its reason is
counted, none is repaired. Rows stream: memory does not grow with the file.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import chain, groupby, islice
from operator import and_
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, NamedTuple

from wordlelib.containers import BATCH, Bad, read_rows, readable
from wordlelib.data import TRACE_COLUMNS, Chat, Data, Row, Taught, write_jsonl
from wordlelib.game import ABSENT, CORRECT, PRESENT, History, Turn, encode_history, judge, score, take_turn
from wordlelib.notations import (
    LINE,
    as_word,
    colours,
    column_history,
    invalid_turn,
    listed_history,
    read_feedback,
    text_history,
)
from wordlelib.prompts import END_THINK, THINK, is_well_formed, messages, parse_guess
from wordlelib.rules import Rules, require_wordle, rules_for
from wordlelib.runs import Run, project_path, replacing, replacing_folder
from wordlelib.words import Split, Words, capitals, load_words

REMEMBERED = 1_000_000  # different rows among which repeats are noticed: a bound on memory
EXAMPLES = 3  # disagreements that a report shows

# What is written of each form; kinds: text, chat (role and content), turns.
FORMS = {
    "sft": {"prompt": "chat", "completion": "chat", "secret": "text", "history": "text", "source": "text"},
    "chat": {"prompt": "chat", "completion": "chat"},
    "prompt": {"prompt": "text", "completion": "text"},
    "messages": {"messages": "chat"},
    "instruction": {"instruction": "text", "output": "text"},
    "response": {"prompt": "text", "response": "text"},
    "answer": {"prompt": "text", "answer": "text"},
    "predibase": dict.fromkeys(("prompt", "word_list", "past_guess_history", "secret", "completion"), "text"),
    "turns": {"word": "text", "turns": "turns"},
    "traces": dict.fromkeys(TRACE_COLUMNS, "text"),
}
# Forms whose own columns do not say the game; two more columns do, so that nothing is lost on the way back.
SILENT = ("chat", "prompt", "messages", "instruction", "response", "answer")
NEED_COMPLETION = ("sft", "chat", "prompt", "instruction", "response")
NEED_SECRET = ("sft", "predibase", "turns", "traces")
# Keys by which a row is known, in this order: some forms hold the keys of others.
KEYS = {
    "predibase": ("prompt", "past_guess_history"),
    "turns": ("word", "turns"),
    "games": ("secret", "turns"),
    "messages": ("messages",),
    "instruction": ("instruction", "output"),
    "completion": ("prompt", "completion"),
    "response": ("prompt", "response"),
    "answer": ("prompt", "answer"),
    "traces": ("secret", "turn", "guess", "feedback"),
    "states": ("prompt", "secret"),
}


class Record(NamedTuple):
    """One row, whatever its form.

    number: of the row in its source, from 1. history: the turns before the completion, with their
    texts where the form has them; a whole game has all its turns there and no completion.
    secret, completion: None where the row does not say. prompt: the original text, as a chat or a
    string, None where the form has none. word_list: as named by predibase/wordle-grpo.
    """

    number: int
    history: History
    secret: str | None = None
    completion: str | None = None
    prompt: Chat | str | None = None
    word_list: str = ""


@dataclass
class Report:
    """What was read and what became of it. `made`: rows written, or that would be without a target.

    left_out: rows by reason. first: the first row of each reason. turns: feedback compared with our
    scorer. disagreements: of these, other feedback than ours; `repeated` of them in a guess or
    secret that repeats a letter.
    """

    source: str
    form: str = ""
    rows: int = 0
    made: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    turns: int = 0
    disagreements: int = 0
    repeated: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """Rows that nothing was said against."""
        return self.rows - self.left_out.total()

    def leave_out(self, number: int, why: Bad) -> None:
        """Count a row that is not kept."""
        self.left_out[why.kind] += 1
        self.first.setdefault(why.kind, f"row {number}: {why}")

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.rows:,} rows of the form {self.form}, {self.kept:,} kept"]
        lines += [f"  {n:,} left out, {self.first[kind]}" for kind, n in self.left_out.most_common()]
        if self.disagreements:
            lines.append(
                f"  feedback of {self.disagreements:,} of {self.turns:,} turns is not that of the secret "
                f"({self.repeated:,} with a repeated letter), such as {'; '.join(self.examples)}"
            )
        if self.kept > REMEMBERED:
            lines.append(f"  repeated rows were looked for among the first {REMEMBERED:,} different ones")
        return "\n".join(lines)


# ---- Forms: one row as a record.

_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\s*|\Z)", re.S)


def _text(row: Row, name: str) -> str:
    if not isinstance(value := row.get(name), str):
        raise Bad(f"{name} is not a text", type(value).__name__)
    return value


def _chat(row: Row, name: str) -> Chat:
    """The messages of a column that holds a chat or a text, which may be one in ChatML."""
    if isinstance(row.get(name), str):
        text = _text(row, name)
        parts = _CHATML.findall(text) if "<|im_start|>" in text else [("user", text)]
        return [{"role": role, "content": content} for role, content in parts]
    if not isinstance(value := row.get(name), list):
        raise Bad(f"{name} is neither a text nor a list of messages", type(value).__name__)
    chat = []
    for message in value:
        if not isinstance(message, dict):
            raise Bad(f"{name} holds something that is no message")
        role, content = message.get("role"), message.get("content")
        if not (isinstance(role, str) and isinstance(content, str)):
            raise Bad(f"{name} holds a message without a text as role and content")
        chat.append({"role": role, "content": content})
    return chat


def _answered(text: str, reply: str, rules: Rules) -> Turn:
    """A turn of a growing chat: what the model wrote, and what it was told."""
    guess, reason = parse_guess(text, rules.length, rules.alphabet)
    if guess is None:
        return Turn(None, None, reason, None, text)
    for line in reply.splitlines():
        body = (match[2] if (match := LINE.match(line)) else line).strip()
        if turn := invalid_turn(body, rules):
            return turn._replace(guess=guess, text=text)
        if read_feedback(body, rules.length):
            return Turn(guess, colours(body, guess, rules), text=text)
    return Turn(guess, "", text=text)


def _chat_history(chat: Chat, rules: Rules) -> History:
    """The turns that a chat tells: in one message, or in one that grows by answers and replies."""
    if any(message["role"] == "assistant" for message in chat):
        replies = [
            message["content"] if message["role"] == "user" else "" for message in (*chat[1:], chat[0])
        ]
        return tuple(
            _answered(message["content"], reply, rules)
            for message, reply in zip(chat, replies, strict=True)
            if message["role"] == "assistant"
        )
    asked = [message["content"] for message in chat if message["role"] == "user"]
    return text_history(asked[-1], rules) if asked else ()


def _secret(row: Row, rules: Rules) -> str | None:
    names = [name for name in ("secret", "word") if row.get(name) not in (None, "")]
    if not names:
        return None
    if not (word := as_word(_text(row, names[0]), rules.length, rules.alphabet)):
        raise Bad(
            f"{names[0]} is not a word of {rules.length} letters {rules.alphabet}", repr(row[names[0]])[:80]
        )
    return word


def _chat_record(number: int, row: Row, prompt: str, answer: str | None, rules: Rules) -> Record:
    """A row of a prompt column and, where there is one, an answer column."""
    chat, completion = _chat(row, prompt), None
    original = row[prompt] if isinstance(row[prompt], str) else list(chat)
    whole = prompt == "messages"
    if not whole and chat and chat[-1]["role"] == "assistant":
        chat.pop()  # the beginning of the answer, written for the model
    if answer and isinstance(row.get(answer), str):
        completion = _text(row, answer)
    elif answer and row.get(answer) is not None:
        chat += _chat(row, answer)
        whole = whole or len(row[answer]) > 1
        if not whole:
            completion = chat.pop()["content"] if chat else None
    if whole:
        completion = chat.pop()["content"] if chat and chat[-1]["role"] == "assistant" else None
        original = list(chat)
    given = next(
        (row[name] for name in ("history", "past_guess_history") if isinstance(row.get(name), str)), None
    )
    history = column_history(given, rules) if given is not None else _chat_history(chat, rules)
    word_list = row.get("word_list")
    word_list = word_list if isinstance(word_list, str) else ""
    return Record(number, history, _secret(row, rules), completion, original, word_list)


def _answer_record(number: int, row: Row, rules: Rules) -> Record:
    """An answer that is one word is the secret, as in sets for RL; any other is the completion."""
    word = as_word(_text(row, "answer"), rules.length, rules.alphabet)
    record = _chat_record(number, row, "prompt", None if word else "answer", rules)
    return record._replace(secret=word) if word else record


def _predibase_record(number: int, row: Row, rules: Rules) -> Record:
    past = row["past_guess_history"]
    record = _chat_record(
        number, {**row, "history": None, "past_guess_history": "[]"}, "prompt", "completion", rules
    )
    history = (
        column_history(_text(row, "past_guess_history"), rules)
        if isinstance(past, str)
        else listed_history(past, rules)
    )
    return record._replace(history=history)


def _instruction_record(number: int, row: Row, rules: Rules) -> Record:
    prompt = _text(row, "instruction") + ("\n\n" + _text(row, "input") if row.get("input") else "")
    return _chat_record(number, {**row, "instruction": prompt}, "instruction", "output", rules)


def _game_record(number: int, row: Row, rules: Rules) -> Record:
    secret = _secret(row, rules)
    if secret is None:
        raise Bad("a game without its secret")
    return Record(number, listed_history(row["turns"], rules), secret)


READERS: dict[str, Callable[[int, Row, Rules], Record]] = {
    "predibase": _predibase_record,
    "turns": _game_record,
    "games": _game_record,
    "traces": _game_record,
    "messages": lambda number, row, rules: _chat_record(number, row, "messages", None, rules),
    "instruction": _instruction_record,
    "completion": lambda number, row, rules: _chat_record(number, row, "prompt", "completion", rules),
    "response": lambda number, row, rules: _chat_record(number, row, "prompt", "response", rules),
    "answer": _answer_record,
    "states": lambda number, row, rules: _chat_record(number, row, "prompt", None, rules),
}


def detect(columns: Iterable[str]) -> str | None:
    """The form of rows with these columns, None for an unknown one."""
    columns = set(columns)
    return next((form for form, keys in KEYS.items() if columns.issuperset(keys)), None)


def _by_game(rows: Iterator[tuple[int, Row | Bad]]) -> Iterator[tuple[int, Row | Bad]]:
    """Rows of one turn each put together to games, which are numbered by their first row."""
    for (game, _), turns in groupby(rows, lambda row: _game_of(row[1])):
        turns = list(islice(turns, BATCH))
        number, first = turns[0]
        if game is None:
            yield number, first
        elif [str(row.get("turn")) for _, row in turns] != [str(place) for place in range(1, len(turns) + 1)]:
            yield number, Bad("the turns of a game are not numbered from 1", repr(first["secret"])[:80])
        else:
            yield number, {"secret": first["secret"], "turns": [row for _, row in turns]}


def _game_of(row: Row | Bad) -> tuple[Any, Any]:
    # Two damaged rows never stand for one game.
    return (None, id(row)) if isinstance(row, Bad) else ((row.get("game"), row.get("secret")), None)


def read(path: str | Path, rules: Rules, report: Report) -> Iterator[Record]:
    """The rows of a file or folder as records, not yet checked by the game; notes them in `report`.

    Raises FileNotFoundError or ValueError with one sentence for a file that is missing, damaged,
    empty, or of an unknown form.
    """
    path = Path(path)
    with readable(path):
        rows = read_rows(path)
        held = []
        for number, row in rows:
            held.append((number, row))
            if isinstance(row, dict) or len(held) == BATCH:
                break
        if not held:
            raise ValueError(f"{path}: there are no rows in it")
        number, row = held[-1]
        if isinstance(row, Bad):
            raise ValueError(f"{path}, row {held[0][0]}: {held[0][1]}; no row up to {number} can be read")
        if not (form := detect(row)):
            forms = "; ".join(", ".join(keys) for keys in KEYS.values())
            names = ", ".join(map(str, row))[:200]
            raise ValueError(
                f"{path}, row {number}: no known form has the columns {names}; known are {forms}"
            )
        report.form = form
        rows = chain(held, rows)
        for number, row in _by_game(rows) if form == "traces" else rows:
            report.rows += 1
            try:
                yield _record(number, row, form, rules)
            except Bad as why:
                report.leave_out(number, why)


def _record(number: int, row: Row | Bad, form: str, rules: Rules) -> Record:
    if isinstance(row, Bad):
        raise row
    keys = ("secret", "turns") if form == "traces" else KEYS[form]
    if missing := [key for key in keys if key not in row]:
        raise Bad(f"column {missing[0]!r} is missing")
    return READERS[form](number, row, rules)


# ---- Checks by the game.


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


def checker(words: Words, rules: Rules, report: Report) -> Callable[[Record], Record]:
    """A function that returns a record with all feedback known, or raises `Bad` with the reason.

    Feedback that the row gives is compared with that of its secret; without a secret some allowed
    word must fit it.
    """
    green = "G" * rules.length
    scored = lru_cache(maxsize=1 << 16)(score)
    fitting = lru_cache(maxsize=1 << 14)(fits(words.allowed))

    def known(turn: Turn, record: Record) -> Turn:
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

    def check(record: Record) -> Record:
        if record.secret and record.secret not in words.dictionary:
            raise Bad("secret is not a word of the lists", repr(record.secret))
        if len(record.history) + (record.completion is not None) > rules.turns:
            raise Bad(f"more turns than the {rules.turns} of the game", len(record.history))
        history: list[Turn] = []
        before = report.disagreements
        for turn in record.history:
            if history and history[-1].feedback == green:
                raise Bad("turns go on after a win", repr(history[-1].guess))
            if turn.guess:
                require_legal(turn.guess, turn.rule, history)
                turn = known(turn, record) if turn.rule == "ok" else turn
            history.append(turn)
        if record.secret and report.disagreements > before:
            raise Bad("feedback contradicts the secret", repr(record.secret))
        if not record.secret:
            told = [(turn.guess, turn.feedback) for turn in history if turn.feedback]
            if not reduce(and_, (fitting(*turn) for turn in told), -1):
                raise Bad("feedback fits no word of the lists", told)
        if record.completion is not None:
            if history and history[-1].feedback == green:
                raise Bad("turns go on after a win", repr(history[-1].guess))
            guess, reason = parse_guess(record.completion, rules.length, rules.alphabet)
            if guess is None:
                raise Bad("no guess in the completion", reason)
            require_legal(guess, "ok", history)
        # most rows say all feedback, and a new record takes a tenth of the check
        checked = tuple(history)
        return record if checked == record.history else record._replace(history=checked)

    return check


def _hashable(prompt: Chat | str | None) -> object:
    return (
        tuple(part for message in prompt for part in message.values()) if isinstance(prompt, list) else prompt
    )


def records(path: str | Path, words: Words, rules: Rules, report: Report) -> Iterator[Record]:
    """The records of a file that pass every check and repeat no earlier one; the rest is in `report`."""
    check, seen = checker(words, rules, report), set()
    for record in read(path, rules, report):
        try:
            record = check(record)
            key = hash((record.secret, record.history, record.completion, _hashable(record.prompt)))
            if key in seen:
                raise Bad("the row repeats an earlier one")
        except Bad as why:
            report.leave_out(record.number, why)
            continue
        if len(seen) < REMEMBERED:
            seen.add(key)
        yield record


# ---- Writing.


def _as_text(record: Record, rules: Rules) -> str:
    prompt = messages(record.history, rules) if record.prompt is None else record.prompt
    return prompt if isinstance(prompt, str) else "\n\n".join(message["content"] for message in prompt)


def _as_chat(record: Record, rules: Rules) -> Chat:
    if record.prompt is None:
        return messages(record.history, rules)
    return _chat({"prompt": record.prompt}, "prompt")


def _as_chatml(record: Record, rules: Rules) -> str:
    if isinstance(record.prompt, str):
        return record.prompt
    parts = (f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in _as_chat(record, rules))
    return "".join(parts) + "<|im_start|>assistant\n"


def _parted(record: Record, rules: Rules) -> tuple[Chat, str | None]:
    """Prompt and completion as chat: what a prompt writes of the answer is put before the completion."""
    chat, said = _as_chat(record, rules), record.completion
    if said is not None and chat and chat[-1]["role"] == "assistant":
        said = chat.pop()["content"] + said
    return chat, said


def _said(text: str) -> Chat:
    return [{"role": "assistant", "content": text}]


def _sft_row(record: Record, rules: Rules) -> Row:
    """A row as `data.sft_row` makes it: the prompt is the one of play, whatever the source's was."""
    text = record.completion.removesuffix("<|im_end|>")
    if THINK not in text and END_THINK in text:
        text = THINK + text  # the source's prompt ended with it, ours does not
    if not is_well_formed(text, rules.length, rules.alphabet):
        raise Bad("completion is not <think>…</think><guess>word</guess>", repr(text)[:80])
    if rules.history == "chat" and not all(turn.text for turn in record.history):
        raise Bad("texts of past turns, which rules with history: chat show, are missing")
    return {
        "prompt": messages(record.history, rules),
        "completion": _said(text),
        "secret": record.secret,
        "history": encode_history(record.history),
        "source": "import",
    }


def _past_guesses(history: History) -> str:
    if any(turn.feedback is None for turn in history):
        raise Bad("the form predibase cannot hold a turn without feedback")
    marks = {"B": "x", "Y": "-", "G": "✓"}
    shown = (
        " ".join(f"{g}({marks[f]})" for g, f in zip(capitals(turn.guess), turn.feedback, strict=True))
        for turn in history
    )
    return repr([[capitals(turn.guess), text] for turn, text in zip(history, shown, strict=True)])


def _game_turns(record: Record, words: Words, rules: Rules) -> History:
    if record.completion is None:
        return record.history
    parsed = parse_guess(record.completion, rules.length, rules.alphabet)
    last = take_turn(*parsed, record.completion, record.secret, record.history, words, rules)
    return (*record.history, last)


def written(record: Record, form: str, words: Words, rules: Rules) -> Row:
    """One row of a form. Raises `Bad` when the form cannot hold the record."""
    if record.completion is None and form in NEED_COMPLETION:
        raise Bad(f"no completion, which the form {form} needs")
    if record.secret is None and form in NEED_SECRET:
        raise Bad(f"no secret, which the form {form} needs")
    said = record.completion
    if form == "sft":
        return _sft_row(record, rules)
    if form in ("turns", "traces"):
        turns = [turn._asdict() for turn in _game_turns(record, words, rules)]
        return {"word": record.secret, "turns": turns}
    if form == "predibase":
        return {
            "prompt": _as_chatml(record, rules),
            "word_list": record.word_list,
            "past_guess_history": _past_guesses(record.history),
            "secret": capitals(record.secret),
            "completion": said,
        }
    if form == "chat":
        chat, said = _parted(record, rules)
        row = {"prompt": chat, "completion": _said(said)}
    elif form == "messages":
        chat, said = _parted(record, rules)
        row = {"messages": chat + (_said(said) if said is not None else [])}
    else:
        names = tuple(FORMS[form])
        row = dict(
            zip(names, (_as_text(record, rules), record.secret if said is None else said), strict=True)
        )
    return {**row, "secret": record.secret, "history": encode_history(record.history)}


def _states(record: Record, form: str, rules: Rules) -> Iterator[Record]:
    """The record itself where a form holds it, else a state for each turn of the game with a text."""
    if form in ("turns", "traces"):
        yield record
        return
    answered = [i for i, turn in enumerate(record.history) if turn.text and turn.feedback is not None]
    if record.completion is None or form == "sft":
        for i in answered:
            yield record._replace(history=record.history[:i], completion=record.history[i].text, prompt=None)
    over = len(record.history) >= rules.turns or (
        record.history and record.history[-1].feedback == "G" * rules.length
    )
    if record.completion is not None or not (answered or over):
        yield record
    elif not answered:
        raise Bad("a finished game without the player's texts leaves nothing to learn from")


def made(kept: Iterable[Record], form: str, words: Words, rules: Rules, report: Report) -> Iterator[Row]:
    """The rows of a form; records that it cannot hold are left out and counted."""
    seen = set()
    for record in kept:
        try:
            rows = [written(state, form, words, rules) for state in _states(record, form, rules)]
        except Bad as why:
            report.leave_out(record.number, why)
            continue
        for row in rows:
            # Whole games, and chats that grow, share their first turns.
            if form == "sft" and (key := hash(json.dumps(row))) in seen:
                continue
            if form == "sft" and len(seen) < REMEMBERED:
                seen.add(key)
            report.made += 1
            yield row


def _columns(form: str) -> dict[str, str]:
    return FORMS[form] | (dict.fromkeys(("secret", "history"), "text") if form in SILENT else {})


def _write_parquet(path: Path, rows: Iterator[Row], form: str) -> None:
    import pyarrow
    import pyarrow.parquet

    text = pyarrow.string()
    kinds = {
        "text": text,
        "chat": pyarrow.list_(pyarrow.struct([("role", text), ("content", text)])),
        "turns": pyarrow.list_(pyarrow.struct([(name, text) for name in Turn._fields])),
    }
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in _columns(form).items()])
    with pyarrow.parquet.ParquetWriter(path, schema) as file:
        while batch := [row for row, _ in zip(rows, range(BATCH), strict=False)]:
            file.write_batch(pyarrow.RecordBatch.from_pylist(batch, schema))


def _write_traces(path: Path, games: Iterable[Row], rules: Rules) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, TRACE_COLUMNS, lineterminator="\n")
        table.writeheader()
        for number, game in enumerate(games, 1):
            turns = game["turns"]
            won = bool(turns) and turns[-1]["feedback"] == "G" * rules.length
            about = {"game": number, "secret": game["word"], "won": won, "n_guesses": len(turns)}
            table.writerows({**about, **turn, "turn": place} for place, turn in enumerate(turns, 1))


def _write_dataset(path: Path, rows: Iterator[Row], form: str) -> None:
    import datasets

    with TemporaryDirectory() as folder, replacing_folder(path) as temporary:
        _write_parquet(Path(folder) / "rows.parquet", rows, form)
        made = datasets.Dataset.from_parquet(str(Path(folder) / "rows.parquet"), cache_dir=folder)
        made.save_to_disk(str(temporary))


def _require_writable(target: Path, form: str) -> None:
    if target.exists():
        raise ValueError(f"{target} is there already: name a new file or folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: no such folder to write {target.name} to")
    if target.suffix not in (".jsonl", ".parquet", ".csv", ""):
        raise ValueError(f"{target}: end it with .jsonl, .parquet or .csv, or name a folder for `datasets`")
    if (form == "traces") != (target.suffix == ".csv"):
        raise ValueError(f"{target}: the form traces, and no other, is written as .csv")


def convert(
    source: str | Path, target: str | Path | None = None, form: str = "sft", data: Data | None = None
) -> Report:
    """Check `source` and write its good rows to `target` in a form of `FORMS`; None only checks.

    The ending of `target` chooses the container: `.jsonl`, `.parquet`, `.csv` (traces), none for a
    folder of `datasets`. data: an opened data folder whose lists, rules and split hold, else the
    shipped lists; then no row of a validation or held-out secret is kept. The form `sft` needs it. Raises
    FileNotFoundError and ValueError for a source or target that does not fit, and ValueError when no
    row is left.
    """
    source, target = Path(source), Path(target) if target else None
    if target:
        _require_writable(target, form)
        if form == "sft" and data is None:
            raise ValueError(
                "the form sft needs a data folder: its rules make the prompts, its split the secrets"
            )
        if form == "sft" and data.rules.lexicon == "train":
            raise ValueError(
                f"{data.folder}: under lexicon: train no text may name a held-out word; texts of others may "
                "hide one; use data made with lexicon: full"
            )
    words = data.words if data else load_words()
    rules = data.rules if data else rules_for(words)
    require_wordle(rules, "a conversion")
    report = Report(str(source))
    kept = records(source, words, rules, report)
    if data:
        why = "secret is held out or for validation"
        kept = _without(data.split.val + data.split.test, why, kept, report)
    if target is None:
        for _ in kept:
            pass
        return report
    rows = made(kept, form, words, rules, report)
    if (first := next(rows, None)) is None:
        why = next(iter(report.first.values()), "no turn has a text")
        raise ValueError(f"{source}: none of {report.rows:,} rows can be written as {form}; {why}")
    rows = chain([first], rows)
    if target.suffix == ".jsonl":
        write_jsonl(target, rows)
    elif target.suffix == "":
        _write_dataset(target, rows, form)
    else:
        with replacing(target) as temporary:
            if form == "traces":
                _write_traces(temporary, rows, rules)
            else:
                _write_parquet(temporary, rows, form)
    return report


def _without(secrets: Iterable[str], why: str, kept: Iterable[Record], report: Report) -> Iterator[Record]:
    """Records of these secrets left out; those without a secret cannot be told."""
    secrets = frozenset(secrets)
    for record in kept:
        if record.secret in secrets:
            report.leave_out(record.number, Bad(why, repr(record.secret)))
        else:
            yield record


def teach(run: Run, words: Words, rules: Rules, split: Split) -> Taught:
    """Rows of the file or folder `traces` of the parameters, in any form, in place of the solver's.

    Rows as `convert` makes them in the form `sft`, of validation secrets too; where the file has none of
    these, the solver's stay. Prints the report. The rows wait in files without a name, in the stage's
    folder, for `data.build`, so that memory does not grow with them. Raises as `convert` does.
    """
    source, waiting = project_path(run.config.traces), {}
    report = Report(run.config.traces)
    kept = _without(split.test, "secret is held out", records(source, words, rules, report), report)
    for row in made(kept, "sft", words, rules, report):
        part = "sft_val" if row["secret"] in split.val else "sft"
        if part not in waiting:
            file = TemporaryFile("w+", dir=run.dir, encoding="utf-8")  # noqa: SIM115  (open until it is read)
            waiting[part] = file
        waiting[part].write(json.dumps(row) + "\n")
    print(report)
    if "sft" not in waiting:
        why = next(iter(report.first.values()), "none has a training secret")
        raise ValueError(f"{source}: no row of {report.rows:,} teaches a training secret; {why}")
    for file in waiting.values():
        file.seek(0)
    about = {"traces": run.config.traces, "form": report.form, "rows": report.rows, "rows_kept": report.kept}
    left_out = dict(report.left_out.most_common())
    return Taught(
        {part: map(json.loads, file) for part, file in waiting.items()}, [], {**about, "left_out": left_out}
    )
