// What the interfaces of an older torch lack, or call otherwise. The sources are written for the newest torch; whatever
// depends on the version asks FERRY_TORCH, which is 213 for torch 2.13.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <torch/version.h>

#define FERRY_TORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

#if FERRY_TORCH < 203
#include <c10/util/Optional.h>
#endif
#if FERRY_TORCH >= 206
#include <c10/core/CachingDeviceAllocator.h>
#endif
#if FERRY_TORCH >= 207
#include <ATen/core/CachingHostAllocator.h>
#endif

#include <array>
#include <optional>
#include <utility>

namespace ferry {

// The optional of operators' signatures (one type from torch 2.3 on).
#if FERRY_TORCH < 203
using c10::nullopt;
using c10::optional;
#else
using std::nullopt;
using std::optional;
#endif

}  // namespace ferry

// For functions that torch's interfaces have from the version in the name on; nobody calls them before.
#if FERRY_TORCH >= 202
#define FERRY_OVERRIDE_SINCE_2_2 override
#else
#define FERRY_OVERRIDE_SINCE_2_2
#endif
#if FERRY_TORCH >= 203
#define FERRY_OVERRIDE_SINCE_2_3 override
#define FERRY_CONST_BEFORE_2_3
#else
#define FERRY_OVERRIDE_SINCE_2_3
#define FERRY_CONST_BEFORE_2_3 const
#endif
#if FERRY_TORCH >= 204
#define FERRY_OVERRIDE_SINCE_2_4 override
#else
#define FERRY_OVERRIDE_SINCE_2_4
#endif
#if FERRY_TORCH >= 205
#define FERRY_OVERRIDE_SINCE_2_5 override
#define FERRY_CONST_SINCE_2_5 const
#else
#define FERRY_OVERRIDE_SINCE_2_5
#define FERRY_CONST_SINCE_2_5
#endif
#if FERRY_TORCH >= 206
#define FERRY_OVERRIDE_SINCE_2_6 override
#else
#define FERRY_OVERRIDE_SINCE_2_6
#endif
#if FERRY_TORCH >= 207
#define FERRY_OVERRIDE_SINCE_2_7 override
#else
#define FERRY_OVERRIDE_SINCE_2_7
#endif
#if FERRY_TORCH >= 210
#define FERRY_OVERRIDE_SINCE_2_10 override
#else
#define FERRY_OVERRIDE_SINCE_2_10
#endif

#if FERRY_TORCH < 209
namespace c10 {

using MempoolId_t = std::pair<unsigned long long, unsigned long long>;  // c10/core/Allocator.h of torch 2.9

#if FERRY_TORCH < 206
namespace CachingDeviceAllocator {

// c10/core/CachingDeviceAllocator.h of torch 2.6; earlier ones count for CUDA alone.
struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
struct DeviceStats {
  using StatArray = std::array<Stat, 3>;
  StatArray allocation, allocated_bytes, reserved_bytes, active_bytes, requested_bytes;
  int64_t num_ooms = 0;
};

}  // namespace CachingDeviceAllocator
#endif

// torch.accelerator, which asks such an allocator, came later.
struct DeviceAllocator : public c10::Allocator {
  virtual bool initialized() = 0;
  virtual void emptyCache(MempoolId_t = {0, 0}) = 0;
  virtual void recordStream(const DataPtr&, c10::Stream) = 0;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) = 0;
  virtual void resetAccumulatedStats(c10::DeviceIndex) = 0;
  virtual void resetPeakStats(c10::DeviceIndex) = 0;
};

}  // namespace c10
#endif

#if FERRY_TORCH < 208
namespace at {

#if FERRY_TORCH < 207
struct HostStats {};
#endif

// torch finds the allocator of page-locked memory through the hooks of the device alone.
struct HostAllocator : public c10::Allocator {
  virtual bool record_event(void*, void*, c10::Stream) = 0;
  virtual void empty_cache() = 0;
  virtual HostStats get_stats() = 0;
  virtual void reset_accumulated_stats() = 0;
  virtual void reset_peak_stats() = 0;
};
inline void setHostAllocator(c10::DeviceType, HostAllocator*) {}

}  // namespace at
#endif
