/*
 * One line is one write(2) from a stack buffer: no allocation, no lock, lines of several
 * processes on one stderr do not mix. What does not fit is cut.
 */
#include "base/log.h"

#include <unistd.h>

#include "base/io.h"
#include "base/str.h"

enum { LINE_BYTES = 8192, VALUE_BYTES = 1024 };

static struct {
	char role[24];
	enum log_level level;
} state = {.level = LOG_LEVEL_INFO};

static const char *const level_names[] = {
	[LOG_LEVEL_DEBUG] = "debug",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_ERROR] = "error",
};

struct line {
	char text[LINE_BYTES];
	size_t len;
};

void log_setup(const char *role, enum log_level level)
{
	if (!str_copy(state.role, sizeof(state.role), role))
		memcpy(state.role, role, sizeof(state.role) - 1);
	state.level = level;
}

bool log_parse_level(const char *name, enum log_level *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
		if (str_eq(name, level_names[i])) {
			*ret = (enum log_level)i;
			return true;
		}
	}
	return false;
}

/* The last bytes stay free for what closes the line. */
static void put(struct line *line, const char *text, size_t len)
{
	if (line->len + len > sizeof(line->text) - 4)
		return;
	memcpy(line->text + line->len, text, len);
	line->len += len;
}

static void puts_line(struct line *line, const char *text)
{
	put(line, text, strlen(text));
}

/* str_escape's output as the inside of a JSON string: the only thing JSON does not know in it
 * is \xNN, which becomes a doubled backslash. */
static void put_json(struct line *line, const char *escaped)
{
	char out[2 * VALUE_BYTES];
	size_t used = 0;
	for (const char *s = escaped; *s; s++) {
		if (s[0] == '\\' && s[1] == 'x') {
			out[used++] = '\\';
			out[used++] = '\\';
		} else if (s[0] == '\\') {
			out[used++] = *s++;
			out[used++] = *s;
		} else {
			out[used++] = *s;
		}
	}
	put(line, out, used);
}

static void put_value(struct line *line, const struct log_field *field, bool json)
{
	char value[VALUE_BYTES];
	if (!field->str) {
		(void)snprintf(value, sizeof(value), "%lld", (long long)field->num);
		puts_line(line, value);
		return;
	}
	str_escape(value, sizeof(value), field->str, strlen(field->str));
	bool quote = json || value[0] == '\0' || strpbrk(value, " =\\") != NULL;
	puts_line(line, quote ? "\"" : "");
	if (json)
		put_json(line, value);
	else
		puts_line(line, value);
	puts_line(line, quote ? "\"" : "");
}

static void format_text(struct line *line, enum log_level level, const char *time,
                        const char *message)
{
	char head[96];
	(void)snprintf(head, sizeof(head), "%.12s %-5s %s%s", time + 11, level_names[level],
	               state.role, state.role[0] ? ": " : "");
	puts_line(line, head);
	puts_line(line, message);
}

static void format_json(struct line *line, enum log_level level, const char *time,
                        const char *message)
{
	char head[128];
	(void)snprintf(head, sizeof(head), "{\"time\":\"%s\",\"level\":\"%s\",\"role\":\"%s\",",
	               time, level_names[level], state.role);
	puts_line(line, head);
	puts_line(line, "\"message\":");
	put_value(line, &LOG_STR("message", message), true);
}

void log_write(enum log_level level, const char *message, const struct log_field *fields,
               size_t count)
{
	if (level < state.level)
		return;
	bool json = !isatty(STDERR_FILENO);
	char time[32];
	io_format_time(time, sizeof(time), io_real_ms());
	struct line line;
	line.len = 0;
	if (json)
		format_json(&line, level, time, message);
	else
		format_text(&line, level, time, message);
	/* a field cut in its middle would make the JSON invalid, so the worst case must fit */
	for (size_t i = 0; i < count && line.len + 2 * VALUE_BYTES + 64 < sizeof(line.text); i++) {
		puts_line(&line, json ? ",\"" : " ");
		puts_line(&line, fields[i].name);
		puts_line(&line, json ? "\":" : "=");
		put_value(&line, &fields[i], json);
	}
	memcpy(line.text + line.len, json ? "}\n" : "\n", json ? 2 : 1);
	line.len += json ? 2 : 1;
	(void)!write(STDERR_FILENO, line.text, line.len); /* nowhere to report a lost log line */
}
