-- SPDX-License-Identifier: Apache-2.0
-- Wireshark's dissector of Narrows' telemetry reports (docs/report-format.md).
-- Made by scripts/reference.py from report_t in p4src/common/headers.p4; do not edit.

local VERSION, BYTES = 2, 56
local narrows = Proto("narrows", "Narrows Telemetry Report")
narrows.prefs.port = Pref.uint("UDP port", 5500, "Destination port of the reports")

-- Name, ProtoField, first byte and bytes of each field of the report.
local FIELDS = {
    {"version", ProtoField.uint8("narrows.version", "version", base.DEC, nil, nil, "layout version, REPORT_VERSION"), 0, 1},
    {"flags", ProtoField.uint8("narrows.flags", "flags", base.HEX, nil, nil, "report_flags_t"), 1, 1},
    {"bottleneck", ProtoField.uint8("narrows.bottleneck", "bottleneck", base.DEC, nil, nil, "bottleneck index, 0..63"), 2, 1},
    {"sample_shift", ProtoField.uint8("narrows.sample_shift", "sample_shift", base.DEC, nil, nil, "k: one report in each row of 2^k departures of this bottleneck"), 3, 1},
    {"flow", ProtoField.uint16("narrows.flow", "flow", base.DEC, nil, nil, "flow index: hash of bottleneck and 5-tuple"), 4, 2},
    {"packet_length", ProtoField.uint16("narrows.packet_length", "packet_length", base.DEC, nil, nil, "Ethernet frame without preamble, gap and FCS, before truncation, in bytes"), 6, 2},
    {"signature", ProtoField.uint32("narrows.signature", "signature", base.HEX, nil, nil, "second, independent hash of bottleneck and 5-tuple: tells colliding flows apart"), 8, 4},
    {"sequence", ProtoField.uint32("narrows.sequence", "sequence", base.DEC, nil, nil, "departures of this bottleneck so far; (sequence - 1) >> sample_shift grows by 1 a report"), 12, 4},
    {"arrivals", ProtoField.uint32("narrows.arrivals", "arrivals", base.DEC, nil, nil, "packets of this flow offered to the queue up to and including this one"), 16, 4},
    {"departures", ProtoField.uint32("narrows.departures", "departures", base.DEC, nil, nil, "packets of this flow that left the queue up to and including this one"), 20, 4},
    {"loss_drops", ProtoField.uint32("narrows.loss_drops", "loss_drops", base.DEC, nil, nil, "packets of this flow dropped by loss emulation before this one arrived"), 24, 4},
    {"aqm_drops", ProtoField.uint32("narrows.aqm_drops", "aqm_drops", base.DEC, nil, nil, "packets of this flow dropped by queue management so far; 0, no queue here has any"), 28, 4},
    {"enqueue_depth", ProtoField.uint32("narrows.enqueue_depth", "enqueue_depth", base.DEC, nil, nil, "queue depth this packet found, itself excluded, in depth units"), 32, 4},
    {"dequeue_depth", ProtoField.uint32("narrows.dequeue_depth", "dequeue_depth", base.DEC, nil, nil, "queue depth this packet left behind, in depth units"), 36, 4},
    {"queue_delay", ProtoField.uint64("narrows.queue_delay", "queue_delay", base.DEC, nil, nil, "egress time - ingress time, in time units"), 40, 6},
    {"epoch", ProtoField.uint16("narrows.epoch", "epoch", base.DEC, nil, nil, "generation of the queue's settings when this packet was enqueued"), 46, 2},
    {"timestamp", ProtoField.uint64("narrows.timestamp", "timestamp", base.DEC, nil, nil, "egress time, in time units"), 48, 6},
    {"queue", ProtoField.uint16("narrows.queue", "queue", base.DEC, nil, nil, "which of the bottleneck's queues it left; 0, there is one"), 54, 2},
}
local FLAGS = {
    ProtoField.bool("narrows.flags.ce_marked", "ce_marked", 8, nil, 0x01, "this switch set CE on the packet"),
    ProtoField.bool("narrows.flags.collision", "collision", 8, nil, 0x02, "another flow owns this flow index: arrivals and departures are shared"),
    ProtoField.bool("narrows.flags.not_ip", "not_ip", 8, nil, 0x04, "neither IPv4 nor IPv6: all such packets of a bottleneck are one flow"),
}
local drops = ProtoField.uint32("narrows.drops", "drops so far", base.DEC, nil, nil,
    "arrivals - departures, modulo 2^32")
local other = ProtoExpert.new("narrows.other_version", "layout of another version", expert.group.PROTOCOL,
    expert.severity.WARN)

local all = {drops}
for _, field in ipairs(FIELDS) do table.insert(all, field[2]) end
for _, flag in ipairs(FLAGS) do table.insert(all, flag) end
narrows.fields = all
narrows.experts = {other}

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
    local values = {}
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
