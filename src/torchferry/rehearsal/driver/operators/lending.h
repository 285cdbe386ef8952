// Where the shape of a result follows from the shapes of what an operator is given, the plugin makes the result first,
// and the CPU's kernel is lent its memory when it asks for so much: what it writes need not be copied then.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../csrc/hot_operators.h"
#include "call.h"

namespace ferry::plugin {

struct Loan {
  void* data = nullptr;
  size_t bytes = 0;
};

inline thread_local Loan the_loan;

// The CPU's allocator, with what is lent for the first allocation of this size in this thread.
class LendingAllocator final : public c10::Allocator {
 public:
  explicit LendingAllocator(c10::Allocator* own) : own_(own) {}

  c10::DataPtr allocate(size_t bytes) FERRY_CONST_BEFORE_2_3 override {
    auto& loan = the_loan;
    if (loan.data != nullptr && loan.bytes == bytes) {
      return {std::exchange(loan.data, nullptr), c10::Device(c10::DeviceType::CPU)};
    }
    return own_->allocate(bytes);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const FERRY_OVERRIDE_SINCE_2_3 {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return own_->raw_deleter(); }

  // For as long as the process.
  static void install() { c10::SetCPUAllocator(new LendingAllocator(c10::GetCPUAllocator())); }

 private:
  c10::Allocator* own_;
};

// Lends the memory of a device tensor to what this thread does next, until the end of the scope.
class Lending {
 public:
  explicit Lending(const at::Tensor& tensor) {
    if (tensor.defined()) {
      the_loan = {tensor.unsafeGetTensorImpl()->mutable_data(), tensor.nbytes()};
    }
  }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  ~Lending() { the_loan.data = nullptr; }
};

namespace expected {

namespace op = at::_ops;

template <class Op, class... Ops>
constexpr bool is_one_of = (std::is_same_v<Op, Ops> || ...);

// A result like the first tensor, where the others are like that too or are single numbers.
template <class Op>
constexpr bool is_elementwise =
    is_one_of<Op, op::add_Tensor, op::sub_Tensor, op::mul_Tensor, op::div_Tensor, op::neg, op::sqrt, op::relu,
              op::threshold_backward, op::gelu, op::gelu_backward, op::silu, op::silu_backward, op::sigmoid,
              op::sigmoid_backward, op::tanh, op::tanh_backward, op::_softmax, op::_softmax_backward_data,
              op::_log_softmax, op::_log_softmax_backward_data>;

template <class T>
bool is_like(const at::Tensor&, const T&) {
  return true;
}
inline bool is_like(const at::Tensor& first, const at::Tensor& other) {
  return !other.defined() || other.dim() == 0 ||
         (other.scalar_type() == first.scalar_type() && other.sizes() == first.sizes());
}

inline at::Tensor make(at::IntArrayRef sizes, const at::Tensor& like, c10::Device device) {
  if (!on_device(like) || !c10::isFloatingType(like.scalar_type())) {  // other numbers may become floating ones
    return {};
  }
  return at::_ops::empty_memory_format::redispatch(c10::DispatchKeySet(kKey), c10::fromIntArrayRefSlow(sizes),
                                                   like.scalar_type(), at::kStrided, device, nullopt, nullopt);
}

// The first result of a call as the plugin makes it; undefined where it is not known before.
template <class Op, class... A>
at::Tensor result(c10::Device device, const A&... arguments) {
  const auto given = std::forward_as_tuple(arguments...);
  (void)given, (void)device;
  if constexpr (is_elementwise<Op>) {
    const at::Tensor& first = std::get<0>(given);
    return (is_like(first, arguments) && ...) ? make(first.sizes(), first, device) : at::Tensor();
  } else if constexpr (is_one_of<Op, op::mm, op::bmm, op::addmm>) {
    constexpr size_t left = std::is_same_v<Op, op::addmm> ? 1 : 0;
    constexpr int64_t batched = std::is_same_v<Op, op::bmm> ? 1 : 0;
    const at::Tensor &a = std::get<left>(given), &b = std::get<left + 1>(given);
    if (a.dim() != 2 + batched || b.dim() != 2 + batched) {
      return {};
    }
    const int64_t sizes[] = {a.size(0), batched != 0 ? a.size(1) : b.size(1), b.size(1 + batched)};
    return make(at::IntArrayRef(sizes, 2 + batched), a, device);
  } else if constexpr (is_one_of<Op, op::native_layer_norm, op::native_batch_norm>) {
    const at::Tensor& input = std::get<0>(given);
    return make(input.sizes(), input, device);
  } else if constexpr (is_one_of<Op, op::native_layer_norm_backward, op::native_batch_norm_backward>) {
    const at::Tensor& input = std::get<1>(given);
    const bool wanted = std::get<sizeof...(A) - 1>(given)[0];
    return wanted ? make(input.sizes(), input, device) : at::Tensor();
  } else {
    return {};
  }
}

}  // namespace expected

}  // namespace ferry::plugin
