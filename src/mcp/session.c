#include "mcp/session.h"

#include <stdio.h>
#include <stdlib.h>

#include <sodium.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

struct session {
	struct sessions *all;
	struct session *next;
	char id[SESSION_ID];
	char *owner;
	char *version;
	uint64_t used_ms;
	struct stream *streams;
	uint64_t last_stream;
	size_t bytes; /* of the messages of its streams */
};

struct sessions {
	struct session *first;
	size_t count;
	uint64_t last_age;
};

/* --- streams --- */

static void stream_free(struct stream *stream)
{
	for (size_t i = 0; i < stream->count; i++)
		mem_freep(&stream->messages[i]);
	mem_freep(&stream->messages);
	mem_freep(&stream->request);
	mem_freep(&stream);
}

struct stream *stream_ref(struct stream *stream)
{
	stream->refs++;
	return stream;
}

void stream_unref(struct stream *stream)
{
	must(stream->refs > 0);
	if (--stream->refs == 0)
		stream_free(stream);
}

static void forget(struct session *session, struct stream *stream)
{
	for (struct stream **at = &session->streams; *at; at = &(*at)->next) {
		if (*at == stream) {
			*at = stream->next;
			break;
		}
	}
	session->bytes -= stream->bytes;
	stream->session = NULL;
	stream_unref(stream);
}

/* Makes room: the oldest that is over. One that is under way is counted, never dropped. */
static void thin_out(struct session *session)
{
	struct stream *oldest = NULL;
	size_t count = 0;

	for (struct stream *stream = session->streams; stream; stream = stream->next) {
		count++;
		if (stream->is_over)
			oldest = stream;
	}
	if (count >= SESSION_STREAMS && oldest)
		forget(session, oldest);
}

/* Of everything an owner's sessions keep: the oldest that is over, and how many bytes it all is. */
static struct stream *oldest_kept(const struct session *of, size_t *ret_bytes)
{
	struct stream *oldest = NULL;

	*ret_bytes = 0;
	for (struct session *session = of->all->first; session; session = session->next) {
		if (!str_eq(session->owner, of->owner))
			continue;
		*ret_bytes += session->bytes;
		for (struct stream *stream = session->streams; stream; stream = stream->next) {
			if (stream->is_over && stream->bytes > 0 &&
			    (!oldest || stream->age < oldest->age))
				oldest = stream;
		}
	}
	return oldest;
}

static void bound_bytes(const struct session *session)
{
	struct stream *oldest;
	size_t bytes;

	while ((oldest = oldest_kept(session, &bytes)) && bytes > SESSION_BYTES_OF_OWNER)
		forget(oldest->session, oldest);
}

static size_t count_under_way(const struct session *session)
{
	size_t count = 0;

	for (const struct stream *stream = session->streams; stream; stream = stream->next)
		count += !stream->is_over;
	return count;
}

bool session_is_full(const struct session *session)
{
	size_t count = 0;

	if (count_under_way(session) >= SESSION_STREAMS)
		return true;
	for (const struct session *other = session->all->first; other; other = other->next) {
		if (str_eq(other->owner, session->owner))
			count += count_under_way(other);
	}
	return count >= SESSION_STREAMS_OF_OWNER;
}

struct stream *stream_new(struct session *session, const char *request)
{
	struct stream *stream = mem_new(struct stream);

	stream->refs = 1;
	stream->request = mem_strdup(request);
	if (!session)
		return stream;
	thin_out(session);
	stream->session = session;
	stream->number = ++session->last_stream;
	stream->age = ++session->all->last_age;
	stream->next = session->streams;
	session->streams = stream_ref(stream);
	return stream;
}

static void tell(struct stream *stream)
{
	if (stream->on_news)
		stream->on_news(stream, stream->reader);
}

bool stream_put(struct stream *stream, char *message)
{
	size_t len = strlen(message);

	if (stream->is_over || stream->bytes + len > SESSION_STREAM_BYTES) {
		mem_freep(&message);
		return false;
	}
	stream->messages =
		mem_resize(stream->messages, stream->count + 1, sizeof(*stream->messages));
	stream->messages[stream->count++] = message;
	stream->bytes += len;
	if (stream->session) {
		stream->session->bytes += len;
		bound_bytes(stream->session);
	}
	tell(stream);
	return true;
}

void stream_end(struct stream *stream)
{
	stream->is_over = true;
	stream->on_cancel = NULL;
	tell(stream);
}

void stream_drop(struct stream *stream)
{
	stream->is_over = true;
	stream->on_cancel = NULL;
	if (stream->session)
		forget(stream->session, stream);
}

/* --- sessions --- */

struct sessions *sessions_new(void)
{
	return mem_new(struct sessions);
}

const char *session_id(const struct session *session)
{
	return session->id;
}

const char *session_version(const struct session *session)
{
	return session->version;
}

static void cancel(struct stream *stream)
{
	if (!stream->is_over && stream->on_cancel)
		stream->on_cancel(stream, stream->maker);
	if (!stream->is_over)
		stream_end(stream); /* one on which nothing is said */
}

void sessions_close(struct sessions *sessions, struct session *session)
{
	for (struct session **at = &sessions->first; *at; at = &(*at)->next) {
		if (*at == session) {
			*at = session->next;
			sessions->count--;
			break;
		}
	}
	while (session->streams) {
		struct stream *stream = stream_ref(session->streams);

		forget(session, stream);
		cancel(stream);
		stream_unref(stream);
	}
	mem_freep(&session->owner);
	mem_freep(&session->version);
	mem_freep(&session);
}

void sessions_free(struct sessions *sessions)
{
	if (!sessions)
		return;
	while (sessions->first)
		sessions_close(sessions, sessions->first);
	mem_freep(&sessions);
}

/* The one used longest ago, of an owner or (NULL) of all; and how many there are. */
static struct session *oldest_of(struct sessions *sessions, const char *owner, size_t *ret_count)
{
	struct session *oldest = NULL;

	*ret_count = 0;
	for (struct session *session = sessions->first; session; session = session->next) {
		if (owner && !str_eq(session->owner, owner))
			continue;
		++*ret_count;
		if (!oldest || session->used_ms <= oldest->used_ms)
			oldest = session;
	}
	return oldest;
}

static void expire(struct sessions *sessions, uint64_t now_ms)
{
	for (struct session *session = sessions->first, *next; session; session = next) {
		next = session->next;
		if (now_ms - session->used_ms > SESSION_IDLE_MS)
			sessions_close(sessions, session);
	}
}

struct session *sessions_open(struct sessions *sessions, const char *owner, const char *version,
                              uint64_t now_ms)
{
	struct session *session = mem_new(struct session);
	struct session *oldest;
	uint8_t random[16];
	size_t count;

	expire(sessions, now_ms);
	oldest = oldest_of(sessions, owner, &count);
	if (count >= SESSION_OF_OWNER)
		sessions_close(sessions, oldest);
	oldest = oldest_of(sessions, NULL, &count);
	if (count >= SESSION_MOST)
		sessions_close(sessions, oldest);
	randombytes_buf(random, sizeof(random));
	sodium_bin2hex(session->id, sizeof(session->id), random, sizeof(random));
	session->all = sessions;
	session->owner = mem_strdup(owner);
	session->version = mem_strdup(version);
	session->used_ms = now_ms;
	session->next = sessions->first;
	sessions->first = session;
	sessions->count++;
	return session;
}

struct session *sessions_find(struct sessions *sessions, const char *id, const char *owner,
                              uint64_t now_ms)
{
	expire(sessions, now_ms);
	for (struct session *session = sessions->first; session; session = session->next) {
		if (!str_eq(session->id, id) || !str_eq(session->owner, owner))
			continue;
		session->used_ms = now_ms;
		return session;
	}
	return NULL;
}

void session_cancel(struct session *session, const char *request)
{
	for (struct stream *stream = session->streams; stream; stream = stream->next) {
		if (stream->is_over || !str_eq(stream->request, request))
			continue;
		stream_ref(stream);
		cancel(stream);
		stream_unref(stream);
		return;
	}
}

struct stream *session_stream(struct session *session, const char *event, size_t *ret_seen)
{
	const char *dash = strchr(event, '-');
	auto_free char *head = dash ? mem_strndup(event, (size_t)(dash - event)) : NULL;
	uint64_t number, seen;

	if (!head || str_to_u64(head, &number) < 0 || str_to_u64(dash + 1, &seen) < 0)
		return NULL;
	for (struct stream *stream = session->streams; stream; stream = stream->next) {
		if (stream->number != number)
			continue;
		*ret_seen = (size_t)MIN(seen, stream->count);
		return stream;
	}
	return NULL;
}
