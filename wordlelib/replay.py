"""Replay: the saved games of an evaluated run, to step through in a notebook or on a static page.

Games are read lazily: one pass notes where each begins and what the filters need, and a game is parsed
again when it is shown.
"""

import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wordlelib import boards, data, evaluate, runs, widgets
from wordlelib.boards import Record
from wordlelib.rules import Rules, require_wordle
from wordlelib.solver import Solver
from wordlelib.words import capitals

STAGE, PAGE = "04_eval", "games.html"
BEFORE, AFTER = "sft", "grpo"  # players whose games tell what a step of training changed
MOST_REGRET = "most regret"
SLICE = 0.05  # seconds of judging games between two answers to the view
LONGEST = "longest thinking"
CHANGED = f"changed from {BEFORE} to {AFTER}"


class Summary(NamedTuple):
    """What the filters need of a game. longest: characters of its longest text."""

    secret: str
    player: str
    won: bool
    nonword: bool
    no_guess: bool
    longest: int


def summary(record: Record) -> Summary:
    """The summary of a game, its win decided from the moves."""
    turns = record["turns"]
    return Summary(
        record["secret"],
        record["player"],
        evaluate.won_in(record) is not None,
        any(turn["rule"] == "not_a_word" for turn in turns),
        any(turn["guess"] is None for turn in turns),
        max((len(turn["text"]) for turn in turns), default=0),
    )


FILTERS: dict[str, Callable[[Summary], bool]] = {
    "all games": lambda game: True,
    "won": lambda game: game.won,
    "lost": lambda game: not game.won,
    "with a non-word": lambda game: game.nonword,
    "with no guess": lambda game: game.no_guess,
}


class Games(Sequence):
    """The games of a `games.jsonl` or `games.jsonl.gz`, each parsed when it is asked for.

    summaries: one a game, in the order of the file. Raises ValueError as `evaluate.read_games` does. A
    compressed file is unpacked once into a temporary one, since it cannot be read from the middle.
    """

    def __init__(self, path: str | Path, rules: Rules | None = None) -> None:
        self.path = Path(path)
        self.file = _seekable(self.path)
        self.places, self.summaries = [], []
        digest, place = rules.digest if rules else None, 0
        for number, line in enumerate(self.file, 1):
            where = f"{self.path}, line {number}"
            record = data.parse_line(line, where)
            evaluate.check_record(record, where, digest)
            digest = record["rules"]
            self.places.append(place)
            self.summaries.append(summary(record))
            place += len(line)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> Record:
        self.file.seek(self.places[number])
        return json.loads(self.file.readline())


def _seekable(path: Path) -> Any:
    if path.suffix != ".gz":
        return open(path, "rb")
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the games are)
    with runs.unpacked(path) as content:
        shutil.copyfileobj(content, unpacked)
    unpacked.seek(0)
    return unpacked


class Replay:
    """An evaluated run to look at: `name`, `games`, `solver`, and the numbers of the games of each kind."""

    def __init__(self, name: str, games: Sequence[Record], solver: Solver) -> None:
        if not games:
            raise ValueError(f"no games to replay: run notebook {STAGE} first")
        self.name, self.games, self.solver = name, games, solver
        self.summaries = getattr(games, "summaries", None) or [summary(record) for record in games]
        self.players = list(dict.fromkeys(game.player for game in self.summaries))
        self.secrets = list(dict.fromkeys(game.secret for game in self.summaries))
        self.numbers = {(game.secret, game.player): n for n, game in enumerate(self.summaries)}
        self._regrets: dict[int, float] = {}

    def find(self, secret: str = "", player: str = "") -> Record:
        """The first game of this secret by this player, either of them empty for any.

        Raises ValueError when no such game was saved.
        """
        for number, game in enumerate(self.summaries):
            if secret in ("", game.secret) and player in ("", game.player):
                return self.games[number]
        wanted = f" of {secret!r}" * bool(secret) + f" by {player!r}" * bool(player)
        first = f"{self.summaries[0].secret!r} by {self.summaries[0].player!r}"
        raise ValueError(f"no game{wanted} was saved; the first one is of {first}")

    def of_secret(self, secret: str) -> dict[str, Record]:
        """The games of one secret by player."""
        found = ((name, self.numbers.get((secret, name))) for name in self.players)
        return {name: self.games[number] for name, number in found if number is not None}

    def views(self) -> dict[str, list[int] | None]:
        """Kind of game to the numbers of such games; None for `most regret`, which takes the solver."""
        numbers = range(len(self.summaries))
        views: dict[str, list[int] | None] = {
            name: [n for n in numbers if fits(self.summaries[n])] for name, fits in FILTERS.items()
        }
        views[LONGEST] = sorted(numbers, key=lambda n: -self.summaries[n].longest)
        views[MOST_REGRET] = None
        if {BEFORE, AFTER} <= set(self.players):
            views[CHANGED] = list(self._changed())
        return views

    def _changed(self) -> Iterator[int]:
        for secret in self.secrets:
            pair = [self.numbers.get((secret, player)) for player in (BEFORE, AFTER)]
            if None not in pair and len({self.summaries[n].won for n in pair}) == 2:
                yield from pair

    def by_regret(self, player: str = "") -> list[int]:
        """Numbers of the games of a player (of all without one), those with most regret first."""
        return sorted(self._of(player), key=self.regret, reverse=True)

    def regret(self, number: int) -> float:
        """Bits that a game gave away in all, found once."""
        self._judge_game(number)
        return self._regrets[number]

    def judge(self, player: str, seconds: float) -> float:
        """Find regrets of a player's games (of all without one) for so long; the share of them known by then.

        Half a minute for ten thousand games would be a long time to answer nobody.
        """
        end, numbers = time.monotonic() + seconds, self._of(player)
        known = next((n for n, number in enumerate(numbers) if not self._judge_game(number, end)), None)
        return 1.0 if known is None else known / len(numbers)

    def _of(self, player: str) -> list[int]:
        return [n for n, game in enumerate(self.summaries) if player in ("", game.player)]

    def _judge_game(self, number: int, end: float = math.inf) -> bool:
        """Whether the regret of a game is known by `end`; the next try is quicker, since states are kept."""
        if number in self._regrets:
            return True
        lost = 0.0
        for bits in boards.regrets(self.games[number], self.solver):
            if time.monotonic() > end:
                return False
            lost += bits
        self._regrets[number] = lost
        return True

    def pieces(self, number: int) -> dict[str, Any]:
        """The HTML of a game: `head`, and a piece a turn in `rows` (of the board) and `turns` (in words)."""
        record = self.games[number]
        length = len(record["secret"])
        return {
            "head": boards.heading(record),
            "rows": [boards.turn_row(turn, length) for turn in record["turns"]],
            "turns": [boards.turn_html(record, i, self.solver) for i in range(len(record["turns"]))],
        }

    def index(self, secret: str = "", player: str = "") -> dict[str, Any]:
        """What the view needs besides the games themselves; games are (number of secret, of player)."""
        place = {secret: n for n, secret in enumerate(self.secrets)}
        games = [(place[game.secret], self.players.index(game.player)) for game in self.summaries]
        of_secret: list[list[int]] = [[] for _ in self.secrets]
        for number, (where, _) in enumerate(games):
            of_secret[where].append(number)
        shown = self.find(secret, player)
        return {
            "title": f"Games of {Path(self.name).name}",
            "turns": self.solver.rules.turns,
            "blank": boards.blank_row(self.solver.rules.length),
            "players": [boards.visible(name, 80) for name in self.players],
            "secrets": list(map(capitals, self.secrets)),
            "games": games,
            "of_secret": of_secret,
            "views": self.views(),
            "ranked": [LONGEST, MOST_REGRET],
            "secret": place[shown["secret"]],
            "player": self.players.index(player) if player else "",
            "runs": [],
            "run": self.name,
        }


def open_run(folder: str | Path) -> Replay:
    """The games of an evaluated run; only what is shown is parsed.

    Raises ValueError with one sentence for a run without an evaluation or without games, and as
    `evaluate.read_games` does.
    """
    folder = Path(folder).resolve()
    stage = runs.finished_stage(folder, STAGE)
    rules = Rules.from_dict(runs.read_yaml(stage / "config.yaml")["rules"])
    require_wordle(rules, "the replay")
    if (path := evaluate.games_file(stage)) is None:
        raise ValueError(f"{runs.shown_path(stage)} holds no games: run notebook {STAGE} again")
    return Replay(runs.shown_path(folder), Games(path, rules), Solver(data.played_in(folder).words, rules))


def evaluated_runs() -> list[str]:
    """The runs under `results/` that have games to show, as paths from the project's root."""
    results = runs.project_root() / "results"
    stages = [*results.glob(f"*/{STAGE}"), *results.glob(f"reference/**/{STAGE}")]
    done = [stage for stage in stages if runs.status(stage)["status"] == "done"]
    return sorted(runs.shown_path(stage.parent) for stage in done if evaluate.games_file(stage))


def replay_widget(shown: Replay, secret: str = "", player: str = "", others: Sequence[str] = ()) -> Any:
    """Step through saved games: choose run, player, kind of game, secret and turn; or all players at once.

    secret, player: what is shown first; empty for the first secret and for all players side by side.
    others: further run folders to choose from. Without a front end the games of the secret stand in a
    static table. Raises ValueError when there is no such game.
    """
    first = shown.find(secret, player)
    if not widgets.has_front_end():
        return widgets.show(replay_html(shown, first["secret"], player))
    now = shown  # the run on show
    names = sorted({shown.name, *others})

    def answer(board: Any, message: dict[str, Any]) -> None:
        nonlocal now
        if "run" in message and message["run"] in names:
            now = open_run(runs.project_path(message["run"]))
            board.data = {**now.index(), "runs": names}
        if "games" in message:
            board.send({"games": {number: now.pieces(number) for number in message["games"]}})
        if message.get("view") == MOST_REGRET:
            who = "" if message["player"] is None else now.players[message["player"]]
            judged = now.judge(who, SLICE)
            found = {"ranked": now.by_regret(who)} if judged == 1 else {"judged": judged}
            board.send({"ticket": message["ticket"], **found})

    return widgets.widget("replay", {**shown.index(secret, player), "runs": names}, answer)


def replay_html(shown: Replay, secret: str, player: str = "") -> str:
    """The game of one player on `secret`, turn by turn; without a player all players side by side."""
    records = shown.of_secret(secret)
    if player:
        return boards.game_html(records[player], shown.solver)
    return boards.compare_html(records, solver=shown.solver, turns=shown.solver.rules.turns)


def write_page(folder: str | Path) -> Path:
    """Write all games of an evaluated run as one page, `<run>/04_eval/games.html`, and return its path.

    The page needs no kernel, no network and no other file. Each secret's games are packed by themselves,
    so the page unpacks only what is looked at. Raises ValueError as `open_run` does.
    """
    shown = open_run(folder)
    index = shown.index()
    packed = []
    for numbers in index["of_secret"]:
        packed.append(widgets.packed({number: shown.pieces(number) for number in numbers}))
        for number in numbers:  # now, while the solver still knows these states
            shown.regret(number)
    index["views"][MOST_REGRET] = shown.by_regret()
    index["run"] = Path(shown.name).name  # a page may travel: no path of this machine
    lines = [widgets.packed(index), *packed]
    target = Path(folder).resolve() / STAGE / PAGE
    runs.write_text(target, widgets.page(index["title"], lines))
    return target
