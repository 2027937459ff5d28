"""Data of others: every form and container there and back, and one clear reason for each bad row or file."""

import csv
import gzip
import itertools
import json
import os
import re
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from wordlelib import containers, data, formats, notations, params, records, runs
from wordlelib.__main__ import main
from wordlelib.game import Turn, decode_history, encode_history, is_consistent, score, take_turn
from wordlelib.prompts import completion, messages, parse_guess, render_turn
from wordlelib.rules import rules_for
from wordlelib.words import load_words, split_secrets

WORDS = load_words()
RULES = rules_for(WORDS)
TEXT = completion(["crane", "allot"], "allot")
PAST = (Turn("crane", score("crane", "alley")), Turn("sweat", score("sweat", "alley")))
SYSTEM = "You play Wordle. Guess 1: STORM -> Feedback: S(-) T(x) O(x) R(-) M(x)"
PREDIBASE = {
    "prompt": f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\nMake a new guess.<|im_end|>\n"
    "<|im_start|>assistant\nLet me solve this step by step.\n<think>",
    "word_list": "https://example.org/five_letter_words.csv",
    "past_guess_history": "[['CRANE', 'C(x) R(x) A(-) N(x) E(-)'], ['SWEAT', 'S(x) W(x) E(-) A(-) T(x)']]",
    "secret": "ALLEY",
}
SAMPLES = {
    "predibase": PREDIBASE,
    "predibase with completion": {
        **PREDIBASE,
        "completion": "Two l, é.</think>\n<guess> ALLEY </guess><|im_end|>",
    },
    "prompt": {"prompt": "Guess 1: CRANE -> Feedback: C(x) R(x) A(-) N(x) E(-)", "completion": TEXT},
    "chat": {"prompt": messages(PAST, RULES), "completion": [{"role": "assistant", "content": TEXT}]},
    "messages": {"messages": [*messages(PAST, RULES), {"role": "assistant", "content": TEXT}]},
    "instruction": {"instruction": "Play.", "input": "Guess 1: crane ⬛⬛🟨⬛🟨", "output": TEXT},
    "response": {"prompt": "Round 1: CRANE BBYBY", "response": TEXT},
    "answer": {"prompt": "Guess 1: CRANE -> XXYXY", "answer": "alley"},
    "answer with completion": {"prompt": "Guess 1: CRANE = 00101", "answer": TEXT},
    "turns": {"word": "alley", "turns": ["crane", ["sweat", "BBYYB"], {"guess": "alley", "text": TEXT}]},
}


def write(path, *rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read(path) -> tuple[list[formats.Record], formats.Report]:
    report = formats.Report(str(path))
    return list(formats.records(path, WORDS, RULES, report, {})), report


def game(record: formats.Record) -> tuple:
    """What a record says apart from its place in the file and the wording of its prompt."""
    return record.secret, encode_history(record.history), record.completion


def refused(tmp_path, row, message: str) -> None:
    """The row alone is left out, by a reason that matches, and the good one beside it is kept."""
    path = tmp_path / "rows.jsonl"
    write(path, SAMPLES["chat"], {**SAMPLES["chat"], **row})
    kept, report = read(path)
    assert len(kept) == report.kept == 1 and report.rows == 2
    [said] = report.first.values()
    assert said.startswith("row 2: ") and message in said and "\n" not in said


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A data folder of the shipped lists in which `alley` is a training secret and `crane` held out."""
    seed = next(
        seed
        for seed in range(100)
        if "alley" in (split := split_secrets(WORDS, seed)).train and "crane" in split.test
    )
    folder = tmp_path_factory.mktemp("data")
    data.build(folder, RULES, split_secrets(WORDS, seed), rows=40, states=5)
    return data.load(folder)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_form_is_detected_and_says_the_same_game(name, tmp_path):
    """The example game in a system message is no history, and the prefilled answer no completion."""
    write(tmp_path / "rows.jsonl", SAMPLES[name])
    [record], report = read(tmp_path / "rows.jsonl")
    assert report.form == {"prompt": "completion", "chat": "completion"}.get(name.split()[0], name.split()[0])
    assert [turn.guess for turn in record.history][:1] == ["crane"]
    assert all(turn.feedback == score(turn.guess, "alley") for turn in record.history)
    assert record.secret in (None, "alley")


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ""])
@pytest.mark.parametrize("form", [form for form in formats.FORMS if form not in ("sft", "traces")])
@pytest.mark.parametrize("name", ["predibase with completion", "chat"])
def test_forms_and_containers_lead_back_to_the_same_game(name, form, ending, tmp_path):
    source, there, back = tmp_path / "a.jsonl", tmp_path / f"b{ending}", tmp_path / "c.jsonl"
    write(source, {**SAMPLES[name], "secret": "alley"})
    formats.convert(source, there, form)
    formats.convert(there, back, "chat")
    [before], [after] = read(source)[0], read(back)[0]
    assert game(before)[:2] == game(after)[:2]
    assert after.completion.endswith(before.completion)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ""])
def test_the_columns_of_predibase_come_back_letter_by_letter(ending, tmp_path):
    row = SAMPLES["predibase with completion"]
    write(tmp_path / "a.jsonl", row)
    formats.convert(tmp_path / "a.jsonl", tmp_path / f"b{ending}", "predibase")
    formats.convert(tmp_path / f"b{ending}", tmp_path / "c.jsonl", "predibase")
    assert data.read_jsonl(tmp_path / "c.jsonl") == [row]


@pytest.mark.parametrize("form", ["messages", "answer", "predibase"])
def test_a_state_whose_prompt_begins_the_answer_comes_back_without_an_answer(form, tmp_path):
    assert PREDIBASE["prompt"].endswith("<think>")
    write(tmp_path / "a.jsonl", PREDIBASE)
    formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", form)
    [before], [after] = read(tmp_path / "a.jsonl")[0], read(tmp_path / "b.jsonl")[0]
    assert game(after) == game(before) and after.completion is None


def test_text_outside_of_the_messages_of_chatml_is_not_lost_in_silence(tmp_path):
    """It may hold the game; a token before and behind says nothing."""
    prompt = SAMPLES["prompt"]["prompt"]
    chat = f"<|im_start|>user\n{prompt}<|im_end|>\n"
    refused(
        tmp_path, {**SAMPLES["prompt"], "prompt": f"{prompt}\n<|im_start|>user\nGo on.<|im_end|>"}, "outside"
    )
    refused(tmp_path, {**SAMPLES["prompt"], "prompt": f"{chat}Go on."}, "outside")
    write(tmp_path / "a.jsonl", {**SAMPLES["prompt"], "prompt": f"<s>{chat}<|endoftext|>"})
    [record], _ = read(tmp_path / "a.jsonl")
    assert [turn.guess for turn in record.history] == ["crane"]


def test_traces_and_games_come_back_whole(tmp_path):
    """The project's own CSV, in one file or in one file a word, equals itself after a round trip."""
    from wordlelib.solver import Solver
    from wordlelib.teachers import traces

    small = data.game_words(sample=40)
    games = list(traces(Solver(small, rules_for(small)), small.answers))
    path, again = tmp_path / "traces.csv", tmp_path / "again.csv"
    data.write_traces(path, games)
    formats.convert(path, tmp_path / "turns.parquet", "turns")
    formats.convert(tmp_path / "turns.parquet", again, "traces")
    assert again.read_bytes() == path.read_bytes()
    packed = tmp_path / "traces.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [game(r) for r in read(packed)[0]] == [game(r) for r in read(path)[0]]
    (tmp_path / "words").mkdir()
    for number, part in enumerate((games[:1], games[1:])):
        data.write_traces(tmp_path / "words" / f"{number}.csv", part)
    assert [game(r) for r in read(tmp_path / "words")[0]] == [game(r) for r in read(path)[0]]
    data.write_jsonl(tmp_path / "games.jsonl", games)
    assert [game(r) for r in read(tmp_path / "games.jsonl")[0]] == [game(r) for r in read(path)[0]]


def test_a_growing_chat_is_read_turn_by_turn(tmp_path):
    chat = [{"role": "user", "content": "Begin."}]
    for turn in PAST:
        chat.append({"role": "assistant", "content": completion([turn.guess], turn.guess)})
        chat.append({"role": "user", "content": turn.feedback})
    write(
        tmp_path / "a.jsonl", {"messages": [*chat, {"role": "assistant", "content": TEXT}], "secret": "alley"}
    )
    [record], _ = read(tmp_path / "a.jsonl")
    assert decode_history(encode_history(record.history)) == PAST and record.completion == TEXT
    assert all(turn.text for turn in record.history)


def test_unjustly_rejected_words_are_those_of_one_completion(tmp_path):
    """Earlier turns of the same chat rejected others, or none, and are no other rows because of them."""
    first, second = (turn._replace(text=completion([turn.guess], turn.guess)) for turn in PAST)
    second = second._replace(text=completion(["sweat"], "sweat", rejected=["built"]))
    records = [
        formats.Record(1, (first,), "alley", second.text, unjust="built"),
        formats.Record(2, (first, second), "alley", TEXT, unjust="allot"),
    ]
    rows = list(formats.made(records, "sft", WORDS, RULES, formats.Report("chats")))
    assert [row["unjust"] for row in rows] == ["", "built", "allot"]


def test_imported_rows_are_those_of_the_project(opened, tmp_path):
    """Own rows come back equal; a foreign one gets the prompt of play, and held-out secrets go."""
    rows = opened.rows("sft")
    data.write_jsonl(tmp_path / "a.jsonl", rows)
    report = formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "sft", opened)
    assert data.read_jsonl(tmp_path / "b.jsonl") == rows and not report.unread
    foreign = SAMPLES["predibase with completion"]
    held_out = {**foreign, "secret": "CRANE", "past_guess_history": "[]"}
    write(tmp_path / "c.jsonl", foreign, held_out)
    report = formats.convert(tmp_path / "c.jsonl", tmp_path / "d.parquet", "sft", opened)
    assert report.left_out == {"secret is held out or for validation": 1}
    [(_, row)] = containers._parquet_rows(tmp_path / "d.parquet")
    assert row["prompt"] == messages(PAST, RULES) and row["secret"] == "alley"
    assert row["completion"][0]["content"] == "<think>Two l, é.</think>\n<guess> ALLEY </guess>"
    assert row["source"] == "import"


def test_the_source_of_a_row_is_lost_only_in_forms_without_it_and_parts_no_repeats(opened, tmp_path):
    first = {**SAMPLES["predibase with completion"], "source": "people"}
    write(tmp_path / "a.jsonl", first, {**first, "word_list": "", "source": "others"})
    assert not formats.convert(tmp_path / "a.jsonl").unread
    report = formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "chat")
    assert report.unread == {"source": 1} and report.kept == report.made == 1
    assert "that are not read, and lost: 'source' (1 rows)" in str(report)
    games = [{**SAMPLES["messages"], "secret": "alley", "source": source} for source in ("people", "others")]
    games[1]["messages"] = [{"role": "system", "content": "Play."}, *games[1]["messages"][1:]]
    write(tmp_path / "c.jsonl", *games)
    formats.convert(tmp_path / "c.jsonl", tmp_path / "d.jsonl", "sft", opened)
    assert [row["source"] for row in data.read_jsonl(tmp_path / "d.jsonl")] == ["people"]


def test_imported_rows_are_taken_by_a_data_folder(opened, tmp_path):
    """The check of notebook 02 on loading: a card that counts them, and secrets of its part of the split."""
    import shutil

    folder = shutil.copytree(opened.folder, tmp_path / "data")
    write(tmp_path / "c.jsonl", SAMPLES["predibase with completion"])
    (folder / "sft.jsonl").unlink()
    report = formats.convert(tmp_path / "c.jsonl", folder / "sft.jsonl", "sft", opened)
    card = data.read_card(folder)
    card["files"]["sft"]["rows"] = report.made
    (folder / "card.json").write_text(json.dumps(card))
    [row] = data.load(folder).rows("sft")
    assert list(row) == list(opened.rows("sft")[0])


def told_game(*guesses, secret="alley") -> dict:
    """A game with texts, feedback and an invalid turn for each guess that is none."""
    history = ()
    for guess in guesses:
        text = completion([guess], guess) + " so" if guess else "I give up"
        history += (take_turn(*parse_guess(text), text, secret, history, WORDS, RULES),)
    return {"word": secret, "turns": [turn._asdict() for turn in history]}


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ""])
@pytest.mark.parametrize(
    "guesses",
    [
        ("crane", "sweat", "alley"),
        ("alley",),
        ("zzzzz", None, "crane"),
        ("crane", None),
        ("crane",) * 5 + (None,),
    ],
)
def test_a_game_with_its_texts_is_one_growing_chat_and_comes_back(guesses, ending, tmp_path):
    write(tmp_path / "a.jsonl", game := told_game(*guesses))
    formats.convert(tmp_path / "a.jsonl", tmp_path / f"b{ending}", "messages")
    formats.convert(tmp_path / f"b{ending}", tmp_path / "c.jsonl", "turns")
    assert data.read_jsonl(tmp_path / "c.jsonl") == [game]


@pytest.mark.parametrize("form", [form for form in formats.FORMS if form != "traces"])
def test_a_game_without_texts_is_written_as_its_guesses_alone(form, opened, tmp_path):
    """As games of people are: each state with the guess as the teacher writes it, and the report says so."""
    write(tmp_path / "a.jsonl", {"word": "alley", "turns": ["crane", "sweat", "alley"]})
    report = formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", form, opened)
    formats.convert(tmp_path / "b.jsonl", tmp_path / "c.jsonl", "turns")
    games = [[turn["guess"] for turn in row["turns"]] for row in data.read_jsonl(tmp_path / "c.jsonl")]
    assert games[-1] == ["crane", "sweat", "alley"]
    assert len(games) == (1 if form in ("turns", "messages") else 3)
    alone = "3 turns of games without texts, written as the guess alone"
    assert (alone in str(report)) == (form != "turns")
    if form == "predibase":
        assert data.read_jsonl(tmp_path / "b.jsonl")[1]["completion"] == completion(["sweat"], "sweat")


def test_a_text_that_names_another_guess_than_its_turn_is_not_learned(opened, tmp_path):
    row = {"word": "alley", "turns": [{"guess": "alley", "text": "I took alley."}]}
    write(tmp_path / "a.jsonl", row)
    with pytest.raises(ValueError, match="row 1: the text of a turn does not end with its guess: 'alley'"):
        formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "sft", opened)
    formats.convert(tmp_path / "a.jsonl", tmp_path / "c.jsonl", "turns")
    assert data.read_jsonl(tmp_path / "c.jsonl")[0]["turns"][0]["text"] == "I took alley."


@pytest.mark.parametrize(
    "row",
    [
        {**SAMPLES["prompt"], "completion": None},
        {**SAMPLES["chat"], "completion": []},
        {**SAMPLES["response"], "response": None},
        {**SAMPLES["answer"], "answer": None},
        {**SAMPLES["instruction"], "output": None},
        {**SAMPLES["predibase"], "completion": None},
    ],
)
def test_an_empty_column_of_completions_is_no_completion(row, tmp_path):
    write(tmp_path / "a.jsonl", row)
    [record], _ = read(tmp_path / "a.jsonl")
    assert record.completion is None and [turn.guess for turn in record.history][:1] == ["crane"]
    formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "answer")
    assert game(read(tmp_path / "b.jsonl")[0][0]) == game(record)


def test_an_empty_field_of_csv_is_no_completion(tmp_path):
    (tmp_path / "a.csv").write_text("prompt,response\nGuess 1: CRANE BBYBY,\n")
    [record], _ = read(tmp_path / "a.csv")
    assert record.completion is None and len(record.history) == 1


def test_columns_that_are_lost_are_named_and_counted(tmp_path):
    turns = [{"guess": "alley", "rewards": {"win": 1}, "note": ""}]
    rows = [
        {"word": "alley", "turns": turns, "level": 3, "tags": []},
        {"word": "crane", "turns": [], "level": 4},
    ]
    write(tmp_path / "a.jsonl", *rows)
    report = formats.convert(tmp_path / "a.jsonl")
    assert report.unread == {"level": 2, "turns.rewards": 1}
    assert "columns that are not read, and lost: 'level' (2 rows), 'turns.rewards' (1 rows)" in str(report)
    for name in SAMPLES:
        write(tmp_path / "b.jsonl", SAMPLES[name])
        assert not formats.convert(tmp_path / "b.jsonl").unread
    write(tmp_path / "b.jsonl", *({f"column {i}": i, **SAMPLES["prompt"]} for i in range(2000)))
    report = formats.convert(tmp_path / "b.jsonl")
    assert len(report.unread) == 1000 and "and 990 more" in str(report)


def test_the_first_rows_of_each_reason_are_named(tmp_path):
    good, bad = SAMPLES["chat"], {**SAMPLES["chat"], "secret": "zzzzz"}
    write(tmp_path / "a.jsonl", good, bad, good, *[bad] * 20)
    said = str(formats.convert(tmp_path / "a.jsonl"))
    assert "21 left out, row 2: secret is not a word of the lists: 'zzzzz' (also row 4, 5, 6, 7, 8, 9" in said
    assert ", 12, …)" in said and ", 13" not in said
    assert said.endswith("1 left out, row 3: the row repeats an earlier one")


def test_a_folder_of_one_csv_a_word_is_written_and_read(tmp_path):
    """Games of a word that stand apart share a file; a bad row is found by the name of its file."""
    games = [told_game("crane", "alley"), told_game("sound", "crane", secret="crane"), told_game("alley")]
    write(tmp_path / "a.jsonl", *games)
    formats.convert(tmp_path / "a.jsonl", tmp_path / "words", "traces")
    assert sorted(path.name for path in (tmp_path / "words").iterdir()) == ["alley.csv", "crane.csv"]
    formats.convert(tmp_path / "words", tmp_path / "b.jsonl", "turns")
    assert data.read_jsonl(tmp_path / "b.jsonl") == [games[0], games[2], games[1]]
    with open(tmp_path / "words" / "crane.csv", "a") as file:
        file.write("2,crane,1,zzzzz,BBBBB,ok,ok,,False,1\n")
    said = next(iter(formats.convert(tmp_path / "words").first.values()))
    assert said == "row 3 of crane.csv: guess is not a word of the lists: 'zzzzz'"


def test_files_that_are_named_by_the_secret_need_no_column_of_it(tmp_path):
    """A file alone, or some in a folder; a name that is no word is the reason that any such secret is."""
    (tmp_path / "words").mkdir()
    for name in ("alley", "CRANE", "zzzzz", "games of ann"):
        (tmp_path / "words" / f"{name}.csv").write_text(
            f"turn,guess,feedback\n1,sound,\n2,{name.lower()},GGGGG\n"
        )
    kept, report = read(tmp_path / "words")
    assert [(r.secret, [turn.guess for turn in r.history]) for r in kept] == [
        ("crane", ["sound", "crane"]),
        ("alley", ["sound", "alley"]),
    ]
    assert list(report.first.values()) == [
        "row 1 of games of ann.csv: secret is not a word of 5 letters a-z: 'games of ann'",
        "row 1 of zzzzz.csv: secret is not a word of the lists: 'zzzzz'",
    ]
    assert read(tmp_path / "words" / "alley.csv")[0][0].secret == "alley"
    (tmp_path / "alley.csv").write_text("word,turn,guess,feedback\ncrane,1,crane,GGGGG\n")
    with pytest.raises(ValueError, match="no known form has the columns word, turn"):
        read(tmp_path / "alley.csv")


def lines(*texts, secret="alley") -> dict:
    history = ()
    for text in texts:
        history += (take_turn(*parse_guess(text), text, secret, history, WORDS, RULES),)
    return {"word": secret, "turns": [turn._asdict() for turn in history]}


def test_games_are_summed_up_by_word_and_chosen_as_those_of_a_teacher(tmp_path, capsys):
    """Bad feedback is dropped by the checks, the rest by `distil`; the shortest game of each secret stays."""
    say = lambda guess: completion([guess], guess)  # noqa: E731
    lie = "<think>C is in the word</think><guess>alley</guess>"
    games = [
        lines(say("crane"), say("sweat"), say("alley")),
        lines(say("crane"), lie),
        {"word": "alley", "turns": [["allot", "GGBBB"]]},
        lines(say("sweat"), say("alley")),
        lines(*[say("sound")] * 6, secret="crane"),
        lines(say("alley")[:-1], say("alley")),
        lines(say("sound"), secret="query"),
    ]
    write(tmp_path / "a.jsonl", *games)
    command = ["convert", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--to", "turns"]
    assert main([*command, "--keep", "1", "--summary", str(tmp_path / "sum")]) == 0
    assert data.read_jsonl(tmp_path / "b.jsonl") == [games[3]]
    with open(tmp_path / "sum" / "games.csv", newline="") as file:
        table = list(csv.DictReader(file))
    why = "false statement: 1; feedback contradicts the secret: 1; invalid turn: 1; longer than others: 1"
    assert table == [
        {
            "secret": "alley",
            "part": "",
            "games": "5",
            "won": "4",
            "kept": "1",
            "fewest_guesses": "2",
            "dropped": why,
        },
        {
            **{"secret": "crane", "part": "", "games": "1", "won": "0", "kept": "0", "fewest_guesses": ""},
            **{"dropped": "contradicts the feedback: 1"},
        },
    ]
    assert (tmp_path / "sum" / "games_won.txt").read_text() == "alley\n"
    assert (tmp_path / "sum" / "games_lost.txt").read_text() == "crane\n"
    said = capsys.readouterr().out
    assert "row 1: longer than others" in said and "row 7: no finished game" in said
    assert "1 statements about letters in 1 of" in said and "such as row 2: 'C is in the word'" in said
    assert "6 games of 2 words, 4 won; 1 words won at least once, 1 never" in said
    assert main([*command[:2], "--keep", "-1"]) == 2 and "keep is -1" in capsys.readouterr().err


def test_games_of_which_none_is_worth_keeping_are_summed_up_all_the_same(tmp_path):
    write(tmp_path / "a.jsonl", told_game(*["crane"] * 6))
    with pytest.raises(ValueError, match="none of 1 rows can be written as turns; row 1: other form"):
        formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "turns", keep=1, summary=tmp_path)
    assert (tmp_path / "games_lost.txt").read_text() == "alley\n" and not (tmp_path / "b.jsonl").exists()


def test_a_summary_writes_over_nothing(tmp_path, capsys):
    """Least of all over its source, whose name may be that of its table."""
    source = tmp_path / "games.csv"
    source.write_text("secret,turn,guess,feedback\nalley,1,alley,GGGGG\n")
    before = source.read_bytes()
    for folder, why in ((tmp_path, "is there already"), (source, "is a file")):
        made = tmp_path / "made.jsonl"
        assert main(["convert", str(source), str(made), "--to", "turns", "--summary", str(folder)]) == 2
        assert why in capsys.readouterr().err and source.read_bytes() == before and not made.exists()


def test_a_summary_that_cannot_be_written_is_an_error_before_anything_is(tmp_path, capsys):
    source, made = tmp_path / "a.jsonl", tmp_path / "made.jsonl"
    write(source, told_game("crane", "alley"))
    assert main(["convert", str(source), str(made), "--to", "turns", "--summary", str(source / "x")]) == 2
    assert f"{source / 'x'}: no summary can be written there" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [source]
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for folder, why in (
        (made, "rows are written to"),
        (made / "x", "rows are written to"),
        (tmp_path / "link", "is a file"),
    ):
        assert main(["convert", str(source), str(made), "--to", "turns", "--summary", str(folder)]) == 2
        assert why in capsys.readouterr().err and not made.exists()


def test_without_a_choice_all_games_are_kept_and_summed_up(opened, tmp_path):
    held_out = opened.split.test[0]
    write(
        tmp_path / "a.jsonl",
        told_game("crane", "alley"),
        told_game("alley"),
        told_game(held_out, secret=held_out),
    )
    report = formats.convert(tmp_path / "a.jsonl", data=opened, summary=tmp_path)
    assert (tmp_path / "games.csv").read_text().splitlines()[1:] == ["alley,train,2,2,2,1,"]
    assert report.kept == 2
    write(tmp_path / "b.jsonl", SAMPLES["chat"])
    with pytest.raises(ValueError, match="no finished game of a known secret"):
        formats.convert(tmp_path / "b.jsonl", summary=tmp_path / "b")


SMALL = data.game_words(sample=40)
SMALL_RULES = rules_for(SMALL)
SMALL_SPLIT = split_secrets(SMALL, test=20, val=2)


def brought(path, secrets) -> None:
    """Games of a stranger, one a secret, of another word and the secret; of the last one no text is kept."""
    games = []
    for secret in secrets:
        kept = secret != secrets[-1]
        turns = [
            {
                "guess": g,
                "feedback": score(g, secret),
                "text": f"<think>{secret}</think><guess>{g}</guess>" * kept,
            }
            for g in (SMALL.answers[-1], secret)
        ]
        games.append({"word": secret, "turns": turns})
    write(path, *games, games[0])


@pytest.mark.parametrize("with_validation", [True, False])
def test_a_file_can_be_the_teacher_of_a_data_folder(tmp_path, with_validation, capsys):
    """Rows of training secrets alone teach, those of validation secrets validate, the others are counted;
    without a validation row in the file the solver's stay. A game without texts teaches its guesses alone.
    The rows that wait leave no file behind."""
    train, val, test = SMALL_SPLIT
    secrets = [*train[:3], *(val if with_validation else ()), test[0], train[3]]
    brought(tmp_path / "theirs.jsonl", secrets)
    out = tmp_path / "out"
    out.mkdir()
    run = SimpleNamespace(dir=out, config=SimpleNamespace(traces=str(tmp_path / "theirs.jsonl")))
    taught = formats.teach(run, SMALL, SMALL_RULES, SMALL_SPLIT)
    card = data.build(out, SMALL_RULES, SMALL_SPLIT, source={"sample": 40}, rows=9, states=5, taught=taught)
    assert card["teacher"] == {
        **{"traces": str(tmp_path / "theirs.jsonl"), "form": "turns"},
        **{"rows": len(secrets) + 1, "rows_kept": len(secrets) - 1},
        "left_out": {"secret is held out": 1, "the row repeats an earlier one": 1},
        **{"guesses_alone": 2, "false_statements": 0},
    }
    said = capsys.readouterr().out
    assert f"1 left out, row {len(secrets) - 1}: secret is held out: '{test[0]}'" in said
    assert "2 turns of games without texts, written as the guess alone" in said
    opened = data.load(out)
    rows = opened.rows("sft")
    assert [row["secret"] for row in rows] == [secret for secret in train[:4] for _ in range(2)]
    assert card["files"]["sft"]["by_source"] == {"import": 8}
    assert card["files"]["sft"]["duplicates_removed"] == 0
    assert rows[0]["prompt"] == messages((), SMALL_RULES)
    assert rows[-1]["completion"][0]["content"] == completion([train[3]], train[3])
    sources = card["files"]["sft_val"]["by_source"]
    assert sources == {"import": 4} if with_validation else "import" not in sources
    assert {row["secret"] for row in opened.rows("sft_val")} == set(val)
    assert {path.name for path in out.iterdir()} == {
        *("card.json", "sft.jsonl", "sft.parquet", "sft_val.jsonl", "states.jsonl", "states.parquet"),
        "traces.csv",
    }


def test_a_file_that_teaches_no_training_secret_is_an_error(tmp_path):
    brought(tmp_path / "theirs.jsonl", SMALL_SPLIT.test[:2])
    run = SimpleNamespace(dir=tmp_path, config=SimpleNamespace(traces=str(tmp_path / "theirs.jsonl")))
    with pytest.raises(ValueError, match="no row of 3 teaches a training secret; row 1: secret is held out"):
        formats.teach(run, SMALL, SMALL_RULES, SMALL_SPLIT)
    assert not [*tmp_path.glob("sft*")]
    run.config.traces = str(tmp_path / "nowhere.jsonl")
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        formats.teach(run, SMALL, SMALL_RULES, SMALL_SPLIT)


def test_the_notebooks_train_on_rows_that_a_user_brings(project):
    """01 with the file as the teacher, then 02 on what it made."""
    import papermill

    brought(project / "theirs.jsonl", [*SMALL_SPLIT.train[:8], *SMALL_SPLIT.val, *SMALL_SPLIT.test[:3]])
    stages = {
        "01_data_synthesis": {
            **{"sample_words": 40, "test_secrets": 20, "val_secrets": 2, "n_states": 10, "renderer": "words"},
            **{"teacher": "file", "traces": str(project / "theirs.jsonl")},
        },
        "02_sft": {"max_steps": 2},
    }
    for stage, changes in stages.items():
        notebook, values = ROOT / "notebooks" / f"{stage}.ipynb", {"run": str(project / "mine"), **changes}
        papermill.execute_notebook(notebook, project / f"{stage}.ipynb", values, progress_bar=False)
    card = data.read_card(project / "mine" / "01_data_synthesis")
    assert card["files"]["sft"]["by_source"] == {"import": 16}
    assert card["teacher"]["left_out"]["secret is held out"] == 3
    shown = (project / "01_data_synthesis.ipynb").read_text()
    assert "3 left out, row 11: secret is held out" in shown
    assert runs.read_json(project / "mine" / "02_sft" / "metrics.json")["steps"] == 2


def test_a_whole_game_gives_a_training_row_for_each_answer(opened, tmp_path):
    turns = [{"guess": g, "text": completion([g], g)} for g in ("crane", "sweat", "alley")]
    write(tmp_path / "a.jsonl", {"word": "alley", "turns": turns}, {"word": "alley", "turns": turns[:2]})
    report = formats.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "sft", opened)
    rows = data.read_jsonl(tmp_path / "b.jsonl")
    assert report.made == len(rows) == 3 and report.kept == 2
    assert [len(decode_history(row["history"])) for row in rows] == [0, 1, 2]


def test_wrong_feedback_is_counted_shown_and_left_out(tmp_path):
    """The second l of `allot` is in its place: a set that marks it absent is found out."""
    write(
        tmp_path / "a.jsonl",
        {"word": "alley", "turns": [["allot", "GGGBB"], ["alley", "GGGGG"]]},
        {"word": "alley", "turns": [["allot", "GGBBB"]]},
        {"word": "crane", "turns": [["sound", "GBBBB"]]},
    )
    kept, report = read(tmp_path / "a.jsonl")
    assert len(kept) == 1 and report.left_out == {"feedback contradicts the secret": 2}
    assert (report.turns, report.disagreements, report.repeated) == (4, 2, 1)
    assert "row 2: allot for alley is GGGBB, not GGBBB" in str(report)
    assert "feedback of 2 of 4 turns is not that of the secret (1 with a repeated letter)" in str(report)


HISTORY = json.dumps([["crane", "BBYBY"]] * 6)


@given(st.text("abc", min_size=4, max_size=4), st.text("BYG", min_size=4, max_size=4))
def test_words_that_fit_a_turn_are_those_that_score_so(guess, feedback):
    """All words of four letters a, b, c, so that letters repeat; orders of marks that no game gives too."""
    every = ["".join(letters) for letters in itertools.product("abc", repeat=4)]
    found = records.fits(every)(guess, feedback)
    scored = [word for word in every if score(guess, word) == feedback]
    assert [word for number, word in enumerate(every) if found >> number & 1] == scored


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"secret": "zzzzz"}, "secret is not a word of the lists: 'zzzzz'"),
        ({"secret": "alleys"}, "secret is not a word of 5 letters"),
        ({"secret": 5}, "secret is not a text: int"),
        ({"history": '[["zzzzz","BBBBB"]]'}, "guess is not a word of the lists: 'zzzzz'"),
        ({"history": '[["crane","GGGGG"],["sweat","BBBBB"]]'}, "turns go on after a win: 'crane'"),
        ({"history": '[["crane","GGGGG"]]'}, "turns go on after a win: 'crane'"),
        ({"history": HISTORY}, "more turns than the 6 of the game: 6"),
        ({"history": '[["crane","BBYBY"]]', "secret": "crane"}, "feedback contradicts the secret: 'crane'"),
        ({"history": '[["crane","BBBBB"],["crane","YBBBB"]]'}, "feedback fits no word of the lists"),
        ({"history": '[["crane","ABCDE"]]'}, "feedback in no known notation: 'ABCDE'"),
        ({"history": '[["crane","BBBB"]]'}, "feedback in no known notation: 'BBBB'"),
        (
            {"history": '[["crane","S(x) W(x) E(-) A(-) T(x)"]]'},
            "feedback spells another word than the guess",
        ),
        ({"history": '[["crane",""]]'}, "neither feedback nor a secret to score a guess: 'crane'"),
        ({"history": '[["crane",null,"ok","not_a_word"]]'}, "marked invalid that the game takes"),
        ({"history": [["crane", ["absent", "present"]]]}, "feedback in no known notation: 'absent present'"),
        ({"history": [["crane", [True] * 5]]}, "feedback in no known notation: [True"),
        ({"history": '[["crane","bBygg"]]'}, "feedback in no known notation: 'bBygg'"),
        ({"history": '[["crane","0 0 0 1 0 2"]]'}, "feedback in no known notation: '0 0 0 1 0 2'"),
        ({"history": {"a": 1}}, "the turns are no list"),
        (
            {"secret": "alley", "word": "sweat"},
            "secret and word of the row are two words: 'alley' and 'sweat'",
        ),
        ({"prompt": "", "completion": None}, "neither a guess nor a secret in the row"),
        ({"history": '{"a": 1}'}, "the turns are no list"),
        ({"history": "nothing"}, "the column of past guesses is no list: 'nothing'"),
        ({"history": "[5]"}, "a turn is no word, pair or object: 5"),
        ({"history": "[" * 5000}, "the column of past guesses is no list"),
        ({"prompt": 5}, "prompt is neither a text nor a list of messages: int"),
        ({"prompt": [5]}, "prompt holds something that is no message"),
        ({"prompt": [{"role": "user"}]}, "prompt holds a message without a text as role and content"),
        ({"prompt": "Guess 2: CRANE BBYBY"}, "the guesses in the prompt are not numbered from 1: 2"),
        ({"prompt": "Guess 1: CRANE good"}, "feedback in no known notation: 'CRANE good'"),
        ({"completion": "allot"}, "no guess in the completion: no_tag"),
        ({"completion": "<guess>zzzzz</guess>"}, "guess is not a word of the lists: 'zzzzz'"),
        ({"completion": "<guess>аllot</guess>"}, "no guess in the completion: not_letters"),
        ({"completion": "<guess>alle\u0301</guess>"}, "not_letters, with accents as characters of their own"),
        ({"completion": "\ud800"}, "half a character (a lone surrogate)"),
        ({"completion": {"a": 1}}, "completion is neither a text nor a list of messages: dict"),
        ({}, "the row repeats an earlier one"),
    ],
)
def test_a_row_that_breaks_a_rule_is_left_out_with_its_reason(row, message, tmp_path):
    refused(tmp_path, row, message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"prompt": "a', "row 2: not JSON, the row seems half written"),
        (b'{"prompt": "\xff"}\n', "row 2: not JSON"),
        (b"[1]\n", "row 2: not a JSON object: list"),
        (b'{"prompt": "a"}\n', "row 2: column 'completion' is missing"),
        (b'{"a": "' + b"x" * (1 << 21) + b'"}\n', "row 2: the row is longer than 1,048,576 bytes"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n", "row 2: not JSON"),
    ],
)
def test_damaged_lines_are_left_out_and_the_next_is_read(line, message, tmp_path):
    good = json.dumps(SAMPLES["chat"]).encode()
    other = json.dumps(SAMPLES["chat"] | {"secret": "alley"}).encode()
    tail = b"" if line.startswith(b'{"prompt": "a') and not line.endswith(b"\n") else b"\r\n" + other
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + good + b"\r\n" + line + tail)
    kept, report = read(tmp_path / "a.jsonl")
    assert len(kept) == (2 if tail else 1)
    [said] = report.first.values()
    assert said.startswith(message)


# The name of a test holds it, and must be the same in all processes: no time in it.
TORN = gzip.compress(b'{"a": 1}\n' * 1000, mtime=0)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "none.jsonl: no such file or folder"),
        ("a.jsonl", b"", "there are no rows in it"),
        ("a.jsonl", b"\n\r\n", "there are no rows in it"),
        ("a.csv", b"", "there are no rows in it"),
        ("a.csv", b"secret,turn,guess,feedback\n", "there are no rows in it"),
        ("a.csv", b"prompt,prompt,completion\na,b,c\n", "two columns have the name 'prompt'"),
        ("a.csv", b"secret,turn,guess,feedback\n\xff,1,crane,\n", "not a UTF-8 text file"),
        ("a.txt", b"crane", r"use .jsonl or .csv \(also with .gz\), .parquet or a folder"),
        ("a.parquet.gz", b"crane", r"use .jsonl or .csv \(also with .gz\), .parquet or a folder"),
        ("a.csv.gz", b"crane", "not a whole gzip file"),
        ("a.parquet", b"", "not a whole table"),
        ("a.parquet", b"PAR1 and then nothing", "not a whole table"),
        ("a.jsonl.gz", b"nothing", "not a whole gzip file"),
        ("a.jsonl.gz", TORN, "not a whole gzip file|no known form"),
        ("a.jsonl", b'{"text": "a"}\n', "row 1: no known form has the columns text; known are prompt"),
        ("a.jsonl", b"hello\n", "row 1: not JSON.*; no row up to 1 can be read"),
    ],
)
def test_a_bad_file_is_one_sentence_and_exit_code_2(name, content, message, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main(["convert", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1


def test_a_folder_is_a_dataset_or_csv_files(tmp_path, capsys):
    assert main(["convert", str(tmp_path)]) == 2
    assert "a folder without CSV files" in capsys.readouterr().err
    write(tmp_path / "a.jsonl", SAMPLES["chat"])
    (tmp_path / "set").mkdir()
    formats.convert(tmp_path / "a.jsonl", tmp_path / "set" / "train", "chat")
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    assert main(["convert", str(tmp_path / "set" / "train")]) == 0
    assert main(["convert", str(tmp_path / "set")]) == 2
    assert "a dataset of the splits train; name the folder of one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "target", "form", "message"),
    [
        (
            "chat",
            "b.jsonl",
            "turns",
            "none of 1 rows can be written as turns; row 1: no secret, which the form",
        ),
        ("predibase", "b.jsonl", "prompt", "row 1: no completion, which the form prompt needs"),
        ("chat", "b.jsonl", "sft", "the form sft needs a data folder"),
        ("chat", "b.txt", "chat", "end it with .jsonl, .parquet or .csv"),
        ("chat", "b.csv", "chat", "the form traces, and no other, is written as .csv"),
        ("chat", "a.jsonl", "chat", "is there already"),
        ("chat", "none/b.jsonl", "chat", "no such folder to write b.jsonl to"),
    ],
)
def test_a_target_that_does_not_fit_is_one_sentence(row, target, form, message, tmp_path, capsys):
    write(tmp_path / "a.jsonl", SAMPLES[row])
    before = sorted(tmp_path.iterdir())
    assert main(["convert", str(tmp_path / "a.jsonl"), str(tmp_path / target), "--to", form]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write")
@pytest.mark.parametrize(
    ("name", "form"), [("b.jsonl", "chat"), ("b.parquet", "chat"), ("b", "chat"), ("b.csv", "traces")]
)
def test_a_folder_that_cannot_be_written_is_named_with_the_target(name, form, tmp_path, capsys):
    write(tmp_path / "a.jsonl", {**SAMPLES["chat"], "secret": "alley"})
    assert main(["convert", str(tmp_path / "a.jsonl"), f"/proc/{name}", "--to", form]) == 2
    error = capsys.readouterr().err
    assert f"wordlelib: cannot write {name} in /proc (" in error and error.count("\n") == 1
    assert ".tmp" not in error and "Errno" not in error


def test_the_command_checks_converts_and_says_what_was_left_out(tmp_path, capsys):
    write(tmp_path / "a.jsonl", SAMPLES["chat"], {**SAMPLES["chat"], "secret": "zzzzz"})
    assert main(["convert", str(tmp_path / "a.jsonl")]) == 1
    said = capsys.readouterr().out
    assert "2 rows of the form completion, 1 kept" in said
    assert "1 left out, row 2: secret is not a word of the lists: 'zzzzz'" in said
    assert main(["convert", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--to", "messages"]) == 0
    assert "b.jsonl: 1 rows of the form messages" in capsys.readouterr().out


def test_csv_with_windows_line_ends_and_a_mark_at_its_start(tmp_path):
    lines = (
        "secret,turn,guess,feedback",
        "alley,1,crane,BBYBY",
        "alley,2,alley,GGGGG",
        "crane,2,crane,GGGGG",
    )
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join((*lines, "alley,1", "")).encode())
    [record], report = read(tmp_path / "a.csv")
    assert [turn.guess for turn in record.history] == ["crane", "alley"]
    assert list(report.first.values()) == [
        "row 3: the turns of a game are not numbered from 1: 'crane'",
        "row 4: the row has another number of fields than the header",
    ]


def test_a_field_of_csv_that_is_too_long_is_left_out(tmp_path):
    with open(tmp_path / "a.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["prompt", "response"])
        rows.writerow(["Begin.", TEXT])
        rows.writerow(["x" * 200_000, TEXT])
        rows.writerow(["Start.", TEXT])
    kept, report = read(tmp_path / "a.csv")
    assert len(kept) == 2 and "row 2: not CSV: field larger" in next(iter(report.first.values()))


def test_a_line_of_csv_that_is_too_long_is_not_read_into_memory(tmp_path):
    """Neither as a row, which is left out, nor as the header, without which no row can be read."""
    long, good = "x," * 8_000_000, f"Begin.,{TEXT}\r\n"
    (tmp_path / "a.csv").write_text(f"prompt,response\r\n{long}\r\n{good}", newline="")
    tracemalloc.start()
    kept, report = read(tmp_path / "a.csv")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50e6  # the line alone has 16 million characters
    assert [record.number for record in kept] == [2]
    assert list(report.first.values()) == ["row 1: the row is longer than 1,048,576 characters"]
    (tmp_path / "b.csv").write_text(f"{long}\nprompt,response\n{good}", newline="")
    with pytest.raises(ValueError, match="line 1: no header of a CSV file"):
        read(tmp_path / "b.csv")


@pytest.mark.parametrize(
    ("past", "kept"),
    [
        ([["crane", "GGGGG"]], False),
        ([["chess", "GBBBB"], ["brand", "BGGGB"], ["trace", "BGGYG"], ["grape", "BGGBG"]], False),
        ([["chess", "GBBBB"]], True),  # other answers fit as well
        ([["alley", "GGGGG"]], True),  # a training secret
    ],
)
def test_a_held_out_secret_that_only_its_feedback_tells_is_left_out(past, kept, opened, tmp_path):
    past = [[guess, score(guess, "crane") if guess != "alley" else marks] for guess, marks in past]
    write(tmp_path / "a.jsonl", {"prompt": "", "history": past, "secret": None})
    report = formats.convert(tmp_path / "a.jsonl", data=opened)
    assert report.kept == kept
    assert kept or "only a secret fits which is held out" in next(iter(report.left_out))


def test_a_word_whose_accents_are_characters_of_their_own_is_the_same_word(tmp_path):
    (tmp_path / "words.txt").write_text("niñas\nperro\n", encoding="utf-8")
    words = load_words(tmp_path / "words.txt", tmp_path / "words.txt", "a-zñ")
    rules = rules_for(words, alphabet="a-zñ")
    write(
        tmp_path / "a.jsonl", {"word": "nin\u0303as", "turns": [["perro", "BBBBB"], ["nin\u0303as", "GGGGG"]]}
    )
    report = formats.Report("a.jsonl")
    [record] = formats.records(tmp_path / "a.jsonl", words, rules, report, {})
    assert record.secret == record.history[1].guess == "niñas"


@st.composite
def plays(draw) -> formats.Record:
    """A state of a game with legal and invalid turns and, mostly, a completion."""
    secret, history = draw(st.sampled_from(WORDS.answers)), ()
    for guess in draw(st.lists(st.sampled_from((*WORDS.allowed[:300], "zzzzz", None)), max_size=5)):
        if guess != secret:
            reason = "ok" if guess else "empty"
            history += (take_turn(guess, reason, "", secret, history, WORDS, RULES),)
    thought = draw(st.text(st.characters(exclude_characters="<>|", exclude_categories=["Cs"]), max_size=20))
    said = draw(
        st.none() | st.just(f"<think>{thought}</think><guess>{draw(st.sampled_from(WORDS.allowed))}</guess>")
    )
    return formats.Record(1, history, secret, said)


@settings(max_examples=40)
@given(
    record=plays(), form=st.sampled_from([form for form in formats.FORMS if form not in ("sft", "traces")])
)
def test_any_record_comes_back_from_any_form_that_holds_it(record, form):
    """Through JSON text, so that types of the container count; a form that cannot hold it says so."""
    try:
        row = json.loads(json.dumps(formats.written(record, form, WORDS, RULES)))
    except containers.Bad as why:
        assert "form" in str(why)
        assert record.completion is None or form == "predibase"
        return
    back = formats._record(1, row, formats.detect(row), RULES)
    [state] = formats._states(formats.checker(WORDS, RULES, {})(back, formats.Report("")), "chat", RULES)
    assert game(state)[:2] == game(record)[:2] and (state.completion or None) == record.completion


@settings(max_examples=40)
@given(record=plays(), renderer=st.sampled_from(("words", "symbols", "both")))
def test_own_prompts_are_read_without_any_column(record, renderer):
    rules = rules_for(WORDS, renderer=renderer)
    back = formats._chat_history(messages(record.history, rules), rules)
    assert [turn[:2] for turn in back] == [turn[:2] for turn in record.history]
    assert all(is_consistent(record.secret, [turn]) for turn in back if turn.feedback)


@given(record=plays())
def test_prompts_that_leave_guesses_out_are_not_read_as_other_games(record):
    """States in facts tell past turns together: without a column of them the row is refused."""
    rules = rules_for(WORDS, renderer="facts")
    chat = messages(record.history, rules)
    if all(turn.feedback is None and turn.rule != "not_a_word" for turn in record.history):
        assert len(formats._chat_history(chat, rules)) == len(record.history)
    else:
        with pytest.raises(containers.Bad, match=r"past guesses|not numbered"):
            formats._chat_history(chat, rules)


def test_games_under_facts_become_one_chat_that_tells_each_guess():
    """A chat has no summary to name past guesses in, so it shows them as states in words do."""
    past = (Turn("crane", "BBYBY", text="<think></think><guess>crane</guess>"),)
    record = formats.Record(1, past, "alley", TEXT)
    facts = rules_for(WORDS, renderer="facts")
    row = formats.written(record, "messages", WORDS, facts)
    assert "Guess 1: C:absent R:absent A:present" in row["messages"][3]["content"]
    assert row == formats.written(record, "messages", WORDS, RULES)
    back = formats._chat_history(row["messages"][:-1], facts)
    assert [turn[:2] for turn in back] == [("crane", "BBYBY")]


@given(text=st.text("BYGX_012⬛🟨🟩Aé(✓x-):?! =\n", max_size=30), n=st.integers(1, 8))
def test_reading_feedback_is_total(text, n):
    read = notations.read_feedback(text, n)
    assert read is None or (len(read[1]) == n and set(read[1]) <= set("BYG"))


@pytest.mark.parametrize("renderer", ["words", "symbols", "both"])
def test_each_renderer_is_a_known_notation(renderer):
    line = render_turn(1, Turn("allot", "GGGBB"), rules_for(WORDS, renderer=renderer))
    assert notations.read_feedback(line.partition(": ")[2], 5) == ("ALLOT", "GGGBB")
    assert parse_guess(TEXT).guess == "allot"


def test_the_forms_that_the_command_line_offers_are_those_there_are():
    assert tuple(formats.FORMS) == params.DATA_FORMS


@pytest.mark.parametrize(
    "told",
    [
        "SLATE => BBBBB",
        "1. SLATE: BBGBG",
        "**Guess 1**: SLATE BBBBB",
        "Guess: SLATE, BBBBB",
        "slate ⬛🟨⬛⬛🟩",
        "SLATE | ⬛ 🟨 ⬛ ⬛ 🟩",
        "S L A T E -> B B G B G",
        "slate: 0 0 2 0 2",
        "SLATE → gray gray green gray green",
        "Guess: slate\nFeedback: BBGBG",
        '{"guess": "slate", "feedback": "BBGBG"}',
        "I guessed slate and got S(x) L(x) A(✓) T(x) E(✓)",
        "s:absent l:absent a:correct t:absent e:correct",
    ],
)
def test_past_guesses_in_an_unknown_layout_are_not_taken_for_none(told, tmp_path):
    """The row would teach thinking about feedback that its new prompt does not show."""
    row = {"prompt": [{"role": "user", "content": f"Play.\n{told}\nYour guess?"}], "secret": "alley"}
    refused(tmp_path, row, "past guesses in no known layout")


@pytest.mark.parametrize("text", ["{[]: 1}", "{[]}", "[{[]}]"])
def test_a_history_that_python_cannot_hold_is_a_bad_row(text, tmp_path):
    refused(tmp_path, {"history": text, "secret": "alley"}, "the column of past guesses is no list")


@pytest.mark.parametrize(
    "told", ["Feedback is 0, 1 or 2 for each letter.", "Marks: gray, yellow, green.", "Try 10 words a game."]
)
def test_a_prompt_that_explains_feedback_tells_no_guess(told):
    assert notations.text_history(f"{told}\nYour first guess?", RULES) == ()


def test_half_a_character_within_a_history_is_a_bad_row(tmp_path):
    """One that JSON of the row does not show, since it is escaped once more: no table could be written."""
    text = r'[["crane", "BBYBY", "ok", "ok", "\ud83d"]]'
    refused(tmp_path, {"history": text, "secret": "alley"}, "half a character")
    formats.convert(tmp_path / "rows.jsonl", tmp_path / "made.parquet", "messages")
    row = {**PREDIBASE, "past_guess_history": r"[['CRANE', 'C(x) R(x) A(-) N(x) E(-)\ud83d']]"}
    write(tmp_path / "own.jsonl", PREDIBASE, row)
    assert read(tmp_path / "own.jsonl")[1].left_out == {"half a character (a lone surrogate)": 1}


def test_damage_of_a_table_or_a_folder_names_it(tmp_path, capsys):
    import pyarrow
    from pyarrow import parquet

    write(tmp_path / "a.jsonl", SAMPLES["chat"])
    formats.convert(tmp_path / "a.jsonl", tmp_path / "a.parquet", "prompt")
    whole = bytearray((tmp_path / "a.parquet").read_bytes())
    whole[4:60] = b"\xff" * 56  # the pages are damaged, and the footer is not
    (tmp_path / "torn.parquet").write_bytes(whole)
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 3, ["prompt", "response", "prompt"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    said = {"torn.parquet": "not a whole table", "twice.parquet": "two columns have the name 'prompt'"}
    for number, (name, content) in enumerate([("state.json", "{"), ("dataset_info.json", "[]")]):
        formats.convert(tmp_path / "a.jsonl", tmp_path / f"set{number}", "chat")
        (tmp_path / f"set{number}" / name).write_text(content)
        said[f"set{number}"] = "not a whole folder of `datasets`"
    capsys.readouterr()
    for name, why in said.items():
        assert main(["convert", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert f"{name}: {why}" in error and error.count("\n") == 1


class Ending(dict):
    """Held-out secrets that end the process which looks one up."""

    def get(self, *_):
        os._exit(1)


def many_rows(path) -> None:
    """Good rows, and every kind of thing that a report counts, with repeats that stand far apart."""
    good = [
        {**SAMPLES["chat"], "secret": "alley", "history": [[guess, score(guess, "alley")]], "id": guess}
        for guess in WORDS.answers[:300]
        if guess != "alley"
    ]
    rows = [
        *(good, good[:5], [{**good[3], "history": [["crane", "GGGGY"]]}] * 7, [{"secret": "alley"}] * 3),
        [
            {**good[0], "completion": f"<think>{'A is absent. ' * n}</think><guess>alley</guess>"}
            for n in (1, 2)
        ],
        [{**row, "history": [*row["history"], ["alley", "GGGGG"]]} for row in good[:20]],
        [{**row, "secret": "zzzzz"} for row in good[:20]],
    ]
    lines = [json.dumps(row) for row in itertools.chain(*rows)]
    lines[50:50] = ["", "no row", '"' + "x" * containers.LONGEST_ROW + '"', "{}"]
    opening = gzip.open if path.suffix == ".gz" else open
    with opening(path, "wt", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(lines))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_is_found_depends_on_no_number_of_processes(name, tmp_path, monkeypatch):
    """Neither the report, with its numbers, examples and their order, nor the rows that are written."""
    many_rows(tmp_path / name)
    alone = formats.convert(tmp_path / name, tmp_path / "alone.jsonl", "turns")
    assert alone.kept > 300 and len(alone.left_out) >= 6 and alone.left_out["the row repeats an earlier one"]
    assert alone.false_texts and alone.disagreements and alone.unread["id"] and alone.words
    monkeypatch.setattr(containers, "BLOCK", 20_000)
    monkeypatch.setattr(formats, "FEW", 2)
    asked = []
    many = formats.each_done
    monkeypatch.setattr(formats, "each_done", lambda *args: asked.append(args[2]) or many(*args))
    for workers in (1, 2, 3):
        assert (
            formats.convert(tmp_path / name, tmp_path / f"{workers}.jsonl", "turns", workers=workers) == alone
        )
        assert (tmp_path / f"{workers}.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()
        assert str(formats.convert(tmp_path / name, workers=workers)) == str(alone)
    assert asked == [1, 1, 2, 2, 3, 3]


def test_a_file_that_is_checked_before_a_process_could_start_starts_none(tmp_path, monkeypatch):
    asked = []
    many = formats.each_done
    monkeypatch.setattr(formats, "each_done", lambda *args: asked.append(args[2]) or many(*args))
    write(tmp_path / "a.jsonl", *[SAMPLES["chat"]] * 3)
    formats.convert(tmp_path / "a.jsonl", tmp_path / "a.parquet", "chat", workers=2)
    formats.convert(tmp_path / "a.parquet", workers=2)
    assert asked == [1, 1]


def test_damage_that_shows_only_far_in_a_file_and_a_process_that_ends_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "BLOCK", 20_000)
    monkeypatch.setattr(formats, "FEW", 2)
    many_rows(tmp_path / "a.jsonl.gz")
    with pytest.raises(MemoryError, match="one of 2 processes that check rows was ended"):
        list(formats.records(tmp_path / "a.jsonl.gz", WORDS, RULES, formats.Report(""), Ending(), workers=2))
    whole = (tmp_path / "a.jsonl.gz").read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(whole[:-20])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        formats.convert(tmp_path / "a.jsonl.gz", workers=2)


@pytest.mark.parametrize("block", [1, 7, 40, 100])
def test_rows_do_not_depend_on_where_a_file_is_cut(block, tmp_path, monkeypatch):
    """Lines that are too long, too, which may begin in one part and end in another."""
    lines = [{"n": 1}, {}, {"n": "x" * 30}, {"n": "x" * 300}, {"n": 2}, {"n": "x" * 29}, {"n": "x" * 900}]
    text = "\ufeff" + "\r\n".join(map(json.dumps, lines)).replace("{}", "")
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8", newline="")
    monkeypatch.setattr(containers, "LONGEST_ROW", 40)
    monkeypatch.setattr(containers, "BLOCK", block)
    rows = dict(containers.read_rows(tmp_path / "a.jsonl"))
    assert [n for n, row in rows.items() if isinstance(row, containers.Bad)] == [3, 4, 7]
    assert {n: row["n"] for n, row in rows.items() if isinstance(row, dict)} == {1: 1, 5: 2, 6: "x" * 29}


def test_a_turn_without_a_game_is_a_bad_row(tmp_path):
    """As where a folder of one file a word holds another table too."""
    turn = {"game": "1", "secret": "alley", "turn": "1", "guess": "alley", "feedback": "GGGGG"}
    write(tmp_path / "a.jsonl", turn, {"word": "alley", "n": 1})
    kept, report = read(tmp_path / "a.jsonl")
    assert len(kept) == 1 and dict(report.left_out) == {"no secret": 1}


def test_a_date_that_python_cannot_hold_is_said_of_the_file(tmp_path):
    import pyarrow
    from pyarrow import parquet

    row = {"prompt": "Guess 1: CRANE BBYBY", "response": "<guess>alley</guess>"}
    days = pyarrow.array([10**7], pyarrow.int32()).cast(pyarrow.date32())
    table = pyarrow.Table.from_pylist([row]).append_column("day", days)
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="not a whole table"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "feedback",
    [
        *("bbyby", "xxyxy", "b b y b y", "0,0,1,0,1", "⬛⬛🟦⬛🟦", "gray, gray, yellow, gray, yellow"),
        *(
            "C: absent R: absent A: present N: absent E: present",
            "C(grey) R(grey) A(yellow) N(grey) E(yellow)",
        ),
    ],
)
def test_common_notations_of_feedback_are_read(feedback):
    assert notations.read_feedback(feedback, 5)[1] == "BBYBY"
    for text in (f"Guess 1: CRANE -> {feedback}", f"Guess 1: crane\nFeedback: {feedback}\nGo on."):
        assert [turn[:2] for turn in notations.text_history(text, RULES)] == [("crane", "BBYBY")]


@pytest.mark.parametrize(
    "marks", [["absent", "absent", "present", "absent", "present"], [0, 0, 1, 0, 1], [*"BBYBY"]]
)
def test_feedback_may_be_a_list_of_marks(marks):
    assert notations.listed_history([["crane", marks]], RULES)[0].feedback == "BBYBY"


def test_feedback_below_its_guess_is_read_and_a_pattern_there_is_none():
    both = "Guess 1: CRANE\n⬛⬛🟨⬛🟨\nGuess 2: SWEAT\nBBYYB"
    assert [turn.feedback for turn in notations.text_history(both, RULES)] == ["BBYBY", "BBYYB"]
    assert notations.read_feedback("A - C(x) R(x) A(-) N(x) E(-)", 5) == ("CRANE", "BBYBY")
    assert notations.read_feedback("C(x) R:absent A(-) N(x) E(-)", 5) is None
    for text in ("Guess 1: CRANE\n_____", "Guess 1: CRANE\nGuess 2: SWEAT\nBBYYB", "CRANE\n🟨⬛🟨⬛🟨"):
        with pytest.raises(containers.Bad):
            notations.text_history(text, RULES)


def test_an_answer_of_one_word_that_is_not_the_secret_is_left_out(tmp_path):
    good = SAMPLES["answer"]
    write(tmp_path / "a.jsonl", good, {**good, "secret": "crane"}, {**good, "secret": "ALLEY", "prompt": ""})
    kept, report = read(tmp_path / "a.jsonl")
    assert [record.number for record in kept] == [1, 3]
    assert list(report.first.values()) == [
        "row 2: answer and secret of the row are two words: 'alley' and 'crane'"
    ]
