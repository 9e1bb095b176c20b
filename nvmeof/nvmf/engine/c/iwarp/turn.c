/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects the attached owners for which a CQ receives, and when.  Owns the line of those that are ready, and the CQ's
 * epoll, which is edge-triggered and adds them to the line.  Each is visited for a bounded time, then moved to the
 * line's end if there was more, and removed if there was not: the cost of a poll depends on the busy owners, not on
 * the connected ones, and no owner is served twice while others wait.
 *
 * A few owners that were busy recently stay in line although they had no more (at a chance): an unsuccessful receive
 * costs no more than a query of epoll, and a successful one saves the query.  While more than CHANCES are busy (a
 * crowd), none stays, because epoll then reports many at once.  Nobody needs the reports of a socket that stays for
 * long, and on loopback they are made on the peer's time (5 % of it with small commands): it is made quiet.
 *
 * Runs under cq->progress, on the thread that polls; attaching and detaching on the helper.
 */
#include "cq.h"
#include "util/fifo.h"

#include <stdlib.h>

enum {
	CHANCES = 4,		/* owners that stay in line at a chance */
	COLD_AFTER = 32,	/* unsuccessful visits after which an owner no longer stays */
	WARM_AFTER = 2,		/* successful visits, within one wake, after which it stays */
	QUIET_AFTER = 64,	/* and after which its socket no longer reports data: that takes three system calls */
	ALONE_COLD_AFTER = 1000,	/* unsuccessful visits after which it reports again, if no other is in line */
	CROWD = 64,		/* polls with work for which a crowd is remembered */
	ROUND = 32,		/* visits per poll */
	EVENTS = 32,
	ASK_EVERY = 16,		/* polls with work between two queries of epoll that find no new owner */
	ASK_BYTES = 65536,	/* or the same number of times this much traffic */
	ASK_IDLE = 4,		/* a poll without work counts as this many */
};

static void turn_enter(struct iw_cq *cq, struct iw_turn *t)
{
	line_push(&cq->ready, &t->link);
	cq->nready++;
	cq->nmore += t->more;
}

static void turn_leave(struct iw_cq *cq, struct iw_turn *t)
{
	line_remove(&cq->ready, &t->link);
	cq->nready--;
	cq->nmore -= t->more;
}

static struct iw_turn *turn_first(const struct iw_cq *cq)
{
	return container_of(cq->ready.head, struct iw_turn, link);
}

static void turn_loud(struct iw_turn *t)
{
	if (!t->quiet)
		return;
	t->calls->loud(t->owner);
	t->quiet = false;
	t->full = WARM_AFTER;
}

/* Whether an owner that had no more should be visited again, at a chance. */
static bool turn_worthwhile(struct iw_cq *cq, struct iw_turn *t, bool brought)
{
	if (t->nap != cq->naps) {
		t->nap = cq->naps;
		t->full = 0;
	}
	t->misses = brought ? 0 : t->misses + 1;
	t->full += brought && t->full < QUIET_AFTER;
	if (t->full < WARM_AFTER || t->misses > (t->quiet && !cq->nready ? ALONE_COLD_AFTER : COLD_AFTER))
		return false;
	if (brought && cq->nready - cq->nmore >= CHANCES)
		cq->crowd = CROWD;
	return !cq->crowd && cq->nready - cq->nmore < CHANCES;
}

/* Whether nobody needs the reports of its socket: not while the CQ is armed, because a thread may sleep at any time. */
static bool turn_is_hot(const struct iw_cq *cq, const struct iw_turn *t)
{
	return t->full == QUIET_AFTER && t->nap == cq->naps && !cq->crowd && !iw_cq_left_armed(cq);
}

/* Receive for an owner, and decide whether it stays in line.  Returns the bytes received. */
static int turn_visit(struct iw_cq *cq, struct iw_turn *t)
{
	struct iw_visit v;

	turn_leave(cq, t);
	v = t->calls->visit(t->owner, cq->staging, t->end, t->quiet || turn_is_hot(cq, t));
	if (t->hup && !v.ended)
		t->calls->hangup(t->owner);
	if (v.ended)
		return 0;
	t->more = v.more;
	t->quiet = v.quiet;
	if (turn_worthwhile(cq, t, v.bytes > 0) || v.more)
		turn_enter(cq, t);
	else
		turn_loud(t);
	return v.bytes;
}

/* Add the owners reported by epoll to the line. */
static void turn_ask(struct iw_cq *cq)
{
	struct epoll_event evs[EVENTS];
	int n = epoll_wait(cq->epfd, evs, EVENTS, 0);
	bool found = false;

	for (int i = 0; i < n; i++) {
		struct iw_turn *t = evs[i].data.ptr;

		if (!t)
			continue;
		t->end |= evs[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
		t->hup |= evs[i].events & (EPOLLHUP | EPOLLERR);
		if (list_has(&t->link)) {
			cq->nmore += !t->more;
			t->more = true;
			continue;
		}
		t->more = found = true;
		turn_enter(cq, t);
	}
	if (found)
		cq->patience = 1;
	else if (cq->patience < ASK_EVERY)
		cq->patience *= 2;
}

/* Visit the owners of shared sockets; returns whether one of them has more to do. */
static bool steady_visit(struct iw_cq *cq, bool polled)
{
	bool more = false;

	for (struct list_link *link = cq->steady.head; link; link = link->next) {
		struct iw_steady *s = container_of(link, struct iw_steady, link);

		s->more = s->calls->visit(s->owner, polled).more;
		more |= s->more;
	}
	return more;
}

void iw_cq_progress(struct iw_cq *cq, bool ask)
{
	int bytes = 0;
	bool more;

	if (!cq->attached_hint || !iw_trylock(&cq->progress))
		return;
	/* an application polls once between arming and sleeping: then the channel reports all work */
	bool rests = cq->rests && !ask;

	cq->rests = false;
	if (rests) {
		iw_unlock(&cq->progress);
		return;
	}
	if (ask || (cq->nready < cq->nlive && (!cq->ready.head || cq->skipped >= cq->patience))) {
		cq->skipped = 0;
		turn_ask(cq);
	}
	for (unsigned int n = cq->nready < ROUND ? cq->nready : ROUND; n; n--)
		bytes += turn_visit(cq, turn_first(cq));
	more = steady_visit(cq, !ask);
	cq->skipped += bytes ? 1 + (unsigned int)bytes / ASK_BYTES : ASK_IDLE;
	cq->crowd -= bytes && cq->crowd;

	bool left = cq->nmore || more;

	iw_unlock(&cq->progress);
	if (left && iw_cq_armed(cq))
		iw_cq_nap(cq);
}

void iw_cq_nap(struct iw_cq *cq)
{
	iw_lock(&cq->progress);
	cq->naps++;
	cq->rests = true;
	while (cq->ready.head) {
		struct iw_turn *t = turn_first(cq);

		turn_leave(cq, t);
		turn_loud(t);
		if (t->more)
			iw_turn_stir(t, t->fd);
	}
	for (struct list_link *link = cq->steady.head; link; link = link->next) {
		struct iw_steady *s = container_of(link, struct iw_steady, link);

		s->calls->nap(s->owner, s->more);
	}
	iw_unlock(&cq->progress);
}

/* A socket is nearly always writable: asking for that again causes an edge event. */
void iw_turn_stir(struct iw_turn *t, int fd)
{
	struct epoll_event ev = { .events = IW_TURN_EVENTS, .data.ptr = t };

	epoll_ctl(t->cq->epfd, EPOLL_CTL_MOD, fd, &ev);
}

int iw_turn_attach(struct iw_turn *t, int fd)
{
	struct epoll_event ev = { .events = IW_TURN_EVENTS & ~(uint32_t)EPOLLOUT, .data.ptr = t };
	struct iw_cq *cq = t->cq;
	int rc = 0;

	iw_lock(&cq->progress);
	if (!cq->staging)
		cq->staging = malloc(IW_STAGING);
	if (!cq->staging || epoll_ctl(cq->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		rc = -1;
	} else {
		t->fd = fd;
		cq->nlive++;
		atomic_fetch_add(&cq->attached_hint, 1);
	}
	iw_unlock(&cq->progress);
	return rc;
}

void iw_turn_detach(struct iw_turn *t)
{
	struct iw_cq *cq = t->cq;

	iw_lock(&cq->progress);
	if (list_has(&t->link))
		turn_leave(cq, t);
	epoll_ctl(cq->epfd, EPOLL_CTL_DEL, t->fd, NULL);
	t->fd = -1;
	cq->nlive--;
	atomic_fetch_sub(&cq->attached_hint, 1);
	iw_unlock(&cq->progress);
}

void iw_steady_attach(struct iw_steady *s)
{
	struct iw_cq *cq = s->cq;

	iw_lock(&cq->progress);
	list_push(&cq->steady, &s->link);
	atomic_fetch_add(&cq->attached_hint, 1);
	iw_unlock(&cq->progress);
}

void iw_steady_detach(struct iw_steady *s)
{
	struct iw_cq *cq = s->cq;

	iw_lock(&cq->progress);
	list_remove(&s->link);
	atomic_fetch_sub(&cq->attached_hint, 1);
	iw_unlock(&cq->progress);
}
