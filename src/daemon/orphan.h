/*
 * Sandboxes that were made for one command and belong to the client that asked for it. The daemon
 * removes them when the command ends or the client leaves; where it was killed at that moment, or
 * the client was, nobody would. So whoever carries the mark and has nothing to do for a while goes.
 * Part of the sweep. One thread.
 */
#pragma once

#include "base/base.h"

struct fleet;

void orphan_sweep(struct fleet *fleet);
