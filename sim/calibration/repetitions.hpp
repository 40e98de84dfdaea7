#pragma once
// A time that was taken several times: its median, and (third quartile - first) / median as its
// spread. Four values 10, 11, 12, 40: median 11.5, quartiles 10.75 and 19, spread 0.72.
// Tested by tests/unit/calibration/from_trace_test.cpp.

#include <vector>

namespace stepcast {

struct Repeated {
  double median = 0;
  double spread = 0;
};

// Of at least one value, in any order.
Repeated repeated(std::vector<double> values);

}  // namespace stepcast
