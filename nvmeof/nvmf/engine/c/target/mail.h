/* SPDX-License-Identifier: BSD-3-Clause */
/* Mail for a reactor's thread; embedded in the object that it concerns. */
#ifndef NVMF_TARGET_MAIL_H
#define NVMF_TARGET_MAIL_H

struct reactor;

struct mail {
	struct mail *next;
	void (*deliver)(struct reactor *reactor, struct mail *mail);
};

#endif
