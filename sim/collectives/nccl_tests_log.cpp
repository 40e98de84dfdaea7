// A result row, whatever the version of nccl-tests, is
//
//   [launcher prefix] size count type [redop] [root] half [half] [date time]
//   half: time algbw busbw #wrong  [i_min i_max i_p99 i_cv%]
//
//   0: 1048576  262144  float  sum  -1   50.25  20.87  20.87  0   50.50  20.76  20.76  0
//
// Versions up to 2.11 leave out redop and root where an operation has none; in-place-only rows have
// one half. So the row is read from both ends: two whole numbers and a type name mark its start,
// what follows is redop (a word), root (a number too many), and halves of 4 or 8.
//
// The operation is said by the start line, the command line, the JSON's arguments or the file's
// name; the ranks by the device lines, else by the ratio of busbw and algbw (all-reduce 2(n-1)/n:
// 1.875 is 16 ranks) or of size and count (all-gather: size = n * count * element). How many nodes
// is said by the hosts of the device lines alone.
// Source: nccl-tests 2.19.6 and the logs of tests/unit/collectives/logs.

#include "sim/collectives/nccl_tests_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr std::size_t max_rows = 100000;

struct Operation {
  const char* name;  // of the test, without _perf
  const char* squashed;
  bool modelled;
  CollectiveKind kind;
};
constexpr Operation operations[] = {
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

const Operation* operation_in(const std::string& text, const std::string& suffix) {
  for (const Operation& op : operations) {
    if (text.find(op.name + suffix) != std::string::npos) return &op;
    if (text.find(op.squashed + suffix) != std::string::npos) return &op;
  }
  return nullptr;
}

int element_bytes(const std::string& type) {
  static const std::map<std::string, int> sizes = {
      {"int8", 1},   {"uint8", 1},   {"int32", 4},      {"uint32", 4},    {"int64", 8},
      {"uint64", 8}, {"half", 2},    {"float16", 2},    {"float", 4},     {"float32", 4},
      {"double", 8}, {"float64", 8}, {"bfloat16", 2},   {"fp8_e4m3", 1},  {"fp8_e5m2", 1},
      {"f8e4m3", 1}, {"f8e5m2", 1},  {"float8e4m3", 1}, {"float8e5m2", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

bool whole(const std::string& word, std::int64_t* value) {
  if (word.empty() || word.size() > 18) return false;
  const std::size_t first = word[0] == '-' ? 1 : 0;
  if (first == word.size() || word.find_first_not_of("0123456789", first) != std::string::npos) {
    return false;
  }
  *value = std::atoll(word.c_str());
  return true;
}

// A number, or what stands for one that is not there: "N/A", "nan", "-".
bool number(const std::string& word, double* value) {
  *value = std::nan("");
  if (word == "N/A" || word == "nan" || word == "-nan" || word == "inf") return true;
  char* end = nullptr;
  *value = std::strtod(word.c_str(), &end);
  return !word.empty() && *end == '\0' && std::isfinite(*value);
}

struct Half {
  double time_us = 0, algbw = 0, busbw = 0;
};

struct ParsedRow {
  std::int64_t size = 0, count = 0, root = -1;
  std::string type, redop;
  Half out, in;
};

class TextReader {
 public:
  explicit TextReader(NcclTestsLog& log) : log_(log) {}

  std::vector<ParsedRow> read(const std::string& text) {
    std::istringstream lines(text);
    int number = 0;
    int broken = 0;
    int first_broken = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.size() > 4096) continue;
      read_header(line, number);
      ParsedRow row;
      bool looks_like_one = false;
      if (read_row(line, &row, &looks_like_one)) {
        if (rows_.size() >= max_rows) {
          throw InputError({log_.file, number, ""},
                           fmt::format("has more than {} result rows", max_rows));
        }
        rows_.push_back(row);
      } else if (looks_like_one && broken++ == 0) {
        first_broken = number;
      }
    }
    if (broken > 0) {
      log_.notes.push_back(fmt::format("{} broken result row{} skipped, the first in line {}",
                                       broken, broken == 1 ? "" : "s", first_broken));
    }
    if (!ranks_.empty()) {
      const int all = *ranks_.rbegin() + 1;
      log_.ranks = all;
      if (static_cast<int>(ranks_.size()) == all) log_.nodes = static_cast<int>(hosts_.size());
    }
    return std::move(rows_);
  }

  const Operation* operation() const { return operation_; }

 private:
  void read_header(const std::string& line, int number) {
    if (line.find("cputime") != std::string::npos) {
      throw InputError({log_.file, number, ""},
                       "holds CPU launch times (nccl-tests -C 1), not what a collective takes; "
                       "accepted: a run without -C");
    }
    per_iteration_ = per_iteration_ || line.find(" i_min ") != std::string::npos;
    if (operation_ == nullptr && line.find("_perf") != std::string::npos) {
      operation_ = operation_in(line, "_perf");
    }
    const std::size_t library = line.find("nccl-library=");
    if (library != std::string::npos) {
      log_.nccl_version = version_text(std::atoi(line.c_str() + library + 13));
    }
    const std::size_t said = line.find("NCCL version ");
    if (said != std::string::npos && log_.nccl_version.empty()) {
      std::istringstream rest(line.substr(said + 13));
      std::string word;
      rest >> word;
      log_.nccl_version = word.substr(0, word.find('+'));
    }
    read_device(line);
  }

  //  #  Rank  3 Group  0 Pid 202832 on  nid005471 device  3 [0039:01:00] NVIDIA GH200 120GB
  void read_device(const std::string& line) {
    const std::size_t at = line.find("Rank ");
    const std::size_t pid = line.find(" Pid ");
    const std::size_t on = line.find(" on ");
    const std::size_t device = line.find(" device ");
    if (at == std::string::npos || pid == std::string::npos || on == std::string::npos ||
        device == std::string::npos || !(at < pid && pid < on && on < device)) {
      return;
    }
    const int rank = std::atoi(line.c_str() + at + 5);
    if (rank < 0 || rank > 1000000) return;
    ranks_.insert(rank);
    std::istringstream host(line.substr(on + 4));
    std::string name;
    host >> name;
    hosts_.insert(name);
    const std::size_t bus = line.find(']', device);
    if (bus == std::string::npos || !log_.gpu.empty()) return;
    std::size_t first = line.find_first_not_of(' ', bus + 1);
    if (first == std::string::npos) return;
    log_.gpu = line.substr(first);
    while (!log_.gpu.empty() && (log_.gpu.back() == ' ' || log_.gpu.back() == '\r')) {
      log_.gpu.pop_back();
    }
  }

 public:
  static std::string version_text(int number) {  // 22809: 2.28.9
    if (number < 10000) return "";
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

 private:
  bool read_row(const std::string& line, ParsedRow* row, bool* looks_like_one) const {
    std::vector<std::string> words;
    std::istringstream split(line);
    for (std::string word; split >> word && words.size() < 40;) words.push_back(word);
    std::size_t at = 0;
    for (; at + 3 < words.size() && at < 4; ++at) {  // a launcher's prefix is one to three words
      std::string size = words[at];
      const std::size_t colon = size.rfind(':');  // "0:8388608": glued
      if (colon != std::string::npos) size = size.substr(colon + 1);
      if (whole(size, &row->size) && whole(words[at + 1], &row->count) &&
          element_bytes(words[at + 2]) > 0) {
        break;
      }
    }
    if (at + 3 >= words.size() || at >= 4 || row->size < 0 || row->count < 0) return false;
    row->type = words[at + 2];
    *looks_like_one = true;
    std::vector<std::string> rest(words.begin() + static_cast<std::ptrdiff_t>(at) + 3, words.end());
    double ignored = 0;
    if (rest.size() >= 2 && rest.back().find(':') != std::string::npos)
      rest.resize(rest.size() - 2);
    if (!rest.empty() && !number(rest.front(), &ignored)) {
      row->redop = rest.front();
      rest.erase(rest.begin());
    }
    const std::size_t half = per_iteration_ || rest.size() >= 16 ? 8 : 4;
    if (rest.size() % half == 1) {
      if (!whole(rest.front(), &row->root)) return false;
      rest.erase(rest.begin());
    }
    if (rest.size() != half && rest.size() != 2 * half) return false;
    if (rest.size() == 2 * half && !read_half(rest, 0, &row->out)) return false;
    return read_half(rest, rest.size() - half, &row->in);
  }

  static bool read_half(const std::vector<std::string>& words, std::size_t at, Half* half) {
    double wrong = 0;
    return number(words[at], &half->time_us) && number(words[at + 1], &half->algbw) &&
           number(words[at + 2], &half->busbw) && number(words[at + 3], &wrong);
  }

  NcclTestsLog& log_;
  const Operation* operation_ = nullptr;
  bool per_iteration_ = false;
  std::set<int> ranks_;
  std::set<std::string> hosts_;
  std::vector<ParsedRow> rows_;
};

// ---- JSON (nccl-tests -J, versions 1 to 3)
double json_number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

Half json_half(const nlohmann::json& result, const char* key) {
  const auto found = result.find(key);
  if (found == result.end() || !found->is_object()) return {0, 0, 0};
  return {json_number(*found, "time"), json_number(*found, "alg_bw"),
          json_number(*found, "bus_bw")};
}

std::vector<ParsedRow> read_json(const std::string& text, NcclTestsLog& log,
                                 const Operation** operation) {
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (root.is_discarded()) {
    throw InputError({log.file, 0, ""}, "starts like JSON but is not valid JSON");
  }
  if (!root.is_object() || !root.contains("results") || !root["results"].is_array()) {
    throw InputError({log.file, 0, ""},
                     "is JSON without the results of nccl-tests; accepted: what nccl-tests -J "
                     "writes, or its text");
  }
  if (root.contains("args") && root["args"].is_array()) {
    for (const nlohmann::json& arg : root["args"]) {
      if (arg.is_string() && *operation == nullptr) {
        *operation = operation_in(arg.get<std::string>(), "_perf");
      }
    }
  }
  if (root.contains("nccl_version") && root["nccl_version"].is_number_integer()) {
    log.nccl_version = TextReader::version_text(root["nccl_version"].get<int>());
  }
  if (root.contains("config") && root["config"].is_object() && root["config"].contains("devices") &&
      root["config"]["devices"].is_array()) {
    std::set<std::string> hosts;
    int last = -1;
    int listed = 0;
    for (const nlohmann::json& device : root["config"]["devices"]) {
      if (!device.is_object()) continue;
      ++listed;
      const double rank = json_number(device, "rank");
      if (rank >= 0 && rank < 1e6) last = std::max(last, static_cast<int>(rank));
      if (device.contains("hostname") && device["hostname"].is_string()) {
        hosts.insert(device["hostname"].get<std::string>());
      }
      if (log.gpu.empty() && device.contains("device_info") && device["device_info"].is_string()) {
        log.gpu = device["device_info"].get<std::string>();
      }
    }
    if (listed == last + 1 && listed > 1) {  // without MPI only the first is listed
      log.ranks = listed;
      log.nodes = static_cast<int>(hosts.size());
    }
  }
  std::vector<ParsedRow> rows;
  for (const nlohmann::json& result : root["results"]) {
    if (!result.is_object() || rows.size() >= max_rows) continue;
    ParsedRow row;
    const double size = json_number(result, "size");
    const double count = json_number(result, "count");
    if (!(size >= 0 && size < 1e18 && count >= 0 && count < 1e18)) continue;
    row.size = static_cast<std::int64_t>(size);
    row.count = static_cast<std::int64_t>(count);
    const auto word = [&](const char* key) {
      return result.contains(key) && result[key].is_string() ? result[key].get<std::string>() : "";
    };
    row.type = word("type");
    row.redop = word("redop");
    row.root = std::atoll(word("root").c_str());
    if (element_bytes(row.type) == 0) continue;
    row.out = json_half(result, "out_of_place");
    row.in = json_half(result, "in_place");
    const bool cpu = result.contains("in_place") && result["in_place"].is_object() &&
                     result["in_place"].contains("cpu_time");
    if (cpu) {
      throw InputError({log.file, 0, "results"},
                       "holds CPU launch times (nccl-tests -C 1); accepted: a run without -C");
    }
    rows.push_back(row);
  }
  return rows;
}

// ---- what the rows themselves say
// Ranks by the ratio of bus and algorithm bandwidth of the fastest row, or by size and count.
int ranks_by_rows(CollectiveKind op, const std::vector<ParsedRow>& rows) {
  for (const ParsedRow& row : rows) {
    const std::int64_t one = row.count * element_bytes(row.type);
    const bool total = op == CollectiveKind::all_gather || op == CollectiveKind::reduce_scatter;
    if (total && one > 0 && row.size % one == 0 && row.size / one > 1) {
      return static_cast<int>(std::min<std::int64_t>(row.size / one, 1 << 20));
    }
  }
  const Half* best = nullptr;
  for (const ParsedRow& row : rows) {
    for (const Half* half : {&row.out, &row.in}) {
      if (half->algbw > 10 && (best == nullptr || half->algbw > best->algbw)) best = half;
    }
  }
  if (best == nullptr) return 0;
  const double ratio = best->busbw / best->algbw;
  const double part = op == CollectiveKind::all_reduce ? ratio / 2 : ratio;  // (n-1)/n
  if (op == CollectiveKind::broadcast || op == CollectiveKind::reduce) return 0;
  if (!(part >= 0.49 && part < 0.995)) return 0;  // beyond 200 ranks two digits do not tell
  const double ranks = 1 / (1 - part);
  // Two digits of 100 GB/s: 0.0001 of the ratio, ranks^2 times that of the ranks.
  const double tolerance = ranks * ranks * 0.01 / best->algbw;
  return std::abs(ranks - std::round(ranks)) <= std::min(0.3, tolerance + 0.02)
             ? static_cast<int>(std::round(ranks))
             : 0;
}

const Operation* operation_by_rows(const std::vector<ParsedRow>& rows) {
  if (rows.empty()) return nullptr;
  const ParsedRow& row = rows.back();
  const bool reduces = !row.redop.empty() && row.redop != "none";
  const bool whole_size = row.size == row.count * element_bytes(row.type);
  if (reduces && row.root < 0 && whole_size && row.out.busbw > 1.01 * row.out.algbw) {
    return &operations[0];
  }
  return nullptr;
}

Reduction reduction_of(const std::string& redop) {
  if (redop == "avg" || redop == "mulsum") return Reduction::avg;
  if (redop == "max" || redop == "min") return Reduction::max;
  return redop.empty() || redop == "none" ? Reduction::none : Reduction::sum;
}

double usable(double time_us) { return time_us > 0 && time_us < 1e12 ? time_us : 0; }

}  // namespace

double NcclTestsRow::time_us() const {
  if (out_of_place_us <= 0) return in_place_us;
  if (in_place_us <= 0) return out_of_place_us;
  return std::min(out_of_place_us, in_place_us);
}

NcclTestsLog read_nccl_tests_log(const std::string& text, const std::string& file,
                                 const NcclTestsHints& hints) {
  NcclTestsLog log;
  log.file = file;
  const Operation* operation = nullptr;
  std::vector<ParsedRow> rows;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    rows = read_json(text, log, &operation);
  } else {
    TextReader reader(log);
    rows = reader.read(text);
    operation = reader.operation();
  }
  if (rows.empty()) {
    throw InputError({file, 0, ""},
                     "holds no result row of nccl-tests (size, count, type, ..., time, algbw, "
                     "busbw); accepted: its text or its JSON");
  }
  const std::string name = file.substr(file.rfind('/') + 1);
  if (!hints.op.empty()) {
    std::vector<std::string> names;
    operation = nullptr;
    for (const Operation& op : operations) {
      if (op.modelled) names.emplace_back(op.name);
      if (hints.op == op.name && op.modelled) operation = &op;
    }
    if (operation == nullptr) throw not_accepted({"--log-op", 0, ""}, hints.op, names);
  }
  if (operation == nullptr) operation = operation_in(name, "");
  if (operation == nullptr) operation = operation_by_rows(rows);
  if (operation == nullptr) {
    throw InputError({file, 0, ""}, "does not say which operation it measures; give --log-op");
  }
  if (!operation->modelled) {
    throw InputError({file, 0, ""},
                     fmt::format("measures {}, which no data-parallel strategy uses and stepcast "
                                 "does not model",
                                 operation->name));
  }
  log.op = operation->kind;
  log.dtype = rows.back().type;
  log.reduction = reduction_of(rows.back().redop);
  const bool reduces = log.op == CollectiveKind::all_reduce ||
                       log.op == CollectiveKind::reduce_scatter || log.op == CollectiveKind::reduce;
  if (reduces && log.reduction == Reduction::none) log.reduction = Reduction::sum;
  if (hints.ranks > 0) log.ranks = hints.ranks;
  if (log.ranks == 0) log.ranks = ranks_by_rows(log.op, rows);
  if (log.ranks < 2) {
    throw InputError({file, 0, ""},
                     log.ranks == 1 ? "measures one rank: nothing is communicated"
                                    : "does not say how many ranks took part; give --log-ranks");
  }
  if (hints.nodes > 0) log.nodes = hints.nodes;
  if (log.nodes == 0) {
    throw InputError({file, 0, ""},
                     fmt::format("does not say on how many nodes its {} ranks ran; give "
                                 "--log-nodes",
                                 log.ranks));
  }
  if (log.nodes > log.ranks) {
    throw InputError({"--log-nodes", 0, ""},
                     fmt::format("{} is more than the {} ranks of {}", log.nodes, log.ranks, file));
  }
  std::map<Bytes, NcclTestsRow> by_size;
  for (const ParsedRow& row : rows) {
    if (row.size <= 0 || row.type != log.dtype) continue;
    NcclTestsRow made{row.size, row.count, usable(row.out.time_us), usable(row.in.time_us)};
    if (made.time_us() <= 0) continue;
    const auto [slot, fresh] = by_size.emplace(row.size, made);
    if (!fresh && made.time_us() < slot->second.time_us()) slot->second = made;
  }
  for (const auto& [size, row] : by_size) log.rows.push_back(row);
  if (log.rows.empty()) throw InputError({file, 0, ""}, "holds no row with a size and a time");
  return log;
}

}  // namespace stepcast
