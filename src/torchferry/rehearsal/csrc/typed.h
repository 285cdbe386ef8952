// The operators that training spends its time in, without boxing: the same swap, with the types known.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "boxed.h"
#include "given.h"

namespace ferry {

namespace typed {

// How one argument is swapped.
template <class T>
struct Argument : Given<T> {
  static T take(Call&, size_t, bool, T value) { return value; }
};

// The dtype of an input that was half, told to the backward of a softmax, where the kernel is given it as float32.
template <>
struct Argument<at::ScalarType> : Given<at::ScalarType> {
  static Held take(Call& call, size_t, bool, at::ScalarType value) { return call.widened(value) ? at::kFloat : value; }
};

template <>
struct Argument<const at::Tensor&> : Given<const at::Tensor&> {
  static Held take(Call& call, size_t index, bool writes, const at::Tensor& value) {
    return value.defined() ? call.to_cpu(value, index, writes) : value;
  }
};

template <>
struct Argument<at::Tensor&> : Given<at::Tensor&> {
  static Held take(Call& call, size_t index, bool writes, at::Tensor& value) {
    return call.to_cpu(value, index, writes);
  }
};

template <>
struct Argument<const optional<at::Tensor>&> : Given<const optional<at::Tensor>&> {
  static Held take(Call& call, size_t index, bool writes, const optional<at::Tensor>& value) {
    return value.has_value() && value->defined() ? Held(call.to_cpu(*value, index, writes)) : value;
  }
};

// The tensors of a list, those without a value as they are.
template <class List>
TensorVector on_cpu(Call& call, size_t index, bool writes, const List& list) {
  return each_tensor(list,
                     [&](const at::Tensor& each) { return each.defined() ? call.to_cpu(each, index, writes) : each; });
}

template <>
struct Argument<at::TensorList> : Given<at::TensorList> {
  static Held take(Call& call, size_t index, bool writes, at::TensorList value) {
    return on_cpu(call, index, writes, value);
  }
};

template <>
struct Argument<const at::ITensorListRef&> : Given<const at::ITensorListRef&> {
  static Held take(Call& call, size_t index, bool writes, const at::ITensorListRef& value) {
    return {on_cpu(call, index, writes, value), {}};
  }
};

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
      return each_result(std::move(values), [&](at::Tensor value) { return call.to_device(std::move(value)); });
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
