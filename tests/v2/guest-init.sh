#!/usr/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
#
# pid 1 of the test guest: makes the initramfs look like an ordinary machine, runs the tests between
# two markers on the serial line, and ends the machine.
export PATH=/usr/bin:/usr/sbin HOME=/root LC_ALL=C.UTF-8

# The kernel lets nobody pivot_root away from the initramfs' own mount; as a bind mount of itself it
# is a root like any other.
if [ "${1:-}" != moved ]; then
    mount -o bind / /mnt
    cd /mnt || exit 1
    mount -o move . /
    exec chroot . /init moved
fi
cd / && chmod 755 /

option() {
    sed -n "s/.*cay\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t securityfs -o nosuid,nodev,noexec securityfs /sys/kernel/security
mount -t devtmpfs -o nosuid devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o nosuid,noexec,gid=0,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /dev/shm
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /tmp
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run
ln -sf /proc/self/fd /dev/fd
chmod 1777 /var/tmp
chown -R 1001:1001 /home/user
dmesg -n 1
date -s "@$(option now)" >/dev/null
hostname v2guest
ip link set lo up
for module in /usr/lib/modules/*.ko*; do
    [ -e "$module" ] && insmod "$module"
done

# As systemd does it: one hierarchy, namespaces are delegation boundaries, mounts are shared, and
# nobody's shell lives in the root cgroup.
mount -t cgroup2 -o nosuid,nodev,noexec,nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup
echo "+cpu +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/harness /sys/fs/cgroup/tests
echo $((512 << 20)) >/sys/fs/cgroup/tests/memory.max
mount --make-rshared /

echo CAY-V2-BEGIN
(
    echo 0 >/sys/fs/cgroup/harness/cgroup.procs
    exec /tests/guest-tests.sh "$(option mode)"
) </dev/null
rc=$?
echo "CAY-V2-END $rc"
[ "$rc" = 0 ] || dmesg | tail -n 60
sleep 0.5 # the serial line drains
reboot -f
