// The calibration file, written: shapes of one kind and dtype become one table of columns.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "sim/calibration/calibration.hpp"

namespace stepcast {

namespace {

using Shape = MeasuredKernels::Shape;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + "\"";
}

std::string key(const char* name, const std::string& text) {
  return text.empty() ? "" : fmt::format("{} = {}\n", name, quoted(text));
}

template <typename Rows, typename Value>
std::string column(const char* name, const Rows& rows, Value&& value) {
  std::string out = fmt::format("{} = [", name);
  bool first = true;
  for (const auto& row : rows) {
    out += (first ? "" : ", ") + fmt::format("{}", value(row));
    first = false;
  }
  return out + "]\n";
}

std::string six(double value) { return fmt::format("{:.6g}", value); }
double rounded(const std::string& digits) { return std::strtod(digits.c_str(), nullptr); }

std::string time_columns(const std::vector<Shape>& rows) {
  std::string out = column("time_us", rows, [](const Shape& s) { return six(s.seconds * 1e6); });
  const bool spread =
      std::any_of(rows.begin(), rows.end(), [](const Shape& s) { return s.spread > 0; });
  if (spread) {
    out += column("spread", rows, [](const Shape& s) { return fmt::format("{:.3g}", s.spread); });
  }
  return out;
}

// Products, convolutions, attention: the order in which they are read.
int order_of(KernelKind kind) {
  return kind == KernelKind::gemm ? 0 : kind == KernelKind::convolution ? 1 : 2;
}

// Shapes that share a table, in the order in which they were first seen.
std::vector<std::vector<Shape>> tables_of(const std::vector<Shape>& shapes) {
  std::vector<std::vector<Shape>> tables;
  for (const Shape& s : shapes) {
    const auto shares = [&](const std::vector<Shape>& table) {
      const Kernel& a = table.front().shape;
      const Kernel& b = s.shape;
      return a.kind == b.kind && a.dtype == b.dtype && a.causal == b.causal && a.fused == b.fused;
    };
    const auto known = std::find_if(tables.begin(), tables.end(), shares);
    if (known == tables.end()) {
      tables.push_back({s});
    } else {
      known->push_back(s);
    }
  }
  std::stable_sort(tables.begin(), tables.end(),
                   [](const std::vector<Shape>& a, const std::vector<Shape>& b) {
                     return order_of(a.front().shape.kind) < order_of(b.front().shape.kind);
                   });
  return tables;
}

std::string shapes_text(const std::vector<Shape>& rows) {
  const Kernel& one = rows.front().shape;
  const auto size = [&](const char* name, std::int64_t Kernel::*member) {
    return column(name, rows, [member](const Shape& s) { return s.shape.*member; });
  };
  const bool attends =
      one.kind == KernelKind::attention_forward || one.kind == KernelKind::attention_backward;
  const char* heading = attends                               ? "attention"
                        : one.kind == KernelKind::convolution ? "convolution"
                                                              : "gemm";
  std::string out = fmt::format("\n[[{}]]\ndtype = \"{}\"\n", heading, to_string(one.dtype));
  if (attends) {
    out += fmt::format("pass = \"{}\"\ncausal = {}\nfused = {}\n",
                       one.kind == KernelKind::attention_forward ? "forward" : "backward",
                       one.causal, one.fused);
    out += size("batch", &Kernel::batch) + size("heads", &Kernel::heads) +
           size("kv_heads", &Kernel::kv_heads) + size("queries", &Kernel::m) +
           size("keys", &Kernel::n) + size("head_size", &Kernel::k);
  } else {
    out += size("m", &Kernel::m) + size("n", &Kernel::n) + size("k", &Kernel::k);
    if (one.kind == KernelKind::convolution) {
      out +=
          size("bytes_read", &Kernel::bytes_read) + size("bytes_written", &Kernel::bytes_written);
    } else {
      out += size("batch", &Kernel::batch);
    }
  }
  return out + time_columns(rows);
}

std::string memory_text(const MeasuredKernels::Series& series) {
  std::string out = "\n[[memory_kernel]]\n" + key("name", series.kernel.str());
  const auto self = [](auto value) { return value; };
  out += column("bytes", series.bytes, self);
  out += column("time_us", series.seconds, [](Seconds s) { return six(s * 1e6); });
  const auto known = [](double spread) { return spread > 0; };
  if (std::any_of(series.spread.begin(), series.spread.end(), known)) {
    out += column("spread", series.spread, [](double s) { return fmt::format("{:.3g}", s); });
  }
  return out;
}

std::string overlap_text(const std::vector<CalibratedOverlap>& overlaps) {
  const auto of = [&](const char* name, double CalibratedOverlap::*member) {
    return column(name, overlaps, [member](const CalibratedOverlap& o) { return six(o.*member); });
  };
  const bool memory = std::all_of(overlaps.begin(), overlaps.end(),
                                  [](const auto& o) { return o.memory_slowdown.has_value(); });
  std::string out = "\n[interference]\n" + of("channels", &CalibratedOverlap::channels) +
                    of("compute_slowdown", &CalibratedOverlap::compute_slowdown);
  if (memory) {
    out += column("memory_slowdown", overlaps,
                  [](const CalibratedOverlap& o) { return six(*o.memory_slowdown); });
  }
  return out + of("collective_slowdown", &CalibratedOverlap::collective_slowdown);
}

}  // namespace

std::string to_toml(const Calibration& c) {
  std::string out =
      "# Measured on one machine; `stepcast simulate --calibration FILE` puts it before the models."
      "\n# Keys: docs/calibration.md.\nschema = \"stepcast.calibration/1\"\n\n[machine]\n";
  const CalibrationOrigin& o = c.origin;
  out += fmt::format("name = {}\ndevice = {}\n", quoted(o.name), quoted(o.device));
  out += key("gpu", o.gpu) + key("driver", o.driver);
  out += fmt::format("executor = {}\nsource = {}\ndate = {}\n", quoted(o.executor),
                     quoted(o.source), quoted(o.date));
  if (!o.versions.empty()) out += column("versions", o.versions, quoted);
  const std::pair<const char*, const std::optional<double>*> host[] = {
      {"launch_us", &c.host.launch_us},
      {"bare_launch_us", &c.host.bare_launch_us},
      {"op_overhead_us", &c.host.op_overhead_us}};
  std::string lines;
  for (const auto& [name, value] : host) {
    if (*value) lines += fmt::format("{} = {}\n", name, six(**value));
  }
  if (!lines.empty()) out += "\n[host]\n" + lines;
  if (c.kernels.memory_bytes_per_second > 0) {
    out += fmt::format("\n[memory]\ngbps = {}\n", six(c.kernels.memory_bytes_per_second * 1e-9));
  }
  for (const std::vector<Shape>& table : tables_of(c.kernels.shapes)) out += shapes_text(table);
  for (const MeasuredKernels::Series& series : c.kernels.memory) out += memory_text(series);
  for (MeasuredTable::Series series : c.collectives.series()) {
    for (double& us : series.time_us) us = rounded(six(us));
    for (double& spread : series.spread) spread = rounded(fmt::format("{:.3g}", spread));
    out += "\n[[collective]]\n" + MeasuredTable::lines_of(series);
  }
  if (!c.overlaps.empty()) out += overlap_text(c.overlaps);
  return out;
}

}  // namespace stepcast
