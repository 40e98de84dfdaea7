// The NVLinks of a machine's TOML: a switch, all to all, or pair by pair, never more than the GPU
// has.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "topologies/machine_reader.hpp"

namespace stepcast::machine_reader {
namespace {

// Adds `links` NVLinks after checking that the part has them.
void add_pair(TomlTable& table, MachineBuilder& builder, const Gpu& gpu, int a, int b, int links,
              std::string_view key) {
  for (const int end : {a, b}) {
    if (builder.nvlinks_of(end) + links > gpu.nvlinks) {
      throw InputError(table.where(key),
                       fmt::format("GPU {} would have {} NVLinks; accepted: at most the {} of {}",
                                   end, builder.nvlinks_of(end) + links, gpu.nvlinks, gpu.name));
    }
  }
  builder.link_nvlinks(a, b, links);
}

void read_pairs(TomlTable& table, MachineBuilder& builder, const Gpu& gpu, int gpus) {
  const auto bad = [&table, gpus](std::string_view why) {
    return InputError(
        table.where("pairs"),
        fmt::format("{}; accepted: [GPU, GPU, links] with two GPUs of 0 to {}", why, gpus - 1));
  };
  std::set<std::pair<int, int>> seen;
  const auto rows = table.string_rows("pairs");
  if (rows.empty()) throw bad("is missing or empty");
  for (const std::vector<std::string>& row : rows) {
    const std::string text = fmt::format("[{}]", fmt::join(row, ", "));
    std::vector<int> numbers;
    for (const std::string& cell : row) {
      if (cell.empty() || cell.size() > 6 ||
          cell.find_first_not_of("0123456789") != std::string::npos) {
        throw bad(text + " holds something else than whole numbers");
      }
      numbers.push_back(std::stoi(cell));
    }
    if (numbers.size() != 3) throw bad(text + " has not three numbers");
    const int a = std::min(numbers[0], numbers[1]);
    const int b = std::max(numbers[0], numbers[1]);
    if (a == b || b >= gpus || numbers[2] < 1) throw bad(text + " is no pair of this machine");
    if (!seen.emplace(a, b).second) throw bad(text + " names a pair twice");
    add_pair(table, builder, gpu, a, b, numbers[2], "pairs");
  }
}

}  // namespace

void read_nvlinks(TomlTable& root, const Gpu& gpu, int gpus, MachineBuilder& builder) {
  std::optional<TomlTable> table = root.table("nvlink");
  if (!table) return;
  if (gpu.nvlinks == 0) {
    throw InputError(table->where(),
                     fmt::format("{} has no NVLink; accepted: no [nvlink]", gpu.name));
  }
  const std::string kind = table->string("kind");
  const std::vector<std::string> kinds = {"nvswitch", "all_to_all", "pairs"};
  if (kind == "nvswitch") {
    builder.add_nvswitch();
  } else if (kind == "all_to_all") {
    const auto links = static_cast<int>(table->integer("links_per_pair", {1, 1000}));
    for (int a = 0; a < gpus; ++a) {
      for (int b = a + 1; b < gpus; ++b) {
        add_pair(*table, builder, gpu, a, b, links, "links_per_pair");
      }
    }
  } else if (kind == "pairs") {
    read_pairs(*table, builder, gpu, gpus);
  } else {
    throw not_accepted(table->where("kind"), kind, kinds);
  }
  table->finish();
}

}  // namespace stepcast::machine_reader
