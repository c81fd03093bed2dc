/*
 * Two readings of the archive: a survey that finds out what it is and which members are layers, and
 * one (or more, when a layer is used twice) that unpacks the layers in the order in which they lie.
 * Nothing is stored in between, so an archive costs no more disk than what it becomes.
 */
#include "worker/unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "os/path.h"
#include "worker/name.h"

const struct layer_limits unpack_default_limits = {
	.bytes = UINT64_C(32) << 30,
	.entries = 2000000,
	.file_bytes = UINT64_C(16) << 30,
	.ratio = 250,
	.ids = 65536,
};

struct job {
	int archive_fd;
	int dir_fd;
	const struct layer_limits *limits;
	struct layer_counts counts;
	struct survey survey;
	struct bundle bundle;
	bool is_done[LIMIT_LAYERS];
	size_t done_count;
};

struct unpack_name unpack_layer_name(size_t index)
{
	struct unpack_name name;

	(void)snprintf(name.text, sizeof(name.text), "l%u", (unsigned)(index % 1000000));
	return name;
}

static int check_empty(int dir_fd, struct err *err)
{
	struct dirent *entry;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		(void)err_sys(err, errno, "open the destination");
		fd_closep(&fd);
		return -1;
	}
	do {
		entry = readdir(dir); /* NOLINT(concurrency-mt-unsafe): one thread */
	} while (entry && (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..")));
	(void)closedir(dir); /* was only read */
	return entry ? err_set(err, ERR_CONFLICT, "the destination is not empty") : 0;
}

static int make_layer_dir(struct job *job, size_t index, int *ret_fd, struct err *err)
{
	struct unpack_name name = unpack_layer_name(index);

	if (mkdirat(job->dir_fd, name.text, 0755) < 0)
		return err_sys(err, errno, "make directory %s", name.text);
	int fd = path_open_plain(job->dir_fd, name.text, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return err_sys(err, -fd, "open directory %s", name.text);
	*ret_fd = fd;
	/* Whatever the umask was. */
	return fchmod(fd, 0755) < 0 ? err_sys(err, errno, "make directory %s", name.text) : 0;
}

static int unpack_plain(struct job *job, struct err *err)
{
	auto_close int fd = -1;
	auto_reader struct reader reader = {0};

	if (make_layer_dir(job, 0, &fd, err) < 0 ||
	    reader_open_file(&reader, job->archive_fd, job->limits->ratio, err) < 0 ||
	    layer_unpack(&reader, fd, job->limits, &job->counts, err) < 0)
		return -1;
	if (job->counts.entries == 0)
		return err_set(err, ERR_INVALID, "the archive is empty");
	job->done_count = 1;
	return 0;
}

static int check_digest(const struct bundle_layer *layer, struct reader *reader, struct err *err)
{
	struct reader_digests got;

	if (reader_finish(reader, &got, err) < 0)
		return -1;
	const struct digest *digest = layer->is_plain_digest ? &got.plain : &got.packed;
	if (!digest_equal(digest, &layer->digest))
		return err_set(err, ERR_INVALID, "its content does not match its digest");
	return 0;
}

static int unpack_layer(struct job *job, size_t index, struct reader *outer, struct err *err)
{
	const struct bundle_layer *layer = &job->bundle.layers[index];
	auto_close int fd = -1;
	auto_reader struct reader reader = {0};

	if (make_layer_dir(job, index, &fd, err) < 0 ||
	    reader_open_member(&reader, outer, err) < 0 ||
	    layer_unpack(&reader, fd, job->limits, &job->counts, err) < 0 ||
	    check_digest(layer, &reader, err) < 0)
		return err_wrap(err, "layer %s", name_show(layer->path).text);
	job->is_done[index] = true;
	job->done_count++;
	return 0;
}

/* The first layer still to be made from this member. */
static bool wants(const struct job *job, const char *raw, size_t *ret_index)
{
	struct name name;

	if (name_clean(&name, raw))
		return false;
	for (size_t i = 0; i < job->bundle.layer_count; i++) {
		if (!job->is_done[i] && str_eq(job->bundle.layers[i].path, name.path)) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

/* One reading: each member can serve one layer. */
static int unpack_pass(struct job *job, struct err *err)
{
	auto_reader struct reader outer = {0};
	struct archive_entry *entry;
	size_t index;
	int r;

	if (reader_open_file(&outer, job->archive_fd, job->limits->ratio, err) < 0)
		return -1;
	while ((r = reader_next(&outer, &entry, err)) > 0) {
		bool is_file =
			archive_entry_filetype(entry) == AE_IFREG && !archive_entry_hardlink(entry);
		if (is_file && wants(job, archive_entry_pathname(entry), &index) &&
		    unpack_layer(job, index, &outer, err) < 0)
			return -1;
	}
	return r;
}

static int unpack_layers(struct job *job, struct err *err)
{
	while (job->done_count < job->bundle.layer_count) {
		size_t before = job->done_count;
		if (unpack_pass(job, err) < 0)
			return -1;
		if (job->done_count == before)
			return err_set(err, ERR_INVALID, "the archive changed while it was read");
	}
	return 0;
}

static int sync_tree(int dir_fd, struct err *err)
{
	auto_close int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || syncfs(fd) < 0)
		return err_sys(err, errno, "write the layers to disk");
	return 0;
}

static int unpack(struct job *job, enum bundle_format format, struct err *err)
{
	if (format != BUNDLE_TAR &&
	    survey_read(&job->survey, job->archive_fd, job->limits, err) < 0)
		return -1;
	if (bundle_read(&job->bundle, &job->survey, format, err) < 0)
		return -1;
	int r = job->bundle.format == BUNDLE_TAR ? unpack_plain(job, err) : unpack_layers(job, err);
	return r < 0 ? -1 : sync_tree(job->dir_fd, err);
}

int unpack_image(int archive_fd, int dir_fd, enum bundle_format format,
                 const struct layer_limits *limits, struct unpack_result *ret, struct err *err)
{
	struct job job = {.archive_fd = archive_fd, .dir_fd = dir_fd, .limits = limits};

	*ret = (struct unpack_result){0};
	if (check_empty(dir_fd, err) < 0)
		return -1;
	mode_t mask = umask(0);
	int r = unpack(&job, format, err);
	(void)umask(mask); /* cannot fail */
	if (r == 0) {
		ret->format = job.bundle.format;
		ret->layer_count = job.done_count;
		ret->counts = job.counts;
		ret->config = take_ptr(job.bundle.config);
	} else if (path_remove_below(dir_fd) < 0) {
		(void)err_wrap(err, "some of it is left");
	}
	bundle_done(&job.bundle);
	survey_done(&job.survey);
	return r;
}

void unpack_done(struct unpack_result *result)
{
	free(result->config);
	*result = (struct unpack_result){0};
}
