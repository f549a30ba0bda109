# Runs one command in a root file system that is being built, as a user of that system and not of this machine:
#   perl enter-root.pl ROOT ID FIRST_ID FILES SETTINGS COMMAND...
# Expects mount and process namespaces of its own. ID is a user and group of the file system. The files keep their
# owners on the disk; while the command runs, they are shifted by FIRST_ID. FILES of this machine, separated by colons,
# are visible read-only, at their paths or at the one after `>`. SETTINGS is a folder that becomes the home folder of root, or empty.
use strict;
use warnings;
use POSIX ();

my ($root, $id, $first_id, $files, $settings, @command) = @ARGV;
my $IDS = 65536;

# Numbers of system calls. Those below 424 depend on the architecture.
my %NUMBERS = (
    x86_64  => { umount2 => 166, pivot_root => 155, prctl => 157, setns => 308 },
    aarch64 => { umount2 => 39, pivot_root => 41, prctl => 167, setns => 268 },
);
my $machine = (POSIX::uname())[4];
my %number = (open_tree => 428, move_mount => 429, mount_setattr => 442, %{ $NUMBERS{$machine} // die "no numbers: $machine\n" });

sub call {
    my ($name, @arguments) = @_;
    my $result = syscall($number{$name}, @arguments);
    die "$name: $!\n" if $result < 0;
    return $result;
}

sub run { system(@_) == 0 or die "@_ failed\n" }

sub create {
    open(my $file, '>>', $_[0]) or die "$_[0]: $!\n";
}

# Returns a user namespace that has no capability outside of itself. The descriptor keeps it alive.
sub open_user_namespace {
    pipe(my $ready, my $is_ready) or die "pipe: $!\n";
    pipe(my $wait, my $done) or die "pipe: $!\n";
    my $pid = fork() // die "fork: $!\n";
    if ($pid == 0) {
        close($done);
        open(STDIN, '<&', $wait);
        open(STDOUT, '>&', $is_ready);
        exec('unshare', '--user', 'sh', '-c', 'echo ready; read -r _ || :') or POSIX::_exit(127);
    }
    close($is_ready);
    defined(readline($ready)) or die "no user namespaces\n";
    for my $map ('uid_map', 'gid_map') {
        open(my $file, '>', "/proc/$pid/$map") or die "$map: $!\n";
        syswrite($file, "0 $first_id $IDS\n") or die "$map: $!\n";
    }
    open(my $namespace, '<', "/proc/$pid/ns/user") or die "user namespace: $!\n";
    close($done);
    waitpid($pid, 0);
    return $namespace;
}

my $namespace = open_user_namespace();

# No set-id bits, no devices, owners shifted.
my $tree = call('open_tree', -100, $root, 1);
my $attributes = pack('Q<4', 0x2 | 0x4 | 0x100000, 0, 0, fileno($namespace));
call('mount_setattr', $tree, '', 0x1000, $attributes, length($attributes));
call('move_mount', $tree, '', -100, $root, 0x4);
POSIX::close($tree);

run('mount', '-t', 'proc', '-o', 'nosuid,nodev,noexec', 'proc', "$root/proc");
run('mount', '-t', 'tmpfs', '-o', 'nosuid,noexec,mode=755,size=16m', 'tmpfs', "$root/dev");
run('mount', '-t', 'tmpfs', '-o', 'nosuid,nodev,mode=1777', 'tmpfs', "$root/tmp");
run('mount', '-t', 'tmpfs', '-o', "nosuid,nodev,mode=700,uid=$first_id,gid=$first_id", 'tmpfs', "$root/root");
for my $device ('null', 'zero', 'full', 'random', 'urandom') {
    create("$root/dev/$device");
    run('mount', '--bind', "/dev/$device", "$root/dev/$device");
}
symlink('/proc/self/fd', "$root/dev/fd");
mkdir("$root/dev/shm") && chmod(01777, "$root/dev/shm");
for my $place (split(/:/, $files)) {
    my ($file, $inside) = split(/>/, $place);
    $inside //= $file;
    next unless -s $file && -f "$root$inside";
    run('mount', '--bind', $file, "$root$inside");
    run('mount', '-o', 'remount,bind,ro,nosuid,nodev', "$root$inside");
}
if ($settings ne '') {
    run('cp', '-r', '--no-preserve=ownership', "$settings/.", "$root/root");
    run('chown', '-R', "$first_id:$first_id", "$root/root");
}

# From here on, no other file of this machine can be reached.
chdir($root) or die "$root: $!\n";
call('pivot_root', '.', '.');
call('umount2', '.', 2);
chdir('/') or die "/: $!\n";

call('setns', fileno($namespace), 0x10000000);
$) = "$id $id";
$( = $id;
POSIX::setuid($id);
die "ids: $!\n" if $< != $id || $> != $id || $( + 0 != $id || $) + 0 != $id;
call('prctl', 38, 1, 0, 0, 0);
exec { $command[0] } @command or die "$command[0]: $!\n";
