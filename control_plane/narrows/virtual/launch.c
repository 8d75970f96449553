// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Frames that a switch in a guest passes on ahead of their time.
 *
 * A program opens /dev/narrows_launch once for each interface that it sends on, names the interface (BIND), and writes
 * records: a launch time, a header for the kernel as of a packet socket (PACKET_VNET_HDR), how long the frame is, and its
 * first bytes; all behind them are zeros. Each frame leaves by the interface, past the queueing discipline, at its time
 * on CLOCK_MONOTONIC, and at once if that is past. Order is by time, and of equal times that of writing.
 *
 * A packet socket with SO_TXTIME and an fq queueing discipline do the same (frames are the same bits), and take a third
 * of a fast run's processor time: for each frame its payload of zeros is copied into memory of its own, and it is
 * classified, sorted, and touched again when its time has come. Here it is made at its time, and all payload is one
 * page of zeros.
 */
#include <linux/etherdevice.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/if_vlan.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/virtio_net.h>
#include <net/net_namespace.h>

#define LAUNCH_BIND _IO('N', 0)		/* the interface's index, in the caller's network namespace */
#define LAUNCH_LOST _IOR('N', 1, __u64)	/* frames that the interface did not take, since BIND */

/* The most that is written at once: room for one frame that is held in full. */
#define LARGEST_WRITE (128 << 10)
/* Zeros for the longest packet. */
#define ZEROS_ORDER get_order(64 << 10)
/* What is held of a frame is in one piece up to here: headers are. */
#define LINEAR 2048
/* Frames of one instant that leave before their receivers have a turn: a veth queue with GRO holds 256. */
#define TURN 64

struct record {
	__u64 launch_ns;
	__u32 length;			/* of the frame */
	__u32 held;			/* bytes of it that follow */
	struct virtio_net_hdr vnet;
	__u8 reserved[6];
	__u8 bytes[];			/* up to the next multiple of 8 */
};

/* What one write brought; it is sorted by launch times. */
struct batch {
	struct list_head list;
	size_t length;
	size_t next;			/* the record that leaves next */
	u64 number;			/* of the write */
	__u8 records[] __aligned(8);
};

struct launch {
	struct net *net;
	int ifindex;
	spinlock_t lock;		/* of the batches */
	struct list_head batches;	/* in the order of their next records */
	struct hrtimer timer;
	struct tasklet_struct tasklet;
	u64 writes;
	u64 lost;
};

static struct page *zeros;

static struct record *next_of(struct batch *batch)
{
	return (struct record *)(batch->records + batch->next);
}

static size_t size_of(const struct record *record)
{
	return ALIGN(sizeof(*record) + record->held, 8);
}

/* True if the next record of one batch leaves before that of another. */
static bool precedes(struct batch *one, struct batch *other)
{
	u64 one_ns = next_of(one)->launch_ns, other_ns = next_of(other)->launch_ns;

	return one_ns < other_ns || (one_ns == other_ns && one->number < other->number);
}

/* Puts a batch where its next record is in the order of all. */
static void insert(struct launch *launch, struct batch *batch)
{
	struct batch *before;

	list_for_each_entry_reverse(before, &launch->batches, list)
		if (precedes(before, batch))
			break;
	list_add(&batch->list, &before->list);
}

/* Goes on in the batch whose record was the first of all. */
static void advance(struct launch *launch, struct batch *batch)
{
	struct batch *second = list_next_entry(batch, list);

	batch->next += size_of(next_of(batch));
	if (batch->next == batch->length) {
		list_del(&batch->list);
		kfree(batch);
	} else if (&second->list != &launch->batches && precedes(second, batch)) {
		list_del(&batch->list);
		insert(launch, batch);
	}
}

/* Makes a frame of a record; NULL: there is no memory, or it is not what its header for the kernel says. */
static struct sk_buff *frame_of(const struct record *record, struct net_device *dev)
{
	const unsigned int room = NET_SKB_PAD + NET_IP_ALIGN;
	unsigned int linear = min_t(unsigned int, record->held, LINEAR);
	unsigned int missing = record->length - record->held;
	struct sk_buff *skb;
	int error;

	skb = alloc_skb_with_frags(room + linear, record->held - linear, PAGE_ALLOC_COSTLY_ORDER, &error, GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb_reserve(skb, room);
	skb_put(skb, linear);
	skb->data_len = record->held - linear;
	skb->len += skb->data_len;
	skb_store_bits(skb, 0, record->bytes, record->held);
	if (missing) {
		get_page(zeros);
		skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, zeros, 0, missing, missing);
	}
	skb->dev = dev;
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = eth_hdr(skb)->h_proto;
	if (virtio_net_hdr_to_skb(skb, &record->vnet, virtio_legacy_is_little_endian())) {
		kfree_skb(skb);
		return NULL;
	}
	return skb;
}

/* Sends a frame; false: it is lost. */
static bool send(const struct record *record, struct net_device *dev)
{
	struct sk_buff *skb;

	if (!record->vnet.gso_type && record->length > READ_ONCE(dev->mtu) + VLAN_ETH_HLEN)
		return false;
	skb = frame_of(record, dev);
	return skb && dev_direct_xmit(skb, 0) == NETDEV_TX_OK;
}

static void send_due(struct tasklet_struct *tasklet)
{
	struct launch *launch = from_tasklet(launch, tasklet, tasklet);
	u64 now_ns = ktime_get_ns();
	struct net_device *dev;
	struct batch *batch;
	int turn = TURN;

	rcu_read_lock();
	dev = dev_get_by_index_rcu(launch->net, launch->ifindex);
	spin_lock(&launch->lock);
	while ((batch = list_first_entry_or_null(&launch->batches, struct batch, list))) {
		const struct record *record = next_of(batch);

		if (record->launch_ns > now_ns) {
			hrtimer_start(&launch->timer, ns_to_ktime(record->launch_ns), HRTIMER_MODE_ABS);
			break;
		}
		if (turn-- == 0) {
			tasklet_schedule(tasklet);
			break;
		}
		launch->lost += !dev || !send(record, dev);
		advance(launch, batch);
	}
	spin_unlock(&launch->lock);
	rcu_read_unlock();
}

static enum hrtimer_restart time_has_come(struct hrtimer *timer)
{
	struct launch *launch = container_of(timer, struct launch, timer);

	tasklet_schedule(&launch->tasklet);
	return HRTIMER_NORESTART;
}

/* True if a batch consists of whole records, each of a frame that can be made. */
static bool is_sound(struct batch *batch)
{
	size_t rest;

	for (rest = batch->length; rest; rest -= size_of(next_of(batch)), batch->next += size_of(next_of(batch))) {
		const struct record *record = next_of(batch);

		if (rest < sizeof(*record) || record->held > rest || size_of(record) > rest ||
		    record->held < ETH_HLEN || record->length < record->held ||
		    record->length - record->held > PAGE_SIZE << ZEROS_ORDER)
			return false;
	}
	batch->next = 0;
	return true;
}

static ssize_t launch_write(struct file *file, const char __user *from, size_t length, loff_t *offset)
{
	struct launch *launch = file->private_data;
	struct batch *batch;
	bool is_first;

	if (!launch->ifindex)
		return -ENOTCONN;
	if (!length || length > LARGEST_WRITE)
		return -EMSGSIZE;
	batch = kmalloc(sizeof(*batch) + length, GFP_KERNEL | __GFP_NOWARN);
	if (!batch)
		return -ENOMEM;
	batch->length = length;
	batch->next = 0;
	if (copy_from_user(batch->records, from, length)) {
		kfree(batch);
		return -EFAULT;
	}
	if (!is_sound(batch)) {
		kfree(batch);
		return -EINVAL;
	}
	spin_lock_bh(&launch->lock);
	batch->number = launch->writes++;
	insert(launch, batch);
	is_first = list_is_first(&batch->list, &launch->batches);
	spin_unlock_bh(&launch->lock);
	if (is_first)
		tasklet_schedule(&launch->tasklet);
	return length;
}

static long launch_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct launch *launch = file->private_data;
	u64 lost;

	switch (command) {
	case LAUNCH_BIND:
		if (launch->ifindex)
			return -EISCONN;
		if ((int)argument <= 0)
			return -EINVAL;
		launch->ifindex = argument;
		return 0;
	case LAUNCH_LOST:
		spin_lock_bh(&launch->lock);
		lost = launch->lost;
		spin_unlock_bh(&launch->lock);
		return put_user(lost, (u64 __user *)argument);
	default:
		return -ENOTTY;
	}
}

static int launch_open(struct inode *inode, struct file *file)
{
	struct launch *launch = kzalloc(sizeof(*launch), GFP_KERNEL);

	if (!launch)
		return -ENOMEM;
	launch->net = get_net(current->nsproxy->net_ns);
	spin_lock_init(&launch->lock);
	INIT_LIST_HEAD(&launch->batches);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&launch->timer, time_has_come, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&launch->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	launch->timer.function = time_has_come;
#endif
	tasklet_setup(&launch->tasklet, send_due);
	file->private_data = launch;
	return 0;
}

static int launch_release(struct inode *inode, struct file *file)
{
	struct launch *launch = file->private_data;
	struct batch *batch, *next;

	/* Each of the two may start the other: nothing is left for them first. */
	spin_lock_bh(&launch->lock);
	list_for_each_entry_safe(batch, next, &launch->batches, list)
		kfree(batch);
	INIT_LIST_HEAD(&launch->batches);
	spin_unlock_bh(&launch->lock);
	hrtimer_cancel(&launch->timer);
	tasklet_kill(&launch->tasklet);
	put_net(launch->net);
	kfree(launch);
	return 0;
}

static const struct file_operations operations = {
	.open = launch_open,
	.release = launch_release,
	.write = launch_write,
	.unlocked_ioctl = launch_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "narrows_launch",
	.fops = &operations,
	.mode = 0600,
};

static int __init launch_init(void)
{
	zeros = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP, ZEROS_ORDER);
	return zeros ? misc_register(&device) : -ENOMEM;
}
device_initcall(launch_init);
