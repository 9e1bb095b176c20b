/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: one per process, there while any CM id is.  It serves handshakes (cm_handshake.c),
 * sockets that linger (linger.c) and queue pairs that nobody looks after (watch.c).
 *
 * Events are fetched under iw_cm_lock (the sleep itself is a poll of the epoll), so that whatever was
 * taken out of the epoll under the lock is never heard of again.
 */
#include "cm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { EVENTS = 64, LOGS = 32 };

pthread_mutex_t iw_cm_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t iw_cm_cond = PTHREAD_COND_INITIALIZER;
struct iwarp_stats iw_stats;
struct iwarp_live iw_live;
struct iw_id *iw_ids;
struct iw_timers iw_timers[IW_ID_ENDED + 1];

static struct {
	bool running;
	int users;
	int epfd;
	atomic_int wake_fd;
	struct iw_qp *_Atomic calling;	/* for attention, by attention_next */
	struct {
		char peer[80];
		const char *what;
	} logs[LOGS];
	unsigned int nlogs;
} helper = { .epfd = -1, .wake_fd = -1 };
static void (*_Atomic event_log)(const char *peer, const char *what);

const struct iwarp_stats *iwarp_get_stats(void)
{
	return &iw_stats;
}

const struct iwarp_live *iwarp_get_live(void)
{
	return &iw_live;
}

void iwarp_set_event_log(void (*log)(const char *peer, const char *what))
{
	atomic_store(&event_log, log);
}

/* what: a string that stays. */
void iw_refused(const struct sockaddr *peer, const char *what)
{
	iw_stats.refused++;
	if (helper.nlogs == LOGS)
		return;
	iw_addr_text(peer, helper.logs[helper.nlogs].peer, sizeof(helper.logs[0].peer));
	helper.logs[helper.nlogs++].what = what;
}

void iw_helper_kick(void)
{
	uint64_t one = 1;
	int fd = atomic_load(&helper.wake_fd);

	if (fd >= 0)
		(void)!write(fd, &one, sizeof(one));
}

static void helper_call(struct iw_qp *qp)
{
	struct iw_qp *first = atomic_load(&helper.calling);

	do
		qp->attention_next = first;
	while (!atomic_compare_exchange_weak(&helper.calling, &first, qp));
	/* who was first has woken the helper for the others too */
	if (!first)
		iw_helper_kick();
}

void iw_helper_attention(struct iw_qp *qp)
{
	if (!atomic_exchange(&qp->attention, true))
		helper_call(qp);
}

struct iw_qp *iw_helper_called(void)
{
	return atomic_exchange(&helper.calling, NULL);
}

void iw_helper_forget(struct iw_qp *qp)
{
	if (!atomic_load(&qp->attention))
		return;
	for (struct iw_qp *one = iw_helper_called(), *next; one; one = next) {
		next = one->attention_next;
		if (one != qp)
			helper_call(one);
	}
}

int iw_helper_poll(int op, int fd, uint32_t events, const void *ptr, enum iw_source source)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uintptr_t)ptr | source };

	return epoll_ctl(helper.epfd, op, fd, &ev);
}

/* ---- the thread ---- */

static uint64_t helper_timers(void)
{
	uint64_t now = clock_ns(), first, next_tick;

	/* each that expires gets a later deadline, or none */
	for (struct iw_timers *t = iw_timers; t < iw_timers + COUNT(iw_timers); t++)
		while (t->first && t->first->deadline <= now)
			iw_id_expired(t->first);
	first = iw_linger_expire(now);
	for (struct iw_timers *t = iw_timers; t < iw_timers + COUNT(iw_timers); t++)
		if (t->first && (!first || t->first->deadline < first))
			first = t->first->deadline;
	next_tick = iw_watch_timer(now);
	return next_tick && (!first || next_tick < first) ? next_tick : first;
}

static void helper_events(void)
{
	struct epoll_event evs[EVENTS];
	uint64_t n;
	/* one at a time: an event may make another of the same batch meaningless */
	for (int i = 0; i < EVENTS && epoll_wait(helper.epfd, evs, 1, 0) == 1; i++) {
		void *ptr = (void *)(uintptr_t)(evs[0].data.u64 & ~(uint64_t)IW_SRC_MASK);

		switch (evs[0].data.u64 & IW_SRC_MASK) {
		case IW_SRC_ID:
			iw_id_ready(ptr, evs[0].events);
			break;
		case IW_SRC_QP:
			iw_watch_stirred(ptr, evs[0].events);
			break;
		case IW_SRC_LINGER:
			iw_linger_ready(ptr);
			break;
		default:
			(void)!read(atomic_load(&helper.wake_fd), &n, sizeof(n));
		}
	}
}

static void helper_speak(void)
{
	void (*log)(const char *, const char *) = atomic_load(&event_log);
	unsigned int n = helper.nlogs;

	/* only this thread adds to the list while the lock is open, and it is here */
	pthread_mutex_unlock(&iw_cm_lock);
	for (unsigned int i = 0; log && i < n; i++)
		log(helper.logs[i].peer, helper.logs[i].what);
	pthread_mutex_lock(&iw_cm_lock);
	helper.nlogs = 0;
}

static void helper_stop(void)
{
	close(helper.epfd);
	close(atomic_exchange(&helper.wake_fd, -1));
	iw_watch_memory(false);
	helper.epfd = -1;
	helper.running = false;
	pthread_cond_broadcast(&iw_cm_cond);
}

static void *helper_run(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&iw_cm_lock);
	for (;;) {
		uint64_t first, now;

		helper_events();
		iw_watch_attend();
		first = helper_timers();
		if (helper.nlogs)
			helper_speak();
		if (!helper.users && !iw_lingering())
			break;

		int fd = helper.epfd;
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		pthread_mutex_unlock(&iw_cm_lock);
		now = clock_ns();

		uint64_t wait = first > now ? first - now : 0;
		struct timespec ts = { (time_t)(wait / 1000000000u), (long)(wait % 1000000000u) };

		ppoll(&pfd, 1, first ? &ts : NULL, NULL);
		iw_stats.helper_wakeups++;
		pthread_mutex_lock(&iw_cm_lock);
	}
	helper_stop();
	pthread_mutex_unlock(&iw_cm_lock);
	return NULL;
}

static void helper_fork_prepare(void)
{
	pthread_mutex_lock(&iw_cm_lock);
	pthread_mutex_lock(&iw_dev.lock);
	pthread_mutex_lock(&iw_stags_lock);
}

static void helper_fork_parent(void)
{
	pthread_mutex_unlock(&iw_stags_lock);
	pthread_mutex_unlock(&iw_dev.lock);
	pthread_mutex_unlock(&iw_cm_lock);
}

/*
 * The child has no helper, and the parent's connections are none of its own: their sockets are closed
 * here, or a listening port would stay taken and a peer connected for as long as the child lives.
 * The objects stay, ended, for a child that tidies up.
 */
static void helper_fork_child(void)
{
	for (struct iw_qp *qp = iw_dev.qps; qp; qp = qp->dev_next) {
		if (qp->fd >= 0)
			close(qp->fd);
		qp->fd = -1;
		qp->reaped = true;
		atomic_store(&qp->lock, 0);
		if (qp->srq)
			iw_srq_forked(qp->srq);
		atomic_store(&qp->watch, IW_WATCH_NONE);
		atomic_store(&qp->state, IBV_QPS_ERR);
	}
	for (struct iw_id *id = iw_ids; id; id = id->next) {
		if (id->fd >= 0)
			close(id->fd);
		id->fd = -1;
		id->polled = false;
		id->timers = NULL;
		if (id->state != IW_ID_IDLE)
			id->state = IW_ID_ENDED;
	}
	memset(iw_timers, 0, sizeof(iw_timers));
	iw_linger_forked();
	if (helper.epfd >= 0) {
		close(helper.epfd);
		close(atomic_load(&helper.wake_fd));
	}
	iw_watch_memory(false);
	iw_watch_forked();
	atomic_store(&helper.calling, NULL);
	helper.epfd = -1;
	atomic_store(&helper.wake_fd, -1);
	helper.running = false;
	helper.nlogs = 0;
	helper_fork_parent();
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void helper_fork_setup(void)
{
	pthread_atfork(helper_fork_prepare, helper_fork_parent, helper_fork_child);
}

static int helper_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int rc;

	pthread_once(&fork_once, helper_fork_setup);
	helper.epfd = epoll_create1(EPOLL_CLOEXEC);
	atomic_store(&helper.wake_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (iw_watch_memory(true) || helper.epfd < 0 || helper.wake_fd < 0 ||
	    iw_helper_poll(EPOLL_CTL_ADD, helper.wake_fd, EPOLLIN, NULL, IW_SRC_WAKE)) {
		rc = errno;
	} else {
		/* the application's signals are the application's */
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, &old);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		rc = pthread_create(&thread, &attr, helper_run, NULL);
		pthread_attr_destroy(&attr);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (rc) {
		helper_stop();
		errno = rc;
		return -1;
	}
	pthread_setname_np(thread, "iwarp");
	helper.running = true;
	return 0;
}

int iw_helper_use(int n)
{
	helper.users += n;
	if (n > 0 && !helper.running && helper_start()) {
		helper.users -= n;
		return -1;
	}
	if (!helper.users && helper.running) {
		iw_helper_kick();
		/* sockets that linger are given their time; without any it is over at once */
		while (helper.running && !helper.users && !iw_lingering())
			pthread_cond_wait(&iw_cm_cond, &iw_cm_lock);
	}
	return 0;
}
