#include "worker/survey.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "worker/name.h"

enum {
	MEMBERS = 8192,
	TEXT_BYTES = 4 * 1024 * 1024, /* the largest manifest registries accept */
	TEXTS_BYTES = 4 * TEXT_BYTES, /* all kept texts together */
	IMAGE_DEPTH = 3,              /* blobs/sha256/… */
	LINKS = 4,
};

/* "docker save" of older releases links equal layers: ID/layer.tar -> ../OTHER/layer.tar. */
static char *link_target(const struct name *name, struct archive_entry *entry)
{
	const char *target = archive_entry_hardlink(entry);
	struct name clean;

	if (!target) {
		target = archive_entry_symlink(entry);
		if (!target)
			return NULL;
		if (str_has_prefix(target, "../") && name->depth == 2)
			target += strlen("../");
		else if (name->depth != 1)
			return NULL;
	}
	return name_clean(&clean, target) ? NULL : mem_strdup(clean.path);
}

static bool may_be_json(const struct buf *text)
{
	return buf_len(text) > 0 && strchr("{[ \t\r\n", buf_head(text)[0]) != NULL;
}

static int read_text(struct reader *reader, struct buf *text, struct err *err)
{
	const void *bytes;
	uint64_t offset;
	size_t len;
	int r;

	while ((r = reader_block(reader, &bytes, &len, &offset, err)) > 0) {
		/* A hole has no place in a text. */
		if (offset != buf_len(text) || buf_put(text, bytes, len) < 0 ||
		    !may_be_json(text)) {
			buf_reset(text);
			return 0;
		}
	}
	return r;
}

static int keep_text(struct survey *survey, struct member *member, struct reader *reader,
                     struct err *err)
{
	struct buf text;

	if (member->size == 0 || member->size > TEXT_BYTES ||
	    member->size > TEXTS_BYTES - survey->text_bytes)
		return 0;
	buf_init(&text, TEXT_BYTES);
	int r = read_text(reader, &text, err);
	if (r == 0 && buf_len(&text) == member->size) {
		member->text_len = buf_len(&text);
		survey->text_bytes += member->text_len;
		member->text = buf_take_string(&text);
	}
	buf_done(&text);
	return r;
}

/* 1: looked at; 0: this cannot be the archive of an image. */
static int look_at(struct survey *survey, struct reader *reader, struct archive_entry *entry,
                   struct err *err)
{
	struct name name;
	unsigned type = archive_entry_filetype(entry);
	bool is_link = archive_entry_hardlink(entry) != NULL || type == AE_IFLNK;

	if (name_clean(&name, archive_entry_pathname(entry)) || name.depth > IMAGE_DEPTH)
		return 0;
	if (type == AE_IFDIR)
		return 1;
	if ((type != AE_IFREG && !is_link) || survey->count == MEMBERS)
		return 0;
	survey->members = mem_resize(survey->members, survey->count + 1, sizeof(struct member));
	struct member *member = &survey->members[survey->count++];
	*member = (struct member){.path = mem_strdup(name.path)};
	if (is_link) {
		member->link = link_target(&name, entry);
		return 1;
	}
	member->size = (uint64_t)archive_entry_size(entry);
	return keep_text(survey, member, reader, err) < 0 ? -1 : 1;
}

int survey_read(struct survey *ret, int archive_fd, const struct layer_limits *limits,
                struct err *err)
{
	auto_reader struct reader reader = {0};
	struct archive_entry *entry;
	int r;

	*ret = (struct survey){0};
	if (reader_open_file(&reader, archive_fd, limits->ratio, err) < 0)
		return -1;
	while ((r = reader_next(&reader, &entry, err)) > 0) {
		int64_t size = archive_entry_size(entry);
		/* Going past it means decompressing it. */
		if (size < 0 || (uint64_t)size > limits->bytes)
			return err_set(err, ERR_TOO_LARGE,
			               "entry \"%s\" does not fit below the limit of bytes",
			               name_show(archive_entry_pathname(entry)).text);
		r = look_at(ret, &reader, entry, err);
		if (r < 0)
			return -1;
		if (r == 0) {
			ret->is_plain = true;
			return 0;
		}
	}
	return r;
}

void survey_done(struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++) {
		free(survey->members[i].path);
		free(survey->members[i].link);
		free(survey->members[i].text);
	}
	free(survey->members);
	*survey = (struct survey){0};
}

/* The last one of a name counts, as when unpacking. */
static const struct member *find_exact(const struct survey *survey, const char *path)
{
	for (size_t i = survey->count; i > 0; i--) {
		if (str_eq(survey->members[i - 1].path, path))
			return &survey->members[i - 1];
	}
	return NULL;
}

const struct member *survey_find(const struct survey *survey, const char *path)
{
	const struct member *member = find_exact(survey, path);

	for (int i = 0; member && member->link && i < LINKS; i++)
		member = find_exact(survey, member->link);
	return member && !member->link ? member : NULL;
}
