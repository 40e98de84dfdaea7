// The page of `stepcast explain`.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/explain/explain.hpp"
#include "sim/forecast/command_line.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

constexpr std::size_t most_runs = 12;  // of the path; the middle is left out
constexpr std::size_t most_changes = 10;

std::string bound_words(const PathPart& part) {
  switch (part.bound) {
    case Bound::start: return "the step begins";
    case Bound::host: return part.kind == PathKind::host ? "" : "issued only then";
    case Bound::stream: return "its stream was free only then";
    case Bound::wait: return "waited for " + part.bound_by;
    case Bound::communicator: return "its communicator was free only after " + part.bound_by;
    case Bound::peer: return "other ranks came later";
  }
  return "";
}

// The stream, or where short parts of others are mixed in, those that make up most of it.
std::string streams_of(const PathRun& run) {
  std::vector<std::pair<std::string, Seconds>> streams(run.of.begin(), run.of.end());
  std::stable_sort(streams.begin(), streams.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [stream, seconds] : streams) {
    if (!text.empty() && seconds < 0.05 * run.seconds) break;
    text += text.empty() ? stream : ", " + stream;
  }
  return text.find(',') == std::string::npos ? text : "in turns " + text;
}

std::string run_words(const PathRun& run) {
  if (run.first.kind == PathKind::start) return "nothing holds it";
  std::string text = run.ops == 1 ? fmt::format("{}: {}", streams_of(run), run.first.op)
                                  : fmt::format("{}: {} ops, {} to {}", streams_of(run), run.ops,
                                                run.first.op, run.last.op);
  const std::string why = bound_words(run.first);
  return why.empty() ? text : text + "; " + why;
}

class Page {
 public:
  explicit Page(const Explanation& e) : e_(e), r_(e.report) {}

  std::string run() {
    head();
    int number = 0;
    for (const std::string& sentence : e_.sentences) {
      text_ += folded(fmt::format("{:>4}  ", ++number), sentence);
    }
    path();
    exposed();
    more();
    changes();
    return text_;
  }

 private:
  void head() {
    text_ += folded(
        "",
        fmt::format("{}, {} ({}){}, micro-batch {}{}, checkpointing {}, on {} GPU{}: {} x {}: {} a "
                    "step, {:.1f} {}/s, MFU {}",
                    r_.model, r_.strategy, r_.precision, layout_words(r_), r_.micro_batch,
                    r_.accumulation > 1 ? fmt::format(" x {} accumulated", r_.accumulation) : "",
                    r_.checkpointing, grouped(r_.gpus), r_.gpus == 1 ? "" : "s", r_.nodes,
                    r_.machine_name, human_seconds(r_.step_time), r_.samples_per_second,
                    r_.images ? "images" : "sequences", percent(r_.mfu)));
    text_ += "\n";
  }

  void path() {
    text_ += fmt::format("\ncritical path, {}\n", human_seconds(e_.path.period));
    std::map<std::string, std::pair<Seconds, int>> sums;
    for (const PathPart& part : e_.path.parts) {
      const std::string kind = part.kind == PathKind::collective
                                   ? std::string(to_string(part.collective))
                                   : std::string(to_string(part.kind));
      sums[kind].first += part.end - part.start;
      ++sums[kind].second;
    }
    std::vector<std::pair<std::string, std::pair<Seconds, int>>> rows(sums.begin(), sums.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
    for (const auto& [kind, sum] : rows) {
      if (sum.first < 0.0005 * e_.path.period) continue;
      text_ +=
          fmt::format("  {:<16}{:>12}{:>9}{:>7} part{}\n", kind, human_seconds(sum.first),
                      percent(sum.first / e_.path.period), sum.second, sum.second == 1 ? "" : "s");
    }
    const std::vector<PathRun> runs = runs_of(e_.path, 0.002 * e_.path.period);
    text_ += fmt::format("{:>12}{:>12}  in time\n", "from", "for");
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs.size() > most_runs && i == most_runs / 2) {
        const std::size_t skipped = runs.size() - most_runs;
        Seconds seconds = 0;
        for (std::size_t k = i; k < i + skipped; ++k) seconds += runs[k].seconds;
        text_ += fmt::format("{:>12}{:>12}  {} more like these\n", "...", human_seconds(seconds),
                             skipped);
        i += skipped;
      }
      text_ += folded(fmt::format("{:>12}{:>12}  ", human_seconds(runs[i].first.start),
                                  human_seconds(runs[i].seconds)),
                      run_words(runs[i]));
    }
  }

  void exposed() {
    if (e_.exposed.empty()) return;
    text_ += fmt::format("\n{:<28}{:>12}{:>9}{:>8}{:>12}{:>10}  {}\n", "exposed, by cause", "time",
                         "of step", "calls", "middle one", "latency", "link");
    for (const ExposedCause& c : e_.exposed) {
      std::string name = c.cause;
      std::replace(name.begin(), name.end(), '_', ' ');
      std::string line = fmt::format("  {:<26}{:>12}{:>9}", name, human_seconds(c.seconds),
                                     percent(c.seconds / r_.step_time));
      if (c.calls > 0) {
        line += fmt::format("{:>8}{:>12}{:>10}  {}", c.calls, human_bytes(c.bytes),
                            percent(c.latency_part), c.link);
      }
      while (line.ends_with(' ')) line.pop_back();
      text_ += line + "\n";
    }
  }

  void more() {
    text_ += "\n10 % more of          would gain\n";
    for (const Sensitivity& s : e_.sensitivities) {
      if (s.gain < 0.0005) continue;
      text_ += fmt::format("  {:<18}{:>10}  {} a step\n", s.resource, percent(s.gain),
                           human_seconds(s.step));
    }
  }

  void changes() {
    text_ += fmt::format("\n{:<58}{:>11}{:>13}\n", "changes tried", "step", "throughput");
    std::size_t shown = 0, left = 0;
    for (std::size_t i = 0; i < e_.changes.size(); ++i) {
      const Change& c = e_.changes[i];
      if (!c.fits || shown == most_changes) {
        left += c.fits ? 1 : 0;
        continue;
      }
      ++shown;
      std::string note;
      if (c.changes_batch) note = "  other batch";
      if (c.changes_arithmetic) note += "  other arithmetic";
      text_ +=
          fmt::format("{} {:<56}{:>11}{:>13}{}\n", static_cast<int>(i) == e_.best ? '*' : ' ',
                      c.words, human_seconds(c.step), fmt::format("{:+.1f} %", 100 * c.gain), note);
    }
    std::string misfits;
    for (const Change& c : e_.changes) {
      if (!c.fits) misfits += (misfits.empty() ? "" : ", ") + c.words;
    }
    if (left > 0) text_ += fmt::format("  {} more that gain less\n", left);
    if (!misfits.empty()) text_ += folded("  does not fit: ", misfits);
    if (e_.best < 0) return;
    text_ += "\n" + command_of(e_.changes[static_cast<std::size_t>(e_.best)].scenario) + "\n";
  }

  const Explanation& e_;
  const Report& r_;
  std::string text_;
};

}  // namespace

std::string to_text(const Explanation& explanation) { return Page(explanation).run(); }

}  // namespace stepcast
