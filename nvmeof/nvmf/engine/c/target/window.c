/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: registrations of a namespace's memory with a device, from which reads are sent.
 *
 * A reactor finds a window with one atomic load; as long as there is none, reads go through buffers.  Windows are
 * created and freed on the memory thread (background.h), in the order in which namespaces and devices are added and
 * removed, so that neither is freed while the memory of a namespace is being registered.
 *
 * A device that pins pages must not register memory whose pages are being released: the store is informed first, then
 * every reactor passes its mailbox, so that no reactor is in the middle of releasing pages.
 */
#include "target/calls.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

struct window_work {
	struct job job;
	struct target_device *device;
	struct target_namespace *ns;
	struct window_work *next;	/* the next namespace to register with a new device */
	bool in_use;			/* reactors may be releasing pages */
};

/* ---- every reactor has passed its mailbox ---- */

struct window_barrier {
	struct mail mail;
	_Atomic unsigned *left;
	sem_t *passed;
};

static void barrier_passed(struct reactor *reactor, struct mail *mail)
{
	struct window_barrier *barrier = container_of(mail, struct window_barrier, mail);
	sem_t *passed = barrier->passed;

	(void)reactor;
	if (atomic_fetch_sub(barrier->left, 1) == 1)
		sem_post(passed);
}

/* On the memory thread.  false: out of memory. */
static bool wait_for_reactors(struct target *target)
{
	struct window_barrier *barrier = calloc(target->reactors, sizeof(*barrier));
	_Atomic unsigned left = target->reactors;
	sem_t passed;

	if (!barrier)
		return false;
	sem_init(&passed, 0, 0);
	for (unsigned i = 0; i < target->reactors; i++) {
		barrier[i].left = &left;
		barrier[i].passed = &passed;
		reactor_mail(target->reactor[i], &barrier[i].mail, barrier_passed);
	}
	while (sem_wait(&passed))
		;
	sem_destroy(&passed);
	free(barrier);
	return true;
}

/* ---- registering ---- */

static void window_register(struct target_namespace *ns, struct target_device *device)
{
	struct store *store = ns->store;
	struct ns_window *window = calloc(1, sizeof(*window));

	if (!window)
		return;
	window->verbs = device->verbs;
	window->base = store->map;
	window->mask = ~0ull;
	window->span = store->map_length;
	window->mr = device->verbs->reg_mr(device->pd, store->map, store->map_length,
					   store->read_only ? 0 : IBV_ACCESS_LOCAL_WRITE);
	if (!window->mr) {	/* then reads go through buffers */
		free(window);
		return;
	}
	window->lkey = window->mr->lkey;
	atomic_store_explicit(&ns->window[device->index], window, memory_order_release);
}

static void window_job(struct job *job)
{
	struct window_work *work = container_of(job, struct window_work, job), *next;
	bool safe = !work->in_use || wait_for_reactors(work->device->target);

	for (; work; work = next) {
		next = work->next;
		if (safe)
			window_register(work->ns, work->device);
		free(work);
	}
}

/* Work for the memory thread, or NULL if there is none. */
static struct window_work *window_work(struct target_namespace *ns, struct target_device *device)
{
	struct window_work *work;

	if (device->private_pd)
		return NULL;
	if (!ns->memory) {
		if (ns->store->kind == STORE_NULL && device->zero.base)
			atomic_store(&ns->window[device->index], &device->zero);
		return NULL;
	}
	if (device->verbs->pins_memory)
		__atomic_store_n(&ns->store->pinned, true, __ATOMIC_RELEASE);
	work = calloc(1, sizeof(*work));
	if (work) {
		work->ns = ns;
		work->device = device;
	}
	return work;
}

void windows_open(struct target_namespace *ns)
{
	struct target_device *device;

	for (device = ns->target->devices; device; device = device->next) {
		struct window_work *work;

		work = device->state == DEVICE_READY ? window_work(ns, device) : NULL;
		if (work)	/* no reactor uses the namespace yet */
			background_post(device_lane(device), &work->job, window_job);
	}
}

void windows_open_device(struct target_device *device)
{
	struct window_work *all = NULL;

	for (struct target_namespace *ns = device->target->namespaces; ns; ns = ns->next) {
		struct window_work *work = window_work(ns, device);

		if (!work)
			continue;
		work->next = all;
		all = work;
	}
	if (!all)
		return;
	all->in_use = device_lane(device);
	background_post(device_lane(device), &all->job, window_job);
}

/* ---- deregistering ---- */

static void window_close(struct target_namespace *ns, unsigned index)
{
	struct ns_window *window = atomic_exchange(&ns->window[index], NULL);

	if (!window || !window->mr)	/* the memory of zeroes belongs to the device */
		return;
	window->verbs->dereg_mr(window->mr);
	free(window);
}

/* Record the present namespaces: those added later do not see the device. */
void windows_snapshot(struct target_device *device)
{
	unsigned count = 0;

	for (struct target_namespace *ns = device->target->namespaces; ns; ns = ns->next)
		count++;
	device->shown = calloc(count + 1, sizeof(*device->shown));
	count = 0;
	for (struct target_namespace *ns = device->target->namespaces; device->shown && ns; ns = ns->next)
		device->shown[count++] = ns;
}

void windows_close_device(struct target_device *device)
{
	for (unsigned i = 0; device->shown && device->shown[i]; i++)
		window_close(device->shown[i], device->index);
}

void windows_close(struct target_namespace *ns)
{
	for (unsigned i = 0; i < TARGET_MAX_DEVICES; i++)
		window_close(ns, i);
}
