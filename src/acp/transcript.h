/*
 * What an agent of the protocol says to people, out of the lines it prints: the text of its
 * messages, without thoughts, tool calls and everything else that is for programs. Pure. This is
 * what the output of its run is for whoever reads it.
 */
#pragma once

#include "acp/message.h"

struct transcript {
	struct acp_lines lines;
	struct buf text; /* taken by the caller */
	bool is_open;    /* the last line of text has no end yet */
};

void transcript_init(struct transcript *transcript);
void transcript_done(struct transcript *transcript);
/* Appends to `text`. What is no message of the protocol is skipped. */
void transcript_feed(struct transcript *transcript, const void *bytes, size_t len);
