/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A main for a libFuzzer target without libFuzzer: gives it every file named, and every file in
 * every directory named.  This is how the corpus, with the inputs that once broke something, is
 * part of the tests of a machine that has no clang.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned int replayed;

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "replay: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

static void replay_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	/* An allocation of exactly the input, so that reading past it is seen. */
	uint8_t *data = malloc(size ? size : 1);

	if (!file || !data)
		fail("opening", path);
	if (fread(data, 1, size, file) != size)
		fail("reading", path);
	fclose(file);
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	replayed++;
}

static void replay(const char *path)
{
	struct dirent *entry;
	struct stat st;
	char child[4096];
	DIR *dir;

	if (stat(path, &st) != 0) {
		if (errno != ENOENT)
			fail("looking at", path);
		fprintf(stderr, "replay: there is no %s\n", path);
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path, (size_t)st.st_size);
		return;
	}
	dir = opendir(path);
	if (!dir)
		fail("opening", path);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		replay(child);
	}
	closedir(dir);
}

int main(int argc, char **argv)
{
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	fprintf(stderr, "replay: %u inputs\n", replayed);
	return 0;
}
