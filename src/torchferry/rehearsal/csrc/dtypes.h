// Dtypes that the card does not have, or holds in half the width.
#pragma once

#include <ATen/ATen.h>

#include "operators.h"
#include "settings.h"

namespace ferry {

inline void refuse_missing_dtype(c10::ScalarType dtype) {
  if (C10_UNLIKELY(settings().missing.load(std::memory_order_relaxed) & bit(dtype))) {
    emit_refusal(Event::kMissingDtype, c10::toString(dtype));
    TORCH_CHECK_TYPE(false, settings().title, " does not support ", dtype, ": a tensor of this dtype cannot be on ",
                     settings().name);
  }
}

inline bool is_narrowed(c10::ScalarType dtype) {
  return (settings().narrowed.load(std::memory_order_relaxed) & bit(dtype)) != 0;
}

// The card holds the values in half the width: what does not fit is lost here too.
inline void narrow_values(Operator& op, at::Tensor& values) {
  const auto dtype = values.scalar_type();
  if ((op.noted.fetch_or(bit(dtype)) & bit(dtype)) == 0) {
    emit(Event::kNarrowed, c10::toString(dtype), op.name);
  }
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  switch (dtype) {
    case at::kDouble:
      values.copy_(values.to(at::kFloat));
      break;
    case at::kComplexDouble:
      values.copy_(values.to(at::kComplexFloat));
      break;
    case at::kLong:
      values.copy_(values.to(at::kInt));
      break;
    default:
      break;
  }
}

// Where 64-bit values arrive on a card that holds 32 bits, they lose what does not fit.
inline void narrow_on_arrival(const at::Tensor& host, c10::ScalarType dtype) {
  if (C10_LIKELY(!is_narrowed(dtype)) || host.numel() == 0) {
    return;
  }
  const auto narrow = dtype == at::kLong ? at::kInt : dtype == at::kDouble ? at::kFloat : at::kComplexFloat;
  const auto kept = host.to(narrow).to(dtype);
  if (!kept.equal(host)) {
    emit(Event::kNarrowed, c10::toString(dtype), "values that do not fit were moved to the device");
    host.copy_(kept);
  }
}

}  // namespace ferry
