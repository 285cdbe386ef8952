// What the rehearsed card is, as Python set it, and how events reach Python.
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

namespace ferry {

constexpr int kMaxDevices = 16;

struct Settings {
  c10::DeviceType type = c10::DeviceType::PrivateUse1;
  c10::DispatchKey key = c10::DispatchKey::PrivateUse1;
  c10::DispatchKey autocast_key = c10::DispatchKey::AutocastPrivateUse1;
  std::string name;                      // device type as the user writes it: "npu"
  std::string title;                     // as the plugin's messages write it: "NPU"
  c10::DeviceIndex machine_devices = 1;  // what the machine has
  c10::DeviceIndex devices = 1;          // what this process sees of them
  std::string visible_variable;          // environment variable that lists them; may be empty
  bool unordered_is_void = false;        // a number that is no larger than the one before leaves no device
  bool space_ends_list = false;          // entries are digits and nothing else
  bool keeps_identity = true;            // whether Module.to(device) keeps Parameter objects
  std::atomic<int64_t> capacity{0};      // bytes of one device; 0 is not limited
  std::atomic<uint64_t> missing{0};      // dtypes that the card does not have, a bit for each ScalarType
  std::atomic<uint64_t> narrowed{0};     // dtypes that it holds in half the width
  std::atomic<uint64_t> noted{0};        // dtypes that differ in some other way
  std::atomic<int> matmul_bits{0};       // explicit mantissa bits of matmul inputs; 0 is float32's own 23
  std::atomic<int> convolution_bits{0};  // the same of convolutions
  std::atomic<bool> fallback_warns{true};
  std::atomic<bool> others_fall_back{false};  // operators of other libraries run on the CPU
  std::atomic<bool> limits_refuse{true};      // what no published list has is refused, and not only told
  std::atomic<bool> casts_double{false};      // a cast on the device to float64 gives float32
  std::atomic<bool> one_order{false};         // results lie in the usual order, whatever that of the inputs
};

inline Settings the_settings;  // not a local static: it is read in every call, and its guard would be too

inline Settings& settings() { return the_settings; }

// Kinds of events; `event_kinds.py` has the same list.
enum class Event : int {
  kMissingOperator = 1,
  kFallback = 2,
  kMissingDtype = 3,
  kNotedDtype = 4,
  kNarrowed = 5,
  kSynchronisation = 6,
  kToDevice = 7,
  kToHost = 8,
  kOutOfMemory = 9,
  kMixedDevices = 10,
  kFault = 11,
  kCollective = 12,
  kForked = 13,
  kShared = 14,
  kMissingApi = 15,
  kHostWork = 16,
  kBackend = 17,
  kMemoryFormat = 18,
  kNotRehearsed = 19,
  kRefused = 20,
  kKernelLimit = 21,
  kBeyondLimit = 22,
  kSlowKernel = 23,
  kUnlistedDtype = 24,
  kContradiction = 25,
};

using Sink = void (*)(int kind, const char* subject, const char* detail, int64_t amount);

inline std::atomic<Sink>& sink() {
  static std::atomic<Sink> instance{nullptr};
  return instance;
}

// Tell Python, which looks up the user's line. No lock may be held: the receiver takes the interpreter lock.
inline void emit(Event kind, const std::string& subject, const std::string& detail = "", int64_t amount = 1) {
  if (auto receiver = sink().load(std::memory_order_acquire)) {
    receiver(static_cast<int>(kind), subject.c_str(), detail.c_str(), amount);
  }
}

// Whether what this thread throws next was told already, by an event that says more of it than its text.
inline thread_local bool refusal_was_told = false;

// Tell Python of what is refused; the exception follows.
inline void emit_refusal(Event kind, const std::string& subject, const std::string& detail = "", int64_t amount = 1) {
  emit(kind, subject, detail, amount);
  refusal_was_told = true;
}

inline uint64_t bit(c10::ScalarType dtype) { return uint64_t{1} << static_cast<int>(dtype); }

// Fork: the child of a process that has used the card cannot use it.
inline std::atomic<bool> was_initialised{false};
inline std::atomic<bool> was_forked{false};
inline std::atomic<bool>& initialised() { return was_initialised; }
inline std::atomic<bool>& in_bad_fork() { return was_forked; }

// As the driver does it: the list is read until the device is first used, and ends at the first entry that is none, and
// behind the digits of one that has more, as backends/visible_cards.py reads it.
inline void look_for_devices() {
  auto& s = settings();
  if (initialised().load(std::memory_order_relaxed)) {
    return;
  }
  const char* list = s.visible_variable.empty() ? nullptr : std::getenv(s.visible_variable.c_str());
  if (list == nullptr) {
    s.devices = s.machine_devices;
    return;
  }
  c10::DeviceIndex count = 0;
  long before = -1;
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',') && count < s.machine_devices; count++) {
    char* end = nullptr;
    if (s.space_ends_list && !entry.empty() && std::isspace(static_cast<unsigned char>(entry[0]))) {
      break;
    }
    const long index = std::strtol(entry.c_str(), &end, 10);
    if (s.unordered_is_void && end != entry.c_str() && index >= 0 && index <= before) {
      count = 0;
      break;
    }
    before = index;
    if (end == entry.c_str() || index < 0 || index >= s.machine_devices) {
      break;
    }
    if (*end != '\0') {
      count++;
      break;
    }
  }
  s.devices = count;
}

// What waited for the device, such as seeds; set once, before the device is used.
inline std::atomic<void (*)()> at_first_use{nullptr};

inline void ensure_usable() {
  if (C10_UNLIKELY(in_bad_fork().load(std::memory_order_relaxed))) {
    emit_refusal(Event::kForked, "fork", "the device was used after a fork of a process that had used it");
    TORCH_CHECK(false, "Cannot re-initialize ", settings().title, " in forked subprocess. To use ", settings().title,
                " with multiprocessing, you must use the 'spawn' start method");
  }
  if (C10_UNLIKELY(!initialised().load(std::memory_order_relaxed))) {
    look_for_devices();
    TORCH_CHECK(settings().devices > 0, settings().title, " error: no device is visible (", settings().visible_variable,
                ")");
    if (!initialised().exchange(true)) {
      if (auto* waiting = at_first_use.load(std::memory_order_acquire)) {
        waiting();
      }
    }
  }
}

inline c10::DeviceIndex& current_device() {
  static thread_local c10::DeviceIndex index = 0;
  return index;
}

// Backward runs in the thread that calls it, not in one for the device: what happens there has the user's line, and
// a process whose first backward was before the device came has no thread for it. The switch is one of each thread's,
// and some guards put it back.
inline void keep_backward_here() {
  auto& state = c10::AutogradState::get_tls_state();
  if (C10_UNLIKELY(state.get_multithreading_enabled())) {
    state.set_multithreading_enabled(false);
  }
}

// The device for an index as the user gave it; -1 is the current one.
inline c10::DeviceIndex checked(c10::DeviceIndex index) {
  if (index < 0) {
    return current_device();
  }
  TORCH_CHECK(index < settings().devices, settings().title, " error: invalid device ordinal ", static_cast<int>(index),
              " (this process sees ", static_cast<int>(settings().devices), ")");
  return index;
}

}  // namespace ferry
