"""What a sweep's table says: effects of settings with intervals, the report and figures from it alone."""

import shutil

import pytest
from conftest import ROOT, write_sweep_table

from wordlelib import plots, sweep_results
from wordlelib.__main__ import main


def table(wins, games=100):
    """Rows as in sweep.csv: (beta, seed) to the share of games won."""
    return [
        {
            "trial": f"beta={beta}_seed={seed}",
            "03_grpo.beta": beta,
            "03_grpo.seed": seed,
            "status": "done",
            "minutes": 1.0,
            "grpo/all/games": games,
            "grpo/all/win_rate": won,
            "grpo/all/mean_guesses_loss7": 5 - won,
        }
        for (beta, seed), won in wins.items()
    ]


def test_the_effect_of_a_setting_comes_from_trials_where_there_are_three_a_side():
    rows = table({(beta, seed): 0.5 + beta + seed / 100 for beta in (0.0, 0.2) for seed in range(3)})
    beta, *seeds = sweep_results.effects(rows, "grpo/all/win_rate")
    assert beta["setting"] == "03_grpo.beta" and (beta["value"], beta["against"]) == ("0.2", "0.0")
    assert beta["difference"] == pytest.approx(0.2) and 0.17 < beta["low"] < 0.2 < beta["high"] < 0.23
    assert beta["interval"] == "trials" and [row["interval"] for row in seeds] == ["games", "games"]
    assert all(row["low"] < 0 < row["high"] for row in seeds)


def test_with_few_trials_the_interval_is_newcombes_over_their_games():
    """56 of 70 against 48 of 80: R. G. Newcombe, Statistics in Medicine 17 (1998), method 10."""
    rows = table({(1.0, 0): 56 / 70, (0.0, 0): 48 / 80})
    rows[0]["grpo/all/games"], rows[1]["grpo/all/games"] = 70, 80
    [effect] = sweep_results.effects(rows, "grpo/all/win_rate")
    assert effect["difference"] == pytest.approx(0.2)
    assert (round(effect["low"], 4), round(effect["high"], 4)) == (0.0524, 0.3339)


def test_a_number_of_many_values_is_cut_at_its_median():
    rows = table({(beta / 10, 0): beta / 10 for beta in range(8)})
    [effect] = sweep_results.effects(rows, "grpo/all/win_rate")
    assert (effect["value"], effect["against"]) == ("from 0.4", "below 0.4")
    assert effect["difference"] == pytest.approx(0.4) and effect["low"] > 0.1


def test_the_report_of_a_sweep_needs_its_table_alone(tmp_path, capsys):
    rows = table({(beta, seed): 0.5 + beta for beta in (0.0, 0.2) for seed in (1, 2)})
    folder = write_sweep_table(tmp_path / "swept", rows)
    assert main(["report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "Best of 4 by grpo/all/win_rate: beta=0.2_seed=1, 0.7." in shown and "+0.200" in shown
    pages = sorted(path.name for path in (folder / "figures").glob("*.html"))
    assert pages == ["parallel_coordinates.html", "setting_effects.html"]
    assert main(["report", "--markdown", str(folder)]) == 0
    assert "| beta | seed | status |" in capsys.readouterr().out
    assert sweep_results.expand([folder, tmp_path]) == ([folder / "beta=0.2_seed=1", tmp_path], [folder])


def test_the_page_of_a_sweep_shows_its_table_and_its_best_trial(tmp_path, capsys):
    """The kept sweep has no games, so its table stands alone; one whose best trial has them shows both."""
    kept = ROOT / "results" / "reference" / "grpo-beta"
    assert main(["report", str(kept), "--html", "--out", str(tmp_path / "page")]) == 0
    assert {path.name for path in (tmp_path / "page").iterdir()} == {"report.html", "report.md"}
    text = (tmp_path / "page" / "report.md").read_text()
    best = sweep_results.best_trial(kept).name
    assert "## The sweep grpo-beta" in text and f": {best}, " in text and text.count("| beta |") == 1
    html = (tmp_path / "page" / "report.html").read_text()
    assert "<title>Wordle: grpo-beta</title>" in html and html.count("<figure>") == 2

    swept = write_sweep_table(tmp_path / "swept", table({(0.0, 0): 0.5, (0.2, 0): 0.9}))
    shutil.copytree(ROOT / "results" / "reference" / "cpu-demo", swept / "beta=0.2_seed=0")
    assert main(["report", str(swept), "--html"]) == 0
    text = (swept / "report" / "report.md").read_text()
    assert "## The sweep swept" in text and "## Is the difference real?" in text
    assert (swept / "report" / "lists" / "lost_states.jsonl").is_file()


def test_the_readme_says_of_the_kept_sweep_what_its_table_says():
    rows = sweep_results.read_table(ROOT / "results" / "reference" / "grpo-beta")
    readme = (ROOT / "notebooks" / "sweeps.md").read_text(encoding="utf-8")
    found = sweep_results.effects(rows, sweep_results.objective(rows))
    assert [(row["setting"], row["value"]) for row in found] == [
        ("03_grpo.beta", "0.2"),
        ("03_grpo.temperature", "1.0"),
    ]
    for row in found:
        name = row["setting"].partition(".")[2]
        said = f"{name} {row['value']} by {row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
        assert said in readme


def test_a_sweep_of_which_nothing_is_done_is_one_sentence(tmp_path, capsys):
    rows = table({(0.0, 1): 0.5})
    assert main(["report", str(write_sweep_table(tmp_path / "a", [{**rows[0], "status": "failed"}]))]) == 0
    assert "Nothing to compare: no trial is done" in capsys.readouterr().out
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / sweep_results.TABLE).write_text("trial,status\n")
    assert main(["report", str(tmp_path / "b")]) == 2
    assert "no trial of this sweep has ended" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no trial is done"):
        sweep_results.expand([tmp_path / "a"])


def test_the_figures_of_a_sweep_have_static_pictures_and_texts_on_an_axis():
    rows = table({(beta, seed): 0.5 + beta for beta in (0.0, 0.2) for seed in ("a", "b")})
    figures = plots.sweep_figures(rows)
    lines = figures["parallel_coordinates"].data
    assert len(lines) == 4 and lines[-1].y[-1] == 1.0 and lines[0].y[-1] == 0.0
    assert list(figures["setting_effects"].data[0].y) == ["beta 0.2 (not 0.0)", "seed b (not a)"]
    for figure in figures.values():
        assert plots.svg.figure_svg(figure).startswith("<svg")
    assert plots.sweep_figures(rows[:1]) == {}
