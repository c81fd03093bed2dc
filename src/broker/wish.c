/*
 * Who: the broker's loop. Capabilities: whatever reopening a grant needs. Bytes: messages of
 * cloched through wire getters. Gone at the end: descriptors of grants that were not handed on.
 */
#include "broker/wish.h"

#include <fcntl.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/context.h"
#include "model/limits.h"
#include "model/spec.h"
#include "os/path.h"

static const struct {
	enum wire_field field;
	const char *limit;
} limit_fields[] = {
	{FIELD_MEMORY, "memory"},
	{FIELD_CPU_MILLI, "cpu"},
	{FIELD_PIDS, "pids"},
	{FIELD_DISK, "disk"},
	{FIELD_INODES, "inodes"},
	{FIELD_NOFILE, "nofile"},
	{FIELD_OUTPUT_RATE, "output_rate"},
};
_Static_assert(ARRAY_LEN(limit_fields) == WISH_LIMITS, "one value each");

int wish_limits(const struct wire_msg *msg, struct wish_limits *ret, struct err *err)
{
	for (size_t i = 0; i < WISH_LIMITS; i++) {
		const struct limit *limit = limits_find(limit_fields[i].limit);
		uint64_t value = wire_u64(msg, limit_fields[i].field, limit->otherwise);
		if (value < limit->least || value > limit->most)
			return err_set(err, ERR_INVALID, "%s is out of range", limit->name);
		ret->values[i] = value;
		ret->is_given[i] = wire_has(msg, limit_fields[i].field);
	}
	return 0;
}

void wish_put_limits(const struct wish_limits *limits, bool all, struct wire_out *out)
{
	for (size_t i = 0; i < WISH_LIMITS; i++)
		if (all || limits->is_given[i])
			wire_put_u64(out, limit_fields[i].field, limits->values[i]);
}

int wish_check_hostname(const char *name, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);
	if (len > 0 && len <= LIMIT_NAME_LEN && strspn(name, letters) == len)
		return 0;
	return err_set(err, ERR_INVALID, "malformed hostname");
}

/*
 * Why this is safe: the id has the shape of an id, no part of the way is a link, and what is there
 * are files that the daemon itself wrote; a sandbox can only read them. They count as root's, so
 * they are nobody's inside.
 */
static int open_bundle(struct broker *broker, const struct grant_use *use, struct grant *ret,
                       struct err *err)
{
	const struct state *state = &broker->site.state;
	auto_free char *path = mem_printf("store/bundles/%s", use->id);
	if (!use->read_only)
		return err_set(err, ERR_FORBIDDEN, "skills are mounted read-only");
	int fd = path_open_plain(state->dir_fd, path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return err_sys(err, -fd, "open the skills %s", use->id);
	*ret = (struct grant){.fd = fd, .read_only = true};
	(void)!str_copy(ret->id.text, sizeof(ret->id.text), use->id); /* a valid id fits */
	ret->path = mem_printf("%s/%s", state->path, path);
	return 0;
}

/* "grant TAB target TAB ro|rw" */
static int add_mount(struct broker *broker, const char *text, int box_fd,
                     struct wish_mounts *mounts, struct err *err)
{
	struct wish_mount *mount = &mounts->items[mounts->count];
	const char *target = strchr(text, '\t');
	const char *mode = target ? strchr(target + 1, '\t') : NULL;
	if (!mode || (!str_eq(mode + 1, "ro") && !str_eq(mode + 1, "rw")))
		return err_set(err, ERR_INVALID, "malformed mount");
	auto_free char *grant = mem_strndup(text, (size_t)(target - text));
	auto_free char *path = mem_strndup(target + 1, (size_t)(mode - target - 1));
	bool is_bundle = id_is_valid(grant, "sk");
	if (!is_bundle && !id_is_valid(grant, "gr"))
		return err_set(err, ERR_INVALID, "malformed grant id");
	if (spec_check_target(path, err) < 0)
		return -1;
	struct grant_use use = {grant, str_eq(mode + 1, "ro"), box_fd};
	int r = is_bundle ? open_bundle(broker, &use, &mount->grant, err)
	                  : grants_use(&broker->grants, &broker->site.state, &use, &mount->grant,
	                               err);
	if (r < 0)
		return -1;
	mounts->count++;
	(void)snprintf(mount->text, sizeof(mount->text), "%s\t%s\t%s", grant, path, mode + 1);
	return 0;
}

int wish_mounts_open(struct broker *broker, const struct wire_msg *msg, int box_fd,
                     struct wish_mounts *ret, struct err *err)
{
	size_t count = wire_count(msg, FIELD_MOUNT);
	*ret = (struct wish_mounts){0};
	if (count > LIMIT_MOUNTS)
		return err_set(err, ERR_INVALID, "more than %d mounts", LIMIT_MOUNTS);
	ret->items = mem_zalloc((count + 1) * sizeof(*ret->items));
	size_t at = 0;
	const char *text;
	while ((text = wire_next_str(msg, FIELD_MOUNT, &at)))
		if (add_mount(broker, text, box_fd, ret, err) < 0)
			return -1;
	return ret->count == count ? 0 : err_set(err, ERR_INVALID, "malformed mount");
}

int wish_mounts_record(const struct wish_mounts *mounts, int box_fd, struct err *err)
{
	auto_free struct grant *grants = mem_zalloc((mounts->count + 1) * sizeof(*grants));
	for (size_t i = 0; i < mounts->count; i++)
		grants[i] = mounts->items[i].grant;
	return grants_record(box_fd, grants, mounts->count, err);
}

void wish_mounts_put(const struct wish_mounts *mounts, struct wire_out *out)
{
	for (size_t i = 0; i < mounts->count; i++) {
		char owner[16];
		(void)snprintf(owner, sizeof(owner), "%u", (unsigned)mounts->items[i].grant.owner);
		wire_put_str(out, FIELD_MOUNT, mounts->items[i].text);
		wire_put_str(out, FIELD_SOURCE_UID, owner);
	}
}

void wish_mounts_put_fds(const struct wish_mounts *mounts, struct wire_out *out)
{
	for (size_t i = 0; i < mounts->count; i++)
		wire_put_fd(out, mounts->items[i].grant.fd);
}

void wish_mounts_give_back(struct wish_mounts *mounts, struct grants *grants)
{
	for (size_t i = 0; i < mounts->count; i++)
		grants_restore(grants, &mounts->items[i].grant);
	mounts->count = 0;
	wish_mounts_done(mounts);
}

void wish_mounts_done(struct wish_mounts *mounts)
{
	for (size_t i = 0; i < mounts->count; i++)
		grant_done(&mounts->items[i].grant);
	mounts->count = 0;
	mem_freep(&mounts->items);
}
