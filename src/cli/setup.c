/*
 * `cloche setup`: what a state directory needs before it is served for the first time, and only
 * what is missing. As root, the daemon's own files are given to the account it will run as.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "model/config.h"

enum {
	SEED_BYTES = 32,
	PASSWD_MAX = 4 * 1024 * 1024,
	DAEMON_UID = 0x3ffe0000, /* where no account of that name exists */
};

struct setup {
	struct cli *cli;
	int dir_fd;
	json_t *changed;
};

static int make_dirs(const char *path)
{
	auto_free char *copy = mem_strdup(path);

	for (char *slash = copy; (slash = strchr(slash + 1, '/')) != NULL;) {
		*slash = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(copy, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static void note(struct setup *setup, const char *name)
{
	auto_free char *path = mem_printf("%s/%s", setup->cli->state_dir, name);

	/* A path that is no UTF-8 is still a change. */
	if (json_array_append_new(setup->changed, json_string(path)) < 0)
		(void)json_array_append_new(setup->changed, json_string(name));
}

static bool is_there(const struct setup *setup, const char *name)
{
	struct stat st;

	return fstatat(setup->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int write_config(struct setup *setup)
{
	auto_free char *text = config_default_text();

	if (is_there(setup, "config.toml"))
		return 0;
	int r = io_replace_file(setup->dir_fd, "config.toml", text, strlen(text), 0644);

	if (r < 0)
		return err_sys(&setup->cli->err, -r, "write config.toml");
	note(setup, "config.toml");
	return 0;
}

/* uid and gid of an account by the file itself: no NSS in a static program. */
static bool find_account(const char *passwd, const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	size_t len = strlen(name);

	for (const char *line = passwd; line != NULL && *line != '\0';) {
		unsigned uid, gid;

		if (strncmp(line, name, len) == 0 && line[len] == ':' &&
		    sscanf(line + len, ":%*[^:]:%u:%u:", &uid, &gid) == 2) {
			*ret_uid = uid;
			*ret_gid = gid;
			return true;
		}
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
	return false;
}

static int find_owner(struct setup *setup, uid_t *ret_uid, gid_t *ret_gid)
{
	auto_(config_done) struct config config;
	auto_free char *passwd = NULL;
	size_t len;

	config_init(&config);
	*ret_uid = *ret_gid = DAEMON_UID;
	if (config_load(&config, setup->dir_fd, "config.toml", &setup->cli->err) < 0)
		return -1;
	/* Without the file nobody has a name: the fixed uid it is. */
	if (io_read_file(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &passwd, &len) < 0)
		return 0;
	if (!find_account(passwd, config.daemon_user, ret_uid, ret_gid) && config.has_daemon_user)
		return err_set(&setup->cli->err, ERR_CONFIG,
		               "config.toml: there is no account '%s'", config.daemon_user);
	return 0;
}

static int give(struct setup *setup, int fd, const char *name)
{
	uid_t uid;
	gid_t gid;

	if (geteuid() != 0)
		return 0;
	if (find_owner(setup, &uid, &gid) < 0)
		return -1;
	if (fchown(fd, uid, gid) < 0)
		return err_sys(&setup->cli->err, errno, "give %s to the daemon", name);
	return 0;
}

static int open_keys(struct setup *setup)
{
	bool is_new = mkdirat(setup->dir_fd, "keys", 0700) == 0;
	auto_close int fd =
		openat(setup->dir_fd, "keys", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(&setup->cli->err, errno, "open keys");
	if (is_new && give(setup, fd, "keys") < 0)
		return -1;
	return take_fd(&fd);
}

static int write_key(struct setup *setup)
{
	uint8_t seed[SEED_BYTES];
	auto_close int keys_fd = open_keys(setup);
	struct err *err = &setup->cli->err;

	if (keys_fd < 0)
		return -1;
	if (is_there(setup, "keys/signing.key"))
		return 0;
	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return err_sys(err, errno, "make a key");
	int r = io_replace_file(keys_fd, "signing.key", seed, sizeof(seed), 0600);

	explicit_bzero(seed, sizeof(seed));
	if (r < 0)
		return err_sys(err, -r, "write keys/signing.key");
	auto_close int fd = openat(keys_fd, "signing.key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, errno, "open keys/signing.key");
	note(setup, "keys/signing.key");
	return give(setup, fd, "keys/signing.key");
}

static void print_changes(const struct setup *setup)
{
	size_t index;
	json_t *path;
	auto_json json_t *answer = json_pack("{s:s, s:O}", "stateDir", setup->cli->state_dir,
	                                     "changed", setup->changed);

	if (answer != NULL && output_json(setup->cli, answer))
		return;
	json_array_foreach (setup->changed, index, path) {
		auto_free char *line = mem_printf("wrote %s", json_string_value(path));

		output_line(line);
	}
	if (json_array_size(setup->changed) == 0)
		(void)puts("everything is there; nothing changed");
}

int cmd_setup(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *changed = NULL;

	if (r <= 0)
		return r;
	r = make_dirs(cli->state_dir);
	if (r < 0)
		return err_sys(&cli->err, -r, "make %s", cli->state_dir);
	auto_close int dir_fd = open(cli->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return err_sys(&cli->err, errno, "open %s", cli->state_dir);
	changed = json_array();
	struct setup setup = {.cli = cli, .dir_fd = dir_fd, .changed = changed};

	if (write_config(&setup) < 0 || write_key(&setup) < 0)
		return -1;
	print_changes(&setup);
	return 0;
}
