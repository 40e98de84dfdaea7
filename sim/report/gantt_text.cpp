#include "sim/report/gantt_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/report/format.hpp"

namespace stepcast {

namespace {

// Of the 256 colours of a terminal, the nearest to the page's that read on dark and on light.
constexpr int colours[] = {68, 73, 61, 97, 172, 167, 132, 245, 71};

// How long each shade ran in one column.
struct Cell {
  std::array<Seconds, shades.size()> seconds{};

  Seconds busy() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }
  Shade longest() const {
    return static_cast<Shade>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
  }
};

class Gantt {
 public:
  Gantt(const Schedule& schedule, const Timeline& timeline, const GanttOptions& options)
      : options_(options), view_(schedule, timeline) {
    for (const StepRow& row : view_.rows()) margin_ = std::max(margin_, row.label.size());
    margin_ = std::min(margin_, most_margin) + 2;
    columns_ = static_cast<std::size_t>(std::max(options.width, 40)) - margin_;
    slice_ = (view_.end() - view_.begin()) / static_cast<double>(columns_);
  }

  std::string draw() {
    std::string out = axis();
    for (const StepRow& row : view_.rows()) {
      out += padded(row.label.substr(0, most_margin), margin_) + line(cells_of(row)) + "\n";
    }
    return out + legend();
  }

 private:
  static constexpr std::size_t most_margin = 18;

  std::vector<Cell> cells_of(const StepRow& row) {
    std::vector<Cell> cells(columns_);
    if (!(slice_ > 0)) return cells;
    for (const Span* span : row.spans) {
      const Shade shade = shade_of(view_.op_of(*span));
      seen_[static_cast<std::size_t>(shade)] = true;
      const Seconds begin = std::max(span->start, view_.begin()) - view_.begin();
      const Seconds end = std::min(span->end, view_.end()) - view_.begin();
      auto column = std::min(columns_ - 1, static_cast<std::size_t>(begin / slice_));
      for (; column < columns_ && static_cast<double>(column) * slice_ < end; ++column) {
        const Seconds from = std::max(begin, static_cast<double>(column) * slice_);
        const Seconds to = std::min(end, static_cast<double>(column + 1) * slice_);
        cells[column].seconds[static_cast<std::size_t>(shade)] += std::max(0.0, to - from);
      }
    }
    return cells;
  }

  std::string line(const std::vector<Cell>& cells) const {
    static constexpr const char* blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                             "\u2585", "\u2586", "\u2587", "\u2588"};
    std::string out;
    int colour = -1;  // that is on
    for (const Cell& cell : cells) {
      const double share = cell.busy() / slice_;
      if (!(share > 0)) {
        out += options_.colour ? ' ' : '.';
        continue;
      }
      const Shade shade = cell.longest();
      if (options_.colour) {
        const int now = colours[static_cast<std::size_t>(shade)];
        if (now != colour) out += fmt::format("\x1b[38;5;{}m", now);
        colour = now;
        out += blocks[std::clamp(static_cast<int>(std::lround(share * 8)) - 1, 0, 7)];
      } else {
        const char letter = name_of(shade).letter;
        out += share >= 0.5 ? letter : static_cast<char>(letter - 'A' + 'a');
      }
    }
    if (colour >= 0) out += "\x1b[0m";
    while (out.ends_with(' ')) out.pop_back();
    return out;
  }

  // The step's time at both ends and between.
  std::string axis() const {
    const Seconds period = view_.end() - view_.begin();
    const bool seconds = period >= 10, micro = period < 1e-3;
    const double scale = seconds ? 1 : micro ? 1e6 : 1e3;
    // Never with an exponent: a step of 7.6 s stands as 7564 ms.
    const auto number = [&](double value, int digits) {
      return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}g}", value, digits);
    };
    const std::string last = fmt::format("{} {}", number(period * scale, 4),
                                         seconds ? "s"
                                         : micro ? "us"
                                                 : "ms");
    std::string out(columns_, ' ');
    const auto put = [&](std::size_t at, const std::string& text) {
      if (at + text.size() <= out.size()) out.replace(at, text.size(), text);
    };
    for (int quarter = 0; quarter < 4; ++quarter) {
      const std::size_t at = columns_ * static_cast<std::size_t>(quarter) / 4;
      const std::string text = number(period * scale * quarter / 4, 3);
      if (at + text.size() + 1 < columns_ - last.size()) put(at, text);
    }
    put(columns_ - std::min(columns_, last.size()), last);
    return std::string(margin_, ' ') + out + "\n";
  }

  // The letters or colours that were used, as many a line as there is room for.
  std::string legend() const {
    const std::string indent(margin_, ' ');
    std::string out, line;
    std::size_t taken = 0;
    for (const ShadeName& name : shades) {
      if (!seen_[static_cast<std::size_t>(name.shade)]) continue;
      const std::string_view words = name.legend;
      const std::size_t length = 2 + words.size();
      if (taken > 0 && taken + 2 + length > columns_) {
        out += indent + line + "\n";
        line.clear();
        taken = 0;
      }
      if (taken > 0) line += "  ";
      line += options_.colour ? fmt::format("\x1b[38;5;{}m\u2588\x1b[0m {}",
                                            colours[static_cast<std::size_t>(name.shade)], words)
                              : fmt::format("{} {}", name.letter, words);
      taken += length + (taken > 0 ? 2 : 0);
    }
    return line.empty() ? out : out + indent + line + "\n";
  }

  GanttOptions options_;
  StepView view_;
  std::size_t margin_ = 0;
  std::size_t columns_ = 0;
  Seconds slice_ = 0;
  std::array<bool, shades.size()> seen_{};
};

}  // namespace

std::string gantt_text(const Schedule& schedule, const Timeline& timeline,
                       const GanttOptions& options) {
  return Gantt(schedule, timeline, options).draw();
}

}  // namespace stepcast
