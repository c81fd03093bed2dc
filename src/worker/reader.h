/*
 * Reading tar archives of any usual compression, from a file or from the current member of another
 * archive, with a guard against decompression bombs at every step. Wraps libarchive: only its tar
 * reader and its built-in decompressors are switched on, so no helper program is ever started.
 * Worker role; every byte is hostile.
 */
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "base/base.h"
#include "base/err.h"
#include "worker/digest.h"

struct reader {
	struct archive *archive;
	struct archive *plain; /* decompressor in front of it; NULL when read from a file */
	struct reader *outer;  /* holds the member this one is read from; NULL for a file */
	uint64_t max_ratio;
	bool has_ended; /* the decompressor has no more */
	uint8_t *chunk;
	digest_state packed_state;
	digest_state plain_state;
};

/* Starts at the beginning of the file, which must be regular and stays the caller's. max_ratio is
 * how many bytes one compressed byte may become once a fixed allowance is used up. */
int reader_open_file(struct reader *reader, int fd, uint64_t max_ratio, struct err *err) NODISCARD;
/* Reads the current member of outer as a tar of its own; outer must not be moved meanwhile. */
int reader_open_member(struct reader *reader, struct reader *outer, struct err *err) NODISCARD;
/* Harmless on a zeroed or half-opened one. */
void reader_close(struct reader *reader);
#define auto_reader auto_(reader_close)

/* 1: *ret is the next entry, valid until the next call; 0: the end. */
int reader_next(struct reader *reader, struct archive_entry **ret, struct err *err) NODISCARD;
/* The next stretch of the current entry's data; what lies between stretches is a hole. 1 or 0. */
int reader_block(struct reader *reader, const void **ret_bytes, size_t *ret_len,
                 uint64_t *ret_offset, struct err *err) NODISCARD;

struct reader_digests {
	struct digest packed; /* of the member's bytes as stored */
	struct digest plain;  /* of the tar after decompression */
};
/* Reads the rest of a member's bytes and says what all of them were. Once, after the last entry;
 * only for reader_open_member. */
int reader_finish(struct reader *reader, struct reader_digests *ret, struct err *err) NODISCARD;
