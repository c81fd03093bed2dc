/*
 * `cloche doctor` without a daemon: the same checks with the rights `cloche serve` would have here.
 *
 * Who: the command line, as root or as an ordinary user, who first becomes root of a user
 * namespace. Bytes: none. Gone at the end: nothing was made.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "broker/broker.h"
#include "broker/rootless.h"
#include "broker/site.h"
#include "os/path.h"

int broker_doctor(const char *state, doctor_on_check on_check, void *ctx, struct err *err)
{
	auto_(site_done) struct site site;
	site_init(&site);
	auto_free char *path = state_path(state);
	struct err none = {0};
	/* Without a state directory the checks that need one try a tmpfs instead. */
	if (state_open(&site.state, path, false, &none) < 0 ||
	    state_open_dirs(&site.state, &none) < 0)
		fd_closep(&site.state.sandboxes_fd);
	bool is_rootless = geteuid() != 0;
	if (is_rootless && rootless_enter(&site, &none) < 0) {
		struct doctor_check check = {.name = "user_namespaces", .status = DOCTOR_MISSING};
		(void)snprintf(check.detail, sizeof(check.detail), "%.150s", none.msg);
		check.remedy = "see the detail";
		on_check(&check, ctx);
		return 0; /* nothing else can be tried without */
	}
	struct doctor_options options = {.sandboxes_fd = site.state.sandboxes_fd,
	                                 .is_rootless = is_rootless,
	                                 .id_count = site_worker_count(&site)};
	doctor_run(&options, on_check, ctx);
	return 0;
}
