#pragma once
// Tensors in a row (the parameters in registration order), kept in buffers that each hold some
// neighbours: a buffer a layer on GPU 0, a buffer a chunk in flight. Answers where a stretch of
// them lies, in as few views as there are buffers.

#include <algorithm>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::dp {

class TensorParts {
 public:
  explicit TensorParts(std::vector<Bytes> tensors) {
    ends_.push_back(0);
    for (const Bytes bytes : tensors) ends_.push_back(ends_.back() + bytes);
  }

  // Tensors first ... first + count - 1 lie in `buffer`, one behind the other.
  void add(int first, int count, BufferIndex buffer) {
    if (count > 0 && buffer >= 0) parts_.push_back({first, first + count, buffer});
  }

  std::vector<View> views(int first, int count) const {
    std::vector<View> list;
    for (const Part& part : parts_) {
      const int from = std::max(first, part.first);
      const int to = std::min(first + count, part.end);
      if (from >= to) continue;
      list.push_back({part.buffer, end(from) - end(part.first), end(to) - end(from)});
    }
    return list;
  }

 private:
  struct Part {
    int first = 0;
    int end = 0;
    BufferIndex buffer = -1;
  };
  Bytes end(int tensors) const { return ends_[static_cast<std::size_t>(tensors)]; }

  std::vector<Bytes> ends_;  // bytes of the tensors before each
  std::vector<Part> parts_;
};

}  // namespace stepcast::dp
