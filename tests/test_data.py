"""Data folders: rows, card, checks on the way in and out."""

import csv
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow.parquet
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import data
from wordlelib.game import decode_history, is_consistent
from wordlelib.prompts import is_well_formed, messages, parse_guess, spell
from wordlelib.rules import Rules, rules_for
from wordlelib.solver import Solver
from wordlelib.teachers import make_states
from wordlelib.thinking import SPELLED, stated_words
from wordlelib.words import Split, load_words, require_disjoint, split_secrets

SOURCE = {"sample": 90, "sample_seed": 3}
WORDS = data.game_words(**SOURCE)
SPLIT = split_secrets(WORDS, test=25, val=10)
HELDOUT = SPLIT.val + SPLIT.test
ROWS, STATES = 1500, 300
FILES = {"sft.jsonl", "sft.parquet", "sft_val.jsonl", "states.jsonl", "states.parquet", "traces.csv"}


def count_words(chats) -> list[int]:
    """Stands in for a tokenizer: white-space separated pieces, and one to open an answer."""
    return [
        sum(len(message["content"].split()) for message in chat) + (chat[-1]["role"] == "user")
        for chat in chats
    ]


def end_process(chats) -> list[int]:
    """A token counter that ends its process, as a system does that is out of memory."""
    os._exit(9)


def fail(chats) -> list[int]:
    raise OSError("no disk")


def build(folder, **options):
    fields = {"lexicon": options.pop("lexicon", "full")}
    options = {"source": SOURCE, "rows": ROWS, "states": STATES, **options}
    return data.build(folder, rules_for(WORDS, **fields), SPLIT, **options)


@pytest.fixture(scope="module", params=["full", "train"])
def folder(request, tmp_path_factory):
    """A built data folder of each lexicon; tests only read it."""
    folder = tmp_path_factory.mktemp(request.param)
    build(folder, lexicon=request.param, count_tokens=count_words)
    return folder


@pytest.fixture
def own(tmp_path):
    """A small data folder that a test may damage."""
    build(tmp_path, rows=60, states=20)
    return tmp_path


def edit_card(folder, change) -> None:
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


def named(row, words) -> set[str]:
    """Those of `words` that a row names anywhere: in capitals, lower case, spelled out, or marked.

    The system message and the sorted letters of the `Absent` line are the same game text for all.
    """
    text = json.dumps([row["prompt"][1:], row.get("completion"), row["history"], row.get("best_guess")])
    text = re.sub(r"Absent:[A-Z ]*|Guess \d|</?guess>|</?think>", "|", text)
    forms = {
        word: rf"(?i)\b{word}\b|{' '.join(word.upper())}|{r':[a-z]+ '.join(word.upper())}:" for word in words
    }
    return {word for word, form in forms.items() if re.search(form, text)}


def test_rows_carry_prompt_completion_and_state(folder):
    """The prompt is exactly what play shows for that history; the completion is well formed."""
    opened = data.load(folder)
    for row in opened.rows("sft"):
        assert list(row) == ["prompt", "completion", "secret", "history", "source", "unjust"]
        assert row["prompt"] == messages(decode_history(row["history"]), opened.rules)
        [message] = row["completion"]
        assert message["role"] == "assistant" and is_well_formed(message["content"])


def test_completions_list_consistent_words_and_guess_the_last(folder):
    """Every spelled word fits all feedback, none twice, and the guess is the last of them."""
    for part in ("sft", "sft_val"):
        for row in data.load(folder).rows(part):
            text = row["completion"][0]["content"]
            thinking = re.search("<think>(.*)</think>", text)[1].split("; ")
            spelled = [word.replace(" ", "").lower() for word in thinking]
            assert 1 <= len(spelled) == len(set(spelled)) <= 3
            assert parse_guess(text).guess == spelled[-1]
            assert all(is_consistent(word, decode_history(row["history"])) for word in spelled)


def test_state_rows_carry_the_look_ahead_of_their_history(folder):
    opened = data.load(folder)
    rows = opened.rows("states")
    names = ["prompt", "secret", "history", "n_candidates", "best_guess", "best_bits", "source"]
    assert all(list(row) == names for row in rows)
    if opened.rules.lexicon == "full":
        solver = Solver(opened.words, opened.rules)
        for row in rows[:40]:
            assert solver.lookahead(row["history"]).items() <= row.items()
    assert all(row["n_candidates"] >= 1 for row in rows)


def test_no_held_out_secret_in_training_and_only_validation_secrets_in_validation(folder):
    opened = data.load(folder)
    assert {row["secret"] for row in opened.rows("sft")} == set(SPLIT.train)
    states = {row["secret"] for row in opened.rows("states")}  # few, so that one may be missing by chance
    assert states <= set(SPLIT.train) and len(states) > 0.9 * len(SPLIT.train)
    assert {row["secret"] for row in opened.rows("sft_val")} == set(SPLIT.val)
    with open(folder / "traces.csv", newline="") as file:
        assert {turn["secret"] for turn in csv.DictReader(file)} == set(SPLIT.train)


def test_train_lexicon_leaks_no_held_out_word_and_full_names_them(folder):
    """The search is over all text of all training rows; under `full` it does find words."""
    opened = data.load(folder)
    leaked = set().union(*(named(row, HELDOUT) for part in ("sft", "states") for row in opened.rows(part)))
    traced = (folder / "traces.csv").read_text()
    leaked |= {word for word in HELDOUT if word in traced or spell(word) in traced}
    tested = set().union(*(named(row, SPLIT.test) for row in opened.rows("sft_val")))
    if opened.rules.lexicon == "train":
        assert not leaked and not tested
    else:
        assert len(leaked) > 20 and len(tested) > 20


def test_search_for_held_out_words_finds_every_form():
    """The leak test above can fail: each way of writing a word is found."""
    for text in (
        "CRANE is not a word",
        "x crane",
        "S P A R E; C R A N E",
        "C:absent R:absent A:present N:absent E:x",
    ):
        row = {"prompt": [{}, {"content": text}], "history": ""}
        assert named(row, ["crane", "plumb"]) == {"crane"}


def test_train_lexicon_invents_no_held_out_word_as_a_non_word(tmp_path):
    """Of nine possible strings eight are words: with some held out, only the ninth may be invented."""
    path = tmp_path / "mine.txt"
    path.write_text("aa\nab\nac\nba\nbb\nbc\nca\ncb\n")
    words = load_words(path, alphabet="a-c")
    rules = rules_for(words, alphabet="a-c", lexicon="train")
    split = split_secrets(words, test=2, val=1)
    data.build(tmp_path, rules, split, source={"answers": str(path)}, rows=300, states=300)
    opened, invented = data.load(tmp_path), set()
    for part in ("sft", "sft_val", "states"):
        for row in opened.rows(part):
            invented |= {turn.guess for turn in decode_history(row["history"]) if turn.rule == "not_a_word"}
    assert invented == {"cc"}


def test_same_arguments_give_the_same_files(tmp_path):
    build(tmp_path / "a", rows=200, states=50, seed=4)
    build(tmp_path / "b", rows=200, states=50, seed=4)
    build(tmp_path / "c", rows=200, states=50, seed=5)
    for name in {*FILES, "card.json"}:
        same = (tmp_path / "a" / name).read_bytes()
        assert same == (tmp_path / "b" / name).read_bytes() != (tmp_path / "c" / name).read_bytes(), name


def test_shards_give_the_same_files_whatever_the_number_of_processes(tmp_path, monkeypatch):
    """Rows of several shards are those of each shard in order, less duplicates of earlier ones."""
    options = {"rows": 500, "states": 60, "count_tokens": count_words}
    build(tmp_path / "first", **options | {"rows": 200})
    monkeypatch.setattr(data, "ONE_PIECE", 200)
    monkeypatch.setattr(data, "SHARD", 200)
    monkeypatch.setattr(data, "BLOCK", 70)
    card = build(tmp_path / "one", workers=1, **options)
    build(tmp_path / "two", workers=2, **options)
    for name in {*FILES, "card.json"}:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    assert {path.name for path in (tmp_path / "two").iterdir()} == {*FILES, "card.json"}

    rows, first = (data.load(tmp_path / name).rows("sft") for name in ("one", "first"))
    assert rows[: len(first)] == first
    texts = [json.dumps([row["prompt"], row["completion"]]) for row in rows]
    assert len(set(texts)) == len(texts) == card["files"]["sft"]["rows"]
    assert len(texts) + card["files"]["sft"]["duplicates_removed"] == 500
    assert pyarrow.parquet.read_table(tmp_path / "two" / "sft.parquet").to_pylist() == rows
    longest = max(count_words(row["prompt"] for row in rows))
    assert card["files"]["sft"]["tokens"]["prompt"]["max"] == longest


@pytest.mark.parametrize(
    ("counter", "error", "message"),
    [(end_process, MemoryError, "one of 2 processes that make rows was ended"), (fail, OSError, "no disk")],
)
def test_a_process_that_fails_ends_the_build_and_leaves_no_part(
    counter, error, message, tmp_path, monkeypatch
):
    monkeypatch.setattr(data, "ONE_PIECE", 20)
    monkeypatch.setattr(data, "SHARD", 20)
    with pytest.raises(error, match=message):
        build(tmp_path, rows=100, states=5, workers=2, count_tokens=counter)
    assert not list(tmp_path.iterdir())


def test_a_script_without_a_guard_is_told_why_no_process_can_start(tmp_path):
    """Each process imports the script anew, which would start processes of its own."""
    script = """
from wordlelib import data
from wordlelib.rules import rules_for
from wordlelib.words import load_words, split_secrets

data.ONE_PIECE = data.SHARD = 20
words = load_words()
data.build("made", rules_for(words), split_secrets(words), rows=100, states=5, workers=2)
"""
    (tmp_path / "script.py").write_text(script)
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode and "RuntimeError: no process that makes rows could start" in done.stderr
    # a process that is ended while it starts leaves its hidden folder
    assert "MemoryError" not in done.stderr and not list((tmp_path / "made").glob("[!.]*"))


def test_words_that_are_no_secrets_can_come_first_among_equally_good_guesses(tmp_path):
    """They are never the only word left, and would be named less often than secrets wherever few are left."""
    shares = {}
    for ties in ("rarest", "non_secrets"):
        assert build(tmp_path / ties, ties=ties, rows=600)["ties"] == ties
        opened, pairs = data.load(tmp_path / ties), []
        solver = Solver(opened.words, opened.rules)
        for row in opened.rows("sft") + opened.rows("sft_val"):
            left = {solver.universe[place] for place in solver.candidates(row["history"])}
            if len(left) == 2 and len(left & set(SPLIT.train)) == 1:
                pairs.append(parse_guess(row["completion"][0]["content"]).guess not in SPLIT.train)
        shares[ties] = sum(pairs) / len(pairs)
    assert shares["non_secrets"] == 1 > shares["rarest"] > 0.2


def test_folder_holds_exactly_the_promised_files(folder):
    assert {path.name for path in folder.iterdir()} == {*FILES, "card.json"}


def test_duplicates_are_removed_and_counted(folder):
    """Identical prompt and completion is a duplicate, whatever the secret; states also compare it."""
    opened = data.load(folder)
    files = opened.card["files"]
    for part, made in (("sft", ROWS), ("sft_val", 20 * len(SPLIT.val)), ("states", STATES)):
        assert files[part]["rows"] + files[part]["duplicates_removed"] == made
    assert files["sft"]["duplicates_removed"] > 100
    texts = [json.dumps([row["prompt"], row["completion"]]) for row in opened.rows("sft")]
    assert len(texts) == len(set(texts))
    assert len({row["completion"][0]["content"] for row in opened.rows("sft")}) < len(texts)
    states = [(row["secret"], json.dumps(row["prompt"])) for row in opened.rows("states")]
    assert len(states) == len(set(states)) > len({prompt for _, prompt in states})


@pytest.mark.parametrize("which", ["early", "all"])
def test_duplicates_stay_when_asked_to_in_the_sft_rows_alone(tmp_path, monkeypatch, which):
    """`early`: those of states with more than two words left."""
    options = {"rows": 500, "states": 60}
    monkeypatch.setattr(data, "ONE_PIECE", 200)
    monkeypatch.setattr(data, "SHARD", 200)
    build(tmp_path / "kept", duplicates=which, **options)
    build(tmp_path / "removed", **options)
    kept, removed = (data.load(tmp_path / name) for name in ("kept", "removed"))
    solver = Solver(kept.words, kept.rules)
    texts, late = [], []
    for row in kept.rows("sft"):
        texts.append(json.dumps([row["prompt"], row["completion"]]))
        if len(solver.candidates(row["history"])) <= 2:
            late.append(texts[-1])
    assert len(set(texts)) == removed.card["files"]["sft"]["rows"] < len(texts)
    if which == "all":
        assert len(texts) == 500 and kept.card["files"]["sft"]["duplicates_removed"] == 0
    assert (len(late) > len(set(late))) is (which == "all")
    assert kept.rows("states") == removed.rows("states") and kept.rows("sft_val") == removed.rows("sft_val")


def test_held_out_words_are_practised_but_never_the_only_word_left(folder):
    """With the full lexicon the teacher guesses them at least half as often as training secrets."""
    opened = data.load(folder)
    if opened.rules.lexicon == "train":
        return
    solver, guesses = Solver(opened.words, opened.rules), Counter()
    for row in opened.rows("sft"):
        guess = parse_guess(row["completion"][0]["content"]).guess
        guesses[guess] += 1
        assert guess not in HELDOUT or len(solver.candidates(row["history"])) > 1
    seen, unseen = (sum(guesses[word] for word in part) / len(part) for part in (SPLIT.train, HELDOUT))
    assert unseen > seen / 2 and min(guesses[word] for word in HELDOUT) > 0


def test_card_counts_agree_with_the_rows(folder):
    opened = data.load(folder)
    for part in ("sft", "sft_val", "states"):
        rows, about = opened.rows(part), opened.card["files"][part]
        assert sum(about["by_source"].values()) == sum(about["by_turn"].values()) == len(rows)
        first = sum(row["history"] == "[]" for row in rows)
        assert about["by_turn"]["1"] == first > 0
        assert set(about["by_source"]) == {kind for kind, share in opened.card["mix"].items() if share}
    with open(folder / "traces.csv", newline="") as file:
        turns = list(csv.DictReader(file))
    traced = opened.card["files"]["traces"]
    assert traced == {"games": len(SPLIT.train), "rows": len(turns)}


def test_card_says_which_game_and_split_it_is(folder):
    card = data.read_card(folder)
    assert Rules.from_dict(card["rules"]).digest == card["digest"]
    assert card["words"] == {
        "source": SOURCE,
        "answers": {"sha256": WORDS.sha256["answers"], "count": 90},
        "allowed": {"sha256": WORDS.sha256["allowed"], "count": 90},
    }
    assert card["split_sizes"] == {"train": 55, "val": 10, "test": 25}
    assert {name: tuple(words) for name, words in card["split"].items()} == SPLIT._asdict()
    assert data.card_words(card) == WORDS


def test_card_gives_token_lengths_only_with_a_counter(folder, own):
    """Percentiles are lengths of real rows, the prompt with its generation prompt, nothing sampled."""
    card = data.read_card(folder)
    prompts = sorted(count_words(row["prompt"] for row in data.load(folder).rows("sft")))
    tokens = card["files"]["sft"]["tokens"]
    assert tokens["prompt"]["max"] == prompts[-1]
    assert tokens["prompt"]["p50"] in (prompts[(len(prompts) - 1) // 2], prompts[len(prompts) // 2])
    assert list(tokens["prompt"]) == list(tokens["completion"]) == ["p50", "p90", "p99", "max"]
    assert list(tokens["prompt"].values()) == sorted(tokens["prompt"].values())
    assert list(card["files"]["states"]["tokens"]) == ["prompt"]
    assert "tokens" not in data.read_card(own)["files"]["sft"]


def test_token_lengths_are_those_of_all_rows(folder):
    opened = data.load(folder)
    rows = opened.rows("sft")
    prompts = count_words(row["prompt"] for row in rows)
    whole = count_words(row["prompt"] + row["completion"] for row in rows)
    completions = [n - prompt for n, prompt in zip(whole, prompts, strict=True)]
    for name, counts in (("prompt", prompts), ("completion", completions)):
        expected = np.percentile(counts, [50, 90, 99, 100], method="higher")
        assert list(opened.card["files"]["sft"]["tokens"][name].values()) == expected.tolist()


@pytest.mark.parametrize("part", ["sft", "states"])
def test_hugging_face_datasets_reads_both_formats(folder, part, tmp_path):
    """JSONL and Parquet load to the same columns and the same rows."""
    from datasets import load_dataset

    rows = data.load(folder).rows(part)
    for kind, ending in (("json", "jsonl"), ("parquet", "parquet")):
        files = str(folder / f"{part}.{ending}")
        loaded = load_dataset(kind, data_files=files, split="train", cache_dir=str(tmp_path))
        assert loaded.column_names == list(rows[0])
        assert loaded.to_list() == rows


def test_rows_of_a_growing_chat_hold_the_conversation(tmp_path):
    """With `history: chat` the prompt alternates; the card and the checks are the same."""
    rules = rules_for(WORDS, history="chat")
    data.build(tmp_path, rules, SPLIT, source=SOURCE, rows=100, states=20)
    roles = {tuple(m["role"] for m in row["prompt"]) for row in data.load(tmp_path).rows("sft")}
    assert ("system", "user", "assistant", "user", "assistant", "user") in roles


@pytest.mark.parametrize(("thinking", "named"), [("words", 3), ("none", 0)])
@pytest.mark.parametrize("history", ["fresh", "chat"])
def test_every_text_of_the_data_has_the_thinking_of_the_rules(tmp_path, thinking, named, history):
    """States, guesses and their order are those of the data with spelled words."""
    rules = rules_for(WORDS, thinking=thinking, history=history)
    data.build(tmp_path, rules, SPLIT, source=SOURCE, rows=200, states=20)
    rows = data.load(tmp_path).rows("sft")
    own = [row["completion"][0]["content"] for row in rows]
    past = [m["content"] for row in rows for m in row["prompt"] if m["role"] == "assistant"]
    assert bool(past) == (history == "chat")
    assert all(map(is_well_formed, own)) and max(len(stated_words(text, "words")) for text in own) == named
    assert not any(SPELLED.search(text) for text in own + past)
    data.build(tmp_path, rules_for(WORDS), SPLIT, source=SOURCE, rows=200, states=20)
    spelled = {
        (row["history"], parse_guess(row["completion"][0]["content"]).guess)
        for row in data.load(tmp_path).rows("sft")
    }
    if history == "fresh":  # in a chat the history holds the texts
        assert {
            (row["history"], parse_guess(text).guess) for row, text in zip(rows, own, strict=True)
        } == spelled


def test_a_game_without_validation_secrets_can_be_built(tmp_path):
    split = split_secrets(WORDS, test=20, val=0)
    card = data.build(tmp_path, rules_for(WORDS), split, source=SOURCE, rows=50, states=10)
    assert card["files"]["sft_val"]["rows"] == 0 and data.load(tmp_path).rows("sft_val") == []


def test_an_interrupted_build_leaves_no_card(own, monkeypatch):
    """The old card goes first and the new one comes last, so half-made data are never taken for whole."""
    monkeypatch.setattr(data, "traces", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build(own, rows=60, states=20)
    with pytest.raises(
        FileNotFoundError, match=r"card\.json: no data card, so the data are missing or half written"
    ):
        data.load(own)


def test_split_sizes_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match="a test part of 64 and a validation part of 26 do not fit 90 answers"
    ):
        split_secrets(WORDS, test=64, val=26)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (Split(SPLIT.train, SPLIT.val, (*SPLIT.test, SPLIT.train[0])), f"held out: {SPLIT.train[0]}"),
        (Split(SPLIT.train, SPLIT.val, (*SPLIT.test, SPLIT.val[0])), f"held out: {SPLIT.val[0]}"),
        (Split((), SPLIT.val, SPLIT.test), "no training secret"),
        (Split((*SPLIT.train, "zzzzz"), SPLIT.val, SPLIT.test), "'zzzzz' of the split is not an answer"),
    ],
)
def test_a_split_that_does_not_fit_is_refused(split, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        data.build(tmp_path, rules_for(WORDS), split, source=SOURCE, rows=10, states=10)


def test_rules_of_other_word_lists_are_refused(tmp_path):
    """Rules and lists are compared by hash before anything is made."""
    with pytest.raises(ValueError, match="the rules name a list of answers with hash"):
        data.build(tmp_path, rules_for(WORDS), SPLIT, source={"sample": 90}, rows=10, states=10)


def test_a_changed_word_list_is_noticed_on_loading(tmp_path):
    """Custom lists are read again and compared with the hashes in the card."""
    path = tmp_path / "mine.txt"
    path.write_text("".join(f"{word}\n" for word in WORDS.answers))
    source = {"answers": str(path)}
    data.build(tmp_path / "data", rules_for(WORDS), SPLIT, source=source, rows=20, states=5)
    assert data.load(tmp_path / "data").words == WORDS
    path.write_text("".join(f"{word}\n" for word in WORDS.answers[1:]))
    with pytest.raises(ValueError, match="data card: the rules name a list of answers with hash"):
        data.load(tmp_path / "data")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"mine\.txt: no such word list"):
        data.load(tmp_path / "data")


def test_a_word_list_edited_between_two_loads_is_read_again(tmp_path):
    """Running a notebook again in the same kernel must see the new list."""
    path = tmp_path / "mine.txt"
    path.write_text("crane\nslate\n")
    assert load_words(path).answers == ("crane", "slate")
    path.write_text("crane\n")
    assert load_words(path).answers == ("crane",)


def test_changed_rules_are_noticed_on_loading(own):
    edit_card(own, lambda card: card["rules"].update(turns=7))
    with pytest.raises(ValueError, match=r"card\.json: the rules were changed"):
        data.load(own)


@pytest.mark.parametrize(
    "change", [{"words": None}, {"words": {}}, {"split": 5}, {"split": {}}, {"rules": 5}]
)
def test_a_card_with_parts_of_another_shape_is_refused(own, change):
    edit_card(own, lambda card: card.update(change))
    with pytest.raises(ValueError, match=r"card\.json: the data card is not as it was written"):
        data.load(own)


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"rules": {', "not a whole JSON file"), ("{}", "lacks 'rules'"), ("5", "lacks 'rules'")],
)
def test_a_corrupt_card_is_refused(own, text, message):
    (own / "card.json").write_text(text)
    with pytest.raises(ValueError, match=rf"card\.json.*{message}"):
        data.load(own)


def test_a_missing_row_is_noticed(own):
    """A file cut at a line end is valid JSON lines, but not what the card counts."""
    lines = (own / "sft.jsonl").read_text().splitlines(keepends=True)
    (own / "sft.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(
        ValueError, match=rf"sft\.jsonl: {len(lines) - 1} rows, but the data card counts {len(lines)}"
    ):
        data.load(own).rows("sft")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b'{"a": 1}\n{"a": ', "line 2: not JSON .*; the file seems half written"),
        (b'{"a": 1}\n{"a": 2}}\n{"a": 3}\n', r"line 2: not JSON \(Extra data.*\)$"),
        (b'{"a": 1}\n\n{"a": 3}\n', r"line 2: not JSON \(Expecting value.*\)$"),
        (b'{"a": 1}\n[1, 2]\n', "line 2: list where an object should stand"),
        (b'{"a": "\xff"}\n', "line 1: not JSON .*decode byte"),
    ],
)
def test_corrupt_and_half_written_lines_are_named(tmp_path, lines, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines)
    with pytest.raises(ValueError, match=r"rows\.jsonl, " + message):
        data.read_jsonl(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(rows=st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=5))
def test_jsonl_comes_back_as_written(rows, tmp_path_factory):
    """Any text survives, also line separators and quotes."""
    path = tmp_path_factory.mktemp("jsonl") / "rows.jsonl"
    data.write_jsonl(path, rows)
    assert data.read_jsonl(path) == rows


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "rows.jsonl"
    data.write_jsonl(path, [{"a": 1}])
    with pytest.raises(ValueError, match="not JSON compliant"):
        data.write_jsonl(path, [{"a": 2}, {"a": float("nan")}])
    assert data.read_jsonl(path) == [{"a": 1}] and list(tmp_path.iterdir()) == [path]


def test_case_10_fifty_validation_games_have_fifty_different_secrets():
    """Sampling without replacement: the same list on a rerun, another one for another seed."""
    split = split_secrets(load_words())
    drawn = data.draw_secrets(split.val, 50, seed=0)
    assert len(set(drawn)) == 50 and set(drawn) <= set(split.val)
    assert drawn == data.draw_secrets(split.val, 50, seed=0) != data.draw_secrets(split.val, 50, seed=1)
    with pytest.raises(ValueError, match="cannot draw 116 different secrets from 115"):
        data.draw_secrets(split.val, 116)


def test_case_11_rows_split_at_random_are_refused_with_the_overlap_named():
    """200 games over 40 words: a split of rows shares secrets, the split by secret does not."""
    words = data.game_words(sample=40)
    solver = Solver(words, rules_for(words))
    states = list(make_states(solver, words.answers, 600, seed=0))
    secrets = [secret for _, secret, _ in states]
    random.Random(0).shuffle(secrets)
    with pytest.raises(
        ValueError, match=rf"\d+ secrets are both trained on and held out: {words.answers[0]}, "
    ):
        require_disjoint(secrets[:480], secrets[480:], "rows")
    split = split_secrets(words, test=8, val=4)
    require_disjoint(split.train, split.val + split.test, "secrets")
    assert sorted(split.test) != list(words.answers[:8])


def test_case_11_a_data_folder_whose_parts_share_a_secret_is_refused(own):
    """The check runs on loading, on the lists in the card and on the rows themselves."""
    secret = SPLIT.test[3]
    rows = data.read_jsonl(own / "sft.jsonl")
    data.write_jsonl(own / "sft.jsonl", [{**rows[0], "secret": secret}, *rows[1:]])
    with pytest.raises(
        ValueError, match=rf"sft\.jsonl: 1 secrets are both trained on and held out: {secret}"
    ):
        data.load(own).rows("sft")
    edit_card(own, lambda card: card["split"]["train"].append(secret))
    with pytest.raises(
        ValueError, match=rf"card\.json: 1 secrets are both trained on and held out: {secret}"
    ):
        data.load(own)


def test_the_notebook_makes_data_of_spanish_words_of_six_letters(project):
    """A list with ñ goes through prompts, parser, tokenizer and files like the shipped one."""
    import papermill

    spanish = ["añejos", "cabaña", "espuma", "gruñir", "huraño", "ladino", "leñera", "mañana"]
    spanish += ["ñandus", "pestan", "rebaño", "soñada", "tacaño", "teñido", "uñetas", "viñedo"]
    (project / "palabras.txt").write_text("".join(f"{word}\n" for word in spanish), encoding="utf-8")
    changes = {
        **{"run": str(project / "es"), "answers_file": str(project / "palabras.txt"), "alphabet": "a-zñ"},
        **{"sample_words": 0, "test_secrets": 4, "val_secrets": 2, "n_rows": 300, "n_states": 30},
    }
    notebook = ROOT / "notebooks" / "01_data_synthesis.ipynb"
    papermill.execute_notebook(notebook, project / "out.ipynb", changes, progress_bar=False)
    opened = data.load(project / "es" / "01_data_synthesis")
    assert opened.rules.length == 6 and opened.rules.alphabet == "a-zñ"
    rows = opened.rows("sft")
    guesses = {parse_guess(row["completion"][0]["content"], 6, "a-zñ").guess for row in rows}
    assert guesses <= set(spanish) and any("ñ" in guess for guess in guesses)
    assert "word of 6 letters" in rows[0]["prompt"][0]["content"]
    assert all(is_consistent(row["secret"], decode_history(row["history"])) for row in rows)


def test_secrets_for_grpo_alone_are_in_no_sft_row(tmp_path):
    """SFT leaves GRPO games that it has not seen; with none of them both learn from all training secrets."""
    card = build(tmp_path / "apart", rows=600, states=60, grpo_secrets=15, workers=1)
    made = data.load(tmp_path / "apart")
    apart = set(made.grpo_secrets)
    assert len(apart) == 15 and apart < set(SPLIT.train) and card["grpo_secrets"] == sorted(apart)
    assert {row["secret"] for row in made.rows("sft")} == set(made.sft_secrets) == set(SPLIT.train) - apart
    assert {row["secret"] for row in made.rows("states")} <= apart
    with open(tmp_path / "apart" / "traces.csv", encoding="utf-8") as file:
        assert apart.isdisjoint(row["secret"] for row in csv.DictReader(file))
    build(tmp_path / "all", rows=600, states=60, workers=1)
    whole = data.load(tmp_path / "all")
    assert list(whole.grpo_secrets) == list(whole.sft_secrets) == list(SPLIT.train)
    assert list(made.rehearsed_secrets) == list(made.sft_secrets) and not whole.rehearsed_secrets


def test_an_sft_row_of_a_secret_for_grpo_alone_is_refused(tmp_path):
    build(tmp_path, rows=100, states=10, grpo_secrets=15, workers=1)
    made = data.load(tmp_path)
    rows = made.rows("sft")
    rows[0]["secret"] = made.grpo_secrets[0]
    data.write_jsonl(tmp_path / "sft.jsonl", rows)
    with pytest.raises(ValueError, match="both trained on and held out"):
        made.rows("sft")


@pytest.mark.parametrize("more", [0, 1])
def test_grpo_leaves_sft_a_secret(tmp_path, more):
    with pytest.raises(ValueError, match=r"^grpo_secrets: .* leave SFT none"):
        build(tmp_path, rows=10, states=10, grpo_secrets=len(SPLIT.train) + more)


def test_a_dataset_has_the_rows_of_the_file_and_their_checks(tmp_path):
    build(tmp_path, rows=100, states=10, workers=1)
    made = data.load(tmp_path)
    rows = made.rows("sft")
    assert list(made.dataset("sft")) == rows
    wrong = {
        "names the line": (["{"], "line 1: not JSON"),
        "counts": ([json.dumps(row) for row in rows[1:]], "the data card counts"),
        "knows the split": ([json.dumps(row | {"secret": SPLIT.test[0]}) for row in rows], "held out"),
    }
    for lines, said in wrong.values():
        (tmp_path / "sft.jsonl").write_text("\n".join(lines) + "\n")
        with pytest.raises(ValueError, match=said):
            made.dataset("sft")


def test_answers_that_would_be_cut_are_warned_of(tmp_path, capsys):
    """Where the limit is below SFT's longest completion and its end token, if tokens were counted."""
    build(tmp_path, rows=50, states=10, count_tokens=lambda chats: [len(str(chat)) for chat in chats])
    made = data.load(tmp_path)
    longest = made.longest_completion
    made.warn_of_cuts(longest + 1)
    assert not capsys.readouterr().out
    made.warn_of_cuts(longest)
    assert (
        f"up to {longest + 1} tokens, the end token among them, and max_completion_length is {longest}"
        in (capsys.readouterr().out)
    )
    made._replace(card={"grpo_secrets": []}).warn_of_cuts(1)
    assert not capsys.readouterr().out
