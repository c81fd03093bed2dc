#include "worker/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"
#include "unit/made.h"

/* An archive of an image under construction. */
struct pack {
	struct buf bytes;
	char *layers; /* JSON list items of the manifest */
	char *diff_ids;
};

static void pack_done(struct pack *pack)
{
	buf_done(&pack->bytes);
	free(pack->layers);
	free(pack->diff_ids);
	*pack = (struct pack){0};
}

static void append(char **list, char *item)
{
	char *longer = *list ? mem_printf("%s,%s", *list, item) : mem_strdup(item);

	free(*list);
	free(item);
	*list = longer;
}

static struct digest_text hex_of(const void *bytes, size_t len)
{
	struct digest digest = digest_of(bytes, len);

	return digest_show(&digest);
}

/* A tar with one file "name" of that content. */
static void one_file(struct buf *out, const char *name, const char *text)
{
	made_file(out, name, text, strlen(text));
	made_end(out);
}

static struct digest_text add_blob(struct pack *pack, const void *bytes, size_t len)
{
	struct digest_text hex = hex_of(bytes, len);
	char *path = mem_printf("blobs/sha256/%s", hex.text);

	made_file(&pack->bytes, path, bytes, len);
	free(path);
	return hex;
}

static void add_oci_layer(struct pack *pack, int filter, const char *name, const char *text)
{
	struct buf plain = {0};
	struct buf packed = {0};

	one_file(&plain, name, text);
	made_packed(&packed, filter, buf_head(&plain), buf_len(&plain));
	struct digest_text hex = add_blob(pack, buf_head(&packed), buf_len(&packed));
	append(&pack->layers,
	       mem_printf("{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+x\","
	                  "\"digest\":\"sha256:%s\",\"size\":%zu}",
	                  hex.text, buf_len(&packed)));
	buf_done(&plain);
	buf_done(&packed);
}

static const char config_text[] = "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{"
				  "\"Env\":[\"A=1\"],\"User\":\"app\",\"WorkingDir\":\"/srv\","
				  "\"Entrypoint\":null,\"Cmd\":[\"run\"],\"Labels\":{\"x\":\"y\"}},"
				  "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[%s]}}";

static const char picked_text[] =
	"{\"Env\":[\"A=1\"],\"User\":\"app\",\"WorkingDir\":\"/srv\",\"Cmd\":[\"run\"]}";

static char *descriptor(const char *type, const char *hex, size_t len, const char *more)
{
	return mem_printf("{\"mediaType\":\"application/vnd.oci.image.%s.v1+json\","
	                  "\"digest\":\"sha256:%s\",\"size\":%zu%s}",
	                  type, hex, len, more);
}

/* The manifest of the layers added so far, with a config; its descriptor. */
static char *add_manifest(struct pack *pack, const char *arch, const char *more)
{
	char *config = mem_printf(config_text, arch, "");
	struct digest_text config_hex = add_blob(pack, config, strlen(config));
	char *described = descriptor("config", config_hex.text, strlen(config), "");
	char *text = mem_printf("{\"schemaVersion\":2,\"config\":%s,\"layers\":[%s]}", described,
	                        pack->layers);
	struct digest_text hex = add_blob(pack, text, strlen(text));
	char *result = descriptor("manifest", hex.text, strlen(text), more);

	free(config);
	free(described);
	free(text);
	return result;
}

static char *index_of(const char *items)
{
	return mem_printf("{\"schemaVersion\":2,\"manifests\":[%s]}", items);
}

/* Ends the archive with an index.json that lists these manifests. */
static void end_oci(struct pack *pack, const char *items)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	char *index = index_of(items);

	made_file(&pack->bytes, "index.json", index, strlen(index));
	made_file(&pack->bytes, "./oci-layout", layout, strlen(layout));
	made_end(&pack->bytes);
	free(index);
}

static void end_oci_simply(struct pack *pack)
{
	char *item = add_manifest(pack, bundle_architecture(), "");

	end_oci(pack, item);
	free(item);
}

/* --- unpacking --- */

struct fixture {
	struct layer_limits limits;
	struct unpack_result result;
	struct err err;
	int dir_fd;
};

static int try_pack(struct fixture *fixture, struct pack *pack, enum bundle_format format)
{
	*fixture = (struct fixture){.limits = unpack_default_limits};
	fixture->limits.ids = made_root();
	fixture->dir_fd = test_dir_fd();
	int fd = made_fd(&pack->bytes);
	int r = unpack_image(fd, fixture->dir_fd, format, &fixture->limits, &fixture->result,
	                     &fixture->err);
	fd_closep(&fd);
	pack_done(pack);
	return r;
}

static void tear_down(struct fixture *fixture)
{
	unpack_done(&fixture->result);
	fd_closep(&fixture->dir_fd);
}

static void unpack_pack(struct fixture *fixture, struct pack *pack, enum bundle_format format)
{
	if (try_pack(fixture, pack, format) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s", fixture->err.msg);
}

static void check_refused(struct pack *pack, enum bundle_format format, const char *text)
{
	struct fixture fixture;

	CHECK(try_pack(&fixture, pack, format) < 0);
	CHECK_HAS(fixture.err.msg, text);
	CHECK(!made_exists(fixture.dir_fd, "l0"));
	tear_down(&fixture);
}

static void check_text(const struct fixture *fixture, const char *path, const char *wanted)
{
	char *text = made_read(fixture->dir_fd, path);

	CHECK_STR(text, wanted);
	free(text);
}

/* --- OCI layout --- */

TEST(oci_layout_gives_layers_in_order)
{
	struct fixture fixture;
	struct pack pack = {0};

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "base", "0");
	add_oci_layer(&pack, ARCHIVE_FILTER_ZSTD, "middle", "1");
	add_oci_layer(&pack, ARCHIVE_FILTER_NONE, "top", "2");
	end_oci_simply(&pack);
	unpack_pack(&fixture, &pack, BUNDLE_AUTO);
	CHECK_INT(fixture.result.layer_count, 3);
	check_text(&fixture, "l0/base", "0");
	check_text(&fixture, "l1/middle", "1");
	check_text(&fixture, "l2/top", "2");
	CHECK_STR(fixture.result.config, picked_text);
	CHECK_INT(fixture.result.counts.bytes, 3);
	tear_down(&fixture);
}

TEST(oci_layout_in_a_compressed_tar)
{
	struct fixture fixture;
	struct pack pack = {0};
	struct pack squeezed = {0};

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "f", "x");
	end_oci_simply(&pack);
	made_packed(&squeezed.bytes, ARCHIVE_FILTER_XZ, buf_head(&pack.bytes),
	            buf_len(&pack.bytes));
	pack_done(&pack);
	unpack_pack(&fixture, &squeezed, BUNDLE_OCI_LAYOUT);
	check_text(&fixture, "l0/f", "x");
	tear_down(&fixture);
}

TEST(a_layer_used_twice_is_unpacked_twice)
{
	struct fixture fixture;
	struct pack pack = {0};

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "same", "x");
	append(&pack.layers, mem_strdup(pack.layers));
	end_oci_simply(&pack);
	unpack_pack(&fixture, &pack, BUNDLE_AUTO);
	CHECK_INT(fixture.result.layer_count, 2);
	check_text(&fixture, "l1/same", "x");
	tear_down(&fixture);
}

TEST(nested_index_picks_this_machine)
{
	struct fixture fixture;
	struct pack pack = {0};
	char *items = NULL;
	char *ours = mem_printf(",\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}",
	                        bundle_architecture());

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "other", "x");
	append(&items, add_manifest(&pack, "s390x",
	                            ",\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}"));
	append(&items, add_manifest(&pack, "unknown",
	                            ",\"platform\":{\"os\":\"unknown\",\"architecture\":"
	                            "\"unknown\"}"));
	free(take_ptr(pack.layers));
	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "ours", "y");
	append(&items, add_manifest(&pack, bundle_architecture(), ours));
	char *index = index_of(items);
	struct digest_text hex = add_blob(&pack, index, strlen(index));
	char *outer = descriptor("index", hex.text, strlen(index), "");
	end_oci(&pack, outer);
	free(items);
	free(ours);
	free(index);
	free(outer);
	unpack_pack(&fixture, &pack, BUNDLE_AUTO);
	check_text(&fixture, "l0/ours", "y");
	tear_down(&fixture);
}

TEST(images_for_other_machines_are_refused)
{
	struct pack pack = {0};

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "f", "x");
	char *item = add_manifest(&pack, "s390x", "");
	end_oci(&pack, item);
	free(item);
	check_refused(&pack, BUNDLE_AUTO, "the image is for s390x, this machine is");

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "f", "x");
	item = add_manifest(&pack, "s390x",
	                    ",\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}");
	end_oci(&pack, item);
	free(item);
	check_refused(&pack, BUNDLE_AUTO, "no image for linux/");
}

TEST(several_images_are_refused)
{
	struct pack pack = {0};
	char *items = NULL;

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "f", "x");
	append(&items, add_manifest(&pack, bundle_architecture(), ""));
	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "g", "x");
	append(&items, add_manifest(&pack, bundle_architecture(), ""));
	end_oci(&pack, items);
	free(items);
	check_refused(&pack, BUNDLE_AUTO, "several images");
}

/* Changes one byte of the first occurrence of text in the archive. */
static void tamper(struct pack *pack, const char *text)
{
	uint8_t *at = memmem(pack->bytes.bytes + pack->bytes.start, buf_len(&pack->bytes), text,
	                     strlen(text));

	CHECK(at != NULL);
	at[strlen(text) - 1] ^= 1;
}

TEST(every_blob_must_match_its_digest)
{
	struct pack pack = {0};

	add_oci_layer(&pack, ARCHIVE_FILTER_NONE, "f", "original");
	end_oci_simply(&pack);
	tamper(&pack, "original");
	check_refused(&pack, BUNDLE_AUTO, "does not match its digest");

	add_oci_layer(&pack, ARCHIVE_FILTER_NONE, "f", "x");
	end_oci_simply(&pack);
	tamper(&pack, "\"User\":\"app");
	check_refused(&pack, BUNDLE_AUTO, "does not match its digest");

	add_oci_layer(&pack, ARCHIVE_FILTER_NONE, "f", "x");
	end_oci_simply(&pack);
	tamper(&pack, "{\"schemaVersion\":2");
	check_refused(&pack, BUNDLE_AUTO, "does not match its digest");
}

/* Bytes behind the end of the inner tar belong to the blob as well. */
TEST(bytes_behind_the_last_entry_count_for_the_digest)
{
	struct fixture fixture;
	struct pack pack = {0};
	struct buf plain = {0};

	one_file(&plain, "f", "x");
	made_end(&plain);
	CHECK_INT(buf_puts(&plain, "trailing"), 0);
	struct digest_text hex = add_blob(&pack, buf_head(&plain), buf_len(&plain));
	pack.layers = mem_printf("{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\","
	                         "\"digest\":\"sha256:%s\",\"size\":%zu}",
	                         hex.text, buf_len(&plain));
	buf_done(&plain);
	end_oci_simply(&pack);
	unpack_pack(&fixture, &pack, BUNDLE_AUTO);
	check_text(&fixture, "l0/f", "x");
	tear_down(&fixture);
}

TEST(descriptors_must_be_true)
{
	static const struct {
		const char *layer;
		const char *text;
	} cases[] = {
		{"{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"size\":1}",
	         "no sha256 digest"},
		{"{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"size\":1,"
	         "\"digest\":\"sha256:../../../../etc/passwd\"}",
	         "no sha256 digest"},
		{"{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip+encrypted\"}",
	         "is of type"},
		{"{\"mediaType\":\"text/plain\"}", "is of type"},
		{"7", "is of type"},
		{"{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"size\":1,\"digest\":"
	         "\"sha256:"
	         "0000000000000000000000000000000000000000000000000000000000000000\"}",
	         "has no blob"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pack pack = {.layers = mem_strdup(cases[i].layer)};
		end_oci_simply(&pack);
		check_refused(&pack, BUNDLE_AUTO, cases[i].text);
	}
	struct pack none = {.layers = mem_strdup("")};
	end_oci_simply(&none);
	check_refused(&none, BUNDLE_AUTO, "no layers");
	struct pack sized = {0};
	add_oci_layer(&sized, ARCHIVE_FILTER_NONE, "f", "x");
	char *at = strstr(sized.layers, "\"size\":") + strlen("\"size\":");
	*at = *at == '1' ? '2' : '1';
	end_oci_simply(&sized);
	check_refused(&sized, BUNDLE_AUTO, "not what was said");
}

TEST(too_many_layers_are_refused)
{
	struct pack pack = {0};

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "f", "x");
	for (int i = 0; i < 6; i++)
		append(&pack.layers, mem_strdup(pack.layers));
	append(&pack.layers, mem_strdup("{}"));
	end_oci_simply(&pack);
	check_refused(&pack, BUNDLE_AUTO, "more than 64 layers");
}

TEST(a_hostile_entry_in_a_layer_names_layer_and_entry)
{
	struct fixture fixture;
	struct pack pack = {0};

	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "good", "x");
	add_oci_layer(&pack, ARCHIVE_FILTER_GZIP, "../bad", "x");
	end_oci_simply(&pack);
	CHECK(try_pack(&fixture, &pack, BUNDLE_AUTO) < 0);
	CHECK_HAS(fixture.err.msg, "layer blobs/sha256/");
	CHECK_HAS(fixture.err.msg, "entry \"../bad\"");
	CHECK(!made_exists(fixture.dir_fd, "l0"));
	CHECK(!made_exists(fixture.dir_fd, "l1"));
	tear_down(&fixture);
}

/* --- docker save --- */

static void add_docker_layer(struct pack *pack, const char *path, int filter, const char *text)
{
	struct buf plain = {0};
	struct buf packed = {0};

	one_file(&plain, "f", text);
	made_packed(&packed, filter, buf_head(&plain), buf_len(&plain));
	made_file(&pack->bytes, path, buf_head(&packed), buf_len(&packed));
	append(&pack->layers, mem_printf("\"%s\"", path));
	append(&pack->diff_ids,
	       mem_printf("\"sha256:%s\"", hex_of(buf_head(&plain), buf_len(&plain)).text));
	buf_done(&plain);
	buf_done(&packed);
}

static void end_docker(struct pack *pack)
{
	char *config = mem_printf(config_text, bundle_architecture(), pack->diff_ids);
	char *name = mem_printf("%s.json", hex_of(config, strlen(config)).text);
	char *manifest = mem_printf("[{\"Config\":\"%s\",\"RepoTags\":[\"a:b\"],\"Layers\":[%s]}]",
	                            name, pack->layers);

	made_file(&pack->bytes, name, config, strlen(config));
	made_file(&pack->bytes, "manifest.json", manifest, strlen(manifest));
	made_end(&pack->bytes);
	free(config);
	free(name);
	free(manifest);
}

TEST(docker_archive)
{
	struct fixture fixture;
	struct pack pack = {0};

	add_docker_layer(&pack, "aaa/layer.tar", ARCHIVE_FILTER_NONE, "0");
	add_docker_layer(&pack, "bbb.tar.gz", ARCHIVE_FILTER_GZIP, "1");
	/* The same layer again, as docker saves it. */
	made_header(&pack.bytes, "ccc/layer.tar", '2', "00000000000", "../aaa/layer.tar");
	append(&pack.layers, mem_strdup("\"ccc/layer.tar\""));
	append(&pack.diff_ids, mem_strndup(pack.diff_ids, strlen("\"sha256:\"") + 64));
	end_docker(&pack);
	unpack_pack(&fixture, &pack, BUNDLE_AUTO);
	CHECK_INT(fixture.result.layer_count, 3);
	check_text(&fixture, "l0/f", "0");
	check_text(&fixture, "l1/f", "1");
	check_text(&fixture, "l2/f", "0");
	CHECK_STR(fixture.result.config, picked_text);
	tear_down(&fixture);
}

TEST(docker_layers_must_match_their_diff_ids)
{
	struct pack pack = {0};

	add_docker_layer(&pack, "aaa/layer.tar", ARCHIVE_FILTER_NONE, "original");
	end_docker(&pack);
	tamper(&pack, "original");
	check_refused(&pack, BUNDLE_DOCKER_ARCHIVE, "does not match its digest");
	add_docker_layer(&pack, "aaa/layer.tar", ARCHIVE_FILTER_NONE, "x");
	end_docker(&pack);
	tamper(&pack, "\"User\":\"app");
	check_refused(&pack, BUNDLE_DOCKER_ARCHIVE, "does not match its digest");
	add_docker_layer(&pack, "aaa/layer.tar", ARCHIVE_FILTER_NONE, "x");
	append(&pack.layers, mem_strdup("\"aaa/layer.tar\""));
	end_docker(&pack);
	check_refused(&pack, BUNDLE_DOCKER_ARCHIVE, "no diff_id for layer 2");
}

TEST(docker_names_stay_in_the_archive)
{
	static const struct {
		const char *manifest;
		const char *text;
	} cases[] = {
		{"[{\"Config\":\"/etc/passwd\",\"Layers\":[]}]", "which is not there"},
		{"[{\"Config\":\"../../x\",\"Layers\":[]}]", "which is not there"},
		{"[{\"Config\":7,\"Layers\":[]}]", "which is not there"},
		{"[{\"Config\":\"loop\",\"Layers\":[]}]", "which is not there"},
		{"[{\"Layers\":[]},{\"Layers\":[]}]", "2 images"},
		{"[{\"Layers\":[]}", "manifest.json, line"},
		{"{\"Layers\":[]}", "0 images"},
		{"[{\"Layers\":[],\"Layers\":[]}]", "duplicate"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pack pack = {0};
		made_header(&pack.bytes, "loop", '2', "00000000000", "loop");
		made_file(&pack.bytes, "manifest.json", cases[i].manifest,
		          strlen(cases[i].manifest));
		made_end(&pack.bytes);
		check_refused(&pack, BUNDLE_DOCKER_ARCHIVE, cases[i].text);
	}
}

/* --- telling them apart --- */

TEST(a_plain_tar_is_told_by_what_is_in_it)
{
	struct fixture fixture;
	struct pack pack = {0};

	made_file(&pack.bytes, "manifest.json", "{\"name\":\"a web page\"}", 21);
	made_file(&pack.bytes, "etc/hosts", "h", 1);
	made_end(&pack.bytes);
	unpack_pack(&fixture, &pack, BUNDLE_AUTO);
	check_text(&fixture, "l0/etc/hosts", "h");
	CHECK_INT(fixture.result.layer_count, 1);
	CHECK_STR(fixture.result.config, "{}");
	tear_down(&fixture);
}

TEST(a_plain_tar_is_no_image_archive)
{
	struct pack pack = {0};

	made_file(&pack.bytes, "usr/share/doc/x", "h", 1);
	made_end(&pack.bytes);
	check_refused(&pack, BUNDLE_OCI_LAYOUT, "not an image archive (oci-layout)");
	made_file(&pack.bytes, "hosts", "h", 1);
	made_end(&pack.bytes);
	check_refused(&pack, BUNDLE_DOCKER_ARCHIVE, "no manifest.json");
}

TEST(format_names)
{
	enum bundle_format format;

	CHECK(bundle_parse_format("auto", &format) && format == BUNDLE_AUTO);
	CHECK(bundle_parse_format("docker-archive", &format) && format == BUNDLE_DOCKER_ARCHIVE);
	CHECK(!bundle_parse_format("zip", &format));
}

TEST(digests_are_spelled_one_way)
{
	struct digest digest;
	char text[] = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	struct digest abc = digest_of("abc", 3);

	CHECK(digest_parse(text, &digest));
	CHECK(digest_equal(&digest, &abc));
	CHECK_STR(digest_show(&digest).text, text + strlen("sha256:"));
	text[10] = 'F';
	CHECK(!digest_parse(text, &digest));
	text[10] = '\0';
	CHECK(!digest_parse(text, &digest));
	CHECK(!digest_parse("sha512:", &digest));
}
