// Narrows on Tofino 1 (TNA) and Tofino 2 (T2NA).
// Only what is the architecture's own stands here; the bottleneck itself is in ../common.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#define QUEUE_WIDTH 7
#else
#include <tna.p4>
#define QUEUE_WIDTH 5
#endif

// 64-bit packet and byte counters of 65,536 flows do not fit a stage.
#define FLOW_INDEX_WIDTH 15
typedef MirrorId_t mirror_session_t;

#include "../common/constants.p4"

// First bits of whatever reaches the egress parser.
const bit<2> KIND_WIRE = 0;
const bit<2> KIND_BOTTLENECK = 1;
const bit<2> KIND_MIRROR = 2;

const MirrorType_t MIRROR_REPORT = 1;
const DigestType_t DIGEST_NEW_FLOW = 1;

// From ingress to egress, through the queue. Flow index and signature are computed again at egress rather than carried:
// every byte here takes room in the queue.
header bridge_t {
    bit<2>             kind;
    bottleneck_index_t bottleneck;
}

header bridge_flow_t {
    bit<32> arrivals;
    bit<32> loss_drops;
    bit<32> timestamp;
    bit<8>  flags;
}

// What the egress packet length counts besides the frame: both bridge headers and the frame check sequence.
const bit<16> BRIDGED_BYTES = 14;
const bit<16> FCS_BYTES = 4;

// Travels with a mirrored copy: at most 32 bytes. The copy finds its flow index and signature in its own headers, and
// the upper half of the time in its own egress time: the collector's queue is far shorter than 2^24 ns.
header mirror_t {
    bit<2>             kind;
    bottleneck_index_t bottleneck;
    bit<2>             flags;
    bit<14>            packet_length;
    bit<32>            sequence;
    bit<32>            arrivals;
    bit<32>            departures;
    bit<32>            loss_drops;
    bit<32>            queue_delay;
    bit<24>            enqueue_depth;
    bit<24>            dequeue_depth;
    bit<24>            timestamp;
}

#define TARGET_HEADERS bridge_t bridge; bridge_flow_t bridge_flow; mirror_t mirror;

#include "../common/headers.p4"
#include "../common/parser.p4"
#include "../common/metadata.p4"
#include "primitives.p4"
#include "../common/cross_connect.p4"
#include "../common/ingress.p4"
#include "../common/egress.p4"
#include "../common/report.p4"

struct ingress_metadata_t {
    flow_state_t flow;
    forwarding_t forwarding;
    new_flow_t   learned;
}

struct egress_metadata_t {
    flow_state_t     flow;
    observation_t    seen;
    mirror_session_t mirror_session;
    mirror_t         mirrored;
}

parser NarrowsIngressParser(packet_in packet, out headers_t hdr, out ingress_metadata_t meta,
                            out ingress_intrinsic_metadata_t intrinsic) {
    FrameParser() frame;

    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        frame.apply(packet, hdr);
        transition accept;
    }
}

control NarrowsIngress(inout headers_t hdr, inout ingress_metadata_t meta,
                       in ingress_intrinsic_metadata_t intrinsic,
                       in ingress_intrinsic_metadata_from_parser_t from_parser,
                       inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                       inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    CrossConnect() cross_connect;
    BottleneckIngress() bottleneck;
    NewFlow() new_flow;
    bit<1> lost = 0;

    apply {
        cross_connect.apply(hdr, intrinsic.ingress_port, meta.forwarding, meta.flow.bottleneck);
        for_tm.ucast_egress_port = meta.forwarding.port;
        for_tm.qid = meta.forwarding.queue;
        hdr.bridge.setValid();
        hdr.bridge.kind = KIND_WIRE;
        hdr.bridge.bottleneck = meta.flow.bottleneck;
        if (meta.forwarding.through_bottleneck == 1) {
            bottleneck.apply(hdr, meta.flow, lost);
            if (meta.flow.is_new == 1) {
                new_flow.apply(hdr, meta.flow, meta.learned);
                for_deparser.digest_type = DIGEST_NEW_FLOW;
            }
            hdr.bridge.kind = KIND_BOTTLENECK;
            hdr.bridge_flow.setValid();
            hdr.bridge_flow.arrivals = meta.flow.arrivals;
            hdr.bridge_flow.loss_drops = meta.flow.loss_drops;
            hdr.bridge_flow.timestamp = from_parser.global_tstamp[31:0];
            hdr.bridge_flow.flags = meta.flow.flags;
        }
        if (meta.forwarding.discard == 1 || lost == 1) {
            for_deparser.drop_ctl = 1;
        }
        // A frame too short for its headers is still a frame: reading the error keeps the parser from dropping it.
        if (from_parser.parser_err != 0) {
            hdr.bridge.kind = hdr.bridge.kind;
        }
    }
}

control NarrowsIngressDeparser(packet_out packet, inout headers_t hdr, in ingress_metadata_t meta,
                               in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Digest<new_flow_t>() new_flow;

    apply {
        if (for_deparser.digest_type == DIGEST_NEW_FLOW) {
            new_flow.pack(meta.learned);
        }
        packet.emit(hdr);
    }
}

parser NarrowsEgressParser(packet_in packet, out headers_t hdr, out egress_metadata_t meta,
                           out egress_intrinsic_metadata_t intrinsic) {
    FrameParser() frame;

    state start {
        packet.extract(intrinsic);
        bridge_t first = packet.lookahead<bridge_t>();
        transition select(first.kind) {
            KIND_BOTTLENECK: parse_bottleneck;
            KIND_MIRROR: parse_mirror;
            default: parse_wire;
        }
    }

    state parse_wire {
        packet.extract(hdr.bridge);
        transition accept;
    }

    state parse_bottleneck {
        packet.extract(hdr.bridge);
        packet.extract(hdr.bridge_flow);
        transition parse_frame;
    }

    state parse_mirror {
        packet.extract(hdr.mirror);
        transition parse_frame;
    }

    state parse_frame {
        frame.apply(packet, hdr);
        transition accept;
    }
}

// The report's fields, as the mirrored copy brought them.
control MirroredReport(in mirror_t mirror, in bit<48> now, inout flow_state_t flow, inout observation_t seen) {
    bit<24> age;

    apply {
        flow.flags = flow.flags | (bit<8>)mirror.flags;
        flow.arrivals = mirror.arrivals;
        flow.loss_drops = mirror.loss_drops;
        seen.sequence = mirror.sequence;
        seen.departures = mirror.departures;
        seen.queue_delay = mirror.queue_delay;
        seen.enqueue_depth = (bit<32>)mirror.enqueue_depth;
        seen.dequeue_depth = (bit<32>)mirror.dequeue_depth;
        seen.packet_length = (bit<16>)mirror.packet_length;
        age = now[23:0] - mirror.timestamp;
        seen.timestamp = now - (bit<48>)age;
    }
}

control NarrowsEgress(inout headers_t hdr, inout egress_metadata_t meta,
                      in egress_intrinsic_metadata_t intrinsic,
                      in egress_intrinsic_metadata_from_parser_t from_parser,
                      inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                      inout egress_intrinsic_metadata_for_output_port_t for_output_port) {
    FlowHash() flow_hash;
    MirroredReport() mirrored;
    BottleneckEgress() bottleneck;
    ReportEncapsulation() report;
    bit<16> report_length;

    apply {
        meta.flow.flags = 0;
        meta.flow.bottleneck = hdr.bridge.bottleneck;
        if (hdr.mirror.isValid()) {
            meta.flow.bottleneck = hdr.mirror.bottleneck;
        }
        flow_hash.apply(hdr, meta.flow.bottleneck, meta.flow.index, meta.flow.signature);
        if (hdr.mirror.isValid()) {
            if (!hdr.ipv4.isValid() && !hdr.ipv6.isValid()) {
                meta.flow.flags = FLAG_NOT_IP;
            }
            mirrored.apply(hdr.mirror, from_parser.global_tstamp, meta.flow, meta.seen);
            report.apply(hdr, meta.flow, meta.seen, report_length);
            hdr.mirror.setInvalid();
        } else if (hdr.bridge_flow.isValid()) {
            meta.flow.arrivals = hdr.bridge_flow.arrivals;
            meta.flow.loss_drops = hdr.bridge_flow.loss_drops;
            meta.flow.flags = hdr.bridge_flow.flags;
            meta.seen.timestamp = from_parser.global_tstamp;
            meta.seen.queue_delay = from_parser.global_tstamp[31:0] - hdr.bridge_flow.timestamp;
            meta.seen.packet_length = intrinsic.pkt_length - (BRIDGED_BYTES + FCS_BYTES);
            meta.seen.enqueue_depth = (bit<32>)intrinsic.enq_qdepth;
            meta.seen.dequeue_depth = (bit<32>)intrinsic.deq_qdepth;
            bottleneck.apply(hdr, meta.flow, meta.seen, meta.mirror_session);
            if (meta.mirror_session != 0) {
                for_deparser.mirror_type = MIRROR_REPORT;
                meta.mirrored.setValid();
                meta.mirrored.kind = KIND_MIRROR;
            }
        }
        hdr.bridge.setInvalid();
        hdr.bridge_flow.setInvalid();
    }
}

control NarrowsEgressDeparser(packet_out packet, inout headers_t hdr, in egress_metadata_t meta,
                              in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() report_checksum;
    Mirror() mirror;

    apply {
        if (hdr.report_ipv4.isValid()) {
            hdr.report_ipv4.checksum = report_checksum.update(
                {hdr.report_ipv4.version, hdr.report_ipv4.ihl, hdr.report_ipv4.dscp, hdr.report_ipv4.ecn,
                 hdr.report_ipv4.total_length, hdr.report_ipv4.identification, hdr.report_ipv4.reserved_flag,
                 hdr.report_ipv4.dont_fragment, hdr.report_ipv4.more_fragments, hdr.report_ipv4.fragment_offset,
                 hdr.report_ipv4.ttl, hdr.report_ipv4.protocol, hdr.report_ipv4.src, hdr.report_ipv4.dst});
        }
        if (for_deparser.mirror_type == MIRROR_REPORT) {
            mirror.emit<mirror_t>(meta.mirror_session,
                {meta.mirrored.kind, meta.flow.bottleneck, meta.flow.flags[1:0], meta.seen.packet_length[13:0],
                 meta.seen.sequence, meta.flow.arrivals, meta.seen.departures, meta.flow.loss_drops,
                 meta.seen.queue_delay, meta.seen.enqueue_depth[23:0], meta.seen.dequeue_depth[23:0],
                 meta.seen.timestamp[23:0]});
        }
        packet.emit(hdr);
    }
}

Pipeline(NarrowsIngressParser(), NarrowsIngress(), NarrowsIngressDeparser(), NarrowsEgressParser(), NarrowsEgress(),
         NarrowsEgressDeparser()) pipe;

Switch(pipe) main;
