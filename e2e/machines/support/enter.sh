#!/bin/sh
# Runs a command in a user land, as on a machine of its own with this machine's kernel and network:
#   unshare --mount --pid --fork --kill-child sh enter.sh ROOT COMMAND...
# Changes nothing of this machine: mounts end with the namespace, processes with this one. `pivot_root` and not
# `chroot`, because in a chroot the kernel refuses user namespaces. /run/cloche/slots is shared, so that numbers and
# addresses are not those of other installations of this machine.
set -eu
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
rm -f "$root/etc/resolv.conf"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p /run/cloche/slots "$root/run/cloche/slots" "$root/run/old"
mount --bind /run/cloche/slots "$root/run/cloche/slots"
for shared in ${SHARED_FOLDERS:-}; do
  mkdir -p "$root${shared#*:}"
  mount --bind "${shared%%:*}" "$root${shared#*:}"
done
cd "$root"
pivot_root . run/old
cd /
umount -l /run/old
exec "$@"
