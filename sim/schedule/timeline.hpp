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
  std::int32_t role = 0;    // role (or rank class) index
  std::int32_t step = 0;    // 0-based count of executed steps
  OpIndex op = -1;          // index into that step's program
  Seconds issued = 0;       // the lane had issued it (host time)
  Seconds start = 0;
  Seconds end = 0;
  Seconds solo = 0;         // its cost when nothing else runs; end - start - solo is interference
  Bound bound = Bound::start;
  OpIndex cause = -1;       // the op that bound it, or -1
  std::int32_t cause_step = 0;
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
  // the only step).
  Seconds period() const;
};

}  // namespace stepcast
