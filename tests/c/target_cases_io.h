/* SPDX-License-Identifier: BSD-3-Clause */
/* The I/O commands, on every kind of store, with every way to transfer data. */
#ifndef TESTS_TARGET_CASES_IO_H
#define TESTS_TARGET_CASES_IO_H

#include "target_host.h"

static void fill(uint8_t *at, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i += 4) {
		uint32_t v = (seed + i) * 2654435761u;

		memcpy(at + i, &v, 4);
	}
}

static int run_io(struct queue *q, uint32_t nsid, uint8_t opcode, uint64_t lba, uint32_t blocks,
		  uint32_t offset)
{
	struct nvme_sqe sqe = sqe_io(q, opcode, lba, blocks, offset);

	sqe.nsid = nsid;
	return queue_run(q, &sqe, NULL, 0);
}

/* Write, read back to a different place, compare with both. */
static bool round_trip(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks)
{
	uint32_t bytes = blocks * 512;

	fill(q->memory, bytes, blocks + (uint32_t)lba);
	memset(q->memory + (4 << 20), 0xee, bytes);
	return !run_io(q, nsid, NVME_OPC_WRITE, lba, blocks, 0) &&
	       !run_io(q, nsid, NVME_OPC_READ, lba, blocks, 4 << 20) &&
	       !memcmp(q->memory, q->memory + (4 << 20), bytes) &&
	       !run_io(q, nsid, NVME_OPC_COMPARE, lba, blocks, 0);
}

static void case_sizes(struct queue *q, uint32_t nsid, const char *name)
{
	static const uint32_t blocks[] = { 1, 7, 8, 63, 64, 255, 256, 257, 1000, 2048, 4096, 8192 };

	for (unsigned i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		CHECK(round_trip(q, nsid, 3 + i, blocks[i]), "%s: %u blocks written, read, compared",
		      name, blocks[i]);
}

static void case_compare_failure(struct queue *q, uint32_t nsid, const char *name)
{
	int status;

	fill(q->memory, 64 * 512, 5);
	run_io(q, nsid, NVME_OPC_WRITE, 100, 64, 0);
	q->memory[63 * 512 + 17] ^= 1;
	status = run_io(q, nsid, NVME_OPC_COMPARE, 100, 64, 0);
	CHECK(status == NVME_COMPARE_FAILURE, "%s: one bit differs: Compare Failure (%#x)", name,
	      status);
}

static bool zeroes(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks)
{
	memset(q->memory + (4 << 20), 0xee, blocks * 512);
	if (run_io(q, nsid, NVME_OPC_READ, lba, blocks, 4 << 20))
		return false;
	for (uint32_t i = 0; i < blocks * 512; i++)
		if (q->memory[(4 << 20) + i])
			return false;
	return true;
}

static int run_write_zeroes(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
			    uint32_t flags)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_WRITE_ZEROES, 0, 0);

	sqe.nsid = nsid;
	sqe.cdw10 = (uint32_t)lba;
	sqe.cdw12 = (blocks - 1) | flags;
	return queue_run(q, &sqe, NULL, 0);
}

struct range {
	uint32_t attributes, blocks;
	uint64_t slba;
};

static int run_dsm(struct queue *q, uint32_t nsid, const struct range *ranges, uint32_t count,
		   uint32_t length, uint32_t attributes)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_DSM, 0, length);

	memcpy(q->memory, ranges, sizeof(*ranges) * count);
	sqe.nsid = nsid;
	sqe.cdw10 = count - 1;
	sqe.cdw11 = attributes;
	return queue_run(q, &sqe, NULL, 0);
}

static void case_zeroes(struct queue *q, uint32_t nsid, const char *name, bool deallocates)
{
	struct range ranges[256] = { { 0 } };

	fill(q->memory, 4096 * 512, 9);
	run_io(q, nsid, NVME_OPC_WRITE, 0, 4096, 0);
	CHECK(!run_write_zeroes(q, nsid, 8, 1000, 0) && zeroes(q, nsid, 8, 1000) &&
		      !zeroes(q, nsid, 7, 1) && !zeroes(q, nsid, 1008, 1),
	      "%s: Write Zeroes", name);
	CHECK(!run_write_zeroes(q, nsid, 2000, 64, 1u << 25) && zeroes(q, nsid, 2000, 64),
	      "%s: Write Zeroes with DEAC", name);
	CHECK(!run_write_zeroes(q, nsid, 0, 16384, 1u << 30) && zeroes(q, nsid, 4000, 4096),
	      "%s: Write Zeroes of 8 MiB with FUA", name);
	fill(q->memory, 4096 * 512, 9);
	run_io(q, nsid, NVME_OPC_WRITE, 0, 4096, 0);
	for (unsigned i = 0; i < 256; i++)
		ranges[i] = (struct range){ .blocks = 8, .slba = 16 * i };
	CHECK(!run_dsm(q, nsid, ranges, 256, 4096, 4) && !zeroes(q, nsid, 8, 8) &&
		      (!deallocates || (zeroes(q, nsid, 0, 8) && zeroes(q, nsid, 4080, 8))),
	      "%s: deallocate of 256 ranges", name);
	ranges[0].slba = 8;
	CHECK(!run_dsm(q, nsid, ranges, 1, 4096, 4) && (!deallocates || zeroes(q, nsid, 8, 8)),
	      "%s: deallocate of one range in 4096 bytes, as Linux sends it", name);
	ranges[0].slba = 24;
	CHECK(!run_dsm(q, nsid, ranges, 1, 16, 1) && !zeroes(q, nsid, 24, 8),
	      "%s: DSM without deallocate does nothing", name);
	ranges[1].slba = 1ull << 60;
	CHECK(run_dsm(q, nsid, ranges, 2, 32, 4) == (NVME_LBA_OUT_OF_RANGE | NVME_DNR) &&
		      !zeroes(q, nsid, 24, 8),
	      "%s: one range of two out of range: nothing is done", name);
}

static void case_no_data(struct queue *q, uint32_t nsid, const char *name)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_FLUSH, 0, 0);

	sqe.nsid = nsid;
	CHECK(!queue_run(q, &sqe, NULL, 0), "%s: Flush", name);
	sqe = sqe_new(q, NVME_OPC_FLUSH, 0, 0);
	sqe.nsid = 0xffffffff;
	CHECK(!queue_run(q, &sqe, NULL, 0), "%s: Flush of all namespaces", name);
	sqe = sqe_new(q, NVME_OPC_VERIFY, 0, 0);
	sqe.nsid = nsid;
	sqe.cdw12 = 9999;
	CHECK(!queue_run(q, &sqe, NULL, 0), "%s: Verify of 10000 blocks", name);
}

/* In-capsule data at offset of a capsule. */
static int run_in_capsule(struct queue *q, uint32_t nsid, uint8_t opcode, uint64_t lba,
			  uint32_t blocks, const uint8_t *data, uint64_t offset, uint32_t present)
{
	struct nvme_sqe sqe = sqe_io(q, opcode, lba, blocks, 0);

	sqe.nsid = nsid;
	sqe.sgl = (struct nvme_sgl){ .addr = offset, .plain = { .length = blocks * 512,
								.type = NVME_SGL_IN_CAPSULE } };
	return queue_run(q, &sqe, data, present);
}

static void case_in_capsule(struct queue *q, uint32_t nsid, const char *name)
{
	uint8_t data[8192];

	fill(data, sizeof(data), 77);
	CHECK(!run_in_capsule(q, nsid, NVME_OPC_WRITE, 50, 16, data, 0, 8192) &&
		      !run_io(q, nsid, NVME_OPC_READ, 50, 16, 0) && !memcmp(q->memory, data, 8192),
	      "%s: write from the capsule", name);
	CHECK(!run_in_capsule(q, nsid, NVME_OPC_WRITE, 90, 2, data, 4100, 8192) &&
		      !run_io(q, nsid, NVME_OPC_READ, 90, 2, 0) &&
		      !memcmp(q->memory, data + 4100, 1024),
	      "%s: write from an odd offset in the capsule", name);
	CHECK(!run_in_capsule(q, nsid, NVME_OPC_COMPARE, 50, 16, data, 0, 8192),
	      "%s: compare with the capsule", name);
	data[8000] ^= 4;
	CHECK(run_in_capsule(q, nsid, NVME_OPC_COMPARE, 50, 16, data, 0, 8192) ==
		      NVME_COMPARE_FAILURE,
	      "%s: compare with another capsule", name);
}

/* A list of descriptors in the capsule: slices of different lengths, not in memory order. */
static void case_sgl_list(struct queue *q, uint32_t nsid, const char *name, uint32_t blocks)
{
	static const uint8_t order[16] = { 3, 0, 7, 1, 15, 2, 9, 4, 12, 5, 6, 8, 10, 11, 13, 14 };
	uint32_t bytes = blocks * 512, slice = (bytes / 16 + 12) & ~3u, at = 0;
	struct nvme_sgl list[16];
	struct nvme_sqe sqe;
	uint8_t *expected = malloc(bytes);
	int wrote, read;

	fill(q->memory, 2 << 20, 31);
	for (unsigned i = 0; i < 16; i++) {
		uint32_t n = i == 15 ? bytes - at : slice - 4 * i % 3;

		nvme_sgl_set_keyed(&list[i], (uintptr_t)q->memory + order[i] * (slice + 64u), n,
				   q->mr->rkey, NVME_SGL_KEYED);
		memcpy(expected + at, q->memory + order[i] * (slice + 64u), n);
		at += n;
	}
	sqe = sqe_io(q, NVME_OPC_WRITE, 200, blocks, 0);
	sqe.nsid = nsid;
	sqe.sgl = (struct nvme_sgl){ .addr = 0, .plain = { .length = sizeof(list),
				     .type = NVME_SGL_LAST_SEGMENT_OFFSET } };
	wrote = queue_run(q, &sqe, list, sizeof(list));
	run_io(q, nsid, NVME_OPC_READ, 200, blocks, 4 << 20);
	CHECK(!wrote && !memcmp(expected, q->memory + (4 << 20), bytes),
	      "%s: write of %u blocks through 16 descriptors (%#x)", name, blocks, wrote);
	memset(q->memory, 0, 2 << 20);
	sqe.opc = NVME_OPC_READ;
	sqe.cid = 60001;
	read = queue_run(q, &sqe, list, sizeof(list));
	at = 0;
	for (unsigned i = 0; i < 16 && !read; i++) {
		read = memcmp(expected + at, q->memory + order[i] * (slice + 64u),
			      nvme_sgl_keyed_length(&list[i]));
		at += nvme_sgl_keyed_length(&list[i]);
	}
	CHECK(!read, "%s: read of %u blocks through 16 descriptors", name, blocks);
	free(expected);
}

/* Many commands at once, of sizes that need one chunk or several. */
static void case_deep(struct queue *q, uint32_t nsid, const char *name)
{
	unsigned wrong = 0, count = 0;

	for (unsigned round = 0; round < 8; round++) {
		uint8_t opcode = round & 1 ? NVME_OPC_READ : NVME_OPC_WRITE;
		uint16_t cids[64];

		if (round & 1)
			memset(q->memory, 0xdd, 64 * 65536);
		else
			fill(q->memory, 64 * 65536, round);
		for (unsigned i = 0; i < 64; i++) {
			uint32_t blocks = i % 3 ? 8 : 128;
			struct nvme_sqe sqe = sqe_io(q, opcode, i * 128, blocks, i * 65536);

			sqe.nsid = nsid;
			cids[i] = sqe.cid;
			queue_send(q, &sqe, NULL, 0);
		}
		for (unsigned i = 0; i < 64; i++, count++)
			wrong += queue_wait(q, cids[i]) != 0;
		if (!(round & 1))
			continue;
		for (unsigned i = 0; i < 64; i++) {
			uint8_t expected[65536];
			uint32_t bytes = i % 3 ? 4096 : 65536;

			fill(expected, bytes, round - 1 + i * 65536);
			wrong += memcmp(expected, q->memory + i * 65536, bytes) != 0;
		}
	}
	CHECK(!wrong, "%s: %u commands 64 deep, %u wrong", name, count, wrong);
}

static void cases_store(struct queue *q, uint32_t nsid, const char *name, bool deallocates)
{
	case_sizes(q, nsid, name);
	case_compare_failure(q, nsid, name);
	case_zeroes(q, nsid, name, deallocates);
	case_no_data(q, nsid, name);
	case_in_capsule(q, nsid, name);
	case_sgl_list(q, nsid, name, 64);
	case_sgl_list(q, nsid, name, 2000);
	case_deep(q, nsid, name);
}

static void cases_null(struct queue *q, uint32_t nsid)
{
	uint8_t data[512] = { 1 };

	CHECK(zeroes(q, nsid, 1000, 8) && zeroes(q, nsid, 5, 6000),
	      "null: reads of 8 and 6000 blocks are zeroes");
	CHECK(!run_io(q, nsid, NVME_OPC_WRITE, 0, 1000, 0), "null: write of 1000 blocks");
	CHECK(!run_in_capsule(q, nsid, NVME_OPC_WRITE, 0, 1, data, 0, 512),
	      "null: write from the capsule");
	case_no_data(q, nsid, "null");
}

#endif
