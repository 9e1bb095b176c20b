/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's information about this process's io_urings: the files that are registered with them. */
#ifndef TESTS_RINGS_H
#define TESTS_RINGS_H

#include <dirent.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether a file with this name is registered with one of them. */
static inline bool rings_have(const char *path)
{
	DIR *fds = opendir("/proc/self/fd");
	struct dirent *entry;
	bool found = false;

	while (fds && !found && (entry = readdir(fds))) {
		char name[512], line[512] = "";
		FILE *file;

		snprintf(name, sizeof(name), "/proc/self/fd/%s", entry->d_name);
		if (readlink(name, line, sizeof(line) - 1) < 0 || !strstr(line, "[io_uring]"))
			continue;
		snprintf(name, sizeof(name), "/proc/self/fdinfo/%s", entry->d_name);
		file = fopen(name, "re");
		while (file && !found && fgets(line, sizeof(line), file)) {
			line[strcspn(line, "\n")] = '\0';
			found = strlen(line) > strlen(path) && strstr(line, path) &&
				!strcmp(strstr(line, path), path);
		}
		if (file)
			fclose(file);
	}
	if (fds)
		closedir(fds);
	return found;
}

/* Whether this kernel releases each file separately. */
static inline bool rings_can_hold(void)
{
	struct io_uring ring;
	bool can;

	if (io_uring_queue_init(1, &ring, 0))
		return false;
	can = (ring.features & 1U << 16) != 0;
	io_uring_queue_exit(&ring);
	return can;
}

#endif
