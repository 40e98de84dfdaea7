#include "sim/report/trace_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

std::string ms(double us) { return grouped(us / 1e3, 2); }

// One line whatever the file was called or says.
std::string plain(const std::string& text, std::size_t most) {
  std::string out = text.size() > most ? text.substr(0, most - 3) + "..." : text;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return out;
}

// A file by its path where that is short, else by its name, of which the end says most.
std::string shown(const std::string& file, std::size_t most) {
  if (file.size() <= most) return plain(file, most);
  const std::string name = file.substr(file.rfind('/') + 1);
  if (name.size() <= most) return plain(name, most);
  return "..." + plain(name.substr(name.size() - (most - 3)), most);
}

std::string head(const TraceSummary& s) {
  std::string out = shown(s.file, 60) + ":";
  if (s.info.rank) out += fmt::format(" rank {}", *s.info.rank);
  if (s.info.world_size) out += fmt::format(" of {}", *s.info.world_size);
  if (s.info.rank || s.info.world_size) out += ',';
  if (!s.info.devices.empty()) {
    out += fmt::format(" {} x {},", s.info.devices.size(), plain(s.info.devices.front().name, 40));
  }
  if (!s.info.nccl_version.empty()) out += fmt::format(" NCCL {},", plain(s.info.nccl_version, 20));
  return out + fmt::format(" {} events\n", grouped(static_cast<double>(s.info.events)));
}

void add_steps(std::string& out, const TraceSummary& s) {
  out += fmt::format("\n{:<24}{:>11}{:>11}{:>11}{:>10}{:>10}{:>13}{:>9}\n", "step, ms", "length",
                     "compute", "exposed", "host", "idle", "collectives", "hidden");
  constexpr std::size_t most = 16;
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    if (i >= most && i != s.typical) continue;
    const TraceStep& step = s.steps[i];
    const std::string hidden =
        step.collective_us > 0 ? fmt::format("{:.0f} %", 100 * step.hidden_us / step.collective_us)
                               : "";
    out += fmt::format("{:<24}{:>11}{:>11}{:>11}{:>10}{:>10}{:>13}{:>9}\n",
                       plain(step.name, 22) + (i == s.typical && s.steps.size() > 1 ? " *" : ""),
                       ms(step.length_us()), ms(step.compute_us()), ms(step.exposed_us()),
                       ms(step.host_us), ms(step.idle_us), ms(step.collective_us), hidden);
  }
  if (s.steps.size() > most) {
    out += fmt::format("{} more steps\n", s.steps.size() - most - (s.typical >= most ? 1 : 0));
  }
}

void add_split(std::string& out, const TraceSummary& s) {
  const TraceStep& step = s.steps[s.typical];
  out += fmt::format("\nwhere {} goes (stream {})\n", plain(step.name, 40), s.main_stream);
  std::vector<std::pair<std::string, double>> rows;
  for (int c = 0; c < kernel_classes; ++c) {
    rows.emplace_back(to_string(static_cast<KernelClass>(c)),
                      step.class_us[static_cast<std::size_t>(c)]);
  }
  for (const auto& [kind, us] : step.exposed_by_kind_us) rows.emplace_back("exposed: " + kind, us);
  rows.emplace_back("host", step.host_us);
  rows.emplace_back("idle", step.idle_us);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const double length = step.length_us();
  for (const auto& [name, us] : rows) {
    if (us <= 0) continue;
    out += fmt::format("  {:<34}{:>12} ms{:>8.1f} %\n", name, ms(us), 100 * us / length);
  }
}

struct Row {
  int calls = 0;
  double us = 0, shortest = 0;
};
using RowKey = std::tuple<std::string, std::string, int, Bytes>;

std::map<RowKey, Row> rows_of(const TraceStep& step) {
  std::map<RowKey, Row> rows;
  for (const TraceCall& call : step.calls) {
    Row& row = rows[{call.kind, call.dtype, call.ranks, call.bytes}];
    row.shortest = row.calls == 0 ? call.us : std::min(row.shortest, call.us);
    ++row.calls;
    row.us += call.us;
  }
  return rows;
}

// nccl-tests' bus bandwidth in GB/s; 0: not defined, or not known.
double busbw(const RowKey& key, double us) {
  const auto& [kind, dtype, ranks, bytes] = key;
  if (ranks < 2 || bytes <= 0 || us <= 0) return 0;
  const double n = ranks;
  const double factor = kind == "all_reduce"                               ? 2 * (n - 1) / n
                        : kind == "all_gather" || kind == "reduce_scatter" ? (n - 1) / n
                                                                           : 1;
  return factor * static_cast<double>(bytes) / us * 1e-3;
}

void add_collectives(std::string& out, const TraceSummary& s) {
  const std::map<RowKey, Row> rows = rows_of(s.steps[s.typical]);
  if (rows.empty()) {
    out += "\nno collectives\n";
    return;
  }
  std::vector<std::pair<RowKey, Row>> order(rows.begin(), rows.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  out += fmt::format("\n{:<26}{:>7}{:>7}{:>11}{:>14}{:>14}{:>15}\n", "collectives of that step",
                     "ranks", "calls", "size", "mean", "shortest", "busbw, mean");
  constexpr std::size_t most = 24;
  for (std::size_t i = 0; i < order.size() && i < most; ++i) {
    const auto& [key, row] = order[i];
    const auto& [kind, dtype, ranks, bytes] = key;
    const double mean = row.us / row.calls;
    const double rate = busbw(key, mean);
    out += fmt::format("  {:<24}{:>7}{:>7}{:>11}{:>14}{:>14}{:>15}\n", kind + " " + dtype,
                       ranks > 0 ? std::to_string(ranks) : "?", row.calls,
                       bytes > 0 ? human_bytes(static_cast<double>(bytes)) : "?",
                       human_seconds(mean * 1e-6), human_seconds(row.shortest * 1e-6),
                       rate > 0 ? fmt::format("{:.1f} GB/s", rate) : "");
  }
  if (order.size() > most) out += fmt::format("  {} more sizes\n", order.size() - most);
}

void add_kernels(std::string& out, const TraceSummary& s) {
  out +=
      "\nlongest kernels, all steps                                              calls          "
      "ms\n";
  for (std::size_t i = 0; i < s.kernels.size() && i < 8; ++i) {
    out += fmt::format("  {:<66}{:>9}{:>12}\n", plain(s.kernels[i].name, 64), s.kernels[i].calls,
                       ms(s.kernels[i].us));
  }
}

void add_ranks(std::string& out, const std::vector<TraceSummary>& ranks) {
  const std::string& name = ranks.front().steps[ranks.front().typical].name;
  const std::vector<double> waited = waited_for_others_us(ranks);
  out += fmt::format("\n{:<30}{:>11}{:>11}{:>11}{:>10}{:>10}{:>20}\n", plain(name, 22) + ", ms",
                     "length", "compute", "exposed", "host", "idle", "waited in others'");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const TraceSummary& s = ranks[i];
    const auto same = std::find_if(s.steps.begin(), s.steps.end(),
                                   [&](const TraceStep& step) { return step.name == name; });
    const std::string label =
        s.info.rank ? fmt::format("rank {}", *s.info.rank) : shown(s.file, 28);
    if (same == s.steps.end()) {
      out += fmt::format("{:<30}has no such step\n", label);
      continue;
    }
    out += fmt::format("{:<30}{:>11}{:>11}{:>11}{:>10}{:>10}{:>20}\n", label, ms(same->length_us()),
                       ms(same->compute_us()), ms(same->exposed_us()), ms(same->host_us),
                       ms(same->idle_us), waited.empty() ? "?" : ms(waited[i]));
  }
  if (waited.empty()) {
    out += "the ranks' collectives are not the same ones: who waited for whom is not known\n";
  } else {
    const auto least =
        static_cast<std::size_t>(std::min_element(waited.begin(), waited.end()) - waited.begin());
    const TraceSummary& s = ranks[least];
    out += fmt::format("the others wait for {}: its collectives are the shortest\n",
                       s.info.rank ? fmt::format("rank {}", *s.info.rank) : shown(s.file, 60));
  }
}

std::string percent_more(double a, double b) {
  return a > 0 ? fmt::format("{:+.1f} %", 100 * (b / a - 1)) : "";
}

std::string more(double a, double b) {
  constexpr double printed = 5;  // microseconds: 0.00 ms below it
  if (a < printed && b < printed) return "";
  if (a < printed) return "only there";
  if (b < printed) return "only here";
  return percent_more(a, b);
}

std::string calls_text(const std::vector<TraceCall>& calls) {
  if (calls.empty()) return "none";
  std::vector<std::pair<std::string, int>> runs;
  for (const TraceCall& call : calls) {
    const std::string size =
        call.bytes > 0 ? human_bytes(static_cast<double>(call.bytes)) : "unknown size";
    if (runs.empty() || runs.back().first != size) runs.emplace_back(size, 0);
    ++runs.back().second;
  }
  std::string out;
  for (std::size_t i = 0; i < runs.size() && i < 4; ++i) {
    out += fmt::format("{}{} of {}", i == 0 ? "" : ", ", runs[i].second, runs[i].first);
  }
  if (runs.size() > 4) out += fmt::format(" and {} more sizes", runs.size() - 4);
  return out;
}

void add_schedules(std::string& out, const TraceComparison& c) {
  if (!c.sizes) {
    out += "\none of the traces says no sizes: collectives are compared by kind alone\n";
  }
  if (c.differences.empty() && c.uncompared.empty()) {
    out += "\nboth issue the same collectives, kind by kind in the same order\n";
    return;
  }
  out += "\nwhere the schedules differ\n";
  constexpr std::size_t most = 12;
  for (std::size_t i = 0; i < c.differences.size() && i < most; ++i) {
    const TraceComparison::Difference& d = c.differences[i];
    out += fmt::format("  {} after {} in common: here {}, there {}\n", d.kind, d.after,
                       calls_text(d.only_a), calls_text(d.only_b));
  }
  if (c.differences.size() > most) {
    out += fmt::format("  {} more places\n", c.differences.size() - most);
  }
  for (const std::string& kind : c.uncompared) {
    out += fmt::format("  {}: thousands of calls differ; not aligned\n", kind);
  }
}

}  // namespace

std::string to_text(const std::vector<TraceSummary>& ranks) {
  STEPCAST_ASSERT(!ranks.empty(), "a summary of no trace");
  const TraceSummary& first = ranks.front();
  std::string out = head(first);
  if (first.devices.size() > 1) {
    out += fmt::format("kernels of {} devices; this is device {} (--device)\n",
                       first.devices.size(), first.device);
  }
  if (ranks.size() > 1) add_ranks(out, ranks);
  if (ranks.size() > 1) out += fmt::format("\n{} in detail\n", shown(first.file, 60));
  add_steps(out, first);
  if (first.steps.size() > 1) {
    out += "* of median length among all but the first; the figures below are its own\n";
  }
  add_split(out, first);
  add_collectives(out, first);
  add_kernels(out, first);
  for (const std::string& note : first.notes) out += "\n" + folded("note: ", note);
  return out;
}

std::string to_text(const TraceComparison& c, const TraceSummary& a, const TraceSummary& b) {
  std::string out = "here:  " + head(a) + "there: " + head(b);
  out += fmt::format("\n{:<34}{:>13}{:>13}{:>13}{:>14}\n", "one step, ms", "here", "there",
                     "there - here", "");
  const auto line = [&](const std::string& name, double x, double y) {
    out +=
        fmt::format("{:<34}{:>13}{:>13}{:>13}{:>14}\n", name, ms(x), ms(y), ms(y - x), more(x, y));
  };
  line("step", c.step_a_us, c.step_b_us);
  for (const TraceComparison::Part& part : c.parts) line("  " + part.name, part.a_us, part.b_us);
  if (!c.parts.empty() && std::abs(c.step_b_us - c.step_a_us) > 0) {
    const TraceComparison::Part& largest = c.parts.front();
    out += fmt::format("\nthe largest difference is {}: {} ms of {} ms\n", largest.name,
                       ms(largest.b_us - largest.a_us), ms(c.step_b_us - c.step_a_us));
  }
  if (!c.collectives.empty()) {
    out += fmt::format("\n{:<26}{:>6}{:>11}{:>9}{:>9}{:>13}{:>13}{:>12}\n", "collectives", "ranks",
                       "size", "calls", "there", "mean", "there", "");
  }
  constexpr std::size_t most = 24;
  for (std::size_t i = 0; i < c.collectives.size() && i < most; ++i) {
    const TraceComparison::Collective& r = c.collectives[i];
    const auto mean = [](int calls, double us) {
      return calls > 0 ? human_seconds(us * 1e-6) : std::string("-");
    };
    out += fmt::format("  {:<24}{:>6}{:>11}{:>9}{:>9}{:>13}{:>13}{:>12}\n", r.kind + " " + r.dtype,
                       r.ranks > 0 ? std::to_string(r.ranks) : "?",
                       r.bytes > 0 ? human_bytes(static_cast<double>(r.bytes)) : "?", r.calls_a,
                       r.calls_b, mean(r.calls_a, r.mean_a_us), mean(r.calls_b, r.mean_b_us),
                       r.calls_a == 0   ? "only there"
                       : r.calls_b == 0 ? "only here"
                                        : percent_more(r.mean_a_us, r.mean_b_us));
  }
  if (c.collectives.size() > most) {
    out += fmt::format("  {} more sizes\n", c.collectives.size() - most);
  }
  add_schedules(out, c);
  return out;
}

}  // namespace stepcast
