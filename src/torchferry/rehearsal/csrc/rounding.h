// Inputs of products that lose bits of their mantissa: 10 are left of what TF32 and HF32 units read.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>

#include "operators.h"

namespace ferry {

inline int mantissa_bits(const Operator& op) {
  const auto& wanted = op.convolves ? settings().convolution_bits : settings().matmul_bits;
  return wanted.load(std::memory_order_relaxed);
}

inline bool reads_fewer_bits(const Operator& op) { return mantissa_bits(op) != 0 && op.widens; }

// To nearest. What is expanded or cut out of another tensor is laid out anew.
inline at::Tensor round_mantissa(const Operator& op, const at::Tensor& values) {
  auto rounded = values.clone(at::MemoryFormat::Preserve);
  auto* data = static_cast<uint32_t*>(rounded.mutable_data_ptr());
  const int dropped = 23 - mantissa_bits(op);
  const uint32_t half = uint32_t{1} << (dropped - 1);
  const uint32_t mask = ~((uint32_t{1} << dropped) - 1);
  const auto count = rounded.numel();
  for (int64_t i = 0; i < count; i++) {
    if ((data[i] & 0x7f800000U) != 0x7f800000U) {
      data[i] = (data[i] + half) & mask;
    }
  }
  return rounded;
}

}  // namespace ferry
