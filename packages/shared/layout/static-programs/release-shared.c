/*
 * Removes the System V segments of the user that no process has attached. gVisor keeps such segments for ever and has
 * no list of them: its SHM_INFO begins with the last number that it gave. Prints `held` if another segment is attached.
 * Runs as the user, because only the owner may remove a segment.
 */
#include "system.h"

#define REMOVE 0
#define IPC_STAT 2
#define SHM_INFO 14

/* The kernel's shmid64_ds, of which the number of processes that have the segment attached is read. */
struct segment {
    uint8_t before[88];
    uint64_t attached;
    uint8_t after[160];
};

int run(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    union {
        int last;
        uint8_t room[256];
    } info = {0};
    struct segment segment;
    bool is_held = false;
    if (CALL_3(__NR_shmctl, 0, SHM_INFO, &info) < 0) return 0;
    for (long number = 0; number <= info.last; number++) {
        if (CALL_3(__NR_shmctl, number, IPC_STAT, &segment) < 0) continue;
        if (segment.attached == 0) CALL_3(__NR_shmctl, number, REMOVE, NULL);
        else is_held = true;
    }
    if (is_held) write_all(STDOUT, "held", 4);
    return 0;
}
