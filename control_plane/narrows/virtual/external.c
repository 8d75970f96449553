// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion controls whose window and pacing rate come from the program that owns the socket.
 *
 * The window, in segments, is in the lower 31 bits of the socket's mark (SO_MARK; 0: as it is), the pacing rate is
 * SO_MAX_PACING_RATE: no interface of the kernel is added. The upper bit tells two settings of one window apart. Both hold
 * from the next acknowledgement or write on; a program that wants them at once pushes with TCP_NODELAY. Everything else is
 * Linux's: loss detection and recovery, SACK, ECN, pacing, segmentation.
 *
 * `external` keeps its window whatever is lost. `external_halve` halves it once in each recovery, begins again with one
 * segment after a timeout (RFC 5681, section 3.1), and holds that until the mark changes.
 */
#include <linux/module.h>
#include <linux/version.h>
#include <net/tcp.h>

#define LEAST_SEGMENTS 2
#define WINDOW GENMASK(30, 0)	/* of a mark */

struct external {
	u32 told;	/* the mark that the window was last taken from */
	u32 window;	/* segments; 0: none was set yet, the initial window holds */
};

static void external_apply(struct sock *sk)
{
	struct external *own = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 told = READ_ONCE(sk->sk_mark);
	unsigned long rate = READ_ONCE(sk->sk_max_pacing_rate);

	if (told != own->told) {
		own->told = told;
		own->window = told & WINDOW;
	}
	if (own->window)
		tp->snd_cwnd = min(own->window, tp->snd_cwnd_clamp);
	/* Without a rate nothing is paced: the acknowledgements clock the packets. */
	WRITE_ONCE(sk->sk_pacing_rate, rate);
}

static void external_init(struct sock *sk)
{
	struct external *own = inet_csk_ca(sk);

	own->told = 0;
	own->window = 0;
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	external_apply(sk);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
static void external_acked(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
#else
static void external_acked(struct sock *sk, const struct rate_sample *rs)
#endif
{
	external_apply(sk);
}

/* Called for each write: what was set since the last acknowledgement holds for it. */
#ifdef EXTERNAL_MIN_TSO_SEGS
static u32 external_segments(struct sock *sk)
{
	external_apply(sk);
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}
#endif

static u32 external_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 external_undo(struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

static void halve_on_loss(struct sock *sk, u8 state)
{
	struct external *own = inet_csk_ca(sk);
	u8 before = inet_csk(sk)->icsk_ca_state;
	u32 window = own->window ? own->window : tcp_sk(sk)->snd_cwnd;

	if (state == TCP_CA_Recovery && before < TCP_CA_Recovery)
		own->window = max_t(u32, window / 2, LEAST_SEGMENTS);
	else if (state == TCP_CA_Loss && before < TCP_CA_Loss)
		own->window = 1;
}

#ifdef EXTERNAL_MIN_TSO_SEGS
#define EXTERNAL_SEGMENTS .min_tso_segs = external_segments,
#else
#define EXTERNAL_SEGMENTS
#endif

#define EXTERNAL_OPS(called, ...)				\
{								\
	.name		= called,				\
	.owner		= THIS_MODULE,				\
	.flags		= TCP_CONG_NON_RESTRICTED,		\
	.init		= external_init,			\
	.cong_control	= external_acked,			\
	.ssthresh	= external_ssthresh,			\
	.undo_cwnd	= external_undo,			\
	EXTERNAL_SEGMENTS					\
	__VA_ARGS__						\
}

static struct tcp_congestion_ops external __read_mostly = EXTERNAL_OPS("external");
static struct tcp_congestion_ops external_halve __read_mostly =
	EXTERNAL_OPS("external_halve", .set_state = halve_on_loss);

static int __init external_register(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct external) > ICSK_CA_PRIV_SIZE);
	error = tcp_register_congestion_control(&external);
	if (error)
		return error;
	error = tcp_register_congestion_control(&external_halve);
	if (error)
		tcp_unregister_congestion_control(&external);
	return error;
}

static void __exit external_unregister(void)
{
	tcp_unregister_congestion_control(&external_halve);
	tcp_unregister_congestion_control(&external);
}

module_init(external_register);
module_exit(external_unregister);

MODULE_DESCRIPTION("Congestion control from outside");
MODULE_LICENSE("GPL");
