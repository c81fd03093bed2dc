#include "model/identity.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/spec.h"

static const char *const kind_names[] = {
#define PRINCIPAL(id, text, about) text,
#include "model/principals.def"
#undef PRINCIPAL
};

const char *principal_kind_name(enum principal_kind kind)
{
	return kind_names[kind];
}

bool principal_kind_from(const char *text, enum principal_kind *ret)
{
	for (int i = 0; i < PRINCIPAL_COUNT_; i++) {
		if (!str_eq(kind_names[i], text))
			continue;
		*ret = (enum principal_kind)i;
		return true;
	}
	return false;
}

void team_done(struct team *team)
{
	free(team->name);
	free(team->default_scopes);
	free(team->trust_floor);
	*team = (struct team){0};
}

void principal_done(struct principal *principal)
{
	free(principal->name);
	*principal = (struct principal){0};
}

void membership_done(struct membership *membership)
{
	principal_done(&membership->principal);
	free(membership->team_name);
	*membership = (struct membership){0};
}

void credential_free(struct credential *credential)
{
	if (!credential)
		return;
	free(credential->name);
	free(credential->principal_name);
	free(credential->team_name);
	free(credential->chain);
	scopes_done(&credential->scopes);
	strings_done(&credential->rights);
	mem_wipe_free(credential, sizeof(*credential));
}

void credential_freep(struct credential **credential)
{
	credential_free(*credential);
	*credential = NULL;
}

bool credential_is_live(const struct credential *credential, uint64_t now_ms)
{
	return credential->revoked_ms == 0 &&
	       (credential->expires_ms == 0 || credential->expires_ms > now_ms);
}

int identity_check_name(const char *what, const char *name, struct err *err)
{
	if (spec_check_name(name, err) < 0)
		return err_wrap(err, "%s", what);
	if (id_is_valid(name, "tm") || id_is_valid(name, "pr") || id_is_valid(name, "ky"))
		return err_set(err, ERR_INVALID, "%s: '%s' has the form of an id", what, name);
	return 0;
}

int identity_check_label(const char *name, struct err *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > 100 || !str_is_utf8(name, len))
		return err_set(err, ERR_INVALID, "a key's name has 1 to 100 bytes of UTF-8");
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return err_set(err, ERR_INVALID, "a key's name has no control characters");
	}
	if (str_has_prefix(name, "task:"))
		return err_set(err, ERR_INVALID, "names with 'task:' are those of runs");
	return 0;
}
