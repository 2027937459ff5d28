"""SFT and GRPO with TRL: rows, configurations, guards, and a log row a step.

The trainers are TRL's own. What stands here is what they leave open: tokens of training equal to
tokens of play, states that follow the policy, plain warnings, and a stop before anything is lost.
"""

import copy
import os
import pickle
import random
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from wordlelib import (
    adapters,
    clues,
    data,
    evaluate,
    export,
    models,
    params,
    players,
    rewards,
    rollouts,
    tasks,
    trackers,
)
from wordlelib.game import History, Turn, encode_history
from wordlelib.processes import processors
from wordlelib.prompts import NO, is_well_formed, names, parse_guess, rejected_spans, rejected_words
from wordlelib.rules import Rules
from wordlelib.runs import MemoryLimit, Run, log_of, read_json, read_log, read_yaml
from wordlelib.solver import Solver
from wordlelib.teachers import FEW

Row = dict[str, Any]
IGNORED = -100  # label of a token that carries no loss
UNLIMITED_STEPS = 10_000  # when only minutes limit the training
ROWS_A_PROCESS = 20_000  # that are worth another process to tokenize them
GAMES_A_ROUND = 256  # games that refresh the states, where mistakes do not come first
CLUES_ASKED = 4  # of the policy, where its mistakes come first, for each one that it then learns from

# Parts of a GRPO step. Handing the adapter to the engine (sync) is a part of generation.
PARTS = tuple(f"{part}_seconds" for part in ("generate", "sync", "reward", "update", "refresh"))

# What a log row can show, the limit above which it is worth a warning, and what to say; each name is
# also the anchor of a section in notebooks/troubleshooting.md.
WARNINGS = {
    "zero-spread": (
        "frac_reward_zero_std",
        0.5,
        "{:.0%} of groups have equal rewards and teach nothing: use larger groups, a higher temperature "
        "or harder states",
    ),
    "favourite-guess": (
        "top_guess_share",
        0.3,
        "{:.0%} of guesses are one and the same word: the policy is collapsing; lower the learning rate "
        "or go back to an earlier checkpoint",
    ),
    "cut-completions": (
        "completions/clipped_ratio",
        0.05,
        "{:.0%} of completions are cut at max_completion_length: raise it, or train the end token by SFT",
    ),
}


def tokenize(rows: Sequence[Row], tokenizer: Any, max_length: int) -> list[dict[str, list[int]]]:
    """SFT rows as `input_ids` and `labels`; only the completion and its end token carry a loss.

    The words that a completion rejects carry none: they are to be known as wrong, not to be named (a token
    that reaches into the *no* behind them keeps its own). Nor does the *no* behind those that fit, the row's
    `unjust` ones: what to say after one is to be learned, not to say it. The completion is tokenized apart
    from the prompt, as it is generated. Raises ValueError for a row longer than `max_length` tokens: nothing
    is cut.
    """
    before = players.prompt_ids(tokenizer, [row["prompt"] for row in rows])
    texts = [row["completion"][0]["content"] for row in rows]
    rejected = [_without_loss(text, row.get("unjust") or "") for text, row in zip(texts, rows, strict=True)]
    # Tokenizers written in Python cannot say which places of the text a token has.
    after = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=any(rejected))
    offsets = after.get("offset_mapping") or [()] * len(texts)
    end = tokenizer.eos_token_id  # looked up once: it is no plain attribute
    tokenized = []
    for row, prompt, completion, places, spans in zip(
        rows, before, after["input_ids"], offsets, rejected, strict=True
    ):
        ids = [*prompt, *completion, end]
        if len(ids) > max_length:
            raise ValueError(
                f"a row of secret {row['secret']!r} has {len(ids)} tokens, more than max_length "
                f"{max_length}: raise max_length, or write shorter states or thinking"
            )
        labels = [IGNORED] * len(prompt) + ids[len(prompt) :]
        for start, stop in spans:
            for n, (_, last) in enumerate(places, len(prompt)):
                if start < last <= stop:
                    labels[n] = IGNORED
        tokenized.append({"input_ids": ids, "labels": labels})
    return tokenized


def _without_loss(text: str, unjust: str) -> list[tuple[int, int]]:
    """Where a completion stands, from and to, that is not to be said: words that it rejects, unjust *no*s."""
    spans, spared = rejected_spans(text), unjust.split()
    if not spared:  # most of a million rows
        return spans
    said = zip(spans, rejected_words(text), strict=True)
    return [(start, stop + len(NO) * (word in spared)) for (start, stop), word in said]


@lru_cache(maxsize=1)
def _unpacked(tokenizer: bytes) -> Any:
    return pickle.loads(tokenizer)


def tokenized_dataset(rows: Any, tokenizer: Any, max_length: int) -> Any:
    """`tokenize` of a list or a `datasets.Dataset` as a Dataset; many rows are shared out among cores."""
    from datasets import Dataset

    read = ("prompt", "completion", "secret", "unjust")
    if not isinstance(rows, Dataset):
        rows = Dataset.from_list([{name: row.get(name) for name in read} for row in rows])
    columns = [name for name in read if name in rows.column_names]  # data of before have no `unjust`
    # `datasets` would send the tokenizer, a second of work, to each process anew; bytes cost it nothing.
    packed = pickle.dumps(tokenizer)

    def tokenize_batch(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        parts = [
            dict(zip(columns, values, strict=True)) for values in zip(*map(batch.get, columns), strict=True)
        ]
        return _columns(tokenize(parts, _unpacked(packed), max_length))

    processes = min(processors(), len(rows) // ROWS_A_PROCESS)
    return rows.select_columns(columns).map(
        tokenize_batch, batched=True, num_proc=processes or None, remove_columns=columns
    )


def check_labels(row: Row, tokenized: Mapping[str, list[int]], tokenizer: Any) -> str:
    """The text that one row trains, end token included.

    Raises ValueError unless it is exactly the row's completion, less what carries no loss where it rejects
    words (`tokenize`), and the end token: prompt text in it would be trained too, and without the end token
    the model never learns to stop.
    """
    labels, completion = tokenized["labels"], row["completion"][0]["content"]
    shown = tokenizer.decode([label for label in labels if label != IGNORED])
    if labels[-1] != tokenizer.eos_token_id:
        raise ValueError(f"the trained labels lack the end token {tokenizer.eos_token!r}: {shown!r}")
    [prompt] = players.prompt_ids(tokenizer, [row["prompt"]])
    ids, spans = tokenized["input_ids"][len(prompt) : -1], _without_loss(completion, row.get("unjust") or "")
    wanted = [IGNORED] * len(prompt) + ids
    for n in range(len(ids) if spans else 0):
        last = len(tokenizer.decode(ids[: n + 1]))  # whatever the tokenizer says of places
        if any(start < last <= stop for start, stop in spans):
            wanted[len(prompt) + n] = IGNORED
    if tokenizer.decode(ids) != completion or labels[:-1] != wanted:
        raise ValueError(f"the trained labels are not the completion but {shown!r}")
    return shown


def warnings_of(row: Mapping[str, float]) -> dict[str, str]:
    """Warnings that one log row calls for: anchor in the troubleshooting page to sentence."""
    return {
        anchor: sentence.format(row[name])
        for anchor, (name, limit, sentence) in WARNINGS.items()
        if row.get(name, 0.0) > limit
    }


def completion_statistics(completions: Sequence[str], group_size: int, solver: Solver) -> dict[str, float]:
    """What a batch of completions (groups one after another) says about the policy's health.

    `distinct_completions`: mean share of different texts in a group. `top_guess_share`: share of the
    most frequent guess among all completions. `format_share`: well formed. `nonword_share`: a guess
    that is no word. `legal_share`: a guess that the game accepts as a word. All from 0 to 1.
    """
    rules, n = solver.rules, len(completions)
    groups = [completions[i : i + group_size] for i in range(0, n, group_size)]
    guesses = [parse_guess(text, rules.length, rules.alphabet).guess for text in completions]
    words = [guess for guess in guesses if guess in solver.words.dictionary]
    top = Counter(guess for guess in guesses if guess).most_common(1)
    return {
        "distinct_completions": statistics.mean(len(set(group)) / len(group) for group in groups),
        "top_guess_share": top[0][1] / n if top else 0.0,
        "format_share": sum(is_well_formed(text, rules.length, rules.alphabet) for text in completions) / n,
        "nonword_share": sum(guess is not None for guess in guesses) / n - len(words) / n,
        "legal_share": len(words) / n,
    }


def last_checkpoint(run: Run) -> str | None:
    """The newest whole checkpoint of a resumed stage, None when training starts anew.

    A kill can leave a half-written one: its `trainer_state.json`, which comes last, is not there.
    """
    whole = [path.parent for path in run.dir.glob("checkpoints/checkpoint-*/trainer_state.json")]
    newest = max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
    return str(newest) if run.resumed and newest else None


def _is_over(step: int, max_steps: int, max_minutes: float, log: list[Row]) -> bool:
    """Whether a training with a checkpoint of this step ended there, by its steps or its log's clock."""
    late = (row["minutes"] >= max_minutes > 0 for row in log if row["step"] <= step)
    return step >= max_steps or any(late)


def _train(trainer: Any, run: Run, max_minutes: float, saving: Any) -> None:
    """Train, from a checkpoint if there is one; of a finished training only the weights are loaded.

    transformers would take one more step from a checkpoint of the last one. Raises MemoryError with
    the parameters to lower when the GPU's memory does not suffice, and MemoryLimit when `saving` (the
    callback `Checkpoints`) stopped the training before its end.
    """
    import torch

    checkpoint = last_checkpoint(run)
    step = int(checkpoint.rpartition("-")[2]) if checkpoint else 0
    log = log_of(run.dir)
    if checkpoint and _is_over(step, trainer.args.max_steps, max_minutes, log):
        if any(row["step"] > step for row in log):  # limits that were lowered
            run.rewind_log(step)
        trainer._load_from_checkpoint(checkpoint)
        return
    trackers.put_last(trainer)
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except torch.OutOfMemoryError as error:
        size = trainer.args.per_device_train_batch_size
        ways = [f"set micro_batch_size below {size}"] if size > 1 else []
        ways += ["lower engine_memory"] if getattr(trainer.model, "vllm_engine", None) else []
        advice = f"{' or '.join(ways)}, and resume" if ways else "take a smaller model"
        raise MemoryError(
            f"the GPU's memory does not hold {size} rows at once: {advice}; `python -m wordlelib plan` says "
            f"what fits ({models.first_line(error)})"
        ) from error
    finally:
        trackers.finish()
    step = trainer.state.global_step
    if saving.over and step < trainer.args.max_steps:
        raise MemoryLimit(
            f"this process takes {saving.over:.3f} GB, more than max_memory_gb {saving.max_memory_gb:g}: "
            f"training stopped after step {step} with a checkpoint; restart the kernel and run all cells "
            "with resume=True (`python -m wordlelib run` does so by itself)"
        )


def _common_arguments(config: Any, run: Run) -> dict[str, Any]:
    """What SFTConfig and GRPOConfig share; the schedule of the learning rate is `decay_to_the_end`."""
    micro_batch = config.micro_batch_size or config.batch_size
    return {
        "output_dir": str(run.dir / "checkpoints"),
        "per_device_train_batch_size": micro_batch,
        "gradient_accumulation_steps": config.batch_size // micro_batch,
        # Unsloth has defaults of its own for these.
        "optim": "adamw_torch_fused",
        "weight_decay": 0.0,
        "torch_empty_cache_steps": None,
        "logging_nan_inf_filter": True,
        "learning_rate": config.learning_rate,
        "warmup_steps": config.warmup_steps,
        "max_steps": config.max_steps or UNLIMITED_STEPS,
        "save_steps": config.save_every,
        "save_total_limit": config.keep_checkpoints + 1,  # the best one may be among the last, or older
        "seed": config.seed,
        "bf16": models.device() == "cuda",
        "use_cpu": models.device() == "cpu",
        **trackers.prepare(config.tracker, run),
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "gradient_checkpointing": False,
    }


def _quiet(trainer: Any) -> None:
    """Leave printing to `StepLog`: the trainer's own printer shows every row."""
    from transformers.trainer_callback import PrinterCallback

    trainer.remove_callback(PrinterCallback)


def _group_by_length(trainer: Any, order: str) -> None:
    """Batches of rows of similar length; the trainer by itself would read every row for its own.

    sorted: as the trainer would have them, fifty at a time, the longest first. Late turns are trained on,
    then ever shorter clues, then late turns again. shuffled: in random order, by the seed and the pass alone,
    so that a training that is resumed after its first pass meets the same rows.
    """
    import pyarrow.compute
    import torch
    from transformers.trainer_pt_utils import LengthGroupedSampler

    class ShuffledBatches(LengthGroupedSampler):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[int]:
            self.generator = torch.Generator().manual_seed(trainer.args.seed + self.epoch)
            batches = torch.tensor(list(super().__iter__())).split(self.batch_size)
            # The first has the longest row, and shows at once what memory is needed; the last may be short.
            drawn = torch.randperm(max(0, len(batches) - 2), generator=self.generator) + 1
            places = [0, *drawn.tolist(), len(batches) - 1][: len(batches)]
            return iter(torch.cat([batches[place] for place in places]).tolist())

    lengths = pyarrow.compute.list_value_length(trainer.train_dataset.data["input_ids"]).to_pylist()
    batch = trainer.args.train_batch_size * trainer.args.gradient_accumulation_steps
    grouped = {"sorted": LengthGroupedSampler, "shuffled": ShuffledBatches}[order](batch, lengths=lengths)
    trainer._get_train_sampler = lambda _=None: grouped


def sft(
    model: Any,
    tokenizer: Any,
    rows: Any,
    val_rows: Sequence[Row],
    config: Any,
    run: Run,
    measure: evaluate.Validation = lambda number: {},
) -> dict[str, Any]:
    """Train on solver turns with TRL's SFTTrainer; returns the stage's metrics.

    rows: a list, a Dataset, or an IterableDataset (`tasks.sft_rows`), whose rows come in its order.
    config: the parameters of 02_sft that are not of the model. `measure` gets the number of each
    validation, from 1, and what it returns stands in the log row of that validation. Rows of similar
    length share a batch. Goes on from the last checkpoint when `run.resumed`. The best checkpoint has the
    lowest validation loss.
    """
    from datasets import IterableDataset
    from trl import SFTConfig, SFTTrainer

    from wordlelib.callbacks import Checkpoints, SkipNonFinite, StepLog, decay_to_the_end

    def validation(row: Row) -> Row:
        return measure(row["step"] // config.eval_every) if "eval_loss" in row else {}

    def tokenized(row: Row) -> dict[str, list[int]]:
        return tokenize([row], tokenizer, config.max_length)[0]

    first, listed = next(iter(rows)), not isinstance(rows, IterableDataset)
    check_labels(first, tokenized(first), tokenizer)
    if listed:
        train = tokenized_dataset(rows, tokenizer, config.max_length)
    else:
        train = rows.map(tokenized, remove_columns=list(first))
    right = copy.deepcopy(tokenizer)
    right.padding_side = "right"  # a collator may go by it, and causal attention never sees what is right
    guard, saving = SkipNonFinite(), Checkpoints("eval_loss", config.save_minutes, config.max_memory_gb)
    step_log = StepLog(run, config.max_minutes, guard, validation)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            **_common_arguments(config, run),
            per_device_eval_batch_size=config.micro_batch_size or config.batch_size,
            eval_strategy="steps",
            eval_steps=config.eval_every,
            logging_steps=10,
            max_length=None,  # lengths are checked in `tokenize`, nothing is cut
            loss_type="nll",
            padding_free=False,  # rows of one length need little padding, and plain causal attention
            include_num_input_tokens_seen="non_padding",
            train_sampling_strategy="group_by_length" if listed else "random",
            # On a GPU the next batches are made while it works; on a CPU they would take cores from training.
            dataloader_num_workers=min(4, processors()) if models.device() == "cuda" else 0,
        ),
        train_dataset=train,
        eval_dataset=tokenized_dataset(val_rows, tokenizer, config.max_length),
        processing_class=right,
        callbacks=[step_log, saving, guard],
    )
    if listed:
        _group_by_length(trainer, config.batch_order)
    decay_to_the_end(trainer, step_log)
    _quiet(trainer)
    _train(trainer, run, config.max_minutes, saving)
    log = read_log(run.dir / "log.jsonl")
    return training_metrics(log, "loss") | best_validation(log, "eval_loss")


def load_trained(run: Run, rules: Rules) -> tuple[Any, Any]:
    """The model of 02_sft to train on, with the backend of this stage and, on a GPU, an engine beside it."""
    config = SimpleNamespace(**read_yaml(run.input("02_sft") / "config.yaml"))
    params.check_stages({"02_sft": vars(config), "03_grpo": vars(run.config)})
    config.backend, config.seed = run.config.backend, run.config.seed
    completion = run.config.max_completion_length
    config.max_length = players.longest_sequence(rules, config.max_length, completion)
    engine_memory = run.config.engine_memory if config.backend == "unsloth" else 0.0
    folder = run.input("02_sft") / "model"
    models.require_base(folder, config.model)
    return models.load_policy(folder, rules, config, engine_memory)


def continue_sft(run: Run, model: Any, tokenizer: Any, minutes: float) -> dict[str, Any]:
    """The control of GRPO: go on with SFT from the same checkpoint for as many minutes.

    `model` is set back to that checkpoint first: a GPU holds no second one beside the engine.
    Learning rate, batch and rows are those of 02_sft, with a warm-up and a fall to 0 of its own over
    the steps that fit into `minutes` at the pace of 02_sft. Writes to `<stage>/control/`; returns
    metrics whose names start with `control_`.
    """
    sft_folder, source = run.input("02_sft"), data.load(run.input("01_data_synthesis"))
    config = SimpleNamespace(**(params.BEFORE["02_sft"] | read_yaml(sft_folder / "config.yaml")))
    sft_metrics = read_json(sft_folder / "metrics.json")
    config.max_steps = max(1, round(minutes * sft_metrics["steps"] / sft_metrics["minutes"]))
    config.max_minutes, config.seed = minutes, config.seed + 1
    vars(config).update({name: getattr(run.config, name) for name in params.KEEPING})
    if run.config.backend == "unsloth":
        config.micro_batch_size = rows_beside_engine(config, run.config)
    control = replace(run, dir=run.dir / "control")
    control.dir.mkdir(exist_ok=True)
    models.restore(model, sft_folder / "model")
    rows = tasks.sft_rows(source, config)
    metrics = sft(model, tokenizer, rows, source.rows("sft_val"), config, control)
    save(model, tokenizer, run, "sft_continued")
    return {f"control_{name}": value for name, value in metrics.items()}


def rows_beside_engine(sft_config: Any, grpo_config: Any) -> int:
    """Rows at once of the control: no more than SFT or GRPO have, in whole parts of SFT's batch.

    02_sft had the GPU for itself, the control shares it with the engine, as GRPO does.
    """
    batch = sft_config.batch_size
    most = min(config.micro_batch_size or config.batch_size for config in (sft_config, grpo_config))
    return next(rows for rows in range(min(most, batch), 0, -1) if batch % rows == 0)


def save(model: Any, tokenizer: Any, run: Run, player: str) -> None:
    """Write the present weights of `player`, with a model card and a record of what they were trained on,
    where `players.MODEL_FOLDERS` has them.

    After training these are the weights of the last step; the checkpoint of the best one is kept beside.
    """
    folder = run.dir.parent / players.MODEL_FOLDERS[player]
    models.save(model, tokenizer, folder)
    export.write_card(folder, run.dir.parent, player)
    adapters.write_record(folder, run.dir.parent, player)


def training_metrics(log: Sequence[Mapping[str, float]], value: str) -> dict[str, float | None]:
    """Flat metrics of a training log: speed as medians over the second half, where it is steady.

    `value`: `loss` or `reward`, whose last ten rows give `final_loss` or `final_reward`.
    """
    rows = [row for row in log if value in row]
    steady = rows[len(rows) // 2 :]

    def middle(name: str) -> float | None:
        return statistics.median(v) if (v := [row[name] for row in steady if name in row]) else None

    on_gpu = models.device() == "cuda"
    return {
        "tokens_per_s": middle("tokens_per_s"),
        "step_seconds": middle("step_seconds"),
        **{part: middle(part) for part in PARTS if any(part in row for row in steady)},
        "gpu_peak_gib": max((row["memory_gib"] for row in log), default=0.0) if on_gpu else None,
        "minutes": log[-1]["minutes"] if log else 0.0,
        "steps": log[-1]["step"] if log else 0,
        f"final_{value}": statistics.mean(row[value] for row in rows[-10:]) if rows else None,
        "skipped_steps": log[-1]["skipped_steps"] if log else 0,
    }


def best_validation(log: Sequence[Mapping[str, float]], name: str) -> dict[str, float]:
    """`best_step` and `best_<name>`: where the logged number was best, which checkpoint is kept."""
    rows = [row for row in log if name in row]
    if not rows:
        return {}
    best = (min if name.endswith("loss") else max)(rows, key=lambda row: row[name])
    return {"best_step": best["step"], f"best_{name}": best[name]}


class States:
    """Row i of the GRPO data, the same whenever it is asked for.

    fixed: a fresh shuffle of the given states each round. refreshed: row i belongs to round
    `i // rows_per_round`; the states of a round come from games that the policy plays, at its sampling
    temperature, when the first row of the round is asked for. A round is written to
    `states/round_k.jsonl` before use and read from there by a resumed run, so it sees the same rows.
    """

    def __init__(
        self,
        states: Sequence[Row],
        folder: Path,
        rows_per_round: int,
        play: Callable[[int], list[Row]] | None,
    ) -> None:
        """`play(k)` makes the states of round k, None keeps them fixed."""
        self.states, self.folder, self.rows_per_round, self.play = list(states), folder, rows_per_round, play
        self.round: tuple[int, list[Row]] = (-1, [])

    def __getitem__(self, i: int) -> Row:
        k, place = divmod(i, self.rows_per_round)
        if self.round[0] != k:
            self.round = (k, self._round(k))
        rows = self.round[1]
        return rows[place % len(rows)]

    def _round(self, k: int) -> list[Row]:
        if self.play is None:
            rows = self.states
        else:
            path = self.folder / f"round_{k}.jsonl"
            if not path.is_file():
                self.folder.mkdir(exist_ok=True)
                data.write_jsonl(path, self.play(k))
            rows = data.read_jsonl(path)
        return random.Random(k).sample(rows, len(rows))


def policy_states(
    records: Sequence[Mapping[str, Any]],
    solver: Solver,
    n: int,
    seed: int,
    mistakes_first: bool = False,
    barred: Collection[str] = (),
) -> list[Row]:
    """Up to `n` of the distinct states that the policy met in games, with their look-ahead columns.

    The empty history, which every game shares, counts once. The states are drawn before their
    columns are computed, which takes much longer. mistakes_first: those come first in which the policy erred
    (`_erred`). barred: words that no training text may name; what follows one in a game is left out, since it
    shows it.
    """
    states: dict[str, tuple[History, str, list[Turn]]] = {}
    for record in records:
        turns = evaluate.history_of(record)
        for k, turn in enumerate(turns):
            _, _, made = states.setdefault(encode_history(turns[:k]), (turns[:k], record["secret"], []))
            made.append(turn)
            if names(turn.text, barred, solver.rules.length):
                break
    met, rng = list(states.values()), random.Random(seed)
    if mistakes_first:
        rng.shuffle(met)
        drawn = sorted(met, key=lambda state: not _erred(state[0], state[2], solver))[:n]
    else:
        drawn = rng.sample(met, min(n, len(met)))
    return [data.state_row(solver, history, secret, "policy") for history, secret, _ in drawn]


def _erred(history: History, turns: Sequence[Turn], solver: Solver) -> bool:
    """Whether a turn had no legal guess, one made before, or, with one or two words left, none of these; or
    rejected a word that was left, or any word twice."""
    left = {solver.universe[place] for place in solver.candidates(history)}
    past = {turn.guess for turn in history}
    return any(
        turn.feedback is None
        or turn.guess in past
        or (0 < len(left) <= FEW and turn.guess not in left)
        or rewards.misrejects(rejected_words(turn.text), left)
        for turn in turns
    )


class Task(NamedTuple):
    """What GRPO trains on.

    row(i): row number i, the same whenever it is asked for. functions: rewards. weights(step, max_steps,
    format share): one a function. rollout_func: how TRL is to play a row, None for one completion.
    """

    row: Callable[[int], Row]
    functions: list[Callable[..., list[float]]]
    weights: Callable[[int, int, float], list[float]]
    rollout_func: Callable[..., Row] | None


def _rows_a_round(config: Any) -> int:
    """States that the steps between two refreshes use."""
    return config.refresh_every * config.batch_size // config.group_size


def _turns(
    states: Sequence[Row] | Callable[[int], Row],
    solver: Solver,
    config: Any,
    run: Run,
    play: Callable[[int], Any],
) -> Task:
    """`unit: turn`: a row is a state, and the reward judges its guess against the exact candidate set."""
    if config.clues:
        clues.require_summary(solver.rules, "03_grpo: clues")
    if config.mistakes_first and solver.rules.game != Rules.game:
        raise ValueError(
            f"03_grpo: mistakes_first is of Wordle, and the game is {solver.rules.game}: set it to false"
        )
    functions, _ = rewards.make_reward_functions(config.preset, solver, solver.rules)
    schedule = rewards.make_schedule(config.schedule, config.preset)
    if callable(states):
        row = states
    else:
        play = None if config.states == "fixed" else play
        row = States(states, run.dir / "states", _rows_a_round(config), play).__getitem__

    def weights(*now: Any) -> list[float]:
        return list(rewards.weights_at(schedule, *now).values())

    return Task(row, functions, weights, None)


def _whole_games(
    secrets: Sequence[str],
    generate: players.Generator,
    model: Any,
    tokenizer: Any,
    solver: Solver,
    config: Any,
) -> Task:
    """`unit: game`: a row is a secret, and the reward is that of the finished game (`rollouts`)."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # `rollout_func` is, and TRL is pinned
    rollout_func = rollouts.make_rollout_func(
        generate,
        tokenizer,
        solver.words,
        solver.rules,
        seed=config.seed,
        max_completion_length=config.max_completion_length,
        # Unsloth cuts at a length of its own, without a word
        limit=getattr(model, "max_seq_length", None) or model.config.max_position_embeddings,
    )
    row = rollouts.secret_rows(secrets, solver.rules, config.seed)
    return Task(row, [rollouts.reward_function(solver.rules)], lambda *now: [1.0], rollout_func)


def _group_health(group_size: int, solver: Solver, samples: list[str]) -> Callable[..., list[float]]:
    """A reward function that logs `completion_statistics` on the way; its value is 1 for a well-formed text.

    Where there are clues among the rows, it logs `clues_right`, the share that is answered with a word that
    fits. It leaves some of the texts in `samples`, each of another group.

    Of a game, one turn stands for all.
    """
    rules = solver.rules

    def guess(text: str) -> str | None:
        return parse_guess(text, rules.length, rules.alphabet).guess

    def group_health(completions: Sequence[Any], **columns: Any) -> list[float]:
        texts = columns.get("text") or [rewards.text_of(completion) for completion in completions]
        for name, value in completion_statistics(texts, group_size, solver).items():
            columns["log_metric"](name, value)
        answered = zip(texts, columns.get("fits") or [""] * len(texts), strict=True)
        if right := [guess(text) in fits.split() for text, fits in answered if fits]:
            columns["log_metric"]("clues_right", statistics.mean(right))
        samples[:] = [text[: evaluate.SAMPLE_LENGTH] for text in texts[::group_size][: evaluate.SAMPLES]]
        return [float(is_well_formed(text, rules.length, rules.alphabet)) for text in texts]

    return group_health


def grpo(
    model: Any,
    tokenizer: Any,
    states: Sequence[Row] | Callable[[int], Row],
    secrets: Sequence[str],
    solver: Solver,
    config: Any,
    run: Run,
    measure: evaluate.Validation = lambda number: {},
    rehearsed: Sequence[str] = (),
    barred: Collection[str] = (),
) -> dict[str, Any]:
    """Train with TRL's GRPOTrainer; returns the stage's metrics.

    `unit: turn`: a row is a state; the reward judges the guess of each completion against the exact
    candidate set. `unit: game`: a row is a secret; the reward is that of the finished game (`rollouts`).
    states: rows, or a function from a row's number to the row (`tasks.states`).
    config: as for `sft`, and unit, group_size, batch_size (completions a step), temperature,
    max_completion_length, beta, epsilon, and for turns states, refresh_every, clues, mistakes_first,
    preset, schedule.
    `secrets`: training secrets, some of which are played to refresh states. Where mistakes come first, all of
    them are, and the `rehearsed` ones too, so that what is forgotten of them comes back. No prompt of a turn
    names a `barred` word.
    `measure` gets the number of a validation, from 1, every `eval_every` steps, and what it returns stands in
    the log row of that step. Goes on from the last checkpoint when `run.resumed`. The best checkpoint won
    most of its validation games.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from wordlelib.callbacks import (
        Checkpoints,
        SkipNonFinite,
        StepLog,
        WeightSchedule,
        decay_to_the_end,
        time_parts,
        timed,
    )

    rules = solver.rules
    parts: dict[str, float] = {}
    games: dict[str, float] = {}
    samples: list[str] = []
    if hasattr(model, "load_lora"):  # hands the present adapter to the engine
        model.load_lora = timed(model.load_lora, "sync", parts)
    generate = players.policy_generator(model, tokenizer, config.max_completion_length, config.temperature)
    player = players.model_player(generate, tokenizer, rules)

    def play_round(k: int) -> list[Row]:
        seed = config.seed + 1000 * (k + 1)
        most = len(secrets) if config.mistakes_first else GAMES_A_ROUND
        drawn = random.Random(seed).sample(list(secrets), min(len(secrets), most))
        again = rehearsed if config.mistakes_first else ()
        records = evaluate.play_games(player, [*drawn, *again], solver.words, rules, name="policy", seed=seed)
        games["games_win_rate"] = sum(record["won"] for record in records[: len(drawn)]) / len(drawn)
        games["games_played"] = len(drawn)
        mixed, n = config.states == "mixed", _rows_a_round(config)
        n_clues = round(config.clues * n)
        n_states = (n - n_clues) // (1 + mixed)
        rows = policy_states(records, solver, n_states, seed, config.mistakes_first, barred)
        if mixed:
            rows += random.Random(seed).sample(list(states), min(len(states), len(rows)))
        if n_clues:
            rows = [row | {"fits": ""} for row in rows] + clue_states(n_clues, seed)
        return rows

    def clue_states(n: int, seed: int) -> list[Row]:
        most = CLUES_ASKED * n if config.mistakes_first else n
        asked = list(clues.questions(solver.words, rules, most, seed))
        if config.mistakes_first:
            chats, rng = [clues.prompt(clue.known, rules) for clue in asked], random.Random(seed)
            texts = players.answers(generate, tokenizer, chats, [rng.getrandbits(32) for _ in chats])
            missed, solved = clues.answered(asked, texts, solver.words, rules, barred)
            games["asked_clues_right"] = len(solved) / len(asked)
            asked = missed + solved
        return [clues.state(clue, rules) for clue in asked[:n]]

    def games_once(row: Row) -> Row:
        taken: dict[str, Any] = {**games, "samples": list(samples)}
        games.clear()
        due = config.eval_every and "loss" in row and row["step"] % config.eval_every == 0
        return taken | (measure(row["step"] // config.eval_every) if due else {})

    if config.unit == "game":
        task = _whole_games(secrets, generate, model, tokenizer, solver, config)
    else:
        task = _turns(states, solver, config, run, timed(play_round, "refresh", parts))

    def weights(*now: Any) -> list[float]:
        return [*task.weights(*now), 0.0]  # the health of groups is logged, not rewarded

    guard, saving = SkipNonFinite(), Checkpoints("val_win_rate", config.save_minutes, config.max_memory_gb)
    step_log = StepLog(run, config.max_minutes, guard, games_once, warnings_of, parts)
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            **_common_arguments(config, run),
            num_generations=config.group_size,
            max_completion_length=config.max_completion_length,
            temperature=config.temperature,
            beta=config.beta,
            epsilon=config.epsilon,
            # An advantage is a difference of rewards, not divided by the spread of its group: else the
            # hair's breadth between two good openers would weigh as much as a word against a non-word.
            scale_rewards="none",
            # One update per generation: the policy that is trained is the one that sampled, so there is
            # no other policy to correct for, and nothing to score again.
            vllm_importance_sampling_correction=False,
            reward_weights=weights(0, 1, 0.0),
            logging_steps=1,
            shuffle_dataset=False,  # `row` decides the order, by row number
            chat_template_kwargs=players.TEMPLATE_OPTIONS,
        ),
        train_dataset=Dataset.from_dict(
            {"row": range((config.max_steps or UNLIMITED_STEPS) * config.batch_size // config.group_size)}
        ).with_transform(lambda batch: _columns([task.row(i) for i in batch["row"]])),
        reward_funcs=[*task.functions, _group_health(config.group_size, solver, samples)],
        rollout_func=task.rollout_func,
        processing_class=tokenizer,
        callbacks=[step_log, saving, guard],
    )
    trainer.add_callback(WeightSchedule(trainer, weights))
    time_parts(trainer, parts)
    decay_to_the_end(trainer, step_log)
    _quiet(trainer)
    _train(trainer, run, config.max_minutes, saving)
    log = read_log(run.dir / "log.jsonl")
    return training_metrics(log, "reward") | best_validation(log, "val_win_rate")


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}
