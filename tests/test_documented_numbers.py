# SPDX-License-Identifier: Apache-2.0
"""Numbers in the text of docs that are settings of the program are those that it has; those that were measured are
scripts/shown.py's (test_shown.py)."""

from __future__ import annotations

import math
import re

import pytest
from documented import ROOT
from models.codel import LinuxRoot
from narrows.experiment.model import SYSCALL_NS
from narrows.flows.program import ProgramGroup
from narrows.hosts.users import APPLICATION_ID
from narrows.onhost import program as on_host
from narrows.run import counting, progress, qlogs, sampler
from narrows.targets.soft import softswitch
from narrows.traffic import applications
from narrows.virtual import ending as virtual
from narrows.virtual import watch
from narrows_analysis.interchange.qlog_sender import MOST_SENT
from scipy.stats import t

LIVE_PAGE = ROOT / "control_plane" / "narrows" / "live" / "page.html"
TIMEOUT = ProgramGroup.model_fields["timeout"]
WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 10: "ten", 0.5: "twice a second", 0.25: "four times a second"}


def word(value: float) -> str:
    """A small number in words, or the period of something as how often it is."""
    return WORDS[value]


def live_page(name: str) -> int:
    """A constant of the live page's script."""
    found = re.search(rf"\b{name} = (\d+)", LIVE_PAGE.read_text())
    assert found is not None
    return int(found[1])


SAID = {
    "applications.md": [
        f"has {applications.READY_S:.0f} s to be `ready`",
        f"then it gets SIGTERM, and {word(applications.END_GRACE_S)} seconds later SIGKILL",
        f"one that runs longer than `timeout` ({word(TIMEOUT.default / 60e9)} minutes)",
        f"up to {applications.MOST_FILES} regular files, {applications.MOST_FILES_BYTES >> 20} MiB",
        f"The first {applications.MOST_OUTPUT_BYTES >> 20} MiB of each output are kept",
        f"user and group {APPLICATION_ID}, who own nothing",
        f"(up to {on_host.MOST_PROCESSES} processes)",
        f"A system call of a program takes {SYSCALL_NS} ns",
        "after a minute of processor time in which less than "
        f"{watch.STILL_NS / 1e6:.0f} ms of virtual time passed",
        f"{qlogs.MATCHED * 100:.0f} % of the first {MOST_SENT} packets must have come within "
        f"{qlogs.TOLERANCE_S * 1e3:.0f} ms of their times in the log "
        f"(in real time {qlogs.REAL_TOLERANCE_S * 1e3:.0f} ms)",
        f"by name, sampled {word(watch.LOOK_EVERY_S)}",
        f"more than {virtual.NOTED_CPU_S:.0f} s of it for each second of virtual time",
    ],
    "live-view.md": [
        f"a line every {word(progress.LINE_EVERY_S)} seconds",
        f"the last {word(live_page('SHOWN_S') / 60)} minutes as curves",
        "over the last second",
        f"The switch is read {word(counting.POLL_S)}, with at most three short calls and "
        f"{sampler.MAX_BUSY + sampler.MAX_IDLE} counters. If more flows are busy, {sampler.MAX_BUSY} of them are read",
        f"idle for {word(sampler.IDLE_S)} seconds",
    ],
    "repeatability.md": [
        "which is 2.5 s for 3, 1.2 s for 5, 0.7 s for 10 and 0.4 s for 25",
        "more than 10 ms after their time, if they are more than a tenth and more than "
        f"{softswitch.LATE_IN_A_PAUSE}",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("page", "said"), [(page, said) for page, parts in SAID.items() for said in parts])
def test_a_setting_is_the_programs(page: str, said: str) -> None:
    assert said in " ".join((ROOT / "docs" / page).read_text().split())


def test_settings_in_words_are_the_programs() -> None:
    """What the sentences above have in words."""
    assert (watch.STILL_CPU_S, sampler.WINDOW_S, softswitch.MOST_LATE) == (60, 1, 0.1)


def test_how_far_a_mean_is_known() -> None:
    """t s / sqrt(n) of `repeatability.md`, in s."""
    wide = [round(float(t.ppf(0.975, n - 1)) / math.sqrt(n), 1) for n in (3, 5, 10, 25)]
    assert wide == [2.5, 1.2, 0.7, 0.4]


def test_how_long_fields_of_a_report_last() -> None:
    """2^32 packets at 100 Gbit/s of frames, as rates are counted, and the widest time in ns and us."""
    packets_s = [2**32 * 8 * size / 100e9 for size in (1514, 64)]
    said = [
        f"{packets_s[0]:.0f} s of 100 Gbit/s in frames of 1,514 bytes, {packets_s[1]:.0f} s in frames of 64",
        f"48, ns | {2**48 / 3600e9:.0f} hours",
        f"32, us | {int(2**32 / 60e6)} minutes",
        f"| {2**32 / 1e9:.2f} s",
        f"{int(2**48 / 3600e9)} hours of ns, {2**48 / 1e6 / 86400 / 365.25:.1f} years of us",
    ]
    page = (ROOT / "docs" / "report-format.md").read_text()
    assert [part for part in said if part not in page] == []


def test_how_far_codel_is_from_the_exact_root_is_said() -> None:
    """Of an interval of 100 ms, from the count at which a dropping state begins on."""
    root = LinuxRoot()
    root.set(1, fresh=True)
    waits: list[float] = []
    for count in range(2, 100):
        root.set(count, fresh=False)
        waits.append(root.of(100_000_000) / 1e6)
    exact = [100 / math.sqrt(count) for count in range(2, 100)]
    page = " ".join((ROOT / "docs/queues.md").read_text().split())
    assert f"third drop comes {waits[0]:.1f} ms after the second, not {exact[0]:.1f}" in page
    assert f"the fourth {waits[1]:.1f} ms later, not {exact[1]:.1f}" in page
    assert max(abs(1 - one / other) for one, other in zip(waits[1:], exact[1:], strict=True)) < 0.03


def test_limits_of_users_programs_are_those_of_the_frontend() -> None:
    """Rows of `limitations.md` about P4 programs of one's own."""
    sources = [path for part in ("frontend", "program") for path in (ROOT / "softswitch" / part / "src").rglob("*.rs")]
    text = "\n".join(path.read_text() for path in sources)
    limits = {name: eval(value) for name, value in re.findall(r"const (MAX_\w+): \w+ = ([\d<_ ]+);", text)}
    algorithms = re.search(r"fn algorithm\(.*?\n}\n", text, re.DOTALL)
    assert algorithms is not None
    hashes = {name for name in re.findall(r'"(\w+)"', algorithms[0]) if not name.endswith("_custom")} - {"cksum16"}
    page = (ROOT / "docs" / "limitations.md").read_text()
    said = [
        f"| fields, registers | wider than {limits['MAX_WIDTH']:,} bits |",
        "wider than 128 bits; key fields wider than 120 bits where they begin within a byte",
        f"keys of more than {limits['MAX_KEY_BITS']} bits in all",
        f"more than {limits['MAX_HEADERS']} headers",
        f"2^{limits['MAX_CELLS'].bit_length() - 1} cells",
        f"{limits['MAX_HEADROOM']:,} bytes of added headers",
        *(f"`{name}`" for name in hashes),
    ]
    assert len(hashes) > 5 and [part for part in said if part not in page] == []
