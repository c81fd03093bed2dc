#include "daemon/skills.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/spec.h"
#include "store/store.h"
#include "task/tasks.h"

enum { DEPTH = 4, STORED_BYTES = 2 * SKILL_BYTES, ID_DIGITS = 20, SWEEP_PAGE = 200 };

/* The bit says whose a folder is: what a task named is never replaced by what a project has. */
enum { MODE_NAMED = 0755, MODE_OF_PROJECT = 0775 };
/* Between the making of a folder and the row of the sandbox that has it. */
enum { YOUNG_S = 10 * 60 };

#define BUNDLES "store/bundles"

/* Where agents look: skills of plugins, those of most, and those of one that has its own place. */
static const char *const places[] = {
	"/scripts/plugins/cloche/skills",
	"/home/agent/.agents/skills",
	"/home/agent/.claude/skills",
};

static char *config_path(const struct skills *skills)
{
	const char *dir = skills->config->skills_dir;

	return dir[0] == '/' ? mem_strdup(dir) : mem_printf("%s/%s", skills->state, dir);
}

/* Of a team: an id, so it is safe in a path. */
static char *team_path(const struct skills *skills, const char *team)
{
	return mem_printf("%s/store/skills/%s", skills->state, team);
}

/* --- which there are --- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Entries of a folder that end so, without that end. One that is not there has none. */
static int list_folder(const char *path, const char *end, struct strings *ret, struct err *err)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	if (!dir && errno == ENOENT)
		return 0;
	if (!dir)
		return err_sys(err, errno, "read %s", path);
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
	while ((entry = readdir(dir))) {
		auto_free char *name = mem_strdup(entry->d_name);

		if (!str_has_suffix(name, end))
			continue;
		name[strlen(name) - strlen(end)] = '\0';
		if (skill_is_name(name) && !strings_has(ret, name) && ret->count < 2 * SKILL_MOST)
			strings_add(ret, name);
	}
	closedir(dir);
	return 0;
}

int skills_list(const struct skills *skills, const char *team, struct strings *ret, struct err *err)
{
	auto_free char *config = config_path(skills);
	auto_free char *own = team_path(skills, team);

	if (list_folder(config, "", ret, err) < 0 || list_folder(own, ".json", ret, err) < 0)
		return -1;
	if (ret->count > 1)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare_names);
	return 0;
}

/* --- folders of the operator --- */

static int add_folder(struct skill *skill, int dir_fd, const char *prefix, int depth,
                      struct err *err);

/* NOLINTNEXTLINE(misc-no-recursion): depth is counted */
static int add_entry(struct skill *skill, int dir_fd, const char *prefix, const char *name,
                     int depth, struct err *err)
{
	auto_free char *path = mem_printf("%s%s", prefix, name);
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_free char *bytes = NULL;
	struct stat st;
	size_t len = 0;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_INVALID, "'%.100s' cannot be read, or is a link", path);
	if (S_ISDIR(st.st_mode)) {
		auto_free char *below = mem_printf("%s/", path);

		return add_folder(skill, fd, below, depth + 1, err);
	}
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "'%.100s' is neither a file nor a folder", path);
	r = io_read_file(dir_fd, name, SKILL_BYTES, &bytes, &len);
	if (r == -EFBIG)
		return err_set(err, ERR_TOO_LARGE, "'%.100s' is too large for a skill", path);
	if (r < 0)
		return err_sys(err, -r, "read %s", path);
	return skill_add(skill, path, take_ptr(bytes), len, st.st_mode & S_IXUSR, err);
}

/* NOLINTNEXTLINE(misc-no-recursion): depth is counted */
static int add_folder(struct skill *skill, int dir_fd, const char *prefix, int depth,
                      struct err *err)
{
	int fd = depth < DEPTH ? openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		fd_closep(&fd);
		return err_set(err, ERR_INVALID, "'%.100s' cannot be read, or is too deep", prefix);
	}
	/* Hidden ones are an editor's or a version control's: they are no part of it. */
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
	while (r == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			r = add_entry(skill, dir_fd, prefix, entry->d_name, depth, err);
	}
	closedir(dir);
	return r;
}

static int load_folder(int dir_fd, const char *name, struct skill **ret, struct err *err)
{
	auto_(skill_freep) struct skill *skill = mem_new(struct skill);

	skill->source = "config";
	if (add_folder(skill, dir_fd, "", 0, err) < 0 || skill_check(skill, name, err) < 0)
		return err_wrap(err, "skill %s", name);
	*ret = take_ptr(skill);
	return 0;
}

/* --- those of the API: one file each --- */

static int take_file(struct skill *skill, const json_t *file, struct err *err)
{
	const char *path = json_string_value(json_object_get(file, "path"));
	const json_t *coded = json_object_get(file, "contentBase64");
	size_t size = json_string_length(coded), len = 0;
	char *bytes = mem_zalloc(size + 1);

	if (!path || !json_is_string(coded) ||
	    sodium_base642bin((uint8_t *)bytes, size, json_string_value(coded), size, NULL, &len,
	                      NULL, sodium_base64_VARIANT_ORIGINAL) != 0) {
		free(bytes);
		return err_set(err, ERR_IO, "a stored skill is damaged");
	}
	bytes[len] = '\0';
	return skill_add(skill, path, bytes, len, json_is_true(json_object_get(file, "program")),
	                 err);
}

static int load_stored(const char *path, const char *name, struct skill **ret, struct err *err)
{
	auto_(skill_freep) struct skill *skill = mem_new(struct skill);
	auto_free char *text = NULL;
	json_t *document, *file;
	size_t len, i;
	int r = io_read_file(AT_FDCWD, path, STORED_BYTES, &text, &len);

	if (r < 0)
		return err_sys(err, -r, "read the skill %s", name);
	skill->source = "api";
	document = json_loadb(text, len, 0, NULL);
	r = 0;
	json_array_foreach (json_object_get(document, "files"), i, file)
		r = r < 0 ? r : take_file(skill, file, err);
	json_decref(document);
	if (r < 0 || skill_check(skill, name, err) < 0)
		return err_wrap(err, "skill %s", name);
	*ret = take_ptr(skill);
	return 0;
}

static int refuse_unknown(const struct skills *skills, const char *team, const char *name,
                          struct err *err)
{
	struct strings names = {0};
	const char *near = NULL;
	char shown[80];

	str_escape(shown, sizeof(shown), name, strlen(name));
	if (skills_list(skills, team, &names, &(struct err){0}) == 0 && names.count > 0)
		near = opt_nearest(name, (const char *const *)names.items);
	(void)err_set(err, ERR_NOT_FOUND, "no skill '%s'%s%s%s", shown,
	              near ? " (did you mean '" : "", near ? near : "",
	              near ? "'?)" : ""); /* always -1 */
	strings_done(&names);
	return -1;
}

int skills_get(const struct skills *skills, const char *team, const char *name, struct skill **ret,
               struct err *err)
{
	auto_free char *config = config_path(skills);
	auto_free char *own = team_path(skills, team);
	auto_free char *file = mem_printf("%s/%.64s.json", own, name);
	auto_free char *folder = mem_printf("%s/%.64s", config, name);
	auto_close int dir_fd = -1;

	if (!skill_is_name(name))
		return refuse_unknown(skills, team, name, err);
	dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd >= 0)
		return load_folder(dir_fd, name, ret, err);
	if (access(file, F_OK) < 0)
		return refuse_unknown(skills, team, name, err);
	return load_stored(file, name, ret, err);
}

static json_t *encode(const struct skill *skill)
{
	json_t *files = json_array();

	for (size_t i = 0; i < skill->count; i++) {
		const struct skill_file *file = &skill->files[i];
		size_t size = sodium_base64_encoded_len(file->len, sodium_base64_VARIANT_ORIGINAL);
		auto_free char *text = mem_zalloc(size);

		sodium_bin2base64(text, size, (const uint8_t *)file->bytes, file->len,
		                  sodium_base64_VARIANT_ORIGINAL);
		json_array_append_new(files, json_pack("{s:s, s:s, s:b}", "path", file->path,
		                                       "contentBase64", text, "program",
		                                       file->is_program));
	}
	return json_pack("{s:o}", "files", files);
}

/* A folder of ours, made when it is missing; all above it are there. */
static int open_own(const struct skills *skills, const char *below, struct err *err)
{
	auto_free char *path = mem_printf("%s/%s", skills->state, below);
	int fd;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "make %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(err, errno, "open %s", path) : fd;
}

int skills_put(const struct skills *skills, const char *team, const struct skill *skill,
               struct err *err)
{
	auto_free char *config = config_path(skills);
	auto_free char *folder = mem_printf("%s/%s", config, skill->name);
	auto_free char *below = mem_printf("store/skills/%s", team);
	auto_free char *file = mem_printf("%s.json", skill->name);
	auto_free char *text = NULL;
	auto_close int all = -1, own = -1;
	struct strings names = {0};
	json_t *document;
	size_t count;
	int r;

	if (access(folder, F_OK) == 0)
		return err_set(err, ERR_CONFLICT, "the operator has a skill '%s'", skill->name);
	r = skills_list(skills, team, &names, err);
	count = names.count;
	strings_done(&names);
	if (r < 0)
		return -1;
	if (count >= SKILL_MOST)
		return err_set(err, ERR_LIMITED, "there are %zu skills already", count);
	all = open_own(skills, "store/skills", err);
	if (all < 0)
		return -1;
	own = open_own(skills, below, err);
	if (own < 0)
		return -1;
	document = encode(skill);
	text = json_dumps(document, JSON_COMPACT);
	json_decref(document);
	r = io_replace_file(own, file, text, strlen(text), 0600);
	return r < 0 ? err_sys(err, -r, "store the skill %s", skill->name) : 0;
}

int skills_remove(const struct skills *skills, const char *team, const char *name, struct err *err)
{
	auto_(skill_freep) struct skill *skill = NULL;
	auto_free char *own = team_path(skills, team);
	auto_free char *file = mem_printf("%s/%.64s.json", own, name);
	auto_close int dir = -1;

	if (!skill_is_name(name) || access(file, F_OK) < 0) {
		if (skills_get(skills, team, name, &skill, err) < 0)
			return -1;
		return err_set(err, ERR_CONFLICT,
		               "the skill '%s' is the operator's: it is removed in its folder",
		               name);
	}
	dir = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (unlink(file) < 0 || dir < 0 || fsync(dir) < 0)
		return err_sys(err, errno, "remove the skill %s", name);
	return 0;
}

/* --- bundles --- */

static int write_file(int dir_fd, const struct skill_file *file)
{
	auto_free char *path = mem_strdup(file->path);
	auto_close int fd = -1;
	int r;

	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdirat(dir_fd, path, 0700) < 0 && errno != EEXIST)
			return -errno;
		if (fchmodat(dir_fd, path, 0755, 0) < 0)
			return -errno;
		*slash = '/';
	}
	fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = io_write_all(fd, file->bytes, file->len);
	if (r == 0 && fchmod(fd, file->is_program ? 0555 : 0444) < 0)
		r = -errno;
	return r;
}

static int write_skill(int dir_fd, const char *name, const struct skill *skill, mode_t mode)
{
	auto_close int fd = -1;
	int r = 0;

	if (mkdirat(dir_fd, name, 0700) < 0)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, mode) < 0)
		return -errno;
	for (size_t i = 0; i < skill->count && r == 0; i++)
		r = write_file(fd, &skill->files[i]);
	return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as write_skill made it */
static void remove_tree(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
	while (dir && (entry = readdir(dir))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (unlinkat(fd, entry->d_name, 0) < 0)
			remove_tree(fd, entry->d_name);
	}
	if (dir)
		closedir(dir);
	else
		fd_closep(&fd);
	(void)unlinkat(dir_fd, name, AT_REMOVEDIR); /* what is left the next start tries again */
}

/* What it is called says what is in it. */
static void name_of(struct skill *const *list, size_t count, char ret[33])
{
	crypto_generichash_state state;
	uint8_t digest[32];
	char hex[2 * sizeof(digest) + 1];

	crypto_generichash_init(&state, NULL, 0, sizeof(digest));
	for (size_t i = 0; i < count; i++) {
		crypto_generichash_update(&state, (const uint8_t *)list[i]->name,
		                          strlen(list[i]->name) + 1);
		for (size_t k = 0; k < list[i]->count; k++) {
			const struct skill_file *file = &list[i]->files[k];
			uint64_t parts[2] = {file->len, file->is_program};

			crypto_generichash_update(&state, (const uint8_t *)file->path,
			                          strlen(file->path) + 1);
			crypto_generichash_update(&state, (const uint8_t *)parts, sizeof(parts));
			crypto_generichash_update(&state, (const uint8_t *)file->bytes, file->len);
		}
	}
	crypto_generichash_final(&state, digest, sizeof(digest));
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	(void)snprintf(ret, 33, "sk_%.*s", ID_DIGITS, hex); /* fits */
}

static int make_bundle(const struct skills *skills, struct skill *const *list, size_t count,
                       const char *ret, struct err *err)
{
	auto_close int bundles = open_own(skills, BUNDLES, err);
	const struct id temporary = id_new("tmp");
	auto_close int fd = -1;
	int r = 0;

	if (bundles < 0)
		return -1;
	if (utimensat(bundles, ret, NULL, AT_SYMLINK_NOFOLLOW) == 0) /* it is young again */
		return 0;
	if (mkdirat(bundles, temporary.text, 0700) < 0)
		return err_sys(err, errno, "lay skills out");
	fd = openat(bundles, temporary.text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0755) < 0)
		r = -errno;
	for (size_t i = 0; i < count && r == 0; i++)
		r = write_skill(fd, list[i]->name, list[i], MODE_NAMED);
	if (r == 0 && renameat(bundles, temporary.text, bundles, ret) < 0)
		r = -errno;
	if (r < 0) {
		remove_tree(bundles, temporary.text);
		return err_sys(err, -r, "lay skills out");
	}
	return 0;
}

/* As long as the id of the run has digits, and another one for every run. */
static void own_name(const char *run, char ret[33])
{
	(void)snprintf(ret, 33, SKILL_OWN_BUNDLE "%s",
	               strchr(run, '_') + 2); /* ids have one; it fits */
}

int skills_mount(const struct skills *skills, const struct tasks_skills *asked, struct spec *spec,
                 struct err *err)
{
	struct skill *list[SKILL_OF_TASK] = {NULL};
	struct strings sorted = {0};
	char bundle[33];
	int r = 0;

	if (asked->names->count > SKILL_OF_TASK)
		return err_set(err, ERR_INVALID, "more than %d skills", SKILL_OF_TASK);
	strings_copy(&sorted, asked->names);
	if (sorted.count > 1)
		qsort(sorted.items, sorted.count, sizeof(*sorted.items), compare_names);
	for (size_t i = 0; i < sorted.count && r == 0; i++)
		r = skills_get(skills, asked->team, sorted.items[i], &list[i], err);
	if (r == 0 && asked->run)
		own_name(asked->run, bundle);
	else if (r == 0)
		name_of(list, sorted.count, bundle);
	if (r == 0)
		r = make_bundle(skills, list, sorted.count, bundle, err);
	for (size_t i = 0; i < ARRAY_LEN(places) && r == 0; i++)
		spec_add_mount(spec, "skills", bundle, places[i], true);
	for (size_t i = 0; i < sorted.count; i++)
		skill_free(list[i]);
	strings_done(&sorted);
	return r;
}

/* --- skills of projects --- */

/* What is there and is a project's, but not in the list, goes. */
static void remove_others(int bundle, struct skill *const *list, size_t count)
{
	int fd = openat(bundle, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat st;

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
	while (dir && (entry = readdir(dir))) {
		bool is_listed = entry->d_name[0] == '.' && !str_has_prefix(entry->d_name, ".tmp_");

		for (size_t i = 0; i < count && !is_listed; i++)
			is_listed = str_eq(entry->d_name, list[i]->name);
		if (!is_listed && fstatat(bundle, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (st.st_mode & 07777) != MODE_NAMED)
			remove_tree(bundle, entry->d_name);
	}
	if (dir)
		closedir(dir);
	else
		fd_closep(&fd);
}

/* Whole or not at all. */
static int put_skill(int bundle, const struct skill *skill)
{
	const struct id id = id_new("tmp");
	auto_free char *temporary = mem_printf(".%s", id.text);
	struct stat st;
	int r;

	if (fstatat(bundle, skill->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (st.st_mode & 07777) == MODE_NAMED)
		return 0;
	r = write_skill(bundle, temporary, skill, MODE_OF_PROJECT);
	if (r == 0) {
		remove_tree(bundle, skill->name);
		r = renameat(bundle, temporary, bundle, skill->name) < 0 ? -errno : 0;
	}
	if (r < 0)
		remove_tree(bundle, temporary);
	return r;
}

int skills_fill(const struct skills *skills, const char *bundle, struct skill *const *list,
                size_t count, struct err *err)
{
	auto_free char *below = mem_printf(BUNDLES "/%s", bundle);
	auto_close int fd = -1;
	int r = 0;

	if (!str_has_prefix(bundle, SKILL_OWN_BUNDLE) || !id_is_valid(bundle, "sk"))
		return err_set(err, ERR_INVALID, "'%.32s' is no folder of one run", bundle);
	fd = open_own(skills, below, err);
	if (fd < 0)
		return -1;
	remove_others(fd, list, count);
	for (size_t i = 0; i < count && r == 0; i++)
		r = put_skill(fd, list[i]);
	return r < 0 ? err_sys(err, -r, "lay skills out") : 0;
}

/* --- sweeping --- */

static void note_used(const struct sandbox *sandbox, struct strings *used)
{
	for (size_t i = 0; i < sandbox->spec.mount_count; i++) {
		const char *grant = sandbox->spec.mounts[i].grant;

		if (grant && str_has_prefix(grant, "sk_") && !strings_has(used, grant))
			strings_add(used, grant);
	}
}

static int list_used(const struct skills *skills, struct strings *used, struct err *err)
{
	auto_free char *cursor = NULL;
	struct sandbox_page page;

	do {
		struct sandbox_filter filter = {.limit = SWEEP_PAGE, .cursor = cursor};

		page = (struct sandbox_page){0};
		if (store_sandbox_list(skills->store, &filter, &page, err) < 0)
			return -1;
		for (size_t i = 0; i < page.count; i++)
			note_used(page.items[i], used);
		mem_freep(&cursor);
		cursor = take_ptr(page.next_cursor);
		sandbox_page_done(&page);
	} while (cursor);
	return 0;
}

static bool is_old(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (int64_t)st.st_mtim.tv_sec + YOUNG_S < (int64_t)(io_real_ms() / 1000);
}

void skills_sweep(const struct skills *skills)
{
	struct err err = {0};
	auto_close int bundles = open_own(skills, BUNDLES, &err);
	int again = bundles < 0 ? -1 : fcntl(bundles, F_DUPFD_CLOEXEC, 3);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct strings used = {0};
	const struct dirent *entry;

	if (dir && list_used(skills, &used, &err) == 0) {
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
		while ((entry = readdir(dir))) {
			if (entry->d_name[0] != '.' && !strings_has(&used, entry->d_name) &&
			    is_old(bundles, entry->d_name))
				remove_tree(bundles, entry->d_name);
		}
	}
	if (dir)
		closedir(dir);
	else
		fd_closep(&again);
	if (err.code != ERR_OK)
		log_warn("skills of sandboxes that are gone stay", LOG_ERR(&err));
	strings_done(&used);
}
