/* The credential of a run: below its caller's, no wider, and gone with the run. */
#include "base/io.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/rights.h"
#include "store/identity.h"
#include "task/job.h"

static void fill(struct job *job, struct credential *token)
{
	const struct run *run = job->run;
	struct rights rights = {0};
	struct err err = {0};

	if (rights_load(&run->rights, &rights, &err) == 0)
		scopes_copy(&token->scopes, &rights.scopes);
	strings_copy(&token->rights, &run->rights);
	token->expires_ms =
		rights_token_until(io_real_ms(), run->timeout_ms,
	                           rights.until_ms ? rights.until_ms : RIGHTS_UNLIMITED);
	rights_done(&rights);
	token->budget = run->budget;
}

char *token_join(const struct strings *chain)
{
	char *text = NULL;

	for (size_t i = 0; i < chain->count; i++) {
		char *longer = text ? mem_printf("%s %s", text, chain->items[i])
		                    : mem_strdup(chain->items[i]);

		free(text);
		text = longer;
	}
	return text;
}

char *token_chain(const struct job *job)
{
	struct strings chain = {0};
	char *text;

	strings_copy(&chain, &job->chain);
	strings_add(&chain, job->run->token.text);
	text = token_join(&chain);
	strings_done(&chain);
	return text;
}

void token_mint(struct job *job, struct store_write *write)
{
	const struct config *config = job->tasks->config.config;
	struct credential *token = mem_new(struct credential);
	char text[SECRET_TEXT];

	/* Nobody ever sees the secret: the run is known by the sandbox its requests come from. */
	secret_make(&token->id, text, token->hash);
	explicit_bzero(text, sizeof(text));
	token->name = mem_printf("task:%s", job->task->id.text);
	token->principal = job->task->owner;
	token->team = job->task->team;
	token->created_ms = io_real_ms();
	token->parent = job->run->parent;
	token->run = job->run->id;
	fill(job, token);
	token->chain = token_join(&job->chain);
	job->run->token = token->id;
	store_add_token(write, token, (unsigned)config->delegation_children, io_real_ms());
	credential_free(token);
}
