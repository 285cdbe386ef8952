"""What a word of a C++ file means for a port: renamed everywhere, renamed in some places, looked at, or nothing.

Each word is judged once for a whole tree, so that a file costs what its text costs, and little for its words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torchferry.backends.kernel_table import KernelTable, Renamed
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.kernels import cuda_words
from torchferry.kernels.hazards import is_about_architectures, is_about_warps
from torchferry.kernels.tokens import ALL_CHARACTERS

LIBRARIES = ("cublas", "cudnn", "cusparse", "cusolver", "curand", "cufft", "nvml", "nvrtc", "nvtx", "npp", "nccl")
"""The libraries of CUDA, by what their names begin with."""


class WordMeaning(NamedTuple):
    """What is done about a word, wherever it is an identifier.

    Attributes:
        use: What is written instead; empty where the word stays, or `place` decides.
        kind: The kind of review item for each file that has it; empty for none.
        every: Whether each place is an item, and not the first of a file alone.
        place: How places are told apart: `cuda`, `key`, `method`, `arch`, `guard`, `header`, `include-word`, `kernel`,
            `number` for a name of the size of a warp or of an architecture; empty where all are alike.
        owner: `api` for a name that looks like CUDA's and is in no table, `device` for one that looks like a function
            of its device language, `project` for one that looks like the project's own; empty for others.
    """

    use: str = ""
    kind: str = ""
    every: bool = False
    place: str = ""
    owner: str = ""


NOTHING = WordMeaning()

_EXACT_KINDS = {
    "warpSize": "warp-size",
    "WARP_SIZE": "warp-size",
    "C10_WARP_SIZE": "warp-size",
    "kWarpSize": "warp-size",
    "asm": "inline-assembly",
    "__asm__": "inline-assembly",
    "__asm": "inline-assembly",
    "wmma": "tensor-core",
    "nvcuda": "tensor-core",
    "cooperative_groups": "cooperative-groups",
    "fastAtomicAdd": "atomic",
    "fastSpecializedAtomicAdd": "atomic",
    "double": "float64",
    "THCState": "removed-torch",
    "THCudaCheck": "removed-torch",
    "THCUNN_assertSameGPU": "removed-torch",
    "lazyInitCUDA": "torch-device",
    "hasCUDA": "torch-device",
    "hasCuDNN": "torch-device",
    "CUDART_VERSION": "version-guard",
    "CUDA_VERSION": "version-guard",
    "CUDNN_VERSION": "version-guard",
    "CUDNN_MAJOR": "version-guard",
    "CUBLAS_VERSION": "version-guard",
    "CUSPARSE_VERSION": "version-guard",
    "NCCL_VERSION_CODE": "version-guard",
    "TORCH_HIP_VERSION": "version-guard",
    "__has_include": "header",
    "texture": "texture",
    "surface": "texture",
    **cuda_words.HAZARDS,
}
"""Words that are looked at, with the kind of item that each is."""

_PATTERN_KINDS = (
    (
        lazy_regex(r"__(?:shfl|ballot|any|all|match_any|match_all|reduce_\w+|activemask|syncwarp)(?:_\w+)?\Z"),
        "warp-intrinsic",
    ),
    (lazy_regex(r"(?:WARP_(?:SHFL|BALLOT|ANY|ALL)\w*)\Z"), "warp-intrinsic"),
    (
        lazy_regex(
            r"(?:tex[123]D\w*|tex1Dfetch|surf[123]D\w*|cudaTexture\w*|cuda(?:Bind|Unbind)Texture\w*|cuda(?:Create|Destroy)TextureObject|cudaSurface\w*)\Z"
        ),
        "texture",
    ),
    (lazy_regex(r"(?:mma_sync|load_matrix_sync|store_matrix_sync|__mma\w+|ldmatrix\w*)\Z"), "tensor-core"),
    (lazy_regex(r"cudaLaunchCooperative\w+\Z"), "cooperative-groups"),
    (
        lazy_regex(
            r"(?:cudaGraph\w+|cudaStream(?:Begin|End|Is|Get)Captur\w*|cudaStreamCreateWithPriority|cudaDeviceGetStreamPriorityRange|cudaStreamAttachMemAsync)\Z"
        ),
        "stream-or-graph",
    ),
    (lazy_regex(r"(?:AT|TORCH)_DISPATCH_\w*(?:HALF|BFLOAT|AND\d?)\w*\Z"), "dispatch"),
    (
        lazy_regex(r"(?:cublas|cudnn|cusparse|cusolver|curand|cufft|nvml|nvrtc|nvtx|npp[is]?|nccl)[A-Z]\w*\Z"),
        "library-call",
    ),
    (lazy_regex(r"(?:THC[A-Z_]\w*|THCuda\w*|THTensor\w*|THC)\Z"), "removed-torch"),
    (lazy_regex(r"(?:__CUDACC_VER\w*|CUDA_API_VERSION|CUB_VERSION|THRUST_VERSION)\Z"), "version-guard"),
    *cuda_words.HAZARD_PATTERNS,
)
"""The same by pattern; the first that fits."""

_EVERY = frozenset({"version-guard", "inline-assembly", "texture"})
"""Kinds of which each place is an item."""

_API = lazy_regex(
    r"(?:cu(?:da)?[A-Z]\w*|CU(?:_[A-Z]\w*|[a-z]\w*)|cu(?:blas|dnn|sparse|solver|rand|fft|pti)[A-Z_]\w*"
    r"|(?:CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CURAND|CUFFT|CUPTI|NVTX|NVRTC|NCCL|CUDART)_\w+"
    r"|(?:C10|AT|TORCH)_CUDA_\w+|CUDA[A-Z][a-z]\w*|(?:__)?nv_[a-z]\w*|nvtx\d?\w*|(?:nvrtc|nvml|nccl|npp)[A-Z]\w*)\Z"
)
"""What looks like a name of CUDA, of its libraries or of libtorch's CUDA side."""

_OWN = lazy_regex(r"(?=\w+\Z)\w*(?:cuda|CUDA|Cuda|NVCC|nvcc)")
"""What a project calls after CUDA."""

_BEGINNINGS = (
    "__",
    "WARP",
    "tex",
    "surf",
    "cu",
    "mma",
    "load_m",
    "store_m",
    "ldm",
    "AT_",
    "TORCH_",
    "n",
    "N",
    "atomic",
    "gpuAtomic",
    "sm",
    "cc_",
    "TH",
    "CU",
    "C10_CUDA_",
)
"""How the words begin that `_PATTERN_KINDS` and `_API` may fit."""

_PARTS = ("cuda", "CUDA", "Cuda", "NVCC", "nvcc", "arp", "ARP", "ane", "ANE", "apab", "ersion")
"""Parts of the words that `_OWN` fits, and in names of the size of a warp or of an architecture."""

_EXACT_PLACES = {
    "cuda": WordMeaning(place="cuda"),
    "CUDA": WordMeaning(place="key"),
    "is_cuda": WordMeaning(place="method"),
    **dict.fromkeys(("major", "minor"), WordMeaning(place="capability", kind="capability")),
    "__CUDA_ARCH__": WordMeaning(place="arch", kind="version-guard"),
    "__global__": WordMeaning(place="kernel"),
    "__shared__": WordMeaning(place="shared"),
    **dict.fromkeys(("printf", "assert", "malloc", "free"), WordMeaning(place="device-runtime", kind="device-runtime")),
}
"""Words whose place decides."""

_KEYS = frozenset({"AutogradCUDA", "AutocastCUDA", "SparseCUDA", "SparseCsrCUDA", "QuantizedCUDA", "NestedTensorCUDA"})
"""Dispatch keys that are CUDA's for one kind of tensor, or for one of torch's features."""

MASKS = frozenset({"0xffffffff", "0xFFFFFFFF", "FULL_MASK"})
"""What is written for all threads of a warp of 32."""

STAY = frozenset(
    {
        *("CUDA_KERNEL_ASSERT", "CUDA_KERNEL_ASSERT2", "CUDA_KERNEL_LOOP", "CUDA_KERNEL_LOOP_TYPE"),
        *("TORCH_CUDA_CPP_API", "TORCH_CUDA_CU_API", "TORCH_CUDA_API", "TORCH_UNUSED_EXCEPT_CUDA"),
    }
)
"""Names of libtorch that have CUDA's name in them and that every build of torch has: `c10/macros/`."""


_HEADER_STEMS = (
    *(
        "cublas",
        "cublas_v2",
        "cublasLt",
        "cuda_bf16",
        "cuda_fp16",
        "cuda_runtime",
        "cuda_runtime_api",
        "cudnn",
        "cufft",
    ),
    *(
        "curand",
        "curand_kernel",
        "cusolverDn",
        "cusparse",
        "cutlass",
        "device_launch_parameters",
        "mma",
        "nccl",
        "nvml",
    ),
    *("nvrtc", "nvToolsExt", "cooperative_groups"),
)
"""Words of which the headers of CUDA and of its libraries have one in their names."""


class WordJudge:
    """Judges words for one target and the user's own rules.

    Attributes:
        table: The target's.
        own: The user's names, which go before the target's.
        default: Whether the target's names are used at all.
        contexts: Words that mean CUDA in one place alone: the target's, or without them the user's.
    """

    def __init__(
        self,
        table: KernelTable,
        own: dict[str, str],
        default: bool = True,
        contexts: Mapping[tuple[str, str], Renamed] = {},
    ) -> None:
        self.table = table
        self.own = own
        self.default = default
        self.contexts = table.contexts if default else contexts
        self.meanings: dict[str, WordMeaning] = {}
        self._met: set[bytes] = set()
        self._judged: dict[bytes, str] = {}
        self._raw: set[bytes] = set()
        self._header_words = _words_of_headers(table)
        self._pairs = _first_pairs((*table.starts, *_BEGINNINGS))
        self._listed = (
            {"sm", "SM", "cc", "CC"}
            | self._header_words
            | own.keys()
            | _EXACT_KINDS.keys()
            | _EXACT_PLACES.keys()
            | MASKS
        )

    def of_interest(self, words: set[bytes]) -> list[str]:
        """Return the words about which something is done; `learn` has met all of `words`, as `words_of` has them."""
        judged = self._judged
        return [judged[raw] for raw in words & self._raw]

    def learn(self, words: set[bytes]) -> None:
        """Judge words that were not met before; many at once cost less than a few again and again."""
        new = words - self._met
        if not new:
            return
        self._met |= new
        for word in self._may_matter(b"\n".join(new).decode("latin-1")):
            meaning = self._judge(word)
            if meaning != NOTHING:
                raw = word.encode("latin-1")
                self._judged[raw] = word
                self._raw.add(raw)
                self.meanings[word] = meaning

    def _may_matter(self, lines: str) -> set[str]:
        """Return those of some words, one a line, about which `_judge` may find something.

        Most are told by how they begin, and cost no more than that.
        """
        starts, pairs = self.table.starts, self._pairs
        words = lines.split("\n")
        # two characters first: a set of them costs a third of what the beginnings cost
        begun = [word for word in words if word[:2] in pairs]
        matter = {word for word in begun if word[:3] in starts or word.startswith(_BEGINNINGS)}
        matter |= self._listed.intersection(words)
        for part in _PARTS:
            at = lines.find(part)
            while at >= 0:
                end = lines.find("\n", at)
                end = end if end >= 0 else len(lines)
                matter.add(lines[lines.rfind("\n", 0, at) + 1 : end])
                at = lines.find(part, end)
        return matter

    def _judge(self, word: str) -> WordMeaning:
        if word in self.own:
            return WordMeaning(use=self.own[word])
        contextual = self._in_context(word)
        if contextual is not None:
            return contextual
        kind = _EXACT_KINDS.get(word, "")
        if not kind and word.startswith(_BEGINNINGS):
            kind = next((name for pattern, name in _PATTERN_KINDS if pattern.match(word)), "")
        use = (self.table.use_of(word) or "") if self.default and word[:3] in self.table.starts else ""
        if use == word:
            use = ""
        elif not kind and self.default and word in self.table.own_names and not (use and self.table.takes_cuda_syntax):
            kind = "no-counterpart" if not use else "host-call" if word.startswith("cuda") else ""
        elif not use and not kind and word not in STAY and not self.table.is_named(word):
            if _API.match(word):
                return WordMeaning(owner="api", place="header" if word in self._header_words else "")
            if _OWN.match(word):
                return WordMeaning(owner="project", place="header" if word in self._header_words else "")
            if self.table.takes_cuda_syntax and cuda_words.is_of_devices(word) and not self._is_known(word):
                return WordMeaning(owner="device")
        if not use and not kind:
            if word in self._header_words:
                return WordMeaning(place="header")
            return WordMeaning(place="number") if is_about_warps(word) or is_about_architectures(word) else NOTHING
        return WordMeaning(use, kind, kind in _EVERY)

    def _is_known(self, word: str) -> bool:
        """Whether a word of CUDA's device language stays as it is: its syntax, or the vendor's own kernels use it."""
        surface = self.table.surface
        return word in cuda_words.SYNTAX or (surface is not None and word in surface.words)

    def _in_context(self, word: str) -> WordMeaning | None:
        if word in _EXACT_PLACES:
            return _EXACT_PLACES[word]
        if word in _KEYS:
            return _EXACT_PLACES["CUDA"]
        if word in MASKS:
            return WordMeaning(kind="warp-intrinsic")
        return None


def _first_pairs(beginnings: Iterable[str]) -> frozenset[str]:
    """Return the first two characters of all words that begin with one of some beginnings, and those words of one."""
    pairs: set[str] = set()
    for beginning in beginnings:
        pairs |= {beginning[:2]} if len(beginning) > 1 else {beginning, *(beginning + each for each in ALL_CHARACTERS)}
    return frozenset(pairs)


def _words_of_headers(table: KernelTable) -> frozenset[str]:
    """Return the words of which every header to be renamed has one in its name."""
    words: set[str] = {"cuh", "THC", "cuda", "thrust", "cub", *_HEADER_STEMS}
    for header in table.headers:
        stem = header.rpartition("/")[2]
        words.add(stem.rpartition(".")[0] or stem)
    return frozenset(words)
