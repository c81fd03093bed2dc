/*
 * Manifests of commands, front matter of skills, lists of pushes: whatever the bytes, they are read
 * or refused with a reason; what was read can be filled in without a word that a value could turn
 * into an option. The first byte chooses.
 */
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/command.h"
#include "model/git_push.h"
#include "model/skill.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void fill_in(const struct command *command)
{
	struct strings values = {0}, words = {0};
	struct err err = {0};
	char *target = NULL;

	for (size_t i = 0; i < command->properties.count; i++)
		strings_take(&values, mem_printf("%s=-x/../y", command->properties.items[i]));
	if (command->service && command_target(command, &values, &target, &err) == 0)
		must(target[0] == '/' && !strpbrk(target, " \r\n"));
	else if (!command->service && command_argv(command, &values, &words, &err) == 0)
		must(words.count > 0 && words.items[0][0] == '/');
	free(target);
	strings_done(&values);
	strings_done(&words);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	const char *text = (const char *)bytes + 1;
	auto_(command_unrefp) struct command *command = NULL;
	auto_free char *name = NULL, *about = NULL;
	struct err err = {0};

	if (len == 0)
		return 0;
	if (bytes[0] == 's') {
		if (skill_read_front(text, len - 1, &name, &about, &err) == 0)
			must(skill_is_name(name) && about[0] && strlen(about) <= SKILL_ABOUT);
		else
			must(err.code == ERR_INVALID && err.msg[0]);
	} else if (bytes[0] == 'p') {
		if (git_push_read(bytes + 1, len - 1, "main", &err) < 0)
			must(err.msg[0]);
	} else if (command_parse("x.toml", text, len - 1, &command, &err) == 0) {
		must(command_is_noun(command->noun) && command_is_verb(command->verb));
		if (command_compile(command, &err) == 0)
			fill_in(command);
	} else {
		must(err.code == ERR_CONFIG && err.msg[0]);
	}
	return 0;
}
