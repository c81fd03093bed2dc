/* The hello of a TLS client: the same verdict however the bytes arrive, and a name that is one. */
#include <stdlib.h>
#include <string.h>

#include "net/tls_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

static void watch_rest(const struct tls_hello *hello, const uint8_t *bytes, size_t len)
{
	struct tls_watch watch = {.has_early_data = hello->has_early_data};
	struct tls_hello next;
	size_t pass = 0;
	enum tls_watch_result r = TLS_WATCH_PASS;
	while (r == TLS_WATCH_PASS || r == TLS_WATCH_HELLO) {
		r = tls_watch(&watch, bytes, len, &pass, &next);
		if (r != TLS_WATCH_PASS && r != TLS_WATCH_HELLO)
			break;
		check(pass > 0 && pass <= len);
		bytes += pass;
		len -= pass;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct tls_hello hello, part;
	if (len > 2 * TLS_HELLO_MOST)
		return 0;
	enum tls_hello_result whole = tls_hello_parse(bytes, len, &hello);
	if (whole != TLS_HELLO_WHOLE)
		return 0;
	check(hello.len > 0 && hello.len <= len);
	check(strspn(hello.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(hello.name));
	/* Less of it is never another hello, and the end is where it was. */
	for (size_t i = 0; i < hello.len; i++)
		check(tls_hello_parse(bytes, i, &part) == TLS_HELLO_MORE);
	check(tls_hello_parse(bytes, hello.len, &part) == TLS_HELLO_WHOLE);
	check(strcmp(part.name, hello.name) == 0);
	watch_rest(&hello, bytes + hello.len, len - hello.len);
	return 0;
}
