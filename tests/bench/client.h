/*
 * What the timing programs time: a program from its start to its end, and requests to the API on a
 * connection that is already open. Written by hand on plain sockets, so that a sample holds our
 * daemon's time and not a client library's. One thread a connection.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIENT_BYTES = 256 * 1024 };

struct client {
	int fd; /* -1: not open */
	size_t used;
	size_t len;
	char bytes[CLIENT_BYTES];
};

uint64_t clock_us(void);
void sleep_ms(unsigned ms);

/* Starts argv with all three streams on /dev/null and waits: its wait status, or -errno. */
int spawn_wait(char *const *argv);

/* 0, or -errno. */
int client_open(struct client *client, const char *socket_path);
void client_close(struct client *client);

/*
 * One request with its answer on the open connection. Returns the status; the body, ended by a NUL,
 * is at *ret_body until the next call. -errno when the connection broke.
 */
int client_request(struct client *client, const char *method, const char *path, const char *body,
                   const char **ret_body);

/* Opens a conversation of GET /run that waits for its RunRequest. */
int client_open_run(struct client *client, const char *socket_path);
/* Sends the RunRequest and waits for the end, which is said after the removal. The exit code. */
int client_run(struct client *client, const char *request);

/* The number behind "name": in a flat JSON text; -1 when there is none. */
long json_number(const char *text, const char *name);
/* The text behind "name": up to its quote; false when there is none or it does not fit. */
bool json_text(const char *text, const char *name, char *to, size_t size);
