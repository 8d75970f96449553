# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows import __version__
from narrows.batch.sweep_table import rows, write
from narrows.cli import app
from narrows.cli.analyze import run_directories
from narrows.cli.doctor import findings
from narrows.cli.table import summary_table
from narrows.errors import InputError
from narrows.hosts import bpf, machine
from rich.console import Console
from typer.testing import CliRunner

FLOW: dict[str, Any] = {
    **dict.fromkeys(("arrivals", "departures", "retransmit_ratio", "start_s", "end_s", "bytes", "fct_s")),
    **dict.fromkeys(
        (
            "throughput_bps",
            "aqm_drops",
            "policer_drops",
            "ack_filter_drops",
            "loss_emulation_drops",
            "ce_marks",
            "host_retransmits",
            "rtt_source",
        )
    ),
    **dict.fromkeys(("fct_reason", "inflight_source", "ack_compression")),
    **{"links": ["bottleneck"], "limited_by": {}},
    **dict.fromkeys(("datagrams", "responses", "video", "connections", "standard_errors")),
    **{"src": "10.0.0.1", "dst": "10.0.1.1", "inflight_bytes": {"mean": None, "max": None}},
    **{"probe": False, "share_of_run": None},
}
SUMMARY: Any = {
    "format": 0,
    "status": "complete",
    "bottleneck": {
        **dict.fromkeys(("rate_mean_bps", "rate_least_bps", "rate_most_bps", "down_s")),
        **dict.fromkeys(("down_reason", "saturated_rate_reason")),
        **dict.fromkeys(("saturated_rate_bps", "standing_queue_bytes", "standing_queue_bdp")),
        **dict.fromkeys(
            (
                "drops",
                "probe_drops",
                "drops_after_reports",
                "aqm_drops",
                "policer_drops",
                "ack_filter_drops",
                "loss_emulation_drops",
                "ce_marks",
            )
        ),
        **dict.fromkeys(("share_window_s", "run_window_s", "other_share_of_run")),
        **dict.fromkeys(("buffer_packets", "standard_errors", "sampling_reason")),
        "queues": [],
        "rate_bps": 1e8,
        "buffer_bytes": 500000,
        "utilization": 0.99,
        "loss_ratio": 0.01,
        "total_loss_ratio": 0.01,
        "other_share": 0.0,
        "queue_bytes": {"mean": 1.0, "p50": 1.0, "p99": 2.0, "max": 3.0},
        "queue_delay_s": {"mean": 0.01, "p50": 0.01, "p99": 0.02, "max": 0.03},
    },
    "fairness": {
        **{"jain_index": 0.9, "interval_s": 0.5, "convergence_s": None},
        **dict.fromkeys(("jain_index_steady", "window_s", "reason", "convergence_reason")),
    },
    "dynamics": {
        **dict.fromkeys(("oscillation_period_s", "oscillation_amplitude_bytes", "oscillation_correlation")),
        **dict.fromkeys(("loss_synchronization", "rate_synchronization", "oscillation_reason")),
    },
    "share_window_s": [0.0, 10.0],
    "run_window_s": [0.0, 10.0],
    "groups": [
        {
            "name": "bbr",
            "cca": "bbr",
            "flows": 1,
            "goodput_bps": 6e7,
            "share": 0.6,
            "share_of_run": 0.6,
            "loss_ratio": 0.02,
            "standard_errors": None,
        },
        {
            "name": "cubic",
            "cca": "cubic",
            "flows": 1,
            "goodput_bps": 4e7,
            "share": 0.4,
            "share_of_run": 0.4,
            "loss_ratio": 0.01,
            "standard_errors": None,
        },
    ],
    "flows": [
        {
            **FLOW,
            "name": "bbr-1",
            "group": "bbr",
            "cca": "bbr",
            "goodput_bps": 6e7,
            "share": 0.6,
            "drops": 123,
            "loss_ratio": 0.02,
            "rtt_s": {"min": 0.04, "mean": 0.05},
        },
        {
            **FLOW,
            "name": "cubic-4",
            "group": "cubic",
            "cca": "cubic",
            "goodput_bps": None,
            "share": None,
            "drops": None,
            "loss_ratio": None,
            "rtt_s": {"min": None, "mean": None},
        },
    ],
    "telemetry": {"reports": 10, "lost": 0, "sample": 1, "duplicates": 0, "late": 0},
    "warnings": [],
}
SUMMARY["links"] = [
    {
        **{key: SUMMARY[key] for key in ("fairness", "dynamics", "telemetry")},
        **SUMMARY["bottleneck"],
        "name": "bottleneck",
        "direction": "forward",
        "flows": [],
    }
]


def rendered(table: object) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_the_version_is_the_packages() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"narrows {__version__}\n")


def test_table_shows_flows_and_says_what_is_not_known() -> None:
    lines = rendered(summary_table(SUMMARY, "run")).splitlines()
    bbr = next(line for line in lines if "bbr-1" in line)
    assert all(cell in bbr for cell in (" 60.00 ", "123", " 2.00 ", " 50.00 ", " 40.00 "))
    cubic = next(line for line in lines if "cubic-4" in line)
    assert cubic.count(" - ") == 6


def test_sweep_table_is_tidy(tmp_path: Path) -> None:
    found = rows("0001", {"bottleneck.buffer": "1bdp", "flows.bbr.count": 2}, 1, "complete", SUMMARY)
    table = pd.read_parquet(write(tmp_path, found))
    assert list(table["group"]) == ["bbr", "cubic"]
    assert list(table["share"]) == [0.6, 0.4]
    assert list(table["flows.bbr.count"]) == ["2", "2"]
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.parquet"]


def test_sweep_table_has_what_flows_of_a_group_add_up_to() -> None:
    flow = {**SUMMARY["flows"][0], "group": "bbr", "ce_marks": 3, "host_retransmits": 2, "fct_s": None}
    flows = [
        {**flow, "drops": 1, "rtt_s": {"min": 0.01, "mean": 0.02}, "inflight_bytes": {"mean": 1e3, "max": 2e3}},
        {**flow, "drops": None, "rtt_s": {"min": 0.03, "mean": 0.06}, "inflight_bytes": {"mean": 3e3, "max": 4e3}},
    ]
    summary: Any = {**SUMMARY, "flows": flows}
    bbr, cubic = rows("0001", {}, 1, "complete", summary)
    # One flow's drops are not known, so those of all are not.
    expected = {
        "ce_marks": 6, "retransmits": 4, "drops": None, "rtt_min_s": 0.01, "rtt_mean_s": 0.04, "fct_mean_s": None,
        "inflight_bytes_mean": 2e3,
    }  # fmt: skip
    assert {name: bbr[name] for name in expected} == expected
    assert cubic["ce_marks"] is None


def test_doctor_names_what_is_missing_and_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "SYSTEM_PATH", str(tmp_path))
    problems = {finding.found: finding.problem for finding in findings() if finding.subject == "tool"}
    assert problems["setpriv"] == "the command 'setpriv' is missing; fix: apt-get install util-linux"


def test_doctor_does_not_call_well_what_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As nothing needs it, it is no fault either."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(bpf, "lacking", lambda: ["the command 'bpftool' is missing"])
    result = CliRunner().invoke(app, ["doctor"])
    assert "-- virtual time: no kernel is built; fix: narrows kernel build\n" in result.output
    assert "-- CCAs in BPF: not in real time: the command 'bpftool' is missing\n" in result.output
    found = {one["subject"]: one for one in json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)}
    assert found["virtual time"]["absent"] and found["virtual time"]["problem"] is None
    monkeypatch.setattr(bpf, "lacking", list)
    assert "ok CCAs in BPF: can be registered, in real time\n" in CliRunner().invoke(app, ["doctor"]).output


def test_doctor_lists_the_kernels_ccas() -> None:
    found = next(finding.found for finding in findings() if finding.subject == "CCAs")
    assert found == ", ".join(machine.kernel_ccas())
    assert "cubic" in found


def test_unfinished_runs_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run's directory"):
        run_directories(tmp_path)
    for name in ("b", "a", ".c.unfinished"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({}))
    assert run_directories(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert run_directories(tmp_path / "a") == [tmp_path / "a"]


def test_report_of_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        CliRunner().invoke(app, ["report", str(tmp_path)], catch_exceptions=False)


def test_missing_permissions_are_named_with_their_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert machine.missing_permissions() == [
        "network namespaces need root; fix: run with sudo, or with --virtual, which needs no root"
    ]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(machine, "CAPABILITIES", {"CAP_CHOWN": 0, "CAP_OF_THE_FUTURE": 63})
    monkeypatch.setattr("pathlib.Path.read_text", lambda _: "CapPrm:\t0\nCapEff:\t0000000000000001\n")
    assert machine.missing_permissions() == [
        "this root lacks CAP_OF_THE_FUTURE; fix: in a container, run it with --privileged, or use --virtual"
    ]


def test_completion_is_offered() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert "--install-completion" in result.output
