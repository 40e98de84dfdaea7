#pragma once
// A command as a user runs it: started, waited for, measured from outside.

#include <string>
#include <vector>

namespace stepcast::bench {

struct ProcessCost {
  double seconds = 0;  // wall time from fork to exit, median
  double peak_mb = 0;  // largest resident set, 1e6 B, highest of all runs
};

// Runs it `times` times, output thrown away. Throws std::runtime_error when it fails;
// a step that does not fit is no failure.
// The kernel counts what the parent held before exec into the child's peak: call this while this
// process is still small.
ProcessCost measure(const std::vector<std::string>& command, int times);

double median(std::vector<double> values);

}  // namespace stepcast::bench
