/*
 * One call to a model. Its body is held as a whole, because it may have to be sent to another
 * provider: that is possible until the first byte of an answer was passed on. From there on bytes
 * go through as they come; what they say about tokens is read on the way and told before the last
 * of them is passed on, so that whoever ends with the answer finds it in the books.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "gateway/headers.h"
#include "gateway/llm_body.h"
#include "gateway/llm_impl.h"
#include "gateway/mask.h"
#include "http/request.h"
#include "model/service.h"

enum {
	PIECE = 64 * 1024,
	CANDIDATES = 8,
	GRACE = 1024 * 1024, /* of an event that is under way when the money ends */
	BODY_EXTRA = 1024,   /* what we add to a body */
	/* Bodies that are held at once, as many times the longest: of one caller, and in all. */
	HELD_OF_ACCOUNT = 4,
	HELD_OF_ALL = 8,
};

struct candidate {
	struct provider *provider;
	char *model;
	int rank; /* the highest is asked first */
};

struct llm_call {
	struct llm *llm;
	struct llm_call *next, **at;
	struct request *request;
	struct llm_who who;
	char *chain; /* of who */
	struct llm_target target;
	char *bytes;   /* of the request */
	uint64_t room; /* that its body takes, or may take */
	struct llm_body body;
	struct candidate candidates[CANDIDATES];
	size_t candidate_count, current;
	struct strings tried; /* "name: what became of it" */
	uint64_t started_ms;
	const char *denied;

	/* the attempt */
	struct upstream *upstream; /* NULL: none, or it is over */
	char *key;
	struct buf sent;
	bool is_sent;           /* all of it */
	bool is_given_up;       /* its answer is not wanted */
	struct strings headers; /* of the answer, "Name: value" */
	bool is_events, is_packed;
	struct loop_timer again, idle;

	/* the answer */
	struct buf answer;
	size_t clean; /* bytes of it that may go on */
	uint64_t received;
	int status; /* that the caller was given; 0: none yet */
	bool is_held, is_broken, is_complete;
	bool is_cut;    /* the money ended */
	size_t beyond;  /* bytes passed on since then */
	bool has_usage; /* the answer is one that is counted */
	struct llm_usage usage;
	struct llm_tokens told; /* in reports */
	uint64_t told_cost, pending;
	uint64_t held; /* kept back for it, of what is not told yet */
	bool is_told;
};

static const struct candidate *candidate_of(const struct llm_call *call)
{
	return call->current < call->candidate_count ? &call->candidates[call->current] : NULL;
}

/* --- the books --- */

static uint64_t cost_of(const struct llm_call *call, const struct llm_tokens *tokens,
                        bool *ret_is_priced)
{
	const struct candidate *candidate = candidate_of(call);
	struct provider_price price;

	*ret_is_priced = candidate && provider_price(candidate->provider, candidate->model, &price);
	return *ret_is_priced ? provider_cost(&price, tokens->input, tokens->cached, tokens->output)
	                      : 0;
}

/* Up to now. A call that was given up before its answer began is one whose question was read. */
static void read_tokens(struct llm_call *call, struct llm_tokens *ret)
{
	*ret = (struct llm_tokens){0};
	if (call->has_usage) {
		llm_usage_read(&call->usage, call->is_complete, ret);
	} else if (call->status == 0 && call->is_sent && call->target.is_counted) {
		ret->input = (call->body.len + LLM_BYTES_PER_TOKEN - 1) / LLM_BYTES_PER_TOKEN;
		ret->is_estimate = true;
	}
}

static uint64_t more(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void tell(struct llm_call *call, bool is_over)
{
	const struct llm_config *config = &call->llm->config;
	const struct candidate *candidate = candidate_of(call);
	struct llm_report report = {.who = &call->who,
	                            .provider = candidate ? candidate->provider->name : "",
	                            .model = candidate ? candidate->model : "",
	                            .api = llm_api_path(call->target.api),
	                            .status = call->status,
	                            .denied = call->denied,
	                            .is_over = is_over,
	                            .took_ms = io_boot_ms() - call->started_ms};

	read_tokens(call, &report.total);
	report.total_cost = cost_of(call, &report.total, &report.is_priced);
	report.tokens = (struct llm_tokens){.input = more(report.total.input, call->told.input),
	                                    .cached = more(report.total.cached, call->told.cached),
	                                    .output = more(report.total.output, call->told.output),
	                                    .is_estimate = report.total.is_estimate};
	report.cost = more(report.total_cost, call->told_cost);
	/* What follows final figures costs nothing. */
	report.held = is_over || call->is_told || !call->upstream ? call->held
	                                                          : MIN(call->held, report.cost);
	call->held -= report.held;
	call->told = report.total;
	call->told_cost = MAX(report.total_cost, call->told_cost);
	call->pending = 0;
	llm_rate_used(call->llm->rate, call->who.account,
	              report.tokens.input + report.tokens.output, io_boot_ms());
	config->told(&report, config->ctx);
}

/* All that calls of this payer have used and that is neither told yet nor was kept back. */
static uint64_t pending_of(const struct llm_call *call)
{
	uint64_t sum = 0;

	for (const struct llm_call *each = call->llm->calls; each; each = each->next) {
		if (str_eq(each->who.run, call->who.run) &&
		    str_eq(each->who.account, call->who.account))
			sum += more(each->pending, each->held);
	}
	return sum;
}

static bool may_go_on(struct llm_call *call, struct err *err)
{
	const struct llm_config *config = &call->llm->config;
	struct llm_tokens now;
	bool is_priced;

	read_tokens(call, &now);
	call->pending = more(cost_of(call, &now, &is_priced), call->told_cost);
	return call->pending <= call->held ||
	       config->may_spend(&call->who, pending_of(call), err, config->ctx) == 0;
}

/* Calls that are under way at once may not each count on the same money: what this one may cost, at
 * the dearest of its providers, is kept back. A stream ends when the money does, so that only its
 * beginning is; and only what the caller named must be there as a whole. */
static int hold(struct llm_call *call, struct err *err)
{
	const struct llm_config *config = &call->llm->config;
	const struct llm_body *body = &call->body;
	uint64_t usual = config->config->answer_tokens, least = 0, most = 0;
	uint64_t input = (body->len + LLM_BYTES_PER_TOKEN - 1) / LLM_BYTES_PER_TOKEN;
	uint64_t output = body->max_tokens ? body->max_tokens : usual;
	const char *action = call->target.action;
	bool is_stream = body->is_stream || (action && str_has_prefix(action, "stream"));
	struct provider_price price;

	if (is_stream)
		output = MIN(output, usual);
	output *= MAX(body->answers, (uint64_t)1);
	for (size_t i = 0; call->target.is_counted && i < call->candidate_count; i++) {
		const struct candidate *each = &call->candidates[i];

		if (!provider_price(each->provider, each->model, &price))
			continue;
		most = MAX(most, provider_cost(&price, input, 0, output));
		if (body->max_tokens && !is_stream)
			least = MAX(least, provider_cost(&price, 0, 0, output));
	}
	return config->hold(&call->who, least, most, &call->held, err, config->ctx);
}

/* --- the end --- */

static void drop_attempt(struct llm_call *call)
{
	upstream_drop(call->upstream);
	call->upstream = NULL;
	loop_timer_stop(&call->idle);
	gateway_secret_wipe(&call->key);
	buf_done(&call->sent);
	strings_done(&call->headers);
}

static void on_request_over(struct request *request, bool gone, void *ctx)
{
	struct llm_call *call = ctx;

	drop_attempt(call);
	loop_timer_stop(&call->again);
	tell(call, true);
	*call->at = call->next;
	if (call->next)
		call->next->at = call->at;
	for (size_t i = 0; i < call->candidate_count; i++) {
		provider_free(call->candidates[i].provider);
		mem_freep(&call->candidates[i].model);
	}
	strings_done(&call->tried);
	llm_target_done(&call->target);
	mem_freep(&call->chain);
	mem_freep(&call->bytes);
	buf_done(&call->answer);
	request_unref(call->request);
	mem_freep(&call);
}

static void refuse(struct llm_call *call, int status, const char *denied, const char *message)
{
	call->status = status;
	call->denied = denied;
	llm_answer_error(call->request, call->target.api, status, message);
}

/* --- attempts --- */

static void attempt(struct llm_call *call);

/* None is left. */
static void give_up(struct llm_call *call, int status)
{
	auto_free char *list = NULL;
	auto_free char *message = NULL;

	for (size_t i = 0; i < call->tried.count; i++) {
		char *longer = mem_printf("%s%s%s", list ? list : "", list ? "; " : "",
		                          call->tried.items[i]);

		mem_freep(&list);
		list = longer;
	}
	message = mem_printf("no provider answered (%s)", list ? list : "none was tried");
	refuse(call, status, "no provider answered", message);
}

static void on_again(struct loop_timer *timer, void *ctx)
{
	struct llm_call *call = ctx;

	drop_attempt(call);
	call->current++;
	attempt(call);
}

/* This one does not answer: the next one is asked, from the loop. */
static void try_next(struct llm_call *call, int status, const char *why)
{
	const struct candidate *candidate = candidate_of(call);

	strings_take(&call->tried, mem_printf("%s: %s", candidate->provider->name, why));
	call->is_given_up = true;
	call->is_sent = false;
	if (call->current + 1 < call->candidate_count)
		loop_timer_in(call->llm->config.loop, &call->again, 0, on_again, call);
	else
		give_up(call, status);
}

static const char *explain(const struct err *err, int *ret_status)
{
	*ret_status = err->code == ERR_TIMEOUT ? 504 : 502;
	if (err->code == ERR_TIMEOUT)
		return "no answer in time";
	if (err->code == ERR_FORBIDDEN)
		return "leads to an address that [llm] allow_cidrs does not open";
	return err->code == ERR_OK ? "no answer" : "cannot be reached, or gave no whole answer";
}

/* --- the answer --- */

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	struct llm_call *call = ctx;
	size_t len = MIN(call->clean, max);

	if (len > 0) {
		memcpy(to, buf_head(&call->answer), len);
		buf_consume(&call->answer, len);
		call->clean -= len;
	}
	if (call->is_held && call->upstream) {
		call->is_held = false;
		upstream_more(call->upstream);
	}
	if (len > 0 || call->upstream)
		return (ssize_t)len;
	return call->is_broken ? REQUEST_STREAM_ABORT : REQUEST_STREAM_END;
}

static void on_header(const char *name, const char *value, void *ctx)
{
	struct llm_call *call = ctx;

	if (strcasecmp(name, "Content-Type") == 0)
		call->is_events = strncasecmp(value, "text/event-stream", 17) == 0;
	if (strcasecmp(name, "Content-Encoding") == 0)
		call->is_packed = strcasecmp(value, "identity") != 0;
	/* A place to go to, and whatever repeats the key, stay here. */
	if (!headers_may_return(name) || strcasecmp(name, "Location") == 0 ||
	    !service_is_value(name) || !service_is_value(value) ||
	    (call->key && strstr(value, call->key)))
		return;
	strings_take(&call->headers, mem_printf("%s: %s", name, value));
}

static void pass_headers(struct llm_call *call)
{
	for (size_t i = 0; i < call->headers.count; i++) {
		char *colon = strstr(call->headers.items[i], ": ");

		*colon = '\0';
		request_add_header(call->request, call->headers.items[i], colon + 2);
	}
	strings_done(&call->headers);
}

/* What comes with this status is not for the caller. */
static bool is_failure(const struct llm_call *call, int status, char *why, size_t size)
{
	bool has_next = call->current + 1 < call->candidate_count;

	why[0] = '\0';
	if (status >= 300 && status < 400)
		(void)snprintf(why, size, "answered with a redirect (%d)", status);
	else if (call->is_packed)
		(void)snprintf(why, size, "answered packed, though asked not to");
	else if ((status == 429 || status >= 500) && (has_next || call->tried.count > 0))
		(void)snprintf(why, size, "answered %d", status);
	return why[0] != '\0';
}

/* Nobody else is asked any more. */
static void forget_body(struct llm_call *call)
{
	mem_freep(&call->bytes);
	call->body.bytes = NULL;
	if (!call->is_sent)
		return;
	buf_done(&call->sent);
	call->room = 0;
}

static void on_head(int status, uint64_t length, void *ctx)
{
	struct llm_call *call = ctx;
	char why[64];

	if (call->is_given_up)
		return;
	if (is_failure(call, status, why, sizeof(why))) {
		try_next(call, status >= 400 ? status : 502, why);
		return;
	}
	pass_headers(call);
	call->status = status;
	forget_body(call);
	if (status < 300 && call->target.is_counted) {
		call->has_usage = true;
		llm_usage_init(&call->usage, call->target.api, call->is_events, call->body.len);
	}
	request_answer_stream(call->request, status, NULL, call->is_events ? UINT64_MAX : length,
	                      on_pull, call);
}

/* The money ends: up to the end of an event, then the error as one of its own. */
static size_t end_of_event(const uint8_t *bytes, size_t len)
{
	for (size_t at = len; at >= 2; at--) {
		bool is_lf = bytes[at - 1] == '\n' && bytes[at - 2] == '\n';
		bool is_crlf = at >= 4 && memcmp(bytes + at - 4, "\r\n\r\n", 4) == 0;

		if (is_lf || is_crlf)
			return at;
	}
	return 0;
}

static int cut(struct llm_call *call, const uint8_t *bytes, size_t len, const struct err *err)
{
	size_t whole = call->is_events ? end_of_event(bytes, len) : 0;
	auto_free char *event = NULL;

	call->denied = "budget";
	if (call->is_events && whole == 0 && call->beyond + len < GRACE) {
		call->beyond += len;
		return buf_put(&call->answer, bytes, len);
	}
	call->is_cut = true;
	call->is_broken = whole == 0;
	event = llm_error(call->target.api, 402, err->msg, true);
	if (buf_put(&call->answer, bytes, whole) == 0 && whole > 0 &&
	    buf_puts(&call->answer, event) < 0)
		call->is_broken = true; /* as good as a cut one */
	return -1;
}

static int on_bytes(const void *bytes, size_t len, void *ctx)
{
	struct llm_call *call = ctx;
	struct err err = {0};
	int r = 0;

	if (call->is_given_up || call->is_cut)
		return -1;
	if (buf_room(&call->answer) < len + PIECE / 4) {
		call->is_held = true;
		return 0;
	}
	loop_timer_in(call->llm->config.loop, &call->idle, call->llm->config.config->idle_ms,
	              call->idle.on_timer, call);
	call->received += len;
	if (call->received > call->llm->config.config->response_bytes) {
		call->denied = "the answer is too long";
		return -1;
	}
	if (call->has_usage)
		llm_usage_feed(&call->usage, bytes, len);
	if (call->has_usage && !may_go_on(call, &err))
		r = cut(call, bytes, len, &err);
	else if (buf_put(&call->answer, bytes, len) < 0)
		r = -1;
	if (call->has_usage && !call->is_told && llm_usage_is_final(&call->usage)) {
		call->is_told = true;
		tell(call, false);
	}
	call->clean = mask_stream(&call->answer, call->clean, call->key, r < 0);
	request_more(call->request);
	return r < 0 ? -1 : 1;
}

static void on_end(const struct err *err, void *ctx)
{
	struct llm_call *call = ctx;
	int status;
	const char *why = explain(err, &status);

	call->upstream = NULL;
	loop_timer_stop(&call->idle);
	if (call->is_given_up)
		return;
	if (call->status == 0) {
		try_next(call, status, why);
		return;
	}
	call->is_complete = err->code == ERR_OK;
	if (err->code != ERR_OK && !call->is_cut)
		call->is_broken = true;
	call->clean = mask_stream(&call->answer, call->clean, call->key, true);
	tell(call, false);
	request_more(call->request);
}

static void on_idle(struct loop_timer *timer, void *ctx)
{
	static const struct err late = {.code = ERR_TIMEOUT};
	struct llm_call *call = ctx;

	if (call->is_held) { /* it is the caller who is slow */
		loop_timer_in(call->llm->config.loop, timer, call->llm->config.config->idle_ms,
		              on_idle, call);
		return;
	}
	upstream_drop(call->upstream);
	on_end(&late, call);
}

void llm_settle(struct llm *llm, const char *run)
{
	struct llm_call *next;

	for (struct llm_call *call = llm->calls; call; call = next) {
		next = call->next;
		if (!str_eq(call->who.run, run))
			continue;
		tell(call, false);
		/* Nobody pays for what would come now. */
		drop_attempt(call);
		call->is_broken = true;
		request_disconnect(call->request); /* may end it */
	}
}

/* --- the question --- */

static ssize_t on_body(void *to, size_t max, void *ctx)
{
	struct llm_call *call = ctx;
	size_t len = MIN(buf_len(&call->sent), max);

	if (len == 0) {
		call->is_sent = !call->is_given_up;
		return -1;
	}
	memcpy(to, buf_head(&call->sent), len);
	buf_consume(&call->sent, len);
	call->is_sent = buf_len(&call->sent) == 0;
	return (ssize_t)len;
}

struct building {
	const char *connection;
	struct strings *ret;
};

static bool on_own_header(const char *name, const char *value, void *ctx)
{
	struct building *building = ctx;

	if (headers_may_go(name, building->connection) && service_is_value(name) &&
	    service_is_value(value))
		strings_take(building->ret, mem_printf("%s: %s", name, value));
	return true;
}

static void build_headers(struct llm_call *call, struct strings *ret)
{
	struct building building = {request_header(call->request, "Connection"), ret};

	if (call->key)
		strings_take(ret, llm_key_header(candidate_of(call)->provider, call->key));
	strings_add(ret, "Accept-Encoding: identity");
	request_each_header(call->request, on_own_header, &building);
}

static void start(struct llm_call *call)
{
	static const struct upstream_ops ops = {
		.on_header = on_header,
		.on_head = on_head,
		.on_bytes = on_bytes,
		.on_body = on_body,
		.on_end = on_end,
	};
	const struct candidate *candidate = candidate_of(call);
	const struct config_llm *config = call->llm->config.config;
	auto_free char *url = llm_target_url(&call->target, candidate->provider, candidate->model);
	struct strings headers = {0};
	struct upstream_call to = {.method = "POST",
	                           .url = url,
	                           .headers = &headers,
	                           .has_body = true,
	                           .body_length = buf_len(&call->sent),
	                           .timeout_ms = config->timeout_ms};

	llm_fill_call(call->llm, candidate->provider, &to);
	build_headers(call, &headers);
	call->upstream = upstream_start(call->llm->config.upstreams, &to, &ops, call);
	loop_timer_in(call->llm->config.loop, &call->idle, config->idle_ms, on_idle, call);
	llm_wipe_list(&headers);
}

static void attempt(struct llm_call *call)
{
	const struct candidate *candidate = candidate_of(call);
	struct err err = {0};

	call->is_given_up = call->is_events = call->is_packed = false;
	buf_init(&call->sent, call->body.len + BODY_EXTRA);
	if (llm_read_key(call->llm, candidate->provider, &call->key, &err) < 0) {
		try_next(call, 503, err.msg);
	} else if (llm_body_write(&call->body, call->target.model ? NULL : candidate->model,
	                          &call->sent) < 0) {
		try_next(call, 400, "its name of the model does not fit into the request");
	} else {
		start(call);
	}
}

/* --- who is asked --- */

/* The operator's own come first, however well another one fits: nobody else may draw questions to
 * himself that are not for him by name. */
static int rank_of(const struct provider *provider, enum provider_fit fit)
{
	return (fit == PROVIDER_NAMED || str_eq(provider->origin, "config") ? PROVIDER_NAMED : 0) +
	       (int)fit;
}

static void enter(struct llm_call *call, const struct provider *provider, enum provider_fit fit,
                  const char *model)
{
	struct candidate made = {provider_copy(provider), mem_strdup(model),
	                         rank_of(provider, fit)};
	size_t at = call->candidate_count++;

	/* Of equals the one that was named first. */
	for (; at > 0 && call->candidates[at - 1].rank < made.rank; at--)
		call->candidates[at] = call->candidates[at - 1];
	call->candidates[at] = made;
}

static enum provider_fit fit_for(const struct llm_call *call, const struct provider *provider,
                                 const char *model, const char **ret_model)
{
	if (provider->kind != llm_api_kind(call->target.api) ||
	    !provider_serves(provider, call->who.owner, call->who.team))
		return PROVIDER_NOT;
	return provider_fits(provider, model, ret_model);
}

/* Of the operator's, as of the others, who says what he has comes before who does not: of the
 * latter none is asked then. */
static void choose(struct llm_call *call, const char *model)
{
	const struct llm_config *config = &call->llm->config;
	enum provider_fit best[2] = {PROVIDER_NOT, PROVIDER_NOT}, fit;
	const struct provider *provider;
	const char *there;

	for (size_t i = 0; (provider = config->provider_at(i, config->ctx)); i++) {
		bool is_own = str_eq(provider->origin, "config");

		best[is_own] = MAX(best[is_own], fit_for(call, provider, model, &there));
	}
	for (size_t i = 0; (provider = config->provider_at(i, config->ctx)); i++) {
		enum provider_fit top = best[str_eq(provider->origin, "config")];
		bool is_named = MAX(best[0], best[1]) == PROVIDER_NAMED;
		enum provider_fit least = is_named                 ? PROVIDER_NAMED
		                          : top > PROVIDER_PERHAPS ? PROVIDER_PATTERN
		                                                   : PROVIDER_PERHAPS;

		fit = fit_for(call, provider, model, &there);
		if (fit >= least && call->candidate_count < CANDIDATES)
			enter(call, provider, fit, there);
	}
}

static void on_question(struct request *request, const char *bytes, size_t len, void *ctx)
{
	struct llm_call *call = ctx;
	const char *model;
	struct err err = {0};
	char shown[100];

	call->bytes = request_take_body(request);
	call->room = len;
	if (llm_body_read(&call->body, call->target.api, call->bytes, len, &err) < 0) {
		refuse(call, 400, "request", err.msg);
		return;
	}
	model = call->target.model ? call->target.model : call->body.model;
	choose(call, model);
	if (call->candidate_count > 0) {
		if (hold(call, &err) < 0)
			refuse(call, 402, "budget", err.msg);
		else
			attempt(call);
		return;
	}
	str_escape(shown, sizeof(shown), model, strlen(model));
	err_set(&err, ERR_NOT_FOUND, "no %s provider has the model '%s': see /v1/models",
	        provider_kind_name(llm_api_kind(call->target.api)), shown);
	refuse(call, 404, "no such model", err.msg);
}

/* Whoever sends much at once waits for what he sent before. */
static bool has_room(const struct llm_call *call)
{
	uint64_t longest = call->llm->config.config->request_bytes, own = 0, all = 0;

	for (const struct llm_call *each = call->llm->calls; each; each = each->next) {
		all += each->room;
		own += str_eq(each->who.account, call->who.account) ? each->room : 0;
	}
	return own <= HELD_OF_ACCOUNT * longest && all <= HELD_OF_ALL * longest;
}

static void read_question(struct llm_call *call)
{
	uint64_t longest = call->llm->config.config->request_bytes;

	call->room = MIN(request_body_length(call->request), longest);
	if (has_room(call)) {
		request_read_body(call->request, longest, on_question, call);
		return;
	}
	call->room = 0;
	request_add_header(call->request, "Retry-After", "1");
	refuse(call, 429, "memory",
	       "too much is sent at once; try again when other calls are answered");
}

void llm_call_start(struct llm *llm, struct request *request, struct llm_target *target,
                    const struct llm_who *who)
{
	struct llm_call *call = mem_new(struct llm_call);
	const char *what = "";
	uint64_t wait_ms;
	char text[96];

	call->llm = llm;
	call->request = request_ref(request);
	call->who = *who;
	call->who.chain = call->chain = mem_strdup(who->chain);
	call->target = *target;
	call->started_ms = io_boot_ms();
	buf_init(&call->answer, 2 * PIECE);
	call->next = llm->calls;
	call->at = &llm->calls;
	if (call->next)
		call->next->at = &call->next;
	llm->calls = call;
	request_set_on_end(request, on_request_over, call);
	wait_ms = llm_rate_take(llm->rate, who->account, call->started_ms, &what);
	if (wait_ms == 0) {
		read_question(call);
		return;
	}
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)((wait_ms + 999) / 1000));
	request_add_header(request, "Retry-After", text);
	(void)snprintf(text, sizeof(text), "too many %s; try again in %llu s", what,
	               (unsigned long long)((wait_ms + 999) / 1000));
	refuse(call, 429, "rate limit", text);
}
