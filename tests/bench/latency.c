/*
 * latency [-n ROUNDS] [-i IDLE_MS] [-w WARMUP] [-j] < PLAN: how long each candidate of the plan
 * (see candidate.h) takes, all of them in one run, in an order that rotates, with idle time before
 * each sample: back-to-back loops hide what the first process after a pause costs. A sample that
 * fails is counted, said, and in no percentile.
 *
 * Prints a table, or with -j one JSON object a candidate with all samples in microseconds.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "candidate.h"

enum { CANDIDATES = 32, ROUNDS_MAX = 10000 };

struct series {
	struct candidate *candidate;
	uint32_t us[ROUNDS_MAX];
	size_t count;
	size_t failures;
};

static struct series plan[CANDIDATES];
static size_t plan_count;

static int read_plan(void)
{
	char *line = NULL;
	size_t size = 0;

	while (plan_count < CANDIDATES && getline(&line, &size, stdin) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\0' || line[0] == '#')
			continue;
		struct candidate *candidate = candidate_new(line);

		if (!candidate) {
			fprintf(stderr, "latency: no candidate: %s\n", line);
			return -1;
		}
		plan[plan_count++].candidate = candidate;
		line = NULL; /* the candidate's now */
		size = 0;
	}
	free(line);
	return plan_count > 0 ? 0 : -1;
}

static void measure(struct series *series, unsigned idle_ms, bool is_kept)
{
	struct candidate *candidate = series->candidate;
	int r = candidate_prepare(candidate);

	sleep_ms(idle_ms);
	uint64_t start = clock_us();

	if (r == 0)
		r = candidate_sample(candidate);
	uint64_t took = clock_us() - start;

	candidate_clean_up(candidate, r);
	if (r != 0 && series->failures++ == 0)
		fprintf(stderr, "latency: %s: %s %d\n", candidate->name,
		        r < 0 ? strerror(-r) : "status", r);
	if (r == 0 && is_kept)
		series->us[series->count++] = (uint32_t)took;
	sleep_ms(candidate->settle_ms);
}

static void measure_round(unsigned round, unsigned idle_ms, bool is_kept)
{
	for (size_t i = 0; i < plan_count; i++) {
		struct series *series =
			&plan[(i + round) % plan_count]; /* nobody is always second */

		if (round % series->candidate->every == 0)
			measure(series, idle_ms, is_kept);
	}
}

static int compare(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static double percentile(const struct series *series, unsigned percent)
{
	size_t at = series->count * percent / 100;

	return series->count ? series->us[at] / 1000.0 : 0;
}

static void print_text(void)
{
	printf("%-44s %6s %9s %9s %9s %s\n", "ms", "n", "median", "p90", "p99", "failed");
	for (size_t i = 0; i < plan_count; i++) {
		struct series *one = &plan[i];

		qsort(one->us, one->count, sizeof(one->us[0]), compare);
		printf("%-44s %6zu %9.3f %9.3f %9.3f %zu\n", one->candidate->name, one->count,
		       percentile(one, 50), percentile(one, 90), percentile(one, 99),
		       one->failures);
	}
}

static void print_json(void)
{
	for (size_t i = 0; i < plan_count; i++) {
		const struct series *one = &plan[i];

		printf("{\"name\":\"%s\",\"failures\":%zu,\"us\":[", one->candidate->name,
		       one->failures);
		for (size_t j = 0; j < one->count; j++)
			printf("%s%u", j ? "," : "", one->us[j]);
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
	if (rounds > ROUNDS_MAX || read_plan() < 0)
		return 2;
	for (unsigned round = 0; round < warm_up + rounds; round++)
		measure_round(round, idle_ms, round >= warm_up);
	if (is_json)
		print_json();
	else
		print_text();
	return 0;
}
