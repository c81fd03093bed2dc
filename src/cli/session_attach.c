/* `cloche session attach`: a line is a turn, and what the agent says comes as it says it. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"

struct talk {
	struct cli *cli;
	const char *id;
	char turn[40]; /* that is followed */
	char last[64]; /* id of the last event seen */
	bool is_done;
};

static void print_update(const json_t *update)
{
	const char *kind = client_str(update, "sessionUpdate");
	const json_t *text = json_object_get(json_object_get(update, "content"), "text");
	const char *title = client_str(update, "title");
	char shown[200];

	if (str_eq(kind, "agent_message_chunk")) {
		output_text(stdout, text);
	} else if (str_eq(kind, "tool_call")) {
		str_escape(shown, sizeof(shown), title, strlen(title));
		(void)printf("\n[%s]\n", shown);
	}
	(void)fflush(stdout);
}

static void take_event(struct talk *talk, const struct sse_event *event)
{
	auto_json json_t *object = json_loadb(event->data, event->len, 0, NULL);
	const json_t *data = json_object_get(object, "data");
	const char *status = client_str(data, "status");

	if (event->id[strcspn(event->id, "\r\n")] == '\0')
		(void)!str_copy(talk->last, sizeof(talk->last), event->id);
	if (talk->cli->output != CLI_HUMAN && object)
		output_json_line(object);
	else if (str_eq(event->event, "agent.update"))
		print_update(json_object_get(data, "update"));
	if (str_has_prefix(event->event, "task.") && !str_eq(event->event, "task.step") &&
	    !str_eq(event->event, "task.started") && !str_eq(event->event, "task.created"))
		talk->is_done = true;
	if (str_eq(event->event, "session.turn") && str_eq(client_str(data, "turn"), talk->turn) &&
	    !str_eq(status, "queued") && !str_eq(status, "running"))
		talk->is_done = true;
}

static int follow_turn(struct talk *talk)
{
	auto_(sse_done) struct sse sse;
	auto_free char *target = client_target("/sessions/%s/events", talk->id);
	auto_free char *headers = mem_printf("Last-Event-ID: %s\r\n", talk->last);
	const struct http_request request = {.method = "GET",
	                                     .target = target,
	                                     .accept = "text/event-stream",
	                                     .headers = headers};
	struct sse_event event;
	int r;

	sse_init(&sse);
	r = client_send(talk->cli, &request);
	while (r >= 0 && !talk->is_done && (r = client_next_event(talk->cli, &sse, &event)) > 0)
		take_event(talk, &event);
	http_close(&talk->cli->http); /* the stream goes on, we do not */
	return r;
}

/* How the turn ended, when that is not simply well. */
static int show_end(struct talk *talk)
{
	auto_free char *target = client_target("/sessions/%s/turns/%s", talk->id, talk->turn);
	auto_json json_t *answer = NULL;

	if (client_get(talk->cli, target, &answer) < 0)
		return -1;
	const json_t *turn = json_object_get(answer, "turn");

	if (talk->cli->output == CLI_HUMAN)
		(void)putchar('\n');
	if (!str_eq(client_str(turn, "status"), "completed"))
		(void)session_show_turn(turn);
	(void)fflush(stdout);
	return 0;
}

static int follow_to_end(struct talk *talk)
{
	const struct timespec pause = {.tv_nsec = 200 * 1000000L};
	int misses = 0;

	talk->is_done = false;
	while (!talk->is_done && misses < 50) {
		talk->cli->err = (struct err){0};
		if (follow_turn(talk) < 0 && talk->cli->err.code != ERR_UNAVAILABLE &&
		    talk->cli->err.code != ERR_PROTOCOL)
			return -1;
		misses = talk->cli->err.code == ERR_UNAVAILABLE ? misses + 1 : 0;
		if (!talk->is_done)
			(void)nanosleep(&pause, NULL); /* an early end is harmless */
	}
	return talk->is_done ? show_end(talk) : -1;
}

static int last_event(struct talk *talk)
{
	auto_free char *target = client_target("/sessions/%s/events?last=1", talk->id);
	auto_json json_t *page = NULL;

	if (client_get(talk->cli, target, &page) < 0)
		return -1;
	(void)snprintf(talk->last, sizeof(talk->last), "%llu",
	               (unsigned long long)client_u64(
			       json_array_get(json_object_get(page, "items"), 0), "taskSeq"));
	return 0;
}

static int ask_line(struct talk *talk, const char *line)
{
	auto_free char *target = client_target("/sessions/%s/turns", talk->id);
	auto_json json_t *body = json_pack("{s:s}", "prompt", line);
	auto_json json_t *answer = NULL;

	if (!body)
		return err_set(&talk->cli->err, ERR_INVALID, "the line is not UTF-8");
	if (last_event(talk) < 0 ||
	    session_post(talk->cli, target, body, "Prefer: respond-async\r\n", &answer) < 0)
		return -1;
	(void)!str_copy(talk->turn, sizeof(talk->turn),
	                client_str(json_object_get(answer, "turn"), "id"));
	return follow_to_end(talk);
}

static int talk_on(struct talk *talk)
{
	bool shows = isatty(STDIN_FILENO) && talk->cli->output == CLI_HUMAN;
	auto_free char *line = NULL;
	size_t size = 0;
	ssize_t len;

	for (;;) {
		if (shows)
			(void)fprintf(stderr, "> ");
		len = getline(&line, &size, stdin);
		if (len <= 0)
			return 0;
		line[len - (line[len - 1] == '\n')] = '\0';
		if (line[strspn(line, " \t")] && ask_line(talk, line) < 0)
			return -1;
	}
}

int cmd_session_attach(struct cli *cli)
{
	static const struct opt opts[] = {{0}};
	auto_json json_t *session = NULL;
	int r = cli_parse(cli, opts, 1, 1);
	struct talk talk = {.cli = cli};

	if (r <= 0)
		return r;
	talk.id = cli->argv[0];
	if (session_get(cli, talk.id, &session) < 0)
		return -1;
	if (session_is_over(session))
		return err_set(&cli->err, ERR_CONFLICT, "the session is over (%s)",
		               client_str(session, "endReason"));
	/* What is under way is seen to its end first. */
	if (*client_str(session, "turn")) {
		(void)!str_copy(talk.turn, sizeof(talk.turn), client_str(session, "turn"));
		if (last_event(&talk) < 0 || follow_to_end(&talk) < 0)
			return -1;
	}
	return talk_on(&talk);
}
