"""What `test_gpu.py` runs in processes of their own, since a process holds one engine.

`python -m tests.gpu_checks NAME RUN OUT` writes what it measured to OUT as JSON.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wordlelib import data, export, models, players, runs, training
from wordlelib.solver import Solver

ASKED = 0.3  # share of the GPU's memory for the engine
LENGTH = 64  # tokens of a completion


def _prompts(source: data.Data, tokenizer: Any, n: int = 64) -> list[list[int]]:
    return players.prompt_ids(tokenizer, [row["prompt"] for row in source.rows("sft_val")[:n]])


def engine_follows(run: Path, out: Path) -> dict[str, Any]:
    """Greedy answers of the engine and of transformers before and after a few large GRPO steps."""
    import torch

    source = data.load(run / "01_data_synthesis")
    sft = SimpleNamespace(**runs.read_yaml(run / "02_sft" / "config.yaml"))
    sft.max_length += LENGTH
    models.use_backend(sft.backend)
    free, total = torch.cuda.mem_get_info()
    model, tokenizer = models.load_policy(run / "02_sft" / "model", source.rules, sft, ASKED)
    taken = (free - torch.cuda.mem_get_info()[0]) / total
    prompts = _prompts(source, tokenizer)

    def compare() -> tuple[dict[str, Any], list[list[int]]]:
        engine = players.policy_generator(model, tokenizer, LENGTH)
        plain = players.transformers_generator(model, tokenizer, LENGTH)
        agreement = export.answers_agree(engine, plain, prompts, model)
        return agreement._asdict(), engine(prompts, [0] * len(prompts))

    before, first = compare()
    config = SimpleNamespace(
        **{name: value for name, value in vars(sft).items() if name not in ("max_minutes", "batch_size")},
    )
    vars(config).update(
        unit="turn", batch_size=128, micro_batch_size=64, group_size=8, max_steps=3, max_minutes=0,
        learning_rate=3e-4, warmup_steps=0, states="fixed", refresh_every=10, clues=0.0, mistakes_first=False,
        preset="ours", schedule="fixed", temperature=1.0, max_completion_length=LENGTH, beta=0.0, epsilon=0.2,
        save_every=100,
    )  # fmt: skip
    folder = out.with_suffix("")
    folder.mkdir()
    solver = Solver(source.training_words, source.rules)
    training.grpo(
        model, tokenizer, source.rows("states"), source.split.train, solver, config,
        runs.Run("03_grpo", config, folder, resumed=False),
    )  # fmt: skip
    after, second = compare()
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    return {
        "before": before,
        "after": after,
        "answers_changed": sum(a != b for a, b in zip(first, second, strict=True)) / len(first),
        "adapters": list(model.peft_config),
        "only_adapter_trained": all("lora_" in name for name in trained),
        "zero_matrices": sum(not v.any().item() for n, v in model.named_parameters() if "lora_" in n),
        "taken": taken,
        "log": runs.read_log(folder / "log.jsonl"),
    }


def player_agrees(run: Path, out: Path) -> dict[str, Any]:
    """Greedy answers of 04's engine and of the transformers player to 64 states."""
    source = data.load(run / "01_data_synthesis")
    folder = run / "02_sft" / "model"
    models.use_backend("vllm")
    base, rank = models.adapter_base(folder)
    engine = models.load_engine(base, rank, ASKED, 400)
    adapter = models.adapter_request(folder)
    model, tokenizer = models.load(folder, source.rules)
    return export.answers_agree(
        players.vllm_generator(engine, LENGTH, adapter=lambda: adapter),
        players.transformers_generator(model, tokenizer, LENGTH),
        _prompts(source, tokenizer),
        model,
    )._asdict()


if __name__ == "__main__":
    name, run, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    runs.write_json(out, {"engine_follows": engine_follows, "player_agrees": player_agrees}[name](run, out))
