"""The nano model, loading, saving and adapters."""

import json
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import models, params, players, prompts
from wordlelib.game import Game
from wordlelib.rules import rules_for
from wordlelib.words import Words, sample_words


@pytest.fixture(scope="module")
def game(shipped):
    words = sample_words(shipped, 40, seed=1)
    return words, rules_for(words, renderer="symbols")


@pytest.fixture(scope="module")
def tokenizer(game):
    return models.nano_tokenizer(game[1])


PROMPTS = [[5, 9, 12], [5, 30, 31, 32, 33]]


def logits(model) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        return torch.stack([model(torch.tensor([ids])).logits[0, -1] for ids in PROMPTS])


@pytest.mark.parametrize("renderer", ["words", "symbols", "both", "facts"])
def test_states_and_completions_survive_the_nano_tokenizer(game, renderer):
    words, _ = game
    rules = rules_for(words, renderer=renderer)
    tokenizer = models.nano_tokenizer(rules)
    play = Game(words, rules, words.answers[0])
    for guess in (words.answers[1], None, "zzzzz", words.answers[2]):
        play.play(guess, "ok" if guess else "no_tag")
    text = prompts.render_state(play.history, rules) + prompts.completion(words.answers[:3], words.answers[0])
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_token_id not in ids
    assert len(ids) < len(text) / 2  # pieces, not characters


def test_tokens_are_counted_as_the_template_makes_them(game, tokenizer, monkeypatch):
    """Batch by batch, with the start of an answer only where one is asked for."""
    monkeypatch.setattr(models, "COUNTED_AT_ONCE", 2)
    words, rules = game
    prompt = prompts.messages((), rules)
    answer = {"role": "assistant", "content": prompts.completion(words.answers[:2], words.answers[1])}
    chats = [prompt, [*prompt, answer], prompt]
    asked = len(players.prompt_ids(tokenizer, [prompt])[0])
    answered = asked + len(tokenizer(answer["content"])["input_ids"]) + 1  # the end token
    count = models.token_counter(tokenizer)
    assert count(chats) == [asked, answered, asked]
    assert count([]) == []


def test_another_process_counts_tokens_without_torch(game, tokenizer):
    """Each process that makes rows would else hold some 200 MiB more."""
    code = (
        "import pickle, sys; count, chats = pickle.load(sys.stdin.buffer); "
        "print(count(chats), 'torch' in sys.modules)"
    )
    chats = [prompts.messages((), game[1])]
    count = models.token_counter(tokenizer)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=pickle.dumps((count, chats)), capture_output=True, check=True)
    assert done.stdout.decode().split(maxsplit=1) == [str(count(chats)), "False\n"]


@given(st.text())
def test_any_text_encodes_to_known_ids(text):
    words = Words(("abc", "bca"), ("abc", "bca"))
    tokenizer = models.nano_tokenizer(rules_for(words))
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert all(0 <= i < len(tokenizer) for i in ids)
    if tokenizer.unk_token_id not in ids:
        assert tokenizer.decode(ids) == text


def test_the_nano_tokenizer_follows_length_and_alphabet():
    words = Words(("äöü", "üöä"), ("äöü", "üöä"))
    rules = rules_for(words, alphabet="äöü", turns=4)
    tokenizer = models.nano_tokenizer(rules)
    text = prompts.completion(["äöü"], "üöä")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.unk_token_id not in ids and tokenizer.decode(ids) == text


def test_the_nano_model_depends_on_its_seed_alone(tokenizer):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (models.nano_model(tokenizer, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected), "the caller's random state was moved"
    assert torch.equal(logits(first), logits(again))
    assert not torch.equal(logits(first), logits(other))


def test_there_is_a_larger_nano_model_that_is_no_larger_than_a_picture(shipped):
    """The names are those that parameters are checked against; in 16 bits it takes at most 8 MB."""
    assert tuple(models.NANO_SHAPES) == params.NANO_MODELS
    model, _ = models.load("nano-large", rules_for(shipped))
    small, _ = models.load("nano", rules_for(shipped))
    assert 10 * small.num_parameters() < model.num_parameters() < 4e6


def test_a_saved_model_loads_with_the_same_logits(game, tokenizer, tmp_path):
    model = models.nano_model(tokenizer)
    models.save(model, tokenizer, tmp_path / "model")
    loaded, its_tokenizer = models.load(tmp_path / "model", game[1])
    assert torch.allclose(logits(model), logits(loaded.cpu()))
    assert its_tokenizer.padding_side == "left"
    chat = [{"role": "user", "content": "Turn 1 of 6."}]
    assert players.prompt_ids(its_tokenizer, [chat]) == players.prompt_ids(tokenizer, [chat])


@pytest.mark.parametrize(("adapter", "dtype"), [("none", torch.float32), ("lora", torch.bfloat16)])
def test_weights_that_are_trained_are_not_rounded(adapter, dtype, game, tokenizer, tmp_path, monkeypatch):
    """On a GPU a frozen base is bfloat16, in which a small step of a weight would be lost."""
    models.save(models.nano_model(tokenizer), tokenizer, tmp_path / "model")
    monkeypatch.setattr(models, "device", lambda: "cuda")
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, *args, **options: self)  # there is no GPU here
    config = SimpleNamespace(backend="transformers", adapter=adapter, lora_rank=4, seed=0)
    model, _ = models.load_policy(tmp_path / "model", game[1], config)
    assert model.get_input_embeddings().weight.dtype == dtype
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}


def test_a_save_that_fails_leaves_the_older_model(tokenizer, tmp_path, monkeypatch):
    model = models.nano_model(tokenizer)
    folder = tmp_path / "model"
    models.save(model, tokenizer, folder)
    monkeypatch.setattr(
        tokenizer, "save_pretrained", lambda path: (_ for _ in ()).throw(OSError("full disk"))
    )
    with pytest.raises(OSError, match="full disk"):
        models.save(models.nano_model(tokenizer, 1), tokenizer, folder)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    kept, _ = models.load(folder, rules_for(Words(("abc",), ("abc",))))
    assert torch.allclose(logits(kept.cpu()), logits(model))


@pytest.mark.parametrize("name", ["./no/such/model", "/no/such/model", "results/a/model", "tests/typo"])
def test_a_missing_folder_is_named_and_not_asked_of_a_hub(game, name):
    with pytest.raises(FileNotFoundError, match="no such model folder"):
        models.load(name, game[1])


@pytest.fixture
def adapted(tokenizer, tmp_path):
    """A nano model on disk with a LoRA adapter, whose matrices are not trained yet."""
    base = models.nano_model(tokenizer)
    base.save_pretrained(tmp_path / "base")
    base = type(base).from_pretrained(tmp_path / "base")
    return models.attach_adapter(base, rank=4)


def train_adapter(model) -> None:
    torch.manual_seed(0)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data.normal_(0, 0.05)


def test_only_the_adapter_is_trained(adapted):
    trained = [name for name, value in adapted.named_parameters() if value.requires_grad]
    assert trained and all("lora_" in name for name in trained)


def test_case_41_base_adapter_and_reloaded_adapter_are_told_apart(game, tokenizer, adapted, tmp_path):
    with adapted.disable_adapter():
        base = logits(adapted)
    models.save(adapted, tokenizer, tmp_path / "untrained")
    with pytest.raises(ValueError, match="the adapter is all zero"):
        models.load(tmp_path / "untrained", game[1])
    train_adapter(adapted)
    in_memory = logits(adapted)
    models.save(adapted, tokenizer, tmp_path / "adapter")
    reloaded, _ = models.load(tmp_path / "adapter", game[1])
    assert not torch.allclose(base, in_memory, atol=1e-3)
    assert torch.allclose(in_memory, logits(reloaded.cpu()), atol=1e-5)


def test_an_adapter_is_refused_on_another_base_than_its_own(game, tokenizer, adapted, tmp_path):
    """The folder of the base is overwritten by a model of the same shape, as by another training."""
    train_adapter(adapted)
    models.save(adapted, tokenizer, tmp_path / "adapter")
    models.load(tmp_path / "adapter", game[1])
    base, _ = models.adapter_base(tmp_path / "adapter")
    models.save(models.nano_model(tokenizer, 99), tokenizer, base)
    with pytest.raises(ValueError, match="was trained on another model than the one that is now in"):
        models.load(tmp_path / "adapter", game[1])


def test_an_adapter_of_the_nano_model_brings_its_base_along(game, tokenizer, tmp_path):
    """Also when it is loaded, saved elsewhere, and the first folder is gone."""
    model = models.attach_adapter(models.nano_model(tokenizer, 3), rank=4)
    train_adapter(model)
    models.save(model, tokenizer, tmp_path / "one")
    again, _ = models.load(tmp_path / "one", game[1])
    models.save(again, tokenizer, tmp_path / "two")
    (tmp_path / "one").rename(tmp_path / "gone")
    last, _ = models.load(tmp_path / "two", game[1])
    assert torch.allclose(logits(model), logits(last.cpu()), atol=1e-5)


@pytest.mark.filterwarnings("ignore:Found missing adapter keys")
@pytest.mark.parametrize("change", [{"layers": 2}, {"layers": 5}, {"intermediate": 96}])
def test_an_adapter_that_does_not_fit_its_base_is_refused(game, tokenizer, tmp_path, monkeypatch, change):
    """One from elsewhere: peft would leave out matrices of missing layers and start new ones at zero."""
    models.save(models.nano_model(tokenizer), tokenizer, tmp_path / "base")
    adapted = models.attach_adapter(models.load(tmp_path / "base", game[1])[0], rank=4)
    train_adapter(adapted)
    for part in (adapted, tokenizer):
        part.save_pretrained(tmp_path / "adapter")
    models.load(tmp_path / "adapter", game[1])
    monkeypatch.setitem(models.NANO_SHAPES, "nano", models.NANO_SHAPES["nano"]._replace(**change))
    models.save(models.nano_model(tokenizer), tokenizer, tmp_path / "base")
    with pytest.raises(ValueError, match="was trained on another model than the one it now finds"):
        models.load(tmp_path / "adapter", game[1])


def describe_adapter(folder, base):
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base, "r": 8}))
    return folder


def test_a_run_refuses_an_adapter_of_another_base_than_the_one_it_starts_from(tmp_path):
    adapter = describe_adapter(tmp_path / "a", "org/small")
    continued = describe_adapter(tmp_path / "b", "org/small")
    own = describe_adapter(tmp_path / "c", None)
    (own / models.OWN_BASE).mkdir()
    models.require_base(adapter, "org/small")
    models.require_base(adapter, continued)
    models.require_base(adapter, tmp_path / "moved away since")
    models.require_base("org/other", "org/small")  # all weights: no adapter
    models.require_base(own, "nano")
    for folder, start in ((adapter, "org/large"), (adapter, "nano"), (own, "org/small"), (adapter, own)):
        with pytest.raises(ValueError, match=r"belongs to the base .*put the adapter of this run back"):
            models.require_base(folder, start)


def test_a_base_is_known_by_its_weights_wherever_its_folder_is(tmp_path):
    """A project that was cloned beside its first place has its base in another folder."""
    for place, weights in (("first", b"same"), ("second", b"same"), ("other", b"else")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "config.json").write_text("{}")
        (tmp_path / place / "model.safetensors").write_bytes(weights)
    adapter = describe_adapter(tmp_path / "a", str(tmp_path / "first"))
    models.require_base(adapter, tmp_path / "second")
    (tmp_path / "second" / "pytorch_model.bin").write_bytes(b"more")
    assert models.fingerprint(tmp_path / "first") != models.fingerprint(tmp_path / "second")
    (tmp_path / "second" / "pytorch_model.bin").unlink()
    with pytest.raises(ValueError, match=r"belongs to the base .*first, but its run starts from .*other"):
        models.require_base(adapter, tmp_path / "other")
    (tmp_path / "first").rename(tmp_path / "gone")
    assert models.described_adapter(adapter) == (str(tmp_path / "first"), 8), "it can still be listed"
    with pytest.raises(ValueError, match=r"belongs to the base .*second, but its run starts from .*a: put"):
        models.require_base(describe_adapter(tmp_path / "b", str(tmp_path / "second")), adapter)
    with pytest.raises(FileNotFoundError, match=r"the base .*first, which is not there: put it back"):
        models.require_base(adapter, tmp_path / "second")


# Backends ----------------------------------------------------------------------------------------


def test_case_38_unsloth_after_a_library_that_it_patches_is_refused(monkeypatch):
    monkeypatch.delitem(sys.modules, "unsloth", raising=False)
    with pytest.raises(RuntimeError, match="was imported before unsloth: restart the kernel"):
        models.use_backend("unsloth")  # transformers is imported by the other tests of this file


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
@pytest.mark.parametrize("backend", ["unsloth", "vllm"])
def test_case_43_a_gpu_backend_without_a_gpu_is_refused_in_one_sentence(monkeypatch, backend):
    for name in ("unsloth", "vllm", "trl", "transformers", "peft"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(
        RuntimeError, match=f"backend {backend} needs an NVIDIA GPU, and torch sees none: use"
    ):
        models.use_backend(backend)


def test_case_43_a_missing_gpu_package_is_named_with_the_extra(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(models, "_set_switches", lambda switches: None)
    monkeypatch.setitem(sys.modules, "vllm", None)  # what import then finds is nothing
    with pytest.raises(RuntimeError, match=r"backend vllm cannot be imported .*install the extra \[gpu\]"):
        models.use_backend("vllm")


def test_the_transformers_backend_needs_nothing():
    models.use_backend("transformers")


def test_the_policy_has_the_adapter_that_was_asked_for(game, tmp_path):
    """A new one on a model without, the saved one on a model that has it: never one on top."""
    settings = SimpleNamespace(backend="transformers", adapter="lora", lora_rank=4, max_length=64, seed=0)
    model, tokenizer = models.load_policy("nano", game[1], settings)
    assert model.peft_config["default"].r == 4
    train_adapter(model)
    models.save(model, tokenizer, tmp_path / "model")
    again, _ = models.load_policy(tmp_path / "model", game[1], settings)
    assert list(again.peft_config) == ["default"] and torch.equal(logits(again), logits(model))
    settings.adapter = "none"
    plain, _ = models.load_policy("nano", game[1], settings)
    assert not hasattr(plain, "peft_config")
    with pytest.raises(ValueError, match="holds an adapter, and adapter none trains all weights"):
        models.load_policy(tmp_path / "model", game[1], settings)


@pytest.mark.parametrize("adapter", ["none", "lora"])
def test_a_model_is_set_back_to_saved_weights(game, tmp_path, adapter):
    settings = SimpleNamespace(backend="transformers", adapter=adapter, lora_rank=4, max_length=64, seed=0)
    model, tokenizer = models.load_policy("nano", game[1], settings)
    if adapter == "lora":
        train_adapter(model)
    before = logits(model)
    models.save(model, tokenizer, tmp_path / "model")
    with torch.no_grad():
        for value in model.parameters():
            if value.requires_grad:
                value.add_(0.1)
    assert not torch.equal(logits(model), before)
    models.restore(model, tmp_path / "model")
    assert torch.equal(logits(model), before)


def test_an_adapter_names_its_base_and_rank(game, tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/m", "r": 8}))
    assert models.adapter_base(tmp_path) == ("org/m", 8)
    assert models.adapter_base("org/m") == ("org/m", 0)
    assert [models.engine_rank(rank) for rank in (1, 8, 9, 64, 65)] == [8, 8, 16, 64, 128]


@pytest.mark.parametrize("text", ["{}", "{", "[]"])
def test_a_damaged_adapter_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(ValueError, match="does not describe an adapter"):
        models.adapter_base(tmp_path)


def test_half_written_weights_are_refused_in_one_sentence(game, tokenizer, tmp_path):
    models.save(models.nano_model(tokenizer), tokenizer, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match="are not whole"):
        models.load(tmp_path / "model", game[1])


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "base/model.safetensors", "tokenizer.json"])
def test_a_half_written_adapter_is_refused_in_one_sentence(game, tokenizer, tmp_path, name):
    model = models.attach_adapter(models.nano_model(tokenizer), 4)
    train_adapter(model)
    models.save(model, tokenizer, tmp_path / "mödel one")
    file = tmp_path / "mödel one" / name
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"mödel one.* not whole .*train the stage again"):
        models.load(tmp_path / "mödel one", game[1])


def test_an_adapter_without_its_weights_is_refused_in_one_sentence(game, tokenizer, tmp_path):
    model = models.attach_adapter(models.nano_model(tokenizer), 4)
    models.save(model, tokenizer, tmp_path / "model")
    (tmp_path / "model" / "adapter_model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"holds no adapter_model\.safetensors"):
        models.load(tmp_path / "model", game[1])


def test_an_engine_that_does_not_start_names_the_parameter_to_change(monkeypatch):
    """vLLM fails with pages of text, or with none; a model that is not there is another matter."""
    raised = iter([RuntimeError("\nEngine failed.\nSee above."), RuntimeError(), OSError("no such model")])

    def start(**asked):
        raise next(raised)

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=start))
    for line in ("Engine failed.", "RuntimeError"):
        with pytest.raises(RuntimeError) as failed:
            models.load_engine("org/m", 8, 0.7, 400)
        assert f"did not start with engine_memory 0.7 ({line}): " in str(failed.value)
    with pytest.raises(OSError, match="no such model"):
        models.load_engine("org/m", 8, 0.7, 400)


@pytest.mark.parametrize(
    "visible, used, taken",
    [
        ("", ["1000, 80000", "57000, 80000"], ", 70% taken with the weights"),
        ("2,3", ["1000, 80000", "57000, 80000"], ", 70% taken with the weights"),
        ("", [None, None], ""),
        ("", ["[N/A], [N/A]", "[N/A], [N/A]"], ""),
    ],
)
def test_an_engine_says_what_it_asked_for_and_took(monkeypatch, capsys, visible, used, taken):
    """Of the card that it runs on, by nvidia-smi: an engine may be a process of its own."""
    asked = []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(models, "output_of", lambda *command: asked.append(command) or used[len(asked) - 1])
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=lambda **settings: "engine"))
    assert models.load_engine("org/m", 8, 0.7, 400) == "engine"
    assert capsys.readouterr().out == f"engine: 70% of the GPU's memory asked{taken}\n"
    assert {command[:3] for command in asked} == {("nvidia-smi", "-i", visible[:1] or "0")}


def test_adapters_get_numbers_of_their_own_that_vllm_can_hold(tmp_path, monkeypatch):
    """vLLM keeps them in 32 bits with a sign; one that does not fit ends its engine while it plays."""
    made = []
    requests = SimpleNamespace(LoRARequest=lambda name, number, path: made.append(number))
    monkeypatch.setitem(sys.modules, "vllm.lora.request", requests)
    for name in map(str, range(200)):
        (tmp_path / name).mkdir()
        models.adapter_request(tmp_path / name)
    assert len(set(made)) == 200 and all(0 < number < 2**31 for number in made)
