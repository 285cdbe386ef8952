// Device memory: host bytes, counted as the card would count them.
//
// A buffer has two StorageImpl objects on the same bytes: the one the device tensor holds, and its *twin*, which says
// that it is on the CPU and is lent to the CPU kernels. One object for both would not do: view operators inside a CPU
// kernel take a tensor's device from its storage.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "card_address.h"
#include "malloc_settings.h"
#include "settings.h"
#include "torch_versions.h"
#include "twin.h"

namespace ferry {

// A caching allocator hands out blocks of 512 bytes and reserves segments of 2 MiB (c10/cuda/CUDACachingAllocator).
constexpr int64_t kBlock = 512;
constexpr int64_t kSegment = int64_t{2} << 20;

inline int64_t rounded(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

struct Account {
  std::atomic<int64_t> allocated{0}, peak{0}, reserved{0}, peak_reserved{0};
  std::atomic<int64_t> allocations{0}, frees{0}, total_allocated{0}, out_of_memory{0};
  std::atomic<double> fraction{1.0};
};

inline std::array<Account, kMaxDevices> accounts;

inline Account& account(c10::DeviceIndex device) { return accounts[static_cast<size_t>(device)]; }

inline int64_t total_freed(const Account& a) { return a.total_allocated - a.allocated; }

inline void raise_to(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (value > seen && !maximum.compare_exchange_weak(seen, value)) {
  }
}

// As CUDA's allocator writes sizes in its messages (c10/cuda/CUDACachingAllocator.cpp, format_size).
inline std::string readable(int64_t bytes) {
  if (bytes <= 1024) {
    return std::to_string(bytes) + " bytes";
  }
  double size = static_cast<double>(bytes) / 1024;
  const char* unit = " KiB";
  for (const char* larger : {" MiB", " GiB"}) {
    if (size > 1024) {
      size /= 1024;
      unit = larger;
    }
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f%s", size, unit);
  return text.data();
}

// Fault: the allocation with this number, counted from 1, runs out of memory; 0 is none.
inline std::atomic<int64_t> failing_allocation{0};

// Give back what other processes held when its tensors went, and hold no longer; whether there was any (sharing.h).
inline bool collect_shared();

[[noreturn]] inline void out_of_memory(c10::DeviceIndex device, int64_t wanted, int64_t used, int64_t limit,
                                       bool injected) {
  auto& a = account(device);
  a.out_of_memory++;
  const std::string where = settings().name + ":" + std::to_string(device);
  if (injected) {
    emit_refusal(Event::kFault, where, "out of memory");
  } else {
    emit_refusal(Event::kOutOfMemory, where, readable(wanted) + " wanted, " + readable(used) + " in use", wanted);
  }
  const auto& title = settings().title;
  TORCH_CHECK_WITH(OutOfMemoryError, false, title, " out of memory. Tried to allocate ", readable(wanted), " (", title,
                   " ", static_cast<int>(device), "; ", readable(limit), " total capacity; ", readable(used),
                   " already allocated; ", readable(used), " current active; ", readable(limit - used), " free; ",
                   readable(a.reserved.load()), " reserved in total by PyTorch)",
                   injected ? " [rehearsal: injected by --fault]" : "");
}

inline void charge(c10::DeviceIndex device, int64_t bytes) {
  auto& a = account(device);
  const int64_t number = a.allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  int64_t used = a.allocated.fetch_add(bytes) + bytes;
  const int64_t capacity = settings().capacity.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(number == failing_allocation.load(std::memory_order_relaxed))) {
    a.allocated.fetch_sub(bytes);
    out_of_memory(device, bytes, used - bytes, capacity, true);
  }
  if (capacity != 0) {
    const auto limit = static_cast<int64_t>(static_cast<double>(capacity) * a.fraction.load());
    if (C10_UNLIKELY(used > limit) && collect_shared()) {
      used = a.allocated.load();
    }
    if (C10_UNLIKELY(used > limit)) {
      a.allocated.fetch_sub(bytes);
      out_of_memory(device, bytes, used - bytes, limit, false);
    }
  }
  a.total_allocated.fetch_add(bytes, std::memory_order_relaxed);
  raise_to(a.peak, used);
  raise_to(a.reserved, rounded(used, kSegment));
  raise_to(a.peak_reserved, a.reserved.load(std::memory_order_relaxed));
}

inline void release(c10::DeviceIndex device, int64_t bytes) {
  auto& a = account(device);
  a.allocated.fetch_sub(bytes);
  a.frees.fetch_add(1, std::memory_order_relaxed);
}

struct SharedBytes;  // of a buffer that another process can see (sharing.h)
inline void forget(SharedBytes* shared);

// What a device storage owns.
struct Buffer {
  Buffer(StoragePtr storage, int64_t bytes, c10::DeviceIndex index)
      : twin(std::move(storage)), charged(bytes), device(index) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { forget(shared.load()); }

  Twin twin;
  int64_t charged;
  c10::DeviceIndex device;
  std::atomic<SharedBytes*> shared{nullptr};
};

inline void use(const SharedBytes& shared);
inline void retire(const Buffer& buffer, const SharedBytes& shared);
inline const void* address_of(const SharedBytes& shared);

inline void delete_buffer(void* context) {
  std::unique_ptr<Buffer> buffer(static_cast<Buffer*>(context));
  if (const auto* shared = buffer->shared.load(std::memory_order_acquire); C10_UNLIKELY(shared != nullptr)) {
    retire(*buffer, *shared);
  } else {
    release(buffer->device, buffer->charged);
  }
}

inline int64_t cost(size_t bytes) { return rounded(static_cast<int64_t>(bytes), kBlock); }

inline c10::DataPtr owned(StoragePtr twin, c10::DeviceIndex device, int64_t charged) {
  void* data = other_address(twin->mutable_data());
  auto buffer = std::make_unique<Buffer>(std::move(twin), charged, device);
  return {data, buffer.release(), &delete_buffer, c10::Device(settings().type, device)};
}

// Take over a CPU storage as device memory. Raises torch.OutOfMemoryError when the card has no room.
inline c10::DataPtr adopt(StoragePtr twin, c10::DeviceIndex device) {
  ensure_usable();
  const int64_t charged = cost(twin->nbytes());
  charge(device, charged);
  return owned(std::move(twin), device, charged);
}

inline StoragePtr new_twin(size_t bytes) {
  auto* allocator = c10::GetCPUAllocator();
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes),
                                               allocator->allocate(bytes), allocator, /*resizable=*/true);
}

// New device memory. The card is asked first: it may refuse what the host could not give either.
inline c10::DataPtr new_buffer(size_t bytes, c10::DeviceIndex device) {
  ensure_usable();
  charge(device, cost(bytes));
  try {
    return owned(new_twin(bytes), device, cost(bytes));
  } catch (...) {
    release(device, cost(bytes));
    throw;
  }
}

// The twin of a device storage; borrowed bytes (from_blob) get one for the time of the call.
inline StoragePtr twin_of(const c10::Storage& storage) {
  auto* implementation = storage.unsafeGetStorageImpl();
  const c10::DataPtr& data = implementation->data_ptr();
  if (C10_LIKELY(data.get_deleter() == &delete_buffer)) {
    const auto& buffer = *static_cast<Buffer*>(data.get_context());
    if (const auto* shared = buffer.shared.load(std::memory_order_acquire); C10_UNLIKELY(shared != nullptr)) {
      use(*shared);
    }
    return buffer.twin.lend();
  }
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(implementation->nbytes()),
      c10::DataPtr(other_address(const_cast<void*>(data.get())), c10::Device(c10::kCPU)), c10::GetCPUAllocator(),
      false);
}

// Whether `host` is the memory behind a device storage, not another's; borrowed bytes have no twin that lasts.
inline bool lent_by(const c10::StorageImpl& device, const c10::StorageImpl* host) {
  const c10::DataPtr& data = device.data_ptr();
  return data.get_deleter() != &delete_buffer || static_cast<Buffer*>(data.get_context())->twin.is(host);
}

// Whether a kernel gave `host`, which is lent by `device`, other bytes.
inline bool was_resized(const c10::StorageImpl& device, const c10::StorageImpl& host) {
  const c10::DataPtr& data = device.data_ptr();
  const void* address = other_address(data.get());
  if (data.get_deleter() == &delete_buffer) {
    const auto& buffer = *static_cast<Buffer*>(data.get_context());
    if (const auto* shared = buffer.shared.load(std::memory_order_acquire); C10_UNLIKELY(shared != nullptr)) {
      address = address_of(*shared);
    }
  }
  return device.nbytes() != host.nbytes() || address != host.data_ptr().get();
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) FERRY_CONST_BEFORE_2_3 override { return new_buffer(bytes, current_device()); }
  void copy_data(void* to, const void* from, std::size_t bytes) const FERRY_OVERRIDE_SINCE_2_3 {
    std::memcpy(other_address(to), other_address(from), bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_buffer; }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {
    for (c10::DeviceIndex i = 0; i < settings().devices; i++) {
      account(i).reserved = rounded(account(i).allocated.load(), kSegment);
    }
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto& a = account(device);
    auto set = [](auto& stat, int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
      stat[0].current = current;
      stat[0].peak = peak;
      stat[0].allocated = allocated;
      stat[0].freed = freed;
    };
    for (auto* stat : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      set(*stat, a.allocated, a.peak, a.total_allocated, total_freed(a));
    }
    set(stats.reserved_bytes, a.reserved, a.peak_reserved, a.reserved, 0);
    set(stats.allocation, a.allocations - a.frees, 0, a.allocations, a.frees);
    stats.num_ooms = a.out_of_memory;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    auto& a = account(device);
    a.total_allocated = a.allocated.load();
    a.allocations = a.frees = a.out_of_memory = 0;
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    auto& a = account(device);
    a.peak = a.allocated.load();
    a.peak_reserved = a.reserved.load();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) FERRY_OVERRIDE_SINCE_2_10 {
    const int64_t total = settings().capacity ? settings().capacity.load() : int64_t{1} << 40;
    return {static_cast<size_t>(total - account(device).allocated.load()), static_cast<size_t>(total)};
  }
};

inline Allocator* allocator() {
  static auto* instance = new Allocator;  // lives as long as any tensor can
  return instance;
}

inline void resize_storage(const c10::Storage& storage, size_t bytes) {
  auto* implementation = storage.unsafeGetStorageImpl();
  TORCH_CHECK(implementation->resizable(), "Trying to resize storage that is not resizable");
  auto old = twin_of(storage);
  auto grown = new_twin(bytes);
  if (const size_t kept = std::min(bytes, old->nbytes()); kept != 0) {
    std::memcpy(grown->mutable_data(), old->data(), kept);
  }
  implementation->set_data_ptr_noswap(adopt(std::move(grown), storage.device().index()));
  implementation->set_nbytes(bytes);
}

}  // namespace ferry
