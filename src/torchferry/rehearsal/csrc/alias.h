// A CPU tensor on the bytes of a device tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include "dtypes.h"
#include "memory.h"

namespace ferry {

constexpr auto kMathBits =
    c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});

inline bool on_device(const at::Tensor& tensor) { return tensor.device().type() == settings().type; }

// The compressed sparse layouts; before torch 2.3 they exist on CPU and CUDA alone, with a key for each.
#if FERRY_TORCH >= 203
constexpr auto kCompressedKey = c10::DispatchKey::SparseCsr;
#else
constexpr auto kCompressedKey = c10::DispatchKey::SparseCsrCPU;
#endif

constexpr auto kMadeOfParts =
    c10::DispatchKeySet({c10::DispatchKey::Sparse, kCompressedKey, c10::DispatchKey::NestedTensor});

// Whether a tensor is made of other tensors, and has no memory of its own: sparse and nested ones.
inline bool is_made(const at::Tensor& tensor) { return tensor.key_set().has_any(kMadeOfParts); }

inline void require_strided(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_made(tensor), "a tensor on ", settings().name,
                              " is sparse or nested where a dense one is needed: make it dense first (to_dense, "
                              "to_padded_tensor)");
}

// Without autograd keys the alias needs no version counter; it never leaves the kernels below autograd.
inline at::Tensor cpu_alias(const at::Tensor& tensor, StoragePtr twin) {
  const auto* source = tensor.unsafeGetTensorImpl();
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(std::move(twin)),
      c10::DispatchKeySet(c10::DispatchKey::CPU) | (source->key_set() & kMathBits), source->dtype());
  auto* implementation = alias.unsafeGetTensorImpl();
  implementation->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
  if (source->is_wrapped_number()) {
    implementation->set_wrapped_number(true);
  }
  return alias;
}

inline at::Tensor cpu_alias(const at::Tensor& tensor) {
  require_strided(tensor);
  return cpu_alias(tensor, twin_of(tensor.storage()));
}

// The same as a tensor in its own right, which may leave the call: collectives work on it in a thread of theirs.
inline at::Tensor host_tensor(const at::Tensor& tensor) {
  require_strided(tensor);
  auto host = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(twin_of(tensor.storage())),
      c10::DispatchKeySet(c10::DispatchKey::CPU) | (tensor.key_set() & kMathBits), tensor.dtype());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return host;
}

}  // namespace ferry
