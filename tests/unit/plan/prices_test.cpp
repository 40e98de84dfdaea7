#include "sim/plan/prices.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "topologies/topology.hpp"

using namespace stepcast;

namespace {

std::string message_of(const std::string& text) {
  Prices prices = Prices::shipped();
  try {
    prices.lay_over(text, "mine.toml", catalog_machines());
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every machine of the catalog has a power, and every price its source and date") {
  const Prices prices = Prices::shipped();
  int priced = 0;
  for (const std::string& name : catalog_machines()) {
    CAPTURE(name);
    const MachinePrice p = prices.of(name);
    CHECK(p.overhead_watts.has_value());
    CHECK_FALSE(p.power_source.empty());
    CHECK(p.usd_per_gpu_hour.has_value() == !p.price_source.empty());
    CHECK(p.usd_per_gpu_hour.has_value() == !p.price_date.empty());
    priced += p.usd_per_gpu_hour ? 1 : 0;
  }
  CHECK(priced >= 10);
  CHECK(prices.pue() > 1);
}

TEST_CASE("a machine that is bought has no price, which is not a price of nothing") {
  CHECK_FALSE(Prices::shipped().of("dgx-h100").usd_per_gpu_hour.has_value());
}

TEST_CASE("a file lies over the catalog key by key, and is then the source") {
  Prices prices = Prices::shipped();
  prices.lay_over("[power]\npue = 1.1\n[[machine]]\nname = \"dgx-h100\"\nusd_per_gpu_hour = 2\n",
                  "mine.toml", catalog_machines());
  const MachinePrice p = prices.of("dgx-h100");
  CHECK(*p.usd_per_gpu_hour == 2);
  CHECK(p.price_source == "mine.toml");
  CHECK(*p.overhead_watts == 4600);  // the catalog's
  CHECK(prices.pue() == 1.1);
  CHECK(prices.of("aws-p5").usd_per_gpu_hour.has_value());
}

TEST_CASE("what is wrong with a price is said with its line") {
  CHECK(message_of("[[machine]]\nname = \"dgx-h10\"\n").find("mine.toml:2: machine[0].name: ") ==
        0);
  CHECK(message_of("[[machine]]\nname = \"dgx-h10\"\n").find("dgx-h100") != std::string::npos);
  CHECK(
      message_of("[[machine]]\nname = \"dgx-h100\"\nusd_per_gpu_hour = -1\n").find("mine.toml:3") ==
      0);
  CHECK(message_of("[[machine]]\nname = \"dgx-h100\"\nusd_per_gpu_hour = nan\n")
            .find("mine.toml:3") == 0);
  CHECK(message_of("[[machine]]\nname = \"dgx-h100\"\nprice_date = \"2025\"\n").find("no price") !=
        std::string::npos);
  CHECK(
      message_of("[[machine]]\nname = \"dgx-2\"\n[[machine]]\nname = \"dgx-2\"\n").find("twice") !=
      std::string::npos);
  CHECK(message_of("[power]\npue = 0.5\n").find("mine.toml:2") == 0);
  CHECK(message_of("[[machine]]\nname = \"dgx-2\"\nusd = 3\n").find("usd") != std::string::npos);
}
