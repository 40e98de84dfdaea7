#include "sim/forecast/perturbation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "base/duration.hpp"

namespace stepcast {

namespace {

constexpr const char* accepted =
    "rank=R, rank=A-B or node=N, then :late=5s, :missing, :slow=0.8 or (a node) :machine=NAME; or "
    "node=N,nic=I, rail=I, rank=R,nvlink or rank=R,pcie, then :slow=0.5 or (a NIC, a rail) :down; "
    "or all:jitter=P/K";

struct Range {
  int first = 0, last = 0;
};

class Reader {
 public:
  Reader(std::string_view text, const RankLayout& layout, const Where& where)
      : text_(text), layout_(layout), where_(where) {}

  Perturbation run() {
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) refuse();
    Perturbation result;
    result.text = std::string(text_);
    const std::string_view target = text_.substr(0, colon);
    const std::size_t comma = target.find(',');
    if (target == "all") {
      jitter(text_.substr(colon + 1), result);
      return result;
    }
    const bool rail = target.starts_with("rail=");
    if (rail) {
      result.kind = Perturbation::Kind::link;
      result.ranks = all_of({0, layout_.world_size - 1}, 1);
      nics(target.substr(5), result);
    } else {
      result.ranks = ranks(target.substr(0, comma));
    }
    if (comma != std::string_view::npos) {
      if (rail) refuse();
      links(target.substr(comma + 1), target.starts_with("node="), result);
    }
    effect(text_.substr(colon + 1), target.starts_with("node="), result);
    return result;
  }

 private:
  [[noreturn]] void refuse() const { fail(fmt::format("accepted: {}", accepted)); }
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(where_, fmt::format("'{}': {}", std::string(text_.substr(0, 80)), message));
  }

  template <typename Number>
  Number number(std::string_view text, std::string_view& rest) const {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) refuse();
    rest = text.substr(static_cast<std::size_t>(end - text.data()));
    return value;
  }

  // "3" or "3-5", of `count` things.
  Range range(std::string_view text, const char* things, int count) const {
    std::string_view rest;
    Range read;
    read.first = read.last = number<int>(text, rest);
    if (rest.starts_with("-")) read.last = number<int>(rest.substr(1), rest);
    if (!rest.empty() || read.first < 0) refuse();
    if (read.last < read.first || read.last >= count) {
      fail(fmt::format("accepted: {} 0 to {}, the lower one first", things, count - 1));
    }
    return read;
  }

  // The ranks of things that have `size` each.
  std::vector<std::int32_t> all_of(Range range, int size) const {
    const int end = std::min((range.last + 1) * size, layout_.world_size);
    std::vector<std::int32_t> list(static_cast<std::size_t>(end - range.first * size));
    std::iota(list.begin(), list.end(), range.first * size);
    return list;
  }

  std::vector<std::int32_t> ranks(std::string_view text) const {
    const bool by_node = text.starts_with("node=");
    if (!by_node && !text.starts_with("rank=")) refuse();
    const int size = by_node ? layout_.gpus_per_node : 1;
    const int count = (layout_.world_size + size - 1) / size;
    return all_of(range(text.substr(5), by_node ? "nodes" : "ranks", count), size);
  }

  void nics(std::string_view text, Perturbation& result) const {
    if (layout_.nics_per_node == 0) fail("the machine has no NIC");
    const Range read = range(text, "NICs", layout_.nics_per_node);
    for (int nic = read.first; nic <= read.last; ++nic) {
      result.links.push_back({BrokenLink::Kind::nic, nic, 1});
    }
  }

  void links(std::string_view text, bool by_node, Perturbation& result) const {
    result.kind = Perturbation::Kind::link;
    if (by_node && text.starts_with("nic=")) {
      nics(text.substr(4), result);
      return;
    }
    if (by_node || (text != "nvlink" && text != "pcie")) refuse();
    if (result.ranks.size() != 1) fail("accepted: the links of one rank");
    const auto kind = text == "pcie" ? BrokenLink::Kind::pcie : BrokenLink::Kind::nvlink;
    result.links.push_back({kind, result.ranks.front() % layout_.gpus_per_node, 1});
    // All of the node: who of them meets the link is for the collectives to say.
    const int node = result.ranks.front() / layout_.gpus_per_node;
    result.ranks = all_of({node, node}, layout_.gpus_per_node);
  }

  double speed_left(std::string_view text) const {
    std::string_view rest;
    const auto speed = number<double>(text, rest);
    if (!rest.empty() || !(speed >= 0.001 && speed <= 1)) {
      fail("slow is the speed that is left; accepted: 0.001 to 1");
    }
    return speed;
  }

  // "jitter=0.01/0.05", "jitter=0.01/0.05/7".
  void jitter(std::string_view text, Perturbation& result) const {
    if (!text.starts_with("jitter=")) refuse();
    result.kind = Perturbation::Kind::jitter;
    std::string_view rest;
    result.jitter.persistent = number<double>(text.substr(7), rest);
    if (!rest.starts_with("/")) refuse();
    result.jitter.kernel = number<double>(rest.substr(1), rest);
    if (rest.starts_with("/")) result.jitter.seed = number<std::uint64_t>(rest.substr(1), rest);
    if (!rest.empty()) refuse();
    for (const double deviation : {result.jitter.persistent, result.jitter.kernel}) {
      if (!(deviation >= 0 && deviation <= 0.3)) {
        fail("jitter is a standard deviation as part of a kernel's time; accepted: 0 to 0.3");
      }
    }
  }

  void effect(std::string_view text, bool of_node, Perturbation& result) const {
    if (result.kind == Perturbation::Kind::link) {
      const bool nic = result.links.front().kind == BrokenLink::Kind::nic;
      if (text != "down" && !text.starts_with("slow=")) refuse();
      if (text == "down" && !nic) refuse();
      const double left = text == "down" ? 0 : speed_left(text.substr(5));
      for (BrokenLink& link : result.links) link.speed = left;
    } else if (text == "missing") {
      result.kind = Perturbation::Kind::missing;
    } else if (text.starts_with("slow=")) {
      result.kind = Perturbation::Kind::slow;
      result.speed = speed_left(text.substr(5));
    } else if (text.starts_with("late=")) {
      result.kind = Perturbation::Kind::late;
      result.late = seconds(text.substr(5));
    } else if (of_node && text.starts_with("machine=") && text.size() > 8) {
      result.kind = Perturbation::Kind::machine;
      result.machine = std::string(text.substr(8));
    } else {
      refuse();
    }
  }

  Seconds seconds(std::string_view text) const {
    const std::optional<Duration> read = read_duration(text);
    if (read && read->seconds() >= 0 && read->seconds() <= 1e6) return read->seconds();
    fail("accepted: a time with its unit (us, ms, s, min), up to 1e6 s");
  }

  std::string_view text_;
  const RankLayout& layout_;
  const Where& where_;
};

}  // namespace

Perturbation parse_perturbation(std::string_view text, const RankLayout& layout,
                                const Where& where) {
  return Reader(text, layout, where).run();
}

std::vector<Perturbation> parse_perturbations(const std::vector<std::string>& texts,
                                              const RankLayout& layout, const Where& where) {
  std::vector<Perturbation> list;
  using Thing = std::tuple<Perturbation::Kind, BrokenLink::Kind, int, std::int32_t>;
  std::map<Thing, std::string> said;
  std::map<std::int32_t, int> nics_down;  // by node
  // Flags are cut at commas: a piece without a colon is the first part of the next one.
  std::string text;
  for (const std::string& piece : texts) {
    text = text.empty() || text.find(':') != std::string::npos ? piece : text + "," + piece;
    if (text.find(':') == std::string::npos && &piece != &texts.back()) continue;
    list.push_back(parse_perturbation(text, layout, where));
    if (list.back().kind == Perturbation::Kind::jitter) {
      const bool again = std::any_of(list.begin(), list.end() - 1, [](const Perturbation& p) {
        return p.kind == Perturbation::Kind::jitter;
      });
      if (again) throw InputError(where, fmt::format("'{}': accepted: jitter once", text));
    }
    std::vector<BrokenLink> links = list.back().links;
    const bool of_link = !links.empty();
    // Who never comes is not late.
    const bool missing = list.back().kind == Perturbation::Kind::missing;
    const Perturbation::Kind kind = missing ? Perturbation::Kind::late : list.back().kind;
    if (!of_link) links.push_back({});
    for (const std::int32_t rank : list.back().ranks) {
      const std::int32_t node = rank / layout.gpus_per_node;
      if (of_link && rank % layout.gpus_per_node != 0) continue;  // said once a node
      for (const BrokenLink& link : links) {
        const auto [earlier, is_new] = said.emplace(Thing(kind, link.kind, link.index, rank), text);
        if (!is_new) {
          throw InputError(
              where, fmt::format("'{}' says of {} {} what '{}' said already; accepted: "
                                 "each once",
                                 text, of_link ? "a link of node" : "rank", of_link ? node : rank,
                                 earlier->second));
        }
        if (link.speed == 0 && ++nics_down[node] == layout.nics_per_node) {
          throw InputError(where,
                           fmt::format("'{}' leaves node {} without a NIC; accepted: at "
                                       "most {} of {} down",
                                       text, node, layout.nics_per_node - 1, layout.nics_per_node));
        }
      }
    }
  }
  return list;
}

}  // namespace stepcast
