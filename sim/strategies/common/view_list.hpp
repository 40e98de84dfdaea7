#pragma once
// What one op reads or writes: a list of views, without a heap allocation as long as it is short
// (the replica of a block with many experts is not).

#include <array>
#include <span>
#include <vector>

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
    if (count_ < views_.size()) {
      views_[count_++] = view;
      return *this;
    }
    if (many_.empty()) many_.assign(views_.begin(), views_.end());
    many_.push_back(view);
    return *this;
  }
  ViewList& add(std::span<const View> views) {
    for (const View& view : views) add(view);
    return *this;
  }

  operator std::span<const View>() const {  // NOLINT(google-explicit-constructor)
    if (!many_.empty()) return many_;
    return {views_.data(), count_};
  }

 private:
  std::array<View, 24> views_{};
  std::size_t count_ = 0;
  std::vector<View> many_;  // all of them, once they are more than fit
};

}  // namespace stepcast
