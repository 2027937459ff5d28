"""Trackers: where else a training log goes, by the reporters that transformers has for them.

Each writes into the stage's folder, under the names that TRL gives its metrics (`train/reward`). Nothing is
sent anywhere unless the environment asks for it (`WANDB_MODE=online`, `TRACKIO_SPACE_ID`), and only
the tracker itself reads its key, from the environment.
"""

import os
import sys
from functools import partial
from importlib.util import find_spec
from typing import Any

from wordlelib.runs import Run, shown_path

PROJECT = "wordle-workbook"


def require(tracker: str) -> None:
    """Raise ValueError that names what to install, when `tracker` needs a package that is not there."""
    if tracker != "none" and find_spec(tracker) is None:
        raise ValueError(f"tracker {tracker} needs a package that is not installed: pip install {tracker}")


def prepare(tracker: str, run: Run) -> dict[str, Any]:
    """What the trainer's arguments say of the tracker; its own settings go to the environment.

    A setting that the user's environment has stays, but for the place of the files.
    """
    folder = str(run.dir / tracker)
    if tracker == "tensorboard":
        os.environ["TENSORBOARD_LOGGING_DIR"] = folder
    elif tracker == "trackio":
        os.environ["TRACKIO_DIR"] = folder
        import trackio

        # In a notebook it would show its page, by an address that holds a key to write to it.
        trackio.init = partial(trackio.init, embed=False)
        if not os.environ.get("TRACKIO_SPACE_ID"):
            # It would ask the hub whose token is in the environment, to write down that name.
            import trackio.run

            trackio.run.Run._get_username = lambda run: None
    elif tracker == "wandb":
        os.environ["WANDB_DIR"] = str(run.dir)  # it makes a folder `wandb` there
        # Neither code nor what is printed, nor reports of its own errors: the log alone, without words.
        quiet = {"WANDB_DISABLE_CODE": "true", "WANDB_DISABLE_GIT": "true", "WANDB_CONSOLE": "off"}
        quiet |= {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
        quiet |= {"WANDB_PROJECT": PROJECT, "WANDB_MODE": "offline"}
        for name, value in quiet.items():
            os.environ.setdefault(name, value)
    return {"report_to": tracker, "project": PROJECT, "run_name": shown_path(run.dir)}


def put_last(trainer: Any) -> None:
    """Let trackers see the log row as it is written: they come before all other callbacks otherwise."""
    from transformers.integrations import get_reporting_integration_callbacks

    for kind in get_reporting_integration_callbacks(trainer.args.report_to):
        trainer.add_callback(trainer.pop_callback(kind))


def finish() -> None:
    """End a run of Weights & Biases: a training that follows in this process would be added to it."""
    wandb = sys.modules.get("wandb")
    if wandb and wandb.run:
        wandb.finish()
