#!/bin/bash
# A stand-in for the vendor's .run files, with the options of its own deployer. WHAT is the package. Driver and firmware end with 2,
# which means success too; a driver answers after a restart only. What it "installs" computes nothing.
what=__WHAT__; mode=; quiet=0; all=0
for word in "$@"; do
  case $word in
  --full | --upgrade | --install) mode=$word ;; --quiet) quiet=1 ;; --install-for-all) all=1 ;; --nox11) ;;
  *) echo "[ERROR] unknown option $word" >&2; exit 1 ;;
  esac
done
test -n "$mode" && test $all = 1 && test $quiet = 1 || { echo "[ERROR] options are missing" >&2; exit 1; }
home=/usr/local/Ascend
case $what in
driver)
  id HwHiAiUser >/dev/null || { echo "[ERROR] user HwHiAiUser does not exist" >&2; exit 1; }
  mkdir -p $home/driver/lib64 /usr/local/dcmi /usr/local/bin
  echo "Version=lab" > $home/driver/version.info; echo "lab" > /etc/ascend_install.info
  cp /run/boot_id $home/driver/of-boot
  printf '#!/bin/bash\ncmp -s /run/boot_id %s/driver/of-boot && { echo "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)"; exit 1; }\necho "| 0  lab |"\n' $home > /usr/local/bin/npu-smi
  chmod 755 /usr/local/bin/npu-smi
  test ! -e /lab/fail || { echo "[ERROR] Driver package install failed" >&2; exit 1; }
  echo "Driver package installed successfully! Reboot needed for installation/upgrade to take effect!"; exit 2 ;;
firmware)
  test -s $home/driver/version.info || { echo "[ERROR] no driver" >&2; exit 1; }
  echo "firmware" >> $home/order; echo "Firmware package installed successfully! Reboot needed"; exit 2 ;;
toolkit)
  read -r -p "Do you accept the EULA? [Y/N] " answer && test "$answer" = y || { echo "[ERROR] no answer" >&2; exit 1; }
  mkdir -p $home/ascend-toolkit; echo 'export LAB_CANN=1' > $home/ascend-toolkit/set_env.sh ;;
kernels)
  read -r -p "Do you accept the EULA? [Y/N] " answer && test "$answer" = y || { echo "[ERROR] no answer" >&2; exit 1; }
  test -e $home/ascend-toolkit/set_env.sh || { echo "[ERROR] install the toolkit first" >&2; exit 1; } ;;
esac
echo "$what installed"
