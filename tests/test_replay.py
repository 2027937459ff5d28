"""Boards: safe whatever a model wrote, readable without colour, and never waiting for anybody."""

import builtins
from html.parser import HTMLParser
from xml.etree import ElementTree

import ipywidgets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordlelib import evaluate, replay
from wordlelib.game import Game
from wordlelib.players import solver_player
from wordlelib.prompts import completion
from wordlelib.rules import Rules
from wordlelib.solver import Solver
from wordlelib.words import Words, sample_words

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "img": "<img src=x onerror=alert(1)>",
    "broken tags": "</pre></div><b <i><!-- <style>*{display:none}",
    "right to left": "\u202etxt.exe\u2066 \u200f",
    "null bytes": "a\x00b\x1b[31mc",
    "long": "A" * 50_000,
    "entities": "&lt;script&gt; &#60;b&#62; ]]> <![CDATA[",
    "half a pair": "\ud800",
    "attributes": '" onmouseover="alert(1)" \'',
}
TAGS = {"div", "span", "pre", "b", "table", "tr", "td", "p", "details", "summary"}
REASONS = ("empty", "no_tag", "unclosed", "wrong_length", "not_letters")


@pytest.fixture(scope="module")
def words(shipped: Words) -> Words:
    return sample_words(shipped, 64, 0)


@pytest.fixture(scope="module")
def rules(words: Words) -> Rules:
    return Rules(words.sha256["answers"], words.sha256["allowed"])


@pytest.fixture(scope="module")
def solver(words: Words, rules: Rules) -> Solver:
    return Solver(words, rules)


@pytest.fixture(scope="module")
def games(words: Words, rules: Rules, solver: Solver) -> list[dict]:
    """Greedy wins; `loser` never gives a guess; `nonwords` plays one non-word, then greedily."""
    greedy = solver_player(solver, "greedy")

    def nonwords(histories, seeds):
        texts = greedy(histories, seeds)
        return [completion(["zzzzz"], "zzzzz") if not h else t for h, t in zip(histories, texts, strict=True)]

    players = {"loser": lambda h, s: ["hm"] * len(h), "nonwords": nonwords, "greedy": greedy}
    return [
        record
        for name, player in players.items()
        for record in evaluate.play_games(player, words.answers[:4], words, rules, name=name)
    ]


class Reader(HTMLParser):
    """Collects the tags, attribute names and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data):
        self.text += data


def game(text: str, rewards: dict | None = None) -> dict:
    """A game whose only turn is a text without a guess."""
    turn = {
        "guess": None,
        "feedback": None,
        "reason": "no_tag",
        "rule": None,
        "text": text,
        "rewards": rewards or {},
    }
    return {"secret": "those", "turns": [turn], "won": False, "n_guesses": 1, "player": "sft"}


def require_safe(text: str) -> None:
    """All views of a turn with this text hold our own tags only, and no invisible marks."""
    record = game(text)
    for page in (
        replay.game_html(record),
        replay.compare_html({text[:50]: record}),
        replay.board_html(record),
    ):
        reader = Reader(page)
        assert reader.tags <= TAGS and reader.attributes <= {"style", "title"}
        assert not set(page) & set("\x00\x1b\u202e\u2066\u200f")
        page.encode()
    picture = replay.board_svg(record, record, (text[:20], "after"))
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()}
    assert tags == {"svg", "title", "rect", "text"}


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_a_model_wrote_is_shown_as_text(kind: str) -> None:
    """Tags, event handlers, control and direction marks become visible text in every view."""
    require_safe(HOSTILE[kind])
    shown = Reader(replay.text_html(HOSTILE[kind])).text
    assert (
        "\\u" in shown
        if kind in ("right to left", "null bytes", "half a pair")
        else shown[:20] == HOSTILE[kind][:20]
    )


@settings(max_examples=60)
@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_is_safe(text: str) -> None:
    """Also lone surrogates and control characters."""
    require_safe(text)


def test_a_very_long_text_is_cut_and_says_so() -> None:
    """50,000 characters give a small page."""
    page = replay.game_html(game("A" * 50_000))
    assert len(page) < 10_000 and "(48,000 more characters)" in page


@pytest.mark.parametrize("reason", REASONS)
def test_a_turn_without_a_guess_shows_why_and_the_text(reason: str) -> None:
    """Every reason of the parser has words of its own; the row is marked in every place."""
    record = game("well")
    record["turns"][0]["reason"] = reason
    board = Reader(replay.board_html(record)).text
    assert replay.WHY_NO_GUESS[reason] in board and board.count("×") == 5
    assert "well" in replay.board_svg(record, record)


@pytest.mark.parametrize("rule", ["not_a_word", "hard_mode"])
def test_a_refused_guess_shows_its_letters_and_why(rule: str) -> None:
    """The letters stand in the board though they got no feedback."""
    record = game("x")
    record["turns"][0] |= {"guess": "zebra", "reason": "ok", "rule": rule}
    text = Reader(replay.board_html(record)).text
    assert text.startswith("Z×E×B×R×A×") and replay.WHY_REFUSED[rule] in text
    assert "ZEBRA" in replay.board_svg(record, record)


def test_every_reason_the_parser_and_the_game_give_has_words() -> None:
    """No reason code can be missing from the board."""
    assert set(replay.WHY_NO_GUESS) == {*REASONS, "failed"}
    assert set(replay.WHY_REFUSED) == {"not_a_word", "hard_mode"}


def test_boards_are_readable_without_colour() -> None:
    """Each kind of mark has a symbol of its own under the letter, in HTML and in the picture."""
    symbols = [look[0] for look in replay.LOOK.values()]
    assert len(set(symbols)) == len(symbols) == 4
    assert Reader(replay.tiles_html("geese", "BYBGG", 5)).text == "G·E~E·S✓E✓"
    record = game("x")
    record["turns"][0] |= {"guess": "geese", "feedback": "BBBGG", "reason": "ok", "rule": "ok"}
    letters = ElementTree.fromstring(replay.board_svg(record, record)).itertext()
    assert "".join(letters).replace("\n", "").count("G·E·E·S✓E✓") == 2


def test_case_01_the_help_says_what_grey_means_for_a_repeated_letter() -> None:
    """The example in the help is the feedback the game gives."""
    assert "no more copies" in replay.HELP and "GEESE for THOSE is · · · ✓ ✓" in replay.HELP
    assert "G·E·E·S✓E✓" in Reader(replay.feedback_html([("geese", "those")])).text


def test_a_board_has_all_rows_and_stops_at_the_asked_step(games: list[dict]) -> None:
    """Unused rows are empty tiles, later turns are not given away."""
    record = next(r for r in games if r["player"] == "greedy" and r["n_guesses"] > 1)
    assert replay.board_html(record).count("white-space:nowrap") == 6
    first, last = record["turns"][0]["guess"], record["turns"][-1]["guess"]
    letters = Reader(replay.board_html(record, step=1)).text[0:10:2]
    assert letters == first.upper() != last.upper()
    assert Reader(replay.board_html(record, step=1)).text[10:].strip("\xa0") == ""


def test_turns_are_judged_by_the_solver(games: list[dict], solver: Solver) -> None:
    """Candidates fall to one at the end of a won game; an invalid turn changes nothing."""
    record = next(r for r in games if r["player"] == "nonwords")
    facts = [replay.turn_facts(record, index, solver) for index in range(len(record["turns"]))]
    assert facts[0]["before"] == facts[0]["after"] == 64 and facts[0]["bits"] is None
    assert [fact["before"] for fact in facts[1:]] == [fact["after"] for fact in facts[:-1]]
    assert facts[-1]["after"] == 1
    assert facts[1]["bits"] == pytest.approx(facts[1]["best_bits"])
    page = Reader(replay.game_html(record, solver)).text
    assert "candidates 64 → 64" in page and f"best guess {facts[0]['best'].upper()}" in page


def test_reward_terms_are_shown_one_by_one() -> None:
    """Terms carry no weights, so no total is made of them."""
    assert "format +1.00, win -0.50" in replay.game_html(game("x", {"format": 1.0, "win": -0.5}))


def test_compare_shows_each_player_with_the_outcome_of_its_moves(games: list[dict]) -> None:
    """A record's own `won` is not believed."""
    secret = games[0]["secret"]
    records = {r["player"]: {**r, "won": True} for r in games if r["secret"] == secret}
    text = Reader(replay.compare_html(records)).text
    assert "loser: " + secret.upper() + ", lost after 6" in text and "won in" in text


def test_the_picture_stands_alone_on_any_background(games: list[dict]) -> None:
    """A light ground of its own, no style sheet, no script, no outside address; same games, same text."""
    before, after = games[0], games[-1]
    picture = replay.board_svg(before, after, ("untrained", "after GRPO"))
    root = ElementTree.fromstring(picture)
    ground = root[1]
    assert ground.tag.endswith("rect") and ground.get("width") == root.get("width")
    assert ground.get("fill") == "#ffffff" and picture.count("http") == 1
    assert "untrained" in picture and "after GRPO" in picture and "lost after 6" in picture
    assert picture == replay.board_svg(before, after, ("untrained", "after GRPO"))


# Without a front end -----------------------------------------------------------------------------


@pytest.fixture
def headless(monkeypatch) -> None:
    """A kernel nobody looks at, in which asking for input fails at once."""
    for name in ("JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(builtins, "input", lambda *args: pytest.fail("waited for input"))


@pytest.fixture
def notebook(monkeypatch, headless) -> None:
    """A kernel that a Jupyter server started."""
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/06_replay.ipynb")


def test_a_front_end_is_known_by_who_started_the_kernel(headless, monkeypatch) -> None:
    """papermill and nbconvert start kernels without the mark of a Jupyter server or VS Code."""
    import IPython  # noqa: F401  (a kernel has it loaded)

    assert not replay.has_front_end()
    monkeypatch.setenv("JPY_SESSION_NAME", "x.ipynb")
    assert replay.has_front_end()


def test_without_a_front_end_a_static_page_stands_in_for_the_widgets(
    headless, words, rules, solver, games
) -> None:
    """Nothing waits, nothing needs a comm; the same board, help, advice and games are there."""
    page = Reader(replay.play_widget(words, rules, solver).data).text
    assert replay.HELP in page and "64 words fit all feedback" in page
    page = Reader(replay.replay_widget(games, solver).data).text
    assert all(
        f"{player}: {games[0]['secret'].upper()}" in page for player in ("loser", "nonwords", "greedy")
    )
    page = Reader(replay.replay_widget(games, solver, games[1]["secret"], "greedy").data).text
    assert f"greedy: {games[1]['secret'].upper()}" in page and "loser" not in page


def test_games_that_were_not_saved_are_named(headless, games) -> None:
    """A wrong secret, a wrong player, and no games at all: one sentence each."""
    with pytest.raises(ValueError, match="no game of 'zzzzz' was saved"):
        replay.replay_widget(games, secret="zzzzz")
    with pytest.raises(ValueError, match="no game by 'nobody' was saved"):
        replay.replay_widget(games, player="nobody")
    with pytest.raises(ValueError, match="run notebook 04_eval first"):
        replay.replay_widget([])


# With one ----------------------------------------------------------------------------------------


def parts(widget, kind: type) -> dict:
    """The widgets of a kind inside a box, by description (buttons, dropdowns) or in order."""
    inside = [
        w
        for child in widget.children
        for w in ([child] if not hasattr(child, "children") else child.children)
    ]
    found = [w for w in inside if type(w) is kind]
    return {getattr(w, "description", "") or number: w for number, w in enumerate(found)}


def test_the_replay_steps_and_filters(notebook, games, solver) -> None:
    """Filters leave only secrets with such a game; the slider hides later turns."""
    widget = replay.replay_widget(games, solver)
    controls = parts(widget, ipywidgets.Dropdown)
    step, view = parts(widget, ipywidgets.IntSlider)["turn"], parts(widget, ipywidgets.HTML)[0]
    assert len(controls["secret"].options) == 4
    assert all(name in view.value for name in ("loser", "nonwords", "greedy"))

    controls["player"].value = "greedy"
    assert "loser" not in view.value
    controls["games"].value = "lost"
    assert controls["secret"].options == () and "No game of this kind" in view.value
    controls["games"].value = "won"
    assert len(controls["secret"].options) == 4

    step.value = 0
    assert "Turn" not in view.value
    step.value = 1
    assert "Turn 1" in view.value

    controls["player"].value, controls["games"].value = "nonwords", "with a non-word"
    assert len(controls["secret"].options) == 4 and "not a word of this game" in view.value


def test_a_person_plays_a_game(notebook, words, rules, solver) -> None:
    """Refused guesses say why and use no turn; the board grows; advice counts; a win ends the game."""
    secret = words.answers[3]
    widget = replay.play_widget(words, rules, solver, secret)
    buttons, texts = parts(widget, ipywidgets.Button), parts(widget, ipywidgets.HTML)
    entry, board, message = parts(widget, ipywidgets.Text)[0], texts[0], texts[1]

    def guess(text: str) -> str:
        entry.value = text
        buttons["Guess"].click()
        return message.value

    assert "has 5 letters" in guess("abc")
    assert "ZZZZZ is not in the list of 64 words" in guess("zzzzz")
    assert "<script>" not in guess("<script>alert(1)</script>")
    assert "✓" not in board.value and "×" not in board.value
    buttons["Ask solver"].click()
    assert "64 words fit all feedback" in message.value

    guess(f" {words.answers[0].upper()} ")
    assert entry.value == "" and Reader(board.value).text[0:10:2] == words.answers[0].upper()
    assert guess(secret) == "Won in 2."
    assert "game is over" in guess(words.answers[0])

    buttons["New game"].click()
    assert "✓" not in board.value and message.value == ""


def test_hard_mode_is_switched_between_games_and_refuses_with_the_hint(
    notebook, words, rules, solver
) -> None:
    """The switch is locked while a game is on; the advice then keeps the hints too."""
    secret = words.answers[3]
    widget = replay.play_widget(words, rules, solver, secret)
    hard = parts(widget, ipywidgets.Checkbox)["hard mode"]
    entry, message = parts(widget, ipywidgets.Text)[0], parts(widget, ipywidgets.HTML)[1]
    buttons = parts(widget, ipywidgets.Button)
    hard.value = True
    hinted = [w for w in words.answers if w != secret and set(w) & set(secret)]
    first = hinted[0]
    state = Game(words, Rules(**{**rules.to_dict(), "hard_mode": True}), secret)
    state.play(first)
    breaking = next(w for w in words.answers if "Hard mode" in replay.refusal(w, state))
    entry.value = first
    buttons["Guess"].click()
    assert hard.disabled
    entry.value = breaking
    buttons["Guess"].click()
    assert message.value == replay.refusal(breaking, state)
    buttons["Ask solver"].click()
    assert "Best guess" in message.value


def test_a_lost_game_names_the_word(notebook, words, rules, solver) -> None:
    """After six legal wrong guesses the board is full and the word is told."""
    secret = words.answers[3]
    widget = replay.play_widget(words, rules, solver, secret)
    entry, message = parts(widget, ipywidgets.Text)[0], parts(widget, ipywidgets.HTML)[1]
    for word in words.answers[4:10]:
        entry.value = word
        parts(widget, ipywidgets.Button)["Guess"].click()
    assert message.value == f"Lost: the word was {secret.upper()}."


def test_a_secret_outside_the_list_is_refused(headless, words, rules, solver) -> None:
    """It could never be guessed."""
    with pytest.raises(ValueError, match="'zzzzz' is not among the 64 allowed guesses"):
        replay.play_widget(words, rules, solver, "zzzzz")


def test_before_and_after_is_a_pair_on_one_secret_that_training_gained(games):
    by_player = evaluate.by_player(games)
    trained = {"untrained": by_player["loser"], "grpo": by_player["greedy"]}
    before, after = replay.before_and_after(trained)
    assert before["secret"] == after["secret"] and after["won"] and not before["won"]
    assert replay.before_and_after({"untrained": by_player["greedy"], "grpo": by_player["greedy"]}) is None
    assert replay.before_and_after({"greedy": by_player["greedy"]}) is None
