#include "model/rights.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/money.h"

struct right {
	const char *name;
	size_t in_rights, in_wish;
};

static const struct right lists[] = {
#define RIGHT(field, text, about)                                                                  \
	{text, offsetof(struct rights, field), offsetof(struct wish, field)},
#include "model/rights.def"
#undef RIGHT
};

static struct allowed *list_of(struct rights *rights, const struct right *right)
{
	return (struct allowed *)((char *)rights + right->in_rights);
}

static const struct allowed *list_in(const struct rights *rights, const struct right *right)
{
	return (const struct allowed *)((const char *)rights + right->in_rights);
}

static const struct allowed *list_wished(const struct wish *wish, const struct right *right)
{
	return *(const struct allowed *const *)((const char *)wish + right->in_wish);
}

/* --- lists --- */

void allowed_done(struct allowed *allowed)
{
	strings_done(&allowed->items);
	allowed->any = false;
}

void allowed_copy(struct allowed *to, const struct allowed *from)
{
	to->any = from->any;
	strings_copy(&to->items, &from->items);
}

bool allowed_has(const struct allowed *allowed, const char *name)
{
	return allowed->any || strings_has(&allowed->items, name);
}

/* The name in inner that outer does not have; NULL: there is none. */
static const char *allowed_extra(const struct allowed *inner, const struct allowed *outer)
{
	if (outer->any)
		return NULL;
	if (inner->any)
		return "everything";
	for (size_t i = 0; i < inner->items.count; i++) {
		if (!strings_has(&outer->items, inner->items.items[i]))
			return inner->items.items[i];
	}
	return NULL;
}

/* --- rights --- */

void rights_init(struct rights *rights, const struct scopes *scopes)
{
	*rights = (struct rights){.until_ms = RIGHTS_UNLIMITED, .budget = RIGHTS_UNLIMITED};
	scopes_copy(&rights->scopes, scopes);
	reach_add_all(&rights->network);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		list_of(rights, &lists[i])->any = true;
}

void rights_done(struct rights *rights)
{
	scopes_done(&rights->scopes);
	reach_done(&rights->network);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		allowed_done(list_of(rights, &lists[i]));
	*rights = (struct rights){0};
}

void rights_copy(struct rights *to, const struct rights *from)
{
	struct rights copy = {
		.until_ms = from->until_ms, .budget = from->budget, .depth = from->depth};

	scopes_copy(&copy.scopes, &from->scopes);
	reach_copy(&copy.network, &from->network);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		allowed_copy(list_of(&copy, &lists[i]), list_in(from, &lists[i]));
	rights_done(to);
	*to = copy;
}

/* --- handing down --- */

static int narrow_scopes(const struct rights *parent, const struct wish *wish, struct rights *ret,
                         struct err *err)
{
	scopes_copy(&ret->scopes, &parent->scopes);
	if (wish->scopes)
		scopes_intersect(&ret->scopes, wish->scopes);
	if (scopes_is_empty(&ret->scopes)) {
		auto_free char *asked =
			wish->scopes ? scopes_format(wish->scopes) : mem_strdup("all");

		return err_set(err, ERR_FORBIDDEN,
		               "none of the scopes asked for (%.150s) is the caller's own", asked);
	}
	return 0;
}

static int narrow_network(const struct rights *parent, const struct wish *wish, struct rights *ret,
                          struct err *err)
{
	char extra[REACH_TEXT];

	if (!wish->network) {
		reach_copy(&ret->network, &parent->network);
		return 0;
	}
	if (!reach_within(wish->network, &parent->network, extra, sizeof(extra)))
		return err_set(err, ERR_FORBIDDEN,
		               "network '%.150s' is more than the caller's own run reaches", extra);
	reach_copy(&ret->network, wish->network);
	reach_deny(&ret->network, &parent->network);
	return 0;
}

static int narrow_list(const struct rights *parent, const struct wish *wish,
                       const struct right *right, struct rights *ret, struct err *err)
{
	const struct allowed *own = list_in(parent, right);
	const struct allowed *wished = list_wished(wish, right);
	const char *extra = wished ? allowed_extra(wished, own) : NULL;

	if (extra)
		return err_set(err, ERR_FORBIDDEN, "%s: '%.150s' is not among the caller's own",
		               right->name, extra);
	allowed_copy(list_of(ret, right), wished ? wished : own);
	return 0;
}

static int narrow_numbers(const struct rights *parent, const struct wish *wish, uint64_t now_ms,
                          struct rights *ret, struct err *err)
{
	char wanted[MONEY_TEXT], rest[MONEY_TEXT];
	uint64_t left = parent->until_ms > now_ms ? parent->until_ms - now_ms : 0;

	if (parent->until_ms == RIGHTS_UNLIMITED)
		left = RIGHTS_UNLIMITED;
	if (left == 0)
		return err_set(err, ERR_FORBIDDEN, "time: the caller's own is over");
	if (wish->has_time && wish->time_ms > left)
		return err_set(err, ERR_FORBIDDEN,
		               "time: %llums is more than the %llums the caller has left",
		               (unsigned long long)wish->time_ms, (unsigned long long)left);
	ret->until_ms = parent->until_ms;
	if (wish->has_time && wish->time_ms < RIGHTS_UNLIMITED - now_ms)
		ret->until_ms = now_ms + wish->time_ms;
	if (wish->has_budget && wish->budget > parent->budget)
		return err_set(
			err, ERR_FORBIDDEN, "budget: $%s is more than the $%s the caller has left",
			money_format(wanted, wish->budget), money_format(rest, parent->budget));
	ret->budget = wish->has_budget ? wish->budget : parent->budget;
	return 0;
}

static int narrow(const struct rights *parent, const struct wish *wish, uint64_t now_ms,
                  struct rights *ret, struct err *err)
{
	if (narrow_scopes(parent, wish, ret, err) < 0 ||
	    narrow_network(parent, wish, ret, err) < 0 ||
	    narrow_numbers(parent, wish, now_ms, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (narrow_list(parent, wish, &lists[i], ret, err) < 0)
			return -1;
	}
	return 0;
}

int rights_delegate(const struct rights *parent, const struct wish *wish, uint64_t now_ms,
                    unsigned depth_max, struct rights *ret, struct err *err)
{
	struct rights child = {.depth = parent->depth + 1};

	if (child.depth > depth_max)
		return err_set(err, ERR_FORBIDDEN,
		               "depth: a child of this one would be %u below the first, more than "
		               "%u",
		               child.depth, depth_max);
	if (narrow(parent, wish, now_ms, &child, err) < 0) {
		rights_done(&child);
		return -1;
	}
	*ret = child;
	return 0;
}

bool rights_reserve(struct rights *parent, uint64_t budget)
{
	if (parent->budget == RIGHTS_UNLIMITED)
		return true;
	if (budget > parent->budget)
		return false;
	parent->budget -= budget;
	return true;
}

void rights_return(struct rights *parent, uint64_t unspent)
{
	if (parent->budget != RIGHTS_UNLIMITED)
		parent->budget += MIN(unspent, RIGHTS_UNLIMITED - 1 - parent->budget);
}

uint64_t rights_token_until(uint64_t now_ms, uint64_t timeout_ms, uint64_t parent_until_ms)
{
	uint64_t life = MIN(timeout_ms, (uint64_t)(RIGHTS_LIFE_MS - RIGHTS_GRACE_MS));

	return MIN(now_ms + life + RIGHTS_GRACE_MS, parent_until_ms);
}

bool rights_within(const struct rights *inner, const struct rights *outer, char *extra, size_t size)
{
	const char *name = NULL;

	if (!scopes_within(&inner->scopes, &outer->scopes, &name)) {
		(void)snprintf(extra, size, "scope %s", name); /* cut is fine */
		return false;
	}
	if (!reach_within(&inner->network, &outer->network, extra, size))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		name = allowed_extra(list_in(inner, &lists[i]), list_in(outer, &lists[i]));
		if (!name)
			continue;
		(void)snprintf(extra, size, "%s %s", lists[i].name, name); /* cut is fine */
		return false;
	}
	if (inner->until_ms <= outer->until_ms && inner->budget <= outer->budget)
		return true;
	(void)snprintf(extra, size, inner->budget > outer->budget ? "budget" : "time"); /* fits */
	return false;
}

/* --- lines --- */

static void put(struct strings *ret, const char *name, const char *value)
{
	strings_take(ret, mem_printf("%s=%s", name, value));
}

static void put_number(struct strings *ret, const char *name, uint64_t value)
{
	if (value != RIGHTS_UNLIMITED)
		strings_take(ret, mem_printf("%s=%llu", name, (unsigned long long)value));
}

void rights_list(const struct rights *rights, struct strings *ret)
{
	auto_free char *scopes = scopes_format(&rights->scopes);
	char text[REACH_TEXT];

	put(ret, "scopes", scopes);
	for (size_t i = 0; i < rights->network.count; i++) {
		reach_format(&rights->network.rules[i], text, sizeof(text));
		put(ret, "network", text);
	}
	for (size_t i = 0; i < rights->network.denied.count; i++)
		put(ret, "denied", rights->network.denied.items[i]);
	if (rights->network.udp)
		put(ret, "udp", "1");
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct allowed *list = list_in(rights, &lists[i]);

		if (list->any)
			put(ret, "any", lists[i].name);
		for (size_t j = 0; j < list->items.count; j++)
			put(ret, lists[i].name, list->items.items[j]);
	}
	put_number(ret, "until", rights->until_ms);
	put_number(ret, "budget", rights->budget);
	strings_take(ret, mem_printf("depth=%u", rights->depth));
}

static const struct right *find_list(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (str_eq(lists[i].name, name))
			return &lists[i];
	}
	return NULL;
}

static int load_line(const char *name, const char *value, struct rights *ret, struct err *err)
{
	const struct right *right = find_list(str_eq(name, "any") ? value : name);
	uint64_t number = 0;

	if (right && str_eq(name, "any")) {
		list_of(ret, right)->any = true;
	} else if (right) {
		strings_add(&list_of(ret, right)->items, value);
	} else if (str_eq(name, "scopes")) {
		scopes_done(&ret->scopes);
		scopes_load(value, &ret->scopes);
	} else if (str_eq(name, "network")) {
		return reach_add(&ret->network, value, err);
	} else if (str_eq(name, "denied")) {
		strings_add(&ret->network.denied, value);
	} else if (str_eq(name, "udp")) {
		ret->network.udp = true;
	} else if (str_to_u64(value, &number) < 0) {
		return err_set(err, ERR_INVALID, "rights: '%.40s' is no line of ours", name);
	} else if (str_eq(name, "until")) {
		ret->until_ms = number;
	} else if (str_eq(name, "budget")) {
		ret->budget = number;
	} else if (str_eq(name, "depth")) {
		ret->depth = (unsigned)number;
	} else {
		return err_set(err, ERR_INVALID, "rights: '%.40s' is no line of ours", name);
	}
	return 0;
}

int rights_load(const struct strings *list, struct rights *ret, struct err *err)
{
	struct rights rights = {.until_ms = RIGHTS_UNLIMITED, .budget = RIGHTS_UNLIMITED};

	for (size_t i = 0; i < list->count; i++) {
		const char *equals = strchr(list->items[i], '=');
		auto_free char *name = mem_strndup(list->items[i], strcspn(list->items[i], "="));

		if (!equals || load_line(name, equals + 1, &rights, err) < 0) {
			rights_done(&rights);
			return equals ? -1
			              : err_set(err, ERR_INVALID, "rights: a line without '='");
		}
	}
	*ret = rights;
	return 0;
}
