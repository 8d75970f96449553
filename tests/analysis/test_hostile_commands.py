# SPDX-License-Identifier: Apache-2.0
"""Files of others, through the commands that read them: no traceback, no hang, nothing that a terminal obeys, and
nothing of what is outside. NARROWS_CASES sets how many, NARROWS_SEED with which changes.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import narrows.cli
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK

pytestmark = pytest.mark.needs("narrows-collector")

ROOT = Path(__file__).parents[2]
SEEDS = sorted((ROOT / "tests" / "formats").glob("*/run"))
CASES = int(os.environ.get("NARROWS_CASES", "12"))
SEED = int(os.environ.get("NARROWS_SEED", "1"))
LONGEST_S = 10.0
# Until a process that shares its processors with many others has had ten seconds of them, or waits for ever.
PATIENCE_S = 240.0
TIMERS = {
    signal.SIGPROF: (signal.ITIMER_PROF, LONGEST_S),
    signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE_S),
}
SECRET = "what only root may read: 3f2c9a"
ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
ALIASES = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))])
VALUES: list[Any] = [
    None, True, "", "\x1b]2;title\x07\x1b[2J", "[bold red]x[/]", -1, 0, 2**64, 10**400, 0.5, float("nan"), float("inf"),
    1e308, "9" * 5000, "../outside/secret", "hosts/../../outside/secret", [], {}, [[]], [None] * 50, {"a": {"b": []}},
    "\u202eabc", "x" * 100_000, "<script>alert(1)</script>",
]  # fmt: skip


class TooLong(BaseException):
    """Not an error that anything handles."""


def holders(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in JSON that holds a value."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield data, key
        yield from holders(value)


def command(*words: str | Path) -> tuple[int, str]:
    """A command of ours in this process: its exit code, and what it printed.

    Raises:
        TooLong: after ten seconds of processor time, or without an end.
    """

    def stop(_number: int, _frame: object) -> None:
        raise TooLong

    said = io.StringIO()
    arguments, sys.argv = sys.argv, ["narrows", *map(str, words)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, *TIMERS)}
    for number, (timer, seconds) in TIMERS.items():
        signal.signal(number, stop)
        signal.setitimer(timer, seconds)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            narrows.cli.main()
        code = EXIT_OK
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else EXIT_OK
    finally:
        for timer, _ in TIMERS.values():
            signal.setitimer(timer, 0)
        sys.argv = arguments
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code, said.getvalue()


def change_json(chance: random.Random, path: Path) -> str:
    if chance.random() < 0.1:
        path.write_text("[" * 200_000)
        return "nested"
    data = json.loads(path.read_text())
    for _ in range(chance.randint(1, 3)):
        if not (places := list(holders(data))):
            break
        holder, key = chance.choice(places)
        if chance.random() < 0.2:
            holder.pop(key)
        elif isinstance(holder, dict) and chance.random() < 0.1:
            holder["renamed"] = holder.pop(key)
        else:
            holder[key] = copy.deepcopy(chance.choice(VALUES))
    path.write_text(json.dumps(data))
    return "values"


def change_table(chance: random.Random, path: Path) -> str:
    match chance.randint(0, 3):
        case 0:
            path.write_bytes(chance.randbytes(1000))
            return "garbage"
        case 1:
            content = path.read_bytes()
            path.write_bytes(content[: chance.randint(0, len(content))])
            return "cut"
    table = pq.read_table(path)
    name = chance.choice(table.column_names)
    position = table.column_names.index(name)
    if chance.random() < 0.3:
        table = table.remove_column(position)
    elif pa.types.is_floating(table.schema.field(name).type):
        nothing = pa.array(
            [chance.choice([float("nan"), float("inf"), -1e308])] * len(table), table.schema.field(name).type
        )
        table = table.set_column(position, name, nothing)
    else:
        table = table.set_column(position, name, pa.array([chance.choice(["\x1b[2J", "x"])] * len(table)))
    pq.write_table(table, path)
    return "columns"


def change_yaml(chance: random.Random, path: Path) -> str:
    path.write_text(
        chance.choice(
            [
                "name: [", ALIASES, "!!python/object/apply:os.system [true]", "a: !unknown x", "- x", "", "[" * 5000,
                "name: \"\\e]2;x\\a\"\nbottleneck: 5\n", "{? [a]: b}", "a: 1\na: 2", "x: 2026-13-45",
            ]
        )
    )  # fmt: skip
    return "yaml"


def change(chance: random.Random, directory: Path) -> str:
    """Do something to one file of a directory; returns what."""
    path = chance.choice([path for path in sorted(directory.rglob("*")) if path.is_file()])
    kind = chance.choice(["content"] * 6 + ["bits", "empty", "pipe", "link", "gone"])
    if kind == "content" and path.suffix in CHANGES:
        return f"{path.name} {CHANGES[path.suffix](chance, path)}"
    content = bytearray(path.read_bytes())
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(chance.choice([directory.parent / "outside" / "secret", Path("/dev/zero"), path]))
        case "empty":
            path.touch()
        case "content" | "bits":
            for _ in range(chance.randint(1, 8)):
                if content:
                    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(content)
    return f"{path.name} {kind}"


CHANGES: dict[str, Callable[[random.Random, Path], str]] = {
    ".json": change_json, ".parquet": change_table, ".yaml": change_yaml,
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory beside one that is none of our business; nothing of that is read or changed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    yield tmp_path
    assert (outside / "secret").read_text() == SECRET
    assert [path.name for path in outside.iterdir()] == ["secret"]


def check_end(end: tuple[int, str], what: object, directory: Path) -> None:
    code, said = end
    assert code in (EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT), what
    assert not (found := ESCAPE.search(said)), (what, said[max(0, found.start() - 100) :][:300])
    assert SECRET not in said, what
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert SECRET.encode() not in path.read_bytes(), (what, path)


def attack(cases: int, prepare: Callable[[random.Random], tuple[str, list[tuple[str | Path, ...]], Path]]) -> None:
    chance = random.Random(SEED)
    ends: Counter[int] = Counter()
    fell = []
    for number in range(cases):
        what, commands, directory = prepare(chance)
        for words in commands:
            try:
                end = command(*words)
                check_end(end, (number, what, words[0]), directory)
            except (Exception, TooLong) as error:
                place = "".join(traceback.format_tb(error.__traceback__)[-2:])
                fell.append(f"case {number} ({what}): {words[0]}: {type(error).__name__}: {error}\n{place}")
            else:
                ends[end[0]] += 1
    assert not fell, "\n".join(fell)
    print(
        f"cases: {ends.total()}: exit codes {dict(sorted(ends.items()))}, 0 tracebacks, hangs, escapes, files outside"
    )


def results_of(place: Path, chance: random.Random) -> Path:
    directory = place / "results"
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("run", "neighbour"):
        shutil.copytree(chance.choice(SEEDS), directory / name)
    return directory


def test_hostile_results_through_the_commands(place: Path) -> None:
    def prepare(chance: random.Random) -> tuple[str, list[tuple[str | Path, ...]], Path]:
        directory = results_of(place, chance)
        what = change(chance, directory / "run")
        shutil.rmtree(place / "tables", ignore_errors=True)
        run = directory / "run"
        return (
            what,
            [
                ("runs", directory),
                ("report", run),
                ("compare", run, directory / "neighbour"),
                ("export", run, "--csv", place / "tables"),
                ("analyze", run),
            ],
            directory,
        )

    attack(CASES, prepare)


@pytest.mark.long
def test_hostile_sweeps_through_the_commands(place: Path) -> None:
    def prepare(chance: random.Random) -> tuple[str, list[tuple[str | Path, ...]], Path]:
        directory = results_of(place, chance)
        runs = [
            {"directory": name, "parameters": {"seed": number}, "repetition": 0, "status": "complete"}
            for number, name in enumerate(("run", "neighbour"))
        ]
        record = {"name": "x", "sweep": {"seed": [0, 1]}, "repeat": 1, "points": 2, "runs": runs}
        (directory / "sweep.json").write_text(json.dumps(record))
        what = change_json(chance, directory / "sweep.json")
        return (
            f"sweep.json {what}",
            [("runs", place), ("report", directory), ("analyze", directory), ("compare", directory, directory)],
            directory,
        )

    attack(CASES, prepare)


TRACES = {
    "{file: t, format: mahimahi}": "1\n2\n3\n10\n",
    "{file: t, format: csv, columns: {time: t, rate: r}, time_unit: s, unit: Mbit, holds: from}": "t,r\n0,1\n1,2\n2,3",
    "{file: t, format: pensieve, holds: from}": "0 1\n1 2\n2 3\n",
    "{file: t, format: sabre}": '[{"duration_ms": 1000, "bandwidth_kbps": 500, "latency_ms": 20}]',
    "{file: t, format: opennetlab}": '{"uplink": {"trace_pattern": [{"duration": 1000, "capacity": 500}]}}',
}
WORDS = [
    "64.41e400",
    "1e999999999",
    "9" * 5000,
    "nan",
    "inf",
    "-1",
    "\x1b[2J",
    "\0",
    "0x1",
    "",
    "1_000",
    "1/0",
    "\ufeff",
]


def damaged_trace(chance: random.Random, text: str) -> bytes:
    words = re.split(r"(\d+)", text)
    for _ in range(chance.randint(0, 3)):
        words[chance.randrange(len(words))] = chance.choice(WORDS)
    content = "".join(words).encode()
    return content if chance.random() < 0.8 else content[: chance.randint(0, len(content))] + chance.randbytes(3)


def test_hostile_traces_through_check(place: Path) -> None:
    directory = place / "experiments"
    directory.mkdir()

    def prepare(chance: random.Random) -> tuple[str, list[tuple[str | Path, ...]], Path]:
        trace, text = chance.choice(list(TRACES.items()))
        (directory / "t").unlink(missing_ok=True)
        match chance.randint(0, 9):
            case 0:
                os.mkfifo(directory / "t")
            case 1:
                (directory / "t").symlink_to("/dev/zero")
            case _:
                (directory / "t").write_bytes(damaged_trace(chance, text))
        file = directory / "x.yaml"
        file.write_text(
            f"name: x\nbottleneck: {{rate: {{trace: {trace}}}, rtt: 20ms, buffer: 100kB}}\n"
            "flows: [{cca: cubic, duration: 1s}]\n"
        )
        return trace, [("check", file)], directory

    attack(4 * CASES, prepare)


def test_hostile_experiments_through_check(place: Path) -> None:
    directory = place / "experiments"
    directory.mkdir()
    seeds = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "experiments").glob("*.yaml"))]

    def prepare(chance: random.Random) -> tuple[str, list[tuple[str | Path, ...]], Path]:
        file = directory / "x.yaml"
        if chance.random() < 0.2:
            return change_yaml(chance, file), [("check", file)], directory
        data = copy.deepcopy(chance.choice(seeds))
        for _ in range(chance.randint(1, 3)):
            if places := list(holders(data)):
                holder, key = chance.choice(places)
                holder[key] = copy.deepcopy(chance.choice([*VALUES, 10**9, "1000000000Gbit"]))
        file.write_text(yaml.safe_dump(data))
        return "values", [("check", file)], directory

    attack(4 * CASES, prepare)
