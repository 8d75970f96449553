# SPDX-License-Identifier: Apache-2.0
"""The patch that gives a kernel the BBRs which studies ask for and no kernel has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from narrows.studies.catalogue import control_points, study_points
from narrows_analysis.studies.catalogue import STUDIES

PATCH = Path(__file__).parents[2] / "experiments" / "bbr-variants.patch"
# What Linux has of it since 5.1, in the order of its file; all else does not matter.
TCP_BBR = {
    "gain": "static const int bbr_cwnd_gain  = BBR_UNIT * 2;\n",
    "aggregation": "static const int bbr_extra_acked_gain = BBR_UNIT;\n",
    "name": '\t.name\t\t= "bbr",\n',
}
ASKED = """
#include <stdio.h>
#define BBR_UNIT 256
#include "{source}"
int main(void) {{ printf("%s %d %d", ops.name, bbr_cwnd_gain, bbr_extra_acked_gain); return 0; }}
"""


def hunk_context(of: str) -> list[str]:
    """The lines around a change as the patch expects them, the changed one among them."""
    hunks = re.split(r"^@@.*@@\n", PATCH.read_text().partition("+++ b/net/ipv4/tcp_bbr.c\n")[2], flags=re.MULTILINE)[1:]
    lines = next(hunk for hunk in hunks if f"-{of}" in hunk).splitlines(keepends=True)
    found = []
    for line in lines:
        if line.startswith("---"):
            break
        if line[0] in " -":
            found.append(line[1:])
    return found


@pytest.mark.needs("patch")
@pytest.mark.needs("cc")
def test_the_patch_makes_three_of_one(tmp_path: Path) -> None:
    """It is applied to what Linux has at these places, and each file is compiled: name, window and aggregation."""
    place = tmp_path / "net" / "ipv4"
    place.mkdir(parents=True)
    (place / "Makefile").write_text(
        "obj-$(CONFIG_INET_RAW_DIAG) += raw_diag.o\nobj-$(CONFIG_TCP_CONG_BBR) += tcp_bbr.o\n"
        "obj-$(CONFIG_TCP_CONG_BIC) += tcp_bic.o\n"
    )
    gain, aggregation, name = (hunk_context(line) for line in TCP_BBR.values())
    source = [*gain, "};\n"] if "pacing_gain[]" in gain[-1] else gain
    fields = ["#define TCP_CONG_NON_RESTRICTED 0\n#define THIS_MODULE 0\n"]
    fields += ["static struct { int flags; const char *name; int owner; } ops = {\n", *name, "};\n"]
    (place / "tcp_bbr.c").write_text("".join([*source, *aggregation, *fields]))
    subprocess.run(["patch", "-p1", "--forward", "--batch", "-i", PATCH], cwd=tmp_path, check=True, capture_output=True)
    found = {}
    for file in sorted(place.glob("tcp_bbr*.c")):
        (tmp_path / "ask.c").write_text(ASKED.format(source=file))
        subprocess.run(["cc", "-w", "-o", "ask", "ask.c"], cwd=tmp_path, check=True)
        answer = subprocess.run([tmp_path / "ask"], check=True, capture_output=True, text=True).stdout.split()
        found[answer[0]] = (int(answer[1]) / 256, int(answer[2]) / 256)
        assert f"{file.stem}.o" in (place / "Makefile").read_text()
    # Claypool et al.: 1.5 BDP in place of 2; Linux 5.1 brought the allowance for acknowledgements in bursts.
    assert found == {"bbr": (2.0, 1.0), "bbr_shallow": (1.5, 1.0), "bbr_before_5.1": (2.0, 0.0)}


def test_it_has_what_studies_ask_for() -> None:
    points = [
        point
        for study in STUDIES.values()
        for made in (study_points(study, quick=True), control_points(study))
        for point in made
    ]
    asked = {group.cca for point in points for group in point.point.experiment.flows}
    names = set(re.findall(r'#define BBR_NAME "(.*)"', PATCH.read_text()))
    assert asked - {"bbr", "bbr2", "bbr3", "cubic", "reno"} == names - {"bbr"}
