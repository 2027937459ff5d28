"""Parameters: coercion by declared kind, and one clear sentence for whatever does not fit."""

from pathlib import Path

import numpy as np
import pytest
from conftest import example

from wordlelib import params
from wordlelib.__main__ import main

GRPO = example("03_grpo")
ANALYSIS = example("05_analysis")


def test_values_come_back_complete_and_in_declared_order():
    resolved = params.resolve("03_grpo", dict(reversed(GRPO.items())))
    assert resolved == GRPO
    assert list(resolved) == list(params.PARAMETERS["03_grpo"])


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("overwrite", "true", True),
        ("overwrite", "False", False),
        ("learning_rate", "1e-5", 1e-5),
        ("learning_rate", 1, 1.0),
        ("max_steps", "5", 5),
        ("max_steps", 5.0, 5),
    ],
)
def test_texts_and_numbers_become_the_declared_kind(name, given, wanted):
    value = params.resolve("03_grpo", GRPO | {name: given})[name]
    assert value == wanted and type(value) is type(wanted)


@pytest.mark.parametrize("given", ["[a, b]", '["a", "b"]', ("a", "b"), np.array(["a", "b"])])
def test_lists_come_as_texts_tuples_and_arrays(given):
    assert params.resolve("05_analysis", ANALYSIS | {"runs": given})["runs"] == ["a", "b"]


def test_case_46_numpy_and_path_values_become_plain_python():
    given = GRPO | {"learning_rate": np.float64(1e-9), "max_steps": np.int64(2), "run": Path("results/x")}
    resolved = params.resolve("03_grpo", given)
    assert resolved == GRPO
    assert {type(value) for value in resolved.values()} <= {bool, int, float, str, list}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("overwrite", 1),
        ("overwrite", "yes please"),
        ("max_steps", True),
        ("max_steps", 2.5),
        ("max_steps", "1e3"),
        ("max_steps", -1),
        ("max_steps", None),
        ("learning_rate", "fast"),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("learning_rate", 0),
        ("preset", "other"),
        ("preset", ["ours"]),
        ("run", 7),
        ("group_size", 1),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_and_range(name, value):
    with pytest.raises(ValueError) as error:
        params.resolve("03_grpo", GRPO | {name: value})
    assert f"03_grpo: {name} is {value!r}; use {params.PARAMETERS['03_grpo'][name].range}" == str(error.value)


@pytest.mark.parametrize("value", ["a", "[1", [1, 2], None, {"a": 1}])
def test_a_wrong_list_is_refused(value):
    with pytest.raises(ValueError, match=r"05_analysis: runs is .*; use a list such as \[a, b\]"):
        params.resolve("05_analysis", ANALYSIS | {"runs": value})


def test_unknown_names_are_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match="unknown parameter 'learning_rat'; did you mean 'learning_rate'"):
        params.resolve("03_grpo", GRPO | {"learning_rat": 1e-3})


def test_a_name_that_is_no_text_is_refused_like_any_other():
    """YAML reads `1: 2` as a number and `on: 2` as a truth value."""
    with pytest.raises(ValueError, match="unknown parameter 1; did you mean"):
        params.check_names("02_sft", {1: 2})


def test_a_player_named_twice_is_refused():
    """Its games would count twice, and its interval would be too narrow."""
    with pytest.raises(ValueError, match="greedy"):
        params.PARAMETERS["04_eval"]["players"].accept(["greedy", "greedy"])


def test_missing_names_and_unknown_stages_are_named():
    with pytest.raises(ValueError, match=r"05_analysis: parameter 'runs' .* is missing"):
        params.resolve("05_analysis", {name: ANALYSIS[name] for name in ("run", "overwrite", "seed")})
    with pytest.raises(ValueError, match="no stage '07_more'; the stages are 00_play_and_solve, "):
        params.resolve("07_more", {})


@pytest.mark.parametrize(("batch", "group", "works"), [(1, 4, 4), (10, 4, 12), (7, 2, 8)])
def test_case_31_a_batch_that_is_no_multiple_of_the_group_is_refused_with_a_value_that_works(
    batch, group, works
):
    values = GRPO | {"batch_size": batch, "group_size": group}
    with pytest.raises(ValueError) as error:
        params.resolve("03_grpo", values)
    assert str(error.value) == (
        f"03_grpo: batch_size {batch} is not a multiple of group_size {group}; use batch_size {works}"
    )
    assert params.resolve("03_grpo", values | {"batch_size": works})["batch_size"] == works


@pytest.mark.parametrize("other", [{"states": "fixed"}, {"states": "tasks"}, {"unit": "game"}])
def test_what_is_of_rounds_of_states_is_refused_without_them(other):
    with pytest.raises(ValueError, match=r"^03_grpo: clues needs the new states of a round.* clues to 0"):
        params.resolve("03_grpo", example("03_grpo", clues=0.5, **other))
    with pytest.raises(ValueError, match=r"^03_grpo: mistakes_first needs .* mistakes_first to false"):
        params.resolve("03_grpo", example("03_grpo", mistakes_first=True, **other))


def test_training_without_any_end_is_refused():
    with pytest.raises(ValueError, match="max_steps and max_minutes are both 0"):
        params.resolve("03_grpo", GRPO | {"max_steps": 0, "max_minutes": 0})


def test_a_model_behind_an_endpoint_has_to_be_told_the_form_of_an_answer():
    teaches = {"teacher": "endpoint", "endpoint": "http://127.0.0.1:1/v1", "teacher_model": "m"}
    with pytest.raises(ValueError, match=r"^01_data_synthesis: states in facts do not say what form"):
        params.resolve("01_data_synthesis", example("01_data_synthesis", renderer="facts", **teaches))
    params.resolve("01_data_synthesis", example("01_data_synthesis", renderer="words", **teaches))


NANO, WEIGHTS = {"model": "nano"}, {"model": "org/m", "adapter": "none"}


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ({"02_sft": NANO | {"backend": "unsloth"}}, "02_sft: model nano has its own tokenizer"),
        ({"02_sft": NANO, "03_grpo": {"backend": "unsloth"}}, "03_grpo: model nano has its own"),
        ({"02_sft": NANO, "04_eval": {"backend": "vllm"}}, "04_eval: model nano has its own"),
        (
            {"02_sft": WEIGHTS, "03_grpo": {"backend": "unsloth"}},
            "02_sft has adapter none: use lora or qlora",
        ),
    ],
)
def test_stages_that_do_not_fit_each_other_are_refused(stages, sentence):
    with pytest.raises(ValueError, match=sentence):
        params.check_stages(stages)


@pytest.mark.parametrize(
    "stages",
    [
        {"03_grpo": {"backend": "unsloth"}},
        {"02_sft": NANO, "03_grpo": {"backend": "transformers"}, "05_analysis": {}},
        {"02_sft": WEIGHTS | {"backend": "unsloth"}, "03_grpo": {"backend": "transformers"}},
        {"02_sft": WEIGHTS | {"adapter": "qlora"}, "03_grpo": {"backend": "unsloth"}},
    ],
)
def test_stages_that_fit_each_other_are_accepted(stages):
    params.check_stages(stages)


@pytest.mark.parametrize("stage", params.STAGES)
def test_every_parameter_is_a_row_of_the_table_with_meaning_and_range(stage):
    rows = params.markdown_table(stage).splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(params.PARAMETERS[stage])
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))


@pytest.mark.parametrize("players", [[], ["greedy", "greedy"]])
def test_an_empty_table_or_a_player_named_twice_is_refused(players):
    with pytest.raises(ValueError, match="04_eval: players is"):
        params.resolve("04_eval", example("04_eval", players=players))


@pytest.mark.parametrize("name", ["val_secrets", "test_secrets"])
def test_a_part_of_the_split_without_secrets_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0; use a whole number from 1"):
        params.resolve("01_data_synthesis", example("01_data_synthesis", **{name: 0}))


@pytest.mark.parametrize("command", ["run --recipe cpu-demo", "sweep x.yaml", "eval --endpoint x --model x"])
def test_an_address_as_run_folder_is_refused(capsys, command):
    with pytest.raises(ValueError, match="s3://bucket/run is an address: name a folder"):
        params.resolve("02_sft", example("02_sft", run="s3://bucket/run"))
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--out", "s3://bucket/run"])
    assert stopped.value.code == 2 and "is an address: name a folder" in capsys.readouterr().err
