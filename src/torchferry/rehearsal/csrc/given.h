// What a typed kernel holds while the CPU kernel runs, and how it hands it on: the same for both kinds of plugins.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "torch_versions.h"

namespace ferry::typed {

using TensorVector = c10::SmallVector<at::Tensor, 4>;

// One argument: `Held` keeps what the CPU kernel is given alive.
template <class T>
struct Given {
  using Held = T;
  static T give(Held& held) { return held; }
};

template <>
struct Given<const at::Tensor&> {
  using Held = at::Tensor;
  static const at::Tensor& give(Held& held) { return held; }
};

template <>
struct Given<at::Tensor&> {
  using Held = at::Tensor;
  static at::Tensor& give(Held& held) { return held; }
};

template <>
struct Given<const optional<at::Tensor>&> {
  using Held = optional<at::Tensor>;
  static const optional<at::Tensor>& give(Held& held) { return held; }
};

template <>
struct Given<at::TensorList> {
  using Held = TensorVector;
  static at::TensorList give(Held& held) { return held; }
};

template <>
struct Given<const at::ITensorListRef&> {
  struct Held {
    TensorVector tensors;
    at::ITensorListRef list;
  };
  static const at::ITensorListRef& give(Held& held) {
    held.list = at::ITensorListRef(at::TensorList(held.tensors));
    return held.list;
  }
};

// A list with what `take` makes of each tensor.
template <class List, class Take>
TensorVector each_tensor(const List& list, const Take& take) {
  TensorVector tensors;
  tensors.reserve(list.size());
  for (const auto& each : list) {
    tensors.push_back(take(each));
  }
  return tensors;
}

// A kernel's results with what `convert` makes of each.
template <class Convert>
at::Tensor each_result(at::Tensor value, const Convert& convert) {
  return convert(std::move(value));
}
template <class Convert>
std::vector<at::Tensor> each_result(std::vector<at::Tensor> values, const Convert& convert) {
  for (auto& each : values) {
    each = convert(std::move(each));
  }
  return values;
}
template <class T, class Convert>
T one_result(T value, const Convert& convert) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return convert(std::move(value));
  } else {
    return value;
  }
}
template <class... T, class Convert>
std::tuple<T...> each_result(std::tuple<T...> values, const Convert& convert) {
  return std::apply([&](auto&&... each) { return std::tuple<T...>(one_result(std::move(each), convert)...); },
                    std::move(values));
}

}  // namespace ferry::typed
