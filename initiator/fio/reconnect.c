/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connects a lost session again, with the timers and the rules of the client (nvmf/initiator/client/recovery.py): the
 * first attempt is made at once if the connection had lasted reconnect_delay, so that a short-lived connection does not
 * cause a tight loop.  The attempts end at ctrl_loss_tmo, or when the job is to end.
 *
 * Runs in the job's own thread or process.  An attempt blocks it for at most connect_timeout per step.
 */
#include "engine.h"

static const uint64_t second = 1000000000, tell_every = 60;

static void reconnect_end(struct state *s, struct session *session, const char *why)
{
	log_err("nvmeof: %s: given up after %u attempt%s to reconnect: %s\n", session->trid.subnqn,
		session->attempts, session->attempts == 1 ? "" : "s", why);
	session->state = SESSION_ENDED;
	s->reconnecting--;
	nvmeof_release(s, session);
}

void reconnect_begin(struct state *s, struct session *session, const char *reason)
{
	const int limit = s->options->ctrl_loss_tmo;
	const uint64_t delay = s->options->reconnect_delay * second, now = clock_ns();
	char within[32] = "without a time limit";

	if (session->state != SESSION_LIVE)
		return;
	if (!limit) {
		log_err("nvmeof: %s (no attempt to reconnect: ctrl_loss_tmo=0)\n", reason);
		session->state = SESSION_ENDED;
		nvmeof_release(s, session);	/* it holds requests if a submission has found the loss */
		return;
	}
	if (limit > 0)
		snprintf(within, sizeof(within), "for at most %d s", limit);
	log_err("nvmeof: %s: the connection was lost: reconnecting, %s: %s\n", session->trid.subnqn,
		within, reason);
	session->state = SESSION_RECONNECTING;
	session->next = now - session->connected >= delay ? now : now + delay;
	session->until = limit < 0 ? UINT64_MAX : now + (uint64_t)limit * second;
	if (session->next > session->until)
		session->next = session->until;
	session->attempts = 0;
	s->reconnecting++;
}

/* Log the first failure, then one a minute. */
static void reconnect_tell(struct session *session, const char *reason, uint64_t now)
{
	char left[32] = "no time limit";

	if (session->attempts > 1 && now - session->told < tell_every * second)
		return;
	session->told = now;
	if (session->until != UINT64_MAX)
		snprintf(left, sizeof(left), "%llu s left", session->until <= now ? 0ull :
			 (unsigned long long)((session->until - now) / second));
	log_err("nvmeof: %s: cannot reconnect (attempt %u, %s): %s\n", session->trid.subnqn,
		session->attempts, left, reason);
}

static void reconnect_try(struct state *s, struct session *session)
{
	struct host_error error = { .cm_event = -1 };
	const int ret = session_reopen(s, session, &error);
	const uint64_t now = clock_ns();

	session->attempts++;
	if (!ret) {
		log_err("nvmeof: %s: connected again, after %u attempt%s\n", session->trid.subnqn,
			session->attempts, session->attempts == 1 ? "" : "s");
		s->reconnecting--;
		nvmeof_release(s, session);
		return;
	}
	if (ret == -2 || now >= session->until) {
		session->state = SESSION_RECONNECTING;
		reconnect_end(s, session, error.text);
		return;
	}
	reconnect_tell(session, error.text, now);
	session->next = now + s->options->reconnect_delay * second;
	if (session->next > session->until)
		session->next = session->until;
}

void reconnect_poll(struct state *s)
{
	for (unsigned i = 0; i < s->nsessions; i++) {
		struct session *session = &s->sessions[i];

		if (session->state != SESSION_RECONNECTING)
			continue;
		if (s->td->terminate)
			reconnect_end(s, session, "the job is to end");
		else if (clock_ns() >= session->next)
			reconnect_try(s, session);
	}
}
