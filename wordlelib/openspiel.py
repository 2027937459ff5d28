"""Board games of OpenSpiel, on the same interface as Wordle: `reset`, a step, `legal`, render, reward terms.

The player moves first, and a move is the number that OpenSpiel gives it. The opponent draws each reply from
all legal ones. A task (the "secret") is a pair of seed and number that fixes those draws, and a turn's
feedback is the reply. As in Wordle, an illegal move uses a turn and changes nothing.

Supported: games of two players in turns, without chance and hidden information, small enough to search
through, such as `tic_tac_toe` and `nim`. What a game does in its own way is registered here for the generic
functions of the other modules, which know nothing of boards.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from statistics import fmean
from types import MappingProxyType
from typing import Any

import numpy as np

from wordlelib import data, prompts, rewards, rollouts, solver, teachers
from wordlelib.game import WON, Game, History, Turn, decode_history, reset
from wordlelib.rules import Rules
from wordlelib.words import Words

MIX = {"teacher": 0.45, "random": 0.40, "invalid": 0.15}  # where states come from, as in `teachers.MIX`
SLIP = 0.3  # chance of a random move in a game of the teacher, and of an invalid turn in one of `invalid`
MOST_POSITIONS = 200_000  # that are searched: some seconds and 50 MB
CHECKED = 3  # states of the self-check of a reward


@dataclass(frozen=True)
class BoardRules(Rules):
    """Rules of a board game: `game` is OpenSpiel's name, a "word" is a move (`length` digits)."""

    alphabet: str = "0-9"
    not_a_word_text: str = "{guess} is no move"
    hard_mode_text: str = "{guess} is not legal now"
    game: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.lexicon, self.history, self.hard_mode) != ("full", "fresh", False):
            raise ValueError(f"rules of {self.game}: it has lexicon full, history fresh and no hard mode")


@dataclass(frozen=True, repr=False)
class Tasks(Words):
    """The tasks (`answers`) and all moves (`allowed`) of a board game."""

    def __repr__(self) -> str:
        return f"Tasks({len(self.answers):,} tasks, {len(self.allowed):,} moves)"


def board_rules(game: str, words: Tasks, turns: int = 6) -> BoardRules:
    """The rules of `game` on these tasks; `turns` are the player's, invalid ones included."""
    hashes = words.sha256
    return BoardRules(hashes["answers"], hashes["allowed"], words.length, turns=turns, game=game)


def board_tasks(game: str, tasks: int, seed: int = 0) -> Tasks:
    """The tasks 0 to `tasks` - 1 of a seed. Raises as `load` does, ValueError without a task."""
    if tasks < 1:
        raise ValueError(f"{game}: {tasks} tasks are none to play; ask for some (sample_words)")
    n_moves = load(game).num_distinct_actions()
    width = len(str(n_moves - 1))
    return Tasks(
        tuple(f"{seed}-{number}" for number in range(tasks)), tuple(f"{n:0{width}}" for n in range(n_moves))
    )


@lru_cache(maxsize=8)
def load(game: str) -> Any:
    """A game of OpenSpiel. Raises RuntimeError without OpenSpiel, ValueError for a game that does not fit."""
    try:
        import pyspiel
    except ImportError:
        raise RuntimeError(f"game {game} needs OpenSpiel: install the extra [games]") from None
    if game not in pyspiel.registered_names():
        raise ValueError(f"OpenSpiel has no game {game!r}; tic_tac_toe and nim are two that fit")
    loaded = pyspiel.load_game(game)
    kind = loaded.get_type()
    fits = (
        loaded.num_players() == 2
        and kind.dynamics == kind.Dynamics.SEQUENTIAL
        and kind.chance_mode == kind.ChanceMode.DETERMINISTIC
        and kind.information == kind.Information.PERFECT_INFORMATION
    )
    if not fits:
        raise ValueError(
            f"{game} does not fit: use a game of two players in turns, without chance and hidden "
            "information, such as tic_tac_toe or nim"
        )
    return loaded


@lru_cache(maxsize=1 << 14)
def position(game: str, moves: tuple[str, ...]) -> Any:
    """OpenSpiel's state after some moves of both sides. Not to be changed: it is shared."""
    if not moves:
        return load(game).new_initial_state()
    return position(game, moves[:-1]).child(int(moves[-1]))


def moves_of(history: History | str, rules: Rules) -> tuple[str, ...]:
    """The moves of both sides, in order; invalid turns have none."""
    turns = decode_history(history) if isinstance(history, str) else history
    text = "".join(turn.guess + turn.feedback for turn in turns if turn.feedback is not None)
    return tuple(text[start : start + rules.length] for start in range(0, len(text), rules.length))


class Board(Game):
    """A board game in play: `Game` with a board, whose winner OpenSpiel knows."""

    def turn(self, guess: str | None, reason: str, text: str) -> Turn:
        """The turn of a move: with the replies until it is the player's turn again."""
        if guess is None:
            return Turn(None, None, reason, None, text)
        moves, name = moves_of(self.history, self.rules), self.rules.game
        if guess not in self.words.dictionary:
            return Turn(guess, None, reason, "not_a_word", text)
        if int(guess) not in position(name, moves).legal_actions():
            return Turn(guess, None, reason, "illegal", text)
        moves, replies = (*moves, guess), ""
        while not (state := position(name, moves)).is_terminal() and state.current_player() != 0:
            drawn = random.Random(f"{self.secret} {' '.join(moves)}").choice(state.legal_actions())
            moves = (*moves, f"{drawn:0{self.rules.length}}")
            replies += moves[-1]
        if not state.is_terminal():
            return Turn(guess, replies, reason, "ok", text)
        mine, theirs = state.returns()
        ended = "drawn" if mine == theirs else WON if mine > theirs else "lost"
        return Turn(guess, replies, reason, ended, text)

    @property
    def done(self) -> bool:
        """True when the game has ended on the board or all turns are used."""
        ended = position(self.rules.game, moves_of(self.history, self.rules)).is_terminal()
        return ended or len(self.history) >= self.rules.turns


class Search:
    """What `solver.Solver` is for Wordle: legal moves, and the exact value of each against the opponent.

    The value of a move is the mean result from there on (1 won, 0.5 drawn, 0 lost) when the player goes on
    in the best way. Candidates are the legal moves, as indices into `universe`, all moves.
    """

    def __init__(self, words: Words, rules: Rules) -> None:
        """Raises ValueError for a game too large to search through."""
        self.words, self.rules = words, rules
        self.guesses = self.universe = words.allowed
        game = load(rules.game)
        self._lowest, self._range = game.min_utility(), game.max_utility() - game.min_utility()
        self._values: dict[tuple[int, str], float] = {}
        self._value(game.new_initial_state())

    def _value(self, state: Any) -> float:
        if state.is_terminal():
            return (state.returns()[0] - self._lowest) / self._range
        key = (state.current_player(), str(state))
        if key not in self._values:
            if len(self._values) >= MOST_POSITIONS:
                raise ValueError(
                    f"{self.rules.game} has more than {MOST_POSITIONS:,} positions, too many to search "
                    "through: use a smaller game, such as tic_tac_toe or nim"
                )
            values = [self._value(state.child(move)) for move in state.legal_actions()]
            self._values[key] = round(max(values) if key[0] == 0 else fmean(values), 9)
        return self._values[key]

    def values(self, history: History | str) -> dict[str, float]:
        """The value of each legal move, the best first."""
        state = position(self.rules.game, moves_of(history, self.rules))
        values = {self.universe[move]: self._value(state.child(move)) for move in state.legal_actions()}
        return dict(sorted(values.items(), key=lambda item: -item[1]))

    def candidates(self, history: History | str) -> np.ndarray:
        """The legal moves, ascending."""
        state = position(self.rules.game, moves_of(history, self.rules))
        return np.array(state.legal_actions(), dtype=np.intp)

    def best_guess(self, history: History | str, pool: str = "allowed") -> tuple[str, float]:
        """The move of the highest value, and its value; of equal ones the first."""
        return next(iter(self.values(history).items()))

    def lookahead(self, history: History | str) -> dict[str, int | str | float]:
        """The columns of a GRPO state, as of a `Solver`; `best_bits` is the value of the best move."""
        guess, value = self.best_guess(history)
        return {"n_candidates": len(self.candidates(history)), "best_guess": guess, "best_bits": value}


@data.words_of.register
def _words_of(rules: BoardRules, source: dict[str, Any]) -> Tasks:
    return board_tasks(rules.game, **source)


@solver.solver_for.register
def _solver_for(words: Tasks, rules: Rules, teacher: str = "information") -> Search:
    return Search(words, rules)


@solver.legal.register
def _legal(search: Search, history: History) -> list[str]:
    return [search.universe[move] for move in search.candidates(history)]


@reset.register
def _reset(words: Tasks, rules: Rules, secret: str, history: History = ()) -> Board:
    return Board(words, rules, secret, tuple(history))


@prompts.render.register
def _render(rules: BoardRules, history: History) -> list[dict[str, str]]:
    """The board, the legal moves, and what was wrong with invalid turns."""
    system = (
        f"You play {rules.game} and move first; your opponent moves at random. You have {rules.turns} turns. "
        f"Answer: {prompts.THINK}moves, the best one among them{prompts.END_THINK}{prompts.GUESS}number of "
        f"your move{prompts.END_GUESS}"
    )
    state = position(rules.game, moves_of(history, rules))
    legal = " ".join(f"{move:0{rules.length}}" for move in state.legal_actions())
    lines = [f"Turn {len(history) + 1} of {rules.turns}."]
    lines += [
        prompts.render_turn(n, turn, rules) for n, turn in enumerate(history, 1) if turn.feedback is None
    ]
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": "\n".join([*lines, str(state), f"Moves: {legal}"])},
    ]


@teachers.solver_turn.register
def _solver_turn(
    search: Search,
    history: History,
    rng: random.Random,
    candidates: int = 3,
    guessed: Mapping[str, int] = MappingProxyType({}),
    guess_place: str = "last",
) -> tuple[list[str], str]:
    """The best moves, up to `candidates`, and the best of them: always the same one."""
    named = list(islice(search.values(history), candidates))
    return named[::-1] if guess_place == "last" else named, named[0]


@teachers.task.register
def _task(
    search: Search,
    secrets: Sequence[str],
    seed: int | str,
    number: int,
    past_turns: int | None = None,
    mix: dict[str, float] = MIX,
    known: Collection[str] = (),
) -> tuple[History, str, str]:
    """As for Wordle. A game of the `teacher` has some random moves, `random` has no others, and one of
    `invalid` some turns without a move or with one that is not legal."""
    if unknown := sorted(set(mix) - set(MIX)):
        raise ValueError(f"mix: unknown source {unknown[0]!r}; use some of {', '.join(MIX)}")
    rng = random.Random(f"task {seed} {number}")
    for _ in range(teachers.BARREN):
        secret, [kind] = rng.choice(secrets), rng.choices(tuple(mix), tuple(mix.values()))
        n_turns = rng.randrange(search.rules.turns) if past_turns is None else past_turns
        play = Board(search.words, search.rules, secret)
        while not play.done and len(play.history) < n_turns:
            play.play(*_move(search, play.history, kind, rng))
        if not play.done and len(play.history) == n_turns:
            return play.history, secret, kind
    name = search.rules.game
    raise ValueError(f"task: {teachers.BARREN} games of {name} had no state after {past_turns} turns")


def _move(search: Search, history: History, kind: str, rng: random.Random) -> tuple[str | None, str]:
    """A guess, or None with the parser's reason."""
    if kind == "invalid" and rng.random() < SLIP:
        return rng.choice([(None, "no_tag"), (rng.choice(search.guesses), "ok")])
    if kind == "teacher" and rng.random() > SLIP:
        return search.best_guess(history)[0], "ok"
    return rng.choice(_legal(search, history)), "ok"


@teachers.make_states.register
def _make_states(
    search: Search,
    secrets: Sequence[str],
    n: int,
    seed: int | str = 0,
    mix: dict[str, float] = MIX,
    known: Collection[str] = (),
) -> Iterator[tuple[History, str, str]]:
    """The tasks 0 to `n` - 1 of the seed."""
    return (_task(search, secrets, seed, number, None, mix) for number in range(n))


@rewards.make_judge.register
def _make_judge(search: Search, rules: Rules) -> Any:
    """As for Wordle; of what is judged beyond the form, `legal`, `repeated`, `won` and `value` are set."""

    @lru_cache(maxsize=16_384)
    def judge(
        text: str, history: History | str, secret: str | None, best_bits: float | None
    ) -> rewards.Judgement:
        turns = decode_history(history) if isinstance(history, str) else history
        guess, base = rewards.form_of(text, turns, rules, best_bits)
        if guess is None:
            return rewards.Judgement(*base)
        if (value := search.values(turns).get(guess)) is None:
            return rewards.Judgement(*base, guess)
        won = secret and Board(search.words, rules, secret, turns).turn(guess, "ok", "").rule == WON
        repeated = any(turn.guess == guess for turn in turns)
        return rewards.Judgement(*base, guess, legal=True, repeated=repeated, won=bool(won), value=value)

    return judge


@rewards.check_states.register
def _check_states(search: Search, rules: Rules) -> list[rewards.CheckState]:
    """States in which moves differ in value: the best and the worst legal move, and what is none."""
    states = []
    for number in range(teachers.BARREN):
        history, secret, _ = _task(search, search.words.answers, "check", number)
        values = search.values(history)
        best, worst = next(iter(values)), next(reversed(values))
        none = next((move for move in search.universe if move not in values), None)
        if none and values[best] > values[worst]:
            texts = [prompts.completion([move], move) for move in (best, worst, none)]
            texts += [f"{prompts.GUESS}{best}{prompts.END_GUESS}", ""]
            kinds = ("ideal", "legal", "nonword", "malformed", "empty")
            states.append(rewards.CheckState(history, secret, dict(zip(kinds, texts, strict=True))))
        if len(states) == CHECKED:
            break
    return states


@rollouts.example_games.register
def _example_games(words: Tasks, rules: Rules) -> list[dict[str, Any]]:
    """The reward of three games of the first task, the best first."""
    search, examples = Search(words, rules), []
    for name, place in (("best moves", 0), ("worst moves", -1), ("no move", None)):
        play = Board(words, rules, words.answers[0])
        while not play.done:
            play.play(None if place is None else [*search.values(play.history)][place])
        record = {"secret": play.secret, "turns": [turn._asdict() for turn in play.history]}
        guesses = " ".join(turn.guess or "–" for turn in play.history)
        reward = rewards.game_reward(record, rules)
        examples.append({"game": name, "secret": play.secret, "guesses": guesses, "reward": reward})
    return examples
