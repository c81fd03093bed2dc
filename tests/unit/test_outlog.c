#include "wire/outlog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "harness/test.h"
#include "unit/fail_readdir.h"

static void open_both(struct outlog_writer *writer, struct outlog_reader *reader, uint64_t offset)
{
	CHECK_INT(outlog_writer_open(writer, test_dir_fd()), 0);
	CHECK_INT(outlog_reader_open(reader, test_dir_fd(), offset), 0);
}

static void close_both(struct outlog_writer *writer, struct outlog_reader *reader)
{
	outlog_writer_close(writer);
	outlog_reader_close(reader);
}

TEST(records_come_back_in_order_with_offsets)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	CHECK_INT(outlog_next(&reader, &record), 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "hello", 5), 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDERR, "oops", 4), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_STDOUT);
	CHECK_MEM(record.bytes, "hello", 5);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.offset, 5);
	CHECK_INT(record.stream, OUTLOG_STDERR);
	CHECK_INT(outlog_next(&reader, &record), 0);
	CHECK_INT(outlog_append_exit(&writer, "code=0 reason=exited"), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_EXIT);
	CHECK_INT(record.offset, 9);
	close_both(&writer, &reader);
}

TEST(a_directory_that_cannot_be_read_is_not_an_empty_log)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "hello", 5), 0);
	outlog_writer_close(&writer);
	readdir_error = EIO;
	CHECK_INT(outlog_next(&reader, &record), -EIO);
	CHECK_INT(outlog_writer_open(&writer, test_dir_fd()), -EIO);
	readdir_error = 0;
	errno = EIO; /* of something before */
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_MEM(record.bytes, "hello", 5);
	CHECK_INT(outlog_writer_open(&writer, test_dir_fd()), 0);
	CHECK_INT(writer.offset, 5);
	close_both(&writer, &reader);
}

TEST(a_reader_may_start_in_the_middle_of_a_record)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 7);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "hello", 5), 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "world", 5), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.offset, 7);
	CHECK_INT(record.len, 3);
	CHECK_MEM(record.bytes, "rld", 3);
	close_both(&writer, &reader);
}

static uint8_t chunk[LIMIT_CHUNK_BYTES];

static void append_total(struct outlog_writer *writer, uint64_t total)
{
	for (uint64_t done = 0; done < total; done += sizeof(chunk))
		CHECK_INT(outlog_append(writer, OUTLOG_STDOUT, chunk, sizeof(chunk)), 0);
}

/* Reads to the end; checks that offsets go on without a gap except where a GAP record says so. */
static uint64_t read_all(struct outlog_reader *reader, uint64_t from, unsigned *ret_gaps)
{
	struct outlog_record record;
	*ret_gaps = 0;
	while (outlog_next(reader, &record) > 0) {
		if (record.stream == OUTLOG_GAP) {
			CHECK(record.offset > from);
			*ret_gaps += 1;
			from = record.offset;
			continue;
		}
		CHECK_INT(record.offset, from);
		from += record.len;
	}
	return from;
}

TEST(the_oldest_goes_and_a_gap_says_so)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	unsigned gaps;
	open_both(&writer, &reader, 0);
	append_total(&writer, (uint64_t)LIMIT_OUTPUT_SEGMENT_BYTES * (LIMIT_OUTPUT_SEGMENTS + 5));
	CHECK(writer.oldest > 0);
	CHECK_INT(read_all(&reader, 0, &gaps), writer.offset);
	CHECK_INT(gaps, 1);
	close_both(&writer, &reader);
}

static uint64_t bytes_on_disk(const char *name, uint64_t *ret_files)
{
	uint64_t total = 0;
	DIR *dir = opendir(name);
	CHECK(dir != NULL);
	*ret_files = 0;
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		struct stat st;
		CHECK_INT(fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
		if (!S_ISREG(st.st_mode))
			continue;
		total += (uint64_t)st.st_size;
		*ret_files += 1;
	}
	(void)closedir(dir);
	return total;
}

/* A command that writes byte by byte must not fill the disk with headers. */
TEST(small_records_take_no_more_files_than_large_ones)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	uint64_t files;
	unsigned gaps;
	open_both(&writer, &reader, 0);
	for (int i = 0; i < 4 * 1024 * 1024; i += 8)
		CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "12345678", 8), 0);
	CHECK(bytes_on_disk(test_dir(), &files) <= (uint64_t)18 * LIMIT_OUTPUT_SEGMENT_BYTES);
	CHECK(files <= LIMIT_OUTPUT_SEGMENTS + 1);
	/* What an attached reader may lag behind is all there. */
	CHECK(writer.offset - writer.oldest > LIMIT_OUTPUT_WINDOW_BYTES + LIMIT_CHUNK_BYTES);
	CHECK_INT(read_all(&reader, 0, &gaps), writer.offset);
	CHECK_INT(gaps, 1);
	close_both(&writer, &reader);
}

static uint64_t stored_here(void)
{
	uint64_t files;
	return bytes_on_disk(test_dir(), &files);
}

TEST(a_log_can_be_made_smaller_while_it_is_written)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	append_total(&writer, 10 << 20);
	CHECK_INT(writer.stored, stored_here());
	outlog_trim(&writer, 5 << 20);
	CHECK(writer.stored <= 5 << 20);
	CHECK_INT(writer.stored, stored_here());
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_GAP);
	CHECK(record.offset > 4 << 20);
	/* but not beyond what an attached reader may not have yet */
	outlog_trim(&writer, 0);
	CHECK(writer.offset - writer.oldest >= LIMIT_OUTPUT_WINDOW_BYTES);
	/* a writer that comes later counts the same */
	uint64_t stored = writer.stored;
	outlog_writer_close(&writer);
	CHECK_INT(outlog_writer_open(&writer, test_dir_fd()), 0);
	CHECK_INT(writer.stored, stored);
	close_both(&writer, &reader);
}

static void check_stripped(uint64_t written)
{
	struct outlog_reader reader;
	struct outlog_record record;
	CHECK_INT(outlog_reader_open(&reader, test_dir_fd(), 0), 0);
	if (written > 0) {
		CHECK_INT(outlog_next(&reader, &record), 1);
		CHECK_INT(record.stream, OUTLOG_GAP);
		CHECK_INT(record.offset, written);
	}
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_EXIT);
	CHECK_MEM(record.bytes, "code=0 reason=exited", record.len);
	CHECK_INT(outlog_next(&reader, &record), 0);
	outlog_reader_close(&reader);
}

TEST(a_log_that_ended_can_be_reduced_to_its_end)
{
	struct outlog_writer writer;
	CHECK_INT(outlog_writer_open(&writer, test_dir_fd()), 0);
	append_total(&writer, 3 << 20);
	CHECK_INT(outlog_append_exit(&writer, "code=0 reason=exited"), 0);
	outlog_writer_close(&writer);
	auto_close int dir = test_dir_fd();
	outlog_strip(&writer, dir, "code=0 reason=exited");
	CHECK(writer.stored < 100);
	CHECK_INT(writer.stored, stored_here());
	check_stripped(3 << 20);
	outlog_strip(&writer, dir, "code=0 reason=exited");
	CHECK_INT(writer.stored, stored_here());
	check_stripped(3 << 20);
}

TEST(a_log_without_output_can_be_reduced_too)
{
	struct outlog_writer writer;
	CHECK_INT(outlog_writer_open(&writer, test_dir_fd()), 0);
	CHECK_INT(outlog_append_exit(&writer, "code=0 reason=exited"), 0);
	outlog_writer_close(&writer);
	auto_close int dir = test_dir_fd();
	outlog_strip(&writer, dir, "code=0 reason=exited");
	check_stripped(0);
}

TEST(a_reader_overtaken_while_reading_sees_a_gap)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	unsigned gaps;
	open_both(&writer, &reader, 0);
	append_total(&writer, sizeof(chunk));
	CHECK_INT(outlog_next(&reader, &record), 1);
	append_total(&writer, (uint64_t)LIMIT_OUTPUT_SEGMENT_BYTES * (LIMIT_OUTPUT_SEGMENTS + 5));
	CHECK_INT(read_all(&reader, record.offset + record.len, &gaps), writer.offset);
	CHECK_INT(gaps, 1);
	close_both(&writer, &reader);
}

TEST(a_torn_tail_is_cut_and_writing_goes_on)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "good", 4), 0);
	CHECK_INT(pwrite(writer.fd, "OUTLtorn", 8, (off_t)writer.segment_bytes), 8);
	outlog_writer_close(&writer);
	CHECK_INT(outlog_writer_open(&writer, test_dir_fd()), 0);
	CHECK_INT(writer.offset, 4);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "more", 4), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_MEM(record.bytes, "more", 4);
	close_both(&writer, &reader);
}

TEST(damage_ends_the_readable_part)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "a", 1), 0);
	uint64_t second = writer.segment_bytes;
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "b", 1), 0);
	/* A length of 4 GiB, or any flipped bit of the header, is not believed. */
	for (uint64_t at = second; at < second + 32; at++) {
		uint8_t byte, flipped;
		CHECK_INT(pread(writer.fd, &byte, 1, (off_t)at), 1);
		flipped = byte ^ 0x80;
		CHECK_INT(pwrite(writer.fd, &flipped, 1, (off_t)at), 1);
		outlog_reader_close(&reader);
		CHECK_INT(outlog_reader_open(&reader, test_dir_fd(), 0), 0);
		CHECK_INT(outlog_next(&reader, &record), 1);
		CHECK(outlog_next(&reader, &record) <= 0 || (at >= second + 5 && at < second + 8));
		CHECK_INT(pwrite(writer.fd, &byte, 1, (off_t)at), 1);
	}
	close_both(&writer, &reader);
}

/* --- what cannot be written --- */

/* A disk that takes no more than this in a file; RLIM_INFINITY: one with room again. */
static void set_room(rlim_t bytes)
{
	struct rlimit limit;
	(void)signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = MIN(bytes, limit.rlim_max);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void lose(struct outlog_writer *writer, uint32_t len)
{
	set_room(writer->segment_bytes + 7);
	CHECK(outlog_append(writer, OUTLOG_STDOUT, chunk, len) < 0);
	set_room(RLIM_INFINITY);
}

TEST(what_could_not_be_written_is_a_gap)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "a", 1), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	lose(&writer, 100);
	lose(&writer, 20);
	CHECK_INT(outlog_next(&reader, &record), 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "c", 1), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_GAP);
	CHECK_INT(record.offset, 121);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.offset, 121);
	CHECK_MEM(record.bytes, "c", 1);
	close_both(&writer, &reader);
}

TEST(a_lost_tail_shows_before_the_end)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "a", 1), 0);
	lose(&writer, 9);
	CHECK_INT(outlog_append_exit(&writer, "code=0 reason=exited"), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_GAP);
	CHECK_INT(record.offset, 10);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_EXIT);
	CHECK_INT(outlog_next(&reader, &record), 0);
	close_both(&writer, &reader);
}

/* The next segment then starts where no reader expects it. */
TEST(a_reader_finds_the_segment_after_a_loss)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	unsigned gaps;
	open_both(&writer, &reader, 0);
	while (writer.segment_bytes < LIMIT_OUTPUT_SEGMENT_BYTES)
		append_total(&writer, sizeof(chunk));
	CHECK_INT(read_all(&reader, 0, &gaps), writer.offset);
	CHECK_INT(gaps, 0);
	uint64_t before = writer.offset;
	set_room(7); /* the new segment is begun, and its first frame does not fit */
	CHECK(outlog_append(&writer, OUTLOG_STDOUT, chunk, 100) < 0);
	set_room(RLIM_INFINITY);
	CHECK_INT(read_all(&reader, before, &gaps), before);
	CHECK_INT(gaps, 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "c", 1), 0);
	CHECK_INT(read_all(&reader, before, &gaps), before + 101);
	CHECK_INT(gaps, 1);
	close_both(&writer, &reader);
}

/* The writer says how far it came: what is not there by then will never be. */
TEST(a_reader_that_was_told_skips_what_was_lost)
{
	struct outlog_writer writer;
	struct outlog_reader reader;
	struct outlog_record record;
	open_both(&writer, &reader, 0);
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "a", 1), 0);
	lose(&writer, 9);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(outlog_next(&reader, &record), 0);
	CHECK(outlog_skip(&reader, writer.offset, &record));
	CHECK_INT(record.stream, OUTLOG_GAP);
	CHECK_INT(record.offset, 10);
	CHECK(!outlog_skip(&reader, writer.offset, &record));
	CHECK_INT(outlog_append(&writer, OUTLOG_STDOUT, "c", 1), 0);
	CHECK_INT(outlog_next(&reader, &record), 1);
	CHECK_INT(record.stream, OUTLOG_STDOUT);
	CHECK_INT(record.offset, 10);
	close_both(&writer, &reader);
}
