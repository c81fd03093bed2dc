#include "gateway/upstream.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "net/never.h"

enum { CONNECT_MS = 15 * 1000, HEADER_MOST = 64 * 1024, HEADER_COUNT = 128 };

struct upstreams {
	struct loop *loop;
	CURLM *multi;
	struct loop_timer timer;
	char *ca_file;
};

/* A descriptor of the library's that the loop watches for it. */
struct watch {
	struct upstreams *upstreams;
	struct loop_source source;
};

struct upstream {
	struct upstreams *upstreams;
	CURL *easy;
	struct curl_slist *headers;
	const struct upstream_ops *ops;
	void *ctx;
	bool is_anywhere;
	const struct addr_cidr *granted;
	size_t granted_count;
	int fd;            /* owned until the library has it; -1: none */
	bool is_given;     /* it was */
	bool is_forbidden; /* an address was not dialled */
	bool has_head;     /* of the final answer */
	size_t header_count, header_bytes;
	struct loop_timer more;
	struct err failure; /* before it was given to the library */
	struct loop_timer failed;
};

/* --- the library's loop in ours --- */

static void finish(struct upstream *upstream, CURLcode code);

static void reap(struct upstreams *upstreams)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(upstreams->multi, &left))) {
		struct upstream *upstream = NULL;
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&upstream);
		if (upstream)
			finish(upstream, code);
	}
}

static void act(struct upstreams *upstreams, curl_socket_t fd, int what)
{
	int running;

	(void)curl_multi_socket_action(upstreams->multi, fd, what, &running);
	reap(upstreams);
}

static void on_due(struct loop_timer *timer, void *ctx)
{
	act(ctx, CURL_SOCKET_TIMEOUT, 0);
}

static void on_socket(struct loop_source *source, uint32_t events, void *ctx)
{
	struct watch *watch = ctx;
	int what = 0;

	if (events & EPOLLIN)
		what |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		what |= CURL_CSELECT_OUT;
	if (events & (EPOLLERR | EPOLLHUP))
		what |= CURL_CSELECT_ERR;
	act(watch->upstreams, source->fd, what); /* may free the watch */
}

static int on_watch(CURL *easy, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
	struct upstreams *upstreams = ctx;
	struct watch *watch = of_socket;
	uint32_t events =
		(what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);

	if (what == CURL_POLL_REMOVE) {
		if (watch)
			loop_remove(&watch->source);
		mem_freep(&watch);
		(void)curl_multi_assign(upstreams->multi, fd, NULL);
		return 0;
	}
	if (watch)
		return loop_change(&watch->source, events) < 0 ? -1 : 0;
	watch = mem_new(struct watch);
	watch->upstreams = upstreams;
	if (loop_add(upstreams->loop, &watch->source, fd, events, on_socket, watch) < 0) {
		mem_freep(&watch);
		return -1;
	}
	(void)curl_multi_assign(upstreams->multi, fd, watch);
	return 0;
}

static int on_timeout(CURLM *multi, long wait_ms, void *ctx)
{
	struct upstreams *upstreams = ctx;

	if (wait_ms < 0)
		loop_timer_stop(&upstreams->timer);
	else
		loop_timer_in(upstreams->loop, &upstreams->timer, (uint64_t)wait_ms, on_due,
		              upstreams);
	return 0;
}

struct upstreams *upstreams_new(struct loop *loop, const char *ca_file)
{
	struct upstreams *upstreams = mem_new(struct upstreams);

	must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
	upstreams->loop = loop;
	upstreams->ca_file = ca_file ? mem_strdup(ca_file) : NULL;
	upstreams->multi = curl_multi_init();
	must(upstreams->multi);
	(void)curl_multi_setopt(upstreams->multi, CURLMOPT_SOCKETFUNCTION, on_watch);
	(void)curl_multi_setopt(upstreams->multi, CURLMOPT_SOCKETDATA, upstreams);
	(void)curl_multi_setopt(upstreams->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
	(void)curl_multi_setopt(upstreams->multi, CURLMOPT_TIMERDATA, upstreams);
	(void)curl_multi_setopt(upstreams->multi, CURLMOPT_MAXCONNECTS, 32L);
	return upstreams;
}

void upstreams_free(struct upstreams *upstreams)
{
	if (!upstreams)
		return;
	(void)curl_multi_cleanup(upstreams->multi);
	loop_timer_stop(&upstreams->timer);
	curl_global_cleanup();
	mem_freep(&upstreams->ca_file);
	mem_freep(&upstreams);
}

/* --- where it may go --- */

static bool read_addr(const struct sockaddr *from, struct addr *ret)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;

	if (from->sa_family == AF_INET)
		*ret = addr_from_v4((const uint8_t *)&v4->sin_addr);
	else if (from->sa_family == AF_INET6)
		memcpy(ret->bytes, &v6->sin6_addr, sizeof(ret->bytes));
	else
		return false;
	return true;
}

static bool may_reach(struct upstream *upstream, const struct addr *addr)
{
	if (upstream->is_anywhere ||
	    !never_reason(addr, upstream->granted, upstream->granted_count))
		return true;
	upstream->is_forbidden = true;
	return false;
}

static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct upstream *upstream = ctx;
	struct addr addr;

	if (upstream->is_given)
		return upstream->fd >= 0 ? take_fd(&upstream->fd) : CURL_SOCKET_BAD;
	if (!read_addr(&to->addr, &addr) || !may_reach(upstream, &addr))
		return CURL_SOCKET_BAD;
	return socket(to->family, to->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->protocol);
}

static int on_opened(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
	const struct upstream *upstream = ctx;

	return upstream->is_given ? CURL_SOCKOPT_ALREADY_CONNECTED : CURL_SOCKOPT_OK;
}

/* A connection that was kept may be somebody's who may go where this one may not. */
static int on_connected(void *ctx, char *to, char *from, int to_port, int from_port)
{
	struct upstream *upstream = ctx;
	struct addr addr;

	if (upstream->is_given)
		return CURL_PREREQFUNC_OK;
	return addr_parse(to, &addr) && may_reach(upstream, &addr) ? CURL_PREREQFUNC_OK
	                                                           : CURL_PREREQFUNC_ABORT;
}

/* --- bytes --- */

/* The library calls it for each line, of interim answers, too. */
static size_t on_line(char *line, size_t size, size_t count, void *ctx)
{
	struct upstream *upstream = ctx;
	size_t len = size * count;
	char *colon = memchr(line, ':', len);
	long status = 0;
	curl_off_t length = -1;

	if (len > 5 && strncmp(line, "HTTP/", 5) == 0) {
		upstream->header_count = upstream->header_bytes = 0;
		return len;
	}
	(void)curl_easy_getinfo(upstream->easy, CURLINFO_RESPONSE_CODE, &status);
	if (upstream->has_head || status < 200)
		return len; /* trailers; what comes before the answer */
	upstream->header_bytes += len;
	if (++upstream->header_count > HEADER_COUNT || upstream->header_bytes > HEADER_MOST)
		return 0;
	if (len <= 2 && (line[0] == '\r' || line[0] == '\n')) {
		upstream->has_head = true;
		(void)curl_easy_getinfo(upstream->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T,
		                        &length);
		upstream->ops->on_head((int)status, length < 0 ? UINT64_MAX : (uint64_t)length,
		                       upstream->ctx);
		return len;
	}
	if (colon && colon > line) {
		auto_free char *name = mem_strndup(line, (size_t)(colon - line));
		const char *end = line + len;
		auto_free char *value = NULL;

		for (colon++; colon < end && (*colon == ' ' || *colon == '\t');)
			colon++;
		while (end > colon && isspace((unsigned char)end[-1]))
			end--;
		value = mem_strndup(colon, (size_t)(end - colon));
		upstream->ops->on_header(name, value, upstream->ctx);
	}
	return len;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
	struct upstream *upstream = ctx;
	int r = upstream->ops->on_bytes(bytes, size * count, upstream->ctx);

	if (r == 0)
		return CURL_WRITEFUNC_PAUSE;
	return r < 0 ? 0 : size * count;
}

static size_t on_body(char *to, size_t size, size_t count, void *ctx)
{
	struct upstream *upstream = ctx;
	ssize_t n = upstream->ops->on_body(to, size * count, upstream->ctx);

	if (n == 0)
		return CURL_READFUNC_PAUSE;
	return n < 0 ? 0 : (size_t)n;
}

static void on_more(struct loop_timer *timer, void *ctx)
{
	struct upstream *upstream = ctx;
	struct upstreams *upstreams = upstream->upstreams;

	(void)curl_easy_pause(upstream->easy, CURLPAUSE_CONT);
	/* It goes on in the library's own round, which nothing else may bring about. */
	act(upstreams, CURL_SOCKET_TIMEOUT, 0);
}

void upstream_more(struct upstream *upstream)
{
	/* Not at once: whoever asks is perhaps called by the library himself. */
	loop_timer_in(upstream->upstreams->loop, &upstream->more, 0, on_more, upstream);
}

/* --- life --- */

static void release(struct upstream *upstream)
{
	loop_timer_stop(&upstream->more);
	loop_timer_stop(&upstream->failed);
	if (upstream->easy) {
		(void)curl_multi_remove_handle(upstream->upstreams->multi, upstream->easy);
		curl_easy_cleanup(upstream->easy);
	}
	fd_closep(&upstream->fd);
	/* They hold the secret. */
	for (struct curl_slist *at = upstream->headers; at; at = at->next)
		explicit_bzero(at->data, strlen(at->data));
	curl_slist_free_all(upstream->headers);
	mem_freep(&upstream);
}

void upstream_drop(struct upstream *upstream)
{
	if (upstream)
		release(upstream);
}

/* The library's own texts name addresses and names: they stay here. */
static void explain(const struct upstream *upstream, CURLcode code, struct err *err)
{
	if (code == CURLE_OK)
		return;
	if (upstream->is_forbidden)
		err_set(err, ERR_FORBIDDEN,
		        "the service leads to an address that [services] allow_cidrs does not "
		        "open");
	else if (code == CURLE_OPERATION_TIMEDOUT)
		err_set(err, ERR_TIMEOUT, "the service did not answer in time");
	else if (code == CURLE_COULDNT_RESOLVE_HOST)
		err_set(err, ERR_PROTOCOL, "the name of the service's upstream is not known");
	else if (code == CURLE_COULDNT_CONNECT)
		err_set(err, ERR_PROTOCOL, "the service's upstream cannot be reached");
	else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ||
	         code == CURLE_SSL_CACERT_BADFILE)
		err_set(err, ERR_PROTOCOL, "the service's upstream is not who it should be (TLS)");
	else
		err_set(err, ERR_PROTOCOL, "the service's upstream gave no whole answer");
}

static void finish(struct upstream *upstream, CURLcode code)
{
	const struct upstream_ops *ops = upstream->ops;
	void *ctx = upstream->ctx;
	struct err err = upstream->failure;

	if (err.code == ERR_OK)
		explain(upstream, code, &err);
	release(upstream);
	ops->on_end(&err, ctx);
}

static void on_failed(struct loop_timer *timer, void *ctx)
{
	finish(ctx, CURLE_OK);
}

static int add_headers(struct upstream *upstream, const struct upstream_call *call)
{
	/* The library's own ideas. */
	static const char *const none[] = {"Expect:", "Accept:", "User-Agent:", "Content-Type:"};
	struct curl_slist *more;

	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		size_t len = strlen(none[i]);
		bool is_there = false;

		for (size_t k = 0; k < call->headers->count; k++)
			is_there =
				is_there || strncasecmp(call->headers->items[k], none[i], len) == 0;
		more = is_there ? upstream->headers : curl_slist_append(upstream->headers, none[i]);
		if (!more && !is_there)
			return -ENOMEM;
		upstream->headers = more;
	}
	for (size_t i = 0; i < call->headers->count; i++) {
		const char *text = call->headers->items[i];
		const char *colon = strchr(text, ':');
		/* "Name:" alone would mean: not that one. */
		bool is_empty = colon && colon[1 + strspn(colon + 1, " \t")] == '\0';
		auto_free char *empty =
			is_empty ? mem_printf("%.*s;", (int)(colon - text), text) : NULL;

		more = curl_slist_append(upstream->headers, empty ? empty : text);
		if (!more)
			return -ENOMEM;
		upstream->headers = more;
	}
	return 0;
}

static void set_method(CURL *easy, const struct upstream_call *call)
{
	if (call->has_body) {
		(void)curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		(void)curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
		                       call->body_length == UINT64_MAX
		                               ? (curl_off_t)-1
		                               : (curl_off_t)call->body_length);
	}
	if (str_eq(call->method, "HEAD"))
		(void)curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	else
		(void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
}

static void set_hooks(CURL *easy, struct upstream *upstream)
{
	(void)curl_easy_setopt(easy, CURLOPT_PRIVATE, upstream);
	(void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_line);
	(void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, upstream);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, upstream);
	(void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_body);
	(void)curl_easy_setopt(easy, CURLOPT_READDATA, upstream);
	(void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
	(void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, upstream);
	(void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_opened);
	(void)curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, upstream);
	(void)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
	(void)curl_easy_setopt(easy, CURLOPT_PREREQDATA, upstream);
}

static void set_options(CURL *easy, const struct upstream *upstream,
                        const struct upstream_call *call)
{
	(void)curl_easy_setopt(easy, CURLOPT_URL, call->url);
	(void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, upstream->headers);
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	(void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	(void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
	                       (long)MIN(call->timeout_ms, (uint64_t)INT32_MAX));
	if (upstream->is_given) {
		(void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
		(void)curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	}
	(void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	if (upstream->upstreams->ca_file)
		(void)curl_easy_setopt(easy, CURLOPT_CAINFO, upstream->upstreams->ca_file);
}

struct upstream *upstream_start(struct upstreams *upstreams, const struct upstream_call *call,
                                const struct upstream_ops *ops, void *ctx)
{
	struct upstream *upstream = mem_new(struct upstream);

	upstream->upstreams = upstreams;
	upstream->ops = ops;
	upstream->ctx = ctx;
	upstream->fd = call->fd;
	upstream->is_given = call->fd >= 0;
	upstream->is_anywhere = call->is_anywhere;
	upstream->granted = call->granted;
	upstream->granted_count = call->granted_count;
	upstream->easy = curl_easy_init();
	if (!upstream->easy || add_headers(upstream, call) < 0) {
		err_set(&upstream->failure, ERR_LIMITED, "no memory for a call");
	} else {
		set_options(upstream->easy, upstream, call);
		set_method(upstream->easy, call);
		set_hooks(upstream->easy, upstream);
		if (curl_multi_add_handle(upstreams->multi, upstream->easy) != CURLM_OK)
			err_set(&upstream->failure, ERR_INTERNAL, "the call cannot be made");
	}
	if (upstream->failure.code != ERR_OK)
		loop_timer_in(upstreams->loop, &upstream->failed, 0, on_failed, upstream);
	return upstream;
}
