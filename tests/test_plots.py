"""Figures: what they show, that a hole in a log does not break them, and that they need no network."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import plots, svg

ROOT = Path(__file__).resolve().parent.parent
SFT = [{"step": s, "loss": 2 / s, "eval_loss": 3 / s, "val_win_rate": s / 100} for s in range(1, 80)]
GRPO = [
    {
        "step": s,
        "reward": s / 50,
        "reward_std": 0.2,
        "rewards/format/mean": 0.9,
        "rewards/win/mean": s / 100,
        "frac_reward_zero_std": 0.3,
        "distinct_completions": 0.7,
        "top_guess_share": 0.1,
        "format_share": 0.9,
        "legal_share": 0.8,
        "nonword_share": 0.1,
        "completions/clipped_ratio": 0.0,
        "clues_right": 0.7,
        "asked_clues_right": 0.8,
        "games_win_rate": 0.5,
        "games_played": 10,
        "resident_gib": 0.6,
    }
    for s in range(1, 60)
]
SUMMARIES = {
    name: {"win_rate": w, "win_rate_low": w - 0.05, "win_rate_high": w + 0.05, "mean_guesses_loss7": m}
    for name, w, m in (
        ("sft", 0.6, 5.0),
        ("grpo", 0.8, 4.4),
        ("random_consistent", 0.95, 4.1),
        ("optimal", 1.0, 3.42),
    )
}
CURVES = (
    plots.sft_loss,
    plots.validation_wins,
    plots.reward,
    plots.reward_terms,
    plots.group_signal,
    plots.completion_quality,
    plots.refreshed_wins,
    plots.cumulative_wins,
    plots.memory,
)


def record(secret: str, guesses: list[str], player: str = "grpo") -> dict:
    """A finished game; `zz...` counts as a non-word."""
    turns = [
        {
            "guess": guess,
            "feedback": None if guess.startswith("zz") else ("GGGGG" if guess == secret else "BBBBB"),
            "reason": "ok",
            "rule": "not_a_word" if guess.startswith("zz") else "ok",
            "text": "",
            "rewards": {},
        }
        for guess in guesses
    ]
    return {
        "secret": secret,
        "turns": turns,
        "won": guesses[-1] == secret,
        "n_guesses": len(turns),
        "player": player,
    }


GAMES = {
    "grpo": [record("those", ["crane", "those"]), record("steep", ["crane", "zzzzz"] + ["slate"] * 4)],
    "greedy": [record("those", ["crane", "slate", "those"]), record("steep", ["crane", "steep"])],
}


def all_figures() -> dict[str, go.Figure]:
    figures = {make.__name__: make(SFT if "sft" in make.__name__ else GRPO) for make in CURVES}
    figures["validation_wins"] = plots.validation_wins(SFT, {"floor": 0.9})
    figures["win_rates"] = plots.win_rates(SUMMARIES)
    figures["mean_guesses"] = plots.mean_guesses(SUMMARIES)
    figures["guess_histogram"] = plots.guess_histogram(GAMES)
    figures["frequent_guesses"] = plots.frequent_guesses(GAMES["grpo"], "grpo")
    figures["hardest_words"] = plots.hardest_words(GAMES)
    figures["information"] = plots.information({"soare": 5.886, "fuzzy": 2.3})
    return figures


def named(fig: go.Figure) -> dict:
    return {trace.name: trace for trace in fig.data if trace.showlegend is not False}


@pytest.mark.parametrize("name", list(all_figures()))
def test_every_figure_has_a_line_on_how_to_read_it_and_a_static_picture(name: str) -> None:
    """The picture is well-formed XML, names the figure, and refers to nothing outside itself."""
    fig = all_figures()[name]
    assert plots.caption(fig).endswith(".")
    picture = svg.figure_svg(fig)
    title = ElementTree.fromstring(picture).find("{http://www.w3.org/2000/svg}title")
    assert title.text == fig.layout.title.text
    assert picture.count("http") == 1 and "href" not in picture


@pytest.mark.parametrize("make", CURVES)
@pytest.mark.parametrize("rows", [[], [{"step": 1}], [{"step": 1, "loss": None, "reward": float("nan")}]])
def test_missing_columns_give_a_figure_that_says_so(make, rows: list[dict]) -> None:
    """A column that no row has is left out; without any the figure names what is missing."""
    fig = make(rows)
    assert not fig.data
    assert "not in this log" in fig.layout.annotations[0].text
    assert "not in this log" in svg.figure_svg(fig)


def test_a_partly_missing_column_keeps_the_rows_that_have_it() -> None:
    """Validation happens at some steps only."""
    fig = plots.sft_loss([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5, "eval_loss": 1.7}])
    assert list(named(fig)["training"].x) == [1, 2]
    assert list(named(fig)["validation"].x) == [2]


def test_reward_terms_are_found_in_the_log() -> None:
    """Whatever terms a preset has, each gets a line under its own name."""
    assert set(named(plots.reward_terms(GRPO))) == {"format", "win"}


def test_long_series_are_smoothed_and_the_caption_says_so() -> None:
    """Above the limit the line is a running mean over faint dots; below it is the data."""
    assert "running mean" in plots.caption(plots.reward(GRPO))
    assert "running mean" not in plots.caption(plots.reward(GRPO[:10]))
    assert plots.running_mean([1, 2, 3, 4], 2) == [1, 1.5, 2.5, 3.5]


def test_guess_histogram_counts_shares_of_games_and_losses_under_x() -> None:
    """Two games of grpo: one won in two, one lost."""
    bars = named(plots.guess_histogram(GAMES))["grpo"]
    assert dict(zip(bars.x, bars.y, strict=True)) == {
        **dict.fromkeys("13456", 0),
        "2": 0.5,
        "X": 0.5,
    }


def test_cumulative_wins_add_up_the_rounds() -> None:
    """Win rates are weighted by the games of their round; the pace is that of the first round."""
    rows = [{"step": 0, "games_win_rate": 0.5, "games_played": 10}, {"step": 5}]
    rows.append({"step": 9, "games_win_rate": 0.8, "games_played": 20})
    fig = plots.cumulative_wins(rows)
    assert list(fig.data[0].x) == [0, 10, 30] and list(fig.data[0].y) == [0, 5, 21]
    assert list(fig.data[1].y) == [0, 15]


def test_frequent_guesses_split_openers_from_later_ones_and_name_non_words() -> None:
    """The opener is played once a game, a favourite word shows as a long later part."""
    parts = named(plots.frequent_guesses(GAMES["grpo"], "grpo"))
    first = dict(zip(parts["first guess"].y, parts["first guess"].x, strict=True))
    later = dict(zip(parts["later guess"].y, parts["later guess"].x, strict=True))
    assert first["crane"] == 1 and later["slate"] == 2
    assert later["zzzzz (not accepted)"] == 0.5


def test_hardest_words_count_a_loss_as_seven() -> None:
    """steep: lost once (7) and won in 2; those: won in 2 and in 3."""
    [bars] = plots.hardest_words(GAMES).data
    assert dict(zip(bars.y, bars.x, strict=True)) == {"steep": 4.5, "those": 2.5}
    assert list(bars.text) == ["lost 1 of 2", "lost 0 of 2"]


def test_win_rates_carry_their_intervals() -> None:
    """Whiskers reach from the lower to the upper end of the interval."""
    [bars] = plots.win_rates(SUMMARIES).data
    assert list(bars.y) == ["sft", "grpo", "random_consistent"]
    assert bars.error_x.array[0] == bars.error_x.arrayminus[0] == pytest.approx(0.05)


def test_summaries_are_read_from_flat_metrics() -> None:
    """Only the asked split; other keys (rules, training numbers) are passed over."""
    flat = {"sft/all/win_rate": 0.5, "sft/heldout/win_rate": 0.2, "rules": "abc", "minutes": 3}
    assert plots.summaries(flat) == {"sft": {"win_rate": 0.5}}
    assert plots.summaries(flat, "heldout") == {"sft": {"win_rate": 0.2}}


def test_case_28_win_rate_guesses_and_part_credit_are_separate_and_carry_their_bounds() -> None:
    """No reward in a figure of wins; the figures of games show the floor, that of guesses the ceiling."""
    shapes = plots.mean_guesses(SUMMARIES).layout.shapes
    lines = {shape.label.text.partition("<br>")[0]: shape.x0 for shape in shapes}
    assert set(lines) == {"random-consistent", "best possible"} and lines["best possible"] == 3.42
    assert "random-consistent" in svg.figure_svg(plots.win_rates(SUMMARIES))
    floor = plots.bounds(SUMMARIES, "win_rate")
    lines = {s.label.text: s.y0 for s in plots.refreshed_wins(GRPO, floor).layout.shapes}
    assert lines["random-consistent"] == 0.95
    assert set(named(plots.refreshed_wins(GRPO))) == {"games won"}
    assert "never a win rate" in plots.caption(plots.reward(GRPO))


def test_players_keep_their_colour_and_no_two_share_one() -> None:
    """The same player looks the same in every figure."""
    colours = {trace.name: trace.marker.color for trace in plots.guess_histogram(GAMES).data}
    assert colours == {name: plots.PLAYER_COLOURS[name] for name in GAMES}
    assert len(set(plots.PLAYER_COLOURS.values())) == len(plots.PLAYER_COLOURS)


BAR_CHART = """
from wordlelib import plots
plots.show(plots.information({"soare": 5.886, "fuzzy": 2.3}))
"""


def test_case_52_an_executed_and_converted_notebook_shows_its_figure_without_network(tmp_path: Path) -> None:
    """The saved notebook holds a static picture and no copy of the plotly library; the page shows the
    picture inline, with its caption, and no script or address stands in the cell's output."""
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(BAR_CHART)])
    resources = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    [figure, text] = notebook.cells[0].outputs
    assert set(figure.data) == {"application/vnd.plotly.v1+json", "image/svg+xml", "text/plain"}
    assert text.data["text/markdown"].startswith("*How to read it: One bit halves")
    assert len(nbformat.writes(notebook)) < 20_000

    page, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
    output = page[page.index('class="jp-OutputArea') :]
    assert 'src="data:image/svg+xml;base64,' in output
    assert "<script" not in output.split("</main>")[0] and "src=http" not in output.replace('"', "")
    assert "How to read it" in output


def test_case_53_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    """Two processes with different hash seeds write the same bytes: ids are fixed, sets are not used."""
    code = (
        "import sys; from wordlelib import plots; "
        "rows = [{'step': 1, 'loss': 2.0}, {'step': 2, 'loss': 1.0}]; "
        "plots.save(plots.sft_loss(rows), sys.argv[1], 'loss')"
    )
    for name in ("a", "b"):
        environment = {**os.environ, "PYTHONHASHSEED": str(len(name) + ord(name)), "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], env=environment, check=True)
    for file in ("loss.html", "loss.svg"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_pages_share_one_copy_of_the_library_and_show_the_picture_without_it(tmp_path: Path) -> None:
    """The library is written once, where asked; each page holds the static picture and no address."""
    for name in ("one", "two"):
        plots.save(plots.sft_loss(SFT), tmp_path / "stage" / "figures", name, "../../plotly.min.js")
    assert [path.name for path in tmp_path.rglob("*.js")] == ["plotly.min.js"]
    assert (tmp_path / "plotly.min.js").stat().st_size > 1e6
    page = (tmp_path / "stage" / "figures" / "one.html").read_text(encoding="utf-8")
    assert 'src="../../plotly.min.js"' in page and '<div id="one">\n<svg' in page
    assert page.count("http") == 1  # the name space of SVG
    assert not list(tmp_path.rglob("*.tmp"))


def test_no_text_of_a_figure_can_end_the_script_or_become_markup(tmp_path: Path) -> None:
    """A label with tags is shown as text in the picture and escaped in the data."""
    games = {"</script><script>alert(1)</script>": GAMES["grpo"], "sft": GAMES["greedy"]}
    plots.save(plots.guess_histogram(games), tmp_path, "hostile")
    page = (tmp_path / "hostile.html").read_text(encoding="utf-8")
    assert page.count("<script") == 2 and page.count("</script>") == 2


def test_png_is_skipped_with_one_sentence_where_no_exporter_works(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """Said once, not once a figure; the other files are there."""

    def fail(*args, **kwargs):
        raise RuntimeError("no browser")

    monkeypatch.setattr(go.Figure, "to_image", fail)
    plots._png_works.cache_clear()
    for name in ("one", "two"):
        assert [path.suffix for path in plots.save(plots.sft_loss(SFT), tmp_path, name)] == [".html", ".svg"]
    assert capsys.readouterr().out.count("PNG pictures are skipped") == 1
    plots._png_works.cache_clear()


def test_shown_figures_stay_small() -> None:
    """A figure of 500 steps with six series adds less than 150 kB to a saved notebook."""
    rows = [{**row, "step": s} for s, row in zip(range(500), GRPO * 9, strict=False)]
    fig = plots.completion_quality(rows)
    assert len(json.dumps(plots._plain(fig))) + len(svg.figure_svg(fig)) < 150_000


def test_an_unknown_kind_of_trace_is_refused_in_words() -> None:
    """The static drawer knows lines and bars only."""
    with pytest.raises(ValueError, match="cannot draw a pie trace"):
        svg.figure_svg(go.Figure(go.Pie(values=[1, 2])))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_rising_and_inside(low: float, width: float) -> None:
    """Any range gets between 2 and 13 ticks that lie in it."""
    width = max(width, abs(low) * 1e-6)
    ticks = svg.nice_ticks(low, low + width)
    assert 2 <= len(ticks) <= 13 and ticks == sorted(ticks)
    slack = width * 1e-6 + 1e-9
    assert low - slack <= ticks[0] and ticks[-1] <= low + width + slack


def test_importing_plots_and_replay_loads_no_plotting_library() -> None:
    """Both are imported by code that runs without the notebook stack."""
    code = (
        "import sys; from wordlelib import plots, replay; "
        "heavy = ('plotly', 'IPython', 'ipywidgets', 'pandas', 'scipy', 'torch'); "
        "print([module for module in heavy if module in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
