# SPDX-License-Identifier: Apache-2.0
"""Faults that mutate.py puts into the P4 one at a time, each with the case that must notice.

``old`` stands exactly once in ``file``: a changed program makes the list fail instead of letting it rot.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One fault: a piece of source, what replaces it, and the case that catches it."""

    name: str
    file: str
    old: str
    new: str
    case: str


_IDENTITY = "common/flow_identity.p4"
_INGRESS = "common/ingress.p4"
_EGRESS = "common/egress.p4"
_REPORT = "common/report.p4"
_SHARE = "common/flow_share.p4"
_PARSER = "common/parser.p4"
_PRIMITIVES = "v1model/primitives.p4"
_TOP = "v1model/narrows.p4"
QUEUE_MANAGEMENT = "v1model/queue_management/"

MUTATIONS = (
    Mutation(
        "lost packets are counted as arrivals",
        _INGRESS,
        "            loss_counter.apply(flow.index);\n",
        "            arrival_counter.apply(flow.index);\n",
        "counting.LossIsCountedApart",
    ),
    Mutation(
        "arrivals grow by two",
        _INGRESS,
        "flow_arrivals.apply(flow.index, flow.arrivals);",
        "flow_arrivals.apply(flow.index, flow.arrivals); flow_arrivals.apply(flow.index, flow.arrivals);",
        "counting.PacketsAndBytes",
    ),
    Mutation(
        "departures are counted for flow 0",
        _EGRESS,
        "departure_counter.apply(flow.index)",
        "departure_counter.apply(0)",
        "counting.PacketsAndBytes",
    ),
    Mutation(
        "totals stop at 2^31",
        _PRIMITIVES,
        "            total = total + increment;\n",
        "            total = (total + increment) & 0x7fffffff;\n",
        "counting.TotalsWrap",
    ),
    Mutation(
        "no packet is ever lost",
        _PRIMITIVES,
        "            if (value < threshold) {",
        "            if (value < 0) {",
        "loss.AlmostCertainLoss",
    ),
    Mutation(
        "the coin has only 8 bits",
        _PRIMITIVES,
        "random(value, 32w0, 32w0xffffffff);",
        "random(value, 32w0, 32w0xff);\n            value = value << 24;",
        "loss.SmallestLossRate",
    ),
    Mutation(
        "loss is twice what was set",
        _INGRESS,
        "        loss_threshold = threshold;",
        "        loss_threshold = threshold << 1;",
        "loss.LossRate",
    ),
    Mutation(
        "the first packet finds the bad state",
        _PRIMITIVES,
        "            bad_states.read(is_bad, (bit<32>)bottleneck);\n            loss_states.apply();\n"
        "            if ((bit<33>)move < move_chance) {\n"
        "                bad_states.write((bit<32>)bottleneck, is_bad ^ 1);\n            }\n",
        "            bad_states.read(is_bad, (bit<32>)bottleneck);\n            is_bad = is_bad ^ 1;\n"
        "            loss_states.apply();\n            if ((bit<33>)move < move_chance) {\n"
        "                bad_states.write((bit<32>)bottleneck, is_bad);\n            }\n",
        "loss.BurstsOfOne",
    ),
    Mutation(
        "the state changes with every packet",
        _PRIMITIVES,
        "            if ((bit<33>)move < move_chance) {",
        "            if (true) {",
        "loss.ABurstWithoutEnd",
    ),
    Mutation(
        "one draw decides on loss and state",
        _PRIMITIVES,
        "        random(move, 32w0, 32w0xffffffff);",
        "        move = fate;",
        "loss.LossAndMoveAreDrawnApart",
    ),
    Mutation(
        "all that finds the bad state is lost",
        _PRIMITIVES,
        "        if ((bit<33>)fate < loss_chance) {",
        "        if ((bit<33>)fate < loss_chance || is_bad == 1) {",
        "loss.LossInEachState",
    ),
    Mutation(
        "all bottlenecks share one state",
        _PRIMITIVES,
        "            bad_states.read(is_bad, (bit<32>)bottleneck);",
        "            bad_states.read(is_bad, 0);",
        "loss.StateOfOneBottleneck",
    ),
    Mutation(
        "all bottlenecks share one position",
        _PRIMITIVES,
        "            positions.read(position, (bit<32>)bottleneck);",
        "            positions.read(position, 0);",
        "loss.PositionOfOneBottleneck",
    ),
    Mutation(
        "a pattern is one packet longer",
        _PRIMITIVES,
        "            if (following == length) {",
        "            if (position == length) {",
        "loss.LossByPosition",
    ),
    Mutation(
        "a pattern that has no length repeats its first packets",
        _PRIMITIVES,
        "            if (following == length) {",
        "            if (following == length || following == 256) {",
        "loss.LossByPositionOnce",
    ),
    Mutation(
        "ECN marks one unit above the threshold",
        _EGRESS,
        "settings.ecn_threshold |-| marking_depth",
        "(settings.ecn_threshold |+| 1) |-| marking_depth",
        "ecn.ThresholdIsExact",
    ),
    Mutation(
        "ECN marks one unit below the threshold",
        _EGRESS,
        "settings.ecn_threshold |-| marking_depth",
        "(settings.ecn_threshold |-| 1) |-| marking_depth",
        "ecn.ThresholdIsExact",
    ),
    Mutation(
        "ECN looks at the depth left behind",
        _EGRESS,
        "settings.ecn_threshold |-| marking_depth",
        "settings.ecn_threshold |-| seen.dequeue_depth",
        "ecn.ThresholdIsExact",
    ),
    Mutation(
        "marking leaves the IPv4 checksum as it was",
        _EGRESS,
        "        hdr.ipv4.checksum = hdr.ipv4.checksum",
        "        // hdr.ipv4.checksum = hdr.ipv4.checksum",
        "ecn.Ipv4Codepoints",
    ),
    Mutation(
        "the end-around borrow of ECT(0) is done one too late",
        _EGRESS,
        "(0, true, 2, 0x0000, _, _)",
        "(0, true, 2, 0x0001, _, _)",
        "ecn.ChecksumEndAround",
    ),
    Mutation(
        "the end-around borrow of ECT(1) is done for 0x0000 only",
        _EGRESS,
        "(0, true, 1, 0x0000 &&& 0xfffe, _, _)",
        "(0, true, 1, 0x0000, _, _)",
        "ecn.ChecksumEndAround",
    ),
    Mutation(
        "Not-ECT packets are marked",
        _EGRESS,
        "            (0, _, _, _, true, 2): mark_ipv6();",
        "            (0, _, _, _, true, _): mark_ipv6();",
        "ecn.Ipv6Codepoints",
    ),
    Mutation(
        "ECT(1) of IPv6 is not marked",
        _EGRESS,
        "            (0, _, _, _, true, 1): mark_ipv6();\n",
        "",
        "ecn.Ipv6Codepoints",
    ),
    Mutation(
        "source and destination port of flow identity are the same",
        _IDENTITY,
        "            identity.dst_port = hdr.ports.dst;",
        "            identity.dst_port = hdr.ports.src;",
        "identity.Ipv4FiveTuple",
    ),
    Mutation(
        "the upper half of IPv6 addresses does not count",
        _IDENTITY,
        "            identity.src = hdr.ipv6.src;",
        "            identity.src = (bit<128>)hdr.ipv6.src[63:0];",
        "identity.Ipv6FiveTuple",
    ),
    Mutation(
        "fragments are parsed for ports",
        _PARSER,
        "            (5, 0, 0, PROTOCOL_UDP): parse_ports;",
        "            (5, _, _, PROTOCOL_UDP): parse_ports;",
        "identity.FragmentsAreOneFlow",
    ),
    Mutation(
        "IPv4 options are taken for ports",
        _PARSER,
        "            (5, 0, 0, PROTOCOL_TCP): parse_ports;",
        "            (_, 0, 0, PROTOCOL_TCP): parse_ports;",
        "identity.HeadersBetweenIpAndTransport",
    ),
    Mutation(
        "double-tagged frames are not looked into",
        _PARSER,
        "            ETHERTYPE_QINQ: parse_vlan_outer;\n",
        "",
        "identity.Ipv4FiveTuple",
    ),
    Mutation(
        "collisions are not flagged",
        _PRIMITIVES,
        "            flags = flags | FLAG_COLLISION;",
        "            flags = flags;",
        "identity.CollisionIsFlagged",
    ),
    Mutation(
        "the last flow owns an index",
        _PRIMITIVES,
        "            if (owner == 0) {\n                signatures.write((bit<32>)index, signature);\n            }",
        "            signatures.write((bit<32>)index, signature);",
        "identity.CollisionIsFlagged",
    ),
    Mutation(
        "every packet is learned",
        _TOP,
        "            if (meta.flow.is_new == 1) {",
        "            if (meta.flow.is_new == 1 || true) {",
        "identity.NewFlowsAreLearned",
    ),
    Mutation(
        "the watermark is the last depth",
        _PRIMITIVES,
        "            if (depth > highest) {",
        "            if (depth != highest) {",
        "queueing.DepthsOfARamp",
    ),
    Mutation(
        "the histogram's bins of two bottlenecks overlap",
        _PRIMITIVES,
        "bins.count((bit<32>)(index ++ bin));",
        "bins.count((bit<32>)index + (bit<32>)bin);",
        "queueing.DelayHistogram",
    ),
    Mutation(
        "only reported packets enter the histogram",
        _EGRESS,
        "        delay_histogram.apply(flow.bottleneck, delay_bin);\n",
        "        if (seen.sequence & settings.sample_mask == 0) {\n"
        "            delay_histogram.apply(flow.bottleneck, delay_bin);\n"
        "        }\n",
        "queueing.DelayHistogram",
    ),
    Mutation(
        "the queue of a bottleneck is ignored",
        _TOP,
        "        standard.priority = meta.forwarding.queue;\n",
        "",
        "queueing.QueuesOfOnePort",
    ),
    Mutation(
        "a row of departures that are sampled begins one packet late",
        _EGRESS,
        "        sample_phase = seen.sequence & settings.sample_mask;",
        "        sample_phase = (seen.sequence - 1) & settings.sample_mask;",
        "reporting.Sampling",
    ),
    Mutation(
        "every 2^k-th departure is sampled",
        _PRIMITIVES,
        "sampled_phase = (sampled_phase ^ (sampled_phase >> 16)) & settings.sample_mask;",
        "sampled_phase = 0;",
        "reporting.Sampling",
    ),
    Mutation(
        "the seed of sampling is ignored",
        _PRIMITIVES,
        " + settings.sample_seed",
        "",
        "reporting.SamplingIsRandom",
    ),
    Mutation(
        "an ECN threshold in packets is compared with bytes",
        _TOP,
        "marking_depth = (bit<32>)standard.enq_qdepth;",
        "marking_depth = meta.seen.enqueue_depth;",
        "ecn.ThresholdInPackets",
    ),
    Mutation(
        "all bottlenecks share one sequence",
        _EGRESS,
        "bottleneck_departures.apply(flow.bottleneck, seen.sequence)",
        "bottleneck_departures.apply(0, seen.sequence)",
        "reporting.SequenceIsTheBottlenecks",
    ),
    Mutation(
        "arrivals and departures are swapped in the report",
        _REPORT,
        "        hdr.report.arrivals = flow.arrivals;\n        hdr.report.departures = seen.departures;",
        "        hdr.report.arrivals = seen.departures;\n        hdr.report.departures = flow.arrivals;",
        "reporting.EveryField",
    ),
    Mutation(
        "a report has the delay's lower 32 bits only",
        _TOP,
        "                meta.seen.queue_delay = hdr.traffic_manager.queue_delay;\n",
        "                meta.seen.queue_delay = (delay_t)hdr.traffic_manager.queue_delay[31:0];\n",
        "queueing.LongWait",
    ),
    Mutation(
        "the ECN field of the arrival is that of the departure",
        _REPORT,
        "        hdr.report.flags = flow.flags & REPORTED_FLAGS;\n",
        "        hdr.report.flags = flow.flags[7:5] ++ hdr.ipv4.ecn ++ flow.flags[2:0] & REPORTED_FLAGS;\n",
        "ecn.Ipv4Codepoints",
    ),
    Mutation(
        "the depths are swapped in the report",
        _REPORT,
        "        hdr.report.enqueue_depth = seen.enqueue_depth;",
        "        hdr.report.enqueue_depth = seen.dequeue_depth;",
        "queueing.DepthsOfARamp",
    ),
    Mutation(
        "the report's UDP length counts the IPv4 header",
        _REPORT,
        "report_length - (ETHERNET_BYTES + IPV4_BYTES)",
        "report_length - ETHERNET_BYTES",
        "reporting.CollectorOfEachBottleneck",
    ),
    Mutation(
        "the report's IPv4 checksum leaves the destination out",
        _TOP,
        "hdr.report_ipv4.protocol, hdr.report_ipv4.src, hdr.report_ipv4.dst},",
        "hdr.report_ipv4.protocol, hdr.report_ipv4.src},",
        "reporting.CollectorOfEachBottleneck",
    ),
    Mutation(
        "the report's addresses are swapped",
        _REPORT,
        "        hdr.report_ipv4.src = src_ip;",
        "        hdr.report_ipv4.src = dst_ip;",
        "reporting.CollectorOfEachBottleneck",
    ),
    Mutation(
        "a report is one byte longer than allowed",
        _TOP,
        "truncate((bit<32>)report_length);",
        "truncate((bit<32>)report_length + 1);",
        "reporting.EveryReportLength",
    ),
    Mutation(
        "the original is truncated with its report",
        _TOP,
        "            bottleneck.apply(hdr, meta.flow, meta.seen, set, marking_depth, mirror_session);\n",
        "            bottleneck.apply(hdr, meta.flow, meta.seen, set, marking_depth, mirror_session);\n"
        "            truncate(184);\n",
        "reporting.ShortAndLongPackets",
    ),
    Mutation(
        "unconnected ports leak to port 0",
        "common/cross_connect.p4",
        "        forwarding = {0, 0, 1, 0, 0};",
        "        forwarding = {2, 0, 0, 0, 0};",
        "forwarding.DiscardUnconnected",
    ),
    Mutation(
        "two pipes have the same quarter of the indices",
        _SHARE,
        "0xe0 &&& SHARE_MASK: quarter(3);",
        "0xe0 &&& SHARE_MASK: quarter(2);",
        "identity.PipesHaveNoIndexInCommon",
    ),
    Mutation(
        "flows of all pipes have all indices",
        _PRIMITIVES,
        "            flow_share.apply(share, index);\n",
        "",
        "identity.PipesHaveNoIndexInCommon",
    ),
    Mutation(
        "the share of the indices leaves the switch as flags",
        _REPORT,
        "flow.flags & REPORTED_FLAGS",
        "flow.flags",
        "identity.PipesHaveNoIndexInCommon",
    ),
    Mutation(
        "all reports have one source port",
        _REPORT,
        "        hdr.report_udp.src_port[5:0] = flow.index[5:0];\n",
        "",
        "reporting.CollectorOfEachBottleneck",
    ),
    Mutation(
        "a step marks every flow",
        QUEUE_MANAGEMENT + "management.p4",
        "if (low_latency == 1 || ce_low_latency_only == 0) {",
        "if (true) {",
        "management.StepMarks",
    ),
    Mutation(
        "CoDel drops at a constant rate",
        QUEUE_MANAGEMENT + "codel.p4",
        "((bit<64>)inverse_root << 16)",
        "(64w0xffff << 16)",
        "management.CoDelDrops",
    ),
    Mutation(
        "the CoDels of a link's queues share their state",
        QUEUE_MANAGEMENT + "codel.p4",
        "(bit<32>)(bottleneck ++ queue)",
        "(bit<32>)(bottleneck ++ (queue & 0))",
        "management.FairCoDel",
    ),
    Mutation(
        "PIE drops whenever it may",
        QUEUE_MANAGEMENT + "pie.p4",
        "(bit<64>)draw << 24 < probability",
        "(bit<64>)draw << 24 < PIE_CERTAIN",
        "management.PieDraws",
    ),
    Mutation(
        "PIE does not keep its drops apart",
        QUEUE_MANAGEMENT + "pie.p4",
        "} else if (sum >= PIE_CERTAIN / 100 * 85) {",
        "} else {",
        "management.PieDraws",
    ),
    Mutation(
        "PIE has no burst allowance",
        QUEUE_MANAGEMENT + "pie.p4",
        "burst >= PIE_BURST_NS && ",
        "",
        "management.PieDropsOnArrival",
    ),
    Mutation(
        "PIE marks however certain it is",
        QUEUE_MANAGEMENT + "pie.p4",
        " && probability <= PIE_CERTAIN / 10",
        "",
        "management.PieDropsOnArrival",
    ),
    Mutation(
        "PI2 drops what may be marked",
        QUEUE_MANAGEMENT + "dualpi2.p4",
        "overload == 1 || capable == 0 ||",
        "overload == 0 || capable == 0 ||",
        "management.Pi2AtCertainty",
    ),
    Mutation(
        "PI2 drops with p, not its square",
        QUEUE_MANAGEMENT + "dualpi2.p4",
        "                    random(draw, 32w0, 32w0xffffffff);\n",
        "                    draw = 0;\n",
        "management.Pi2Draws",
    ),
    Mutation(
        "DualPI2 does not couple its queues",
        QUEUE_MANAGEMENT + "dualpi2.p4",
        "probability * (bit<64>)pi2.coupling",
        "probability",
        "management.Pi2Draws",
    ),
    Mutation(
        "RED has no average",
        QUEUE_MANAGEMENT + "red.p4",
        "average + (bit<64>)depth - (average >> red.weight)",
        "(bit<64>)depth << red.weight",
        "management.RedAverages",
    ),
    Mutation(
        "RED averages idle times as if packets came",
        QUEUE_MANAGEMENT + "red.p4",
        "if (depth == 0 && idle[47:47] == 0) {",
        "if (false) {",
        "management.RedAverages",
    ),
    Mutation(
        "RED does not count the packets between two drops",
        QUEUE_MANAGEMENT + "red.p4",
        "spent = (bit<64>)unpicked * probability;",
        "spent = 0;",
        "management.RedSpreadsItsDrops",
    ),
    Mutation(
        "RED drops hard whether it is asked to or not",
        QUEUE_MANAGEMENT + "red.p4",
        "(forced == 1 && red.harddrop == 1)",
        "forced == 1",
        "management.RedAtItsBounds",
    ),
    Mutation(
        "RED drops what it is to spare",
        QUEUE_MANAGEMENT + "red.p4",
        "} else if (red.nodrop == 0) {",
        "} else {",
        "management.RedAtItsBounds",
    ),
    Mutation(
        "BLUE does not freeze its probability",
        QUEUE_MANAGEMENT + "blue.p4",
        "if (now - changed > (bit<48>)blue.freeze) {",
        "if (true) {",
        "management.BlueLearns",
    ),
    Mutation(
        "BLUE learns nothing of idle times",
        QUEUE_MANAGEMENT + "blue.p4",
        "idle[47:47] == 0 && link_free != known",
        "false",
        "management.BlueLearns",
    ),
    Mutation(
        "BLUE drops half of what it is to drop",
        QUEUE_MANAGEMENT + "blue.p4",
        "if (draw < probability) {",
        "if (draw < probability >> 1) {",
        "management.BlueDraws",
    ),
    Mutation(
        "DualPI2 ignores the step",
        QUEUE_MANAGEMENT + "dualpi2.p4",
        "sojourn > (bit<48>)pi2.step",
        "sojourn > (bit<48>)pi2.step + 48w1000000000",
        "management.DualPi2Queues",
    ),
    Mutation(
        "all flows wait in one fair queue",
        QUEUE_MANAGEMENT + "management.p4",
        "(bit<16>)flow.index & mask",
        "(bit<16>)flow.index & mask & 0",
        "management.FairTurns",
    ),
)
