/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's data path against a host of raw verbs over the embedded device: every command, every
 * refusal, every way that a connection ends.  Prints a line per check; nonzero exit where one failed.
 */
static char lab_file[] = "/tmp/target_test_XXXXXX";

#include "target_cases_errors.h"
#include "target_cases_hostile.h"
#include "target_cases_io.h"
#include "target_cases_life.h"
#include "target_cases_pool.h"

static char direct_path[] = "/var/tmp/target_test_XXXXXX";

static void test_io(uint32_t buffer_size, uint32_t buffers)
{
	struct target_options options = { .reactors = 1, .spin_us = 50, .buffer_size = buffer_size,
					  .buffers = buffers };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct store_options null = { .kind = "null", .size = 1ull << 40, .block_size = 512 };
	struct store *stores[4] = { NULL };
	struct queue *q;

	printf("     buffers: %u of %u bytes\n", buffers, buffer_size);
	lab_start(&options);
	lab_namespace(1, &ram, &stores[0]);
	lab_namespace(2, &file, &stores[1]);
	lab_namespace(3, &null, &stores[2]);
	file.direct = 1;
	file.path = direct_path;
	lab_namespace(4, &file, &stores[3]);
	q = queue_open(1, 128, 8192);
	cases_store(q, 1, "ram", true);
	cases_store(q, 2, "file", stores[1]->deallocate);
	cases_null(q, 3);
	if (stores[3])
		cases_store(q, 4, "direct file", stores[3]->deallocate);
	lab_stop();
	for (unsigned i = 0; i < 4; i++)
		if (stores[i])
			store_close(stores[i]);
}

static void make_file(char *name)
{
	int fd = mkstemp(name);

	if (fd < 0 || ftruncate(fd, 32 << 20)) {
		perror(name);
		exit(1);
	}
	close(fd);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	make_file(lab_file);
	make_file(direct_path);
	test_io(131072, 128);
	test_io(8192, 2);
	test_errors();
	test_life();
	test_hostile();
	test_pool();
	unlink(lab_file);
	unlink(direct_path);
	printf("%u passed, %u failed\n", lab_passed, lab_failed);
	return lab_failed != 0;
}
