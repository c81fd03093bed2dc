/* Lines of /etc files, which root wrote: trusted bytes, still bounded. */
#include "broker/userdb.h"

#include <errno.h>
#include <fcntl.h>

#include "base/io.h"
#include "base/str.h"

enum { USERDB_FILE_MAX = 4 * 1024 * 1024, USERDB_FIXED_ID = 0x3ffe0000 };

/* Field `index` of the line, as a copy of at most size - 1 bytes; false when it does not fit. */
static bool field(const char *line, size_t index, char *out, size_t size)
{
	const char *end = line + strcspn(line, "\n");
	for (; index > 0; index--) {
		line = memchr(line, ':', (size_t)(end - line));
		if (!line)
			return false;
		line++;
	}
	size_t len = 0;
	while (line + len < end && line[len] != ':')
		len++;
	if (len >= size)
		return false;
	memcpy(out, line, len);
	out[len] = '\0';
	return true;
}

static bool number(const char *line, size_t index, uint32_t *ret)
{
	char text[16];
	uint64_t value;
	if (!field(line, index, text, sizeof(text)) || str_to_u64(text, &value) < 0 ||
	    value >= UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

bool userdb_account_in(const char *passwd, const char *name, struct userdb_account *ret)
{
	for (const char *line = passwd; *line; line = next_line(line)) {
		char text[64];
		uint32_t uid, gid;
		if (!field(line, 0, text, sizeof(text)) || !str_eq(text, name))
			continue;
		if (!number(line, 2, &uid) || !number(line, 3, &gid))
			return false;
		*ret = (struct userdb_account){uid, gid};
		return true;
	}
	return false;
}

int userdb_for_daemon(const char *name, bool must_exist, struct userdb_account *ret,
                      struct err *err)
{
	auto_free char *text = NULL;
	size_t len;
	int r = io_read_file(AT_FDCWD, "/etc/passwd", USERDB_FILE_MAX, &text, &len);
	if (r < 0 && r != -ENOENT)
		return err_sys(err, -r, "read /etc/passwd");
	if (!text || !userdb_account_in(text, name, ret)) {
		if (must_exist)
			return err_set(err, ERR_CONFIG,
			               "config.toml: [daemon] user '%s' is not in /etc/passwd",
			               name);
		*ret = (struct userdb_account){USERDB_FIXED_ID, USERDB_FIXED_ID};
	}
	if (ret->uid == 0 || ret->gid == 0)
		return err_set(err, ERR_CONFIG,
		               "config.toml: [daemon] user '%s' is root: cloched "
		               "never runs as root",
		               name);
	return 0;
}

bool userdb_subids_in(const char *text, const char *name, uid_t uid, uint32_t *ret_first,
                      uint32_t *ret_count)
{
	char digits[16];
	(void)snprintf(digits, sizeof(digits), "%u", (unsigned)uid);
	for (const char *line = text; *line; line = next_line(line)) {
		char who[64];
		if (!field(line, 0, who, sizeof(who)) ||
		    (!(name && str_eq(who, name)) && !str_eq(who, digits)))
			continue;
		if (number(line, 1, ret_first) && number(line, 2, ret_count) && *ret_count > 0)
			return true;
	}
	return false;
}

/* The login name of uid in passwd text, or false. */
static bool name_of(const char *passwd, uid_t uid, char *out, size_t size)
{
	for (const char *line = passwd; *line; line = next_line(line)) {
		uint32_t found;
		if (number(line, 2, &found) && found == uid)
			return field(line, 0, out, size);
	}
	return false;
}

bool userdb_subids(uid_t uid, struct userdb_subids *ret)
{
	auto_free char *passwd = NULL;
	auto_free char *subuid = NULL;
	auto_free char *subgid = NULL;
	size_t len;
	char name[64];
	bool has_name =
		io_read_file(AT_FDCWD, "/etc/passwd", USERDB_FILE_MAX, &passwd, &len) == 0 &&
		name_of(passwd, uid, name, sizeof(name));
	const char *who = has_name ? name : NULL;
	return io_read_file(AT_FDCWD, "/etc/subuid", USERDB_FILE_MAX, &subuid, &len) == 0 &&
	       io_read_file(AT_FDCWD, "/etc/subgid", USERDB_FILE_MAX, &subgid, &len) == 0 &&
	       userdb_subids_in(subuid, who, uid, &ret->uid_first, &ret->uid_count) &&
	       userdb_subids_in(subgid, who, uid, &ret->gid_first, &ret->gid_count);
}
