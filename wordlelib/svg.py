"""Static pictures of the workbook's figures: lines and bars of a plotly figure drawn as SVG.

An interactive figure needs a script of about five megabytes. A saved notebook, a converted page or
a code host shows these pictures of a few kilobytes instead, without any script or network.
"""

import math
import textwrap
from collections.abc import Callable, Iterable
from html import escape
from typing import Any, NamedTuple

WIDTH, RIGHT, TOP, BOTTOM = 760, 24, 52, 56
FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
INK, FAINT, GRID, PAPER = "#24292f", "#57606a", "#e4e7eb", "#ffffff"
LETTER = 6.6  # mean width in pixels of a letter at 12 px, for the room that labels need
DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "12 4"}


class Axis(NamedTuple):
    """Where a value lies in pixels, the ticks (pixel, label), and the pixels one category has."""

    place: Callable[[Any], float]
    ticks: list[tuple[float, str]]
    step: float


def element(tag: str, content: str = "", **attributes: Any) -> str:
    """One SVG element; `_` in attribute names becomes `-`, numbers are cut to a tenth of a pixel."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value not in (None, "")
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def label(x: float, y: float, text: str, size: float = 12, fill: str = INK, **attributes: Any) -> str:
    """A line of text, escaped."""
    return element("text", escape(text), x=x, y=y, font_size=size, fill=fill, **attributes)


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """A whole SVG with its own light background, so that it reads the same on a dark page."""
    body = "\n".join(
        [
            element("title", escape(title)),
            element("rect", width=width, height=height, rx=8, fill=PAPER),
            *parts,
        ]
    )
    size = {"viewBox": f"0 0 {_value(width)} {_value(height)}", "width": width, "height": height}
    root = {"xmlns": "http://www.w3.org/2000/svg", **size, "font_family": FONT, "role": "img"}
    return element("svg", f"\n{body}\n", **root) + "\n"


def figure_svg(fig: Any) -> str:
    """Draw a figure of `wordlelib.plots` (traces `scatter` and `bar`, numeric axes with a range).

    Raises ValueError for a trace of another type.
    """
    drawing = fig.to_plotly_json()
    traces, layout = drawing["data"], drawing["layout"]
    if other := {trace["type"] for trace in traces} - {"scatter", "bar"}:
        raise ValueError(f"cannot draw a {other.pop()} trace as SVG; use lines or bars")
    height = layout["height"]
    named = [trace for trace in traces if trace.get("name") and trace.get("showlegend", True)]
    legend = named if layout.get("showlegend") else []
    right = WIDTH - RIGHT - (max(len(t["name"]) for t in legend) * LETTER + 40 if legend else 0)
    y_labels = _labels(traces, layout["yaxis"], "y")
    left = 44 + max((len(text) for text in y_labels), default=1) * LETTER
    x_axis = _axis(traces, layout["xaxis"], "x", left, right)
    y_axis = _axis(traces, layout["yaxis"], "y", height - BOTTOM, TOP)
    parts = [label(16, 28, layout["title"]["text"], 16, font_weight=600)]
    parts += _frame(x_axis, y_axis, layout, left, right, height)
    parts += _bars([t for t in traces if t["type"] == "bar"], layout, x_axis, y_axis)
    for trace in traces:
        if trace["type"] == "scatter":
            parts += _line(trace, x_axis, y_axis)
    parts += _references(layout.get("shapes", ()), x_axis, y_axis, left, right, height)
    for number, trace in enumerate(legend):
        parts += _legend_entry(trace, right + 16, TOP + 8 + 20 * number)
    for note in layout.get("annotations", ()):
        middle = {"x": (left + right) / 2, "y": (TOP + height - BOTTOM) / 2}
        parts.append(label(**middle, text=note["text"], fill=FAINT, text_anchor="middle"))
    return document(WIDTH, height, layout["title"]["text"], parts)


def nice_ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, a step of 1, 2 or 5 times a power of ten apart."""
    raw = (high - low) / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(step * k, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _value(value: Any) -> str:
    return f"{round(value, 1):g}" if isinstance(value, int | float) else escape(str(value))


def _is_category(axis: dict) -> bool:
    return axis.get("type") == "category"


def _values(traces: list[dict], side: str) -> list:
    return [value for trace in traces for value in trace[side]]


def _labels(traces: list[dict], axis: dict, side: str) -> list[str]:
    if _is_category(axis):
        return list(dict.fromkeys(map(str, _values(traces, side))))
    return [_number(tick, axis) for tick in nice_ticks(*axis["range"])]


def _number(value: float, axis: dict) -> str:
    return f"{value:.0%}" if axis.get("tickformat") == ".0%" else f"{value:,.6g}"


def _axis(traces: list[dict], axis: dict, side: str, start: float, end: float) -> Axis:
    if _is_category(axis):
        names = _labels(traces, axis, side)
        if axis.get("autorange") == "reversed":
            names = names[::-1]
        step = (end - start) / max(len(names), 1)
        places = {name: start + step * (number + 0.5) for number, name in enumerate(names)}
        return Axis(lambda value: places[str(value)], [(p, n) for n, p in places.items()], abs(step))
    low, high = axis["range"]

    def place(value: float) -> float:
        return start + (value - low) / (high - low) * (end - start)

    return Axis(place, [(place(tick), _number(tick, axis)) for tick in nice_ticks(low, high)], 0.0)


def _frame(x_axis: Axis, y_axis: Axis, layout: dict, left: float, right: float, height: float) -> list[str]:
    bottom = height - BOTTOM
    parts = []
    for y, text in y_axis.ticks:
        if not y_axis.step:
            parts.append(element("path", d=_path([(left, y), (right, y)]), stroke=GRID))
        parts.append(label(left - 8, y + 4, text, fill=FAINT, text_anchor="end"))
    for x, text in x_axis.ticks:
        if not x_axis.step:
            parts.append(element("path", d=_path([(x, TOP), (x, bottom)]), stroke=GRID))
        # names that are wider than their place go on below
        width = int(x_axis.step / LETTER) or len(text)
        for row, words in enumerate(textwrap.wrap(text, max(width, 1), break_long_words=False)):
            parts.append(label(x, bottom + 18 + 14 * row, words, fill=FAINT, text_anchor="middle"))
    parts.append(
        element("path", d=_path([(left, TOP), (left, bottom), (right, bottom)]), stroke=FAINT, fill="none")
    )
    parts.append(label((left + right) / 2, height - 14, _title(layout["xaxis"]), text_anchor="middle"))
    turned = f"rotate(-90 20 {_value((TOP + bottom) / 2)})"
    middle = (TOP + bottom) / 2
    parts.append(label(20, middle, _title(layout["yaxis"]), text_anchor="middle", transform=turned))
    return parts


def _title(axis: dict) -> str:
    return axis.get("title", {}).get("text", "")


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_value(x)} {_value(y)}" for x, y in points)


def _line(trace: dict, x_axis: Axis, y_axis: Axis) -> list[str]:
    points = [(x_axis.place(x), y_axis.place(y)) for x, y in zip(trace["x"], trace["y"], strict=True)]
    line, parts = trace["line"], []
    if "lines" in trace["mode"] and len(points) > 1:
        parts.append(
            element(
                "path",
                d=_path(points),
                fill="none",
                stroke=line["color"],
                stroke_width=line.get("width", 2),
                stroke_dasharray=DASHES[line.get("dash", "solid")],
                stroke_linejoin="round",
                opacity=trace.get("opacity"),
            )
        )
    if "markers" in trace["mode"]:
        # One path of dots of no length with round ends: a tenth of the size of one circle each.
        dots = "".join(f"M{_value(x)} {_value(y)}h0" for x, y in points)
        dot = {
            "stroke": line["color"],
            "stroke_width": trace["marker"]["size"],
            "opacity": trace.get("opacity"),
        }
        parts.append(element("path", d=dots, stroke_linecap="round", **dot))
    return parts


def _bars(traces: list[dict], layout: dict, x_axis: Axis, y_axis: Axis) -> list[str]:
    """Bars side by side, or end to end when `barmode` is `stack`."""
    stacked = layout.get("barmode") == "stack"
    ends: dict[str, float] = {}
    parts = []
    for number, trace in enumerate(traces):
        flat = trace.get("orientation") == "h"
        along, across = (x_axis, y_axis) if flat else (y_axis, x_axis)
        names, values = (trace["y"], trace["x"]) if flat else (trace["x"], trace["y"])
        thick = across.step * (1 - layout["bargap"]) / (1 if stacked else len(traces))
        shift = -thick / 2 if stacked else thick * (number - len(traces) / 2)
        error = trace.get("error_x" if flat else "error_y")
        colours = trace["marker"]["color"]
        for k, (name, value) in enumerate(zip(names, values, strict=True)):
            base = ends.get(name, 0.0) if stacked else 0.0
            ends[name] = base + value
            side = across.place(name) + shift
            start, end = along.place(base), along.place(base + value)
            box = _box(flat, min(start, end), side, abs(end - start), thick)
            parts.append(element("rect", **box, fill=colours if isinstance(colours, str) else colours[k]))
            tip = along.place(value)
            if error:
                low, high = (
                    along.place(value - error["arrayminus"][k]),
                    along.place(value + error["array"][k]),
                )
                parts.append(_whisker(flat, low, high, side + thick / 2))
                tip = high
            if trace.get("text"):
                x, y = (tip + 6, side + thick / 2 + 4) if flat else (side + thick / 2, tip - 6)
                anchor = None if flat else "middle"
                parts.append(label(x, y, trace["text"][k], 11, FAINT, text_anchor=anchor))
    return parts


def _box(flat: bool, start: float, side: float, length: float, thick: float) -> dict[str, float]:
    if flat:
        return {"x": start, "y": side, "width": length, "height": thick}
    return {"x": side, "y": start, "width": thick, "height": length}


def _whisker(flat: bool, low: float, high: float, middle: float) -> str:
    ends = [(low, high, 0), (low, low, 4), (high, high, 4)]
    lines = [((a, middle - half), (b, middle + half)) for a, b, half in ends]
    d = "".join(_path(line if flat else [(y, x) for x, y in line]) for line in lines)
    return element("path", d=d, stroke=INK, stroke_width=1.5)


def _references(
    shapes: Iterable[dict], x_axis: Axis, y_axis: Axis, left: float, right: float, height: float
) -> list[str]:
    """Reference lines across the whole plot, each with its label at the far end."""
    parts = []
    for shape in shapes:
        line = {"stroke": shape["line"]["color"], "stroke_dasharray": DASHES[shape["line"]["dash"]]}
        text, *rows = shape["label"]["text"].split("<br>")
        if shape["yref"] == "y":
            y = y_axis.place(shape["y0"])
            parts.append(element("path", d=_path([(left, y), (right, y)]), **line))
            at_left = shape["label"]["textposition"] == "start"
            x, y, anchor = (left + 4, y - 5, None) if at_left else (right - 4, y + 13, "end")
            parts.append(label(x, y, text, 11, FAINT, text_anchor=anchor))
        else:
            x = x_axis.place(shape["x0"])
            parts.append(element("path", d=_path([(x, TOP), (x, height - BOTTOM)]), **line))
            parts.append(label(x, TOP - 5 - 13 * len(rows), text, 11, FAINT, text_anchor="middle"))
    return parts


def _legend_entry(trace: dict, x: float, y: float) -> list[str]:
    if trace["type"] == "bar":
        swatch = element("rect", x=x, y=y - 6, width=14, height=12, fill=trace["marker"]["color"])
    elif trace["mode"] == "markers":
        swatch = element(
            "circle", cx=x + 10, cy=y, r=trace["marker"]["size"] / 2, fill=trace["line"]["color"]
        )
    else:
        line = trace["line"]
        dash = DASHES[line.get("dash", "solid")]
        swatch = element(
            "path",
            d=_path([(x, y), (x + 20, y)]),
            stroke=line["color"],
            stroke_width=2,
            stroke_dasharray=dash,
        )
    return [swatch, label(x + 26, y + 4, trace["name"])]
