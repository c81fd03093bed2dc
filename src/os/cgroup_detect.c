/*
 * Where groups can be made, from the mount table and our own membership. On v1 the root of each
 * hierarchy is preferred and our own group is taken where only that is writable (an ordinary user
 * who was handed one). On v2 it is the other way round: a service manager owns the root and
 * delegates.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "os/cgroup_internal.h"

enum { MOUNTINFO_BYTES = 4 * 1024 * 1024, SELF_BYTES = 64 * 1024, PATH_BYTES = 512 };

static const char *const controller_names[CGROUP_CONTROLLERS_] = {
	[CGROUP_MEMORY] = "memory", [CGROUP_CPU] = "cpu",         [CGROUP_CPUACCT] = "cpuacct",
	[CGROUP_PIDS] = "pids",     [CGROUP_FREEZER] = "freezer",
};

struct detection {
	const char *self_cgroup;
	const char *prefix;
	struct cgroup_layout v1;
	struct cgroup_layout v2;
};

struct mount_line {
	const char *root;
	char *point;
	const char *type;
	const char *super_options;
};

/* mountinfo writes blanks in names as \040. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* "36 25 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory" */
static bool parse_mount(char *line, struct mount_line *ret)
{
	const char *fields[5];
	char *tail = strstr(line, " - ");

	if (!tail)
		return false;
	*tail = '\0';
	tail += 3;
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		fields[i] = strsep(&line, " ");
	ret->root = fields[3];
	ret->point = (char *)fields[4];
	ret->type = strsep(&tail, " ");
	(void)strsep(&tail, " "); /* the source says nothing */
	ret->super_options = tail;
	if (!ret->root || !ret->point || !ret->super_options)
		return false;
	unescape(ret->point);
	return true;
}

/* Whether a list "a,b,c" of list_len bytes has the word. */
static bool has_word(const char *list, size_t list_len, char separator, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at <= list + list_len;) {
		const char *end = memchr(at, separator, (size_t)(list + list_len - at));
		if (!end)
			end = list + list_len;
		if ((size_t)(end - at) == len && memcmp(at, word, len) == 0)
			return true;
		at = end + 1;
	}
	return false;
}

/* Our group's path in the hierarchy of a controller ("" for v2), as in /proc/self/cgroup. */
static void own_group(const char *self_cgroup, const char *controller, char *out, size_t size)
{
	out[0] = '\0';
	for (const char *line = self_cgroup; line && *line;) {
		const char *next = strchr(line, '\n');
		size_t len = next ? (size_t)(next - line) : strlen(line);
		const char *names = memchr(line, ':', len);
		const char *path =
			names ? memchr(names + 1, ':', len - (size_t)(names + 1 - line)) : NULL;
		if (path && has_word(names + 1, (size_t)(path - names - 1), ',', controller)) {
			(void)snprintf(out, size, "%.*s", (int)(line + len - path - 1),
			               path + 1); /* a cut path is not writable */
			return;
		}
		line = next ? next + 1 : NULL;
	}
}

/* The own group as a path below the mount point; "" where the mount does not show it. */
static const char *below_mount(const char *group, const char *root)
{
	size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(group, root, len) != 0 || (group[len] && group[len] != '/'))
		return "";
	return strcmp(group + len, "/") == 0 ? "" : group + len;
}

static bool is_writable(const char *dir, const char *file)
{
	char path[PATH_BYTES];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, file);

	return n > 0 && (size_t)n < sizeof(path) &&
	       faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static bool make_path(char *out, size_t size, const struct detection *detection, const char *point,
                      const char *group)
{
	int n = snprintf(out, size, "%s%s%s", detection->prefix, point, group);

	return n > 0 && (size_t)n < size;
}

static void take_v1(struct detection *detection, const struct mount_line *mount)
{
	char group[PATH_BYTES];

	for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
		char *base = detection->v1.base[i];
		size_t size = sizeof(detection->v1.base[i]);

		if (detection->v1.has[i] ||
		    !has_word(mount->super_options, strlen(mount->super_options), ',',
		              controller_names[i]))
			continue;
		own_group(detection->self_cgroup, controller_names[i], group, sizeof(group));
		bool is_found = make_path(base, size, detection, mount->point, "") &&
		                is_writable(base, ".");
		if (!is_found)
			is_found = make_path(base, size, detection, mount->point,
			                     below_mount(group, mount->root)) &&
			           is_writable(base, ".");
		detection->v1.has[i] = is_found;
		if (!is_found)
			base[0] = '\0';
	}
}

static bool read_group_file(const char *dir, const char *file, char **ret)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t len;

	return fd >= 0 && io_read_file(fd, file, SELF_BYTES, ret, &len) == 0;
}

/* Processes we did not start keep a group from handing on controllers, and moving them away is
 * rude, except in a group that was delegated to us: then they are ours. */
static bool is_alone(const char *dir)
{
	auto_free char *text = NULL;

	if (!read_group_file(dir, "cgroup.procs", &text))
		return false;
	for (char *rest = text, *end = NULL;; rest = end) {
		long pid = strtol(rest, &end, 10);
		if (end == rest)
			return true;
		if (pid != getpid())
			return false;
	}
}

/* Fills v2 from one candidate; false if groups with a memory limit cannot be made there. */
static bool try_v2(struct cgroup_layout *v2, const char *dir)
{
	auto_free char *list = NULL;

	if (!is_writable(dir, ".") || !is_writable(dir, "cgroup.procs") ||
	    !is_writable(dir, "cgroup.subtree_control") ||
	    !read_group_file(dir, "cgroup.controllers", &list))
		return false;
	list[strcspn(list, "\n")] = '\0';
	size_t len = strlen(list);
	if (!has_word(list, len, ' ', "memory") && !has_word(list, len, ' ', "pids"))
		return false;
	if (!str_copy(v2->base[0], sizeof(v2->base[0]), dir))
		return false;
	for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
		v2->has[i] = has_word(list, len, ' ', controller_names[i]);
	v2->has[CGROUP_CPUACCT] = true; /* cpu.stat and cgroup.freeze are in every group */
	v2->has[CGROUP_FREEZER] = true;
	return true;
}

static void take_v2(struct detection *detection, const struct mount_line *mount)
{
	static const char leaf[] = "/" CGROUP_FOLDER "/" CGROUP_LEAF;
	char group[PATH_BYTES], root[PATH_BYTES], own[PATH_BYTES];

	own_group(detection->self_cgroup, "", group, sizeof(group));
	/* A broker started by a broker, or by hand from its leaf. */
	if (str_has_suffix(group, leaf))
		group[strlen(group) - strlen(leaf)] = '\0';
	if (!make_path(root, sizeof(root), detection, mount->point, "") ||
	    !make_path(own, sizeof(own), detection, mount->point, below_mount(group, mount->root)))
		return;
	bool is_root_ours = is_writable(root, "cgroup.procs");
	if (strcmp(own, root) != 0 && (!is_root_ours || is_alone(own)) &&
	    try_v2(&detection->v2, own))
		return;
	(void)try_v2(&detection->v2, root); /* what it found is in v2.base */
}

int cgroup_detect_from(const char *mountinfo, const char *self_cgroup, const char *prefix,
                       struct cgroup_layout *ret)
{
	auto_free char *copy = strdup(mountinfo);
	struct detection detection = {
		.self_cgroup = self_cgroup,
		.prefix = prefix ? prefix : "",
		.v1.version = 1,
		.v2.version = 2,
	};
	struct mount_line mount;

	if (!copy)
		return -ENOMEM;
	for (char *rest = copy; rest;) {
		if (!parse_mount(strsep(&rest, "\n"), &mount))
			continue;
		if (strcmp(mount.type, "cgroup") == 0)
			take_v1(&detection, &mount);
		else if (strcmp(mount.type, "cgroup2") == 0 && !detection.v2.base[0][0])
			take_v2(&detection, &mount);
	}
	/* A hybrid machine has its controllers in one of the two. */
	if (detection.v2.has[CGROUP_MEMORY] && !detection.v1.has[CGROUP_MEMORY])
		*ret = detection.v2;
	else if (detection.v1.has[CGROUP_MEMORY] || detection.v1.has[CGROUP_PIDS])
		*ret = detection.v1;
	else if (detection.v2.base[0][0])
		*ret = detection.v2;
	else
		*ret = (struct cgroup_layout){0};
	return 0;
}

int cgroup_detect(struct cgroup_layout *ret)
{
	auto_free char *mountinfo = NULL;
	auto_free char *self = NULL;
	size_t len;
	int r = io_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_BYTES, &mountinfo, &len);

	if (r == 0)
		r = io_read_file(AT_FDCWD, "/proc/self/cgroup", SELF_BYTES, &self, &len);
	return r < 0 ? r : cgroup_detect_from(mountinfo, self, NULL, ret);
}
