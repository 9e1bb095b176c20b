/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device contexts that librdmacm opens and keeps, and the end of those whose device was removed.
 *
 * librdmacm opens one context for each device that an id was ever bound to.  It closes one only as it
 * finds, with other devices there, that this one has gone; while the machine has none at all, it
 * never looks.  The kernel's removal of a device whose driver cannot take it away from under programs
 * (rxe, siw and others without disassociate_ucontext) waits until the last file of its contexts is
 * closed: for a machine's only device, until the process ends.
 *
 * So ids and protection domains, which all else is made from, are counted by context here, and when
 * a removed device has none left, the files of its context are closed, as closing the context would.
 *
 * The calls are for any control thread; none is for the data path.
 */
#ifndef NVMF_VERBS_CONTEXTS_H
#define NVMF_VERBS_CONTEXTS_H

#include <infiniband/verbs.h>

struct context_use;

/*
 * object (an id or a protection domain) lies on a context, which must be open; said again, or of no
 * context, it changes nothing.
 */
void contexts_tie(const void *object, const struct ibv_context *context);

/*
 * object is about to be destroyed, after which its address may be another's: hand what this returns
 * to contexts_untied() when it was.  Where it could not be, tie it again before that.
 */
struct context_use *contexts_untie(const void *object);
void contexts_untied(struct context_use *use);

/* Close the files of the contexts that nothing lies on and whose device was removed. */
void contexts_sweep(void);

#endif
