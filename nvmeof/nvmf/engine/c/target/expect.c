/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prefetches the memory that commands are about to use into the cache, while earlier commands run: with random blocks
 * of a large namespace, waiting for memory takes a third of the time of a 4 KiB command.
 *
 * Decides nothing and changes nothing.  Runs on the reactor's thread.
 */
#include "target/calls.h"
#include "target/expect.h"
#include "target/wr.h"
#include "util/fetch.h"

/* Memory that is about to be written.  Always inlined, and less of it on some processors: see util/fetch.h. */
static inline __attribute__((always_inline)) void expect_bytes(const uint8_t *at, size_t length)
{
	enum { LINE_SIZE = 64, ENOUGH = 4096, SHORT_ENOUGH = 1024 };	/* the processor fetches the rest without help */
	const size_t enough = fetch_waits ? SHORT_ENOUGH : ENOUGH;

	if (length > enough)
		length = enough;
	for (size_t i = 0; i < length; i += LINE_SIZE)
		__builtin_prefetch(at + i, 1, 2);
}

static void expect_written(const struct target_namespace *ns, const struct nvme_sqe *sqe, uint64_t slba)
{
	uint64_t blocks = atomic_load_explicit(&ns->blocks, memory_order_relaxed);
	uint64_t offset = slba << ns->block_shift, length = sqe->sgl.plain.length;

	if (!namespace_streams(ns, length) && slba < blocks && length <= (blocks - slba) << ns->block_shift)
		expect_bytes(ns->store->map + offset, length);
}

/* Memory that a Read begins with; NULL: none, or it is beyond the namespace, whatever its address would be. */
static const uint8_t *expect_source(const struct target_namespace *ns, const struct nvme_sqe *sqe, uint64_t slba)
{
	if (!ns->memory || sqe->opc != NVME_OPC_READ || slba >= atomic_load_explicit(&ns->blocks, memory_order_relaxed))
		return NULL;
	return ns->store->map + (slba << ns->block_shift);
}

/* Find what a Read or Write will use.  Nothing in the capsule has been checked yet. */
static const struct target_namespace *expect_find(struct reactor *reactor, const struct ibv_wc *wc,
						  const struct nvme_sqe **sqe, uint64_t *slba)
{
	const struct recv *recv = wr_of(wc->wr_id);
	const struct target_qpair *qp;
	const struct target_nstable *table;

	if (wr_kind(wc->wr_id) != WR_RECV || wc->status != IBV_WC_SUCCESS)
		return NULL;
	qp = recv->srq ? srq_find(reactor, recv->srq, wc->qp_num) : recv->qp;
	*sqe = recv->sqe;
	if (!qp || ((*sqe)->opc != NVME_OPC_READ && (*sqe)->opc != NVME_OPC_WRITE))
		return NULL;
	table = atomic_load_explicit(&qp->table, memory_order_acquire);
	if (!table || (*sqe)->nsid > table->max_nsid)
		return NULL;
	*slba = (*sqe)->cdw10 | (uint64_t)(*sqe)->cdw11 << 32;
	return atomic_load_explicit(&table->ns[(*sqe)->nsid], memory_order_acquire);
}

void expect_translation(struct reactor *reactor, const struct ibv_wc *wc)
{
	const struct nvme_sqe *sqe;
	const struct target_namespace *ns;
	const uint8_t *source;
	uint64_t slba;

	if (!fetch_waits)
		return;
	ns = expect_find(reactor, wc, &sqe, &slba);
	source = ns ? expect_source(ns, sqe, slba) : NULL;
	if (source)
		__builtin_prefetch(source, 0, 2);
}

void expect_completion(struct reactor *reactor, const struct ibv_wc *wc)
{
	const struct nvme_sqe *sqe;
	const uint8_t *source;
	uint64_t slba;
	const struct target_namespace *ns = expect_find(reactor, wc, &sqe, &slba);

	if (!ns)
		return;
	if (ns->latched)
		latch_expect(reactor, ns, slba);
	source = expect_source(ns, sqe, slba);
	if (source)
		fetch_to_send(source, ((size_t)(sqe->cdw12 & 0xffff) + 1) << ns->block_shift, FETCH_FIRST);
	else if (ns->memory && sqe->opc == NVME_OPC_WRITE && sqe->sgl.keyed.type == NVME_SGL_IN_CAPSULE)
		expect_written(ns, sqe, slba);
}
