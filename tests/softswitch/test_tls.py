# SPDX-License-Identifier: Apache-2.0
"""gRPC over TLS, as it is needed on an address that is not this machine's: who gets in. `make stress` runs it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from harness import BINARY
from narrows.switch import traffic_manager_pb2 as pb

# A build with `--features tls`, which the usual one is not.
pytestmark = pytest.mark.needs("stress", "openssl")


def openssl(directory: Path, *words: str) -> None:
    """Run openssl in a directory."""
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


def authority(directory: Path, name: str) -> None:
    """Make a certificate authority."""
    openssl(
        directory,
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"),
        *("-addext", "keyUsage=critical,keyCertSign"),
    )


def certificate(directory: Path, name: str, signer: str, *, days: int = 2) -> None:
    """Make a certificate of 127.0.0.1 that an authority has signed; with 0 days it has expired."""
    openssl(
        directory,
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
    )
    (directory / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(
        directory,
        *("x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.pem", "-CAkey", f"{signer}.key", "-CAcreateserial"),
        *("-days", str(days), "-extfile", "extensions", "-out", f"{name}.pem"),
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates: the switch's, a client's, one of another authority, one that has expired."""
    directory = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        authority(directory, name)
    certificate(directory, "switch", "ours")
    certificate(directory, "client", "ours")
    certificate(directory, "stranger", "theirs")
    certificate(directory, "late", "ours", days=0)
    time.sleep(1.1)  # it was good for the second in which it was made
    return directory


@pytest.fixture(scope="module")
def address(keys: Path) -> Iterator[str]:
    """A switch that listens on all addresses of the machine."""
    port = 20_000 + os.getpid() % 10_000
    command = [str(BINARY), "serve", "--grpc", f"0.0.0.0:{port}", "--loopback", "1"]
    command += ["--tls-cert", "switch.pem", "--tls-key", "switch.key", "--tls-client-ca", "ours.pem"]
    with subprocess.Popen(command, cwd=keys, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.stderr.read()
        yield f"127.0.0.1:{port}"
        process.terminate()
        assert process.wait(10) == 0


def asks(address: str, credentials: grpc.ChannelCredentials | None) -> int:
    """Ask for the queues over a connection of its own; the number of ports in the answer."""
    with grpc.secure_channel(address, credentials) if credentials else grpc.insecure_channel(address) as channel:
        ports = channel.unary_unary(
            "/narrows.v1.TrafficManager/PortStats",
            pb.PortStatsRequest.SerializeToString,
            pb.PortStatsResponse.FromString,
        )
        return len(ports(pb.PortStatsRequest(), timeout=10).ports)


def credentials(keys: Path, name: str | None, trusts: str = "ours") -> grpc.ChannelCredentials:
    """What a client shows and whom it trusts."""
    own = [] if name is None else [(keys / f"{name}.key").read_bytes(), (keys / f"{name}.pem").read_bytes()]
    return grpc.ssl_channel_credentials((keys / f"{trusts}.pem").read_bytes(), *own)


def test_a_client_with_a_certificate_of_the_authority_gets_in(address: str, keys: Path) -> None:
    assert asks(address, credentials(keys, "client")) == 1
    print("cases: 1 connections")


@pytest.mark.parametrize("name", ["stranger", "late", None])
def test_a_wrong_an_expired_or_no_certificate_is_refused(address: str, keys: Path, name: str | None) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        asks(address, credentials(keys, name))
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    # And the next one gets in.
    assert asks(address, credentials(keys, "client")) == 1


def test_a_client_without_tls_is_refused(address: str, keys: Path) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        asks(address, None)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert asks(address, credentials(keys, "client")) == 1


def test_a_client_notices_a_switch_that_it_does_not_trust(address: str, keys: Path) -> None:
    with pytest.raises(grpc.RpcError):
        asks(address, credentials(keys, "client", trusts="theirs"))
