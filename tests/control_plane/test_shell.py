# SPDX-License-Identifier: Apache-2.0
"""A shell behind a bottleneck: its link, its plan, whose packets are its own, and its way out."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.cli import app
from narrows.cli.shell import split
from narrows.errors import InputError, RunError
from narrows.experiment import shell_links as shell
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts import state as states
from narrows.hosts import uplink, user_namespace
from narrows.hosts.state import RunState
from narrows.run.sampler import Sampler
from narrows_formats.flow_names import ANYWHERE
from test_live_view import learned
from typer.testing import CliRunner

COMMAND = shell.Command(("/bin/true", "{port}"), "/")


def plan_of(data: dict[str, Any], *, nat: bool = False, terminal: bool = True) -> Plan:
    return shell.with_shell(make_plan(shell.experiment_of(data, COMMAND, "x")), terminal=terminal, nat=nat)


def by(**options: str) -> dict[str, Any]:
    return shell.by_options(options, ())


@pytest.mark.parametrize(
    ("words", "file", "command"),
    [
        ([], None, []),
        (["curl", "-o", "x.yaml"], None, ["curl", "-o", "x.yaml"]),
        (["x.yaml"], "x.yaml", []),
        (["x.yml", "--", "ls", "--", "-l"], "x.yml", ["ls", "--", "-l"]),
        (["x.yaml", "ls"], "x.yaml", ["ls"]),
        (["--", "ls"], None, ["ls"]),
    ],
)
def test_a_first_word_that_is_a_yaml_file_is_the_experiment(
    words: list[str], file: str | None, command: list[str]
) -> None:
    assert split(words) == (None if file is None else Path(file), command)


def test_a_link_by_options_is_the_same_both_ways_unless_the_upload_is_given() -> None:
    down, up = plan_of(by(rate="8Mbit", rtt="100ms", loss="1%")).links
    assert (down.rate_bps, up.rate_bps, down.limit_bytes, up.limit_bytes) == (8_000_000, 8_000_000, 100_000, 100_000)
    assert (down.loss, up.loss, down.rtt_ns) == (0.01, 0.01, 100_000_000)
    down, up = plan_of(by(rate="8Mbit", upload="2Mbit", rtt="100ms")).links
    assert (down.rate_bps, up.rate_bps, up.limit_bytes) == (8_000_000, 2_000_000, 25_000)


def test_a_queue_is_managed_alike_in_both_directions() -> None:
    link, managed = shell.one_link({"queue": "{kind: codel, target: 5ms}"}), {"kind": "codel", "target": "5ms"}
    reverse = link["reverse"]
    assert isinstance(reverse, dict) and link["queue"] == reverse["queue"] == managed
    assert "queue" not in shell.one_link({"queue": "tail-drop"})


def test_a_trace_is_that_of_mahimahi(tmp_path: Path) -> None:
    """One opportunity of 1504 bytes every 2 ms."""
    (tmp_path / "down").write_text("2\n")
    (down, _) = plan_of(by(trace=str(tmp_path / "down"), upload="1Mbit", buffer="20packets")).links
    assert down.schedule is not None and down.rate_bps == 1504 * 8 * 500
    with pytest.raises(InputError, match=r"--trace .*: beside --rate; allowed: one of the two"):
        by(rate="1Mbit", trace="x")


def test_both_directions_of_a_command_are_flows_and_its_end_is_the_runs() -> None:
    plan = plan_of(by())
    down, up = plan.flows
    assert (down.name, up.name, down.kind, up.kind) == ("download-1", "upload-1", "shell", "shell")
    assert (down.src, down.dst, down.links) == (up.dst, up.src, ("bottleneck",))
    assert (up.links, down.ack_links, up.ack_links) == (("bottleneck.reverse",), (), ())
    assert plan.shell is down and plan.end_ns is None and plan.gateway is None
    assert {host.name for host in plan.sources} == {"shell", "gateway"}


def test_a_command_crosses_all_links_of_a_file_beside_its_flows() -> None:
    links = {
        "a": {"rate": "10Mbit", "buffer": "1bdp", "rtt": "10ms"},
        "b": {"rate": "5Mbit", "buffer": "1bdp", "rtt": "10ms", "reverse": {"rate": "1Mbit", "buffer": "10packets"}},
    }
    other = {"cca": "cubic", "duration": "1s", "path": ["b"]}
    plan = plan_of({"links": links, "flows": [other]})
    assert [(flow.group, flow.links) for flow in plan.flows] == [
        ("cubic", ("b",)), ("download", ("a", "b")), ("upload", ("b.reverse",))
    ]  # fmt: skip
    with pytest.raises(InputError, match="has a group 'upload', as the shell"):
        plan_of({"links": links, "flows": [{**other, "name": "upload"}]})


def test_behind_a_gateway_flows_are_identified_by_the_host_alone() -> None:
    plan = plan_of(by(), nat=True)
    down, up = plan.flows
    assert (down.ends, up.ends) == ((ANYWHERE, down.dst), (up.src, ANYWHERE))
    assert plan.gateway == "gateway"
    sampler = Sampler(plan)
    sampler.learn(learned(plan, 0, 7, src="203.0.113.9", dst=down.dst, src_port=443, dst_port=50000))
    sampler.learn(learned(plan, 0, 8, src="203.0.113.9", dst="198.18.9.9", src_port=443, dst_port=50000))
    assert sampler.to_read(0.0) == [7]


def test_what_is_kept_of_a_shell_is_an_experiment() -> None:
    experiment = shell.experiment_of(by(), COMMAND, "x")
    assert validate(yaml.safe_load(yaml.safe_dump(experiment.as_yaml_data())), "x") == experiment


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rate", "fast", "true"], "shell: bottleneck.rate: 'fast'"),
        (["--rate", "1Mbit", "x.yaml", "--", "true"], "--rate: beside x.yaml; allowed: --set FIELD=VALUE"),
        (["--trace", "/none", "true"], "shell: trace: /none cannot be read: No such file or directory"),
        (["--queue", "{", "true"], "--queue {: is not YAML"),
        (["--queue", "nonsense", "true"], "shell: bottleneck"),
        (["x.yaml", "--virtual", "--", "true"], "--virtual: after x.yaml; allowed: before it"),
        (["no-such-program"], "no-such-program: is not there, or cannot be executed"),
        (["--server", "'", "true"], "--server ': No closing quotation"),
        (["--target", "tofino", "true"], "--target tofino: allowed: soft, bmv2"),
        (["--virtual"], "--virtual: a guest has no terminal"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["shell", *arguments])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(says)


def test_without_root_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    def refuse(uid: int, gid: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(user_namespace, "_unshare", refuse)
    result = CliRunner().invoke(app, ["shell", "true"])
    assert str(result.exception) == (
        "network namespaces need root, and users may not create their own on this machine (Operation not permitted); "
        "fix: run with sudo, or --virtual with a command"
    )
    result = CliRunner().invoke(app, ["shell", "--nat", "true"])
    assert str(result.exception).startswith("--nat: needs root")


def test_the_link_to_this_machine_is_where_nothing_else_is() -> None:
    first = uplink._choose([], 5)
    assert first == IPv4Network("100.127.192.20/30")
    assert uplink._choose([first], 5) == IPv4Network("100.127.192.24/30")
    assert uplink._choose([IPv4Network("100.127.192.0/19")], 5) == IPv4Network("100.127.224.0/30")
    with pytest.raises(RunError, match=r"routes into all of 100\.127\.192\.0/18"):
        uplink._choose([IPv4Network("100.64.0.0/10")], 5)


def test_name_servers_on_loopback_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, upstream = tmp_path / "own", tmp_path / "upstream"
    monkeypatch.setattr(uplink, "RESOLVER", own)
    monkeypatch.setattr(uplink, "UPSTREAM", upstream)
    own.write_text("nameserver 127.0.0.53\noptions edns0\n")
    assert uplink.resolver() is None
    upstream.write_text("nameserver 192.0.2.1\n")
    assert uplink.resolver() == "nameserver 192.0.2.1\n"
    own.write_text("nameserver 127.0.0.1\nnameserver 2001:db8::1%eth0\nsearch example.com\n")
    assert uplink.resolver() == "nameserver 2001:db8::1%eth0\nsearch example.com\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(states, "SETTINGS", tmp_path)
    monkeypatch.setattr(states, "LINKS", tmp_path)
    monkeypatch.setattr(states, "existing_namespaces", set)
    (tmp_path / "forwarding").write_text("0\n")
    return tmp_path / "forwarding"


def test_a_setting_is_put_back_by_the_last_run_that_needs_it(settings: Path, tmp_path: Path) -> None:
    first, second = RunState.create(tmp_path / "runs"), RunState.create(tmp_path / "runs")
    first.change_setting("forwarding", "1")
    second.change_setting("forwarding", "1")
    first.destroy()
    assert settings.read_text() == "1"
    # Also by who finds its record.
    RunState.load(second.file).destroy()
    assert settings.read_text() == "0"


def test_a_forwarding_that_is_ignored_fails(settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_text", lambda _self, _text, **_: 0)
    state = RunState("a", 1, 1, root=tmp_path)
    monkeypatch.setattr(state, "save", lambda: None)
    with pytest.raises(RunError, match="this machine: forwarding is 0, not 1"):
        state.change_setting("forwarding", "1")
