#include "broker/blank.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/context.h"
#include "broker/job.h"

struct blank {
	struct blank *next;
	struct broker *broker;
	char sandbox[LIMIT_ID_LEN + 1];
	int sock;
	struct loop_source source;
};

static struct blank **find(struct broker *broker, const char *sandbox)
{
	struct blank **at = &broker->blanks;
	while (*at && !str_eq((*at)->sandbox, sandbox))
		at = &(*at)->next;
	return at;
}

/* The socket is the caller's. */
static int unlink_at(struct blank **at)
{
	struct blank *blank = *at;
	int sock = take_fd(&blank->sock);
	*at = blank->next;
	loop_remove(&blank->source);
	mem_freep(&blank);
	return sock;
}

/* It says nothing while it waits: it died. Whoever wants it finds none. */
static void on_end(struct loop_source *source, uint32_t events, void *ctx)
{
	struct blank *blank = ctx;
	blanks_drop(blank->broker, blank->sandbox);
}

void blanks_add(struct broker *broker, struct job *job)
{
	auto_close int sock = take_fd(&job->sock);
	if (broker->is_stopping)
		return;
	struct blank *blank = mem_new(struct blank);
	blank->broker = broker;
	memcpy(blank->sandbox, job->sandbox, sizeof(blank->sandbox));
	if (loop_add(broker->loop, &blank->source, sock, EPOLLIN, on_end, blank) < 0) {
		mem_freep(&blank);
		return;
	}
	blank->sock = take_fd(&sock);
	blank->next = broker->blanks;
	broker->blanks = blank;
}

bool blanks_has(const struct broker *broker, const char *sandbox)
{
	for (const struct blank *blank = broker->blanks; blank; blank = blank->next)
		if (str_eq(blank->sandbox, sandbox))
			return true;
	return false;
}

int blanks_take(struct broker *broker, const char *sandbox)
{
	struct blank **at = find(broker, sandbox);
	return *at ? unlink_at(at) : -1;
}

void blanks_drop(struct broker *broker, const char *sandbox)
{
	int sock = blanks_take(broker, sandbox);
	fd_closep(&sock);
}

void blanks_drop_all(struct broker *broker)
{
	while (broker->blanks) {
		int sock = unlink_at(&broker->blanks);
		fd_closep(&sock);
	}
}
