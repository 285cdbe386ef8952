// A plugin that takes no memory format but the usual one: what it raises, and where.
#pragma once

#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/contiguous_native.h>
#include <ATen/ops/empty_like_native.h>

#include "factories.h"

namespace ferry::formats {

inline bool is_usual(optional<c10::MemoryFormat> format) {
  return !format.has_value() || *format == c10::MemoryFormat::Contiguous || *format == c10::MemoryFormat::Preserve;
}

// The message is put together where it is needed: these operators are called in every step.
template <class Message>
void refuse(const char* what, optional<c10::MemoryFormat> format, const Message& message) {
  if (C10_UNLIKELY(!is_usual(format))) {
    std::ostringstream subject;
    subject << what << "(memory_format=torch."
            << (*format == c10::MemoryFormat::ChannelsLast3d ? "channels_last_3d" : "channels_last") << ')';
    const std::string text = message();
    emit_refusal(Event::kMemoryFormat, subject.str(), text);
    TORCH_CHECK(false, text);
  }
}

inline at::Tensor to_copy(const at::Tensor& self, optional<c10::ScalarType> dtype, optional<c10::Layout> layout,
                          optional<c10::Device> device, optional<bool> pinned, bool non_blocking,
                          optional<c10::MemoryFormat> format) {
  refuse("to", format, [] { return "Only contiguous_format or preserve_format is supported."; });
  if (C10_UNLIKELY(settings().casts_double.load(std::memory_order_relaxed)) && dtype == at::kDouble &&
      self.scalar_type() != at::kDouble && !layout.has_value() && !device.has_value()) {
    dtype = at::kFloat;
  }
  return at::native::_to_copy(self, dtype, layout, device, pinned, non_blocking, format);
}

inline at::Tensor contiguous(const at::Tensor& self, c10::MemoryFormat format) {
  refuse("contiguous", format,
         [] { return settings().title + " contiguous operator only supported contiguous memory format."; });
  return at::native::contiguous(self, format);
}

// It raises nothing here: the format is not looked at.
inline at::Tensor empty_like(const at::Tensor& self, optional<c10::ScalarType> dtype, optional<c10::Layout> layout,
                             optional<c10::Device> device, optional<bool> pinned, optional<c10::MemoryFormat> format) {
  return at::native::empty_like(self, dtype, layout, device, pinned,
                                is_usual(format) ? format : c10::MemoryFormat::Contiguous);
}

inline at::Tensor empty_in_format(c10::IntArrayRef size, optional<c10::ScalarType> dtype, optional<c10::Layout> layout,
                                  optional<c10::Device> device, optional<bool> pinned,
                                  optional<c10::MemoryFormat> format) {
  refuse("empty", format, [] {
    return "Only c10::MemoryFormat::Contiguous is supported for creating a " + settings().name + " tensor";
  });
  return empty(size, dtype, layout, device, pinned, format);
}

}  // namespace ferry::formats
