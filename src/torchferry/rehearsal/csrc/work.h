// Where the arithmetic of a model runs. The kernels of the CPU in which nearly all of it is done are replaced by ones
// that count it and call the same function of PyTorch's: whatever the device computes passes through them as well, and
// is told apart by the call of a device operator that is under way in the thread. All other operators cost nothing.
#pragma once

#include "torch_versions.h"

#include <ATen/Config.h>
#if FERRY_TORCH >= \
    203  // the fused attention of the CPU has no operator of its own in older torch, and is not counted there
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_native.h>
#endif
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/addmv_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/convolution_backward_native.h>
#include <ATen/ops/convolution_native.h>
#include <ATen/ops/mkldnn_rnn_layer_backward_native.h>
#include <ATen/ops/mkldnn_rnn_layer_native.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <tuple>

#include "settings.h"

namespace ferry::work {

using at::Tensor;
using Optional = optional<Tensor>;

inline std::atomic<int64_t> of_device{0};  // floating point operations

// How many calls of device operators are under way in this thread.
inline int& depth() {
  static thread_local int number = 0;
  return number;
}

class Inside {
 public:
  Inside() : depth_(depth()) { depth_++; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { depth_--; }

 private:
  int& depth_;  // kept: each look for it is a call of the loader's
};

// The subject is what Python needs to tell a model from the preparation of its data: whether gradients are involved.
template <class... T>
void count(int64_t operations, const T&... tensors) {
  if (depth() != 0) {
    of_device.fetch_add(operations, std::memory_order_relaxed);
    return;
  }
  const bool backward = torch::autograd::get_current_node() != nullptr;
  const bool forward = (tensors.requires_grad() || ...);
  emit(Event::kHostWork, backward ? "backward" : forward ? "forward" : "", "", operations);
}

// Multiplications and additions for each element of the output, or of the input of a transposed convolution.
inline int64_t for_each_element(const Tensor& weight) {
  return 2 * weight.numel() / std::max<int64_t>(1, weight.size(0));
}

inline Tensor mm(const Tensor& self, const Tensor& other) {
  auto result = at::cpu::mm(self, other);
  count(2 * self.numel() * other.size(1), self, other);
  return result;
}
inline Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                    const at::Scalar& alpha) {
  auto result = at::cpu::addmm(self, a, b, beta, alpha);
  count(2 * a.numel() * b.size(1), self, a, b);
  return result;
}
inline Tensor bmm(const Tensor& self, const Tensor& other) {
  auto result = at::cpu::bmm(self, other);
  count(2 * self.numel() * other.size(2), self, other);
  return result;
}
inline Tensor baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                      const at::Scalar& alpha) {
  auto result = at::cpu::baddbmm(self, a, b, beta, alpha);
  count(2 * a.numel() * b.size(2), self, a, b);
  return result;
}
inline Tensor& addmv_out(const Tensor& self, const Tensor& matrix, const Tensor& vector, const at::Scalar& beta,
                         const at::Scalar& alpha, Tensor& out) {
  at::cpu::addmv_outf(self, matrix, vector, beta, alpha, out);
  count(2 * matrix.numel(), matrix, vector);
  return out;
}
inline Tensor& addmv_(Tensor& self, const Tensor& matrix, const Tensor& vector, const at::Scalar& beta,
                      const at::Scalar& alpha) {
  at::cpu::addmv_(self, matrix, vector, beta, alpha);
  count(2 * matrix.numel(), matrix, vector);
  return self;
}

inline Tensor convolution(const Tensor& input, const Tensor& weight, const Optional& bias, at::IntArrayRef stride,
                          at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                          at::IntArrayRef output_padding, int64_t groups) {
  auto result =
      at::native::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  count((transposed ? input : result).numel() * for_each_element(weight), input, weight);
  return result;
}
inline std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input,
                                                               const Tensor& weight, at::OptionalIntArrayRef bias_sizes,
                                                               at::IntArrayRef stride, at::IntArrayRef padding,
                                                               at::IntArrayRef dilation, bool transposed,
                                                               at::IntArrayRef output_padding, int64_t groups,
                                                               std::array<bool, 3> wanted) {
  auto result = at::native::convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                                 output_padding, groups, wanted);
  const int64_t products = static_cast<int64_t>(wanted[0]) + static_cast<int64_t>(wanted[1]);
  count(products * (transposed ? input : grad).numel() * for_each_element(weight), input, weight);
  return result;
}

#if FERRY_TORCH >= 203
inline std::tuple<Tensor, Tensor> attention(const Tensor& query, const Tensor& key, const Tensor& value, double dropout,
                                            bool causal, const Optional& mask, optional<double> scale) {
  auto result = at::native::_scaled_dot_product_flash_attention_cpu(query, key, value, dropout, causal, mask, scale);
  count(4 * query.numel() * key.size(2), query, key, value);
  return result;
}
inline std::tuple<Tensor, Tensor, Tensor> attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                             const Tensor& value, const Tensor& out, const Tensor& sums,
                                                             double dropout, bool causal, const Optional& mask,
                                                             optional<double> scale) {
  auto result = at::native::_scaled_dot_product_flash_attention_cpu_backward(grad, query, key, value, out, sums,
                                                                             dropout, causal, mask, scale);
  count(10 * query.numel() * key.size(2), query, key, value);
  return result;
}
#endif

inline int64_t of_recurrent_layer(const Tensor& input, const Tensor& from_input, const Tensor& from_before) {
  const int64_t rows = input.numel() / std::max<int64_t>(1, input.size(-1));
  return 2 * rows * (from_input.numel() + from_before.numel());
}
inline std::tuple<Tensor, Tensor, Tensor, Tensor> recurrent(const Tensor& input, const Tensor& weight0,
                                                            const Tensor& weight1, const Tensor& weight2,
                                                            const Tensor& weight3, const Tensor& hx, const Tensor& cx,
                                                            bool reverse, at::IntArrayRef batch_sizes, int64_t mode,
                                                            int64_t hidden_size, int64_t layers, bool has_biases,
                                                            bool bidirectional, bool batch_first, bool train) {
  auto result = at::native::mkldnn_rnn_layer(input, weight0, weight1, weight2, weight3, hx, cx, reverse, batch_sizes,
                                             mode, hidden_size, layers, has_biases, bidirectional, batch_first, train);
  count(of_recurrent_layer(input, weight0, weight1), input, weight0);
  return result;
}
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> recurrent_backward(
    const Tensor& input, const Tensor& weight1, const Tensor& weight2, const Tensor& weight3, const Tensor& weight4,
    const Tensor& hx, const Tensor& cx, const Tensor& output, const Tensor& hy, const Tensor& cy,
    const Optional& grad_output, const Optional& grad_hy, const Optional& grad_cy, bool reverse, int64_t mode,
    int64_t hidden_size, int64_t layers, bool has_biases, bool train, bool bidirectional, at::IntArrayRef batch_sizes,
    bool batch_first, const Tensor& workspace) {
  auto result = at::native::mkldnn_rnn_layer_backward(
      input, weight1, weight2, weight3, weight4, hx, cx, output, hy, cy, grad_output, grad_hy, grad_cy, reverse, mode,
      hidden_size, layers, has_biases, train, bidirectional, batch_sizes, batch_first, workspace);
  count(2 * of_recurrent_layer(input, weight1, weight2), input, weight1);
  return result;
}

// After the device's own kernels: which operators it needs is read from what the CPU has.
inline void watch(torch::Library& cpu) {
  const auto put = [&](const char* name, auto&& function) {
    if (c10::Dispatcher::singleton().findSchema(c10::OperatorName(std::string("aten::") + name, ""))) {
      cpu.impl(name, std::forward<decltype(function)>(function));
    }
  };
  put("mm", TORCH_FN(mm));
  put("addmm", TORCH_FN(addmm));
  put("bmm", TORCH_FN(bmm));
  put("baddbmm", TORCH_FN(baddbmm));
  put("convolution", TORCH_FN(convolution));
  put("convolution_backward", TORCH_FN(convolution_backward));
#if FERRY_TORCH >= 203
  put("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(attention));
  put("_scaled_dot_product_flash_attention_for_cpu_backward", TORCH_FN(attention_backward));
#endif
  put("addmv_", TORCH_FN(addmv_));
  cpu.impl("addmv.out", TORCH_FN(addmv_out));
#if AT_MKLDNN_ENABLED()
  put("mkldnn_rnn_layer", TORCH_FN(recurrent));
  put("mkldnn_rnn_layer_backward", TORCH_FN(recurrent_backward));
#endif
}

}  // namespace ferry::work
