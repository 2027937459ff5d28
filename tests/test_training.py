"""SFT and GRPO on the nano model: what is trained, what is logged, what stops, and how it goes on."""

import copy
import itertools
import os
import shutil
import socket
import statistics
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers
import trl
from transformers.trainer_pt_utils import LengthGroupedSampler

from wordlelib import (
    callbacks,
    clues,
    data,
    evaluate,
    models,
    players,
    rewards,
    runs,
    tasks,
    trackers,
    training,
)
from wordlelib.callbacks import SkipNonFinite
from wordlelib.game import Turn, decode_history, encode_history, score
from wordlelib.prompts import completion, messages
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.words import sample_words, split_secrets

TEMPLATES = Path(trl.__file__).parent / "chat_templates"


@pytest.fixture(scope="module")
def game(shipped):
    words = sample_words(shipped, 40, seed=1)
    return Solver(words, rules_for(words, renderer="symbols"))


@pytest.fixture(scope="module")
def source(game, tmp_path_factory):
    split = split_secrets(game.words, test=8, val=4)
    folder = tmp_path_factory.mktemp("data")
    data.build(
        folder, game.rules, split, source={"sample": 40, "sample_seed": 1}, rows=150, states=40, candidates=2
    )
    return data.load(folder)


@pytest.fixture
def tokenizer(game):
    return models.nano_tokenizer(game.rules)


KEEPING = {
    "tracker": "none",
    "save_minutes": 0,
    "keep_checkpoints": 1,
    "max_memory_gb": 0,
}
SFT = {
    **KEEPING,
    "learning_rate": 2e-3,
    "warmup_steps": 1,
    "batch_size": 8,
    "micro_batch_size": 0,
    "max_steps": 6,
    "max_minutes": 0,
    "eval_every": 3,
    "save_every": 3,
    "max_length": 200,
    "batch_order": "sorted",
    "seed": 0,
}
GRPO = {
    **KEEPING,
    "eval_every": 0,
    "unit": "turn",
    "learning_rate": 1e-4,
    "warmup_steps": 0,
    "batch_size": 8,
    "micro_batch_size": 0,
    "group_size": 4,
    "max_steps": 2,
    "max_minutes": 0,
    "states": "refreshed",
    "refresh_every": 1,
    **{"clues": 0.0, "mistakes_first": False},
    "preset": "ours",
    "schedule": "fixed",
    "temperature": 1.0,
    "max_completion_length": 12,
    "beta": 0.0,
    "epsilon": 0.2,
    "save_every": 1,
    "seed": 0,
}


def open_run(folder: Path, settings: dict, resumed: bool = False) -> runs.Run:
    folder.mkdir(exist_ok=True)
    return runs.Run("02_sft", SimpleNamespace(**settings), folder, resumed)


def train_sft(source, folder, model=None, resumed=False, measure=lambda number: {}, rows=None, **changes):
    tokenizer = models.nano_tokenizer(source.rules)
    run = open_run(folder, SFT | changes, resumed)
    model = model or models.nano_model(tokenizer)
    rows = rows or source.rows("sft")
    metrics = training.sft(model, tokenizer, rows, source.rows("sft_val"), run.config, run, measure)
    return model, metrics


def train_grpo(source, game, folder, model=None, resumed=False, measure=lambda number: {}, **changes):
    tokenizer = models.nano_tokenizer(source.rules)
    run = open_run(folder, GRPO | changes, resumed)
    model = model or models.nano_model(tokenizer)
    metrics = training.grpo(
        model, tokenizer, source.rows("states"), source.split.train, game, run.config, run, measure
    )
    return model, metrics


def flat(model) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in model.parameters()])


# What is trained ---------------------------------------------------------------------------------


def test_only_the_completion_and_the_end_token_are_trained(source, tokenizer):
    row = source.rows("sft")[0]
    [tokenized] = training.tokenize([row], tokenizer, 200)
    shown = training.check_labels(row, tokenized, tokenizer)
    assert shown == row["completion"][0]["content"] + tokenizer.eos_token
    n = tokenized["labels"].count(training.IGNORED)
    [prompt] = players.prompt_ids(tokenizer, [row["prompt"]])
    assert tokenized["input_ids"][:n] == prompt


@pytest.mark.parametrize("name", ["nano", "qwen2_5", "qwen3"])
def test_the_tokens_of_training_are_the_tokens_of_play(source, tokenizer, name):
    """Also TRL's own tokenization of a GRPO prompt gives the same ids."""
    if name != "nano":
        tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text()
    for row in source.rows("sft")[:20]:
        [tokenized] = training.tokenize([row], tokenizer, 5000)
        trained = tokenized["labels"].count(training.IGNORED)
        played = players.prompt_ids(tokenizer, [row["prompt"]])[0]
        grpo = tokenizer.apply_chat_template(
            [row["prompt"]], add_generation_prompt=True, return_dict=True, **players.TEMPLATE_OPTIONS
        )["input_ids"][0]
        assert tokenized["input_ids"][:trained] == played == grpo
        answer = tokenizer.decode(tokenized["input_ids"][trained:-1])
        assert answer == row["completion"][0]["content"]


def test_labels_with_prompt_text_stop_the_training(source, tokenizer):
    row = source.rows("sft")[0]
    [tokenized] = training.tokenize([row], tokenizer, 200)
    with pytest.raises(ValueError, match="not the completion"):
        training.check_labels(row, tokenized | {"labels": tokenized["input_ids"]}, tokenizer)


def test_labels_without_the_end_token_stop_the_training(source, tokenizer):
    row = source.rows("sft")[0]
    [tokenized] = training.tokenize([row], tokenizer, 200)
    with pytest.raises(ValueError, match="lack the end token"):
        training.check_labels(row, tokenized | {"labels": tokenized["labels"][:-1]}, tokenizer)


def test_case_34_a_row_over_max_length_is_an_error_and_never_cut(source, tokenizer):
    with pytest.raises(ValueError, match="more than max_length 20: raise max_length"):
        training.tokenize(source.rows("sft"), tokenizer, 20)


def test_case_35_the_end_token_is_trained_even_where_it_also_pads(source, tokenizer):
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    tokenizer.pad_token = tokenizer.eos_token
    short, long = sorted(
        training.tokenize(source.rows("sft"), tokenizer, 200), key=lambda row: len(row["input_ids"])
    )[:: len(source.rows("sft")) - 1]
    batch = DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id)([short, long])
    labels = batch["labels"][0].tolist()
    assert labels[len(short["labels"]) - 1] == tokenizer.eos_token_id
    assert set(labels[len(short["labels"]) :]) == {training.IGNORED}


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        (r"<think>|</think>| no|[\s\S]", ["<think>", " no", ";", " ", "C", " ", "D", "</think>"]),
        (r"<think>|A B no|[\s\S]", ["<think>", "A B no", ";", " ", "C", " ", "D", *"</think>"]),
        (r"k>A|B n|[\s\S]", [*"<thin", "B n", "o", ";", " ", "C", " ", "D", *"</think>"]),
    ],
)
def test_tokens_over_the_edge_of_a_rejected_word_are_of_what_they_end_in(pieces, kept):
    """Whatever the tokenizer joins, the *no* is trained, and what is trained is still the completion."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    text = "<think>A B no; C D</think>"
    cut = pre_tokenizers.Split(Regex(pieces), "isolated")
    vocabulary = {
        piece: i for i, piece in enumerate(dict.fromkeys([p for p, _ in cut.pre_tokenize_str(text)]))
    }
    made = Tokenizer(models.WordLevel(vocabulary | {"?": 98, "!": 99}, unk_token="?"))
    made.pre_tokenizer, made.decoder = cut, decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="!", chat_template="{{ messages[0].content }}"
    )
    row = {"prompt": [{"role": "user", "content": "?"}], "completion": [{"content": text}], "secret": ""}
    [tokens] = training.tokenize([row], tokenizer, 99)
    training.check_labels(row, tokens, tokenizer)
    trained = [label for label in tokens["labels"] if label != training.IGNORED]
    assert [tokenizer.decode([label]) for label in trained] == [*kept, "!"]


def test_a_tokenizer_that_knows_no_places_does_for_rows_without_rejected_words(
    source, tokenizer, monkeypatch
):
    rows = source.rows("sft")[:3]
    tokenized, called = training.tokenize(rows, tokenizer, 200), type(tokenizer).__call__

    def in_python(self, *texts, return_offsets_mapping=False, **options):
        if return_offsets_mapping:
            pytest.fail("a tokenizer in Python was asked for the places of its tokens")
        return called(self, *texts, **options)

    monkeypatch.setattr(type(tokenizer), "__call__", in_python)
    assert training.tokenize(rows, tokenizer, 200) == tokenized


# SFT ---------------------------------------------------------------------------------------------


def with_sampler(source, folder, monkeypatch, look, **changes):
    """What `look` gives of the trainer of an SFT, before it trains."""
    seen, group = [], training._group_by_length

    def grouped(trainer, order):
        own = trainer._get_train_sampler(trainer.train_dataset)
        group(trainer, order)
        seen.append(look(trainer, own, trainer._get_train_sampler(trainer.train_dataset)))
        raise Stopped

    monkeypatch.setattr(training, "_group_by_length", grouped)
    with pytest.raises(Stopped):
        train_sft(source, folder, **changes)
    return seen[0]


def test_sorted_batches_are_those_of_the_trainer_itself(source, tmp_path, monkeypatch):
    """So a resumed training meets them in the order of an uninterrupted one, as the trainer sees to it."""

    def look(trainer, own, new):
        return [(torch.manual_seed(3), list(sampler))[1] for sampler in (own, new)]

    own, new = with_sampler(source, tmp_path, monkeypatch, look)
    assert own == new and sorted(own) == list(range(len(source.rows("sft"))))


def test_shuffled_batches_hold_the_same_rows_in_random_order(source, tmp_path, monkeypatch):
    """The longest comes first, and a short one last; the order is another one in each pass."""
    size = SFT["batch_size"]

    def look(trainer, own, new):
        lengths = list(map(len, trainer.train_dataset.data["input_ids"].to_pylist()))

        def batches(sampler):
            order = list(sampler)
            return [tuple(order[start : start + size]) for start in range(0, len(order), size)]

        torch.manual_seed(0)
        own = batches(LengthGroupedSampler(size, lengths=lengths, generator=torch.Generator().manual_seed(0)))
        first, again = batches(new), batches(new)
        new.set_epoch(1)
        return lengths, own, first, again, batches(new)

    changes = {"batch_order": "shuffled", "micro_batch_size": size // 2}
    lengths, own, first, again, second = with_sampler(source, tmp_path, monkeypatch, look, **changes)
    assert sorted(first) == sorted(own) and first == again != second
    assert first[0] == own[0] and lengths[first[0][0]] == max(lengths)
    assert len(own[-1]) < size and first[-1] == own[-1]
    assert sum(a == b for a, b in zip(own, first, strict=True)) < len(own) / 2


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 9])
def test_few_rows_make_few_batches(source, tmp_path, monkeypatch, rows):
    changes = {"rows": source.rows("sft")[:rows], "batch_size": 4, "batch_order": "shuffled"}
    order = with_sampler(source, tmp_path, monkeypatch, lambda trainer, own, new: list(new), **changes)
    assert sorted(order) == list(range(rows))


def test_sft_learns_and_logs_every_column(source, tmp_path):
    _, metrics = train_sft(
        source, tmp_path, max_steps=20, eval_every=10, measure=lambda number: {"val_win_rate": number / 4}
    )
    log = runs.read_log(tmp_path / "log.jsonl")
    losses = [row["eval_loss"] for row in log if "eval_loss" in row]
    assert len(losses) == 2 and losses[1] < losses[0]
    assert {"loss", "grad_norm", "learning_rate", "minutes", "memory_gib", "tokens_per_s"} <= set(log[0])
    validations = [row for row in log if "eval_loss" in row]
    assert [(row["step"], row["val_win_rate"]) for row in validations] == [(10, 0.25), (20, 0.5)]
    assert metrics["steps"] == 20 and metrics["tokens_per_s"] > 0 and metrics["skipped_steps"] == 0


class Stopped(Exception):
    """Stands for a kill between two steps."""


def stop_at_second_validation(number):
    if number == 2:
        raise Stopped
    return {}


@pytest.mark.parametrize("order, rows", [("sorted", 0), ("shuffled", 0), ("shuffled", 26)])
def test_a_resumed_sft_ends_with_the_weights_of_an_uninterrupted_one(source, tmp_path, order, rows):
    """Same rows, same step count, same optimiser state; the log has each step once.

    In random order also where it was stopped in the second pass: a pass over 26 rows has four steps.
    """
    steps = {"max_steps": 12, "eval_every": 6, "save_every": 6} if rows else {}
    steps |= {"rows": source.rows("sft")[:rows], "batch_order": order}
    whole, _ = train_sft(source, tmp_path / "whole", **steps)
    with pytest.raises(Stopped):
        train_sft(source, tmp_path / "cut", measure=stop_at_second_validation, **steps)
    resumed, metrics = train_sft(source, tmp_path / "cut", resumed=True, **steps)
    last = steps.get("max_steps", 6)
    assert metrics["steps"] == last
    assert torch.allclose(flat(whole), flat(resumed), atol=1e-6)
    log = runs.read_log(tmp_path / "cut" / "log.jsonl")
    assert [row["step"] for row in log if "eval_loss" in row] == [last // 2, last]


def test_a_training_that_lowered_limits_end_at_a_checkpoint_says_so(source, tmp_path):
    """Killed behind the checkpoint of step 4, and resumed with the minutes that two steps had taken."""
    steps = {"save_every": 2, "eval_every": 2}
    train_sft(source, tmp_path, **steps)
    shutil.rmtree(tmp_path / "checkpoints" / "checkpoint-6")
    minutes = runs.read_log(tmp_path / "log.jsonl")[1]["minutes"]
    _, metrics = train_sft(source, tmp_path, resumed=True, max_minutes=minutes, **steps)
    assert metrics["steps"] == 4 and runs.read_log(tmp_path / "log.jsonl")[-1]["step"] == 4


@pytest.mark.parametrize(
    ("ends", "steps"), [({}, [6]), ({"max_steps": 0, "max_minutes": 0.001}, range(1, 1000))]
)
def test_resuming_a_finished_training_takes_no_further_step(source, tmp_path, ends, steps):
    """Finished by its steps, or by the clock."""
    whole, metrics = train_sft(source, tmp_path, **ends)
    resumed, again = train_sft(source, tmp_path, resumed=True, **ends)
    assert again == metrics and metrics["steps"] in steps
    assert torch.equal(flat(whole), flat(resumed))


def test_a_half_written_checkpoint_is_passed_over(tmp_path):
    """A kill while a checkpoint is saved leaves it without its last file."""
    for step, name in ((9, "trainer_state.json"), (10, "trainer_state.json"), (11, "model.safetensors")):
        (tmp_path / f"checkpoints/checkpoint-{step}").mkdir(parents=True)
        (tmp_path / f"checkpoints/checkpoint-{step}" / name).touch()
    newest = training.last_checkpoint(open_run(tmp_path, SFT, True))
    assert Path(newest).name == "checkpoint-10"
    assert training.last_checkpoint(open_run(tmp_path, SFT)) is None


def test_minutes_limit_the_training(source, tmp_path):
    _, metrics = train_sft(source, tmp_path, max_steps=0, max_minutes=0.001)
    assert 1 <= metrics["steps"] < 100


def test_a_training_whose_time_is_up_validates_the_weights_that_it_saves(source, tmp_path):
    train_sft(source, tmp_path, max_steps=0, max_minutes=0.001, eval_every=1000)
    *_, validation, end = runs.read_log(tmp_path / "log.jsonl")
    assert "eval_loss" in validation and validation["step"] == end["step"] < 100


def begun_by_the_clock(monkeypatch, folder, minutes):
    """The log of a training that has begun, and the seconds by which it goes."""
    clock = [0.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock[0])
    log = callbacks.StepLog(open_run(folder, SFT), minutes, callbacks.SkipNonFinite())
    state, control = SimpleNamespace(global_step=0, num_input_tokens_seen=0), SimpleNamespace()
    log.on_train_begin(None, state, control)
    return clock, log, state, control


def test_a_training_whose_time_is_up_asks_for_a_checkpoint_of_its_end(monkeypatch, tmp_path):
    """What follows in a stage may be stopped: resumed, it must not train again what no checkpoint had."""
    clock, log, state, control = begun_by_the_clock(monkeypatch, tmp_path, 1)
    log.on_step_end(SimpleNamespace(eval_strategy="steps"), state, control)
    assert not vars(control)
    clock[0] = 60.0
    log.on_step_end(SimpleNamespace(eval_strategy="steps"), state, control)
    assert control.should_training_stop and control.should_evaluate and control.should_save


@pytest.mark.parametrize("rows_a_process", [10, 1000])
def test_a_data_set_has_the_same_tokens_by_one_process_or_two(source, tokenizer, monkeypatch, rows_a_process):
    rows = source.rows("sft")[:25]
    monkeypatch.setattr(training, "ROWS_A_PROCESS", rows_a_process)
    tokenized = training.tokenized_dataset(rows, tokenizer, 200)
    assert tokenized.to_list() == training.tokenize(rows, tokenizer, 200)
    whole = training.tokenized_dataset(source.dataset("sft"), tokenizer, 200)
    assert whole.to_list()[:25] == tokenized.to_list() and len(whole) == len(source.rows("sft"))
    with pytest.raises(ValueError, match="more than max_length 20: raise"):
        training.tokenized_dataset(rows, tokenizer, 20)


def rates(max_steps, log, steps, warmup=5):
    """The learning rate of each step, of a peak of 1, as `decay_to_the_end` schedules it."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    arguments = SimpleNamespace(max_steps=max_steps, get_warmup_steps=lambda steps: warmup)
    trainer = SimpleNamespace(args=arguments, optimizer=optimizer)
    callbacks.decay_to_the_end(trainer, log)
    schedule, found = trainer.create_scheduler(max_steps), []
    for _ in range(steps):
        found += schedule.get_last_lr()
        optimizer.step()
        schedule.step()
    return found


def test_while_the_minutes_suffice_the_schedule_is_the_linear_one_of_transformers():
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    linear, expected = get_linear_schedule_with_warmup(optimizer, 5, 40), []
    for _ in range(40):
        expected += linear.get_last_lr()
        optimizer.step()
        linear.step()
    assert rates(40, SimpleNamespace(steps_in_time=lambda step: 41.0), 40) == expected


def test_the_learning_rate_falls_to_zero_when_the_minutes_end_first():
    found = rates(10_000, SimpleNamespace(steps_in_time=lambda step: 105.0), 105)
    assert found[:5] == [0, 0.2, 0.4, 0.6, 0.8] and found[5] == 1.0
    assert found[55] == pytest.approx(0.5) and found[104] == pytest.approx(0.01)


def test_the_steps_that_fit_follow_the_pace_and_pass_over_a_slow_step(monkeypatch, tmp_path):
    """A validation, or the compilation of the first step, says nothing about the pace."""
    clock, log, state, control = begun_by_the_clock(monkeypatch, tmp_path, 2)
    assert log.steps_in_time(0) == float("inf")
    for step, seconds in enumerate([40.0, *[1.0] * 20, 30.0, *[1.0] * 10], 1):
        clock[0] += seconds
        log.on_step_end(None, state, control)
        if step > 2:
            assert log.steps_in_time(step) == pytest.approx(step + 120 - clock[0])


def test_adapters_train_too(source, tokenizer, tmp_path):
    model = models.attach_adapter(models.nano_model(tokenizer), rank=4)
    base = model.get_base_model().model.embed_tokens.weight.clone()
    train_sft(source, tmp_path, model)
    models.require_trained_adapter(model)
    assert torch.equal(model.get_base_model().model.embed_tokens.weight, base)


def test_a_run_of_nan_losses_stops_and_keeps_the_last_checkpoint(source, tmp_path):
    def poison_the_next_step(number):
        def poison(module, arguments):
            if module.training:
                model.model.norm.weight.data.fill_(float("nan"))

        model.register_forward_pre_hook(poison)
        return {}

    model = models.nano_model(models.nano_tokenizer(source.rules))
    with pytest.raises(FloatingPointError, match="5 steps in a row, up to step 9"):
        train_sft(source, tmp_path, model, max_steps=20, eval_every=4, measure=poison_the_next_step)
    kept = models.load(Path(training.last_checkpoint(open_run(tmp_path, SFT, True))), source.rules)[0]
    assert flat(kept).isfinite().all()


def test_a_step_with_an_infinite_gradient_changes_nothing_and_is_counted():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    guard, before = SkipNonFinite(), flat(model)
    state, args = SimpleNamespace(global_step=0), SimpleNamespace(output_dir="here")
    for gradient, skipped in ((float("inf"), 1), (float("nan"), 2), (1.0, 2)):
        for value in model.parameters():
            value.grad = torch.full_like(value, gradient)
        guard.on_pre_optimizer_step(args, state, None, model=model)
        optimizer.step()
        assert guard.skipped == skipped
        assert torch.equal(flat(model), before) == (gradient != 1.0)
    assert guard.in_a_row == 0


# GRPO --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("states", ["fixed", "refreshed", "mixed"])
def test_grpo_logs_rewards_and_the_health_of_groups(source, game, tmp_path, states):
    _, metrics = train_grpo(source, game, tmp_path, states=states)
    log = runs.read_log(tmp_path / "log.jsonl")
    first = log[0]
    expected = {"reward", "reward_std", "frac_reward_zero_std", "rewards/format/mean", "rewards/chance/mean"}
    expected |= {"distinct_completions", "top_guess_share", "format_share", "nonword_share", "grad_norm"}
    expected |= {"completions/clipped_ratio", "completions/mean_length", "minutes", "memory_gib"}
    assert expected <= set(first)
    assert ("games_win_rate" in first) == (states != "fixed")
    assert (tmp_path / "states").is_dir() == (states != "fixed")
    if states != "fixed":
        sources = [row["source"] for row in data.read_jsonl(tmp_path / "states" / "round_0.jsonl")]
        given = sum(source != "policy" for source in sources)
        assert given == (min(len(sources) / 2, len(source.rows("states"))) if states == "mixed" else 0)
    assert metrics["steps"] == 2 and metrics["final_reward"] is not None


def test_grpo_practises_clues_beside_states(shipped, tmp_path):
    """The share that is asked for of each round, half of the rest given; right is every word that fits."""
    words = sample_words(shipped, 40, seed=1)
    game, config = Solver(words, rules_for(words)), {"states": "mixed", "clues": 0.5, "batch_size": 64}
    run = open_run(tmp_path, GRPO | config | {"max_steps": 1})
    given = [data.state_row(game, (), secret, "given") for secret in words.answers[:9]]
    tokenizer = models.nano_tokenizer(game.rules)
    training.grpo(models.nano_model(tokenizer), tokenizer, given, words.answers, game, run.config, run)
    rows = data.read_jsonl(tmp_path / "states" / "round_0.jsonl")
    asked = [row for row in rows if row["source"] == "clue"]
    assert Counter(row["source"] for row in rows) == {"clue": 8, "policy": 4, "given": 4}
    assert all(row["fits"] for row in asked) and not any(row["fits"] for row in rows if row not in asked)
    texts = [completion([row["best_guess"]], row["best_guess"]) for row in asked]
    columns = {name: [row[name] for row in asked] for name in asked[0] if name != "prompt"}
    functions, weights = rewards.make_reward_functions("ours", game, game.rules)
    terms = [np.multiply(w, f(completions=texts, **columns)) for f, w in zip(functions, weights, strict=True)]
    assert 0 <= runs.read_log(tmp_path / "log.jsonl")[0]["clues_right"] <= 1
    assert sum(terms) == pytest.approx([2.4 + 0.5 / row["n_candidates"] for row in asked])


def test_grpo_practises_the_clues_that_the_policy_gets_wrong(shipped, tmp_path, monkeypatch):
    """It is asked more than are used; after a non-word the clue comes once more with that shown."""
    words = sample_words(shipped, 40, seed=1)
    game, config = Solver(words, rules_for(words, renderer="facts")), {"states": "mixed", "clues": 0.5}
    run = open_run(tmp_path, GRPO | config | {"mistakes_first": True, "batch_size": 64, "max_steps": 1})
    asked = []

    def answers(generate, tokenizer, chats, seeds):
        asked.append(chats)
        assert len(set(seeds)) == len(chats) == 32
        others = [["think", "zzzzz"][n] if n < 2 else words.answers[0] for n in range(len(chats))]
        return [completion([word], word) for word in others]

    monkeypatch.setattr(training.players, "answers", answers)
    given = [data.state_row(game, (), secret, "given") for secret in words.answers[:9]]
    tokenizer = models.nano_tokenizer(game.rules)
    training.grpo(models.nano_model(tokenizer), tokenizer, given, words.answers, game, run.config, run)
    [chats] = asked
    solved = [clue.right for clue in clues.questions(words, game.rules, 32, GRPO["seed"] + 1000)]
    used = [row for row in data.read_jsonl(tmp_path / "states" / "round_0.jsonl") if row["source"] == "clue"]
    shown = {row["prompt"][1]["content"]: decode_history(row["history"]) for row in used}
    tried = {text: history for text, history in shown.items() if history}
    assert len(used) == 8 and {word for [[word, *_]] in tried.values()} <= {"think", "zzzzz"}
    assert (Turn("zzzzz", None, "ok", "not_a_word"),) in tried.values()
    first = f"{chats[1][1]['content']}\nNot words: Z Z Z Z Z"
    assert first in tried and chats[1][1]["content"] in shown
    assert all(words.answers[0] not in row["fits"].split() for row in used)
    right = sum(words.answers[0] in fits for fits in solved[2:])
    assert 0 < right == 32 * runs.read_log(tmp_path / "log.jsonl")[0]["asked_clues_right"]


def test_a_game_without_summaries_has_no_clues_to_practise(source, game, tmp_path):
    with pytest.raises(ValueError, match=r"^03_grpo: clues: clues look like the summary"):
        train_grpo(source, game, tmp_path, clues=0.5)


def test_a_resumed_grpo_sees_the_same_states(source, game, tmp_path):
    """Rounds that are on disk are read, not played again."""
    train_grpo(source, game, tmp_path, max_steps=2)
    rounds = {path.name: path.read_bytes() for path in (tmp_path / "states").iterdir()}
    assert "round_1.jsonl" in rounds
    last = Path(training.last_checkpoint(open_run(tmp_path, GRPO, True)))
    last.rename(last.with_name("old"))  # as if killed before the second step was saved
    _, metrics = train_grpo(source, game, tmp_path, resumed=True, max_steps=2)
    assert metrics["steps"] == 2
    assert [row["step"] for row in runs.read_log(tmp_path / "log.jsonl") if "loss" in row] == [1, 2]
    assert {name: (tmp_path / "states" / name).read_bytes() for name in rounds} == rounds


def test_a_resumed_grpo_ends_with_the_weights_of_an_uninterrupted_one(source, game, tmp_path):
    """Killed in the fourth step, it goes on from the second with the same states, samples and optimiser."""
    start, _ = train_sft(source, tmp_path / "sft", max_steps=80, eval_every=80, learning_rate=1e-2)
    steps = {"max_steps": 5, "eval_every": 2, "save_every": 2, "refresh_every": 3}

    def train(name, **more):
        model = copy.deepcopy(start)
        return train_grpo(source, game, tmp_path / name, model, max_completion_length=40, **steps, **more)

    whole, _ = train("whole")
    with pytest.raises(Stopped):
        train("cut", measure=stop_at_second_validation)
    assert checkpoints(tmp_path / "cut") == [2]
    resumed, metrics = train("cut", resumed=True)
    assert metrics["steps"] == 5
    assert torch.allclose(flat(whole), flat(resumed), atol=1e-6)
    assert [row["step"] for row in logged(tmp_path / "cut", "loss")] == [1, 2, 3, 4, 5]
    assert all(row["grad_norm"] > 0 for row in logged(tmp_path / "cut", "loss"))


def always(model, token: int) -> None:
    """Make a model generate one token and nothing else."""

    def add(module, arguments, output):
        output[..., token] += 1e4
        return output

    model.lm_head.register_forward_hook(add)


def test_case_32_every_end_token_of_the_generation_config_ends_a_completion(
    source, game, tokenizer, tmp_path
):
    model = models.nano_model(tokenizer)
    second_end = tokenizer.convert_tokens_to_ids("~")
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, second_end]
    always(model, second_end)
    train_grpo(source, game, tmp_path, model, max_steps=1)
    row = runs.read_log(tmp_path / "log.jsonl")[0]
    assert row["completions/clipped_ratio"] == 0
    assert row["completions/mean_length"] == 1


def test_case_32_a_batch_of_cut_completions_stays_finite_and_warns(source, game, tokenizer, tmp_path, capsys):
    model = models.nano_model(tokenizer)
    always(model, tokenizer.convert_tokens_to_ids("a"))
    train_grpo(source, game, tmp_path, model, max_steps=1)
    row = runs.read_log(tmp_path / "log.jsonl")[0]
    assert row["completions/clipped_ratio"] == 1
    assert row["loss"] == 0 and flat(model).isfinite().all()
    assert "100% of completions are cut" in capsys.readouterr().out


def test_case_29_equal_rewards_give_no_gradient_and_a_warning(source, game, tokenizer, tmp_path, capsys):
    model = models.nano_model(tokenizer)
    always(model, tokenizer.eos_token_id)
    before = flat(model)
    train_grpo(source, game, tmp_path, model, max_steps=1)
    row = runs.read_log(tmp_path / "log.jsonl")[0]
    assert row["frac_reward_zero_std"] == 1 and row["grad_norm"] == 0
    assert torch.allclose(flat(model), before)
    assert "100% of groups have equal rewards" in capsys.readouterr().out


def test_reward_weights_follow_their_schedule(source, game, tmp_path):
    """A linear ramp begins with form and dictionary alone, so two runs differ in the total only."""
    train_grpo(source, game, tmp_path / "fixed", schedule="fixed", max_steps=1)
    train_grpo(source, game, tmp_path / "linear", schedule="linear", max_steps=1)
    fixed, linear = (runs.read_log(tmp_path / name / "log.jsonl")[0] for name in ("fixed", "linear"))
    assert fixed["rewards/greys/mean"] == linear["rewards/greys/mean"]
    expected = linear["rewards/format/mean"] + 0.5 * linear["rewards/dictionary/mean"]
    assert linear["reward"] == pytest.approx(expected)


def test_states_are_the_same_whenever_they_are_asked_for(tmp_path):
    rows = [{"n": n} for n in range(10)]
    forward = training.States(rows, tmp_path, 4, None)
    backward = training.States(rows, tmp_path, 4, None)
    assert [forward[i] for i in range(12)] == [backward[i] for i in reversed(range(12))][::-1]


def test_a_round_of_states_is_played_once(tmp_path):
    played = []

    def play(k):
        played.append(k)
        return [{"round": k, "n": n} for n in range(3)]

    states = training.States([], tmp_path / "states", 4, play)
    assert [states[i]["round"] for i in range(8)] == [0] * 4 + [1] * 4
    again = training.States([], tmp_path / "states", 4, play)
    assert [again[i] for i in range(8)] == [states[i] for i in range(8)]
    assert played == [0, 1]


def test_policy_states_are_distinct_and_carry_their_columns(game):
    player = players.solver_player(game, "random_consistent")
    secrets = game.words.answers[:10]
    records = evaluate.play_games(player, secrets, game.words, game.rules, name="policy")
    rows = training.policy_states(records, game, 1000, seed=0)
    histories = [row["history"] for row in rows]
    met = {encode_history(evaluate.history_of(r)[:n]) for r in records for n in range(len(r["turns"]))}
    assert len(histories) == len(met) and set(histories) == met
    assert {"prompt", "secret", "history", "n_candidates", "best_guess", "best_bits", "source"} == set(
        rows[0]
    )


def test_states_where_the_policy_was_wrong_come_first(game):
    """No legal guess, a guess made before, with one or two words left none of these, or a rejected word
    that is left or was rejected before; none is lost."""
    secret, other = game.words.answers[:2]
    illegal, guess = Turn("zzzzz", None, "ok", "not_a_word"), Turn(other, score(other, secret))
    near = next(
        turns
        for word in game.words.answers[2:]
        if len(game.candidates(turns := (Turn(word, score(word, secret)),))) == 1
    )
    for history, turn in (((), illegal), ((illegal,), illegal), (near, guess), ((*near, guess), guess)):
        assert training._erred(history, [turn], game)
    for history, turn in (((), guess), (near, Turn(secret, "GGGGG"))):
        assert not training._erred(history, [turn], game)
        assert training._erred(history, [turn, illegal], game)  # another game's
        for rejected in ([secret], ["zzzzz", "zzzzz"], ["zzzzz"]):
            looked = turn._replace(text=completion([turn.guess], turn.guess, rejected=rejected))
            assert training._erred(history, [looked], game) == (rejected != ["zzzzz"])
    nothing_left = (Turn(secret, "GGGGG"), Turn(other, "GGGGG"))
    assert not training._erred(nothing_left, [Turn(game.words.answers[2], "BBBBB")], game)
    solver = players.solver_player(game, "random_consistent")

    def player(histories, seeds):
        texts = zip(solver(histories, seeds), seeds, strict=True)
        return [text if seed % 2 else completion(["zzzzz"], "zzzzz") for text, seed in texts]

    records = evaluate.play_games(player, game.words.answers[:12], game.words, game.rules, name="policy")
    made = {}
    for turns in map(evaluate.history_of, records):
        for k, turn in enumerate(turns):
            made.setdefault(encode_history(turns[:k]), (turns[:k], []))[1].append(turn)
    rows = training.policy_states(records, game, 1000, 0, mistakes_first=True)
    marks = [training._erred(*made[row["history"]], game) for row in rows]
    assert marks == sorted(marks, reverse=True) and {True, False} == set(marks)
    assert sorted(row["history"] for row in rows) == sorted(made)
    assert rows[:5] == training.policy_states(records, game, 5, 0, mistakes_first=True)


@pytest.mark.parametrize("mistakes_first", [False, True])
def test_secrets_of_sft_are_played_again_where_mistakes_come_first(
    source, game, tmp_path, monkeypatch, mistakes_first
):
    """All of them, and all of GRPO's own; these alone are counted."""
    played, how = [], []
    play, states = evaluate.play_games, training.policy_states

    def play_games(player, secrets, *rest, **options):
        played.append(secrets)
        solver = players.solver_player(game, "random_consistent")
        lost = [secret in source.split.train[3:] for secret in secrets]
        records = play(solver, secrets, *rest, **options)
        return [record | {"won": not failed} for record, failed in zip(records, lost, strict=True)]

    monkeypatch.setattr(training.evaluate, "play_games", play_games)
    monkeypatch.setattr(training, "policy_states", lambda *given: how.append(given[4:]) or states(*given))
    own, rehearsed = source.split.train[:3], source.split.train[3:]
    changes = {"states": "refreshed", "max_steps": 1, "mistakes_first": mistakes_first}
    run = open_run(tmp_path, GRPO | changes)
    tokenizer = models.nano_tokenizer(game.rules)
    model = models.nano_model(tokenizer)
    training.grpo(
        model, tokenizer, [], own, game, run.config, run, rehearsed=rehearsed, barred=frozenset({"zzzzz"})
    )
    [secrets] = played
    assert sorted(secrets[:3]) == sorted(own) and secrets[3:] == list(rehearsed) * mistakes_first
    assert how == [(mistakes_first, {"zzzzz"})]
    row = runs.read_log(tmp_path / "log.jsonl")[0]
    assert (row["games_played"], row["games_win_rate"]) == (3, 1.0)


def test_what_follows_a_barred_word_becomes_no_state(game):
    """A prompt would show it, as a guess or as a string that is no word."""
    secret, barred = game.words.answers[0], "ouija"
    text = completion(["fjord", "waltz"], barred)

    def player(histories, seeds):
        return [completion(["zzzzz"], "zzzzz") if not history else text for history in histories]

    records = evaluate.play_games(player, [secret], game.words, game.rules, name="policy")
    all_of_it = training.policy_states(records, game, 100, 0)
    kept = training.policy_states(records, game, 100, 0, True, {barred})
    assert len(all_of_it) == 6 and sorted(len(decode_history(row["history"])) for row in kept) == [0, 1]
    assert len(training.policy_states(records, game, 100, 0, False, {"waltz"})) == 2  # spelled


def test_a_board_game_has_no_mistakes_to_take_first(source, game, tmp_path):
    other = SimpleNamespace(rules=SimpleNamespace(game="tic_tac_toe"))
    config = SimpleNamespace(clues=0.0, mistakes_first=True)
    with pytest.raises(ValueError, match="is of Wordle, and the game is tic_tac_toe: set it to false"):
        training._turns([], other, config, None, None)


def test_only_the_states_that_a_round_uses_get_columns(game, monkeypatch):
    """They are drawn by the seed, and a row says the same as when all are taken."""
    player = players.solver_player(game, "random_consistent")
    secrets = game.words.answers[:10]
    records = evaluate.play_games(player, secrets, game.words, game.rules, name="policy")
    everything = training.policy_states(records, game, 1000, seed=0)
    computed = []
    state_row = data.state_row
    monkeypatch.setattr(data, "state_row", lambda *state: computed.append(state) or state_row(*state))
    first, again, other = (training.policy_states(records, game, 5, seed) for seed in (1, 1, 2))
    assert len(computed) == 15 and len(first) == 5 and first == again != other
    assert all(row in everything for row in first)


# Warnings and statistics -------------------------------------------------------------------------


def test_warnings_come_past_their_limits_and_name_a_section_of_the_troubleshooting_page():
    quiet = {"frac_reward_zero_std": 0.5, "top_guess_share": 0.3, "completions/clipped_ratio": 0.0}
    assert training.warnings_of(quiet) == {}
    loud = training.warnings_of({name: 0.9 for name in quiet})
    assert set(loud) == set(training.WARNINGS)
    assert all("90%" in sentence for sentence in loud.values())
    page = (runs.project_root() / "notebooks" / "troubleshooting.md").read_text()
    for anchor in training.WARNINGS:
        assert f"## {anchor}\n" in page


def test_completion_statistics_of_a_batch_by_hand(game):
    word, other = game.words.answers[:2]
    good = completion([word], word)
    texts = [good, good, good, f"<guess>{other}</guess>", completion(["zzzzz"], "zzzzz"), "", "x", "<guess>"]
    assert training.completion_statistics(texts, 4, game) == {
        "distinct_completions": (2 / 4 + 4 / 4) / 2,
        "top_guess_share": 3 / 8,
        "format_share": 4 / 8,
        "nonword_share": 1 / 8,
        "legal_share": 4 / 8,
    }


# Playing with a model ----------------------------------------------------------------------------


def test_case_37_a_batch_gives_the_answers_of_one_by_one(game, source, tmp_path):
    """Also when training has left the tokenizer padding on the right."""
    tokenizer = models.nano_tokenizer(game.rules)
    model, _ = train_sft(source, tmp_path, max_steps=15, eval_every=15, save_every=15)
    tokenizer.padding_side = "right"
    model.train()
    secret, first, second = game.words.answers[:3]
    short = (Turn(first, score(first, secret)),)
    histories = [(), short, (*short, Turn(second, score(second, secret)))]
    prompts = players.prompt_ids(tokenizer, [messages(history, game.rules) for history in histories])
    together = players.transformers_generator(model, tokenizer, 24)(prompts, [1, 2, 3])
    assert together == players.transformers_generator(model, tokenizer, 24, batch_size=1)(prompts, [1, 2, 3])
    assert all(tokenizer.eos_token_id not in row[:-1] for row in together), "padding is no completion"
    assert tokenizer.padding_side == "right" and model.training


def test_case_34_a_prompt_that_does_not_fit_the_model_is_refused(game, tokenizer):
    model = models.nano_model(tokenizer)
    generate = players.transformers_generator(model, tokenizer, max_completion_length=2048)
    with pytest.raises(ValueError, match="do not fit the model's 2048: lower max_completion_length"):
        generate([[1, 2]], [0])


def test_sampling_depends_on_the_seeds_alone_and_leaves_the_random_state(game, tokenizer):
    model = models.nano_model(tokenizer)
    generate = players.transformers_generator(model, tokenizer, 8, temperature=1.0)
    player = players.model_player(generate, tokenizer, game.rules)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first = player([(), ()], [1, 2])
    assert torch.equal(torch.rand(1), expected)
    assert first == player([(), ()], [1, 2]) != player([(), ()], [3, 4])


def test_parts_of_a_batch_train_as_the_whole_batch(source, tmp_path):
    """Gradients of micro batches add up: weights after four steps agree to rounding."""
    whole, _ = train_sft(source, tmp_path / "whole", max_steps=4, eval_every=4)
    parts, _ = train_sft(source, tmp_path / "parts", max_steps=4, eval_every=4, micro_batch_size=4)
    assert torch.allclose(flat(whole), flat(parts), atol=1e-4)


def test_a_penalty_that_a_model_ships_with_changes_no_completion(game, tokenizer):
    """The policy that plays is the policy that is trained: its probabilities alone."""
    model = models.nano_model(tokenizer)
    token = tokenizer.convert_tokens_to_ids("a")
    always(model, token)
    model.generation_config.repetition_penalty = 1e9
    for temperature in (0.0, 1.0):
        generate = players.transformers_generator(model, tokenizer, 8, temperature)
        assert generate([[token, token]], [1]) == [[token] * 8]


@pytest.mark.parametrize(
    ("sft", "grpo", "rows"),
    [
        ((256, 256), (512, 128), 128),
        ((64, 0), (512, 0), 64),
        ((64, 0), (25, 0), 16),
        ((96, 32), (512, 64), 32),
    ],
)
def test_the_control_beside_an_engine_has_no_more_rows_at_once_than_grpo(sft, grpo, rows):
    configs = [SimpleNamespace(batch_size=batch, micro_batch_size=micro) for batch, micro in (sft, grpo)]
    assert training.rows_beside_engine(*configs) == rows


# Checkpoints and long runs -----------------------------------------------------------------------


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoints/checkpoint-*"))


def test_the_last_checkpoints_and_the_best_one_are_kept(source, game, tmp_path):
    """The best is that of the first validation, and older than the two last ones."""
    model, metrics = train_grpo(
        *(source, game, tmp_path),
        max_steps=6,
        eval_every=2,
        save_every=1,
        keep_checkpoints=2,
        measure=lambda number: {"val_win_rate": 1 / number},
    )
    assert checkpoints(tmp_path) == [2, 5, 6]
    assert (metrics["best_step"], metrics["best_val_win_rate"]) == (2, 1.0)
    best, last = (
        models.load(tmp_path / f"checkpoints/checkpoint-{step}", source.rules)[0] for step in (2, 6)
    )
    # what the notebook saves are the last weights, not the best
    assert torch.equal(flat(model), flat(last)) and not torch.equal(flat(model), flat(best))


def test_the_best_checkpoint_of_sft_has_the_lowest_validation_loss(source, tmp_path):
    _, metrics = train_sft(source, tmp_path, max_steps=6, eval_every=2, save_every=100)
    losses = {row["step"]: row["eval_loss"] for row in logged(tmp_path, "eval_loss")}
    assert metrics["best_step"] == min(losses, key=losses.get)
    assert metrics["best_step"] in checkpoints(tmp_path)


def logged(folder: Path, name: str) -> list[dict]:
    return [row for row in runs.read_log(folder / "log.jsonl") if name in row]


def test_a_checkpoint_is_written_after_so_many_minutes(source, tmp_path):
    train_sft(source, tmp_path, save_every=100, eval_every=100, save_minutes=1e-6, keep_checkpoints=9)
    assert checkpoints(tmp_path) == [1, 2, 3, 4, 5, 6]


def leaking(monkeypatch, per_call: float) -> None:
    """Resident memory as `callbacks` measures it: 1 GB, and `per_call` GB more each time."""
    calls = itertools.count(1)
    monkeypatch.setattr(callbacks, "resident_bytes", lambda: 10**9 * (1 + per_call * next(calls)))


def test_a_training_over_its_memory_limit_goes_on_as_if_it_had_not_stopped(
    source, game, tmp_path, monkeypatch
):
    """Each part leaks; the weights, rows and states are those of an uninterrupted training."""
    changes = {"max_steps": 5, "save_every": 100, "temperature": 1.0, "eval_every": 2}
    measure = evaluate.validation(random_player, source.split.val, source.words, source.rules, 0)
    whole, _ = train_grpo(source, game, tmp_path / "whole", measure=measure, **changes)
    stops = 0
    for attempt in range(9):
        leaking(monkeypatch, 0.1)
        try:
            parts, metrics = train_grpo(
                *(source, game, tmp_path / "parts"),
                resumed=attempt > 0,
                max_memory_gb=1.25,
                measure=measure,
                **changes,
            )
            break
        except runs.MemoryLimit as error:
            assert "with a checkpoint; restart the kernel and run all cells with resume=True" in str(error)
            stops += 1
    assert stops >= 1 and metrics["steps"] == 5
    assert torch.allclose(flat(whole), flat(parts), atol=1e-6)
    one, other = (logged(tmp_path / name, "loss") for name in ("whole", "parts"))
    assert [row["step"] for row in other] == [1, 2, 3, 4, 5]
    assert len(logged(tmp_path / "parts", "train_runtime")) == 1
    for name in ("reward", "loss", "grad_norm"):
        assert [row[name] for row in one] == pytest.approx([row[name] for row in other]), name
    for name in ("val_win_rate", "val_won", "val_lost"):
        assert [row.get(name) for row in one] == [row.get(name) for row in other], name


def test_a_limit_that_a_single_step_passes_is_an_error_and_no_endless_restart(source, tmp_path, monkeypatch):
    leaking(monkeypatch, 0.0)
    with pytest.raises(MemoryError, match=r"one step of training takes 1.00 GB, more than max_memory_gb 0.5"):
        train_sft(source, tmp_path, max_memory_gb=0.5)


@pytest.mark.parametrize(
    ("stage", "rows", "engine", "advice"),
    [
        ("sft", 8, False, "set micro_batch_size below 8, and resume"),
        ("sft", 1, False, "take a smaller model"),
        ("grpo", 8, False, "set micro_batch_size below 8, and resume"),
        ("grpo", 8, True, "set micro_batch_size below 8 or lower engine_memory, and resume"),
        ("grpo", 1, True, "lower engine_memory, and resume"),
    ],
)
def test_out_of_memory_on_the_gpu_is_a_sentence_that_names_what_to_lower(
    source, game, tmp_path, monkeypatch, stage, rows, engine, advice
):
    """An engine beside the trained model holds a share of the card that it can give up."""

    def train(trainer, resume_from_checkpoint):
        if engine:
            trainer.model.vllm_engine = True  # as much of it as is looked at
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nGPU 0 has")

    monkeypatch.setattr(transformers.Trainer, "train", train)
    with pytest.raises(MemoryError) as failed:
        few = {"micro_batch_size": rows}
        train_sft(source, tmp_path, **few) if stage == "sft" else train_grpo(source, game, tmp_path, **few)
    assert str(failed.value) == (
        f"the GPU's memory does not hold {rows} rows at once: {advice}; `python -m wordlelib plan` says "
        "what fits (CUDA out of memory. Tried to allocate 2 GiB.)"
    )


def test_memory_stays_flat_over_100_steps(source, game, tmp_path):
    """`results/reference/long-run` is the same over 2,000 steps; early steps fill caches."""
    train_grpo(source, game, tmp_path, max_steps=100, save_every=25, refresh_every=10)
    resident = [row["resident_gib"] * 1024 for row in logged(tmp_path, "loss")]
    assert len(resident) == 100
    assert statistics.median(resident[-20:]) - statistics.median(resident[30:50]) < 16  # MiB


def test_training_asks_no_host_for_anything(source, tmp_path, monkeypatch):
    """TRL would tell the hub of every trainer, from a thread of its own."""
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **named: asked.append(host) or [])
    train_sft(source, tmp_path, max_steps=1)
    assert huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY
    assert asked == []


# Games on validation secrets ---------------------------------------------------------------------


def random_player(histories, seeds) -> list[str]:
    return [completion(["salet"], "salet") for _ in histories]


def test_each_validation_plays_other_secrets_and_two_in_a_row_play_all(source):
    secrets = [f"word{n}" for n in range(7)]
    drawn = [evaluate.validation_secrets(secrets, 3, number) for number in range(1, 9)]
    for first, second in zip(drawn[::2], drawn[1::2], strict=True):
        assert (len(first), len(second)) == (4, 3) and sorted(first + second) == secrets
    assert len(set(map(tuple, drawn))) == 8
    assert drawn[3] == evaluate.validation_secrets(secrets, 3, 4)
    assert drawn != [evaluate.validation_secrets(secrets, 4, number) for number in range(1, 9)]
    assert evaluate.validation_secrets(["crane"], 0, 2) == ["crane"]


def test_validations_of_grpo_are_logged_in_their_row_by_name_and_are_no_training_secrets(
    source, game, tmp_path
):
    measure = evaluate.validation(random_player, source.split.val, source.words, source.rules, 0)
    train_grpo(source, game, tmp_path, max_steps=4, eval_every=2, measure=measure)
    rows = logged(tmp_path, "val_win_rate")
    assert [row["step"] for row in rows] == [2, 4]
    played = [row["val_won"] + row["val_lost"] for row in rows]
    assert sorted(played[0] + played[1]) == sorted(source.split.val)
    assert not set(played[0] + played[1]) & set(source.split.train)


# Trackers ----------------------------------------------------------------------------------------


def test_a_tracker_without_its_package_is_one_sentence(monkeypatch):
    trackers.require("none")
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"tracker wandb needs a package .*: pip install wandb"):
        trackers.require("wandb")


def test_wandb_is_offline_unless_the_environment_asks(tmp_path, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT", "WANDB_SILENT", "WANDB_CONSOLE"):
        monkeypatch.setenv(name, "before")  # so that it is set back afterwards
        monkeypatch.delenv(name)
    arguments = trackers.prepare("wandb", open_run(tmp_path, SFT))
    assert arguments["report_to"] == "wandb"
    assert (os.environ["WANDB_MODE"], os.environ["WANDB_DIR"]) == ("offline", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "online")
    trackers.prepare("wandb", open_run(tmp_path, SFT))
    assert os.environ["WANDB_MODE"] == "online"


def test_the_control_goes_on_from_an_sft_that_had_fewer_parameters(source, tmp_path, monkeypatch):
    """What it did before it had them is what the control does."""
    sft_folder = tmp_path / "02_sft"
    sft_folder.mkdir()
    config = {name: value for name, value in SFT.items() if name != "batch_order"}
    runs.write_json(sft_folder / "config.yaml", config)  # YAML too
    runs.write_json(sft_folder / "metrics.json", {"steps": 60, "minutes": 3.0})
    run = open_run(tmp_path / "03_grpo", GRPO | {"backend": "transformers"})
    folders = {"02_sft": sft_folder, "01_data_synthesis": source.folder}
    monkeypatch.setattr(runs.Run, "input", lambda run, stage: folders[stage])
    monkeypatch.setattr(models, "restore", lambda model, folder: None)
    monkeypatch.setattr(training, "save", lambda *of: None)
    asked = []
    monkeypatch.setattr(training, "sft", lambda *of: asked.append(of[4]) or {"minutes": 2.0})
    assert training.continue_sft(run, None, None, 2.0) == {"control_minutes": 2.0}
    assert (asked[0].batch_order, asked[0].rows, asked[0].max_steps) == ("sorted", "file", 40)


# Tasks instead of files --------------------------------------------------------------------------


def test_sft_and_grpo_train_on_tasks_without_their_files(source, game, tmp_path):
    """Ever new rows from the data card alone; a stopped training goes on with the rows that were to come."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("card.json", "sft_val.jsonl"):
        shutil.copy(source.folder / name, folder)
    card = data.load(folder)
    tokenizer = models.nano_tokenizer(card.rules)

    def sft(folder, model, resumed=False, **changes):
        run = open_run(folder, {**SFT, "rows": "tasks", **changes}, resumed)
        rows = tasks.sft_rows(card, run.config)
        return training.sft(model, tokenizer, rows, card.rows("sft_val"), run.config, run)

    whole, parts = models.nano_model(tokenizer), models.nano_model(tokenizer)
    start = flat(whole)
    metrics = sft(tmp_path / "whole", whole, max_steps=6, save_every=3)
    assert metrics["steps"] == 6 and not torch.equal(start, flat(whole))
    sft(tmp_path / "parts", models.nano_model(tokenizer), max_steps=6, save_every=3)
    shutil.rmtree(tmp_path / "parts" / "checkpoints" / "checkpoint-6")
    assert sft(tmp_path / "parts", parts, resumed=True, max_steps=6, save_every=3)["steps"] == 6
    assert torch.allclose(flat(whole), flat(parts), atol=1e-5)

    run = open_run(tmp_path / "grpo", {**GRPO, "states": "tasks"})
    states, asked = tasks.states(card, game, run.config), []
    assert states(7) == states(7) != states(8)

    def counted(number):
        asked.append(number)
        return states(number)

    metrics = training.grpo(whole, tokenizer, counted, card.split.train, game, run.config, run)
    assert metrics["steps"] == 2
    assert sorted(set(asked))[:4] == [0, 1, 2, 3]  # two states in each of two steps


def test_trl_takes_a_stream_of_states_as_it_is(game, source, tmp_path):
    """`tasks.stream` handed to GRPOTrainer without our training around it: states in order, each a group."""
    from trl import GRPOConfig, GRPOTrainer

    states = tasks.stream(game, source.split.train, 3, 20, "states")
    tokenizer = models.nano_tokenizer(game.rules)
    model, seen = models.nano_model(tokenizer), []
    start = flat(model)
    [reward, *_], _ = rewards.make_reward_functions("ours", game, game.rules)

    def noted(secret, history, **columns):
        seen.extend(zip(secret, history, strict=True))
        values = reward(secret=secret, history=history, **columns)
        return [value + number for number, value in enumerate(values)]  # a fresh model's are all alike

    sizes = {"max_steps": 2, "per_device_train_batch_size": 4, "num_generations": 2}
    device = {"report_to": "none", "use_cpu": True, "bf16": False}
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(tmp_path, **sizes, **device, max_completion_length=8, shuffle_dataset=False),
        train_dataset=states,
        reward_funcs=noted,
        processing_class=tokenizer,
    )
    trainer.train()
    assert trainer.state.global_step == 2 and not torch.equal(start, flat(model))
    rows = [(row["secret"], row["history"]) for row in itertools.islice(states, 4)]
    assert seen == [row for row in rows for _ in range(2)]
