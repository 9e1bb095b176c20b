/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Speed of the target over the embedded device, and the cost of an idle queue: one reactor, one polling host of raw
 * verbs.  For manual use; asserts nothing.  target_perf [seconds [ram|null|file:PATH]]
 */
#include "target_host.h"

#include <sys/resource.h>

static double seconds = 1;

static uint64_t reactor_cpu_ns(void)
{
	struct rusage all, own;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &own);
	return (uint64_t)(all.ru_utime.tv_sec + all.ru_stime.tv_sec - own.ru_utime.tv_sec -
			  own.ru_stime.tv_sec) * 1000000000ull +
	       (uint64_t)(all.ru_utime.tv_usec + all.ru_stime.tv_usec - own.ru_utime.tv_usec -
			  own.ru_stime.tv_usec) * 1000ull;
}

static unsigned batch_build(struct queue *q, struct ibv_send_wr *wr, struct ibv_sge *sge,
			    const uint16_t *slots, unsigned n, uint8_t opcode, uint32_t blocks)
{
	static uint32_t x = 1;

	for (unsigned i = 0; i < n; i++) {
		struct nvme_sqe *sqe = (void *)(q->capsules + (size_t)slots[i] * LAB_CAPSULE);
		uint32_t bytes = blocks * 512;

		x = x * 1664525u + 1013904223u;
		*sqe = (struct nvme_sqe){ .opc = opcode, .flags = NVME_PSDT_SGL, .cid = slots[i],
					  .nsid = 1 };
		nvme_sgl_set_keyed(&sqe->sgl, (uintptr_t)q->memory +
				   (slots[i] * bytes) % (LAB_MEMORY - bytes), bytes, q->mr->rkey,
				   NVME_SGL_KEYED);
		sqe->cdw10 = (x >> 4) % (64 * 2048 - blocks) & ~7u;
		sqe->cdw12 = blocks - 1;
		sge[i] = (struct ibv_sge){ (uintptr_t)sqe, 64, q->capsule_mr->lkey };
		wr[i] = (struct ibv_send_wr){ .wr_id = slots[i], .next = &wr[i + 1],
					      .sg_list = &sge[i], .num_sge = 1,
					      .opcode = IBV_WR_SEND };
	}
	wr[n - 1].next = NULL;
	return n;
}

static void run(struct queue *q, const char *name, uint8_t opcode, uint32_t blocks, unsigned depth)
{
	struct ibv_send_wr wr[LAB_DEPTH], *bad;
	struct ibv_sge sge[LAB_DEPTH];
	struct ibv_wc wc[64];
	uint16_t slots[LAB_DEPTH];
	uint64_t start = clock_ns(), cpu = reactor_cpu_ns(), done = 0, end;
	unsigned ready = depth;

	for (unsigned i = 0; i < depth; i++)
		slots[i] = (uint16_t)i;
	end = start + (uint64_t)(seconds * 1e9);
	for (unsigned turn = 0;; turn++) {
		int n;

		if (ready) {
			batch_build(q, wr, sge, slots, ready, opcode, blocks);
			ibv_post_send(q->id->qp, wr, &bad);
			ready = 0;
		}
		n = ibv_poll_cq(q->cq, 64, wc);
		for (int i = 0; i < n; i++) {
			unsigned slot = (unsigned)wc[i].wr_id - 0x10000;
			struct nvme_cqe cqe;

			if (wc[i].wr_id < 0x10000)
				continue;
			memcpy(&cqe, q->capsules + LAB_DEPTH * LAB_CAPSULE + slot * 16, 16);
			if (cqe.status || wc[i].status) {
				printf("failed: %#x %u\n", cqe.status >> 1, wc[i].status);
				exit(1);
			}
			queue_post_response(q, slot);
			slots[ready++] = cqe.cid;
			done++;
		}
		if (!(turn & 63) && clock_ns() > end)
			break;
	}
	end = clock_ns();
	cpu = reactor_cpu_ns() - cpu;
	printf("%-6s %4u KiB qd %3u: %8.0f IOPS %6.2f GB/s %7.2f us  reactor %5.2f us/IO\n", name,
	       blocks / 2, depth, (double)done * 1e9 / (double)(end - start),
	       (double)done * blocks * 512 / (double)(end - start),
	       (double)(end - start) * depth / 1e3 / (double)done, (double)cpu / 1e3 / (double)done);
	/* commands still in progress */
	while (ready < depth) {
		int n = ibv_poll_cq(q->cq, 64, wc);

		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id < 0x10000)
				continue;
			queue_post_response(q, (unsigned)wc[i].wr_id - 0x10000);
			ready++;
		}
	}
}

static long resident_kib(void)
{
	long pages = 0, total;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%ld %ld", &total, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * 4;
}

int main(int argc, char **argv)
{
	struct target_options options = { .reactors = 1, .spin_us = 100 };
	struct store_options store = { .kind = "ram", .size = 64 << 20, .block_size = 512,
				       .direct = -1 };
	struct store *opened;
	struct queue *q;
	long before;

	seconds = argc > 1 ? atof(argv[1]) : 1;
	if (argc > 2 && !strncmp(argv[2], "file:", 5)) {
		store.kind = "file";
		store.path = argv[2] + 5;
		store.size = 0;
	} else if (argc > 2) {
		store.kind = argv[2];
	}
	lab_start(&options);
	if (!lab_namespace(1, &store, &opened))
		return 1;
	before = resident_kib();
	for (unsigned i = 0; i < 16; i++)
		queue_open((uint16_t)(i + 1), 128, 8192);
	printf("resident: %ld KiB, and with 16 idle queues of depth 128 (both ends) %ld KiB\n",
	       before, resident_kib());
	for (unsigned i = 0; i < LAB_QUEUES; i++)
		if (lab.queue[i])
			queue_close(lab.queue[i]);
	lab_turns(20);
	q = queue_open(1, 128, 8192);
	run(q, "read", NVME_OPC_READ, 8, 1);
	run(q, "read", NVME_OPC_READ, 8, 32);
	run(q, "read", NVME_OPC_READ, 8, 128);
	run(q, "write", NVME_OPC_WRITE, 8, 1);
	run(q, "write", NVME_OPC_WRITE, 8, 32);
	run(q, "write", NVME_OPC_WRITE, 8, 128);
	run(q, "read", NVME_OPC_READ, 256, 8);
	run(q, "read", NVME_OPC_READ, 256, 32);
	run(q, "write", NVME_OPC_WRITE, 256, 8);
	run(q, "write", NVME_OPC_WRITE, 256, 32);
	lab_stop();
	store_close(opened);
	return 0;
}
