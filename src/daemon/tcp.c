#include "daemon/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gnutls/gnutls.h>

#include "base/io.h"
#include "base/mem.h"
#include "http/server.h"
#include "model/config.h"

enum { PEM_BYTES = 256 * 1024, CONNECTIONS = 1024, CONNECTIONS_OF_PEER = 512 };

static int name_socket(struct tcp *tcp, struct err *err)
{
	struct sockaddr_in6 v6 = {0};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&v6;
	socklen_t size = sizeof(v6);
	struct listen listen = {0};

	if (getsockname(tcp->fd, (struct sockaddr *)&v6, &size) < 0)
		return err_sys(err, errno, "look at the TCP socket");
	listen.port = ntohs(v6.sin6_port); /* at the same place in both */
	if (v6.sin6_family == AF_INET)
		listen.addr = addr_from_v4((const uint8_t *)&v4->sin_addr);
	else
		memcpy(listen.addr.bytes, &v6.sin6_addr, sizeof(listen.addr.bytes));
	listen_format(&listen, tcp->name, sizeof(tcp->name));
	return 0;
}

static int read_pem(const char *what, const char *path, char **ret, struct err *err)
{
	size_t len;
	int r = io_read_file(AT_FDCWD, path, PEM_BYTES, ret, &len);

	if (r == 0)
		return 0;
	(void)err_sys(err, -r, "%s %s, as the user that cloched runs as", what, path);
	err->code = ERR_INVALID;
	return -1;
}

/* Said at the start, not by the first client that is refused. */
static int check_pair(const struct tcp *tcp, struct err *err)
{
	const gnutls_datum_t cert = {(uint8_t *)tcp->cert, (unsigned)strlen(tcp->cert)};
	const gnutls_datum_t key = {(uint8_t *)tcp->key, (unsigned)strlen(tcp->key)};
	gnutls_certificate_credentials_t credentials;
	int r = gnutls_certificate_allocate_credentials(&credentials);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, "TLS: %s", gnutls_strerror(r));
	r = gnutls_certificate_set_x509_key_mem(credentials, &cert, &key, GNUTLS_X509_FMT_PEM);
	gnutls_certificate_free_credentials(credentials);
	return r < 0 ? err_set(err, ERR_INVALID, "tls_cert and tls_key are no pair: %s",
	                       gnutls_strerror(r))
	             : 0;
}

int tcp_open(struct tcp *tcp, int fd, const struct config_server *config, struct err *err)
{
	*tcp = (struct tcp){.fd = fd};
	if (fd < 0)
		return 0;
	if (name_socket(tcp, err) < 0)
		return -1;
	if (!config->tls_cert)
		return 0;
	if (read_pem("read tls_cert", config->tls_cert, &tcp->cert, err) < 0)
		return -1;
	if (read_pem("read tls_key", config->tls_key, &tcp->key, err) < 0)
		return -1;
	return check_pair(tcp, err);
}

int tcp_serve(struct tcp *tcp, struct loop *loop, const struct server_config *base, struct err *err)
{
	struct server_config config = *base;

	if (tcp->fd < 0)
		return 0;
	config.listen_fd = tcp->fd;
	config.tls_cert = tcp->cert;
	config.tls_key = tcp->key;
	config.max_connections = CONNECTIONS;
	config.max_of_peer = CONNECTIONS_OF_PEER;
	return server_new(loop, &config, &tcp->server, err);
}

void tcp_stop(struct tcp *tcp)
{
	server_freep(&tcp->server);
}

void tcp_done(struct tcp *tcp)
{
	tcp_stop(tcp);
	mem_freep(&tcp->cert);
	if (tcp->key)
		mem_wipe_free(tcp->key, strlen(tcp->key));
	tcp->key = NULL;
}
