/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs table of the libraries' devices.  Owns the two library handles and the table, created once by the first
 * thread that asks, and kept for the lifetime of the process.
 */
#include "contexts.h"
#include "messages.h"
#include "siw.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct verbs table = {
	.name = "system",
	.pins_memory = true,
	/* InfiniBand and RoCE do not need the destination's remote access right, iWARP adapters do */
	.read_sink_is_local = false,
	.sends_complete_inline = false,
	.send_stable = 0,
};
static char reason[512];
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Functions that are macros over others in <infiniband/verbs.h>, or that need additional work. */
static struct ibv_mr *(*real_reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
static struct ibv_mr *(*real_reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length,
					   uint64_t iova, unsigned int access);
static int (*real_query_port)(struct ibv_context *context, uint8_t port,
			      struct _compat_ibv_port_attr *attr);

static struct ibv_pd *(*real_alloc_pd)(struct ibv_context *context);
static int (*real_dealloc_pd)(struct ibv_pd *pd);

/* A protection domain is created before all other objects on a context, and destroyed after them. */
static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	siw_guard(&table, context);
	pd = real_alloc_pd(context);
	if (!pd) {
		int saved = errno;

		siw_unguard(&table, context);
		errno = saved;
		return NULL;
	}
	contexts_tie(pd, context);
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	struct ibv_context *context = pd->context;
	struct context_use *use = contexts_untie(pd);
	int rc = real_dealloc_pd(pd);

	if (!rc)
		siw_unguard(&table, context);
	else
		contexts_tie(pd, context);
	contexts_untied(use);
	return rc;
}

/* The functions that bind an id to a context and release it. */
static int (*real_bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
static int (*real_listen)(struct rdma_cm_id *id, int backlog);
static int (*real_get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
static int (*real_destroy_id)(struct rdma_cm_id *id);

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int rc = real_bind_addr(id, addr);

	contexts_tie(id, id->verbs);
	return rc;
}

static int listen_on(struct rdma_cm_id *id, int backlog)
{
	int rc = real_listen(id, backlog);

	contexts_tie(id, id->verbs);
	return rc;
}

static int get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	if (real_get_cm_event(channel, event))
		return -1;
	messages_event(*event);
	switch ((*event)->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		contexts_tie((*event)->id, (*event)->id->verbs);
		break;
	default:	/* it does not change, and may be about to be destroyed by a different thread */
		break;
	}
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	struct context_use *use = contexts_untie(id);
	int rc = real_destroy_id(id), saved = errno;

	if (rc)
		contexts_tie(id, id->verbs);
	contexts_untied(use);
	errno = saved;
	return rc;
}

/* The functions whose messages captures have, in the order of the messages: before the peer can answer. */
static struct rdma_event_channel *(*real_create_event_channel)(void);
static int (*real_connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
static int (*real_accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
static int (*real_reject)(struct rdma_cm_id *id, const void *private_data, uint8_t len);
static int (*real_disconnect)(struct rdma_cm_id *id);

static struct rdma_event_channel *create_event_channel(void)
{
	capture_from_environment();
	return real_create_event_channel();
}

static int connect_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	messages_sent(id, CAPTURE_REQUEST, param->private_data, param->private_data_len);
	return real_connect(id, param);
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	messages_sent(id, CAPTURE_REPLY, param->private_data, param->private_data_len);
	return real_accept(id, param);
}

static int reject_id(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
	messages_sent(id, CAPTURE_REJECT, private_data, len);
	return real_reject(id, private_data, len);
}

static int disconnect_id(struct rdma_cm_id *id)
{
	messages_closed(id);
	return real_disconnect(id);
}

/* Flags of the optional range require the newer function, which drops those that the kernel lacks. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!(access & IBV_ACCESS_OPTIONAL_RANGE))
		return real_reg_mr(pd, addr, length, access);
	if (!real_reg_mr_iova2)
		return real_reg_mr(pd, addr, length, access & ~IBV_ACCESS_OPTIONAL_RANGE);
	return real_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

/* The library's own symbol fills only the old struct; providers fill all fields of the present one. */
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

	memset(attr, 0, sizeof(*attr));
	if (vctx)
		return vctx->query_port(context, port, attr, sizeof(*attr));
	return real_query_port(context, port, (struct _compat_ibv_port_attr *)attr);
}

/*
 * Whether a context has all of these flags of the kernel.  Asks the provider: the inline function of the header falls
 * back to a symbol of the library.
 */
static bool has_flags(struct ibv_context *context, uint64_t flags)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_device_ex);
	struct ibv_device_attr_ex attr = { 0 };

	return vctx && !vctx->query_device_ex(context, NULL, &attr, sizeof(attr)) &&
	       (attr.device_cap_flags_ex & flags) == flags;
}

static bool serves_flush(struct ibv_context *context)
{
	/* the kernel's IB_DEVICE_FLUSH_GLOBAL and _PERSISTENT; the headers of older rdma-cores have no names */
	return has_flags(context, 1ull << 38 | 1ull << 39);
}

static bool serves_atomic_write(struct ibv_context *context)
{
	return has_flags(context, 1ull << 40);	/* IB_DEVICE_ATOMIC_WRITE */
}

struct symbol {
	const char *name;
	void *to;		/* a function pointer, filled byte-wise: ISO C has no cast for it */
};

static const struct symbol ibverbs[] = {
	{ "ibv_get_device_list", &table.get_device_list },
	{ "ibv_free_device_list", &table.free_device_list },
	{ "ibv_get_device_name", &table.get_device_name },
	{ "ibv_open_device", &table.open_device },
	{ "ibv_close_device", &table.close_device },
	{ "ibv_query_device", &table.query_device },
	{ "ibv_query_port", &real_query_port },
	{ "ibv_query_gid", &table.query_gid },
	{ "ibv_alloc_pd", &real_alloc_pd },
	{ "ibv_dealloc_pd", &real_dealloc_pd },
	{ "ibv_reg_mr", &real_reg_mr },
	{ "ibv_dereg_mr", &table.dereg_mr },
	{ "ibv_create_comp_channel", &table.create_comp_channel },
	{ "ibv_destroy_comp_channel", &table.destroy_comp_channel },
	{ "ibv_create_cq", &table.create_cq },
	{ "ibv_resize_cq", &table.resize_cq },
	{ "ibv_destroy_cq", &table.destroy_cq },
	{ "ibv_create_srq", &table.create_srq },
	{ "ibv_modify_srq", &table.modify_srq },
	{ "ibv_destroy_srq", &table.destroy_srq },
	{ "ibv_get_cq_event", &table.get_cq_event },
	{ "ibv_ack_cq_events", &table.ack_cq_events },
	{ "ibv_query_qp", &table.query_qp },
	{ "ibv_modify_qp", &table.modify_qp },
	{ NULL, NULL },
};

static const struct symbol rdmacm[] = {
	{ "rdma_create_event_channel", &real_create_event_channel },
	{ "rdma_destroy_event_channel", &table.destroy_event_channel },
	{ "rdma_create_id", &table.create_id },
	{ "rdma_destroy_id", &real_destroy_id },
	{ "rdma_set_option", &table.set_option },
	{ "rdma_bind_addr", &real_bind_addr },
	{ "rdma_resolve_addr", &table.resolve_addr },
	{ "rdma_resolve_route", &table.resolve_route },
	{ "rdma_create_qp", &table.create_qp },
	{ "rdma_destroy_qp", &table.destroy_qp },
	{ "rdma_listen", &real_listen },
	{ "rdma_connect", &real_connect },
	{ "rdma_accept", &real_accept },
	{ "rdma_reject", &real_reject },
	{ "rdma_disconnect", &real_disconnect },
	{ "rdma_get_cm_event", &real_get_cm_event },
	{ "rdma_ack_cm_event", &table.ack_cm_event },
	{ "rdma_get_devices", &table.get_devices },
	{ "rdma_free_devices", &table.free_devices },
	{ NULL, NULL },
};

static void *system_load(const char *library, const struct symbol *symbols)
{
	void *handle = dlopen(library, RTLD_NOW);

	if (!handle) {
		snprintf(reason, sizeof(reason), "cannot load %s: %s", library, dlerror());
		return NULL;
	}
	for (; symbols->name; symbols++) {
		void *f = dlsym(handle, symbols->name);

		if (!f) {
			snprintf(reason, sizeof(reason), "%s has no %s: %s", library, symbols->name,
				 dlerror());
			dlclose(handle);
			return NULL;
		}
		memcpy(symbols->to, &f, sizeof(f));
	}
	return handle;
}

static void system_fill(void)
{
	void *handle = system_load("libibverbs.so.1", ibverbs), *f;

	if (!handle || !system_load("librdmacm.so.1", rdmacm))
		return;
	f = dlsym(handle, "ibv_reg_mr_iova2");	/* rdma-core 28 and later */
	memcpy(&real_reg_mr_iova2, &f, sizeof(f));
	table.alloc_pd = alloc_pd;
	table.dealloc_pd = dealloc_pd;
	table.reg_mr = reg_mr;
	table.query_port = query_port;
	table.serves_flush = serves_flush;
	table.serves_atomic_write = serves_atomic_write;
	table.bind_addr = bind_addr;
	table.listen = listen_on;
	table.get_cm_event = get_cm_event;
	table.destroy_id = destroy_id;
	table.create_event_channel = create_event_channel;
	table.connect = connect_id;
	table.accept = accept_id;
	table.reject = reject_id;
	table.disconnect = disconnect_id;
	table.drop_unused = contexts_sweep;
	usable = true;
}

const struct verbs *verbs_system(char *why, size_t len)
{
	pthread_once(&once, system_fill);
	if (why && len)
		snprintf(why, len, "%s", usable ? "" : reason);
	return usable ? &table : NULL;
}
