#include "model/learn.h"

#include <stdio.h>

#include "base/addr.h"
#include "base/str.h"
#include "model/domain.h"

static void add(struct strings *list, const char *text)
{
	if (!strings_has(list, text))
		strings_add(list, text);
}

/* A name that was asked for and reached on no port: its question must be allowed, nothing else. */
static bool is_reached(const struct host_uses *uses, const char *host)
{
	for (size_t i = 0; i < uses->count; i++) {
		if (str_eq(uses->items[i].host, host) && str_eq(uses->items[i].proto, "tcp") &&
		    uses->items[i].connections > 0)
			return true;
	}
	return false;
}

static void add_tcp(struct environment *environment, const struct host_use *use)
{
	char text[DOMAIN_ENTRY_TEXT];
	struct addr addr;

	if (addr_parse(use->host, &addr)) {
		snprintf(text, sizeof(text), "%s/%d:%u", use->host, addr_is_v4(&addr) ? 32 : 128,
		         use->port);
		add(&environment->cidrs, text);
		return;
	}
	snprintf(text, sizeof(text), "%s:%u", use->host, use->port);
	add(&environment->domains, text);
}

int learn_environment(const struct host_uses *uses, struct environment *ret, size_t *ret_left,
                      struct err *err)
{
	*ret_left = 0;
	ret->level = ENVIRONMENT_CUSTOM;
	ret->mode = ENVIRONMENT_ENFORCE;
	ret->domains_any = ret->include_default = false;
	strings_done(&ret->domains);
	strings_done(&ret->cidrs);
	/* Each entry has its port, so no port is open for all. */
	if (environment_set_ports(ret, NULL, 0, err) < 0)
		return -1;
	for (size_t i = 0; i < uses->count; i++) {
		const struct host_use *use = &uses->items[i];

		if (use->connections == 0)
			continue;
		if (str_eq(use->proto, "tcp"))
			add_tcp(ret, use);
		else if (!str_eq(use->proto, "dns"))
			++*ret_left;
		else if (!is_reached(uses, use->host))
			add(&ret->domains, use->host);
	}
	if (ret->domains.count == 0 && ret->cidrs.count == 0)
		return err_set(err, ERR_CONFLICT,
		               "this sandbox reached nothing: there is nothing to learn");
	if (ret->domains.count > DOMAIN_LIST || ret->cidrs.count > DOMAIN_LIST)
		return err_set(
			err, ERR_TOO_LARGE,
			"it reached %zu names and %zu addresses, more than the %d of a list: write "
			"the environment by hand, with wildcards",
			ret->domains.count, ret->cidrs.count, DOMAIN_LIST);
	return environment_normalise(ret, err);
}
