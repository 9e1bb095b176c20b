/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of queue pairs, and their numbers.  Control threads. */
#include "qp.h"

#include <errno.h>

struct iw_numbers iw_numbers = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.next_at = &iw_numbers.qps,
	.next = 1,
	.last = 0xffffff,
};

/* Skip the numbers in use; false if there are no others. */
static bool number_find(void)
{
	bool wrapped = false;

	for (;;) {
		if (iw_numbers.next > iw_numbers.last) {
			if (wrapped)
				return false;
			wrapped = true;
			iw_numbers.next = 1;
			iw_numbers.next_at = &iw_numbers.qps;
		}

		const struct iw_qp *live = *iw_numbers.next_at;

		if (!live || live->qp.qp_num != iw_numbers.next)
			return true;
		iw_numbers.next_at = &(*iw_numbers.next_at)->number_next;
		iw_numbers.next++;
	}
}

int iw_number_give(struct iw_qp *qp)
{
	pthread_mutex_lock(&iw_numbers.lock);

	bool found = number_find();

	if (found) {
		qp->qp.qp_num = qp->qp.handle = iw_numbers.next++;
		qp->number_prev = iw_numbers.next_at;
		qp->number_next = *qp->number_prev;
		if (qp->number_next)
			qp->number_next->number_prev = &qp->number_next;
		*qp->number_prev = qp;
		iw_numbers.next_at = &qp->number_next;
	}
	pthread_mutex_unlock(&iw_numbers.lock);
	if (!found)
		errno = ENOMEM;
	return found ? 0 : -1;
}

void iw_number_take(struct iw_qp *qp)
{
	pthread_mutex_lock(&iw_numbers.lock);
	*qp->number_prev = qp->number_next;
	if (qp->number_next)
		qp->number_next->number_prev = qp->number_prev;
	if (iw_numbers.next_at == &qp->number_next)
		iw_numbers.next_at = qp->number_prev;
	pthread_mutex_unlock(&iw_numbers.lock);
}
