#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

std::int64_t elements(const Model& model, const WrapUnit& unit) {
  std::int64_t sum = 0;
  for (const int i : unit.parameters)
    sum += model.parameters[static_cast<std::size_t>(i)].elements();
  return sum;
}

}  // namespace

TEST_CASE("wrapped by block, Llama-2-7B is a root of 262,148,096 and 32 units of 202,383,360") {
  const Model model = load_model("llama-2-7b");
  const std::vector<WrapUnit> units = wrap_units(model, WrapPolicy::block);
  REQUIRE(units.size() == 33);
  CHECK(units[0].name == Name("root"));
  CHECK(units[0].root);
  CHECK(units[0].layers == std::vector<int>{0, 33, 34});
  CHECK(2 * 32000ll * 4096 + 4096 == 262148096);
  CHECK(elements(model, units[0]) == 262148096);
  for (std::size_t i = 1; i < units.size(); ++i) {
    CHECK(units[i].name == Name("layers." + std::to_string(i - 1)));
    CHECK(units[i].layers == std::vector<int>{static_cast<int>(i)});
    CHECK_FALSE(units[i].root);
    CHECK_FALSE(units[i].keep_after_forward);
    CHECK(elements(model, units[i]) == 202383360);
  }
}

TEST_CASE("torchtitan's wrapping keeps norm and head after forward and leaves the root nothing") {
  const Model model = load_model("llama-3-8b");
  const std::vector<WrapUnit> units = wrap_units(model, WrapPolicy::torchtitan);
  REQUIRE(units.size() == 34);
  CHECK(units.front().layers == std::vector<int>{0});
  CHECK(elements(model, units.front()) == 128256ll * 4096);
  CHECK(units.back().layers == std::vector<int>{33, 34});
  CHECK(elements(model, units.back()) == 128256ll * 4096 + 4096);
  CHECK(units.back().keep_after_forward);
  for (const WrapUnit& unit : units) CHECK_FALSE(unit.root);
}

TEST_CASE("a tied head's table is in the root once, torchtitan's wrapping is refused") {
  const Model model = load_model("llama-3.2-1b");
  const std::vector<WrapUnit> units = wrap_units(model, WrapPolicy::block);
  CHECK(elements(model, units[0]) == 128256ll * 2048 + 2048);
  CHECK_THROWS_WITH_AS(wrap_units(model, WrapPolicy::torchtitan),
                       "wrap: torchtitan puts embedding and head in units of their own, which "
                       "llama-3.2-1b with its tied head has not; accepted: block",
                       InputError);
}

TEST_CASE("both wrappings cover every parameter once") {
  for (const std::string& name : catalog_models()) {
    CAPTURE(name);
    const Model model = load_model(name);
    for (const WrapPolicy policy : {WrapPolicy::block, WrapPolicy::torchtitan}) {
      if (policy == WrapPolicy::torchtitan && model.architecture.tied_embeddings) continue;
      std::vector<int> all;
      for (const WrapUnit& unit : wrap_units(model, policy)) {
        CHECK(std::is_sorted(unit.parameters.begin(), unit.parameters.end()));
        all.insert(all.end(), unit.parameters.begin(), unit.parameters.end());
      }
      std::sort(all.begin(), all.end());
      REQUIRE(all.size() == model.parameters.size());
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<int>(i));
    }
  }
}

TEST_CASE("plain tensors are units of their own without a root") {
  const Model model = model_of_tensors({{"a", {10, 3}}, {"b", {1}}});
  const std::vector<WrapUnit> units = wrap_units(model, WrapPolicy::block);
  REQUIRE(units.size() == 2);
  CHECK(units[0].name == Name("a"));
  CHECK(units[1].parameters == std::vector<int>{1});
}
