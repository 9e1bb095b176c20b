/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of services of an address, and the effects of its changes.  If the address is shared, the table is in
 * memory shared by all members, under a lock of fcntl(), which ends with the process.  Under iw_cm_lock.
 */
#include "port.h"
#include "steer.h"

#include <errno.h>
#include <fcntl.h>

enum { TABLE, FIRST_TAG };	/* bytes of the memory whose locks guard the table, and show that a member is alive */

static void table_lock(const struct ro_share *s, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = TABLE, .l_len = 1 };

	while (s->shared && fcntl(s->memory, F_SETLKW, &lock) && errno == EINTR)
		;
}

static void table_unlock(const struct ro_share *s)
{
	if (s->shared)
		(void)ro_steer(s->fds[0], s->table, s->founder);
	table_lock(s, F_UNLCK);
}

/* Whether a different process with this tag is a member. */
static bool table_other(const struct ro_share *s, uint32_t tag)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST_TAG + (off_t)tag, .l_len = 1 };

	return s->shared && tag != ro_tag() && !fcntl(s->memory, F_GETLK, &lock) && lock.l_type != F_UNLCK;
}

void ro_services_join(struct ro_share *s, bool founds)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST_TAG + (off_t)ro_tag(), .l_len = 1 };
	struct ro_services *t = s->table;

	(void)fcntl(s->memory, F_SETLK, &lock);
	table_lock(s, F_WRLCK);
	for (int i = 0; i < RO_SERVICES; i++)
		if (!founds && !table_other(s, t->services[i].tag % RO_TAGS))
			t->services[i].port = 0;
	if (!table_other(s, t->others % RO_TAGS))
		t->others = ro_tag();
	table_unlock(s);
}

int ro_share_listen(struct ro_port *port, uint16_t service)
{
	struct ro_share *s = port->share;
	int slot = -1, rc = 0;

	if (!s)
		return 0;
	table_lock(s, F_WRLCK);
	for (int i = 0; i < RO_SERVICES; i++) {
		const bool same = s->table->services[i].port == service;

		if (same && table_other(s, s->table->services[i].tag % RO_TAGS))
			rc = EADDRINUSE;
		if (same || (slot < 0 && !s->table->services[i].port))
			slot = i;
		if (same)
			break;
	}
	if (!rc && slot < 0)
		rc = ENOBUFS;
	if (!rc) {
		s->table->services[slot].port = service;
		s->table->services[slot].tag = (uint16_t)ro_tag();
	}
	table_unlock(s);
	errno = rc ? rc : errno;
	return rc ? -1 : 0;
}

void ro_share_unlisten(struct ro_port *port, uint16_t service)
{
	struct ro_share *s = port->share;

	if (!s)
		return;
	table_lock(s, F_WRLCK);
	for (int i = 0; i < RO_SERVICES; i++)
		if (s->table->services[i].port == service && s->table->services[i].tag == ro_tag())
			s->table->services[i].port = 0;
	table_unlock(s);
}

void ro_services_leave(struct ro_share *s)
{
	if (!s->shared)
		return;
	table_lock(s, F_WRLCK);
	for (uint32_t tag = 0; tag < RO_TAGS && s->table->others == ro_tag(); tag++)
		if (table_other(s, tag))
			s->table->others = tag;
	table_unlock(s);
}
