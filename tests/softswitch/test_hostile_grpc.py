# SPDX-License-Identifier: Apache-2.0
"""The softswitch under hostile gRPC: it refuses or obeys, survives, and does not grow. NARROWS_CASES sets how often."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from grpc_fuzzer import fuzz
from harness import BINARY, COMPILED
from raw_frames import resident_bytes

CASES = int(os.environ.get("NARROWS_CASES", "300"))
SEED = int(os.environ.get("NARROWS_SEED", "1"))
# The largest messages that the fuzzer makes, some of them at once, and what the allocator keeps.
GROWTH_BYTES = 256 << 20


def test_hostile_messages_end_with_a_status(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/switch.sock"
    command = [str(BINARY), "serve", "--grpc", address]
    for port in range(1, 4):
        command += ["--loopback", str(port)]
    with (tmp_path / "stderr").open("w+") as errors:
        switch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert switch.stdout is not None
            assert switch.stdout.readline() == "ready\n"
            before, started = resident_bytes(switch.pid), time.monotonic()
            findings = fuzz(address, COMPILED, CASES, SEED)
            grown = resident_bytes(switch.pid) - before
            seconds = time.monotonic() - started
            assert switch.poll() is None
        finally:
            switch.send_signal(signal.SIGTERM)
            switch.communicate(timeout=10)
        errors.seek(0)
        said = errors.read()
    counts = {f"{method} {status}": count for (method, status), count in sorted(findings.statuses.items())}
    print(f"cases: {findings.cases} in {seconds:.0f} s, grown by {grown >> 20} MiB: {counts}")
    assert (findings.faults, said, switch.returncode) == ([], "", 0)
    assert findings.cases == CASES
    assert grown < GROWTH_BYTES
    # The changes are neither so small that all is carried out, nor so large that nothing is.
    refused = sum(count for (_, status), count in findings.statuses.items() if status != "OK")
    assert CASES * 0.2 < refused < CASES * 0.9
