"""Shared by all tests: lists, recorded games, small notebooks, a server that says what a test wants, and
property tests that know no clock."""

import builtins
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st

from wordlelib import params, recipes, runs, sweep_results
from wordlelib.evaluate import play_games
from wordlelib.game import Turn, score
from wordlelib.players import solver_player
from wordlelib.prompts import completion
from wordlelib.rules import Rules, rules_for
from wordlelib.solver import Solver
from wordlelib.words import Words, load_words, sample_words

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent
# Kernels and subprocesses of the tests import the code under test, from whatever working directory.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
# Their models are tiny: one thread is quickest, and test processes do not wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def shipped() -> Words:
    """The shipped 2,315 answers and 12,972 allowed guesses."""
    return load_words()


@pytest.fixture(scope="session")
def small_words(shipped: Words) -> Words:
    """A game of 64 words."""
    return sample_words(shipped, 64, 0)


@pytest.fixture(scope="session")
def small_rules(small_words: Words) -> Rules:
    return rules_for(small_words)


@pytest.fixture(scope="session")
def small_solver(small_words: Words, small_rules: Rules) -> Solver:
    return Solver(small_words, small_rules)


@pytest.fixture(scope="session")
def small_games(small_words: Words, small_rules: Rules, small_solver: Solver) -> list[dict]:
    """Greedy wins; `loser` never gives a guess; `nonwords` plays one non-word, then greedily."""
    greedy = solver_player(small_solver, "greedy")

    def nonwords(histories, seeds):
        texts = greedy(histories, seeds)
        return [completion(["zzzzz"], "zzzzz") if not h else t for h, t in zip(histories, texts, strict=True)]

    players = {"loser": lambda h, s: ["hm"] * len(h), "nonwords": nonwords, "greedy": greedy}
    return [
        record
        for name, player in players.items()
        for record in play_games(player, small_words.answers[:4], small_words, small_rules, name=name)
    ]


@pytest.fixture
def headless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel nobody looks at, in which asking for input fails at once."""
    for name in ("JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(builtins, "input", lambda *args: pytest.fail("waited for input"))


@pytest.fixture
def front_end(monkeypatch: pytest.MonkeyPatch, headless: None) -> None:
    """A kernel that a Jupyter server started."""
    import IPython  # noqa: F401  (a kernel has it loaded)

    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/06_replay.ipynb")


def example(stage: str, **changes: object) -> dict[str, object]:
    """Values for every parameter of a stage that `params.resolve` accepts; 05 reads no stage of its run."""
    by_kind = {bool: False, int: 0, float: 0.0, str: "", list: []}
    values = {}
    for name, param in params.PARAMETERS[stage].items():
        first = param.choices[0] if param.choices and param.kind is str else by_kind[param.kind]
        values[name] = first if param.low is None else param.kind(max(first, param.low))
    fitting = {"run": "results/x", "max_steps": 2, "batch_size": 4, "model": "nano", "runs": ["results/y"]}
    return values | {name: value for name, value in fitting.items() if name in values} | changes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout, with a `notebooks` folder, in place of the real one; its name needs care in shells
    and in JSON."""
    root = tmp_path / "meine Wörter"
    (root / "notebooks" / "recipes").mkdir(parents=True)
    monkeypatch.setattr(runs, "project_root", lambda: root)
    return root


@pytest.fixture
def write_notebook() -> Callable[..., Path]:
    """Write a notebook of code cells; the first one is tagged `parameters`."""

    def write(path: Path, *sources: str) -> Path:
        import nbformat
        from nbformat import v4

        cells = [v4.new_code_cell(source) for source in sources]
        cells[0].metadata["tags"] = ["parameters"]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
        return path

    return write


def took_a_card_each(trials: Iterable[Path], cards: Iterable[str]) -> None:
    """Assert that stages of several trials ran at the same time, and each saw another one of the cards."""
    records = [runs.read_json(stage / "environment.json") for stage in trials]
    for record in records:
        print(*(f"{name} {record[name]}" for name in ("gpu_visible", "started", "ended")))
    assert sorted(record["gpu_visible"] for record in records) == sorted(cards)
    assert max(record["started"] for record in records) < min(record["ended"] for record in records)


def wait_for(what: Callable[[], object], seconds: float = 150) -> object:
    """What `what` gives as soon as it gives something; AssertionError when it does not in time."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def alive(pid: int) -> bool:
    """Whether a process runs, by /proc; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def write_sweep_table(folder: Path, rows: list[dict]) -> Path:
    """Write the table of a sweep into its folder, and return that."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [",".join(rows[0])] + [",".join(map(str, row.values())) for row in rows]
    (folder / sweep_results.TABLE).write_text("\n".join(lines) + "\n")
    return folder


INPUTS = {stage: params.INPUTS.get(stage, ()) for stage in ("01_data_synthesis", "02_sft", "03_grpo")}
GRID = "recipe: tiny\ngrid:\n  03_grpo.beta: [0.0, 0.5]\n  03_grpo.temperature: [1.0, 2.0]\n"
WORK = """
import os, pathlib, time
(stage.dir / "kernel.txt").write_text(str(os.getpid()))
time.sleep(60 * stage.config.max_minutes)
"""


def write_tiny_recipe(root: Path, write_notebook: Callable[..., Path]) -> Path:
    """Put the recipe `tiny` of three stages, which open, read and finish their folders, into a checkout."""
    folder = root / "notebooks" / "recipes" / "tiny"
    folder.mkdir()
    for stage, inputs in INPUTS.items():
        values = example(stage, overwrite=True, **({"beta": 0.0} if stage == "03_grpo" else {}))
        cells = ["\n".join(f"{name} = {value!r}" for name, value in values.items())]
        cells.append(f"from wordlelib.runs import start\nstage = start({stage!r}, globals())")
        cells += [f"stage.input({name!r})" for name in inputs]
        cells += [WORK] * (stage == "02_sft")
        cells.append(
            "reward = float(stage.config.seed + getattr(stage.config, 'beta', 0))\n"
            "stage.finish({'final_reward': reward, 'final_loss': 0.5, 'steps': 2})"
        )
        write_notebook(root / "notebooks" / f"{stage}.ipynb", *cells)
        (folder / f"{stage}.yaml").write_text("")
    return root


@pytest.fixture
def tiny(project: Path, write_notebook: Callable[..., Path]) -> Path:
    """A checkout with the recipe `tiny`."""
    return write_tiny_recipe(project, write_notebook)


@pytest.fixture
def made(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stages are made in this process within milliseconds; the list of what was made, in order.

    `made.fault(stage, run folder)` may raise in the middle of a stage.
    """

    class Made(list):
        fault = staticmethod(lambda stage, out: None)

    record = Made()

    def execute(stage, values, out):
        (out / stage).mkdir(parents=True, exist_ok=True)
        run = runs.start(stage, values)
        record.append(f"{out.parent.name}/{out.name}/{stage}")
        for name in INPUTS[stage]:
            run.input(name)
        record.fault(stage, out)
        cell = {"cell_type": "code", "source": ["1"], "execution_count": 1, "outputs": [], "metadata": {}}
        runs.write_json(run.dir / f"{stage}.ipynb", {"cells": [cell]})
        run.log({"step": 1, "frac_reward_zero_std": 0.25, "top_guess_share": 0.1})
        run.finish({"final_reward": values.get("beta", 0) + values.get("temperature", 0), "steps": 2})

    monkeypatch.setattr(recipes, "execute", execute)
    return record


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder of a sweep, not there yet."""
    return tmp_path / "sweep"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A sweep file of four trials."""
    path = tmp_path / "sweep.yaml"
    path.write_text(GRID)
    return path


# Stages that nobody ran ---------------------------------------------------------------------------

ENDED = {"01_data_synthesis": "t1", "02_sft": "t2", "03_grpo": "t3"}


def finish(stage, config, rules, inputs, **metrics):
    """Leave a folder as a finished stage does."""
    stage.mkdir(parents=True, exist_ok=True)
    runs.write_text(stage / "config.yaml", yaml.safe_dump({**config, "rules": rules.to_dict()}))
    runs.write_json(stage / "environment.json", {"gpu": None})
    runs.write_json(stage / "metrics.json", {**metrics, "rules": rules.digest})
    ended = {name: ENDED[name] for name in inputs}
    runs.write_json(
        stage / "status.json", {"status": "done", "ended": ENDED.get(stage.name, "t4"), "inputs": ended}
    )


# A game of a dozen words, and records of it -------------------------------------------------------

NAMES = (
    "abide",
    "cecum",
    "crane",
    "cynic",
    "geese",
    "label",
    "llama",
    "magma",
    "maple",
    "slate",
    "speed",
    "those",
)
WORDS = Words(NAMES, NAMES)


RULES = rules_for(WORDS)
LOSS = ("slate", "those", "geese", "abide", "speed", "cynic")


def game(secret, *guesses, player="sft", **fields):
    """A hand-made record; a guess of None is a turn without one, an unknown word is no word."""
    turns = []
    for guess in guesses:
        known = guess in NAMES
        turn = Turn(
            guess,
            score(guess, secret) if known else None,
            "ok" if guess else "no_tag",
            "ok" if known else "not_a_word" if guess else None,
        )
        turns.append({**turn._asdict(), "rewards": {}})
    record = {
        **{"secret": secret, "turns": turns, "won": secret in guesses, "n_guesses": len(turns)},
        **{"player": player, "seed": 0, "rules": RULES.digest, "preplayed": 0},
    }
    return record | fields


@st.composite
def records(draw, player: str = "sft"):
    """Some games as any player may have played them: faults, repeats, pre-played turns, wins at any turn."""
    made = []
    for secret in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)):
        guesses = draw(st.lists(st.sampled_from([*NAMES, "zzzzz", "qqqqq", None]), min_size=6, max_size=6))
        if secret in guesses:
            guesses = guesses[: guesses.index(secret) + 1]
        given_ = draw(st.integers(0, len(guesses) - 1))
        made.append(game(secret, *guesses, player=player, preplayed=given_))
    return made


KEY = "sk-planted-0123456789abcdef"


def say(word: str) -> str:
    return completion([word], word)


def body(text, finish="stop", **message) -> dict:
    """A chat completion that says `text`."""
    return {
        **{"id": "x", "object": "chat.completion", "created": 0, "model": "good"},
        "choices": [
            {
                **{"index": 0, "finish_reason": finish},
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
    }


class Server(ThreadingHTTPServer):
    """Answers each POST by `answer(handler, number)`; `asked` holds the decoded requests."""

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.asked, self.lock = [], threading.Lock()
        self.most, self.under_way = 0, 0
        self.models = lambda handler: handler.reply(200, {"data": [{"id": "good"}, {"id": "other"}]})
        self.answer = lambda handler, number: handler.reply(200, body(say("crane")))

    def handle_error(self, *_):
        """A client that has gone away is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, content, headers=(), cut=0):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **dict(headers)}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) + cut))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = bool(cut)

    def do_GET(self):
        self.server.models(self)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(asked)
            number = len(self.server.asked)
            self.server.under_way += 1
            self.server.most = max(self.server.most, self.server.under_way)
        try:
            self.server.answer(self, number)
        finally:
            with self.server.lock:
                self.server.under_way -= 1


@pytest.fixture
def server():
    with Server() as made:
        threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        made.shutdown()


def killed_at(number: int, server: Server, answer: Callable, arguments: list[str]) -> None:
    """Run a command of the project, and kill it with all that it started at that request to the server.

    From it on no request is answered before the kill; afterwards all are, by `answer`, as those before were.
    """
    held = threading.Event()

    def holding(handler, asked):
        if asked >= number:
            held.set()
            time.sleep(2)
        answer(handler, asked)

    server.answer = holding
    begun = subprocess.Popen(
        [sys.executable, "-m", "wordlelib", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    assert held.wait(40), begun.communicate()[0]
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    time.sleep(0.2)
    server.answer = answer
