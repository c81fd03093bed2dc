/*
 * A segment is a file named by the 16 hex digits of the offset at which it starts. Frame:
 *	u32 magic, u8 stream, 3 zero, u32 length, u32 check, u64 offset, u64 time_ms, bytes
 * `check` is a cheap mix of the other header fields: it tells a torn or overwritten header from a
 * real one. A reader trusts a frame only if the whole of it is there.
 */
#include "wire/outlog.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"

enum { MAGIC = 0x4c54554f, HEADER = 32, NAME_LEN = 16 };

struct frame {
	uint32_t magic;
	uint8_t stream;
	uint8_t zero[3];
	uint32_t len;
	uint32_t check;
	uint64_t offset;
	uint64_t time_ms;
};
static_assert(sizeof(struct frame) == HEADER, "the frame header is as on disk");

static uint32_t check_of(const struct frame *frame)
{
	uint64_t mix = frame->offset * UINT64_C(0x9e3779b97f4a7c15) ^ frame->time_ms ^
	               ((uint64_t)frame->len << 32) ^ frame->stream;
	return (uint32_t)(mix ^ mix >> 32);
}

static void segment_name(char out[NAME_LEN + 1], uint64_t offset)
{
	(void)snprintf(out, NAME_LEN + 1, "%016llx", (unsigned long long)offset);
}

static bool parse_name(const char *name, uint64_t *ret)
{
	if (strlen(name) != NAME_LEN || strspn(name, "0123456789abcdef") != NAME_LEN)
		return false;
	*ret = strtoull(name, NULL, 16);
	return true;
}

struct span {
	uint64_t first; /* UINT64_MAX: none */
	uint64_t last;
	uint64_t covering;  /* the newest that starts at or before the wanted offset; else
	                     * UINT64_MAX */
	uint64_t following; /* the oldest that starts behind it; else UINT64_MAX */
	size_t count;
};

/* Looks over the segments in the directory. One that cannot be read is not an empty one: a reader
 * would take the output for nothing, a writer would begin anew over it. */
static int scan(int dir_fd, uint64_t wanted, struct span *ret)
{
	*ret = (struct span){.first = UINT64_MAX, .covering = UINT64_MAX, .following = UINT64_MAX};
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	DIR *dir = fdopendir(fd);
	if (!dir) {
		(void)close(fd); /* fdopendir failed, so it is still ours */
		return -ENOMEM;
	}
	int r = 0;
	for (;;) {
		uint64_t start;
		errno = 0;
		/* Only this thread uses this stream. */
		const struct dirent *entry = readdir(dir); /* NOLINT(concurrency-mt-unsafe) */
		if (!entry) {
			r = -errno;
			break;
		}
		if (!parse_name(entry->d_name, &start))
			continue;
		ret->count++;
		ret->first = MIN(ret->first, start);
		ret->last = MAX(ret->last, start);
		if (start <= wanted && (ret->covering == UINT64_MAX || start > ret->covering))
			ret->covering = start;
		if (start > wanted)
			ret->following = MIN(ret->following, start);
	}
	(void)closedir(dir);
	return r;
}

/* Reads and checks the header at *position. 1, 0 (not there yet or damaged), -errno. */
static int read_frame(int fd, uint64_t position, struct frame *ret)
{
	ssize_t n = pread(fd, ret, HEADER, (off_t)position);
	if (n < 0)
		return -errno;
	if (n != HEADER)
		return 0;
	ret->magic = le32toh(ret->magic);
	ret->len = le32toh(ret->len);
	ret->check = le32toh(ret->check);
	ret->offset = le64toh(ret->offset);
	ret->time_ms = le64toh(ret->time_ms);
	return ret->magic == MAGIC && ret->len <= LIMIT_CHUNK_BYTES &&
	       ret->check == check_of(ret) && ret->stream >= OUTLOG_STDOUT &&
	       ret->stream <= OUTLOG_EXIT;
}

/* --- writer --- */

/* Finds where the newest segment's whole frames end, and drops a torn tail. */
static int continue_segment(struct outlog_writer *writer)
{
	struct frame frame;
	off_t size = lseek(writer->fd, 0, SEEK_END);
	int r;
	writer->offset = writer->segment_start;
	while ((r = read_frame(writer->fd, writer->segment_bytes, &frame)) > 0) {
		if (writer->segment_bytes + HEADER + frame.len > (uint64_t)size)
			break;
		writer->segment_bytes += HEADER + frame.len;
		writer->offset = frame.offset + (frame.stream == OUTLOG_EXIT ? 0 : frame.len);
	}
	if (r < 0)
		return r;
	return ftruncate(writer->fd, (off_t)writer->segment_bytes) < 0 ? -errno : 0;
}

static int start_segment(struct outlog_writer *writer)
{
	char name[NAME_LEN + 1];
	segment_name(name, writer->offset);
	int fd = openat(writer->dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -errno;
	fd_closep(&writer->fd);
	writer->fd = fd;
	writer->segment_start = writer->offset;
	writer->segment_bytes = 0;
	return 0;
}

static uint64_t segment_size(int dir_fd, uint64_t offset)
{
	char name[NAME_LEN + 1];
	struct stat st;
	segment_name(name, offset);
	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (uint64_t)st.st_size;
}

int outlog_writer_open(struct outlog_writer *writer, int dir_fd)
{
	*writer = (struct outlog_writer){.dir_fd = dir_fd, .fd = -1};
	struct span span;
	int r = scan(dir_fd, UINT64_MAX, &span);
	if (r < 0)
		goto out;
	bool exists = span.first != UINT64_MAX;
	writer->oldest = exists ? span.first : 0;
	writer->offset = exists ? span.last : 0;
	r = start_segment(writer);
	if (r >= 0 && exists)
		r = continue_segment(writer);
	for (uint64_t at = span.first; r >= 0 && exists && at != UINT64_MAX; at = span.following) {
		writer->stored += segment_size(dir_fd, at);
		r = scan(dir_fd, at, &span);
	}
out:
	if (r < 0)
		outlog_writer_close(writer);
	return r;
}

void outlog_writer_close(struct outlog_writer *writer)
{
	fd_closep(&writer->fd);
	fd_closep(&writer->dir_fd);
}

/* What an attached reader may still have to read stays, and so does the rest of its segment. */
static bool is_needed(const struct outlog_writer *writer, uint64_t segment)
{
	uint64_t needed =
		LIMIT_OUTPUT_WINDOW_BYTES + LIMIT_CHUNK_BYTES + LIMIT_OUTPUT_SEGMENT_BYTES;
	return writer->offset - segment <= needed;
}

static int drop_segment(struct outlog_writer *writer, int dir_fd, uint64_t start)
{
	char name[NAME_LEN + 1];
	uint64_t size = segment_size(dir_fd, start);
	segment_name(name, start);
	if (unlinkat(dir_fd, name, 0) < 0)
		return -errno;
	writer->stored -= MIN(writer->stored, size);
	return 0;
}

/* Counted in files too, not only in bytes: a command that writes byte by byte fills them with
 * headers. What cannot be dropped now is dropped when the next segment is full. */
static void drop_oldest(struct outlog_writer *writer, size_t segments, uint64_t most)
{
	struct span span;
	int r = scan(writer->dir_fd, writer->offset, &span);
	while (r >= 0 && (span.count > segments || writer->stored > most) &&
	       !is_needed(writer, span.first)) {
		if (drop_segment(writer, writer->dir_fd, span.first) < 0)
			break;
		r = scan(writer->dir_fd, writer->offset, &span);
	}
	if (r >= 0)
		writer->oldest = span.first;
}

/* Starts a new segment when this one is full, and lets the oldest go when there are too many. */
static int rotate(struct outlog_writer *writer)
{
	if (writer->segment_bytes < LIMIT_OUTPUT_SEGMENT_BYTES)
		return 0;
	int r = start_segment(writer);
	if (r >= 0)
		drop_oldest(writer, LIMIT_OUTPUT_SEGMENTS, UINT64_MAX);
	return r;
}

static int write_frame(struct outlog_writer *writer, enum outlog_stream stream, const void *bytes,
                       uint32_t len)
{
	struct frame frame = {.stream = (uint8_t)stream,
	                      .len = len,
	                      .offset = writer->offset,
	                      .time_ms = io_real_ms()};
	frame.check = htole32(check_of(&frame));
	frame.magic = htole32(MAGIC);
	frame.len = htole32(frame.len);
	frame.offset = htole64(frame.offset);
	frame.time_ms = htole64(frame.time_ms);
	struct iovec iov[2] = {{&frame, HEADER}, {(void *)(uintptr_t)bytes, len}};
	ssize_t n = pwritev(writer->fd, iov, 2, (off_t)writer->segment_bytes);
	if (n >= 0 && (size_t)n == (size_t)HEADER + len) {
		writer->segment_bytes += HEADER + len;
		writer->stored += HEADER + len;
		return 0;
	}
	int r = n < 0 ? -errno : -ENOSPC;
	/* Half a frame is no frame: cut it off so that the next one starts clean. */
	(void)!ftruncate(writer->fd, (off_t)writer->segment_bytes);
	return r;
}

int outlog_append(struct outlog_writer *writer, enum outlog_stream stream, const void *bytes,
                  uint32_t len)
{
	int r = rotate(writer);
	if (r >= 0)
		r = write_frame(writer, stream, bytes, len);
	writer->offset += len; /* lost bytes count: their place is what shows that they are */
	return r;
}

int outlog_append_exit(struct outlog_writer *writer, const char *text)
{
	return write_frame(writer, OUTLOG_EXIT, text, (uint32_t)strlen(text));
}

int outlog_sync(struct outlog_writer *writer)
{
	return fdatasync(writer->fd) < 0 ? -errno : 0;
}

void outlog_trim(struct outlog_writer *writer, uint64_t most)
{
	drop_oldest(writer, SIZE_MAX, most);
}

/* The new segment first: whoever looks in between finds the exit twice, never not at all. One that
 * starts at the very end holds nothing else already. */
void outlog_strip(struct outlog_writer *writer, int dir_fd, const char *exit)
{
	struct outlog_writer last = {.dir_fd = dir_fd, .fd = -1, .offset = writer->offset};
	if (writer->segment_start != writer->offset && start_segment(&last) >= 0)
		(void)!outlog_append_exit(&last, exit); /* no room: the store knows it, too */
	fd_closep(&last.fd);
	struct span span;
	int r = scan(dir_fd, 0, &span);
	while (r >= 0 && span.first < writer->offset && span.first != UINT64_MAX) {
		if (drop_segment(writer, dir_fd, span.first) < 0)
			break;
		r = scan(dir_fd, 0, &span);
	}
	writer->stored = segment_size(dir_fd, writer->offset);
}

/* --- reader --- */

int outlog_reader_open(struct outlog_reader *reader, int dir_fd, uint64_t offset)
{
	*reader = (struct outlog_reader){.dir_fd = dir_fd, .fd = -1, .offset = offset};
	reader->bytes = mem_zalloc(LIMIT_CHUNK_BYTES);
	return 0;
}

void outlog_reader_close(struct outlog_reader *reader)
{
	fd_closep(&reader->fd);
	fd_closep(&reader->dir_fd);
	mem_freep(&reader->bytes);
}

/* 1 opened; 2 it went meanwhile: look again. */
static int open_at(struct outlog_reader *reader, uint64_t start)
{
	char name[NAME_LEN + 1];
	segment_name(name, start);
	int fd = openat(reader->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno != ENOENT)
		return -errno;
	fd_closep(&reader->fd);
	reader->fd = fd;
	reader->start = start;
	reader->position = 0;
	return fd < 0 ? 2 : 1;
}

/* Opens the segment that holds reader->offset, or else the oldest: its first frame shows the gap.
 * 1 opened, 0 none yet, 2 look again. */
static int open_segment(struct outlog_reader *reader)
{
	struct span span;
	int r = scan(reader->dir_fd, reader->offset, &span);
	if (r < 0)
		return r;
	if (span.first == UINT64_MAX)
		return 0;
	return open_at(reader, span.covering == UINT64_MAX ? span.first : span.covering);
}

/* Reads the payload of a frame and cuts what lies before the wanted offset. 1, 0 or -errno. */
static int read_payload(struct outlog_reader *reader, const struct frame *frame,
                        struct outlog_record *ret)
{
	ssize_t n =
		pread(reader->fd, reader->bytes, frame->len, (off_t)(reader->position + HEADER));
	if (n < 0)
		return -errno;
	if ((uint32_t)n != frame->len)
		return 0;
	reader->position += HEADER + frame->len;
	uint64_t skip = frame->offset < reader->offset ? reader->offset - frame->offset : 0;
	if (frame->stream == OUTLOG_EXIT)
		skip = 0;
	*ret = (struct outlog_record){.stream = (enum outlog_stream)frame->stream,
	                              .offset = frame->offset + skip,
	                              .time_ms = frame->time_ms,
	                              .bytes = reader->bytes + skip,
	                              .len = frame->len - (uint32_t)skip};
	if (frame->stream != OUTLOG_EXIT)
		reader->offset = frame->offset + frame->len;
	return 1;
}

/* Bytes up to `offset` are not to be had. */
static struct outlog_record gap_to(struct outlog_reader *reader, uint64_t offset)
{
	reader->offset = offset;
	return (struct outlog_record){.stream = OUTLOG_GAP, .offset = offset};
}

/* One frame of the open segment. 1 a record, 0 none yet, 2 the frame lay before the offset. */
static int next_in_segment(struct outlog_reader *reader, struct outlog_record *ret)
{
	struct frame frame;
	int r = read_frame(reader->fd, reader->position, &frame);
	if (r <= 0)
		return r;
	if (frame.stream != OUTLOG_EXIT && frame.offset + frame.len <= reader->offset) {
		reader->position += HEADER + frame.len;
		return 2;
	}
	if (frame.offset > reader->offset) {
		*ret = gap_to(reader, frame.offset);
		return 1;
	}
	return read_payload(reader, &frame, ret);
}

/* 1 a record, 0 none yet, 2 look again. A segment is finished once there is a newer one, which
 * starts where this one ends unless something was lost or dropped between. */
static int next_or_move(struct outlog_reader *reader, struct outlog_record *ret)
{
	struct span span;
	int r;
	if (reader->fd < 0) {
		r = open_segment(reader);
		if (r != 1)
			return r;
	}
	r = next_in_segment(reader, ret);
	if (r != 0)
		return r;
	r = scan(reader->dir_fd, reader->start, &span);
	if (r < 0 || span.following == UINT64_MAX)
		return r;
	/* It may have grown between the two looks. */
	r = next_in_segment(reader, ret);
	if (r != 0)
		return r;
	r = open_at(reader, span.following);
	return r < 0 ? r : 2;
}

int outlog_next(struct outlog_reader *reader, struct outlog_record *ret)
{
	int r;
	do {
		r = next_or_move(reader, ret);
	} while (r == 2);
	return r;
}

bool outlog_skip(struct outlog_reader *reader, uint64_t offset, struct outlog_record *ret)
{
	if (offset <= reader->offset)
		return false;
	*ret = gap_to(reader, offset);
	return true;
}
