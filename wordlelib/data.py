"""Training data on disk: SFT rows, GRPO states, traces, and the card that says what they are.

A data folder holds `sft.jsonl`, `sft.parquet`, `sft_val.jsonl` (states of validation secrets),
`states.jsonl`, `states.parquet` (GRPO states of training secrets), `traces.csv` (whole teacher games)
and, written last, `card.json`.
"""

import csv
import hashlib
import json
import random
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import lru_cache, singledispatch
from itertools import chain, compress, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from wordlelib import models
from wordlelib.clues import clue_rows, require_summary
from wordlelib.game import History, decode_history, encode_history, knowledge
from wordlelib.misses import MOST_LEFT, misses
from wordlelib.processes import each_done, processors
from wordlelib.prompts import completion, messages, taught_row
from wordlelib.rules import Rules, rules_for
from wordlelib.runs import (
    Run,
    finished_stage,
    project_path,
    read_json,
    read_yaml,
    replacing,
    unpacked,
    write_json,
)
from wordlelib.solver import Solver, solver_for
from wordlelib.teachers import FEW, MIX, make_states, solver_turn, ties_from, traces
from wordlelib.words import Split, Words, load_words, require_disjoint, sample_words, split_secrets, without

STAGE = "01_data_synthesis"
CARD = "card.json"
CARD_KEYS = ("rules", "digest", "words", "split", "files")
VAL_ROWS_PER_SECRET = 20
ONE_PIECE = 60_000  # up to so many rows are made by one process: more take seconds to start, and memory
SHARD = 20_000  # of more, rows of one piece, with seeds of their own: files depend on no process
LONGEST_LINE = 1 << 24  # bytes of a row of a data folder, at most
BLOCK = 1_000  # of these rows are in memory at once
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
    rejecting: float = 0.0,
    real: Collection[str] = (),
) -> Row:
    """One state with the teacher's completion: prompt and completion are chat messages.

    `guessed` counts the teacher's guesses over rows, for its choice among equally good ones. rejecting: the
    chance that the thinking first rejects words (`misses.misses`), where few are left; no `real` word is an
    invented one.
    """
    guessed = Counter() if guessed is None else guessed
    thinking, guess = solver_turn(solver, history, rng, candidates, guessed, guess_place)
    guessed[guess] += 1
    wrong, unjust = [], []
    if rejecting and len(solver.candidates(history)) <= MOST_LEFT and rng.random() < rejecting:
        known, past = knowledge(history, solver.rules.length), [turn.guess for turn in history if turn.guess]
        table = solver.letters[solver.universe_rows]
        wrong, unjust = misses(solver.universe, table, known, rng, thinking, real, past)
    text = completion(thinking, guess, solver.rules.thinking, wrong)
    return taught_row(messages(history, solver.rules), text, source, secret, history, unjust)


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
    with unpacked(path) as lines:
        for number, line in enumerate(lines, 1):
            yield parse_line(line, f"{path}, line {number}")


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


def write_traces(path: Path, games: Iterable[Row]) -> None:
    """Write games (secret, turns, won, n_guesses) as CSV, one row a turn, the whole file or nothing."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        table = trace_table(file)
        table.writeheader()
        for number, game in enumerate(games, 1):
            table.writerows(trace_rows(number, game))


def trace_table(file: TextIO) -> csv.DictWriter:
    """What writes rows of TRACE_COLUMNS to an open file."""
    return csv.DictWriter(file, TRACE_COLUMNS, extrasaction="ignore", lineterminator="\n")


def trace_rows(number: int, game: Row) -> Iterator[Row]:
    """The rows of one game by TRACE_COLUMNS, and what else a turn holds."""
    return ({**game, **turn, "game": number, "turn": place} for place, turn in enumerate(game["turns"], 1))


def game_words(
    answers: str = "", allowed: str = "", sample: int = 0, sample_seed: int = 0, alphabet: str = "a-z"
) -> Words:
    """The lists of a game: shipped ones or own files, and of these a small sample unless it is 0.

    Relative file names start at the project root.
    """
    words = load_words(project_path(answers), project_path(allowed), alphabet)
    return sample_words(words, sample, sample_seed) if sample else words


@singledispatch
def words_of(rules: Rules, source: dict[str, Any]) -> Words:
    """The lists of a game, loaded again from its rules and what its data card calls their source."""
    return game_words(**source, alphabet=rules.alphabet)


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


class Taught(NamedTuple):
    """What another teacher than the solver gave: rows of `sft` and `sft_val`, which are read once, all its
    games, a few words for the card. A part that it lacks is the solver's."""

    rows: dict[str, Iterable[Row]]
    games: list[Row]
    about: dict[str, Any]


class Job(NamedTuple):
    """Rows to make in one piece: the same for the same job, in whatever process it runs.

    part: the file that its rows are for. words, rules: what the solver knows. secrets: whose games are
    played. n: rows before duplicates are removed. seeds: of the states and of the teacher's draws. mix,
    candidates, solver_guess, guess_place, rejecting, duplicates: as for `build`; without a guess_place the
    rows are GRPO states. guessed: where the counts of the teacher's guesses start. known: real words, which
    no non-word may equal. given: rows of another teacher in place of the solver's, None for none. clues:
    whether the rows are those of `clues.clue_rows`.
    """

    part: str
    words: Words
    rules: Rules
    secrets: tuple[str, ...]
    n: int
    seeds: tuple[str, str]
    mix: dict[str, float]
    candidates: int
    solver_guess: str
    guess_place: str | None
    rejecting: float
    guessed: Counter[str]
    known: frozenset[str]
    count_tokens: CountTokens | None
    file: Path
    duplicates: str = "none"
    given: Iterable[Row] | None = None
    clues: bool = False


class Made(NamedTuple):
    """What a job gives besides the rows in its file, one item a row that it wrote.

    part: that of the job. drawn: rows with duplicates. keys: hashes of what makes a row a duplicate, 0 of a
    row that stays whatever others say. tokens: of prompt and completion, if they are counted.
    """

    part: str
    file: Path
    drawn: int
    keys: array
    sources: list[str]
    turns: array
    tokens: dict[str, array]


@lru_cache(maxsize=2)
def _solver(words: Words, rules: Rules, solver_guess: str) -> Solver:
    return solver_for(words, rules, solver_guess)


def _job_rows(job: Job) -> Iterator[tuple[int, Row]]:
    """The rows of a job, duplicates included, each with the number of its turn (0: no turn of a game)."""
    if job.clues:
        of = (job.words.answers, job.rules, job.n, job.seeds[0], job.rejecting, job.known)
        yield from ((0, row) for row in clue_rows(*of))
        return
    if job.given is not None:
        yield from ((len(decode_history(row["history"])) + 1, row) for row in job.given)
        return
    if not job.n:
        return
    solver = _solver(job.words, job.rules, job.solver_guess)
    rng, guessed = random.Random(job.seeds[1]), job.guessed.copy()
    for history, secret, source in make_states(solver, job.secrets, job.n, job.seeds[0], job.mix, job.known):
        if job.guess_place:
            how = (job.candidates, guessed, job.guess_place, job.rejecting, job.known)
            row = sft_row(solver, history, secret, source, rng, *how)
        else:
            row = state_row(solver, history, secret, source)
        yield len(history) + 1, row


def _row_key(row: Row) -> int:
    """Two SFT rows with the same texts are duplicates, whatever their secrets; of states these count too.

    64 bits: among ten million different rows two are taken for the same once in 370,000 data sets.
    """
    texts = [message["content"] for message in row["prompt"] + row.get("completion", [])]
    if "completion" not in row:
        texts += [row["secret"], row["history"]]
    return int.from_bytes(hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest())


def _count(rows: Sequence[Row], count_tokens: CountTokens) -> dict[str, list[int]]:
    """Tokens of prompts and, where there are any, of completions."""
    chats = [row["prompt"] for row in rows]
    if "completion" not in rows[0]:
        return {"prompt": count_tokens(chats)}
    # In one call, so that what prompts and whole chats share is counted once.
    counts = count_tokens(chats + [row["prompt"] + row["completion"] for row in rows])
    prompts, whole = counts[: len(rows)], counts[len(rows) :]
    return {"prompt": prompts, "completion": [n - prompt for n, prompt in zip(whole, prompts, strict=True)]}


def _stays(job: Job, row: Row) -> bool:
    """Whether a row is kept even as a duplicate."""
    if job.clues or job.duplicates != "early":
        return job.duplicates == "all"
    solver = _solver(job.words, job.rules, job.solver_guess)
    return len(solver.candidates(decode_history(row["history"]))) > FEW


def _make(job: Job) -> Made:
    """Write the rows of a job as JSON lines and as an Arrow file beside them, a block at a time."""
    import pyarrow

    keys, sources, turns, tokens, seen, n = array("Q"), [], array("B"), {}, set(), 0
    rows = ((0 if _stays(job, row) else _row_key(row), turn, row) for turn, row in _job_rows(job))
    with open(job.file, "w", encoding="utf-8", newline="\n") as lines, ExitStack() as stack:
        arrow = None
        while drawn := list(islice(rows, BLOCK)):
            n += len(drawn)
            # `add` gives None: a key is new once
            new = [i for i in drawn if not i[0] or (i[0] not in seen and not seen.add(i[0]))]
            if not new:
                continue
            new_keys, new_turns, block = zip(*new, strict=True)
            lines.writelines(json.dumps(row, allow_nan=False) + "\n" for row in block)
            batch = pyarrow.RecordBatch.from_pylist(block)
            if arrow is None:
                arrow = stack.enter_context(pyarrow.ipc.new_file(_arrow(job.file), batch.schema))
            arrow.write_batch(batch)
            keys.extend(new_keys)
            turns.extend(new_turns)
            sources.extend(row["source"] for row in block)
            for name, counts in (_count(block, job.count_tokens) if job.count_tokens else {}).items():
                tokens.setdefault(name, array("I")).extend(counts)
    return Made(job.part, job.file, n, keys, sources, turns, tokens)


def _arrow(file: Path) -> Path:
    return file.with_suffix(".arrow")


def _kept(file: Path, keep: np.ndarray) -> Any:
    """The rows of an Arrow file that are to be kept, as one table."""
    import pyarrow

    with pyarrow.memory_map(str(file)) as source:
        return pyarrow.ipc.open_file(source).read_all().filter(pyarrow.array(keep)).combine_chunks()


def _pieces(job: Job, given: Iterable[Row]) -> Iterator[Job]:
    """Jobs of the rows of another teacher, at least one, each to be done before the next is asked for."""
    given = iter(given)
    yield job._replace(given=islice(given, ONE_PIECE))
    for first in given:
        yield job._replace(given=chain([first], islice(given, ONE_PIECE - 1)))


def _all_made(parts: Iterable[Iterable[Job]], workers: int | None) -> Iterator[Made]:
    """What the jobs of all parts give, in order. Those of lists run in processes of their own, one for each
    processor, where the first part has several."""
    first, *others = parts
    lists = all(isinstance(jobs, list) for jobs in (first, *others))
    workers = min(len(first), workers or processors()) if lists else 1
    return each_done(_make, chain(first, *others), workers, "make", "build")


def _percentiles(counts: array) -> dict[str, int]:
    values = np.percentile(counts, [50, 90, 99, 100], method="higher")
    return dict(zip(("p50", "p90", "p99", "max"), map(int, values), strict=True))


def _write_part(path: Path, all_made: Iterable[Made], with_parquet: bool) -> dict[str, Any]:
    """Join the rows of a part in one file, in Parquet beside it too; returns what the card says of them."""
    import pyarrow.parquet

    seen = np.array([], np.uint64)
    sources, turns, tokens, writer, drawn = Counter(), Counter(), {}, None, 0
    with ExitStack() as stack:
        lines = stack.enter_context(open(stack.enter_context(replacing(path)), "wb"))
        parquet = stack.enter_context(replacing(path.with_suffix(".parquet"))) if with_parquet else None
        for made in all_made:
            drawn += made.drawn
            keys = np.array(made.keys)
            new = (keys == 0) | np.isin(keys, seen, invert=True)
            seen = np.union1d(seen, keys)
            with open(made.file, "rb") as rows:
                lines.writelines(compress(rows, new))
            if parquet and new.any():
                table = _kept(_arrow(made.file), new)
                writer = writer or stack.enter_context(pyarrow.parquet.ParquetWriter(parquet, table.schema))
                writer.write_table(table)
            sources.update(compress(made.sources, new))
            turns.update(compress(made.turns, new))
            for name, counts in made.tokens.items():
                tokens.setdefault(name, array("I")).extend(compress(counts, new))
            made.file.unlink()
            _arrow(made.file).unlink(missing_ok=True)
        if parquet and not writer:
            pyarrow.parquet.write_table(pyarrow.table({}), parquet)
    return {
        "rows": sources.total(),
        "duplicates_removed": drawn - sources.total(),
        "by_source": dict(sorted(sources.items())),
        "by_turn": {str(turn): turns[turn] for turn in sorted(turns)},
    } | ({"tokens": {name: _percentiles(counts) for name, counts in tokens.items()}} if tokens else {})


def build(
    folder: str | Path,
    rules: Rules,
    split: Split,
    *,
    source: dict[str, Any] | None = None,
    rows: int,
    states: int,
    clues: int = 0,
    grpo_secrets: int = 0,
    seed: int = 0,
    candidates: int = 3,
    solver_guess: str = "information",
    ties: str = "rarest",
    guess_place: str = "last",
    rejecting: float = 0.0,
    duplicates: str = "none",
    mix: dict[str, float] = MIX,
    count_tokens: CountTokens | None = None,
    taught: Taught | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Make all training data of a game in `folder` and return its card; same arguments, same files.

    source: what gave the lists of `rules`, of Wordle the arguments of `game_words` (None: the shipped ones).
    rows, states: how many SFT rows and GRPO states are made before duplicates are removed. clues: how many
    SFT rows of words by their letters, without a game (`clues.clue_rows`), are added.
    grpo_secrets: how many training secrets no SFT row has, so that SFT leaves GRPO some to learn from; then
    GRPO states have no others.
    candidates: words in the thinking, at most; solver_guess: which of them is guessed, as `Solver` has it;
    ties: which of equally good ones, the one guessed least often so far (`rarest`), or first those that are
    no training secrets (`non_secrets`); guess_place: whether the guess is the `first` or the `last` of them.
    rejecting: share of the SFT rows with few words left that first reject other words (`misses`); above 0,
    some clues show strings that were tried before.
    duplicates: which SFT rows with the same texts stay: `none`, `all`, so that what games meet often weighs
    more, or `early` ones, with more than `FEW` words left (later ones teach the ends of the teacher's own
    games by heart). mix: shares by source, as for `make_states`.
    count_tokens: tokens of each chat, with the generation prompt when its last message is the user's;
    None leaves the token lengths out. Above `ONE_PIECE` rows other processes call it, so that it must be one
    that can be pickled. taught: rows and games in place of the solver's, which then makes the states alone;
    `rows`, `candidates` and `guess_place` say nothing then, and `rejecting` speaks of clues alone. workers:
    processes at most (None: one for each processor); files do not depend on it. Only training secrets have
    training games. With the `full` lexicon all words may be named; with `train` the training files name no
    held-out word, and the validation file no test word. Raises ValueError when lists, rules and split do not
    fit or states have nothing that clues look like, MemoryError when a process was ended, RuntimeError when
    none could start.
    """
    folder, source = Path(folder), source or {}
    words = words_of(rules, source)
    _check_words(words, rules, "data")
    _check_split(split, words, "data")
    if clues:
        require_summary(rules)
    if rejecting and (rules.game != Rules.game or rules.thinking != "spelled"):
        raise ValueError(
            "rejecting: words are rejected where the thinking of Wordle spells them, not with game "
            f"{rules.game} and thinking {rules.thinking}"
        )
    if grpo_secrets >= len(split.train):
        raise ValueError(
            f"grpo_secrets: {grpo_secrets} of {len(split.train)} training secrets leave SFT none"
        )
    apart = draw_secrets(split.train, grpo_secrets, seed)
    of_sft = [secret for secret in split.train if secret not in apart]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).unlink(missing_ok=True)

    named, named_val = words, words
    if rules.lexicon == "train":
        named, named_val = without(words, split.val + split.test), without(words, split.test)
        require_disjoint(named.allowed, split.val + split.test, "the words of the train lexicon")

    def jobs(part: str, named: Words, secrets: Sequence[str], n: int, guess_place: str | None) -> list[Job]:
        made = []
        size = SHARD if n > ONE_PIECE else max(n, 1)
        for number, start in enumerate(range(0, max(n, 1), size)):
            # The first shard is drawn as if there were no other.
            end = f" shard {number}" if number else ""
            seeds = (f"{part} {seed}{end}", f"{part} labels {seed}{end}")
            file = Path(temporary) / f"{part}-{number}.jsonl"
            of = (part, named, rules, tuple(secrets), min(size, n - start), seeds, mix)
            how = (candidates, solver_guess, guess_place, rejecting, ties_from(split.train, ties))
            made.append(Job(*of, *how, words.dictionary, count_tokens, file))
        return made

    val_rows = VAL_ROWS_PER_SECRET * len(split.val)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".shards-") as temporary:
        parts = {
            "sft": [
                job._replace(duplicates=duplicates) for job in jobs("sft", named, of_sft, rows, guess_place)
            ],
            "sft_val": jobs("sft_val", named_val, split.val, val_rows, guess_place),
            "states": jobs("states", named, apart or split.train, states, None),
        }
        if clues:
            of_words = jobs("clues", named, of_sft, clues, guess_place)
            parts["sft"] += [job._replace(part="sft", clues=True) for job in of_words]
        for part, given in (taught.rows if taught else {}).items():
            of_clues = [job for job in parts[part] if job.clues]
            parts[part] = chain(_pieces(parts[part][0], given), of_clues)
        with closing(_all_made(parts.values(), workers)) as made:
            files = {
                part: _write_part(folder / f"{part}.jsonl", of, part != "sft_val")
                for part, of in groupby(made, lambda made: made.part)
            }
    if taught:
        games = taught.games
    else:
        solver = _solver(named, rules, solver_guess)
        games = list(traces(solver, of_sft, seed, candidates, guess_place))
    write_traces(folder / "traces.csv", games)
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
        "solver_guess": solver_guess,
        "ties": ties,
        "guess_place": guess_place,
        "rejecting": rejecting,
        "grpo_secrets": sorted(apart),
        "duplicates": duplicates,
        "files": files | {"traces": {"games": len(games), "rows": sum(len(game["turns"]) for game in games)}},
        "split_sizes": {name: len(part) for name, part in split._asdict().items()},
        "split": split._asdict(),
    }
    if taught:
        card["teacher"] = taught.about
    write_json(folder / CARD, card)
    return read_card(folder)


def counts(card: dict[str, Any]) -> dict[str, int]:
    """The metrics of a data card; none of an empty one, after a dry run."""
    if not card:
        return {}
    files, sizes = card["files"], card["split_sizes"]
    return {
        "rows": files["sft"]["rows"],
        "duplicates_removed": files["sft"]["duplicates_removed"],
        "states": files["states"]["rows"],
        "train_secrets": sizes["train"],
        "val_secrets": sizes["val"],
        "heldout_secrets": sizes["test"],
    }


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
    words = words_of(rules, card["words"]["source"])
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
    def grpo_secrets(self) -> Sequence[str]:
        """The training secrets that GRPO learns from: those that SFT did not see, or all."""
        return self.card.get("grpo_secrets") or self.split.train

    @property
    def sft_secrets(self) -> Sequence[str]:
        """The training secrets of SFT rows."""
        apart = frozenset(self.card.get("grpo_secrets", ()))
        return [secret for secret in self.split.train if secret not in apart]

    @property
    def barred_words(self) -> frozenset[str]:
        """The words that no training text may name: those held out, with the `train` lexicon."""
        return self.words.dictionary - self.training_words.dictionary

    @property
    def rehearsed_secrets(self) -> Sequence[str]:
        """The training secrets that are not among `grpo_secrets`: none where GRPO learns from all."""
        return self.sft_secrets if self.card.get("grpo_secrets") else []

    @property
    def longest_completion(self) -> int:
        """Tokens of the longest completion that the SFT rows teach."""
        return self.card["files"]["sft"]["tokens"]["completion"]["max"]

    def warn_of_cuts(self, max_completion_length: int) -> None:
        """Print a warning where answers as long as the longest completion of SFT would be cut."""
        known = self.card.get("files", {}).get("sft", {}).get("tokens")
        if known and max_completion_length <= self.longest_completion:  # the end token is one more
            print(
                f"warning: SFT teaches completions of up to {self.longest_completion + 1} tokens, the end "
                f"token among them, and max_completion_length is {max_completion_length}: longer answers are "
                "cut, and malformed"
            )

    def rows(self, part: str) -> list[Row]:
        """The rows of `sft`, `sft_val` or `states`.

        Raises ValueError when the file is not the one of the card, or its secrets are not those
        of its part of the split.
        """
        path = self.folder / f"{part}.jsonl"
        rows = read_jsonl(path)
        self._check(part, len(rows), (row["secret"] for row in rows))
        return rows

    def dataset(self, part: str) -> Any:
        """The rows of `rows` as a `datasets.Dataset`, read several times as fast; same errors, but none of
        blank lines between rows, which say nothing."""
        import pyarrow.json
        from datasets import Dataset, fingerprint

        path, options = self.folder / f"{part}.jsonl", pyarrow.json.ReadOptions(block_size=LONGEST_LINE)
        try:
            table = pyarrow.json.read_json(path, options)
        except pyarrow.ArrowInvalid:
            return Dataset.from_list(self.rows(part))  # which says what line is wrong
        self._check(part, len(table), table["secret"].unique().to_pylist())
        return Dataset(table, fingerprint=fingerprint.generate_random_fingerprint())  # no hash of all

    def _check(self, part: str, n: int, secrets: Iterable[str]) -> None:
        path = self.folder / f"{part}.jsonl"
        if n != (wanted := self.card["files"][part]["rows"]):
            raise ValueError(f"{path}: {n} rows, but the data card counts {wanted}; make the data again")
        allowed = {"sft": self.sft_secrets, "sft_val": self.split.val, "states": self.grpo_secrets}[part]
        require_disjoint(secrets, set().union(*self.split).difference(allowed), str(path))


def load_for(run: Run, source: str = "") -> Data:
    """The game that a stage plays: that of its own run, of `source` (a run folder, or a folder with a data
    card), of the `embedded` student, or the `shipped` one.

    `shipped` stands for the shipped lists under the default rules, split as by default, though nothing was
    trained on the training part. Raises ValueError as `Run.input` and `load` do.
    """
    return _from_elsewhere(source) if source else load(run.input(STAGE))


def played_in(run: str | Path) -> Data:
    """The game that the evaluation of a run folder played; same errors as `load_for`."""
    source = read_yaml(Path(run) / "04_eval" / "config.yaml").get("data_from")
    return _from_elsewhere(source) if source else load(Path(run) / STAGE)


def _from_elsewhere(source: str) -> Data:
    if source == models.EMBEDDED:
        return load(models.existing(source))
    if source == "shipped":
        words = load_words()
        return Data(Path(), {}, rules_for(words), words, split_secrets(words))
    folder = project_path(source)
    return load(folder if (folder / CARD).is_file() else finished_stage(folder, STAGE))


def card_of(model: str | Path) -> Path | None:
    """The folder of the data card of a saved model: its own, as exports have it, or that of the run that it
    lies in; None for a model that was not trained here."""
    folder = Path(model).resolve()
    places = [folder, *(parent / STAGE for parent in folder.parents)]
    return next((place for place in places if (place / CARD).is_file()), None)


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
