# SPDX-License-Identifier: Apache-2.0
"""Programs of users in virtual time: what they send arrives, what they may not do fails, what they count is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows.virtual import kernels
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs(
    "programs-kernel", "default-kernel", "narrows-softswitch", "narrows-collector", "ip", "iperf3"
)

SERVE = "import http.server,sys;http.server.test(http.server.SimpleHTTPRequestHandler,port=int(sys.argv[1]))"
FETCH = (
    "import sys,time,urllib.request as u;a=time.monotonic();d=u.urlopen(sys.argv[1]).read();"
    "open('got','wb').write(d);print(len(d),time.monotonic()-a)"
)
SIZE = 1_000_000


def measured(tmp_path: Path, text: str) -> Path:
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    return tmp_path / "out"


def application(out: Path, number: int) -> dict[str, Any]:
    flow = json.loads((out / "run.json").read_text())["flows"][number]
    assert isinstance(flow["application"], dict)
    return flow["application"]


@pytest.mark.long
def test_an_object_arrives_whole_and_in_the_time_of_slow_start(tmp_path: Path) -> None:
    """1 MB at 50 Mbit/s and 40 ms: 691 segments of 1,448 bytes.

    A round trip for the handshake, one for the request, then windows of 10, 20, 40, 80, 160 and 320 segments (RFC 6928;
    initial window 10, doubled each round trip as each segment is acknowledged) leave 61. The link carries 165
    segments of 1,514 bytes a round trip: from the window of 320 on it is the link that counts.
    """
    text = (
        "name: web\nbottleneck: {rate: 50Mbit, buffer: 2bdp, rtt: 40ms}\nflows:\n- name: web\n"
        f"  client: [/usr/bin/python3, -c, \"{FETCH}\", 'http://{{server}}:{{port}}/file']\n"
        f"  server: [sh, -c, \"head -c {SIZE} /dev/urandom > file; exec /usr/bin/python3 -c '{SERVE}' {{port}}\"]\n"
    )
    out = measured(tmp_path, text)
    files = out / "hosts/web-1/files"
    assert (files / "file").stat().st_size == SIZE
    assert (files / "got").read_bytes() == (files / "file").read_bytes()
    size, seconds = (out / "hosts/web-1/client.stdout").read_text().split()
    assert int(size) == SIZE
    segment_s = 1514 * 8 / 50e6
    # Handshake; request and five windows, the fifth of 160 segments (155 fit into a round trip): the link is busy then.
    left = -(-SIZE // 1448) - (10 + 20 + 40 + 80)
    predicted = 0.04 + 5 * 0.04 + left * segment_s
    assert float(seconds) == pytest.approx(predicted, rel=0.1)
    # The server's socket was read meanwhile: its RTT is that of the path, its window doubles from 10 on.
    (connection,) = json.loads((out / "summary.json").read_text())["flows"][0]["connections"]
    assert 0.04 <= connection["rtt_s"]["min"] < 0.041
    sockets = pd.read_parquet(out / "hosts/sockets.parquet")
    assert len(sockets) >= int(predicted / 0.1) - 1
    assert {(row.src_port, row.dst_port) for row in sockets.itertuples()} == {
        (connection["src_port"], connection["dst_port"])
    }
    windows = sockets["cwnd_bytes"].tolist()
    assert 10 * 1448 <= windows[0] < windows[1] <= 320 * 1448


@pytest.mark.long
def test_what_iperf3_missed_is_what_the_switch_dropped(tmp_path: Path) -> None:
    text = (
        "name: udp\nbottleneck: {rate: 30Mbit, buffer: 0.5bdp, rtt: 40ms}\nflows:\n- {cca: cubic, duration: 3s}\n"
        "- name: udp\n  sends: client\n"
        "  client: [iperf3, -c, '{server}', -p, '{port}', -u, -b, 20M, -l, '1200', -t, '2', -J]\n"
        "  server: [iperf3, -s, -p, '{port}', '-1']\n"
    )
    out = measured(tmp_path, text)
    summary = json.loads((out / "summary.json").read_text())
    counted = json.loads((out / "hosts/udp-1/client.stdout").read_text())["end"]["sum"]
    (datagrams,) = (one for one in summary["flows"][1]["connections"] if one["protocol"] == 17)
    assert datagrams["drops"] == counted["lost_packets"] > 0
    assert summary["bottleneck"]["other_share"] == 0


@pytest.mark.long
def test_the_host_cannot_be_written_and_the_date_is_what_was_asked(tmp_path: Path) -> None:
    say = "id -u; date -u +%F; date +%s%N; touch /etc/escaped /usr/escaped; touch /tmp/escaped && echo own"
    text = (
        "name: guest\nbottleneck: {rate: 30Mbit, buffer: 1bdp, rtt: 40ms}\nhosts: {date: 2031-02-03}\nflows:\n"
        "- {cca: cubic, duration: 1s}\n"
        f"- {{name: curious, client: [sh, -c, '{say}']}}\n"
    )
    out = measured(tmp_path, text)
    uid, date, at_ns, own = (out / "hosts/curious-1/client.stdout").read_text().split()
    run = json.loads((out / "run.json").read_text())
    assert run["flows"][0]["started_s"] == pytest.approx((int(at_ns) - run["clock_origin_unix_ns"]) / 1e9, abs=0.01)
    assert (int(uid), date, own) == (application(out, 1)["user"], "2031-02-03", "own")
    assert int(uid) != 0
    assert (out / "hosts/curious-1/client.stderr").read_text().count("Read-only file system") == 2
    assert not any(Path(place, "escaped").exists() for place in ("/etc", "/usr", "/tmp"))
    virtual = json.loads((out / "run.json").read_text())["virtual_time"]
    assert (virtual["date"], virtual["syscall_ns"]) == ("2031-02-03T00:00:00+00:00", 200)


@pytest.mark.long
def test_a_program_that_polls_the_clock_takes_time(tmp_path: Path) -> None:
    """10 ms of polling at 200 ns a call, and 1 ns for the reading, are 50,000 calls at most."""
    poll = (
        "import ctypes,time;l=ctypes.CDLL(None);b=ctypes.create_string_buffer(16);n=0;a=time.monotonic()\n"
        "while time.monotonic()-a<0.01: n+=1\n"
        "print(n)"
    )
    text = (
        "name: poll\nbottleneck: {rate: 30Mbit, buffer: 1bdp, rtt: 40ms}\nflows:\n- {cca: cubic, duration: 1s}\n"
        f"- name: poll\n  client: [/usr/bin/python3, -c, {json.dumps(poll)}]\n"
    )
    out = measured(tmp_path, text)
    calls = int((out / "hosts/poll-1/client.stdout").read_text())
    assert calls == pytest.approx(0.01 / 201e-9, rel=0.01)


@pytest.mark.long
@pytest.mark.fault("a program keeps time from passing", "traffic", "virtual")
def test_a_program_that_spins_is_named_and_the_data_are_kept(tmp_path: Path) -> None:
    """Its first second is that of a link that was never idle: 10 Mbit/s, 826 frames of 1,514 bytes."""
    text = (
        "name: spin\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}\nflows:\n- {cca: cubic, duration: 9s}\n"
        "- {name: busy, start: 1s, client: [sh, -c, 'while :; do :; done']}\n"
    )
    soon = "import narrows.virtual.watch as watch; watch.STILL_CPU_S = 5.0"
    assert start(tmp_path, text, soon).wait(PATIENCE_S) == 1
    run = json.loads((tmp_path / "out/run.json").read_text())
    assert run["status"] == "failed"
    first, second = run["reason"].splitlines()[:2]
    assert re.fullmatch(
        r"the program 'sh' spins: from [12]\.\d{6} s of the guest's clock on it took \d+ s of processor time in "
        r"0\.0000\d\d s of virtual time(, \d+ s for each second)?",
        first,
    )
    assert second.startswith("flow busy-1: its client (sh) ended with SIGILL")
    assert run["virtual_time"]["programs_cpu_s"]["sh"] > 0.5
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    # Slow start takes two round trips until the queue is never empty.
    assert summary["telemetry"]["reports"] == pytest.approx(826, rel=0.1)
    assert summary["telemetry"]["lost"] == 0
    assert not any(str(tmp_path) in one.read_text() for one in kernels.runs().glob("*.json"))


@pytest.mark.long
def test_programs_do_not_keep_the_switch_from_waking_up(tmp_path: Path) -> None:
    """Servers of iperf3 that have filled their sockets call the kernel all the time, and each call takes some."""
    text = "name: late\nbottleneck: {rate: 10Mbit, buffer: 50packets, rtt: 4ms}\nflows:\n"
    for name, more in (("a", "-R, -P, '3'"), ("b", "-R"), ("c", "-R, -P, '3'")):
        text += f"- {{name: {name}, client: [iperf3, -c, '{{server}}', -p, '{{port}}', -t, '{{duration}}', {more}], "
        text += "server: [iperf3, -s, -p, '{port}', --forceflush], ready: {line: Server listening}, duration: 2s}\n"
    out = measured(tmp_path, text)
    run = json.loads((out / "run.json").read_text())
    assert (run["status"], run["losses_elsewhere"]) == ("complete", [])


@pytest.mark.parametrize(("takes", "code", "signal"), [("1", 7, None), ("60", None, "SIGKILL")])
def test_a_program_that_takes_its_time_to_end_has_it(tmp_path: Path, takes: str, code: int | None, signal: Any) -> None:
    """What waits for it sleeps meanwhile: in a guest no time would pass otherwise, and after 3 s it is killed."""
    script = f"trap 'sleep {takes}; exit 7' TERM; while :; do sleep 0.05; done"
    text = (
        "name: late\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}\nflows:\n- {cca: cubic, duration: 1s}\n"
        f"- {{name: late, duration: 1s, client: [sh, -c, {json.dumps(script)}]}}\n"
    )
    soon = "import narrows.virtual.watch as watch; watch.STILL_CPU_S = 5.0"
    assert start(tmp_path, text, soon).wait(PATIENCE_S) in (0, 1), (tmp_path / "said").read_text()
    client = application(tmp_path / "out", 1)["client"]
    assert (client["exit_code"], client["signal"], client["stopped"]) == (code, signal, True)
