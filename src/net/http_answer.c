#include "net/http_answer.h"

#include <string.h>

enum { STATUS_AT = 9 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "HTTP/1.1 101 text" */
static int read_status(const char *line)
{
	const char *at = line + STATUS_AT;
	if (strncmp(line, "HTTP/1.", 7) != 0 || !is_digit(line[7]) || line[8] != ' ')
		return -1;
	if (!is_digit(at[0]) || !is_digit(at[1]) || !is_digit(at[2]) ||
	    (at[3] != ' ' && at[3] != '\0'))
		return -1;
	int status = (at[0] - '0') * 100 + (at[1] - '0') * 10 + at[2] - '0';
	return status >= 100 ? status : -1;
}

static bool is_name(const char *text)
{
	static const char others[] = "!#$%&'*+-.^_`|~";
	const char *at = text;
	while ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || is_digit(*at) ||
	       (*at != '\0' && strchr(others, *at)))
		at++;
	return at > text && *at == '\0';
}

static bool is_value(const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		if ((c < ' ' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* "name: value" */
static bool read_field(char *line, http_answer_on_field on_field, void *ctx)
{
	char *value = strchr(line, ':');
	if (!value)
		return false;
	*value++ = '\0';
	value += strspn(value, " \t");
	for (size_t len = strlen(value); len > 0 && strchr(" \t", value[len - 1]); len--)
		value[len - 1] = '\0';
	if (!is_name(line) || !is_value(value))
		return false;
	if (on_field)
		on_field(line, value, ctx);
	return true;
}

int http_answer_read(char *head, http_answer_on_field on_field, void *ctx)
{
	int status = 0;
	for (char *line = head, *end; (end = strstr(line, "\r\n")) != NULL; line = end + 2) {
		*end = '\0';
		if (status != 0 && *line == '\0')
			return status;
		if (status == 0 ? (status = read_status(line)) < 0
		                : !read_field(line, on_field, ctx))
			return -1;
	}
	return -1;
}
