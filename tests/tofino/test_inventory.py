# SPDX-License-Identifier: Apache-2.0
"""The inventory: what is accepted, what is refused with what would be right, and how plans are bound to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakeswitch.fixtures import COLLECTOR_PORT, RECEIVER_PORT, inventory_data, make_experiment, make_inventory
from narrows.cli import app
from narrows.errors import InputError
from narrows.experiment.planning import make_plan
from narrows_tofino.binding import bind
from narrows_tofino.testbed.inventory import Inventory, is_loopback
from typer.testing import CliRunner

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "inventory.example.yaml"


def changed(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    data = inventory_data()
    change(data)
    return data


CASES = [
    (lambda d: d["switch"].update(address="10.0.0.9:50052"), "is reached without protection: BF Runtime lets everyone"),
    (lambda d: d["switch"].update(address="127.0.0.1"), "is not host:port"),
    (
        lambda d: d["switch"].update(chip="tofin"),
        "'tofin' is not one of the choices, did you mean 'tofino'?",
    ),
    (lambda d: d["switch"].update(tls={"ca": "ca.pem", "key": "k.pem"}), "has one of certificate and key"),
    (lambda d: d["ports"][0].update(speed="400G"), "port 1/0 cannot run at 400G on tofino; allowed: 1G, 10G"),
    (lambda d: d["ports"][1].update(dev_port=RECEIVER_PORT), "has dev_port '128' twice"),
    (lambda d: d["receiver"].update(port="9/9"), "carol is on the unknown port '9/9'"),
    (lambda d: d["receiver"].update(port="2/0"), "alice shares the receiver's port"),
    (lambda d: d["senders"][0].update(port="3/0"), "alice shares the collector's port"),
    (lambda d: d["senders"][0].update(mac="02:00:00:00:00:03"), "two machines have the mac '02:00:00:00:00:03'"),
    (lambda d: d["senders"][0].update(mac="nonsense"), "is not a MAC address; allowed: six pairs"),
    (lambda d: d["collector"].update(ssh={"host": "x"}), "reports are collected where Narrows runs"),
    (
        lambda d: d["senders"][0].update(password="secret"),
        "senders.0.password: unknown field; allowed: address",
    ),
    (lambda d: d.update(senders=[]), "senders: is empty; allowed: a list with at least one entry"),
    (lambda d: d.update(ports=d["ports"][:2]), "ports: has only 2; allowed: a list with at least 3 entries"),
    (lambda d: d["switch"].update(shaper_clock_hz=1.0), "shaper_clock_hz: '1.0' is too small; allowed: more than"),
]


@pytest.mark.parametrize(("change", "words"), CASES, ids=[words[:30] for _, words in CASES])
def test_refusals_name_file_field_and_what_is_allowed(
    change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(changed(change)))
    with pytest.raises(InputError) as refused:
        Inventory.load(path)
    assert words in str(refused.value) and str(refused.value).startswith(f"{path}: ")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"switch: {chip: tofino}\nswitch: {chip: tofino2}\n", "line 2, column 1: the key 'switch' is given twice"),
        (b"switch: {chip: \xff}\n", "cannot be read: it is not UTF-8 text"),
        (
            b"- switch\n",
            "is not an inventory; allowed: a mapping with collector, delay, loopback, ports, receiver, receivers",
        ),
    ],
)
def test_a_file_that_is_no_inventory_is_named(text: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_bytes(text)
    with pytest.raises(InputError) as refused:
        Inventory.load(path)
    assert str(refused.value).startswith(f"{path}: ") and words in str(refused.value)


@pytest.mark.parametrize("protection", [{"insecure": True}, {"tls": {"ca": "ca.pem"}}])
def test_a_remote_switch_needs_tls_or_an_explicit_word(protection: dict[str, Any]) -> None:
    inventory = make_inventory("tofino", "switch.lab:50052", **protection)
    assert (inventory.endpoint().tls is not None) == ("tls" in protection)


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.2", "[::1]", "10.0.0.1", "switch")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_the_example_is_valid_and_bare_on_and_off_are_words() -> None:
    inventory = Inventory.load(EXAMPLE)
    assert inventory.switch.tunnel is not None
    data = yaml.safe_load(EXAMPLE.read_text())
    data["ports"][0]["auto_negotiation"] = yaml.safe_load("off")
    assert Inventory.model_validate(data).ports[0].auto_negotiation == "off"


def test_a_plan_is_bound_to_ports_and_machines() -> None:
    inventory = make_inventory()
    plan = bind(make_plan(make_experiment()), inventory)
    assert plan.bottleneck.port == RECEIVER_PORT and plan.collector.port == COLLECTOR_PORT
    assert [(path.ingress_port, path.egress_port, path.link) for path in plan.paths] == [
        (136, 128, 0), (128, 136, None), (264, 128, 0), (128, 264, None),
    ]  # fmt: skip
    assert {flow.src for flow in plan.flows} == {"10.0.0.1", "10.0.0.2"} and {f.dst for f in plan.flows} == {"10.0.0.3"}
    assert plan.collector.dst_mac == "02:00:00:00:00:04"


def test_too_few_senders_and_missing_addresses_are_refused() -> None:
    data = inventory_data()
    del data["senders"][1]
    said = r"2 groups need as many senders, the inventory has 1; .*several at one sender: 'from: alice'"
    with pytest.raises(InputError, match=said):
        bind(make_plan(make_experiment()), Inventory.model_validate(data))
    data = inventory_data()
    del data["receiver"]["address6"]
    six = make_experiment().model_copy(update={"ip_version": 6})
    with pytest.raises(InputError, match="carol has no address6, and the experiment is IPv6"):
        bind(make_plan(six), Inventory.model_validate(data))
    assert bind(make_plan(six), make_inventory()).flows[0].src == "2001:db8::1"


EXPERIMENT = """
name: t
bottleneck: {rate: 10Gbit, buffer: 1MB, rtt: 10ms}
flows: [{cca: cubic, duration: 10s}]
"""


def test_narrows_plan_prints_every_write(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(EXPERIMENT)
    shown = CliRunner().invoke(app, ["plan", str(file), "--inventory", str(EXAMPLE), "--all"])
    assert shown.exit_code == 0
    writes = [line for line in shown.output.splitlines() if line.startswith(("insert ", "modify ", "clear "))]
    assert f"{len(writes)} writes to a tofino" in shown.output and len(writes) > 130
    assert "max_rate=10000000 (kbit/s)" in shown.output
    short = CliRunner().invoke(app, ["plan", str(file), "--inventory", str(EXAMPLE)])
    assert "... and 120 more" in short.output


def test_narrows_plan_shows_every_point_of_a_sweep_or_refuses_all(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(EXPERIMENT + "sweep: {bottleneck.rate: [1Gbit, 5Gbit]}\n")
    shown = CliRunner().invoke(app, ["plan", str(file), "--inventory", str(EXAMPLE)])
    assert shown.exit_code == 0 and "max_rate=1000000 (" in shown.output and "max_rate=5000000 (" in shown.output
    file.write_text(EXPERIMENT + "sweep: {bottleneck.rate: [1Gbit, 99Gbit]}\n")
    refused = CliRunner().invoke(app, ["plan", str(file), "--inventory", str(EXAMPLE)])
    assert isinstance(refused.exception, InputError) and "98.439Gbit" in str(refused.exception)
    wrong = CliRunner().invoke(app, ["plan", str(file), "--inventory", str(EXAMPLE), "--target", "bmv2"])
    assert isinstance(wrong.exception, InputError)


def test_narrows_doctor_needs_an_inventory_for_tofino() -> None:
    result = CliRunner().invoke(app, ["doctor", "--target", "tofino"])
    assert isinstance(result.exception, InputError) and "--inventory: is needed" in str(result.exception)
    result = CliRunner().invoke(app, ["doctor", "--target", "bmv2", "--inventory", "x.yaml"])
    assert isinstance(result.exception, InputError) and "has no testbed" in str(result.exception)
