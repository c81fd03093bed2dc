#include "cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "wire/wire.h"

enum { GRANT_TIMEOUT_MS = 10000, STOP_TIMEOUT_MS = 60000 };

int ask_mount_parse(const char *text, struct ask_mount *ret, struct err *err)
{
	const char *colon = strchr(text, ':');
	const char *second = colon == NULL ? NULL : strchr(colon + 1, ':');
	const char *mode = second == NULL ? "ro" : second + 1;

	if (colon == NULL || colon == text || (!str_eq(mode, "ro") && !str_eq(mode, "rw")))
		return err_set(err, ERR_INVALID, "'%s' is not SOURCE:TARGET[:ro|rw]", text);
	if (colon[1] != '/')
		return err_set(err, ERR_INVALID, "the target in '%s' is not an absolute path",
		               text);
	size_t target_len = second == NULL ? strlen(colon + 1) : (size_t)(second - colon - 1);

	*ret = (struct ask_mount){
		.source = mem_strndup(text, (size_t)(colon - text)),
		.target = mem_strndup(colon + 1, target_len),
		.read_only = str_eq(mode, "ro"),
	};
	return 0;
}

void ask_mount_done(struct ask_mount *mount)
{
	free(mount->source);
	free(mount->target);
	*mount = (struct ask_mount){0};
}

/* One question to the broker. *ret points into bytes (LIMIT_WIRE_BYTES). */
static int ask(const char *state_dir, const struct wire_out *out, uint8_t *bytes, int timeout_ms,
               struct wire_msg *ret, struct err *err)
{
	auto_free char *run = mem_printf("%s/run", state_dir);
	auto_close int run_fd = open(run, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int sock = run_fd < 0 ? -errno : wire_connect(run_fd, "broker.sock");

	if (sock == -ENOENT || sock == -ECONNREFUSED)
		return err_set(err, ERR_UNAVAILABLE, "no broker serves %s", state_dir);
	if (sock == -EACCES || sock == -EPERM)
		return err_set(err, ERR_FORBIDDEN, "you may not use the broker of %s", state_dir);
	if (sock < 0)
		return err_sys(err, -sock, "connect to the broker of %s", state_dir);
	return wire_call(sock, out, bytes, timeout_ms, ret, err);
}

/* The path as the kernel names it: what the user sees later must be what was granted. */
static void name_source(struct ask_mount *mount, int fd)
{
	char link[32], path[PATH_MAX];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */
	ssize_t len = readlink(link, path, sizeof(path) - 1);

	if (len <= 0)
		return;
	free(mount->source);
	mount->source = mem_strndup(path, (size_t)len);
}

int ask_grant(const char *state_dir, struct ask_mount *mount, struct err *err)
{
	auto_close int fd = open(mount->source, O_PATH | O_CLOEXEC);
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	auto_wire_out struct wire_out out;
	struct wire_msg answer;

	wire_begin(&out, WIRE_GRANT, 1);
	if (fd < 0)
		return err_sys(err, errno, "open %s", mount->source);
	name_source(mount, fd);
	wire_put_str(&out, FIELD_PATH, mount->source);
	wire_put_u64(&out, FIELD_READ_ONLY, mount->read_only);
	wire_put_fd(&out, fd);
	if (ask(state_dir, &out, bytes, GRANT_TIMEOUT_MS, &answer, err) < 0)
		return err_wrap(err, "grant %s", mount->source);
	bool fits =
		str_copy(mount->grant, sizeof(mount->grant), wire_str(&answer, FIELD_GRANT, ""));

	wire_msg_done(&answer);
	if (!fits || mount->grant[0] == '\0')
		return err_set(err, ERR_PROTOCOL, "the broker's answer has no grant");
	return 0;
}

int ask_stop_all(const char *state_dir, bool purge, struct err *err)
{
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	auto_wire_out struct wire_out out;
	struct wire_msg answer;

	wire_begin(&out, WIRE_STOP_ALL, 1);
	wire_put_u64(&out, FIELD_GRACE_MS, 0);
	wire_put_u64(&out, FIELD_PURGE, purge);
	if (ask(state_dir, &out, bytes, STOP_TIMEOUT_MS, &answer, err) < 0)
		return -1;
	wire_msg_done(&answer);
	return 0;
}
