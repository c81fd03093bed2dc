/*
 * The broker's own context: what its loop works on. One per process, owned by broker.c; the other
 * files of this folder get it as an argument. Not for other folders.
 */
#pragma once

#include "base/base.h"
#include "base/log.h"
#include "base/loop.h"
#include "broker/blank.h"
#include "broker/control.h"
#include "broker/egress.h"
#include "broker/grant.h"
#include "broker/job.h"
#include "broker/line.h"
#include "broker/site.h"
#include "broker/slot.h"
#include "broker/supervise.h"
#include "broker/zygote.h"

struct broker {
	struct loop *loop;
	struct site site;
	struct slots slots;
	struct grants grants;
	struct zygote launch;
	struct zygote tasks;
	struct job *jobs; /* what was asked and is not answered */
	struct blank *blanks;
	size_t job_count;
	bool has_half_layers; /* a job that makes layers died: see ops_layers_made */
	struct line line;     /* to cloched */
	struct supervise supervise;
	struct control control;
	struct egress egress;
	bool is_stopping; /* no new sandbox */
	bool purges;      /* nothing of the state directory is wanted any more */
};

/* Ends everything of ours but the sandboxes: cloched first, then the loop. */
void broker_shutdown(struct broker *broker, int status);
