/* OP_BIND by a hostile daemon; whoever binds is a stand-in that says what it was asked. */
#include "hostile.h"
#include "os/proc.h"

/* Stands for whoever binds: refuses where there is a file "refuse". */
static int fake_binder(struct wire_msg *msg)
{
	int box = msg->fds[KEEPER_FD_SANDBOX];
	auto_wire_out struct wire_out answer;
	auto_free char *text = mem_printf(
		"pid=%llu base=%llu*%zu keeper=%llu*%zu memory=%zu pids=%zu path=%zu fds=%zu\n",
		(unsigned long long)wire_u64(msg, FIELD_PID, 0),
		(unsigned long long)wire_u64(msg, FIELD_RANGE_BASE, 0),
		wire_count(msg, FIELD_RANGE_BASE),
		(unsigned long long)wire_u64(msg, FIELD_KEEPER_UID, 0),
		wire_count(msg, FIELD_KEEPER_UID), wire_count(msg, FIELD_MEMORY),
		wire_count(msg, FIELD_PIDS), wire_count(msg, FIELD_PATH), msg->fd_count);
	if (faccessat(box, "refuse", F_OK, 0) == 0 || box_write(box, "bind", text) < 0)
		return 1;
	wire_begin(&answer, WIRE_OK, 1);
	return wire_send(msg->fds[KEEPER_FD_RESULT], &answer) < 0;
}

static int fake_zygote(struct wire_msg *msg, void *ctx)
{
	auto_wire_out struct wire_out ready;
	if (msg->type == WIRE_BIND)
		return fake_binder(msg);
	wire_begin(&ready, WIRE_SLOT_READY, 1);
	return wire_send(msg->fds[KEEPER_FD_RESULT], &ready) < 0;
}

static void begin_bind(struct wire_out *out, const char *sandbox)
{
	wire_begin(out, WIRE_OP_BIND, 9);
	wire_put_str(out, FIELD_SANDBOX, sandbox);
}

/* What the keeper of a parked one writes; here "init" is this test. */
static void write_init(struct fixture *f, const char *boot, pid_t pid)
{
	int boxes = f->broker->site.state.sandboxes_fd;
	auto_close int box = openat(boxes, BOX_A, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_free char *text = mem_printf("pid=%d\nstart=1\nboot=%s\n", (int)pid, boot);
	CHECK_INT(box_write(box, "init", text), 0);
}

TEST(only_parked_sandboxes_are_bound)
{
	struct fixture f;
	struct wire_out out;
	char boot[37];
	setup(&f, fake_zygote, tasks_run);
	begin_bind(&out, BOX_A);
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	begin_bind(&out, BOX_A);
	expect_refusal(&f, &out, ERR_CONFLICT);
	write_init(&f, "00000000-0000-0000-0000-000000000000", getpid());
	begin_bind(&out, BOX_A); /* of another boot: that pid may be anybody's */
	expect_refusal(&f, &out, ERR_CONFLICT);
	CHECK_INT(proc_boot_id(boot), 0);
	write_init(&f, boot, 1);
	begin_bind(&out, BOX_A);
	expect_refusal(&f, &out, ERR_CONFLICT);
	write_init(&f, boot, getpid());
	begin_bind(&out, BOX_A);
	wire_put_u64(&out, FIELD_PID, 1);
	wire_put_u64(&out, FIELD_RANGE_BASE, 0);
	wire_put_u64(&out, FIELD_KEEPER_UID, 4242);
	wire_put_str(&out, FIELD_PATH, "/etc");
	wire_put_u64(&out, FIELD_PIDS, 100);
	expect_ok(&f, &out);
	auto_free char *text = NULL;
	auto_free char *want =
		mem_printf("pid=%d base=0*1 keeper=0*1 memory=0 pids=1 path=0 fds=3\n", getpid());
	size_t len;
	CHECK_INT(io_read_file(f.broker->site.state.sandboxes_fd, BOX_A "/bind", 4096, &text, &len),
	          0);
	CHECK_STR(text, want);
	teardown(&f);
}

TEST(what_is_bound_is_checked_and_grants_come_back)
{
	struct fixture f;
	struct wire_out out;
	struct err err = {0};
	struct id id;
	char boot[37];
	setup(&f, fake_zygote, tasks_run);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	CHECK_INT(proc_boot_id(boot), 0);
	write_init(&f, boot, getpid());
	static const struct {
		enum wire_field field;
		uint64_t value;
	} bad[] = {{FIELD_MEMORY, 1},
	           {FIELD_PIDS, 0},
	           {FIELD_CPU_MILLI, UINT64_MAX},
	           {FIELD_DISK, 1 << 30},
	           {FIELD_INODES, 1000}};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		begin_bind(&out, BOX_A);
		wire_put_u64(&out, bad[i].field, bad[i].value);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	begin_bind(&out, BOX_A);
	wire_put_str(&out, FIELD_HOSTNAME, "../x");
	expect_refusal(&f, &out, ERR_INVALID);
	auto_close int shared = openat(f.dir, ".", O_PATH | O_CLOEXEC);
	CHECK_INT(mkdirat(f.dir, "given", 0700), 0);
	fd_closep(&shared);
	shared = openat(f.dir, "given", O_PATH | O_CLOEXEC);
	CHECK_INT(grants_add(&f.broker->grants, &f.broker->site.state, shared, true, &id, &err), 0);
	static const char *const targets[] = {
		"/",       "/proc",   "/proc/1", "/dev/shm", "/run", "/sys", "/run/cloche/cloche",
		"/a/../b", "relative"};
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		auto_free char *text = mem_printf("%s\t%s\tro", id.text, targets[i]);
		begin_bind(&out, BOX_A);
		wire_put_str(&out, FIELD_MOUNT, text);
		expect_refusal(&f, &out, ERR_INVALID);
		begin_launch(&out, BOX_B, LAYER_A);
		wire_put_str(&out, FIELD_MOUNT, text);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	/* One that fails gives the grant back; the next has it, for good. */
	auto_free char *mount = mem_printf("%s\t/mnt\tro", id.text);
	for (int i = 0; i < 3; i++) {
		int boxes = f.broker->site.state.sandboxes_fd;
		if (i == 0)
			CHECK_INT(mkdirat(boxes, BOX_A "/refuse", 0700), 0);
		begin_bind(&out, BOX_A);
		wire_put_str(&out, FIELD_MOUNT, mount);
		if (i == 0)
			expect_refusal(&f, &out, ERR_INTERNAL);
		else
			expect_ok(&f, &out);
		CHECK_INT(f.broker->grants.count, i == 0);
		(void)unlinkat(boxes, BOX_A "/refuse", AT_REMOVEDIR);
	}
	begin_launch(&out, BOX_B, LAYER_A);
	wire_put_str(&out, FIELD_MOUNT, mount);
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	teardown(&f);
}

static void begin_unbind(struct wire_out *out, const char *sandbox)
{
	wire_begin(out, WIRE_OP_UNBIND, 9);
	wire_put_str(out, FIELD_SANDBOX, sandbox);
}

/* The bound one dies unclaimed: the one that is made instead has its grant, once. */
TEST(who_is_unbound_leaves_its_grants_to_the_next)
{
	struct fixture f;
	struct wire_out out;
	struct err err = {0};
	struct id id;
	char boot[37];
	setup(&f, fake_zygote, tasks_run);
	begin_launch(&out, BOX_A, LAYER_A);
	expect_ok(&f, &out);
	CHECK_INT(proc_boot_id(boot), 0);
	write_init(&f, boot, getpid());
	CHECK_INT(mkdirat(f.dir, "given", 0700), 0);
	auto_close int shared = openat(f.dir, "given", O_PATH | O_CLOEXEC);
	CHECK_INT(grants_add(&f.broker->grants, &f.broker->site.state, shared, true, &id, &err), 0);
	auto_free char *mount = mem_printf("%s\t/mnt\tro", id.text);
	begin_bind(&out, BOX_A);
	wire_put_str(&out, FIELD_MOUNT, mount);
	expect_ok(&f, &out);
	CHECK_INT(f.broker->grants.count, 0);
	for (int i = 0; i < 2; i++) {
		begin_unbind(&out, BOX_A);
		expect_ok(&f, &out);
		CHECK_INT(f.broker->grants.count, 1);
	}
	begin_launch(&out, BOX_B, LAYER_A);
	wire_put_str(&out, FIELD_MOUNT, mount);
	expect_ok(&f, &out);
	CHECK_INT(f.broker->grants.count, 0);
	begin_bind(&out, BOX_A);
	wire_put_str(&out, FIELD_MOUNT, mount);
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	begin_unbind(&out, "sb_00000000000000000009");
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	teardown(&f);
}
