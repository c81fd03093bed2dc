#include "candidate.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARG_BYTES = 256, FIRST_ARG = 3 };

struct kind {
	const char *name;
	size_t args; /* at least */
	int (*prepare)(struct candidate *candidate);
	int (*sample)(struct candidate *candidate);
	void (*clean_up)(struct candidate *candidate);
};

static const char *arg(const struct candidate *candidate, size_t index)
{
	return candidate->field[FIRST_ARG + index];
}

/* --- a program --- */

static int prepare_nothing(struct candidate *candidate)
{
	return 0;
}

static int sample_spawn(struct candidate *candidate)
{
	static atomic_uint counter;
	unsigned number = atomic_fetch_add(&counter, 1);
	char texts[CANDIDATE_FIELDS][ARG_BYTES];
	char *argv[CANDIDATE_FIELDS + 1] = {0};

	for (size_t i = FIRST_ARG; i < candidate->count; i++) {
		char *field = candidate->field[i];
		const char *mark = strstr(field, "%n");

		argv[i - FIRST_ARG] = field;
		if (!mark)
			continue;
		(void)snprintf(texts[i], ARG_BYTES, "%.*s%d-%u%s", (int)(mark - field), field,
		               (int)getpid(), number, mark + 2);
		argv[i - FIRST_ARG] = texts[i];
	}
	return spawn_wait(argv);
}

static void clean_up_nothing(struct candidate *candidate)
{
}

/* --- a conversation of GET /run --- */

static int prepare_run(struct candidate *candidate)
{
	return client_open_run(&candidate->client, arg(candidate, 0));
}

static int sample_run(struct candidate *candidate)
{
	return client_run(&candidate->client, arg(candidate, 1));
}

/* One command a conversation: the next sample opens its own. */
static void clean_up_run(struct candidate *candidate)
{
	client_close(&candidate->client);
}

/* --- requests --- */

static int prepare_http(struct candidate *candidate)
{
	return candidate->client.fd >= 0 ? 0 : client_open(&candidate->client, arg(candidate, 0));
}

static int sample_post(struct candidate *candidate)
{
	const char *body;
	int status = client_request(&candidate->client, "POST", arg(candidate, 1),
	                            arg(candidate, 2), &body);

	return status < 0 || status >= 300 ? status : (int)json_number(body, "exitCode");
}

static int remove_made(struct candidate *candidate)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "/api/v1/sandboxes/%s?force=true", candidate->made);
	candidate->made[0] = '\0';
	int status = client_request(&candidate->client, "DELETE", path, "", NULL);

	return status == 204 ? 0 : status;
}

static int sample_make(struct candidate *candidate)
{
	const char *body;
	int status = client_request(&candidate->client, "POST", "/api/v1/sandboxes",
	                            arg(candidate, 1), &body);

	if (status != 201)
		return status;
	return json_text(body, "id", candidate->made, sizeof(candidate->made)) ? 0 : -EPROTO;
}

static int sample_keep(struct candidate *candidate)
{
	int r = sample_make(candidate);

	candidate->made[0] = '\0';
	return r;
}

static int sample_life(struct candidate *candidate)
{
	char path[128];
	const char *body;
	int r = sample_make(candidate);

	if (r != 0)
		return r;
	(void)snprintf(path, sizeof(path), "/api/v1/sandboxes/%s/execs", candidate->made);
	r = client_request(&candidate->client, "POST", path, arg(candidate, 2), &body);
	if (r != 200 || json_number(body, "exitCode") != 0)
		return r;
	return remove_made(candidate);
}

static void clean_up_http(struct candidate *candidate)
{
	if (candidate->made[0] != '\0')
		(void)!remove_made(candidate);
}

static const struct kind kinds[] = {
	{"spawn", 1, prepare_nothing, sample_spawn, clean_up_nothing},
	{"run", 2, prepare_run, sample_run, clean_up_run},
	{"post", 3, prepare_http, sample_post, clean_up_http},
	{"life", 3, prepare_http, sample_life, clean_up_http},
	{"make", 2, prepare_http, sample_make, clean_up_http},
	{"keep", 2, prepare_http, sample_keep, clean_up_http},
};

/* --- candidates --- */

struct candidate *candidate_new(char *line)
{
	struct candidate *candidate = calloc(1, sizeof(*candidate));
	char *rest = line;

	if (!candidate)
		return NULL;
	candidate->client.fd = -1;
	while (rest && candidate->count < CANDIDATE_FIELDS)
		candidate->field[candidate->count++] = strsep(&rest, "\t");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(candidate->field[0], kinds[i].name) == 0)
			candidate->kind = &kinds[i];
	if (rest || !candidate->kind || candidate->count < FIRST_ARG + candidate->kind->args) {
		free(candidate);
		return NULL;
	}
	candidate->name = candidate->field[1];
	candidate->settle_ms = (unsigned)strtoul(candidate->field[2], &rest, 10);
	candidate->every = *rest == '/' ? (unsigned)strtoul(rest + 1, NULL, 10) : 1;
	return candidate;
}

struct candidate *candidate_copy(const struct candidate *candidate)
{
	struct candidate *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *candidate;
	return copy;
}

int candidate_prepare(struct candidate *candidate)
{
	return candidate->kind->prepare(candidate);
}

int candidate_sample(struct candidate *candidate)
{
	return candidate->kind->sample(candidate);
}

void candidate_clean_up(struct candidate *candidate, int result)
{
	candidate->kind->clean_up(candidate);
	if (result != 0)
		client_close(&candidate->client);
}
