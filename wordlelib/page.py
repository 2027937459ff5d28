"""Findings written out: one HTML page that works offline, the tables as Markdown, a CSV of words, lists.

Text that a model or a file brought is escaped wherever it is shown.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

from wordlelib import difficulty, inference, plots, report, svg, sweep_results
from wordlelib.data import Row, state_row, write_jsonl
from wordlelib.evaluate import games_file, history_of
from wordlelib.evaluations import STAGE
from wordlelib.findings import Findings, Section, found_results, lists, sections, sweep
from wordlelib.runs import Run, replacing_folder, shown_path, write_text
from wordlelib.solver import Solver


def markdown(section: Section) -> str:
    """A section as Markdown: its text and tables, without the figures."""
    blocks = [f"## {section.title}", section.text]
    for caption, rows in section.tables.items():
        cells = [[report.cell(text) for text in row] for row in (rows[0], *(row.values() for row in rows))]
        blocks.append(f"{caption}:\n\n{report.piped(cells)}")
    return "\n\n".join(blocks)


def show(section: Section | None, run: Run) -> None:
    """Show a section in a notebook, its figures saved with the stage `run`; says so where there is none."""
    from IPython.display import Markdown, display

    if section is None:
        return display(Markdown("*These runs have nothing to show here.*"))
    display(Markdown(markdown(section).partition("\n\n")[2]))
    for name, figure in section.figures.items():
        run.figure(figure, name)


def write(folders: Iterable[str | Path], out: str | Path, difference: float = inference.DIFFERENCE) -> Path:
    """Write what runs and sweeps show into the folder `out`, replacing it whole, and return the page.

    A sweep is shown by its table and by its best trial, if that keeps games. Made are `report.html` (one
    file, works offline), `report.md`, the figures as `figures/*.png` where an exporter works, and of runs in
    `lists/`: `words.csv` (a row a secret), `*.txt` (training secrets, one a line) and `lost_states.jsonl`
    (states to train on again). difference: of win rates that comparisons are asked about (a share).
    Raises ValueError as `Findings` does, and for an `out` that is something else.
    """
    out = Path(out)
    if out.exists() and not (out / "report.html").is_file():
        raise ValueError(f"{shown_path(out)} is there and no report: name another folder with --out")
    given = [Path(folder) for folder in folders]
    runs, swept = sweep_results.expand(given)
    made = {f"sweep_{number}": sweep(folder) for number, folder in enumerate(swept, 1)}
    runs = [run for run, own in zip(runs, given, strict=True) if own not in swept or games_file(run / STAGE)]
    found = Findings(runs, difference) if runs or not swept else None
    made |= sections(found) if found else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(out) as folder:
        write_text(folder / "report.html", html(title(given), made))
        text = [f"# {title(given)}", *map(markdown, made.values())]
        write_text(folder / "report.md", "\n\n".join(text) + "\n")
        for part in made.values():
            for name, figure in part.figures.items():
                plots.save_png(figure, folder / "figures", name)
        if found:
            _write_lists(folder / "lists", found)
    return out / "report.html"


def _write_lists(folder: Path, found: Findings) -> None:
    folder.mkdir()
    write_text(folder / "words.csv", words_csv(found))
    train = set(found.data.split.train)
    for name, words in lists(found).items():
        own = "".join(f"{word}\n" for word in words if word in train)
        write_text(folder / f"{_file_name(name)}.txt", own)
    write_jsonl(folder / "lost_states.jsonl", lost_states(found))


def lost_states(found: Findings) -> Iterator[Row]:
    """States that the last model passed through in games it lost, as rows of `states.jsonl`
    (`data.state_row`).

    Of training secrets only, each state of a secret once. Under the `train` lexicon those that name a
    held-out word are left out.
    """
    label = found.models[-1] if found.models else next(reversed(found.games))
    allowed = found.data.training_words
    solver = found.solver if allowed is found.data.words else Solver(allowed, found.data.rules)
    train, seen = set(found.data.split.train), set()
    for record in found.records(label):
        if record["won"] or record["secret"] not in train:
            continue
        history = history_of(record)
        for end in range(record["preplayed"], len(history)):
            row = state_row(solver, history[:end], record["secret"], f"lost by {label}")
            named = {turn.guess for turn in history[:end] if turn.rule == "ok"}
            if (row["secret"], row["history"]) not in seen and named <= allowed.dictionary:
                seen.add((row["secret"], row["history"]))
                yield row


def words_csv(found: Findings) -> str:
    """A row a secret: its part of the split, its kind, each player's guesses (0: lost), and its lists."""
    parts, by_list = difficulty.split_name(found.data.split), lists(found)
    members = {name: set(words) for name, words in by_list.items()}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    kind = list(difficulty.Kind._fields)
    table.writerow(["secret", "part", *kind, *found.games, *members])
    for word, own in found_results(found).items():
        known = found.kinds.get(word)
        facts = ["", "", ""] if known is None else [int(known[0]), known[1], f"{known[2]:.4f}"]
        guesses = [" ".join(map(str, own.get(label, ()))) for label in found.games]
        table.writerow(
            [word, parts.get(word, ""), *facts, *guesses, *(int(word in words) for words in members.values())]
        )
    return text.getvalue()


def title(folders: Iterable[Path]) -> str:
    """What a page about these folders is called."""
    return "Wordle: " + ", ".join(folder.resolve().name for folder in folders)


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text)


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0 auto; max-width: 1280px; padding: 1em 1.5em 4em }}
body {{ font: 15px/1.5 {font}; color: {ink}; background: #fff }}
h1 {{ font-size: 1.6em }}
h2 {{ font-size: 1.25em; margin-top: 2.2em; border-bottom: 1px solid #d0d7de }}
nav a {{ margin-right: 1em }}
a {{ color: #0a558c }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-size: .8em; margin: .4em 0 1.2em }}
caption {{ text-align: left; font-weight: 600; padding: .3em 0 }}
th, td {{ padding: .2em .5em; border-bottom: 1px solid #e4e7eb; text-align: left }}
th {{ vertical-align: bottom; border-bottom: 2px solid #8c959f }}
td {{ font-variant-numeric: tabular-nums; white-space: nowrap }}
td:last-child {{ white-space: normal }}
figure {{ margin: 1em 0; max-width: 800px }}
figure svg {{ max-width: 100%; height: auto }}
figcaption {{ font-style: italic; color: #57606a }}
@media print {{ nav {{ display: none }} figure, table {{ break-inside: avoid }} }}
</style></head>
<body><h1>{title}</h1>
<nav>{contents}</nav>
{body}
<script>{library}</script>
<script>
const figures = {figures};
if (window.Plotly) {{
  for (const [name, figure] of Object.entries(figures)) {{
    const place = document.getElementById(name);
    place.replaceChildren();
    Plotly.newPlot(place, {{...figure, config: {{responsive: true, displayModeBar: false}}}});
  }}
}}
</script></body></html>
"""


def html(heading: str, made: Mapping[str, Section]) -> str:
    """The sections as one HTML page with the plotting library inside; static pictures without scripts."""
    from plotly.offline import get_plotlyjs

    figures = {
        f"figure-{_file_name(name)}": figure
        for part in made.values()
        for name, figure in part.figures.items()
    }
    links = [f'<a href="#{name}">{escape(part.title)}</a>' for name, part in made.items()]
    drawn = ",\n".join(f"{json.dumps(name)}: {figure.to_json()}" for name, figure in figures.items())
    return PAGE.format(
        title=escape(heading),
        font=svg.FONT,
        ink=svg.INK,
        contents=" ".join(links),
        body="\n".join(_section_html(name, part) for name, part in made.items()),
        library=get_plotlyjs(),
        # `<` is escaped so that no text of a figure can end the script
        figures="{" + drawn.replace("<", "\\u003c") + "}",
    )


def _section_html(name: str, section: Section) -> str:
    blocks = [f'<section id="{name}"><h2>{escape(section.title)}</h2>', _text_html(section.text)]
    for caption, rows in section.tables.items():
        head = "".join(f"<th>{escape(title)}</th>" for title in rows[0])
        lines = ["".join(f"<td>{escape(text)}</td>" for text in row.values()) for row in rows]
        body = "\n".join(f"<tr>{line}</tr>" for line in lines)
        blocks.append(
            f'<div class="wide"><table><caption>{escape(caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
        )
    for figure_name, figure in section.figures.items():
        blocks.append(
            f'<figure><div id="figure-{_file_name(figure_name)}">{svg.figure_svg(figure)}</div>\n'
            f"<figcaption>How to read it: {escape(plots.caption(figure))}</figcaption></figure>"
        )
    return "\n".join([*blocks, "</section>"])


def _text_html(text: str) -> str:
    """The little Markdown of a text: paragraphs, lists, `*stress*` and `code`; the rest is escaped."""
    blocks = []
    for block in text.split("\n\n"):
        lines = [_inline_html(line) for line in block.splitlines()]
        if all(line.startswith("- ") for line in lines):
            blocks.append("<ul>" + "".join(f"<li>{line[2:]}</li>" for line in lines) + "</ul>")
        else:
            blocks.append(f"<p>{' '.join(lines)}</p>")
    return "\n".join(blocks)


def _inline_html(text: str) -> str:
    text = escape(text)
    for mark, tag in (("*", "em"), ("`", "code")):
        parts = text.split(mark)
        inside = (f"<{tag}>{part}</{tag}>" if k % 2 else part for k, part in enumerate(parts))
        text = "".join(inside) if len(parts) % 2 else text
    return text
