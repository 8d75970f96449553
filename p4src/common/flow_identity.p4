// What distinguishes the flows of a bottleneck, read from whichever headers a packet has.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_FLOW_IDENTITY_P4
#define NARROWS_FLOW_IDENTITY_P4

// All packets have the same form, so that all flows are hashed and learned alike. IPv4 addresses are in the low 32 bits;
// ports are 0 where the parser found none; for a packet that is not IP, everything but the flags is 0.
control FlowIdentity(in headers_t hdr, out flow_identity_t identity) {
    apply {
        if (hdr.ipv4.isValid()) {
            identity.is_ipv6 = 0;
            identity.src = (bit<128>)hdr.ipv4.src;
            identity.dst = (bit<128>)hdr.ipv4.dst;
            identity.protocol = hdr.ipv4.protocol;
            identity.flags = 3w0 ++ hdr.ipv4.ecn ++ 3w0;
        } else if (hdr.ipv6.isValid()) {
            identity.is_ipv6 = 1;
            identity.src = hdr.ipv6.src;
            identity.dst = hdr.ipv6.dst;
            identity.protocol = hdr.ipv6.next_header;
            identity.flags = 3w0 ++ hdr.ipv6.ecn ++ 3w0;
        } else {
            identity.is_ipv6 = 0;
            identity.src = 0;
            identity.dst = 0;
            identity.protocol = 0;
            identity.flags = FLAG_NOT_IP;
        }
        if (hdr.ports.isValid()) {
            identity.src_port = hdr.ports.src;
            identity.dst_port = hdr.ports.dst;
        } else {
            identity.src_port = 0;
            identity.dst_port = 0;
        }
    }
}

#endif
