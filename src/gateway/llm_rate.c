#include "gateway/llm_rate.h"

#include "base/mem.h"
#include "base/str.h"

enum { ACCOUNTS = 1024, NAME = 72, MINUTE_MS = 60 * 1000 };

struct account {
	char name[NAME];
	uint64_t at_ms; /* the buckets were filled up to here */
	double requests, tokens;
};

struct llm_rate {
	double most_requests, most_tokens;
	struct account accounts[ACCOUNTS];
	size_t count;
};

struct llm_rate *llm_rate_new(uint64_t requests_per_minute, uint64_t tokens_per_minute)
{
	struct llm_rate *rate = mem_new(struct llm_rate);

	rate->most_requests = (double)requests_per_minute;
	rate->most_tokens = (double)tokens_per_minute;
	return rate;
}

void llm_rate_free(struct llm_rate *rate)
{
	mem_freep(&rate);
}

static void fill(const struct llm_rate *rate, struct account *account, uint64_t now_ms)
{
	double share = (double)(now_ms - account->at_ms) / MINUTE_MS;

	account->requests =
		MIN(account->requests + share * rate->most_requests, rate->most_requests);
	account->tokens = MIN(account->tokens + share * rate->most_tokens, rate->most_tokens);
	account->at_ms = now_ms;
}

/* When all are taken, the one that was quiet longest is forgotten: its buckets are full again if
 * anybody's are. */
static struct account *enter(struct llm_rate *rate, const char *name, uint64_t now_ms)
{
	struct account *oldest = NULL;

	for (size_t i = 0; i < rate->count; i++) {
		struct account *account = &rate->accounts[i];

		if (str_eq(account->name, name)) {
			fill(rate, account, now_ms);
			return account;
		}
		if (!oldest || account->at_ms < oldest->at_ms)
			oldest = account;
	}
	if (rate->count < ACCOUNTS)
		oldest = &rate->accounts[rate->count++];
	*oldest = (struct account){
		.at_ms = now_ms, .requests = rate->most_requests, .tokens = rate->most_tokens};
	(void)snprintf(oldest->name, sizeof(oldest->name), "%s", name); /* ids fit */
	return oldest;
}

static uint64_t wait_for(double missing, double per_minute)
{
	return (uint64_t)(missing / per_minute * MINUTE_MS) + 1;
}

uint64_t llm_rate_take(struct llm_rate *rate, const char *name, uint64_t now_ms,
                       const char **ret_what)
{
	struct account *account;

	if (rate->most_requests == 0 && rate->most_tokens == 0)
		return 0;
	account = enter(rate, name, now_ms);
	if (rate->most_tokens > 0 && account->tokens < 1) {
		*ret_what = "tokens";
		return wait_for(1 - account->tokens, rate->most_tokens);
	}
	if (rate->most_requests > 0 && account->requests < 1) {
		*ret_what = "requests";
		return wait_for(1 - account->requests, rate->most_requests);
	}
	if (rate->most_requests > 0)
		account->requests -= 1;
	return 0;
}

void llm_rate_used(struct llm_rate *rate, const char *name, uint64_t tokens, uint64_t now_ms)
{
	if (rate->most_tokens > 0)
		enter(rate, name, now_ms)->tokens -= (double)tokens;
}
