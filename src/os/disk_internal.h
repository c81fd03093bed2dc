/* What disk.c and its backends share. Nobody else includes this. */
#pragma once

#include "os/disk.h"

#define DISK_FOLDER "disk"

int disk_quota_mark(int dir_fd, const struct disk_spec *spec) NODISCARD;
int disk_loop_mount(const struct disk_spec *spec, int sandbox_dir_fd, int *ret_fd) NODISCARD;
