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

#include "composed.h"

namespace ferry::attention {

using at::Tensor;
using Optional = optional<Tensor>;

constexpr const char* kName = "aten::scaled_dot_product_attention";

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

inline std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const Optional& bias, double dropout, bool causal,
    bool /*return_debug_mask*/, optional<double> scale) {
  composed::Scope s(kName);
  const Tensor q = s.in(query), k = s.in(key), v = s.in(value), mask = s.in(bias);
  s.again_in_float32();  // checks the devices; the kernel adds half numbers up in float32 by itself
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal,
                                                                     mask.defined() ? Optional(mask) : nullopt, scale);
  return {s.out(std::move(out)), s.out(std::move(sums)), {}, {}, q.size(2), k.size(2), {}, {}, {}};
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    std::array<bool, 4> wanted, const Tensor& out, const Tensor& sums, const Tensor& /*cum_seq_q*/,
    const Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool causal,
    const Tensor& /*philox_seed*/, const Tensor& /*philox_offset*/, optional<double> scale) {
  composed::Scope s(kName);
  const Tensor d = s.in(grad), q = s.in(query), k = s.in(key), v = s.in(value), mask = s.in(bias);
  const Tensor o = s.in(out), sum = s.in(sums);
  s.again_in_float32();
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      d, q, k, v, o, sum, dropout, causal, mask.defined() ? Optional(mask) : nullopt, scale);
  return {wanted[0] ? s.out(std::move(dq)) : Tensor(), wanted[1] ? s.out(std::move(dk)) : Tensor(),
          wanted[2] ? s.out(std::move(dv)) : Tensor(), Tensor()};
}

}  // namespace ferry::attention

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ferry::attention::choose)

}  // namespace at::native
#endif
