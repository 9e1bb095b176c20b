/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of fio's fio.h that the files of initiator/fio need that host_fio_test.c compiles without fio.
 */
#ifndef TESTS_FIO_H
#define TESTS_FIO_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum fio_ddir { DDIR_READ, DDIR_WRITE, DDIR_TRIM, DDIR_SYNC };
enum fio_q_status { FIO_Q_COMPLETED, FIO_Q_QUEUED, FIO_Q_BUSY };

struct fio_file {
	unsigned int fileno;
	char *file_name;
};

struct thread_options {
	unsigned int iodepth, nr_files, sync_io;
};

struct thread_data {
	struct thread_options o;
	void *eo;
	void *io_ops_data;
	volatile bool terminate;
};

struct io_u {
	enum fio_ddir ddir;
	struct fio_file *file;
	unsigned long long offset, xfer_buflen;
	void *xfer_buf;
	unsigned int index;
	unsigned int error;
	void *engine_data;
	struct timespec issue_time;
};

extern unsigned int fio_errors;		/* times that log_err() was called */
#define log_err(...) ((void)fprintf(stderr, __VA_ARGS__), (void)fio_errors++)

static inline const char *io_ddir_name(enum fio_ddir ddir)
{
	return ddir == DDIR_READ ? "read" : ddir == DDIR_WRITE ? "write" : "other";
}

static inline bool ddir_sync(enum fio_ddir ddir)
{
	return ddir == DDIR_SYNC;
}

static inline void fio_ro_check(const struct thread_data *td, struct io_u *io_u)
{
	(void)td;
	(void)io_u;
}

static inline bool fio_fill_issue_time(struct thread_data *td)
{
	(void)td;
	return false;
}

static inline void fio_gettime(struct timespec *ts, void *unused)
{
	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, ts);
}

static inline uint64_t mtime_since_now(const struct timespec *from)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)((now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000);
}

static inline void io_u_queued(struct thread_data *td, struct io_u *io_u)
{
	(void)td;
	(void)io_u;
}

static inline void io_u_mark_submit(struct thread_data *td, unsigned int n)
{
	(void)td;
	(void)n;
}

#endif
