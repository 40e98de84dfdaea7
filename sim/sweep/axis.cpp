#include "sim/sweep/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "base/number_text.hpp"

namespace stepcast {
namespace {

constexpr std::size_t most_values = 100'000;

InputError refused(const std::string& text, const std::string& why) {
  return {vary_flag(), fmt::format("'{}': {}", text.substr(0, 80), why)};
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_ellipsis(const std::string& text) { return text == "..." || text == "\u2026"; }

class Parser {
 public:
  Parser(const std::string& text, SweepAxis& axis) : text_(text), axis_(axis) {}

  void values(const std::string& said) {
    const ScenarioKey& key = *axis_.key;
    if (key.is_list() || said.find(';') != std::string::npos) {
      for (const std::string& value : split(said, ';')) add(value);
      return;
    }
    const std::vector<std::string> parts = split(said, ',');
    const bool range = key.is_number() && said.find(':') != std::string::npos;
    if (range) {
      if (parts.size() > 1) throw refused(text_, "a range stands alone; accepted: LOW:HIGH:log10");
      add_range(split(said, ':'));
      return;
    }
    const auto gap = std::find_if(parts.begin(), parts.end(), is_ellipsis);
    if (gap == parts.end()) {
      for (const std::string& value : parts) add(value);
    } else {
      add_series({parts.begin(), gap}, {gap + 1, parts.end()});
    }
  }

 private:
  void add(const std::string& value) {
    if (value.empty()) throw refused(text_, "a value is missing; accepted: values between commas");
    Scenario scratch;
    axis_.key->set(scratch, value, vary_flag());
    try {
      axis_.key->check(scratch);
    } catch (const InputError& error) {
      const std::string why = error.what();
      throw refused(text_, why.substr(vary_flag().file.size() + 2));
    }
    const std::string canonical = axis_.key->text(scratch);
    if (std::find(axis_.values.begin(), axis_.values.end(), canonical) == axis_.values.end()) {
      axis_.values.push_back(canonical);
    }
  }

  void add(double value) {
    add(axis_.key->type() == KeyType::whole ? fmt::format("{:.0f}", value)
                                            : fmt::format("{}", value));
  }

  // 1,2,4,...,128
  void add_series(const std::vector<std::string>& before, const std::vector<std::string>& after) {
    const char* form = "accepted: two values or more before ... and the last one after it";
    if (!axis_.key->is_number() || before.size() < 2 || after.size() != 1) {
      throw refused(text_, form);
    }
    std::vector<double> list;
    for (const std::string& part : before) list.push_back(at(part));
    const double last = at(after.front());
    const std::size_t n = list.size();
    const double step = list[n - 1] - list[n - 2];
    const double factor = list[n - 2] == 0 ? 0 : list[n - 1] / list[n - 2];
    const auto same = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
    bool factors = n > 2 && factor > 0 && !same(factor, 1), distances = step != 0;
    for (std::size_t i = 2; i < n; ++i) {
      factors = factors && list[i - 2] != 0 && same(list[i - 1] / list[i - 2], factor);
      distances = distances && same(list[i - 1] - list[i - 2], step);
    }
    if (!factors && !distances) {
      throw refused(text_,
                    "values before ... grow neither by equal factors nor by equal distances");
    }
    const bool by_factors = factors && !distances;
    for (double value = list.back();;) {
      const double next = by_factors ? value * factor : value + step;
      const bool rising = by_factors ? factor > 1 : step > 0;
      if (rising == (next < value) || next == value || list.size() > most_values) {
        throw refused(text_, "the values do not lead to the last one");
      }
      if (same(next, last)) break;
      if (rising ? next > last : next < last) {
        throw refused(text_, fmt::format("the values before ... lead to {} and {}, not to {}",
                                         number_text(value), number_text(next), number_text(last)));
      }
      list.push_back(next);
      value = next;
    }
    list.push_back(last);
    for (const double value : list) add(value);
  }

  double at(const std::string& part) const {
    const std::optional<double> value = number(part);
    if (!value) throw refused(text_, fmt::format("'{}' is no number", part.substr(0, 40)));
    return *value;
  }

  // LOW:HIGH, LOW:HIGH:log10, LOW:HIGH:lin10, LOW:HIGH:step2, LOW:HIGH:log
  void add_range(const std::vector<std::string>& parts) {
    const char* form =
        "accepted: LOW:HIGH:log10, :lin10, :step2, or without a number with --sample";
    if (parts.size() < 2 || parts.size() > 3) throw refused(text_, form);
    const double low = at(parts[0]), high = at(parts[1]);
    if (high < low) throw refused(text_, "the range ends before it begins");
    const std::string how = parts.size() == 3 ? parts[2] : "";
    const bool logarithmic = how.starts_with("log");
    const bool linear = how.empty() || how.starts_with("lin");
    const bool stepped = how.starts_with("step");
    if (!logarithmic && !linear && !stepped) throw refused(text_, form);
    if (logarithmic && low <= 0) throw refused(text_, "equal factors need a range above 0");
    const bool whole = axis_.key->type() == KeyType::whole;
    if (whole && (low != std::floor(low) || high != std::floor(high))) {
      throw refused(text_, fmt::format("{} takes whole numbers", axis_.name()));
    }
    axis_.span = SweepAxis::Span{low, high, logarithmic};
    check_ends(low, high);
    const std::string count = how.empty() ? "" : how.substr(stepped ? 4 : 3);
    if (!count.empty() || stepped) {
      const std::optional<double> n = number(count);
      if (!n || *n <= 0) throw refused(text_, form);
      stepped ? add_steps(low, high, *n) : add_points(low, high, *n, logarithmic);
    } else if (how.empty() && whole) {
      add_steps(low, high, 1);
    }
  }

  void check_ends(double low, double high) {
    SweepAxis ends{axis_.key, {}, {}};
    Parser check(text_, ends);
    check.add(low);
    check.add(high);
  }

  void add_steps(double low, double high, double step) {
    const double count = std::floor((high - low) / step * (1 + 1e-12)) + 1;
    if (count > most_values) throw refused(text_, "more than 100,000 values");
    for (int i = 0; i < static_cast<int>(count); ++i) add(low + i * step);
  }

  void add_points(double low, double high, double n, bool logarithmic) {
    if (n != std::floor(n) || n < 2 || n > most_values) {
      throw refused(text_, "accepted: 2 to 100000 values");
    }
    const int count = static_cast<int>(n);
    const bool whole = axis_.key->type() == KeyType::whole;
    for (int i = 0; i < count; ++i) {
      const double u = i / (n - 1);
      double value = logarithmic ? low * std::pow(high / low, u) : low + u * (high - low);
      value = whole ? std::round(value) : *number(fmt::format("{:.4g}", value));
      add(i == 0 ? low : i == count - 1 ? high : value);
    }
  }

  const std::string& text_;
  SweepAxis& axis_;
};

}  // namespace

Where vary_flag() { return {.file = "--vary", .line = 0, .key = ""}; }

SweepAxis parse_axis(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == text.size()) {
    throw refused(text, "accepted: KEY=VALUES, as nodes=1,2,4 or bucket_cap_mb=1:200:log10");
  }
  std::string name = text.substr(0, sign);
  std::replace(name.begin(), name.end(), '-', '_');
  SweepAxis axis;
  axis.key = &scenario_key(name, vary_flag());
  Parser(text, axis).values(text.substr(sign + 1));
  return axis;
}

std::string value_at(const SweepAxis& axis, double u) {
  if (!axis.span) {
    const auto n = static_cast<double>(axis.values.size());
    return axis.values[static_cast<std::size_t>(std::min(n - 1, std::floor(u * n)))];
  }
  const SweepAxis::Span& s = *axis.span;
  if (axis.key->type() != KeyType::whole) {
    const double value =
        s.logarithmic ? s.low * std::pow(s.high / s.low, u) : s.low + u * (s.high - s.low);
    return fmt::format("{}", *number(fmt::format("{:.4g}", value)));
  }
  // Every whole number has a piece of the span of its own, half a step to either side.
  const double low = s.low - (s.logarithmic ? 0.5 : 0), high = s.high + (s.logarithmic ? 0.5 : 1);
  const double value = s.logarithmic ? std::round(low * std::pow(high / low, u))
                                     : std::floor(low + u * (high - low));
  return fmt::format("{:.0f}", std::clamp(value, s.low, s.high));
}

}  // namespace stepcast
