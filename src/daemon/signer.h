/*
 * `cloched agent`: keys and signatures for agent manifests, made where the files are, so that a
 * private key never leaves its owner's process. `cloche agent keygen` and `sign` become this.
 */
#pragma once

/* argv without the word "agent". The exit status of the process. */
int signer_main(int argc, char **argv);
