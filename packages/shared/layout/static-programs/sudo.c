/*
 * The program `sudo` of a sandbox: asks the agent to run a command as another user, and forwards its input, output and
 * signals. It has no rights of its own. Frames are those of `agent/src/sudo/sudo-server.ts`.
 *
 *   to the agent    A  a part of the request, at most 4096 bytes    S  the end of the request
 *                   I  standard input    C  its end    R  "columns rows" of the terminal    K  a number of a signal
 *   from the agent  O  standard output   E  standard error
 *                   X  "exit N" or "signal N": the command has ended    F  why it could not be started
 *
 * The first argument is the path of the agent's socket. The others are those of sudo.
 */
#include "frames.h"
#include "sudo-options.h"
#include "sudo-request.h"
#include "sudo-terminal.h"
#include "system.h"

#include <asm/stat.h>
#include <linux/un.h>

#define PART 4096
#define MAX_PENDING 65536
#define SOCKET_STREAM 1
#define SIGNAL_CONT 18
#define SIGNAL_WINCH 28
#define SIGNAL_INFO_BYTES 128
#define ABSENT \
    "only sandboxes that E2B's clients have created have sudo, unless the operator has switched it off" \
    " (CLOCHE_E2B_SUDO=off); run the command with the user root of the API"

struct buffer {
    size_t start, end;
    uint8_t bytes[MAX_PENDING + 2 * (HEAD + PART)];
};

/* Frames for the agent, output, errors. */
static struct buffer to_agent, output, errors;
static int agent, arrived;
static bool in_terminal, reads_input, is_resized, has_ended;
/* How the command has ended: with a status or by a signal. */
static int end_status, end_signal;

static size_t length_in(const struct buffer *buffer) { return buffer->end - buffer->start; }

/* HUP, INT, QUIT, USR1, USR2, TERM, CONT and WINCH. */
static uint64_t forwarded_signals(void) {
    return signal_bit(1) | signal_bit(SIGNAL_INT) | signal_bit(3) | signal_bit(10) | signal_bit(12) | signal_bit(15) |
           signal_bit(SIGNAL_CONT) | signal_bit(SIGNAL_WINCH);
}

static _Noreturn void fail(const char *text, const char *more) {
    restore_terminal();
    fail_sudo(text, more);
}

static void end_by(int signal) {
    end_signal = signal;
    has_ended = true;
}

/* The callers leave room for it. */
static void add(struct buffer *buffer, const void *bytes, size_t length) {
    if (length > sizeof buffer->bytes - buffer->end) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, length_in(buffer));
        buffer->end -= buffer->start;
        buffer->start = 0;
    }
    if (length > sizeof buffer->bytes - buffer->end) end_by_signal(SIGNAL_KILL);
    memcpy(buffer->bytes + buffer->end, bytes, length);
    buffer->end += length;
}

/* Writes from a buffer. Returns false if the receiver takes nothing any more. */
static bool flush(struct buffer *buffer, int descriptor, size_t most) {
    size_t length = length_in(buffer) < most ? length_in(buffer) : most;
    long written = write_some(descriptor, buffer->bytes + buffer->start, length);
    bool is_gone = written < 0 && written != -EAGAIN && written != -EINTR;
    if (written > 0) buffer->start += (size_t)written;
    if (is_gone || length_in(buffer) == 0) buffer->start = buffer->end = 0;
    return !is_gone;
}

static void send_frame(char type, const void *body, size_t length) {
    uint8_t head[HEAD];
    write_head(head, type, length);
    add(&to_agent, head, HEAD);
    add(&to_agent, body, length);
    flush(&to_agent, agent, MAX_PENDING);
}

static void read_input(void) {
    uint8_t bytes[PART];
    long length = read_some(STDIN, bytes, sizeof bytes);
    if (length == -EINTR || length == -EAGAIN) return;
    if (length > 0) return send_frame('I', bytes, (size_t)length);
    reads_input = false;
    send_frame('C', "", 0);
}

static void begin_frame(char type) {
    if (type != 'F') return;
    restore_terminal();
    write_all(STDERR, "sudo: ", 6);
}

static void take_body(char type, const uint8_t *bytes, size_t length) {
    if (type == 'O') add(&output, bytes, length);
    else if (type == 'E') add(&errors, bytes, length);
    else if (type == 'F') write_all(STDERR, bytes, length);
}

static void finish_frame(char type, const char *text) {
    unsigned long number = 0;
    if (type == 'F') {
        write_all(STDERR, "\n", 1);
        end(1);
    }
    if (type != 'X') return;
    bool is_exit = begins_with(text, "exit ");
    read_number(text + (is_exit ? 5 : begins_with(text, "signal ") ? 7 : 0), 255, &number);
    if (is_exit) end_status = (int)number;
    else end_signal = (int)number & 127;
    has_ended = true;
}

static void receive(void) {
    static uint8_t bytes[MAX_PENDING];
    static struct frame frame;
    static const struct receiver receiver = {begin_frame, take_body, finish_frame};
    long got = read_some(agent, bytes, sizeof bytes);
    if (got == -EINTR || got == -EAGAIN) return;
    if (got <= 0) fail("the agent has closed the connection", "");
    take_bytes(&frame, &receiver, bytes, (size_t)got);
}

static void take_signals(void) {
    uint8_t info[SIGNAL_INFO_BYTES];
    char text[32];
    while (read_some(arrived, info, sizeof info) == sizeof info) {
        int number = info[0];
        if (number == SIGNAL_WINCH) {
            is_resized = in_terminal;
        } else if (length_in(&to_agent) > 0) {
            /* The command takes no input, so that the signal would not reach it: it ends with the connection. */
            if (number != SIGNAL_CONT) end_by(number);
        } else {
            send_frame('K', text, (size_t)(append_number(text, (unsigned long)number) - text));
        }
    }
}

/* Only one size waits, however often it changes while the agent does not read. */
static void send_size(void) {
    char text[64];
    if (!is_resized || length_in(&to_agent) >= MAX_PENDING) return;
    write_size(text);
    send_frame('R', text, length_of(text));
    is_resized = false;
}

/* A pipe that can be written takes this many bytes at once. */
static void print_from(struct buffer *buffer, int descriptor, descriptors writes) {
    if (length_in(buffer) == 0 || !(writes & descriptor_bit(descriptor))) return;
    if (!flush(buffer, descriptor, PART)) end_by(SIGNAL_PIPE);
}

static void serve(void) {
    bool is_full = length_in(&output) > 0 || length_in(&errors) > 0, has_room = length_in(&to_agent) < MAX_PENDING;
    descriptors reads = descriptor_bit(arrived), writes = 0;
    if (!is_full && !has_ended) reads |= descriptor_bit(agent);
    if (reads_input && has_room && !has_ended) reads |= descriptor_bit(STDIN);
    if (length_in(&to_agent) > 0 && !has_ended) writes |= descriptor_bit(agent);
    if (length_in(&output) > 0) writes |= descriptor_bit(STDOUT);
    if (length_in(&errors) > 0) writes |= descriptor_bit(STDERR);
    if (wait_for(&reads, &writes) < 1) return;
    if (reads & descriptor_bit(arrived)) take_signals();
    print_from(&output, STDOUT, writes);
    print_from(&errors, STDERR, writes);
    if (writes & descriptor_bit(agent)) flush(&to_agent, agent, MAX_PENDING);
    if (reads & descriptor_bit(agent)) receive();
    if (reads & descriptor_bit(STDIN)) read_input();
    send_size();
}

static _Noreturn void leave(void) {
    restore_terminal();
    if (end_signal == 0) end(end_status);
    /* Ends by the same signal, so that a shell that waits learns of it. */
    for (int number = 1; number <= 15; number++) on_signal(number, SIGNAL_DEFAULT);
    change_signals(UNBLOCK_SIGNALS, forwarded_signals());
    end_by_signal(end_signal);
}

static bool is_same_file(int one, int other) {
    struct stat first, second;
    if (CALL_2(__NR_fstat, one, &first) < 0 || CALL_2(__NR_fstat, other, &second) < 0) return false;
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

static void connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = 1};
    if (length_of(path) >= sizeof address.sun_path) fail("no answer: ", error_text(ENAMETOOLONG));
    append(address.sun_path, path);
    agent = (int)CALL_3(__NR_socket, address.sun_family, SOCKET_STREAM | O_CLOEXEC, 0);
    if (agent < 0) fail("no socket: ", error_text(agent));
    long error = CALL_3(__NR_connect, agent, &address, sizeof address);
    if (error == -ENOENT || error == -ECONNREFUSED) fail(ABSENT, "");
    if (error < 0) fail("no answer: ", error_text(error));
}

/* The socket would otherwise become one of the standard streams that the caller has closed. */
static void open_standard_streams(void) {
    int null;
    do null = (int)CALL_4(__NR_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
    while (null >= 0 && null <= STDERR);
    if (null > STDERR) close_descriptor(null);
}

int run(int argc, char **argv, char **environment) {
    struct options options = {0};
    if (argc < 2) return 1;
    open_standard_streams();
    parse_options(&options, argc - 2, argv + 2);
    bool has_terminal = is_terminal(STDIN);
    /* With input and output of a terminal, the command gets a terminal of its own, as from sudo's `use_pty`. */
    in_terminal = has_terminal && is_terminal(STDOUT) && !options.background && is_foreground();
    bool is_merged = !is_terminal(STDERR) && is_same_file(STDOUT, STDERR);
    connect_to(argv[1]);
    long child = options.background ? fork_process() : 0;
    if (child < 0) fail("no process: ", error_text(child));
    if (child > 0) return 0;
    on_signal(SIGNAL_PIPE, SIGNAL_IGNORE);
    const char *streams = in_terminal ? "terminal" : is_merged ? "merged" : "";
    send_request(agent, &options, streams, environment);
    /* A job in the background would be stopped if it read from the terminal. */
    reads_input = !has_terminal || is_foreground();
    change_signals(BLOCK_SIGNALS, forwarded_signals());
    arrived = (int)open_signals(forwarded_signals());
    if (arrived < 0) fail("signalfd: ", error_text(arrived));
    make_nonblocking(agent);
    if (in_terminal) make_raw();
    while (!has_ended || length_in(&output) > 0 || length_in(&errors) > 0) serve();
    leave();
}
