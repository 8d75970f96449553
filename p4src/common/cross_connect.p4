// Decides which port a packet leaves by, and whether it passes through a bottleneck first.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_CROSS_CONNECT_P4
#define NARROWS_CROSS_CONNECT_P4

control CrossConnect(in headers_t hdr, in port_t ingress_port, out forwarding_t forwarding,
                     out bottleneck_index_t bottleneck_index) {
    // A plain cable between two ports.
    action wire(port_t port) {
        forwarding = {port, 0, 0, 0, 0};
        bottleneck_index = 0;
    }

    // A cable with the bottleneck's queue in it.
    action bottleneck(bottleneck_index_t index, port_t port, queue_t queue) {
        forwarding = {port, queue, 0, 1, 0};
        bottleneck_index = index;
    }

    // The same where packets come in through several pipes. Each pipe counts on its own, so each has its own `share` of
    // the flow indices (flow_share.p4).
    action bottleneck_of_pipe(bottleneck_index_t index, port_t port, queue_t queue, bit<8> share) {
        forwarding = {port, queue, 0, 1, share};
        bottleneck_index = index;
    }

    // Packets that match no entry are dropped: a testbed must not leak packets.
    action discard() {
        forwarding = {0, 0, 1, 0, 0};
        bottleneck_index = 0;
    }

    // Matched on the ingress port alone, a link is a cable. Matched on the destination too, hosts share a port or queue.
    // With VLANs hosts that send from one port can take different ways.
    table cross_connect {
        key = {
            ingress_port: ternary @name("ingress_port");
#ifdef VLAN_SEPARATED_HOSTS
            hdr.vlan_outer.isValid(): ternary @name("is_tagged");
            hdr.vlan_outer.tci: ternary @name("vlan");
#endif
            hdr.ethernet.dst: ternary @name("dst_mac");
            hdr.ipv4.isValid(): ternary @name("is_ipv4");
            hdr.ipv4.dst: ternary @name("dst_ipv4");
            hdr.ipv6.isValid(): ternary @name("is_ipv6");
            hdr.ipv6.dst: ternary @name("dst_ipv6");
        }
        actions = {
            wire;
            bottleneck;
            bottleneck_of_pipe;
            discard;
        }
        const default_action = discard();
        size = 512;
    }

    apply {
        cross_connect.apply();
    }
}

#endif
