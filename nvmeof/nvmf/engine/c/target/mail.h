/* SPDX-License-Identifier: BSD-3-Clause */
/* What is handed to a reactor's thread; embedded in what it is about. */
#ifndef NVMF_TARGET_MAIL_H
#define NVMF_TARGET_MAIL_H

struct reactor;

struct mail {
	struct mail *next;
	void (*deliver)(struct reactor *reactor, struct mail *mail);
};

#endif
