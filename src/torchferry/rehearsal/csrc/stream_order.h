// What a device does that orders work: events, waits, synchronisation. Told to whoever looks for races, to nobody
// otherwise; `driver/csrc/machine.h` has the same list for drivers.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ferry {

enum class Order : int {
  kRecorded = 1,       // an event, in a stream
  kWaits = 2,          // a stream, for an event
  kHostHasStream = 3,  // the host has waited for a stream
  kHostHasEvent = 4,
  kHostHasDevice = 5,  // by its number
  kEventGone = 6,
  kReads = 7,  // a stream of a library's own: memory from an address on, so many bytes
  kWrites = 8,
  kKept = 9,     // memory for a stream (record_stream)
  kResized = 10  // memory of a storage: what was done with it before is over
};

using OrderWatcher = void (*)(int what, const void* first, const void* second, size_t bytes);

inline std::atomic<OrderWatcher> order_watcher{nullptr};

inline void tell_order(Order what, const void* first, const void* second = nullptr, size_t bytes = 0) {
  if (auto* watcher = order_watcher.load(std::memory_order_acquire); C10_UNLIKELY(watcher != nullptr)) {
    watcher(static_cast<int>(what), first, second, bytes);
  }
}

// What stands for a stream where no driver has an object for it.
inline const void* stream_key(c10::DeviceIndex device, c10::StreamId id) {
  return reinterpret_cast<const void*>((static_cast<uintptr_t>(device) + 1) << 48 | static_cast<uintptr_t>(id));
}
inline const void* stream_key(const c10::Stream& stream) { return stream_key(stream.device_index(), stream.id()); }

}  // namespace ferry
