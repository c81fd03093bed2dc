/* The head of an answer from inside: a field ends no line, and less of it is never a whole head. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "net/http_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void on_field(const char *name, const char *value, void *ctx)
{
	size_t *count = ctx;

	must(name[0] && !strpbrk(name, " \t\r\n:\177"));
	must(!strpbrk(value, "\r\n\177"));
	must(value[0] != ' ' && (!value[0] || value[strlen(value) - 1] != ' '));
	(*count)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *head = mem_strndup((const char *)bytes, len);
	size_t whole = strlen(head), count = 0, parts = 0;
	int status = http_answer_read(head, on_field, &count);

	free(head);
	must(status == -1 || (status >= 100 && status <= 999));
	if (status < 0 || whole < 4)
		return 0;
	head = mem_strndup((const char *)bytes, len);
	head[strstr(head, "\r\n\r\n") - head + 3] = '\0';
	must(http_answer_read(head, on_field, &parts) == -1);
	free(head);
	return 0;
}
