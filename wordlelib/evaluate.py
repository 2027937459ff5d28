"""The strict harness: games played lock-step, their records, summaries and paired tests.

Strict means: an invalid turn uses a turn, nothing is tried again or repaired, nothing is
pre-played unless asked for and then labelled in the record, and a win is decided from the moves.
"""

import hashlib
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wordlelib.data import Row, read_jsonl, write_jsonl
from wordlelib.game import Game, History, Turn, is_consistent, is_win, reset, score
from wordlelib.players import FAILED, Failed, Player
from wordlelib.prompts import Parsed, parse_guess
from wordlelib.rules import Rules
from wordlelib.runs import Run, log_of, status
from wordlelib.solver import OPTIMAL_TOTALS
from wordlelib.words import Split, Words

Record = dict[str, Any]
Validation = Callable[[int], dict[str, Any]]  # number of a validation, from 1, to columns of its log row
RECORD_FIELDS = {"secret", "turns", "won", "n_guesses", "player", "seed", "rules", "preplayed"}
# What was made easier in a game: counts in its record, none of them in a strict game. preplayed: turns made
# before the player began. Records of others may say more: retries, answers that were thrown away and asked
# for again; discarded, games on the same secret that were thrown away before this one was kept.
CONDITIONS = ("preplayed", "retries", "discarded")
# Players whose difference says what GRPO bought: over SFT, and over as many minutes of more SFT.
COMPARISONS = (("grpo", "sft"), ("grpo", "sft_continued"))
SAMPLES, SAMPLE_LENGTH = 3, 300  # texts of a log row, and their characters
TRIES = 1000  # draws for one random pre-played turn: under hard mode few words may be legal


def game_seed(seed: int, index: int) -> int:
    """The seed (32 bits) of game number `index` of a run: no two games share a random stream."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:4])


def iter_games(
    player: Player,
    secrets: Sequence[str],
    words: Words,
    rules: Rules,
    *,
    name: str,
    seed: int = 0,
    preplayed: Mapping[str, History] | int = 0,
    rewards: Callable[[str, History, str], dict[str, float]] | None = None,
    on_turn: Callable[[int, int], None] | None = None,
    at_once: int = 512,
) -> Iterator[Record]:
    """Play one game a secret and yield their records in the order of `secrets`.

    `at_once` games are played side by side, one player call a turn for all that are unfinished;
    only their records are held, so memory does not grow with the number of games.
    name: the player's name in the records. seed: of the run; game i gets `game_seed(seed, i)`.
    preplayed: a history for some secrets, or a number of random legal turns made before the player
    starts (fewer where no legal word is left); they use up turns and are counted in the record.
    rewards: (text, history before it, secret) -> reward terms, kept with each turn.
    on_turn: called after each turn with the numbers of finished and of all games.

    Raises ValueError for a secret that is no allowed guess, word lists that are not those of
    `rules`, pre-played turns that leave no turn or contradict the secret, and a player that does
    not return one text a game.
    """
    _check_lists(secrets, words, rules)
    for start in range(0, len(secrets), at_once):
        block = secrets[start : start + at_once]
        seeds = [game_seed(seed, start + i) for i in range(len(block))]
        games = [
            reset(words, rules, secret, _opening(secret, preplayed, s, words, rules))
            for secret, s in zip(block, seeds, strict=True)
        ]
        given = [len(game.history) for game in games]
        terms = [[{}] * n for n in given]
        while playing := [i for i, game in enumerate(games) if not game.done]:
            texts = player([games[i].history for i in playing], [seeds[i] for i in playing])
            _check_texts(texts, len(playing), name)
            for i, text in zip(playing, texts, strict=True):
                terms[i].append(rewards(text, games[i].history, games[i].secret) if rewards else {})
                step(games[i], text)
            if on_turn:
                on_turn(start + sum(game.done for game in games), len(secrets))
        for game, s, n, turn_terms in zip(games, seeds, given, terms, strict=True):
            yield game_record(game, player=name, seed=s, preplayed=n, rewards=turn_terms)


def play_games(player: Player, secrets: Sequence[str], words: Words, rules: Rules, **options) -> list[Record]:
    """The records of `iter_games` (same arguments and errors) as a list."""
    return list(iter_games(player, secrets, words, rules, **options))


def validation_secrets(secrets: Sequence[str], seed: int, number: int) -> list[str]:
    """The secrets of validation `number` (from 1): half of them, drawn without replacement.

    Validations 1 and 2, 3 and 4, … play each secret once between them, in an order of their own.
    """
    order = random.Random(f"validation/{seed}/{(number - 1) // 2}").sample(secrets, len(secrets))
    half = (len(order) + 1) // 2
    return (order[:half] if number % 2 else order[half:]) or order


def validation(player: Player, secrets: Sequence[str], words: Words, rules: Rules, seed: int) -> Validation:
    """What training calls at each validation: plays its `validation_secrets` by the strict rules.

    Gives `val_win_rate`, the secrets by name as `val_won` and `val_lost`, and `samples` of what was written.
    The same seed and number play the same secrets, also after a resume.
    """

    def measure(number: int) -> dict[str, Any]:
        drawn = validation_secrets(secrets, seed, number)
        games = play_games(player, drawn, words, rules, name="validation", seed=seed)
        won = [game["secret"] for game in games if game["won"]]
        lost = [secret for secret in drawn if secret not in won]
        samples = [game["turns"][-1]["text"] for game in games[:SAMPLES]]
        shown = {"samples": [text[:SAMPLE_LENGTH] for text in samples]}
        return {"val_win_rate": len(won) / len(games), "val_won": won, "val_lost": lost, **shown}

    return measure


def game_record(
    game: Game, *, player: str, seed: int, preplayed: int = 0, rewards: Sequence[dict[str, float]] = ()
) -> Record:
    """One line of games.jsonl: the moves with raw texts and reward terms, and how the game ended.

    `n_guesses` counts the turns used, pre-played ones included; `rewards` holds one dict a turn.
    """
    rewards = rewards or [{}] * len(game.history)
    return {
        "secret": game.secret,
        "turns": [
            {**turn._asdict(), "rewards": terms} for turn, terms in zip(game.history, rewards, strict=True)
        ],
        "won": game.won,
        "n_guesses": len(game.history),
        "player": player,
        "seed": seed,
        "rules": game.rules.digest,
        "preplayed": preplayed,
        **({} if game.rules.game == Rules.game else {"game": game.rules.game}),
    }


def _check_lists(secrets: Sequence[str], words: Words, rules: Rules) -> None:
    # Under the `train` lexicon a training game may be played with the held-out words taken out.
    ruled = {"answers": rules.answers_sha256, "allowed": rules.allowed_sha256}
    if rules.lexicon == "full" and ruled != words.sha256:
        raise ValueError(f"{words!r} are not the word lists of the rules; load the lists that they name")
    playable = (words.dictionary, words.answers)  # the tasks of other games are no guesses
    if unknown := [secret for secret in secrets if not any(secret in part for part in playable)]:
        raise ValueError(f"secret {unknown[0]!r} is not an allowed guess, so its game cannot be won")


def step(game: Game, text: str) -> Turn:
    """One turn of a game in play, from what a player returned."""
    return game.play(*parsed(text, game.rules), str(text))


def parsed(text: str, rules: Rules) -> Parsed:
    """The guess in what a player returned, or why there is none; nothing is read from a failure."""
    failed = isinstance(text, Failed)
    return Parsed(None, FAILED) if failed else parse_guess(text, rules.length, rules.alphabet)


def _check_texts(texts: Any, n: int, name: str) -> None:
    if not isinstance(texts, list | tuple):
        raise ValueError(f"player {name!r} returned {type(texts).__name__}; it must return a list of texts")
    if len(texts) != n:
        raise ValueError(f"player {name!r} returned {len(texts)} texts for {n} games; one a game is needed")
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise ValueError(f"player {name!r} returned {wrong[0]!r} for a game; every answer must be a text")


def _opening(
    secret: str, preplayed: Mapping[str, History] | int, seed: int, words: Words, rules: Rules
) -> History:
    """The turns made before the player starts."""
    if isinstance(preplayed, int):
        if not 0 <= preplayed < rules.turns:
            raise ValueError(f"{preplayed} pre-played turns leave none of {rules.turns}; use fewer")
        return _random_turns(secret, preplayed, random.Random(f"preplayed/{seed}"), words, rules)
    history = tuple(preplayed.get(secret, ()))
    if history and rules.game != Rules.game:
        raise ValueError(
            f"histories can be pre-played in Wordle alone: in {rules.game} give a number of turns"
        )
    if reset(words, rules, secret, history).done:
        raise ValueError(f"the pre-played game of {secret!r} is already over")
    if any(turn.feedback not in (None, turn.guess and score(turn.guess, secret)) for turn in history):
        raise ValueError(f"the pre-played feedback of {secret!r} is not that of this secret")
    return history


def _random_turns(secret: str, n: int, rng: random.Random, words: Words, rules: Rules) -> History:
    history: History = ()
    for _ in range(n):
        game = reset(words, rules, secret, history)
        drawn = (game.turn(rng.choice(words.allowed), "ok", "") for _ in range(TRIES))
        longer = ((*history, turn) for turn in drawn if turn.feedback is not None)
        history = next((h for h in longer if not reset(words, rules, secret, h).done), history)
    return history


def write_games(path: str | Path, records: Iterable[Record]) -> None:
    """Write records to games.jsonl, one a line, whole or not at all; `records` may be a generator."""
    write_jsonl(path, records)


def games_file(stage: str | Path) -> Path | None:
    """The games of an evaluated stage: `games.jsonl`, or `games.jsonl.gz` in a kept run; None without."""
    files = [Path(stage) / name for name in ("games.jsonl", "games.jsonl.gz")]
    return next((file for file in files if file.is_file()), None)


def games_before(run: Run) -> tuple[list[Record], list[Row]]:
    """The games of a stage that goes on after it was stopped, and the rows of `log.jsonl` of the players who
    were through: each was written after its games. None of a new stage.

    Raises ValueError as `Run.input` does: what those players were made from must be there still.
    """
    for stage in status(run.dir).get("inputs", ()):
        run.input(stage)
    log = log_of(run.dir)
    games = read_games(run.dir / "games.jsonl", run.rules) if log else []
    through = {row["player"] for row in log}
    return [game for game in games if game["player"] in through], log


def read_games(path: str | Path, rules: Rules | None = None) -> list[Record]:
    """Read games.jsonl.

    Raises ValueError with file and line number for a corrupt or half-written line, a missing
    field, a `won` that its moves contradict, and for a digest that is not that of `rules`, or of
    the first line when `rules` is None.
    """
    records = read_jsonl(path)
    digest = rules.digest if rules else None
    for number, record in enumerate(records, 1):
        check_record(record, f"{path}, line {number}", digest)
        digest = digest or record["rules"]
    return records


def check_record(record: Record, where: str, digest: str | None) -> None:
    """Raise ValueError, beginning with `where`, unless this is a whole game under the rules `digest` (any
    without one) whose `won` and `n_guesses` are those of its moves."""
    if missing := sorted(RECORD_FIELDS - set(record)):
        raise ValueError(f"{where}: not a game record, {missing[0]!r} is missing")
    if record["rules"] != (digest or record["rules"]):
        raise ValueError(f"{where}: played under rules {record['rules']}, not {digest}; never mix the two")
    try:
        won = won_in(record) is not None
    except (KeyError, TypeError):
        raise ValueError(f"{where}: not a game record, its `turns` lack a field") from None
    if record["won"] != won or record["n_guesses"] != len(record["turns"]):
        raise ValueError(f"{where}: `won` or `n_guesses` contradicts the moves of {record['secret']!r}")


def by_player(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records grouped by player, in order of first appearance."""
    groups = defaultdict(list)
    for record in records:
        groups[record["player"]].append(record)
    return dict(groups)


def history_of(record: Record) -> History:
    """The turns of a record, pre-played ones included, as the game knows them."""
    return tuple(Turn(*(turn[name] for name in Turn._fields)) for turn in record["turns"])


def won_in(record: Record) -> int | None:
    """The number of the winning turn (from 1, pre-played turns counted), None for a loss.

    Decided from the moves alone: a legal guess equal to the secret. No reward and no flag counts.
    """
    turns = enumerate(history_of(record), 1)
    return next((number for number, turn in turns if is_win(turn, record["secret"])), None)


def guesses_or_loss(record: Record) -> int:
    """Guesses of a won game; a lost one, which used all turns, counts one more (7 for six turns)."""
    return won_in(record) or len(record["turns"]) + 1


def inconsistent(turn: Turn, history: History) -> bool:
    """True for a legal guess that contradicts the feedback of `history`. An invalid turn is not."""
    return turn.feedback is not None and not is_consistent(turn.guess, history)


def summarise(records: Iterable[Record]) -> dict[str, float | int | None]:
    """Flat metrics of games of one player under one set of rules; None where undefined.

    games; win_rate with win_rate_low and win_rate_high (Wilson 95%); mean_guesses_won (won games
    only); mean_guesses_loss7 (all games, a loss counts the turns of the game plus one). The
    denominator of every share is the number of turns that the player took, pre-played ones left
    out: malformed_share (no guess), nonword_share (guess not in the dictionary), invalid_share (both,
    and broken hard mode), repeat_share (a guess made before in the game, legal or not),
    inconsistent_share (legal but not consistent with all feedback; of Wordle alone). preplayed: pre-played
    turns of all games; `retries` and `discarded` stand there only if any game had some (CONDITIONS). Raises
    ValueError for records of several players or rules.
    """
    won, counted, wordle = [], [], True
    seen: dict[str, set] = {"player": set(), "rules": set()}
    kinds, easier = Counter(), Counter()
    for record in records:
        counted.append(guesses_or_loss(record))
        if number := won_in(record):
            won.append(number)
        kinds.update(_turn_kinds(record))
        wordle = wordle and "game" not in record
        easier.update({name: record.get(name) or 0 for name in CONDITIONS})
        for name, values in seen.items():
            values.add(record[name])
    for name, values in seen.items():
        if len(values) > 1:
            raise ValueError(
                f"one summary cannot mix games whose {name!r} differ: {', '.join(sorted(values))}"
            )
    games, turns = len(counted), kinds["turns"]
    low, high = wilson(len(won), games) if games else (None, None)
    return {
        "games": games,
        "win_rate": _ratio(len(won), games),
        "win_rate_low": low,
        "win_rate_high": high,
        "mean_guesses_won": _ratio(sum(won), len(won)),
        "mean_guesses_loss7": _ratio(sum(counted), games),
        "malformed_share": _ratio(kinds["malformed"], turns),
        "nonword_share": _ratio(kinds["nonword"], turns),
        "invalid_share": _ratio(kinds["invalid"], turns),
        "repeat_share": _ratio(kinds["repeat"], turns),
        "inconsistent_share": _ratio(kinds["inconsistent"], turns) if wordle else None,
        "preplayed": easier["preplayed"],
        **{name: easier[name] for name in CONDITIONS[1:] if easier[name]},
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _turn_kinds(record: Record) -> Counter:
    """How many turns the player took, failed requests left out, and how many of each kind of fault."""
    kinds = Counter()
    history = history_of(record)
    for number in range(record["preplayed"], len(history)):
        turn, before = history[number], history[:number]
        if turn.reason == FAILED:
            continue
        kinds["turns"] += 1
        kinds["malformed"] += turn.guess is None
        kinds["nonword"] += turn.rule == "not_a_word"
        kinds["invalid"] += turn.feedback is None
        kinds["repeat"] += turn.guess is not None and any(turn.guess == past.guess for past in before)
        kinds["inconsistent"] += "game" not in record and inconsistent(turn, before)
    return kinds


def guess_histogram(records: Iterable[Record], turns: int = 6) -> dict[str, int]:
    """Games won in 1 to `turns` guesses, and lost ones under `X`."""
    counts = Counter(won_in(record) for record in records)
    return {str(n): counts[n] for n in range(1, turns + 1)} | {"X": counts[None]}


def _parts(records: Sequence[Record], split: Split, apart: Collection[str]) -> dict[str, list[Record]]:
    """All games, those over training, held-out (test) and `apart` secrets; parts without games left out."""
    parts = {"all": list(records)}
    for part, secrets in {"train": split.train, "heldout": split.test, "grpo_secrets": apart}.items():
        own = frozenset(secrets)
        parts[part] = [record for record in records if record["secret"] in own]
    return {part: own for part, own in parts.items() if own}


def flat_metrics(
    records: Iterable[Record],
    split: Split,
    optimal: dict[str, float | int | None] | None = None,
    grpo_secrets: Collection[str] = (),
) -> dict[str, float | int | None]:
    """All summaries and paired tests as one flat dict, keys `<player>/<split>/<metric>`.

    `grpo_secrets` are training secrets that SFT did not see; their games stand apart too.

    For each pair of COMPARISONS whose players both played: `vs_<other>_wins_gained` and `_wins_lost`
    (games that only one of the two won), `_wins_p` (exact McNemar), `_guesses_change` (mean
    difference a game, negative is better) and `_guesses_p` (exact sign-flip test). `optimal` is the line
    of `known_totals`. Raises ValueError as `mcnemar` and `summarise` do.
    """
    played = {player: _parts(own, split, grpo_secrets) for player, own in by_player(records).items()}
    metrics = {}
    for player, parts in played.items():
        for part, own in parts.items():
            values = summarise(own)
            for first, other in COMPARISONS:
                if player == first and other in played:
                    values |= _paired_metrics(own, played[other].get(part, []), f"vs_{other}")
            metrics |= {f"{player}/{part}/{name}": value for name, value in values.items()}
    return metrics | {f"optimal/all/{name}": value for name, value in (optimal or {}).items()}


def _paired_metrics(first: list[Record], second: list[Record], prefix: str) -> dict[str, float | int]:
    wins, guesses = mcnemar(first, second), paired_guesses(first, second)
    return {
        f"{prefix}_wins_gained": wins.only_first,
        f"{prefix}_wins_lost": wins.only_second,
        f"{prefix}_wins_p": wins.p,
        f"{prefix}_guesses_change": guesses.difference,
        f"{prefix}_guesses_p": guesses.p,
    }


def known_totals(words: Words, rules: Rules) -> dict[str, float | int | None] | None:
    """The metrics of best possible play over all answers, None for lists without a proven value.

    The means come from `solver.OPTIMAL_TOTALS`, for six turns. There is no interval, since nothing is
    sampled; what the proofs leave open is None (under hard mode, whether six turns always suffice).
    """
    totals = OPTIMAL_TOTALS.get((words.sha256["answers"], words.sha256["allowed"]))
    if totals is None or rules.turns != Rules.turns:
        return None
    mean = totals["hard" if rules.hard_mode else "normal"] / len(words.answers)
    return {
        "games": len(words.answers),
        **{"win_rate": None if rules.hard_mode else 1.0, "win_rate_low": None, "win_rate_high": None},
        **dict.fromkeys(("mean_guesses_won", "mean_guesses_loss7"), mean),
        **dict.fromkeys(("malformed_share", "nonword_share", "invalid_share", "repeat_share"), 0.0),
        "inconsistent_share": None,
        "preplayed": 0,
    }


def wilson(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval for `k` successes in `n` trials (z = 1.96: 95%).

    E. B. Wilson, "Probable inference", JASA 22 (1927). Raises ValueError unless 0 <= k <= n, n >= 1.
    """
    if not 0 <= k <= n or n < 1:
        raise ValueError(f"no interval for {k} successes in {n} trials")
    p, q = k / n, z * z / n
    middle = (p + q / 2) / (1 + q)
    half = math.sqrt(q * (p * (1 - p) + q / 4)) / (1 + q)
    # The interval holds p; the clipping only undoes rounding at k = 0 and k = n.
    return max(0.0, min(middle - half, p)), min(1.0, max(middle + half, p))


class McNemar(NamedTuple):
    """Games that only the first, and only the second player won; the exact two-sided p-value."""

    only_first: int
    only_second: int
    p: float


class PairedGuesses(NamedTuple):
    """Mean of first minus second player's guesses a game (a loss counts one more than the turns);
    the exact two-sided p-value."""

    difference: float
    p: float


def mcnemar(first: Iterable[Record], second: Iterable[Record]) -> McNemar:
    """Exact McNemar test on the wins of two players over the same secrets.

    Raises ValueError that names the field in which the two sets of records cannot be paired:
    `secret`, `rules` or one of CONDITIONS.
    """
    differences = [(won_in(a) is not None) - (won_in(b) is not None) for a, b in _pairs(first, second)]
    return McNemar(differences.count(1), differences.count(-1), sign_flip_p(differences))


def paired_guesses(first: Iterable[Record], second: Iterable[Record]) -> PairedGuesses:
    """Exact sign-flip permutation test on the guesses of two players over the same secrets.

    Raises ValueError as `mcnemar` does.
    """
    differences = [guesses_or_loss(a) - guesses_or_loss(b) for a, b in _pairs(first, second)]
    return PairedGuesses(sum(differences) / len(differences), sign_flip_p(differences))


def sign_flip_p(differences: Iterable[int]) -> float:
    """Two-sided p-value of a sum of paired whole-number differences, every sign being a fair coin.

    Exact, no sampling: the sum over the c differences of size v is v * (2 * Binomial(c, 1/2) - c),
    and the distributions of the sizes are convolved. With differences of -1 and 1 alone this is the
    exact binomial (McNemar) test.
    """
    differences = list(differences)
    chances = np.ones(1)  # of the sums -reach ... reach in steps of 1
    for size, copies in sorted(Counter(abs(d) for d in differences if d).items()):
        step = np.zeros(2 * size * copies + 1)
        step[:: 2 * size] = [math.comb(copies, k) / 2**copies for k in range(copies + 1)]
        chances = np.convolve(chances, step)
    reach, extreme = len(chances) // 2, abs(sum(differences))
    if extreme == 0:
        return 1.0
    return min(1.0, 2 * float(chances[reach + extreme :].sum()))


def _pairs(first: Iterable[Record], second: Iterable[Record]) -> list[tuple[Record, Record]]:
    """The two records of each secret, in the order of the first player's games."""
    sides = list(first), list(second)
    for side in sides:
        if len({record["secret"] for record in side}) < len(side):
            raise ValueError("a paired test needs one game a secret; field 'secret' repeats")
    others = {record["secret"]: record for record in sides[1]}
    if not sides[0] or {record["secret"] for record in sides[0]} != set(others):
        raise ValueError("a paired test needs games over the same secrets; field 'secret' differs")
    pairs = [(record, others[record["secret"]]) for record in sides[0]]
    for name in ("rules", *CONDITIONS):
        values = ((a.get(name) or 0, b.get(name) or 0, a["secret"]) for a, b in pairs)
        if unlike := next((found for found in values if found[0] != found[1]), None):
            raise ValueError(
                f"a paired test needs games under the same conditions; field {name!r} differs: "
                f"{unlike[0]} and {unlike[1]} for {unlike[2]!r}"
            )
    return pairs
