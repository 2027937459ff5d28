"""Training speed on one GPU: a plain loop, Unsloth as it comes, and this workbook, one after the other.

Each variant runs in a fresh process, since Unsloth patches what it finds and a vLLM engine never leaves a
process whole. SFT figures are medians over the logged rows of the second half, GRPO figures medians over
the steps after the third: what compiles and warms up comes before. Peak memory is that of the tensors of
one process, its engine's included (GiB of 2**30 bytes; resident memory where there is no GPU).
"""

import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wordlelib import data, models, plan, players, report, rewards, runs, teachers, training
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.words import split_secrets

Row = dict[str, Any]
Job = Mapping[str, Any]  # parameters of 02_sft and 03_grpo, folders, and when to stop: see `prepare`

SFT_STEPS, GRPO_STEPS = 40, 7
COMPILED_STEPS = 120  # of the workbook's SFT: as in a long training, the first fifty compile the model
WARM_STEPS = 3  # of GRPO, not counted
SFT_ROWS, GRPO_STATES = 5500, 600  # made when no data are given: enough for these steps
PLAIN_BATCH = 128  # rows at once of the plain loop: 256 do not fit 80 GB
DEFAULT_BATCH = 64  # rows at once of the variants with Unsloth's defaults
FULL_LEARNING_RATE = 1e-5  # all weights; that of an adapter would break them
SECONDS = {"sft": 180, "grpo": 360}  # limits of one variant, its start included
TRAINING_SHARE = 0.8  # of the limit, after which training ends by itself and is measured

# What the benchmark sets on top of the recipe: a short training that nothing interrupts.
CHANGES = {
    "02_sft": {"max_steps": SFT_STEPS, "warmup_steps": 5, "eval_every": 10_000, "save_every": 10_000},
    # without rounds of games and clues, which are no part of a step
    "03_grpo": {
        "max_steps": GRPO_STEPS,
        "states": "fixed",
        "clues": 0.0,
        "mistakes_first": False,
        "save_every": 10_000,
    },
}

# Dense bf16 FLOP/s with float32 sums, by the name that torch gives the card. From NVIDIA's data sheets of
# H100, H200, A100 and L4 (those that state sparse figures halved) and its Ada architecture paper (RTX
# 4090). A T4 has no bf16 units, so it has no peak either.
BF16_PEAKS = {
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H200": 989e12,
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA A100-PCIE-40GB": 312e12,
    "NVIDIA A100 80GB PCIe": 312e12,
    "NVIDIA L4": 121e12,
    "NVIDIA GeForce RTX 4090": 165e12,
}

COLUMNS = (  # header, key of a row, format
    ("tokens/s", "tokens_per_s", "{:,.0f}"),
    ("of bf16 peak", "peak_share", "{:.1%}"),
    ("s a step", "step_seconds", "{:.2f}"),
    ("generate", "generate_seconds", "{:.2f}"),
    ("of it sync", "sync_seconds", "{:.2f}"),
    ("reward", "reward_seconds", "{:.3f}"),
    ("update", "update_seconds", "{:.2f}"),
    ("tokens a completion", "completion_tokens", "{:.0f}"),
    ("peak GiB", "memory_gib", "{:.1f}"),
    ("steps", "steps", "{}"),
    ("all s", "seconds", "{:.0f}"),
    ("failed", "failed", "{}"),
)


# --- What is measured -------------------------------------------------------------------------------


def flop_per_token(shape: plan.Shape, lengths: Sequence[int], trained: int, rank: int = 0) -> float:
    """Floating-point operations that training needs per token of rows of `lengths` tokens.

    All weights (`rank` 0): 6N, two for the forward pass and four for the backward pass. An adapter of
    `rank` on frozen weights: 4N + 6A, since frozen weights need no gradient of their own. N: parameters
    of the linear layers and of the output projection, the latter times the share of `trained` tokens,
    which alone need it; the input embedding is a look-up. A: parameters of the adapter. Attention adds
    6 x layers x query width x row length (mean over tokens) either way, half of it being masked.
    Recomputation, padding and 4-bit decoding are not counted: they are a way of doing it.
    """
    tokens = sum(lengths)
    weights = shape.linear + shape.vocab * shape.hidden * trained / tokens
    attention = 6 * shape.layers * shape.query * sum(n * n for n in lengths) / tokens
    if rank:
        return 4 * weights + 6 * plan.adapter_parameters(shape, rank) + attention
    return 6 * weights + attention


def _middle(values: Iterable[float], what: str) -> float:
    found = list(values)
    if not found:
        raise TimeoutError(f"the time was up before {what}")
    return statistics.median(found)


def sft_figures(log: Sequence[Row], tokenized: Sequence[Row], job: Job, rank: int) -> Row:
    """Tokens per second (prompt and completion, padding not counted) and share of the card's bf16 peak.

    The share is None on a card whose peak is not known. Raises TimeoutError when no step was logged.
    """
    rows = [row for row in log if "tokens_per_s" in row]
    speed = _middle((row["tokens_per_s"] for row in rows[len(rows) // 2 :]), "the first logged step")
    peak, share = BF16_PEAKS.get(card()), None
    if peak and job["shape"]:
        lengths = [len(row["input_ids"]) for row in tokenized]
        trained = sum(label != training.IGNORED for row in tokenized for label in row["labels"])
        share = flop_per_token(plan.Shape(*job["shape"]), lengths, trained, rank) * speed / peak
    return {"tokens_per_s": speed, "peak_share": share, "steps": rows[-1]["step"]}


def grpo_figures(log: Sequence[Row]) -> Row:
    """Seconds of a step and of its parts, and tokens a completion; `sync` is a part of `generate`.

    Raises TimeoutError when the log ends with the steps that only warm up.
    """
    rows = [row for row in log if "step_seconds" in row and row["step"] > WARM_STEPS]

    def middle(value: Callable[[Row], float]) -> float:
        return _middle(map(value, rows), f"step {WARM_STEPS + 1}")

    parts = ("generate_seconds", "reward_seconds")
    return {
        "step_seconds": middle(lambda row: row["step_seconds"]),
        **{name: middle(lambda row, name=name: row[name]) for name in parts},
        "sync_seconds": middle(lambda row: row.get("sync_seconds", 0.0)),  # none without an engine
        "update_seconds": middle(lambda row: row["step_seconds"] - sum(row[name] for name in parts)),
        "completion_tokens": middle(lambda row: row["completions/mean_length"]),
        "steps": rows[-1]["step"],
    }


def card() -> str:
    """Name of the GPU, or `cpu`."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


# --- The variants, each called in a process of its own ----------------------------------------------


def _minutes_left(job: Job) -> float:
    return max((job["deadline"] - time.monotonic()) / 60, 0.01)  # 0 would mean no limit


def _tokenized(job: Job, rows: Sequence[Row]) -> list[Row]:
    tokenizer = models.load_tokenizer(job["02_sft"]["model"], data.load(job["data"]).rules)
    return training.tokenize(rows, tokenizer, job["02_sft"]["max_length"])


def sorted_batches(rows: Sequence[Row], size: int, pad: int) -> list[tuple[Any, Any, int]]:
    """Ids, labels and token counts: `size` rows of similar length each, padded right, in random order."""
    import torch

    ordered = sorted(rows, key=lambda row: len(row["input_ids"]))
    batches = []
    for start in range(0, len(ordered) - size + 1, size):
        part = ordered[start : start + size]
        longest = len(part[-1]["input_ids"])

        def filled(name: str, value: int, part=part, longest=longest) -> Any:
            return torch.tensor([row[name] + [value] * (longest - len(row[name])) for row in part])

        tokens = sum(len(row["input_ids"]) for row in part)
        batches.append((filled("input_ids", pad), filled("labels", training.IGNORED), tokens))
    random.Random(0).shuffle(batches)
    return batches


def plain_loop(model: Any, batches: Iterable[tuple[Any, Any, int]], deadline: float) -> list[Row]:
    """Train all weights without any trainer, up to `deadline` (time.monotonic); a log row a step.

    Logits are computed where there is a loss and nowhere else. Nothing attends to what is padded on the
    right, so no mask is needed.
    """
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.AdamW(model.parameters(), lr=FULL_LEARNING_RATE, weight_decay=0.0, fused=True)
    model.train()
    log: list[Row] = []
    start = time.monotonic()
    for ids, labels, tokens in batches:
        ids, targets = ids.to(model.device), labels[:, 1:].to(model.device)
        trained = targets != training.IGNORED
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][trained]
        loss = cross_entropy(model.lm_head(hidden).float(), targets[trained])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        row = {"step": len(log) + 1, "loss": loss.item()}  # waits for the GPU
        now = time.monotonic()
        log.append({**row, "tokens_per_s": tokens / (now - start)})
        if now > deadline:
            break
        start = now
    return log


def plain_sft(job: Job) -> Row:
    """The reference: a transformers model in bf16 and `plain_loop`."""
    config, source = SimpleNamespace(**job["02_sft"]), data.load(job["data"])
    model, tokenizer = models.load(config.model, source.rules, config.seed)
    tokenized = training.tokenize(data.read_jsonl(job["rows"]), tokenizer, config.max_length)
    batches = sorted_batches(tokenized, min(PLAIN_BATCH, config.batch_size), tokenizer.pad_token_id)
    return sft_figures(plain_loop(model, batches, job["deadline"]), tokenized, job, rank=0)


def _unsloth_model(job: Job, **options: Any) -> tuple[Any, Any]:
    """A model as Unsloth loads it, with an adapter of the recipe's rank.

    Only alpha is set besides: it gives trained adapter weights the scale that they were trained with.
    """
    from unsloth import FastLanguageModel

    config = SimpleNamespace(**job["02_sft"])
    model, tokenizer = FastLanguageModel.from_pretrained(
        models.existing(config.model), load_in_4bit=True, **options
    )
    model = FastLanguageModel.get_peft_model(
        model,
        r=config.lora_rank,
        lora_alpha=config.lora_rank,
        target_modules=models.LINEAR_LAYERS,
        use_gradient_checkpointing="unsloth",
    )
    return model, tokenizer


def _logging(job: Job, parts: dict[str, float] | None = None) -> tuple[runs.Run, Any]:
    """A folder for the log of a trainer that is not the workbook's, and the callback that writes it."""
    from wordlelib.callbacks import SkipNonFinite, StepLog

    run = runs.Run("bench", SimpleNamespace(), Path.cwd(), resumed=False)
    return run, StepLog(run, _minutes_left(job), SkipNonFinite(), parts=parts)


def unsloth_sft(job: Job) -> Row:
    """Unsloth's model and TRL's SFTTrainer with its defaults, but for the batch and the number of steps."""
    model, tokenizer = _unsloth_model(job)
    rows = data.read_jsonl(job["rows"])
    log = train_with_defaults(model, tokenizer, rows, job)
    return sft_figures(log, _tokenized(job, rows), job, rank=job["02_sft"]["lora_rank"])


def train_with_defaults(
    model: Any, tokenizer: Any, rows: Sequence[Row], job: Job, **options: Any
) -> list[Row]:
    """Train on prompt and completion rows by SFTTrainer; the log. Tokens are counted, which costs nothing."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    run, log = _logging(job)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir="checkpoints",
            per_device_train_batch_size=DEFAULT_BATCH,
            gradient_accumulation_steps=1,
            max_steps=job["02_sft"]["max_steps"],
            include_num_input_tokens_seen="non_padding",
            **options,
        ),
        train_dataset=Dataset.from_list(
            [{name: row[name] for name in ("prompt", "completion")} for row in rows]
        ),
        processing_class=tokenizer,
        callbacks=[log],
    )
    trainer.train()
    return runs.read_log(run.dir / "log.jsonl")


def workbook_sft(job: Job, adapter: str) -> Row:
    """What notebook 02 does, without games; the model stays for GRPO."""
    values = {**job["02_sft"], "adapter": adapter, "run": _run_folder(job, adapter)}
    values["max_steps"] = values["max_steps"] * COMPILED_STEPS // SFT_STEPS
    if adapter == "none":
        values["learning_rate"] = FULL_LEARNING_RATE
    run = runs.open_stage("02_sft", runs.parameters("02_sft", values))  # its data are elsewhere
    config = run.config
    rules, rows = data.load(job["data"]).rules, data.read_jsonl(job["rows"])
    model, tokenizer = models.load_policy(config.model, rules, config)
    config.max_minutes = _minutes_left(job)
    metrics = training.sft(model, tokenizer, rows, rows[: config.batch_size], config, run)
    models.save(model, tokenizer, run.dir / "model")
    run.finish(metrics)
    rank = 0 if adapter == "none" else config.lora_rank
    return sft_figures(runs.read_log(run.dir / "log.jsonl"), _tokenized(job, rows), job, rank)


def _run_folder(job: Job, adapter: str) -> str:
    return str(Path(job["work"]) / adapter)


def workbook_grpo(job: Job) -> Row:
    """What notebook 03 does, from the adapter that `workbook_sft` trained."""
    values = {**job["03_grpo"], "run": _run_folder(job, job["adapter"])}
    run = runs.open_stage("03_grpo", runs.parameters("03_grpo", values))
    config = run.config
    source = data.load(job["data"])
    model, tokenizer = training.load_trained(run, source.rules)
    config.max_minutes = _minutes_left(job)
    solver = Solver(source.training_words, source.rules)
    training.grpo(model, tokenizer, source.rows("states"), source.grpo_secrets, solver, config, run)
    return grpo_figures(runs.read_log(run.dir / "log.jsonl"))


def unsloth_grpo(job: Job) -> Row:
    """Unsloth's model with its engine and TRL's GRPOTrainer with its defaults, from the same adapter."""
    model, tokenizer = _unsloth_model(
        job, fast_inference=True, gpu_memory_utilization=0.5, max_lora_rank=job["02_sft"]["lora_rank"]
    )
    models.restore(model, Path(_run_folder(job, job["adapter"])) / "02_sft" / "model")
    models.require_trained_adapter(model)
    return grpo_figures(reinforce_with_defaults(model, tokenizer, job))


def reinforce_with_defaults(model: Any, tokenizer: Any, job: Job, **options: Any) -> list[Row]:
    """Train by GRPOTrainer; the log.

    Beside the batch, what makes it the same task is set: states, rewards, learning rate, and the longest
    completion.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from wordlelib.callbacks import time_parts, timed

    config, source = SimpleNamespace(**job["03_grpo"]), data.load(job["data"])
    solver = Solver(source.training_words, source.rules)
    functions, weights = rewards.make_reward_functions(config.preset, solver, source.rules)
    parts: dict[str, float] = {}
    run, log = _logging(job, parts)
    if hasattr(model, "load_lora"):
        model.load_lora = timed(model.load_lora, "sync", parts)
    micro_batch = min(DEFAULT_BATCH, config.batch_size)
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            output_dir="checkpoints",
            per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=config.batch_size // micro_batch,
            num_generations=config.group_size,
            max_steps=config.max_steps,
            learning_rate=config.learning_rate,
            max_completion_length=config.max_completion_length,
            reward_weights=weights,
            chat_template_kwargs=players.TEMPLATE_OPTIONS,
            **options,
        ),
        train_dataset=Dataset.from_list(source.rows("states")),
        reward_funcs=functions,
        processing_class=tokenizer,
        callbacks=[log],
    )
    time_parts(trainer, parts)
    trainer.train()
    return runs.read_log(run.dir / "log.jsonl")


# Name to title and function, in the order in which they run.
VARIANTS: dict[str, tuple[str, Callable[[Job], Row]]] = {
    "sft-plain": ("SFT: plain loop in bf16, all weights", plain_sft),
    "sft-unsloth": ("SFT: Unsloth, its defaults", unsloth_sft),
    "sft-workbook-qlora": ("SFT: this workbook, qlora", partial(workbook_sft, adapter="qlora")),
    "sft-workbook-lora": ("SFT: this workbook, lora", partial(workbook_sft, adapter="lora")),
    "sft-workbook-none": ("SFT: this workbook, all weights", partial(workbook_sft, adapter="none")),
    "grpo-workbook": ("GRPO: this workbook", workbook_grpo),
    "grpo-unsloth": ("GRPO: Unsloth, its defaults", unsloth_grpo),
}


def child(name: str, work: Path, seconds: float) -> None:
    """Measure one variant in this process and write `result.json` to the working directory.

    Training ends by itself after a share of `seconds`. Leaves at once when done: the threads of an engine
    may not end.
    """
    job = runs.read_json(work / "job.json")
    job["deadline"] = time.monotonic() + TRAINING_SHARE * seconds
    try:
        result = VARIANTS[name][1](job)
        from wordlelib.callbacks import memory_gib

        result["memory_gib"] = memory_gib()
    except Exception as error:
        traceback.print_exc()
        result = {"failed": f"{type(error).__name__}: {error}"}
    runs.write_json("result.json", result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# --- The benchmark ----------------------------------------------------------------------------------


def selected(only: str, adapter: str) -> list[str]:
    """Names of `VARIANTS` that the comma-separated names or prefixes in `only` choose, empty for all.

    GRPO starts from an adapter, so the SFT that makes it comes with it. Raises ValueError for a name that
    chooses nothing.
    """
    wanted = [name for text in only.split(",") if (name := text.strip())]
    chosen = {name for name in VARIANTS for want in wanted or [name] if f"{name}-".startswith(f"{want}-")}
    for want in wanted:
        if not any(f"{name}-".startswith(f"{want}-") for name in VARIANTS):
            raise ValueError(f"--only {want}: choose from sft, grpo, {', '.join(VARIANTS)}")
    if any(name.startswith("grpo") for name in chosen):
        chosen.add(f"sft-workbook-{adapter}")
    return [name for name in VARIANTS if name in chosen]


def prepare(work: Path, settings: plan.Settings, folder: Path | None, adapter: str) -> None:
    """Write what every variant reads to `work`: `job.json`, the SFT rows, and the data unless given."""
    sft, grpo = settings["02_sft"], settings["03_grpo"]
    if folder is None:
        folder = work / "01_data_synthesis"
        _make_data(folder, settings["01_data_synthesis"])
    rows = data.load(folder).rows("sft")
    drawn = random.Random(0).sample(rows, min(len(rows), sft["max_steps"] * sft["batch_size"]))
    data.write_jsonl(work / "sft.jsonl", drawn)
    shape = None if sft["model"] in models.NANO_SHAPES else plan.model_shape(sft["model"])
    job = {"02_sft": sft, "03_grpo": grpo, "adapter": adapter, "shape": shape}
    paths = {"work": work, "data": folder, "rows": work / "sft.jsonl"}
    runs.write_json(work / "job.json", {**job, **paths})


def _make_data(folder: Path, own: Mapping[str, Any]) -> None:
    words = data.game_words(sample=own["sample_words"])
    shown = {name: own[name] for name in ("renderer", "history", "lexicon", "thinking")}
    rules = rules_for(words, **shown)
    split = split_secrets(words, own["split_seed"], own["test_secrets"], own["val_secrets"])
    source = {"sample": own["sample_words"]}
    counts = {"rows": SFT_ROWS, "states": GRPO_STATES}
    taught = {name: own[name] for name in ("candidates", "guess_place", "rejecting")}
    mix = teachers.mix_with(own["non_words"])
    data.build(folder, rules, split, source=source, mix=mix, **counts, **taught)


def environment(name: str) -> dict[str, str]:
    """Environment variables of a variant: our SFT is a piece of a long training. With Unsloth's defaults ours
    are taken out, but for those that keep it from reporting usage: they change no speed."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, "PYTHONPATH": path}
    if "unsloth" in name:
        variables = {key: value for key, value in variables.items() if key not in models.GPU_SWITCHES}
        variables |= {
            key: models.GPU_SWITCHES[key] for key in ("UNSLOTH_DISABLE_STATISTICS", "VLLM_NO_USAGE_STATS")
        }
    if name.startswith("sft-workbook"):
        variables |= models.COMPILED_BLOCKS
    return variables


def bounded(command: Sequence[str], folder: Path, seconds: float, variables: Mapping[str, str]) -> Row:
    """What a command leaves in `folder/result.json`, or why there is nothing, as `failed`.

    Its output goes to `folder/output.log`. After `seconds`, and also when it ends, it is killed with all
    processes that it started: the next one needs the whole GPU.
    """
    folder.mkdir()
    with open(folder / "output.log", "wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if (folder / "result.json").is_file():
        return runs.read_json(folder / "result.json")
    if code is None:
        return {"failed": f"not done after {seconds:.0f} s"}
    said = [line for line in _output(folder).splitlines() if line.strip()]
    return {"failed": f"exit code {code}: {said[-1].strip() if said else 'no output'}"}


def _output(folder: Path) -> str:
    return (folder / "output.log").read_text(encoding="utf-8", errors="replace")


def table(rows: Sequence[Row]) -> str:
    """Rows of the benchmark as a Markdown table; columns that are empty throughout are left out."""
    columns = [column for column in COLUMNS if any(column[1] in row for row in rows)]

    def cell(row: Row, name: str, form: str) -> str:
        if name not in row:
            return ""
        return "unknown" if row[name] is None else form.format(row[name]).replace("|", "/")

    header = ["", *(title for title, _, _ in columns)]
    lines = [[row["title"], *(cell(row, name, form) for _, name, form in columns)] for row in rows]
    return report.piped([header, *lines])


def heading(model: str) -> str:
    """Card, versions and model, in one line."""
    record = runs.environment()
    names = ("torch", "transformers", "trl", "unsloth", "vllm")
    versions = ", ".join(f"{name} {record['packages'][name]}" for name in names if name in record["packages"])
    return f"{Path(model).name} on {record['gpu'] or 'no GPU'}; {versions}"


def main(
    recipe: str,
    changes: plan.Settings,
    folder: Path | None,
    adapter: str,
    only: str,
    minutes: float,
    out: Path,
) -> int:
    """Run the variants, print a line after each and the table at the end; 1 if the workbook's own failed.

    `changes`: parameters (stage to name to value) on top of the recipe's. `folder`: a finished
    01_data_synthesis, None to make data for the purpose. `adapter`: what GRPO starts from. `minutes`:
    limit of everything. The rows go to `out`.jsonl, the table to `out`.txt and what the variants printed
    to `out`.log, again after each variant. Raises ValueError for settings that do not fit together.
    """
    names = selected(only, adapter)
    stages = {stage: CHANGES.get(stage, {}) | changes.get(stage, {}) for stage in {*CHANGES, *changes}}
    settings = plan.recipe_settings(recipe, stages)
    end = time.monotonic() + 60 * minutes
    head = heading(settings["02_sft"]["model"])
    print(head, flush=True)
    rows: list[Row] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    beside(out, ".log").write_text("")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        work = Path(temporary)
        prepare(work, settings, folder, adapter)
        for name in names:
            rows.append(measure(name, work, end))
            print(progress(rows[-1]), flush=True)
            write(out, head, rows, _output(work / name) if (work / name).is_dir() else "")
    print(f"\n{table(rows)}")
    return int(any("workbook" in row["name"] and "failed" in row for row in rows))


def measure(name: str, work: Path, end: float) -> Row:
    """The row of one variant, which may take its limit but not go on after `end` (time.monotonic)."""
    start = time.monotonic()
    seconds = min(SECONDS[name.partition("-")[0]], end - start)
    command = [sys.executable, "-m", "wordlelib.bench_gpu", name, str(work), str(seconds)]
    if seconds > 1:
        result = bounded(command, work / name, seconds, environment(name))
    else:
        result = {"failed": "no time left"}
    row = {"name": name, "title": VARIANTS[name][0], **result, "seconds": time.monotonic() - start}
    if "failed" in row:
        row["failed"] = re.sub(r"\s+", " ", row["failed"])[:300]
    return row


def progress(row: Row) -> str:
    """One line that says how a variant went."""
    if "failed" in row:
        said = f"failed, {row['failed']}"
    elif "tokens_per_s" in row:
        said = f"{row['tokens_per_s']:,.0f} tokens/s"
    else:
        said = f"{row['step_seconds']:.2f} s a step"
    return f"{row['title']}: {said} ({row['seconds']:.0f} s)"


def beside(out: Path, ending: str) -> Path:
    """The file of one kind; a dot in the name of a model is no ending."""
    return out.with_name(out.name + ending)


def write(out: Path, head: str, rows: Sequence[Row], output: str) -> None:
    """Rows, table and output of the last variant, so that what is measured stays if the rest is cut off."""
    runs.write_text(beside(out, ".jsonl"), "".join(json.dumps(runs.plain(row)) + "\n" for row in rows))
    runs.write_text(beside(out, ".txt"), f"{head}\n\n{table(rows)}\n")
    with open(beside(out, ".log"), "a", encoding="utf-8") as file:
        file.write(f"===== {rows[-1]['title']}\n{output}\n")


if __name__ == "__main__":
    child(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
