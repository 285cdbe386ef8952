// Autocast on the device: PyTorch registers nothing for PrivateUse1, each plugin brings its lists.
//
// The policies are those of aten/src/ATen/autocast_mode.h; which operator has which comes from Python.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/op_registration/op_registration.h>
#include <torch/library.h>

#include "alias.h"
#include "operators.h"

// Exported by torch; autocast_mode.h itself would cost seconds of build time.
namespace at::autocast {
TORCH_API Tensor cached_cast(at::ScalarType to_type, const Tensor& arg, c10::DeviceType device_type);
#if FERRY_TORCH >= 204
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
#else
TORCH_API at::ScalarType get_autocast_privateuseone_dtype();
TORCH_API void set_autocast_privateuseone_dtype(at::ScalarType dtype);
TORCH_API bool is_privateuseone_enabled();
TORCH_API void set_privateuseone_enabled(bool enabled);
TORCH_API at::ScalarType get_autocast_xla_dtype();
inline at::ScalarType get_autocast_dtype(at::DeviceType device_type) {
  return device_type == c10::DeviceType::XLA ? get_autocast_xla_dtype() : get_autocast_privateuseone_dtype();
}
#endif
}  // namespace at::autocast

namespace ferry {

enum class CastPolicy : int { kLower = 0, kFloat32 = 1, kFloat32SetOption = 2, kPromote = 3, kBanned = 4 };

class AutocastKernel final : public c10::OperatorKernel {
 public:
  explicit AutocastKernel(CastPolicy policy) : policy_(policy) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    TORCH_CHECK(policy_ != CastPolicy::kBanned,
                "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
                "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
                "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
                "or torch.nn.BCEWithLogitsLoss.");
    const size_t count = handle.schema().arguments().size();
    const size_t base = stack->size() - count;
    const c10::impl::ExcludeDispatchKeyGuard below(settings().autocast_key);
    if (policy_ == CastPolicy::kFloat32SetOption) {
      set_option(handle, *stack, base, count);
    } else {
      const auto to = target(*stack, base, count);
      for (size_t i = base; i < stack->size(); i++) {
        cast((*stack)[i], to);
      }
    }
    handle.callBoxed(stack);
  }

 private:
  static bool eligible(const at::Tensor& tensor) {
    return tensor.defined() && on_device(tensor) && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble;
  }

  at::ScalarType target(const torch::jit::Stack& stack, size_t base, size_t count) const {
    if (policy_ == CastPolicy::kFloat32) {
      return at::kFloat;
    }
    const auto low = at::autocast::get_autocast_dtype(settings().type);
    if (policy_ == CastPolicy::kLower) {
      return low;
    }
    bool wide = false;
    for (size_t i = base; i < base + count; i++) {
      each_tensor(stack[i], [&](const at::Tensor& t) { wide |= eligible(t) && t.scalar_type() == at::kFloat; });
    }
    return wide ? at::kFloat : low;
  }

  static void set_option(const c10::OperatorHandle& handle, torch::jit::Stack& stack, size_t base, size_t count) {
    bool low = false;
    for (size_t i = base; i < base + count; i++) {
      each_tensor(stack[i], [&](const at::Tensor& t) {
        low |= eligible(t) && (t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16);
      });
    }
    for (size_t i = 0; low && i < count; i++) {
      if (handle.schema().arguments()[i].name() == "dtype" && stack[base + i].isNone()) {
        stack[base + i] = static_cast<int64_t>(at::kFloat);
      }
    }
  }

  template <class Visit>
  static void each_tensor(const c10::IValue& value, const Visit& visit) {
    if (value.isTensor()) {
      visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const auto& each : value.toTensorVector()) {
        visit(each);
      }
    }
  }

  static at::Tensor cast(const at::Tensor& tensor, at::ScalarType to) {
    return eligible(tensor) ? at::autocast::cached_cast(to, tensor, settings().type) : tensor;
  }
  static void cast(c10::IValue& value, at::ScalarType to) {
    if (value.isTensor()) {
      value = cast(value.toTensor(), to);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> converted;
      for (const auto& each : value.toTensorVector()) {
        converted.push_back(cast(each, to));
      }
      value = std::move(converted);
    }
  }

  CastPolicy policy_;
};

}  // namespace ferry
