/*
 * The jail a worker is started in, and what comes out of it: files in canonical ids. Needs root,
 * for idmapped mounts; as an ordinary user the same code runs without them (integration tests).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "broker/layer.h"
#include "broker/reap.h"
#include "broker/worker.h"
#include "harness/test.h"
#include "os/path.h"

#define BOX "sb_00000000000000000001"

static void setup(struct site *site, const char *program)
{
	struct err err = {0};
	struct state_owner owner = {0, 0, true};
	if (geteuid() != 0)
		SKIP("needs root for idmapped mounts");
	site_init(site);
	auto_free char *path = mem_printf("%s/state", test_dir());
	CHECK_INT(state_open(&site->state, path, true, &err), 0);
	CHECK_INT(state_confine(&site->state, &err), 0);
	CHECK_INT(state_prepare(&site->state, &owner, &err), 0);
	site->cloched_fd = open(program, O_PATH | O_CLOEXEC);
	CHECK(site->cloched_fd >= 0);
}

static char *probe(struct site *site, int tree)
{
	struct worker worker;
	struct err err = {0};
	struct wire_msg answer;
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	auto_wire_out struct wire_out out;
	CHECK_INT(worker_start(&worker, site, tree, &err), 0);
	wire_begin(&out, WIRE_W_USAGE, 1);
	wire_put_fd(&out, worker.tree);
	int r = worker_call(&worker, &out, 10000, bytes, &answer, &err);
	CHECK_STR(err.msg, "");
	CHECK_INT(r, 0);
	size_t len;
	const uint8_t *text = wire_blob(&answer, FIELD_BYTES, &len);
	char *copy = mem_strndup((const char *)text, len);
	wire_msg_done(&answer);
	worker_stop(&worker);
	return copy;
}

static void check_owner(int dir, const char *name, uid_t uid)
{
	struct stat st;
	CHECK_INT(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	CHECK_INT(st.st_uid, uid);
	CHECK_INT(st.st_gid, uid);
}

TEST(the_jail_holds_nothing_but_the_tree)
{
	struct site site;
	setup(&site, JAIL_PROBE);
	auto_close int tree = path_dir(site.state.layers_fd, "tree", 0755);
	auto_free char *text = probe(&site, tree);
	CHECK_HAS(text, "fds=4\n"); /* 0, 1, 2 and the wire */
	CHECK_HAS(text, "uid=0\n"); /* of its own namespace */
	CHECK_HAS(text, "pid=1\n");
	CHECK_HAS(text, "passwd=2\n"); /* ENOENT: there is no such file there */
	CHECK_HAS(text, "proc=2\n");
	CHECK_HAS(text, "write_root=30\n"); /* EROFS */
	CHECK_HAS(text, "write_usr=30\n");
	CHECK_HAS(text, "mount=1\n"); /* EPERM: no CAP_SYS_CHROOT, nor any other of that kind */
	CHECK_HAS(text, "env=0\n");
	CHECK_HAS(text, "root/tree\n");
	CHECK(!strstr(text, "root/etc") && !strstr(text, "root/home") &&
	      !strstr(text, "root/proc"));
	site_done(&site);
}

TEST(files_are_stored_in_canonical_ids)
{
	struct site site;
	setup(&site, JAIL_PROBE);
	auto_close int tree = path_dir(site.state.layers_fd, "tree", 0755);
	auto_free char *text = probe(&site, tree);
	CHECK_HAS(text, "own=0\n");
	CHECK_HAS(text, "agents=0\n");
	CHECK_HAS(text, "strange=22\n"); /* EINVAL: no such id in its range */
	check_owner(tree, "own", 0);
	check_owner(tree, "agents", 1000);
	site_done(&site);
}

/* One ustar entry: an empty file of that owner. */
static void put_entry(char *block, const char *name, unsigned owner)
{
	unsigned sum = 0;
	memset(block, 0, 512);
	(void)snprintf(block, 100, "%s", name);
	(void)snprintf(block + 100, 8, "%07o", 0644);
	(void)snprintf(block + 108, 8, "%07o", owner);
	(void)snprintf(block + 116, 8, "%07o", owner);
	(void)snprintf(block + 124, 12, "%011o", 0);
	(void)snprintf(block + 136, 12, "%011o", 1);
	block[156] = '0';
	memcpy(block + 257, "ustar\00000", 8);
	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < 512; i++)
		sum += (unsigned char)block[i];
	(void)snprintf(block + 148, 8, "%06o", sum);
}

static int make_archive(void)
{
	char blocks[5 * 512] = {0};
	put_entry(blocks, "roots", 0);
	put_entry(blocks + 512, "agents", 1000);
	put_entry(blocks + 1024, "nobodys", 65534);
	test_write_file("image.tar", blocks, sizeof(blocks));
	auto_close int dir = test_dir_fd();
	return openat(dir, "image.tar", O_RDONLY | O_CLOEXEC);
}

TEST(an_archive_keeps_its_owners)
{
	struct site site;
	struct err err = {0};
	setup(&site, CLOCHED);
	auto_close int archive = make_archive();
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, 1);
	int r = layer_import(&site, archive, "tar", &out, &err);
	CHECK_STR(err.msg, "");
	CHECK_INT(r, 0);
	size_t len;
	const uint8_t *bytes = wire_bytes(&out, &len);
	struct wire_msg msg;
	CHECK_INT(wire_parse(bytes, len, &msg), 0);
	const char *id = wire_str(&msg, FIELD_LAYER, "");
	auto_close int tree = layer_open_tree(&site, id, &err);
	CHECK(tree >= 0);
	check_owner(tree, "roots", 0);
	check_owner(tree, "agents", 1000);
	check_owner(tree, "nobodys", 65534);
	/* And goes the way it came. */
	CHECK_INT(layer_remove(&site, id, &err), 0);
	CHECK_INT(layer_remove(&site, id, &err), 0);
	CHECK_INT(faccessat(site.state.layers_fd, id, F_OK, AT_SYMLINK_NOFOLLOW), -1);
	site_done(&site);
}

TEST(a_broken_archive_leaves_nothing)
{
	struct site site;
	struct err err = {0};
	struct stat st;
	setup(&site, CLOCHED);
	test_write_file("image.tar", "this is no archive", 18);
	auto_close int dir = test_dir_fd();
	auto_close int archive = openat(dir, "image.tar", O_RDONLY | O_CLOEXEC);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, 1);
	CHECK_INT(layer_import(&site, archive, "auto", &out, &err), -1);
	CHECK_INT(fstat(site.state.layers_fd, &st), 0);
	CHECK_INT(st.st_nlink, 2); /* no directory left in it */
	site_done(&site);
}

TEST(a_disk_goes_with_all_that_is_in_it)
{
	struct site site;
	struct err err = {0};
	setup(&site, CLOCHED);
	auto_close int box = path_dir(site.state.sandboxes_fd, BOX, 0700);
	auto_close int disk = path_dir(box, "disk", 0700);
	auto_close int upper = path_dir(disk, "upper", 0755);
	auto_close int locked = path_dir(upper, "locked", 0700);
	CHECK_INT(fchown(upper, 1000, 1000), 0);
	CHECK_INT(mkdirat(locked, "deep", 0700), 0);
	CHECK_INT(symlinkat("/etc", locked, "link"), 0);
	CHECK_INT(fchown(locked, 1000, 1000), 0);
	CHECK_INT(fchmod(locked, 0), 0);
	int r = reap_run(&site, BOX, false, &err);
	CHECK_STR(err.msg, "");
	CHECK_INT(r, 0);
	CHECK_INT(faccessat(site.state.sandboxes_fd, BOX, F_OK, 0), -1);
	CHECK_INT(access("/etc/passwd", F_OK), 0);
	site_done(&site);
}

TEST(a_program_that_cannot_start_is_an_error)
{
	struct site site;
	struct err err = {0};
	setup(&site, "/etc/passwd");
	auto_close int tree = path_dir(site.state.layers_fd, "tree", 0755);
	CHECK_INT(worker_remove(&site, tree, &err), -1);
	CHECK_HAS(err.msg, "start a worker");
	site_done(&site);
}
