/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host and target in one process, to measure the data path alone (perf record, quick figures).
 *
 * usage: host_perf read|write BLOCK_SIZE QUEUE_DEPTH SECONDS [QUEUES [FILE]]
 *
 * host_perf serve SECONDS [FILE]
 *
 * With REMOTE_KEYS=buffer in the environment commands have no keys of their own; with REMOTE_KEYS=register they have,
 * but the device has no memory windows.  With CRC=1 FPDUs have CRCs.  With DEVICE=roce it is the RoCEv2 device.
 */
#include "host/load.h"
#include "mini_target.h"

#include <sched.h>
#include <unistd.h>

static int processor(int n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -1;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &set) && n-- == 0)
			return i;
	return -1;
}

static int without_windows(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const int ret = verbs_iwarp()->query_device(context, attr);

	attr->max_mw = 0;
	return ret;
}

static struct mini *start(const char *file)
{
	const struct store_options store = {
		.kind = file ? "file" : "ram",
		.path = file,
		.size = file ? 0 : 256ull << 20,	/* the same size as in the floor */
		.block_size = 512,
		.direct = -1,
	};
	struct mini *m = mini_start(&store, 8192, processor(1));

	if (m->store->map)	/* allocate its pages before the measurement */
		memset(m->store->map, 0, m->store->size);
	return m;
}

static int serve(int argc, char **argv)
{
	struct mini *m = start(argc > 3 ? argv[3] : NULL);

	printf("traddr=127.0.0.1 trsvcid=%s subnqn=%s nsid=1\n", m->port, MINI_NQN);
	fflush(stdout);
	sleep((unsigned)atoi(argv[2]));
	mini_stop(m);
	return 0;
}

int main(int argc, char **argv)
{
	const char *crc = getenv("CRC"), *named = getenv("DEVICE");
	struct iwarp_options device;

	iwarp_get_options(&device);
	device.crc = crc && !strcmp(crc, "1");
	iwarp_set_options(&device);
	if (named && !strcmp(named, "roce"))
		mini_device = verbs_roce();
	if (argc > 2 && !strcmp(argv[1], "serve"))
		return serve(argc, argv);
	if (argc < 5) {
		fprintf(stderr, "usage: host_perf read|write BLOCK_SIZE QUEUE_DEPTH SECONDS [QUEUES [FILE]]\n"
				"       host_perf serve SECONDS [FILE]\n");
		return 2;
	}

	struct mini *m = start(argc > 6 ? argv[6] : NULL);
	const uint32_t block = (uint32_t)strtoul(argv[2], NULL, 0);
	const char *said = getenv("REMOTE_KEYS"), *keys = said ? said : "";
	struct verbs plain = *verbs_iwarp();
	const struct host_load_options options = {
		.traddr = "127.0.0.1",
		.trsvcid = m->port,
		.subnqn = MINI_NQN,
		.nsid = 1,
		.queue_depth = (uint16_t)atoi(argv[3]),
		.queues = argc > 5 ? (unsigned)atoi(argv[5]) : 1,
		.cpu = processor(0),
		.keys = !strcmp(keys, "buffer") ? HOST_KEYS_OF_BUFFERS : HOST_KEYS_OF_COMMANDS,
		.verbs = !strcmp(keys, "register") ? &plain : mini_device,
	};
	plain.query_device = without_windows;

	const struct host_load_run run = {
		.random = block < 65536,
		.read_percent = strcmp(argv[1], "write") ? 100 : 0,
		.block_size = block,
		.seconds = atof(argv[4]),
	};
	struct host_load_result r;
	struct host_error error;
	const int ret = host_bench(&options, &run, &r, &error);

	mini_stop(m);
	if (ret) {
		fprintf(stderr, "host_perf: %s\n", error.text);
		return 1;
	}
	printf("%s %u qd %u: %.0f IOPS, %.3f GB/s, mean %.2f p50 %.2f p99 %.2f p99.9 %.2f us, host CPU %.2f\n",
	       argv[1], block, options.queue_depth, (double)r.ios / r.seconds,
	       (double)r.bytes / r.seconds * 1e-9, r.mean_us, r.p50_us, r.p99_us, r.p999_us,
	       r.cpu_seconds / r.seconds);
	return 0;
}
