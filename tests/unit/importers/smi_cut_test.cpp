// A text of nvidia-smi that was cut, at its end or at its right edge, is refused or gives the whole
// machine: never one with fewer devices.
#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "topologies/importers/smi_matrix.hpp"

using namespace stepcast;

namespace {

const std::string here = STEPCAST_TEST_DATA "/data/smi/";

std::string cut_at_column(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t from = 0;
  while (from < text.size()) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    out += text.substr(from, std::min(end - from, width)) + "\n";
    from = end + 1;
  }
  return out;
}

// Names of all columns, or nothing where it is refused.
std::optional<std::vector<std::string>> names_of(const std::string& text) {
  try {
    return read_smi_matrix(text, "t").names;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string refusal(const std::string& text) {
  try {
    read_smi_matrix(text, "topo.txt");
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("nvidia-smi: cut at its end or its right edge, a text never lacks a device in silence") {
  for (const auto& entry : std::filesystem::directory_iterator(here)) {
    if (entry.path().extension() != ".txt") continue;
    CAPTURE(entry.path().filename().string());
    const std::string text = read_file(entry.path().string());
    const auto whole = names_of(text);
    if (!whole) continue;
    for (std::size_t length = 0; length < std::min<std::size_t>(text.size(), 6000); ++length) {
      const auto cut = names_of(text.substr(0, length));
      if (cut) REQUIRE_MESSAGE(*cut == *whole, length);
    }
    for (std::size_t width = 0; width < 400; ++width) {
      const auto cut = names_of(cut_at_column(text, width));
      if (cut) REQUIRE_MESSAGE(*cut == *whole, width);
    }
  }
}

TEST_CASE("nvidia-smi: what a cut left out is named with its line") {
  CHECK(refusal("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-31\n") ==
        "topo.txt:1: has a column GPU1 but no row of it; accepted: a row for each of the 2 columns "
        "(is the text cut off?)");
  CHECK(refusal("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\n") ==
        "topo.txt:3: has 1 cell; accepted: 2, one a column of the header in line 1 (is the text "
        "cut off?)");
  // The right edge: GPU2's column is gone, its row is not.
  CHECK(refusal("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \nGPU2\tSYS\tSYS\n") ==
        "topo.txt:4: is a row of GPU2, which the header in line 1 has no column of; accepted: one "
        "of GPU0, GPU1 (is the text cut off at its right?)");
  // The header's last name is gone, the cells are not.
  CHECK(refusal("\tGPU0\tGPU1\tGPU\nGPU0\t X \tNV4\tSYS\nGPU1\tNV4\t X \tSYS\n") ==
        "topo.txt:2: has more than 2 cells; accepted: one a column of the header in line 1, GPU0, "
        "GPU1");
}

TEST_CASE("nvidia-smi: a second row of a device is refused, the whole matrix again is not") {
  const std::string matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n";
  CHECK(refusal(matrix + "GPU0\t X \tSYS\n") ==
        "topo.txt:4: is a second row of GPU0; accepted: one row for each column");
  CHECK(refusal("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n") ==
        "topo.txt:3: is a second row of GPU0; accepted: one row for each column");
  CHECK(refusal(matrix + matrix) == "taken");
}
