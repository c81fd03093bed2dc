/*
 * A session of cloche-agent: its conversation, kept in the home folder so that another process can
 * go on with it. Files are replaced whole.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"

struct mcp;

struct session {
	char id[48];
	char *cwd;
	json_t *messages; /* the system's first */
	struct mcp *mcp;  /* servers that its client brought; NULL: none */
	json_t *tools;    /* of the model: all there are */
};

/* A new one. */
void session_open(struct session *session, const char *cwd);
void session_done(struct session *session);
/* ERR_NOT_FOUND, ERR_IO. */
int session_load(struct session *session, const char *id, const char *cwd,
                 struct err *err) NODISCARD;
int session_save(const struct session *session, struct err *err) NODISCARD;
