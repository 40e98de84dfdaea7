// The program's output, word for word: tests/golden/NAME.txt for each line "NAME ARGUMENTS" of
// tests/golden/cases. tests/golden/regenerate.sh writes them anew; read the diff before committing.
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

TEST_CASE("the output of every golden case is unchanged") {
  const std::string folder = STEPCAST_SOURCE_DIR "/tests/golden/";
  std::stringstream cases(read(folder + "cases"));
  int checked = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const Output o = run(line.substr(space + 1));
    const std::string expected = read(folder + name + ".txt");
    CAPTURE(name);
    CHECK_FALSE(expected.empty());
    CHECK(o.out + o.err == expected);
    ++checked;
  }
  CHECK(checked >= 8);
}

TEST_CASE("the README shows what the program prints") {
  const std::string readme = read(STEPCAST_SOURCE_DIR "/README.md");
  const std::string page = read(STEPCAST_SOURCE_DIR "/tests/golden/fsdp2-16-nodes.txt");
  REQUIRE_FALSE(page.empty());
  CHECK(readme.find("```text\n" + page + "```\n") != std::string::npos);
}

TEST_CASE("docs/memory.md shows what the program prints") {
  const std::string page = read(STEPCAST_SOURCE_DIR "/docs/memory.md");
  for (const char* name : {"memory-params", "volume-params"}) {
    const std::string text =
        read(STEPCAST_SOURCE_DIR "/tests/golden/" + (name + std::string(".txt")));
    CAPTURE(name);
    REQUIRE_FALSE(text.empty());
    CHECK(page.find("```text\n" + text + "```\n") != std::string::npos);
  }
}

// "$ stepcast ARGUMENTS", then a ```text block: all of what it prints, or an excerpt.
// docs/refresh.py writes them anew.
TEST_CASE("every page shows what the program prints") {
  int checked = 0;
  const std::filesystem::path root = STEPCAST_SOURCE_DIR;
  // A database that an earlier build left would answer with that build's figures.
  for (const char* name : {"build/sweep.db", "build/sweep.db-wal", "build/sweep.db-shm"}) {
    std::filesystem::remove(root / name);
  }
  std::vector<std::filesystem::path> pages{root / "README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  for (const std::filesystem::path& page : pages) {
    const std::string text = read(page.string());
    const std::string mark = "$ stepcast ";
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
      const std::string arguments =
          text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
      const std::string fence = "```text\n";
      const std::size_t begin = text.find(fence, at);
      if (begin == std::string::npos || begin > at + arguments.size() + 40) continue;
      const std::size_t from = begin + fence.size();
      const Output o = run(arguments);
      CAPTURE(page.string());
      CAPTURE(arguments);
      const std::string block = text.substr(from, text.find("```", from) - from);
      CHECK((o.out + o.err).find(block) != std::string::npos);
      ++checked;
    }
  }
  CHECK(checked >= 9);
}
