#pragma once
// The parts of problems(); each looks for one family of misuse. Private to the folder.

#include <string>
#include <unordered_set>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::checks {

// Collects sentences: each once, at most `most`; where that was reached, take() says so last.
class Findings {
 public:
  explicit Findings(std::size_t most) : most_(most) {}
  void add(std::string sentence);
  bool empty() const { return sentences_.empty(); }
  bool full() const { return sentences_.size() >= most_; }
  std::vector<std::string> take();

 private:
  std::size_t most_;
  std::vector<std::string> sentences_;
  std::unordered_set<std::string> seen_;
};

// Names for sentences, made when the first is needed.
class OpNamer {
 public:
  explicit OpNamer(const Schedule& schedule) : schedule_(schedule) {}
  const std::string& name(std::size_t role, std::size_t step, OpIndex op);

 private:
  const Schedule& schedule_;
  std::vector<std::vector<std::vector<std::string>>> names_;
};

// "ROLE/STEP: " of an op.
std::string place(const Schedule& schedule, std::size_t role, std::size_t step);
std::string shown(const Schedule& schedule, const View& view);  // "full", "full[1MiB+1KiB]"

// Every index within its list, every view within its buffer, every wait on something earlier; roles
// and steps well formed. The other parts rely on it and run only where it found nothing.
void check_form(const Schedule& schedule, Findings& findings);
// Every rank of a communicator issues the same collectives in the same order.
void check_collectives(const Schedule& schedule, Findings& findings);
// Lifetimes of buffers, reads of what nothing wrote, and races, for one role.
void check_memory_order(const Schedule& schedule, std::size_t role, Findings& findings);

}  // namespace stepcast::checks
