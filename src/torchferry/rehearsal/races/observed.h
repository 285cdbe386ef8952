// What is known of each operator that PyTorch's dispatcher announces
// (at::RecordFunction): which arguments it reads and writes. Looked up once for
// each.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../csrc/operators.h"

namespace ferry::races {

enum class Role {
  kNothing,        // looks at shapes, makes views, or is composed of operators that
                   // are announced themselves
  kWork,           // reads and writes
  kCopies,         // copy_(to, from, non_blocking)
  kCopiesFrom,     // _copy_from(from, to, non_blocking)
  kAllocates,      // its results are memory that nobody has written to
  kKeepsForStream  // record_stream
};

struct Observed {
  const char* name = "";
  Role role = Role::kNothing;
  bool host_waits = false;
  bool indexes = false;
  bool reads_arguments = true;
  std::vector<char> arguments;  // 'r', 'w', or ' '
  std::vector<bool> is_fresh;   // of the results: no view of an argument, and no argument
};

namespace roles {

inline const std::unordered_set<std::string> kOfShapes = {"resize_",
                                                          "resize_as_",
                                                          "resize",
                                                          "_resize_output_",
                                                          "set_",
                                                          "set_data",
                                                          "is_pinned",
                                                          "is_set_to",
                                                          "is_same_size",
                                                          "result_type",
                                                          "can_cast",
                                                          "expand_as",
                                                          "_is_zerotensor",
                                                          "_to_copy",
                                                          "lift",
                                                          "lift_fresh",
                                                          "_lazy_clone",
                                                          "_unsafe_view",
                                                          "_has_compatible_shallow_copy_type"};

inline bool allocates(const std::string& base) {
  return base.rfind("empty", 0) == 0 || base.rfind("new_empty", 0) == 0;
}

}  // namespace roles

inline Observed looked_up(const c10::OperatorName& name) {
  Observed made;
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  const auto split = name.name.find("::");
  const auto space = name.name.substr(0, split), base = name.name.substr(split + 2);
  using Key = c10::DispatchKey;
  const bool is_composed = handle && handle->hasKernelForDispatchKey(Key::CompositeImplicitAutograd) &&
                           !handle->hasKernelForDispatchKey(Key::CPU);
  if (!handle || is_composed || space.find("c10d") != std::string::npos || space == "profiler" || space == "prim" ||
      space == "symm_mem" || handle->hasTag(at::Tag::inplace_view) || roles::kOfShapes.count(base) != 0) {
    return made;
  }
  made.name = (new std::string(name.name))->c_str();  // accesses refer to it as long as the process lives
  made.role = base == "copy_"           ? Role::kCopies
              : base == "_copy_from"    ? Role::kCopiesFrom
              : base == "record_stream" ? Role::kKeepsForStream
              : roles::allocates(base)  ? Role::kAllocates
                                        : Role::kWork;
  made.host_waits =
      names::kSynchronises.count(name.name) != 0 || (base == "repeat_interleave" && name.overload_name == "Tensor");
  made.indexes = names::kIndexes.count(name.name) != 0;
  made.reads_arguments = !is_like(name.name) && base.rfind("new_", 0) != 0;
  for (const auto& argument : handle->schema().arguments()) {
    const auto* alias = argument.alias_info();
    made.arguments.push_back(alias == nullptr ? 'r' : alias->isWrite() ? 'w' : ' ');
  }
  for (const auto& result : handle->schema().returns()) {
    made.is_fresh.push_back(result.alias_info() == nullptr);
  }
  return made;
}

// By the address of the operator's name, which is that of its schema: the rest
// would have to be copied each time.
class Catalogue {
 public:
  static Catalogue& instance() {
    static auto* all = new Catalogue;
    return *all;
  }

  const Observed& of(const at::RecordFunction& call) {
    const char* name = call.name();
    {
      const std::shared_lock<std::shared_mutex> guard(mutex_);
      const auto found = entries_.find(name);
      if (found != entries_.end() && std::strcmp(found->second.text.c_str(), name) == 0) {
        return *found->second.observed;
      }
    }
    const auto operator_name = call.operator_name();
    if (!operator_name.has_value()) {
      static const Observed none;
      return none;
    }
    auto* made = new Observed(looked_up(*operator_name));  // for as long as the process: calls refer to it
    const std::unique_lock<std::shared_mutex> guard(mutex_);
    entries_[name] = {name, made};
    return *made;
  }

 private:
  struct Entry {
    std::string text;
    const Observed* observed;
  };
  std::shared_mutex mutex_;
  std::unordered_map<const void*, Entry> entries_;
};

}  // namespace ferry::races
