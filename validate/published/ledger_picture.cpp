#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "validate/published/ledger.hpp"

namespace stepcast {

namespace {

constexpr double panel = 420;  // pixels a side
constexpr double margin = 60;
// Of sources, in their order; readable on white and on black.
constexpr std::array<const char*, 8> colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                "#e69f00", "#56b4e9", "#999999", "#a05050"};

struct Axis2 {
  double low, high;  // of the logarithm (base 10) or of the value
  double at;         // pixels where it begins
  bool down;         // y grows downwards
  double pixel(double v) const {
    const double share = std::clamp((v - low) / (high - low), 0.0, 1.0);
    return down ? at + panel * (1 - share) : at + panel * share;
  }
};

class Picture {
 public:
  explicit Picture(const Ledger& ledger) : ledger_(ledger) {
    for (const SourceResult& result : ledger.sources) {
      for (const Outcome& o : result.outcomes) {
        if (o.measured == 0) continue;
        least_ = std::min({least_, o.measured, o.forecast});
        most_ = std::max({most_, o.measured, o.forecast});
        gpus_ = std::max(gpus_, static_cast<double>(o.gpus));
      }
    }
  }

  std::string draw() {
    const double low = std::floor(std::log10(least_)), high = std::ceil(std::log10(most_));
    const Axis2 x{low, high, margin, false}, y{low, high, 40, true};
    const double second = 2 * margin + panel + 20;
    const Axis2 scale{0, std::ceil(std::log2(gpus_)), second, false}, error{-30, 30, 40, true};
    frame(margin, "measured step time, s", "forecast, s");
    frame(second, "GPUs", "error of the step time, %");
    for (double p = low; p <= high; ++p) {
      const std::string text = fmt::format("{:g}", std::pow(10, p));
      label(x.pixel(p), 40 + panel + 16, text, "middle");
      label(margin - 6, y.pixel(p) + 4, text, "end");
    }
    for (double p = 0; p <= scale.high; p += 2) {
      label(scale.pixel(p), 40 + panel + 16, fmt::format("{:g}", std::exp2(p)), "middle");
    }
    for (double e = -30; e <= 30; e += 10) {
      label(second - 6, error.pixel(e) + 4, fmt::format("{:+g}", e), "end");
    }
    line(margin, 40 + panel, margin + panel, 40);
    line(second, error.pixel(0), second + panel, error.pixel(0));
    std::size_t i = 0;
    for (const SourceResult& result : ledger_.sources) {
      const char* colour = colours.at(i % colours.size());
      bool any = false;
      for (const Outcome& o : result.outcomes) {
        if (o.measured == 0) continue;
        any = true;
        const bool check = o.row->split == Split::check;
        dot(x.pixel(std::log10(o.measured)), y.pixel(std::log10(o.forecast)), colour, check);
        dot(scale.pixel(std::log2(o.gpus)), error.pixel(o.error() * 100), colour, check);
      }
      if (any) {
        const double left = margin + 120 * static_cast<double>(i);
        dot(left, 12, colour, true);
        label(left + 8, 16, result.source.name, "start");
        ++i;
      }
    }
    const double width = second + panel + 20;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
               "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<style>text{{fill:#222}}path,rect{{stroke:#888;fill:none}}"
               "@media(prefers-color-scheme:dark){{text{{fill:#ddd}}}}</style>\n"
               "<title>Forecast against measured step time; full dots were never fitted</title>\n",
               width, panel + 90) +
           out_ + "</svg>\n";
  }

 private:
  void frame(double left, const char* below, const char* beside) {
    out_ += fmt::format("<rect x=\"{:g}\" y=\"40\" width=\"{:g}\" height=\"{:g}\"/>\n", left, panel,
                        panel);
    label(left + panel / 2, 40 + panel + 36, below, "middle");
    label(left, 34, beside, "start");
  }
  void label(double x, double y, const std::string& text, const char* anchor) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                        anchor, text);
  }
  void line(double x0, double y0, double x1, double y1) {
    out_ += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", x0, y0, x1, y1);
  }
  void dot(double x, double y, const char* colour, bool full) {
    out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" stroke=\"{}\" fill=\"{}\"/>\n",
                        x, y, colour, full ? colour : "none");
  }

  const Ledger& ledger_;
  double least_ = 1e9, most_ = 1e-9, gpus_ = 2;
  std::string out_;
};

}  // namespace

std::string to_picture(const Ledger& ledger) { return Picture(ledger).draw(); }

}  // namespace stepcast
