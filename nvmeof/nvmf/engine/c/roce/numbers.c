/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs by number: random numbers that begin with the process's tag, in a table of chains, which are read without a lock. */
#include "qp.h"

enum { CHAINS = 4096 };

pthread_mutex_t ro_numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ro_qp *_Atomic chains[CHAINS];

struct ro_qp *ro_number_find(uint32_t qpn)
{
	struct ro_qp *qp = atomic_load_explicit(&chains[qpn % CHAINS], memory_order_acquire);

	while (qp && qp->qp.qp_num != qpn)
		qp = atomic_load_explicit(&qp->number_next, memory_order_acquire);
	return qp;
}

void ro_number_give(struct ro_qp *qp)
{
	uint32_t n;

	pthread_mutex_lock(&ro_numbers_lock);
	do
		n = ro_tag() << RO_TAG_QPN | (iw_random32() & ((1u << RO_TAG_QPN) - 1));
	while (n <= RO_QP1 || n == RO_MASK24 || ro_number_find(n));
	qp->qp.qp_num = qp->qp.handle = n;
	atomic_store(&qp->number_next, atomic_load(&chains[n % CHAINS]));
	atomic_store_explicit(&chains[n % CHAINS], qp, memory_order_release);
	pthread_mutex_unlock(&ro_numbers_lock);
}

void ro_number_take(struct ro_qp *qp)
{
	struct ro_qp *_Atomic *at = &chains[qp->qp.qp_num % CHAINS];

	pthread_mutex_lock(&ro_numbers_lock);
	while (atomic_load(at) != qp)
		at = &atomic_load(at)->number_next;
	atomic_store(at, atomic_load(&qp->number_next));
	pthread_mutex_unlock(&ro_numbers_lock);
	iw_epoch_wait();
}

void ro_numbers_each(void (*call)(struct ro_qp *qp))
{
	for (int i = 0; i < CHAINS; i++)
		for (struct ro_qp *qp = atomic_load(&chains[i]); qp; qp = atomic_load(&qp->number_next))
			call(qp);
}
