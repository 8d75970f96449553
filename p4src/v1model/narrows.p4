// Narrows on v1model: BMv2's simple_switch and the Narrows softswitch run what this compiles to.
// This file has only what is particular to v1model; the bottleneck itself is in ../common.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

#define QUEUE_WIDTH 3
typedef bit<32> mirror_session_t;

// Byte counters count frames and nothing else.
#define COUNTED_BEFORE_QUEUE 0
#define COUNTED_BEHIND_QUEUE 0

// Tables match any number of ranges: recordings of losses have room.
#define LOSS_PATTERNS

// Arithmetic can mix a seed into numbers, from which a position in a row of samples is drawn.
#define SEEDED_SAMPLING

// How a bottleneck loses packets before its queue.
const bit<2> LOSS_INDEPENDENT = 0;
const bit<2> LOSS_BY_STATE = 1;
const bit<2> LOSS_BY_PATTERN = 2;
// Runs of lost packets in all patterns together.
#define LOST_RUNS 65536

// v1model gives depths in packets and delays in 32 bits, which is 71 minutes of BMv2's microseconds. The softswitch's traffic
// manager counts bytes and nanoseconds. It finds these fields by their aliases, and sets an epoch other than 0 to show that
// it filled them; on BMv2 they stay 0. p4c keeps aliases in headers only, and names the header by its type.
@name("traffic_manager")
header traffic_manager_t {
    @alias("narrows.enq_depth_bytes") bit<32> enqueue_depth_bytes;
    @alias("narrows.deq_depth_bytes") bit<32> dequeue_depth_bytes;
    @alias("narrows.queue_delay") bit<48>     queue_delay;
    @alias("narrows.epoch") bit<16>           epoch;
    // Read by the traffic manager when it drops a packet: its own drops by flow are the check of ours.
    @alias("narrows.flow") bit<32>            flow;
    // And whose packet a drop record is of.
    @alias("narrows.signature") bit<32>       signature;
    @alias("narrows.bottleneck") bit<8>       bottleneck;
    @alias("narrows.drop_cause") bit<8>       drop_cause;
    // Read and written by its policer: the packet's ECN field, and whether it exceeds.
    @alias("narrows.excess") bit<8>           excess;
}

// Why the program itself drops a packet before its queue; the traffic manager has causes of its own.
const bit<8> NOT_DROPPED = 0;
const bit<8> DROPPED_BY_LOSS_EMULATION = 1;
const bit<8> DROPPED_BY_MANAGEMENT = 2;

// What the policer writes there for a packet that exceeds it and may be marked: the ECN field is not 0.
const bit<8> EXCESS_IS_MARKED = 4;

#define TARGET_HEADERS traffic_manager_t traffic_manager;

#include "../common/constants.p4"
#include "../common/headers.p4"
#include "../common/parser.p4"
#include "../common/metadata.p4"
#include "../common/flow_share.p4"
#include "primitives.p4"
#include "../common/cross_connect.p4"
#include "../common/flow_identity.p4"
#include "../common/ingress.p4"
#include "../common/egress.p4"
#include "../common/report.p4"
#ifdef MANAGED_QUEUES
#include "queue_management/state.p4"
#include "queue_management/codel.p4"
#include "queue_management/pie.p4"
#include "queue_management/red.p4"
#include "queue_management/blue.p4"
#include "queue_management/dualpi2.p4"
#include "queue_management/management.p4"
#endif

#define FIELDS_OF_A_REPORT 1
const bit<32> INSTANCE_EGRESS_CLONE = 2;

struct metadata_t {
    @field_list(FIELDS_OF_A_REPORT) flow_state_t  flow;
    @field_list(FIELDS_OF_A_REPORT) observation_t seen;
    forwarding_t                                  forwarding;
}

parser NarrowsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    FrameParser() frame;

    state start {
        frame.apply(packet, hdr);
        transition accept;
    }
}

control NarrowsVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control NarrowsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    CrossConnect() cross_connect;
    BottleneckIngress() bottleneck;
    bit<1> lost = 0;
    bit<8> drop_cause = NOT_DROPPED;
    bit<8> ecn = 0;
    FlowIdentity() flow_identity;
    flow_identity_t identity;
#ifdef MANAGED_QUEUES
    ManageEnqueue() manage;
    ManageUpdate() update;
    bit<1> low_queue;
#endif

    apply {
#ifdef MANAGED_QUEUES
        if (standard.ingress_port == TIMER_PORT) {
            update.apply(hdr.ethernet.dst[BOTTLENECK_WIDTH - 1:0], standard.ingress_global_timestamp);
            mark_to_drop(standard);
            return;
        }
#endif
        cross_connect.apply(hdr, standard.ingress_port, meta.forwarding, meta.flow.bottleneck);
        standard.egress_spec = meta.forwarding.port;
        standard.priority = meta.forwarding.queue;
        if (meta.forwarding.through_bottleneck == 1) {
            flow_identity.apply(hdr, identity);
            bottleneck.apply(hdr, identity, meta.forwarding.share, meta.flow, lost);
            // Read before a header is added, which v1model would include in packet_length.
            meta.seen.packet_length = (bit<16>)standard.packet_length;
            if (lost == 1) {
                drop_cause = DROPPED_BY_LOSS_EMULATION;
            }
#ifdef MANAGED_QUEUES
            if (lost == 0) {
                manage.apply(meta.flow, standard, low_queue, lost);
                standard.priority = meta.forwarding.queue + (bit<3>)low_queue;
                if (lost == 1) {
                    drop_cause = DROPPED_BY_MANAGEMENT;
                }
            }
#endif
            if (hdr.ipv4.isValid()) {
                ecn = (bit<8>)hdr.ipv4.ecn;
            } else if (hdr.ipv6.isValid()) {
                ecn = (bit<8>)hdr.ipv6.ecn;
            }
            hdr.traffic_manager.setValid();
            hdr.traffic_manager = {0, 0, 0, 0, (bit<32>)meta.flow.index, meta.flow.signature,
                                   (bit<8>)meta.flow.bottleneck, drop_cause, ecn};
            if (meta.flow.is_new == 1) {
                digest<new_flow_t>(1, {meta.flow.bottleneck, meta.flow.index, meta.flow.signature, identity.is_ipv6,
                                       identity.src, identity.dst, identity.protocol, identity.src_port,
                                       identity.dst_port});
            }
        }
        if (meta.forwarding.discard == 1 || lost == 1) {
            mark_to_drop(standard);
        }
    }
}

control NarrowsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    BottleneckSettings() settings;
    BottleneckEgress() bottleneck;
    ReportEncapsulation() report;
    settings_t set;
    bit<32> marking_depth;
    mirror_session_t mirror_session;
    bit<16> report_length;
    bit<1> undeliverable;
#ifdef MANAGED_QUEUES
    ManageDequeue() manage;
    bit<1> dropped;
#endif

    apply {
        if (standard.instance_type == INSTANCE_EGRESS_CLONE) {
            report.apply(hdr, meta.flow, meta.seen, report_length, undeliverable);
            truncate((bit<32>)report_length);
            if (undeliverable == 1) {
                mark_to_drop(standard);
            }
        } else if (meta.forwarding.through_bottleneck == 1) {
            meta.seen.timestamp = standard.egress_global_timestamp;
            meta.seen.queue_delay = (delay_t)standard.deq_timedelta;
            meta.seen.enqueue_depth = (bit<32>)standard.enq_qdepth;
            meta.seen.dequeue_depth = (bit<32>)standard.deq_qdepth;
            if (hdr.traffic_manager.epoch != 0) {
                meta.seen.enqueue_depth = hdr.traffic_manager.enqueue_depth_bytes;
                meta.seen.dequeue_depth = hdr.traffic_manager.dequeue_depth_bytes;
                meta.seen.queue_delay = hdr.traffic_manager.queue_delay;
            }
#ifdef MANAGED_QUEUES
            manage.apply(meta.flow, meta.seen, standard.enq_qdepth, standard.deq_qdepth, dropped);
            if (dropped == 1) {
                mark_to_drop(standard);
                return;
            }
#endif
            settings.apply(meta.flow.bottleneck, set);
            meta.seen.sample_shift = set.sample_shift;
            meta.seen.epoch = set.epoch;
            if (hdr.traffic_manager.epoch != 0) {
                meta.seen.epoch = hdr.traffic_manager.epoch;
            }
            marking_depth = meta.seen.enqueue_depth;
            if (set.threshold_counts_packets == 1) {
                marking_depth = (bit<32>)standard.enq_qdepth;
            }
            if (hdr.traffic_manager.excess == EXCESS_IS_MARKED) {
                // As deep as it can be: at or above any threshold.
                marking_depth = 0xffffffff;
            }
            bottleneck.apply(hdr, meta.flow, meta.seen, set, marking_depth, mirror_session);
            if (mirror_session != 0) {
                clone_preserving_field_list(CloneType.E2E, mirror_session, FIELDS_OF_A_REPORT);
            }
            hdr.traffic_manager.setInvalid();
        }
    }
}

control NarrowsComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.report_ipv4.isValid(),
            {hdr.report_ipv4.version, hdr.report_ipv4.ihl, hdr.report_ipv4.dscp, hdr.report_ipv4.ecn,
             hdr.report_ipv4.total_length, hdr.report_ipv4.identification, hdr.report_ipv4.reserved_flag,
             hdr.report_ipv4.dont_fragment, hdr.report_ipv4.more_fragments, hdr.report_ipv4.fragment_offset,
             hdr.report_ipv4.ttl, hdr.report_ipv4.protocol, hdr.report_ipv4.src, hdr.report_ipv4.dst},
            hdr.report_ipv4.checksum, HashAlgorithm.csum16);
    }
}

control NarrowsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(NarrowsParser(), NarrowsVerifyChecksum(), NarrowsIngress(), NarrowsEgress(), NarrowsComputeChecksum(),
         NarrowsDeparser()) main;
