"""Tables of runs: what they show, and what they refuse."""

import json
import re
from dataclasses import replace

import pytest

from wordlelib.data import build
from wordlelib.evaluate import flat_metrics, play_games, read_games, write_games
from wordlelib.players import Failed
from wordlelib.prompts import completion
from wordlelib.report import markdown, rows_table, terminal_table
from wordlelib.rules import rules_for
from wordlelib.runs import write_json
from wordlelib.words import Split, Words

NAMES = ("abide", "cecum", "crane", "cynic", "geese", "label", "llama", "magma", "slate", "speed")
WORDS = Words(NAMES, NAMES)
RULES = rules_for(WORDS)
SPLIT = Split(train=NAMES[:6], val=NAMES[6:7], test=NAMES[7:])


def player(*guesses):
    texts = [completion([guess], guess) if guess else "" for guess in guesses]
    return lambda histories, seeds: [texts[len(history)] for history in histories]


PLAYED = {
    "greedy": player(*NAMES[:6]),
    "untrained": player(*[""] * 6),
    "sft": player(*NAMES[:3], "zzzzz", "zzzzz", "zzzzz"),
    "grpo": player(*NAMES[3:9]),
    "seven_turns": player(*NAMES[:7]),
}


def make_run(folder, rules=RULES, names=("greedy", "untrained", "sft", "grpo"), optimal=None):
    """A finished evaluation stage as its notebook leaves it."""
    stage = folder / "04_eval"
    stage.mkdir(parents=True)
    records = [r for name in names for r in play_games(PLAYED[name], NAMES, WORDS, rules, name=name)]
    (stage / "config.yaml").write_text(json.dumps({"seed": 0, "rules": rules.to_dict()}))
    write_games(stage / "games.jsonl", records)
    write_json(stage / "metrics.json", {**flat_metrics(records, SPLIT, optimal), "rules": rules.digest})
    write_json(stage / "status.json", {"status": "done"})
    return folder


def make_data(run):
    """The data stage of a run."""
    file = run.parent / "words.txt"
    file.write_text("\n".join(NAMES))
    source = {"answers": str(file), "allowed": "", "sample": 0}
    build(run / "01_data_synthesis", RULES, SPLIT, source=source, rows=2, states=2)


def table_rows(text, title):
    """The cells of the table under `title`, by player."""
    block = text.split(f"{title}:\n\n")[1].split("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in block.splitlines()]
    return {cells[0]: dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]}


def test_rows_stand_in_the_order_of_the_stages_with_every_number(tmp_path):
    """Wins with interval, guesses, malformed, non-words and inconsistent, for all and held-out secrets."""
    run = make_run(tmp_path / "run", optimal={"win_rate": 1.0, "mean_guesses_won": 3.4212})
    text = markdown([run])
    rows = table_rows(text, "All secrets")
    assert list(rows) == ["untrained", "sft", "grpo", "greedy", "optimal"]
    assert rows["sft"] == {
        "player": "sft",
        "games": "10",
        "wins": "30.0%",
        "95% interval": "10.8% to 60.3%",
        "guesses (won)": "2.00",
        "guesses (loss = 7)": "5.50",
        "above the best": "–",
        "bits forgone a turn": "–",
        "malformed": "0.0%",
        "non-words": "43.8%",
        "inconsistent": rows["sft"]["inconsistent"],
        "folder": str(run),
    }
    assert rows["untrained"]["malformed"] == "100.0%" and rows["untrained"]["guesses (won)"] == "–"
    assert rows["optimal"]["guesses (won)"] == "3.42" and rows["optimal"]["games"] == "–"
    heldout = table_rows(text, "Held-out secrets")
    assert list(heldout) == ["untrained", "sft", "grpo", "greedy"]
    assert heldout["grpo"]["games"] == "3" and heldout["sft"]["wins"] == "0.0%"


def test_the_terminal_table_holds_the_same_cells(tmp_path):
    """Columns are aligned, and every cell of the Markdown stands there too."""
    run = make_run(tmp_path / "run")
    text = terminal_table([run])
    lines = text.split("All secrets:\n\n")[1].split("\n\n")[0].splitlines()
    assert len({line.index(str(run)) for line in lines[1:]}) == 1
    for row in table_rows(markdown([run]), "All secrets").values():
        line = next(line for line in lines if line.startswith(row["player"]))
        assert all(cell in line for cell in row.values())


def test_paired_tests_are_shown_for_each_split_and_the_players_that_played(tmp_path):
    """grpo won six games (cynic to slate), sft three others: p = 0.508, and 1 of two tests by Holm's method;
    a p-value of 0.001 doubles."""
    run = make_run(tmp_path / "run")
    text = terminal_table([run])
    lines = [line for line in text.splitlines() if line.startswith("- grpo against")]
    assert len(lines) == 3 and "sft_continued" not in text
    assert "all secrets: won 6 games that sft lost, lost 3 it won: +30.0% (-30.0% to" in lines[0]
    assert ") (p = 1.000, exact McNemar); -0.60 (-3.00 to +2.00) guesses a game (p = 1.000" in lines[0]
    assert lines[0].endswith("wider than the 5 points asked about; about 2,824 games would see 5 points.")
    # held-out games are not known without a data card, nor what their guesses are worth
    assert "held-out secrets: won 2 games that sft lost, lost 0 it won: +66.7%" in lines[1]
    # without games, by the metrics
    path = run / "04_eval" / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"grpo/all/vs_sft_wins_p": 0.001}))
    (run / "04_eval" / "games.jsonl").unlink()
    text = terminal_table([run], difference=0.02)
    assert re.search(r"lost 3 it won: \+30.0% \(.*\) \(p = 0.002, exact McNemar\)", text)
    assert "Asked is whether wins differ by 2 points or more" in text


def test_grpo_is_paired_with_the_control_alone_where_sft_did_not_play(tmp_path, monkeypatch):
    """The name of the control begins with that of SFT, which must not make a test of SFT's."""
    monkeypatch.setitem(PLAYED, "sft_continued", PLAYED["sft"])
    text = markdown([make_run(tmp_path / "run", names=("sft_continued", "grpo"))])
    assert "grpo against sft_continued in" in text and "against sft in" not in text


def test_case_08_the_report_names_the_word_lists(tmp_path):
    """The digest and the hashes of both lists stand above every table."""
    text = markdown([make_run(tmp_path / "run")])
    for part in (
        RULES.digest,
        f"{RULES.answers_sha256[:8]} (answers)",
        f"{RULES.allowed_sha256[:8]} (allowed)",
    ):
        assert part in text


def test_case_10_the_report_lists_the_secrets(tmp_path):
    text = terminal_table([make_run(tmp_path / "run")])
    assert f"(10): {', '.join(NAMES)}." in text


def test_several_runs_share_a_table_and_rows_name_their_folders(tmp_path):
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two", names=["greedy"])
    text = terminal_table([one, two])
    assert text.split("Held-out")[0].count("greedy") == 2
    assert str(one) in text and str(two) in text


def test_regret_is_a_number_in_bits_and_in_guesses(tmp_path):
    """A mean of 5.5 guesses is 2 above a best possible 3.5, 20 in ten games; greedy play forgoes no bit."""
    run = make_run(tmp_path / "run", optimal={"games": 10, "win_rate": 1.0, "mean_guesses_loss7": 3.5})
    make_data(run)
    rows = table_rows(markdown([run]), "All secrets")
    assert rows["sft"]["above the best"] == "+2.00 (20)"
    forgone = {name: float(rows[name]["bits forgone a turn"]) for name in ("untrained", "sft")}
    assert forgone["untrained"] > forgone["sft"] > 0
    assert rows["optimal"]["bits forgone a turn"] == "–"
    heldout = table_rows(markdown([run]), "Held-out secrets")["sft"]
    assert heldout["above the best"] == "–" and float(heldout["bits forgone a turn"]) > 0


def test_best_possible_play_is_a_constant_shown_once_and_no_sample(tmp_path):
    """Neither games nor an interval nor a folder, however few games the players played."""
    best = {"games": 2315, "win_rate": 1.0, "win_rate_low": 1.0, "win_rate_high": 1.0}
    runs = [make_run(tmp_path / name, names=["greedy"], optimal=best) for name in ("one", "two")]
    text = markdown(runs)
    rows = table_rows(text, "All secrets")
    assert text.count("| optimal |") == 1 and list(rows)[-1] == "optimal"
    own = rows["optimal"]
    assert [own[name] for name in ("games", "95% interval", "folder")] == ["–"] * 3 and own[
        "wins"
    ] == "100.0%"
    assert "a known constant and no sample: best possible play over all 2,315 answers" in text
    assert "known constant" not in markdown([make_run(tmp_path / "three")])


def test_answers_that_were_cut_off_at_different_lengths_are_named(tmp_path):
    """Where models were asked: a solver's answers have no limit."""
    limits = {"one": 40, "two": 64, "three": 8}
    runs = [make_run(tmp_path / n, names=["greedy"] if n == "three" else ["greedy", "sft"]) for n in limits]
    for run, limit in zip(runs, limits.values(), strict=True):
        config = run / "04_eval" / "config.yaml"
        config.write_text(json.dumps({**json.loads(config.read_text()), "max_completion_length": limit}))
    assert f"in tokens: 40 in {runs[0]}, 64 in {runs[1]}. One that" in terminal_table(runs)
    assert "cut off" not in terminal_table([runs[0], runs[2]])


def test_a_teacher_that_favours_held_out_words_is_named(tmp_path):
    run = make_run(tmp_path / "run")
    make_data(run)
    assert "too good" not in markdown([run])
    card = run / "01_data_synthesis" / "card.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | {"ties": "non_secrets"}))
    assert "finds held-out secrets sooner than others, so their figures are too good" in markdown([run])


def test_trained_players_of_different_runs_are_paired_and_seeds_of_one_recipe_are_not(tmp_path):
    one = make_run(tmp_path / "one", names=["sft", "greedy"])
    two = make_run(tmp_path / "two", names=["grpo", "untrained"])
    assert "players of different runs" not in terminal_table([one, two]), "one recipe"
    config = two / "04_eval" / "config.yaml"
    config.write_text(json.dumps({**json.loads(config.read_text()), "temperature": 1.0}))
    other = json.loads((one / "04_eval" / "config.yaml").read_text())
    (one / "04_eval" / "config.yaml").write_text(json.dumps({**other, "temperature": 0.0}))
    text = markdown([one, two])
    caption = "All secrets, players of different runs, p-values by Holm's method over 2 tests"
    [row] = table_rows(text, caption).values()
    assert (row["first"], row["second"]) == (f"grpo in {two}", f"sft in {one}")
    assert (row["only first won"], row["only second won"], row["decides"]) == ("6", "3", "nothing")
    assert row["guesses"].startswith("-0.60 (") and int(row["games needed"].replace(",", "")) > 10
    assert f"sampled at different temperatures: 0 in {one}, 1 in {two}" in text
    assert "different temperatures" not in terminal_table([one])


def test_failed_games_of_a_server_stand_with_their_reasons(tmp_path):
    """Counted, shortened, without control characters, and no markup in Markdown."""
    said = [
        "HTTP 400: <b>no|" + "x" * 50 + " y" * 100,
        "HTTP 400: <b>no|" + "x" * 50 + " y" * 100,
        "late\x1b[2J",
    ]
    wrong = [Failed(said[k]) if k < 3 else "" for k in range(len(NAMES))]
    run = make_run(tmp_path / "run", names=[])
    games = play_games(lambda h, s: wrong[: len(h)], NAMES, WORDS, RULES, name="endpoint", at_once=10)
    write_games(run / "04_eval" / "games.jsonl", games)
    used = {"model": "m", "failed_games": 3, "requests": 9, "retries": 0, "seconds_per_game": 1.0}
    used |= {"prompt_tokens_per_game": 1, "completion_tokens_per_game": 1}
    metrics = flat_metrics(games, SPLIT) | {f"endpoint/{k}": v for k, v in used.items()}
    write_json(run / "04_eval" / "metrics.json", {**metrics, "rules": RULES.digest})
    rows = table_rows(markdown([run]), "Games of a server that failed, by the reason")
    text = terminal_table([run])
    assert "HTTP 400: <b>no|" in text and "late\\x1b[2J" in text and "\x1b" not in text
    part = markdown([run]).split("by the reason:")[1]
    assert "<b>" not in part and "&lt;b&gt;no\\|" in part and "| 2 |" in part and "| 1 |" in part
    assert len(rows) == 1 and max(map(len, part.splitlines())) < 300


def test_a_model_that_was_not_trained_here_is_named_with_what_is_unknown(tmp_path):
    run = make_run(tmp_path / "run", names=["greedy"])
    text = (run / "04_eval" / "games.jsonl").read_text().replace('"greedy"', '"model"')
    (run / "04_eval" / "games.jsonl").write_text(text)
    metrics = (run / "04_eval" / "metrics.json").read_text().replace('"greedy/', '"model/')
    (run / "04_eval" / "metrics.json").write_text(metrics)
    config = {"rules": RULES.to_dict(), "model": "models/theirs", "data_from": "shipped"}
    (run / "04_eval" / "config.yaml").write_text(json.dumps(config))
    assert "is models/theirs, which was not trained here: which secrets it" in terminal_table([run])


@pytest.mark.parametrize(("field", "value"), [("renderer", "symbols"), ("turns", 7), ("hard_mode", True)])
def test_runs_under_different_rules_are_not_mixed(tmp_path, field, value):
    one = make_run(tmp_path / "one", names=["untrained"])
    two = make_run(tmp_path / "two", replace(RULES, **{field: value}), names=["seven_turns"])
    with pytest.raises(ValueError, match=f"the rules differ in {field} "):
        terminal_table([one, two])


def test_no_run_at_all_is_refused():
    with pytest.raises(ValueError, match="name at least one"):
        terminal_table([])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("metrics.json", lambda text: text[:100], "metrics.json: not a whole JSON file"),
        ("metrics.json", lambda text: None, "metrics.json is missing"),
        ("metrics.json", lambda text: "[]", "metrics.json holds no metrics"),
        (
            "metrics.json",
            lambda text: text.replace('"sft/heldout/win_rate": 0.0', '"sft/heldout/win_rate": "<b>"'),
            "sft/heldout/win_rate is '<b>' and no number",
        ),
        (
            "metrics.json",
            lambda text: text.replace('"rules"', '"seconds/sft": NaN, "rules"'),
            "seconds/sft is nan and no number",
        ),
        ("games.jsonl", lambda text: "", "games.jsonl lacks the games of 'greedy'"),
        ("metrics.json", lambda text: text.replace(RULES.digest, "0" * 16), "was made under rules 0000"),
        ("metrics.json", lambda text: text.replace('"sft/all/games": 10', '"sft/all/games": 9'), "says 9"),
        ("games.jsonl", lambda text: text[:-30], r"games.jsonl, line 40: not JSON .* half written"),
        ("config.yaml", lambda text: "seed: 0", "config.yaml names no rules"),
        ("config.yaml", lambda text: None, "config.yaml is missing"),
        ("config.yaml", lambda text: text.replace('"words"', '"runes"'), "renderer is 'runes'"),
        ("status.json", lambda text: '{"status": "running"}', "half-done"),
        ("status.json", lambda text: None, "is not there: run notebook 04_eval first"),
    ],
)
def test_half_written_or_contradicting_files_are_refused_by_name(tmp_path, name, change, message):
    """One sentence names the file, whichever of them was cut short or does not belong."""
    run = make_run(tmp_path / "run")
    path = run / "04_eval" / name
    before = path.read_text()
    after = change(before)
    assert after != before
    path.unlink() if after is None else path.write_text(after)
    with pytest.raises(ValueError, match=message):
        markdown([run])


@pytest.mark.parametrize("kept", [0, 5])
def test_a_lost_game_with_turns_left_is_no_whole_game(tmp_path, kept):
    """It would count fewer guesses than a loss has."""
    run = make_run(tmp_path / "run", names=["untrained"])
    records = read_games(run / "04_eval" / "games.jsonl")
    records[3] |= {"turns": records[3]["turns"][:kept], "n_guesses": kept}
    write_games(run / "04_eval" / "games.jsonl", records)
    metrics = {**flat_metrics(records, SPLIT), "rules": RULES.digest}
    write_json(run / "04_eval" / "metrics.json", metrics)
    with pytest.raises(ValueError, match=f"'untrained' on 'cynic' has {kept} turns, and 6 would end it"):
        markdown([run])


def test_a_run_given_twice_is_refused(tmp_path):
    run = make_run(tmp_path / "run")
    with pytest.raises(ValueError, match="given twice"):
        markdown([run, tmp_path / "run" / ".." / "run"])


def test_metrics_of_a_part_that_its_games_contradict_are_refused(tmp_path):
    """With the split of the data card, those of held-out and of training secrets are checked as well."""
    run = make_run(tmp_path / "run")
    make_data(run)
    path = run / "04_eval" / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"grpo/heldout/win_rate": 0.99}))
    with pytest.raises(
        ValueError, match=r"gives grpo/heldout/win_rate = 0\.6.*, but metrics.json says 0\.99"
    ):
        markdown([run])


def test_a_kept_run_without_games_still_makes_a_table(tmp_path):
    """games.jsonl may be left out of a kept run for its size: the list of secrets goes, and the interval of
    guesses."""
    run = make_run(tmp_path / "run")
    full = markdown([run])
    (run / "04_eval" / "games.jsonl").unlink()
    assert markdown([run]) == full.split("\n\nSecrets of")[0].replace("-0.60 (-3.00 to +2.00)", "-0.60")


def test_preplayed_games_are_labelled_in_the_table(tmp_path):
    stage = tmp_path / "run" / "04_eval"
    stage.mkdir(parents=True)
    records = play_games(PLAYED["greedy"], NAMES, WORDS, RULES, name="greedy", preplayed=2)
    (stage / "config.yaml").write_text(json.dumps({"rules": RULES.to_dict()}))
    write_json(stage / "metrics.json", {**flat_metrics(records, SPLIT), "rules": RULES.digest})
    write_json(stage / "status.json", {"status": "done"})
    assert "greedy (pre-played turns)" in table_rows(markdown([tmp_path / "run"]), "All secrets")


def test_rows_become_a_table_whose_texts_are_not_markup():
    table = rows_table([{"text": "<think>x</think>", "total": 1.234}, {"text": "", "total": 0.0}])
    assert table.splitlines() == [
        "| text | total |",
        "| --- | --- |",
        "| `<think>x</think>` | 1.23 |",
        "|  | 0.00 |",
    ]
