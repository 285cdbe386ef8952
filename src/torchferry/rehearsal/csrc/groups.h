// Collectives on device tensors over a group that has no backend for the device, such as one over gloo: torch refuses
// them, where gloo would copy those of CUDA. What it refuses is told with the user's line.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string>

#include "settings.h"

namespace ferry::groups {

// Collectives of any device of a plugin run through torch's kernels for this one.
constexpr auto kServed = c10::DeviceType::PrivateUse1;

inline c10::intrusive_ptr<c10d::ProcessGroup> group_of(const torch::jit::Stack& arguments) {
  for (const auto& value : arguments) {
    if (value.isCustomClass()) {
      try {
        return value.toCustomClass<c10d::ProcessGroup>();
      } catch (const c10::Error&) {  // another class of c10d, such as a reduction
      }
    }
  }
  return {};
}

inline bool serves(c10d::ProcessGroup& group) {
  try {
    return group.getBackend(kServed) != nullptr;
  } catch (const std::exception&) {
    return false;
  }
}

// Stands before the kernels of all devices, and hands on to them.
inline void look(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (keys.has(settings().key)) {
    const auto group = group_of(torch::jit::last(*stack, op.schema().arguments().size()).vec());
    if (group && !serves(*group)) {
      emit(Event::kBackend, op.operator_name().name,
           "the group is over " + group->getBackendName() + ", which serves no tensors on " + settings().name);
    }
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect),
                     stack);
}

}  // namespace ferry::groups
