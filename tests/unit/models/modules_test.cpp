// Lists of modules, as text.
#include "models/modules.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;

namespace {

std::string problem(const std::string& text) {
  std::vector<Module> modules;
  const auto found = parse_modules(text, modules);
  return found ? found->word + " " + found->message.substr(0, 44) : "none";
}

}  // namespace

TEST_CASE("a list of modules is read and written back") {
  const std::string text =
      "attn.q=q+bias attn.q_norm=q_norm+wide sinks=tensor:64+bare conv=tensor:8x1x4+bias "
      "in=linear:32x8 -=norm1";
  std::vector<Module> modules;
  REQUIRE_FALSE(parse_modules("  " + text + "\n", modules).has_value());
  REQUIRE(modules.size() == 6);
  CHECK(modules[0].bias);
  CHECK(modules[1].wide);
  CHECK(modules[2].bare);
  CHECK(modules[3].shape == std::vector<std::int64_t>{8, 1, 4});
  CHECK(modules[4].part == Part::linear);
  CHECK(modules[5].name == "-");
  CHECK(to_text(modules) == text);
}

TEST_CASE("what is no module is refused with the word") {
  CHECK(problem("") == "none");
  CHECK(problem("a=q b") == "b is no module; accepted: NAME=PART");
  CHECK(problem("=q") == "=q is no module; accepted: NAME=PART");
  CHECK(problem("a=kq") == "a=kq 'kq' is no part; accepted: norm1, norm2, pos");
  CHECK(problem("a=q+bais") == "a=q+bais '+bais' is not known; accepted: +bias, +wide");
  CHECK(problem("a=linear") == "a=linear needs its shape; accepted: linear:OUTxIN, te");
  CHECK(problem("a=q:8x8") == "a=q:8x8 has the shape that its block gives it; accep");
  CHECK(problem("a=tensor:0") == "a=tensor:0 '0' is no shape; accepted: up to 4 sizes of ");
  CHECK(problem("a=tensor:8x") == "a=tensor:8x '8x' is no shape; accepted: up to 4 sizes of");
  CHECK(problem("a=tensor:1x1x1x1x1") ==
        "a=tensor:1x1x1x1x1 '1x1x1x1x1' is no shape; accepted: up to 4 s");
  CHECK(problem("a=linear:8") == "a=linear:8 a linear has two sizes; accepted: linear:OUT");
  CHECK(problem("a=norm:8x8") == "a=norm:8x8 a norm has one size; accepted: norm:WIDTH");
}
