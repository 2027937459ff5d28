"""Trainer callbacks that SFT and GRPO share. Importing this module loads transformers."""

import functools
import itertools
import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

from wordlelib.runs import Run, log_of

NON_FINITE_IN_A_ROW = 5  # skipped steps after which training stops
PROGRESS_SECONDS = 10  # between two printed lines
PACE_STEPS = 50  # whose median time is the pace of training
SHOWN = ("loss", "eval_loss", "val_win_rate", "reward", "games_win_rate", "tokens_per_s", "step_seconds")
SHOWN += ("generate_seconds", "sync_seconds", "reward_seconds", "update_seconds")


class SkipNonFinite(TrainerCallback):
    """Skip a step whose gradient is NaN or infinite, count it, and stop after five in a row.

    Weights and optimiser state stay as they were, and no checkpoint is written meanwhile: should the
    weights themselves be at fault, the last checkpoint is from before.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self.in_a_row = 0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        gradients = [p.grad for p in kwargs["model"].parameters() if p.grad is not None]
        if torch.nn.utils.get_total_norm(gradients).isfinite():  # one kernel for all, not one for each
            self.in_a_row = 0
            return
        for parameter in kwargs["model"].parameters():
            parameter.grad = None  # an optimiser passes over parameters without a gradient
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row >= NON_FINITE_IN_A_ROW:
            raise FloatingPointError(
                f"the gradient was NaN or infinite {self.in_a_row} steps in a row, up to step "
                f"{state.global_step + 1}: training stopped; the last checkpoint in {args.output_dir} is "
                "good, lower the learning rate and resume from it"
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.in_a_row:
            control.should_save = False


def timed(function: Callable, name: str, seconds: dict[str, float]) -> Callable:
    """`function`, with the time of its calls added to `seconds[name]`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.monotonic() - start

    return call


def time_parts(trainer: Any, parts: dict[str, float]) -> None:
    """Time generation and rewards of a GRPO trainer, by TRL's own methods for them."""
    trainer._generate = timed(trainer._generate, "generate", parts)
    trainer._calculate_rewards = timed(trainer._calculate_rewards, "reward", parts)


class StepLog(TrainerCallback):
    """Write one row a logged step, print progress at a fixed rate, and stop when the time is up.

    Adds to the trainer's own names: `minutes` (training time, earlier parts of a resumed run
    included), `tokens_per_s` (padding not counted), `step_seconds`, `resident_gib` (memory of this
    process), `memory_gib` (the same, or the peak of the GPU), `skipped_steps`. `extra` turns a row into
    further columns of it, such as games on validation secrets, which no step's time counts; `warn` turns a
    row into warnings (anchor to sentence), each printed when it first comes and counted. `parts` is
    what `timed` fills: each part of a step becomes `<part>_seconds`. Numbers that are added here are
    shown to the callbacks that follow.
    """

    def __init__(
        self,
        run: Run,
        max_minutes: float,
        guard: SkipNonFinite,
        extra: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: {},
        warn: Callable[[dict[str, float]], dict[str, str]] = lambda row: {},
        parts: dict[str, float] | None = None,
    ) -> None:
        self.run, self.max_minutes, self.guard, self.extra, self.warn = run, max_minutes, guard, extra, warn
        self.parts = {} if parts is None else parts
        self.warned: dict[str, int] = {}
        self.printed = 0.0
        self.ends: deque[float] = deque(maxlen=PACE_STEPS + 1)  # of the last steps

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.run.rewind_log(state.global_step)
        rows = log_of(self.run.dir)
        self.before = max((row["minutes"] for row in rows), default=0.0)
        self.guard.skipped = rows[-1]["skipped_steps"] if rows else 0
        self.start = self.last = time.monotonic()
        self.step, self.tokens = state.global_step, state.num_input_tokens_seen
        self.ends.append(self.start)
        self.parts.clear()

    def minutes(self) -> float:
        """Training time so far."""
        return self.before + (time.monotonic() - self.start) / 60

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ends.append(time.monotonic())
        if self.max_minutes and self.minutes() >= self.max_minutes:
            control.should_training_stop = True
            control.should_evaluate = args.eval_strategy != "no"  # what is saved has a validation of its own
            control.should_save = True  # what follows in the stage may be stopped, and takes it up from here

    def steps_in_time(self, step: int) -> float:
        """Steps of the whole training, of which `step` are done, by the minutes left and the pace so far."""
        if not self.max_minutes or len(self.ends) < 2:
            return math.inf
        pace = statistics.median(after - before for before, after in itertools.pairwise(self.ends))
        return step + 60 * max(0.0, self.max_minutes - self.minutes()) / pace

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        now, steps, parts = time.monotonic(), state.global_step - self.step, dict(self.parts)
        row = {"step": state.global_step, "minutes": self.minutes()}
        row |= {name: value for name, value in logs.items() if isinstance(value, int | float)}
        row |= self.extra(row)
        self.parts.clear()
        if "loss" in row and steps:
            row["step_seconds"] = (now - self.last) / steps
            row["tokens_per_s"] = (state.num_input_tokens_seen - self.tokens) / (now - self.last)
            if parts:
                row |= {f"{name}_seconds": seconds / steps for name, seconds in parts.items()}
                # sync happens within generation; what is neither of these is the update
                others = sum(seconds for name, seconds in parts.items() if name != "sync")
                row["update_seconds"] = row["step_seconds"] - others / steps
            self.last, self.step, self.tokens = now, state.global_step, state.num_input_tokens_seen
        self.last += time.monotonic() - now
        row |= {"resident_gib": resident_bytes() / 2**30, "memory_gib": memory_gib()}
        row["skipped_steps"] = self.guard.skipped
        self.run.log(row)
        logs.update((name, value) for name, value in row.items() if isinstance(value, int | float))
        self._report(row, state.max_steps)

    def _report(self, row: dict[str, float], max_steps: int) -> None:
        for anchor, sentence in self.warn(row).items():
            if anchor not in self.warned:
                print(f"warning at step {row['step']}: {sentence} (troubleshooting.md#{anchor})", flush=True)
            self.warned[anchor] = self.warned.get(anchor, 0) + 1
        if time.monotonic() - self.printed > PROGRESS_SECONDS:
            shown = [f"{name} {row[name]:.4g}" for name in SHOWN if name in row]
            print(f"step {row['step']}/{max_steps}, {row['minutes']:.1f} min: {', '.join(shown)}", flush=True)
            self.printed = time.monotonic()


def decay_to_the_end(trainer: Any, log: StepLog) -> None:
    """Let the learning rate of a trainer rise over its warm-up and fall linearly to 0 at the end of training.

    The end is `max_steps`, or what comes before: the step at which the minutes of `log` are over, at the pace
    of the last steps. While the minutes suffice, the schedule is transformers' own `linear`.
    """

    def factor(step: int) -> float:
        warmup, steps = trainer.args.get_warmup_steps(trainer.args.max_steps), trainer.args.max_steps
        if step < warmup:
            return step / warmup
        steps = min(steps, log.steps_in_time(step))
        return max(0.0, (steps - step) / max(1, steps - warmup))

    def create_scheduler(num_training_steps: int, optimizer: Any = None) -> Any:
        trainer.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer or trainer.optimizer, factor)
        return trainer.lr_scheduler

    trainer.create_scheduler = create_scheduler


class Checkpoints(TrainerCallback):
    """Ask for checkpoints besides those by steps: by minutes, of the best model so far, at a memory limit.

    `best`: name of the logged number by which a model is the best, the highest one (the lowest of a
    loss); the trainer never deletes that checkpoint. Resident memory above `max_memory_gb` (0 for no
    limit) stops the training after a checkpoint, and `over` then holds what was measured. Raises
    MemoryError when a single step is too much already: a new start would not help.

    Comes after `StepLog`, whose numbers it reads, and before `SkipNonFinite`, which has the last word.
    """

    def __init__(self, best: str, save_minutes: float = 0, max_memory_gb: float = 0) -> None:
        self.best, self.save_minutes, self.max_memory_gb = best, save_minutes, max_memory_gb
        self.over = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.saved, self.first = time.monotonic(), state.global_step

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.saved = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.save_minutes and time.monotonic() - self.saved >= 60 * self.save_minutes:
            control.should_save = True
        resident = resident_bytes() / 10**9
        if not self.max_memory_gb or resident <= self.max_memory_gb:
            return
        if state.global_step == self.first + 1:
            raise MemoryError(
                f"one step of training takes {resident:.2f} GB, more than max_memory_gb "
                f"{self.max_memory_gb:g}: raise it, and resume"
            )
        self.over = resident
        # The row of the steps so far belongs to this process: the next one knows only its own.
        control.should_log = control.should_save = control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        value, sign = logs.get(self.best), -1 if self.best.endswith("loss") else 1
        if value is None or not math.isfinite(value):
            return
        if state.best_metric is None or sign * value > sign * state.best_metric:
            state.best_metric, state.best_global_step = value, state.global_step
            control.should_save = True


class WeightSchedule(TrainerCallback):
    """Set the trainer's reward weights before each step: `weights(step, max_steps, format_share)`.

    The format share is the best so far, so that a phase that has switched stays switched.
    """

    def __init__(self, trainer: Any, weights: Callable[[int, int, float], list[float]]) -> None:
        self.trainer, self.weights = trainer, weights
        self.format_share = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        weights = self.weights(state.global_step, state.max_steps, self.format_share)
        self.trainer.reward_weights = torch.tensor(weights, dtype=torch.float32)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        self.format_share = max(self.format_share, logs.get("format_share", 0.0))


def resident_bytes() -> int:
    """Resident memory of this process."""
    import psutil

    return psutil.Process().memory_info().rss


def memory_gib() -> float:
    """Peak memory of the GPU, or resident memory of this process on a machine without one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return resident_bytes() / 2**30
