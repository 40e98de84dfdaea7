// The SVG: CPUs on top, below each its PCIe tree, a column a leaf; GPUs and NICs on one line at the
// bottom, NVSwitch below them, NVLinks between GPUs as arcs. Links are labelled with GB/s.

#include "topologies/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace stepcast {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string link_label(const Link& link) {
  switch (link.kind) {
    case LinkKind::nvlink: return fmt::format("NV{}", link.count);
    case LinkKind::c2c: return fmt::format("C2C {:.4g}", link.gbps);
    case LinkKind::pcie:
      if (link.pcie_generation == 0) return "";
      return fmt::format("Gen{} x{}", link.pcie_generation, link.pcie_width);
    case LinkKind::socket: return link.gbps > 0 ? fmt::format("{:.4g} GB/s", link.gbps) : "";
  }
  return "";
}

const char* colour(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu: return "#76b900";
    case DeviceKind::nvswitch: return "#b7df73";
    case DeviceKind::pcie_switch: return "#d0d7de";
    case DeviceKind::cpu: return "#8ab4f8";
    case DeviceKind::nic: return "#f4b266";
  }
  return "#ffffff";
}

std::string device_label(const Device& d) {
  if (d.kind == DeviceKind::nic) return fmt::format("{} {:.4g}G", d.name, d.nic_gbps * 8);
  return d.name;
}

struct Place {
  double x = 0;
  double y = 0;
};

class Picture {
 public:
  explicit Picture(const Machine& machine) : m_(machine) {}

  std::string draw() {
    std::vector<Vertex> cpus;
    for (const Vertex v : boost::make_iterator_range(boost::vertices(m_.graph))) {
      if (m_.graph[v].kind == DeviceKind::cpu) cpus.push_back(v);
    }
    for (const Vertex cpu : cpus) depth_ = std::max(depth_, depth_of(cpu, cpu));
    for (const Vertex cpu : cpus) lay_out(cpu, cpu, 0);
    for (const Vertex v : boost::make_iterator_range(boost::vertices(m_.graph))) {
      if (m_.graph[v].kind != DeviceKind::nvswitch) continue;
      places_[v] = {std::max(column_ - 1, 0) * step_x / 2.0 + margin, y_of(depth_ + 1)};
    }
    const double width = margin * 2 + std::max(column_ - 1, 0) * step_x;
    const double height = y_of(depth_ + 1) + margin;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
        "height=\"{:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{}</title>\n",
        width, height, width, height, escaped(m_.full_name));
    for (const auto edge : boost::make_iterator_range(boost::edges(m_.graph))) {
      draw_link(out, boost::source(edge, m_.graph), boost::target(edge, m_.graph), m_.graph[edge]);
    }
    for (const auto& [v, place] : places_) draw_device(out, m_.graph[v], place);
    return out + "</svg>\n";
  }

 private:
  static constexpr double margin = 60;
  static constexpr double step_x = 84;
  static constexpr double step_y = 92;

  static double y_of(int level) { return margin / 2 + level * step_y; }

  std::vector<Vertex> below(Vertex v, Vertex parent) const {
    std::vector<Vertex> out;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(v, m_.graph))) {
      const Vertex other = boost::target(edge, m_.graph);
      const bool down = m_.graph[edge].kind == LinkKind::pcie && other != parent &&
                        m_.graph[other].kind != DeviceKind::cpu;
      if (down) out.push_back(other);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  int depth_of(Vertex v, Vertex parent) const {
    int deepest = 0;
    for (const Vertex child : below(v, parent)) {
      deepest = std::max(deepest, 1 + depth_of(child, v));
    }
    return deepest;
  }

  void lay_out(Vertex v, Vertex parent, int level) {
    const std::vector<Vertex> children = below(v, parent);
    const DeviceKind kind = m_.graph[v].kind;
    const bool leaf = kind == DeviceKind::gpu || kind == DeviceKind::nic;
    if (children.empty()) {
      places_[v] = {margin + column_++ * step_x, y_of(leaf ? depth_ : level)};
      return;
    }
    double sum = 0;
    for (const Vertex child : children) {
      lay_out(child, v, level + 1);
      sum += places_[child].x;
    }
    places_[v] = {sum / static_cast<double>(children.size()), y_of(level)};
  }

  void draw_link(std::string& out, Vertex a, Vertex b, const Link& link) {
    if (a == b || places_.count(a) == 0 || places_.count(b) == 0) return;
    const Place p = places_[a];
    const Place q = places_[b];
    const bool flat = p.y == q.y;
    const double bow = !flat ? 0 : link.kind == LinkKind::nvlink ? step_y * 0.8 : -step_y * 0.3;
    const char* stroke = link.kind == LinkKind::nvlink ? "#4c7a00"
                         : link.kind == LinkKind::pcie ? "#57606a"
                                                       : "#3367d6";
    const double mid_x = (p.x + q.x) / 2;
    const double mid_y = (p.y + q.y) / 2 + bow;
    out += fmt::format(
        "<path d=\"M{:.0f} {:.0f} Q{:.0f} {:.0f} {:.0f} {:.0f}\" fill=\"none\" stroke=\"{}\"/>\n",
        p.x, p.y, mid_x, mid_y, q.x, q.y, stroke);
    if (flat) return;  // arcs lie too close for text
    out += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"9\" fill=\"{}\" text-anchor=\"middle\">"
        "{}</text>\n",
        p.x + (q.x - p.x) * 0.35, p.y + (q.y - p.y) * 0.35, stroke, escaped(link_label(link)));
  }

  static void draw_device(std::string& out, const Device& d, const Place& place) {
    out += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"76\" height=\"24\" rx=\"4\" fill=\"{}\"/>\n"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
        place.x - 38, place.y - 12, colour(d.kind), place.x, place.y + 4, escaped(device_label(d)));
  }

  const Machine& m_;
  std::map<Vertex, Place> places_;
  int column_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string to_dot(const Machine& machine) {
  std::string out = "graph machine {\n  node [shape=box, style=filled];\n";
  for (const Vertex v : boost::make_iterator_range(boost::vertices(machine.graph))) {
    const Device& d = machine.graph[v];
    out += fmt::format("  {} [label=\"{}\", fillcolor=\"{}\"];\n", d.name, device_label(d),
                       colour(d.kind));
  }
  for (const auto edge : boost::make_iterator_range(boost::edges(machine.graph))) {
    const Link& link = machine.graph[edge];
    out += fmt::format("  {} -- {} [label=\"{}\"{}];\n",
                       machine.graph[boost::source(edge, machine.graph)].name,
                       machine.graph[boost::target(edge, machine.graph)].name, link_label(link),
                       link.kind == LinkKind::nvlink ? ", color=\"#4c7a00\"" : "");
  }
  return out + "}\n";
}

std::string to_svg(const Machine& machine) { return Picture(machine).draw(); }

}  // namespace stepcast
