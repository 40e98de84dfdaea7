#include "validate/published/record.hpp"

#include <fmt/format.h>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast {

namespace {

constexpr double tolerance = 0.3;

bool counts(const std::string& figure) {
  return figure.ends_with(".rows") || figure.ends_with(".count");
}

// How much worse `now` is than `was`, in the figure's unit; not above 0: it is not.
double worsening(const std::string& figure, double was, double now) {
  const bool more_is_better = counts(figure) || figure.ends_with(".right");
  return more_is_better ? was - now : now - was;
}

}  // namespace

std::vector<std::string> worse_than_recorded(const Ledger& ledger, std::string_view recorded,
                                             const std::string& file) {
  TomlTable table = TomlTable::from_text(recorded, file);
  const double allowed = table.number("tolerance", {.min = 0});
  std::vector<std::string> worse;
  for (const SourceResult& result : ledger.sources) {
    std::optional<TomlTable> figures = table.table(result.source.name);
    if (!figures) continue;
    for (const std::string& name : figures->keys()) {
      const double was = figures->number(name, {});
      const auto now = result.figures.find(name);
      if (now == result.figures.end()) {
        worse.push_back(
            fmt::format("{}: {} is gone; it was {:.2f}", result.source.name, name, was));
      } else if (worsening(name, was, now->second) > (counts(name) ? 0 : allowed)) {
        worse.push_back(fmt::format("{}: {} is {:.2f}; it was {:.2f}", result.source.name, name,
                                    now->second, was));
      }
    }
  }
  return worse;
}

std::string_view recorded_figures() {
  for (const embedded::File& f : embedded::published()) {
    if (f.name == "recorded.toml") return f.text;
  }
  STEPCAST_ASSERT(false, "no embedded recorded.toml");
}

std::string to_record(const Ledger& ledger) {
  std::string out = fmt::format(
      "# Written by `stepcast validate --published --record FILE`; record.hpp says what is worse.\n"
      "tolerance = {:g}\n",
      tolerance);
  for (const SourceResult& result : ledger.sources) {
    out += fmt::format("\n[{}]\n", result.source.name);
    for (const auto& [name, value] : result.figures) {
      // What a baseline says is no merit and no fault.
      if (name.starts_with("no_network") || name.starts_with("flops_only")) continue;
      if (name.starts_with("interval")) continue;  // more is not better, nor worse
      out += fmt::format("\"{}\" = {:.2f}\n", name, value);
    }
  }
  return out;
}

}  // namespace stepcast
