/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How connections end while a peer does not read: the data sent after the end, and its cost.  A peer that reads to
 * the end gets ECONNRESET if data in transit was dropped, and 0 if it received everything.
 */
#include "iwarp_raw.h"

#include "check.h"
#include "cm.h"
#include "helper.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CROWD = 1024,			/* the maximum of lingering sockets */
	KERNEL_PATIENCE_S = 15,		/* for actions of the kernel within 1 s, or otherwise within 30 */
};

/* How often the helper wakes in 300 ms while last words are not read. */
static uint64_t wakes_while_unread(void)
{
	uint8_t *words = calloc(1, 4 << 20);
	int ends[2];
	uint64_t wakes;

	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "unread: a socket");
	pthread_mutex_lock(&iw_cm_lock);
	iw_linger(ends[0], words, 4 << 20);
	pthread_mutex_unlock(&iw_cm_lock);
	check(send(ends[1], "more", 4, MSG_NOSIGNAL) == 4, "unread: the peer says more");
	usleep(20000);
	wakes = iwarp_get_stats()->helper_wakeups;
	usleep(300000);
	wakes = iwarp_get_stats()->helper_wakeups - wakes;
	close(ends[1]);
	return wakes;
}

/* A peer does not read the last words, and continues to send: the helper does not poll meanwhile. */
static void last_words_unread(void)
{
	struct rdma_event_channel *events = v->create_event_channel();
	struct rdma_cm_id *id;
	uint64_t wakes = UINT64_MAX;

	v->create_id(events, &id, NULL, RDMA_PS_TCP);	/* the helper runs while there is an id */
	for (int i = 0; i < 20 && wakes >= 20; i++)
		wakes = wakes_while_unread();
	check(wakes < 20, "unread: %llu wake-ups of the helper in 300 ms", (unsigned long long)wakes);
	v->destroy_id(id);
	v->destroy_event_channel(events);
}

/* A connection on which the device has more to send than its peer reads. */
static void stall(const char *what)
{
	const int rc = raw_open_spoken();
	int arrived = 0;

	check(!rc, "%s: connects", what);
	if (rc)
		exit(check_report());	/* the rest needs the connection */
	raw_post_writes(8);
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end && !arrived;) {
		ibv_poll_cq(raw_side.cq, 1, &(struct ibv_wc){ 0 });
		ioctl(raw_fd, FIONREAD, &arrived);
	}
	check(arrived, "%s: some of it is there", what);
}

/* The end of the peer's reading: 0, or an errno. */
static int read_to_end(int fd)
{
	const struct timeval patience = { .tv_sec = CHECK_PATIENCE_S };
	static char sink[1 << 20];
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while ((n = recv(fd, sink, sizeof(sink), 0)) > 0) {}
	return n ? errno : 0;
}

static int to_error(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return v->modify_qp(raw_side.qp, &attr, IBV_QP_STATE);
}

/* The error state is an abortive end: data that the peer has not acknowledged does not arrive afterwards. */
static void cut(void)
{
	int got;

	stall("cut");
	check(!to_error(), "cut: to the error state");
	v->disconnect(raw_side.id);
	got = read_to_end(raw_fd);
	check(got == ECONNRESET, "cut: what was on its way did not come: %s", strerror(got));
	raw_close();

	check(!raw_open_spoken() && !to_error(), "cut: with nothing to send");
	got = read_to_end(raw_fd);
	check(!got, "cut: the end is in order where nothing is on its way: %s", strerror(got));
	raw_close();
}

/* rdma_disconnect is an orderly one: the data in the socket arrives, although other work was outstanding. */
static void in_order(void)
{
	int got;

	stall("in order");
	v->disconnect(raw_side.id);
	got = read_to_end(raw_fd);
	check(!got, "in order: all that was sent came: %s", strerror(got));
	raw_close();
}

/* The peer cannot be reached: data in transit does not arrive long after the connection was abandoned. */
static void given_up(void)
{
	struct pollfd gone;

	stall("given up");
	v->disconnect(raw_side.id);
	gone = (struct pollfd){ .fd = raw_fd };
	check(poll(&gone, 1, CHECK_PATIENCE_S * 1000) == 1 && gone.revents & POLLERR,
	      "given up: a reset ends what is not sent (%x)", gone.revents);
	raw_close();
}

/* Whether the kernel still has the socket that fd is connected to. */
static bool kernel_keeps(int fd)
{
	struct sockaddr_in here;
	socklen_t len = sizeof(here);
	char line[256], peer[32];
	bool found = false;
	FILE *f = fopen("/proc/net/tcp", "r");

	getsockname(fd, (struct sockaddr *)&here, &len);
	snprintf(peer, sizeof(peer), " %08X:%04X ", here.sin_addr.s_addr, ntohs(here.sin_port));
	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, peer);

		found = at && at > strchr(strchr(line, ':') + 1, ':');	/* as the remote address */
	}
	if (f)
		fclose(f);
	return found;
}

/* One more connection than the maximum of lingering sockets. */
static void disconnect_in_crowd(void)
{
	int ends[CROWD][2];

	pthread_mutex_lock(&iw_cm_lock);
	for (int i = 0; i < CROWD; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]))
			check(false, "crowded: socket %d: %s", i, strerror(errno));
		iw_linger(ends[i][0], NULL, 0);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	v->disconnect(raw_side.id);
	for (int i = 0; i < CROWD; i++)
		close(ends[i][1]);
}

/* The kernel closes it in order, and gives up much sooner than a peer of an open connection counts as dead. */
static void crowded(void)
{
	struct rlimit files, more;
	int got;

	getrlimit(RLIMIT_NOFILE, &files);
	more = files;
	more.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &more);

	stall("crowded, read");
	disconnect_in_crowd();
	got = read_to_end(raw_fd);
	check(!got, "crowded: the kernel sends the rest: %s", strerror(got));
	raw_close();

	stall("crowded, not read");
	disconnect_in_crowd();
	for (double end = now_s() + KERNEL_PATIENCE_S; now_s() < end && kernel_keeps(raw_fd);)
		usleep(20000);
	got = read_to_end(raw_fd);
	check(got == ECONNRESET, "crowded: the kernel gave the rest up: %s", strerror(got));
	raw_close();
	setrlimit(RLIMIT_NOFILE, &files);
}

/* A process that is killed with work on its connection; its child reports the end of the peer's reading. */
int be_killed(const char *tell)
{
	const pid_t device = getpid();

	stall("killed");
	if (fork()) {
		usleep(50000);
		kill(device, SIGKILL);
	}
	while (getppid() == device)
		usleep(1000);

	const int got = read_to_end(raw_fd);

	_exit(write(atoi(tell), &got, sizeof(got)) < 0);
}

/*
 * A process that dies drops its work: otherwise the kernel would continue to send it.  The process executes this
 * program again, because ASan's allocator is not usable in a child whose parent had another thread (the helper, which
 * may be about to end) in it at the fork.
 */
static void killed(void)
{
	int tell[2], got = -1, status;
	char end[16];
	pid_t pid;

	check(!pipe(tell), "killed: a pipe");
	snprintf(end, sizeof(end), "%d", tell[1]);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "iwarp_test", BE_KILLED, end, NULL);
		_exit(127);
	}
	close(tell[1]);
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status) && read(tell[0], &got, sizeof(got)) == sizeof(got) && got == ECONNRESET,
	      "killed: what was on its way did not come: %s", strerror(got));
	close(tell[0]);
}

void test_ends(void)
{
	cut();
	in_order();
	given_up();
	crowded();
	killed();
	last_words_unread();
}
