// The page's section on perturbed ranks.

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/format.hpp"
#include "sim/report/perturbed.hpp"

namespace stepcast {

namespace {

constexpr std::size_t waits_shown = 1;

std::string waits_text(const PerturbedClass& row) {
  std::string text;
  for (std::size_t i = 0; i < std::min(waits_shown, row.waits.size()); ++i) {
    text += fmt::format("{}{} at {}", i == 0 ? "" : ", ", human_seconds(row.waits[i].seconds),
                        row.waits[i].op);
  }
  if (row.waits.size() > waits_shown) {
    text += fmt::format(", {} more", row.waits.size() - waits_shown);
  }
  return text;
}

std::string class_line(const PerturbedClass& row, bool torn_down) {
  std::string line = fmt::format("  {:<28}{:>7}", row.name, row.count);
  if (!row.stalled_at.empty()) {
    line += fmt::format("  stands at {} since {}, for {}", row.stalled_at,
                        human_seconds(row.stalled_since), fmt::join(row.stalled_for, ", "));
  } else if (!torn_down || row.waited > 0) {
    const std::string waited = row.waited > 0 ? human_seconds(row.waited) : "none";
    line += fmt::format("{:>12}  {}", waited, waits_text(row));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// "  ranks 24..31, a step: all_gather 10.3 ms longer, reduce_scatter 5.1 ms longer"
std::string slower_line(const PerturbedClass& row) {
  if (row.slower.empty()) return "";
  std::string text = fmt::format("  {}, a step:", row.name);
  for (std::size_t i = 0; i < row.slower.size(); ++i) {
    text += fmt::format("{} {} {} longer", i == 0 ? "" : ",", row.slower[i].op,
                        human_seconds(row.slower[i].seconds));
  }
  return text + "\n";
}

}  // namespace

std::string to_text(const PerturbedStep& step) {
  std::string text = fmt::format("perturbed: {} ({})\n", fmt::join(step.asked, ", "),
                                 step.once ? "this step only" : "every step");
  const bool images = step.tokens_per_second == 0;
  if (step.torn_down) {
    text += fmt::format(
        "  the step never ends: {} times out {:g} s after it was issued,\n"
        "  and the job ends {} after the step began\n",
        step.timed_out_at, step.timeout, human_seconds(step.ended_at));
  } else {
    text +=
        fmt::format("  step time {}, {} more: goodput {}, {} {}/s\n", human_seconds(step.step_time),
                    human_seconds(std::max(0.0, step.lost())), percent(step.goodput),
                    grouped(images ? step.samples_per_second : step.tokens_per_second),
                    images ? "images" : "tokens");
  }
  if (step.jitter) {
    text += fmt::format("  jitter {} persistent, {} a kernel: {} of it expected{}\n",
                        percent(step.jitter->persistent), percent(step.jitter->kernel),
                        human_seconds(step.jitter->expected),
                        step.jitter->drawn ? fmt::format(", {} in one draw of all ranks",
                                                         human_seconds(*step.jitter->drawn))
                                           : "");
  }
  const bool shows_waits = std::any_of(step.classes.begin(), step.classes.end(),
                                       [](const PerturbedClass& c) { return c.waited > 0; });
  text += fmt::format("  {:<28}{:>7}{}\n", "ranks", "GPUs",
                      shows_waits || !step.torn_down ? fmt::format("{:>12}  where", "wait") : "");
  constexpr std::size_t most_classes = 16;
  for (std::size_t i = 0; i < std::min(most_classes, step.classes.size()); ++i) {
    text += class_line(step.classes[i], step.torn_down);
  }
  for (std::size_t i = 0; i < std::min(most_classes, step.classes.size()); ++i) {
    text += slower_line(step.classes[i]);
  }
  if (step.classes.size() > most_classes) {
    text +=
        fmt::format("  {} more classes (--json has them)\n", step.classes.size() - most_classes);
  }
  return text;
}

}  // namespace stepcast
