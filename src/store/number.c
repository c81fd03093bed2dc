#include "store/number.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/write.h"

enum { SUBJECTS = 1024 };

/* A sandbox or task, as its last event had it. */
struct subject {
	struct id id; /* "": nothing is here */
	uint64_t last;
	struct id owner, team;
	enum visibility visibility;
};

struct numbers {
	bool is_read;
	uint64_t last;
	struct subject subjects[SUBJECTS]; /* by hash; a newer one takes the place of an older */
};

struct numbers *numbers_new(void)
{
	return mem_new(struct numbers);
}

void numbers_free(struct numbers *numbers)
{
	free(numbers);
}

void numbers_forget(struct numbers *numbers)
{
	memset(numbers, 0, sizeof(*numbers));
}

/* FNV-1a: ids are ours, nobody gains by choosing them. */
static struct subject *slot_of(struct numbers *numbers, const char *id)
{
	uint32_t hash = 2166136261;

	for (; *id != '\0'; id++)
		hash = (hash ^ (uint8_t)*id) * 16777619;
	return &numbers->subjects[hash % SUBJECTS];
}

static enum visibility visibility_of(const char *text)
{
	enum visibility visibility;

	return visibility_from(text, &visibility) ? visibility : VISIBILITY_PRIVATE;
}

static int read_last(struct numbers *numbers, struct db *db, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (db_begin(db, SQL_EVENT_LAST, NULL, 0, &row, err) < 0)
		return -1;
	r = db_step(db, row, err);
	if (r < 0)
		return -1;
	numbers->last = r > 0 ? db_column_int(row, 0) : 0;
	numbers->is_read = true;
	sqlite3_reset(row);
	return 0;
}

static int read_subject(struct db *db, const char *id, struct subject *ret, struct err *err)
{
	const struct value values[] = {value_text(id)};
	struct subject subject = {0};
	sqlite3_stmt *row;
	int r;

	if (db_begin(db, SQL_EVENT_SUBJECT, values, 1, &row, err) < 0)
		return -1;
	r = db_step(db, row, err);
	if (r < 0)
		return -1;
	(void)!str_copy(subject.id.text, sizeof(subject.id.text), id); /* it is as long as itself */
	if (r > 0) {
		subject.last = db_column_int(row, 0);
		subject.owner = db_column_id(row, 1);
		subject.team = db_column_id(row, 2);
		subject.visibility = visibility_of(db_column_view(row, 3));
	}
	sqlite3_reset(row);
	*ret = subject;
	return 0;
}

int numbers_give(struct numbers *numbers, struct db *db, struct event *event, struct err *err)
{
	struct subject *subject;

	if (!numbers->is_read && read_last(numbers, db, err) < 0)
		return -1;
	event->sandbox_seq = 0;
	event->owner = event->team = (struct id){0};
	event->visibility = VISIBILITY_PRIVATE;
	if (event->sandbox.text[0] != '\0') {
		subject = slot_of(numbers, event->sandbox.text);
		if (!str_eq(subject->id.text, event->sandbox.text) &&
		    read_subject(db, event->sandbox.text, subject, err) < 0)
			return -1;
		event->sandbox_seq = ++subject->last;
		event->owner = subject->owner;
		event->team = subject->team;
		event->visibility = subject->visibility;
	}
	event->seq = ++numbers->last;
	return 0;
}

void numbers_learn(struct numbers *numbers, const struct op *op)
{
	const struct value *owner = &op->values[op->owner_at];
	struct subject *subject;

	if (op->owner_at == 0)
		return;
	subject = slot_of(numbers, op->values[0].text);
	if (!str_eq(subject->id.text, op->values[0].text))
		return;
	(void)!str_copy(subject->owner.text, sizeof(subject->owner.text), owner[0].text);
	(void)!str_copy(subject->team.text, sizeof(subject->team.text), owner[1].text);
	subject->visibility = visibility_of(owner[2].text);
}
