/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access to a mapped file that was truncated, or to bad memory, raises SIGBUS.
 * Owns the process's SIGBUS action while there are guarded maps: a fault inside a guarded map inserts an anonymous
 * page and marks the map as failed, so that the access continues and its caller can check the mark.  Other faults
 * are passed to the previous action.
 *
 * The handler runs on any thread and takes no lock: the table has a fixed size and is atomic.
 * guard and unguard run on control threads.  A handler that other code sets later replaces this one.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "store_internal.h"
#include "util/bad.h"

enum { MAPS = 1024 };

static struct guarded {
	uintptr_t base;		/* 0: free; set last, cleared first */
	size_t length;
	size_t granularity;
	unsigned *faults;
} maps[MAPS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;

static bool sigbus_patch(uintptr_t address)
{
	for (size_t i = 0; i < MAPS; i++) {
		uintptr_t base = __atomic_load_n(&maps[i].base, __ATOMIC_ACQUIRE);
		void *page;

		if (!base || address < base || address - base >= maps[i].length)
			continue;
		page = (void *)(base + (address - base) / maps[i].granularity *
				       maps[i].granularity);
		if (mmap(page, maps[i].granularity, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return false;
		bad_add((uintptr_t)page, maps[i].granularity);
		__atomic_fetch_add(maps[i].faults, 1, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

static void sigbus_pass_on(int number, siginfo_t *info, void *context)
{
	if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(number, info, context);
	} else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
		previous.sa_handler(number);
	} else {
		/* The access or the signal is repeated, and ends the process. */
		struct sigaction fallback = { .sa_handler = SIG_DFL };

		sigaction(number, &fallback, NULL);
		if (info->si_code <= 0)
			raise(number);
	}
}

static void sigbus_raised(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	if (info->si_code <= 0 || !sigbus_patch((uintptr_t)info->si_addr))
		sigbus_pass_on(number, info, context);
	errno = saved;
}

static int sigbus_install(void)
{
	static bool installed;
	struct sigaction ours = {
		.sa_sigaction = sigbus_raised,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART,
	};

	/* Only once: two handlers that each call the other as the previous one would never end. */
	if (installed)
		return 0;
	sigemptyset(&ours.sa_mask);
	/* previous is set before ours can run. */
	if (sigaction(SIGBUS, NULL, &previous) || sigaction(SIGBUS, &ours, NULL))
		return -errno;
	installed = true;
	return 0;
}

int store_guard_map(void *map, size_t length, size_t granularity, unsigned *faults)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = sigbus_install();
	for (size_t i = 0; !rc; i++) {
		if (i == MAPS) {
			rc = -ENOSPC;
		} else if (!maps[i].base) {
			maps[i].length = length;
			maps[i].granularity = granularity;
			maps[i].faults = faults;
			__atomic_store_n(&maps[i].base, (uintptr_t)map, __ATOMIC_RELEASE);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void store_unguard_map(void *map)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MAPS; i++)
		if (maps[i].base == (uintptr_t)map) {
			bad_forget(maps[i].base, maps[i].length);
			__atomic_store_n(&maps[i].base, 0, __ATOMIC_RELEASE);
		}
	pthread_mutex_unlock(&lock);
}
