/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport ids: see trid.h. */
#include "trid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char scheme[] = "nvme+rdma://";

static const char *const keys[] = {
	"trtype", "adrfam", "traddr", "trsvcid", "subnqn", "hostnqn", "nsid", "ns",
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

/* Find the key at the beginning of text; *value: after its '=' or ':'.  NULL if there is no key. */
static const char *trid_match_key(const char *text, const char **value)
{
	for (unsigned i = 0; i < KEYS; i++) {
		const size_t n = strlen(keys[i]);

		if (!strncasecmp(text, keys[i], n) && (text[n] == '=' || text[n] == ':')) {
			*value = text + n + 1;
			return keys[i];
		}
	}
	return NULL;
}

bool trid_looks_like(const char *text)
{
	const char *value;

	text += strspn(text, " \t");
	return !strncasecmp(text, scheme, sizeof(scheme) - 1) || trid_match_key(text, &value);
}

static int trid_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Copy n bytes without the backslashes of '\:' and, in a url, the percent signs. */
static int trid_copy(char *to, size_t size, const char *from, size_t n, bool url, const char *what,
		char *err, size_t len)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		char c = from[i];

		if (c == '\\' && i + 1 < n && from[i + 1] == ':')
			continue;
		if (url && c == '%' && i + 2 < n && trid_hex(from[i + 1]) >= 0 && trid_hex(from[i + 2]) >= 0) {
			c = (char)(trid_hex(from[i + 1]) << 4 | trid_hex(from[i + 2]));
			i += 2;
		}
		if (out + 1 >= size) {
			snprintf(err, len, "%s is longer than %zu characters", what, size - 1);
			return -1;
		}
		to[out++] = c;
	}
	to[out] = 0;
	if (out)
		return 0;
	snprintf(err, len, "%s is empty", what);
	return -1;
}

static int trid_parse_nsid(struct trid *t, const char *text, size_t n, char *err, size_t len)
{
	char digits[16], *end;

	if (trid_copy(digits, sizeof(digits), text, n, false, "nsid", err, len))
		return -1;

	const unsigned long v = strtoul(digits, &end, 0);

	if (*end || !v || v > 0xfffffffe) {
		snprintf(err, len, "nsid %s is not a number between 1 and 4294967294", digits);
		return -1;
	}
	t->nsid = (uint32_t)v;
	return 0;
}

bool trid_is_port(const char *text)
{
	const size_t n = strlen(text);

	return n && n <= 5 && strspn(text, "0123456789") == n && atoi(text) >= 1 && atoi(text) <= 65535;
}

static int trid_parse_port(struct trid *t, const char *text, size_t n, bool url, char *err, size_t len)
{
	if (trid_copy(t->trsvcid, sizeof(t->trsvcid), text, n, url, "trsvcid", err, len))
		return -1;
	if (trid_is_port(t->trsvcid))
		return 0;
	snprintf(err, len, "trsvcid %s is not a port (1 to 65535)", t->trsvcid);
	return -1;
}

static int trid_set(struct trid *t, const char *key, const char *v, size_t n, bool url, char *err,
	       size_t len)
{
	char word[16];

	if (!strcmp(key, "traddr"))
		return trid_copy(t->traddr, sizeof(t->traddr), v, n, url, key, err, len);
	if (!strcmp(key, "trsvcid"))
		return trid_parse_port(t, v, n, url, err, len);
	if (!strcmp(key, "subnqn"))
		return trid_copy(t->subnqn, sizeof(t->subnqn), v, n, url, key, err, len);
	if (!strcmp(key, "hostnqn"))
		return trid_copy(t->hostnqn, sizeof(t->hostnqn), v, n, url, key, err, len);
	if (!strcmp(key, "nsid") || !strcmp(key, "ns"))
		return trid_parse_nsid(t, v, n, err, len);
	if (trid_copy(word, sizeof(word), v, n, url, key, err, len))
		return -1;
	if (!strcmp(key, "trtype") && strcasecmp(word, "rdma")) {
		snprintf(err, len, "trtype %s: this engine supports rdma only", word);
		return -1;
	}
	if (!strcmp(key, "adrfam") && strcasecmp(word, "ipv4") && strcasecmp(word, "ipv6")) {
		snprintf(err, len, "adrfam %s is neither ipv4 nor ipv6", word);
		return -1;
	}
	return 0;
}

static int trid_parse_words(struct trid *t, const char *text, char *err, size_t len)
{
	while (*(text += strspn(text, " \t"))) {
		const size_t n = strcspn(text, " \t");
		const char *value, *key = trid_match_key(text, &value);

		if (!key) {
			snprintf(err, len, "\"%.*s\" is not part of a transport id (trtype=, adrfam=, "
				 "traddr=, trsvcid=, subnqn=, nsid=, hostnqn=)", (int)n, text);
			return -1;
		}
		if (trid_set(t, key, value, n - (size_t)(value - text), false, err, len))
			return -1;
		text += n;
	}
	return 0;
}

/* host, host:port, [v6] or [v6]:port. */
static int trid_parse_authority(struct trid *t, const char *text, size_t n, char *err, size_t len)
{
	const char *end = text + n, *port = NULL;
	size_t host = n;

	if (*text == '[') {
		const char *close = memchr(text, ']', n);

		if (!close) {
			snprintf(err, len, "the address of the url has no closing bracket");
			return -1;
		}
		if (close + 1 < end)
			port = close + 1;
		text++;
		host = (size_t)(close - text);
	} else if ((port = memchr(text, ':', n))) {
		host = (size_t)(port - text);
		if (host && port[-1] == '\\')
			host--;
	}
	if (trid_set(t, "traddr", text, host, true, err, len))
		return -1;
	if (!port)
		return 0;
	port += strspn(port, "\\:");
	return trid_set(t, "trsvcid", port, (size_t)(end - port), true, err, len);
}

static int trid_parse_url(struct trid *t, const char *text, char *err, size_t len)
{
	size_t n = strcspn(text, "/");

	if (trid_parse_authority(t, text, n, err, len))
		return -1;
	text += n;
	if (*text == '/')
		text++;
	n = strcspn(text, "?");
	if (n && trid_set(t, "subnqn", text, n, true, err, len))
		return -1;
	text += n;
	while (*text) {
		const char *value, *key = trid_match_key(++text, &value);

		n = strcspn(text, "&");
		if (!key) {
			snprintf(err, len, "\"%.*s\" is not a parameter of the url (ns=, hostnqn=)", (int)n,
				 text);
			return -1;
		}
		if (trid_set(t, key, value, n - (size_t)(value - text), true, err, len))
			return -1;
		text += n;
	}
	return 0;
}

int trid_parse(struct trid *trid, const char *text, char *err, size_t len)
{
	text += strspn(text, " \t");
	if (!strncasecmp(text, scheme, sizeof(scheme) - 1))
		return trid_parse_url(trid, text + sizeof(scheme) - 1, err, len);
	return trid_parse_words(trid, text, err, len);
}
