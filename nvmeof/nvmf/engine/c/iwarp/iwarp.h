/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The embedded iWARP device: its layers, and for tests the whole of its inside.  Nothing in this folder includes this.
 *
 * A file includes and calls what is in its own layer and in those above it in this list, never what is below:
 * whoever comes later passes in what has to be called.  tests/unit/test_layers.py reads this list.
 *
 *   base         sizes stats epoch lock
 *   wire         wire mpa terminate
 *   memory       stag mr mw
 *   engine       work srq stream rx rx_fpdu rx_crc rx_message tx tx_build
 *   completion   chan cq turn
 *   helper       helper linger refused
 *   queue pair   qp qp_visit qp_end post numbers
 *   watch        watch
 *   device       device
 *   connection   cm cm_addr cm_congestion cm_connect cm_event cm_handshake nudge fork
 *   table        table
 *
 * Threads: the application's (any number, one per queue pair at a time in practice) and one helper.
 * Locks, in the order in which they nest:
 *   iw_cm_lock        mutex: CM ids, event queues, everything of the helper.  Never on the I/O path.
 *   iw_numbers.lock   mutex: the list of queue pairs.
 *   cq->progress      spin, usually tried: who receives for a CQ's turns, their line, its staging.
 *   qp->lock          spin: everything of a queue pair.  Memory regions are looked at within a section (lock.h).
 *   srq->lock         spin: receives that are shared, and who waits for one.
 *   cq->ring_lock, chan->lock   spin, innermost: completions and events.
 */
#ifndef NVMF_IWARP_H
#define NVMF_IWARP_H

#include "cm.h"
#include "terminate.h"

#endif
