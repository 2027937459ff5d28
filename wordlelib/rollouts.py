"""Whole games as GRPO rollouts (`unit: game`), played by the policy inside TRL's `rollout_func`.

A row is a training secret, and all rollouts of a group play it. What is trained are the very tokens
that were generated: nothing is rendered or tokenized a second time.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, singledispatch
from itertools import count, pairwise
from typing import Any, NamedTuple

from wordlelib import rewards
from wordlelib.evaluate import game_seed, play_games
from wordlelib.game import PRESENT, History, Turn, score
from wordlelib.players import TEMPLATE_OPTIONS, Generator, Player, prompt_ids, turn_seeds
from wordlelib.prompts import completion, messages
from wordlelib.rules import Rules
from wordlelib.words import Words, alphabet_letters

Row = dict[str, Any]


class Move(NamedTuple):
    """The token ids of one turn: all that the model read, and what it wrote (with its end token, if any)."""

    prompt: list[int]
    completion: list[int]


def secret_rows(secrets: Sequence[str], rules: Rules, seed: int) -> Callable[[int], Row]:
    """Row i of the GRPO data, the same whenever it is asked for: the secrets in a new order each epoch.

    The prompt is the chat before the first guess. Its last message carries the key `secret`: of a row
    only the prompt reaches `rollout_func`, and chat templates read no other keys than role and content.
    """
    chat = messages((), rules)

    @lru_cache(maxsize=1)
    def epoch(k: int) -> list[str]:
        return random.Random(f"secrets/{seed}/{k}").sample(secrets, len(secrets))

    def row(i: int) -> Row:
        k, place = divmod(i, len(secrets))
        return {"prompt": [*chat[:-1], chat[-1] | {"secret": epoch(k)[place]}]}

    return row


def make_rollout_func(
    generate: Generator,
    tokenizer: Any,
    words: Words,
    rules: Rules,
    *,
    seed: int,
    max_completion_length: int,
    limit: int | None = None,
) -> Callable[[list[list[dict[str, str]]], Any], Row]:
    """TRL's `rollout_func(prompts, trainer)`: plays one game a prompt, and returns one value a game.

    `prompt_ids`, `completion_ids`, and `env_mask` of a completion's length: 1 for a token of the model,
    0 for one of the environment. Under `history: fresh` that is one turn, drawn uniformly from the game;
    under `chat` the whole conversation. `logprobs` is None: TRL scores the tokens itself. For the
    rewards: `record`, the finished game, and `text`, what the model wrote in the drawn turn.

    Games depend on `seed`, the trainer's step and the policy alone. limit: tokens that the model can
    read. Raises ValueError before any game when a conversation cannot be trained (`reply_frame`) or
    could grow past `limit`: nothing is cut.
    """
    if rules.history == "chat":
        _require_room(tokenizer, rules, max_completion_length, limit)

    def rollout_func(prompts: list[list[dict[str, str]]], trainer: Any) -> Row:
        secrets = [prompt[-1]["secret"] for prompt in prompts]
        moves: dict[int, list[Move]] = defaultdict(list)
        player = recording_player(generate, tokenizer, rules, moves)
        run_seed = _run_seed(seed, trainer.state.global_step, len(secrets))
        records = play_games(player, secrets, words, rules, name="policy", seed=run_seed)
        games = [moves[record["seed"]] for record in records]
        drawn = [random.Random(f"turn/{record['seed']}").randrange(record["n_guesses"]) for record in records]
        chat = rules.history == "chat"
        trained = [game if chat else [game[n]] for game, n in zip(games, drawn, strict=True)]
        prompt, answer, mask = zip(*map(conversation, trained), strict=True)
        return {
            "prompt_ids": list(prompt),
            "completion_ids": list(answer),
            "env_mask": list(mask),
            "logprobs": None,
            "record": records,
            "text": [record["turns"][n]["text"] for record, n in zip(records, drawn, strict=True)],
        }

    return rollout_func


def _run_seed(seed: int, step: int, games: int) -> int:
    """A seed of the step whose games have different seeds of their own.

    A game is known by its seed, and two games of one seed would be one sample counted twice.
    """
    start = random.Random(f"rollouts/{seed}/{step}").getrandbits(32)
    return next(s for s in count(start) if len({game_seed(s, i) for i in range(games)}) == games)


def recording_player(
    generate: Generator, tokenizer: Any, rules: Rules, moves: Mapping[int, list[Move]]
) -> Player:
    """As `players.model_player`, but appends each turn to `moves[seed of the game]`.

    In a growing chat the next prompt is the last one, the completion as it was generated, and the
    environment's message. So no text of the model is ever tokenized again: it cannot come back as other
    tokens than it was, and role names in it stay plain text.
    """
    frame = reply_frame(tokenizer, rules) if rules.history == "chat" else ("", "")

    def prompts(histories: list[History], seeds: list[int]) -> list[list[int]]:
        chats = [messages(history, rules) for history in histories]
        if rules.history == "fresh" or not any(histories):
            return prompt_ids(tokenizer, chats)
        replies = _reply_ids(tokenizer, frame, [chat[-1]["content"] for chat in chats])
        return [_grown(moves[seed][-1], reply) for seed, reply in zip(seeds, replies, strict=True)]

    def play(histories: list[History], seeds: list[int]) -> list[str]:
        read = prompts(histories, seeds)
        written = generate(read, turn_seeds(histories, seeds))
        for seed, *move in zip(seeds, read, written, strict=True):
            moves[seed].append(Move(*move))
        return tokenizer.batch_decode(written, skip_special_tokens=True)

    return play


def _grown(move: Move, reply: list[int]) -> list[int]:
    """The next prompt. A reply begins with the end of the model's turn, which a cut completion lacks."""
    ended = move.completion[-1] == reply[0]
    return move.prompt + move.completion + reply[ended:]


def _reply_ids(tokenizer: Any, frame: tuple[str, str], replies: Sequence[str]) -> list[list[int]]:
    start, end = frame
    return tokenizer([start + reply + end for reply in replies], add_special_tokens=False)["input_ids"]


def reply_frame(tokenizer: Any, rules: Rules) -> tuple[str, str]:
    """What the chat template puts around the environment's message between two turns of the model.

    From the end of the model's turn to the start of its next. Raises ValueError unless each longer chat
    is the shorter one, the model's text and a message in this frame: a template that shows earlier turns
    otherwise than they were written (Qwen3 drops their thinking) has no one sequence of tokens to train.
    """
    history = _stand_in(rules)
    chats = [messages(history[:n], rules) for n in range(rules.turns)]
    shown = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, tokenize=False, **TEMPLATE_OPTIONS
    )
    frames = set()
    for (before, after), (*_, answer, reply) in zip(pairwise(shown), chats[1:], strict=True):
        head = before + answer["content"]
        start, message, end = after[len(head) :].partition(reply["content"])
        frames.add((start, end) if after.startswith(head) and message else None)
    if None in frames or len(frames) > 1:
        raise ValueError(
            "the chat template of this model rewrites earlier turns, so a conversation is no one sequence "
            "of tokens that could be trained: use history: fresh"
        )
    return frames.pop() if frames else ("", "")


def _stand_in(rules: Rules) -> History:
    """All turns before the last one of a game, each well formed and of one and the same word."""
    word = alphabet_letters(rules.alphabet)[0] * rules.length
    turn = Turn(word, PRESENT * rules.length, text=completion([word], word, rules.thinking))
    return (turn,) * (rules.turns - 1)


def _require_room(tokenizer: Any, rules: Rules, max_completion_length: int, limit: int | None) -> None:
    """Raise ValueError unless a game of full length, each completion at its longest, fits the model."""
    history = _stand_in(rules)
    replies = [messages(history[:n], rules)[-1]["content"] for n in range(1, rules.turns)]
    others = prompt_ids(tokenizer, [messages((), rules)])
    others += _reply_ids(tokenizer, reply_frame(tokenizer, rules), replies) if replies else []
    fixed = sum(map(len, others))
    longest = fixed + rules.turns * max_completion_length
    if limit and longest > limit:
        fitting = max(0, limit - fixed) // rules.turns
        raise ValueError(
            f"a conversation of {rules.turns} turns may take {longest} tokens, more than the "
            f"model's {limit}: use max_completion_length {fitting} or less, a longer max_length in 02_sft, "
            "or history: fresh"
        )


def conversation(moves: Sequence[Move]) -> tuple[list[int], list[int], list[int]]:
    """Prompt ids, completion ids and mask of turns whose prompts grow by each other.

    All that follows the first prompt is the completion; its mask is 1 where the model wrote, else 0.
    """
    start = len(moves[0].prompt)
    mask: list[int] = []
    for prompt, written in moves:
        mask += [0] * (len(prompt) - start - len(mask)) + [1] * len(written)
    ids = moves[-1].prompt + moves[-1].completion
    return ids[:start], ids[start:], mask


def reward_function(rules: Rules) -> rewards.Reward:
    """The TRL reward `game`: `rewards.game_reward` of the column `record`, one finished game a completion.

    Logs on the way `games_win_rate` (share of the games won), `games_turns` (mean number of turns) and
    `games_played`.
    """

    def game(
        completions: Sequence[Any],
        record: Sequence[Row],
        log_metric: Callable[[str, float], None],
        **columns: Any,
    ) -> list[float]:
        log_metric("games_win_rate", sum(played["won"] for played in record) / len(record))
        log_metric("games_turns", sum(played["n_guesses"] for played in record) / len(record))
        log_metric("games_played", len(record))
        return [rewards.game_reward(played, rules) for played in record]

    return rewards.checked(game)


@singledispatch
def example_games(words: Words, rules: Rules) -> list[Row]:
    """The reward of hand-made games, the best first: one row a game with its guesses and the reward."""
    secret, *others = words.answers[: rules.turns + 1]
    games = {
        "won at once": [secret],
        "won in the last turn": [*others[1:], secret],
        "lost, legal guesses": others,
        "lost, one word again and again": others[:1] * rules.turns,
        "lost, no guess was legal": [None] * rules.turns,
    }
    return [
        {
            "game": name,
            "secret": secret,
            "guesses": " ".join(guess or "–" for guess in guesses),
            "reward": rewards.game_reward(_record(secret, guesses), rules),
        }
        for name, guesses in games.items()
    ]


def _record(secret: str, guesses: Sequence[str | None]) -> Row:
    turns = [{"guess": guess, "feedback": guess and score(guess, secret)} for guess in guesses]
    return {"secret": secret, "turns": turns}
