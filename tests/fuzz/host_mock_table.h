/* SPDX-License-Identifier: BSD-3-Clause */
/* The rest of the verbs table of host_mock.h: creation and destruction of objects. */
#ifndef FUZZ_HOST_MOCK_TABLE_H
#define FUZZ_HOST_MOCK_TABLE_H

static const char *mock_device_name(struct ibv_device *device)
{
	(void)device;
	return "mock";
}

static int mock_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	(void)c;
	*attr = (struct ibv_device_attr){ .max_qp_wr = RING / 2, .max_cqe = RING, .max_qp_rd_atom = 4 };
	if (mock.windows) {
		attr->max_mw = MWS;
		attr->device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	}
	return 0;
}

static int mock_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	(void)channel;
	(void)cq;
	(void)context;
	errno = EAGAIN;
	return -1;
}

static void mock_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void)cq;
	(void)count;
}

static struct ibv_cq *mock_create_cq(struct ibv_context *c, int cqe, void *cq_context,
				     struct ibv_comp_channel *channel, int vector)
{
	struct mock_cq *made = mock_new(sizeof(*made));

	(void)vector;
	made->cq = (struct ibv_cq){ .context = c, .channel = channel, .cq_context = cq_context,
				    .cqe = cqe };
	return &made->cq;
}

static int mock_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return ENOSYS;
}

static int mock_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	if (init->cap.max_inline_data > mock.inline_most) {
		errno = EINVAL;
		return -1;
	}
	mock.qp = mock_new(sizeof(*mock.qp));
	mock.qp->qp = (struct ibv_qp){ .context = &mock.context, .pd = pd };
	mock.qp->init = *init;
	mock.qp->id = id;
	((struct mock_cq *)init->send_cq)->qp = mock.qp;
	id->qp = &mock.qp->qp;
	return 0;
}

static void mock_destroy_qp(struct rdma_cm_id *id)
{
	struct mock_qp *qp = (struct mock_qp *)id->qp;

	((struct mock_cq *)qp->init.send_cq)->qp = NULL;
	if (mock.qp == qp)
		mock.qp = NULL;
	mock_free(qp);
	id->qp = NULL;
}

static struct rdma_event_channel *mock_event_channel(void)
{
	struct mock_channel *made = mock_new(sizeof(*made));

	made->channel.fd = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
	return &made->channel;
}

static void mock_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	while (!mock_get_cm_event(channel, &event))
		mock_ack_cm_event(event);
	close(channel->fd);
	mock_free(channel);
}

static int mock_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	struct rdma_cm_id *made = mock_new(sizeof(*made));

	mock.device.transport_type = IBV_TRANSPORT_IWARP;
	mock.context.device = &mock.device;
	mock.context.ops.post_send = mock_post_send;
	mock.context.ops.post_recv = mock_post_recv;
	mock.context.ops.poll_cq = mock_poll_cq;
	mock.context.ops.req_notify_cq = mock_notify;
	mock.context.ops.alloc_mw = mock_alloc_mw;
	mock.context.ops.dealloc_mw = mock_dealloc_mw;
	made->verbs = &mock.context;
	made->channel = channel;
	made->context = context;
	made->ps = ps;
	*id = made;
	return 0;
}

static int mock_destroy_id(struct rdma_cm_id *id)
{
	REQUIRE(!id->qp);
	return mock_free(id);
}

static int mock_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source,
			     struct sockaddr *address, int timeout_ms)
{
	(void)source;
	(void)address;
	(void)timeout_ms;
	mock.step(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return 0;
}

static int mock_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	mock.step(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return 0;
}

static int mock_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	REQUIRE(param->private_data_len == sizeof(struct nvme_rdma_cm_req));
	mock.step(id, RDMA_CM_EVENT_ESTABLISHED);
	return 0;
}

static int mock_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	REQUIRE(attr->qp_state == IBV_QPS_ERR && mask == IBV_QP_STATE);
	mock_fail((struct mock_qp *)qp);
	return 0;
}

static int mock_disconnect(struct rdma_cm_id *id)
{
	if (id->qp)
		mock_fail((struct mock_qp *)id->qp);
	return 0;
}

static const struct verbs mock_verbs = {
	.name = "mock",
	.get_device_name = mock_device_name,
	.query_device = mock_query_device,
	.alloc_pd = mock_alloc_pd,
	.dealloc_pd = mock_dealloc_pd,
	.reg_mr = mock_reg_mr,
	.dereg_mr = mock_dereg_mr,
	.create_comp_channel = mock_comp_channel,
	.destroy_comp_channel = mock_destroy_comp_channel,
	.create_cq = mock_create_cq,
	.resize_cq = mock_resize_cq,
	.destroy_cq = mock_destroy_cq,
	.get_cq_event = mock_get_cq_event,
	.ack_cq_events = mock_ack_cq_events,
	.create_event_channel = mock_event_channel,
	.destroy_event_channel = mock_destroy_event_channel,
	.create_id = mock_create_id,
	.destroy_id = mock_destroy_id,
	.resolve_addr = mock_resolve_addr,
	.resolve_route = mock_resolve_route,
	.modify_qp = mock_modify_qp,
	.create_qp = mock_create_qp,
	.destroy_qp = mock_destroy_qp,
	.connect = mock_connect,
	.disconnect = mock_disconnect,
	.get_cm_event = mock_get_cm_event,
	.ack_cm_event = mock_ack_cm_event,
};

static void mock_nothing_left(void)
{
	REQUIRE(!mock_objects.count && !mock.qp);
}

#endif
