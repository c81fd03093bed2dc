/*
 * Who: the broker before its loop starts. Capabilities: KILL for what nobody owns. Bytes: `meta`
 * and `keeper` files root wrote. Gone at the end: ownerless directories and
 * processes, what a dead keeper left.
 */
#include "broker/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "broker/box.h"
#include "broker/reap.h"

struct adoption {
	const struct site *site;
	struct slots *slots;
	struct adopted result;
};

/* A launch died before it wrote anything down, or the machine did. Work is never thrown away here:
 * with a disk the daemon decides. */
static void adopt_without_meta(const struct adoption *adoption, const char *id, int box)
{
	struct stat st;
	struct err err = {0};
	if (fstatat(box, "disk", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	    fstatat(box, "disk.img", &st, AT_SYMLINK_NOFOLLOW) == 0) {
		struct box_meta meta = {.slot = -1};
		int r = box_write_meta(box, &meta);
		if (r < 0)
			log_warn("cannot write meta", LOG_STR("sandbox", id), LOG_INT("errno", -r));
		return;
	}
	if (reap_run(adoption->site, id, false, &err) < 0)
		log_warn("left-over sandbox stays", LOG_STR("sandbox", id), LOG_ERR(&err));
	else
		log_info("left-over sandbox removed", LOG_STR("sandbox", id));
}

/* Its keeper ended and nobody was there to tidy up after it, or was cut off while doing so. The
 * daemon may have recorded the end already, and then asks no more. */
static void finish_reap(const struct adoption *adoption, const char *id, int box,
                        struct box_meta *meta)
{
	struct box_process keeper;
	struct err err = {0};
	/* Without a keeper's name in it a launch was cut off: that the daemon undoes. */
	if (box_read_process(box, "keeper", &keeper) == -ENOENT)
		return;
	if (reap_run(adoption->site, id, true, &err) < 0)
		log_warn("an ended sandbox leaves something behind", LOG_STR("sandbox", id),
		         LOG_ERR(&err));
	else
		meta->slot = -1;
}

static int adopt_one(const char *id, void *ctx)
{
	struct adoption *adoption = ctx;
	struct box_meta meta = {.slot = -1};
	struct err err = {0};
	auto_close int box = box_open(adoption->site->state.sandboxes_fd, id);
	if (box < 0)
		return 0;
	if (box_read_meta(box, &meta) < 0 && !box_is_alive(box)) {
		adopt_without_meta(adoption, id, box);
		return 0;
	}
	if (box_is_alive(box)) {
		adoption->result.alive++;
	} else {
		adoption->result.dead++;
		finish_reap(adoption, id, box, &meta);
	}
	if (meta.slot >= 0 && slots_adopt(adoption->slots, (unsigned)meta.slot, id, &err) < 0)
		log_error("id range of a sandbox is in doubt", LOG_STR("sandbox", id),
		          LOG_ERR(&err));
	return 0;
}

/* A directory we cannot see may be deleted, or lie in a mount namespace that is not ours
 * (PrivateTmp, a container): what still runs is therefore never ended here, and its range stays
 * taken. A cgroup with a process in it refuses to go, which is the whole test. */
static bool is_ownerless_over(unsigned slot, const char *id, void *ctx)
{
	const struct adoption *adoption = ctx;
	const struct cgroup_layout *cgroups = &adoption->site->cgroups;
	int r = cgroups->version == 0 ? -EOPNOTSUPP : cgroup_remove(cgroups, id);
	if (r < 0 && r != -ENOENT)
		log_warn("a sandbox of a directory that is not to be seen runs on",
		         LOG_STR("sandbox", id), LOG_INT("errno", -r));
	return r >= 0 || r == -ENOENT;
}

int adopt_run(const struct site *site, struct slots *slots, struct adopted *ret, struct err *err)
{
	struct adoption adoption = {.site = site, .slots = slots};
	int r = box_each(site->state.sandboxes_fd, adopt_one, &adoption);
	if (r < 0)
		return err_sys(err, -r, "list the sandboxes");
	slots_each_stale(slots, is_ownerless_over, &adoption);
	*ret = adoption.result;
	return 0;
}
