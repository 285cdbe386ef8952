// Operators that PyTorch hands to accelerators alone, on plain tensors: convolutions, fused recurrent cells,
// synchronised batch norm.
//
// Formulas: torch.nn.LSTMCell and GRUCell documentation; batch norm statistics as in aten/src/ATen/native/cuda/
// Normalization.cuh (mean and inverse standard deviation for each channel, combined by count).
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "torch_versions.h"

namespace ferry::formulas {

using at::Tensor;
using Optional = optional<Tensor>;

inline Tensor given(const Optional& tensor) { return tensor.has_value() ? *tensor : Tensor(); }

// What a plugin may bring for the end of `aten::convolution` (`convolution_overrideable`) takes sizes of this type.
#if FERRY_TORCH >= 202
using Extents = c10::SymIntArrayRef;
using Extent = c10::SymInt;
#else
using Extents = c10::IntArrayRef;
using Extent = int64_t;
#endif
inline Tensor convolution(const Tensor& input, const Tensor& weight, const Optional& bias, Extents stride,
                          Extents padding, Extents dilation, bool transposed, Extents output_padding, Extent groups) {
  return at::symint::convolution<Extent>(input, weight, bias, stride, padding, dilation, transposed, output_padding,
                                         groups);
}
inline std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input,
                                                               const Tensor& weight, Extents stride, Extents padding,
                                                               Extents dilation, bool transposed,
                                                               Extents output_padding, Extent groups,
                                                               std::array<bool, 3> wanted) {
  const Extent channels = at::symint::size<Extent>(grad, 1);
  return at::symint::convolution_backward<Extent>(grad, input, weight, Extents(&channels, 1), stride, padding, dilation,
                                                  transposed, output_padding, groups, wanted);
}

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                                    const Tensor& cell, const Optional& input_bias,
                                                    const Optional& hidden_bias) {
  Tensor gates = input_gates + hidden_gates;
  if (const Tensor bias = given(input_bias); bias.defined()) {
    gates = gates + bias + given(hidden_bias);
  }
  const auto parts = gates.chunk(4, 1);
  const Tensor i = parts[0].sigmoid();
  const Tensor f = parts[1].sigmoid();
  const Tensor g = parts[2].tanh();
  const Tensor o = parts[3].sigmoid();
  const Tensor c = f * cell + i * g;
  return {o * c.tanh(), c, at::cat({i, f, g, o}, 1)};
}

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const Optional& grad_hidden, const Optional& grad_cell,
                                                             const Tensor& before, const Tensor& after,
                                                             const Tensor& workspace, bool has_bias) {
  Tensor gh = given(grad_hidden);
  Tensor gc = given(grad_cell);
  if (!gh.defined() && !gc.defined()) {
    return {};
  }
  const Tensor c = before;
  gh = gh.defined() ? gh : at::zeros_like(c);
  gc = gc.defined() ? gc : at::zeros_like(c);
  const auto parts = workspace.chunk(4, 1);
  const Tensor& i = parts[0];
  const Tensor& f = parts[1];
  const Tensor& g = parts[2];
  const Tensor& o = parts[3];
  const Tensor t = after.tanh();
  const Tensor d = gh * o * (1 - t * t) + gc;
  const Tensor gates =
      at::cat({d * g * i * (1 - i), d * c * f * (1 - f), d * i * (1 - g * g), gh * t * o * (1 - o)}, 1);
  return {gates, d * f, has_bias ? gates.sum(0) : Tensor()};
}

inline std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                           const Optional& input_bias, const Optional& hidden_bias) {
  Tensor x = input_gates;
  Tensor y = hidden_gates;
  const Tensor h = hidden;
  if (const Tensor bias = given(input_bias); bias.defined()) {
    x = x + bias;
    y = y + given(hidden_bias);
  }
  const auto xs = x.chunk(3, 1);
  const auto ys = y.chunk(3, 1);
  const Tensor r = (xs[0] + ys[0]).sigmoid();
  const Tensor z = (xs[1] + ys[1]).sigmoid();
  const Tensor n = (xs[2] + r * ys[2]).tanh();
  return {n + z * (h - n), at::cat({r, z, n, h, ys[2]}, 1)};
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                                                                            bool has_bias) {
  const Tensor d = grad;
  const auto parts = workspace.chunk(5, 1);
  const Tensor& r = parts[0];
  const Tensor& z = parts[1];
  const Tensor& n = parts[2];
  const Tensor& h = parts[3];
  const Tensor& hn = parts[4];
  const Tensor gn = d * (1 - z) * (1 - n * n);
  const Tensor gz = d * (h - n) * z * (1 - z);
  const Tensor gr = gn * hn * r * (1 - r);
  const Tensor gi = at::cat({gr, gz, gn}, 1);
  const Tensor gh = at::cat({gr, gz, gn * r}, 1);
  return {gi, gh, d * z, has_bias ? gi.sum(0) : Tensor(), has_bias ? gh.sum(0) : Tensor()};
}

// --- synchronised batch norm: channel is dimension 1 ---

inline std::vector<int64_t> all_but_channel(const Tensor& x) {
  std::vector<int64_t> dimensions;
  for (int64_t d = 0; d < x.dim(); d++) {
    if (d != 1) {
      dimensions.push_back(d);
    }
  }
  return dimensions;
}

inline Tensor by_channel(const Tensor& values, const Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

inline Tensor wide(const Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

inline std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  const Tensor x = wide(input);
  const auto dimensions = all_but_channel(x);
  return {x.mean(dimensions), at::rsqrt(x.var(dimensions, false) + eps)};
}

inline std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(const Tensor& /*input*/, const Tensor& means,
                                                                      const Tensor& inverse_deviations,
                                                                      const Optional& running_mean,
                                                                      const Optional& running_var, double momentum,
                                                                      double eps, const Tensor& counts) {
  const Tensor m = means;
  const Tensor invstd = inverse_deviations;
  const Tensor count = counts.view({-1, 1}).to(m.scalar_type());
  const Tensor total = count.sum();
  const Tensor mean = (m * count).sum(0) / total;
  const Tensor variance = ((1 / (invstd * invstd) - eps + (m - mean).square()) * count).sum(0) / total;
  if (Tensor running = given(running_mean); running.defined()) {
    running.mul_(1 - momentum).add_(mean.to(running.scalar_type()), momentum);
  }
  if (Tensor running = given(running_var); running.defined()) {
    running.mul_(1 - momentum).add_((variance * total / (total - 1)).to(running.scalar_type()), momentum);
  }
  return {mean, at::rsqrt(variance + eps)};
}

inline Tensor batch_norm_elemt(const Tensor& input, const Optional& weight, const Optional& bias, const Tensor& mean,
                               const Tensor& invstd, double /*eps*/) {
  const Tensor x = input;
  Tensor y = (x - by_channel(mean, x)) * by_channel(invstd, x);
  if (const Tensor w = given(weight); w.defined()) {
    y = y * by_channel(w, x);
  }
  if (const Tensor b = given(bias); b.defined()) {
    y = y + by_channel(b, x);
  }
  return y.to(x.scalar_type());
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(const Tensor& grad, const Tensor& input,
                                                                             const Tensor& mean, const Tensor& invstd,
                                                                             const Optional& /*weight*/, bool input_g,
                                                                             bool weight_g, bool bias_g) {
  const Tensor x = input;
  const Tensor d = wide(grad);
  const auto dimensions = all_but_channel(x);
  const Tensor sum = d.sum(dimensions);
  const Tensor product = (d * (wide(x) - by_channel(mean, x))).sum(dimensions);
  return {input_g ? sum.clone() : Tensor(), input_g ? product.clone() : Tensor(),
          weight_g ? product * invstd : Tensor(), bias_g ? sum.clone() : Tensor()};
}

inline Tensor batch_norm_backward_elemt(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                        const Tensor& invstd, const Optional& weight, const Tensor& sum_dy,
                                        const Tensor& sum_dy_xmu, const Tensor& count) {
  const Tensor x = input;
  const Tensor inverse = invstd;
  const Tensor total = count.sum().to(inverse.scalar_type());
  const Tensor w = given(weight);
  const Tensor factor = w.defined() ? inverse * w : inverse;
  const Tensor centred = wide(x) - by_channel(mean, x);
  const Tensor dx =
      (wide(grad) - by_channel(sum_dy / total, x) - centred * by_channel(sum_dy_xmu / total * inverse * inverse, x)) *
      by_channel(factor, x);
  return dx.to(x.scalar_type());
}

}  // namespace ferry::formulas
