"""What runs show: sections, the page that holds them, and what is refused."""

import csv
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import plotly.graph_objects as go
import pytest
from conftest import LOSS, NAMES, game

from wordlelib import __main__, analysis, data, findings, page, plots, report
from wordlelib.data import build
from wordlelib.evaluate import flat_metrics, write_games
from wordlelib.game import score
from wordlelib.players import FAILED
from wordlelib.rules import rules_for
from wordlelib.runs import write_json
from wordlelib.words import Split, Words

WORDS = Words(NAMES, NAMES)
RULES = rules_for(WORDS)
SPLIT = Split(train=NAMES[:6], val=NAMES[6:7], test=NAMES[7:])
HOSTILE = "<script>alert(1)</script>|</td>`x`"
WON = {"untrained": (), "sft": NAMES[:8], "grpo": NAMES[2:], "greedy": NAMES, "random_consistent": NAMES}


def games_of(player, won, **fields):
    """One game a secret; the text of every turn tries to break the page."""
    made = []
    for secret in NAMES:
        others = [word for word in (*LOSS, "geese", "llama") if word != secret][:5]
        guesses = (others[0], secret) if secret in won else (*others, None)
        made.append(game(secret, *guesses, player=player, **fields))
        for turn in made[-1]["turns"]:
            turn["text"] = f"<think>{HOSTILE} S L A T E</think>"
    return made


@pytest.fixture
def make_run(tmp_path):
    """Make a finished run of data and evaluation; players by name to the secrets they win."""

    def make(name="run", players=WON, split=SPLIT, seed=0, rules=RULES, **fields):
        folder = tmp_path / name
        (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in NAMES))
        source = {"answers": str(tmp_path / "words.txt"), "allowed": "", "sample": 0}
        stages = {"01_data_synthesis": {"seed": 0}, "02_sft": {"seed": seed}, "04_eval": {"seed": 0}}
        for stage, config in stages.items():
            (folder / stage).mkdir(parents=True)
            (folder / stage / "config.yaml").write_text(json.dumps({**config, "rules": rules.to_dict()}))
            write_json(folder / stage / "status.json", {"status": "done"})
        build(folder / "01_data_synthesis", rules, split, source=source, rows=2, states=2)
        made = [
            r for player, won in players.items() for r in games_of(player, won, rules=rules.digest, **fields)
        ]
        write_games(folder / "04_eval" / "games.jsonl", made)
        write_json(folder / "04_eval" / "metrics.json", {**flat_metrics(made, split), "rules": rules.digest})
        return folder

    return make


def rows_of(section, caption):
    return next(rows for title, rows in section.tables.items() if title.startswith(caption))


def test_every_section_has_rows_of_the_same_columns_and_figures_that_say_how_to_read_them(make_run):
    made = findings.sections(findings.Findings([make_run()]))
    assert list(made) == [
        *("protocol", "results", "comparisons", "endings", "turns", "statements", "secrets", "scoring_rules")
    ]
    for section in made.values():
        assert section.text and section.title
        for rows in section.tables.values():
            assert rows and len({tuple(row) for row in rows}) == 1
            assert all(isinstance(text, str) for row in rows for text in row.values())
        for figure in section.figures.values():
            assert len(plots.caption(figure)) > 40
            titles = [figure.layout.xaxis.title.text, figure.layout.yaxis.title.text]
            assert any(titles)


def test_training_and_held_out_secrets_are_reported_apart(make_run):
    made = findings.sections(findings.Findings([make_run()]))
    results = made["results"]
    assert [rows_of(results, title)[0]["games"] for title in ("All", "Training", "Held-out")] == [
        "12",
        "6",
        "5",
    ]
    [run] = made["protocol"].tables["Runs"]
    assert (run["training secrets"], run["validation"], run["held out"]) == ("6", "1", "5")
    sft = {title: rows_of(results, title)[1]["wins"] for title in ("Training", "Held-out")}
    assert sft["Training"].startswith("100.0%") and sft["Held-out"].startswith("20.0%")


def test_case_08_every_report_names_the_word_lists_and_the_rules(make_run, tmp_path):
    page.write([make_run()], tmp_path / "out")
    for name in ("report.html", "report.md"):
        text = (tmp_path / "out" / name).read_text()
        assert RULES.digest in text and WORDS.sha256["answers"][:8] in text


def test_pairs_are_tested_with_the_stated_correction_and_a_verdict(make_run):
    section = findings.sections(findings.Findings([make_run()]))["comparisons"]
    planned, others = "GRPO against its comparisons", "other pairs"
    assert list(section.tables) == [
        f"{part} secrets, {family}, p-values by Holm's method over {number} tests"
        for part in ("Held-out", "All")
        for family, number in ((planned, 2), (others, 4))
    ]
    [row] = rows_of(section, f"All secrets, {planned}")
    rest = [(row["first"], row["second"]) for row in rows_of(section, f"All secrets, {others}")]
    assert rest == [("sft", "random_consistent"), ("grpo", "random_consistent")]
    assert (row["first"], row["second"]) == ("grpo", "sft")
    assert (row["only first won"], row["only second won"], row["decides"]) == ("4", "2", "nothing")
    assert "grpo against sft decides nothing" in section.text or "grpo wins more" in section.text
    assert re.search(r"rule out 5 points; about [\d,]+ games would see 5 points\.", section.text)
    wide = findings.comparisons(findings.Findings([make_run("other")], difference=0.8))
    assert "games would see 80 points" in wide.text and "by 80 points or more" in wide.text


def test_a_comparison_has_one_p_value_whatever_else_stands_on_its_page(make_run):
    """In the table of the terminal, on the page of its run, and on one of two runs."""
    run = make_run("a", {**WON, "sft": (), "sft_continued": NAMES[:1]})
    other = make_run("b", {"sft": NAMES[:5], "grpo": NAMES[:9]}, seed=1)
    config = other / "02_sft" / "config.yaml"
    config.write_text(json.dumps({**json.loads(config.read_text()), "learning_rate": 1.0}))

    def shown(folders):
        section = findings.comparisons(findings.Findings(folders))
        rows = [row for title, own in section.tables.items() if title.startswith("All") for row in own]
        return {(row["first"], row["second"]): (row["p (wins)"], row["p (guesses)"]) for row in rows}

    one, both = shown([run]), shown([run, other])
    assert one["grpo", "sft"] == both["grpo in a", "sft in a"]
    assert one["sft", "random_consistent"] == both["sft in a", "random_consistent"]
    line = next(line for line in report.terminal_table([run]).splitlines() if "grpo against sft in" in line)
    assert tuple(re.findall(r"\((p [=<] [\d.]+), exact", line)) == one["grpo", "sft"]
    assert one["grpo", "sft"][0] != "p = 1.000"
    table = report.markdown([run, other]).split("All secrets, players of different runs")[1]
    [row] = [line for line in table.splitlines() if line.startswith(f"| grpo in {other} | sft in {run} |")]
    assert all(f"| {p} |" in row for p in both["grpo in b", "sft in a"])


def test_tables_keep_their_columns_when_the_games_of_one_run_are_all_short(make_run):
    runs = [make_run("short", {"sft": NAMES}), make_run("long", {"grpo": NAMES[:3]}, seed=1)]
    rows = rows_of(findings.endings(findings.Findings(runs)), "Games")
    assert [list(row) for row in rows] == [["player", *"123456X"]] * 2
    assert rows[0]["2"] == "12" and rows[1]["X"] == "9"


ENDS = {  # what lost a game, and its guesses: * says the secret and rejects it, None says nothing, ! failed
    "nothing, it was won": ("hatch", "*", "watch"),
    "failed requests": ("hatch", "*", "zzzzz", "!", "!", "!"),
    "secret rejected": ("hatch", "*", None, "zzzzz", None, None),
    "turns without a guess": ("hatch", "zzzzz", None, "catch", "patch", "match"),
    "non-words": ("hatch", "zzzzz", "catch", "catch", "patch", "match"),
    "against feedback": ("hatch", "catch", "catch", "patch", "match", "batch"),
    "only guesses that fit": ("hatch", "catch", "patch", "match", "batch", "latch"),
}
LOSSES = tuple(ENDS)[1:]


def ended(*guesses, rule="ok", **fields):
    """A game on `watch` by guesses as in ENDS; rule: what the game said of the words that are no `zzzzz`."""
    record = game("watch", *(None if word in ("*", "!") else word for word in guesses), **fields)
    for word, turn in zip(guesses, record["turns"], strict=True):
        turn["text"] = "<think>W A T C H no; C A T C H</think>" if word == "*" else "<think>C A T C H</think>"
        if word == "!":
            turn["reason"] = FAILED
        elif turn["guess"] and word != "zzzzz":
            turn |= {"rule": rule, "feedback": score(word, "watch") if rule == "ok" else None}
    return record


def losses(*records):
    """The row of lost games by its causes."""
    measured = analysis.measure(analysis.from_records(records)["sft"])
    found = SimpleNamespace(measured={"sft": measured}, records=lambda label: records)
    row = findings._loss_row(found, "sft")
    assert list(row) == ["player", "lost", *LOSSES]
    assert row["failed requests"] != "0"
    return {title: int(row[title].replace("–", "0")) for title in ("lost", *LOSSES)}


@pytest.mark.parametrize("cause", ENDS)
def test_a_lost_game_is_counted_once_by_the_first_of_what_lost_it(cause):
    counted = {title: int(title == cause) for title in LOSSES}
    assert losses(ended(*ENDS[cause])) == {"lost": int(cause in LOSSES)} | counted


def test_what_lost_one_game_of_a_secret_is_not_said_of_another():
    counted = losses(ended("hatch", "*", "watch"), ended(*ENDS["only guesses that fit"]))
    assert (counted["lost"], counted["only guesses that fit"], counted["secret rejected"]) == (1, 1, 0)


def test_what_stood_before_a_player_began_did_not_lose_its_game():
    guesses = ("*", "catch", "patch", "match", "batch", "latch")
    assert losses(ended(*guesses))["secret rejected"] == 1
    assert losses(ended(*guesses, preplayed=1))["only guesses that fit"] == 1


def test_a_guess_that_hard_mode_refuses_is_one_against_the_feedback():
    record = ended(*["patch"] * 6, rule="hard_mode")
    assert losses(record)["against feedback"] == 1


def test_only_models_of_a_server_have_a_column_of_failed_requests(make_run):
    section = findings.endings(findings.Findings([make_run()]))
    assert [row["player"] for row in section.tables["Lost games"]] == ["sft", "grpo"]
    assert all("failed requests" not in row for row in section.tables["Lost games"])
    solvers = findings.endings(findings.Findings([make_run("solvers", {"greedy": NAMES})]))
    assert list(solvers.tables) == ["Games"] and "Lost games" not in solvers.text


def test_the_two_clocks_of_a_game_stand_in_columns_of_their_own(make_run):
    """Twelve games in three seconds of the wall; those of a server by its requests, not by the wall, which a
    resume stops."""
    run = make_run(players={"sft": NAMES, "endpoint": NAMES})
    path = run / "04_eval" / "metrics.json"
    clocks = {"seconds/sft": 3.0, "seconds/endpoint": 0.5, "endpoint/seconds_per_game": 1.5}
    write_json(path, json.loads(path.read_text()) | clocks)
    rows = {row["player"]: row for row in rows_of(findings.results(findings.Findings([run])), "All")}
    assert (rows["sft"]["wall seconds a game"], rows["sft"]["request seconds a game"]) == ("0.25", "–")
    assert rows["endpoint"]["wall seconds a game"] == "–"
    assert rows["endpoint"]["request seconds a game"] == "1.5"


def test_training_curves_carry_the_floor_and_the_ceiling_also_of_runs_that_did_not_play_them(make_run):
    run = make_run(players={"sft": NAMES[:3], "greedy": NAMES})
    (run / "02_sft" / "log.jsonl").write_text('{"step": 1, "val_win_rate": 0.5}\n')
    found = findings.Findings([run])
    lines = findings.bounds(found.runs[0])
    assert list(lines) == ["random-consistent (simulated)", "greedy solver"]
    assert lines["greedy solver"] == 1.0 and 0.5 < lines["random-consistent (simulated)"] <= 1.0
    [figure] = findings.training(found).figures.values()
    assert {shape.label.text for shape in figure.layout.shapes} == set(lines)
    unknown = findings.bounds(found.runs[0]._replace(data=None))
    assert list(unknown) == ["greedy solver"]
    rows = [{"step": 1, "val_win_rate": 0.5}]
    assert "floor, a random-consistent player, is not known" in plots.caption(
        plots.validation_wins(rows, unknown)
    )
    assert "not known" not in plots.caption(figure) + plots.caption(plots.validation_wins(rows))
    best = {**found.runs[0].metrics, "optimal/all/win_rate": 1.0, "random_consistent/all/win_rate": 0.9}
    played = findings.bounds(found.runs[0]._replace(metrics=best))
    assert played == {"random-consistent": 0.9, "best possible": 1.0}


def test_runs_that_differ_in_seeds_alone_are_points_and_a_range(make_run):
    """Three seeds of one recipe; a run of other parameters is no fourth seed."""
    runs = [make_run(f"seed-{k}", {**WON, "sft": NAMES[: 6 + k]}, seed=k) for k in range(3)]
    other = make_run("other", seed=5)
    config = other / "02_sft" / "config.yaml"
    config.write_text(json.dumps({**json.loads(config.read_text()), "learning_rate": 1.0}))
    section = findings.sections(findings.Findings([*runs, other]))["seeds"]
    rows = {row["player"]: row for row in section.tables["Win rates"]}
    row = rows["sft, all secrets, 3 runs like seed-0"]
    assert (row["mean"], row["range"]) == ("58.3%", "50.0% to 66.7%")
    assert row["runs"] == "50.0%, 58.3%, 66.7%"
    assert findings.over_seeds(findings.Findings([runs[0], other])) is None


def test_players_of_several_runs_carry_the_run_and_references_stand_once(make_run):
    found = findings.Findings([make_run("a"), make_run("b", {"sft": NAMES, "greedy": NAMES})])
    labels = ["untrained in a", "sft in a", "grpo in a", "random_consistent", "greedy", "sft in b"]
    assert list(found.games) == labels
    assert found.models == ["sft in a", "grpo in a", "sft in b"]
    # runs of one recipe are seeds, not rivals
    assert found.pairs == [("grpo in a", "sft in a")]
    config = found.runs[1].folder / "02_sft" / "config.yaml"
    config.write_text(json.dumps({**json.loads(config.read_text()), "learning_rate": 1.0}))
    other = findings.Findings([run.folder for run in found.runs])
    assert other.pairs == [("grpo in a", "sft in a"), ("sft in b", "sft in a"), ("sft in b", "grpo in a")]


def test_runs_of_the_same_name_stay_apart_and_a_run_given_twice_is_refused(make_run):
    """No player hides behind another of the same label."""
    first, second = make_run("one/run"), make_run("two/run", {"sft": NAMES[:3]})
    found = findings.Findings([first, second])
    assert found.models == [f"sft in {first}", f"grpo in {first}", f"sft in {second}"]
    with pytest.raises(ValueError, match="given twice"):
        findings.Findings([first, first])


def test_easier_games_are_marked_and_not_paired_with_strict_ones(make_run):
    made = findings.Findings([make_run("a"), make_run("b", {"sft": NAMES}, retries=1, discarded=4)])
    sections = findings.sections(made)
    assert "Not the strict rules: sft in b (retries, best of several games)." in sections["protocol"].text
    names = [row["player"] for row in rows_of(sections["results"], "All secrets")]
    assert "sft in b (retries, best of several games)" in names
    assert not [row for row in rows_of(sections["comparisons"], "All") if "sft in b" in row.values()]


def test_the_page_says_how_many_games_of_a_server_failed(make_run):
    run = make_run(players={"endpoint": NAMES})
    metrics = json.loads((run / "04_eval" / "metrics.json").read_text())
    asked = {"requests": 70, "retries": 9, "failed_games": 3, "seconds_per_game": 1.5}
    asked |= {"model": "a/b", "prompt_tokens_per_game": 400.0, "completion_tokens_per_game": None}
    write_json(run / "04_eval" / "metrics.json", metrics | {f"endpoint/{k}": v for k, v in asked.items()})
    text = findings.sections(findings.Findings([run]))["protocol"].text
    assert "is a/b: a game took 400 prompt and – completion tokens" in text
    assert "70 requests with 9 retries; failed games, which count as lost: 3." in text


def test_regret_and_temperatures_are_told_of_every_player(make_run):
    """A mean over the turns; a run sampled at another temperature is named."""
    run, other = make_run("a"), make_run("b")
    config = other / "04_eval" / "config.yaml"
    config.write_text(json.dumps({**json.loads(config.read_text()), "temperature": 0.7}))
    (run / "04_eval" / "config.yaml").write_text(
        json.dumps({**json.loads((run / "04_eval" / "config.yaml").read_text()), "temperature": 0.0})
    )
    found = findings.Findings([run, other])
    made = findings.sections(found)
    assert "sampled at different temperatures: 0 in" in made["protocol"].text
    forgone = {row["player"]: row["bits forgone a turn"] for row in rows_of(made["results"], "All")}
    mean = np.nanmean(analysis.regret(found.games["grpo in a"], found.solver))
    assert forgone["grpo in a"] == f"{mean:.2f}" and mean > 0
    shown = {row["player"]: row["bits forgone a turn"] for row in rows_of(made["results"], "Held")}
    assert shown["grpo in a"] != "–"


def test_other_rules_other_splits_and_runs_without_games_are_refused(make_run):
    first = make_run("a")
    hard = rules_for(WORDS, hard_mode=True)
    with pytest.raises(ValueError, match="the rules differ in hard_mode"):
        findings.Findings([first, make_run("b", rules=hard)])
    mixed = Split(train=NAMES[1:7], val=NAMES[7:8], test=(NAMES[0], *NAMES[8:]))
    with pytest.raises(ValueError, match="split the secrets differently"):
        findings.Findings([first, other := make_run("c", split=mixed)])
    with pytest.raises(ValueError, match="split the secrets differently"):
        report.markdown([first, other])
    (first / "04_eval" / "games.jsonl").unlink()
    with pytest.raises(ValueError, match="keeps no games"):
        findings.Findings([first])


class Tags(HTMLParser):
    """The tags of a page with their attributes, the text of its scripts, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.scripts, self.seen = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if data.strip():
            (self.scripts if self.tags[-1][0] == "script" else self.seen).append(data)


def test_the_page_is_one_file_without_remote_parts_and_holds_every_table_and_figure(make_run, tmp_path):
    made = findings.sections(findings.Findings([make_run()]))
    text = page.html("Wordle", made)
    tags = Tags(text)
    assert not [attrs for _, attrs in tags.tags if attrs.get("src") or "http" in str(attrs.get("href", ""))]
    assert [tag for tag, _ in tags.tags].count("script") == 2
    figures = [name for section in made.values() for name in section.figures]
    drawn = [attrs.get("id") for tag, attrs in tags.tags if tag == "div"]
    assert [name for name in drawn if name] == [f"figure-{name}" for name in figures]
    assert [tag for tag, _ in tags.tags].count("svg") == len(figures)
    assert text.count("<table>") == sum(len(section.tables) for section in made.values())
    assert text == page.html("Wordle", made)


def test_case_53_the_same_runs_give_the_same_files(make_run, tmp_path):
    run = make_run()
    page.write([run], tmp_path / "one")
    page.write([run], tmp_path / "two")
    for path in (tmp_path / "one").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_text_of_models_and_files_is_never_markup(make_run, tmp_path):
    """A player's name and a folder's name that would end a tag, a cell or a script stand as text."""
    player = "<script>alert(1)<script>|`x`"  # a name in metrics holds no slash
    run = make_run("a<b>|`c`", {"untrained": (), player: NAMES[:5], "sft": NAMES})
    text = page.html(page.title([run]), findings.sections(found := findings.Findings([run])))
    tags = Tags(text)
    assert [tag for tag, _ in tags.tags].count("script") == 2
    assert player in "".join(tags.seen)
    assert "<script" not in tags.scripts[-1] and len(tags.scripts) == 2
    for section in findings.sections(found).values():
        for line in page.markdown(section).splitlines():
            if line.startswith("|"):
                assert "<script" not in line


def test_tables_of_the_markdown_have_one_width(make_run):
    run = make_run("a|b", {"sft | x": NAMES[:5], "sft": NAMES})
    for section in findings.sections(findings.Findings([run])).values():
        for block in page.markdown(section).split("\n\n"):
            if block.startswith("|"):
                assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_words_stand_in_a_csv_and_lists_hold_training_secrets_only(make_run, tmp_path):
    out = tmp_path / "out"
    assert page.write([make_run()], out) == out / "report.html"
    rows = {row["secret"]: row for row in csv.DictReader((out / "lists" / "words.csv").open())}
    assert set(rows) == set(NAMES)
    assert rows["abide"]["part"] == "train" and rows["those"]["part"] == "heldout"
    assert (rows["abide"]["sft"], rows["abide"]["grpo"]) == ("2", "0")
    assert rows["abide"]["lost_again_by_grpo_after_sft"] == "1"
    assert rows["speed"]["gained_by_grpo_over_sft"] == "1"
    assert (out / "lists" / "lost_again_by_grpo_after_sft.txt").read_text() == "abide\ncecum\n"
    # all four secrets that only GRPO won are held out: none may be trained on
    assert (out / "lists" / "gained_by_grpo_over_sft.txt").read_text() == ""
    assert {path.name for path in out.iterdir()} == {"report.html", "report.md", "lists"}


def test_states_of_lost_games_are_rows_to_train_on_of_training_secrets_alone(make_run):
    """As `states.jsonl` of 01: the same columns, each state once, no held-out secret."""
    run = make_run()
    found = findings.Findings([run])
    rows = list(page.lost_states(found))
    made = data.read_jsonl(run / "01_data_synthesis" / "states.jsonl")
    assert {tuple(row) for row in rows} == {tuple(made[0])}
    assert {row["secret"] for row in rows} == {"abide", "cecum"}  # of the two that GRPO lost, six turns each
    assert len({(row["secret"], row["history"]) for row in rows}) == len(rows) == 12
    assert rows[0]["n_candidates"] == len(NAMES) and rows[0]["source"] == "lost by grpo"


def test_lost_states_under_the_train_lexicon_name_no_held_out_word(make_run):
    """SLATE is held out, and each lost game begins with it: only the states without a guess are left."""
    rules = rules_for(WORDS, lexicon="train")
    rows = list(page.lost_states(findings.Findings([make_run(rules=rules)])))
    assert [row["history"] for row in rows] == ["[]", "[]"]
    assert {row["n_candidates"] for row in rows} == {len(SPLIT.train)}


def test_a_folder_that_is_no_report_is_not_replaced(make_run, tmp_path):
    run = make_run()
    with pytest.raises(ValueError, match="is there and no report"):
        page.write([run], run)
    assert (run / "04_eval").is_dir()
    page.write([run], tmp_path / "out")
    assert page.write([run], tmp_path / "out").is_file()


def test_figures_are_pictures_too_where_an_exporter_works(make_run, tmp_path, monkeypatch):
    """Every one that the page has, beside it; without an exporter there is no folder."""
    run = make_run()
    page.write([run], tmp_path / "plain")
    assert not (tmp_path / "plain" / "figures").exists()
    monkeypatch.setattr(plots, "_png_works", lambda: True)
    monkeypatch.setattr(go.Figure, "write_image", lambda fig, path, **options: path.write_bytes(b"png"))
    page.write([run], tmp_path / "out")
    made = findings.sections(findings.Findings([run]))
    names = {f"{name}.png" for section in made.values() for name in section.figures}
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == names


def test_the_command_writes_the_page_beside_the_first_run(make_run, tmp_path, capsys):
    run = make_run()
    assert __main__.main(["report", str(run), "--html"]) == 0
    said = capsys.readouterr().out
    assert said.strip().endswith("report/report.html") and said.count("PNG") <= 1
    assert (run / "report" / "report.html").is_file()
    assert __main__.main(["report", str(run), "--html", "--difference", "80"]) == 0
    assert "80 points" in (run / "report" / "report.md").read_text()
    for wrong in ("0", "nan", "x", "101"):
        with pytest.raises(SystemExit):
            __main__.main(["report", str(run), "--difference", wrong])
        assert "is no number of points from 0.1 to 100" in capsys.readouterr().err
    assert __main__.main(["report", str(tmp_path / "nothing"), "--html"]) == 2
    assert "run notebook 04_eval first" in capsys.readouterr().err


def test_an_endpoint_without_a_data_card_says_what_is_unknown(make_run, monkeypatch):
    run = make_run(players={"endpoint": NAMES[:7], "greedy": NAMES})
    loaded = data.load(run / "01_data_synthesis")
    (run / "01_data_synthesis" / "card.json").unlink()
    monkeypatch.setattr(findings, "played_in", lambda folder: loaded._replace(card={}))
    made = findings.sections(findings.Findings([run]))
    assert "is unknown" in made["protocol"].text
    assert rows_of(made["results"], "All")[0]["player"] == "endpoint"
