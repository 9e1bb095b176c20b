/* SPDX-License-Identifier: BSD-3-Clause */
/* Closing of contexts whose device was removed: devices are folders here, and contexts' files are pipes. */
#include "check.h"
#include "verbs/contexts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/nvmf-contexts-XXXXXX";

struct rig {
	struct ibv_device device;
	struct ibv_context context;
	int cmd_end, async_end;	/* show when the other end, the context's, is closed */
};

static int piped(int *end)
{
	int both[2] = { -1, -1 };

	CHECK(!pipe2(both, O_CLOEXEC));
	*end = both[0];
	return both[1];
}

static void plug(struct rig *rig, const char *name)
{
	snprintf(rig->device.dev_path, sizeof(rig->device.dev_path), "%s/%s", root, name);
	CHECK(!mkdir(rig->device.dev_path, 0700));
}

static void set_up(struct rig *rig, const char *name)
{
	*rig = (struct rig){ .context = { .device = &rig->device } };
	plug(rig, name);
	rig->context.cmd_fd = piped(&rig->cmd_end);
	rig->context.async_fd = piped(&rig->async_end);
}

static void unplug(struct rig *rig)
{
	CHECK(!rmdir(rig->device.dev_path));
}

static bool hung_up(int end)
{
	struct pollfd p = { .fd = end };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static bool let_go(const struct rig *rig)
{
	return hung_up(rig->cmd_end) && hung_up(rig->async_end);
}

/* As librdmacm does when it finds the removed device. */
static void close_context(struct rig *rig)
{
	CHECK(!close(rig->context.cmd_fd) && !close(rig->context.async_fd), "the numbers are its own");
}

static void tear_down(struct rig *rig)
{
	close_context(rig);
	close(rig->cmd_end);
	close(rig->async_end);
}

static void untie(const void *object)
{
	contexts_untied(contexts_untie(object));
}

static void test_the_last_object_lets_go(void)
{
	static const char ids[3];
	struct rig rig;

	set_up(&rig, "uverbs0");
	for (unsigned i = 0; i < 3; i++)
		contexts_tie(&ids[i], &rig.context);
	contexts_tie(&ids[0], &rig.context);	/* as at each event of an id */
	contexts_tie(&ids[0], NULL);
	untie(&ids[0]);
	unplug(&rig);
	contexts_sweep();
	untie(&ids[1]);
	CHECK(!hung_up(rig.cmd_end) && !hung_up(rig.async_end), "something lies on it yet");
	untie(&ids[2]);
	CHECK(let_go(&rig));
	tear_down(&rig);
}

static void test_one_that_is_there_stays(void)
{
	static const char id;
	struct rig rig;

	set_up(&rig, "uverbs0");
	contexts_tie(&id, &rig.context);
	untie(&id);
	contexts_sweep();
	CHECK(!hung_up(rig.cmd_end), "it is there");
	contexts_tie(&id, &rig.context);
	untie(&id);
	unplug(&rig);
	contexts_sweep();
	CHECK(let_go(&rig), "nothing lay on it as it went");
	tear_down(&rig);
}

static void test_another_in_its_place(void)
{
	static const char old_id, new_id;
	struct rig old, new;

	set_up(&old, "uverbs0");
	set_up(&new, "other");
	contexts_tie(&old_id, &old.context);
	untie(&old_id);
	unplug(&old);	/* at once there is a new one of that name: both coexisted, so their inodes differ */
	CHECK(!rename(new.device.dev_path, old.device.dev_path));
	strcpy(new.device.dev_path, old.device.dev_path);
	contexts_tie(&new_id, &new.context);
	contexts_sweep();
	CHECK(let_go(&old));
	CHECK(!hung_up(new.cmd_end));
	untie(&new_id);
	CHECK(!hung_up(new.cmd_end));
	unplug(&new);
	contexts_sweep();
	CHECK(let_go(&new));
	tear_down(&old);
	tear_down(&new);
}

/* The library noticed by itself: the numbers have been reused. */
static void test_closed_already(void)
{
	static const char id;
	struct rig rig, other;
	struct stat before, after;
	int cmd;

	set_up(&rig, "uverbs0");
	contexts_tie(&id, &rig.context);
	untie(&id);
	cmd = rig.context.cmd_fd;
	set_up(&other, "uverbs1");
	CHECK(dup2(other.context.cmd_fd, cmd) == cmd && !fstat(cmd, &before));
	unplug(&rig);
	contexts_sweep();
	CHECK(!fstat(cmd, &after) && before.st_ino == after.st_ino, "another's file stays");
	CHECK(!hung_up(rig.async_end));
	tear_down(&rig);

	/* the same number again, for a context in use */
	CHECK(dup2(other.context.cmd_fd, cmd) == cmd && !close(other.context.cmd_fd));
	other.context.cmd_fd = cmd;
	contexts_tie(&id, &other.context);
	contexts_sweep();
	CHECK(!hung_up(other.cmd_end));
	unplug(&other);
	untie(&id);
	CHECK(let_go(&other));
	tear_down(&other);
}

/* Destroying failed: the object exists as before. */
static void test_tied_again(void)
{
	static const char id;
	struct context_use *use;
	struct rig rig;

	set_up(&rig, "uverbs0");
	contexts_tie(&id, &rig.context);
	unplug(&rig);
	use = contexts_untie(&id);
	contexts_tie(&id, &rig.context);
	contexts_untied(use);
	CHECK(!hung_up(rig.cmd_end));
	untie(&id);
	CHECK(let_go(&rig));
	untie(&id);	/* an object that was never tied belongs to no context */
	tear_down(&rig);
}

/* Without sysfs the state of the device is unknown, and the context stays open. */
static void test_not_to_be_watched(void)
{
	static const char id;
	struct rig rig;

	set_up(&rig, "uverbs0");
	unplug(&rig);
	contexts_tie(&id, &rig.context);
	untie(&id);
	contexts_sweep();
	CHECK(!hung_up(rig.cmd_end));
	tear_down(&rig);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	if (!CHECK(mkdtemp(root)))
		return check_report();
	test_the_last_object_lets_go();
	test_one_that_is_there_stays();
	test_another_in_its_place();
	test_closed_already();
	test_tied_again();
	test_not_to_be_watched();
	CHECK(!rmdir(root));
	return check_report();
}
