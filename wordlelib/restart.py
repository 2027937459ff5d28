"""Stages of a run executed one after another, and again in a new process when training asks for one.

A library that loses memory is cured by a new process alone: training writes a checkpoint at
`max_memory_gb` and stops (`runs.MemoryLimit`), and its notebook is executed once more with `resume`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wordlelib import recipes, runs


def execute_all(
    stages: Mapping[str, Mapping[str, Any]], out: Path, after: Callable[[str], None] = lambda stage: None
) -> None:
    """As `recipes.execute_all`, but a stage that stopped at its memory limit goes on in a new kernel.

    Each kernel makes a step at least, else its stage fails, so that this ends.
    """
    while stages:
        try:
            return recipes.execute_all(stages, out, after)
        except recipes.StageFailed as error:
            begun = (name for name in stages if str(error).startswith(f"notebook {name} "))
            stage = next(begun, None)
            if stage is None or not stopped_for_memory(out / stage):
                raise
            print(f"{runs.status(out / stage)['error']}\n{stage}: goes on in a new process", flush=True)
            names = list(stages)
            stages = {name: stages[name] for name in names[names.index(stage) :]}
            stages[stage] = {**stages[stage], "resume": True, "overwrite": False}


def stopped_for_memory(folder: Path) -> bool:
    """True for a stage whose training stopped at `max_memory_gb`."""
    return runs.status(folder).get("error", "").startswith(f"{runs.MemoryLimit.__name__}:")
