#include "sim/forecast/perturbation.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <utility>

namespace stepcast {

namespace {

constexpr const char* accepted = "rank=R, rank=A-B or node=N, then :late=5s, :missing or :slow=0.8";

class Reader {
 public:
  Reader(std::string_view text, const RankLayout& layout, const Where& where)
      : text_(text), layout_(layout), where_(where) {}

  Perturbation run() {
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) refuse();
    Perturbation result;
    result.text = std::string(text_);
    result.ranks = ranks(text_.substr(0, colon));
    effect(text_.substr(colon + 1), result);
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

  std::vector<std::int32_t> ranks(std::string_view text) const {
    const bool by_node = text.starts_with("node=");
    if (!by_node && !text.starts_with("rank=")) refuse();
    std::string_view rest;
    const int first = number<int>(text.substr(5), rest);
    int last = first;
    if (rest.starts_with("-")) last = number<int>(rest.substr(1), rest);
    if (!rest.empty() || first < 0) refuse();
    const int size = by_node ? layout_.gpus_per_node : 1;
    const int count = (layout_.world_size + size - 1) / size;
    if (last < first || last >= count) {
      fail(fmt::format("accepted: {}s 0 to {}, the lower one first", by_node ? "node" : "rank",
                       count - 1));
    }
    const int end = std::min((last + 1) * size, layout_.world_size);
    std::vector<std::int32_t> list(static_cast<std::size_t>(end - first * size));
    std::iota(list.begin(), list.end(), first * size);
    return list;
  }

  void effect(std::string_view text, Perturbation& result) const {
    if (text == "missing") {
      result.kind = Perturbation::Kind::missing;
    } else if (text.starts_with("slow=")) {
      std::string_view rest;
      result.kind = Perturbation::Kind::slow;
      result.speed = number<double>(text.substr(5), rest);
      if (!rest.empty() || !(result.speed >= 0.001 && result.speed <= 1)) {
        fail("slow is the speed that is left; accepted: 0.001 to 1");
      }
    } else if (text.starts_with("late=")) {
      result.kind = Perturbation::Kind::late;
      result.late = seconds(text.substr(5));
    } else {
      refuse();
    }
  }

  Seconds seconds(std::string_view text) const {
    static constexpr std::array<std::pair<std::string_view, double>, 4> units{
        {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}}};
    std::string_view unit;
    const double value = number<double>(text, unit);
    for (const auto& [name, factor] : units) {
      if (name != unit) continue;
      const double in_seconds = value * factor;
      if (in_seconds >= 0 && in_seconds <= 1e6) return in_seconds;
    }
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
  std::map<std::pair<Perturbation::Kind, std::int32_t>, std::string> said;
  for (const std::string& text : texts) {
    list.push_back(parse_perturbation(text, layout, where));
    for (const std::int32_t rank : list.back().ranks) {
      const auto [earlier, is_new] = said.emplace(std::pair(list.back().kind, rank), text);
      if (is_new) continue;
      throw InputError(where, fmt::format("'{}' says of rank {} what '{}' said already; accepted: "
                                          "each once",
                                          text, rank, earlier->second));
    }
  }
  return list;
}

}  // namespace stepcast
