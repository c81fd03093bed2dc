#include "model/scope.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/opt.h"
#include "base/str.h"

/* Bits of a row: reading is the lower one. MINTED rows are never asked for. */
enum verbs { NONE = 0, R = 1, W = 2, RW = 3, MINTED = 4, MINTED_W = 6, PAID = 8, R_PAID = 9 };

struct object {
	const char *name;
	enum verbs verbs, viewer, member, run;
	const char *about;
	const char *names[2]; /* of its scopes */
};

static const struct object objects_table[] = {
#define SCOPE(id, object, verbs, viewer, member, run, about)                                       \
	{object, verbs, viewer, member, run, about, {object ":read", object ":write"}},
#include "model/scopes.def"
#undef SCOPE
};

static const char *const role_names[] = {
#define ROLE(id, text, about) text,
#include "model/roles.def"
#undef ROLE
};

const char *role_name(enum role role)
{
	return role_names[role];
}

bool role_from(const char *text, enum role *ret)
{
	for (int role = 0; role < ROLE_COUNT_; role++) {
		if (!str_eq(role_names[role], text))
			continue;
		*ret = (enum role)role;
		return true;
	}
	return false;
}

const char *scope_name(enum scope scope)
{
	must(scope >= 0 && scope < SCOPE_COUNT_);
	return objects_table[scope / 2].names[scope % 2];
}

static bool is_minted(const struct object *object)
{
	return (object->verbs & MINTED) != 0;
}

static uint64_t bits_at(size_t index, enum verbs verbs)
{
	return (uint64_t)(verbs & RW) << (2 * index);
}

static const uint64_t run_bits = 1ULL << SCOPE_TASK_WRITE | 1ULL << SCOPE_LLM_GATEWAY_READ;

/* --- sets --- */

void scopes_done(struct scopes *scopes)
{
	strings_done(&scopes->custom);
	scopes->bits = 0;
}

void scopes_copy(struct scopes *to, const struct scopes *from)
{
	to->bits = from->bits;
	strings_copy(&to->custom, &from->custom);
}

static void custom_add(struct scopes *scopes, const char *text)
{
	struct strings *list = &scopes->custom;
	size_t at = list->count;

	if (strings_has(list, text))
		return;
	strings_add(list, text);
	for (; at > 0 && strcmp(list->items[at - 1], list->items[at]) > 0; at--) {
		char *swap = list->items[at];

		list->items[at] = list->items[at - 1];
		list->items[at - 1] = swap;
	}
}

/* The set has the scope if it was given the verb; writing brings reading along. */
static void custom_grant(struct scopes *scopes, const char *object, size_t len, enum verbs verbs)
{
	auto_free char *read = mem_printf("%.*s:read", (int)len, object);
	auto_free char *write = mem_printf("%.*s:write", (int)len, object);

	if (verbs != NONE)
		custom_add(scopes, read);
	if (verbs & W)
		custom_add(scopes, write);
}

bool scopes_is_empty(const struct scopes *scopes)
{
	return scopes->bits == 0 && scopes->custom.count == 0;
}

bool scopes_has_text(const struct scopes *scopes, const char *text)
{
	for (int scope = 0; scope < SCOPE_COUNT_; scope++) {
		if (str_eq(scope_name((enum scope)scope), text))
			return scopes_has(scopes, (enum scope)scope);
	}
	return strings_has(&scopes->custom, text);
}

void scopes_intersect(struct scopes *to, const struct scopes *with)
{
	struct strings kept = {0};

	to->bits &= with->bits;
	for (size_t i = 0; i < to->custom.count; i++) {
		if (strings_has(&with->custom, to->custom.items[i]))
			strings_add(&kept, to->custom.items[i]);
	}
	strings_done(&to->custom);
	to->custom = kept;
}

void scopes_add(struct scopes *to, const struct scopes *more)
{
	to->bits |= more->bits;
	for (size_t i = 0; i < more->custom.count; i++)
		custom_add(to, more->custom.items[i]);
}

bool scopes_within(const struct scopes *inner, const struct scopes *outer, const char **ret_extra)
{
	uint64_t extra = inner->bits & ~outer->bits;

	if (extra != 0) {
		if (ret_extra)
			*ret_extra = scope_name((enum scope)__builtin_ctzll(extra));
		return false;
	}
	for (size_t i = 0; i < inner->custom.count; i++) {
		if (strings_has(&outer->custom, inner->custom.items[i]))
			continue;
		if (ret_extra)
			*ret_extra = inner->custom.items[i];
		return false;
	}
	return true;
}

/* --- what people write --- */

static const struct object *find_object(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(objects_table); i++) {
		if (strlen(objects_table[i].name) == len &&
		    strncmp(objects_table[i].name, name, len) == 0)
			return &objects_table[i];
	}
	return NULL;
}

int scope_check_object(const char *object, struct err *err)
{
	size_t len = strspn(object, "abcdefghijklmnopqrstuvwxyz0123456789_");
	char shown[64];

	str_escape(shown, sizeof(shown), object, strlen(object));
	if (len == 0 || object[len] != '\0' || len > 40 || object[0] < 'a' || object[0] > 'z')
		return err_set(err, ERR_INVALID,
		               "'%s' is no name for an object of scopes: at most 40 of a-z 0-9 _, "
		               "the first a letter",
		               shown);
	if (find_object(object, len))
		return err_set(err, ERR_INVALID, "'%s' is a built-in object of scopes", shown);
	return 0;
}

static bool is_defined(const struct strings *objects, const char *name, size_t len)
{
	for (size_t i = 0; objects && i < objects->count; i++) {
		if (strcspn(objects->items[i], "=") == len &&
		    strncmp(objects->items[i], name, len) == 0)
			return true;
	}
	return false;
}

/* Every scope that could have been meant; the strings are the caller's. */
static void list_known(const struct strings *objects, struct strings *ret)
{
	strings_add(ret, "read_only");
	strings_add(ret, "full");
	for (size_t i = 0; i < ARRAY_LEN(objects_table); i++) {
		const struct object *object = &objects_table[i];

		if (is_minted(object))
			continue;
		strings_add(ret, object->names[0]);
		if (object->verbs & W)
			strings_add(ret, object->names[1]);
	}
	for (size_t i = 0; objects && i < objects->count; i++) {
		int len = (int)strcspn(objects->items[i], "=");

		strings_take(ret, mem_printf("%.*s:read", len, objects->items[i]));
		strings_take(ret, mem_printf("%.*s:write", len, objects->items[i]));
	}
}

static int refuse(const char *text, const struct strings *objects, struct err *err)
{
	struct strings known = {0};
	const char *near;
	char shown[80];

	list_known(objects, &known);
	near = opt_nearest(text, (const char *const *)known.items);
	str_escape(shown, sizeof(shown), text, strlen(text));
	err_set(err, ERR_INVALID, "unknown scope '%s'%s%s%s", shown, near ? " (did you mean '" : "",
	        near ? near : "", near ? "'?)" : "");
	strings_done(&known);
	return -1;
}

static enum verbs verbs_from(const char *text)
{
	if (str_eq(text, "read"))
		return R;
	if (str_eq(text, "write"))
		return W;
	return str_eq(text, "*") ? RW : NONE;
}

static int add_text(const char *text, const struct strings *objects, struct scopes *ret,
                    struct err *err)
{
	size_t len = strcspn(text, ":");
	enum verbs verbs = text[len] == ':' ? verbs_from(text + len + 1) : NONE;
	const struct object *object = find_object(text, len);

	if (str_eq(text, "read_only") || str_eq(text, "full")) {
		struct scopes preset = {0};

		scopes_preset(str_eq(text, "read_only"), objects, &preset);
		scopes_add(ret, &preset);
		scopes_done(&preset);
		return 0;
	}
	if (object && is_minted(object))
		return err_set(err, ERR_INVALID, "scope '%s' is only given to runs, by themselves",
		               object->name);
	if (object && verbs == W && !(object->verbs & W))
		return err_set(err, ERR_INVALID, "'%s' can only be read: ask for '%s'",
		               object->name, object->names[0]);
	if (verbs == NONE || (!object && !is_defined(objects, text, len)))
		return refuse(text, objects, err);
	if (object)
		ret->bits |= bits_at((size_t)(object - objects_table),
		                     object->verbs & (verbs == W ? RW : verbs));
	else
		custom_grant(ret, text, len, verbs);
	return 0;
}

int scopes_parse(const struct strings *list, const struct strings *objects, struct scopes *ret,
                 struct err *err)
{
	struct scopes scopes = {0};

	if (list->count == 0)
		return err_set(err, ERR_INVALID,
		               "an empty list of scopes allows nothing: leave it out for all of "
		               "yours, or write 'read_only'");
	for (size_t i = 0; i < list->count; i++) {
		if (add_text(list->items[i], objects, &scopes, err) < 0) {
			scopes_done(&scopes);
			return -1;
		}
	}
	if (scopes.custom.count > SCOPES_CUSTOM) {
		scopes_done(&scopes);
		return err_set(err, ERR_INVALID, "more than %d scopes of defined objects",
		               SCOPES_CUSTOM);
	}
	*ret = scopes;
	return 0;
}

/* The rows' verbs of one column, masked by what the row has. */
static void fill(struct scopes *ret, enum verbs (*pick)(const struct object *object))
{
	for (size_t i = 0; i < ARRAY_LEN(objects_table); i++) {
		const struct object *object = &objects_table[i];

		if (!is_minted(object))
			ret->bits |= bits_at(i, object->verbs & pick(object));
	}
}

static void fill_custom(struct scopes *ret, const struct strings *objects, enum verbs verbs)
{
	for (size_t i = 0; objects && i < objects->count; i++)
		custom_grant(ret, objects->items[i], strcspn(objects->items[i], "="), verbs);
}

static enum verbs pick_read(const struct object *object)
{
	return object->verbs & PAID ? NONE : R;
}

static enum verbs pick_all(const struct object *object)
{
	return RW;
}

static enum verbs pick_viewer(const struct object *object)
{
	return object->viewer;
}

static enum verbs pick_member(const struct object *object)
{
	return object->member;
}

static enum verbs pick_run(const struct object *object)
{
	return object->run;
}

void scopes_preset(bool read_only, const struct strings *objects, struct scopes *ret)
{
	*ret = (struct scopes){0};
	fill(ret, read_only ? pick_read : pick_all);
	fill_custom(ret, objects, read_only ? R : RW);
}

void scopes_of_role(enum role role, const struct strings *objects, struct scopes *ret)
{
	static enum verbs (*const picks[])(const struct object *) = {pick_viewer, pick_member,
	                                                             pick_all};

	*ret = (struct scopes){0};
	fill(ret, picks[role]);
	fill_custom(ret, objects, role == ROLE_VIEWER ? R : RW);
}

void scopes_make_run(struct scopes *scopes)
{
	struct scopes most = {0};

	fill(&most, pick_run);
	scopes->bits = (scopes->bits & most.bits) | run_bits;
}

/* --- texts --- */

void scopes_list(const struct scopes *scopes, struct strings *ret)
{
	for (int scope = 0; scope < SCOPE_COUNT_; scope++) {
		if (scopes_has(scopes, (enum scope)scope))
			strings_add(ret, scope_name((enum scope)scope));
	}
	for (size_t i = 0; i < scopes->custom.count; i++)
		strings_add(ret, scopes->custom.items[i]);
}

char *scopes_format(const struct scopes *scopes)
{
	auto_(buf_done) struct buf out;
	struct strings list = {0};

	buf_init(&out, SCOPES_TEXT);
	scopes_list(scopes, &list);
	for (size_t i = 0; i < list.count; i++)
		must(buf_printf(&out, "%s%s", i > 0 ? " " : "", list.items[i]) == 0);
	strings_done(&list);
	return buf_take_string(&out);
}

void scopes_load(const char *text, struct scopes *ret)
{
	*ret = (struct scopes){0};
	while (*text != '\0') {
		size_t len = strcspn(text, " ");
		auto_free char *word = mem_strndup(text, len);
		bool known = false;

		for (int scope = 0; scope < SCOPE_COUNT_ && !known; scope++) {
			known = str_eq(scope_name((enum scope)scope), word);
			if (known)
				ret->bits |= 1ULL << scope;
		}
		if (!known && len > 0)
			custom_add(ret, word);
		text += len;
		text += strspn(text, " ");
	}
}

const char *scope_object_at(size_t index, const char **ret_about, bool *ret_writable)
{
	if (index >= ARRAY_LEN(objects_table) || is_minted(&objects_table[index]))
		return NULL;
	*ret_about = objects_table[index].about;
	*ret_writable = (objects_table[index].verbs & W) != 0;
	return objects_table[index].name;
}
