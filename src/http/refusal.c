/*
 * The library offers no hook for its own answers. It makes them with the same public function that
 * everybody uses, and a program's definition of it comes before a shared library's: ours here makes
 * the document instead. Our own answers are made with another function. Which error it is the
 * library has logged right before. Where it is linked so that it finds itself first (-Bsymbolic),
 * its pages stay.
 *
 * Version 0.9.75 sends the head of its answer to a bad Content-Length twice, and a client takes the
 * second one for the body: these have none.
 */
#include "http/refusal.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

static const struct refusal {
	int status;
	enum err_code code;
	const char *detail;
} refusals[] = {
	{400, ERR_INVALID, "this cannot be read as an HTTP request"}, /* and all others */
	{413, ERR_TOO_LARGE, "the body is longer than any that is taken"},
	{414, ERR_TOO_LARGE, "the target of the request is too long"},
	{431, ERR_TOO_LARGE, "the headers of the request are too long"},
	{505, ERR_UNSUPPORTED, "HTTP/1.1 and HTTP/1.0 are spoken here"},
	{500, ERR_INTERNAL, "the request cannot be answered"},
};

/* There is one thread, and the library makes the answer right after it said why. */
static const struct refusal *heard = &refusals[0];
static bool is_empty;

int refusal_heard(const char *text)
{
	static const char begin[] = "Error processing request (HTTP response code is ";
	int status;

	if (!str_has_prefix(text, begin))
		return 0;
	status = (int)strtol(text + sizeof(begin) - 1, NULL, 10);
	is_empty = strstr(text, "<b>Content-Length</b>") != NULL;
	heard = &refusals[0];
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		if (refusals[i].status == status)
			heard = &refusals[i];
	}
	return status;
}

static char *document(void)
{
	return mem_printf("{\"type\":\"urn:cloche:error:%s\",\"title\":\"%s\",\"status\":%d,"
	                  "\"detail\":\"%s\",\"code\":\"%s\"}",
	                  err_name(heard->code), MHD_get_reason_phrase_for((unsigned)heard->status),
	                  heard->status, heard->detail, err_name(heard->code));
}

struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *buffer,
                                                     enum MHD_ResponseMemoryMode mode)
{
	char *text = is_empty ? mem_strdup("") : document();
	struct MHD_Response *response =
		MHD_create_response_from_buffer_with_free_callback(strlen(text), text, free);

	if (!response) {
		mem_freep(&text);
		return NULL;
	}
	/* Fails only without memory: then it is text of no kind. */
	if (!is_empty)
		(void)MHD_add_response_header(response, "Content-Type", "application/problem+json");
	return response;
}
