#pragma once
// `stepcast trace summary` and `stepcast trace compare`, printed: text for people, JSON with the
// schemas stepcast.trace-summary/1 and stepcast.trace-comparison/1 (docs/json-schema.md).
// Tested by tests/cli/trace_test.cpp.

#include <string>
#include <vector>

#include "sim/interop/trace_compare.hpp"
#include "sim/interop/trace_summary.hpp"

namespace stepcast {

// Of one or more ranks: all of them in a table where there are several, the first in detail.
std::string to_text(const std::vector<TraceSummary>& ranks);
std::string to_json(const std::vector<TraceSummary>& ranks);

// A and B are what the two files are called.
std::string to_text(const TraceComparison& comparison, const TraceSummary& a,
                    const TraceSummary& b);
std::string to_json(const TraceComparison& comparison, const TraceSummary& a,
                    const TraceSummary& b);

}  // namespace stepcast
