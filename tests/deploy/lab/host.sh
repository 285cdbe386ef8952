#!/bin/bash
# host.sh up NAME ADDRESS ROOT LAYER FOLDER: a throwaway server with its own network, processes, mounts and name.
# host.sh down NAME FOLDER: end it. ROOT is the system, LAYER lies over it, FOLDER gets what changes. Prints nothing.
set -u
case $1 in
up)
  name=$2 address=$3 root=$4 layer=$5 folder=$6
  mkdir -p "$folder"/{upper,work,mnt,docker}
  net=tfl$name link=tfv$name
  ip link show tflab >/dev/null 2>&1 || { ip link add tflab type bridge && ip addr add 10.99.0.254/24 dev tflab && ip link set tflab up; } || exit 1
  ip netns add "$net" && ip link add "$link" type veth peer name eth0 netns "$net" && ip link set "$link" master tflab up || exit 1
  ip -n "$net" addr add "$address/24" dev eth0 && ip -n "$net" link set eth0 up && ip -n "$net" link set lo up || exit 1
  setsid nsenter --net="/run/netns/$net" unshare -m -p -f -u --kill-child bash -c '
    name=$1 root=$2 layer=$3 folder=$4 mnt=$4/mnt
    mount --make-rprivate /
    mount -t overlay overlay -o "lowerdir=$layer:$root,upperdir=$folder/upper,workdir=$folder/work" "$mnt" || exit 1
    mount -t proc proc "$mnt/proc"; mount -t sysfs sysfs "$mnt/sys"; mount --rbind /dev "$mnt/dev"
    mount --rbind /sys/fs/cgroup "$mnt/sys/fs/cgroup"; mount -t tmpfs tmpfs "$mnt/run"; mount -t tmpfs tmpfs "$mnt/tmp"; chmod 1777 "$mnt/tmp"
    # a bus with a network card, and with a card of each vendor whose number is known
    mount -t tmpfs tmpfs "$mnt/sys/bus/pci/devices"
    for row in 1af4:0x020000 1e36:0x120000 1ed5:0x030200 19e5:0x120000; do
      test "$row" = 1af4:0x020000 || test ! -e "$layer/lab/no-cards" || continue
      place=$mnt/sys/bus/pci/devices/0000:${row%%:*}; mkdir "$place"
      echo "0x${row%%:*}" > "$place/vendor"; echo 0x0001 > "$place/device"; echo "${row##*:}" > "$place/class"
    done
    mkdir -p "$mnt/var/lib/docker" "$mnt/run/sshd" "$mnt/old"
    mount --bind "$folder/docker" "$mnt/var/lib/docker"
    # for tests that need the programs of the machine that has the lab
    test ! -e "$layer/lab/machine" || { mkdir -p "$mnt/machine" && mount --rbind / "$mnt/machine" && mount -t proc proc "$mnt/machine/proc"; }
    hostname "$name"; printf "127.0.0.1 localhost %s\n" "$name" > "$mnt/etc/hosts"
    cd "$mnt" && pivot_root . old && umount -l /old; hash -r
    exec env -i bash /lab/start.sh' host "$name" "$root" "$layer" "$folder" > "$folder/log" 2>&1 < /dev/null &
  echo $! > "$folder/pid"
  ;;
down)
  name=$2 folder=$3
  if [ -f "$folder/pid" ]; then
    parent=$(cat "$folder/pid")
    for child in $(pgrep -P "$parent"); do kill -9 $(pgrep -P "$child") "$child" 2>/dev/null; done
    kill -9 "$parent" 2>/dev/null
    rm -f "$folder/pid"
  fi
  ip link del "tfv$name" 2>/dev/null
  ip netns del "tfl$name" 2>/dev/null
  true
  ;;
esac
