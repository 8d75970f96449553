// Narrows on Tofino 1 (TNA) and Tofino 2 (T2NA).
// This file has only what is particular to the architecture; the bottleneck itself is in ../common.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#define QUEUE_WIDTH 7
#else
#include <tna.p4>
#define QUEUE_WIDTH 5
#endif

// 64-bit packet and byte counters of 65,536 flows do not fit into a stage.
#define FLOW_INDEX_WIDTH 15
typedef MirrorId_t mirror_session_t;

// As much as fits into a mirrored copy: 4.29 s. The control plane refuses a queue whose delay can be longer.
#define DELAY_WIDTH 32
#define DELAY_BIN_WIDTH 7

// Byte counters include the frame check sequence and, after the queue, the bridge headers as well.
#define COUNTED_BEFORE_QUEUE 4
#define COUNTED_BEHIND_QUEUE 18

// Several hosts can be at one port, each in a VLAN of its own. Software's ports can be VLANs by themselves.
#define VLAN_SEPARATED_HOSTS

#include "../common/constants.p4"

// The first bits of every packet that reaches the egress parser.
const bit<2> KIND_WIRE = 0;
const bit<2> KIND_BOTTLENECK = 1;
const bit<2> KIND_MIRROR = 2;
#ifdef MANAGED_QUEUES
// The same of a bottleneck whose AQM drops packets: its `loss_drops` are drops by queue management.
const bit<2> KIND_MANAGED_MIRROR = 3;
#endif

const MirrorType_t MIRROR_REPORT = 1;
const DigestType_t DIGEST_NEW_FLOW = 1;

// From ingress to egress, through the queue. Egress computes flow index and signature again, instead of receiving them:
// every byte here takes up space in the queue.
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

// What the egress packet length includes besides the frame: it is that of the packet as it came in, so that bridge headers are
// not in it.
const bit<16> FCS_BYTES = 4;

// Added to a mirrored copy: at most 32 bytes. Flow index and signature are computed from the copy's own headers, and the
// upper bits of the time come from its own egress time. There is no space for the depth left behind: reports have 0.
header mirror_t {
    bit<2>             kind;
    bottleneck_index_t bottleneck;
    bit<8>             flags;
    bit<16>            packet_length;
    bit<32>            sequence;
    bit<32>            arrivals;
    bit<32>            departures;
    bit<32>            loss_drops;
    bit<32>            queue_delay;
    bit<32>            enqueue_depth;
    bit<32>            timestamp;
}

#define TARGET_HEADERS

#include "../common/headers.p4"
#include "../common/parser.p4"
#include "../common/metadata.p4"
#include "../common/flow_share.p4"
#include "primitives.p4"
#include "../common/cross_connect.p4"
#include "base_delay.p4"
#include "host_vlan.p4"
#include "../common/flow_identity.p4"
#include "../common/ingress.p4"
#include "../common/egress.p4"
#include "../common/report.p4"
#ifdef MANAGED_QUEUES
#include "queue_management/arrival.p4"
#include "queue_management/departure.p4"
#endif

struct switch_headers_t {
    bridge_t      bridge;
    bridge_flow_t bridge_flow;
    held_t        held;
    mirror_t      mirror;
    headers_t     frame;
}

// What a port is, from the table $PORT_METADATA.
struct port_metadata_t {
    bit<7> reserved;
    bit<1> holds;  // it is in loopback, and its frames have a held_t in front
}

struct ingress_metadata_t {
    port_metadata_t port;
    flow_state_t    flow;
    forwarding_t    forwarding;
    flow_identity_t identity;
}

struct egress_metadata_t {
    flow_state_t     flow;
    flow_identity_t  identity;
    observation_t    seen;
    mirror_session_t mirror_session;
    bit<2>           mirror_kind;
    bit<32>          mirror_timestamp;
}

parser NarrowsIngressParser(packet_in packet, out switch_headers_t hdr, out ingress_metadata_t meta,
                            out ingress_intrinsic_metadata_t intrinsic) {
    FrameParser() frame;

    state start {
        packet.extract(intrinsic);
        meta.port = port_metadata_unpack<port_metadata_t>(packet);
        hdr.bridge.setValid();
        hdr.bridge.kind = KIND_WIRE;
        transition select(meta.port.holds) {
            1: parse_held;
            default: parse_frame;
        }
    }

    state parse_held {
        packet.extract(hdr.held);
        transition parse_frame;
    }

    state parse_frame {
        frame.apply(packet, hdr.frame);
        transition accept;
    }
}

control NarrowsIngress(inout switch_headers_t hdr, inout ingress_metadata_t meta,
                       in ingress_intrinsic_metadata_t intrinsic,
                       in ingress_intrinsic_metadata_from_parser_t from_parser,
                       inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                       inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    CrossConnect() cross_connect;
    BaseDelay() base_delay;
    HostVlan() host_vlan;
    BottleneckIngress() bottleneck;
    FlowIdentity() flow_identity;
    bit<1> lost = 0;
#ifdef MANAGED_QUEUES
    ArrivalQueue() arrival_queue;
    ManageEnqueue() manage;
#endif

    apply {
        // A frame that is too short for its headers is forwarded: the parser drops it unless the error is read.
        if (from_parser.parser_err != 0) {
            hdr.bridge.kind = KIND_WIRE;
        }
        flow_identity.apply(hdr.frame, meta.identity);
        cross_connect.apply(hdr.frame, intrinsic.ingress_port, meta.forwarding, meta.flow.bottleneck);
        host_vlan.apply(hdr.frame);
        for_tm.ucast_egress_port = meta.forwarding.port;
        for_tm.qid = meta.forwarding.queue;
        hdr.bridge.bottleneck = meta.flow.bottleneck;
        if (meta.forwarding.through_bottleneck == 1) {
            bottleneck.apply(hdr.frame, meta.identity, meta.forwarding.share, meta.flow, lost);
#ifdef MANAGED_QUEUES
            arrival_queue.apply(meta.flow.bottleneck, meta.identity.flags, for_tm.qid);
            manage.apply(meta.identity.flags, meta.flow, lost);
#endif
            if (meta.flow.is_new == 1) {
                for_deparser.digest_type = DIGEST_NEW_FLOW;
            }
            hdr.bridge.kind = KIND_BOTTLENECK;
            hdr.bridge_flow.setValid();
            hdr.bridge_flow.arrivals = meta.flow.arrivals;
#ifdef MANAGED_QUEUES
            // There is room for one of them: a bottleneck has emulated loss or an AQM that drops.
            hdr.bridge_flow.loss_drops = meta.flow.loss_drops | meta.flow.aqm_drops;
#else
            hdr.bridge_flow.loss_drops = meta.flow.loss_drops;
#endif
            hdr.bridge_flow.timestamp = from_parser.global_tstamp[31:0];
            hdr.bridge_flow.flags = meta.flow.flags;
            if (lost == 1) {
                for_deparser.drop_ctl = 1;
            }
        } else {
            base_delay.apply(hdr.frame.ethernet, intrinsic.ingress_port, from_parser.global_tstamp[31:0], meta.port.holds,
                             hdr.held, meta.forwarding);
            for_tm.ucast_egress_port = meta.forwarding.port;
            if (meta.forwarding.discard == 1) {
                for_deparser.drop_ctl = 1;
            }
        }
    }
}

control NarrowsIngressDeparser(packet_out packet, inout switch_headers_t hdr, in ingress_metadata_t meta,
                               in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Digest<new_flow_t>() new_flow;

    apply {
        if (for_deparser.digest_type == DIGEST_NEW_FLOW) {
            new_flow.pack({meta.flow.bottleneck, meta.flow.index, meta.flow.signature, meta.identity.is_ipv6,
                           meta.identity.src, meta.identity.dst, meta.identity.protocol, meta.identity.src_port,
                           meta.identity.dst_port});
        }
        packet.emit(hdr.bridge);
        packet.emit(hdr.bridge_flow);
        packet.emit(hdr.held);
        packet.emit(hdr.frame.ethernet);
        packet.emit(hdr.frame.vlan_outer);
        packet.emit(hdr.frame.vlan_inner);
        packet.emit(hdr.frame.ipv4);
        packet.emit(hdr.frame.ipv6);
        packet.emit(hdr.frame.ports);
    }
}

parser NarrowsEgressParser(packet_in packet, out switch_headers_t hdr, out egress_metadata_t meta,
                           out egress_intrinsic_metadata_t intrinsic) {
    FrameParser() frame;

    state start {
        packet.extract(intrinsic);
        bridge_t first = packet.lookahead<bridge_t>();
        meta.flow.bottleneck = first.bottleneck;
        transition select(first.kind) {
            KIND_BOTTLENECK: parse_bottleneck;
#ifdef MANAGED_QUEUES
            KIND_MIRROR: parse_loss_drops;
            KIND_MANAGED_MIRROR: parse_aqm_drops;
#else
            KIND_MIRROR: parse_mirror;
#endif
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
        meta.flow.arrivals = hdr.bridge_flow.arrivals;
        meta.flow.loss_drops = hdr.bridge_flow.loss_drops;
        meta.flow.flags = hdr.bridge_flow.flags;
        transition parse_frame;
    }

#ifdef MANAGED_QUEUES
    state parse_loss_drops {
        mirror_t copy = packet.lookahead<mirror_t>();
        meta.flow.loss_drops = copy.loss_drops;
        meta.flow.aqm_drops = 0;
        transition parse_mirror;
    }

    state parse_aqm_drops {
        mirror_t copy = packet.lookahead<mirror_t>();
        meta.flow.loss_drops = 0;
        meta.flow.aqm_drops = copy.loss_drops;
        transition parse_mirror;
    }
#endif

    state parse_mirror {
        packet.extract(hdr.mirror);
        meta.flow.flags = hdr.mirror.flags;
        meta.flow.arrivals = hdr.mirror.arrivals;
#ifndef MANAGED_QUEUES
        meta.flow.loss_drops = hdr.mirror.loss_drops;
#endif
        meta.seen.packet_length = hdr.mirror.packet_length;
        meta.seen.sequence = hdr.mirror.sequence;
        meta.seen.departures = hdr.mirror.departures;
        meta.seen.queue_delay = hdr.mirror.queue_delay;
        meta.seen.enqueue_depth = hdr.mirror.enqueue_depth;
        meta.seen.dequeue_depth = 0;
        transition parse_frame;
    }

    state parse_frame {
        frame.apply(packet, hdr.frame);
        transition accept;
    }
}

// Completes a time of 48 bits, of which a mirrored copy has the lower 32.
control MirroredTime(in bit<32> low, in bit<48> now, out bit<48> timestamp) {
    bit<16> high;
    bit<32> ahead;

    // The upper bits are too large by one.
    action borrow() {
        high = high - 1;
    }

    // The lower 32 bits have wrapped in the meantime if they were larger than they are now.
    table wrap {
        key = {
            ahead: ternary;
        }
        actions = {
            borrow;
            NoAction;
        }
        const default_action = borrow();
        size = 1;
        const entries = {
            0: NoAction();
        }
    }

    apply {
        high = now[47:32];
        ahead = low |-| now[31:0];
        wrap.apply();
        timestamp = high ++ low;
    }
}

control NarrowsEgress(inout switch_headers_t hdr, inout egress_metadata_t meta,
                      in egress_intrinsic_metadata_t intrinsic,
                      in egress_intrinsic_metadata_from_parser_t from_parser,
                      inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                      inout egress_intrinsic_metadata_for_output_port_t for_output_port) {
    FlowIdentity() flow_identity;
    FlowIndex() flow_index;
    FlowSignature() flow_signature;
    MirroredTime() mirrored_time;
    BottleneckSettings() settings;
    BottleneckEgress() bottleneck;
    ReportEncapsulation() report;
    settings_t set;
    bit<16> report_length;
    bit<1> undeliverable;
#ifdef MANAGED_QUEUES
    DepartureQueue() departure_queue;
    ManageDequeue() manage;
    bit<1> dropped;
#endif

    // Computes the frame's own length.
    action strip() {
        meta.seen.packet_length = intrinsic.pkt_length - FCS_BYTES;
#ifdef MANAGED_QUEUES
        // AQMs compare it with what they allow.
        meta.seen.queue_delay = from_parser.global_tstamp[31:0] - hdr.bridge_flow.timestamp;
#endif
    }

    // A separate table, since the compiler would otherwise repeat the subtraction wherever the length is used.
    table frame_length {
        actions = {
            strip;
        }
        const default_action = strip();
        size = 1;
    }

    apply {
#if __TARGET_TOFINO__ == 2
        // Copies are of the frame as it leaves, as Tofino 1 makes them: as it came, it has bridge headers in front.
        for_deparser.mirror_io_select = 1;
#endif
        flow_identity.apply(hdr.frame, meta.identity);
        flow_index.apply(meta.identity, meta.flow.bottleneck, meta.flow.flags, meta.flow.index);
#ifdef MANAGED_QUEUES
        departure_queue.apply(meta.flow.bottleneck, meta.flow.flags, meta.flow.queue);
#endif
        settings.apply(meta.flow.bottleneck, set);
        meta.seen.sample_shift = set.sample_shift;
        meta.seen.epoch = set.epoch;
        if (hdr.mirror.isValid()) {
            flow_signature.apply(meta.identity, meta.flow.bottleneck, meta.flow.signature);
            mirrored_time.apply(hdr.mirror.timestamp, from_parser.global_tstamp, meta.seen.timestamp);
            report.apply(hdr.frame, meta.flow, meta.seen, report_length, undeliverable);
            for_deparser.drop_ctl = 2w0 ++ undeliverable;
        } else if (hdr.bridge_flow.isValid()) {
            meta.mirror_timestamp = from_parser.global_tstamp[31:0];
#ifndef MANAGED_QUEUES
            meta.seen.queue_delay = from_parser.global_tstamp[31:0] - hdr.bridge_flow.timestamp;
#endif
            frame_length.apply();
            meta.seen.enqueue_depth = (bit<32>)intrinsic.enq_qdepth;
#ifdef MANAGED_QUEUES
            manage.apply(meta.flow, meta.seen.queue_delay, intrinsic.deq_qdepth, meta.mirror_kind, dropped);
            if (dropped == 1) {
                for_deparser.drop_ctl = 1;
            } else {
                bottleneck.apply(hdr.frame, meta.flow, meta.seen, set, meta.seen.enqueue_depth, meta.mirror_session);
                if (meta.mirror_session != 0) {
                    for_deparser.mirror_type = MIRROR_REPORT;
                }
            }
#else
            bottleneck.apply(hdr.frame, meta.flow, meta.seen, set, meta.seen.enqueue_depth, meta.mirror_session);
            if (meta.mirror_session != 0) {
                for_deparser.mirror_type = MIRROR_REPORT;
                meta.mirror_kind = KIND_MIRROR;
            }
#endif
        }
    }
}

control NarrowsEgressDeparser(packet_out packet, inout switch_headers_t hdr, in egress_metadata_t meta,
                              in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() report_checksum;
    Mirror() mirror;

    apply {
        if (hdr.frame.report_ipv4.isValid()) {
            hdr.frame.report_ipv4.checksum = report_checksum.update(
                {hdr.frame.report_ipv4.version, hdr.frame.report_ipv4.ihl, hdr.frame.report_ipv4.dscp,
                 hdr.frame.report_ipv4.ecn, hdr.frame.report_ipv4.total_length,
                 hdr.frame.report_ipv4.identification, hdr.frame.report_ipv4.reserved_flag,
                 hdr.frame.report_ipv4.dont_fragment, hdr.frame.report_ipv4.more_fragments,
                 hdr.frame.report_ipv4.fragment_offset, hdr.frame.report_ipv4.ttl, hdr.frame.report_ipv4.protocol,
                 hdr.frame.report_ipv4.src, hdr.frame.report_ipv4.dst});
        }
        if (for_deparser.mirror_type == MIRROR_REPORT) {
            mirror.emit<mirror_t>(meta.mirror_session,
                {meta.mirror_kind, meta.flow.bottleneck, meta.flow.flags, meta.seen.packet_length, meta.seen.sequence,
                 meta.flow.arrivals, meta.seen.departures, meta.flow.loss_drops, meta.seen.queue_delay,
                 meta.seen.enqueue_depth, meta.mirror_timestamp});
        }
        packet.emit(hdr.frame);
    }
}

Pipeline(NarrowsIngressParser(), NarrowsIngress(), NarrowsIngressDeparser(), NarrowsEgressParser(), NarrowsEgress(),
         NarrowsEgressDeparser()) pipe;

Switch(pipe) main;
