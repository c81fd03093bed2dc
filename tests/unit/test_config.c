/* config.toml: what is read, and the exact words for what is refused. */
#include "harness/test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"

static struct err err;

/* The message for a text, "" when it is fine. */
static const char *parse(const char *text)
{
	struct config config;
	int r;

	err = (struct err){0};
	config_init(&config);
	r = config_parse(&config, "config.toml", text, strlen(text), &err);
	config_done(&config);
	if (r < 0)
		CHECK_INT(err.code, ERR_CONFIG);
	return r < 0 ? err.msg : "";
}

static void apply(struct config *config, const char *text)
{
	if (config_parse(config, "config.toml", text, strlen(text), &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
}

#define P "[sandboxes.default]\n"

TEST(built_in)
{
	struct config config;

	config_init(&config);
	CHECK_INT(config.profile_count, 1);
	CHECK_STR(config.daemon_user, "cloche");
	CHECK(!config.has_daemon_user);
	CHECK_INT(config.log_level, LOG_LEVEL_INFO);
	CHECK(config_profile(&config, "default") == &config.profiles[0]);
	CHECK_INT(spec_validate(&config.profiles[0].spec, &err), 0);
	config_done(&config);
}

TEST(every_key_is_read)
{
	static const char text[] = "[daemon]\n"
				   "user = \"agentd\"\n"
				   "log_level = \"debug\"\n"
				   "[sandboxes.big]\n"
				   "runtime = \"native\"\n"
				   "image = \"debian\"\n"
				   "memory = \"4G\"\n"
				   "cpu = 1.5\n"
				   "pids = 100\n"
				   "disk = 1073741824\n"
				   "inodes = 1000\n"
				   "nofile = 64\n"
				   "output_rate = \"1M/s\"\n"
				   "disk_backend = \"tmpfs\"\n"
				   "network = \"none\"\n"
				   "ttl = \"30m\"\n"
				   "pool = 3\n"
				   "degraded = true\n"
				   "user = \"1000:1000\"\n"
				   "cwd = \"/src\"\n"
				   "env = { LANG = \"C.UTF-8\", TZ = \"UTC\" }\n";
	const struct profile *profile;
	struct config config;

	config_init(&config);
	CHECK_INT(config_parse(&config, "config.toml", text, strlen(text), &err), 0);
	CHECK_STR(config.daemon_user, "agentd");
	CHECK(config.has_daemon_user);
	CHECK_INT(config.log_level, LOG_LEVEL_DEBUG);
	CHECK_INT(config_find_profile(&config, "big", &profile, &err), 0);
	CHECK_STR(profile->spec.profile, "big");
	CHECK_STR(profile->spec.image, "debian");
	CHECK_INT(profile->spec.limits.memory, 4ULL << 30);
	CHECK_INT(profile->spec.limits.cpu_milli, 1500);
	CHECK_INT(profile->spec.limits.pids, 100);
	CHECK_INT(profile->spec.limits.disk, 1 << 30);
	CHECK_INT(profile->spec.limits.inodes, 1000);
	CHECK_INT(profile->spec.limits.nofile, 64);
	CHECK_INT(profile->spec.limits.output_rate, 1 << 20);
	CHECK_STR(profile->spec.disk_backend, "tmpfs");
	CHECK_INT(profile->spec.ttl_ms, 30 * 60 * 1000);
	CHECK_INT(profile->pool, 3);
	CHECK(profile->spec.degraded);
	CHECK_STR(profile->spec.user, "1000:1000");
	CHECK_STR(profile->spec.cwd, "/src");
	CHECK_STR(strings_value(&profile->spec.env, "TZ"), "UTC");
	CHECK_INT(config_profile(&config, "default")->spec.limits.memory, 2ULL << 30);
	config_done(&config);
}

TEST(unknown_keys_are_errors_with_a_line_and_a_guess)
{
	CHECK_STR(parse(P "memroy = \"1G\"\n"),
	          "config.toml:2: unknown key 'memroy' in [sandboxes.default] (did you mean "
	          "'memory'?)");
	CHECK_STR(parse("\n\n" P "image = \"host\"\n\n# x\ncolour = 3\n"),
	          "config.toml:7: unknown key 'colour' in [sandboxes.default]");
	CHECK_STR(parse("[sandbox.default]\n"),
	          "config.toml:1: unknown key 'sandbox' (did you mean 'sandboxes'?)");
	CHECK_STR(parse("[daemon]\nusr = \"x\"\n"),
	          "config.toml:2: unknown key 'usr' in [daemon] (did you mean 'user'?)");
	CHECK_STR(parse("memory = 3\n"), "config.toml:1: unknown key 'memory'");
	CHECK_STR(parse(P "name = \"web\"\n"),
	          "config.toml:2: unknown key 'name' in [sandboxes.default]");
	CHECK_STR(parse(P "\"a\\nb\" = 1\n"),
	          "config.toml:2: unknown key 'a\\nb' in [sandboxes.default]");
}

TEST(wrong_types)
{
	CHECK_HAS(parse(P "memory = true\n"), "config.toml:2: 'memory' is ");
	CHECK_HAS(err.msg, "expected a number or a string");
	CHECK_HAS(parse(P "image = 3\n"), "config.toml:2: 'image' is ");
	CHECK_HAS(err.msg, "expected a string");
	CHECK_HAS(parse(P "degraded = \"yes\"\n"), "expected true or false");
	CHECK_HAS(parse(P "pool = \"3\"\n"), "expected a whole number");
	CHECK_HAS(parse(P "env = \"A=1\"\n"), "expected a table { NAME = \"value\" }");
	CHECK_HAS(parse(P "env = { A = 1 }\n"), "'A' is ");
	CHECK_HAS(parse("daemon = 3\n"), "config.toml:1: 'daemon' is ");
	CHECK_HAS(parse("sandboxes = []\n"), "config.toml:1: 'sandboxes' is ");
	CHECK_HAS(parse("[sandboxes]\ndefault = 1\n"), "expected a table [sandboxes.NAME]");
	CHECK_HAS(parse("[[sandboxes.default]]\nmemory = 1\n"), "config.toml:");
	CHECK_HAS(parse("[daemon]\nuser = 5\n"), "config.toml:2: 'user' is ");
	CHECK_HAS(parse("[daemon]\nlog_level = 5\n"), "config.toml:2: 'log_level' is ");
}

TEST(values_out_of_range)
{
	CHECK_STR(parse(P "memory = \"1K\"\n"),
	          "config.toml:2: memory 1K is below the least of 4M");
	CHECK_STR(parse(P "memory = 1\n"), "config.toml:2: memory 1 is below the least of 4M");
	CHECK_STR(parse(P "memory = -1\n"), "config.toml:2: memory -1 is below the least of 4M");
	CHECK_STR(parse(P "memory = 4194304.5\n"),
	          "config.toml:2: memory '4194304.5' is not a size such as 64M");
	CHECK_STR(parse(P "memory = nan\n"),
	          "config.toml:2: memory 'nan' is not a size such as 64M");
	CHECK_STR(parse(P "cpu = 0\n"), "config.toml:2: cpu 0 is below the least of 0.01");
	CHECK_STR(parse(P "pids = \"many\"\n"), "config.toml:2: pids 'many' is not a whole number");
	CHECK_STR(parse(P "pool = 257\n"), "config.toml:2: pool 257 is not between 0 and 256");
	CHECK_STR(parse(P "pool = -1\n"), "config.toml:2: pool -1 is not between 0 and 256");
	CHECK_STR(parse(P "ttl = \"5ms\"\n"), "config.toml:2: ttl 5ms is below the least of 1s");
	CHECK_STR(parse(P "ttl = -5\n"),
	          "config.toml:2: 'ttl' is not a time such as \"30m\", \"2h\" or 90 (seconds)");
	CHECK_STR(parse(P "ttl = \"soon\"\n"),
	          "config.toml:2: 'ttl' is not a time such as \"30m\", \"2h\" or 90 (seconds)");
	CHECK_STR(parse("[daemon]\nlog_level = \"infoo\"\n"),
	          "config.toml:2: log_level 'infoo' is none of debug, info, warn, error (did you "
	          "mean 'info'?)");
}

TEST(values_that_make_no_sense)
{
	CHECK_STR(parse(P "cwd = \"src\"\n"), "config.toml:2: cwd 'src' is not an absolute path");
	CHECK_STR(parse(P "\nuser = \"A B\"\n"),
	          "config.toml:3: user 'A B' is neither a name, nor uid, nor uid:gid");
	CHECK_STR(parse(P "runtime = \"vm\"\n"),
	          "config.toml:2: runtime 'vm' is not known here, which has: native");
	CHECK_STR(parse(P "network = \"Full!\"\n"),
	          "config.toml:2: network 'Full!' is not the name of an environment");
	CHECK_STR(parse(P "image = \"\"\n"), "config.toml:2: 'image' is empty or holds a NUL");
	CHECK_STR(parse(P "image = \"a\\u0000b\"\n"),
	          "config.toml:2: 'image' is empty or holds a NUL");
	CHECK_STR(parse(P "env = { \"A-B\" = \"x\" }\n"),
	          "config.toml:2: 'A-B' is not a name of a variable");
	CHECK_STR(parse(P "env = { A = \"x\\u0000\" }\n"), "config.toml:2: 'A' holds a NUL");
	CHECK_STR(parse("[sandboxes.Big]\n"),
	          "config.toml:1: 'Big' is not a name for a profile: at most 63 of a-z 0-9 . _ -");
	CHECK_STR(parse("[daemon]\nuser = \"no one\"\n"),
	          "config.toml:2: user 'no one' is neither a name, nor uid, nor uid:gid");
}

TEST(broken_toml_is_refused_with_its_line)
{
	CHECK_HAS(parse(P "memory\n"), "config.toml:2: ");
	CHECK_HAS(parse(P "memory = 1G\n"), "config.toml:2: ");
	CHECK_HAS(parse(P "pids = 10\npids = 11\n"), "config.toml:3: ");
	CHECK_HAS(parse("[daemon\n"), "config.toml:1: ");
}

TEST(later_files_go_on_top)
{
	static const char user[] = P "memory = \"1G\"\nenv = { A = \"1\", B = \"1\" }\n";
	static const char workspace[] =
		P "pids = 64\nenv = { B = \"2\" }\n[sandboxes.x]\npids = 32\n";
	const struct profile *profile;
	struct config config;

	config_init(&config);
	CHECK_INT(config_parse(&config, "config.toml", user, strlen(user), &err), 0);
	CHECK_INT(config_parse(&config, "cloche.toml", workspace, strlen(workspace), &err), 0);
	profile = config_profile(&config, "default");
	CHECK_INT(profile->spec.limits.memory, 1 << 30);
	CHECK_INT(profile->spec.limits.pids, 64);
	CHECK_STR(strings_value(&profile->spec.env, "A"), "1");
	CHECK_STR(strings_value(&profile->spec.env, "B"), "2");
	CHECK_INT(config_profile(&config, "x")->spec.limits.memory, 2ULL << 30);
	CHECK_INT(config_find_profile(&config, "defualt", &profile, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK_STR(err.msg, "no profile 'defualt' (did you mean 'default'?)");
	config_done(&config);
}

/* The file that setup writes changes nothing, and still does not with every # taken away. */
TEST(default_text_says_what_holds)
{
	auto_free char *text = config_default_text();
	struct config config, built_in;
	char *to = text;

	CHECK_STR(parse(text), "");
	for (const char *from = text; *from != '\0'; from++) {
		if (*from == '#' && (from == text || from[-1] == '\n') && from[1] != ' ')
			continue;
		*to++ = *from;
	}
	*to = '\0';
	CHECK_HAS(text, "\nmemory = \"2G\"");
	CHECK_HAS(text, "\ncpu = 2 ");
	config_init(&config);
	config_init(&built_in);
	if (config_parse(&config, "config.toml", text, strlen(text), &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	CHECK(config.has_daemon_user);
	CHECK_STR(config.daemon_user, built_in.daemon_user);
	CHECK_INT(config.log_level, built_in.log_level);
	CHECK_INT(config.profile_count, 1);
	CHECK_MEM(&config.profiles[0].spec.limits, &built_in.profiles[0].spec.limits,
	          sizeof(struct limits));
	CHECK_STR(config.profiles[0].spec.image, built_in.profiles[0].spec.image);
	CHECK_STR(config.profiles[0].spec.cwd, built_in.profiles[0].spec.cwd);
	CHECK_INT(config.profiles[0].spec.ttl_ms, 0);
	CHECK_INT(config.profiles[0].pool, 8);
	config_done(&config);
	config_done(&built_in);
}

TEST(files_are_loaded_and_may_be_missing)
{
	auto_close int dir = test_dir_fd();
	struct config config;

	config_init(&config);
	CHECK_INT(config_load(&config, dir, "config.toml", &err), 0);
	test_write_file("config.toml", "[daemon]\nuser = \"me\"\n", 21);
	CHECK_INT(config_load(&config, dir, "config.toml", &err), 0);
	CHECK_STR(config.daemon_user, "me");
	test_write_file("config.toml", "x = 1\n", 6);
	CHECK_INT(config_load(&config, dir, "config.toml", &err), -1);
	CHECK_STR(err.msg, "config.toml:1: unknown key 'x'");
	CHECK_INT(config_load(&config, dir, ".", &err), -1);
	CHECK_INT(err.code, ERR_CONFIG);
	config_done(&config);
}

#define E "[environments.work]\n"

TEST(environments_are_read)
{
	static const char text[] =
		E "level = \"custom\"\nmode = \"ask\"\n"
		  "allowed_domains = [\"Example.org\", \"*.example.net.\"]\n"
		  "include_default_domains = true\ndenied_domains = [\"bad.example.net\"]\n"
		  "ports = [8443, 443]\nallowed_cidrs = [\"10.0.0.0/8\"]\n"
		  "denied_cidrs = [\"10.9.0.0/16\"]\negress_bytes = \"1G\"\negress_rate = 1000\n"
		  "[network]\nresolvers = [\"192.0.2.1\", \"[::1]:5353\", \"192.0.2.2:53\"]\n";
	const struct environment *work;
	struct config config;

	config_init(&config);
	CHECK_INT(config_parse(&config, "config.toml", text, strlen(text), &err), 0);
	work = config_environment(&config, "work");
	CHECK(work != NULL);
	CHECK_INT(work->mode, ENVIRONMENT_ASK);
	CHECK_STR(work->origin, "config");
	CHECK_INT(work->domains.count, 2);
	CHECK_STR(work->domains.items[1], "*.example.net");
	CHECK(work->include_default);
	CHECK_INT(work->port_count, 2);
	CHECK_INT(work->ports[1], 8443);
	CHECK_INT(work->egress_bytes, 1ULL << 30);
	CHECK_INT(work->egress_rate, 1000);
	CHECK_INT(config.resolvers.count, 3);
	CHECK(config_environment(&config, "trusted") == environment_builtin("trusted"));
	CHECK(config_environment(&config, "other") == NULL);
	config_done(&config);
}

TEST(any_is_null_and_nothing_is_nothing)
{
	static const char text[] =
		E "allowed_domains = \"any\"\nports = \"any\"\n[environments.shut]\nports = []\n";
	const struct environment *environment;
	struct config config;

	config_init(&config);
	CHECK_INT(config_parse(&config, "config.toml", text, strlen(text), &err), 0);
	environment = config_environment(&config, "work");
	CHECK(environment->domains_any && environment->ports_any);
	environment = config_environment(&config, "shut");
	CHECK(!environment->domains_any && !environment->ports_any);
	CHECK_INT(environment->port_count, 0);
	config_done(&config);
}

TEST(environments_that_make_no_sense)
{
	CHECK_HAS(
		parse(E "allowed_domain = []\n"),
		"config.toml:2: unknown key 'allowed_domain' in [environments.work] (did you mean "
		"'allowed_domains'?)");
	CHECK_HAS(parse(E "allowed_domains = [\"a.org\", \"b\", \"10.0.0.1\"]\n"),
	          "config.toml:1: allowedDomains: entry 2-3: 'b'");
	CHECK_HAS(parse(E "level = \"some\"\n"), "config.toml:2: 'level' is none of");
	CHECK_HAS(parse(E "ports = [443, \"x\"]\n"), "config.toml:2: ports: entry 2");
	CHECK_HAS(parse("[environments.none]\n"), "built in");
	CHECK_HAS(parse("[environments.'A B']\n"), "not a name");
	CHECK_HAS(parse("[environments]\nx = 1\n"), "config.toml:2: 'x' is");
	CHECK_HAS(parse(E "level = \"trusted\"\nallowed_domains = [\"a.org\"]\n"),
	          "no meaning under level trusted");
	CHECK_HAS(parse("[network]\nresolvers = [\"192.0.2.1\", \"x\"]\n"),
	          "config.toml:2: resolvers: entry 2");
	CHECK_HAS(parse("[network]\nresolver = []\n"), "did you mean 'resolvers'");
	CHECK_HAS(parse(P "allow = [\"a.org\", \"b\"]\n"), "config.toml:2: allow: entry 2");
	CHECK_HAS(parse(P "allow_cidrs = [\"10.0.0.1/8\"]\n"), "allowCidrs: entry 1");
}

TEST(resolvers_have_a_port_or_53)
{
	static const char *const bad[] = {
		"",      "x",    "192.0.2.1:",     "192.0.2.1:0", "192.0.2.1:65536",
		"[::1]", "[::1", "[192.0.2.1]:53", "::1:x"};
	struct addr addr;
	uint16_t port;

	CHECK(config_parse_resolver("192.0.2.1", &addr, &port));
	CHECK_INT(port, 53);
	CHECK(config_parse_resolver("[::1]:5353", &addr, &port));
	CHECK_INT(port, 5353);
	CHECK(config_parse_resolver("::1", &addr, &port));
	CHECK_INT(port, 53);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!config_parse_resolver(bad[i], &addr, &port));
}

/* --- [server], [scopes], [capabilities], [delegation] --- */

TEST(server_is_read_and_checked)
{
	struct config config;

	config_init(&config);
	CHECK_STR(config.server.listen, "127.0.0.1:7070");
	CHECK(!config.server.has_listen);
	CHECK_STR(parse("[server]\nlisten = \"7070\"\n"),
	          "config.toml:2: listen '7070' is not ADDRESS:PORT (\"127.0.0.1:7070\", "
	          "\"[::1]:7070\") or \"none\"");
	CHECK_HAS(parse("[server]\nlisten = \"example.org:80\"\n"), "ADDRESS:PORT");
	CHECK_HAS(parse("[server]\nlisten = \"127.0.0.1:65536\"\n"), "ADDRESS:PORT");
	CHECK_HAS(parse("[server]\nlisten = \"[127.0.0.1]:80\"\n"), "ADDRESS:PORT");
	CHECK_HAS(parse("[server]\ntls_cert = \"a.pem\"\n"), "given together");
	CHECK_HAS(parse("[server]\nrate_limt = 3\n"), "did you mean 'rate_limit'");
	CHECK_HAS(parse("[server]\nrate_limit = -1\n"), "between 0 and");
	config_done(&config);
	config_init(&config);
	apply(&config, "[server]\nlisten = \"[::1]:0\"\nhosts = [\"box.example.org\"]\n"
	               "rate_limit = 0\n[delegation]\ndepth = 2\n");
	CHECK_STR(config.server.listen, "[::1]:0");
	CHECK(config.server.has_listen);
	CHECK_STR(config.server.hosts.items[0], "box.example.org");
	CHECK_INT(config.server.rate_limit, 0);
	CHECK_INT(config.delegation_depth, 2);
	CHECK_INT(config.delegation_children, 32);
	config_done(&config);
}

TEST(scopes_and_capabilities_are_defined_by_operators)
{
	struct config config;

	config_init(&config);
	CHECK_HAS(parse("[scopes]\nsandboxes = \"x\"\n"), "built-in");
	CHECK_HAS(parse("[scopes]\ncontacts = 3\n"), "a string");
	CHECK_HAS(parse("[capabilities.web_search]\n"), "is built in");
	CHECK_HAS(parse("[capabilities.x]\nnetwrok = []\n"), "did you mean 'network'");
	CHECK_HAS(parse("[capabilities.x]\nscopes = [\"contact:read\"]\n"),
	          "[capabilities.x]: unknown scope");
	CHECK_HAS(parse("[capabilities.x]\nnetwork = [\"10.0.0.0/99\"]\n"),
	          "[capabilities.x]: network rule");
	config_done(&config);
	config_init(&config);
	apply(&config, "[capabilities.crm]\nscopes = [\"contacts:read\"]\n"
	               "network = [\"crm.example.org:443\"]\ntools = [\"lookup\"]\n"
	               "[scopes]\ncontacts = \"people\"\n");
	CHECK_STR(config.capabilities.items[0].name, "crm");
	CHECK_STR(config.capabilities.items[0].tools.items[0], "lookup");
	CHECK_STR(config.scope_objects.items[0], "contacts=people");
	config_done(&config);
}

TEST(a_profile_may_be_somebodys)
{
	struct config config;
	const struct profile *profile;

	config_init(&config);
	CHECK_HAS(parse("[sandboxes.x]\nvisibility = \"all\"\n"), "private, team");
	CHECK_HAS(parse("[sandboxes.x]\ntrust_floor = \"vmm\"\n"), "did you mean 'vm'");
	config_done(&config);
	config_init(&config);
	apply(&config,
	      "[sandboxes.x]\nvisibility = \"team\"\nteam = \"ops\"\ntrust_floor = \"vm\"\n");
	profile = config_profile(&config, "x");
	CHECK_INT(profile->visibility, VISIBILITY_TEAM);
	CHECK_STR(profile->team, "ops");
	CHECK_STR(profile->trust_floor, "vm");
	CHECK_INT(config_profile(&config, "default")->visibility, VISIBILITY_GLOBAL);
	config_done(&config);
}
