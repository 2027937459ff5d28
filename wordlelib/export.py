"""Export: a trained model made ready for others: model card, merged 16-bit weights, GGUF, the hub, and the
student embedded in the package.

Whatever is made here is compared with the model as it was trained, and appears whole or not at all.
Heavy libraries load inside functions.
"""

import copy
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from wordlelib import data, models, params, players, report, tasks
from wordlelib.game import decode_history
from wordlelib.runs import (
    NEVER_COMPARED,
    Run,
    project_path,
    read_json,
    read_yaml,
    replacing_folder,
    secret_value,
    shown_path,
    status,
    write_text,
)

PLAYER_OF = {"02_sft": "sft", "03_grpo": "grpo"}
CARD = "README.md"
EXPORTED = "Exported by `python -m wordlelib export --to"  # tells an export's card from a training's
EMBEDDED_BYTES = 8_000_000  # of the embedded student, which every checkout carries
WEIGHTS_COMPARED = 64  # prompts that a merged model must answer as the adapter model does

# What may differ between two forms of the same weights. `gap`: nats between the two tokens where greedy
# answers part; `logits`: as `logits_difference` says. A bfloat16 logit from 16 to 32 is a multiple of
# 1/8: on Qwen2.5-Coder-0.5B with a random adapter a right merge moves single logits by up to 0.44 (0.014
# of their spread), so that tokens half a nat apart, at most, can change places.
TOLERANCES = {"float32": {"gap": 0.01, "logits": 0.001}, "bfloat16": {"gap": 0.5, "logits": 0.05}}


# The model card ----------------------------------------------------------------------------------

TRAINED_BY = {"sft": "SFT", "sft_continued": "continued SFT", "grpo": "SFT and GRPO"}
TRAINED_HOW = {
    "sft": "supervised fine-tuning (SFT) on the turns of a solver",
    "sft_continued": "supervised fine-tuning (SFT) on the turns of a solver, gone on with for as many "
    "minutes as GRPO takes (the control of GRPO)",
    "grpo": "supervised fine-tuning (SFT) on the turns of a solver, then GRPO on rewards that a program "
    "checks",
}
RESULTS_READ = """\
Wins with Wilson's 95% interval; a lost game counts as one guess more than its turns. `random_consistent`
plays any word that fits all feedback (of a board game, any legal move), `greedy` is a one-step solver (the
best move): both choose from lists, the model writes freely."""
LEXICON = {
    "full": "training text may name held-out words, but no training game has one as its secret",
    "train": "held-out words appear in no training text",
}
BOARD_LIMITS = """\
- It knows this game, this prompt and an opponent that moves at random: the teacher's moves are the best
  against that one. Tasks differ in the opponent's replies alone, so held-out ones have positions of training.
- It can name moves that are not legal: check every one."""
LIMITS = """\
- A base model from a hub has seen such word lists in its pre-training: "held out" means held out from this
  training, not unknown to the model. The nano model starts from nothing and has seen only its data.
- It knows this prompt, this length of words and these lists. Other prompts or games are outside its training.
- It can name words that do not exist or that contradict the feedback: check every guess.
- Its thinking, if any, imitates the solver's list of candidates: no account of how the guess arose."""


def write_card(folder: str | Path, run: str | Path, player: str, note: str = "") -> None:
    """Write the Hub's model card `README.md` into a model folder.

    `player`: whose weights they are, a key of `players.MODEL_FOLDERS`; `run`: the run folder that trained
    them. Results stand in it once 04_eval has played these weights. `note`: a line on how the folder was
    made. A base given as a local folder is named by its last part: no path of this machine is written.
    """
    import yaml

    run = Path(run)
    card = data.read_card(run / "01_data_synthesis")
    game = card["rules"].get("game")  # Wordle without one
    plays = f"{game} one move" if game else "Wordle one guess"
    front_matter = _front_matter(Path(folder), run, player, game or "wordle")
    front = yaml.safe_dump(front_matter, sort_keys=False, allow_unicode=True)
    sections = (
        f"# {game or 'Wordle'} player: {base_name(run)} after {TRAINED_BY[player]}",
        f"A language model that plays {plays} at a time. It was trained with the Wordle workbook: "
        f"{TRAINED_HOW[player]}.",
        note,
        f"## Data\n\n{_board_data(card) if game else _data(card)}",
        f"## Training\n\n{_training(run, player)}",
        f"## Results\n\n{_results(run, player)}",
        f"## How to use\n\n{_usage(Path(folder), run)}",
        f"## Limits\n\n{BOARD_LIMITS if game else LIMITS}",
    )
    write_text(Path(folder) / CARD, f"---\n{front}---\n\n" + "\n\n".join(filter(None, sections)) + "\n")


def base_name(run: Path) -> str:
    """What the training started from: a nano model, a hub name, or the last part of a local folder's path."""
    name = read_yaml(run / "02_sft" / "config.yaml")["model"]
    local = name.startswith((".", "/", "~")) or name.count("/") > 1 or project_path(name).is_dir()
    return Path(name).name if local else name


def _front_matter(folder: Path, run: Path, player: str, game: str) -> dict[str, Any]:
    base, library = base_name(run), _library(folder)
    licence = "mit" if base in models.NANO_SHAPES else _licence_of_base(run)
    front = {} if base in models.NANO_SHAPES else {"base_model": base}
    front |= {"library_name": library, "license": licence or "other"}
    front |= {} if licence else {"license_name": "that-of-the-base-model"}
    method = "grpo" if player == "grpo" else "sft"
    lora = ["lora"] if library == "peft" else []
    return front | {"pipeline_tag": "text-generation", "tags": [game, "trl", method, *lora]}


def _library(folder: Path) -> str:
    if any(folder.glob("*.gguf")):
        return "gguf"
    return "peft" if (folder / "adapter_config.json").is_file() else "transformers"


def _licence_of_base(run: Path) -> str | None:
    """What the card of a local base folder says; a hub name is not asked for over the network."""
    card = project_path(read_yaml(run / "02_sft" / "config.yaml")["model"]) / CARD
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    found = re.search(r"^license: *([\w.-]+) *$", text, re.MULTILINE)
    return found[1] if found and found[1] != "other" else None


def _data(card: dict[str, Any]) -> str:
    rules = card["rules"]
    answers, allowed = card["words"]["answers"], card["words"]["allowed"]
    return f"""\
- Rules `{card["digest"]}`: {rules["length"]} letters, {rules["turns"]} turns, hard mode \
{"on" if rules["hard_mode"] else "off"}, states in {rules["renderer"]}, history {rules["history"]}.
- Answers: {answers["count"]:,} words, SHA-256 `{answers["sha256"]}`.
- Allowed guesses: {allowed["count"]:,} words, SHA-256 `{allowed["sha256"]}`.
- Split by secret: {_split(card)}.
- Lexicon `{card["lexicon"]}`: {LEXICON[card["lexicon"]]}.
{_row_counts(card)}"""


def _split(card: dict[str, Any]) -> str:
    sizes, apart = card["split_sizes"], len(card.get("grpo_secrets", ()))
    alone = f" ({apart:,} of them in GRPO alone)" if apart else ""
    return f"{sizes['train']:,} to train{alone}, {sizes['val']:,} to choose, {sizes['test']:,} held out"


def _row_counts(card: dict[str, Any]) -> str:
    sft, states = (card["files"][part]["rows"] for part in ("sft", "states"))
    twice = {"early": "twice only while more than two words are left", "all": "as often as games gave it"}
    each = twice.get(card.get("duplicates"), "none twice")
    return f"- {sft:,} SFT rows, {each}, and {states:,} GRPO states, none twice."


def _board_data(card: dict[str, Any]) -> str:
    return f"""\
- Rules `{card["digest"]}`: {card["rules"]["game"]} of OpenSpiel, {card["rules"]["turns"]} turns.
- Split by task: {_split(card)}.
{_row_counts(card)}"""


def _training(run: Path, player: str) -> str:
    stages = ["02_sft", "03_grpo"] if player == "grpo" else ["02_sft"]
    return "\n\n".join([*(_settings(run, stage) for stage in stages), *_effort(run, player)])


def _settings(run: Path, stage: str) -> str:
    """The parameters of a stage as a table."""
    config = read_yaml(run / stage / "config.yaml") | ({"model": base_name(run)} if stage == "02_sft" else {})
    rows = [
        [f"`{name}`", str(config[name]), param.meaning]
        for name, param in params.declared(stage).items()
        if name in config and name not in NEVER_COMPARED
    ]
    return f"`{stage}`:\n\n{report.piped([['parameter', 'value', 'meaning'], *rows])}"


def _effort(run: Path, player: str) -> list[str]:
    """Steps and minutes of the last stage, once it is finished."""
    stage, prefix = _stage(run, player), "control_" * (player == "sft_continued")
    if status(stage)["status"] != "done":
        return []
    metrics, gpu = read_json(stage / "metrics.json"), read_json(stage / "environment.json").get("gpu")
    steps, minutes = metrics[f"{prefix}steps"], metrics[f"{prefix}minutes"]
    best = metrics.get(f"{prefix}best_step")
    said = f", not those of the best validation (step {best:,})" if best and best != steps else ""
    of = f"{steps:,} steps in {minutes:.1f} minutes on {gpu or 'a CPU'}."
    if rounds := player == "sft" and metrics.get("correct_minutes"):
        of += (
            f" Then {rounds:.1f} minutes of rounds on {metrics['correct_rows']:,} wrong answers of its own, "
            "corrected by the solver, and on other rows. These are the weights after the last round."
        )
        return [of]
    return [f"{of} These are the weights after the last step{said}."]


def _stage(run: Path, player: str) -> Path:
    return run / players.MODEL_FOLDERS[player].partition("/")[0]


def _results(run: Path, player: str) -> str:
    metrics = _metrics(run, player)
    names = (player, "random_consistent", "greedy")
    rows = [_result(metrics, name, split) for split in ("heldout", "train", "all") for name in names]
    if not any(rows):
        return "Not evaluated yet."
    head = ["player", "secrets", "games", "wins", "95% interval", "guesses"]
    return f"{report.piped([head, *filter(None, rows)])}\n\n{RESULTS_READ}"


def _metrics(run: Path, player: str) -> dict[str, Any]:
    """Metrics of 04_eval when it is finished and played the weights that are there now, else none."""
    stage, evaluated = _stage(run, player), status(run / "04_eval")
    made = status(stage).get("ended")
    if evaluated["status"] != "done" or not made or evaluated["inputs"].get(stage.name) != made:
        return {}
    return read_json(run / "04_eval" / "metrics.json")


def _result(metrics: dict[str, Any], player: str, split: str) -> list[str]:
    """A row of the results table, empty when the player did not play these secrets."""
    prefix = f"{player}/{split}/"
    if f"{prefix}win_rate" not in metrics:
        return []
    own = {key.removeprefix(prefix): value for key, value in metrics.items() if key.startswith(prefix)}
    interval = f"{own['win_rate_low']:.1%} to {own['win_rate_high']:.1%}"
    games, guesses = f"{own['games']:,}", f"{own['mean_guesses_loss7']:.2f}"
    return [player, split, games, f"{own['win_rate']:.1%}", interval, guesses]


def _usage(folder: Path, run: Path) -> str:
    row = _example(run / "01_data_synthesis")
    chat = json.dumps(row["prompt"], indent=4, ensure_ascii=False)
    return f"""\
It is asked with its tokenizer's chat template (`enable_thinking=False`) and decoded greedily. Each turn is
asked like this, with what came of earlier ones:

```python
chat = {chat}
```

The answer has this form; the guess is what stands in the last tag:

```text
{row["completion"][0]["content"]}
```

{_snippet(folder, run)}"""


def _example(folder: Path) -> dict[str, Any]:
    """The first training row of a data folder that shows feedback, made anew where it keeps no rows."""
    if (folder / "sft.jsonl").is_file():
        with open(folder / "sft.jsonl", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in islice(lines, 100)]
    else:
        endless = tasks.sft_rows(data.load(folder), SimpleNamespace(rows="tasks", seed=0))
        rows = list(islice(endless, 20))
    return max(rows, key=lambda row: bool(decode_history(row["history"])))


def _snippet(folder: Path, run: Path) -> str:
    library = _library(folder)
    if library == "gguf":
        return "The `.gguf` file holds the chat template and runs in llama.cpp and the programs built on it."
    imports, load = "", "model = AutoModelForCausalLM.from_pretrained(folder)"
    if library == "peft":
        own = (folder / models.OWN_BASE).is_dir()
        base = f'folder, subfolder="{models.OWN_BASE}"' if own else f'"{base_name(run)}"'
        imports = "from peft import PeftModel\n"
        load = f"model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained({base}), folder)"
    return f"""\
```python
{imports}from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder, or its name on the hub
tokenizer = AutoTokenizer.from_pretrained(folder)
{load}
ids = tokenizer.apply_chat_template(
    chat, add_generation_prompt=True, enable_thinking=False, return_dict=True, return_tensors="pt"
)
answer = model.generate(**ids, max_new_tokens=128, do_sample=False)
print(tokenizer.decode(answer[0, ids["input_ids"].shape[1] :], skip_special_tokens=True))
```"""


# Comparing two forms of the same weights ---------------------------------------------------------


class Agreement(NamedTuple):
    """How far two greedy players of the same weights agree.

    prompts: how many were answered. share: of equal answers, 0 to 1. gap: the largest difference in
    log-probability, in nats, between the two tokens where answers part: 0 when all are equal,
    infinite when one answer only stops earlier.
    """

    prompts: int
    share: float
    gap: float

    def __str__(self) -> str:
        return f"{round(self.share * self.prompts)} of {self.prompts} greedy answers equal" + (
            f", the others part between tokens at most {self.gap:.3g} nats apart" if self.share < 1 else ""
        )


def answers_agree(
    first: players.Generator, second: players.Generator, prompts_ids: Sequence[Sequence[int]], scorer: Any
) -> Agreement:
    """Compare the greedy answers of two generators to the same prompts (token ids).

    Where answers part, `scorer` (a transformers model of the weights that both should have) says how
    far apart the two tokens are. The words after that place are not compared: they follow other texts.
    """
    ids, seeds = [list(prompt) for prompt in prompts_ids], [0] * len(prompts_ids)
    answers = list(zip(ids, first(ids, seeds), second(ids, seeds), strict=True))
    gaps = [_gap(scorer, prompt, one, other) for prompt, one, other in answers if one != other]
    return Agreement(len(answers), 1 - len(gaps) / len(answers), max(gaps, default=0.0))


def _gap(scorer: Any, prompt: list[int], first: list[int], second: list[int]) -> float:
    place = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if place is None:
        return math.inf
    logits = _logits(scorer, prompt + first[:place])[-1]
    return abs(logits[first[place]] - logits[second[place]]).item()  # the normaliser cancels


def _logits(model: Any, ids: Sequence[int]) -> Any:
    """float32 logits [places, vocabulary]; the model is set back to training if it was."""
    import torch

    training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([list(ids)], device=model.device)).logits[0].float()
    model.train(training)
    return logits


def logits_difference(first: Any, second: Any, prompts_ids: Sequence[Sequence[int]]) -> float:
    """How far the logits of two models differ over all places of the prompts.

    Root mean square of the difference, as a share of the standard deviation of the first's logits: 0
    when they are equal, about 1.4 when they have nothing to do with each other.
    """
    differences, spreads = [], []
    for ids in prompts_ids:
        logits = _logits(first, ids)
        differences.append((logits - _logits(second, ids)).square().mean().item())
        spreads.append(logits.var().item())
    return math.sqrt(statistics.mean(differences) / statistics.mean(spreads))


# Merged weights ----------------------------------------------------------------------------------


def merge(
    model: Any,
    tokenizer: Any,
    folder: str | Path,
    prompts_ids: Sequence[Sequence[int]],
    dtype: str = "bfloat16",
) -> Agreement:
    """Fold the adapter into its 16- or 32-bit base, save as `dtype`, reload from disk, and compare.

    `prompts_ids`: token ids of the prompts to compare on. The reloaded weights must give the logits
    and the greedy answers of `model` within `TOLERANCES[dtype]`; an answer that differs is accepted
    only where it parts between two tokens as close as that. A model without an adapter is saved as it
    is. `model` is left alone. Raises ValueError for a quantized base, an adapter that is all zero, or
    weights that differ (which stay in `folder`); OSError when they cannot be written.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    if getattr(model, "is_quantized", False):
        raise ValueError("merging into 4-bit weights loses the training: load the base in 16 bit first")
    models.require_trained_adapter(model)
    merged = copy.deepcopy(model)
    if hasattr(merged, "merge_and_unload"):
        merged = merged.merge_and_unload()
    try:
        models.save(merged.to(getattr(torch, dtype)), tokenizer, folder)
    except SafetensorError as error:  # its own kind of "no space left on device"
        raise OSError(f"the weights could not be written ({error})") from None
    del merged
    reloaded = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(model.device)
    return _require_same(model, reloaded, tokenizer, prompts_ids, TOLERANCES[dtype])


def _require_same(
    model: Any, reloaded: Any, tokenizer: Any, prompts_ids: Sequence[Sequence[int]], most: dict[str, float]
) -> Agreement:
    difference = logits_difference(model, reloaded, prompts_ids)
    agreement = answers_agree(
        players.transformers_generator(model, tokenizer),
        players.transformers_generator(reloaded, tokenizer),
        prompts_ids,
        model,
    )
    # written so that NaN is refused too
    if not (difference <= most["logits"] and agreement.gap <= most["gap"]):
        raise ValueError(
            f"the merged weights are not the model that was trained: logits differ by {difference:.2%} of "
            f"the spread (at most {most['logits']:.1%}), {agreement} (at most {most['gap']}): keep the "
            "adapter"
        )
    return agreement


def merged(run: str | Path, stage: str = "03_grpo", out: str | Path = "", overwrite: bool = False) -> str:
    """Write the 16-bit weights of a finished stage to `out` (`<run>/<stage>/merged`); says how they agree.

    They are compared with the adapter model on 64 states of the run's data before the folder gets its
    name. Raises ValueError, FileNotFoundError or FileExistsError, and OSError when the disk is full;
    nothing is left behind then.
    """
    folder = Path(out or Path(run) / stage / "merged")
    source = _trained(run, stage, folder, overwrite)
    with replacing_folder(folder) as temporary:
        agreement = _merge_stage(Path(run), stage, source, temporary)
    return f"{shown_path(folder)}: {agreement}"


def _merge_stage(run: Path, stage: str, source: data.Data, folder: Path, form: str = "merged") -> Agreement:
    """The merged weights of a stage with the data card and a model card, which says the form of export."""
    model, tokenizer = models.load(run.resolve() / stage / "model", source.rules)
    agreement = merge(model, tokenizer, folder, _prompts(source, tokenizer))
    note = (
        f"{EXPORTED} {form}`: 16-bit weights, reloaded and compared with the model as trained: {agreement}."
    )
    write_card(folder, run, PLAYER_OF[stage], note)
    shutil.copyfile(source.folder / data.CARD, folder / data.CARD)  # which game it plays
    return agreement


def embedded(run: str | Path, stage: str = "03_grpo", overwrite: bool = False) -> str:
    """Install the model of a finished stage as the embedded student; says how its 16-bit weights agree.

    It then plays on any CPU: `eval --player embedded`, notebook 00, `play --model embedded`. The folder
    `models.EMBEDDED_FOLDER` holds weights, tokenizer, model card and the data card. Raises ValueError for a
    model of more than `EMBEDDED_BYTES` and for a game on lists of one's own, which others do not have;
    otherwise as `merged` does. Nothing is left behind then.
    """
    folder = models.EMBEDDED_FOLDER
    source = _trained(run, stage, folder, overwrite)
    if own := [name for name in ("answers", "allowed") if source.card["words"]["source"].get(name)]:
        raise ValueError(
            f"the model plays your own list of {own[0]}: the embedded student plays shipped words"
        )
    with replacing_folder(folder) as temporary:
        agreement = _merge_stage(Path(run), stage, source, temporary, "embedded")
        size = sum(file.stat().st_size for file in temporary.iterdir())
        if size > EMBEDDED_BYTES:
            raise ValueError(
                f"the model takes {size / 1e6:,.1f} MB in 16 bit, and the embedded student may take "
                f"{EMBEDDED_BYTES / 1e6:g}: train nano or nano-large"
            )
    return f"{shown_path(folder)}: {size / 1e6:.1f} MB, {agreement}"


def _prompts(source: data.Data, tokenizer: Any) -> list[list[int]]:
    """Token ids of states of the run's data, the same ones each time."""
    rows = source.rows("states")
    drawn = random.Random(0).sample(rows, min(len(rows), WEIGHTS_COMPARED))
    return players.prompt_ids(tokenizer, [row["prompt"] for row in drawn])


def _trained(run: str | Path, stage: str, out: Path, overwrite: bool) -> data.Data:
    """The data of a run whose `stage` is finished, once `out` is seen to be free."""
    source = _inputs(run, stage)
    if out.exists() and not overwrite:
        raise FileExistsError(f"{shown_path(out)} is there already: --overwrite replaces it")
    card = out / CARD
    if out.exists() and not (card.is_file() and EXPORTED in card.read_text(encoding="utf-8")):
        raise FileExistsError(f"{shown_path(out)} holds what no export made: choose another --out")
    return source


def _inputs(run: str | Path, stage: str) -> data.Data:
    """The data of a run, made from and for the finished stage that is there now."""
    reader = Run("export", SimpleNamespace(), Path(run).resolve() / "export", resumed=False)
    reader.input(stage)
    return data.load(reader.input("01_data_synthesis"))


# GGUF --------------------------------------------------------------------------------------------


def converter() -> list[str]:
    """The command of llama.cpp's converter: in the folder `LLAMA_CPP`, or on the path.

    Raises FileNotFoundError saying what to install when there is none.
    """
    script = Path(os.environ.get("LLAMA_CPP", "")) / "convert_hf_to_gguf.py"
    if os.environ.get("LLAMA_CPP") and script.is_file():
        return [sys.executable, str(script)]
    for name in ("convert_hf_to_gguf.py", "convert-hf-to-gguf"):
        if found := shutil.which(name):
            return [found]
    raise FileNotFoundError(
        "llama.cpp's convert_hf_to_gguf.py was not found: `git clone https://github.com/ggml-org/llama.cpp`, "
        "`pip install gguf sentencepiece`, then give its folder, "
        "LLAMA_CPP=llama.cpp python -m wordlelib export --to gguf …"
    )


def gguf(
    run: str | Path,
    stage: str = "03_grpo",
    out: str | Path = "",
    overwrite: bool = False,
    outtype: str = "bf16",
) -> str:
    """Write `model-<outtype>.gguf` to the folder `out` (`<run>/<stage>/gguf`) by llama.cpp's converter.

    It converts weights merged and compared as `merged` does. `outtype`: a type that the converter
    knows (bf16, f16, q8_0, …). Raises as `merged` does, and ValueError with the converter's last line.
    """
    folder = Path(out or Path(run) / stage / "gguf")
    source, command = _trained(run, stage, folder, overwrite), converter()
    with replacing_folder(folder) as temporary:
        weights = temporary / "merged"
        agreement = _merge_stage(Path(run), stage, source, weights)
        _convert(command, weights, temporary / f"model-{outtype}.gguf", outtype)
        shutil.rmtree(weights)
        note = f"{EXPORTED} gguf`: {outtype}, converted from 16-bit weights for which {agreement}."
        write_card(temporary, run, PLAYER_OF[stage], note)
    return f"{shown_path(folder)}: converted from weights for which {agreement}"


def _convert(command: list[str], weights: Path, file: Path, outtype: str) -> None:
    options = [str(weights), "--outfile", str(file), "--outtype", outtype]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    if done.returncode or not file.is_file():
        said = (done.stderr.strip() or done.stdout.strip() or "it wrote no file").splitlines()[-1]
        raise ValueError(f"{Path(command[-1]).name} failed: {said}")


# The hub -----------------------------------------------------------------------------------------


def hub_token() -> str:
    """`HF_TOKEN` of the environment, else of the project's `.env`; ValueError when there is none."""
    token = secret_value("HF_TOKEN")
    if not token:
        raise ValueError("no HF_TOKEN in the environment or in .env: nothing is pushed without one")
    return token


def hub(run: str | Path, stage: str = "03_grpo", repo: str = "", out: str | Path = "") -> str:
    """Push the model of a finished stage, or the exported folder `out`, to `repo` (`user/name`).

    A new repository is private until its owner changes that. The card is written anew first, so that
    it has the results. Raises ValueError for a missing name or token, or an adapter whose base is a
    folder of this machine; ConnectionError, without the token, when the hub refuses.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise ValueError(f"--repo is {repo!r}: name the repository as user/name")
    token = hub_token()
    _inputs(run, stage)
    folder = Path(out) if out else Path(run) / stage / "model"
    if not folder.is_dir():
        raise FileNotFoundError(f"{shown_path(folder)} is no folder: export to it first")
    _require_public_base(folder)
    if not out:
        write_card(folder, run, PLAYER_OF[stage])
    if failure := _upload(folder, repo, token):
        raise ConnectionError(f"nothing was pushed to {repo}: {failure}")
    return f"{shown_path(folder)} is pushed to {repo}"


def _require_public_base(folder: Path) -> None:
    config = folder / "adapter_config.json"
    base = read_json(config)["base_model_name_or_path"] if config.is_file() else None
    if base and Path(base).is_absolute():
        raise ValueError(
            f"the adapter's base {Path(base).name} is a folder of this machine, which others do not have: "
            "export --to merged, then push that folder with --out"
        )


def _upload(folder: Path, repo: str, token: str) -> str | None:
    """None, or why it failed: a text without the token, and no exception that would carry it along."""
    from huggingface_hub import HfApi

    try:
        api = HfApi(token=token)
        api.create_repo(repo, private=True, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Upload a Wordle player")
    except Exception as error:  # of several libraries, none of which may show the token
        return f"{type(error).__name__}: {error}".replace(token, "…")
    return None
