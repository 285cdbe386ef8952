// What is known of each operator: how its arguments are treated, whether the card has it, and what a fault does to it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <unistd.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "settings.h"

namespace ferry {

// What tensors are made of; `native.py` has the same list.
enum class Layout : int { kDense = 0, kSparse = 1, kCompressed = 2, kNested = 3 };

enum class Mode : int { kNative = 0, kMissing = 1, kFallback = 2 };
enum class FaultKind : int { kNone = 0, kNoise = 1, kNan = 2, kStride = 3, kSlow = 4, kDie = 5, kHang = 6, kRaise = 7 };

struct Fault {
  FaultKind kind = FaultKind::kNone;
  double scale = 0;   // relative error, or seconds
  int64_t after = 0;  // calls that go right before the first that does not
};

// Whether PyTorch wants a tensor on the CPU for an argument, whatever the device of the others: lengths of sequences,
// and one number for each tensor of a list.
inline bool is_read_on_host(const std::string& base, const c10::Argument& argument) {
  const auto& name = argument.name();
  const bool wanted =
      name == "scalars" || name == "batch_sizes" || (name == "lengths" && base == "aten::_pack_padded_sequence");
  return wanted && argument.type()->kind() == c10::TypeKind::TensorType;
}

// Refuse a tensor of the device for such an argument, in PyTorch's words.
[[noreturn]] inline void refuse_on_device(const std::string& argument, const at::Tensor& tensor) {
  TORCH_CHECK(argument != "lengths", "'lengths' argument should be a 1D CPU int64 tensor, but got ", tensor.dim(), "D ",
              tensor.device(), " ", tensor.scalar_type(), " tensor");
  TORCH_CHECK(false, "Expected ", argument, " to be on CPU, got ", tensor.device(), " instead.");
}

// What one argument may be, as the vendor publishes it; see kernel_limits.h.
struct ArgumentLimit {
  ArgumentLimit() = default;
  ArgumentLimit(std::string of, uint64_t dtypes, uint64_t listed, int most, uint64_t on_host, std::string by,
                std::string where)
      : argument(std::move(of)),
        taken(dtypes),
        named(listed),
        rank(most),
        slow(on_host),
        function(std::move(by)),
        published(std::move(where)) {}
  void become(const ArgumentLimit& other) {
    argument = other.argument;
    taken = other.taken;
    named = other.named;
    rank = other.rank;
    slow = other.slow;
    function = other.function;
    published = other.published;
  }

  std::string argument;
  uint64_t taken = ~uint64_t{0};  // dtypes, a bit for each ScalarType
  uint64_t named = ~uint64_t{0};  // those that the vendor says are taken
  int rank = 0;                   // the most dimensions; 0 is not limited
  uint64_t slow = 0;              // dtypes that the card computes on its own host processor
  std::string function, published;
  std::atomic<uint64_t> told{0}, told_slow{0}, told_unlisted{0};
};
using ArgumentLimits = std::vector<ArgumentLimit>;

// The same in as few bytes as a call has to read of it.
struct QuickLimit {
  uint64_t passes = ~uint64_t{0};  // dtypes of which nothing is to be said
  int64_t rank = INT64_MAX;
};

struct Operator {
  std::string name;  // "aten::add.Tensor", and "aten::add.Tensor (sparse)" where it is called with such a tensor
  std::string full;  // without that
  std::string base;  // "aten::add"
  Layout layout = Layout::kDense;
  c10::DispatchKeySet host{c10::DispatchKey::CPU};  // whose kernel is run
  std::vector<bool> writes;
  int generator = -1;          // index of the generator argument
  bool any_device = false;     // the operator itself takes tensors of several devices
  bool moves_only = false;     // bytes are moved or looked at, nothing is computed
  bool places_values = false;  // or what the program names is put where it says: infinity too, which is no overflow
  bool synchronises = false;   // the host waits for the result
  int from_host = -1;          // the argument that PyTorch reads on the CPU: numbers for a list of tensors, or lengths
  std::string host_argument;   // its name
  bool indexes = false;        // a boolean index makes the host wait for a count
  bool widens = false;         // computed in float32 where the input is half
  bool integers_widen = false;
  bool bool_widens = false;
  bool foreach = false;      // each result is of one tensor of the first list
  bool keeps_order = false;  // its result lies in memory as it was asked for, or as its input does, on any card
  bool convolves = false;
  bool asks_for_grad = false;         // its kernel saves something for backward where an argument requires a gradient
  ArgumentLimits* limits = nullptr;   // of each argument, and of the result; null where nothing is published
  const QuickLimit* quick = nullptr;  // the same
  std::atomic<Mode> mode{Mode::kNative};
  std::atomic<int64_t> calls{0};
  std::atomic<uint64_t> noted{0};  // dtypes already reported for this operator
  std::atomic<bool> reported{false};
  std::atomic<bool> faulty{false};
  Fault fault;
};

// Whether an argument is a dtype, which the dispatcher hands over as a whole number.
inline bool takes_dtype(const c10::Argument& argument) {
  auto type = argument.real_type();
  if (const auto given = type->cast<c10::OptionalType>()) {
    type = given->getElementType();
  }
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

// Whether an operator makes a tensor like another.
inline bool is_like(const std::string& base) {
  return base.size() > 5 && base.compare(base.size() - 5, 5, "_like") == 0;
}

namespace names {

// These take CPU tensors beside device tensors, as on CUDA.
inline const std::unordered_set<std::string> kAnyDevice = {
    "aten::copy_",
    "aten::_copy_from",
    "aten::_copy_from_and_resize",
    "aten::index",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::index_put",
    "aten::_unsafe_index",
    "aten::_unsafe_index_put",
    "aten::copy_sparse_to_sparse_",
    "aten::_to_copy",
    "aten::_nested_view_from_buffer",
    "aten::_nested_from_padded",
    "aten::resize_as_",  // of the other tensor only the sizes are read
};
inline const std::unordered_set<std::string> kMovesOnly = {
    "aten::copy_",         "aten::_copy_from",   "aten::_to_copy",
    "aten::clone",         "aten::view",         "aten::as_strided",
    "aten::set_",          "aten::resize_",      "aten::_reshape_alias",
    "aten::alias",         "aten::detach",       "aten::_local_scalar_dense",
    "aten::unfold",        "aten::view_as_real", "aten::view_as_complex",
    "aten::empty_strided", "aten::empty",        "aten::zero_",
    "aten::fill_",         "aten::cat"};
// In place too.
inline const std::unordered_set<std::string> kPlacesValues = {
    "aten::fill",        "aten::full",       "aten::full_like", "aten::new_full",
    "aten::masked_fill", "aten::index_fill", "aten::scatter",   "aten::constant_pad_nd"};
// What ends in `_like` too.
inline const std::unordered_set<std::string> kKeepsOrder = {"aten::clone", "aten::_to_copy", "aten::empty_strided",
                                                            "aten::new_empty_strided", "aten::empty_permuted"};
// The size of the result, or a Python number, depends on the data.
inline const std::unordered_set<std::string> kSynchronises = {"aten::_local_scalar_dense",
                                                              "aten::nonzero",
                                                              "aten::_coalesce",
                                                              "aten::masked_select",
                                                              "aten::equal",
                                                              "aten::_unique",
                                                              "aten::_unique2",
                                                              "aten::unique_dim",
                                                              "aten::unique_consecutive",
                                                              "aten::unique_dim_consecutive"};
inline const std::unordered_set<std::string> kIndexes = {"aten::index", "aten::index_put_", "aten::_index_put_impl_",
                                                         "aten::_unsafe_index"};
// x86 without AMX or AVX512-FP16 is some 50 times slower in half than in float32 here; cards accumulate in float32.
inline const std::unordered_set<std::string> kWidens = {
    "aten::mm",      "aten::addmm",       "aten::bmm",
    "aten::baddbmm", "aten::addmv",       "aten::mv",
    "aten::dot",     "aten::convolution", "aten::convolution_backward",
    "aten::addbmm",  "aten::addr"};
// CUDA has kernels of integers, or of bool, for these, the CPU has not.
inline const std::unordered_set<std::string> kIntegersWiden = {"aten::histc"};
inline const std::unordered_set<std::string> kBoolWidens = {"aten::abs", "aten::_foreach_abs", "aten::_foreach_abs_"};

}  // namespace names

// A fault that does not touch a result: the call takes long, never ends, raises, or takes the process with it.
inline void strike(const std::string& name, const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kSlow:
      emit(Event::kFault, name, "slow");
      std::this_thread::sleep_for(std::chrono::duration<double>(fault.scale));
      break;
    case FaultKind::kHang:
      emit(Event::kFault, name, "hang");
      while (true) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
    case FaultKind::kDie:
      emit(Event::kFault, name, "die");
      _exit(70);
    case FaultKind::kRaise:
      emit_refusal(Event::kFault, name, "raise");
      TORCH_CHECK(false, settings().title, " error in ", name, " [rehearsal: injected by --fault]");
    default:
      break;
  }
}

class Operators {
 public:
  static Operators& instance() {
    static auto* operators = new Operators;
    return *operators;
  }

  Operator& of(const c10::OperatorHandle& handle, Layout layout = Layout::kDense, const char* word = "") {
    const auto& id = handle.operator_name();
    const std::string full = id.overload_name.empty() ? id.name : id.name + "." + id.overload_name;
    std::string name = layout == Layout::kDense ? full : full + " (" + word + ")";
    const std::lock_guard<std::mutex> guard(mutex_);
    auto found = by_name_.find(name);
    if (found != by_name_.end()) {
      return *found->second;
    }
    Operator& made = all_.emplace_back();
    made.name = name;
    made.full = full;
    made.layout = layout;
    made.base = id.name;
    const auto& arguments = handle.schema().arguments();
    for (size_t i = 0; i < arguments.size(); i++) {
      const auto* alias = arguments[i].alias_info();
      made.writes.push_back(alias != nullptr && alias->isWrite());
      if (arguments[i].type()->str().find("Generator") != std::string::npos) {
        made.generator = static_cast<int>(i);
      }
      if (is_read_on_host(id.name, arguments[i])) {
        made.from_host = static_cast<int>(i);
        made.host_argument = arguments[i].name();
      }
    }
    made.any_device = names::kAnyDevice.count(made.base) != 0;
    made.moves_only = names::kMovesOnly.count(made.base) != 0;
    made.synchronises = names::kSynchronises.count(made.base) != 0 || full == "aten::repeat_interleave.Tensor";
    made.indexes = names::kIndexes.count(made.base) != 0;
    // in place too: "aten::addmm_"
    const auto plain = made.base.back() == '_' ? made.base.substr(0, made.base.size() - 1) : made.base;
    made.places_values = made.moves_only || names::kPlacesValues.count(plain) != 0;
    made.widens = names::kWidens.count(plain);
    made.convolves = made.base.rfind("aten::convolution", 0) == 0;
    made.asks_for_grad = made.base == "aten::_sparse_mm_reduce_impl";
    made.integers_widen = names::kIntegersWiden.count(made.base) != 0;
    made.bool_widens = names::kBoolWidens.count(made.base) != 0;
    made.foreach = made.base.rfind("aten::_foreach_", 0) == 0;
    made.keeps_order = names::kKeepsOrder.count(made.base) != 0 || is_like(made.base);
    for (const auto* key : {&made.base, &made.full}) {
      if (auto mode = modes_.find(*key); mode != modes_.end() && (layout == Layout::kDense || mode->second.every)) {
        made.mode = mode->second.mode;
      }
      if (auto fault = faults_.find(*key); fault != faults_.end()) {
        made.fault = fault->second;
        made.faulty = true;
      }
    }
    if (const auto limits = limits_.find(full); limits != limits_.end() && layout == Layout::kDense) {
      made.limits = &limits->second;
      made.quick = quick_[full].data();
    }
    by_name_[name] = &made;
    return made;
  }

  // The operators of which something is published.
  std::vector<std::string> limited() {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::vector<std::string> names;
    for (const auto& each : limits_) {
      names.push_back(each.first);
    }
    return names;
  }

  // What the vendor publishes of an argument; also for operators met later. Set before the first call.
  void limit(const std::string& name, size_t count, size_t index, const ArgumentLimit& limit) {
    const std::lock_guard<std::mutex> guard(mutex_);
    auto& found = limits_.try_emplace(name, count + 1).first->second;  // the last one is of the result
    found[index].become(limit);
    auto& quick = quick_.try_emplace(name, count + 1).first->second;
    quick[index] = {limit.taken & limit.named & ~limit.slow, limit.rank == 0 ? INT64_MAX : limit.rank};
    for (auto& each : all_) {
      if (each.full == name && each.layout == Layout::kDense) {
        each.limits = &found;
        each.quick = quick.data();
      }
    }
  }

  // A collective operation, which no dispatcher schema stands for.
  void collective(const std::string& name) {
    Fault fault;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      const auto number = ++collectives_[name];
      const auto found = faults_.find(name);
      if (found == faults_.end() || number <= found->second.after) {
        return;
      }
      fault = found->second;
    }
    strike(name, fault);
  }

  // By full name or by name without overload; also for operators met later. For dense tensors only, unless `every`.
  void set_mode(const std::string& name, Mode mode, bool every) {
    const std::lock_guard<std::mutex> guard(mutex_);
    modes_[name] = {mode, every};
    for (auto& each : all_) {
      if ((each.full == name || each.base == name) && (each.layout == Layout::kDense || every)) {
        each.mode = mode;
      }
    }
  }

  void set_fault(const std::string& name, const Fault& fault) {
    const std::lock_guard<std::mutex> guard(mutex_);
    faults_[name] = fault;
    for (auto& each : all_) {
      if (each.full == name || each.base == name) {
        each.fault = fault;
        each.faulty = fault.kind != FaultKind::kNone;
      }
    }
  }

  // "name calls\n" for each operator that ran.
  std::string used() {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::string text;
    for (const auto& each : all_) {
      if (const auto calls = each.calls.load(); calls != 0) {
        text += each.name + " " + std::to_string(calls) + "\n";
      }
    }
    return text;
  }

 private:
  struct Wanted {
    Mode mode;
    bool every;
  };

  std::mutex mutex_;
  std::deque<Operator> all_;
  std::unordered_map<std::string, Operator*> by_name_;
  std::unordered_map<std::string, ArgumentLimits> limits_;
  std::unordered_map<std::string, std::vector<QuickLimit>> quick_;
  std::unordered_map<std::string, Wanted> modes_;
  std::unordered_map<std::string, Fault> faults_;
  std::unordered_map<std::string, int64_t> collectives_;
};

}  // namespace ferry
