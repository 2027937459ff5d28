"""The same work on many items in processes of their own: in order, a few items at once, none left behind."""

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

AHEAD = 3  # items of each process that are under way, or done and not yet taken: a bound on memory


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(started: Any) -> None:
    """What a process does first: say so, and see to it that it ends with its parent, if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # idle, it has nothing to say of an interrupt
    started.set()

    def wait() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@lru_cache(maxsize=1)
def _opened(work: Path) -> Callable[[Any], Any]:
    return pickle.loads(work.read_bytes())


def _do(work: Path, item: Path) -> Any:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _opened(work)(pickle.loads(item.read_bytes()))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        item.unlink(missing_ok=True)


def _packed(file: Path, content: Any) -> Path:
    file.write_bytes(pickle.dumps(content))
    return file


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without interrupts: a second one, while processes end, would leave them and this one waiting for each
    other without end."""
    if threading.current_thread() is not threading.main_thread():  # no other is interrupted
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def each_done(
    work: Callable[[Any], Any], items: Iterable[Any], workers: int, verb: str, caller: str
) -> Iterator[Any]:
    """What `work` gives for each item, in order, by so many processes; for one worker by this process.

    work: is opened once by each process, and may keep there what it needs for all items; it, items and
    results can be pickled. Items are asked for as they are needed. verb, caller: what is done to rows and
    what the user called, for errors. Raises RuntimeError when no process could start and MemoryError when one
    was ended, each with one sentence.
    """
    if workers == 1:
        yield from map(work, items)
        return
    # In files, work and items: a process that cannot start, or was ended, reads nothing, and with more than a
    # pipe holds this one would wait for it without end (for items, before Python 3.11.5).
    with tempfile.TemporaryDirectory() as folder:
        packed = _packed(Path(folder) / "work", work)
        files = (_packed(Path(folder) / f"{number}", item) for number, item in enumerate(items))
        yield from _by_processes(packed, files, workers, verb, caller)


def _by_processes(packed: Path, files: Iterable[Path], workers: int, verb: str, caller: str) -> Iterator[Any]:
    # Not forked: a notebook's kernel has threads.
    spawn = multiprocessing.get_context("spawn")
    started, waiting = spawn.Event(), deque[Future]()
    pool = ProcessPoolExecutor(workers, spawn, _start, (started,))
    try:
        for file in files:
            waiting.append(pool.submit(_do, packed, file))
            if len(waiting) == AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        if not started.is_set():
            raise RuntimeError(
                f"no process that {verb}s rows could start: a script that calls `{caller}` keeps the "
                "call under `if __name__ == '__main__':`, since each of them imports it, or sets "
                "workers=1"
            ) from None
        raise MemoryError(
            f"one of {workers} processes that {verb} rows was ended, most likely for lack of memory: "
            "free some, or allow fewer processors"
        ) from None
    finally:
        with _undisturbed():
            pool.shutdown(cancel_futures=True)
