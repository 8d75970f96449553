# SPDX-License-Identifier: Apache-2.0
"""Wireshark's dissector of telemetry reports, made of report_t and its flags in p4src/common/headers.p4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "p4src" / "common"
PORT = 5500

TEMPLATE = """\
-- SPDX-License-Identifier: Apache-2.0
-- Wireshark's dissector of Narrows' telemetry reports (docs/report-format.md).
-- Made by scripts/reference.py from report_t in p4src/common/headers.p4; do not edit.

local VERSION, BYTES = {version}, {size}
local narrows = Proto("narrows", "Narrows Telemetry Report")
narrows.prefs.port = Pref.uint("UDP port", {port}, "Destination port of the reports")

-- Name, ProtoField, first byte and bytes of each field of the report.
local FIELDS = {{
{fields}
}}
local FLAGS = {{
{flags}
}}
local drops = ProtoField.uint32("narrows.drops", "drops so far", base.DEC, nil, nil,
    "arrivals - departures, modulo 2^32")
local other = ProtoExpert.new("narrows.other_version", "layout of another version", expert.group.PROTOCOL,
    expert.severity.WARN)

local all = {{drops}}
for _, field in ipairs(FIELDS) do table.insert(all, field[2]) end
for _, flag in ipairs(FLAGS) do table.insert(all, flag) end
narrows.fields = all
narrows.experts = {{other}}

function narrows.dissector(buffer, packet, tree)
    if buffer:len() < 1 then return 0 end
    packet.cols.protocol = "NARROWS"
    local version = buffer(0, 1):uint()
    local report = tree:add(narrows, buffer(0, math.min(BYTES, buffer:len())))
    if version ~= VERSION or buffer:len() < BYTES then
        report:add_proto_expert_info(other, string.format(
            "version %d, %d bytes; this dissector knows version %d, %d bytes", version, buffer:len(), VERSION, BYTES))
        return buffer:len()
    end
    local values = {{}}
    for _, field in ipairs(FIELDS) do
        local range = buffer(field[3], field[4])
        local item = report:add(field[2], range)
        if field[4] <= 4 then values[field[1]] = range:uint() end
        if field[1] == "flags" then
            for _, flag in ipairs(FLAGS) do item:add(flag, range) end
        end
    end
    report:add(drops, (values.arrivals - values.departures) % 2 ^ 32):set_generated()
    local summary = string.format(
        "Report %u of bottleneck %u, flow %u", values.sequence, values.bottleneck, values.flow)
    if buffer:len() > BYTES then
        Dissector.get("eth_withoutfcs"):call(buffer(BYTES):tvb(), packet, tree)
    end
    -- The original packet's dissectors have written theirs.
    packet.cols.protocol = "NARROWS"
    packet.cols.info = summary
    return buffer:len()
end

local ports, port = DissectorTable.get("udp.port"), narrows.prefs.port
ports:add(port, narrows)
function narrows.prefs_changed()
    if port ~= narrows.prefs.port then
        ports:remove(port, narrows)
        port = narrows.prefs.port
        ports:add(port, narrows)
    end
end
"""
FIELD = re.compile(r"bit<(\d+)>\s+(\w+);\s*// (.*)")
FLAG = re.compile(r"const bit<8> FLAG_(\w+) = (0x[0-9a-f]+);\s*// (.*)")


def report_fields() -> list[tuple[str, int, str]]:
    """Name, width in bits and meaning of each field of report_t, in wire order."""
    source = (SOURCES / "headers.p4").read_text(encoding="utf-8")
    body = source[source.index("header report_t {") :].partition("\n}")[0]
    return [(name, int(width), meaning) for width, name, meaning in FIELD.findall(body)]


def _lua_fields() -> Iterator[str]:
    fields = report_fields()
    places = accumulate((width for _, width, _ in fields), initial=0)
    for (name, width, meaning), bit in zip(fields, places, strict=False):
        kind = next(bits for bits in (8, 16, 24, 32, 64) if bits >= width)
        base = "HEX" if name in ("flags", "signature") else "DEC"
        declared = f'ProtoField.uint{kind}("narrows.{name}", "{name}", base.{base}, nil, nil, "{meaning}")'
        yield f'    {{"{name}", {declared}, {bit // 8}, {width // 8}}},'


def _lua_flags() -> Iterator[str]:
    for name, mask, meaning in FLAG.findall((SOURCES / "headers.p4").read_text(encoding="utf-8")):
        lower = name.lower()
        yield f'    ProtoField.bool("narrows.flags.{lower}", "{lower}", 8, nil, {mask}, "{meaning}"),'


def dissector() -> str:
    """deploy/narrows.lua."""
    declared = re.search(r"REPORT_VERSION\s*=\s*(\d+)", "".join(map(Path.read_text, sorted(SOURCES.glob("*.p4")))))
    if declared is None:
        raise ValueError(f"{SOURCES}: no REPORT_VERSION")
    return TEMPLATE.format(
        version=declared[1],
        size=sum(width for _, width, _ in report_fields()) // 8,
        port=PORT,
        fields="\n".join(_lua_fields()),
        flags="\n".join(_lua_flags()),
    )
