"""Games of others by their secret: how often each was won, and which are worth learning by `distil.fault`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from wordlelib.containers import Bad
from wordlelib.distil import select, write_summary
from wordlelib.game import is_win
from wordlelib.records import Played, Record, Report, finished, told
from wordlelib.rules import Rules
from wordlelib.words import Words


def by_word(
    records: Iterable[Record], keep: int, words: Words, rules: Rules, report: Report
) -> Iterator[Record]:
    """The records, while their finished games are counted in `report.words`.

    keep: how many games are chosen of each secret, the shortest ones without a fault; all other records
    are left out with their reason. 0 takes all records, as they come.
    """
    best: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        turns = finished(record, words, rules)
        try:
            if keep and not turns:
                raise Bad("no finished game, which a choice of games needs")
            played = told(record._replace(history=turns, completion=None), rules) if keep else record
        except Bad as why:
            report.leave_out(record.number, why)
            continue
        if turns:
            word = report.words.setdefault(record.secret, Played())
            word.games += 1
            if won := is_win(turns[-1], record.secret):
                word.won += 1
                word.fewest = min(word.fewest or len(turns), len(turns))
            word.kept += not keep
        if not keep:
            yield record
            continue
        game = {"record": record, "secret": record.secret, "won": won, "n_guesses": len(turns)}
        rivals = [*best.get(record.secret, ()), game | {"turns": [turn._asdict() for turn in played.history]}]
        best[record.secret], dropped = select(rivals, keep, rules)
        for reason in dropped:
            [out] = (rival for rival in rivals if all(rival is not chosen for chosen in best[record.secret]))
            report.leave_out(out["record"].number, Bad(reason))
            word.dropped[reason] += 1
    for secret, chosen in best.items():
        report.words[secret].kept = len(chosen)
        yield from (game["record"] for game in chosen)


def write_words(folder: Path, report: Report, part: str) -> None:
    """Write the table of words of a report, and the lists of those that were won at least once and never, as
    notebook 01 writes them of a teacher: `games.csv`, `games_won.txt`, `games_lost.txt`.

    Raises ValueError when no game of the source is finished.
    """
    if not report.words:
        raise ValueError(
            f"{report.source}: no finished game of a known secret, which a summary by word needs"
        )
    folder.mkdir(parents=True, exist_ok=True)
    table = [
        (secret, part, word.games, word.won, word.kept, word.fewest, word.dropped)
        for secret, word in report.words.items()
    ]
    write_summary(folder, "games", table)
