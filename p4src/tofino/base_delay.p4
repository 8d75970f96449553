// Base RTTs without another machine: what a receiver sends back goes round a port in loopback until its time has come.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_BASE_DELAY_P4
#define NARROWS_BASE_DELAY_P4

// A pair of a receiver and a sender has a line of its own: frames of one pair leave in the order in which they came.
typedef bit<8> line_t;
#define LINE_COUNT 256

// What a frame brings along while it goes round, in front of its Ethernet header; no cable carries it.
header held_t {
    line_t  line;
    bit<7>  reserved;
    port_t  port;      // by which it leaves at last
    bit<32> release;   // when: the low bits of a time in ns
    bit<32> sequence;  // which frame of its line it is
}

// `returned`: the frame comes from a port in loopback and has a held_t.
control BaseDelay(in ethernet_t ethernet, in port_t ingress_port, in bit<32> now, in bit<1> returned, inout held_t held,
                  inout forwarding_t forwarding) {
    // Frames that each line has taken in: the next one's number.
    Register<bit<32>, line_t>(LINE_COUNT) taken_in;
    RegisterAction<bit<32>, line_t, bit<32>>(taken_in) take_in = {
        void apply(inout bit<32> stored, out bit<32> number) {
            number = stored;
            stored = stored + 1;
        }
    };
    // Number of the frame that leaves each line next.
    Register<bit<32>, line_t>(LINE_COUNT) next_out;
    // A frame whose time has come leaves in its turn: those before it may be just behind it in the loop.
    RegisterAction<bit<32>, line_t, bit<8>>(next_out) let_out_in_turn = {
        void apply(inout bit<32> stored, out bit<8> leaves) {
            leaves = 0;
            if (stored == held.sequence) {
                stored = stored + 1;
                leaves = 1;
            }
        }
    };
    // A frame that is much too late leaves before those in front of it, which are lost.
    RegisterAction<bit<32>, line_t, bit<8>>(next_out) let_out = {
        void apply(inout bit<32> stored, out bit<8> leaves) {
            leaves = 1;
            if (stored <= held.sequence) {
                stored = held.sequence + 1;
            }
        }
    };
    bit<32> remaining;
    bit<8> leaves;

    // Frames of a receiver for a sender: which line they take, for how long, and which port is in loopback.
    action hold(line_t line, bit<32> delay, port_t loopback) {
        held.setValid();
        held.line = line;
        held.reserved = 0;
        held.port = forwarding.port;
        held.release = now + delay;
        forwarding.port = loopback;
    }

    // The base RTTs: an entry for each pair of hosts that has one.
    table base_delay {
        key = {
            ingress_port: exact @name("ingress_port");
            ethernet.dst: exact @name("dst_mac");
        }
        actions = {
            hold;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = LINE_COUNT;
    }

    // Its time has not come.
    action wait() {
        leaves = 0;
    }

    // Its time has come.
    action leave_in_turn() {
        leaves = let_out_in_turn.execute(held.line);
    }

    // Its time came more than 2^20 ns ago, which is many rounds.
    action leave_late() {
        leaves = let_out.execute(held.line);
    }

    // Whether the time has come: the difference is negative from then on.
    table release {
        key = {
            remaining: ternary @name("remaining");
        }
        actions = {
            wait;
            leave_in_turn;
            leave_late;
        }
        const default_action = wait();
        size = 3;
        const entries = {
            0: leave_in_turn();
            0xfff00000 &&& 0xfff00000: leave_in_turn();
            0x80000000 &&& 0x80000000: leave_late();
        }
    }

    apply {
        if (returned == 1) {
            remaining = held.release - now;
            release.apply();
            forwarding = {held.port, 0, 0, 0, 0};
            if (leaves == 0) {
                forwarding.port = ingress_port;
            } else {
                held.setInvalid();
            }
        } else if (base_delay.apply().hit) {
            held.sequence = take_in.execute(held.line);
        }
    }
}

#endif
