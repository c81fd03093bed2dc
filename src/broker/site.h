/*
 * What a broker stands on: state directory, cgroups, ids, the program that goes inside. Filled once
 * at start, then read by the loop and inherited by zygotes and tasks. Nothing here changes later.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/state.h"
#include "broker/userdb.h"
#include "model/strings.h"
#include "os/cgroup.h"
#include "os/disk.h"

struct site {
	struct state state;
	struct cgroup_layout cgroups;
	struct userdb_account
		daemon;   /* cloched's ids as we see them; 0 when rootless: our own user */
	bool is_rootless; /* root of a user namespace only */
	/* Rootless: the one range all sandboxes and workers have, in our namespace. */
	uint32_t shared_base;
	uint32_t shared_count;
	int program_fd;                 /* O_PATH of the sealed copy of this program */
	int templates_fd;               /* empty disk images, for loop disks */
	enum disk_backend disk_backend; /* what `auto` means here, found by trying */
	int cloched_fd;                 /* O_PATH of cloched, to execute */
	char host_layer[33];            /* id of the host image's layer */
	char *commands;           /* folder of manifests: absolute, or in the state directory */
	struct strings resolvers; /* of config.toml; empty: those of /etc/resolv.conf */
};

void site_init(struct site *site);
void site_done(struct site *site);

/* The range a worker gets, and as whom its files are stored: see worker.h. */
uint32_t site_worker_base(const struct site *site);
uint32_t site_worker_count(const struct site *site);
/* Host id under which canonical id `id` of a layer is stored on disk. */
uint32_t site_stored_id(const struct site *site, uint32_t id);

/* cloched beside this program, else in the places it is installed to. -errno. */
int site_find_cloched(void) NODISCARD;
/* A read-only tmpfs on $STATE/program (in our own mount namespace) with a copy of this very
 * program, named after its content: what runs inside can never be the file on the host's disk. */
int site_seal_program(struct site *site, struct err *err) NODISCARD;
