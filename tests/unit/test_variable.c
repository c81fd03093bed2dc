#include "base/base.h"
#include "base/mem.h"
#include "harness/test.h"
#include "model/variable.h"

TEST(names_that_become_code_or_are_ours_are_refused)
{
	static const char *const bad[] = {"",
	                                  "1A",
	                                  "A-B",
	                                  "A=B",
	                                  "LD_PRELOAD",
	                                  "LD_X",
	                                  "DYLD_X",
	                                  "GIT_SSH_COMMAND",
	                                  "NODE_OPTIONS",
	                                  "BASH_ENV",
	                                  "PROMPT_COMMAND",
	                                  "PYTHONSTARTUP",
	                                  "PERL5OPT",
	                                  "RUBYOPT",
	                                  "NODE_REPL_EXTERNAL_MODULE",
	                                  "CLOCHE_X",
	                                  "GITHUB_TOKEN",
	                                  "GH_TOKEN"};
	static const char *const good[] = {"TOKEN", "_x", "LDX", "GITHUB_TOKEN2", "PATH", "a1"};
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		err = (struct err){0};
		if (variable_check_name(bad[i], &err) == 0)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
		CHECK_INT(err.code, ERR_INVALID);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK_INT(variable_check_name(good[i], &err), 0);
}

TEST(a_list_is_bounded_and_no_message_has_a_value)
{
	struct strings list = {0};
	struct err err = {0};
	auto_free char *large = mem_zalloc(VARIABLE_BYTES + 3);

	strings_add(&list, "LD_PRELOAD=canary");
	CHECK_INT(variable_check_list(&list, &err), -1);
	CHECK(strstr(err.msg, "canary") == NULL);
	strings_done(&list);
	for (int i = 0; i <= VARIABLE_MOST; i++)
		strings_take(&list, mem_printf("V%d=x", i));
	CHECK_INT(variable_check_list(&list, &err), -1);
	strings_done(&list);
	memset(large, 'x', VARIABLE_BYTES + 2);
	memcpy(large, "A=", 2);
	strings_add(&list, large);
	CHECK_INT(variable_check_list(&list, &err), -1);
	CHECK_INT(err.code, ERR_TOO_LARGE);
	strings_done(&list);
}
