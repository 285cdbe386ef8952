// Making device tensors and moving them: the operators that have no CPU kernel to borrow.
#pragma once

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/resize.h>

#include "call.h"

namespace ferry {

// The device that new tensors go to, for the time of one call.
class Placement {
 public:
  explicit Placement(optional<c10::Device> device) : previous_(current_device()) {
    if (device.has_value()) {
      current_device() = checked(device->index());
    }
  }
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;
  ~Placement() { current_device() = previous_; }

 private:
  c10::DeviceIndex previous_;
};

inline c10::ScalarType checked_options(optional<c10::ScalarType> dtype, optional<c10::Layout> layout,
                                       optional<bool> pinned) {
  TORCH_CHECK(!c10::pinned_memory_or_default(pinned), "Only dense CPU tensors can be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == c10::kStrided,
                              "a dense tensor was asked for in the "
                              "layout ",
                              c10::layout_or_default(layout));
  const auto wanted = c10::dtype_or_default(dtype);
  refuse_missing_dtype(wanted);
  return wanted;
}

#if FERRY_TORCH >= 202
inline bool fills_uninitialized_memory(const at::Context& context) {
  return context.deterministicFillUninitializedMemory();
}
#else
inline bool fills_uninitialized_memory(const at::Context&) { return true; }  // torch 2.1 has no setting for it
#endif

// torch.use_deterministic_algorithms fills what nothing has been written to, so that two runs see the same in it; every
// device of PyTorch's own does so in its factories.
inline at::Tensor filled_if_deterministic(at::Tensor made) {
  const auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && fills_uninitialized_memory(context))) {
    const at::AutoDispatchBelowADInplaceOrView below;  // the alias has no version that an update could count
    auto host = cpu_alias(made);
    at::native::fill_empty_deterministic_(host);
  }
  return made;
}

inline at::Tensor empty(c10::IntArrayRef size, optional<c10::ScalarType> dtype, optional<c10::Layout> layout,
                        optional<c10::Device> device, optional<bool> pinned, optional<c10::MemoryFormat> format) {
  const auto wanted = checked_options(dtype, layout, pinned);
  const Placement placement(device);
  return filled_if_deterministic(
      at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(settings().key), wanted, format));
}

inline at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, optional<c10::ScalarType> dtype,
                                optional<c10::Layout> layout, optional<c10::Device> device, optional<bool> pinned) {
  const auto wanted = checked_options(dtype, layout, pinned);
  const Placement placement(device);
  return filled_if_deterministic(
      at::detail::empty_strided_generic(size, stride, allocator(), c10::DispatchKeySet(settings().key), wanted));
}

inline at::Tensor host_side(const at::Tensor& tensor) { return on_device(tensor) ? cpu_alias(tensor) : tensor; }

inline void report_transfer(const at::Tensor& from, const at::Tensor& to, int64_t bytes, bool waits) {
  if (on_device(from) == on_device(to)) {
    return;
  }
  ensure_usable();
  if (on_device(to)) {
    emit(Event::kToDevice, c10::toString(to.scalar_type()), "", bytes);
  } else {
    emit(Event::kToHost, c10::toString(from.scalar_type()), waits ? "" : "non_blocking", bytes);
  }
}

inline at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  static auto& op = Operators::instance().of(c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  op.calls.fetch_add(1, std::memory_order_relaxed);
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  report_transfer(source, self, static_cast<int64_t>(source.nbytes()), !non_blocking);
  if (on_device(self) && on_device(source)) {
    check_cast(self, source);
  }
  auto to = host_side(self);
  to.copy_(host_side(source), non_blocking);
  if (on_device(self)) {
    narrow_on_arrival(to, self.scalar_type());
  }
  return self;
}

inline at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  auto written = to;
  return copy_(written, self, non_blocking);
}

inline at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

// Module.to(device) keeps its Parameter objects only where the plugin says that the two kinds of tensor are alike
// (PyTorch's own list of dense backends does not have PrivateUse1).
inline bool compatible_shallow_copy(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& tensor) {
    return !is_made(tensor) && (tensor.device().type() == c10::kCPU || on_device(tensor));
  };
  return (dense(self) && dense(from)) || self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

}  // namespace ferry
