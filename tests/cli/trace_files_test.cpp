// What `trace summary` says of each published trace, or why it refuses it: the table is
// tests/interop/trace-files.txt, read beside the files. Those that are too large to lie in the tree
// are looked for where STEPCAST_TRACES says. STEPCAST_WRITE=1 writes the table anew where all are
// there: read `git diff` then.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/toml.hpp"
#include "tests/cli/run.hpp"

using namespace stepcast;
using namespace stepcast::test;
namespace fs = std::filesystem;

namespace {

const fs::path folder = STEPCAST_SOURCE_DIR "/tests/interop";

fs::path place_of(const std::string& name) {
  const fs::path in_tree = folder / "traces" / name;
  const char* const others = std::getenv("STEPCAST_TRACES");
  return fs::exists(in_tree) || others == nullptr ? in_tree : fs::path(others) / name;
}

// Without the longest kernels, blank lines and the folder.
std::string summary(const fs::path& path) {
  const Output o = run("trace summary " + path.string());
  std::istringstream lines(o.code == 0 ? o.out : o.err);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("longest kernels")) break;
    while (line.ends_with(' ')) line.pop_back();
    if (line.empty()) continue;
    for (const std::string& name : {path.string(), path.filename().string()}) {
      const std::size_t at = line.find(name);
      if (at != std::string::npos) line.replace(at, name.size(), "FILE");
    }
    text += "  " + line + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("every published trace is summed up as it is meant, or refused with the reason") {
  const fs::path table = folder / "trace-files.txt";
  std::vector<std::string> names;
  std::map<std::string, std::string> expected;
  std::istringstream lines(read_file(table.string()));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(' ')) {
      names.push_back(line);
    } else {
      expected[names.back()] += line + "\n";
    }
  }
  REQUIRE(names.size() == 9);
  std::string all;
  int there = 0;
  for (const std::string& name : names) {
    CAPTURE(name);
    const bool found = fs::exists(place_of(name));
    const std::string now = found ? summary(place_of(name)) : expected[name];
    CHECK(now == expected[name]);
    all += name + "\n" + now;
    there += found ? 1 : 0;
  }
  CHECK(there >= 3);
  MESSAGE(there, " of ", names.size(), " traces are there");
  if (std::getenv("STEPCAST_WRITE") != nullptr) write_file(table.string(), all);
}
