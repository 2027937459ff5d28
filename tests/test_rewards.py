"""Rewards: what each term pays, the ladder of the presets, checks of shapes and values, schedules."""

import copy
import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordlelib import game, params, prompts, rewards
from wordlelib.game import Turn
from wordlelib.rules import Rules
from wordlelib.solver import Solver
from wordlelib.words import Words, load_words, sample_words


def make_solver(words: Words, **fields) -> Solver:
    sha = words.sha256
    return Solver(words, Rules(sha["answers"], sha["allowed"], length=words.length, **fields))


WORDS = load_words()
SOLVER = make_solver(WORDS)
RULES = SOLVER.rules
# The dictionary is larger than the answers, as in the full game, but drawn states are quick.
SMALL = Words(WORDS.answers[::20], WORDS.allowed[::10] + WORDS.answers[1::20])
SMALL = Words(SMALL.answers, tuple(sorted({*SMALL.answers, *SMALL.allowed})))
SMALL_SOLVERS = {hard: make_solver(SMALL, hard_mode=hard) for hard in (False, True)}
# Another length, another alphabet.
TOY = Words(*[("bärö", "bare", "bars", "barn", "rabä", "cars", "crab", "örnä", "scar")] * 2)
TOY_SOLVER = make_solver(TOY, alphabet="a-zäö", turns=4)


def turns(secret: str, *guesses: str) -> tuple[Turn, ...]:
    return tuple(Turn(guess, game.score(guess, secret)) for guess in guesses)


def write(word: str) -> str:
    return prompts.completion([word], word)


def values(name: str, texts: list, *, solver: Solver = SOLVER, **columns) -> list[float]:
    """The rewards of one term, called as the trainer calls it; the rows share the columns."""
    functions, _ = rewards.make_reward_functions({"weights": {name: 1.0}}, solver, solver.rules)
    return functions[0](completions=texts, **{key: [v] * len(texts) for key, v in columns.items()})


def totals(preset, texts: list[str], history, *, solver: Solver = SOLVER, secret=None, bits=None):
    """The weighted totals of a preset for texts written in one state."""
    functions, weights = rewards.make_reward_functions(preset, solver, solver.rules)
    columns = {"history": history, "secret": secret or solver.universe[0], "best_bits": bits}
    columns = {key: [value] * len(texts) for key, value in columns.items()}
    per_term = [function(completions=texts, **columns) for function in functions]
    return [sum(w * v for w, v in zip(weights, row, strict=True)) for row in zip(*per_term, strict=True)]


HISTORY = turns("steep", "crane", "stole")

MALFORMED = [
    "",
    " \n",
    "slate",
    "<guess>slate</guess>",
    "<think>x</guess><guess>slate</guess>",
    "<think>x</think>slate",
    "<think>x</think><guess>slate",
    "<think>x</think></guess>slate<guess>",
    "<think>x</think><guess></guess>",
    "<think>x</think><guess>slates</guess>",
    "<think>x</think><guess>slat3</guess>",
    "<think>x</think><guess>slate</guess><guess>slate</guess>",
    "<think>x</think><think>y</think><guess>slate</guess>",
    "<think>x</think><guess>crane</guess><think>y</think><guess>slate</guess>",
    "<think>x<guess>slate</guess></think>",
    "<think>x <guess>slate</guess>",
    "<think>x</think><guess>slate</guess> I am sure.",
    "My guess: <think>x</think><guess>slate</guess>",
    "<guess>slate</guess><think>x</think>",
    "<think>x</think><guess><guess>slate</guess></guess>",
]


@pytest.mark.parametrize("preset", rewards.PRESETS)
def test_case_14_no_malformed_text_beats_the_well_formed_one(preset):
    """Twenty kinds of bad form get no full format reward and less than, or as in `binary` at most,
    what the well-formed text gets, though most of them name the secret itself."""
    assert len(set(MALFORMED)) == 20
    good, *bad = totals(preset, [write("slate"), *MALFORMED], (), secret="slate")
    assert max(bad) < good
    good, *bad = values("format", [write("slate"), *MALFORMED], history="[]")
    assert good == 1 and max(bad) < 0.5
    # ... and in `ours` even the well-formed non-word is better than each.
    nonword, *bad = totals("ours", [write("zzzzz"), *MALFORMED], (), secret="slate")
    assert max(bad) < nonword


def test_case_17_strings_and_chat_messages_give_the_same_numbers_in_order():
    """Both shapes of completions work in every term, with unknown keywords, in input order."""
    texts = ["x", write("steep"), write("crane"), "", write("zzzzz"), write("sheep")]
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    n = len(texts)
    columns = {
        "history": [game.encode_history(HISTORY)] * n,
        "secret": ["steep"] * n,
        "best_bits": [2.0] * n,
        "n_candidates": [3] * n,
        "source": ["?"] * n,
        "prompts": [[]] * n,
        "completion_ids": [[1]] * n,
        "trainer_state": object(),
        "log_metric": print,
    }
    everything = {"weights": dict.fromkeys(rewards.TERMS, 1.0)}
    functions, _ = rewards.make_reward_functions(everything, SOLVER, RULES)
    for function in functions:
        plain = function(completions=texts, **columns)
        assert plain == function(completions=chats, **columns)
        backwards = function(completions=texts[::-1], **columns)
        assert plain == backwards[::-1]
        assert all(type(value) is float for value in plain)
    assert rewards.text_of([]) == rewards.text_of([{"role": "assistant", "content": None}]) == ""


def test_case_19_only_the_whole_secret_wins():
    """Empty, partial and longer strings are no win, and an empty tag is worth nothing at all."""
    texts = [f"<think>x</think><guess>{word}</guess>" for word in ("", "s", "slates", "slat", "SLATE")]
    assert values("win", texts, history="[]", secret="slate") == [0, 0, 0, 0, 1]
    assert totals("ours", [texts[0], ""], (), secret="slate") == [0, 0]
    assert values("win", [write("zzzzz")], history="[]", secret="zzzzz") == [0], "not a word"


def record(secret: str, guesses: list[str | None]) -> dict:
    """A finished game record: None is an illegal turn."""
    played = [
        {"guess": guess, "feedback": guess and game.score(guess, secret), "reason": "ok", "rule": "ok"}
        for guess in guesses
    ]
    return {"secret": secret, "turns": played, "won": guesses[-1] == secret}


def test_case_23_total_of_a_game_never_pays_for_leaving_early():
    """Win in 2 > win in 5 > legal loss > loss with illegal moves > immediate illegal end."""
    loss = ["crane", "slate", "pound", "fight", "jumpy", "vivid"]
    games = [
        ["crane", "steep"],
        [*loss[:4], "steep"],
        [*loss[:5], "steep"],
        loss,
        [*loss[:5], None],
        [None] * 6,
        [None],
    ]
    scores = [rewards.game_reward(record("steep", guesses), RULES) for guesses in games]
    assert scores == sorted(set(scores), reverse=True)
    assert scores[0] == pytest.approx(1 + 4 / 6) and scores[-1] == pytest.approx(-11 / 6)


@given(st.lists(st.sampled_from([None, "crane", "slate", "pound", "steep"]), min_size=1, max_size=6))
def test_case_23_repeating_or_an_illegal_turn_never_gains(guesses):
    """Putting a repeat or an illegal move for any legal turn of any game never raises its total."""

    def score(moves: list[str | None]) -> float:
        end = moves.index("steep") + 1 if "steep" in moves else len(moves)
        return rewards.game_reward(record("steep", moves[:end]), RULES)

    for i in range(len(guesses)):
        for other in (None, *guesses[:i]):
            if guesses[i] is not None and other != "steep":
                assert score([*guesses[:i], other, *guesses[i + 1 :]]) <= score(guesses)


def test_case_23_a_win_is_read_from_the_moves():
    """A record that merely says it was won, or names the secret in an illegal turn, is a loss."""
    claimed = record("steep", ["crane"] * 6) | {"won": True}
    assert rewards.game_reward(claimed, RULES) < 0
    illegal = record("steep", [None] * 6)
    illegal["turns"][0]["guess"] = "steep"
    assert rewards.game_reward(illegal, RULES) == -1


@pytest.mark.parametrize("result", [[1.0], [], [1.0, 1.0], 1.0])
def test_case_25_a_result_of_another_length_is_refused_by_name(result):
    """One number, none, or n - 1 numbers for n completions never reach the trainer."""

    def my_reward(completions, **columns):
        return result

    with pytest.raises(ValueError, match=r"'my_reward' returned .* for 3 completions"):
        rewards.checked(my_reward)(completions=["a", "b", "c"])


@pytest.mark.parametrize("column", ["history", "secret", "best_bits"])
@pytest.mark.parametrize("bad", [["[]"], [], "[]", ["[]"] * 3])
def test_case_25_a_column_of_another_length_is_refused_by_name(column, bad):
    """The same for each column that a term reads: it is not broadcast, a string is no column."""
    functions, _ = rewards.make_reward_functions("binary", SOLVER, RULES)
    columns = {"history": ["[]"] * 2, "secret": ["slate"] * 2, "best_bits": [1.0] * 2} | {column: bad}
    with pytest.raises(ValueError, match=f"'win': column '{column}' .* for 2 completions"):
        functions[0](completions=["a", "b"], **columns)


def test_case_25_a_missing_column_is_named():
    """A needed column that is absent or has a hole is an error; one not needed may be absent."""
    functions, _ = rewards.make_reward_functions("binary", SOLVER, RULES)
    with pytest.raises(ValueError, match="'win' needs the column 'secret'"):
        functions[0](completions=["a"], history=["[]"])
    with pytest.raises(ValueError, match="'win' needs the column 'history'"):
        functions[0](completions=["a"], history=[None], secret=["slate"])
    assert values("chance", ["a"], history="[]") == [0]


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, "1"])
def test_case_26_a_value_that_is_not_finite_stops_with_its_row(bad):
    """None, NaN and infinity are refused, and the message shows the row and its completion."""

    def my_reward(completions, **columns):
        return [0.0, bad, 0.0]

    with pytest.raises(ValueError, match=r"'my_reward' returned .* row 1, completion 'second'"):
        rewards.checked(my_reward)(completions=["first", "second", "third"])


@settings(deadline=None)
@given(
    st.lists(
        st.text(alphabet="<>/ aeslt") | st.sampled_from([*MALFORMED, write("slate"), write("zzzzz")]),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([(), HISTORY, (Turn(None, None, "empty", None),), turns("slate", "slate")]),
    st.sampled_from([None, math.nan, 0.0, 3.5, 99.0]),
)
def test_case_26_every_term_is_finite_and_within_its_range(texts, history, best_bits):
    """Any texts in any state, with or without look-ahead values: floats within the stated range."""
    for name, term in rewards.TERMS.items():
        for value in values(name, texts, history=history, secret="slate", best_bits=best_bits):
            assert type(value) is float and term.low <= value <= term.high, name


def test_what_each_term_pays_in_one_state():
    """The value of every term, worked out by hand, in a state with three words left."""
    history = turns("sweep", "crane", "stole", "sleet")
    assert SOLVER.consistent_words(history) == ["sheep", "speed", "sweep"]
    bits = math.log2(3)  # "sweep" tells all three apart, "weeps" only itself from the other two
    texts = [write(word) for word in ("sweep", "sleet", "crane", "weeps", "zzzzz")] + ["", "sweep"]
    expected = {
        "format": [1, 1, 1, 1, 1, 0, 0.1],
        "dictionary": [1, 1, 1, 1, 0, 0, 0],
        "repeat": [0, -1, -1, 0, 0, 0, 0],
        "consistent": [1, 0, 0, 0, 0, 0, 0],
        "information": [1, 0, 0, 1 - 2 / 3 / bits, 0, 0, 0],
        "chance": [1 / 3, 0, 0, 0, 0, 0, 0],
        "win": [1, 0, 0, 0, 0, 0, 0],
        "early": [0.5, 0, 0, 0, 0, 0, 0],
        "speed": [1 / 4, 0, 0, 0, 0, 0, 0],
        "letters": [1, 0.6, 0.1, 0.6, 0, 0, 0],
        "regret": [0, -1, -1, -2 / 3 / bits, -1, -1, -1],
        "length": [-len(text) / 1000 for text in texts[:5]] + [-1, -1],
        "brevity": [-len(text) / 200 for text in texts],
    }
    for name, value in expected.items():
        got = values(name, texts, history=history, secret="sweep", best_bits=bits)
        assert got == pytest.approx(value), name


def test_a_clue_is_won_by_every_word_that_it_fits_and_pays_nothing_further_to_others():
    """What each term pays where the row says which words fit; rows without it are judged by their history."""
    texts = [*map(write, ("sheep", "speed", "crane", "zzzzz")), "sheep", ""]
    expected = {
        "format": [1, 1, 1, 1, 0.1, 0],
        "dictionary": [1, 1, 1, 0, 0, 0],
        "chance": [1 / 2, 1 / 2, 0, 0, 0, 0],
        **{name: [1, 1, 0, 0, 0, 0] for name in ("greens", "yellows", "greys", "consistent")},
        **{name: [1, 1, 0, 0, 0, 0] for name in ("win", "early", "speed", "letters")},
        **{name: [0] * 6 for name in ("repeat", "information", "regret")},
    }
    for name, value in expected.items():
        paid = values(name, texts, history=(), secret="", fits="sheep speed")
        assert paid == pytest.approx(value), name
        assert values(name, texts, history=HISTORY, secret="steep", fits="") == values(
            name, texts, history=HISTORY, secret="steep"
        )


def test_a_wrong_word_that_its_own_thinking_rejects_counts_as_made_before():
    """In a state and in a clue; a word that fits is right, whatever was said of it."""
    words = [SOLVER.consistent_words(HISTORY)[0], "pound"]
    texts = [prompts.completion([word], word, rejected=["stone", word]) for word in words]
    state, clue = {"history": HISTORY, "secret": "steep"}, {"history": (), "secret": "", "fits": words[0]}
    for columns in (state, clue):
        assert values("repeat", texts, **columns) == [0, -1]
        assert values("repeat", [write(word) for word in words], **columns) == [0, 0]


def test_rejecting_a_possible_word_or_one_word_twice_costs_whatever_is_guessed():
    """In a state and in a clue, of any well-formed answer; wrong words may be rejected once."""
    right, other = SOLVER.consistent_words(HISTORY)[:2]
    said = [(), ("pound",), ("pound", "zzzzz"), ("pound", "pound"), (other,), (right,)]
    state = {"history": HISTORY, "secret": right}
    for columns in (state, {"history": (), "secret": "", "fits": f"{right} {other}"}):
        for guess in (right, "crane", "zzzzz"):
            texts = [prompts.completion([guess], guess, rejected=rejected) for rejected in said]
            assert values("rejections", texts, **columns) == [0, 0, 0, -1, -1, -1]
            cut = [text.removesuffix(prompts.END_GUESS) for text in texts]
            assert values("rejections", cut, **columns) == [0] * 6
    weights = rewards.PRESETS["ours"]["weights"]
    once, twice = (prompts.completion([right], right, rejected=["pound"] * n) for n in (1, 2))
    judge = rewards.make_judge(SOLVER, SOLVER.rules)
    paid = [rewards.total(weights, judge(text, HISTORY, right, None)) for text in (once, twice)]
    assert paid[0] - paid[1] == pytest.approx(0.3)


def test_a_word_that_fits_and_cannot_be_the_secret_may_be_rejected():
    """With `universe: answers` a secret is an answer; with `allowed` it may be any allowed word."""
    shown = (Turn("crane", game.score("crane", "steep")),)
    strange = next(w for w in WORDS.allowed if w not in WORDS.answers and game.is_consistent(w, shown))
    text = prompts.completion(["steep"], "steep", rejected=[strange])
    for universe, misrejected in (("answers", False), ("allowed", True)):
        solver = make_solver(WORDS, universe=universe)
        judge = rewards.make_judge(solver, solver.rules)
        assert judge(text, shown, "steep", None).misrejected == misrejected


def test_colours_are_paid_apart():
    """Each colour's term falls with the marks of that colour that the guess contradicts."""
    history = (Turn("crane", "GYBBB"),)
    texts = [write(word) for word in ("chirp", "shirt", "cloud", "caper", "crown")]
    for name, expected in {
        "greens": [1, 0, 1, 1, 1],
        "yellows": [1, 1, 0, 1, 0],
        "greys": [1, 1, 1, 1 / 3, 2 / 3],
    }.items():
        assert values(name, texts, history=history) == pytest.approx(expected), name


def test_unknown_look_ahead_and_impossible_states_are_neutral():
    """Without best_bits there is no regret; in a state that no word fits nothing is gained or lost."""
    for history in ((), (Turn("crane", "GGGGB"), Turn("slate", "GGGGB"))):
        texts = [write("steep"), write("zzzzz")]
        assert values("regret", texts, history=history) == [0, 0]
        assert values("regret", texts, history=history, best_bits=math.nan) == [0, 0]
    assert len(SOLVER.candidates(history)) == 0
    columns = {"history": history, "best_bits": 0.0, "n_candidates": 0}
    for name in ("information", "chance", "consistent"):
        assert values(name, [write("steep")], **columns) == [0]
    assert values("regret", [write("steep")], **columns) == [0]


def test_history_as_text_and_as_turns_are_the_same():
    """A dataset column carries the history as JSON text; both forms give the same rewards."""
    texts = [write(word) for word in ("steep", "crane", "pound", "sheep")]
    for name in rewards.TERMS:
        given_turns = values(name, texts, history=HISTORY, secret="steep", best_bits=2.0)
        text = game.encode_history(HISTORY)
        assert given_turns == values(name, texts, history=text, secret="steep", best_bits=2.0)


def test_a_completion_is_judged_once_for_all_terms(monkeypatch):
    """The terms of a preset share one judgement of each text in its state."""
    calls = []
    count = game.violations
    monkeypatch.setattr(game, "violations", lambda *args: calls.append(args) or count(*args))
    texts = [write(word) for word in ("steep", "sheep", "steep")]
    totals("ours", texts, HISTORY)
    assert len(calls) == 2


def ladder(solver: Solver, history: tuple[Turn, ...], rng: random.Random) -> list[list[str]]:
    """Texts of one state by rank, best first: consistent, inconsistent, repeated, non-word or not
    permitted, malformed, empty."""
    past = [turn.guess for turn in history if turn.feedback is not None]
    words = rng.sample(solver.guesses, 60) + solver.consistent_words(history)[:20]
    consistent = [w for w in words if w not in past and game.is_consistent(w, history)]
    rest = [w for w in words if w not in past and w not in consistent]
    legal = [w for w in rest if game.judge(w, history, solver.words, solver.rules) == "ok"]
    repeated = [w for w in past if game.judge(w, history, solver.words, solver.rules) == "ok"]
    refused = [w for w in rest if w not in legal] + ["z" * solver.words.length]
    ranks = [[write(w) for w in part] for part in (consistent, legal, repeated, refused)]
    malformed = [f"<guess>{w}</guess>" for w in words[:3]] + ["<think>", "x", "<guess>ab</guess>"]
    return [*ranks, malformed, ["", "<think>x</think><guess></guess>"]]


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from(["small", "hard", "toy"]))
def test_ours_ranks_any_guesses_of_any_state(rng, which):
    """In drawn states, every guess of a better kind gets strictly more than every one of a worse kind,
    in the normal game, in hard mode, and with other lengths and letters."""
    solver = TOY_SOLVER if which == "toy" else SMALL_SOLVERS[which == "hard"]
    if which == "toy":
        rng.sample = lambda words, k: list(words)
    secret = rng.choice(solver.universe)
    history = ()
    for _ in range(rng.randrange(solver.rules.turns - 1)):
        pool = rng.choice((solver.guesses, solver.consistent_words(history)))
        turn = game.take_turn(rng.choice(pool), "ok", "", secret, history, solver.words, solver.rules)
        history += (turn,)
        if turn.guess == secret:
            return
    ranks = [totals("ours", texts, history, solver=solver) for texts in ladder(solver, history, rng) if texts]
    for better, worse in pairwise(ranks):
        assert min(better) > max(worse) + 0.01


@pytest.mark.parametrize("preset", rewards.PRESETS)
@pytest.mark.parametrize("solver", [SOLVER, *SMALL_SOLVERS.values(), TOY_SOLVER])
def test_self_check_passes_and_shows_every_kind(preset, solver):
    """Each preset ranks as it claims on each game; the table has all kinds, totals and terms."""
    table = rewards.self_check(preset, solver, solver.rules)
    assert [row["kind"] for row in table[:7]] == list(rewards.KINDS)
    assert len(table) % 7 == 0
    weights = rewards.PRESETS[preset]["weights"]
    for row in table:
        assert row["total"] == pytest.approx(sum(w * row[name] for name, w in weights.items()))


def test_self_check_of_ours_is_strict():
    """`ours` claims, and has, seven different totals in falling order in every state."""
    assert rewards.PRESETS["ours"]["claim"] == (" > ".join(rewards.KINDS),)
    table = rewards.self_check("ours", SOLVER, RULES)
    for start in range(0, len(table), 7):
        scores = [row["total"] for row in table[start : start + 7]]
        assert scores == sorted(set(scores), reverse=True)
    assert len({row["state"] for row in table}) == 3


@pytest.mark.parametrize(
    "term, weight, broken",
    [
        ("format", 0.0, "malformed > empty"),
        ("format", -1.0, "nonword > malformed"),
        ("dictionary", 0.0, "repeated > nonword"),
        ("repeat", -1.0, "inconsistent > repeated"),
        ("consistent", 0.0, "legal > inconsistent"),
        ("information", -0.1, "ideal > legal"),
    ],
)
def test_a_corrupted_preset_is_refused_with_the_table(term, weight, broken):
    """Change one weight of `ours` and the check stops, names the broken step and shows the totals."""
    preset = copy.deepcopy(rewards.PRESETS["ours"])
    preset["weights"][term] = weight
    with pytest.raises(ValueError, match=f"not {broken} in .*") as error:
        rewards.self_check(preset, SOLVER, RULES)
    assert all(kind in str(error.value) for kind in rewards.KINDS)


def test_a_false_claim_of_a_tie_is_refused():
    """`=` in a claim means the same reward, not merely no more."""
    preset = {"weights": {"format": 1.0}, "claim": ("ideal = legal", "nonword = malformed")}
    with pytest.raises(ValueError, match="not nonword = malformed in"):
        rewards.self_check(preset, SOLVER, RULES)


def test_bad_presets_and_tiny_lists_are_named():
    """An unknown preset or term, a weight that is no number, a list too small for a check."""
    with pytest.raises(ValueError, match="unknown reward preset 'best'; use one of ours"):
        rewards.resolve_preset("best")
    with pytest.raises(ValueError, match="unknown reward term 'luck'"):
        rewards.resolve_preset({"weights": {"luck": 1.0}})
    with pytest.raises(ValueError, match="weight of reward term 'win' is None"):
        rewards.resolve_preset({"weights": {"win": None}})
    tiny = make_solver(sample_words(WORDS, 2))
    with pytest.raises(ValueError, match="too few words"):
        rewards.self_check("ours", tiny, tiny.rules)


def test_reward_functions_are_named_after_their_terms():
    """TRL logs `rewards/<name>/mean`, so the names are the terms, in the order of the weights."""
    for preset, content in rewards.PRESETS.items():
        functions, weights = rewards.make_reward_functions(preset, SOLVER, RULES)
        assert [function.__name__ for function in functions] == list(content["weights"])
        assert weights == list(content["weights"].values())


def test_prime_and_wordle_solver_have_their_published_parts():
    """A win on turn 4 pays 1 + 1/4 and the rest; a green letter 0.2, a yellow one 0.1, length a tenth."""
    history = turns("sweep", "crane", "stole", "sleet")
    win, legal = totals("prime", [write("sweep"), write("sheep")], history, secret="sweep")
    assert win == pytest.approx(1 + 1 / 4 + 5 * 0.2 + 0.2) and legal == pytest.approx(4 * 0.2 + 0.2)
    text = write("sweep")
    [win] = totals("wordle_solver", [text], history, secret="sweep")
    assert win == pytest.approx(1 + 1 / 4 + 0.2 + 0.5 - 0.1 * len(text) / 1000)


@pytest.mark.parametrize("thinking", ["words", "none"])
@pytest.mark.parametrize("preset", rewards.PRESETS)
def test_presets_rank_as_they_claim_whatever_is_thought(preset, thinking):
    solver = make_solver(SMALL, thinking=thinking)
    table = rewards.self_check(preset, solver, solver.rules)
    for row in table:
        assert prompts.is_well_formed(row["completion"]) == (row["kind"] not in ("malformed", "empty"))


def test_the_faulty_presets_pay_for_what_their_names_say():
    """One word again and again, nothing at all, and anything but a repeated guess."""
    history = turns("sweep", "crane", "stole", "sleet")
    again, new, nothing = totals(
        "format_heavy", [write("sleet"), write("sheep"), ""], history, secret="sweep"
    )
    assert again == new == 3.0 and nothing == 0.0
    legal, nothing, long = totals("short_text", [write("sheep"), "", "a" * 500], history, secret="sweep")
    assert nothing == 0.0 > legal > long == pytest.approx(0.02 - 4)
    again, nothing = totals("no_floor", [write("sleet"), ""], history)
    assert again < nothing == 0.0


def test_the_presets_to_choose_from_are_those_there_are():
    assert tuple(rewards.PRESETS) == params.REWARD_PRESETS


def test_predibase_has_its_published_parts():
    """Format 1.0 (half of it for a dictionary word), use of feedback 0.5, value 0.3; `ours` and
    `predibase` never look at the secret."""
    weights = rewards.PRESETS["predibase"]["weights"]
    assert weights["format"] + weights["dictionary"] == 1.0
    assert weights["greens"] + weights["yellows"] + weights["greys"] == pytest.approx(0.5)
    assert weights["information"] == 0.3
    for preset in ("ours", "predibase"):
        texts = [write("steep"), write("sheep")]
        first, second = (totals(preset, texts, HISTORY, secret=w) for w in ("steep", "sheep"))
        assert first == second


def test_schedules_end_with_the_preset():
    """fixed never changes, phase switches at the threshold, linear ramps in even steps."""
    final = rewards.PRESETS["ours"]["weights"]
    form = {name: w if name in ("format", "dictionary") else 0.0 for name, w in final.items()}

    fixed = rewards.make_schedule("fixed", "ours")
    assert rewards.weights_at(fixed, 0, 10, 0.0) == final

    phase = rewards.make_schedule("phase", "ours", threshold=0.8)
    assert rewards.weights_at(phase, 9, 10, 0.79) == form
    assert rewards.weights_at(phase, 0, 10, 0.8) == final

    linear = rewards.make_schedule("linear", "ours")
    assert rewards.weights_at(linear, 0, 10, 1.0) == form
    half = rewards.weights_at(linear, 5, 10, 0.0)
    assert half["chance"] == pytest.approx(final["chance"] / 2)
    assert half["format"] == pytest.approx(final["format"])
    assert rewards.weights_at(linear, 10, 10, 0.0) == rewards.weights_at(linear, 20, 10, 0.0) == final


def test_bad_schedules_are_named():
    """An unknown kind and a threshold that is no share."""
    with pytest.raises(ValueError, match="unknown reward schedule 'cosine'; use one of fixed"):
        rewards.make_schedule("cosine", "ours")
    with pytest.raises(ValueError, match="threshold of a reward schedule is 90"):
        rewards.make_schedule("phase", "ours", threshold=90)
