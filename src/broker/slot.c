/*
 * Who: the broker's loop. Capabilities: none beyond writing /run/cloche. Bytes: link targets that
 * root made. Gone at the end: a freed slot's link.
 *
 * Order: `meta` is there (without a slot), then the link is made, then `meta` names the slot, then
 * a process gets an id of the range; the link goes after the last one is gone. So a link whose
 * directory has no `meta` belongs to a state directory that was deleted, or that we cannot see from
 * our mount namespace; its range may have processes, and slots_each_stale's caller says whether it
 * has. A link of our own that no `meta` names never had a process.
 */
#include "broker/slot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "os/path.h"

_Static_assert(SLOT_KEEPER_FIRST + LIMIT_SLOTS <= SLOT_RANGE_FIRST, "keeper uids are in no range");

void slots_init(struct slots *slots, int registry_fd, const char *state_path)
{
	*slots = (struct slots){.registry_fd = registry_fd};
	slots->sandboxes = mem_printf("%s/sandboxes", state_path);
}

void slots_done(struct slots *slots)
{
	fd_closep(&slots->registry_fd);
	mem_freep(&slots->sandboxes);
}

int slots_open_registry(void)
{
	auto_close int run = open("/run", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (run < 0)
		return -errno;
	auto_close int cloche = path_dir(run, "cloche", 0755);
	if (cloche < 0)
		return cloche;
	return path_dir(cloche, "slots", 0700);
}

static bool is_used(const struct slots *slots, unsigned slot)
{
	return slots->used[slot / 64] >> (slot % 64) & 1;
}

static void mark(struct slots *slots, unsigned slot, bool used)
{
	uint64_t bit = UINT64_C(1) << (slot % 64);
	if (used)
		slots->used[slot / 64] |= bit;
	else
		slots->used[slot / 64] &= ~bit;
}

static bool is_linked(const struct slots *slots, unsigned slot, const char *target)
{
	char name[16];
	(void)snprintf(name, sizeof(name), "%u", slot);
	auto_free char *found = mem_zalloc(LIMIT_PATH_LEN + 1);
	ssize_t len = readlinkat(slots->registry_fd, name, found, LIMIT_PATH_LEN);
	return len >= 0 && str_eq(found, target);
}

/* 0: ours now. -EEXIST: somebody else's. */
static int make_link(struct slots *slots, unsigned slot, const char *sandbox)
{
	if (slots->registry_fd < 0)
		return 0;
	char name[16];
	(void)snprintf(name, sizeof(name), "%u", slot);
	auto_free char *target = mem_printf("%s/%s", slots->sandboxes, sandbox);
	if (symlinkat(target, slots->registry_fd, name) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	return is_linked(slots, slot, target) ? 0 : -EEXIST;
}

int slots_find(const struct slots *slots, const char *sandbox)
{
	auto_free char *target = mem_printf("%s/%s", slots->sandboxes, sandbox);
	for (unsigned slot = 0; slots->registry_fd >= 0 && slot < LIMIT_SLOTS; slot++) {
		if (is_used(slots, slot) && is_linked(slots, slot, target))
			return (int)slot;
	}
	return -1;
}

int slots_take(struct slots *slots, const char *sandbox, unsigned *ret, struct err *err)
{
	for (unsigned tried = 0; tried < LIMIT_SLOTS; tried++) {
		unsigned slot = (slots->next + tried) % LIMIT_SLOTS;
		if (is_used(slots, slot))
			continue;
		int r = make_link(slots, slot, sandbox);
		if (r == -EEXIST)
			continue;
		if (r < 0)
			return err_sys(err, -r, "register id range %u", slot);
		mark(slots, slot, true);
		slots->next = (slot + 1) % LIMIT_SLOTS;
		*ret = slot;
		return 0;
	}
	return err_set(err, ERR_LIMITED, "all %d id ranges are in use", LIMIT_SLOTS);
}

int slots_adopt(struct slots *slots, unsigned slot, const char *sandbox, struct err *err)
{
	must(slot < LIMIT_SLOTS);
	int r = is_used(slots, slot) ? -EEXIST : make_link(slots, slot, sandbox);
	if (r == -EEXIST)
		return err_set(err, ERR_CONFLICT, "id range %u of sandbox %s is taken twice", slot,
		               sandbox);
	if (r < 0)
		return err_sys(err, -r, "register id range %u", slot);
	mark(slots, slot, true);
	return 0;
}

void slots_free(struct slots *slots, unsigned slot)
{
	must(slot < LIMIT_SLOTS);
	if (!is_used(slots, slot))
		return;
	mark(slots, slot, false);
	if (slots->registry_fd < 0)
		return;
	char name[16];
	(void)snprintf(name, sizeof(name), "%u", slot);
	/* A link that stays is found stale at the next start; nothing better can be done here. */
	(void)unlinkat(slots->registry_fd, name, 0);
}

void slots_free_all(struct slots *slots)
{
	for (unsigned slot = 0; slot < LIMIT_SLOTS; slot++)
		slots_free(slots, slot);
}

enum stale { STALE_NOT, STALE_EMPTY, STALE_MAYBE_BUSY };

/* What a link that is not in use here is; *ret_id is the end of target. */
static enum stale judge(const struct slots *slots, const char *name, char *target,
                        const char **ret_id)
{
	ssize_t len = readlinkat(slots->registry_fd, name, target, LIMIT_PATH_LEN);
	if (len <= 0)
		return STALE_NOT;
	target[len] = '\0';
	const char *slash = strrchr(target, '/');
	*ret_id = slash ? slash + 1 : target;
	auto_free char *meta = mem_printf("%s/meta", target);
	struct stat st;
	if (lstat(meta, &st) < 0)
		return (errno == ENOENT || errno == ENOTDIR) && id_is_valid(*ret_id, "sb")
		               ? STALE_MAYBE_BUSY
		               : STALE_NOT;
	size_t ours = strlen(slots->sandboxes);
	return strncmp(target, slots->sandboxes, ours) == 0 && slash == target + ours ? STALE_EMPTY
	                                                                              : STALE_NOT;
}

void slots_each_stale(struct slots *slots, bool (*fn)(unsigned slot, const char *id, void *ctx),
                      void *ctx)
{
	int copy =
		slots->registry_fd < 0 ? -1 : openat(slots->registry_fd, ".", O_RDONLY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		fd_closep(&copy);
		return;
	}
	auto_free char *target = mem_zalloc(LIMIT_PATH_LEN + 1);
	for (struct dirent *entry; (entry = readdir(dir));) {
		uint64_t slot;
		const char *id;
		if (str_to_u64(entry->d_name, &slot) < 0 || slot >= LIMIT_SLOTS ||
		    is_used(slots, (unsigned)slot))
			continue;
		enum stale stale = judge(slots, entry->d_name, target, &id);
		if (stale == STALE_EMPTY ||
		    (stale == STALE_MAYBE_BUSY && fn((unsigned)slot, id, ctx)))
			(void)unlinkat(slots->registry_fd, entry->d_name, 0); /* else: next start */
	}
	closedir(dir);
}
