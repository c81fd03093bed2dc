/* The store's rows, pages, events and keys, on a database of each test's own. */
#include "harness/test.h"

#include <poll.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "store/load.h"
#include "store/store.h"
#include "unit/store_vfs.h"

#define GRANT "gr_01jd3q8k2v9m4x7c5t0z"

static struct err err;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			test_fail(__FILE__, __LINE__, "%s: %s", #call, err.msg);                   \
	} while (0)

static const char *db_path(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/cloche.db", test_dir());
	return path;
}

static struct store *open_store(void)
{
	struct store_options options = {.path = db_path()};
	struct store *store = NULL;

	OK(store_open(&options, &store, &err));
	return store;
}

static struct sandbox *make_sandbox(const char *name)
{
	struct sandbox *sandbox;
	struct spec spec;

	spec_init(&spec);
	spec_set(&spec.name, name);
	sandbox = sandbox_new(&spec, 1700000000000);
	spec_done(&spec);
	return sandbox;
}

static int put(struct store *store, const struct sandbox *sandbox, enum event_kind kind)
{
	struct event event = {.kind = kind, .time_ms = 5, .sandbox = sandbox->id};
	struct store_write *write = store_write_new(store);

	store_put_sandbox(write, sandbox);
	store_put_event(write, &event);
	return store_write_wait(write, NULL, &err);
}

/* A stored sandbox; returns its id. */
static struct id put_named(struct store *store, const char *name, const char *label,
                           enum sandbox_state state)
{
	struct sandbox *sandbox = make_sandbox(name);
	struct id id = sandbox->id;

	sandbox->state = state;
	if (label != NULL)
		strings_add(&sandbox->spec.labels, label);
	OK(put(store, sandbox, EVENT_SANDBOX_CREATED));
	sandbox_free(sandbox);
	return id;
}

static void check_same(const struct sandbox *a, const struct sandbox *b)
{
	CHECK_STR(a->id.text, b->id.text);
	CHECK_INT(a->state, b->state);
	CHECK_STR(a->spec.name, b->spec.name);
	CHECK_STR(a->spec.profile, b->spec.profile);
	CHECK_STR(a->spec.runtime, b->spec.runtime);
	CHECK_STR(a->spec.image, b->spec.image);
	CHECK_STR(a->spec.user, b->spec.user);
	CHECK_STR(a->spec.cwd, b->spec.cwd);
	CHECK_STR(a->spec.hostname, b->spec.hostname);
	CHECK_STR(a->spec.disk_backend, b->spec.disk_backend);
	CHECK_STR(a->spec.network, b->spec.network);
	CHECK(strings_equal(&a->spec.labels, &b->spec.labels));
	CHECK(strings_equal(&a->spec.env, &b->spec.env));
	CHECK(strings_equal(&a->mechanisms, &b->mechanisms));
	CHECK_MEM(&a->spec.limits, &b->spec.limits, sizeof(a->spec.limits));
	CHECK_MEM(&a->meters, &b->meters, sizeof(a->meters));
	CHECK_INT(a->spec.ttl_ms, b->spec.ttl_ms);
	CHECK_INT(a->spec.degraded, b->spec.degraded);
	CHECK_INT(a->is_degraded, b->is_degraded);
	CHECK_INT(a->spec.mount_count, b->spec.mount_count);
	CHECK_STR(a->image_id.text, b->image_id.text);
	CHECK_INT(a->created_ms, b->created_ms);
	CHECK_INT(a->started_ms, b->started_ms);
	CHECK_INT(a->ended_ms, b->ended_ms);
	CHECK_INT(a->expires_ms, b->expires_ms);
	CHECK_STR(a->end_reason, b->end_reason);
	CHECK_STR(a->detail, b->detail);
}

/* Sets everything to something that is not its default. */
static struct sandbox *make_full_sandbox(void)
{
	struct sandbox *sandbox = make_sandbox("full");
	struct spec *spec = &sandbox->spec;

	sandbox->state = SANDBOX_FAILED;
	spec_set(&spec->hostname, "box");
	spec_set(&spec->user, "0:0");
	strings_add(&spec->labels, "team=one");
	strings_add(&spec->labels, "a.b/c=d=e");
	strings_add(&spec->env, "TEXT=line one\nline two\\ \\n three");
	strings_add(&spec->env, "EMPTY=");
	spec_add_mount(spec, "/home/me/src", GRANT, "/workspace", false);
	spec_add_mount(spec, NULL, GRANT, "/data", true);
	spec->limits.cpu_milli = 250;
	spec->ttl_ms = 60000;
	spec->degraded = true;
	sandbox->is_degraded = true;
	sandbox->started_ms = 1700000000001;
	sandbox->ended_ms = 1700000000002;
	sandbox->expires_ms = 1700000060000;
	sandbox->end_reason = mem_strdup("lost");
	sandbox->detail = mem_strdup("the keeper is gone");
	strings_add(&sandbox->mechanisms, "cgroup=v1");
	strings_add(&sandbox->mechanisms, "disk=tmpfs");
	sandbox->meters.memory_byte_seconds = UINT64_MAX;
	sandbox->meters.oom_kills = 2;
	return sandbox;
}

TEST(sandbox_comes_back_as_it_was)
{
	auto_(store_closep) struct store *store = open_store();
	auto_(sandbox_freep) struct sandbox *sandbox = make_full_sandbox();
	auto_(sandbox_freep) struct sandbox *back = NULL;

	OK(put(store, sandbox, EVENT_SANDBOX_CREATED));
	OK(store_sandbox_get(store, sandbox->id.text, &back, &err));
	check_same(back, sandbox);
	CHECK_STR(back->spec.mounts[0].source, "/home/me/src");
	CHECK_STR(back->spec.mounts[0].grant, GRANT);
	CHECK(!back->spec.mounts[0].read_only);
	CHECK(back->spec.mounts[1].source == NULL);
	CHECK_STR(back->spec.mounts[1].target, "/data");
	CHECK(back->spec.mounts[1].read_only);
	sandbox_freep(&back);
	OK(store_sandbox_get(store, "full", &back, &err));
	CHECK_STR(back->id.text, sandbox->id.text);
}

TEST(put_replaces_and_delete_removes)
{
	auto_(store_closep) struct store *store = open_store();
	auto_(sandbox_freep) struct sandbox *sandbox = make_full_sandbox();
	auto_(sandbox_freep) struct sandbox *back = NULL;
	struct store_write *write;

	OK(put(store, sandbox, EVENT_SANDBOX_CREATED));
	strings_done(&sandbox->spec.labels);
	strings_add(&sandbox->spec.labels, "other=one");
	spec_set(&sandbox->spec.name, "renamed");
	sandbox->state = SANDBOX_RUNNING;
	OK(put(store, sandbox, EVENT_SANDBOX_RENAMED));
	OK(store_sandbox_get(store, "renamed", &back, &err));
	check_same(back, sandbox);
	sandbox_freep(&back);
	CHECK_INT(store_sandbox_get(store, "full", &back, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK_STR(err.msg, "no sandbox 'full'");
	write = store_write_new(store);
	store_delete_sandbox(write, sandbox->id.text);
	OK(store_write_wait(write, NULL, &err));
	CHECK_INT(store_sandbox_get(store, sandbox->id.text, &back, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
}

TEST(a_name_belongs_to_one_sandbox)
{
	auto_(store_closep) struct store *store = open_store();
	auto_(sandbox_freep) struct sandbox *twin = make_sandbox("web");
	struct id first = put_named(store, "web", NULL, SANDBOX_RUNNING);
	uint64_t before, after;
	struct store_write *write;

	OK(store_event_last(store, NULL, &before, &err));
	CHECK_INT(put(store, twin, EVENT_SANDBOX_CREATED), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_STR(err.msg, "a sandbox named 'web' exists already");
	OK(store_event_last(store, NULL, &after, &err));
	CHECK_INT(after, before);
	(void)put_named(store, NULL, NULL, SANDBOX_RUNNING);
	(void)put_named(store, NULL, NULL, SANDBOX_RUNNING);
	write = store_write_new(store);
	store_delete_sandbox(write, first.text);
	store_put_sandbox(write, twin);
	OK(store_write_wait(write, NULL, &err));
}

static void check_list(struct store *store, struct sandbox_filter filter, size_t count,
                       const struct id *first)
{
	struct sandbox_page page;

	OK(store_sandbox_list(store, &filter, &page, &err));
	CHECK_INT(page.count, count);
	CHECK(page.next_cursor == NULL);
	if (count > 0)
		CHECK_STR(page.items[0]->id.text, first->text);
	sandbox_page_done(&page);
}

TEST(lists_are_filtered)
{
	auto_(store_closep) struct store *store = open_store();
	struct id a = put_named(store, "a", "team=one", SANDBOX_RUNNING);
	struct id b = put_named(store, "b", "team=two", SANDBOX_STOPPED);
	struct id c = put_named(store, NULL, "team=one", SANDBOX_FAILED);
	struct strings labels = {0};

	/* Ids of the same millisecond are in no order that a test may rely on. */
	check_list(store, (struct sandbox_filter){.states = 1U << SANDBOX_RUNNING}, 1, &a);
	check_list(store, (struct sandbox_filter){.states = 1U << SANDBOX_STOPPED}, 1, &b);
	check_list(store, (struct sandbox_filter){.states = 1U << SANDBOX_REMOVING}, 0, NULL);
	check_list(store, (struct sandbox_filter){.name = "b"}, 1, &b);
	check_list(store, (struct sandbox_filter){.image = "debian"}, 0, NULL);
	strings_add(&labels, "team=one");
	check_list(store,
	           (struct sandbox_filter){.labels = &labels, .states = 1U << SANDBOX_FAILED}, 1,
	           &c);
	check_list(store, (struct sandbox_filter){.labels = &labels, .name = "a", .image = "host"},
	           1, &a);
	check_list(store, (struct sandbox_filter){.labels = &labels, .name = "b"}, 0, NULL);
	strings_add(&labels, "team=two");
	check_list(store, (struct sandbox_filter){.labels = &labels}, 0, NULL);
	strings_done(&labels);
}

TEST(pages_cover_everything_once)
{
	auto_(store_closep) struct store *store = open_store();
	auto_free char *cursor = NULL;
	struct strings seen = {0};
	size_t pages = 0;

	for (int i = 0; i < 23; i++)
		(void)put_named(store, NULL, "x=y", SANDBOX_RUNNING);
	do {
		struct sandbox_filter filter = {.cursor = cursor, .limit = 5};
		struct sandbox_page page;

		OK(store_sandbox_list(store, &filter, &page, &err));
		for (size_t i = 0; i < page.count; i++) {
			CHECK(!strings_has(&seen, page.items[i]->id.text));
			if (seen.count > 0)
				CHECK(strcmp(seen.items[seen.count - 1], page.items[i]->id.text) <
				      0);
			strings_add(&seen, page.items[i]->id.text);
			CHECK_INT(page.items[i]->spec.labels.count, 1);
		}
		free(cursor);
		cursor = take_ptr(page.next_cursor);
		sandbox_page_done(&page);
		pages++;
	} while (cursor != NULL);
	CHECK_INT(pages, 5);
	CHECK_INT(seen.count, 23);
	strings_done(&seen);
}

TEST(cursors_and_limits_of_others_are_refused)
{
	auto_(store_closep) struct store *store = open_store();
	static const char *const bad[] = {"", "x", "c1", "c1g", "c00", "czz", "sb_x", "cAB"};
	struct sandbox_page page;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sandbox_filter filter = {.cursor = bad[i]};

		CHECK_INT(store_sandbox_list(store, &filter, &page, &err), -1);
		CHECK_INT(err.code, ERR_INVALID);
	}
	CHECK_INT(store_sandbox_list(store, &(struct sandbox_filter){.limit = 1001}, &page, &err),
	          -1);
	CHECK_STR(err.msg, "limit 1001 is above the most of 1000");
	CHECK_INT(store_sandbox_list(store, &(struct sandbox_filter){.states = 1U << 31}, &page,
	                             &err),
	          -1);
	CHECK_INT(err.code, ERR_INVALID);
}

static struct id put_exec(struct store *store, const struct id *sandbox, bool running)
{
	struct store_write *write = store_write_new(store);
	struct exec *exec = exec_new(sandbox);
	struct id id = exec->id;

	strings_add(&exec->argv, "sh");
	strings_add(&exec->argv, "-c");
	strings_add(&exec->argv, "echo a\nb \\n");
	strings_add(&exec->argv, "");
	exec->user = mem_strdup("agent");
	exec->started_ms = 7;
	exec->background = true;
	exec->ended_ms = running ? 0 : 9;
	exec->signal = running ? 0 : 15;
	exec->exit_code = -1;
	exec->reason = running ? NULL : mem_strdup("signal");
	exec->output_bytes = 1234;
	store_put_exec(write, exec);
	OK(store_write_wait(write, NULL, &err));
	exec_free(exec);
	return id;
}

TEST(exec_comes_back_and_goes_with_its_sandbox)
{
	auto_(store_closep) struct store *store = open_store();
	struct id sandbox = put_named(store, "a", NULL, SANDBOX_RUNNING);
	struct id id = put_exec(store, &sandbox, false);
	struct store_write *write;
	struct exec *exec = NULL;

	OK(store_exec_get(store, id.text, &exec, &err));
	CHECK_STR(exec->sandbox.text, sandbox.text);
	CHECK_INT(exec->argv.count, 4);
	CHECK_STR(exec->argv.items[2], "echo a\nb \\n");
	CHECK_STR(exec->argv.items[3], "");
	CHECK_STR(exec->user, "agent");
	CHECK(exec->cwd == NULL);
	CHECK_INT(exec->signal, 15);
	CHECK_INT(exec->exit_code, -1);
	CHECK_STR(exec->reason, "signal");
	CHECK_INT(exec->output_bytes, 1234);
	CHECK(exec->background);
	exec_free(exec);
	write = store_write_new(store);
	store_delete_sandbox(write, sandbox.text);
	OK(store_write_wait(write, NULL, &err));
	CHECK_INT(store_exec_get(store, id.text, &exec, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK_INT(store_exec_latest(store, sandbox.text, &exec, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
}

TEST(execs_are_listed_and_need_a_sandbox)
{
	auto_(store_closep) struct store *store = open_store();
	struct id a = put_named(store, "a", NULL, SANDBOX_RUNNING);
	struct id b = put_named(store, "b", NULL, SANDBOX_RUNNING);
	struct store_write *write = store_write_new(store);
	auto_(exec_freep) struct exec *stray = exec_new(&(struct id){"sb_gone"});
	auto_(exec_freep) struct exec *latest = NULL;
	struct exec_page page;
	struct id last;

	(void)put_exec(store, &a, false);
	(void)put_exec(store, &b, true);
	usleep(2000); /* so that the last id is the newest */
	last = put_exec(store, &a, true);
	OK(store_exec_list(store, &(struct exec_filter){0}, &page, &err));
	CHECK_INT(page.count, 3);
	exec_page_done(&page);
	OK(store_exec_list(store, &(struct exec_filter){.sandbox = a.text, .limit = 1}, &page,
	                   &err));
	CHECK_INT(page.count, 1);
	CHECK(page.next_cursor != NULL);
	exec_page_done(&page);
	OK(store_exec_list(store, &(struct exec_filter){.sandbox = a.text, .running_only = true},
	                   &page, &err));
	CHECK_INT(page.count, 1);
	exec_page_done(&page);
	OK(store_exec_latest(store, a.text, &latest, &err));
	CHECK_STR(latest->id.text, last.text);
	store_put_exec(write, stray);
	CHECK_INT(store_write_wait(write, NULL, &err), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_STR(err.msg, "sandbox sb_gone of this command is gone");
}

static int put_image(struct store *store, const char *name, const char *layer, struct id *ret)
{
	struct store_write *write = store_write_new(store);
	struct image *image = image_new();
	int r;

	*ret = image->id;
	image->name = mem_strdup(name);
	image->format = mem_strdup("tar");
	image->config = mem_strdup("{\"user\":\"root\"}");
	image->bytes = 1ULL << 40;
	strings_add(&image->layers, "ly_base");
	strings_add(&image->layers, layer);
	store_put_image(write, image);
	r = store_write_wait(write, NULL, &err);
	image_free(image);
	return r;
}

static int delete_image(struct store *store, const char *id)
{
	struct store_write *write = store_write_new(store);

	store_delete_image(write, id);
	return store_write_wait(write, NULL, &err);
}

TEST(images_share_layers)
{
	auto_(store_closep) struct store *store = open_store();
	struct strings unused = {0};
	struct image *image = NULL;
	struct image_page page;
	struct id one, two, three;
	struct store_write *write;

	OK(put_image(store, "one", "ly_1", &one));
	OK(put_image(store, "two", "ly_2", &two));
	CHECK_INT(put_image(store, "two", "ly_3", &three), -1);
	CHECK_STR(err.msg, "an image named 'two' exists already");
	CHECK_INT(err.code, ERR_CONFLICT);
	OK(store_image_get(store, "two", &image, &err));
	CHECK_STR(image->id.text, two.text);
	CHECK_STR(image->layers.items[0], "ly_base");
	CHECK_STR(image->layers.items[1], "ly_2");
	CHECK_INT(image->bytes, 1ULL << 40);
	image_free(image);
	OK(store_image_list(store, NULL, 1, &page, &err));
	CHECK_STR(page.items[0]->name, "one");
	CHECK(page.next_cursor != NULL);
	image_page_done(&page);
	OK(delete_image(store, one.text));
	CHECK_INT(delete_image(store, one.text), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	OK(store_layers_unused(store, &unused, &err));
	CHECK_INT(unused.count, 1);
	CHECK_STR(unused.items[0], "ly_1");
	strings_done(&unused);
	write = store_write_new(store);
	store_delete_layer(write, "ly_1");
	OK(store_write_wait(write, NULL, &err));
	write = store_write_new(store);
	store_delete_layer(write, "ly_base");
	CHECK_INT(store_write_wait(write, NULL, &err), -1);
	CHECK_STR(err.msg, "layer ly_base is used by an image");
	OK(store_layers_unused(store, &unused, &err));
	CHECK_INT(unused.count, 0);
	strings_done(&unused);
}

TEST(an_image_in_use_stays)
{
	auto_(store_closep) struct store *store = open_store();
	auto_(sandbox_freep) struct sandbox *sandbox = make_sandbox("user");
	struct sandbox_page page;
	struct id id;

	OK(put_image(store, "debian", "ly_1", &id));
	spec_set(&sandbox->spec.image, "debian");
	sandbox->image_id = id;
	OK(put(store, sandbox, EVENT_SANDBOX_CREATED));
	CHECK_INT(delete_image(store, id.text), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_HAS(err.msg, "is used by a sandbox");
	OK(store_sandbox_list(store, &(struct sandbox_filter){.image = id.text}, &page, &err));
	CHECK_INT(page.count, 1);
	CHECK_STR(page.items[0]->image_id.text, id.text);
	sandbox_page_done(&page);
	snprintf(sandbox->image_id.text, sizeof(sandbox->image_id.text), "im_gone");
	CHECK_INT(put(store, sandbox, EVENT_SANDBOX_RUNNING), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_STR(err.msg, "image 'debian' is gone");
}

/* --- events --- */

struct heard {
	uint64_t last;
	size_t events, done, refused;
	struct store *store;
};

static void on_event(const struct event *event, void *ctx)
{
	struct heard *heard = ctx;

	CHECK_INT(event->seq, heard->last + 1);
	heard->last = event->seq;
	heard->events++;
}

static void on_done(const struct store_result *result, void *ctx)
{
	struct heard *heard = ctx;

	heard->done++;
	heard->refused += !result->ok;
	/* What is acknowledged can be read. */
	if (result->ok) {
		uint64_t last;

		CHECK_INT(result->seq, heard->last);
		OK(store_event_last(heard->store, NULL, &last, &err));
		CHECK(last >= result->seq);
	}
}

static void wait_for(struct heard *heard, size_t done)
{
	while (heard->done < done) {
		struct pollfd poll_fd = {.fd = store_event_fd(heard->store), .events = POLLIN};

		CHECK_INT(poll(&poll_fd, 1, 10000), 1);
		store_dispatch(heard->store);
	}
}

/* Events of all sandboxes are 1, 2, 3 …; so are those of each. */
static uint64_t check_gapless(struct store *store)
{
	struct event_filter filter = {.limit = 100};
	struct event_page page;
	bool more;

	do {
		OK(store_event_list(store, &filter, &page, &err));
		for (size_t i = 0; i < page.count; i++)
			CHECK_INT(page.items[i].seq, ++filter.after);
		more = page.more;
		event_page_done(&page);
	} while (more);
	return filter.after;
}

static void check_gapless_of(struct store *store, const char *sandbox, size_t count)
{
	struct event_filter filter = {.sandbox = sandbox, .limit = 1000};
	struct event_page page;

	OK(store_event_list(store, &filter, &page, &err));
	CHECK_INT(page.count, count);
	for (size_t i = 0; i < page.count; i++) {
		CHECK_INT(page.items[i].sandbox_seq, i + 1);
		CHECK_STR(page.items[i].sandbox.text, sandbox);
	}
	event_page_done(&page);
}

TEST(events_are_gapless_with_many_writes_under_way)
{
	auto_(store_closep) struct store *store = open_store();
	struct heard heard = {.store = store};
	struct sandbox *sandboxes[4];

	(void)put_named(store, "taken", NULL, SANDBOX_RUNNING);
	store_listen(store, on_event, &heard);
	for (int i = 0; i < 4; i++)
		sandboxes[i] = make_sandbox(NULL);
	for (int i = 0; i < 400; i++) {
		struct sandbox *sandbox = sandboxes[i % 4];
		struct event event = {.kind = EVENT_SANDBOX_RUNNING, .sandbox = sandbox->id};

		spec_set(&sandbox->spec.name, i % 10 == 7 ? "taken" : NULL);
		store_sandbox_put(store, sandbox, &event, on_done, &heard);
		if (i % 50 == 0)
			store_dispatch(store);
		if (i == 200)
			store_set_company(store, 100); /* from here on commits wait for more */
	}
	wait_for(&heard, 400);
	CHECK_INT(heard.refused, 40);
	CHECK_INT(heard.events, 361); /* with the one before */
	CHECK_INT(check_gapless(store), 361);
	for (int i = 0; i < 4; i++) {
		check_gapless_of(store, sandboxes[i]->id.text, i % 2 ? 80 : 100);
		sandbox_free(sandboxes[i]);
	}
}

/* What is taken back takes its number and its owner with it, also from the writer's memory. */
TEST(a_refused_write_leaves_no_trace_in_numbers_and_owners)
{
	auto_(store_closep) struct store *store = open_store();
	struct id taken = put_named(store, "taken", NULL, SANDBOX_RUNNING);
	struct sandbox *sandbox = make_sandbox(NULL);
	struct event event = {.kind = EVENT_SANDBOX_RUNNING, .sandbox = sandbox->id};
	struct store_write *write;
	struct event_page page;

	for (int i = 0; i < 3; i++) {
		spec_set(&sandbox->spec.name, i == 1 ? "taken" : NULL);
		sandbox->spec.visibility = i == 0 ? VISIBILITY_PRIVATE : VISIBILITY_GLOBAL;
		write = store_write_new(store);
		store_put_event(write,
		                &(struct event){.kind = EVENT_SANDBOX_RUNNING, .sandbox = taken});
		store_put_sandbox(write, sandbox);
		store_put_event(write, &event);
		CHECK_INT(store_write_wait(write, NULL, &err), i == 1 ? -1 : 0);
	}
	CHECK_INT(check_gapless(store), 5);
	check_gapless_of(store, taken.text, 3);
	check_gapless_of(store, sandbox->id.text, 2);
	OK(store_event_list(store, &(struct event_filter){.sandbox = sandbox->id.text}, &page,
	                    &err));
	CHECK_INT(page.items[0].visibility, VISIBILITY_PRIVATE);
	CHECK_INT(page.items[1].visibility, VISIBILITY_GLOBAL);
	event_page_done(&page);
	sandbox_free(sandbox);
}

TEST(events_outlive_their_sandbox)
{
	auto_(store_closep) struct store *store = open_store();
	struct id id = put_named(store, "a", NULL, SANDBOX_REMOVING);
	struct event event = {.kind = EVENT_SANDBOX_REMOVED, .sandbox = id};
	struct event none = {
		.kind = EVENT_DAEMON_STARTED, .data = (char *)"{\"a\":1}", .time_ms = 9};
	struct store_write *write = store_write_new(store);
	struct store_result result;
	struct event_page page;

	store_delete_sandbox(write, id.text);
	store_put_event(write, &event);
	store_put_event(write, &none);
	OK(store_write_wait(write, &result, &err));
	CHECK_INT(result.seq, 3);
	CHECK_INT(result.sandbox_seq, 0);
	check_gapless_of(store, id.text, 2);
	OK(store_event_list(store, &(struct event_filter){.after = 2}, &page, &err));
	CHECK_INT(page.count, 1);
	CHECK(!page.more);
	CHECK_INT(page.items[0].kind, EVENT_DAEMON_STARTED);
	CHECK_STR(page.items[0].data, "{\"a\":1}");
	CHECK_STR(page.items[0].sandbox.text, "");
	CHECK_INT(page.items[0].time_ms, 9);
	event_page_done(&page);
	OK(store_event_last(store, id.text, &result.seq, &err));
	CHECK_INT(result.seq, 2);
}

/* --- the rest --- */

TEST(idempotency_keys_are_claimed_once_until_they_expire)
{
	auto_(store_closep) struct store *store = open_store();
	struct idempotency entry = {(char *)"k", (char *)"POST /sandboxes", (char *)"h", 0, NULL,
	                            100};
	struct idempotency *found = NULL;
	struct store_write *write = store_write_new(store);

	store_claim_idempotency(write, &entry, 50);
	OK(store_write_wait(write, NULL, &err));
	write = store_write_new(store);
	store_claim_idempotency(write, &entry, 99);
	CHECK_INT(store_write_wait(write, NULL, &err), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	entry.status = 201;
	entry.response = (char *)"{}";
	write = store_write_new(store);
	store_put_idempotency(write, &entry);
	OK(store_write_wait(write, NULL, &err));
	OK(store_idempotency_get(store, "k", "POST /sandboxes", 99, &found, &err));
	CHECK_INT(found->status, 201);
	CHECK_STR(found->response, "{}");
	CHECK_STR(found->body_hash, "h");
	idempotency_free(found);
	CHECK_INT(store_idempotency_get(store, "k", "POST /images", 99, &found, &err), -1);
	CHECK_INT(store_idempotency_get(store, "k", "POST /sandboxes", 100, &found, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	entry.expires_ms = 300;
	write = store_write_new(store);
	store_claim_idempotency(write, &entry, 200);
	OK(store_write_wait(write, NULL, &err));
	write = store_write_new(store);
	store_expire_idempotency(write, 299);
	OK(store_write_wait(write, NULL, &err));
	OK(store_idempotency_get(store, "k", "POST /sandboxes", 200, &found, &err));
	idempotency_free(found);
	write = store_write_new(store);
	store_delete_idempotency(write, "k", "POST /sandboxes");
	OK(store_write_wait(write, NULL, &err));
	CHECK_INT(store_idempotency_get(store, "k", "POST /sandboxes", 0, &found, &err), -1);
}

TEST(meta_and_counts)
{
	auto_(store_closep) struct store *store = open_store();
	struct store_write *write = store_write_new(store);
	struct id id = put_named(store, "a", NULL, SANDBOX_RUNNING);
	struct store_counts counts;
	auto_free char *value = NULL;

	(void)put_named(store, "b", NULL, SANDBOX_RUNNING);
	(void)put_named(store, "c", NULL, SANDBOX_STOPPED);
	(void)put_exec(store, &id, true);
	(void)put_exec(store, &id, false);
	store_put_meta(write, "node", "one");
	store_put_meta(write, "node", "two");
	OK(store_write_wait(write, NULL, &err));
	OK(store_meta_get(store, "node", &value, &err));
	CHECK_STR(value, "two");
	CHECK_INT(store_meta_get(store, "nothing", &value, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	OK(store_count(store, &counts, &err));
	CHECK_INT(counts.sandboxes[SANDBOX_RUNNING], 2);
	CHECK_INT(counts.sandboxes[SANDBOX_STOPPED], 1);
	CHECK_INT(counts.sandboxes[SANDBOX_FAILED], 0);
	CHECK_INT(counts.execs, 2);
	CHECK_INT(counts.execs_running, 1);
	CHECK_INT(counts.images, 0);
	CHECK_INT(counts.events, 3);
}

TEST(everything_is_there_after_closing)
{
	struct store *store = open_store();
	auto_(sandbox_freep) struct sandbox *sandbox = make_full_sandbox();
	auto_(sandbox_freep) struct sandbox *back = NULL;

	OK(put(store, sandbox, EVENT_SANDBOX_CREATED));
	store_close(store);
	store = open_store();
	OK(store_sandbox_get(store, "full", &back, &err));
	check_same(back, sandbox);
	CHECK_INT(check_gapless(store), 1);
	store_close(store);
}

static void on_done_submit(const struct store_result *result, void *ctx)
{
	struct heard *heard = ctx;
	struct event event = {.kind = EVENT_DAEMON_STARTED};

	if (heard->done++ == 0) {
		CHECK(result->ok);
		store_event_put(heard->store, &event, on_done_submit, heard);
		return;
	}
	CHECK(!result->ok);
	CHECK_INT(result->err.code, ERR_UNAVAILABLE);
}

TEST(closing_commits_what_was_submitted_and_calls_back)
{
	struct store *store = open_store();
	struct heard heard = {.store = store};
	struct event event = {.kind = EVENT_DAEMON_STARTED};

	store_event_put(store, &event, on_done_submit, &heard);
	store_close(store);
	CHECK_INT(heard.done, 2);
	store = open_store();
	CHECK_INT(check_gapless(store), 1);
	store_close(store);
}

TEST(an_idle_store_commits_at_once_and_a_busy_one_in_groups)
{
	struct store_options options = {.path = db_path(), .vfs = store_vfs_setup()};
	struct event event = {.kind = EVENT_DAEMON_STARTED};
	struct store_stats before, after;
	struct store *store = NULL;
	struct heard heard = {0};

	OK(store_open(&options, &store, &err));
	heard.store = store;
	store_listen(store, on_event, &heard);
	store_get_stats(store, &before);
	store_vfs_hold();
	store_event_put(store, &event, on_done, &heard);
	store_vfs_wait_held(); /* the first is on its way alone, no timer was waited for */
	for (int i = 0; i < 20; i++)
		store_event_put(store, &event, on_done, &heard);
	store_dispatch(store);
	CHECK_INT(heard.done, 0); /* nothing is acknowledged before it is on disk */
	store_vfs_release();
	wait_for(&heard, 21);
	store_get_stats(store, &after);
	CHECK_INT(after.writes - before.writes, 21);
	CHECK(after.commits - before.commits >= 2);
	/* Twenty fit in one group unless this machine stalls for the group's two milliseconds. */
	CHECK(after.commits - before.commits <= 10);
	CHECK_INT(heard.refused, 0);
	store_close(store);
}
