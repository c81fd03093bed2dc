/* What a request may ask for: names, users, paths, env, labels, mounts. */
#include "harness/test.h"

#include "base/limits.h"
#include "base/mem.h"
#include "model/entry.h"
#include "model/spec.h"
#include "model/user.h"

#define GRANT "gr_01jd3q8k2v9m4x7c5t0z"

static struct err err;

/* The message of a refused spec, "" when it is valid. Frees it. */
static const char *validate(struct spec *spec)
{
	int r;

	err = (struct err){0};
	r = spec_validate(spec, &err);
	spec_done(spec);
	return r < 0 ? err.msg : "";
}

static const char *with(size_t offset, const char *text)
{
	struct spec spec;

	spec_init(&spec);
	spec_set((char **)((char *)&spec + offset), text);
	return validate(&spec);
}

#define WITH(field, text) with(offsetof(struct spec, field), text)

TEST(built_in_spec_is_valid)
{
	struct spec spec;

	spec_init(&spec);
	CHECK_STR(spec.image, "host");
	CHECK_STR(spec.user, "agent");
	CHECK_STR(spec.cwd, "/workspace");
	CHECK_INT(spec.ttl_ms, 0);
	CHECK_STR(validate(&spec), "");
}

TEST(names)
{
	CHECK_STR(WITH(name, "web-1.test_x"), "");
	CHECK_STR(WITH(name, "Web"),
	          "name 'Web': at most 63 of a-z 0-9 . _ -, the first a letter or digit");
	CHECK_HAS(WITH(name, "-web"), "name '-web'");
	CHECK_HAS(WITH(name, "a/b"), "name 'a/b'");
	CHECK_HAS(WITH(name, "sb_01jd3q8k2v9m4x7c5t0z"), "has the form of an id");
	CHECK_STR(WITH(image, "No Image"), "image 'No Image' is not a name");
	CHECK_STR(WITH(image, ""), "image '' is not a name");
}

TEST(users)
{
	struct user_ref user;

	CHECK_STR(WITH(user, "root"), "");
	CHECK_INT(user_parse("agent", &user, &err), 0);
	CHECK_STR(user.name, "agent");
	CHECK_INT(user_parse("1001", &user, &err), 0);
	CHECK_STR(user.name, "");
	CHECK_INT(user.uid, 1001);
	CHECK(!user.has_gid);
	CHECK_INT(user_parse("0:50", &user, &err), 0);
	CHECK_INT(user.uid, 0);
	CHECK(user.has_gid);
	CHECK_INT(user.gid, 50);
	CHECK_STR(WITH(user, "Root!"), "user 'Root!' is neither a name, nor uid, nor uid:gid");
	CHECK_STR(WITH(user, "70000"), "user: uid '70000' is not a number from 0 to 65534");
	CHECK_STR(WITH(user, "1:70000"), "user: gid '70000' is not a number from 0 to 65534");
	CHECK_STR(WITH(user, "1:"), "user: gid '' is not a number from 0 to 65534");
	CHECK_STR(WITH(user, "1:2:3"), "user: gid '2:3' is not a number from 0 to 65534");
	CHECK_STR(WITH(user, "60999"), "user: uid 60999 is reserved for the sandbox's init");
	CHECK_HAS(WITH(user, "123456789012345678901234567890"), "is not a number from 0 to 65534");
	CHECK_HAS(WITH(user, "abcdefghijabcdefghijabcdefghijabcd"), "is neither a name");
	CHECK_HAS(WITH(user, "agent:agent"), "is neither a name");
}

TEST(paths)
{
	auto_free char *longest = mem_zalloc(LIMIT_PATH_LEN + 2);

	CHECK_STR(WITH(cwd, "/"), "");
	CHECK_STR(WITH(cwd, "/a/b.c"), "");
	CHECK_STR(WITH(cwd, "work"), "cwd 'work' is not an absolute path");
	CHECK_STR(WITH(cwd, "/a/../b"), "cwd '/a/../b' has an empty, '.' or '..' part");
	CHECK_STR(WITH(cwd, "/a//b"), "cwd '/a//b' has an empty, '.' or '..' part");
	CHECK_STR(WITH(cwd, "/a/"), "cwd '/a/' has an empty, '.' or '..' part");
	CHECK_STR(WITH(cwd, "/."), "cwd '/.' has an empty, '.' or '..' part");
	CHECK_STR(WITH(cwd, "/a\nb"), "cwd '/a\\nb' has a control character");
	memset(longest, 'a', LIMIT_PATH_LEN + 1);
	longest[0] = '/';
	CHECK_STR(WITH(cwd, longest), "cwd has 4096 bytes, more than 4095");
	longest[LIMIT_PATH_LEN] = '\0';
	CHECK_STR(WITH(cwd, longest), "");
}

TEST(choices)
{
	CHECK_STR(WITH(runtime, "docker"), "runtime 'docker' is not known here, which has: native");
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_STR(WITH(network, "Full!"), "network 'Full!' is not the name of an environment");
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_STR(WITH(disk_backend, "tape"), "disk backend 'tape' is not known here");
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_STR(WITH(disk_backend, "tmpfs"), "");
	CHECK_STR(WITH(runtime, NULL), "runtime is missing");
	CHECK_STR(WITH(hostname, "box-1"), "");
	CHECK_STR(WITH(hostname, "box.1"), "hostname: at most 63 letters, digits and '-'");
	CHECK_STR(WITH(hostname, "-box"), "hostname: at most 63 letters, digits and '-'");
}

static const char *with_mount(const char *grant, const char *target)
{
	struct spec spec;

	spec_init(&spec);
	spec_add_mount(&spec, "/src", GRANT, "/first", false);
	spec_add_mount(&spec, "/src", grant, target, true);
	return validate(&spec);
}

TEST(mounts)
{
	CHECK_STR(with_mount(GRANT, "/workspace"), "");
	CHECK_STR(with_mount(GRANT, "/process"), "");
	CHECK_STR(with_mount(GRANT, "/"), "mount target '/' would hide the whole image");
	CHECK_STR(with_mount(GRANT, "/proc"),
	          "mount target '/proc' would change the sandbox's own /proc");
	CHECK_STR(with_mount(GRANT, "/dev/shm"),
	          "mount target '/dev/shm' would change the sandbox's own /dev");
	CHECK_STR(with_mount(GRANT, "/sys/fs"),
	          "mount target '/sys/fs' would change the sandbox's own /sys");
	CHECK_STR(with_mount(GRANT, "/run"),
	          "mount target '/run' would change the sandbox's own /run/cloche");
	CHECK_STR(with_mount(GRANT, "/first"), "mount target '/first' is given twice");
	CHECK_STR(with_mount(GRANT, "here"), "mount target 'here' is not an absolute path");
	CHECK_STR(with_mount(GRANT, "/a/../proc"),
	          "mount target '/a/../proc' has an empty, '.' or '..' part");
	CHECK_STR(with_mount(GRANT, NULL), "mount 2 has no target");
	CHECK_STR(with_mount("gr_x", "/a"), "mount '/a' names no valid grant");
	CHECK_STR(with_mount(NULL, "/a"), "mount '/a' names no valid grant");
}

TEST(too_many_mounts)
{
	struct spec spec;

	spec_init(&spec);
	for (int i = 0; i <= LIMIT_MOUNTS; i++)
		spec_add_mount(&spec, "/src", GRANT, "/x", false);
	CHECK_STR(validate(&spec), "17 mounts are more than 16");
}

static const char *with_env(const char *first, const char *second)
{
	struct spec spec;

	spec_init(&spec);
	strings_add(&spec.env, first);
	strings_add(&spec.env, second);
	return validate(&spec);
}

TEST(environment)
{
	CHECK_STR(with_env("A=1", "_b2="), "");
	CHECK_HAS(with_env("A=1", "2B=x"), "environment variable '2B': a name is letters");
	CHECK_HAS(with_env("A=1", "=x"), "environment variable ''");
	CHECK_HAS(with_env("A=1", "B-C=secret"), "environment variable 'B-C'");
	CHECK(strstr(err.msg, "secret") == NULL);
	CHECK_STR(with_env("A=1", "B"), "environment variable 'B' has no value: write B=value");
	CHECK_STR(with_env("A=1", "A=2"), "environment variable 'A' is given twice");
}

TEST(environment_is_bounded)
{
	auto_free char *big = mem_zalloc(LIMIT_ARGV_BYTES + 8);
	struct spec spec;

	spec_init(&spec);
	memset(big, 'x', LIMIT_ARGV_BYTES + 4);
	big[1] = '=';
	strings_add(&spec.env, big);
	CHECK_HAS(validate(&spec), "the environment has");
	CHECK_INT(err.code, ERR_TOO_LARGE);
	spec_init(&spec);
	for (int i = 0; i <= LIMIT_ENV; i++)
		strings_take(&spec.env, mem_printf("V%d=", i));
	CHECK_STR(validate(&spec), "513 environment variables are more than 512");
}

static const char *with_label(const char *label)
{
	struct spec spec;

	spec_init(&spec);
	strings_add(&spec.labels, "team=one");
	strings_add(&spec.labels, label);
	return validate(&spec);
}

TEST(labels)
{
	CHECK_STR(with_label("app.example/part=web"), "");
	CHECK_STR(with_label("empty="), "");
	CHECK_STR(with_label("a=\xc3\xa9"), "");
	CHECK_STR(with_label("nothing"), "label 'nothing' has no value: write key=value");
	CHECK_HAS(with_label("Team=x"), "label 'Team=x': a key is at most 63 of");
	CHECK_HAS(with_label("-a=x"), "label '-a=x': a key is at most 63 of");
	CHECK_HAS(with_label("=x"), "a key is at most");
	CHECK_HAS(with_label("a=\n"), "a value is at most 255 bytes");
	CHECK_HAS(with_label("a=\xff"), "a value is at most 255 bytes");
	CHECK_STR(with_label("team=two"), "label 'team' is given twice");
}

TEST(ttl)
{
	CHECK_INT(spec_check_ttl(0, &err), 0);
	CHECK_INT(spec_check_ttl(1000, &err), 0);
	CHECK_INT(spec_check_ttl(999, &err), -1);
	CHECK_STR(err.msg, "ttl 999ms is below the least of 1s");
	CHECK_INT(spec_check_ttl(UINT64_MAX, &err), -1);
	CHECK_HAS(err.msg, "is above the most of 365d");
}
