/* Reading a directory fails on request, in whatever is linked into the test. */
#pragma once

/* What every readdir fails with from now on; 0: none does. */
extern int readdir_error;
