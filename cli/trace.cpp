// stepcast trace: what a profiler's trace says about its steps; two of them beside each other.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "sim/interop/chakra.hpp"
#include "sim/report/format.hpp"
#include "sim/report/trace_report.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::vector<std::string> files;
  std::string here, there;
  std::string step;
  int device = -1;
  bool json = false;
};

TraceSummary read(const std::string& file, const Options& o) {
  TraceSummary s = summary_of_trace(file, {.device = o.device});
  if (o.step.empty()) return s;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    names.push_back(s.steps[i].name);
    if (s.steps[i].name == o.step || s.steps[i].name == "ProfilerStep#" + o.step) {
      s.typical = i;
      return s;
    }
  }
  if (names.size() > 12) names.resize(12);
  throw not_accepted({.file = "--step", .line = 0, .key = file}, o.step, names);
}

// A Chakra trace holds one step without times of its own: durations and what is sent.
std::string chakra_text(const std::string& file) {
  struct Row {
    int calls = 0;
    double us = 0;
  };
  double kernels = 0, host = 0;
  std::int64_t kernel_count = 0, host_count = 0;
  std::map<std::pair<std::string, Bytes>, Row> rows;
  for (const ChakraNode& node : read_chakra(read_file(file, 1ll << 30), file)) {
    if (node.collective) {
      Row& row = rows[{node.kind, node.bytes}];
      ++row.calls;
      row.us += node.duration_us;
    } else if (node.compute) {
      ++kernel_count;
      kernels += node.duration_us;
    } else {
      ++host_count;
      host += node.duration_us;
    }
  }
  std::string out = fmt::format(
      "{}: a Chakra execution trace\n  {} kernels and copies, {} in all\n  {} nodes of the host, "
      "{} "
      "in all\n",
      file, kernel_count, human_seconds(kernels * 1e-6), host_count, human_seconds(host * 1e-6));
  for (const auto& [key, row] : rows) {
    out += fmt::format("  {} {} of {} (a rank's input), {} each\n", row.calls, key.first,
                       human_bytes(static_cast<double>(key.second)),
                       human_seconds(row.us / row.calls * 1e-6));
  }
  return out;
}

int summary(const Options& o) {
  if (is_chakra_file(o.files.front())) {
    const bool more = o.files.size() > 1 || o.json || !o.step.empty() || o.device >= 0;
    if (more) {
      throw InputError({.file = o.files.front(), .line = 0, .key = ""},
                       "is a Chakra execution trace; accepted: it alone, without options");
    }
    print(chakra_text(o.files.front()));
    return 0;
  }
  std::vector<TraceSummary> ranks;
  std::set<std::string> seen;
  for (const std::string& file : o.files) {
    if (!seen.insert(file).second) {
      throw InputError({.file = file, .line = 0, .key = ""},
                       "is given twice; accepted: each rank's trace once");
    }
    ranks.push_back(read(file, o));
  }
  print(o.json ? to_json(ranks) : to_text(ranks));
  return 0;
}

int compare(const Options& o) {
  const TraceSummary here = read(o.here, o);
  const TraceSummary there = read(o.there, o);
  const TraceComparison c = compare_traces(here, there);
  print(o.json ? to_json(c, here, there) : to_text(c, here, there));
  return 0;
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  const auto shared = [&](CLI::App& verb) {
    verb.allow_extras();
    verb.add_option("--step", o->step, "the step to look at (default: the one of median length)")
        ->option_text("NAME|N");
    verb.add_option("--device", o->device, "whose kernels, where a trace has several devices")
        ->option_text("N")
        ->check(CLI::Range(0, 1'000'000));
    verb.add_flag("--json", o->json, "print JSON");
  };
  CLI::App* summary_verb = command.add_subcommand(
      "summary", "where each step's time goes; what is sent, and what of it is not hidden");
  summary_verb
      ->add_option("files", o->files,
                   "traces of PyTorch's profiler, JSON or gzip, a file a rank; or a Chakra trace")
      ->required()
      ->option_text("FILE...");
  shared(*summary_verb);
  CLI::App* compare_verb =
      command.add_subcommand("compare", "which part of a step is longer, where schedules differ");
  compare_verb->add_option("here", o->here, "a trace, as `simulate --trace` writes it")
      ->required()
      ->option_text("FILE");
  compare_verb->add_option("there", o->there, "another one, as PyTorch's profiler wrote it")
      ->required()
      ->option_text("FILE");
  shared(*compare_verb);
  return [o, summary_verb, compare_verb] {
    if (summary_verb->parsed()) return summary(*o);
    if (compare_verb->parsed()) return compare(*o);
    throw InputError({"trace", 0, ""}, "no verb given; accepted: summary, compare");
  };
}

}  // namespace

const Command trace_command{"trace", "read profiler traces: where steps go, two beside each other",
                            "  stepcast trace summary rank*.json.gz\n"
                            "  stepcast simulate step.toml --trace simulated.json\n"
                            "  stepcast trace compare simulated.json rank0.json.gz",
                            add};

}  // namespace stepcast::cli
