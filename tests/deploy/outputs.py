"""Recorded outputs of failing steps, and what is said of them: target, step, output, words of cause and of remedy.

Outputs are those of the vendors' documents (T20 manual 6.6, torch_musa manual chapter 11) and of the programs that
steps start, as seen on the fake servers.
"""

OUTPUTS = [
    # the FAQ of the T20 manual
    ("ptex", "plugin", "ModuleNotFoundError: No module named 'ptex'", "ptex is not installed", "pip3 install"),
    ("ptex", "verify", "torch.gcu available: False", "torch is not the one of TopsRider", "-y -C torch-gcu"),
    (
        "ptex",
        "framework",
        "AttributeError: module 'torch' has no attribute 'gcu'",
        "TopsRider",
        "--from-stage framework",
    ),
    (
        "ptex",
        "cards-answer",
        "AssertionError: ptex.device_count() is 0",
        "no card can be opened",
        "lsmod | grep enflame",
    ),
    ("ptex", "card-computes", "AssertionError: the result is on cpu, not on the card", "no card can", "--privileged"),
    # its other traps
    (
        "ptex",
        "driver",
        "[ERROR] Mellanox OFED not found: peermem requires MLNX_OFED 5.0-2.1.8.0 or 5.4-3.1.0.0",
        "--peermem needs",
        "leave --peermem out",
    ),
    ("ptex", "driver", "ERROR: Kernel headers for 5.4.0-42 not found, module enflame not built", "kernel", "headers"),
    ("ptex", "base", "gzip: stdin: unexpected end of file\n[ERROR] archive is corrupt", "damaged", "copies it again"),
    ("ptex", "framework", "/usr/bin/python3: No module named pip", "no pip", "python3-pip"),
    ("ptex", "framework", "[ERROR] base software stack is not installed, run with -y first", "before", "stage base"),
    ("ptex", "driver", "[ERROR] root privileges are required", "as root", "--ask-become-pass"),
    ("ptex", "pins", "ERROR: No matching distribution found for protobuf==3.20.3", "wheel is missing", "again"),
    ("ptex", "sample", "the progress bar did not move", "without computing", "tokenizer"),
    ("ptex", "framework", "ImportError: libelf.so.1: cannot open shared object file", "libelf1", "debs"),
    # the FAQ of the torch_musa manual: 11.1 to 11.5
    ("musa", "driver", "Error: failed to initialize mtml.", "group render", "usermod -aG render"),
    ("musa", "driver", "$ clinfo\nNumber of platforms 0", "group render", "groupadd -o -g 109 render"),
    (
        "musa",
        "card-computes",
        "ImportError: libmudnn.so.1: cannot open shared object file: No such file or directory",
        "MUSA libraries",
        "LD_LIBRARY_PATH",
    ),
    (
        "musa",
        "build",
        "the build needs, and the SDK lacks: /opt/musa/include/mutlass",
        "/opt/musa/include/mutlass",
        "muThrust",
    ),
    ("musa", "build", "ninja: build stopped: subcommand failed.", "left-overs", "--clean"),
    (
        "musa",
        "card-computes",
        "ImportError: libsrv_um_MUSA.so: cannot open shared object file: No such file or directory",
        "mt-container-toolkit",
        "./docker setup",
    ),
    (
        "musa",
        "card-computes",
        "ImportError: /usr/lib/x86_64-linux-gnu/musa/libsrv_um_MUSA.so: file too short",
        "mt-container-toolkit",
        "MTHREADS_VISIBLE_DEVICES=all",
    ),
    (
        "musa",
        "card-computes",
        "libmusa_kernels.so: undefined symbol: _ZN2at4musa3cub28exclusive_sum_in_common_typeIiiEEvPKT_PT0_l",
        ".mu file",
        "c++filt _ZN2at4musa3cub28exclusive_sum_in_common_typeIiiEEvPKT_PT0_l",
    ),
    ("musa", "not-managed", "/etc/modprobe.d/drivertoolkit.conf: a cluster manages the driver", "undo", "--limit"),
    # others
    ("npu", "cards-listed", "dcmi module initialize failed. ret is -8005", "not restarted", "restart the host"),
    ("npu", "card-computes", "AssertionError: torch.npu.is_available() is False", "no card is visible", "npu-smi info"),
    ("sdaa", "driver", "rmmod: ERROR: Module aicard is in use", "computes on a card", "teco-smi"),
    ("sdaa", "card-computes", "OSError: libsdaart.so: cannot open shared object file", "toolkit", "setvars.sh"),
    ("gcu", "driver-loaded", "module enflame is not loaded", "kernel", "--with-dkms"),
    (
        "sdaa",
        "driver",
        "touch: cannot touch '/etc/rc.d/rc.local': No such file or directory",
        "rc.local",
        "stage driver",
    ),
    ("sdaa", "cards-listed", "bash: line 1: teco-smi: command not found", "not installed", "wait a minute"),
    ("sdaa", "card-computes", "no Python of this container has torch_sdaa", "not one with torch_sdaa", "conda info -e"),
    ("gcu", "framework-answers", "ImportError: libtopsrt.so.1: cannot open shared object file", "TopsRider", "image"),
    ("gcu", "card-computes", "AssertionError: torch.gcu.is_available() is False", "no card can be", "--privileged"),
    ("npu", "driver", "dkms build error: make failed", "not built for this kernel", "headers"),
    ("npu", "card-computes", "ImportError: libascendcl.so: cannot open shared object file", "CANN", "set_env.sh"),
    ("musa", "driver-loaded", "module mtgpu is not loaded", "not restarted", "restart the host"),
    # every target
    (
        "musa",
        "container",
        "container x differs, and x-before is kept from an earlier deployment",
        "still kept",
        "commit",
    ),
    ("ptex", "packages", "dpkg: dependency problems prevent configuration of python3", "not complete", "same image"),
    (
        "gcu",
        "engine",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock",
        "engine",
        "systemctl start",
    ),
    ("gcu", "engine", "bash: line 1: docker: command not found", "not installed", "podman"),
    ("npu", "disk", "only 120 MB free under /var/lib, 20000 MB are needed", "disk is full", "free space"),
    (
        "ptex",
        "driver",
        "gzip: write error: No space left on device\n[ERROR] archive is corrupt",
        "disk is full",
        "free space",
    ),
    ("npu", "copy-image-tar", "cat: write error: No space left on device", "disk is full", "free space"),
    ("npu", "image", "image x:1 is neither on this host nor in the bundle", "offline", "docker pull"),
    ("musa", "architecture", "architecture is aarch64, the installer is for x86_64", "another architecture", "--limit"),
    ("musa", "tools", "missing program: flock", "lacks flock", "util-linux"),
    ("sdaa", "driver", "TORCHFERRY failed: time limit of 1800 seconds", "time limit", "--timeout"),
    ("sdaa", "driver", "TORCHFERRY locked", "another installation", "wait"),
    ("ptex", "base", "TORCHFERRY failed: ended with 137", "killed", "goes on"),
    ("ptex", "base", "ended with 137, and said nothing", "was stopped", "goes on"),
    ("ptex", "driver", "could not find job", "restarted", "goes on"),
    ("ptex", "framework", "Error response from daemon: container 3dada69b is not running", "was stopped", "goes on"),
    ("ptex", "driver", "TORCHFERRY failed: a process uses a card", "torn off", "wait for it"),
    ("ptex", "survey", "Failed to connect to the host via ssh: No route to host", "cannot be reached", "inventory"),
    ("ptex", "survey", "ops@h: Permission denied (publickey,password).", "refused this account", "--ask-pass"),
    (
        "ptex",
        "survey",
        "to use the 'ssh' connection type with passwords or pkcs11_provider, you must install the sshpass program",
        "lacks sshpass",
        "on this machine",
    ),
    ("ptex", "survey", "Missing sudo password", "root without a password", "--ask-become-pass"),
    ("ptex", "survey", "/bin/sh: 1: /usr/bin/python3: not found", "no Python", "python3"),
]

UNEXPLAINED = [
    ("ptex", "base", "something that nobody has seen before"),
    ("musa", "container", "ninja: build stopped"),  # that hint is of another step
]
