/* SPDX-License-Identifier: BSD-3-Clause */
/* A CQ leaves its channel, in order to be destroyed, while a different thread receives for it. */
#include "chan.h"
#include "device.h"
#include "iwarp_pair.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* The completion queue's part of a member; its socket is always ready. */
struct queue {
	struct ibv_cq cq;
	struct iw_member member;
};

static struct ibv_comp_channel *channel;
static struct queue *slow;		/* the one whose receive takes its time */
static bool leaves_soon;		/* it is leaving when its receive ends */
static atomic_bool entered, left, late, taken;

static bool member_armed(struct iw_member *member)
{
	(void)member;
	return true;
}

static bool has_left(const struct iw_member *member)
{
	struct iw_chan *chan = (struct iw_chan *)channel;
	bool found;

	iw_lock(&chan->lock);
	found = member->left;
	iw_unlock(&chan->lock);
	return found;
}

static void member_receive(struct iw_member *member)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	if (!slow || member != &slow->member)
		return;
	atomic_store(&entered, true);
	for (int i = 0; i < 100 && !atomic_load(&left); i++)
		nanosleep(&pause, NULL);
	atomic_store(&late, atomic_load(&left));
	if (!leaves_soon)
		return;
	for (double end = now_s() + CHECK_PATIENCE_S; !has_left(member) && now_s() < end;)
		nanosleep(&pause, NULL);
	iw_chan_event((struct iw_chan *)channel, member);	/* nobody gets it */
}

static const struct iw_member_calls calls = { member_armed, member_receive };

static void queue_open(struct queue *q)
{
	memset(q, 0, sizeof(*q));
	pthread_mutex_init(&q->cq.mutex, NULL);
	pthread_cond_init(&q->cq.cond, NULL);
	q->member.cq = &q->cq;
	q->member.calls = &calls;
	q->member.epfd = eventfd(1, EFD_CLOEXEC);
	check(!iw_chan_join((struct iw_chan *)channel, &q->member), "leaves: joins");
	iw_chan_armed((struct iw_chan *)channel, &q->member);
}

static void queue_close(struct queue *q)
{
	iw_chan_leave((struct iw_chan *)channel, &q->member);
	close(q->member.epfd);
	pthread_cond_destroy(&q->cq.cond);
	pthread_mutex_destroy(&q->cq.mutex);
}

static void take_event(void)
{
	struct ibv_cq *cq;
	void *context;

	if (iw_get_cq_event(channel, &cq, &context))
		return;
	atomic_store(&taken, true);
	iw_ack_cq_events(cq, 1);
}

static void *take_events(void *unused)
{
	while (!atomic_load(&left) && !atomic_load(&entered))
		take_event();
	return unused;
}

/* others: the channel has one more CQ, and finds those that are ready through its epoll. */
static void leaves(bool others)
{
	struct queue one, other;
	pthread_t thread;

	channel = iw_create_comp_channel(&iw_dev.ext.context);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	queue_open(&one);
	if (others)
		queue_open(&other);
	slow = &one;
	leaves_soon = true;
	atomic_store(&entered, false);
	atomic_store(&left, false);
	atomic_store(&late, false);
	atomic_store(&taken, false);
	pthread_create(&thread, NULL, take_events, NULL);
	for (double end = now_s() + CHECK_PATIENCE_S; !atomic_load(&entered) && now_s() < end;)
		usleep(100);
	check(atomic_load(&entered), "leaves: a thread receives for the CQ");
	queue_close(&one);
	atomic_store(&left, true);
	pthread_join(thread, NULL);
	check(!atomic_load(&late), "leaves: the CQ is not destroyed under it%s", others ? " (one of two)" : "");
	check(!atomic_load(&taken), "leaves: it has no event as soon as it begins to leave");
	slow = NULL;
	leaves_soon = false;
	if (others)
		queue_close(&other);
	check(!iw_destroy_comp_channel(channel), "leaves: the channel has no CQ left");
}

#ifndef __SANITIZE_ADDRESS__
/* Its cancellation is pending as it begins to receive: it must not end there. */
static void *be_cancelled(void *unused)
{
	struct ibv_cq *cq;
	void *context;

	pthread_cancel(pthread_self());
	iw_get_cq_event(channel, &cq, &context);
	return unused;
}

static void cancelled(void)
{
	struct queue one, other;
	pthread_t thread;
	void *result = NULL;

	channel = iw_create_comp_channel(&iw_dev.ext.context);
	queue_open(&one);
	queue_open(&other);
	pthread_create(&thread, NULL, be_cancelled, NULL);
	pthread_join(thread, &result);
	check(result == PTHREAD_CANCELED, "leaves: a thread that waits for events can be cancelled");
	queue_close(&one);
	queue_close(&other);
	check(!iw_destroy_comp_channel(channel), "leaves: no CQ waits for a thread that was cancelled");
}
#endif

enum { CROWD = 16 };

static void *look_again(void *unused)
{
	while (!atomic_load(&left))
		take_event();
	return unused;
}

/* Some thread receives at any time. */
static void crowded(void)
{
	struct queue one, other;
	pthread_t threads[CROWD];

	channel = iw_create_comp_channel(&iw_dev.ext.context);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	queue_open(&one);
	queue_open(&other);
	slow = &other;
	atomic_store(&entered, false);
	atomic_store(&left, false);
	for (int i = 0; i < CROWD; i++)
		pthread_create(&threads[i], NULL, look_again, NULL);
	for (double end = now_s() + CHECK_PATIENCE_S; !atomic_load(&entered) && now_s() < end;)
		usleep(100);
	queue_close(&one);
	atomic_store(&left, true);
	for (int i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	slow = NULL;
	queue_close(&other);
	check(!iw_destroy_comp_channel(channel), "leaves: a CQ leaves although some thread always receives");
}

void test_leaves(void)
{
	leaves(false);
	leaves(true);
	crowded();
#ifndef __SANITIZE_ADDRESS__	/* gcc's takes the stack of a thread that was cancelled for invalid when the thread ends */
	cancelled();
#endif
}
