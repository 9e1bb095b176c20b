/* SPDX-License-Identifier: BSD-3-Clause */
/* The device and its context, and their functions (device.c).  Any thread. */
#ifndef NVMF_ROCE_DEVICE_H
#define NVMF_ROCE_DEVICE_H

#include "device_common.h"

extern struct iw_device ro_dev;

struct ibv_device **ro_get_device_list(int *num);
struct ibv_context **ro_get_devices(int *num);
struct ibv_context *ro_open_device(struct ibv_device *device);
int ro_close_device(struct ibv_context *context);
int ro_query_device(struct ibv_context *context, struct ibv_device_attr *attr);

#endif
