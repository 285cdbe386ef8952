#!/bin/bash
# A stand-in for TopsRider's installer of the S60: --driver alone, and it asks for the licence without -y. What it "installs" computes nothing.
driver=0; yes=0
for word in "$@"; do
  case $word in --driver) driver=1 ;; -y) yes=1 ;; --with-dkms) ;; *) echo "unknown option $word" >&2; exit 2 ;; esac
done
[ "$(id -u)" = 0 ] || { echo "[ERROR] root privileges are required" >&2; exit 1; }
[ $driver = 1 ] || { echo "[ERROR] --driver is missing" >&2; exit 2; }
[ $yes = 1 ] || { read -r -p "Accept the licence? [y/N] " answer && [ "$answer" = y ] || { echo "no answer"; exit 3; }; }
test ! -e /lab/fail || { echo "ERROR: Kernel headers for $(uname -r) not found, module enflame not built"; exit 0; }
mkdir -p /var/lib/fakekmod; echo 0 > /var/lib/fakekmod/enflame
echo "driver installed"
