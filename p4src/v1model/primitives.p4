// The target's stateful parts on v1model (BMv2 and the softswitch). tofino/primitives.p4 holds their twins.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_PRIMITIVES_P4
#define NARROWS_PRIMITIVES_P4

// Flow index and signature: two hashes of bottleneck and 5-tuple, made different by the order of the fields. CRC-32 for
// both: CRC-16 maps flows whose addresses and ports count up together onto half as many indices.
control FlowIndex(in flow_identity_t identity, in bottleneck_index_t bottleneck, in bit<8> share,
                  out flow_index_t index) {
    FlowShare() flow_share;

    apply {
        hash(index, HashAlgorithm.crc32, 32w0,
             {2w0, bottleneck, identity.src, identity.dst, identity.protocol, identity.src_port, identity.dst_port},
             (bit<32>)FLOW_COUNT);
        if (share != 0) {
            flow_share.apply(share, index);
        }
    }
}

// Signature 0 means "no owner yet", so that value is left out of its range.
control FlowSignature(in flow_identity_t identity, in bottleneck_index_t bottleneck, out bit<32> signature) {
    apply {
        hash(signature, HashAlgorithm.crc32, 32w1,
             {identity.dst_port, identity.src_port, identity.protocol, identity.dst, identity.src, 2w0, bottleneck},
             32w0xffffffff);
    }
}

// The first flow that meets a free index owns it, by its signature: a flow is new when it just did so, and collides
// when another one owns its index.
control FlowOwner(in flow_index_t index, in bit<32> signature, out bit<1> is_new, inout bit<8> flags) {
    register<bit<32>>(FLOW_COUNT) signatures;
    bit<32> owner;

    apply {
        is_new = 0;
        @atomic {
            signatures.read(owner, (bit<32>)index);
            if (owner == 0) {
                signatures.write((bit<32>)index, signature);
            }
        }
        if (owner == 0) {
            is_new = 1;
        } else if (owner != signature) {
            flags = flags | FLAG_COLLISION;
        }
    }
}

// Counts one packet of a flow and tells its number: 32 bits, wraps.
control PacketTotal(in flow_index_t index, out bit<32> total) {
    register<bit<32>>(FLOW_COUNT) totals;

    apply {
        @atomic {
            totals.read(total, (bit<32>)index);
            total = total + 1;
            totals.write((bit<32>)index, total);
        }
    }
}

// Adds to a flow's total, 0 to read it only: 32 bits, wraps.
control RunningTotal(in flow_index_t index, in bit<32> increment, out bit<32> total) {
    register<bit<32>>(FLOW_COUNT) totals;

    apply {
        @atomic {
            totals.read(total, (bit<32>)index);
            total = total + increment;
            totals.write((bit<32>)index, total);
        }
    }
}

// Counts one packet of a bottleneck and tells its number.
control BottleneckTotal(in bottleneck_index_t index, out bit<32> total) {
    register<bit<32>>(BOTTLENECK_COUNT) totals;

    apply {
        @atomic {
            totals.read(total, (bit<32>)index);
            total = total + 1;
            totals.write((bit<32>)index, total);
        }
    }
}

// Largest depth so far of a bottleneck.
control HighWatermark(in bottleneck_index_t index, in bit<32> depth) {
    register<bit<32>>(BOTTLENECK_COUNT) depths;
    bit<32> highest;

    apply {
        @atomic {
            depths.read(highest, (bit<32>)index);
            if (depth > highest) {
                depths.write((bit<32>)index, depth);
            }
        }
    }
}

// Packets and bytes of a flow: of its frames alone, as `counted_besides` is 0 on v1model.
control FlowCounter(in flow_index_t index)(bit<32> counted_besides) {
    counter(FLOW_COUNT, CounterType.packets_and_bytes) flows;

    apply {
        flows.count((bit<32>)index);
    }
}

// Packets by bottleneck and delay bin.
control DelayHistogram(in bottleneck_index_t index, in bit<DELAY_BIN_WIDTH> bin) {
    counter(HISTOGRAM_SIZE, CounterType.packets) bins;

    apply {
        bins.count((bit<32>)(index ++ bin));
    }
}

// One biased coin: heads with probability threshold / 2^32.
control Bernoulli(in bit<32> threshold, out bit<1> heads) {
    bit<32> value;

    apply {
        heads = 0;
        if (threshold != 0) {
            random(value, 32w0, 32w0xffffffff);
            if (value < threshold) {
                heads = 1;
            }
        }
    }
}

#endif
