/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: one per process, which exists while it has users, the CM ids.  It serves handshakes
 * (cm_handshake.c) and queue pairs that no thread polls (watch.c) through the functions that were passed in, and
 * sockets that linger (linger.c).
 *
 * Events are fetched under iw_cm_lock (the sleep itself is a poll of the epoll), so that a socket removed from the
 * epoll under the lock is never reported again.
 */
#include "helper.h"
#include "stats.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64 };

pthread_mutex_t iw_cm_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t iw_cm_cond = PTHREAD_COND_INITIALIZER;

static struct {
	/* iw_cm_lock */
	bool running;
	int users;
	int epfd;
	const struct iw_helper_calls *calls[IW_HELPER_CALLS];	/* of the devices that use it, ending with NULL */

	/* no lock */
	atomic_int wake_fd;
	struct iw_caller *_Atomic calling;	/* by next */
} helper = { .epfd = -1, .wake_fd = -1 };

void iw_helper_kick(void)
{
	uint64_t one = 1;
	int fd = atomic_load(&helper.wake_fd);

	if (fd >= 0)
		(void)!write(fd, &one, sizeof(one));
}

static void helper_push(struct iw_caller *caller)
{
	struct iw_caller *first = atomic_load(&helper.calling);

	do
		caller->next = first;
	while (!atomic_compare_exchange_weak(&helper.calling, &first, caller));
	/* the first caller has already woken the helper */
	if (!first)
		iw_helper_kick();
}

void iw_helper_call(struct iw_caller *caller)
{
	if (!atomic_exchange(&caller->waiting, true))
		helper_push(caller);
}

void iw_helper_forget(struct iw_caller *caller)
{
	if (!atomic_load(&caller->waiting))
		return;
	for (struct iw_caller *one = atomic_exchange(&helper.calling, NULL), *next; one; one = next) {
		next = one->next;
		if (one != caller)
			helper_push(one);
	}
}

int iw_helper_poll(int op, int fd, uint32_t events, struct iw_source *source)
{
	struct epoll_event ev = { .events = events, .data.ptr = source };

	return epoll_ctl(helper.epfd, op, fd, &ev);
}

/* ---- the thread ---- */

static void helper_attend(void)
{
	for (struct iw_caller *one = atomic_exchange(&helper.calling, NULL), *next; one; one = next) {
		next = one->next;
		/* before attending: a later call counts as a new one */
		atomic_store(&one->waiting, false);
		one->answer(one);
	}
}

static uint64_t helper_timers(void)
{
	uint64_t now = clock_ns(), first = iw_linger_expire(now);

	for (int i = 0; i < IW_HELPER_CALLS && helper.calls[i]; i++) {
		uint64_t due = helper.calls[i]->expire(now);

		if (due && (!first || due < first))
			first = due;
	}
	return first;
}

static void helper_woken(struct iw_source *source, uint32_t events)
{
	uint64_t n;

	(void)source;
	(void)events;
	(void)!read(atomic_load(&helper.wake_fd), &n, sizeof(n));
}

static struct iw_source wake_source = { helper_woken };

static void helper_events(void)
{
	struct epoll_event ev;

	/* one at a time: an event may make a later one of the same batch invalid */
	for (int i = 0; i < EVENTS && epoll_wait(helper.epfd, &ev, 1, 0) == 1; i++) {
		struct iw_source *source = ev.data.ptr;

		source->ready(source, ev.events);
	}
}

static void helper_leave(void)
{
	for (int i = 0; i < IW_HELPER_CALLS && helper.calls[i]; i++) {
		helper.calls[i]->stop();
		helper.calls[i] = NULL;
	}
}

static void helper_stop(void)
{
	close(helper.epfd);
	close(atomic_exchange(&helper.wake_fd, -1));
	helper_leave();
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
		helper_attend();
		first = helper_timers();
		iw_refused_tell();
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

static int helper_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int rc = 0;

	helper.epfd = epoll_create1(EPOLL_CLOEXEC);
	atomic_store(&helper.wake_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (helper.epfd < 0 || helper.wake_fd < 0 ||
		    iw_helper_poll(EPOLL_CTL_ADD, helper.wake_fd, EPOLLIN, &wake_source))
		rc = errno;
	if (!rc) {
		/* the application's threads handle signals */
		sigfillset(&all);
		sigdelset(&all, SIGBUS);	/* memory that has failed: blocked, it would end the process */
		sigdelset(&all, SIGSEGV);
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

/* Register a device with the running helper; an errno. */
static int helper_join(const struct iw_helper_calls *calls)
{
	int i = 0, rc;

	while (helper.calls[i] && helper.calls[i] != calls)
		i++;
	if (helper.calls[i])
		return 0;
	rc = calls->start();
	if (!rc)
		helper.calls[i] = calls;
	return rc;
}

int iw_helper_use(int n, const struct iw_helper_calls *calls)
{
	int rc;

	helper.users += n;
	if (n > 0 && !helper.running && helper_start()) {
		helper.users -= n;
		return -1;
	}
	rc = n > 0 ? helper_join(calls) : 0;
	if (rc) {
		iw_helper_use(-n, calls);
		errno = rc;
		return -1;
	}
	if (!helper.users && helper.running) {
		iw_helper_kick();
		/* the helper stays until lingering sockets have ended; without any it ends at once */
		while (helper.running && !helper.users && !iw_lingering())
			pthread_cond_wait(&iw_cm_cond, &iw_cm_lock);
	}
	return 0;
}

void iw_helper_forked(void)
{
	iw_linger_forked();
	iw_refused_forked();
	if (helper.epfd >= 0) {
		close(helper.epfd);
		close(atomic_load(&helper.wake_fd));
		helper_leave();
	}
	atomic_store(&helper.calling, NULL);
	helper.epfd = -1;
	atomic_store(&helper.wake_fd, -1);
	helper.running = false;
}
