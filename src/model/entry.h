/*
 * "key=value" texts as people write them: environment variables and labels. Pure checks; the
 * messages name the entry but never show the value of a variable (it may be a secret).
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

/* [A-Za-z_][A-Za-z0-9_]*, at most 255 bytes. */
bool entry_is_env_name(const char *name);
/* "NAME=value" with a valid name. ERR_INVALID. */
int entry_check_env(const char *entry, struct err *err) NODISCARD;
/* "key=value": key is [a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?, value at most 255 bytes of UTF-8
 * without control characters. ERR_INVALID. */
int entry_check_label(const char *entry, struct err *err) NODISCARD;
/* Every entry valid, none twice, no more than the hard caps allow. */
int entry_check_env_list(const struct strings *env, struct err *err) NODISCARD;
int entry_check_label_list(const struct strings *labels, struct err *err) NODISCARD;
