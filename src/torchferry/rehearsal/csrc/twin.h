// The CPU storage on the bytes of a device storage, and how it is replaced while other threads compute with it.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

namespace ferry {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// A call borrows the twin for as long as it runs, and its count of references says whether any does. To replace it, one
// closes it and looks at the count: a call that came first is seen and waited for, one that comes later waits.
class Twin {
 public:
  explicit Twin(StoragePtr storage) : storage_(address(storage.release())) {}
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;
  ~Twin() { StoragePtr::reclaim(storage()); }

  StoragePtr lend() const {
    while (true) {
      const auto seen = storage_.load(std::memory_order_acquire);
      if (C10_LIKELY((seen & kClosed) == 0)) {
        // It cannot go meanwhile: who replaces it keeps it as long as the buffer.
        auto held = StoragePtr::reclaim_copy(pointer(seen));
        ahead_of_reading();
        if (C10_LIKELY(storage_.load(std::memory_order_acquire) == seen)) {
          return held;
        }
      } else {
        std::this_thread::yield();
      }
    }
  }

  bool is(const c10::StorageImpl* storage) const { return this->storage() == storage; }

  // Put `next` in the twin's place while no call has it; `meanwhile` gets the old one, must keep it as long as this,
  // and must not throw. False when calls had the twin for the whole of `patience`.
  template <class Meanwhile>
  bool replace(StoragePtr next, std::chrono::steady_clock::duration patience, Meanwhile&& meanwhile) {
    const auto end = std::chrono::steady_clock::now() + patience;
    auto* old = storage();
    while (!closed(old)) {
      if (std::chrono::steady_clock::now() > end) {
        return false;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    std::forward<Meanwhile>(meanwhile)(StoragePtr::reclaim(old));
    storage_.store(address(next.release()));
    return true;
  }

 private:
  static constexpr uintptr_t kClosed = 1;

  static uintptr_t address(c10::StorageImpl* storage) { return reinterpret_cast<uintptr_t>(storage); }
  static c10::StorageImpl* pointer(uintptr_t value) { return reinterpret_cast<c10::StorageImpl*>(value & ~kClosed); }
  c10::StorageImpl* storage() const { return pointer(storage_.load(std::memory_order_acquire)); }

  bool closed(c10::StorageImpl* old) {
    storage_.store(address(old) | kClosed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (c10::raw::intrusive_ptr::use_count(old) == 1) {
      return true;
    }
    storage_.store(address(old));  // a call may need it once more before it ends
    return false;
  }

  // The count must be up before the twin is looked at again. Raising it is a full barrier on x86.
  static void ahead_of_reading() {
#if defined(__x86_64__) || defined(__i386__)
    std::atomic_signal_fence(std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }

  std::atomic<uintptr_t> storage_;
};

}  // namespace ferry
