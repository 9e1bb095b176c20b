/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread (helper.c), and what it does by itself: sockets that linger (linger.c) and the log of
 * refused connections (refused.c).  It does not know whom else it serves: what a socket in its epoll is for, what
 * is done for who called, and what is due when, are calls that it was given.
 *
 * Everything here is under iw_cm_lock, unless it says otherwise.
 */
#ifndef NVMF_IWARP_HELPER_H
#define NVMF_IWARP_HELPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

extern pthread_mutex_t iw_cm_lock;	/* never on the I/O path */
extern pthread_cond_t iw_cm_cond;

/* A socket in the helper's epoll. */
struct iw_source {
	void (*ready)(struct iw_source *source, uint32_t events);
};

/* Somebody who may call for the helper's attention. */
struct iw_caller {
	void (*answer)(struct iw_caller *caller);
	atomic_bool waiting;		/* in the stack of those that called */
	struct iw_caller *next;		/* of that stack, until the helper has taken it */
};

/* What whoever uses the helper has done on it. */
struct iw_helper_calls {
	int (*start)(void);		/* before there is a helper; an errno */
	void (*stop)(void);		/* there is none from here on */
	uint64_t (*expire)(uint64_t now);	/* do what is due; when to call again, or 0 */
};

/* helper.c */
int iw_helper_use(int n, const struct iw_helper_calls *calls);	/* users come and go; starts and stops the thread */
int iw_helper_poll(int op, int fd, uint32_t events, struct iw_source *source);
void iw_helper_kick(void);		/* any lock may be held */
/* Have the caller answered soon; any lock may be held. */
void iw_helper_call(struct iw_caller *caller);
void iw_helper_forget(struct iw_caller *caller);	/* it goes away, and does not call from here on */
void iw_helper_forked(void);		/* in a child, which has no helper */

/* linger.c */
void iw_linger(int fd, uint8_t *words, uint32_t len);	/* takes both */
void iw_cut(int fd);			/* takes it; what the peer has not acknowledged so far, it never gets */
void iw_reset_unless_lingering(int fd);	/* however it is closed, the process's death included */
bool iw_lingering(void);
uint64_t iw_linger_expire(uint64_t now);	/* the next deadline, or 0 */
void iw_linger_forked(void);

/* refused.c */
void iw_refused(const struct sockaddr *peer, const char *what);	/* what: a string that stays */
void iw_refused_tell(void);		/* the log, with the lock open meanwhile */
void iw_refused_forked(void);

#endif
