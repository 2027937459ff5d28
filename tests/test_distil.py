"""A language model as the teacher: games kept as they end, faults that drop them, and what they cost."""

import csv
import json
import re
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import KEY, ROOT, body, example, killed_at, say

from wordlelib import data, distil, endpoints, params, runs
from wordlelib.__main__ import main
from wordlelib.endpoints import Endpoint
from wordlelib.evaluate import play_games
from wordlelib.game import score
from wordlelib.rules import rules_for
from wordlelib.words import split_secrets

SOURCE = {"sample": 40}
WORDS = data.game_words(**SOURCE)
RULES = rules_for(WORDS)
SPLIT = split_secrets(WORDS, test=20, val=2)
SECRETS = {"train": list(SPLIT.train[:6]), "val": list(SPLIT.val)}
PLAYED = SECRETS["train"] + SECRETS["val"]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv(endpoints.KEY, KEY)


def fitting(asked) -> str:
    """What a good model says: a word that fits all feedback of the state that it is shown."""
    state = asked["messages"][-1]["content"]
    history = []
    for line in re.findall(r"Guess \d: (.*)", state):
        marks = {"absent": "B", "present": "Y", "correct": "G"}
        letters, told = zip(*(part.split(":") for part in line.split()), strict=True)
        history.append(("".join(letters).lower(), "".join(marks[mark] for mark in told)))
    fit = [word for word in WORDS.answers if all(score(g, word) == f for g, f in history)]
    return say(fit[asked["seed"] % len(fit)])


def play(server, folder, games=2, **options):
    endpoint = Endpoint(server.url, "good", KEY, options.pop("concurrency", 4), 5.0)
    return distil.play(
        folder, endpoint, PLAYED, WORDS, RULES, games=games, max_completion_length=64, **options
    )


@pytest.fixture
def teacher(server):
    """A server that plays well."""
    server.answer = lambda handler, number: handler.reply(200, body(fitting(server.asked[number - 1])))
    return server


def test_games_do_not_depend_on_what_runs_at_once_and_are_asked_once(teacher, tmp_path):
    first = play(teacher, tmp_path / "a", concurrency=1)
    assert list(first) == PLAYED and all(len(games) == 2 for games in first.values())
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        f"{secret}{end}" for secret in PLAYED for end in (".jsonl", ".answers.jsonl")
    }
    assert play(teacher, tmp_path / "b", concurrency=6) == first
    assert teacher.most <= 6
    asked = len(teacher.asked)
    (tmp_path / "a" / f"{PLAYED[0]}.jsonl").unlink()  # as if stopped before its games were written
    assert play(teacher, tmp_path / "a") == first and len(teacher.asked) == asked
    taken = sum(game["n_guesses"] for games in first.values() for game in games)
    assert endpoints.usage(distil.answers_of(tmp_path / "a"))["completion_tokens"] == 7 * taken


def test_each_secret_is_on_disk_before_the_last_one_ends(teacher, tmp_path):
    """One answer is held back: the files of other secrets are there while it is."""
    held, play_on = threading.Event(), threading.Event()
    well = teacher.answer

    def hold_the_first(handler, number):
        if number == 1:
            held.set()
            play_on.wait(20)
        well(handler, number)

    teacher.answer = hold_the_first
    folder = tmp_path / "a"
    running = threading.Thread(target=play, args=(teacher, folder))
    running.start()
    assert held.wait(20)
    deadline = time.monotonic() + 20
    while len(done := {*folder.glob("*.jsonl")} - {*folder.glob("*.answers.jsonl")}) < len(PLAYED) - 1:
        assert time.monotonic() < deadline, done
        time.sleep(0.05)
    play_on.set()
    running.join()
    assert (folder / f"{PLAYED[0]}.jsonl").is_file()


def test_a_server_that_is_gone_ends_the_games_and_is_asked_again(teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(distil, "UNANSWERED", 3)
    well, teacher.answer = teacher.answer, lambda handler, number: handler.reply(400, {"error": "no credit"})
    with pytest.raises(ConnectionError, match=r"answered nothing for 3 secrets \(HTTP 400.*resume=True"):
        play(teacher, tmp_path / "a", concurrency=1)
    assert not [path for path in (tmp_path / "a").glob("*.jsonl") if "answers" not in path.name]
    with pytest.raises(ConnectionError):
        play(teacher, tmp_path / "a", concurrency=1)
    failed = len(teacher.asked)
    assert endpoints.usage(distil.answers_of(tmp_path / "a"))["failed_requests"] == failed >= 12
    first, _ = sorted((tmp_path / "a").glob(f"{PLAYED[0]}.*.failed"))
    lost = len(first.read_text().splitlines())
    first.unlink()
    with pytest.raises(ConnectionError):  # takes the free place, and writes over nothing
        play(teacher, tmp_path / "a", concurrency=1)
    failed = len(teacher.asked) - lost
    teacher.answer = well
    assert play(teacher, tmp_path / "a") == play(teacher, tmp_path / "b")
    assert endpoints.usage(distil.answers_of(tmp_path / "a"))["failed_requests"] == failed


def test_a_kill_counts_no_failure_twice(teacher, tmp_path, monkeypatch):
    """While the answers of a secret that got none are set aside."""
    monkeypatch.setattr(distil, "UNANSWERED", 3)
    teacher.answer = lambda handler, number: handler.reply(400, {"error": "no credit"})

    def killed(self, target):
        raise SystemExit

    with monkeypatch.context() as at_the_kill:
        at_the_kill.setattr(Path, "rename", killed)
        with pytest.raises((SystemExit, ConnectionError)):
            play(teacher, tmp_path / "a", concurrency=1)
    with pytest.raises(ConnectionError):
        play(teacher, tmp_path / "a", concurrency=1)
    counted = endpoints.usage(distil.answers_of(tmp_path / "a"))["failed_requests"]
    assert counted == len(teacher.asked) >= 3


def record(*texts, secret=SPLIT.train[0]):
    [game] = play_games(
        lambda histories, seeds: [texts[len(history)] for history in histories],
        [secret],
        WORDS,
        RULES,
        name="teacher",
    )
    return game


def others(secret=SPLIT.train[0]):
    """Two words: one that may come first, and one that its feedback rules out."""
    first = next(word for word in WORDS.answers if word != secret)
    ruled_out = next(w for w in WORDS.answers if score(first, w) != score(first, secret) and w != first)
    return first, ruled_out


def test_a_fault_is_found_by_its_reason():
    secret = SPLIT.train[0]
    first, ruled_out = others()
    absent = next(letter for letter, mark in zip(first, score(first, secret), strict=True) if mark == "B")
    lie = f"<think>{absent.upper()} is in the word</think><guess>{secret}</guess>"
    assert distil.fault(record(say(secret)), RULES) is None
    assert distil.fault(record(say(first), say(secret)), RULES) is None
    assert distil.fault(record("nothing", say(secret)), RULES) == "invalid turn"
    assert distil.fault(record(say(first), say(ruled_out), say(secret)), RULES) == "contradicts the feedback"
    assert distil.fault(record(*[say(first)] * 6), RULES) == "contradicts the feedback"
    assert distil.fault(record(say(first), lie), RULES) == "false statement"
    assert (
        distil.stated_false(
            record(say(first), lie.replace("</think>", f"; no, {lie[7:8]} is present</think>"))
        )
        == 2
    )
    for text in (
        f"<guess>{secret}</guess>",
        f"so <think>a</think><guess>{secret}</guess>",
        say(first) + say(secret),
    ):
        assert distil.fault(record(text), RULES) == "other form"
    lost = record(say(first), say(secret))
    lost["turns"].pop()
    assert distil.fault({**lost, "won": False}, RULES) == "lost"


def test_the_shortest_games_are_kept_and_the_others_counted():
    secret, (first, _) = SPLIT.train[0], others()
    games = [record(say(first), say(secret)), record(say(secret)), record("", say(secret))]
    kept, dropped = distil.select(games, 1, RULES)
    assert kept == [games[1]]
    assert dropped == {"invalid turn": 1, "longer than others": 1}
    assert distil.select([], 1, RULES) == ([], {})


def test_rows_of_a_teacher_make_a_data_folder_and_a_summary(teacher, tmp_path):
    games = play(teacher, tmp_path / "teacher", games=3)
    taught = distil.choose(games, SECRETS, RULES, 2, tmp_path)
    card = data.build(tmp_path, RULES, SPLIT, source=SOURCE, rows=9, states=10, taught=taught)
    opened = data.load(tmp_path)
    rows = opened.rows("sft")
    assert card["files"]["sft"]["by_source"] == {"endpoint": len(rows)} and rows
    assert {row["secret"] for row in rows} <= set(SECRETS["train"])
    assert {row["secret"] for row in opened.rows("sft_val")} <= set(SECRETS["val"])
    assert len(opened.rows("states")) > 0
    about = card["teacher"]
    assert about["games"] == 3 * len(PLAYED) and about["secrets"] == len(PLAYED)
    assert about["false_statements"] == 0
    assert about["games_kept"] + sum(about["dropped"].values()) == about["games"]
    with open(tmp_path / "teacher.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["secret"] for row in table] == PLAYED
    won, lost = ((tmp_path / f"teacher_{name}.txt").read_text().split() for name in ("won", "lost"))
    assert sorted(won + lost) == sorted(PLAYED)
    assert won == [row["secret"] for row in table if row["won"] != "0"]


def test_games_that_teach_nothing_are_an_error_with_the_reasons(tmp_path):
    games = {SPLIT.train[0]: [record("", *[say(SPLIT.train[0])])]}
    with pytest.raises(ValueError, match=r"no game of the teacher is worth learning \(invalid turn: 1\)"):
        distil.choose(games, {"train": [SPLIT.train[0]], "val": []}, RULES, 1, tmp_path)


def config(**changes):
    values = {
        "teacher_secrets": 5,
        "teacher_games": 3,
        "seed": 0,
        "max_completion_length": 100,
        "dry_run": True,
    }
    return SimpleNamespace(**{**values, "prompt_price": 2.0, "completion_price": 10.0, **changes})


def test_a_server_that_fails_in_every_way_costs_games_and_no_run(server, tmp_path, monkeypatch):
    """One data synthesis through refusals, errors, cut, empty and huge bodies: every secret has its files,
    the card counts what failed by reason, and another call asks and pays for nothing."""
    monkeypatch.setattr(endpoints, "RETRIES", 1)
    monkeypatch.setattr(endpoints, "MOST_BYTES", 10_000)
    soon, huge, seen = {"retry-after-ms": "1"}, body("x" * 10_001), {}
    kinds = {
        "HTTP 500": lambda handler: handler.reply(500, b"<html>oops", soon),
        "HTTP 429": lambda handler: handler.reply(429, {"error": {"message": "busy"}}, soon),
        "no connection, or one that ended early": lambda handler: handler.reply(200, body("x"), soon, cut=9),
        "an answer that is no chat completion": lambda handler: handler.reply(200, b""),
        "an answer too long": lambda handler: handler.reply(200, huge),
    }

    def mixed(handler, number):
        """Of twelve seeds one for each fault, one that is refused at first, and six that are answered."""
        asked = server.asked[number - 1]
        place, first = asked["seed"] % 12, asked["seed"] not in seen
        reason = seen.setdefault(asked["seed"], [*kinds][place] if place < len(kinds) else None)
        if reason or (place == len(kinds) and first):
            kinds[reason or "HTTP 429"](handler)
        else:
            handler.reply(200, body(fitting(asked)))

    server.answer = mixed
    limits = {"concurrency": 6, "timeout": 10.0, "requests_per_minute": 0, "temperature": 1.0}
    own = config(
        dry_run=False, endpoint=server.url, teacher_model="good", keep_games=2, teacher_games=5, **limits
    )
    run = SimpleNamespace(config=own, dir=tmp_path)

    def teach():
        taught = distil.teach(run, WORDS, RULES, SPLIT, lambda chats: [9] * len(chats))
        return data.build(tmp_path, RULES, SPLIT, source=SOURCE, rows=9, states=5, taught=taught)

    about = teach()["teacher"]
    assert len([*(tmp_path / "teacher").glob("?????.jsonl")]) == about["secrets"] == 7
    failed = {}
    for reason, n in about["failures"].items():
        failed[reason.partition(" (")[0]] = failed.get(reason.partition(" (")[0], 0) + n
    assert failed == Counter(reason for reason in seen.values() if reason) and set(failed) == set(kinds)
    assert about["failed_requests"] == sum(failed.values()) == about["dropped"]["no answer"]
    assert about["requests"] == len(server.asked) and about["retries"] > failed["HTTP 500"]
    made, asked = (tmp_path / "sft.jsonl").read_bytes(), len(server.asked)
    next((tmp_path / "teacher").glob("?????.jsonl")).unlink()  # as if stopped before these games were written
    assert teach()["teacher"] == about and len(server.asked) == asked
    assert (tmp_path / "sft.jsonl").read_bytes() == made


def test_a_dry_run_shows_three_prompts_and_the_cost_and_asks_nothing(server, tmp_path, capsys):
    run = SimpleNamespace(config=config(), dir=tmp_path)
    assert distil.teach(run, WORDS, RULES, SPLIT, lambda chats: [1000] * len(chats)) is None
    shown = capsys.readouterr().out
    assert "A dry run ends here, and nothing was asked" in shown
    assert shown.count("Turn ") == 3 and "21 games of 7 secrets" in shown
    numbers = re.findall(r"([\d,]+) (?:req|prompt t|comp)", shown)
    turns, prompts, answers = (int(number.replace(",", "")) for number in numbers)
    assert 21 < turns < 6 * 21 and abs(prompts - 1000 * turns) <= 1000 and abs(answers - 100 * turns) <= 100
    assert f"{(2 * prompts + 10 * answers) / 1e6:.2f} dollars" in shown
    assert not server.asked


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"teacher": "endpoint"}, "needs endpoint"),
        ({"dry_run": True}, "no other teacher costs anything"),
        ({"teacher": "file"}, "teacher file needs traces"),
        ({"traces": "a.jsonl"}, "traces need it"),
        ({"teacher": "file", "traces": "a.jsonl", "lexicon": "train"}, "under lexicon train"),
        ({"endpoint": "http://x/v1"}, "needs endpoint"),
        ({"teacher": "endpoint", "endpoint": "x", "teacher_model": "m"}, "is no URL of a server"),
        (
            {"teacher": "endpoint", "endpoint": "http://x", "teacher_model": "m", "lexicon": "train"},
            "under lexicon train",
        ),
    ],
)
def test_parameters_that_do_not_fit_the_teacher_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        params.resolve("01_data_synthesis", example("01_data_synthesis", **changes))


def test_the_notebook_makes_the_data_of_a_teacher(teacher, project):
    """The whole stage, with the server as the teacher of a game of 40 words."""
    import papermill

    changes = {
        **{"run": str(project / "taught"), "sample_words": 40, "test_secrets": 20, "val_secrets": 2},
        **{"teacher": "endpoint", "endpoint": teacher.url, "teacher_model": "good", "teacher_secrets": 6},
        **{"n_states": 10, "teacher_games": 2, "renderer": "words", "completion_price": 10.0},
    }
    notebook = ROOT / "notebooks" / "01_data_synthesis.ipynb"
    papermill.execute_notebook(notebook, project / "out.ipynb", changes, progress_bar=False)
    opened = data.load(project / "taught" / "01_data_synthesis")
    about = opened.card["teacher"]
    assert about["games"] == 16 and about["requests"] == len(teacher.asked) > 16
    assert about["dollars"] == pytest.approx(7 * len(teacher.asked) * 10 / 1e6)
    assert {row["source"] for row in opened.rows("sft")} == {"endpoint"}
    assert KEY not in "".join(path.read_text() for path in opened.folder.rglob("*.json*"))


def test_a_killed_teacher_goes_on_and_pays_nothing_twice(teacher, tmp_path):
    """Killed in the middle of its games; `--resume` plays the others, and makes the data of all."""
    out = tmp_path / "out"
    settings = {
        **{"teacher": "endpoint", "endpoint": teacher.url, "teacher_model": "good", "sample_words": 40},
        **{"test_secrets": 20, "val_secrets": 2, "teacher_secrets": 6, "teacher_games": 2, "n_states": 10},
        **{"renderer": "words", "concurrency": 2},
    }
    options = [f"--set=01_data_synthesis.{name}={value}" for name, value in settings.items()]
    arguments = ["run", "--recipe", "cpu-demo", "--out", str(out), "--stages", "01_data_synthesis", *options]
    killed_at(15, teacher, teacher.answer, arguments)
    folder = out / "01_data_synthesis" / distil.FOLDER
    answered, paid = len(distil.answers_of(folder)), len(teacher.asked)
    assert 12 <= answered <= 14 and paid - answered <= 2  # those under way are lost, and no other
    assert main([*arguments, "--resume"]) == 0
    about = data.load(out / "01_data_synthesis").card["teacher"]
    assert about["games"] == 16 and about["requests"] == len(teacher.asked) - (paid - answered)


def test_records_of_a_secret_are_lines_of_json(teacher, tmp_path):
    play(teacher, tmp_path / "a")
    lines = (tmp_path / "a" / f"{PLAYED[0]}.jsonl").read_text().splitlines()
    assert [json.loads(line)["secret"] for line in lines] == [PLAYED[0]] * 2


def test_a_dry_run_ends_cleanly_and_is_no_finished_stage(teacher, tmp_path, capfd):
    """Exit code 0, a whole notebook, nothing asked; stages after it are left out, and refuse its folder."""
    out = tmp_path / "planned"
    settings = {
        **{"teacher": "endpoint", "endpoint": teacher.url, "teacher_model": "good", "sample_words": 40},
        **{"test_secrets": 10, "val_secrets": 5, "dry_run": "true", "prompt_price": "2"},
    }
    options = [f"--set=01_data_synthesis.{name}={value}" for name, value in settings.items()]
    asked = len(teacher.asked)
    assert main(["run", "--recipe", "cpu-demo", "--out", str(out), *options]) == 0
    stage = out / "01_data_synthesis"
    runs.require_complete_notebook(stage / "01_data_synthesis.ipynb")
    assert runs.status(stage)["status"] == runs.DRY_RUN and not (stage / data.CARD).exists()
    assert "dollars" in capfd.readouterr().out and not (out / "02_sft").exists()
    assert len(teacher.asked) == asked
    with pytest.raises(ValueError, match=r"planned/01_data_synthesis was a dry run: run notebook 01"):
        runs.finished_stage(out, "01_data_synthesis")
