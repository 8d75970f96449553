# SPDX-License-Identifier: Apache-2.0
"""Telegraf itself, with deploy/telegraf.conf, reads a softswitch's counters through P4Runtime."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from harness import ROOT, Network, running
from test_serve import FRAME, resolve, send

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
ENDPOINT = "127.0.0.1:9559"
COUNTERS = {
    "NarrowsIngress.bottleneck.arrival_counter.flows",
    "NarrowsEgress.bottleneck.departure_counter.flows",
    "NarrowsEgress.bottleneck.delay_histogram.bins",
}


async def _relay(path: Path) -> asyncio.Server:
    """TCP to a Unix socket, which Telegraf's input does not know."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_switch, to_switch = await asyncio.open_unix_connection(path)
        await asyncio.gather(copy(reader, to_switch), copy(from_switch, writer))

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.needs("narrows-softswitch", "telegraf")
def test_the_example_gives_what_was_sent(network: Network, tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "telegraf.conf").read_text()
    assert text.count(f'"{ENDPOINT}"') == 1

    async def scenario() -> str:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            send(network, "sender", 50)
            await asyncio.sleep(0.3)
            relay = await _relay(tmp_path / "switch.sock")
            address = "{}:{}".format(*relay.sockets[0].getsockname())
            # Where others may read it.
            with tempfile.NamedTemporaryFile("w", suffix=".conf") as settings:
                settings.write(text.replace(ENDPOINT, address))
                settings.flush()
                os.fchmod(settings.fileno(), 0o644)
                telegraf = await asyncio.create_subprocess_exec(
                    *(*NOBODY, "telegraf", "--config", settings.name, "--test", "--test-wait", "3"),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )
                out, errors = await asyncio.wait_for(telegraf.communicate(), 60)
            relay.close()
            assert telegraf.returncode == 0, errors.decode()
            return out.decode()

    found = re.findall(
        r"counter_name=([^,]+),.* bytes=(\d+)i,counter_index=\d+i,packets=(\d+)i", asyncio.run(scenario())
    )
    assert sorted(found) == sorted((name, str(50 * FRAME), "50") for name in COUNTERS)
