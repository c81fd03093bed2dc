/* What a hostile daemon can open to a sandbox: ranges, for one that runs, and nothing else. */
#include <string.h>

#include "base/str.h"
#include "hostile.h"
#include "os/proc.h"

static int no_keeper(struct wire_msg *msg, void *ctx)
{
	return 1;
}

/* A sandbox whose keeper is this process. */
static void make_running(struct fixture *f)
{
	int sandboxes = f->broker->site.state.sandboxes_fd;
	char boot[37];
	uint64_t start;
	CHECK_INT(proc_boot_id(boot), 0);
	CHECK_INT(proc_start_time(getpid(), &start), 0);
	CHECK_INT(mkdirat(sandboxes, BOX_A, 0700), 0);
	auto_close int box = box_open(sandboxes, BOX_A);
	auto_free char *text = mem_printf("pid=%d\nstart=%llu\nboot=%s\n", (int)getpid(),
	                                  (unsigned long long)start, boot);
	CHECK_INT(box_write(box, "keeper", text), 0);
}

static void begin(struct wire_out *out, const char *sandbox, uint64_t generation, const char *cidr)
{
	wire_begin(out, WIRE_OP_EGRESS, 7);
	wire_put_str(out, FIELD_SANDBOX, sandbox);
	wire_put_u64(out, FIELD_GENERATION, generation);
	if (cidr)
		wire_put_str(out, FIELD_CIDR, cidr);
}

TEST(what_is_no_range_is_refused)
{
	static const char *const bad[] = {
		"10.0.0.1/8", "10.0.0.0", "localhost/8", "", "10.0.0.0/8\ngeneration=9",
		"0/0",        "::/129"};
	struct fixture f;
	struct wire_out out;
	setup(&f, no_keeper, tasks_run);
	make_running(&f);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		begin(&out, BOX_A, 1, bad[i]);
		expect_refusal(&f, &out, ERR_INVALID);
	}
	begin(&out, BOX_A, 1, NULL);
	for (int i = 0; i <= DIALER_CIDRS; i++)
		wire_put_str(&out, FIELD_CIDR, "10.0.0.0/8");
	expect_refusal(&f, &out, ERR_INVALID);
	begin(&out, BOX_B, 1, NULL); /* is not there */
	expect_refusal(&f, &out, ERR_NOT_FOUND);
	begin(&out, "../../etc", 1, NULL);
	expect_refusal(&f, &out, ERR_INVALID);
	auto_close int box = box_open(f.broker->site.state.sandboxes_fd, BOX_A);
	CHECK_INT(faccessat(box, "egress", F_OK, 0), -1);
	teardown(&f);
}

TEST(what_is_open_is_written_down)
{
	struct fixture f;
	struct wire_out out;
	size_t len;
	setup(&f, no_keeper, tasks_run);
	make_running(&f);
	begin(&out, BOX_A, 3, "10.0.0.0/8");
	wire_put_str(&out, FIELD_CIDR, "fd00::/8");
	expect_ok(&f, &out);
	auto_close int box = box_open(f.broker->site.state.sandboxes_fd, BOX_A);
	auto_free char *text = NULL;
	CHECK_INT(io_read_file(box, "egress", 4096, &text, &len), 0);
	CHECK_STR(text, "generation=3\ncidr=10.0.0.0/8\ncidr=fd00::/8\n");
	teardown(&f);
}
