"""The GPU benchmark without a GPU: its arithmetic, the plain loop, and processes that end as they like."""

import json
import os
import sys
import time

import pytest
from conftest import alive, wait_for

from wordlelib import bench_gpu, data, models, plan, training
from wordlelib.__main__ import main
from wordlelib.rules import rules_for
from wordlelib.words import sample_words, split_secrets

QWEN = plan.MODELS["Qwen/Qwen2.5-0.5B-Instruct"]
NAMES = list(bench_gpu.VARIANTS)
LORA = "sft-workbook-lora"


@pytest.fixture(scope="module")
def folder(shipped, tmp_path_factory):
    words = sample_words(shipped, 40, seed=1)
    folder = tmp_path_factory.mktemp("data") / "01_data_synthesis"
    rules, split = rules_for(words, renderer="symbols"), split_secrets(words, test=8, val=4)
    source = {"sample": 40, "sample_seed": 1}
    data.build(folder, rules, split, source=source, rows=150, states=40, candidates=2)
    return folder


# Arithmetic ---------------------------------------------------------------------------------------


def test_flop_are_six_a_parameter_and_four_with_frozen_weights():
    lengths, tokens = [100, 200], 300
    attention = 6 * 24 * 896 * (100**2 + 200**2) / tokens
    every_token = bench_gpu.flop_per_token(QWEN, lengths, trained=tokens)
    assert every_token == 6 * (QWEN.linear + 151936 * 896) + attention
    full = bench_gpu.flop_per_token(QWEN, lengths, trained=60)
    assert full == pytest.approx(6 * (QWEN.linear + 151936 * 896 / 5) + attention)
    adapter = bench_gpu.flop_per_token(QWEN, lengths, 60, rank=64)
    small = 6 * plan.adapter_parameters(QWEN, 64)
    assert adapter == pytest.approx((full - attention) * 4 / 6 + small + attention)


def sft_log(*speeds):
    return [{"step": 10 * n, "tokens_per_s": speed} for n, speed in enumerate(speeds, 1)]


def test_sft_speed_is_the_median_of_the_second_half(monkeypatch):
    rows = [{"input_ids": [1] * 100, "labels": [training.IGNORED] * 80 + [1] * 20}]
    job = {"shape": list(QWEN)}
    log = [*sft_log(1.0, 2.0, 50_000.0, 60_000.0), {"step": 40, "train_runtime": 3.0}]
    figures = bench_gpu.sft_figures(log, rows, job, rank=0)
    assert figures == {"tokens_per_s": 55_000.0, "peak_share": None, "steps": 40}
    monkeypatch.setattr(bench_gpu, "card", lambda: "NVIDIA L4")
    share = bench_gpu.sft_figures(log, rows, job, rank=0)["peak_share"]
    assert share == pytest.approx(55_000 * bench_gpu.flop_per_token(QWEN, [100], 20) / 121e12)
    with pytest.raises(TimeoutError, match="before the first logged step"):
        bench_gpu.sft_figures([{"step": 1}], rows, job, rank=0)


def grpo_row(step, seconds, **more):
    parts = {"generate_seconds": 1.0, "reward_seconds": 0.25}
    return {"step": step, "step_seconds": seconds, "completions/mean_length": 40.0, **parts, **more}


def test_grpo_figures_leave_out_the_first_three_steps():
    log = [grpo_row(step, 100.0) for step in (1, 2, 3)]
    log += [grpo_row(4, 3.0, sync_seconds=0.5), grpo_row(5, 4.0, sync_seconds=0.5)]
    assert bench_gpu.grpo_figures(log) == {
        "step_seconds": 3.5,
        "generate_seconds": 1.0,
        "reward_seconds": 0.25,
        "sync_seconds": 0.5,
        "update_seconds": 2.25,
        "completion_tokens": 40.0,
        "steps": 5,
    }
    with pytest.raises(TimeoutError, match="before step 4"):
        bench_gpu.grpo_figures(log[:3])


# The plain loop -----------------------------------------------------------------------------------


def test_the_plain_loop_trains_what_a_padded_batch_with_a_mask_trains(folder):
    source = data.load(folder)
    tokenizer = models.nano_tokenizer(source.rules)
    rows = training.tokenize(source.rows("sft")[:24], tokenizer, 200)
    batches = bench_gpu.sorted_batches(rows, 8, tokenizer.pad_token_id)
    lengths = [int((ids != tokenizer.pad_token_id).sum()) for ids, _, _ in batches]
    assert lengths == [tokens for _, _, tokens in batches]
    assert (len(batches), sum(lengths)) == (3, sum(len(row["input_ids"]) for row in rows))
    ids, labels, _ = batches[0]
    model = models.nano_model(tokenizer)
    mask = (ids != tokenizer.pad_token_id).long()
    expected = model(input_ids=ids, attention_mask=mask, labels=labels).loss.item()
    log = bench_gpu.plain_loop(model, batches * 4, deadline=time.monotonic() + 60)
    assert [row["step"] for row in log] == list(range(1, 13))
    assert log[0]["loss"] == pytest.approx(expected, abs=1e-4) and log[9]["loss"] < log[0]["loss"]
    assert len(bench_gpu.plain_loop(model, batches, deadline=0.0)) == 1


# Trainers with defaults, here TRL's own ------------------------------------------------------------


def test_trainers_with_defaults_log_what_is_measured(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench_gpu, "DEFAULT_BATCH", 8)
    source = data.load(folder)
    tokenizer = models.nano_tokenizer(source.rules)
    sft = {"model": "nano", "max_steps": 3, "max_length": 200}
    grpo = {"batch_size": 8, "group_size": 4, "max_steps": 4, "learning_rate": 1e-4, "preset": "ours"}
    grpo["max_completion_length"] = 8
    job = {"02_sft": sft, "03_grpo": grpo, "data": folder, "shape": None, "deadline": time.monotonic() + 600}
    options = {"use_cpu": True, "bf16": False, "logging_steps": 1, "report_to": "none"}
    rows = source.rows("sft")[:24]
    model = models.nano_model(tokenizer)
    log = bench_gpu.train_with_defaults(model, tokenizer, rows, job, **options)
    assert bench_gpu.sft_figures(log, bench_gpu._tokenized(job, rows), job, 0)["tokens_per_s"] > 0
    (tmp_path / "log.jsonl").unlink()
    figures = bench_gpu.grpo_figures(bench_gpu.reinforce_with_defaults(model, tokenizer, job, **options))
    assert figures["steps"] == 4 and 0 < figures["generate_seconds"] < figures["step_seconds"]


# Processes ----------------------------------------------------------------------------------------


def python(folder, code, seconds=20.0):
    return bench_gpu.bounded([sys.executable, "-c", code], folder, seconds, os.environ)


def test_a_variant_leaves_a_result_or_a_reason(tmp_path):
    result = "open('result.json', 'w').write('{\"tokens_per_s\": 5.0}')"
    assert python(tmp_path / "a", result) == {"tokens_per_s": 5.0}
    assert python(tmp_path / "b", f"{result}; import os; os.abort()") == {"tokens_per_s": 5.0}
    assert python(tmp_path / "c", "print('x'); raise SystemExit('no card')") == {
        "failed": "exit code 1: no card"
    }
    assert python(tmp_path / "d", "pass") == {"failed": "exit code 0: no output"}


def test_a_variant_that_takes_too_long_is_killed_with_what_it_started(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(inner.pid, flush=True)\n"
        "time.sleep(60)"
    )
    start = time.monotonic()
    assert python(tmp_path / "a", code, seconds=3.0) == {"failed": "not done after 3 s"}
    assert time.monotonic() - start < 20
    inner = int((tmp_path / "a" / "output.log").read_text())
    wait_for(lambda: not alive(inner), 5)


def test_defaults_of_unsloth_run_without_our_switches_but_report_nothing(monkeypatch):
    monkeypatch.setenv("UNSLOTH_VLLM_STANDBY", "0")
    ours, theirs = bench_gpu.environment(LORA), bench_gpu.environment("grpo-unsloth")
    assert ours["UNSLOTH_VLLM_STANDBY"] == "0"
    assert set(theirs) & set(models.GPU_SWITCHES) == {"UNSLOTH_DISABLE_STATISTICS", "VLLM_NO_USAGE_STATS"}


# Choice, table, command ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "only, names",
    [
        ("", NAMES),
        ("sft", NAMES[:5]),
        ("grpo", [LORA, *NAMES[5:]]),
        ("sft-plain, grpo-workbook", ["sft-plain", LORA, "grpo-workbook"]),
        ("sft-workbook", NAMES[2:5]),
    ],
)
def test_variants_are_chosen_by_name_or_beginning(only, names):
    assert bench_gpu.selected(only, "lora") == names


def test_a_name_that_chooses_nothing_is_refused(capsys):
    assert main(["bench", "--gpu", "--only", "sft,gr"]) == 2
    assert "--only gr: choose from sft, grpo, sft-plain" in capsys.readouterr().err


def test_the_table_has_a_row_a_variant_and_says_why_one_failed():
    rows = [
        {"title": "a", "tokens_per_s": 93_000.4, "peak_share": 0.217, "memory_gib": 61.26, "seconds": 31.4},
        {"title": "b", "tokens_per_s": 8_000.0, "peak_share": None, "memory_gib": 5.0, "seconds": 90.0},
        {"title": "c", "failed": "no|thing", "seconds": 3.0},
    ]
    assert bench_gpu.table(rows).splitlines() == [
        "|  | tokens/s | of bf16 peak | peak GiB | all s | failed |",
        "| --- | --- | --- | --- | --- | --- |",
        "| a | 93,000 | 21.7% | 61.3 | 31 |  |",
        "| b | 8,000 | unknown | 5.0 | 90 |  |",
        "| c |  |  |  | 3 | no/thing |",
    ]


def test_only_a_failure_of_the_workbook_itself_fails_the_command(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plan, "recipe_settings", lambda recipe, changes: SETTINGS)
    failing = {"sft-unsloth"}

    def fake(command, work, seconds, variables):
        work.mkdir()
        (work / "output.log").write_text(f"output of {command[3]}\n")
        return {"failed": "no\ncard"} if command[3] in failing else {"tokens_per_s": 5.0, "peak_share": None}

    monkeypatch.setattr(bench_gpu, "bounded", fake)
    out = tmp_path / "new" / "bench"
    arguments = ["bench", "--gpu", "--data", str(folder), "--only", "sft", "--out", str(out)]
    assert main(arguments) == 0
    rows = [json.loads(line) for line in bench_gpu.beside(out, ".jsonl").read_text().splitlines()]
    assert [row["name"] for row in rows] == NAMES[:5] and rows[1]["failed"] == "no card"
    assert bench_gpu.beside(out, ".log").read_text().count("output of") == 5
    shown = capsys.readouterr().out
    assert "SFT: Unsloth, its defaults: failed, no card (0 s)" in shown
    assert (
        bench_gpu.table(rows) in shown and bench_gpu.table(rows) in bench_gpu.beside(out, ".txt").read_text()
    )
    failing.add("sft-workbook-none")
    assert main(arguments) == 1
    assert main([*arguments, "--minutes", "0"]) == 1
    assert "failed, no time left" in capsys.readouterr().out


SETTINGS = {
    "02_sft": {"model": "nano", "max_steps": 3, "batch_size": 8},
    "03_grpo": {},
}


def test_the_workbook_is_measured_in_a_process_of_its_own(folder, tmp_path, monkeypatch):
    """One real SFT and the GRPO after it, both on the nano model."""
    changes = {
        "02_sft": {"backend": "transformers", "model": "nano", "batch_size": "8", "micro_batch_size": "0"},
        "03_grpo": {"backend": "transformers", "batch_size": "8", "micro_batch_size": "0", "group_size": "4"},
    }
    changes["02_sft"] |= {"adapter": "lora", "max_steps": "10", "lora_rank": "4"}
    changes["03_grpo"] |= {"max_steps": "4", "max_completion_length": "8"}
    out = tmp_path / "bench-0.5b"
    only = f"sft-plain,{LORA},grpo-workbook"
    assert bench_gpu.main("qwen2.5-0.5b", changes, folder, "lora", only, 9, out) == 0
    rows = [json.loads(line) for line in bench_gpu.beside(out, ".jsonl").read_text().splitlines()]
    assert [row["name"] for row in rows] == only.split(",")
    assert all(row["tokens_per_s"] > 0 and row["peak_share"] is None for row in rows[:2])
    assert rows[2]["steps"] == 4 and rows[2]["update_seconds"] > 0
    assert all(row["memory_gib"] > 0 for row in rows)


def test_data_are_made_when_none_are_given(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_gpu, "SFT_ROWS", 30)
    monkeypatch.setattr(bench_gpu, "GRPO_STATES", 20)
    settings = plan.recipe_settings("cpu-demo", bench_gpu.CHANGES)
    taught = {"guess_place": "first", "non_words": "invented", "rejecting": 0.5}
    bench_gpu._make_data(tmp_path / "other", settings["01_data_synthesis"] | taught)
    card = data.load(tmp_path / "other").card  # as the recipe says
    assert card["guess_place"] == "first" and card["rejecting"] == 0.5
    assert card["mix"]["invalid"] == 0 < card["mix"]["invented"]
    bench_gpu.prepare(tmp_path, settings, None, "lora")
    job = json.loads((tmp_path / "job.json").read_text())
    made = data.load(job["data"])
    assert made.rules.renderer == "symbols" and job["shape"] is None
    assert made.card["guess_place"] == "last" and made.card["mix"]["invalid"] > 0
    assert len(data.read_jsonl(job["rows"])) == data.load(job["data"]).card["files"]["sft"]["rows"]
