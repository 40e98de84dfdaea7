#pragma once
// Where ranks that are threads meet: the n-th collective of each group is one Meeting that every
// member enters, works on in two halves (ring.hpp) and leaves when all are through.
//
//   enter     the last one to come opens the first half for everybody
//   first     each reduces its chunk; the last to finish opens the second half
//   second    each fetches the others' chunks; when all are through, nobody reads a peer any more
//
// A small one is done by who enters last, for everybody.
//
// The Hall is all groups of all communicators of a run. Tested by
// tests/unit/runtime/executor_test.cpp.

#include <deque>

#include "runtime/cpu/transport.hpp"

namespace stepcast::runtime {

class Meeting {
 public:
  enum class Stage : std::uint8_t { gathering, first, second, over };

  Meeting(Collective what, Standing first_to_come, int members)
      : what_(what), standing_(first_to_come), all_(static_cast<std::size_t>(members)) {}

  const Collective& what() const { return what_; }
  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  // Only while stage() allows: everybody's operands are known then.
  const std::vector<Operands>& all() const { return all_; }
  Seconds began() const { return began_; }  // once complete: when the last one was ready

 private:
  friend class Hall;
  Collective what_;
  Standing standing_;
  std::vector<Operands> all_;
  std::vector<int> entered_;  // members, in the order in which they came
  Seconds began_ = 0;
  std::atomic<int> finished_{0};
  std::atomic<Stage> stage_{Stage::gathering};
};

class Hall : public Transport {
 public:
  explicit Hall(const Schedule& schedule);

  // Throws std::runtime_error where it is not the collective that others entered.
  std::shared_ptr<Attendance> enter(CommIndex comm, int rank, std::int64_t number,
                                    const Collective& what, Operands mine, const Standing& standing,
                                    Seconds ready) override;
  bool takes_its_own_time() const override { return false; }
  // The oldest collective that some have entered and others have not.
  std::string who_is_missing() override;

  // A rank has done its half; the last one opens the next stage.
  void finish_half(Meeting& meeting, CommIndex comm, int rank);

 private:
  struct Group {
    std::vector<int> ranks;
    std::int64_t first = 0;  // number of the front meeting
    std::deque<std::shared_ptr<Meeting>> meetings;
  };
  Group& group(CommIndex comm, int rank);
  int index_of(CommIndex comm, int rank) const;
  void wake(const Group& group);

  std::vector<std::vector<Group>> groups_;  // by communicator; their meetings under mutex_
  std::vector<std::vector<int>> group_of_;  // by communicator, rank
  std::vector<std::vector<int>> index_in_;  // by communicator, rank
};

}  // namespace stepcast::runtime
