"""Boards in a real browser: JupyterLab with a kernel, and the static page from disk without a network.

Debian's Chromium is driven by Playwright (`pip install -e '.[browser]'`); no browser is downloaded. Without
either, every test here is skipped and says why. Screenshots go to `.screenshots/`, or to the folder that
BOARD_SCREENSHOTS names.
"""

import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from conftest import ROOT

from wordlelib import data, replay

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
SCREENSHOTS = Path(os.environ.get("BOARD_SCREENSHOTS", ROOT / ".screenshots"))
REFERENCE = ROOT / "results" / "reference" / "cpu-demo"
HOSTILE = (
    "<script>document.title='run by a model'</script><img src=x onerror=\"document.title='run by a model'\">"
    "</pre></div><b <i \u202eright to left\u200f \x00 " + "A" * 50_000
)
SECOND = 1000  # milliseconds, as Playwright counts

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt install chromium)"),
]


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[browser]'")
    with api.sync_playwright() as driver:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to sandbox for root
        running = driver.chromium.launch(executable_path=CHROMIUM, args=root)
        yield running
        running.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The demo's run, in which SFT wrote something nasty in the first game."""
    folder = tmp_path_factory.mktemp("browser") / "demo"
    for stage in ("01_data_synthesis", "03_grpo", "04_eval"):
        shutil.copytree(REFERENCE / stage, folder / stage)
    packed = folder / "04_eval" / "games.jsonl.gz"
    games = [json.loads(line) for line in gzip.decompress(packed.read_bytes()).splitlines()]
    next(game for game in games if game["player"] == "sft")["turns"][0]["text"] = HOSTILE
    (folder / "04_eval" / "games.jsonl").write_text("".join(json.dumps(game) + "\n" for game in games))
    packed.unlink()
    return folder


@pytest.fixture
def opened(browser):
    """Opens pages whose console must stay free of errors and which may reach nothing but this machine."""
    contexts, said = [], []

    def open_page(address: str, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 1000}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))

        def local_only(route):
            url = route.request.url
            if url.startswith(("http://127.0.0.1", "http://localhost", "file:", "data:", "blob:")):
                return route.continue_()
            said.append(f"asked for {url}")
            return route.abort()

        context.route("**/*", local_only)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def picture(page, name: str) -> None:
    """Keep a picture of a page, or of a view in one, as what the test saw."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    if not hasattr(page, "goto"):  # all of a view is seen only where the window is tall enough
        page.page.set_viewport_size({"width": 1280, "height": 2400})
        page.scroll_into_view_if_needed()
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


# The static page ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def static(run) -> str:
    return replay.write_page(run).as_uri()


def cards(view) -> list[str]:
    return view.locator(".card").all_inner_texts()


def tiles(view, card: int = 0) -> str:
    """Letters and marks of the first row of a card."""
    return "".join(view.locator(".card").nth(card).locator(".row").first.inner_text().split())


def choose(view, name: str, value: str) -> None:
    view.get_by_label(name, exact=True).select_option(label=value)


def test_the_static_page_steps_through_games_by_mouse(opened, static):
    page = opened(static, offline=True)
    page.wait_for_selector(".card")
    assert len(cards(page)) == 6 and "greedy" in " ".join(cards(page))
    choose(page, "secret", "ANNUL")
    page.wait_for_selector(".card >> text=ANNUL")
    page.set_viewport_size({"width": 1930, "height": 780})
    picture(page, "replay")
    page.set_viewport_size({"width": 1280, "height": 1000})

    choose(page, "player", "grpo")
    choose(page, "games", "lost")
    page.wait_for_function("document.querySelectorAll('.card').length == 1")
    page.get_by_text("lost after 6").wait_for()
    choose(page, "games", "changed from sft to grpo")
    assert page.locator(".bar [role=status]").inner_text() == "17 games"  # 15 gained and 2 lost
    choose(page, "games", "most regret")
    page.wait_for_selector(".card >> text=regret")
    first = cards(page)[0]
    page.get_by_role("button", name="game ▶").click()
    page.wait_for_function("text => document.querySelector('.card').innerText != text", arg=first)


def test_the_static_page_works_by_keyboard_alone(opened, static):
    page = opened(static, offline=True)
    page.wait_for_selector(".card")
    secret = page.get_by_label("secret").input_value()
    page.keyboard.press("Home")
    assert page.locator("output").inner_text() == "0" and "✓" not in tiles(page, 5)
    page.keyboard.press("ArrowRight")
    assert page.locator("output").inner_text() == "1" and "Turn 1" in cards(page)[5]
    page.keyboard.press("ArrowDown")
    assert page.get_by_label("secret").input_value() != secret
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('output').innerText == '3'", timeout=5 * SECOND)
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    focused = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert page.evaluate("document.activeElement.tagName") == "SELECT" and focused == "solid"


def test_what_a_model_wrote_is_text_and_runs_nothing(opened, static):
    page = opened(static, offline=True)
    page.wait_for_selector(".card")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    shown = page.locator(".card pre", has_text="<script>").inner_text()
    assert "onerror" in shown and "\\u202e" in shown and "\\u0000" in shown and "more characters" in shown
    assert page.title() == "Games of demo"
    assert page.locator(".card img").count() == page.locator(".card script").count() == 0
    assert page.locator(".card").count() == 6
    picture(page, "hostile")


def contrast(page, selector: str) -> float:
    """The ratio of luminances of an element's ink and the ground behind it (WCAG 2)."""
    return page.locator(selector).first.evaluate("""element => {
        const rgb = text => text.match(/[\\d.]+/g).map(Number);
        let ground = element;
        while (rgb(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
        const light = text => {
            const [r, g, b] = rgb(text).map(v => v / 255)
                .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b;
        };
        const [a, b] = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor]
            .map(light).sort((x, y) => y - x);
        return (a + .05) / (b + .05);
    }""")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_readable_in_both_themes_and_at_twice_the_size(opened, static, theme):
    page = opened(static, offline=True, color_scheme=theme)
    page.wait_for_selector(".card")
    for selector in (
        ".card",
        ".card .faint, .note, .bar + .faint",
        ".row b.G",
        ".row b.Y",
        ".row b.B",
        "button",
    ):
        assert contrast(page, selector) >= 4.5, selector
    page.set_viewport_size({"width": 640, "height": 500})  # what 200% leaves of 1280 by 1000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, f"page-{theme}-200")


# JupyterLab --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(browser, tmp_path_factory) -> Path:
    """A nano model that SFT has trained for some seconds on a game of 64 words, in its run."""
    run = tmp_path_factory.mktemp("trained") / "run"
    for stage, more in (("01_data_synthesis", []), ("02_sft", ["-p", "max_steps", "60"])):
        target = run / stage / f"{stage}.ipynb"
        target.parent.mkdir(parents=True)
        notebook = ROOT / "notebooks" / target.name
        command = [sys.executable, "-m", "papermill", notebook, target, "-p", "run", str(run), *more]
        subprocess.run(command, check=True, capture_output=True)
    return run


@pytest.fixture(scope="module")
def lab(run, trained, browser, tmp_path_factory):
    """The address of a JupyterLab whose folder holds the two notebooks, the replay set to `run`, and the duel
    against the trained model."""
    folder = tmp_path_factory.mktemp("lab")
    model = f'model: str = \\"{trained}/02_sft/model\\"'
    for name, notebook, changes in (
        ("00_play_and_solve", "00_play_and_solve", {}),
        ("against_a_model", "00_play_and_solve", {'model: str = \\"\\"': model, '= \\"those\\"': '= \\"\\"'}),
        ("06_replay", "06_replay", {"results/reference/cpu-demo": str(run)}),
    ):
        source = (ROOT / "notebooks" / f"{notebook}.ipynb").read_text()
        for old, new in changes.items():
            assert source.count(old) == 1
            source = source.replace(old, new)
        (folder / f"{name}.ipynb").write_text(source)
    settings = tmp_path_factory.mktemp("settings")
    (settings / "labconfig").mkdir()
    off = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}  # asks for news
    (settings / "labconfig" / "page_config.json").write_text(json.dumps(off))
    # all cells stay in the page, so that a test finds them without scrolling
    notebook = settings / "user" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    notebook.parent.mkdir(parents=True)
    notebook.write_text(json.dumps({"windowingMode": "none"}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"JUPYTER_CONFIG_DIR": str(settings), "JUPYTERLAB_SETTINGS_DIR": str(settings / "user")}
    own |= {
        "JUPYTERLAB_WORKSPACES_DIR": str(settings / "workspaces"),
        "IPYTHONDIR": str(settings / "ipython"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.token=boards", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"]
    with open(settings / "lab.log", "w") as log:
        server = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token=boards", server, settings / "lab.log")
        yield f"http://127.0.0.1:{port}/lab/tree/{{}}.ipynb?token=boards&reset"
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(address: str, server, log: Path) -> None:
    for _ in range(240):
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            return urlopen(address).close()
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"JupyterLab did not start: {log.read_text()[-2000:]}")


def run_all(page, view: str):
    """Run all cells of the open notebook, and return the view once it is there."""
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120 * SECOND)
    page.wait_for_selector("#jp-main-statusbar >> text=| Idle", timeout=120 * SECOND)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    found = page.locator(f".wb.{view}")
    found.wait_for(timeout=120 * SECOND)
    page.wait_for_function(
        "![...document.querySelectorAll('.jp-InputPrompt')].some(p => p.innerText.includes('*'))",
        timeout=120 * SECOND,
    )
    assert page.locator(".jp-OutputArea-output[data-mime-type*=error]").count() == 0
    found.scroll_into_view_if_needed()
    return found


def test_the_replay_notebook_is_clicked_through(opened, lab):
    page = opened(lab.format("06_replay"))
    view = run_all(page, "replay")
    view.locator(".card").first.wait_for()
    assert len(cards(view)) == 6
    choose(view, "player", "grpo")
    choose(view, "games", "lost")
    view.get_by_text("lost after 6").wait_for()
    assert len(cards(view)) == 1
    view.get_by_role("button", name="game ▶").click()
    secret = view.get_by_label("secret").locator("option:checked").inner_text()
    view.locator(".card", has_text=secret).wait_for()
    view.focus()
    page.keyboard.press("Home")
    assert "Turn" not in cards(view)[0]
    for turn in "123":
        page.keyboard.press("ArrowRight")
        assert f"Turn {turn}" in cards(view)[0] and "candidates" in cards(view)[0]
    choose(view, "games", "most regret")
    page.wait_for_selector(".replay [role=status]:text('256 games')")
    choose(view, "games", "all games")
    choose(view, "player", "all side by side")
    page.keyboard.press("Escape")
    picture(view, "replay-lab")
    assert page.locator(".wb.watch svg").count() > 2
    picture(page.locator(".wb.watch"), "watch")
    run_field = view.get_by_label("run", exact=True)
    run_field.select_option("results/reference/h200-qwen2.5-0.5b-fifth")
    page.wait_for_function(
        "document.querySelectorAll('.replay select')[3].options.length == 2315", timeout=60 * SECOND
    )


def test_a_person_plays_in_the_play_notebook(opened, lab):
    page = opened(lab.format("00_play_and_solve"))
    view = run_all(page, "duel")
    entry, status = view.get_by_label("your guess"), view.get_by_role("status")
    entry.fill("zzzzz")
    entry.press("Enter")
    page.wait_for_selector(".duel [role=status]:text('not in the list')")
    assert entry.input_value() == "zzzzz" and entry.get_attribute("aria-invalid") == "true"
    assert "✓" not in cards(view)[0]
    view.get_by_role("button", name="Hint").click()
    page.wait_for_selector(".duel >> text=2,315 words fit")
    entry.fill("crane")
    entry.press("Enter")
    page.wait_for_function("document.querySelector('.duel .row').innerText.includes('C')")
    assert entry.input_value() == "" and "SOARE" not in cards(view)[1]
    assert "embedded student" in cards(view)[2] and "SLATE" not in cards(view)[2]
    assert view.get_by_label("hard mode").is_disabled()
    picture(view, "duel")
    entry.fill("those")
    entry.press("Enter")
    page.wait_for_selector(".duel [role=status]:text('Won in 2.')")
    assert "S\n" in cards(view)[1] and entry.is_disabled() and status.inner_text() == "Won in 2."
    assert "<guess>slate</guess>" in cards(view)[2] and "failed" not in cards(view)[2]
    picture(view, "duel-over")


def test_a_person_plays_against_a_trained_model(opened, lab, trained):
    """On the words of its run; its letters are hidden to the end, then what it wrote is shown."""
    page = opened(lab.format("against_a_model"))
    view = run_all(page, "duel")
    entry = view.get_by_label("your guess")
    assert len(cards(view)) == 3 and "02_sft/model" in cards(view)[2]
    for number, word in enumerate(data.load(trained / "01_data_synthesis").words.answers[:6], 1):
        entry.fill(word)
        entry.press("Enter")
        rows = "document.querySelector('.duel .card').querySelectorAll('.row b.G, .row b.Y, .row b.B').length"
        page.wait_for_function(f"{rows} == {5 * number}")
        if entry.is_disabled():
            break
        hidden = view.locator(".card").nth(2)
        assert hidden.locator("pre").count() == 0 and not re.search(
            r"[A-Z]", hidden.inner_text().split("model")[1]
        )
    told = view.locator(".card").nth(2)
    written = told.locator("pre").all_inner_texts()
    assert re.search("won in|lost after", told.inner_text()) and "failed" not in told.inner_text()
    assert 0 < len(written) <= 6 and "<guess>" in written[0]  # it has learned how to answer
    picture(view, "duel-model")


def dark(page) -> None:
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Theme$")).hover()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^JupyterLab Dark$")).click()
    page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")


def test_replay_and_watcher_are_readable_in_the_dark_theme_and_at_twice_the_size(opened, lab):
    """In the window that 200% leaves of 1280 by 1000, no view is cut off or needs scrolling sideways."""
    page = opened(lab.format("06_replay"), device_scale_factor=2)
    view = run_all(page, "replay")
    view.locator(".card").first.wait_for()
    dark(page)
    replayed = (
        ".card",
        ".card .note",
        ".bar + .faint",
        ".row b.G",
        ".row b.Y",
        ".row b.B",
        "button",
        "select",
    )
    for selector in (*(f".replay {name}" for name in replayed), ".watch .card", ".watch .note"):
        assert contrast(page, selector) >= 4.5, selector
    page.keyboard.press("Control+B")  # the file browser, which takes a third of so small a window
    page.set_viewport_size({"width": 640, "height": 500})
    for name in ("replay", "watch"):
        shown = page.locator(f".wb.{name}")
        shown.scroll_into_view_if_needed()
        assert shown.evaluate(
            "e => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= innerWidth"
        )
    view.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert "Turn 1" in cards(view)[5]
    page.screenshot(path=SCREENSHOTS / "replay-lab-dark-200.png")


def test_the_duel_is_readable_in_the_dark_theme_and_at_twice_the_size(opened, lab):
    page = opened(lab.format("00_play_and_solve"), device_scale_factor=2)
    view = run_all(page, "duel")
    dark(page)
    view.get_by_label("your guess").fill("crane")
    view.get_by_label("your guess").press("Enter")
    page.wait_for_function("document.querySelector('.duel .row').innerText.includes('C')")
    for selector in (".duel .card", ".duel .row b.B", ".duel button", ".duel input", ".duel summary"):
        assert contrast(page, selector) >= 4.5, selector
    picture(view, "duel-dark")
    page.keyboard.press("Control+B")
    page.set_viewport_size({"width": 640, "height": 500})
    assert view.evaluate(
        "e => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= innerWidth"
    )
    entry = view.get_by_label("your guess")
    entry.scroll_into_view_if_needed()
    entry.fill("those")
    entry.press("Enter")
    page.wait_for_selector(".duel [role=status]:text('Won in 2.')")
    page.screenshot(path=SCREENSHOTS / "duel-dark-200.png")
