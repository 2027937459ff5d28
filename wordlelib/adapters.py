"""Adapters and what they were trained on: a record beside each, a table of many, several on one base.

PEFT does the work: adapters of one base are loaded side by side, one for each environment, and `set_adapter`
swaps them. Heavy libraries load inside functions.
"""

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wordlelib import data, models, players
from wordlelib.export import base_name
from wordlelib.rules import Rules
from wordlelib.runs import (
    log_of,
    project_path,
    read_json,
    read_yaml,
    replacing_folder,
    shown_path,
    write_json,
)

RECORD = "trained.json"  # in the folder of a saved model
WEIGHTS = ("adapter_model.safetensors", "model.safetensors")
DATA_FILES = {"sft": "sft.jsonl", "sft_continued": "sft.jsonl", "grpo": "states.jsonl"}
COLUMNS = ("model", "weights", "trains", "base", "game", "data", "stage", "steps", "parents")
SHOWN = 8  # hex digits of a hash in a table


def write_record(folder: str | Path, run: str | Path, player: str) -> None:
    """Say in `trained.json` of a model folder what the weights there were trained on.

    base; game and digest of its rules; SHA-256 of the file of rows (of `states_from` where it is set), or
    of the data card where rows were made while training; stage, steps (of this stage), rounds of corrections
    after them; parents: what it goes on from, the nearest first, each with name and SHA-256 of its weights.
    Names are the last parts of paths: folders may be moved.
    """
    folder, run = Path(folder), Path(run)
    source = run / data.STAGE
    card = data.read_card(source)
    rows = log_of(folder.parent)
    sft = read_yaml(run / "02_sft" / "config.yaml")
    own = read_yaml(run / "03_grpo" / "config.yaml") if player == "grpo" else sft
    parent = project_path(sft["model"]) if player == "sft" else run / players.MODEL_FOLDERS["sft"]
    endless = "tasks" in (own.get("rows"), own.get("states"))
    chosen = project_path(own.get("states_from", ""))
    with open(chosen or source / (data.CARD if endless else DATA_FILES[player]), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    record = {
        "base": read_record(parent)["base"] if _is_trained(parent) else base_name(run),
        "game": card["rules"].get("game", Rules.game),
        "rules": card["digest"],
        "data": digest,
        "stage": players.MODEL_FOLDERS[player].removesuffix("/model"),
        "steps": max((row["step"] for row in rows), default=None),
        "rounds": sft.get("correct_rounds", 0) if player == "sft" else 0,
        "parents": [] if player == "sft" and not _is_trained(parent) else lineage(parent),
    }
    write_json(folder / RECORD, record)


def _is_trained(folder: Path) -> bool:
    return (folder / RECORD).is_file()


def read_record(folder: str | Path) -> dict[str, Any]:
    """The record of a model folder; ValueError when it is none of ours."""
    record = read_json(Path(folder) / RECORD)
    if not isinstance(record, dict) or not {"base", "game", "rules", "data", "stage", "parents"} <= set(
        record
    ):
        raise ValueError(
            f"{shown_path(folder)}/{RECORD} does not say what was trained: train the stage again"
        )
    return record


def lineage(folder: Path) -> list[dict[str, str]]:
    """A model and, as far as its record says, its parents, the nearest first."""
    older = read_record(folder)["parents"] if _is_trained(folder) else []
    return [{"name": _name(folder), "weights": weights_of(folder)}, *older]


def _name(folder: Path) -> str:
    """`<run>/02_sft` of a model in a run, else the folder's own name."""
    parts = folder.resolve().parts
    return "/".join(parts[-3:-1]) if parts[-1] == "model" else parts[-1]


def weights_of(folder: str | Path) -> str:
    """SHA-256 of the adapter in a folder, or of its weights; empty where they are in several files."""
    files = [file for name in WEIGHTS if (file := Path(folder) / name).is_file()]
    if not files:
        return ""
    with open(files[0], "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table(folders: Iterable[str | Path]) -> list[dict[str, str]]:
    """A row for each trained model in or below the folders: what it was trained on, by COLUMNS."""
    found = sorted({file.parent for folder in folders for file in Path(folder).rglob(RECORD)})
    return [_row(folder) for folder in found]


def _row(folder: Path) -> dict[str, str]:
    record, rank = read_record(folder), models.described_adapter(folder)[1]
    parents = [f"{parent['name']} {parent['weights'][:SHOWN]}".strip() for parent in record["parents"]]
    steps = f"{record['steps']:,}" if record.get("steps") else "–"
    if rounds := record.get("rounds"):  # older records have none
        steps += f", rounds: {rounds}"
    values = (
        *(shown_path(folder), weights_of(folder)[:SHOWN], f"adapter, rank {rank}" if rank else "all weights"),
        *(record["base"], f"{record['game']} {record['rules'][:SHOWN]}", record["data"][:SHOWN]),
        *(record["stage"], steps, ", ".join(parents) or "–"),
    )
    return dict(zip(COLUMNS, values, strict=True))


def load(adapters: Mapping[str, str | Path], rules: Rules) -> tuple[Any, Any]:
    """One base with several adapters, by name of the environment, and the tokenizer of the first.

    The first is active; `model.set_adapter(name)` swaps. Raises ValueError when a folder holds no adapter or
    one of another base, else as `models.load` does.
    """
    first = next(iter(adapters))
    folders = {name: Path(models.existing(place)) for name, place in adapters.items()}
    for name, place in folders.items():
        base, rank = models.adapter_base(place)
        if not rank:
            raise ValueError(f"{name}: {shown_path(place)} holds no adapter")
        if models.known_base(base) != models.known_base(models.adapter_base(folders[first])[0]):
            raise ValueError(
                f"{name}: the adapter in {shown_path(place)} has another base than the one of {first}: only "
                "adapters of one base can be used together"
            )
    model, tokenizer = models.load(folders[first], rules)
    for name, place in folders.items():
        model.load_adapter(str(place), adapter_name=name, is_trainable=True)
    model.set_adapter(first)
    model.delete_adapter("default")  # the name that the first one had until here
    return model, tokenizer


def stack(
    adapters: Mapping[str, str | Path], out: str | Path, rules: Rules, weights: Mapping[str, float]
) -> None:
    """Write the weighted sum of adapters of one base to `out`, as one adapter of the sum of their ranks.

    What they add to the base is added up exactly (PEFT's `cat`). `out` is a folder like that of any adapter:
    `02_sft.model=out` goes on from it. Raises as `load`.
    """
    model, tokenizer = load(adapters, rules)
    names = list(adapters)
    model.add_weighted_adapter(names, [weights[name] for name in names], "stacked", combination_type="cat")
    folders = [Path(models.existing(adapters[name])) for name in names]
    records = [read_record(folder) for folder in folders if _is_trained(folder)]
    with replacing_folder(out) as temporary:
        model.save_pretrained(temporary, selected_adapters=["stacked"])
        for file in (temporary / "stacked").iterdir():
            file.rename(temporary / file.name)
        (temporary / "stacked").rmdir()
        tokenizer.save_pretrained(temporary)
        for name in (models.BASE_SEAL, models.OWN_BASE):  # which base it is, or the base itself
            if (part := folders[0] / name).exists():
                (shutil.copytree if part.is_dir() else shutil.copy)(part, temporary / name)
        if records:
            parents = [parent for folder in folders for parent in lineage(folder)]
            own = {"stage": "stacked", "steps": None, "rounds": 0, "parents": parents}
            joined = {
                name: "+".join(record[name] for record in records) for name in ("game", "rules", "data")
            }
            write_json(temporary / RECORD, {**records[0], **joined, **own})
