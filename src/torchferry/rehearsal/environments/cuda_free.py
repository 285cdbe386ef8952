"""Install a CUDA build of torch without its CUDA libraries, where no CPU build of that version can be had.

The libraries that its other parts link to and that are left out are replaced by empty ones: torch imports and computes
on the CPU, `torch.cuda.is_available()` is False, and nothing else of CUDA works. Half a gigabyte in place of four.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.tool_environment import tool_environment

_LEFT_OUT = re.compile(r"torch/lib/(libtorch_cuda.*|libcusparseLt.*|libtorch_nvshmem)\.so[.\d]*")
_SECOND_ALLOCATOR = "torch/lib/libc10_cuda.so"
"""It reads the allocator's settings as a plugin's library does, and torch from 2.10 on refuses two that do."""

_OF_THE_BUILD = (("backends/cuda/__init__.py", "return torch._C._has_cuda", "return False"),)
"""What tells that a build has CUDA: torch from 2.14 on takes over operators of such a build while it is imported."""

_CUDA = re.compile(r"^(cuda\b[^=\n]*= *)(['\"][^'\"\n]*['\"])", re.MULTILINE)
"""Where torch's `version.py` says which CUDA it is built for."""

_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+))\.so.*")
_BESIDE = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1")
_CONSTRUCTOR = re.compile(r"^_ZN.*C[12]E")
_LIST = "empty-libraries.txt"
_MAIN = "libtorch_cuda.so"
"""What an unversioned symbol is looked for in: which of the libraries defines it makes no difference to the loader."""


def is_for_cuda(wheel: Path) -> bool:
    """Whether a wheel of torch is a build for CUDA."""
    with zipfile.ZipFile(wheel) as archive:
        return _CUDA.search(archive.read("torch/version.py").decode()) is not None


def is_cuda_free(package: Path) -> bool:
    """Whether the torch in a folder was unpacked without CUDA's libraries."""
    return (package / "lib" / _LIST).exists()


def unpack(wheel: Path, site_packages: Path, *, release: tuple[int, ...]) -> None:
    """Unpack a wheel of torch into an environment, with empty libraries in place of CUDA's.

    Args:
        wheel: A build for CUDA.
        site_packages: The environment's folder of packages.
        release: The first two numbers of torch's version.

    Raises:
        TorchferryError: gcc or binutils are not there, or torch's files are not what they were.
    """
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if not _LEFT_OUT.fullmatch(name)]
        if release >= (2, 10):
            members.remove(_SECOND_ALLOCATOR)
        archive.extractall(site_packages, members)
        for name in members:
            if name.startswith("torch/bin/"):
                (site_packages / name).chmod(0o755)
    package = site_packages / "torch"
    replace_libraries(package)
    for file, says, holds in _OF_THE_BUILD:
        text = (package / file).read_text(encoding="utf-8")
        if says not in text:
            raise TorchferryError(
                say("{wheel} has no `{text}` in {file}", wheel=wheel.name, text=says, file=f"torch/{file}")
            )
        (package / file).write_text(text.replace(says, holds), encoding="utf-8")
    version = package / "version.py"
    version.write_text(_CUDA.sub(r"\1None", version.read_text(encoding="utf-8")), encoding="utf-8")


def replace_libraries(package: Path, beside: Iterable[Path] = ()) -> None:
    """Make an empty library for each that the package's own link to and that is not there; can be called again.

    Args:
        package: Folder of torch.
        beside: Libraries of other packages, such as torchvision's, that are built for the same CUDA.
    """
    folder = package / "lib"
    listed = folder / _LIST
    for name in listed.read_text(encoding="utf-8").split() if listed.exists() else ():
        (folder / name).unlink(missing_ok=True)
    beside = list(beside)
    present = [*folder.glob("*.so*"), *package.glob("_C.*.so"), *beside]
    names = {path.name for path in present}
    for home in {path.parent for path in beside}:  # a wheel keeps what it brings beside the package
        names |= {path.name for path in home.with_name(f"{home.name}.libs").glob("*.so*")}
    absent, wanted, defined = set(), defaultdict(set), set()
    for path in present:
        lines = [line for line in _output("readelf", "-dW", path).splitlines() if "(NEEDED)" in line]
        needed = [line.partition("[")[2].partition("]")[0] for line in lines]
        absent |= {name for name in needed if name not in names and not _SYSTEM.fullmatch(name)}
        for kind, symbol, version in _symbols(path):
            if kind == "U":
                wanted[version].add(symbol)
            elif kind not in "wv":
                defined.add(symbol)
    for name in _BESIDE:
        system = Path(_output("gcc", f"-print-file-name={name}").strip())
        defined |= {symbol for kind, symbol, _ in _symbols(system.resolve()) if kind != "U"}
    own = re.compile(r"_?Py|_ITM|__gmon")
    listed.write_text("\n".join(sorted(absent)) + "\n", encoding="utf-8")
    for name in sorted(absent):
        symbols = {symbol for symbol in wanted[name] if symbol not in defined}
        if name == _MAIN:
            symbols |= {symbol for symbol in wanted[""] if symbol not in defined and not own.match(symbol)}
        _make(folder / name, symbols, version=name if wanted.get(name) else "")


def _symbols(path: Path) -> list[tuple[str, str, str]]:
    """Kind, name and version of each dynamic symbol."""
    rows = [line.split()[-2:] for line in _output("nm", "-D", path).splitlines()]
    return [(kind, symbol.partition("@")[0], symbol.partition("@")[2].lstrip("@")) for kind, symbol in rows]


def _make(library: Path, symbols: set[str], version: str) -> None:
    """Make a library whose functions return an error, and whose classes exist by name."""
    lines = ['.section .note.GNU-stack,"",@progbits', ".local nothing", ".comm nothing,65536,64"]
    table = ".quad _ZTVN10__cxxabiv117__class_type_infoE+16"
    lines += [".data", ".balign 16", "type:", table, ".quad 1f", '1: .asciz "7nothing"', ".balign 16"]
    lines += ["class: .quad 0,type", ".rept 64", ".quad fails", ".endr", ".text", "fails:"]
    lines += ["mov $100,%eax", "ret"]  # cudaErrorNoDevice
    for symbol in sorted(symbols):
        lines.append(f'.globl "{symbol}"')
        if symbol.startswith("_ZTI"):
            lines += [".data", ".balign 16", f'.type "{symbol}",@object', f'"{symbol}":', table, ".quad 1f"]
            lines += [f'.size "{symbol}",16', f'1: .asciz "{symbol[4:]}"', ".text"]
        elif symbol.startswith("_ZTV"):
            lines += [".data", ".balign 16", f'.type "{symbol}",@object', f'"{symbol}":', ".quad 0,0", ".rept 64"]
            lines += [".quad fails", ".endr", f'.size "{symbol}",528', ".text"]
        elif _CONSTRUCTOR.search(symbol):
            # the object is of a class without a name; torch 2.14 makes one while it is imported and asks for its class
            lines += [
                f'.type "{symbol}",@function',
                f'"{symbol}":',
                "lea 16+class(%rip),%rax",
                "mov %rax,(%rdi)",
                "ret",
            ]
        else:
            # a function of C++ may return a reference: to nothing but zeros
            result = "lea nothing(%rip),%rax" if symbol.startswith("_Z") else "mov $100,%eax"
            result = "xor %eax,%eax" if "device_count" in symbol else result
            lines += [f'.type "{symbol}",@function', f'"{symbol}":', result, "ret", ".balign 8"]
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "empty.s"), Path(folder, "versions.map")
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        script.write_text(f"{version or 'EMPTY'} {{ global: *; }};\n", encoding="utf-8")
        call = ["gcc", "-shared", "-nostartfiles", str(source), "-o", str(library), f"-Wl,-soname,{library.name}"]
        call += ["-l:libstdc++.so.6", *([f"-Wl,--version-script={script}"] if version else [])]
        _output(*call)


def _output(*call: object) -> str:
    """Return what a program prints.

    Raises:
        TorchferryError: it is not there, or fails.
    """
    words = [str(word) for word in call]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, env=tool_environment()).stdout
    except FileNotFoundError:
        raise TorchferryError(
            say("there is no program {name}, which a torch without CUDA's libraries is made with", name=words[0]),
            say("install gcc and binutils, or let PIP_INDEX_URL or PIP_FIND_LINKS name where a build for the CPU is"),
        ) from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[0]
        raise TorchferryError(say("{name} fails on a library of torch: {error}", name=words[0], error=said)) from None
