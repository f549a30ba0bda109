#include "sudo-request.h"
#include "frames.h"
#include "sudo-terminal.h"

#include <linux/limits.h>

#define PART 4096

/* What is not sent yet, with room for the head of its frame. */
static struct {
    int agent;
    size_t length;
    uint8_t bytes[HEAD + PART];
} part;

static void send_part(char type) {
    write_head(part.bytes, type, part.length);
    /* An agent that refuses the request closes the connection, after a frame that says why. */
    write_all(part.agent, part.bytes, HEAD + part.length);
    part.length = 0;
}

static void add_bytes(const char *bytes, size_t length) {
    for (size_t at = 0; at < length; at++) {
        part.bytes[HEAD + part.length++] = (uint8_t)bytes[at];
        if (part.length == PART) send_part('A');
    }
}

static void add_text(const char *text) { add_bytes(text, length_of(text)); }

/* Each field but the first begins with NUL. */
static void add_field(const char *text) {
    add_bytes("", 1);
    add_text(text);
}

static void add_words(char *const *words, int count) {
    char text[32];
    append_number(text, (unsigned long)count);
    add_field(text);
    for (int each = 0; each < count; each++) add_field(words[each]);
}

/* With a group alone, the user stays who it is. */
static void add_user(const struct options *options) {
    char text[32];
    append_number(append(text, "#"), (unsigned long)CALL_1(__NR_getuid, 0));
    if (*options->user) add_text(options->user);
    else add_text(*options->group ? text : "root");
}

static void add_folder(const char *given) {
    char path[PATH_MAX + 1] = "";
    long length = CALL_4(__NR_readlinkat, AT_FDCWD, "/proc/self/cwd", path, PATH_MAX);
    if (length <= 0) append(path, "/");
    add_field(*given ? given : path);
}

void send_request(int agent, const struct options *options, const char *streams, char **environment) {
    char size[64];
    part.agent = agent;
    add_user(options);
    add_field(options->group);
    add_field(options->keeps_environment ? "E " : "");
    add_text(options->sets_home ? "H " : "");
    add_text(options->login ? "i " : "");
    add_text(options->shell ? "s " : "");
    add_text(streams);
    add_field(options->kept);
    add_folder(options->directory);
    write_size(size);
    add_field(size);
    add_words(options->command, options->command_count);
    add_words(options->assigned, options->assigned_count);
    for (; *environment; environment++) add_field(*environment);
    if (part.length > 0) send_part('A');
    send_part('S');
}
