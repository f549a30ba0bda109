#include "sudo-terminal.h"
#include "system.h"

#include <asm/termbits.h>
#include <asm/termios.h>

static struct termios kept;
static bool is_raw;

bool is_terminal(int descriptor) {
    struct termios state;
    return control(descriptor, TCGETS, &state) >= 0;
}

bool is_foreground(void) {
    int group = 0;
    return control(STDIN, TIOCGPGRP, &group) >= 0 && group == CALL_1(__NR_getpgid, 0);
}

void write_size(char *text) {
    struct winsize size = {0};
    control(STDIN, TIOCGWINSZ, &size);
    text = append(append_number(text, size.ws_col ? size.ws_col : 80), " ");
    append_number(text, size.ws_row ? size.ws_row : 24);
}

void make_raw(void) {
    if (control(STDIN, TCGETS, &kept) < 0) return;
    struct termios raw = kept;
    raw.c_iflag &= ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    is_raw = control(STDIN, TCSETSW, &raw) >= 0;
}

void restore_terminal(void) {
    if (is_raw) control(STDIN, TCSETSW, &kept);
    is_raw = false;
}
