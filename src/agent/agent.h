/*
 * cloche-agent: a small agent that works inside a sandbox. Speaks the Agent Client Protocol on its
 * stdio and chat completions to the model gateway; its tools run as the user of the sandbox. One
 * thread, blocking; while it waits for the model or for a command it listens for session/cancel.
 * It may not depend on anything that the image must bring but /bin/sh.
 */
#pragma once

#include "base/base.h"

/* The role's main: argv behind the role's word. */
int agent_main(int argc, char **argv);
