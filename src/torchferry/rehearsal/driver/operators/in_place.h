// What optimizers do to lists of small tensors, on the plugin's memory itself. Each element is rounded once, so that
// the CPU's bits come out whatever the order; the CPU's kernel takes longer to look at a small tensor than to compute
// it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>

#include "../../csrc/hot_operators.h"

namespace ferry::plugin::in_place {

constexpr int64_t kSmall = 16384;  // elements; the CPU's vectors are wider than those that this is compiled for

inline bool is_small(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.numel() <= kSmall;
}

inline bool are_small(at::TensorList tensors) { return std::all_of(tensors.begin(), tensors.end(), is_small); }

// Whether the kernel would round this number as a cast does.
inline bool is_plain(const at::Scalar& number) {
  return number.isFloatingPoint() || (number.isIntegral(false) && std::abs(number.toDouble()) <= 1 << 24);
}

inline float* elements(const at::Tensor& tensor) {
  return static_cast<float*>(host_address(tensor.unsafeGetTensorImpl()->mutable_data()));
}

// Whether it was done.
template <class Op, class... A>
bool done(const A&...) {
  return false;
}

template <class Op, std::enable_if_t<std::is_same_v<Op, at::_ops::_foreach_mul__Scalar>, int> = 0>
bool done(const at::TensorList& tensors, const at::Scalar& factor) {
  if (!is_plain(factor) || !are_small(tensors)) {
    return false;
  }
  const auto by = static_cast<float>(factor.toDouble());
  for (const auto& tensor : tensors) {
    std::for_each_n(elements(tensor), tensor.numel(), [by](float& each) { each *= by; });
  }
  return true;
}

template <class Op, std::enable_if_t<std::is_same_v<Op, at::_ops::_foreach_add__List>, int> = 0>
bool done(const at::TensorList& tensors, const at::TensorList& others, const at::Scalar& alpha) {
  if (!is_plain(alpha) || alpha.toDouble() != 1 || tensors.size() != others.size() || !are_small(tensors) ||
      !are_small(others)) {
    return false;
  }
  for (size_t index = 0; index < tensors.size(); index++) {
    if (tensors[index].sizes() != others[index].sizes()) {
      return false;
    }
  }
  for (size_t index = 0; index < tensors.size(); index++) {
    float* target = elements(tensors[index]);
    std::transform(target, target + tensors[index].numel(), elements(others[index]), target, std::plus<>());
  }
  return true;
}

}  // namespace ferry::plugin::in_place
