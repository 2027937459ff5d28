"""Every notebook: its form, and a run with its smallest parameters from another working directory."""

import ast
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from conftest import ROOT

from wordlelib import evaluations, findings, params, players, recipes, runs
from wordlelib.__main__ import main
from wordlelib.plots import PLOTLY_FORM, SVG_FORM

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RECIPES = sorted((ROOT / "notebooks" / "recipes").glob("*/[0-9][0-9]_*.yaml"))
PIPELINE = [stage for stage in params.STAGES if "run" in params.PARAMETERS[stage] and stage[:2] != "06"]
PARAMETER_LINE = re.compile(r"(\w+): (bool|int|float|str|list) = (\S.*?)  # \S.*")
WITH_FIGURES = ("02_sft", "03_grpo", "04_eval", "05_analysis")
# Keys that are in the environment of every run here, and must be in no file of it.
KEYS = {"WANDB_API_KEY": "planted1" * 5, "HF_TOKEN": "hf_planted2planted2planted2planted2"}
MOST_OUTPUT_LINES = 150  # printed lines in one executed notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def figures(notebook, forms=frozenset({SVG_FORM})):
    """The outputs of an executed notebook that show a figure in all of these forms."""
    outputs = [output.get("data", {}) for cell in code_cells(notebook) for output in cell.outputs]
    return [data for data in outputs if forms <= set(data)]


def parameter_cells(notebook):
    return [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def source(request):
    """The path and the content of each notebook in `notebooks/`."""
    return request.param, nbformat.read(request.param, as_version=4)


def test_there_is_one_notebook_for_each_stage():
    assert [path.stem for path in NOTEBOOKS] == list(params.STAGES)


def test_case_49_a_notebook_is_valid_stripped_and_without_widget_metadata(source):
    _, notebook = source
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert not {"widgets", "papermill"} & set(notebook.metadata)
    for cell in code_cells(notebook):
        assert cell.outputs == [] and cell.execution_count is None


def test_case_46_exactly_one_parameters_cell_stands_before_any_other_code(source):
    _, notebook = source
    assert parameter_cells(notebook) == code_cells(notebook)[:1]


def test_each_parameter_is_one_annotated_literal_a_line_as_declared(source):
    path, notebook = source
    [cell] = parameter_cells(notebook)
    lines = [PARAMETER_LINE.fullmatch(line) for line in cell.source.splitlines()]
    assert all(lines), cell.source
    kinds = {name: param.kind.__name__ for name, param in params.PARAMETERS[path.stem].items()}
    assert {line[1]: line[2] for line in lines} == kinds
    values = {line[1]: ast.literal_eval(line[3]) for line in lines}
    assert params.resolve(path.stem, values) == values
    assert recipes.defaults(path.stem) == values


def test_defaults_are_the_smallest_run_and_may_be_run_again(source):
    path, _ = source
    values = recipes.defaults(path.stem)
    if "overwrite" in values:
        assert (values["run"], values["overwrite"]) == ("results/smallest", True)


def test_the_table_above_the_parameters_is_the_declared_one(source):
    path, notebook = source
    place = notebook.cells.index(parameter_cells(notebook)[0])
    assert params.markdown_table(path.stem) in notebook.cells[place - 1].source


def test_the_cell_after_the_parameters_checks_them_all(source):
    path, notebook = source
    opening = code_cells(notebook)[1].source
    assert re.search(rf"\b(start|parameters)\(\"{path.stem}\", globals\(\)\)", opening)
    imports = [node for node in ast.parse(opening).body if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    assert not imported & set(params.PARAMETERS[path.stem]), "an import hides a parameter"


def test_every_parameter_is_read_by_its_notebook_or_from_its_config(source):
    """One that nobody reads would be set in vain."""
    path, notebook = source
    code = "\n".join(cell.source for cell in code_cells(notebook)[1:])
    package = "\n".join(file.read_text() for file in (ROOT / "wordlelib").glob("*.py"))
    for name in params.PARAMETERS[path.stem]:
        read = re.search(rf"\b{name}\b", code) or re.search(rf"config\.{name}\b|config, \"{name}\"", package)
        assert read or name in params.KEEPING, name


def test_a_notebook_tells_the_story_and_leaves_the_code_to_the_package(source):
    _, notebook = source
    lines = [line for cell in code_cells(notebook) for line in cell.source.splitlines() if line.strip()]
    assert len(lines) < 250


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_recipe_sets_known_parameters_to_values_in_range(path):
    params.resolve(path.stem, recipes.defaults(path.stem) | runs.read_yaml(path))


def test_executed_notebooks_among_the_results_are_whole_and_show_their_figures():
    for path in (ROOT / "results" / "reference").glob("**/*.ipynb"):
        runs.require_complete_notebook(path)
        notebook = nbformat.read(path, as_version=4)
        assert all("state" in record for record in notebook.metadata.get("widgets", {}).values()), path
        assert figures(notebook) or path.stem not in WITH_FIGURES, path


def papermill(stage, target, **values):
    """Execute a notebook with plain papermill, the target's folder being the working directory."""
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / f"{stage}.ipynb"), str(target)]
    for name, value in values.items():
        command += ["-p", name, str(value)]
    environment = os.environ | KEYS
    done = subprocess.run(command, cwd=target.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return target


def shown_by(path):
    """All that an executed notebook shows, but figures, whose library has its own words."""
    cells = code_cells(nbformat.read(path, as_version=4))
    return "".join(str(o) for cell in cells for o in cell.outputs if "plotly" not in str(o))


def files_with_a_key(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(key.encode() in path.read_bytes() for key in KEYS.values())]


@pytest.fixture(scope="module")
def smallest(tmp_path_factory):
    """A run folder of notebooks 01 to 05 with their default parameters."""
    run = tmp_path_factory.mktemp("smoke") / "run"
    run.mkdir()
    for stage in PIPELINE:
        (run / stage).mkdir()
        own = {"runs": "[]"} if stage == "05_analysis" else {}
        papermill(stage, run / stage / f"{stage}.ipynb", run=run, **own)
    return run


@pytest.fixture(params=PIPELINE)
def executed(request, smallest):
    """The folder and the executed notebook of each stage of the smallest run."""
    folder = smallest / request.param
    return folder, nbformat.read(folder / f"{request.param}.ipynb", as_version=4)


def test_every_stage_runs_headless_and_leaves_a_finished_folder(executed):
    folder, notebook = executed
    runs.require_complete_notebook(folder / f"{folder.name}.ipynb")
    nbformat.validate(notebook)
    assert runs.status(folder)["status"] == "done"
    for name in ("config.yaml", "environment.json", "metrics.json"):
        assert (folder / name).is_file()
    assert figures(notebook, {PLOTLY_FORM, SVG_FORM}) or folder.name not in WITH_FIGURES
    assert not list(folder.glob("**/*.tmp"))


def test_case_47_an_executed_notebook_holds_a_few_plain_lines_and_the_final_state(executed):
    folder, notebook = executed
    streams = [o for cell in code_cells(notebook) for o in cell.outputs if o.output_type == "stream"]
    text = "".join(output.text for output in streams)
    assert "\r" not in text
    assert len(text.splitlines()) <= MOST_OUTPUT_LINES
    assert f"{folder.name}: done in" in text


def test_the_grpo_notebook_also_trains_on_whole_games(smallest, tmp_path):
    for stage in ("01_data_synthesis", "02_sft"):
        shutil.copytree(smallest / stage, tmp_path / stage)
    folder = tmp_path / "03_grpo"
    folder.mkdir()
    papermill("03_grpo", folder / "03_grpo.ipynb", run=tmp_path, unit="game", control="false")
    runs.require_complete_notebook(folder / "03_grpo.ipynb")
    assert runs.read_json(folder / "metrics.json")["steps"] == 2
    steps = [row for row in runs.read_log(folder / "log.jsonl") if "loss" in row]
    assert all({"rewards/game/mean", "games_win_rate", "games_turns"} <= set(row) for row in steps)


def test_the_grpo_notebook_also_trains_on_the_lost_states_of_a_report(smallest, tmp_path):
    for stage in ("01_data_synthesis", "02_sft"):
        shutil.copytree(smallest / stage, tmp_path / stage)
    assert main(["report", str(smallest), "--html", "--out", str(tmp_path / "report")]) == 0
    lost = tmp_path / "report" / "lists" / "lost_states.jsonl"
    folder = tmp_path / "03_grpo"
    folder.mkdir()
    asked = {"states": "fixed", "states_from": lost, "control": "false"}
    papermill("03_grpo", folder / "03_grpo.ipynb", run=tmp_path, **asked)
    assert runs.read_json(folder / "metrics.json")["steps"] == 2


def test_a_board_game_passes_through_the_notebooks_of_wordle(tmp_path):
    pytest.importorskip("pyspiel", reason="OpenSpiel is an optional extra: pip install -e .[games]")
    own = {
        "01_data_synthesis": {"game": "tic_tac_toe"},
        "02_sft": {},
        "03_grpo": {"preset": "outcome"},
        "04_eval": {},
    }
    for stage, values in own.items():
        (tmp_path / stage).mkdir()
        path = papermill(stage, tmp_path / stage / f"{stage}.ipynb", run=tmp_path, **values)
        runs.require_complete_notebook(path)
    played = evaluations.read_run(tmp_path)
    metrics = played.metrics
    assert played.rules.game == "tic_tac_toe"
    assert metrics["greedy/all/win_rate"] > metrics["random_consistent/all/win_rate"]
    steps = [row for row in runs.read_log(tmp_path / "03_grpo" / "log.jsonl") if "loss" in row]
    assert steps and all("rewards/value/mean" in row for row in steps)
    assert "tic_tac_toe" in (tmp_path / "03_grpo" / "model" / "README.md").read_text()
    letters = "reads the letters of words, and this run played tic_tac_toe"
    with pytest.raises(ValueError, match=f"the analysis {letters}"):
        findings.Findings([tmp_path])
    with pytest.raises(ValueError, match=f"a single game {letters}"):
        players.saved_game(tmp_path / "03_grpo" / "model")


def test_the_analysis_of_a_sweep_shows_its_table_its_figures_and_its_best_trial(tmp_path):
    """Of a kept one: the table is enough for what is said of the sweep."""
    target = tmp_path / "05_analysis.ipynb"
    papermill("05_analysis", target, run=tmp_path / "run", runs="[results/reference/grpo-beta]")
    pages = {path.stem for path in (tmp_path / "run" / "05_analysis" / "figures").glob("*.html")}
    assert {"grpo-beta_parallel_coordinates", "grpo-beta_setting_effects"} <= pages
    assert any(name.startswith("beta=0.2_temperature=0.5_") for name in pages), "of its best trial"
    shown = shown_by(target)
    assert "Effect on grpo/all/win_rate" in shown and "Repeat it with: `python -m wordlelib run" in shown


def test_no_file_of_a_run_holds_a_key_of_the_environment(smallest):
    assert files_with_a_key(smallest) == []


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "trackio"])
def test_a_tracker_writes_the_log_into_the_stage_and_no_key(smallest, tmp_path, tracker):
    pytest.importorskip(tracker)
    shutil.copytree(smallest / "01_data_synthesis", tmp_path / "01_data_synthesis")
    folder = tmp_path / "02_sft"
    folder.mkdir()
    papermill("02_sft", folder / "02_sft.ipynb", run=tmp_path, tracker=tracker)
    written = [path for path in (folder / tracker).rglob("*") if path.is_file()]
    assert "write_token" not in shown_by(folder / "02_sft.ipynb")
    assert any(b"eval/loss" in path.read_bytes() for path in written)
    assert any(b"val_win_rate" in path.read_bytes() for path in written)
    assert files_with_a_key(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == {"01_data_synthesis", "02_sft", "plotly.min.js"}


def test_all_stages_of_a_run_play_under_the_same_rules(smallest):
    rules = [runs.read_yaml(smallest / stage / "config.yaml")["rules"] for stage in PIPELINE]
    assert all(record == rules[0] for record in rules)
    digests = {runs.read_json(smallest / stage / "metrics.json")["rules"] for stage in PIPELINE}
    assert len(digests) == 1


def test_the_figures_of_a_run_share_one_library_and_load_nothing_from_elsewhere(smallest):
    pages = sorted(smallest.glob("*/figures/*.html"))
    assert pages and [path.parent for path in smallest.glob("**/plotly*.js")] == [smallest]
    for path in pages:
        assert re.findall(r"<script[^>]* src=\"([^\"]*)\"", path.read_text()) == ["../../plotly.min.js"]


def test_a_config_starts_the_same_stage_again_with_papermill(smallest):
    folder = smallest / "05_analysis"
    before = runs.read_json(folder / "metrics.json")
    again = smallest / "again.ipynb"
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / "05_analysis.ipynb"), str(again)]
    command += ["-f", str(folder / "config.yaml")]
    done = subprocess.run(command, cwd=smallest, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert runs.read_json(folder / "metrics.json") == before


@pytest.fixture(scope="module")
def told(smallest):
    """Executed copies of the notebooks that play and replay games, side by side in one folder."""
    copies = smallest.parent / "copies"
    copies.mkdir()
    papermill("00_play_and_solve", copies / "00_play_and_solve.ipynb")
    papermill("06_replay", copies / "06_replay.ipynb", run=smallest)
    return copies


def test_the_play_and_replay_notebooks_run_headless(told):
    for path in told.glob("*.ipynb"):
        runs.require_complete_notebook(path)


SANITIZE = """
[seconds]
regex: done in \\d+ s
replace: done in N s
"""


def test_deterministic_notebooks_give_the_same_outputs_again(smallest, told, tmp_path):
    """nbval executes the executed copies once more and compares every output."""
    papermill("01_data_synthesis", told / "01_data_synthesis.ipynb", run=tmp_path / "run")
    shutil.copy(smallest / "05_analysis" / "05_analysis.ipynb", told)
    (told / "sanitize.cfg").write_text(SANITIZE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval"]
    command += ["--nbval-sanitize-with", "sanitize.cfg", *sorted(path.name for path in told.glob("*.ipynb"))]
    done = subprocess.run(command, cwd=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]


def test_report_play_and_eval_work_on_a_run(smallest, capsys):
    assert main(["report", str(smallest)]) == 0
    assert "greedy" in capsys.readouterr().out
    secret = runs.read_json(smallest / "01_data_synthesis" / "card.json")["split"]["train"][0]
    assert main(["play", "--model", str(smallest / "03_grpo" / "model"), "--secret", secret]) == 0
    shown = capsys.readouterr().out
    assert "  1. " in shown and ("won in" in shown or f"the secret was {secret.upper()}" in shown)
    options = ["--set", "max_games=2", "--set", "players=[greedy, random_consistent]"]
    assert main(["eval", "--run", str(smallest), *options]) == 0
    shown = capsys.readouterr().out
    assert "random_consistent: won" in shown and "06_replay.ipynb" in shown
    assert runs.read_yaml(smallest / "04_eval" / "config.yaml")["max_games"] == 2
