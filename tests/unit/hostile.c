#include "hostile.h"

#include <dirent.h>

void make_layer(struct fixture *f, const char *id)
{
	int layers = f->broker->site.state.layers_fd;
	auto_free char *tree = mem_printf("%s/tree", id);
	CHECK_INT(mkdirat(layers, id, 0700), 0);
	CHECK_INT(mkdirat(layers, tree, 0755), 0);
}

void open_line(struct fixture *f)
{
	int pair[2];
	struct err err = {0};
	CHECK_INT(wire_pair(pair), 0);
	CHECK_INT(line_open(&f->broker->line, pair[0], &err), 0);
	f->daemon = pair[1];
	struct wire_msg hello;
	CHECK_INT(wire_recv(f->daemon, f->bytes, LIMIT_WIRE_BYTES, &hello), 1);
	CHECK_INT(hello.type, WIRE_HELLO);
}

void setup(struct fixture *f, zygote_fn keeper, zygote_fn tasks)
{
	struct broker *broker = mem_new(struct broker);
	struct err err = {0};
	struct state_owner owner = {geteuid(), getegid(), true};
	*f = (struct fixture){
		.broker = broker, .daemon = -1, .bytes = mem_zalloc(LIMIT_WIRE_BYTES)};
	f->dir = test_dir_fd();
	log_setup("test", LOG_LEVEL_ERROR);
	site_init(&broker->site);
	broker->site.is_rootless = true;
	broker->site.daemon = (struct userdb_account){geteuid(), getegid()};
	auto_free char *path = mem_printf("%s/state", test_dir());
	CHECK_INT(state_open(&broker->site.state, path, true, &err), 0);
	CHECK_INT(state_prepare(&broker->site.state, &owner, &err), 0);
	broker->site.program_fd = open("/dev/null", O_PATH | O_CLOEXEC);
	broker->site.templates_fd = open("/dev/null", O_PATH | O_CLOEXEC);
	slots_init(&broker->slots, -1, broker->site.state.path);
	egress_init(&f->broker->egress, f->broker);
	line_init(&broker->line, broker);
	control_init(&broker->control, broker);
	supervise_init(&broker->supervise, broker, -1, NULL);
	f->launch = (struct zygote_role){.name = "test:launch", .run = keeper};
	f->tasks = (struct zygote_role){.name = "test:tasks",
	                                .run = tasks,
	                                .ctx = &broker->site,
	                                .keep = &broker->site.state.dir_fd,
	                                .keep_count = 4};
	CHECK_INT(zygote_start(&broker->launch, &f->launch, &err), 0);
	CHECK_INT(zygote_start(&broker->tasks, &f->tasks, &err), 0);
	CHECK_INT(loop_new(&broker->loop), 0);
	open_line(f);
	make_layer(f, LAYER_A);
}

void teardown(struct fixture *f)
{
	struct broker *broker = f->broker;
	line_close(&broker->line);
	job_free_all(broker);
	grants_done(&broker->grants);
	zygote_stop(&broker->launch);
	zygote_stop(&broker->tasks);
	slots_done(&broker->slots);
	loop_free(broker->loop);
	site_done(&broker->site);
	fd_closep(&f->daemon);
	fd_closep(&f->dir);
	mem_freep(&f->bytes);
	mem_freep(&f->broker);
}

bool is_cut_off(const struct fixture *f)
{
	return f->broker->line.sock < 0;
}

int ask(struct fixture *f, struct wire_out *out, struct wire_msg *answer, struct err *err)
{
	*err = (struct err){0};
	CHECK_INT(wire_send(f->daemon, out), 0);
	wire_done(out);
	CHECK_INT(io_set_nonblock(f->daemon, true), 0);
	for (int i = 0; i < 2000 && !is_cut_off(f); i++) {
		CHECK(loop_step(f->broker->loop, 5) >= 0);
		int r = wire_recv(f->daemon, f->bytes, LIMIT_WIRE_BYTES, answer);
		if (r > 0)
			return wire_get_err(answer, err);
	}
	CHECK(is_cut_off(f));
	return -1;
}

void expect_refusal(struct fixture *f, struct wire_out *out, enum err_code code)
{
	struct wire_msg answer;
	struct err err;
	CHECK_INT(ask(f, out, &answer, &err), -1);
	CHECK(!is_cut_off(f));
	CHECK_STR(err_name(err.code), err_name(code));
}

void expect_cut_off(struct fixture *f, struct wire_out *out)
{
	struct wire_msg answer;
	struct err err;
	CHECK_INT(ask(f, out, &answer, &err), -1);
	CHECK(is_cut_off(f));
	fd_closep(&f->daemon);
	open_line(f);
}

void expect_ok(struct fixture *f, struct wire_out *out)
{
	struct wire_msg answer;
	struct err err;
	int r = ask(f, out, &answer, &err);
	CHECK_STR(err.msg, "");
	CHECK_INT(r, 0);
}

size_t count_entries(int dir_fd)
{
	size_t count = 0;
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fdopendir(copy);
	CHECK(dir != NULL);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

void begin_launch(struct wire_out *out, const char *sandbox, const char *layer)
{
	wire_begin(out, WIRE_OP_LAUNCH, 7);
	wire_put_str(out, FIELD_SANDBOX, sandbox);
	wire_put_str(out, FIELD_LAYER, layer);
}

void begin_reap(struct wire_out *out, const char *sandbox)
{
	wire_begin(out, WIRE_OP_REAP, 8);
	wire_put_str(out, FIELD_SANDBOX, sandbox);
}
