// A plugin for torch as vendors write them, of a vendor that does not exist: a device on PrivateUse1 whose memory,
// copies, streams and events are the driver's, and a dozen operators that the driver's kernels would compute.
// It is linked with libacmedrv.so, and knows nothing of torchferry.
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

extern "C" {
const char* acmeLastError();
int acmeDeviceCount(int* count);
int acmeUseDevice(int device);
int acmeMalloc(void** pointer, size_t bytes);
int acmeFree(void* pointer);
int acmeMemcpy(void* to, const void* from, size_t bytes);
int acmeSetClock(int megahertz);
int acmeStreamCreate(void** stream);
int acmeStreamSynchronize(void* stream);
int acmeEventCreate(void** event);
int acmeEventDestroy(void* event);
int acmeEventRecord(void* event, void* stream);
int acmeEventElapsed(double* milliseconds, void* start, void* end);
int acmeLaunch(const char* kernel);
int acmeReadTemperature(int* degrees);
}

namespace {

constexpr auto kAcme = c10::DeviceType::PrivateUse1;
thread_local c10::DeviceIndex current = 0;

void check(int status, const char* what) {
  TORCH_CHECK_WITH(NotImplementedError, status == 0, "ACME error ", status, " in ", what, ": ", acmeLastError());
}

int count_devices() {
  int count = 0;
  acmeDeviceCount(&count);
  return count;
}

void use(c10::DeviceIndex device) {
  TORCH_CHECK(acmeUseDevice(device) == 0, "ACME: invalid device ordinal ", static_cast<int>(device));
  current = device;
}

struct Allocator final : c10::Allocator {
  static void release(void* pointer) { acmeFree(pointer); }
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = nullptr;
    use(current);
    const int status = bytes == 0 ? 0 : acmeMalloc(&pointer, bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, status != 2, "ACME out of memory: no room for ", bytes, " bytes on card ",
                     static_cast<int>(current), " (", acmeLastError(), ")");
    check(status, "acmeMalloc");
    return {pointer, pointer, &release, c10::Device(kAcme, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    check(acmeMemcpy(to, from, bytes), "copy");
  }
};
Allocator allocator;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kAcme; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kAcme, current}; }
  void setDevice(c10::Device device) const override { use(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(count_devices()); }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    use(stream.device_index());
    if (*event == nullptr) {
      check(acmeEventCreate(event), "acmeEventCreate");
    }
    check(acmeEventRecord(*event, nullptr), "acmeEventRecord");
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { acmeEventDestroy(event); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count_devices() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const auto before = current;
  use(device.has_value() && device->has_index() ? device->index() : current);
  auto made = at::detail::empty_strided_generic(
      sizes, strides, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype.value_or(at::kFloat));
  current = before;
  return made;
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin, std::optional<at::MemoryFormat>) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i > 1; i--) {
    strides[i - 2] = strides[i - 1] * std::max<int64_t>(sizes[i - 1], 1);
  }
  return empty_strided(sizes, strides, dtype, layout, device, pin);
}

at::Tensor with_strides(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                        std::optional<int64_t> offset) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                       self.key_set(), self.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset.value_or(self.storage_offset()));
  return made;
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  const auto wanted = at::infer_size(sizes, self.numel());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), wanted);
  TORCH_CHECK(strides.has_value(), "ACME: view of other strides");
  return with_strides(self, wanted, *strides, self.storage_offset());
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool) {
  check(acmeMemcpy(target.data_ptr(), self.data_ptr(), self.nbytes()), "acmeMemcpy");
  return target;
}

// What comes back from the CPU's kernel of an operator that the plugin has not.
at::Tensor copy_back(const at::Tensor& self, const at::Tensor& target) {
  TORCH_CHECK(self.sizes() == target.sizes(), "ACME: the result has another size than its tensor");
  return copy_from(self, target, false);
}

// Every operator that computes: the kernel of its name.
void launch(const c10::OperatorHandle& handle, torch::jit::Stack*) {
  check(acmeLaunch(handle.operator_name().name.c_str()), "acmeLaunch");
}

int64_t pitch(const at::Tensor& self) { return self.dim() == 0 ? 0 : self.stride(0) * self.element_size(); }

TORCH_LIBRARY(acme, m) {
  m.def("pitch(Tensor self) -> int");
  m.def("blend(Tensor first, Tensor second, float weight) -> Tensor");
  m.def("swizzle(Tensor self) -> Tensor");
}

TORCH_LIBRARY_IMPL(acme, PrivateUse1, m) {
  m.impl("pitch", TORCH_FN(pitch));
  m.impl("blend", torch::CppFunction::makeFromBoxedFunction<&launch>());
  m.impl("swizzle", torch::CppFunction::makeFromBoxedFunction<&launch>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(with_strides));
  m.impl("view", TORCH_FN(view));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_back));
  for (const char* name : {"add.out", "mul.out", "fill_.Scalar", "zero_", "mm", "addmm", "relu", "threshold_backward",
                           "sum.dim_IntList", "sum.IntList_out", "convolution_overrideable",
                           "convolution_backward_overrideable", "_log_softmax.out", "_log_softmax_backward_data.out",
                           "nll_loss_forward.output", "nll_loss_backward.grad_input", "_local_scalar_dense"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&launch>());
  }
}

void on_the_cpu(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  at::native::cpu_fallback(handle, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>()); }

}  // namespace

#define ACME_API extern "C" __attribute__((visibility("default")))

// What the Python side calls, in the order in which it does.
ACME_API void torch_acme_start() {
  c10::SetAllocator(kAcme, &allocator);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  acmeSetClock(1500);
}
ACME_API int torch_acme_device_count() { return count_devices(); }
ACME_API int torch_acme_current_device() { return current; }
ACME_API int torch_acme_set_device(int device) { return acmeUseDevice(device) == 0 ? (current = device, 0) : -1; }
ACME_API int torch_acme_temperature() {
  int degrees = 0;
  return acmeReadTemperature(&degrees) == 0 ? degrees : -1;
}
ACME_API const char* torch_acme_last_error() { return acmeLastError(); }
ACME_API double torch_acme_event_time() {
  void *start = nullptr, *end = nullptr, *stream = nullptr;
  double elapsed = -1;
  acmeUseDevice(current);
  acmeStreamCreate(&stream);
  acmeEventCreate(&start);
  acmeEventCreate(&end);
  acmeEventRecord(start, stream);
  acmeEventRecord(end, stream);
  acmeStreamSynchronize(stream);
  acmeEventElapsed(&elapsed, start, end);
  return elapsed;
}
