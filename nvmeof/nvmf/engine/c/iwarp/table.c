/* SPDX-License-Identifier: BSD-3-Clause */
/* The embedded device's verbs table.  Constant, any thread. */
#include "cm.h"
#include "device.h"

static const struct verbs table = {
	.name = "iwarp",
	.read_sink_is_local = true,
	.sends_complete_inline = true,
	.send_stable = IW_SEND_STABLE,
	.places_persistently = true,
	.get_device_list = iw_get_device_list,
	.free_device_list = iw_free_device_list,
	.get_device_name = iw_get_device_name,
	.open_device = iw_open_device,
	.close_device = iw_close_device,
	.query_device = iw_query_device,
	.query_port = iw_query_port,
	.query_gid = iw_query_gid,
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
	.query_qp = iw_query_qp,
	.modify_qp = iw_modify_qp,
	.create_event_channel = iw_create_event_channel,
	.destroy_event_channel = iw_destroy_event_channel,
	.create_id = iw_create_id,
	.destroy_id = iw_destroy_id,
	.set_option = iw_set_option,
	.bind_addr = iw_bind_addr,
	.resolve_addr = iw_resolve_addr,
	.resolve_route = iw_resolve_route,
	.create_qp = iw_create_qp,
	.destroy_qp = iw_destroy_qp,
	.listen = iw_listen,
	.connect = iw_connect,
	.accept = iw_accept,
	.reject = iw_reject,
	.disconnect = iw_disconnect,
	.get_cm_event = iw_get_cm_event,
	.ack_cm_event = iw_ack_cm_event,
	.get_devices = iw_get_devices,
	.free_devices = iw_free_devices,
	.end_reason = iwarp_qp_end_reason,
	.reads_served = iwarp_qp_reads_served,
	.bytes = iwarp_qp_bytes,
};

const struct verbs *verbs_iwarp(void)
{
	return &table;
}
