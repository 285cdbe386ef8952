"""What a person has to look at after a port: one kind of place for each thing that no renaming settles.

`KINDS` has them all, with why such a place matters and what to do about it.
"""

from __future__ import annotations

from typing import Any

from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple


class ReviewItem(NamedTuple):
    """One place to look at.

    Attributes:
        path: Of the file that was read, relative to the tree, with `/`.
        line: From 1.
        column: From 1, in characters.
        kind: A name of `KINDS`.
        message: What is there and what to do.
        excerpt: The line, at most 160 characters.
    """

    path: str
    line: int
    column: int
    kind: str
    message: Message
    excerpt: str

    def document(self, lang: str) -> dict[str, Any]:
        """Return the place as JSON holds it."""
        return {**self._asdict(), "message": self.message.render(lang)}


class ReviewKind(NamedTuple):
    """Places of one kind.

    Attributes:
        name: Its name: small letters and `-`.
        number: Its number, by which `torchferry rule` explains it: `PRT` and three digits, the first of them 1 for
            code of the device, 2 for APIs, 3 for texts and files, 4 for what builds. It never changes.
        why: Why such a place matters.
        action: What to do about it.
        blocks: Whether the ported code cannot be right, or cannot be compiled, before somebody has acted.
    """

    name: str
    number: str
    why: Message
    action: Message
    blocks: bool = False

    def document(self, lang: str) -> dict[str, Any]:
        """Return the kind as JSON holds it, without its name."""
        return {
            "number": self.number,
            "why": self.why.render(lang),
            "action": self.action.render(lang),
            "blocks": self.blocks,
        }


def kinds() -> dict[str, ReviewKind]:
    """Return the kinds of place by name, what blocks first."""
    return {kind.name: kind for kind in _KINDS}


_KINDS = (
    ReviewKind(
        "version-guard",
        "PRT204",
        say(
            "the value is a CUDA version or an NVIDIA architecture; if it is undefined, it counts as 0 and the oldest "
            "branch is taken"
        ),
        say("decide which branch the target needs, and write the condition for it"),
        blocks=True,
    ),
    ReviewKind(
        "inline-assembly",
        "PRT101",
        say("PTX is the instruction set of NVIDIA's GPUs"),
        say("write it in C++, or with the target's intrinsics"),
        blocks=True,
    ),
    ReviewKind(
        "ptx-kernel",
        "PRT102",
        say("the kernel, or a function that it calls, is written in PTX"),
        say("where it rests on an instruction, write a new kernel or use the vendor's; else write it in C++"),
        blocks=True,
    ),
    ReviewKind(
        "tensor-core",
        "PRT103",
        say("wmma and mma are NVIDIA's matrix instructions, with their own shapes and layouts"),
        say("use the target's matrix instructions or its library, or leave the kernel out"),
        blocks=True,
    ),
    ReviewKind(
        "texture",
        "PRT104",
        say("texture and surface references need hardware that the target may not have"),
        say("read the memory directly, unless the vendor's manual says that textures are supported"),
        blocks=True,
    ),
    ReviewKind(
        "shared-memory-limit",
        "PRT105",
        say("the block uses more shared memory than a card of the target allows; the compiler rejects it there"),
        say("make the tile smaller, or leave the kernel out where the model does not use it"),
        blocks=True,
    ),
    ReviewKind(
        "unknown-name",
        "PRT201",
        say("the name looks like CUDA's, and no table has it; no file here declares it either"),
        say("find the target's name, and give it with `--map`; declare in a file of the tree what is your own"),
        blocks=True,
    ),
    ReviewKind(
        "kernel-rewrite",
        "PRT106",
        say("the target's kernels are written in another language: renaming cannot turn CUDA kernels into them"),
        say("rewrite the kernel, use an operator of the vendor instead, or request one with `--requests`"),
        blocks=True,
    ),
    ReviewKind(
        "no-counterpart",
        "PRT202",
        say("the target has no equivalent function or type with the same arguments"),
        say("write the call by hand"),
        blocks=True,
    ),
    ReviewKind(
        "removed-torch",
        "PRT203",
        say("THC was removed from torch in 1.11; the target's plugin has none of it"),
        say("use the functions of ATen: at::empty, data_ptr<T>(), the current stream of the guard"),
        blocks=True,
    ),
    ReviewKind(
        "dynamic-parallelism",
        "PRT107",
        say("a kernel that starts kernels, or waits for them, needs a runtime on the device; few cards have one"),
        say("start the kernel from the host, or do its work in this one"),
        blocks=True,
    ),
    ReviewKind(
        "cluster",
        "PRT108",
        say("clusters of blocks, with memory that their blocks share, are hardware of NVIDIA's since Hopper"),
        say("write the kernel for single blocks"),
        blocks=True,
    ),
    ReviewKind(
        "capability",
        "PRT205",
        say(
            "the program decides by NVIDIA's numbers of architectures; the target's cards have others, and the "
            "comparison is true or false by chance"
        ),
        say("decide by what the card can do, or write the branch for the target"),
    ),
    ReviewKind(
        "async-copy",
        "PRT109",
        say("copies from global to shared memory beside the computation are hardware of NVIDIA's since Ampere"),
        say("check that the target's toolkit has them, or copy with plain loads and `__syncthreads()`"),
    ),
    ReviewKind(
        "managed-memory",
        "PRT206",
        say("memory that host and device share by pages needs support by card and driver"),
        say("check that the target has it, or copy between host and device"),
    ),
    ReviewKind(
        "integer-dot",
        "PRT110",
        say("the product of four 8-bit integers in one instruction is hardware of NVIDIA's since Pascal"),
        say("check that the target's compiler has the function, or write the four products"),
    ),
    ReviewKind(
        "cache-hint",
        "PRT111",
        say("loads and stores with a hint for the cache are PTX instructions; the hint changes speed, not results"),
        say("check that the target's compiler has the function, or write a plain load or store"),
    ),
    ReviewKind(
        "device-clock",
        "PRT112",
        say("the counter of the device's clock ticks at the card's own rate, and a loop that waits for it may not end"),
        say("check its rate on the target, or take the waiting out"),
    ),
    ReviewKind(
        "launch-bounds",
        "PRT113",
        say("the numbers of threads and blocks are chosen for the registers of NVIDIA's cards"),
        say("measure with other numbers on the target, or leave the qualifier out"),
    ),
    ReviewKind(
        "kernel-parameter",
        "PRT114",
        say("the qualifier says that a kernel's parameter stays in constant memory, which NVIDIA has since Volta"),
        say("leave it out if the target's compiler does not take it"),
    ),
    ReviewKind(
        "device-function",
        "PRT115",
        say("the name looks like a function or qualifier of CUDA's device language"),
        say("check that the target's compiler has it; the compiler's first run names all that it has not"),
    ),
    ReviewKind(
        "warp-size",
        "PRT116",
        say("the code is written for warps of 32 threads; the target's may have more"),
        say("take the size from the device, and check reductions and masks"),
    ),
    ReviewKind(
        "warp-intrinsic",
        "PRT117",
        say("exchange between the threads of a warp depends on the warp size; the masks have 32 bits"),
        say("check the mask and the width against the target's warp"),
    ),
    ReviewKind(
        "cooperative-groups",
        "PRT118",
        say("groups of threads, above all of a whole grid, need support by compiler and driver"),
        say("check that the target's toolkit has them"),
    ),
    ReviewKind(
        "shared-memory",
        "PRT119",
        say("the size of shared memory is chosen for NVIDIA's cards"),
        say("compare the size with the limit of the card"),
    ),
    ReviewKind(
        "atomic",
        "PRT120",
        say(
            "atomics need hardware for their type, or your own implementation; their order changes floating-point sums"
        ),
        say("check that the target has the atomic for this type"),
    ),
    ReviewKind(
        "float64",
        "PRT121",
        say("some cards have no 64-bit arithmetic, and others are slow with it"),
        say("compile for a card that has it, or compute in float"),
    ),
    ReviewKind(
        "dispatch",
        "PRT207",
        say("the macro decides which dtypes the operator has; it was left as it is"),
        say("leave it so; if a dtype does not compile, take out that one and say so in your documentation"),
    ),
    ReviewKind(
        "host-call",
        "PRT208",
        say("the vendor's runtime has a function or type of this name; whether it behaves like CUDA's was not checked"),
        say("compare arguments and behaviour with the vendor's manual"),
    ),
    ReviewKind(
        "library-call",
        "PRT209",
        say("the function belongs to a CUDA library; the target's library has only a part of its functions"),
        say("check that the target's library has the function, with the same arguments"),
    ),
    ReviewKind(
        "stream-or-graph",
        "PRT210",
        say("capture of graphs and priorities of streams differ between drivers"),
        say("check that the target's runtime has the function"),
    ),
    ReviewKind(
        "device-runtime",
        "PRT122",
        say("printf, assert and malloc on the device need support by the target's runtime"),
        say("check it, or take them out of the kernel"),
    ),
    ReviewKind(
        "header",
        "PRT211",
        say("no table has the header; it was renamed by its folder, or left as it is"),
        say("check that the target's plugin or toolkit ships it"),
    ),
    ReviewKind(
        "torch-device",
        "PRT212",
        say("the code names the CUDA device in a way that renaming cannot solve"),
        say("write the target's device"),
    ),
    ReviewKind(
        "built-name",
        "PRT301",
        say("a macro joins an identifier from pieces, or a line break splits it, so it was not renamed"),
        say("write the name out, or rename the pieces by hand"),
    ),
    ReviewKind(
        "string",
        "PRT302",
        say("a string names CUDA; strings are not changed"),
        say("change it if the program makes a decision by it"),
    ),
    ReviewKind(
        "device-name",
        "PRT213",
        say(
            "a TorchScript file names its device, and torch calls the target `privateuseone` until a name is registered"
        ),
        say("call `c10::register_privateuse1_backend` with the target's device name before the model is loaded"),
    ),
    ReviewKind(
        "other-port",
        "PRT303",
        say("the file belongs to another accelerator's port"),
        say("leave its folder out with `--ignore` if the target does not need it"),
    ),
    ReviewKind(
        "unclosed",
        "PRT304",
        say("a comment, a string or a raw string is not closed: nothing after it is read as code"),
        say("correct the file and port again"),
        blocks=True,
    ),
    ReviewKind(
        "unread",
        "PRT305",
        say("the file is binary or in UTF-16: it is copied as it is, and its CUDA names stay"),
        say("convert it to UTF-8 and port again, or leave it out with `--ignore` if nothing compiles it"),
        blocks=True,
    ),
    ReviewKind(
        "not-read",
        "PRT306",
        say("the file is part of the build, and torchferry did not read it: links out of the project are not followed"),
        say("copy the file into the project and port again, or port the folder that it lies in"),
        blocks=True,
    ),
    ReviewKind(
        "encoding",
        "PRT307",
        say("the file is not text in UTF-8; it is ported byte by byte"),
        say("check the result"),
    ),
    ReviewKind(
        "unsafe-rule",
        "PRT308",
        say("a rule of the map changes more than names"),
        say("read the rule; without `--unsafe` it was not applied"),
    ),
    ReviewKind(
        "test-device",
        "PRT309",
        say("a test names CUDA outside of its list of devices, so this part does not run on the target"),
        say("take the device from a parameter of the test"),
    ),
    ReviewKind(
        "build-extension",
        "PRT401",
        say("torchferry cannot tell from the build script which extensions it builds"),
        say("write the target's extension by hand"),
        blocks=True,
    ),
    ReviewKind(
        "build-unread",
        "PRT402",
        say("the file, or a part of it, could not be read"),
        say("correct the file and port again"),
        blocks=True,
    ),
    ReviewKind(
        "build-flag",
        "PRT403",
        say("the flag is one of CUDA's compiler alone"),
        say("leave it out for the target, and compare results and speed where it changed them"),
    ),
    ReviewKind(
        "build-macro",
        "PRT404",
        say("the build defines a macro for CUDA that the port does not rename in the sources"),
        say("decide whether the sources need it on the target, and give its name with `--map`"),
    ),
    ReviewKind(
        "build-variable",
        "PRT405",
        say("the build uses an environment variable for CUDA"),
        say("set the target's variable, or document that this one is valid there too"),
    ),
    ReviewKind(
        "build-condition",
        "PRT406",
        say("the build script asks torch about CUDA, and the answer on the target is no"),
        say("write the condition for the target"),
    ),
    ReviewKind(
        "build-by-hand",
        "PRT407",
        say("the build script has a CUDA name that no table maps"),
        say("decide what it means on the target"),
    ),
    ReviewKind(
        "build-jit",
        "PRT408",
        say("kernels in strings are compiled when the program runs, and are not ported with the files"),
        say("port the text of the string, or move it into a file"),
    ),
    ReviewKind(
        "build-other-arms",
        "PRT409",
        say(
            "the build is also for the CPU or other vendors' cards; these use the original sources, which stay "
            "beside the port"
        ),
        say("check that each branch builds the right sources, also on machines without the target's plugin"),
    ),
    ReviewKind(
        "build-requirement",
        "PRT410",
        say("a build requirement makes pip install a torch or a package that the target does not use"),
        say("build without isolation (`pip install --no-build-isolation .`), in the environment that has the plugin"),
    ),
    ReviewKind(
        "build-cmake",
        "PRT411",
        say("the CMake file has a CUDA name that no table maps, or one whose counterpart works differently"),
        say("decide what it means on the target"),
    ),
    ReviewKind(
        "build-meson",
        "PRT412",
        say("Meson supports CUDA as a language, but no target's compiler"),
        say("compile the ported sources with a custom target that calls the vendor's compiler"),
        blocks=True,
    ),
    ReviewKind(
        "build-bazel",
        "PRT413",
        say("no vendor counterpart of Bazel's rules for CUDA is known"),
        say("write a rule that calls the vendor's compiler"),
        blocks=True,
    ),
)
