#pragma once
// Ranks that are processes: this one's side of a run over a Wire.
//
// Each communicator has a thread of its own that carries out its collectives in order, so that
// communication goes on while the rank issues and waits:
//
//   rank's thread          enter -> queue of the communicator ... rings when all are there, when
//   over communicator's thread  tell every member that I am here; hear it from every member; ring
//   control's thread       questions and answers, failures, the order to end
//
// The words at the beginning (`Arrival`, 48 bytes to each member) cost one way of the wire. For
// them every rank knows who has entered what, so ranks that enter different collectives are told
// which, and a hang names who is missing, not just the neighbour in the ring.
//
// When a rank has not gone on for as long as the watchdog allows, it asks all others. Who does not
// answer is stopped, gone or cut off, and the run ends: the rank tells the others why. When all
// answer, it waits until nobody has gone on for so long. A dead rank's peers are ended by mpirun
// with SIGTERM: the control thread sees `end_now`, asks around, and the rank ends with a message
// that names the collective and who is missing.
//
// Tested by tests/unit/runtime/peers_test.cpp, and under mpirun by tests/mpi.

#include <condition_variable>
#include <deque>
#include <map>
#include <optional>
#include <thread>

#include "runtime/cpu/transport.hpp"
#include "runtime/cpu/wire.hpp"
#include "runtime/cpu/wire_ring.hpp"

namespace stepcast::runtime {

class Peers : public Transport {
 public:
  // `end_now`, where it is not null, is set by whoever wants the run to end.
  Peers(const Schedule& schedule, Wire& wire, Seconds watchdog, const std::atomic<bool>* end_now);
  ~Peers() override;

  void start() override;  // when all ranks have come here
  std::shared_ptr<Attendance> enter(CommIndex comm, int rank, std::int64_t number,
                                    const Collective& what, Operands mine, const Standing& standing,
                                    Seconds ready) override;
  bool takes_its_own_time() const override { return true; }
  // Empty where all others answer and one of them went on lately: wait longer.
  std::string who_is_missing() override;
  void fail(const std::string& message) override;  // the others hear of it

  // The rank is through. Its bytes go to rank 0, which gets everybody's (the others nothing), and
  // nobody returns before all have come here. False where the run has failed.
  bool settle(const std::vector<std::byte>& mine, std::vector<std::vector<std::byte>>& all);

 private:
  class Part;   // in one collective
  struct Line;  // one communicator
  enum class Word : std::uint8_t { question, answer, failure };
  struct Letter {
    int to = 0;
    std::vector<std::byte> text;
    std::optional<Wire::Request> request;
  };
  struct Answer {
    Seconds age = 0;  // seconds since the rank went on
    std::string stands;
  };

  static constexpr Seconds patience = 1.0;  // for answers, of a rank that is there

  void work_on(Line& line);
  void carry_out(Line& line, Part& part);
  void pause(int turn);
  void control_loop();
  void pump();  // letters out, letters in
  void read_letter(int from, const std::vector<std::byte>& text);
  void post(int to, Word word, const std::string& text);
  void ask_everybody(Seconds patience, bool from_control);
  std::string described();
  bool watched_pause(int turn);

  Wire& wire_;
  Seconds watchdog_;
  const std::atomic<bool>* end_now_;
  std::vector<std::unique_ptr<Line>> lines_;  // by communicator
  std::atomic<bool> stop_{false};
  std::thread control_;
  std::deque<Letter> letters_;     // under mutex_
  std::map<int, Answer> answers_;  // of the last question, under mutex_
  Seconds asked_last_ = 0;         // after the end of this rank
};

}  // namespace stepcast::runtime
