#include "model/audit.h"

#include "base/mem.h"

static void visit_texts(struct audit_row *row, void (*visit)(char **field))
{
	char **fields[] = {&row->actor_name, &row->chain,  &row->source,
	                   &row->action,     &row->object, &row->rule};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		visit(fields[i]);
}

static void drop(char **field)
{
	free(*field);
	*field = NULL;
}

static void renew(char **field)
{
	/* Whoever fills a row may quote what a client sent: a row stays a row. */
	if (*field)
		*field = mem_strndup(*field, AUDIT_FIELD);
}

void audit_row_done(struct audit_row *row)
{
	visit_texts(row, drop);
	*row = (struct audit_row){0};
}

void audit_row_copy(struct audit_row *to, const struct audit_row *from)
{
	*to = *from;
	visit_texts(to, renew);
}

const char *audit_verdict_name(enum audit_verdict verdict)
{
	return verdict == AUDIT_ALLOW ? "allow" : "deny";
}
