/*
 * Artifacts that are kept no longer ([tasks] artifact_ttl). The file goes before its row: a crash
 * in between leaves a row, which the next round finds again; the other way round it would leave a
 * file that nobody knows.
 */
#include <errno.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "model/config.h"
#include "store/task.h"
#include "task/job.h"
#include "task/tasks.h"

enum { PAGE = 100 };

static void on_removed(const struct store_result *result, void *ctx)
{
	if (!result->ok && result->err.code != ERR_NOT_FOUND)
		log_warn("the row of an old artifact stays for now", LOG_ERR(&result->err));
}

static bool remove_one(struct tasks *tasks, const struct artifact *artifact)
{
	struct store_write *write;

	if (tasks_remove_file(tasks, artifact->id.text) < 0)
		return false;
	write = store_write_new(tasks->config.store);
	store_delete_artifact(write, artifact->id.text);
	store_write_submit(write, on_removed, NULL);
	return true;
}

bool artifacts_sweep(struct tasks *tasks)
{
	uint64_t now = io_real_ms(), ttl = tasks->config.config->tasks.artifact_ttl_ms;
	struct artifact_page page = {0};
	struct err err = {0};
	size_t removed = 0;

	if (store_artifact_old(tasks->config.store, now > ttl ? now - ttl : 0, PAGE, &page, &err) <
	    0)
		log_warn("cannot look for old artifacts", LOG_ERR(&err));
	for (size_t i = 0; i < page.count; i++)
		removed += remove_one(tasks, &page.items[i]);
	artifact_page_done(&page);
	return removed == PAGE;
}

int tasks_remove_file(struct tasks *tasks, const char *name)
{
	if (unlinkat(tasks_files_fd(tasks), name, 0) == 0 || errno == ENOENT)
		return 0;
	int r = -errno;

	log_warn("cannot remove a file of a task", LOG_STR("file", name), LOG_INT("errno", -r));
	return r;
}
