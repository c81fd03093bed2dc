#include "init/account.h"

#include <errno.h>
#include <fcntl.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/init.h"

enum { FILE_MAX = 1024 * 1024, FIELDS_MAX = 7, ID_MAX = 65535 };

/* Splits one line at its colons, in place. */
static size_t split(char *line, char *fields[FIELDS_MAX])
{
	size_t count = 0;
	while (line && count < FIELDS_MAX) {
		fields[count++] = line;
		line = strchr(line, ':');
		if (line)
			*line++ = 0;
	}
	return count;
}

static bool parse_id(const char *text, uint32_t *ret)
{
	uint64_t value;
	if (str_to_u64(text, &value) < 0 || value > ID_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

/* The line of `file` whose name (field 0) or number (field 2) is `wanted`. fields point into *text.
 */
static bool find_line(const char *file, const char *wanted, char **text, char *fields[FIELDS_MAX],
                      size_t *ret_count)
{
	size_t len;
	if (io_read_file(AT_FDCWD, file, FILE_MAX, text, &len) < 0)
		return false;
	for (char *line = *text; line;) {
		char *next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		*ret_count = split(line, fields);
		if (*ret_count >= 3 && (str_eq(fields[0], wanted) || str_eq(fields[2], wanted)))
			return true;
		line = next;
	}
	return false;
}

static bool find_user(const char *wanted, struct account *ret)
{
	auto_free char *text = NULL;
	char *fields[FIELDS_MAX];
	size_t count;
	if (!find_line("/etc/passwd", wanted, &text, fields, &count) || count < 7)
		return false;
	uint32_t uid, gid;
	if (!parse_id(fields[2], &uid) || !parse_id(fields[3], &gid))
		return false;
	if (!str_copy(ret->name, sizeof(ret->name), fields[0]) ||
	    !str_copy(ret->home, sizeof(ret->home), fields[5]) ||
	    !str_copy(ret->shell, sizeof(ret->shell), fields[6]))
		return false;
	ret->uid = uid;
	ret->gid = gid;
	return true;
}

/* Users every sandbox has, whatever its passwd says or lacks. */
static bool find_known(const char *wanted, struct account *ret)
{
	static const struct account known[] = {
		{.uid = 1000,
	         .gid = 1000,
	         .name = "agent",
	         .home = "/home/agent",
	         .shell = "/bin/sh"},
		{.uid = 0, .gid = 0, .name = "root", .home = "/root", .shell = "/bin/sh"},
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		char number[16];
		(void)snprintf(number, sizeof(number), "%u", known[i].uid);
		if (str_eq(wanted, known[i].name) || str_eq(wanted, number)) {
			*ret = known[i];
			return true;
		}
	}
	return false;
}

static bool find_group(const char *wanted, gid_t *ret)
{
	auto_free char *text = NULL;
	char *fields[FIELDS_MAX];
	size_t count;
	uint32_t gid;
	if (parse_id(wanted, &gid) ||
	    (find_line("/etc/group", wanted, &text, fields, &count) && parse_id(fields[2], &gid))) {
		*ret = gid;
		return true;
	}
	return false;
}

int account_find(const char *text, struct account *ret, struct err *err)
{
	*ret = (struct account){.home = "/", .shell = "/bin/sh"};
	char user[128];
	if (!str_copy(user, sizeof(user), text))
		return err_set(err, ERR_INVALID, "the user name is too long");
	char *group = strchr(user, ':');
	if (group)
		*group++ = 0;
	if (!find_user(user, ret) && !find_known(user, ret)) {
		uint32_t uid;
		if (!parse_id(user, &uid))
			return err_set(
				err, ERR_INVALID,
				"there is no user '%.80s' in this sandbox: use a name of its "
				"/etc/passwd or a number up to %d",
				user, ID_MAX);
		ret->uid = uid;
		ret->gid = uid;
	}
	if (group && !find_group(group, &ret->gid))
		return err_set(err, ERR_INVALID, "there is no group '%.80s' in this sandbox",
		               group);
	/* The image's files choose numbers: a command with init's could kill what watches over it.
	 */
	if (ret->uid == INIT_UID)
		return err_set(err, ERR_INVALID,
		               "the user number %d is taken by the sandbox itself", INIT_UID);
	return 0;
}
