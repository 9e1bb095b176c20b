/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fio's engine "nvmeof": namespaces of an NVMe-oF target over RDMA, from userspace.
 *
 *   fio --ioengine=external:/path/nvmeof-fio.so --filename='traddr=127.0.0.1 trsvcid=4420
 *       subnqn=nqn.2026-11.io.example\:disk nsid=1' --rw=randread --bs=4k --iodepth=32 ...
 *
 * One controller and one I/O queue for each file of each job, polled together by the job.  fio's own buffers
 * are registered, for every --iomem, and nothing is copied.  See trid.h for the names.
 */
#include "engine.h"
#include "optgroup.h"

static struct fio_option options[] = {
	{
		.name = "traddr",
		.lname = "NVMe-oF target address",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct nvmeof_options, traddr),
		.help = "Address of the target, if the filename does not give one",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "trsvcid",
		.lname = "NVMe-oF target port",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct nvmeof_options, trsvcid),
		.help = "Port of the target, if the filename does not give one (4420)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "subnqn",
		.lname = "NVMe subsystem",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct nvmeof_options, subnqn),
		.help = "NQN of the subsystem, if the filename does not give one",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "hostnqn",
		.lname = "NVMe host",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct nvmeof_options, hostnqn),
		.help = "NQN of this host (that of /etc/nvme/hostnqn, else derived from the machine-id)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "hostid",
		.lname = "NVMe host identifier",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct nvmeof_options, hostid),
		.help = "Identifier of this host, a UUID (that of /etc/nvme/hostid, else derived from the NQN)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "ctrl_loss_tmo",
		.lname = "Controller loss timeout",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct nvmeof_options, ctrl_loss_tmo),
		.minval = -1,
		.maxval = INT_MAX,
		.def = "600",
		.help = "Seconds from the loss of a connection until I/O fails; 0: do not reconnect, -1: no limit",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "reconnect_delay",
		.lname = "Reconnect delay",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct nvmeof_options, reconnect_delay),
		.minval = 1,
		.maxval = 3600,
		.def = "10",
		.help = "Seconds between attempts to reconnect",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "nsid",
		.lname = "NVMe namespace",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct nvmeof_options, nsid),
		.def = "0",
		.help = "Namespace ID, if the filename does not give one (1)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "queue_size",
		.lname = "NVMe queue entries",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct nvmeof_options, queue_size),
		.maxval = 1024,
		.def = "0",
		.help = "Entries of the I/O queue (as many as iodepth needs)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "crc",
		.lname = "MPA CRC",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct nvmeof_options, crc),
		.def = "0",
		.help = "Request CRC32C on every frame of the embedded iWARP device",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "device",
		.lname = "RDMA device",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct nvmeof_options, device),
		.def = "iwarp",
		.help = "RDMA device of the connections",
		.posval = {
			{ .ival = "iwarp", .oval = DEVICE_IWARP, .help = "The embedded iWARP device" },
			{ .ival = "roce", .oval = DEVICE_ROCE, .help = "The embedded RoCEv2 device" },
			{ .ival = "system", .oval = DEVICE_SYSTEM,
			  .help = "The device of libibverbs that routes to the address" },
		},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "remote_keys",
		.lname = "Keys for the target",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct nvmeof_options, remote_keys),
		.def = "command",
		.help = "Memory that the target may access, and for how long",
		.posval = {
			{ .ival = "command", .oval = HOST_KEYS_OF_COMMANDS,
			  .help = "The bytes of each command, until it is complete" },
			{ .ival = "buffer", .oval = HOST_KEYS_OF_BUFFERS,
			  .help = "All I/O buffers, until the job ends" },
		},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "hipri",
		.lname = "Poll for completions",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct nvmeof_options, hipri),
		.def = "1",
		.help = "Poll for completions; 0 sleeps until there is one",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "connect_timeout",
		.lname = "Connect timeout",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct nvmeof_options, timeout_ms),
		.def = "10000",
		.help = "Milliseconds for connecting, and for each command during set-up",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "write_mode",
		.lname = "Command for writes",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct nvmeof_options, write_mode),
		.def = "write",
		.help = "NVMe command for writes",
		.posval = {
			{ .ival = "write", .oval = WRITE_MODE_WRITE, .help = "Write" },
			{ .ival = "zeroes", .oval = WRITE_MODE_ZEROES, .help = "Write Zeroes" },
			{ .ival = "verify", .oval = WRITE_MODE_VERIFY, .help = "Verify" },
		},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "method",
		.lname = "Method of persistence",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct nvmeof_options, method),
		.def = "none",
		.help = "Method that makes a write persistent before it is complete",
		.posval = {
			{ .ival = "none", .oval = METHOD_NONE, .help = "None: see fsync and sync" },
			{ .ival = "nvme-fua", .oval = METHOD_NVME_FUA, .help = "Write with Force Unit Access" },
			{ .ival = "nvme-write-flush", .oval = METHOD_NVME_WRITE_FLUSH, .help = "Write, Flush" },
			{ .ival = "write-read", .oval = METHOD_WRITE_READ,
			  .help = "Remote memory: RDMA WRITE, then RDMA READ" },
			{ .ival = "write-flush", .oval = METHOD_WRITE_FLUSH,
			  .help = "Remote memory: RDMA WRITE, then RDMA FLUSH (device roce)" },
			{ .ival = "write-flush-tail", .oval = METHOD_WRITE_FLUSH_TAIL,
			  .help = "The same, then ATOMIC WRITE of a tail word, and its FLUSH (device roce)" },
			{ .ival = "write-send", .oval = METHOD_WRITE_SEND,
			  .help = "Remote memory: RDMA WRITE, then a request to the target's processor" },
			{ .ival = "floor", .oval = METHOD_FLOOR,
			  .help = "Remote memory: RDMA WRITE, then a message that is answered; not persistent" },
		},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "ignore_assumptions",
		.lname = "Ignore assumptions of the method",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct nvmeof_options, ignore_assumptions),
		.def = "0",
		.help = "Use a method of remote memory even if the target does not confirm its assumptions",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = NULL,
	},
};

/* Set the sizes of all files, in the process that forks the jobs. */
static int nvmeof_setup(struct thread_data *td)
{
	struct fio_file *f;
	unsigned int i;

	for_each_file(td, f, i) {
		struct host_namespace_info info;
		struct trid trid;
		char text[400];

		if (session_trid(td, f, &trid))
			return 1;
		if (size_learn(&trid, td->eo, &info, text, sizeof(text))) {
			log_err("nvmeof: %s%s\n", text, session_split(td, &trid));
			return 1;
		}
		if (td_trim(td) && !info.deallocate) {
			log_err("nvmeof: the target does not support Dataset Management, which trims need\n");
			return 1;
		}
		f->real_file_size = memory_file_size(td->eo, info.blocks * info.block_size);
		f->filetype = FIO_TYPE_BLOCK;
		fio_file_set_size_known(f);
	}
	return 0;
}

static void nvmeof_cleanup(struct thread_data *td)
{
	struct state *s = td->io_ops_data;

	if (memory_chosen(td)) {
		memory_cleanup(td);
		return;
	}
	if (!s)
		return;
	session_close_all(s);
	free(s->sessions);
	free(s->requests);
	free(s->finished);
	free(s->events);
	free(s);
	td->io_ops_data = NULL;
}

/* Connect, in the process or thread of the job. */
static int nvmeof_init(struct thread_data *td)
{
	struct state *s;
	struct fio_file *f;
	unsigned int i;

	if (memory_chosen(td))
		return memory_init(td);
	s = calloc(1, sizeof(*s));
	if (!s)
		return 1;
	td->io_ops_data = s;
	s->td = td;
	s->options = td->eo;
	s->nsessions = td->o.nr_files;
	s->nrequests = td->o.iodepth;
	/* a batch is a quarter of the depth: the target executes one while the next is collected */
	s->flush_at = td->o.iodepth_batch > 1 ? 1 : td->o.iodepth / 4;
	if (s->flush_at > 16)
		s->flush_at = 16;
	s->sessions = calloc(s->nsessions, sizeof(*s->sessions));
	s->requests = calloc(s->nrequests, sizeof(*s->requests));
	s->finished = calloc(s->nrequests, sizeof(*s->finished));
	s->events = calloc(s->nrequests, sizeof(*s->events));
	if (!s->sessions || !s->requests || !s->finished || !s->events)
		return 1;
	for_each_file(td, f, i)
		if (session_open(s, &s->sessions[f->fileno], f))
			return 1;
	return 0;
}

/* Register fio's buffers, once they are allocated. */
static int nvmeof_post_init(struct thread_data *td)
{
	struct state *s = td->io_ops_data;

	if (memory_chosen(td))	/* its data is copied */
		return 0;
	if (!td->orig_buffer)	/* fio continues if it could not allocate them */
		return td->error;
	return session_register(s, td->orig_buffer, td->orig_buffer_size) ? 1 : 0;
}

static int nvmeof_io_u_init(struct thread_data *td, struct io_u *io_u)
{
	struct state *s = td->io_ops_data;
	struct request *r;

	if (memory_chosen(td))
		return 0;
	r = &s->requests[io_u->index];
	r->index = io_u->index;
	io_u->engine_data = r;
	return 0;
}

/* fio frees its buffers after its io_us: no data may move into them after this. */
static void nvmeof_io_u_free(struct thread_data *td, struct io_u *io_u)
{
	struct state *s = td->io_ops_data;

	io_u->engine_data = NULL;
	if (s && !memory_chosen(td))
		session_close_all(s);
}

static int nvmeof_nothing_to_do(struct thread_data *td, struct fio_file *f)
{
	(void)td;
	(void)f;
	return 0;
}

static enum fio_q_status any_queue(struct thread_data *td, struct io_u *io_u)
{
	return memory_chosen(td) ? memory_queue(td, io_u) : nvmeof_queue(td, io_u);
}

static int any_commit(struct thread_data *td)
{
	return memory_chosen(td) ? memory_commit(td) : nvmeof_commit(td);
}

static int any_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *t)
{
	return memory_chosen(td) ? memory_getevents(td, min, max, t) : nvmeof_getevents(td, min, max, t);
}

static struct io_u *any_event(struct thread_data *td, int event)
{
	return memory_chosen(td) ? memory_event(td, event) : nvmeof_event(td, event);
}

struct ioengine_ops ioengine = {
	.name = "nvmeof",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_RAWIO | FIO_MEMALIGN | FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL |
		 FIO_ASYNCIO_SETS_ISSUE_TIME,
	.setup = nvmeof_setup,
	.init = nvmeof_init,
	.post_init = nvmeof_post_init,
	.cleanup = nvmeof_cleanup,
	.queue = any_queue,
	.commit = any_commit,
	.getevents = any_getevents,
	.event = any_event,
	.open_file = nvmeof_nothing_to_do,
	.close_file = nvmeof_nothing_to_do,
	.invalidate = nvmeof_nothing_to_do,
	.get_file_size = nvmeof_nothing_to_do,
	.io_u_init = nvmeof_io_u_init,
	.io_u_free = nvmeof_io_u_free,
	.options = options,
	.option_struct_size = sizeof(struct nvmeof_options),
};
