/* SPDX-License-Identifier: BSD-3-Clause */
/* See contexts.h.  Owns the list of contexts and the tree of the objects on them, under one lock. */
#include "contexts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * librdmacm may close a context as soon as there are no objects on it, and its memory and file numbers may then be
 * reused: from that moment on, only the copies here are used.
 */
struct known_context {
	struct known_context *next;
	const struct ibv_context *context;
	unsigned users;
	int cmd_fd, async_fd;
	struct stat node;	/* of cmd_fd */
	struct stat device;	/* of path: a different device with this path has a different inode */
	char path[IBV_SYSFS_PATH_MAX];	/* /sys/class/infiniband_verbs/uverbs0 */
};

struct context_use {
	const void *object;
	struct known_context *context;
};

static struct known_context *contexts;
static void *uses;	/* tsearch() by object */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int by_object(const void *a, const void *b)
{
	const char *one = ((const struct context_use *)a)->object;
	const char *other = ((const struct context_use *)b)->object;

	return (one > other) - (one < other);
}

static void forget(struct known_context *known)
{
	struct known_context **at = &contexts;

	while (*at != known)
		at = &(*at)->next;
	*at = known->next;
	free(known);
}

static bool same(const struct stat *one, const struct stat *other)
{
	return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
	       one->st_rdev == other->st_rdev;
}

static bool fill(struct known_context *known, const struct ibv_context *context)
{
	known->context = context;
	known->cmd_fd = context->cmd_fd;
	known->async_fd = context->async_fd;
	snprintf(known->path, sizeof(known->path), "%s", context->device->dev_path);
	return !fstat(known->cmd_fd, &known->node) && !stat(known->path, &known->device);
}

/* The entry of an open context; NULL if its device cannot be watched. */
static struct known_context *know(const struct ibv_context *context)
{
	struct known_context *known, *next;

	for (known = contexts; known; known = next) {
		next = known->next;
		if (known->users && known->context == context)
			return known;
		/* a context without objects whose memory or number was reused: it was closed */
		if (!known->users &&
		    (known->context == context || known->cmd_fd == context->cmd_fd))
			forget(known);
	}
	known = calloc(1, sizeof(*known));
	if (!known || !fill(known, context)) {
		free(known);
		return NULL;
	}
	known->next = contexts;
	contexts = known;
	return known;
}

static void tie_locked(const void *object, const struct ibv_context *context)
{
	const struct context_use key = { .object = object };
	struct known_context *known;
	struct context_use *use;

	if (tfind(&key, &uses, by_object))
		return;
	known = know(context);
	if (!known)
		return;
	known->users++;	/* permanently if the rest fails: in doubt, a context stays open */
	use = malloc(sizeof(*use));
	if (!use)
		return;
	*use = (struct context_use){ .object = object, .context = known };
	if (!tsearch(use, &uses, by_object))
		free(use);
}

void contexts_tie(const void *object, const struct ibv_context *context)
{
	if (!context)
		return;
	pthread_mutex_lock(&lock);
	tie_locked(object, context);
	pthread_mutex_unlock(&lock);
}

struct context_use *contexts_untie(const void *object)
{
	const struct context_use key = { .object = object };
	struct context_use *use = NULL, **found;

	pthread_mutex_lock(&lock);
	found = tfind(&key, &uses, by_object);
	if (found) {
		use = *found;
		tdelete(&key, &uses, by_object);
	}
	pthread_mutex_unlock(&lock);
	return use;
}

/* The kernel removes a device from sysfs before it waits for its users. */
static bool removed(const struct known_context *known)
{
	struct stat now;

	return stat(known->path, &now) ? errno == ENOENT : !same(&now, &known->device);
}

static bool still_open(const struct known_context *known)
{
	struct stat now;

	return !fstat(known->cmd_fd, &now) && same(&now, &known->node);
}

/*
 * Replace a context's files by an empty one, which closes them: the numbers remain librdmacm's, because it closes
 * them itself later.
 */
static bool close_files(const struct known_context *known)
{
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nothing < 0)
		return false;
	if (known->async_fd >= 0)
		dup3(nothing, known->async_fd, O_CLOEXEC);
	dup3(nothing, known->cmd_fd, O_CLOEXEC);
	close(nothing);
	return true;
}

static void sweep_locked(void)
{
	struct known_context *known, *next;

	for (known = contexts; known; known = next) {
		next = known->next;
		if (!known->users && removed(known) && (!still_open(known) || close_files(known)))
			forget(known);
	}
}

void contexts_untied(struct context_use *use)
{
	pthread_mutex_lock(&lock);
	if (use)
		use->context->users--;
	sweep_locked();
	pthread_mutex_unlock(&lock);
	free(use);
}

void contexts_sweep(void)
{
	pthread_mutex_lock(&lock);
	sweep_locked();
	pthread_mutex_unlock(&lock);
}
