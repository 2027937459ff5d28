"""Models behind an endpoint, against a local server that misbehaves on purpose."""

import json
import socket
import time
from contextlib import suppress

import pytest
from conftest import KEY, ROOT, Server, body, example, killed_at, say

from wordlelib import analysis, data, endpoints, params, runs
from wordlelib.__main__ import main
from wordlelib.endpoints import Endpoint, complete, completer, connect, read_answers, usage
from wordlelib.evaluate import guesses_or_loss, play_games, read_games, summarise
from wordlelib.players import endpoint_player
from wordlelib.rules import rules_for
from wordlelib.words import sample_words

CHAT = [{"role": "user", "content": "guess"}]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv(endpoints.KEY, KEY)


@pytest.fixture
def ask(server):
    """Ask the server about `n` chats."""

    def ask(n=1, timeout=10.0, concurrency=8, **options):
        endpoint = Endpoint(server.url, "good", KEY, concurrency, timeout)
        return complete(endpoint, [CHAT] * n, list(range(n)), max_completion_length=50, **options)

    return ask


def test_each_chat_is_answered_with_its_tokens_and_asked_as_told(server, ask):
    [answer] = ask(temperature=0.5)
    assert answer.text == say("crane") and answer.failure is None
    assert (answer.prompt_tokens, answer.completion_tokens, answer.requests) == (100, 7, 1)
    [asked] = server.asked
    assert asked == {"model": "good", "messages": CHAT, "max_tokens": 50, "temperature": 0.5, "seed": 0}


def test_greedy_requests_send_no_seed_which_some_servers_refuse(server, ask):
    ask()
    assert "seed" not in server.asked[0]


def test_answers_keep_the_order_of_their_chats_and_the_limit_of_requests_at_once(server):
    def slowly(handler, number):
        time.sleep(0.03 if number % 2 else 0.01)
        handler.reply(200, body(server.asked[number - 1]["messages"][0]["content"]))

    server.answer = slowly
    chats = [[{"role": "user", "content": str(number)}] for number in range(20)]
    answers = complete(
        Endpoint(server.url, "good", KEY, concurrency=3), chats, range(20), max_completion_length=5
    )
    assert sorted(answer.text for answer in answers) == sorted(str(number) for number in range(20))
    assert 2 <= server.most <= 3


def later(status, headers):
    """Refuse the first request with `status`, answer the second."""

    def answer(handler, number):
        if number == 1:
            handler.reply(status, {"error": {"message": "wait"}}, headers)
        else:
            handler.reply(200, body(say("crane")))

    return answer


@pytest.mark.parametrize(
    ("status", "headers", "least"),
    [(429, {"Retry-After": "1"}, 1.0), (500, {}, 0.3), (503, {"retry-after-ms": "10"}, 0.0)],
)
def test_a_busy_or_broken_server_is_asked_again_and_a_wait_that_it_names_is_kept(
    server, ask, status, headers, least
):
    server.answer = later(status, headers)
    [answer] = ask()
    assert answer.text == say("crane") and answer.requests == 2 and answer.seconds >= least
    assert usage([answer])["retries"] == 1


def test_an_answer_cut_short_on_its_way_is_asked_for_again(server, ask):
    def cut_once(handler, number):
        handler.reply(200, body(say("crane")), cut=100 * (number == 1))

    server.answer = cut_once
    [answer] = ask()
    assert answer.text == say("crane") and answer.requests == 2


@pytest.mark.parametrize("content", [b"", b"<html>busy</html>", b"\xff\xfe\xff", b'{"choices": ['])
def test_an_answer_that_is_no_json_is_asked_for_again(server, ask, content, monkeypatch):
    """As often as after any other failure that passes; one that lasts says what came."""
    server.answer = lambda handler, number: handler.reply(200, content if number < 3 else body(say("crane")))
    [answer] = ask()
    assert answer.text == say("crane") and answer.requests == 3
    monkeypatch.setattr(endpoints, "RETRIES", 1)
    server.answer = lambda handler, number: handler.reply(200, content)
    [answer] = ask()
    assert "no chat completion (" in answer.failure and "DecodeError)" in answer.failure
    assert answer.requests == 2


def in_pieces(handler, number):
    """A body that comes byte by byte and never ends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def test_what_a_server_may_send_is_a_text_or_a_reason_and_no_exception(server, ask, monkeypatch):
    """Twenty kinds of bad answers at once, beside a good one, which arrives."""
    monkeypatch.setattr(endpoints, "RETRIES", 1)
    soon = {"retry-after-ms": "1"}
    huge = body("x" * (endpoints.MOST_BYTES + 1))
    kinds = {
        "good": (lambda h, n: h.reply(200, body(say("crane"))), None),
        "slow": (lambda h, n: time.sleep(3), "no answer within 2 s"),
        "endless": (in_pieces, "no answer within 2 s"),
        "busy": (lambda h, n: h.reply(429, {"error": {"message": "busy"}}, soon), "HTTP 429: busy"),
        "broken": (lambda h, n: h.reply(500, b"<html>oops", soon), "HTTP 500: <html>oops"),
        "refused": (lambda h, n: h.reply(400, {"error": {"message": "too\nlong"}}), "HTTP 400: too long"),
        "odd error": (lambda h, n: h.reply(418, [1, 2]), "HTTP 418"),
        "cut": (lambda h, n: h.reply(200, body("x"), cut=9), "no connection, or one that ended early"),
        "no json": (lambda h, n: h.reply(200, b"<html>"), "no chat completion (JSONDecodeError)"),
        "no text": (lambda h, n: h.reply(200, b"\xff\xfe\xff"), "no chat completion"),
        "nothing": (lambda h, n: h.reply(200, b""), "no chat completion"),
        "list": (lambda h, n: h.reply(200, [1]), "no chat completion"),
        "null": (lambda h, n: h.reply(200, None), "no chat completion"),
        "deep": (lambda h, n: h.reply(200, b"[" * 200_000), "no chat completion (RecursionError)"),
        "no choices": (lambda h, n: h.reply(200, {**body(""), "choices": []}), "without choices"),
        "null choice": (lambda h, n: h.reply(200, {**body(""), "choices": [None]}), "no chat completion"),
        "parts": (lambda h, n: h.reply(200, body([{"type": "text"}])), "content is no text"),
        "filter": (lambda h, n: h.reply(200, body("<gue", finish="content_filter")), "content filter"),
        "refusal": (lambda h, n: h.reply(200, body(None, refusal="I may not")), "refused: I may not"),
        "huge": (lambda h, n: h.reply(200, huge), "more than 4,194,304"),
        "hangs up": (
            lambda h, n: h.connection.shutdown(socket.SHUT_RDWR),
            "no connection, or one that ended early",
        ),
    }
    server.answer = lambda handler, number: kinds[server.asked[number - 1]["messages"][0]["content"]][0](
        handler, number
    )
    chats = [[{"role": "user", "content": kind}] for kind in kinds]
    endpoint = Endpoint(server.url, "good", KEY, concurrency=4, timeout=2.0)
    answers = complete(endpoint, chats, [0] * len(chats), max_completion_length=50)
    for (kind, (_, failure)), answer in zip(kinds.items(), answers, strict=True):
        assert (answer.text is None) == (failure is not None), (kind, answer)
        assert failure is None or failure in answer.failure, (kind, answer)
        assert failure is None or (answer.failure.isprintable() and len(answer.failure) < 300)


def test_a_body_without_an_end_is_read_up_to_the_limit(server, ask):
    """What a server sends for ever, as fast as it can, takes no more memory than the longest answer."""
    sent = []

    def flood(handler, number):
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while sum(sent) < 40 * endpoints.MOST_BYTES:
                sent.append(handler.wfile.write(b" " * 2**20))

    server.answer = flood
    [answer] = ask()
    assert answer.failure == "an answer too long: more than 4,194,304 bytes" and answer.requests == 1
    assert sum(sent) < 10 * endpoints.MOST_BYTES  # what fits into the buffers of the connection


@pytest.mark.parametrize(
    "text", ["", None, "\ud800<guess>", "\x00\x1b[2J", "<think>" * 10_000, "ß" * 100_000]
)
def test_any_text_is_an_answer_and_can_be_sent_again(server, ask, text):
    server.answer = lambda handler, number: handler.reply(200, body(text))
    [answer] = ask()
    assert answer.failure is None
    assert answer.text == (text or "").replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    answer.text.encode()


def test_tokens_that_a_server_does_not_count_or_counts_oddly_are_unknown(server, ask):
    bad = {**body("x"), "usage": {"prompt_tokens": "many", "completion_tokens": -1}}
    for content in (bad, {**body("x"), "usage": None}):
        server.answer = lambda handler, number, content=content: handler.reply(200, content)
        [answer] = ask()
        assert answer.text == "x" and usage([answer])["prompt_tokens"] is None


def test_a_server_that_stays_busy_until_the_time_is_over_is_named_by_its_status(server, ask):
    server.answer = lambda handler, number: handler.reply(429, {"error": "busy"}, {"Retry-After": "30"})
    [answer] = ask(timeout=0.5)
    assert answer.failure == "no answer within 0.5 s (HTTP 429)" and answer.requests == 1
    server.answer = in_pieces
    [answer] = ask(timeout=0.5)
    assert answer.failure == "no answer within 0.5 s"


def test_an_answer_that_is_refused_is_counted_with_the_tokens_that_it_cost(server, ask):
    finish = iter(["stop", "content_filter"])
    server.answer = lambda handler, number: handler.reply(200, body(say("crane"), finish=next(finish)))
    answers = ask(2, concurrency=1)
    assert [answer.failure is None for answer in answers] == [True, False]
    assert (usage(answers)["prompt_tokens"], usage(answers)["completion_tokens"]) == (200, 14)


def test_the_newer_name_of_the_cap_is_used_where_a_model_asks_for_it(server, ask):
    def picky(handler, number):
        if "max_tokens" in server.asked[number - 1]:
            said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            handler.reply(400, {"error": {"message": said}})
        else:
            handler.reply(200, body(say("crane")))

    server.answer = picky
    [answer] = ask()
    assert answer.text == say("crane") and server.asked[1]["max_completion_tokens"] == 50


def test_the_key_is_in_nothing_that_a_server_makes_us_say(server, ask, tmp_path, caplog, monkeypatch):
    """A server that echoes the Authorization header, in errors and in answers; the log of the client too."""
    caplog.set_level("DEBUG")

    def echo(handler, number):
        header = handler.headers["Authorization"]
        assert header == f"Bearer {KEY}"
        if number == 1:
            handler.reply(200, body(f"You sent {header}"))
        elif number == 2:
            handler.reply(200, body(None, refusal=header))
        else:
            handler.reply(418, {"error": {"message": f"bad {header}", "code": header}}, {"X-Echo": header})

    server.answer = echo
    answers = ask(n=3, concurrency=1)
    assert answers[0].text == "You sent Bearer ***" and "bad Bearer ***" in answers[2].failure
    server.models = lambda handler: handler.reply(401, {"error": handler.headers["Authorization"]})
    with pytest.raises(ValueError, match=r"refuses the key \(HTTP 401\)") as refused:
        connect(server.url, "good")
    server.models = lambda handler: handler.reply(200, {"data": [{"id": handler.headers["Authorization"]}]})
    with pytest.raises(ValueError, match="does not answer as") as unknown:
        connect(server.url, "good")
    endpoint = Endpoint(server.url, "good", KEY)
    said = f"{answers} {refused.value} {unknown.value} {endpoint} {caplog.text}"
    assert KEY not in said and KEY[:12] not in said


def test_a_placeholder_key_is_no_secret_and_changes_no_answer(server):
    server.answer = lambda handler, number: handler.reply(200, body(say("empty")))
    [answer] = complete(Endpoint(server.url, "good", "empty"), [CHAT], [0], max_completion_length=5)
    assert answer.text == say("empty")


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://x/v1", "file:///etc/passwd", "http://", "http://[x"]
)
def test_only_http_urls_are_asked(url):
    with pytest.raises(ValueError, match="is no URL of a server: write one such as http"):
        connect(url, "good")


@pytest.mark.parametrize("url", [f"http://me:{KEY}@localhost/v1", f"http://localhost/v1?key={KEY}"])
def test_a_url_with_a_key_in_it_is_refused_without_showing_it(url):
    with pytest.raises(ValueError, match="holds a user, a query or a fragment") as refused:
        connect(url, "good")
    assert KEY not in str(refused.value)


def test_a_missing_key_is_named_before_anything_is_asked(server, project, monkeypatch):
    monkeypatch.delenv(endpoints.KEY)
    with pytest.raises(ValueError, match=r"no OPENAI_API_KEY in the environment or in \.env"):
        connect(server.url, "good")
    (project / ".env").write_text(f"export {endpoints.KEY}='{KEY}'\n")
    assert connect(server.url, "good").key == KEY


def test_a_server_that_is_not_there_and_a_model_that_it_lacks_are_named(server):
    server.answer = lambda handler, number: handler.reply(404, {"error": {"message": "no such model"}})
    with pytest.raises(ValueError, match=r"as 'bad' \(HTTP 404: no such model\); it has good, other"):
        connect(server.url, "bad")
    with Server() as closed:
        url = closed.url
    with pytest.raises(ConnectionError, match=f"no server answers at {url}: start it, or correct the URL"):
        connect(url, "good")


def test_a_model_that_no_list_names_is_asked_for_a_word(server):
    assert connect(server.url, "short-name").model == "short-name"
    server.models = lambda handler: handler.reply(404, b"not here")
    assert connect(server.url, "good").model == "good"
    assert len(server.asked) == 2


def test_nothing_that_was_answered_is_asked_again_even_after_a_line_cut_by_a_kill(server, tmp_path):
    file = tmp_path / "answers.jsonl"
    endpoint = Endpoint(server.url, "good", KEY)
    chats = [[{"role": "user", "content": str(number)}] for number in range(6)]
    first = completer(endpoint, file, 50)(chats[:4], range(4))
    file.write_bytes(file.read_bytes()[:-20])
    again = completer(endpoint, file, 50)
    answers = again(chats, range(6))
    assert len(server.asked) == 4 + 1 + 2
    assert [answer.text for answer in answers[:4]] == [answer.text for answer in first]
    assert again(chats, range(6)) == answers and sorted(read_answers(file)) == sorted(answers)
    completer(endpoint, file, 50)(chats, range(1, 7))
    assert len(server.asked) == 7 + 6  # other seeds are other games


@pytest.fixture(scope="module")
def words(shipped):
    return sample_words(shipped, 8, seed=3)


def played(server, words, tmp_path, **settings):
    rules = rules_for(words, **settings)
    ask = completer(Endpoint(server.url, "good", KEY), tmp_path / "answers.jsonl", 50)
    return play_games(endpoint_player(ask, rules), words.answers, words, rules, name="endpoint")


def test_a_failed_request_fails_its_game_with_the_reason_and_no_other(server, words, tmp_path):
    """The first request of turn 2 is refused; that game has no guess from there on and asks no more."""

    def answer(handler, number):
        if number == len(words.answers) + 1:
            handler.reply(400, {"error": {"message": f"no: {handler.headers['Authorization']}"}})
        else:
            handler.reply(200, body(say(words.answers[0])))

    server.answer = answer
    games = played(server, words, tmp_path)
    assert len(games) == len(words.answers) and games[0]["n_guesses"] == 1
    [failed] = [game for game in games if game["turns"][-1]["reason"] == "failed"]
    assert [turn["reason"] for turn in failed["turns"]] == ["ok"] + ["failed"] * 5
    assert {turn["text"] for turn in failed["turns"][1:]} == {"HTTP 400: no: Bearer ***"}
    assert not failed["won"] and guesses_or_loss(failed) == 7
    assert len(server.asked) == 1 + 6 * 6 + 2
    summary = summarise(games)
    assert summary["games"] == len(words.answers) and summary["malformed_share"] == 0, "no turns of the model"
    [read] = analysis.from_records(games).values()
    assert analysis.summary(read, analysis.turn_flags(read)) == pytest.approx(summary)
    assert KEY not in json.dumps(games)


@pytest.mark.parametrize("history", ["fresh", "chat"])
def test_the_prompts_are_those_of_every_other_model_and_odd_texts_are_played_on(
    server, words, tmp_path, history
):
    texts = ["<|im_start|>user", "\ud800", "", say("zzzzz"), say(words.answers[1]), "<guess>" * 1000]
    server.answer = lambda handler, number: handler.reply(200, body(texts[number % len(texts)]))
    games = played(server, words, tmp_path, history=history)
    assert all(game["n_guesses"] == 6 or game["won"] for game in games)
    assert all(turn["reason"] != "failed" for game in games for turn in game["turns"])
    assert server.asked[0]["messages"][0]["role"] == "system"
    assert server.asked[0]["messages"][1]["content"] == "Turn 1 of 6."


def test_the_game_is_that_of_another_run_or_the_shipped_one(shipped, tmp_path):
    """Both when it is played and when it is shown again."""
    other = ROOT / "results" / "reference" / "cpu-demo"
    stage = tmp_path / "run" / "04_eval"
    stage.mkdir(parents=True)
    run = runs.Run("04_eval", None, stage, resumed=False)
    for source, answers in ((str(other), 256), ("shipped", len(shipped.answers))):
        game = data.load_for(run, source)
        (stage / "config.yaml").write_text(f"data_from: {source}\n")
        assert len(game.words.answers) == answers and data.played_in(stage.parent).words == game.words
        assert game.rules.answers_sha256 == game.words.sha256["answers"] and game.split.test
    (stage / "config.yaml").write_text("players: [greedy]\n")
    for load in (lambda: data.load_for(run), lambda: data.played_in(stage.parent)):
        with pytest.raises((ValueError, OSError), match="01_data_synthesis"):
            load()
    with pytest.raises(ValueError, match="01_data_synthesis is not there"):
        data.load_for(run, str(tmp_path / "none"))


# The command line --------------------------------------------------------------------------------


def evaluate(server, out, *options):
    return ["eval", "--endpoint", server.url, "--model", "good", "--out", str(out), *options]


def guess_by_turn(server):
    """The answer of a model that knows the first words of the list, whatever it is asked."""
    firsts = ("crane", "slate", "speed", "those", "magma", "llama")

    def answer(handler, number):
        turn = int(server.asked[number - 1]["messages"][1]["content"].split()[1])
        handler.reply(200, body(say(firsts[turn - 1]) + f" sent with {handler.headers['Authorization']}"))

    return answer


def test_wrong_use_is_one_sentence_before_any_folder_is_made(server, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    cases = [
        (["eval"], "name a run with --run, a folder with --model, a model of a server with --endpoint,"),
        (["eval", "--endpoint", server.url], "needs --endpoint URL, --model NAME and --out DIR"),
        (evaluate(server, out, "--set", "timeout=no"), "04_eval: timeout is 'no'"),
        (evaluate(server, out, "--run", str(tmp_path / "none")), "run notebook 01_data_synthesis first"),
        (evaluate(server, out, "--set", "endpoint=ftp://x"), "is no URL of a server"),
        (evaluate(server, out, "--set", "model=bad"), "does not answer as 'bad'"),
    ]
    server.answer = lambda handler, number: handler.reply(404, {"error": {"message": "no such model"}})
    for arguments, sentence in cases:
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1
    monkeypatch.setattr(runs, "secret_value", lambda name: "")
    monkeypatch.setattr(endpoints, "secret_value", lambda name: "")
    assert main(evaluate(server, out)) == 2 and "no OPENAI_API_KEY" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"players": ["endpoint"]}, "the player endpoint needs endpoint"),
        (
            {"players": ["endpoint"], "endpoint": "http://x", "model": ""},
            "the player endpoint needs endpoint",
        ),
        ({"players": ["greedy"], "endpoint": "http://x"}, "the player endpoint needs endpoint"),
        ({"players": ["endpoint"], "endpoint": f"http://{KEY}@x"}, "holds a user"),
    ],
)
def test_the_player_needs_its_url_and_model(changes, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        params.resolve("04_eval", example("04_eval", **changes))
    assert KEY not in str(refused.value)


def test_a_killed_evaluation_goes_on_pays_nothing_twice_and_ends_in_a_table(server, tmp_path, capfd):
    """Killed in its second turn; the same command ends it, and who was through plays no more. The key stands
    nowhere in the folder."""
    out = tmp_path / "out"
    arguments = evaluate(server, out, "--max-games", "6", "--secrets", "heldout")
    arguments += ["--set", 'players=["greedy", "endpoint"]']
    killed_at(9, server, guess_by_turn(server), [*arguments, "--set", "concurrency=2"])
    before = [json.dumps(asked["messages"]) for asked in server.asked[:8]]
    assert runs.status(out / "04_eval")["status"] == "running"
    paid, [through] = len(server.asked), runs.read_log(out / "04_eval" / "log.jsonl")
    assert main(arguments) == 0  # how many at once may change
    shown = capfd.readouterr().out
    games = read_games(out / "04_eval" / "games.jsonl")
    assert [game["player"] for game in games] == ["greedy"] * 6 + ["endpoint"] * 6
    assert "greedy: won" not in shown and runs.read_log(out / "04_eval" / "log.jsonl")[0] == through
    games = games[6:]
    taken = sum(game["n_guesses"] for game in games)
    under_way = paid - len(before)
    assert under_way <= 2 and len(server.asked) == taken + under_way
    metrics = runs.read_json(out / "04_eval" / "metrics.json")
    assert metrics["endpoint/all/games"] == metrics["endpoint/heldout/games"] == 6
    assert metrics["endpoint/requests"] == taken and metrics["endpoint/retries"] == 0
    assert metrics["endpoint/completion_tokens_per_game"] == 7 * taken / 6
    assert "is good: a game took" in shown and "prompt and" in shown and "endpoint" in shown
    runs.require_complete_notebook(out / "04_eval" / "04_eval.ipynb")
    for path in [*out.glob("**/*")]:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert KEY not in shown
    # finished: shown again, nothing is asked
    asked = len(server.asked)
    assert main(arguments) == 0 and len(server.asked) == asked
    assert "a game took" in capfd.readouterr().out
    assert main(evaluate(server, out, "--max-games", "7", "--secrets", "heldout")) == 2
    assert "was made with max_games=6, not 7" in capfd.readouterr().err


def test_slots_of_requests_are_evenly_spaced(monkeypatch):
    clock = iter([100.0, 100.0, 101.0, 130.0])
    monkeypatch.setattr(endpoints.time, "monotonic", lambda: next(clock))
    pace = endpoints.Pace(per_minute=20)
    assert [pace.delay() for _ in range(4)] == [0.0, 3.0, 5.0, 0.0]
    monkeypatch.undo()
    assert [endpoints.Pace().delay() for _ in range(3)] == [0.0] * 3


def test_every_request_takes_a_slot_retries_too(server):
    class Counted(endpoints.Pace):
        slots = 0

        def delay(self):
            self.slots += 1
            return 0.0

    def often_busy(handler, number):
        if number % 3 == 1:
            handler.reply(429, b"{}", {"retry-after": "0"})
        else:
            handler.reply(200, body("crane"))

    server.answer = often_busy
    endpoint = Endpoint(server.url, "good", KEY, 4, 30.0, Counted())
    answers = complete(endpoint, [CHAT] * 6, list(range(6)), max_completion_length=50)
    assert all(answer.text for answer in answers)
    assert endpoint.pace.slots == sum(answer.requests for answer in answers) == len(server.asked) > 6
