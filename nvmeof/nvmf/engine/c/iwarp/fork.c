/* SPDX-License-Identifier: BSD-3-Clause */
/* Forking: the device does not continue in the child. */
#include "cm.h"

#include <unistd.h>

static void fork_prepare(void)
{
	pthread_mutex_lock(&iw_cm_lock);
	pthread_mutex_lock(&iw_numbers.lock);
	pthread_mutex_lock(&iw_stags_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&iw_stags_lock);
	pthread_mutex_unlock(&iw_numbers.lock);
	pthread_mutex_unlock(&iw_cm_lock);
}

/*
 * The child has no helper, and does not own the parent's connections: their sockets are closed here, because
 * otherwise a listening port would stay in use and peers connected as long as the child lives. The objects remain, in
 * their ended states, so that the child can free them.
 */
static void fork_child(void)
{
	for (struct iw_qp *qp = iw_numbers.qps; qp; qp = qp->number_next) {
		if (qp->stream.fd >= 0)
			close(qp->stream.fd);
		qp->stream.fd = -1;
		qp->reaped = true;
		atomic_store(&qp->lock, 0);
		if (qp->stream.srq)
			iw_srq_forked(qp->stream.srq);
		atomic_store(&qp->watch, IW_WATCH_NONE);
		atomic_store(&qp->state, IBV_QPS_ERR);
	}
	for (struct list_link *link = iw_ids.head; link; link = link->next) {
		struct iw_id *id = container_of(link, struct iw_id, link);

		if (id->fd >= 0)
			close(id->fd);
		id->fd = -1;
		id->polled = false;
		id->timers = NULL;
		if (id->state != IW_ID_IDLE)
			id->state = IW_ID_ENDED;
	}
	memset(iw_timers, 0, sizeof(iw_timers));
	iw_helper_forked();
	iw_watch_forked();
	fork_parent();
}

static void fork_setup(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void iw_fork_setup(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_setup);
}
