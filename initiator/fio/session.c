/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session: one file of one fio job, with its controller and I/O queue; and the hubs that the sessions
 * share.  Runs in the job's own thread or process.
 */
#include "engine.h"

static void session_option(char *to, size_t size, const char *option)
{
	if (option && *option)
		snprintf(to, size, "%s", option);
}

const char *session_split(const struct thread_data *td, const struct trid *trid)
{
	return td->o.nr_files > 1 && !strchr(trid->subnqn, ':') ?
	       " (fio splits file names at ':': write the ':' of an NQN as '\\:')" : "";
}

int session_trid(struct thread_data *td, const struct fio_file *f, struct trid *trid)
{
	const struct nvmeof_options *o = td->eo;
	char err[300];

	memset(trid, 0, sizeof(*trid));
	snprintf(trid->trsvcid, sizeof(trid->trsvcid), "4420");
	session_option(trid->traddr, sizeof(trid->traddr), o->traddr);
	session_option(trid->trsvcid, sizeof(trid->trsvcid), o->trsvcid);
	session_option(trid->subnqn, sizeof(trid->subnqn), o->subnqn);
	session_option(trid->hostnqn, sizeof(trid->hostnqn), o->hostnqn);
	trid->nsid = o->nsid;

	/* with the options, the file name may be anything, such as the name that fio generates */
	const bool by_options = trid->traddr[0] && trid->subnqn[0];

	const bool looks = trid_looks_like(f->file_name);

	if (!by_options || looks) {
		if (trid_parse(trid, f->file_name, err, sizeof(err))) {
			log_err("nvmeof: filename \"%s\": %s%s%s\n", f->file_name, err,
				looks ? "" : "; give --traddr and --subnqn, or --filename",
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
	if (!trid_is_port(trid->trsvcid)) { /* the job's option */
		log_err("nvmeof: trsvcid %s is not a port (1 to 65535)\n", trid->trsvcid);
		return -1;
	}
	if (!trid->nsid)
		trid->nsid = 1;
	return 0;
}

static const struct verbs *session_verbs(const struct nvmeof_options *o, struct host_error *error)
{
	const struct verbs *verbs;

	if (o->device != DEVICE_SYSTEM)
		return o->device == DEVICE_ROCE ? verbs_roce() : verbs_iwarp();
	*error = (struct host_error){ .cm_event = -1 };
	verbs = verbs_system(error->text, sizeof(error->text));
	if (!verbs)
		errno = ENODEV;
	return verbs;
}

/* device NULL: the controller gets a device of its own. */
static struct host_controller *session_connect(const struct trid *trid, const struct nvmeof_options *o,
					       struct host_device *device, struct host_error *error)
{
	struct host_controller_options where = {
		.traddr = trid->traddr,
		.trsvcid = trid->trsvcid,
		.subnqn = trid->subnqn,
		.hostnqn = trid->hostnqn[0] ? trid->hostnqn : NULL,
		.hostid = o->hostid && *o->hostid ? o->hostid : NULL,
		.timeout_ms = o->timeout_ms,
		.device = device,
		.verbs = session_verbs(o, error),
		.keys = o->remote_keys,
	};
	struct iwarp_options iwarp;

	if (!where.verbs)
		return NULL;
	iwarp_get_options(&iwarp);
	if (o->crc && !iwarp.crc) {
		iwarp.crc = true;
		iwarp_set_options(&iwarp);
	}
	return host_controller_connect(&where, error);
}

int session_identify(const struct trid *trid, const struct nvmeof_options *options,
		     struct host_namespace_info *info, char *text, size_t len)
{
	struct host_error error;
	struct host_controller *c;
	int ret;

	if (options->method >= METHOD_WRITE_READ)
		return memory_identify(trid, options, info, text, len);
	c = session_connect(trid, options, NULL, &error);
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

/* The largest command: the limit of the target, in whole blocks, within NLB and a keyed SGL; 0: less than a block. */
static uint32_t session_largest_piece(const struct host_namespace_info *info)
{
	const uint32_t most = 8u << 20;
	const uint32_t limit = info->max_transfer && info->max_transfer < most ? info->max_transfer : most;

	return limit - limit % info->block_size;
}

static uint16_t session_queue_size(const struct state *s, const struct session *session)
{
	const uint64_t pieces = (td_max_bs(s->td) + session->piece - 1) / session->piece;
	uint64_t size = s->options->queue_size ? s->options->queue_size :
			s->td->o.iodepth * (pieces ? pieces : 1) + 1;

	if (size < 2)
		size = 2;
	return size > 1024 ? 1024 : (uint16_t)size;
}

/* ---- hubs ---- */

static void hub_free(struct hub *hub)
{
	host_poll_group_destroy(hub->group);
	host_memory_free(hub->buffers);
	host_memory_free(hub->ranges);
	host_device_put(hub->device);
	free(hub);
}

static struct hub *hub_new(const struct state *s, struct host_error *error)
{
	const struct verbs *verbs = session_verbs(s->options, error);
	struct hub *hub = verbs ? calloc(1, sizeof(*hub)) : NULL;

	if (!hub)
		return NULL;
	hub->device = host_device_get(verbs, s->options->remote_keys, error->text, sizeof(error->text));
	if (hub->device)
		hub->group = host_poll_group_create(hub->device, !s->options->hipri, error->text,
						    sizeof(error->text));
	if (hub->group)
		return hub;
	host_device_put(hub->device);
	free(hub);
	return NULL;
}

/* Connect a controller on the hub whose device routes to it; the hub may be a new one. */
static int session_find_hub(struct state *s, struct session *session, struct host_error *error)
{
	struct hub **at = &s->hubs;

	for (;; at = &(*at)->next) {
		const bool made = !*at;

		if (made && !(*at = hub_new(s, error)))
			return -1;
		session->hub = *at;
		session->controller = session_connect(&session->trid, s->options, (*at)->device, error);
		if (session->controller)
			return 0;
		if (made) {
			hub_free(*at);
			*at = NULL;
		}
		if (made || errno != EXDEV)
			return -1;
	}
}

/* Identify the namespace, and connect the I/O queue. */
static int session_queue(struct state *s, struct session *session, struct host_error *error)
{
	if (host_controller_namespace(session->controller, session->trid.nsid, &session->info, error))
		return -1;
	session->piece = session_largest_piece(&session->info);
	if (!session->piece) {
		snprintf(error->text, sizeof(error->text),
			 "namespace %u of %s cannot be read or written: its blocks have %u bytes, and a command of its "
			 "controller transfers at most %u (MDTS)", session->trid.nsid, session->trid.subnqn,
			 session->info.block_size, session->info.max_transfer);
		return -1;
	}
	session->queue = host_controller_queue(session->controller, session_queue_size(s, session),
					       session->hub->group, false, error);
	if (!session->queue)
		return -1;
	session->state = SESSION_LIVE;
	session->connected = clock_ns();
	return 0;
}

int session_open(struct state *s, struct session *session, const struct fio_file *f)
{
	struct host_error error = { .cm_event = -1 };
	struct hub *hub;

	if (session_trid(s->td, f, &session->trid))
		return -1;
	if (session_find_hub(s, session, &error) || session_queue(s, session, &error))
		goto fail;
	hub = session->hub;
	if (!hub->ranges)
		hub->ranges = host_memory_alloc(hub->device, 16ul * s->nrequests, error.text,
						sizeof(error.text));
	if (hub->ranges)
		return 0;
fail:
	log_err("nvmeof: %s\n", error.text);
	return -1;
}

static void session_close(struct session *session)
{
	host_queue_destroy(session->queue);
	session->queue = NULL;
	host_controller_destroy(session->controller);
	session->controller = NULL;
}

int session_reopen(struct state *s, struct session *session, struct host_error *error)
{
	const struct host_namespace_info before = session->info;

	session_close(session);
	session->controller = session_connect(&session->trid, s->options, session->hub->device, error);
	if (!session->controller)
		return -1;
	if (session_queue(s, session, error)) {
		session->info = before;
		return -1;
	}
	if (session->info.block_size == before.block_size && session->info.blocks >= before.blocks &&
	    !memcmp(session->info.ids, before.ids, sizeof(before.ids)))
		return 0;
	snprintf(error->text, sizeof(error->text),
		 "namespace %u of %s was replaced since the job began: its size, block size or "
		 "identifier is different", session->trid.nsid, session->trid.subnqn);
	return -2;
}

int session_register(struct state *s, void *addr, size_t length)
{
	char err[256];

	for (struct hub *hub = s->hubs; hub; hub = hub->next) {
		hub->buffers = host_memory_register(hub->device, addr, length, err, sizeof(err));
		if (!hub->buffers) {
			log_err("nvmeof: %s\n", err);
			return -1;
		}
	}
	return 0;
}

void session_close_all(struct state *s)
{
	struct hub *hub;

	for (unsigned i = 0; s->sessions && i < s->nsessions; i++)
		session_close(&s->sessions[i]);
	while ((hub = s->hubs)) {
		s->hubs = hub->next;
		hub_free(hub);
	}
}
