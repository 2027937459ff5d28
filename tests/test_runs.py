"""Run folders: what is written, what is refused, and what a kill leaves behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import example

from wordlelib import params, recipes, runs
from wordlelib.rules import Rules

STAGE = "05_analysis"


@pytest.fixture
def values(tmp_path):
    return example(STAGE, run=str(tmp_path / "run"), seed=3)


@pytest.fixture
def rules(shipped):
    return Rules(shipped.sha256["answers"], shipped.sha256["allowed"])


def sft_values(run, **changes):
    """Values for 02 in a run folder that has data."""
    if runs.status(Path(run) / "01_data_synthesis")["status"] == "absent":
        runs.start("01_data_synthesis", example("01_data_synthesis", run=str(run))).finish({})
    return example("02_sft", run=str(run), **changes)


def test_a_stage_leaves_its_config_environment_log_metrics_and_status(values, rules):
    stage = runs.start(STAGE, values)
    assert runs.status(stage.dir)["status"] == "running"
    assert not (stage.dir / "metrics.json").exists()
    stage.use_rules(rules)
    stage.log({"step": 1, "loss": np.float32(0.5), "reward": float("nan")})
    stage.finish({"win_rate": np.float64(0.25), "mean_guesses_won": float("nan")})

    config = runs.read_yaml(stage.dir / "config.yaml")
    assert Rules.from_dict(config.pop("rules")) == rules
    assert config == values
    assert runs.read_log(stage.dir / "log.jsonl") == [{"step": 1, "loss": 0.5, "reward": None}]
    metrics = runs.read_json(stage.dir / "metrics.json")
    assert metrics == {"win_rate": 0.25, "mean_guesses_won": None, "rules": rules.digest}
    assert runs.status(stage.dir)["status"] == "done"
    record = runs.read_json(stage.dir / "environment.json")
    assert record["seed"] == 3 and record["started"] <= record["ended"]
    assert not list(stage.dir.glob(".*.tmp"))


def test_the_config_of_a_finished_stage_starts_the_same_stage_again(values, rules):
    stage = runs.start(STAGE, values)
    stage.use_rules(rules)
    stage.finish({})
    again = runs.read_yaml(stage.dir / "config.yaml") | {"overwrite": True}
    assert vars(runs.start(STAGE, again).config) == values | {"overwrite": True}


def test_the_parameters_are_printed_before_anything_is_written(values, capsys):
    runs.start(STAGE, values)
    assert f"05_analysis\n  run = {values['run']!r} folder\n  overwrite = False\n  seed = 3\n" in (
        capsys.readouterr().out
    )


def test_other_names_of_a_notebook_are_no_parameters(values):
    assert vars(runs.start(STAGE, values | {"json": json, "_": 1}).config) == values


def test_the_cell_that_opens_the_run_can_be_executed_again(values):
    values["run"] = runs.start(STAGE, values)
    assert runs.start(STAGE, values).dir == values["run"].dir


def test_case_46_a_name_that_papermill_put_in_and_no_stage_knows_is_refused(values):
    cells = ["", "run = 1", '# Parameters\nrun = "x"\nsede = 3\nrules = {"a": 1}\n']
    with pytest.raises(ValueError, match="unknown parameter 'sede'; did you mean 'seed'"):
        runs.start(STAGE, values | {"In": cells, "sede": 3})


def test_a_backend_that_cannot_be_used_leaves_a_finished_stage_as_it_is(tmp_path, rules, monkeypatch):
    """Asked to replace it, too: the backend is checked before the folder is emptied."""
    stage = runs.start("02_sft", sft_values(tmp_path / "run", model="org/m"))
    stage.use_rules(rules)
    stage.finish({"x": 1})

    def refuse(backend, long_training):
        raise RuntimeError(f"backend {backend} needs an NVIDIA GPU")

    monkeypatch.setattr("wordlelib.models.use_backend", refuse)
    wanted = sft_values(tmp_path / "run", model="org/m", backend="unsloth", adapter="lora", overwrite=True)
    with pytest.raises(RuntimeError, match="backend unsloth needs"):
        runs.start("02_sft", wanted)
    assert runs.status(stage.dir)["status"] == "done" and (stage.dir / "metrics.json").is_file()


@pytest.mark.parametrize("missing", ["01_data_synthesis", "02_sft"])
def test_a_missing_or_unfinished_input_leaves_a_finished_stage_as_it_is(tmp_path, missing):
    """Asked to replace it, too: every stage that it reads is looked for before the folder is emptied."""
    finish("02_sft", sft_values(tmp_path / "run"), "01_data_synthesis")
    asked = example("03_grpo", run=str(tmp_path / "run"), overwrite=True)
    grpo = finish("03_grpo", asked, "01_data_synthesis", "02_sft")
    runs.mark_failed(tmp_path / "run" / missing, "out of memory")
    with pytest.raises(ValueError, match=f"{missing} failed: run notebook {missing} first"):
        runs.start("03_grpo", asked)
    shutil.rmtree(tmp_path / "run" / missing)
    with pytest.raises(ValueError, match=f"{missing} is not there: run notebook {missing} first"):
        runs.start("03_grpo", asked)
    assert runs.status(grpo.dir)["status"] == "done" and (grpo.dir / "metrics.json").is_file()


def test_an_input_made_from_what_is_there_no_more_is_an_input_still(tmp_path):
    """Weights may be deleted to save space; data that are made again are other data."""
    finish("02_sft", sft_values(tmp_path / "run"), "01_data_synthesis")
    finish("04_eval", example("04_eval", run=str(tmp_path / "run"), players=["sft"]), "02_sft")
    shutil.rmtree(tmp_path / "run" / "02_sft")
    analysis = example(STAGE, run=str(tmp_path / "run"), runs=[])
    assert runs.start(STAGE, analysis).input("04_eval").is_dir()
    finish("02_sft", sft_values(tmp_path / "run"), "01_data_synthesis")
    with pytest.raises(ValueError, match="04_eval was made from an earlier 02_sft than the one there now"):
        runs.start(STAGE, analysis)


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"players": ["greedy"]}, ["01_data_synthesis"]),
        ({"players": ["greedy", "untrained"]}, ["01_data_synthesis", "02_sft"]),
        ({"players": ["sft", "grpo"]}, ["01_data_synthesis", "02_sft", "03_grpo"]),
        ({"players": ["endpoint"], "data_from": "shipped"}, []),
    ],
)
def test_what_an_evaluation_reads_follows_from_its_players_and_its_data(changes, needed):
    assert list(params.inputs("04_eval", changes)) == needed


def test_a_finished_stage_is_replaced_only_when_asked(values):
    stage = runs.start(STAGE, values)
    (stage.dir / "result.txt").write_text("old")
    stage.finish({"x": 1})
    with pytest.raises(ValueError, match="is finished: set overwrite=True to replace it"):
        runs.start(STAGE, values)
    assert (stage.dir / "result.txt").read_text() == "old"
    again = runs.start(STAGE, values | {"overwrite": True})
    assert runs.status(again.dir)["status"] == "running"
    assert not (again.dir / "result.txt").exists() and not (again.dir / "metrics.json").exists()


def test_a_folder_with_files_that_no_run_made_is_left_alone(values, tmp_path):
    foreign = tmp_path / "run" / STAGE / "thesis.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(ValueError, match="holds files that no run made"):
        runs.start(STAGE, values | {"overwrite": True})
    assert foreign.read_text() == "mine"


def test_an_unwritable_run_folder_is_named(values, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionError, match=r"cannot write the run folder .*: choose another run"):
        runs.start(STAGE, values | {"run": str(tmp_path / "file" / "run")})
    with pytest.raises(ValueError, match="run is empty"):
        runs.start(STAGE, values | {"run": ""})


KILLED = """
import os, signal
from wordlelib import runs
stage = runs.start("02_sft", {values!r})
stage.log({{"step": 1}})
stage.log({{"step": 2}})
with open(stage.dir / "log.jsonl", "a") as file:
    file.write('{{"step": 3, "lo')
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(tmp_path):
    """The folder of an SFT stage whose process was killed in the middle of a log line."""
    script = KILLED.format(values=sft_values(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    return tmp_path / "run" / "02_sft"


def test_a_killed_stage_says_running_and_is_never_read_as_done(killed):
    assert runs.status(killed)["status"] == "running"
    with pytest.raises(ValueError, match="was left half-done: run notebook 02_sft first"):
        runs.finished_stage(killed.parent, "02_sft")


def test_a_killed_stage_is_replaced_without_resume(killed):
    stage = runs.start("02_sft", sft_values(killed.parent))
    assert not stage.resumed and not (stage.dir / "log.jsonl").exists()


def test_a_killed_stage_goes_on_with_resume_and_drops_what_will_be_made_again(killed):
    stage = runs.start("02_sft", sft_values(killed.parent, resume=True, max_steps=9))
    assert stage.resumed
    assert runs.read_log(stage.dir / "log.jsonl") == [{"step": 1}, {"step": 2}]
    stage.rewind_log(1)
    stage.log({"step": 2, "again": True})
    assert runs.read_log(stage.dir / "log.jsonl") == [{"step": 1}, {"step": 2, "again": True}]


def test_a_stage_counts_the_training_of_its_starts_before_also_what_is_made_again(killed):
    values = sft_values(killed.parent, resume=True)
    (killed / "log.jsonl").write_text('{"step": 1, "minutes": 2.0}\n{"step": 2, "minutes": 4.0}\n')
    runs.start("02_sft", values).rewind_log(1)
    assert runs.read_json(killed / "environment.json")["earlier_seconds"] == 240
    (killed / "control").mkdir()
    (killed / "control" / "log.jsonl").write_text('{"step": 1, "minutes": 1.0}\n')
    stage = runs.start("02_sft", values)
    assert runs.read_json(killed / "environment.json")["earlier_seconds"] == 240, "2 of its own are left"
    (killed / "log.jsonl").write_text('{"step": 1, "minutes": 4.0}\n')
    stage = runs.start("02_sft", values)
    assert runs.read_json(killed / "environment.json")["earlier_seconds"] == 300
    stage.finish({})
    record = runs.read_json(killed / "environment.json")
    assert 300 <= record["seconds"] < 360 and record["earlier_commits"] == [record["git_commit"]]


def test_rewinding_drops_the_summary_of_the_part_before_and_no_step(tmp_path, values):
    """On a GPU the trainer adds its running time to the rows of steps too."""
    stage = runs.start(STAGE, values)
    steps = [{"step": step, "loss": 1.0, "train_runtime": 2.0 * step} for step in (1, 2, 3)]
    for row in (*steps, {"step": 3, "train_loss": 1.0, "train_runtime": 6.1}):
        stage.log(row)
    stage.rewind_log(3)
    assert runs.read_log(stage.dir / "log.jsonl") == steps


def test_resuming_with_another_learning_rate_is_refused(killed):
    with pytest.raises(ValueError, match=r"was started with learning_rate=1e-09, not 0\.002"):
        runs.start("02_sft", sft_values(killed.parent, resume=True, learning_rate=2e-3))


def test_a_run_of_before_a_parameter_goes_on_as_it_began():
    """Its config lacks what there was not yet, such as `grpo_secrets`."""
    folder = runs.project_root() / "results/reference/earlier/h200-qwen2.5-0.5b-clues/01_data_synthesis"
    values = recipes.defaults("01_data_synthesis") | runs.read_yaml(folder / "config.yaml")
    assert "grpo_secrets" not in runs.read_yaml(folder / "config.yaml")
    assert runs.changed_parameter(folder, values, ()) is None
    assert runs.changed_parameter(folder, values | {"grpo_secrets": 9}, ()) == "grpo_secrets=0, not 9"


def finish(stage, values, *inputs):
    run = runs.start(stage, values)
    for name in inputs:
        run.input(name)
    run.finish({})
    return run


def test_input_gives_the_folder_of_a_finished_stage_and_names_the_notebook_to_run_first(tmp_path, values):
    analysis = runs.start(STAGE, values)
    training = sft_values(tmp_path / "run")
    with pytest.raises(ValueError, match=r"02_sft is not there: run notebook 02_sft first, with run='.*run'"):
        analysis.input("02_sft")
    sft = finish("02_sft", training)
    assert analysis.input("02_sft") == sft.dir
    runs.mark_failed(sft.dir, "out of memory")
    with pytest.raises(ValueError, match="02_sft failed: run notebook 02_sft first"):
        analysis.input("02_sft")


def test_an_input_made_from_something_older_than_what_is_there_now_is_refused(tmp_path, values):
    finish("02_sft", sft_values(tmp_path / "run"))
    finish(STAGE, values, "02_sft")
    assert finish(STAGE, values | {"overwrite": True}, "02_sft").input(STAGE)
    finish("02_sft", sft_values(tmp_path / "run", overwrite=True))
    with pytest.raises(ValueError, match=r"made from an earlier 02_sft .*: run notebook 05_analysis again"):
        runs.start("02_sft", sft_values(tmp_path / "run", overwrite=True)).input(STAGE)


def test_what_ran_out_of_memory_goes_on_with_fewer_rows_at_once(killed):
    """The message of an out-of-memory error asks for it."""
    assert runs.start("02_sft", sft_values(killed.parent, resume=True, micro_batch_size=1)).resumed


def test_a_resumed_stage_refuses_an_input_that_was_made_again_since_it_began(tmp_path, values):
    """Its checkpoints may have been trained on secrets that are held out now."""
    finish(STAGE, values)
    training = sft_values(tmp_path / "run", resume=True)
    runs.start("02_sft", training).input(STAGE)
    assert runs.start("02_sft", training).input(STAGE)
    finish(STAGE, values | {"overwrite": True})
    for _ in range(2):
        with pytest.raises(
            ValueError, match="02_sft was begun with an earlier 05_analysis than the one there"
        ):
            runs.start("02_sft", training).input(STAGE)
    assert runs.start("02_sft", training | {"resume": False}).input(STAGE)


def test_two_stages_under_different_rules_are_refused_naming_the_field(tmp_path, values, rules):
    sft = runs.start("02_sft", sft_values(tmp_path / "run"))
    sft.use_rules(rules)
    sft.finish({})
    analysis = runs.start(STAGE, values)
    analysis.input("02_sft")
    hard = Rules.from_dict(rules.to_dict() | {"hard_mode": True})
    with pytest.raises(ValueError, match=r"05_analysis and 02_sft: .*hard_mode \(True and False\)"):
        analysis.use_rules(hard)


def test_metrics_are_flat_and_the_stage_stays_open_otherwise(values):
    stage = runs.start(STAGE, values)
    with pytest.raises(ValueError, match="metric 'wins' is not one number or text"):
        stage.finish({"wins": [1, 2]})
    assert runs.status(stage.dir)["status"] == "running"


@pytest.mark.parametrize("text", ["", '{"status": "do', "\xff"])
def test_a_half_written_json_file_is_named(tmp_path, text):
    path = tmp_path / "status.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"status\.json: not a whole JSON file"):
        runs.status(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"status": 3}'])
def test_a_status_file_without_a_status_is_named(tmp_path, text):
    (tmp_path / "status.json").write_text(text)
    with pytest.raises(ValueError, match=r"status\.json: names no status"):
        runs.status(tmp_path)


def test_a_corrupt_line_inside_a_log_is_named_with_its_number(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": \n{"step": 3}\n')
    with pytest.raises(ValueError, match=r"log\.jsonl, line 2: not JSON"):
        runs.read_log(path)


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "just words"])
def test_a_yaml_file_that_is_no_mapping_is_named(tmp_path, text):
    path = tmp_path / "02_sft.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"02_sft\.yaml: "):
        runs.read_yaml(path)


def test_case_46_an_empty_yaml_file_is_an_empty_mapping(tmp_path):
    path = tmp_path / "02_sft.yaml"
    path.write_text("# nothing yet\n")
    assert runs.read_yaml(path) == {}


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    runs.write_json(path, {"x": 1})

    def fail(*paths):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        runs.write_json(path, {"x": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.json"]
    assert runs.read_json(path) == {"x": 1}


def test_paths_inside_the_project_are_written_relative_to_it(project, tmp_path):
    outside = str(tmp_path / "mine")
    others = [str(project / "results" / "y"), outside, "results/z"]
    stage = runs.start(STAGE, example(STAGE, run=str(project / "results" / "x"), runs=others))
    config = runs.read_yaml(stage.dir / "config.yaml")
    assert config["run"] == "results/x"
    assert config["runs"] == ["results/y", outside, "results/z"]


def test_relative_paths_start_at_the_project_root_not_at_the_working_directory(
    project, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert runs.start(STAGE, example(STAGE)).dir == project / "results" / "x" / STAGE
    assert runs.project_path("") is None


def test_the_environment_record_holds_versions_and_no_path_or_secret(project, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "do-not-write-me")
    record = runs.environment()
    assert record["git_commit"] is None and record["git_dirty"] is None
    assert record["packages"]["numpy"] == np.__version__
    text = json.dumps(record)
    for private in ("do-not-write-me", str(Path.home()), str(project), os.uname().nodename, sys.prefix):
        assert private not in text


def test_the_environment_record_holds_the_commit_and_whether_it_was_changed(project):
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    (project / "file").write_text("1")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    record = runs.environment()
    assert len(record["git_commit"]) == 40 and record["git_dirty"] is False
    (project / "file").write_text("2")
    assert runs.environment()["git_dirty"] is True


def test_every_stage_with_a_folder_shares_run_overwrite_and_seed():
    for stage, declared in params.PARAMETERS.items():
        assert ({"run", "overwrite", "seed"} <= set(declared)) == (stage[:2] not in ("00", "06"))
