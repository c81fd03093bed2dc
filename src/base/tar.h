/*
 * The tar format, as a codec on buffers: no file system, no descriptors. Writes ustar with pax
 * headers where ustar is too narrow; reads ustar, pax, GNU long names and the old format, as a
 * stream in pieces of any size. The reader treats its input as hostile: it judges structure,
 * not names; tar_clean_name and os/treetar judge those.
 *
 *	writing: tar_put_entry, content, tar_put_padding for each entry; tar_put_end
 *	reading: tar_read until it wants more; tar_reader_finish at the end of the input
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"

enum tar_type {
	TAR_FILE,
	TAR_DIR,
	TAR_SYMLINK,
	TAR_HARDLINK,
	TAR_SPECIAL, /* device or fifo */
	TAR_OTHER,   /* anything else, sparse files included */
};

struct tar_entry {
	enum tar_type type;
	const char *name;   /* never empty, never more than LIMIT_PATH_LEN bytes */
	const char *target; /* of a link; NULL otherwise */
	uint64_t size;      /* of FILE and OTHER, else 0 */
	uint32_t mode;      /* 07777 */
	uint64_t uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
};

/* At most this much is appended by tar_put_entry. */
enum { TAR_HEADER_MAX = 16 * 1024, TAR_BLOCK = 512 };

/* The header of entry; FILE, DIR, SYMLINK and HARDLINK only. -ENAMETOOLONG, -ENOBUFS, -EINVAL. */
int tar_put_entry(struct buf *out, const struct tar_entry *entry) NODISCARD;
/* Zeros that follow `size` bytes of content. */
int tar_put_padding(struct buf *out, uint64_t size) NODISCARD;
int tar_put_end(struct buf *out) NODISCARD;

enum tar_event {
	TAR_MORE,      /* the piece is used up */
	TAR_ENTRY,     /* reader->entry is filled, valid until TAR_ENTRY_END */
	TAR_CONTENT,   /* ret_bytes, ret_len: a part of the entry's content, inside the piece */
	TAR_ENTRY_END, /* the content is complete; comes for every entry */
	TAR_END,       /* the end mark was read; what follows is ignored */
};

enum tar_state { TAR_AT_HEADER, TAR_AT_NOTE, TAR_AT_CONTENT, TAR_AT_END };

struct tar_reader {
	struct tar_entry entry;
	/* the reader's own */
	enum tar_state state;
	uint8_t block[TAR_BLOCK];
	size_t block_len;
	uint64_t left;    /* content or note bytes still to come */
	uint32_t padding; /* zeros after them */
	char note_type;   /* x, g, L or K */
	struct buf note;
	char *name;
	char *target;
	struct {
		char *name;
		char *target;
		uint64_t size, uid, gid;
		int64_t mtime_s;
		uint32_t mtime_ns;
		bool has_size, has_uid, has_gid, has_mtime, is_sparse;
	} pax; /* applies to the next entry */
};

void tar_reader_init(struct tar_reader *reader);
void tar_reader_done(struct tar_reader *reader);
/* Takes bytes from the front of the piece (*at, *len) and returns the next event. -EBADMSG: not a
 * well-formed archive; -ENAMETOOLONG; -EFBIG: an extended header larger than we accept. */
int tar_read(struct tar_reader *reader, const uint8_t **at, size_t *len, const uint8_t **ret_bytes,
             size_t *ret_len) NODISCARD;
/* The input has ended: 0 if the archive was complete, else -EBADMSG. */
int tar_reader_finish(const struct tar_reader *reader) NODISCARD;

/* name without leading "./", doubled slashes and a trailing one; "" is the top itself. -EINVAL
 * for an absolute name or one with ".."; -ENAMETOOLONG when it or one part does not fit. */
int tar_clean_name(const char *name, char *out, size_t size) NODISCARD;
