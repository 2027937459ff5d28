"""Training rows without a file: fixed tasks, made when read, the same for the same seed and number.

02_sft (`rows: tasks`) and 03_grpo (`states: tasks`) train on them; of 01 they read the data card alone.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from wordlelib.data import Data, Row, sft_row, state_row
from wordlelib.solver import Solver, solver_for
from wordlelib.states import chosen_states
from wordlelib.teachers import task, ties_from

KINDS = ("sft", "states")
SHARDS = 64  # parts that several readers can share
ENDLESS = 10**12  # rows, of which a training reads as many as its steps take


def make_row(
    solver: Solver,
    secrets: Sequence[str],
    seed: int,
    number: int,
    kind: str = "sft",
    candidates: int = 3,
    guess_place: str = "last",
    ties: str = "rarest",
    rejecting: float = 0.0,
    **case: Any,
) -> Row:
    """Row `number`: a task (`teachers.task`, with its options as `case`) as an SFT row or a GRPO state.

    candidates, guess_place, ties, rejecting: of the teacher's thinking and guess in an SFT row, as for
    `data.build`.

    A function of its arguments alone: the teacher's choice among good guesses is drawn for this row, not
    balanced over rows as in `data.build`. Raises ValueError for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"rows of kind {kind!r}; use one of {', '.join(KINDS)}")
    state = task(solver, secrets, seed, number, **case)
    if kind == "states":
        return state_row(solver, *state)
    rng = random.Random(f"label {seed} {number}")
    how = (candidates, ties_from(secrets, ties), guess_place, rejecting, case.get("known", ()))
    return sft_row(solver, *state, rng, *how)


def _of(source: Data, seed: int, secrets: Sequence[str]) -> dict[str, Any]:
    """The arguments of `make_row` by which a data folder was made; `seed` is the training's own."""
    teacher = source.card.get("solver_guess", "information")  # data of before have no other
    solver = solver_for(source.training_words, source.rules, teacher)
    own = {name: source.card[name] for name in ("mix", "candidates", "guess_place")}
    return {
        "solver": solver,
        "secrets": secrets,
        "seed": seed,
        "known": source.words.dictionary,
        "ties": source.card.get("ties", "rarest"),
        "rejecting": source.card.get("rejecting", 0.0),
        **own,
    }


def sft_rows(source: Data, config: SimpleNamespace) -> Any:
    """What 02 trains on, by its `rows`: the file as a Dataset, or endless ones as an IterableDataset."""
    if getattr(config, "rows", "file") == "file":  # a 02 of before has no such parameter
        return source.dataset("sft")
    return stream(n=ENDLESS, **_of(source, config.seed, source.sft_secrets))


def states(source: Data, solver: Solver, config: SimpleNamespace) -> Sequence[Row] | Callable[[int], Row]:
    """What 03 trains on, by its `states`: those of a file (`chosen_states`), or a function from a number to a
    state."""
    if config.states != "tasks":
        return chosen_states(source, solver, config.states_from)
    of = _of(source, config.seed, source.grpo_secrets)
    return lambda number: make_row(number=number, kind="states", **of)


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
