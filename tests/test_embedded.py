"""The embedded student: installed from a run, it plays wherever the package is, on any CPU."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from conftest import ROOT, finish
from safetensors import safe_open

from wordlelib import bench, data, duel, evaluate, export, models, players, runs
from wordlelib.__main__ import main
from wordlelib.rules import rules_for
from wordlelib.words import sample_words, split_secrets


def make_run(folder, shape="nano", **lists):
    """A run whose SFT stage ended with fresh weights."""
    words = data.game_words(**lists)
    rules = rules_for(words, renderer="symbols")
    stage = folder / "01_data_synthesis"
    data.build(stage, rules, split_secrets(words, test=8, val=4), source=lists, rows=60, states=20)
    finish(stage, {}, rules, [])
    sft = {"model": shape, "adapter": "none", "run": "results/trained"}
    finish(folder / "02_sft", sft, rules, ["01_data_synthesis"], steps=3, minutes=0.5)
    tokenizer = models.nano_tokenizer(rules)
    models.save(models.nano_model(tokenizer, 0, shape), tokenizer, folder / "02_sft" / "model")
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout without a student, and a run of its own."""
    root = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", models.EMBEDDED)
    for name in ("wordlelib", "notebooks"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    make_run(root / "results" / "trained", sample=40)
    return root


@pytest.fixture(scope="module")
def wordle(checkout):
    """Runs a command in the checkout: its exit code, output and errors."""

    def command(*words):
        own = os.environ | {"PYTHONPATH": str(checkout)}
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=checkout, env=own, capture_output=True, text=True
        )
        return done.returncode, done.stdout, done.stderr

    return command


@pytest.fixture(scope="module")
def installed(checkout, wordle):
    """The student of the checkout."""
    code, said, failed = wordle(
        *("wordlelib", "export", "--run", "results/trained", "--stage", "02_sft", "--to", "embedded")
    )
    assert code == 0 and "wordlelib/embedded: 0." in said, failed
    return checkout / "wordlelib" / "embedded"


def test_without_a_student_a_sentence_says_how_to_get_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "EMBEDDED_FOLDER", tmp_path / "embedded")
    for command in (["eval", "--player", "embedded"], ["play", "--model", "embedded", "--secret", "those"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "export --run RUN --to embedded" in said
    assert duel.STUDENT not in duel.setting()[2]


def test_the_installed_folder_is_small_whole_and_names_no_path(installed, checkout):
    names = {path.name for path in installed.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "card.json", "README.md"} <= names
    with safe_open(installed / "model.safetensors", "pt") as weights:
        assert {weights.get_tensor(name).dtype for name in weights.keys()} == {torch.bfloat16}  # noqa: SIM118
    assert data.load(installed).rules.renderer == "symbols"
    assert not [path for path in installed.iterdir() if str(checkout).encode() in path.read_bytes()]


def test_it_is_evaluated_replayed_and_played_against_in_a_checkout(installed, checkout, wordle):
    """By the commands and notebooks as they are, in a kernel of their own."""
    code, said, failed = wordle("wordlelib", "eval", "--player", "embedded", "--max-games", "5")
    assert code == 0, failed
    stage = checkout / "results" / "embedded" / "04_eval"
    metrics = runs.read_json(stage / "metrics.json")
    assert metrics["embedded/all/games"] == metrics["greedy/all/games"] == 5
    lines = (stage / "games.jsonl").read_text().splitlines()
    assert {json.loads(line)["player"] for line in lines} == {"embedded", "greedy", "random_consistent"}
    assert "embedded" in said and "results/embedded" in said

    again = wordle("wordlelib", "eval", "--player", "embedded", "--max-games", "5")
    assert again[0] == 0 and "kept" in again[1]  # a finished evaluation is not played twice

    secret = data.load(installed).words.answers[0]
    code, said, _ = wordle("wordlelib", "play", "--model", "embedded", "--secret", secret)
    assert code == 0 and ("lost" in said or "won" in said)
    for name, values in (
        ("00_play_and_solve", ["-p", "model", "embedded", "-p", "secret", secret]),
        ("06_replay", ["-p", "run", "results/embedded", "-p", "player", "embedded"]),
    ):
        code, _, failed = wordle("papermill", f"notebooks/{name}.ipynb", f"{name}.ipynb", *values)
        assert code == 0, failed
        runs.require_complete_notebook(checkout / f"{name}.ipynb")


def test_it_plays_a_duel_beside_a_loaded_model(installed, monkeypatch):
    """On its own words only; it is loaded when it first plays, and asked as it was trained."""
    monkeypatch.setattr(models, "EMBEDDED_FOLDER", installed)
    assert duel.STUDENT not in duel.setting()[2]
    source = data.load(installed)
    monkeypatch.setattr(duel, "load_words", lambda *lists: source.words)
    loads = []
    load = models.load
    monkeypatch.setattr(models, "load", lambda name, rules, *more: loads.append(name) or load(name, rules))
    words, rules, opponents = duel.setting(hard_mode=True)
    assert list(opponents) == [duel.STUDENT] and rules.renderer != source.rules.renderer and not loads
    game = duel.Duel(words, rules, opponents, words.answers[0])
    assert game.guess(words.answers[1]) and game.guess(words.answers[0]) and len(loads) == 1
    assert len(game.games[duel.STUDENT].history) == 6 and not game.failed
    asked = players.saved_player(models.EMBEDDED, source.rules)([()], [0])
    assert game.games[duel.STUDENT].history[0].text == asked[0]
    run = installed.parent.parent / "results" / "trained"
    _, _, both = duel.setting(model=str(run / "02_sft" / "model"))
    assert duel.STUDENT in both and len(both) == 2


def test_the_benchmark_times_all_its_games(installed, monkeypatch, tmp_path):
    monkeypatch.setattr(models, "EMBEDDED_FOLDER", installed)
    [line] = bench._student()
    assert line["name"] == "40 games of the embedded student" and line["measured"] > 0
    monkeypatch.setattr(models, "EMBEDDED_FOLDER", tmp_path / "nothing")
    assert list(bench._student()) == []


def test_another_game_is_refused_to_it(installed, monkeypatch, small_solver, tmp_path):
    from types import SimpleNamespace

    monkeypatch.setattr(models, "EMBEDDED_FOLDER", installed)
    config = SimpleNamespace(max_completion_length=8, temperature=0.0)
    with pytest.raises(ValueError, match="answers_sha256"):
        players.run_player("embedded", runs.Run("04_eval", config, tmp_path, False), small_solver, config, {})
    assert main(["eval", "--player", "embedded", "--run", str(tmp_path)]) == 2


@pytest.mark.skipif(not models.EMBEDDED_FOLDER.is_dir(), reason="no student is installed in this checkout")
def test_the_student_of_this_checkout_is_small_and_plays():
    assert sum(path.stat().st_size for path in models.EMBEDDED_FOLDER.iterdir()) <= export.EMBEDDED_BYTES
    source = data.load(models.EMBEDDED_FOLDER)
    player = players.saved_player(models.EMBEDDED, source.rules)
    games = evaluate.play_games(player, source.split.test[:20], source.words, source.rules, name="embedded")
    assert sum(game["won"] for game in games) > 0  # one that was never trained wins none


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where a student is installed."""
    monkeypatch.setattr(models, "EMBEDDED_FOLDER", tmp_path / "embedded")
    monkeypatch.setattr(export, "WEIGHTS_COMPARED", 4)
    return tmp_path / "embedded"


def test_a_larger_nano_model_on_the_shipped_lists_fits(place, tmp_path):
    said = export.embedded(make_run(tmp_path / "run", "nano-large"), "02_sft")
    size = sum(path.stat().st_size for path in place.iterdir())
    assert 5e6 < size <= export.EMBEDDED_BYTES and f"{size / 1e6:.1f} MB" in said
    with pytest.raises(FileExistsError, match="--overwrite"):
        export.embedded(tmp_path / "run", "02_sft")


def test_what_others_could_not_carry_or_play_is_not_installed(place, tmp_path, monkeypatch, shipped):
    """Too large a model, and one that was trained on lists of one's own."""
    run = make_run(tmp_path / "run", sample=40)
    monkeypatch.setattr(export, "EMBEDDED_BYTES", 100_000)
    with pytest.raises(ValueError, match="student may take"):
        export.embedded(run, "02_sft")
    own = tmp_path / "own.txt"
    own.write_text("\n".join(sample_words(shipped, 40, 3).answers))
    with pytest.raises(ValueError, match="own list of answers"):
        export.embedded(make_run(tmp_path / "other", answers=str(own)), "02_sft")
    assert not place.exists()


def test_greedy_decoding_answers_equal_prompts_once(small_rules):
    """Whatever their order; sampling asks each by itself."""
    tokenizer = models.nano_tokenizer(small_rules)
    model = models.nano_model(tokenizer)
    asked = []
    generate = model.generate
    model.generate = lambda **given: asked.append(len(given["input_ids"])) or generate(**given)
    rows = players.prompt_ids(tokenizer, [[{"role": "user", "content": text}] for text in "abab"])
    rows[3] += rows[0]
    once = players.transformers_generator(model, tokenizer, 5)(rows, [1, 2, 3, 4])
    assert asked == [3] and once[0] == once[2] and len(once) == 4
    alone = players.transformers_generator(model, tokenizer, 5, batch_size=1)(rows, [1, 2, 3, 4])
    assert alone == once
    players.transformers_generator(model, tokenizer, 5, temperature=1.0)(rows, [1, 2, 3, 4])
    assert asked[-1] == 4
