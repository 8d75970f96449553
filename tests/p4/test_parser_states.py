# SPDX-License-Identifier: Apache-2.0
"""Whether a compiled parser branches on what it has read, and each way to lose that."""

from __future__ import annotations

import pytest
from parser_states import lost_matches, parse

RIGHT = """\
parser egress:
  start: $entry_point
  states:
    $entry_point:
      *:
        0..1: H1
        load: { byte0 : 27 }
        shift: 27
        next: kinds
    kinds:
      match: [ byte0 ]
      0b01******:
        shift: 14
        load: { half : 12..13 }
        next: ethertypes
      *:
        shift: 1
        next: end
    ethertypes:
      match: [ half ]
      0x0800:
        next: end
      0x86dd:
        next: end
      0x****:
        next: end
deparser egress:
  dictionary:
"""


def test_what_is_loaded_and_matched_is_in_order() -> None:
    assert lost_matches(RIGHT) == []
    assert list(parse(RIGHT)["egress"]) == ["$entry_point", "kinds", "ethertypes"]


@pytest.mark.parametrize(
    ("right", "wrong", "problems"),
    [
        (
            "      match: [ half ]\n      0x0800:\n        next: end\n      0x86dd:\n"
            "        next: end\n      0x****:\n",
            "      *:\n        next: end\n      *:\n        next: end\n      *:\n",
            [
                "egress parser, state kinds, transition at 0b01******: nothing is matched on half, which it loads",
                "egress parser, state ethertypes: 3 transitions, and no match that tells them apart",
            ],
        ),
        ("      0x86dd:", "      0x0800:", [
            "egress parser, state ethertypes: 2 transitions at 0x0800, of which the first is always taken",
        ]),
        (
            "      match: [ byte0 ]\n      0b01******:",
            "      0b01******:",
            [
                "egress parser, state $entry_point, transition at *: nothing is matched on byte0, which it loads",
                "egress parser, state kinds: 2 transitions, and no match that tells them apart",
            ],
        ),
        ("load: { half : 12..13 }", "load: { half : 12..13, byte1 : 23 }", [
            "egress parser, state kinds, transition at 0b01******: nothing is matched on byte1, which it loads",
        ]),
    ],
    ids=["no-match", "same-pattern", "no-match-once", "half-a-match"],
)  # fmt: skip
def test_each_way_to_lose_a_match_is_named(right: str, wrong: str, problems: list[str]) -> None:
    assert RIGHT.count(right) == 1
    assert lost_matches(RIGHT.replace(right, wrong)) == problems


def test_assembly_without_a_parser_is_no_answer() -> None:
    with pytest.raises(ValueError, match="no parser"):
        lost_matches("version:\n  target: Tofino\n")
