/*
 * `cloched tunnel`: connects to a daemon elsewhere for a command line that has no resolver and no
 * TLS, and carries bytes between a socket it was given and the connection. Checks the other side's
 * certificate against the machine's list, or against the file in CLOCHE_CA.
 */
#pragma once

/* argv without the word "tunnel". The exit status of the process. */
int tunnel_main(int argc, char **argv);
