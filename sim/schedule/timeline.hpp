#pragma once
// What happened when: the one type that every engine and every executor returns, so that forecast
// and measurement are compared, drawn and exported by one piece of code.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

// Why a span started when it did: the constraint that was met last.
enum class Bound : std::uint8_t {
  start,         // nothing held it: the beginning
  host,          // the lane issued it only then
  stream,        // the op before it on its stream
  wait,          // an op that its stream (or lane) waited for: `cause`
  communicator,  // the collective before it on its communicator: `cause`
  peer,          // another role or class entered the collective later
};

struct Span {
  std::int32_t role = 0;  // role (or rank class) index
  std::int32_t step = 0;  // 0-based count of executed steps
  OpIndex op = -1;        // index into that step's program
  Seconds issued = 0;     // the lane had issued it (host time)
  Seconds start = 0;
  Seconds end = 0;
  Seconds solo = 0;  // its cost when nothing else runs; end - start - solo is interference
  Bound bound = Bound::start;
  OpIndex cause = -1;  // the op that bound it, or -1
  std::int32_t cause_step = 0;
  Seconds peer_wait = 0;  // of a collective: from when this role could have begun to `start`
};

// Allocated bytes after an alloc or free took effect, in the order of host issue.
struct MemorySample {
  std::int32_t role = 0;
  std::int32_t step = 0;
  OpIndex op = -1;
  Seconds time = 0;
  Bytes allocated = 0;
};

struct StepSpan {
  Name program;  // StepProgram::name
  std::int32_t program_index = 0;
  Seconds begin = 0;  // previous step's end
  Seconds end = 0;    // the last op of the step has ended on every stream
};

struct Timeline {
  std::string engine;  // "formula", "fluid", "cpu threads", ...
  std::vector<StepSpan> steps;
  // One span per op that takes place on a stream or blocks a lane (compute, collective, copy,
  // host_work, host_wait, storage), ordered by step, role, op.
  std::vector<Span> spans;
  std::vector<MemorySample> memory;

  // Period of the steady step: end of the last step minus end of the one before (or the length of
  // the only step). A timeline without steps has none: STEPCAST_ASSERT.
  Seconds period() const;
};

// The op that a span is of.
const Op& op_of(const Schedule& schedule, const Timeline& timeline, const Span& span);

// Half-open in meaning; a list of them is "merged" when sorted, disjoint and not touching.
struct Interval {
  Seconds begin = 0;
  Seconds end = 0;
};
std::vector<Interval> merged(std::vector<Interval> list);  // any order, overlaps allowed
// Both take merged lists and return one. subtract: what is in `a` and not in `b`.
std::vector<Interval> intersect(const std::vector<Interval>& a, const std::vector<Interval>& b);
std::vector<Interval> subtract(const std::vector<Interval>& a, const std::vector<Interval>& b);
Seconds length(const std::vector<Interval>& list);

// When a role's stream was busy within a window, merged: spans of stream ops, whatever step they
// belong to, cut to the window. Waiting inside a collective for a late peer counts as busy, as on
// the GPU. For the steady step take the window of steps.back().
std::vector<Interval> busy(const Timeline& timeline, const Schedule& schedule, int role,
                           StreamIndex stream, Interval window);
// The same as a fraction of the window for every stream of the schedule.
std::vector<double> occupancy(const Timeline& timeline, const Schedule& schedule, int role,
                              Interval window);

}  // namespace stepcast
