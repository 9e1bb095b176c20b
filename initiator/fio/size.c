/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size of a namespace, for fio's setup.
 *
 * fio sets its jobs up in the process that forks them later, and a device opened before a fork
 * cannot be used after it.  So a child connects, reads the size, returns it through a pipe and ends.
 */
#include "engine.h"

#include <sys/wait.h>

struct answer {
	int ret;
	struct host_namespace_info info;
	char text[400];
};

struct known {
	struct known *next;
	struct trid trid;
	struct host_namespace_info info;
};
static struct known *all;	/* of fio's main thread */

static void size_ask(int fd, const struct trid *trid, const struct nvmeof_options *options)
{
	struct answer a = { .ret = 0 };

	a.ret = session_identify(trid, options, &a.info, a.text, sizeof(a.text));
	_exit(write(fd, &a, sizeof(a)) != sizeof(a));
}

static int size_ask_in_child(const struct trid *trid, const struct nvmeof_options *options,
			struct answer *a)
{
	int fds[2], status = 0;
	ssize_t n;

	if (pipe(fds))
		return -errno;

	const pid_t pid = fork();

	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return -errno;
	}
	if (!pid)
		size_ask(fds[1], trid, options);
	close(fds[1]);
	do
		n = read(fds[0], a, sizeof(*a));
	while (n < 0 && errno == EINTR);
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n == sizeof(*a))
		return 0;
	snprintf(a->text, sizeof(a->text), "the process that reads the size ended with status 0x%x",
		 (unsigned)status);
	return -EIO;
}

int size_learn(const struct trid *trid, const struct nvmeof_options *options,
	       struct host_namespace_info *info, char *text, size_t len)
{
	struct answer a = { .ret = 0 };

	for (struct known *k = all; k; k = k->next) {
		if (!memcmp(&k->trid, trid, sizeof(*trid))) {
			*info = k->info;
			return 0;
		}
	}

	int ret = size_ask_in_child(trid, options, &a);

	if (!ret)
		ret = a.ret;
	if (ret) {
		snprintf(text, len, "%s", a.text[0] ? a.text : strerror(-ret));
		return ret;
	}
	*info = a.info;

	struct known *k = malloc(sizeof(*k));

	if (k) {
		k->trid = *trid;
		k->info = a.info;
		k->next = all;
		all = k;
	}
	return 0;
}
