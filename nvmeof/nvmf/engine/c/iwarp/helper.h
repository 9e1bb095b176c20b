/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread (helper.c), and its own functions: sockets that linger (linger.c) and the log of refused
 * connections (refused.c).  It does not depend on its users: the handling of sockets in its epoll, of callers, and of
 * deadlines are functions that were passed in.
 *
 * Everything here is under iw_cm_lock, unless stated otherwise.
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

/* An object that can call for the helper's attention. */
struct iw_caller {
	void (*answer)(struct iw_caller *caller);
	atomic_bool waiting;		/* in the stack of callers */
	struct iw_caller *next;		/* in that stack, until the helper has taken it */
};

enum { IW_HELPER_CALLS = 2 };		/* devices that may use the helper */

/* The functions that the helper calls for a device. */
struct iw_helper_calls {
	int (*start)(void);		/* before first use; an errno */
	void (*stop)(void);		/* the device no longer uses the helper */
	uint64_t (*expire)(uint64_t now);	/* handle expired deadlines; returns the next deadline, or 0 */
};

/* helper.c */
int iw_helper_use(int n, const struct iw_helper_calls *calls);	/* change the number of users */
int iw_helper_poll(int op, int fd, uint32_t events, struct iw_source *source);
void iw_helper_kick(void);		/* any lock may be held */
/* Have the caller served soon; any lock may be held. */
void iw_helper_call(struct iw_caller *caller);
void iw_helper_forget(struct iw_caller *caller);	/* it is being freed, and makes no further calls */
void iw_helper_forked(void);		/* in a child, which has no helper */

/* linger.c */
void iw_linger(int fd, uint8_t *words, uint32_t len);	/* takes ownership of both */
void iw_cut(int fd);			/* takes ownership; data that the peer has not acknowledged is dropped */
void iw_reset_unless_lingering(int fd);	/* send a reset at any close, including the process's death */
bool iw_lingering(void);
uint64_t iw_linger_expire(uint64_t now);	/* the next deadline, or 0 */
void iw_linger_forked(void);

/* refused.c */
void iw_refused(const struct sockaddr *peer, const char *what);	/* what: a string that remains valid */
void iw_refused_tell(void);		/* write to the log, with the lock released meanwhile */
void iw_refused_forked(void);

#endif
