"""A language model behind a server as the teacher: its games, which of them are worth learning, their cost.

Training and validation secrets are played by the rules of every game, and our game scores each guess. The
folder `teacher` of the stage holds the games of each secret as `<secret>.jsonl`, written when the last of
them ends, and every answer of the server as `<secret>.answers.jsonl`, so that nothing is paid twice.
"""

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from wordlelib.data import Chat, Row, Taught, draw_secrets, write_jsonl
from wordlelib.endpoints import Answer, Endpoint, completer, connect, failures, read_answers, usage
from wordlelib.evaluate import game_seed, history_of, play_games, read_games
from wordlelib.game import is_consistent
from wordlelib.players import FAILED, endpoint_player
from wordlelib.prompts import is_well_formed, messages, taught_row
from wordlelib.rules import Rules
from wordlelib.runs import Run, replacing, write_text
from wordlelib.solver import Solver
from wordlelib.teachers import traces
from wordlelib.thinking import false_statements
from wordlelib.words import Split, Words

FOLDER = "teacher"
UNANSWERED = 20  # secrets in a row without any answer that mean that the server is gone
PLANNED = 50  # games of the solver whose turns and prompts stand for those to come
SHOWN = 3  # prompts of a plan
PART_FILES = {"train": "sft", "val": "sft_val"}
COLUMNS = ("secret", "part", "games", "won", "kept", "fewest_guesses", "dropped")

Record = dict[str, Any]


def play(
    folder: Path,
    endpoint: Endpoint,
    secrets: Sequence[str],
    words: Words,
    rules: Rules,
    *,
    games: int,
    seed: int = 0,
    max_completion_length: int = 512,
    temperature: float = 1.0,
) -> dict[str, list[Record]]:
    """Play `games` games of each secret and return them by secret; secrets that have their file are read.

    Raises ConnectionError when no game of so many secrets as `UNANSWERED` got an answer; what was played
    is kept, and secrets without any answer are asked again.
    """
    folder.mkdir(exist_ok=True)
    # Secrets side by side, and the games of each side by side: together not more than are allowed.
    at_once = max(1, endpoint.concurrency // games)
    share = replace(endpoint, concurrency=max(1, min(games, endpoint.concurrency)))

    def one(secret: str) -> bool:
        file, answers = folder / f"{secret}.jsonl", folder / f"{secret}.answers.jsonl"
        if file.is_file():
            return True
        ask = completer(share, answers, max_completion_length, temperature)
        # Seeds of the secret, so that its games do not depend on which others are played.
        own_seed = game_seed(seed, words.answers.index(secret))
        player = endpoint_player(ask, rules)
        played = play_games(player, [secret] * games, words, rules, name="teacher", seed=own_seed)
        answered = any(answer.text is not None for answer in read_answers(answers))
        if answered:
            write_jsonl(file, played)
        else:
            names = (f"{secret}.{n}.failed" for n in count())  # of one call each
            answers.rename(next(folder / name for name in names if not (folder / name).exists()))
        return answered

    unanswered = 0
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for done in as_completed([pool.submit(one, secret) for secret in secrets]):
                unanswered = 0 if done.result() else unanswered + 1
                if unanswered == UNANSWERED:
                    raise ConnectionError(
                        f"{endpoint.url} answered nothing for {UNANSWERED} secrets "
                        f"({_last_failure(folder)}): see to it, then go on with resume=True"
                    )
        finally:
            pool.shutdown(cancel_futures=True)
    return {secret: read_games(file) for secret in secrets if (file := folder / f"{secret}.jsonl").is_file()}


def _last_failure(folder: Path) -> str:
    newest = max(folder.glob("*.failed"), key=lambda file: file.stat().st_mtime)
    return read_answers(newest)[-1].failure


def answers_of(folder: Path) -> list[Answer]:
    """Every answer that the server gave or failed to give."""
    files = sorted([*folder.glob("*.answers.jsonl"), *folder.glob("*.failed")])
    return [answer for file in files for answer in read_answers(file)]


def fault(record: Record, rules: Rules) -> str | None:
    """Why a game is not worth learning, the first reason that holds; None if it is.

    In order: no answer, invalid turn, other form (a turn is not one thinking block and one guess: the student
    would learn to write so), contradicts the feedback (a guess that its past turns rule out), lost, false
    statement (in the thinking of any turn).
    """
    history = history_of(record)
    if any(turn.reason == FAILED for turn in history):
        return "no answer"
    if any(turn.feedback is None for turn in history):
        return "invalid turn"
    if not all(is_well_formed(turn.text, rules.length, rules.alphabet) for turn in history):
        return "other form"
    if not all(is_consistent(turn.guess, history[:number]) for number, turn in enumerate(history)):
        return "contradicts the feedback"
    if not record["won"]:
        return "lost"
    if stated_false(record):
        return "false statement"
    return None


def stated_false(record: Record) -> int:
    """False statements in the thinking of all turns of a game."""
    history = history_of(record)
    return sum(len(false_statements(turn.text, history[:number])) for number, turn in enumerate(history))


def select(games: Sequence[Record], keep: int, rules: Rules) -> tuple[list[Record], Counter[str]]:
    """The `keep` shortest games of one secret without a fault, and how many were dropped by reason."""
    faults = [fault(game, rules) for game in games]
    good = [game for game, found in zip(games, faults, strict=True) if found is None]
    good.sort(key=lambda game: (game["n_guesses"], sum(len(turn["text"]) for turn in game["turns"])))
    dropped = Counter(found for found in faults if found)
    if len(good) > keep:
        dropped["longer than others"] = len(good) - keep
    return good[:keep], dropped


def rows_of(record: Record, rules: Rules) -> list[Row]:
    """The SFT rows of a game: each turn's state, as in play, with what the teacher wrote there."""
    history = history_of(record)
    return [
        taught_row(
            messages(history[:number], rules), turn.text, "endpoint", record["secret"], history[:number]
        )
        for number, turn in enumerate(history)
    ]


def cost(prompt_tokens: float, completion_tokens: float, config: Any) -> float:
    """Dollars, by the prices of the parameters (dollars for a million tokens)."""
    return (prompt_tokens * config.prompt_price + completion_tokens * config.completion_price) / 1e6


def secrets_of(split: Split, config: Any) -> dict[str, list[str]]:
    """The secrets that are played, by part: `teacher_secrets` of training (0: all), and all of validation."""
    n = min(config.teacher_secrets or len(split.train), len(split.train))
    return {"train": draw_secrets(split.train, n, config.seed), "val": list(split.val)}


def plan(
    words: Words, rules: Rules, split: Split, config: Any, count_tokens: Callable[[list[Chat]], list[int]]
) -> str:
    """Three prompts and what all games are expected to cost, as text; nothing is asked.

    Turns and prompts are those of games of the solver, counted by the student's tokenizer; completions are
    taken to be as long as they may be.
    """
    secrets = list(chain(*secrets_of(split, config).values()))
    sample = draw_secrets(split.train, min(PLANNED, len(split.train)), config.seed)
    histories = [
        history_of(game)[:number]
        for game in traces(Solver(words, rules), sample, config.seed)
        for number in range(len(game["turns"]))
    ]
    chats = [messages(history, rules) for history in histories]
    games = len(secrets) * config.teacher_games
    turns = games * len(histories) / len(sample)
    prompt_tokens = turns * sum(count_tokens(chats)) / len(chats)
    completion_tokens = turns * config.max_completion_length
    shown = [f"{chat[0]['content']}\n{chat[-1]['content']}" for chat in chats[:SHOWN]]
    dollars = cost(prompt_tokens, completion_tokens, config)
    return "\n\n".join(
        [
            *shown,
            f"{games:,} games of {len(secrets):,} secrets: about {turns:,.0f} requests, {prompt_tokens:,.0f} "
            f"prompt tokens and at most {completion_tokens:,.0f} completion tokens, {dollars:,.2f} dollars",
        ]
    )


def teach(
    run: Run,
    words: Words,
    rules: Rules,
    split: Split,
    count_tokens: Callable[[list[Chat]], list[int]],
) -> Taught | None:
    """Print the plan and, unless it is a dry run (None), let the model of the parameters play, and choose
    what is worth learning.

    Writes `teacher/` (see the module), `teacher.csv` (one secret a row), and the secrets that were won at
    least once and never as `teacher_won.txt` and `teacher_lost.txt`. Raises ValueError when no
    game of a training secret is worth learning; else as `endpoints.connect` and `play` do.
    """
    config = run.config
    print(plan(words, rules, split, config, count_tokens))
    if config.dry_run:
        print("\nA dry run ends here, and nothing was asked: set dry_run=False to let the model play.")
        return None
    limits = (config.concurrency, config.timeout, config.requests_per_minute)
    endpoint = connect(config.endpoint, config.teacher_model, *limits)
    secrets = secrets_of(split, config)
    games = play(
        run.dir / FOLDER,
        endpoint,
        list(chain(*secrets.values())),
        words,
        rules,
        games=config.teacher_games,
        seed=config.seed,
        max_completion_length=config.max_completion_length,
        temperature=config.temperature,
    )
    taught = choose(games, secrets, rules, config.keep_games, run.dir)
    answers = answers_of(run.dir / FOLDER)
    used = {**usage(answers), "failures": failures(answers)}
    if None not in (used["prompt_tokens"], used["completion_tokens"]):
        used["dollars"] = cost(used["prompt_tokens"], used["completion_tokens"], config)
    return taught._replace(about={"model": config.teacher_model, **taught.about, **used})


def write_summary(folder: Path, name: str, table: Sequence[tuple]) -> None:
    """Write rows of `COLUMNS` (dropped: a Counter of reasons) as `<name>.csv`, and the secrets that were won
    at least once and never as `<name>_won.txt` and `<name>_lost.txt`."""
    with (
        replacing(folder / f"{name}.csv") as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as file,
    ):
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for *line, dropped in table:
            rows.writerow([*line, "; ".join(f"{reason}: {n}" for reason, n in sorted(dropped.items()))])
    for ending, wanted in (("won", True), ("lost", False)):
        chosen = [secret for secret, _, _, won, *_ in table if bool(won) == wanted]
        write_text(folder / f"{name}_{ending}.txt", "".join(f"{secret}\n" for secret in chosen))


def choose(
    games: dict[str, list[Record]], secrets: dict[str, list[str]], rules: Rules, keep: int, folder: Path
) -> Taught:
    """The rows of the games worth learning; writes the summary by secret into `folder`."""
    rows, dropped, table = {name: [] for name in PART_FILES.values()}, Counter(), []
    for part, played in secrets.items():
        for secret in played:
            of_secret = games.get(secret, [])
            kept, why = select(of_secret, keep, rules)
            rows[PART_FILES[part]] += [row for game in kept for row in rows_of(game, rules)]
            dropped.update(why)
            won = [game["n_guesses"] for game in of_secret if game["won"]]
            table.append((secret, part, len(of_secret), len(won), len(kept), min(won, default=None), why))
    write_summary(folder, "teacher", table)
    if not rows["sft"]:
        why = ", ".join(f"{reason}: {n}" for reason, n in sorted(dropped.items()))
        raise ValueError(f"no game of the teacher is worth learning ({why or 'none was played'})")
    about = {
        "games": sum(map(len, games.values())),
        "games_won": sum(line[3] for line in table),
        "games_kept": sum(line[4] for line in table),
        "secrets_won": sum(bool(line[3]) for line in table),
        "secrets": len(table),
        "dropped": dict(sorted(dropped.items())),
        "false_statements": sum(map(stated_false, chain(*games.values()))),
    }
    return Taught(rows, list(chain(*games.values())), about)
