/*
 * Whole reads and writes on blocking descriptors, small files, and atomic replacement.
 * -errno on failure; EINTR and short counts are handled here.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

/* All len bytes, or -errno; -EPIPE is returned, never a signal on sockets (MSG_NOSIGNAL). */
int io_write_all(int fd, const void *bytes, size_t len) NODISCARD;
/* Reads until len bytes or end of file; the count, or -errno. */
ssize_t io_read_full(int fd, void *bytes, size_t len) NODISCARD;
/* A whole small file relative to dir_fd (AT_FDCWD allowed), at most max bytes (-EFBIG). The
 * caller frees *ret, which has a NUL after its *ret_len bytes. Does not follow a final symlink. */
int io_read_file(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len) NODISCARD;
/* Temp file + fsync + rename + fsync of the directory: readers see old or new, never half. */
int io_replace_file(int dir_fd, const char *name, const void *bytes, size_t len,
                    mode_t mode) NODISCARD;
/* As that without waiting for the disk: for what a power cut makes worthless anyway. */
int io_swap_file(int dir_fd, const char *name, const void *bytes, size_t len,
                 mode_t mode) NODISCARD;
/* One write(2) to an existing file (kernel control files). */
int io_write_ctl(int dir_fd, const char *path, const char *text) NODISCARD;
int io_set_nonblock(int fd, bool on) NODISCARD;
int io_set_cloexec(int fd, bool on) NODISCARD;
/* CLOCK_BOOTTIME in ms and µs; CLOCK_REALTIME in ms and ns. */
uint64_t io_boot_ms(void);
uint64_t io_boot_us(void);
uint64_t io_real_ms(void);
uint64_t io_real_ns(void);
/* "2026-01-31T12:00:00.123Z"; out has room for at least 25 bytes. */
void io_format_time(char *out, size_t size, uint64_t real_ms);
