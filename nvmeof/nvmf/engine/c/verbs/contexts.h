/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device contexts that librdmacm opens and keeps, and the closing of those whose device was removed.
 *
 * librdmacm opens one context for each device to which an id was ever bound.  It closes a context only if it finds,
 * in a system with other devices, that this one was removed; while there is no device at all, it never checks.  If a
 * driver cannot disconnect a device from running programs (rxe, siw and others without disassociate_ucontext), the
 * kernel's removal of the device waits until the last file of its contexts is closed: for a machine's only device,
 * until the process ends.
 *
 * So ids and protection domains, from which all other objects are created, are counted by context here. When a
 * removed device has none left, the files of its context are closed, as closing the context would do.
 *
 * The functions are for any control thread, not for the data path.
 */
#ifndef NVMF_VERBS_CONTEXTS_H
#define NVMF_VERBS_CONTEXTS_H

#include <infiniband/verbs.h>

struct context_use;

/*
 * Record that object (an id or a protection domain) belongs to a context, which must be open.  No effect if that is
 * already recorded, or if context is NULL.
 */
void contexts_tie(const void *object, const struct ibv_context *context);

/*
 * object is about to be destroyed, after which its address may be reused: pass the result to contexts_untied() after
 * it was destroyed.  If it could not be destroyed, tie it again before that.
 */
struct context_use *contexts_untie(const void *object);
void contexts_untied(struct context_use *use);

/* Close the files of contexts that have no objects and whose device was removed. */
void contexts_sweep(void);

#endif
