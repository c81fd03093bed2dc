/*
 * `cloche inside VERB`: the file operations of a live sandbox, done by a process that is inside it.
 *
 * It runs as an ordinary exec of the sandbox (argv ["/run/cloche/cloche", "inside", VERB,
 * options…, "--", PATH…]), as the user the caller asked for, with no privilege: the kernel's own
 * checks, namespaces and limits decide what it may touch, so no path has to be judged outside and
 * a link can lead nowhere but elsewhere inside. Everything it prints comes from inside and is
 * therefore foreign bytes to the reader (wire/record.h parses them).
 *
 *	read [--offset N] [--length N] -- PATH
 *		Bytes of a regular file on stdout. Anything else (folder, FIFO, device) is refused.
 *	write [--mode OCTAL] [--parents] [--size N] -- PATH
 *		stdin to a temp file beside PATH, fsync, rename over PATH. A symlink at PATH is
 *		replaced, not followed. Without --mode an existing file keeps its mode, a new one
 *		gets 0644. With --size, an end of input before or bytes after N are an error and
 *		PATH stays as it was: give it whenever the length is known, and kill the exec
 *		instead of sending an end of input when an upload broke off.
 *	list -- PATH      stat records of a folder's entries (not "." and ".."), in no order
 *	stat -- PATH      the stat record of PATH itself (a symlink is not followed)
 *	mkdir [--parents] [--mode OCTAL] -- PATH
 *		With --parents an existing folder is no error.
 *	rename -- FROM TO
 *		As rename(2): replaces a file TO.
 *	remove [--recursive] -- PATH
 *		Refuses "/", "." and "..". Never crosses a mount point, never follows a link.
 *	watch [--recursive] -- PATH
 *		Change records of a folder (or of one file) until killed or until stdout is gone.
 *		The first record is "ready": changes after it are seen. Records name the entry
 *		relative to PATH ("" is PATH itself). Ends by itself when PATH is removed.
 *	pack -- PATH      tar on stdout: a folder's content, or the one file under its base name
 *	unpack [--parents] -- PATH
 *		tar from stdin into the folder PATH; entries that would leave it are refused.
 *
 * Relative paths count from the exec's cwd. Streams are copied in constant memory.
 *
 * Output records (list, stat, watch): one per line, fields separated by TAB, names escaped as
 * %XX. See wire/record.h, the one place that writes and reads them.
 *
 * Failure: exit status 1 and, as the first line of stderr, `code TAB message` with a code of
 * base/errors.def ("not_found", "forbidden", "invalid", "conflict", "no_space", "io", …). Bytes
 * already on stdout are then incomplete. Success: exit status 0, nothing on stderr.
 */
#pragma once

#include "base/base.h"

/* argv[0] is the verb. Returns the exit status of the process. */
int inside_main(int argc, char **argv);
