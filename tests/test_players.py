"""Solver policies as players: text as a model writes it, games that do not depend on their batch."""

import random
from types import SimpleNamespace

import pytest

from wordlelib import models, params, players, runs
from wordlelib.evaluate import history_of, play_games, summarise
from wordlelib.game import Turn, is_consistent, score
from wordlelib.players import MODEL_FOLDERS, run_player, solver_player
from wordlelib.prompts import is_well_formed, parse_guess
from wordlelib.rules import rules_for
from wordlelib.solver import POLICIES, Solver
from wordlelib.words import Words, sample_words


@pytest.fixture(scope="module")
def words(shipped) -> Words:
    return sample_words(shipped, 200, seed=3)


@pytest.fixture(scope="module")
def solver(words) -> Solver:
    return Solver(words, rules_for(words))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_answers_as_a_model_would(solver, policy):
    """One well-formed text a history, whose guess is the policy's choice."""
    history = (Turn("crane", score("crane", solver.words.answers[0])),)
    texts = solver_player(solver, policy)([(), history], [1, 2])
    assert len(texts) == 2 and all(is_well_formed(text) for text in texts)
    assert parse_guess(texts[1]).guess == POLICIES[policy](solver, history, random.Random("2/1"))


def test_an_unknown_policy_is_named():
    with pytest.raises(ValueError, match=r"no policy 'best'; the policies are greedy,"):
        solver_player(None, "best")


def test_one_seed_a_history_is_needed(solver):
    with pytest.raises(ValueError, match="zip"):
        solver_player(solver, "greedy")([(), ()], [1])


def test_random_consistent_games_repeat_and_do_not_depend_on_their_batch(solver, words):
    """The same run seed gives the same games, one by one or side by side; another seed others."""
    player = solver_player(solver, "random_consistent")
    options = {"name": "random_consistent", "seed": 4}
    games = play_games(player, words.answers, words, solver.rules, **options)
    assert games == play_games(player, words.answers, words, solver.rules, at_once=1, **options)
    assert games != play_games(player, words.answers, words, solver.rules, name="random_consistent", seed=5)


def test_random_consistent_guesses_are_consistent_and_differ_between_games(solver, words):
    """Share of invalid and inconsistent turns is 0; first guesses are drawn game by game."""
    player = solver_player(solver, "random_consistent")
    games = play_games(player, words.answers, words, solver.rules, name="random_consistent")
    summary = summarise(games)
    assert summary["invalid_share"] == summary["inconsistent_share"] == summary["repeat_share"] == 0
    assert len({game["turns"][0]["guess"] for game in games}) > 50
    for game in games:
        history = history_of(game)
        assert all(is_consistent(turn.guess, history[:n]) for n, turn in enumerate(history))


def test_greedy_wins_every_game_of_a_small_list(solver, words):
    """All 200 won, in fewer guesses than random-consistent play."""
    games = {
        name: play_games(solver_player(solver, name), words.answers, words, solver.rules, name=name)
        for name in ("greedy", "random_consistent")
    }
    greedy, random_consistent = map(summarise, games.values())
    assert greedy["win_rate"] == 1.0
    assert greedy["mean_guesses_loss7"] < random_consistent["mean_guesses_loss7"]


def test_a_player_whose_model_was_not_made_is_named_with_its_notebook(tmp_path):
    run = SimpleNamespace(stage="04_eval", input=lambda stage: tmp_path / stage)
    with pytest.raises(ValueError, match=r"'sft_continued' has no model in .* run notebook 03_grpo"):
        run_player("sft_continued", run, None, None, {})


def test_the_stages_that_a_player_is_said_to_read_are_those_with_its_start_and_its_model():
    for name, folder in MODEL_FOLDERS.items():
        assert set(params.PLAYER_INPUTS[name]) == {"02_sft", folder.partition("/")[0]}


class Engine:
    """Says what became of a vLLM engine."""

    def __init__(self, *asked):
        self.asked, self.stopped = asked, False
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=self.stop))

    def stop(self):
        self.stopped = True


@pytest.fixture
def evaluated(tmp_path, solver, monkeypatch):
    """The model folders of a run of chats, and a function that makes a player of it by name."""
    config = {"model": "org/m", "seed": 0, "adapter": "lora", "lora_rank": 8, "max_length": 100}
    folders = [tmp_path / folder for folder in MODEL_FOLDERS.values()]
    for folder in folders:
        folder.mkdir(parents=True)
    runs.write_text(tmp_path / "02_sft" / "config.yaml", "\n".join(f"{k}: {v}" for k, v in config.items()))
    monkeypatch.setattr(models, "load_engine", Engine)
    monkeypatch.setattr(models, "load_tokenizer", lambda *_: None)
    monkeypatch.setattr(models, "adapter_request", str)
    monkeypatch.setattr(players, "vllm_generator", lambda *_: None)
    run = SimpleNamespace(stage="04_eval", input=lambda stage: tmp_path / stage)
    own = SimpleNamespace(
        **{"backend": "vllm", "engine_memory": 0.5, "max_completion_length": 20, "temperature": 0.0},
        **{"batch_size": 4, "model": "org/theirs", "seed": 0},
    )
    chats = SimpleNamespace(rules=rules_for(solver.words, history="chat"))
    return folders, lambda name, engines: run_player(name, run, chats, own, engines)


def test_adapters_of_one_base_share_an_engine_that_holds_their_rank_and_the_longest_chat(evaluated):
    folders, play = evaluated
    for folder in folders:
        runs.write_json(folder / "adapter_config.json", {"base_model_name_or_path": "org/m", "r": 32})
    engines = {}
    for name in ("untrained", "sft", "grpo"):
        play(name, engines)
    assert [engine.asked for engine in engines.values()] == [("org/m", 32, 0.5, 100 + 6 * 20)]


def test_the_untrained_model_alone_is_told_the_form_of_an_answer(evaluated, monkeypatch):
    """What the others were taught: states in facts do not say it."""
    taught = {}
    monkeypatch.setattr(players, "model_player", lambda *_, taught: taught)
    for name in ("untrained", "sft", "grpo", "model"):
        taught[name] = evaluated[1](name, {})
    assert taught == {"untrained": False, "sft": True, "grpo": True, "model": True}


def test_a_model_player_tells_the_form_to_one_that_was_not_taught(shipped, monkeypatch):
    asked = []
    monkeypatch.setattr(players, "prompt_ids", lambda tokenizer, chats: asked.append(chats) or chats)
    tokenizer = SimpleNamespace(batch_decode=lambda ids, **_: ids)
    rules = rules_for(shipped, renderer="facts")
    for taught in (True, False):
        play = players.model_player(lambda ids, seeds: [""] * len(ids), tokenizer, rules, taught=taught)
        assert play([()], [0]) == [""]
    shown = ["Answer: " in chats[0][0]["content"] for chats in asked]
    assert shown == [False, True]


def test_a_model_of_elsewhere_has_an_engine_of_its_own_with_room_for_any_prompt(evaluated):
    engines = {}
    evaluated[1]("model", engines)
    assert [engine.asked for engine in engines.values()] == [("org/theirs", 0, 0.5, 2048 + 6 * 20)]


def test_an_adapter_of_another_base_than_the_run_starts_from_does_not_play(evaluated):
    folders, play = evaluated
    runs.write_json(folders[0] / "adapter_config.json", {"base_model_name_or_path": "org/large", "r": 8})
    with pytest.raises(ValueError, match=r"belongs to the base org/large, but its run starts from org/m"):
        play("sft", {})


def test_an_engine_of_other_weights_takes_the_place_of_one_that_a_player_still_holds(evaluated):
    """All weights were trained, so each player has a base of its own; the GPU has room for one."""
    _, play = evaluated
    engines = {}
    play("untrained", engines)
    first = engines["org/m"]
    play("sft", engines)
    assert first.stopped and [engine.stopped for engine in engines.values()] == [False]
