#pragma once
// A wire in one process: every rank is a thread with a TestWire of one Exchange. It counts bytes,
// and can be cut: nothing comes from or reaches a rank any more.

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "runtime/cpu/wire.hpp"

namespace stepcast::runtime {

class Exchange {
 public:
  explicit Exchange(int ranks) : sent_(static_cast<std::size_t>(ranks), 0) {}

  int size() const { return static_cast<int>(sent_.size()); }
  // Bytes of tensors; words of control and arrivals are on even channels.
  std::int64_t tensor_bytes(int rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sent_[static_cast<std::size_t>(rank)];
  }
  void cut(int rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    cut_.insert(rank);
  }

 private:
  friend class TestWire;
  using Key = std::tuple<int, int, int>;  // from, to, channel
  std::mutex mutex_;
  std::map<Key, std::deque<std::vector<std::byte>>> letters_;
  std::vector<std::int64_t> sent_;
  std::set<int> cut_;
  int met_ = 0;
};

class TestWire : public Wire {
 public:
  TestWire(Exchange& exchange, int rank) : exchange_(exchange), rank_(rank) {}

  const char* name() const override { return "test"; }
  int rank() const override { return rank_; }
  int size() const override { return exchange_.size(); }

  Request send(int to, int channel, const std::byte* from, std::size_t bytes) override {
    const std::lock_guard<std::mutex> lock(exchange_.mutex_);
    if (exchange_.cut_.count(rank_) + exchange_.cut_.count(to) == 0) {
      exchange_.letters_[{rank_, to, channel}].emplace_back(from, from + bytes);
    }
    if (channel > gather && channel % 2 == 1) {
      exchange_.sent_[static_cast<std::size_t>(rank_)] += static_cast<std::int64_t>(bytes);
    }
    return 0;  // always done
  }

  Request receive(int from, int channel, std::byte* to, std::size_t bytes) override {
    const std::lock_guard<std::mutex> lock(exchange_.mutex_);
    open_[++last_] = {from, channel, to, bytes};
    return last_;
  }

  bool done(Request request) override {
    if (request == 0) return true;
    const std::lock_guard<std::mutex> lock(exchange_.mutex_);
    const auto [from, channel, to, bytes] = open_.at(request);
    // A message is the oldest open request's.
    for (const auto& [other, asked] : open_) {
      if (other >= request) break;
      if (std::get<0>(asked) == from && std::get<1>(asked) == channel) return false;
    }
    auto& queue = exchange_.letters_[{from, rank_, channel}];
    if (queue.empty()) return false;
    if (bytes > 0) std::memcpy(to, queue.front().data(), queue.front().size());
    queue.pop_front();
    open_.erase(request);
    return true;
  }

  bool next(int channel, int& from, std::size_t& bytes) override {
    const std::lock_guard<std::mutex> lock(exchange_.mutex_);
    for (from = 0; from < size(); ++from) {
      const auto& queue = exchange_.letters_[{from, rank_, channel}];
      if (queue.empty()) continue;
      bytes = queue.front().size();
      return true;
    }
    return false;
  }

  void meet() override {}
  void leave() override {}

 private:
  using Open = std::tuple<int, int, std::byte*, std::size_t>;
  Exchange& exchange_;
  int rank_;
  Request last_ = 0;
  std::map<Request, Open> open_;  // under the exchange's mutex
};

}  // namespace stepcast::runtime
