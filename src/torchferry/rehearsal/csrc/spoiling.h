// Faults that change a result: noise, NaN, or another layout in memory.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/rand_like.h>

#include <cmath>
#include <utility>
#include <vector>

#include "operators.h"

namespace ferry {

inline bool fault_is_due(const Operator& op) { return op.calls.load(std::memory_order_relaxed) > op.fault.after; }

// Whether a fault gives the operator's results another layout.
inline bool turns_round(const Operator& op) {
  return op.faulty.load(std::memory_order_relaxed) && op.fault.kind == FaultKind::kStride;
}

inline void spoil_in_place(const Operator& op, at::Tensor& values) {
  if (!fault_is_due(op) || !c10::isFloatingType(values.scalar_type()) || values.numel() == 0) {
    return;
  }
  if (op.fault.kind == FaultKind::kNoise) {
    emit(Event::kFault, op.name, "noise");
    values.mul_(at::rand_like(values).mul_(2 * op.fault.scale).add_(1 - op.fault.scale));
  } else if (op.fault.kind == FaultKind::kNan) {
    emit(Event::kFault, op.name, "nan");
    (values.dim() == 0 ? values : values.select(0, 0)).fill_(std::nan(""));
  }
}

inline at::Tensor spoiled(const Operator& op, at::Tensor result) {
  if (fault_is_due(op) && op.fault.kind == FaultKind::kStride && result.dim() > 1) {
    emit(Event::kFault, op.name, "stride");
    std::vector<int64_t> order(static_cast<size_t>(result.dim()));
    for (size_t i = 0; i < order.size(); i++) {
      order[i] = static_cast<int64_t>(order.size() - 1 - i);
    }
    return result.permute(order).contiguous().permute(order);  // right values, laid out the other way round
  }
  spoil_in_place(op, result);
  return result;
}

}  // namespace ferry
