// Attention in one operator, as the vendors' plugins have it: scores of all positions with all others never exist.
#pragma once

#include "torch_versions.h"

#if FERRY_TORCH >= \
    205  // an older scaled_dot_product_attention composes smaller operators on every device but CPU and CUDA
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include <array>
#include <optional>
#include <tuple>
#include <utility>

namespace ferry::attention {

using at::Tensor;
using Optional = optional<Tensor>;

// Values of at::SDPBackend, which has moved between headers.
constexpr int64_t kMath = 0, kFlash = 1, kOverrideable = 4;

// Where the CPU takes its fused kernel, the device does; where not, both compose the attention of smaller operators.
inline int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const Optional& mask, double dropout,
                      bool causal, optional<double> scale, bool grouped) {
  if (mask.has_value() && mask->requires_grad()) {
    return kMath;  // the fused kernel has no gradient of the mask
  }
  if (query.scalar_type() == at::kDouble) {
    return kMath;  // as on CUDA, whose fused kernels lack it (aten/.../cuda/sdp_utils.cpp): a second derivative exists
  }
  const int64_t chosen = at::_ops::_fused_sdp_choice::redispatch(  // it looks at shapes and dtypes alone
      c10::DispatchKeySet(c10::DispatchKey::CPU), query, key, value, mask, dropout, causal, scale, grouped);
  return chosen == kFlash ? kOverrideable : kMath;
}

// On plain tensors. The kernel adds half numbers up in float32 by itself.
using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

inline Forward forward(const Tensor& query, const Tensor& key, const Tensor& value, const Optional& mask,
                       double dropout, bool causal, bool /*return_debug_mask*/, optional<double> scale) {
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale);
  return {std::move(out), std::move(sums), {}, {}, query.size(2), key.size(2), {}, {}, {}};
}

using Backward = std::tuple<Tensor, Tensor, Tensor, Tensor>;

inline Backward backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& mask, std::array<bool, 4> wanted, const Tensor& out, const Tensor& sums,
                         const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/,
                         c10::SymInt /*max_k*/, double dropout, bool causal, const Tensor& /*philox_seed*/,
                         const Tensor& /*philox_offset*/, optional<double> scale) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, query, key, value, out, sums, dropout, causal, mask.defined() ? Optional(mask) : nullopt, scale);
  return {wanted[0] ? std::move(dq) : Tensor(), wanted[1] ? std::move(dk) : Tensor(),
          wanted[2] ? std::move(dv) : Tensor(), Tensor()};
}

}  // namespace ferry::attention

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ferry::attention::choose)

}  // namespace at::native
#endif
