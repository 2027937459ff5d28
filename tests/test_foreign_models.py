"""Models that were not trained here: a folder from anywhere is played through the strict harness."""

import shutil
from collections import Counter

import pytest
import torch
from conftest import example

from wordlelib import data, evaluate, models, params, players, runs
from wordlelib.__main__ import main
from wordlelib.rules import rules_for
from wordlelib.words import split_secrets

EVAL = ("--max-games", "2", "--set", "max_completion_length=8")


@pytest.fixture(scope="module")
def rules(shipped):
    return rules_for(shipped)


@pytest.fixture
def folder(tmp_path, rules):
    """A model as a download from the hub leaves it."""
    tokenizer = models.nano_tokenizer(rules)
    models.save(models.nano_model(tokenizer, 1), tokenizer, tmp_path / "downloaded")
    return tmp_path / "downloaded"


@pytest.fixture
def adapter(tmp_path, folder):
    """An adapter of that model, trained a little, without a tokenizer of its own."""
    base, _ = models.load(folder, rules=models_rules(folder))
    base.name_or_path = str(folder)
    adapted = models.attach_adapter(base, 8)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    adapted.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def models_rules(folder):
    return players.saved_game(str(folder))[1]


def test_a_folder_is_played_beside_both_references_and_a_finished_one_is_kept(folder, tmp_path, capfd):
    out = tmp_path / "out"
    command = ["eval", "--model", str(folder), "--out", str(out), *EVAL]
    assert main(command) == 0
    shown = capfd.readouterr().out
    assert shown.count("All secrets:") == 1, "the table stands once"
    config = runs.read_yaml(out / "04_eval" / "config.yaml")
    assert (config["model"], config["data_from"], config["temperature"]) == (str(folder), "shipped", 0.0)
    games = evaluate.by_player(evaluate.read_games(out / "04_eval" / "games.jsonl"))
    assert [len(own) for own in games.values()] == [2, 2, 2]
    assert list(games) == ["model", "random_consistent", "greedy"]
    metrics = runs.read_json(out / "04_eval" / "metrics.json")
    turns = sum(game["n_guesses"] for game in games["model"])
    assert 0 < metrics["model/completion_tokens_per_game"] <= 8 * turns / 2
    assert "greedy/completion_tokens_per_game" not in metrics
    # what was finished is shown again; what was stopped goes on
    assert main(command) == 0 and "kept" in capfd.readouterr().out
    (out / "04_eval" / "log.jsonl").unlink()  # stopped in the first player
    runs.write_json(out / "04_eval" / "status.json", {"status": "running"})
    assert main(command) == 0 and "model: won" in capfd.readouterr().out
    other = shutil.copytree(folder, tmp_path / "other")
    assert main(["eval", "--model", str(other), "--out", str(out), *EVAL]) == 2
    assert "was made with model=" in capfd.readouterr().err


def test_an_adapter_without_a_tokenizer_takes_that_of_its_base(adapter, small_rules, small_solver, tmp_path):
    """Its answers are those of base and adapter, whose tokens are counted; they are not those of the base."""
    models.require_model(adapter, small_rules)
    given = example("04_eval", players=["model"], model=str(adapter), max_completion_length=8)
    config = runs.SimpleNamespace(**params.resolve("04_eval", given))
    tokens = Counter()
    run = runs.Run("04_eval", config, tmp_path, False)
    player = players.run_player("model", run, small_solver, config, {}, tokens)
    texts = player([(), ()], [0, 1])
    own = players.saved_player(str(adapter), small_rules, 8)([()], [0])
    assert texts == own * 2 and tokens["completion_tokens"] in range(2, 17)
    assert texts[0] != players.saved_player(str(adapter.parent / "downloaded"), small_rules, 8)([()], [0])[0]


def test_a_model_that_brings_its_data_card_is_asked_as_it_was_trained(folder, small_words, tmp_path):
    """As exports do; a card in the run that a folder lies in counts as well, and none is none."""
    assert data.card_of(folder) is None
    rules = rules_for(small_words, renderer="symbols")
    split = split_secrets(small_words, test=8, val=4)
    data.build(folder, rules, split, source={"sample": 64}, rows=2, states=2)
    assert data.card_of(folder) == folder
    assert data.load_for(None, str(folder)).rules == rules == models_rules(folder)
    stage = tmp_path / "run" / data.STAGE
    stage.mkdir(parents=True)
    shutil.copy(folder / data.CARD, stage)
    assert data.card_of(tmp_path / "run" / "02_sft" / "model") == stage


def without(*names):
    def spoil(folder):
        for name in names:
            (folder / name).unlink()

    return spoil


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (shutil.rmtree, "is no folder: name one with config.json"),
        (without("config.json"), "holds neither config.json nor adapter_config.json"),
        (without("model.safetensors"), "has config.json but no weights"),
        (without("tokenizer.json", "tokenizer_config.json"), "has no way to write 'a'"),
        (without("chat_template.jinja"), "has no chat template"),
        (lambda folder: (folder / "adapter_config.json").write_text("{}"), "has adapter_config.json but no"),
    ],
)
def test_a_folder_that_is_no_model_is_one_sentence_before_anything_is_made(
    folder, tmp_path, capsys, spoil, sentence
):
    spoil(folder)
    out = tmp_path / "out"
    assert main(["eval", "--model", str(folder), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1, error
    assert not out.exists()


def test_the_player_names_one_model():
    for changes in ({"model": ""}, {"players": ["model", "endpoint"], "endpoint": "http://x"}):
        with pytest.raises(ValueError, match="the player model needs model"):
            params.resolve("04_eval", example("04_eval", **{"players": ["model"], "model": "x"} | changes))
    given = example("04_eval", players=["model"], model="x", data_from="shipped")
    assert params.inputs("04_eval", params.resolve("04_eval", given)) == {}
