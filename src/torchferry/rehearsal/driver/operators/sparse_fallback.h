// Operators that the plugin lacks for sparse tensors.
#pragma once

#include <torch/library.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "../../csrc/refusals.h"
#include "call.h"

namespace ferry::plugin {

inline std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// What is called with sparse tensors and the plugin hands to its fallback: where that raises, an error of any class, it
// is noted. Not every torch gives the fallback out: for the call, our kernel steps aside.
class SparseFallback {
 public:
  static void watch(const c10::OperatorName& name) {
    auto made = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", kSparseKey, __FILE__, __LINE__);
    made->impl(full_name(name).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&call>());
    watched()[full_name(name)] = std::move(made);
  }

 private:
  static void call(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    static auto* one_at_a_time = new std::recursive_mutex;
    std::exception_ptr error;
    {
      const std::lock_guard<std::recursive_mutex> guard(*one_at_a_time);
      watched().erase(full_name(handle.operator_name()));
      try {
        handle.redispatchBoxed(keys, stack);
      } catch (...) {
        error = std::current_exception();
      }
      watch(handle.operator_name());
    }
    if (error != nullptr) {
      emit(Event::kMissingOperator, Operators::instance().of(handle, Layout::kSparse, "sparse").name);
      refusal_watch::is_told(error);
      std::rethrow_exception(error);
    }
  }

  static std::unordered_map<std::string, std::unique_ptr<torch::Library>>& watched() {
    static auto* libraries = new std::unordered_map<std::string, std::unique_ptr<torch::Library>>;
    return *libraries;
  }
};

}  // namespace ferry::plugin
