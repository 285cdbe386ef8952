// Devices, streams and events. Work is done when it is enqueued, so a stream is always idle and an event has always
// happened: order is kept. What a missing synchronisation would break is for whoever watches it (stream_order.h).
#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>
#if __has_include(<ATen/detail/XLAHooksInterface.h>)
#include <ATen/detail/XLAHooksInterface.h>
#endif
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <unordered_map>

#include "generator.h"
#include "memory.h"
#include "stream_order.h"

namespace ferry {

inline double milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct RecordedEvent {
  double time = 0;
  bool timing = true;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return settings().type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto old = current_device();
    current_device() = checked(device.index());
    return {settings().type, old};
  }
  c10::Device getDevice() const override { return {settings().type, current_device()}; }
  void setDevice(c10::Device device) const override { current_device() = checked(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) {
      current_device() = device.index();
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return settings().machine_devices; }

  c10::Stream getStream(c10::Device device) const noexcept override {
    const auto index = device.index() < 0 ? current_device() : device.index();
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(settings().type, index), current_stream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(settings().type, checked(device.index())));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool = false) const override {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(settings().type, checked(device.index())), next_stream());
  }
  c10::Stream getNewStream(c10::Device device, int = 0) const FERRY_OVERRIDE_SINCE_2_4 {
    return getStreamFromGlobalPool(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    auto& current = current_stream(stream.device_index());
    const auto old = current;
    current = stream.id();
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), old);
  }
  bool queryStream(const c10::Stream& stream) const override {
    synchronizeStream(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    tell_order(Order::kHostHasStream, stream_key(stream));
  }
  void synchronizeDevice(const c10::DeviceIndex device) const FERRY_OVERRIDE_SINCE_2_6 { wait_for_device(device); }
  static void wait_for_device(c10::DeviceIndex device) {
    tell_order(Order::kHostHasDevice, reinterpret_cast<const void*>(static_cast<intptr_t>(device)));
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    if (*event == nullptr) {
      *event = std::make_unique<RecordedEvent>(RecordedEvent{0, flag == c10::EventFlag::BACKEND_DEFAULT}).release();
    }
    static_cast<RecordedEvent*>(*event)->time = milliseconds();
    tell_order(Order::kRecorded, *event, stream_key(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    tell_order(Order::kWaits, stream_key(stream), event);
  }
  bool queryEvent(void* event) const override {
    synchronizeEvent(event);
    return true;
  }
  void synchronizeEvent(void* event) const FERRY_OVERRIDE_SINCE_2_4 { tell_order(Order::kHostHasEvent, event); }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    const std::unique_ptr<RecordedEvent> owned(static_cast<RecordedEvent*>(event));
    tell_order(Order::kEventGone, event);
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const FERRY_OVERRIDE_SINCE_2_4 {
    TORCH_CHECK(first != nullptr && second != nullptr, "Both events must be recorded before calculating elapsed time.");
    const auto* begin = static_cast<RecordedEvent*>(first);
    const auto* end = static_cast<RecordedEvent*>(second);
    TORCH_CHECK(begin->timing && end->timing,
                "Both events must be created with argument 'enable_timing=True' to measure the time between them.");
    return end->time - begin->time;
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    tell_order(Order::kKept, memory.get(), stream_key(stream));
  }

  // The stream of this thread on a device; 0 is the default one.
  static c10::StreamId& current_stream(c10::DeviceIndex device) {
    static thread_local std::array<c10::StreamId, kMaxDevices> current{};
    return current[static_cast<size_t>(device)];
  }
  static c10::StreamId next_stream() {
    static std::atomic<c10::StreamId> next{1};
    return next++;
  }
};

// Page-locked host memory: host memory that is known as such.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) FERRY_CONST_BEFORE_2_3 override {
    void* data = bytes != 0 ? c10::alloc_cpu(bytes) : nullptr;
    if (data == nullptr) {
      return {nullptr, c10::Device(c10::kCPU)};
    }
    const std::lock_guard<std::mutex> guard(mutex());
    blocks()[data] = bytes;
    return {data, data, &free_block, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const FERRY_OVERRIDE_SINCE_2_3 {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  static bool owns(const void* data) {
    const std::lock_guard<std::mutex> guard(mutex());
    return blocks().count(data) != 0;
  }
  static PinnedAllocator* instance() {
    static auto* allocator = new PinnedAllocator;
    return allocator;
  }

 private:
  static std::mutex& mutex() {
    static auto* lock = new std::mutex;
    return *lock;
  }
  static std::unordered_map<const void*, size_t>& blocks() {
    static auto* map = new std::unordered_map<const void*, size_t>;
    return *map;
  }
  static void free_block(void* data) {
    {
      const std::lock_guard<std::mutex> guard(mutex());
      blocks().erase(data);
    }
    c10::free_cpu(data);
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool hasPrimaryContext(c10::DeviceIndex) const FERRY_OVERRIDE_SINCE_2_3 { return true; }
#if FERRY_TORCH >= 206
  void init() const override { ensure_usable(); }
#else
  void initPrivateUse1() const FERRY_OVERRIDE_SINCE_2_3 { ensure_usable(); }
#endif
  bool isBuilt() const FERRY_OVERRIDE_SINCE_2_7 { return true; }
  bool isAvailable() const FERRY_OVERRIDE_SINCE_2_7 { return deviceCount() > 0; }
  c10::DeviceIndex deviceCount() const FERRY_OVERRIDE_SINCE_2_4 {
    look_for_devices();
    return settings().devices;
  }
  void setCurrentDevice(c10::DeviceIndex device) const FERRY_OVERRIDE_SINCE_2_4 { current_device() = checked(device); }
  c10::DeviceIndex getCurrentDevice() const FERRY_OVERRIDE_SINCE_2_4 { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const FERRY_OVERRIDE_SINCE_2_4 {
    const auto old = current_device();
    if (device >= 0) {
      current_device() = checked(device);
    }
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const FERRY_OVERRIDE_SINCE_2_4 {
    return exchangeDevice(device);
  }
  at::Device getDeviceFromPtr(void*) const override { return {settings().type, current_device()}; }
  c10::Allocator* getPinnedMemoryAllocator() const FERRY_OVERRIDE_SINCE_2_3 { return PinnedAllocator::instance(); }
  bool isPinnedPtr(const void* data) const FERRY_OVERRIDE_SINCE_2_5 { return PinnedAllocator::owns(data); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) FERRY_CONST_SINCE_2_5 override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const FERRY_OVERRIDE_SINCE_2_6 {
    return at::make_generator<Generator>(checked(device));
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const FERRY_OVERRIDE_SINCE_2_3 {
    resize_storage(storage, bytes);
  }
};

#if __has_include(<ATen/detail/XLAHooksInterface.h>)
// PyTorch asks these for a generator of XLA's device type, and speaks of torch_xla where nobody has registered any.
class XlaHooks final : public at::XLAHooksInterface {
 public:
  static void install() {
    at::XLAHooksRegistry()->Register("torch_xla::detail::XLAHooks",
                                     [](auto&&...) { return std::make_unique<XlaHooks>(); });
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    emit_refusal(Event::kMissingApi, "torch.Generator");
    TORCH_CHECK_NOT_IMPLEMENTED(false, settings().title,
                                " has no generator of its own; use one on the CPU, or seed the device [rehearsal]");
  }
};
#endif

// Times for the profiler's device columns: how long the host took. The sum of it says nothing about a card.
class ProfilerTimes final : public torch::profiler::impl::ProfilerStubs {
 public:
#if FERRY_TORCH >= 203
  using Index = c10::DeviceIndex;
#else
  using Index = int;
#endif
  void record(Index* device, torch::profiler::impl::ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    if (device != nullptr) {
      *device = current_device();
    }
    *event = std::make_shared<RecordedEvent>(RecordedEvent{milliseconds(), true});
    if (cpu_ns != nullptr) {
      *cpu_ns = static_cast<int64_t>(milliseconds() * 1e6);
    }
  }
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* first,
                const torch::profiler::impl::ProfilerVoidEventStub* second) const override {
    const auto* begin = static_cast<const RecordedEvent*>(first->get());
    const auto* end = static_cast<const RecordedEvent*>(second->get());
    return static_cast<float>((end->time - begin->time) * 1e3);  // microseconds
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> visit) const override {
    for (int i = 0; i < settings().devices; i++) {
      visit(i);
    }
  }
  void synchronize() const override {}
};

}  // namespace ferry
