/*
 * latency [-n ROUNDS] [-i IDLE_MS] [-w WARMUP] [-j] < PLAN: how long each candidate of the plan
 * takes, all of them in one run, in an order that rotates, with idle time before each sample.
 *
 * A line of the plan is a candidate, its fields separated by tabs:
 *   spawn NAME SETTLE ARGV...                     a program, from posix_spawn to its wait status
 *   run   NAME SETTLE SOCKET REQUEST              a RunRequest on an open conversation of GET /run,
 *                                                 until the exit status that follows the removal
 *   post  NAME SETTLE SOCKET PATH BODY            one POST on an open connection that answers with
 *                                                 an exitCode
 *   life  NAME SETTLE SOCKET CREATE-BODY EXEC-BODY   create, exec and remove: three requests on one
 *                                                 open connection
 *   make  NAME SETTLE SOCKET CREATE-BODY          create alone; the removal is not in the sample
 * SETTLE: milliseconds to leave alone after a sample, for what the candidate still does afterwards
 * (a pool that fills up again must not slow the next candidate). "%n" in an argument is a number
 * never used before. A sample that fails is counted, said, and in no percentile.
 *
 * Prints a table, or with -j one JSON object a candidate with all samples in microseconds.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

enum { CANDIDATES = 32, FIELDS = 64, ARG_BYTES = 512, ROUNDS_MAX = 10000 };

struct candidate {
	char *line;
	char *field[FIELDS + 1]; /* NULL behind the last */
	size_t count;
	const struct kind *kind;
	unsigned settle_ms;
	struct client client;
	char made[64]; /* to be removed after the sample */
	uint32_t samples[ROUNDS_MAX];
	size_t sample_count;
	size_t failures;
};

struct kind {
	const char *name;
	size_t fields;                                 /* at least */
	int (*prepare)(struct candidate *candidate);   /* before the idle time; NULL: nothing */
	int (*sample)(struct candidate *candidate);    /* 0, or how it failed: status or -errno */
	void (*clean_up)(struct candidate *candidate); /* after the sample; NULL: nothing */
};

static struct candidate *candidates[CANDIDATES];
static size_t candidate_count;

static const char *arg(const struct candidate *candidate, size_t index)
{
	return candidate->field[3 + index];
}

/* --- kinds --- */

static int sample_spawn(struct candidate *candidate)
{
	static unsigned number;
	static char texts[FIELDS][ARG_BYTES];
	char *argv[FIELDS + 1] = {0};

	number++;
	for (size_t i = 3; i < candidate->count; i++) {
		const char *mark = strstr(candidate->field[i], "%n");

		argv[i - 3] = candidate->field[i];
		if (!mark)
			continue;
		(void)snprintf(texts[i], ARG_BYTES, "%.*s%d-%u%s",
		               (int)(mark - candidate->field[i]), candidate->field[i],
		               (int)getpid(), number, mark + 2);
		argv[i - 3] = texts[i];
	}
	return spawn_wait(argv);
}

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
	{"spawn", 4, NULL, sample_spawn, NULL},
	{"run", 5, prepare_run, sample_run, clean_up_run},
	{"post", 6, prepare_http, sample_post, clean_up_http},
	{"life", 6, prepare_http, sample_life, clean_up_http},
	{"make", 5, prepare_http, sample_make, clean_up_http},
};

/* --- the plan --- */

static int add(char *line)
{
	struct candidate *candidate = calloc(1, sizeof(*candidate));
	char *rest = line;

	if (!candidate || candidate_count == CANDIDATES)
		return -1;
	candidates[candidate_count++] = candidate;
	candidate->line = line;
	candidate->client.fd = -1;
	while (rest && candidate->count < FIELDS)
		candidate->field[candidate->count++] = strsep(&rest, "\t");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(candidate->field[0], kinds[i].name) == 0)
			candidate->kind = &kinds[i];
	if (rest || !candidate->kind || candidate->count < candidate->kind->fields)
		return -1;
	candidate->settle_ms = (unsigned)strtoul(candidate->field[2], NULL, 10);
	return 0;
}

static int read_plan(void)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\0' || line[0] == '#')
			continue;
		if (add(line) < 0) {
			fprintf(stderr, "latency: no candidate: %s\n", line);
			return -1;
		}
		line = NULL;
		size = 0;
	}
	free(line);
	return candidate_count > 0 ? 0 : -1;
}

/* --- measuring --- */

static void measure(struct candidate *candidate, unsigned idle_ms, bool is_kept)
{
	const struct kind *kind = candidate->kind;
	int r = kind->prepare ? kind->prepare(candidate) : 0;

	sleep_ms(idle_ms);
	uint64_t start = clock_us();

	if (r == 0)
		r = kind->sample(candidate);
	uint64_t took = clock_us() - start;

	if (kind->clean_up)
		kind->clean_up(candidate);
	if (r != 0) {
		if (candidate->failures++ == 0)
			fprintf(stderr, "latency: %s: %s %d\n", candidate->field[1],
			        r < 0 ? strerror(-r) : "status", r);
		client_close(&candidate->client);
	} else if (is_kept) {
		candidate->samples[candidate->sample_count++] = (uint32_t)took;
	}
	sleep_ms(candidate->settle_ms);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static double percentile(const struct candidate *candidate, unsigned percent)
{
	size_t at = candidate->sample_count * percent / 100;

	return candidate->sample_count ? candidate->samples[at] / 1000.0 : 0;
}

static void print_text(void)
{
	printf("%-44s %6s %9s %9s %9s %s\n", "", "n", "median", "p90", "p99", "failed");
	for (size_t i = 0; i < candidate_count; i++) {
		struct candidate *one = candidates[i];

		qsort(one->samples, one->sample_count, sizeof(one->samples[0]), compare);
		printf("%-44s %6zu %9.3f %9.3f %9.3f %zu\n", one->field[1], one->sample_count,
		       percentile(one, 50), percentile(one, 90), percentile(one, 99),
		       one->failures);
	}
}

static void print_json(void)
{
	for (size_t i = 0; i < candidate_count; i++) {
		const struct candidate *one = candidates[i];

		printf("{\"name\":\"%s\",\"failures\":%zu,\"us\":[", one->field[1], one->failures);
		for (size_t j = 0; j < one->sample_count; j++)
			printf("%s%u", j ? "," : "", one->samples[j]);
		printf("]}\n");
	}
}

int main(int argc, char **argv)
{
	unsigned rounds = 100, idle_ms = 30, warm_up = 5;
	bool is_json = false;
	int letter;

	while ((letter = getopt(argc, argv, "n:i:w:j")) != -1) {
		unsigned *number = letter == 'n' ? &rounds : letter == 'i' ? &idle_ms : &warm_up;

		if (letter == '?')
			return 2;
		if (letter == 'j')
			is_json = true;
		else
			*number = (unsigned)strtoul(optarg, NULL, 10);
	}
	if (read_plan() < 0 || rounds > ROUNDS_MAX)
		return 2;
	for (unsigned round = 0; round < warm_up + rounds; round++)
		for (size_t i = 0; i < candidate_count; i++) /* nobody is always second */
			measure(candidates[(i + round) % candidate_count], idle_ms,
			        round >= warm_up);
	if (is_json)
		print_json();
	else
		print_text();
	return 0;
}
