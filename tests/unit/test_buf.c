#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "harness/test.h"

TEST(appends_and_consumes)
{
	struct buf buf;
	buf_init(&buf, 100);
	CHECK_INT(buf_len(&buf), 0);
	CHECK_INT(buf_puts(&buf, "hello "), 0);
	CHECK_INT(buf_printf(&buf, "%s %d", "world", 7), 0);
	CHECK_INT(buf_len(&buf), 13);
	CHECK_MEM(buf_head(&buf), "hello world 7", 13);
	buf_consume(&buf, 6);
	CHECK_MEM(buf_head(&buf), "world 7", 7);
	buf_consume(&buf, 7);
	CHECK_INT(buf_len(&buf), 0);
	CHECK_INT(buf.start, 0);
	buf_done(&buf);
}

TEST(the_maximum_holds)
{
	struct buf buf;
	buf_init(&buf, 5);
	CHECK_INT(buf_puts(&buf, "1234"), 0);
	CHECK_INT(buf_room(&buf), 1);
	CHECK_INT(buf_puts(&buf, "56"), -ENOBUFS);
	CHECK_INT(buf_len(&buf), 4);
	CHECK_INT(buf_puts(&buf, "5"), 0);
	CHECK(buf_reserve(&buf, 1) == NULL);
	buf_consume(&buf, 2);
	CHECK_INT(buf_puts(&buf, "67"), 0);
	CHECK_MEM(buf_head(&buf), "34567", 5);
	CHECK(buf_reserve(&buf, SIZE_MAX) == NULL);
	buf_done(&buf);
}

TEST(long_use_does_not_grow)
{
	struct buf buf;
	buf_init(&buf, 1 << 20);
	for (int i = 0; i < 100000; i++) {
		CHECK_INT(buf_puts(&buf, "0123456789"), 0);
		buf_consume(&buf, i % 2 ? 12 : 8);
	}
	CHECK_INT(buf_len(&buf), 0);
	CHECK(buf.size <= 256);
	buf_done(&buf);
}

TEST(content_survives_growth)
{
	struct buf buf;
	buf_init(&buf, 1 << 20);
	for (uint32_t i = 0; i < 10000; i++)
		CHECK_INT(buf_put(&buf, &i, sizeof(i)), 0);
	for (uint32_t i = 0; i < 10000; i++) {
		CHECK_MEM(buf_head(&buf), &i, sizeof(i));
		buf_consume(&buf, sizeof(i));
	}
	buf_done(&buf);
}

TEST(misuse_aborts)
{
	struct buf buf;
	buf_init(&buf, 10);
	CHECK_INT(buf_puts(&buf, "abc"), 0);
	CHECK_DEATH(buf_consume(&buf, 4), "impossible");
	CHECK_DEATH(buf_commit(&buf, 1000), "impossible");
	buf_done(&buf);
}

TEST(reads_and_writes_descriptors)
{
	int fds[2];
	CHECK_INT(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	struct buf buf;
	buf_init(&buf, 16);
	CHECK_INT(buf_read_fd(&buf, fds[0], 8), -EAGAIN);
	CHECK_INT(buf_write_fd(&buf, fds[1]), 0);
	CHECK_INT(buf_puts(&buf, "abcdef"), 0);
	CHECK_INT(buf_write_fd(&buf, fds[1]), 6);
	CHECK_INT(buf_len(&buf), 0);
	CHECK_INT(buf_read_fd(&buf, fds[0], 4), 4);
	CHECK_INT(buf_read_fd(&buf, fds[0], 13), -ENOBUFS);
	CHECK_INT(buf_read_fd(&buf, fds[0], 12), 2);
	CHECK_MEM(buf_head(&buf), "abcdef", 6);
	(void)close(fds[1]);
	CHECK_INT(buf_read_fd(&buf, fds[0], 4), 0);
	(void)close(fds[0]);
	buf_done(&buf);
}

TEST(becomes_a_string)
{
	struct buf buf;
	buf_init(&buf, 16);
	char *empty = buf_take_string(&buf);
	CHECK_STR(empty, "");
	free(empty);
	CHECK_INT(buf_puts(&buf, "text"), 0);
	char *text = buf_take_string(&buf);
	CHECK_STR(text, "text");
	CHECK_INT(buf_len(&buf), 0);
	free(text);
	buf_done(&buf);
	buf_done(&buf);
}
