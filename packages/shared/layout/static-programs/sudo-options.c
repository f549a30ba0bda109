#include "sudo-options.h"
#include "system.h"

#define USAGE \
    "usage: sudo [-EHinPSs] [-D directory] [-g group] [-u user] [VAR=value] [-i | -s] [command [arg ...]]\n"
#define PASSWD_BYTES 65536
/* Letters of options with an argument, and without. -h is one of the former where more letters follow. */
#define WITH_ARGUMENT "ugpCDRTUrt"
#define WITHOUT_ARGUMENT "EisnHSbAkKvlhVPeB"

/* A long option and the letter that it stands for; `x` if Cloche ignores it. */
struct long_option {
    const char *name;
    char letter;
    bool has_argument;
};

static const struct long_option LONG_OPTIONS[] = {
    {"user", 'u', true},           {"group", 'g', true},           {"chdir", 'D', true},
    {"prompt", 'p', true},         {"close-from", 'C', true},      {"host", 'x', true},
    {"chroot", 'R', true},         {"role", 'x', true},            {"type", 'x', true},
    {"other-user", 'x', true},     {"command-timeout", 'x', true}, {"preserve-env", 'E', false},
    {"login", 'i', false},         {"shell", 's', false},          {"non-interactive", 'n', false},
    {"set-home", 'H', false},      {"stdin", 'S', false},          {"background", 'b', false},
    {"askpass", 'A', false},       {"remove-timestamp", 'K', false}, {"reset-timestamp", 'k', false},
    {"validate", 'v', false},      {"list", 'l', false},           {"help", 'h', false},
    {"version", 'V', false},       {"preserve-groups", 'P', false}, {"edit", 'e', false},
    {"bell", 'B', false},
};

/* The words that are not read yet. */
struct words {
    int count;
    char **rest;
};

/* The value of each letter: NULL if it is absent, and an empty text if it has no argument. */
static const char *values[128];

static void print(int descriptor, const char *text) { write_all(descriptor, text, length_of(text)); }

_Noreturn void fail_sudo(const char *text, const char *more) {
    print(STDERR, "sudo: ");
    print(STDERR, text);
    print(STDERR, more);
    print(STDERR, "\n");
    end(1);
}

static _Noreturn void complain(const char *before, const char *what, size_t length, const char *after) {
    print(STDERR, "sudo: ");
    print(STDERR, before);
    write_all(STDERR, what, length);
    print(STDERR, after);
    print(STDERR, "\n" USAGE);
    end(1);
}

static char *take_word(struct words *words) {
    if (words->count == 0) return NULL;
    words->count--;
    return *words->rest++;
}

static bool contains(const char *letters, char letter) {
    while (*letters && *letters != letter) letters++;
    return *letters != 0;
}

static void parse_long(struct options *options, const char *name, struct words *words) {
    size_t length = 0;
    while (name[length] && name[length] != '=') length++;
    const char *value = name[length] ? name + length + 1 : NULL;
    for (size_t each = 0; each < sizeof LONG_OPTIONS / sizeof *LONG_OPTIONS; each++) {
        const struct long_option *option = &LONG_OPTIONS[each];
        if (length_of(option->name) != length || memcmp(option->name, name, length) != 0) continue;
        if (option->has_argument && !value) value = take_word(words);
        if (option->has_argument && !value) complain("option '--", name, length, "' requires an argument");
        if (option->letter == 'E' && value) options->kept = value;
        else values[(int)option->letter] = option->has_argument ? value : "";
        return;
    }
    complain("unrecognized option '--", name, length, "'");
}

static void parse_letters(const char *letters, struct words *words) {
    for (; *letters; letters++) {
        char letter = *letters;
        if (contains(WITH_ARGUMENT, letter) || (letter == 'h' && letters[1])) {
            const char *value = letters[1] ? letters + 1 : take_word(words);
            if (!value) complain("option requires an argument -- '", letters, 1, "'");
            values[(int)(letter == 'h' ? 'x' : letter)] = value;
            return;
        }
        if (!contains(WITHOUT_ARGUMENT, letter)) complain("invalid option -- '", letters, 1, "'");
        values[(int)letter] = "";
    }
}

static bool is_name(char letter, bool is_first) {
    if (letter == '_' || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) return true;
    return !is_first && letter >= '0' && letter <= '9';
}

static bool is_assignment(const char *word) {
    size_t length = 0;
    while (is_name(word[length], length == 0)) length++;
    return length > 0 && word[length] == '=';
}

/* Returns whether a line of /etc/passwd, which ends with zero, is of a user, and ends it after the name then. */
static bool is_user(char *line, unsigned long uid) {
    unsigned long number;
    char *at = line;
    while (*at && *at != ':') at++;
    if (!*at) return false;
    char *name_end = at++;
    while (*at && *at != ':') at++;
    const char *rest = *at ? read_number(at + 1, UINT32_MAX, &number) : NULL;
    if (!rest || *rest != ':' || number != uid) return false;
    *name_end = 0;
    return true;
}

/* Prints the name of the process's user, or the number if /etc/passwd has none in its first part. */
static void print_user(void) {
    static char passwd[PASSWD_BYTES + 1];
    char number[32];
    unsigned long uid = (unsigned long)CALL_1(__NR_getuid, 0);
    int file = (int)open_file("/etc/passwd", O_RDONLY);
    size_t length = 0;
    for (long got; file >= 0 && length < PASSWD_BYTES; length += (size_t)got) {
        got = read_some(file, passwd + length, PASSWD_BYTES - length);
        if (got <= 0) break;
    }
    for (char *line = passwd; line < passwd + length;) {
        char *next = line;
        while (*next && *next != '\n') next++;
        *next = 0;
        if (is_user(line, uid)) return print(STDOUT, line);
        line = next + 1;
    }
    append_number(number, uid);
    print(STDOUT, number);
}

/* Does what needs no command. There is no password and no list of rules: the user may run everything. */
static void answer_alone(int words) {
    if (values['h']) {
        print(STDOUT, USAGE);
        end(0);
    }
    if (values['V']) {
        print(STDOUT, "Sudo of a Cloche sandbox\n");
        end(0);
    }
    if (values['e']) fail_sudo("-e is not supported; run the command itself with sudo", "");
    if (values['R']) fail_sudo("-R is not supported; run the command itself with sudo", "");
    if (values['i'] && values['s']) fail_sudo("-i and -s exclude each other", "");
    if (values['l'] && words == 0) {
        print(STDOUT, "User ");
        print_user();
        print(STDOUT, " may run all commands: (ALL : ALL) NOPASSWD: ALL\n");
        end(0);
    }
    if (words == 0 && (values['v'] || values['k'] || values['K'])) end(0);
}

static const char *text_of(char letter) { return values[(int)letter] ? values[(int)letter] : ""; }

void parse_options(struct options *options, int count, char **all) {
    struct words words = {count, all};
    options->kept = "";
    while (words.count > 0 && words.rest[0][0] == '-' && words.rest[0][1]) {
        const char *word = take_word(&words);
        if (is_equal(word, "--")) break;
        if (word[1] == '-' && word[2] != '=') parse_long(options, word + 2, &words);
        else parse_letters(word + 1, &words);
    }
    options->assigned = words.rest;
    while (words.count > 0 && is_assignment(words.rest[0])) take_word(&words);
    options->assigned_count = (int)(words.rest - options->assigned);
    options->command = words.rest;
    options->command_count = words.count;
    answer_alone(words.count);
    options->login = values['i'] != NULL;
    options->shell = values['s'] != NULL;
    if (words.count == 0 && !options->login && !options->shell) {
        print(STDERR, USAGE);
        end(1);
    }
    options->user = text_of('u');
    options->group = text_of('g');
    options->directory = text_of('D');
    options->background = values['b'] != NULL;
    options->keeps_environment = values['E'] != NULL;
    options->sets_home = values['H'] != NULL;
}
