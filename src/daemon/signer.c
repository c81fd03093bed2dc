#include "daemon/signer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <sodium.h>

#include "api/signature.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/agent.h"

#define KEY_HEADER "cloche-private-key 1\n"

enum { KEY_BYTES = 256 };

/* A file that must not be there yet. */
static int write_new(const char *path, mode_t mode, const char *text, struct err *err)
{
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	int r = fd < 0 ? -errno : io_write_all(fd, text, strlen(text));

	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? err_sys(err, -r, "write %s", path) : 0;
}

/* One that may be there. */
static int replace(const char *path, const char *text, struct err *err)
{
	const char *slash = strrchr(path, '/');
	auto_free char *folder = slash ? mem_strndup(path, (size_t)(slash - path) + 1) : NULL;
	auto_close int dir_fd = open(folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = dir_fd < 0 ? -errno
	                   : io_replace_file(dir_fd, slash ? slash + 1 : path, text, strlen(text),
	                                     0644);

	return r < 0 ? err_sys(err, -r, "write %s", path) : 0;
}

static int keygen(const char *path, struct err *err)
{
	auto_free char *public_path = mem_printf("%s.pub", path);
	uint8_t seed[SIGNATURE_SEED], public_key[SIGNATURE_PUBLIC];
	char hex[2 * SIGNATURE_SEED + 1], key[2 * SIGNATURE_PUBLIC + 1], text[KEY_BYTES];
	int r;

	randombytes_buf(seed, sizeof(seed));
	signature_public(seed, public_key);
	sodium_bin2hex(hex, sizeof(hex), seed, sizeof(seed));
	signature_format_key(public_key, key);
	(void)snprintf(text, sizeof(text), KEY_HEADER "%s\n", hex); /* fits */
	r = write_new(path, 0600, text, err);
	sodium_memzero(seed, sizeof(seed));
	sodium_memzero(hex, sizeof(hex));
	sodium_memzero(text, sizeof(text));
	if (r < 0)
		return -1;
	(void)snprintf(text, sizeof(text), "%s\n", key); /* fits */
	if (write_new(public_path, 0644, text, err) < 0)
		return -1;
	(void)printf("%s\n", key);
	return 0;
}

static int read_seed(const char *path, uint8_t seed[SIGNATURE_SEED], struct err *err)
{
	char *text = NULL;
	size_t len = 0, read_len = 0;
	int r = io_read_file(AT_FDCWD, path, KEY_BYTES, &text, &len);

	if (r < 0)
		return err_sys(err, -r, "read %s", path);
	r = str_has_prefix(text, KEY_HEADER) &&
	                    sodium_hex2bin(seed, SIGNATURE_SEED, text + strlen(KEY_HEADER),
	                                   2 * SIGNATURE_SEED, NULL, &read_len, NULL) == 0 &&
	                    read_len == SIGNATURE_SEED
	            ? 0
	            : err_set(err, ERR_INVALID, "%s is no key that `cloche agent keygen` made",
	                      path);
	mem_wipe_free(text, len);
	return r;
}

static int sign(const char *manifest_path, const char *key_path, struct err *err)
{
	auto_free char *signature_path = mem_printf("%s.sig", manifest_path);
	auto_free char *manifest = NULL;
	uint8_t seed[SIGNATURE_SEED];
	struct signature signature;
	struct agent agent = {0};
	char text[SIGNATURE_TEXT];
	size_t len = 0;
	int r = io_read_file(AT_FDCWD, manifest_path, AGENT_MANIFEST_BYTES, &manifest, &len);

	if (r < 0)
		return err_sys(err, -r, "read %s", manifest_path);
	/* A signature under something nobody can read helps nobody. */
	if (agent_parse(manifest_path, manifest, len, &agent, err) < 0)
		return -1;
	agent_done(&agent);
	if (read_seed(key_path, seed, err) < 0)
		return -1;
	signature_make(seed, manifest, len, &signature);
	sodium_memzero(seed, sizeof(seed));
	signature_format(&signature, text);
	if (replace(signature_path, text, err) < 0)
		return -1;
	(void)printf("%s\n", signature_path);
	return 0;
}

int signer_main(int argc, char **argv)
{
	struct err err = {0};
	int r = -1;

	if (sodium_init() < 0)
		(void)err_set(&err, ERR_INTERNAL, "libsodium does not start"); /* always -1 */
	else if (argc == 2 && str_eq(argv[0], "keygen"))
		r = keygen(argv[1], &err);
	else if (argc == 3 && str_eq(argv[0], "sign"))
		r = sign(argv[1], argv[2], &err);
	else
		(void)err_set(&err, ERR_INVALID, "`cloche agent` starts this"); /* always -1 */
	if (r == 0)
		return 0;
	(void)fprintf(stderr, "cloche: %s\n", err.msg);
	return err_exit(err.code);
}
