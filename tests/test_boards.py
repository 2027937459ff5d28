"""Boards: safe whatever a model wrote, and readable without colour."""

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordlelib import boards, evaluate
from wordlelib.solver import Solver

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
TAGS = {"div", "span", "pre", "b", "table", "tr", "td", "i", "u"}
REASONS = ("empty", "no_tag", "unclosed", "wrong_length", "not_letters")


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
        boards.game_html(record),
        boards.compare_html({text[:50]: record}),
        boards.board_html(record),
    ):
        reader = Reader(page)
        assert reader.tags <= TAGS and reader.attributes <= {"style", "title", "class"}
        assert not set(page) & set("\x00\x1b\u202e\u2066\u200f")
        page.encode()
    picture = boards.board_svg(record, record, (text[:20], "after"))
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()}
    assert tags == {"svg", "title", "rect", "text"}


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_a_model_wrote_is_shown_as_text(kind: str) -> None:
    """Tags, event handlers, control and direction marks become visible text in every view."""
    require_safe(HOSTILE[kind])
    shown = Reader(boards.text_html(HOSTILE[kind])).text
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
    page = boards.game_html(game("A" * 50_000))
    assert len(page) < 10_000 and "(48,000 more characters)" in page


@pytest.mark.parametrize("reason", REASONS)
def test_a_turn_without_a_guess_shows_why_and_the_text(reason: str) -> None:
    """Every reason of the parser has words of its own; the row is marked in every place."""
    record = game("well")
    record["turns"][0]["reason"] = reason
    board = Reader(boards.board_html(record)).text
    assert boards.WHY_NO_GUESS[reason] in board and board.count("×") == 5
    assert "well" in boards.board_svg(record, record)


@pytest.mark.parametrize("rule", ["not_a_word", "hard_mode"])
def test_a_refused_guess_shows_its_letters_and_why(rule: str) -> None:
    """The letters stand in the board though they got no feedback."""
    record = game("x")
    record["turns"][0] |= {"guess": "zebra", "reason": "ok", "rule": rule}
    text = Reader(boards.board_html(record)).text
    assert text.startswith("Z×E×B×R×A×") and boards.WHY_REFUSED[rule] in text
    assert "ZEBRA" in boards.board_svg(record, record)


def test_every_reason_the_parser_and_the_game_give_has_words() -> None:
    """No reason code can be missing from the board."""
    assert set(boards.WHY_NO_GUESS) == {*REASONS, "failed"}
    assert set(boards.WHY_REFUSED) == {"not_a_word", "hard_mode"}


def test_boards_are_readable_without_colour() -> None:
    """Each kind of mark has a symbol of its own under the letter, in HTML and in the picture."""
    symbols = [look[0] for look in boards.LOOK.values()]
    assert len(set(symbols)) == len(symbols) == 4
    assert Reader(boards.tiles_html("geese", "BYBGG", 5)).text == "G·E~E·S✓E✓"
    record = game("x")
    record["turns"][0] |= {"guess": "geese", "feedback": "BBBGG", "reason": "ok", "rule": "ok"}
    letters = ElementTree.fromstring(boards.board_svg(record, record)).itertext()
    assert "".join(letters).replace("\n", "").count("G·E·E·S✓E✓") == 2


def test_case_01_the_help_says_what_grey_means_for_a_repeated_letter() -> None:
    """The example in the help is the feedback the game gives."""
    assert "no more copies" in boards.HELP and "GEESE for THOSE is · · · ✓ ✓" in boards.HELP
    assert "G·E·E·S✓E✓" in Reader(boards.feedback_html([("geese", "those")])).text


def test_a_board_has_all_rows_also_of_a_game_in_play(small_games: list[dict]) -> None:
    """Unused rows are empty tiles."""
    record = next(r for r in small_games if r["player"] == "greedy" and r["n_guesses"] > 1)
    assert boards.board_html(record).count('class="row"') == 6
    first, last = record["turns"][0]["guess"], record["turns"][-1]["guess"]
    shown = Reader(boards.board_html({**record, "turns": record["turns"][:1]})).text
    assert shown[0:10:2] == first.upper() != last.upper()
    assert shown[10:].strip("\xa0") == ""


def test_turns_are_judged_by_the_solver(small_games: list[dict], small_solver: Solver) -> None:
    """Candidates fall to one at the end of a won game; an invalid turn changes nothing."""
    record = next(r for r in small_games if r["player"] == "nonwords")
    facts = [boards.turn_facts(record, index, small_solver) for index in range(len(record["turns"]))]
    assert facts[0]["before"] == facts[0]["after"] == 64 and facts[0]["bits"] is None
    assert [fact["before"] for fact in facts[1:]] == [fact["after"] for fact in facts[:-1]]
    assert facts[-1]["after"] == 1
    assert facts[1]["bits"] == pytest.approx(facts[1]["best_bits"])
    page = Reader(boards.game_html(record, small_solver)).text
    assert "candidates 64 → 64" in page and f"best guess {facts[0]['best'].upper()}" in page
    assert facts[0]["regret"] == facts[0]["best_bits"] and facts[1]["regret"] == 0
    whole = sum(boards.regrets(record, small_solver))
    assert whole == pytest.approx(sum(fact["regret"] for fact in facts))
    assert sum(boards.regrets({**record, "preplayed": 1}, small_solver)) == pytest.approx(
        whole - facts[0]["regret"]
    )


def test_reward_terms_are_shown_one_by_one() -> None:
    """Terms carry no weights, so no total is made of them."""
    page = boards.game_html(game("x", {"format": 1.0, "win": -0.5}))
    assert "format+1.00win-0.50" in Reader(page).text
    assert 'class="plus" style="left:50.0%;width:50.0%"' in page
    assert 'class="minus" style="left:25.0%;width:25.0%"' in page
    large = boards.terms_html({"<b>": 4.0, "half": -2.0})
    assert "width:50.0%" in large and "left:25.0%;width:25.0%" in large and "<b>" not in large


def test_compare_shows_each_player_with_the_outcome_of_its_moves(small_games: list[dict]) -> None:
    """A record's own `won` is not believed."""
    secret = small_games[0]["secret"]
    records = {r["player"]: {**r, "won": True} for r in small_games if r["secret"] == secret}
    text = Reader(boards.compare_html(records)).text
    assert "loser: " + secret.upper() + ", lost after 6" in text and "won in" in text


def test_the_picture_stands_alone_on_any_background(small_games: list[dict]) -> None:
    """A light ground of its own, no style sheet, no script, no outside address; same games, same text."""
    before, after = small_games[0], small_games[-1]
    picture = boards.board_svg(before, after, ("untrained", "after GRPO"))
    root = ElementTree.fromstring(picture)
    ground = root[1]
    assert ground.tag.endswith("rect") and ground.get("width") == root.get("width")
    assert ground.get("fill") == "#ffffff" and picture.count("http") == 1
    assert "untrained" in picture and "after GRPO" in picture and "lost after 6" in picture
    assert picture == boards.board_svg(before, after, ("untrained", "after GRPO"))


def test_before_and_after_is_a_pair_on_one_secret_that_training_gained(small_games):
    by_player = evaluate.by_player(small_games)
    trained = {"untrained": by_player["loser"], "grpo": by_player["greedy"]}
    before, after = boards.before_and_after(trained)
    assert before["secret"] == after["secret"] and after["won"] and not before["won"]
    assert boards.before_and_after({"untrained": by_player["greedy"], "grpo": by_player["greedy"]}) is None
    assert boards.before_and_after({"greedy": by_player["greedy"]}) is None


def test_a_hidden_row_shows_marks_and_no_letter(small_games):
    """So that an opponent gives nothing away."""
    record = next(r for r in small_games if r["player"] == "greedy")
    shown = Reader(boards.board_html(record, hidden=True)).text
    assert "✓" in shown and not any(letter.isalpha() for letter in shown)
