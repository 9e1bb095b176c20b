/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host side against targets that lie, stop answering or close: the queue ends with a reason, and its commands are
 * returned to their users.
 */
#include "check.h"
#include "host_rig.h"
#include "raw_target.h"

static void test_lies(enum raw_answer answer, int completions, const char *reason)
{
	struct nvme_sqe sqe = { .opc = NVME_OPC_FLUSH, .nsid = 1 };
	struct raw *raw = raw_start(answer);
	struct host_device *d = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, NULL, 0);
	struct host_completion done;
	struct host_error e;
	struct host_queue *q = connect_to(d, "127.0.0.1", raw->port, 1, 32, false, &e);
	void *users[32];
	int got = 0, n = 0;

	CHECK(q);
	if (q) {
		CHECK(host_queue_submit(q, &sqe, NULL, &sqe, false) >= 0);
		while ((n = poll_for(q, &done)) > 0)
			got++;
		CHECK(n == -ENOTCONN);
		CHECK(got == completions);
		CHECK_HAS(host_queue_reason(q), reason);
		CHECK(host_queue_submit(q, &sqe, NULL, NULL, false) == -ENOTCONN);
		CHECK(host_queue_abandon(q, users, 32) == 1 - completions);
		CHECK(completions || users[0] == &sqe);
		CHECK(host_queue_outstanding(q) == 0);
		host_queue_destroy(q);
	}
	host_device_put(d);
	raw_stop(raw);
}

static void test_silence(bool notify)
{
	const struct nvme_sqe sqe = { .opc = NVME_OPC_FLUSH, .nsid = 1 };
	struct raw *raw = raw_start(RAW_SILENCE);
	struct host_device *d = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, NULL, 0);
	struct nvme_cqe cqe;
	struct host_error e;
	struct host_queue *q = connect_to(d, "127.0.0.1", raw->port, 1, 32, notify, &e);

	CHECK(q);
	if (q) {
		CHECK(host_queue_command(q, &sqe, NULL, 300, &cqe) == -ETIMEDOUT);
		CHECK_HAS(host_queue_reason(q), "no answer to a command within 300 ms");
		host_queue_destroy(q);
	}
	host_device_put(d);
	raw_stop(raw);
}

static void test_small_queue(void)
{
	const struct nvme_sqe sqe = { .opc = NVME_OPC_FLUSH, .nsid = 1 };
	struct raw *raw = raw_start(RAW_SMALL_QUEUE);
	struct host_device *d = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, NULL, 0);
	struct host_error e;
	struct host_queue *q = connect_to(d, "127.0.0.1", raw->port, 1, 32, false, &e);

	CHECK(q);
	if (q) {
		CHECK(host_queue_submit(q, &sqe, NULL, NULL, true) >= 0);
		CHECK(host_queue_submit(q, &sqe, NULL, NULL, true) >= 0);
		CHECK(host_queue_submit(q, &sqe, NULL, NULL, true) == -EAGAIN);
		host_queue_destroy(q);
	}
	host_device_put(d);
	raw_stop(raw);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	test_lies(RAW_UNKNOWN_CID, 0, "answered command 0x0eee, which is not outstanding");
	test_lies(RAW_OLD_CID, 0, "which is not outstanding");
	test_lies(RAW_SHORT, 0, "a response of 12 bytes instead of 16");
	test_lies(RAW_TWICE, 1, "which is not outstanding");
	test_lies(RAW_CLOSE, 0, "connection");
	test_silence(false);
	test_silence(true);
	test_small_queue();
	return check_report();
}
