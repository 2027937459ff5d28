"""Adapters: what each was trained on, several on one base, swapped, stacked and gone on with."""

import hashlib
import shutil
from types import SimpleNamespace

import pytest
import torch

from wordlelib import adapters, data, models, players, runs, training
from wordlelib.__main__ import main
from wordlelib.rules import rules_for
from wordlelib.words import sample_words, split_secrets


@pytest.fixture(scope="module")
def source(shipped, tmp_path_factory):
    words = sample_words(shipped, 40, seed=1)
    folder = tmp_path_factory.mktemp("data")
    lists = {"sample": 40, "sample_seed": 1}
    split = split_secrets(words, test=8, val=4)
    data.build(folder, rules_for(words, renderer="symbols"), split, source=lists, rows=100, states=40)
    return data.load(folder)


@pytest.fixture(scope="module")
def tokenizer(source):
    return models.nano_tokenizer(source.rules)


@pytest.fixture(scope="module")
def base(source, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases") / "tiny-base"
    models.save(models.nano_model(tokenizer), tokenizer, folder)
    return folder


def adapted(base, rules, seed, rank=4):
    model = models.attach_adapter(models.load(base, rules)[0], rank).cpu()
    torch.manual_seed(seed)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data.normal_(0, 0.1)
    return model


@pytest.fixture
def folders(base, source, tokenizer, tmp_path):
    """Two adapters of one base, of different rank."""
    saved = {}
    for seed, (name, rank) in enumerate({"wordle": 4, "hard": 2}.items()):
        saved[name] = tmp_path / name
        models.save(adapted(base, source.rules, seed, rank), tokenizer, saved[name])
    return saved


def logits(model, tokenizer, source):
    [ids] = players.prompt_ids(tokenizer, [source.rows("states")[0]["prompt"]])
    with torch.no_grad():
        return model(torch.tensor([ids], device=model.device)).logits.cpu()


def test_swapping_gives_the_answers_of_each_adapter_alone(folders, base, source, tokenizer):
    model, _ = adapters.load(folders, source.rules)
    assert sorted(model.peft_config) == sorted(folders) and model.active_adapters == ["wordle"]
    for name in ("hard", "wordle", "hard"):
        model.set_adapter(name)
        alone, _ = models.load(folders[name], source.rules)
        assert torch.allclose(logits(model, tokenizer, source), logits(alone, tokenizer, source), atol=1e-5)
    with model.disable_adapter():
        plain, _ = models.load(base, source.rules)
        assert torch.allclose(logits(model, tokenizer, source), logits(plain, tokenizer, source), atol=1e-5)


def test_a_stacked_adapter_adds_what_each_does_and_can_be_gone_on_with(folders, source, tokenizer, tmp_path):
    weights = {"wordle": 0.5, "hard": 2.0}
    adapters.stack(folders, tmp_path / "stacked", source.rules, weights)
    assert models.adapter_base(tmp_path / "stacked")[1] == 6
    stacked, _ = models.load(tmp_path / "stacked", source.rules)
    both, _ = adapters.load(folders, source.rules)
    layers = dict(both.named_modules())
    for name, layer in stacked.named_modules():
        if hasattr(layer, "lora_A") and layer.lora_A:
            parts = [weights[part] * layers[name].get_delta_weight(part) for part in folders]
            assert torch.allclose(layer.get_delta_weight("default"), sum(parts), atol=1e-5)
    config = SimpleNamespace(adapter="lora", backend="transformers", lora_rank=16, seed=0)
    policy, _ = models.load_policy(tmp_path / "stacked", source.rules, config)
    assert any(value.requires_grad for name, value in policy.named_parameters() if "lora_A" in name)
    assert policy.peft_config["default"].r == 6


def test_adapters_of_different_bases_are_not_used_together(folders, base, source, tokenizer, tmp_path):
    other = tmp_path / "other-base"
    models.save(models.nano_model(tokenizer, seed=5), tokenizer, other)
    models.save(adapted(other, source.rules, 3), tokenizer, tmp_path / "foreign")
    with pytest.raises(ValueError, match="has another base than the one of wordle"):
        adapters.load({**folders, "foreign": tmp_path / "foreign"}, source.rules)
    with pytest.raises(ValueError, match="holds no adapter"):
        adapters.load({"wordle": folders["wordle"], "whole": base}, source.rules)


def begun(run, source, start):
    """A run folder with its data, whose 02 starts from `start`, and log rows of 02 and 03."""
    shutil.copytree(source.folder, run / data.STAGE)
    for stage, steps in (("02_sft", 1200), ("03_grpo", 70), ("03_grpo/control", 90)):
        (run / stage).mkdir(parents=True)
        (run / stage / "log.jsonl").write_text(f'{{"step": 1}}\n{{"step": {steps}}}\n')
        (run / stage / "config.yaml").write_text(f"model: {start}\nadapter: lora\n")
        runs.write_json(run / stage / "status.json", {"status": "running"})
    return runs.Run("02_sft", None, run / "02_sft", False)


def test_every_model_says_what_it_was_trained_on_and_the_table_shows_it(
    base, source, tokenizer, tmp_path, capsys
):
    first, second = tmp_path / "first", tmp_path / "second"
    of_first = begun(first, source, base)
    for seed, player in enumerate(players.MODEL_FOLDERS):
        training.save(adapted(base, source.rules, seed), tokenizer, of_first, player)
    # goes on from an adapter of the first run, whose folder is then moved
    of_second = begun(second, source, first / "03_grpo" / "model")
    with open(second / "02_sft" / "config.yaml", "a") as config:
        config.write("correct_rounds: 2\n")
    training.save(adapted(base, source.rules, 9), tokenizer, of_second, "sft")
    first.rename(tmp_path / "moved")
    rows = {row["model"].removeprefix(f"{tmp_path}/"): row for row in adapters.table([tmp_path])}
    assert list(rows) == [
        *("moved/02_sft/model", "moved/03_grpo/control/model", "moved/03_grpo/model", "second/02_sft/model")
    ]
    sft, control, grpo, more = rows.values()
    assert {row["base"] for row in rows.values()} == {"tiny-base"}
    assert {row["trains"] for row in rows.values()} == {"adapter, rank 4"}
    assert [row["steps"] for row in rows.values()] == ["1,200", "90", "70", "1,200, rounds: 2"]
    assert sft["data"] == control["data"] == more["data"] != grpo["data"]
    assert sft["parents"] == "–" and control["parents"] == grpo["parents"] == f"first/02_sft {sft['weights']}"
    assert more["parents"] == f"first/03_grpo {grpo['weights']}, first/02_sft {sft['weights']}"
    assert len({row["weights"] for row in rows.values()}) == 4
    assert str(tmp_path) not in (second / "02_sft" / "model" / adapters.RECORD).read_text()
    assert main(["adapters", str(second)]) == 0
    assert "first/03_grpo" in capsys.readouterr().out
    assert main(["adapters", str(base)]) == 2
    assert "no trained model in or below" in capsys.readouterr().err


def test_a_record_names_the_states_that_were_chosen(base, source, tokenizer, tmp_path):
    """With `states_from` it is that file, not the states of 01, which nothing was trained on."""
    chosen = tmp_path / "lost_states.jsonl"
    data.write_jsonl(chosen, source.rows("states")[:3])
    run = begun(tmp_path / "run", source, base)
    with open(tmp_path / "run" / "03_grpo" / "config.yaml", "a") as config:
        config.write(f"states: fixed\nstates_from: {chosen}\n")
    for player in ("sft", "grpo"):
        training.save(adapted(base, source.rules, 0), tokenizer, run, player)
    recorded = runs.read_json(tmp_path / "run" / "03_grpo" / "model" / adapters.RECORD)["data"]
    assert recorded == hashlib.sha256(chosen.read_bytes()).hexdigest()


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / adapters.RECORD).write_text("{}")
    with pytest.raises(ValueError, match="does not say what was trained"):
        adapters.table([tmp_path])
