"""The command line: one sentence and an exit code for every wrong use, and recipes run by papermill."""

import json
import shlex
import signal
import subprocess
import sys
import sysconfig

import pytest
from conftest import ROOT, example

from wordlelib import __main__, formats, recipes, runs
from wordlelib.__main__ import main

STAGE = "05_analysis"
PARAMETERS = "\n".join(f"{name} = {value!r}" for name, value in example(STAGE, overwrite=True).items())
START = f"from wordlelib.runs import start\nstage = start({STAGE!r}, globals())"
FINISH = "stage.finish({'x': 1})"


@pytest.fixture
def checkout(project, write_notebook):
    """A checkout with one recipe, `tiny`, of one stage; returns a function that sets its middle cells."""
    folder = project / "notebooks" / "recipes" / "tiny"
    folder.mkdir()
    (folder / f"{STAGE}.yaml").write_text("# the defaults will do\n")

    def middle(*sources: str) -> None:
        write_notebook(project / "notebooks" / f"{STAGE}.ipynb", PARAMETERS, START, *sources, FINISH)

    middle("print('hello')")
    return middle


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def run(out, *options: str) -> int:
    return main(["run", "--recipe", "tiny", "--out", str(out), *options])


def test_a_recipe_leaves_finished_stages_with_their_executed_notebooks(checkout, out, capfd):
    assert run(out, "--set", f"{STAGE}.seed=7") == 0
    shown = capfd.readouterr().out
    assert f"[1/1] {STAGE}\n" in shown and "seed = 7" in shown and "hello\n" in shown
    assert runs.status(out / STAGE)["status"] == "done"
    assert runs.read_yaml(out / STAGE / "config.yaml")["seed"] == 7
    notebook = out / STAGE / f"{STAGE}.ipynb"
    runs.require_complete_notebook(notebook)
    record = runs.read_json(notebook)["metadata"]["papermill"]
    assert (record["input_path"], record["output_path"]) == (f"notebooks/{STAGE}.ipynb", f"{STAGE}.ipynb")


def test_an_executed_notebook_names_no_folder_of_the_machine(checkout, out, project):
    """Libraries print whole paths, such as that of a model in the project, or their own in a warning."""
    library = sysconfig.get_path("purelib")
    checkout(f"print('loading ' + {str(project)!r} + '/models/m', {library + '/torch/a.py:1'!r})")
    assert run(out) == 0
    cells = runs.read_json(out / STAGE / f"{STAGE}.ipynb")["cells"]
    printed = str([cell.get("outputs") for cell in cells])
    assert "loading models/m torch/a.py:1" in printed
    assert str(project) not in printed and library not in printed


def test_a_finished_run_is_refused_kept_or_replaced_as_asked(checkout, out, capsys):
    assert run(out) == 0
    assert run(out) == 2
    assert "is finished: --resume keeps it and goes on, --overwrite makes it again" in capsys.readouterr().err
    first = runs.status(out / STAGE)["ended"]
    assert run(out, "--resume") == 0
    assert runs.status(out / STAGE)["ended"] == first
    assert f"{STAGE}: finished {first}, kept" in capsys.readouterr().out
    assert run(out, "--resume", "--set", f"{STAGE}.seed=1") == 2
    assert "was made with seed=0, not 1: --overwrite makes it again" in capsys.readouterr().err
    assert run(out, "--overwrite", "--set", f"{STAGE}.seed=1") == 0
    assert runs.read_yaml(out / STAGE / "config.yaml")["seed"] == 1


def test_a_failing_cell_stops_the_run_naming_notebook_and_cell_and_marks_the_stage(checkout, out, capsys):
    checkout("print('before')", "1 / 0")
    assert run(out) == 1
    error = capsys.readouterr().err
    assert error == "notebook 05_analysis stopped in In [5]: ZeroDivisionError: division by zero\n"
    assert runs.status(out / STAGE)["status"] == "failed"
    with pytest.raises(ValueError, match=r"05_analysis\.ipynb: In \[5\] failed"):
        runs.require_complete_notebook(out / STAGE / f"{STAGE}.ipynb")


@pytest.mark.parametrize("last", [False, True])
def test_case_50_a_kernel_that_kills_itself_after_printing_ends_the_run_and_names_the_cell(
    checkout, out, capfd, last
):
    # A kernel sends what it began and printed from a thread, which must have a moment for that.
    kill = "import os, signal, time\nprint('last words', flush=True)\ntime.sleep(1)\n"
    kill += f"os.kill(os.getpid(), {int(signal.SIGKILL)})"
    checkout(*[FINISH] * last, kill)
    assert run(out) == 1
    shown = capfd.readouterr()
    cell = f"In [{5 if last else 4}]"
    assert shown.err.splitlines()[-1].startswith(f"notebook 05_analysis stopped in {cell}: ")
    assert runs.status(out / STAGE)["status"] == "failed"
    notebook = out / STAGE / f"{STAGE}.ipynb"
    assert "last words" in notebook.read_text()
    with pytest.raises(ValueError, match=r"In \[\d\] failed"):
        runs.require_complete_notebook(notebook)


def test_case_50_a_notebook_with_a_pending_cell_is_no_evidence(checkout, out):
    assert run(out) == 0
    path = out / STAGE / f"{STAGE}.ipynb"
    notebook = runs.read_json(path)
    notebook["cells"][-1]["execution_count"] = None
    runs.write_json(path, notebook)
    with pytest.raises(ValueError, match="cell 5 was not executed to its end"):
        runs.require_complete_notebook(path)
    notebook["cells"][-1]["execution_count"] = 5
    notebook["cells"][-1]["metadata"]["papermill"]["status"] = "running"
    runs.write_json(path, notebook)
    with pytest.raises(ValueError, match=r"In \[5\] was not executed to its end"):
        runs.require_complete_notebook(path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", f"{STAGE}.sede=1"], "05_analysis: unknown parameter 'sede'; did you mean 'seed'?"),
        (["--set", f"{STAGE}.seed=one"], "05_analysis: seed is 'one'; use a whole number from 0 to"),
        (["--set", "seed=1"], "--set 'seed=1': write stage.name=value"),
        (["--set", "02_sft.seed=1"], "recipe tiny has no stage '02_sft'; it has 05_analysis"),
        (["--stages", "07_x"], "recipe tiny has no stage '07_x'; it has 05_analysis"),
    ],
)
def test_wrong_settings_are_met_before_anything_starts(checkout, out, capsys, options, sentence):
    assert run(out, *options) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sede: 1\n", "05_analysis: unknown parameter 'sede'; did you mean 'seed'?"),
        ("seed: fast\n", "05_analysis: seed is 'fast'"),
        ("seed: [\n", "05_analysis.yaml: not a YAML file"),
    ],
)
def test_a_wrong_recipe_is_met_before_anything_starts(checkout, project, out, capsys, text, sentence):
    (project / "notebooks" / "recipes" / "tiny" / f"{STAGE}.yaml").write_text(text)
    assert run(out) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert not out.exists()


def test_an_unknown_recipe_lists_those_there_are(checkout, out, capsys):
    assert main(["run", "--recipe", "huge", "--out", str(out)]) == 2
    assert "no recipe 'huge' in notebooks/recipes; there are: tiny" in capsys.readouterr().err


def test_a_recipe_for_a_stage_that_does_not_exist_is_refused(checkout, project, out, capsys):
    (project / "notebooks" / "recipes" / "tiny" / "07_more.yaml").write_text("")
    assert run(out) == 2
    assert "no stage '07_more'; the stages are 00_play_and_solve, " in capsys.readouterr().err


def test_a_missing_input_is_met_before_any_notebook_starts(checkout, project, out, capsys):
    """Also when a finished stage is to be made again: its notebook, too, stays as it was."""
    assert run(out) == 0
    before = {path: path.read_bytes() for path in (out / STAGE).iterdir() if path.is_file()}
    assert run(out, "--overwrite", "--set", f"{STAGE}.runs=[]") == 2
    error = capsys.readouterr().err
    assert "04_eval is not there: run notebook 04_eval first" in error and error.count("\n") == 1
    assert {path: path.read_bytes() for path in (out / STAGE).iterdir() if path.is_file()} == before


def test_a_missing_input_stage_is_named_by_the_cell_that_needs_it(checkout, out, capsys):
    checkout("stage.input('02_sft')")
    assert run(out) == 1
    error = capsys.readouterr().err
    assert "02_sft is not there: run notebook 02_sft first" in error and error.count("\n") == 1


def test_an_unwritable_out_folder_is_one_sentence(checkout, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "run") == 2
    assert "cannot write the run folder" in capsys.readouterr().err


def test_a_folder_with_foreign_files_is_left_alone_however_often_it_is_named(checkout, out):
    foreign = out / STAGE / "thesis.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    assert run(out) == run(out) == run(out, "--overwrite") == 1
    assert foreign.read_text() == "mine"


def test_out_is_relative_to_the_working_directory(checkout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("mine") == 0
    assert runs.status(tmp_path / "mine" / STAGE)["status"] == "done"


def test_case_46_an_empty_recipe_file_runs_the_defaults(checkout, out):
    assert recipes.read_recipe("tiny") == {STAGE: {}}
    wanted = example(STAGE, run=str(out), overwrite=False)
    assert recipes.plan({STAGE: {}}, out) == {STAGE: wanted}


def test_the_command_of_a_run_repeats_its_settings_whatever_recipe_is_nearest(checkout, project, out):
    """Quoted for a shell; a recipe that is changed later no longer stands for the runs made with it."""
    assert run(out, "--set", f"{STAGE}.seed=3", "--set", f"{STAGE}.runs=[a b]") == 0
    shown = recipes.command(out)
    assert shown.startswith("python -m wordlelib run --recipe tiny --out results/out --set ")
    settings = recipes.parse_settings(word for word in shlex.split(shown) if "=" in word)
    again = recipes.plan(settings, out.with_name("again"))[STAGE]
    made = recipes.runs.read_yaml(out / STAGE / "config.yaml")
    assert {name: made[name] for name in again if name != "run"} == {
        name: value for name, value in again.items() if name != "run"
    }
    (project / "notebooks" / "recipes" / "tiny" / f"{STAGE}.yaml").write_text("seed: 3\nruns: [a b]\n")
    assert recipes.command(out) == "python -m wordlelib run --recipe tiny --out results/out"


def test_the_command_of_an_older_run_names_what_has_become_a_parameter():
    """The kept GPU runs were made before there was a place of the guess, and their recipe has another now."""
    shown = recipes.command(ROOT / "results" / "reference" / "earlier" / "h200-qwen2.5-0.5b")
    assert "01_data_synthesis.guess_place=last" in shown and "01_data_synthesis.non_words=altered" in shown
    assert "guess_place" not in recipes.command(ROOT / "results" / "reference" / "cpu-demo")


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "ten"])
def test_a_limit_that_is_no_finite_number_is_refused(capsys, number):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--gpu", "--minutes", number])
    assert stopped.value.code == 2 and f"'{number}' is no finite number from 0" in capsys.readouterr().err


LOOP = """
from types import SimpleNamespace
from wordlelib.callbacks import SkipNonFinite, StepLog
log = StepLog(stage, max_minutes=0, guard=SkipNonFinite())
state = SimpleNamespace(global_step=0, num_input_tokens_seen=0, max_steps=200)
log.on_train_begin(None, state, None)
for step in range(1, 201):
    state.global_step = step
    log.on_log(None, state, None, {"loss": 1 / step})
"""


def test_case_47_a_loop_of_200_steps_prints_a_few_plain_lines_and_saves_its_final_state(checkout, out):
    checkout(LOOP)
    assert run(out) == 0
    notebook = runs.read_json(out / STAGE / f"{STAGE}.ipynb")
    outputs = [output for cell in notebook["cells"] for output in cell["outputs"]]
    text = "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
    assert len(text.splitlines()) <= 20 and "\r" not in text
    assert "step 1/200" in text and "05_analysis: done in" in text
    assert runs.read_log(out / STAGE / "log.jsonl")[-1]["step"] == 200


def test_case_49_executed_notebooks_are_valid_and_their_widgets_have_a_state(checkout, out):
    import nbformat

    checkout("import ipywidgets\nipywidgets.IntSlider(value=3)")
    assert run(out) == 0
    notebook = nbformat.read(out / STAGE / f"{STAGE}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all("state" in record for record in notebook.metadata["widgets"].values())


def test_report_without_a_finished_evaluation_is_one_sentence(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert "run notebook 04_eval first" in error and error.count("\n") == 1
    assert main(["report"]) == 2


def test_eval_without_a_run_is_one_sentence(tmp_path, capsys):
    assert main(["eval", "--run", str(tmp_path / "none")]) == 2
    assert "run notebook 01_data_synthesis first" in capsys.readouterr().err


def test_play_refuses_a_secret_that_is_no_word_before_loading_a_model(capsys):
    assert main(["play", "--model", "nowhere/at-all", "--secret", "zzzzz"]) == 2
    assert "'zzzzz' is not among the 12,972 allowed words" in capsys.readouterr().err


def test_the_parameters_of_a_notebook_are_shown(capsys):
    assert main(["parameters", "02_sft"]) == 0
    assert "| `learning_rate` |" in capsys.readouterr().out
    assert main(["parameters", "2"]) == 2


NO_CARD = ["plan", "--recipe", "qwen3-4b", "--gpu-gb", "large"]


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["run", "--recipe", "x"], NO_CARD])
def test_wrong_use_exits_with_2(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "wordlelib", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and "usage:" in done.stderr and "Traceback" not in done.stderr


def test_the_cell_that_papermill_puts_in_holds_plain_literals_only(checkout, out):
    assert run(out) == 0
    cells = json.loads((out / STAGE / f"{STAGE}.ipynb").read_text())["cells"]
    [injected] = [cell for cell in cells if "injected-parameters" in cell["metadata"].get("tags", [])]
    values = {}
    exec("".join(injected["source"]), values)
    assert {name: values[name] for name in example(STAGE)} == example(STAGE, run=str(out), overwrite=False)


def test_an_option_of_its_own_is_not_set_as_a_parameter(checkout, out, capsys):
    assert run(out, "--set", f"{STAGE}.overwrite=true") == 2
    assert "overwrite is an option of its own: use --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("convert rows.jsonl", ""),
        ("play --model embedded --secret crane", ""),
        ("run --recipe r --out o", ": the same command with --resume goes on"),
        (
            "run --recipe r --out o --overwrite",
            ": the same command with --resume in place of --overwrite goes on",
        ),
        ("sweep f --out o", ": the same command goes on with what is not finished"),
        ("eval --player embedded", ": the same command goes on with what is not finished"),
        ("eval --player embedded --overwrite", ""),
        ("eval --run r", ""),
    ],
)
def test_an_interrupt_promises_only_what_the_same_command_does(arguments, hint, monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, arguments.split()[0].replace("eval", "evaluate"), interrupted)
    assert main(arguments.split()) == 130
    assert capsys.readouterr().err == f"interrupted{hint}\n"


def test_a_process_that_is_ended_is_one_sentence(monkeypatch, capsys):
    def ended(*args, **options):
        raise MemoryError("one of 2 processes that check rows was ended")

    monkeypatch.setattr(formats, "convert", ended)
    assert main(["convert", "rows.jsonl"]) == 2
    assert capsys.readouterr().err == "python -m wordlelib: one of 2 processes that check rows was ended\n"
