/* The terminal that `sudo` was started in. */
#ifndef CLOCHE_SUDO_TERMINAL_H
#define CLOCHE_SUDO_TERMINAL_H

#include <stdbool.h>

bool is_terminal(int descriptor);
/* Returns whether the signals of the terminal that is the standard input reach this process. */
bool is_foreground(void);
/* Writes "columns rows" of the terminal that is the standard input, or of one of 80 times 24. */
void write_size(char *text);
/* Passes each key on as it comes: the terminal of the command makes signals of them. */
void make_raw(void);
/* Undoes `make_raw`, if it was called. */
void restore_terminal(void);

#endif
