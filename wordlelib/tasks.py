"""Training rows without a file: fixed tasks, made when read, the same for the same seed and number."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from wordlelib.data import Row, sft_row, state_row
from wordlelib.solver import Solver
from wordlelib.teachers import task

KINDS = ("sft", "states")
SHARDS = 64  # parts that several readers can share


def make_row(
    solver: Solver, secrets: Sequence[str], seed: int, number: int, kind: str = "sft", **case: Any
) -> Row:
    """Row `number`: a task (`teachers.task`, with its options as `case`) as an SFT row or a GRPO state.

    A function of its arguments alone: the teacher's choice among good guesses is drawn for this row, not
    balanced over rows as in `data.build`. Raises ValueError for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"rows of kind {kind!r}; use one of {', '.join(KINDS)}")
    state = task(solver, secrets, seed, number, **case)
    if kind == "states":
        return state_row(solver, *state)
    return sft_row(solver, *state, random.Random(f"label {seed} {number}"))


def stream(solver: Solver, secrets: Sequence[str], seed: int, n: int, kind: str = "sft", **case: Any) -> Any:
    """The rows 0 to `n` - 1 of `make_row` as a `datasets.IterableDataset`, for SFT or GRPO by TRL.

    It can be shuffled, split among workers and resumed (`state_dict`) like any other. Raises as `make_row`.
    """
    from datasets import IterableDataset

    make_row(solver, secrets, seed, 0, kind, **case)  # what does not fit is said now
    numbers = [range(start, n, SHARDS) for start in range(min(SHARDS, n))]
    of = {"solver": solver, "secrets": tuple(secrets), "seed": seed, "kind": kind, "case": case}
    return IterableDataset.from_generator(_rows, gen_kwargs={"numbers": numbers, **of})


def _rows(
    numbers: list[range], solver: Solver, secrets: tuple[str, ...], seed: int, kind: str, case: dict[str, Any]
) -> Iterator[Row]:
    for part in numbers:
        for number in part:
            yield make_row(solver, secrets, seed, number, kind, **case)
