/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes bytes of a store's map persistent that a device, and not store_memory_write(), has placed there. */
#ifndef NVMF_MEMORY_PERSIST_H
#define NVMF_MEMORY_PERSIST_H

#include "store/store.h"
#include "util/lines.h"

/* Any thread; blocks if the store must sync a file.  An NVMe status. */
uint16_t memory_persist(struct store *store, uint64_t offset, uint64_t length);

/* Return the part of a range to make persistent at once: one that takes at most tens of microseconds. */
uint64_t memory_persist_piece(const struct store *store, uint64_t length);

#endif
