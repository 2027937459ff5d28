"""What a run took: minutes of its stages, and the games that its models won by then. Read from its files."""

from datetime import datetime
from pathlib import Path

from wordlelib.runs import environment_of, log_of, read_json, shown_path, status

STAGES = ("01_data_synthesis", "02_sft", "03_grpo", "04_eval")
TRAINING = ("02_sft", "03_grpo")


def stage_minutes(folder: str | Path) -> dict[str, float]:
    """Minutes of each finished stage of a run from the opening of its folder, after its imports, to its end;
    loading and control included.

    A stage that was resumed counts its last start and, of those before, the minutes of training in its log:
    no more is known of them. Stages without a record of their start are left out.
    """
    found = {}
    for stage in STAGES:
        own = Path(folder) / stage
        record = environment_of(own)
        started = record.get("started")
        ended = status(own).get("ended")
        if started and ended:
            try:
                taken = datetime.fromisoformat(ended) - datetime.fromisoformat(started)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{shown_path(own)}: its times are no times ({error})") from None
            seconds = taken.total_seconds() + record.get("earlier_seconds", 0.0)
            logged = [row["minutes"] for row in log_of(own)]  # runs of before lack those earlier seconds
            found[stage] = max([seconds / 60, *logged])
    return found


def player_minutes(folder: str | Path) -> dict[str, float]:
    """Minutes from the start of the data to the end of each model's training; `untrained` took none.

    Models whose stages are not all timed are left out. GRPO and its control start from the same SFT, and
    neither counts the other; the loading of 03 counts for GRPO.
    """
    stages, found = stage_minutes(folder), {"untrained": 0.0}
    if not {"01_data_synthesis", "02_sft"} <= set(stages):
        return found
    found["sft"] = stages["01_data_synthesis"] + stages["02_sft"]
    if "03_grpo" in stages:
        control = _minutes(Path(folder) / "03_grpo", "control")
        found["grpo"] = found["sft"] + stages["03_grpo"] - control
        if control:
            found["sft_continued"] = found["sft"] + control
    return found


def validations(folder: str | Path) -> list[tuple[float, float]]:
    """(minutes since the start of the data, share of games won) at each validation of the training."""
    stages, points = stage_minutes(folder), []
    before = stages.get("01_data_synthesis", 0.0)
    for stage in TRAINING:
        rows = log_of(Path(folder) / stage)
        if stage not in stages or not rows:
            continue
        control = _minutes(Path(folder) / stage, "control")
        after = control + _minutes(Path(folder) / stage, "correct")
        loading = stages[stage] - after - rows[-1]["minutes"]
        points += [
            (before + loading + row["minutes"], row["val_win_rate"]) for row in rows if "val_win_rate" in row
        ]
        before += stages[stage] - control
    return points


def _minutes(stage: Path, part: str) -> float:
    """Minutes of what follows the training of a stage, by its metrics: `control`, or `correct`ions."""
    path = stage / "metrics.json"
    return read_json(path).get(f"{part}_minutes", 0.0) if path.is_file() else 0.0
