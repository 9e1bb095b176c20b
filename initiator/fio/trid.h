/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport id: the location of a namespace, as written in --filename.
 *
 *   trtype=rdma adrfam=ipv4 traddr=192.0.2.1 trsvcid=4420 subnqn=nqn.2026-11.io.example\:disk nsid=1
 *   nvme+rdma\://192.0.2.1\:4420/nqn.2026-11.io.example\:disk?ns=1
 *
 * Words are key=value or, as SPDK also writes them, key:value.  fio ends a file name at ':' unless
 * it is escaped as '\:', and removes the backslash.  Does not depend on fio or the engine; any
 * thread.
 */
#ifndef NVMEOF_FIO_TRID_H
#define NVMEOF_FIO_TRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct trid {
	char traddr[256];
	char trsvcid[32];
	char subnqn[224];
	char hostnqn[224];	/* "": the machine's */
	uint32_t nsid;		/* 0: not given */
};

/* Whether text is apparently meant as a transport id. */
bool trid_looks_like(const char *text);
/* 0, or -1 with a sentence in err.  Fields that text does not name are left as they are. */
int trid_parse(struct trid *trid, const char *text, char *err, size_t len);
/* Whether text is the number of a port. */
bool trid_is_port(const char *text);

#pragma GCC visibility pop

#endif
