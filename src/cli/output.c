#include "cli/output.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "cli/term.h"

enum { FACT_WIDTH = 16 };

static void dump(const json_t *json, size_t flags)
{
	auto_free char *text =
		json_dumps(json, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(OUTPUT_DIGITS));

	(void)puts(text == NULL ? "null" : text); /* a broken stdout is seen at exit */
}

void output_json_line(const json_t *json)
{
	dump(json, JSON_COMPACT);
	(void)fflush(stdout);
}

bool output_json(const struct cli *cli, const json_t *json)
{
	size_t index;
	json_t *item;

	if (cli->output == CLI_HUMAN)
		return false;
	if (cli->output == CLI_JSON) {
		dump(json, JSON_INDENT(2));
	} else if (json_is_array(json)) {
		json_array_foreach (json, index, item) {
			dump(item, JSON_COMPACT);
		}
	} else {
		dump(json, JSON_COMPACT);
	}
	return true;
}

void output_table_init(struct output_table *table, const char *const *titles)
{
	*table = (struct output_table){.titles = titles};
}

static char *escaped(const char *text)
{
	size_t size = strlen(text) * 4 + 8;
	char *out = mem_zalloc(size);

	str_escape(out, size, text, strlen(text));
	return out;
}

void output_cell(struct output_table *table, const char *text)
{
	if (table->count == table->size) {
		table->size = table->size == 0 ? 64 : table->size * 2;
		table->cells = mem_resize(table->cells, table->size, sizeof(table->cells[0]));
	}
	table->cells[table->count++] = escaped(text == NULL || *text == '\0' ? "-" : text);
}

void output_cell_bytes(struct output_table *table, uint64_t bytes)
{
	char text[32];

	str_format_bytes(text, sizeof(text), bytes);
	output_cell(table, text);
}

void output_format_ago(char *out, size_t size, uint64_t real_ms)
{
	uint64_t now = io_real_ms();
	char text[32];

	*out = '\0';
	if (real_ms == 0)
		return;
	/* Whole units only: nobody needs "2m 3s 17ms ago". */
	uint64_t age = now > real_ms ? now - real_ms : 0;

	if (age < 1000) {
		(void)snprintf(out, size, "now"); /* cut is fine */
		return;
	}
	uint64_t unit = age >= 86400000 ? 3600000 : age >= 3600000 ? 60000 : 1000;

	str_format_ms(text, sizeof(text), age / unit * unit);
	(void)snprintf(out, size, "%s ago", text); /* cut is fine */
}

void output_cell_ago(struct output_table *table, uint64_t real_ms)
{
	char text[48];

	output_format_ago(text, sizeof(text), real_ms);
	output_cell(table, text);
}

/* Columns on a terminal: code points are near enough. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text != '\0'; text++)
		width += ((uint8_t)*text & 0xc0) != 0x80;
	return width;
}

static void print_row(const char *const *cells, const size_t *widths, size_t columns)
{
	for (size_t i = 0; i < columns; i++) {
		size_t pad = i + 1 < columns ? widths[i] - width_of(cells[i]) + 2 : 0;

		(void)printf("%s%*s", cells[i], (int)pad, "");
	}
}

void output_table_print(struct output_table *table)
{
	size_t columns = 0;
	size_t widths[OUTPUT_COLUMNS_MAX] = {0};

	while (table->titles[columns] != NULL) {
		must(columns < OUTPUT_COLUMNS_MAX);
		widths[columns] = strlen(table->titles[columns]);
		columns++;
	}
	must(columns > 0 && table->count % columns == 0);
	for (size_t i = 0; i < table->count; i++)
		widths[i % columns] = MAX(widths[i % columns], width_of(table->cells[i]));
	(void)fputs(term_style(TERM_BOLD), stdout);
	print_row(table->titles, widths, columns);
	(void)printf("%s\n", term_style(TERM_PLAIN));
	for (size_t i = 0; i < table->count; i += columns) {
		print_row((const char *const *)&table->cells[i], widths, columns);
		(void)putchar('\n');
	}
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct output_table){.titles = table->titles};
}

void output_fact(const char *name, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list args;

	va_start(args, fmt);
	int len = vasprintf(&text, fmt, args);

	va_end(args);
	must(len >= 0);
	if (len == 0)
		return;
	auto_free char *shown = escaped(text);

	(void)printf("%s:%*s%s\n", name, (int)MAX(FACT_WIDTH - (int)strlen(name), 1), "", shown);
}

void output_line(const char *text)
{
	auto_free char *shown = escaped(text);

	(void)puts(shown);
}

/* Length of what may pass as it is at the start of text: a newline, a tab, or a colour, which is
 * ESC [ and numbers and m. */
static size_t harmless(const char *text, size_t len)
{
	size_t at = 2;

	if (*text == '\n' || *text == '\t')
		return 1;
	if (len < 3 || text[0] != '\033' || text[1] != '[')
		return 0;
	while (at < len && ((text[at] >= '0' && text[at] <= '9') || text[at] == ';'))
		at++;
	return at < len && text[at] == 'm' ? at + 1 : 0;
}

char *output_disarm(const char *text, size_t len)
{
	size_t size = len * 4 + 1, used = 0;
	char *out = mem_zalloc(size);

	while (len > 0) {
		size_t n = harmless(text, len);

		memcpy(out + used, text, n);
		used += n;
		text += n;
		len -= n;
		for (n = 0; n < len && harmless(text + n, len - n) == 0;)
			n++;
		str_disarm(out + used, size - used, text, n);
		used += strlen(out + used);
		text += n;
		len -= n;
	}
	return out;
}

void output_text(FILE *to, const json_t *text)
{
	const char *bytes = json_string_value(text);
	size_t len = json_string_length(text);

	if (len > 0 && isatty(fileno(to))) {
		auto_free char *safe = output_disarm(bytes, len);

		(void)fputs(safe, to);
	} else if (len > 0) {
		(void)!fwrite(bytes, 1, len, to);
	}
	(void)fflush(to); /* a broken stdout is seen at exit */
}

void output_hosts(const json_t *hosts)
{
	static const char *const titles[] = {"HOST",   "PORT", "PROTO",    "CONNECTIONS",
	                                     "DENIED", "SENT", "RECEIVED", NULL};
	static const char *const counts[] = {"connections", "denied"};
	struct output_table table;
	size_t index;
	json_t *use;

	output_table_init(&table, titles);
	json_array_foreach (hosts, index, use) {
		auto_free char *port = mem_printf(
			"%lld", (long long)json_integer_value(json_object_get(use, "port")));

		output_cell(&table, json_string_value(json_object_get(use, "host")));
		output_cell(&table, port);
		output_cell(&table, json_string_value(json_object_get(use, "proto")));
		for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
			auto_free char *count = mem_printf(
				"%lld",
				(long long)json_integer_value(json_object_get(use, counts[i])));

			output_cell(&table, count);
		}
		output_cell_bytes(&table,
		                  (uint64_t)json_integer_value(json_object_get(use, "sent")));
		output_cell_bytes(&table,
		                  (uint64_t)json_integer_value(json_object_get(use, "received")));
	}
	output_table_print(&table);
}

uint64_t output_parse_time(const char *text)
{
	struct tm tm = {0};
	unsigned ms = 0;
	int end = 0;

	/* sscanf on six fixed fields: the daemon writes one form only, anything else is 0. */
	if (strlen(text) != 24 ||
	    sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3uZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
	           &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms, &end) != 7 ||
	    end != 24)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	time_t seconds = timegm(&tm);

	return seconds < 0 ? 0 : (uint64_t)seconds * 1000 + ms;
}
