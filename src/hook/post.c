#include "hook/post.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "net/never.h"

enum { TOTAL_MS = 15 * 1000, CONNECT_MS = 5 * 1000 };

/* One socket of libcurl's, in our loop. */
struct watched {
	struct watched *next;
	struct post *post;
	struct loop_source source;
	int fd;
};

struct attempt {
	struct attempt *next;
	struct post *post;
	CURL *easy;
	struct curl_slist *headers;
	char *body;
	char refusal[64]; /* why no socket was made */
	post_on_done on_done;
	void *ctx;
	struct loop_timer late; /* one that could not even begin */
};

struct post {
	struct loop *loop;
	CURLM *multi;
	struct addr_cidr *granted;
	size_t granted_count;
	struct watched *watched;
	struct attempt *attempts;
	struct loop_timer timer;
};

/* --- the end of attempts --- */

static void attempt_free(struct attempt *attempt)
{
	struct post *post = attempt->post;

	for (struct attempt **at = &post->attempts; *at; at = &(*at)->next) {
		if (*at == attempt) {
			*at = attempt->next;
			break;
		}
	}
	loop_timer_stop(&attempt->late);
	if (attempt->easy) {
		(void)curl_multi_remove_handle(post->multi, attempt->easy); /* it may be in none */
		curl_easy_cleanup(attempt->easy);
	}
	curl_slist_free_all(attempt->headers);
	mem_freep(&attempt->body);
	mem_freep(&attempt);
}

static void finish(struct attempt *attempt, CURLcode code)
{
	struct post_result result = {0};
	post_on_done on_done = attempt->on_done;
	void *ctx = attempt->ctx;
	char text[128] = "";
	long status = 0;

	if (attempt->easy)
		(void)curl_easy_getinfo(attempt->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_OK)
		result.status = (int)status;
	else
		(void)snprintf(text, sizeof(text), "%s",
		               attempt->refusal[0] ? attempt->refusal : curl_easy_strerror(code));
	result.text = text;
	attempt_free(attempt);
	on_done(&result, ctx);
}

static void collect(struct post *post)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(post->multi, &left))) {
		struct attempt *attempt = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&attempt);
		finish(attempt, message->data.result);
	}
}

/* --- libcurl in our loop --- */

static void on_io(struct loop_source *source, uint32_t events, void *ctx)
{
	struct watched *watched = ctx;
	struct post *post = watched->post;
	int mask = (events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
	           (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
	           (events & EPOLLERR ? CURL_CSELECT_ERR : 0);
	int running;

	(void)curl_multi_socket_action(post->multi, watched->fd, mask, &running);
	collect(post);
}

static void unwatch(struct post *post, int fd)
{
	for (struct watched **at = &post->watched; *at; at = &(*at)->next) {
		struct watched *watched = *at;

		if (watched->fd != fd)
			continue;
		*at = watched->next;
		loop_remove(&watched->source);
		mem_freep(&watched);
		return;
	}
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *assigned)
{
	struct post *post = ctx;
	struct watched *watched = assigned;
	uint32_t events =
		(what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);

	if (what == CURL_POLL_REMOVE) {
		unwatch(post, fd);
		return 0;
	}
	if (watched)
		return loop_change(&watched->source, events) < 0 ? -1 : 0;
	watched = mem_new(struct watched);
	watched->post = post;
	watched->fd = fd;
	watched->next = post->watched;
	post->watched = watched;
	(void)curl_multi_assign(post->multi, fd, watched);
	return loop_add(post->loop, &watched->source, fd, events, on_io, watched) < 0 ? -1 : 0;
}

static void on_time(struct loop_timer *timer, void *ctx)
{
	struct post *post = ctx;
	int running;

	(void)curl_multi_socket_action(post->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(post);
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
	struct post *post = ctx;

	if (timeout_ms < 0)
		loop_timer_stop(&post->timer);
	else
		loop_timer_in(post->loop, &post->timer, (uint64_t)timeout_ms, on_time, post);
	return 0;
}

/* --- sockets: the address that is dialled is the one that was looked at --- */

static bool read_address(const struct curl_sockaddr *from, struct addr *ret)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (from->family == AF_INET) {
		memcpy(&v4, &from->addr, sizeof(v4));
		*ret = addr_from_v4((const uint8_t *)&v4.sin_addr);
		return true;
	}
	if (from->family != AF_INET6 || from->addrlen < sizeof(v6))
		return false;
	memcpy(&v6, &from->addr, sizeof(v6));
	memcpy(ret->bytes, &v6.sin6_addr, sizeof(ret->bytes));
	return true;
}

static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct attempt *attempt = ctx;
	const char *reason = "no internet address";
	struct addr addr;

	if (read_address(address, &addr))
		reason = never_reason(&addr, attempt->post->granted, attempt->post->granted_count);
	if (reason) {
		(void)snprintf(attempt->refusal, sizeof(attempt->refusal),
		               "its address is not allowed: %s", reason);
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int on_close(void *ctx, curl_socket_t fd)
{
	unwatch(ctx, fd);
	return close(fd);
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
	return size * count; /* an answer's status is all we want of it */
}

/* --- sending --- */

static void set_options(struct attempt *attempt, const char *url)
{
	CURL *easy = attempt->easy;

	/* None of these can fail but for lack of memory, and then the transfer does. */
	(void)curl_easy_setopt(easy, CURLOPT_URL, url);
	(void)curl_easy_setopt(easy, CURLOPT_PRIVATE, attempt);
	(void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)strlen(attempt->body));
	(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, attempt->body);
	(void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, attempt->headers);
	(void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "cloche/" CLOCHE_VERSION);
	(void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)TOTAL_MS);
	(void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	(void)curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
	(void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, attempt);
	(void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
	(void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, attempt->post);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	finish(ctx, CURLE_FAILED_INIT);
}

void post_send(struct post *post, const struct post_request *request, post_on_done on_done,
               void *ctx)
{
	struct attempt *attempt = mem_new(struct attempt);

	attempt->post = post;
	attempt->on_done = on_done;
	attempt->ctx = ctx;
	attempt->body = mem_strdup(request->body);
	attempt->next = post->attempts;
	post->attempts = attempt;
	for (size_t i = 0; request->headers[i]; i++)
		attempt->headers = curl_slist_append(attempt->headers, request->headers[i]);
	attempt->easy = curl_easy_init();
	if (attempt->easy)
		set_options(attempt, request->url);
	if (!attempt->easy || curl_multi_add_handle(post->multi, attempt->easy) != CURLM_OK)
		loop_timer_in(post->loop, &attempt->late, 0, on_late, attempt);
}

/* --- start and end --- */

int post_new(struct loop *loop, const struct addr_cidr *granted, size_t count, struct post **ret,
             struct err *err)
{
	struct post *post;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, ERR_INTERNAL, "libcurl does not start");
	post = mem_new(struct post);
	post->loop = loop;
	post->granted = mem_resize(NULL, count + 1, sizeof(*granted));
	memcpy(post->granted, granted, count * sizeof(*granted));
	post->granted_count = count;
	post->multi = curl_multi_init();
	must(post->multi);
	(void)curl_multi_setopt(post->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(post->multi, CURLMOPT_SOCKETDATA, post);
	(void)curl_multi_setopt(post->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	(void)curl_multi_setopt(post->multi, CURLMOPT_TIMERDATA, post);
	*ret = post;
	return 0;
}

void post_free(struct post *post)
{
	if (!post)
		return;
	while (post->attempts)
		attempt_free(post->attempts);
	(void)curl_multi_cleanup(post->multi); /* nothing is left in it */
	while (post->watched)
		unwatch(post, post->watched->fd);
	loop_timer_stop(&post->timer);
	mem_freep(&post->granted);
	mem_freep(&post);
	curl_global_cleanup();
}
