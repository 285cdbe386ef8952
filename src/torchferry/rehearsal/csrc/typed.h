// The operators that training spends its time in, without boxing: the same swap, with the types known.
#pragma once

#include <ATen/core/IListRef.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "boxed.h"

namespace ferry {

namespace typed {

using TensorVector = c10::SmallVector<at::Tensor, 4>;

// How one argument is swapped; `Held` keeps what the CPU kernel is given alive.
template <class T>
struct Argument {
  using Held = T;
  static Held take(Call&, size_t, bool, T value) { return value; }
  static T give(Held& held) { return held; }
};

// The dtype of an input that was half, told to the backward of a softmax, where the kernel is given it as float32.
template <>
struct Argument<at::ScalarType> {
  using Held = at::ScalarType;
  static Held take(Call& call, size_t, bool, at::ScalarType value) { return call.widened(value) ? at::kFloat : value; }
  static at::ScalarType give(Held& held) { return held; }
};

template <>
struct Argument<const at::Tensor&> {
  using Held = at::Tensor;
  static Held take(Call& call, size_t index, bool writes, const at::Tensor& value) {
    return value.defined() ? call.to_cpu(value, index, writes) : value;
  }
  static const at::Tensor& give(Held& held) { return held; }
};

template <>
struct Argument<at::Tensor&> {
  using Held = at::Tensor;
  static Held take(Call& call, size_t index, bool writes, at::Tensor& value) {
    return call.to_cpu(value, index, writes);
  }
  static at::Tensor& give(Held& held) { return held; }
};

template <>
struct Argument<const optional<at::Tensor>&> {
  using Held = optional<at::Tensor>;
  static Held take(Call& call, size_t index, bool writes, const optional<at::Tensor>& value) {
    return value.has_value() && value->defined() ? Held(call.to_cpu(*value, index, writes)) : value;
  }
  static const optional<at::Tensor>& give(Held& held) { return held; }
};

template <>
struct Argument<at::TensorList> {
  using Held = TensorVector;
  static Held take(Call& call, size_t index, bool writes, at::TensorList value) {
    Held held;
    held.reserve(value.size());
    for (const auto& each : value) {
      held.push_back(each.defined() ? call.to_cpu(each, index, writes) : each);
    }
    return held;
  }
  static at::TensorList give(Held& held) { return held; }
};

template <>
struct Argument<const at::ITensorListRef&> {
  struct Held {
    TensorVector tensors;
    at::ITensorListRef list;
  };
  static Held take(Call& call, size_t index, bool writes, const at::ITensorListRef& value) {
    Held held;
    for (const auto& each : value) {
      held.tensors.push_back(each.defined() ? call.to_cpu(each, index, writes) : each);
    }
    return held;
  }
  static const at::ITensorListRef& give(Held& held) {
    held.list = at::ITensorListRef(at::TensorList(held.tensors));
    return held.list;
  }
};

// Results.
inline at::Tensor result(Call& call, at::Tensor value) { return call.to_device(std::move(value)); }
inline std::vector<at::Tensor> result(Call& call, std::vector<at::Tensor> values) {
  for (auto& each : values) {
    each = call.to_device(std::move(each));
  }
  return values;
}
template <class... T>
std::tuple<T...> result(Call& call, std::tuple<T...> values) {
  return std::apply([&](auto&&... each) { return std::tuple<T...>(call.to_device(std::move(each))...); },
                    std::move(values));
}

template <class Op, class Signature>
struct TypedKernel;

template <class Op, class R, class... A>
struct TypedKernel<Op, R(A...)> {
  inline static Operator* op = nullptr;

  static R call(c10::DispatchKeySet, A... arguments) { return attempt(std::index_sequence_for<A...>{}, arguments...); }

 private:
  template <size_t... I>
  static R attempt(std::index_sequence<I...> indices, std::add_lvalue_reference_t<A>... arguments) {
    Call call(*op);
    std::tuple<typename Argument<A>::Held...> held{Argument<A>::take(call, I, op->writes[I], arguments)...};
    call.check_devices(handle().schema());
    call.before_kernel();
    if (C10_UNLIKELY(call.widens())) {
      return again(call, indices, arguments...);
    }
    try {
      return finish(call, held, indices, arguments...);
    } catch (const c10::Error& error) {
      if (!call.half() || !missing_for_dtype(error)) {
        throw;
      }
    }
    return again(call, indices, arguments...);
  }

  template <size_t... I>
  static R again(Call& call, std::index_sequence<I...> indices, std::add_lvalue_reference_t<A>... arguments) {
    call.widen();
    std::tuple<typename Argument<A>::Held...> held{Argument<A>::take(call, I, op->writes[I], arguments)...};
    return finish(call, held, indices, arguments...);
  }

  template <class Held, size_t... I>
  static R finish(Call& call, Held& held, std::index_sequence<I...>, std::add_lvalue_reference_t<A>... arguments) {
    constexpr c10::DispatchKeySet host(c10::DispatchKey::CPU);
    if constexpr (std::is_void_v<R>) {
      Op::redispatch(host, Argument<A>::give(std::get<I>(held))...);
      call.after_kernel();
    } else if constexpr (std::is_reference_v<R>) {
      Op::redispatch(host, Argument<A>::give(std::get<I>(held))...);
      call.after_kernel();
      return written(arguments...);
    } else {
      auto values = Op::redispatch(host, Argument<A>::give(std::get<I>(held))...);
      call.after_kernel();
      return result(call, std::move(values));
    }
  }

  // An in-place operator returns the tensor that it was given.
  template <class... Rest>
  static R written(at::Tensor& first, Rest&...) {
    return first;
  }

  static const c10::OperatorHandle& handle() {
    static const auto found = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
    return found;
  }
};

}  // namespace typed

template <class Op>
void register_typed(torch::Library& library, std::unordered_set<std::string>& done) {
  using K = typed::TypedKernel<Op, typename Op::schema>;
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
  auto& op = Operators::instance().of(handle);
  if (done.insert(op.name).second) {
    K::op = &op;
    library.impl(op.name.substr(6).c_str(), TORCH_FN(K::call));
  }
}

}  // namespace ferry
