// The operators that training spends its time in, without boxing: the usual call, in which nothing is to be noted,
// refused, recorded, spoiled or computed in another dtype. Any other call takes the boxed way (operators.cpp).
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>
#include <ATen/core/boxing/impl/boxing.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../csrc/given.h"
#include "../../csrc/hot_operators.h"
#include "call.h"
#include "in_place.h"
#include "lending.h"

namespace ferry::plugin::typed {

using ferry::typed::each_result;
using ferry::typed::each_tensor;
using ferry::typed::Given;

// Whether the tensors of a call are as usual, and on which device they are.
class Look {
 public:
  explicit Look(const Operator& op) : op_(op) {}

  bool usual(const at::Tensor& tensor, size_t index) {
    if (!tensor.defined()) {
      return true;
    }
    const auto* implementation = tensor.unsafeGetTensorImpl();
    if (!on_device(tensor)) {
      return tensor.is_cpu() && implementation->dim() == 0 && !op_.writes[index];
    }
    const auto device = implementation->device();
    if (C10_UNLIKELY(placed_ && device != device_)) {
      return false;
    }
    device_ = device;
    placed_ = true;
    return !is_beyond_limits(op_, *implementation, index) &&
           (unusual_ & bit(c10::typeMetaToScalarType(implementation->dtype()))) == 0 && implementation->has_storage() &&
           (implementation->key_set() & kMathBits).empty();
  }

  bool placed() const { return placed_; }
  c10::Device device() const { return device_; }

 private:
  static uint64_t unusual_dtypes() {
    constexpr auto relaxed = std::memory_order_relaxed;
    return bit(at::kHalf) | bit(at::kBFloat16) | settings().missing.load(relaxed) | settings().narrowed.load(relaxed) |
           settings().noted.load(relaxed);
  }

  const Operator& op_;
  const uint64_t unusual_ = unusual_dtypes();
  c10::Device device_{kType, 0};
  bool placed_ = false;
};

// The CPU's views of device tensors, for one call after another: making one anew takes as long as a small operator.
class Aliases {
 public:
  // A view that stays as it is until the scope ends in which it was asked for.
  const at::Tensor& of(const at::Tensor& tensor) {
    if (C10_UNLIKELY(used_ == kChunk * chunks_.size())) {
      chunks_.push_back(std::make_unique<Chunk>());
    }
    at::Tensor& slot = (*chunks_[used_ / kChunk])[used_ % kChunk];
    used_++;
    if (C10_UNLIKELY(!slot.defined() || slot.use_count() != 1 || slot.storage().use_count() != 1 ||
                     slot.dtype() != tensor.dtype())) {  // a kernel keeps it
      slot = cpu_alias(tensor);
    } else {
      aim(slot, *tensor.unsafeGetTensorImpl());
    }
    return slot;
  }

  size_t used() const { return used_; }
  void free_from(size_t used) { used_ = used; }

  static Aliases& of_thread() {
    static thread_local Aliases aliases;
    return aliases;
  }

 private:
  static constexpr size_t kChunk = 32;
  using Chunk = std::array<at::Tensor, kChunk>;

  static void aim(const at::Tensor& alias, const c10::TensorImpl& tensor) {
    auto* implementation = alias.unsafeGetTensorImpl();
    auto* storage = implementation->unsafe_storage().unsafeGetStorageImpl();
    const auto* device = tensor.unsafe_storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(
        c10::DataPtr(host_address(device->data_ptr().get()), c10::Device(c10::DeviceType::CPU)));
    storage->set_nbytes(device->nbytes());
    if (implementation->sizes() != tensor.sizes() || implementation->strides() != tensor.strides() ||
        implementation->storage_offset() != tensor.storage_offset()) {
      implementation->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    }
    if (C10_UNLIKELY(implementation->is_wrapped_number() != tensor.is_wrapped_number())) {
      implementation->set_wrapped_number(tensor.is_wrapped_number());
    }
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
  size_t used_ = 0;
};

// The tensors of a call beside what the kernel is given for them, for as long as it runs.
class Pairs {
 public:
  Pairs() : aliases_(Aliases::of_thread()), first_(aliases_.used()) {}
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;
  ~Pairs() { aliases_.free_from(first_); }

  const at::Tensor& alias(const at::Tensor& tensor) {
    if (!tensor.defined() || !on_device(tensor)) {
      return tensor;
    }
    const at::Tensor& made = aliases_.of(tensor);
    pairs_.push_back({&tensor, made.unsafeGetTensorImpl()});
    return made;
  }

  // What a kernel gave is the tensor that it was given, lies on its memory or on what it was lent, or is new.
  at::Tensor to_device(Operator& op, at::Tensor value, c10::Device device, Loans& loans) const {
    if (!value.defined()) {
      return value;
    }
    if (auto lent = loans.returned_in(value); lent.defined()) {
      return lent;
    }
    const auto* storage = storage_of(value.unsafeGetTensorImpl());
    for (const auto& pair : pairs_) {
      if (C10_UNLIKELY(storage_of(pair.alias) == storage)) {
        return value.unsafeGetTensorImpl() == pair.alias
                   ? *pair.original
                   : pair.original->as_strided(value.sizes(), value.strides(), value.storage_offset());
      }
    }
    value = as_on_card(op, std::move(value));
    if (auto left = loans.left_for(value); left.defined()) {
      std::memcpy(host_address(left.unsafeGetTensorImpl()->mutable_data()), value.const_data_ptr(), value.nbytes());
      return left;
    }
    return copied_to_device(value, device);
  }

 private:
  struct Pair {
    const at::Tensor* original;
    const c10::TensorImpl* alias;
  };

  static const c10::StorageImpl* storage_of(const c10::TensorImpl* tensor) {
    return tensor->unsafe_storage().unsafeGetStorageImpl();
  }

  Aliases& aliases_;
  const size_t first_;
  c10::SmallVector<Pair, 6> pairs_;
};

// How one argument is looked at and handed on.
template <class T>
struct Argument : Given<T> {
  static bool usual(Look&, size_t, const T&) { return true; }
  static T take(Pairs&, const T& value) { return value; }
};

template <>
struct Argument<const at::Tensor&> {
  using Held = const at::Tensor*;
  static bool usual(Look& look, size_t index, const at::Tensor& value) { return look.usual(value, index); }
  static Held take(Pairs& pairs, const at::Tensor& value) { return &pairs.alias(value); }
  static const at::Tensor& give(Held held) { return *held; }
};

template <>
struct Argument<at::Tensor&> : Given<at::Tensor&> {
  static bool usual(Look& look, size_t index, const at::Tensor& value) { return look.usual(value, index); }
  static Held take(Pairs& pairs, const at::Tensor& value) { return pairs.alias(value); }
};

template <>
struct Argument<const optional<at::Tensor>&> : Given<const optional<at::Tensor>&> {
  static bool usual(Look& look, size_t index, const optional<at::Tensor>& value) {
    return !value.has_value() || look.usual(*value, index);
  }
  static Held take(Pairs& pairs, const optional<at::Tensor>& value) {
    return value.has_value() ? Held(pairs.alias(*value)) : value;
  }
};

template <class List>
bool each_usual(Look& look, size_t index, const List& list) {
  return std::all_of(list.begin(), list.end(), [&](const at::Tensor& each) { return look.usual(each, index); });
}

template <>
struct Argument<at::TensorList> : Given<at::TensorList> {
  static bool usual(Look& look, size_t index, at::TensorList value) { return each_usual(look, index, value); }
  static Held take(Pairs& pairs, at::TensorList value) {
    return each_tensor(value, [&](const at::Tensor& each) { return pairs.alias(each); });
  }
};

template <>
struct Argument<const at::ITensorListRef&> : Given<const at::ITensorListRef&> {
  static bool usual(Look& look, size_t index, const at::ITensorListRef& value) {
    return each_usual(look, index, value);
  }
  static Held take(Pairs& pairs, const at::ITensorListRef& value) {
    return {each_tensor(value, [&](const at::Tensor& each) { return pairs.alias(each); }), {}};
  }
};

template <class Op, class Signature>
struct Kernel;

template <class Op, class R, class... A>
struct Kernel<Op, R(A...)> {
  inline static Operator* op = nullptr;
  inline static const c10::OperatorHandle* handle = nullptr;
  inline static const c10::BoxedKernel* boxed = nullptr;  // what any call can take

  static R call(c10::DispatchKeySet keys, A... arguments) {
    if (C10_LIKELY(is_usual_time(*op))) {
      Look look(*op);
      if (C10_LIKELY(usual(look, std::index_sequence_for<A...>{}, arguments...) && look.placed())) {
        return run(look.device(), std::index_sequence_for<A...>{}, arguments...);
      }
    }
    return c10::impl::BoxedKernelWrapper<R(A...)>::call(*boxed, *handle, keys, std::forward<A>(arguments)...);
  }

 private:
  template <size_t... I>
  static bool usual(Look& look, std::index_sequence<I...>, std::add_lvalue_reference_t<A>... arguments) {
    return (Argument<A>::usual(look, I, arguments) && ...);
  }

  template <size_t... I>
  static R run(c10::Device device, std::index_sequence<I...>, std::add_lvalue_reference_t<A>... arguments) {
    const work::Inside inside;
    op->calls.fetch_add(1, std::memory_order_relaxed);
    keep_backward_here();
    use_device();
    wait_for_queue(device);
    if constexpr (std::is_void_v<R>) {
      if (in_place::done<Op>(arguments...)) {
        return;
      }
    }
    Pairs pairs;
    std::tuple<typename Argument<A>::Held...> held{Argument<A>::take(pairs, arguments)...};
    if constexpr (std::is_void_v<R>) {
      on_cpu(Argument<A>::give(std::get<I>(held))...);
    } else if constexpr (std::is_reference_v<R>) {
      on_cpu(Argument<A>::give(std::get<I>(held))...);
      return written(arguments...);
    } else {
      Loans loans;
      expected::add_results<Op>(expected::Results(loans, device), arguments...);
      const Lending lending(loans);
      return each_result(on_cpu(Argument<A>::give(std::get<I>(held))...),
                         [&](at::Tensor value) { return pairs.to_device(*op, std::move(value), device, loans); });
    }
  }

  static R on_cpu(A... arguments) {
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    return Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), std::forward<A>(arguments)...);
  }

  // An in-place operator returns the tensor that it was given.
  template <class... Rest>
  static R written(at::Tensor& first, Rest&...) {
    return first;
  }
};

using Make = torch::CppFunction (*)(const c10::OperatorHandle&, Operator&, c10::BoxedKernel);

template <class Op>
torch::CppFunction make(const c10::OperatorHandle& handle, Operator& op, c10::BoxedKernel boxed) {
  using K = Kernel<Op, typename Op::schema>;
  K::op = &op;
  K::handle = new c10::OperatorHandle(handle);  // as long as the process, like the registration
  K::boxed = new c10::BoxedKernel(std::move(boxed));
  return torch::CppFunction(TORCH_FN(K::call));
}

// What makes the typed kernel of an operator, by full name.
inline const std::unordered_map<std::string, Make>& makers() {
  static const auto* all = [] {
    auto* made = new std::unordered_map<std::string, Make>;
    const auto add = [made](auto op) {
      using Op = decltype(op);
      const std::string overload = Op::overload_name;
      made->emplace(Op::name + (overload.empty() ? "" : "." + overload), &make<Op>);
    };
    each_hot_operator(add);
    add(at::_ops::convolution{});  // which plugins register, and PyTorch's own device does not
    return made;
  }();
  return *all;
}

}  // namespace ferry::plugin::typed
