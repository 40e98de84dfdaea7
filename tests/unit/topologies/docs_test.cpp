// The worked example of docs/topologies.md does what the page says.
#include <doctest/doctest.h>

#include "base/toml.hpp"
#include "small_machine.hpp"
#include "topologies/describe.hpp"

namespace stepcast {
namespace {

// The first fenced block that starts with `fence` after `from`.
std::string block(const std::string& page, const std::string& from, const std::string& fence) {
  const std::size_t after = page.find(from);
  REQUIRE(after != std::string::npos);
  const std::size_t open = page.find(fence + "\n", after);
  REQUIRE(open != std::string::npos);
  const std::size_t begin = open + fence.size() + 1;
  return page.substr(begin, page.find("```", begin) - begin);
}

TEST_CASE("the machine worked out in the documentation prints what the documentation shows") {
  const std::string page = read_file(STEPCAST_SOURCE_DIR "/docs/topologies.md");
  const Machine machine = test::parse(block(page, "`my-node.toml`:", "```toml"));
  const std::string shown = block(page, "prints, among the rest", "```");
  CHECK(shown.find("GPU3  PHB   PHB   NV12  X     PHB to NIC 0") != std::string::npos);
  CHECK(describe(machine).find(shown) != std::string::npos);
}

}  // namespace
}  // namespace stepcast
