"""Intervals, comparisons and corrections, against scipy and statsmodels and on games with known answers."""

import re

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from wordlelib.evaluate import wilson
from wordlelib.inference import (
    compare,
    decides,
    games_needed,
    holm,
    mean_interval,
    outcome,
    over_seeds,
    verdict,
)


def pairs(both: int, gained: int, lost: int, neither: int) -> tuple[list, list]:
    """Results and guesses of games of which so many were won by both, the first, the second, none."""
    won = [(True, True)] * both + [(True, False)] * gained + [(False, True)] * lost
    won += [(False, False)] * neither
    return won, [(4 if a else 7, 4 if b else 7) for a, b in won]


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_that_of_statsmodels(pair):
    expected = proportion_confint(*pair, alpha=2 * scipy.stats.norm.sf(1.96), method="wilson")
    assert wilson(*pair) == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_p_value_of_wins_is_the_exact_mcnemar_test_of_statsmodels(gained, lost):
    found = compare(*pairs(3, gained, lost, 5))
    expected = mcnemar([[3, gained], [lost, 5]], exact=True).pvalue
    assert found.wins_p == pytest.approx(min(1.0, expected), abs=1e-9)
    assert (found.games, found.gained, found.lost) == (8 + gained + lost, gained, lost)


@pytest.mark.parametrize(
    "differences", [[0, 1, 1, -1, 2, 3, -2, 1, 0, 1, 1], [3, -1, 2], [-2, -2, -1, 1, -3]]
)
def test_the_p_value_of_guesses_is_the_exact_permutation_test_of_scipy(differences):
    guesses = [(4 + d, 4) for d in differences]
    found = compare([(True, True)] * len(guesses), guesses)
    expected = scipy.stats.permutation_test(
        (np.array(differences, float), np.zeros(len(differences))),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert found.guesses_p == pytest.approx(expected.pvalue)
    assert found.guesses == pytest.approx(expected.statistic)


def test_the_interval_of_a_mean_is_the_percentile_bootstrap_of_scipy():
    """Two bootstraps of 20,000 draws agree to the Monte Carlo error of their ends."""
    values = np.random.default_rng(1).integers(2, 8, 300)
    expected = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert mean_interval(values, draws=20_000) == pytest.approx((expected.low, expected.high), abs=0.01)


def test_the_paired_interval_is_the_bootstrap_of_the_differences():
    rng = np.random.default_rng(3)
    first, second = rng.integers(2, 8, 200), rng.integers(3, 8, 200)
    found = compare([(True, True)] * 200, list(zip(first.tolist(), second.tolist(), strict=True)))
    expected = scipy.stats.bootstrap(
        (first, second),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        paired=True,
        method="percentile",
        rng=np.random.default_rng(4),
    ).confidence_interval
    assert found.guesses_interval == pytest.approx((expected.low, expected.high), abs=0.02)


@given(st.lists(st.integers(-7, 7), min_size=1, max_size=60))
def test_an_interval_repeats_and_holds_the_ends_it_must(values):
    """The same values give the same interval, inside their range, of no width without any spread."""
    low, high = mean_interval(values)
    assert mean_interval(values) == (low, high)
    assert min(values) <= low <= high <= max(values)
    if len(set(values)) == 1:
        assert low == high


def test_intervals_hold_the_true_mean_about_19_times_in_20():
    """300 samples of 100 from a known distribution: the coverage of a 95% interval."""
    rng, hits = np.random.default_rng(5), 0
    for _ in range(300):
        low, high = mean_interval(rng.binomial(6, 0.6, 100), draws=1000)
        hits += low <= 3.6 <= high
    assert 0.91 <= hits / 300 <= 0.98


def test_no_values_have_no_interval_and_no_pairs_no_comparison():
    assert mean_interval([]) is None
    with pytest.raises(ValueError, match="nothing to compare: 0 pairs"):
        compare([], [])


@settings(max_examples=10)  # the reference takes a third of a second
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(p_values):
    expected = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(list(expected))


def test_holm_of_one_test_changes_nothing_and_of_none_is_empty():
    assert holm([0.03]) == [0.03] and holm([]) == []
    assert holm([0.04, 0.01]) == [0.04, 0.02]


@pytest.mark.parametrize(("gained", "lost", "games"), [(30, 12, 500), (60, 30, 400), (9, 1, 64)])
def test_the_games_needed_give_the_test_a_power_of_about_80_percent(gained, lost, games):
    """Simulated: so many games let the uncorrected McNemar test find the difference four times in five."""
    n = games_needed(gained, lost, games)
    rng = np.random.default_rng(6)
    draws = rng.multinomial(n, [gained / games, lost / games, 1 - (gained + lost) / games], size=4000)
    b, c = draws[:, 0], draws[:, 1]
    found = (b - c) ** 2 > 1.959964**2 * np.maximum(b + c, 1)
    assert 0.74 <= found.mean() <= 0.87


def test_no_difference_needs_no_number_of_games():
    assert games_needed(5, 5, 100) is None
    assert games_needed(15, 15, 100, 0.05) > games_needed(5, 5, 100, 0.05) > games_needed(0, 0, 9, 0.05)
    assert games_needed(109, 58, 500) < games_needed(60, 50, 500)


@pytest.mark.parametrize(
    ("counts", "p", "said"),
    [
        ((100, 60, 5, 35), 0.001, r"a wins more games than b: \+27.5% \(\+20.*to \+3.*%\)\."),
        ((100, 5, 60, 35), 0.001, r"a wins fewer games than b: -27.5%"),
        (
            (50, 6, 4, 4),
            0.7,
            r"decides nothing: .*wider than the 5 points asked about; about 489 games would see 5 points\.$",
        ),
        ((900, 5, 5, 4), 1.0, r"a and b differ by less than 5 points: \+0\.0% \(-0\.7% to \+0\.7%\)\.$"),
        (
            (20, 0, 0, 4),
            1.0,
            r"decides nothing: \+0\.0% .*too few games to rule out 5 points; about 155 games",
        ),
        ((60, 20, 5, 15), 0.06, r"decides nothing: .* does not outlast the correction"),
    ],
)
def test_a_verdict_says_who_won_or_that_nothing_is_decided_and_how_many_games_would(counts, p, said):
    sentence = verdict("a", "b", compare(*pairs(*counts)), p)
    assert re.search(said, sentence), sentence


def test_the_difference_asked_about_is_the_readers():
    """Of the same games: less than 2 points, but perhaps 1; without a question there is no answer."""
    found = compare(*pairs(900, 12, 8, 80))
    assert outcome(found, 0.5, 0.02) == "less than 2 points" and outcome(found, 0.5, 0.01) == "nothing"
    assert outcome(found, 0.5) == "nothing" and "games would see 1 point." in verdict(
        "a", "b", found, 0.5, 0.01
    )


def test_an_interval_that_reaches_zero_decides_nothing():
    assert decides((0.01, 0.2)) and decides((-0.2, -0.01))
    assert not decides((-0.1, 0.2)) and not decides((0.0, 0.2))


def test_seeds_are_points_with_their_mean_and_range():
    assert over_seeds([0.4, 0.6, 0.5]) == ((0.4, 0.6, 0.5), pytest.approx(0.5), 0.4, 0.6)
