#include "model/access.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static const char *const visibility_names[] = {
#define VISIBILITY(id, text, about) text,
#include "model/visibilities.def"
#undef VISIBILITY
};

const char *visibility_name(enum visibility visibility)
{
	return visibility_names[visibility];
}

bool visibility_from(const char *text, enum visibility *ret)
{
	for (int i = 0; i < VISIBILITY_COUNT_; i++) {
		if (!str_eq(visibility_names[i], text))
			continue;
		*ret = (enum visibility)i;
		return true;
	}
	return false;
}

int visibility_parse(const char *text, enum visibility *ret, struct err *err)
{
	char shown[64];

	if (visibility_from(text, ret))
		return 0;
	str_escape(shown, sizeof(shown), text, strlen(text));
	return err_set(err, ERR_INVALID, "visibility is private, team or global, not '%s'", shown);
}

struct caller *caller_new(void)
{
	struct caller *caller = mem_new(struct caller);

	caller->refs = 1;
	return caller;
}

struct caller *caller_ref(struct caller *caller)
{
	caller->refs++;
	return caller;
}

void caller_unref(struct caller *caller)
{
	if (!caller)
		return;
	must(caller->refs > 0);
	if (--caller->refs > 0)
		return;
	scopes_done(&caller->scopes);
	mem_freep(&caller->chain);
	mem_freep(&caller);
}

void caller_unrefp(struct caller **caller)
{
	caller_unref(*caller);
	*caller = NULL;
}

char *caller_chain(const struct caller *caller)
{
	if (!caller->credential.text[0])
		return NULL;
	return caller->chain ? mem_printf("%s %s", caller->chain, caller->credential.text)
	                     : mem_strdup(caller->credential.text);
}

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += len) {
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
			return true;
	}
	return false;
}

bool access_is_below(const struct caller *caller, const struct ownership *ownership)
{
	return ownership->made_by && caller->credential.text[0] &&
	       has_word(ownership->made_by, caller->credential.text);
}

/* In its own team somebody has what the role gives; elsewhere only what is shared with everybody,
 * also when it is their own object: a credential is of one team. */
enum access access_to(const struct caller *caller, const struct ownership *ownership)
{
	/* A run works with what was made by it or below it, whoever else could see more. */
	if (caller->run.text[0] && ownership->made_by && !access_is_below(caller, ownership))
		return ACCESS_HIDDEN;
	if (caller->is_operator)
		return ACCESS_CHANGE;
	if (!str_eq(caller->team.text, ownership->team))
		return ownership->visibility == VISIBILITY_GLOBAL ? ACCESS_LOOK : ACCESS_HIDDEN;
	if (str_eq(caller->principal.text, ownership->owner) || caller->role == ROLE_ADMIN)
		return ACCESS_CHANGE;
	if (ownership->visibility == VISIBILITY_PRIVATE)
		return ACCESS_HIDDEN;
	return caller->role >= ROLE_MEMBER ? ACCESS_CHANGE : ACCESS_LOOK;
}
