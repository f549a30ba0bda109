#include "system.h"

#include <linux/elf.h>
#include <linux/mman.h>

#define PATH_BYTES 4096
#define NAME_BYTES 255
#define MAX_SHELL_ARGUMENTS 65536

/* The compiler compares it to notice that a buffer on the stack was written beyond its end. */
uintptr_t __stack_chk_guard;

_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void) { end_by_signal(SIGNAL_KILL); }

#if defined(__x86_64__)
__asm__(".pushsection .text.start,\"ax\",@progbits\n.global _start\n.type _start,@function\n"
        "_start:\n xor %ebp,%ebp\n mov %rsp,%rdi\n and $-16,%rsp\n call begin\n hlt\n.popsection\n");
#else
__asm__(".pushsection .text.start,\"ax\",@progbits\n.global _start\n.type _start,@function\n"
        "_start:\n mov x29,#0\n mov x30,#0\n mov x0,sp\n bl begin\n brk #0\n.popsection\n");
#endif

#if defined(__x86_64__)
#define RELATIVE 8
#else
#define RELATIVE 1027
#endif

#define AUXILIARY_END 0
#define AUXILIARY_RANDOM 25

/* The linker defines them. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

/* Adds the address that the program was loaded at to the addresses in its data, of which the linker knew the offset. */
static void relocate(void) {
    uintptr_t base = (uintptr_t)__ehdr_start, table = 0;
    size_t bytes = 0;
    for (const Elf64_Dyn *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_RELA) table = base + entry->d_un.d_ptr;
        if (entry->d_tag == DT_RELASZ) bytes = entry->d_un.d_val;
    }
    const Elf64_Rela *relocations = (const Elf64_Rela *)table;
    for (size_t each = 0; each < bytes / sizeof *relocations; each++) {
        if (ELF64_R_TYPE(relocations[each].r_info) != RELATIVE) end_by_signal(SIGNAL_KILL);
        *(uintptr_t *)(base + relocations[each].r_offset) = base + (uintptr_t)relocations[each].r_addend;
    }
}

/* Reads what the kernel has put on the stack: the number of arguments, arguments, environment, auxiliary values. */
_Noreturn void begin(unsigned long *stack);
__attribute__((no_stack_protector)) _Noreturn void begin(unsigned long *stack) {
    relocate();
    int argc = (int)stack[0];
    char **argv = (char **)(stack + 1);
    char **environment = argv + argc + 1;
    char **entry = environment;
    while (*entry) entry++;
    for (unsigned long *value = (unsigned long *)(entry + 1); value[0] != AUXILIARY_END; value += 2) {
        if (value[0] == AUXILIARY_RANDOM) memcpy(&__stack_chk_guard, (const void *)value[1], sizeof __stack_chk_guard);
    }
    /* The first byte is zero, so that a text cannot contain the guard. */
    __stack_chk_guard &= ~(uintptr_t)0xff;
    end(run(argc, argv, environment));
}

void *memcpy(void *to, const void *from, size_t length) { return memmove(to, from, length); }

void *memmove(void *to, const void *from, size_t length) {
    uint8_t *target = to;
    const uint8_t *source = from;
#if defined(__x86_64__)
    /* Copies forwards as fast as the processor can. */
    if (target <= source || target >= source + length) {
        __asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(length) : : "memory");
        return to;
    }
#endif
    if (target <= source)
        for (size_t at = 0; at < length; at++) target[at] = source[at];
    else
        for (size_t at = length; at > 0; at--) target[at - 1] = source[at - 1];
    return to;
}

void *memset(void *to, int value, size_t length) {
    for (size_t at = 0; at < length; at++) ((uint8_t *)to)[at] = (uint8_t)value;
    return to;
}

int memcmp(const void *one, const void *other, size_t length) {
    const uint8_t *first = one, *second = other;
    for (size_t at = 0; at < length; at++)
        if (first[at] != second[at]) return first[at] < second[at] ? -1 : 1;
    return 0;
}

size_t length_of(const char *text) {
    size_t length = 0;
    while (text[length]) length++;
    return length;
}

bool is_equal(const char *one, const char *other) {
    while (*one && *one == *other) one++, other++;
    return *one == *other;
}

bool begins_with(const char *text, const char *start) {
    while (*start && *text == *start) text++, start++;
    return !*start;
}

char *append(char *to, const char *text) {
    while (*text) *to++ = *text++;
    *to = 0;
    return to;
}

char *append_number(char *to, unsigned long number) {
    if (number >= 10) to = append_number(to, number / 10);
    *to++ = (char)('0' + number % 10);
    *to = 0;
    return to;
}

const char *read_number(const char *text, unsigned long largest, unsigned long *number) {
    const char *at = text;
    for (*number = 0; *at >= '0' && *at <= '9'; at++) {
        *number = *number * 10 + (unsigned long)(*at - '0');
        if (*number > largest) return NULL;
    }
    return at == text ? NULL : at;
}

/* The texts of 1 to 40, each with its end. */
static const char FIRST_ERRORS[] =
    "Operation not permitted\0No such file or directory\0No such process\0Interrupted system call\0"
    "Input/output error\0No such device or address\0Argument list too long\0Exec format error\0"
    "Bad file descriptor\0No child processes\0Resource temporarily unavailable\0Cannot allocate memory\0"
    "Permission denied\0Bad address\0Block device required\0Device or resource busy\0File exists\0"
    "Invalid cross-device link\0No such device\0Not a directory\0Is a directory\0Invalid argument\0"
    "Too many open files in system\0Too many open files\0Inappropriate ioctl for device\0Text file busy\0"
    "File too large\0No space left on device\0Illegal seek\0Read-only file system\0Too many links\0Broken pipe\0"
    "Numerical argument out of domain\0Numerical result out of range\0Resource deadlock avoided\0"
    "File name too long\0No locks available\0Function not implemented\0Directory not empty\0"
    "Too many levels of symbolic links\0";

const char *error_text(long error) {
    static char unknown[32];
    if (error < 0) error = -error;
    switch (error) {
    case ELIBACC: return "Can not access a needed shared library";
    case ELIBBAD: return "Accessing a corrupted shared library";
    case EUSERS: return "Too many users";
    case EOPNOTSUPP: return "Operation not supported";
    case ECONNRESET: return "Connection reset by peer";
    case ETIMEDOUT: return "Connection timed out";
    case ECONNREFUSED: return "Connection refused";
    case ESTALE: return "Stale file handle";
    case EREMOTEIO: return "Remote I/O error";
    case EDQUOT: return "Disk quota exceeded";
    case ENOKEY: return "Required key not available";
    case EKEYEXPIRED: return "Key has expired";
    default: break;
    }
    if (error < 1 || error > ELOOP) {
        append_number(append(unknown, "Unknown error "), (unsigned long)error);
        return unknown;
    }
    const char *text = FIRST_ERRORS;
    for (long number = 1; number < error; number++) text += length_of(text) + 1;
    return text;
}

long write_all(int descriptor, const void *bytes, size_t length) {
    const uint8_t *at = bytes;
    while (length > 0) {
        long written = write_some(descriptor, at, length);
        if (written == -EINTR) continue;
        if (written < 0) return written;
        at += written;
        length -= (size_t)written;
    }
    return 0;
}

static void complain(const char *text) { write_all(STDERR, text, length_of(text)); }

void die(const char *program, const char *subject, long error) {
    complain(program);
    complain(": ");
    complain(subject);
    if (error) complain(": ");
    if (error) complain(error_text(error));
    complain("\n");
    end(1);
}

void on_signal(int number, unsigned long action) {
    /* The kernel's structure: what to do, flags, an address to return to on some processors, a set of signals. */
    const unsigned long settings[4] = {action, 0, 0, 0};
    CALL_4(__NR_rt_sigaction, number, settings, NULL, sizeof(uint64_t));
}

void *allocate(size_t length) {
    long pages = CALL_6(__NR_mmap, NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages < 0 && pages > -4096 ? NULL : (void *)pages;
}

/* A file that is executable and has no known format is a script of the shell. */
static long execute_file(const char *file, char **argv, char **environment) {
    long error = CALL_3(__NR_execve, file, argv, environment);
    if (error != -ENOEXEC) return error;
    size_t count = 0;
    while (argv[count]) count++;
    if (count > MAX_SHELL_ARGUMENTS) return -E2BIG;
    const char **words = allocate((count + 3) * sizeof(char *));
    if (!words) return -ENOMEM;
    size_t at = 0;
    words[at++] = "/bin/sh";
    words[at++] = file;
    for (size_t each = 1; each < count; each++) words[at++] = argv[each];
    CALL_3(__NR_execve, "/bin/sh", words, environment);
    return error;
}

static const char *value_of(const char *name, char **environment) {
    for (; *environment; environment++)
        if (begins_with(*environment, name)) return *environment + length_of(name);
    return NULL;
}

/* Whether the search goes on in the next folder. */
static bool is_absent(long error) {
    return error == -ENOENT || error == -ENOTDIR || error == -ESTALE || error == -ENODEV || error == -ETIMEDOUT;
}

long execute(const char *name, char **argv, char **environment) {
    if (!*name) return -ENOENT;
    for (const char *at = name; *at; at++)
        if (*at == '/') return execute_file(name, argv, environment);
    if (length_of(name) > NAME_BYTES) return -ENAMETOOLONG;
    const char *folders = value_of("PATH=", environment);
    if (!folders) folders = "/bin:/usr/bin";
    bool is_denied = false;
    for (;; folders++) {
        static char path[PATH_BYTES + NAME_BYTES + 2];
        size_t length = 0;
        while (*folders && *folders != ':') {
            if (length < PATH_BYTES) path[length] = *folders;
            length++, folders++;
        }
        if (length < PATH_BYTES) {
            /* An empty folder is the working directory. */
            if (length > 0) path[length++] = '/';
            append(path + length, name);
            long error = execute_file(path, argv, environment);
            if (error == -EACCES) is_denied = true;
            else if (!is_absent(error)) return error;
        }
        if (!*folders) return is_denied ? -EACCES : -ENOENT;
    }
}
