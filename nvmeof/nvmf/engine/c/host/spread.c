/* SPDX-License-Identifier: BSD-3-Clause */
/* The same Writes to several queues; see spread.h. */
#include "host/spread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SPREAD_FUA = 1 << 30, SPREAD_MAX_BLOCKS = 1 << 16 };

/* The commands of one operation on one leg. */
struct spread_part {
	struct host_answer answer;	/* of each command */
	struct spread_op *op;
	struct spread_part *next;	/* in the line of the leg */
	uint32_t sent, outstanding;	/* commands */
	uint8_t leg;
	bool failed, waiting;		/* in the line */
};

struct spread_op {
	struct host_spread *spread;
	uint8_t *addr;
	uint32_t room;			/* bytes at addr */
	uint64_t *offsets;		/* room for room / HOST_SPREAD_BLOCK of them */
	uint32_t count, bytes;
	uint32_t out, has, failed;
	bool listed;			/* in news */
	struct spread_op *next;		/* of the free ones, or of news */
	struct spread_part *parts;	/* one for each leg */
};

struct spread_leg {
	struct host_spread_leg to;	/* queue NULL: not attached, or stopped */
	unsigned outstanding;
	struct spread_part *line, **line_tail;	/* with commands to submit, oldest first */
};

struct host_spread {
	unsigned legs, nops;
	uint32_t attached, stopped;
	uint8_t *addr;
	size_t length;
	uint32_t small_bytes, large_bytes;
	struct spread_op *small, *large;	/* free */
	struct spread_op *news, **news_tail;
	struct spread_leg leg[HOST_SPREAD_LEGS];
	struct spread_op *ops;
	struct spread_part *parts;
	uint64_t *offsets;
};

/* ---- the life of a spread ---- */

static void spread_answer(struct host_answer *answer, const struct nvme_cqe *cqe);

static void spread_free_op(struct host_spread *s, struct spread_op *op)
{
	struct spread_op **list = op->room > s->small_bytes ? &s->large : &s->small;

	op->next = *list;
	*list = op;
}

static void spread_divide(struct host_spread *s, const struct host_spread_options *o)
{
	uint8_t *addr = s->addr;
	uint64_t *offsets = s->offsets;

	for (unsigned i = 0; i < s->nops; i++) {
		struct spread_op *op = &s->ops[i];

		op->spread = s;
		op->addr = addr;
		op->room = i < o->small ? o->small_bytes : o->large_bytes;
		op->offsets = offsets;
		op->parts = &s->parts[(size_t)i * s->legs];
		for (unsigned leg = 0; leg < s->legs; leg++)
			op->parts[leg] = (struct spread_part){
				.answer.take = spread_answer, .op = op, .leg = (uint8_t)leg,
			};
		addr += op->room;
		offsets += op->room / HOST_SPREAD_BLOCK;
		spread_free_op(s, op);
	}
}

struct host_spread *host_spread_create(const struct host_spread_options *options)
{
	const struct host_spread_options *o = options;
	const size_t nops = (size_t)o->small + o->large;
	const size_t length = (size_t)o->small * o->small_bytes + (size_t)o->large * o->large_bytes;

	if (!o->legs || o->legs > HOST_SPREAD_LEGS || !nops || !o->small_bytes || o->large_bytes <= o->small_bytes ||
	    o->small_bytes % HOST_SPREAD_BLOCK || o->large_bytes % HOST_SPREAD_BLOCK)
		return NULL;

	struct host_spread *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->legs = o->legs;
	s->nops = (unsigned)nops;
	s->addr = o->addr;
	s->length = length;
	s->small_bytes = o->small_bytes;
	s->large_bytes = o->large_bytes;
	s->news_tail = &s->news;
	s->ops = calloc(nops, sizeof(*s->ops));
	s->parts = calloc(nops * o->legs, sizeof(*s->parts));
	s->offsets = calloc(length / HOST_SPREAD_BLOCK, sizeof(*s->offsets));
	if (!s->ops || !s->parts || !s->offsets) {
		host_spread_destroy(s);
		return NULL;
	}
	spread_divide(s, o);
	return s;
}

void host_spread_destroy(struct host_spread *spread)
{
	if (!spread)
		return;
	free(spread->ops);
	free(spread->parts);
	free(spread->offsets);
	free(spread);
}

/* ---- the end of a part ---- */

static void spread_list(struct host_spread *s, struct spread_op *op)
{
	if (op->listed)
		return;
	op->listed = true;
	op->next = NULL;
	*s->news_tail = op;
	s->news_tail = &op->next;
}

/* Nothing of the part is outstanding, and nothing more of it will be submitted. */
static void spread_end(struct host_spread *s, struct spread_part *p)
{
	struct spread_op *op = p->op;
	const uint32_t bit = 1u << p->leg;

	op->out &= ~bit;
	if (p->failed)
		op->failed |= bit;
	else
		op->has |= bit;
	if (p->failed || !op->out)
		spread_list(s, op);
}

static void spread_answer(struct host_answer *answer, const struct nvme_cqe *cqe)
{
	struct spread_part *p = (struct spread_part *)answer;
	struct host_spread *s = p->op->spread;

	s->leg[p->leg].outstanding--;
	p->outstanding--;
	p->failed |= cqe->status >> 1 != 0;
	if (!p->outstanding && !p->waiting)
		spread_end(s, p);
}

/* ---- submission ---- */

static int spread_submit(struct spread_leg *leg, struct spread_part *p)
{
	const struct spread_op *op = p->op;
	const uint64_t lba = op->offsets[p->sent] >> leg->to.shift;
	const struct nvme_sqe sqe = {
		.opc = NVME_OPC_WRITE,
		.nsid = leg->to.nsid,
		.cdw10 = (uint32_t)lba,
		.cdw11 = (uint32_t)(lba >> 32),
		.cdw12 = ((op->bytes >> leg->to.shift) - 1) | SPREAD_FUA,
	};
	const struct host_data data = {
		.addr = op->addr + (size_t)p->sent * op->bytes,
		.length = op->bytes,
		.memory = leg->to.memory,
		.to_device = true,
		.in_capsule = true,
	};

	return host_queue_submit(leg->to.queue, &sqe, &data, &p->answer, true);
}

static void spread_leave_line(struct spread_leg *leg)
{
	struct spread_part *p = leg->line;

	leg->line = p->next;
	if (!leg->line)
		leg->line_tail = &leg->line;
	p->waiting = false;
}

void host_spread_run(struct host_spread *spread, unsigned index)
{
	struct spread_leg *leg = &spread->leg[index];
	struct spread_part *p;

	while ((p = leg->line) && leg->to.queue && !leg->to.paused) {
		if (!p->failed) {
			if (leg->outstanding >= leg->to.most)
				return;

			const int ret = spread_submit(leg, p);

			if (ret == -EAGAIN)
				return;
			if (ret >= 0) {
				leg->outstanding++;
				p->outstanding++;
				p->sent++;
			} else {
				p->failed = true;
			}
		}
		if (!p->failed && p->sent < p->op->count)
			continue;
		spread_leave_line(leg);
		if (!p->outstanding)
			spread_end(spread, p);
	}
}

static void spread_add(struct host_spread *s, struct spread_part *p)
{
	struct spread_leg *leg = &s->leg[p->leg];

	p->sent = p->outstanding = 0;
	p->failed = false;
	p->waiting = true;
	p->next = NULL;
	*leg->line_tail = p;
	leg->line_tail = &p->next;
	host_spread_run(s, p->leg);
}

static bool spread_possible(const struct host_spread *s, uint32_t legs, const uint64_t *offsets, uint32_t count,
			    uint32_t bytes)
{
	uint64_t bits = bytes;

	if (!legs || legs & ~s->attached || !count || !bytes)
		return false;
	for (uint32_t i = 0; i < count; i++)
		bits |= offsets[i];
	for (unsigned i = 0; i < s->legs; i++) {
		const unsigned shift = s->leg[i].to.shift;

		if (legs >> i & 1 && (bits & ((1u << shift) - 1) || bytes >> shift > SPREAD_MAX_BLOCKS))
			return false;
	}
	return true;
}

int host_spread_write(struct host_spread *spread, uint32_t legs, const uint64_t *offsets, uint32_t count,
		      uint32_t bytes, const void *data, bool more)
{
	struct host_spread *s = spread;
	const uint64_t total = (uint64_t)count * bytes;
	struct spread_op **list = total > s->small_bytes ? &s->large : &s->small, *op;

	if (total > s->large_bytes || !spread_possible(s, legs, offsets, count, bytes))
		return -EINVAL;
	op = *list;
	if (!op)
		return -EAGAIN;
	*list = op->next;
	op->count = count;
	op->bytes = bytes;
	op->out = legs;
	op->has = op->failed = 0;
	op->listed = false;
	memcpy(op->offsets, offsets, count * sizeof(*offsets));
	memcpy(op->addr, data, total);
	for (unsigned i = 0; i < s->legs; i++)
		if (legs >> i & 1)
			spread_add(s, &op->parts[i]);
	if (!more)
		host_spread_flush(s);
	return (int)(op - s->ops);
}

void host_spread_flush(struct host_spread *spread)
{
	for (unsigned i = 0; i < spread->legs; i++)
		if (spread->leg[i].to.queue)
			host_queue_flush(spread->leg[i].to.queue);
}

/* ---- legs ---- */

int host_spread_attach(struct host_spread *spread, unsigned index, const struct host_spread_leg *leg)
{
	const uint8_t *addr = leg->memory->addr;

	if (index >= spread->legs || (spread->attached | spread->stopped) >> index & 1 || !leg->most || leg->shift < 9 || leg->shift > 18 ||
	    addr != spread->addr || leg->memory->length < spread->length)
		return -EINVAL;
	spread->leg[index] = (struct spread_leg){ .to = *leg };
	spread->leg[index].line_tail = &spread->leg[index].line;
	spread->attached |= 1u << index;
	return 0;
}

void host_spread_stop(struct host_spread *spread, unsigned index)
{
	const uint32_t bit = 1u << index;

	if (!(spread->attached & bit))
		return;
	spread->attached &= ~bit;
	spread->stopped |= bit;
	spread->leg[index].to.queue = NULL;
}

void host_spread_detach(struct host_spread *spread, unsigned index)
{
	struct host_spread *s = spread;
	const uint32_t bit = 1u << index;

	if (!((s->attached | s->stopped) & bit))
		return;
	s->attached &= ~bit;
	s->stopped &= ~bit;
	s->leg[index] = (struct spread_leg){ .line_tail = &s->leg[index].line };
	for (unsigned i = 0; i < s->nops; i++) {
		struct spread_op *op = &s->ops[i];

		if (!(op->out & bit))
			continue;
		op->parts[index].outstanding = 0;
		op->parts[index].waiting = false;
		op->parts[index].failed = true;
		spread_end(s, &op->parts[index]);
	}
}

uint32_t host_spread_attached(const struct host_spread *spread)
{
	return spread->attached;
}

uint32_t host_spread_stopped(const struct host_spread *spread)
{
	return spread->stopped;
}

void host_spread_pause(struct host_spread *spread, unsigned index, bool paused)
{
	spread->leg[index].to.paused = paused;
}

/* ---- reports to the owner ---- */

bool host_spread_has_news(const struct host_spread *spread)
{
	return spread->news;
}

bool host_spread_take(struct host_spread *spread, struct host_spread_news *news)
{
	struct host_spread *s = spread;
	struct spread_op *op = s->news;

	if (!op)
		return false;
	s->news = op->next;
	if (!s->news)
		s->news_tail = &s->news;
	op->listed = false;
	*news = (struct host_spread_news){
		.op = (unsigned)(op - s->ops), .out = op->out, .has = op->has, .failed = op->failed,
	};
	if (!op->out)
		spread_free_op(s, op);
	return true;
}

uint32_t host_spread_has(const struct host_spread *spread, unsigned op)
{
	return op < spread->nops ? spread->ops[op].has : 0;
}
