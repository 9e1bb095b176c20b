/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of a C test's checks: see check.h. */
#include "check.h"
#include "util/clock.h"
#include "util/stat.h"
#include "verbs/verbs.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* HANG_S is below ctest's limit: so the test can report where it was. */
enum { HANG_S = 900, KEPT = 50, LINE = 400 };

static bool verbose;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* a test checks in several threads */
static unsigned passed, failed;
static char kept[KEPT][LINE];
static char last[LINE] = "the start";

static void put(int fd, const char *text)
{
	(void)!write(fd, text, strlen(text));
}

/* Only what a signal handler may call. */
static void list_failures(int fd)
{
	for (unsigned i = 0; i < failed && i < KEPT; i++) {
		put(fd, kept[i]);
		put(fd, "\n");
	}
}

static void died(int signal)
{
	put(STDERR_FILENO, signal == SIGALRM ? "\nFAIL hung" : "\nFAIL died");
	put(STDERR_FILENO, ", the last check was: ");
	put(STDERR_FILENO, last);
	put(STDERR_FILENO, "\n");
	list_failures(STDERR_FILENO);
	raise(signal);
}

void check_begin(int *argc, char **argv)
{
	static const int signals[] = { SIGALRM, SIGABRT, SIGTERM, SIGSEGV };
	struct sigaction action = { .sa_handler = died, .sa_flags = (int)SA_RESETHAND | SA_NODEFER }, old;
	struct iwarp_options patient;
	int kept_arguments = 1;

	iwarp_get_options(&patient);
	patient.handshake_timeout_ms = CHECK_PATIENCE_S * 1000;
	iwarp_set_options(&patient);
	for (int i = 1; i < *argc; i++) {
		if (!strcmp(argv[i], "-v"))
			verbose = true;
		else
			argv[kept_arguments++] = argv[i];
	}
	*argc = kept_arguments;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)	/* not ASan's */
			sigaction(signals[i], &action, NULL);
	alarm(HANG_S);
}

unsigned check_failures(void)
{
	return failed;
}

int check_report(void)
{
	alarm(0);
	printf("%u passed, %u failed\n", passed, failed);
	fflush(stdout);
	list_failures(STDOUT_FILENO);
	return failed != 0;
}

bool check_va(bool ok, const char *where, const char *format, va_list args)
{
	char line[LINE];
	int n = snprintf(line, sizeof(line), "%s %s", ok ? "ok  " : "FAIL", ok ? "" : where);

	if (n < (int)sizeof(line))
		vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	pthread_mutex_lock(&lock);
	memcpy(last, line, sizeof(last));
	if (!ok || verbose)
		puts(line);
	if (!ok && failed < KEPT)
		memcpy(kept[failed], line, sizeof(line));
	if (ok)
		passed++;
	else
		failed++;
	pthread_mutex_unlock(&lock);
	return ok;
}

bool check_that(bool ok, const char *where, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	check_va(ok, where, format, args);
	va_end(args);
	return ok;
}

void check_note(const char *format, ...)
{
	va_list args;

	if (!verbose)
		return;
	va_start(args, format);
	printf("     ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

void check_section(const char *name)
{
	snprintf(last, sizeof(last), "the start of %s", name);
	if (verbose)
		printf("--   %s\n", name);
}

/* ---- sleeping threads ---- */

/*
 * How often the thread was switched out, or 0 if it runs or is about to: its status is read, not its processor time,
 * which the kernel counts in ticks.
 */
static uint64_t switches(const char *task, const char *comm)
{
	char name[64], line[128];
	uint64_t total = 1, n;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%.20s/status", task);
	f = fopen(name, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "Name:\t", 6) && strncmp(line + 6, comm, strlen(comm))) {
			total = 1;
			break;
		}
		if (!strncmp(line, "State:\t", 7) && line[7] != 'S')
			total = 0;
		if (strstr(line, "voluntary_ctxt_switches:") &&
		    sscanf(strchr(line, ':') + 1, "%lu", &n) == 1 && total)
			total += n;
	}
	if (f)
		fclose(f);
	return total;
}

/* The sum for all other threads, or 0 if one of them is awake. */
static uint64_t all_switches(const char *comm)
{
	DIR *dir = opendir("/proc/self/task");
	uint64_t total = 1;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		uint64_t n;

		if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
			continue;
		n = switches(e->d_name, comm);
		total = n && total ? total + n : 0;
	}
	if (dir)
		closedir(dir);
	return total;
}

bool check_threads_sleep(const char *comm)
{
	const struct timespec window = { .tv_nsec = 100000000 };
	uint64_t until = clock_ns() + CHECK_PATIENCE_S * 1000000000ull, before, after;

	do {
		before = all_switches(comm);
		nanosleep(&window, NULL);
		after = all_switches(comm);
	} while ((!before || before != after) && clock_ns() < until);
	return before && before == after;
}
