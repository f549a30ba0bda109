/* The command of a supervisor: what the agent asks for, and how it is started. */
#ifndef CLOCHE_COMMAND_H
#define CLOCHE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel takes at most 6 MiB of arguments and variables, their addresses included. */
#define MAX_COMMAND_BYTES (8UL << 20)
#define OUTPUTS 2

struct command {
    bool is_terminal, has_input;
    uint32_t uid, gid;
    const char *cwd;
    unsigned long columns, rows;
    /* End with NULL. */
    char **argv, **environment;
};

struct output {
    /* -1 if the command has none, or closed it. */
    int descriptor;
    /* Of the frames that carry it. */
    char type;
};

struct started_command {
    long pid;
    /* The write end of the command's input, or -1. In a terminal it is that of the output too. */
    int input;
    struct output outputs[OUTPUTS];
};

enum cause { NO_FAILURE, BAD_FOLDER, NO_PROGRAM, NO_TERMINAL, NOT_STARTED, NO_PROCESS };

/* Why a command did not start. */
struct failure {
    enum cause cause;
    long error;
};

/*
 * Reads the body of a frame S, of `length` bytes and one that is zero: fields separated by NUL.
 *   "terminal" or "pipes", uid, gid, cwd, "1" with input, columns, rows, number of arguments, arguments, variables
 * The pointers of the command refer to `text`. Returns 0, -EINVAL if the fields are malformed, -E2BIG or -ENOMEM.
 */
long parse_command(struct command *command, char *text, size_t length);

/* Returns once the process runs the program. */
struct failure start_command(const struct command *command, struct started_command *started);

void resize_terminal(int terminal, unsigned long columns, unsigned long rows);

#endif
