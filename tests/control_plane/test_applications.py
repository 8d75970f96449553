# SPDX-License-Identifier: Apache-2.0
"""Programs as flows: what experiments say of them, which packets are theirs, and how bad ones end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.batch.merge import experiment_of
from narrows.errors import InputError
from narrows.experiment.loader import read_experiment, validate
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.field_types import groups_in
from narrows.flows.program import fill
from narrows.hosts.users import APPLICATION_ID
from narrows.onhost import program as on_host
from narrows.onhost import wire
from narrows.run.results import RunDirectory
from narrows.run.sampler import Sampler
from narrows.traffic.applications import keep
from narrows.traffic.missing_programs import missing_programs
from test_live_view import learned

BOTTLENECK = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
WEB = {"client": ["curl", "http://{server}:{port}/"], "server": ["python3", "-m", "http.server", "{port}"]}
LIMIT = 1 << 20


def plan_of(*groups: dict[str, Any]) -> Any:
    return make_plan(validate({"name": "x", "bottleneck": BOTTLENECK, "flows": list(groups)}, "x"))


def test_a_group_is_called_after_its_client_and_lasts_until_that_ends() -> None:
    plan = plan_of(WEB)
    (flow,) = plan.flows
    assert (flow.name, flow.kind, flow.protocol, flow.duration_ns) == ("curl-1", "application", None, None)
    assert plan.end_ns is None
    assert plan_of({**WEB, "until": "exit"}).flows == plan.flows


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ({"server": ["x"], "cca": "reno", "duration": "1s"}, "has server without client"),
        ({**WEB, "ready": {"tcp": 80, "udp": 80}}, "one of tcp, udp and line"),
        ({**WEB, "server": ["x"]}, "a server that is given {port}"),
        ({"client": ["x"], "ready": {"tcp": 80}}, "ready without server"),
        ({**WEB, "count": 2}, "has client and count"),
        ({**WEB, "size": "1MB"}, "has client and size"),
        ({**WEB, "until": "exit", "duration": "3s"}, "has client and until"),
        ({"client": ["iperf3", "-s", -1]}, "flows.0.client.2: '-1' is a number; allowed: text, in quotes"),
        ({"client": "curl"}, "flows.0.client"),
        ({"client": []}, "flows.0.client"),
    ],
)
def test_what_makes_no_sense_is_refused(group: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        plan_of(group)


def test_two_flows_between_the_hosts_of_a_program_cannot_be_distinguished() -> None:
    other = {"cca": "cubic", "duration": "1s", "from": "a", "to": "b"}
    with pytest.raises(InputError, match="identified by their addresses"):
        plan_of({**WEB, "from": "a", "to": "b"}, other)


def test_placeholders_are_replaced_and_other_braces_stay() -> None:
    values = {"server": "198.18.0.4", "port": "5201"}
    assert fill("%{size} ${port} {} {1} {a b} http://{server}:{port}/{{x}}", values) == (
        "%{size} ${port} {} {1} {a b} http://198.18.0.4:5201/{x}"
    )
    assert fill("{{port}} {{{port}}} {{{{port}}}}", values) == "{port} {{port}} {{{port}}}"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("flows: [{client: [./run.sh, ./a], server: [nginx], cwd: files}]")
    (group,) = groups_in(read_experiment(tmp_path / "x.yaml"))
    assert group == {"client": [str(tmp_path / "run.sh"), "./a"], "server": ["nginx"], "cwd": str(tmp_path / "files")}


def test_a_missing_program_or_directory_is_known_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    plan = plan_of(
        {**WEB, "cwd": str(tmp_path / "none")}, {"client": ["no-such-program"]}, {"client": [f"{tmp_path}/text"]}
    )
    cwd, missing, text = missing_programs(plan)
    assert cwd == f"flows.0.cwd: {tmp_path}/none is not a directory"
    assert missing.startswith("flows.1.client: 'no-such-program' is not there")
    assert text == f"flows.2.client: {tmp_path}/text cannot be executed; fix: chmod +x {tmp_path}/text"


def test_results_do_not_have_the_environments_of_programs(tmp_path: Path) -> None:
    """Nor does the experiment that they have run as if it were the one that was run; it is recognised all the same."""
    secret = {"client": ["true"], "env": {"TOKEN": "hunter2", "LANG": "hunter2"}}

    def experiment(*groups: dict[str, Any]) -> Experiment:
        return validate({"name": "x", "bottleneck": BOTTLENECK, "flows": list(groups)}, "x")

    one = experiment(secret)
    results = RunDirectory(tmp_path / "run", "abc")
    results.create(one)
    written = (results.path / "experiment.yaml").read_text()
    assert "hunter2" not in written and "TOKEN" in written
    token, lang = re.findall(r"(hidden:[0-9a-f]{16})", written)
    assert token != lang, "equal values of two variables are not told"
    assert experiment_of(results.path) == one.as_stored()
    assert (
        experiment_of(results.path)
        != experiment({**secret, "env": {"TOKEN": "hunter3", "LANG": "hunter2"}}).as_stored()
    )
    (problem, _) = missing_programs(make_plan(validate(yaml.safe_load(written), "x")))
    assert problem == f"flows.0.env.TOKEN: {token} is what results have in its place; allowed: the value itself"
    kept = experiment({**secret, "keep_env": True})
    assert groups_in(kept.as_stored())[0]["env"] == secret["env"]


@pytest.mark.parametrize(("protocol", "src_port", "dst_port"), [(6, 5201, 40000), (17, 4433, 50000), (132, 1, 2)])
def test_any_packet_between_its_addresses_is_of_the_flow(protocol: int, src_port: int, dst_port: int) -> None:
    plan = plan_of({"cca": "cubic", "duration": "5s"}, WEB)
    flow = plan.flows[1]
    sampler = Sampler(plan)
    ports = {"protocol": protocol, "src_port": src_port, "dst_port": dst_port}
    sampler.learn(learned(plan, 1, 7, **ports))
    sampler.learn(learned(plan, 1, 8, **ports, dst="198.18.0.77"))
    assert flow.protocol is None
    assert sampler.to_read(0.0) == [7]


def supervise(tmp_path: Path, *words: str, grace_s: float = 0.3, **others: Any) -> subprocess.Popen[str]:
    """A supervisor with a program, as root's or as our own."""
    tmp_path.chmod(0o755)
    spec: dict[str, Any] = {
        "words": words, "env": {"PATH": os.defpath}, "cwd": "/", "user": [APPLICATION_ID] * 2, "groups": [],
        "mapped": False, "origin": None, "start_s": 0.0, "duration_s": None, "ready_line": None,
        "ready_ports": None, "stays": False, "grace_s": grace_s, "limit_bytes": LIMIT,
        "stdout": str(tmp_path / "out"), "stderr": str(tmp_path / "err"), **others,
    }  # fmt: skip
    (tmp_path / "spec").write_text(wire.dumps(on_host.ProgramSpecification(**spec)))
    script = [sys.executable, "-IS", on_host.__file__, str(tmp_path / "spec")]
    return subprocess.Popen(script, stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> on_host.Outcome:
    said, _ = process.communicate(timeout=20)
    event = wire.loads(said.splitlines()[-1])
    assert isinstance(event, on_host.ProgramEnded)
    return event.outcome


def test_what_a_program_says_and_how_it_ends_is_reported(tmp_path: Path) -> None:
    event = ended(supervise(tmp_path, "/bin/sh", "-c", "echo out; echo err >&2; id -u; exit 7"))
    assert (event.exit_code, event.signal, event.stopped) == (7, None, False)
    own = APPLICATION_ID if os.geteuid() == 0 else os.geteuid()
    assert (tmp_path / "out").read_text() == f"out\n{own}\n"
    assert (tmp_path / "err").read_text() == "err\n"


def test_a_program_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    said, _ = supervise(tmp_path, "/nowhere/x").communicate(timeout=20)
    why = "/nowhere/x cannot be started: No such file or directory"
    assert wire.loads(said) == on_host.ProgramFailure(why)


def test_a_script_whose_interpreter_is_missing_is_not_called_missing_itself(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/nowhere/python3 -u\n")
    (tmp_path / "run").chmod(0o755)
    said, _ = supervise(tmp_path, str(tmp_path / "run"), user=[os.geteuid(), os.getegid()]).communicate(timeout=20)
    why = f"{tmp_path}/run cannot be started: No such file or directory: its interpreter (#!) '/nowhere/python3'"
    assert wire.loads(said) == on_host.ProgramFailure(why)


def test_a_flood_is_counted_and_not_kept(tmp_path: Path) -> None:
    event = ended(supervise(tmp_path, "/bin/sh", "-c", "head -c 50000000 /dev/zero"))
    assert event.stdout_bytes == 50_000_000
    assert (tmp_path / "out").stat().st_size == LIMIT


def test_processor_time_is_that_of_its_children_too(tmp_path: Path) -> None:
    """The shell's own count of them (`times`: minutes and seconds, user and system, itself and then its children)."""
    loop = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    event = ended(supervise(tmp_path, "/bin/sh", "-c", f"/bin/sh -c '{loop}'; times"))
    used = [word.rstrip("s").split("m") for word in (tmp_path / "out").read_text().split()]
    used_s = sum(60 * float(minutes) + float(seconds) for minutes, seconds in used)
    assert used_s > 0.05
    assert used_s - 0.03 <= event.cpu_s <= used_s + 0.1


def test_children_in_sessions_of_their_own_do_not_outlive_it(tmp_path: Path) -> None:
    mark = f"31{time.time_ns() % 10**9}"
    event = ended(supervise(tmp_path, "/bin/sh", "-c", f"setsid sleep {mark} & (setsid sleep {mark} &) ; exit 0"))
    assert event.left_processes == 2
    assert mark not in _commands()


def test_one_that_ignores_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    mark = f"32{time.time_ns() % 10**9}"
    # Ignored signals are inherited by what it starts.
    words = ("/bin/sh", "-c", f"trap '' TERM; sleep {mark} & while :; do sleep {mark}; done")
    event = ended(supervise(tmp_path, *words, duration_s=0.3))
    assert event.stopped and event.killed
    assert event.signal == "SIGKILL"
    assert mark not in _commands()


def test_a_server_is_ready_when_it_has_said_so_and_may_go_into_the_background(tmp_path: Path) -> None:
    words = ("/bin/sh", "-c", "(sleep 0.2; echo now listening; sleep 60) &")
    process = supervise(tmp_path, *words, stays=True, ready_line="listening")
    assert process.stdout is not None
    assert isinstance(wire.loads(process.stdout.readline()), on_host.ProgramStarted)
    assert wire.loads(process.stdout.readline()) == on_host.ProgramReady()
    assert process.poll() is None
    process.terminate()
    event = ended(process)
    assert event.stopped and not event.killed


def test_a_program_begins_at_its_time(tmp_path: Path) -> None:
    at = time.monotonic() + 1.0
    (tmp_path / "origin").write_text(f"{at - 0.5!r}\n")
    with supervise(tmp_path, "/bin/true", origin=str(tmp_path / "origin"), start_s=0.5) as process:
        assert process.stdout is not None
        started = wire.loads(process.stdout.readline()).at_s
        assert 0 <= started - at < 0.05
        process.wait(10)


def test_files_are_kept_and_links_are_not(tmp_path: Path) -> None:
    source = tmp_path / "dir"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "result").write_text("42")
    (source / "secret").symlink_to("/etc/shadow")
    os.mkfifo(source / "pipe")
    notes = keep(source, tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").rglob("*") if path.is_file()] == ["result"]
    assert notes[0].startswith("2 of its files were not kept")


@pytest.mark.needs("root")
def test_files_of_another_user_are_not_kept(tmp_path: Path) -> None:
    """A program can have a hard link to a file that it cannot read."""
    source = tmp_path / "dir"
    source.mkdir()
    os.chown(source, APPLICATION_ID, APPLICATION_ID)
    (tmp_path / "secret").write_text("root's")
    os.link(tmp_path / "secret", source / "hard")
    assert keep(source, tmp_path / "kept")[0].startswith("1 of its files were not kept")
    assert not (tmp_path / "kept").exists()


# Exchanges a directory with a link, without a moment in which either is missing, until it is killed.
SWAP = """
import ctypes, os, sys
os.setgid({user}); os.setuid({user})
renameat2 = ctypes.CDLL(None).renameat2
print("ready", flush=True)
while True:
    renameat2(-100, {directory!r}, -100, {link!r}, 2)
"""


@pytest.mark.needs("root")
def test_a_directory_that_its_user_swaps_for_a_link_gives_away_nothing(tmp_path: Path) -> None:
    """As the programs' user, who has a process running while root copies."""
    for place in (tmp_path, *tmp_path.parents):
        place.chmod(place.stat().st_mode | 0o011)
    secret, source = tmp_path / "secret", tmp_path / "dir"
    secret.mkdir(mode=0o700)
    (source / "deep").mkdir(parents=True)
    (source / "link").symlink_to(secret)
    for number in range(900):
        (secret / str(number)).write_text("root's")
        (source / "deep" / str(number)).write_text("mine")
        os.chown(source / "deep" / str(number), APPLICATION_ID, APPLICATION_ID)
    for place in (source, source / "deep"):
        os.chown(place, APPLICATION_ID, APPLICATION_ID)
    swap = SWAP.format(user=APPLICATION_ID, directory=bytes(source / "deep"), link=bytes(source / "link"))
    with subprocess.Popen([sys.executable, "-c", swap], stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None and attacker.stdout.readline() == b"ready\n"
        for attempt in range(5):
            keep(source, tmp_path / f"kept-{attempt}")
        attacker.kill()
    kept = {path.read_text() for path in tmp_path.glob("kept-*/**/*") if path.is_file()}
    assert kept <= {"mine"}


def test_what_is_copied_of_files_that_grow_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "dir"
    source.mkdir()
    (source / "log").write_text("before")
    status_of, sizes = os.fstat, []

    def then_grow(number: int) -> os.stat_result:
        status = status_of(number)
        sizes.append(status.st_size)
        with (source / "log").open("a") as file:
            file.write("x" * 1000)
        return status

    monkeypatch.setattr(os, "fstat", then_grow)
    keep(source, tmp_path / "kept")
    assert (tmp_path / "kept" / "log").stat().st_size == sizes[-1]


def test_directories_without_end_are_walked_to_a_depth(tmp_path: Path) -> None:
    """A program can make more levels than there are descriptors."""
    source = tmp_path / "dir"
    source.joinpath(*["d"] * 60).mkdir(parents=True)
    assert keep(source, tmp_path / "kept")[0].startswith("1 of its files were not kept")


def _commands() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
