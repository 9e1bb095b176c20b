/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests in a queue pair's rings, under its lock. */
#ifndef NVMF_IWARP_WORK_H
#define NVMF_IWARP_WORK_H

#include "mr.h"

#include <errno.h>
#include <sys/uio.h>

enum { IW_SEND_STABLE = 1 << 16 };	/* verbs.send_stable; a bit that libibverbs does not use */

struct iw_swr {				/* a send work request */
	uint64_t wr_id;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t inval;			/* BIND: the window's new STag, with rkey its region's */
	uint32_t len;
	union {
		struct {
			uint32_t seg;	/* payload of each FPDU except the last */
			uint32_t msn;
			uint32_t placed;	/* READ: bytes received */
		};
		struct {
			uint64_t bind_len;
			int bind_access;
		};
	};
	uint16_t num_sge;
	uint8_t wc_opcode;
	uint8_t rdmap;			/* enum rdmap_opcode, or IW_OP_* */
	bool inline_data, signaled, fence, done;
	bool stable;			/* the sent memory does not change until the request is complete */
};

/* Work requests that send nothing. */
enum { IW_OP_LOCAL = 0x10, IW_OP_LOCAL_INV = 0x10, IW_OP_BIND = 0x11 };

struct iw_rwr {
	uint64_t wr_id;
	uint32_t len;
	uint32_t num_sge;
};

struct iw_irq {				/* a READ of the peer, to be answered */
	uint64_t sink_to, src_to;
	uint32_t sink_stag, src_stag, size, seg;
};

/* Copy the list into the ring and compute the sum of its lengths; an errno. */
static inline int iw_take_sges(struct ibv_sge *to, const struct ibv_sge *from, int num, uint32_t *len)
{
	uint64_t sum = 0;

	for (int i = 0; i < num; i++) {
		to[i] = from[i];
		sum += from[i].length;
	}
	if (sum > 0x80000000u)
		return EINVAL;
	*len = (uint32_t)sum;
	return 0;
}

/* Gather len bytes at off of a list of SGEs; returns the number of iovecs, or -1 with the access error in *err. */
int iw_sge_iov(const struct ibv_pd *pd, const struct ibv_sge *sge, uint32_t num_sge, uint64_t off,
	       uint32_t len, int access, struct iovec *iov, enum iw_access *err);

#endif
