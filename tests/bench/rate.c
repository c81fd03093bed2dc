/*
 * rate -p WORKERS (-s SECONDS | -c COUNT) [-g FOLDER -k ENTRIES] < PLAN: how many a second of the
 * plan's one candidate (see candidate.h), by so many workers that do not pause. The time goes on
 * until all have ended and, with -g, FOLDER is down to ENTRIES entries: what is taken down after
 * the answer belongs to the price.
 *
 * Prints {"count", "failures", "us": time to the last answer, "goneUs": until all is gone,
 * "each": the time of each in microseconds}.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "candidate.h"

enum { WORKERS_MAX = 64, SAMPLES_MAX = 200000, GONE_SECONDS = 60 };

static struct {
	uint64_t end_us; /* 0: by count */
	atomic_int left; /* by count */
	atomic_int failures;
	atomic_uint count;
	uint32_t us[SAMPLES_MAX];
} work;

static bool goes_on(void)
{
	if (work.end_us > 0)
		return clock_us() < work.end_us;
	return atomic_fetch_sub(&work.left, 1) > 0;
}

static void *run_worker(void *ctx)
{
	struct candidate *candidate = ctx;

	while (goes_on()) {
		uint64_t start = clock_us();
		int r = candidate_prepare(candidate);

		if (r == 0)
			r = candidate_sample(candidate);
		candidate_clean_up(candidate, r);
		if (r != 0) {
			if (atomic_fetch_add(&work.failures, 1) == 0)
				fprintf(stderr, "rate: %s: %s %d\n", candidate->name,
				        r < 0 ? strerror(-r) : "status", r);
			continue;
		}
		unsigned at = atomic_fetch_add(&work.count, 1);

		if (at < SAMPLES_MAX)
			work.us[at] = (uint32_t)(clock_us() - start);
	}
	return NULL;
}

static unsigned entries(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned count = 0;

	if (!dir)
		return 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void wait_gone(const char *folder, unsigned most)
{
	uint64_t deadline = clock_us() + (uint64_t)GONE_SECONDS * 1000000;

	while (entries(folder) > most && clock_us() < deadline)
		sleep_ms(2);
	if (entries(folder) > most)
		atomic_fetch_add(&work.failures, 1);
}

static struct candidate *read_candidate(void)
{
	char *line = NULL;
	size_t size = 0;

	if (getline(&line, &size, stdin) <= 0)
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return candidate_new(line);
}

static void run_workers(struct candidate *candidate, unsigned count)
{
	pthread_t threads[WORKERS_MAX];

	for (unsigned i = 0; i < count; i++) {
		struct candidate *own = candidate_copy(candidate);

		if (!own || pthread_create(&threads[i], NULL, run_worker, own) != 0)
			abort();
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void print(uint64_t start, uint64_t last, uint64_t gone)
{
	unsigned count = atomic_load(&work.count);

	printf("{\"count\":%u,\"failures\":%d,\"us\":%llu,\"goneUs\":%llu,\"each\":[", count,
	       atomic_load(&work.failures), (unsigned long long)(last - start),
	       (unsigned long long)(gone - start));
	for (unsigned i = 0; i < count && i < SAMPLES_MAX; i++)
		printf("%s%u", i ? "," : "", work.us[i]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	unsigned workers = 2, seconds = 0, most = 0;
	const char *folder = NULL;
	int letter;

	while ((letter = getopt(argc, argv, "p:s:c:g:k:")) != -1) {
		unsigned number = letter == '?' ? 0 : (unsigned)strtoul(optarg, NULL, 10);

		switch (letter) {
		case 'p':
			workers = number;
			break;
		case 's':
			seconds = number;
			break;
		case 'c':
			atomic_store(&work.left, (int)number);
			break;
		case 'g':
			folder = optarg;
			break;
		case 'k':
			most = number;
			break;
		default:
			return 2;
		}
	}
	struct candidate *candidate = read_candidate();

	if (!candidate || workers == 0 || workers > WORKERS_MAX)
		return 2;
	uint64_t start = clock_us();

	work.end_us = seconds > 0 ? start + (uint64_t)seconds * 1000000 : 0;
	run_workers(candidate, workers);
	uint64_t last = clock_us();

	if (folder)
		wait_gone(folder, most);
	print(start, last, clock_us());
	return 0;
}
