/*
 * Replaces the C library for the programs of this folder: system calls, memory, parsing of numbers and error messages.
 * A call returns a negative error number when it fails. The structures are those of the kernel's own headers.
 */
#ifndef CLOCHE_SYSTEM_H
#define CLOCHE_SYSTEM_H

#include <asm/errno.h>
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STDIN 0
#define STDOUT 1
#define STDERR 2

#define SIGNAL_INT 2
#define SIGNAL_KILL 9
#define SIGNAL_PIPE 13
#define SIGNAL_CHLD 17
#define SIGNAL_DEFAULT 0
#define SIGNAL_IGNORE 1

/* Each program defines it. The three lists end with NULL. The program exits with what it returns. */
int run(int argc, char **argv, char **environment);

/* The compiler emits calls of these by itself. */
void *memcpy(void *to, const void *from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *memset(void *to, int value, size_t length);
int memcmp(const void *one, const void *other, size_t length);

size_t length_of(const char *text);
bool is_equal(const char *one, const char *other);
bool begins_with(const char *text, const char *start);
/* Copies a text and its end into a buffer that is large enough. Returns where its end is. */
char *append(char *to, const char *text);
char *append_number(char *to, unsigned long number);
/* Reads decimal digits. Returns the first character after them, or NULL without digits or above `largest`. */
const char *read_number(const char *text, unsigned long largest, unsigned long *number);
/* Returns the text of an error number, as strerror of the GNU C library in the C locale. */
const char *error_text(long error);

/* Writes everything, however often the system takes a part. Returns 0 or a negative error number. */
long write_all(int descriptor, const void *bytes, size_t length);
/* Writes "PROGRAM: SUBJECT: TEXT OF ERROR" to the standard error and ends with status 1. */
_Noreturn void die(const char *program, const char *subject, long error);
/* Sets what a signal does: SIGNAL_DEFAULT or SIGNAL_IGNORE. */
void on_signal(int number, unsigned long action);
/* Returns pages of zeros, or NULL. */
void *allocate(size_t length);
/* Executes a program that has no slash in its name from a folder of PATH, as execvp. Returns an error number. */
long execute(const char *name, char **argv, char **environment);

/* Takes six arguments, because each system call ignores the registers that it does not use. */
static inline long system_call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
    return x0;
#else
#error "no system calls known for this processor"
#endif
}

#define CALL_1(number, a) system_call(number, (long)(a), 0, 0, 0, 0, 0)
#define CALL_2(number, a, b) system_call(number, (long)(a), (long)(b), 0, 0, 0, 0)
#define CALL_3(number, a, b, c) system_call(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define CALL_4(number, a, b, c, d) system_call(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define CALL_5(number, a, b, c, d, e) system_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define CALL_6(number, a, b, c, d, e, f) \
    system_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline _Noreturn void end(int status) {
    for (;;) CALL_1(__NR_exit_group, status);
}

/* Ends the process itself, which no handler can prevent. */
static inline _Noreturn void end_by_signal(int signal) {
    CALL_2(__NR_kill, CALL_1(__NR_getpid, 0), signal);
    end(128 + signal);
}

static inline long read_some(int descriptor, void *bytes, size_t length) {
    return CALL_3(__NR_read, descriptor, bytes, length);
}

static inline long write_some(int descriptor, const void *bytes, size_t length) {
    return CALL_3(__NR_write, descriptor, bytes, length);
}

static inline void close_descriptor(int descriptor) { CALL_1(__NR_close, descriptor); }

/* Opens a file that an executed program does not inherit. */
static inline long open_file(const char *path, int flags) {
    return CALL_4(__NR_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0666);
}

static inline long control(int descriptor, unsigned long request, void *argument) {
    return CALL_3(__NR_ioctl, descriptor, request, argument);
}

static inline long fork_process(void) { return CALL_5(__NR_clone, SIGNAL_CHLD, 0, 0, 0, 0); }

static inline void make_nonblocking(int descriptor) { CALL_3(__NR_fcntl, descriptor, F_SETFL, O_NONBLOCK); }

/* Returns the bit of a signal in a set of signals. */
static inline uint64_t signal_bit(int number) { return 1UL << (number - 1); }

#define BLOCK_SIGNALS 0
#define UNBLOCK_SIGNALS 1
static inline long change_signals(int how, uint64_t signals) {
    return CALL_4(__NR_rt_sigprocmask, how, &signals, NULL, sizeof signals);
}

/* Returns a descriptor that can be read when one of the blocked signals has arrived. */
static inline long open_signals(uint64_t signals) {
    return CALL_4(__NR_signalfd4, -1, &signals, sizeof signals, O_NONBLOCK | O_CLOEXEC);
}

/* Descriptors below 64, a bit for each. */
typedef uint64_t descriptors;
#define MAX_DESCRIPTOR 63

static inline descriptors descriptor_bit(int descriptor) {
    return descriptor < 0 || descriptor > MAX_DESCRIPTOR ? 0 : 1UL << descriptor;
}

/* Waits until a descriptor can be read or written, and leaves those that can. */
static inline long wait_for(descriptors *reads, descriptors *writes) {
    return CALL_6(__NR_pselect6, MAX_DESCRIPTOR + 1, reads, writes, NULL, NULL, NULL);
}

#endif
