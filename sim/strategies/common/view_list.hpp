#pragma once
// A short list of views without a heap allocation: what one op reads or writes.

#include <array>
#include <span>

#include "base/error.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

class ViewList {
 public:
  ViewList() = default;
  explicit ViewList(View view) { add(view); }

  // A buffer of -1 or a view of no bytes is left out: layers without a hidden input, gradients that
  // do not exist.
  ViewList& add(View view) {
    if (view.buffer < 0 || view.bytes == 0) return *this;
    STEPCAST_ASSERT(count_ < views_.size(), "an op with too many views");
    views_[count_++] = view;
    return *this;
  }
  ViewList& add(std::span<const View> views) {
    for (const View& view : views) add(view);
    return *this;
  }

  operator std::span<const View>() const {  // NOLINT(google-explicit-constructor)
    return {views_.data(), count_};
  }

 private:
  std::array<View, 24> views_{};
  std::size_t count_ = 0;
};

}  // namespace stepcast
