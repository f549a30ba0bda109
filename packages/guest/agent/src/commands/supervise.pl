# The supervisor of a command: starts it, reaps all its descendants, and forwards its input and output.
#
# Written in Perl, because no other program of every Debian can become a subreaper, open a pseudo-terminal and
# distinguish an exit from a signal, and starts in two milliseconds. It exchanges frames with the agent on descriptor 3:
# one byte for the type, the length of the body in four big-endian bytes, the body.
#
#   from the agent  S  command to start, as fields separated by NUL (see $spec); the first frame, sent once
#                   I  standard input    C  end of standard input    R  "columns rows" of the terminal
#   to the agent    P  the command runs  F  the start failed: "CAUSE REASON"; the last frame
#                      CAUSE is cwd, missing (no such program), exec or processes (the process limit is reached)
#                   O  standard output   E  standard error           X  "exit N" or "signal N": the command has ended
#
# The supervisor ends when no descendant of the command is left. Output after the command's end is read and dropped.
#
# SECURITY: the supervisor keeps running as root of the sandbox, so that a command of the user cannot kill it and escape
# from its process tree (packages/guest/agent/src/commands/commands.runtime.test.ts). It forwards output without parsing it.
use strict;

use constant { CHUNK => 65536, MAX_PENDING => 1 << 20, MAX_LAST_WORDS => 1 << 20 };
use constant { F_SETFD => 2, FD_CLOEXEC => 1, F_SETFL => 4, O_NONBLOCK => 2048, O_RDWR => 2, O_NOCTTY => 256 };
use constant { PR_SET_CHILD_SUBREAPER => 36, WNOHANG => 1, OOM_SCORE => 600 };
use constant { SIGCHLD => 17, SIG_BLOCK => 0, SIG_UNBLOCK => 1, O_CLOEXEC => 524288 };
use constant { SHUT_WR => 1, ENOENT => 2, EINTR => 4, EIO => 5, EAGAIN => 11 };
use constant { TIOCSCTTY => 0x540e, TIOCSWINSZ => 0x5414, TIOCGPTN => 0x80045430, TIOCSPTLCK => 0x40045431 };

my %CALLS = (
    x64 => {
        prctl => 157, setsid => 112, setgroups => 116, setresgid => 119, setresuid => 117,
        rt_sigprocmask => 14, signalfd4 => 289,
    },
    arm64 => {
        prctl => 167, setsid => 157, setgroups => 159, setresgid => 149, setresuid => 147,
        rt_sigprocmask => 135, signalfd4 => 74,
    },
);
my $calls = $CALLS{ $ARGV[0] } or die "no system calls known for $ARGV[0]\n";

open(my $agent, '+<&=', 3) or die "descriptor 3: $!\n";
fcntl($agent, F_SETFD, FD_CLOEXEC);
my $received = '';

my (undef, $spec) = next_frame();
my ($mode, $uid, $gid, $cwd, $has_input, $columns, $rows, $count, @fields) = split(/\0/, $spec, -1);
my @argv = splice(@fields, 0, $count);
my %environment = map { split(/=/, $_, 2) } grep { /=/ } @fields;

syscall($calls->{prctl}, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
$SIG{PIPE} = 'IGNORE';
# A descriptor tells the end of a child. Perl defers signal handlers until `select` returns, so a signal that arrives right
# before `select` would be noticed only with the next output, or never.
my $child_signal = pack('Q', 1 << (SIGCHLD - 1));
change_signals(SIG_BLOCK);
my $ends_descriptor = syscall($calls->{signalfd4}, -1, $child_signal, 8, O_NONBLOCK | O_CLOEXEC);
open(my $ends, '<&=', $ends_descriptor) or die "signalfd: $!\n";

# The write end of the command's input, and by descriptor each output with the type of its frames.
my ($input, %outputs);
my ($pending, $input_ends, $ended) = ('', 0, 0);
# Whether the agent sends no more frames.
my $told_all = $mode ne 'terminal' && !$has_input;
my $child = $mode eq 'terminal' ? start_in_terminal() : start_with_pipes();
obey();
serve() while 1;

sub start_with_pipes {
    pipe(my $out_reader, my $out_writer);
    pipe(my $err_reader, my $err_writer);
    my $in_reader;
    pipe($in_reader, $input) if $has_input;
    # The command may open them by name, as /dev/stdout.
    chown($uid, $gid, $out_writer, $err_writer, $in_reader // ());
    unblock($out_reader, $err_reader, $input // ());
    %outputs = (fileno($out_reader) => [$out_reader, 'O'], fileno($err_reader) => [$err_reader, 'E']);
    return start($in_reader, $out_writer, $err_writer, sub { syscall($calls->{setsid}) });
}

sub start_in_terminal {
    sysopen(my $master, '/dev/ptmx', O_RDWR | O_NOCTTY) or fail("exec no terminal: $!");
    my ($number, $unlocked) = (pack('i', 0), pack('i', 0));
    ioctl($master, TIOCSPTLCK, $unlocked);
    ioctl($master, TIOCGPTN, $number);
    my $path = '/dev/pts/' . unpack('i', $number);
    sysopen(my $slave, $path, O_RDWR | O_NOCTTY) or fail("exec no terminal: $!");
    chown($uid, -1, $path);
    $input = $master;
    resize("$columns $rows");
    unblock($master);
    %outputs = (fileno($master) => [$master, 'O']);
    return start($slave, $slave, $slave, sub { syscall($calls->{setsid}); ioctl($slave, TIOCSCTTY, 0) });
}

# Returns the pid of the command once the process runs the program. Descriptors above 2 are closed by then.
sub start {
    my ($in, $out, $err, $begin_session) = @_;
    pipe(my $reason_reader, my $reason_writer);
    my $pid = fork() // fail("processes $!");
    if ($pid == 0) {
        $SIG{PIPE} = 'DEFAULT';
        change_signals(SIG_UNBLOCK);
        $begin_session->();
        open(STDIN, '<&', $in) if $in;
        open(STDOUT, '>&', $out);
        open(STDERR, '>&', $err);
        # When memory runs out, the kernel kills commands before their supervisors.
        if (open(my $score, '>', '/proc/self/oom_score_adj')) { syswrite($score, OOM_SCORE) }
        drop_privileges() if $uid != 0 || $gid != 0;
        my $reason = chdir($cwd) ? 'exec ' : 'cwd ';
        if ($reason eq 'exec ') {
            %ENV = %environment;
            no warnings;
            exec { $argv[0] } @argv;
            $reason = 'missing ' if $! == ENOENT;
        }
        syswrite($reason_writer, "$reason$!");
        kill('KILL', $$);
    }
    close($reason_writer);
    sysread($reason_reader, my $reason, 1024);
    fail($reason) if $reason;
    send_frame('P', '');
    return $pid;
}

sub drop_privileges {
    syscall($calls->{setgroups}, 0, 0);
    syscall($calls->{setresgid}, $gid + 0, $gid + 0, $gid + 0);
    syscall($calls->{setresuid}, $uid + 0, $uid + 0, $uid + 0);
    kill('KILL', $$) if $< != $uid || $> != $uid;
}

sub serve {
    my ($reads, $writes) = ('', '');
    vec($reads, $_, 1) = 1 for fileno($ends), keys %outputs;
    vec($reads, fileno($agent), 1) = 1 if length($pending) < MAX_PENDING;
    vec($writes, fileno($input), 1) = 1 if $input && $pending ne '';
    return if select($reads, $writes, undef, undef) < 1;
    if (vec($reads, fileno($ends), 1)) { sysread($ends, my $signals, CHUNK) }
    for my $descriptor (grep { vec($reads, $_, 1) } keys %outputs) { carry($descriptor) }
    receive() if vec($reads, fileno($agent), 1);
    feed() if $input && $pending ne '' && vec($writes, fileno($input), 1);
    # Always, because a child may have ended while something else was done.
    reap();
}

# Forwards a chunk of output. Returns whether there was any.
sub carry {
    my ($descriptor) = @_;
    my ($reader, $type) = @{ $outputs{$descriptor} };
    my $length = sysread($reader, my $bytes, CHUNK);
    if ($length) {
        send_frame($type, $bytes) unless $ended;
        return 1;
    }
    # A terminal reports its end as an error.
    delete $outputs{$descriptor} if defined($length) || $! == EIO;
    return 0;
}

sub receive {
    my $length = sysread($agent, $received, CHUNK, length($received));
    return if !defined($length) && $! == EINTR;
    exit(1) if !$length;
    obey();
}

sub obey {
    while (my ($type, $body) = frame()) {
        if ($type eq 'I') { $pending .= $body if $input }
        elsif ($type eq 'C') { $input_ends = $told_all = 1 }
        elsif ($type eq 'R') { resize($body) }
    }
    close_input() if $input && $input_ends && $pending eq '';
}

sub feed {
    my $length = syswrite($input, $pending, CHUNK);
    if (defined $length) { substr($pending, 0, $length) = '' }
    elsif ($! != EAGAIN && $! != EINTR) { $pending = ''; $input_ends = 1 }
    close_input() if $input_ends && $pending eq '';
}

sub close_input {
    return if $mode eq 'terminal';
    close($input);
    undef $input;
}

sub reap {
    while ((my $pid = waitpid(-1, WNOHANG)) != 0) {
        leave() if $pid < 0;
        next if $pid != $child;
        my $status = $?;
        # The output is sent before the end of the command.
        for my $descriptor (keys %outputs) {
            for (my $left = MAX_LAST_WORDS; $left > 0 && carry($descriptor); $left -= CHUNK) { }
        }
        send_frame('X', $status & 127 ? 'signal ' . ($status & 127) : 'exit ' . ($status >> 8));
        $ended = 1;
    }
}

# Ends the process. If the agent wrote to a closed connection, the connection would be reset, and frames that the agent
# has not read would be lost. So the agent closes its side first, unless it sends no more frames.
sub leave {
    shutdown($agent, SHUT_WR);
    while (!$told_all) {
        my $length = sysread($agent, my $rest, CHUNK);
        last if defined($length) ? $length == 0 : $! != EINTR;
    }
    exit(0);
}

sub resize {
    my ($columns, $rows) = split(/ /, $_[0]);
    ioctl($input, TIOCSWINSZ, pack('S4', $rows, $columns, 0, 0)) if $mode eq 'terminal';
}

# Waits for the next frame and returns it.
sub next_frame {
    until (length($received) >= 5 && length($received) >= 5 + unpack('x N', $received)) {
        sysread($agent, $received, CHUNK, length($received)) or exit(1);
    }
    return frame();
}

sub frame {
    return () if length($received) < 5;
    my ($type, $length) = unpack('a N', $received);
    return () if length($received) < 5 + $length;
    my $body = substr($received, 5, $length);
    substr($received, 0, 5 + $length) = '';
    return ($type, $body);
}

sub send_frame {
    my ($type, $body) = @_;
    my $frame = pack('a N', $type, length($body)) . $body;
    while ($frame ne '') {
        my $length = syswrite($agent, $frame);
        # Without the agent the sandbox ends.
        exit(1) if !defined($length) && $! != EINTR;
        substr($frame, 0, $length // 0) = '';
    }
}

sub fail {
    send_frame('F', $_[0]);
    leave();
}

# Blocks or unblocks the signal of a child's end.
sub change_signals {
    my ($how) = @_;
    syscall($calls->{rt_sigprocmask}, $how, $child_signal, 0, 8) == 0 or kill('KILL', $$);
}

sub unblock { fcntl($_, F_SETFL, O_NONBLOCK) for @_ }
