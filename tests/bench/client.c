#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { ANSWER_SECONDS = 20 };
enum { WS_TEXT = 0x1, WS_BINARY = 0x2, WS_FIN = 0x80, WS_MASK = 0x80, CHANNEL_EXIT = 5 };

uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void sleep_ms(unsigned ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

int spawn_wait(char *const *argv)
{
	posix_spawn_file_actions_t quiet;
	pid_t pid;
	int status;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
	int r = posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ);

	posix_spawn_file_actions_destroy(&quiet);
	if (r != 0)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

int client_open(struct client *client, const char *socket_path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = ANSWER_SECONDS};

	client->used = client->len = 0;
	client->fd = -1;
	if (strlen(socket_path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, socket_path);
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		return -errno;
	(void)setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(client->fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return 0;
	int failed = errno;

	client_close(client);
	return -failed;
}

void client_close(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
}

static int send_all(struct client *client, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = send(client->fd, bytes, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		bytes += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Takes what came, behind what is there; keeps a NUL at the end. */
static int receive(struct client *client)
{
	if (client->used > 0) {
		memmove(client->bytes, client->bytes + client->used, client->len - client->used);
		client->len -= client->used;
		client->used = 0;
	}
	if (client->len >= CLIENT_BYTES - 1)
		return -EMSGSIZE;
	ssize_t n =
		recv(client->fd, client->bytes + client->len, CLIENT_BYTES - 1 - client->len, 0);

	if (n <= 0)
		return n == 0 ? -ECONNRESET : -errno;
	client->len += (size_t)n;
	client->bytes[client->len] = '\0';
	return 0;
}

/* The answer's head; the rest of what came stays. Returns the status. */
static int receive_head(struct client *client, long *ret_body_len)
{
	char *end;

	client->bytes[client->len] = '\0';
	while (!(end = strstr(client->bytes + client->used, "\r\n\r\n"))) {
		int r = receive(client);

		if (r < 0)
			return r;
	}
	char *head = client->bytes + client->used;

	*end = '\0';
	if (strncmp(head, "HTTP/1.1 ", 9) != 0)
		return -EPROTO;
	const char *length = strcasestr(head, "\ncontent-length:");

	*ret_body_len = length ? strtol(length + 16, NULL, 10) : 0;
	int status = (int)strtol(head + 9, NULL, 10);

	client->used = (size_t)(end + 4 - client->bytes);
	return status;
}

int client_request(struct client *client, const char *method, const char *path, const char *body,
                   const char **ret_body)
{
	static __thread char request[8192];
	long body_len;
	int len = snprintf(request, sizeof(request),
	                   "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	                   "Content-Length: %zu\r\n\r\n%s",
	                   method, path, strlen(body), body);

	if (len >= (int)sizeof(request))
		return -EMSGSIZE;
	client->used = client->len = 0;
	int r = send_all(client, request, (size_t)len);
	int status = r < 0 ? r : receive_head(client, &body_len);

	if (status < 0)
		return status;
	while ((long)(client->len - client->used) < body_len) {
		r = receive(client);
		if (r < 0)
			return r;
	}
	if (ret_body)
		*ret_body = client->bytes + client->used;
	return status;
}

int client_open_run(struct client *client, const char *socket_path)
{
	static const char request[] = "GET /api/v1/run HTTP/1.1\r\nHost: localhost\r\n"
				      "Connection: Upgrade\r\nUpgrade: websocket\r\n"
				      "Sec-WebSocket-Version: 13\r\n"
				      "Sec-WebSocket-Key: Y2xvY2hlIGJlbmNobWFyaw==\r\n"
				      "Sec-WebSocket-Protocol: cloche.v1\r\n\r\n";
	long body_len;
	int r = client_open(client, socket_path);

	if (r < 0)
		return r;
	r = send_all(client, request, sizeof(request) - 1);
	if (r == 0)
		r = receive_head(client, &body_len);
	if (r == 101)
		return 0;
	client_close(client);
	return r < 0 ? r : -EPROTO;
}

/* The next frame: its first byte, and its bytes until the next call. */
static int receive_frame(struct client *client, const char **ret, size_t *ret_len)
{
	for (;;) {
		const uint8_t *at = (uint8_t *)client->bytes + client->used;
		size_t have = client->len - client->used;
		size_t head = have < 2 ? 2 : at[1] == 126 ? 4 : at[1] == 127 ? 10 : 2;
		size_t len = 0;

		if (have >= head) {
			len = head == 2 ? at[1] : 0;
			for (size_t i = 2; i < head; i++)
				len = len << 8 | at[i];
			if (have - head >= len) {
				*ret = (const char *)at + head;
				*ret_len = len;
				client->used += head + len;
				return at[0];
			}
		}
		int r = receive(client);

		if (r < 0)
			return r;
	}
}

/* Client frames are masked; a mask of zeros is one. */
static int send_text(struct client *client, const char *text)
{
	char frame[4096] = {(char)(WS_FIN | WS_TEXT)};
	size_t len = strlen(text);
	size_t head = len < 126 ? 2 : 4;

	if (head + 4 + len > sizeof(frame))
		return -EMSGSIZE;
	frame[1] = (char)(WS_MASK | (head == 2 ? len : 126));
	if (head == 4) {
		frame[2] = (char)(len >> 8);
		frame[3] = (char)len;
	}
	memcpy(frame + head + 4, text, len);
	return send_all(client, frame, head + 4 + len);
}

int client_run(struct client *client, const char *request)
{
	const char *bytes;
	size_t len;
	int r = send_text(client, request);

	while (r >= 0) {
		char text[512];

		r = receive_frame(client, &bytes, &len);
		if (r < 0)
			break;
		(void)snprintf(text, sizeof(text), "%.*s", (int)len, bytes + (len > 0 ? 1 : 0));
		if (r == (WS_FIN | WS_BINARY) && len > 0 && bytes[0] == CHANNEL_EXIT)
			return (int)json_number(text, "exitCode");
		if (r == (WS_FIN | WS_TEXT) && strstr(text, "\"error\""))
			return -EPROTO;
	}
	return r;
}

static const char *json_find(const char *text, const char *name)
{
	char key[64];

	(void)snprintf(key, sizeof(key), "\"%s\":", name);
	const char *at = strstr(text, key);

	if (!at)
		return NULL;
	at += strlen(key);
	return at + strspn(at, " ");
}

long json_number(const char *text, const char *name)
{
	const char *at = json_find(text, name);
	char *end;

	if (!at)
		return -1;
	long value = strtol(at, &end, 10);

	return end == at ? -1 : value;
}

bool json_text(const char *text, const char *name, char *to, size_t size)
{
	const char *at = json_find(text, name);

	if (!at || *at != '"')
		return false;
	size_t len = strcspn(++at, "\"");

	if (len >= size)
		return false;
	memcpy(to, at, len);
	to[len] = '\0';
	return true;
}
