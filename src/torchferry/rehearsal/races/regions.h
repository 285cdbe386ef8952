// Which bytes of a storage a tensor has.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace ferry::races {

class Region {
 public:
  Region(size_t low, size_t high) : low_(low), high_(high) {}

  explicit Region(const at::Tensor& tensor) {
    const auto* implementation = tensor.unsafeGetTensorImpl();
    const auto item = tensor.dtype().itemsize();
    size_t last = 0, count = 1;
    for (int64_t i = 0; i < implementation->dim(); i++) {
      const auto size = static_cast<size_t>(implementation->sizes()[static_cast<size_t>(i)]);
      if (size == 0) {
        return;
      }
      last += (size - 1) * static_cast<size_t>(implementation->strides()[static_cast<size_t>(i)]);
      count *= size;
    }
    low_ = static_cast<size_t>(implementation->storage_offset()) * item;
    high_ = low_ + (last + 1) * item;
    if (last + 1 > count) {  // with gaps
      gaps_ = std::make_shared<Gaps>();
      gaps_->item = item;
      for (int64_t i = 0; i < implementation->dim(); i++) {
        const auto index = static_cast<size_t>(i);
        gaps_->sides.emplace_back(implementation->strides()[index] * static_cast<int64_t>(item),
                                  implementation->sizes()[index]);
      }
      std::sort(gaps_->sides.begin(), gaps_->sides.end());
    }
  }

  bool empty() const { return high_ <= low_; }

  // Whether every byte of another is one of these.
  bool covers(const Region& other) const {
    return gaps_ == nullptr ? low_ <= other.low_ && other.high_ <= high_ : is_same(other);
  }

  // Whether they have a byte in common. Of two that are too finely divided to
  // be compared: no, so that nothing is said that may not be so.
  bool meets(const Region& other) const {
    if (high_ <= other.low_ || other.high_ <= low_ || empty() || other.empty()) {
      return false;
    }
    if ((gaps_ == nullptr && other.gaps_ == nullptr) || is_same(other)) {
      return true;
    }
    const auto one = runs(), two = other.runs();
    size_t i = 0, j = 0;
    while (i < one.size() && j < two.size()) {
      if (one[i].second <= two[j].first) {
        i++;
      } else if (two[j].second <= one[i].first) {
        j++;
      } else {
        return true;
      }
    }
    return false;
  }

 private:
  using Run = std::pair<size_t, size_t>;
  struct Gaps {
    c10::SmallVector<std::pair<int64_t, int64_t>, 5> sides;  // stride in bytes and size, the smallest stride first
    size_t item = 0;
  };
  static constexpr size_t kMostRuns = 1 << 16;

  bool is_same(const Region& other) const {
    return low_ == other.low_ && high_ == other.high_ && (gaps_ != nullptr) == (other.gaps_ != nullptr) &&
           (gaps_ == nullptr || (gaps_->sides == other.gaps_->sides && gaps_->item == other.gaps_->item));
  }

  // The bytes without gaps, in their order; none where there are too many.
  std::vector<Run> runs() const {
    if (gaps_ == nullptr) {
      return {{low_, high_}};
    }
    std::vector<Run> found{{low_, low_ + gaps_->item}};
    for (const auto& [stride, size] : gaps_->sides) {
      const auto step = static_cast<size_t>(stride);
      if (found.size() == 1 && step == found[0].second - found[0].first) {
        found[0].second += (static_cast<size_t>(size) - 1) * step;
        continue;
      }
      if (found.size() * static_cast<size_t>(size) > kMostRuns) {
        return {};
      }
      const size_t count = found.size();
      for (size_t number = 1; number < static_cast<size_t>(size); number++) {
        for (size_t i = 0; i < count; i++) {
          found.emplace_back(found[i].first + number * step, found[i].second + number * step);
        }
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  size_t low_ = 0, high_ = 0;
  std::shared_ptr<Gaps> gaps_;
};

}  // namespace ferry::races
