/*
 * Our objects as the JSON of the API. Texts that came from outside are made valid UTF-8 here.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"

struct event;
struct exec;
struct image;
struct limits;
struct meters;
struct profile;
struct record_stat;
struct sandbox;
struct strings;

json_t *encode_sandbox(const struct sandbox *sandbox);
json_t *encode_limits(const struct limits *limits);
json_t *encode_meters(const struct meters *meters);
/* Its environment and policy alone. */
json_t *encode_network(const struct sandbox *sandbox);
json_t *encode_exec(const struct exec *exec);
json_t *encode_image(const struct image *image);
/* The image that is no row. */
json_t *encode_host_image(void);
json_t *encode_event(const struct event *event);
json_t *encode_profile(const struct profile *profile);
/* One line of doctor: "name TAB status TAB detail TAB remedy". */
json_t *encode_check(const char *line);
json_t *encode_stat(const struct record_stat *record);

json_t *encode_page(json_t *items, const char *next_cursor);
/* NULL and "" are null. */
json_t *encode_text(const char *text);
/* RFC 3339; 0 is null. */
json_t *encode_time(uint64_t real_ms);
/* Any bytes as a text: what is no UTF-8 becomes U+FFFD. *ret_exact says whether nothing did. */
json_t *encode_bytes(const void *bytes, size_t len, bool *ret_exact);
json_t *encode_base64(const void *bytes, size_t len);
/* Sets object[name] to the text and, when it is not exact, object[nameBase64] to the bytes. */
void encode_put_bytes(json_t *object, const char *name, const void *bytes, size_t len);
