// What becomes of each published job file: the scenario that it makes, what it leaves to be said,
// or the sentence that refuses it. The table is job-files.txt; every line of it was read beside its
// file. STEPCAST_WRITE=1 in the environment writes it anew: read `git diff` then.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/toml.hpp"
#include "sim/jobs/combine.hpp"
#include "sim/jobs/detect.hpp"
#include "sim/jobs/scenario_text.hpp"

namespace fs = std::filesystem;
using namespace stepcast;

namespace {

const fs::path folder = STEPCAST_TEST_DATA;

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "data")) {
    if (!entry.is_regular_file() || entry.path().filename() == "SOURCES.md") continue;
    names.push_back(fs::relative(entry.path(), folder / "data").string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The scenario's lines without their comments, and the keys that are asked for.
std::string summary(const std::string& name) {
  const std::string path = (folder / "data" / name).string();
  std::string out = name + "\n";
  try {
    const std::vector<jobs::Job> read = jobs::read_jobs({path});
    const jobs::Combined combined = jobs::combine(read, Scenario{}, {.ask = true});
    out +=
        std::string("  ") + jobs::to_string(read.front().kind) + ", " + read.front().syntax + "\n";
    std::istringstream lines(jobs::scenario_text(combined));
    std::string asked;
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.starts_with("# ")) continue;
      if (line.starts_with("#")) continue;
      out += "  " + line.substr(0, line.find("  ")) + "\n";
    }
    for (const jobs::Asked& a : combined.asked) {
      if (a.where.line > 0) asked += " " + a.key;
    }
    if (!asked.empty()) out += "  to be said:" + asked + "\n";
  } catch (const InputError& error) {
    std::string text = error.what();
    while (text.find(path) != std::string::npos) text.replace(text.find(path), path.size(), "FILE");
    out += "  refused: " + text + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("every published job file is read as it is meant, or refused with the reason") {
  std::string all;
  for (const std::string& name : files()) all += summary(name);
  const std::string table = (folder / "job-files.txt").string();
  if (std::getenv("STEPCAST_WRITE") != nullptr) write_file(table, all);
  const std::string expected = read_file(table);
  std::istringstream is(all), was(expected);
  std::string is_line, was_line, file;
  while (std::getline(is, is_line)) {
    if (!is_line.starts_with(" ")) file = is_line;
    CAPTURE(file);
    REQUIRE(std::getline(was, was_line));
    CHECK(is_line == was_line);
    if (is_line != was_line) break;
  }
  CHECK(all.size() == expected.size());
}

TEST_CASE("a scenario imported from a published job file reads back as itself") {
  int imported = 0;
  for (const std::string& name : files()) {
    CAPTURE(name);
    std::optional<jobs::Combined> combined;
    try {
      combined = jobs::combine(jobs::read_jobs({(folder / "data" / name).string()}), Scenario{},
                               {.ask = true});
    } catch (const InputError&) {
      continue;  // refused: the table's matter
    }
    const Scenario again = parse_scenario(jobs::scenario_text(*combined), "again");
    std::vector<const void*> there;
    visit_scenario(again, [&](const KeyInfo&, const auto& field) { there.push_back(&field); });
    std::size_t i = 0;
    visit_scenario(combined->scenario, [&](const KeyInfo& key, const auto& field) {
      CAPTURE(std::string(key.name));
      using Field = std::remove_reference_t<decltype(field)>;
      CHECK(*static_cast<const Field*>(there[i++]) == field);
    });
    ++imported;
  }
  CHECK(imported > 50);
}
