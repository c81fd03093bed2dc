/*
 * The line records that `cloche inside` prints and the daemon reads: one record per line, fields
 * separated by TAB. A field is escaped reversibly: each byte outside 0x21–0x7e, and "%", is
 * written %XX (upper-case hex), so that a record is plain ASCII whatever bytes a name has, and an
 * empty field is an empty string.
 *
 *	stat:   type size mode uid gid mtime_ms links inode name target
 *	        type: file dir symlink fifo socket char block; mode: octal permission bits (07777);
 *	        target: of a symlink, else empty
 *	change: what type name
 *	        what: ready created modified attributes removed moved_from moved_to overflow ended
 *	        type: dir or other; name: relative to the watched path, empty for itself
 *
 * Writers are inside the sandbox: parsing treats every byte as hostile. Pure, no allocation.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"

enum record_type {
#define RECORD_TYPE(name, text) RECORD_##name,
#include "wire/record_types.def"
#undef RECORD_TYPE
	RECORD_TYPE_COUNT_
};

enum record_change_kind {
#define RECORD_CHANGE(name, text) RECORD_CHANGE_##name,
#include "wire/record_types.def"
#undef RECORD_CHANGE
	RECORD_CHANGE_COUNT_
};

/* name and target need not be UTF-8; they contain no NUL. After parsing they point into the line.
 */
struct record_stat {
	enum record_type type;
	uint32_t mode;
	uint64_t size;
	uint64_t uid, gid;
	int64_t mtime_ms;
	uint64_t links;
	uint64_t inode;
	const char *name;
	const char *target;
};

struct record_change {
	enum record_change_kind kind;
	bool is_dir;
	const char *name;
};

const char *record_type_name(enum record_type type);
const char *record_change_name(enum record_change_kind kind);

/* Appends s escaped. -ENOBUFS. */
int record_put_escaped(struct buf *to, const char *s, size_t len) NODISCARD;
/* Undoes it in place; NUL-terminates. -EINVAL on a malformed escape, a byte that should have been
 * escaped, or an escaped NUL. */
int record_unescape(char *s) NODISCARD;

/* Append one line with its newline. -ENOBUFS. */
int record_put_stat(struct buf *to, const struct record_stat *record) NODISCARD;
int record_put_change(struct buf *to, const struct record_change *record) NODISCARD;
/* `line` without its newline, NUL-terminated; it is changed, and *ret points into it. -EINVAL. */
int record_parse_stat(char *line, struct record_stat *ret) NODISCARD;
int record_parse_change(char *line, struct record_change *ret) NODISCARD;
