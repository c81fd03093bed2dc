/*
 * A provider of models: where it is, which API it speaks, which models it has under which names and
 * what they cost. Its key is a reference that is read when a call is made. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/access.h"
#include "model/strings.h"

enum provider_kind {
#define PROVIDER_KIND(id, text, about) PROVIDER_##id,
#include "model/provider_kinds.def"
#undef PROVIDER_KIND
	PROVIDER_KIND_COUNT_
};

enum {
	PROVIDER_NAME = 63,
	PROVIDER_MODEL = 200, /* longest name of a model */
	PROVIDER_LIST = 256,  /* models, aliases, prices */
};

struct provider {
	struct id id; /* pv_…; "" for those of config.toml */
	char *name;
	char *origin; /* "config" (read-only) or "api" */
	enum provider_kind kind;
	char *base_url;      /* "https://host[:port][/path]", no slash at the end */
	char *secret;        /* "env:NAME", "file:PATH", "sealed"; NULL: it needs no key */
	char *default_model; /* where a request names none; NULL: then it is refused */
	struct strings
		models; /* names, or beginnings with a '*' behind; empty: whatever is asked */
	struct strings aliases; /* "name=model" */
	struct strings prices;  /* "model=input/output/cached", millionths of a dollar for 10^6 */
	enum visibility visibility;
	char *owner, *team; /* ids; NULL: the machine's own */
	uint64_t created_ms, updated_ms;
};

struct provider_change {
	const struct provider *provider; /* as it shall be, in its normal form */
	const char *value;               /* to be sealed; NULL: what is sealed stays */
	bool is_new;
};

struct provider *provider_new(const char *name);
struct provider *provider_copy(const struct provider *provider) NODISCARD;
/* Accepts NULL and half-built. */
void provider_free(struct provider *provider);
void provider_freep(struct provider **provider);

const char *provider_kind_name(enum provider_kind kind);
/* ERR_INVALID names the possible ones. */
int provider_kind_parse(const char *text, enum provider_kind *ret, struct err *err) NODISCARD;
int provider_check_name(const char *name, struct err *err) NODISCARD;
/* Brings it to its normal form, or says what is wrong with it: ERR_INVALID. */
int provider_normalise(struct provider *provider, struct err *err) NODISCARD;

struct ownership provider_ownership(const struct provider *provider);
/* Whether somebody of this owner and team may use it. */
bool provider_serves(const struct provider *provider, const char *owner, const char *team);

/* How well a provider fits a model somebody asks for. */
enum provider_fit {
	PROVIDER_NOT,
	PROVIDER_PERHAPS, /* it does not say which it has */
	PROVIDER_PATTERN,
	PROVIDER_EXACT, /* listed, or an alias */
	PROVIDER_NAMED, /* "PROVIDER/model": this one and no other */
};
/* *ret_model is what it is called there: of the provider, or within `model`. model "": its default.
 */
enum provider_fit provider_fits(const struct provider *provider, const char *model,
                                const char **ret_model);

/* Millionths of a dollar for a million tokens. */
struct provider_price {
	uint64_t input, output, cached;
};
/* false: nobody said what this model costs. */
bool provider_price(const struct provider *provider, const char *model, struct provider_price *ret);
/* In millionths of a dollar, rounded up; cached ones are part of input. */
uint64_t provider_cost(const struct provider_price *price, uint64_t input, uint64_t cached,
                       uint64_t output);
/* Sets what a model ("*": each that is not listed) costs. */
void provider_set_price(struct provider *provider, const char *model,
                        const struct provider_price *price);
