"""Export: model cards, merged weights that answer as the trained ones, GGUF, the hub; all without network."""

import hashlib
import json
import math
import shutil
import stat

import huggingface_hub
import pytest
import torch
import yaml
from conftest import ENDED, finish
from safetensors import SafetensorError

from wordlelib import adapters, data, export, models, players, runs, training
from wordlelib.__main__ import main
from wordlelib.rules import rules_for
from wordlelib.words import sample_words, split_secrets

TOKEN = "hf_planted0123456789"


@pytest.fixture(scope="module")
def source(shipped, tmp_path_factory):
    words = sample_words(shipped, 40, seed=1)
    rules = rules_for(words, renderer="symbols")
    folder = tmp_path_factory.mktemp("data")
    lists = {"sample": 40, "sample_seed": 1}
    data.build(folder, rules, split_secrets(words, test=8, val=4), source=lists, rows=150, states=40)
    return data.load(folder)


@pytest.fixture(scope="module")
def tokenizer(source):
    return models.nano_tokenizer(source.rules)


@pytest.fixture(scope="module")
def ten_prompts(source, tokenizer):
    return players.prompt_ids(tokenizer, [row["prompt"] for row in source.rows("states")[:10]])


@pytest.fixture
def adapted(source, tokenizer, tmp_path):
    """A nano base on disk with a LoRA adapter whose matrices are not zero."""
    base = tmp_path / "machine" / "tiny-base"
    models.save(models.nano_model(tokenizer), tokenizer, base)
    model = models.attach_adapter(models.load(base, source.rules)[0], rank=4).cpu()
    torch.manual_seed(0)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data.normal_(0, 0.3)
    return model


@pytest.fixture
def run(source, tokenizer, adapted, tmp_path, monkeypatch, project):
    """A finished run, trained by LoRA on a base in a local folder; few prompts are compared."""
    monkeypatch.setattr(export, "WEIGHTS_COMPARED", 4)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    folder, did = tmp_path / "run", {"steps": 3, "minutes": 0.5}
    shutil.copytree(source.folder, folder / "01_data_synthesis")
    finish(folder / "01_data_synthesis", {}, source.rules, [])
    base = str(tmp_path / "machine" / "tiny-base")
    sft = {"model": base, "adapter": "lora", "learning_rate": 0.01, "run": str(folder)}
    finish(folder / "02_sft", sft, source.rules, ["01_data_synthesis"], **did)
    finish(folder / "03_grpo", {"beta": 0.05}, source.rules, ["01_data_synthesis", "02_sft"], **did)
    for stage in ("02_sft", "03_grpo"):
        models.save(adapted, tokenizer, folder / stage / "model")
    return folder


def test_the_card_says_which_training_secrets_sft_did_not_see(source):
    apart = source.card | {"grpo_secrets": list(source.split.train[:5])}
    assert "28 to train, 4 to choose" in export._data(source.card)
    assert "28 to train (5 of them in GRPO alone), 4 to choose, 8 held out" in export._data(apart)


def files(folder) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def refused(capsys, run, *options: str) -> str:
    """The one sentence of an export that ends with 2 and leaves the run as it was."""
    before = files(run)
    assert main(["export", "--run", str(run), *options]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1 and not shown.out
    assert files(run) == before
    return shown.err


# The model card ----------------------------------------------------------------------------------


def front_matter(folder) -> dict:
    return yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])


def test_the_card_of_an_adapter_says_what_it_is_and_names_no_path(run, tmp_path):
    export.write_card(run / "03_grpo" / "model", run, "grpo")
    text = (run / "03_grpo" / "model" / "README.md").read_text()
    assert front_matter(run / "03_grpo" / "model") == {
        "base_model": "tiny-base",
        "library_name": "peft",
        "license": "other",
        "license_name": "that-of-the-base-model",
        "pipeline_tag": "text-generation",
        "tags": ["wordle", "trl", "grpo", "lora"],
    }
    assert str(tmp_path) not in text
    assert "| `learning_rate` | 0.01 |" in text and "| `beta` | 0.05 |" in text
    assert runs.read_json(run / "01_data_synthesis" / "card.json")["digest"] in text
    assert "28 to train, 4 to choose, 8 held out" in text and "Lexicon `full`" in text
    assert (
        "3 steps in 0.5 minutes on a CPU. These are the weights after the last step." in text
        and "Not evaluated yet." in text
    )
    assert "Guess 1:" in text and "</think><guess>" in text and "has seen such word lists" in text


@pytest.mark.parametrize(
    ("model", "base", "licence"),
    [("nano", None, "mit"), ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "other")],
)
def test_the_card_of_full_weights_names_the_base_of_the_hub(run, source, tmp_path, model, base, licence):
    finish(run / "02_sft", {"model": model}, source.rules, [], steps=1, minutes=1.0)
    export.write_card(tmp_path, run, "sft")
    front = front_matter(tmp_path)
    assert (front.get("base_model"), front["license"], front["library_name"]) == (
        base,
        licence,
        "transformers",
    )
    assert front["tags"] == ["wordle", "trl", "sft"]


def test_the_licence_of_a_local_base_is_that_of_its_card(run, tmp_path):
    (tmp_path / "machine" / "tiny-base" / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Base\n")
    export.write_card(run / "02_sft" / "model", run, "sft")
    assert front_matter(run / "02_sft" / "model")["license"] == "apache-2.0"


def test_the_card_says_when_the_best_validation_was_not_the_last(run):
    metrics = runs.read_json(run / "03_grpo" / "metrics.json")
    runs.write_json(run / "03_grpo" / "metrics.json", {**metrics, "best_step": 2})
    export.write_card(run / "03_grpo" / "model", run, "grpo")
    text = (run / "03_grpo" / "model" / "README.md").read_text()
    assert "after the last step, not those of the best validation (step 2)." in text


def test_the_card_says_that_rounds_of_corrections_followed_sft(run):
    metrics = runs.read_json(run / "02_sft" / "metrics.json")
    found = {"correct_minutes": 2.0, "correct_rows": 1234, "best_step": 1}
    runs.write_json(run / "02_sft" / "metrics.json", {**metrics, **found})
    export.write_card(run / "02_sft" / "model", run, "sft")
    text = (run / "02_sft" / "model" / "README.md").read_text()
    assert "Then 2.0 minutes of rounds on 1,234 wrong answers of its own" in text
    assert "after the last round." in text and "after the last step" not in text


def test_results_stand_in_the_card_only_when_these_weights_were_played(run, source):
    played = {
        "games": 8,
        "win_rate": 0.5,
        "win_rate_low": 0.2,
        "win_rate_high": 0.8,
        "mean_guesses_loss7": 5.5,
    }
    metrics = {f"{name}/heldout/{key}": value for name in ("grpo", "greedy") for key, value in played.items()}
    finish(run / "04_eval", {}, source.rules, ENDED, **metrics)
    folder = run / "03_grpo" / "model"
    export.write_card(folder, run, "grpo")
    row = "| {} | heldout | 8 | 50.0% | 20.0% to 80.0% | 5.50 |"
    text = (folder / "README.md").read_text()
    assert row.format("grpo") in text and row.format("greedy") in text and "Not evaluated" not in text
    record = runs.read_json(run / "03_grpo" / "status.json")
    runs.write_json(run / "03_grpo" / "status.json", {**record, "ended": "later"})
    export.write_card(folder, run, "grpo")
    assert "Not evaluated yet." in (folder / "README.md").read_text()


def test_training_saves_every_model_with_its_card(run, adapted, tokenizer):
    stage = runs.Run("03_grpo", None, run / "03_grpo", False)
    runs.write_json(stage.dir / "status.json", {"status": "running"})
    (stage.dir / "metrics.json").unlink()
    for player, place in players.MODEL_FOLDERS.items():
        training.save(adapted, tokenizer, stage, player)
        assert "# Wordle player: tiny-base after" in (run / place / "README.md").read_text()


# Comparing ---------------------------------------------------------------------------------------


def always(*answers: list[int]):
    return lambda ids, seeds: list(answers)


def test_answers_that_part_are_measured_at_the_first_other_token(adapted, ten_prompts):
    prompts = ten_prompts[:2]
    with torch.no_grad():
        logits = adapted(torch.tensor([[*prompts[1], 7]])).logits[0, -1].log_softmax(-1)
    found = export.answers_agree(always([5, 6], [7, 8, 9]), always([5, 6], [7, 10, 11]), prompts, adapted)
    assert (found.prompts, found.share) == (2, 0.5)
    assert found.gap == pytest.approx(abs(logits[8] - logits[10]).item(), abs=1e-5)
    assert str(found).startswith("1 of 2 greedy answers equal, the others part between tokens at most ")


def test_equal_answers_have_no_gap_and_one_that_only_stops_earlier_an_infinite_one(adapted, ten_prompts):
    same = export.answers_agree(always([5], [6]), always([5], [6]), ten_prompts[:2], adapted)
    assert same == (2, 1.0, 0.0) and str(same) == "2 of 2 greedy answers equal"
    assert export.answers_agree(always([5]), always([5, 6]), ten_prompts[:1], adapted).gap == math.inf


def test_a_comparison_leaves_a_model_in_training(adapted, ten_prompts):
    adapted.train()
    assert export.logits_difference(adapted, adapted, ten_prompts) == 0.0
    assert adapted.training


# Merged weights ----------------------------------------------------------------------------------


def logits(model, ids) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([model.eval()(torch.tensor([row])).logits[0] for row in ids]).float()


def test_case_40_a_merged_model_answers_ten_prompts_as_the_adapter_model(
    source, tokenizer, adapted, ten_prompts, tmp_path
):
    expected = logits(adapted, ten_prompts)
    found = export.merge(adapted, tokenizer, tmp_path / "merged", ten_prompts, dtype="float32")
    assert found.prompts == 10 and found.share == 1.0
    merged, _ = models.load(tmp_path / "merged", source.rules)
    assert torch.allclose(expected, logits(merged.cpu(), ten_prompts), atol=1e-4)
    assert torch.equal(expected, logits(adapted, ten_prompts)), "the adapter model was changed"
    assert "lora" not in json.dumps(list(merged.state_dict()))


def test_case_40_merged_weights_are_16_bit(tokenizer, adapted, ten_prompts, tmp_path):
    from safetensors.torch import load_file

    export.merge(adapted, tokenizer, tmp_path / "merged", ten_prompts)
    kinds = {value.dtype for value in load_file(tmp_path / "merged" / "model.safetensors").values()}
    assert kinds == {torch.bfloat16}


def forget(model) -> None:
    """As if the adapter had not been merged: the output is that of other weights."""
    model.model.layers[0].mlp.down_proj.weight.data.zero_()


def round_to_4_bits(model) -> None:
    for name, value in model.named_parameters():
        if "proj" in name:
            step = value.abs().max() / 7
            value.data = (value / step).round() * step


@pytest.mark.parametrize("spoil", [forget, round_to_4_bits])
def test_case_40_a_merge_that_differs_is_refused(
    tokenizer, adapted, ten_prompts, tmp_path, monkeypatch, spoil
):
    def save(model, tokenizer, folder, save=models.save):
        spoil(model)
        save(model, tokenizer, folder)

    monkeypatch.setattr(models, "save", save)
    with pytest.raises(ValueError, match=r"not the model that was trained.*keep the adapter"):
        export.merge(adapted, tokenizer, tmp_path / "merged", ten_prompts[:2])


def test_case_40_four_bit_weights_are_no_base_for_a_merge(tokenizer, adapted, ten_prompts, tmp_path):
    adapted.base_model.model.is_quantized = True
    with pytest.raises(ValueError, match="load the base in 16 bit"):
        export.merge(adapted, tokenizer, tmp_path / "merged", ten_prompts)
    assert not (tmp_path / "merged").exists()


def test_a_stage_is_exported_to_merged_weights_with_a_card(run, source, tmp_path, capsys):
    assert main(["export", "--run", str(run), "--to", "merged"]) == 0
    folder = run / "03_grpo" / "merged"
    assert "of 4 greedy answers equal" in capsys.readouterr().out
    models.load(folder, source.rules)
    text = (folder / "README.md").read_text()
    assert "Exported by" in text and "greedy answers equal" in text
    assert front_matter(folder)["library_name"] == "transformers"
    assert not list(run.glob("03_grpo/.*"))
    for path in folder.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes(), f"{path.name} names a path of this machine"


def test_an_exported_model_knows_its_game_wherever_its_folder_goes(run, source, tmp_path):
    """Asked in another form than it was trained in, it would play badly, and nobody would know why."""
    assert (
        main(["export", "--run", str(run), "--to", "merged", "--out", str(tmp_path / "given" / "away")]) == 0
    )
    shutil.rmtree(run)
    words, rules = players.saved_game(str(tmp_path / "given" / "away"))
    assert (words, rules) == (source.words, source.rules) and rules.renderer == "symbols"


def test_a_model_trained_without_a_file_of_rows_says_by_which_data_card_they_were_made(run, source):
    """A long training must not fail when it is saved because 01 has no rows any more."""
    (run / "01_data_synthesis" / "sft.jsonl").unlink()
    config = runs.read_yaml(run / "02_sft" / "config.yaml") | {"rows": "tasks"}
    (run / "02_sft" / "config.yaml").write_text(json.dumps(config))
    training.save(
        *models.load(run / "02_sft" / "model", source.rules),
        runs.Run("02_sft", None, run / "02_sft", False),
        "sft",
    )
    assert "<guess>" in (run / "02_sft" / "model" / "README.md").read_text()
    card = hashlib.sha256((run / "01_data_synthesis" / "card.json").read_bytes()).hexdigest()
    assert adapters.read_record(run / "02_sft" / "model")["data"] == card


def test_full_weights_are_exported_too(run, source, tokenizer):
    models.save(models.nano_model(tokenizer), tokenizer, run / "02_sft" / "model")
    assert main(["export", "--run", str(run), "--stage", "02_sft", "--to", "merged"]) == 0
    assert models.load(run / "02_sft" / "merged", source.rules)


def test_an_export_is_replaced_only_when_asked_and_other_folders_never(run, capsys):
    assert main(["export", "--run", str(run), "--to", "merged"]) == 0
    capsys.readouterr()
    assert "is there already: --overwrite replaces it" in refused(capsys, run, "--to", "merged")
    assert main(["export", "--run", str(run), "--to", "merged", "--overwrite"]) == 0
    capsys.readouterr()
    export.write_card(run / "03_grpo" / "model", run, "grpo")
    for foreign in (run / "03_grpo" / "model", run / "01_data_synthesis"):
        said = refused(capsys, run, "--to", "merged", "--overwrite", "--out", str(foreign))
        assert "holds what no export made" in said


def test_case_41_an_adapter_that_is_all_zero_is_not_exported(run, source, tokenizer, adapted, capsys):
    for name, value in adapted.named_parameters():
        if "lora_B" in name:
            value.data.zero_()
    models.save(adapted, tokenizer, run / "03_grpo" / "model")
    assert "the adapter is all zero" in refused(capsys, run, "--to", "merged")


def test_a_stage_that_is_missing_unfinished_or_of_older_data_is_named(run, capsys):
    record = runs.read_json(run / "03_grpo" / "status.json")
    older = {**record, "inputs": {"02_sft": "earlier"}}
    for state, said in (({"status": "running"}, "was left half-done"), (older, "from an earlier 02_sft")):
        runs.write_json(run / "03_grpo" / "status.json", state)
        assert said in refused(capsys, run, "--to", "merged")
    shutil.rmtree(run / "03_grpo")
    assert "03_grpo is not there: run notebook 03_grpo first" in refused(capsys, run, "--to", "merged")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("StorageFull")])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(run, capsys, monkeypatch, error):
    def full(model, folder, **options):
        folder.mkdir(exist_ok=True)
        (folder / "half").write_text("")
        raise error

    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", full)
    said = refused(capsys, run, "--to", "merged")
    assert "No space left" in said or "could not be written (StorageFull)" in said


def test_a_merge_that_differs_leaves_nothing_behind(run, capsys, monkeypatch):
    monkeypatch.setitem(export.TOLERANCES, "bfloat16", {"gap": -1.0, "logits": 0.0})
    assert "keep the adapter" in refused(capsys, run, "--to", "merged")


# GGUF --------------------------------------------------------------------------------------------

CONVERTER = """#!/usr/bin/env python3
import pathlib, sys
folder, flag, outfile, kind, outtype = sys.argv[1:]
assert (flag, kind) == ("--outfile", "--outtype")
assert (pathlib.Path(folder) / "model.safetensors").is_file()
if outtype == "bad":
    print("Traceback", file=sys.stderr)
    sys.exit("no such type: bad")
if outtype != "none":
    pathlib.Path(outfile).write_bytes(b"GGUF")
"""


@pytest.fixture
def llama(tmp_path):
    """A folder with a script that is called as llama.cpp's converter is."""
    path = tmp_path / "llama.cpp" / "convert_hf_to_gguf.py"
    path.parent.mkdir()
    path.write_text(CONVERTER)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path.parent


@pytest.mark.parametrize("where", ["LLAMA_CPP", "PATH"])
def test_the_converter_of_llama_cpp_makes_the_gguf(run, llama, capsys, monkeypatch, where):
    monkeypatch.setenv(where, str(llama), prepend=":" if where == "PATH" else None)
    assert main(["export", "--run", str(run), "--to", "gguf", "--outtype", "q8_0"]) == 0
    folder = run / "03_grpo" / "gguf"
    assert files(folder) == {"model-q8_0.gguf", "README.md"}
    assert front_matter(folder)["library_name"] == "gguf"
    assert "converted from weights for which" in capsys.readouterr().out


@pytest.mark.parametrize(("outtype", "said"), [("bad", "no such type: bad"), ("none", "it wrote no file")])
def test_a_converter_that_fails_is_quoted_and_leaves_nothing(run, llama, capsys, monkeypatch, outtype, said):
    monkeypatch.setenv("LLAMA_CPP", str(llama))
    error = refused(capsys, run, "--to", "gguf", "--outtype", outtype)
    assert f"convert_hf_to_gguf.py failed: {said}" in error


def test_without_a_converter_a_sentence_says_what_to_install(run, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    error = refused(capsys, run, "--to", "gguf")
    assert "git clone https://github.com/ggml-org/llama.cpp" in error and "LLAMA_CPP=" in error
    assert "pip install gguf sentencepiece" in error  # what it imports beyond this project's packages


# The hub -----------------------------------------------------------------------------------------


class FakeHub:
    """`HfApi` without a network: keeps what it was asked for, or fails with a text that holds the token."""

    calls, fails = None, False

    def __init__(self, token):
        self.token = token

    def create_repo(self, repo, **options):
        if self.fails:
            raise RuntimeError(f"401 for Bearer {self.token}")
        self.calls.append((repo, options))

    def upload_folder(self, **options):
        self.calls.append((self.token, options))


@pytest.fixture
def fake_hub(monkeypatch):
    monkeypatch.setattr(FakeHub, "calls", [])
    monkeypatch.setattr(FakeHub, "fails", False)
    monkeypatch.setattr(huggingface_hub, "HfApi", FakeHub)
    return FakeHub


PUSH = ("--to", "hub", "--repo", "user/name")


@pytest.fixture
def public(run, source, tokenizer):
    """The run, as if its base was one of the hub."""
    config = run / "03_grpo" / "model" / "adapter_config.json"
    runs.write_json(config, {**runs.read_json(config), "base_model_name_or_path": "Qwen/Qwen2.5-0.5B"})
    return run


@pytest.mark.parametrize("written", ["", "# mine\nexport HF_TOKEN = '{}' # of a friend\n", "HF_TOKEN={}\n"])
def test_a_push_takes_the_token_of_the_environment_or_env_file(
    public, fake_hub, project, monkeypatch, capsys, written
):
    if written:
        (project / ".env").write_text(written.format(TOKEN))
    else:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert main(["export", "--run", str(public), *PUSH]) == 0
    created, (token, pushed) = fake_hub.calls
    assert created == ("user/name", {"private": True, "exist_ok": True})
    assert token == TOKEN and pushed["repo_id"] == "user/name"
    assert pushed["folder_path"] == public / "03_grpo" / "model"
    shown = capsys.readouterr()
    assert "is pushed to user/name" in shown.out
    assert TOKEN not in shown.out + shown.err
    for path in public.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes(), path.name


def test_a_push_without_a_token_or_a_name_is_refused(public, fake_hub, project, monkeypatch, capsys):
    (project / ".env").write_text("# HF_TOKEN=no\nOTHER=x\nHF_TOKEN=\n")
    assert "no HF_TOKEN" in refused(capsys, public, *PUSH)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name in ("", "name", "a/b/c"):
        assert "name the repository as user/name" in refused(capsys, public, "--to", "hub", "--repo", name)
    assert not fake_hub.calls


def test_a_push_that_fails_never_shows_the_token(public, fake_hub, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(fake_hub, "fails", True)
    export.write_card(public / "03_grpo" / "model", public, "grpo")
    error = refused(capsys, public, *PUSH)
    assert "nothing was pushed to user/name: RuntimeError: 401 for Bearer …" in error and TOKEN not in error
    with pytest.raises(ConnectionError) as caught:
        export.hub(public, repo="user/name")
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_an_adapter_on_a_local_base_is_not_pushed_but_its_merged_weights_are(
    run, fake_hub, monkeypatch, capsys
):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    error = refused(capsys, run, *PUSH)
    assert "base tiny-base is a folder of this machine" in error and "--to merged" in error
    out = str(run / "03_grpo" / "merged")
    assert "is no folder" in refused(capsys, run, *PUSH, "--out", out)
    assert main(["export", "--run", str(run), "--to", "merged"]) == 0
    assert main(["export", "--run", str(run), *PUSH, "--out", out]) == 0
    assert str(fake_hub.calls[-1][1]["folder_path"]) == out
