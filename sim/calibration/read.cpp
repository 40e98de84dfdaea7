// The calibration file, read: parallel arrays, a row an entry.

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/whole.hpp"
#include "sim/calibration/calibration.hpp"

namespace stepcast {

namespace {

constexpr std::string_view schema = "stepcast.calibration/1";
constexpr TomlTable::Bounds any_us{0, 1e12};
constexpr TomlTable::Bounds any_spread{0, 1e6};
constexpr TomlTable::Bounds any_size{1, 1e15};

// The columns of one [[...]] table: arrays of one length.
class Columns {
 public:
  // `rows` is how many there are, decided by the key that must be there.
  Columns(TomlTable& table, const char* key) : table_(table), key_(key) {
    rows_ = table.numbers(key).size();
    if (rows_ == 0) {
      throw InputError(table.where(key), "is missing or empty; accepted: at least one value");
    }
  }

  std::size_t rows() const { return rows_; }

  std::vector<double> numbers(const char* key, TomlTable::Bounds bounds) {
    std::vector<double> column = table_.numbers(key);
    if (column.size() != rows_) {
      throw InputError(table_.where(key),
                       fmt::format("has {} values where {} has {}; accepted: one "
                                   "each",
                                   column.size(), key_, rows_));
    }
    for (const double value : column) {
      if (value >= bounds.min && value <= bounds.max) continue;
      throw InputError(table_.where(key), fmt::format("{} is out of range; accepted: {} to {}",
                                                      value, bounds.min, bounds.max));
    }
    return column;
  }

  std::vector<double> numbers_or(const char* key, double fallback, TomlTable::Bounds bounds) {
    if (table_.numbers(key).empty()) return std::vector<double>(rows_, fallback);  // asked for
    return numbers(key, bounds);
  }

  std::vector<std::int64_t> sizes(const char* key) { return whole(key, numbers(key, any_size)); }

  std::vector<std::int64_t> sizes_or(const char* key, std::int64_t fallback) {
    return whole(key, numbers_or(key, static_cast<double>(fallback), any_size));
  }

  // More than 0; microseconds in the file.
  std::vector<Seconds> times() {
    std::vector<double> us = numbers("time_us", any_us);
    for (double& value : us) {
      if (value <= 0) {
        throw InputError(table_.where("time_us"), "0 is out of range; accepted: more than 0 us");
      }
      value *= 1e-6;
    }
    return us;
  }

 private:
  std::vector<std::int64_t> whole(const char* key, const std::vector<double>& values) {
    std::vector<std::int64_t> out;
    for (const double value : values) {
      const auto exact = exact_integer(value);
      if (!exact) {
        throw InputError(table_.where(key),
                         fmt::format("{} is no whole number; accepted: whole numbers", value));
      }
      out.push_back(*exact);
    }
    return out;
  }

  TomlTable& table_;
  const char* key_;
  std::size_t rows_ = 0;
};

Dtype read_dtype(TomlTable& table) {
  const std::string text = table.string("dtype");
  const std::optional<Dtype> dtype = parse_dtype(text);
  if (!dtype) {
    throw not_accepted(table.where("dtype"), text, {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8"});
  }
  return *dtype;
}

void add_shapes(Columns& columns, const std::vector<Kernel>& shapes, Calibration& c) {
  const std::vector<Seconds> seconds = columns.times();
  const std::vector<double> spread = columns.numbers_or("spread", 0, any_spread);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    c.kernels.shapes.push_back({shapes[i], seconds[i], spread[i]});
  }
}

void read_gemms(TomlTable& table, Calibration& c) {
  const Dtype dtype = read_dtype(table);
  Columns columns(table, "m");
  const auto m = columns.sizes("m"), n = columns.sizes("n"), k = columns.sizes("k");
  const auto batch = columns.sizes_or("batch", 1);
  std::vector<Kernel> shapes;
  for (std::size_t i = 0; i < m.size(); ++i) {
    shapes.push_back(gemm("calibration", dtype, m[i], n[i], k[i], batch[i]));
  }
  add_shapes(columns, shapes, c);
}

void read_convolutions(TomlTable& table, Calibration& c) {
  const Dtype dtype = read_dtype(table);
  Columns columns(table, "m");
  const auto m = columns.sizes("m"), n = columns.sizes("n"), k = columns.sizes("k");
  const auto read = columns.sizes("bytes_read"), written = columns.sizes("bytes_written");
  std::vector<Kernel> shapes;
  for (std::size_t i = 0; i < m.size(); ++i) {
    Kernel shape = gemm("calibration", dtype, m[i], n[i], k[i]);
    shape.kind = KernelKind::convolution;
    shape.bytes_read = read[i];
    shape.bytes_written = written[i];
    shapes.push_back(shape);
  }
  add_shapes(columns, shapes, c);
}

void read_attentions(TomlTable& table, Calibration& c) {
  const Dtype dtype = read_dtype(table);
  const std::string pass = table.string("pass");
  if (pass != "forward" && pass != "backward") {
    throw not_accepted(table.where("pass"), pass, {"forward", "backward"});
  }
  const KernelKind kind =
      pass == "forward" ? KernelKind::attention_forward : KernelKind::attention_backward;
  const bool causal = table.boolean_or("causal", false);
  const bool fused = table.boolean_or("fused", true);
  Columns columns(table, "batch");
  const auto batch = columns.sizes("batch"), heads = columns.sizes("heads"),
             queries = columns.sizes("queries"), keys = columns.sizes("keys"),
             head_size = columns.sizes("head_size");
  const auto kv_heads = table.numbers("kv_heads").empty() ? heads : columns.sizes("kv_heads");
  std::vector<Kernel> shapes;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    shapes.push_back(attention("calibration", kind, dtype, batch[i], heads[i], kv_heads[i],
                               queries[i], keys[i], head_size[i], causal, fused));
  }
  add_shapes(columns, shapes, c);
}

void read_memory_kernels(TomlTable& table, Calibration& c) {
  MeasuredKernels::Series series;
  series.kernel = Name(table.string_or("name", ""));
  Columns columns(table, "bytes");
  series.bytes = columns.sizes("bytes");
  series.seconds = columns.times();
  series.spread = columns.numbers_or("spread", 0, any_spread);
  for (std::size_t i = 1; i < series.bytes.size(); ++i) {
    if (series.bytes[i] > series.bytes[i - 1]) continue;
    throw InputError(table.where("bytes"),
                     fmt::format("{} is out of order; accepted: rising sizes", series.bytes[i]));
  }
  for (const MeasuredKernels::Series& known : c.kernels.memory) {
    if (known.kernel != series.kernel) continue;
    throw InputError(table.where("bytes"),
                     fmt::format("there is a table of {} already; accepted: one a name",
                                 series.kernel.empty() ? "nameless kernels" : series.kernel.str()));
  }
  c.kernels.memory.push_back(std::move(series));
}

void read_collective(TomlTable& table, Calibration& c) {
  MeasuredTable::Series series = MeasuredTable::read_series(table);
  const int ranks = series.ranks, nodes = series.nodes, siblings = series.siblings;
  if (!c.collectives.add(std::move(series))) {
    throw InputError(table.where("op"),
                     fmt::format("is there twice for {} ranks on {} nodes with {} at work", ranks,
                                 nodes, siblings));
  }
}

void read_overlap(TomlTable& table, Calibration& c) {
  Columns columns(table, "channels");
  const auto channels = columns.numbers("channels", {1, 1e6});
  const auto compute = columns.numbers("compute_slowdown", {0.01, 1e6});
  const bool has_memory = table.has("memory_slowdown");
  const auto memory = columns.numbers_or("memory_slowdown", 1, {0.01, 1e6});
  const auto collective = columns.numbers_or("collective_slowdown", 1, {0.01, 1e6});
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (i > 0 && channels[i] <= channels[i - 1]) {
      throw InputError(table.where("channels"),
                       fmt::format("{} is out of order; accepted: rising counts", channels[i]));
    }
    CalibratedOverlap& overlap = c.overlaps.emplace_back();
    overlap.channels = channels[i];
    overlap.compute_slowdown = compute[i];
    if (has_memory) overlap.memory_slowdown = memory[i];
    overlap.collective_slowdown = collective[i];
  }
}

void read_origin(TomlTable& table, CalibrationOrigin& origin) {
  origin.name = table.string("name");
  origin.device = table.string("device");
  origin.gpu = table.string_or("gpu", "");
  origin.driver = table.string_or("driver", "");
  origin.executor = table.string("executor");
  origin.source = table.string("source");
  origin.date = table.string("date");
  origin.versions = table.strings("versions");
  const std::string& d = origin.date;
  bool is_date = d.size() == 10 && d[4] == '-' && d[7] == '-';
  for (std::size_t i = 0; is_date && i < d.size(); ++i) {
    is_date = i == 4 || i == 7 || (d[i] >= '0' && d[i] <= '9');
  }
  if (!is_date) {
    throw InputError(table.where("date"), "'" + d + "' is no date; accepted: \"2026-11-30\"");
  }
}

}  // namespace

Calibration parse_calibration(std::string_view text, const std::string& file) {
  TomlTable root = TomlTable::from_text(text, file);
  Calibration c;
  const std::string said = root.string("schema");
  if (said != schema) throw not_accepted(root.where("schema"), said, {std::string(schema)});
  std::optional<TomlTable> machine = root.table("machine");
  if (!machine) throw InputError({file, 0, "machine"}, "is missing; accepted: a table [machine]");
  read_origin(*machine, c.origin);
  machine->finish();
  if (std::optional<TomlTable> host = root.table("host")) {
    c.host.launch_us = host->optional_number("launch_us", {0, 1e6});
    c.host.bare_launch_us = host->optional_number("bare_launch_us", {0, 1e6});
    c.host.op_overhead_us = host->optional_number("op_overhead_us", {0, 1e6});
    host->finish();
  }
  if (std::optional<TomlTable> memory = root.table("memory")) {
    c.kernels.memory_bytes_per_second = memory->number("gbps", {1e-6, 1e6}) * 1e9;
    memory->finish();
  }
  const auto each = [&](const char* key, void (*read)(TomlTable&, Calibration&)) {
    for (TomlTable& table : root.tables(key)) {
      read(table, c);
      table.finish();
    }
  };
  each("gemm", read_gemms);
  each("convolution", read_convolutions);
  each("attention", read_attentions);
  each("memory_kernel", read_memory_kernels);
  each("collective", read_collective);
  if (std::optional<TomlTable> overlap = root.table("interference")) {
    read_overlap(*overlap, c);
    overlap->finish();
  }
  root.finish();
  if (!c.kernels.empty() && c.origin.gpu.empty()) {
    throw InputError(machine->where("gpu"),
                     "is missing, and there are kernels; accepted: the name of the GPU they are of "
                     "(`stepcast list gpus`)");
  }
  return c;
}

Calibration read_calibration(const std::string& path) {
  return parse_calibration(read_file(path, 16ll << 20), path);
}

}  // namespace stepcast
