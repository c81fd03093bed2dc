/*
 * cloched: the daemon, and as `cloched worker` the jailed helper that touches files owned by
 * sandbox ids.
 */
#include "base/str.h"
#include "daemon/daemon.h"
#include "worker/worker.h"

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[1], "worker"))
		return worker_main(argc - 1, argv + 1);
	return daemon_main(argc - 1, argv + 1);
}
