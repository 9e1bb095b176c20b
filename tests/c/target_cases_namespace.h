/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces that are added, changed and retired while a host uses them. */
#ifndef TESTS_TARGET_CASES_NAMESPACE_H
#define TESTS_TARGET_CASES_NAMESPACE_H

#include "rings.h"
#include "target/calls.h"
#include "target_host.h"

static void case_namespace(struct queue *q)
{
	struct store_options ram = { .kind = "ram", .size = 1 << 20, .block_size = 4096 };
	struct store *store;
	struct target_namespace *ns = lab_namespace(7, &ram, &store);
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_READ, 0, 4096);
	struct target_namespace_stats stats;
	struct target_nstable *other;
	char err[256];

	sqe.nsid = 7;
	CHECK(!queue_run(q, &sqe, NULL, 0), "a namespace of 4096 byte blocks, added while connected");
	sqe.cdw10 = 255;
	CHECK(!queue_run(q, &sqe, NULL, 0), "its last block");
	store_resize(store, 1 << 19, err, sizeof(err));
	target_namespace_resized(ns);
	CHECK(queue_run(q, &sqe, NULL, 0) == (NVME_LBA_OUT_OF_RANGE | NVME_DNR),
	      "gone when it was made smaller");
	target_namespace_stats(ns, &stats);
	CHECK(stats.reads == 2 && stats.read_bytes == 8192 && stats.errors == 1 &&
	      !stats.media_errors, "counted");
	other = target_nstable_create(lab.target, 16);
	CHECK(!target_nstable_set(other, 7, ns) && !target_nstable_set(lab.table, 7, NULL),
	      "moved to another table");
	CHECK(queue_run(q, &sqe, NULL, 0) == (NVME_INVALID_NAMESPACE | NVME_DNR), "not in the first");
	target_qpair_show(q->qp, other);
	sqe.cdw10 = 0;
	CHECK(!queue_run(q, &sqe, NULL, 0), "shown by the second");
	target_qpair_show(q->qp, lab.table);
	CHECK(!target_nstable_set(lab.table, 7, ns) && !target_nstable_set(other, 7, NULL) &&
		      !lab.retired_count, "moved back, and never retired");
	sqe.cdw10 = 255;
	CHECK(target_nstable_set(lab.table, 7, ns) == -EBUSY &&
		      target_nstable_set(lab.table, 6, ns) == -EINVAL &&
		      target_nstable_set(lab.table, 17, NULL) == -EINVAL, "no place for it twice");
	lab.retired_count = 0;
	target_nstable_set(lab.table, 7, NULL);
	CHECK(queue_run(q, &sqe, NULL, 0) == (NVME_INVALID_NAMESPACE | NVME_DNR), "taken out");
	CHECK(LAB_UNTIL(lab.retired_count == 1) && lab.retired[0] == ns, "retired");
	CHECK(!target_nstable_set(lab.table, 7, ns) && queue_run(q, &sqe, NULL, 0) ==
		      (NVME_LBA_OUT_OF_RANGE | NVME_DNR), "put back");
	target_nstable_set(lab.table, 7, NULL);
	CHECK(LAB_UNTIL(lab.retired_count == 2), "retired again");
	target_namespace_destroy(ns);
	store_close(store);
}

/* Removed under load: RETIRED comes after the last use, and only once. */
static void case_retire_under_load(struct queue *q)
{
	unsigned odd = 0;

	for (unsigned round = 0; round < 30; round++) {
		struct store_options ram = { .kind = "ram", .size = 4 << 20, .block_size = 512 };
		struct store *store;
		struct target_namespace *ns = lab_namespace(7, &ram, &store);

		lab.retired_count = 0;
		for (unsigned i = 0; i < 64; i++) {
			struct nvme_sqe sqe = sqe_io(q, i & 1 ? NVME_OPC_WRITE : NVME_OPC_READ,
						     i * 64, 1024, 0);

			sqe.nsid = 7;
			queue_send(q, &sqe, NULL, 0);
			if (i == 2 * round)
				target_nstable_set(lab.table, 7, NULL);
		}
		odd += !LAB_UNTIL(lab.retired_count && !q->outstanding);
		odd += lab.retired_count != 1;
		target_namespace_destroy(ns);
		store_close(store);
	}
	CHECK(!odd, "30 namespaces taken out under load");
}

/* A file that was in use is closed once its namespace is retired, although reactors continue. */
static void case_retire_file(struct queue *q)
{
	char path[] = "/tmp/target_test_XXXXXX";
	int fd = mkstemp(path);
	struct store_options options = { .kind = "file", .path = path, .block_size = 512 };
	struct nvme_sqe sqe = sqe_io(q, NVME_OPC_READ, 0, 8, 0);
	struct store *store;
	struct target_namespace *ns;

	if (!CHECK(fd >= 0 && !ftruncate(fd, 1 << 20), "a file to be retired"))
		return;
	close(fd);
	ns = lab_namespace(7, &options, &store);
	sqe.nsid = 7;
	CHECK(!queue_run(q, &sqe, NULL, 0) && LAB_UNTIL(rings_have(path) == rings_can_hold()),
	      "a file is registered with io_uring when it is used");
	lab.retired_count = 0;
	target_nstable_set(lab.table, 7, NULL);
	CHECK(LAB_UNTIL(lab.retired_count == 1) && !rings_have(path), "and not once it is retired");
	target_namespace_destroy(ns);
	store_close(store);
	store = NULL;
	ns = lab_namespace(7, &options, &store);
	CHECK(store && !queue_run(q, &sqe, NULL, 0), "it is opened again");
	target_nstable_set(lab.table, 7, NULL);
	LAB_UNTIL(lab.retired_count == 2);
	target_namespace_destroy(ns);
	store_close(store);
	unlink(path);
}

#endif
