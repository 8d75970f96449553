// SPDX-License-Identifier: GPL-2.0
/* Always twenty segments. */
#include <linux/module.h>
#include <net/tcp.h>

static void avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_sk(sk)->snd_cwnd = 20;
}

static struct tcp_congestion_ops own __read_mostly = {
	.name		= "fixed20",
	.owner		= THIS_MODULE,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init own_register(void)
{
	return tcp_register_congestion_control(&own);
}

module_init(own_register);
MODULE_LICENSE("GPL");
