"""Widgets and pages: what shows the pieces of `boards` in a notebook, or without one.

Widgets need a person in front of a notebook. `has_front_end` is true in kernels that JupyterLab,
Jupyter Notebook, VS Code or Colab started; elsewhere (papermill, nbconvert, nbval, plain Python)
static tables stand in their place. Nothing ever waits for input.
"""

import base64
import functools
import gzip
import json
import os
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

WEB = Path(__file__).with_name("web")


def has_front_end() -> bool:
    """Whether a person's notebook (Jupyter server, VS Code, Colab) started this kernel.

    Kernels started by papermill, nbconvert or nbval run the same code without one.
    """
    started_by_notebook = {"JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"} & set(os.environ)
    return "IPython" in sys.modules and (bool(started_by_notebook) or "google.colab" in sys.modules)


def web(name: str) -> str:
    """The text of `boards.js` or `boards.css`."""
    return (WEB / name).read_text(encoding="utf-8")


def show(html: str) -> Any:
    """HTML made by `boards`, with its style, as the output of a notebook cell."""
    from IPython.display import HTML

    return HTML(f'<style>{web("boards.css")}</style><div class="wb">{html}</div>')


@functools.cache
def _widget_class() -> type:
    import anywidget
    import traitlets

    class Board(anywidget.AnyWidget):
        _esm, _css = web("boards.js"), web("boards.css")
        kind = traitlets.Unicode().tag(sync=True)
        data = traitlets.Dict().tag(sync=True)

    return Board


def widget(kind: str, data: dict[str, Any], answer: Callable[[Any, dict[str, Any]], None]) -> Any:
    """A view of `boards.js` in a notebook.

    kind: `replay`, `duel` or `watch`. data: what it shows at first, JSON. `answer(widget, message)` is
    called with what the view asks for; it sets `widget.data` or sends a message back. A failure is shown
    where the view has room for it, and not lost in the kernel's log.
    """
    board = _widget_class()(kind=kind, data=data)

    def on_message(_: Any, message: dict[str, Any], buffers: Any) -> None:
        try:
            answer(board, message)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            board.send({"error": said})
            raise

    board.on_msg(on_message)
    return board


def packed(value: Any) -> str:
    """A value as gzipped JSON in base64: one line of letters that no markup can break out of."""
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(text, mtime=0)).decode()


def page(title: str, lines: list[str]) -> str:
    """A page that needs no kernel, no network and no other file; `lines` are `packed` parts of its data."""
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<style>\n{web('boards.css')}</style></head><body>",
            '<script type="text/plain" id="wordle-games">',
            *lines,
            "</script>",
            f'<script type="module">\n{web("boards.js")}</script>',
            "</body></html>\n",
        ]
    )
