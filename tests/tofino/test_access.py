# SPDX-License-Identifier: Apache-2.0
"""TLS, and what an audit log can be trusted with."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from fakeswitch.server import PROGRAM, FakeSwitch
from narrows.errors import InputError
from narrows_tofino.bfrt.client import Endpoint, Operation, Tls
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.bfrt.errors import BfrtError, ConnectionLost
from narrows_tofino.bfrt.values import Entry, Key, Lpm, Ternary
from narrows_tofino.programming.audit import AuditLog, Change, outstanding, read_audit

SUBJECT = ["-subj", "/CN=switch.lab", "-addext", "subjectAltName=DNS:switch.lab"]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a server and of a client; each is its own authority."""
    directory = tmp_path_factory.mktemp("pki")
    for name in ("server", "client", "other"):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.pem"), "-days", "2"]
        subprocess.run([*command, *SUBJECT], check=True, capture_output=True)
    return directory


def test_mutual_tls(pki: Path) -> None:
    credentials = grpc.ssl_server_credentials(
        [((pki / "server.key").read_bytes(), (pki / "server.pem").read_bytes())],
        root_certificates=(pki / "client.pem").read_bytes(),
        require_client_auth=True,
    )
    switch = FakeSwitch(tls=credentials)
    try:
        tls = Tls(
            ca=pki / "server.pem",
            certificate=pki / "client.pem",
            key=pki / "client.key",
            server_name="switch.lab",
        )
        endpoint = Endpoint(switch.address, PROGRAM, tls=tls, timeout_s=5)
        # The SDE's client has no TLS: ours is taken, whatever is installed.
        client = connect(endpoint)
        assert client.kind == "own" and client.schema.table("tm.cfg")
        client.close()
        for wrong in (
            {"ca": pki / "other.pem"},
            {"certificate": pki / "other.pem", "key": pki / "other.key"},
            {"certificate": None, "key": None},
        ):
            with pytest.raises(ConnectionLost):
                connect(replace(endpoint, tls=tls.model_copy(update=wrong), client_id=2, timeout_s=2))
        with pytest.raises(ConnectionLost):
            connect(replace(endpoint, tls=None, client_id=3, timeout_s=2), prefer=("own",))
        with pytest.raises(BfrtError, match=r"switch\.tls: .*nowhere\.pem: No such file"):
            connect(replace(endpoint, tls=tls.model_copy(update={"ca": Path("nowhere.pem")})))
        with pytest.raises(InputError, match="no BF Runtime client of sde can be used"):
            connect(endpoint, prefer=("sde",))
    finally:
        switch.stop()


KEY: Key = {"port": Ternary(1, 511), "delay": Lpm(4, 30), "$MATCH_PRIORITY": 7}
OLD = Entry(KEY, {"a": 1}, "x")
CHANGE = Change(Operation.MODIFY, "t", KEY, 1, "x", {"a": 2}, OLD, Entry(KEY, {"a": 2}, "x"))


def test_a_log_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "log.jsonl"
    log = AuditLog(path)
    intent = replace(CHANGE, got=None, phase="intent")
    for change in (intent, CHANGE, replace(CHANGE, key=None, old=None)):
        log.record(change)
    log.close()
    log.close()
    assert read_audit(path)[:2] == [intent, CHANGE]
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_outstanding() -> None:
    intent = replace(CHANGE, got=None, phase="intent")
    undone = replace(CHANGE, phase="undone")
    second = replace(CHANGE, asked={"a": 3})
    other = replace(CHANGE, table="u")
    assert outstanding([intent, CHANGE]) == [CHANGE]
    assert outstanding([intent]) == [intent]
    assert outstanding([intent, CHANGE, undone]) == []
    assert outstanding([intent, CHANGE, other, intent, second]) == [CHANGE, other, second]
    assert outstanding([intent, CHANGE, other, intent, second, undone]) == [CHANGE, other]
    assert outstanding([intent, CHANGE, intent, undone]) == [CHANGE]


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(InputError, match="No such file"):
        read_audit(path)
    path.write_text('{"a": 1}\n')
    with pytest.raises(InputError, match=r"x:1: not a line of an audit log"):
        read_audit(path)
    with pytest.raises(InputError, match="the audit log cannot be written"):
        AuditLog(Path("/proc/none/log"))
