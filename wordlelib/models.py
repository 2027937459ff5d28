"""Models: the nano model, loading, adapters, saving. Heavy libraries load inside functions."""

import copy
import hashlib
import importlib
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from wordlelib import prompts
from wordlelib.rules import Rules
from wordlelib.runs import output_of, project_path, replacing_folder, shown_path
from wordlelib.words import alphabet_letters, capitals


class NanoShape(NamedTuple):
    """Dimensions of a nano model: widths, layers, attention heads."""

    hidden: int
    intermediate: int
    layers: int
    heads: int


# 0.14 million parameters learn a game of 256 words on a CPU in minutes; 2.7 million are for the full lists
# and a GPU, and still play them on any CPU.
NANO_SHAPES = {"nano": NanoShape(64, 128, 3, 4), "nano-large": NanoShape(192, 512, 6, 6)}
# The embedded student: a trained nano model in the package, beside the data card of its training.
EMBEDDED, EMBEDDED_FOLDER = "embedded", Path(__file__).with_name("embedded")
OWN_BASE = "base"  # folder inside an adapter's, for a base that has no name of its own
BASE_SEAL = "base.sha256"  # in an adapter's folder: which weights it belongs to, if they are in a folder
COUNTED_AT_ONCE = 1024  # texts whose tokens are in memory together, at some 100 bytes a token
PAD, END, UNKNOWN = "<|pad|>", "<|end|>", "<|unknown|>"
ROLES = {"user": "<|user|>", "assistant": "<|assistant|>"}

# The nano model never sees the system message: it is trained from scratch on one game, whose rules
# its weights hold. Everything else is the conversation that larger models see.
NANO_TEMPLATE = (
    "{% for message in messages %}{% if message.role != 'system' %}"
    "{{ '<|' + message.role + '|>' + message.content + '<|end|>' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def nano_vocabulary(rules: Rules) -> list[str]:
    """Token strings of the nano tokenizer: special tokens, the pieces that states and completions
    are made of, letters alone and after a space, and printable ASCII so that any prompt encodes."""
    letters = alphabet_letters(rules.alphabet)
    large = list(map(capitals, letters))
    marks = [f":{word}" for word in prompts.MARK_WORDS.values()] + list(prompts.MARK_SYMBOLS.values())
    pieces = [PAD, END, UNKNOWN, *ROLES.values()]
    pieces += [prompts.THINK, prompts.END_THINK, prompts.GUESS, prompts.END_GUESS]
    pieces += [f"Turn {n} of {rules.turns}." for n in range(1, rules.turns + 1)]
    pieces += [f"\nGuess {n}:" for n in range(1, rules.turns + 1)]
    pieces += ["\nPattern:", "\nPresent:", "\nAbsent:", " _", " (not"]
    if rules.renderer == "facts":
        pieces += ["\nTried:", "\nNo further:", "\nNot:", "\nNot words:", " in", prompts.NO]
    pieces += [f" {n}" for n in range(1, rules.length + 1)]
    pieces += [f" {capital}{mark}" for capital in large for mark in marks]
    pieces += [f" {capital}" for capital in large] + large + list(letters)
    for text in (rules.no_guess_text, rules.not_a_word_text, rules.hard_mode_text):
        pieces += [" " + text.replace("{guess}", "").strip()]
    pieces += [chr(code) for code in range(32, 127)] + ["\n"]
    return list(dict.fromkeys(pieces))


def nano_tokenizer(rules: Rules) -> Any:
    """A `PreTrainedTokenizerFast` that maps the text of a game to few tokens and back exactly.

    The longest piece of the vocabulary wins at each place; other characters become one unknown
    token each.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = nano_vocabulary(rules)
    longest_first = sorted(vocabulary, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first)) + r"|[\s\S]"
    model = models.WordLevel({piece: i for i, piece in enumerate(vocabulary)}, unk_token=UNKNOWN)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=list(ROLES.values()),
        chat_template=NANO_TEMPLATE,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def nano_model(tokenizer: Any, seed: int = 0, name: str = "nano") -> Any:
    """A small Qwen3 of the shape `name` with fresh weights, the same for the same seed."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = NANO_SHAPES[name]
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def _quiet() -> None:
    """Progress bars of a second's work would fill an executed notebook."""
    import datasets
    import transformers

    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()


def device() -> str:
    """`cuda`, `mps` or `cpu`: the best that this machine has."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def load_tokenizer(name: str | Path, rules: Rules) -> Any:
    """The tokenizer of a nano model, a hub name or a local folder, set to pad on the left for generation.

    Raises ValueError when it cannot write every letter of the rules, or its files are not whole.
    """
    from transformers import AutoTokenizer

    if str(name) in NANO_SHAPES:
        return nano_tokenizer(rules)
    folder = existing(name)
    if not (
        Path(folder) / "tokenizer_config.json"
    ).is_file():  # adapters of others often leave it to the base
        folder = adapter_base(folder)[0]
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    except json.JSONDecodeError as error:
        raise ValueError(f"the tokenizer of {name} is not whole ({error}): train the stage again") from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    _require_letters(tokenizer, rules, str(name))
    return tokenizer


def require_model(folder: Path, rules: Rules) -> None:
    """Raise ValueError unless `folder` holds a model or an adapter that can be asked as chats are: with
    weights, a tokenizer that writes every letter, and a chat template."""
    if not folder.is_dir():
        raise ValueError(
            f"{shown_path(folder)} is no folder: name one with config.json or adapter_config.json, tokenizer "
            "and weights; a model of a server goes with --endpoint URL"
        )
    weights = {
        "config.json": ("*.safetensors", "*.bin"),
        "adapter_config.json": ("adapter_model.safetensors",),
    }
    kind = next((name for name in reversed(weights) if (folder / name).is_file()), None)
    if kind is None:
        raise ValueError(
            f"{shown_path(folder)} holds neither config.json nor adapter_config.json, so no model: name the "
            "folder that save_pretrained or a download from the hub made"
        )
    if not any(file for pattern in weights[kind] for file in folder.glob(pattern)):
        raise ValueError(
            f"{shown_path(folder)} has {kind} but no weights ({' or '.join(weights[kind])}): copy all of "
            "the model"
        )
    try:
        template = load_tokenizer(folder, rules).chat_template
    except OSError as error:  # of transformers, which asks the hub for what a folder lacks
        raise ValueError(f"{shown_path(folder)} has no tokenizer: {first_line(error)}") from None
    if not template:
        raise ValueError(
            f"the tokenizer in {shown_path(folder)} has no chat template, so it is not known how to ask the "
            "model: take its instruction-tuned version, or add chat_template.jinja"
        )


def _require_letters(tokenizer: Any, rules: Rules, name: str) -> None:
    """Raise ValueError for a letter, small or capital, that does not come back from its tokens."""
    for letter in alphabet_letters(rules.alphabet):
        for written in (letter, capitals(letter)):
            ids = tokenizer(written, add_special_tokens=False)["input_ids"]
            if tokenizer.decode(ids, skip_special_tokens=True).strip() != written:
                raise ValueError(
                    f"the tokenizer of {name} has no way to write {written!r}, a letter of the alphabet "
                    f"{rules.alphabet}: start from a model that has"
                )


def token_counter(tokenizer: Any) -> Callable[[Sequence[list[dict[str, str]]]], list[int]]:
    """A function from chats to the tokens of each, with the start of the model's turn when the last message
    is the user's.

    Other processes take it without loading torch, as the tokenizer itself would.
    """
    special = "|".join(map(re.escape, tokenizer.all_special_tokens))
    template = {**tokenizer.special_tokens_map, "chat_template": tokenizer.get_chat_template()}
    return partial(_count_tokens, tokenizer.backend_tokenizer, template, special)


def _count_tokens(
    backend: Any, template: dict[str, Any], special: str, chats: Sequence[list[dict[str, str]]]
) -> list[int]:
    """No token spans a special one, so what stands from one to the next is tokenized apart, and once only,
    however many chats share it."""
    from transformers.utils.chat_template_utils import render_jinja_template

    from wordlelib.players import TEMPLATE_OPTIONS

    before, split_chats = re.compile(f"(?={special})"), []
    for chat in chats:
        asks = chat[-1]["role"] == "user"
        [[text], _] = render_jinja_template(
            [chat], add_generation_prompt=asks, **template, **TEMPLATE_OPTIONS
        )
        split_chats.append(before.split(text))
    distinct = list(dict.fromkeys(chain.from_iterable(split_chats)))
    lengths = {}
    for start in range(0, len(distinct), COUNTED_AT_ONCE):
        pieces = distinct[start : start + COUNTED_AT_ONCE]
        encoded = backend.encode_batch_fast(pieces, add_special_tokens=False)
        lengths.update(zip(pieces, map(len, encoded), strict=True))
    return [sum(map(lengths.get, pieces)) for pieces in split_chats]


def load(name: str | Path, rules: Rules, seed: int = 0, dtype: Any = None) -> tuple[Any, Any]:
    """Model and tokenizer of a nano model (fresh weights), a hub name, or a local folder.

    A folder that holds an adapter loads its base and attaches it. `dtype`: of the weights (None: bfloat16
    on CUDA, float32 elsewhere); fresh ones are float32. Raises FileNotFoundError for a path that is not
    there, ValueError for files that are not whole and for an adapter whose B matrices are all zero: it was
    never trained.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    _quiet()
    tokenizer = load_tokenizer(name, rules)
    if str(name) in NANO_SHAPES:
        return nano_model(tokenizer, seed, str(name)).to(device()), tokenizer
    folder = existing(name)
    dtype = dtype or (torch.bfloat16 if device() == "cuda" else torch.float32)
    base, rank = adapter_base(folder)
    try:
        model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
        if rank:
            model = _with_adapter(model, folder, own_base=base == str(Path(folder) / OWN_BASE))
    except SafetensorError as error:
        raise ValueError(
            f"the weights of {shown_path(folder)} are not whole ({error}): train the stage again"
        ) from None
    return model.to(device()), tokenizer


def _with_adapter(model: Any, folder: str, own_base: bool) -> Any:
    """`model` with the trained adapter in `folder`, which may hold the base too.

    Raises ValueError for an adapter that was trained on a base with other layers.
    """
    from peft import PeftModel, get_peft_model_state_dict, load_peft_weights

    if not (Path(folder) / "adapter_model.safetensors").is_file():  # peft would ask the hub for it
        raise ValueError(f"{shown_path(folder)} holds no adapter_model.safetensors: train the stage again")
    if own_base:
        model.name_or_path = None  # it has no name: `save` writes it again, wherever the adapter goes
    try:
        adapted = PeftModel.from_pretrained(model, folder, is_trainable=True)
        own = get_peft_model_state_dict(adapted, save_embedding_layers=False)
        # peft passes over matrices of layers that the base lacks, and only warns of missing ones
        fits = set(own) == set(load_peft_weights(folder, device="cpu"))
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        fits = False
    if not fits:
        raise ValueError(
            f"the adapter in {shown_path(folder)} was trained on another model than the one it now finds "
            f"as {shown_path(model.name_or_path or OWN_BASE)}: its layers differ; train the stage again"
        )
    require_trained_adapter(adapted)
    return adapted


def existing(name: str | Path) -> str:
    """A hub name as it is, a path only when its folder is there; relative ones start at the project root.

    `embedded` is the folder of the embedded student. Raises FileNotFoundError for a folder that is not there.
    """
    text, folder = str(name), project_path(name)
    if text == EMBEDDED:
        if EMBEDDED_FOLDER.is_dir():
            return str(EMBEDDED_FOLDER)
        raise FileNotFoundError(
            f"there is no embedded student in {shown_path(EMBEDDED_FOLDER)}: train the recipe nano-gpu, then "
            "`python -m wordlelib export --run RUN --to embedded` installs its model"
        )
    if folder.is_dir():
        return str(folder)
    looks_like_path = isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") > 1
    if looks_like_path or ("/" in text and folder.parent.is_dir()):
        raise FileNotFoundError(f"{text}: no such model folder; give a folder, a hub name or 'nano'")
    return text


ENGINE_SEQUENCES = 512  # generated side by side: a step's completions in one wave
# Numbers of sequences for which an engine prepares itself; each costs half a second at the start.
GRAPH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024]
LINEAR_LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

ENGINE_QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "TQDM_DISABLE": "1"}  # hundreds of lines a start
CACHE = Path.home() / ".cache" / "wordlelib"

# What Unsloth, vLLM and tqdm read when they are imported.
GPU_SWITCHES = {
    "UNSLOTH_VLLM_STANDBY": "0",  # standby takes most of the card, whatever share was asked for
    "UNSLOTH_GRPO_SEQ_PACKING": "0",  # it checks itself by running every row alone, again and again
    "UNSLOTH_BLOCK_COMPILE_LEGACY": "0",  # a short training does not repay it, see COMPILED_BLOCKS
    "UNSLOTH_COMPILE_LOCATION": str(CACHE / "unsloth"),  # else in the working folder
    "UNSLOTH_DISABLE_STATISTICS": "1",  # nothing is sent anywhere without being asked
    "VLLM_NO_USAGE_STATS": "1",
    **ENGINE_QUIET,
}

# Compiling each block takes about a minute at the start, and a fifth to a third of each step's time off.
COMPILED_BLOCKS = {"UNSLOTH_BLOCK_COMPILE_LEGACY": "1"}


def use_backend(backend: str, long_training: bool = False) -> None:
    """Import what `backend` needs, in the order that it needs; called before anything is loaded.

    Unsloth patches trl, transformers and peft, so it must come first. Raises RuntimeError with one
    sentence when one of them was imported before it, when there is no NVIDIA GPU, or when a package
    of the GPU stack is missing.
    """
    if backend == "transformers" or sys.modules.get(backend):
        return
    early = [name for name in ("trl", "transformers", "peft") if name in sys.modules]
    if backend == "unsloth" and early:
        raise RuntimeError(
            f"{early[0]} was imported before unsloth: restart the kernel and run all cells in order"
        )
    import torch

    if not torch.cuda.device_count():  # unlike is_available, leaves CUDA alone: vLLM forks
        raise RuntimeError(
            f"backend {backend} needs an NVIDIA GPU, and torch sees none: use backend transformers"
        )
    if backend == "unsloth":
        _set_switches(GPU_SWITCHES | (COMPILED_BLOCKS if long_training else {}))
    else:
        _set_switches(ENGINE_QUIET)
    try:
        importlib.import_module(backend)
    except ImportError as error:
        raise RuntimeError(
            f"backend {backend} cannot be imported ({error}): install the extra [gpu]"
        ) from error


def _set_switches(switches: Mapping[str, str]) -> None:
    """Environment variables that the user has not set."""
    for name, value in switches.items():
        os.environ.setdefault(name, value)


def load_policy(name: str | Path, rules: Rules, config: Any, engine_memory: float = 0.0) -> tuple[Any, Any]:
    """Model and tokenizer to train: `load`, with the adapter and the backend of `config`.

    config: backend, adapter, lora_rank, max_length (tokens), seed. `engine_memory`: share of the GPU's
    memory for a vLLM engine beside the trained weights, for backend unsloth; 0 for no engine. A
    folder that holds an adapter goes on with that adapter; ValueError when `config` asks for none.
    """
    if config.adapter == "none" and adapter_base(existing(name))[1]:
        raise ValueError(
            f"{name} holds an adapter, and adapter none trains all weights: set adapter to lora or qlora, or "
            "merge it first (`python -m wordlelib export`)"
        )
    if config.backend == "unsloth":
        return _load_unsloth(name, rules, config, engine_memory)
    import torch

    # A step that is small against a weight would be rounded away in bfloat16.
    dtype = torch.float32 if config.adapter == "none" else None
    model, tokenizer = load(name, rules, config.seed, dtype)
    if config.adapter == "lora" and not hasattr(model, "peft_config"):
        model = attach_adapter(model, config.lora_rank)
    return model, tokenizer


def _load_unsloth(name: str | Path, rules: Rules, config: Any, engine_memory: float) -> tuple[Any, Any]:
    import torch
    from unsloth import FastLanguageModel

    engine = {
        "fast_inference": True,
        "gpu_memory_utilization": engine_memory,
        "max_lora_rank": engine_rank(config.lora_rank),
        "max_num_seqs": ENGINE_SEQUENCES,
        "compilation_config": _graphs(ENGINE_SEQUENCES),
    }
    with _starting_engine(engine_memory) if engine_memory else nullcontext():
        model, _ = FastLanguageModel.from_pretrained(
            existing(name),
            max_seq_length=config.max_length,
            dtype=torch.bfloat16,
            load_in_4bit=config.adapter == "qlora",
            full_finetuning=config.adapter == "none",
            use_exact_model_name=True,  # no copy that is quantised already: merging needs the 16-bit base
            use_gradient_checkpointing=False,
            random_state=config.seed,
            **(engine if engine_memory else {}),
        )
    if config.adapter != "none" and not hasattr(model, "peft_config"):
        model = FastLanguageModel.get_peft_model(
            model,
            r=config.lora_rank,
            lora_alpha=config.lora_rank,
            lora_dropout=0.0,
            target_modules=LINEAR_LAYERS,
            use_gradient_checkpointing=False,
            random_state=config.seed,
        )
    model.generation_config.max_length = None  # it would warn at every generation that it is not used
    return model, load_tokenizer(name, rules)


def restore(model: Any, folder: str | Path) -> None:
    """Set the weights of `model`, or its adapter's, to those that `save` wrote to `folder`."""
    from transformers import AutoModelForCausalLM

    if hasattr(model, "peft_config"):
        from peft import load_peft_weights, set_peft_model_state_dict

        set_peft_model_state_dict(model, load_peft_weights(str(folder)))
    else:
        saved = AutoModelForCausalLM.from_pretrained(folder, dtype=model.dtype)
        model.load_state_dict(saved.state_dict())


def adapter_base(folder: str | Path) -> tuple[str, int]:
    """The base model of a saved adapter (hub name or folder) and its rank; (`folder`, 0) without one.

    Raises ValueError for a description that is not whole, and for a base in a folder that is no longer the
    one that the adapter was trained on; FileNotFoundError for such a folder that is not there.
    """
    file = Path(folder) / "adapter_config.json"
    base, rank = described_adapter(folder)
    if not rank:
        return base, rank
    if os.path.isabs(base) and not Path(base).is_dir():
        raise FileNotFoundError(
            f"the adapter in {shown_path(file.parent)} belongs to the base {base}, which is not there: put "
            f"it back, or name its new place as base_model_name_or_path in {shown_path(file)}"
        )
    seal = file.parent / BASE_SEAL
    if seal.is_file() and Path(base).is_dir() and seal.read_text() != fingerprint(base):
        raise ValueError(
            f"the adapter in {shown_path(file.parent)} was trained on another model than the one that is now "
            f"in {shown_path(base)}: put that one back, or train the adapter again"
        )
    return base, rank


def described_adapter(folder: str | Path) -> tuple[str, int]:
    """As `adapter_base`, by the adapter's own description alone: its base may be gone."""
    file = Path(folder) / "adapter_config.json"
    if not file.is_file():
        return str(folder), 0
    try:
        config = json.loads(file.read_text())
        base, rank = config["base_model_name_or_path"] or OWN_BASE, config["r"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} does not describe an adapter ({error}): train the stage again") from None
    own = not os.path.isabs(base) and (file.parent / base).is_dir()
    return str(file.parent / base) if own else base, rank


def fingerprint(folder: str | Path) -> str:
    """A hash of the configuration and of the size, first and last MiB of each file of weights in a folder."""
    digest = hashlib.sha256((Path(folder) / "config.json").read_bytes())
    for file in sorted([*Path(folder).glob("*.safetensors"), *Path(folder).glob("*.bin")]):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        with open(file, "rb") as weights:
            digest.update(weights.read(1 << 20))
            weights.seek(max(0, size - (1 << 20)))
            digest.update(weights.read())
    return digest.hexdigest()


def require_base(folder: str | Path, start: str | Path) -> None:
    """Raise ValueError when `folder` holds an adapter of another base than that of the model `start`."""
    base, rank = adapter_base(existing(folder))
    if not rank:
        return
    try:
        wanted = OWN_BASE if str(start) in NANO_SHAPES else described_adapter(existing(start))[0]
    except FileNotFoundError:  # an adapter that was moved since, and this one goes without it
        return
    # A base inside an adapter's own folder has no name, and goes wherever the adapter goes.
    named = {Path(base).name, Path(wanted).name} != {OWN_BASE}
    if named and known_base(base) != known_base(wanted):
        raise ValueError(
            f"the adapter in {shown_path(folder)} belongs to the base {shown_path(base)}, but its run starts "
            f"from {start}: put the adapter of this run back, or train its stages again"
        )


def known_base(base: str) -> str:
    """What a base is known by: its fingerprint wherever its folder is, or its name, that of a hub."""
    folder = project_path(base)
    return fingerprint(folder) if (folder / "config.json").is_file() else str(folder.resolve())


def load_engine(base: str, rank: int, memory: float, max_length: int) -> Any:
    """A vLLM engine with the weights of `base`, ready for adapters up to `rank` (0 for none).

    It takes the share `memory` of the GPU, in a process of its own, until `stop_engine`. max_length:
    tokens of the longest prompt and completion together.
    """
    from vllm import LLM

    with _starting_engine(memory):
        return LLM(
            model=existing(base),
            dtype="bfloat16",
            gpu_memory_utilization=memory,
            max_model_len=max_length,
            max_num_seqs=GRAPH_SIZES[-1],
            compilation_config=_graphs(GRAPH_SIZES[-1]),
            enable_lora=rank > 0,
            **({"max_lora_rank": engine_rank(rank)} if rank else {}),
        )


def _graphs(most: int) -> dict[str, list[int]]:
    """vLLM's setting of the batch sizes, up to `most`, that it captures; by itself it takes over fifty."""
    return {"cudagraph_capture_sizes": [size for size in GRAPH_SIZES if size <= most]}


def first_line(error: Exception) -> str:
    """The first line of an error's text, which other libraries fill with pages; its type without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def _starting_engine(memory: float) -> Iterator[None]:
    """Say what share of the GPU's memory an engine asks for and takes, or what to change when it cannot
    start; vLLM's own account is above or in the cause."""
    before = card_memory()
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            f"the vLLM engine did not start with engine_memory {memory} ({first_line(error)}): "
            "lower engine_memory when other processes or the training hold the GPU, raise it when no room "
            "is left for its cache, start again when another process has just left the GPU; "
            "`python -m wordlelib plan` says what fits"
        ) from error
    after = card_memory()
    taken = f", {(after[0] - before[0]) / after[1]:.0%} taken with the weights" if before and after else ""
    print(f"engine: {memory:.0%} of the GPU's memory asked{taken}")


def card_memory() -> tuple[float, float] | None:
    """MiB in use, by whatever process, and in all on the first visible GPU; None where nvidia-smi is silent.

    An engine may be a process of its own, and asking torch would start CUDA in this one.
    """
    card = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    query = ("--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits")
    said = output_of("nvidia-smi", "-i", card, *query)
    try:
        used, total = map(float, (said or "").split(","))
    except ValueError:
        return None
    return used, total


def stop_engine(engine: Any) -> None:
    """End the process of a vLLM engine, which gives its memory back whoever still refers to it."""
    engine.llm_engine.engine_core.shutdown()


def adapter_request(folder: str | Path) -> Any:
    """What tells a vLLM engine to answer with the adapter in `folder`."""
    from vllm.lora.request import LoRARequest

    path = existing(folder)
    # vLLM keeps the number of an adapter in 32 bits with a sign; 0 is none
    return LoRARequest(path, zlib.crc32(path.encode()) >> 1 or 1, path)


def engine_rank(rank: int) -> int:
    """The smallest adapter rank that vLLM has kernels for and that holds `rank`."""
    return next(size for size in (8, 16, 32, 64, 128, 256, 320, 512) if size >= rank)


def attach_adapter(model: Any, rank: int) -> Any:
    """Low-rank matrices (LoRA, alpha = rank) on all linear layers; only they are trained."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(model, config)


def require_trained_adapter(model: Any) -> None:
    """Raise ValueError when the model has an adapter whose B matrices are all zero."""
    matrices = [value for name, value in model.named_parameters() if "lora_B" in name]
    if matrices and not any(value.any() for value in matrices):
        raise ValueError("the adapter is all zero: it was never trained, or its weights were not loaded")


def save(model: Any, tokenizer: Any, folder: str | Path) -> None:
    """Write weights (or only the adapter) and tokenizer to `folder`, whole or not at all.

    An adapter's base must be a folder or hub name of its own; the nano model has none, so its
    base is written beside the adapter.
    """
    with replacing_folder(folder) as temporary:
        adapter = getattr(model, "peft_config", {}).get("default")
        if adapter and not adapter.base_model_name_or_path:
            copy.deepcopy(model).unload().save_pretrained(temporary / OWN_BASE)
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        if adapter and (base := adapter.base_model_name_or_path) and (Path(base) / "config.json").is_file():
            (temporary / BASE_SEAL).write_text(fingerprint(base))
