"""Other languages and lengths through every part: a Spanish game with ñ, a German one of six letters."""

import re

import pytest

from wordlelib import boards, data, duel, formats, models, replay
from wordlelib.evaluate import history_of, play_games
from wordlelib.game import Turn, hard_mode_violation
from wordlelib.players import solver_player
from wordlelib.prompts import is_well_formed, parse_guess, render_state, spell
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.thinking import stated_words
from wordlelib.words import capitals, read_list, split_secrets

SPANISH = """
niños señal cañas mañas sueño dueño baños daños paños leñas piñas riñas uñero añejo ñoños ñandú
cesta carta gente libro mundo noche padre madre perro playa queso reina salsa tarde verde viaje
"""
GERMAN = """
straße größen mäßige süßere äußern büßten bücher küchen möbeln hügeln wärmer schöne blätte garten
katzen lampen morgen abends winter sommer kinder messer teller zimmer regale brücke
"""
LISTS = {"spanish": (SPANISH, "a-zñú"), "german": (GERMAN, "a-zäöüß")}


@pytest.fixture(scope="module", params=LISTS)
def made(request, tmp_path_factory):
    """A data folder made of a list in a file, as a user has it: mixed case, lines of another system."""
    text, alphabet = LISTS[request.param]
    words = text.split()
    folder = tmp_path_factory.mktemp(request.param)
    file = folder / "own list.txt"
    file.write_bytes("\r\n".join([capitals(words[0]), *words[1:]]).encode())
    source = {"answers": str(file)}
    own = data.game_words(**source, alphabet=alphabet)
    rules = rules_for(own, alphabet=alphabet)
    tokenizer = models.load_tokenizer("nano", rules)
    data.build(
        folder,
        rules,
        split_secrets(own, test=6, val=3),
        source=source,
        rows=300,
        states=40,
        count_tokens=models.token_counter(tokenizer),
    )
    return data.load(folder)


def test_the_rules_follow_the_list(made):
    assert made.rules.length == made.words.length == len(made.words.answers[0])
    assert f"word of {made.rules.length} letters" in made.rows("sft")[0]["prompt"][0]["content"]


def test_every_row_names_words_of_the_list_and_survives_the_tokenizer(made):
    """Also letters that have no capital of one letter: each letter of a state has its own mark."""
    tokenizer = models.load_tokenizer("nano", made.rules)
    special = {letter for word in made.words.answers for letter in word} - set(map(chr, range(97, 123)))
    seen = set()
    for row in made.rows("sft") + made.rows("sft_val"):
        text = row["completion"][0]["content"]
        assert parse_guess(text, made.rules.length, made.rules.alphabet).guess in made.words.dictionary
        assert is_well_formed(text, made.rules.length, made.rules.alphabet)
        assert set(stated_words(text)) <= made.words.dictionary
        for written in (text, row["prompt"][-1]["content"]):
            ids = tokenizer(written, add_special_tokens=False)["input_ids"]
            assert tokenizer.unk_token_id not in ids and tokenizer.decode(ids) == written
        seen |= special & set(text)
    assert seen == special and special


def test_games_are_won_and_shown_with_a_tile_for_each_letter(made):
    solver = Solver(made.words, made.rules)
    player = solver_player(solver, "greedy")
    records = list(play_games(player, made.words.answers, made.words, made.rules, name="greedy"))
    assert all(record["won"] for record in records)
    for record in records:
        shown = re.findall(r'<b class="[BYG]" title="(.) ', boards.game_html(record, solver))
        guesses = "".join(turn.guess for turn in history_of(record))
        assert "".join(shown).startswith(capitals(guesses))


@pytest.mark.parametrize("renderer", ["words", "symbols", "both"])
def test_feedback_of_every_word_is_rendered_and_read_back(made, renderer):
    rules = rules_for(made.words, alphabet=made.rules.alphabet, renderer=renderer)
    for word in made.words.answers:
        [line] = [
            line
            for line in render_state((Turn(word, "Y" * rules.length),), rules).splitlines()
            if "Guess" in line
        ]
        letters, feedback = formats.read_feedback(line.partition(": ")[2], rules.length)
        assert (letters.lower(), feedback) == (word, "Y" * rules.length)


@pytest.mark.parametrize("form", ["sft", "messages", "predibase", "turns"])
def test_rows_of_the_list_are_converted_and_read_again(made, form, tmp_path):
    target = tmp_path / "rows.jsonl"
    formats.convert(made.folder / "sft.jsonl", target, form, made)
    report = formats.convert(target, data=made)
    assert report.kept == report.rows > 50 and not report.disagreements


def test_a_duel_is_played_on_the_list(made):
    file = made.card["words"]["source"]["answers"]
    words, rules, _ = duel.setting(answers_file=file, alphabet=made.rules.alphabet)
    assert (words, rules.alphabet) == (made.words, made.rules.alphabet)
    with pytest.raises(ValueError, match=r"line \d+: .* is not a word of \d letters a-z"):
        duel.setting(answers_file=file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("señal\nniño", "line 2: 'niño' is not a word of 5 letters"),
        ("señal\nsen\u0303al", "line 2"),  # n and a tilde of its own are two letters
        ("señal\nSEÑAL", "line 2: 'señal' stands already in line 1"),
    ],
)
def test_a_list_with_a_wrong_line_is_refused_with_its_number(tmp_path, text, message):
    file = tmp_path / "list.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_list(file, alphabet="a-zñ")


def test_letters_of_other_alphabets_are_no_guess_of_this_one():
    text = "<think>x</think><guess>señal</guess>"
    assert parse_guess(text).reason == "not_letters"
    assert parse_guess(text, alphabet="a-zñ").guess == "señal"
    assert (
        parse_guess(text.upper().replace("THINK", "think").replace("GUESS", "guess"), 5, "a-zñ").guess
        == "señal"
    )
    assert parse_guess("<guess>sen\u0303al</guess>", 5, "a-zñ").guess is None


def test_a_letter_without_a_capital_of_its_own_is_spelled_as_it_is():
    assert spell("straße") == "S T R A ß E"
    assert capitals("straße") == "STRAßE" and capitals("señal") == "SEÑAL"


def test_every_letter_keeps_its_own_cell_wherever_words_are_shown(made):
    """Boards, pictures, sentences, and the secrets of a replay, which the script shows as it gets them."""
    secret = next((word for word in made.words.answers if "ß" in word), made.words.answers[0])
    solver = Solver(made.words, made.rules)
    games = play_games(solver_player(solver, "greedy"), [secret], made.words, made.rules, name="greedy")
    [told] = replay.Replay("german", games, solver).index()["secrets"]
    assert told == capitals(secret) and len(told) == made.rules.length
    pages = [boards.game_html(games[0], solver), boards.board_svg(games[0], games[0])]
    pages.append(boards.feedback_html([(secret, secret)]))
    assert all(told in page for page in pages)
    green = Turn(secret, "G" * len(secret))
    hints = {hard_mode_violation(word, [green]) for word in made.words.answers if word != secret}
    assert hints and all(re.fullmatch(r"letter \d must be [^\W_]", hint) for hint in hints)


@pytest.mark.parametrize("alphabet", ["a-zı", "σς", "A-Za-z", r"\w"])
def test_an_alphabet_in_which_two_letters_share_a_capital_is_refused(made, alphabet):
    """States are written in capitals: the two could not be told apart."""
    with pytest.raises(ValueError, match="have the same capital; keep one of them"):
        rules_for(made.words, alphabet=alphabet)


def test_a_tokenizer_that_cannot_write_a_letter_is_refused(made, tmp_path):
    """One of the English game, which has no token for others."""
    english = rules_for(made.words)
    models.nano_tokenizer(english).save_pretrained(tmp_path / "model")
    assert models.load_tokenizer(tmp_path / "model", english)
    with pytest.raises(ValueError, match=r"model has no way to write '[ñß]|model has no way to write 'ä"):
        models.load_tokenizer(tmp_path / "model", made.rules)
