// Work that is recorded into a graph and done again when the graph runs. While it is recorded nothing changes: what a
// call writes is put back, as on a card, where recorded work has not been done yet.
#pragma once

#include <dlfcn.h>

#include "call.h"

namespace ferry::plugin {

// The plugin's: the driver's stream of one of torch's. Set before the first call.
inline void* (*driver_stream)(const c10::Stream&) = nullptr;

// The driver's: who records work gives it a function, what that is called with, and the stream.
struct Recorder {
  bool (*record)(bool (*)(void*), void (*)(void*), void*, const void*) = nullptr;
  bool (*records)(const void*) = nullptr;
  void (*watch)(void (*)(), void (*)()) = nullptr;
  void (*say)(const char*) = nullptr;

  Recorder() {
    const auto flag = reinterpret_cast<const std::atomic<int>* (*)()>(dlsym(RTLD_DEFAULT, "ferry_recording"));
    record = reinterpret_cast<decltype(record)>(dlsym(RTLD_DEFAULT, "ferry_record_work"));
    records = reinterpret_cast<decltype(records)>(dlsym(RTLD_DEFAULT, "ferry_records"));
    watch = reinterpret_cast<decltype(watch)>(dlsym(RTLD_DEFAULT, "ferry_watch_recording"));
    say = reinterpret_cast<decltype(say)>(dlsym(RTLD_DEFAULT, "ferry_say_text"));
    if (flag != nullptr && record != nullptr && records != nullptr && watch != nullptr && say != nullptr) {
      recording_flag = flag();
      watch(&GraphDraws::begin, &GraphDraws::end);
    }
  }
};

class Recorded {
 public:
  Recorded(const c10::OperatorHandle& handle, Operator& op, const Stack& stack, size_t base)
      : handle_(handle), op_(op) {
    for (size_t i = base; i < stack.size(); i++) {
      arguments_.push_back(shadow(stack[i]));
    }
  }

  // What the arguments that the call writes held.
  void keep_written() {
    for (size_t i = 0; i < arguments_.size(); i++) {
      if (op_.writes[i]) {
        each_tensor(arguments_[i], [this](const at::Tensor& tensor) {
          auto values = cpu_alias(tensor);
          kept_.emplace_back(values, values.clone());
        });
      }
    }
  }

  void put_back() {
    for (auto& [values, before] : kept_) {
      values.copy_(before);
    }
    kept_.clear();
  }

  void keep_draws() { draws_ = GraphDraws::take_recorded(); }

  void keep_results(const Stack& stack, size_t base) {
    for (size_t i = base; i < stack.size(); i++) {
      results_.push_back(shadow(stack[i]));
    }
  }

  static bool run(void* argument) {
    auto* self = static_cast<Recorded*>(argument);
    try {
      self->again();
      return true;
    } catch (const std::exception& error) {
      static const Recorder recorder;
      recorder.say(error.what());
      return false;
    }
  }

  static void drop(void* argument) { delete static_cast<Recorded*>(argument); }

 private:
  void again() {
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    const GraphDraws::Again draws(draws_);
    Stack stack = arguments_;
    if (op_.base == "aten::copy_") {
      auto target = on_device(stack[0].toTensor()) ? cpu_alias(stack[0].toTensor()) : stack[0].toTensor();
      const auto source = stack[1].toTensor();
      target.copy_(on_device(source) ? cpu_alias(source) : source);
      return;
    }
    Call(handle_, &stack, op_).run();
    for (size_t i = 0; i < results_.size(); i++) {
      copy_into(results_[i], stack[stack.size() - results_.size() + i]);
    }
  }

  static void copy_into(const c10::IValue& place, const c10::IValue& value) {
    std::vector<at::Tensor> places, values;
    each_tensor(place, [&](const at::Tensor& tensor) { places.push_back(tensor); });
    each_tensor(value, [&](const at::Tensor& tensor) { values.push_back(tensor); });
    for (size_t i = 0; i < places.size(); i++) {
      if (places[i].data_ptr() != values[i].data_ptr()) {
        cpu_alias(places[i]).copy_(cpu_alias(values[i]));
      }
    }
  }

  template <typename Function>
  static void each_tensor(const c10::IValue& value, Function&& function) {
    if (value.isTensor()) {
      if (value.toTensor().defined() && on_device(value.toTensor())) {
        function(value.toTensor());
      }
    } else if (value.isTensorList()) {
      for (const auto& tensor : value.toTensorVector()) {
        if (tensor.defined() && on_device(tensor)) {
          function(tensor);
        }
      }
    }
  }

  // The same memory, which is not held: the plugin keeps what a graph uses in a pool of its own.
  static at::Tensor shadow(const at::Tensor& tensor) {
    if (!tensor.defined() || !on_device(tensor)) {
      return tensor;
    }
    const auto* source = tensor.unsafeGetTensorImpl();
    auto* device = tensor.storage().unsafeGetStorageImpl();
    c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), device->nbytes(),
                                                               c10::DataPtr(device->data_ptr().get(), tensor.device()),
                                                               nullptr, /*resizable=*/false));
    auto made = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(kKey) | (source->key_set() & kMathBits), source->dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
    if (source->is_wrapped_number()) {
      made.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return made;
  }

  static c10::IValue shadow(const c10::IValue& value) {
    if (value.isTensor()) {
      return shadow(value.toTensor());
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> made;
      for (const auto& tensor : value.toTensorVector()) {
        made.push_back(shadow(tensor));
      }
      return made;
    }
    if (value.isOptionalTensorList()) {
      c10::List<optional<at::Tensor>> made;
      for (const optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        made.push_back(tensor.has_value() ? optional<at::Tensor>(shadow(*tensor)) : tensor);
      }
      return made;
    }
    return value;
  }

  c10::OperatorHandle handle_;
  Operator& op_;
  Stack arguments_, results_;
  std::vector<GraphDraws::Draw> draws_;
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

// The driver's stream of a call that is recorded. On a card work on a stream that does not belong to the graph would be
// done at once, with what the graph has not computed yet.
inline void* recorded_stream(const Operator& op, const Recorder& recorder) {
  TORCH_CHECK_NOT_IMPLEMENTED(driver_stream != nullptr, op.name,
                              " is not recorded: the driver's description names no `stream` of this plugin");
  auto* stream = driver_stream(c10::impl::getDeviceGuardImpl(kType)->getStream(current_place()));
  TORCH_CHECK_NOT_IMPLEMENTED(
      recorder.records(stream), op.name,
      " on a stream outside of the graph that is recorded is not rehearsed: let the stream wait "
      "for the graph's (wait_stream), and the graph's for it at the end, or do this work "
      "before or after");
  return stream;
}

// Records a call and does it, so that its results have their shapes; `compute` does it.
template <typename Compute>
void record(const c10::OperatorHandle& handle, Operator& op, Stack* stack, Compute&& compute) {
  static const Recorder recorder;
  TORCH_CHECK(!op.synchronises, op.name, " waits for the device, which work that is recorded into a graph cannot");
  auto* stream = recorded_stream(op, recorder);
  auto recorded = std::make_unique<Recorded>(handle, op, *stack, stack->size() - handle.schema().arguments().size());
  {
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    recorded->keep_written();
  }
  (void)GraphDraws::take_recorded();  // of a call that ended with an error
  compute();
  recorded->keep_draws();
  {
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    recorded->put_back();
  }
  recorded->keep_results(*stack, stack->size() - handle.schema().returns().size());
  TORCH_CHECK(recorder.record(&Recorded::run, &Recorded::drop, recorded.get(), stream), op.name,
              " could not be kept in the graph: no memory is left, or another thread has ended the recording");
  recorded.release();
}

// Does a call, or records it while work is recorded into a graph.
template <typename Compute>
void do_or_record(const c10::OperatorHandle& handle, Operator& op, Stack* stack, Compute&& compute) {
  if (C10_UNLIKELY(recording())) {
    record(handle, op, stack, std::forward<Compute>(compute));
  } else {
    compute();
  }
}

}  // namespace ferry::plugin
