"""Duel: a person and any players guess the same secret, turn by turn, in a notebook."""

import random
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any

from wordlelib import boards, evaluate, models, widgets
from wordlelib.game import Game, History, hard_mode_violation, judge
from wordlelib.players import Player, embedded_player, saved_game, saved_player, solver_player
from wordlelib.prompts import parse_guess
from wordlelib.rules import Rules, rules_for
from wordlelib.runs import project_path
from wordlelib.solver import Solver
from wordlelib.words import Words, capitals, load_words

SHOWN = 8  # words that fit, in an advice
YOU, SOLVER, STUDENT = "you", "greedy solver", "embedded student"


def typed_guess(text: str) -> str:
    """What a person typed, as a guess."""
    return text.strip().lower()


def refusal(text: str, game: Game) -> str:
    """Why a typed guess cannot be played, in one sentence; empty when it can. It uses no turn."""
    if game.done:
        return "The game is over: start a new one."
    rules = game.rules
    guess = typed_guess(text)
    if parse_guess(f"<guess>{guess}</guess>", rules.length, rules.alphabet).guess is None:
        return f"A guess has {rules.length} letters {rules.alphabet}."
    verdict = judge(guess, game.history, game.words, rules)
    if verdict == "not_a_word":
        return f"{capitals(guess)} is not in the list of {len(game.words.allowed):,} words."
    if verdict == "hard_mode":
        return f"Hard mode: {hard_mode_violation(guess, game.history)}."
    return ""


def advice_html(solver: Solver, history: History) -> str:
    """The solver's advice: how many words fit, some of them, and the best guess with its bits."""
    words = solver.consistent_words(history)
    best, bits = solver.best_guess(history)
    some = ", ".join(capitals(word) for word in words[:SHOWN]) + (", …" if len(words) > SHOWN else "")
    fit = f"{len(words):,} words fit" if len(words) != 1 else "1 word fits"
    return (
        f"<div>{fit} all feedback: {escape(some)}</div>"
        f"<div>Best guess: <b>{escape(capitals(best))}</b>, {bits:.2f} bits on average.</div>"
    )


class Duel:
    """Games on one secret: a person's, the greedy solver's, and one of each opponent.

    The others take a turn after each of the person's, with their letters hidden until the person's game is
    over; then they play to their end. A guess of the person that is no word is refused and uses no turn,
    an opponent's uses one as in the evaluation. The game of an opponent that fails ends there, with the
    reason. secret: of the first game, else drawn by `seed` like those that follow. Raises ValueError for a
    secret that is no allowed guess.
    """

    def __init__(
        self, words: Words, rules: Rules, opponents: Mapping[str, Player], secret: str = "", seed: int = 0
    ) -> None:
        if secret and secret not in words.dictionary:
            raise ValueError(f"secret {secret!r} is not among the {len(words.allowed):,} allowed guesses")
        self.words, self.rules, self.opponents, self.seed = words, rules, dict(opponents), seed
        self.rng = random.Random(seed)
        self._solvers: dict[bool, Solver] = {}
        self.anew(secret)

    def anew(self, secret: str = "") -> None:
        """Start a game on this secret, else on one that is drawn."""
        secret = secret or self.rng.choice(self.words.answers)
        self.players = {SOLVER: solver_player(self.solver, "greedy"), **self.opponents}
        self.games = {name: Game(self.words, self.rules, secret) for name in (YOU, *self.players)}
        self.failed: dict[str, str] = {}
        self.message = ""

    @property
    def solver(self) -> Solver:
        """The solver under the present rules: in hard mode it keeps the hints too."""
        hard = self.rules.hard_mode
        if hard not in self._solvers:
            self._solvers[hard] = Solver(self.words, self.rules)
        return self._solvers[hard]

    @property
    def mine(self) -> Game:
        """The person's game."""
        return self.games[YOU]

    @property
    def locked(self) -> bool:
        """Whether hard mode cannot be switched now, since a game is on."""
        return bool(self.mine.history) and not self.mine.done

    def set_hard(self, hard: bool) -> None:
        """Switch hard mode for everybody: before the first guess, or after the last for the next game."""
        if self.locked:
            return
        self.rules = replace(self.rules, hard_mode=hard)
        if not self.mine.history:
            self.anew(self.mine.secret)

    def guess(self, text: str) -> bool:
        """Play a typed guess, and a turn of each opponent; False when it is refused (`message` says why)."""
        self.message = refusal(text, self.mine)
        if self.message:
            return False
        self.mine.play(typed_guess(text))
        self._let_play()
        while self.mine.done and self._let_play():
            pass
        if self.mine.won:
            self.message = f"Won in {len(self.mine.history)}."
        elif self.mine.done:
            self.message = f"Lost: the word was {capitals(self.mine.secret)}."
        return True

    def _let_play(self) -> bool:
        """One turn of each opponent whose game goes on; False when none does."""
        going = [name for name in self.players if not self.games[name].done and name not in self.failed]
        for name in going:
            game = self.games[name]
            try:
                [text] = self.players[name]([game.history], [self.seed])
                game.play(*evaluate.parsed(text, self.rules), str(text))
            except Exception as error:
                self.failed[name] = f"failed: {type(error).__name__}: {error}"
        return bool(going)

    def cards(self) -> list[str]:
        """The boards as HTML, the person's first; those of opponents with what they wrote, at the end."""
        return [self._card(name, game) for name, game in self.games.items()]

    def _card(self, name: str, game: Game) -> str:
        hidden = name != YOU and not self.mine.done
        record = {"secret": game.secret, "turns": [{**t._asdict(), "rewards": {}} for t in game.history]}
        state = boards.outcome(record) if game.done and not hidden else ""
        state = self.failed.get(name, state)
        title = f"<div><b>{escape(boards.visible(name, 80))}</b> {escape(boards.visible(state, 200))}</div>"
        board = boards.board_html(record, turns=game.rules.turns, hidden=hidden)
        told = [] if name == YOU or hidden else [boards.text_html(turn.text) for turn in game.history]
        return boards.card_html(title, board + "".join(told))


def setting(
    model: str = "",
    answers_file: str = "",
    allowed_file: str = "",
    hard_mode: bool = False,
    alphabet: str = "a-z",
) -> tuple[Words, Rules, dict[str, Player]]:
    """Words, rules and opponents of a duel besides the solver: a saved model if one is named, and the
    embedded student if there is one and these are its words.

    A model plays the words and the rules of its run. Without one they are those of the two list files,
    whose words are made of the letters of `alphabet`, or the shipped ones. Raises ValueError for both a model
    and a file, and as `load_words` and `models.load` do.
    """
    if model and (answers_file or allowed_file):
        raise ValueError(
            f"model {model} plays the words of its run: leave answers_file and allowed_file empty"
        )
    folder = str(project_path(model)) if model and project_path(model).is_dir() else model
    if model:
        words, rules = saved_game(folder)
    else:
        words = load_words(project_path(answers_file), project_path(allowed_file), alphabet)
        rules = rules_for(words, alphabet=alphabet)
    opponents = {STUDENT: embedded_player()} if model != models.EMBEDDED and _knows_student(words) else {}
    opponents |= {model: saved_player(folder, rules)} if model else {}
    return words, replace(rules, hard_mode=rules.hard_mode or hard_mode), opponents


def _knows_student(words: Words) -> bool:
    return models.EMBEDDED_FOLDER.is_dir() and saved_game(models.EMBEDDED)[0] == words


def duel_widget(
    words: Words,
    rules: Rules,
    opponents: Mapping[str, Player] | None = None,
    secret: str = "",
    seed: int = 0,
) -> Any:
    """A game for a person, against the solver and `opponents` (name to player) on the same secret.

    Type a guess, ask for a hint, switch hard mode, start anew. Without a front end a static page shows the
    empty boards, the help and the solver's advice. Arguments and errors as of `Duel`.
    """
    game = Duel(words, rules, opponents or {}, secret, seed)
    if not widgets.has_front_end():
        note = "Open this notebook in JupyterLab or VS Code to play."
        cards = f'<div class="cards">{"".join(game.cards())}</div>'
        return widgets.show(f"<p>{note}</p>{cards}<p>{escape(boards.HELP)}</p>{advice_html(game.solver, ())}")

    def state(refused: bool = False, clear: bool = False, hint: str = "") -> dict[str, Any]:
        return {
            "cards": game.cards(),
            "message": boards.visible(game.message, 200),
            "refused": refused,
            "clear": clear,
            "hint": hint,
            "hard": game.rules.hard_mode,
            "locked": game.locked,
            "done": game.mine.done,
            "help": boards.HELP,
        }

    def answer(board: Any, message: dict[str, Any]) -> None:
        accepted = "guess" in message and game.guess(str(message["guess"]))
        if "anew" in message:
            game.anew()
        if "hard" in message:
            game.set_hard(bool(message["hard"]))
        hint = advice_html(game.solver, game.mine.history) if "hint" in message else ""
        shown = state("guess" in message and not accepted, accepted or "anew" in message, hint)
        # the number makes each state another one, so that the view hears of the same refusal again
        board.data = {**shown, "number": board.data["number"] + 1}

    return widgets.widget("duel", {**state(), "number": 0}, answer)
