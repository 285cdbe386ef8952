// Where random numbers come from: the device's generator has a seed and an offset, as the plugin keeps them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry::plugin {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr uint64_t kDrawn = 4;  // how far a call moves the offset: Philox makes four numbers at a time

// Not 0 while the driver records work into a graph.
inline const std::atomic<int> never_recording{0};
inline const std::atomic<int>* recording_flag = &never_recording;

inline bool recording() { return recording_flag->load(std::memory_order_relaxed) != 0; }

inline c10::Device current_place() { return {kType, c10::impl::getDeviceGuardImpl(kType)->getDevice().index()}; }

// The plugin's function for it, where the vendor's description names it: torch before 2.6 need not know it.
inline const at::Generator& (*generator_of)(c10::DeviceIndex) = nullptr;

inline at::Generator default_generator_of(c10::Device device) {
  return generator_of != nullptr ? generator_of(device.index()) : at::globalContext().defaultGenerator(device);
}

// What the calls of a graph draw. A plugin that tells the offset while work is recorded counts from 0 for each graph,
// and before the graph runs it moves the generator on by what the graph draws in all: what a call draws then follows
// from where the generator was, and from the call's place. With a plugin that does not, a call draws anew when it runs.
class GraphDraws {
 public:
  // What one generator has drawn for a graph.
  struct Total {
    at::Generator generator;
    uint64_t drawn = 0;
  };
  using Totals = std::unordered_map<c10::GeneratorImpl*, Total>;

  // One drawing of a call.
  struct Draw {
    std::shared_ptr<Totals> totals;
    c10::GeneratorImpl* generator;
    uint64_t offset;  // in the graph
  };

  // The driver calls these before recording begins and before it ends.
  static void begin() {
    auto& self = instance();
    const std::lock_guard<std::mutex> held(self.lock_);
    self.totals_ = std::make_shared<Totals>();
    if (self.tells_ == Tells::kUnknown && !self.probe_.defined()) {
      try {
        self.probe_ = default_generator_of(current_place()).clone();
        self.probe_.set_offset(kDrawn);
      } catch (const c10::Error&) {
        self.tells_ = Tells::kNo;
      }
    }
  }

  static void end() {
    auto& self = instance();
    const std::lock_guard<std::mutex> held(self.lock_);
    try {
      for (auto& [_, total] : *self.totals_) {
        State(total.generator).read(&total.drawn);
      }
    } catch (const c10::Error&) {
      self.totals_->clear();  // the plugin ends the recording with an error of its own
    }
  }

  // Notes what the call that is recorded in this thread draws next.
  static void record(at::Generator& generator) {
    auto& self = instance();
    const std::lock_guard<std::mutex> held(self.lock_);
    uint64_t offset = 0;
    if (!self.tells()) {
      return;
    }
    const State state(generator);
    if (state.read(&offset)) {
      state.write(offset + kDrawn);
      auto* key = generator.unsafeGetGeneratorImpl();
      (*self.totals_)[key].generator = generator;
      recorded().push_back({self.totals_, key, offset});
    }
  }

  static std::vector<Draw> take_recorded() { return std::exchange(recorded(), {}); }

  // While a call of a graph is done again.
  class Again {
   public:
    explicit Again(const std::vector<Draw>& draws) { next() = {draws.data(), draws.data() + draws.size()}; }
    Again(const Again&) = delete;
    Again& operator=(const Again&) = delete;
    ~Again() { next() = {nullptr, nullptr}; }
  };

  // The offset of the generator for what such a call draws next; false for any other call.
  static bool replay(uint64_t* offset) {
    auto& [draw, end] = next();
    if (draw == end) {
      return false;
    }
    const auto found = draw->totals->find(draw->generator);
    TORCH_CHECK(found != draw->totals->end(), "the recording of this graph ended with an error");
    const auto& total = found->second;
    *offset = total.generator.get_offset() - total.drawn + draw->offset;
    draw++;
    return true;
  }

 private:
  enum class Tells { kUnknown, kYes, kNo };

  // A generator's state as bytes: the seed, and behind it the offset.
  class State {
   public:
    explicit State(at::Generator& generator) : generator_(generator), bytes_(generator.get_state()) {}

    bool read(uint64_t* offset) const {
      if (bytes_.numel() != 2 * sizeof *offset) {
        return false;
      }
      std::memcpy(offset, bytes_.const_data_ptr<uint8_t>() + sizeof *offset, sizeof *offset);
      return true;
    }

    void write(uint64_t offset) const {
      std::memcpy(bytes_.mutable_data_ptr<uint8_t>() + sizeof offset, &offset, sizeof offset);
      generator_.set_state(bytes_);
    }

   private:
    at::Generator& generator_;
    at::Tensor bytes_;
  };

  static GraphDraws& instance() {
    // For ever: its generators hold memory of the plugin, which may have ended before.
    static auto* self = new GraphDraws;
    return *self;
  }

  static std::vector<Draw>& recorded() {
    thread_local std::vector<Draw> draws;
    return draws;
  }

  static std::pair<const Draw*, const Draw*>& next() {
    thread_local std::pair<const Draw*, const Draw*> draws{nullptr, nullptr};
    return draws;
  }

  // Asked while work is recorded: a plugin that counts anew says 0, another the offset from before or an error.
  bool tells() {
    if (tells_ == Tells::kUnknown) {
      uint64_t offset = kDrawn;
      try {
        tells_ = State(probe_).read(&offset) && offset == 0 ? Tells::kYes : Tells::kNo;
      } catch (const c10::Error&) {
        tells_ = Tells::kNo;
      }
      probe_ = {};
    }
    return tells_ == Tells::kYes;
  }

  std::mutex lock_;
  Tells tells_ = Tells::kUnknown;
  at::Generator probe_;
  std::shared_ptr<Totals> totals_ = std::make_shared<Totals>();
};

// The CPU's generator draws what follows from the seed and the offset of the device's; the first numbers after a seed
// are those of the CPU with that seed.
class Drawing {
 public:
  Drawing() = default;
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;
  ~Drawing() {
    if (saved_.defined()) {
      host_.set_state(saved_);
    }
  }

  // The generator for a kernel that is given one.
  static at::Generator from(at::Generator device) {
    auto host = at::detail::createCPUGenerator();
    host.set_current_seed(next_seed(device));
    return host;
  }

  // For a kernel that asks for the CPU's default generator by itself.
  void lend_default(at::Generator device) {
    host_ = at::detail::getDefaultCPUGenerator();
    saved_ = host_.get_state();
    host_.set_current_seed(next_seed(device));
  }

 private:
  static uint64_t next_seed(at::Generator& device) {
    if (C10_UNLIKELY(recording())) {
      GraphDraws::record(device);
      return 0;  // what is drawn now is put back
    }
    uint64_t offset = 0;
    if (C10_LIKELY(!GraphDraws::replay(&offset))) {
      offset = device.get_offset();
      device.set_offset(offset + kDrawn);
    }
    return device.current_seed() ^ (offset * UINT64_C(0x9E3779B97F4A7C15));
  }

  at::Generator host_;
  at::Tensor saved_;
};

}  // namespace ferry::plugin
