// The kernel of every operator: swap the tensors, run the CPU kernel, swap the results.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/op_registration/op_registration.h>
#include <torch/library.h>

#include <utility>
#include <vector>

#include "call.h"

namespace ferry {

using torch::jit::Stack;

// The libraries for Fourier transforms on the CPU have words of their own.
inline bool missing_for_dtype(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.find("not implemented for '") != std::string::npos ||
         text.find("FFT doesn't support tensors of type") != std::string::npos;
}

class BoxedCall {
 public:
  BoxedCall(const c10::OperatorHandle& handle, Stack* stack, Operator& op)
      : handle_(handle), stack_(stack), call_(op), count_(op.writes.size()), base_(stack->size() - count_) {}

  void run() {
    saved_.assign(std::make_move_iterator(stack_->end() - static_cast<std::ptrdiff_t>(count_)),
                  std::make_move_iterator(stack_->end()));
    stack_->resize(base_);
    push_arguments();
    call_.check_devices(handle_.schema());
    call_.before_kernel();
    if (C10_UNLIKELY(call_.widens())) {
      again_in_float32();
    } else {
      try {
        redispatch();
      } catch (const c10::Error& error) {
        if (!call_.half() || !missing_for_dtype(error)) {
          throw;
        }
        again_in_float32();
      }
    }
    call_.after_kernel();
    const size_t results = handle_.schema().returns().size();
    for (size_t i = stack_->size() - results; i < stack_->size(); i++) {
      (*stack_)[i] = result(std::move((*stack_)[i]));
    }
  }

 private:
  void again_in_float32() {
    stack_->resize(base_);
    call_.widen();
    push_arguments();
    redispatch();
  }

  void redispatch() { handle_.redispatchBoxed(call_.op().host, stack_); }

  void push_arguments() {
    for (size_t i = 0; i < count_; i++) {
      stack_->push_back(argument(saved_[i], i));
    }
  }

  at::Tensor tensor(const at::Tensor& value, size_t index) {
    return value.defined() ? call_.to_cpu(value, index, call_.op().writes[index]) : value;
  }

  c10::List<at::Tensor> tensors(const c10::IValue& value, size_t index) {
    c10::List<at::Tensor> converted;
    const auto list = value.toTensorVector();
    converted.reserve(list.size());
    for (const auto& each : list) {
      converted.push_back(tensor(each, index));
    }
    return converted;
  }

  c10::IValue argument(const c10::IValue& value, size_t index) {
    if (value.isTensor()) {
      return tensor(value.toTensor(), index);
    }
    if (value.isNone()) {
      if (C10_UNLIKELY(static_cast<int>(index) == call_.op().generator)) {
        return host_generator(default_generator(call_.device().index()));
      }
      return value;
    }
    if (value.isTensorList()) {
      return tensors(value, index);
    }
    if (value.isOptionalTensorList()) {
      c10::List<optional<at::Tensor>> converted;
      for (const auto& each : value.toOptionalTensorVector()) {
        if (each.has_value() && each->defined()) {
          if (C10_UNLIKELY(call_.op().indexes &&
                           (each->scalar_type() == at::kBool || each->scalar_type() == at::kByte))) {
            emit(Event::kSynchronisation, call_.op().name, "boolean mask");
          }
          converted.push_back(tensor(*each, index));
        } else {
          converted.push_back(each);
        }
      }
      return converted;
    }
    if (value.isDevice()) {
      const auto device = value.toDevice();
      if (device.type() != settings().type) {
        return value;
      }
      call_.place_on(device);
      return c10::Device(c10::kCPU);
    }
    if (value.isGenerator()) {
      return host_generator(value.toGenerator());
    }
    if (value.isStorage() && value.toStorage().device().type() == settings().type) {
      return storage(value.toStorage());
    }
    if (C10_UNLIKELY(value.isInt() && call_.widened(static_cast<c10::ScalarType>(value.toInt()))) &&
        takes_dtype(handle_.schema().arguments()[index])) {
      return static_cast<int64_t>(at::kFloat);
    }
    return value;
  }

  // set_(Storage): the alias gets the twin, and the original follows it to the device storage.
  c10::IValue storage(const c10::Storage& device) {
    auto twin = twin_of(device);
    call_.share(twin.get(), device);
    return c10::Storage(std::move(twin));
  }

  c10::IValue result(c10::IValue value) {
    if (value.isTensor()) {
      return call_.to_device(std::move(value).toTensor());
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> converted;
      size_t index = 0;
      for (auto& each : std::move(value).toTensorVector()) {
        call_.round_as(index++);
        converted.push_back(call_.to_device(std::move(each)));
      }
      return converted;
    }
    return value;
  }

  const c10::OperatorHandle& handle_;
  Stack* stack_;
  Call call_;
  size_t count_;
  size_t base_;
  std::vector<c10::IValue> saved_;
};

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(Operator& op) : op_(op) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) {
    BoxedCall(handle, stack, op_).run();
  }

 private:
  Operator& op_;
};

// Operators of other libraries, such as torchvision's, by their CPU kernel.
inline void fallback(const c10::OperatorHandle& handle, Stack* stack) {
  auto& op = Operators::instance().of(handle);
  if (!handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
    emit_refusal(Event::kMissingOperator, op.name);
    TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op.name, "' with arguments from the '", settings().name,
                                "' backend: there is no kernel for it, and none for the CPU to rehearse it with");
  }
  if (C10_UNLIKELY(settings().others_fall_back) && op.mode.load(std::memory_order_relaxed) == Mode::kNative) {
    op.mode = Mode::kFallback;
  }
  BoxedCall(handle, stack, op).run();
}

inline void no_operation(const c10::OperatorHandle& handle, Stack* stack) {
  torch::jit::drop(*stack, handle.schema().arguments().size());
}

}  // namespace ferry
