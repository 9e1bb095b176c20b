/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's tag: the first number, beginning at a random one, whose name no other process of the user has bound.
 * The kernel frees the name when the process ends, however it ends.  Owns the socket with that name.
 */
#include "share.h"
#include "stag.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static pthread_mutex_t tag_lock = PTHREAD_MUTEX_INITIALIZER;
static int tag_fd = -1;
static bool tag_chosen;
static uint32_t tag;

uint32_t ro_name(struct sockaddr_un *un, const char *what)
{
	int n;

	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };	/* abstract: the name begins with a zero */
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "nvmf-roce.%u.%s", (unsigned int)geteuid(), what);
	return (uint32_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static uint32_t tag_name(struct sockaddr_un *un, uint32_t number)
{
	char what[16];

	snprintf(what, sizeof(what), "tag.%u", (unsigned int)number);
	return ro_name(un, what);
}

static void tag_choose(void)
{
	const uint32_t first = iw_random32() % RO_TAGS;
	struct sockaddr_un un;
	uint32_t len;

	tag = first;
	tag_chosen = true;
	tag_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (uint32_t i = 0; tag_fd >= 0 && i < RO_TAGS; i++) {
		len = tag_name(&un, (first + i) % RO_TAGS);
		if (!bind(tag_fd, (struct sockaddr *)&un, len)) {
			tag = (first + i) % RO_TAGS;
			return;
		}
	}
	if (tag_fd >= 0)
		close(tag_fd);
	tag_fd = -1;
}

uint32_t ro_tag(void)
{
	uint32_t found;

	pthread_mutex_lock(&tag_lock);
	if (!tag_chosen)
		tag_choose();
	found = tag;
	pthread_mutex_unlock(&tag_lock);
	return found;
}

bool ro_tag_owned(void)
{
	ro_tag();
	return tag_fd >= 0;
}

void ro_tag_forked(void)
{
	pthread_mutex_init(&tag_lock, NULL);
	if (tag_fd >= 0)
		close(tag_fd);
	tag_fd = -1;
	tag_chosen = false;
}
