/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host side against a target in the same process: connections and their failures, commands, full queues, a target
 * that ends.  Real frames over real sockets.
 */
#include "check.h"
#include "host_rig.h"
#include "host/controller.h"
#include "host_cases_bench.h"
#include "mini_target.h"

#include <sys/socket.h>
#include <unistd.h>

static const struct store_options ram = {
	.kind = "ram", .size = 64 << 20, .block_size = 512, .direct = -1,
};

static struct host_controller *controller_of(const struct mini *m, const char *nqn,
					     struct host_error *e)
{
	const struct host_controller_options o = {
		.traddr = "127.0.0.1", .trsvcid = m->port, .subnqn = nqn, .timeout_ms = CHECK_PATIENCE_S * 1000,
	};

	return host_controller_connect(&o, e);
}

/* ---- connections that fail ---- */

/* A TCP port that is bound; listening or not. */
static int tcp_port(bool listening, char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&a, len) || (listening && listen(fd, 1)) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		mini_die("tcp", strerror(errno));
	sprintf(port, "%u", ntohs(a.sin_port));
	return fd;
}

static void test_nobody_there(void)
{
	struct host_device *d = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, NULL, 0);
	struct host_error e;
	char port[8];
	int fd = tcp_port(false, port);

	CHECK(!connect_to(d, "127.0.0.1", port, 0, 32, false, &e));
	CHECK_HAS(e.text, "no target listens there");
	CHECK(!connect_to(d, "no-such-host.invalid", "4420", 0, 32, false, &e));
	CHECK_HAS(e.text, "unknown address no-such-host.invalid");
	CHECK(!connect_to(d, "127.0.0.1", port, 0, 1, false, &e));
	CHECK_HAS(e.text, "queue size 1");
	close(fd);

	fd = tcp_port(true, port);	/* accepts the connection and sends nothing */

	CHECK(!connect_within(d, "127.0.0.1", port, 0, 32, false, 500, &e));
	CHECK_HAS(e.text, "no answer within 500 ms");
	close(fd);
	host_device_put(d);
}

static void test_rejects(struct mini *m)
{
	struct host_device *d = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, NULL, 0);
	struct host_error e;

	for (int sts = 1; sts <= 8; sts++) {
		atomic_store(&m->reject, sts);
		CHECK(!connect_to(d, "127.0.0.1", m->port, 1, 32, false, &e));
		CHECK(e.reject_sts == sts);
		CHECK(e.cm_event == RDMA_CM_EVENT_REJECTED);
		CHECK_HAS(e.text, "the target rejected it: ");
	}
	CHECK_HAS(e.text, "Invalid ORD (sts 8)");
	host_device_put(d);
}

static void test_wrong_names(struct mini *m)
{
	struct host_namespace_info info;
	struct host_error e;
	struct host_controller *c = controller_of(m, "nqn.2026-11.io.example:other", &e);

	CHECK(!c);
	CHECK(e.nvme_status == (0x182 | NVME_DNR));
	CHECK_HAS(e.text, "Connect Invalid Parameters");
	CHECK_HAS(e.text, "the subsystem NQN");
	c = controller_of(m, MINI_NQN, &e);
	CHECK(c);
	if (!c)
		return;
	CHECK(host_controller_namespace(c, 2, &info, &e) == -ENODEV);
	CHECK_HAS(e.text, "has no namespace 2");
	host_controller_destroy(c);
}

/* An I/O queue's Connect is answered with the ID of the controller; by old versions of Linux with 0. */
static void test_cntlid(struct mini *m)
{
	static const struct {
		int off;
		bool refused;
	} cases[] = { { 0, false }, { -MINI_CNTLID, false }, { 1, true } };
	struct host_error e;
	struct host_controller *c = controller_of(m, MINI_NQN, &e);

	CHECK(c);
	if (!c)
		return;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		atomic_store(&m->cntlid_off, cases[i].off);
		memset(&e, 0, sizeof(e));

		struct host_queue *q = host_controller_queue(c, 32, NULL, false, &e);

		CHECK(!q == cases[i].refused, "case %zu: %s", i, e.text);
		CHECK(c->cntlid == MINI_CNTLID, "case %zu: the host's controller is %u", i, c->cntlid);
		if (q)
			host_queue_destroy(q);
		else
			CHECK_HAS(e.text, "was answered by controller 8, not 7");
	}
	atomic_store(&m->cntlid_off, 0);
	host_controller_destroy(c);
}

static void test_name_with_two_addresses(struct mini *m)
{
	struct host_device *d = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, NULL, 0);
	struct host_error e;
	struct host_queue *q = connect_to(d, "localhost", m->port, 0, 32, true, &e);

	CHECK(q);	/* localhost may be ::1 first, where nothing listens */
	host_queue_destroy(q);
	host_device_put(d);
}

/* ---- commands ---- */

struct rig {
	struct host_controller *c;
	struct host_queue *q;
	struct host_memory *memory;
	struct host_namespace_info info;
};

static bool rig_up(struct rig *r, struct mini *m, uint16_t size, bool notify)
{
	struct host_error e;

	memset(r, 0, sizeof(*r));
	r->c = controller_of(m, MINI_NQN, &e);
	if (!r->c || host_controller_namespace(r->c, 1, &r->info, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return false;
	}
	r->q = host_controller_queue(r->c, size, NULL, notify, &e);
	r->memory = host_memory_alloc(host_controller_device(r->c), 4 << 20, e.text, sizeof(e.text));
	return r->q && r->memory;
}

static void rig_down(struct rig *r)
{
	host_queue_destroy(r->q);
	host_memory_free(r->memory);
	host_controller_destroy(r->c);
}

static struct nvme_sqe rw(uint8_t opc, uint64_t lba, uint32_t bytes)
{
	return (struct nvme_sqe){
		.opc = opc, .nsid = 1, .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32),
		.cdw12 = bytes / 512 - 1,
	};
}

static struct host_data range(const struct rig *r, size_t offset, uint32_t length, bool out,
			      bool capsule)
{
	return (struct host_data){
		.addr = (uint8_t *)r->memory->addr + offset, .length = length,
		.memory = r->memory, .to_device = out,
		.in_capsule = capsule,
	};
}

static int command(struct rig *r, uint8_t opc, uint64_t lba, size_t offset, uint32_t length,
		   bool capsule)
{
	const bool out = opc == NVME_OPC_WRITE || opc == NVME_OPC_COMPARE;
	const struct nvme_sqe sqe = rw(opc, lba, length);
	const struct host_data data = range(r, offset, length, out, capsule);
	struct nvme_cqe cqe;

	return host_queue_command(r->q, &sqe, &data, CHECK_PATIENCE_S * 1000, &cqe);
}

static void fill(struct rig *r, size_t offset, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		((uint8_t *)r->memory->addr)[offset + i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

static void test_data(struct mini *m, bool notify)
{
	static const struct { uint32_t length; bool capsule; } cases[] = {
		{ 512, true }, { 4096, true }, { 8192, true }, { 8704, true }, { 512, false },
		{ 4096, false }, { 131072, false }, { 1 << 20, false },
	};
	uint8_t *base;
	struct rig r;

	CHECK(rig_up(&r, m, 32, notify));
	base = r.memory->addr;
	CHECK(r.info.block_size == 512 && r.info.blocks == (64 << 20) / 512);
	CHECK(r.info.max_transfer == 1 << 20 && r.info.deallocate);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint32_t n = cases[i].length;

		fill(&r, 0, n, i);
		memset(base + (2 << 20), 0xee, n);
		CHECK(command(&r, NVME_OPC_WRITE, 7 + i, 0, n, cases[i].capsule) == 0);
		CHECK(command(&r, NVME_OPC_READ, 7 + i, 2 << 20, n, false) == 0);
		CHECK(!memcmp(base, base + (2 << 20), n));
	}

	const struct nvme_sqe flush = { .opc = NVME_OPC_FLUSH, .nsid = 1 };
	struct nvme_cqe cqe;

	CHECK(host_queue_command(r.q, &flush, NULL, CHECK_PATIENCE_S * 1000, &cqe) == 0);
	CHECK((command(&r, NVME_OPC_READ, r.info.blocks, 0, 512, false) & 0x7ff) ==
	      NVME_LBA_OUT_OF_RANGE);
	CHECK((command(&r, 0x5a, 0, 0, 512, false) & 0x7ff) == NVME_INVALID_OPCODE);
	CHECK(command(&r, NVME_OPC_READ, 0, 0, 512, false) == 0);
	rig_down(&r);
}

static void test_full_queue(struct mini *m)
{
	struct host_completion done[64];
	struct rig r;
	int got = 0, ret = 0, sent = 0, wrong = 0;

	CHECK(rig_up(&r, m, 16, false) /* too few: it is raised to HOST_MIN_QUEUE */);
	for (; sent < 40; sent++) {
		const struct nvme_sqe sqe = rw(NVME_OPC_READ, (uint64_t)sent, 512);
		const struct host_data data = range(&r, (size_t)sent * 512, 512, false, false);

		ret = host_queue_submit(r.q, &sqe, &data, (void *)(intptr_t)(sent + 1), true);
		if (ret < 0)
			break;
	}
	CHECK(ret == -EAGAIN);
	CHECK(sent == HOST_MIN_QUEUE - 1);	/* a queue is full with one entry left */
	CHECK(host_queue_outstanding(r.q) == HOST_MIN_QUEUE - 1);

	const double until = seconds_now() + CHECK_PATIENCE_S;

	while (got < sent && seconds_now() < until) {
		const int n = host_queue_poll(r.q, done, 4);

		for (int i = 0; i < n; i++)
			wrong += done[i].cqe.status != 0 || !done[i].user;
		got += n > 0 ? n : 0;
	}
	CHECK(got == HOST_MIN_QUEUE - 1 && !wrong);
	CHECK(host_queue_outstanding(r.q) == 0);
	for (unsigned i = 0; i < 300; i++)	/* CIDs wrap around */
		wrong += command(&r, NVME_OPC_READ, i, 0, 512, false) != 0;
	CHECK(!wrong);
	rig_down(&r);
}

static void test_sleep(struct mini *m)
{
	struct host_completion done;
	struct pollfd p = { .events = POLLIN };
	struct rig r;
	bool in_time = true;

	CHECK(rig_up(&r, m, 32, true));
	p.fd = host_queue_fd(r.q);
	for (unsigned i = 0; i < 50; i++) {
		const struct nvme_sqe sqe = rw(NVME_OPC_READ, i, 4096);
		const struct host_data data = range(&r, 0, 4096, false, false);

		CHECK(host_queue_submit(r.q, &sqe, &data, &r, false) >= 0);
		CHECK(host_queue_arm(r.q) == 0);
		while (!host_queue_poll(r.q, &done, 1) && in_time) {
			in_time = poll(&p, 1, CHECK_PATIENCE_S * 1000) == 1;
			host_queue_drain(r.q);
			host_queue_arm(r.q);
		}
	}
	CHECK(in_time);
	rig_down(&r);
}

static void test_target_goes(struct mini *m)
{
	struct host_completion done;
	struct rig r;
	int n;

	CHECK(rig_up(&r, m, 32, false));
	CHECK(command(&r, NVME_OPC_READ, 0, 0, 512, false) == 0);
	atomic_store(&m->drop, true);
	n = poll_for(r.q, &done);
	CHECK(n == -ENOTCONN);
	CHECK_HAS(host_queue_reason(r.q), "connection");
	rig_down(&r);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	test_nobody_there();

	struct mini *m = mini_start(&ram, 8192, -1);

	test_rejects(m);
	test_wrong_names(m);
	test_cntlid(m);
	test_name_with_two_addresses(m);
	test_data(m, false);
	test_data(m, true);
	test_full_queue(m);
	test_sleep(m);
	test_bench(m);
	test_bench_range(m);
	test_bench_silence(m);
	test_bench_controllers(m);
	test_target_goes(m);
	mini_stop(m);
	return check_report();
}
