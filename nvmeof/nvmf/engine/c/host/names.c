/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names for error messages: CM events, rejects of the NVMe-oF RDMA transport, work completion and NVMe statuses.
 * Tables without state, for any thread.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

const char *host_cm_event_name(int event)
{
	static const char *const names[] = {
		[RDMA_CM_EVENT_ADDR_RESOLVED] = "ADDR_RESOLVED",
		[RDMA_CM_EVENT_ADDR_ERROR] = "ADDR_ERROR",
		[RDMA_CM_EVENT_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
		[RDMA_CM_EVENT_ROUTE_ERROR] = "ROUTE_ERROR",
		[RDMA_CM_EVENT_CONNECT_REQUEST] = "CONNECT_REQUEST",
		[RDMA_CM_EVENT_CONNECT_RESPONSE] = "CONNECT_RESPONSE",
		[RDMA_CM_EVENT_CONNECT_ERROR] = "CONNECT_ERROR",
		[RDMA_CM_EVENT_UNREACHABLE] = "UNREACHABLE",
		[RDMA_CM_EVENT_REJECTED] = "REJECTED",
		[RDMA_CM_EVENT_ESTABLISHED] = "ESTABLISHED",
		[RDMA_CM_EVENT_DISCONNECTED] = "DISCONNECTED",
		[RDMA_CM_EVENT_DEVICE_REMOVAL] = "DEVICE_REMOVAL",
		[RDMA_CM_EVENT_ADDR_CHANGE] = "ADDR_CHANGE",
		[RDMA_CM_EVENT_TIMEWAIT_EXIT] = "TIMEWAIT_EXIT",
	};

	if (event < 0 || (size_t)event >= COUNT(names) || !names[event])
		return "unknown CM event";
	return names[event];
}

/* InfiniBand Architecture Specification, volume 1, 12.6.7.2; the device reports them as positive numbers. */
const char *host_cm_reason_name(int reason)
{
	static const char *const names[] = {
		[1] = "no queue pair available",
		[3] = "no resources available",
		[4] = "timeout",
		[5] = "unsupported request",
		[6] = "invalid communication ID",
		[7] = "invalid communication instance",
		[HOST_CM_NO_SERVICE] = "invalid service ID",
		[9] = "invalid transport service type",
		[10] = "stale connection",
		[12] = "primary remote GID rejected",
		[16] = "primary hop limit rejected",
		[17] = "primary packet rate rejected",
		[24] = "redirected to a different port and connection manager",
		[25] = "redirected to a different port",
		[26] = "invalid path MTU",
		[27] = "insufficient responder resources",
		[28] = "consumer reject",
		[29] = "RNR retry count rejected",
		[30] = "duplicate communication ID",
		[31] = "invalid class version",
	};

	return reason > 0 && (size_t)reason < COUNT(names) && names[reason] ? names[reason] : "unknown reason";
}

/* RDMA Transport 1.0, figure 7. */
static const struct {
	const char *name, *hint;
} rejects[] = {
	[1] = { "Invalid Private Data Length", "the peer expects a different format of the CM request" },
	[2] = { "Invalid RECFMT", "the peer requires a different format of the CM request" },
	[3] = { "Invalid QID", "the target does not accept a queue with that number" },
	[4] = { "Invalid HSQSIZE", "request a smaller queue" },
	[5] = { "Invalid HRQSIZE", "request a smaller queue" },
	[6] = { "No Resources", "the target has no resources for a further queue: use fewer or smaller queues" },
	[7] = { "Invalid IRD", "the target requires that RDMA READs are allowed" },
	[8] = { "Invalid ORD", "the two ends cannot agree on the number of outstanding RDMA READs" },
};

const char *host_reject_name(int sts)
{
	return sts > 0 && (size_t)sts < COUNT(rejects) ? rejects[sts].name : "unknown status";
}

const char *host_reject_hint(int sts)
{
	return sts > 0 && (size_t)sts < COUNT(rejects) ? rejects[sts].hint : "see the target's log";
}

struct status_name {
	uint16_t status;
	const char *name;
};

/* Base 2.0 figures 102 to 106, NVM Command Set 1.0 figures 15 and 16. */
static const struct status_name statuses[] = {
	{ 0x000, "Successful Completion" },
	{ 0x001, "Invalid Command Opcode" },
	{ 0x002, "Invalid Field in Command" },
	{ 0x003, "Command ID Conflict" },
	{ 0x004, "Data Transfer Error" },
	{ 0x005, "Commands Aborted due to Power Loss Notification" },
	{ 0x006, "Internal Error" },
	{ 0x007, "Command Abort Requested" },
	{ 0x008, "Command Aborted due to SQ Deletion" },
	{ 0x009, "Command Aborted due to Failed Fused Command" },
	{ 0x00a, "Command Aborted due to Missing Fused Command" },
	{ 0x00b, "Invalid Namespace or Format" },
	{ 0x00c, "Command Sequence Error" },
	{ 0x00d, "Invalid SGL Segment Descriptor" },
	{ 0x00e, "Invalid Number of SGL Descriptors" },
	{ 0x00f, "Data SGL Length Invalid" },
	{ 0x010, "Metadata SGL Length Invalid" },
	{ 0x011, "SGL Descriptor Type Invalid" },
	{ 0x012, "Invalid Use of Controller Memory Buffer" },
	{ 0x013, "PRP Offset Invalid" },
	{ 0x014, "Atomic Write Unit Exceeded" },
	{ 0x015, "Operation Denied" },
	{ 0x016, "SGL Offset Invalid" },
	{ 0x018, "Host Identifier Inconsistent Format" },
	{ 0x019, "Keep Alive Timer Expired" },
	{ 0x01a, "Keep Alive Timeout Invalid" },
	{ 0x01b, "Command Aborted due to Preempt and Abort" },
	{ 0x01c, "Sanitize Failed" },
	{ 0x01d, "Sanitize In Progress" },
	{ 0x01e, "SGL Data Block Granularity Invalid" },
	{ 0x01f, "Command Not Supported for Queue in CMB" },
	{ 0x020, "Namespace is Write Protected" },
	{ 0x021, "Command Interrupted" },
	{ 0x022, "Transient Transport Error" },
	{ 0x024, "Admin Command Media Not Ready" },
	{ 0x080, "LBA Out of Range" },
	{ 0x081, "Capacity Exceeded" },
	{ 0x082, "Namespace Not Ready" },
	{ 0x083, "Reservation Conflict" },
	{ 0x084, "Format In Progress" },
	{ 0x100, "Completion Queue Invalid" },
	{ 0x101, "Invalid Queue Identifier" },
	{ 0x102, "Invalid Queue Size" },
	{ 0x103, "Abort Command Limit Exceeded" },
	{ 0x105, "Asynchronous Event Request Limit Exceeded" },
	{ 0x109, "Invalid Log Page" },
	{ 0x10a, "Invalid Format" },
	{ 0x10d, "Feature Identifier Not Saveable" },
	{ 0x10e, "Feature Not Changeable" },
	{ 0x10f, "Feature Not Namespace Specific" },
	{ 0x180, "Conflicting Attributes" },
	{ 0x181, "Invalid Protection Information" },
	{ 0x182, "Attempted Write to Read Only Range" },
	{ 0x183, "Command Size Limit Exceeded" },
	{ 0x280, "Write Fault" },
	{ 0x281, "Unrecovered Read Error" },
	{ 0x282, "End-to-end Guard Check Error" },
	{ 0x283, "End-to-end Application Tag Check Error" },
	{ 0x284, "End-to-end Reference Tag Check Error" },
	{ 0x285, "Compare Failure" },
	{ 0x286, "Access Denied" },
	{ 0x287, "Deallocated or Unwritten Logical Block" },
	{ 0x300, "Internal Path Error" },
	{ 0x301, "Asymmetric Access Persistent Loss" },
	{ 0x302, "Asymmetric Access Inaccessible" },
	{ 0x303, "Asymmetric Access Transition" },
	{ 0x360, "Controller Pathing Error" },
	{ 0x370, "Host Pathing Error" },
	{ 0x371, "Command Aborted By Host" },
};

/* Command specific statuses of fabrics commands (Base 2.0 figure 104). */
static const struct status_name fabrics_statuses[] = {
	{ 0x180, "Connect Incompatible Format" },
	{ 0x181, "Connect Controller Busy" },
	{ 0x182, "Connect Invalid Parameters" },
	{ 0x183, "Connect Restart Discovery" },
	{ 0x184, "Connect Invalid Host" },
	{ 0x185, "Invalid Queue Type" },
	{ 0x190, "Discover Restart" },
	{ 0x191, "Authentication Required" },
};

static const char *names_find(const struct status_name *table, size_t n, uint16_t status)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].status == status)
			return table[i].name;
	return NULL;
}

const char *host_nvme_status_name(uint16_t status, bool fabrics)
{
	const uint16_t code = status & 0x7ff;
	const char *name = NULL;

	if (fabrics)
		name = names_find(fabrics_statuses, COUNT(fabrics_statuses), code);
	if (!name)
		name = names_find(statuses, COUNT(statuses), code);
	return name ? name : "unknown status";
}

void host_error_clear(struct host_error *error)
{
	memset(error, 0, sizeof(*error));
	error->cm_event = -1;
}

int host_error_set(struct host_error *error, int ret, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error->text, sizeof(error->text), fmt, args);
	va_end(args);
	return ret;
}
