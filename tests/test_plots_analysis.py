"""Figures of an analysis: they show the values given, leave out what is unknown, and have a picture."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from wordlelib import plots, svg
from wordlelib import plots_analysis as figures
from wordlelib.difficulty import Kind
from wordlelib.inference import Comparison, over_seeds
from wordlelib.scoring import Rate
from wordlelib.thinking import Calibration

SILENT = Calibration(6, 0, 0.0, None, None, None, None, None)
TALKING = Calibration(6, 3, 1.0, 0.9, 0.8, 0.7, 0.6, None)
BETTER = Comparison(100, 20, 5, 0.15, (0.05, 0.25), 0.004, -0.3, (-0.5, -0.1), 0.01)
KINDS = {"light": Kind(False, 7, 0.3), "fuzzy": Kind(True, 0, 0.1), "crane": Kind(False, 2, 0.35)}
RATES = [Rate("strict", 0.5, (0.4, 0.6), "…"), Rate("free retries", None, None, "…")]
EVERY = {
    "histogram": figures.histogram({"sft": {"1": 0, "2": 3, "X": 1}}),
    "survival": figures.survival({"sft": [1.0, 1.0, 0.25], "greedy": [1.0, 0.5, 0.0]}),
    "bits": figures.bits({"sft": [5.8, 2.0, None]}),
    "regret": figures.regret({"sft": [0.1, 0.5, 0.2], "grpo": [0.0, None, None]}),
    "calibration": figures.calibration({"sft": TALKING, "grpo": SILENT}),
    "word_map": figures.word_map(KINDS, {"light": 0.5, "fuzzy": 1.0, "crane": 0.0}),
    "forest": figures.forest({"grpo - sft": BETTER}),
    "seeds": figures.seeds({"sft": over_seeds([0.4, 0.6, 0.5])}),
    "scoring": figures.scoring({"sft": RATES}),
}
EMPTY = {
    name: getattr(figures, name)({})
    for name in ("histogram", "survival", "bits", "regret", "calibration", "forest", "seeds", "scoring")
}


@pytest.mark.parametrize("figure", [*EVERY.values(), *EMPTY.values(), figures.word_map(KINDS, {})])
def test_every_figure_says_how_to_read_it_and_has_a_static_picture(figure):
    """Also with nothing to show: it says so and does not break."""
    assert len(plots.caption(figure)) > 60
    picture = ElementTree.fromstring(svg.figure_svg(figure))
    assert picture.tag.endswith("svg")


@pytest.mark.parametrize("name", EVERY)
def test_axes_carry_their_unit(name):
    layout = EVERY[name].layout
    assert layout.yaxis.title.text or layout.xaxis.title.text
    numeric = [axis for axis in (layout.xaxis, layout.yaxis) if axis.type != "category"]
    assert all(axis.title.text for axis in numeric)


def test_people_stand_beside_the_players_with_their_source():
    """Their published shares, which sum to one and need about 4.1 guesses when they win."""
    assert sum(figures.PEOPLE.values()) == pytest.approx(1, abs=0.001)
    won = {int(k): v for k, v in figures.PEOPLE.items() if k != "X"}
    assert sum(k * v for k, v in won.items()) / sum(won.values()) == pytest.approx(4.11, abs=0.01)
    drawn = figures.histogram({"sft": {"1": 0, "2": 3, "X": 1}}, figures.PEOPLE)
    assert [trace.name for trace in drawn.data] == ["sft", "people"]
    assert list(drawn.data[1].y)[3] == pytest.approx(0.329, abs=0.001)
    assert "MCM 2023" in plots.caption(drawn) and "People" not in plots.caption(EVERY["histogram"])


@pytest.mark.parametrize("names", [["sft"], ["sft", "greedy"], ["sft", "sft_continued", "grpo", "greedy"]])
def test_people_have_a_colour_that_no_player_beside_them_has(names):
    drawn = figures.histogram({name: {"1": 1, "X": 0} for name in names}, figures.PEOPLE)
    assert len({trace.marker.color for trace in drawn.data}) == len(names) + 1


def test_turns_that_no_game_reached_are_left_out():
    [sft, grpo] = EVERY["regret"].data
    assert (list(sft.x), list(sft.y)) == ([1, 2, 3], [0.1, 0.5, 0.2])
    assert (list(grpo.x), list(grpo.y)) == ([1], [0.0])


def test_lines_of_players_differ_without_colour():
    assert len({trace.line.dash for trace in EVERY["survival"].data}) == 2


def test_shares_that_are_unknown_have_no_bar():
    """A model that lists no words has no bars, a share without cases none either."""
    sft, grpo = EVERY["calibration"].data
    assert list(sft.x) == ["are words", "fit the feedback", "named once", "guess is listed"]
    assert list(grpo.x) == []
    assert list(EVERY["scoring"].data[0].x) == ["strict"]


def test_names_under_bars_do_not_run_into_each_other():
    """With a wide legend the bars stand close: a name that is wider than its place goes on below."""
    label = "sft in a run with a name as long as this one is"
    rates = [Rate(f"mean letter credit {k}", 0.5, None, "…") for k in range(5)]
    picture = ElementTree.fromstring(svg.figure_svg(figures.scoring({label: rates, f"{label} too": rates})))
    texts = [element for element in picture.iter() if element.tag.endswith("text")]
    ends = {}
    for element in texts:
        words = "".join(element.itertext())
        if any(part in words for part in ("mean", "letter", "credit")):
            middle, half = float(element.get("x")), len(words) * svg.LETTER / 2
            ends.setdefault(element.get("y"), []).append((middle - half, middle + half))
    assert len(ends) > 1, "all fit into one row: this tests nothing"
    for row in ends.values():
        assert all(first[1] <= second[0] + svg.LETTER for first, second in pairwise(sorted(row)))


def test_secrets_are_larger_and_darker_the_more_players_lost_them():
    traces = {trace.name: trace for trace in EVERY["word_map"].data}
    assert [list(traces[name].text) for name in figures.SIZES] == [["crane"], ["light"], ["fuzzy"]]
    sizes = [traces[name].marker.size for name in figures.SIZES]
    greys = [sum(int(shade[k : k + 2], 16) for k in (1, 3, 5)) for shade in figures.SHADES]
    assert sizes == sorted(sizes) and greys == sorted(greys, reverse=True)


def test_a_difference_is_a_dot_in_percentage_points_on_its_interval():
    span, dot = EVERY["forest"].data
    assert (list(span.x), list(dot.x)) == ([5.0, 25.0], [15.0])
    assert [shape.x0 for shape in EVERY["forest"].layout.shapes] == [0.0]


def test_seeds_are_one_dot_a_run_over_their_range():
    span, dots = EVERY["seeds"].data
    assert (list(span.x), list(dots.x)) == ([40.0, 60.0], [40.0, 60.0, 50.0])
