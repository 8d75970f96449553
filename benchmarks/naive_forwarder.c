// SPDX-License-Identifier: Apache-2.0
// Copies frames between two interfaces with recvmmsg and sendmmsg on AF_PACKET sockets: what a first forwarder in C
// looks like, without queue, program or telemetry. Usage: naive_forwarder IF1 IF2; prints "ready"; ends with SIGTERM.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BATCH = 64, FRAME_BYTES = 2048, SOCKET_BYTES = 16 << 20 };

static int open_interface(const char *name)
{
    int one = 1, bytes = SOCKET_BYTES;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    struct packet_mreq promiscuous = {.mr_type = PACKET_MR_PROMISC};
    // Bound in the end: nothing is received before the socket is as it should be.
    int fd = socket(AF_PACKET, SOCK_RAW, 0);

    address.sll_ifindex = promiscuous.mr_ifindex = (int)if_nametoindex(name);
    if (fd < 0 || address.sll_ifindex == 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) ||
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one) ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) ||
        bind(fd, (struct sockaddr *)&address, sizeof address)) {
        perror(name);
        exit(1);
    }
    return fd;
}

// Moves what is there, one batch at most.
static void forward(int from, int to)
{
    static unsigned char frames[BATCH][FRAME_BYTES];
    static struct iovec vectors[BATCH];
    static struct mmsghdr messages[BATCH];
    int received, sent = 0;

    for (int i = 0; i < BATCH; i++) {
        vectors[i] = (struct iovec){.iov_base = frames[i], .iov_len = FRAME_BYTES};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &vectors[i], .msg_iovlen = 1}};
    }
    received = recvmmsg(from, messages, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < received; i++)
        vectors[i].iov_len = messages[i].msg_len;
    while (sent < received) {
        int now = sendmmsg(to, messages + sent, (unsigned)(received - sent), 0);
        // What the interface refuses is lost, as at a full queue.
        sent += now > 0 ? now : 1;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s IF1 IF2\n", argv[0]);
        return 2;
    }
    int one = open_interface(argv[1]), two = open_interface(argv[2]);
    struct pollfd ends[2] = {{.fd = one, .events = POLLIN}, {.fd = two, .events = POLLIN}};

    puts("ready");
    fflush(stdout);
    for (;;) {
        if (poll(ends, 2, -1) < 0)
            continue;
        if (ends[0].revents & POLLIN)
            forward(one, two);
        if (ends[1].revents & POLLIN)
            forward(two, one);
    }
}
