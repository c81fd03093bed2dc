/*
 * Names of hosts as policies write them and as programs ask for them, in one form: lower-case
 * ASCII (names in other scripts as punycode, RFC 3492), no dot at the end. A policy's entry may
 * begin with one "*.", which covers every name below and the name itself, and end with ":PORT".
 * Pure; reads bytes of users and, for questions, of sandboxes.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

enum { DOMAIN_TEXT = 254, DOMAIN_LABEL = 63, DOMAIN_ENTRY_TEXT = 264, DOMAIN_LIST = 100 };

struct domain {
	char name[DOMAIN_TEXT]; /* without "*." */
	bool is_wildcard;
	uint16_t port; /* 0: the ports of the policy */
};

/* An entry of a list, strictly: at least two labels, no address, no URL. ERR_INVALID with
 * the reason and, where there is one, what to write instead. */
int domain_parse(const char *text, struct domain *ret, struct err *err) NODISCARD;
/* A name that somebody asks for: letters, digits, "-" and "_" in labels, any case, one dot at the
 * end allowed, at least one label. false: no such name can exist. */
bool domain_fold(const char *text, char ret[DOMAIN_TEXT]) NODISCARD;
/* As domain_parse would have written it: for entries that came as bytes. */
bool domain_is_normal(const char *name);
/* host in its normal form. */
bool domain_covers(const char *name, bool is_wildcard, const char *host);
/* "example.org" or "*.example.org"; out has room for DOMAIN_ENTRY_TEXT bytes. */
void domain_format(char *out, size_t size, const char *name, bool is_wildcard);
/* As an entry of a list, with its port if it has one: "*.example.org:8443". */
void domain_format_entry(char *out, size_t size, const struct domain *domain);
/* Replaces *ret by the normal forms of a list of at most DOMAIN_LIST entries, each once. The
 * message names the position (from 1) of every bad entry, and the reason of the first. */
int domain_parse_list(const char *what, const struct strings *list, struct strings *ret,
                      struct err *err) NODISCARD;
