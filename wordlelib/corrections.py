"""SFT on the student's own mistakes: what it says to clues and in games, corrected by the solver.

The teacher's rows reject words that are drawn. What a student gets wrong is its own: it names the same wrong
word again, because no row has ever told it not to. So after its training it is asked, and trained further, in
rounds: S. Ross, G. Gordon and D. Bagnell, "A reduction of imitation learning and structured prediction to
no-regret online learning" (2011).
"""

import math
import random
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any, NamedTuple

from wordlelib import clues, evaluate, models, players, rewards, tasks, training
from wordlelib.data import Data, Row, write_jsonl
from wordlelib.game import History
from wordlelib.misses import MOST_LEFT
from wordlelib.prompts import (
    completion,
    is_well_formed,
    messages,
    names,
    parse_guess,
    rejected_words,
    taught_row,
)
from wordlelib.rules import Rules
from wordlelib.runs import Run
from wordlelib.solver import Solver, solver_for
from wordlelib.teachers import solver_turn
from wordlelib.thinking import stated_words
from wordlelib.words import alphabet_letters

SOURCE = "correction"
PASSES = 8  # clues of a round for each word
GAMES = 1_000  # of a round, at most
ASKED = 3  # times, at most, that a clue is asked in a round
AT_ONCE = 8  # prompts that are answered at once, for each row that is trained at once
MOST_REJECTED = 3  # of the student's own words, in a row
RATE = 0.2  # of SFT's peak learning rate
WARMUP = 3  # steps


class Question(NamedTuple):
    """A prompt, the words that are right, and what the teacher thinks (`named`) and guesses there."""

    prompt: list[dict[str, str]]
    fits: frozenset[str]
    named: list[str]
    guess: str


def require_words(config: Any, rules: Rules) -> None:
    """Raise ValueError where `correct_rounds` asks for what another game than Wordle has not."""
    if config.correct_rounds and rules.game != Rules.game:
        raise ValueError(
            f"02_sft: correct_rounds is of Wordle, and the game is {rules.game}: use correct_rounds 0"
        )


def clue_question(clue: clues.Clue, rules: Rules) -> Question:
    """A clue, for which the teacher names an answer that fits it."""
    chat = clues.prompt(clue.known, rules, clue.tries)
    return Question(chat, frozenset(clue.right), [clue.word], clue.word)


def state_question(
    history: History, solver: Solver, rng: random.Random, candidates: int, guess_place: str
) -> Question | None:
    """A state with the teacher's turn there; None where no word is left."""
    left = solver.candidates(history)
    if not len(left):
        return None
    fits = frozenset(solver.universe[place] for place in left)
    turn = solver_turn(solver, history, rng, candidates, guess_place=guess_place)
    return Question(messages(history, solver.rules), fits, *turn)


def corrected(
    question: Question, answer: str, rules: Rules, rejects: bool, barred: Collection[str] = ()
) -> str:
    """What the student is to say: its own answer where that is right, else the teacher's.

    Right is a well-formed answer that guesses a word that fits, rejects none of these and no word twice, and
    names no `barred` word: one that training texts may not name. rejects: whether wrong words of its own come
    first and are rejected, where few are left.
    """
    rejected = rejected_words(answer)
    guess = parse_guess(answer, rules.length, rules.alphabet).guess
    faulty = rewards.misrejects(rejected, question.fits) or names(answer, barred, rules.length)
    if guess in question.fits and not faulty and is_well_formed(answer, rules.length, rules.alphabet):
        return answer
    said = dict.fromkeys([*rejected, *stated_words(answer, rules.thinking), *([guess] if guess else ())])
    letters, kept = set(alphabet_letters(rules.alphabet)), question.fits.union(barred)
    wrong = [word for word in said if len(word) == rules.length and letters >= set(word) and word not in kept]
    shown = wrong[:MOST_REJECTED] if rejects and len(question.fits) <= MOST_LEFT else ()
    return completion(question.named, question.guess, rules.thinking, shown)


def rows(
    questions: Sequence[Question],
    answers: Sequence[str],
    rules: Rules,
    rng: random.Random,
    rejecting: float,
    barred: Collection[str] = (),
) -> tuple[list[Row], list[Row]]:
    """SFT rows of what the student answered: those that it had right, and those that are corrected.

    rejecting: share of the corrected ones that first reject its own words; the others say at once what is
    right. barred: as for `corrected`.
    """
    right, mended = [], []
    for question, answer in zip(questions, answers, strict=True):
        text = corrected(question, answer, rules, rng.random() < rejecting, barred)
        row = taught_row(question.prompt, text, SOURCE)
        (right if text == answer else mended).append(row)
    return right, mended


def _asked(
    model: Any, tokenizer: Any, source: Data, solver: Solver, config: Any, seed: str, temperature: float
) -> Iterator[tuple[Question, str]]:
    """The questions of a round, and what the student answers: to clues, if SFT had some, and in games."""
    length, at_once = source.longest_completion + 1, AT_ONCE * (config.micro_batch_size or config.batch_size)
    generate = players.transformers_generator(model, tokenizer, length, temperature, at_once)
    if config.rows == "file" and source.card["files"]["sft"]["by_source"].get(clues.SOURCE):
        yield from _answered_clues(generate, tokenizer, source, seed)
    yield from _played_states(generate, tokenizer, source, solver, seed)


def _answered_clues(
    generate: players.Generator, tokenizer: Any, source: Data, seed: str
) -> Iterator[tuple[Question, str]]:
    """Clues of all words, and the answers; after one that is no word the clue is asked again and shows it."""
    words, rules, rng, barred = source.training_words, source.rules, random.Random(seed), source.barred_words
    asked = list(clues.questions(words, rules, PASSES * len(words.answers), seed))
    for _ in range(ASKED):
        questions = [clue_question(clue, rules) for clue in asked]
        chats = [question.prompt for question in questions]
        texts = players.answers(generate, tokenizer, chats, [rng.getrandbits(32) for _ in chats])
        yield from zip(questions, texts, strict=True)
        asked = [
            more
            for clue, text in zip(asked, texts, strict=True)
            if (more := clues.again(clue, text, words, rules, barred))
        ]


def _played_states(
    generate: players.Generator, tokenizer: Any, source: Data, solver: Solver, seed: str
) -> Iterator[tuple[Question, str]]:
    """The distinct states of games with SFT's secrets, up to where training texts may not tell of them."""
    rules, rng, barred = source.rules, random.Random(seed), source.barred_words
    secrets = rng.sample(source.sft_secrets, min(GAMES, len(source.sft_secrets)))
    player = players.model_player(generate, tokenizer, rules)
    records = evaluate.play_games(player, secrets, solver.words, rules, name=SOURCE, seed=rng.getrandbits(31))
    met: dict[History, str] = {}
    for record in records:
        turns = evaluate.history_of(record)
        for n, turn in enumerate(turns):
            met.setdefault(turns[:n], turn.text)
            if names(turn.text, barred, rules.length):
                break  # what follows shows it
    how = (rng, source.card["candidates"], source.card["guess_place"])
    for history, text in met.items():
        if question := state_question(history, solver, *how):
            yield question, text


def _taught(source: Data, rows: Any, n: int, rng: random.Random) -> list[Row]:
    """Rows of the teacher, `n` of them if there are so many: of the Dataset `rows`, or, without it, fresh
    tasks."""
    if rows is None:
        fresh = SimpleNamespace(rows="tasks", seed=rng.getrandbits(31))
        return list(islice(tasks.sft_rows(source, fresh), n))
    return rows.select(rng.sample(range(len(rows)), min(len(rows), n))).to_list()


def _short_enough(rows: list[Row], tokenizer: Any, most: int) -> list[Row]:
    """Rows of up to `most` tokens: a student's games can be longer than the teacher's, and nothing is cut."""
    lengths = models.token_counter(tokenizer)([[*row["prompt"], *row["completion"]] for row in rows])
    short = [row for row, length in zip(rows, lengths, strict=True) if length <= most]
    if len(short) < len(rows):
        print(f"corrections: {len(rows) - len(short)} rows are left out, longer than max_length {most}")
    return short


def correct(model: Any, tokenizer: Any, source: Data, config: Any, run: Run) -> dict[str, float]:
    """Train on the student's own mistakes for `config.correct_rounds` rounds; returns metrics.

    A round asks clues of all words, if SFT had some, and plays games with the training secrets of SFT:
    greedily, and in every second round at temperature 1. It trains on all answers that were wrong, as many
    that were right and twice as many rows of the teacher. Under `run.dir/corrections` each round has its log
    and the corrected rows, `mistakes.jsonl`. Metrics: `correct_minutes`, `correct_rows` (wrong answers), and
    the share of answers that were right in the first and in the last round, also where a clue is asked again.
    """
    if not config.correct_rounds:
        return {}
    begin, teacher = time.monotonic(), source.card.get("solver_guess", "information")
    solver = solver_for(source.training_words, source.rules, teacher)
    rejecting, barred = source.card.get("rejecting", 0.0), source.barred_words
    teachers_rows = source.dataset("sft") if config.rows == "file" else None
    shares, trained = [], 0
    for number in range(config.correct_rounds):
        seed = f"corrections/{config.seed}/{number}"
        rng = random.Random(seed)
        asked = _asked(model, tokenizer, source, solver, config, seed, float(number % 2))
        right, mended = rows(*zip(*asked, strict=True), source.rules, rng, rejecting, barred)
        shares.append(len(right) / len(right + mended))
        print(f"corrections, round {number + 1}: {shares[-1]:.1%} of {len(right + mended):,} answers right")
        right, mended = (_short_enough(part, tokenizer, config.max_length) for part in (right, mended))
        trained += len(mended)
        kept = rng.sample(right, min(len(right), len(mended)))
        old = _taught(source, teachers_rows, 2 * len(mended), rng)
        part = replace(run, dir=run.dir / "corrections" / f"round_{number + 1}", resumed=False)
        shutil.rmtree(part.dir, ignore_errors=True)  # of a stage that was stopped in this round
        part.dir.mkdir(parents=True)
        write_jsonl(part.dir / "mistakes.jsonl", mended)
        chosen = rng.sample([*mended, *kept, *old], len(mended) + len(kept) + len(old))
        if steps := math.ceil(len(chosen) / config.batch_size):
            _train(model, tokenizer, chosen, source, _config(config, number, steps), part)
    return {
        "correct_minutes": (time.monotonic() - begin) / 60,
        "correct_rows": trained,
        "correct_first_right": shares[0],
        "correct_last_right": shares[-1],
    }


def _config(config: Any, number: int, steps: int) -> SimpleNamespace:
    """SFT's parameters for so many steps of a round: a lower learning rate, and nothing by the clock or by
    memory, since another process would begin with the first round again and come no further."""
    changed = {
        "learning_rate": RATE * config.learning_rate,
        "warmup_steps": min(WARMUP, steps - 1),
        "max_steps": steps,
        "max_minutes": 0.0,
        "save_minutes": 0.0,
        "max_memory_gb": 0.0,
        "eval_every": steps,
        "save_every": steps,
        "seed": config.seed + number,
    }
    return SimpleNamespace(**(vars(config) | changed))


def _train(model: Any, tokenizer: Any, chosen: list[Row], source: Data, config: Any, part: Run) -> None:
    """One pass over the rows of a round; its weights are saved by the stage, after the last one."""
    training.sft(model, tokenizer, chosen, source.rows("sft_val"), config, part)
    shutil.rmtree(part.dir / "checkpoints")
