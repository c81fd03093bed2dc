/* The record of who did what: pages, verification, export. */
#include <stdio.h>

#include <sodium.h>

#include "api/call.h"
#include "api/encode.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "store/audit.h"
#include "store/hex.h"

/* A slice of a long record, between which others are served. */
enum { SLICE = 500, EXPORT_BYTES = 4 * 1024 * 1024 };

static json_t *encode_row(const struct audit_row *row)
{
	char hash[2 * AUDIT_HASH + 1];
	json_t *object = json_object();

	hex_write(hash, row->hash, AUDIT_HASH);
	json_object_set_new(object, "seq", json_integer((json_int_t)row->seq));
	json_object_set_new(object, "time", encode_time(row->time_ms));
	json_object_set_new(object, "actor", encode_text(row->actor.text));
	json_object_set_new(object, "actorName", encode_text(row->actor_name));
	json_object_set_new(object, "team", encode_text(row->team.text));
	json_object_set_new(object, "credential", encode_text(row->credential.text));
	json_object_set_new(object, "chain", encode_text(row->chain));
	json_object_set_new(object, "source", encode_text(row->source));
	json_object_set_new(object, "action", encode_text(row->action));
	json_object_set_new(object, "object", encode_text(row->object));
	json_object_set_new(object, "verdict", json_string(audit_verdict_name(row->verdict)));
	json_object_set_new(object, "rule", encode_text(row->rule));
	json_object_set_new(object, "count", json_integer((json_int_t)row->count));
	json_object_set_new(object, "hash", json_string(hash));
	return object;
}

/* --- what waits to be stored belongs to the answer --- */

struct flushed {
	struct call *call;
	void (*next)(struct call *call);
};

static void on_flushed(const struct store_result *result, void *ctx)
{
	auto_free struct flushed *flushed = ctx;

	if (result->ok)
		flushed->next(flushed->call);
	else
		call_fail(flushed->call, &result->err);
}

/* A write takes along what waits, also an empty one, and comes after those that are on their way:
 * rows that wait no more may not be there yet, either. */
static void after_flush(struct call *call, void (*next)(struct call *call))
{
	struct flushed *flushed = mem_new(struct flushed);

	*flushed = (struct flushed){call, next};
	store_write_submit(store_write_new(call->api->store), on_flushed, flushed);
}

/* --- a page --- */

static void answer_page(struct call *call)
{
	const char *cursor = call_query(call, "cursor", NULL);
	struct audit_filter filter = {
		.team = call->caller->is_operator ? NULL : call->caller->team.text,
		.backwards = call_query_bool(call, "newest"),
		.after = call_query_u64(call, "after", 0),
		.limit = MIN(call_query_u64(call, "limit", 0), (uint64_t)LIMIT_PAGE),
	};
	struct audit_page page = {0};
	char next[24] = "";
	struct err err = {0};
	json_t *items;

	if (cursor && str_to_u64(cursor, &filter.after) < 0)
		(void)err_set(&err, ERR_INVALID, "'cursor' is not one of ours"); /* always -1 */
	if (err.code != ERR_OK || store_audit_list(call->api->store, &filter, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode_row(&page.items[i]));
	if (page.more)
		(void)snprintf(next, sizeof(next), "%llu",
		               (unsigned long long)page.items[page.count - 1].seq); /* fits */
	call_answer(call, 200, encode_page(items, next));
	audit_page_done(&page);
}

void handle_audit_list(struct call *call)
{
	after_flush(call, answer_page);
}

/* --- verifying --- */

struct verify {
	struct call *call;
	struct audit_check check;
	struct loop_timer timer;
};

static void verify_free(struct verify *verify)
{
	request_set_on_end(verify->call->request, NULL, NULL);
	loop_timer_stop(&verify->timer);
	mem_freep(&verify);
}

static json_t *encode_check_result(const struct audit_check *check)
{
	char hash[2 * AUDIT_HASH + 1];
	json_t *bad = json_null();

	hex_write(hash, check->hash, AUDIT_HASH);
	if (check->bad_seq)
		bad = json_pack("{s:I, s:s}", "seq", (json_int_t)check->bad_seq, "what",
		                check->what);
	return json_pack("{s:b, s:I, s:I, s:s, s:o}", "ok", check->bad_seq == 0, "rows",
	                 (json_int_t)check->seq, "pruned", (json_int_t)check->pruned, "hash", hash,
	                 "bad", bad);
}

static void on_slice(struct loop_timer *timer, void *ctx)
{
	struct verify *verify = ctx;
	struct call *call = verify->call;
	struct err err = {0};

	if (store_audit_verify(call->api->store, &verify->check, SLICE, &err) < 0) {
		verify_free(verify);
		call_fail(call, &err);
	} else if (verify->check.is_over) {
		json_t *result = encode_check_result(&verify->check);

		verify_free(verify);
		call_answer(call, 200, result);
	} else {
		loop_timer_in(call->api->loop, &verify->timer, 0, on_slice, verify);
	}
}

static void on_verify_gone(struct request *request, bool gone, void *ctx)
{
	struct verify *verify = ctx;
	struct call *call = verify->call;

	verify_free(verify);
	call_done(call);
}

static void begin_verify(struct call *call)
{
	struct verify *verify = mem_new(struct verify);

	verify->call = call;
	request_set_on_end(call->request, on_verify_gone, verify);
	on_slice(&verify->timer, verify);
}

void handle_audit_verify(struct call *call)
{
	after_flush(call, begin_verify);
}

/* --- exporting: a line a row, then one that signs them all --- */

struct export
{
	struct api *api;
	struct buf out;
	uint64_t seq;
	uint8_t hash[AUDIT_HASH];        /* of the last row */
	crypto_hash_sha256_state digest; /* of all lines: what everybody's tools can do */
	bool has_begun, is_signed;
};

static void put_line(struct export *export, json_t *json, bool is_covered)
{
	auto_free char *text = json_dumps(json, JSON_COMPACT);

	json_decref(json);
	must(buf_puts(&export->out, text) == 0 && buf_puts(&export->out, "\n") == 0);
	if (!is_covered)
		return;
	crypto_hash_sha256_update(&export->digest, (const uint8_t *)text, strlen(text));
	crypto_hash_sha256_update(&export->digest, (const uint8_t *)"\n", 1);
}

/* Whoever has the node's public key can check the file without the node. */
static void put_seal(struct export *export)
{
	uint8_t digest[32], signature[crypto_sign_BYTES];
	char hash[2 * AUDIT_HASH + 1], digest_text[65], key[65], signature_text[129];

	crypto_hash_sha256_final(&export->digest, digest);
	must(crypto_sign_detached(signature, NULL, digest, sizeof(digest),
	                          export->api->sign_secret) == 0);
	hex_write(hash, export->hash, AUDIT_HASH);
	hex_write(digest_text, digest, sizeof(digest));
	hex_write(key, export->api->sign_public, 32);
	hex_write(signature_text, signature, sizeof(signature));
	put_line(export,
	         json_pack("{s:{s:I, s:s, s:s, s:s, s:s}}", "seal", "rows",
	                   (json_int_t) export->seq, "hash", hash, "sha256", digest_text,
	                   "publicKey", key, "signature", signature_text),
	         false);
	export->is_signed = true;
}

/* What was removed before, so that the hashes of the rest begin with something. */
static int put_anchor(struct export *export, struct err *err)
{
	struct audit_anchor anchor;
	char hash[2 * AUDIT_HASH + 1];

	export->has_begun = true;
	if (store_audit_anchor(export->api->store, &anchor, err) < 0)
		return -1;
	if (anchor.seq == 0)
		return 0;
	hex_write(hash, anchor.hash, AUDIT_HASH);
	put_line(
		export,
		json_pack("{s:{s:I, s:s}}", "pruned", "rows", (json_int_t)anchor.seq, "hash", hash),
		true);
	return 0;
}

static int fill(struct export *export, struct err *err)
{
	struct audit_filter filter = {.after = export->seq, .limit = SLICE};
	struct audit_page page = {0};

	if ((!export->has_begun && put_anchor(export, err) < 0) ||
	    store_audit_list(export->api->store, &filter, &page, err) < 0)
		return -1;
	for (size_t i = 0; i < page.count; i++) {
		export->seq = page.items[i].seq;
		memcpy(export->hash, page.items[i].hash, AUDIT_HASH);
		put_line(export, encode_row(&page.items[i]), true);
	}
	if (page.count == 0)
		put_seal(export);
	audit_page_done(&page);
	return 0;
}

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	struct export *export = ctx;
	struct err err = {0};
	size_t take;

	if (buf_len(&export->out) == 0 && !export->is_signed && fill(export, &err) < 0)
		return REQUEST_STREAM_ABORT;
	take = MIN(max, buf_len(&export->out));
	if (take == 0)
		return REQUEST_STREAM_END;
	memcpy(to, buf_head(&export->out), take);
	buf_consume(&export->out, take);
	return (ssize_t)take;
}

static void on_export_end(struct request *request, bool gone, void *ctx)
{
	struct export *export = ctx;

	buf_done(&export->out);
	mem_freep(&export);
}

static void begin_export(struct call *call)
{
	struct export *export = mem_new(struct export);

	export->api = call->api;
	buf_init(&export->out, EXPORT_BYTES);
	crypto_hash_sha256_init(&export->digest);
	request_set_on_end(call->request, on_export_end, export);
	request_answer_stream(call->request, 200, "application/x-ndjson", UINT64_MAX, on_pull,
	                      export);
	call_done(call);
}

void handle_audit_export(struct call *call)
{
	after_flush(call, begin_export);
}
