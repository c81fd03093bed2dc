/*
 * The `host` image: what lies around the read-only binds of the machine's /usr. A clean /etc (own
 * texts, and copies of a short table of world-readable files: certificates, alternatives, linker
 * cache), homes, /var, mount points, and top-level links as on the machine. Nothing that is secret
 * or tells this machine from another: no shadow, no keys, no machine id, no host name.
 * hostimage.def is the whole content. Worker role.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "worker/digest.h"

/* Into an empty directory, on disk when it returns. Owners are root and, when below `ids`, the
 * agent's 1000. A failure leaves nothing behind. */
int hostimage_build(int dir_fd, int host_root_fd, uint64_t ids, struct err *err) NODISCARD;
/* Changes whenever hostimage_build would give something else: hashes our own texts and the names,
 * sizes and times of the sources. */
int hostimage_fingerprint(int host_root_fd, struct digest_text *ret, struct err *err) NODISCARD;
