"""Scoring rules of others on games with known answers, and against a reference for the estimate."""

import numpy as np
import pytest
import scipy.stats
from conftest import LOSS, game, records
from hypothesis import given

from wordlelib import analysis, scoring


def games(*made):
    [own] = analysis.from_records(made).values()
    return own


NOTHING = game("crane", *[None] * 6)
LOST = game("crane", *LOSS)
WON = game("label", "crane", "label")
CUT = game("crane", "slate", "zzzzz", "zzzzz", None, None, "those")  # two legal guesses in six turns


def test_case_20_part_credit_counts_as_a_win_where_the_strict_rule_sees_none():
    """A model that never wins but names a letter of the secret is at 100% under the looser rule."""
    own = games(LOST, CUT)
    assert scoring.strict(own).value == 0.0
    assert scoring.part_credit_as_win(own).value == 1.0
    assert scoring.part_credit_as_win(games(NOTHING)).value == 0.0


def test_case_28_letter_credit_is_of_the_last_legal_guess_and_no_win_rate():
    """CYNIC against CRANE: C placed, N elsewhere, so 1.5 of 5; THOSE: E placed; a win is 1, silence 0."""
    assert scoring.letter_credit(games(LOST, CUT, WON, NOTHING)).tolist() == [0.3, 0.2, 1.0, 0.0]
    assert scoring.part_credit_as_reward(games(LOST, CUT, WON, NOTHING)).value == pytest.approx(0.375)


def test_free_retries_judge_legal_guesses_alone():
    """Of two games with a second guess one wins by it; the other is cut short there, not lost."""
    assert scoring.free_retries(games(WON, CUT)).value == 0.5
    assert scoring.free_retries(games(LOST)).value == 0.0
    assert scoring.free_retries(games(NOTHING)).value is None


@given(records())
def test_free_retries_are_the_kaplan_meier_estimate_of_scipy(made):
    own = games(*made)
    legal, won = (own.code >= 0).sum(axis=1), analysis.won_in(own) > 0
    found = scoring.free_retries(own).value
    if not won.any():
        assert found in (0.0, None)
        return
    sample = scipy.stats.CensoredData(uncensored=legal[won], right=legal[~won & (legal > 0)])
    assert found == pytest.approx(1 - scipy.stats.ecdf(sample).sf.evaluate(own.guess.shape[1]))


@given(records())
def test_no_rule_of_others_is_stricter_and_every_value_is_a_share(made):
    """Part credit and free retries can only flatter."""
    own = games(*made)
    strict, *others = scoring.rates(own, ())
    for rate in others:
        assert rate.value is None or 0 <= rate.value <= 1
    assert scoring.part_credit_as_win(own).value >= strict.value
    assert scoring.part_credit_as_reward(own).value >= strict.value - 1e-12


def test_a_small_pool_is_drawn_from_training_secrets():
    """All of them where there are no more than 195; with more, the range over pools holds the mean."""
    own = games(WON, LOST)
    assert scoring.small_pool(own, ("label",)) == (
        "1 training secrets",
        1.0,
        None,
        scoring.small_pool(own, ()).meaning,
    )
    assert scoring.small_pool(own, ()).value is None
    many = own.take(np.repeat([0, 1], 300))
    rate = scoring.small_pool(many, ("label", "crane"))
    assert rate.rule == "195 training secrets" and rate.interval[0] < rate.value == 0.5 < rate.interval[1]
    rng = np.random.default_rng(0)
    drawn = rng.hypergeometric(300, 300, 195, 20_000) / 195
    assert rate.interval == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.006)
