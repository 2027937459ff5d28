"""SFT on the student's own mistakes: what counts as one, what it is corrected to, and what is trained."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordlelib import clues, corrections, data, models, runs, training
from wordlelib.corrections import Question, corrected
from wordlelib.game import Turn, is_consistent, score
from wordlelib.misses import MOST_LEFT
from wordlelib.prompts import completion, is_well_formed, parse_guess, rejected_words
from wordlelib.rules import rules_for
from wordlelib.solver import Solver
from wordlelib.thinking import stated_words
from wordlelib.words import Words, load_words, sample_words, split_secrets

WORDS = sample_words(load_words(), 60, seed=3)
RULES = rules_for(WORDS, renderer="facts")
SPLIT = split_secrets(WORDS, test=12, val=6)
SOLVER = Solver(WORDS, RULES)
SOURCE = {"sample": 60, "sample_seed": 3}
UNIVERSES = ("answers", "allowed")
BEARD = Question([], frozenset({"beard", "heard"}), ["beard"], "beard")
WIDE = BEARD._replace(fits=frozenset(WORDS.answers[: MOST_LEFT + 1]) | {"beard"})

SFT = {
    **{"tracker": "none", "save_minutes": 0, "keep_checkpoints": 1, "max_memory_gb": 1, "save_every": 9},
    **{"learning_rate": 2e-3, "warmup_steps": 1, "batch_size": 8, "micro_batch_size": 0, "max_steps": 6},
    **{"max_minutes": 9, "eval_every": 3, "max_length": 200, "seed": 0, "correct_rounds": 2, "rows": "file"},
    "batch_order": "sorted",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    counts = {"rows": 150, "states": 40, "clues": 60, "grpo_secrets": 7}
    how = {"candidates": 1, "guess_place": "first", "rejecting": 0.5}
    how["count_tokens"] = models.token_counter(models.nano_tokenizer(RULES))
    data.build(folder, RULES, SPLIT, source=SOURCE, **counts, **how)
    return data.load(folder)


@pytest.mark.parametrize(
    "answer",
    [
        completion(["heard"], "heard"),
        completion(["heard"], "heard", rejected=["weard"]),
        completion(["heard"], "heard").removeprefix("<think>"),  # which a prompt may end with
    ],
)
def test_an_answer_that_fits_stays_as_it_is(answer):
    assert corrected(BEARD, answer, RULES, True) == answer


@pytest.mark.parametrize(
    "answer, own",
    [
        (completion(["weard"], "weard"), ["weard"]),
        (completion(["bears"], "bears", rejected=["weard"]), ["weard", "bears"]),
        ("<think>W E A R D no; W E A R D no; W E A R D no; W E", ["weard"]),  # up to the end of its tokens
        ("<think>A B A C K no; B E A R S no; W E A R D no; Y E A R D no", ["aback", "bears", "weard"]),
        (completion(["weard"], "bears"), ["weard", "bears"]),
        (completion(["beard"], "beard", rejected=["heard", "weard"]), ["weard"]),  # an unjust no
        (completion(["heard"], "heard", rejected=["weard", "weard"]), ["weard"]),  # one no too many
        ("<think>W E A R D S</think><guess>weards</guess>", []),
        ("<think>W É A R D no; Ж Ж Ж Ж Ж no; W E A R D no</think><guess>beards</guess>", ["weard"]),
        ("beard", []),
        ("", []),
    ],
)
def test_wrong_words_of_its_own_are_rejected_once_each_and_then_the_teacher_speaks(answer, own):
    text = corrected(BEARD, answer, RULES, True)
    assert text == completion(["beard"], "beard", rejected=own)
    assert corrected(BEARD, answer, RULES, False) == completion(["beard"], "beard")


def test_with_many_words_left_none_is_rejected():
    assert corrected(WIDE, completion(["weard"], "weard"), RULES, True) == completion(["beard"], "beard")


@settings(max_examples=300)
@given(
    text=st.text("BEARDWHbeard no;<>/think guess", max_size=80)
    | st.lists(st.sampled_from(["<think>", "B E A R D", "H E A R D", "W E A R D", " no", "; ", "</think>"]))
    .map("".join)
    .map(lambda text: text + "<guess>weard</guess>")
)
def test_whatever_a_student_writes_what_it_learns_is_right(text):
    learned = corrected(BEARD, text, RULES, True)
    assert is_well_formed(learned) and parse_guess(learned).guess in BEARD.fits
    if learned != text:
        assert BEARD.fits.isdisjoint(rejected_words(learned)) and len(rejected_words(learned)) <= 3


def test_barred_words_are_neither_kept_nor_rejected():
    """In whatever form an answer names them; the student's other words stay."""
    for named in ("W E A R D no; B E A R D", "B E A R D; W E A R D", "not weard"):
        answer = f"<think>{named}</think><guess>beard</guess>"
        assert corrected(BEARD, answer, RULES, True, {"weard"}) == completion(["beard"], "beard")
    answer = completion(["bears"], "bears", rejected=["weard"])
    assert corrected(BEARD, answer, RULES, True, {"weard"}) == completion(
        ["beard"], "beard", rejected=["bears"]
    )
    answer = completion(["heard"], "heard", rejected=["bears"])
    assert corrected(BEARD, answer, RULES, True, {"weard", "guess", "think"}) == answer


def clue_questions(words, rules):
    return [corrections.clue_question(clue, rules) for clue in clues.questions(words, rules, 160, 5)]


def test_clues_come_with_all_words_that_they_fit():
    asked = clue_questions(WORDS, RULES)
    assert len({question.guess for question in asked}) > 20
    for question in asked:
        assert question.guess in question.fits and question.named == [question.guess]
        assert question.fits <= set(WORDS.answers) and question.prompt[-1]["role"] == "user"


def test_any_allowed_word_that_fits_a_clue_is_right_where_the_secret_can_be_any():
    """Games of such rules count it among the words left, and none that fits may be rejected."""
    words = Words(WORDS.answers[::2], WORDS.answers)
    rules = {universe: rules_for(words, renderer="facts", universe=universe) for universe in UNIVERSES}
    asked = {name: clue_questions(words, of) for name, of in rules.items()}
    wider = 0
    for narrow, wide in zip(asked["answers"], asked["allowed"], strict=True):
        assert narrow.prompt == wide.prompt and narrow.fits <= set(words.answers)
        assert narrow.guess in words.answers and narrow.fits == wide.fits & set(words.answers)
        wider += narrow.fits < wide.fits
    assert wider > 5


def test_states_come_with_the_words_left_and_those_without_any_are_left_out():
    turn = Turn("crane", score("crane", WORDS.answers[7]))
    nothing = (Turn("crane", "BBBBB"), Turn("aeros", "GGGGG"))
    how = (SOLVER, random.Random(0), 1, "first")
    question = corrections.state_question((turn,), *how)
    assert corrections.state_question(nothing, *how) is None
    assert question.fits == {word for word in WORDS.answers if is_consistent(word, (turn,))}
    assert question.guess in question.fits and question.named == [question.guess]


def test_another_game_is_told_that_it_has_no_such_rounds():
    board = SimpleNamespace(game="tic_tac_toe")
    with pytest.raises(ValueError, match="02_sft: correct_rounds is of Wordle, and the game is tic_tac_toe"):
        corrections.require_words(SimpleNamespace(correct_rounds=1), board)
    corrections.require_words(SimpleNamespace(correct_rounds=0), board)


def trained(source, folder, monkeypatch, answer, **changes):
    """What each round trains on when the student always gives one answer, and the metrics."""
    rounds = []

    def sft(model, tokenizer, rows, val_rows, config, run):
        rounds.append((rows, config, run))
        (run.dir / "checkpoints").mkdir()

    def token_counter(tokenizer):
        return lambda chats: [len(chat[-2]["content"]) for chat in chats]

    class Tokenizer:
        def batch_decode(self, answers, skip_special_tokens):
            return answers

    monkeypatch.setattr(corrections, "PASSES", 1)
    monkeypatch.setattr(training, "sft", sft)
    monkeypatch.setattr(models, "token_counter", token_counter)
    monkeypatch.setattr(corrections.players, "prompt_ids", lambda tokenizer, chats: chats)
    monkeypatch.setattr(
        corrections.players, "transformers_generator", lambda *how: lambda ids, seeds: [answer] * len(ids)
    )
    config = SimpleNamespace(**(SFT | changes))
    run = runs.Run("02_sft", config, folder, False)
    return rounds, corrections.correct(None, Tokenizer(), source, config, run)


def test_each_round_trains_on_all_mistakes_and_rows_of_the_teacher(source, tmp_path, monkeypatch):
    """At a lower rate, for one pass."""
    rounds, metrics = trained(source, tmp_path, monkeypatch, completion(["zzzzz"], "zzzzz"))
    assert len(rounds) == 2 and metrics["correct_first_right"] == metrics["correct_last_right"] == 0
    wrong = 0
    for number, (rows, config, run) in enumerate(rounds, 1):
        mistakes = data.read_jsonl(run.dir / "mistakes.jsonl")
        wrong += len(mistakes)
        own = [row for row in rows if row["source"] == corrections.SOURCE]
        assert run.dir == tmp_path / "corrections" / f"round_{number}"
        assert not (run.dir / "checkpoints").exists()
        assert len(own) == len(mistakes) > 60  # a clue of each word, and states of games
        assert len(rows) - len(own) == min(2 * len(own), len(source.dataset("sft")))
        assert config.max_steps == -(-len(rows) // 8) and config.learning_rate == pytest.approx(4e-4)
        assert config.max_minutes == config.save_minutes == config.max_memory_gb == 0
        texts = [row["completion"][0]["content"] for row in own]
        assert 0.2 < sum("zzzzz" in "".join(rejected_words(text)) for text in texts) / len(texts) < 0.8
        assert all(stated_words(text) == [parse_guess(text).guess] for text in texts)
    assert metrics["correct_rows"] == wrong


def test_games_are_played_with_the_secrets_of_sft_alone(source, tmp_path, monkeypatch):
    """What is held out, and what is left to GRPO, stays unseen."""
    played = []
    play = corrections.evaluate.play_games

    def play_games(player, secrets, *rest, **options):
        played.append(set(secrets))
        return play(player, secrets, *rest, **options)

    monkeypatch.setattr(corrections.evaluate, "play_games", play_games)
    trained(source, tmp_path, monkeypatch, "")
    assert played == [set(source.split.train) - set(source.grpo_secrets)] * 2 and len(played[0]) == 35


def test_a_clue_is_asked_again_after_a_non_word(source, tmp_path, monkeypatch):
    """So that a student that repeats it is told what else to say."""
    rounds, _ = trained(source, tmp_path, monkeypatch, completion(["zzzzz"], "zzzzz"), correct_rounds=1)
    [(rows, *_)] = rounds
    asked = [row["prompt"][-1]["content"] for row in rows if row["source"] == corrections.SOURCE]
    first = [text for text in asked if not text.startswith("Turn ") and "Not words" not in text]
    again = [text for text in asked if not text.startswith("Turn ") and "Not words" in text]
    assert sorted(again) == sorted(f"{text}\nNot words: Z Z Z Z Z" for text in first) and len(first) == 60


def test_clues_are_asked_only_if_sft_had_some(source, tmp_path, monkeypatch):
    by_source = dict(source.card["files"]["sft"]["by_source"])
    del by_source[clues.SOURCE]
    files = source.card["files"]
    card = {**source.card, "files": files | {"sft": files["sft"] | {"by_source": by_source}}}
    rounds, _ = trained(source._replace(card=card), tmp_path, monkeypatch, "")
    for rows, _, _ in rounds:
        prompts = [row["prompt"][-1]["content"] for row in rows if row["source"] == corrections.SOURCE]
        assert prompts and all(prompt.startswith("Turn ") for prompt in prompts)


def test_rows_that_are_too_long_are_left_out_and_counted(source, tmp_path, monkeypatch, capsys):
    """Here a token is a character of the prompt. A finished training must not end in an error by them."""
    rounds, metrics = trained(
        source, tmp_path, monkeypatch, completion(["zzzzz"], "zzzzz"), max_length=60, correct_rounds=1
    )
    [(rows, *_)] = rounds
    own = [row for row in rows if row["source"] == corrections.SOURCE]
    assert max(len(row["prompt"][-1]["content"]) for row in own) <= 60 and metrics["correct_rows"] == len(own)
    assert "rows are left out, longer than max_length 60" in capsys.readouterr().out


@pytest.mark.parametrize(("shown", "clues"), [({"history": "chat"}, 0), ({"renderer": "facts"}, 60)])
def test_a_held_out_word_comes_into_no_row_with_the_train_lexicon(tmp_path, monkeypatch, shown, clues):
    """A student that names one, spelled or not: neither what it said nor a state that shows it is trained."""
    rules = rules_for(WORDS, lexicon="train", **shown)
    held_out = SPLIT.val + SPLIT.test
    how = {"candidates": 1, "guess_place": "first", "rejecting": 1.0}
    how["count_tokens"] = models.token_counter(models.nano_tokenizer(rules))
    data.build(tmp_path / "data", rules, SPLIT, source=SOURCE, rows=60, states=20, clues=clues, **how)
    own = data.load(tmp_path / "data")
    for number, word in enumerate(held_out[:3]):
        guess = word if clues else SPLIT.train[number]
        answer = completion([word], guess, rejected=["zzzzz", held_out[-1]])
        rounds, _ = trained(own, tmp_path / str(number), monkeypatch, answer)
        for rows, _, _ in rounds:
            mine = [row for row in rows if row["source"] == corrections.SOURCE]
            texts = [message["content"] for row in mine for message in row["prompt"][1:] + row["completion"]]
            letters = ";".join(texts).replace(" ", "").lower()
            assert mine and not [word for word in held_out if word in letters]


def test_rows_without_a_file_are_made_for_the_rounds_too(source, tmp_path, monkeypatch):
    """Of 01 such a training reads the data card alone; and it has no clues."""
    monkeypatch.setattr(data.Data, "dataset", lambda *of: pytest.fail("the file was read"))
    rounds, _ = trained(source, tmp_path, monkeypatch, completion(["zzzzz"], "zzzzz"), rows="tasks")
    for rows, _, _ in rounds:
        mine = [row for row in rows if row["source"] == corrections.SOURCE]
        assert mine and len(rows) == 3 * len(mine)
        assert all(row["prompt"][-1]["content"].startswith("Turn ") for row in mine)


def test_a_batch_of_more_rows_than_a_round_has_is_trained_all_the_same(source, tmp_path, monkeypatch):
    """In one step, whose learning rate no warm-up keeps at 0."""
    rounds, metrics = trained(source, tmp_path, monkeypatch, "", batch_size=4096)
    assert len(rounds) == 2 and metrics["correct_rows"] > 60
    assert all((config.max_steps, config.warmup_steps) == (1, 0) for _, config, _ in rounds)


def test_without_rounds_nothing_happens(source, tmp_path, monkeypatch):
    assert trained(source, tmp_path, monkeypatch, "", correct_rounds=0) == ([], {})


def test_a_student_without_a_mistake_learns_nothing_more(source, tmp_path, monkeypatch):
    """Whatever it answers counts as right here."""
    monkeypatch.setattr(corrections, "corrected", lambda question, answer, *rest: answer)
    rounds, metrics = trained(source, tmp_path, monkeypatch, "")
    assert not rounds and metrics["correct_rows"] == 0 and metrics["correct_last_right"] == 1


def test_a_small_model_goes_through_the_rounds(source, tmp_path, monkeypatch):
    """With TRL: its weights change, and a round that was begun before is made again."""
    monkeypatch.setattr(corrections, "PASSES", 1)
    tokenizer = models.nano_tokenizer(RULES)
    model = models.nano_model(tokenizer)
    before = [weight.detach().clone() for weight in model.parameters()]
    (tmp_path / "corrections" / "round_1").mkdir(parents=True)
    (tmp_path / "corrections" / "round_1" / "log.jsonl").write_text("left")
    config = SimpleNamespace(**(SFT | {"correct_rounds": 1}))
    run = runs.Run("02_sft", config, tmp_path, True)
    metrics = corrections.correct(model, tokenizer, source, config, run)
    assert metrics["correct_rows"] > 60 and metrics["correct_minutes"] > 0
    assert any(not after.equal(weight) for after, weight in zip(model.parameters(), before, strict=True))
    assert runs.read_log(tmp_path / "corrections" / "round_1" / "log.jsonl")[-1]["step"] > 10
