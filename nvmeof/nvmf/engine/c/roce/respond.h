/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the responder: messages (responder.c), and requests with a response (respond_memory.c). */
#ifndef NVMF_ROCE_RESPOND_H
#define NVMF_ROCE_RESPOND_H

#include "qp.h"

/* ---- responder.c ---- */

/* Refuse a request that cannot be carried out: the answer is sent at once, because nothing is sent after the end. */
void ro_refuse(struct ro_qp *qp, uint8_t nak, enum ibv_wc_status status, const char *why);
/* Count a packet that takes this many PSNs as received. */
void ro_taken(struct ro_qp *qp, const struct ro_packet *p, uint32_t packets);
/* No acknowledgement is due now: one was sent, or a response takes its place. */
void ro_acknowledged(struct ro_qp *qp);

/* ---- respond_memory.c ---- */

uint32_t ro_response_packets(const struct ro_qp *qp, uint32_t len);
/* Send the next packet of a response, or do the next piece of its work; false if the memory is gone. */
bool ro_answer_packet(struct ro_qp *qp, struct ro_burst *b, struct ro_read *rd);
void ro_respond_memory(struct ro_qp *qp, const struct ro_packet *p);
/* Respond to a repeated request. */
void ro_respond_again(struct ro_qp *qp, const struct ro_packet *p);

#endif
