/*
 * Old rows of the audit go, from the first on. What is kept of them is the anchor: number and hash
 * of the newest that went, so that the chain of the others still begins somewhere, sealed with the
 * key of the chain, so that nobody without it cuts rows and moves the anchor along.
 */
#include <sodium.h>

#include "base/must.h"
#include "store/audit.h"
#include "store/hex.h"
#include "store/store_impl.h"
#include "store/write.h"

static void make_seal(const struct store *store, uint64_t seq, const uint8_t hash[AUDIT_HASH],
                      uint8_t ret[AUDIT_HASH])
{
	static const uint8_t label[] = "cloche audit anchor";
	crypto_generichash_state state;
	uint8_t number[8];

	for (int i = 0; i < 8; i++)
		number[i] = (uint8_t)(seq >> (8 * i));
	must(crypto_generichash_init(&state, store->audit_key, AUDIT_HASH, AUDIT_HASH) == 0 &&
	     crypto_generichash_update(&state, label, sizeof(label)) == 0 &&
	     crypto_generichash_update(&state, number, sizeof(number)) == 0 &&
	     crypto_generichash_update(&state, hash, AUDIT_HASH) == 0 &&
	     crypto_generichash_final(&state, ret, AUDIT_HASH) == 0);
}

int store_audit_anchor(struct store *store, struct audit_anchor *ret, struct err *err)
{
	uint8_t wanted[AUDIT_HASH], seal[AUDIT_HASH];
	sqlite3_stmt *row;
	int r;

	*ret = (struct audit_anchor){.holds = true};
	if (db_begin(&store->reader, SQL_AUDIT_ANCHOR, NULL, 0, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r <= 0)
		return r;
	ret->seq = db_column_int(row, 0);
	ret->holds = hex_read(db_column_view(row, 1), ret->hash, AUDIT_HASH) &&
	             hex_read(db_column_view(row, 2), seal, AUDIT_HASH);
	sqlite3_reset(row);
	make_seal(store, ret->seq, ret->hash, wanted);
	ret->holds = ret->holds && sodium_memcmp(seal, wanted, AUDIT_HASH) == 0;
	return 0;
}

int store_audit_old(struct store *store, uint64_t before_ms, size_t most, struct audit_span *ret,
                    struct err *err)
{
	const struct value values[] = {value_int(most)};
	sqlite3_stmt *row;
	int r;

	*ret = (struct audit_span){0};
	if (db_begin(&store->reader, SQL_AUDIT_OLDEST, values, ARRAY_LEN(values), &row, err) < 0)
		return -1;
	/* Up to the first that is young: what went is all that came before what is there. */
	while ((r = db_step(&store->reader, row, err)) > 0 && db_column_int(row, 1) < before_ms) {
		if (ret->first == 0)
			ret->first = db_column_int(row, 0);
		ret->last = db_column_int(row, 0);
		if (!hex_read(db_column_view(row, 2), ret->hash, AUDIT_HASH))
			memset(ret->hash, 0, AUDIT_HASH); /* verifying shows it */
	}
	sqlite3_reset(row);
	return r < 0 ? -1 : 0;
}

void store_prune_audit(struct store_write *write, const struct audit_span *span)
{
	char hash[2 * AUDIT_HASH + 1], seal_text[2 * AUDIT_HASH + 1];
	uint8_t seal[AUDIT_HASH];

	make_seal(write->store, span->last, span->hash, seal);
	hex_write(hash, span->hash, AUDIT_HASH);
	hex_write(seal_text, seal, AUDIT_HASH);
	write_add(write, SQL_AUDIT_ANCHOR_PUT, value_int(span->last), value_text(hash),
	          value_text(seal_text));
	write_add(write, SQL_AUDIT_PRUNE, value_int(span->last));
}
