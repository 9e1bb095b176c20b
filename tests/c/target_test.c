/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's data path with a host of raw verbs over the embedded device: all commands, all refusals, all ends of a
 * connection.
 */
static char lab_file[32];

#include "target_cases_copy.h"
#include "target_cases_counters.h"
#include "target_cases_device.h"
#include "target_cases_errors.h"
#include "target_cases_fair.h"
#include "target_cases_fua.h"
#include "target_cases_fused.h"
#include "target_cases_gate.h"
#include "target_cases_hostile.h"
#include "target_cases_invalid.h"
#include "target_cases_io.h"
#include "target_cases_life.h"
#include "target_cases_inject.h"
#include "target_cases_limits.h"
#include "target_cases_log.h"
#include "target_cases_pool.h"
#include "target_cases_posts.h"
#include "target_cases_ranges.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>

static char direct_file[32];

static void test_io(uint32_t buffer_size, uint32_t buffers)
{
	struct target_options options = { .reactors = 1, .spin_us = 50, .buffer_size = buffer_size,
					  .buffers = buffers };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct store_options null = { .kind = "null", .size = 1ull << 40, .block_size = 512 };
	struct store *stores[4] = { NULL };
	struct queue *q;
	int fd;

	check_section(buffers > 2 ? "I/O" : "I/O through two small buffers");
	lab_start(&options);
	lab_namespace(1, &ram, &stores[0]);
	lab_namespace(2, &file, &stores[1]);
	lab_namespace(3, &null, &stores[2]);
	file.direct = 1;
	file.path = direct_file;
	lab_namespace(4, &file, &stores[3]);
	q = queue_open(1, 128, 8192);
	cases_store(q, 1, "ram", true);
	if (CHECK(stores[1], "a file opens"))
		cases_store(q, 2, "file", stores[1]->deallocate);
	cases_null(q, 3);
	if (stores[3])	/* not every file system has direct I/O */
		cases_store(q, 4, "direct file", stores[3]->deallocate);
	lab_stop();
	for (unsigned i = 0; i < 4; i++)
		if (stores[i])
			store_close(stores[i]);
	fd = open(lab_file, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB), "a target that has ended holds no lock");
	close(fd);
}

#include "target_cases_shared.h"

/* Commands one by one, with a sleep between them; their resources are free soon after each. */
static void test_sleepy(void)
{
	struct target_options options = { .reactors = 1 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store *store;
	struct queue *q;
	unsigned wrong = 0;

	lab_start(&options);
	lab_namespace(1, &ram, &store);
	q = queue_open(1, 32, 8192);
	for (unsigned i = 0; i < 50; i++) {
		wrong += run_io(q, 1, NVME_OPC_WRITE, 8 * i, 8, 0) != 0;
		wrong += run_io(q, 1, NVME_OPC_WRITE, 8 * i, 128, 0) != 0;
		wrong += run_io(q, 1, NVME_OPC_READ, 8 * i, 128, 0) != 0;
		wrong += i % 10 == 9 && !queue_idle(q);
	}
	CHECK(!wrong, "%u of 155 went wrong", wrong);
	lab_stop();
	store_close(store);
}

/*
 * The name of an unlinked file of 32 MiB: nothing is left behind however the test ends.  In memory if the folder has
 * no room.
 */
static void make_file(const char *folder, char *name, size_t len)
{
	char path[64];
	struct statvfs room;
	int fd = -1;

	snprintf(path, sizeof(path), "%s/target_test_XXXXXX", folder);
	if (!statvfs(folder, &room) && room.f_bavail * room.f_frsize >= 64 << 20) {
		fd = mkstemp(path);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		fd = memfd_create("target_test", 0);
	if (fd < 0 || ftruncate(fd, 32 << 20)) {
		perror(folder);
		exit(1);
	}
	snprintf(name, len, "/proc/self/fd/%d", fd);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	make_file("/tmp", lab_file, sizeof(lab_file));
	make_file("/var/tmp", direct_file, sizeof(direct_file));
	test_io(131072, 128);
	test_io(8192, 2);
	check_section("copy");
	test_copy(131072, 32);
	test_copy(8192, 2);
	lab_private = true;
	test_copy(16384, 4);
	lab_private = false;
	check_section("errors");
	test_errors();
	check_section("life");
	test_life();
	check_section("devices");
	test_device();
	check_section("hostile");
	test_hostile();
	check_section("gates");
	test_gates();
	check_section("limits");
	test_limits();
	check_section("injected faults");
	test_inject();
	check_section("counters");
	test_counters();
	check_section("fused");
	test_fused();
	check_section("FUA");
	test_fua();
	check_section("log");
	test_log();
	check_section("invalid");
	test_invalid();
	lab_private = true;
	test_invalid();
	lab_private = false;
	check_section("fair");
	test_fair();
	test_still();
	check_section("ranges");
	test_ranges();
	check_section("apart");
	test_apart();
	check_section("posts that are refused");
	test_posts();
	check_section("shared receives");
	test_shared();
	check_section("pool");
	test_pool();
	/* as with the kernel's devices, where a send completes long after it was sent */
	lab_sends_apart = true;
	test_io(8192, 2);
	check_section("limits, sends with a completion queue of their own");
	test_limits();
	check_section("fused, sends with a completion queue of their own");
	test_fused();
	check_section("a reactor that does not spin, sends with a completion queue of their own");
	test_sleepy();
	return check_report();
}
