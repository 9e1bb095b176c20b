/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that forks while the embedded RoCEv2 device has ports open. */
#include "roce_rig.h"

#include <sys/wait.h>

/* In the child, the parent's ports are not added to any list again, and a new one is found. */
static int child(struct rig *rig)
{
	union ro_addr own = rig_address();
	struct ro_port *made;
	bool ok;

	pthread_mutex_lock(&iw_cm_lock);
	ok = !ro_ports.head && rig->port->fd < 0 && !ro_cm_use(1);
	made = ro_port_get(&own, &ro_cm_calls);
	ro_port_put(rig->other);
	ok = ok && made && ro_port_get(&own, &ro_cm_calls) == made;
	pthread_mutex_unlock(&iw_cm_lock);
	return !ok;
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	if (rig_open(&rig)) {
		int status = -1;
		pid_t pid = fork();

		if (!pid)
			_exit(child(&rig));
		waitpid(pid, &status, 0);
		CHECK(!status, "(the child's status: %d)", status);
		CHECK(ro_ports.head && rig.port->fd >= 0);
	}
	rig_close(&rig);
	return check_report();
}
