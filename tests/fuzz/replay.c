/*
 * Runs a fuzz target over its corpus without libFuzzer: every file in a process of its own with a
 * time limit, in a block of exactly its size, so that a sanitizer sees the first byte too far.
 * Usage: replay_<target> DIRECTORY
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIME_LIMIT_S = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void run_file(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		_exit(2);
	size_t len = (size_t)st.st_size;
	uint8_t *bytes = malloc(len ? len : 1);
	if (!bytes || read(fd, bytes, len) != (ssize_t)len)
		_exit(2);
	(void)alarm(TIME_LIMIT_S);
	(void)LLVMFuzzerTestOneInput(bytes, len); /* always 0 by libFuzzer's contract */
	free(bytes);
	exit(0); /* not _exit: a leak check runs at the end */
}

static int replay(const char *dir, const char *name)
{
	char path[4096];
	int status = 0;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		run_file(path);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		printf("FAIL %s: status 0x%x\n", path, (unsigned)status);
		return 1;
	}
	return 0;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	struct dirent **entries = NULL;
	int failed = 0;
	if (argc != 2) {
		(void)fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	int count = scandir(argv[1], &entries, is_visible, alphasort);
	if (count <= 0) {
		(void)fprintf(stderr, "%s: no corpus: %s\n", argv[1], strerror(errno));
		return 2;
	}
	for (int i = 0; i < count; i++) {
		failed += replay(argv[1], entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	printf("%d passed, %d failed, 0 skipped\n", count - failed, failed);
	return failed ? 1 : 0;
}
