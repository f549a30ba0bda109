/*
 * Runs one command in a root file system that is being built, as a user of that system and not of this machine:
 *   enter-root ROOT ID FIRST_ID FILES SETTINGS COMMAND...
 * Expects mount and process namespaces of its own. ID is a user and group of the file system. The files keep their
 * owners on the disk; while the command runs, they are shifted by FIRST_ID. FILES of this machine, separated by colons,
 * are visible read-only, at their paths or at the one after `>`. SETTINGS is a folder that becomes the home folder of
 * root, or empty.
 *
 * SECURITY: paths below ROOT are looked up as the command will see them. A link of a package that points outside, as
 * `/etc/resolv.conf` can be one, leads to a file of ROOT or to none (run-inside.runtime.test.ts).
 */
#include "shifted-tree.h"
#include "system.h"

#include <asm/stat.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/stat.h>
#include <linux/wait.h>

#define PROGRAM "enter-root"
#define ARGUMENTS_BEFORE_COMMAND 6
#define DETACH 2
#define SAFE (MS_NOSUID | MS_NODEV)

static const char *root;

/* Ends the process if the call before has failed. */
static long require(const char *what, long result) {
    if (result < 0) die(PROGRAM, what, result);
    return result;
}

/* Writes a path of this machine for what is at `path` in ROOT. Returns its descriptor, which has to stay open. */
static long find_inside(const char *path, char *found) {
    const struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int folder = (int)require(root, open_file(root, O_PATH | O_DIRECTORY));
    long descriptor = CALL_4(__NR_openat2, folder, path, &how, sizeof how);
    close_descriptor(folder);
    if (descriptor >= 0) append_number(append(found, "/proc/self/fd/"), (unsigned long)descriptor);
    return descriptor;
}

static void mount_inside(const char *path, const char *source, const char *type, unsigned long flags,
                         const char *data) {
    char target[64];
    int descriptor = (int)require(path, find_inside(path, target));
    require(path, CALL_5(__NR_mount, source, target, type, flags, data));
    close_descriptor(descriptor);
}

/* Needs a folder of a mount that was made here, which nothing else writes to. */
static void mount_device(const char *name) {
    char file[PATH_MAX], device[64], inside[64];
    if (length_of(root) > PATH_MAX - 64) die(PROGRAM, "root", ENAMETOOLONG);
    append(append(inside, "/dev/"), name);
    append(device, inside);
    append(append(file, root), inside);
    int created = (int)require(inside, CALL_4(__NR_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    close_descriptor(created);
    mount_inside(inside, device, NULL, MS_BIND, NULL);
}

static void make_devices(void) {
    char path[PATH_MAX];
    mount_inside("/dev", "tmpfs", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=16m");
    mount_device("null");
    mount_device("zero");
    mount_device("full");
    mount_device("random");
    mount_device("urandom");
    append(append(path, root), "/dev/fd");
    require(path, CALL_3(__NR_symlinkat, "/proc/self/fd", AT_FDCWD, path));
    append(append(path, root), "/dev/shm");
    require(path, CALL_3(__NR_mkdirat, AT_FDCWD, path, 01777));
    require(path, CALL_3(__NR_fchmodat, AT_FDCWD, path, 01777));
}

static bool has_content(const char *path, bool is_link) {
    struct stat status;
    long error = CALL_4(__NR_newfstatat, AT_FDCWD, path, &status, 0);
    return error >= 0 && (is_link ? (status.st_mode & S_IFMT) == S_IFREG : status.st_size > 0);
}

/* Binds a file of this machine, if it has content and ROOT has a file at this path. */
static void show_file(const char *file, const char *inside) {
    char target[64];
    int descriptor = (int)find_inside(inside, target);
    if (descriptor < 0) return;
    bool is_wanted = has_content(file, false) && has_content(target, true);
    if (is_wanted) {
        require(file, CALL_5(__NR_mount, file, target, NULL, MS_BIND, NULL));
        close_descriptor(descriptor);
        /* The name now leads to the file of this machine. */
        descriptor = (int)require(inside, find_inside(inside, target));
        require(file, CALL_5(__NR_mount, NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | SAFE, NULL));
    }
    close_descriptor(descriptor);
}

/* Ends each of the words in place. */
static void show_files(char *files) {
    while (*files) {
        char *file = files, *inside = files;
        while (*files && *files != ':') {
            if (*files == '>') {
                *files = 0;
                inside = files + 1;
            }
            files++;
        }
        if (*files) *files++ = 0;
        if (*file) show_file(file, inside);
    }
}

static void run_program(char **argv) {
    char *const no_variables[] = {NULL};
    int status = 0;
    long pid = require("fork", fork_process());
    if (pid == 0) {
        execute(argv[0], argv, (char **)no_variables);
        end(127);
    }
    require("wait", CALL_4(__NR_wait4, pid, &status, 0, NULL));
    if (status != 0) die(PROGRAM, argv[0], 0);
}

/* Makes the home folder of root, with a copy of `settings`. */
static void make_home(const char *settings, unsigned long first_id) {
    char owner[64], options[128], home[64], source[PATH_MAX];
    append_number(append(append_number(owner, first_id), ":"), first_id);
    append_number(append(append_number(append(options, "mode=700,uid="), first_id), ",gid="), first_id);
    mount_inside("/root", "tmpfs", "tmpfs", SAFE, options);
    if (!*settings) return;
    if (length_of(settings) > PATH_MAX - 8) die(PROGRAM, "settings", ENAMETOOLONG);
    append(append(source, settings), "/.");
    int descriptor = (int)require("/root", find_inside("/root", home));
    /* The programs started here find it by this process. */
    append(append_number(append(append_number(append(home, "/proc/"), (unsigned long)CALL_1(__NR_getpid, 0)), "/fd/"),
                         (unsigned long)descriptor),
           "/.");
    char *copy[] = {"cp", "-r", "--no-preserve=ownership", source, home, NULL};
    run_program(copy);
    char *give[] = {"chown", "-R", owner, home, NULL};
    run_program(give);
    close_descriptor(descriptor);
}

/* No other file of this machine can be reached afterwards. */
static void leave_machine(void) {
    require(root, CALL_1(__NR_chdir, root));
    require("pivot_root", CALL_2(__NR_pivot_root, ".", "."));
    require("umount2", CALL_2(__NR_umount2, ".", DETACH));
    require("/", CALL_1(__NR_chdir, "/"));
}

static void become_user(int user_namespace, unsigned long id) {
    uint32_t groups[] = {(uint32_t)id}, real, effective, saved;
    require("setns", CALL_2(__NR_setns, user_namespace, CLONE_NEWUSER));
    require("setgroups", CALL_2(__NR_setgroups, 1, groups));
    require("setresgid", CALL_3(__NR_setresgid, id, id, id));
    require("setresuid", CALL_3(__NR_setresuid, id, id, id));
    require("getresuid", CALL_3(__NR_getresuid, &real, &effective, &saved));
    if (real != id || effective != id || saved != id) die(PROGRAM, "ids", EPERM);
    require("getresgid", CALL_3(__NR_getresgid, &real, &effective, &saved));
    if (real != id || effective != id || saved != id) die(PROGRAM, "ids", EPERM);
    require("prctl", CALL_5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

static unsigned long number_of(const char *text, unsigned long largest) {
    unsigned long number;
    const char *rest = read_number(text, largest, &number);
    if (!rest || *rest) die(PROGRAM, "this is no number of a user", EINVAL);
    return number;
}

int run(int argc, char **argv, char **environment) {
    if (argc <= ARGUMENTS_BEFORE_COMMAND) die(PROGRAM, "ROOT ID FIRST_ID FILES SETTINGS COMMAND...", 0);
    root = argv[1];
    unsigned long id = number_of(argv[2], 65535), first_id = number_of(argv[3], UINT32_MAX - 65536);
    int user_namespace = open_user_namespace(PROGRAM, first_id);
    /* No set-id bits, no devices, owners shifted. */
    int tree = open_shifted_tree(PROGRAM, root, user_namespace, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    require("move_mount", CALL_5(__NR_move_mount, tree, "", AT_FDCWD, root, MOVE_MOUNT_F_EMPTY_PATH));
    close_descriptor(tree);
    mount_inside("/proc", "proc", "proc", SAFE | MS_NOEXEC, NULL);
    mount_inside("/tmp", "tmpfs", "tmpfs", SAFE, "mode=1777");
    make_devices();
    make_home(argv[5], first_id);
    show_files(argv[4]);
    leave_machine();
    become_user(user_namespace, id);
    char **command = argv + ARGUMENTS_BEFORE_COMMAND;
    die(PROGRAM, command[0], execute(command[0], command, environment));
}
