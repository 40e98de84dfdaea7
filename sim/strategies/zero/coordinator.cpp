#include "sim/strategies/zero/coordinator.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace stepcast::zero {

Coordinator::Coordinator(std::vector<std::int64_t> numels, Limits limits)
    : numels_(std::move(numels)),
      limits_(limits),
      available_(numels_.size(), false),
      fetched_for_(numels_.size(), -1) {}

void Coordinator::begin_step() {
  position_ = 0;
  queue_.clear();
  std::fill(fetched_for_.begin(), fetched_for_.end(), -1);
  for (std::size_t i = 0; i < trace_.size(); ++i) {
    for (const int parameter : trace_[i]) queue_.push_back({parameter, static_cast<int>(i)});
  }
}

Fetch Coordinator::before(std::span<const int> parameters) {
  Fetch fetch;
  const auto take = [&](int parameter, std::vector<int>& list) {
    available_[static_cast<std::size_t>(parameter)] = true;
    live_ += numels_[static_cast<std::size_t>(parameter)];
    list.push_back(parameter);
  };
  for (const int parameter : parameters) {
    if (!available_[static_cast<std::size_t>(parameter)]) take(parameter, fetch.on_demand);
  }
  if (recording_) {
    trace_.emplace_back(parameters.begin(), parameters.end());
    ++position_;
    return fetch;
  }
  STEPCAST_ASSERT(static_cast<std::size_t>(position_) < trace_.size(),
                  "stage 3 ran a module that its trace does not have");
  while (!queue_.empty() && queue_.front().position <= position_) queue_.pop_front();
  const std::int64_t budget = std::min(limits_.max_live - live_, limits_.prefetch_bucket);
  std::int64_t taken = 0;
  while (!queue_.empty() && taken < budget) {
    const Traced next = queue_.front();
    queue_.pop_front();
    const auto p = static_cast<std::size_t>(next.parameter);
    if (available_[p]) continue;
    take(next.parameter, fetch.prefetch);
    fetched_for_[p] = next.position;
    taken += numels_[p];
  }
  ++position_;
  return fetch;
}

std::vector<int> Coordinator::after(std::span<const int> parameters) {
  std::vector<int> released(parameters.begin(), parameters.end());
  const auto keep = [&](int parameter) {
    released.erase(std::remove(released.begin(), released.end(), parameter), released.end());
  };
  if (!recording_) {
    for (const int parameter : parameters) {
      if (fetched_for_[static_cast<std::size_t>(parameter)] >= position_) keep(parameter);
    }
    std::int64_t distance = 0;
    for (std::size_t i = static_cast<std::size_t>(position_);
         i < trace_.size() && distance < limits_.max_reuse_distance; ++i) {
      for (const int parameter : trace_[i]) {
        keep(parameter);
        distance += numels_[static_cast<std::size_t>(parameter)];
      }
    }
  }
  for (const int parameter : released) {
    available_[static_cast<std::size_t>(parameter)] = false;
    live_ -= numels_[static_cast<std::size_t>(parameter)];
  }
  return released;
}

std::vector<int> Coordinator::end_step() {
  std::vector<int> released;
  for (std::size_t p = 0; p < available_.size(); ++p) {
    if (!available_[p]) continue;
    available_[p] = false;
    live_ -= numels_[p];
    released.push_back(static_cast<int>(p));
  }
  recording_ = false;
  return released;
}

}  // namespace stepcast::zero
