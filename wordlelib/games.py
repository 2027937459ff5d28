"""Which game is played: Wordle on any lists, or a board game, by the parameters of notebook 01.

A game is what a few generic functions do for its types of lists, rules and knowledge: `game.reset` begins
a game in play, `evaluate.step` takes a turn in it, `solver.legal` lists what is legal, `prompts.render` shows
a state, `rewards.make_judge` gives the terms of rewards, `teachers.task` the tasks and
`teachers.solver_turn` the teacher. Wordle is their default; `openspiel` registers its own.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

from wordlelib.data import game_words
from wordlelib.rules import Rules, rules_for
from wordlelib.teachers import mix_with
from wordlelib.words import Words


class Chosen(NamedTuple):
    """A game: its lists (of a board game tasks and moves), its rules, where the lists come from
    (`data.words_of`), and the shares of the states by source."""

    words: Words
    rules: Rules
    source: dict[str, Any]
    mix: dict[str, float]


def chosen(config: SimpleNamespace) -> Chosen:
    """The game that the parameters of 01 describe; raises as `load_words` and `openspiel.load` do."""
    if config.game:
        from wordlelib import openspiel

        source = {"tasks": config.sample_words, "seed": config.split_seed}
        words = openspiel.board_tasks(config.game, **source)
        return Chosen(words, openspiel.board_rules(config.game, words, config.turns), source, openspiel.MIX)
    source = {"answers": config.answers_file, "allowed": config.allowed_file, "sample": config.sample_words}
    words = game_words(**source, alphabet=config.alphabet)
    rules = rules_for(
        words,
        alphabet=config.alphabet,
        turns=config.turns,
        universe=config.universe,
        lexicon=config.lexicon,
        hard_mode=config.hard_mode,
        renderer=config.renderer,
        history=config.history,
        thinking=config.thinking,
    )
    return Chosen(words, rules, source, mix_with(config.non_words))
