"""Players: a batch of histories in, a batch of completion texts out. No player sees a secret."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from wordlelib.game import History
from wordlelib.prompts import completion, messages
from wordlelib.rules import Rules
from wordlelib.runs import Run, read_yaml, shown_path
from wordlelib.solver import POLICIES, Solver

# (histories, one seed a game) -> one raw completion text a history. The seed of a game stays the
# same over its turns; `len(history)` tells them apart.
Player = Callable[[list[History], list[int]], list[str]]

# Qwen3's template writes an empty thinking block when told not to think; others ignore the option.
TEMPLATE_OPTIONS = {"enable_thinking": False}


def solver_player(solver: Solver, policy_name: str) -> Player:
    """A player that follows a policy of `solver.POLICIES` and answers as a model would.

    Its text is `<think>W O R D</think><guess>word</guess>`. A policy that draws lots uses a
    generator of its own for each game and turn, so a game does not depend on its batch. Raises
    ValueError for an unknown policy.
    """
    if policy_name not in POLICIES:
        raise ValueError(f"no policy {policy_name!r}; the policies are {', '.join(POLICIES)}")
    policy = POLICIES[policy_name]

    def play(histories: list[History], seeds: list[int]) -> list[str]:
        texts = []
        for history, seed in zip(histories, seeds, strict=True):
            word = policy(solver, history, random.Random(f"{seed}/{len(history)}"))
            texts.append(completion([word], word))
        return texts

    return play


def transformers_player(
    model: Any,
    tokenizer: Any,
    rules: Rules,
    max_completion_length: int = 128,
    temperature: float = 0.0,
    batch_size: int = 256,
) -> Player:
    """A player that generates with a transformers model; temperature 0 decodes greedily.

    Prompts are padded on the left, whatever side the tokenizer was left on, and the model is set
    back to training if it was. Sampling draws from a generator state made from the seeds of the batch.
    Raises ValueError when a prompt and the longest completion do not fit the model: nothing is cut.
    """
    import torch

    limit = getattr(model.config, "max_position_embeddings", None)

    def generate(ids: list[list[int]], seed: int) -> list[str]:
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
            pad_token_id=tokenizer.pad_token_id,
        )
        return tokenizer.batch_decode(output[:, longest:], skip_special_tokens=True)

    def play(histories: list[History], seeds: list[int]) -> list[str]:
        ids = prompt_ids(tokenizer, [messages(history, rules) for history in histories])
        training = model.training
        model.eval()
        texts: list[str] = []
        # the generator of a training run goes on as if no game had been played
        with torch.no_grad(), torch.random.fork_rng():
            for start in range(0, len(ids), batch_size):
                part = slice(start, start + batch_size)
                seed = random.Random(f"{seeds[part]}/{len(histories[start])}").getrandbits(63)
                texts += generate(ids[part], seed)
        model.train(training)
        return texts

    return play


def prompt_ids(tokenizer: Any, chats: Sequence[list[dict[str, str]]]) -> list[list[int]]:
    """Token ids of each chat up to where the model's turn begins: the same in training and in play."""
    return tokenizer.apply_chat_template(
        list(chats), add_generation_prompt=True, tokenize=True, return_dict=True, **TEMPLATE_OPTIONS
    )["input_ids"]


MODEL_FOLDERS = {
    "sft": "02_sft/model",
    "sft_continued": "03_grpo/control/model",
    "grpo": "03_grpo/model",
}


def run_player(name: str, run: Run, solver: Solver, config: Any) -> Player:
    """A player of a run by its name: a model that the run trained, its untrained start, or a policy.

    config: max_completion_length, temperature, batch_size. Raises ValueError or FileNotFoundError
    naming the notebook to run first when the model is not there.
    """
    from wordlelib import models

    if name in POLICIES:
        return solver_player(solver, name)
    if name == "untrained":
        start = read_yaml(run.input("02_sft") / "config.yaml")
        model, tokenizer = models.load(start["model"], solver.rules, start["seed"])
    else:
        stage, _, place = MODEL_FOLDERS[name].partition("/")
        folder = run.input(stage) / place
        if not folder.is_dir():
            raise ValueError(
                f"{run.stage}: player {name!r} has no model in {shown_path(folder)}: leave it out of "
                f"players, or run notebook {stage} so that it makes one (sft_continued: control=True)"
            )
        model, tokenizer = models.load(folder, solver.rules)
    return transformers_player(
        model, tokenizer, solver.rules, config.max_completion_length, config.temperature, config.batch_size
    )
