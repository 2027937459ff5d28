"""The memory planner: known sizes, what grows with what, advice that fits, and its page."""

import json

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import plan, recipes
from wordlelib.__main__ import main
from wordlelib.runs import read_json, read_yaml

RECIPES = {
    "qwen2.5-0.5b": "Qwen/Qwen2.5-0.5B-Instruct",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
    "qwen3-4b": "Qwen/Qwen3-4B",
}
# The number of parameters that each model's weights hold, tied embeddings counted once.
PARAMETERS = {
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "Qwen/Qwen2.5-3B-Instruct": 3_085_938_688,
    "Qwen/Qwen3-4B": 4_022_468_096,
}
SETTINGS = {name: plan.recipe_settings(name) for name in RECIPES}
CONFIG = {
    "model_type": "qwen2",
    "num_hidden_layers": 24,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
recipe_names, cards = st.sampled_from(sorted(RECIPES)), st.integers(8, 100)


def total(settings, stage, gpu_gb=80):
    return plan.stage_memory(stage, settings, gpu_gb)[plan.TOTAL]


def test_every_model_has_as_many_parameters_as_its_weights_on_the_hub():
    assert {name: shape.linear + shape.other for name, shape in plan.MODELS.items()} == PARAMETERS


def test_4_bit_weights_and_an_adapter_have_the_sizes_of_their_formats():
    shape = plan.MODELS["Qwen/Qwen2.5-0.5B-Instruct"]
    assert plan.weight_bytes(shape) == 2 * 494_032_768
    assert plan.weight_bytes(shape, four_bit=True) == pytest.approx(
        0.5159 * 357_826_560 + 2 * 136_206_208, rel=1e-3
    )
    # The rank-16 adapter on all linear layers of this model is known to have 8.8 million parameters.
    assert plan.adapter_parameters(shape, 16) == 8_798_208
    assert plan.cache_bytes(shape) == 12 * 1024


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_resolves_names_its_model_and_fits_80_gb_as_it_is(name):
    settings = SETTINGS[name]
    assert settings["01_data_synthesis"]["model"] == settings["02_sft"]["model"] == RECIPES[name]
    assert list(plan.memory(settings, 80)) == list(plan.STAGES)
    fits, sentence = plan.verdict(settings, 80)
    assert fits and sentence.startswith("It fits 80 GB (74.5 GiB): ")


@pytest.mark.parametrize("name", RECIPES)
def test_a_16_gb_card_keeps_the_model_of_every_recipe_with_other_settings(name):
    changes = plan.advice(SETTINGS[name], 16)
    assert changes and "02_sft.model" not in changes
    fits, sentence = plan.verdict(SETTINGS[name], 16)
    assert not fits and sentence.endswith(plan.set_options(changes))


@given(name=recipe_names, gpu_gb=cards)
def test_what_is_advised_fits_when_it_is_set(name, gpu_gb):
    changes = plan.advice(SETTINGS[name], gpu_gb)
    if changes is not None:
        texts = [f"{target}={value}" for target, value in changes.items()]
        settings = plan.recipe_settings(name, recipes.parse_settings(texts))
        assert plan.verdict(settings, gpu_gb)[0] and plan.advice(settings, gpu_gb) == {}


@given(name=recipe_names, stage=st.sampled_from(plan.STAGES), gpu_gb=cards)
def test_what_fits_a_card_fits_a_larger_one(name, stage, gpu_gb):
    if plan.fits(stage, SETTINGS[name], gpu_gb):
        assert plan.fits(stage, SETTINGS[name], gpu_gb + 8)


@given(name=recipe_names, stage=st.sampled_from(["02_sft", "03_grpo"]), rows=st.sampled_from([1, 2, 8, 32]))
def test_more_rows_at_once_need_more_and_0_is_the_whole_batch(name, stage, rows):
    def needs(micro):
        return total(plan.with_changes(SETTINGS[name], {f"{stage}.micro_batch_size": micro}), stage)

    assert needs(rows) < needs(2 * rows)
    assert needs(0) == needs(SETTINGS[name][stage]["batch_size"])


@given(name=recipe_names, length=st.integers(64, 2000))
def test_longer_rows_and_higher_ranks_need_more(name, length):
    def needs(target, value):
        return total(plan.with_changes(SETTINGS[name], {target: value}), "02_sft")

    assert needs("02_sft.max_length", length) < needs("02_sft.max_length", length + 1)
    assert needs("02_sft.lora_rank", 8) < needs("02_sft.lora_rank", 16)
    assert (
        needs("02_sft.adapter", "qlora") < needs("02_sft.adapter", "lora") < needs("02_sft.adapter", "none")
    )


@pytest.mark.parametrize("family", ["Qwen2.5", "Qwen3"])
@pytest.mark.parametrize("stage", ["02_sft", "03_grpo"])
def test_a_larger_model_of_a_family_needs_more(family, stage):
    sizes = [
        total(plan.with_changes(SETTINGS["qwen2.5-0.5b"], {"02_sft.model": name}), stage)
        for name in plan.MODELS
        if family in name
    ]
    assert sizes == sorted(sizes) and len(set(sizes)) == 3


@pytest.mark.parametrize("backend", ["transformers", "unsloth"])
def test_the_peak_holds_training_or_generation_whichever_is_larger(backend):
    settings = plan.with_changes(
        SETTINGS["qwen2.5-0.5b"], {"02_sft.adapter": "lora", "03_grpo.backend": backend}
    )
    parts = plan.stage_memory("03_grpo", settings, 80)
    turns = [name for name in parts if name.startswith(("training:", "generation:"))]
    sums = [
        sum(parts[name] for name in turns if name.startswith(kind)) for kind in ("training", "generation")
    ]
    names = plan.ORDER[: plan.ORDER.index(plan.PEAK)]
    stays = sum(parts.get(name, 0) for name in names) - sum(sums)
    assert parts[plan.PEAK] == pytest.approx(stays + max(sums))
    assert ("engine: KV cache" in parts) == (backend == "unsloth")


def test_an_engine_takes_its_share_of_the_card_and_not_more():
    settings = plan.with_changes(SETTINGS["qwen2.5-0.5b"], {"04_eval.engine_memory": 0.5})
    parts = plan.stage_memory("04_eval", settings, 40)
    assert parts[plan.PEAK] + plan.ENGINE_OUTSIDE_TORCH == pytest.approx(0.5 * 40e9)


def test_an_engine_too_small_for_its_weights_is_told_the_share_that_works():
    settings = plan.with_changes(SETTINGS["qwen3-4b"], {"04_eval.engine_memory": 0.1})
    fits, sentence = plan.verdict(settings, 80)
    least = plan.least_share("04_eval", settings, 80)
    assert not fits and f"04_eval needs engine_memory {least:g}; " in sentence
    assert plan.advice(settings, 80) == {"04_eval.engine_memory": least}


def test_rows_are_lowered_first_then_unused_length_then_the_weights_then_the_model():
    """The largest micro-batch that divides the batch and fits is the one that is named."""
    rows = {"02_sft.micro_batch_size": 128}
    assert plan.advice(plan.with_changes(SETTINGS["qwen3-4b"], rows), 80) == {"02_sft.micro_batch_size": 64}
    words = {"01_data_synthesis.renderer": "words", "01_data_synthesis.rejecting": 0.0}
    settings = plan.with_changes(SETTINGS["qwen2.5-3b"], words)
    wide = {"02_sft.max_length": 8192, "02_sft.micro_batch_size": 8}
    assert plan.advice(plan.with_changes(settings, wide), 48)["02_sft.max_length"] == 312
    rejecting = {**wide, "01_data_synthesis.rejecting": 0.4}  # longer rows, none of which may be refused
    assert plan.advice(plan.with_changes(settings, rejecting), 48)["02_sft.max_length"] == 352
    full = {"02_sft.adapter": "none", "02_sft.micro_batch_size": 8}
    assert plan.advice(plan.with_changes(settings, full), 24)["02_sft.adapter"] == "qlora"
    assert plan.advice(settings, 8)["02_sft.model"] in plan.MODELS


def test_a_smaller_model_is_named_for_the_data_too():
    """01 counts the tokens of its rows with the tokenizer of the model."""
    model = plan.advice(SETTINGS["qwen2.5-3b"], 8)["02_sft.model"]
    assert model != RECIPES["qwen2.5-3b"]
    sentence = plan.verdict(SETTINGS["qwen2.5-3b"], 8)[1]
    assert f"; it fits with --set 01_data_synthesis.model={model} --set 02_sft.model={model}" in sentence


def test_evaluation_with_transformers_plays_fewer_games_at_once():
    small = {"02_sft.micro_batch_size": 8, "03_grpo.micro_batch_size": 8}
    own = {"04_eval.backend": "transformers", "04_eval.batch_size": 5000}
    changes = plan.advice(plan.with_changes(SETTINGS["qwen2.5-0.5b"], small | own), 40)
    assert list(changes) == ["04_eval.batch_size"] and changes["04_eval.batch_size"] < 5000


CARD_GB = {"NVIDIA H100 80GB HBM3": 80, "NVIDIA H200": 141}
MEASURED = [
    folder
    for stage in ("02_sft", "03_grpo")
    for folder in sorted(ROOT.glob(f"results/reference/**/*-qwen2.5-0.5b*/{stage}"))
]


@pytest.mark.parametrize("folder", MEASURED, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_the_peak_that_a_kept_run_measured_is_the_planned_one_within_15_percent(folder):
    """By the run's own settings, on its card; all were trained from a copy of one model."""
    stages = [folder.parent / name for name in ("01_data_synthesis", "02_sft", folder.name)]
    settings = {stage.name: read_yaml(stage / "config.yaml") for stage in stages}
    assert settings["02_sft"]["model"] == "models/Qwen2.5-Coder-0.5B-Instruct"
    settings["02_sft"]["model"] = "Qwen/Qwen2.5-0.5B-Instruct"  # of the same shape
    gpu_gb = CARD_GB[read_json(folder / "environment.json")["gpu"]]
    planned = plan.stage_memory(folder.name, settings, gpu_gb)[plan.PEAK] / plan.GIB
    assert planned == pytest.approx(read_json(folder / "metrics.json")["gpu_peak_gib"], rel=0.15)


def test_runs_of_both_stages_on_both_cards_are_compared():
    assert len(MEASURED) >= 8
    cards = {(folder.parent.name[:4], folder.name) for folder in MEASURED}
    assert cards == {(card, stage) for card in ("h100", "h200") for stage in ("02_sft", "03_grpo")}


def kept_by_torch(family: str, adapter: str, layers: int, tokens: int) -> int:
    """Bytes that a small model's forward pass on two rows really keeps, weights not counted."""
    import torch
    import transformers
    from peft import LoraConfig, get_peft_model

    sizes = {"vocab_size": 64, "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": layers}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
    config = getattr(transformers, f"{family}Config")(**sizes, **heads, use_cache=False)
    model = getattr(transformers, f"{family}ForCausalLM")(config)  # all weights are trained in float32
    if adapter == "lora":
        model = get_peft_model(
            model.to(torch.bfloat16), LoraConfig(r=1, target_modules="all-linear", task_type="CAUSAL_LM")
        )
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept, ids = {}, torch.zeros((2, tokens), dtype=torch.long)

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no address is used twice
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16),
    ):
        output = model(input_ids=ids)  # noqa: F841  (its graph keeps the tensors)
    sizes = [t.untyped_storage().nbytes() for address, t in kept.items() if address not in weights]
    return sum(sizes)


@pytest.mark.parametrize("family", ["Qwen2", "Qwen3"])
@pytest.mark.parametrize("adapter", ["none", "lora"])
def test_the_forward_pass_of_transformers_keeps_what_the_planner_says(family, adapter):
    shape = plan.Shape(2, 256, 768, 4, 2, 64, 64, True, family == "Qwen3")
    more, less = (
        kept_by_torch(family, adapter, 4, n) - kept_by_torch(family, adapter, 2, n) for n in (128, 64)
    )
    kept = (more - less) / (2 * 64)  # what does not grow with the tokens are copies of weights
    assert plan.kept_bytes(shape, "transformers", adapter) == pytest.approx(kept, rel=0.03)


def test_a_local_folder_gives_the_dimensions_of_its_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert plan.model_shape(str(tmp_path)) == plan.MODELS["Qwen/Qwen2.5-0.5B-Instruct"]
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"model_type": "qwen3", "head_dim": 128}))
    shape = plan.model_shape(str(tmp_path))
    assert (shape.head_dim, shape.qk_norm) == (128, True)


@pytest.mark.parametrize(
    "change",
    [{"vocab_size": None}, {"hidden_size": "896"}, {"num_attention_heads": 0}, {"num_key_value_heads": "2"}],
)
def test_a_config_without_sizes_is_refused_with_the_entry(tmp_path, change):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change))
    with pytest.raises(ValueError, match=rf"config\.json: {next(iter(change))} is .*, not a size"):
        plan.model_shape(str(tmp_path))


def test_a_config_that_is_a_list_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="describes no model"):
        plan.model_shape(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--recipe", "huge", "--gpu-gb", "80"], "no recipe 'huge'"),
        (["--recipe", "cpu-demo", "--gpu-gb", "80"], "the dimensions of model 'nano' are not known"),
        (
            ["--recipe", "qwen3-4b", "--gpu-gb", "80", "--model", "some/other"],
            "'some/other' are not known: use Qwen/",
        ),
        (["--recipe", "qwen3-4b", "--gpu-gb", "80", "--model", ""], ""),
        (["--recipe", "qwen3-4b", "--gpu-gb", "0"], "--gpu-gb is 0; use the memory of your card in GB"),
        (["--recipe", "qwen3-4b", "--gpu-gb", "-1"], "--gpu-gb is -1; use"),
        (["--recipe", "qwen3-4b", "--gpu-gb", "nan"], "--gpu-gb is nan; use"),
        (["--recipe", "qwen3-4b", "--gpu-gb", "80", "--set", "02_sft.row=3"], "unknown parameter 'row'"),
        (["--recipe", "qwen3-4b", "--gpu-gb", "80", "--set", "07_x.rows=3"], "has no stage '07_x'"),
        (["--recipe", "qwen3-4b", "--gpu-gb", "80", "--set", "02_sft.adapter=none"], "needs an adapter"),
    ],
)
def test_wrong_use_is_one_sentence(capsys, options, sentence):
    code = main(["plan", *options])
    error = capsys.readouterr().err
    assert (code, error.count("\n")) == ((2, 1) if sentence else (0, 0)) and sentence in error


def test_the_command_shows_the_table_and_says_by_its_exit_code_whether_it_fits(capsys):
    assert main(["plan", "--recipe", "qwen2.5-0.5b", "--gpu-gb", "80"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*plan.STAGES, "weights", plan.PEAK, plan.TOTAL, "It fits 80 GB"))
    assert main(["plan", "--recipe", "qwen2.5-0.5b", "--gpu-gb", "16"]) == 1
    options = capsys.readouterr().out.partition("it fits with ")[2].split()
    assert options and main(["plan", "--recipe", "qwen2.5-0.5b", "--gpu-gb", "16", *options]) == 0


def test_a_card_for_which_no_model_is_small_enough_exits_with_1(capsys):
    assert main(["plan", "--recipe", "qwen2.5-0.5b", "--gpu-gb", "1"]) == 1
    assert "no known model fits with any setting" in capsys.readouterr().out


def test_the_page_about_recipes_says_what_the_planner_says(monkeypatch):
    written = {}
    monkeypatch.setattr(plan, "write_text", lambda path, text: written.update({path: text}))
    plan.update_page()
    page = ROOT / plan.PAGE
    wrong = "update it with `python -m wordlelib report --readme`"
    assert written == {page: page.read_text(encoding="utf-8")}, wrong
