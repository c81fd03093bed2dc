/*
 * Drives the broker's op table as a hostile daemon: only the keeper is a stand-in that writes down
 * what it was asked to build.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/str.h"
#include "hostile.h"
#include "os/proc.h"

static void put_number(FILE *to, const struct wire_msg *msg, const char *name,
                       enum wire_field field)
{
	fprintf(to, "%s=%llu*%zu\n", name, (unsigned long long)wire_u64(msg, field, 0),
	        wire_count(msg, field));
}

/* Stands for the keeper: says in the sandbox's directory what it got, and that it is ready. */
static int fake_keeper(struct wire_msg *msg, void *ctx)
{
	int out = openat(msg->fds[KEEPER_FD_SANDBOX], "slot", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	FILE *to = fdopen(out, "w");
	if (!to)
		return 1;
	put_number(to, msg, "base", FIELD_RANGE_BASE);
	put_number(to, msg, "count", FIELD_RANGE_COUNT);
	put_number(to, msg, "keeper", FIELD_KEEPER_UID);
	put_number(to, msg, "daemon", FIELD_DAEMON_UID);
	put_number(to, msg, "memory", FIELD_MEMORY);
	fprintf(to, "cgroup=%s*%zu\n", wire_str(msg, FIELD_CGROUP, ""),
	        wire_count(msg, FIELD_CGROUP));
	fprintf(to, "argv=%zu env=%zu path=%zu\n", wire_count(msg, FIELD_ARGV),
	        wire_count(msg, FIELD_ENV), wire_count(msg, FIELD_PATH));
	fprintf(to, "fds=%zu\n", msg->fd_count);
	fclose(to);
	auto_wire_out struct wire_out out_msg;
	wire_begin(&out_msg, WIRE_SLOT_READY, 1);
	wire_put_str(&out_msg, FIELD_MECHANISM, "disk=none");
	return wire_send(msg->fds[KEEPER_FD_RESULT], &out_msg) < 0;
}

/* A task or keeper that never answers. */
static int silent(struct wire_msg *msg, void *ctx)
{
	while (pause() < 0)
		;
	return 0;
}

TEST(messages_outside_the_table_cut_the_daemon_off)
{
	static const int allowed[] = {
#define OP(message, handler, needs, fds, most) WIRE_##message,
#include "broker/ops.def"
#undef OP
		WIRE_HELLO,
	};
	static const int all[] = {
#define MESSAGE(name, number, about) WIRE_##name,
#include "wire/messages.def"
#undef MESSAGE
		0,
		9999,
		65535,
	};
	struct fixture f;
	setup(&f, fake_keeper, tasks_run);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		bool is_allowed = false;
		for (size_t k = 0; k < ARRAY_LEN(allowed); k++)
			is_allowed = is_allowed || all[i] == allowed[k];
		if (is_allowed)
			continue;
		struct wire_out out;
		wire_begin(&out, (enum wire_type)all[i], 7);
		wire_put_str(&out, FIELD_SANDBOX, BOX_A);
		wire_put_str(&out, FIELD_LAYER, LAYER_A);
		expect_cut_off(&f, &out);
	}
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 0);
	teardown(&f);
}

TEST(bytes_that_are_no_message_cut_the_daemon_off)
{
	struct fixture f;
	setup(&f, fake_keeper, tasks_run);
	static const char *const junk[] = {"x", "GET / HTTP/1.1\r\n\r\n", "CLH1\x01\x00\x14\x00"};
	for (size_t i = 0; i < ARRAY_LEN(junk); i++) {
		CHECK(send(f.daemon, junk[i], strlen(junk[i]), 0) > 0);
		for (int k = 0; k < 100 && !is_cut_off(&f); k++)
			CHECK(loop_step(f.broker->loop, 5) >= 0);
		CHECK(is_cut_off(&f));
		fd_closep(&f.daemon);
		open_line(&f);
	}
	/* A message larger than any of ours. */
	auto_free char *large = mem_zalloc(LIMIT_WIRE_BYTES + 64);
	memset(large, 'A', LIMIT_WIRE_BYTES + 64);
	CHECK(send(f.daemon, large, LIMIT_WIRE_BYTES + 64, 0) > 0);
	for (int k = 0; k < 100 && !is_cut_off(&f); k++)
		CHECK(loop_step(f.broker->loop, 5) >= 0);
	CHECK(is_cut_off(&f));
	teardown(&f);
}

TEST(missing_and_doubled_fields_cut_the_daemon_off)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	wire_begin(&out, WIRE_OP_LAUNCH, 7); /* no sandbox */
	wire_put_str(&out, FIELD_LAYER, LAYER_A);
	expect_cut_off(&f, &out);
	wire_begin(&out, WIRE_OP_LAUNCH, 7); /* no layer */
	wire_put_str(&out, FIELD_SANDBOX, BOX_A);
	expect_cut_off(&f, &out);
	begin_launch(&out, BOX_A, LAYER_A); /* two sandboxes: which one was checked? */
	wire_put_str(&out, FIELD_SANDBOX, "../../etc");
	expect_cut_off(&f, &out);
	wire_begin(&out, WIRE_OP_REAP, 0); /* no request number */
	wire_put_str(&out, FIELD_SANDBOX, BOX_A);
	expect_cut_off(&f, &out);
	wire_begin(&out, WIRE_OP_LAYER_RM, 7);
	wire_put_str(&out, FIELD_LAYER, LAYER_A);
	wire_put_str(&out, FIELD_LAYER, LAYER_B);
	expect_cut_off(&f, &out);
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 0);
	teardown(&f);
}

TEST(descriptors_it_must_not_send_cut_the_daemon_off)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_fd(&out, f.dir);
	expect_cut_off(&f, &out);
	begin_reap(&out, BOX_A);
	wire_put_fd(&out, f.dir);
	expect_cut_off(&f, &out);
	struct err why = {.code = ERR_UNSUPPORTED};
	wire_begin(&out, WIRE_ERROR, 0); /* why it cannot start, and something with it */
	wire_put_err(&out, &why);
	wire_put_fd(&out, f.dir);
	expect_cut_off(&f, &out);
	wire_begin(&out, WIRE_OP_IMPORT, 7); /* none where one belongs */
	wire_put_str(&out, FIELD_IMAGE, "im_00000000000000000001");
	wire_put_str(&out, FIELD_FORMAT, "tar");
	expect_cut_off(&f, &out);
	teardown(&f);
}

TEST(malformed_ids_are_refused_and_make_nothing)
{
	static const char *const ids[] = {
		"",
		"/",
		"..",
		"../sb_00000000000000000001",
		"sb_0000000000000000000/",
		"sb_/../../../../etc0001",
		"sb_0000000000000000001",   /* one short */
		"sb_000000000000000000001", /* one long */
		"SB_00000000000000000001",
		"ly_00000000000000000001",
		"sb_00000000000000000A01",
		"sb_00000000000000000001\n",
	};
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		begin_launch(&out, ids[i], LAYER_A);
		expect_refusal(&f, &out, ERR_INVALID);
		begin_reap(&out, ids[i]);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 0);
	teardown(&f);
}

TEST(layers_are_only_what_lies_in_the_layers_folder)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	static const char *const bad[] = {
		"../sandboxes", "/etc", "..", "", ".", "host/../..", "ly_0000000000000000001/",
		LAYER_A "/tree"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		begin_launch(&out, BOX_A, bad[i]);
		expect_refusal(&f, &out, ERR_INVALID);
		wire_begin(&out, WIRE_OP_LAYER_RM, 7);
		wire_put_str(&out, FIELD_LAYER, bad[i]);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	begin_launch(&out, BOX_A, LAYER_B);
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	/* A link where a layer should be leads nowhere. */
	CHECK_INT(symlinkat("/", f.broker->site.state.layers_fd, LAYER_B), 0);
	begin_launch(&out, BOX_A, LAYER_B);
	expect_refusal(&f, &out, ERR_IO);
	begin_launch(&out, BOX_A, LAYER_A);
	for (int i = 0; i < LIMIT_LAYERS; i++)
		wire_put_str(&out, FIELD_LAYER, LAYER_A);
	expect_refusal(&f, &out, ERR_INVALID);
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 0);
	teardown(&f);
}

TEST(numbers_out_of_range_are_refused)
{
	static const struct {
		enum wire_field field;
		uint64_t value;
	} bad[] = {
		{FIELD_MEMORY, UINT64_MAX}, {FIELD_MEMORY, 0},      {FIELD_CPU_MILLI, 0},
		{FIELD_CPU_MILLI, 1 << 30}, {FIELD_PIDS, 0},        {FIELD_PIDS, UINT64_MAX},
		{FIELD_DISK, UINT64_MAX},   {FIELD_INODES, 1},      {FIELD_NOFILE, UINT64_MAX},
		{FIELD_NOFILE, 0},          {FIELD_OUTPUT_RATE, 0},
	};
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		begin_launch(&out, BOX_A, LAYER_A);
		wire_put_u64(&out, bad[i].field, bad[i].value);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_str(&out, FIELD_HOSTNAME, "a\nb");
	expect_refusal(&f, &out, ERR_INVALID);
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_str(&out, FIELD_DISK_BACKEND, "../../dev/sda");
	expect_refusal(&f, &out, ERR_INVALID);
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 0);
	teardown(&f);
}

TEST(the_broker_chooses_ids_and_drops_what_is_smuggled)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	f.broker->site.shared_base = 5;
	f.broker->site.shared_count = 777;
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_u64(&out, FIELD_RANGE_BASE, 0);
	wire_put_u64(&out, FIELD_RANGE_COUNT, UINT32_MAX);
	wire_put_u64(&out, FIELD_KEEPER_UID, 4242);
	wire_put_u64(&out, FIELD_DAEMON_UID, 4242);
	wire_put_str(&out, FIELD_CGROUP, "../..");
	wire_put_str(&out, FIELD_PATH, "/etc");
	wire_put_str(&out, FIELD_ARGV, "/bin/sh");
	wire_put_str(&out, FIELD_ENV, "LD_PRELOAD=/tmp/x");
	expect_ok(&f, &out);
	auto_free char *text = NULL;
	size_t len;
	CHECK_INT(io_read_file(f.broker->site.state.sandboxes_fd, BOX_A "/slot", 4096, &text, &len),
	          0);
	CHECK_HAS(text, "base=5*1\n");
	CHECK_HAS(text, "count=777*1\n");
	CHECK_HAS(text, "keeper=0*1\n");
	auto_free char *daemon = mem_printf("daemon=%u*1\n", (unsigned)geteuid());
	CHECK_HAS(text, daemon);
	CHECK_HAS(text, "cgroup=" BOX_A "*1\n");
	CHECK_HAS(text, "argv=0 env=0 path=0\n");
	auto_free char *fds = mem_printf("fds=%d\n", KEEPER_FD_LAYERS + 1);
	CHECK_HAS(text, fds);
	teardown(&f);
}

TEST(a_launch_cannot_be_replayed)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_refusal(&f, &out, ERR_CONFLICT);
	begin_reap(&out, BOX_A);
	expect_ok(&f, &out);
	begin_reap(&out, BOX_A);
	expect_ok(&f, &out);
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 0);
	CHECK_INT(f.broker->slots.used[0], 0);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	teardown(&f);
}

TEST(only_so_many_are_under_way)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, silent, silent);
	begin_launch(&out, BOX_A, LAYER_A);
	CHECK_INT(wire_send(f.daemon, &out), 0);
	wire_done(&out);
	CHECK(loop_step(f.broker->loop, 100) >= 0);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_refusal(&f, &out, ERR_CONFLICT);
	begin_reap(&out, BOX_A);
	expect_refusal(&f, &out, ERR_CONFLICT);
	for (int i = 1; i < 64; i++) {
		auto_free char *id = mem_printf("sb_000000000000000001%02d", i);
		begin_launch(&out, id, LAYER_A);
		CHECK_INT(wire_send(f.daemon, &out), 0);
		wire_done(&out);
		CHECK(loop_step(f.broker->loop, 100) >= 0);
	}
	begin_launch(&out, BOX_B, LAYER_A);
	expect_refusal(&f, &out, ERR_LIMITED);
	teardown(&f);
}

TEST(a_dead_zygote_is_replaced)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	pid_t first = f.broker->launch.pid;
	CHECK_INT(kill(first, SIGKILL), 0);
	CHECK_INT(waitpid(first, NULL, 0), first);
	log_setup("test", LOG_LEVEL_ERROR);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	CHECK(f.broker->launch.pid != first);
	teardown(&f);
}

/* Ends before it answers, as a keeper that is killed by the kernel does. */
static int dying_keeper(struct wire_msg *msg, void *ctx)
{
	return 1;
}

TEST(a_launch_that_dies_leaves_nothing)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, dying_keeper, tasks_run);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_refusal(&f, &out, ERR_INTERNAL);
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 0);
	CHECK_INT(f.broker->slots.used[0], 0);
	/* One that was there before keeps its directory. */
	CHECK_INT(mkdirat(f.broker->site.state.sandboxes_fd, BOX_B, 0700), 0);
	begin_launch(&out, BOX_B, LAYER_A);
	expect_refusal(&f, &out, ERR_INTERNAL);
	CHECK_INT(count_entries(f.broker->site.state.sandboxes_fd), 1);
	CHECK_INT(f.broker->slots.used[0], 0);
	teardown(&f);
}

TEST(reaping_leaves_strangers_alone)
{
	struct fixture f;
	struct wire_out out;
	char boot[37];
	uint64_t start;
	setup(&f, fake_keeper, tasks_run);
	int sandboxes = f.broker->site.state.sandboxes_fd;
	pid_t child = fork();
	if (child == 0) {
		for (;;)
			pause();
	}
	CHECK_INT(proc_boot_id(boot), 0);
	CHECK_INT(proc_start_time(child, &start), 0);
	/* The number was reused: same pid, another start time. Or it is from another boot. */
	for (int i = 0; i < 2; i++) {
		CHECK_INT(mkdirat(sandboxes, BOX_A, 0700), 0);
		auto_close int box = box_open(sandboxes, BOX_A);
		auto_free char *text =
			mem_printf("pid=%d\nstart=%llu\nboot=%s\n", (int)child,
		                   (unsigned long long)start + (i == 0),
		                   i == 0 ? boot : "00000000-0000-0000-0000-000000000000");
		CHECK_INT(box_write(box, "keeper", text), 0);
		begin_reap(&out, BOX_A);
		expect_ok(&f, &out);
		CHECK(proc_is_alive(child, start));
		CHECK_INT(faccessat(sandboxes, BOX_A, F_OK, 0), -1);
	}
	/* The right one goes. */
	CHECK_INT(mkdirat(sandboxes, BOX_A, 0700), 0);
	auto_close int box = box_open(sandboxes, BOX_A);
	auto_free char *text = mem_printf("pid=%d\nstart=%llu\nboot=%s\n", (int)child,
	                                  (unsigned long long)start, boot);
	CHECK_INT(box_write(box, "keeper", text), 0);
	begin_reap(&out, BOX_A);
	expect_ok(&f, &out);
	int status;
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	teardown(&f);
}

TEST(reaping_follows_no_link)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	CHECK_INT(mkdirat(f.dir, "canary", 0700), 0);
	test_write_file("canary/alive", "x", 1);
	auto_free char *target = mem_printf("%s/canary", test_dir());
	int sandboxes = f.broker->site.state.sandboxes_fd;
	CHECK_INT(symlinkat(target, sandboxes, BOX_A), 0);
	begin_reap(&out, BOX_A);
	expect_refusal(&f, &out, ERR_IO);
	/* Links inside a sandbox's directory go as links. */
	CHECK_INT(mkdirat(sandboxes, BOX_B, 0700), 0);
	CHECK_INT(symlinkat(target, sandboxes, BOX_B "/out"), 0);
	begin_reap(&out, BOX_B);
	expect_ok(&f, &out);
	CHECK_INT(faccessat(f.dir, "canary/alive", F_OK, 0), 0);
	teardown(&f);
}

TEST(files_are_kept_when_asked)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	begin_reap(&out, BOX_A);
	wire_put_u64(&out, FIELD_KEEP_FILES, 1);
	expect_ok(&f, &out);
	struct box_meta meta;
	auto_close int box = box_open(f.broker->site.state.sandboxes_fd, BOX_A);
	CHECK_INT(box_read_meta(box, &meta), 0);
	CHECK_INT(meta.slot, -1);
	CHECK_INT(faccessat(box, "slot", F_OK, 0), 0);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	teardown(&f);
}

TEST(mounts_are_named_by_grants_only)
{
	struct fixture f;
	struct wire_out out;
	struct err err = {0};
	struct id id;
	setup(&f, fake_keeper, tasks_run);
	CHECK_INT(mkdirat(f.dir, "shared", 0700), 0);
	auto_close int shared = openat(f.dir, "shared", O_PATH | O_CLOEXEC);
	static const char *const bad[] = {
		"/etc\t/mnt\tro",
		"..\t/mnt\tro",
		"gr_00000000000000000001\t/mnt\tno",
		"gr_00000000000000000001",
		"\t\t",
		"gr_00000000000000000001\t../x\tro",
		"gr_00000000000000000001\t/a/../../b\trw",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		begin_launch(&out, BOX_A, LAYER_A);
		wire_put_str(&out, FIELD_MOUNT, bad[i]);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_str(&out, FIELD_MOUNT, "gr_00000000000000000001\t/mnt\tro");
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	/* Read-only stays read-only, and a grant is good for one sandbox. */
	CHECK_INT(grants_add(&f.broker->grants, &f.broker->site.state, shared, true, &id, &err), 0);
	auto_free char *rw = mem_printf("%s\t/mnt\trw", id.text);
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_str(&out, FIELD_MOUNT, rw);
	expect_refusal(&f, &out, ERR_FORBIDDEN);
	CHECK_INT(grants_add(&f.broker->grants, &f.broker->site.state, shared, true, &id, &err), 0);
	auto_free char *ro = mem_printf("%s\t/mnt\tro", id.text);
	/* They come with the second half of a blank one, never with the first. */
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_u64(&out, FIELD_PARKED, 2);
	wire_put_str(&out, FIELD_MOUNT, ro);
	expect_refusal(&f, &out, ERR_INVALID);
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_str(&out, FIELD_MOUNT, ro);
	expect_ok(&f, &out);
	begin_launch(&out, BOX_B, LAYER_A);
	wire_put_str(&out, FIELD_MOUNT, ro);
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	/* The sandbox it was given to may be started again with it. */
	begin_reap(&out, BOX_A);
	wire_put_u64(&out, FIELD_KEEP_FILES, 1);
	expect_ok(&f, &out);
	begin_launch(&out, BOX_A, LAYER_A);
	wire_put_str(&out, FIELD_MOUNT, ro);
	expect_ok(&f, &out);
	teardown(&f);
}

TEST(archives_must_be_regular_files)
{
	struct fixture f;
	struct wire_out out;
	int pipe_fds[2];
	setup(&f, fake_keeper, tasks_run);
	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	auto_close int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int bad[] = {pipe_fds[0], null, f.dir};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		wire_begin(&out, WIRE_OP_IMPORT, 7);
		wire_put_str(&out, FIELD_IMAGE, "im_00000000000000000001");
		wire_put_str(&out, FIELD_FORMAT, "tar");
		wire_put_fd(&out, bad[i]);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	wire_begin(&out, WIRE_OP_IMPORT, 7);
	wire_put_str(&out, FIELD_IMAGE, "im_00000000000000000001");
	wire_put_str(&out, FIELD_FORMAT, "zip; rm -rf /");
	wire_put_fd(&out, null);
	expect_refusal(&f, &out, ERR_INVALID);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	teardown(&f);
}

TEST(a_layer_in_use_stays)
{
	struct fixture f;
	struct wire_out out;
	setup(&f, fake_keeper, tasks_run);
	int layers = f.broker->site.state.layers_fd;
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	wire_begin(&out, WIRE_OP_LAYER_RM, 7);
	wire_put_str(&out, FIELD_LAYER, LAYER_A);
	expect_refusal(&f, &out, ERR_CONFLICT);
	CHECK_INT(faccessat(layers, LAYER_A "/tree", F_OK, 0), 0);
	/* The host image is not the daemon's to remove. */
	static const char host[] = "host_00000000000000000001";
	make_layer(&f, host);
	CHECK(str_copy(f.broker->site.host_layer, sizeof(f.broker->site.host_layer), host));
	wire_begin(&out, WIRE_OP_LAYER_RM, 7);
	wire_put_str(&out, FIELD_LAYER, host);
	expect_refusal(&f, &out, ERR_INVALID);
	CHECK_INT(faccessat(layers, host, F_OK, 0), 0);
	/* And stands only at the bottom. */
	begin_launch(&out, BOX_B, LAYER_A);
	wire_put_str(&out, FIELD_LAYER, "host");
	expect_refusal(&f, &out, ERR_INVALID);
	begin_launch(&out, BOX_B, "host");
	expect_ok(&f, &out);
	teardown(&f);
}

TEST(the_list_names_only_sandboxes)
{
	struct fixture f;
	struct wire_out out;
	struct wire_msg answer;
	struct err err;
	setup(&f, fake_keeper, tasks_run);
	int sandboxes = f.broker->site.state.sandboxes_fd;
	CHECK_INT(mkdirat(sandboxes, BOX_B, 0700), 0);
	CHECK_INT(mkdirat(sandboxes, BOX_A, 0700), 0);
	CHECK_INT(mkdirat(sandboxes, "lost+found", 0700), 0);
	wire_begin(&out, WIRE_OP_LIST, 7);
	CHECK_INT(ask(&f, &out, &answer, &err), 0);
	size_t at = 0;
	CHECK_STR(wire_next_str(&answer, FIELD_ENTRY, &at), BOX_A " 0");
	CHECK_STR(wire_next_str(&answer, FIELD_ENTRY, &at), BOX_B " 0");
	CHECK(wire_next_str(&answer, FIELD_ENTRY, &at) == NULL);
	wire_begin(&out, WIRE_OP_LIST, 7);
	wire_put_str(&out, FIELD_SANDBOX, BOX_A);
	CHECK_INT(ask(&f, &out, &answer, &err), 0);
	at = 0;
	CHECK_STR(wire_next_str(&answer, FIELD_ENTRY, &at), BOX_B " 0");
	teardown(&f);
}
