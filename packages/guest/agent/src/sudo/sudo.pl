# The program `sudo` of a sandbox: asks the agent to run a command as another user, and forwards its input, output and
# signals. It has no rights of its own. Frames are those of `agent/src/sudo/sudo-server.ts`: one byte for the type, the
# length of the body in four big-endian bytes, the body.
#
#   to the agent    A  a part of the request, at most 4096 bytes    S  the end of the request
#                   I  standard input    C  its end    R  "columns rows" of the terminal    K  a number of a signal
#   from the agent  O  standard output   E  standard error
#                   X  "exit N" or "signal N": the command has ended    F  why it could not be started
use strict;

use constant { CHUNK => 4096, MAX_PENDING => 65536, F_SETFL => 4, F_SETFD => 2, FD_CLOEXEC => 1, O_NONBLOCK => 2048 };
use constant { ENOENT => 2, EINTR => 4, EAGAIN => 11, ECONNREFUSED => 111, SIG_BLOCK => 0, SIG_UNBLOCK => 1, O_CLOEXEC => 524288, AF_UNIX => 1 };
use constant { SOCK_STREAM => 1, TCGETS => 0x5401, TCSETSW => 0x5403, TIOCGPGRP => 0x540f, TIOCGWINSZ => 0x5413, CONT => 18, SIGWINCH => 28 };
use constant ABSENT => "only sandboxes that E2B's clients have created have sudo, unless the operator has switched it off"
  . ' (CLOCHE_E2B_SUDO=off); run the command with the user root of the API';

my %CALLS = (x64 => { rt_sigprocmask => 14, signalfd4 => 289 }, arm64 => { rt_sigprocmask => 135, signalfd4 => 74 });
my ($arch, $path) = splice(@ARGV, 0, 2);
my $calls = $CALLS{$arch} or die "no system calls known for $arch\n";
# HUP, INT, QUIT, USR1, USR2, TERM, CONT and WINCH.
my $signals = pack('Q', mask(1, 2, 3, 10, 12, 15, CONT, SIGWINCH));

my %options = (u => '', g => '', D => '');
my $command_line = parse();
# With a group alone, the user stays who it is.
$options{u} ||= $options{g} ne '' ? "#$<" : 'root';
my $streams = join('', map { -t $_ ? 't' : 'p' } *STDIN, *STDOUT, *STDERR);
# With input and output of a terminal, the command gets a terminal of its own, as from sudo's `use_pty`.
my $is_terminal = $streams =~ /^tt/ && !$options{b} && is_foreground();
my $is_merged = $streams !~ /t$/ && same_file(*STDOUT, *STDERR);

socket(my $agent, AF_UNIX, SOCK_STREAM, 0) or fail("no socket: $!");
connect($agent, pack('S a*', AF_UNIX, $path)) or fail($! == ENOENT || $! == ECONNREFUSED ? ABSENT : "no answer: $!");
fcntl($agent, F_SETFD, FD_CLOEXEC);
fcntl($agent, F_SETFL, O_NONBLOCK);

if ($options{b}) { my $child = fork() // fail("no process: $!"); exit(0) if $child }
my ($pending, $received, $kept) = ('', '', undef);
my %out = (O => ['', *STDOUT], E => ['', *STDERR]);
# A job in the background would be stopped if it read from the terminal.
my ($reads_input, $end) = ($streams !~ /^t/ || is_foreground(), undef);
syscall($calls->{rt_sigprocmask}, SIG_BLOCK, $signals, 0, 8);
my $descriptor = syscall($calls->{signalfd4}, -1, $signals, 8, O_NONBLOCK | O_CLOEXEC);
open(my $arrived, '<&=', $descriptor) or fail("signalfd: $!");
$SIG{PIPE} = 'IGNORE';

request();
make_raw() if $is_terminal;
serve() while !defined($end) || $out{O}[0] ne '' || $out{E}[0] ne '';
leave();

sub parse {
    my %long = (
        user => 'u:', group => 'g:', 'preserve-env' => 'E', login => 'i', shell => 's', 'non-interactive' => 'n',
        'set-home' => 'H', stdin => 'S', background => 'b', chdir => 'D:', prompt => 'p:', 'close-from' => 'C:', askpass => 'A',
        'reset-timestamp' => 'k', 'remove-timestamp' => 'K', validate => 'v', list => 'l', help => 'h', version => 'V',
        'preserve-groups' => 'P', host => 'x:', 'command-timeout' => 'x:', chroot => 'R:', role => 'x:', type => 'x:',
        'other-user' => 'x:', edit => 'e', bell => 'B',
    );
    while (@ARGV && $ARGV[0] =~ /^-./) {
        my $word = shift @ARGV;
        last if $word eq '--';
        if ($word =~ /^--([^=]+)(?:=(.*))?$/s) {
            my ($name, $value) = ($1, $2);
            my $known = $long{$name} // usage("unrecognized option '--$name'");
            if ($known =~ s/:$//) { $options{$known} = $value // shift(@ARGV) // usage("option '--$name' requires an argument") }
            elsif ($known eq 'E' && defined $value) { $options{kept} = $value }
            else { $options{$known} = 1 }
            next;
        }
        my $letters = substr($word, 1);
        while ($letters =~ s/^(.)//s) {
            my $letter = $1;
            if ($letter =~ /[ugpCDhRTUrt]/ && !($letter eq 'h' && $letters eq '')) {
                $options{$letter} = $letters ne '' ? $letters : shift(@ARGV) // usage("option requires an argument -- '$letter'");
                last;
            }
            usage("invalid option -- '$letter'") if $letter !~ /[EisnHSbAkKvlhVPeB]/;
            $options{$letter} = 1;
        }
    }
    usage() if $options{h};
    if ($options{V}) { print "Sudo of a Cloche sandbox\n"; exit(0) }
    fail("-$_ is not supported; run the command itself with sudo") for grep { $options{$_} } qw(e R);
    fail('-i and -s exclude each other') if $options{i} && $options{s};
    $options{assignments} = [];
    push @{ $options{assignments} }, shift(@ARGV) while @ARGV && $ARGV[0] =~ /^[A-Za-z_]\w*=/s;
    # There is no password and no list of rules: the user may run everything.
    if ($options{l} && !@ARGV) { print "User " . (getpwuid($<) // $<) . " may run all commands: (ALL : ALL) NOPASSWD: ALL\n"; exit(0) }
    exit(0) if !@ARGV && ($options{v} || $options{k} || $options{K});
    usage() if !@ARGV && !$options{i} && !$options{s};
    return [@ARGV];
}

sub usage {
    print STDERR "sudo: $_[0]\n" if @_;
    my $text = "usage: sudo [-EHinPSs] [-D directory] [-g group] [-u user] [VAR=value] [-i | -s] [command [arg ...]]\n";
    if (@_ || !$options{h}) { print STDERR $text; exit(1) }
    print $text;
    exit(0);
}

# Sends the request: lines of "name value" as fields separated by NUL, the arguments, and the environment.
sub request {
    my @flags = grep { $options{$_} } qw(E H i s);
    push @flags, 'terminal' if $is_terminal;
    push @flags, 'merged' if $is_merged && !$is_terminal;
    my @environment = map { "$_=$ENV{$_}" } sort keys %ENV;
    my $assigned = $options{assignments};
    my $directory = $options{D} ne '' ? $options{D} : (readlink('/proc/self/cwd') // '/');
    my @head = ($options{u}, $options{g}, join(' ', @flags), $options{kept} // '', $directory, join(' ', size()), scalar(@$command_line));
    my $text = join("\0", @head, @$command_line, scalar(@$assigned), @$assigned, @environment);
    send_frame('A', $1) while $text =~ s/^(.{1,4096})//s;
    send_frame('S', '');
}

sub serve {
    my ($reads, $writes) = ('', '');
    my $is_full = $out{O}[0] ne '' || $out{E}[0] ne '';
    vec($reads, fileno($arrived), 1) = 1;
    vec($reads, fileno($agent), 1) = 1 if !$is_full && !defined($end);
    vec($reads, 0, 1) = 1 if $reads_input && length($pending) < MAX_PENDING && !defined($end);
    vec($writes, fileno($agent), 1) = 1 if $pending ne '' && !defined($end);
    for my $stream (values %out) { vec($writes, fileno($stream->[1]), 1) = 1 if $stream->[0] ne '' && defined fileno($stream->[1]) }
    return if select($reads, $writes, undef, undef) < 1;
    take_signals() if vec($reads, fileno($arrived), 1);
    for my $stream (values %out) {
        my ($bytes, $handle) = @$stream;
        next if $bytes eq '' || !vec($writes, fileno($handle), 1);
        # A pipe that can be written takes this many bytes at once.
        my $length = syswrite($handle, $bytes, CHUNK);
        if (defined $length) { substr($stream->[0], 0, $length) = '' }
        elsif ($! != EAGAIN && $! != EINTR) { $stream->[0] = ''; $end = 'signal 13' }
    }
    flush_frames() if vec($writes, fileno($agent), 1);
    receive() if vec($reads, fileno($agent), 1);
    read_input() if vec($reads, 0, 1);
}

sub read_input {
    my $length = sysread(STDIN, my $bytes, CHUNK);
    return if !defined($length) && ($! == EINTR || $! == EAGAIN);
    if ($length) { send_frame('I', $bytes) }
    else { $reads_input = 0; send_frame('C', '') }
}

sub receive {
    my $length = sysread($agent, $received, MAX_PENDING, length($received));
    return if !defined($length) && ($! == EINTR || $! == EAGAIN);
    if (!$length) { restore(); fail('the agent has closed the connection') }
    while (length($received) >= 5) {
        my ($type, $size) = unpack('a N', $received);
        last if length($received) < 5 + $size;
        my $body = substr($received, 5, $size);
        substr($received, 0, 5 + $size) = '';
        if ($out{$type}) { $out{$type}[0] .= $body }
        elsif ($type eq 'X') { $end = $body }
        elsif ($type eq 'F') { restore(); fail($body) }
    }
}

sub take_signals {
    while (sysread($arrived, my $info, 128)) {
        my $number = unpack('L', $info);
        if ($number == SIGWINCH) { send_frame('R', join(' ', size())) if $is_terminal; next }
        # The command takes no input, so that the signal would not reach it: it ends with the connection.
        if ($pending ne '') { $end = "signal $number" if $number != CONT; next }
        send_frame('K', $number);
    }
}

sub send_frame {
    my ($type, $body) = @_;
    $pending .= pack('a N', $type, length($body)) . $body;
    flush_frames();
}

sub flush_frames {
    my $length = syswrite($agent, $pending);
    if (defined $length) { substr($pending, 0, $length) = '' }
    elsif ($! != EAGAIN && $! != EINTR) { $pending = '' }
}

sub size {
    my $size = pack('S4', 0, 0, 0, 0);
    ioctl(STDIN, TIOCGWINSZ, $size) if $is_terminal;
    my ($rows, $columns) = unpack('S2', $size);
    return ($columns || 80, $rows || 24);
}

# Passes each key on as it comes: the terminal of the command makes signals of them.
sub make_raw {
    my $state = "\0" x 60;
    ioctl(STDIN, TCGETS, $state) or return;
    $kept = $state;
    my ($input, $output, $control, $local) = unpack('L4', $state);
    substr($state, 0, 16) = pack('L4', $input & ~02753, $output & ~1, $control, $local & ~0100113);
    # One byte is enough, and no time limit.
    substr($state, 17 + 6, 1) = "\1";
    substr($state, 17 + 5, 1) = "\0";
    ioctl(STDIN, TCSETSW, $state);
}

sub restore {
    ioctl(STDIN, TCSETSW, $kept) if defined $kept;
    undef $kept;
}

sub leave {
    restore();
    my ($how, $number) = split(/ /, $end);
    exit($number) if $how eq 'exit';
    # Ends by the same signal, so that a shell that waits learns of it.
    syscall($calls->{rt_sigprocmask}, SIG_UNBLOCK, $signals, 0, 8);
    $SIG{$_} = 'DEFAULT' for qw(HUP INT QUIT USR1 USR2 TERM PIPE);
    kill($number, $$);
    exit(128 + $number);
}

sub fail {
    print STDERR "sudo: $_[0]\n";
    exit(1);
}

# Returns whether the terminal's signals reach this process.
sub is_foreground {
    my $group = pack('i', 0);
    return ioctl(STDIN, TIOCGPGRP, $group) && unpack('i', $group) == getpgrp(0);
}

sub same_file {
    my ($one, $other) = map { join(' ', (stat($_))[0, 1, 6]) } @_;
    return $one eq $other;
}

sub mask {
    my $mask = 0;
    $mask |= 1 << ($_ - 1) for @_;
    return $mask;
}
