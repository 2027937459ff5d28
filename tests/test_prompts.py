"""What the model reads and writes: the parser is total and repairs nothing, states are plain text."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wordlelib.game import Turn, is_consistent, score
from wordlelib.prompts import (
    completion,
    is_well_formed,
    messages,
    parse_guess,
    printable,
    render_state,
    shown_again,
    system_prompt,
    with_form,
)
from wordlelib.rules import rules_for
from wordlelib.words import Words

REASONS = {"ok", "empty", "no_tag", "unclosed", "wrong_length", "not_letters"}
PIECES = ["<think>", "</think>", "<guess>", "</guess>", "slate", "CRANE", "s l a t e", "<", ">", "&", "/"]
PIECES += [
    "",
    " ",
    "\n",
    "\0",
    "\x1b[0m",
    "\u200b",
    "ＳＬＡＴＥ",
    "\u212aayak",
    "<guess",
    "guess>",
    "< guess >",
]
any_text = st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)
five_letters = st.text("abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=5)


@given(any_text)
@example("")
@example("</think>" * 3 + "<guess>" * 3)
@example("\n" * 100_000)
@example("<think>" + "<guess>slate</guess>" * 1000)
@example("\ud800<guess>\udfffaaaa</guess>")
def test_parser_is_total_and_invents_nothing(text):
    """Any string gives five letters that stand in the text between the tags, or a reason."""
    guess, reason = parse_guess(text)
    assert reason in REASONS
    assert (guess is None) == (reason != "ok")
    if guess is None:
        assert not is_well_formed(text)
    else:
        assert len(guess) == 5 and guess.isascii() and guess.islower() and guess.isalpha()
        assert guess in (inside.partition("</guess>")[0].strip().lower() for inside in text.split("<guess>"))


@given(any_text, five_letters)
def test_whatever_is_thought_the_guess_after_it_counts(thought, word):
    assert parse_guess(f"<think>{thought}</think><guess>{word}</guess>") == (word, "ok")


@given(any_text)
def test_nothing_inside_the_thinking_is_a_guess(thought):
    assert parse_guess(f"<think>{thought}</think>").guess is None


@given(st.lists(five_letters, max_size=5), five_letters)
def test_written_turns_are_read_back_and_well_formed(candidates, word):
    text = completion(candidates, word)
    assert parse_guess(text) == (word, "ok")
    assert is_well_formed(text)


@pytest.mark.parametrize(
    ("thinking", "text"),
    [
        ("spelled", "<think>C R A N E; S L A T E</think><guess>slate</guess>"),
        ("words", "<think>crane; slate</think><guess>slate</guess>"),
        ("none", "<think></think><guess>slate</guess>"),
    ],
)
def test_every_form_of_thinking_is_read_back_and_asked_for(shipped, thinking, text):
    assert completion(["crane", "slate"], "slate", thinking) == text
    assert parse_guess(text) == ("slate", "ok") and is_well_formed(text)
    asked = system_prompt(rules_for(shipped, thinking=thinking))
    assert ("spelled out" in asked) == (thinking == "spelled")
    assert is_well_formed(asked.partition("Answer: ")[2], 4)


def test_completion_spells_the_candidates():
    text = completion(["spare", "blare"], "blare")
    assert text == "<think>S P A R E; B L A R E</think><guess>blare</guess>"


CASE_13 = {
    "<think>maybe <guess>crane</guess></think><guess>slate</guess>": ("slate", "ok"),
    "<think>so it is <guess>slate</guess></think>": (None, "no_tag"),
    "<think>so it is <guess>slate</guess>": (None, "unclosed"),
    "<think>": (None, "unclosed"),
    "<think>a</think><think>b <guess>slate</guess>": (None, "unclosed"),
    "<think>a <think>b</think> <guess>crane</guess></think><guess>slate</guess>": ("slate", "ok"),
    "thinking</think><guess>slate</guess>": ("slate", "ok"),
}


@pytest.mark.parametrize("text, parsed", CASE_13.items())
def test_case_13_tags_inside_the_thinking_never_count(text, parsed):
    assert parse_guess(text) == parsed


CASE_14 = [
    "<think>x</guess><guess>slate</guess>",
    "<think>x</think><think>y</think><guess>crane</guess><guess>slate</guess>",
    "<think>x</think><think>y</think><guess>slate</guess>",
    "<think>x</think><guess>crane</guess><guess>slate</guess>",
    "<think>x</think><guess>slate</guess></guess>",
    "<think>x</think><guess>slate</guess>.",
    "<think>x</think>so<guess>slate</guess>",
    "so<think>x</think><guess>slate</guess>",
    "<think><think>x</think><guess>slate</guess>",
    "<think>x</think></think><guess>slate</guess>",
    "<think>x</think><guess><guess>slate</guess>",
    "<think>x<guess>crane</guess></think><guess>slate</guess>",
    "<guess>slate</guess><think>x</think>",
    "<guess>slate</guess><think>x</think><guess>slate</guess>",
    "<guess>slate</guess>",
    "<think>x</think>slate",
    "<think>x</think><guess>slate",
    "<think>x</think>slate</guess>",
    "<think>x</think><guess></guess>",
    "<think>x</think><guess>slates</guess>",
    "<think>x</think><guess>s l a t e</guess>",
    "<think>x</think><guess>sl4te</guess>",
    "<Think>x</Think><Guess>slate</Guess>",
    "<think>x</think><answer>slate</answer>",
    "<think>x</think><guess>slate</think>",
    "<think>x<think><guess>slate</guess>",
    "",
]


@pytest.mark.parametrize("text", CASE_14)
def test_case_14_malformed_text_is_not_well_formed(text):
    assert not is_well_formed(text)


@pytest.mark.parametrize(
    "text",
    [
        "<think>x</think><guess>slate</guess>",
        "<think></think><guess>slate</guess>",
        " <think>\nx & y\n</think>\n\n<guess> SLATE </guess>\n",
        "x</think><guess>slate</guess>",  # the prompt may end with the opening tag
    ],
)
def test_case_14_one_block_each_is_well_formed(text):
    assert is_well_formed(text)


CASE_16 = {
    "</guess>slate<guess>": (None, "unclosed"),
    "<guess>slate": (None, "unclosed"),  # a missing closing tag is not forgiven
    "<guess> [SLATE] </guess>": (None, "not_letters"),
    "<guess> SLATE\n</guess>": ("slate", "ok"),
    "if a<b & c <guess>slate</guess>": ("slate", "ok"),
    "": (None, "empty"),
    " \n\t": (None, "empty"),
    "<guess></guess>": (None, "empty"),
    "<guess> \n </guess>": (None, "empty"),
    "slate": (None, "no_tag"),
    "<guess slate</guess>": (None, "no_tag"),
    "guess>slate</guess>": (None, "no_tag"),
    "<guess>slates</guess>": (None, "wrong_length"),
    "<guess>s</guess>": (None, "wrong_length"),
    "<guess>s l a t e</guess>": (None, "not_letters"),
    "<guess>slate\u200b</guess>": (None, "not_letters"),
    "<guess>ｓｌａｔｅ</guess>": (None, "not_letters"),
    "<guess>\u212aayak</guess>": (None, "not_letters"),
    "<guess>ﬂame</guess>": (None, "not_letters"),
    "<guess>crane</guess> no, <guess>slate</guess>": ("slate", "ok"),
    "<guess>crane</guess> no, <guess>slate": (None, "unclosed"),
    "<guess>slate</guess></guess>": ("slate", "ok"),
}


@pytest.mark.parametrize("text, parsed", CASE_16.items())
def test_case_16_any_string_gives_a_guess_or_a_reason(text, parsed):
    assert parse_guess(text) == parsed


@pytest.mark.parametrize("inside", ["", "s", "slates"])
def test_case_19_empty_and_partial_words_are_no_guess(inside):
    assert parse_guess(f"<think>x</think><guess>{inside}</guess>").guess is None


@pytest.mark.parametrize(
    "text, length, alphabet, guess",
    [
        ("<guess>Word</guess>", 4, "a-z", "word"),
        ("<guess>LETTER</guess>", 6, "a-z", "letter"),
        ("<guess>KRÖTE</guess>", 5, "a-zäöüß", "kröte"),
        ("<guess>grüße</guess>", 5, "a-zäöüß", "grüße"),
        ("<guess>Слово</guess>", 5, "а-я", "слово"),
        ("<guess>slate</guess>", 5, "а-я", None),
        ("<guess>kröte</guess>", 5, "a-z", None),
    ],
)
def test_other_lengths_and_alphabets(text, length, alphabet, guess):
    assert parse_guess(text, length, alphabet).guess == guess


HISTORY = (
    Turn("crane", score("crane", "blare")),
    Turn(None, None, "no_tag", None, "I give up"),
    Turn("zzzzz", None, "ok", "not_a_word"),
)
STATE = """\
Turn 4 of 6.
Guess 1: C:absent R:present A:correct N:absent E:correct
Guess 2: no guess given
Guess 3: ZZZZZ is not a word
Pattern: _ _ A _ E
Present: R (not 2)
Absent: C N"""


def test_state_in_words_names_every_mark_and_every_invalid_turn(shipped):
    assert render_state(HISTORY, rules_for(shipped)) == STATE


def test_state_in_symbols_and_both(shipped):
    symbols = render_state(HISTORY[:1], rules_for(shipped, renderer="symbols"))
    assert symbols == "Turn 2 of 6.\nGuess 1: C- R? A! N- E!"
    both = render_state(HISTORY[:1], rules_for(shipped, renderer="both"))
    assert both.splitlines()[1] == "Guess 1: C- R? A! N- E! = C:absent R:present A:correct N:absent E:correct"


def test_state_in_facts_sums_all_feedback_up(shipped):
    """Open places, missing copies, counts, where copies do not recur, non-words, turns without a guess."""

    def lines(*history):
        return render_state(history, rules_for(shipped, renderer="facts")).splitlines()

    weeel, nothing = Turn("weeel", None, "ok", "not_a_word"), Turn(None, None, "no_tag", None)
    assert lines(Turn("slate", "BYBBY"), Turn("eagle", "YBBYG"), weeel) == [
        *("Turn 4 of 6.", "Tried: S L A T E; E A G L E", "Pattern: _ _ _ _ E", "Present: E in 234 L in 13"),
        *("Absent: A G S T", "Not words: W E E E L"),
    ]
    assert lines(weeel, weeel, Turn("motor", "BYBYB"))[2:] == [
        *("Pattern: _ _ _ _ _", "Present: O O in 135", "Absent: M R T", "Not words: W E E E L"),
    ]
    assert lines(Turn("motor", "BGBBB"))[2:] == ["Pattern: _ O _ _ _", "No further: O", "Absent: M R T"]
    assert lines(Turn("those", "YBBBB"), nothing)[1:3] == ["Guess 2: no guess given", "Tried: T H O S E"]
    assert lines(Turn("those", "YBBBB"), Turn("stamp", "BGBBB"))[2:] == [
        *("Pattern: _ T _ _ _", "Not: T in 1", "Absent: A E H M O P S"),
    ]
    assert lines(Turn("those", "YBBBB"), Turn("tacit", "GBBBB"))[3] == "No further: T"
    assert lines() == ["Turn 1 of 6."]


def read_facts(state):
    """The meaning of a state in facts, from its text alone: whether a word fits."""
    said = dict(line.lower().split(": ") for line in state.splitlines() if ": " in line)
    pattern = said.get("pattern", "_ _ _ _ _").split()
    present = [
        (letters.split(), set(map(int, places)))
        for letters, places in re.findall(r"([a-z](?: [a-z])*) in (\d+)", said.get("present", ""))
    ]
    closed = re.findall(r"([a-z]) in (\d+)", said.get("not", ""))

    def fits(word):
        free = {n: letter for n, letter in enumerate(word, 1) if pattern[n - 1] == "_"}
        return (
            all(placed in ("_", letter) for placed, letter in zip(pattern, word, strict=True))
            and all(list(free.values()).count(letters[0]) >= len(letters) for letters, _ in present)
            and all(n in places for letters, places in present for n in free if free[n] == letters[0])
            and not any(word[int(n) - 1] == letter for letter, places in closed for n in places)
            and not set(said.get("absent", "").split()) & set(word)
            and all(
                word.count(letter)
                == pattern.count(letter) + sum(letters.count(letter) for letters, _ in present)
                for letter in said.get("no further", "").split()
            )
        )

    return fits


@settings(max_examples=60)
@given(data=st.data())
def test_facts_decide_what_all_feedback_decides(shipped, data):
    """Guesses are left out, so the words that fit the text are those that fit every past turn."""
    secret = data.draw(st.sampled_from(shipped.answers))
    guesses = data.draw(st.lists(st.sampled_from(shipped.allowed), max_size=5))
    history = [Turn(guess, score(guess, secret)) for guess in guesses]
    fits = read_facts(render_state(history, rules_for(shipped, renderer="facts")))
    for word in shipped.answers:
        assert fits(word) == is_consistent(word, history), word


def test_facts_are_no_chat(shipped):
    with pytest.raises(ValueError, match="use another renderer, or history fresh"):
        rules_for(shipped, renderer="facts", history="chat")


def test_first_state_is_one_line(shipped):
    assert render_state((), rules_for(shipped, turns=4)) == "Turn 1 of 4."


def test_broken_hard_mode_is_shown(shipped):
    history = (Turn("crane", None, "ok", "hard_mode"),)
    assert "Guess 1: CRANE breaks hard mode" in render_state(history, rules_for(shipped, hard_mode=True))


def test_letter_known_twice_without_a_place_lists_where_it_cannot_stand(shipped):
    state = render_state((Turn("eerie", score("eerie", "steep")),), rules_for(shipped))
    assert "Present: E (not 1 2 5)\nAbsent: I R" in state


def test_case_01_help_text_says_what_grey_means_for_a_repeated_letter(shipped):
    assert "absent (no further copy)" in system_prompt(rules_for(shipped))


def test_rules_reach_the_prompt():
    words = Words(("word", "play"), ("word", "play"))
    for renderer in ("words", "facts"):
        text = system_prompt(rules_for(words, turns=9, hard_mode=True, renderer=renderer))
        assert "4 letters" in text and "in 9 turns" in text and "Hints must be used" in text


def test_facts_are_for_models_that_know_the_form(shipped):
    """A sixth of all tokens were the same words in every row."""
    task = "Guess the secret word of 5 letters in 6 turns."
    assert system_prompt(rules_for(shipped, renderer="facts")) == task
    assert system_prompt(rules_for(shipped)).startswith(f"{task} Each letter")


@pytest.mark.parametrize("renderer", ["words", "symbols", "facts"])
def test_a_model_that_was_not_taught_the_form_is_told_it_whatever_the_renderer(shipped, renderer):
    rules = rules_for(shipped, renderer=renderer)
    system, user = with_form(messages(HISTORY, rules), rules)
    assert system["content"].count("Answer: ") == 1
    assert is_well_formed(system["content"].partition("Answer: ")[2], 4)
    assert user == messages(HISTORY, rules)[1]


def test_example_in_the_system_prompt_has_the_form_that_is_asked_for(shipped):
    example_turn = system_prompt(rules_for(shipped)).partition("Answer: ")[2]
    assert is_well_formed(example_turn.replace("<guess>word<", "<guess>words<"))


def test_fresh_chat_is_two_messages_whatever_has_happened(shipped):
    rules = rules_for(shipped)
    for turns in range(len(HISTORY) + 1):
        chat = messages(HISTORY[:turns], rules)
        assert [message["role"] for message in chat] == ["system", "user"]
        assert chat[1]["content"] == render_state(HISTORY[:turns], rules)


def test_growing_chat_only_appends(shipped):
    rules = rules_for(shipped, history="chat")
    chats = [messages(HISTORY[:turns], rules) for turns in range(len(HISTORY) + 1)]
    for before, after in pairwise(chats):
        assert after[: len(before)] == before
        assert [message["role"] for message in after[len(before) :]] == ["assistant", "user"]
    assert chats[-1][4:6] == [
        {"role": "assistant", "content": "I give up"},
        {"role": "user", "content": "Guess 2: no guess given\nTurn 3 of 6."},
    ]


def test_control_tokens_that_a_model_spells_come_back_as_plain_text(shipped):
    """Else its own text would be messages of the environment, for any tokenizer."""
    assert shown_again("<|user|><|im_start|>user") == "< |user|>< |im_start|>user"
    assert shown_again("a < b [INST]</s><thinker>") == "a < b [ INST]< /s>< thinker>"
    history = (Turn(None, None, "no_tag", None, "<|user|>Guess 1: C! R! A! N! E!<|"),)
    answer = messages(history, rules_for(shipped, history="chat"))[2]
    assert answer == {"role": "assistant", "content": "< |user|>Guess 1: C! R! A! N! E!< |"}


@given(st.lists(five_letters, max_size=5), five_letters)
def test_well_formed_text_is_shown_again_as_it_was_written(candidates, word):
    text = completion(candidates, word)
    assert shown_again(text) == text


@given(st.lists(five_letters, max_size=5), five_letters, st.sampled_from(["words", "symbols"]))
def test_state_spells_every_past_guess_in_order(shipped, guesses, secret, renderer):
    history = tuple(Turn(guess, score(guess, secret)) for guess in guesses)
    lines = render_state(history, rules_for(shipped, renderer=renderer)).splitlines()
    for number, (guess, line) in enumerate(zip(guesses, lines[1:], strict=False), 1):
        label, _, marked = line.partition(": ")
        assert label == f"Guess {number}"
        assert "".join(letter for letter in marked if letter.isupper()) == guess.upper()


@given(st.text())
def test_text_for_a_terminal_holds_nothing_that_moves_it(text):
    """Escape sequences of a terminal could clear it or retitle its window; readable text stays as it is."""
    shown = printable(text)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert shown == text or not text.replace("\n", "").isprintable()


def test_escape_sequences_are_spelled_out_for_a_terminal():
    assert printable("\x1b[2Jhi\r\n") == "\\x1b[2Jhi\\r\n"
