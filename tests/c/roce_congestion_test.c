/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion of the embedded RoCEv2 device: marked packets are reported to the peer, and the peer's reports reduce the
 * rate.
 */
#include "roce_rig.h"

static uint32_t next_psn;

/* A request of 4 bytes, with these ECN bits in the IP header. */
static void send_write(struct rig *rig, int ecn)
{
	const struct ro_bth bth = {
		.opcode = RO_OP_WRITE_ONLY, .ack_req = true, .qpn = rig->qp->qp.qp_num, .psn = next_psn,
	};
	uint8_t body[RO_RETH + 4] = { 0 };

	ro_put64(body, (uintptr_t)rig->mem);
	ro_put32(body + 8, rig->mr->rkey);
	ro_put32(body + 12, 4);
	setsockopt(rig->fd, IPPROTO_IP, IP_TOS, &ecn, sizeof(ecn));
	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

static bool acknowledged(struct rig *rig)
{
	const uint32_t psn = next_psn;

	next_psn = ro_psn_add(next_psn, 1);
	return rig_answered(rig, RO_OP_ACK, psn) && rig->got[RO_BTH] == RO_CREDITS_UNLIMITED;
}

/* Annex 17.9.3: a BTH with BECN, PSN 0 and the queue pair of the peer, and 16 bytes of zeroes. */
static bool is_cnp(const struct rig *rig, uint32_t len)
{
	static const uint8_t expected[RO_CNP] = { 0x81, 0, 0xff, 0xff, 0x40, 0, 0, RIG_QPN };

	return len == RO_CNP + RO_ICRC && !memcmp(rig->got, expected, RO_CNP);
}

static void marked(struct rig *rig)
{
	check_section("packets that were marked");
	send_write(rig, RO_ECN_ECT0);
	CHECK(acknowledged(rig), "(not marked: nothing is reported)");
	send_write(rig, RO_ECN_CE);
	CHECK(is_cnp(rig, rig_next(rig)));
	CHECK(acknowledged(rig));
	send_write(rig, 0);
	CHECK(acknowledged(rig));
}

/* The ECN bits of a packet of the device. */
static int bits_of(struct rig *rig)
{
	_Alignas(struct cmsghdr) uint8_t control[64];
	struct iovec iov = { rig->got, sizeof(rig->got) };
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;

	while (poll(&pfd, 1, 1) != 1 && clock_ns() < end)
		iw_cq_progress(iw_cq(rig->cq), false);
	if (recvmsg(rig->fd, &h, MSG_DONTWAIT) <= 0 || !CMSG_FIRSTHDR(&h))
		return -1;
	return *CMSG_DATA(CMSG_FIRSTHDR(&h)) & RO_ECN;
}

static void marks(struct rig *rig)
{
	int one = 1;

	check_section("routers may mark what it sends");
	setsockopt(rig->fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	send_write(rig, 0);
	CHECK(bits_of(rig) == RO_ECN_ECT0);
	next_psn = ro_psn_add(next_psn, 1);
}

static void send_cnp(struct rig *rig, uint32_t qpn)
{
	const struct ro_bth bth = { .opcode = RO_OP_CNP, .qpn = qpn };
	const uint8_t body[RO_CNP - RO_BTH] = { 0 };

	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

/* Let the device receive everything that was sent before. */
static void settle(struct rig *rig)
{
	send_write(rig, 0);
	CHECK(acknowledged(rig));
}

static void write_and_acknowledge(struct rig *rig, uint32_t psn)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem, .length = 4, .lkey = rig->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	const struct ro_bth bth = { .opcode = RO_OP_ACK, .qpn = rig->qp->qp.qp_num, .psn = psn };
	const uint8_t aeth[RO_AETH] = { RO_CREDITS_UNLIMITED };

	CHECK(!ro_post_send(&rig->qp->qp, &wr, &bad) && rig_answered(rig, RO_OP_WRITE_ONLY, psn));
	rig_send(rig, rig->port, &bth, aeth, sizeof(aeth));
	settle(rig);
}

static void told(struct rig *rig)
{
	const struct ro_requester *r = &rig->qp->req;
	const int own = rig->fd;
	union ro_addr stranger = rig_address();

	check_section("what the peer tells");
	CHECK(r->window == RO_WINDOW_FIRST);
	send_cnp(rig, rig->qp->qp.qp_num ^ 1);
	settle(rig);
	CHECK(r->window == RO_WINDOW_FIRST, "(of another queue pair)");

	rig->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(!bind(rig->fd, &stranger.sa, sizeof(stranger.in)));
	send_cnp(rig, rig->qp->qp.qp_num);
	close(rig->fd);
	rig->fd = own;
	settle(rig);
	CHECK(r->window == RO_WINDOW_FIRST, "(by a stranger)");

	send_cnp(rig, rig->qp->qp.qp_num);
	settle(rig);
	CHECK(r->window == RO_WINDOW_FIRST / 2);
	send_cnp(rig, rig->qp->qp.qp_num);
	settle(rig);
	CHECK(r->window == RO_WINDOW_FIRST / 2, "(once for what is on the way)");
	write_and_acknowledge(rig, RIG_PSN);
	send_cnp(rig, rig->qp->qp.qp_num);
	settle(rig);
	CHECK(r->window == RO_WINDOW_FIRST / 4);

	for (uint32_t i = 1; i < 200; i++)
		write_and_acknowledge(rig, ro_psn_add(RIG_PSN, i));
	CHECK(r->window > RO_WINDOW_FIRST / 4 && r->alpha < RO_ALPHA, "(it grows again)");
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	next_psn = RIG_PSN;
	if (rig_open(&rig)) {
		marked(&rig);
		marks(&rig);
		told(&rig);
	}
	rig_close(&rig);
	return check_report();
}
