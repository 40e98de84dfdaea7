#include "sim/schedule/problems.hpp"

#include <fmt/format.h>

#include <utility>

#include "sim/schedule/problems_parts.hpp"
#include "sim/schedule/text_names.hpp"

namespace stepcast {
namespace checks {

void Findings::add(std::string sentence) {
  if (!full() && seen_.insert(sentence).second) sentences_.push_back(std::move(sentence));
}

std::vector<std::string> Findings::take() {
  if (full()) sentences_.push_back(fmt::format("the check stopped at {} problems", most_));
  return std::move(sentences_);
}

const std::string& OpNamer::name(std::size_t role, std::size_t step, OpIndex op) {
  if (names_.empty()) {
    names_.resize(schedule_.roles.size());
    for (std::size_t r = 0; r < names_.size(); ++r) {
      names_[r].resize(schedule_.roles[r].steps.size());
    }
  }
  std::vector<std::string>& names = names_[role][step];
  if (names.empty()) names = op_names(schedule_, schedule_.roles[role].steps[step]);
  return names[static_cast<std::size_t>(op)];
}

std::string place(const Schedule& schedule, std::size_t role, std::size_t step) {
  const Role& r = schedule.roles[role];
  return fmt::format("{}/{}: ", r.name.str(), r.steps[step].name.str());
}

std::string shown(const Schedule& schedule, const View& view) {
  const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(view.buffer)];
  if (view.offset == 0 && view.bytes == buffer.bytes) return buffer.name.str();
  return fmt::format("{}[{}+{}]", buffer.name.str(), text::spelled_bytes(view.offset),
                     text::spelled_bytes(view.bytes));
}

}  // namespace checks

std::vector<std::string> problems(const Schedule& schedule) {
  constexpr std::size_t most = 100;
  checks::Findings findings(most);
  checks::check_form(schedule, findings);
  if (findings.empty()) {
    checks::check_collectives(schedule, findings);
    for (std::size_t role = 0; role < schedule.roles.size(); ++role) {
      checks::check_memory_order(schedule, role, findings);
    }
  }
  return findings.take();
}

}  // namespace stepcast
