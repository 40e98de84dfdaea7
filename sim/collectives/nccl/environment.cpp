// NCCL_ALGO and NCCL_PROTO: "[function:]list;function:list", a list of names with commas, "^" in
// front means all but these. Example: "ring" is ring for everything; "^ring;allreduce:tree" is
// anything but ring, and tree for all-reduce. A function for which nothing is left cannot run;
// NCCL fails the call then (ncclInvalidUsage), and so does choose(). Setting NCCL_PROTO also lifts
// the rule that keeps LL128 off paths that NCCL has not qualified. Names are compared with
// strcasecmp: "nvlstree" is NVLSTree, "nvls_tree" an error.
// Source: NCCL 2.28.9, src/graph/tuning.cc and user guide, environment variables.

#include "sim/collectives/nccl/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/letters.hpp"
#include "base/suggestion.hpp"
#include "base/toml.hpp"
#include "sim/collectives/nccl/graph_file.hpp"
#include "sim/collectives/nccl/other_variables.hpp"

namespace stepcast::nccl {
namespace {

constexpr const char* functions[] = {"allreduce", "allgather", "reducescatter", "broadcast",
                                     "reduce"};  // by CollectiveKind

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

// As strict as NCCL: its own spelling, in any case. "NVLS_Tree" is none of it.
template <typename Enum>
int find_name(std::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    if (same_letters(to_string(static_cast<Enum>(i)), name)) return i;
  }
  return -1;
}

// The tuner plugin's file spells "nvls_tree" and "collnet_direct" what NCCL calls NVLSTree and
// CollNetDirect.
template <typename Enum>
int find_name_of_plugin(std::string name, int count) {
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  return find_name<Enum>(name, count);
}

template <typename Enum>
InputError unknown_name(const Where& where, const std::string& name, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  return not_accepted(where, name, names);
}

int function_of(const std::string& name) {
  for (int f = 0; f < 5; ++f) {
    if (same_letters(name, functions[f])) return f;
  }
  return -1;
}

template <typename Enum>
void set_masks(const std::string& value, int count, std::array<std::uint32_t, 5>& masks,
               const Where& where) {
  const std::uint32_t all = (1u << count) - 1;
  bool first = true;
  for (const std::string& element : split(value, ';')) {
    const std::size_t colon = element.find(':');
    std::string list = colon == std::string::npos ? element : element.substr(colon + 1);
    std::uint32_t mask = 0;
    const bool inverted = !list.empty() && list[0] == '^';
    if (inverted) list = list.substr(1);
    for (const std::string& name : split(list, ',')) {
      const int found = find_name<Enum>(name, count);
      if (found < 0) throw unknown_name<Enum>(where, name, count);
      mask |= 1u << found;
    }
    if (mask == 0) throw unknown_name<Enum>(where, value, count);
    if (inverted) mask = all & ~mask;
    if (colon == std::string::npos) {
      if (!first) {
        throw InputError(where,
                         fmt::format("'{}' names no function behind the first ';'; accepted: "
                                     "[function:]list;function:list, as "
                                     "ring;allreduce:tree",
                                     element.substr(0, 80)));
      }
      masks.fill(mask);
    } else {
      const int f = function_of(trimmed(element.substr(0, colon)));
      if (f < 0) {
        throw not_accepted(where, element.substr(0, colon),
                           std::vector<std::string>(std::begin(functions), std::end(functions)));
      }
      masks[static_cast<std::size_t>(f)] = mask;
    }
    first = false;
  }
  if (first) throw unknown_name<Enum>(where, value, count);
}

int number(const std::string& value, int least, int most, const Where& where) {
  char* end = nullptr;
  const long n = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || n < least || n > most) {
    throw InputError(where,
                     fmt::format("'{}' is not accepted; accepted: {} to {}", value, least, most));
  }
  return static_cast<int>(n);
}

// Names, or the numbers of NCCL before 2.5; it takes what is above 4 for SYS, too.
PathType level(const std::string& value, const Where& where) {
  constexpr PathType old[] = {PathType::loc, PathType::pix, PathType::pxb, PathType::phb,
                              PathType::sys};
  if (value.size() == 1 && value[0] >= '0' && value[0] <= '9') {
    return old[std::min(value[0] - '0', 4)];
  }
  std::vector<std::string> names;
  for (int t = 0; t <= static_cast<int>(PathType::sys); ++t) {
    const auto type = static_cast<PathType>(t);
    names.emplace_back(to_string(type));
    if (same_letters(value, names.back())) return type;
  }
  names.emplace_back("0 to 4");
  throw not_accepted(where, value, names);
}

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = {
      "NCCL_ALGO",       "NCCL_PROTO",       "NCCL_MIN_NCHANNELS",     "NCCL_MAX_NCHANNELS",
      "NCCL_MIN_CTAS",   "NCCL_MAX_CTAS",    "NCCL_NVLS_ENABLE",       "NCCL_NVLS_NCHANNELS",
      "NCCL_PAT_ENABLE", "NCCL_P2P_LEVEL",   "NCCL_P2P_DISABLE",       "NCCL_NET_GDR_LEVEL",
      "NCCL_CROSS_NIC",  "NCCL_PXN_DISABLE", "NCCL_TUNER_CONFIG_FILE", "NCCL_GRAPH_FILE"};
  return names;
}

// Suggests any variable, and lists those that are heeded.
InputError unknown_variable(const Where& where, const std::string& said) {
  std::vector<std::string> all = known_names();
  for (const OtherVariable& other : other_variables()) all.emplace_back(other.name);
  const std::string near = suggestion(full_name(said), all);
  std::vector<std::string> accepted = known_names();
  accepted.emplace_back("those that change no time, as NCCL_DEBUG");
  return {where, fmt::format("'{}' is not accepted{}{}", said.substr(0, 80), near,
                             accepted_words(accepted, !near.empty()))};
}

InputError unsimulated(const Where& where, const OtherVariable& variable) {
  std::string text =
      fmt::format("changes times in a way that is not simulated ({})", variable.about);
  if (!variable.by_default.empty()) {
    text += fmt::format("; accepted: {}, NCCL's default", variable.by_default);
  }
  return {where, text};
}

}  // namespace

void Environment::set(const std::string& said, const std::string& value, const Where& where) {
  std::string name = full_name(said);
  if (name == "NCCL_MIN_NRINGS") name = "NCCL_MIN_NCHANNELS";  // names of NCCL before 2.5
  if (name == "NCCL_MAX_NRINGS") name = "NCCL_MAX_NCHANNELS";
  const Where at{where.file, where.line, name};
  const auto at_least = [](int& slot, int n) { slot = std::max(slot, n); };
  const auto at_most = [](int& slot, int n) { slot = slot == 0 ? n : std::min(slot, n); };
  if (name == "NCCL_ALGO") {
    set_masks<NcclAlgorithm>(value, algorithm_count, tuner.algorithms, at);
  } else if (name == "NCCL_PROTO") {
    set_masks<NcclProtocol>(value, protocol_count, tuner.protocols, at);
    tuner.protocols_said = true;
  } else if (name == "NCCL_MIN_NCHANNELS" || name == "NCCL_MIN_CTAS") {
    const int least = number(value, 1, 64, at);
    at_least(tuner.min_channels, least);
    if (name == "NCCL_MIN_CTAS") at_least(tuner.min_nvls_channels, least);
  } else if (name == "NCCL_MAX_NCHANNELS" || name == "NCCL_MAX_CTAS") {
    const int most = number(value, 1, 64, at);
    at_most(tuner.max_channels, most);
    if (name == "NCCL_MAX_CTAS") at_most(tuner.max_nvls_channels, most);
  } else if (name == "NCCL_NVLS_ENABLE") {
    tuner.nvls = number(value, 0, 2, at) != 0;
  } else if (name == "NCCL_NVLS_NCHANNELS") {
    tuner.nvls_channels = number(value, 1, 64, at);
  } else if (name == "NCCL_PAT_ENABLE") {
    tuner.pat = number(value, 0, 2, at);
  } else if (name == "NCCL_P2P_LEVEL") {
    paths.peer_level = level(value, at);
  } else if (name == "NCCL_P2P_DISABLE") {
    if (number(value, 0, 1, at) == 1) paths.peer_level = PathType::loc;
  } else if (name == "NCCL_NET_GDR_LEVEL") {
    paths.gdr_level = level(value, at);
  } else if (name == "NCCL_CROSS_NIC") {
    paths.cross_nic = number(value, 0, 2, at);
  } else if (name == "NCCL_PXN_DISABLE") {
    paths.pxn = number(value, 0, 1, at) == 0;
  } else if (name == "NCCL_TUNER_CONFIG_FILE") {
    tuner.rows = parse_tuner_csv(read_file(value, 16ll << 20), value);
  } else if (name == "NCCL_GRAPH_FILE") {
    paths.graphs = read_graph_file(value);
  } else if (const OtherVariable* other = other_variable(name); other == nullptr) {
    throw unknown_variable(where, said);
  } else if (other->changes_times && (value.empty() || value != other->by_default)) {
    throw unsimulated(at, *other);
  } else if (std::find(unheeded.begin(), unheeded.end(), name) == unheeded.end()) {
    unheeded.push_back(name);
  }
}

std::string Environment::note() const { return words_of_unheeded(unheeded); }

void Environment::set_all(const std::string& text, const Where& where) {
  for (const auto& [name, value] : read_variables(text, where)) set(name, value, where);
}

std::string full_name(std::string name) {
  return name.starts_with("NCCL_") || name.starts_with("TORCH_NCCL_") ? name
                                                                      : "NCCL_" + std::move(name);
}

std::vector<std::pair<std::string, std::string>> read_variables(const std::string& text,
                                                                const Where& where) {
  std::vector<std::pair<std::string, std::string>> variables;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "export" || word == "-x") continue;  // a shell's, mpirun's
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(where, fmt::format("'{}' is not accepted; accepted: NAME=VALUE, as "
                                          "NCCL_ALGO=Ring",
                                          word.substr(0, 80)));
    }
    std::string value = word.substr(equals + 1);
    const bool quoted = value.size() > 1 && (value[0] == '"' || value[0] == '\'');
    if (quoted && value.back() == value[0]) value = value.substr(1, value.size() - 2);
    variables.emplace_back(word.substr(0, equals), std::move(value));
  }
  return variables;
}

std::vector<TunerRow> parse_tuner_csv(const std::string& text, const std::string& file) {
  std::vector<TunerRow> rows;
  std::istringstream lines(text);
  int line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++line_number;
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || lower(line).rfind("collective_type", 0) == 0) continue;
    const Where where{file, line_number, ""};
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() < 8) {
      throw InputError(where, fmt::format("has {} cells; accepted: collective_type, min_bytes, "
                                          "max_bytes, algorithm, protocol, channels, nNodes, "
                                          "nRanks[, numPipeOps, regBuff]",
                                          cells.size()));
    }
    TunerRow row;
    row.function = function_of(cells[0]);
    if (row.function < 0) {
      throw not_accepted(where, cells[0],
                         std::vector<std::string>(std::begin(functions), std::end(functions)));
    }
    const auto integer = [&](std::size_t i) {
      char* end = nullptr;
      const long long n = std::strtoll(cells[i].c_str(), &end, 10);
      if (cells[i].empty() || *end != '\0' || n < -1) {
        throw InputError(
            where, fmt::format("'{}' is no whole number of -1 or more", cells[i].substr(0, 40)));
      }
      return static_cast<std::int64_t>(n);
    };
    row.min_bytes = integer(1);
    row.max_bytes = integer(2);
    const int a = find_name_of_plugin<NcclAlgorithm>(cells[3], algorithm_count);
    if (a < 0) throw unknown_name<NcclAlgorithm>(where, cells[3], algorithm_count);
    const int p = find_name_of_plugin<NcclProtocol>(cells[4], protocol_count);
    if (p < 0) throw unknown_name<NcclProtocol>(where, cells[4], protocol_count);
    row.algorithm = static_cast<NcclAlgorithm>(a);
    row.protocol = static_cast<NcclProtocol>(p);
    row.channels = static_cast<int>(std::min<std::int64_t>(integer(5), 64));
    row.nodes = static_cast<int>(std::min<std::int64_t>(integer(6), 1 << 30));
    row.ranks = static_cast<int>(std::min<std::int64_t>(integer(7), 1 << 30));
    // Calls are costed one at a time and from buffers that nobody registered.
    row.for_one_call = cells.size() < 9 || integer(8) == -1 || integer(8) == 1;
    row.for_plain_buffers = cells.size() < 10 || integer(9) < 1;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace stepcast::nccl
