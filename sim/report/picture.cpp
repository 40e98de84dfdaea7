#include "sim/report/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/report/step_view.hpp"

namespace stepcast {
namespace {

// XML text: names come from files.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// 1, 2 or 5 times a power of ten: a tick distance with six to fifteen ticks.
double tick_distance(double span) {
  const double raw = span / 8.0;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10.0 * power;
}

std::string time_text(Seconds seconds, Seconds span) {
  if (span >= 2.0) return fmt::format("{:.4g} s", seconds);
  if (span >= 2e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} µs", seconds * 1e6);
}

class Picture {
 public:
  Picture(const Schedule& schedule, const Timeline& timeline, const PictureOptions& options)
      : schedule_(schedule),
        options_(options),
        view_(schedule, timeline, options.step, options.role) {
    span_ = std::max(view_.end() - view_.begin(), 1e-12);
    plot_width_ = options.width - left - right;
  }

  std::string draw() {
    out_ = style();
    int y = top;
    for (const StepRow& row : view_.rows()) {
      draw_row(row, y);
      y += row_height;
    }
    y += 6;
    draw_axis(y);
    y += 34;
    if (!view_.memory().empty()) {
      draw_memory(y);
      y += memory_height + 20;
    }
    draw_legend(y);
    y += 30;
    return header(y) + out_ + "</svg>\n";
  }

 private:
  static constexpr int left = 150;
  static constexpr int right = 20;
  static constexpr int top = 46;
  static constexpr int row_height = 30;
  static constexpr int bar_height = 22;
  static constexpr int memory_height = 90;

  double x_of(Seconds t) const {
    return left + (std::clamp(t, view_.begin(), view_.end()) - view_.begin()) / span_ *
                      static_cast<double>(plot_width_);
  }

  std::string header(int height) const {
    const std::string title = options_.title.empty() ? schedule_.name : options_.title;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
               "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"Timeline of one step\">\n",
               options_.width, height) +
           fmt::format("<rect class=\"bg\" width=\"{}\" height=\"{}\"/>\n", options_.width,
                       height) +
           fmt::format("<text x=\"12\" y=\"24\" class=\"title\">{}</text>\n", escaped(title));
  }

  static std::string style() {
    return "<style>text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:600}"
           ".bg{fill:#fff}.grid{stroke:#ddd}.in{fill:#fff;font-size:11px}.lane{fill:#f4f4f6}"
           ".fwd{fill:#3d7ddb}.rec{fill:#6fb7d6}.bwd{fill:#28549b}.opt{fill:#7a4fb5}"
           ".ag{fill:#e08a1e}.rs{fill:#c8452f}.ar{fill:#b83280}.cp{fill:#8a8f98}.ho{fill:#5f9e6e}"
           ".mem{fill:#3d7ddb;fill-opacity:.25;stroke:#3d7ddb}.res{fill:none;stroke:#e08a1e}.cap{"
           "stroke:#c8452f;"
           "stroke-dasharray:5 4}"
           "@media(prefers-color-scheme:dark){text{fill:#ddd}.bg{fill:#16181d}.grid{stroke:#333}"
           ".lane{fill:#1e2128}}</style>\n";
  }

  void draw_row(const StepRow& row, int y) {
    out_ += fmt::format("<text x=\"12\" y=\"{}\">{}</text>\n", y + 16, escaped(row.label));
    out_ += fmt::format("<rect class=\"lane\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                        left, y, plot_width_, bar_height);
    // Rectangles of one colour that touch within a third of a pixel are one.
    double begin = 0;
    double end = -1;
    Shade shade = Shade::host;
    std::string tip;
    const auto flush = [&] {
      if (end <= begin) return;
      out_ += fmt::format(
          "<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"><title>{}"
          "</title></rect>\n",
          name_of(shade).key, begin, y, std::max(end - begin, 0.3), bar_height, escaped(tip));
    };
    for (const Span* span : row.spans) {
      const double x0 = x_of(span->start);
      const double x1 = x_of(span->end);
      const Shade now = shade_of(view_.op_of(*span));
      if (end > begin && now == shade && x0 - end < 0.34 && (x1 - x0 < 1.0 || end - begin < 1.0)) {
        end = std::max(end, x1);
        continue;
      }
      flush();
      begin = x0;
      end = x1;
      shade = now;
      tip = tip_of(*span);
      draw_label_later(*span, x0, x1, y);
    }
    flush();
    out_ += labels_;
    labels_.clear();
  }

  std::string tip_of(const Span& span) const {
    const Op& op = view_.op_of(span);
    std::string text = fmt::format("{} {}", to_string(op.phase), op.verb.str());
    if (op.unit >= 0) text += " " + schedule_.units[static_cast<std::size_t>(op.unit)].str();
    text += ": " + time_text(span.end - span.start, span_);
    if (op.kind == OpKind::collective) {
      text += fmt::format(", {:.1f} MB", static_cast<double>(bytes_of(op)) / 1e6);
    }
    return text;
  }

  void draw_label_later(const Span& span, double x0, double x1, int y) {
    const Op& op = view_.op_of(span);
    if (op.unit < 0) return;
    std::string name = schedule_.units[static_cast<std::size_t>(op.unit)].str();
    const std::size_t dot = name.rfind('.');
    if (dot != std::string::npos) name = name.substr(dot + 1);
    if (x1 - x0 < 7.0 * static_cast<double>(name.size()) + 4) return;
    labels_ += fmt::format(
        "<text class=\"in\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}"
        "</text>\n",
        (x0 + x1) / 2, y + 15, escaped(name));
  }

  void draw_axis(int y) {
    const double tick = tick_distance(span_);
    for (double t = 0; t <= span_ * 1.0001; t += tick) {
      const double x = x_of(view_.begin() + t);
      out_ += fmt::format(
          "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" "
          "y2=\"{2}\"/>\n",
          x, top - 8, y);
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x,
                          y + 16, time_text(t, span_));
    }
  }

  void draw_memory(int y) {
    Bytes most = options_.capacity;
    for (const MemorySample* sample : view_.memory()) most = std::max(most, sample->allocated);
    if (options_.replay != nullptr) most = std::max(most, options_.replay->peak_reserved);
    if (most == 0) return;
    const auto y_of = [&](Bytes bytes) {
      return y + memory_height * (1.0 - static_cast<double>(bytes) / static_cast<double>(most));
    };
    std::string path = fmt::format("M{} {}", left, y + memory_height);
    double last_y = y_of(view_.memory().front()->allocated);
    path += fmt::format(" V{:.1f}", last_y);
    std::size_t from = 0;
    for (const MemorySample* sample : view_.memory()) {
      const double x = x_of(view_.reached(sample->op, from));
      path += fmt::format(" H{:.1f} V{:.1f}", x, y_of(sample->allocated));
    }
    path += fmt::format(" H{} V{} Z", left + plot_width_, y + memory_height);
    out_ += fmt::format("<path class=\"mem\" d=\"{}\"/>\n", path);
    draw_reserved(y_of);
    out_ += fmt::format("<text x=\"12\" y=\"{}\">allocated</text>\n", y + 14);
    if (options_.replay != nullptr) {
      out_ += fmt::format("<text x=\"12\" y=\"{}\">and reserved (line)</text>\n", y + 46);
    }
    out_ += fmt::format("<text x=\"12\" y=\"{}\">to {:.1f} GB</text>\n", y + 30,
                        static_cast<double>(most) / 1e9);
    if (options_.capacity > 0) {
      const double line = y_of(options_.capacity);
      out_ += fmt::format("<line class=\"cap\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>\n",
                          left, line, left + plot_width_, line);
    }
  }

  template <typename YOf>
  void draw_reserved(const YOf& y_of) {
    if (options_.replay == nullptr) return;
    std::string path;
    std::size_t from = 0;
    Bytes last = -1;
    for (const ReservedSample& sample : options_.replay->samples) {
      if (sample.step != view_.step()) continue;
      const double x = path.empty() ? left : x_of(view_.reached(sample.op, from));
      if (path.empty()) path = fmt::format("M{:.1f} {:.1f}", x, y_of(sample.reserved));
      if (sample.reserved != last)
        path += fmt::format(" H{:.1f} V{:.1f}", x, y_of(sample.reserved));
      last = sample.reserved;
    }
    if (path.empty()) return;
    out_ += fmt::format("<path class=\"res\" d=\"{} H{}\"/>\n", path, left + plot_width_);
  }

  void draw_legend(int y) {
    int x = left;
    for (const ShadeName& name : shades) {
      out_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"12\"/>\n",
                          name.key, x, y);
      out_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x + 17, y + 11, name.legend);
      x += 34 + static_cast<int>(6.6 * static_cast<double>(std::string(name.legend).size()));
    }
  }

  const Schedule& schedule_;
  PictureOptions options_;
  StepView view_;
  Seconds span_ = 1;
  int plot_width_ = 0;
  std::string out_;
  std::string labels_;
};

}  // namespace

std::string to_picture(const Schedule& schedule, const Timeline& timeline,
                       const PictureOptions& options) {
  if (timeline.steps.empty()) return {};
  return Picture(schedule, timeline, options).draw();
}

}  // namespace stepcast
