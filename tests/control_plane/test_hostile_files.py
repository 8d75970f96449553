# SPDX-License-Identifier: Apache-2.0
"""Hostile experiment files and inventories: accepted, or refused with a message. NARROWS_CASES sets how often."""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import InputError
from narrows.experiment.sweep import load_series
from narrows_tofino.testbed.inventory import Inventory

ROOT = Path(__file__).parents[2]
CASES = int(os.environ.get("NARROWS_CASES", "40"))
SEED = int(os.environ.get("NARROWS_SEED", "1"))
LONGEST_MESSAGE = 20_000
LARGEST_SEED = 2_000

VALUES: list[Any] = [
    None, True, "", "x", -1, 0, 1, 2**31, 2**64, 10**400, 0.5, -0.0, float("inf"), float("-inf"), float("nan"),
    "1e400", "9" * 5000, "1Mbit", "-1Mbit", "0Mbit", "1e308Mbit", "nanms", "infbdp", "10ms", "1bdp", "/etc/shadow",
    "../../etc/passwd", "\0", "\u202e", "\ud83d\ude00", "a" * 5000, [], {}, [[]], {"": None}, {1: 2}, [None] * 50,
    {"a": {"b": {"c": []}}},
]  # fmt: skip
# YAML that is not a plain mapping of plain values, put in place of some value.
TEXTS = [
    "2026-13-45", "!!int x", "!!float x", "!!timestamp x", "!!binary '*'", "!!python/object/apply:os.system [true]",
    "0x", "0b", "0b2", "1:99:99", "*nobody", "&a [*a]", "{? [a]: b}", "{? {a: b}: c}", "{a: 1, a: 2}", "{<<: 1}", "=",
    "{<<: [1]}", "'" + "x" * 9, "[" * 2000, "{a: " * 2000, "|\n  x", "\t", "\x07", "%YAML 9.9", "---", "...", "!<x> y",
    "- - - -", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "12_3", "._5", "1e", "~", "190:20:30.15", "0o17",
    "2001-12-14t21:59:43.10-05:00",
]  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values."""
    found = [path] if path else []
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        found += places(value, (*path, key))
    return found


def changed(chance: random.Random, data: Any) -> str:
    """A file's data with some values changed, as YAML."""
    data = copy.deepcopy(data)
    texts: dict[str, str] = {}
    for _ in range(chance.randint(1, 3)):
        *path, last = chance.choice(places(data))
        holder = data
        for key in path:
            holder = holder[key]
        match chance.randint(0, 5):
            case 0:
                holder.pop(last)
            case 1 if isinstance(holder, dict):
                holder[chance.choice(["", "unknown", "ratee", last * 2 if isinstance(last, str) else "x", 7, None])] = 1
            case 2:
                everything = places(data)
                other: Any = data
                for key in chance.choice(everything):
                    other = other[key]
                holder[last] = copy.deepcopy(other)
            case 3:
                mark = f"mark{len(texts)}mark"
                texts[mark] = chance.choice(TEXTS)
                holder[last] = mark
            case _:
                holder[last] = copy.deepcopy(chance.choice(VALUES))
        if not places(data):
            break
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=chance.random() < 0.5)
    for mark, hostile in texts.items():
        text = text.replace(mark, hostile)
    return text


def damaged(chance: random.Random, data: Any) -> bytes:
    """A file's bytes with some damage."""
    text = bytearray(yaml.safe_dump(data, sort_keys=False).encode())
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(text) - 1)
        match chance.randint(0, 3):
            case 0:
                text[at] ^= 1 << chance.randint(0, 7)
            case 1:
                text[at:at] = chance.choice(
                    [b"\xff\xfe", b"\0", b"{", b"[", b"&a ", b"*a", b"!", b"%", b"\xc3\x28", b"- ", b": "]
                )
            case 2:
                del text[at : at + chance.randint(1, 30)]
            case _:
                text[at:at] = text[chance.randint(0, len(text)) :][: chance.randint(1, 60)]
    return bytes(text)


def attack(files: list[Path], read: Callable[[Path], object], target: Path) -> Counter[str]:
    """Read changed files; anything but a result or an InputError ends the test."""
    chance = random.Random(SEED)
    seeds = [data for data in (yaml.safe_load(path.read_text()) for path in files) if len(str(data)) < LARGEST_SEED]
    ends: Counter[str] = Counter()
    for number in range(CASES):
        data = chance.choice(seeds)
        hostile = damaged(chance, data) if number % 4 == 0 else changed(chance, data).encode("utf-8", "surrogatepass")
        target.write_bytes(hostile)
        try:
            read(target)
            ends["accepted"] += 1
        except InputError as error:
            ends["refused"] += 1
            assert str(error).startswith(str(target)), (number, str(error))
            assert len(str(error)) < LONGEST_MESSAGE, (number, str(error)[:300])
        except Exception as error:
            raise AssertionError(f"case {number}: {type(error).__name__}: {error}: {hostile[:2000]!r}") from error
    print(f"cases: {ends.total()}: {dict(ends)}")
    return ends


def test_hostile_experiments_are_refused_or_accepted(tmp_path: Path) -> None:
    files = [path for path in sorted((ROOT / "experiments").rglob("*.yaml")) if "\nbottleneck:" in path.read_text()]
    ends = attack(files, load_series, tmp_path / "hostile.yaml")
    assert ends["refused"] > CASES / 2
    assert ends["accepted"] > 0 or CASES < 300


def test_hostile_inventories_are_refused_or_accepted(tmp_path: Path) -> None:
    ends = attack([ROOT / "deploy" / "inventory.example.yaml"], Inventory.load, tmp_path / "hostile.yaml")
    assert ends["refused"] > CASES / 2
    assert ends["accepted"] > 0 or CASES < 300


BASE = "name: x\nbottleneck: {rate: 1Mbit, rtt: 10ms, buffer: 1bdp}\nflows: [{cca: cubic, duration: 1s}]\n"
ALIASES = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))])

VALUES_OF = {"rate": "Mbit", "rtt": "ms", "buffer": "bdp"}
SWEEP = "sweep: " + str(
    {f"bottleneck.{name}": [f"{n}{unit}" for n in range(1, 99)] for name, unit in VALUES_OF.items()}
)


@pytest.mark.parametrize(("text", "says"), [
    (f"{ALIASES}\nname: *a11\n", "has too many values"),
    ("a: &a [*a]\n" + BASE, "has too many values"),
    ("name: " + "[" * 100_000, "is nested too deeply"),
    (BASE + SWEEP, "941192 runs"),
    (f"{BASE}start: 2026-13-45\n", "line 4, column 8: '2026-13-45' is not the number, date or text"),
    (f"{BASE}repeat: {'9' * 5000}\n", "is not the number, date or text"),
], ids=["aliases of aliases", "a list in itself", "deep", "runs without end", "no date", "digits"])  # fmt: skip
def test_what_would_never_end(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        load_series(path)
