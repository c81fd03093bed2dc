/*
 * cloched: the daemon; as `cloched worker` the jailed helper that touches files owned by sandbox
 * ids; as `cloched tunnel` and `cloched agent` what the command line leaves to us.
 */
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/signer.h"
#include "daemon/tunnel.h"
#include "worker/worker.h"

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (str_eq(word, "worker"))
		return worker_main(argc - 1, argv + 1);
	if (str_eq(word, "tunnel"))
		return tunnel_main(argc - 2, argv + 2);
	if (str_eq(word, "agent"))
		return signer_main(argc - 2, argv + 2);
	return daemon_main(argc - 1, argv + 1);
}
