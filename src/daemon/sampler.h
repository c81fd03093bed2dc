/*
 * The disk backend "sampled" has no limit in the kernel: somebody must count. While sandboxes with
 * it run, each is measured about once a second (a jailed worker of the broker walks its files), one
 * at a time, and its keeper is told; what follows is the keeper's decision (keeper/sampled.c).
 * Large trees and many sandboxes are measured less often, so that counting stays a small part of
 * one processor.
 */
#pragma once

struct fleet;

void sampler_start(struct fleet *fleet);
void sampler_stop(struct fleet *fleet);
