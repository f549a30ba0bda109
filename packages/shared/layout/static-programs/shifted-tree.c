#include "shifted-tree.h"
#include "system.h"

#include <linux/mount.h>
#include <linux/sched.h>

#define IDS " 65536\n"

/* The path of a file of a process, such as /proc/12/uid_map. */
static void path_of(char *path, long pid, const char *name) {
    append(append(append_number(append(path, "/proc/"), (unsigned long)pid), "/"), name);
}

static void write_map(const char *program, long pid, const char *name, unsigned long first_id) {
    char path[64], line[64];
    path_of(path, pid, name);
    char *line_end = append(append_number(append(line, "0 "), first_id), IDS);
    long file = open_file(path, O_WRONLY);
    long error = file < 0 ? file : write_all((int)file, line, (size_t)(line_end - line));
    if (error < 0) die(program, name, error);
    close_descriptor((int)file);
}

int open_user_namespace(const char *program, unsigned long first_id) {
    char path[64], byte;
    int ends[2];
    long error = CALL_2(__NR_pipe2, ends, O_CLOEXEC);
    if (error < 0) die(program, "pipe", error);
    long pid = CALL_5(__NR_clone, CLONE_NEWUSER | SIGNAL_CHLD, 0, 0, 0, 0);
    if (pid < 0) die(program, "no user namespaces", pid);
    if (pid == 0) {
        /* The namespace needs a process until it is opened. */
        close_descriptor(ends[1]);
        read_some(ends[0], &byte, 1);
        end(0);
    }
    write_map(program, pid, "uid_map", first_id);
    write_map(program, pid, "gid_map", first_id);
    path_of(path, pid, "ns/user");
    int opened = (int)open_file(path, O_RDONLY);
    if (opened < 0) die(program, "user namespace", opened);
    close_descriptor(ends[0]);
    close_descriptor(ends[1]);
    CALL_4(__NR_wait4, pid, NULL, 0, NULL);
    return opened;
}

int open_shifted_tree(const char *program, const char *folder, int user_namespace, unsigned long attributes) {
    struct mount_attr change = {
        .attr_set = MOUNT_ATTR_IDMAP | attributes,
        .userns_fd = (unsigned int)user_namespace,
    };
    int tree = (int)CALL_3(__NR_open_tree, AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0) die(program, "open_tree", tree);
    long error = CALL_5(__NR_mount_setattr, tree, "", AT_EMPTY_PATH, &change, sizeof change);
    if (error < 0) die(program, "mount_setattr", error);
    return tree;
}
