"""The parameters of every notebook, declared once: kind, meaning, unit and range.

Parameter cells, recipes, `papermill -p` and the command line all pass through `resolve`, so a wrong
name, type or range is met with one sentence before anything is loaded.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from wordlelib.rules import CHOICES

NANO_MODELS = ("nano", "nano-large")
REWARD_PRESETS = ("ours", "predibase", "prime", "wordle_solver", "outcome", "binary")
REWARD_PRESETS += ("format_heavy", "short_text", "no_floor")  # faulty on purpose
DATA_FORMS = (
    *("sft", "chat", "prompt", "messages", "instruction", "response", "answer", "predibase", "turns"),
    "traces",
)
PLAYERS = (
    *("untrained", "sft", "sft_continued", "grpo", "embedded", "model", "endpoint"),
    *("random_consistent", "greedy"),
)
KIND_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list such as [a, b]",
}


@dataclass(frozen=True)
class Param:
    """One parameter: `low` and `high` are inclusive, `choices` are the allowed texts (or list items)."""

    kind: type
    meaning: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """What values work, in words."""
        if self.choices:
            names = ", ".join(choice or "empty" for choice in self.choices)
            return ("a list of any of " if self.kind is list else "one of ") + names
        ends = [("from", self.low), ("to", self.high)]
        return " ".join(
            [KIND_NAMES[self.kind]] + [f"{word} {end:,}" for word, end in ends if end is not None]
        )

    def accept(self, value: Any) -> Any:
        """`value` as plain Python of this kind and in range; raises ValueError otherwise."""
        value = _plain(self.kind, value)
        if self.choices and not set(value if self.kind is list else [value]) <= set(self.choices):
            raise ValueError(value)
        if self.choices and self.kind is list and not 0 < len(set(value)) == len(value):
            raise ValueError(value)  # a player named twice would count its games twice
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise ValueError(value)
        return value


def _plain(kind: type, value: Any) -> Any:
    """`value` as a plain bool, int, float, str or list of str; raises ValueError when it is none.

    numpy values and paths become plain ones, since papermill writes any other value as invalid code.
    Texts are read by the declared kind: `-p` passes `true` and `[a, b]` as texts, YAML `1e-5`.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, str) and kind is not str:
        text = value.strip()
        if kind is list and text[:1] + text[-1:] == "[]":
            value = [item for part in text[1:-1].split(",") if (item := part.strip(" '\""))]
        elif kind is bool and text.lower() in ("true", "false"):
            value = text.lower() == "true"
        elif kind in (int, float):
            value = kind(text)
    if kind in (int, float) and type(value) in (int, float):
        if not math.isfinite(value) or value != kind(value):
            raise ValueError(value)
        return kind(value)
    if type(value) is not kind or (kind is list and any(type(item) is not str for item in value)):
        raise ValueError(value)
    return value


RUN = {
    "run": Param(str, "run folder that the stages share", "folder"),
    "overwrite": Param(bool, "replace a finished stage"),
    "seed": Param(int, "seed of everything random in this stage", "", 0, 2**31 - 1),
}
RESUME = {"resume": Param(bool, "go on from the last checkpoint of an unfinished stage")}
LIMITS = {
    "max_steps": Param(int, "optimiser steps, 0 for no limit", "steps", 0),
    "max_minutes": Param(float, "training time, 0 for no limit", "minutes", 0),
}
GENERATION = {
    "temperature": Param(float, "sampling temperature, 0 for greedy decoding", "", 0, 5),
    "max_completion_length": Param(int, "longest completion", "tokens", 8, 4096),
}
SERVER = {
    "concurrency": Param(int, "requests to the server at once", "requests", 1, 1000),
    "requests_per_minute": Param(
        int, "requests to the server in a minute at most, retries included, 0 for no limit", "requests", 0
    ),
    "timeout": Param(
        float, "longest wait for an answer of the server, retries included", "seconds", 0.1, 86400
    ),
}
MICRO_BATCH = "on the device at once, 0 for all of a step: less memory, more time"
ENGINE_MEMORY = Param(float, "share of the GPU's memory for the vLLM engine", "", 0.05, 0.95)
LEARNING_RATE = Param(float, "peak learning rate", "", 1e-9, 1)
# How a training is kept and watched, not what it learns: no part of what makes two stages the same
KEEPING = {
    "save_every": Param(int, "steps between checkpoints", "steps", 1),
    "save_minutes": Param(float, "minutes between checkpoints at most, 0 for no such limit", "minutes", 0),
    "keep_checkpoints": Param(int, "last checkpoints that are kept, besides the best one", "", 1),
    "max_memory_gb": Param(
        float, "memory of the process at which training goes on in a new one, 0 for no limit", "GB", 0
    ),
    "tracker": Param(
        str,
        "where else the log goes, within the stage's folder",
        choices=("none", "tensorboard", "wandb", "trackio"),
    ),
}

BACKEND = Param(
    str,
    "TRL alone on any device (transformers), or Unsloth with vLLM on an NVIDIA GPU (unsloth)",
    choices=("transformers", "unsloth"),
)

PARAMETERS: dict[str, dict[str, Param]] = {
    "00_play_and_solve": {
        "secret": Param(str, "secret word, empty for a random one", "word"),
        "hard_mode": Param(bool, "revealed hints must be used"),
        "model": Param(str, "saved model to play against, on the words of its run", "folder"),
        "answers_file": Param(str, "your own list of secrets to play, empty for the shipped one", "file"),
        "allowed_file": Param(str, "guesses allowed with it, empty for its secrets only", "file"),
        "alphabet": Param(str, "letters of the words: a range and single ones, such as a-zñ", "letters"),
        "seed": RUN["seed"],
    },
    "01_data_synthesis": {
        **RUN,
        "game": Param(str, "board game of OpenSpiel such as tic_tac_toe, empty for Wordle", "game"),
        "answers_file": Param(str, "your own answer list, empty for the shipped one", "file"),
        "allowed_file": Param(str, "your own list of allowed guesses, empty for the shipped one", "file"),
        "alphabet": Param(str, "letters of the words: a range and single ones, such as a-zñ", "letters"),
        "sample_words": Param(
            int,
            "play a small game of so many answers, 0 for the whole list; tasks of a board game",
            "words",
            0,
        ),
        "test_secrets": Param(int, "secrets held out for the report", "words", 1),
        "val_secrets": Param(int, "secrets held out for choosing", "words", 1),
        "split_seed": Param(int, "seed of the split by secret", "", 0, 2**31 - 1),
        "lexicon": Param(
            str, "may training text name held-out words (full) or not (train)", choices=CHOICES["lexicon"]
        ),
        "universe": Param(str, "words that a player believes possible", choices=CHOICES["universe"]),
        "hard_mode": Param(bool, "revealed hints must be used"),
        "renderer": Param(str, "how a state is written", choices=CHOICES["renderer"]),
        "history": Param(
            str, "a new chat each turn (fresh) or one that grows (chat)", choices=CHOICES["history"]
        ),
        "turns": Param(int, "guesses in a game", "turns", 1, 20),
        "n_rows": Param(int, "SFT rows, before duplicates are removed", "rows", 1),
        "n_states": Param(int, "GRPO states before duplicates are removed", "rows", 1),
        "grpo_secrets": Param(
            int, "training secrets that SFT does not see, for GRPO alone; 0: both learn from all", "words", 0
        ),
        "n_clues": Param(int, "SFT rows besides, of words by their letters without a game", "rows", 0),
        "candidates": Param(int, "words named in the thinking, at most", "words", 1, 10),
        "solver_guess": Param(
            str,
            "the consistent word that the solver guesses: most information now, or fewest guesses to the end",
            choices=("information", "fewest"),
        ),
        "ties": Param(
            str,
            "which of equally good guesses: the one made least often so far (rarest), or first words that "
            "are no training secrets (non_secrets), which makes figures of held-out secrets too good",
            choices=("rarest", "non_secrets"),
        ),
        "guess_place": Param(str, "where the guess stands among these words", choices=("first", "last")),
        "thinking": Param(
            str,
            "these words spelled letter by letter, as words, or none of them",
            choices=CHOICES["thinking"],
        ),
        "rejecting": Param(
            float,
            "share of the SFT rows with up to eight words left that first name other words and reject them; "
            "above 0, some clues show strings that were tried and are no words",
            "",
            0,
            1,
        ),
        "duplicates": Param(
            str,
            "SFT rows with equal texts that stay: none, all, or while more than two words are left (early)",
            choices=("none", "early", "all"),
        ),
        "non_words": Param(
            str,
            "those of wasted turns: a word with a letter changed (altered), or letters that fit all feedback",
            choices=("altered", "invented"),
        ),
        "model": Param(
            str, "whose tokenizer measures lengths: nano, nano-large, hub name or folder", "model"
        ),
        "teacher": Param(
            str,
            "who plays for SFT: the solver, a model on a server, or others whose games or rows you have",
            choices=("solver", "endpoint", "file"),
        ),
        "traces": Param(
            str, "these games or rows, in a form that `convert` reads, for the teacher file", "file"
        ),
        "resume": Param(bool, "go on with an unfinished stage: answers of a server are not paid twice"),
        "endpoint": Param(str, "URL of an OpenAI-compatible server, for the teacher endpoint", "URL"),
        "teacher_model": Param(str, "name of the teacher on that server", "model"),
        "teacher_secrets": Param(int, "training secrets that it plays, 0 for all", "words", 0),
        "teacher_games": Param(int, "games that it plays of each secret", "games", 1, 100),
        "keep_games": Param(int, "games kept of each secret at most, the shortest first", "games", 1, 100),
        **SERVER,
        **GENERATION,
        "prompt_price": Param(float, "price of a million prompt tokens", "dollars", 0),
        "completion_price": Param(float, "price of a million completion tokens", "dollars", 0),
        "dry_run": Param(bool, "show prompts and expected cost of the teacher endpoint, and end there"),
    },
    "02_sft": {
        **RUN,
        **RESUME,
        "model": Param(str, "model to start from: nano, nano-large, hub name or folder", "model"),
        "backend": BACKEND,
        "adapter": Param(
            str,
            "train all weights (none), or low-rank matrices on a base in 16 bit (lora) or 4 bit (qlora)",
            choices=("none", "lora", "qlora"),
        ),
        "lora_rank": Param(int, "rank of the low-rank matrices", "", 1, 512),
        "learning_rate": LEARNING_RATE,
        "warmup_steps": Param(int, "steps until the peak learning rate", "steps", 0),
        "batch_size": Param(int, "rows in a step", "rows", 1),
        "micro_batch_size": Param(int, f"rows {MICRO_BATCH}", "rows", 0),
        **LIMITS,
        "eval_every": Param(int, "steps between validations", "steps", 1),
        "max_length": Param(int, "longest prompt and completion together", "tokens", 16, 32768),
        "rows": Param(
            str,
            "rows of stage 01 (file), or ever new ones of its game, made while training (tasks)",
            choices=("file", "tasks"),
        ),
        "batch_order": Param(
            str,
            "rows of similar length share a batch: fifty batches at a time sorted by it, or all at random "
            "(of rows from the file)",
            choices=("sorted", "shuffled"),
        ),
        "correct_rounds": Param(
            int,
            "further rounds on what the model itself gets wrong in clues and games, corrected by the solver",
            "",
            0,
            100,
        ),
        **KEEPING,
    },
    "03_grpo": {
        **RUN,
        **RESUME,
        "backend": BACKEND,
        "engine_memory": ENGINE_MEMORY,
        "learning_rate": LEARNING_RATE,
        "warmup_steps": Param(int, "steps until the peak learning rate", "steps", 0),
        "unit": Param(
            str,
            "what is rewarded: one guess, or a whole game (states, preset and schedule are for turns)",
            choices=("turn", "game"),
        ),
        "group_size": Param(
            int, "completions of one state or games of one secret, compared with each other", "completions", 2
        ),
        "batch_size": Param(int, "completions in a step, a multiple of group_size", "completions", 1),
        "micro_batch_size": Param(int, f"completions {MICRO_BATCH}", "completions", 0),
        **LIMITS,
        "states": Param(
            str,
            "states of stage 01, new ones from games of the policy, both in equal parts, or ever new tasks",
            choices=("fixed", "refreshed", "mixed", "tasks"),
        ),
        "states_from": Param(
            str,
            "states in place of those of stage 01: rows such as lost_states.jsonl of a report, or a list of "
            "training secrets (.txt) whose states are taken; empty for all",
            "file",
        ),
        "refresh_every": Param(int, "steps between new states", "steps", 1),
        "clues": Param(
            float,
            "share of the prompts of refreshed or mixed states that are clues of any word, as in SFT",
            "",
            0,
            1,
        ),
        "mistakes_first": Param(
            bool, "take first those refreshed states and clues that the policy has just answered wrongly"
        ),
        "preset": Param(
            str, "reward terms and weights; the last three are faulty on purpose", choices=REWARD_PRESETS
        ),
        "schedule": Param(str, "how the weights change", choices=("fixed", "phase", "linear")),
        "temperature": Param(float, "sampling temperature", "", 0.01, 5),
        "max_completion_length": GENERATION["max_completion_length"],
        "beta": Param(float, "weight of the distance to the SFT model", "", 0),
        "epsilon": Param(float, "clipping of the policy ratio", "", 0.001, 1),
        "eval_every": Param(int, "steps between games on validation secrets, 0 for none", "steps", 0),
        "control": Param(bool, "then also go on with SFT for the same minutes, to compare"),
        **KEEPING,
    },
    "04_eval": {
        **RUN,
        "resume": Param(
            bool,
            "go on with an unfinished stage: players who were through do not play again, no server is paid "
            "twice",
        ),
        "secrets": Param(str, "secrets that are played", choices=("all", "heldout", "train")),
        "max_games": Param(int, "games of each player, 0 for all secrets", "games", 0),
        "players": Param(list, "players in the table", choices=PLAYERS),
        "data_from": Param(
            str,
            "run or folder with a data card whose words, rules and split are taken: empty for this run, "
            "embedded for the embedded student's, shipped for the shipped lists",
            "folder",
        ),
        "endpoint": Param(str, "URL of an OpenAI-compatible server, for the player endpoint", "URL"),
        "model": Param(
            str, "name of the model on that server; for the player model, a folder or hub name", "model"
        ),
        **SERVER,
        "backend": Param(str, "what generates the answers of models", choices=("transformers", "vllm")),
        "engine_memory": ENGINE_MEMORY,
        "batch_size": Param(int, "games played side by side", "games", 1),
        **GENERATION,
    },
    "05_analysis": {
        **RUN,
        "runs": Param(list, "run folders to compare, empty for this run", "folders"),
        "difference": Param(
            float, "difference of win rates that comparisons are asked about", "points", 0.1, 100
        ),
    },
    "06_replay": {
        "run": Param(str, "run folder whose games are shown", "folder"),
        "secret": Param(str, "secret word to show first, empty for the first game", "word"),
        "player": Param(str, "player to show, empty for all side by side", choices=("", *PLAYERS)),
    },
}
STAGES = tuple(PARAMETERS)
# What a stage did before it had a parameter: configs of such runs do not name it.
BEFORE = {
    "01_data_synthesis": {
        **{"thinking": "spelled", "solver_guess": "information", "ties": "rarest"},
        **{
            "guess_place": "last",
            "duplicates": "none",
            "n_clues": 0,
            "grpo_secrets": 0,
            "rejecting": 0.0,
            "non_words": "altered",
        },
        **{"game": "", "requests_per_minute": 0, "traces": ""},
    },
    "02_sft": {"rows": "file", "batch_order": "sorted", "correct_rounds": 0},
    "03_grpo": {"states_from": "", "clues": 0.0, "mistakes_first": False},
    "04_eval": {"requests_per_minute": 0},
    "05_analysis": {"difference": 5.0},
}

# Earlier stages of the same run that a stage reads, and those that its players of 04 add.
INPUTS = {
    "02_sft": ("01_data_synthesis",),
    "03_grpo": ("01_data_synthesis", "02_sft"),
    "04_eval": ("01_data_synthesis",),
    "05_analysis": ("04_eval",),
}
PLAYER_INPUTS = {
    "untrained": ("02_sft",),
    "sft": ("02_sft",),
    "sft_continued": ("02_sft", "03_grpo"),
    "grpo": ("02_sft", "03_grpo"),
}


def declared(stage: str) -> dict[str, Param]:
    """The parameters of `stage`; raises ValueError with the known stages for another name."""
    if stage not in PARAMETERS:
        raise ValueError(f"no stage {stage!r}; the stages are {', '.join(STAGES)}")
    return PARAMETERS[stage]


def inputs(stage: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The earlier stages of its own run that a stage reads, each with what reads it: `stage` or a player."""
    elsewhere = values.get("data_from") or values.get("runs")
    found = {} if elsewhere else dict.fromkeys(INPUTS.get(stage, ()), stage)
    for player in values.get("players", ()):
        for earlier in PLAYER_INPUTS.get(player, ()):
            found.setdefault(earlier, f"player {player} of {stage}")
    return found


def check_names(stage: str, names: Mapping[str, Any]) -> None:
    """Raise ValueError that names the nearest parameter, unless `stage` declares all `names`."""
    known = declared(stage)
    for name in names:
        if name not in known:
            nearest = get_close_matches(str(name), known, n=1, cutoff=0.0)[0]
            raise ValueError(f"{stage}: unknown parameter {name!r}; did you mean {nearest!r}?")


def resolve(stage: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of `stage` in declared order, as plain Python values of their kinds.

    Raises ValueError with one sentence for an unknown or missing name, a wrong type, a value out
    of range, or values that do not fit each other.
    """
    check_names(stage, values)
    resolved = {}
    for name, param in declared(stage).items():
        if name not in values:
            raise ValueError(f"{stage}: parameter {name!r} ({param.meaning}) is missing")
        try:
            resolved[name] = param.accept(values[name])
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"{stage}: {name} is {values[name]!r}; use {param.range}") from None
    _check_together(stage, resolved)
    for folder in (resolved.get("run", ""), *resolved.get("runs", ())):
        require_local(folder)
    check_stages({stage: resolved})
    return resolved


def require_local(folder: str) -> str:
    """`folder`; raises ValueError for an address such as s3://bucket/run, which is no folder to rename in."""
    if "://" in folder:
        raise ValueError(
            f"the run folder {folder} is an address: name a folder of this machine, and the address by "
            "--store of `run` or `sweep`; or mount it (NFS, SSHFS, rclone, s3fs)"
        )
    return folder


def _check_together(stage: str, values: dict[str, Any]) -> None:
    """What no single range can say: batches of whole groups and parts, and training that ends."""
    if stage == "03_grpo":
        unused = values["states"] in ("refreshed", "tasks") or values["unit"] == "game"
        if values["states_from"] and unused:
            raise ValueError(
                f"{stage}: states_from names states, and with states {values['states']} and unit "
                f"{values['unit']} none of them is used: set states to fixed or mixed, and unit to turn"
            )
        rounds = values["states"] in ("refreshed", "mixed") and values["unit"] == "turn"
        for name, none in (("clues", 0), ("mistakes_first", "false")):
            if values[name] and not rounds:
                raise ValueError(
                    f"{stage}: {name} needs the new states of a round, which states {values['states']} and "
                    f"unit {values['unit']} do not have: set states to refreshed or mixed and unit to turn, "
                    f"or {name} to {none}"
                )
        batch, group = values["batch_size"], values["group_size"]
        if batch % group:
            raise ValueError(
                f"{stage}: batch_size {batch} is not a multiple of group_size {group}; "
                f"use batch_size {math.ceil(batch / group) * group}"
            )
        if values["backend"] == "unsloth" and values["beta"]:
            raise ValueError(
                f"{stage}: with backend unsloth, beta measures the distance to the base model and not to the "
                "SFT model; use beta 0"
            )
    if stage == "01_data_synthesis":
        if values["game"]:
            _check_board(stage, values)
        teaches, given = values["teacher"] == "endpoint", values["teacher"] == "file"
        if not teaches == bool(values["endpoint"]) == bool(values["teacher_model"]):
            raise ValueError(
                f"{stage}: teacher endpoint needs endpoint (a URL) and teacher_model (a name), and they "
                "need it: set all three or none"
            )
        if given != bool(values["traces"]):
            raise ValueError(
                f"{stage}: teacher file needs traces (a file or folder), and traces need it: set both or none"
            )
        if values["dry_run"] and not teaches:
            raise ValueError(
                f"{stage}: dry_run says what a model on a server would cost, and no other teacher costs "
                "anything: set teacher endpoint, or dry_run False"
            )
        if teaches:
            _check_endpoint(values["endpoint"])
        if (teaches or given) and values["grpo_secrets"]:
            raise ValueError(
                f"{stage}: SFT does not see the grpo_secrets, and teacher {values['teacher']} may show them: "
                "use grpo_secrets 0, or teacher solver"
            )
        if teaches and values["renderer"] == "facts":
            raise ValueError(
                f"{stage}: states in facts do not say what form an answer has, and the model behind endpoint "
                "has to be told: use renderer words, or teacher solver"
            )
        if (teaches or given) and values["lexicon"] == "train":
            raise ValueError(
                f"{stage}: under lexicon train no training text may name a held-out word, and every teacher "
                "but the solver knows them: use lexicon full, or teacher solver"
            )
    if stage == "04_eval":
        plays = "endpoint" in values["players"]
        if plays != bool(values["endpoint"]) or (plays and not values["model"]):
            raise ValueError(
                f"{stage}: the player endpoint needs endpoint (a URL) and model (a name), and a URL needs it "
                "among players: set all three or none"
            )
        if plays:
            _check_endpoint(values["endpoint"])
        if "model" in values["players"] and (plays or not values["model"]):
            raise ValueError(
                f"{stage}: the player model needs model (its folder), which names one model alone: set it, "
                "and leave the player endpoint to a run of its own"
            )
    if micro := values.get("micro_batch_size"):
        batch = values["batch_size"]
        if batch % micro:
            raise ValueError(
                f"{stage}: batch_size {batch} is not a multiple of micro_batch_size {micro}; "
                f"use batch_size {math.ceil(batch / micro) * micro}"
            )
    if values.get("adapter") == "qlora" and values["backend"] != "unsloth":
        raise ValueError(f"{stage}: adapter qlora needs backend unsloth; use lora, or an NVIDIA GPU")
    if "max_minutes" in values and not (values["max_steps"] or values["max_minutes"]):
        raise ValueError(f"{stage}: max_steps and max_minutes are both 0, so training would never end")


def _check_board(stage: str, values: dict[str, Any]) -> None:
    needed = {"answers_file": "", "allowed_file": "", "lexicon": "full", "history": "fresh"}
    needed |= {"teacher": "solver", "solver_guess": "information", "ties": "rarest"}
    needed |= {"hard_mode": False, "rejecting": 0.0}
    for name, value in needed.items():
        if values[name] != value:
            raise ValueError(
                f"{stage}: {name} is of Wordle, and the game is {values['game']}: use {name} {value!r}"
            )
    if not values["sample_words"]:
        raise ValueError(f"{stage}: {values['game']} needs a number of tasks: set sample_words above 0")


def _check_endpoint(url: str) -> None:
    """As `endpoints.check_url`, before the URL is shown and written."""
    from wordlelib.endpoints import check_url

    check_url(url)


def check_stages(stages: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ValueError for resolved parameters of several stages that do not fit each other.

    Known before a run for the stages that it executes, and in a notebook with those of earlier stages.
    """
    sft, grpo = stages.get("02_sft", {}), stages.get("03_grpo", {})
    if grpo.get("backend") == "unsloth" and sft.get("adapter") == "none":
        raise ValueError(
            "03_grpo: backend unsloth needs an adapter, and 02_sft has adapter none: use lora or qlora "
            "there, or backend transformers here"
        )
    for stage, values in stages.items():
        if sft.get("model") in NANO_MODELS and values.get("backend", "transformers") != "transformers":
            raise ValueError(
                f"{stage}: model {sft['model']} has its own tokenizer and layers; use backend transformers"
            )


def markdown_table(stage: str) -> str:
    """The table shown above the parameter cell: name, meaning, unit, range."""
    rows = [
        f"| `{name}` | {param.meaning} | {param.unit or '–'} | {param.range} |"
        for name, param in declared(stage).items()
    ]
    return "\n".join(["| parameter | meaning | unit | range |", "| --- | --- | --- | --- |", *rows])
