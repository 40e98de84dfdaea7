#include "sim/report/fullest_link.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

TEST_CASE("the link that is loaded longest is the one, over all calls together") {
  CHECK(fullest_link({{"nvlink", 3}, {"nic", 2}}) == "nvlink");
  CHECK(fullest_link({{"nvlink", 3}, {"nic", 2}, {"nic", 2}}) == "nic");
  CHECK(fullest_link({}).empty());
}

TEST_CASE("a PCIe link that is hardly fuller than the NIC behind it is the way to the network") {
  CHECK(fullest_link({{"pcie", 50.0 / 48}, {"nic", 1}}) == "nic");
  CHECK(fullest_link({{"pcie", 2}, {"nic", 1}}) == "pcie");
  CHECK(fullest_link({{"pcie", 2}, {"nvlink", 1.9}}) == "pcie");
}
