// From what nccl-tests printed (nccl_tests_text.cpp, nccl_tests_json.cpp) to measured times.
//
// The operation is said by the start line, the command line or the JSON's arguments; else the rows
// tell, or the file's name where the rows allow it; the ranks by the device lines, else by
// the ratio of busbw and algbw (all-reduce 2(n-1)/n: 1.875 is 16 ranks) or of size and count
// (all-gather: size = n * count * element). How many nodes is said by the hosts of the device lines
// alone.
// What a row says of both: nccl_tests_rows.cpp.

#include "sim/collectives/nccl_tests_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/letters.hpp"
#include "sim/collectives/nccl_tests_runs.hpp"

namespace stepcast {
namespace nccl_tests {
namespace {

// "All-Reduce_8.log": "allreduce8.log"
std::string squash(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != '-' && c != '_' && c != ' ') out += lower(c);
  }
  return out;
}

}  // namespace

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"all_reduce", "allreduce", true, CollectiveKind::all_reduce},
      {"all_gather", "allgather", true, CollectiveKind::all_gather},
      {"reduce_scatter", "reducescatter", true, CollectiveKind::reduce_scatter},
      {"broadcast", "bcast", true, CollectiveKind::broadcast},
      {"alltoall", "all2all", false, CollectiveKind::all_gather},
      {"sendrecv", "send_recv", false, CollectiveKind::all_gather},
      {"scatter", "scatter", false, CollectiveKind::scatter},
      {"gather", "gather", false, CollectiveKind::gather},
      {"hypercube", "hypercube", false, CollectiveKind::all_gather},
      {"reduce", "reduce", true, CollectiveKind::reduce}};  // last: part of other names
  return all;
}

const Operation* program_in(const std::string& text) {
  if (text.find("_perf") == std::string::npos) return nullptr;
  for (const Operation& op : operations()) {
    for (const char* name : {op.name, op.squashed}) {
      if (text.find(std::string(name) + "_perf") != std::string::npos) return &op;
    }
  }
  return nullptr;
}

const Operation* operation_named(const std::string& text) {
  const std::string squashed = squash(text);
  for (const Operation& op : operations()) {
    if (squashed.find(squash(op.name)) != std::string::npos) return &op;
    if (squashed.find(squash(op.squashed)) != std::string::npos) return &op;
  }
  return nullptr;
}

int element_bytes(const std::string& type) {
  static const std::map<std::string, int> sizes = {
      {"int8", 1},      {"uint8", 1},   {"char", 1},     {"int32", 4},    {"uint32", 4},
      {"int", 4},       {"int64", 8},   {"uint64", 8},   {"half", 2},     {"float16", 2},
      {"float", 4},     {"float32", 4}, {"double", 8},   {"float64", 8},  {"bfloat16", 2},
      {"f8e4m3", 1},    {"f8e5m2", 1},  {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"float8e4m3", 1},
      {"float8e5m2", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

std::string version_text(int number) {
  if (number >= 10000) {
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }
  if (number < 1000) return "";
  return fmt::format("{}.{}.{}", number / 1000, number / 100 % 10, number % 100);  // to 2.8
}

namespace {

double usable(double time_us) { return time_us > 0 && time_us < 1e12 ? time_us : 0; }

class Meaning {
 public:
  Meaning(const std::string& file, const NcclTestsHints& hints, bool one_of_several)
      : file_(file), hints_(hints), several_(one_of_several) {}

  // Why a test is of no use although all about it is known; "": it is.
  std::string useless(const Run& run) {
    line_ = several_ ? run.line : 0;
    log_ = NcclTestsLog{};
    log_.file = file_;
    const Operation& operation = operation_of(run);
    if (!operation.modelled) {
      return fmt::format(
          "measures {}, which no data-parallel strategy uses and stepcast does not model",
          operation.name);
    }
    log_.op = operation.kind;
    set_ranks(run);
    return log_.ranks == 1 ? "measures one rank: nothing is communicated" : "";
  }

  // Behind the last test: what was given of several tests must fit one of them at least.
  void check_given() const {
    if (!several_) return;
    if (!hints_.op.empty() && !op_fits_) {
      throw against("--log-op", hints_.op, fmt::format("has tests of {}", joined(ops_)));
    }
    if (hints_.ranks > 0 && !ranks_fit_) {
      throw against("--log-ranks", std::to_string(hints_.ranks),
                    fmt::format("has tests of {} ranks", joined(ranks_)));
    }
    if (hints_.nodes > 0 && !nodes_.empty() && !nodes_fit_) {
      throw against("--log-nodes", std::to_string(hints_.nodes),
                    fmt::format("has tests of {} nodes", joined(nodes_)));
    }
  }

  NcclTestsLog of(const Run& run) {
    const std::string why_not = useless(run);
    if (!why_not.empty()) throw error(why_not);
    log_.gpu = run.gpu;
    log_.nccl_version = run.nccl_version;
    if (run.broken_rows > 0) {
      log_.notes.push_back(fmt::format("{} broken result row{} skipped, the first in line {}",
                                       run.broken_rows, run.broken_rows == 1 ? "" : "s",
                                       run.first_broken));
    }
    set_nodes(run);
    keep_rows(run);
    return std::move(log_);
  }

 private:
  InputError error(const std::string& message) const {
    return InputError({file_, line_, ""}, message);
  }

  // What was given contradicts the log.
  InputError against(const char* flag, const std::string& given, const std::string& said) const {
    return InputError({flag, 0, ""},
                      fmt::format("is {}, but {} {}; accepted: the same, or without {}", given,
                                  file_, said, flag));
  }

  template <typename Value>
  static std::string joined(const std::set<Value>& values) {
    return fmt::format("{}", fmt::join(values, ", "));
  }

  const Operation* given_operation() const {
    if (hints_.op.empty()) return nullptr;
    std::vector<std::string> names;
    for (const Operation& op : operations()) {
      if (op.modelled) names.emplace_back(op.name);
      if (hints_.op == op.name && op.modelled) return &op;
    }
    throw not_accepted({"--log-op", 0, ""}, hints_.op, names);
  }

  const Operation& operation_of(const Run& run) {
    const Operation* operation = run.operation;
    const Operation* given = given_operation();
    if (given != nullptr && operation != nullptr && given != operation && !several_) {
      throw against("--log-op", given->name,
                    fmt::format("says that it measures {}", operation->name));
    }
    const Row& row = run.rows.back();
    if (given != nullptr && operation == nullptr && !several_) {
      if (!fits(*given, row)) throw against("--log-op", given->name, words_of(row));
      operation = given;
    }
    if (operation == nullptr) operation = operation_by(row);
    if (operation == nullptr && given != nullptr && fits(*given, row)) operation = given;
    if (operation == nullptr) {
      operation = operation_named(file_.substr(file_.rfind('/') + 1));
      if (operation != nullptr && !fits(*operation, row)) operation = nullptr;
    }
    if (operation == nullptr) {
      throw error("does not say which operation it measures; give --log-op");
    }
    ops_.insert(operation->name);
    op_fits_ = op_fits_ || operation == given;
    return *operation;
  }

  void set_ranks(const Run& run) {
    if (!run.ranks.empty()) log_.ranks = *run.ranks.rbegin() + 1;
    const int given = hints_.ranks;
    if (given > 0 && !several_) {
      if (log_.ranks > 0 && log_.ranks != given) {
        throw against("--log-ranks", std::to_string(given),
                      fmt::format("lists {} ranks", log_.ranks));
      }
      const RankRange open = ranks_left_open(log_.op, run.rows);
      if ((given < open.least || given > open.most) && ranks_by_rows(log_.op, run.rows) != given) {
        throw against(
            "--log-ranks", std::to_string(given),
            fmt::format("has rows (busbw and algbw, size and count) of {}", words_of(open)));
      }
    }
    if (given > 0 && log_.ranks == 0) log_.ranks = given;
    if (log_.ranks == 0) log_.ranks = ranks_by_rows(log_.op, run.rows);
    if (log_.ranks == 0) throw error("does not say how many ranks took part; give --log-ranks");
    ranks_.insert(log_.ranks);
    ranks_fit_ = ranks_fit_ || log_.ranks == given;
  }

  // Hosts that are all called localhost are as many as somebody says, unless each rank has a device
  // of its own: hosts begin with device 0. The trays of an NVL72 rack are hosts of one node.
  static bool hosts_are_nodes(const Run& run) {
    const bool local = run.hosts.size() == 1 && run.hosts.begin()->rfind("localhost", 0) == 0 &&
                       run.devices.size() < run.ranks.size();
    const bool rack =
        run.gpu.find("GB200") != std::string::npos || run.gpu.find("GB300") != std::string::npos;
    return !local && !rack;
  }

  void set_nodes(const Run& run) {
    const bool all =
        !run.ranks.empty() && static_cast<int>(run.ranks.size()) == *run.ranks.rbegin() + 1;
    if (all) log_.nodes = static_cast<int>(run.hosts.size());
    const int given = hints_.nodes;
    if (given > 0 && log_.nodes > 0 && given != log_.nodes && !several_ && hosts_are_nodes(run)) {
      throw against("--log-nodes", std::to_string(given),
                    fmt::format("lists {} host{}", log_.nodes, log_.nodes == 1 ? "" : "s"));
    }
    if (given > 0 && !(several_ && log_.nodes > 0)) log_.nodes = given;
    const int gpus = hints_.gpus_per_node;
    if (log_.nodes == 0 && gpus > 0) {
      log_.nodes = (log_.ranks + gpus - 1) / gpus;
      log_.notes.push_back(fmt::format(
          "does not say on how many nodes its {} ranks ran: {} of {} GPUs; --log-nodes says "
          "otherwise",
          log_.ranks, log_.nodes, gpus));
    }
    nodes_.insert(log_.nodes);
    nodes_fit_ = nodes_fit_ || log_.nodes == given;
    if (log_.nodes == 0) {
      throw error(fmt::format("does not say on how many nodes its {} ranks ran; give --log-nodes",
                              log_.ranks));
    }
    if (log_.nodes > log_.ranks) {
      throw InputError({"--log-nodes", 0, ""}, fmt::format("{} is more than the {} ranks of {}",
                                                           log_.nodes, log_.ranks, file_));
    }
  }

  // Of several types (-d all) the last, of several reductions (-o all) sum or else the last: their
  // times differ, and a table has one for a size.
  void keep_rows(const Run& run) {
    log_.dtype = run.rows.back().type;
    std::string redop = run.rows.back().redop;
    for (const Row& row : run.rows) {
      if (row.type == log_.dtype && row.redop == "sum") redop = "sum";
    }
    log_.reduction = reduction_of(redop);
    const bool reduces = log_.op == CollectiveKind::all_reduce ||
                         log_.op == CollectiveKind::reduce_scatter ||
                         log_.op == CollectiveKind::reduce;
    if (reduces && log_.reduction == Reduction::none) log_.reduction = Reduction::sum;
    std::map<Bytes, NcclTestsRow> by_size;
    std::map<Bytes, int> runs;
    int others = 0;
    for (const Row& row : run.rows) {
      if (row.type != log_.dtype || row.redop != redop) {
        ++others;
        continue;
      }
      if (row.size <= 0) continue;
      const NcclTestsRow made{row.size, row.count, usable(row.out.time_us), usable(row.in.time_us)};
      if (made.time_us() <= 0) continue;
      const auto [slot, fresh] = by_size.emplace(row.size, made);
      if (!fresh && made.time_us() < slot->second.time_us()) slot->second = made;
      ++runs[row.size];
    }
    say_repeated(runs);
    if (others > 0) {
      log_.notes.push_back(fmt::format("{} rows of other types or reductions than {}{} left out",
                                       others, log_.dtype, redop.empty() ? "" : " " + redop));
    }
    for (const auto& [size, row] : by_size) log_.rows.push_back(row);
    if (log_.rows.empty()) {
      throw error(
          fmt::format("holds no row with a size and a time among its {} of {}; accepted: "
                      "rows of 1 byte or more with a time above 0 us",
                      run.rows.size(), to_string(log_.op)));
    }
  }

  void say_repeated(const std::map<Bytes, int>& runs) {
    int sizes = 0, most = 1;
    for (const auto& [size, count] : runs) {
      sizes += count > 1 ? 1 : 0;
      most = std::max(most, count);
    }
    if (sizes == 0) return;
    log_.notes.push_back(
        fmt::format("{} size{} measured up to {} times: the smallest time of each "
                    "counts",
                    sizes, sizes == 1 ? " is" : "s are", most));
  }

  const std::string& file_;
  const NcclTestsHints& hints_;
  bool several_;
  int line_ = 0;
  NcclTestsLog log_;
  // Of all tests so far, and whether what was given is among them.
  std::set<std::string> ops_;
  std::set<int> ranks_, nodes_;
  bool op_fits_ = false, ranks_fit_ = false, nodes_fit_ = false;
};

}  // namespace
}  // namespace nccl_tests

double NcclTestsRow::time_us() const {
  if (out_of_place_us <= 0) return in_place_us;
  if (in_place_us <= 0) return out_of_place_us;
  return std::min(out_of_place_us, in_place_us);
}

std::vector<NcclTestsLog> read_nccl_tests_log(const std::string& text, const std::string& file,
                                              const NcclTestsHints& hints) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const bool json = first != std::string::npos && text[first] == '{';
  const std::vector<nccl_tests::Run> runs =
      json ? nccl_tests::read_json(text.substr(first), file) : nccl_tests::read_text(text, file);
  if (runs.empty()) {
    throw InputError({file, 0, ""},
                     "holds no result row of nccl-tests (size, count, type, ..., time, algbw, "
                     "busbw); accepted: its text or its JSON");
  }
  nccl_tests::Meaning meaning(file, hints, runs.size() > 1);
  std::vector<NcclTestsLog> logs;
  std::vector<std::string> left_out;
  for (const nccl_tests::Run& run : runs) {
    const std::string why = runs.size() > 1 ? meaning.useless(run) : "";
    if (why.empty()) {
      logs.push_back(meaning.of(run));
    } else {
      left_out.push_back(fmt::format("the test of line {} is left out: it {}", run.line, why));
    }
  }
  meaning.check_given();
  if (logs.empty()) throw InputError({file, 0, ""}, "holds no test of use: " + left_out.front());
  logs.front().notes.insert(logs.front().notes.end(), left_out.begin(), left_out.end());
  return logs;
}

}  // namespace stepcast
