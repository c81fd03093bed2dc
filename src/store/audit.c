/*
 * Rows wait in a list of the loop thread until a write is submitted; they then go into a write of
 * their own just before it (audit_write_waiting, called by store.c). Of their own, because a write
 * that is refused takes all of itself back, and a refused change has to be on record, too. Number
 * and hash are given by the writer thread, from the head row in the same transaction: a rollback
 * takes them back together.
 */
#include "store/audit.h"

#include <sodium.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "store/cursor.h"
#include "store/hex.h"
#include "store/store_impl.h"
#include "store/write.h"

struct audit_wait {
	struct audit_wait *next;
	struct audit_row row;
	uint64_t ticket; /* 0: the object is known */
	uint64_t since_ms;
};

/* --- the chain --- */

static void feed(crypto_generichash_state *state, const void *bytes, size_t len)
{
	must(crypto_generichash_update(state, bytes, len) == 0);
}

static void feed_number(crypto_generichash_state *state, uint64_t number)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(number >> (8 * i));
	feed(state, bytes, sizeof(bytes));
}

/* With its length, so that no two rows run together to the same bytes. Absent and empty are the
 * same: columns do not tell them apart for ids. */
static void feed_text(crypto_generichash_state *state, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	feed_number(state, len);
	if (len > 0)
		feed(state, text, len);
}

void audit_hash(const uint8_t key[AUDIT_HASH], const uint8_t before[AUDIT_HASH],
                const struct audit_row *row, uint8_t ret[AUDIT_HASH])
{
	crypto_generichash_state state;

	must(crypto_generichash_init(&state, key, AUDIT_HASH, AUDIT_HASH) == 0);
	feed(&state, before, AUDIT_HASH);
	feed_number(&state, row->seq);
	feed_number(&state, row->time_ms);
	feed_text(&state, row->actor.text);
	feed_text(&state, row->actor_name);
	feed_text(&state, row->team.text);
	feed_text(&state, row->credential.text);
	feed_text(&state, row->chain);
	feed_text(&state, row->source);
	feed_text(&state, row->action);
	feed_text(&state, row->object);
	feed_number(&state, (uint64_t)row->verdict);
	feed_text(&state, row->rule);
	feed_number(&state, row->count);
	must(crypto_generichash_final(&state, ret, AUDIT_HASH) == 0);
}

/* --- writing, in the writer thread --- */

static int read_head(struct db *db, uint64_t *ret_seq, uint8_t ret_hash[AUDIT_HASH],
                     struct err *err)
{
	sqlite3_stmt *head;
	int r;

	*ret_seq = 0;
	memset(ret_hash, 0, AUDIT_HASH);
	if (db_begin(db, SQL_AUDIT_HEAD, NULL, 0, &head, err) < 0)
		return -1;
	r = db_step(db, head, err);
	if (r <= 0)
		return r;
	*ret_seq = db_column_int(head, 0);
	/* A head that is no hash breaks the chain here, which verifying shows. */
	if (!hex_read(db_column_view(head, 1), ret_hash, AUDIT_HASH))
		memset(ret_hash, 0xff, AUDIT_HASH);
	sqlite3_reset(head);
	return 0;
}

static int run(struct db *db, enum sql sql, const struct value *values, size_t count,
               struct err *err)
{
	sqlite3_stmt *statement;

	if (db_begin(db, sql, values, count, &statement, err) < 0)
		return -1;
	return db_step(db, statement, err) < 0 ? -1 : 0;
}

static struct value value_id(const struct id *id)
{
	return value_text(id->text[0] != '\0' ? id->text : NULL);
}

int audit_apply(struct store *store, struct audit_row *row, struct db *db, struct err *err)
{
	uint8_t before[AUDIT_HASH];
	char hash[2 * AUDIT_HASH + 1];
	uint64_t seq;

	if (read_head(db, &seq, before, err) < 0)
		return -1;
	row->seq = seq + 1;
	audit_hash(store->audit_key, before, row, row->hash);
	hex_write(hash, row->hash, AUDIT_HASH);
	const struct value values[] = {
		value_int(row->seq),
		value_int(row->time_ms),
		value_id(&row->actor),
		value_text(row->actor_name),
		value_id(&row->team),
		value_id(&row->credential),
		value_text(row->chain),
		value_text(row->source),
		value_text(row->action),
		value_text(row->object),
		value_text(audit_verdict_name(row->verdict)),
		value_text(row->rule),
		value_int(row->count),
		value_text(hash),
	};
	const struct value mark[] = {value_int(row->seq), value_text(hash)};

	if (run(db, SQL_AUDIT_ADD, values, ARRAY_LEN(values), err) < 0)
		return -1;
	return run(db, SQL_AUDIT_MARK, mark, ARRAY_LEN(mark), err);
}

/* --- waiting, in the loop thread --- */

static struct audit_wait *add(struct store *store, const struct audit_row *row)
{
	struct audit_wait *wait = mem_new(struct audit_wait);

	audit_row_copy(&wait->row, row);
	wait->row.count = MAX(row->count, (uint64_t)1);
	wait->since_ms = io_boot_ms();
	*store->audit_last = wait;
	store->audit_last = &wait->next;
	return wait;
}

void store_audit(struct store *store, const struct audit_row *row)
{
	add(store, row);
}

uint64_t store_audit_open(struct store *store, const struct audit_row *row)
{
	return add(store, row)->ticket = ++store->audit_ticket;
}

void store_audit_bind(struct store *store, uint64_t ticket, const char *object)
{
	for (struct audit_wait *wait = store->audit_first; wait && ticket; wait = wait->next) {
		if (wait->ticket != ticket)
			continue;
		free(wait->row.object);
		wait->row.object = mem_strdup(object);
		wait->ticket = 0;
		return;
	}
}

bool store_audit_waits(const struct store *store)
{
	return store->audit_first != NULL;
}

/* Moves what is due into a write; NULL: nothing is. Rows keep their order. */
static struct store_write *collect(struct store *store, uint64_t now_ms, uint64_t patience_ms)
{
	struct store_write *write = NULL;
	struct audit_wait **at = &store->audit_first;

	while (*at) {
		struct audit_wait *wait = *at;
		struct op *op;

		if (wait->ticket != 0 && now_ms - wait->since_ms < patience_ms) {
			at = &wait->next;
			continue;
		}
		*at = wait->next;
		if (!write)
			write = store_write_new(store);
		op = write_add_values(write, SQL_AUDIT_ADD, NULL, 0);
		op->audit = mem_new(struct audit_row);
		*op->audit = wait->row;
		free(wait);
	}
	store->audit_last = at;
	return write;
}

struct store_write *audit_write_waiting(struct store *store)
{
	return store->audit_first ? collect(store, 0, UINT64_MAX) : NULL;
}

void store_audit_flush(struct store *store, uint64_t now_ms, uint64_t patience_ms)
{
	struct store_write *write = collect(store, now_ms, patience_ms);

	if (write)
		store_write_submit(write, NULL, NULL);
}

/* --- reading --- */

static void take_row(sqlite3_stmt *row, struct audit_row *ret)
{
	*ret = (struct audit_row){
		.seq = db_column_int(row, 0),
		.time_ms = db_column_int(row, 1),
		.actor = db_column_id(row, 2),
		.actor_name = db_column_text(row, 3),
		.team = db_column_id(row, 4),
		.credential = db_column_id(row, 5),
		.chain = db_column_text(row, 6),
		.source = db_column_text(row, 7),
		.action = db_column_text(row, 8),
		.object = db_column_text(row, 9),
		.verdict = strcmp(db_column_view(row, 10), "allow") == 0 ? AUDIT_ALLOW : AUDIT_DENY,
		.rule = db_column_text(row, 11),
		.count = db_column_int(row, 12),
	};
	/* A text that is no hash is equal to none. */
	if (!hex_read(db_column_view(row, 13), ret->hash, AUDIT_HASH))
		memset(ret->hash, 0, AUDIT_HASH);
}

int store_audit_list(struct store *store, const struct audit_filter *filter, struct audit_page *ret,
                     struct err *err)
{
	uint64_t after = filter->backwards && filter->after == 0 ? INT64_MAX : filter->after;
	struct audit_page page = {0};
	sqlite3_stmt *row;
	size_t limit;
	int r;

	if (cursor_check_limit(filter->limit, &limit, err) < 0)
		return -1;
	const struct value values[] = {value_int(after),
	                               value_text(filter->team ? filter->team : ""),
	                               value_int(limit + 1)};

	if (db_begin(&store->reader, filter->backwards ? SQL_AUDIT_LIST_BACK : SQL_AUDIT_LIST,
	             values, 3, &row, err) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0)
		take_row(row, &page.items[page.count++]);
	page.more = page.count > limit;
	if (page.more)
		audit_row_done(&page.items[--page.count]);
	if (r < 0)
		audit_page_done(&page);
	else
		*ret = page;
	return r;
}

void audit_page_done(struct audit_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		audit_row_done(&page->items[i]);
	free(page->items);
	*page = (struct audit_page){0};
}

/* --- verifying --- */

static void blame(struct audit_check *check, uint64_t seq, const char *what)
{
	check->is_over = true;
	check->bad_seq = seq;
	(void)snprintf(check->what, sizeof(check->what), "%s", what); /* ours, and short */
}

static void check_row(struct store *store, struct audit_check *check, const struct audit_row *row)
{
	uint8_t wanted[AUDIT_HASH];

	if (row->seq != check->seq + 1) {
		blame(check, check->seq + 1, "a row is missing here");
		return;
	}
	audit_hash(store->audit_key, check->hash, row, wanted);
	if (sodium_memcmp(wanted, row->hash, AUDIT_HASH) != 0) {
		blame(check, row->seq,
		      "this row is not as it was written, or not where it was written");
		return;
	}
	check->seq = row->seq;
	memcpy(check->hash, row->hash, AUDIT_HASH);
}

static void check_head(struct audit_check *check, uint64_t seq, const uint8_t hash[AUDIT_HASH])
{
	check->is_over = true;
	if (seq > check->seq)
		blame(check, check->seq + 1, "rows are missing at the end");
	else if (seq < check->seq || memcmp(hash, check->hash, AUDIT_HASH) != 0)
		blame(check, check->seq, "the record of the newest row does not agree with it");
}

/* Read after the rows: what was removed in between is then known to be. */
static int take_anchor(struct store *store, struct audit_check *check, struct err *err)
{
	struct audit_anchor anchor;

	if (store_audit_anchor(store, &anchor, err) < 0)
		return -1;
	if (!anchor.holds)
		blame(check, anchor.seq, "where the record begins is not as it was written");
	check->pruned = anchor.seq;
	if (anchor.seq > check->seq) {
		check->seq = anchor.seq;
		memcpy(check->hash, anchor.hash, AUDIT_HASH);
	}
	return 0;
}

int store_audit_verify(struct store *store, struct audit_check *check, size_t limit,
                       struct err *err)
{
	struct audit_filter filter = {.after = check->seq, .limit = limit};
	struct audit_page page = {0};
	uint8_t hash[AUDIT_HASH];
	uint64_t seq;

	if (check->is_over)
		return 0;
	/* The head first: whatever is committed between the two is in the list, and not missed. */
	if (read_head(&store->reader, &seq, hash, err) < 0 ||
	    store_audit_list(store, &filter, &page, err) < 0)
		return -1;
	if (take_anchor(store, check, err) < 0) {
		audit_page_done(&page);
		return -1;
	}
	for (size_t i = 0; i < page.count && !check->is_over; i++) {
		if (page.items[i].seq > check->seq || page.items[i].seq > check->pruned)
			check_row(store, check, &page.items[i]);
	}
	if (!check->is_over && page.count == 0)
		check_head(check, seq, hash);
	audit_page_done(&page);
	return 0;
}
