/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The embedded iWARP device: its layers, and all of its internal headers for tests.  No file of this folder includes
 * this one.
 *
 * A file includes and calls only files of its own layer and of the layers before it in this list: a later layer
 * passes in the functions that an earlier one needs.  tests/unit/test_layers.py reads this list.
 *
 *   base         sizes stats epoch lock
 *   wire         wire mpa terminate
 *   memory       stag mr mw
 *   engine       work srq stream rx rx_ahead rx_fpdu rx_crc rx_message tx tx_build
 *   completion   chan cq turn
 *   helper       helper linger refused events
 *   queue pair   qp qp_visit qp_end post numbers
 *   watch        watch
 *   device       device_common device
 *   connection   cm cm_addr cm_congestion cm_connect cm_event cm_handshake nudge fork
 *   table        table
 *
 * Threads: the application's (any number, one per queue pair at a time in practice) and one helper.
 * Locks, in the order in which they nest:
 *   iw_cm_lock        mutex: CM ids, event queues, everything of the helper.  Never on the I/O path.
 *   iw_numbers.lock   mutex: the list of queue pairs.
 *   cq->progress      spin, usually tried: receiving for a CQ's turns, their line, its staging.
 *   qp->lock          spin: everything of a queue pair.  Memory regions are read within a section (lock.h).
 *   srq->lock         spin: shared receives, and the connections that wait for one.
 *   cq->ring_lock, chan->lock   spin, innermost: completions and events.
 */
#ifndef NVMF_IWARP_H
#define NVMF_IWARP_H

#include "cm.h"
#include "terminate.h"

#endif
