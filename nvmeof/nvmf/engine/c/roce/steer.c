/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program by which the kernel chooses the socket of an address's packet, from the table of services: see share.h.
 * Offsets are from the end of the UDP header.  A packet that is too short for them goes to the first socket.
 */
#include "steer.h"
#include "wire.h"

#include <linux/filter.h>
#include <sys/socket.h>

enum { HEAD = 12, MOST = HEAD + 2 + 2 * RO_SERVICES };
enum {	/* of the connection manager's messages; see cm_wire.c */
	MAD = RO_BTH + RO_DETH, KIND = MAD + 16, REMOTE_COMM = MAD + 28, SERVICE_PORT = MAD + 38,
	KIND_REQ = 0x10,
};

static struct sock_filter load(uint16_t size, uint32_t offset)
{
	return (struct sock_filter)BPF_STMT((uint16_t)(BPF_LD | BPF_ABS | size), offset);
}

static struct sock_filter compute(uint16_t operation, uint32_t value)
{
	return (struct sock_filter)BPF_STMT((uint16_t)(BPF_ALU | BPF_K | operation), value);
}

/* Skip no_of instructions unless the loaded value is this one. */
static struct sock_filter unless(uint32_t value, uint8_t no_of)
{
	return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, no_of);
}

static struct sock_filter choose(uint32_t index)
{
	return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, index);
}

int ro_steer(int fd, const struct ro_services *t, uint32_t founder)
{
	struct sock_filter program[MOST] = {
		load(BPF_B, 0), unless(RO_OP_UD_SEND_ONLY, 5),
		load(BPF_H, KIND), (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, KIND_REQ, 8, 0),
		load(BPF_W, REMOTE_COMM), compute(BPF_RSH, RO_TAG_COMM),
		(struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 3),
		load(BPF_W, 4), compute(BPF_RSH, RO_TAG_QPN), compute(BPF_AND, RO_TAGS - 1),
		compute(BPF_XOR, founder), (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog all = { .filter = program };
	uint16_t n = HEAD;

	program[n++] = load(BPF_H, SERVICE_PORT);
	for (uint32_t i = 0; i < RO_SERVICES; i++) {
		if (!t->services[i].port)
			continue;
		program[n++] = unless(t->services[i].port, 1);
		program[n++] = choose((t->services[i].tag % RO_TAGS) ^ founder);
	}
	program[n++] = choose((t->others % RO_TAGS) ^ founder);
	all.len = n;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &all, sizeof(all));
}
