#include "runtime/cpu/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace stepcast::runtime {
namespace {

// Elements of a collective that its last rank does for everybody: less work than waking them twice.
constexpr std::int64_t small = 1 << 14;

}  // namespace

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

Hall::Hall(const Schedule& schedule) : schedule_(schedule) {
  const auto world = static_cast<std::size_t>(schedule.mesh.world_size());
  standings_.resize(world);
  for (std::size_t r = 0; r < world; ++r) bells_.push_back(std::make_unique<Doorbell>());
  for (const Communicator& comm : schedule.communicators) {
    std::vector<Group> groups;
    std::vector<int> group_of(world, -1);
    std::vector<int> index_in(world, 0);
    for (std::size_t r = 0; r < world; ++r) {
      if (group_of[r] >= 0) continue;
      Group group;
      group.ranks = ranks_of_group(schedule.mesh, comm.axis, static_cast<int>(r));
      for (std::size_t i = 0; i < group.ranks.size(); ++i) {
        const auto member = static_cast<std::size_t>(group.ranks[i]);
        group_of[member] = static_cast<int>(groups.size());
        index_in[member] = static_cast<int>(i);
      }
      groups.push_back(std::move(group));
    }
    groups_.push_back(std::move(groups));
    group_of_.push_back(std::move(group_of));
    index_in_.push_back(std::move(index_in));
  }
}

Hall::Group& Hall::group(CommIndex comm, int rank) {
  const auto c = static_cast<std::size_t>(comm);
  return groups_[c][static_cast<std::size_t>(group_of_[c][static_cast<std::size_t>(rank)])];
}

int Hall::group_size(CommIndex comm) const {
  return schedule_.mesh.size(schedule_.communicators[static_cast<std::size_t>(comm)].axis);
}

int Hall::index_of(CommIndex comm, int rank) const {
  return index_in_[static_cast<std::size_t>(comm)][static_cast<std::size_t>(rank)];
}

void Hall::wake(const Group& group) {
  for (const int rank : group.ranks) bell(rank).ring();
}

std::string Hall::name(const Standing& s) const {
  const StepProgram& program =
      schedule_.roles[static_cast<std::size_t>(s.role)].steps[static_cast<std::size_t>(s.program)];
  return fmt::format("{} (step {})", op_names(schedule_, program)[static_cast<std::size_t>(s.op)],
                     s.step);
}

namespace {

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

std::string words(const Collective& c) {
  return fmt::format("{} of {} {} elements", to_string(c.kind), c.elements, to_string(c.dtype));
}

}  // namespace

std::shared_ptr<Meeting> Hall::enter(CommIndex comm, int rank, std::int64_t number,
                                     const Collective& what, Operands mine,
                                     const Standing& standing) {
  Group& here = group(comm, rank);
  std::shared_ptr<Meeting> meeting;
  bool complete = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = static_cast<std::size_t>(number - here.first);
    STEPCAST_ASSERT(number >= here.first && at <= here.meetings.size(),
                    "a rank enters the collectives of a communicator in order");
    if (at == here.meetings.size()) {
      here.meetings.push_back(
          std::make_shared<Meeting>(what, standing, static_cast<int>(here.ranks.size())));
    }
    meeting = here.meetings[at];
    if (!(meeting->what_ == what)) {
      throw std::runtime_error(
          fmt::format("ranks disagree on communicator {}: {} entered {} ({}), rank {} {} ({})",
                      schedule_.communicators[static_cast<std::size_t>(comm)].name.str(),
                      list_of(meeting->entered_), words(meeting->what_), name(meeting->standing_),
                      rank, words(what), name(standing)));
    }
    meeting->all_[static_cast<std::size_t>(index_of(comm, rank))] = mine;
    meeting->entered_.push_back(rank);
    complete = meeting->entered_.size() == here.ranks.size();
    // Each rank enters in order, so the complete ones are in front.
    while (!here.meetings.empty() && here.meetings.front()->entered_.size() == here.ranks.size()) {
      here.meetings.pop_front();
      ++here.first;
    }
  }
  if (!complete) return meeting;
  const bool real = mine.receive != nullptr;
  Meeting::Stage next = Meeting::Stage::first;
  if (!real || what.elements <= small) {
    for (int i = 0; real && i < group_size(comm); ++i) first_half(what, meeting->all_, i);
    for (int i = 0; real && i < group_size(comm); ++i) second_half(what, meeting->all_, i);
    next = Meeting::Stage::over;
  }
  meeting->stage_.store(next, std::memory_order_release);
  wake(here);
  return meeting;
}

void Hall::finish_half(Meeting& meeting, CommIndex comm, int rank) {
  const Group& here = group(comm, rank);
  const int done = meeting.finished_.fetch_add(1, std::memory_order_acq_rel) + 1;
  const int members = static_cast<int>(here.ranks.size());
  if (done == members) {
    meeting.stage_.store(Meeting::Stage::second, std::memory_order_release);
  } else if (done == 2 * members) {
    meeting.stage_.store(Meeting::Stage::over, std::memory_order_release);
  } else {
    return;
  }
  wake(here);
}

void Hall::progress(Seconds at) {
  if (at > last_progress()) last_progress_.store(at, std::memory_order_relaxed);
}

void Hall::stand(int rank, const Standing& standing) {
  const std::lock_guard<std::mutex> lock(mutex_);
  standings_[static_cast<std::size_t>(rank)] = standing;
}

void Hall::fail(const std::string& message) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.empty()) failure_ = message;
    failed_.store(true, std::memory_order_release);
  }
  for (const auto& each : bells_) each->ring();
}

std::string Hall::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

std::string Hall::who_is_missing() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto stands = [&](int rank) {
    const Standing& s = standings_[static_cast<std::size_t>(rank)];
    return fmt::format("rank {} {}", rank, s.op < 0 ? "has ended" : "stands at " + name(s));
  };
  const Meeting* oldest = nullptr;
  std::string text;
  for (std::size_t c = 0; c < groups_.size(); ++c) {
    for (const Group& group : groups_[c]) {
      if (group.meetings.empty()) continue;
      const Meeting& meeting = *group.meetings.front();
      if (oldest != nullptr && oldest->standing_.step <= meeting.standing_.step) continue;
      oldest = &meeting;
      std::vector<int> missing;
      for (const int rank : group.ranks) {
        const auto& in = meeting.entered_;
        if (std::find(in.begin(), in.end(), rank) == in.end()) missing.push_back(rank);
      }
      text = fmt::format("{} on communicator {} waits for {}: {} entered", name(meeting.standing_),
                         schedule_.communicators[c].name.str(), list_of(missing),
                         list_of(meeting.entered_));
      for (std::size_t i = 0; i < missing.size() && i < 4; ++i) text += "; " + stands(missing[i]);
    }
  }
  if (oldest != nullptr) return text;
  for (std::size_t r = 0; r < standings_.size() && r < 4; ++r) {
    text += (r == 0 ? "" : "; ") + stands(static_cast<int>(r));
  }
  return "no op can go on: " + text;
}

}  // namespace stepcast::runtime
