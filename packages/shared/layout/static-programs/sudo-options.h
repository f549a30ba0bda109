/* The command line of `sudo`. */
#ifndef CLOCHE_SUDO_OPTIONS_H
#define CLOCHE_SUDO_OPTIONS_H

#include <stdbool.h>

struct options {
    const char *user, *group, *directory;
    /* Names of variables to keep, with commas between them. */
    const char *kept;
    bool background, keeps_environment, sets_home, login, shell;
    /* NAME=VALUE of variables, and the command. Both may be of no words. */
    char *const *assigned, *const *command;
    int assigned_count, command_count;
};

/* Reads the words. Prints what they ask for, or what is wrong with them, and ends the process then. */
void parse_options(struct options *options, int count, char **words);

/* Prints "sudo: " and the text, and ends the process with status 1. */
_Noreturn void fail_sudo(const char *text, const char *more);

#endif
