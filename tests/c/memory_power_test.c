/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power failures of remote memory: what a method has reported as persistent was written back from the caches.
 *
 * This program has a model in place of util/lines.c: only what was written back is on the media.  The embedded devices
 * call it where they place a WRITE (iWARP) and carry out a FLUSH (RoCEv2), the server for a PERSIST; a file is synced.
 * The proof can fail: without these calls, what is reported is not on the media.  A tail word must be written only when
 * the data that it covers is on the media.
 */
#include "memory_line.h"

enum { WRITES = 40, TAIL = SMALL - 64 };

static uint8_t *map, media[SMALL];
static bool left_out;			/* the calls do nothing */
static uint64_t tail;			/* the tail word of the writes that are on the media */
static bool tail_first;			/* it was written before its data was on the media */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void lines_write_back(const void *from, size_t length);
void lines_write_back(const void *from, size_t length)
{
	const size_t at = (size_t)((const uint8_t *)from - map);

	pthread_mutex_lock(&lock);
	tail_first |= at != TAIL && memcmp(map + TAIL, &tail, sizeof(tail));
	if (CHECK(at <= SMALL && length <= SMALL - at) && !left_out)
		memcpy(media + at, map + at, length);
	pthread_mutex_unlock(&lock);
}

/* A file that is not persistent memory. */
int fdatasync(int fd)
{
	(void)fd;
	pthread_mutex_lock(&lock);
	if (!left_out)
		memcpy(media, map, SMALL);
	pthread_mutex_unlock(&lock);
	return 0;
}

static bool is_on_media(size_t at, const void *data, size_t length)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = !memcmp(media + at, data, length);
	pthread_mutex_unlock(&lock);
	return is;
}

/* Write random bytes to a random place; whether they are on the media when that is reported. */
static bool write_one(struct line *l, enum memory_method method, unsigned seed)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	uint8_t *slot = memory_client_slot(l->client, 0);
	uint32_t length = seed % 3 ? 1 + (uint32_t)rand() % 300 : 1 + (uint32_t)rand() % TAIL;
	uint64_t offset = (uint32_t)rand() % (TAIL - length + 1);
	const uint64_t word = seed + 1;
	const bool has_tail = method == MEMORY_WRITE_FLUSH_TAIL;
	struct memory_done done[1];
	bool kept;
	int n;

	memcpy(memory_client_word(l->client, 0), &word, sizeof(word));

	for (uint32_t i = 0; i < length; i++)
		slot[i] = (uint8_t)rand();
	if (!CHECK(!memory_client_begin(l->client, 0, method, offset, length)))
		return false;
	do
		n = memory_client_poll(l->client, done, 1);
	while (!n && clock_ns() < end);
	if (!CHECK(n == 1 && done[0].status == MEMORY_OK, "(%d, %d)", n, done[0].status))
		return false;
	kept = is_on_media(offset, slot, length) && (!has_tail || is_on_media(TAIL, &word, sizeof(word)));
	if (has_tail) {
		pthread_mutex_lock(&lock);
		tail = word;
		pthread_mutex_unlock(&lock);
	}
	return kept;
}

static void method_holds(const char *host, const char *name, enum memory_method method, bool stable)
{
	unsigned lost = 0, seen = 0;
	struct line l;

	check_section(name);
	if (!line_open(&l, host, 1, SMALL))
		return;
	map = l.store.map;
	l.store.memory_is_stable = stable;
	memset(media, 0, sizeof(media));
	tail = 0;
	tail_first = false;
	CHECK(memory_client_tail_at(l.client, TAIL + 4) == -EINVAL && memory_client_tail_at(l.client, SMALL) == -EINVAL);
	CHECK(!memory_client_tail_at(l.client, TAIL));
	srand((unsigned)method + 1);
	for (unsigned i = 0; i < WRITES; i++)
		lost += !write_one(&l, method, i);
	CHECK(!lost, "(%u of %d)", lost, WRITES);
	CHECK(!tail_first && !memcmp(map + TAIL, &tail, sizeof(tail)), "(the tail word follows its data)");
	left_out = true;
	for (unsigned i = 0; i < WRITES; i++)
		seen += !write_one(&l, method, i);
	left_out = false;
	CHECK(seen > WRITES / 2, "(what is not written back is noticed: %u of %d)", seen, WRITES);
	line_close(&l, false);
}

int main(int argc, char **argv)
{
	char roce[32];

	check_begin(&argc, argv);
	snprintf(roce, sizeof(roce), "127.%d.%d.4", 64 + getpid() / 256 % 64, getpid() % 256);
	v = verbs_iwarp();
	method_holds("127.0.0.1", "write-read by iWARP", MEMORY_WRITE_READ, true);
	method_holds("127.0.0.1", "write-send by iWARP", MEMORY_WRITE_SEND, true);
	v = verbs_roce();
	method_holds(roce, "write-flush by RoCEv2", MEMORY_WRITE_FLUSH, true);
	method_holds(roce, "write-flush and a tail by RoCEv2", MEMORY_WRITE_FLUSH_TAIL, true);
	method_holds(roce, "write-send by RoCEv2", MEMORY_WRITE_SEND, true);
	method_holds(roce, "write-send to a file", MEMORY_WRITE_SEND, false);
	return check_report();
}
