"""Run folders on an object store, through fsspec: finished stages are copied there, and taken from there.

Work is done in a folder of this machine, since training renames and appends, which object stores do not
offer. At the address `status.json` is deleted first and written last, so a stage there is whole or does not
say that it is done. Errors of the store are OSError with one sentence.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wordlelib import params, runs

STATUS = "status.json"


def check(address: str) -> None:
    """Raise ValueError for what is no address or holds a password, OSError for one that cannot be written."""
    if "://" not in address:
        raise ValueError(f"--store {address}: write an address such as s3://bucket/run; --out takes folders")
    if urlsplit(address).password:
        raise ValueError("--store: leave the password out of the address; its place is the environment")
    with _opened(address) as (files, root):
        files.pipe_file(f"{root}/.writable", b"")
        files.rm_file(f"{root}/.writable")


def fetch(address: str, folder: Path) -> None:
    """Copy every finished stage at the address into the folder, where that lacks it or has it torn.

    Raises ValueError for one that the folder has in another making: neither is thrown away.
    """
    with _opened(address) as (files, root):
        found = [path for path in files.find(root) if path.endswith(f"/{STATUS}")]
        for path in sorted(found):
            remote = path.removesuffix(f"/{STATUS}")
            stage = folder / remote.removeprefix(root).strip("/")
            status = _status(files, remote)
            if stage.name not in params.STAGES or status.get("status") != "done":
                continue
            if runs.state(stage) in ("absent", "torn"):
                _get(files, remote, stage)
                if _status(files, remote) != status or runs.state(stage) != "done":
                    (stage / STATUS).unlink(missing_ok=True)
                    raise ValueError(f"{address}: {stage.name} was changed while it was copied: try again")
                print(f"{runs.shown_path(stage)}: copied from {address}", flush=True)
            elif runs.status(stage) != status:
                raise ValueError(_differs(address, stage))


def withdraw(address: str, stages: Iterable[str]) -> None:
    """Take back at the address that stages are done: they are about to be made again."""
    with _opened(address) as (files, root):
        for stage in stages:
            _remove(files, f"{root}/{stage}/{STATUS}")


def send(address: str, folder: Path, stage: str = "") -> None:
    """Copy every finished stage that the address lacks, and the files beside them, or `stage` alone.

    Links are followed: an object store has none. Raises ValueError for a stage that was made elsewhere
    meanwhile.
    """
    with _opened(address) as (files, root):
        for path in [folder / stage] if stage else _finished(folder):
            remote = f"{root}/{path.relative_to(folder).as_posix()}"
            status = _status(files, remote)
            if status.get("status") == "done":
                if status != runs.status(path):
                    raise ValueError(_differs(address, path))
                continue
            _put(files, path, remote)
            print(f"{runs.shown_path(path)}: copied to {address}", flush=True)
        for path in () if stage else folder.iterdir():
            if path.is_file() and not path.name.startswith("."):
                files.put_file(str(path), f"{root}/{path.name}")


def offer(address: str, folder: Path, stage: str = "") -> None:
    """As `send`, but a store that does not answer is said and no error: the last copy tries all again."""
    try:
        send(address, folder, stage)
    except OSError as error:
        print(f"not copied yet: {error}", flush=True)


def _differs(address: str, stage: Path) -> str:
    return (
        f"{runs.shown_path(stage)} and the finished {stage.name} at {address} are not the same making: "
        "choose another --out or --store, or delete one of the two"
    )


@contextmanager
def _opened(address: str) -> Iterator[tuple[Any, str]]:
    """The file system of an address and the path in it; what it raises becomes one sentence."""
    local = address.startswith(("file://", "local://"))  # a disk has folders, which must be made
    try:
        import fsspec

        files, root = fsspec.url_to_fs(address, **({"auto_mkdir": True} if local else {}))
        files.invalidate_cache()  # another machine may have written there
        yield files, root.rstrip("/")
    except ValueError:
        raise
    except Exception as error:  # each store has its own kinds
        said = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"the store {address}: {said}") from None


def _status(files: Any, remote: str) -> dict[str, Any]:
    """What `status.json` of a stage at the address says; empty without one, or with a torn one."""
    try:
        found = json.loads(files.cat_file(f"{remote}/{STATUS}"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _finished(folder: Path) -> list[Path]:
    """Finished stages in a run folder, or in all those of a sweep."""
    found = [Path(where) for where, _, names in os.walk(folder, followlinks=True) if STATUS in names]
    return sorted(path for path in found if path.name in params.STAGES and runs.state(path) == "done")


def _get(files: Any, remote: str, stage: Path) -> None:
    with runs.replacing_folder(stage) as temporary:
        for path in files.find(remote):
            target = temporary / path.removeprefix(remote).strip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(path, str(target))


def _put(files: Any, stage: Path, remote: str) -> None:
    _remove(files, f"{remote}/{STATUS}")
    _remove(files, remote)
    names = sorted(path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file())
    for name in [*(name for name in names if name != STATUS), STATUS]:
        files.put_file(str(stage / name), f"{remote}/{name}")


def _remove(files: Any, path: str) -> None:
    if files.exists(path):
        files.rm(path, recursive=True)
