// Random numbers: a device generator is a CPU generator under the device's name.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <utility>
#include <vector>

#include "settings.h"

namespace ferry {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device) : Generator(device, at::detail::createCPUGenerator()) {}
  Generator(c10::DeviceIndex device, at::Generator host)
      : c10::GeneratorImpl(c10::Device(settings().type, device), c10::DispatchKeySet(settings().key)),
        host_(std::move(host)) {}

  const at::Generator& host() const { return host_; }

  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return host_.seed(); }
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  void set_state(const c10::TensorImpl& state) override { host_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return host_.unsafeGetGeneratorImpl()->get_state(); }

 private:
  Generator* clone_impl() const override { return new Generator(device_.index(), host_.clone()); }
  at::Generator host_;
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

inline const at::Generator& host_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == settings().type, "Expected a '", settings().name,
              "' device type for generator but found '", generator.device().type(), "'");
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->host();
}

}  // namespace ferry
