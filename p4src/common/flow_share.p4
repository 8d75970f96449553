// Divides the flow indices into quarters, so that flows of different pipes never share an index.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_FLOW_SHARE_P4
#define NARROWS_FLOW_SHARE_P4

// Each pipe of a Tofino has its own ingress state, but all share the egress state of the pipe with the bottleneck's queue.
// If flows of two pipes had the same index, their departures would be added up, and no flag would show it. So where senders
// are in several pipes, the control plane gives each pipe a share. It is in the upper three bits of a flow's flags, which
// reports do not have: 0 is all indices, 4 to 7 are the quarters. There are at most four pipes.
control FlowShare(in bit<8> share, inout flow_index_t index) {
    // The first two bits of an index are the number of its quarter.
    action quarter(bit<2> part) {
        index[FLOW_INDEX_WIDTH - 1:FLOW_INDEX_WIDTH - 2] = part;
    }

    // Sets the upper bits that all indices of a share have in common.
    table bits_of_share {
        key = {
            share: ternary @name("share");
        }
        actions = {
            quarter;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            0x80 &&& SHARE_MASK: quarter(0);
            0xa0 &&& SHARE_MASK: quarter(1);
            0xc0 &&& SHARE_MASK: quarter(2);
            0xe0 &&& SHARE_MASK: quarter(3);
        }
    }

    apply {
        bits_of_share.apply();
    }
}

#endif
