// Random numbers: a device generator is a seed and an offset, as on the cards, and a CPU generator that draws.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/Generator.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "settings.h"

namespace ferry {

// Programs read and write the state as the plugins lay it out: DTensor moves the offset of each rank by itself.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device)
      : c10::GeneratorImpl(c10::Device(settings().type, device), c10::DispatchKeySet(settings().key)),
        host_(at::detail::createCPUGenerator()) {}

  // The CPU generator for one operator. Its numbers follow from seed and offset alone, so that a state that was saved
  // continues the same way in another process; the first ones after a seed are those of the CPU with that seed.
  const at::Generator& next() {
    const std::lock_guard<std::mutex> lock(mutex_);
    host_.set_current_seed(seed_ ^ (offset_ * UINT64_C(0x9E3779B97F4A7C15)));
    offset_ += kStep;
    return host_;
  }

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }

  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == kSize || state.numel() == kSize / 2, "RNG state is wrong size");
    const auto* bytes = static_cast<const uint8_t*>(state.data());
    std::memcpy(&seed_, bytes, sizeof(seed_));
    offset_ = 0;
    if (state.numel() == kSize) {
      std::memcpy(&offset_, bytes + sizeof(seed_), sizeof(offset_));
    }
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({kSize}, at::kByte, {}, {}, {}, {});
    auto* bytes = static_cast<uint8_t*>(state.mutable_data_ptr());
    std::memcpy(bytes, &seed_, sizeof(seed_));
    std::memcpy(bytes + sizeof(seed_), &offset_, sizeof(offset_));
    return state.getIntrusivePtr();
  }

 private:
  static constexpr int64_t kSize = 16;
  static constexpr uint64_t kStep = 4;  // Philox makes four numbers at a time, and DTensor counts in fours

  Generator* clone_impl() const override {
    auto* copy = new Generator(device_.index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  at::Generator host_;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

inline const at::Generator& default_generator(c10::DeviceIndex device) {
  static const std::vector<at::Generator> generators = [] {
    std::vector<at::Generator> made;
    for (c10::DeviceIndex i = 0; i < kMaxDevices; i++) {
      made.push_back(at::make_generator<Generator>(i));
    }
    return made;
  }();
  return generators[static_cast<size_t>(checked(device))];
}

// The CPU generator with which one operator is to draw.
inline const at::Generator& host_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == settings().type, "Expected a '", settings().name,
              "' device type for generator but found '", generator.device().type(), "'");
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->next();
}

}  // namespace ferry
