#include "base/embedded.hpp"

#include <doctest/doctest.h>

#include <string>

#include "base/toml.hpp"

namespace stepcast::embedded {
std::span<const File> fixture();  // made by cmake/Embed.cmake from data/
}

namespace {

std::string data(std::string_view name) {
  return stepcast::read_file(std::string(STEPCAST_TEST_DATA "/data/") + std::string(name));
}

}  // namespace

TEST_CASE("an embedded file has every byte of the file on disk, whatever they are") {
  const auto files = stepcast::embedded::fixture();
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == "quotes.txt");
  CHECK(files[0].text.size() == 45);
  CHECK(files[1].name == "empty.txt");
  CHECK(files[1].text.empty());
  CHECK(files[2].text == "0123456789abcdef0123456789abcdef");
  for (const auto& file : files) CHECK(file.text == data(file.name));
}
