"""Players: a batch of histories in, a batch of completion texts out. No player sees a secret."""

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wordlelib import params
from wordlelib.game import History
from wordlelib.prompts import completion, messages, with_form
from wordlelib.rules import Rules, require_same_rules, require_wordle, rules_for
from wordlelib.runs import Run, read_yaml, shown_path
from wordlelib.solver import POLICIES, Solver
from wordlelib.words import Words, load_words

# (histories, one seed a game) -> one raw completion text a history. The seed of a game stays the
# same over its turns; `len(history)` tells them apart.
Player = Callable[[list[History], list[int]], list[str]]

# The reason of a turn for which a player got no text, beside those of the parser
FAILED = "failed"


class Failed(str):
    """What a player returns in place of a text that it could not get: why, in words. No guess is read from
    it."""


# (token ids of prompts, one seed a prompt) -> token ids of one completion a prompt, with the end token
# where the model wrote one.
Generator = Callable[[list[list[int]], list[int]], list[list[int]]]

# Qwen3's template writes an empty thinking block when told not to think; others ignore the option.
TEMPLATE_OPTIONS = {"enable_thinking": False}


def solver_player(solver: Solver, policy_name: str) -> Player:
    """A player that follows a policy of `solver.POLICIES` and answers as a model would.

    Its text is `<think>W O R D</think><guess>word</guess>`, its thinking as the rules have it. A policy
    that draws lots uses a generator of its own for each game and turn, so a game does not depend on its
    batch. Raises ValueError for an unknown policy.
    """
    if policy_name not in POLICIES:
        raise ValueError(f"no policy {policy_name!r}; the policies are {', '.join(POLICIES)}")
    policy = POLICIES[policy_name]

    def play(histories: list[History], seeds: list[int]) -> list[str]:
        texts = []
        for history, seed in zip(histories, seeds, strict=True):
            word = policy(solver, history, random.Random(f"{seed}/{len(history)}"))
            texts.append(completion([word], word, solver.rules.thinking))
        return texts

    return play


def model_player(
    generate: Generator,
    tokenizer: Any,
    rules: Rules,
    tokens: Counter[str] | None = None,
    taught: bool = True,
) -> Player:
    """A player that asks a language model: histories become prompts, completions plain text.

    tokens: where `prompt_tokens` and `completion_tokens` are added up, those of each game, though greedy
    decoding answers equal prompts once. taught: the form of an answer, by SFT; else each prompt says it.
    """

    def play(histories: list[History], seeds: list[int]) -> list[str]:
        chats = [messages(history, rules) for history in histories]
        ids = prompt_ids(tokenizer, chats if taught else [with_form(chat, rules) for chat in chats])
        completions = generate(ids, turn_seeds(histories, seeds))
        if tokens is not None:
            tokens.update(prompt_tokens=sum(map(len, ids)), completion_tokens=sum(map(len, completions)))
        return tokenizer.batch_decode(completions, skip_special_tokens=True)

    return play


def answers(
    generate: Generator, tokenizer: Any, chats: Sequence[list[dict[str, str]]], seeds: list[int]
) -> list[str]:
    """What a model writes to chats that are no states of a game, as plain text."""
    if not chats:
        return []  # no template takes none
    return tokenizer.batch_decode(generate(prompt_ids(tokenizer, chats), seeds), skip_special_tokens=True)


def endpoint_player(
    ask: Callable[[list[list[dict[str, str]]], list[int]], list[Any]], rules: Rules
) -> Player:
    """A player that asks a model behind a server through `ask` (`endpoints.completer`).

    A request that fails, fails its game: nothing more is asked there, and each turn left has no guess.
    """

    def play(histories: list[History], seeds: list[int]) -> list[str]:
        texts = [
            Failed(history[-1].text) if history and history[-1].reason == FAILED else None
            for history in histories
        ]
        asked = [place for place, text in enumerate(texts) if text is None]
        chats = [messages(histories[place], rules) for place in asked]
        own_seeds = turn_seeds([histories[place] for place in asked], [seeds[place] for place in asked])
        for place, answer in zip(asked, ask(chats, own_seeds), strict=True):
            texts[place] = Failed(answer.failure) if answer.text is None else answer.text
        return texts

    return play


def turn_seeds(histories: Sequence[History], seeds: Sequence[int]) -> list[int]:
    """The seed (32 bits) of each game's next turn, from the seed of the game."""
    return [
        random.Random(f"{seed}/{len(history)}").getrandbits(32)
        for seed, history in zip(seeds, histories, strict=True)
    ]


def transformers_generator(
    model: Any,
    tokenizer: Any,
    max_completion_length: int = 128,
    temperature: float = 0.0,
    batch_size: int = 256,
) -> Generator:
    """Generation with a transformers model; temperature 0 decodes greedily.

    Prompts are padded on the left, whatever side the tokenizer was left on, and the model is set
    back to training if it was. Greedy decoding answers equal prompts once, and prompts of like length
    together: all games begin with the same state, and many share the second. Sampling draws from a generator
    state made from the seeds of the batch.
    Raises ValueError when a prompt and the longest completion do not fit the model: nothing is cut.
    """
    import torch

    limit = getattr(model.config, "max_position_embeddings", None)
    ends = model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])

    def complete(ids: list[list[int]], seed: int) -> list[list[int]]:
        longest = max(map(len, ids))
        if limit and longest + max_completion_length > limit:
            raise ValueError(
                f"a prompt of {longest} tokens and a completion of up to {max_completion_length} do not fit "
                f"the model's {limit}: lower max_completion_length or use a shorter state"
            )
        padded = [[tokenizer.pad_token_id] * (longest - len(row)) + row for row in ids]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in ids]
        torch.manual_seed(seed)
        output = model.generate(
            input_ids=torch.tensor(padded, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            max_new_tokens=max_completion_length,
            do_sample=temperature > 0,
            **({"temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature > 0 else {}),
            repetition_penalty=1.0,  # some models ship with more, and letters must repeat
            pad_token_id=tokenizer.pad_token_id,
        )
        return [_up_to_end(row, ends) for row in output[:, longest:].tolist()]

    def generate(ids: list[list[int]], seeds: list[int]) -> list[list[int]]:
        if temperature > 0:
            return complete_all(ids, seeds)
        distinct = sorted({tuple(row) for row in ids}, key=lambda row: (len(row), row))
        answers = dict(zip(distinct, complete_all([*map(list, distinct)], [0] * len(distinct)), strict=True))
        return [answers[tuple(row)] for row in ids]

    def complete_all(ids: list[list[int]], seeds: list[int]) -> list[list[int]]:
        training = model.training
        model.eval()
        completions: list[list[int]] = []
        # the generator of a training run goes on as if no game had been played
        with torch.no_grad(), torch.random.fork_rng():
            for start in range(0, len(ids), batch_size):
                part = slice(start, start + batch_size)
                completions += complete(ids[part], random.Random(f"{seeds[part]}").getrandbits(63))
        model.train(training)
        return completions

    return generate


def _up_to_end(ids: list[int], ends: set[int]) -> list[int]:
    """`ids` up to and with the first end token; what follows it in a batch is padding."""
    return ids[: next((n for n, token in enumerate(ids, 1) if token in ends), len(ids))]


def vllm_generator(
    engine: Any,
    max_completion_length: int = 128,
    temperature: float = 0.0,
    adapter: Callable[[], Any] = lambda: None,
) -> Generator:
    """Generation with a vLLM engine, which batches by itself; a sample depends on its own seed alone.

    `adapter` is called before each batch and gives the LoRA request of the weights to use, None for
    the engine's own.
    """
    from vllm import SamplingParams

    def generate(ids: list[list[int]], seeds: list[int]) -> list[list[int]]:
        sampling = [
            SamplingParams(
                temperature=temperature, max_tokens=max_completion_length, seed=seed, detokenize=False
            )
            for seed in seeds
        ]
        prompts = [{"prompt_token_ids": row} for row in ids]
        outputs = engine.generate(prompts, sampling, use_tqdm=False, lora_request=adapter())
        return [list(output.outputs[0].token_ids) for output in outputs]

    return generate


def policy_generator(
    model: Any, tokenizer: Any, max_completion_length: int, temperature: float = 0.0
) -> Generator:
    """Generation with the present weights of a model in training, by its engine when it has one."""
    engine = getattr(model, "vllm_engine", None)
    if engine is None:
        return transformers_generator(model, tokenizer, max_completion_length, temperature)
    # The adapter goes over in memory; the folder gets its configuration only, and is this run's own.
    folder = tempfile.TemporaryDirectory()
    return vllm_generator(
        engine,
        max_completion_length,
        temperature,
        lambda: model.load_lora(folder.name, load_tensors=True),
    )


def prompt_ids(tokenizer: Any, chats: Sequence[list[dict[str, str]]]) -> list[list[int]]:
    """Token ids of each chat up to where the model's turn begins: the same in training and in play."""
    return tokenizer.apply_chat_template(
        list(chats), add_generation_prompt=True, tokenize=True, return_dict=True, **TEMPLATE_OPTIONS
    )["input_ids"]


PROMPT_ROOM = 2048  # tokens of an engine for the prompts of a model whose training is unknown
ANSWERS = "answers.jsonl"  # what a server said, in the stage's folder
MODEL_FOLDERS = {
    "sft": "02_sft/model",
    "sft_continued": "03_grpo/control/model",
    "grpo": "03_grpo/model",
}


def run_player(
    name: str,
    run: Run,
    solver: Solver,
    config: Any,
    engines: dict[str, Any],
    tokens: Counter[str] | None = None,
) -> Player:
    """A player of a run by its name: a model that the run trained, its untrained start, the embedded student,
    a model in a folder of its own (`model`), one behind an endpoint, or a policy.

    config: backend, engine_memory, max_completion_length, temperature, batch_size; for `model` also model;
    for `endpoint` endpoint, model, concurrency, timeout, requests_per_minute. `engines` holds the
    vLLM engine that is up, by its base model: players of one base share it, another takes its place.
    Begin with an empty one. tokens: as for `model_player`.
    Raises ValueError or FileNotFoundError naming the notebook to run first when the model is not there, and
    as `endpoints.connect` does.
    """
    from wordlelib import endpoints, models

    if name in POLICIES:
        return solver_player(solver, name)
    if name == models.EMBEDDED:
        _, rules = saved_game(name)
        require_same_rules(rules, solver.rules, f"the embedded student and {shown_path(run.dir)}")
        return saved_player(name, rules, config.max_completion_length, config.temperature, tokens)
    if name == "endpoint":
        length, temperature = config.max_completion_length, config.temperature
        limits = (config.concurrency, config.timeout, config.requests_per_minute)
        server = endpoints.connect(config.endpoint, config.model, *limits)
        ask = endpoints.completer(server, run.dir / ANSWERS, length, temperature)
        return endpoint_player(ask, solver.rules)
    if name == "model":
        folder, largest, seed, max_length = config.model, config.model, config.seed, PROMPT_ROOM
    else:
        folder = None if name == "untrained" else _model_folder(name, run)
        trained = SimpleNamespace(**read_yaml(run.input("02_sft") / "config.yaml"))
        params.check_stages({"02_sft": vars(trained), run.stage: vars(config)})
        folder = folder or trained.model
        models.require_base(folder, trained.model)
        largest, seed, max_length = run.input("02_sft") / "model", trained.seed, trained.max_length
    length, temperature = config.max_completion_length, config.temperature
    if config.backend == "vllm":
        longest = longest_sequence(solver.rules, max_length, length)
        engine, adapter = _engine_for(folder, largest, longest, config, engines)
        generate = vllm_generator(engine, length, temperature, lambda: adapter)
        tokenizer = models.load_tokenizer(folder, solver.rules)
    else:
        model, tokenizer = models.load(folder, solver.rules, seed)
        generate = transformers_generator(model, tokenizer, length, temperature, config.batch_size)
    return model_player(generate, tokenizer, solver.rules, tokens, taught=name != "untrained")


def saved_game(model: str) -> tuple[Words, Rules]:
    """Words and rules that a saved model plays: of the data card in its folder, as exports have it, or of the
    run that the folder lies in, else the shipped ones.

    Raises ValueError for a model of another game than Wordle.
    """
    from wordlelib import data, models

    if made := data.card_of(models.existing(model) if model == models.EMBEDDED else model):
        source = data.load(made)
        require_wordle(source.rules, "a single game")
        return source.words, source.rules
    words = load_words()
    return words, rules_for(words)


def saved_player(
    model: str,
    rules: Rules,
    max_completion_length: int = 64,
    temperature: float = 0.0,
    tokens: Counter[str] | None = None,
) -> Player:
    """A saved model (folder, hub name or `embedded`) as a player; raises as `models.load` does. tokens: as
    for `model_player`."""
    from wordlelib import models

    folder = Path(model)
    loaded, tokenizer = models.load(folder.resolve() if folder.is_dir() else model, rules)
    generate = transformers_generator(loaded, tokenizer, max_completion_length, temperature)
    return model_player(generate, tokenizer, rules, tokens)


def embedded_player() -> Player:
    """The embedded student, loaded when it first plays: who only looks on needs no torch.

    It is asked as it was trained, whatever the game around it.
    """

    @lru_cache(maxsize=1)
    def loaded() -> Player:
        from wordlelib import models

        return saved_player(models.EMBEDDED, saved_game(models.EMBEDDED)[1])

    return lambda histories, seeds: loaded()(histories, seeds)


def token_metrics(tokens: Mapping[str, Mapping[str, int]], games: int) -> dict[str, float]:
    """Tokens of a game of each player that counted them, keys `<player>/prompt_tokens_per_game` and
    `<player>/completion_tokens_per_game`; `games`: how many each played."""
    return {
        f"{player}/{name}_per_game": count / games
        for player, own in tokens.items()
        for name, count in own.items()
    }


def endpoint_metrics(run: Run, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the games of the player `endpoint` took, keys `endpoint/<metric>`; empty when it did not play.

    model; failed_games; `endpoints.usage`; and a game: prompt_tokens_per_game, completion_tokens_per_game,
    seconds_per_game (of its requests one after the other, whatever ran beside them).
    """
    from wordlelib import endpoints

    games = [record for record in records if record["player"] == "endpoint"]
    if not games:
        return {}
    used = endpoints.usage(endpoints.read_answers(run.dir / ANSWERS))
    metrics = {
        "model": run.config.model,
        "failed_games": sum(record["turns"][-1]["reason"] == FAILED for record in games),
        **used,
    }
    for name, total in (
        ("prompt_tokens", used["prompt_tokens"]),
        ("completion_tokens", used["completion_tokens"]),
        ("seconds", used["request_seconds"]),
    ):
        metrics[f"{name}_per_game"] = None if total is None else total / len(games)
    return {f"endpoint/{name}": value for name, value in metrics.items()}


def _engine_for(
    folder: str | Path, largest: str | Path, longest: int, config: Any, engines: dict[str, Any]
) -> tuple[Any, Any]:
    """The engine for the model in `folder`, and the request for its adapter (None without one).

    largest: the model whose adapter has the highest rank of those that it will serve. longest: tokens of a
    game at once. The engine of another base is stopped first: a player may still hold it, and the GPU has no
    room for two.
    """
    from wordlelib import models

    base, rank = models.adapter_base(models.existing(folder))
    if base not in engines:
        while engines:
            models.stop_engine(engines.popitem()[1])
        most = models.adapter_base(models.existing(largest))[1]
        engines[base] = models.load_engine(base, most, config.engine_memory, longest)
    return engines[base], models.adapter_request(folder) if rank else None


def longest_sequence(rules: Rules, max_length: int, max_completion_length: int) -> int:
    """Tokens that a game may need at once, after an SFT on rows of up to `max_length`.

    In a growing chat every turn may take its longest completion.
    """
    own_turns = rules.turns if rules.history == "chat" else 1
    return max_length + own_turns * max_completion_length


def _model_folder(name: str, run: Run) -> Path:
    stage, _, place = MODEL_FOLDERS[name].partition("/")
    folder = run.input(stage) / place
    if not folder.is_dir():
        raise ValueError(
            f"{run.stage}: player {name!r} has no model in {shown_path(folder)}: leave it out of "
            f"players, or run notebook {stage} so that it makes one (sft_continued: control=True)"
        )
    return folder
