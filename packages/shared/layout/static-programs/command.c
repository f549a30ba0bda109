#include "command.h"
#include "system.h"

#include <asm/termios.h>

#define OOM_SCORE "600"
#define NO_DESCRIPTOR (-1)
#define FIELDS_BEFORE_ARGUMENTS 8

/* Ends of pipes: reading, writing. */
struct pipe {
    int reader, writer;
};

/* The descriptors that the command gets. */
struct streams {
    int in, out, err;
};

static size_t count_fields(const char *text, size_t length) {
    size_t count = 1;
    for (size_t at = 0; at < length; at++) count += text[at] == 0;
    return count;
}

static bool read_field(const char *field, unsigned long largest, unsigned long *number) {
    const char *rest = read_number(field, largest, number);
    return rest && !*rest;
}

/* An empty size is none. */
static bool read_size(const char *field, unsigned long *number) {
    *number = 0;
    return !*field || read_field(field, UINT16_MAX, number);
}

/* Reads the fields before the arguments. Returns the number of arguments, or -EINVAL. */
static long parse_head(struct command *command, char *const *fields, size_t count) {
    unsigned long uid, gid, arguments;
    if (count < FIELDS_BEFORE_ARGUMENTS) return -EINVAL;
    command->is_terminal = is_equal(fields[0], "terminal");
    if (!command->is_terminal && !is_equal(fields[0], "pipes")) return -EINVAL;
    if (!read_field(fields[1], UINT32_MAX - 1, &uid) || !read_field(fields[2], UINT32_MAX - 1, &gid)) return -EINVAL;
    command->uid = (uint32_t)uid;
    command->gid = (uint32_t)gid;
    command->cwd = fields[3];
    command->has_input = is_equal(fields[4], "1");
    if (!read_size(fields[5], &command->columns) || !read_size(fields[6], &command->rows)) return -EINVAL;
    if (!read_field(fields[7], count - FIELDS_BEFORE_ARGUMENTS, &arguments) || arguments == 0) return -EINVAL;
    return (long)arguments;
}

long parse_command(struct command *command, char *text, size_t length) {
    size_t count = count_fields(text, length);
    if (count * sizeof(char *) > MAX_COMMAND_BYTES) return -E2BIG;
    /* The arguments move one to the left, which makes room for the NULL behind them. */
    char **fields = allocate((count + 1) * sizeof(char *));
    if (!fields) return -ENOMEM;
    for (size_t each = 0; each < count; each++, text += length_of(text) + 1) fields[each] = text;
    long arguments = parse_head(command, fields, count);
    if (arguments < 0) return arguments;
    command->argv = fields + FIELDS_BEFORE_ARGUMENTS - 1;
    for (long each = 0; each < arguments; each++) command->argv[each] = command->argv[each + 1];
    command->argv[arguments] = NULL;
    command->environment = command->argv + arguments + 1;
    char **kept = command->environment;
    for (char **each = kept; *each; each++) {
        const char *at = *each;
        while (*at && *at != '=') at++;
        if (*at) *kept++ = *each;
    }
    *kept = NULL;
    return 0;
}

void resize_terminal(int terminal, unsigned long columns, unsigned long rows) {
    struct winsize size = {.ws_row = (uint16_t)rows, .ws_col = (uint16_t)columns};
    control(terminal, TIOCSWINSZ, &size);
}

static long open_pipe(struct pipe *pipe) { return CALL_2(__NR_pipe2, pipe, O_CLOEXEC); }

/* Ends the process if it keeps a right, or a group of root. */
static void drop_privileges(uint32_t uid, uint32_t gid) {
    bool was_root = CALL_1(__NR_geteuid, 0) == 0;
    uint32_t real, effective, saved;
    if (CALL_2(__NR_setgroups, 0, NULL) < 0 && was_root) end_by_signal(SIGNAL_KILL);
    CALL_3(__NR_setresgid, gid, gid, gid);
    CALL_3(__NR_setresuid, uid, uid, uid);
    if (CALL_3(__NR_getresgid, &real, &effective, &saved) < 0) end_by_signal(SIGNAL_KILL);
    if (real != gid || effective != gid || saved != gid) end_by_signal(SIGNAL_KILL);
    if (CALL_3(__NR_getresuid, &real, &effective, &saved) < 0) end_by_signal(SIGNAL_KILL);
    if (real != uid || effective != uid || saved != uid) end_by_signal(SIGNAL_KILL);
}

/* When memory runs out, the kernel kills commands before their supervisors. */
static void raise_oom_score(void) {
    int score = (int)open_file("/proc/self/oom_score_adj", O_WRONLY);
    if (score < 0) return;
    write_some(score, OOM_SCORE, sizeof OOM_SCORE - 1);
    close_descriptor(score);
}

/* Executes the program in the child. All other descriptors are closed by then. Tells its parent why it could not. */
static _Noreturn void become_command(const struct command *command, struct streams streams, int reason_writer) {
    on_signal(SIGNAL_PIPE, SIGNAL_DEFAULT);
    change_signals(UNBLOCK_SIGNALS, signal_bit(SIGNAL_CHLD));
    CALL_1(__NR_setsid, 0);
    if (command->is_terminal) control(streams.in, TIOCSCTTY, NULL);
    if (streams.in != NO_DESCRIPTOR) CALL_3(__NR_dup3, streams.in, STDIN, 0);
    CALL_3(__NR_dup3, streams.out, STDOUT, 0);
    CALL_3(__NR_dup3, streams.err, STDERR, 0);
    raise_oom_score();
    if (command->uid != 0 || command->gid != 0) drop_privileges(command->uid, command->gid);
    struct failure failure = {BAD_FOLDER, CALL_1(__NR_chdir, command->cwd)};
    if (failure.error >= 0) {
        failure.error = execute(command->argv[0], command->argv, command->environment);
        failure.cause = failure.error == -ENOENT ? NO_PROGRAM : NOT_STARTED;
    }
    write_all(reason_writer, &failure, sizeof failure);
    end_by_signal(SIGNAL_KILL);
}

/* Forks, and waits until the child runs the program or says why not. */
static struct failure start(const struct command *command, struct started_command *started, struct streams streams) {
    struct pipe reason;
    struct failure failure = {NO_FAILURE, 0};
    long error = open_pipe(&reason);
    if (error < 0) return (struct failure){NOT_STARTED, error};
    started->pid = fork_process();
    if (started->pid < 0) return (struct failure){NO_PROCESS, started->pid};
    if (started->pid == 0) become_command(command, streams, reason.writer);
    close_descriptor(reason.writer);
    while (read_some(reason.reader, &failure, sizeof failure) == -EINTR) {}
    close_descriptor(reason.reader);
    if (streams.in != NO_DESCRIPTOR) close_descriptor(streams.in);
    if (streams.out != streams.in) close_descriptor(streams.out);
    if (streams.err != streams.out) close_descriptor(streams.err);
    return failure;
}

/* The command may open them by name, as /dev/stdout. */
static void give(int descriptor, const struct command *command) {
    CALL_3(__NR_fchown, descriptor, command->uid, command->gid);
}

static struct failure start_with_pipes(const struct command *command, struct started_command *started) {
    struct pipe in = {NO_DESCRIPTOR, NO_DESCRIPTOR}, out, err;
    long error = open_pipe(&out);
    if (error >= 0) error = open_pipe(&err);
    if (error >= 0 && command->has_input) error = open_pipe(&in);
    if (error < 0) return (struct failure){NOT_STARTED, error};
    give(out.writer, command);
    give(err.writer, command);
    make_nonblocking(out.reader);
    make_nonblocking(err.reader);
    if (command->has_input) {
        give(in.reader, command);
        make_nonblocking(in.writer);
    }
    started->input = in.writer;
    started->outputs[0] = (struct output){out.reader, 'O'};
    started->outputs[1] = (struct output){err.reader, 'E'};
    return start(command, started, (struct streams){in.reader, out.writer, err.writer});
}

static struct failure start_in_terminal(const struct command *command, struct started_command *started) {
    char path[32];
    int unlocked = 0;
    unsigned int number = 0;
    int master = (int)open_file("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (master < 0) return (struct failure){NO_TERMINAL, master};
    control(master, TIOCSPTLCK, &unlocked);
    control(master, TIOCGPTN, &number);
    append_number(append(path, "/dev/pts/"), number);
    int slave = (int)open_file(path, O_RDWR | O_NOCTTY);
    if (slave < 0) return (struct failure){NO_TERMINAL, slave};
    CALL_3(__NR_fchown, slave, command->uid, -1);
    resize_terminal(master, command->columns, command->rows);
    make_nonblocking(master);
    started->input = master;
    started->outputs[0] = (struct output){master, 'O'};
    started->outputs[1] = (struct output){NO_DESCRIPTOR, 'E'};
    return start(command, started, (struct streams){slave, slave, slave});
}

struct failure start_command(const struct command *command, struct started_command *started) {
    started->pid = 0;
    return command->is_terminal ? start_in_terminal(command, started) : start_with_pipes(command, started);
}
