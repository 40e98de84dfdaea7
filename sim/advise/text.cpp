#include <fmt/format.h>

#include <algorithm>

#include "sim/advise/advise.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

std::string candidates(const Advice& advice) {
  std::string text =
      fmt::format("{:<14}{:>14}{:>14}{:>13}{:>15}  {:<4}{:>11}{:>11}\n", "at its peak", "all",
                  "states", "activations", "communication", "fits", "step", "exposed");
  for (const Candidate& c : advice.candidates) {
    text += fmt::format("{:<14}{:>14}{:>14}{:>13}{:>15}  {:<4}", c.name, human_gib(c.peak),
                        human_gib(c.state), human_gib(c.activations), human_gib(c.communication),
                        c.fits() ? "yes" : "no");
    if (c.fits()) {
      text += fmt::format("{:>11}{:>11}", human_seconds(c.step_time), human_seconds(c.exposed));
    }
    while (text.ends_with(' ')) text.pop_back();
    text += "\n";
  }
  return text;
}

std::string largest(const Advice& advice) {
  if (advice.largest.empty()) return "";
  std::string text = fmt::format("\n{:<34}{:>13}{:>9}{:>22}\n", "largest model of this kind here",
                                 "parameters", "layers", "by its states alone");
  for (const LargestModel& m : advice.largest) {
    const std::string parameters =
        m.parameters == 0 ? "none" : human_count(static_cast<double>(m.parameters));
    text +=
        fmt::format("  {:<32}{:>13}{:>9}{:>22}\n", m.strategy, (m.beyond ? "> " : "") + parameters,
                    m.layers, human_count(m.by_states_alone));
  }
  return text;
}

// "tail_all_reduce" as the forecast page writes it.
std::string words(std::string cause) {
  std::replace(cause.begin(), cause.end(), '_', ' ');
  return cause;
}

std::string scaling(const Advice& advice) {
  if (!advice.scaling) return "";
  const ScalingLimit& s = *advice.scaling;
  std::string text = "\n";
  if (!s.found) {
    return text +
           folded("", fmt::format("To {} GPUs, an added node brings at least half of its share "
                                  "of the throughput.",
                                  grouped(s.points.back().gpus)));
  }
  return text + folded("", fmt::format(
                               "From {} GPUs ({} nodes) on, an added node brings less than half of "
                               "its share of the throughput: {} grew by {} a step since {} "
                               "nodes{}.",
                               grouped(s.limit.gpus), grouped(s.limit.nodes), words(s.cause),
                               human_seconds(s.grew), s.points.front().nodes,
                               reason(s).empty() ? "" : " (" + reason(s) + ")"));
}

}  // namespace

std::string to_text(const Advice& a) {
  std::string text;
  text +=
      folded("", fmt::format("{}: {} parameters, micro-batch {}, checkpointing {}, on {} GPU{}: {} "
                             "x {} ({}, {})",
                             a.model, human_count(static_cast<double>(a.parameters)), a.micro_batch,
                             a.checkpointing, a.gpus, a.gpus == 1 ? "" : "s", a.nodes, a.machine,
                             a.gpu, human_gib(a.capacity)));
  text += "\n" + folded("advice  ", a.answer) + "\n";
  int number = 0;
  for (const std::string& reason : a.reasons) {
    text += folded(fmt::format("{:>4}  ", ++number), reason);
  }
  if (!a.remark.empty()) text += folded("      ", a.remark);
  text += "\n" + candidates(a);
  text +=
      folded("", fmt::format("rule of thumb: 16 bytes a parameter x 1.2 to 1.5, here {} to {}; the "
                             "replay of DDP says x {:.2f}.",
                             human_gib(a.rule_low), human_gib(a.rule_high), a.real_factor));
  text += largest(a);
  text += scaling(a);
  if (!a.command.empty()) text += "\n" + a.command + "\n";
  return text;
}

}  // namespace stepcast
