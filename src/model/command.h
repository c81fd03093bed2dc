/*
 * A command: a verb of the user's own domain ("contacts list"), defined once in a manifest
 * (commands/NAME.toml) and offered as a command line, a tool of MCP and a call of the API. It is a
 * call over HTTP to which a credential is added outside, or a program of this machine. Which
 * values a caller may fill in is said by the manifest alone. Pure but for command_load; the
 * daemon, and the broker for the programs it starts.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/service.h"
#include "model/strings.h"

struct jsonschema;

enum {
	COMMAND_WORD = 31,               /* longest noun and verb */
	COMMAND_MOST = 256,              /* manifests of one folder */
	COMMAND_MANIFEST = 128 * 1024,   /* bytes of one */
	COMMAND_ARGUMENTS = 64 * 1024,   /* bytes of the arguments of one call */
	COMMAND_PROGRAM_OUT = 64 * 1024, /* most a program may say, and is told of it */
	COMMAND_PROGRAM_ERRORS = 16 * 1024,
	COMMAND_HTTP_OUT = 1024 * 1024,
	COMMAND_AT_ONCE = 4, /* calls under way, unless said */
	COMMAND_AT_ONCE_MOST = 64,
	COMMAND_TIMEOUT_MS = 30 * 1000,
	COMMAND_TIMEOUT_MOST_MS = 10 * 60 * 1000,
	COMMAND_ASK_MS = 5 * 60 * 1000,
	COMMAND_ASK_MOST_MS = 3600 * 1000,
};

struct command {
	unsigned refs;
	char *file;      /* its name in the folder */
	char digest[65]; /* of its text */
	char *noun, *verb;
	char *tool;  /* "noun_verb": what MCP calls it, and a run's right to tools */
	char *about; /* description */
	char *scope; /* "contacts:read" */
	bool asks;   /* a person must allow each call */
	uint64_t ask_ms;
	uint64_t timeout_ms;
	uint64_t output_bytes;
	uint64_t at_once;
	unsigned under_way;        /* its keeper's count */
	char *schema_text;         /* JSON Schema of the arguments */
	struct jsonschema *schema; /* once command_compile did it */
	struct strings properties; /* names of arguments that the schema lists */
	/* A call: where it goes, and what of the arguments stands where. NULL: a program. */
	struct service *service;
	char *method;
	char *target;         /* path, with {name} */
	struct strings query; /* "q={name}"; one whose argument is absent is left out */
	bool sends_json;      /* the arguments are the body */
	/* A program. */
	struct strings argv; /* [0] is absolute; {name} in the others */
	char *user;          /* account; NULL: one that has nothing */
	bool has_stdin;      /* the arguments as JSON on standard input */
};

/* What a command was asked, and what came of it. */
struct command_call {
	struct command *command;
	const struct strings *values; /* name=value, of those its manifest places somewhere */
	const char *arguments;        /* all of them, as JSON */
};
struct command_result {
	int status;    /* of HTTP; 0: it was a program */
	int exit_code; /* of a program */
	int signal;    /* 0: it ended by itself */
	bool timed_out, is_cut;
	const char *type; /* of the output, as a server said; "" otherwise */
	const char *output, *errors;
	size_t output_len, errors_len;
};

struct command *command_ref(struct command *command);
/* Accepts NULL. */
void command_unref(struct command *command);
void command_unrefp(struct command **command);

/* Words of a command line: a-z 0-9 and "-", the first a letter. Verbs may have "_" besides: nouns
 * not, so that NOUN_VERB is one command. */
bool command_is_noun(const char *text);
bool command_is_verb(const char *text);
/* A first word that the command line has itself. */
bool command_is_taken(const char *noun);
/* "NAME.toml", and no path. */
bool command_is_file(const char *name);

/* Strictly: ERR_CONFIG "FILE:LINE: [section]: what". The schema is not looked at beyond its form:
 * command_compile does. */
int command_parse(const char *file, const char *text, size_t len, struct command **ret,
                  struct err *err) NODISCARD;
int command_compile(struct command *command, struct err *err) NODISCARD;
/* Reads dir_fd/file and parses it. */
int command_load(int dir_fd, const char *file, struct command **ret, struct err *err) NODISCARD;

/* --- filling in: values are "name=value", several of one name in their order --- */
/*
 * The words of a program. One that is a {name} alone becomes as many as there are values; one that
 * has more around it is left out without a value. A value that a program would take for an option
 * (it begins with "-" and so would the word) is refused, unless a word "--" stands before.
 * ERR_INVALID.
 */
int command_argv(const struct command *command, const struct strings *values, struct strings *ret,
                 struct err *err) NODISCARD;
/* Path and query of a call, each value encoded so that it stays one segment or one value.
 * ERR_INVALID. The caller frees. */
int command_target(const struct command *command, const struct strings *values, char **ret,
                   struct err *err) NODISCARD;
/* The names in a template, each once; NULL after the last. For whoever collects values. */
bool command_uses(const struct command *command, const char *name);
