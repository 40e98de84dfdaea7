#pragma once
// One `--vary KEY=VALUES`: a key of the scenario and what it takes in turn.
//
//   strategy=ddp,fsdp2,hsdp       a list
//   nodes=1,2,4,...,128           a list with its middle left out: the steps before it go on, in
//                                 equal factors where three values say so, else by equal distances
//                                 (also with the one character for ...)
//   bucket_cap_mb=1:200:log10     10 values from 1 to 200 in equal factors, four digits each
//   bucket_cap_mb=5:50:lin10      in equal distances; whole numbers are rounded
//   micro_batch=1:8               all whole numbers; 8:64:step8
//   bucket_cap_mb=1:200:log       a range without a number of values: for --sample
//   perturb=rank=1:slow=0.5;...   a key that is a list itself: its values are parted by ;
//
// Values are kept as canonical texts (ScenarioKey::text), each once, in the order in which they
// were said. Tested by tests/unit/sweep/axis_test.cpp.

#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/scenario_keys.hpp"

namespace stepcast {

struct SweepAxis {
  struct Span {  // that samples are drawn from
    double low = 0, high = 0;
    bool logarithmic = false;
  };

  const ScenarioKey* key = nullptr;
  std::vector<std::string> values;  // empty: a span alone
  std::optional<Span> span;         // of a range of numbers

  std::string name() const { return key->name(); }
};

// "KEY=VALUES". Throws InputError at --vary.
SweepAxis parse_axis(const std::string& text);

// The value of a span at u in [0, 1); of values the one there.
std::string value_at(const SweepAxis& axis, double u);

// Where errors about --vary point to.
Where vary_flag();

}  // namespace stepcast
