#include "runtime/cpu/transport.hpp"

#include <fmt/format.h>

namespace stepcast::runtime {

void Doorbell::ring() {
  count_.fetch_add(1);
  if (!asleep_.load()) return;  // it counts before it lies down
  { const std::lock_guard<std::mutex> lock(mutex_); }
  rung_.notify_all();
}

void Doorbell::sleep(int seen, std::chrono::steady_clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  asleep_.store(true);
  rung_.wait_until(lock, until, [&] { return count_.load() != seen; });
  asleep_.store(false);
}

Transport::Transport(const Schedule& schedule) : schedule_(schedule) {
  const auto world = static_cast<std::size_t>(schedule.mesh.world_size());
  standings_.resize(world);
  for (std::size_t r = 0; r < world; ++r) bells_.push_back(std::make_unique<Doorbell>());
}

int Transport::group_size(CommIndex comm) const {
  return schedule_.mesh.size(schedule_.communicators[static_cast<std::size_t>(comm)].axis);
}

void Transport::progress(Seconds at) {
  if (at > last_progress()) last_progress_.store(at, std::memory_order_relaxed);
}

void Transport::stand(int rank, const Standing& standing) {
  const std::lock_guard<std::mutex> lock(mutex_);
  standings_[static_cast<std::size_t>(rank)] = standing;
}

void Transport::fail(const std::string& message) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.empty()) failure_ = message;
    failed_.store(true, std::memory_order_release);
  }
  for (const auto& each : bells_) each->ring();
}

std::string Transport::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

std::string Transport::name(const Standing& s) const {
  const StepProgram& program =
      schedule_.roles[static_cast<std::size_t>(s.role)].steps[static_cast<std::size_t>(s.program)];
  return fmt::format("{} (step {})", op_names(schedule_, program)[static_cast<std::size_t>(s.op)],
                     s.step);
}

std::string Transport::where_stands(int rank) const {
  const Standing& s = standings_[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} {}", rank, s.op < 0 ? "has ended" : "stands at " + name(s));
}

std::string list_of_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

std::string in_words(const Collective& c) {
  return fmt::format("{} of {} {} elements", to_string(c.kind), c.elements, to_string(c.dtype));
}

}  // namespace stepcast::runtime
