// SPDX-License-Identifier: GPL-2.0
/*
 * `external` of virtual/external.c in BPF, for kernels that run already: window and pacing rate from the socket's owner.
 *
 * clang -O2 -g -target bpf -c external.bpf.c -o external.bpf.o; with -DHALVE it is `external_halve`. Of the kernel's
 * structures it has the fields that it uses: the loader finds them by their names. What it does is said in external.c.
 */
#define PROGRAM(name) __attribute__((section("struct_ops/" name), used))
#define OF_THE_KERNEL __attribute__((preserve_access_index))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

/* enum tcp_ca_state, TCP_INFINITE_SSTHRESH, TCP_CONG_NON_RESTRICTED */
enum { OPEN, DISORDER, CWR, RECOVERY, LOSS };
#define INFINITE_SSTHRESH 0x7fffffff
#define NON_RESTRICTED 1

#define LEAST_SEGMENTS 2
#define WINDOW 0x7fffffff	/* of a mark */

struct netns_ipv4 { u8 sysctl_tcp_min_tso_segs; } OF_THE_KERNEL;
struct net { struct netns_ipv4 ipv4; } OF_THE_KERNEL;
typedef struct { struct net *net; } OF_THE_KERNEL possible_net_t;
struct sock_common { possible_net_t skc_net; } OF_THE_KERNEL;
struct sock {
	struct sock_common __sk_common;
	u32 sk_mark;
	unsigned long sk_max_pacing_rate, sk_pacing_rate;
} OF_THE_KERNEL;
struct inet_connection_sock { u64 icsk_ca_priv[13]; } OF_THE_KERNEL;
struct tcp_sock { u32 snd_cwnd, snd_cwnd_clamp, snd_ssthresh; } OF_THE_KERNEL;
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 state);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	u32 flags;
	char name[16];
} OF_THE_KERNEL;

struct external {
	u32 told;	/* the mark that the window was last taken from */
	u32 window;	/* segments; 0: none was set yet, the initial window holds */
	u32 state;	/* of loss recovery, the last one */
};

char gpl[] __attribute__((section("license"), used)) = "GPL";

static struct external *own_of(struct sock *sk)
{
	return (struct external *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static void apply(struct sock *sk)
{
	struct external *own = own_of(sk);
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 told = sk->sk_mark;

	if (told != own->told) {
		own->told = told;
		own->window = told & WINDOW;
	}
	if (own->window)
		tp->snd_cwnd = own->window < tp->snd_cwnd_clamp ? own->window : tp->snd_cwnd_clamp;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/* The arguments of each come as an array, whose first one is the socket. */
PROGRAM("external_init")
int external_init(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	struct external *own = own_of(sk);

	own->told = 0;
	own->window = 0;
	own->state = OPEN;
	((struct tcp_sock *)sk)->snd_ssthresh = INFINITE_SSTHRESH;
	apply(sk);
	return 0;
}

PROGRAM("external_acked")
int external_acked(u64 *arguments)
{
	apply((struct sock *)arguments[0]);
	return 0;
}

/* Called for each write: what was set since the last acknowledgement holds for it. */
PROGRAM("external_segments")
u32 external_segments(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];

	apply(sk);
	return sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_min_tso_segs;
}

PROGRAM("external_ssthresh")
u32 external_ssthresh(u64 *arguments)
{
	return ((struct tcp_sock *)arguments[0])->snd_ssthresh;
}

PROGRAM("external_undo")
u32 external_undo(u64 *arguments)
{
	return ((struct tcp_sock *)arguments[0])->snd_cwnd;
}

#ifdef HALVE
PROGRAM("external_halve")
int external_halve(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	struct external *own = own_of(sk);
	u32 before = own->state, state = (u8)arguments[1];
	u32 window = own->window ? own->window : ((struct tcp_sock *)sk)->snd_cwnd;

	own->state = state;
	if (state == RECOVERY && before < RECOVERY)
		own->window = window / 2 > LEAST_SEGMENTS ? window / 2 : LEAST_SEGMENTS;
	else if (state == LOSS && before < LOSS)
		own->window = 1;
	return 0;
}
#endif

__attribute__((section(".struct_ops"), used))
struct tcp_congestion_ops external = {
	.ssthresh = (void *)external_ssthresh,
	.min_tso_segs = (void *)external_segments,
	.cong_control = (void *)external_acked,
	.undo_cwnd = (void *)external_undo,
	.init = (void *)external_init,
	.flags = NON_RESTRICTED,
#ifdef HALVE
	.set_state = (void *)external_halve,
	.name = "external_halve",
#else
	.name = "external",
#endif
};
