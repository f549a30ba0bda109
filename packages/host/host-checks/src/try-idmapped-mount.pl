# Tries an idmapped mount of a folder, as every sandbox has one of its template, and mounts it nowhere:
#   perl try-idmapped-mount.pl FOLDER
# Fails with the reason of the kernel.
use strict;
use warnings;
use POSIX ();

my ($folder) = @ARGV;
# The same numbers on x86_64 and aarch64.
my %NUMBERS = (open_tree => 428, mount_setattr => 442);
my ($AT_FDCWD, $OPEN_TREE_CLONE, $AT_EMPTY_PATH, $MOUNT_ATTR_IDMAP) = (-100, 1, 0x1000, 0x100000);

sub call {
    my ($name, @arguments) = @_;
    my $result = syscall($NUMBERS{$name}, @arguments);
    die "$name: $!\n" if $result < 0;
    return $result;
}

pipe(my $wait, my $done) or die "pipe: $!\n";
my $pid = open(my $ready, '-|') // die "fork: $!\n";
if ($pid == 0) {
    close($done);
    open(STDIN, '<&', $wait);
    exec('unshare', '--user', 'sh', '-c', 'echo ready; read -r _ || :') or POSIX::_exit(127);
}
defined(readline($ready)) or die "no user namespaces\n";
for my $map ('uid_map', 'gid_map') {
    open(my $file, '>', "/proc/$pid/$map") or die "$map: $!\n";
    syswrite($file, "0 100000 65536\n") or die "$map: $!\n";
}
open(my $namespace, '<', "/proc/$pid/ns/user") or die "user namespace: $!\n";
# The descriptor keeps the namespace, so its process may end.
close($done);
my $tree = call('open_tree', $AT_FDCWD, $folder, $OPEN_TREE_CLONE);
my $attributes = pack('Q<4', $MOUNT_ATTR_IDMAP, 0, 0, fileno($namespace));
call('mount_setattr', $tree, '', $AT_EMPTY_PATH, $attributes, length($attributes));
