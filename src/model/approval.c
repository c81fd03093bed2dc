#include "model/approval.h"

#include "base/addr.h"
#include "base/mem.h"
#include "base/str.h"

static const char *const reach_names[] = {
#define REACH(reach, text, about) text,
#include "model/approval_reaches.def"
#undef REACH
};

struct approval *approval_new(void)
{
	struct approval *approval = mem_new(struct approval);

	approval->id = id_new("ap");
	return approval;
}

void approval_free(struct approval *approval)
{
	if (approval == NULL)
		return;
	free(approval->proto);
	free(approval->host);
	free(approval->address);
	free(approval->program);
	free(approval->title);
	free(approval);
}

const char *approval_reach_name(enum approval_reach reach)
{
	return reach_names[reach];
}

bool approval_reach_from(const char *text, enum approval_reach *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(reach_names); i++) {
		if (!str_eq(reach_names[i], text))
			continue;
		*ret = (enum approval_reach)i;
		return true;
	}
	return false;
}

char *approval_entry(const struct approval *approval, bool *ret_is_cidr)
{
	const char *address = approval->address != NULL ? approval->address : "";
	struct addr addr;

	*ret_is_cidr = approval->host == NULL && addr_parse(address, &addr);
	if (*ret_is_cidr)
		return mem_printf("%s/%d:%u", address, addr_is_v4(&addr) ? 32 : 128,
		                  approval->port);
	if (approval->port == 0)
		return mem_strdup(approval->host != NULL ? approval->host : "");
	return mem_printf("%s:%u", approval->host != NULL ? approval->host : "", approval->port);
}
