/*
 * work COUNT PROGRAM ARGUMENTS...: forks and executes a program COUNT times, one after the other,
 * and prints how many microseconds that took. Static, and run the same way outside and inside a
 * sandbox: so a comparison holds neither a client nor a shell. Output of the program goes nowhere;
 * a failure of it is one of ours.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int run(char **argv)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		if (null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1)
			execvp(argv[0], argv);
		_exit(127);
	}
	return pid < 0 || waitpid(pid, &status, 0) < 0 ? -1 : status;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	uint64_t start = now_us();

	for (long left = strtol(argv[1], NULL, 10); left > 0; left--) {
		int status = run(argv + 2);

		if (status != 0) {
			fprintf(stderr, "work: %s: status %d\n", argv[2], status);
			return 1;
		}
	}
	printf("%llu\n", (unsigned long long)(now_us() - start));
	return 0;
}
