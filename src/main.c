/*
 * cloche: the first word says which role this process plays; without one of these it is the command
 * line. The command line may not include broker or os, so what it needs of them is handed over
 * here.
 */
#include <malloc.h>

#include "agent/agent.h"
#include "base/str.h"
#include "beside.h"
#include "broker/broker.h"
#include "cli/cli.h"
#include "init/init.h"
#include "init/inside.h"
#include "keeper/isolate.h"
#include "keeper/slot.h"
#include "trees.h"

static int serve(const char *state_dir, const char *listen)
{
	return broker_serve(&(struct broker_options){.state = state_dir, .listen = listen});
}

static int stop(const char *state_dir, const struct cli_stop *how, struct err *err)
{
	return broker_stop(&(struct broker_stop_options){.state = state_dir,
	                                                 .keep = how->keep,
	                                                 .grace_ms = how->grace_ms},
	                   err);
}

struct doctor_relay {
	cli_on_check on_check;
	void *ctx;
};

static void relay_check(const struct doctor_check *check, void *ctx)
{
	const struct doctor_relay *relay = ctx;
	relay->on_check(&(struct cli_check){.name = check->name,
	                                    .status = doctor_status_name(check->status),
	                                    .detail = check->detail,
	                                    .remedy = check->remedy},
	                relay->ctx);
}

static int doctor(const char *state_dir, cli_on_check on_check, void *ctx, struct err *err)
{
	return broker_doctor(state_dir, relay_check, &(struct doctor_relay){on_check, ctx}, err);
}

static int role_inside(int argc, char **argv)
{
	return inside_main(argc - 2, argv + 2);
}

static int role_agent(int argc, char **argv)
{
	return agent_main(argc - 1, argv + 1);
}

/* Inside there is a link of this name to the program. */
static bool is_agent(const char *program)
{
	const char *slash = strrchr(program, '/');

	return str_eq(slash ? slash + 1 : program, "cloche-agent");
}

/* Init knows what runs inside, the keeper's code what walls are around it. */
static int drop_inside(const struct init_rights *rights, int keep_fd, struct err *err)
{
	const struct slot slot = {.range_count = rights->range_count,
	                          .nofile = rights->nofile,
	                          .nproc = rights->nproc,
	                          .is_parked = rights->waits};
	return isolate_init(&slot, keep_fd, err);
}

static int role_init(int argc, char **argv)
{
	return init_main(argc, argv, drop_inside);
}

static const struct {
	const char *word;
	int (*run)(int argc, char **argv);
} roles[] = {{"init", role_init}, {"inside", role_inside}};

/* Of a buffer for the largest message only the pages that are used should cost memory: keepers and
 * inits are many. */
enum { MAP_BYTES = 64 * 1024, PAD_BYTES = 16 * 1024 };

/* Whatever fits into the rest of the heap is taken from there, and zeroed: let there never be room
 * for such a buffer, neither now (libc has begun with more) nor after something was freed. */
static void save_memory(void)
{
#ifdef M_MMAP_THRESHOLD
	(void)mallopt(M_MMAP_THRESHOLD, MAP_BYTES); /* else it grows with what is freed */
	(void)mallopt(M_TOP_PAD, PAD_BYTES);
	(void)mallopt(M_TRIM_THRESHOLD, 2 * PAD_BYTES);
	(void)malloc_trim(0);
#endif
}

int main(int argc, char **argv)
{
	save_memory();
	static const struct cli_roles cli = {.serve = serve,
	                                     .stop = stop,
	                                     .doctor = doctor,
	                                     .pack = trees_pack,
	                                     .unpack = trees_unpack,
	                                     .tunnel = beside_tunnel,
	                                     .become_cloched = beside_become};
	if (argc > 0 && is_agent(argv[0]))
		return role_agent(argc, argv);
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(roles); i++) {
		if (str_eq(argv[1], roles[i].word))
			return roles[i].run(argc, argv);
	}
	return cli_main(argc, argv, &cli);
}
