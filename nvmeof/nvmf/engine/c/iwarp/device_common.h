/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of the embedded devices: lists of one, a port that is up, and an identifier. */
#ifndef NVMF_IWARP_DEVICE_COMMON_H
#define NVMF_IWARP_DEVICE_COMMON_H

#include "verbs.h"

/*
 * A device and its context: one of each kind, static, for the whole process.  The context is an extended one, as
 * programs compiled against libibverbs expect; libnvmf-verbs adds its functions to those of the device.
 */
struct iw_device {
	struct ibv_device device;
	struct verbs_context ext;
};

/* ---- verbs of both devices; any thread ---- */

void iw_free_device_list(struct ibv_device **list);
const char *iw_get_device_name(struct ibv_device *device);
void iw_free_devices(struct ibv_context **list);
int iw_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);

/* ---- for the devices ---- */

struct ibv_device **iw_device_list(struct iw_device *dev, int *num);
struct ibv_context **iw_context_list(struct iw_device *dev, int *num);
struct ibv_context *iw_device_open(struct iw_device *dev, const struct ibv_device *device);
int iw_device_close(const struct iw_device *dev, const struct ibv_context *context);
/* The attributes that do not depend on the protocol, and the GID.  seed: of the GUID, different for each device. */
void iw_device_attributes(uint64_t seed, struct ibv_device_attr *attr);
int iw_device_gid(uint64_t seed, uint8_t port, int index, union ibv_gid *gid);

#endif
