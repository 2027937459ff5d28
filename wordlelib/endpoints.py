"""Models behind an OpenAI-compatible server: a batch of chats in, for each a text or why there is none.

The key comes from the environment or the project's `.env` and goes to the server alone: it is taken out of
everything that the server says before that is shown or written.
"""

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from wordlelib.prompts import printable
from wordlelib.runs import read_log, secret_value, write_text

KEY = "OPENAI_API_KEY"
RETRIES = 8  # of the client, with its back-off, on 408, 409, 429, 5xx, lost connections, no JSON
MOST_BYTES = 4 * 2**20  # of one answer: no cap on tokens that can be asked for allows as much
SHORTEST_SECRET = 8  # a shorter key is a placeholder for a server that asks for none, and may be a word
Chat = list[dict[str, str]]

# What became of the requests sent for the chat that the task asks about: a status each, 0 without one.
_sent: ContextVar[list[int]] = ContextVar("statuses")


class Answer(NamedTuple):
    """What became of one chat: `text`, or None and the `failure` in words.

    Tokens are as the server counts them, None where it does not. requests: sent for it, retries included.
    seconds: from the first request to the end, waiting before a retry included.
    """

    text: str | None
    failure: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    requests: int = 0
    seconds: float = 0.0


class Pace:
    """When requests may be sent: evenly spaced, `per_minute` at most (0: at once), for all threads."""

    def __init__(self, per_minute: int = 0) -> None:
        self.interval = 60 / per_minute if per_minute else 0.0
        self._free, self._lock = 0.0, threading.Lock()

    def delay(self) -> float:
        """Take the next slot; the seconds until then."""
        with self._lock:
            now = time.monotonic()
            slot = max(now, self._free)
            self._free = slot + self.interval
        return slot - now


@dataclass(frozen=True)
class Endpoint:
    """A model on a server. concurrency: requests under way at once. timeout: seconds for one answer, its
    retries included, but not the wait for the first slot of `pace`."""

    url: str
    model: str
    key: str = field(repr=False)
    concurrency: int = 16
    timeout: float = 120.0
    pace: Pace = field(default_factory=Pace)


def connect(
    url: str, model: str, concurrency: int = 16, timeout: float = 120.0, requests_per_minute: int = 0
) -> Endpoint:
    """The model `model` of the server at `url`, once both are seen to be there.

    A model that the server does not list (names may be short for others) is asked for one word. Raises
    ValueError for a URL that is not plain http(s), a missing key, one that the server refuses, and an unknown
    model; ConnectionError for a server that cannot be reached.
    """
    check_url(url)
    if not model:
        raise ValueError(f"no model is named for {url}: give the name that the server knows it by")
    key = secret_value(KEY)
    if not key:
        raise ValueError(
            f"no {KEY} in the environment or in .env: set it (to any text for a server that asks for none)"
        )
    if not (key.isascii() and key.isprintable()):
        raise ValueError(f"{KEY} holds characters that no key has: copy it again")
    endpoint = Endpoint(url, model, key, concurrency, timeout, Pace(requests_per_minute))
    _in_thread(_check_model(endpoint))
    return endpoint


def check_url(url: str) -> None:
    """Raise ValueError unless `url` is plain http(s), with nothing in it that may be a key."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        plain, parts = False, None
    if parts and (parts.username or parts.password or parts.query or parts.fragment):
        # not shown: what stands there is often a key
        raise ValueError(
            f"the endpoint's URL holds a user, a query or a fragment: leave it out, and set {KEY}"
        )
    if not plain:
        raise ValueError(
            f"endpoint {url!r} is no URL of a server: write one such as http://localhost:8000/v1"
        )


async def _check_model(endpoint: Endpoint) -> None:
    import openai

    names: list[str] = []
    async with _client(endpoint, timeout=min(endpoint.timeout, 20.0), max_retries=2) as client:
        try:
            raw = await client.models.with_raw_response.list()
            names = [str(row["id"]) for row in json.loads(raw.content)["data"]]
        except openai.APIConnectionError:
            raise ConnectionError(
                f"no server answers at {endpoint.url}: start it, or correct the URL (most end in /v1)"
            ) from None
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise ValueError(
                f"{endpoint.url} refuses the key (HTTP {error.status_code}): set {KEY} to one that it knows"
            ) from None
        except Exception:  # not every server lists its models, and what it sends then is anything
            names = []
    if endpoint.model in names:
        return
    [answer] = await _ask_all(endpoint, [[{"role": "user", "content": "Say hello."}]], [{"max_tokens": 16}])
    if answer.failure:
        listed = f"; it has {', '.join(map(printable, names[:10]))}" if names else ""
        listed = _without_key(listed, endpoint.key) + ", …" * (len(names) > 10)
        raise ValueError(f"{endpoint.url} does not answer as {endpoint.model!r} ({answer.failure}){listed}")


def complete(
    endpoint: Endpoint,
    chats: Sequence[Chat],
    seeds: Sequence[int],
    *,
    max_completion_length: int,
    temperature: float = 0.0,
    on_answer: Callable[[int, Answer], None] = lambda place, answer: None,
) -> list[Answer]:
    """One answer a chat, in order; a chat that cannot be answered has a failure and stops no other.

    seeds: one a chat, sent where there is something to draw (temperature above 0). on_answer: called with a
    chat's place and answer as soon as it is there, from another thread but never twice at once.
    """
    options = [
        {"max_tokens": max_completion_length, "temperature": temperature}
        | ({"seed": seed} if temperature > 0 else {})
        for seed in seeds
    ]
    return _in_thread(_ask_all(endpoint, chats, options, on_answer))


def completer(
    endpoint: Endpoint, file: str | Path, max_completion_length: int, temperature: float = 0.0
) -> Callable[[Sequence[Chat], Sequence[int]], list[Answer]]:
    """`complete` that asks nothing twice: (chats, one seed a chat) -> answers.

    Each answer is a line of `file` as soon as it is there, failures too, found again by model, settings, seed
    and chat. So a run that was killed goes on where it was, and pays at most for what was under way.
    """
    file = Path(file)
    rows = read_log(file) if file.is_file() else []
    write_text(file, "".join(json.dumps(row) + "\n" for row in rows))  # without a line that a kill cut short
    known = {row.pop("key"): Answer(**row) for row in rows}
    settings = (endpoint.model, max_completion_length, temperature)

    def ask(chats: Sequence[Chat], seeds: Sequence[int]) -> list[Answer]:
        keys = [
            hashlib.sha256(json.dumps([*settings, seed, chat]).encode()).hexdigest()
            for chat, seed in zip(chats, seeds, strict=True)
        ]
        new = [place for place, key in enumerate(keys) if key not in known]

        with open(file, "a", encoding="utf-8") as lines:

            def keep(place: int, answer: Answer) -> None:
                key = keys[new[place]]
                known[key] = answer
                lines.write(json.dumps({"key": key, **answer._asdict()}) + "\n")
                lines.flush()

            complete(
                endpoint,
                [chats[place] for place in new],
                [seeds[place] for place in new],
                max_completion_length=max_completion_length,
                temperature=temperature,
                on_answer=keep,
            )
        return [known[key] for key in keys]

    return ask


def read_answers(file: str | Path) -> list[Answer]:
    """The answers that a `completer` has written."""
    return [Answer(**{name: row[name] for name in Answer._fields}) for row in read_log(file)]


def usage(answers: Iterable[Answer]) -> dict[str, int | float | None]:
    """What answers took together.

    requests, retries, failed_requests (chats without an answer), prompt_tokens and completion_tokens (None
    where the server did not count), request_seconds.
    """
    answers = list(answers)

    def tokens(name: str) -> int | None:
        counts = [(answer.failure, getattr(answer, name)) for answer in answers]
        # a failure costs what the server says: nothing where it says nothing
        return None if (None, None) in counts else sum(count or 0 for _, count in counts)

    requests = sum(answer.requests for answer in answers)
    return {
        "requests": requests,
        "retries": requests - sum(answer.requests > 0 for answer in answers),
        "failed_requests": sum(answer.failure is not None for answer in answers),
        "prompt_tokens": tokens("prompt_tokens"),
        "completion_tokens": tokens("completion_tokens"),
        "request_seconds": sum(answer.seconds for answer in answers),
    }


def failures(answers: Iterable[Answer]) -> dict[str, int]:
    """How many chats got no answer, by reason without its details, the most frequent first."""
    reasons = (answer.failure.partition(":")[0] for answer in answers if answer.failure is not None)
    return dict(Counter(reasons).most_common())


def _client(endpoint: Endpoint, **options: Any) -> Any:
    import httpx2  # the openai client's own
    import openai

    async def count(request: Any) -> None:
        if (statuses := _sent.get(None)) is not None:
            if statuses:  # a retry; the first request has waited already, outside its time limit
                await asyncio.sleep(endpoint.pace.delay())
            statuses.append(0)

    async def bound(response: Any) -> None:
        if statuses := _sent.get(None):
            statuses[-1] = response.status_code
        response.stream = _bounded(response.stream)
        if statuses and response.is_success and len(body := await response.aread()) <= MOST_BYTES:
            try:
                json.loads(body)
            except ValueError as error:  # as of a proxy in trouble; the client asks again after this
                raise httpx2.DecodingError("not JSON", request=response.request) from error

    # At the level DEBUG it logs the headers of a response, in which a server may send back the key.
    logging.getLogger("httpcore2").setLevel(logging.WARNING)
    http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [count], "response": [bound]})
    return openai.AsyncOpenAI(api_key=endpoint.key, base_url=endpoint.url, http_client=http, **options)


def _bounded(stream: Any) -> Any:
    """The body of a response, which ends where it is seen to be too long: no server can fill the memory."""

    class Bounded(type(stream)):  # of the client's own kind, as it asks for
        def __init__(self) -> None:
            pass

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = MOST_BYTES + 1
            async for part in stream:
                yield part[:left]
                left -= len(part)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


async def _ask_all(
    endpoint: Endpoint,
    chats: Sequence[Chat],
    options: Sequence[dict[str, Any]],
    on_answer: Callable[[int, Answer], None] = lambda place, answer: None,
) -> list[Answer]:
    places = asyncio.Semaphore(endpoint.concurrency)

    async def one(client: Any, place: int) -> Answer:
        async with places:
            await asyncio.sleep(endpoint.pace.delay())
            answer = await _ask(endpoint, client, chats[place], options[place])
        on_answer(place, answer)
        return answer

    async with _client(endpoint, timeout=endpoint.timeout, max_retries=RETRIES) as client:
        return await asyncio.gather(*(one(client, place) for place in range(len(chats))))


async def _ask(endpoint: Endpoint, client: Any, chat: Chat, options: dict[str, Any]) -> Answer:
    import openai

    _sent.set(statuses := [])  # the hooks of the client write in it
    begin = time.monotonic()
    answer = Answer(None)
    try:
        # A server can send byte after byte for ever, which no timeout of a single read ends.
        async with asyncio.timeout(endpoint.timeout):
            try:
                raw = await _post(client, endpoint.model, chat, options)
            except openai.BadRequestError as error:
                if "max_completion_tokens" not in str(error):
                    raise
                # the newer name of the same cap: some models take this one alone, many servers the other
                renamed = {**options, "max_completion_tokens": options["max_tokens"]}
                del renamed["max_tokens"]
                if renamed.get("temperature") == 0:
                    del renamed["temperature"]  # these models decode at a temperature of their own
                raw = await _post(client, endpoint.model, chat, renamed)
        answer = _read(raw.content)
    except Exception as error:  # whatever it is, it is this chat's and no other's
        answer = Answer(None, _why(error, endpoint, statuses))
    text, failure = (part and _without_key(part, endpoint.key) for part in answer[:2])
    seconds = round(time.monotonic() - begin, 3)
    return answer._replace(text=text, failure=failure, requests=len(statuses), seconds=seconds)


async def _post(client: Any, model: str, chat: Chat, options: dict[str, Any]) -> Any:
    return await client.chat.completions.with_raw_response.create(model=model, messages=chat, **options)


def _read(body: bytes) -> Answer:
    """The answer in the body of a response; any exception says that it is no chat completion."""
    if len(body) > MOST_BYTES:
        return Answer(None, f"an answer too long: more than {MOST_BYTES:,} bytes")
    content = json.loads(body)
    counted = content.get("usage") or {}
    tokens = [_count(counted.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    if not content["choices"]:
        return Answer(None, "an answer without choices", *tokens)
    choice = content["choices"][0]
    message = choice["message"]
    if choice.get("finish_reason") == "content_filter":
        return Answer(None, "refused: the server's content filter stopped the answer", *tokens)
    if message.get("refusal"):
        return Answer(None, f"refused: {_short(message['refusal'])}", *tokens)
    text = message.get("content")
    if not isinstance(text, str | None):
        return Answer(None, "an answer whose content is no text", *tokens)
    # A model that spent all its tokens on thinking of which the server keeps the text says nothing. Half of a
    # surrogate pair is no character: it could be neither written nor sent again.
    return Answer((text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace"), None, *tokens)


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _why(error: Exception, endpoint: Endpoint, statuses: Sequence[int]) -> str:
    """A failure in words. The client's own messages may quote the server, which may quote the key."""
    import httpx2
    import openai

    if isinstance(error, TimeoutError | openai.APITimeoutError):
        # a busy server is one that answers, though no retry helped in time
        refused = next((status for status in reversed(statuses) if status >= 400), 0)
        return f"no answer within {endpoint.timeout:g} s" + f" (HTTP {refused})" * bool(refused)
    if isinstance(error, openai.APIStatusError):
        said = error.body.get("message") if isinstance(error.body, dict) else error.body
        said = _short(_without_key(str(said or ""), endpoint.key))
        return f"HTTP {error.status_code}" + f": {said}" * bool(said)
    if isinstance(error.__cause__, httpx2.DecodingError):
        error = error.__cause__.__cause__ or error.__cause__
    elif isinstance(error, openai.APIConnectionError):
        return f"no connection, or one that ended early ({type(error.__cause__).__name__})"
    return f"an answer that is no chat completion ({type(error).__name__})"


def _short(text: Any) -> str:
    """The beginning of a text as one printable line."""
    return printable(" ".join(str(text).split()))[:200]


def _without_key(text: str, key: str) -> str:
    return text.replace(key, "***") if len(key) >= SHORTEST_SECRET else text


def _in_thread(task: Any) -> Any:
    """Run a coroutine to its end: in a thread of its own, since a notebook's has a loop already."""
    from anyio.from_thread import start_blocking_portal

    async def run() -> Any:
        return await task

    # An interrupt cancels what is under way instead of waiting for it.
    with start_blocking_portal() as portal:
        return portal.call(run)
