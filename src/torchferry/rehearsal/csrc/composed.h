// Operators that PyTorch hands to accelerators alone: fused recurrent cells, dropout, synchronised batch norm.
#pragma once

#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/var.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

#include "attention.h"
#include "call.h"
#include "formulas.h"

namespace ferry::composed {

using at::Tensor;
using Optional = optional<Tensor>;

class Scope {
 public:
  explicit Scope(const char* name) : Scope(c10::Dispatcher::singleton().findSchemaOrThrow(name, "")) {}

  // A tensor of the device that is argument number `index`, against what the vendor publishes.
  void limit(const Tensor& tensor, size_t index) {
    if (tensor.defined() && on_device(tensor)) {
      check_limits(call_.op(), tensor, index);
    }
  }
  void limit(const Optional& tensor, size_t index) {
    if (tensor.has_value()) {
      limit(*tensor, index);
    }
  }
  Tensor in(const Tensor& tensor, bool writes = false) {
    return tensor.defined() ? call_.to_cpu(tensor, 0, writes) : tensor;
  }
  Tensor in(const Optional& tensor, bool writes = false) { return tensor.has_value() ? in(*tensor, writes) : Tensor(); }
  Tensor out(Tensor tensor) { return call_.to_device(std::move(tensor)); }
  template <class... T>
  std::tuple<T...> out(std::tuple<T...> tensors) {
    return std::apply([this](auto&&... each) { return std::tuple<T...>(out(std::move(each))...); }, std::move(tensors));
  }

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
      : schema_(handle.schema()), call_(Operators::instance().of(handle)) {
    call_.without_index();
  }

  const c10::FunctionSchema& schema_;
  Call call_;
};

// The end of `aten::convolution` on a device of a plugin. Not `aten::convolution` itself: tracing records it one level
// further down, and would record the aliases.
using formulas::Extent;
using formulas::Extents;

inline Tensor convolution(const Tensor& input, const Tensor& weight, const Optional& bias, Extents stride,
                          Extents padding, Extents dilation, bool transposed, Extents output_padding, Extent groups) {
  Scope s("aten::convolution");
  s.limit(input, 0);
  s.limit(weight, 1);
  s.limit(bias, 2);
  Tensor x = s.in(input);
  Tensor w = s.in(weight);
  Tensor b = s.in(bias);
  if (s.again_in_float32()) {
    x = s.in(input);
    w = s.in(weight);
    b = s.in(bias);
  }
  return s.out(formulas::convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups));
}

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                                    const Tensor& cell, const Optional& input_bias,
                                                    const Optional& hidden_bias) {
  Scope s("aten::_thnn_fused_lstm_cell");
  s.limit(input_gates, 0);
  s.limit(hidden_gates, 1);
  s.limit(cell, 2);
  return s.out(
      formulas::lstm_cell(s.in(input_gates), s.in(hidden_gates), s.in(cell), s.in(input_bias), s.in(hidden_bias)));
}

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const Optional& grad_hidden, const Optional& grad_cell,
                                                             const Tensor& before, const Tensor& after,
                                                             const Tensor& workspace, bool has_bias) {
  Scope s("aten::_thnn_fused_lstm_cell_backward_impl");
  return s.out(formulas::lstm_cell_backward(s.in(grad_hidden), s.in(grad_cell), s.in(before), s.in(after),
                                            s.in(workspace), has_bias));
}

inline std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                           const Optional& input_bias, const Optional& hidden_bias) {
  Scope s("aten::_thnn_fused_gru_cell");
  s.limit(input_gates, 0);
  s.limit(hidden_gates, 1);
  return s.out(
      formulas::gru_cell(s.in(input_gates), s.in(hidden_gates), s.in(hidden), s.in(input_bias), s.in(hidden_bias)));
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                                                                            bool has_bias) {
  Scope s("aten::_thnn_fused_gru_cell_backward");
  return s.out(formulas::gru_cell_backward(s.in(grad), s.in(workspace), has_bias));
}

inline std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, optional<bool> train) {
  Scope s("aten::native_dropout");
  s.limit(input, 0);
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

#if FERRY_TORCH >= 205
inline attention::Forward attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                            const Optional& bias, double dropout, bool causal, bool debug,
                                            optional<double> scale) {
  Scope s("aten::scaled_dot_product_attention");
  const Tensor q = s.in(query), k = s.in(key), v = s.in(value), mask = s.in(bias);
  s.again_in_float32();  // checks the devices
  auto values = attention::forward(q, k, v, mask.defined() ? Optional(mask) : nullopt, dropout, causal, debug, scale);
  std::get<0>(values) = s.out(std::move(std::get<0>(values)));
  std::get<1>(values) = s.out(std::move(std::get<1>(values)));
  return values;
}

inline attention::Backward attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                              const Tensor& value, const Tensor& bias, std::array<bool, 4> wanted,
                                              const Tensor& out, const Tensor& sums, const Tensor& cum_seq_q,
                                              const Tensor& cum_seq_k, c10::SymInt max_q, c10::SymInt max_k,
                                              double dropout, bool causal, const Tensor& seed, const Tensor& offset,
                                              optional<double> scale) {
  Scope s("aten::scaled_dot_product_attention");
  const Tensor d = s.in(grad), q = s.in(query), k = s.in(key), v = s.in(value), mask = s.in(bias);
  const Tensor o = s.in(out), sum = s.in(sums);
  s.again_in_float32();
  return s.out(attention::backward(d, q, k, v, mask, wanted, o, sum, cum_seq_q, cum_seq_k, std::move(max_q),
                                   std::move(max_k), dropout, causal, seed, offset, scale));
}
#endif

inline std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  Scope s("aten::batch_norm_stats");
  return s.out(formulas::batch_norm_stats(s.in(input), eps));
}

inline std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(const Tensor& input, const Tensor& means,
                                                                      const Tensor& inverse_deviations,
                                                                      const Optional& running_mean,
                                                                      const Optional& running_var, double momentum,
                                                                      double eps, const Tensor& counts) {
  Scope s("aten::batch_norm_gather_stats_with_counts");
  return s.out(formulas::batch_norm_gather_stats_with_counts(s.in(input), s.in(means), s.in(inverse_deviations),
                                                             s.in(running_mean, true), s.in(running_var, true),
                                                             momentum, eps, s.in(counts)));
}

inline Tensor batch_norm_elemt(const Tensor& input, const Optional& weight, const Optional& bias, const Tensor& mean,
                               const Tensor& invstd, double eps) {
  Scope s("aten::batch_norm_elemt");
  return s.out(formulas::batch_norm_elemt(s.in(input), s.in(weight), s.in(bias), s.in(mean), s.in(invstd), eps));
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(const Tensor& grad, const Tensor& input,
                                                                             const Tensor& mean, const Tensor& invstd,
                                                                             const Optional& weight, bool input_g,
                                                                             bool weight_g, bool bias_g) {
  Scope s("aten::batch_norm_backward_reduce");
  return s.out(formulas::batch_norm_backward_reduce(s.in(grad), s.in(input), s.in(mean), s.in(invstd), s.in(weight),
                                                    input_g, weight_g, bias_g));
}

inline Tensor batch_norm_backward_elemt(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                        const Tensor& invstd, const Optional& weight, const Tensor& sum_dy,
                                        const Tensor& sum_dy_xmu, const Tensor& count) {
  Scope s("aten::batch_norm_backward_elemt");
  return s.out(formulas::batch_norm_backward_elemt(s.in(grad), s.in(input), s.in(mean), s.in(invstd), s.in(weight),
                                                   s.in(sum_dy), s.in(sum_dy_xmu), s.in(count)));
}

}  // namespace ferry::composed
