/* The walls are closed in the root of the sandbox and in no other. */
#include "init/walls.h"

#include <errno.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/caps.h"

TEST(in_the_root_that_was_to_be_left_nothing_can_run)
{
	struct walls walls = {.listener = -1};
	CHECK_INT(walls_remember_root(&walls), 0);
	CHECK_INT(walls_close(&walls), -EXDEV);
	CHECK(!walls.is_up);
	CHECK_INT(walls_close(&walls), -EXDEV);
}

TEST(in_another_they_close)
{
	struct walls walls = {.listener = -1};
	CHECK_INT(walls_remember_root(&walls), 0);
	walls.before_inode++;
	CHECK_INT(chdir("/"), 0);
	CHECK_INT(caps_no_new_privs(), 0);
	CHECK_INT(walls_close(&walls), 0);
	CHECK(walls.is_up);
}

TEST(who_was_born_in_its_root_has_none_to_leave)
{
	struct walls walls = {.listener = -1};
	CHECK_INT(chdir("/"), 0);
	CHECK_INT(caps_no_new_privs(), 0);
	CHECK_INT(walls_close(&walls), 0);
	CHECK(walls.is_up);
}
