/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session: one file of one fio job, with its controller, I/O queue and registered memory.  Runs in
 * the job's own thread or process.
 */
#include "engine.h"

static void take_option(char *to, size_t size, const char *option)
{
	if (option && *option)
		snprintf(to, size, "%s", option);
}

const char *session_split(const struct thread_data *td, const struct trid *trid)
{
	return td->o.nr_files > 1 && !strchr(trid->subnqn, ':') ?
	       " (fio splits file names at ':', write the ':' of an NQN as '\\:')" : "";
}

int session_trid(struct thread_data *td, const struct fio_file *f, struct trid *trid)
{
	const struct nvmeof_options *o = td->eo;
	char err[300];

	memset(trid, 0, sizeof(*trid));
	snprintf(trid->trsvcid, sizeof(trid->trsvcid), "4420");
	take_option(trid->traddr, sizeof(trid->traddr), o->traddr);
	take_option(trid->trsvcid, sizeof(trid->trsvcid), o->trsvcid);
	take_option(trid->subnqn, sizeof(trid->subnqn), o->subnqn);
	take_option(trid->hostnqn, sizeof(trid->hostnqn), o->hostnqn);
	trid->nsid = o->nsid;

	/* with the options, the file name may be anything, such as the one fio makes up */
	const bool by_options = trid->traddr[0] && trid->subnqn[0];

	if (!by_options || trid_looks_like(f->file_name)) {
		if (trid_parse(trid, f->file_name, err, sizeof(err))) {
			log_err("nvmeof: filename \"%s\": %s%s\n", f->file_name, err,
				session_split(td, trid));
			return -1;
		}
	}
	if (!trid->traddr[0] || !trid->subnqn[0]) {
		log_err("nvmeof: filename \"%s\" has no %s: write \"traddr=ADDRESS trsvcid=4420 "
			"subnqn=NQN nsid=1\" with the ':' of the NQN as '\\:'\n",
			f->file_name, trid->traddr[0] ? "subnqn" : "traddr");
		return -1;
	}
	if (!trid->nsid)
		trid->nsid = 1;
	return 0;
}

static struct host_controller *connect_controller(const struct trid *trid,
						  const struct nvmeof_options *o,
						  struct host_error *error)
{
	struct host_controller_options where = {
		.traddr = trid->traddr,
		.trsvcid = trid->trsvcid,
		.subnqn = trid->subnqn,
		.hostnqn = trid->hostnqn[0] ? trid->hostnqn : NULL,
		.timeout_ms = o->timeout_ms,
	};
	struct iwarp_options device;

	if (o->device == DEVICE_SYSTEM) {
		*error = (struct host_error){ .cm_event = -1 };
		where.verbs = verbs_system(error->text, sizeof(error->text));
		if (!where.verbs) {
			errno = ENODEV;
			return NULL;
		}
	}
	iwarp_get_options(&device);
	if (o->crc && !device.crc) {
		device.crc = true;
		iwarp_set_options(&device);
	}
	return host_controller_connect(&where, error);
}

int session_identify(const struct trid *trid, const struct nvmeof_options *options,
		     struct host_namespace_info *info, char *text, size_t len)
{
	struct host_error error;
	struct host_controller *c = connect_controller(trid, options, &error);
	int ret;

	if (c) {
		ret = host_controller_namespace(c, trid->nsid, info, &error);
		host_controller_destroy(c);
	} else {
		ret = -errno;
	}
	if (ret)
		snprintf(text, len, "%s", error.text);
	return ret;
}

/* The largest command: what the target takes, in whole blocks, within NLB and a keyed SGL. */
static uint32_t largest_piece(const struct host_namespace_info *info)
{
	const uint32_t most = 8u << 20;

	return info->max_transfer && info->max_transfer < most ? info->max_transfer : most;
}

static uint16_t queue_size(const struct state *s, const struct session *session)
{
	const uint64_t pieces = (td_max_bs(s->td) + session->piece - 1) / session->piece;
	uint64_t size = s->options->queue_size ? s->options->queue_size :
			s->td->o.iodepth * (pieces ? pieces : 1) + 1;

	if (size < 2)
		size = 2;
	return size > 1024 ? 1024 : (uint16_t)size;
}

int session_open(struct state *s, struct session *session, const struct fio_file *f)
{
	struct host_error error;

	if (session_trid(s->td, f, &session->trid))
		return -1;
	session->controller = connect_controller(&session->trid, s->options, &error);
	if (!session->controller)
		goto fail;
	if (host_controller_namespace(session->controller, session->trid.nsid, &session->info, &error))
		goto fail;
	session->piece = largest_piece(&session->info);
	session->queue = host_controller_queue(session->controller, queue_size(s, session),
					       !s->options->hipri, &error);
	if (!session->queue)
		goto fail;
	session->ranges = host_memory_alloc(host_controller_device(session->controller),
					    16ul * s->nrequests, error.text, sizeof(error.text));
	if (!session->ranges)
		goto fail;
	return 0;
fail:
	log_err("nvmeof: %s\n", error.text);
	return -1;
}

void session_close(struct session *session)
{
	host_queue_destroy(session->queue);
	session->queue = NULL;
	host_memory_free(session->buffers);
	session->buffers = NULL;
	host_memory_free(session->ranges);
	session->ranges = NULL;
	host_controller_destroy(session->controller);
	session->controller = NULL;
}
