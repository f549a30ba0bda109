/* The request of `sudo` to the agent. */
#ifndef CLOCHE_SUDO_REQUEST_H
#define CLOCHE_SUDO_REQUEST_H

#include "sudo-options.h"

/*
 * Sends the fields of a request, separated by NUL, in frames A, and then a frame S: user, group, flags, variables to
 * keep, folder, size of the terminal, number of arguments, arguments, number of assignments, assignments, environment.
 * `streams` is a flag too: "terminal", "merged" or none.
 */
void send_request(int agent, const struct options *options, const char *streams, char **environment);

#endif
