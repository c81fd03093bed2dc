/* What each change of teams, principals and credentials is in statements. */
#include "base/mem.h"
#include "store/hex.h"
#include "store/identity.h"
#include "store/pack.h"
#include "store/write.h"

static struct value value_id(const struct id *id)
{
	return value_text(id->text[0] != '\0' ? id->text : NULL);
}

static void refuse_none(struct op *op, enum err_code code, const char *text)
{
	op->if_none = code;
	op->if_none_text = mem_strdup(text);
}

void store_put_team(struct store_write *write, const struct team *team)
{
	struct op *op = write_add(write, SQL_TEAM_PUT, value_text(team->id.text),
	                          value_text(team->name), value_text(team->default_scopes),
	                          value_text(team->trust_floor), value_int(team->created_ms));

	op->if_taken = mem_printf("a team named '%s' exists already", team->name);
}

void store_put_principal(struct store_write *write, const struct principal *principal)
{
	struct value none = {.kind = VALUE_NULL};
	struct op *op = write_add(write, SQL_PRINCIPAL_PUT, value_text(principal->id.text),
	                          value_text(principal->name),
	                          value_text(principal_kind_name(principal->kind)),
	                          principal->has_uid ? value_int(principal->uid) : none,
	                          value_int(principal->created_ms));

	op->if_taken = mem_printf("'%s' or its uid is somebody else already", principal->name);
}

void store_put_membership(struct store_write *write, const char *team, const char *principal,
                          enum role role, uint64_t now_ms)
{
	struct op *op =
		write_add(write, SQL_MEMBERSHIP_PUT, value_text(team), value_text(principal),
	                  value_text(role_name(role)), value_int(now_ms));

	op->if_foreign = mem_strdup("the team or the principal is gone");
}

void store_delete_membership(struct store_write *write, const char *team, const char *principal,
                             uint64_t now_ms)
{
	write_add(write, SQL_MEMBERSHIP_REVOKE, value_int(now_ms), value_text(team),
	          value_text(principal));
	write_add(write, SQL_WEBHOOK_DELETE_OF, value_text(team), value_text(principal));
	refuse_none(
		write_add(write, SQL_MEMBERSHIP_DELETE, value_text(team), value_text(principal)),
		ERR_NOT_FOUND, "no such member in this team");
}

void store_add_credential(struct store_write *write, const struct credential *credential)
{
	auto_free char *scopes = scopes_format(&credential->scopes);
	auto_free char *rights = pack_strings(&credential->rights);
	struct value none = {.kind = VALUE_NULL};
	char hash[2 * CREDENTIAL_HASH + 1];
	struct op *op;

	hex_write(hash, credential->hash, CREDENTIAL_HASH);
	op = write_add(write, SQL_CREDENTIAL_ADD, value_text(credential->id.text),
	               value_text(credential->name), value_text(credential->principal.text),
	               value_text(credential->team.text), value_int(credential->is_operator),
	               value_text(scopes), value_text(hash), value_int(credential->created_ms),
	               value_int(credential->expires_ms), value_int(credential->revoked_ms),
	               value_int(credential->last_used_ms), value_id(&credential->parent),
	               value_text(credential->chain), value_id(&credential->run),
	               value_text(rights),
	               credential->budget == UINT64_MAX ? none : value_int(credential->budget),
	               value_int(credential->spent));
	op->if_foreign = mem_strdup("the team, the principal or the parent is gone");
	op->if_taken = mem_strdup("this run has its token already");
}

void store_revoke_credential(struct store_write *write, const char *id, uint64_t now_ms)
{
	write_add(write, SQL_CREDENTIAL_REVOKE, value_int(now_ms), value_text(id));
}

void store_rotate_credential(struct store_write *write, const char *id,
                             const uint8_t hash[CREDENTIAL_HASH], uint64_t expires_ms)
{
	char text[2 * CREDENTIAL_HASH + 1];

	hex_write(text, hash, CREDENTIAL_HASH);
	refuse_none(write_add(write, SQL_CREDENTIAL_ROTATE, value_text(text), value_int(expires_ms),
	                      value_text(id)),
	            ERR_NOT_FOUND, "no such key");
}

void store_touch_credential(struct store_write *write, const char *id, uint64_t used_ms)
{
	write_add(write, SQL_CREDENTIAL_TOUCH, value_int(used_ms), value_text(id));
}

void store_add_token(struct store_write *write, const struct credential *token,
                     unsigned children_max, uint64_t now_ms)
{
	const char *parent = token->parent.text;

	if (parent[0] != '\0') {
		refuse_none(
			write_add(write, SQL_TOKEN_PARENT, value_text(parent), value_int(now_ms)),
			ERR_FORBIDDEN, "time: the caller's own is over");
		refuse_none(write_add(write, SQL_TOKEN_CHILDREN, value_text(parent),
		                      value_int(now_ms), value_int(children_max)),
		            ERR_FORBIDDEN, "children: the caller has as many as it may");
	}
	if (parent[0] != '\0' && token->budget != UINT64_MAX)
		refuse_none(write_add(write, SQL_TOKEN_BUDGET, value_text(parent),
		                      value_int(now_ms), value_int(token->budget)),
		            ERR_FORBIDDEN, "budget: it is more than the caller has left");
	store_add_credential(write, token);
}

void store_spend(struct store_write *write, const char *id, uint64_t amount)
{
	write_add(write, SQL_TOKEN_SPEND, value_int(amount), value_text(id));
}

void store_add_trusted(struct store_write *write, const struct trusted_key *key)
{
	struct op *op = write_add(write, SQL_TRUSTED_ADD, value_text(key->id.text),
	                          value_text(key->name), value_text(key->public_key),
	                          value_id(&key->team), value_int(key->created_ms));

	op->if_taken = mem_printf("'%s', or its key, is trusted already", key->name);
	op->if_foreign = mem_strdup("the team is gone");
}

void store_delete_trusted(struct store_write *write, const char *id)
{
	refuse_none(write_add(write, SQL_TRUSTED_DELETE, value_text(id)), ERR_NOT_FOUND,
	            "no such trusted key");
}
