"""Training data on disk: SFT rows, GRPO states, traces, and the card that says what they are.

A data folder holds `sft.jsonl`, `sft.parquet`, `sft_val.jsonl` (states of validation secrets),
`states.jsonl`, `states.parquet` (GRPO states of training secrets), `traces.csv` (whole teacher games)
and, written last, `card.json`.
"""

import csv
import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wordlelib.game import History, decode_history, encode_history
from wordlelib.prompts import completion, messages
from wordlelib.rules import Rules, rules_for
from wordlelib.runs import Run, finished_stage, project_path, read_json, read_yaml, replacing, write_json
from wordlelib.solver import Solver
from wordlelib.teachers import MIX, make_states, solver_turn, traces
from wordlelib.words import Split, Words, load_words, require_disjoint, sample_words, split_secrets, without

STAGE = "01_data_synthesis"
CARD = "card.json"
CARD_KEYS = ("rules", "digest", "words", "split", "files")
VAL_ROWS_PER_SECRET = 20
TRACE_COLUMNS = ("game", "secret", "turn", "guess", "feedback", "reason", "rule", "text", "won", "n_guesses")

Row = dict[str, Any]
Chat = list[dict[str, str]]
CountTokens = Callable[[list[Chat]], list[int]]


def sft_row(
    solver: Solver,
    history: History,
    secret: str,
    source: str,
    rng: random.Random,
    candidates: int = 3,
    guessed: Counter[str] | None = None,
    guess_place: str = "last",
) -> Row:
    """One state with the teacher's completion: prompt and completion are chat messages.

    `guessed` counts the teacher's guesses over rows, for its choice among equally good ones.
    """
    guessed = Counter() if guessed is None else guessed
    thinking, guess = solver_turn(solver, history, rng, candidates, guessed, guess_place)
    guessed[guess] += 1
    return {
        "prompt": messages(history, solver.rules),
        "completion": [{"role": "assistant", "content": completion(thinking, guess)}],
        "secret": secret,
        "history": encode_history(history),
        "source": source,
    }


def state_row(solver: Solver, history: History, secret: str, source: str) -> Row:
    """One state to sample from, with the look-ahead columns that rewards need."""
    return {
        "prompt": messages(history, solver.rules),
        "secret": secret,
        "history": encode_history(history),
        **solver.lookahead(history),
        "source": source,
    }


def draw_secrets(secrets: Sequence[str], n: int, seed: int = 0) -> list[str]:
    """`n` different secrets in random order, the same for the same seed.

    Raises ValueError when there are fewer: games on repeated secrets would count as independent.
    """
    if not 0 <= n <= len(secrets):
        raise ValueError(f"cannot draw {n} different secrets from {len(secrets)}")
    return random.Random(seed).sample(secrets, n)


def read_jsonl(path: str | Path) -> list[Row]:
    """One JSON object a line, of a file that may be gzipped (`.gz`).

    Raises ValueError with file, line number and cause for any other line, and for a damaged archive.
    """
    return list(iter_jsonl(path))


def iter_jsonl(path: str | Path) -> Iterator[Row]:
    """The rows of `read_jsonl` one by one, for files larger than memory; same errors."""
    with whole_archive(path), gzip.open(path) if str(path).endswith(".gz") else open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            yield parse_line(line, f"{path}, line {number}")


@contextmanager
def whole_archive(path: str | Path) -> Iterator[None]:
    """Turn the errors of a damaged gzip file into a ValueError that names it."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error})") from None


def parse_line(line: bytes, where: str) -> Row:
    """The JSON object of one line; ValueError, beginning with `where`, for anything else."""
    try:
        row = json.loads(line)
    except ValueError as error:
        half = "" if line.endswith(b"\n") else "; the file seems half written"
        raise ValueError(f"{where}: not JSON ({error}){half}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: {type(row).__name__} where an object should stand")
    return row


def write_jsonl(path: str | Path, rows: Iterable[Row]) -> None:
    """Write one JSON object a line, the whole file or nothing. Raises ValueError for NaN and infinity."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def _write_parquet(path: Path, rows: list[Row]) -> None:
    import pyarrow
    import pyarrow.parquet

    with replacing(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)


def _write_traces(path: Path, games: list[Row]) -> None:
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, TRACE_COLUMNS, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        for number, game in enumerate(games, 1):
            for place, turn in enumerate(game["turns"], 1):
                table.writerow({**game, **turn, "game": number, "turn": place})


def game_words(
    answers: str = "", allowed: str = "", sample: int = 0, sample_seed: int = 0, alphabet: str = "a-z"
) -> Words:
    """The lists of a game: shipped ones or own files, and of these a small sample unless it is 0.

    Relative file names start at the project root.
    """
    words = load_words(project_path(answers), project_path(allowed), alphabet)
    return sample_words(words, sample, sample_seed) if sample else words


def _check_words(words: Words, rules: Rules, where: str) -> None:
    for name, found in words.sha256.items():
        if found != (wanted := getattr(rules, f"{name}_sha256")):
            raise ValueError(
                f"{where}: the rules name a list of {name} with hash {wanted[:12]}…, but the words at "
                f"hand have {found[:12]}…; use the same files, sample size and sample seed"
            )


def _check_split(split: Split, words: Words, where: str) -> None:
    require_disjoint(split.train, split.val + split.test, where)
    require_disjoint(split.val, split.test, f"{where}, validation and test part")
    if not split.train:
        raise ValueError(f"{where}: the split leaves no training secret")
    if strange := sorted({secret for part in split for secret in part} - set(words.answers)):
        raise ValueError(f"{where}: secret {strange[0]!r} of the split is not an answer of the game")


def _distinct(items: Iterable[Any], key: Callable[[Any], Hashable]) -> list[Any]:
    """The first item of each key, in order."""
    first: dict[Hashable, Any] = {}
    for item in items:
        first.setdefault(key(item), item)
    return list(first.values())


def _texts(row: Row) -> tuple[str, ...]:
    """What an SFT row says: two rows with the same texts are duplicates, whatever their secrets."""
    return tuple(message["content"] for message in row["prompt"] + row["completion"])


def _percentiles(counts: list[int]) -> dict[str, int]:
    values = np.percentile(counts, [50, 90, 99, 100], method="higher")
    return dict(zip(("p50", "p90", "p99", "max"), map(int, values), strict=True))


def _lengths(rows: list[Row], count_tokens: CountTokens) -> dict[str, dict[str, int]]:
    """Percentiles of the tokens of prompts and, where there are any, of completions."""
    chats = [row["prompt"] for row in rows]
    if "completion" not in rows[0]:
        return {"prompt": _percentiles(count_tokens(chats))}
    # In one call, so that what prompts and whole chats share is counted once.
    counts = count_tokens(chats + [row["prompt"] + row["completion"] for row in rows])
    prompts, whole = counts[: len(rows)], counts[len(rows) :]
    completions = [n - prompt for n, prompt in zip(whole, prompts, strict=True)]
    return {"prompt": _percentiles(prompts), "completion": _percentiles(completions)}


def _describe(rows: list[Row], made: int, count_tokens: CountTokens | None) -> dict[str, Any]:
    """What the card says of one part; `made` counts the rows before duplicates were removed."""
    turns = Counter(len(decode_history(row["history"])) + 1 for row in rows)
    about = {
        "rows": len(rows),
        "duplicates_removed": made - len(rows),
        "by_source": dict(sorted(Counter(row["source"] for row in rows).items())),
        "by_turn": {str(turn): turns[turn] for turn in sorted(turns)},
    }
    if count_tokens and rows:
        about["tokens"] = _lengths(rows, count_tokens)
    return about


def build(
    folder: str | Path,
    rules: Rules,
    split: Split,
    *,
    source: dict[str, Any] | None = None,
    rows: int,
    states: int,
    seed: int = 0,
    candidates: int = 3,
    guess_place: str = "last",
    mix: dict[str, float] = MIX,
    count_tokens: CountTokens | None = None,
) -> dict[str, Any]:
    """Make all training data of a game in `folder` and return its card; same arguments, same files.

    source: the arguments of `game_words` that gave the lists of `rules` (None: the shipped lists).
    rows, states: how many SFT rows and GRPO states are made before duplicates are removed.
    candidates: words in the thinking, at most; guess_place: whether the guess is the `first` or the
    `last` of them. mix: shares by source, as for `make_states`.
    count_tokens: tokens of each chat, with the generation prompt when its last message is the user's;
    None leaves the token lengths out. Only training secrets have training games. With the `full`
    lexicon all words may be named; with `train` the training files name no held-out word, and the
    validation file no test word. Raises ValueError when lists, rules and split do not fit.
    """
    folder, source = Path(folder), source or {}
    words = game_words(**source, alphabet=rules.alphabet)
    _check_words(words, rules, "data")
    _check_split(split, words, "data")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).unlink(missing_ok=True)

    named, named_val = words, words
    if rules.lexicon == "train":
        named, named_val = without(words, split.val + split.test), without(words, split.test)
        require_disjoint(named.allowed, split.val + split.test, "the words of the train lexicon")
    solver = Solver(named, rules)
    val_solver = Solver(named_val, rules) if rules.lexicon == "train" else solver

    def labelled(solver: Solver, secrets: Sequence[str], n: int, part: str) -> list[Row]:
        made = make_states(solver, secrets, n, f"{part} {seed}", mix, words.dictionary) if n else ()
        rng, guessed = random.Random(f"{part} labels {seed}"), Counter()
        turns = (sft_row(solver, *state, rng, candidates, guessed, guess_place) for state in made)
        return _distinct(turns, _texts)

    val_rows = VAL_ROWS_PER_SECRET * len(split.val)
    sft = labelled(solver, split.train, rows, "sft")
    sft_val = labelled(val_solver, split.val, val_rows, "sft_val")
    made = make_states(solver, split.train, states, f"states {seed}", mix, words.dictionary)
    grpo = [state_row(solver, *state) for state in _distinct(made, lambda state: state[:2])]
    games = list(traces(solver, split.train, seed, candidates, guess_place))

    for name, part in (("sft", sft), ("states", grpo)):
        write_jsonl(folder / f"{name}.jsonl", part)
        _write_parquet(folder / f"{name}.parquet", part)
    write_jsonl(folder / "sft_val.jsonl", sft_val)
    _write_traces(folder / "traces.csv", games)
    parts = (("sft", sft, rows), ("sft_val", sft_val, val_rows), ("states", grpo, states))
    card = {
        "rules": rules.to_dict(),
        "digest": rules.digest,
        "lexicon": rules.lexicon,
        "words": {
            "source": source,
            "answers": {"sha256": words.sha256["answers"], "count": len(words.answers)},
            "allowed": {"sha256": words.sha256["allowed"], "count": len(words.allowed)},
        },
        "seed": seed,
        "mix": mix,
        "candidates": candidates,
        "guess_place": guess_place,
        "files": {name: _describe(part, made, count_tokens) for name, part, made in parts}
        | {"traces": {"games": len(games), "rows": sum(len(game["turns"]) for game in games)}},
        "split_sizes": {name: len(part) for name, part in split._asdict().items()},
        "split": split._asdict(),
    }
    write_json(folder / CARD, card)
    return read_card(folder)


def read_card(folder: str | Path) -> dict[str, Any]:
    """The data card. FileNotFoundError when it is missing, ValueError when it is not whole."""
    path = Path(folder) / CARD
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no data card, so the data are missing or half written; make them")
    card = read_json(path)
    if missing := [key for key in CARD_KEYS if not isinstance(card, dict) or key not in card]:
        raise ValueError(f"{path}: the data card lacks {missing[0]!r}; make the data again")
    return card


def card_words(card: dict[str, Any]) -> Words:
    """The word lists that a card names, loaded (and sampled) again and checked by their hashes."""
    rules = Rules.from_dict(card["rules"])
    words = game_words(**card["words"]["source"], alphabet=rules.alphabet)
    _check_words(words, rules, "data card")
    return words


class Data(NamedTuple):
    """A checked data folder."""

    folder: Path
    card: dict[str, Any]
    rules: Rules
    words: Words
    split: Split

    @property
    def training_words(self) -> Words:
        """The lists that training may use: without held-out words under the `train` lexicon."""
        held_out = self.split.val + self.split.test
        return without(self.words, held_out) if self.rules.lexicon == "train" else self.words

    @property
    def longest_completion(self) -> int:
        """Tokens of the longest completion that the SFT rows teach."""
        return self.card["files"]["sft"]["tokens"]["completion"]["max"]

    def rows(self, part: str) -> list[Row]:
        """The rows of `sft`, `sft_val` or `states`.

        Raises ValueError when the file is not the one of the card, or its secrets are not those
        of its part of the split.
        """
        path = self.folder / f"{part}.jsonl"
        rows = read_jsonl(path)
        if len(rows) != (wanted := self.card["files"][part]["rows"]):
            raise ValueError(
                f"{path}: {len(rows)} rows, but the data card counts {wanted}; make the data again"
            )
        foreign = self.split.train if part == "sft_val" else self.split.val
        require_disjoint((row["secret"] for row in rows), foreign + self.split.test, str(path))
        return rows


def load_for(run: Run, source: str = "") -> Data:
    """The game that a stage plays: that of its own run, of the run folder `source`, or the `shipped` one.

    `shipped` stands for the shipped lists under the default rules, split as by default, though nothing was
    trained on the training part. Raises ValueError as `Run.input` and `load` do.
    """
    return _from_elsewhere(source) if source else load(run.input(STAGE))


def played_in(run: str | Path) -> Data:
    """The game that the evaluation of a run folder played; same errors as `load_for`."""
    source = read_yaml(Path(run) / "04_eval" / "config.yaml").get("data_from")
    return _from_elsewhere(source) if source else load(Path(run) / STAGE)


def _from_elsewhere(source: str) -> Data:
    if source == "shipped":
        words = load_words()
        return Data(Path(), {}, rules_for(words), words, split_secrets(words))
    return load(finished_stage(project_path(source), STAGE))


def load(folder: str | Path) -> Data:
    """Open a data folder. Raises ValueError unless card, rules, word lists and split agree."""
    folder = Path(folder)
    card = read_card(folder)
    try:
        return _opened(folder, card)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{folder / CARD}: the data card is not as it was written ({error}); make the data again"
        ) from None


def _opened(folder: Path, card: dict[str, Any]) -> Data:
    rules = Rules.from_dict(card["rules"])
    if rules.digest != card["digest"]:
        raise ValueError(
            f"{folder / CARD}: the rules were changed (digest {card['digest']}); make the data again"
        )
    words = card_words(card)
    split = Split(**{name: tuple(card["split"][name]) for name in Split._fields})
    _check_split(split, words, str(folder / CARD))
    return Data(folder, card, rules, words, split)
