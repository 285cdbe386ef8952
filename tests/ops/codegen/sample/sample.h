// A device for tests: its memory is the host's, so a kernel may call the CPU's on an alias.
#pragma once

#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>

namespace at::sample {

enum Counter { kTril, kLerp, kNonzero, kAdd, kAvgPool, kTriuMeta, kTriu, kMishMeta, kMishAutograd, kFill, kCounters };
extern int64_t counters[kCounters];

// The base of a preparation that takes over the shape of its input.
struct UnaryMeta : public at::impl::MetaBase {
  void build_unary(const Tensor& self) { set_output_raw_strided(0, self.sizes(), {}, self.options()); }
  const Tensor& maybe_get_output(int64_t index) override = 0;
  void set_output_raw_strided(int64_t, IntArrayRef, IntArrayRef, TensorOptions) override {}
};

// A CPU tensor on the memory of a tensor of the device; a CPU tensor is returned as it is.
Tensor host(const Tensor& tensor);

c10::Allocator* allocator();

}  // namespace at::sample
