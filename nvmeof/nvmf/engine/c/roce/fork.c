/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forking: the device does not continue in the child, which closes the parent's sockets, because otherwise their port
 * would stay in use.  The objects remain, in their ended states, so that the child can free them.
 */
#include "../iwarp/cm.h"
#include "cm.h"

static void forked_qp(struct ro_qp *qp)
{
	atomic_store(&qp->lock, 0);
	qp->reaped = true;
	qp->port = NULL;
	list_remove(&qp->ticking);
	qp->more = (struct list_link){ 0 };	/* another thread may have been changing that list */
	qp->in_line = false;
	qp->req.reads_head = qp->req.reads_tail = 0;
	if (qp->srq)
		iw_srq_forked(qp->srq);
	atomic_store(&qp->state, IBV_QPS_ERR);
}

/* In the child: only this thread exists, without the helper and its epoll. */
static void fork_child(void)
{
	pthread_mutex_init(&ro_numbers_lock, NULL);
	ro_tag_forked();
	ro_numbers_each(forked_qp);
	for (struct list_link *link = ro_ids.head; link; link = link->next) {
		struct ro_id *id = container_of(link, struct ro_id, link);

		ro_id_quiet(id);
		if (id->state != RO_ID_IDLE)
			id->state = RO_ID_ENDED;
	}
	while (ro_ports.head) {		/* a new one is created on demand */
		struct ro_port *port = container_of(ro_ports.head, struct ro_port, link);

		list_remove(&port->link);
		ro_share_forked(port);
		port->polled = port->ticking = false;
		port->current = NULL;
		port->more.head = NULL;
		line_init(&port->line);
		atomic_store(&port->lined, false);
		atomic_store(&port->lock, 0);
		atomic_store(&port->cm_lock, 0);
		atomic_store(&port->room_lock, 0);
		atomic_store(&port->watch_lock, 0);
		atomic_store(&port->watcher, NULL);
	}
}

static void fork_setup(void)
{
	iw_fork_setup();	/* first: it arranges that the locks are held while the process forks */
	pthread_atfork(NULL, NULL, fork_child);
}

void ro_fork_setup(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_setup);
}
