"""The fast paths measured on this machine, beside a plain-Python reference in the same run.

A reference does the same work on strings with `game.score` alone; it is timed on the share of the
work that the note states, and scaled up. Times are wall-clock, so other programs slow both sides.
"""

import hashlib
import json
import math
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from wordlelib import game, models, rewards
from wordlelib.data import build, iter_jsonl, state_row, write_jsonl
from wordlelib.evaluate import iter_games, summarise, write_games
from wordlelib.formats import convert
from wordlelib.game import Game, History, is_consistent, score
from wordlelib.players import saved_game, saved_player, solver_player
from wordlelib.processes import processors
from wordlelib.prompts import THINK, assistant, completion, parse_guess
from wordlelib.replay import Games, Replay
from wordlelib.rules import rules_for
from wordlelib.solver import Solver, greedy, guess_counts, pattern_matrix
from wordlelib.teachers import non_word, solver_turn
from wordlelib.words import Words, load_words, split_secrets

Row = dict[str, Any]

MATRIX_SHA256 = "718b305dae9c30175e2fce137ba91c899455300c7fbd84d16a0c375c3ecfc585"
OPENER, TOTAL = "salet", 7946
GAMES, EARLY = 2000, 500
RECORDED, DISTINCT = 1_000_000, 20_000  # games summarised, and how many of them were played apart
STATES = 512
REPLAYED = 6  # players
ROWS, WORKERS = 1_000_000, 2  # training rows made, and by how many processes they are made and checked
LOOK = 0.1  # seconds between two looks at the memory
HEAVY_MODULES = {"models", "training", "callbacks"}  # these may load torch


def best_seconds(work: Callable[[], Any], repeats: int = 1) -> float:
    """Wall-clock time of one call: the least of `repeats`."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


class Peak:
    """The most memory that this process and those it started held together while it was open, in GiB.

    Looked at every `LOOK` seconds. What this process held before counts too: it is rather more than what was
    needed.
    """

    def __enter__(self) -> "Peak":
        self.gib, self._done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while True:
            self.gib = max(self.gib, _held_together() / 2**30)
            if self._done.wait(LOOK):
                return

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def row(name: str, measured: float, unit: str, mark: float | None, reference: float | None, note: str) -> Row:
    """One line of the table; `ratio` is how many times better than the reference.

    Units that end in `/s` are speeds, which must reach the mark; all others must stay below it.
    """
    speed = unit.endswith("/s")
    return {
        "name": name,
        "measured": measured,
        "unit": unit,
        "mark": mark,
        "ok": mark is None or (measured >= mark if speed else measured <= mark),
        "reference": reference,
        "ratio": reference and (measured / reference if speed else reference / measured),
        "note": note,
    }


def _matrix(words: Words) -> Row:
    matrix = pattern_matrix(words.allowed, words.answers)
    if hashlib.sha256(matrix.tobytes()).hexdigest() != MATRIX_SHA256:
        raise ValueError("bench: the pattern matrix of the shipped lists is not the agreed one")
    share = words.allowed[::200]
    plain = best_seconds(lambda: [[score(guess, secret) for secret in words.answers] for guess in share])
    return row(
        f"pattern matrix {len(words.allowed):,} x {len(words.answers):,}",
        best_seconds(lambda: pattern_matrix(words.allowed, words.answers), repeats=3),
        "s",
        0.6,
        plain * len(words.allowed) / len(share),
        f"SHA-256 {MATRIX_SHA256[:8]} as agreed; reference: 1 guess in 200",
    )


def _plain_bits(guess: str, left: Sequence[str]) -> float:
    parts = Counter(score(guess, word) for word in left).values()
    return math.log2(len(left)) - sum(n * math.log2(n) for n in parts) / len(left)


def _greedy(words: Words) -> Row:
    start = time.perf_counter()
    solver = Solver(words, rules_for(words))
    total = sum(guess_counts(solver, greedy, OPENER).values())
    measured = time.perf_counter() - start
    if total != TOTAL:
        raise ValueError(f"bench: greedy needs {total:,} guesses after {OPENER}, not {TOTAL:,}")
    searched: list[list[str]] = []

    def recording(solver: Solver, history: History, rng: random.Random) -> str:
        left = solver.consistent_words(history)
        searched.extend([left] if len(left) > 2 else [])
        return greedy(solver, history, rng)

    guess_counts(solver, recording, OPENER)
    share = words.allowed[::500]
    plain = best_seconds(lambda: [_plain_bits(guess, left) for left in searched for guess in share])
    return row(
        f"greedy over {len(words.answers):,} answers, opener {OPENER}",
        measured,
        "s",
        4,
        plain * len(words.allowed) / len(share),
        f"{total:,} guesses, its matrix included; reference: 1 guess in 500 at each of "
        f"{len(searched)} searches",
    )


def _states(solver: Solver, rng: random.Random) -> Iterator[tuple[History, str]]:
    """Histories of one to four turns by any answer as the guess, and their secrets."""
    words = solver.words
    for i in range(STATES):
        play = Game(words, solver.rules, rng.choice(words.answers))
        while len(play.history) < 1 + i % 4:
            play.play(rng.choice([word for word in words.answers if word != play.secret]))
        yield play.history, play.secret


def _texts(solver: Solver, history: History, rng: random.Random) -> Iterator[str]:
    """A group of eight as a model in training writes it: good and consistent guesses, any words, faults."""
    for _ in range(3):
        yield completion(*solver_turn(solver, history, rng))
    for word in (rng.choice(solver.consistent_words(history)), *rng.sample(solver.guesses, 2)):
        yield completion([word], word)
    word = non_word(rng.choice(solver.guesses), rng, solver.words.dictionary)
    yield completion([word], word)
    yield THINK + word


def _rewards(solver: Solver) -> Row:
    """The solver only makes the batch; every timed pass starts with empty memories."""
    rng = random.Random(0)
    batch = []
    for history, secret in _states(solver, rng):
        columns = state_row(solver, history, secret, "bench")
        batch += [(text, columns) for text in _texts(solver, history, rng)]
    completions = [[assistant(text)] for text, _ in batch]
    columns = {name: [columns[name] for _, columns in batch] for name in batch[0][1]}
    fresh = [Solver(solver.words, solver.rules) for _ in range(3)]
    results = []

    def reward() -> None:
        game.decode_history.cache_clear()
        functions, _ = rewards.make_reward_functions("ours", fresh.pop(), solver.rules)
        results.append({f.__name__: f(completions=completions, **columns) for f in functions})

    def plain(text: str, history: str) -> float:
        guess = parse_guess(text).guess
        turns = game.decode_history(history)
        left = [word for word in solver.universe if is_consistent(word, turns)]
        legal = guess in solver.words.dictionary and len(left) > 1
        return _plain_bits(guess, left) / math.log2(len(left)) if legal else 0.0

    measured = best_seconds(reward, repeats=3)
    expected = []
    share = [(text, states["history"]) for text, states in batch[::67]]
    reference = best_seconds(lambda: expected.extend(plain(*pair) for pair in share))
    if not np.allclose(results[0]["information"][::67], expected, atol=1e-9):
        raise ValueError("bench: the information term differs from its plain-Python reference")
    return row(
        "rewards, preset ours",
        len(batch) / measured,
        "completions/s",
        20_000,
        len(share) / reference,
        f"{STATES} states of 1 to 4 turns, groups of {len(batch) // STATES}; reference: the information "
        f"term alone on {len(share)} completions",
    )


def _synthesis(words: Words) -> Iterator[Row]:
    """Training rows as notebook 01 makes them, from the solver's games to the files; these checked as those
    of others are, and once more as chats that say no secret."""
    split, card = split_secrets(words), {}
    with tempfile.TemporaryDirectory() as folder:

        def make() -> None:
            card.update(build(folder, rules_for(words), split, rows=ROWS, states=1, workers=WORKERS))

        with Peak() as peak:
            seconds = best_seconds(make)
        kept = card["files"]["sft"]["rows"]
        note = f"{WORKERS} processes; {kept:,} are no duplicates; JSON lines and Parquet, no tokens counted"
        yield row(f"{ROWS:,} training rows with thinking", seconds, "s", 240, None, note)
        note = f"most that the {WORKERS} processes and this one held together"
        yield row("their memory", peak.gib, "GiB", 2, None, note)
        chats, rows = Path(folder) / "chats.jsonl", iter_jsonl(Path(folder) / "sft.jsonl")
        write_jsonl(chats, ({"messages": row["prompt"] + row["completion"]} for row in rows))
        yield _checked(Path(folder) / "sft.jsonl", "rows of notebook 01", kept)
        yield _checked(chats, "{messages} without secrets", kept)


def _checked(path: Path, name: str, rows: int) -> Row:
    """How long a gigabyte of such rows takes to be checked by `formats.convert`, from a smaller file.

    Processes start once, so that a gigabyte takes a little less.
    """
    reports = []
    with Peak() as peak:
        seconds = best_seconds(lambda: reports.append(convert(path, workers=WORKERS)))
    if reports[0].kept != rows:
        raise ValueError(f"bench: of {rows:,} good rows {reports[0]}")
    size = path.stat().st_size / 1e6
    note = f"{size / seconds:.1f} MB/s, measured on {size:,.1f} MB; {WORKERS} processes"
    note += f", which held with this one {peak.gib:.2f} GiB at most"
    return row(f"1 GB of {name}, checked", seconds * 1000 / size, "s", 60, None, note)


def _resident_mib() -> float:
    import psutil

    return psutil.Process().memory_info().rss / 2**20


def _held_together() -> int:
    """Bytes of this process and all that it started; on Linux a page that some share counts once (PSS), else
    a process that has just been forked would double all."""
    import psutil

    own, total = psutil.Process(), 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            held = process.memory_full_info()
            total += getattr(held, "pss", held.rss)
    return total


def _games(solver: Solver) -> Iterator[Row]:
    """Speed of the harness, and how much the process grows between early and late games."""
    rng = random.Random(0)
    secrets = rng.sample(solver.words.answers, GAMES)
    player = solver_player(solver, "random_consistent")
    resident: dict[int, float] = {}
    won = 0
    start = time.perf_counter()
    games = iter_games(player, secrets, solver.words, solver.rules, name="random_consistent")
    for n, record in enumerate(games, 1):
        won += record["won"]
        if n in (EARLY, GAMES):
            resident[n] = _resident_mib()
    measured = time.perf_counter() - start

    def plain() -> None:
        for secret in secrets[::100]:
            turns: History = ()
            while len(turns) < solver.rules.turns and (not turns or turns[-1].guess != secret):
                guess = rng.choice([word for word in solver.universe if is_consistent(word, turns)])
                turns += (game.Turn(guess, score(guess, secret)),)

    share = len(secrets[::100])
    yield row(
        f"{GAMES:,} games through the harness, random consistent",
        measured,
        "s",
        None,
        best_seconds(plain) * GAMES / share,
        f"{won / GAMES:.1%} won; reference: {share} games",
    )
    yield row(
        f"memory gained from game {EARLY:,} to game {GAMES:,}",
        resident[GAMES] - resident[EARLY],
        "MiB",
        8,
        None,
        f"resident: {resident[EARLY]:.0f} MiB, then {resident[GAMES]:.0f} MiB",
    )


def _replay(solver: Solver) -> Iterator[Row]:
    """Opening the games of `REPLAYED` players for replay, and going from one secret to the next."""
    words, rules = solver.words, solver.rules
    secrets = (words.answers * 2)[:GAMES]
    player = solver_player(solver, "random_consistent")
    played = list(iter_games(player, secrets, words, rules, name="games"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "games.jsonl"
        write_games(path, ({**game, "player": f"player {n}"} for n in range(REPLAYED) for game in played))
        shown: list[Replay] = []
        opening = best_seconds(lambda: shown.append(Replay("bench", Games(path, rules), solver)))
        opening += best_seconds(shown[0].index)
        steps = [
            best_seconds(lambda secret=secret: [shown[0].pieces(n) for n in _of(shown[0], secret)])
            for secret in shown[0].secrets[: GAMES // 20]
        ]
    games = len(shown[0].games)
    yield row(f"opening {games:,} games for replay", opening, "s", 2, None, "read, checked and filtered")
    note = f"median of {len(steps)}, the slowest {max(steps):.3f} s; {REPLAYED} boards with the solver's view"
    yield row("replay, on to the next secret", statistics.median(steps), "s", 0.1, None, note)


def _of(shown: Replay, secret: str) -> list[int]:
    return [shown.numbers[secret, player] for player in shown.players]


def _student() -> Iterator[Row]:
    """All secrets of the embedded student's game, played by it; no row where none is installed."""
    if not models.EMBEDDED_FOLDER.is_dir():
        return
    words, rules = saved_game(models.EMBEDDED)
    player, records = saved_player(models.EMBEDDED, rules), []
    play = iter_games(player, words.answers, words, rules, name=models.EMBEDDED, at_once=len(words.answers))
    seconds = best_seconds(lambda: records.extend(play))
    won = sum(record["won"] for record in records) / len(records)
    yield row(f"{len(records):,} games of the embedded student", seconds, "s", 120, None, f"{won:.1%} won")


def _recorded(solver: Solver) -> Iterator[Row]:
    """Time and memory of the summary of a file of games, in a process of its own."""
    rng = random.Random(0)
    secrets = [rng.choice(solver.words.answers) for _ in range(DISTINCT)]
    player = solver_player(solver, "random_consistent")
    records = list(iter_games(player, secrets, solver.words, solver.rules, name="random_consistent"))
    lines = [json.dumps(record) + "\n" for record in records]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "games.jsonl"
        with path.open("w") as file:
            for _ in range(RECORDED // DISTINCT):
                file.writelines(lines)
        size = path.stat().st_size
        root = str(Path(__file__).resolve().parent.parent)
        command = [sys.executable, "-c", SUMMARY, str(path)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    seconds, gib, games, rate = json.loads(done.stdout)
    reference = best_seconds(lambda: summarise(map(json.loads, lines[::20])))
    if games != RECORDED or rate != summarise(records)["win_rate"]:
        raise ValueError(f"bench: the summary of {RECORDED:,} games gives {games:,} games and {rate} won")
    note = f"{size / 2**20:,.0f} MiB, {DISTINCT:,} of the games differ; with bits of every turn and intervals"
    share = f"; reference: `evaluate.summarise` alone on {len(lines[::20]):,} games"
    scaled = reference * RECORDED / len(lines[::20])
    yield row(f"summary of {RECORDED:,} recorded games", seconds, "s", 60, scaled, note + share)
    yield row("its memory", gib, "GiB", 2, None, "most that the process held")


SUMMARY = """
import json, sys, time
from wordlelib import analysis
from wordlelib.bench import Peak
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.words import load_words

start = time.perf_counter()
words = load_words()
solver = Solver(words, rules_for(words))
with Peak() as peak:  # not the system's own figure, which begins with what the parent held
    [games] = analysis.read(sys.argv[1]).values()
    found = analysis.describe(analysis.measure(games, solver))
seconds = time.perf_counter() - start
print(json.dumps([seconds, peak.gib, found["games"], found["win_rate"]]))
"""


def _import(modules: Sequence[str], name: str) -> Row:
    """Import in a fresh interpreter; raises ValueError when that loads torch."""
    code = (
        "import json, sys, time; start = time.perf_counter(); "
        f"import {', '.join(modules)}; "
        "print(json.dumps([time.perf_counter() - start, 'torch' in sys.modules]))"
    )
    root = str(Path(__file__).resolve().parent.parent)
    done = [
        subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    times, torch = zip(*(json.loads(process.stdout) for process in done), strict=True)
    if any(torch):
        raise ValueError(f"bench: import of {', '.join(modules)} loads torch")
    return row(name, min(times), "s", 0.5, None, "fresh interpreter, no torch loaded")


def rows() -> Iterator[Row]:
    """The rows of the table, each as soon as it is measured: see `row`.

    Raises ValueError when a fast path gives another result than it must.
    """
    words = load_words()
    solver = Solver(words, rules_for(words))
    # first what looks at the memory of this process, while it is small
    yield from _games(solver)
    yield from _synthesis(words)
    yield _matrix(words)
    yield _greedy(words)
    yield _rewards(solver)
    yield from _replay(solver)
    yield from _student()
    yield from _recorded(solver)
    yield _import(["wordlelib"], "import wordlelib")
    names = {path.stem for path in Path(__file__).parent.glob("[a-z]*.py")} - HEAVY_MODULES
    light = [f"wordlelib.{name}" for name in sorted(names)]
    yield _import(light, f"import of {len(light)} modules that need no torch")


def main() -> None:
    """Print the table while it is measured."""
    versions = f"Python {platform.python_version()}, numpy {np.__version__}"
    print(f"{platform.machine()}, {processors()} CPUs, {versions}")
    print(f"{'':52} {'measured':>10} {'mark':>10} {'reference':>10} {'ratio':>8}")
    for line in rows():
        bound = "" if line["mark"] is None else (">= " if line["unit"].endswith("/s") else "<= ")
        mark = bound + ("" if line["mark"] is None else f"{line['mark']:,g}")
        reference = "" if line["reference"] is None else f"{line['reference']:,.4g}"
        ratio = "" if line["ratio"] is None else f"{line['ratio']:,.0f}x"
        label = f"{line['name']} [{line['unit']}]"
        print(f"{label:52} {line['measured']:10,.4g} {mark:>10} {reference:>10} {ratio:>8}", end="")
        print(f"{'' if line['ok'] else '  MISSED'}\n    {line['note']}", flush=True)
