#include "daemon/tunnel.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/base.h"
#include "base/err.h"
#include "base/io.h"
#include "base/opt.h"

enum { CHUNK = 16 * 1024 };

struct tunnel {
	const char *host;
	uint64_t port, fd;
	bool is_tls;
	int sock;
	gnutls_session_t session; /* NULL: no TLS */
	gnutls_certificate_credentials_t credentials;
};

static int dial(struct tunnel *tunnel, struct err *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char port[8];
	int failure;

	(void)snprintf(port, sizeof(port), "%u", (unsigned)(uint16_t)tunnel->port); /* fits */
	failure = getaddrinfo(tunnel->host, port, &hints, &found);
	if (failure != 0)
		return err_set(err, ERR_UNAVAILABLE, "%s: %s", tunnel->host, gai_strerror(failure));
	for (const struct addrinfo *at = found; at && tunnel->sock < 0; at = at->ai_next) {
		auto_close int sock =
			socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, at->ai_protocol);

		if (sock >= 0 && connect(sock, at->ai_addr, at->ai_addrlen) == 0)
			tunnel->sock = take_fd(&sock);
		else
			failure = errno;
	}
	if (tunnel->sock >= 0)
		(void)setsockopt(tunnel->sock, IPPROTO_TCP, TCP_NODELAY, &(int){1},
		                 sizeof(int)); /* only slower */
	freeaddrinfo(found);
	return tunnel->sock >= 0 ? 0
	                         : err_sys(err, failure, "connect to %s:%s", tunnel->host, port);
}

static int trust(struct tunnel *tunnel, struct err *err)
{
	const char *file = getenv("CLOCHE_CA"); /* NOLINT(concurrency-mt-unsafe): one thread */
	int r = gnutls_certificate_allocate_credentials(&tunnel->credentials);

	if (r >= 0 && file && *file)
		r = gnutls_certificate_set_x509_trust_file(tunnel->credentials, file,
		                                           GNUTLS_X509_FMT_PEM);
	else if (r >= 0)
		r = gnutls_certificate_set_x509_system_trust(tunnel->credentials);
	return r < 0 ? err_set(err, ERR_CONFIG, "certificates to trust: %s", gnutls_strerror(r))
	             : 0;
}

static int explain(struct tunnel *tunnel, int r, struct err *err)
{
	gnutls_datum_t text = {0};
	unsigned status = gnutls_session_get_verify_cert_status(tunnel->session);

	if (r == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR &&
	    gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) >= 0) {
		(void)err_set(err, ERR_FORBIDDEN, "the certificate of %s is not trusted: %s",
		              tunnel->host, text.data); /* always -1 */
		gnutls_free(text.data);
		return -1;
	}
	return err_set(err, ERR_PROTOCOL, "TLS with %s: %s", tunnel->host, gnutls_strerror(r));
}

static int shake_hands(struct tunnel *tunnel, struct err *err)
{
	int r = gnutls_init(&tunnel->session, GNUTLS_CLIENT);

	if (r >= 0)
		r = gnutls_set_default_priority(tunnel->session);
	if (r >= 0)
		r = gnutls_server_name_set(tunnel->session, GNUTLS_NAME_DNS, tunnel->host,
		                           strlen(tunnel->host));
	if (r >= 0)
		r = gnutls_credentials_set(tunnel->session, GNUTLS_CRD_CERTIFICATE,
		                           tunnel->credentials);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, "TLS: %s", gnutls_strerror(r));
	gnutls_session_set_verify_cert(tunnel->session, tunnel->host, 0);
	gnutls_transport_set_int(tunnel->session, tunnel->sock);
	do {
		r = gnutls_handshake(tunnel->session);
	} while (r < 0 && !gnutls_error_is_fatal(r));
	return r < 0 ? explain(tunnel, r, err) : 0;
}

static ssize_t receive(struct tunnel *tunnel, void *bytes, size_t size)
{
	ssize_t got;

	if (!tunnel->session)
		return read(tunnel->sock, bytes, size);
	do {
		got = gnutls_record_recv(tunnel->session, bytes, size);
	} while (got == GNUTLS_E_INTERRUPTED || got == GNUTLS_E_AGAIN);
	return got;
}

static int deliver(struct tunnel *tunnel, const uint8_t *bytes, size_t len)
{
	if (!tunnel->session)
		return io_write_all(tunnel->sock, bytes, len);
	while (len > 0) {
		ssize_t sent = gnutls_record_send(tunnel->session, bytes, len);

		if (sent < 0 && sent != GNUTLS_E_INTERRUPTED && sent != GNUTLS_E_AGAIN)
			return -EPIPE;
		bytes += sent > 0 ? (size_t)sent : 0;
		len -= sent > 0 ? (size_t)sent : 0;
	}
	return 0;
}

/* Until one side ends. A command waits for its answer, so nothing is lost by ending with either. */
static void carry(struct tunnel *tunnel)
{
	static uint8_t bytes[CHUNK];
	int own = (int)tunnel->fd;

	for (;;) {
		struct pollfd fds[2] = {{.fd = own, .events = POLLIN},
		                        {.fd = tunnel->sock, .events = POLLIN}};
		bool is_buffered =
			tunnel->session && gnutls_record_check_pending(tunnel->session) > 0;
		ssize_t got;

		if (poll(fds, ARRAY_LEN(fds), is_buffered ? 0 : -1) < 0 && errno != EINTR)
			return;
		if (is_buffered || fds[1].revents) {
			got = receive(tunnel, bytes, sizeof(bytes));
			if (got <= 0 || io_write_all(own, bytes, (size_t)got) < 0)
				return;
		}
		if (fds[0].revents) {
			got = read(own, bytes, sizeof(bytes));
			if (got <= 0 || deliver(tunnel, bytes, (size_t)got) < 0)
				return;
		}
	}
}

static int parse(struct tunnel *tunnel, int argc, char **argv, struct err *err)
{
	const struct opt opts[] = {
		{"fd", 0, OPT_U64, &tunnel->fd, "FD", "socket of the command line"},
		{"port", 0, OPT_U64, &tunnel->port, "PORT", "of the host"},
		{"tls", 0, OPT_FLAG, &tunnel->is_tls, NULL, "speak TLS"},
		{0},
	};

	if (opt_parse(opts, argc, argv, false, &argc, err) < 0)
		return -1;
	if (argc != 1 || tunnel->fd == 0 || tunnel->port == 0)
		return err_set(err, ERR_INVALID, "`cloche --url` starts this");
	tunnel->host = argv[0];
	return 0;
}

int tunnel_main(int argc, char **argv)
{
	struct tunnel tunnel = {.sock = -1};
	struct err err = {0};
	int r = parse(&tunnel, argc, argv, &err);

	(void)signal(SIGPIPE, SIG_IGN); /* SIGPIPE is a known signal */
	if (r == 0 && tunnel.is_tls)
		r = trust(&tunnel, &err);
	if (r == 0)
		r = dial(&tunnel, &err);
	if (r == 0 && tunnel.is_tls)
		r = shake_hands(&tunnel, &err);
	if (r == 0)
		carry(&tunnel);
	else
		(void)fprintf(stderr, "cloche: %s\n", err.msg);
	if (tunnel.session)
		gnutls_deinit(tunnel.session);
	if (tunnel.credentials)
		gnutls_certificate_free_credentials(tunnel.credentials);
	fd_closep(&tunnel.sock);
	return r == 0 ? 0 : err_exit(err.code);
}
