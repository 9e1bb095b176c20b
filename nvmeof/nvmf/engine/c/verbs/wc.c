/* SPDX-License-Identifier: BSD-3-Clause */
/* The statuses of work completions, by name.  Constant, any thread. */
#include "verbs.h"

const char *verbs_wc_name(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success (SUCCESS)",
		[IBV_WC_LOC_LEN_ERR] = "local length error (LOC_LEN_ERR)",
		[IBV_WC_LOC_QP_OP_ERR] = "local queue pair operation error (LOC_QP_OP_ERR)",
		[IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error (LOC_EEC_OP_ERR)",
		[IBV_WC_LOC_PROT_ERR] = "local protection error (LOC_PROT_ERR)",
		[IBV_WC_WR_FLUSH_ERR] = "work request flushed (WR_FLUSH_ERR)",
		[IBV_WC_MW_BIND_ERR] = "memory window bind error (MW_BIND_ERR)",
		[IBV_WC_BAD_RESP_ERR] = "bad response (BAD_RESP_ERR)",
		[IBV_WC_LOC_ACCESS_ERR] = "local access error (LOC_ACCESS_ERR)",
		[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request (REM_INV_REQ_ERR)",
		[IBV_WC_REM_ACCESS_ERR] = "remote access error (REM_ACCESS_ERR)",
		[IBV_WC_REM_OP_ERR] = "remote operation error (REM_OP_ERR)",
		[IBV_WC_RETRY_EXC_ERR] = "transport retries exceeded (RETRY_EXC_ERR)",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "receiver-not-ready retries exceeded (RNR_RETRY_EXC_ERR)",
		[IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation (LOC_RDD_VIOL_ERR)",
		[IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request (REM_INV_RD_REQ_ERR)",
		[IBV_WC_REM_ABORT_ERR] = "remote abort (REM_ABORT_ERR)",
		[IBV_WC_INV_EECN_ERR] = "invalid EE context number (INV_EECN_ERR)",
		[IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state (INV_EEC_STATE_ERR)",
		[IBV_WC_FATAL_ERR] = "fatal error (FATAL_ERR)",
		[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout (RESP_TIMEOUT_ERR)",
		[IBV_WC_GENERAL_ERR] = "general error (GENERAL_ERR)",
	};

	if ((size_t)status < sizeof(names) / sizeof(names[0]) && names[status])
		return names[status];
	return "unknown work completion status";
}
