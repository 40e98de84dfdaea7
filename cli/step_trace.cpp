#include "cli/step_trace.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "sim/interop/chakra.hpp"
#include "sim/interop/gzip_stream.hpp"
#include "sim/kernels/measured_kernels.hpp"

namespace stepcast::cli {

namespace {

constexpr int most_files = 1024;

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

InputError bad_ranks(const std::string& text) {
  return InputError(flag("--trace-ranks"),
                    fmt::format("'{}' is not accepted; accepted: all, or ranks with commas and "
                                "dashes, as 0,8-15",
                                text.substr(0, 80)));
}

// "0,8-15"; -1 for the end of nothing.
std::vector<int> parse_rank_list(const std::string& text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto number = [&] {
    int value = -1;
    const std::from_chars_result read = std::from_chars(at, end, value);
    if (read.ec != std::errc{} || value < 0) throw bad_ranks(text);
    at = read.ptr;
    return value;
  };
  while (true) {
    const int first = number();
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first || last - first >= most_files) throw bad_ranks(text);
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
    if (ranks.size() > most_files) {
      throw InputError(flag("--trace-ranks"), fmt::format("names {} ranks or more; accepted: {}",
                                                          ranks.size(), most_files));
    }
    if (at == end) return ranks;
    if (*at != ',') throw bad_ranks(text);
    ++at;
  }
}

std::vector<int> ranks_of(const std::string& text, int world) {
  std::vector<int> ranks;
  if (text != "all") {
    ranks = parse_rank_list(text);
  } else if (world > most_files) {
    throw InputError(
        flag("--trace-ranks"),
        fmt::format("all are {} files; accepted: up to {}, as 0,8-15", world, most_files));
  } else {
    for (int rank = 0; rank < world; ++rank) ranks.push_back(rank);
  }
  for (const int rank : ranks) {
    if (rank < world) continue;
    throw InputError(flag("--trace-ranks"),
                     fmt::format("{} is no rank; accepted: 0 to {}", rank, world - 1));
  }
  return ranks;
}

// "step.json" -> "step.rank7.json", "step.json.gz" -> "step.rank7.json.gz"
std::string of_rank(const std::string& file, int rank) {
  const std::filesystem::path path(file);
  std::string name = path.filename().string(), ending;
  for (const char* each : {".json.gz", ".json", ".gz"}) {
    if (!name.ends_with(each)) continue;
    ending = each;
    name.resize(name.size() - ending.size());
    break;
  }
  return (path.parent_path() / fmt::format("{}.rank{}{}", name, rank, ending)).string();
}

void put(const std::string& file, const std::string& text) {
  write_file(file, file.ends_with(".gz") ? gzipped(text) : text);
}

void must_be_writable(const char* option, const std::string& file) {
  std::error_code error;
  const std::filesystem::path path(file);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, error)) {
    throw InputError(flag(option), fmt::format("'{}' lies in a folder that is not there; accepted: "
                                               "a file to write",
                                               file.substr(0, 200)));
  }
}

// Nodes and groups of every rank, ASTRA-sim's way: PREFIX.RANK.et and PREFIX.groups.json.
void write_chakra(const std::string& prefix, const Schedule& schedule, const CostTable& costs,
                  int program) {
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    ChakraTimes times;
    const std::vector<Op>& ops = role.steps[static_cast<std::size_t>(program)].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const bool costs_something = costs.cost_of[r][static_cast<std::size_t>(program)][i] >= 0;
      const OpCost cost = costs_something
                              ? costs.cost(static_cast<int>(r), program, static_cast<OpIndex>(i))
                              : OpCost{};
      times.device.push_back(cost.solo);
      times.host.push_back(cost.host);
    }
    for (int i = 0; i < role.rank_count; ++i) {
      const int rank = static_cast<int>(role.rank(i));
      write_file(fmt::format("{}.{}.et", prefix, rank),
                 to_chakra(schedule, static_cast<int>(r), program, rank, times));
    }
  }
  write_file(prefix + ".groups.json", chakra_groups(schedule));
}

}  // namespace

void add_to(CLI::App& command, StepTrace& trace) {
  command
      .add_option(
          "--trace", trace.file,
          "write a trace as PyTorch's profiler does (Perfetto, HTA); gzip if it ends in .gz")
      ->option_text("FILE")
      ->group("Output");
  command
      .add_option("--trace-ranks", trace.ranks,
                  "with --trace: a file a rank, FILE.rank0.json, ...: all, or as 0,8-15")
      ->option_text("RANKS")
      ->group("Output");
  command
      .add_option("--chakra", trace.chakra,
                  "write Chakra execution traces for other simulators: PREFIX.RANK.et")
      ->option_text("PREFIX")
      ->group("Output");
}

void check(const StepTrace& trace) {
  if (!trace.ranks.empty() && trace.file.empty()) {
    throw InputError(flag("--trace-ranks"), "needs --trace: it says for which ranks");
  }
  if (!trace.ranks.empty() && trace.ranks != "all") parse_rank_list(trace.ranks);
  if (!trace.file.empty()) must_be_writable("--trace", trace.file);
  if (!trace.chakra.empty()) must_be_writable("--chakra", trace.chakra);
}

TraceOptions trace_options(const Forecast& f) {
  const Cluster& cluster = f.resolved.cluster;
  const Gpu& gpu = cluster.machine.gpu;
  TraceOptions options;
  options.gpu = gpu.full_name;
  options.gpu_memory = gpu.memory_bytes;
  options.compute_capability = gpu.compute_capability;
  options.sm_count = gpu.sm_count;
  options.gpus_per_node = cluster.gpus_per_node;
  options.nccl_version = f.report.nccl_version;
  const MeasuredDevice& device = f.resolved.device;
  const auto kernels = std::make_shared<CalibratedKernels>(
      KernelModel(gpu, f.resolved.profile), device.kernels ? *device.kernels : MeasuredKernels{});
  options.kernel_seconds = [kernels](const Kernel& kernel) {
    return kernels->cost(kernel).seconds;
  };
  return options;
}

void write(const StepTrace& trace, const Forecast& f) {
  const Schedule& schedule = f.perturbed ? f.perturbed->schedule : f.schedule;
  const CostTable& costs = f.perturbed ? f.perturbed->costs : f.costs;
  const Timeline& timeline = f.perturbed ? *f.perturbed->timeline : f.timeline;
  const int world = schedule.mesh.world_size();
  if (!trace.file.empty()) {
    TraceOptions options = trace_options(f);
    if (!f.perturbed) options.memory = &f.memory;
    if (trace.ranks.empty()) put(trace.file, to_trace(schedule, costs, timeline, options));
    const std::vector<int> ranks =
        trace.ranks.empty() ? std::vector<int>{} : ranks_of(trace.ranks, world);
    for (const int rank : ranks) {
      options.rank = rank;
      put(of_rank(trace.file, rank), to_trace(schedule, costs, timeline, options));
    }
    note(ranks.empty() ? fmt::format("trace written to {}", trace.file)
         : ranks.size() == 1
             ? fmt::format("trace written to {}", of_rank(trace.file, ranks.front()))
             : fmt::format("{} traces written, {} to {}", ranks.size(),
                           of_rank(trace.file, ranks.front()), of_rank(trace.file, ranks.back())));
  }
  if (trace.chakra.empty()) return;
  if (world > most_files) {
    throw InputError(flag("--chakra"), fmt::format("writes a file a rank, {} here; accepted: up to "
                                                   "{} GPUs",
                                                   world, most_files));
  }
  write_chakra(trace.chakra, schedule, costs, timeline.steps.back().program_index);
  note(fmt::format("{} Chakra traces written to {}.*.et", world, trace.chakra));
}

}  // namespace stepcast::cli
