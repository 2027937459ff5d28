"""Replay: games read lazily, filters, the widget's answers, and the page without a kernel."""

import base64
import gzip
import itertools
import json
import re

import pytest

from wordlelib import evaluate, replay, widgets
from wordlelib.__main__ import main


@pytest.fixture
def path(tmp_path, small_games):
    """The games on disk."""
    evaluate.write_games(tmp_path / "games.jsonl", small_games)
    return tmp_path / "games.jsonl"


@pytest.fixture
def shown(small_games, small_solver):
    return replay.Replay("results/demo", small_games, small_solver)


def with_answers(monkeypatch):
    """Catch what a widget sends to its view."""
    sent = []
    monkeypatch.setattr(
        widgets._widget_class(), "send", lambda self, message, buffers=None: sent.append(message)
    )
    return sent


def ask(widget, **message):
    """What the view does when somebody clicks."""
    widget._handle_custom_msg(message, [])


# Reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_games_are_read_one_by_one_in_any_order(path, small_games, packed, monkeypatch):
    """Opening keeps places and summaries; a game is parsed when it is asked for, also of a kept run."""
    if packed:
        path.with_name("games.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = path.with_name("games.jsonl.gz")
    games = replay.Games(path)
    assert len(games) == len(small_games)
    assert games.summaries == [replay.summary(record) for record in small_games]
    parsed = []
    loads = json.loads
    monkeypatch.setattr(replay.json, "loads", lambda text: parsed.append(text) or loads(text))
    assert games[7] == small_games[7] and games[0] == small_games[0] and games[11] == small_games[11]
    assert len(parsed) == 3


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda text: text[:-9], "line 12: not JSON .*half written"),
        (lambda text: text.replace('"won": true', '"won": false', 1), "contradicts the moves"),
        (lambda text: text.replace('"seed"', '"sead"', 1), "'seed' is missing"),
    ],
)
def test_damaged_games_are_named_by_file_and_line(path, damage, said):
    path.write_text(damage(path.read_text()))
    with pytest.raises(ValueError, match=said):
        replay.Games(path)


def test_a_damaged_archive_is_named(path):
    packed = path.with_name("games.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes())[:-20])
    with pytest.raises(ValueError, match=r"games\.jsonl\.gz: not a whole gzip file"):
        replay.Games(packed)


def test_games_under_other_rules_are_refused(path, small_rules):
    other = small_rules.__class__(**{**small_rules.to_dict(), "turns": 5})
    with pytest.raises(ValueError, match="never mix the two"):
        replay.Games(path, other)


# Filters -----------------------------------------------------------------------------------------


def test_each_view_holds_the_games_that_its_name_says(shown, small_games):
    views = shown.views()
    players = {name: {small_games[n]["player"] for n in views[name]} for name in views if views[name]}
    assert players["lost"] == players["with no guess"] == {"loser"}
    assert players["with a non-word"] == {"nonwords"} and players["won"] == {"nonwords", "greedy"}
    assert sorted(views["longest thinking"]) == views["all games"] == list(range(12))
    lengths = [shown.summaries[n].longest for n in views["longest thinking"]]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > lengths[-1]
    assert replay.CHANGED not in views


def test_the_games_that_training_changed_are_pairs_on_one_secret(small_games, small_solver):
    named = {"loser": "sft", "nonwords": "grpo"}
    games = [{**game, "player": named.get(game["player"], game["player"])} for game in small_games]
    games[0], games[1] = (  # two secrets that SFT also won
        {**games[n + 8], "player": "sft"} for n in (0, 1)
    )
    shown = replay.Replay("x", games, small_solver)
    pairs = [(shown.summaries[n].secret, shown.summaries[n].player) for n in shown.views()[replay.CHANGED]]
    lost = [game["secret"] for game in games if game["player"] == "sft" and not game["won"]]
    assert pairs == [(secret, player) for secret in lost for player in ("sft", "grpo")] and len(pairs) == 4


def test_most_regret_comes_first(shown):
    """Who never guesses gives away all bits each turn; greedy play gives away none."""
    ranked = [shown.summaries[n].player for n in shown.by_regret()]
    assert ranked == ["loser"] * 4 + ["nonwords"] * 4 + ["greedy"] * 4
    assert shown.regret(shown.by_regret("greedy")[0]) == pytest.approx(0, abs=1e-9)
    assert {shown.summaries[n].player for n in shown.by_regret("greedy")} == {"greedy"}


def test_games_that_were_not_saved_are_named(shown, small_solver):
    """A wrong secret, a wrong player, and no games at all: one sentence each."""
    with pytest.raises(ValueError, match="no game of 'zzzzz' was saved"):
        shown.find("zzzzz")
    with pytest.raises(ValueError, match="no game by 'nobody' was saved"):
        replay.replay_widget(shown, player="nobody")
    with pytest.raises(ValueError, match="run notebook 04_eval first"):
        replay.Replay("x", [], small_solver)


# Showing -----------------------------------------------------------------------------------------


def test_a_front_end_is_known_by_who_started_the_kernel(headless, monkeypatch):
    """papermill and nbconvert start kernels without the mark of a Jupyter server or VS Code."""
    import IPython  # noqa: F401  (a kernel has it loaded)

    assert not widgets.has_front_end()
    monkeypatch.setenv("JPY_SESSION_NAME", "x.ipynb")
    assert widgets.has_front_end()


def test_without_a_front_end_a_table_stands_in_for_the_widget(headless, shown, small_games):
    """Nothing waits, nothing needs a comm, nothing runs a script; the same games are there."""
    secret = small_games[0]["secret"]
    page = replay.replay_widget(shown).data
    assert all(f"<b>{name}</b>: {secret.upper()}" in page for name in ("loser", "nonwords", "greedy"))
    assert "<script" not in page
    other = small_games[1]["secret"]
    page = replay.replay_widget(shown, other, "greedy").data
    assert f"<b>greedy</b>: {other.upper()}" in page and "loser" not in page


def test_the_widget_sends_the_pieces_of_the_games_it_is_asked_for(front_end, shown, monkeypatch):
    sent = with_answers(monkeypatch)
    widget = replay.replay_widget(shown, shown.secrets[1], "greedy")
    index = widget.data
    json.dumps(index)
    assert index["secrets"][index["secret"]] == shown.secrets[1].upper() and index["player"] == 2
    assert index["views"][replay.MOST_REGRET] is None and index["of_secret"][0] == [0, 4, 8]
    assert not sent

    ask(widget, games=[4, 8])
    [answer] = sent
    assert set(answer["games"]) == {4, 8}
    piece, record = answer["games"][4], shown.games[4]
    assert len(piece["rows"]) == len(piece["turns"]) == len(record["turns"]) > 1
    assert "not a word of this game" in piece["rows"][0] and "Turn 2" in piece["turns"][1]

    ask(widget, view=replay.MOST_REGRET, player=0, ticket=7)
    assert sent[-1] == {"ticket": 7, "ranked": shown.by_regret("loser")}


def test_games_are_judged_a_moment_at_a_time(front_end, shown, monkeypatch):
    """The kernel answers in between, and what was judged stays judged."""
    clock = itertools.count()
    monkeypatch.setattr(replay.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(replay, "SLICE", 10)  # ten looks at the clock, one a turn
    sent = with_answers(monkeypatch)
    widget = replay.replay_widget(shown)
    shares = []
    for _ in range(20):
        ask(widget, view=replay.MOST_REGRET, player=None, ticket=1)
        if "ranked" in sent[-1]:
            break
        shares.append(sent[-1]["judged"])
        ask(widget, games=[0])
        assert set(sent[-1]["games"]) == {0}
    assert len(shares) > 1 and shares == sorted(set(shares)) and shares[-1] < 1
    assert sent[-1]["ranked"] == shown.by_regret() and len(sent[-1]["ranked"]) == len(shown.games)


def test_a_failure_is_told_to_the_view(front_end, shown, monkeypatch):
    sent = with_answers(monkeypatch)
    widget = replay.replay_widget(shown)
    with pytest.raises(IndexError):
        widgets_answer = widget._msg_callbacks.callbacks[-1]
        widgets_answer(widget, {"games": [999]}, [])
    assert sent == [{"error": "IndexError: list index out of range"}]


def test_another_run_is_opened_when_it_is_chosen(front_end, shown, small_games, small_solver, monkeypatch):
    """Only runs that were offered are opened."""
    opened = []
    other = replay.Replay("results/other", small_games[8:], small_solver)
    monkeypatch.setattr(replay, "open_run", lambda folder: opened.append(folder) or other)
    sent = with_answers(monkeypatch)
    widget = replay.replay_widget(shown, others=["results/other"])
    assert widget.data["runs"] == ["results/demo", "results/other"]
    ask(widget, run="../elsewhere")
    assert not opened and widget.data["run"] == "results/demo"
    ask(widget, run="results/other")
    assert widget.data["run"] == "results/other" and widget.data["players"] == ["greedy"]
    ask(widget, games=[0])
    assert "greedy" in sent[-1]["games"][0]["head"]


# A page ------------------------------------------------------------------------------------------


def unpacked(line: str):
    return json.loads(gzip.decompress(base64.b64decode(line)))


def test_a_page_holds_all_games_and_needs_nothing_else(
    shown, tmp_path, monkeypatch, small_games, small_solver
):
    """One file without an address in it; what a model wrote cannot leave its pack of letters."""
    nasty = "</script><script>alert(1)</script>"
    games = [*small_games[:-1], {**small_games[-1], "player": nasty}]
    monkeypatch.setattr(replay, "open_run", lambda folder: replay.Replay("demo", games, small_solver))
    (tmp_path / "04_eval").mkdir()
    page = replay.write_page(tmp_path).read_text()
    assert "http" not in page and not re.search(r"(src|href)=\"(?!data:)", page)
    assert page.count("</script>") == 2 and "alert(1)" not in page
    lines = page.split('id="wordle-games">\n')[1].split("\n</script>")[0].split("\n")
    index = unpacked(lines[0])
    assert index["players"][-1] == nasty and sorted(index["views"][replay.MOST_REGRET]) == list(range(12))
    assert len(lines) == 1 + len(index["secrets"])
    for secret, line in zip(index["of_secret"], lines[1:], strict=True):
        assert {int(number) for number in unpacked(line)} == set(secret)
    assert "&lt;/script&gt;" in unpacked(lines[-1])["11"]["head"]


def test_report_games_writes_the_page_of_a_run(capsys, tmp_path):
    import shutil

    from conftest import ROOT

    for stage in ("01_data_synthesis", "04_eval"):
        shutil.copytree(ROOT / "results" / "reference" / "cpu-demo" / stage, tmp_path / "demo" / stage)
    assert main(["report", str(tmp_path / "demo"), "--games"]) == 0
    assert capsys.readouterr().out == f"games in {tmp_path}/demo/04_eval/games.html\n"
    assert (tmp_path / "demo" / "04_eval" / "games.html").stat().st_size < 2**20
    assert main(["report", str(tmp_path / "nothing"), "--games"]) == 2
    assert "run notebook 04_eval first" in capsys.readouterr().err


def test_the_runs_to_choose_from_are_those_with_games(project):
    states = {"a": "done", "b": "running", "reference/c": "done", "reference/earlier/d": "done"}
    for name, status in states.items():
        stage = project / "results" / name / "04_eval"
        stage.mkdir(parents=True)
        (stage / "status.json").write_text(json.dumps({"status": status}))
        (stage / "games.jsonl").touch()
    assert replay.evaluated_runs() == ["results/a", "results/reference/c", "results/reference/earlier/d"]
