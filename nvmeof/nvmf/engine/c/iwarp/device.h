/* SPDX-License-Identifier: BSD-3-Clause */
/* The device and its context, and their functions (device.c).  Any thread. */
#ifndef NVMF_IWARP_DEVICE_H
#define NVMF_IWARP_DEVICE_H

#include "device_common.h"
#include "qp.h"

extern struct iw_device iw_dev;

struct ibv_device **iw_get_device_list(int *num);
struct ibv_context **iw_get_devices(int *num);
struct ibv_context *iw_open_device(struct ibv_device *device);
int iw_close_device(struct ibv_context *context);
int iw_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int iw_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);

int iw_tune_socket(int fd);		/* set TCP options for the data path */

#endif
