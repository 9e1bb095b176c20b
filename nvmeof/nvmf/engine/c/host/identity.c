/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The identity of this host: its NQN and its identifier, by the rules of nvmf/initiator/base/identity.py, so that
 * every program of a machine is the same host to a target.
 *
 * A host has one NQN and one host ID.  Its associations, such as those of several jobs, are distinguished by their
 * controller IDs, which the target allocates: a host ID per job would make each job a host of its own, with its own
 * reservations.  Runs on the thread that connects.
 */
#include "controller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { ID_SIZE = 16, NQN_SIZE = 224 };

static const char uuid_prefix[] = "nqn.2014-08.org.nvmexpress:uuid:";

/* Namespace of derived identifiers: _OURS in identity.py. */
static const uint8_t ours[ID_SIZE] = {
	0x7f, 0x1c, 0xf0, 0xd0, 0x37, 0xa5, 0x4d, 0x0e, 0x9d, 0x39, 0x6b, 0x2c, 0x5d, 0x7a, 0x3d, 0x0e,
};

/* ---- SHA-1 (RFC 3174), for UUIDs of version 5 only ---- */

static uint32_t sha1_rotate(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

static void sha1_block(uint32_t *h, const uint8_t *p)
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (unsigned i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = sha1_rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (unsigned i = 0; i < 80; i++) {
		const uint32_t f = i < 20 ? ((b & c) | (~b & d)) + 0x5a827999 :
				   i < 40 ? (b ^ c ^ d) + 0x6ed9eba1 :
				   i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc :
					    (b ^ c ^ d) + 0xca62c1d6;
		const uint32_t t = sha1_rotate(a, 5) + f + e + w[i];

		e = d;
		d = c;
		c = sha1_rotate(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

/* The UUID of version 5 (RFC 9562) of a name of at most 256 bytes, in our namespace. */
static void identity_uuid5(uint8_t *id, const char *name)
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	uint8_t text[5 * 64] = { 0 };
	const size_t n = ID_SIZE + strlen(name), blocks = (n + 8) / 64 + 1;

	memcpy(text, ours, ID_SIZE);
	memcpy(text + ID_SIZE, name, n - ID_SIZE);
	text[n] = 0x80;
	text[blocks * 64 - 2] = (uint8_t)(n * 8 >> 8);
	text[blocks * 64 - 1] = (uint8_t)(n * 8);
	for (size_t i = 0; i < blocks; i++)
		sha1_block(h, text + 64 * i);
	for (unsigned i = 0; i < ID_SIZE; i++)
		id[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
	id[6] = (uint8_t)((id[6] & 0x0f) | 0x50);
	id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
}

/* ---- sources of an identity ---- */

/* The first word of a file, or "". */
static const char *identity_first_word(const char *path, char *word, size_t size)
{
	FILE *file = fopen(path, "re");

	word[0] = '\0';
	if (!file)
		return word;
	if (!fgets(word, (int)size, file))
		word[0] = '\0';
	fclose(file);
	word[strcspn(word, " \t\r\n")] = '\0';
	return word;
}

/* Parse a UUID; false if text is not one. */
static bool identity_parse(uint8_t *id, const char *text)
{
	unsigned have = 0;
	uint8_t bytes[ID_SIZE];

	for (const char *p = text; *p; p++) {
		char pair[3] = { p[0], p[1], '\0' };
		char *end;

		if (*p == '-')
			continue;
		if (have == ID_SIZE)
			return false;
		bytes[have++] = (uint8_t)strtoul(pair, &end, 16);
		if (*end || !pair[1])
			return false;
		p++;
	}
	if (have == ID_SIZE)
		memcpy(id, bytes, ID_SIZE);
	return have == ID_SIZE;
}

/* The host ID that belongs to an NQN that was given without one. */
static void identity_of_nqn(uint8_t *id, const char *nqn)
{
	const size_t n = sizeof(uuid_prefix) - 1;

	if (strncmp(nqn, uuid_prefix, n) || !identity_parse(id, nqn + n))
		identity_uuid5(id, nqn);
}

/* For a machine without /etc/nvme/hostnqn: derived from its machine-id, or random if it has none. */
static int identity_make(uint8_t *id)
{
	char word[64];

	if (*identity_first_word("/etc/machine-id", word, sizeof(word))) {
		identity_uuid5(id, word);
		return 0;
	}
	if (getrandom(id, ID_SIZE, 0) != ID_SIZE)
		return -errno;
	id[6] = (uint8_t)((id[6] & 0x0f) | 0x40);
	id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
	return 0;
}

static void identity_nqn_of(char *nqn, const uint8_t *id)
{
	snprintf(nqn, NQN_SIZE,
		 "%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", uuid_prefix,
		 id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11],
		 id[12], id[13], id[14], id[15]);
}

int host_controller_identity(struct host_controller *c, const struct host_controller_options *o,
			     struct host_error *error)
{
	return host_identity(&c->identity, o, error);
}

int host_identity(struct connect_data *identity, const struct host_controller_options *o,
		  struct host_error *error)
{
	uint8_t *id = identity->hostid;
	char *nqn = identity->hostnqn, word[64] = "";
	const char *hostid = o->hostid;

	if (strlen(o->subnqn) > 223 || (o->hostnqn && strlen(o->hostnqn) > 223))
		return host_error_set(error, -EINVAL, "an NQN is at most 223 bytes long");
	snprintf(identity->subnqn, sizeof(identity->subnqn), "%s", o->subnqn);
	if (o->hostnqn)
		snprintf(nqn, sizeof(identity->hostnqn), "%s", o->hostnqn);
	if (!o->hostnqn && !hostid) {
		identity_first_word("/etc/nvme/hostnqn", nqn, NQN_SIZE);
		hostid = identity_first_word("/etc/nvme/hostid", word, sizeof(word));
	}
	if (hostid && *hostid) {
		if (!identity_parse(id, hostid))
			return host_error_set(error, -EINVAL, "the host ID %.60s%s is not a UUID", hostid,
					      o->hostid ? "" : " of /etc/nvme/hostid");
		if (!*nqn)
			identity_nqn_of(nqn, id);
		return 0;
	}
	if (*nqn) {
		identity_of_nqn(id, nqn);
		return 0;
	}
	if (identity_make(id))
		return host_error_set(error, -EIO, "no random host ID: %s", strerror(errno));
	identity_nqn_of(nqn, id);
	return 0;
}
