"""Ablations: every trial against the reference of its seed; failures, warnings and commands are shown."""

import json
from dataclasses import replace

import pytest
from conftest import LOSS, NAMES, ROOT, RULES, game, write_sweep_table

from wordlelib import ablations, inference, page, reference, report, runs, sweep_results, trials
from wordlelib.__main__ import main
from wordlelib.evaluate import flat_metrics, write_games
from wordlelib.words import Split

SPLIT = Split(train=(), val=(), test=NAMES)
HALF, LESS = NAMES[: len(NAMES) // 2], NAMES[:-1]


def played(player, wins, rules, favourite="slate"):
    """One game a secret: won in the second guess, or lost by the favourite word again and again."""
    first = {secret: next(word for word in LOSS if word != secret) for secret in NAMES}
    return [
        game(secret, first[secret], secret, player=player, rules=rules.digest)
        if secret in wins
        else game(secret, *[favourite if favourite != secret else first[secret]] * 6, player=player)
        | {"rules": rules.digest}
        for secret in NAMES
    ]


def trial(folder, name, wins, rules=RULES, players=("grpo",), warned=()):
    """A trial as its notebooks leave it. `warned`: steps whose groups had no spread."""
    for stage, config in (("03_grpo", {"seed": 0}), ("04_eval", {"seed": 0, "secrets": "heldout"})):
        (folder / name / stage).mkdir(parents=True)
        text = json.dumps({**config, "rules": rules.to_dict()})
        (folder / name / stage / "config.yaml").write_text(text)
        runs.write_json(folder / name / stage / "status.json", {"status": "done"})
    log = [{"step": s, "reward": 1.0, "frac_reward_zero_std": 0.9 * (s in warned)} for s in range(1, 11)]
    (folder / name / "03_grpo" / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    made = [record for player in players for record in played(player, wins, rules)]
    write_games(folder / name / "04_eval" / "games.jsonl", made)
    metrics = {**flat_metrics(made, SPLIT), "rules": rules.digest}
    runs.write_json(folder / name / "04_eval" / "metrics.json", metrics)


def row(name, preset="ours", seed=0, status="done", **more):
    columns = {"trial": name, "03_grpo.preset": preset, "03_grpo.seed": seed, "status": status}
    return columns | {"minutes": 2.0, "model_minutes": 1.5, "reference": "", **more}


@pytest.fixture
def swept(tmp_path):
    """A reference that wins all games, a preset that wins none with two seeds, one that wins all but one,
    and a trial that failed."""
    folder = tmp_path / "swept"
    trial(folder, "ours", NAMES, players=("sft", "grpo"))
    trial(folder, "ours-1", NAMES)
    trial(folder, "bad", (), warned=(3, 4, 7))
    trial(folder, "bad-1", ())
    trial(folder, "close", LESS)
    (folder / "lost" / "03_grpo").mkdir(parents=True)
    said = {"status": "failed", "error": "the gradient was NaN"}
    runs.write_json(folder / "lost" / "03_grpo" / "status.json", said)
    spread = {"grpo/all/win_rate": 0.5, "03_grpo/frac_reward_zero_std": 0.75}
    rows = [row("ours", reference="yes"), row("ours-1", seed=1, reference="yes"), row("bad", "binary")]
    rows += [row("bad-1", "binary", 1), row("close", "prime"), row("lost", "predibase", status="failed")]
    return write_sweep_table(folder, [own | spread for own in rows])


def by_row(section, start):
    [table] = [rows for caption, rows in section.tables.items() if caption.startswith(start)]
    return {next(iter(own.values())): own for own in table}


def test_every_trial_is_compared_with_the_reference_of_its_seed(swept):
    found = ablations.section(swept)
    n = len(NAMES)
    pairs = by_row(found, "Against the reference, p-values by Holm's method over 8 tests")
    assert list(pairs) == [
        "sft, seed 0",
        "bad, seed 0",
        "bad, seed 1",
        "close, seed 0",
    ]
    assert (pairs["sft, seed 0"]["wins"], pairs["sft, seed 0"]["decides"]) == (
        "+0.0% (+0.0% to +0.0%)",
        "nothing",
    )
    bad = pairs["bad, seed 1"]
    assert (bad["games"], bad["only second won"], bad["decides"]) == (str(n), str(n), "fewer wins")
    exact = inference.holm([1.0, 1.0, *[2 / 2**n] * 4, 1.0, 1.0])[2]
    assert bad["p (wins)"] == report.p_value(exact)
    close = pairs["close, seed 0"]
    assert (close["only second won"], close["decides"]) == ("1", "nothing") and int(close["games needed"]) > n
    assert f"bad wins fewer games than the reference with each of 2 seeds: {bad['wins']};" in found.text
    assert "close against the reference decides nothing" in found.text
    assert "sft, seed 0" in {name for line in found.figures["forest"].data for name in line.y}


def test_a_row_shows_what_it_gave_and_failures_stay(swept):
    gave = by_row(ablations.section(swept), "What each row gave")
    assert list(gave)[:3] == ["reference, seed 0", "sft, seed 0", "reference, seed 1"]
    bad, lost = gave["bad, seed 0"], gave["lost, seed 0"]
    assert bad["most frequent guess"] == "slate" and float(bad["its share"].rstrip("%")) > 80
    assert bad["warnings (first step)"] == "zero-spread (step 3; 3 of 10 steps)"
    assert (bad["zero spread"], bad["minutes"], bad["wins"].split()[0]) == ("75.0%", "1.5", "0.0%")
    assert gave["reference, seed 0"]["warnings (first step)"] == "none"
    assert lost["status"] == "failed in 03_grpo: the gradient was NaN" and lost["wins"] == "–"
    where = by_row(ablations.section(swept), "Where")
    assert [own["changes"] for own in where.values()][:4] == ["–", "–", "preset binary", "preset binary"]
    assert where["bad"]["folder"].endswith("swept/bad")
    assert where["bad"]["command"].startswith("python -m wordlelib run --recipe")


@pytest.mark.parametrize("name", ["preset=binary_seed=0", "sft"])
def test_a_row_whose_trial_has_no_name_of_its_own_is_named_by_what_it_changes(swept, name):
    """Such as one after all settings, its seed among them, which a row is not about, or that of a player."""
    rows = [own for own in sweep_results.read_table(swept) if own["trial"] in ("ours", "bad")]
    (swept / "bad").rename(swept / name)
    named = [own | {"trial": own["trial"].replace("bad", name)} for own in rows]
    table = write_sweep_table(swept, [{k: "" if v is None else v for k, v in own.items()} for own in named])
    assert list(by_row(ablations.section(table), "What each row gave"))[-1] == "preset binary, seed 0"


def test_one_seed_is_no_claim(swept):
    rows = [own for own in sweep_results.read_table(swept) if own["trial"] != "bad-1"]
    found = ablations.section(
        write_sweep_table(swept, [{k: "" if v is None else v for k, v in own.items()} for own in rows])
    )
    assert "bad wins fewer games than the reference with its one seed, which is no claim yet" in found.text


def test_without_a_reference_there_is_nothing_to_compare(swept):
    rows = [{k: v for k, v in own.items() if k != "reference"} for own in sweep_results.read_table(swept)]
    assert ablations.section(write_sweep_table(swept, rows)) is None


def test_a_reference_that_failed_leaves_the_table_and_no_comparison(swept):
    for name in ("ours", "ours-1"):
        runs.mark_failed(swept / name / "04_eval", "no memory")
    found = ablations.section(swept)
    assert not found.figures and "decides" not in found.text
    assert by_row(found, "What each row gave")["bad, seed 0"]["wins"].startswith("0.0%")


def test_trials_may_show_the_game_otherwise_but_not_play_another(swept):
    rows = [row("ours", reference="yes"), row("shown", "prime")]
    trial(swept, "shown", HALF, replace(RULES, renderer="symbols", history="chat", thinking="none"))
    assert "shown, seed 0" in by_row(ablations.section(write_sweep_table(swept, rows)), "Against")
    trial(swept, "other", HALF, replace(RULES, hard_mode=True))
    with pytest.raises(ValueError, match=r"swept/ours and .*swept/other: the rules differ in hard_mode"):
        ablations.section(write_sweep_table(swept, [*rows, row("other", "binary")]))


def test_the_report_of_a_sweep_shows_it_and_a_kept_sweep_gives_it_again(swept, tmp_path, capsys):
    assert main(["report", str(swept)]) == 0
    shown = capsys.readouterr().out
    assert "## Against the reference: swept" in shown and "forest.html" in shown
    assert "Effect on" not in shown and "setting_effects" not in shown  # one thing is changed at a time
    assert main(["report", "--markdown", str(swept)]) == 0
    assert "| bad, seed 0 | done |" in capsys.readouterr().out
    kept = reference.keep_sweep(swept, tmp_path / "reference")
    names = {path.name for path in (kept / "bad").rglob("*") if path.is_file()}
    assert names == {"config.yaml", "status.json", "metrics.json", "log.jsonl.gz", "games.jsonl.gz"}
    again, before = ablations.section(kept), ablations.section(swept)
    assert (again.text, list(again.tables.values())[:2]) == (before.text, list(before.tables.values())[:2])
    assert page.markdown(again).count("/reference/swept/") == 6
    assert (kept / "figures" / "forest.svg").is_file()


# Sweep files --------------------------------------------------------------------------------------


def test_a_sweep_marks_the_trials_of_its_reference(made, file, out):
    text = "recipe: tiny\nreference: {{03_grpo.beta: {}}}\ntrials:\n  - {{name: usual}}\n"
    text += "  - {{name: again, 03_grpo.seed: 1}}\n  - {{name: '5', 03_grpo.beta: 0.5}}\n"
    file.write_text(text.format(0.0))
    assert main(["sweep", str(file), "--out", str(out)]) == 0
    rows = sweep_results.read_table(out)
    assert [(own["trial"], own["reference"]) for own in rows] == [
        ("usual", "yes"),
        ("again", "yes"),
        ("5", None),
    ]
    assert (out / "usual" / "03_grpo").is_dir()
    file.write_text(text.format(0.7))
    with pytest.raises(ValueError, match=r"no trial is the reference \{'03_grpo.beta': 0.7\}: add one"):
        trials.read_sweep(file)


@pytest.mark.parametrize("name", ["a/b", "..", "shared", "figures", "x" * 81, 7])
def test_a_name_that_no_folder_of_a_trial_can_have_is_refused(tiny, file, name):
    file.write_text(f"recipe: tiny\ntrials: [{{name: {name}}}]\n")
    with pytest.raises(ValueError, match=f"trial 1 of 1: name is '?{name}'?; use up to 80 letters"):
        trials.read_sweep(file)


FILES = sorted((ROOT / "notebooks" / "recipes" / "sweeps").glob("ablation-*.yaml"))


def test_there_is_a_file_for_each_table():
    names = [path.stem.removeprefix("ablation-") for path in FILES]
    assert names == ["failures", "models", "nano", "prompts", "rewards"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_ablation_file_names_its_reference_and_plays_the_same_secrets_with_every_trial(path):
    found = trials.read_sweep(path)
    assert any(own.reference for own in found)
    evals = [own.stages["04_eval"] for own in found]
    assert len({(own["secrets"], own["max_games"], own["temperature"]) for own in evals}) == 1
    if path.stem != "ablation-nano":
        assert evals[0]["secrets"] == "heldout" and evals[0]["max_games"] == 0
        assert {own.stages["01_data_synthesis"]["test_secrets"] for own in found} == {500}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_row_that_makes_a_claim_has_two_seeds(path):
    """The row of a trial is all of its parameters but the seeds."""
    seeds = {}
    for own in trials.read_sweep(path):
        values = {k: v for k, v in own.settings.items() if k.partition(".")[2] not in trials.WITHIN_A_ROW}
        seeds.setdefault(json.dumps(values), []).append(own.name)
    single = [names[0] for names in seeds.values() if len(names) < 2]
    expected = {"ablation-nano": ["group-2", "game"]}
    expected["ablation-failures"] = ["ours-sft", "format_heavy-sft", "short_text-sft", "no_floor-sft"]
    assert single == expected.get(path.stem, [])


def test_the_kept_table_says_what_the_page_says_and_is_made_by_the_file_of_the_project():
    kept = ROOT / "results" / "reference" / "ablation-nano"
    page_text = (ROOT / "notebooks" / "ablations.md").read_text(encoding="utf-8")
    found = ablations.section(kept)
    claims = found.text.rpartition("\n\n")[2]
    assert claims.count("\n") == 4 and claims in page_text
    assert (kept / "sweep.yaml").read_text() == FILES[2].read_text()
    gave = by_row(found, "What each row gave")
    spread = [gave[f"{row}, seed 0"]["zero spread"] for row in ("binary", "group-2", "reference")]
    assert [f"{float(text.rstrip('%')):.0f}%" for text in spread] == ["56%", "42%", "5%"]
    assert gave["sft, seed 0"]["wins"].startswith("54.7%") and "54.7% of 256 games" in page_text
    assert (kept / "figures" / "forest.svg").is_file()
