/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system calls of the data path, without the C library's functions: those are points of cancellation, which costs a
 * command of depth 1 a hundredth of its time, and no thread is cancelled here.  -1 with errno.
 */
#ifndef NVMF_ROCE_CALLS_H
#define NVMF_ROCE_CALLS_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline ssize_t ro_sendmsg(int fd, const struct msghdr *h, int flags)
{
	return syscall(SYS_sendmsg, fd, h, flags);
}

static inline ssize_t ro_recvmsg(int fd, struct msghdr *h, int flags)
{
	return syscall(SYS_recvmsg, fd, h, flags);
}

static inline int ro_recvmmsg(int fd, struct mmsghdr *h, unsigned int n, int flags)
{
	return (int)syscall(SYS_recvmmsg, fd, h, n, flags, NULL);
}

#endif
