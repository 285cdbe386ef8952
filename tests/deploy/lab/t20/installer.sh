#!/bin/bash
# A stand-in for TopsInstaller of TopsRider t2x, with the options and the order that its manual describes. What it "installs" computes nothing.
# /lab/fail on the host holds names of failures: no-headers (the module is not built, the installer still ends with 0).
self=$(readlink -f "$0"); yes=0; components=; remove=0; python=python3; folder=/usr/local/topsrider; peermem=0
while [ $# -gt 0 ]; do
  case $1 in
  -y) yes=1 ;; -C) components=$2; shift ;; --uninstall) remove=1 ;; --python) python=$2; shift ;;
  --install-dir) folder=$2; shift ;; --peermem) peermem=1 ;; --with-dkms) ;;
  *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
[ "$(id -u)" = 0 ] || { echo "[ERROR] root privileges are required" >&2; exit 1; }
inside=0; [ -f /.dockerenv ] && inside=1
state=/opt/tops/.state
slow() { for i in 1 2 3; do echo "  [$1] $i/3"; sleep "$(cat /lab/slow /bundle-slow 2>/dev/null | head -n 1 || echo 0)" 2>/dev/null || true; done; }
failing() { grep -qx "$1" /lab/fail 2>/dev/null; }
payload() { mkdir -p "$1"; tail -n +__SKIP__ "$self" | tar xz -C "$1" || { echo "[ERROR] archive is corrupt" >&2; exit 5; }; }
if [ $remove = 1 ]; then
  rm -rf "$folder" /opt/tops; [ $inside = 0 ] && rm -f /var/lib/fakekmod/enflame
  echo "uninstall done"; exit 0
fi
[ $yes = 1 ] || { read -r -p "Accept the licence? [y/N] " answer || { echo "no answer"; exit 3; }; [ "$answer" = y ] || exit 3; }
[ $peermem = 1 ] && { echo "[ERROR] Mellanox OFED not found: peermem requires MLNX_OFED 5.0-2.1.8.0 or 5.4-3.1.0.0" >&2; exit 11; }
if [ -z "$components" ] && [ $inside = 0 ]; then
  slow kmd; payload "$(mktemp -d)"
  failing no-headers && { echo "ERROR: Kernel headers for $(uname -r) not found, module enflame not built"; exit 0; }
  mkdir -p /var/lib/fakekmod; echo 0 > /var/lib/fakekmod/enflame; echo "driver installed"
elif [ -z "$components" ]; then
  slow base; rm -rf "$folder.new"; payload "$folder.new"
  mkdir -p "$folder/ai_development_toolkit"; slow copy
  cp -r "$folder.new"/* "$folder/ai_development_toolkit/"; rm -rf "$folder.new"
  mkdir -p $state; touch $state/base; echo "base installed"
else
  [ "$components" = torch-gcu ] || { echo "[ERROR] unknown component $components" >&2; exit 4; }
  [ -f $state/base ] || { echo "[ERROR] base software stack is not installed, run with -y first" >&2; exit 6; }
  slow torch-gcu
  $python -m pip install -q --no-index --no-deps --force-reinstall "$folder"/ai_development_toolkit/pytorch-gcu/torch-*.whl || exit 8
  echo "torch-gcu installed"
fi
exit 0
