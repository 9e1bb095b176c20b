/* SPDX-License-Identifier: BSD-3-Clause */
/* The embedded RoCEv2 device's verbs table.  Constant, any thread. */
#include "cm.h"
#include "device.h"
#include "events.h"

static const struct verbs table = {
	.name = "roce",
	.read_sink_is_local = true,
	.train = RO_TRAIN,
	.train_message = RO_MTU_MAX,
	.flushes = true,
	.shows_packets = true,
	.get_device_list = ro_get_device_list,
	.free_device_list = iw_free_device_list,
	.get_device_name = iw_get_device_name,
	.open_device = ro_open_device,
	.close_device = ro_close_device,
	.query_device = ro_query_device,
	.query_port = ro_query_port,
	.query_gid = ro_query_gid,
	.alloc_pd = iw_alloc_pd,
	.dealloc_pd = iw_dealloc_pd,
	.reg_mr = iw_reg_mr,
	.dereg_mr = iw_dereg_mr,
	.create_comp_channel = iw_create_comp_channel,
	.destroy_comp_channel = iw_destroy_comp_channel,
	.create_cq = iw_create_cq,
	.resize_cq = iw_resize_cq,
	.destroy_cq = iw_destroy_cq,
	.create_srq = iw_create_srq,
	.modify_srq = iw_modify_srq,
	.destroy_srq = iw_destroy_srq,
	.get_cq_event = iw_get_cq_event,
	.ack_cq_events = iw_ack_cq_events,
	.query_qp = ro_query_qp,
	.modify_qp = ro_modify_qp,
	.bare_create = ro_bare_create,
	.bare_destroy = ro_bare_destroy,
	.bare_release = ro_bare_release,
	.create_event_channel = iw_create_event_channel,
	.destroy_event_channel = iw_destroy_event_channel,
	.create_id = ro_create_id,
	.destroy_id = ro_destroy_id,
	.set_option = ro_set_option,
	.bind_addr = ro_bind_addr,
	.resolve_addr = ro_resolve_addr,
	.resolve_route = ro_resolve_route,
	.create_qp = ro_create_qp,
	.destroy_qp = ro_destroy_qp,
	.listen = ro_listen,
	.connect = ro_connect,
	.accept = ro_accept,
	.reject = ro_reject,
	.disconnect = ro_disconnect,
	.migrate_id = ro_migrate_id,
	.get_cm_event = iw_get_cm_event,
	.ack_cm_event = iw_ack_cm_event,
	.get_devices = ro_get_devices,
	.free_devices = iw_free_devices,
	.end_reason = roce_qp_end_reason,
	.reads_served = ro_reads_served,
};

const struct verbs *verbs_roce(void)
{
	return &table;
}
