/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The embedded RoCEv2 device: its layers, and all of its internal headers for tests.  No file of this folder includes
 * this one.  Memory, completion queues, shared receives and the helper are those of the embedded iWARP device.
 *
 * A file includes and calls only files of its own layer and of the layers before it in this list: a later layer
 * passes in the functions that an earlier one needs.  tests/unit/test_layers.py reads this list.
 *
 *   wire         wire crc32_ways crc32_x86 icrc
 *   port         addr share tag steer services port port_mtu port_receive port_send port_watch calls
 *   messages     cm_wire
 *   queue pair   qp numbers burst post requester completer respond responder respond_memory ahead room timer visit
 *   device       device
 *   connection   cm bare cm_addr cm_connect cm_event cm_find cm_goodbye cm_id cm_receive cm_stale fork gids
 *   table        table
 */
#ifndef NVMF_ROCE_H
#define NVMF_ROCE_H

#include "cm.h"

#endif
