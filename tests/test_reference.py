"""Runs that are kept, and the README that must agree with their files."""

import gzip
import json
from dataclasses import replace

import pytest
from conftest import ROOT
from test_report import RULES, make_data, make_run, table_rows

from wordlelib.evaluate import read_games
from wordlelib.plots import PLOTLY_FORM, SVG_FORM
from wordlelib.reference import END, START, check_readme, keep_run, update_readme
from wordlelib.report import markdown
from wordlelib.runs import log_of, write_json


@pytest.fixture
def readme(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"# Title\n\n{START}\nold\n{END}\n\nThe rest.\n")
    return path


def test_the_readme_is_filled_between_its_markers_and_nowhere_else(tmp_path, readme):
    """Each row points to its folder and the command that repeats it; a second update changes nothing."""
    make_run(tmp_path / "reference" / "cpu-demo")
    make_run(tmp_path / "reference" / "mine", replace(RULES, turns=7), names=["seven_turns"])
    update_readme(readme, tmp_path / "reference")
    text = readme.read_text()
    assert text.startswith(f"# Title\n\n{START}\n**10 secrets**\n\nRules ")
    assert text.endswith(f"\n{END}\n\nThe rest.\n")
    [row] = [line for line in text.splitlines() if line.startswith("| greedy |")]
    assert row.startswith("| greedy | 60.0% |") and row.endswith("| [1] |")
    assert row.count("%") == 7, "all and held-out secrets in one row"
    folder = tmp_path / "reference" / "cpu-demo"
    command = "`python -m wordlelib run --recipe cpu-demo --out results/cpu-demo --stages 04_eval`"
    assert f"- [1] `{folder}`, repeated by {command}\n" in text
    [seven] = [line for line in text.splitlines() if line.startswith("| seven_turns |")]
    assert seven.endswith("| [1] |") and command.replace("results/cpu-demo", "results/mine") in text
    assert text.count("Rules ") == 2, "other rules, another table"
    full = (tmp_path / "reference" / "README.md").read_text().splitlines()
    rows = [line for line in full if line.startswith("| greedy |")]
    assert len(rows) == 2 and all(str(folder) in line and command in line for line in rows)
    check_readme(readme, tmp_path / "reference")
    update_readme(readme, tmp_path / "reference")
    assert readme.read_text() == text


def test_each_table_names_its_models_and_the_best_student_of_the_largest_game_stands_first(tmp_path, readme):
    kinds = {"a": (RULES, "org/Small-1B"), "b": (replace(RULES, lexicon="train"), "models/nano")}
    for name, (rules, model) in kinds.items():
        run = make_run(tmp_path / "reference" / name, rules)
        (run / "02_sft").mkdir()
        write_json(run / "02_sft" / "config.yaml", {"model": model})
        metrics = json.loads((run / "04_eval" / "metrics.json").read_text())
        write_json(
            run / "04_eval" / "metrics.json", metrics | {"grpo/heldout/win_rate": 0.1 if name == "a" else 0.9}
        )
        (run / "04_eval" / "games.jsonl").unlink()
    update_readme(readme, tmp_path / "reference")
    titles = [line for line in readme.read_text().splitlines() if line.startswith("**")]
    assert titles == ["**nano, 10 secrets, `lexicon: train`**", "**Small-1B, 10 secrets**"]


def test_models_have_tables_of_their_own_and_players_without_training_stand_once_in_each(tmp_path, readme):
    """Two runs of one model share a table; what they both say of a player whom nobody trained comes once."""
    for name, model in {"a": "org/Small-1B", "b": "org/Large-7B", "c": "org/Small-1B"}.items():
        (stage := make_run(tmp_path / "reference" / name) / "02_sft").mkdir()
        write_json(stage / "config.yaml", {"model": model})
    update_readme(readme, tmp_path / "reference")
    tables = readme.read_text().split("\n**")[1:]
    assert [table.split(",")[0] for table in tables] == ["Small-1B", "Large-7B"]
    for table, folders in zip(tables, (["a", "c"], ["b"]), strict=True):
        trained = [line.split()[-2] for line in table.splitlines() if line.startswith("| grpo |")]
        assert trained == ["[1]", "[2]"][: len(folders)]
        assert table.count("\n| greedy |") == table.count("\n| untrained |") == 1
        assert [f"{name}`, repeated by" in table for name in "abc"] == [name in folders for name in "abc"]


def test_untrained_players_of_one_model_that_did_not_play_alike_all_keep_their_rows(tmp_path, readme):
    for name, won in {"a": 0.25, "b": 0.5}.items():
        run = make_run(tmp_path / "reference" / name, names=["greedy", "untrained"])
        metrics = json.loads((run / "04_eval" / "metrics.json").read_text())
        write_json(run / "04_eval" / "metrics.json", metrics | {"untrained/all/win_rate": won})
        (run / "04_eval" / "games.jsonl").unlink()
    update_readme(readme, tmp_path / "reference")
    rows = [line.split(" | ") for line in readme.read_text().splitlines() if line.startswith("| untrained |")]
    assert [(row[1], row[-1]) for row in rows] == [("25.0%", "[1] |"), ("50.0%", "[2] |")]


def test_models_whose_answers_were_cut_off_at_different_lengths_are_told_apart_below_their_tables(
    tmp_path, readme
):
    for name, limit in {"a": 64, "b": 96}.items():
        run = make_run(tmp_path / "reference" / name)
        (run / "02_sft").mkdir()
        write_json(run / "02_sft" / "config.yaml", {"model": f"org/{name}"})
        evaluation = run / "04_eval" / "config.yaml"
        write_json(evaluation, json.loads(evaluation.read_text()) | {"max_completion_length": limit})
    update_readme(readme, tmp_path / "reference")
    text = readme.read_text()
    assert text.count("10 secrets**") == 2
    assert (
        text.count("cut off at different lengths") == text.count(f"64 in {tmp_path / 'reference' / 'a'}") == 1
    )


def test_runs_of_before_stand_in_the_full_page_alone(tmp_path, readme):
    make_run(tmp_path / "reference" / "now", names=["greedy"])
    make_run(tmp_path / "reference" / "earlier" / "then", names=["seven_turns"])
    update_readme(readme, tmp_path / "reference")
    short, full = readme.read_text(), (tmp_path / "reference" / "README.md").read_text()
    assert "| greedy |" in short and "| seven_turns |" not in short
    assert "| greedy |" in full and "| seven_turns |" in full
    check_readme(readme, tmp_path / "reference")


def test_the_full_page_counts_the_same_games_by_the_rules_of_others(tmp_path, readme):
    """Trained players alone, and no pool of training secrets without the data card that names them."""
    make_run(tmp_path / "reference" / "run")
    update_readme(readme, tmp_path / "reference")
    text = (tmp_path / "reference" / "README.md").read_text()
    part = text.partition("scoring rules of others:\n\n")[2].splitlines()
    assert [line.split()[1] for line in part] == ["sft", "grpo", "Farthest"]
    assert "*strict* 30.0%, *credit above 0*" in part[0] and "training secrets" not in part[0]


def test_a_readme_that_disagrees_with_the_files_is_found(tmp_path, readme):
    run = make_run(tmp_path / "reference" / "cpu-demo")
    with pytest.raises(ValueError, match="disagree: update it with"):
        check_readme(readme, tmp_path / "reference")
    update_readme(readme, tmp_path / "reference")
    (run / "04_eval" / "games.jsonl").unlink()
    metrics = run / "04_eval" / "metrics.json"
    changed = json.loads(metrics.read_text()) | {"grpo/all/win_rate": 0.99}
    write_json(metrics, changed)
    with pytest.raises(ValueError, match="disagree"):
        check_readme(readme, tmp_path / "reference")


def test_a_readme_without_runs_says_so(tmp_path, readme):
    update_readme(readme, tmp_path / "reference")
    assert "No reference run is kept yet." in readme.read_text()


@pytest.mark.parametrize("text", ["", START, END, f"{END}\n{START}"])
def test_a_readme_without_both_markers_is_refused(tmp_path, text):
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(ValueError, match="lacks the markers"):
        update_readme(path, tmp_path)
    assert path.read_text() == text


def test_a_kept_run_has_what_the_tables_need_and_neither_weights_nor_rows(tmp_path):
    run = make_run(tmp_path / "mine")
    rounds = ("02_sft/corrections/round_1/log.jsonl", "02_sft/corrections/round_1/mistakes.jsonl")
    for name in ("02_sft/model/model.safetensors", "02_sft/log.jsonl", "02_sft/figures/loss.svg", *rounds):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text('{"step": 1}\n')
    (run / "02_sft" / "figures" / "loss.html").write_text("{}")
    make_data(run)
    (run / "01_data_synthesis" / "traces.csv").write_text("crane\n")
    (tmp_path / "reference" / "mine").mkdir(parents=True)
    (tmp_path / "reference" / "mine" / "old.json").write_text("{}")
    kept = keep_run(run, tmp_path / "reference")
    names = {path.relative_to(kept).as_posix() for path in kept.glob("**/*") if path.is_file()}
    assert {"02_sft/log.jsonl.gz", "02_sft/figures/loss.svg", "01_data_synthesis/card.json"} <= names
    assert not names & {"02_sft/model/model.safetensors", "01_data_synthesis/sft.jsonl", "old.json"}
    assert "02_sft/figures/loss.html" not in names
    assert [name for name in names if "corrections" in name] == [f"{rounds[0]}.gz"]
    assert log_of(kept / "02_sft") == log_of(run / "02_sft") == [{"step": 1}]
    before, after = (table_rows(markdown([folder]), "All secrets")["grpo"] for folder in (run, kept))
    assert {**after, "folder": ""} == {**before, "folder": ""}
    assert read_games(kept / "04_eval" / "games.jsonl.gz") == read_games(run / "04_eval" / "games.jsonl")
    assert gzip.decompress((kept / "01_data_synthesis" / "traces.csv.gz").read_bytes()) == b"crane\n"
    assert not names & {"04_eval/games.jsonl", "01_data_synthesis/traces.csv"}
    (again := tmp_path / "again").mkdir()
    packed = keep_run(kept, again) / "04_eval" / "games.jsonl.gz"
    assert packed.read_bytes() == (kept / "04_eval" / "games.jsonl.gz").read_bytes()
    (log := again / "mine" / "02_sft" / "log.jsonl.gz").write_bytes(log.read_bytes()[:-4])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        log_of(log.parent)


def test_a_kept_notebook_shows_each_figure_as_a_picture_alone(tmp_path):
    """What plotly would draw from is most of an executed notebook; a figure without a picture keeps it, and
    whatever a model printed is kept, half a character too."""
    both = {PLOTLY_FORM: {"data": [1, 2]}, SVG_FORM: "<svg/>", "text/plain": "Figure: wins"}
    outputs = [{"output_type": "display_data", "data": data} for data in (both, {PLOTLY_FORM: {"data": [3]}})]
    printed = {"output_type": "stream", "name": "stdout", "text": ["won 9 of 10 – \ud83d\n"]}
    cell = {"cell_type": "code", "source": ["1"], "execution_count": 1, "metadata": {}}
    cells = [{"cell_type": "markdown", "source": ["Wins"]}, {**cell, "outputs": [printed, *outputs]}]
    run = make_run(tmp_path / "mine")
    write_json(run / "04_eval" / "04_eval.ipynb", notebook := {"cells": cells, "nbformat": 4})
    kept = json.loads((keep_run(run, tmp_path / "reference") / "04_eval" / "04_eval.ipynb").read_text())
    assert set(both) > set(kept["cells"][1]["outputs"][1]["data"]) == {SVG_FORM, "text/plain"}
    kept["cells"][1]["outputs"][1]["data"] = both
    assert kept == notebook


def test_a_run_whose_replay_was_opened_in_jupyter_is_kept_without_the_copy_of_it(tmp_path):
    run = make_run(tmp_path / "mine")
    copy = run / ".ipynb_checkpoints" / "06_replay-checkpoint.ipynb"
    copy.parent.mkdir()
    cell = {"cell_type": "code", "source": ["1"], "execution_count": None, "metadata": {}, "outputs": []}
    write_json(copy, {"cells": [cell], "nbformat": 4})
    kept = keep_run(run, tmp_path / "reference")
    assert (kept / "04_eval").is_dir() and not (kept / copy.parent.name).exists()


def test_an_unfinished_run_is_not_kept(tmp_path):
    run = make_run(tmp_path / "mine")
    write_json(run / "04_eval" / "status.json", {"status": "running"})
    with pytest.raises(ValueError, match="04_eval"):
        keep_run(run, tmp_path / "reference")
    assert not (tmp_path / "reference").exists()


def test_the_readme_says_what_the_reference_runs_say():
    check_readme(ROOT / "README.md", ROOT / "results" / "reference")
