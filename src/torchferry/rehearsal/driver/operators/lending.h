// Where the shapes of results follow from the shapes of what an operator is given, the plugin makes the results first,
// and the CPU's kernel is lent their memory when it asks for so much: what it writes need not be copied then.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution_ops.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../csrc/hot_operators.h"
#include "call.h"

namespace ferry::plugin {

// Tensors of the plugin's that a call may return, and the memory that its CPU kernel may still take of them.
class Loans {
 public:
  void add(at::Tensor tensor) {
    void* data = host_address(tensor.unsafeGetTensorImpl()->mutable_data());
    const size_t bytes = tensor.nbytes();
    loans_.push_back({std::move(tensor), data, bytes});
  }

  bool empty() const { return loans_.empty(); }

  // Memory of exactly this size, once: in the order in which it was made, or null.
  void* take(size_t bytes) {
    for (size_t tried = 0; tried < loans_.size(); tried++) {
      auto& each = loans_[next_];
      next_ = next_ + 1 == loans_.size() ? 0 : next_ + 1;
      if (each.left != nullptr && each.bytes == bytes) {
        return std::exchange(each.left, nullptr);
      }
    }
    return nullptr;
  }

  // A tensor like the kernel's result, whose memory it did not take; undefined where there is none.
  at::Tensor left_for(const at::Tensor& value) {
    for (auto& each : loans_) {
      if (each.left != nullptr && is_like(each.tensor, value)) {
        each.left = nullptr;
        return each.tensor;
      }
    }
    return {};
  }

  // The tensor whose memory the kernel's result fills; undefined where there is none.
  at::Tensor returned_in(const at::Tensor& value) const {
    const void* data = value.storage().data_ptr().get();
    for (const auto& each : loans_) {
      if (host_address(each.tensor.storage().data_ptr().get()) == data && is_like(each.tensor, value)) {
        return each.tensor;
      }
    }
    return {};
  }

 private:
  struct Loan {
    at::Tensor tensor;
    void* left;  // its memory, as long as nobody took it
    size_t bytes;
  };

  static bool is_like(const at::Tensor& tensor, const at::Tensor& value) {
    return tensor.sizes() == value.sizes() && tensor.dtype() == value.dtype() && value.is_contiguous();
  }

  c10::SmallVector<Loan, 4> loans_;
  size_t next_ = 0;
};

inline thread_local Loans* the_loans = nullptr;

// The CPU's allocator, which hands out what is lent to this thread. Only where PyTorch makes a tensor: whoever asks for
// plain memory (oneDNN, for its own layouts) frees it as the CPU's.
class LendingAllocator final : public c10::Allocator {
 public:
  explicit LendingAllocator(c10::Allocator* own) : own_(own) {}

  c10::DataPtr allocate(size_t bytes) FERRY_CONST_BEFORE_2_3 override {
    if (the_loans != nullptr) {
      const void* caller = __builtin_return_address(0);
      if (C10_UNLIKELY(!learned_)) {
        *std::find(makers_.begin(), makers_.end() - 1, nullptr) = caller;
      } else if (std::find(makers_.begin(), makers_.end(), caller) != makers_.end()) {
        if (void* lent = the_loans->take(bytes)) {
          return {lent, c10::Device(c10::DeviceType::CPU)};
        }
      }
    }
    return own_->allocate(bytes);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const FERRY_OVERRIDE_SINCE_2_3 {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return own_->raw_deleter(); }

  // For as long as the process.
  static void install() {
    auto* allocator = new LendingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(allocator);
    Loans none;
    the_loans = &none;
    (void)at::detail::empty_cpu({1}, at::kFloat, at::kStrided, at::kCPU, false, nullopt);
    (void)at::detail::empty_strided_cpu({1}, {1}, at::kFloat, at::kStrided, at::kCPU, false);
    the_loans = nullptr;
    learned_ = true;
  }

 private:
  // Where PyTorch asks for the memory of a tensor that it makes.
  inline static std::array<const void*, 4> makers_{};
  inline static bool learned_ = false;
  c10::Allocator* own_;
};

// Lends to what this thread does next, until the end of the scope.
class Lending {
 public:
  explicit Lending(Loans& loans) {
    if (!loans.empty()) {
      the_loans = &loans;
    }
  }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  ~Lending() { the_loans = nullptr; }
};

// What an operator will return, where that is known before.
namespace expected {

namespace op = at::_ops;

template <class Op, class... Ops>
constexpr bool is_one_of = (std::is_same_v<Op, Ops> || ...);

// A result like the first tensor, where the others are like that too or are single numbers.
template <class Op>
constexpr bool is_elementwise =
    is_one_of<Op, op::add_Tensor, op::sub_Tensor, op::mul_Tensor, op::div_Tensor, op::mul_Scalar, op::div_Scalar,
              op::neg, op::sqrt, op::relu, op::threshold_backward, op::gelu, op::gelu_backward, op::silu,
              op::silu_backward, op::sigmoid, op::sigmoid_backward, op::tanh, op::tanh_backward, op::_softmax,
              op::_softmax_backward_data, op::_log_softmax, op::_log_softmax_backward_data>;

template <class T>
bool is_like(const at::Tensor&, const T&) {
  return true;
}
inline bool is_like(const at::Tensor& first, const at::Tensor& other) {
  return !other.defined() || other.dim() == 0 ||
         (other.scalar_type() == first.scalar_type() && other.sizes() == first.sizes());
}

// One call's results, as the plugin makes them.
class Results {
 public:
  Results(Loans& loans, c10::Device device) : loans_(loans), device_(device) {}

  void add(at::IntArrayRef sizes, const at::Tensor& like) {
    if (on_device(like) && c10::isFloatingType(like.scalar_type())) {  // other numbers may become floating ones
      loans_.add(at::_ops::empty_memory_format::redispatch(c10::DispatchKeySet(kKey), c10::fromIntArrayRefSlow(sizes),
                                                           like.scalar_type(), at::kStrided, device_, nullopt,
                                                           nullopt));
    }
  }
  void add_like(const at::Tensor& tensor) { add(tensor.sizes(), tensor); }

  // Of a sum or a mean over dimensions; none: over all.
  void add_reduced(const at::Tensor& input, at::OptionalIntArrayRef over, bool keep) {
    c10::SmallVector<bool, 8> reduced(static_cast<size_t>(input.dim()), !over.has_value() || over->empty());
    if (over.has_value()) {
      for (const int64_t dimension : *over) {
        const int64_t index = dimension < 0 ? dimension + input.dim() : dimension;
        if (index < 0 || index >= input.dim()) {
          return;  // the kernel says so
        }
        reduced[static_cast<size_t>(index)] = true;
      }
    }
    c10::SmallVector<int64_t, 8> sizes;
    for (int64_t index = 0; index < input.dim(); index++) {
      if (!reduced[static_cast<size_t>(index)]) {
        sizes.push_back(input.size(index));
      } else if (keep) {
        sizes.push_back(1);
      }
    }
    add(sizes, input);
  }

 private:
  Loans& loans_;
  c10::Device device_;
};

inline at::IntArrayRef plain(at::IntArrayRef sizes) { return sizes; }
inline at::IntArrayRef plain(c10::SymIntArrayRef sizes) { return C10_AS_INTARRAYREF_SLOW(sizes); }
inline int64_t plain(int64_t size) { return size; }
inline int64_t plain(const c10::SymInt& size) { return size.expect_int(); }

template <class Op, class... A>
void add_results(Results made, const A&... arguments) {
  const auto given = std::forward_as_tuple(arguments...);
  (void)given, (void)made;
  if constexpr (is_elementwise<Op>) {
    const at::Tensor& first = std::get<0>(given);
    if ((is_like(first, arguments) && ...)) {
      made.add_like(first);
    }
  } else if constexpr (is_one_of<Op, op::_foreach_sqrt>) {
    for (const at::Tensor& each : std::get<0>(given)) {
      made.add_like(each);
    }
  } else if constexpr (is_one_of<Op, op::mm, op::bmm, op::addmm>) {
    constexpr size_t left = std::is_same_v<Op, op::addmm> ? 1 : 0;
    constexpr int64_t batched = std::is_same_v<Op, op::bmm> ? 1 : 0;
    const at::Tensor &a = std::get<left>(given), &b = std::get<left + 1>(given);
    if (a.dim() == 2 + batched && b.dim() == 2 + batched) {
      const int64_t sizes[] = {a.size(0), batched != 0 ? a.size(1) : b.size(1), b.size(1 + batched)};
      made.add(at::IntArrayRef(sizes, 2 + batched), a);
    }
  } else if constexpr (is_one_of<Op, op::convolution>) {
    const auto& [input, weight, bias, stride, padding, dilation, transposed, output_padding, groups] = given;
    const auto s = plain(stride), p = plain(padding), d = plain(dilation), more = plain(output_padding);
    const auto spatial = static_cast<size_t>(std::max<int64_t>(weight.dim() - 2, 0));
    const auto usual = [spatial](at::IntArrayRef each, int64_t least) {
      return each.size() == spatial && std::all_of(each.begin(), each.end(), [=](int64_t n) { return n >= least; });
    };
    if (spatial > 0 && input.dim() == weight.dim() && usual(s, 1) && usual(p, 0) && usual(d, 1) && usual(more, 0) &&
        input.is_contiguous()) {
      const auto sizes = transposed
                             ? at::native::conv_input_size(input.sizes(), weight.sizes(), p, more, s, d, plain(groups))
                             : at::native::conv_output_size(input.sizes(), weight.sizes(), p, s, d);
      if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; })) {
        made.add(sizes, input);
      }
    }
  } else if constexpr (is_one_of<Op, op::convolution_backward>) {
    const at::Tensor &grad = std::get<0>(given), &input = std::get<1>(given), &weight = std::get<2>(given);
    const auto& wanted = std::get<sizeof...(A) - 1>(given);
    if (input.dim() > 2 && grad.is_contiguous() && input.is_contiguous() && weight.is_contiguous()) {
      for (size_t index = 0; index < 2; index++) {
        if (wanted[index]) {
          made.add_like(index == 0 ? input : weight);
        }
      }
    }
  } else if constexpr (is_one_of<Op, op::native_batch_norm>) {
    const at::Tensor& input = std::get<0>(given);
    made.add_like(input);
    if (std::get<5>(given) && input.dim() > 1) {  // while it trains
      const int64_t channels[] = {input.size(1)};
      made.add(channels, input);
      made.add(channels, input);
    }
  } else if constexpr (is_one_of<Op, op::native_layer_norm>) {
    const at::Tensor& input = std::get<0>(given);
    made.add_like(input);
    const auto normalized = static_cast<int64_t>(std::get<1>(given).size());
    if (normalized <= input.dim()) {
      c10::SmallVector<int64_t, 8> sizes(input.sizes().begin(), input.sizes().end());
      std::fill(sizes.end() - normalized, sizes.end(), 1);
      made.add(sizes, input);
      made.add(sizes, input);
    }
  } else if constexpr (is_one_of<Op, op::native_layer_norm_backward, op::native_batch_norm_backward>) {
    constexpr bool of_layer = std::is_same_v<Op, op::native_layer_norm_backward>;
    const at::Tensor& input = std::get<1>(given);
    const optional<at::Tensor>& weight = std::get<(of_layer ? 5 : 2)>(given);
    const auto& wanted = std::get<sizeof...(A) - 1>(given);
    if (wanted[0]) {
      made.add_like(input);
    }
    for (size_t index = 1; index < 3; index++) {
      if (wanted[index] && weight.has_value() && weight->defined()) {
        made.add_like(*weight);
      }
    }
  } else if constexpr (is_one_of<Op, op::sum_dim_IntList, op::mean_dim>) {
    if (!std::get<3>(given).has_value()) {
      made.add_reduced(std::get<0>(given), std::get<1>(given), std::get<2>(given));
    }
  } else if constexpr (is_one_of<Op, op::nll_loss_forward>) {
    if (std::get<3>(given) != at::Reduction::None) {
      made.add({}, std::get<0>(given));
      made.add({}, std::get<0>(given));
    }
  } else if constexpr (is_one_of<Op, op::nll_loss_backward, op::max_pool2d_with_indices_backward,
                                 op::_adaptive_avg_pool2d_backward>) {
    const at::Tensor& input = std::get<1>(given);
    if (input.is_contiguous()) {
      made.add_like(input);
    }
  } else if constexpr (is_one_of<Op, op::embedding>) {
    const at::Tensor &weight = std::get<0>(given), &indices = std::get<1>(given);
    if (weight.dim() == 2) {
      c10::SmallVector<int64_t, 8> sizes(indices.sizes().begin(), indices.sizes().end());
      sizes.push_back(weight.size(1));
      made.add(sizes, weight);
    }
  } else if constexpr (is_one_of<Op, op::embedding_dense_backward>) {
    const at::Tensor& grad = std::get<0>(given);
    const int64_t sizes[] = {plain(std::get<2>(given)), grad.dim() > 0 ? grad.size(-1) : 0};
    made.add(sizes, grad);
  }
}

}  // namespace expected

}  // namespace ferry::plugin
