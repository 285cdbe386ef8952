// Operators that PyTorch hands to accelerators alone: fused recurrent cells, dropout, synchronised batch norm.
//
// Formulas: torch.nn.LSTMCell and GRUCell documentation; batch norm statistics as in aten/src/ATen/native/cuda/
// Normalization.cuh (mean and inverse standard deviation for each channel, combined by count).
#pragma once

#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/var.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

#include "call.h"

namespace ferry::composed {

using at::Tensor;
using Optional = optional<Tensor>;

class Scope {
 public:
  explicit Scope(const char* name) : Scope(c10::Dispatcher::singleton().findSchemaOrThrow(name, "")) {}

  Tensor in(const Tensor& tensor, bool writes = false) {
    return tensor.defined() ? call_.to_cpu(tensor, 0, writes) : tensor;
  }
  Tensor in(const Optional& tensor, bool writes = false) { return tensor.has_value() ? in(*tensor, writes) : Tensor(); }
  Tensor out(Tensor tensor) { return call_.to_device(std::move(tensor)); }

  // After the last argument: whether they are to be taken once more, as float32.
  bool again_in_float32() {
    call_.check_devices(schema_);
    call_.before_kernel();
    if (!call_.widens()) {
      return false;
    }
    call_.widen();
    return true;
  }
  c10::Device device() const { return call_.device(); }

 private:
  explicit Scope(const c10::OperatorHandle& handle)
      : schema_(handle.schema()), call_(Operators::instance().of(handle)) {}

  const c10::FunctionSchema& schema_;
  Call call_;
};

// The end of `aten::convolution` on a device of a plugin. Not `aten::convolution` itself: tracing records it one level
// further down, and would record the aliases.
#if FERRY_TORCH >= 202
using Extents = c10::SymIntArrayRef;
using Extent = c10::SymInt;
inline Tensor convolved(const Tensor& input, const Tensor& weight, const Tensor& bias, Extents stride, Extents padding,
                        Extents dilation, bool transposed, Extents output_padding, const Extent& groups) {
  return at::convolution_symint(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}
#else
using Extents = c10::IntArrayRef;
using Extent = int64_t;
inline Tensor convolved(const Tensor& input, const Tensor& weight, const Tensor& bias, Extents stride, Extents padding,
                        Extents dilation, bool transposed, Extents output_padding, Extent groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}
#endif
inline Tensor convolution(const Tensor& input, const Tensor& weight, const Optional& bias, Extents stride,
                          Extents padding, Extents dilation, bool transposed, Extents output_padding, Extent groups) {
  Scope s("aten::convolution");
  Tensor x = s.in(input);
  Tensor w = s.in(weight);
  Tensor b = s.in(bias);
  if (s.again_in_float32()) {
    x = s.in(input);
    w = s.in(weight);
    b = s.in(bias);
  }
  return s.out(convolved(x, w, b, stride, padding, dilation, transposed, output_padding, groups));
}

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                                    const Tensor& cell, const Optional& input_bias,
                                                    const Optional& hidden_bias) {
  Scope s("aten::_thnn_fused_lstm_cell");
  Tensor gates = s.in(input_gates) + s.in(hidden_gates);
  if (const Tensor bias = s.in(input_bias); bias.defined()) {
    gates = gates + bias + s.in(hidden_bias);
  }
  const auto parts = gates.chunk(4, 1);
  const Tensor i = parts[0].sigmoid();
  const Tensor f = parts[1].sigmoid();
  const Tensor g = parts[2].tanh();
  const Tensor o = parts[3].sigmoid();
  const Tensor c = f * s.in(cell) + i * g;
  return {s.out(o * c.tanh()), s.out(c), s.out(at::cat({i, f, g, o}, 1))};
}

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const Optional& grad_hidden, const Optional& grad_cell,
                                                             const Tensor& before, const Tensor& after,
                                                             const Tensor& workspace, bool has_bias) {
  Scope s("aten::_thnn_fused_lstm_cell_backward_impl");
  Tensor gh = s.in(grad_hidden);
  Tensor gc = s.in(grad_cell);
  if (!gh.defined() && !gc.defined()) {
    return {};
  }
  const Tensor c = s.in(before);
  gh = gh.defined() ? gh : at::zeros_like(c);
  gc = gc.defined() ? gc : at::zeros_like(c);
  const auto parts = s.in(workspace).chunk(4, 1);
  const Tensor& i = parts[0];
  const Tensor& f = parts[1];
  const Tensor& g = parts[2];
  const Tensor& o = parts[3];
  const Tensor t = s.in(after).tanh();
  const Tensor d = gh * o * (1 - t * t) + gc;
  const Tensor gates =
      at::cat({d * g * i * (1 - i), d * c * f * (1 - f), d * i * (1 - g * g), gh * t * o * (1 - o)}, 1);
  return {s.out(gates), s.out(d * f), has_bias ? s.out(gates.sum(0)) : Tensor()};
}

inline std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                           const Optional& input_bias, const Optional& hidden_bias) {
  Scope s("aten::_thnn_fused_gru_cell");
  Tensor x = s.in(input_gates);
  Tensor y = s.in(hidden_gates);
  const Tensor h = s.in(hidden);
  if (const Tensor bias = s.in(input_bias); bias.defined()) {
    x = x + bias;
    y = y + s.in(hidden_bias);
  }
  const auto xs = x.chunk(3, 1);
  const auto ys = y.chunk(3, 1);
  const Tensor r = (xs[0] + ys[0]).sigmoid();
  const Tensor z = (xs[1] + ys[1]).sigmoid();
  const Tensor n = (xs[2] + r * ys[2]).tanh();
  return {s.out(n + z * (h - n)), s.out(at::cat({r, z, n, h, ys[2]}, 1))};
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                                                                            bool has_bias) {
  Scope s("aten::_thnn_fused_gru_cell_backward");
  const Tensor d = s.in(grad);
  const auto parts = s.in(workspace).chunk(5, 1);
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
  return {s.out(gi), s.out(gh), s.out(d * z), has_bias ? s.out(gi.sum(0)) : Tensor(),
          has_bias ? s.out(gh.sum(0)) : Tensor()};
}

inline std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, optional<bool> train) {
  Scope s("aten::native_dropout");
  const Tensor x = s.in(input);
  const auto mask_options = x.options().dtype(at::kBool);
  if (train.has_value() && !*train) {
    return {s.out(x.clone()), s.out(at::ones_like(x, mask_options))};
  }
  const double keep = 1 - p;
  const auto& generator = host_generator(default_generator(s.device().index()));
  Tensor mask = at::empty_like(x, mask_options).bernoulli_(keep, generator);
  return {s.out(x * mask * (keep == 0 ? 0.0 : 1 / keep)), s.out(mask)};
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
  Scope s("aten::batch_norm_stats");
  const Tensor x = wide(s.in(input));
  const auto dimensions = all_but_channel(x);
  return {s.out(x.mean(dimensions)), s.out(at::rsqrt(x.var(dimensions, false) + eps))};
}

inline std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(const Tensor& /*input*/, const Tensor& means,
                                                                      const Tensor& inverse_deviations,
                                                                      const Optional& running_mean,
                                                                      const Optional& running_var, double momentum,
                                                                      double eps, const Tensor& counts) {
  Scope s("aten::batch_norm_gather_stats_with_counts");
  const Tensor m = s.in(means);
  const Tensor invstd = s.in(inverse_deviations);
  const Tensor count = s.in(counts).view({-1, 1}).to(m.scalar_type());
  const Tensor total = count.sum();
  const Tensor mean = (m * count).sum(0) / total;
  const Tensor variance = ((1 / (invstd * invstd) - eps + (m - mean).square()) * count).sum(0) / total;
  if (Tensor running = s.in(running_mean, true); running.defined()) {
    running.mul_(1 - momentum).add_(mean.to(running.scalar_type()), momentum);
  }
  if (Tensor running = s.in(running_var, true); running.defined()) {
    running.mul_(1 - momentum).add_((variance * total / (total - 1)).to(running.scalar_type()), momentum);
  }
  return {s.out(mean), s.out(at::rsqrt(variance + eps))};
}

inline Tensor batch_norm_elemt(const Tensor& input, const Optional& weight, const Optional& bias, const Tensor& mean,
                               const Tensor& invstd, double /*eps*/) {
  Scope s("aten::batch_norm_elemt");
  const Tensor x = s.in(input);
  Tensor y = (x - by_channel(s.in(mean), x)) * by_channel(s.in(invstd), x);
  if (const Tensor w = s.in(weight); w.defined()) {
    y = y * by_channel(w, x);
  }
  if (const Tensor b = s.in(bias); b.defined()) {
    y = y + by_channel(b, x);
  }
  return s.out(y.to(x.scalar_type()));
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(const Tensor& grad, const Tensor& input,
                                                                             const Tensor& mean, const Tensor& invstd,
                                                                             const Optional& /*weight*/, bool input_g,
                                                                             bool weight_g, bool bias_g) {
  Scope s("aten::batch_norm_backward_reduce");
  const Tensor x = s.in(input);
  const Tensor d = wide(s.in(grad));
  const auto dimensions = all_but_channel(x);
  const Tensor sum = d.sum(dimensions);
  const Tensor product = (d * (wide(x) - by_channel(s.in(mean), x))).sum(dimensions);
  return {input_g ? s.out(sum.clone()) : Tensor(), input_g ? s.out(product.clone()) : Tensor(),
          weight_g ? s.out(product * s.in(invstd)) : Tensor(), bias_g ? s.out(sum.clone()) : Tensor()};
}

inline Tensor batch_norm_backward_elemt(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                        const Tensor& invstd, const Optional& weight, const Tensor& sum_dy,
                                        const Tensor& sum_dy_xmu, const Tensor& count) {
  Scope s("aten::batch_norm_backward_elemt");
  const Tensor x = s.in(input);
  const Tensor inverse = s.in(invstd);
  const Tensor total = s.in(count).sum().to(inverse.scalar_type());
  const Tensor w = s.in(weight);
  const Tensor factor = w.defined() ? inverse * w : inverse;
  const Tensor centred = wide(x) - by_channel(s.in(mean), x);
  const Tensor dx = (wide(s.in(grad)) - by_channel(s.in(sum_dy) / total, x) -
                     centred * by_channel(s.in(sum_dy_xmu) / total * inverse * inverse, x)) *
                    by_channel(factor, x);
  return s.out(dx.to(x.scalar_type()));
}

}  // namespace ferry::composed
