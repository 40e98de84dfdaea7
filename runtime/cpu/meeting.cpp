#include "runtime/cpu/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace stepcast::runtime {
namespace {

// Elements of a collective that its last rank does for everybody: less work than waking them twice.
constexpr std::int64_t small = 1 << 14;

// A rank's part in a meeting.
class Seat : public Attendance {
 public:
  Seat(Hall& hall, std::shared_ptr<Meeting> meeting, CommIndex comm, int rank, int index, bool real)
      : hall_(hall),
        meeting_(std::move(meeting)),
        comm_(comm),
        rank_(rank),
        index_(index),
        real_(real) {}

  Stage stage() const override {
    switch (meeting_->stage()) {
      case Meeting::Stage::gathering: return Stage::gathering;
      case Meeting::Stage::first:
      case Meeting::Stage::second: return Stage::under_way;
      case Meeting::Stage::over: return Stage::over;
    }
    return Stage::over;
  }

  Seconds began() const override { return meeting_->began(); }
  Seconds ended() const override { return hall_.now(); }

  bool go_on() override {
    const Meeting::Stage now = meeting_->stage();
    if (now == Meeting::Stage::first && halves_ == 0) {
      if (real_) first_half(meeting_->what(), meeting_->all(), index_);
    } else if (now == Meeting::Stage::second && halves_ == 1) {
      if (real_) second_half(meeting_->what(), meeting_->all(), index_);
    } else {
      return false;
    }
    ++halves_;
    hall_.finish_half(*meeting_, comm_, rank_);
    return true;
  }

 private:
  Hall& hall_;
  std::shared_ptr<Meeting> meeting_;
  CommIndex comm_;
  int rank_;
  int index_;
  bool real_;
  int halves_ = 0;
};

}  // namespace

Hall::Hall(const Schedule& schedule) : Transport(schedule) {
  const auto world = static_cast<std::size_t>(schedule.mesh.world_size());
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

int Hall::index_of(CommIndex comm, int rank) const {
  return index_in_[static_cast<std::size_t>(comm)][static_cast<std::size_t>(rank)];
}

void Hall::wake(const Group& group) {
  for (const int rank : group.ranks) bell(rank).ring();
}

std::shared_ptr<Attendance> Hall::enter(CommIndex comm, int rank, std::int64_t number,
                                        const Collective& what, Operands mine,
                                        const Standing& standing, Seconds ready) {
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
                      list_of_ranks(meeting->entered_), in_words(meeting->what_),
                      name(meeting->standing_), rank, in_words(what), name(standing)));
    }
    meeting->all_[static_cast<std::size_t>(index_of(comm, rank))] = mine;
    meeting->entered_.push_back(rank);
    meeting->began_ = std::max(meeting->began_, ready);
    complete = meeting->entered_.size() == here.ranks.size();
    // Each rank enters in order, so the complete ones are in front.
    while (!here.meetings.empty() && here.meetings.front()->entered_.size() == here.ranks.size()) {
      here.meetings.pop_front();
      ++here.first;
    }
  }
  const bool real = mine.receive != nullptr;
  auto seat = std::make_shared<Seat>(*this, meeting, comm, rank, index_of(comm, rank), real);
  if (!complete) return seat;
  Meeting::Stage next = Meeting::Stage::first;
  if (!real || what.elements <= small) {
    for (int i = 0; real && i < group_size(comm); ++i) first_half(what, meeting->all_, i);
    for (int i = 0; real && i < group_size(comm); ++i) second_half(what, meeting->all_, i);
    next = Meeting::Stage::over;
  }
  meeting->stage_.store(next, std::memory_order_release);
  wake(here);
  return seat;
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

std::string Hall::who_is_missing() {
  const std::lock_guard<std::mutex> lock(mutex_);
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
                         schedule_.communicators[c].name.str(), list_of_ranks(missing),
                         list_of_ranks(meeting.entered_));
      for (std::size_t i = 0; i < missing.size() && i < 4; ++i)
        text += "; " + where_stands(missing[i]);
    }
  }
  if (oldest != nullptr) return text;
  for (std::size_t r = 0; r < standings_.size() && r < 4; ++r) {
    text += (r == 0 ? "" : "; ") + where_stands(static_cast<int>(r));
  }
  return "no op can go on: " + text;
}

}  // namespace stepcast::runtime
