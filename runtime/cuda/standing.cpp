#include "runtime/cuda/standing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/cuda/frame.hpp"

namespace stepcast::runtime {
namespace {

// Op names are made once a program: a step has thousands.
class Names {
 public:
  explicit Names(const Schedule& schedule) : schedule_(schedule) {}
  std::string operator()(const Standing& s) {
    const auto key = std::pair{s.role, s.program};
    auto found = known_.find(key);
    if (found == known_.end()) {
      const StepProgram& program = schedule_.roles[static_cast<std::size_t>(s.role)]
                                       .steps[static_cast<std::size_t>(s.program)];
      found = known_.emplace(key, op_names(schedule_, program)).first;
    }
    return fmt::format("{} (step {})", found->second[static_cast<std::size_t>(s.op)], s.step);
  }

 private:
  const Schedule& schedule_;
  std::map<std::pair<int, int>, std::vector<std::string>> known_;
};

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t most = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > most) text += fmt::format(" and {} more", ranks.size() - most);
  return text;
}

std::string words(const Collective& c) {
  return fmt::format("{} of {} {} elements", to_string(c.kind), c.elements, to_string(c.dtype));
}

struct Finding {
  std::tuple<int, OpIndex> order{0, 0};  // of the earliest who entered
  std::string text;
};

}  // namespace

std::string to_bytes(const RankStanding& s) {
  std::string bytes;
  put(bytes, s.ended);
  put(bytes, s.at);
  put(bytes, static_cast<std::uint64_t>(s.comms.size()));
  for (const CommStanding& c : s.comms) put(bytes, c);
  return bytes;
}

RankStanding standing_of(const std::string& bytes) {
  Reader reader(bytes);
  RankStanding s;
  s.ended = reader.get<bool>();
  s.at = reader.get<Standing>();
  s.comms.resize(std::min<std::uint64_t>(reader.get<std::uint64_t>(), 1u << 15));
  for (CommStanding& c : s.comms) c = reader.get<CommStanding>();
  return s;
}

std::string who_is_missing(const Schedule& schedule, const std::vector<RankStanding>& ranks) {
  Names name(schedule);
  const auto stands = [&](int rank) {
    const RankStanding& s = ranks[static_cast<std::size_t>(rank)];
    std::string where = s.at.op < 0 ? "has not begun" : "stands at " + name(s.at);
    if (s.ended) where = "has ended";
    if (s.gone) where = "is gone" + (s.at.op < 0 ? "" : " (last seen at " + name(s.at) + ")");
    return fmt::format("rank {} {}", rank, where);
  };
  std::vector<Finding> findings;
  for (std::size_t c = 0; c < schedule.communicators.size(); ++c) {
    std::vector<bool> seen(ranks.size(), false);
    for (std::size_t first = 0; first < ranks.size(); ++first) {
      if (seen[first]) continue;
      const std::vector<int> group =
          ranks_of_group(schedule.mesh, schedule.communicators[c].axis, static_cast<int>(first));
      for (const int rank : group) seen[static_cast<std::size_t>(rank)] = true;
      const auto of = [&](int rank) -> CommStanding {
        const RankStanding& s = ranks[static_cast<std::size_t>(rank)];
        return c < s.comms.size() ? s.comms[c] : CommStanding{};
      };
      // The furthest that anybody has entered, and who has come as far.
      std::int64_t furthest = -1;
      for (const int rank : group) {
        const CommStanding s = of(rank);
        if (s.entered) furthest = std::max(furthest, s.through);
      }
      if (furthest < 0) continue;
      std::vector<int> entered;
      std::vector<int> missing;
      for (const int rank : group) {
        const CommStanding s = of(rank);
        const bool came = s.through > furthest || (s.through == furthest && s.entered);
        (came ? entered : missing).push_back(rank);
      }
      const auto in = std::find_if(entered.begin(), entered.end(), [&](int rank) {
        return of(rank).entered && of(rank).through == furthest;
      });
      const CommStanding who = of(*in);
      const std::string place =
          fmt::format("{} on communicator {}", name(who.at), schedule.communicators[c].name.str());
      const auto other = std::find_if(entered.begin(), entered.end(), [&](int rank) {
        const CommStanding s = of(rank);
        return s.entered && s.through == furthest && !(s.what == who.what);
      });
      Finding finding{{who.at.step, who.at.op}, {}};
      if (other != entered.end()) {
        const CommStanding its = of(*other);
        finding.text = fmt::format(
            "ranks disagree on communicator {}: rank {} entered {} ({}), rank {} {} ({})",
            schedule.communicators[c].name.str(), *in, words(who.what), name(who.at), *other,
            words(its.what), name(its.at));
      } else if (missing.empty()) {
        finding.text =
            fmt::format("{} is entered by all of {} and does not end", place, list_of(entered));
        for (const int rank : group) {
          if (ranks[static_cast<std::size_t>(rank)].gone) finding.text += "; " + stands(rank);
        }
      } else {
        finding.text =
            fmt::format("{} waits for {}: {} entered", place, list_of(missing), list_of(entered));
        for (std::size_t i = 0; i < missing.size() && i < 4; ++i) {
          finding.text += "; " + stands(missing[i]);
        }
      }
      findings.push_back(std::move(finding));
    }
  }
  if (!findings.empty()) {
    return std::min_element(findings.begin(), findings.end(),
                            [](const auto& a, const auto& b) { return a.order < b.order; })
        ->text;
  }
  std::string text = "no op can go on: ";
  for (std::size_t r = 0; r < ranks.size() && r < 4; ++r) {
    text += (r == 0 ? "" : "; ") + stands(static_cast<int>(r));
  }
  return text;
}

}  // namespace stepcast::runtime
