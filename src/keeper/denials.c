#include "keeper/denials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

enum { FILE_MOST = 48 * 1024 };

static const char head[] = "# What the network policy refused, newest last.\n";

int denials_make(int fs, int *ret_fd)
{
	auto_close int fd = openat(fs, "denials", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -errno;
	int r = fchmod(fd, 0444) < 0 ? -errno : io_write_all(fd, head, sizeof(head) - 1);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* "time deny tcp host:port (address) program[pid]: rule; remedy" */
static int format(char *out, size_t size, const struct decision *decision)
{
	char at[32], address[ADDR_TEXT], who[DECISION_PROGRAM + 24] = "";
	io_format_time(at, sizeof(at), decision->at_ms);
	addr_format(address, sizeof(address), &decision->to.addr);
	if (decision->program[0] != '\0')
		(void)snprintf(who, sizeof(who), " by %s[%llu]", decision->program,
		               (unsigned long long)decision->pid);
	const char *name = decision->host[0] != '\0' ? decision->host : address;
	const char *proto = decision_proto_name(decision->proto);
	bool is_socket = decision->proto == DECISION_SOCKET;
	int n = is_socket ? snprintf(out, size, "%s deny %s%s: %s", at, proto, who, decision->rule)
	        : decision->proto == DECISION_DNS
	                ? snprintf(out, size, "%s deny %s %s%s: %s", at, proto, name, who,
	                           decision->rule)
	                : snprintf(out, size, "%s deny %s %s:%u (%s)%s: %s", at, proto, name,
	                           decision->to.port, address, who, decision->rule);
	if (n < 0 || (size_t)n >= size)
		return n;
	char times[32] = "";
	if (decision->count > 1)
		(void)snprintf(times, sizeof(times), " (%llu times)",
		               (unsigned long long)decision->count);
	return n + snprintf(out + n, size - (size_t)n, "%s%s%s\n",
	                    decision->remedy[0] != '\0' ? "; " : "", decision->remedy, times);
}

void denials_write(int fd, const struct decision *decision)
{
	char line[2 * POLICY_TEXT + DOMAIN_TEXT + 256];
	struct stat st;
	int len = format(line, sizeof(line), decision);
	if (fd < 0 || len < 0 || (size_t)len >= sizeof(line))
		return;
	/* Nobody is hindered by a line that could not be written: the event tells it, too. */
	if (fstat(fd, &st) == 0 && st.st_size + len > FILE_MOST && ftruncate(fd, 0) == 0) {
		(void)lseek(fd, 0, SEEK_SET);
		(void)!io_write_all(fd, head, sizeof(head) - 1);
	}
	(void)!io_write_all(fd, line, (size_t)len);
}
