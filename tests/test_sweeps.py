"""Sweeps: what a file may say, stages made once, the table; faults lose and repeat nothing finished.

Here stages are made in this process; `test_sweep_processes` has real ones.
"""

import errno
import os
import re
from pathlib import Path

import pytest
from conftest import GRID, INPUTS, ROOT, example

from wordlelib import recipes, runs, sweep_results, sweeps, trials
from wordlelib.__main__ import main


def grpo(made):
    return [Path(name).parts[1] for name in made if name.endswith("03_grpo")]


# The file ---------------------------------------------------------------------------------------


def names(file, text):
    file.write_text(text)
    return [trial.name for trial in trials.read_sweep(file)]


def test_a_grid_gives_all_combinations_under_names_that_can_be_read(tiny, file):
    assert names(file, GRID) == [
        f"beta={beta}_temperature={temperature}" for beta in (0.0, 0.5) for temperature in (1.0, 2.0)
    ]


def test_a_list_gives_its_trials_and_the_default_where_one_says_nothing(tiny, file):
    text = "recipe: tiny\nset: {03_grpo.epsilon: 0.3}\ntrials:\n  - {}\n  - 03_grpo.beta: 1e-1\n"
    assert names(file, text) == ["beta=0.0", "beta=0.1"]
    assert all(trial.stages["03_grpo"]["epsilon"] == 0.3 for trial in trials.read_sweep(file))


def test_random_trials_repeat_by_seed_differ_and_keep_to_their_ends(tiny, file):
    text = "recipe: tiny\nn: {}\nseed: {}\nrandom:\n  03_grpo.learning_rate: {{low: 1e-6, high: 1e-2, "
    text += "log: true}}\n"
    text += "  03_grpo.group_size: [2, 4]\n  02_sft.warmup_steps: {{low: 1, high: 3}}\n"
    first = names(file, text.format(8, 1))
    assert len(set(first)) == 8 and first == names(file, text.format(8, 1))[:8]
    assert first[:3] == names(file, text.format(3, 1)) and first != names(file, text.format(8, 2))
    for trial in trials.read_sweep(file):
        assert 1e-6 <= trial.settings["03_grpo.learning_rate"] <= 1e-2
        assert trial.settings["02_sft.warmup_steps"] in (1, 2, 3)


def test_names_of_two_stages_and_values_that_no_folder_can_have_are_told_apart(tiny, file):
    text = "recipe: tiny\ngrid:\n  02_sft.seed: [1]\n  03_grpo.seed: [2]\n  02_sft.model: [a/b, a:b]\n"
    found = names(file, text)
    assert found[0].startswith("02.seed=1_03.seed=2_model=a-b-") and found[0] != found[1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recipe: tiny\ngrid: {03_grpo.betta: [1]}\n", "unknown parameter 'betta'; did you mean 'beta'?"),
        (
            "recipe: tiny\ngrid: {03_grpo.beta: [-1]}\n",
            "trial 1 of 1: 03_grpo: beta is -1; use a number from 0",
        ),
        ("recipe: tiny\ngrid: {03_grpo.beta: 1}\n", "03_grpo.beta is 1; give a list of values"),
        ("recipe: tiny\ngrid: {beta: [1]}\n", "'beta': write stage.name, such as 03_grpo.beta"),
        ("recipe: tiny\ngrid: {04_eval.seed: [1]}\n", "this sweep has no stage '04_eval'; it has 01_data"),
        ("recipe: tiny\ngrid: {03_grpo.run: [x]}\n", "'03_grpo.run': a sweep sets it by itself"),
        ("recipe: tiny\ngrid: {03_grpo.group_size: [3]}\n", "batch_size 4 is not a multiple of group_size 3"),
        ("recipe: tiny\ngrid: {03_grpo.beta: [1, 1.0]}\n", "trials 1 and 2 are the same, beta=1.0"),
        ("recipe: huge\ngrid: {03_grpo.beta: [1]}\n", "no recipe 'huge'"),
        ("recipe: tiny\ngird: {03_grpo.beta: [1]}\n", "unknown key 'gird'; did you mean 'grid'?"),
        ("recipe: tiny\n", "give one of grid, trials and random; it has none"),
        ("recipe: tiny\ngrid: {03_grpo.beta: [1]}\nn: 3\n", "n goes with random only"),
        ("recipe: tiny\ntrials: 3\n", "trials is no list"),
        ("recipe: tiny\nstages: [03_grpo]\ngrid: {03_grpo.beta: [1]}\n", "03_grpo needs 01_data_synthesis"),
        ("recipe: tiny\nstages: [07_x]\ngrid: {}\n", "recipe tiny has no stage '07_x'"),
        ("recipe: tiny\nrandom: {03_grpo.beta: [1, 2]}\nn: 3\nseed: 0\n", "has only 2 different trials"),
        ("recipe: tiny\nrandom: {03_grpo.beta: [1, 2]}\nn: 3\n", "random needs seed, a whole number from 0"),
        (
            "recipe: tiny\nrandom: {03_grpo.beta: {low: 2, high: 1}}\nn: 1\nseed: 0\n",
            "low must be below high",
        ),
        (
            "recipe: tiny\nrandom: {03_grpo.beta: {low: 0, high: x}}\nn: 1\nseed: 0\n",
            "must be a number from 0",
        ),
        ("recipe: [\n", "not a YAML file"),
    ],
)
def test_a_wrong_file_is_met_with_one_sentence_before_anything_starts(
    made, file, out, capsys, text, sentence
):
    file.write_text(text)
    assert main(["sweep", str(file), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert sentence in error and "sweep.yaml" in error and error.count("\n") == 1
    assert not out.exists() and not made


def test_a_player_whose_model_no_stage_makes_is_met_before_anything_starts():
    stages = {"02_sft": example("02_sft"), "03_grpo": example("03_grpo", control=False)}
    stages |= {"01_data_synthesis": example("01_data_synthesis")}
    with pytest.raises(ValueError, match=r"sft_continued of 04_eval needs 03_grpo\.control true"):
        trials._check_inputs({**stages, "04_eval": {"players": ["sft", "sft_continued"]}})
    del stages["03_grpo"]
    with pytest.raises(ValueError, match="player grpo of 04_eval needs 03_grpo: name it among the stages"):
        trials._check_inputs({**stages, "04_eval": {"players": ["grpo"]}})
    trials._check_inputs({"04_eval": {"players": ["greedy"], "data_from": "shipped"}})


def test_the_sweep_files_of_the_project_can_be_run():
    for path in (ROOT / "notebooks" / "recipes" / "sweeps").glob("*.yaml"):
        assert len(trials.read_sweep(path)) > 1


# Trials, shared stages and the table ------------------------------------------------------------


def test_stages_with_equal_settings_are_made_once_and_every_trial_is_a_whole_run_folder(made, file, out):
    assert sweeps.run(file, out) == 0
    stages = [name.rpartition("/")[2] for name in made]
    assert stages == ["01_data_synthesis", "02_sft", *["03_grpo"] * 4]
    for trial in trials.read_sweep(file):
        for stage in INPUTS:
            assert runs.finished_stage(out / trial.name, stage).is_dir()
    rows = sweep_results.read_table(out)
    assert [(row["03_grpo.beta"], row["03_grpo.temperature"]) for row in rows] == [
        (0.0, 1.0),
        (0.0, 2.0),
        (0.5, 1.0),
        (0.5, 2.0),
    ]
    assert [row["03_grpo/final_reward"] for row in rows] == [1.0, 2.0, 1.5, 2.5]
    assert rows[0]["status"] == "done" and rows[0]["minutes"] >= 0
    assert rows[0]["03_grpo/frac_reward_zero_std"] == 0.25 and rows[0]["03_grpo/top_guess_share"] == 0.1


def test_parameters_of_the_command_line_hold_for_all_trials_and_stand_in_the_copy_of_the_file(
    made, file, out, capsys
):
    options = ["--set", "02_sft.model=nano-large", "--set", "03_grpo.beta=0.3"]
    assert main(["sweep", str(file), "--out", str(out), *options]) == 0
    kept = out / sweeps.FILE
    assert {t.stages["02_sft"]["model"] for t in trials.read_sweep(kept)} == {"nano-large"}
    assert {t.stages["03_grpo"]["beta"] for t in trials.read_sweep(kept)} == {0.0, 0.5}  # the grid's own
    assert main(["sweep", str(kept), "--out", str(out)]) == 0 and "finished, kept" in capsys.readouterr().out
    assert main(["sweep", str(file), "--out", str(out), "--set", "03_grpo.betta=1"]) == 2
    assert "did you mean 'beta'?" in capsys.readouterr().err


def test_a_setting_of_an_early_stage_parts_all_later_ones(made, file, out):
    file.write_text("recipe: tiny\ngrid:\n  02_sft.seed: [1, 2]\n  03_grpo.beta: [0.0, 0.5]\n")
    assert sweeps.run(file, out) == 0
    stages = [name.rpartition("/")[2] for name in made]
    assert stages == ["01_data_synthesis", "02_sft", "02_sft", *["03_grpo"] * 4]
    used = {name: runs.read_yaml(out / name / "02_sft" / "config.yaml")["seed"] for name in os.listdir(out)
            if name.startswith("seed=")}  # fmt: skip
    assert all(name.startswith(f"seed={seed}_") for name, seed in used.items()) and len(used) == 4


def test_without_symbolic_links_shared_stages_are_copied(made, file, out, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.EPERM, "not supported here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert sweeps.run(file, out) == 0 and len(made) == 6
    assert not (out / "beta=0.0_temperature=1.0" / "01_data_synthesis").is_symlink()
    assert sweeps.run(file, out) == 0 and len(made) == 6


def test_a_second_start_makes_nothing_again_and_new_trials_only(made, file, out):
    assert sweeps.run(file, out) == 0
    (out / sweep_results.TABLE).unlink()
    assert sweeps.run(file, out) == 0 and len(made) == 6
    assert len(sweep_results.read_table(out)) == 4
    file.write_text(GRID.replace("[1.0, 2.0]", "[1.0, 2.0, 3.0]"))
    assert sweeps.run(file, out) == 0
    assert made[6:] == [f"sweep/beta={beta}_temperature=3.0/03_grpo" for beta in (0.0, 0.5)]


def test_a_folder_made_with_other_settings_is_refused_before_anything_starts(made, file, out, capsys):
    assert sweeps.run(file, out) == 0
    file.write_text(GRID + "set: {03_grpo.epsilon: 0.3}\n")
    assert main(["sweep", str(file), "--out", str(out)]) == 2
    assert "was made with epsilon=0.001, not 0.3: another --out keeps both" in capsys.readouterr().err
    assert len(made) == 6


def test_new_code_makes_shared_stages_anew_for_new_trials_and_keeps_what_was_begun(
    made, file, out, monkeypatch
):
    assert sweeps.run(file, out) == 0
    monkeypatch.setattr(sweeps, "_code", lambda: b"changed")
    file.write_text(GRID.replace("[1.0, 2.0]", "[1.0, 2.0, 3.0]"))
    assert sweeps.run(file, out) == 0
    assert [name.rpartition("/")[2] for name in made[6:]] == [*INPUTS, "03_grpo"]


def test_a_loop_of_runs_gives_the_same_numbers(made, file, out):
    """`run` on each trial, by the command that the report names."""
    assert sweeps.run(file, out) == 0
    for trial in trials.read_sweep(file):
        settings = [f"{target}={value}" for target, value in trial.settings.items()]
        options = [word for setting in settings for word in ("--set", setting)]
        alone = out.parent / "loop" / trial.name
        assert main(["run", "--recipe", "tiny", "--out", str(alone), *options]) == 0
        for stage in INPUTS:
            assert runs.read_json(alone / stage / "metrics.json") == runs.read_json(
                out / trial.name / stage / "metrics.json"
            )


def test_the_papermill_loop_of_the_readme_gives_the_same_numbers(tiny, file, out):
    """The very lines of the page on sweeps, on real notebooks that end at once, for two trials."""
    readme = (ROOT / "notebooks" / "sweeps.md").read_text(encoding="utf-8")
    [loop] = [part for part in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "papermill" in part]
    for old, new in (("cpu-demo", "tiny"), ("[0.0, 0.2], [0.5, 1.0]", "[0.0, 0.5], [1.0]")):
        assert old in loop
        loop = loop.replace(old, new)
    exec(loop, {})
    file.write_text(GRID.replace("[1.0, 2.0]", "[1.0]"))
    assert sweeps.run(file, out) == 0
    for trial in trials.read_sweep(file):
        for stage in INPUTS:
            alone = tiny / f"results/loop/beta={trial.settings['03_grpo.beta']}_temperature=1.0" / stage
            kept = out / trial.name / stage
            assert runs.state(alone) == "done"
            assert runs.read_json(alone / "metrics.json") == runs.read_json(kept / "metrics.json")
            by_sweep = runs.read_yaml(kept / "config.yaml")
            assert runs.changed_parameter(alone, by_sweep, runs.NEVER_COMPARED) is None


# Faults, in this process ------------------------------------------------------------------------


def fail_once(made, trial, error):
    def fault(stage, out):
        if stage == "03_grpo" and out.name == trial:
            made.fault = lambda stage, out: None
            raise error

    made.fault = fault


FIRST = "beta=0.0_temperature=1.0"


def test_one_failing_trial_does_not_stop_the_rest_and_is_made_again(made, file, out, capsys):
    fail_once(made, FIRST, recipes.StageFailed("notebook 03_grpo stopped in In [3]: boom"))
    assert main(["sweep", str(file), "--out", str(out)]) == 1
    shown = capsys.readouterr()
    assert (
        f"{FIRST}: notebook 03_grpo stopped in In [3]: boom" in shown.out
        and "trials that failed: 1;" in shown.err
    )
    assert [row["status"] for row in sweep_results.read_table(out)] == ["failed", "done", "done", "done"]
    assert main(["sweep", str(file), "--out", str(out)]) == 0
    assert grpo(made).count(FIRST) == 2 and len(made) == 7
    assert {row["status"] for row in sweep_results.read_table(out)} == {"done"}


def test_a_failing_shared_stage_fails_its_trials_and_no_other(made, file, out):
    file.write_text("recipe: tiny\ngrid:\n  02_sft.seed: [1, 2]\n  03_grpo.beta: [0.0, 0.5]\n")

    def fault(stage, folder):
        if stage == "02_sft" and runs.read_yaml(folder / stage / "config.yaml")["seed"] == 1:
            raise recipes.StageFailed("out of memory")

    made.fault = fault
    assert main(["sweep", str(file), "--out", str(out)]) == 1
    assert sorted(row["trial"] for row in sweep_results.read_table(out)) == [
        "seed=2_beta=0.0",
        "seed=2_beta=0.5",
    ]
    made.fault = lambda stage, out: None
    assert sweeps.run(file, out) == 0 and len(grpo(made)) == 4


def test_a_sweep_whose_first_stage_fails_has_an_empty_table_and_says_why(made, file, out, capsys):
    def fault(stage, folder):
        raise recipes.StageFailed("no words")

    made.fault = fault
    assert main(["sweep", str(file), "--out", str(out)]) == 1
    shown = capsys.readouterr()
    assert ": no words" in shown.out and "not started, a shared stage failed" in shown.out
    assert "trials that failed: 4" in shown.err and sweep_results.read_table(out) == [] and len(made) == 1


def test_a_full_disk_fails_the_trial_and_says_so(made, file, out, capsys):
    """The error is made up here and in the next test; `test_sweep_processes` has real ones."""
    fail_once(made, FIRST, OSError(errno.ENOSPC, "No space left on device"))
    assert sweeps.run(file, out) == 1
    assert f"{FIRST}: [Errno 28] No space left on device" in capsys.readouterr().out
    assert runs.status(out / FIRST / "03_grpo")["status"] == "failed"
    assert sweeps.run(file, out) == 0 and len(made) == 7


def test_a_disk_so_full_that_nothing_can_be_said_loses_nothing(made, file, out, monkeypatch, capsys):
    """No status, no table: the stage goes on saying that it runs, and is made again."""
    write = runs.write_text

    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fault(stage, folder):
        if folder.name == FIRST:
            monkeypatch.setattr(runs, "write_text", full)
            raise OSError(errno.ENOSPC, "No space left on device")

    made.fault = fault
    assert main(["sweep", str(file), "--out", str(out)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert runs.status(out / FIRST / "03_grpo")["status"] == "running"
    monkeypatch.setattr(runs, "write_text", write)
    made.fault = lambda stage, out: None
    done = [name for name in grpo(made) if runs.state(out / name / "03_grpo") == "done"]
    before = len(made)
    assert main(["sweep", str(file), "--out", str(out)]) == 0
    assert not set(done) & set(grpo(made[before:])) and len(sweep_results.read_table(out)) == 4


@pytest.mark.parametrize("name", ["metrics.json", "status.json", "03_grpo.ipynb"])
@pytest.mark.parametrize("text", ["", '{"final_rew'])
def test_a_half_written_file_is_never_read_as_done(made, file, out, name, text):
    assert sweeps.run(file, out) == 0
    (out / FIRST / "03_grpo" / name).write_text(text)
    assert runs.state(out / FIRST / "03_grpo") == "torn"
    assert sweeps.run(file, out) == 0
    assert made[6:] == [f"sweep/{FIRST}/03_grpo"]
    assert sweep_results.read_table(out)[0]["03_grpo/final_reward"] == 1.0


def test_a_torn_stage_takes_later_stages_of_its_trial_with_it(made, file, out):
    file.write_text("recipe: tiny\ngrid: {01_data_synthesis.seed: [1, 2]}\n")
    assert sweeps.run(file, out) == 0 and len(made) == 6
    (out / "seed=1" / "02_sft" / "metrics.json").write_text("{")
    assert sweeps.run(file, out) == 0
    assert made[6:] == ["sweep/seed=1/02_sft", "sweep/seed=1/03_grpo"]


def test_a_stage_that_is_taken_back_goes_on_only_with_the_inputs_that_it_had(tmp_path):
    """Kept games would else be those of the model before."""
    for stage, inputs in (("02_sft", {}), ("04_eval", {"02_sft": "1"})):
        (tmp_path / stage).mkdir()
        runs.write_json(tmp_path / stage / "status.json", {"status": "done", "ended": "1", "inputs": inputs})
        sweeps._reopen(tmp_path / stage)
        assert runs.status(tmp_path / stage)["status"] == "failed"
    for ended, stale in (("1", False), ("2", True)):
        runs.write_json(tmp_path / "02_sft" / "status.json", {"status": "done", "ended": ended})
        assert sweeps._stale(tmp_path / "04_eval") == stale
    (tmp_path / "04_eval" / "status.json").write_text("{")
    sweeps._reopen(tmp_path / "04_eval")
    assert sweeps._stale(tmp_path / "04_eval")


def test_a_torn_shared_stage_is_made_again_for_unfinished_trials_only(made, file, out):
    fail_once(made, FIRST, recipes.StageFailed("boom"))
    assert sweeps.run(file, out) == 1
    [shared] = (out / "shared").glob("02_sft-*")
    (shared / "02_sft" / "metrics.json").write_text("{")
    assert sweeps.run(file, out) == 0
    assert made[6:] == [f"shared/{shared.name}/02_sft", f"sweep/{FIRST}/03_grpo"]


def test_a_clock_that_jumps_changes_nothing(made, file, out, monkeypatch):
    """Made up: each look at it, which `runs.now` alone takes, finds it seven hours back."""
    hours = iter(range(10_000, 0, -7))
    monkeypatch.setattr(runs, "now", lambda: f"2026-01-01T{next(hours):05d}")
    assert sweeps.run(file, out) == 0
    assert all(row["minutes"] >= 0 and row["status"] == "done" for row in sweep_results.read_table(out))
    assert sweeps.run(file, out) == 0 and len(made) == 6


def test_a_results_folder_that_cannot_be_written_is_one_sentence(made, file, tmp_path, capsys, monkeypatch):
    """A file in its place, and a read-only file system (made up); `test_sweep_processes` has a real mode."""
    (tmp_path / "plain").write_text("")
    assert main(["sweep", str(file), "--out", str(tmp_path / "plain" / "x")]) == 2
    assert "cannot write the folder" in capsys.readouterr().err

    def refuse(*args, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert main(["sweep", str(file), "--out", str(tmp_path / "x")]) == 2
    error = capsys.readouterr().err
    assert "Read-only file system): choose another --out" in error and error.count("\n") == 1 and not made


def test_a_second_runner_is_refused_and_a_lock_without_its_runner_is_none(made, file, out, capsys):
    with sweeps.locked(out, wait=False):
        assert main(["sweep", str(file), "--out", str(out)]) == 2
    assert "another runner is at work in" in capsys.readouterr().err
    assert not made and (out / ".lock").exists()
    assert sweeps.run(file, out) == 0


def test_a_sweep_is_kept_without_notebooks_and_weights_and_still_gives_its_report(made, file, out, capsys):
    fail_once(made, FIRST, recipes.StageFailed("boom"))
    assert sweeps.run(file, out) == 1
    (out / "beta=0.5_temperature=2.0" / "03_grpo" / "model").mkdir()
    capsys.readouterr()
    assert main(["report", str(out)]) == 0
    shown = capsys.readouterr().out
    assert main(["report", "--keep", str(out)]) == 0
    kept = runs.project_root() / "results" / "reference" / "sweep"
    assert "kept in results/reference/sweep" in capsys.readouterr().out
    names = {path.name for path in kept.rglob("*") if path.is_file()}
    assert names == {
        *("sweep.yaml", "sweep.csv", "parallel_coordinates.svg", "setting_effects.svg"),
        *("config.yaml", "environment.json", "metrics.json", "status.json"),
    }
    assert not any(path.is_symlink() for path in kept.rglob("*")) and (kept / FIRST).is_dir()
    assert main(["report", str(kept)]) == 0
    assert capsys.readouterr().out.partition("Figure:")[0] == shown.partition("Figure:")[0]


def test_a_sweep_of_which_nothing_is_done_is_not_kept(made, file, out, capsys):
    def fault(stage, folder):
        raise recipes.StageFailed("boom")

    made.fault = fault
    assert sweeps.run(file, out) == 4
    capsys.readouterr()
    assert main(["report", "--keep", str(out)]) == 2
    error = capsys.readouterr().err
    assert "sweep.csv: no trial is done" in error and error.count("\n") == 1
    assert not (runs.project_root() / "results").exists()


def test_the_report_names_the_command_of_the_best_trial(made, file, out, capsys):
    assert main(["sweep", str(file), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "Best of 4 by 03_grpo/final_reward: beta=0.5_temperature=2.0, 2.5." in shown
    assert "--set 03_grpo.temperature=2.0 --set 03_grpo.beta=0.5" in shown
    assert "run --recipe tiny" in shown and "Figure:" in shown
