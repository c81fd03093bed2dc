#include "beside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/site.h"
#include "os/syscalls.h"

extern char **environ;

enum { WORDS_MAX = 16 };

static int find(struct err *err)
{
	int fd = site_find_cloched();

	return fd >= 0 ? fd
	               : err_set(err, ERR_MISSING,
	                         "cloched is neither beside cloche nor installed; it does this");
}

int beside_become(const char *const *words, struct err *err)
{
	auto_close int cloched = find(err);
	char *argv[WORDS_MAX + 2] = {(char *)"cloched"};

	if (cloched < 0)
		return -1;
	for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
		argv[i + 1] = (char *)(uintptr_t)words[i];
	(void)sys_execve_fd(cloched, argv, environ);
	return err_sys(err, errno, "start cloched");
}

int beside_tunnel(const char *host, uint16_t port, bool is_tls, struct err *err)
{
	char port_text[8], fd_text[12];
	int pair[2];

	(void)snprintf(port_text, sizeof(port_text), "%u", port); /* fits */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, errno, "make a socket to cloched");
	auto_close int ours = pair[0];
	auto_close int theirs = pair[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_sys(err, errno, "fork");
	if (pid == 0) {
		struct err failed = {0};
		int fd = dup(theirs); /* NOLINT(android-cloexec-dup): it is for the program */
		(void)snprintf(fd_text, sizeof(fd_text), "%d", fd);
		const char *words[] = {"tunnel",
		                       "--fd",
		                       fd_text,
		                       "--port",
		                       port_text,
		                       is_tls ? "--tls" : host,
		                       is_tls ? host : NULL,
		                       NULL};
		(void)setpgid(0, 0); /* Ctrl-C is for the command */
		(void)beside_become(words, &failed);
		(void)!write(STDERR_FILENO, failed.msg, strlen(failed.msg));
		_exit(127);
	}
	return take_fd(&ours);
}
