/*
 * The role main of cloched: HTTP, store and the fleet, on one loop. Started by the broker without
 * a privilege; ends when the broker does or on SIGTERM, and leaves every sandbox running.
 */
#pragma once

/* The exit status of the process. */
int daemon_main(int argc, char **argv);
