"""The GPU memory that a recipe needs, by formulas: what fits a card, and what to lower when it does not.

A stage's peak is what stays (weights, adapter, gradients, optimiser, the engine's cache) plus the larger
of what training and generation need for a while. All sizes inside this module are bytes, tables are in
GiB (2**30 bytes). A card of "N GB" is planned with N * 10**9 bytes: some of that name have 7% more.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from wordlelib import params, players, recipes, reference, report
from wordlelib.models import ENGINE_SEQUENCES
from wordlelib.runs import project_path, project_root, read_json, shown_path, write_text

GIB = 2**30
GB = 10**9

# --- Estimates: read in the sources of torch 2.11, unsloth 2026.10.9, peft 0.21 and vllm 0.26 ---------
# Bytes that the forward pass keeps for the backward pass, per token and layer and per unit of the hidden
# width, the query width, the key or value width, and the intermediate width. Counted from the tensors that
# each operation saves, two bytes each where bfloat16. unsloth: inputs and outputs of both norms (its LoRA
# functions share the outputs), q and attention output, k and v, gate and up. transformers with PEFT: norm
# inputs in float32, an input copy for each adapter, silu(gate) and its product with up besides; a test
# counts these.
# Of all weights, each layer's own input is kept in place of the adapters' copies; with unsloth as measured.
KEPT = {
    "unsloth": (8, 4, 4, 4),
    "unsloth, all weights": (16, 4, 4, 4),
    "transformers": (18, 6, 4, 8),
    "transformers, all weights": (26, 4, 4, 8),  # float32 weights: the sum of the layers is float32 too
}
# Qwen3 norms queries and keys before the rotation and keeps those inputs too: per unit of both widths.
KEPT_BY_QK_NORM = {
    "unsloth": 2,
    "unsloth, all weights": 6,
    "transformers": 4,
    "transformers, all weights": 6,
}
# Bytes a token in use while one layer runs, per unit of hidden and intermediate width: gradients of a
# layer's input and output, and of gate and up.
AT_WORK = (8, 4)
# Unsloth computes the loss in pieces of the batch. SFT: its budget is 4 GiB at 16 bytes a logit, of which
# its compiled kernels use about 10 (bfloat16 logits and gradient, float32 in between); on an H100 the
# peak of 128 rows leaves room for half a GiB. GRPO: 2 GiB.
LOSS_BYTES_PER_LOGIT = {"02_sft": 10, "03_grpo": 8}
LOSS_PIECE = {"02_sft": 0.5 * GIB, "03_grpo": 2.0 * GIB}
# TRL's loss on whole logits: bfloat16 logits, float32 copy, log-softmax and gradient, bfloat16 gradient.
PLAIN_LOSS_BYTES_PER_LOGIT = 16
# The engine's own tensors at their largest, which it sets aside before it sizes its cache: sampling for
# all sequences, or reading 8,192 prompt tokens. vLLM 0.26 on an H100 reported 0.24 GiB for 512 sequences.
ENGINE_BYTES_PER_LOGIT = 4
ENGINE_TOKENS = 8192
ENGINE_BYTES_PER_TOKEN = 8  # per unit of intermediate width
ENGINE_OUTSIDE_TORCH = 0.07 * GIB  # reported in the same place
# Beside the tensors: CUDA context and libraries, captured graphs of the engine (1.05 GiB for 102 of them,
# the same place), and what the allocator holds between tensors of changing size.
CONTEXT = 0.7 * GIB
ENGINE_GRAPHS = 1.05 * GIB
FRAGMENTATION = 0.05  # share of what training needs for a while
# Longest prompt and SFT row (five words named) in tokens of Qwen's tokenizer: of 400,000 states with `words`
# 256 and 299, of 6,000 with `both` 302 and 345, with `symbols` 147 and 190, of 60,000 with many non-words and
# `facts` 137 and 180; and a margin, since Qwen3's template adds four and more states find longer ones.
LONGEST_PROMPT = {"words": 264, "both": 316, "facts": 146, "symbols": 160}
LONGEST_ROW = {"words": 312, "both": 368, "facts": 194, "symbols": 210}
LONGEST_REJECTED = 40  # what five words of five letters, rejected first, add to a row: 35, and a margin

# --- Facts of formats -------------------------------------------------------------------------------
BF16, FP32 = 2, 4
# nf4 with double quantisation (QLoRA paper): 4 bits, an 8-bit scale for 64 weights, 32 bits for 256 scales.
NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
ADAM_MOMENTS = 2

FEWEST_ROWS = 8  # a smaller micro-batch leaves the card idle: other parameters are lowered before
SHARE_STEP = 20  # engine_memory is advised in steps of 1/20
CARDS = (16, 24, 48, 80)  # GB
STAGES = ("02_sft", "03_grpo", "04_eval")
PEAK, TOTAL = "peak of tensors", "total on the card"
ORDER = (
    *("weights", "adapter", "gradients and optimiser", "engine: KV cache", "training: activations"),
    *("training: loss", "generation: KV cache", "generation: work", PEAK, "CUDA context"),
    *("fragmentation", TOTAL),
)
PAGE = "notebooks/recipes/README.md"
START, END = "<!-- plan:start -->", "<!-- plan:end -->"

Settings = Mapping[str, Mapping[str, Any]]  # stage to its parameters
Parts = dict[str, float]  # what needs memory to bytes


class Shape(NamedTuple):
    """Dimensions of a Qwen2.5 or Qwen3 model. qk_norm: norms of queries and keys in place of biases."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    qk_norm: bool

    @property
    def query(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Width of all key heads together, and of all value heads."""
        return self.kv_heads * self.head_dim

    @property
    def linear(self) -> int:
        """Parameters of the linear layers in the blocks: what 4-bit loading quantises."""
        attention = self.hidden * (2 * self.query + 2 * self.key)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def other(self) -> int:
        """All other parameters: embeddings, the output layer unless tied, norms, biases."""
        small = 2 * self.head_dim if self.qk_norm else self.query + 2 * self.key
        tables = self.vocab * self.hidden * (1 if self.tied else 2)
        return tables + self.layers * (2 * self.hidden + small) + self.hidden


# From the config.json of each model on its hub page; all have 151,936 tokens and tied embeddings.
MODELS = {
    "Qwen/Qwen2.5-0.5B-Instruct": Shape(24, 896, 4864, 14, 2, 64, 151936, True, False),
    "Qwen/Qwen3-0.6B": Shape(28, 1024, 3072, 16, 8, 128, 151936, True, True),
    "Qwen/Qwen2.5-1.5B-Instruct": Shape(28, 1536, 8960, 12, 2, 128, 151936, True, False),
    "Qwen/Qwen3-1.7B": Shape(28, 2048, 6144, 16, 8, 128, 151936, True, True),
    "Qwen/Qwen2.5-3B-Instruct": Shape(36, 2048, 11008, 16, 2, 128, 151936, True, False),
    "Qwen/Qwen3-4B": Shape(36, 2560, 9728, 32, 8, 128, 151936, True, True),
}


SIZES = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
SIZES_WITH_DEFAULT = ("num_key_value_heads", "head_dim")


def model_shape(name: str) -> Shape:
    """Dimensions of a hub name in `MODELS`, or of a local folder from its `config.json`.

    Raises ValueError naming the known models for any other name, and an entry of a config that is no size.
    """
    if name in MODELS:
        return MODELS[name]
    folder = project_path(name)
    if not (folder and (folder / "config.json").is_file()):
        raise ValueError(
            f"the dimensions of model {name!r} are not known: use {', '.join(MODELS)}, or --model with a "
            "folder that holds config.json"
        )
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise ValueError(f"{shown_path(folder)}/config.json: describes no model")
    for key in (*SIZES, *(key for key in SIZES_WITH_DEFAULT if config.get(key) is not None)):
        if type(config.get(key)) is not int or config[key] < 1:
            raise ValueError(f"{shown_path(folder)}/config.json: {key} is {config.get(key)!r}, not a size")
    heads = config["num_attention_heads"]
    return Shape(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        vocab=config["vocab_size"],
        tied=config.get("tie_word_embeddings", False),
        qk_norm=config.get("model_type") == "qwen3",
    )


def recipe_settings(name: str, changes: Settings | None = None) -> dict[str, dict[str, Any]]:
    """All parameters of each stage of a recipe, as they would be run, with `changes` on top.

    Raises ValueError as `recipes.read_recipe` and `params.resolve` do, and for a stage that a recipe
    without training lacks or `changes` alone names.
    """
    recipe, changes = recipes.read_recipe(name), changes or {}
    for stage in (*changes, "01_data_synthesis", "02_sft"):
        if stage not in recipe:
            raise ValueError(f"recipe {name} has no stage {stage!r}; it has {', '.join(recipe)}")
    return {
        stage: params.resolve(stage, {**recipes.defaults(stage), **values, **changes.get(stage, {})})
        for stage, values in recipe.items()
    }


def _model(settings: Settings) -> str:
    return settings["02_sft"]["model"]


def card_bytes(gpu_gb: float) -> float:
    """Memory of a card sold as `gpu_gb` GB; raises ValueError unless it is a positive number."""
    if not (math.isfinite(gpu_gb) and gpu_gb > 0):
        raise ValueError(f"--gpu-gb is {gpu_gb:g}; use the memory of your card in GB, such as 24")
    return gpu_gb * GB


def weight_bytes(shape: Shape, four_bit: bool = False) -> float:
    """Bytes of all weights in bfloat16, or with the blocks' linear layers in 4 bit."""
    return shape.linear * (NF4 if four_bit else BF16) + shape.other * BF16


def adapter_parameters(shape: Shape, rank: int) -> int:
    """Parameters of low-rank matrices on the seven linear layers of each block."""
    attention = 2 * (shape.hidden + shape.query) + 2 * (shape.hidden + shape.key)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.intermediate))


def kept_bytes(shape: Shape, backend: str, adapter: str) -> float:
    """Bytes a token that the forward pass keeps for the backward pass, without gradient checkpointing."""
    way = f"{backend}, all weights" if adapter == "none" else backend
    hidden, query, key, intermediate = KEPT[way]
    extra = KEPT_BY_QK_NORM[way] * shape.qk_norm
    return shape.layers * (
        hidden * shape.hidden
        + (query + extra) * shape.query
        + (key + extra) * shape.key
        + intermediate * shape.intermediate
    )


def cache_bytes(shape: Shape) -> int:
    """Bytes a token of keys and values in bfloat16."""
    return 2 * shape.layers * shape.key * BF16


def _at_work(shape: Shape) -> int:
    return AT_WORK[0] * shape.hidden + AT_WORK[1] * shape.intermediate


def engine_work_bytes(shape: Shape) -> int:
    """What the vLLM engine sets aside for its own tensors."""
    sampling = ENGINE_SEQUENCES * ENGINE_BYTES_PER_LOGIT * shape.vocab
    return max(sampling, ENGINE_TOKENS * ENGINE_BYTES_PER_TOKEN * shape.intermediate)


def _row_tokens(settings: Settings, stage: str) -> int:
    """Tokens of the longest prompt and what a stage that generates may add to it."""
    data = SimpleNamespace(**settings["01_data_synthesis"])
    longest = settings["02_sft"]["max_length"]
    prompt = min(LONGEST_PROMPT[data.renderer], longest) if data.history == "fresh" else longest
    return players.longest_sequence(data, prompt, settings[stage]["max_completion_length"])


def _held(stage: str, settings: Settings, shape: Shape) -> Parts:
    """What a training stage holds from its start to its end."""
    sft = settings["02_sft"]
    weights = weight_bytes(shape, sft["adapter"] == "qlora")
    if sft["adapter"] == "none":  # gradients and moments have the precision of the weights
        plain = settings[stage]["backend"] == "transformers"  # trains float32 beside copies in bfloat16
        precision, parameters = FP32 if plain else BF16, shape.linear + shape.other
        return {
            "weights": weights + plain * FP32 * parameters,
            "adapter": 0,
            "gradients and optimiser": (1 + ADAM_MOMENTS) * precision * parameters,
        }
    trained = adapter_parameters(shape, sft["lora_rank"])  # float32 on both backends
    return {
        "weights": weights,
        "adapter": FP32 * trained,
        "gradients and optimiser": (1 + ADAM_MOMENTS) * FP32 * trained,
    }


def _training(stage: str, settings: Settings, shape: Shape, tokens: int, scored: int) -> Parts:
    """What a training step needs for a while: `tokens` at once, logits for `scored` of them."""
    backend, adapter = settings[stage]["backend"], settings["02_sft"]["adapter"]
    if backend == "unsloth":
        loss = min(scored * shape.vocab * LOSS_BYTES_PER_LOGIT[stage], LOSS_PIECE[stage])
    else:
        loss = scored * shape.vocab * PLAIN_LOSS_BYTES_PER_LOGIT
    return {
        "training: activations": tokens * kept_bytes(shape, backend, adapter),
        "training: loss": max(loss, tokens * _at_work(shape)),
    }


def _plain_generation(shape: Shape, rows: int, tokens: int) -> Parts:
    """Generation with transformers: `rows` of `tokens` side by side."""
    return {
        "generation: KV cache": rows * tokens * cache_bytes(shape),
        "generation: work": rows * tokens * _at_work(shape),
    }


def _engine(shape: Shape, weights: float, asked: float) -> Parts:
    """A vLLM engine that was given `asked` bytes for weights, own work and cache."""
    work = engine_work_bytes(shape)
    return {
        "engine: KV cache": max(0.0, asked - weights - work - ENGINE_OUTSIDE_TORCH),
        "generation: work": work,
    }


def _sft(settings: Settings, shape: Shape, card: float) -> Parts:
    own = settings["02_sft"]
    tokens = _rows(own) * own["max_length"]
    return _held("02_sft", settings, shape) | _training("02_sft", settings, shape, tokens, tokens)


def _grpo(settings: Settings, shape: Shape, card: float) -> Parts:
    own, rows = settings["03_grpo"], _rows(settings["03_grpo"])
    length, completion = _row_tokens(settings, "03_grpo"), own["max_completion_length"]
    held = _held("03_grpo", settings, shape)
    training = _training("03_grpo", settings, shape, rows * length, rows * completion)
    if own["backend"] == "unsloth":
        generation = _engine(shape, held["weights"], own["engine_memory"] * card)
    else:
        generation = _plain_generation(shape, own["batch_size"], length)
    return held | training | generation


def _eval(settings: Settings, shape: Shape, card: float) -> Parts:
    own, weights = settings["04_eval"], weight_bytes(shape)
    if own["backend"] == "vllm":
        generation = _engine(shape, weights, own["engine_memory"] * card)
    else:
        generation = _plain_generation(shape, own["batch_size"], _row_tokens(settings, "04_eval"))
    return {"weights": weights} | generation


PARTS: dict[str, Callable[[Settings, Shape, float], Parts]] = {
    "02_sft": _sft,
    "03_grpo": _grpo,
    "04_eval": _eval,
}


def _rows(own: Mapping[str, Any]) -> int:
    return own["micro_batch_size"] or own["batch_size"]


def _has_engine(own: Mapping[str, Any]) -> bool:
    return own["backend"] in ("unsloth", "vllm") and "engine_memory" in own


def stage_memory(stage: str, settings: Settings, gpu_gb: float) -> Parts:
    """Bytes that a stage needs, part by part, on a card of `gpu_gb` GB (an engine takes a share of it).

    `PEAK` is what `torch.cuda.max_memory_allocated()` should show (for 04_eval in the engine's own
    process), `TOTAL` what the card must have.
    Parts named `training:` and `generation:` take turns; the peak holds the larger of the two sums.
    """
    parts = PARTS[stage](settings, model_shape(_model(settings)), card_bytes(gpu_gb))
    training, generation = _sum_of(parts, "training:"), _sum_of(parts, "generation:")
    stays = sum(parts.values()) - training - generation
    parts[PEAK] = stays + max(training, generation)
    parts["CUDA context"] = CONTEXT
    if _has_engine(settings[stage]):
        parts["CUDA context"] += ENGINE_GRAPHS + ENGINE_OUTSIDE_TORCH
    parts["fragmentation"] = FRAGMENTATION * training
    parts[TOTAL] = parts[PEAK] + parts["CUDA context"] + parts["fragmentation"]
    return parts


def _sum_of(parts: Parts, kind: str) -> float:
    return sum(size for name, size in parts.items() if name.startswith(kind))


def memory(settings: Settings, gpu_gb: float) -> dict[str, Parts]:
    """`stage_memory` of each of `STAGES` that the recipe has; ValueError as `params.check_stages`."""
    params.check_stages(settings)
    return {stage: stage_memory(stage, settings, gpu_gb) for stage in STAGES if stage in settings}


def least_share(stage: str, settings: Settings, gpu_gb: float) -> float:
    """The smallest `engine_memory`, in steps of 0.05, that holds the weights and one group's cache."""
    own, shape = settings[stage], model_shape(_model(settings))
    four_bit = stage == "03_grpo" and settings["02_sft"]["adapter"] == "qlora"
    cache = own.get("group_size", 1) * _row_tokens(settings, stage) * cache_bytes(shape)
    least = weight_bytes(shape, four_bit) + engine_work_bytes(shape) + ENGINE_OUTSIDE_TORCH + cache
    return math.ceil(SHARE_STEP * least / card_bytes(gpu_gb)) / SHARE_STEP


def fits(stage: str, settings: Settings, gpu_gb: float) -> bool:
    """Whether a stage runs on a card of `gpu_gb` GB, its engine included."""
    own = settings[stage]
    if _has_engine(own) and own["engine_memory"] < least_share(stage, settings, gpu_gb):
        return False
    return stage_memory(stage, settings, gpu_gb)[TOTAL] <= card_bytes(gpu_gb)


def advice(settings: Settings, gpu_gb: float) -> dict[str, Any] | None:
    """What to set so that every stage fits: `stage.name` to value; empty when all fit as they are.

    Rows side by side come first, down to `FEWEST_ROWS`; then the engine's share, lengths that no row
    uses, 4-bit weights; then fewer rows still; last a smaller model. None when not even the smallest
    known model fits in any of these ways.
    """
    sizes = {name: weight_bytes(shape) for name, shape in MODELS.items()}
    now = _model(settings)
    smaller = [name for name in MODELS if sizes[name] < weight_bytes(model_shape(now))]
    for model in (now, *sorted(smaller, key=sizes.get, reverse=True)):
        # 01 counts the tokens of its rows with the tokenizer of the model that 02 trains
        changes = {} if model == now else {"01_data_synthesis.model": model, "02_sft.model": model}
        for stage in STAGES:
            if stage in settings and changes is not None:
                changes = _stage_advice(stage, settings, changes, gpu_gb)
        if changes is not None:
            return changes
    return None


def _stage_advice(
    stage: str, settings: Settings, changes: dict[str, Any], gpu_gb: float
) -> dict[str, Any] | None:
    """`changes` and the first further ones with which the stage fits, None when there are none."""
    for fewest in (FEWEST_ROWS, 1):
        for more in _relief(stage, with_changes(settings, changes), gpu_gb):
            for fewer in _fewer_rows(stage, settings[stage], fewest):
                tried = changes | more | fewer
                if fits(stage, with_changes(settings, tried), gpu_gb):
                    return tried
    return None


def _fewer_rows(stage: str, own: Mapping[str, Any], fewest: int) -> Iterator[dict[str, int]]:
    """No change, then ever fewer rows at once; a micro-batch must divide the batch."""
    yield {}
    if "micro_batch_size" in own:
        batch = own["batch_size"]
        for rows in range(_rows(own) - 1, fewest - 1, -1):
            if batch % rows == 0:
                yield {f"{stage}.micro_batch_size": rows}
    elif not _has_engine(own):
        for power in range(own["batch_size"].bit_length() - 1, -1, -1):
            if fewest <= 2**power < own["batch_size"]:
                yield {f"{stage}.batch_size": 2**power}


def _relief(stage: str, settings: Settings, gpu_gb: float) -> Iterator[dict[str, Any]]:
    """Changes beside the rows, the least costly first: each of the engine's shares for each of them."""
    sft, data = settings["02_sft"], settings["01_data_synthesis"]
    longest = LONGEST_ROW[data["renderer"]] + (LONGEST_REJECTED if data["rejecting"] else 0)
    steps: list[dict[str, Any]] = [{}]
    if stage != "04_eval":
        if sft["max_length"] > longest and data["history"] == "fresh":
            steps.append({"02_sft.max_length": longest})
        if sft["adapter"] != "qlora" and sft["backend"] == "unsloth":
            steps.append(steps[-1] | {"02_sft.adapter": "qlora"})
    for step in steps:
        if not _has_engine(settings[stage]):
            yield step
            continue
        share = settings[stage]["engine_memory"]
        least = least_share(stage, with_changes(settings, step), gpu_gb)
        if least <= share:
            yield step
        most = min(SHARE_STEP - 1, math.floor(SHARE_STEP * max(share, least)))
        for part in range(most, round(SHARE_STEP * least) - 1, -1):
            if part / SHARE_STEP != share:
                yield step | {f"{stage}.engine_memory": part / SHARE_STEP}


def with_changes(settings: Settings, changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`settings` with `stage.name` values changed."""
    changed = {stage: dict(values) for stage, values in settings.items()}
    for target, value in changes.items():
        stage, _, name = target.partition(".")
        changed[stage][name] = value
    return changed


def set_options(changes: Mapping[str, Any]) -> str:
    """Changes as options of the command line."""
    return " ".join(f"--set {target}={value}" for target, value in changes.items())


def verdict(settings: Settings, gpu_gb: float) -> tuple[bool, str]:
    """Whether all stages fit, and a sentence that says so or what to set."""
    needs = {stage: parts[TOTAL] / GIB for stage, parts in memory(settings, gpu_gb).items()}
    card = f"{gpu_gb:g} GB ({card_bytes(gpu_gb) / GIB:.1f} GiB)"
    changes = advice(settings, gpu_gb)
    if changes == {}:
        most = max(needs, key=needs.get)
        return True, f"It fits {card}: {most} needs most, {needs[most]:.1f} GiB."
    stage = next(stage for stage in needs if not fits(stage, settings, gpu_gb))
    reason = f"{stage} needs {needs[stage]:.1f} GiB"
    if needs[stage] * GIB <= card_bytes(gpu_gb):
        reason = f"{stage} needs engine_memory {least_share(stage, settings, gpu_gb):g}"
    if changes is None:
        return False, f"It does not fit {card}: {reason}, and no known model fits with any setting."
    return False, f"It does not fit {card}: {reason}; it fits with {set_options(changes)}"


def table(stages: Mapping[str, Parts]) -> str:
    """GiB of each part in each stage, as aligned text."""
    rows = [["GiB", *stages]]
    for name in ORDER:
        sizes = [parts.get(name, 0) / GIB for parts in stages.values()]
        if any(sizes):
            rows.append([name, *(f"{size:.2f}" if size else "–" for size in sizes)])
    lines = [f"{name:<24}" + "".join(f"{size:>10}" for size in sizes) for name, *sizes in rows]
    return "\n".join(lines)


def update_page() -> None:
    """Write the planned figures of all recipes with a known model into the page about recipes."""
    page = project_root() / PAGE
    write_text(page, reference.with_part(page, START, END, _page_part()))


def _page_part() -> str:
    planned = {name: recipe_settings(name) for name in recipes.recipe_names()}
    planned = {name: settings for name, settings in planned.items() if _model(settings) in MODELS}
    names = sorted(planned, key=lambda name: weight_bytes(MODELS[_model(planned[name])]))
    header = ["recipe", *(f"{stage}: {what}" for stage in STAGES for what in ("peak", "card"))]
    as_they_are = [[*header, "02_sft: minutes", "03_grpo: minutes"]]
    for_cards = [["recipe", "card", "needs, GiB", "options"]]
    for name in names:
        as_they_are.append([f"`{name}`", *_needs(planned[name]), *_minutes(planned[name])])
        for_cards += [[f"`{name}`", f"{gb} GB", *_options(planned[name], gb)] for gb in CARDS]
    return "\n\n".join(
        [
            f"GiB on a card of {max(CARDS)} GB, of which an engine takes a share; minutes of training that "
            "the recipe allows, its control included:",
            report.piped(as_they_are),
            "Options of `python -m wordlelib run` for a card:",
            report.piped(for_cards),
        ]
    )


def _needs(settings: Settings) -> list[str]:
    stages = memory(settings, max(CARDS)).values()
    return [f"{parts[what] / GIB:.1f}" for parts in stages for what in (PEAK, TOTAL)]


def _minutes(settings: Settings) -> list[str]:
    sft, grpo = settings["02_sft"], settings["03_grpo"]
    return [f"{sft['max_minutes']:g}", f"{grpo['max_minutes'] * (1 + grpo['control']):g}"]


def _options(settings: Settings, gpu_gb: float) -> list[str]:
    changes = advice(settings, gpu_gb)
    if changes is None:
        return ["–", "fits in no way"]
    stages = memory(with_changes(settings, changes), gpu_gb).values()
    most = max(parts[TOTAL] for parts in stages)
    return [f"{most / GIB:.1f}", f"`{set_options(changes)}`" if changes else "none"]
