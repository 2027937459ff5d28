"""Runs that are kept: what is copied under `results/reference`, and the pages that are written from it.

Every number of the README's results is read from the files kept here.
"""

import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path

from wordlelib import report, sweep_results
from wordlelib.evaluations import STAGE, Evaluated, read_run
from wordlelib.plots import PLOTLY_FORM, SVG_FORM
from wordlelib.runs import (
    read_json,
    replacing_folder,
    require_complete_notebook,
    shown_path,
    write_json,
    write_text,
)

START, END = "<!-- results:start -->", "<!-- results:end -->"
REFERENCE_TITLE = """# Results of the runs kept here

Every number is read from the files of its folder; `python -m wordlelib report --readme` writes this page,
and a test fails when the two disagree.
"""
NOTEBOOKS = "[!.]*/*.ipynb"  # Jupyter saves copies of those that are opened in a folder with a dot
KEPT = (
    *(NOTEBOOKS, "*/*.yaml", "*/*.json", "*/*.csv*", "*/log.jsonl*", "*/games.jsonl*"),
    *("*/control/log.jsonl*", "*/corrections/*/log.jsonl*", "*/figures/*.svg"),
)
KEPT_OF_TRIALS = ("config.yaml", "environment.json", "metrics.json", "status.json")
KEPT_OF_COMPARED = ("card.json", "log.jsonl*", "games.jsonl*")
PACKED = ("games.jsonl", "traces.csv", "log.jsonl")  # what a model wrote and numbers by step: a fifth or less


def keep_run(run: str | Path, reference: str | Path) -> Path:
    """Copy what is evidence of a finished run to `<reference>/<its name>`, and return that folder.

    Kept: executed notebooks, configs, environments, metrics, the data card, logs, traces and games (these
    three gzipped), and figures as SVG. Left out: weights, checkpoints, training rows, the plotting library,
    and in the notebooks what it would draw from, three fifths of their size. A kept run of the same name is
    replaced. Raises ValueError unless every notebook ran to its end.
    """
    source = read_run(run).folder
    for notebook in source.glob(NOTEBOOKS):
        require_complete_notebook(notebook)
    target = Path(reference) / source.name
    with replacing_folder(target) as temporary:
        _copy(source, KEPT, temporary)
        _pack(temporary)
        _still_figures(temporary)
    return target


def _still_figures(run: Path) -> None:
    """Leave of each figure in the executed notebooks its SVG, which every viewer shows, and no other form."""
    for path in run.glob(NOTEBOOKS):
        notebook = read_json(path)
        outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
        for data in (output.get("data", {}) for output in outputs):
            if SVG_FORM in data:
                data.pop(PLOTLY_FORM, None)
        write_json(path, notebook)


def _pack(run: Path) -> None:
    """Compress the large files of text."""
    for path in (path for name in PACKED for path in sorted(run.rglob(name))):
        packed = gzip.compress(path.read_bytes(), mtime=0)  # no time in it: the same content, the same file
        path.with_name(f"{path.name}.gz").write_bytes(packed)
        path.unlink()


def keep_sweep(sweep: str | Path, reference: str | Path) -> Path:
    """Copy what is evidence of a sweep to `<reference>/<its name>`, and return that folder.

    Kept: its file, table and figures (as SVG), and the configs, environments, metrics and statuses of its
    trials, failed ones included; and data cards, logs and games (both gzipped) where a row is the reference
    of the others. Notebooks and all else of a trial are kept by `keep_run` on the trial. A kept
    sweep of the same name is replaced. Raises ValueError for one of which no trial is done.
    """
    source = Path(sweep).resolve()
    sweep_results.best_trial(source)
    rows = sweep_results.read_table(source)
    compared = KEPT_OF_COMPARED if sweep_results.reference_rows(rows) else ()
    patterns = [f"{row['trial']}/*/{name}" for row in rows for name in (*KEPT_OF_TRIALS, *compared)]
    target = Path(reference) / source.name
    with replacing_folder(target) as temporary:
        _copy(source, ("sweep.yaml", sweep_results.TABLE, "figures/*.svg", *patterns), temporary)
        _pack(temporary)
    return target


def _copy(source: Path, patterns: Iterable[str], target: Path) -> None:
    """Copy the files that match to the same places in another folder; links become what they point to."""
    for path in sorted(path for pattern in patterns for path in source.glob(pattern)):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def update_readme(readme: str | Path, reference: str | Path) -> None:
    """Put a short table of the runs in the folder `reference` between the two markers of a README, and full
    ones, of those in folders of it too (`earlier`), into `<reference>/README.md`.

    Runs under the same rules share a full table, those of one model among them a short one; each row names
    its folder and the command that repeats it. Raises ValueError as `read_run` does, and when a marker is
    missing.
    """
    for page, text in _pages(Path(readme), Path(reference)).items():
        write_text(page, text)


def check_readme(readme: str | Path, reference: str | Path) -> None:
    """Raise ValueError unless the README and the page of full tables say what the files say."""
    for page, text in _pages(Path(readme), Path(reference)).items():
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            raise ValueError(
                f"{shown_path(page)} and the files under {shown_path(reference)} disagree: "
                "update it with `python -m wordlelib report --readme`"
            )


def _pages(readme: Path, reference: Path) -> dict[Path, str]:
    """The README with its short table, and the page of full tables beside the runs."""
    groups = _reference_runs(reference)
    headline = ([run for run in runs if run.folder.parent == reference.resolve()] for runs in groups)
    short = report.short(filter(None, headline)) or "No reference run is kept yet."
    full = "\n\n".join(report.tables(runs, report.piped, commands=True) for runs in groups)
    pages = {readme: with_part(readme, START, END, short)}
    return pages | ({reference / "README.md": f"{REFERENCE_TITLE}\n{full}\n"} if groups else {})


def with_part(path: str | Path, start: str, end: str, body: str) -> str:
    """The text of a page with `body` between its markers; raises ValueError when one is missing."""
    text = Path(path).read_text(encoding="utf-8")
    before, started, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not (started and ended):
        raise ValueError(f"{shown_path(path)} lacks the markers {start} and {end}")
    return f"{before}{start}\n{body}\n{end}{after}"


def _reference_runs(reference: Path) -> list[list[Evaluated]]:
    """The kept runs, those under the same rules together."""
    groups: dict[str, list[Evaluated]] = {}
    for stage in sorted(reference.glob(f"**/{STAGE}")):
        if sweep_results.is_sweep(stage.parent.parent):
            continue  # its trials have a table of their own
        run = read_run(stage.parent)
        groups.setdefault(run.rules.digest, []).append(run)
    return list(groups.values())
