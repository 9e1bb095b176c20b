/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the connection manager of the libraries' devices, for captures (capture.h).  Any thread that uses the id;
 * no effect while nothing is captured.
 */
#ifndef NVMF_VERBS_MESSAGES_H
#define NVMF_VERBS_MESSAGES_H

#include "capture/capture.h"

#include <rdma/rdma_cma.h>

void messages_sent(struct rdma_cm_id *id, enum capture_message message, const void *data, size_t n);
void messages_closed(struct rdma_cm_id *id);
/* An event that has arrived and is not acknowledged yet. */
void messages_event(const struct rdma_cm_event *event);

#endif
