#include "base/version.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

using namespace stepcast;

namespace {

std::string printed(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char block[4096];
  for (std::size_t n = 0; (n = std::fread(block, 1, sizeof block, pipe)) > 0;)
    text.append(block, n);
  pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("the version is three numbers") {
  int dots = 0;
  for (const char c : version()) {
    CHECK((c == '.' || (c >= '0' && c <= '9')));
    dots += c == '.';
  }
  CHECK(dots == 2);
}

TEST_CASE("a build is named by its version and 12 digits, the same at every call") {
  const std::string& text = build_version();
  const std::string start = std::string(version()) + "+";
  REQUIRE(text.size() == start.size() + 12);
  CHECK(text.starts_with(start));
  CHECK(std::all_of(text.begin() + static_cast<std::ptrdiff_t>(start.size()), text.end(),
                    [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }));
  CHECK(&build_version() == &text);
}

TEST_CASE("the digits are those of the linker's build id") {
  // "Build ID: 4f1d..." of binutils, on this very program.
  const std::string notes =
      printed("readelf -n /proc/" + std::to_string(getpid()) + "/exe 2>/dev/null");
  const std::size_t at = notes.find("Build ID: ");
  if (at == std::string::npos) return;  // no readelf here, or another linker's default
  const std::string id = notes.substr(at + 10, 12);
  CHECK(build_version() == std::string(version()) + "+" + id);
}
