// The program's output, word for word: tests/golden/NAME.txt for each line "NAME ARGUMENTS" of
// tests/golden/cases. tests/golden/regenerate.sh writes them anew; read the diff before committing.
#include <doctest/doctest.h>

#include <sstream>

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
