#pragma once
// What a machine costs by the hour and draws in watts: topologies/catalog/prices.toml, with a file
// of the user's laid over it.
//
//   [power]
//   pue = 1.25                 # of the site: all power over that of the machines
//   source = "..."
//   [[machine]]
//   name = "aws-p5"            # a catalog name, or the path of a machine that is planned with
//   usd_per_gpu_hour = 6.88    # all of a node's GPUs are paid for, used or not
//   price_source = "..."       # where it was read; price_date says when
//   price_date = "2025-06"
//   overhead_watts = 4600      # of a node, beside its GPUs at their board limit
//   power_source = "..."
//
// A machine without a price has no cost, never a cost of zero. Tested by
// tests/unit/plan/prices_test.cpp.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct MachinePrice {
  std::optional<double> usd_per_gpu_hour;
  std::string price_source, price_date;  // empty with no price
  std::optional<double> overhead_watts;
  std::string power_source;
};

class Prices {
 public:
  static Prices shipped();

  // Lays a file over what is there, key by key. `known`: names that it may have. A price without
  // its source says that it is of this file. Throws InputError.
  void lay_over(std::string_view text, const std::string& file,
                const std::vector<std::string>& known);

  MachinePrice of(const std::string& machine) const;  // nothing known: an empty one
  double pue() const { return pue_; }
  const std::string& pue_source() const { return pue_source_; }

 private:
  std::map<std::string, MachinePrice> machines_;
  double pue_ = 1;
  std::string pue_source_;
};

}  // namespace stepcast
