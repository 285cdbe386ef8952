"""Files that the lab's bundles carry: wheels, images and installers, made here in a moment."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def wheel(folder: Path, name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> Path:
    """Write a wheel of pure Python."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in requires)
    contents = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text.encode())}\n" for path, text in contents.items())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name_in_wheel, text in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(name_in_wheel), text)
    return path


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def docker_archive(layers: Sequence[Path], tag: str, path: Path) -> None:
    """Write an image of some layers as `docker save` does; needs no Docker."""
    digests = [hashlib.sha256(layer.read_bytes()).hexdigest() for layer in layers]
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["bash"], "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    name = hashlib.sha256(configuration).hexdigest()
    rows = [f"{digest}/layer.tar" for digest in digests]
    manifest = json.dumps([{"Config": f"{name}.json", "RepoTags": [tag], "Layers": rows}]).encode()
    with tarfile.open(path, "w") as archive:
        for layer, row in zip(layers, rows, strict=True):
            archive.add(layer, row)
        for member, data in ((f"{name}.json", configuration), ("manifest.json", manifest)):
            information = tarfile.TarInfo(member)
            information.size = len(data)
            archive.addfile(information, io.BytesIO(data))


def self_extracting(script: Path, payload: Path, path: Path) -> None:
    """Write an installer: a script with an archive behind it, of which `__SKIP__` is the first line."""
    text = script.read_text(encoding="utf-8")
    text = text.replace("__SKIP__", str(len(text.splitlines()) + 1))
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(payload, ".")
    path.write_bytes(text.encode() + data.getvalue())
    path.chmod(0o755)


def t20_sources(folder: Path, image_layer: Path, debs: Path | None) -> dict[str, Path]:
    """Make what a bundle of the T20 flow carries; the image has no Python where its packages are carried in `debs`."""
    t20 = HERE / "t20"
    payload = folder / "payload"
    torch, ptex = ((t20 / f"{name}_module.txt").read_text(encoding="utf-8") for name in ("torch", "ptex"))
    of_cards = "from torch import distributed, gcu\nset_device, synchronize = gcu.set_device, gcu.synchronize\n"
    of_cards += "import sys; sys.modules['torch_gcu.distributed'] = distributed\n"
    framework = {"torch/__init__.py": torch, "torch_gcu/__init__.py": of_cards}
    wheel(payload / "pytorch-gcu", "torch", "1.11.0+gcu", framework)
    wheel(payload / "pytorch-gcu", "ptex", "2.1.0+torch1.11.0", {"ptex/__init__.py": ptex})
    scripts = payload / "huggingface-gcu" / "sd_scripts_1.1.28"
    wheel(scripts, "torch", "2.1.0", {"torch/__init__.py": "__version__ = '2.1.0'\n"})
    for name in ("install_for_sd_scripts.sh", "sdxl_minimal_inference.sh"):
        (scripts / name).write_bytes((t20 / name).read_bytes())
    (scripts / "sdxl_minimal_inference.py").write_text("# the installer's own\n", encoding="utf-8")
    sources = {
        "installer": folder / "TopsRider_t2x_2.5.136_deb_amd64.run",
        "image_tar": folder / "ubuntu-20.04.tar",
        "wheels": folder / "wheels",
        "model": folder / "stable-diffusion-xl-base-1.0",
        "sample_script": folder / "sdxl_minimal_inference.py",
    }
    (payload / "libraries").write_bytes(random.Random(0).randbytes(4 << 20))
    self_extracting(t20 / "installer.sh", payload, sources["installer"])
    docker_archive([image_layer], "ubuntu:20.04", sources["image_tar"])
    pins = {"tokenizers": "0.13.3", "protobuf": "3.20.3", "huggingface-hub": "0.15.1", "torchvision": "0.11.1"}
    for name, version in pins.items():
        wheel(sources["wheels"], name, version, {f"{name.replace('-', '_')}/__init__.py": ""})
    for name in ("tokenizer", "tokenizer_2"):
        (sources["model"] / name).mkdir(parents=True, exist_ok=True)
        (sources["model"] / name / "vocab.json").write_text("{}", encoding="utf-8")
    (sources["model"] / "sd_xl_base_1.0_0.9vae.safetensors").write_bytes(b"weights" * 100_000)
    sources["sample_script"].write_text("# the corrected one\n", encoding="utf-8")
    if debs is not None:
        sources["debs"] = debs
    return sources


def _stand_in(target: str) -> str:
    """Return the lab's torch with a vendor's part in it, which computes on the CPU."""
    torch = (HERE / "t20" / "torch_module.txt").read_text(encoding="utf-8")
    return torch if target == "gcu" else f"{torch}\n\n{target} = gcu\ndel gcu\n"


def npu_sources(folder: Path, image_layer: Path) -> dict[str, Path]:
    """Make what a bundle of the npu flow carries."""
    script = (HERE / "npu" / "installer.sh").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    sources = {name: folder / f"Ascend-{name}.run" for name in ("driver", "firmware", "toolkit", "kernels")}
    for name, path in sources.items():
        path.write_text(script.replace("__WHAT__", name), encoding="utf-8")
    sources |= {"image_tar": folder / "image.tar", "wheels": folder / "wheels"}
    docker_archive([image_layer], "lab/cann:1", sources["image_tar"])
    wheel(sources["wheels"], "torch", "2.1.0", {"torch/__init__.py": _stand_in("npu")})
    wheel(sources["wheels"], "torch-npu", "2.1.0", {"torch_npu/__init__.py": "__version__ = '2.1.0'\n"})
    return sources


def _framework_image(folder: Path, image_layer: Path, target: str, empty: Sequence[str] = ()) -> Path:
    """Write an image `lab/torch-TARGET:1` that has the framework, as some vendors' images do, and some empty files."""
    layer, path = folder / "framework.tar", folder / "image.tar"
    with tarfile.open(layer, "w") as archive:
        for name, text in (("torch", _stand_in(target)), (f"torch_{target}", "")):
            information = tarfile.TarInfo(f"usr/lib/python3/dist-packages/{name}/__init__.py")
            information.size = len(text.encode())
            archive.addfile(information, io.BytesIO(text.encode()))
        for name in empty:
            archive.addfile(tarfile.TarInfo(name))
    docker_archive([image_layer, layer], f"lab/torch-{target}:1", path)
    return path


def sdaa_sources(folder: Path, image_layer: Path) -> dict[str, Path]:
    """Make what a bundle of the sdaa flow carries."""
    sources = {"driver_rpms": folder / "rpms"}
    sources["driver_rpms"].mkdir(parents=True)
    (sources["driver_rpms"] / "tecodriver-3.2.1.rpm").write_text("the lab's\n", encoding="utf-8")
    return {**sources, "image_tar": _framework_image(folder, image_layer, "sdaa")}


def gcu_sources(folder: Path, image_layer: Path) -> dict[str, Path]:
    """Make what a bundle of the gcu flow carries."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"installer": HERE / "gcu" / "installer.sh", "image_tar": _framework_image(folder, image_layer, "gcu")}


def musa_sources(folder: Path, image_layer: Path) -> dict[str, Path]:
    """Make what a bundle of the musa flow carries: packages that dpkg installs, and sources to build."""
    drivers, toolkit, sources = folder / "drivers", folder / "toolkit", folder / "sources"
    loaded = "mkdir -p /var/lib/fakekmod\necho 0 > /var/lib/fakekmod/mtgpu\n"
    deb(drivers, "musa", "4.0.1", {}, loaded, "rm -f /var/lib/fakekmod/mtgpu\n")
    setup = (HERE / "musa" / "docker").read_text(encoding="utf-8")
    deb(toolkit, "mtml", "1.5.0", {})
    deb(toolkit, "sgpu-dkms", "1.1.1", {}, depends="mtml")
    deb(toolkit, "mt-container-toolkit", "1.5.0", {"usr/bin/musa/docker": setup}, depends="sgpu-dkms")
    for name, text in (("pytorch/setup.py", ""), ("torch_musa/build.sh", (HERE / "musa" / "build.sh").read_text())):
        (sources / name).parent.mkdir(parents=True)
        (sources / name).write_text(text, encoding="utf-8")
    parts = ("lib/libmurand.so", "lib/libmusparse.so", "include/thrust/x", "include/cub/x", "include/mutlass/x")
    image = _framework_image(folder, image_layer, "musa", [f"usr/local/musa/{part}" for part in parts])
    return {"driver_debs": drivers, "toolkit_debs": toolkit, "sources": sources, "image_tar": image}


def deb(
    folder: Path, name: str, version: str, files: dict[str, str], after: str = "", before: str = "", depends: str = ""
) -> None:
    """Write a package for dpkg, with programs, and what runs after its installation and before its removal."""
    folder.mkdir(parents=True, exist_ok=True)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: lab\nDescription: lab\n"
    control += f"Depends: {depends}\n" if depends else ""
    scripts = {f"./{kind}": f"#!/bin/sh\n{text}" for kind, text in (("postinst", after), ("prerm", before)) if text}
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _archive({"./control": control, **scripts}),
        "data.tar.gz": _archive({f"./{path}": text for path, text in files.items()}),
    }
    data = b"!<arch>\n"
    for member, content in members.items():
        data += f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        data += b"\n" * (len(content) % 2)
    (folder / f"{name}_{version}_amd64.deb").write_bytes(data)


def _archive(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        folders = sorted({f"{parent.as_posix()}" for path in files for parent in list(Path(path).parents)[:-1]})
        for folder in folders:
            information = tarfile.TarInfo(f"./{folder}")
            information.type, information.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(information)
        for path, text in files.items():
            information = tarfile.TarInfo(path)
            information.size, information.mode = len(text.encode()), 0o644 if path == "./control" else 0o755
            archive.addfile(information, io.BytesIO(text.encode()))
    return data.getvalue()
