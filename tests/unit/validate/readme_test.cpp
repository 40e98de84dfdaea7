// The README's table of how right forecasts are, against what the ledger recorded.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>

#include "base/toml.hpp"
#include "validate/published/record.hpp"

using namespace stepcast;

namespace {

const std::string readme = read_file(STEPCAST_SOURCE_DIR "/README.md", 1 << 20);

// The first cells of the table's rows, and the source of the ledger that each is about.
const std::map<std::string, std::string> sources = {
    {"llm-foundry FSDP, 16 to 128 A100 and H100", "llmf"},
    {"the same on H100, fitted on A100 alone", "llmf-transfer"},
    {"Megatron-LM, up to 8 A100", "vtrain"},
    {"BERT, 16 to 256 A100", "dle-bert"},
    {"BERT's phase 2, 1 to 128 A100 and V100", "dle-bert-512"},
    {"ResNet-50 DDP, 16 to 64 V100", "ptddp"},
    {"torchtitan FSDP2, 8 H100", "titan"},
    {"llm-foundry in fp8, 8 H100", "llmf-fp8"},
    {"nanotron DDP and ZeRO-1 over EFA, 32 to 256 H100", "ultrascale"}};

std::string percent(double value) {
  return value < 10 ? fmt::format("{:.1f} %", value) : fmt::format("{:.0f} %", value);
}

}  // namespace

TEST_CASE("the README's errors are those that the ledger recorded") {
  TomlTable recorded = TomlTable::from_text(recorded_figures(), "recorded.toml");
  for (const auto& [words, name] : sources) {
    INFO(words);
    std::optional<TomlTable> figures = recorded.table(name);
    REQUIRE(figures);
    const std::string row =
        fmt::format("\n| {} | {} | {} |", words, percent(figures->number("step.check.median", {})),
                    percent(figures->number("step.check.worst", {})));
    INFO(row);
    CHECK(readme.find(row) != std::string::npos);
  }
}

TEST_CASE("the README counts as many bars met as docs/accuracy.md") {
  const std::string page = read_file(STEPCAST_SOURCE_DIR "/docs/accuracy.md", 1 << 20);
  const std::size_t end = page.find(" bars are met.");
  REQUIRE(end != std::string::npos);
  const std::string count = page.substr(page.rfind('\n', end) + 1, end - page.rfind('\n', end) - 1);
  CHECK(readme.find(count + " bars that the project set itself are met") != std::string::npos);
}
