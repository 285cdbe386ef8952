#!/bin/bash
# make_roots.sh FOLDER: the systems of the fake servers and of their containers, from Ubuntu's archive; takes some minutes.
# The archive's key is not on every machine: nothing of this ever leaves the lab.
set -eu
mkdir -p "$1"
cd "$1"
mirror=http://archive.ubuntu.com/ubuntu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
prepare() { # SUITE ROOT
  printf "deb [trusted=yes] $mirror %s main universe\ndeb [trusted=yes] $mirror %s-updates main universe\n" "$1" "$1" > "$2/etc/apt/sources.list"
  cp /etc/resolv.conf "$2/etc/resolv.conf" 2>/dev/null || true
  printf '#!/bin/sh\nexit 101\n' > "$2/usr/sbin/policy-rc.d"
  chmod +x "$2/usr/sbin/policy-rc.d"
  chroot "$2" apt-get -qq update
}
for suite in focal bionic; do
  test -d "$suite" || { debootstrap --variant=minbase --no-check-gpg --components=main,universe "$suite" "$suite.new" "$mirror" && mv "$suite.new" "$suite"; }
  test -d "host-$suite" && continue
  rm -rf "host-$suite.new"
  cp -a "$suite" "host-$suite.new"
  prepare "$suite" "host-$suite.new"
  chroot "host-$suite.new" apt-get -qq install -y --no-install-recommends openssh-server sudo python3 docker.io iptables kmod iproute2
  chroot "host-$suite.new" apt-get clean
  mv "host-$suite.new" "host-$suite"
done
if ! test -d debs; then
  rm -rf packages
  cp -a focal packages
  prepare focal packages
  chroot packages apt-get -qq install -y --download-only --no-install-recommends python3 python3-pip libelf1 git git-lfs vim
  mkdir debs.new
  cp packages/var/cache/apt/archives/*.deb debs.new/
  mv debs.new debs
fi
if ! test -f plain.tar; then
  tar -C focal --exclude=./usr/share/doc/* --exclude=./usr/share/locale/* --exclude=./var/cache/apt/* --exclude=./var/lib/apt/lists/* --exclude=./dev/* -cf plain.tar.new .
  mv plain.tar.new plain.tar
fi
if ! test -f prepared.tar; then
  rm -rf prepared
  cp -a focal prepared
  mkdir prepared/debs
  cp debs/*.deb prepared/debs/
  chroot prepared sh -c 'apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=/dev/null install -y --no-install-recommends /debs/*.deb' > prepared.log 2>&1
  rm -rf prepared/debs
  tar -C prepared --exclude=./usr/share/doc/* --exclude=./usr/share/locale/* --exclude=./var/cache/apt/* --exclude=./var/lib/apt/lists/* --exclude=./dev/* -cf prepared.tar.new .
  mv prepared.tar.new prepared.tar
fi
