#include "harness/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_FAILED = 1, STATUS_SURVIVED = 3, STATUS_SKIPPED = 77, OUTPUT_SHOWN = 8192 };
enum { STRAY_TRIES = 5000 };

extern const struct test *const __start_test_entries[];
extern const struct test *const __stop_test_entries[];

/* Present in builds with AddressSanitizer only. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

/* Read by AddressSanitizer where it is built in: its findings then abort, as must() does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "abort_on_error=1:allocator_may_return_null=1";
}

/* What the child of a test tells its parent. */
static struct shared {
	char dir[128];
	char skip[160];
	char note[160];
} * shared;

static struct {
	pid_t pid;
	int output_fd;
} death;

static void broken(const char *what)
{
	(void)fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
	_exit(STATUS_FAILED);
}

static int memory_file(void)
{
	int fd = memfd_create("output", MFD_CLOEXEC);
	if (fd < 0)
		broken("memfd_create");
	return fd;
}

/* --- inside a test --- */

void test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list va;
	va_start(va, fmt);
	(void)fprintf(stderr, "%s:%d: ", file, line);
	(void)vfprintf(stderr, fmt, va);
	(void)fputc('\n', stderr);
	va_end(va);
	(void)fflush(NULL);
	_exit(STATUS_FAILED);
}

void test_note(const char *fmt, ...)
{
	va_list va;
	va_start(va, fmt);
	(void)vsnprintf(shared->note, sizeof(shared->note), fmt, va);
	va_end(va);
}

void test_skip(const char *fmt, ...)
{
	va_list va;
	va_start(va, fmt);
	(void)vsnprintf(shared->skip, sizeof(shared->skip), fmt, va);
	va_end(va);
	_exit(STATUS_SKIPPED);
}

void test_check_int(const char *file, int line, const char *what, __int128 got, __int128 wanted)
{
	if (got != wanted)
		test_fail(file, line, "%s is %lld (0x%llx), wanted %lld", what, (long long)got,
		          (unsigned long long)got, (long long)wanted);
}

void test_check_str(const char *file, int line, const char *what, const char *got,
                    const char *wanted)
{
	if (got == wanted || (got && wanted && strcmp(got, wanted) == 0))
		return;
	test_fail(file, line, "%s is %s%s%s, wanted %s%s%s", what, got ? "\"" : "",
	          got ? got : "NULL", got ? "\"" : "", wanted ? "\"" : "", wanted ? wanted : "NULL",
	          wanted ? "\"" : "");
}

void test_check_has(const char *file, int line, const char *what, const char *got, const char *part)
{
	if (!got || !strstr(got, part))
		test_fail(file, line, "%s is \"%s\", wanted \"%s\" in it", what, got ? got : "NULL",
		          part);
}

void test_check_mem(const char *file, int line, const char *what, const void *got,
                    const void *wanted, size_t len)
{
	const uint8_t *a = got;
	const uint8_t *b = wanted;
	for (size_t i = 0; i < len; i++) {
		if (a[i] != b[i])
			test_fail(file, line, "%s: byte %zu is 0x%02x, wanted 0x%02x", what, i,
			          a[i], b[i]);
	}
}

bool test_death_begin(void)
{
	(void)fflush(NULL);
	death.output_fd = memory_file();
	death.pid = fork();
	if (death.pid < 0)
		broken("fork");
	if (death.pid > 0)
		return false;
	struct rlimit no_core = {0};
	(void)setrlimit(RLIMIT_CORE, &no_core); /* a core file would only be litter */
	if (dup2(death.output_fd, STDERR_FILENO) < 0)
		broken("dup2");
	return true;
}

void test_death_survived(void)
{
	_exit(STATUS_SURVIVED);
}

void test_death_end(const char *file, int line, const char *what, const char *text)
{
	int status = 0;
	while (waitpid(death.pid, &status, 0) < 0) {
		if (errno != EINTR)
			broken("waitpid");
	}
	char output[OUTPUT_SHOWN + 1];
	ssize_t n = pread(death.output_fd, output, OUTPUT_SHOWN, 0);
	output[n > 0 ? n : 0] = '\0';
	(void)close(death.output_fd);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		test_fail(file, line, "%s: did not abort (status 0x%x): %s", what, (unsigned)status,
		          output);
	if (!strstr(output, text))
		test_fail(file, line, "%s: died with \"%s\", wanted \"%s\"", what, output, text);
}

const char *test_dir(void)
{
	if (shared->dir[0])
		return shared->dir;
	const char *base = getenv("TMPDIR");
	(void)snprintf(shared->dir, sizeof(shared->dir), "%.80s/cloche-test-XXXXXX",
	               base && base[0] == '/' ? base : "/tmp");
	if (!mkdtemp(shared->dir))
		broken(shared->dir);
	return shared->dir;
}

int test_dir_fd(void)
{
	int fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		broken(test_dir());
	return fd;
}

void test_write_file(const char *name, const void *bytes, size_t len)
{
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		broken(path);
	(void)close(fd);
}

/* A line per open descriptor, so that a leak can be named. */
static size_t list_fds(char *out, size_t size)
{
	size_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return 0; /* a test may have taken /proc away */
	int own = dirfd(dir);
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		if (entry->d_name[0] == '.' || strtol(entry->d_name, NULL, 10) == own)
			continue;
		char target[128];
		ssize_t n = readlinkat(own, entry->d_name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		size_t used = strlen(out);
		(void)snprintf(out + used, size - used, " %s=%s", entry->d_name, target);
		count++;
	}
	(void)closedir(dir);
	return count;
}

static void run_body(const struct test *test)
{
	static char before[4096];
	static char after[4096];
	size_t fds = list_fds(before, sizeof(before));
	test->run();
	size_t left = list_fds(after, sizeof(after));
	if (left > 0 && left != fds)
		test_fail(test->name, 0, "%zu descriptors before, %zu after:%s", fds, left, after);
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
		test_fail(test->name, 0, "memory was leaked");
	(void)fflush(NULL);
}

/* --- the parent --- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static void remove_dir(void)
{
	if (!shared->dir[0])
		return;
	(void)nftw(shared->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	shared->dir[0] = '\0';
}

static pid_t start(const struct test *test, int output_fd)
{
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid < 0)
		broken("fork");
	if (pid > 0) {
		(void)setpgid(pid, pid); /* both sides, so that neither can be too late */
		return pid;
	}
	(void)setpgid(0, 0);
	if (dup2(output_fd, STDOUT_FILENO) < 0 || dup2(output_fd, STDERR_FILENO) < 0)
		broken("dup2");
	(void)close(output_fd);
	run_body(test);
	_exit(0);
}

static bool kill_children(void)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *list = fopen(path, "re");
	bool has_any = false;
	int pid;
	while (list && fscanf(list, "%d", &pid) == 1) {
		(void)kill(pid, SIGKILL);
		has_any = true;
	}
	if (list)
		(void)fclose(list);
	return has_any;
}

/* What left the group of its test, as a zygote and its children do, is our child when those above
 * it are gone. */
static void end_strays(void)
{
	for (int tries = 0; tries < STRAY_TRIES && kill_children(); tries++) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		(void)poll(NULL, 0, 1);
	}
}

/* The wait status, or -1 when the time was up. */
static int finish(pid_t pid, int timeout_s)
{
	int status = 0;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		broken("pidfd_open");
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int n = 0;
	do
		n = poll(&wait, 1, timeout_s * 1000);
	while (n < 0 && errno == EINTR);
	(void)close(fd);
	(void)kill(-pid, SIGKILL); /* also what the test left behind */
	if (waitpid(pid, &status, 0) < 0)
		broken("waitpid");
	end_strays();
	return n == 0 ? -1 : status;
}

static void show_output(int fd)
{
	static char output[OUTPUT_SHOWN];
	off_t size = lseek(fd, 0, SEEK_END);
	off_t from = size > OUTPUT_SHOWN ? size - OUTPUT_SHOWN : 0;
	ssize_t n = pread(fd, output, sizeof(output), from);
	if (n > 0)
		(void)fwrite(output, 1, (size_t)n, stdout);
}

static int run_test(const struct test *test, const char *program)
{
	memset(shared, 0, sizeof(*shared));
	int output_fd = memory_file();
	int status = finish(start(test, output_fd), test->timeout_s);
	int result = STATUS_FAILED;
	if (status == -1)
		printf("FAIL %s.%s: not finished after %d s\n", program, test->name,
		       test->timeout_s);
	else if (WIFSIGNALED(status))
		printf("FAIL %s.%s: %s\n", program, test->name, strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == STATUS_SKIPPED)
		printf("SKIP %s.%s: %s\n", program, test->name, shared->skip);
	else if (WEXITSTATUS(status) != 0)
		printf("FAIL %s.%s\n", program, test->name);
	if (shared->note[0])
		printf("NOTE %s.%s: %s\n", program, test->name, shared->note);
	if (status != -1 && WIFEXITED(status))
		result = WEXITSTATUS(status);
	if (result != 0 && result != STATUS_SKIPPED)
		show_output(output_fd);
	(void)close(output_fd);
	remove_dir();
	return result;
}

static bool is_wanted(const struct test *test, int argc, char **argv)
{
	if (argc < 2)
		return true;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], test->name) == 0)
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *program = slash ? slash + 1 : argv[0];
	bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
	int passed = 0;
	int failed = 0;
	int skipped = 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	              0);
	if (shared == MAP_FAILED)
		broken("mmap");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* cannot fail */
	for (const struct test *const *at = __start_test_entries; at < __stop_test_entries; at++) {
		if (list) {
			printf("%s\n", (*at)->name);
			continue;
		}
		if (!is_wanted(*at, argc, argv))
			continue;
		int result = run_test(*at, program);
		passed += result == 0;
		skipped += result == STATUS_SKIPPED;
		failed += result != 0 && result != STATUS_SKIPPED;
	}
	if (!list)
		printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed ? STATUS_FAILED : 0;
}
