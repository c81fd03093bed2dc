/*
 * `cloche doctor` without a daemon: the same checks with the rights `cloche serve` would have here.
 *
 * Who: the command line, as root or as an ordinary user, who first becomes root of a user
 * namespace. Bytes: none. Gone at the end: the folder in which disks were tried.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "broker/broker.h"
#include "broker/rootless.h"
#include "broker/site.h"
#include "os/path.h"

/* A folder on the file system that the state directory will be on, before there is one. */
struct place {
	int parent; /* owned; -1: none was made */
	char name[sizeof(".cloche-doctor-") + 10];
	int fd;
};

static void place_done(struct place *place)
{
	fd_closep(&place->fd);
	if (place->parent >= 0)
		(void)unlinkat(place->parent, place->name, AT_REMOVEDIR); /* it is empty */
	fd_closep(&place->parent);
}

/* The nearest folder above that exists. */
static int open_above(const char *path)
{
	auto_free char *copy = mem_strdup(path);
	int fd;
	while ((fd = open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 && errno == ENOENT) {
		char *slash = strrchr(copy, '/');
		if (!slash)
			return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		slash[slash == copy] = '\0';
	}
	return fd < 0 ? -errno : fd;
}

/* Where it fails the disks are tried on a tmpfs. */
static void place_make(struct place *place, const char *state)
{
	place->parent = open_above(state);
	if (place->parent < 0)
		return;
	(void)snprintf(place->name, sizeof(place->name), ".cloche-doctor-%d", (int)getpid());
	if (mkdirat(place->parent, place->name, 0700) < 0) {
		fd_closep(&place->parent);
		return;
	}
	place->fd = path_open_plain(place->parent, place->name, O_RDONLY | O_DIRECTORY, 0);
}

int broker_doctor(const char *state, doctor_on_check on_check, void *ctx, struct err *err)
{
	auto_(site_done) struct site site;
	site_init(&site);
	auto_free char *path = state_path(state);
	struct err none = {0};
	auto_(place_done) struct place place = {.parent = -1, .fd = -1};
	if (state_open(&site.state, path, false, &none) < 0 ||
	    state_open_dirs(&site.state, &none) < 0) {
		fd_closep(&site.state.sandboxes_fd);
		place_make(&place, path);
	}
	bool is_rootless = geteuid() != 0;
	if (is_rootless && rootless_enter(&site, &none) < 0) {
		struct doctor_check check = {.name = "user_namespaces", .status = DOCTOR_MISSING};
		(void)snprintf(check.detail, sizeof(check.detail), "%.150s", none.msg);
		check.remedy = "see the detail";
		on_check(&check, ctx);
		return 0; /* nothing else can be tried without */
	}
	struct doctor_options options = {.sandboxes_fd =
	                                         place.fd >= 0 ? place.fd : site.state.sandboxes_fd,
	                                 .is_rootless = is_rootless,
	                                 .id_count = site_worker_count(&site)};
	doctor_run(&options, on_check, ctx);
	return 0;
}
