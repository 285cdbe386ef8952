// What the vendor publishes of its kernels: which dtypes and how many dimensions each argument of an operator may have.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "operators.h"

namespace ferry {

// Whether a tensor of the device is one that no published list has, or one that the card computes on its own host.
inline bool is_beyond_limits(const Operator& op, const c10::TensorImpl& tensor, size_t index) {
  if (op.quick == nullptr) {
    return false;
  }
  const auto& limit = op.quick[index];
  return (limit.passes & bit(c10::typeMetaToScalarType(tensor.dtype()))) == 0 || tensor.dim() > limit.rank;
}

// What CANN's libraries and others say of an argument that they do not take.
inline std::string limit_words(const ArgumentLimit& limit, const at::Tensor& tensor) {
  return (limit.taken & bit(tensor.scalar_type())) == 0
             ? c10::str(limit.argument, " not implemented for ", tensor.scalar_type())
             : c10::str(limit.argument, " has ", tensor.dim(), " dimensions, more than ", limit.rank);
}

// How deep this thread is in formulas that stand for one kernel of the card: what they are made of is no call of the
// program's.
inline int& formulas_under_way() {
  static thread_local int depth = 0;
  return depth;
}

// Refuse a tensor of the device that no kernel takes, or only tell of it; tell once of what is slow.
inline void check_limits(Operator& op, const at::Tensor& tensor, size_t index) {
  if (C10_LIKELY(!is_beyond_limits(op, *tensor.unsafeGetTensorImpl(), index)) || tensor.numel() == 0 ||
      tensor.unsafeGetTensorImpl()->is_wrapped_number() || formulas_under_way() > 0) {
    return;
  }
  auto& limit = (*op.limits)[index];
  const auto dtype = bit(tensor.scalar_type());
  const bool fits = (limit.taken & dtype) != 0 && (limit.rank == 0 || tensor.dim() <= limit.rank);
  if (fits) {
    if ((limit.named & dtype) == 0 && (limit.told_unlisted.fetch_or(dtype) & dtype) == 0) {
      emit(Event::kUnlistedDtype, op.name, c10::str(limit.argument, ", ", tensor.scalar_type(), ", ", limit.function));
    }
    if ((limit.slow & dtype) != 0 && ((*op.limits)[0].told_slow.fetch_or(dtype) & dtype) == 0) {
      emit(Event::kSlowKernel, op.name, c10::str(tensor.scalar_type(), ", ", limit.function));
    }
    return;
  }
  const auto words = limit_words(limit, tensor);
  if (!settings().limits_refuse.load(std::memory_order_relaxed)) {
    if ((limit.told.fetch_or(dtype) & dtype) == 0) {
      emit(Event::kBeyondLimit, op.name, c10::str(words, "; ", limit.published));
    }
    return;
  }
  emit_refusal(Event::kKernelLimit, op.name, c10::str(words, "; ", limit.published));
  TORCH_CHECK(false, limit.function, ": ", words, " (", limit.published, ") [rehearsal: by the published list]");
}

// What an operator made where its kernel has no tensor to look at.
inline void check_result(Operator& op, const at::Tensor& result) {
  if (C10_UNLIKELY(op.quick != nullptr)) {
    check_limits(op, result, op.limits->size() - 1);
  }
}

// The arguments of an operator that PyTorch composes of others, and the plugin does not.
inline void check_limits(Operator& op, const torch::jit::Stack& stack, size_t count) {
  if (C10_LIKELY(op.limits == nullptr)) {
    return;
  }
  for (size_t i = 0; i < count; i++) {
    const auto& value = stack[stack.size() - count + i];
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == settings().type) {
      check_limits(op, value.toTensor(), i);
    }
  }
}

// A copy on the device between two dtypes is a cast: both are looked up where the vendor says what a cast takes.
inline void check_cast(const at::Tensor& to, const at::Tensor& from) {
  static auto& op = Operators::instance().of(c10::Dispatcher::singleton().findSchemaOrThrow("aten::_to_copy", ""));
  if (C10_UNLIKELY(to.scalar_type() != from.scalar_type())) {
    check_limits(op, from, 0);
    check_limits(op, to, 0);
  }
}

// Read rows of tabs: operator, argument or `->`, dtypes (a bit for each), those that are named, rank, slow dtypes,
// function, where it is published.
inline void set_kernel_limits(const char* rows, bool refuse) {
  settings().limits_refuse = refuse;
  std::istringstream lines(rows);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream row(line);
    std::vector<std::string> parts;
    for (std::string part; std::getline(row, part, '\t');) {
      parts.push_back(part);
    }
    if (parts.size() != 8) {
      continue;
    }
    const auto point = parts[0].find('.', parts[0].find("::"));
    const auto handle = c10::Dispatcher::singleton().findSchema(
        {parts[0].substr(0, point), point == std::string::npos ? "" : parts[0].substr(point + 1)});
    if (!handle) {
      continue;
    }
    const auto& arguments = handle->schema().arguments();
    bool fits = false;
    for (size_t i = 0; i <= arguments.size(); i++) {
      if (i == arguments.size() ? parts[1] == "->" : arguments[i].name() == parts[1]) {
        fits = true;
        Operators::instance().limit(
            parts[0], arguments.size(), i,
            {i == arguments.size() ? "result" : parts[1], std::stoull(parts[2]), std::stoull(parts[3]),
             std::stoi(parts[4]), std::stoull(parts[5]), parts[6], parts[7]});
      }
    }
    if (!fits) {
      emit(Event::kContradiction, parts[0],
           c10::str("the published limits name its argument `", parts[1], "`, and PyTorch's operator has none"));
    }
  }
}

}  // namespace ferry
