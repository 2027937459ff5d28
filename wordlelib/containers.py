"""Files of rows, read and written: JSON lines, CSV (read only), Parquet and folders of `datasets`.

A row that cannot be read is a `Bad` in its place; damage of a whole file is an error. Rows stream.
"""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wordlelib.data import Row, write_jsonl
from wordlelib.game import Turn
from wordlelib.runs import replacing, replacing_folder, whole_archive

LONGEST_ROW = 1 << 20  # bytes of a JSON line, characters of one of CSV; a longer one is no turn of a game
TOLD = {"turn", "guess", "feedback"}  # columns of a turn, whose game a file's name may say
BATCH = 1000  # rows of a table that are held at once
BLOCK = 1 << 20  # bytes of JSON lines that are; what is missing of the last line comes to them


class Bad(ValueError):
    """Why a row is left out: a kind, which is counted, and the detail of this row."""

    def __init__(self, kind: str, detail: object = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail != "" else kind)
        self.kind = kind


class Lines(NamedTuple):
    """Whole lines of JSON as they stand in a file, and the number of the first.

    Of a last line that is too long the end may be missing.
    """

    number: int
    text: bytes


def _json_lines(path: Path) -> Iterator[Lines]:
    number = 1
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        while text := file.read(BLOCK):
            end = text = text + file.readline(LONGEST_ROW + 1)
            yield Lines(number, text)
            while end and not end.endswith(b"\n"):
                end = file.readline(LONGEST_ROW)
            number += text.count(b"\n") + (not text.endswith(b"\n"))


def _json_rows(lines: Lines) -> Iterator[tuple[int, Row | Bad]]:
    for number, line in enumerate(BytesIO(lines.text), lines.number):
        if len(line) > LONGEST_ROW:
            yield number, Bad(f"the row is longer than {LONGEST_ROW:,} bytes")
        elif line := (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip():
            yield number, _json_row(line)


def require_characters(value: object) -> None:
    """Raise `Bad` for half a character in a text of `value`, which only an escape can write, and which no
    other container takes."""
    try:
        json.dumps(value, ensure_ascii=False, default=str, skipkeys=True).encode()
    except UnicodeEncodeError:
        raise Bad("half a character (a lone surrogate)") from None


def _json_row(line: bytes) -> Row | Bad:
    try:
        row = json.loads(line.decode())
        if b"\\u" in line:
            require_characters(row)
    except Bad as why:
        return why
    except (ValueError, RecursionError) as error:
        whole = line.endswith(b"}") or not line.startswith(b"{")
        return Bad("not JSON" if whole else "not JSON, the row seems half written", error)
    return row if isinstance(row, dict) else Bad("not a JSON object", type(row).__name__)


def _require_different(path: Path, columns: Iterable[str]) -> None:
    if twice := next((name for name, n in Counter(columns).items() if n > 1), None):
        raise ValueError(f"{path}: two columns have the name {twice!r}")


def _csv_rows(path: Path) -> Iterator[tuple[int, Row | Bad]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:

        def line() -> str:
            text = file.readline(LONGEST_ROW + 1)
            if len(text) > LONGEST_ROW:
                while text and text[-1] not in "\r\n":
                    text = file.readline(LONGEST_ROW)
                raise Bad(f"the row is longer than {LONGEST_ROW:,} characters")
            return text

        table = csv.DictReader(iter(line, ""), restkey="", strict=True)
        try:
            # Read here: in place of a first line that cannot be read the next would be taken.
            names = table.fieldnames or ()
        except (Bad, csv.Error) as error:
            raise ValueError(f"{path}, line 1: no header of a CSV file ({error})") from None
        _require_different(path, names)
        unnamed = TOLD.issubset(names) and not {"secret", "word"}.intersection(names)
        said = {"secret": path.name.partition(".csv")[0]} if unnamed else {}
        number = 0
        while True:
            number += 1
            try:
                row = next(table)
            except StopIteration:
                return
            except Bad as why:
                row = why
            except csv.Error as error:
                row = Bad("not CSV", error)
            if isinstance(row, dict) and (None in row.values() or "" in row):
                row = Bad("the row has another number of fields than the header")
            if not isinstance(row, Bad):
                # An empty field is all that CSV has for nothing.
                row = said | {name: text or None for name, text in row.items()}
            yield number, row


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        _require_different(path, file.schema_arrow.names)
        batches = (batch.to_pylist() for batch in file.iter_batches(BATCH))
        yield from enumerate(chain.from_iterable(batches), 1)


def _dataset_rows(path: Path) -> Iterator[tuple[int, Row]]:
    import datasets

    try:
        loaded = datasets.load_from_disk(str(path))
    except Exception as error:  # its files are read as if they were whole: anything may be missing in them
        raise ValueError(f"{path}: not a whole folder of `datasets` ({error})") from None
    if isinstance(loaded, datasets.DatasetDict):
        raise ValueError(f"{path}: a dataset of the splits {', '.join(loaded)}; name the folder of one")
    batches = (table.to_pylist() for table in loaded.with_format("arrow").iter(BATCH))
    yield from enumerate(chain.from_iterable(batches), 1)


Block = Lines | list[tuple[int | str, Row | Bad]]


def _batches(rows: Iterator[tuple[int | str, Row | Bad]]) -> Iterator[Block]:
    return iter(lambda: list(islice(rows, BATCH)), [])


def rows_of(block: Block) -> Iterable[tuple[int | str, Row | Bad]]:
    """The rows of a block with their numbers."""
    return _json_rows(block) if isinstance(block, Lines) else block


def _blocks(path: Path) -> Iterator[Block]:
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return _batches(_dataset_rows(path))
    if path.is_dir():
        if not (files := sorted(path.glob("*.csv"))):
            raise ValueError(f"{path}: a folder without CSV files that `save_to_disk` did not write either")
        return _batches(
            (f"{number} of {file.name}", row) for file in files for number, row in _csv_rows(file)
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file or folder")
    name = path.name.removesuffix(".gz") if path.suffix == ".gz" else path.name
    if Path(name).suffix == ".jsonl":
        return _json_lines(path)
    readers = {".parquet": _parquet_rows, ".csv": _csv_rows, ".csv.gz": _csv_rows}
    if not (reader := readers.get(path.name[len(Path(name).stem) :])):
        raise ValueError(f"{path}: use .jsonl or .csv (also with .gz), .parquet or a folder of `datasets`")
    return _batches(reader(path))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Damage of a whole file as one sentence."""
    try:
        with whole_archive(path):
            yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a UTF-8 text file ({error.reason})") from None
    except Exception as error:
        own = type(error).__module__.partition(".")[0] in ("pyarrow", "datasets")
        unnumbered = type(error) is OSError and error.errno is None  # of pyarrow too, not of the system
        # OverflowError: a date that Python cannot hold
        if not (own or unnumbered or isinstance(error, OverflowError)):
            raise
        raise ValueError(f"{path}: not a whole table ({error})") from None


def read_blocks(path: Path) -> Iterator[Block]:
    """The rows of a file or folder in blocks, JSON lines not yet read; its ending says how it is read.

    In a folder of CSV files the number of a row names its file. Turns in CSV without a column that says the
    secret have the file's name as `secret`. Raises FileNotFoundError for a path that is
    not there and ValueError with one sentence for an ending that is not known and for damage of a whole file.
    """
    with _readable(path):
        yield from _blocks(path)


def read_rows(path: Path) -> Iterator[tuple[int | str, Row | Bad]]:
    """The rows of `read_blocks` one by one; same errors."""
    return chain.from_iterable(map(rows_of, read_blocks(path)))


def write_rows(path: Path, rows: Iterable[Row], kinds: dict[str, str]) -> None:
    """Write rows to a new file, `.jsonl` or `.parquet`, or without an ending to a folder of `datasets`.

    kinds: of each column: text, chat (messages of role and content) or turns.
    """
    if path.suffix == ".jsonl":
        write_jsonl(path, rows)
    elif path.suffix == ".parquet":
        with replacing(path) as temporary:
            _write_parquet(temporary, rows, kinds)
    else:
        _write_dataset(path, rows, kinds)


def _write_parquet(path: Path, rows: Iterable[Row], kinds: dict[str, str]) -> None:
    import pyarrow
    import pyarrow.parquet

    text = pyarrow.string()
    types = {
        "text": text,
        "chat": pyarrow.list_(pyarrow.struct([("role", text), ("content", text)])),
        "turns": pyarrow.list_(pyarrow.struct([(name, text) for name in Turn._fields])),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    rows = iter(rows)
    with pyarrow.parquet.ParquetWriter(path, schema) as file:
        while batch := list(islice(rows, BATCH)):
            file.write_batch(pyarrow.RecordBatch.from_pylist(batch, schema))


def _write_dataset(path: Path, rows: Iterable[Row], kinds: dict[str, str]) -> None:
    import datasets

    with TemporaryDirectory() as folder, replacing_folder(path) as temporary:
        _write_parquet(Path(folder) / "rows.parquet", rows, kinds)
        made = datasets.Dataset.from_parquet(str(Path(folder) / "rows.parquet"), cache_dir=folder)
        made.save_to_disk(str(temporary))
