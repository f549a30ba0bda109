/*
 * The supervisor of a command: starts it, reaps all its descendants, and forwards its input and output. It exchanges
 * frames with the agent on descriptor 3.
 *
 *   from the agent  S  command to start (see command.h); the first frame, sent once
 *                   I  standard input    C  end of standard input    R  "columns rows" of the terminal
 *   to the agent    P  the command runs  F  the start failed: "CAUSE REASON"; the last frame
 *                      CAUSE is cwd, missing (no such program), exec or processes (the process limit is reached)
 *                   O  standard output   E  standard error           X  "exit N" or "signal N": the command has ended
 *
 * The supervisor ends when no descendant of the command is left. Output after the command's end is read and dropped.
 *
 * SECURITY: the supervisor keeps running as root of the sandbox, so that a command of the user cannot kill it and
 * escape from its process tree (packages/guest/agent/src/commands/commands.runtime.test.ts). It forwards output without
 * parsing it, and reads neither arguments nor environment. All its memory has a fixed size, but for the first frame's.
 */
#include "command.h"
#include "frames.h"
#include "system.h"

#include <linux/prctl.h>
#include <linux/wait.h>

#define AGENT 3
#define CHUNK 65536
#define MAX_PENDING (1 << 20)
#define MAX_LAST_WORDS (1 << 20)
#define NO_DESCRIPTOR (-1)
#define SHUT_WRITE 1

/* A frame's head and body, so that they are sent by one call. */
static uint8_t chunk[HEAD + CHUNK];

/* Input that the command has not taken yet. Twice the limit, so that it moves to the start only after as many bytes. */
static uint8_t pending[2 * MAX_PENDING + CHUNK];
static size_t pending_start, pending_end;

static struct started_command started;
static bool is_terminal, input_ends, has_ended;
/* Whether the agent sends no more frames. */
static bool told_all;
/* Readable when a child has ended. A handler could run right before the wait, which would then not notice. */
static int child_ends;

static size_t pending_length(void) { return pending_end - pending_start; }

/* Sends the body that is in `chunk`. Without the agent the sandbox ends. */
static void send_chunk(char type, size_t length) {
    write_head(chunk, type, length);
    if (write_all(AGENT, chunk, HEAD + length) < 0) end(1);
}

static void send_text(char type, const char *text, long number) {
    char *at = append((char *)chunk + HEAD, text);
    if (number >= 0) at = append_number(at, (unsigned long)number);
    send_chunk(type, (size_t)(at - (char *)chunk) - HEAD);
}

/*
 * Ends the process. If the agent wrote to a closed connection, the connection would be reset, and frames that the agent
 * has not read would be lost. So the agent closes its side first, unless it sends no more frames.
 */
static _Noreturn void leave(void) {
    CALL_2(__NR_shutdown, AGENT, SHUT_WRITE);
    while (!told_all) {
        long length = read_some(AGENT, chunk, sizeof chunk);
        if (length == 0 || (length < 0 && length != -EINTR)) break;
    }
    end(0);
}

static const char *cause_text(enum cause cause) {
    switch (cause) {
    case BAD_FOLDER: return "cwd ";
    case NO_PROGRAM: return "missing ";
    case NO_TERMINAL: return "exec no terminal: ";
    case NO_PROCESS: return "processes ";
    default: return "exec ";
    }
}

static _Noreturn void fail(struct failure failure) {
    char *at = append((char *)chunk + HEAD, cause_text(failure.cause));
    at = append(at, error_text(failure.error));
    send_chunk('F', (size_t)(at - (char *)chunk) - HEAD);
    leave();
}

static void read_exactly(uint8_t *bytes, size_t length) {
    while (length > 0) {
        long got = read_some(AGENT, bytes, length);
        if (got == -EINTR) continue;
        if (got <= 0) end(1);
        bytes += got;
        length -= (size_t)got;
    }
}

/* Waits for the first frame. Ends the process if it is none that starts a command. */
static void receive_command(struct command *command) {
    uint8_t head[HEAD];
    read_exactly(head, HEAD);
    uint32_t length = body_length(head);
    if (head[0] != 'S') end(1);
    /* The kernel refuses less than that. */
    if (length > MAX_COMMAND_BYTES) fail((struct failure){NOT_STARTED, E2BIG});
    char *text = allocate(length + 1UL);
    if (!text) fail((struct failure){NOT_STARTED, ENOMEM});
    read_exactly((uint8_t *)text, length);
    long error = parse_command(command, text, length);
    if (error == -EINVAL) end(1);
    if (error < 0) fail((struct failure){NOT_STARTED, error});
}

static void resize(const char *text) {
    unsigned long columns, rows;
    const char *rest = read_number(text, UINT16_MAX, &columns);
    if (!is_terminal || !rest || *rest != ' ' || !read_number(rest + 1, UINT16_MAX, &rows)) return;
    resize_terminal(started.input, columns, rows);
}

static void close_input_if_over(void) {
    if (started.input == NO_DESCRIPTOR || !input_ends || pending_length() > 0 || is_terminal) return;
    close_descriptor(started.input);
    started.input = NO_DESCRIPTOR;
}

/* The receiver has less than MAX_PENDING bytes, and gets at most CHUNK. */
static void add_pending(const uint8_t *bytes, size_t length) {
    if (started.input == NO_DESCRIPTOR) return;
    if (pending_end + length > sizeof pending) {
        memmove(pending, pending + pending_start, pending_length());
        pending_end -= pending_start;
        pending_start = 0;
    }
    memcpy(pending + pending_end, bytes, length);
    pending_end += length;
}

static void begin_frame(char type) { (void)type; }

static void take_body(char type, const uint8_t *bytes, size_t length) {
    if (type == 'I') add_pending(bytes, length);
}

static void finish_frame(char type, const char *text) {
    if (type == 'C') input_ends = told_all = true;
    else if (type == 'R') resize(text);
}

static void receive(void) {
    static struct frame frame;
    static const struct receiver receiver = {begin_frame, take_body, finish_frame};
    long length = read_some(AGENT, chunk, CHUNK);
    if (length == -EINTR) return;
    if (length <= 0) end(1);
    take_bytes(&frame, &receiver, chunk, (size_t)length);
    close_input_if_over();
}

static void feed(void) {
    size_t length = pending_length() < CHUNK ? pending_length() : CHUNK;
    long written = write_some(started.input, pending + pending_start, length);
    if (written >= 0) {
        pending_start += (size_t)written;
    } else if (written != -EAGAIN && written != -EINTR) {
        pending_start = pending_end;
        input_ends = true;
    }
    if (pending_length() == 0) pending_start = pending_end = 0;
    close_input_if_over();
}

/* Forwards a chunk of output. Returns whether there was any. */
static bool forward(struct output *output) {
    long length = read_some(output->descriptor, chunk + HEAD, CHUNK);
    if (length > 0) {
        if (!has_ended) send_chunk(output->type, (size_t)length);
        return true;
    }
    /* A terminal reports its end as an error. */
    if (length == 0 || length == -EIO) {
        if (output->descriptor != started.input) close_descriptor(output->descriptor);
        output->descriptor = NO_DESCRIPTOR;
    }
    return false;
}

/* Sends what the command has printed until its end, and then how it ended. */
static void report_end(int status) {
    for (size_t each = 0; each < OUTPUTS; each++) {
        struct output *output = &started.outputs[each];
        for (long left = MAX_LAST_WORDS; left > 0 && output->descriptor != NO_DESCRIPTOR; left -= CHUNK)
            if (!forward(output)) break;
    }
    if (status & 127) send_text('X', "signal ", status & 127);
    else send_text('X', "exit ", status >> 8 & 255);
    has_ended = true;
}

static void reap(void) {
    for (;;) {
        int status = 0;
        long pid = CALL_4(__NR_wait4, -1, &status, WNOHANG, NULL);
        if (pid == 0) return;
        if (pid < 0) leave();
        if (pid == started.pid) report_end(status);
    }
}

static void serve(void) {
    bool has_room = pending_length() < MAX_PENDING, has_input = started.input != NO_DESCRIPTOR && pending_length() > 0;
    descriptors reads = descriptor_bit(child_ends) | (has_room ? descriptor_bit(AGENT) : 0);
    descriptors writes = has_input ? descriptor_bit(started.input) : 0;
    for (size_t each = 0; each < OUTPUTS; each++) reads |= descriptor_bit(started.outputs[each].descriptor);
    if (wait_for(&reads, &writes) < 1) return;
    if (reads & descriptor_bit(child_ends)) read_some(child_ends, chunk, CHUNK);
    for (size_t each = 0; each < OUTPUTS; each++)
        if (reads & descriptor_bit(started.outputs[each].descriptor)) forward(&started.outputs[each]);
    if (reads & descriptor_bit(AGENT)) receive();
    if (writes & descriptor_bit(started.input) && pending_length() > 0) feed();
    /* Always, because a child may have ended while something else was done. */
    reap();
}

int run(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    struct command command;
    CALL_3(__NR_fcntl, AGENT, F_SETFD, FD_CLOEXEC);
    receive_command(&command);
    is_terminal = command.is_terminal;
    told_all = !command.is_terminal && !command.has_input;
    CALL_5(__NR_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    on_signal(SIGNAL_PIPE, SIGNAL_IGNORE);
    change_signals(BLOCK_SIGNALS, signal_bit(SIGNAL_CHLD));
    child_ends = (int)open_signals(signal_bit(SIGNAL_CHLD));
    if (child_ends < 0) end(1);
    struct failure failure = start_command(&command, &started);
    if (failure.cause != NO_FAILURE) fail(failure);
    send_text('P', "", -1);
    for (;;) serve();
}
