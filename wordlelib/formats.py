"""Games and training rows of others: each known form read, checked row by row, and written again.

A file is a container (JSON lines, Parquet, CSV, a `datasets` folder) of rows in one of the forms of
`FORMS`. Every row becomes one `Record`; a row that breaks a rule of the game is left out and its reason is
counted, none is repaired. Rows stream: memory does not grow with the file. Many JSON lines are checked by one
process for each processor, each row by itself; then repeats are looked for and all is counted in order.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from wordlelib.containers import BATCH, Bad, Block, Lines, read_blocks, read_rows, rows_of, write_rows
from wordlelib.data import TRACE_COLUMNS, Chat, Data, Row, Taught, trace_rows, trace_table, write_traces
from wordlelib.game import History, Turn, encode_history, is_win
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
from wordlelib.processes import each_done, processors
from wordlelib.prompts import END_THINK, THINK, assistant, is_well_formed, messages, parse_guess, taught_row
from wordlelib.records import (
    IMPORTED,
    REMEMBERED,
    Checked,
    Record,
    Report,
    checker,
    finished,
    game_turns,
    over,
    read_thinking,
    row_key,
    told,
)
from wordlelib.rules import Rules, require_wordle, rules_for
from wordlelib.runs import Run, project_path, replacing_folder
from wordlelib.selection import by_word, write_words
from wordlelib.words import Split, Words, capitals, load_words

# What is written of each form; kinds: text, chat (role and content), turns.
FORMS = {
    "sft": {"prompt": "chat", "completion": "chat"}
    | dict.fromkeys(("secret", "history", "source", "unjust"), "text"),
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
WHOLE = ("turns", "games", "traces")  # one row, or some in CSV, is a game
FEW = 16  # blocks of JSON lines: for fewer no process is worth its start
MOST = 8  # processes: what more of them find is not taken faster, and each needs memory
# What else is read of them, or says nothing new; parts: keys within messages and turns.
_GAME = ("secret", "word")
_STATE = (*_GAME, "history", "past_guess_history", "word_list", "source", "unjust")
READ = {
    **dict.fromkeys(KEYS, _STATE),
    "predibase": (*_GAME, "word_list", "completion", "source"),
    "instruction": (*_STATE, "input"),
    "turns": _GAME,
    "games": (*_GAME, "won", "n_guesses"),
    "traces": TRACE_COLUMNS,
}
PARTS = frozenset(("role", "content", *Turn._fields))


# ---- Forms: one row as a record.

_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\s*|\Z)", re.S)
_TOKEN = re.compile(r"<[^<>\s]+>")  # such as stand before a chat and behind it


def _text(row: Row, name: str) -> str:
    if not isinstance(value := row.get(name), str):
        raise Bad(f"{name} is not a text", type(value).__name__)
    return value


def _chat(row: Row, name: str) -> Chat:
    """The messages of a column that holds a chat or a text, which may be one in ChatML."""
    if isinstance(row.get(name), str):
        text = _text(row, name)
        if "<|im_start|>" not in text:
            return [{"role": "user", "content": text}]
        parts, rest = _CHATML.findall(text), _CHATML.sub("", text)
        if outside := _TOKEN.sub("", rest).strip():
            raise Bad(f"{name} has text outside of its messages in ChatML", repr(outside)[:80])
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


def _with_texts(history: History, chat: Chat, rules: Rules) -> History:
    """The turns of a column, which has no texts, with those of a growing chat if it is the same game."""
    said = [message["content"] for message in chat if message["role"] == "assistant"]
    guesses = [parse_guess(text, rules.length, rules.alphabet).guess for text in said]
    if guesses != [turn.guess for turn in history]:
        return history
    return tuple(turn._replace(text=text) for turn, text in zip(history, said, strict=True))


def _secret(row: Row, rules: Rules) -> str | None:
    names = [name for name in ("secret", "word") if row.get(name) not in (None, "")]
    word = None
    for name in names:
        if not (named := as_word(_text(row, name), rules.length, rules.alphabet)):
            raise Bad(
                f"{name} is not a word of {rules.length} letters {rules.alphabet}", repr(row[name])[:80]
            )
        if word not in (None, named):
            raise Bad("secret and word of the row are two words", f"{word!r} and {named!r}")
        word = named
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
    elif answer and row.get(answer) not in (None, []):
        chat += _chat(row, answer)
        whole = whole or len(row[answer]) > 1
        if not whole:
            completion = chat.pop()["content"] if chat else None
    if whole:
        completion = chat.pop()["content"] if chat and chat[-1]["role"] == "assistant" else None
        original = list(chat)
    names = ("history", "past_guess_history")
    given = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    history = (
        _chat_history(chat, rules)
        if given is None
        else _with_texts(column_history(given, rules), chat, rules)
    )
    word_list = row.get("word_list")
    word_list = word_list if isinstance(word_list, str) else ""
    source, unjust = str(row.get("source") or IMPORTED), str(row.get("unjust") or "")
    return Record(number, history, _secret(row, rules), completion, original, word_list, source, unjust)


def _answer_record(number: int, row: Row, rules: Rules) -> Record:
    """An answer that is one word is the secret, as in sets for RL; any other is the completion."""
    given = row["answer"]
    word = None if given is None else as_word(_text(row, "answer"), rules.length, rules.alphabet)
    record = _chat_record(number, row, "prompt", None if word else "answer", rules)
    if word and record.secret not in (None, word):
        raise Bad("answer and secret of the row are two words", f"{word!r} and {record.secret!r}")
    return record._replace(secret=word) if word else record


def _predibase_record(number: int, row: Row, rules: Rules) -> Record:
    record = _chat_record(
        number, {**row, "history": None, "past_guess_history": "[]"}, "prompt", "completion", rules
    )
    return record._replace(history=column_history(row["past_guess_history"], rules))


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
        elif "secret" not in first:
            yield number, Bad("no secret")
        elif [str(row.get("turn")) for _, row in turns] != [str(place) for place in range(1, len(turns) + 1)]:
            yield number, Bad("the turns of a game are not numbered from 1", repr(first["secret"])[:80])
        else:
            yield number, {"secret": first["secret"], "turns": [row for _, row in turns]}


def _game_of(row: Row | Bad) -> tuple[Any, Any]:
    # Two damaged rows never stand for one game.
    return (None, id(row)) if isinstance(row, Bad) else ((row.get("game"), row.get("secret")), None)


def _form(path: Path) -> str:
    """The form of the first row that can be read.

    Raises FileNotFoundError or ValueError with one sentence for a file that is missing, empty, or of an
    unknown form.
    """
    first = None
    for number, row in islice(read_rows(path), BATCH):
        if isinstance(row, dict):
            break
        first = first or f"{path}, row {number}: {row}"
    else:
        if not first:
            raise ValueError(f"{path}: there are no rows in it")
        raise ValueError(f"{first}; no row up to {number} can be read")
    if not (form := detect(row)):
        forms = "; ".join(", ".join(keys) for keys in KEYS.values())
        names = ", ".join(map(str, row))[:200]
        raise ValueError(f"{path}, row {number}: no known form has the columns {names}; known are {forms}")
    return form


def _noting_unread(rows: Iterable[tuple[int | str, Row | Bad]], report: Report) -> Iterator:
    """The rows, while their columns that no reader looks at are counted by name."""
    known = frozenset((*KEYS[report.form], *READ[report.form]))
    for number, row in rows:
        for name in _unread(row, known) if isinstance(row, dict) else ():
            report.lose(name)
        yield number, row


def _filled(row: Row, known: frozenset[str]) -> set[str]:
    return {name for name, value in row.items() if name not in known and value not in (None, "", [], {})}


def _unread(row: Row, known: frozenset[str]) -> set[str]:
    """The names of columns, and of keys within messages and turns, that hold something nobody reads."""
    names = set() if row.keys() <= known else _filled(row, known)
    for name, value in row.items():
        for part in value if isinstance(value, list) and name in known else ():
            if isinstance(part, dict) and not part.keys() <= PARTS:
                names.update(f"{name}.{key}" for key in _filled(part, PARTS))
    return names


def _record(number: int, row: Row | Bad, form: str, rules: Rules) -> Record:
    if isinstance(row, Bad):
        raise row
    keys = ("secret", "turns") if form == "traces" else KEYS[form]
    if missing := [key for key in keys if key not in row]:
        raise Bad(f"column {missing[0]!r} is missing")
    return READERS[form](number, row, rules)


# ---- Rows that pass every check.


@dataclass(frozen=True)
class Checks:
    """What can be found out of the rows of a block by themselves, in whatever process.

    whole: whether the records are wanted as they are, or only their secrets and finished games.
    """

    form: str
    words: Words
    rules: Rules
    held_out: Mapping[str, str]
    whole: bool

    def each(self, block: Block) -> tuple[Report, Iterator[Checked]]:
        """The rows in order, and what is counted in them as they are taken."""
        part, rows = Report("", self.form), rows_of(block)
        noted = rows if self.form == "traces" else _noting_unread(rows, part)
        return part, (self._checked(number, row, part) for number, row in noted)

    def all(self, block: Block) -> tuple[Report, list[Checked]]:
        """The same at once, as a process gives it to another."""
        part, rows = self.each(block)
        return part, list(rows)

    @cached_property
    def _check(self) -> Callable[[Record, Report], Record]:
        return checker(self.words, self.rules, self.held_out)

    def _checked(self, number: int | str, row: Row | Bad, part: Report) -> Checked:
        part.rows += 1
        secret = None
        try:
            record = _record(number, row, self.form, self.rules)
            secret = record.secret
            record = self._check(record, part)
        except Bad as why:
            return Checked(number, secret, why)
        key, said = row_key(record), read_thinking(record)
        if not self.whole:
            turns = finished(record, self.words, self.rules)
            record = Record(number, turns, secret) if turns else None
        return Checked(number, secret, None, key, *said, record)


def _all_checked(
    checks: Checks, blocks: Iterator[Block], workers: int | None
) -> Iterator[tuple[Report, Iterable[Checked]]]:
    """What is found in the blocks, in order. Many JSON lines are read by one process for each processor."""
    first = list(islice(blocks, 1))
    if isinstance(first[0], Lines):
        first += islice(blocks, FEW - 1)
    workers = 1 if len(first) < FEW else workers or min(processors(), MOST)
    work = checks.each if workers == 1 else checks.all
    return each_done(work, chain(first, blocks), workers, "check", "convert")


def records(
    path: str | Path,
    words: Words,
    rules: Rules,
    report: Report,
    held_out: Mapping[str, str],
    *,
    whole: bool = True,
    workers: int | None = None,
) -> Iterator[Record]:
    """The records of a file that pass every check and repeat no earlier one; the rest is in `report`, and so
    are the false statements in their texts.

    held_out: secrets whose records are left out, with the reason, and so are records without a secret whose
    feedback leaves no other answer. whole: as for `Checks`. workers: processes at most (None: one for each
    processor); what is found does not depend on it. Raises FileNotFoundError or ValueError with one sentence
    for a file that is missing, damaged, empty, or of an unknown form, and as `each_done` does.
    """
    path, seen = Path(path), set()
    report.form = _form(path)
    blocks = read_blocks(path)
    if report.form == "traces":
        blocks = ([game] for game in _by_game(_noting_unread(read_rows(path), report)))
    checks = Checks(report.form, words, rules, held_out, whole)
    for part, rows in _all_checked(checks, blocks, workers):
        for checked in rows:
            number, secret, why = checked[:3]
            if not why and checked.key in seen:
                why = Bad("the row repeats an earlier one")
            if why:
                report.leave_out(number, why)
                if report.form in WHOLE and secret in words.dictionary and secret not in held_out:
                    report.drop(secret, why.kind)
                continue
            if len(seen) < REMEMBERED:
                seen.add(checked.key)
            report.note_texts(checked)
            yield checked.record or Record(number, (), secret)
        report.add(part)


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
    """Prompt and completion as chat: what a prompt writes of the answer is put before the completion, and
    without one left out, since it would be taken for it."""
    chat, said = _as_chat(record, rules), record.completion
    if chat and chat[-1]["role"] == "assistant":
        begun = chat.pop()["content"]
        said = None if said is None else begun + said
    return chat, said


def _sft_row(record: Record, rules: Rules) -> Row:
    """A row as `data.sft_row` makes it: the prompt is the one of play, whatever the source's was."""
    text = record.completion.removesuffix("<|im_end|>")
    if THINK not in text and END_THINK in text:
        text = THINK + text  # the source's prompt ended with it, ours does not
    if not is_well_formed(text, rules.length, rules.alphabet):
        raise Bad("completion is not <think>…</think><guess>word</guess>", repr(text)[:80])
    if rules.history == "chat" and not all(turn.text for turn in record.history):
        raise Bad("texts of past turns, which rules with history: chat show, are missing")
    chat, unjust = messages(record.history, rules), record.unjust.split()
    return taught_row(chat, text, record.source, record.secret, record.history, unjust)


def _past_guesses(history: History) -> str:
    if any(turn.feedback is None for turn in history):
        raise Bad("the form predibase cannot hold a turn without feedback")
    marks = {"B": "x", "Y": "-", "G": "✓"}
    shown = (
        " ".join(f"{g}({marks[f]})" for g, f in zip(capitals(turn.guess), turn.feedback, strict=True))
        for turn in history
    )
    return repr([[capitals(turn.guess), text] for turn, text in zip(history, shown, strict=True)])


def _has_texts(record: Record) -> bool:
    """Whether all that was written in the turns is known, and no prompt shows them otherwise."""
    texts = [turn.text for turn in record.history if turn.guess]
    return record.prompt is None and bool(texts) and all(texts)


def _game_chat(record: Record, rules: Rules) -> Chat:
    """A game as one chat that grows by the texts of its turns, letter by letter."""
    renderer = "words" if rules.renderer == "facts" else rules.renderer  # facts tell no single turn
    chat = messages(record.history, replace(rules, history="chat", renderer=renderer))
    for message, turn in zip(chat[2::2], record.history, strict=True):
        message["content"] = turn.text
    if over(record.history, rules):
        chat[-1]["content"] = chat[-1]["content"].splitlines()[0]  # there is no next turn
    return chat


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
        turns = game_turns(record, words, rules)
        row = {"word": record.secret, "turns": [turn._asdict() for turn in turns]}
        if form == "turns":
            return row
        won = bool(turns) and is_win(turns[-1], record.secret)
        return {"secret": record.secret, "won": won, "n_guesses": len(turns), "turns": row["turns"]}
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
        row = {"prompt": chat, "completion": [assistant(said)]}
    elif form == "messages":
        chat, said = _parted(record, rules)
        if _has_texts(record):
            chat = _game_chat(record, rules)
        row = {"messages": chat + ([assistant(said)] if said is not None else [])}
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
    ended = record.completion is None and over(record.history, rules)
    if form == "messages" and _has_texts(record):
        *before, last = record.history
        answer = ended and last.feedback is not None
        yield record._replace(history=tuple(before), completion=last.text) if answer else record
        return
    answered = [i for i, turn in enumerate(record.history) if turn.text and turn.feedback is not None]
    if record.completion is None or form == "sft":
        for i in answered:
            yield record._replace(
                history=record.history[:i], completion=record.history[i].text, prompt=None, unjust=""
            )
    if record.completion is not None or not (answered or ended):
        yield record
    elif not answered:
        raise Bad("a finished game without a legal guess leaves nothing to learn from")


def made(kept: Iterable[Record], form: str, words: Words, rules: Rules, report: Report) -> Iterator[Row]:
    """The rows of a form; records that it cannot hold are left out and counted."""
    seen = set()
    for record in kept:
        try:
            game = record if form in ("turns", "traces") else told(record, rules)
            rows = [written(state, form, words, rules) for state in _states(game, form, rules)]
        except Bad as why:
            report.leave_out(record.number, why)
            continue
        pairs = zip(game.history, record.history, strict=True)
        report.guesses_alone += sum(shown.text != turn.text for shown, turn in pairs)
        if form != "sft" and record.source != IMPORTED:
            report.lose("source")
        if form != "sft" and record.unjust:
            report.lose("unjust")
        for row in rows:
            # Whole games, and chats that grow, share their first turns, whatever they come from.
            if form == "sft" and (key := hash(json.dumps({**row, "source": None, "unjust": None}))) in seen:
                continue
            if form == "sft" and len(seen) < REMEMBERED:
                seen.add(key)
            report.made += 1
            yield row


def _columns(form: str) -> dict[str, str]:
    return FORMS[form] | (dict.fromkeys(("secret", "history"), "text") if form in SILENT else {})


def _write_words(folder: Path, games: Iterable[Row]) -> None:
    """One file a word, as `<word>.csv`: its games, wherever they stand in the source."""
    written: Counter[str] = Counter()
    with replacing_folder(folder) as temporary:
        for game in games:
            written[game["secret"]] += 1
            number = written[game["secret"]]
            with open(temporary / f"{game['secret']}.csv", "a", encoding="utf-8", newline="") as file:
                table = trace_table(file)
                if number == 1:
                    table.writeheader()
                table.writerows(trace_rows(number, game))


def _require_writable(target: Path, form: str) -> None:
    if target.exists():
        raise ValueError(f"{target} is there already: name a new file or folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: no such folder to write {target.name} to")
    if target.suffix not in (".jsonl", ".parquet", ".csv", ""):
        raise ValueError(f"{target}: end it with .jsonl, .parquet or .csv, or name a folder")
    if form == "traces" and target.suffix in (".jsonl", ".parquet"):
        raise ValueError(
            f"{target}: the form traces is written as .csv, or as a folder with one CSV file a word"
        )
    if form != "traces" and target.suffix == ".csv":
        raise ValueError(f"{target}: the form traces, and no other, is written as .csv")


def _require_new(summary: Path, target: Path | None) -> None:
    """Its table has a name that a source may have: nothing is written over. And it comes last, after all the
    work, so that a folder where nothing can be written is better found at once."""
    if target and target.absolute() in (summary.absolute(), *summary.absolute().parents):
        raise ValueError(f"{summary}: the rows are written to {target}: name another folder for the summary")
    if os.path.lexists(summary) and not summary.is_dir():
        raise ValueError(f"{summary} is a file: name a folder for the summary")
    if (summary / "games.csv").exists():
        raise ValueError(f"{summary / 'games.csv'} is there already: name another folder for the summary")
    nearest = next(folder for folder in (summary, *summary.absolute().parents) if folder.exists())
    try:
        TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise type(error)(f"{summary}: no summary can be written there ({error.strerror or error})") from None


def convert(
    source: str | Path,
    target: str | Path | None = None,
    form: str = "sft",
    data: Data | None = None,
    *,
    keep: int = 0,
    summary: str | Path | None = None,
    workers: int | None = None,
) -> Report:
    """Check `source` and write its good rows to `target` in a form of `FORMS`; None only checks.

    The ending of `target` chooses the container: `.jsonl`, `.parquet`, `.csv` (traces), none for a
    folder of `datasets` or, of traces, of one CSV file a word. data: an opened data folder whose lists, rules
    and split hold, else the shipped lists; then no row of a validation or held-out secret is kept. The form
    `sft` needs it. keep: of each secret at most so many finished games, the shortest of those that
    `distil.fault` says nothing against, in the order of their secrets; 0 takes every row. summary: a folder
    for the games by secret (`selection.write_words`). workers: as for `records`. Raises FileNotFoundError and
    ValueError for a source, target or summary that does not fit, OSError for a summary where nothing can be
    written, ValueError when no row is left, and as `each_done` does.
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
    if summary:
        _require_new(Path(summary), target)
    if keep < 0:
        raise ValueError(f"keep is {keep}: use a number of games of each secret, or 0 for all rows")
    words = data.words if data else load_words()
    rules = data.rules if data else rules_for(words)
    require_wordle(rules, "a conversion")
    report = Report(str(source))
    secrets = data.split.val + data.split.test if data else ()
    held_out = dict.fromkeys(secrets, "secret is held out or for validation")
    whole = bool(target or keep)
    checked = records(source, words, rules, report, held_out, whole=whole, workers=workers)
    kept = by_word(checked, keep, words, rules, report)
    if target is None:
        report.made = sum(1 for _ in kept)
    else:
        _write(made(kept, form, words, rules, report), target, form)
    if summary and (report.made or report.words):
        write_words(Path(summary), report, "train" if data else "")
    if target and not report.made:
        why = next(iter(report.first.values()), "no turn has a text")
        raise ValueError(f"{source}: none of {report.rows:,} rows can be written as {form}; {why}")
    return report


def _write(rows: Iterator[Row], target: Path, form: str) -> None:
    """Write the rows; nothing where there are none."""
    if (first := next(rows, None)) is None:
        return
    rows = chain([first], rows)
    if form != "traces":
        write_rows(target, rows, _columns(form))
    elif target.suffix:
        write_traces(target, rows)
    else:
        _write_words(target, rows)


def teach(run: Run, words: Words, rules: Rules, split: Split) -> Taught:
    """Rows of the file or folder `traces` of the parameters, in any form, in place of the solver's.

    Rows as `convert` makes them in the form `sft`, of validation secrets too; where the file has none of
    these, the solver's stay. Prints the report. The rows wait in files without a name, in the stage's
    folder, for `data.build`, so that memory does not grow with them. Raises as `convert` does.
    """
    source, waiting = project_path(run.config.traces), {}
    report = Report(run.config.traces)
    held_out = dict.fromkeys(split.test, "secret is held out")
    kept = by_word(records(source, words, rules, report, held_out), 0, words, rules, report)
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
    about = {
        "traces": run.config.traces,
        "form": report.form,
        "rows": report.rows,
        "rows_kept": report.kept,
        "left_out": dict(report.left_out.most_common()),
        "guesses_alone": report.guesses_alone,
        "false_statements": report.false_statements,
    }
    return Taught({part: map(json.loads, file) for part, file in waiting.items()}, [], about)
